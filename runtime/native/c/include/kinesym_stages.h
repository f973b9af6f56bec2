/* The equations of the stages of an implicit Runge-Kutta method for 0 = f(x', x, u, p, t).
 *
 * Unknown are z_i = x_i - x_0 (less h a_i0 x'_0 where the first stage is the begin of the step): the
 * rates at the stages follow as k = A^-1 z / h. Newton's method takes the derivatives M, J of f with
 * respect to x' and x at one point; a transformation of A^-1 to its real eigenvalues gamma and pairs
 * alpha +- i beta leaves matrices gamma/h M + J and (alpha + i beta)/h M + J (Hairer, Wanner, Solving
 * Ordinary Differential Equations II, section IV.8). States whose derivative appears nowhere have
 * no column in M, which need not be regular.
 */
#ifndef KINESYM_STAGES_H
#define KINESYM_STAGES_H
#include "kinesym_dense.h"
#include "kinesym_lanes.h"
#include "kinesym_step.h"

/* A block of members. Lane l begins its step of length h[l] at the time t[l] in the interval at[l]. */
typedef struct {
    const ks_run *r;
    ptrdiff_t first, count, n, m;
    double t[KS_LANES], h[KS_LANES];
    ptrdiff_t at[KS_LANES];
    V *x, *rate;             /* states and x' at the begin */
    V *z, *g;                /* (stages solved for, n): unknowns; residuals, then corrections */
    V *u;                    /* (stages solved for, m): inputs at the stages */
    V *k, *y, *now, *p, *v;  /* x', x, t, parameters, inputs that the kernels read */
    V *entries, *made;       /* derivatives in use, and those just made */
    int reals, pairs;        /* eigenvalues of A^-1 */
    V *real, *pair;          /* factors for each; of one member alone as ks_columns_factor leaves them */
    double used[KS_LANES];   /* lengths of steps that they are for */
    int *pivot, *pivots;
    ptrdiff_t *row, *rows;   /* the same for one member alone */
    double *side;            /* (2 n) */
    int *algebraic;          /* (n) */
    int some_algebraic;
    V *normal;               /* unless NULL: room (n, n + 1) for normal equations of x' alone */
    ks_bound residual, slopes;
} ks_stages;

/* Memory and kernels of a block; the same requests twice, see ks_pool. */
KS_PART void ks_stages_take(ks_stages *d, ks_pool *pool) {
    const ks_run *r = d->r;
    const ptrdiff_t n = d->n = r->n, m = d->m = r->residual->count[2], np = r->residual->count[3];
    const ptrdiff_t unknown = r->method.implicit, integers = (n + 1) / 2;
    for (d->reals = 0; d->reals < unknown && r->method.eigen[2 * d->reals + 1] == 0.0;) d->reals++;
    d->pairs = (int)(unknown - d->reals) / 2;
    const ptrdiff_t reals = d->reals > 0 ? d->reals : 1; /* one for consistent values */
    const double *shared = ks_uniform_of(r, d->first);
    d->x = ks_take(pool, n), d->rate = ks_take(pool, n), d->k = ks_take(pool, n);
    d->y = ks_take(pool, n), d->now = ks_take(pool, 1), d->p = ks_take(pool, np);
    d->v = ks_take(pool, m), d->u = ks_take(pool, unknown * m);
    d->z = ks_take(pool, unknown * n), d->g = ks_take(pool, unknown * n);
    d->entries = ks_take(pool, r->n_entries), d->made = ks_take(pool, r->n_entries);
    d->real = ks_take(pool, reals * n * n), d->pair = ks_take(pool, d->pairs * 2 * n * n);
    d->pivot = (int *)ks_take(pool, reals * integers);
    d->pivots = (int *)ks_take(pool, d->pairs * integers);
    d->algebraic = (int *)ks_take(pool, integers);
    d->row = (ptrdiff_t *)ks_take(pool, reals * n);
    d->rows = (ptrdiff_t *)ks_take(pool, d->pairs * n);
    d->side = (double *)ks_take(pool, 2 * n);
    if (pool->memory != NULL && r->residual->varying[3])
        ks_load_parameters(r, np, d->first, d->count, d->p);
    V *const blocks[] = {d->k, d->y, d->v, d->p, d->now};
    ks_bind(&d->residual, r->residual, blocks, shared, pool);
    ks_bind(&d->slopes, r->slopes, blocks, shared, pool);
    if (pool->memory == NULL) return;
    memset(d->rate, 0, (size_t)n * sizeof(V));
    memset(d->z, 0, (size_t)(unknown * n) * sizeof(V));
    memset(d->entries, 0, (size_t)r->n_entries * sizeof(V));
    for (ptrdiff_t k = 0; k < n; k++) d->algebraic[k] = 1;
    for (ptrdiff_t e = 0; e < r->n_entries; e++)
        if (r->columns[e] < n) d->algebraic[r->columns[e]] = 0;
    for (ptrdiff_t k = 0; k < n; k++) d->some_algebraic |= d->algebraic[k];
}

