/* Implicit Runge-Kutta steps that are chosen by an estimate of their error: RADAU5 of Hairer and
 * Wanner (Solving Ordinary Differential Equations II, section IV.8) for 0 = f(x', x, u, p, t), with the
 * polynomial of the stages as dense output.
 *
 * Every lane has a time, a step, derivatives and factors of its own; they are computed for all lanes
 * at once. Inputs have kinks or jumps at the nodes: no step crosses one, nor does one that is recorded.
 */
#ifndef KINESYM_RADAU_H
#define KINESYM_RADAU_H
#include "kinesym_stages.h"

#define KS_RADAU_ITERATIONS 7
/* Corrections of steps that are recorded, at most */
#define KS_RADAU_POLISH 10
/* Errors of Newton's method shrink so fast that derivatives are kept. */
#define KS_RADAU_FAST 1e-3
/* Least share of a correction that is taken to be left before a second one tells: after a jump within
 * a step, corrections are as good as the derivatives, not as those before them. */
#define KS_RADAU_LEFT 1e-5
/* Steps that would grow by less are kept, and their factors. */
#define KS_RADAU_SAME 1.2

/* What a block works with. before[l]: length of the step before, 0 at the begin; wanted[l]: of the
 * next one. */
typedef struct ks_radau {
    ks_stages s;
    ptrdiff_t end, taken[KS_LANES];
    V *last, *weight; /* z of the steps before; of errors */
    double wanted[KS_LANES], before[KS_LANES], error[KS_LANES], size[KS_LANES], shrink[KS_LANES];
    double slow[KS_LANES], left[KS_LANES]; /* rate of Newton's method; rate/(1 - rate) so far */
    double rtol, atol, enough; /* enough: size of an error of Newton's method */
    double weighted;           /* states whose errors count */
    int open[KS_LANES], stale[KS_LANES], here[KS_LANES], refused[KS_LANES], iterations[KS_LANES];
} ks_radau;

/* Memory and kernels; see ks_stages_take */
KS_PART void ks_ra_take(ks_radau *d, ks_pool *pool) {
    const ks_run *r = d->s.r;
    const ptrdiff_t stages = r->method.stages * r->n;
    ks_stages_take(&d->s, pool);
    d->last = ks_take(pool, stages), d->weight = ks_take(pool, r->n);
    if (pool->memory != NULL) memset(d->last, 0, (size_t)stages * sizeof(V));
}

/* Tolerances of the estimate, which is of order 3: those of the user count for order 5. */
KS_PART void ks_ra_tolerances(ks_radau *d) {
    const ks_run *r = d->s.r;
    d->rtol = 0.1 * pow(r->rtol, 2.0 / 3.0);
    d->atol = d->rtol * (r->atol / r->rtol);
    d->enough = fmax(10.0 * 2.3e-16 / d->rtol, fmin(0.03, sqrt(d->rtol)));
}

/* Weights of errors in a step, of the mean of their squares. Algebraic states of index 2 count by what
 * they do to the others alone: what Newton's method leaves of a constraint changes them by 1/h as
 * much, however short the step is (Brenan, Campbell, Petzold, Numerical Solution of Initial-Value
 * Problems in Differential-Algebraic Equations, section 5.4). */
KS_PART void ks_ra_weigh(ks_radau *d) {
    const ks_stages *s = &d->s;
    ptrdiff_t left_out = 0;
    for (ptrdiff_t k = 0; k < s->n; k++) {
        const int counts = s->r->index < 2 || !s->algebraic[k];
        left_out += !counts;
        d->weight[k] = (counts ? 1.0 : 0.0) / (d->atol + d->rtol * ks_abs(s->x[k]));
    }
    d->weighted = fmax((double)(s->n - left_out), 1.0);
}

/* Newton's method for the stages. shrink[l] is the factor for the next length of a step that failed,
 * 0 of one that has its stages. */
