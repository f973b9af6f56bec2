/* What all time-stepping loops share: one member of an ensemble per lane, blocks of lanes over
 * threads. A single trajectory is an ensemble of one, whose value all lanes carry.
 */
#ifndef KINESYM_STEP_H
#define KINESYM_STEP_H
#include <stdlib.h>
#include <string.h>
#include "kinesym_simd.h"

/* Methods that choose their steps: more than this within one interval are no way through it. */
#define KS_STEPS_MOST 10000000

/* A kernel with its arguments in place, called for one block of lanes */
typedef struct {
    const ks_kernel *k;
    ks_arg arg[7];
    double *uniform;
    V *scratch;
} ks_bound;

KS_PART void ks_eval(const ks_bound *b, V *out) {
    b->k->block(b->k, 1, b->arg, b->uniform, (double *)out, KS_LANES, 0, b->scratch);
}

/* Memory for one block: vectors are handed out from the front. Without memory (NULL) the same
 * requests only count. */
typedef struct {
    V *memory;
    size_t used;
} ks_pool;

KS_PART V *ks_take(ks_pool *pool, ptrdiff_t vectors) {
    V *taken = pool->memory == NULL ? NULL : pool->memory + pool->used;
    pool->used += (size_t)vectors;
    return taken;
}

/* Room for so many numbers or places */
KS_PART double *ks_take_numbers(ks_pool *pool, ptrdiff_t count) {
    return (double *)ks_take(pool, (count + KS_LANES - 1) / KS_LANES);
}

KS_PART int ks_allocate(ks_pool *pool) {
    size_t bytes = (pool->used + 1) * sizeof(V);
    pool->memory = aligned_alloc(64, ks_round_up((ptrdiff_t)bytes, 64));
    pool->used = 0;
    return pool->memory == NULL;
}

/* What the uniform argument of kernels is read from: the parameters of a member, with the numbers of
 * tables after them, or these alone */
static inline const double *ks_uniform_of(const ks_run *r, ptrdiff_t member) {
    return r->tables != NULL ? r->tables : r->parameters + member * r->parameter_stride;
}

/* Binds a kernel to blocks of V, in the order of its arguments; a uniform argument is read from
 * `uniform`. */
KS_PART void ks_bind(ks_bound *b, const ks_kernel *k, V *const *blocks, const double *uniform,
                    ks_pool *pool) {
    b->k = k;
    if (k == NULL) return;
    for (int j = 0; j < k->n_args; j++)
        b->arg[j] = k->varying[j] ? (ks_arg){(double *)blocks[j], KS_LANES} : (ks_arg){uniform, 0};
    b->scratch = ks_take(pool, k->n_scratch);
    b->uniform = (double *)ks_take(pool, (k->n_uniform + KS_LANES - 1) / KS_LANES);
    if (pool->memory != NULL && k->n_uniform > 0) k->uniform(k, b->arg, b->uniform, b->scratch);
}

/* The value at the fraction s of the interval i */
static inline double ks_input_at(const ks_input *c, const double *row, ptrdiff_t i, double s) {
    if (c->kind == KS_HELD) return row[i];
    if (c->kind == KS_PARABOLA) { /* exact at s = 0, 1/2, 1 */
        row += 3 * i;
        if (s == 0.0) return row[0]; /* nothing lies behind the last node */
        return (1.0 - s) * (1.0 - 2.0 * s) * row[0] + 4.0 * s * (1.0 - s) * row[1] +
               s * (2.0 * s - 1.0) * row[2];
    }
    return s == 0.0 ? row[i] : row[i] + s * (row[i + 1] - row[i]);
}

/* Inputs of `count` members from `first` on at the fraction s of interval i, one per lane */
KS_PART void ks_inputs_at(const ks_run *r, ptrdiff_t m, ptrdiff_t first, ptrdiff_t count,
                         ptrdiff_t i, double s, V *u) {
    for (ptrdiff_t k = 0; k < m; k++) {
        const ks_input *c = r->inputs + k;
        if (c->stride == 0) {
            u[k] = ks_splat(ks_input_at(c, c->data, i, s));
            continue;
        }
        double lane[KS_LANES];
        for (ptrdiff_t l = 0; l < KS_LANES; l++) {
            const ptrdiff_t member = first + (l < count ? l : count - 1);
            lane[l] = ks_input_at(c, c->data + member * c->stride, i, s);
        }
        u[k] = ks_load(lane);
    }
}

/* The same where every lane has a time of its own: now[l] in the interval at[l] */
KS_PART void ks_inputs_of_lanes(const ks_run *r, ptrdiff_t m, ptrdiff_t first, ptrdiff_t count,
                                const ptrdiff_t *at, const double *now, V *u) {
    double lane[KS_LANES];
    for (ptrdiff_t k = 0; k < m; k++) {
        const ks_input *c = r->inputs + k;
        for (ptrdiff_t l = 0; l < KS_LANES; l++) {
            const ptrdiff_t i = at[l] < r->n_nodes - 1 ? at[l] : r->n_nodes - 2;
            const ptrdiff_t member = first + (l < count ? l : count - 1);
            const double s = (now[l] - r->time[i]) / (r->time[i + 1] - r->time[i]);
            lane[l] = ks_input_at(c, c->data + member * c->stride, i, s < 1.0 ? s : 1.0);
        }
        u[k] = ks_load(lane);
    }
}

/* A first step of lane l from the sizes of x and x' (Hairer, Norsett, Wanner, Solving Ordinary
 * Differential Equations I, section II.4, simplified) */