/* Inputs at the share c of the steps, into u */
KS_PART void ks_stages_inputs(const ks_stages *d, double c, V *u) {
    double now[KS_LANES];
    for (int l = 0; l < KS_LANES; l++) now[l] = d->t[l] + c * d->h[l];
    ks_inputs_of_lanes(d->r, d->m, d->first, d->count, d->at, now, u);
}

/* A kernel at x' in k and x in y, with inputs u, at the share c of the steps */
KS_PART void ks_stages_eval(ks_stages *d, ks_bound *kernel, const V *u, double c, V *out) {
    *d->now = ks_load(d->t) + c * ks_load(d->h);
    kernel->arg[2].data = (const double *)u;
    ks_eval(kernel, out);
}

/* gamma/h M + J; or, if `scaled` is NULL, M, with J in the columns of algebraic states */
KS_PART void ks_stages_real(const ks_stages *d, const V *entries, const V *scaled, V *a) {
    const ptrdiff_t n = d->n;
    memset(a, 0, (size_t)(n * n) * sizeof(V));
    for (ptrdiff_t e = 0; e < d->r->n_entries; e++) {
        const ptrdiff_t j = d->r->columns[e], column = j < n ? j : j - n;
        V *place = a + d->r->rows[e] * n + column;
        if (scaled != NULL)
            *place += j < n ? *scaled * entries[e] : entries[e];
        else if (j < n || d->algebraic[column])
            *place += entries[e];
    }
}

/* (alpha + i beta)/h M + J */
KS_PART void ks_stages_pair(const ks_stages *d, V re, V im, V *a) {
    const ptrdiff_t n = d->n;
    memset(a, 0, (size_t)(2 * n * n) * sizeof(V));
    for (ptrdiff_t e = 0; e < d->r->n_entries; e++) {
        const ptrdiff_t j = d->r->columns[e];
        V *place = a + 2 * (d->r->rows[e] * n + (j < n ? j : j - n));
        place[0] += j < n ? re * d->entries[e] : d->entries[e];
        if (j < n) place[1] += im * d->entries[e];
    }
}

/* The same of one member alone: scale M + J, into n x n numbers, column by column */
KS_PART void ks_stages_alone(const ks_stages *d, double scale, int with_states, double *a) {
    const ptrdiff_t n = d->n;
    memset(a, 0, (size_t)(n * n) * sizeof(double));
    for (ptrdiff_t e = 0; e < d->r->n_entries; e++) {
        const ptrdiff_t i = d->r->rows[e], j = d->r->columns[e];
        const double value = ks_first(d->entries[e]);
        if (j < n)
            a[j * n + i] += scale * value;
        else if (with_states)
            a[(j - n) * n + i] += value;
    }
}

/* Derivatives, of the lanes `which`, at x' in k and x in y, with inputs u, at the share c */
KS_PART void ks_stages_derive(ks_stages *d, const int *which, const V *u, double c) {
    const V flags = ks_flags(which);
    ks_stages_eval(d, &d->slopes, u, c, d->made);
    for (ptrdiff_t e = 0; e < d->r->n_entries; e++)
        d->entries[e] = ks_select(flags, d->made[e], d->entries[e]);
}

/* What a singular matrix leaves: solutions that are not finite */
KS_PART void ks_stages_spoil(ptrdiff_t n, double *a, ptrdiff_t *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) pivot[k] = k, a[k * n + k] = (double)NAN;
}

/* Row exchanges of all lanes for one eigenvalue */
KS_PART int *ks_stages_pivot(const ks_stages *d, int *pivot, int number) {
    return pivot + number * d->n * KS_LANES;
}

