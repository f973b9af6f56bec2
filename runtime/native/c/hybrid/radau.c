/* Steps of RADAU5 between events: those of include/kinesym_radau.h for 0 = x' - f(x, t). */
#define KS_LANES 1
#include "include/kinesym_radau.h"
#include "work.h"

#include <stdlib.h>

#define MOST_CORRECTIONS 12

/* The motion as the equations of a run. whole : the stages of the step that was accepted, of this
 * length. base, moved : rates. */
struct ks_stiff {
    ks_run run;
    ks_kernel residual, slopes;
    int count[5];
    ptrdiff_t *rows, *columns;
    ks_radau d;
    double *whole, *base, *moved, *at;
    double length;
    ks_pool pool;
};

static const unsigned char varying[5] = {1, 1, 1, 1, 1};

#define BLOCK const ks_kernel *k, ptrdiff_t blocks, const ks_arg *arg, const double *u, \
              double *out, ptrdiff_t ld, ptrdiff_t step, void *scratch
#define UNUSED (void)k, (void)blocks, (void)u, (void)ld, (void)step

/* x' - f of x', x, u, p, t */
static void motion(BLOCK) {
    UNUSED;
    work *w = scratch;
    ks_rate(w, arg[1].data, *arg[4].data, out);
    for (ptrdiff_t i = 0; i < w->r->n; i++) out[i] = arg[0].data[i] - out[i];
}

/* Ones, then -f' column by column, by differences: how good it is decides about the number of rounds
 * and how short steps are, not about their result */
static void slopes_of_motion(BLOCK) {
    UNUSED;
    work *w = scratch;
    const struct ks_stiff *b = w->stiff;
    const ptrdiff_t n = w->r->n;
    ks_rate(w, arg[1].data, *arg[4].data, b->base);
    memcpy(b->at, arg[1].data, (size_t)n * sizeof *b->at);
    for (ptrdiff_t i = 0; i < n; i++) out[i] = 1.0;
    for (ptrdiff_t j = 0; j < n; j++) {
        const double kept = b->at[j];
        b->at[j] = kept + sqrt(EPSILON * fmax(1e-5, fabs(kept)));
        const double inverse = 1.0 / (b->at[j] - kept);
        ks_rate(w, b->at, *arg[4].data, b->moved);
        b->at[j] = kept;
        for (ptrdiff_t i = 0; i < n; i++)
            out[n + j * n + i] = (b->base[i] - b->moved[i]) * inverse;
    }
}

/* Where the entries are */
static void places(struct ks_stiff *b, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) b->rows[i] = b->columns[i] = i;
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t i = 0; i < n; i++)
            b->rows[n + j * n + i] = i, b->columns[n + j * n + i] = n + j;
}

static ks_kernel made(const struct ks_stiff *b, ptrdiff_t outputs,
                      void (*block)(const ks_kernel *, ptrdiff_t, const ks_arg *, const double *,
                                    double *, ptrdiff_t, ptrdiff_t, void *)) {
    return (ks_kernel){
        .n_args = 5, .count = b->count, .varying = varying, .n_out = (int)outputs, .block = block};
}

int ks_stiff_open(work *w) {
    const hybrid_run *r = w->r;
    const ptrdiff_t n = r->n, entries = n + n * n;
    struct ks_stiff *b = w->stiff = calloc(1, sizeof *b);
    if (b == NULL) return 1;
    b->count[0] = b->count[1] = (int)n, b->count[4] = 1;
    b->residual = made(b, n, motion), b->slopes = made(b, entries, slopes_of_motion);
    b->run = (ks_run){.residual = &b->residual, .slopes = &b->slopes, .n_entries = entries, .n = n,
                      .parameters = r->parameters, .members = 1, .rtol = r->rtol, .atol = r->atol,
                      .method = r->method};
    for (int pass = 0; pass < 2; pass++) { /* count, allocate, hand out */
        if (pass == 1 && ks_allocate(&b->pool)) return 1;
        b->rows = (ptrdiff_t *)ks_take(&b->pool, entries);
        b->columns = (ptrdiff_t *)ks_take(&b->pool, entries);
        if (pass == 1) places(b, n);
        b->run.rows = b->rows, b->run.columns = b->columns;
        b->whole = ks_take(&b->pool, r->method.stages * n), b->at = ks_take(&b->pool, n);
        b->base = ks_take(&b->pool, n), b->moved = ks_take(&b->pool, n);
        b->d = (ks_radau){.s = {.r = &b->run, .count = 1}};
        ks_ra_take(&b->d, &b->pool);
    }
    b->d.s.residual.scratch = b->d.s.slopes.scratch = (V *)w;
    ks_ra_tolerances(&b->d);
    b->d.open[0] = 1;
    ks_stiff_restart(w);
    return 0;
}

