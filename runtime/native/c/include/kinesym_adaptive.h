/* An explicit Runge-Kutta method that chooses its steps by an estimate of their error, with dense
 * output (Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, sections II.4 to II.6).
 *
 * Every lane has a time and a step of its own. Inputs have kinks or jumps at the nodes: no step
 * crosses one, nor does one that is recorded.
 */
#ifndef KINESYM_ADAPTIVE_H
#define KINESYM_ADAPTIVE_H
#include "kinesym_step.h"

/* What a block of members works with; lane l has time t[l] in interval at[l], taken[l] steps since
 * its beginning */
typedef struct {
    const ks_run *r;
    ptrdiff_t first, count, end, n, m;
    V *x, *y, *k[KS_STAGES_MOST + 1], *error, *u, *p, *time;
    ks_bound rhs;
    double t[KS_LANES], h[KS_LANES], size[KS_LANES];
    ptrdiff_t at[KS_LANES], taken[KS_LANES];
    int open[KS_LANES];
} ks_ad;

/* One stage at the time t + c h of each lane */
static void ks_ad_stage(ks_ad *d, int stage) {
    const ks_run *r = d->r;
    double now[KS_LANES];
    for (int l = 0; l < KS_LANES; l++) now[l] = d->t[l] + r->method.c[stage] * d->h[l];
    *d->time = ks_load(now);
    ks_inputs_of_lanes(r, d->m, d->first, d->count, d->at, now, d->u);
    const V h = ks_load(d->h);
    const double *a = r->method.a + stage * r->method.stages;
    for (ptrdiff_t i = 0; i < d->n; i++) {
        V sum = ks_splat(0.0);
        for (int s = 0; s < stage; s++) sum += a[s] * d->k[s][i];
        d->y[i] = d->x[i] + h * sum;
    }
    ks_eval(&d->rhs, d->k[stage]);
}

/* Size of the error estimate of each lane; at most 1 is acceptable */
static void ks_ad_error(ks_ad *d) {
    V sum = ks_splat(0.0);
    const V h = ks_load(d->h);
    const double *weight = d->r->method.error;
    const int last = d->r->method.stages;
    for (ptrdiff_t i = 0; i < d->n; i++) {
        V e = ks_splat(0.0);
        for (int s = 0; s <= last; s++) e += weight[s] * d->k[s][i];
        const V largest = ks_max(ks_abs(d->x[i]), ks_abs(d->y[i]));
        e = h * e / (d->r->atol + d->r->rtol * largest);
        sum += e * e;
    }
    ks_store(d->size, ks_sqrt(sum / (double)(d->n > 0 ? d->n : 1)));
}

/* Records the step to the time `after`, of one member */
static void ks_ad_record(const ks_ad *d, double after) {
    ks_record *record = d->r->record;
    double *begin = record->begin + record->count * d->n;
    for (ptrdiff_t i = 0; i < d->n; i++) begin[i] = ks_first(d->x[i]);
    record->time[record->count++] = after;
}

/* Writes the nodes of lane l in (t, t + h] and moves on */
static void ks_ad_accept(ks_ad *d, int l, double target) {
    const ks_run *r = d->r;
    const ptrdiff_t member = d->first + l;
    const ks_tableau *m = &r->method;
    const V *end = d->k[m->stages];
    const double after = d->t[l] + d->h[l] >= target ? target : d->t[l] + d->h[l];
    ptrdiff_t node = d->at[l] + 1;
    if (r->record != NULL) ks_ad_record(d, after);
    for (; node <= d->end && r->time[node] <= after; node++) {
        const double s = (r->time[node] - d->t[l]) / d->h[l];
        int finite = 1;
        for (ptrdiff_t i = 0; i < d->n; i++) {
            const ptrdiff_t j = i * KS_LANES + l;
            const double x = ((double *)d->x)[j], y = ((double *)d->y)[j], h = d->h[l];
            const double first = h * ((double *)d->k[0])[j], last = h * ((const double *)end)[j];
            double value = y;
            if (r->time[node] < after) {
                double more = 0.0;
                for (int k = 0; k <= m->stages && m->dense != NULL; k++)
                    more += m->dense[k] * ((double *)d->k[k])[j];
                const double a = y - x, b = first - a, c = a - last - b;
                value = x + s * (a + (1.0 - s) * (b + s * (c + (1.0 - s) * h * more)));
            }
            ks_state_row(r, i, member)[node] = value;
            finite = finite && isfinite(value);
        }
        if (finite && r->reached[member] == node) r->reached[member] = node + 1;
    }
    if (d->at[l] < node - 1) d->taken[l] = 0;
    d->at[l] = node - 1;
    d->t[l] = after;
    if (r->reached[member] != node) d->open[l] = 0; /* not finite */
    for (ptrdiff_t i = 0; i < d->n; i++) {
        const ptrdiff_t j = i * KS_LANES + l;
        ((double *)d->x)[j] = ((double *)d->y)[j];
        ((double *)d->k[0])[j] = ((const double *)end)[j];
    }
}

/* How far the next step of lane l may go */
static double ks_ad_target(const ks_ad *d, int l) {
    const ptrdiff_t i = d->at[l];
    const int across = d->m == 0 && d->r->record == NULL;
    return d->r->time[across || !d->open[l] ? d->end : i + 1];
}

