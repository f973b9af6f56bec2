#include "hybrid.h"
#include "include/kinesym_dopri_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 2.220446049250313e-16
#define HYSTERESIS 1.4901161193847656e-08 /* its root */
#define SAMPLES 5                         /* per step, where events are looked for */
#define PASSES 20                         /* of the handler at one instant */
#define RESTING 1e-9                      /* a point this slow along its height rests [m/s] */

/* A kernel of (x, u, p, t) with its memory */
typedef struct {
    const ks_kernel *k;
    double *uniform, *scratch, *out;
} bound;

typedef struct {
    hybrid_run *r;
    bound smooth, guards, resets, contact;
    double *u, *k[7], *y, *trial, *sample, *now, *before;
    double *watched[SAMPLES + 1];
    int failed; /* contacts without a consistent state */
    int ended[HYBRID_CONTACTS]; /* what an event says a contact turns to: a mode, -1 nothing */
} work;

static double *take(double **memory, ptrdiff_t count) {
    double *taken = *memory;
    *memory += (count + 7) / 8 * 8;
    return taken;
}

static ptrdiff_t watches(const hybrid_run *r) { return r->events + 4 * r->points.count; }

static void evaluate(const work *w, const bound *b, const double *x, double t) {
    const ks_arg arg[4] = {{x, 1}, {w->u, 1}, {w->r->parameters, 0}, {&t, 1}};
    b->k->block(1, arg, b->uniform, b->out, 1, 0, b->scratch);
}

/* -- smooth motion -------------------------------------------------------------------------------- */

static void set_inputs(const work *w, double t) {
    const hybrid_run *r = w->r;
    for (ptrdiff_t i = 0; i < r->m; i++) {
        const ptrdiff_t k = i * r->segments + r->segment;
        w->u[i] = r->value[k] + r->slope[k] * (t - r->begin[r->segment]);
    }
}

/* Parts of what the contact kernel gives */
static const double *heights(const work *w) { return w->contact.out; }
static const double *speeds(const work *w) { return w->contact.out + w->r->points.count; }
static const double *free_motion(const work *w) { return speeds(w) + w->r->points.rows; }
static const double *coupling(const work *w) { return free_motion(w) + w->r->points.rows; }
static const double *effects(const work *w) {
    return coupling(w) + w->r->points.rows * w->r->points.rows;
}
static const double *gradients(const work *w) { return effects(w) + w->r->n * w->r->points.rows; }

static int some_active(const hybrid_run *r) {
    for (int i = 0; i < r->points.count; i++)
        if (r->state[i] == POINT_ACTIVE) return 1;
    return 0;
}

/* Tangential velocities of contacts, 0 without friction */
static void sliding(const work *w, double *slide) {
    for (int i = 0; i < w->r->points.count; i++)
        slide[i] = w->r->points.tangent[i] < 0 ? 0.0 : speeds(w)[w->r->points.tangent[i]];
}

/* Contact forces at (x, t), into u; what is not active has none */
static void set_forces(work *w, const double *x, double t) {
    hybrid_run *r = w->r;
    double *f = w->u + r->m + r->d;
    memset(f, 0, (size_t)r->points.rows * sizeof *f);
    if (!some_active(r)) return;
    evaluate(w, &w->contact, x, t);
    int mode[HYBRID_CONTACTS];
    for (int i = 0; i < r->points.count; i++)
        mode[i] = r->state[i] == POINT_ACTIVE ? r->friction[i] : CONTACT_OPEN;
    if (!r->by_height) {
        if (!contact_forces(&r->points, coupling(w), free_motion(w), mode, f)) w->failed = 1;
        return;
    }
    double slide[HYBRID_CONTACTS];
    int near[HYBRID_CONTACTS];
    sliding(w, slide);
    for (int i = 0; i < r->points.count; i++) near[i] = r->state[i] == POINT_ACTIVE;
    if (!contact_solve(&r->points, coupling(w), free_motion(w), near, slide, mode, f))
        w->failed = 1;
}

