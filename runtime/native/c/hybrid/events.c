/* Order of events at one instant: guards that cross zero, and the side from which each comes.
 *
 * The side of zero on which each guard is, is known from the motion before. A guard that stands at zero,
 * to rounding, is on the side from which it came until its motion, with the modes and states of now,
 * takes it to the other one, which is a crossing; first by its rate, then by its second derivative. A
 * guard that has just happened is on the side to which it moves on.
 */
#include "work.h"

#include <string.h>

#define FASTER 4.0  /* than the last, the next interval after which guards are looked at */
#define AHEAD 0.125 /* of the next step, at most */
#define SMALL 1e-6  /* share of its changes by which a guard is off where it was located, not by a jump */

void ks_happen(work *w, ptrdiff_t k) {
    hybrid_run *r = w->r;
    const ptrdiff_t first = r->first_target[k], last = r->first_target[k + 1];
    memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
    if (last > first) ks_evaluate(w, &w->resets, r->x, r->t);
    for (ptrdiff_t j = first; j < last; j++) {
        if (r->target[j] < r->n)
            r->x[r->target[j]] = w->resets.out[j];
        else
            w->u[r->m + r->target[j] - r->n] = r->mode[r->target[j] - r->n] = w->resets.out[j];
    }
    w->came[k] = w->due[k];
    for (ptrdiff_t j = 0; j <= k; j++) w->due[j] = 0; /* those before it have had their turn */
    r->armed[k] = UNKNOWN;
    memset(w->done, 0, (size_t)r->events * sizeof *w->done);
    w->done[k] = 1;
    w->happened++;
    ks_note(w, KS_LOG_EVENT, (int)k);
}

/* Whether a guard that comes from this side crosses in the direction of its event */
static int of_direction(const hybrid_run *r, ptrdiff_t k, int came) {
    return r->direction[k] == 0 || r->direction[k] == -came;
}

/* The first event that is due and armed, in order of declaration; -1 if there is none. Those that are not
 * armed wait for one before them that arms them at this instant. */
static ptrdiff_t first_due(const work *w) {
    const double *armed = w->now + ks_watches(w->r);
    for (ptrdiff_t k = 0; k < w->r->events; k++)
        if (w->due[k] != 0 && armed[k] > 0.0) return k;
    return -1;
}

/* Changes of guards after the interval h: by the rates here alone if `middle` is NULL, else, with room for
 * rates half the way, to second order */
static void changes_after(work *w, double h, const double *rate, double *middle, double *out) {
    const hybrid_run *r = w->r;
    if (middle != NULL) {
        for (ptrdiff_t i = 0; i < r->n; i++) w->trial[i] = r->x[i] + 0.5 * h * rate[i];
        ks_rate(w, w->trial, r->t + 0.5 * h, middle);
        rate = middle;
    }
    for (ptrdiff_t i = 0; i < r->n; i++) w->trial[i] = r->x[i] + h * rate[i];
    ks_watch(w, w->trial, r->t + h, w->sample);
    for (ptrdiff_t k = 0; k < r->events; k++) out[k] = w->sample[k] - w->now[k];
}

/* Whether a guard on this side reaches zero together with what was located */
static int arrives(const work *w, ptrdiff_t k, int side) {
    const double slack = ROUNDING * ks_blink(w->r), slope = ks_slope_at_end(w, k);
    return side * slope < 0.0 && side * w->now[k] <= slack * fabs(slope) + w->floor[k];
}

void ks_cross_together(work *w) {
    hybrid_run *r = w->r;
    double *soon = w->drift;
    if (r->events == 0) return;
    ks_watch(w, r->x, r->t, w->now);
    ks_find_floor(w, r->x, r->t, w->now);
    changes_after(w, ks_blink(r), w->k[w->last], NULL, soon);
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const int side = w->due[k] ? w->due[k] : r->armed[k];
        if (w->due[k] == 0 && !(side != UNKNOWN && arrives(w, k, side))) continue;
        w->due[k] = of_direction(r, k, side) ? side : 0;
        w->off[k] = ROUNDING * fabs(soon[k]);
        if (w->level >= 0 && fabs(w->now[k]) < SMALL * ks_reach(w, k)) w->off[k] += fabs(w->now[k]);
        r->armed[k] = -side;
    }
}

/* -- where guards go -------------------------------------------------------------------------------- */

static int sign_beyond(double change, double floor) {
    return change > floor ? ABOVE : change < -floor ? BELOW : 0;
}

/* Directions of guards that are `near` zero, into w->way, and by their rate alone, into w->by_rate:
 * after the shortest interval after which more is seen than rounding; 0 if none is */
