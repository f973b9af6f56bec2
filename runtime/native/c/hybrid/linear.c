/* The smooth motion of one mode, linearised: points, and steps of explicit methods. */
#include "linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Distance from the ends of a step at which inputs are read, as a share of it: where they break,
 * something like |u| may have a kink, and only one of its two slopes belongs to the step. */
#define INSIDE 1e-9

static void hand_out(sweep *b, ptrdiff_t P) {
    const hybrid_run *r = &b->r;
    const hybrid_sweep *s = b->s;
    const ptrdiff_t n = r->n, R = r->points.rows;
    pool *p = &b->memory;
    ks_bind_work(&b->w, p);
    ks_hybrid_bind(&b->w, &b->smooth, s->smooth.kernel, p);
    ks_hybrid_bind(&b->w, &b->guards, s->guards.kernel, p);
    ks_hybrid_bind(&b->w, &b->resets, s->resets.kernel, p);
    ks_hybrid_bind(&b->w, &b->touch, s->touch.kernel, p);
    for (int j = 0; j <= r->method.stages; j++) {
        point *q = j < r->method.stages ? b->stage + j : &b->here;
        q->numbers = take(p, n + s->smooth.entries + s->solution);
        q->forces = take(p, R * R), q->effects = take(p, n * R);
        if (j < r->method.stages) b->K[j] = take(p, n * P), b->eta[j] = take(p, n);
    }
    b->x = take(p, n), b->end = take(p, n), b->rate = take(p, n);
    b->X = take(p, n * P), b->U = take(p, r->m * P), b->F = take(p, R * P), b->A = take(p, 2 * R * P);
    b->T = take(p, P), b->row = take(p, P);
    b->kappa = take(p, n), b->bar = take(p, b->columns);
}

int ks_sweep_open(sweep *b, hybrid_sweep *s, ptrdiff_t P) {
    *b = (sweep){.s = s, .r = *s->run};
    b->r.state = b->state, b->r.friction = b->friction;
    b->w = (work){.r = &b->r, .last = b->r.method.stages};
    b->all = b->r.m + b->r.d + b->r.points.rows;
    b->columns = 2 * b->r.n + b->all + s->r + 1;
    hand_out(b, P); /* counts */
    b->from = calloc((size_t)b->columns, sizeof *b->from);
    if (ks_open_pool(&b->memory) || b->from == NULL) {
        ks_sweep_close(b);
        return 1;
    }
    hand_out(b, P);
    return 0;
}

void ks_sweep_close(sweep *b) {
    free(b->memory.memory);
    free(b->from);
}

void ks_move_to(sweep *b, ptrdiff_t k) {
    hybrid_run *r = &b->r;
    const int count = r->points.count;
    r->segment = r->tape_segment[k];
    for (int i = 0; i < count; i++) {
        const int mode = r->tape_contact[k * count + i];
        r->state[i] = mode == KS_CONTACT_OPEN ? KS_POINT_OPEN : KS_POINT_ACTIVE;
        r->friction[i] = mode;
    }
    if (r->d > 0) memcpy(b->w.u + r->m, r->tape_mode + k * r->d, (size_t)r->d * sizeof(double));
}

void ks_linearise(sweep *b, point *q, const double *x, double t) {
    q->t = t, q->active = ks_some_active(&b->r);
    ks_set_inputs(&b->w, t);
    ks_set_forces(&b->w, x, t);
    if (q->active) {
        const size_t size = (size_t)(b->r.n * b->r.points.rows) * sizeof(double);
        ks_contact_map(&b->r.points, coupling(&b->w), b->friction, q->forces);
        memcpy(q->effects, effects(&b->w), size);
    }
    bound kernel = b->smooth;
    kernel.out = q->numbers;
    ks_evaluate(&b->w, &kernel, x, t);
}

void ks_linearise_step(sweep *b, ptrdiff_t k, double h) {
    const hybrid_run *r = &b->r;
    const int stages = r->method.stages;
    const double *x = r->tape_state + k * r->n;
    ks_move_to(b, k);
    for (int s = 0; s <= stages; s++) {
        const double *a = r->method.a + s * stages;
        double *y = s < stages ? b->x : b->end;
        for (ptrdiff_t i = 0; i < r->n; i++) {
            double sum = 0.0;
            for (int j = 0; j < s; j++) sum += a[j] * b->stage[j].numbers[i];
            y[i] = x[i] + h * sum;
        }
        const double share = fmin(fmax(r->method.c[s], INSIDE), 1.0 - INSIDE);
        if (s < stages) ks_linearise(b, b->stage + s, y, r->tape_time[k] + share * h);
    }
}

