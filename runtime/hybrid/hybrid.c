/* The march from event to event. */
#include "hybrid.h"

#include "work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fill(work *w, ptrdiff_t node, const double *x, double t) {
    hybrid_run *r = w->r;
    const ptrdiff_t all = r->m + r->d + r->points.rows;
    set_inputs(w, t);
    if (r->points.count > 0) set_forces(w, x, t);
    for (ptrdiff_t i = 0; i < r->n; i++) r->states[i * r->nodes + node] = x[i];
    for (ptrdiff_t i = 0; i < all; i++) r->inputs[i * r->nodes + node] = w->u[i];
}

/* The nodes of the grid before the end of a step of length h that led from x to y */
static void fill_nodes(work *w, double h) {
    hybrid_run *r = w->r;
    while (r->node < r->nodes && r->time[r->node] < r->t + h) {
        const double s = (r->time[r->node] - r->t) / h;
        dense(w, h, s > 0.0 ? s : 0.0, w->trial);
        fill(w, r->node, w->trial, r->time[r->node]);
        r->node++;
    }
}

static double *take(double **memory, ptrdiff_t count) {
    double *taken = *memory;
    *memory += (count + 7) / 8 * 8;
    return taken;
}

static int bind_memory(work *w, hybrid_run *r, double **memory) {
    const ks_kernel *kernels[4] = {r->smooth, r->guards, r->resets, r->contact};
    bound *all[4] = {&w->smooth, &w->guards, &w->resets, &w->contact};
    const ptrdiff_t inputs = r->m + r->d + r->points.rows, n = r->n, seen = watches(r);
    ptrdiff_t total = inputs + 12 * (n + 8) + (SAMPLES + 3) * (seen + 8) + n * n + 128;
    for (int i = 0; i < 4; i++)
        if (kernels[i] != NULL)
            total += kernels[i]->n_uniform + kernels[i]->n_scratch + kernels[i]->n_out + 24;
    double *place = *memory = aligned_alloc(64, (size_t)(total + 64) / 8 * 8 * sizeof(double));
    if (place == NULL) return 1;
    memset(place, 0, (size_t)(total + 64) / 8 * 8 * sizeof(double));
    w->u = take(&place, inputs);
    for (int s = 0; s < STAGES; s++) w->k[s] = take(&place, n);
    w->y = take(&place, n), w->trial = take(&place, n), w->before = take(&place, n);
    w->sample = take(&place, seen), w->now = take(&place, seen);
    w->matrix = take(&place, n * n);
    for (int s = 0; s <= SAMPLES; s++) w->watched[s] = take(&place, seen);
    for (int i = 0; i < 4; i++) {
        *all[i] = (bound){kernels[i], NULL, NULL, NULL};
        if (kernels[i] == NULL) continue;
        all[i]->uniform = take(&place, kernels[i]->n_uniform);
        all[i]->scratch = take(&place, kernels[i]->n_scratch);
        all[i]->out = take(&place, kernels[i]->n_out);
        const double zero = 0.0;
        const ks_arg arg[4] = {{r->x, 1}, {w->u, 1}, {r->parameters, 0}, {&zero, 1}};
        if (kernels[i]->n_uniform > 0)
            kernels[i]->uniform(arg, all[i]->uniform, all[i]->scratch);
    }
    return 0;
}

/* Whether the step came to the end of its segment of the inputs */
static int next_segment(hybrid_run *r) {
    if (r->segment + 1 >= r->segments || r->t < r->begin[r->segment + 1]) return 0;
    r->segment++;
    return 1;
}

ptrdiff_t hybrid_log_margin(const hybrid_run *r) {
    return PASSES * (2 * r->points.count + r->events + 2);
}

static int room_left(const hybrid_run *r) {
    return r->logged + hybrid_log_margin(r) <= r->log_size &&
           (r->tape_size == 0 || r->taped < r->tape_size);
}

/* The step that begins here, before it is taken */
static void tape(work *w, double h) {
    hybrid_run *r = w->r;
    const ptrdiff_t k = r->taped, count = r->points.count;
    if (r->tape_size == 0) return;
    r->tape_time[k] = r->t, r->tape_length[k] = h;
    r->tape_segment[k] = (int)r->segment, r->tape_cause[k] = TAPE_PLAIN;
    memcpy(r->tape_state + k * r->n, r->x, (size_t)r->n * sizeof(double));
    if (r->d > 0) memcpy(r->tape_mode + k * r->d, r->mode, (size_t)r->d * sizeof(double));
    for (int i = 0; i < count; i++)
        r->tape_contact[k * count + i] =
            r->state[i] == POINT_ACTIVE ? r->friction[i] : CONTACT_OPEN;
    r->taped++;
}

/* Takes one step of at most `rest`, again and again until its error is small enough; its length, or
 * what hybrid_march returns, as a negative number */
