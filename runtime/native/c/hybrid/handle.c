/* Handling of one instant: impacts, changes of contacts, events, and their log. */
#include "work.h"

#include <string.h>

#define RESTING 1e-9 /* a point this slow along its height rests [m/s] */

/* More events in the last second than allowed; breaks of inputs, at their known times, are none. */
static int chatters(const hybrid_run *r) {
    ptrdiff_t k = r->logged - r->per_second, count = 0;
    if (k < 0 || !(r->log_time[k] > r->t - 1.0)) return 0;
    for (k = r->logged - 1; k >= 0 && r->log_time[k] > r->t - 1.0; k--)
        count += r->log_kind[k] != KS_LOG_CLOCK;
    return count >= r->per_second;
}

/* -- contacts change ------------------------------------------------------------------------------ */

/* Contacts that are at the ground; with those that leave it slowly */
static int at_ground(const work *w, int *near) {
    const hybrid_run *r = w->r;
    int some = 0;
    for (int i = 0; i < r->points.count; i++) {
        near[i] = r->state[i] == KS_POINT_ACTIVE || heights(w)[i] <= HYSTERESIS;
        some |= near[i];
    }
    return some;
}

/* Whether points at the ground leave it after impulses, all of them more slowly than v_stop, and may
 * be kept there: then their modes say how. What slides goes on sliding; law stick would have to stop
 * it at once. */
static int may_stay(const work *w, const int *near, const double *impulse, int *mode) {
    const hybrid_run *r = w->r;
    const int R = r->points.rows;
    double after[HYBRID_ROWS], fastest = 0.0;
    int kept[HYBRID_CONTACTS];
    for (int i = 0; i < R; i++) {
        after[i] = speeds(w)[i];
        for (int j = 0; j < R; j++) after[i] += coupling(w)[i * R + j] * impulse[j];
    }
    for (int i = 0; i < r->points.count; i++) {
        const int law = r->points.law[i];
        const double slide = law == KS_LAW_SLIP ? 0.0 : after[r->points.tangent[i]];
        kept[i] = mode[i];
        if (near[i]) fastest = fmax(fastest, after[i]);
        if (!near[i] || mode[i] != KS_CONTACT_OPEN) continue;
        if (law == KS_LAW_STICK && fabs(slide) > r->v_stop) return 0;
        kept[i] = fabs(slide) <= r->v_stop ? KS_CONTACT_STICKS
                  : slide > 0.0            ? KS_CONTACT_FORWARDS
                                           : KS_CONTACT_BACKWARDS;
    }
    if (!(fastest > RESTING && fastest < r->v_stop)) return 0;
    memcpy(mode, kept, sizeof kept);
    return 1;
}

/* An impact of all points at the ground, logged next: x += B impulse. If they would leave it with
 * less than v_stop they stay, which takes energy away. Returns 0 if no impulse is consistent. */
static int impact(work *w, const int *near) {
    hybrid_run *r = w->r;
    const int R = r->points.rows;
    double b[HYBRID_ROWS], impulse[HYBRID_ROWS], slide[HYBRID_CONTACTS], e = 1.0;
    int mode[HYBRID_CONTACTS];
    for (int i = 0; i < r->points.count; i++)
        if (near[i] && speeds(w)[i] < 0.0) e = fmin(e, r->restitution[i]);
    for (int i = 0; i < R; i++) b[i] = speeds(w)[i];
    for (int i = 0; i < r->points.count; i++) {
        b[i] *= 1.0 + e; /* Moreau: 0 <= impulse, v+ + e v- >= 0, one of them 0 */
        mode[i] = near[i] ? KS_CONTACT_STICKS : KS_CONTACT_OPEN;
    }
    memset(slide, 0, sizeof slide); /* what counts is the velocity afterwards */
    if (!ks_contact_solve(&r->points, coupling(w), b, near, slide, mode, impulse)) return 0;
    if (may_stay(w, near, impulse, mode)) {
        e = 0.0;
        if (!ks_contact_forces(&r->points, coupling(w), speeds(w), mode, KS_DOUBT, impulse))
            return 0;
    }
    for (ptrdiff_t j = 0; j < r->n; j++)
        for (int i = 0; i < R; i++) r->x[j] += effects(w)[j * R + i] * impulse[i];
    for (int i = 0; i < r->points.count; i++)
        r->log_contact[r->logged * r->points.count + i] = mode[i];
    r->log_restitution[r->logged] = e;
    return 1;
}

