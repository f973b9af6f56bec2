/* What is watched, and where within a step the first of it crosses zero. */
#include "work.h"

#include <math.h>
#include <string.h>

#define NARROW 1e-6 /* share of a step within which the dense output leaves a crossing */
#define ROUNDING 64.0 /* instants by which steps of Newton's method may miss the same time */
#define SOON 1e-8 /* when a motion shows its direction [s] */

ptrdiff_t ks_watches(const hybrid_run *r) { return r->events + 4 * r->points.count; }

void ks_watch(work *w, const double *x, double t, double *out) {
    hybrid_run *r = w->r;
    ks_set_inputs(w, t);
    if (r->points.count > 0) ks_set_forces(w, x, t);
    if (r->events > 0) ks_evaluate(w, &w->guards, x, t);
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const double little = HYSTERESIS * r->scale[k], guard = w->guards.out[k];
        const double when = w->guards.out[r->events + k];
        if (guard != guard || when != when) w->failed |= 2;
        double side = r->direction[k] > 0 ? -guard : guard;
        if (r->direction[k] == 0) side = r->armed[k] == BELOW ? -guard : guard;
        if (!(when > 0.0))
            out[k] = INFINITY;
        else if (r->level[k] || r->armed[k] == SENT_BACK)
            out[k] = side + little;
        else
            out[k] = r->armed[k] == 0 ? INFINITY : side;
    }
    if (r->points.count == 0) return;
    if (!ks_some_active(r)) ks_evaluate(w, &w->contact, x, t);
    const double *f = w->u + r->m + r->d;
    for (int i = 0; i < r->points.count; i++) {
        double *mine = out + r->events + 4 * i;
        const double height = heights(w)[i];
        const int tangent = r->points.tangent[i];
        if (height != height) w->failed |= 2;
        mine[0] = r->state[i] == KS_POINT_OPEN ? height : height + HYSTERESIS;
        mine[1] = mine[2] = mine[3] = INFINITY;
        if (r->state[i] != KS_POINT_ACTIVE) continue;
        mine[0] = INFINITY;
        mine[1] = r->by_height ? HYSTERESIS - height : f[i];
        if (r->points.law[i] != KS_LAW_COULOMB) continue;
        if (r->friction[i] == KS_CONTACT_STICKS)
            mine[2] = r->points.mu[i] * f[i] - fabs(f[tangent]);
        else
            mine[3] = (r->friction[i] == KS_CONTACT_FORWARDS ? 1.0 : -1.0) * speeds(w)[tangent];
    }
}

/* By what was evaluated last; whether anything has changed */
static int rearm(work *w) {
    hybrid_run *r = w->r;
    int changed = 0;
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const double guard = w->guards.out[k], little = HYSTERESIS * r->scale[k];
        const int waits = r->armed[k] == UNARMED || r->armed[k] == SENT_BACK;
        if (!waits) continue;
        if (r->direction[k] == 0 && fabs(guard) > little)
            r->armed[k] = guard > 0.0 ? ABOVE : BELOW, changed = 1;
        else if ((r->direction[k] > 0 ? -guard : guard) > little)
            r->armed[k] = ABOVE, changed = 1;
    }
    for (int i = 0; i < r->points.count; i++)
        if (r->state[i] == KS_POINT_LEAVING && heights(w)[i] > HYSTERESIS)
            r->state[i] = KS_POINT_OPEN, changed = 1;
    return changed;
}

void ks_arm(work *w, const double *x, double t) {
    hybrid_run *r = w->r;
    ks_set_inputs(w, t);
    if (r->events > 0) ks_evaluate(w, &w->guards, x, t);
    if (r->points.count > 0) ks_evaluate(w, &w->contact, x, t);
    rearm(w);
}

void ks_send_back(work *w) {
    hybrid_run *r = w->r;
    if (r->events == 0) return;
    ks_set_inputs(w, r->t);
    ks_evaluate(w, &w->guards, r->x, r->t);
    memcpy(w->now, w->guards.out, (size_t)r->events * sizeof(double));
    for (ptrdiff_t i = 0; i < r->n; i++) w->trial[i] = r->x[i] + SOON * w->k[0][i];
    ks_set_inputs(w, r->t + SOON);
    ks_evaluate(w, &w->guards, w->trial, r->t + SOON);
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const double change = w->guards.out[k] - w->now[k];
        const int away = r->armed[k] != UNARMED || r->direction[k] * change < 0.0;
        if (r->direction[k] != 0 && away && fabs(w->now[k]) <= HYSTERESIS * r->scale[k])
            r->armed[k] = SENT_BACK;
    }
}

/* The value of one watched function at the end of a true step of length s h, left in y */
static double after_step(work *w, double h, ptrdiff_t which) {
    ks_one_step(w, h);
    ks_watch(w, w->y, w->r->t + h, w->sample);
    return w->sample[which];
}