static double accepted(work *w, double rest) {
    hybrid_run *r = w->r;
    for (;;) {
        double h = r->step * 1.000001 >= rest ? rest : r->step;
        if (r->method != METHOD_DOPRI5) h = rest / fmax(1.0, ceil(rest / r->fixed - 1e-9));
        w->failed = 0;
        one_step(w, h);
        const double size = step_error(w, h);
        if (w->failed & 4) return -HYBRID_NEWTON;
        if (size <= 1.0) {
            const double wanted = h * fmin(size > 1e-10 ? 0.9 * pow(size, -0.2) : 5.0, 5.0);
            r->step = h < r->step ? fmax(r->step, wanted) : wanted;
            return h;
        }
        if (r->method != METHOD_DOPRI5) return -HYBRID_NO_NUMBER;
        r->step = h * (size == size ? fmax(0.9 * pow(size, -0.2), 0.2) : 0.2);
        r->rejected++;
        if (!(r->t + 0.1 * r->step > r->t)) return w->failed & 1 ? -HYBRID_STUCK : -HYBRID_STEP;
    }
}

/* The rate here; whether it is finite */
static int begin_step(work *w) {
    hybrid_run *r = w->r;
    rate(w, r->x, r->t, w->k[0]);
    for (ptrdiff_t i = 0; i < r->n; i++)
        if (!isfinite(w->k[0][i])) return 0;
    send_back(w);
    set_inputs(w, r->t);
    return !(w->failed & 2);
}

/* Times closer than this are one [s] */
static double instant(const hybrid_run *r) { return 8.0 * EPSILON * fmax(1.0, fabs(r->t)); }

/* One step and what happens at its end; 0, or what hybrid_march returns */
static int advance(work *w, double end) {
    hybrid_run *r = w->r;
    double target = r->segment + 1 < r->segments ? r->begin[r->segment + 1] : end;
    if (target > end) target = end;
    const double rest = target - r->t;
    double h = accepted(w, rest);
    if (h < 0.0) return (int)-h;
    const double planned = r->step;
    const ptrdiff_t which = rest > instant(r) ? first_event(w, &h) : -1;
    if (w->failed & 2) return HYBRID_NO_NUMBER;
    fill_nodes(w, h);
    tape(w, h);
    r->t = h + instant(r) >= rest ? target : r->t + h;
    memcpy(r->x, w->y, (size_t)r->n * sizeof(double));
    r->steps++;
    r->step = planned;
    const int clock = which < 0 && next_segment(r);
    if (which < 0 && !clock) {
        memcpy(w->k[0], w->k[w->last], (size_t)r->n * sizeof(double));
        return 0;
    }
    const ptrdiff_t logged = r->logged;
    if (r->tape_size > 0) r->tape_cause[r->taped - 1] = which < 0 ? TAPE_CLOCK : (int)which;
    if (clock) {
        set_inputs(w, r->t);
        memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
        note(w, LOG_CLOCK, (int)r->segment);
    }
    const int status = handle(w, which);
    if (status) return status;
    w->silent = r->logged > logged ? 0 : w->silent + 1;
    if (w->silent > PASSES) return HYBRID_CHATTER;
    arm(w, r->x, r->t);
    return begin_step(w) ? 0 : HYBRID_NO_NUMBER;
}

/* Steps between two questions whether to stop: few, as those of large models take long */
#define HEARING 256

static int march(work *w, double end) {
    hybrid_run *r = w->r;
    if (!room_left(r)) return HYBRID_LOG_FULL;
    w->begins = 1;
    int status = handle(w, -1);
    w->begins = 0;
    if (status) return status;
    arm(w, r->x, r->t);
    if (!begin_step(w)) return HYBRID_NO_NUMBER;
    if (!(r->step > 0.0)) r->step = first_step(w);
    const ptrdiff_t pause = r->steps + r->pause;
    while (r->t + instant(r) < end) {
        if (!room_left(r)) return HYBRID_LOG_FULL;
        if (r->steps >= pause) return HYBRID_PAUSED;
        if (r->steps % HEARING == 0 && r->interrupted != NULL && r->interrupted(r->whom))
            return HYBRID_INTERRUPTED;
        status = advance(w, end);
        if (status) return status;
    }
    if (!r->by_height) project(w); /* who goes on from here begins without drift */
    r->t = end;
    if (r->node < r->nodes) {
        fill(w, r->node, r->x, r->t);
        r->node++;
    }
    return HYBRID_DONE;
}

int hybrid_march(hybrid_run *r, double end) {
    work w = {.r = r, .last = r->method == METHOD_RK4 ? 4 : 6};
    double *memory = NULL;
    if (bind_memory(&w, r, &memory)) return HYBRID_NO_MEMORY;
    for (ptrdiff_t k = 0; k < r->d; k++) w.u[r->m + k] = r->mode[k];
    set_inputs(&w, r->t);
    const int status = march(&w, end);
    free(memory);
    return status;
}
