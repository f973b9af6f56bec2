/* Implicit Runge-Kutta methods with fixed steps for 0 = f(x', x, u, p, t): Newton's method solves the
 * equations of the stages to rounding.
 *
 * A first stage at the begin of a step (Lobatto IIIA) has the rates that the last stage of the step
 * before had, or what the equations say where an input jumps. Algebraic states have values at the
 * stages; if none of these is at the end of the step (Gauss), those at a node follow from the
 * equations there.
 */
#ifndef KINESYM_IMPLICIT_H
#define KINESYM_IMPLICIT_H
#include "kinesym_stages.h"

#define KS_NEWTON_STEPS 30
/* Derivatives at one point serve for all stages; after as many corrections every stage has its own.
 * Corrections that shrink slowly then do so by their squares. */
#define KS_NEWTON_SIMPLE 8
/* A full Newton step of this relative size leaves an error of about its square: rounding. */
#define KS_NEWTON_SMALL 1e-11
/* A first correction of this size that is longer than the step which was expected shows that this
 * expectation is none. */
#define KS_NEWTON_FAR 0.1
/* A step below this size that is not much smaller than the one before is rounding itself. */
#define KS_NEWTON_STALLED 1e-6
/* Models with as many states keep derivatives and factors from step to step, smaller ones make them at
 * the begin of each. */
#define KS_NEWTON_REUSE 16
/* What is left after a correction by factors of an earlier point is below this relative size, */
#define KS_NEWTON_ROUNDING 1e-16
/* or stays below this size; there no other derivatives are made after steps that shrank well. */
#define KS_NEWTON_STALLED_REUSED 1e-10

/* A block of members. factored[l]: the factors are good enough while corrections shrink; good[l]: they
 * did within this step in time; stale[l]: the last correction was by factors of an earlier point.
 * size, length: of the last correction, by its largest entry and the sum of squares. last: stages of
 * the step before. each[l]: derivatives are those of each stage, their factors in whole. */
typedef struct {
    ks_stages s;
    V *last, *added, *weight; /* added: the last correction; weight: in its size */
    V *left;                  /* residuals */
    double *whole, *side;
    ptrdiff_t *order;
    double before[KS_LANES], size[KS_LANES], length[KS_LANES];
    int open[KS_LANES], factored[KS_LANES], stale[KS_LANES], good[KS_LANES], each[KS_LANES];
    ks_bound rhs;
} ks_implicit_steps;

/* Whether the correction of this relative size was the last. With the derivatives of an earlier point
 * errors shrink by the rate of the corrections; where that is slow derivatives are made anew. */
static int ks_im_done(ks_implicit_steps *d, int l, double size, int exact) {
    const double before = d->size[l], rate = size / before;
    const int slow = size > 0.1 * before;
    d->size[l] = size;
    if (size != size) return 1; /* seen in x */
    if (exact) return size <= KS_NEWTON_SMALL || (slow && size < KS_NEWTON_STALLED);
    if (!slow) {
        d->good[l] |= rate > 0.0;
        return rate > 0.0 ? size * rate <= KS_NEWTON_ROUNDING : size == 0.0;
    }
    const int close = size < KS_NEWTON_STALLED_REUSED;
    if (close && (rate > 0.5 || size < 100.0 * KS_NEWTON_ROUNDING)) return 1;
    if (!(close && d->good[l])) d->factored[l] = 0;
    return 0;
}

/* Derivatives at the stage in the middle, or at each, of the lanes that need them, and factors */
static void ks_im_factor(ks_implicit_steps *d) {
    ks_stages *s = &d->s;
    const ks_tableau *method = &s->r->method;
    const int i = method->implicit / 2, skipped = method->stages - method->implicit;
    int which[KS_LANES], each[KS_LANES], some = 0, some_each = 0;
    for (int l = 0; l < KS_LANES; l++) {
        const int needed = d->open[l] && !d->factored[l];
        some |= which[l] = needed && !d->each[l];
        some_each |= each[l] = needed && d->each[l];
    }
    if (some_each) ks_stages_factor_whole(s, each, d->whole, d->order);
    if (!some) return;
    ks_stages_point(s, i);
    ks_stages_derive(s, which, s->u + i * s->m, method->c[skipped + i]);
    for (int l = 0; l < KS_LANES; l++)
        if (which[l]) s->used[l] = s->h[l];
    ks_stages_factor(s);
}