/* Factors for one member alone */
KS_PART void ks_stages_factor_alone(ks_stages *d) {
    const double *eigen = d->r->method.eigen, inverse = 1.0 / d->used[0];
    const ptrdiff_t n = d->n;
    for (int k = 0; k < d->reals; k++) {
        double *a = (double *)(d->real + k * n * n);
        ptrdiff_t *row = d->row + k * n;
        ks_stages_alone(d, eigen[2 * k] * inverse, 1, a);
        if (!ks_columns_factor(n, a, row)) ks_stages_spoil(n, a, row);
    }
    for (int k = 0; k < d->pairs; k++) {
        const double *pair = eigen + 2 * (d->reals + 2 * k);
        double *a = (double *)(d->pair + k * 2 * n * n);
        ptrdiff_t *row = d->rows + k * n;
        ks_stages_alone(d, pair[0] * inverse, 1, a);
        ks_stages_alone(d, pair[1] * inverse, 0, a + n * n);
        if (!ks_columns_factor_pair(n, a, a + n * n, row)) ks_stages_spoil(n, a, row);
    }
}

/* Factors of all lanes, for the lengths `used`; those of a lane do not depend on the others. */
KS_PART void ks_stages_factor(ks_stages *d) {
    const double *eigen = d->r->method.eigen;
    const V inverse = 1.0 / ks_load(d->used);
    const ptrdiff_t n = d->n;
    if (d->count == 1) {
        ks_stages_factor_alone(d);
        return;
    }
    for (int k = 0; k < d->reals; k++) {
        const V scaled = eigen[2 * k] * inverse;
        ks_stages_real(d, d->entries, &scaled, d->real + k * n * n);
        ks_lanes_factor(n, d->real + k * n * n, ks_stages_pivot(d, d->pivot, k));
    }
    for (int k = 0; k < d->pairs; k++) {
        const double *pair = eigen + 2 * (d->reals + 2 * k);
        V *a = d->pair + k * 2 * n * n;
        ks_stages_pair(d, pair[0] * inverse, pair[1] * inverse, a);
        ks_pairs_factor(n, a, ks_stages_pivot(d, d->pivots, k));
    }
}

/* b := (gamma/h M + J)^-1 b, for the real eigenvalue of that number */
KS_PART void ks_stages_solve(ks_stages *d, int number, V *b) {
    const ptrdiff_t n = d->n;
    const V *a = d->real + number * n * n;
    if (d->count > 1) {
        ks_lanes_solve(n, a, ks_stages_pivot(d, d->pivot, number), b);
        return;
    }
    for (ptrdiff_t k = 0; k < n; k++) d->side[k] = ks_first(b[k]);
    ks_columns_solve(n, (const double *)a, d->row + number * n, d->side);
    for (ptrdiff_t k = 0; k < n; k++) b[k] = ks_splat(d->side[k]);
}

/* b + i c := ((alpha + i beta)/h M + J)^-1 (b + i c), for the pair of that number */
KS_PART void ks_stages_solve_pair(ks_stages *d, int number, V *b, V *c) {
    const ptrdiff_t n = d->n;
    const V *pair = d->pair + number * 2 * n * n;
    const double *a = (const double *)pair;
    if (d->count > 1) {
        ks_pairs_solve(n, pair, ks_stages_pivot(d, d->pivots, number), b, c);
        return;
    }
    for (ptrdiff_t k = 0; k < n; k++) d->side[k] = ks_first(b[k]), d->side[n + k] = ks_first(c[k]);
    ks_columns_solve_pair(n, a, a + n * n, d->rows + number * n, d->side, d->side + n);
    for (ptrdiff_t k = 0; k < n; k++) b[k] = ks_splat(d->side[k]), c[k] = ks_splat(d->side[n + k]);
}

/* h x' at stage i, from the unknowns of s stages */
static inline __attribute__((always_inline)) V ks_stages_slope(const ks_stages *d, const int s, int i,
                                                               ptrdiff_t k) {
    const double *inverse = d->r->method.inverse + i * s;
    V sum = ks_splat(0.0);
    KS_UNROLLED
    for (int j = 0; j < s; j++) sum += inverse[j] * d->z[j * d->n + k];
    return sum;
}

/* The same of all stages that are solved for */
KS_PART V ks_stages_rate(const ks_stages *d, int i, ptrdiff_t k) {
    return ks_stages_slope(d, d->r->method.implicit, i, k);
}

