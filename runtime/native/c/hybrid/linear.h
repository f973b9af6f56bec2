/* Linearised run, shared by the parts of a sweep. Include only from this folder. */
#ifndef HYBRID_LINEAR_H
#define HYBRID_LINEAR_H
#include "sweep.h"
#include "work.h"

/* A point of the motion, linearised: what the kernel of `smooth` gives, how the forces of contacts
 * follow from their accelerations without forces, (R, R), and x' from forces, (n, R) */
typedef struct {
    double t, *numbers, *forces, *effects;
    int active;
} point;

/* P changes: of parameters (r, P), and of the pieces of all inputs in one segment (KS_PIECE, m, P) */
typedef struct {
    ptrdiff_t P;
    const double *p, *pieces;
} changes;

typedef struct {
    hybrid_sweep *s;
    hybrid_run r; /* the run, moved to where the sweep is */
    work w;
    int state[HYBRID_CONTACTS], friction[HYBRID_CONTACTS];
    ptrdiff_t all, columns; /* inputs; x, u, p, t and x' */
    bound smooth, guards, resets, touch;
    point stage[KS_STAGES_MOST], here;
    double *x, *end, *rate; /* of a stage, the end of the step, x' after an instant */
    /* forwards, with P columns each: states of a stage, x' of stages, inputs, forces, rows of contacts,
       time, one row */
    double *X, *K[KS_STAGES_MOST], *U, *F, *A, *T, *row;
    const double **from; /* change of each column of derivatives, NULL: none */
    /* backwards */
    double *eta[KS_STAGES_MOST], *kappa, *bar; /* bar : (columns) */
    pool memory;
} sweep;

/* Room for P changes at once; 1 if there is no memory */
int ks_sweep_open(sweep *b, hybrid_sweep *s, ptrdiff_t P);
void ks_sweep_close(sweep *b);

/* To the begin of a step of the tape: its modes, contacts, inputs */
void ks_move_to(sweep *b, ptrdiff_t k);
/* The derivatives at (x, t) */
void ks_linearise(sweep *b, point *q, const double *x, double t);
/* Those of the stages of a step of the tape of length h; its end in b->end */
void ks_linearise_step(sweep *b, ptrdiff_t k, double h);

/* Changes of given inputs (m, P) at t, which changes by T (P) or does not (NULL) */
void ks_input_changes(const sweep *b, const changes *c, double t, const double *T, double *U);
/* Changes of all columns; there are none of forces */
void ks_set_from(sweep *b, const changes *c, const double *X, const double *U, const double *T);
/* out (rows, P) += entries of rows first <= i < last, times what b->from says */
void ks_push(const sweep *b, const hybrid_slopes *s, const double *entries, ptrdiff_t first,
             ptrdiff_t last, ptrdiff_t P, double *out);
/* K (n, P): changes of x' with the forces that follow, of which b->F (R, P) and b->from know
 * afterwards */
void ks_push_rates(sweep *b, const point *q, ptrdiff_t P, double *K);

/* X (n, P) becomes that at the end of the linearised step */
void ks_step_forward(sweep *b, const changes *c, double h, double *X);
/* x (n) += what `row` (n) at its end is worth at its begin; added to b->bar and pieces (KS_PIECE, m) */
void ks_step_back(sweep *b, double h, const double *row, double *x, double *pieces);

/* What follows step k of the tape (-1: the start), which has been linearised: X (n, P) becomes that
 * after all of it. Of its entries of the log, if wanted: changes of times (P), of states before and
 * after, (n, P) each. */
int ks_instant(sweep *b, ptrdiff_t k, const changes *c, double *X, double *times, double *before,
               double *after);
/* Entries of the log that follow step k */
ptrdiff_t ks_entries_of(const sweep *b, ptrdiff_t k, ptrdiff_t *first);

#endif