KS_PART double ks_first_step(const ks_run *r, int l, const V *x, const V *rate) {
    double size = 0.0, slope = 0.0;
    for (ptrdiff_t i = 0; i < r->n; i++) {
        const double value = fabs(((const double *)x)[i * KS_LANES + l]);
        const double scale = r->atol + r->rtol * value;
        size = fmax(size, value / scale);
        slope = fmax(slope, fabs(((const double *)rate)[i * KS_LANES + l]) / scale);
    }
    const double whole = r->time[r->n_nodes - 1] - r->time[0];
    const double h = size < 1e-5 || slope < 1e-5 ? 1e-6 * whole : 0.01 * size / slope;
    return h < whole ? h : whole;
}

/* Row k of the states of a member */
static inline double *ks_state_row(const ks_run *r, ptrdiff_t k, ptrdiff_t member) {
    return r->states + (k * r->members + member) * r->n_nodes;
}

KS_PART void ks_load_states(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i, V *x) {
    for (ptrdiff_t k = 0; k < r->n; k++) {
        double lane[KS_LANES];
        for (ptrdiff_t l = 0; l < KS_LANES; l++)
            lane[l] = ks_state_row(r, k, first + (l < count ? l : count - 1))[i];
        x[k] = ks_load(lane);
    }
}

KS_PART void ks_store_states(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i,
                            const V *x) {
    for (ptrdiff_t k = 0; k < r->n; k++) {
        double lane[KS_LANES];
        ks_store(lane, x[k]);
        for (ptrdiff_t l = 0; l < count; l++) ks_state_row(r, k, first + l)[i] = lane[l];
    }
}

/* The same where a call has left the block between nodes: `rows` rows from `row` on of r->between */
KS_PART void ks_load_between(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t row,
                            ptrdiff_t rows, V *x) {
    for (ptrdiff_t k = 0; k < rows; k++) {
        double lane[KS_LANES];
        const double *from = r->between + (row + k) * r->members + first;
        for (ptrdiff_t l = 0; l < KS_LANES; l++) lane[l] = from[l < count ? l : count - 1];
        x[k] = ks_load(lane);
    }
}

KS_PART void ks_store_between(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t row,
                             ptrdiff_t rows, const V *x) {
    for (ptrdiff_t k = 0; k < rows; k++) {
        double lane[KS_LANES];
        ks_store(lane, x[k]);
        for (ptrdiff_t l = 0; l < count; l++)
            r->between[(row + k) * r->members + first + l] = lane[l];
    }
}

KS_PART void ks_load_parameters(const ks_run *r, ptrdiff_t n, ptrdiff_t first, ptrdiff_t count,
                               V *p) {
    for (ptrdiff_t k = 0; k < n; k++) {
        double lane[KS_LANES];
        for (ptrdiff_t l = 0; l < KS_LANES; l++)
            lane[l] = r->parameters[(first + (l < count ? l : count - 1)) * r->parameter_stride + k];
        p[k] = ks_load(lane);
    }
}

/* Counts the node i as reached by the members whose states are finite and that have reached all
 * before; the others have failed. */
KS_PART void ks_count_reached(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i,
                             const V *x) {
    V sum = ks_splat(0.0);
    for (ptrdiff_t k = 0; k < r->n; k++) sum += 0.0 * x[k];
    double lane[KS_LANES];
    ks_store(lane, sum);
    for (ptrdiff_t l = 0; l < count; l++) {
        if (r->reached[first + l] != i) continue;
        if (lane[l] == 0.0)
            r->reached[first + l] = i + 1;
        else
            r->taken[first + l] = KS_FAILED;
    }
}

/* Whether some member of the block is still running at node i */
KS_PART int ks_some_at(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i) {
    for (ptrdiff_t l = 0; l < count; l++)
        if (r->reached[first + l] == i + 1 && r->taken[first + l] != KS_FAILED) return 1;
    return 0;
}

/* Where a block goes on: the last node that it has reached, and substeps taken since then */
KS_PART ptrdiff_t ks_resume(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                           ptrdiff_t *substep) {
    ptrdiff_t node = begin, taken = 0;
    for (ptrdiff_t l = first; r->resumed && l < first + count; l++) {
        if (r->taken[l] == KS_FAILED || r->reached[l] <= node) continue;
        node = r->reached[l] - 1, taken = r->taken[l];
    }
    *substep = taken;
    return node;
}

/* Members of the block that run at node i have taken so many substeps since */
KS_PART int ks_pause(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i,
                    ptrdiff_t substep) {
    for (ptrdiff_t l = first; l < first + count; l++)
        if (r->reached[l] == i + 1) r->taken[l] = substep;
    return KS_MORE;
}

/* A loop for `count` members from `first` on; returns what a loop returns */
typedef int ks_block_fn(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                        ptrdiff_t end);

/* Blocks of members over threads */
KS_PART int ks_for_members(const ks_run *r, ks_block_fn *block, ptrdiff_t begin, ptrdiff_t end) {
    const ptrdiff_t blocks = (r->members + KS_LANES - 1) / KS_LANES;
    const int threads = r->threads < blocks ? r->threads : (int)blocks;
    int failed = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1) reduction(| : failed)
#endif
    for (ptrdiff_t b = 0; b < blocks; b++) {
        const ptrdiff_t first = b * KS_LANES, rest = r->members - first;
        failed |= block(r, first, rest < KS_LANES ? rest : KS_LANES, begin, end);
    }
    (void)threads;
    return failed;
}

/* Samples of a row at the nodes i ... i + count - 1, the last one repeated to fill the lanes */
KS_PART V ks_row_at(const double *row, ptrdiff_t i, ptrdiff_t count) {
    if (count == KS_LANES) return ks_load(row + i);
    double lane[KS_LANES];
    for (ptrdiff_t l = 0; l < KS_LANES; l++) lane[l] = row[i + (l < count ? l : count - 1)];
    return ks_load(lane);
}

#endif