/* One step of all lanes, accepted or not. Returns whether some lane goes on. */
static int ks_ad_step(ks_ad *d) {
    double target[KS_LANES], wanted[KS_LANES];
    for (int l = 0; l < KS_LANES; l++) {
        target[l] = ks_ad_target(d, l);
        wanted[l] = d->h[l];
        const double rest = target[l] - d->t[l];
        if (d->h[l] * 1.000001 >= rest) d->h[l] = rest;
    }
    if (d->m > 0) ks_ad_stage(d, 0); /* an input may have jumped at the node */
    for (int stage = 1; stage <= d->r->method.stages; stage++) ks_ad_stage(d, stage);
    ks_ad_error(d);
    const double power = -1.0 / d->r->method.order;
    int some = 0;
    for (int l = 0; l < d->count; l++) {
        if (!d->open[l]) continue;
        const double size = d->size[l];
        const double factor = size > 1e-10 ? 0.9 * pow(size, power) : 5.0;
        const double taken = d->h[l];
        if (size <= 1.0) {
            const int shortened = taken < wanted[l];
            ks_ad_accept(d, l, target[l]);
            d->h[l] = taken * fmin(factor, 5.0);
            if (shortened) d->h[l] = fmax(d->h[l], wanted[l]);
            if (d->at[l] >= d->end) d->open[l] = 0;
        } else {
            d->h[l] = taken * (size == size ? fmax(factor, 0.2) : 0.2);
            if (!(d->t[l] + 0.1 * d->h[l] > d->t[l])) d->open[l] = 0; /* t does not advance */
        }
        if (d->open[l] && ++d->taken[l] > KS_STEPS_MOST) {
            d->open[l] = 0;
            d->r->trouble[d->first + l] = KS_STIFF;
        }
        some |= d->open[l];
    }
    return some;
}

/* Puts the lanes where they begin or go on; returns whether some lane does */
static int ks_ad_begin(ks_ad *d, ptrdiff_t begin) {
    const ks_run *r = d->r;
    int some = 0;
    for (int l = 0; l < KS_LANES; l++) {
        const ptrdiff_t member = d->first + (l < d->count ? l : d->count - 1);
        const ptrdiff_t reached = r->reached[member];
        const int alive = r->taken[member] != KS_FAILED && reached > begin && reached <= d->end;
        d->open[l] = l < d->count && alive;
        d->at[l] = alive ? reached - 1 : begin;
        d->t[l] = r->resumed ? r->clock[member] : r->time[begin];
        d->h[l] = l < d->count ? r->step[member] : 0.0;
        d->taken[l] = r->resumed ? r->taken[member] : 0;
        some |= d->open[l];
    }
    if (r->resumed) {
        ks_load_between(r, d->first, d->count, 0, r->n, d->x);
        ks_load_between(r, d->first, d->count, r->n, r->n, d->k[0]);
        return some;
    }
    ks_load_states(r, d->first, d->count, begin, d->x);
    ks_ad_stage(d, 0);
    for (int l = 0; l < d->count; l++)
        if (d->h[l] <= 0.0) d->h[l] = ks_first_step(r, l, d->x, d->k[0]);
    return some;
}

/* Keeps where the lanes are; those that are closed before the end have failed */
static void ks_ad_leave(const ks_ad *d) {
    const ks_run *r = d->r;
    ks_store_between(r, d->first, d->count, 0, r->n, d->x);
    ks_store_between(r, d->first, d->count, r->n, r->n, d->k[0]);
    for (int l = 0; l < d->count; l++) {
        const ptrdiff_t member = d->first + l;
        const int failed = !d->open[l] && r->reached[member] <= d->end;
        r->step[member] = d->h[l], r->clock[member] = d->t[l];
        r->taken[member] = failed ? KS_FAILED : d->taken[l];
    }
}

static int ks_ad_block(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                       ptrdiff_t end) {
    const ptrdiff_t n = r->n, m = r->rhs->count[1], np = r->rhs->count[2];
    ks_pool pool = {NULL, 0};
    ks_ad d = {.r = r, .first = first, .count = count, .end = end, .n = n, .m = m};
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(&pool)) return KS_NO_MEMORY;
        d.x = ks_take(&pool, n), d.y = ks_take(&pool, n);
        for (int s = 0; s <= r->method.stages; s++) d.k[s] = ks_take(&pool, n);
        d.u = ks_take(&pool, m), d.p = ks_take(&pool, np), d.time = ks_take(&pool, 1);
        if (pass == 1 && r->rhs->varying[2]) ks_load_parameters(r, np, first, count, d.p);
        ks_bind(&d.rhs, r->rhs, (V *[]){d.y, d.u, d.p, d.time}, ks_uniform_of(r, first), &pool);
    }
    const int some = ks_ad_begin(&d, begin);
    ptrdiff_t left = r->budget;
    int status = some ? KS_MORE : 0;
    for (; status == KS_MORE && left > 0; left--)
        if (!ks_ad_step(&d)) status = 0;
    if (some) ks_ad_leave(&d);
    free(pool.memory);
    return status;
}

static int ks_adaptive(const ks_run *r, ptrdiff_t begin, ptrdiff_t end) {
    return ks_for_members(r, ks_ad_block, begin, end);
}

#endif