KS_PART void ks_ra_newton(ks_radau *d) {
    ks_stages *s = &d->s;
    const ptrdiff_t count = s->r->method.implicit * s->n;
    double last[KS_LANES], rate[KS_LANES], sizes[KS_LANES];
    const int carried = s->r->index < 2; /* else a first correction hardly tells of the next */
    int open[KS_LANES], some = 0;
    for (int i = 0; i < s->r->method.stages; i++)
        ks_stages_inputs(s, s->r->method.c[i], s->u + i * s->m);
    for (int l = 0; l < KS_LANES; l++) {
        some |= open[l] = d->open[l];
        d->shrink[l] = 0.0, rate[l] = 0.0, last[l] = 1.0;
        d->slow[l] = 0.0, d->left[l] = carried ? pow(fmax(d->left[l], KS_RADAU_LEFT), 0.8) : 1.0;
    }
    for (int step = 1; step <= KS_RADAU_ITERATIONS && some; step++) {
        const V active = ks_flags(open);
        V sum = ks_splat(0.0);
        ks_stages_residual(s);
        ks_stages_correct(s);
        for (ptrdiff_t k = 0; k < count; k++) {
            const V part = s->g[k] * d->weight[k % s->n];
            sum += part * part;
            s->z[k] += ks_select(active, s->g[k], ks_splat(0.0));
        }
        ks_store(sizes, ks_sqrt(sum / ((double)s->r->method.implicit * d->weighted)));
        some = 0;
        for (int l = 0; l < KS_LANES; l++) {
            if (!open[l]) continue;
            d->iterations[l] = step;
            const double now = sizes[l] / last[l];
            if (step > 1) {
                const double mean = step == 2 ? now : sqrt(now * rate[l]);
                /* where it diverges, that says nothing of the next step */
                d->slow[l] = mean, d->left[l] = mean < 0.99 ? mean / (1.0 - mean) : 1.0;
                const double predicted =
                    d->left[l] * sizes[l] * pow(mean, KS_RADAU_ITERATIONS - 1 - step) / d->enough;
                if (!(mean < 0.99))
                    d->shrink[l] = 0.5;
                else if (step < KS_RADAU_ITERATIONS && predicted >= 1.0)
                    d->shrink[l] = 0.8 * pow(fmax(1e-4, fmin(20.0, predicted)),
                                             -1.0 / (3.0 + KS_RADAU_ITERATIONS - step));
            }
            if (!(sizes[l] < 1e300)) d->shrink[l] = 0.5;
            rate[l] = now, last[l] = fmax(sizes[l], 2.3e-16);
            open[l] = d->shrink[l] == 0.0 && !(d->left[l] * sizes[l] <= d->enough);
            some |= open[l];
        }
    }
    for (int l = 0; l < KS_LANES; l++)
        if (open[l]) d->shrink[l] = 0.5;
}

/* Solves for an error estimate from x' in k and the states in y, at a share of the steps with the inputs
 * in v, into g; the size of each lane, at most 1 of what is acceptable */
KS_PART void ks_ra_estimate(ks_radau *d, double share, double *size) {
    ks_stages *s = &d->s;
    V sum = ks_splat(0.0);
    ks_stages_eval(s, &s->residual, s->v, share, s->g);
    ks_stages_solve(s, 0, s->g);
    for (ptrdiff_t k = 0; k < s->n; k++) {
        const V part = s->g[k] * d->weight[k];
        sum += part * part;
    }
    ks_store(size, ks_sqrt(sum / d->weighted));
}

/* Sizes of the errors; those of first and of repeated steps are filtered twice. */
KS_PART void ks_ra_error(ks_radau *d) {
    ks_stages *s = &d->s;
    const ks_tableau *method = &s->r->method;
    const V inverse = 1.0 / ks_load(s->h);
    int again = 0, twice[KS_LANES];
    for (ptrdiff_t k = 0; k < s->n; k++) {
        V sum = ks_splat(0.0);
        for (int i = 0; i < method->stages; i++) sum += method->error[i] * ks_stages_rate(s, i, k);
        s->k[k] = inverse * sum, s->y[k] = s->x[k];
    }
    ks_stages_inputs(s, 0.0, s->v);
    ks_ra_estimate(d, 0.0, d->size);
    for (int l = 0; l < KS_LANES; l++) {
        const int special = d->before[l] == 0.0 || d->refused[l];
        again |= twice[l] = d->open[l] && d->shrink[l] == 0.0 && special && !(d->size[l] < 1.0);
    }
    if (!again) return;
    double size[KS_LANES];
    for (ptrdiff_t k = 0; k < s->n; k++) s->y[k] = s->x[k] - s->g[k];
    ks_ra_estimate(d, 0.0, size);
    for (int l = 0; l < KS_LANES; l++)
        if (twice[l]) d->size[l] = size[l];
}

