/* interval_constraints: constraints, each = 0 or bounded
 *
 * arguments
 *   x0                2 per point
 *   x1                2 per point
 *   p                 1 uniform
 *   h                 1 per point
 *   t                 1 per point
 * outputs
 *                     2 per point
 * 15 operations
 */
#include "kinesym_simd.h"

static inline void interval_constraints_0(const ks_arg *restrict a, ptrdiff_t i, const double *restrict u,
        double *restrict out, ptrdiff_t ld, V *restrict w) {
    (void)a, (void)u, (void)w; (void)i, (void)out, (void)ld;
    const V x0_omega = ks_load(a[0].data + 1 * a[0].ld + i);
    const V x1_omega = ks_load(a[1].data + 1 * a[1].ld + i);
    const V h_step = ks_load(a[3].data + 0 * a[3].ld + i);
    const V v18 = 1.0/h_step;
    const V x0_theta = ks_load(a[0].data + 0 * a[0].ld + i);
    const V x1_theta = ks_load(a[1].data + 0 * a[1].ld + i);
    ks_store(out + 0 * ld, -(0.5*(x0_omega + x1_omega) + v18*(x0_theta - x1_theta))); /* equation 0 (theta') */
    ks_store(out + 1 * ld, -(v18*(x0_omega - x1_omega) - u[0]*ks_sin(0.5*(x0_theta + x1_theta)))); /* equation 1 (omega') */
}

static void interval_constraints_uniform_0(const ks_arg *restrict a, double *restrict u, V *restrict w) {
    (void)a, (void)u, (void)w;
    const V p_p = ks_splat(a[2].data[0]);
    u[0] = ks_first(p_p);
}

static void interval_constraints_uniform(const ks_kernel *k, const ks_arg *a, double *u,
        void *scratch) {
    V *w = scratch;
    interval_constraints_uniform_0(a, u, w);
    (void)k, (void)a, (void)u, (void)w;
}

static void interval_constraints_block(const ks_kernel *k, ptrdiff_t n_blocks,
        const ks_arg *a, const double *u, double *out, ptrdiff_t ld, ptrdiff_t step,
        void *scratch) {
    V *w = scratch;
    (void)k;
    for (ptrdiff_t b = 0; b < n_blocks; b++)
        interval_constraints_0(a, b * KS_LANES, u, out + b * step, ld, w);
}

static const int interval_constraints_count[] = {2, 2, 1, 1, 1};
static const unsigned char interval_constraints_varying[] = {1, 1, 0, 1, 1};
extern const ks_kernel interval_constraints_kernel;
const ks_kernel interval_constraints_kernel = {
    .name = "interval_constraints",
    .n_args = 5,
    .count = interval_constraints_count,
    .varying = interval_constraints_varying,
    .n_out = 2,
    .n_uniform = 1,
    .n_scratch = 0,
    .uniform = interval_constraints_uniform,
    .block = interval_constraints_block,
};

/* interval_jacobian: derivatives of the constraints that are not identically zero
 *
 * arguments
 *   x0                2 per point
 *   x1                2 per point
 *   p                 1 uniform
 *   h                 1 per point
 *   t                 1 per point
 * outputs
 *                     9 per point
 * 8 operations
 */
#include "kinesym_simd.h"

static inline void interval_jacobian_0(const ks_arg *restrict a, ptrdiff_t i, const double *restrict u,
        double *restrict out, ptrdiff_t ld, V *restrict w) {
    (void)a, (void)u, (void)w; (void)i, (void)out, (void)ld;
    ks_store(out + 1 * ld, ks_splat((-0.5))); /* d equation 0 (theta') / d x0.omega */
    ks_store(out + 3 * ld, ks_splat((-0.5))); /* d equation 0 (theta') / d x1.omega */
    const V h_step = ks_load(a[3].data + 0 * a[3].ld + i);
    const V v18 = 1.0/h_step;
    ks_store(out + 2 * ld, v18); /* d equation 0 (theta') / d x1.theta */
    ks_store(out + 7 * ld, v18); /* d equation 1 (omega') / d x1.omega */
    const V v39 = -v18;
    ks_store(out + 0 * ld, v39); /* d equation 0 (theta') / d x0.theta */
    ks_store(out + 5 * ld, v39); /* d equation 1 (omega') / d x0.omega */
    const V x0_theta = ks_load(a[0].data + 0 * a[0].ld + i);
    const V x1_theta = ks_load(a[1].data + 0 * a[1].ld + i);
    const V v10 = 0.5*(x0_theta + x1_theta);
    V v42, v50;
    ks_sincos(v10, &v42, &v50);
    const V v52 = 0.5*(u[0]*v50);
    ks_store(out + 4 * ld, v52); /* d equation 1 (omega') / d x0.theta */
    ks_store(out + 6 * ld, v52); /* d equation 1 (omega') / d x1.theta */
    ks_store(out + 8 * ld, v42); /* d equation 1 (omega') / d p.p */
}

