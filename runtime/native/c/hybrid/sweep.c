/* Sweeps over the tape of a run: forward (tangents of a few changes) and backward (adjoint). */
#include "sweep.h"

#include "linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEARING 256 /* steps between two questions whether to stop */

static int stopped(const hybrid_run *r, ptrdiff_t k) {
    return k % HEARING == 0 && r->interrupted != NULL && r->interrupted(r->whom);
}

/* Whether a node at this time lies in step k or after it, or after the last one */
static int after(const hybrid_run *r, double time, ptrdiff_t k) {
    if (k == 0) return 1;
    const double begin = k < r->taped ? fmin(r->tape_time[k], r->t) : r->t;
    return time >= ks_nodes_from(r, begin, r->tape_cause[k - 1] == KS_TAPE_CLOCK);
}

/* From the begin of step k to a node within it */
static double length_to(const hybrid_run *r, ptrdiff_t node, ptrdiff_t k) {
    return fmax(r->time[node] - r->tape_time[k], 0.0);
}

static int eventful(const hybrid_run *r, ptrdiff_t k) {
    return k < 0 ? r->logged > 0 && r->log_step[0] == 0 : r->tape_cause[k] != KS_TAPE_PLAIN;
}

/* -- forwards -------------------------------------------------------------------------------------- */

typedef struct {
    double *states, *times, *before, *after;
} written;

static void write_node(const hybrid_run *r, ptrdiff_t node, ptrdiff_t P, const double *X,
                       double *states) {
    for (ptrdiff_t i = 0; i < r->n * P; i++) states[i * r->node + node] = X[i];
}

static int march_forward(sweep *b, ptrdiff_t P, double *X, const double *p, const double *pieces,
                         const written *to, double *moved) {
    const hybrid_run *r = b->s->run;
    const ptrdiff_t size = r->n * P;
    ptrdiff_t node = 0, logged = 0;
    for (ptrdiff_t k = -1; k < r->taped; k++) {
        if (k >= 0 && stopped(r, k)) return KS_SWEEP_INTERRUPTED;
        const changes c = {P, p, pieces + r->tape_segment[k < 0 ? 0 : k] * KS_PIECE * r->m * P};
        for (; k >= 0 && node < r->node && !after(r, r->time[node], k + 1); node++) {
            const double h = length_to(r, node, k);
            memcpy(moved, X, (size_t)size * sizeof(double));
            ks_linearise_step(b, k, h);
            ks_step_forward(b, &c, h, moved);
            write_node(r, node, P, moved, to->states);
        }
        if (k >= 0) {
            ks_linearise_step(b, k, r->tape_length[k]);
            ks_step_forward(b, &c, r->tape_length[k], X);
        }
        if (!eventful(r, k)) continue;
        const int status = ks_instant(b, k, &c, X, to->times + logged * P, to->before + logged * size,
                                      to->after + logged * size);
        if (status) return status;
        ptrdiff_t first;
        logged += ks_entries_of(b, k, &first);
    }
    for (; node < r->node; node++) write_node(r, node, P, X, to->states);
    return KS_SWEEP_DONE;
}

int ks_hybrid_forward(hybrid_sweep *s, ptrdiff_t P, double *x, const double *p, const double *pieces,
                      double *states, double *times, double *before, double *after) {
    const written to = {states, times, before, after};
    sweep b;
    double *moved = malloc((size_t)(s->run->n * P + 1) * sizeof *moved);
    int status = moved == NULL || ks_sweep_open(&b, s, P) ? KS_SWEEP_NO_MEMORY : KS_SWEEP_DONE;
    if (!status) {
        status = march_forward(&b, P, x, p, pieces, &to, moved);
        ks_sweep_close(&b);
    }
    free(moved);
    return status;
}

/* -- backwards ------------------------------------------------------------------------------------- */

/* Columns of an instant: changes of x, of parameters, of pieces, one at a time, and what becomes of them */
typedef struct {
    ptrdiff_t L, most; /* most entries of the log at one instant */
    double *one, *X, *row, *times, *before, *after;
    pool memory;
} unit;

