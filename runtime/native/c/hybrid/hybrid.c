/* March of a hybrid simulation from event to event. */
#include "hybrid.h"

#include "work.h"

#include <stdlib.h>
#include <string.h>

static void fill(work *w, ptrdiff_t node, const double *x, double t) {
    hybrid_run *r = w->r;
    const ptrdiff_t all = r->m + r->d + r->points.rows;
    ks_set_inputs(w, t);
    if (r->points.count > 0) ks_set_forces(w, x, t);
    for (ptrdiff_t i = 0; i < r->n; i++) r->states[i * r->nodes + node] = x[i];
    for (ptrdiff_t i = 0; i < all; i++) r->inputs[i * r->nodes + node] = w->u[i];
}

/* The nodes of the grid before a time, within a step of length h that led from x to y */
static void fill_nodes(work *w, double h, double before) {
    hybrid_run *r = w->r;
    while (r->node < r->nodes && r->time[r->node] < before) {
        const double s = (r->time[r->node] - r->t) / h;
        ks_dense(w, h, s > 0.0 ? s : 0.0, w->trial);
        fill(w, r->node, w->trial, r->time[r->node]);
        r->node++;
    }
}

int ks_open_pool(pool *p) {
    const size_t bytes = (p->used + 8) * sizeof(double);
    p->memory = aligned_alloc(64, bytes);
    p->used = 0;
    if (p->memory != NULL) memset(p->memory, 0, bytes);
    return p->memory == NULL;
}

void ks_hybrid_bind(const work *w, bound *b, const ks_kernel *k, pool *p) {
    *b = (bound){k, NULL, NULL, NULL};
    if (k == NULL) return;
    b->uniform = take(p, k->n_uniform), b->scratch = take(p, k->n_scratch);
    b->out = take(p, k->n_out);
    const double zero = 0.0;
    const ks_arg arg[4] = {{w->r->x, 1}, {w->u, 1}, {w->r->parameters, 0}, {&zero, 1}};
    if (p->memory != NULL && k->n_uniform > 0) k->uniform(k, arg, b->uniform, b->scratch);
}

void ks_bind_work(work *w, pool *p) {
    const hybrid_run *r = w->r;
    const ptrdiff_t n = r->n, E = r->events, row = ks_row(r);
    w->u = take(p, r->m + r->d + r->points.rows);
    for (int s = 0; s <= r->method.stages || s < STAGES_OF_TRAPEZOID; s++) w->k[s] = take(p, n);
    w->y = take(p, n), w->trial = take(p, n), w->before = take(p, n);
    w->sample = take(p, row), w->now = take(p, row);
    w->matrix = take(p, r->method.stages > 0 ? 0 : n * n);
    for (int s = 0; s <= LEVELS; s++) w->looks[s] = take(p, (KS_LOOKS + 1) * row);
    w->series = (ks_series *)take(p, ks_watches(r) * (ptrdiff_t)(sizeof *w->series / sizeof(double)));
    w->passed = take(p, ks_watches(r));
    w->floor = take(p, E), w->drift = take(p, 2 * E), w->off = take(p, E);
    w->due = (int *)take(p, E), w->came = (int *)take(p, E), w->done = (int *)take(p, E);
    w->near = (int *)take(p, E), w->way = (int *)take(p, E);
    w->by_rate = (int *)take(p, E), w->moves = (int *)take(p, E);
    ks_hybrid_bind(w, &w->smooth, r->smooth, p), ks_hybrid_bind(w, &w->guards, r->guards, p);
    ks_hybrid_bind(w, &w->resets, r->resets, p), ks_hybrid_bind(w, &w->contact, r->contact, p);
    ks_hybrid_bind(w, &w->turning, r->turning, p);
}

/* Whether this segment of the inputs has ended at t */
static int segment_ends(const hybrid_run *r, double t) {
    return r->segment + 1 < r->segments && t >= r->begin[r->segment + 1];
}

ptrdiff_t ks_hybrid_log_margin(const hybrid_run *r) {
    return PASSES * (2 * r->points.count + 2) + ks_most_at_once(r) + 2;
}