static void interval_jacobian_uniform_0(const ks_arg *restrict a, double *restrict u, V *restrict w) {
    (void)a, (void)u, (void)w;
    const V p_p = ks_splat(a[2].data[0]);
    u[0] = ks_first(p_p);
}

static void interval_jacobian_uniform(const ks_kernel *k, const ks_arg *a, double *u,
        void *scratch) {
    V *w = scratch;
    interval_jacobian_uniform_0(a, u, w);
    (void)k, (void)a, (void)u, (void)w;
}

static void interval_jacobian_block(const ks_kernel *k, ptrdiff_t n_blocks,
        const ks_arg *a, const double *u, double *out, ptrdiff_t ld, ptrdiff_t step,
        void *scratch) {
    V *w = scratch;
    (void)k;
    for (ptrdiff_t b = 0; b < n_blocks; b++)
        interval_jacobian_0(a, b * KS_LANES, u, out + b * step, ld, w);
}

static const int interval_jacobian_count[] = {2, 2, 1, 1, 1};
static const unsigned char interval_jacobian_varying[] = {1, 1, 0, 1, 1};
extern const ks_kernel interval_jacobian_kernel;
const ks_kernel interval_jacobian_kernel = {
    .name = "interval_jacobian",
    .n_args = 5,
    .count = interval_jacobian_count,
    .varying = interval_jacobian_varying,
    .n_out = 9,
    .n_uniform = 1,
    .n_scratch = 0,
    .uniform = interval_jacobian_uniform,
    .block = interval_jacobian_block,
};

/* interval_hessian: second derivatives of factor * cost + multipliers . constraints, upper triangle
 *
 * arguments
 *   x0                2 per point
 *   x1                2 per point
 *   p                 1 uniform
 *   h                 1 per point
 *   t                 1 per point
 *   factor            1 uniform
 *   multipliers       2 per point
 * outputs
 *                     5 per point
 * 9 operations
 */
#include "kinesym_simd.h"

static inline void interval_hessian_0(const ks_arg *restrict a, ptrdiff_t i, const double *restrict u,
        double *restrict out, ptrdiff_t ld, V *restrict w) {
    (void)a, (void)u, (void)w; (void)i, (void)out, (void)ld;
    const V x0_theta = ks_load(a[0].data + 0 * a[0].ld + i);
    const V x1_theta = ks_load(a[1].data + 0 * a[1].ld + i);
    const V v10 = 0.5*(x0_theta + x1_theta);
    V v42, v50;
    ks_sincos(v10, &v42, &v50);
    const V multipliers_1 = ks_load(a[6].data + 1 * a[6].ld + i);
    const V v71 = (-0.25)*(v42*(u[0]*multipliers_1));
    ks_store(out + 0 * ld, v71); /* d2 L / d x0.theta d x0.theta */
    ks_store(out + 1 * ld, v71); /* d2 L / d x0.theta d x1.theta */
    ks_store(out + 3 * ld, v71); /* d2 L / d x1.theta d x1.theta */
    const V v70 = 0.5*(v50*multipliers_1);
    ks_store(out + 2 * ld, v70); /* d2 L / d x0.theta d p.p */
    ks_store(out + 4 * ld, v70); /* d2 L / d x1.theta d p.p */
}

static void interval_hessian_uniform_0(const ks_arg *restrict a, double *restrict u, V *restrict w) {
    (void)a, (void)u, (void)w;
    const V p_p = ks_splat(a[2].data[0]);
    u[0] = ks_first(p_p);
}