/* x' and x of the polynomial of the stages at a share of the steps, which is no stage */
KS_PART void ks_ra_dense(ks_radau *d, double share) {
    ks_stages *s = &d->s;
    const ks_tableau *method = &s->r->method;
    const V inverse = 1.0 / ks_load(s->h);
    double w[KS_UNKNOWN_MOST], slope[KS_UNKNOWN_MOST];
    ks_stages_weights(method, share, 0, w);
    for (int i = 0; i < method->stages; i++) {
        slope[i] = w[i] / share;
        for (int j = 0; j < method->stages; j++)
            if (j != i) slope[i] += w[i] / (share - method->c[j]);
    }
    for (ptrdiff_t k = 0; k < s->n; k++) {
        V sum = ks_splat(0.0);
        s->y[k] = s->x[k];
        for (int i = 0; i < method->stages; i++) {
            s->y[k] += w[i] * s->z[i * s->n + k];
            sum += slope[i] * s->z[i * s->n + k];
        }
        s->k[k] = inverse * sum;
    }
}

/* Raises the sizes of errors to those between stages, of lanes with nodes within their steps, to
 * `after`. Algebraic states, and those that are nearly so, are exact at stages, and the estimate sees
 * them there alone; what is written at nodes is the polynomial. */
KS_PART void ks_ra_between(ks_radau *d, const double *after) {
    static const double shares[] = {0.4, 0.85};
    ks_stages *s = &d->s;
    int inside[KS_LANES], some = 0;
    for (int l = 0; l < KS_LANES; l++) {
        inside[l] = d->open[l] && d->shrink[l] == 0.0 && s->r->time[s->at[l] + 1] < after[l];
        some |= inside[l];
    }
    for (int i = 0; some && i < 2; i++) {
        double size[KS_LANES];
        ks_ra_dense(d, shares[i]);
        ks_stages_inputs(s, shares[i], s->v);
        ks_ra_estimate(d, shares[i], size);
        for (int l = 0; l < KS_LANES; l++)
            if (inside[l] && !(size[l] <= d->size[l])) d->size[l] = size[l];
    }
}

/* Solves the stages of one member to rounding, where corrections shrink no more: derivatives of a step
 * are those of its equations. */
KS_PART void ks_ra_polish(ks_radau *d) {
    ks_stages *s = &d->s;
    const ptrdiff_t count = s->r->method.implicit * s->n;
    double size[KS_LANES], last = INFINITY;
    for (int step = 0; step < KS_RADAU_POLISH; step++) {
        V sum = ks_splat(0.0);
        ks_stages_residual(s);
        ks_stages_correct(s);
        for (ptrdiff_t k = 0; k < count; k++) {
            const V part = s->g[k] * d->weight[k % s->n];
            sum += part * part;
        }
        ks_store(size, ks_sqrt(sum / ((double)s->r->method.implicit * d->weighted)));
        if (!(size[0] < 0.5 * last)) return;
        for (ptrdiff_t k = 0; k < count; k++) s->z[k] += s->g[k];
        if (d->rtol * size[0] < 2.3e-16) return;
        last = size[0];
    }
}

/* Records the step to the time `after`, of one member */
KS_PART void ks_ra_record(const ks_radau *d, double after) {
    const ks_stages *s = &d->s;
    ks_record *record = s->r->record;
    const int stages = s->r->method.stages;
    const V inverse = 1.0 / ks_load(s->h);
    for (ptrdiff_t k = 0; k < s->n; k++) {
        record->begin[record->count * s->n + k] = ks_first(s->x[k]);
        for (int i = 0; i < stages; i++) {
            const ptrdiff_t place = (record->count * stages + i) * s->n + k;
            record->rates[place] = ks_first(inverse * ks_stages_rate(s, i, k));
            record->states[place] = ks_first(s->x[k] + s->z[i * s->n + k]);
        }
    }
    record->time[record->count++] = after;
}