static void rate(work *w, const double *x, double t, double *out) {
    set_inputs(w, t);
    set_forces(w, x, t);
    evaluate(w, &w->smooth, x, t);
    memcpy(out, w->smooth.out, (size_t)w->r->n * sizeof *out);
    w->r->calls++;
}

/* One step of length h from (t, x), whose rate is k[0]; the end in y, its rate in k[6] */
static void step(work *w, double h) {
    const hybrid_run *r = w->r;
    for (int s = 1; s < 7; s++) {
        for (ptrdiff_t i = 0; i < r->n; i++) {
            double sum = 0.0;
            for (int j = 0; j < s; j++) sum += ks_dp_a[s][j] * w->k[j][i];
            w->y[i] = r->x[i] + h * sum;
        }
        rate(w, w->y, r->t + ks_dp_c[s] * h, w->k[s]);
    }
}

static double error(const work *w, double h) {
    const hybrid_run *r = w->r;
    double sum = 0.0;
    for (ptrdiff_t i = 0; i < r->n; i++) {
        double e = 0.0;
        for (int s = 0; s < 7; s++) e += ks_dp_e[s] * w->k[s][i];
        e *= h / (r->atol + r->rtol * fmax(fabs(r->x[i]), fabs(w->y[i])));
        sum += e * e;
    }
    return sqrt(sum / (double)r->n);
}

/* The state at the share s of the step, of order 4 */
static void dense(const work *w, double h, double s, double *out) {
    for (ptrdiff_t i = 0; i < w->r->n; i++) {
        const double x = w->r->x[i], first = h * w->k[0][i], last = h * w->k[6][i];
        double fifth = 0.0;
        for (int j = 0; j < 7; j++) fifth += ks_dp_d[j] * w->k[j][i];
        const double a = w->y[i] - x, b = first - a, c = a - last - b;
        out[i] = x + s * (a + (1.0 - s) * (b + s * (c + (1.0 - s) * h * fifth)));
    }
}

/* A first step from the sizes of x and x' (Hairer, Norsett, Wanner I, section II.4, simplified) */
static double first_step(const work *w) {
    const hybrid_run *r = w->r;
    double x = 0.0, slope = 0.0;
    for (ptrdiff_t i = 0; i < r->n; i++) {
        const double scale = r->atol + r->rtol * fabs(r->x[i]);
        x = fmax(x, fabs(r->x[i]) / scale), slope = fmax(slope, fabs(w->k[0][i]) / scale);
    }
    return x < 1e-5 || slope < 1e-5 ? 1e-6 : 0.01 * x / slope;
}

/* -- what is watched ------------------------------------------------------------------------------ */

/* Values that trigger when they fall below zero; INFINITY where nothing is watched. First the
 * events, then of each contact: height, pressure, what is left of its friction, sliding. */
static void watch(work *w, const double *x, double t, double *out) {
    hybrid_run *r = w->r;
    set_inputs(w, t);
    if (r->points.count > 0) set_forces(w, x, t);
    if (r->events > 0) evaluate(w, &w->guards, x, t);
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const double little = HYSTERESIS * r->scale[k], guard = w->guards.out[k];
        double side = r->direction[k] > 0 ? -guard : guard;
        if (r->direction[k] == 0) side = r->armed[k] < 0 ? -guard : guard;
        out[k] = !(w->guards.out[r->events + k] > 0.0) ? INFINITY
                 : r->level[k] || r->armed[k] == 0     ? side + little
                                                       : side;
    }
    if (r->points.count == 0) return;
    if (!some_active(r)) evaluate(w, &w->contact, x, t);
    const double *f = w->u + r->m + r->d;
    for (int i = 0; i < r->points.count; i++) {
        double *mine = out + r->events + 4 * i;
        const double height = heights(w)[i];
        const int tangent = r->points.tangent[i];
        mine[0] = r->state[i] == POINT_OPEN ? height : height + HYSTERESIS;
        mine[1] = mine[2] = mine[3] = INFINITY;
        if (r->state[i] != POINT_ACTIVE) continue;
        mine[0] = INFINITY;
        mine[1] = r->by_height ? HYSTERESIS - height : f[i];
        if (r->points.law[i] != LAW_COULOMB) continue;
        if (r->friction[i] == CONTACT_STICKS)
            mine[2] = r->points.mu[i] * f[i] - fabs(f[tangent]);
        else
            mine[3] = (r->friction[i] == CONTACT_FORWARDS ? 1.0 : -1.0) * speeds(w)[tangent];
    }
}