static void interval_hessian_uniform(const ks_kernel *k, const ks_arg *a, double *u,
        void *scratch) {
    V *w = scratch;
    interval_hessian_uniform_0(a, u, w);
    (void)k, (void)a, (void)u, (void)w;
}

static void interval_hessian_block(const ks_kernel *k, ptrdiff_t n_blocks,
        const ks_arg *a, const double *u, double *out, ptrdiff_t ld, ptrdiff_t step,
        void *scratch) {
    V *w = scratch;
    (void)k;
    for (ptrdiff_t b = 0; b < n_blocks; b++)
        interval_hessian_0(a, b * KS_LANES, u, out + b * step, ld, w);
}

static const int interval_hessian_count[] = {2, 2, 1, 1, 1, 1, 2};
static const unsigned char interval_hessian_varying[] = {1, 1, 0, 1, 1, 0, 1};
extern const ks_kernel interval_hessian_kernel;
const ks_kernel interval_hessian_kernel = {
    .name = "interval_hessian",
    .n_args = 7,
    .count = interval_hessian_count,
    .varying = interval_hessian_varying,
    .n_out = 5,
    .n_uniform = 1,
    .n_scratch = 0,
    .uniform = interval_hessian_uniform,
    .block = interval_hessian_block,
};

/* node_cost: terms of the objective
 *
 * arguments
 *   x                 2 per point
 *   p                 1 uniform
 *   q                 1 per point
 *   t                 1 per point
 *   y                 1 per point
 *   w                 1 per point
 * outputs
 *                     1 per point
 * 3 operations
 */
#include "kinesym_simd.h"

static inline void node_cost_0(const ks_arg *restrict a, ptrdiff_t i, const double *restrict u,
        double *restrict out, ptrdiff_t ld, V *restrict w) {
    (void)a, (void)u, (void)w; (void)i, (void)out, (void)ld;
    const V x_theta = ks_load(a[0].data + 0 * a[0].ld + i);
    const V y_theta = ks_load(a[4].data + 0 * a[4].ld + i);
    const V v11 = x_theta - y_theta;
    const V w_theta = ks_load(a[5].data + 0 * a[5].ld + i);
    ks_store(out + 0 * ld, w_theta*(v11*v11)); /* cost */
}

static void node_cost_uniform_0(const ks_arg *restrict a, double *restrict u, V *restrict w) {
    (void)a, (void)u, (void)w;

}

static void node_cost_uniform(const ks_kernel *k, const ks_arg *a, double *u,
        void *scratch) {
    V *w = scratch;
    node_cost_uniform_0(a, u, w);
    (void)k, (void)a, (void)u, (void)w;
}

static void node_cost_block(const ks_kernel *k, ptrdiff_t n_blocks,
        const ks_arg *a, const double *u, double *out, ptrdiff_t ld, ptrdiff_t step,
        void *scratch) {
    V *w = scratch;
    (void)k;
    for (ptrdiff_t b = 0; b < n_blocks; b++)
        node_cost_0(a, b * KS_LANES, u, out + b * step, ld, w);
}

static const int node_cost_count[] = {2, 1, 1, 1, 1, 1};
static const unsigned char node_cost_varying[] = {1, 0, 1, 1, 1, 1};
extern const ks_kernel node_cost_kernel;
const ks_kernel node_cost_kernel = {
    .name = "node_cost",
    .n_args = 6,
    .count = node_cost_count,
    .varying = node_cost_varying,
    .n_out = 1,
    .n_uniform = 0,
    .n_scratch = 0,
    .uniform = node_cost_uniform,
    .block = node_cost_block,
};

/* node_gradient: derivatives of the objective
 *
 * arguments
 *   x                 2 per point
 *   p                 1 uniform
 *   q                 1 per point
 *   t                 1 per point
 *   y                 1 per point
 *   w                 1 per point
 * outputs
 *                     1 per point
 * 3 operations
 */
#include "kinesym_simd.h"

