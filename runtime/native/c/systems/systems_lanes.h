/* The solution of many small systems, one in each lane of a vector.
 *
 * Included once for each instruction set by systems_*.c, which say LANES, the doubles of its registers
 * (wider vectors would live on the stack), and KS_SYSTEMS, the name of ks_solve_systems for it.
 */
#include "systems_targets.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PIVOT 0.1 /* share of the largest entry of its column that a pivot has at least */

typedef double lanes __attribute__((vector_size(8 * LANES)));
typedef int64_t mask __attribute__((vector_size(8 * LANES)));

static inline lanes magnitude(lanes x) { return (lanes)((mask)x & INT64_MAX); }

/* Memory for one group. */
typedef struct {
    lanes *a; /* (n, n), by rows */
    lanes *b, *c, *y; /* n each */
    int *order; /* row of the matrix that is row k of the factors */
} group;

/* The row from k on that is the best pivot in the lane where it is worst; -1 if that is less than a
 * tenth of the largest one, or no number. */
static inline int best_row(int n, const lanes *a, int k) {
    lanes most = {0};
    double best = PIVOT;
    int row = -1;
    for (int i = k; i < n; i++) {
        const lanes size = magnitude(a[i * n + k]);
        const mask larger = size > most;
        most = (lanes)(((mask)size & larger) | ((mask)most & ~larger));
    }
    for (int i = k; i < n; i++) {
        const lanes share = magnitude(a[i * n + k]) / most;
        double worst = share[0];
        for (int l = 1; l < LANES; l++)
            worst = share[l] < worst || isnan(share[l]) ? share[l] : worst; /* NaN stays */
        if (worst >= best && (row < 0 || worst > best)) {
            best = worst;
            row = i;
        }
    }
    return row;
}

/* NaN is not zero. */
static inline int all_zero(lanes x) {
    const mask other = x != 0.0;
    int64_t any = 0;
    for (int l = 0; l < LANES; l++) any |= other[l];
    return !any;
}