/* Residuals in g become corrections */
static void ks_im_correct(ks_implicit_steps *d) {
    ks_stages *s = &d->s;
    const ptrdiff_t size = s->r->method.implicit * s->n;
    int some = 0;
    for (int l = 0; l < KS_LANES; l++) some |= d->open[l] && d->each[l];
    if (some) memcpy(d->left, s->g, (size_t)size * sizeof(V));
    ks_stages_correct(s);
    for (int l = 0; l < KS_LANES && some; l++) {
        const double *left = (const double *)d->left + l;
        if (!(d->open[l] && d->each[l])) continue;
        for (ptrdiff_t k = 0; k < size; k++) d->side[k] = left[k * KS_LANES];
        ks_columns_solve(size, d->whole + l * size * size, d->order + l * size, d->side);
        for (ptrdiff_t k = 0; k < size; k++) ((double *)s->g)[k * KS_LANES + l] = -d->side[k];
    }
}

/* Weights of corrections, of the lanes `which`: relative to the states where they have led. Those of
 * algebraic states of index 2 are corrections of constraints times 1/h, which need not become small. */
static void ks_im_weigh(ks_implicit_steps *d, const int *which) {
    ks_stages *s = &d->s;
    const V flags = ks_flags(which);
    const ptrdiff_t count = s->r->method.implicit * s->n;
    V largest = ks_splat(0.0);
    for (ptrdiff_t k = 0; k < count; k++)
        largest = ks_max(largest, ks_abs(s->x[k % s->n] + s->z[k]));
    const V least = 1e-6 * largest + 1e-12;
    for (ptrdiff_t k = 0; k < count; k++) {
        const int counts = s->r->index < 2 || !s->algebraic[k % s->n];
        const V weight = (counts ? 1.0 : 0.0) / (ks_abs(s->x[k % s->n] + s->z[k]) + least);
        d->weight[k] = ks_select(flags, weight, d->weight[k]);
    }
}

/* Adds the corrections in g to the unknowns of the lanes that need them */
static void ks_im_add(ks_implicit_steps *d, const int *which) {
    ks_stages *s = &d->s;
    const V active = ks_flags(which), none = ks_splat(0.0);
    for (ptrdiff_t k = 0; k < s->r->method.implicit * s->n; k++) {
        d->added[k] = ks_select(active, s->g[k], d->added[k]);
        s->z[k] += ks_select(active, s->g[k], none);
    }
}

/* Sizes of the corrections in g, by their largest entry, and their lengths */
static void ks_im_measure(ks_implicit_steps *d, double *sizes, double *lengths) {
    V size = ks_splat(0.0), sum = ks_splat(0.0);
    for (ptrdiff_t k = 0; k < d->s.r->method.implicit * d->s.n; k++) {
        const V part = ks_abs(d->s.g[k]) * d->weight[k];
        size = ks_max(size, part);
        sum += part * part;
    }
    ks_store(sizes, size), ks_store(lengths, sum);
}

/* The first correction. Where it is longer than the change that the last step let expect, that is
 * taken back, and the step begins where it starts. */
static void ks_im_first(ks_implicit_steps *d, double *sizes, int *turned) {
    ks_stages *s = &d->s;
    double guesses[KS_LANES];
    V guess = ks_splat(0.0);
    ks_im_add(d, d->open);
    ks_im_weigh(d, d->open);
    ks_im_measure(d, sizes, d->length);
    for (ptrdiff_t k = 0; k < s->r->method.implicit * s->n; k++) {
        const V part = (s->z[k] - s->g[k]) * d->weight[k];
        guess += part * part;
    }
    ks_store(guesses, guess);
    for (int l = 0; l < KS_LANES; l++) {
        turned[l] = d->open[l] && guesses[l] > 0.0 && !(sizes[l] <= KS_NEWTON_FAR) &&
                    !(d->length[l] <= guesses[l]);
        for (ptrdiff_t k = 0; turned[l] && k < s->r->method.implicit * s->n; k++)
            ((double *)s->z)[k * KS_LANES + l] = ((double *)d->added)[k * KS_LANES + l] = 0.0;
        if (turned[l]) d->length[l] = INFINITY;
    }
}

/* Where a correction is longer than that before, and not for better factors, that one led too far: half
 * of it is taken back, no other added (Deuflhard, Newton Methods for Nonlinear Problems, section
 * 3.3). */