static inline void node_gradient_0(const ks_arg *restrict a, ptrdiff_t i, const double *restrict u,
        double *restrict out, ptrdiff_t ld, V *restrict w) {
    (void)a, (void)u, (void)w; (void)i, (void)out, (void)ld;
    const V x_theta = ks_load(a[0].data + 0 * a[0].ld + i);
    const V y_theta = ks_load(a[4].data + 0 * a[4].ld + i);
    const V w_theta = ks_load(a[5].data + 0 * a[5].ld + i);
    ks_store(out + 0 * ld, 2.0*(w_theta*(x_theta - y_theta))); /* d cost / d x.theta */
}

static void node_gradient_uniform_0(const ks_arg *restrict a, double *restrict u, V *restrict w) {
    (void)a, (void)u, (void)w;

}

static void node_gradient_uniform(const ks_kernel *k, const ks_arg *a, double *u,
        void *scratch) {
    V *w = scratch;
    node_gradient_uniform_0(a, u, w);
    (void)k, (void)a, (void)u, (void)w;
}

static void node_gradient_block(const ks_kernel *k, ptrdiff_t n_blocks,
        const ks_arg *a, const double *u, double *out, ptrdiff_t ld, ptrdiff_t step,
        void *scratch) {
    V *w = scratch;
    (void)k;
    for (ptrdiff_t b = 0; b < n_blocks; b++)
        node_gradient_0(a, b * KS_LANES, u, out + b * step, ld, w);
}

static const int node_gradient_count[] = {2, 1, 1, 1, 1, 1};
static const unsigned char node_gradient_varying[] = {1, 0, 1, 1, 1, 1};
extern const ks_kernel node_gradient_kernel;
const ks_kernel node_gradient_kernel = {
    .name = "node_gradient",
    .n_args = 6,
    .count = node_gradient_count,
    .varying = node_gradient_varying,
    .n_out = 1,
    .n_uniform = 0,
    .n_scratch = 0,
    .uniform = node_gradient_uniform,
    .block = node_gradient_block,
};

/* node_hessian: second derivatives of factor * cost + multipliers . constraints, upper triangle
 *
 * arguments
 *   x                 2 per point
 *   p                 1 uniform
 *   q                 1 per point
 *   t                 1 per point
 *   y                 1 per point
 *   w                 1 per point
 *   factor            1 uniform
 * outputs
 *                     1 per point
 * 2 operations
 */
#include "kinesym_simd.h"

static inline void node_hessian_0(const ks_arg *restrict a, ptrdiff_t i, const double *restrict u,
        double *restrict out, ptrdiff_t ld, V *restrict w) {
    (void)a, (void)u, (void)w; (void)i, (void)out, (void)ld;
    const V w_theta = ks_load(a[5].data + 0 * a[5].ld + i);
    ks_store(out + 0 * ld, 2.0*(w_theta*u[0])); /* d2 L / d x.theta d x.theta */
}

static void node_hessian_uniform_0(const ks_arg *restrict a, double *restrict u, V *restrict w) {
    (void)a, (void)u, (void)w;
    const V factor_factor = ks_splat(a[6].data[0]);
    u[0] = ks_first(factor_factor);
}

static void node_hessian_uniform(const ks_kernel *k, const ks_arg *a, double *u,
        void *scratch) {
    V *w = scratch;
    node_hessian_uniform_0(a, u, w);
    (void)k, (void)a, (void)u, (void)w;
}

static void node_hessian_block(const ks_kernel *k, ptrdiff_t n_blocks,
        const ks_arg *a, const double *u, double *out, ptrdiff_t ld, ptrdiff_t step,
        void *scratch) {
    V *w = scratch;
    (void)k;
    for (ptrdiff_t b = 0; b < n_blocks; b++)
        node_hessian_0(a, b * KS_LANES, u, out + b * step, ld, w);
}

static const int node_hessian_count[] = {2, 1, 1, 1, 1, 1, 1};
static const unsigned char node_hessian_varying[] = {1, 0, 1, 1, 1, 1, 0};
extern const ks_kernel node_hessian_kernel;
const ks_kernel node_hessian_kernel = {
    .name = "node_hessian",
    .n_args = 7,
    .count = node_hessian_count,
    .varying = node_hessian_varying,
    .n_out = 1,
    .n_uniform = 1,
    .n_scratch = 0,
    .uniform = node_hessian_uniform,
    .block = node_hessian_block,
};
