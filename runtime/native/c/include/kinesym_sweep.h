/* Exact derivatives of the explicit steps of kinesym_fixed.h along a stored trajectory.
 *
 * The linearisation of all stages of a step follows from the state at its beginning alone, so that
 * it is found for many steps at once, one per lane. What remains to be done in order is a few
 * products with sparse matrices per step; for the adjoint the generator writes them out, as the
 * function ks_transposed for KS_STATES states.
 */
#ifndef KINESYM_SWEEP_H
#define KINESYM_SWEEP_H
#include "kinesym_step.h"

/* KS_LANES consecutive steps, linearised */
typedef struct {
    const ks_run *r;
    const ks_sweep *s;
    ptrdiff_t n, m, entries, first, count; /* steps first ... first + count - 1 */
    V *x, *y, *u, *p, *t;
    V *stage[KS_STAGES_MOST]; /* x', entries of S and steps of M^-1 of each stage */
    V *kappa[KS_STAGES_MOST]; /* adjoint: M^-T d J / d x' of each stage */
    double h[KS_LANES];
    ks_bound tangent;
} ks_steps;

static int ks_steps_take(ks_steps *b, ks_pool *pool) {
    const ks_run *r = b->r;
    const ptrdiff_t np = r->tangent->count[2];
    b->n = r->n, b->m = r->tangent->count[1], b->entries = r->n_entries;
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(pool)) return 1;
        b->x = ks_take(pool, b->n), b->y = ks_take(pool, b->n), b->u = ks_take(pool, b->m);
        b->p = ks_take(pool, np), b->t = ks_take(pool, 1);
        for (int j = 0; j < r->method.stages; j++) {
            b->stage[j] = ks_take(pool, r->tangent->n_out);
            b->kappa[j] = ks_take(pool, b->n);
        }
        if (pass == 1 && r->tangent->varying[2]) ks_load_parameters(r, np, 0, 1, b->p);
        ks_bind(&b->tangent, r->tangent, (V *[]){b->y, b->u, b->p, b->t}, r->parameters, pool);
    }
    return 0;
}

/* Linearises the steps; surplus lanes repeat the last step */
static void ks_linearise(ks_steps *b, ptrdiff_t first, ptrdiff_t count) {
    const ks_run *r = b->r;
    ptrdiff_t node[KS_LANES];
    double lane[KS_LANES];
    b->first = first, b->count = count;
    for (int l = 0; l < KS_LANES; l++) {
        node[l] = first + (l < count ? l : count - 1);
        b->h[l] = r->time[node[l] + 1] - r->time[node[l]];
    }
    for (ptrdiff_t k = 0; k < b->n; k++) {
        for (int l = 0; l < KS_LANES; l++) lane[l] = ks_state_row(r, k, 0)[node[l]];
        b->x[k] = ks_load(lane);
    }
    const V h = ks_load(b->h);
    for (int j = 0; j < r->method.stages; j++) {
        const double c = r->method.c[j], *a = r->method.a + j * r->method.stages;
        for (ptrdiff_t k = 0; k < b->m; k++) {
            const ks_input *course = r->inputs + k;
            for (int l = 0; l < KS_LANES; l++)
                lane[l] = ks_input_at(course, course->data, node[l], c);
            b->u[k] = ks_load(lane);
        }
        for (int l = 0; l < KS_LANES; l++) lane[l] = r->time[node[l]] + c * b->h[l];
        *b->t = ks_load(lane);
        for (ptrdiff_t k = 0; k < b->n; k++) b->y[k] = b->x[k];
        for (int l = 0; l < j; l++) {
            if (a[l] == 0.0) continue;
            const V part = a[l] * h;
            for (ptrdiff_t k = 0; k < b->n; k++) b->y[k] += part * b->stage[l][k];
        }
        ks_eval(&b->tangent, b->stage[j]);
    }
}

static double ks_entry_of(const ks_steps *b, int stage, ptrdiff_t e, ptrdiff_t l) {
    return ((const double *)(b->stage[stage] + b->n + e))[l];
}

/* -- adjoint -------------------------------------------------------------------------------- */

/* kappa := M^-T kappa, eta := S_x^T kappa, where x' and all entries of a stage begin at e, KS_LANES
 * apart */
static void ks_transposed(const ks_run *r, const double *restrict e, double *restrict kappa,
                          double *restrict eta);

