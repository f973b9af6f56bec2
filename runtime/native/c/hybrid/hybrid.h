/* Simulation of hybrid dynamics: smooth between events, which are located, handled and logged.
 *
 * Letters: n states x, inputs u = given (m), modes (d), contact forces (R). Kernels are compiled for
 * one lane. Everything here works on one trajectory and allocates nothing but at the start.
 */
#ifndef HYBRID_H
#define HYBRID_H
#include "contact.h"
#include "include/kinesym.h"

/* States of a contact point: LEAVING is above the ground by less than the hysteresis and moves up */
enum { KS_POINT_OPEN = 0, KS_POINT_ACTIVE = 1, KS_POINT_LEAVING = 2 };

/* Kinds of entries of the log */
enum {
    KS_LOG_CLOCK = 0,
    KS_LOG_IMPACT = 1,
    KS_LOG_CLOSE = 2,
    KS_LOG_RELEASE = 3,
    KS_LOG_SLIDE = 4,
    KS_LOG_EVENT = 5
};

/* End of a step of the tape: nothing, a break of the inputs, or the watched function of that
 * number (events, then of each contact: height, pressure, friction, sliding) */
enum { KS_TAPE_PLAIN = -2, KS_TAPE_CLOCK = -1 };

/* Values that ks_hybrid_march returns */
enum {
    HYBRID_DONE = 0,      /* the end is reached */
    HYBRID_STOPPED = 1,   /* an event that stops has happened */
    HYBRID_LOG_FULL = 2,  /* call again with a larger log, or a larger tape */
    HYBRID_STEP = 3,      /* the step has become too small */
    HYBRID_STUCK = 4,     /* no state of the contacts is consistent */
    HYBRID_CHATTER = 5,   /* more events than allowed */
    HYBRID_NO_MEMORY = 6,
    HYBRID_PAUSED = 7,    /* after so many steps; call again */
    HYBRID_NO_NUMBER = 8, /* an expression is no finite number */
    HYBRID_NEWTON = 9,    /* the implicit step has no solution */
    HYBRID_INTERRUPTED = 10,
    HYBRID_SLIDES = 11 /* events follow each other and no time passes */
};

typedef struct {
    const ks_kernel *smooth, *guards, *turning, *resets, *contact; /* NULL: there are none */
    ptrdiff_t n, m, d;
    contact_set points;
    const double *restitution;
    int by_height; /* release: 0 when the force ends, 1 when the height has grown */

    ptrdiff_t events;
    const int *direction, *level, *stop;
    const double *scale;
    const ptrdiff_t *first_target, *target; /* n + k for mode k */

    /* given inputs on segments: coefficients (4, m, segments) of 1, s, s^2, s^3 with s = t - begin;
     * begin has one more entry */
    ptrdiff_t segments;
    const double *begin, *coefficients;
    const double *parameters;

    double t, *x, *mode; /* now */
    int *state, *friction, *armed;
    ptrdiff_t segment;

    ptrdiff_t nodes, node; /* of the grid; the next one to be filled */
    const double *time;
    double *states, *inputs; /* (n, nodes), (m + d + R, nodes) */

    ks_tableau method; /* without stages: the trapezoidal rule; implicit ones choose their steps */
    double fixed; /* length of a step, of methods without an estimate of its error */
    double rtol, atol, step, v_stop;
    ptrdiff_t per_second; /* events allowed */

    ptrdiff_t log_size, logged;
    double *log_time, *log_before, *log_after; /* (log_size, n) the last two */
    int *log_kind, *log_index;
    ptrdiff_t *log_step;      /* steps taken before */
    int *log_contact;         /* (log_size, count) modes in an impact */
    double *log_restitution;  /* of an impact */

    /* every step, to go over them again; of size 0 if that is not wanted */
    ptrdiff_t tape_size, taped;
    double *tape_time, *tape_length, *tape_state, *tape_mode; /* (tape_size, n), (tape_size, d) */
    int *tape_contact, *tape_segment, *tape_cause;            /* (tape_size, count) the first */

    /* how far beyond zero a guard may have been between two looks, at most; when and which */
    double unseen, unseen_time;
    int unseen_event;
    /* a guard at zero from the start, which another event took beyond it, as no crossing; -1: none */
    int passed_event;
    double passed_time;

    ptrdiff_t steps, rejected, calls, pause;
    int (*interrupted)(void *); /* asked every now and then whether to stop; NULL: never */
    void *whom;
} hybrid_run;

/* Room in the log without which nothing is begun: more than can happen at one instant */
ptrdiff_t ks_hybrid_log_margin(const hybrid_run *r);

/* Marches to `end`; see the enumeration above. */
int ks_hybrid_march(hybrid_run *r, double end);

#endif