/* Find points at rest on the ground that keep pressing */
static int settle(work *w) {
    hybrid_run *r = w->r;
    int near[HYBRID_CONTACTS], mode[HYBRID_CONTACTS], old[HYBRID_CONTACTS], ground[HYBRID_CONTACTS];
    double f[HYBRID_ROWS], slide[HYBRID_CONTACTS];
    memset(w->u + r->m + r->d, 0, (size_t)r->points.rows * sizeof(double));
    ks_evaluate(w, &w->contact, r->x, r->t);
    at_ground(w, ground);
    memcpy(old, r->state, sizeof(int) * (size_t)r->points.count);
    ks_sliding(w, slide);
    for (int i = 0; i < r->points.count; i++) {
        const int slides = r->friction[i] >= KS_CONTACT_FORWARDS &&
                           (w->begins || fabs(slide[i]) > RESTING);
        near[i] = ground[i] && fabs(speeds(w)[i]) <= RESTING;
        mode[i] = !near[i]                                ? KS_CONTACT_OPEN
                  : w->ended[i] >= 0                      ? w->ended[i]
                  : r->state[i] == KS_POINT_LEAVING          ? KS_CONTACT_OPEN
                  : r->state[i] == KS_POINT_ACTIVE && slides ? r->friction[i]
                                                          : KS_CONTACT_STICKS;
    }
    if (!ks_contact_solve(&r->points, coupling(w), free_motion(w), near, slide, mode, f)) return -1;
    int changed = 0;
    for (int i = 0; i < r->points.count; i++) {
        const int was = r->friction[i];
        if (mode[i] != KS_CONTACT_OPEN) {
            r->state[i] = KS_POINT_ACTIVE, r->friction[i] = mode[i];
        } else {
            r->state[i] = heights(w)[i] <= HYSTERESIS ? KS_POINT_LEAVING : KS_POINT_OPEN;
        }
        if (r->state[i] == old[i] && !(r->state[i] == KS_POINT_ACTIVE && was != r->friction[i]))
            continue;
        changed = 1;
        if (r->state[i] == KS_POINT_ACTIVE)
            ks_note(w, old[i] == KS_POINT_ACTIVE ? KS_LOG_SLIDE : KS_LOG_CLOSE, i);
        else if (old[i] == KS_POINT_ACTIVE)
            ks_note(w, KS_LOG_RELEASE, i);
    }
    return changed;
}

/* Impacts, then forces; -1 if there is no consistent state, 1 if something changed */
static int handle_contacts(work *w) {
    hybrid_run *r = w->r;
    int near[HYBRID_CONTACTS], changed = 0;
    if (r->points.count == 0) return 0;
    memset(w->u + r->m + r->d, 0, (size_t)r->points.rows * sizeof(double));
    ks_evaluate(w, &w->contact, r->x, r->t);
    if (at_ground(w, near)) {
        int hits = -1;
        for (int i = 0; i < r->points.count; i++)
            if (near[i] && speeds(w)[i] < -RESTING &&
                (hits < 0 || speeds(w)[i] < speeds(w)[hits])) hits = i;
        if (hits >= 0) {
            memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
            if (!impact(w, near)) return -1;
            ks_note(w, KS_LOG_IMPACT, hits);
            memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
            changed = 1;
        }
    }
    const int settled = settle(w);
    return settled < 0 ? -1 : changed | settled;
}

/* Takes the drift of active points back: the least change of x along the gradients of their heights
 * and places, and of velocities by impulses without energy to speak of */
void ks_project(work *w) {
    hybrid_run *r = w->r;
    const int R = r->points.rows;
    if (!ks_some_active(r)) return;
    ks_evaluate(w, &w->contact, r->x, r->t);
    double b[HYBRID_ROWS], impulse[HYBRID_ROWS], square[HYBRID_ROWS * HYBRID_ROWS];
    int mode[HYBRID_CONTACTS], active[HYBRID_CONTACTS], count = 0;
    for (int i = 0; i < r->points.count; i++) {
        mode[i] = r->state[i] == KS_POINT_ACTIVE ? r->friction[i] : KS_CONTACT_OPEN;
        if (mode[i] != KS_CONTACT_OPEN) active[count++] = i;
        if (mode[i] >= KS_CONTACT_FORWARDS) mode[i] = KS_CONTACT_STICKS;
    }
    for (int i = 0; i < count; i++) {
        const double *mine = gradients(w) + active[i] * r->n;
        b[i] = heights(w)[active[i]];
        for (int k = 0; k < count; k++) {
            const double *other = gradients(w) + active[k] * r->n;
            square[i * count + k] = 0.0;
            for (ptrdiff_t j = 0; j < r->n; j++) square[i * count + k] += mine[j] * other[j];
        }
    }
    ks_contact_linear(count, square, b, impulse);
    for (int i = 0; i < count; i++)
        for (ptrdiff_t j = 0; j < r->n; j++)
            r->x[j] -= gradients(w)[active[i] * r->n + j] * impulse[i];
    contact_set normal = r->points;
    int smooth[HYBRID_CONTACTS];
    for (int i = 0; i < r->points.count; i++) /* what slides keeps its velocity along the ground */
        smooth[i] = r->friction[i] >= KS_CONTACT_FORWARDS ? KS_LAW_SLIP : r->points.law[i];
    normal.law = smooth;
    ks_evaluate(w, &w->contact, r->x, r->t);
    for (int i = 0; i < R; i++) b[i] = speeds(w)[i];
    ks_contact_forces(&normal, coupling(w), b, mode, INFINITY, impulse); /* b is rounding itself */
    for (ptrdiff_t j = 0; j < r->n; j++)
        for (int i = 0; i < R; i++) r->x[j] += effects(w)[j * R + i] * impulse[i];
}

