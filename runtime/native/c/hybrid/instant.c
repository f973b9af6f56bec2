/* Linearised changes between two steps: breaks of inputs, located events, resets, impacts. */
#include "linear.h"

#include <math.h>
#include <string.h>

ptrdiff_t ks_entries_of(const sweep *b, ptrdiff_t k, ptrdiff_t *first) {
    const hybrid_run *r = &b->r;
    ptrdiff_t low = 0, high = r->logged;
    while (low < high) {
        const ptrdiff_t middle = (low + high) / 2;
        if (r->log_step[middle] < k + 1)
            low = middle + 1;
        else
            high = middle;
    }
    for (*first = low; low < r->logged && r->log_step[low] == k + 1;) low++;
    return low - *first;
}

/* X (n, P) += factor x rate (n) times a row (P) */
static void shift(const sweep *b, const double *rate, double factor, const double *row, ptrdiff_t P,
                  double *X) {
    for (ptrdiff_t i = 0; i < b->r.n; i++)
        for (ptrdiff_t j = 0; j < P; j++) X[i * P + j] += factor * rate[i] * row[j];
}

/* Evaluates a kernel of derivatives, where there is one */
static const double *slopes_at(const sweep *b, const bound *k, const double *x, double t) {
    if (k->k != NULL) ks_evaluate(&b->w, k, x, t);
    return k->out;
}

/* -- breaks of inputs ------------------------------------------------------------------------------ */

/* Modes that events at this instant set because of this input take their new values */
static void switch_modes(sweep *b, ptrdiff_t k, ptrdiff_t input) {
    const hybrid_run *r = &b->r;
    const hybrid_slopes *g = &b->s->guards;
    ptrdiff_t first;
    const ptrdiff_t count = ks_entries_of(b, k, &first);
    for (ptrdiff_t e = first; e < first + count; e++) {
        if (r->log_kind[e] != KS_LOG_EVENT) continue;
        const int event = r->log_index[e];
        int depends = 0;
        for (ptrdiff_t i = 0; i < g->entries; i++)
            depends |= g->row[i] == event && g->column[i] == r->n + input;
        for (ptrdiff_t j = r->first_target[event]; depends && j < r->first_target[event + 1]; j++)
            if (r->target[j] >= r->n)
                b->w.u[r->m + r->target[j] - r->n] =
                    r->tape_mode[(k + 1) * r->d + r->target[j] - r->n];
    }
}

/* Each input that breaks changes x by the difference of rates times when it breaks; so do the modes
 * that switch because of it. What follows comes with the first of them. The rate afterwards in
 * b->here. */
static void broken(sweep *b, ptrdiff_t k, const changes *c, double *X) {
    const hybrid_run *r = &b->r;
    const double t = b->here.t, *own = b->s->own;
    double *rate = b->here.numbers;
    int some = 0;
    for (ptrdiff_t i = 0; i < r->m; i++) {
        const ptrdiff_t old = i * r->segments + r->segment;
        if (own[old] == own[old + 1]) continue;
        const double *when = c->pieces + (KS_POWERS * r->m + i) * c->P;
        b->w.u[i] = ks_hybrid_input(r, i, r->segment + 1, t);
        if (k + 1 < r->taped) switch_modes(b, k, i);
        ks_set_forces(&b->w, b->end, t);
        ks_evaluate(&b->w, &b->w.smooth, b->end, t);
        shift(b, rate, 1.0, when, c->P, X);
        memcpy(rate, b->w.smooth.out, (size_t)r->n * sizeof(double));
        shift(b, rate, -1.0, when, c->P, X);
        if (!some) memcpy(b->T, when, (size_t)c->P * sizeof(double));
        some = 1;
    }
}

/* -- located events -------------------------------------------------------------------------------- */