static int room_left(const hybrid_run *r) {
    return r->logged + ks_hybrid_log_margin(r) <= r->log_size &&
           (r->tape_size == 0 || r->taped < r->tape_size);
}

/* The step that begins here, before it is taken */
static void tape(work *w, double h) {
    hybrid_run *r = w->r;
    const ptrdiff_t k = r->taped, count = r->points.count;
    if (r->tape_size == 0) return;
    r->tape_time[k] = r->t, r->tape_length[k] = h;
    r->tape_segment[k] = (int)r->segment, r->tape_cause[k] = KS_TAPE_PLAIN;
    memcpy(r->tape_state + k * r->n, r->x, (size_t)r->n * sizeof(double));
    if (r->d > 0) memcpy(r->tape_mode + k * r->d, r->mode, (size_t)r->d * sizeof(double));
    for (int i = 0; i < count; i++)
        r->tape_contact[k * count + i] =
            r->state[i] == KS_POINT_ACTIVE ? r->friction[i] : KS_CONTACT_OPEN;
    r->taped++;
}

/* Angle by which a guard turns in a step, at most [rad], which looks at a step see as it is: the golden angle,
 * so that steps do not come to its zeros again and again */
#define TURN 2.399963229728653

/* The longest step in which periodic guards are seen; as long as may be where there are none */
static double longest(work *w) {
    if (w->turning.k == NULL) return INFINITY;
    ks_set_inputs(w, w->r->t);
    ks_evaluate(w, &w->turning, w->r->x, w->r->t);
    const double speed = w->turning.out[0];
    return speed > 0.0 && isfinite(speed) ? TURN / speed : INFINITY;
}

/* Takes one step of at most `rest`, again and again until its error is small enough, or of a `fixed` length;
 * its length, or what ks_hybrid_march returns, as a negative number */
static double accepted(work *w, double rest, double fixed) {
    hybrid_run *r = w->r;
    const double power = -1.0 / r->method.order;
    if (w->stiff != NULL) return ks_stiff_step(w, rest);
    for (;;) {
        double h = r->step * 1.000001 >= rest ? rest : r->step;
        if (r->method.error == NULL) h = rest / fmax(1.0, ceil(rest / fixed - 1e-9));
        w->failed = 0;
        ks_one_step(w, h);
        const double size = ks_step_error(w, h);
        if (w->failed & 4) return -HYBRID_NEWTON;
        if (size <= 1.0) {
            const double wanted = h * fmin(size > 1e-10 ? 0.9 * pow(size, power) : 5.0, 5.0);
            r->step = h < r->step ? fmax(r->step, wanted) : wanted;
            return h;
        }
        if (r->method.error == NULL) return -HYBRID_NO_NUMBER;
        r->step = h * (size == size ? fmax(0.9 * pow(size, power), 0.2) : 0.2);
        r->rejected++;
        if (!(r->t + 0.1 * r->step > r->t)) return w->failed & 1 ? -HYBRID_STUCK : -HYBRID_STEP;
    }
}

/* The rate here; whether it is finite */
static int begin_step(work *w) {
    hybrid_run *r = w->r;
    ks_rate(w, r->x, r->t, w->k[0]);
    for (ptrdiff_t i = 0; i < r->n; i++)
        if (!isfinite(w->k[0][i])) return 0;
    ks_set_inputs(w, r->t);
    return !(w->failed & 2);
}

/* The next step is so many times as long as the part of this one, at its end, in which guards were seen as
 * they are, at most */
#define PARTS_AHEAD 16.0

