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
/* Models with as many states keep their factors from step to step: their derivatives and factors
 * cost many times a defect. What is left after a step then is below this relative size, */
#define KS_NEWTON_REUSE 16
#define KS_NEWTON_ROUNDING 1e-15
/* or stays at this size after steps that shrank well. */
#define KS_NEWTON_STALLED_REUSED 1e-10

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

/* Four numbers anywhere in memory, whatever the lanes of the library are */
typedef double ks_four __attribute__((vector_size(32), aligned(8), may_alias));

static inline double ks_dot(const double *a, const double *b, ptrdiff_t n) {
    ks_four one = {0}, two = {0};
    ptrdiff_t k = 0;
    for (; k + 8 <= n; k += 8) {
        one += *(const ks_four *)(a + k) * *(const ks_four *)(b + k);
        two += *(const ks_four *)(a + k + 4) * *(const ks_four *)(b + k + 4);
    }
    one += two;
    double sum = (one[0] + one[1]) + (one[2] + one[3]);
    for (; k < n; k++) sum += a[k] * b[k];
    return sum;
}

/* b := a^-1 b for one right side: each row is a scalar product */
static void ks_lu_solve_one(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b) {
    for (ptrdiff_t k = 0; k < n; k++) {
        const double swap = b[k];
        b[k] = b[pivot[k]];
        b[pivot[k]] = swap;
    }
    for (ptrdiff_t i = 1; i < n; i++) b[i] -= ks_dot(a + i * n, b, i);
    for (ptrdiff_t i = n - 1; i >= 0; i--)
        b[i] = (b[i] - ks_dot(a + i * n + i + 1, b + i + 1, n - 1 - i)) / a[i * n + i];
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

/* One lane of Newton's method. `factored`: its matrix is that of an earlier point, good enough while
 * steps shrink; `good`: they did within this step in time. */
typedef struct {
    ks_dense w;
    double before;
    int open, factored, good;
} ks_lane;

/* Factorises the derivatives of lane l; returns 0 if they are singular. */
static int ks_newton_factor(const ks_run *r, int l, const double *entries, const ks_dense *w) {
    const ptrdiff_t n = r->n;
    memset(w->matrix, 0, (size_t)(n * n) * sizeof(double));
    for (ptrdiff_t e = 0; e < r->n_entries; e++)
        w->matrix[r->rows[e] * n + r->columns[e]] = entries[e * KS_LANES + l];
    return ks_lu(n, w->matrix, w->pivot);
}

/* One Newton step of lane l: x1 -= (d defect / d x1)^-1 defect. Returns its relative size. */
static double ks_newton_lane(const ks_run *r, int l, const double *defect, double *x1,
                             const ks_dense *w) {
    const ptrdiff_t n = r->n;
    double size = 0.0, largest = 0.0;
    for (ptrdiff_t k = 0; k < n; k++) w->side[k] = defect[k * KS_LANES + l];
    ks_lu_solve_one(n, w->matrix, w->pivot, w->side);
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

/* Whether the step of this relative size was the last. With the matrix of an earlier point errors
 * shrink by the rate of the steps; where that is slow the matrix is made anew. */
static int ks_newton_done(ks_lane *lane, double size, int fresh) {
    const double rate = size / lane->before;
    const int slow = size > 0.1 * lane->before;
    lane->before = size;
    if (size != size) return 1; /* seen in x1 */
    if (fresh) return size <= KS_NEWTON_SMALL || (slow && size < KS_NEWTON_STALLED);
    if (!slow) {
        lane->good |= rate > 0.0;
        return rate > 0.0 ? size * rate <= KS_NEWTON_ROUNDING : size == 0.0;
    }
    if (lane->good && size < KS_NEWTON_STALLED_REUSED) return 1;
    lane->factored = 0;
    return 0;
}

/* One implicit step of all lanes by Newton's method from x1. Lanes that fail become NaN, the norm of
 * their defect is kept. */
static void ks_newton(const ks_run *r, ptrdiff_t first, ptrdiff_t count, const ks_bound *defect,
                      const ks_bound *newton, V *x1, V *residual, V *entries, ks_lane *lanes) {
    int some = 1;
    for (int l = 0; l < KS_LANES; l++)
        lanes[l].open = l < count, lanes[l].good = 0, lanes[l].before = INFINITY;
    for (int step = 0; step < KS_NEWTON_STEPS && some; step++) {
        int needed = 0;
        for (int l = 0; l < KS_LANES; l++) needed |= lanes[l].open && !lanes[l].factored;
        ks_eval(defect, residual);
        if (needed) ks_eval(newton, entries);
        some = 0;
        for (int l = 0; l < KS_LANES; l++) {
            ks_lane *lane = lanes + l;
            if (!lane->open) continue;
            const int fresh = !lane->factored;
            double size = (double)NAN;
            if (!fresh || ks_newton_factor(r, l, (double *)entries, &lane->w))
                size = ks_newton_lane(r, l, (double *)residual, (double *)x1, &lane->w);
            lane->factored = r->n >= KS_NEWTON_REUSE;
            lane->open = !ks_newton_done(lane, size, fresh);
            if (size != size) ((double *)x1)[l] = size;
            some |= lane->open;
        }
    }
    for (int l = 0; l < KS_LANES; l++) {
        double norm = 0.0;
        for (ptrdiff_t k = 0; k < r->n; k++)
            norm = fmax(norm, fabs(((double *)residual)[k * KS_LANES + l]));
        if (lanes[l].open) ((double *)x1)[l] = (double)NAN;
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
    ks_lane lanes[KS_LANES] = {0};
    ks_bound defect = {0}, newton = {0};
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(&pool)) return KS_NO_MEMORY;
        x0 = ks_take(&pool, n), x1 = ks_take(&pool, n), last = ks_take(&pool, n);
        u0 = ks_take(&pool, m), u1 = ks_take(&pool, m), t = ks_take(&pool, 1);
        h = ks_take(&pool, 1), p = ks_take(&pool, np);
        residual = ks_take(&pool, n), entries = ks_take(&pool, r->n_entries);
        for (int l = 0; l < KS_LANES; l++) {
            ks_dense *w = &lanes[l].w;
            w->matrix = (double *)ks_take(&pool, (n * n + KS_LANES - 1) / KS_LANES);
            w->side = (double *)ks_take(&pool, n), w->pivot = (ptrdiff_t *)ks_take(&pool, n);
        }
        if (pass == 1 && r->defect->varying[4]) ks_load_parameters(r, np, first, count, p);
        V *const blocks[] = {x0, x1, u0, u1, p, t, h};
        ks_bind(&defect, r->defect, blocks, parameters, &pool);
        ks_bind(&newton, r->newton, blocks, parameters, &pool);
    }
    ptrdiff_t s, left = r->budget, i = ks_resume(r, first, count, begin, &s);
    int status = 0;
    double before = i > 0 && r->substeps == 1 ? r->time[i] - r->time[i - 1] : 0.0;
    if (r->resumed) {
        ks_load_between(r, first, count, 0, n, x0), ks_load_between(r, first, count, r->n, n, last);
        before = part * (s > 0 ? r->time[i + 1] - r->time[i] : r->time[i] - r->time[i - 1]);
    } else {
        ks_load_states(r, first, count, i, x0);
        ks_load_states(r, first, count, i > 0 ? i - 1 : 0, last);
    }
    for (; i < end && ks_some_at(r, first, count, i); i++, s = 0) {
        const double length = (r->time[i + 1] - r->time[i]) * part;
        const ptrdiff_t stop = left < r->substeps - s ? s + left : r->substeps;
        left -= stop - s;
        *h = ks_splat(length);
        for (; s < stop; s++) {
            ks_inputs_at(r, m, first, count, i, (double)s * part, u0);
            ks_inputs_at(r, m, first, count, i, (double)(s + 1) * part, u1);
            *t = ks_splat(r->time[i] + (double)s * length);
            const double forth = before > 0.0 ? length / before : 0.0; /* extrapolate */
            for (ptrdiff_t k = 0; k < n; k++) x1[k] = x0[k] + forth * (x0[k] - last[k]);
            ks_newton(r, first, count, &defect, &newton, x1, residual, entries, lanes);
            for (ptrdiff_t k = 0; k < n; k++) last[k] = x0[k], x0[k] = x1[k];
            before = length;
        }
        if (s < r->substeps) {
            ks_store_between(r, first, count, 0, n, x0), ks_store_between(r, first, count, r->n, n, last);
            status = ks_pause(r, first, count, i, s);
            break;
        }
        ks_store_states(r, first, count, i + 1, x0);
        ks_count_reached(r, first, count, i + 1, x0);
    }
    free(pool.memory);
    return status;
}

static int ks_implicit(const ks_run *r, ptrdiff_t begin, ptrdiff_t end) {
    return ks_for_members(r, ks_implicit_block, begin, end);
}

#endif
