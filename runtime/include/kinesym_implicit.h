/* Implicit one-step methods: Newton's method on the defect of an interval, which is the very kernel
 * of collocation. The defect takes x0, x1, u0, u1, p, t, h; `newton` are its derivatives with
 * respect to x1, entry e at (rows[e], columns[e]).
 */
#ifndef KINESYM_IMPLICIT_H
#define KINESYM_IMPLICIT_H
#include "kinesym_step.h"

#define KS_NEWTON_STEPS 30
/* A full Newton step of this relative size leaves an error of about its square: rounding. */
#define KS_NEWTON_SMALL 1e-11
/* A step below this size that is not much smaller than the one before is rounding itself. */
#define KS_NEWTON_STALLED 1e-6

/* Factorises a (n x n, row by row) in place as L U with partial pivoting; row k was row pivot[k].
 * Returns 0 if a is singular. */
static int ks_lu(ptrdiff_t n, double *a, ptrdiff_t *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t best = k;
        for (ptrdiff_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
        pivot[k] = best;
        if (!(fabs(a[best * n + k]) > 0.0)) return 0;
        if (best != k)
            for (ptrdiff_t j = 0; j < n; j++) {
                const double swap = a[k * n + j];
                a[k * n + j] = a[best * n + j];
                a[best * n + j] = swap;
            }
        const double inverse = 1.0 / a[k * n + k];
        for (ptrdiff_t i = k + 1; i < n; i++) {
            double *restrict row = a + i * n, *restrict top = a + k * n;
            if (row[k] == 0.0) continue;
            const double factor = row[k] *= inverse;
            for (ptrdiff_t j = k + 1; j < n; j++) row[j] -= factor * top[j];
        }
    }
    return 1;
}

/* b := a^-1 b for `width` right sides, b (n x width, row by row) */
static void ks_lu_solve(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b,
                        ptrdiff_t width) {
    for (ptrdiff_t k = 0; k < n; k++)
        if (pivot[k] != k)
            for (ptrdiff_t j = 0; j < width; j++) {
                const double swap = b[k * width + j];
                b[k * width + j] = b[pivot[k] * width + j];
                b[pivot[k] * width + j] = swap;
            }
    for (ptrdiff_t i = 1; i < n; i++)
        for (ptrdiff_t k = 0; k < i; k++)
            if (a[i * n + k] != 0.0)
                for (ptrdiff_t j = 0; j < width; j++)
                    b[i * width + j] -= a[i * n + k] * b[k * width + j];
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        for (ptrdiff_t k = i + 1; k < n; k++)
            if (a[i * n + k] != 0.0)
                for (ptrdiff_t j = 0; j < width; j++)
                    b[i * width + j] -= a[i * n + k] * b[k * width + j];
        for (ptrdiff_t j = 0; j < width; j++) b[i * width + j] /= a[i * n + i];
    }
}

/* b := a^-T b */
static void ks_lu_solve_transposed(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b) {
    for (ptrdiff_t i = 0; i < n; i++) {
        b[i] /= a[i * n + i];
        for (ptrdiff_t j = i + 1; j < n; j++) b[j] -= a[i * n + j] * b[i];
    }
    for (ptrdiff_t i = n - 1; i > 0; i--)
        for (ptrdiff_t j = 0; j < i; j++) b[j] -= a[i * n + j] * b[i];
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        const double swap = b[k];
        b[k] = b[pivot[k]];
        b[pivot[k]] = swap;
    }
}

/* Work of one member: n x n matrix, right side, pivots */
typedef struct {
    double *matrix, *side;
    ptrdiff_t *pivot;
} ks_dense;

/* One Newton step of lane l: x1 -= (d defect / d x1)^-1 defect. Returns its relative size, NaN if
 * the matrix is singular. */
static double ks_newton_lane(const ks_run *r, int l, const double *defect, const double *entries,
                             double *x1, const ks_dense *w) {
    const ptrdiff_t n = r->n;
    double size = 0.0, largest = 0.0;
    memset(w->matrix, 0, (size_t)(n * n) * sizeof(double));
    for (ptrdiff_t e = 0; e < r->n_entries; e++)
        w->matrix[r->rows[e] * n + r->columns[e]] = entries[e * KS_LANES + l];
    for (ptrdiff_t k = 0; k < n; k++) w->side[k] = defect[k * KS_LANES + l];
    if (!ks_lu(n, w->matrix, w->pivot)) return (double)NAN;
    ks_lu_solve(n, w->matrix, w->pivot, w->side, 1);
    for (ptrdiff_t k = 0; k < n; k++) {
        x1[k * KS_LANES + l] -= w->side[k];
        largest = fmax(largest, fabs(x1[k * KS_LANES + l]));
    }
    for (ptrdiff_t k = 0; k < n; k++) {
        const double scale = fabs(x1[k * KS_LANES + l]) + 1e-6 * largest + 1e-12;
        size = w->side[k] == w->side[k] ? fmax(size, fabs(w->side[k]) / scale) : (double)NAN;
        if (size != size) break;
    }
    return size;
}

