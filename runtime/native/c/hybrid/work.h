/* What the parts of the loop share: one run at work. Include only from this folder. */
#ifndef HYBRID_WORK_H
#define HYBRID_WORK_H
#include "hybrid.h"

#define EPSILON 2.220446049250313e-16
#define HYSTERESIS 1.4901161193847656e-08 /* its root */
#define SAMPLES 5                         /* per step, where events are looked for */
#define PASSES 20                         /* of the handler at one instant */
#define STAGES_OF_TRAPEZOID 4             /* rates, and room for Newton's method */

/* Guards: those that are armed are above or, if any direction counts, below zero */
enum { UNARMED = 0, ABOVE = 1, BELOW = -1, SENT_BACK = 2 };

/* A kernel of (x, u, p, t) with its memory */
typedef struct {
    const ks_kernel *k;
    double *uniform, *scratch, *out;
} bound;

typedef struct {
    hybrid_run *r;
    bound smooth, guards, resets, contact;
    int last; /* k[last] is the rate at the end of a step */
    struct ks_stiff *stiff; /* of implicit methods that choose their steps; NULL for others */
    double *u, *k[KS_STAGES_MOST + 1], *y, *trial, *sample, *now, *before;
    double *watched[SAMPLES + 1];
    double *matrix; /* n x n of Newton's method, for the trapezoid */
    int begins; /* with the modes of contacts as they are given */
    int silent; /* located events in a row that changed nothing */
    int failed; /* 1: contacts without a consistent state, 2: a guard is no number, 4: Newton */
    int ended[HYBRID_CONTACTS]; /* what an event says a contact turns to: a mode, -1 nothing */
} work;

/* Memory that is handed out from the front; without it (NULL) the same requests only count */
typedef struct {
    double *memory;
    size_t used;
} pool;

static inline double *take(pool *p, ptrdiff_t count) {
    double *taken = p->memory == NULL ? NULL : p->memory + p->used;
    p->used += (size_t)(count + 7) / 8 * 8;
    return taken;
}

/* -- hybrid.c -- */

/* Memory for what was counted, all zero; 1 if there is none */
int ks_open_pool(pool *p);
void ks_hybrid_bind(const work *w, bound *b, const ks_kernel *k, pool *p);
void ks_bind_work(work *w, pool *p);

/* -- smooth.c -- */

/* A kernel at (x, t) with the inputs, modes and forces of w->u */
void ks_evaluate(const work *w, const bound *b, const double *x, double t);
/* A given input at t on a segment, and how fast it changes on the present one */
double ks_hybrid_input(const hybrid_run *r, ptrdiff_t i, ptrdiff_t segment, double t);
double ks_input_rate(const hybrid_run *r, ptrdiff_t i, double t);
/* Given inputs at t, into u */
void ks_set_inputs(const work *w, double t);
/* Contact forces at (x, t), into u; what is not active has none */
void ks_set_forces(work *w, const double *x, double t);
/* x' at (x, t) */
void ks_rate(work *w, const double *x, double t, double *out);
/* One step of length h from (t, x), whose rate is k[0]; the end in y, its rate in k[last] */
void ks_one_step(work *w, double h);
/* The error of a step as a share of what is allowed; 0 for methods that do not know it */
double ks_step_error(const work *w, double h);
/* The state at the share s of the step, of order 4; of order 3 for the other methods */
void ks_dense(const work *w, double h, double s, double *out);
double ks_hybrid_first_step(const work *w);
/* Tangential velocities of contacts, 0 without friction */
void ks_sliding(const work *w, double *slide);
int ks_some_active(const hybrid_run *r);

/* Parts of what the contact kernel gives */
static inline const double *heights(const work *w) { return w->contact.out; }
static inline const double *speeds(const work *w) { return heights(w) + w->r->points.count; }
static inline const double *free_motion(const work *w) { return speeds(w) + w->r->points.rows; }
static inline const double *coupling(const work *w) { return free_motion(w) + w->r->points.rows; }
static inline const double *effects(const work *w) {
    return coupling(w) + w->r->points.rows * w->r->points.rows;
}
static inline const double *gradients(const work *w) {
    return effects(w) + w->r->n * w->r->points.rows;
}

/* -- radau.c -- */

/* 1 if there is no memory */
int ks_stiff_open(work *w);
void ks_stiff_close(work *w);
/* Takes one step of at most `rest`, again and again until its error is small enough; the end in y, its
 * rate in k[last]. Its length, or what ks_hybrid_march returns, as a negative number. */
double ks_stiff_step(work *w, double rest);
/* The same step with another length, its equations solved to rounding */
void ks_stiff_again(work *w, double h);
/* The state at a share of the step, of order 3 */
void ks_stiff_dense(const work *w, double share, double *out);
/* The next step knows nothing of those before */
void ks_stiff_restart(work *w);

/* -- watch.c -- */

/* How many functions are watched: events, then four of each contact */
ptrdiff_t ks_watches(const hybrid_run *r);
/* Values that trigger when they fall below zero; INFINITY where nothing is watched. First the
 * events, then of each contact: height, pressure, what is left of its friction, sliding. */
void ks_watch(work *w, const double *x, double t, double *out);
/* Guards that have moved away from zero can trigger again, points that have risen are open */
void ks_arm(work *w, const double *x, double t);
/* Guards near zero that were sent there, or move away from it as after a bounce: they happen when they
 * are clearly beyond, even if they never get as far back as the hysteresis */
void ks_send_back(work *w);
/* The first thing that happens within the step, -1 if nothing does; *h becomes its length, the state
 * there is in y */
ptrdiff_t ks_first_event(work *w, double *h);

/* -- handle.c -- */

void ks_note(work *w, int kind, int index);
/* Everything that follows at this instant, `which` being what was located (-1: a clock). Returns 0,
 * or what ks_hybrid_march returns. */
int ks_handle(work *w, ptrdiff_t which);

/* Takes the drift of active points back */
void ks_project(work *w);

#endif