/* -- forwards -------------------------------------------------------------------------------------- */

/* Time since the piece of an input began [s] */
static double since(const sweep *b, ptrdiff_t i, double t) {
    return t - b->s->own[i * b->r.segments + b->r.segment];
}

void ks_input_changes(const sweep *b, const changes *c, double t, const double *T, double *U) {
    const hybrid_run *r = &b->r;
    for (ptrdiff_t i = 0; i < r->m; i++) {
        const double moves = ks_input_rate(r, i, t);
        for (ptrdiff_t j = 0; j < c->P; j++) U[i * c->P + j] = T == NULL ? 0.0 : moves * T[j];
        double power = 1.0;
        for (ptrdiff_t k = 0; k < KS_POWERS; k++, power *= since(b, i, t)) {
            const double *of = c->pieces + (k * r->m + i) * c->P;
            for (ptrdiff_t j = 0; j < c->P; j++) U[i * c->P + j] += power * of[j];
        }
    }
}

void ks_set_from(sweep *b, const changes *c, const double *X, const double *U, const double *T) {
    const hybrid_run *r = &b->r;
    const double **from = b->from;
    for (ptrdiff_t i = 0; i < r->n; i++) *from++ = X + i * c->P;
    for (ptrdiff_t i = 0; i < b->all; i++) *from++ = i < r->m ? U + i * c->P : NULL;
    for (ptrdiff_t i = 0; i < b->s->r; i++) *from++ = c->p == NULL ? NULL : c->p + i * c->P;
    *from++ = T;
    for (ptrdiff_t i = 0; i < r->n; i++) *from++ = NULL;
}

/* out (rows, P) += a (rows, n) times b (n, P) */
static void multiply_add(ptrdiff_t rows, ptrdiff_t n, ptrdiff_t P, const double *a, const double *b,
                         double *out) {
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t k = 0; k < n; k++)
            for (ptrdiff_t j = 0; j < P; j++) out[i * P + j] += a[i * n + k] * b[k * P + j];
}

