/* State of a run, shared by the parts of the loop. Include only from this folder. */
#ifndef HYBRID_WORK_H
#define HYBRID_WORK_H
#include "hybrid.h"
#include "series.h"

#include <math.h>

#define EPSILON 2.220446049250313e-16
#define HYSTERESIS 1.4901161193847656e-08 /* its root */
#define LEVELS 40                         /* how often a step is halved to look closer */
#define PASSES 20                         /* of the handler at one instant */
#define ROUNDING 64.0 /* instants by which a located time may be off */
#define STAGES_OF_TRAPEZOID 4             /* rates, and room for Newton's method */

/* The side of zero on which a guard is; it is unknown while it has stood at zero since the start, or
 * does not move since it has happened */
enum { UNKNOWN = 0, ABOVE = 1, BELOW = -1 };

/* A kernel of (x, u, p, t) with its memory */
typedef struct {
    const ks_kernel *k;
    double *uniform, *scratch, *out;
} bound;

typedef struct {
    hybrid_run *r;
    bound smooth, guards, turning, resets, contact;
    int last; /* k[last] is the rate at the end of a step */
    struct ks_stiff *stiff; /* of implicit methods that choose their steps; NULL for others */
    double *u, *k[KS_STAGES_MOST + 1], *y, *trial, *sample, *now, *before;
    double *looks[LEVELS + 1]; /* what is watched (KS_LOOKS + 1, row) in parts of a step, 2^-level of it */
    ks_series *series; /* of each function, in the part that was looked at last */
    int level;    /* of that part, in which a step ended; -1: none was looked at */
    double share; /* of that part, where it ended */
    double whole; /* its length [s] */
    int looked, parts; /* whether looks[0] ends with what is watched now; parts looked at */
    double cut;        /* share of a step that was looked at, if it is not all of it; else 0 */
    double *passed;    /* per function: crossings up to this share of a step are none */
    double *floor;     /* what rounding of the state does to guards, those of contacts not known */
    int floored;       /* whether it is known here */
    int *due;  /* per event, if it is to happen at this instant: the side from which its guard comes */
    int *came; /* the same of those that have happened */
    int *done; /* per event: 1 while nothing has happened since it did, at this instant */
    int *near, *way, *by_rate; /* whether its guard is at zero, where it goes, and by its rate alone */
    int *moves;                /* whether a guard at zero leaves it soon */
    double *drift;         /* (2, events) of that */
    double *off;           /* of guards that were located: how far from zero */
    ptrdiff_t happened; /* events at this instant */
    double *matrix; /* n x n of Newton's method, for the trapezoid */
    int begins; /* with the modes of contacts as they are given */
    int silent; /* located events in a row that changed nothing */
    ptrdiff_t stalled; /* in a row that took no time */
    int endless;       /* a guard is at zero again sooner than instants can be told apart */
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

/* Times closer than this to t are one [s] */
static inline double ks_blink_at(const hybrid_run *r, double t) {
    const double end = r->nodes > 0 ? fabs(r->time[r->nodes - 1]) : 1.0;
    return 8.0 * EPSILON * fmax(fabs(t), 1e-3 * end);
}

/* The same now */
static inline double ks_blink(const hybrid_run *r) { return ks_blink_at(r, r->t); }

/* The time from which nodes follow a step that ends at t: a node where something happens, to rounding, shows
 * what follows it. Breaks of inputs, at their known times, are exact. */
static inline double ks_nodes_from(const hybrid_run *r, double t, int clock) {
    return clock ? t : t - ROUNDING * ks_blink_at(r, t);
}

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
/* Repeat a step with another length, its equations solved to rounding */
void ks_stiff_again(work *w, double h);
/* The state at a share of the step, of order 3 */
void ks_stiff_dense(const work *w, double share, double *out);
/* The next step knows nothing of those before */
void ks_stiff_restart(work *w);

/* -- steps.c -- */

/* One step of length h from (t, x), whose rate is k[0]; the end in y, its rate in k[last] */
void ks_one_step(work *w, double h);
/* The error of a step as a share of what is allowed; 0 for methods that do not know it */
double ks_step_error(const work *w, double h);
/* The state at the share s of the step, of order 4; of order 3 for the other methods */
void ks_dense(const work *w, double h, double s, double *out);
double ks_hybrid_first_step(const work *w);

/* -- watch.c -- */

/* Number of watched functions: events, then four of each contact */
ptrdiff_t ks_watches(const hybrid_run *r);
/* Numbers in a row of what is watched: functions, then of events whether they are armed (> 0) */
ptrdiff_t ks_row(const hybrid_run *r);
/* Guards, those of levels moved by what is negligible, then of each contact: height, pressure, what is
 * left of its friction, sliding, which trigger below zero, INFINITY where nothing is watched. A row. */
void ks_watch(work *w, const double *x, double t, double *out);
/* Points that have risen are open */
void ks_arm(work *w, const double *x, double t);
/* Rate of a watched function at the end of the step that was looked at [1/s], 0 if none was */
double ks_slope_at_end(const work *w, ptrdiff_t k);
/* Largest reach of a watched function in the part of a step that was searched last */
double ks_reach(const work *w, ptrdiff_t k);
/* Rounding errors of guards at (x, t), of values `here`, into w->floor */
void ks_find_floor(work *w, const double *x, double t, const double *here);

/* -- locate.c -- */

/* A crossing that makes something happen: of function `which`, from which side of which value, at which
 * share of the step, between which others, how fast it changes [1/s], how far it is off by rounding,
 * whether it was at zero all the time before */
typedef struct {
    ptrdiff_t which;
    int side;
    double value, share, within[2], slope, noise;
    int at_zero;
} crossing;

/* The length after which true steps come to it; NAN if they never come to its other side. What is
 * watched there in w->sample. */
double ks_locate(work *w, const crossing *one);
/* The length of a true step after which the guard of event k, at zero now, is there again from its side,
 * before it is beyond after `high`; 0 if it is never seen on its side. Then whether its rate takes it
 * there all the same: it returns sooner than instants can be told apart. */
double ks_return(work *w, ptrdiff_t k, int side, double high, int *endless);

/* -- search.c -- */

/* The first thing that happens within the step, -1 if nothing does; *h becomes its length, the state
 * there is in y. Sides of guards, and points that have risen, become those there. */
ptrdiff_t ks_first_event(work *w, double *h);

/* -- log.c -- */

/* An entry, with the states before and now */
void ks_note(work *w, int kind, int index);

/* -- events.c -- */

/* Events whose guards cross zero at the end of this step, together with what was located, are due */
void ks_cross_together(work *w);
/* The next of those, in order of declaration; -1 if none is left */
ptrdiff_t ks_next_due(work *w);
/* The first, in order of declaration, that what has happened carries across zero, finds beyond it, or
 * lets move there from zero; -1 if there is none */
ptrdiff_t ks_next_event(work *w);
/* Execute an event: modes and states are reset */
void ks_happen(work *w, ptrdiff_t k);

/* -- handle.c -- */

/* Events at one instant beyond which they go on for ever */
static inline ptrdiff_t ks_most_at_once(const hybrid_run *r) { return PASSES + 2 * r->events; }

/* Everything that follows at this instant, `which` being what was located (-1: a clock). Returns 0,
 * or what ks_hybrid_march returns. */
int ks_handle(work *w, ptrdiff_t which);

/* Takes the drift of active points back */
void ks_project(work *w);

#endif
