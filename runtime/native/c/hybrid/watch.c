/* Watched functions: guards of events, heights, pressures and friction of contacts. */
#include "work.h"

#include <string.h>

#define HUGE_GUARD 1e100

ptrdiff_t ks_watches(const hybrid_run *r) { return r->events + 4 * r->points.count; }

ptrdiff_t ks_row(const hybrid_run *r) { return ks_watches(r) + r->events; }

static void watch_guards(work *w, const double *x, double t, double *out) {
    const hybrid_run *r = w->r;
    double *armed = out + ks_watches(r);
    if (r->events > 0) ks_evaluate(w, &w->guards, x, t);
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const double little = r->level[k] ? r->direction[k] * HYSTERESIS * r->scale[k] : 0.0;
        const double guard = w->guards.out[k] - little;
        armed[k] = w->guards.out[r->events + k];
        out[k] = isinf(guard) ? copysign(HUGE_GUARD, guard) : guard;
        if (armed[k] != armed[k]) out[k] = NAN;
        if (out[k] != out[k]) w->failed |= 2;
    }
}

/* Reserve of friction of a contact that sticks. One that has not risen yet but does not press,
 * of forces 0, is taken as if it were kept at the ground: it has been at its limit before. */
static double friction_left(const work *w, int i) {
    const hybrid_run *r = w->r;
    const double *f = w->u + r->m + r->d;
    double kept[HYBRID_ROWS];
    int mode[HYBRID_CONTACTS];
    if (r->by_height && f[i] == 0.0) {
        for (int k = 0; k < r->points.count; k++)
            mode[k] = k == i || f[k] != 0.0 ? r->friction[k] : KS_CONTACT_OPEN;
        if (ks_contact_forces(&r->points, coupling(w), free_motion(w), mode, KS_DOUBT, kept)) f = kept;
    }
    return r->points.mu[i] * f[i] - fabs(f[r->points.tangent[i]]);
}

void ks_watch(work *w, const double *x, double t, double *out) {
    hybrid_run *r = w->r;
    ks_set_inputs(w, t);
    if (r->points.count > 0) ks_set_forces(w, x, t);
    watch_guards(w, x, t, out);
    if (r->points.count == 0) return;
    if (!ks_some_active(r)) ks_evaluate(w, &w->contact, x, t);
    const double *f = w->u + r->m + r->d;
    for (int i = 0; i < r->points.count; i++) {
        double *mine = out + r->events + 4 * i;
        const double height = heights(w)[i];
        const int tangent = r->points.tangent[i];
        if (height != height) w->failed |= 2;
        mine[0] = height;
        mine[1] = mine[2] = mine[3] = INFINITY;
        if (r->state[i] != KS_POINT_ACTIVE) continue;
        mine[0] = INFINITY;
        mine[1] = r->by_height ? HYSTERESIS - height : f[i];
        if (r->points.law[i] != KS_LAW_COULOMB) continue;
        if (r->friction[i] == KS_CONTACT_STICKS)
            mine[2] = friction_left(w, i);
        else
            mine[3] = (r->friction[i] == KS_CONTACT_FORWARDS ? 1.0 : -1.0) * speeds(w)[tangent];
    }
}

void ks_arm(work *w, const double *x, double t) {
    hybrid_run *r = w->r;
    if (r->points.count == 0) return;
    ks_set_inputs(w, t);
    ks_evaluate(w, &w->contact, x, t);
    for (int i = 0; i < r->points.count; i++)
        if (r->state[i] == KS_POINT_LEAVING && heights(w)[i] > HYSTERESIS)
            r->state[i] = KS_POINT_OPEN;
}

/* The state is nudged by a few roundings each, not all alike, so that differences of states are found out too */
void ks_find_floor(work *w, const double *x, double t, const double *here) {
    const hybrid_run *r = w->r;
    const int failed = w->failed;
    for (ptrdiff_t i = 0; i < r->n; i++) {
        const double size = (double)(2 + i * 7 % 5) * EPSILON;
        w->trial[i] = x[i] * (1.0 + (i * 5 / 2 % 2 ? -size : size));
    }
    ks_watch(w, w->trial, t * (1.0 + EPSILON), w->sample);
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const double moved = 16.0 * fabs(w->sample[k] - here[k]);
        w->floor[k] = fmin(moved, HYSTERESIS * r->scale[k]); /* beyond that it jumps here */
    }
    w->failed = failed;
}

double ks_slope_at_end(const work *w, ptrdiff_t k) {
    if (w->level < 0) return 0.0;
    return ks_series_slope(w->series + k, w->share) * ldexp(1.0, w->level) / w->whole;
}

double ks_reach(const work *w, ptrdiff_t k) {
    double sum = 0.0;
    for (int i = 0; i <= KS_DEGREE; i++) sum += fabs(w->series[k].c[i]);
    return sum;
}