/* Guards that have moved away from zero can trigger again, points that have risen are open */
static void arm(work *w, const double *x, double t) {
    hybrid_run *r = w->r;
    set_inputs(w, t);
    if (r->events > 0) evaluate(w, &w->guards, x, t);
    for (ptrdiff_t k = 0; k < r->events; k++) {
        const double guard = w->guards.out[k], little = HYSTERESIS * r->scale[k];
        if (r->direction[k] == 0 && r->armed[k] == 0 && fabs(guard) > little)
            r->armed[k] = guard > 0.0 ? 1 : -1;
        else if ((r->direction[k] > 0 ? -guard : guard) > little && r->armed[k] == 0)
            r->armed[k] = 1;
    }
    int some = 0;
    for (int i = 0; i < r->points.count; i++) some |= r->state[i] == POINT_LEAVING;
    if (!some) return;
    evaluate(w, &w->contact, x, t);
    for (int i = 0; i < r->points.count; i++)
        if (r->state[i] == POINT_LEAVING && heights(w)[i] > HYSTERESIS) r->state[i] = POINT_OPEN;
}

/* The value of one watched function at the end of a true step of length s h, left in y */
static double after_step(work *w, double h, ptrdiff_t which) {
    step(w, h);
    watch(w, w->y, w->r->t + h, w->sample);
    return w->sample[which];
}

/* Locates the crossing of one function between shares a and b of the step: first on the dense
 * output, then by true steps, so that the state is as good as any other. Returns the length. */
static double locate(work *w, double h, ptrdiff_t which, double a, double va, double b, double vb) {
    const hybrid_run *r = w->r;
    const double close = 100.0 * EPSILON * fmax(1.0, fabs(r->t)) / h;
    for (int k = 0; k < 100 && b - a > close; k++) { /* Illinois */
        double s = (k % 3 == 2 || !isfinite(va) || !isfinite(vb)) ? 0.5 * (a + b)
                                                                 : b - vb * (b - a) / (vb - va);
        if (!(s > a && s < b)) s = 0.5 * (a + b);
        dense(w, h, s, w->trial);
        watch(w, w->trial, r->t + s * h, w->sample);
        const double v = w->sample[which];
        if (v < 0.0)
            b = s, vb = v;
        else
            a = s, va = v;
    }
    double length = b * h, before = (b - fmax(1e-3 * b, close)) * h;
    double v = after_step(w, length, which), u = after_step(w, before, which);
    for (int k = 0; k < 6 && v != u && fabs(length - before) > 0.0; k++) { /* secant */
        const double next = length - v * (length - before) / (v - u);
        if (!(next > 0.0 && next <= h * 1.0001)) break;
        before = length, u = v, length = next;
        v = after_step(w, length, which);
        if (fabs(length - before) <= 4.0 * EPSILON * fmax(1.0, fabs(r->t))) break;
    }
    return length;
}

/* -- the log -------------------------------------------------------------------------------------- */

static void note(work *w, int kind, int index) {
    hybrid_run *r = w->r;
    const ptrdiff_t k = r->logged < r->log_size ? r->logged : r->log_size - 1;
    r->log_time[k] = r->t, r->log_kind[k] = kind, r->log_index[k] = index;
    memcpy(r->log_before + k * r->n, w->before, (size_t)r->n * sizeof(double));
    memcpy(r->log_after + k * r->n, r->x, (size_t)r->n * sizeof(double));
    r->logged = k + 1;
}