static void ks_im_turn_back(ks_implicit_steps *d, const double *lengths, int *turned) {
    int some = 0;
    for (int l = 0; l < KS_LANES; l++) {
        const int longer = lengths[l] > fmax(d->length[l], KS_NEWTON_STALLED * KS_NEWTON_STALLED);
        const int lost = lengths[l] != lengths[l] && d->length[l] < INFINITY;
        turned[l] = d->open[l] && (lost || (longer && (d->factored[l] || !d->stale[l])));
        if (!turned[l]) d->length[l] = lengths[l];
        some |= turned[l];
    }
    if (!some) return;
    const V half = ks_select(ks_flags(turned), ks_splat(0.5), ks_splat(0.0));
    for (ptrdiff_t k = 0; k < d->s.r->method.implicit * d->s.n; k++) {
        d->s.z[k] -= half * d->added[k];
        d->added[k] -= half * d->added[k];
    }
}

/* The largest residuals */
static void ks_im_defects(const ks_implicit_steps *d, double *norms) {
    V norm = ks_splat(0.0);
    for (ptrdiff_t k = 0; k < d->s.r->method.implicit * d->s.n; k++)
        norm = ks_max(norm, ks_abs(d->s.g[k]));
    ks_store(norms, norm);
}

/* A correction after the first; turned: lanes that were turned back then, and are now */
static void ks_im_more(ks_implicit_steps *d, int after_first, double *sizes, int *turned) {
    double lengths[KS_LANES];
    int which[KS_LANES], weigh[KS_LANES];
    for (int l = 0; l < KS_LANES; l++) weigh[l] = after_first && turned[l];
    ks_im_measure(d, sizes, lengths);
    ks_im_turn_back(d, lengths, turned);
    for (int l = 0; l < KS_LANES; l++)
        which[l] = d->open[l] && !turned[l], weigh[l] |= turned[l];
    ks_im_add(d, which);
    ks_im_weigh(d, weigh);
}

/* The stages of one step of all lanes. Lanes that fail become NaN, the norm of their residual is
 * kept. */
static void ks_im_newton(ks_implicit_steps *d) {
    ks_stages *s = &d->s;
    const ks_run *r = s->r;
    double sizes[KS_LANES], norms[KS_LANES] = {0};
    int some = 1, turned[KS_LANES] = {0};
    for (int l = 0; l < KS_LANES; l++) {
        d->open[l] = l < s->count, d->good[l] = d->each[l] = 0;
        d->size[l] = d->length[l] = INFINITY;
    }
    for (int step = 0; step < KS_NEWTON_STEPS && some; step++) {
        int needed = 0;
        for (int l = 0; l < KS_LANES; l++) needed |= d->open[l] && !d->factored[l];
        ks_stages_residual(s);
        if (needed) ks_im_factor(d);
        if (step == 0 || step == KS_NEWTON_STEPS - 1) ks_im_defects(d, norms);
        ks_im_correct(d);
        if (step == 0)
            ks_im_first(d, sizes, turned);
        else
            ks_im_more(d, step == 1, sizes, turned);
        some = 0;
        for (int l = 0; l < KS_LANES; l++) {
            const int exact = !d->factored[l] && (r->method.implicit == 1 || d->each[l]);
            if (!d->open[l]) continue;
            d->stale[l] = d->factored[l];
            d->factored[l] = !turned[l];
            if (!turned[l]) d->open[l] = !ks_im_done(d, l, sizes[l], exact);
            some |= d->open[l];
            if (d->open[l] && step + 1 == KS_NEWTON_SIMPLE && r->method.implicit > 1)
                d->each[l] = 1, d->factored[l] = 0, d->length[l] = INFINITY;
        }
    }
    for (int l = 0; l < s->count; l++) {
        if (d->each[l]) d->factored[l] = 0;
        if (!d->open[l] && d->size[l] == d->size[l]) continue;
        for (ptrdiff_t k = 0; k < r->method.implicit * s->n; k++)
            ((double *)s->z)[k * KS_LANES + l] = (double)NAN;
        if (r->trouble[s->first + l] == 0.0) r->trouble[s->first + l] = norms[l];
    }
}

/* x' and algebraic states at the begin, of the lanes `which` */
static void ks_im_start(ks_implicit_steps *d, const int *which) {
    ks_stages *s = &d->s;
    if (d->rhs.k == NULL || s->some_algebraic) {
        ks_stages_consistent(s, which, 0.0);
        ks_stages_factor(s);
        return;
    }
    const V flags = ks_flags(which);
    for (ptrdiff_t k = 0; k < s->n; k++) s->y[k] = s->x[k];
    ks_stages_inputs(s, 0.0, s->v);
    *s->now = ks_load(s->t);
    ks_eval(&d->rhs, s->k);
    for (ptrdiff_t k = 0; k < s->n; k++) s->rate[k] = ks_select(flags, s->k[k], s->rate[k]);
}