/* Writes the nodes of lane l in (t, t + h] and moves on */
KS_PART void ks_ra_accept(ks_radau *d, int l, double after) {
    ks_stages *s = &d->s;
    const ks_run *r = s->r;
    const ptrdiff_t n = s->n, member = s->first + l;
    const int stages = r->method.stages;
    double *x = (double *)s->x + l, *z = (double *)s->z + l, *last = (double *)d->last + l;
    double *rate = (double *)s->rate + l, w[KS_UNKNOWN_MOST];
    ptrdiff_t node = s->at[l] + 1;
    if (r->record != NULL) ks_ra_polish(d), ks_ra_record(d, after);
    for (; node <= d->end && r->time[node] <= after; node++) {
        int finite = 1;
        ks_stages_weights(&r->method, (r->time[node] - s->t[l]) / s->h[l], 0, w);
        for (ptrdiff_t k = 0; k < n; k++) {
            double value = x[k * KS_LANES] + z[((stages - 1) * n + k) * KS_LANES];
            if (r->time[node] < after) {
                value = x[k * KS_LANES];
                for (int i = 0; i < stages; i++) value += w[i] * z[(i * n + k) * KS_LANES];
            }
            ks_state_row(r, k, member)[node] = value;
            finite = finite && isfinite(value);
        }
        if (finite && r->reached[member] == node) r->reached[member] = node + 1;
    }
    if (s->at[l] < node - 1) d->taken[l] = 0;
    s->at[l] = node - 1;
    s->t[l] = after;
    if (r->reached[member] != node) d->open[l] = 0; /* not finite */
    const double *inverse = r->method.inverse + (stages - 1) * stages;
    for (ptrdiff_t k = 0; k < n; k++) {
        double sum = 0.0;
        for (int i = 0; i < stages; i++) {
            last[(i * n + k) * KS_LANES] = z[(i * n + k) * KS_LANES];
            sum += inverse[i] * z[(i * n + k) * KS_LANES];
        }
        if (!s->algebraic[k]) rate[k * KS_LANES] = sum / s->h[l];
        x[k * KS_LANES] += z[((stages - 1) * n + k) * KS_LANES];
    }
}

/* The length of the next of the steps that lead through the rest of a way: if they are few, then equal
 * ones, for which factors are kept. */
KS_PART double ks_ra_part(double wanted, double rest) {
    const double parts = ceil(rest / wanted - 1e-6);
    return parts <= 1.0 ? rest : parts <= 4.0 ? rest / parts : wanted;
}

/* The length of the next step of lane l, and where it ends: none crosses a node that none may cross. */
KS_PART double ks_ra_length(const ks_radau *d, int l, double *after) {
    const ks_stages *s = &d->s;
    const ks_run *r = s->r;
    *after = s->t[l];
    if (!d->open[l]) return 1.0;
    const int across = s->m == 0 && r->record == NULL;
    const double target = r->time[across ? d->end : s->at[l] + 1], rest = target - s->t[l];
    const double h = ks_ra_part(d->wanted[l], rest);
    *after = h == rest ? target : s->t[l] + h;
    return h;
}