/* More events in the last second than allowed */
static int chatters(const hybrid_run *r) {
    const ptrdiff_t k = r->logged - r->per_second;
    return k >= 0 && r->log_time[k] > r->t - 1.0;
}

/* -- contacts change ------------------------------------------------------------------------------ */

/* Contacts that are at the ground; with those that leave it slowly */
static int at_ground(const work *w, int *near) {
    const hybrid_run *r = w->r;
    int some = 0;
    for (int i = 0; i < r->points.count; i++) {
        near[i] = r->state[i] == POINT_ACTIVE || heights(w)[i] <= HYSTERESIS;
        some |= near[i];
    }
    return some;
}

/* An impact of all points at the ground: x += B impulse. Those that press on with no more than
 * v_stop afterwards do so without restitution. Returns 0 if no impulse is consistent. */
static int impact(work *w, const int *near) {
    hybrid_run *r = w->r;
    const int R = r->points.rows;
    double b[HYBRID_ROWS], impulse[HYBRID_ROWS], slide[HYBRID_CONTACTS], least = 1.0, fast = 0.0;
    int mode[HYBRID_CONTACTS];
    for (int i = 0; i < r->points.count; i++)
        if (near[i] && speeds(w)[i] < 0.0) {
            least = fmin(least, r->restitution[i]);
            fast = fmax(fast, -speeds(w)[i]);
        }
    const double e = least * fast < r->v_stop ? 0.0 : least;
    for (int i = 0; i < R; i++) b[i] = speeds(w)[i];
    for (int i = 0; i < r->points.count; i++) {
        b[i] *= 1.0 + e; /* Moreau: 0 <= impulse, v+ + e v- >= 0, one of them 0 */
        mode[i] = near[i] ? CONTACT_STICKS : CONTACT_OPEN;
    }
    sliding(w, slide);
    if (!contact_solve(&r->points, coupling(w), b, near, slide, mode, impulse)) return 0;
    for (ptrdiff_t j = 0; j < r->n; j++)
        for (int i = 0; i < R; i++) r->x[j] += effects(w)[j * R + i] * impulse[i];
    return 1;
}

/* Which of the points at the ground that do not move along their height keep pressing */
static int settle(work *w) {
    hybrid_run *r = w->r;
    int near[HYBRID_CONTACTS], mode[HYBRID_CONTACTS], old[HYBRID_CONTACTS], ground[HYBRID_CONTACTS];
    double f[HYBRID_ROWS], slide[HYBRID_CONTACTS];
    memset(w->u + r->m + r->d, 0, (size_t)r->points.rows * sizeof(double));
    evaluate(w, &w->contact, r->x, r->t);
    at_ground(w, ground);
    memcpy(old, r->state, sizeof(int) * (size_t)r->points.count);
    for (int i = 0; i < r->points.count; i++) {
        near[i] = ground[i] && fabs(speeds(w)[i]) <= RESTING;
        mode[i] = !near[i]                        ? CONTACT_OPEN
                  : w->ended[i] >= 0            ? w->ended[i]
                  : r->state[i] == POINT_ACTIVE ? r->friction[i]
                                                : CONTACT_STICKS;
    }
    sliding(w, slide);
    if (!contact_solve(&r->points, coupling(w), free_motion(w), near, slide, mode, f)) return -1;
    int changed = 0;
    for (int i = 0; i < r->points.count; i++) {
        const int was = r->friction[i];
        if (mode[i] != CONTACT_OPEN) {
            r->state[i] = POINT_ACTIVE, r->friction[i] = mode[i];
        } else {
            r->state[i] = heights(w)[i] <= HYSTERESIS ? POINT_LEAVING : POINT_OPEN;
        }
        if (r->state[i] == old[i] && !(r->state[i] == POINT_ACTIVE && was != r->friction[i]))
            continue;
        changed = 1;
        if (r->state[i] == POINT_ACTIVE)
            note(w, old[i] == POINT_ACTIVE ? LOG_SLIDE : LOG_CLOSE, i);
        else if (old[i] == POINT_ACTIVE)
            note(w, LOG_RELEASE, i);
    }
    return changed;
}