/* Locates the crossing of one function between shares a and b of the step: first on the dense
 * output, as far as that is accurate, then by true steps, so that the state is as good as any other.
 * Returns the length. */
static double locate(work *w, double h, ptrdiff_t which, double a, double va, double b, double vb) {
    const hybrid_run *r = w->r;
    const double instant = 2.0 * EPSILON * fmax(1.0, fabs(r->t));
    for (int k = 0; k < 60 && b - a > NARROW && (b - a) * h > instant; k++) {
        double s = (k % 3 == 2 || !isfinite(va) || !isfinite(vb)) ? 0.5 * (a + b)
                                                                 : b - vb * (b - a) / (vb - va);
        if (!(s > a && s < b)) s = 0.5 * (a + b);
        ks_dense(w, h, s, w->trial);
        ks_watch(w, w->trial, r->t + s * h, w->sample);
        const double v = w->sample[which];
        if (v < 0.0)
            b = s, vb = v;
        else
            a = s, va = v;
    }
    double length = b * h, slope = (vb - va) / ((b - a) * h), last = length, was = 0.0;
    for (int k = 0; k < 12; k++) { /* first by the slope of the dense output, then by secants */
        const double v = after_step(w, length, which);
        if (k > 0 && length != last && v != was) slope = (v - was) / (length - last);
        if (!isfinite(v) || !isfinite(slope) || !(slope < 0.0)) break;
        const double next = fmin(fmax(length - v / slope, instant), h);
        const double moved = fabs(next - length), before = fabs(length - last);
        if (moved <= instant || (k > 0 && moved <= ROUNDING * instant && moved >= before)) break;
        last = length, was = v, length = next;
    }
    return length;
}

/* As `locate`; what begins at zero may have risen before it falls, and a point that was leaving may
 * have risen above the hysteresis on its way down */
static double fall(work *w, double whole, ptrdiff_t k, double a, double va, double b, double vb) {
    hybrid_run *r = w->r;
    const ptrdiff_t point = (k - r->events) / 4;
    ks_one_step(w, whole);
    double s = b;
    for (int halved = 0; halved < 24 && !(va > 0.0); halved++) {
        s = a + 0.5 * (s - a);
        ks_dense(w, whole, s, w->trial);
        ks_watch(w, w->trial, r->t + s * whole, w->sample);
        if (w->sample[k] > 0.0) a = s, va = w->sample[k];
    }
    const double found = locate(w, whole, k, a, va, b, vb);
    if (k < r->events || r->state[point] != KS_POINT_LEAVING) return found;
    const double middle = 0.5 * (a + found / whole);
    ks_one_step(w, whole);
    ks_dense(w, whole, middle, w->trial);
    ks_arm(w, w->trial, r->t + middle * whole);
    if (r->state[point] == KS_POINT_LEAVING) return found;
    ks_watch(w, w->trial, r->t + middle * whole, w->sample);
    return locate(w, whole, k, middle, w->sample[k], b, vb - HYSTERESIS);
}

ptrdiff_t ks_first_event(work *w, double *h) {
    hybrid_run *r = w->r;
    const ptrdiff_t count = ks_watches(r);
    const double whole = *h, begin = r->t;
    ks_watch(w, r->x, begin, w->watched[0]);
    for (int s = 1; s <= SAMPLES; s++) {
        const double share = (double)s / SAMPLES, last = (double)(s - 1) / SAMPLES;
        const double *x = w->y;
        if (s < SAMPLES) ks_dense(w, whole, share, w->trial), x = w->trial;
        ks_watch(w, x, begin + share * whole, w->watched[s]);
        ptrdiff_t which = -1;
        double earliest = INFINITY;
        for (ptrdiff_t k = 0; k < count; k++) {
            const double a = w->watched[s - 1][k], b = w->watched[s][k];
            if (!(b < 0.0) || a == INFINITY) continue;
            const double guess = a > 0.0 ? a / (a - b) : 0.0;
            if (guess < earliest) earliest = guess, which = k;
        }
        if (which < 0) {
            if (rearm(w) && s < SAMPLES) ks_watch(w, x, begin + share * whole, w->watched[s]);
            continue;
        }
        double length = INFINITY;
        ptrdiff_t chosen = which;
        for (ptrdiff_t k = 0; k < count; k++) { /* the earliest of all that cross here */
            const double a = w->watched[s - 1][k], b = w->watched[s][k];
            if (!(b < 0.0) || a == INFINITY) continue;
            const double found = fall(w, whole, k, last, fmax(a, 0.0), share, b);
            if (found < length) length = found, chosen = k;
        }
        ks_one_step(w, length);
        *h = length;
        return chosen;
    }
    return -1;
}
