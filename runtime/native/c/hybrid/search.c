/* Search for the first watched function that crosses zero within a step.
 *
 * Along a step everything watched is a function of one variable by the dense output. A series goes
 * through seven looks at it, which is the function itself where it is a polynomial of degree 4, as
 * guards linear in the state are; monotone pieces of the series have one crossing at most, so that none
 * is missed however many there are. Where the series is not exact and comes as near to zero as it may be
 * off, both halves are looked at.
 */
#include "work.h"

#include <math.h>
#include <string.h>

#define MOST_PARTS 128 /* of a step that are looked at before it is cut */
#define LEAST 0x1p-10  /* share of a step to which it is cut */

/* -- the crossings of one function in a part of a step -------------------------------------------- */

/* Goes along a function: on which side of what value it is, which changes for a point that leaves the
 * ground and has risen */
typedef struct {
    int piece, side, leaving, at_zero;
    double value;
} walker;

static const int *point_that_leaves(const hybrid_run *r, ptrdiff_t k) {
    const ptrdiff_t i = (k - r->events) / 4;
    const int height = k >= r->events && (k - r->events) % 4 == 0;
    return height && r->state[i] == KS_POINT_LEAVING ? r->state + i : NULL;
}

static double floor_of(const work *w, ptrdiff_t k) {
    return k < w->r->events ? w->floor[k] : 0.0;
}

/* The side of zero from which a function comes; of a guard that has stood there, that to which it moves up to
 * a share of the part */
static int side_at_begin(const work *w, ptrdiff_t k, const ks_course *c, double inside) {
    int side = k < w->r->events ? w->r->armed[k] : ABOVE;
    const double little = 2.0 * fabs(c->value[0]) + floor_of(w, k) + c->of.noise;
    for (int i = 1; side == UNKNOWN && i < c->count && c->at[i] <= inside; i++)
        if (fabs(c->value[i]) > little) side = c->value[i] > 0.0 ? ABOVE : BELOW;
    return side;
}

static walker walk_from_begin(const work *w, ptrdiff_t k, const ks_course *c, double inside) {
    const int leaving = point_that_leaves(w->r, k) != NULL;
    return (walker){.side = side_at_begin(w, k, c, inside),
                    .leaving = leaving,
                    .value = leaving ? -HYSTERESIS : 0.0};
}

/* To the next crossing, its share; INFINITY if there is none. Up to the floor nothing is beyond. What begins at zero, or a rounding beyond
 * it, has crossed where it moves away beyond it. */
static double walk(const ks_course *c, walker *now, double floor) {
    floor += c->of.noise;
    for (; now->piece + 1 < c->count; now->piece++) {
        const int i = now->piece;
        if (now->leaving && c->value[i] > HYSTERESIS) now->leaving = 0, now->value = 0.0;
        const double a = now->side * (c->value[i] - now->value);
        const double b = now->side * (c->value[i + 1] - now->value);
        if (!(b < -floor)) continue;
        now->side = -now->side, now->at_zero = !(a > 0.0);
        return a > 0.0 ? ks_course_root(c, i, now->value) : c->at[i];
    }
    if (now->leaving && c->value[c->count - 1] > HYSTERESIS) now->leaving = 0;
    return INFINITY;
}

/* -- looks ------------------------------------------------------------------------------------------ */

/* A part of a step: shares of its ends, level of its looks */
typedef struct {
    double begin, end;
    int level;
} part;

static double share_of(const part *p, double inside) {
    return p->begin + inside * (p->end - p->begin);
}

static double inside_of(const part *p, double share) {
    return (share - p->begin) / (p->end - p->begin);
}

static double *row_of(const work *w, const part *p, int look) {
    return w->looks[p->level] + look * ks_row(w->r);
}

/* Whether a crossing at a share of the part, to this side, makes something happen: one of its direction,
 * while it is armed, that true steps have not shown to be none */
static int counts(const work *w, const part *p, ptrdiff_t k, int side_after, double inside) {
    const hybrid_run *r = w->r;
    if (!(share_of(p, inside) > w->passed[k])) return 0;
    if (k >= r->events) return side_after == BELOW;
    const double *row = row_of(w, p, inside > 0.5 ? KS_DEGREE : 0);
    const int direction = r->direction[k] == 0 || r->direction[k] == side_after;
    return direction && row[ks_watches(r) + k] > 0.0;
}