/* The next length of lane l after a step that has its stages; returns whether that step is taken. */
KS_PART int ks_ra_control(ks_radau *d, int l) {
    const double h = d->s.h[l], size = d->size[l], most = 2.0 * KS_RADAU_ITERATIONS;
    const double safe = fmin(0.9, 0.9 * (1.0 + most) / (d->iterations[l] + most));
    double shorter = fmax(0.125, fmin(5.0, pow(size, 0.25) / safe));
    if (!(size < 1.0)) {
        if (size != size)
            shorter = 2.0;
        else if (d->before[l] == 0.0)
            shorter = 10.0;
        d->wanted[l] = h / shorter;
        return 0;
    }
    if (d->before[l] > 0.0) { /* the predictive controller of Gustafsson */
        const double growing = pow(size * size / d->error[l], 0.25) / 0.9;
        shorter = fmax(shorter, fmax(0.125, fmin(5.0, d->before[l] / h * growing)));
    }
    double next = h / shorter;
    if (d->refused[l]) next = fmin(next, h);
    if (h < d->wanted[l])
        next = fmax(next, d->wanted[l]); /* shortened */
    else if (d->slow[l] <= KS_RADAU_FAST && next >= h && next <= KS_RADAU_SAME * h)
        next = h;
    d->wanted[l] = next;
    d->before[l] = h, d->error[l] = fmax(1e-2, size);
    return 1;
}

/* Derivatives and factors where they are needed */
KS_PART void ks_ra_factor(ks_radau *d) {
    ks_stages *s = &d->s;
    int stale = 0, needed = 0, which[KS_LANES];
    for (int l = 0; l < KS_LANES; l++) stale |= which[l] = d->open[l] && d->stale[l];
    if (stale) {
        for (ptrdiff_t k = 0; k < s->n; k++) s->k[k] = s->rate[k], s->y[k] = s->x[k];
        ks_stages_inputs(s, 0.0, s->v);
        ks_stages_derive(s, which, s->v, 0.0);
    }
    for (int l = 0; l < KS_LANES; l++) {
        const int same = fabs(s->h[l] - s->used[l]) <= 1e-9 * s->h[l];
        if (which[l]) d->stale[l] = 0, d->here[l] = 1;
        if (!d->open[l] || (same && !which[l])) continue;
        s->used[l] = s->h[l];
        needed = 1;
    }
    if (needed) ks_stages_factor(s);
}

/* Stages and sizes of errors of one step of all lanes */
KS_PART void ks_ra_solve(ks_radau *d) {
    ks_ra_weigh(d);
    ks_ra_factor(d);
    ks_stages_guess(&d->s, d->last, d->before);
    ks_ra_newton(d);
    ks_ra_error(d);
}

/* Whether the derivatives of lane l are made anew after a step that was taken or was not */
KS_PART void ks_ra_told(ks_radau *d, int l, int taken) {
    d->stale[l] = taken ? d->slow[l] > KS_RADAU_FAST : !d->here[l];
    d->refused[l] = !taken;
    if (taken) d->here[l] = 0;
}

/* One step of all lanes, taken or not. Returns whether some lane goes on. */
KS_PART int ks_ra_step(ks_radau *d) {
    ks_stages *s = &d->s;
    double after[KS_LANES];
    int some = 0, jumps = 0, which[KS_LANES] = {0};
    for (int l = 0; l < KS_LANES; l++) s->h[l] = ks_ra_length(d, l, after + l);
    ks_ra_solve(d);
    if (s->r->index < 2) ks_ra_between(d, after);
    for (int l = 0; l < s->count; l++) {
        if (!d->open[l]) continue;
        if (d->shrink[l] > 0.0) d->wanted[l] = s->h[l] * d->shrink[l];
        const int taken = d->shrink[l] == 0.0 && ks_ra_control(d, l);
        ks_ra_told(d, l, taken);
        if (taken) {
            const ptrdiff_t node = s->at[l];
            ks_ra_accept(d, l, after[l]);
            if (s->at[l] >= d->end) d->open[l] = 0;
            if (s->some_algebraic && d->open[l] && s->at[l] > node)
                jumps |= which[l] = ks_jumps(s->r, s->m, s->first + l, s->at[l]);
        } else if (!(s->t[l] + 0.1 * d->wanted[l] > s->t[l])) {
            d->open[l] = 0; /* t does not advance */
        }
        if (d->open[l] && ++d->taken[l] > KS_STEPS_MOST) {
            d->open[l] = 0;
            s->r->trouble[s->first + l] = KS_STIFF;
        }
        some |= d->open[l];
    }
    if (jumps) {
        ks_stages_consistent(s, which, 0.0);
        ks_stages_factor(s);
    }
    return some;
}