/* Keeps the stages and goes to the end of the step; algebraic states to their last stage */
static void ks_im_advance(ks_implicit_steps *d) {
    ks_stages *s = &d->s;
    const ks_tableau *method = &s->r->method;
    const int stages = method->stages, unknown = method->implicit, skipped = stages - unknown;
    const int at_stage = method->c[stages - 1] == 1.0;
    const double *b = method->a + stages * stages;
    const V inverse = 1.0 / ks_load(s->h);
    for (ptrdiff_t k = 0; k < s->n; k++) {
        V end = ks_splat(0.0);
        for (int i = 0; i < unknown; i++) {
            d->last[i * s->n + k] = ks_stages_state(s, i, k);
            if (!at_stage) end += b[i] * ks_stages_rate(s, i, k);
        }
        if (at_stage || s->algebraic[k]) end = d->last[(unknown - 1) * s->n + k];
        if (skipped && !s->algebraic[k]) s->k[k] = inverse * ks_stages_rate(s, unknown - 1, k);
        s->y[k] = s->x[k] + end;
    }
    for (ptrdiff_t k = 0; k < s->n; k++) {
        s->x[k] = s->y[k];
        if (skipped && !s->algebraic[k]) s->rate[k] = s->k[k];
    }
    for (int l = 0; l < KS_LANES; l++) d->before[l] = s->h[l];
}

/* Whether algebraic states have no value at the end of steps */
static int ks_im_open_end(const ks_implicit_steps *d) {
    const ks_tableau *method = &d->s.r->method;
    return d->s.some_algebraic && method->c[method->stages - 1] != 1.0;
}

/* Place of stage j of interval i in what is recorded of state k */
static ptrdiff_t ks_im_place(const ks_implicit_steps *d, ptrdiff_t k, ptrdiff_t j, ptrdiff_t i) {
    const ks_run *r = d->s.r;
    return (k * (r->method.stages + ks_im_open_end(d)) + j) * (r->n_nodes - 1) + i;
}

/* Writes x' and states at all stages of the interval i, for derivatives along one trajectory */
static void ks_im_record(const ks_implicit_steps *d, ptrdiff_t i) {
    const ks_stages *s = &d->s;
    const ks_run *r = s->r;
    const int stages = r->method.stages, skipped = stages - r->method.implicit;
    const V inverse = 1.0 / ks_load(s->h);
    for (ptrdiff_t k = 0; k < s->n; k++)
        for (int j = 0; j < stages; j++) {
            const ptrdiff_t place = ks_im_place(d, k, j, i);
            V rate = s->rate[k], state = s->x[k];
            if (j >= skipped) {
                rate = inverse * ks_stages_rate(s, j - skipped, k);
                state += ks_stages_state(s, j - skipped, k);
            }
            r->stage_rates[place] = ks_first(rate);
            r->stage_states[place] = ks_first(state);
        }
}

/* One step from the share `from` of interval i, of `part` of it */
static void ks_im_step(ks_implicit_steps *d, ptrdiff_t i, ptrdiff_t from, double part, int fresh) {
    ks_stages *s = &d->s;
    const ks_run *r = s->r;
    const int unknown = r->method.implicit, skipped = r->method.stages - unknown;
    const double h = (r->time[i + 1] - r->time[i]) * part;
    int which[KS_LANES], some = 0;
    for (int l = 0; l < KS_LANES; l++) {
        const ptrdiff_t member = s->first + (l < s->count ? l : s->count - 1);
        s->at[l] = i, s->h[l] = h, s->t[l] = r->time[i] + (double)from * h;
        which[l] = fresh || (from == 0 && ks_jumps(r, s->m, member, i));
        some |= which[l];
        if (fabs(h - s->used[l]) > 1e-9 * h || r->n < KS_NEWTON_REUSE) d->factored[l] = 0;
    }
    if (some && (skipped || s->some_algebraic)) ks_im_start(d, which);
    for (int j = 0; j < unknown; j++) {
        const double share = ((double)from + r->method.c[skipped + j]) * part;
        ks_inputs_at(r, s->m, s->first, s->count, i, share, s->u + j * s->m);
    }
    ks_stages_guess(s, d->last, d->before);
    ks_im_newton(d);
    if (r->stage_rates != NULL) ks_im_record(d, i);
    ks_im_advance(d);
}