/* Nodes of the grid are looks as well: whoever asks for them can see that a guard goes there */
static void look_at_nodes(work *w, const part *p) {
    const hybrid_run *r = w->r;
    for (ptrdiff_t i = r->node; r->events > 0 && i < r->nodes; i++) {
        const double share = (r->time[i] - r->t) / w->whole;
        if (share >= p->end) break;
        if (!(share > p->begin)) continue;
        ks_dense(w, w->whole, share, w->trial);
        ks_watch(w, w->trial, r->time[i], w->sample);
        for (ptrdiff_t k = 0; k < r->events; k++)
            ks_series_check(w->series + k, inside_of(p, share), w->sample[k]);
    }
}

/* Looks that are not known yet: known[i] is the look i of the whole of which this is a half, or -1 */
static void look(work *w, const part *p, const int *known) {
    const hybrid_run *r = w->r;
    const size_t bytes = (size_t)ks_row(r) * sizeof(double);
    const int count = r->events > 0 ? KS_LOOKS + 1 : KS_LOOKS; /* the last one checks guards */
    for (int i = 0; i < count; i++) {
        double *row = row_of(w, p, i);
        const double share = share_of(p, ks_look[i]);
        if (i < KS_LOOKS && known != NULL && known[i] >= 0) {
            memcpy(row, w->looks[p->level - 1] + known[i] * ks_row(r), bytes);
        } else if (p->level == 0 && i == 0 && w->looked) { /* the end of the step before */
            memcpy(row, row_of(w, p, KS_DEGREE), bytes);
        } else {
            const double *x = i == 0 ? r->x : w->y; /* of the whole step */
            if (share > 0.0 && share < 1.0) ks_dense(w, w->whole, share, w->trial), x = w->trial;
            ks_watch(w, x, r->t + share * w->whole, row);
        }
    }
    for (ptrdiff_t k = 0; k < ks_watches(r); k++) {
        const double *values = row_of(w, p, 0) + k, *last = row_of(w, p, KS_LOOKS) + k;
        for (int i = 0; i < count; i++)
            if (values[i * ks_row(r)] != values[i * ks_row(r)]) w->failed |= 2;
        w->series[k] = ks_series_of(values, ks_row(r));
        if (k < r->events) ks_series_check(w->series + k, ks_look[KS_LOOKS], *last);
    }
    look_at_nodes(w, p);
    w->parts++;
}

/* Whether a part is an instant, almost */
static int shortest(const work *w, const part *p) {
    return p->level == LEVELS || (p->end - p->begin) * w->whole <= ROUNDING * ks_blink(w->r);
}

/* Of a function that may come near to zero in a part; NULL for others */
static const ks_course *course(const work *w, const part *p, ptrdiff_t k, ks_course *c) {
    const double first = row_of(w, p, 0)[k], last = row_of(w, p, KS_DEGREE)[k];
    const ks_series *s = w->series + k;
    const int side = k < w->r->events ? w->r->armed[k] : ABOVE;
    if (first == INFINITY) return NULL;
    if (ks_series_clear(s) && side * s->c[0] > 0.0 && point_that_leaves(w->r, k) == NULL) return NULL;
    ks_course_of(s, first, last, c);
    if (shortest(w, p)) /* for a way there and back: what the series turns at is its own */
        c->count = 2, c->at[1] = 1.0, c->value[1] = last;
    return c;
}

/* Error of the series of function k beyond rounding; 0 if none */
static double hides(work *w, const part *p, ptrdiff_t k) {
    const int guard = k < w->r->events;
    const ks_series *s = w->series + k;
    ks_course c;
    if (*(row_of(w, p, 0) + k) == INFINITY || ks_series_clear(s)) return 0.0;
    if (guard && !w->floored) {
        ks_find_floor(w, w->r->x, w->r->t, w->looks[0]);
        w->floored = 1;
    }
    const double hidden = 4.0 * s->rest + (guard ? s->noise : 0.0);
    if (!(hidden > (guard ? w->floor[k] : s->noise))) return 0.0;
    ks_course_of(s, row_of(w, p, 0)[k], row_of(w, p, KS_DEGREE)[k], &c);
    const double value = walk_from_begin(w, k, &c, 1.0).value;
    for (int i = 1; i + 1 < c.count; i++)
        if (fabs(c.value[i]) <= hidden || fabs(c.value[i] - value) <= hidden) return hidden;
    return 0.0;
}

