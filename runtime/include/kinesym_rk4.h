/* The classical Runge-Kutta method of order 4 with fixed steps (Hairer, Norsett, Wanner,
 * Solving Ordinary Differential Equations I, table II.1.2), for a kernel x' = f(x, u, p, t).
 */
#ifndef KINESYM_RK4_H
#define KINESYM_RK4_H
#include "kinesym_step.h"

static const double ks_rk4_node[4] = {0.0, 0.5, 0.5, 1.0};
static const double ks_rk4_weight[4] = {1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0};

static int ks_rk4_block(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                        ptrdiff_t end) {
    const ptrdiff_t n = r->n, m = r->rhs->count[1], np = r->rhs->count[2];
    const double part = 1.0 / (double)r->substeps;
    const double *parameters = r->parameters + first * r->parameter_stride;
    ks_pool pool = {NULL, 0};
    V *x = NULL, *y = NULL, *slope = NULL, *sum = NULL, *u = NULL, *p = NULL, *t = NULL;
    ks_bound rhs = {0};
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(&pool)) return 1;
        x = ks_take(&pool, n), y = ks_take(&pool, n), slope = ks_take(&pool, n);
        sum = ks_take(&pool, n), u = ks_take(&pool, m), t = ks_take(&pool, 1);
        p = ks_take(&pool, np);
        if (pass == 1 && r->rhs->varying[2]) ks_load_parameters(r, np, first, count, p);
        ks_bind(&rhs, r->rhs, (V *[]){y, u, p, t}, parameters, &pool);
    }
    ks_load_states(r, first, count, begin, x);
    for (ptrdiff_t i = begin; i < end && ks_some_at(r, first, count, i); i++) {
        const double h = (r->time[i + 1] - r->time[i]) * part;
        for (ptrdiff_t s = 0; s < r->substeps; s++) {
            for (int stage = 0; stage < 4; stage++) {
                const double c = (double)s + ks_rk4_node[stage], a = ks_rk4_node[stage] * h;
                const double w = ks_rk4_weight[stage] * h;
                if (stage != 2) ks_inputs_at(r, m, first, count, i, c * part, u);
                *t = ks_splat(r->time[i] + c * h);
                for (ptrdiff_t k = 0; k < n; k++) y[k] = stage == 0 ? x[k] : x[k] + a * slope[k];
                ks_eval(&rhs, slope);
                for (ptrdiff_t k = 0; k < n; k++)
                    sum[k] = (stage == 0 ? x[k] : sum[k]) + w * slope[k];
            }
            for (ptrdiff_t k = 0; k < n; k++) x[k] = sum[k];
        }
        ks_store_states(r, first, count, i + 1, x);
        ks_count_reached(r, first, count, i + 1, x);
    }
    free(pool.memory);
    return 0;
}

static int ks_rk4(const ks_run *r, ptrdiff_t begin, ptrdiff_t end) {
    return ks_for_members(r, ks_rk4_block, begin, end);
}

#endif