/* Writes the end of interval i; algebraic states follow from the equations there if no stage is */
static void ks_im_store(ks_implicit_steps *d, ptrdiff_t i) {
    ks_stages *s = &d->s;
    const ks_run *r = s->r;
    const size_t size = (size_t)s->n * sizeof(V);
    int every[KS_LANES];
    if (ks_im_open_end(d)) {
        for (int l = 0; l < KS_LANES; l++) every[l] = 1;
        memcpy(d->added, s->x, size);
        ks_stages_consistent(s, every, 1.0);
        ks_stages_factor(s);
    }
    ks_store_states(r, s->first, s->count, i + 1, s->x);
    ks_count_reached(r, s->first, s->count, i + 1, s->x);
    if (!ks_im_open_end(d)) return;
    for (ptrdiff_t k = 0; k < s->n && r->stage_rates != NULL; k++) {
        const ptrdiff_t place = ks_im_place(d, k, r->method.stages, i);
        r->stage_rates[place] = ks_first(s->rate[k]);
        r->stage_states[place] = ks_first(s->x[k]);
    }
    memcpy(s->x, d->added, size); /* from which the next stages are guessed */
}

/* Flags and numbers of each lane, after the vectors in r->between */
static void ks_im_numbers(ks_implicit_steps *d, int resumed) {
    ks_stages *s = &d->s;
    const ks_run *r = s->r;
    for (int l = 0; l < KS_LANES; l++) {
        const ptrdiff_t member = s->first + (l < s->count ? l : s->count - 1);
        double *place = ks_stages_numbers(s, member);
        if (resumed)
            d->before[l] = *place, s->used[l] = place[r->members],
            d->factored[l] = place[2 * r->members] != 0.0;
        else if (l < s->count)
            *place = d->before[l], place[r->members] = s->used[l],
            place[2 * r->members] = d->factored[l];
    }
}

static int ks_implicit_block(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                             ptrdiff_t end) {
    const double part = 1.0 / (double)r->substeps;
    const ptrdiff_t size = r->method.implicit * r->n;
    ks_pool pool = {NULL, 0};
    ks_implicit_steps d = {.s = {.r = r, .first = first, .count = count}};
    ks_stages *s = &d.s;
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(&pool)) return KS_NO_MEMORY;
        ks_stages_take(s, &pool);
        d.last = ks_take(&pool, size), d.added = ks_take(&pool, size);
        d.weight = ks_take(&pool, size), d.left = ks_take(&pool, size);
        d.side = (double *)ks_take(&pool, size), d.order = (ptrdiff_t *)ks_take(&pool, size);
        d.whole = (double *)ks_take(&pool, r->method.implicit > 1 ? size * size : 0);
        ks_bind(&d.rhs, r->rhs, (V *[]){s->y, s->v, s->p, s->now}, ks_uniform_of(r, first), &pool);
    }
    memset(d.last, 0, (size_t)size * sizeof(V));
    memset(d.added, 0, (size_t)size * sizeof(V));
    for (int l = 0; l < KS_LANES; l++) s->used[l] = s->h[l] = 1.0;
    ptrdiff_t from, left = r->budget, i = ks_resume(r, first, count, begin, &from);
    int status = 0, fresh = !r->resumed;
    if (r->resumed) {
        ks_stages_vectors(s, d.last, 1);
        ks_im_numbers(&d, 1);
        ks_stages_factor(s);
    } else {
        ks_load_states(r, first, count, i, s->x);
    }
    for (; i < end && ks_some_at(r, first, count, i); i++, from = 0) {
        const ptrdiff_t stop = left < r->substeps - from ? from + left : r->substeps;
        left -= stop - from;
        for (; from < stop; from++, fresh = 0) ks_im_step(&d, i, from, part, fresh);
        if (from < r->substeps) {
            ks_stages_vectors(s, d.last, 0);
            ks_im_numbers(&d, 0);
            status = ks_pause(r, first, count, i, from);
            break;
        }
        ks_im_store(&d, i);
    }
    free(pool.memory);
    return status;
}

static int ks_implicit(const ks_run *r, ptrdiff_t begin, ptrdiff_t end) {
    return ks_for_members(r, ks_implicit_block, begin, end);
}

#endif