/* Impacts, then forces; -1 if there is no consistent state, 1 if something changed */
static int handle_contacts(work *w) {
    hybrid_run *r = w->r;
    int near[HYBRID_CONTACTS], changed = 0;
    if (r->points.count == 0) return 0;
    memset(w->u + r->m + r->d, 0, (size_t)r->points.rows * sizeof(double));
    evaluate(w, &w->contact, r->x, r->t);
    if (at_ground(w, near)) {
        int hits = -1;
        for (int i = 0; i < r->points.count; i++)
            if (near[i] && speeds(w)[i] < -RESTING) hits = hits < 0 ? i : hits;
        if (hits >= 0) {
            memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
            if (!impact(w, near)) return -1;
            note(w, LOG_IMPACT, hits);
            memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
            changed = 1;
        }
    }
    const int settled = settle(w);
    return settled < 0 ? -1 : changed | settled;
}

/* Takes the drift of active points back: the least change of x along the gradients of their heights
 * and places, and of velocities by impulses without energy to speak of */
static void project(work *w) {
    hybrid_run *r = w->r;
    const int R = r->points.rows;
    if (!some_active(r)) return;
    evaluate(w, &w->contact, r->x, r->t);
    double b[HYBRID_ROWS], impulse[HYBRID_ROWS];
    int mode[HYBRID_CONTACTS];
    for (int i = 0; i < r->points.count; i++) {
        mode[i] = r->state[i] == POINT_ACTIVE ? r->friction[i] : CONTACT_OPEN;
        if (mode[i] == CONTACT_OPEN) continue;
        const double *slope = gradients(w) + i * r->n;
        double size = 0.0;
        for (ptrdiff_t j = 0; j < r->n; j++) size += slope[j] * slope[j];
        for (ptrdiff_t j = 0; j < r->n; j++) r->x[j] -= slope[j] * heights(w)[i] / size;
        if (mode[i] >= CONTACT_FORWARDS) mode[i] = CONTACT_STICKS;
    }
    contact_set normal = r->points;
    int smooth[HYBRID_CONTACTS];
    for (int i = 0; i < r->points.count; i++) /* what slides keeps its velocity along the ground */
        smooth[i] = r->friction[i] >= CONTACT_FORWARDS ? LAW_SLIP : r->points.law[i];
    normal.law = smooth;
    evaluate(w, &w->contact, r->x, r->t);
    for (int i = 0; i < R; i++) b[i] = speeds(w)[i];
    if (!contact_forces(&normal, coupling(w), b, mode, impulse)) return;
    for (ptrdiff_t j = 0; j < r->n; j++)
        for (int i = 0; i < R; i++) r->x[j] += effects(w)[j * R + i] * impulse[i];
}

/* -- events --------------------------------------------------------------------------------------- */

static void happen(work *w, ptrdiff_t k) {
    hybrid_run *r = w->r;
    const ptrdiff_t first = r->first_target[k], last = r->first_target[k + 1];
    memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
    if (last > first) evaluate(w, &w->resets, r->x, r->t);
    for (ptrdiff_t j = first; j < last; j++) {
        if (r->target[j] < r->n)
            r->x[r->target[j]] = w->resets.out[j];
        else
            w->u[r->m + r->target[j] - r->n] = r->mode[r->target[j] - r->n] = w->resets.out[j];
    }
    if (r->armed[k] != 0) r->armed[k] = r->direction[k] == 0 ? -r->armed[k] : 0;
    note(w, LOG_EVENT, (int)k);
}

/* What a contact turns to when one of its functions has crossed zero: there the forces of its old
 * mode still agree with all inequalities, to rounding */