/* The first entry in this row or a later one */
static ptrdiff_t entry_of(const hybrid_slopes *s, ptrdiff_t row) {
    ptrdiff_t low = 0, high = s->entries;
    while (low < high) {
        const ptrdiff_t middle = (low + high) / 2;
        if (s->row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void ks_push(const sweep *b, const hybrid_slopes *s, const double *entries, ptrdiff_t first,
             ptrdiff_t last, ptrdiff_t P, double *out) {
    for (ptrdiff_t e = entry_of(s, first); e < s->entries && s->row[e] < last; e++) {
        const double *from = b->from[s->column[e]], value = entries[e];
        if (from == NULL) continue;
        double *to = out + (s->row[e] - first) * P;
        for (ptrdiff_t j = 0; j < P; j++) to[j] += value * from[j];
    }
}

void ks_push_rates(sweep *b, const point *q, ptrdiff_t P, double *K) {
    const hybrid_run *r = &b->r;
    const hybrid_sweep *s = b->s;
    const ptrdiff_t R = r->points.rows, n = r->n;
    const double *entries = q->numbers + n, *steps = entries + s->smooth.entries;
    memset(K, 0, (size_t)(n * P) * sizeof(double));
    ks_push(b, &s->smooth, entries, 0, n, P, K);
    for (ptrdiff_t k = 0; k < s->solution; k++) {
        double *to = K + s->target[k] * P;
        const double *from = K + s->source[k] * P;
        for (ptrdiff_t j = 0; j < P; j++)
            to[j] = to == from ? to[j] * steps[k] : to[j] - steps[k] * from[j];
    }
    memset(b->F, 0, (size_t)(R * P) * sizeof(double));
    if (q->active) {
        for (ptrdiff_t i = 0; i < n; i++) b->from[b->columns - n + i] = K + i * P;
        memset(b->A, 0, (size_t)(R * P) * sizeof(double));
        ks_push(b, &s->smooth, entries, n, n + R, P, b->A);
        multiply_add(R, R, P, q->forces, b->A, b->F);
        multiply_add(n, R, P, q->effects, b->F, K);
    }
    for (ptrdiff_t i = 0; i < R; i++) b->from[n + r->m + r->d + i] = b->F + i * P;
}

void ks_step_forward(sweep *b, const changes *c, double h, double *X) {
    const hybrid_run *r = &b->r;
    const int stages = r->method.stages;
    const ptrdiff_t size = r->n * c->P;
    for (int s = 0; s <= stages; s++) {
        const double *a = r->method.a + s * stages;
        double *Y = s < stages ? b->X : X;
        memmove(Y, X, (size_t)size * sizeof(double));
        for (int j = 0; j < s; j++)
            for (ptrdiff_t i = 0; i < size && a[j] != 0.0; i++) Y[i] += h * a[j] * b->K[j][i];
        if (s == stages) break;
        const point *q = b->stage + s;
        ks_input_changes(b, c, q->t, NULL, b->U);
        ks_set_from(b, c, Y, b->U, NULL);
        ks_push_rates(b, q, c->P, b->K[s]);
    }
}

/* -- backwards ------------------------------------------------------------------------------------- */

/* b->bar += entries of rows first <= i < last, times row[i - first] */
static void pull(sweep *b, const double *entries, ptrdiff_t first, ptrdiff_t last,
                 const double *row) {
    const hybrid_slopes *s = &b->s->smooth;
    for (ptrdiff_t e = entry_of(s, first); e < s->entries && s->row[e] < last; e++)
        b->bar[s->column[e]] += entries[e] * row[s->row[e] - first];
}

/* As `pull`, of x' with the forces that follow */
static void pull_rate(sweep *b, const point *q, const double *row) {
    const hybrid_run *r = &b->r;
    const hybrid_sweep *s = b->s;
    const ptrdiff_t R = r->points.rows, n = r->n;
    const double *entries = q->numbers + n, *steps = entries + s->smooth.entries;
    double force[HYBRID_ROWS] = {0}, free[HYBRID_ROWS] = {0}, *rates = b->bar + b->columns - n;
    memset(b->bar, 0, (size_t)(n + b->all) * sizeof(double));
    memset(rates, 0, (size_t)n * sizeof(double));
    if (q->active) {
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t k = 0; k < R; k++) force[k] += q->effects[i * R + k] * row[i];
        for (ptrdiff_t i = 0; i < R; i++)
            for (ptrdiff_t k = 0; k < R; k++) free[k] += q->forces[i * R + k] * force[i];
        pull(b, entries, n, n + R, free);
    }
    for (ptrdiff_t i = 0; i < n; i++) rates[i] += row[i];
    for (ptrdiff_t k = s->solution - 1; k >= 0; k--) {
        if (s->target[k] == s->source[k])
            rates[s->target[k]] *= steps[k];
        else
            rates[s->source[k]] -= steps[k] * rates[s->target[k]];
    }
    pull(b, entries, 0, n, rates);
}

void ks_step_back(sweep *b, double h, const double *row, double *x, double *pieces) {
    const hybrid_run *r = &b->r;
    const int stages = r->method.stages;
    const size_t size = (size_t)r->n * sizeof(double);
    for (ptrdiff_t i = 0; i < r->n; i++) x[i] += row[i];
    for (int s = stages - 1; s >= 0; s--) {
        const double weight = r->method.a[stages * stages + s];
        for (ptrdiff_t i = 0; i < r->n; i++) b->kappa[i] = h * weight * row[i];
        for (int l = s + 1; l < stages; l++) {
            const double a = h * r->method.a[l * stages + s];
            for (ptrdiff_t i = 0; i < r->n && a != 0.0; i++) b->kappa[i] += a * b->eta[l][i];
        }
        pull_rate(b, b->stage + s, b->kappa);
        memcpy(b->eta[s], b->bar, size);
        for (ptrdiff_t i = 0; i < r->n; i++) x[i] += b->eta[s][i];
        for (ptrdiff_t i = 0; i < r->m; i++) {
            double power = 1.0;
            for (ptrdiff_t k = 0; k < KS_POWERS; k++, power *= since(b, i, b->stage[s].t))
                pieces[k * r->m + i] += power * b->bar[r->n + i];
        }
    }
}
