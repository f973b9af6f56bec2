/* Derivatives of a run along its tape with respect to states, parameters and inputs: forward
 * (tangents), or backward (the adjoint). They are those of each step, with the motion of the events.
 *
 * Changes are taken at equal times. Inside a step an input changes by those of the value and slope of
 * its piece; where it breaks, by that of the time of the break. At an event that is located the
 * change of its time follows from that of its guard (the rule behind the saltation matrix).
 */
#ifndef HYBRID_SWEEP_H
#define HYBRID_SWEEP_H
#include "hybrid.h"

/* Derivatives with respect to (x, u, p, t): those that are not zero, by rows */
typedef struct {
    const ks_kernel *kernel; /* NULL: there are none */
    ptrdiff_t entries;
    const int *row, *column;
} hybrid_slopes;

enum { KS_POWERS = 2 };            /* numbers of a piece of an input: value and slope */
enum { KS_PIECE = KS_POWERS + 1 }; /* and when the next one begins */

/* Letters: those of hybrid.h, r parameters, P changes at once. Arrays of pieces are
 * (segments, KS_PIECE, m, P), those of the log (logged, ...). */
typedef struct {
    const hybrid_run *run; /* marched, with a tape */
    /* Of M x', where M^-1 is `solution` steps, each x'[target] -= value x'[source], or, if they are
     * the same, x'[target] *= value; below them of the accelerations of contacts, with x' in columns
     * of its own after (x, u, p, t). The kernel gives x', these entries, the values of the steps. */
    hybrid_slopes smooth;
    ptrdiff_t solution;
    const int *target, *source;
    hybrid_slopes guards, resets, touch;
    ptrdiff_t r;
    const double *own; /* (m, segments): when the piece of each input began */
    double trouble;    /* when what is said below happened [s] */
    int event;         /* which one it was */
} hybrid_sweep;

/* Values that the functions return */
enum {
    KS_SWEEP_DONE = 0,
    KS_SWEEP_NO_MEMORY = 1,
    KS_SWEEP_INTERRUPTED = 2,
    KS_SWEEP_GRAZES = 3, /* a guard touches zero without crossing it */
    KS_SWEEP_RESET = 4   /* a reset depends on inputs that break there */
};

/* x : (n, P) at the start, becomes that at the end. p : (r, P). Written: states (n, P, nodes reached),
 * times of the entries of the log (P), states before and after them (n, P). */
int ks_hybrid_forward(hybrid_sweep *s, ptrdiff_t P, double *x, const double *p, const double *pieces,
                      double *states, double *times, double *before, double *after);

/* The derivatives of a sum: x (n) by states at the end, becomes that by states at the start; weights
 * (nodes reached, n), times, before (n), after (n) as above. Added to: p (r), pieces. */
int ks_hybrid_adjoint(hybrid_sweep *s, double *x, const double *weights, const double *times,
                      const double *before, const double *after, double *p, double *pieces);

/* At nodes, states (n, nodes): derivatives, in columns [x | p | pieces] of the segment there, of x'
 * with the forces that follow, out (nodes, n, L), or, if there are `rows` of them, of what
 * `observed` differentiates, (nodes, rows, L). */
int ks_hybrid_observe(hybrid_sweep *s, const hybrid_slopes *observed, ptrdiff_t rows, ptrdiff_t nodes,
                      const double *time, const double *states, double *out);

#endif
