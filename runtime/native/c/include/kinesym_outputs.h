/* Outputs at nodes, of one member after the other, one node per lane. */
#ifndef KINESYM_OUTPUTS_H
#define KINESYM_OUTPUTS_H
#include "kinesym_stages.h"

/* What a member works with; points: where x' is not explicit, of its equations. */
typedef struct {
    const ks_run *r;
    ptrdiff_t member;
    V *v, *x, *u, *p, *t, *y;
    ks_bound rhs, outputs;
    ks_stages points;
} ks_nodes;

/* Memory and kernels; see ks_stages_take */
KS_PART void ks_no_take(ks_nodes *d, ks_pool *pool) {
    const ks_run *r = d->r;
    const ks_kernel *kernel = r->rhs != NULL ? r->rhs : r->residual;
    const int before = r->rhs != NULL ? 1 : 2;
    const ptrdiff_t n = r->n, m = kernel->count[before], np = kernel->count[before + 1];
    const double *shared = ks_uniform_of(r, d->member);
    d->v = ks_take(pool, n), d->x = ks_take(pool, n), d->u = ks_take(pool, m);
    d->p = ks_take(pool, np), d->t = ks_take(pool, 1);
    d->y = ks_take(pool, r->outputs != NULL ? r->outputs->n_out : 0);
    d->points = (ks_stages){.r = r, .first = d->member, .count = 1, .m = m};
    if (r->rhs == NULL) {
        ks_stages_take(&d->points, pool);
        if (r->index > 1) d->points.normal = ks_take(pool, n * (n + 1));
    }
    const double *parameters = r->parameters + d->member * r->parameter_stride;
    if (pool->memory != NULL)
        for (ptrdiff_t k = 0; k < np; k++) d->p[k] = ks_splat(parameters[k]);
    ks_bind(&d->rhs, r->rhs, (V *[]){d->x, d->u, d->p, d->t}, shared, pool);
    ks_bind(&d->outputs, r->outputs, (V *[]){d->v, d->x, d->u, d->p, d->t}, shared, pool);
}

/* The difference quotients of a row over the intervals that end at these nodes (at node 0: begin), of
 * those that have been reached */
KS_PART V ks_quotients(const ks_run *r, const double *row, ptrdiff_t i, ptrdiff_t count, ptrdiff_t end) {
    double lane[KS_LANES];
    for (ptrdiff_t l = 0; l < KS_LANES; l++) {
        ptrdiff_t b = i + (l < count ? l : count - 1);
        if (b == 0) b = 1;
        lane[l] = b > end ? 0.0 : (row[b] - row[b - 1]) / (r->time[b] - r->time[b - 1]);
    }
    return ks_load(lane);
}

/* x' by the equations at the nodes, NaN where these are not solved; where an input jumps, algebraic
 * states are those after it, as the inputs are. */
KS_PART void ks_no_determine(ks_nodes *d, ptrdiff_t i, ptrdiff_t count, ptrdiff_t end) {
    ks_stages *s = &d->points;
    const ks_run *r = d->r;
    int which[KS_LANES] = {0}, jumps[KS_LANES] = {0}, solved[KS_LANES], some = 0;
    for (int l = 0; l < count; l++) {
        jumps[l] = s->some_algebraic && r->index < 2 && ks_jumps(r, s->m, d->member, i + l);
        some |= which[l] = jumps[l] || r->outputs_need_rates;
    }
    if (!some) return;
    for (ptrdiff_t k = 0; k < s->n; k++) {
        s->k[k] = ks_quotients(r, ks_state_row(r, k, d->member), i, count, end);
        s->y[k] = d->x[k];
    }
    for (ptrdiff_t k = 0; k < s->m; k++) s->v[k] = d->u[k];
    ks_store(s->t, *d->t);
    for (int l = 0; l < KS_LANES; l++) s->h[l] = 1.0;
    ks_stages_determine(s, which, 0.0, solved);
    for (int l = 0; l < KS_LANES; l++) jumps[l] = jumps[l] && solved[l];
    const V known = ks_flags(solved), after = ks_flags(jumps);
    for (ptrdiff_t k = 0; k < s->n; k++) {
        d->v[k] = ks_select(known, s->k[k], ks_splat((double)NAN));
        d->x[k] = ks_select(after, s->y[k], d->x[k]);
        double lane[KS_LANES];
        ks_store(lane, d->x[k]);
        for (int l = 0; l < count; l++)
            if (jumps[l]) ks_state_row(r, k, d->member)[i + l] = lane[l];
    }
}

/* Outputs of the nodes i ... i + count - 1 */
KS_PART void ks_no_write(ks_nodes *d, ptrdiff_t i, ptrdiff_t count, ptrdiff_t end) {
    const ks_run *r = d->r;
    for (ptrdiff_t k = 0; k < r->n; k++)
        d->x[k] = ks_row_at(ks_state_row(r, k, d->member), i, count);
    for (ptrdiff_t k = 0; k < d->points.m; k++) {
        const ks_input *c = r->inputs + k;
        double lane[KS_LANES];
        for (ptrdiff_t l = 0; l < KS_LANES; l++)
            lane[l] = ks_input_at(c, c->data + d->member * c->stride, i + (l < count ? l : count - 1),
                                  0.0);
        d->u[k] = ks_load(lane);
    }
    *d->t = ks_row_at(r->time, i, count);
    if (r->rhs == NULL)
        ks_no_determine(d, i, count, end);
    else if (r->outputs_need_rates)
        ks_eval(&d->rhs, d->v);
    if (r->outputs == NULL) return;
    ks_eval(&d->outputs, d->y);
    for (int k = 0; k < r->outputs->n_out; k++) {
        double lane[KS_LANES];
        ks_store(lane, d->y[k]);
        double *row = r->values + (k * r->members + d->member) * r->n_nodes + i;
        memcpy(row, lane, (size_t)count * sizeof *row);
    }
}

KS_PART int ks_outputs_block(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                            ptrdiff_t end) {
    ks_pool pool = {NULL, 0};
    ks_nodes d = {.r = r, .member = first};
    ks_no_take(&d, &pool);
    if (ks_allocate(&pool)) return KS_NO_MEMORY;
    for (ptrdiff_t l = 0; l < count; l++, pool.used = 0) {
        d.member = first + l;
        ks_no_take(&d, &pool);
        for (ptrdiff_t i = begin; i <= end; i += KS_LANES)
            ks_no_write(&d, i, end + 1 - i < KS_LANES ? end + 1 - i : KS_LANES, end);
    }
    free(pool.memory);
    return 0;
}

/* Outputs at the nodes begin <= i <= end, and the algebraic states there that follow a jump */
KS_PART int ks_outputs(const ks_run *r, ptrdiff_t begin, ptrdiff_t end) {
    return ks_for_members(r, ks_outputs_block, begin, end);
}

#endif