/* A = P' L U in place. Returns KS_SYSTEMS_UNLIKE if the lanes have no pivots in common. */
static int factorise(int n, group *g) {
    lanes *a = g->a;
    for (int i = 0; i < n; i++) g->order[i] = i;
    for (int k = 0; k < n; k++) {
        const int best = best_row(n, a, k);
        if (best < 0) return KS_SYSTEMS_UNLIKE;
        if (best != k) {
            const int row = g->order[k];
            g->order[k] = g->order[best];
            g->order[best] = row;
            for (int j = 0; j < n; j++) {
                const lanes swap = a[k * n + j];
                a[k * n + j] = a[best * n + j];
                a[best * n + j] = swap;
            }
        }
        const lanes inverse = 1.0 / a[k * n + k];
        a[k * n + k] = inverse;
        for (int i = k + 1; i < n; i++) {
            if (all_zero(a[i * n + k])) continue;
            const lanes factor = a[i * n + k] * inverse;
            a[i * n + k] = factor;
            for (int j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return KS_SYSTEMS_OK;
}

/* y := A^-1 b */
static void solve(int n, const group *g) {
    const lanes *a = g->a;
    lanes *y = g->y;
    for (int i = 0; i < n; i++) {
        lanes sum = g->b[g->order[i]];
        for (int j = 0; j < i; j++) sum -= a[i * n + j] * y[j];
        y[i] = sum;
    }
    for (int i = n - 1; i >= 0; i--) {
        lanes sum = y[i];
        for (int j = i + 1; j < n; j++) sum -= a[i * n + j] * y[j];
        y[i] = sum * a[i * n + i];
    }
    memcpy(g->b, y, (size_t)n * sizeof *y);
}

/* c := A'^-1 c */
static void solve_transposed(int n, const group *g) {
    const lanes *a = g->a;
    lanes *y = g->c;
    for (int k = 0; k < n; k++) {
        y[k] *= a[k * n + k];
        for (int j = k + 1; j < n; j++) y[j] -= a[k * n + j] * y[k];
    }
    for (int k = n - 1; k >= 0; k--)
        for (int j = 0; j < k; j++) y[j] -= a[k * n + j] * y[k];
    for (int k = 0; k < n; k++) g->y[g->order[k]] = y[k];
    memcpy(g->c, g->y, (size_t)n * sizeof *y);
}

/* Lane l of the group has system from[l]. */
static void fill(const ks_systems *s, group *g, const ptrdiff_t *from, const double *b,
                 const double *c) {
    const int n = s->n;
    memset(g->a, 0, (size_t)n * (size_t)n * sizeof *g->a);
    for (ptrdiff_t e = 0; e < s->n_entries; e++) {
        double *to = (double *)(g->a + s->row[e] * n + s->column[e]);
        for (int l = 0; l < LANES; l++) to[l] += s->values[e * s->count + from[l]];
    }
    for (int k = 0; k < n; k++)
        for (int l = 0; l < LANES; l++) {
            if (b != NULL) g->b[k][l] = b[k * s->count + from[l]];
            if (c != NULL) g->c[k][l] = c[k * s->count + from[l]];
        }
}

static int do_group(const ks_systems *s, group *g, const ptrdiff_t *from, double *b, double *c) {
    fill(s, g, from, b, c);
    const int status = factorise(s->n, g);
    if (status != KS_SYSTEMS_OK) return status;
    if (b != NULL) solve(s->n, g);
    if (c != NULL) solve_transposed(s->n, g);
    for (int k = 0; k < s->n; k++)
        for (int l = 0; l < LANES; l++) {
            if (b != NULL) b[k * s->count + from[l]] = g->b[k][l];
            if (c != NULL) c[k * s->count + from[l]] = g->c[k][l];
        }
    return KS_SYSTEMS_OK;
}

/* Leaves no number in system m if there is none in its matrix, as it is far from any solution. */
static int give_up(const ks_systems *s, ptrdiff_t m, double *b, double *c) {
    double check = 0.0;
    for (ptrdiff_t e = 0; e < s->n_entries; e++) check += 0.0 * s->values[e * s->count + m];
    if (check == 0.0) return KS_SYSTEMS_SINGULAR;
    for (int k = 0; k < s->n; k++) {
        if (b != NULL) b[k * s->count + m] = NAN;
        if (c != NULL) c[k * s->count + m] = NAN;
    }
    return KS_SYSTEMS_OK;
}

/* The systems from `first` on; if they have no pivots in common each one has all lanes. */
static int do_some(const ks_systems *s, group *g, ptrdiff_t first, double *b, double *c) {
    ptrdiff_t from[LANES];
    const ptrdiff_t left = s->count - first, here = left < LANES ? left : LANES;
    for (int l = 0; l < LANES; l++) from[l] = first + (l < here ? l : here - 1);
    int status = do_group(s, g, from, b, c);
    if (status != KS_SYSTEMS_UNLIKE) return status;
    for (ptrdiff_t k = 0; k < here; k++) {
        for (int l = 0; l < LANES; l++) from[l] = first + k;
        status = do_group(s, g, from, b, c);
        if (status != KS_SYSTEMS_OK) status = give_up(s, first + k, b, c);
        if (status != KS_SYSTEMS_OK) return status;
    }
    return KS_SYSTEMS_OK;
}

int KS_SYSTEMS(const ks_systems *s, double *b, double *c) {
    const size_t n = (size_t)s->n;
    group g = {0};
    g.a = aligned_alloc(sizeof(lanes), (n * n + 3 * n) * sizeof(lanes));
    g.order = malloc((n > 0 ? n : 1) * sizeof *g.order);
    int status = g.a && g.order ? KS_SYSTEMS_OK : KS_SYSTEMS_NO_MEMORY;
    if (status == KS_SYSTEMS_OK) {
        g.b = g.a + n * n;
        g.c = g.b + n;
        g.y = g.c + n;
    }
    for (ptrdiff_t m = 0; m < s->count && status == KS_SYSTEMS_OK; m += LANES)
        status = do_some(s, &g, m, b, c);
    free(g.a);
    free(g.order);
    return status;
}
