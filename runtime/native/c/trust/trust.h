/* Steps to the minimum of quadratic models g's + s'A s/2 within a trust region and bounds: dense, a
 * few unknowns each, each by the eigenvalues of its matrix. */
#ifndef KS_TRUST_H
#define KS_TRUST_H
#include <stddef.h>

enum ks_trust_status { KS_TRUST_OK = 0, KS_TRUST_NO_MEMORY = 1, KS_TRUST_NO_EIGENVALUES = 2 };

/* DSYEVD of LAPACK. */
typedef void ks_eigen(char *job, char *side, int *n, double *a, int *lda, double *values, double *work,
                      int *lwork, int *iwork, int *liwork, int *info);

typedef struct {
    int n;           /* unknowns of a model */
    ptrdiff_t count; /* of models */
    const double *gradient, *matrix; /* (count, n), (count, n, n), symmetric */
    ks_eigen *eigen;
} ks_models;

/* Steps (count, n), and by how much the models fall (count): within `radius` (count) and bounds `low`
 * <= 0 <= `high` (count, n). Unknowns that would pass a bound are set to it, those first that would
 * pass it by most, until none does. */
int ks_trust_steps(const ks_models *, const double *low, const double *high, const double *radius,
                   double *step, double *fall);

/* Steps aside (count, n) that undo slopes `bend` (count, n) of the models at the end of a `step`, in the
 * `open` unknowns (count, n); zero in others. */
int ks_steps_aside(const ks_models *, const unsigned char *open, const double *step, const double *bend,
                   double *aside);

#endif
