/* Time stepping with delays that are constants: as many steps at once as have known delayed inputs,
 * which are read off the course of the states so far. Used by _run.pyx; generated libraries do not
 * see it. See runtime/delays/past.py for the pieces, runtime/delays/window.py for windows.
 */
#ifndef KINESYM_DELAYS_H
#define KINESYM_DELAYS_H
#include <math.h>
#include <stdlib.h>
#include "kinesym.h"

/* Lengths of neighbouring pieces may differ by so much for a polynomial through both. */
#define KS_ALIKE 10.0
/* Steps of a window, at most */
#define KS_WINDOW_MOST 512
/* Value that ks_late_window returns beside bits of loops: the next step has no known delayed inputs */
#define KS_UNKNOWN 64

/* The course of `rows` states of all members: values (nodes, rows, members), rates (2, room, rows,
 * members) at the begin and the end of each piece, terms (room, 6, rows, members). smooth[k]: the
 * motion is smooth at the begin of piece k. */
typedef struct {
    ptrdiff_t rows, members, room;
    const unsigned char *smooth;
    double *time, *values, *rates, *terms;
} ks_past;

/* A delayed input. row: of the past, -1: all its samples are known. first: the step from which on it
 * looks at pieces of the past. samples: (members, 3 n_nodes - 2). ends: (2, members, n_nodes - 1), at
 * the begin and the end of each step. piece: where it looked last. */
typedef struct {
    ptrdiff_t row, first, piece;
    double tau, *samples, *ends;
} ks_late;

/* at: the node of the past that is node 0 of the run. shares (places) of a step at which delayed values
 * are needed, to_samples (3, places): samples of the parabola from these. kept: states in the past. */
typedef struct {
    ks_run *run;
    ks_march_fn *loop;
    ks_map_fn *map;
    ptrdiff_t n_late, places, at;
    ks_late *late;
    const double *shares, *to_samples;
    const ptrdiff_t *kept;
    double shortest;
    ks_past past;
} ks_delays;

static double ks_slack(double time) { return 1e-12 * fmax(1.0, fabs(time)); }

/* The next node whose value and rate a piece has, too: its share of the piece, 0 if there is none */
static double ks_past_other(const ks_past *p, ptrdiff_t k, ptrdiff_t last, ptrdiff_t *node, int *end) {
    const double h = p->time[k + 1] - p->time[k];
    if (k > 0 && p->smooth[k]) {
        const double ratio = (p->time[k] - p->time[k - 1]) / h;
        *node = k - 1, *end = 0;
        if (ratio < KS_ALIKE && ratio * KS_ALIKE > 1.0) return -ratio;
    }
    if (k + 1 < last && p->smooth[k + 1]) {
        const double ratio = (p->time[k + 2] - p->time[k + 1]) / h;
        *node = k + 2, *end = 1;
        if (ratio < KS_ALIKE && ratio * KS_ALIKE > 1.0) return 1.0 + ratio;
    }
    return 0.0;
}

/* Polynomials of the pieces first <= k < last: those of degree 3 by values and rates at both ends, with
 * s^2 (1 - s)^2 (alpha + beta s) where another node is known */
static void ks_past_pieces(const ks_past *p, ptrdiff_t first, ptrdiff_t last) {
    const ptrdiff_t width = p->rows * p->members;
    for (ptrdiff_t k = first; k < last; k++) {
        const double h = p->time[k + 1] - p->time[k];
        const double *begin = p->values + k * width, *end = begin + width;
        const double *rate = p->rates + k * width, *slope = rate + p->room * width;
        ptrdiff_t node = 0;
        int at_end = 0;
        const double s = ks_past_other(p, k, last, &node, &at_end);
        const double *value = p->values + node * width;
        const double *turn = p->rates + (at_end ? (p->room + node - 1) : node) * width;
        const double weight = s * s * (1.0 - s) * (1.0 - s);
        const double change = 2.0 * s * (1.0 - s) * (1.0 - 2.0 * s);
        double *terms = p->terms + 6 * k * width;
        for (ptrdiff_t j = 0; j < width; j++) {
            const double a = begin[j], b = h * rate[j], e = h * slope[j], d = end[j] - a;
            const double c = 3.0 * d - 2.0 * b - e, f = b + e - 2.0 * d;
            double alpha = 0.0, beta = 0.0;
            if (s != 0.0) {
                const double off = value[j] - (a + s * (b + s * (c + s * f)));
                const double bend = h * turn[j] - (b + s * (2.0 * c + 3.0 * s * f));
                beta = (bend - change * off / weight) / weight;
                alpha = off / weight - s * beta;
            }
            terms[j] = a, terms[width + j] = b, terms[2 * width + j] = c + alpha;
            terms[3 * width + j] = f + beta - 2.0 * alpha;
            terms[4 * width + j] = alpha - 2.0 * beta, terms[5 * width + j] = beta;
        }
    }
}