/* Changes (P) of a watched function, of what b->from says */
static void watched(sweep *b, int which, ptrdiff_t P, double *out) {
    const hybrid_run *r = &b->r;
    memset(out, 0, (size_t)P * sizeof(double));
    if (which < r->events) {
        ks_push_rates(b, &b->here, P, b->K[0]);
        ks_push(b, &b->s->guards, b->guards.out, which, which + 1, P, out);
        return;
    }
    const int i = (int)(which - r->events) / 4, what = (int)(which - r->events) % 4;
    const int tangent = r->points.tangent[i];
    if (what == 0 || what == 3) {
        const int row = what == 0 ? i : r->points.count + tangent;
        ks_push(b, &b->s->touch, b->touch.out, row, row + 1, P, out);
        return;
    }
    ks_push_rates(b, &b->here, P, b->K[0]);
    const double force = what == 2 ? b->w.u[r->m + r->d + tangent] : 0.0;
    const double mu = what == 2 ? r->points.mu[i] : 1.0;
    const double sign = (force > 0.0) - (force < 0.0);
    for (ptrdiff_t j = 0; j < P; j++)
        out[j] = mu * b->F[i * P + j] - (what == 2 ? sign * b->F[tangent * P + j] : 0.0);
}

/* b->T: -(change of the function) / (its rate along the motion) */
static int located(sweep *b, int which, const changes *c, const double *X) {
    const hybrid_run *r = &b->r;
    const double one = 1.0;
    const changes none = {1, NULL, NULL};
    double speed, *along = b->bar;
    if (which < r->events)
        slopes_at(b, &b->guards, b->end, b->here.t);
    else
        slopes_at(b, &b->touch, b->end, b->here.t);
    for (ptrdiff_t i = 0; i < r->m; i++) along[i] = ks_input_rate(r, i, b->here.t);
    ks_set_from(b, &none, b->here.numbers, along, &one);
    watched(b, which, 1, &speed);
    if (speed == 0.0) {
        b->s->trouble = b->here.t;
        return KS_SWEEP_GRAZES;
    }
    ks_input_changes(b, c, b->here.t, NULL, b->U);
    ks_set_from(b, c, X, b->U, NULL);
    watched(b, which, c->P, b->T);
    for (ptrdiff_t j = 0; j < c->P; j++) b->T[j] /= -speed;
    return KS_SWEEP_DONE;
}

/* -- resets and impacts ---------------------------------------------------------------------------- */

/* To the state before an entry of the log, with the inputs that follow the instant */
static const double *before_entry(sweep *b, ptrdiff_t e, const changes *c, const double *X) {
    const hybrid_run *r = &b->r;
    const double t = r->log_time[e], *x = r->log_before + e * r->n;
    ks_set_inputs(&b->w, t);
    ks_input_changes(b, c, t, b->T, b->U);
    ks_set_from(b, c, X, b->U, b->T);
    return x;
}

/* Whether a reset of this event changes states, and depends on inputs */
static void kind_of_reset(const sweep *b, int event, int *states, int *inputs) {
    const hybrid_run *r = &b->r;
    const hybrid_slopes *s = &b->s->resets;
    *states = *inputs = 0;
    for (ptrdiff_t j = r->first_target[event]; j < r->first_target[event + 1]; j++) {
        *states |= r->target[j] < r->n;
        for (ptrdiff_t e = 0; e < s->entries; e++)
            *inputs |= s->row[e] == j && s->column[e] >= r->n && s->column[e] < r->n + r->m;
    }
}

static int reset(sweep *b, ptrdiff_t e, const changes *c, int breaks, double *X) {
    const hybrid_run *r = &b->r;
    const int event = r->log_index[e];
    const ptrdiff_t first = r->first_target[event], last = r->first_target[event + 1], P = c->P;
    const size_t row = (size_t)P * sizeof(double);
    int states, inputs;
    kind_of_reset(b, event, &states, &inputs);
    if (states && inputs && breaks) {
        b->s->trouble = r->log_time[e], b->s->event = event;
        return KS_SWEEP_RESET;
    }
    const double *x = before_entry(b, e, c, X);
    ks_set_forces(&b->w, x, r->log_time[e]);
    slopes_at(b, &b->resets, x, r->log_time[e]);
    memcpy(b->X, X, (size_t)r->n * row);
    for (ptrdiff_t j = first; j < last && states; j++) {
        if (r->target[j] >= r->n) continue;
        memset(b->row, 0, row);
        ks_push(b, &b->s->resets, b->resets.out, j, j + 1, P, b->row);
        memcpy(b->X + r->target[j] * P, b->row, row);
    }
    memcpy(X, b->X, (size_t)r->n * row);
    if (last == first) return KS_SWEEP_DONE;
    ks_evaluate(&b->w, &b->w.resets, x, r->log_time[e]); /* modes for what follows */
    for (ptrdiff_t j = first; j < last; j++)
        if (r->target[j] >= r->n) b->w.u[r->m + r->target[j] - r->n] = b->w.resets.out[j];
    return KS_SWEEP_DONE;
}