/* lambda at node i from lambda at node i + 1, without the cost of node i */
static void ks_adjoint_step(ks_steps *b, ptrdiff_t l, double *lambda) {
    const ks_run *r = b->r;
    const double h = b->h[l];
    const int stages = r->method.stages;
    const double *a = r->method.a;
    double eta[KS_STAGES_MOST][KS_STATES], sum[KS_STATES], kappa[KS_STATES];
    for (int k = 0; k < KS_STATES; k++) sum[k] = lambda[k];
    for (int j = stages - 1; j >= 0; j--) {
        const double w = a[stages * stages + j] * h;
        for (int k = 0; k < KS_STATES; k++) kappa[k] = w * lambda[k];
        for (int i = j + 1; i < stages; i++) {
            const double part = a[i * stages + j] * h;
            if (part == 0.0) continue;
            for (int k = 0; k < KS_STATES; k++) kappa[k] += part * eta[i][k];
        }
        ks_transposed(r, (const double *)b->stage[j] + l, kappa, eta[j]);
        for (int k = 0; k < KS_STATES; k++) {
            sum[k] += eta[j][k];
            ((double *)(b->kappa[j] + k))[l] = kappa[k];
        }
    }
    for (int k = 0; k < KS_STATES; k++) lambda[k] = sum[k];
}

/* What the block adds to the gradients with respect to inputs and parameters; its surplus lanes of
 * kappa are zero */
static void ks_adjoint_rest(const ks_steps *b, ptrdiff_t states, V *parameters) {
    const ks_run *r = b->r;
    const ptrdiff_t inputs = b->n + b->s->n_varied;
    for (int j = 0; j < r->method.stages; j++) {
        for (ptrdiff_t e = states; e < b->entries; e++) {
            const V part = b->stage[j][b->n + e] * b->kappa[j][r->rows[e]];
            const ptrdiff_t column = r->columns[e];
            if (column >= inputs) {
                parameters[column - inputs] += part;
                continue;
            }
            double lane[KS_LANES], *row = b->s->inputs + (column - b->n) * r->n_nodes + b->first;
            const int held = r->inputs[b->s->varied[column - b->n]].kind == KS_HELD;
            const double c = held ? 0.0 : r->method.c[j];
            ks_store(lane, part);
            for (ptrdiff_t l = 0; l < b->count; l++) {
                row[l] += (1.0 - c) * lane[l];
                if (c > 0.0) row[l + 1] += c * lane[l];
            }
        }
    }
}

static ptrdiff_t ks_state_entries(const ks_run *r) {
    ptrdiff_t states = 0;
    while (states < r->n_entries && r->columns[states] < r->n) states++;
    return states;
}

/* Entries in columns of states come before all others. */
int ks_adjoint(const ks_run *r, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s) {
    ks_steps b = {.r = r, .s = s};
    ks_pool pool = {NULL, 0}, more = {NULL, (size_t)s->width};
    const ptrdiff_t n = KS_STATES, states = ks_state_entries(r);
    double lambda[KS_STATES];
    if (ks_steps_take(&b, &pool)) return 1;
    if (ks_allocate(&more)) {
        free(pool.memory);
        return 1;
    }
    V *parameters = ks_take(&more, s->width);
    for (ptrdiff_t k = 0; k < s->width; k++) parameters[k] = ks_splat(0.0);
    memcpy(lambda, s->carry, sizeof lambda);
    for (ptrdiff_t stop = end; stop > begin;) {
        const ptrdiff_t count = stop - begin < KS_LANES ? stop - begin : KS_LANES;
        ks_linearise(&b, stop - count, count);
        for (int j = 0; j < r->method.stages && count < KS_LANES; j++)
            memset(b.kappa[j], 0, (size_t)n * sizeof(V));
        for (ptrdiff_t l = count - 1; l >= 0; l--) {
            ks_adjoint_step(&b, l, lambda);
            for (ptrdiff_t k = 0; k < n; k++) lambda[k] += s->node[k * r->n_nodes + b.first + l];
        }
        ks_adjoint_rest(&b, states, parameters);
        stop -= count;
    }
    memcpy(s->carry, lambda, sizeof lambda);
    for (ptrdiff_t k = 0; k < s->width; k++) {
        double lane[KS_LANES];
        ks_store(lane, parameters[k]);
        for (int l = 0; l < KS_LANES; l++) s->parameters[k] += lane[l];
    }
    free(more.memory);
    free(pool.memory);
    return 0;
}

/* -- tangent -------------------------------------------------------------------------------- */

/* K = M^-1 (S_x Y + S_p) for stage j: rows of `wide` vectors, one column per lane; entries of a row
 * are consecutive, first those of states */