/* A delayed value of all members at the share of step i, into out, from pieces up to node `last` of the
 * past; side: see Past */
static void ks_late_value(const ks_delays *d, ks_late *one, ptrdiff_t last, ptrdiff_t i, double share,
                          double *out) {
    const ks_past *p = &d->past;
    const ks_run *r = d->run;
    const double side = share == 0.0 ? 1.0 : share == 1.0 ? -1.0 : 0.0;
    const double now = share == 1.0 ? r->time[i + 1]
                                    : r->time[i] + share * (r->time[i + 1] - r->time[i]);
    const double time = now - one->tau, found = time + side * ks_slack(time);
    while (one->piece + 1 < last && p->time[one->piece + 1] <= found) one->piece++;
    const ptrdiff_t width = p->rows * p->members;
    const double *t = p->terms + 6 * one->piece * width + one->row * p->members;
    const double s = (time - p->time[one->piece]) / (p->time[one->piece + 1] - p->time[one->piece]);
    for (ptrdiff_t j = 0; j < p->members; j++, t++)
        out[j] = t[0] + s * (t[width] + s * (t[2 * width] + s * (t[3 * width] +
                 s * (t[4 * width] + s * t[5 * width]))));
}

/* Delayed inputs of the steps begin <= i < end; values: (places, members) */
static void ks_late_fill(const ks_delays *d, ptrdiff_t begin, ptrdiff_t end, double *values) {
    const ptrdiff_t members = d->past.members, nodes = d->run->n_nodes, steps = nodes - 1;
    for (ptrdiff_t l = 0; l < d->n_late; l++) {
        ks_late *one = d->late + l;
        for (ptrdiff_t i = begin; i < end && one->row >= 0; i++) {
            if (i < one->first) continue;
            for (ptrdiff_t k = 0; k < d->places; k++)
                ks_late_value(d, one, d->at + begin, i, d->shares[k], values + k * members);
            for (ptrdiff_t m = 0; m < members; m++) {
                double *samples = one->samples + m * (3 * nodes - 2) + 3 * i;
                for (int part = 0; part < 3; part++) {
                    double sum = 0.0;
                    for (ptrdiff_t k = 0; k < d->places; k++)
                        sum += d->to_samples[part * d->places + k] * values[k * members + m];
                    samples[part] = sum;
                }
                samples[3] = samples[2]; /* the next step, if there is one, has its own */
                one->ends[m * steps + i] = values[m];
                one->ends[(members + m) * steps + i] = values[(d->places - 1) * members + m];
            }
        }
    }
}

/* Arguments of the kernel of x' at both ends of the steps: point (side * members + m) * count + i */
static void ks_late_points(const ks_delays *d, ptrdiff_t begin, ptrdiff_t count, double *x, double *u,
                           double *p, double *t) {
    const ks_run *r = d->run;
    const ptrdiff_t members = r->members, m = r->rhs->count[1], np = r->rhs->count[2];
    const ptrdiff_t points = 2 * members * count, steps = r->n_nodes - 1;
    for (ptrdiff_t side = 0; side < 2; side++)
        for (ptrdiff_t j = 0; j < members; j++) {
            const ptrdiff_t start = (side * members + j) * count;
            for (ptrdiff_t i = 0; i < count; i++) {
                const ptrdiff_t node = begin + i + side, at = start + i;
                for (ptrdiff_t k = 0; k < r->n; k++)
                    x[k * points + at] = r->states[(k * members + j) * r->n_nodes + node];
                for (ptrdiff_t k = 0; k < m - d->n_late; k++)
                    u[k * points + at] =
                        r->inputs[k].data[j * r->inputs[k].stride + 3 * (begin + i) + 2 * side];
                for (ptrdiff_t k = 0; k < d->n_late; k++)
                    u[(m - d->n_late + k) * points + at] =
                        d->late[k].ends[(side * members + j) * steps + begin + i];
                for (ptrdiff_t k = 0; k < np && p != NULL; k++)
                    p[k * points + at] = r->parameters[j * r->parameter_stride + k];
                t[at] = r->time[node];
            }
        }
}