static void expect(work *w, ptrdiff_t which) {
    hybrid_run *r = w->r;
    for (int i = 0; i < r->points.count; i++) w->ended[i] = -1;
    if (which < r->events) return;
    const int i = (int)(which - r->events) / 4, what = (int)(which - r->events) % 4;
    if (what == 1) w->ended[i] = CONTACT_OPEN;
    if (what == 3) w->ended[i] = CONTACT_STICKS;
    if (what != 2) return;
    set_forces(w, r->x, r->t);
    const double along = w->u[r->m + r->d + r->points.tangent[i]];
    w->ended[i] = along < 0.0 ? CONTACT_FORWARDS : CONTACT_BACKWARDS;
}

/* Everything that follows at this instant, `which` being what was located (-1: a clock). Returns 0,
 * or what hybrid_march returns. */
static int handle(work *w, ptrdiff_t which) {
    hybrid_run *r = w->r;
    int stop = 0;
    memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
    expect(w, which);
    if (which >= 0 && which < r->events) {
        happen(w, which);
        stop |= r->stop[which];
    }
    for (int pass = 0; pass < PASSES; pass++) {
        int changed = handle_contacts(w);
        if (changed < 0) return HYBRID_STUCK;
        for (int i = 0; i < r->points.count; i++) w->ended[i] = -1;
        watch(w, r->x, r->t, w->now);
        for (ptrdiff_t k = 0; k < r->events; k++) {
            if (!r->level[k] || !(w->now[k] < 0.0)) continue;
            happen(w, k);
            stop |= r->stop[k];
            changed = 1;
            watch(w, r->x, r->t, w->now);
        }
        if (r->logged >= r->log_size) return HYBRID_LOG_FULL;
        if (chatters(r)) return HYBRID_CHATTER;
        if (!changed) {
            project(w);
            return stop ? HYBRID_STOPPED : 0;
        }
    }
    return HYBRID_CHATTER;
}

/* -- the march ------------------------------------------------------------------------------------ */

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

/* As `locate`; a point that was leaving may have risen above the hysteresis on its way down */
static double fall(work *w, double whole, ptrdiff_t k, double a, double va, double b, double vb) {
    hybrid_run *r = w->r;
    const ptrdiff_t point = (k - r->events) / 4;
    step(w, whole);
    const double found = locate(w, whole, k, a, va, b, vb);
    if (k < r->events || r->state[point] != POINT_LEAVING) return found;
    const double middle = 0.5 * (a + found / whole);
    step(w, whole);
    dense(w, whole, middle, w->trial);
    arm(w, w->trial, r->t + middle * whole);
    if (r->state[point] == POINT_LEAVING) return found;
    watch(w, w->trial, r->t + middle * whole, w->sample);
    return locate(w, whole, k, middle, w->sample[k], b, vb - HYSTERESIS);
}

/* The first thing that happens within the step, -1 if nothing does; *h becomes its length, the state
 * there is in y */