static void find_ways(work *w) {
    hybrid_run *r = w->r;
    const ptrdiff_t E = r->events;
    const double step = r->step > 0.0 ? r->step : 1e-3 * (r->time[r->nodes - 1] - r->t);
    double *all = w->drift, *linear = w->drift + E;
    ptrdiff_t open = 0;
    changes_after(w, AHEAD * step, w->k[0], w->k[w->last], all);
    changes_after(w, AHEAD * step, w->k[0], NULL, linear);
    for (ptrdiff_t k = 0; k < E; k++) {
        w->way[k] = w->by_rate[k] = 0; /* and stays 0 of what rests */
        const int rests = fabs(all[k]) <= w->floor[k] && fabs(linear[k]) <= w->floor[k];
        w->moves[k] = w->near[k] && !rests;
        open += w->moves[k];
    }
    for (double h = ks_blink(r); open > 0 && (h < AHEAD * step || h == ks_blink(r)); h *= FASTER) {
        changes_after(w, h, w->k[0], w->k[w->last], all);
        changes_after(w, h, w->k[0], NULL, linear);
        for (ptrdiff_t k = 0; k < E; k++) {
            if (!w->moves[k] || w->way[k] != 0) continue;
            w->way[k] = sign_beyond(all[k], w->floor[k]);
            w->by_rate[k] = sign_beyond(linear[k], w->floor[k]);
            open -= w->way[k] != 0;
        }
    }
}

/* Find guards in doubt that stand at zero to rounding: of the state, and of the time to which they
 * were located */
static void find_near(work *w) {
    hybrid_run *r = w->r;
    double *soon = w->drift;
    ks_find_floor(w, r->x, r->t, w->now);
    changes_after(w, ks_blink(r), w->k[0], NULL, soon);
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const double slack = ROUNDING * fabs(soon[k]) + 2.0 * w->off[k] + w->floor[k];
        w->near[k] = fabs(w->now[k]) <= slack;
    }
}

/* -- what is next ----------------------------------------------------------------------------------- */

/* Whether a level is found beyond zero after something else has happened */
static int found_beyond(const work *w, ptrdiff_t k) {
    const hybrid_run *r = w->r;
    return r->level[k] && !w->done[k] && r->direction[k] * w->now[k] > 0.0;
}

/* Whether the value of a guard does not say on which side it is, and that this is the old one */
static int in_doubt(const work *w, ptrdiff_t k) {
    const int side = w->r->armed[k];
    if (w->due[k] != 0) return 0;
    return side == UNKNOWN || !(side * w->now[k] > 0.0) || found_beyond(w, k);
}

/* Whether some guard is in doubt; of those near zero, where they go */
static int look_around(work *w) {
    hybrid_run *r = w->r;
    const int failed = w->failed;
    int some = 0;
    for (ptrdiff_t k = 0; k < r->events; k++) some |= in_doubt(w, k);
    if (!some) return 0;
    ks_rate(w, r->x, r->t, w->k[0]);
    find_near(w);
    for (ptrdiff_t k = 0; k < r->events; k++) w->near[k] &= in_doubt(w, k);
    find_ways(w);
    w->failed = failed;
    return 1;
}

/* Whether an event that is armed has never happened: its guard has been at zero since the start */
static int waits_since_start(const work *w, ptrdiff_t k) {
    const hybrid_run *r = w->r;
    for (ptrdiff_t e = 0; e < r->logged; e++)
        if (r->log_kind[e] == KS_LOG_EVENT && r->log_index[e] == (int)k) return 0;
    return !w->begins && w->now[ks_watches(r) + k] > 0.0;
}

/* A guard takes the side to which it goes. One that its own event sends back, or stops at zero, and that
 * leaves it beyond at once, has not passed: it would happen again and again. */
static void take_side(work *w, ptrdiff_t k) {
    hybrid_run *r = w->r;
    if (r->armed[k] != UNKNOWN) return;
    const int sets = r->first_target[k + 1] > r->first_target[k], near = w->near[k];
    r->armed[k] = near ? w->way[k] : w->now[k] > 0.0 ? ABOVE : BELOW;
    const int beyond = r->armed[k] != UNKNOWN && of_direction(r, k, -r->armed[k]);
    if (beyond && near && w->happened > 0 && r->passed_event < 0 && waits_since_start(w, k))
        r->passed_event = (int)k, r->passed_time = r->t;
    if (near && sets && w->came[k] * w->way[k] < 0 && w->by_rate[k] != w->way[k]) w->endless = 1;
}

/* Looks at guards as they are now: sides of those that have happened; whether any is in doubt */
static int judge(work *w) {
    ks_watch(w, w->r->x, w->r->t, w->now);
    if (w->failed & 2 || !look_around(w)) return 0;
    for (ptrdiff_t k = 0; k < w->r->events; k++) take_side(w, k);
    return !w->endless;
}

ptrdiff_t ks_next_due(work *w) {
    const hybrid_run *r = w->r;
    int some = 0;
    for (ptrdiff_t k = 0; k < r->events; k++) some |= w->due[k] != 0;
    if (!some) return -1;
    judge(w);
    return w->endless ? -1 : first_due(w);
}

ptrdiff_t ks_next_event(work *w) {
    hybrid_run *r = w->r;
    if (r->events == 0) return -1;
    const int judged = judge(w);
    for (ptrdiff_t k = 0; judged && k < r->events; k++) {
        const int side = r->armed[k], level = found_beyond(w, k) && !w->near[k];
        const int crosses = w->near[k] ? side * w->way[k] < 0 : side * w->now[k] < 0.0;
        if (!level && !(side != UNKNOWN && crosses)) continue;
        const int came = level ? -r->direction[k] : side;
        r->armed[k] = -came;
        w->due[k] = of_direction(r, k, came) ? came : 0;
        if (first_due(w) == k) return k;
        if (level) w->due[k] = 0; /* it is found again */
    }
    return w->endless ? -1 : first_due(w);
}