/* Whether halves have to be looked at. A step that takes too many looks is cut where they end; if that
 * is too near to its begin, what may be hidden is noted. */
static int too_coarse(work *w, const part *p) {
    hybrid_run *r = w->r;
    const int can = p->level < LEVELS && (w->parts < MOST_PARTS || w->failed & 2);
    if (w->failed & 2) { /* no number, maybe only after what happens before */
        if (can) w->failed &= ~2;
        return can;
    }
    for (ptrdiff_t k = 0; k < ks_watches(r); k++) {
        const double hidden = hides(w, p, k);
        if (hidden > 0.0 && can && !shortest(w, p)) return 1;
        if (k >= r->events) continue;
        if (hidden > 0.0 && p->begin >= LEAST && !shortest(w, p)) w->cut = p->begin;
        if (w->cut > 0.0) return 0;
        if (!(hidden > HYSTERESIS * r->scale[k]) || !(hidden > r->unseen)) continue;
        if (shortest(w, p)) continue;
        r->unseen = hidden, r->unseen_event = (int)k;
        r->unseen_time = r->t + p->begin * w->whole;
    }
    return 0;
}

/* -- what happens first ----------------------------------------------------------------------------- */

/* At a share of the part, which lies between two others */
static crossing crossing_at(const work *w, const part *p, ptrdiff_t k, const ks_course *c,
                            const walker *before, double inside, double from, double to) {
    const double slope = ks_series_slope(&c->of, inside) / ((p->end - p->begin) * w->whole);
    return (crossing){k, before->side, before->value, share_of(p, inside),
                      {share_of(p, from), share_of(p, to)}, slope,
                      k < w->r->events ? w->floor[k] : c->of.noise, before->at_zero};
}

static crossing first_of(const work *w, const part *p, ptrdiff_t k) {
    ks_course c;
    if (course(w, p, k, &c) != NULL) {
        walker now = walk_from_begin(w, k, &c, 1.0), before = now;
        for (double inside; (inside = walk(&c, &now, floor_of(w, k))) < INFINITY; before = now) {
            before.value = now.value, before.at_zero = now.at_zero;
            const int i = now.piece;
            if (counts(w, p, k, now.side, inside))
                return crossing_at(w, p, k, &c, &before, inside, c.at[i], c.at[i + 1]);
        }
    }
    return (crossing){.which = -1, .share = INFINITY};
}

/* Whether a guard that crosses zero at a share of the part is there, to rounding, in `here`, by true steps */
static int is_there(const work *w, const part *p, ptrdiff_t k, const ks_course *c, double at,
                    const double *here) {
    const double slope = ks_series_slope(&c->of, at) / ((p->end - p->begin) * w->whole);
    return fabs(here[k]) <= ROUNDING * ks_blink(w->r) * fabs(slope) + floor_of(w, k);
}

/* Sides of all guards at a share of the part; points that have risen up to there are open. here : what is watched
 * where something was located, NULL elsewhere; guards that reach zero together with that are on the old side. */
static void go_to(work *w, const part *p, double inside, const double *here) {
    hybrid_run *r = w->r;
    ks_course c;
    for (ptrdiff_t k = 0; k < ks_watches(r); k++) {
        const int leaves = point_that_leaves(r, k) != NULL;
        if ((k >= r->events && !leaves) || course(w, p, k, &c) == NULL) continue;
        const double floor = floor_of(w, k);
        walker now = walk_from_begin(w, k, &c, inside), before = now;
        for (double at; (at = walk(&c, &now, floor)) <= inside;) {
            if (counts(w, p, k, now.side, at)) break; /* if it is not to happen now, it is the next */
            if (here != NULL && k < r->events && is_there(w, p, k, &c, at, here)) break;
            if (share_of(p, at) != w->passed[k]) before = now; /* true steps do not come across that */
        }
        if (k < r->events) r->armed[k] = before.side;
        for (int i = 0; leaves && i < c.count; i++)
            if (c.at[i] <= inside && c.value[i] > HYSTERESIS)
                r->state[(k - r->events) / 4] = KS_POINT_OPEN;
    }
    w->level = p->level, w->share = inside;
}

/* The length of a crossing by true steps; as the series has it where that is too short for them, as it may
 * be of a guard that begins at zero */