static ptrdiff_t first_event(work *w, double *h) {
    hybrid_run *r = w->r;
    const ptrdiff_t count = watches(r);
    const double whole = *h, begin = r->t;
    watch(w, r->x, begin, w->watched[0]);
    for (int s = 1; s <= SAMPLES; s++) {
        const double share = (double)s / SAMPLES, last = (double)(s - 1) / SAMPLES;
        const double *x = w->y;
        if (s < SAMPLES) dense(w, whole, share, w->trial), x = w->trial;
        watch(w, x, begin + share * whole, w->watched[s]);
        ptrdiff_t which = -1;
        double earliest = INFINITY;
        for (ptrdiff_t k = 0; k < count; k++) {
            const double a = w->watched[s - 1][k], b = w->watched[s][k];
            if (!(b < 0.0) || a == INFINITY) continue;
            const double guess = a > 0.0 ? a / (a - b) : 0.0;
            if (guess < earliest) earliest = guess, which = k;
        }
        if (which < 0) {
            arm(w, x, begin + share * whole);
            if (s < SAMPLES) watch(w, x, begin + share * whole, w->watched[s]);
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
        step(w, length);
        *h = length;
        return chosen;
    }
    return -1;
}

static int bind_memory(work *w, hybrid_run *r, double **memory) {
    const ks_kernel *kernels[4] = {r->smooth, r->guards, r->resets, r->contact};
    bound *all[4] = {&w->smooth, &w->guards, &w->resets, &w->contact};
    const ptrdiff_t inputs = r->m + r->d + r->points.rows, n = r->n, seen = watches(r);
    ptrdiff_t total = inputs + 12 * (n + 8) + (SAMPLES + 3) * (seen + 8) + 64;
    for (int i = 0; i < 4; i++)
        if (kernels[i] != NULL)
            total += kernels[i]->n_uniform + kernels[i]->n_scratch + kernels[i]->n_out + 24;
    double *place = *memory = aligned_alloc(64, (size_t)(total + 64) / 8 * 8 * sizeof(double));
    if (place == NULL) return 1;
    memset(place, 0, (size_t)(total + 64) / 8 * 8 * sizeof(double));
    w->u = take(&place, inputs);
    for (int s = 0; s < 7; s++) w->k[s] = take(&place, n);
    w->y = take(&place, n), w->trial = take(&place, n), w->before = take(&place, n);
    w->sample = take(&place, seen), w->now = take(&place, seen);
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

static int march(work *w, double end) {
    hybrid_run *r = w->r;
    int status = handle(w, -1);
    if (status) return status;
    arm(w, r->x, r->t);
    rate(w, r->x, r->t, w->k[0]);
    if (!(r->step > 0.0)) r->step = first_step(w);
    int silent = 0; /* events that changed nothing */
    while (r->t < end) {
        double target = r->segment + 1 < r->segments ? r->begin[r->segment + 1] : end;
        if (target > end) target = end;
        const double rest = target - r->t;
        double h = r->step * 1.000001 >= rest ? rest : r->step;
        w->failed = 0;
        step(w, h);
        const double size = error(w, h);
        if (!(size <= 1.0)) {
            r->step = h * (size == size ? fmax(0.9 * pow(size, -0.2), 0.2) : 0.2);
            r->rejected++;
            if (!(r->t + 0.1 * r->step > r->t)) return w->failed ? HYBRID_STUCK : HYBRID_STEP;
            continue;
        }
        const double wanted = h * fmin(size > 1e-10 ? 0.9 * pow(size, -0.2) : 5.0, 5.0);
        const int shortened = h < r->step;
        const double planned = r->step;
        const ptrdiff_t which = first_event(w, &h);
        fill_nodes(w, h);
        r->t = which < 0 && h >= rest ? target : r->t + h;
        memcpy(r->x, w->y, (size_t)r->n * sizeof(double));
        r->steps++;
        r->step = which >= 0 || shortened ? fmax(planned, wanted) : wanted;
        if (which < 0 && !next_segment(r)) {
            memcpy(w->k[0], w->k[6], (size_t)r->n * sizeof(double));
            continue;
        }
        if (which < 0) {
            set_inputs(w, r->t);
            memcpy(w->before, r->x, (size_t)r->n * sizeof(double));
            note(w, LOG_CLOCK, (int)r->segment);
        }
        const ptrdiff_t logged = r->logged;
        status = handle(w, which);
        if (status) return status;
        silent = r->logged > logged ? 0 : silent + 1;
        if (silent > PASSES) return HYBRID_CHATTER;
        arm(w, r->x, r->t);
        rate(w, r->x, r->t, w->k[0]);
    }
    if (r->node < r->nodes && r->time[r->node] <= r->t) {
        fill(w, r->node, r->x, r->t);
        r->node++;
    }
    return HYBRID_DONE;
}

int hybrid_march(hybrid_run *r, double end) {
    work w = {.r = r};
    double *memory = NULL;
    if (bind_memory(&w, r, &memory)) return HYBRID_NO_MEMORY;
    for (ptrdiff_t k = 0; k < r->d; k++) w.u[r->m + k] = r->mode[k];
    set_inputs(&w, r->t);
    const int status = march(&w, end);
    free(memory);
    return status;
}
