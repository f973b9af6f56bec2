/* Many small systems of linear equations with one pattern: A x = b and A' y = c. */
#ifndef KS_SYSTEMS_H
#define KS_SYSTEMS_H
#include <stddef.h>

enum ks_systems_status { KS_SYSTEMS_OK = 0, KS_SYSTEMS_SINGULAR = 1, KS_SYSTEMS_NO_MEMORY = 2, KS_SYSTEMS_UNLIKE = 3 };

/* Numbers of all systems lie next to each other: value k of system m is values[k * count + m]. */
typedef struct {
    int n;             /* equations of one system */
    ptrdiff_t count;   /* of systems */
    ptrdiff_t n_entries;
    const int *row, *column; /* from 0; duplicates are summed */
    const double *values;    /* (n_entries, count) */
} ks_systems;

/* b (n, count) becomes x, c (n, count) becomes y; either may be NULL. By LU factors with pivots that
 * are at least a tenth of their column, the same rows for neighbouring systems where that is so.
 * What a matrix with NaN or Inf gives is NaN. */
int ks_solve_systems(const ks_systems *a, double *b, double *c);

#endif