/* x' and x at stage i, where the kernels read */
KS_PART void ks_stages_point(ks_stages *d, int i) {
    const ks_tableau *method = &d->r->method;
    const int unknown = method->implicit, skipped = method->stages - unknown;
    const V h = ks_load(d->h), inverse = 1.0 / h;
    const double start = skipped ? method->a[(i + 1) * method->stages] : 0.0;
    for (ptrdiff_t k = 0; k < d->n; k++) {
        d->k[k] = inverse * (unknown == 3 ? ks_stages_slope(d, 3, i, k) : ks_stages_rate(d, i, k));
        d->y[k] = d->x[k] + d->z[i * d->n + k];
        if (skipped) d->y[k] += start * h * d->rate[k];
    }
}

/* Residuals at the stages, into g; inputs there are in u */
KS_PART void ks_stages_residual(ks_stages *d) {
    const ks_tableau *method = &d->r->method;
    const double *c = method->c + method->stages - method->implicit;
    for (int i = 0; i < method->implicit; i++) {
        ks_stages_point(d, i);
        ks_stages_eval(d, &d->residual, d->u + i * d->m, c[i], d->g + i * d->n);
    }
}

/* Factors of the derivatives of all stages at once, each at its own point, of the lanes `which`: those
 * of lane l, of (stages n)^2 numbers, in whole[l], row exchanges in order[l] */
KS_PART void ks_stages_factor_whole(ks_stages *d, const int *which, double *whole,
                                    ptrdiff_t *order) {
    const ks_tableau *method = &d->r->method;
    const ptrdiff_t n = d->n, unknown = method->implicit, size = unknown * n;
    const double *c = method->c + method->stages - unknown;
    for (int l = 0; l < KS_LANES; l++)
        if (which[l]) memset(whole + l * size * size, 0, (size_t)(size * size) * sizeof(double));
    for (ptrdiff_t i = 0; i < unknown; i++) {
        ks_stages_point(d, (int)i);
        ks_stages_eval(d, &d->slopes, d->u + i * d->m, c[i], d->made);
        for (ptrdiff_t e = 0; e < d->r->n_entries; e++) {
            const ptrdiff_t column = d->r->columns[e], row = i * n + d->r->rows[e];
            for (int l = 0; l < KS_LANES; l++) {
                const double value = ((const double *)(d->made + e))[l];
                double *a = whole + l * size * size + row;
                if (!which[l]) continue;
                if (column >= n) a[(i * n + column - n) * size] += value;
                for (ptrdiff_t j = 0; j < unknown && column < n; j++)
                    a[(j * n + column) * size] += method->inverse[i * unknown + j] / d->h[l] * value;
            }
        }
    }
    for (int l = 0; l < KS_LANES; l++) {
        double *a = whole + l * size * size;
        if (which[l] && !ks_columns_factor(size, a, order + l * size))
            ks_stages_spoil(size, a, order + l * size);
    }
}

/* g := factor matrix g, of s stages with n numbers each; the compiler may know s */
static inline __attribute__((always_inline)) void ks_stages_mixed(const double *matrix, double factor,
                                                                  const int s, ptrdiff_t n, V *g) {
    for (ptrdiff_t k = 0; k < n; k++) {
        V part[KS_UNKNOWN_MOST];
        KS_UNROLLED
        for (int i = 0; i < s; i++) {
            part[i] = ks_splat(0.0);
            KS_UNROLLED
            for (int j = 0; j < s; j++) part[i] += factor * matrix[i * s + j] * g[j * n + k];
        }
        KS_UNROLLED
        for (int i = 0; i < s; i++) g[i * n + k] = part[i];
    }
}

/* The same of all stages that are solved for */
KS_PART void ks_stages_mix(const ks_stages *d, const double *matrix, double factor) {
    if (d->r->method.implicit == 3)
        ks_stages_mixed(matrix, factor, 3, d->n, d->g);
    else
        ks_stages_mixed(matrix, factor, d->r->method.implicit, d->n, d->g);
}

/* Residuals in g become corrections, to be added to z */
KS_PART void ks_stages_correct(ks_stages *d) {
    const ks_tableau *method = &d->r->method;
    const ptrdiff_t n = d->n;
    ks_stages_mix(d, method->from, 1.0);
    for (int k = 0; k < d->reals; k++) ks_stages_solve(d, k, d->g + k * n);
    for (int k = 0; k < d->pairs; k++) {
        V *g = d->g + (d->reals + 2 * k) * n;
        ks_stages_solve_pair(d, k, g, g + n);
    }
    ks_stages_mix(d, method->to, -1.0);
}

