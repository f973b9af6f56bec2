/* Locate the crossing of a watched function within a step, by true steps, so that the state there is
 * as accurate as any other. */
#include "work.h"

#define ROUNDS 12
#define HALVINGS 60
#define JUMP 0.05 /* share of its changes by which a function is off where it crosses by a jump */
#define LONGER 4.0 /* than the last, a length at which a guard is looked for on its side */
#define BESIDE 0.05 /* how far outside of a piece of the dense output true steps may cross */

/* A function, its value where it crosses, the side it comes from, how far off it is by rounding */
typedef struct {
    ptrdiff_t which;
    double value;
    int side;
    double noise;
} target;

/* On the near side positive: the function at the end of a true step of this length, left in y */
static double after_step(work *w, const target *to, double length) {
    ks_one_step(w, length);
    ks_watch(w, w->y, w->r->t + length, w->sample);
    return to->side * (w->sample[to->which] - to->value);
}

/* Newton's method with secants between two lengths; NAN where it goes astray */
static double by_secants(work *w, const target *to, double low, double high, double length,
                         double slope) {
    const double instant = 0.25 * ks_blink(w->r);
    double last = length, was = 0.0;
    for (int k = 0; k < ROUNDS; k++) {
        const double v = after_step(w, to, length);
        if (k > 0 && length != last && v != was) slope = (v - was) / (length - last);
        if (!isfinite(v) || !isfinite(slope) || !(slope < 0.0)) return NAN;
        const int jumps = fabs(v) > JUMP * ks_reach(w, to->which);
        const double moved = fabs(v / slope), before = fabs(length - last);
        const double next = fmin(fmax(length - v / slope, low), high);
        if (moved <= instant) return jumps ? NAN : length;
        if (k > 0 && moved >= before && moved <= ROUNDING * instant)
            return jumps ? NAN : length;
        if (k > 1 && moved >= before && fabs(v) <= to->noise) return length;
        last = length, was = v, length = next;
    }
    return NAN;
}

/* Between two lengths, the second of which must leave the function beyond; the end beyond */
static double by_halves(work *w, const target *to, double low, double high) {
    if (!(after_step(w, to, high) < 0.0)) return NAN;
    for (int k = 0; k < HALVINGS && high - low > 0.25 * ks_blink(w->r); k++) {
        const double middle = 0.5 * (low + high);
        if (after_step(w, to, middle) < 0.0)
            high = middle;
        else
            low = middle;
    }
    after_step(w, to, high);
    return high;
}

/* The same where true steps cross by a jump: the dense output is off by more than the piece is long in
 * which it has the jump, so that both ends are looked for beside it */
static double by_halves_beside(work *w, const target *to, double low, double high) {
    const double most = BESIDE * w->whole, first = fmax(high - low, ks_blink(w->r));
    for (double more = first; more < most && high < w->whole; more *= LONGER) {
        if (after_step(w, to, high) < 0.0) break;
        low = high, high = fmin(high + more, w->whole);
    }
    for (double more = first; more < most && low > 0.0; more *= LONGER) {
        if (!(after_step(w, to, low) < 0.0)) break;
        high = low, low = fmax(low - more, 0.0);
    }
    return by_halves(w, to, low, high);
}

/* A little longer, until the function is not on the near side any more: contacts change only then */
static double beyond(work *w, const target *to, double length) {
    double more = 0.25 * ks_blink(w->r);
    for (int k = 0; k < ROUNDS && length < w->whole; k++, more *= 2.0) {
        if (!(after_step(w, to, length) > 0.0)) break;
        length = fmin(length + more, w->whole);
    }
    return length;
}

/* Whether a guard is at zero and its rate takes it to the near side, if only for an instant */
static int rises_at_once(work *w, const target *to) {
    const hybrid_run *r = w->r;
    const double h = ks_blink(r), now = after_step(w, to, 0.0);
    for (ptrdiff_t i = 0; i < r->n; i++) w->trial[i] = r->x[i] + h * w->k[0][i];
    ks_watch(w, w->trial, r->t + h, w->sample);
    const double more = to->side * w->sample[to->which] - now;
    return more > 0.0 && -now <= fmax(ROUNDING * more, 2.0 * w->off[to->which]);
}

double ks_return(work *w, ptrdiff_t k, int side, double high, int *endless) {
    const target to = {k, 0.0, side, 0.0};
    const double least = ks_blink(w->r);
    int was = after_step(w, &to, least) > 0.0;
    double low = least;
    for (double length = LONGER * least; length < LONGER * high && low < w->whole; length *= LONGER) {
        const double v = after_step(w, &to, fmin(length, w->whole));
        if (was && v < 0.0) return by_halves(w, &to, low, fmin(length, w->whole));
        was |= v > 0.0, low = length;
    }
    *endless |= !was && rises_at_once(w, &to);
    return 0.0;
}

double ks_locate(work *w, const crossing *one) {
    const double whole = w->whole, *within = one->within;
    const target to = {one->which, one->value, one->side, one->noise};
    /* the dense output of what a contact has just begun may dip below zero at its begin, as no motion does */
    const int begins = one->which >= w->r->events && one->at_zero;
    if (begins && !(after_step(w, &to, within[1] * whole) < 0.0)) return NAN;
    const double beside = BESIDE * (within[1] - within[0]);
    const double low = fmax(within[0] - beside, 0.0) * whole;
    const double high = fmin(within[1] + beside, 1.0) * whole;
    double found = by_secants(w, &to, low, high, one->share * whole, one->side * one->slope);
    if (isnan(found)) found = by_halves_beside(w, &to, within[0] * whole, within[1] * whole);
    return one->which < w->r->events || isnan(found) ? found : beyond(w, &to, found);
}