/* -- all of it --------------------------------------------------------------------------------------- */

/* New mode of a contact when one of its functions has crossed zero: there the forces of its old
 * mode still agree with all inequalities, to rounding */
static void expect(work *w, ptrdiff_t which) {
    hybrid_run *r = w->r;
    for (int i = 0; i < r->points.count; i++) w->ended[i] = -1;
    if (which < r->events) return;
    const int i = (int)(which - r->events) / 4, what = (int)(which - r->events) % 4;
    if (what == 1) w->ended[i] = KS_CONTACT_OPEN;
    if (what < 2) return;
    ks_set_forces(w, r->x, r->t);
    const double *f = w->u + r->m + r->d;
    double largest = 0.0;
    for (int k = 0; k < r->points.count; k++) largest = fmax(largest, f[k]);
    if (what == 2 && f[i] < 1e-9 * largest) { /* shared friction ends with pressure */
        w->ended[i] = KS_CONTACT_OPEN;
        return;
    }
    for (int k = 0; k < r->points.count; k++) { /* points of one body begin and end together */
        if (r->state[k] != KS_POINT_ACTIVE || r->points.law[k] != KS_LAW_COULOMB) continue;
        const int tangent = r->points.tangent[k], sticks = r->friction[k] == KS_CONTACT_STICKS;
        const double room = r->points.mu[k] * f[k] - fabs(f[tangent]);
        if (what == 2 && sticks && (k == i || room < 1e-9 * largest))
            w->ended[k] = f[tangent] < 0.0 ? KS_CONTACT_FORWARDS : KS_CONTACT_BACKWARDS;
        if (what == 3 && !sticks && (k == i || fabs(speeds(w)[tangent]) <= RESTING))
            w->ended[k] = KS_CONTACT_STICKS;
    }
}

/* Execute the events that `next` gives, one after the other, until none is left; 0, or what
 * ks_hybrid_march returns. Guards that are sent back and forth across zero, or stand there, would go
 * on for ever. */
static int handle_events(work *w, ptrdiff_t (*next)(work *), int *stop) {
    hybrid_run *r = w->r;
    for (ptrdiff_t k; (k = next(w)) >= 0;) {
        ks_happen(w, k);
        *stop |= r->stop[k];
        if (w->happened > ks_most_at_once(r)) return HYBRID_SLIDES;
        if (chatters(r)) return HYBRID_CHATTER;
    }
    return w->endless ? HYBRID_SLIDES : HYBRID_DONE;
}

int ks_handle(work *w, ptrdiff_t which) {
    hybrid_run *r = w->r;
    const size_t bytes = (size_t)r->events * sizeof(int);
    int stop = 0;
    /* drift is no motion, but for a height that ends a contact; at the start it is not known what
     * slides */
    if (r->steps > 0 && !r->by_height) ks_project(w);
    memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
    ks_set_inputs(w, r->t); /* nodes of the grid may have been filled since */
    expect(w, which);
    w->happened = 0;
    if (bytes > 0) memset(w->came, 0, bytes), memset(w->done, 0, bytes);
    for (ptrdiff_t k = 0; k < r->events; k++) w->off[k] = 0.0;
    if (!w->begins) ks_cross_together(w);
    int status = handle_events(w, ks_next_due, &stop);
    for (int pass = 0; pass < PASSES && !status; pass++) {
        const ptrdiff_t happened = w->happened;
        int stops = 0;
        const int changed = handle_contacts(w);
        if (changed < 0) return HYBRID_STUCK;
        if (changed && bytes > 0) memset(w->done, 0, bytes);
        status = handle_events(w, ks_next_event, &stops);
        if (stops && !status) return HYBRID_STOPPED;
        if (!status && chatters(r)) return HYBRID_CHATTER;
        if (changed || w->happened > happened || status) continue;
        ks_project(w);
        if (bytes > 0) memset(w->due, 0, bytes);
        return stop ? HYBRID_STOPPED : 0;
    }
    return status ? status : HYBRID_CHATTER;
}