/* Numbers of each lane that decide over its next step, after the vectors in r->between */
KS_PART void ks_ra_numbers(ks_radau *d, int resumed) {
    ks_stages *s = &d->s;
    const ks_run *r = s->r;
    double *const numbers[] = {d->before, d->error, d->left, s->used};
    int *const flags[] = {d->stale, d->here, d->refused};
    for (int l = 0; l < KS_LANES; l++) {
        const ptrdiff_t member = s->first + (l < s->count ? l : s->count - 1);
        double *place = ks_stages_numbers(s, member);
        for (int k = 0; k < 7; k++, place += r->members) {
            if (resumed && k < 4)
                numbers[k][l] = *place;
            else if (resumed)
                flags[k - 4][l] = *place != 0.0;
            else if (l < s->count)
                *place = k < 4 ? numbers[k][l] : flags[k - 4][l];
        }
    }
}

/* Puts the lanes where they begin or go on; returns whether some lane does */
KS_PART int ks_ra_begin(ks_radau *d, ptrdiff_t begin) {
    ks_stages *s = &d->s;
    const ks_run *r = s->r;
    int some = 0;
    for (int l = 0; l < KS_LANES; l++) {
        const ptrdiff_t member = s->first + (l < s->count ? l : s->count - 1);
        const ptrdiff_t reached = r->reached[member];
        const int alive = r->taken[member] != KS_FAILED && reached > begin && reached <= d->end;
        d->open[l] = l < s->count && alive;
        s->at[l] = alive ? reached - 1 : begin;
        s->t[l] = r->resumed ? r->clock[member] : r->time[begin];
        d->taken[l] = r->resumed ? r->taken[member] : 0;
        d->wanted[l] = r->step[member];
        d->error[l] = 1e-2, d->left[l] = 1.0, d->stale[l] = 1, s->h[l] = s->used[l] = 1.0;
        some |= d->open[l];
    }
    if (r->resumed) {
        ks_stages_vectors(s, d->last, 1);
        ks_ra_numbers(d, 1);
        ks_stages_factor(s);
        return some;
    }
    ks_load_states(r, s->first, s->count, begin, s->x);
    ks_stages_consistent(s, d->open, 0.0);
    if (begin == 0 && s->some_algebraic && r->record == NULL)
        ks_store_states(r, s->first, s->count, 0, s->x);
    for (int l = 0; l < s->count; l++)
        if (d->wanted[l] <= 0.0) d->wanted[l] = ks_first_step(r, l, s->x, s->rate);
    return some;
}

/* Keeps where the lanes are; those that are closed before the end have failed */
KS_PART void ks_ra_leave(ks_radau *d) {
    ks_stages *s = &d->s;
    const ks_run *r = s->r;
    ks_stages_vectors(s, d->last, 0);
    ks_ra_numbers(d, 0);
    for (int l = 0; l < s->count; l++) {
        const ptrdiff_t member = s->first + l;
        const int failed = !d->open[l] && r->reached[member] <= d->end;
        r->step[member] = d->wanted[l], r->clock[member] = s->t[l];
        r->taken[member] = failed ? KS_FAILED : d->taken[l];
    }
}

KS_PART int ks_ra_block(const ks_run *r, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin,
                       ptrdiff_t end) {
    ks_pool pool = {NULL, 0};
    ks_radau d = {.s = {.r = r, .first = first, .count = count}, .end = end};
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(&pool)) return KS_NO_MEMORY;
        ks_ra_take(&d, &pool);
    }
    ks_ra_tolerances(&d);
    const int some = ks_ra_begin(&d, begin);
    ptrdiff_t left = r->budget;
    int status = some ? KS_MORE : 0;
    for (; status == KS_MORE && left > 0; left--)
        if (!ks_ra_step(&d)) status = 0;
    if (some) ks_ra_leave(&d);
    free(pool.memory);
    return status;
}

KS_PART int ks_radau_steps(const ks_run *r, ptrdiff_t begin, ptrdiff_t end) {
    return ks_for_members(r, ks_ra_block, begin, end);
}

#endif