/* One step and what happens at its end; 0, or what ks_hybrid_march returns */
static int advance(work *w, double end) {
    hybrid_run *r = w->r;
    double target = r->segment + 1 < r->segments ? r->begin[r->segment + 1] : end;
    if (target > end) target = end;
    const double rest = target - r->t;
    const double most = longest(w);
    r->step = fmin(r->step, most);
    double h = accepted(w, rest, fmin(r->fixed, most));
    if (h < 0.0) return (int)-h;
    double planned = fmin(r->step, most);
    w->level = -1;
    const ptrdiff_t which = rest > ks_blink(r) ? ks_first_event(w, &h) : -1;
    if (w->level > 0 && r->events > 0) planned = fmin(planned, PARTS_AHEAD * ldexp(w->whole, -w->level));
    if (w->failed & 2) return HYBRID_NO_NUMBER;
    if (w->endless) return HYBRID_SLIDES;
    const double now = h + ks_blink(r) >= rest ? target : r->t + h;
    const int clock = which < 0 && segment_ends(r, now);
    fill_nodes(w, h, ks_nodes_from(r, now, clock));
    tape(w, h);
    r->t = now;
    memcpy(r->x, w->y, (size_t)r->n * sizeof(double));
    r->steps++;
    r->step = planned;
    r->segment += clock;
    if (which < 0 && !clock) {
        if (h > ks_blink(r)) w->stalled = 0;
        memcpy(w->k[0], w->k[w->last], (size_t)r->n * sizeof(double));
        return 0;
    }
    const ptrdiff_t logged = r->logged;
    if (r->tape_size > 0) r->tape_cause[r->taped - 1] = which < 0 ? KS_TAPE_CLOCK : (int)which;
    if (clock) {
        ks_set_inputs(w, r->t);
        memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
        ks_note(w, KS_LOG_CLOCK, (int)r->segment);
    }
    w->looked = 0;
    const int status = ks_handle(w, which);
    if (status) return status;
    w->silent = r->logged > logged ? 0 : w->silent + 1;
    w->stalled = which >= 0 && which < r->events && h <= ks_blink(r) ? w->stalled + 1 : 0;
    if (w->silent > PASSES) return HYBRID_CHATTER;
    if (w->stalled > ks_most_at_once(r)) return HYBRID_SLIDES;
    if (w->stiff != NULL && r->logged > logged + clock) ks_stiff_restart(w);
    ks_arm(w, r->x, r->t);
    return begin_step(w) ? 0 : HYBRID_NO_NUMBER;
}

/* Steps between two questions whether to stop: few, as those of large models take long */
#define HEARING 256

static int march(work *w, double end) {
    hybrid_run *r = w->r;
    if (!room_left(r)) return HYBRID_LOG_FULL;
    w->level = -1;
    w->begins = 1;
    int status = r->steps > 0 ? HYBRID_DONE : ks_handle(w, -1); /* or it only goes on */
    w->begins = 0;
    if (status) return status;
    ks_arm(w, r->x, r->t);
    if (!begin_step(w)) return HYBRID_NO_NUMBER;
    if (!(r->step > 0.0)) r->step = ks_hybrid_first_step(w);
    const ptrdiff_t pause = r->steps + r->pause;
    while (r->t + ks_blink(r) < end) {
        if (!room_left(r)) return HYBRID_LOG_FULL;
        if (r->steps >= pause) return HYBRID_PAUSED;
        if (r->steps % HEARING == 0 && r->interrupted != NULL && r->interrupted(r->whom))
            return HYBRID_INTERRUPTED;
        status = advance(w, end);
        if (status) return status;
    }
    if (!r->by_height) ks_project(w); /* who goes on from here begins without drift */
    r->t = end;
    for (; r->node < r->nodes; r->node++) fill(w, r->node, r->x, r->time[r->node]);
    return HYBRID_DONE;
}

int ks_hybrid_march(hybrid_run *r, double end) {
    work w = {.r = r, .last = r->method.stages > 0 ? r->method.stages : 1};
    pool p = {NULL, 0};
    ks_bind_work(&w, &p); /* counts */
    if (ks_open_pool(&p)) return HYBRID_NO_MEMORY;
    ks_bind_work(&w, &p);
    for (ptrdiff_t k = 0; k < r->d; k++) w.u[r->m + k] = r->mode[k];
    ks_set_inputs(&w, r->t);
    int status = HYBRID_NO_MEMORY;
    if (r->method.implicit == 0 || !ks_stiff_open(&w)) status = march(&w, end);
    ks_stiff_close(&w);
    free(p.memory);
    return status;
}