/* One implicit step of all lanes by Newton's method from x1. Lanes that fail become NaN, the norm of
 * their defect is kept. */
static void ks_newton(const ks_run *r, ptrdiff_t first, ptrdiff_t count, const ks_bound *defect,
                      const ks_bound *newton, V *x1, V *residual, V *entries, const ks_dense *w) {
    int open[KS_LANES], some = 1;
    double before[KS_LANES];
    for (int l = 0; l < KS_LANES; l++) open[l] = l < count, before[l] = INFINITY;
    for (int step = 0; step < KS_NEWTON_STEPS && some; step++) {
        ks_eval(defect, residual);
        ks_eval(newton, entries);
        some = 0;
        for (int l = 0; l < KS_LANES; l++) {
            if (!open[l]) continue;
            const double size =
                ks_newton_lane(r, l, (double *)residual, (double *)entries, (double *)x1, w);
            const int stalled = size < KS_NEWTON_STALLED && size > 0.1 * before[l];
            open[l] = size > KS_NEWTON_SMALL && !stalled; /* NaN ends it too, and is seen in x1 */
            before[l] = size;
            if (size != size) ((double *)x1)[l] = size;
            some |= open[l];
        }
    }
    for (int l = 0; l < KS_LANES; l++) {
        double norm = 0.0;
        for (ptrdiff_t k = 0; k < r->n; k++)
            norm = fmax(norm, fabs(((double *)residual)[k * KS_LANES + l]));
        if (open[l]) ((double *)x1)[l] = (double)NAN;
        if (l < count && ((double *)x1)[l] != ((double *)x1)[l] && r->trouble[first + l] == 0.0)
            r->trouble[first + l] = norm;
    }
}

static int ks_implicit_block(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                             ptrdiff_t end) {
    const ptrdiff_t n = r->n, m = r->defect->count[2], np = r->defect->count[4];
    const double part = 1.0 / (double)r->substeps;
    const double *parameters = r->parameters + first * r->parameter_stride;
    ks_pool pool = {NULL, 0};
    V *x0 = NULL, *x1 = NULL, *last = NULL, *u0 = NULL, *u1 = NULL, *p = NULL, *t = NULL, *h = NULL;
    V *residual = NULL, *entries = NULL;
    ks_dense w = {0};
    ks_bound defect = {0}, newton = {0};
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(&pool)) return 1;
        x0 = ks_take(&pool, n), x1 = ks_take(&pool, n), last = ks_take(&pool, n);
        u0 = ks_take(&pool, m), u1 = ks_take(&pool, m), t = ks_take(&pool, 1);
        h = ks_take(&pool, 1), p = ks_take(&pool, np);
        residual = ks_take(&pool, n), entries = ks_take(&pool, r->n_entries);
        w.matrix = (double *)ks_take(&pool, (n * n + KS_LANES - 1) / KS_LANES);
        w.side = (double *)ks_take(&pool, n), w.pivot = (ptrdiff_t *)ks_take(&pool, n);
        if (pass == 1 && r->defect->varying[4]) ks_load_parameters(r, np, first, count, p);
        V *const blocks[] = {x0, x1, u0, u1, p, t, h};
        ks_bind(&defect, r->defect, blocks, parameters, &pool);
        ks_bind(&newton, r->newton, blocks, parameters, &pool);
    }
    ks_load_states(r, first, count, begin, x0);
    ks_load_states(r, first, count, begin > 0 ? begin - 1 : 0, last);
    double before = begin > 0 && r->substeps == 1 ? r->time[begin] - r->time[begin - 1] : 0.0;
    for (ptrdiff_t i = begin; i < end && ks_some_at(r, first, count, i); i++) {
        const double length = (r->time[i + 1] - r->time[i]) * part;
        *h = ks_splat(length);
        for (ptrdiff_t s = 0; s < r->substeps; s++) {
            ks_inputs_at(r, m, first, count, i, (double)s * part, u0);
            ks_inputs_at(r, m, first, count, i, (double)(s + 1) * part, u1);
            *t = ks_splat(r->time[i] + (double)s * length);
            const double forth = before > 0.0 ? length / before : 0.0; /* extrapolate */
            for (ptrdiff_t k = 0; k < n; k++) x1[k] = x0[k] + forth * (x0[k] - last[k]);
            ks_newton(r, first, count, &defect, &newton, x1, residual, entries, &w);
            for (ptrdiff_t k = 0; k < n; k++) last[k] = x0[k], x0[k] = x1[k];
            before = length;
        }
        ks_store_states(r, first, count, i + 1, x0);
        ks_count_reached(r, first, count, i + 1, x0);
    }
    free(pool.memory);
    return 0;
}

static int ks_implicit(const ks_run *r, ptrdiff_t begin, ptrdiff_t end) {
    return ks_for_members(r, ks_implicit_block, begin, end);
}

#endif