/* The system of the equations in x' and algebraic states as normal equations of x' alone: algebraic
 * states are as they are, and equations without x' say nothing. */
KS_PART void ks_stages_normal(ks_stages *d) {
    const ptrdiff_t n = d->n;
    V *square = d->normal, *side = d->normal + n * n;
    for (ptrdiff_t i = 0; i < n; i++) {
        side[i] = ks_splat(0.0);
        for (ptrdiff_t k = 0; k < n && !d->algebraic[i]; k++) side[i] += d->real[k * n + i] * d->g[k];
        for (ptrdiff_t j = 0; j < n; j++) {
            V *sum = square + i * n + j;
            *sum = ks_splat(i == j && d->algebraic[i] ? 1.0 : 0.0);
            if (d->algebraic[i] || d->algebraic[j]) continue;
            for (ptrdiff_t k = 0; k < n; k++) *sum += d->real[k * n + i] * d->real[k * n + j];
        }
    }
    memcpy(d->real, square, (size_t)(n * n) * sizeof(V));
    memcpy(d->g, side, (size_t)n * sizeof(V));
}

#define KS_CONSISTENT_STEPS 20

/* Newton's method for x' in k and algebraic states in y, by the equations at the share c of the steps with
 * the inputs in v, for the lanes `which`; into solved, where it converges. Spoils g and the factors. */
KS_PART void ks_stages_determine(ks_stages *d, const int *which, double c, int *solved) {
    const ptrdiff_t n = d->n;
    int open[KS_LANES], some = 0, step = 0;
    double last[KS_LANES];
    for (int l = 0; l < KS_LANES; l++) some |= open[l] = which[l], last[l] = INFINITY;
    for (; some && step < KS_CONSISTENT_STEPS; step++) {
        const V active = ks_flags(open);
        V size = ks_splat(0.0), scale = ks_splat(0.0);
        ks_stages_eval(d, &d->residual, d->v, c, d->g);
        ks_stages_eval(d, &d->slopes, d->v, c, d->made);
        ks_stages_real(d, d->made, NULL, d->real);
        if (d->normal != NULL) ks_stages_normal(d);
        ks_lanes_factor(n, d->real, d->pivot);
        ks_lanes_solve(n, d->real, d->pivot, d->g);
        for (ptrdiff_t k = 0; k < n; k++) {
            V *value = d->algebraic[k] ? d->y + k : d->k + k;
            *value -= ks_select(active, d->g[k], ks_splat(0.0));
            size = ks_max(size, ks_abs(d->g[k]));
            scale = ks_max(scale, ks_abs(*value));
        }
        double sizes[KS_LANES], scales[KS_LANES];
        ks_store(sizes, size), ks_store(scales, scale);
        some = 0;
        for (int l = 0; l < KS_LANES; l++) {
            const int small = sizes[l] <= 1e-14 * scales[l] || sizes[l] == 0.0;
            const int stalled = sizes[l] <= 1e-8 * scales[l] && sizes[l] > 0.1 * last[l];
            open[l] = open[l] && !small && !stalled && sizes[l] == sizes[l];
            last[l] = sizes[l];
            some |= open[l];
        }
    }
    for (int l = 0; l < KS_LANES; l++) solved[l] = which[l] && !open[l] && last[l] == last[l];
}

/* x' and the algebraic states from the equations at the share c of the steps, for the lanes `which`;
 * where these cannot be solved, nothing changes. Spoils g and the factors. */
KS_PART void ks_stages_consistent(ks_stages *d, const int *which, double c) {
    const ptrdiff_t n = d->n;
    int solved[KS_LANES];
    for (ptrdiff_t k = 0; k < n; k++) d->k[k] = d->rate[k], d->y[k] = d->x[k];
    ks_stages_inputs(d, c, d->v);
    ks_stages_determine(d, which, c, solved);
    const V flags = ks_flags(solved);
    for (ptrdiff_t k = 0; k < n; k++) {
        if (!d->algebraic[k]) d->rate[k] = ks_select(flags, d->k[k], d->rate[k]);
        d->x[k] = ks_select(flags, d->y[k], d->x[k]);
    }
}

/* States at stage i less those at the begin */
KS_PART V ks_stages_state(const ks_stages *d, int i, ptrdiff_t k) {
    const ks_tableau *method = &d->r->method;
    if (method->stages == method->implicit) return d->z[i * d->n + k];
    return d->z[i * d->n + k] +
           method->a[(i + 1) * method->stages] * ks_load(d->h) * d->rate[k];
}