/* x + B impulse, where W impulse + (1 + e) speeds = 0 in the rows of closed ones */
static void impact(sweep *b, ptrdiff_t e, const changes *c, double *X) {
    const hybrid_run *r = &b->r;
    const int R = r->points.rows, count = r->points.count, *mode = r->log_contact + e * count;
    const ptrdiff_t n = r->n, P = c->P;
    const size_t size = (size_t)(R * P) * sizeof(double);
    double *f = b->w.u + r->m + r->d, side[HYBRID_ROWS], map[HYBRID_ROWS * HYBRID_ROWS];
    const double *x = before_entry(b, e, c, X);
    memset(f, 0, (size_t)R * sizeof(double));
    ks_evaluate(&b->w, &b->w.contact, x, r->log_time[e]);
    for (int i = 0; i < R; i++)
        side[i] = (i < count ? 1.0 + r->log_restitution[e] : 1.0) * speeds(&b->w)[i];
    ks_contact_forces(&r->points, coupling(&b->w), side, mode, INFINITY, f);
    ks_contact_map(&r->points, coupling(&b->w), mode, map);
    const double *slopes = slopes_at(b, &b->touch, x, r->log_time[e]);
    memset(b->A, 0, 2 * size);
    ks_push(b, &b->s->touch, slopes, count, count + 2 * R, P, b->A);
    memset(b->F, 0, size);
    for (int i = 0; i < R; i++)
        for (int k = 0; k < R; k++)
            for (ptrdiff_t j = 0; j < P; j++) {
                const double bounce = k < count ? 1.0 + r->log_restitution[e] : 1.0;
                const double speed = b->A[k * P + j], pushed = b->A[(R + k) * P + j];
                b->F[i * P + j] += map[i * R + k] * (bounce * speed + pushed);
            }
    for (int i = 0; i < R; i++) b->from[n + r->m + r->d + i] = b->F + i * P;
    memcpy(b->X, X, (size_t)(n * P) * sizeof(double));
    ks_push(b, &b->s->touch, slopes, count + 2 * R, count + 2 * R + n, P, b->X);
    memcpy(X, b->X, (size_t)(n * P) * sizeof(double));
}

/* -- all of it ------------------------------------------------------------------------------------- */

int ks_instant(sweep *b, ptrdiff_t k, const changes *c, double *X, double *times, double *before,
               double *after) {
    hybrid_run *r = &b->r;
    const ptrdiff_t P = c->P, size = r->n * P, modes = r->d;
    const int breaks = k >= 0 && r->tape_cause[k] == KS_TAPE_CLOCK;
    ptrdiff_t first;
    const ptrdiff_t count = ks_entries_of(b, k, &first);
    int status = KS_SWEEP_DONE;
    memset(b->T, 0, (size_t)P * sizeof(double));
    ks_move_to(b, k < 0 ? 0 : k);
    if (k >= 0) {
        ks_linearise(b, &b->here, b->end, r->tape_time[k] + r->tape_length[k]);
        if (breaks)
            broken(b, k, c, X);
        else
            status = located(b, r->tape_cause[k], c, X);
        if (status) return status;
        shift(b, b->here.numbers, 1.0, b->T, P, X);
        if (modes > 0) memcpy(b->w.u + r->m, r->tape_mode + k * modes, (size_t)modes * sizeof(double));
    }
    if (k + 1 < r->taped) r->segment = r->tape_segment[k + 1];
    for (ptrdiff_t e = 0; e < count && !status; e++) {
        if (times != NULL) {
            memcpy(times + e * P, b->T, (size_t)P * sizeof(double));
            memcpy(before + e * size, X, (size_t)size * sizeof(double));
        }
        if (r->log_kind[first + e] == KS_LOG_EVENT) status = reset(b, first + e, c, breaks, X);
        if (r->log_kind[first + e] == KS_LOG_IMPACT) impact(b, first + e, c, X);
        if (times != NULL) memcpy(after + e * size, X, (size_t)size * sizeof(double));
    }
    if (status || k < 0 || k + 1 >= r->taped) return status;
    ks_move_to(b, k + 1);
    ks_rate(&b->w, r->tape_state + (k + 1) * r->n, r->tape_time[k + 1], b->rate);
    shift(b, b->rate, -1.0, b->T, P, X);
    return status;
}