static void ks_tangent_stage(const ks_steps *b, int j, ptrdiff_t l, ptrdiff_t states,
                             ptrdiff_t wide, const V *restrict y, V *restrict slope) {
    const ks_run *r = b->r;
    memset(slope, 0, (size_t)(b->n * wide) * sizeof(V));
    for (ptrdiff_t e = 0, next; e < states; e = next) {
        const ptrdiff_t row = r->rows[e];
        for (next = e; next < states && r->rows[next] == row;) next++;
        for (ptrdiff_t k = 0; k < wide; k++) {
            V sum = ks_splat(0.0);
            for (ptrdiff_t i = e; i < next; i++)
                sum += ks_entry_of(b, j, i, l) * y[r->columns[i] * wide + k];
            slope[row * wide + k] = sum;
        }
    }
    for (ptrdiff_t e = states; e < b->entries; e++) {
        const ptrdiff_t column = r->columns[e] - b->n - b->s->n_varied;
        if (column >= 0) ((double *)(slope + r->rows[e] * wide))[column] += ks_entry_of(b, j, e, l);
    }
    for (ptrdiff_t step = 0; step < r->n_solution; step++) {
        V *target = slope + r->targets[step] * wide;
        const V *source = slope + r->sources[step] * wide;
        const double value = ks_entry_of(b, j, b->entries + step, l);
        if (target == source)
            for (ptrdiff_t k = 0; k < wide; k++) target[k] *= value;
        else
            for (ptrdiff_t k = 0; k < wide; k++) target[k] -= value * source[k];
    }
}

static void ks_tangent_step(const ks_steps *b, ptrdiff_t l, ptrdiff_t states, ptrdiff_t wide, V *sensitivity, V *y,
                            V *slope, V *sum) {
    const ptrdiff_t size = b->n * wide;
    const int stages = b->r->method.stages;
    memcpy(sum, sensitivity, (size_t)size * sizeof(V));
    for (int j = 0; j < stages; j++) {
        const double *a = b->r->method.a + j * stages;
        const double w = b->r->method.a[stages * stages + j] * b->h[l];
        const V *from = sensitivity;
        for (int i = 0; i < j; i++) {
            const double part = a[i] * b->h[l];
            if (part == 0.0) continue;
            for (ptrdiff_t k = 0; k < size; k++) y[k] = from[k] + part * slope[i * size + k];
            from = y;
        }
        if (from != y) memcpy(y, from, (size_t)size * sizeof(V));
        ks_tangent_stage(b, j, l, states, wide, y, slope + j * size);
        for (ptrdiff_t k = 0; k < size; k++) sum[k] += w * slope[j * size + k];
    }
    memcpy(sensitivity, sum, (size_t)size * sizeof(V));
}

int ks_tangent(const ks_run *r, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s) {
    ks_steps b = {.r = r, .s = s};
    ks_pool pool = {NULL, 0}, more = {NULL, 0};
    const ptrdiff_t n = r->n, wide = (s->width + KS_LANES - 1) / KS_LANES, size = n * wide;
    if (ks_steps_take(&b, &pool)) return 1;
    more.used = (size_t)((3 + r->method.stages) * size);
    if (ks_allocate(&more)) {
        free(pool.memory);
        return 1;
    }
    V *now = ks_take(&more, size), *y = ks_take(&more, size), *sum = ks_take(&more, size);
    V *slope = ks_take(&more, r->method.stages * size);
    memset(now, 0, (size_t)size * sizeof(V));
    const size_t row = (size_t)s->width * sizeof(double);
    for (ptrdiff_t k = 0; k < n; k++) memcpy(now + k * wide, s->carry + k * s->width, row);
    for (ptrdiff_t i = begin; i < end;) {
        const ptrdiff_t count = end - i < KS_LANES ? end - i : KS_LANES;
        ks_linearise(&b, i, count);
        for (ptrdiff_t l = 0; l < count; l++) {
            ks_tangent_step(&b, l, ks_state_entries(r), wide, now, y, slope, sum);
            for (ptrdiff_t k = 0; k < n; k++)
                memcpy(s->along + ((i + l + 1 - begin) * n + k) * s->width, now + k * wide, row);
        }
        i += count;
    }
    for (ptrdiff_t k = 0; k < n; k++) memcpy(s->carry + k * s->width, now + k * wide, row);
    free(more.memory);
    free(pool.memory);
    return 0;
}

#endif