static void hand_out(unit *u, const hybrid_run *r) {
    pool *p = &u->memory;
    u->one = take(p, u->L * u->L), u->X = take(p, r->n * u->L), u->row = take(p, u->L);
    u->times = take(p, u->most * u->L);
    u->before = take(p, u->most * r->n * u->L), u->after = take(p, u->most * r->n * u->L);
}

static int open_unit(unit *u, const hybrid_sweep *s) {
    const hybrid_run *r = s->run;
    *u = (unit){.L = r->n + s->r + KS_PIECE * r->m};
    for (ptrdiff_t e = 0, same = 0; e < r->logged; e++) {
        same = e > 0 && r->log_step[e] == r->log_step[e - 1] ? same + 1 : 1;
        if (same > u->most) u->most = same;
    }
    hand_out(u, r);
    if (ks_open_pool(&u->memory)) return 1;
    hand_out(u, r);
    for (ptrdiff_t i = 0; i < u->L; i++) u->one[i * u->L + i] = 1.0;
    return 0;
}

/* row (L) += x (n) times X (n, L) */
static void multiply(const unit *u, ptrdiff_t n, const double *x, const double *X, double *row) {
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; x[i] != 0.0 && j < u->L; j++) row[j] += x[i] * X[i * u->L + j];
}

typedef struct {
    const double *weights, *times, *before, *after;
    double *p, *pieces;
} worth;

/* x (n) after what follows step k becomes that before it */
static int instant_back(sweep *b, unit *u, ptrdiff_t k, const worth *v, double *x) {
    const hybrid_run *r = b->s->run;
    const ptrdiff_t n = r->n, L = u->L, m = KS_PIECE * r->m;
    const changes c = {L, u->one + n * L, u->one + (n + b->s->r) * L};
    ptrdiff_t first;
    const ptrdiff_t count = ks_entries_of(b, k, &first);
    memcpy(u->X, u->one, (size_t)(n * L) * sizeof(double));
    const int status = ks_instant(b, k, &c, u->X, u->times, u->before, u->after);
    if (status) return status;
    memset(u->row, 0, (size_t)L * sizeof(double));
    multiply(u, n, x, u->X, u->row);
    for (ptrdiff_t e = 0; e < count; e++) {
        for (ptrdiff_t j = 0; j < L; j++) u->row[j] += v->times[first + e] * u->times[e * L + j];
        multiply(u, n, v->before + (first + e) * n, u->before + e * n * L, u->row);
        multiply(u, n, v->after + (first + e) * n, u->after + e * n * L, u->row);
    }
    memcpy(x, u->row, (size_t)n * sizeof(double));
    for (ptrdiff_t j = 0; j < b->s->r; j++) v->p[j] += u->row[n + j];
    double *pieces = v->pieces + r->tape_segment[k < 0 ? 0 : k] * m;
    for (ptrdiff_t j = 0; j < m; j++) pieces[j] += u->row[n + b->s->r + j];
    return KS_SWEEP_DONE;
}

/* Whether anything at this node is wanted */
static int wanted(const hybrid_run *r, const double *weights) {
    for (ptrdiff_t i = 0; i < r->n; i++)
        if (weights[i] != 0.0) return 1;
    return 0;
}

static int march_back(sweep *b, unit *u, const worth *v, double *x, double *sum) {
    const hybrid_run *r = b->s->run;
    const ptrdiff_t n = r->n;
    ptrdiff_t node = r->node - 1;
    for (; node >= 0 && after(r, r->time[node], r->taped); node--)
        for (ptrdiff_t i = 0; i < n; i++) x[i] += v->weights[node * n + i];
    for (ptrdiff_t k = r->taped - 1; k >= 0; k--) {
        if (stopped(r, k)) return KS_SWEEP_INTERRUPTED;
        double *pieces = v->pieces + r->tape_segment[k] * KS_PIECE * r->m;
        ks_linearise_step(b, k, r->tape_length[k]);
        const int status = eventful(r, k) ? instant_back(b, u, k, v, x) : KS_SWEEP_DONE;
        if (status) return status;
        ks_move_to(b, k);
        memset(sum, 0, (size_t)n * sizeof(double));
        ks_step_back(b, r->tape_length[k], x, sum, pieces);
        for (; node >= 0 && after(r, r->time[node], k); node--) {
            const double h = length_to(r, node, k);
            if (!wanted(r, v->weights + node * n)) continue;
            ks_linearise_step(b, k, h);
            ks_step_back(b, h, v->weights + node * n, sum, pieces);
        }
        memcpy(x, sum, (size_t)n * sizeof(double));
    }
    return eventful(r, -1) ? instant_back(b, u, -1, v, x) : KS_SWEEP_DONE;
}