static double length_of(work *w, const crossing *one) {
    const double series = one->share * w->whole;
    const int short_of = one->at_zero || series <= ROUNDING * ks_blink(w->r);
    if (one->which >= w->r->events || !short_of) return ks_locate(w, one);
    const double found = ks_return(w, one->which, one->side, one->within[1] * w->whole, &w->endless);
    return found > 0.0 ? found : series;
}

/* A function that true steps of this length leave beyond zero has crossed it before; -1 if none has */
static crossing crossed_before(work *w, const part *p, const crossing *one) {
    const hybrid_run *r = w->r;
    const double slack = ROUNDING * ks_blink(r), *sample = w->sample, end = inside_of(p, one->share);
    ks_course c;
    for (ptrdiff_t k = 0; k < ks_watches(r); k++) {
        if (k == one->which || course(w, p, k, &c) == NULL || sample[k] == INFINITY) continue;
        walker now = walk_from_begin(w, k, &c, end), before = now;
        while (walk(&c, &now, floor_of(w, k)) <= end) before = now;
        const crossing here = crossing_at(w, p, k, &c, &before, end, 0.0, 1.0);
        const double beyond = here.side * (here.value - sample[k]);
        if (!(here.slope * here.side < 0.0) || !(beyond > slack * fabs(here.slope))) continue;
        const double inside = inside_of(p, one->share - beyond / fabs(here.slope) / w->whole);
        if (!(inside > 0.0) || !counts(w, p, k, -here.side, inside)) continue;
        return crossing_at(w, p, k, &c, &before, inside, 0.0, 1.0);
    }
    return (crossing){.which = -1};
}

/* The first thing that happens in a part of the step, -1 if nothing does */
static ptrdiff_t first_in(work *w, const part *p, double *h) {
    const hybrid_run *r = w->r;
    for (;;) {
        crossing one = {.which = -1, .share = INFINITY};
        for (ptrdiff_t k = 0; k < ks_watches(r); k++) {
            const crossing other = first_of(w, p, k);
            if (other.share < one.share) one = other;
        }
        if (one.which < 0) break;
        double length = length_of(w, &one);
        for (ptrdiff_t again = 0; again < ks_watches(r) && length > ks_blink(r); again++) {
            const crossing before = crossed_before(w, p, &one);
            const double sooner = before.which < 0 ? NAN : length_of(w, &before);
            if (!(sooner < length)) break;
            one = before, length = sooner;
        }
        ks_one_step(w, isnan(length) ? w->whole : length);
        if (isnan(length)) { /* true steps do not come across: it touches zero at most */
            w->passed[one.which] = one.share;
            continue;
        }
        ks_watch(w, w->y, r->t + length, w->sample);
        go_to(w, p, inside_of(p, one.share), w->sample);
        if (one.which < r->events) w->due[one.which] = one.side;
        *h = length;
        return one.which;
    }
    go_to(w, p, 1.0, NULL);
    return -1;
}

/* The first thing that happens in a part of the step, which is looked at as closely as it takes */
static ptrdiff_t search(work *w, const part *p, const int *known, double *h) {
    static const int of_first[KS_LOOKS] = {0, -1, -1, 2, -1, -1, 3};
    static const int of_second[KS_LOOKS] = {3, -1, -1, 4, -1, -1, 6};
    look(w, p, known);
    const int halves = too_coarse(w, p);
    if (w->cut > 0.0 || (!halves && w->failed & 2)) return -1;
    if (!halves) return first_in(w, p, h);
    const double middle = share_of(p, 0.5);
    const part first = {p->begin, middle, p->level + 1}, second = {middle, p->end, p->level + 1};
    const ptrdiff_t which = search(w, &first, of_first, h);
    const int ends = which >= 0 || w->failed & 2 || w->cut > 0.0;
    return ends ? which : search(w, &second, of_second, h);
}

ptrdiff_t ks_first_event(work *w, double *h) {
    const part all = {0.0, 1.0, 0};
    const ptrdiff_t count = ks_watches(w->r);
    if (count == 0) return -1;
    for (ptrdiff_t k = 0; k < count; k++) w->passed[k] = -1.0;
    w->whole = *h, w->parts = w->floored = 0, w->cut = 0.0;
    memset(w->floor, 0, (size_t)w->r->events * sizeof *w->floor);
    const ptrdiff_t which = search(w, &all, NULL, h);
    if (which < 0 && w->cut > 0.0) ks_one_step(w, *h = w->cut * w->whole);
    w->looked = which < 0 && w->cut == 0.0;
    return which;
}
