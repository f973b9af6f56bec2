/* The classical Runge-Kutta method of order 4 with fixed steps (Hairer, Norsett, Wanner,
 * Solving Ordinary Differential Equations I, table II.1.2), for a kernel x' = f(x, u, p, t).
 *
 * The arguments of the kernel are, in this order: states x (n), inputs u (m), parameters p
 * (uniform), time t (1). All lanes carry the same trajectory.
 */
#ifndef KINESYM_RK4_H
#define KINESYM_RK4_H
#include "kinesym_map.h"

/* Inputs at the fraction s of the sampling interval i: held or linearly interpolated. */
static void ks_inputs_at(ptrdiff_t m, ptrdiff_t n_nodes, const double *inputs,
                         const unsigned char *hold, ptrdiff_t i, double s, V *u) {
    for (ptrdiff_t k = 0; k < m; k++) {
        const double *row = inputs + k * n_nodes + i;
        u[k] = ks_splat(hold[k] ? row[0] : row[0] + s * (row[1] - row[0]));
    }
}

/* states (n x n_nodes) holds the initial state in column 0 and is filled; inputs (m x n_nodes);
 * hold[k] is 1 for zero-order hold. Returns the number of nodes with finite states, -1 if memory
 * ran out. */
static ptrdiff_t ks_rk4(const ks_kernel *rhs, ptrdiff_t n_nodes, const double *time,
                        ptrdiff_t substeps, const double *inputs, const unsigned char *hold,
                        const double *parameters, double *states) {
    const ptrdiff_t n = rhs->count[0], m = rhs->count[1];
    const double node[4] = {0.0, 0.5, 0.5, 1.0}, weight[4] = {1.0, 2.0, 2.0, 1.0};
    size_t vectors = (size_t)(4 * n + m + 1 + rhs->n_scratch) + (size_t)rhs->n_uniform;
    V *memory = aligned_alloc(sizeof(V) < 64 ? 64 : sizeof(V),
                              (size_t)ks_round_up((ptrdiff_t)(vectors * sizeof(V)), 64));
    if (memory == NULL) return -1;
    V *x = memory, *y = x + n, *slope = y + n, *sum = slope + n, *u = sum + n, *t = u + m;
    V *scratch = t + 1;
    double *uniform = (double *)(scratch + rhs->n_scratch);
    const ks_arg arg[4] = {{(double *)y, KS_LANES}, {(double *)u, KS_LANES}, {parameters, 0},
                           {(double *)t, KS_LANES}};
    if (rhs->n_uniform > 0) rhs->uniform(arg, uniform, scratch);

    ptrdiff_t i = 0;
    int finite = 1;
    for (; i + 1 < n_nodes && finite; i++) {
        for (ptrdiff_t k = 0; k < n; k++) x[k] = ks_splat(states[k * n_nodes + i]);
        const double h = (time[i + 1] - time[i]) / (double)substeps;
        for (ptrdiff_t step = 0; step < substeps; step++) {
            for (ptrdiff_t k = 0; k < n; k++) sum[k] = ks_splat(0.0);
            for (int stage = 0; stage < 4; stage++) {
                const double c = (double)step + node[stage];
                ks_inputs_at(m, n_nodes, inputs, hold, i, c / (double)substeps, u);
                *t = ks_splat(time[i] + c * h);
                for (ptrdiff_t k = 0; k < n; k++)
                    y[k] = stage == 0 ? x[k] : x[k] + node[stage] * h * slope[k];
                rhs->block(1, arg, uniform, (double *)slope, KS_LANES, 0, scratch);
                for (ptrdiff_t k = 0; k < n; k++) sum[k] += weight[stage] * slope[k];
            }
            for (ptrdiff_t k = 0; k < n; k++) x[k] += (h / 6.0) * sum[k];
        }
        for (ptrdiff_t k = 0; k < n; k++) {
            const double value = ks_first(x[k]);
            states[k * n_nodes + i + 1] = value;
            finite = finite && isfinite(value);
        }
    }
    free(memory);
    return finite ? i + 1 : i;
}

#endif
