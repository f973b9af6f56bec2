/* An explicit Runge-Kutta method with fixed steps, for a kernel x' = f(x, u, p, t).
 *
 * In a file of its own, where the generator defines the function's name KS_FIXED, the number
 * KS_STAGES and the numbers ks_c and ks_a of the method, see ks_tableau. Where it defines KS_RHS, a
 * function with KS_RHS_STATES states and KS_RHS_INPUTS inputs, the whole step is compiled as one,
 * without passing through memory.
 */
#ifndef KINESYM_FIXED_H
#define KINESYM_FIXED_H
#include "kinesym_step.h"

int KS_FIXED(const ks_run *r, ptrdiff_t begin, ptrdiff_t end);

#define KS_STAGEWISE _Pragma("GCC unroll 16")

#ifdef KS_RHS
#define KS_UNROLL _Pragma("GCC unroll 16")
static inline __attribute__((always_inline)) void ks_slope(const ks_bound *b, const V *y,
                                                               const V *u, const V *t, V *slope) {
    const ks_arg arg[5] = {{(const double *)y, KS_LANES}, {(const double *)u, KS_LANES},
                           b->arg[2], {(const double *)t, KS_LANES}, b->arg[4]};
    KS_RHS(arg, 0, b->uniform, (double *)slope, KS_LANES, NULL);
}
#else
#define KS_UNROLL
static inline void ks_slope(const ks_bound *b, const V *y, const V *u, const V *t, V *slope) {
    (void)y, (void)u, (void)t;
    ks_eval(b, slope);
}
#endif

/* One step of length h from the fraction `from` of interval i on, of all lanes; y, u and t are where
 * the kernel reads */
static inline __attribute__((always_inline)) void ks_fixed_step(
    const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i, double from, double part,
    double h, ptrdiff_t n, ptrdiff_t m, const ks_bound *rhs, V *x, V *y, V *slope, V *sum, V *u,
    V *t) {
    KS_STAGEWISE
    for (int stage = 0; stage < KS_STAGES; stage++) {
        const double c = ks_c[stage], w = ks_a[KS_STAGES][stage] * h;
        if (stage == 0 || c != ks_c[stage - 1])
            ks_inputs_at(r, m, first, count, i, (from + c) * part, u);
        *t = ks_splat(r->time[i] + (from + c) * h);
        KS_UNROLL
        for (ptrdiff_t k = 0; k < n; k++) {
            y[k] = x[k];
            KS_STAGEWISE
            for (int j = 0; j < stage; j++)
                if (ks_a[stage][j] != 0.0) y[k] += ks_a[stage][j] * h * slope[j * n + k];
        }
        ks_slope(rhs, y, u, t, slope + stage * n);
        KS_UNROLL
        for (ptrdiff_t k = 0; k < n; k++)
            sum[k] = (stage == 0 ? x[k] : sum[k]) + w * slope[stage * n + k];
    }
    KS_UNROLL
    for (ptrdiff_t k = 0; k < n; k++) x[k] = sum[k];
}

static int ks_fixed_block(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                        ptrdiff_t end) {
    const double part = 1.0 / (double)r->substeps;
    const ptrdiff_t np = r->rhs->count[2];
    ks_pool pool = {NULL, 0};
    V *p = NULL;
    ks_bound rhs = {0};
#ifdef KS_RHS
    enum { n = KS_RHS_STATES, m = KS_RHS_INPUTS };
    V x[n], y[n], slope[KS_STAGES * n], sum[n], u[m > 0 ? m : 1], t[1];
#else
    const ptrdiff_t n = r->n, m = r->rhs->count[1];
    V *x = NULL, *y = NULL, *slope = NULL, *sum = NULL, *u = NULL, *t = NULL;
#endif
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(&pool)) return KS_NO_MEMORY;
        p = ks_take(&pool, np);
#ifndef KS_RHS
        x = ks_take(&pool, n), y = ks_take(&pool, n), slope = ks_take(&pool, KS_STAGES * n);
        sum = ks_take(&pool, n), u = ks_take(&pool, m), t = ks_take(&pool, 1);
#endif
        if (pass == 1 && r->rhs->varying[2]) ks_load_parameters(r, np, first, count, p);
        ks_bind(&rhs, r->rhs, (V *[]){y, u, p, t}, ks_uniform_of(r, first), &pool);
    }
    ptrdiff_t s, left = r->budget, i = ks_resume(r, first, count, begin, &s);
    int status = 0;
    if (r->resumed)
        ks_load_between(r, first, count, 0, n, x);
    else
        ks_load_states(r, first, count, i, x);
    for (; i < end && ks_some_at(r, first, count, i); i++, s = 0) {
        const double h = (r->time[i + 1] - r->time[i]) * part;
        const ptrdiff_t stop = left < r->substeps - s ? s + left : r->substeps;
        left -= stop - s;
        for (; s < stop; s++)
            ks_fixed_step(r, first, count, i, (double)s, part, h, n, m, &rhs, x, y, slope, sum, u, t);
        if (s < r->substeps) {
            ks_store_between(r, first, count, 0, n, x);
            status = ks_pause(r, first, count, i, s);
            break;
        }
        ks_store_states(r, first, count, i + 1, x);
        ks_count_reached(r, first, count, i + 1, x);
    }
    free(pool.memory);
    return status;
}

int KS_FIXED(const ks_run *r, ptrdiff_t begin, ptrdiff_t end) {
    return ks_for_members(r, ks_fixed_block, begin, end);
}

#endif