int ks_hybrid_adjoint(hybrid_sweep *s, double *x, const double *weights, const double *times,
                      const double *before, const double *after, double *p, double *pieces) {
    const hybrid_run *r = s->run;
    const worth v = {weights, times, before, after, p, pieces};
    sweep b;
    unit u;
    double *sum = malloc((size_t)r->n * sizeof *sum);
    int status = open_unit(&u, s) || sum == NULL ? KS_SWEEP_NO_MEMORY : KS_SWEEP_DONE;
    if (!status && ks_sweep_open(&b, s, u.L)) status = KS_SWEEP_NO_MEMORY;
    if (!status) {
        status = march_back(&b, &u, &v, x, sum);
        const ptrdiff_t first = r->n + b.all;
        for (ptrdiff_t j = 0; j < s->r; j++) p[j] += b.bar[first + j];
        ks_sweep_close(&b);
    }
    free(sum);
    free(u.memory.memory);
    return status;
}

/* -- at nodes -------------------------------------------------------------------------------------- */

static void observe(sweep *b, const unit *u, const bound *kernel, const hybrid_slopes *observed,
                    ptrdiff_t rows, double t, double *out) {
    const hybrid_run *r = &b->r;
    const ptrdiff_t n = r->n, L = u->L;
    const changes c = {L, u->one + n * L, u->one + (n + b->s->r) * L};
    ks_linearise(b, &b->here, b->x, t);
    ks_input_changes(b, &c, t, NULL, b->U);
    ks_set_from(b, &c, u->one, b->U, NULL);
    ks_push_rates(b, &b->here, L, b->K[0]);
    if (observed == NULL) {
        memcpy(out, b->K[0], (size_t)(n * L) * sizeof(double));
        return;
    }
    memset(out, 0, (size_t)(rows * L) * sizeof(double));
    if (kernel->k != NULL) ks_evaluate(&b->w, kernel, b->x, t);
    ks_push(b, observed, kernel->out, 0, rows, L, out);
}

int ks_hybrid_observe(hybrid_sweep *s, const hybrid_slopes *observed, ptrdiff_t rows, ptrdiff_t nodes,
                      const double *time, const double *states, double *out) {
    const hybrid_run *r = s->run;
    const ptrdiff_t n = r->n, size = observed == NULL ? n : rows;
    sweep b;
    unit u;
    if (open_unit(&u, s)) return KS_SWEEP_NO_MEMORY;
    if (ks_sweep_open(&b, s, u.L)) {
        free(u.memory.memory);
        return KS_SWEEP_NO_MEMORY;
    }
    bound kernel = {NULL, NULL, NULL, NULL};
    pool p = {NULL, 0};
    if (observed != NULL) ks_hybrid_bind(&b.w, &kernel, observed->kernel, &p);
    int status = ks_open_pool(&p) ? KS_SWEEP_NO_MEMORY : KS_SWEEP_DONE;
    if (!status && observed != NULL) ks_hybrid_bind(&b.w, &kernel, observed->kernel, &p);
    for (ptrdiff_t i = 0, k = 0; i < nodes && !status; i++) {
        while (k + 1 < r->taped && after(r, time[i], k + 1)) k++;
        ks_move_to(&b, k);
        for (ptrdiff_t j = 0; j < n; j++) b.x[j] = states[j * nodes + i];
        observe(&b, &u, &kernel, observed, rows, time[i], out + i * size * u.L);
    }
    free(p.memory);
    ks_sweep_close(&b);
    free(u.memory.memory);
    return status;
}