/* Weights of the stages that are solved for in the polynomial of a step at its share s: of what is
 * zero at the begin (states less those there), or `free` there (algebraic states) */
KS_PART void ks_stages_weights(const ks_tableau *method, double s, int free_begin, double *w) {
    const double *c = method->c + method->stages - method->implicit;
    for (int i = 0; i < method->implicit; i++) {
        w[i] = free_begin ? 1.0 : s / c[i];
        for (int j = 0; j < method->implicit; j++)
            if (j != i) w[i] *= (s - c[j]) / (c[i] - c[j]);
    }
}

/* The weights by which stages, as `last` has them, become what stage i is expected to differ from the
 * end of that step, per lane */
KS_PART void ks_stages_ahead(const ks_stages *d, const double *before, int i, int algebraic,
                             double (*w)[KS_LANES]) {
    const ks_tableau *method = &d->r->method;
    const int unknown = method->implicit;
    const double c = method->c[method->stages - unknown + i];
    double end[KS_UNKNOWN_MOST] = {0}, one[KS_UNKNOWN_MOST];
    double known = -1.0;
    if (algebraic)
        end[unknown - 1] = 1.0;
    else
        ks_stages_weights(method, 1.0, 0, end);
    for (int l = 0; l < KS_LANES; l++) {
        const double share = before[l] > 0.0 ? d->h[l] / before[l] : 0.0;
        if (share != known) ks_stages_weights(method, 1.0 + c * share, algebraic, one);
        known = share;
        for (int j = 0; j < unknown; j++) w[j][l] = one[j] - end[j];
    }
}

/* Starting values of Newton's method: the polynomial of the step of length before[l], whose stages
 * are in last, continued; none if there was none */
KS_PART void ks_stages_guess(ks_stages *d, const V *last, const double *before) {
    const ks_tableau *method = &d->r->method;
    const int unknown = method->implicit, skipped = method->stages - unknown;
    double w[2][KS_UNKNOWN_MOST][KS_LANES];
    for (int i = 0; i < unknown; i++) {
        const double start = skipped ? method->a[(i + 1) * method->stages] : 0.0;
        for (int j = 0; j <= d->some_algebraic; j++) ks_stages_ahead(d, before, i, j, w[j]);
        for (ptrdiff_t k = 0; k < d->n; k++) {
            V sum = ks_splat(0.0);
            for (int j = 0; j < unknown; j++)
                sum += ks_load(w[d->algebraic[k]][j]) * last[j * d->n + k];
            if (skipped) sum -= start * ks_load(d->h) * d->rate[k];
            d->z[i * d->n + k] = sum;
        }
    }
}

/* What a block keeps between calls, in rows of r->between: x, x', stages of the step before,
 * derivatives */
KS_PART void ks_stages_vectors(ks_stages *s, V *last, int resumed) {
    const ks_run *r = s->r;
    const ptrdiff_t n = s->n, rows[] = {n, n, r->method.implicit * n, r->n_entries};
    const ptrdiff_t from[] = {0, n, 2 * n, (2 + r->method.implicit) * n};
    V *const vectors[] = {s->x, s->rate, last, s->entries};
    for (int k = 0; k < 4; k++)
        if (resumed)
            ks_load_between(r, s->first, s->count, from[k], rows[k], vectors[k]);
        else
            ks_store_between(r, s->first, s->count, from[k], rows[k], vectors[k]);
}

/* Numbers of a member after these vectors, one in each row of r->between */
KS_PART double *ks_stages_numbers(const ks_stages *s, ptrdiff_t member) {
    const ks_run *r = s->r;
    return r->between + ((2 + r->method.implicit) * s->n + r->n_entries) * r->members + member;
}

/* Whether an input of a member jumps at a node */
KS_PART int ks_jumps(const ks_run *r, ptrdiff_t m, ptrdiff_t member, ptrdiff_t node) {
    if (node == 0) return 0;
    for (ptrdiff_t k = 0; k < m; k++) {
        const ks_input *c = r->inputs + k;
        const double *row = c->data + member * c->stride;
        if (c->kind == KS_HELD && row[node - 1] != row[node]) return 1;
        if (c->kind == KS_PARABOLA && row[3 * node - 1] != row[3 * node]) return 1;
    }
    return 0;
}

#endif