/* Pieces of the past of the steps begin <= i < end, which have been taken; returns what a loop does */
static int ks_late_put(const ks_delays *d, ptrdiff_t begin, ptrdiff_t end) {
    const ks_run *r = d->run;
    const ks_past *past = &d->past;
    const ptrdiff_t count = end - begin, members = r->members, points = 2 * members * count;
    const ptrdiff_t m = r->rhs->count[1], np = r->rhs->count[2], first = d->at + begin;
    const int varying = r->rhs->varying[2];
    double *x = malloc((size_t)(points * (2 * r->n + m + (varying ? np : 0) + 1)) * sizeof *x);
    ks_place *place = malloc((size_t)r->n * sizeof *place);
    if (x == NULL || place == NULL) {
        free(x), free(place);
        return KS_NO_MEMORY;
    }
    double *out = x + r->n * points, *u = out + r->n * points, *t = u + m * points;
    double *p = varying ? t + points : NULL;
    ks_late_points(d, begin, count, x, u, p, t);
    const ks_arg arg[5] = {{x, points}, {u, points},
                           varying ? (ks_arg){p, points} : (ks_arg){r->parameters, 0}, {t, points},
                           {r->tables, 0}};
    for (ptrdiff_t k = 0; k < r->n; k++)
        place[k] = (ks_place){k * points, 1, 0, points, 0, -1, -1, KS_SET};
    const unsigned char same[5] = {0};
    int failed = past->rows > 0 && d->map(&(ks_task){r->rhs, points, arg, same, place}, 1, out, 1);
    const ptrdiff_t width = past->rows * members;
    for (ptrdiff_t i = 0; i <= count && !failed; i++)
        for (ptrdiff_t row = 0; row < past->rows; row++)
            for (ptrdiff_t j = 0; j < members; j++) {
                const ptrdiff_t k = d->kept[row], at = row * members + j;
                past->values[(first + i) * width + at] = x[k * points + j * count + i];
                if (i == count) {
                    past->values[(first + i) * width + at] =
                        x[k * points + (members + j) * count + i - 1];
                    continue;
                }
                past->rates[(first + i) * width + at] = out[k * points + j * count + i];
                past->rates[(past->room + first + i) * width + at] =
                    out[k * points + (members + j) * count + i];
            }
    for (ptrdiff_t i = 0; i <= count; i++) past->time[first + i] = r->time[begin + i];
    if (!failed) ks_past_pieces(past, first, first + count);
    free(x), free(place);
    return failed ? KS_NO_MEMORY : 0;
}

/* The steps from `begin` on that have known delayed inputs, at most up to `end`, which becomes the node
 * that is reached; room: for (places, members) values. Returns what a loop does, or KS_UNKNOWN. */
static int ks_late_window(const ks_delays *d, ptrdiff_t begin, ptrdiff_t *end, double *room) {
    ks_run *r = d->run;
    const double known = r->time[begin] + ks_slack(r->time[begin]) + d->shortest;
    ptrdiff_t stop = begin;
    while (stop < *end && stop - begin < KS_WINDOW_MOST && r->time[stop + 1] <= known) stop++;
    *end = stop;
    if (stop == begin) return KS_UNKNOWN;
    ks_late_fill(d, begin, stop, room);
    for (ptrdiff_t j = 0; j < r->members; j++)
        r->taken[j] = r->reached[j] == begin + 1 ? 0 : KS_FAILED;
    r->resumed = 0;
    for (int status = KS_MORE; status == KS_MORE; r->resumed = 1) {
        status = d->loop(r, begin, stop);
        if (status & KS_NO_MEMORY) return KS_NO_MEMORY;
    }
    return ks_late_put(d, begin, stop);
}

#endif