void ks_stiff_close(work *w) {
    if (w->stiff != NULL) free(w->stiff->pool.memory);
    free(w->stiff);
}

void ks_stiff_restart(work *w) {
    ks_radau *d = &w->stiff->d;
    d->before[0] = 0.0, d->error[0] = 1e-2, d->left[0] = 1.0;
    d->stale[0] = 1, d->here[0] = d->refused[0] = 0;
}

/* The end of a step of length h, and the rate there, from its stages */
static void finish(work *w, double h) {
    const ks_stages *s = &w->stiff->d.s;
    const int last = w->r->method.stages - 1;
    for (ptrdiff_t i = 0; i < s->n; i++) {
        w->y[i] = s->x[i] + s->z[last * s->n + i];
        w->k[w->last][i] = ks_stages_rate(s, last, i) / h;
    }
}

double ks_stiff_step(work *w, double rest) {
    hybrid_run *r = w->r;
    struct ks_stiff *b = w->stiff;
    ks_radau *d = &b->d;
    ks_stages *s = &d->s;
    const size_t bytes = (size_t)(r->method.stages * s->n) * sizeof *s->z;
    if (d->before[0] > 0.0) memcpy(d->last, s->z, bytes);
    memcpy(s->x, r->x, (size_t)s->n * sizeof *s->x);
    memcpy(s->rate, w->k[0], (size_t)s->n * sizeof *s->rate);
    s->t[0] = r->t;
    for (;;) {
        d->wanted[0] = r->step;
        const double h = s->h[0] = ks_ra_part(r->step, rest);
        w->failed = 0;
        ks_ra_solve(d);
        if (d->shrink[0] > 0.0) d->wanted[0] = h * d->shrink[0];
        const int taken = d->shrink[0] == 0.0 && ks_ra_control(d, 0);
        ks_ra_told(d, 0, taken);
        r->step = d->wanted[0];
        if (taken) {
            memcpy(b->whole, s->z, bytes);
            b->length = h;
            finish(w, h);
            return h;
        }
        r->rejected++;
        if (!(r->t + 0.1 * r->step > r->t)) return w->failed & 1 ? -HYBRID_STUCK : -HYBRID_STEP;
    }
}

/* The stages of a step of length h by the polynomial of the whole one, its own if h is its length */
static void within_whole(struct ks_stiff *b, double h) {
    const ks_tableau *method = &b->run.method;
    ks_stages *s = &b->d.s;
    double weight[KS_UNKNOWN_MOST];
    for (int i = 0; i < method->stages; i++) {
        ks_stages_weights(method, method->c[i] * (h / b->length), 0, weight);
        for (ptrdiff_t k = 0; k < s->n; k++) {
            s->z[i * s->n + k] = 0.0;
            for (int j = 0; j < method->stages; j++)
                s->z[i * s->n + k] += weight[j] * b->whole[j * s->n + k];
        }
    }
}

/* The size of the correction in g, 1 for what is tolerable */
static double size_of_correction(const ks_radau *d) {
    const ptrdiff_t n = d->s.n, count = d->s.r->method.stages * n;
    double sum = 0.0;
    for (ptrdiff_t k = 0; k < count; k++)
        sum += d->s.g[k] * d->weight[k % n] * d->s.g[k] * d->weight[k % n];
    return sqrt(sum / (double)count);
}

void ks_stiff_again(work *w, double h) {
    struct ks_stiff *b = w->stiff;
    ks_stages *s = &b->d.s;
    const ptrdiff_t count = w->r->method.stages * s->n;
    double before = INFINITY;
    within_whole(b, h);
    s->h[0] = h;
    if (h != b->length) {
        s->used[0] = h;
        ks_stages_factor(s);
    }
    for (int round = 0; h != b->length && round < MOST_CORRECTIONS; round++) {
        ks_stages_residual(s);
        ks_stages_correct(s);
        const double size = size_of_correction(&b->d);
        if (!(size < 0.5 * before)) { /* rounding, or no way to the solution: the polynomial is good */
            if (!(size < b->d.enough)) within_whole(b, h);
            break;
        }
        for (ptrdiff_t k = 0; k < count; k++) s->z[k] += s->g[k];
        before = size;
    }
    finish(w, h);
}

void ks_stiff_dense(const work *w, double share, double *out) {
    const ks_tableau *method = &w->r->method;
    const ks_stages *s = &w->stiff->d.s;
    double weight[KS_UNKNOWN_MOST];
    ks_stages_weights(method, share, 0, weight);
    for (ptrdiff_t k = 0; k < s->n; k++) {
        out[k] = s->x[k];
        for (int j = 0; j < method->stages; j++) out[k] += weight[j] * s->z[j * s->n + k];
    }
}
