/* A function on an interval, by a Chebyshev series through a few values. */
#ifndef HYBRID_SERIES_H
#define HYBRID_SERIES_H
#include <stddef.h>

enum { KS_LOOKS = 7, KS_DEGREE = KS_LOOKS - 1 };

/* Points at which the function is evaluated, in shares of the interval: both ends, the middle, the
 * quarters; and where it is once more, to see whether the series knows what it is there */
extern const double ks_look[KS_LOOKS + 1];

/* Coefficients. rest : what the two highest ones amount to, or twice by how much another look
 * was found to be off; of the size of what the series leaves out, none of polynomials of degree 4. noise : what rounding may do to its values. */
typedef struct {
    double c[KS_LOOKS], rest, noise;
} ks_series;

/* The series through values that are `stride` numbers apart */
ks_series ks_series_of(const double *values, ptrdiff_t stride);

/* Another look, at a share of the interval */
void ks_series_check(ks_series *s, double share, double value);

/* Whether it keeps away from zero by more than 4 rests, a bound that needs no roots */
int ks_series_clear(const ks_series *s);

/* The function as monotone pieces: shares of the interval where it turns, after its begin and before
 * its end, and values there */
typedef struct {
    ks_series of;
    int count;
    double at[KS_LOOKS + 1], value[KS_LOOKS + 1];
} ks_course;

/* By the series, and the values at both ends */
void ks_course_of(const ks_series *s, double first, double last, ks_course *out);

/* The share at which piece i, whose ends are on two sides of it, crosses a value */
double ks_course_root(const ks_course *c, int i, double value);

/* The derivative by the share */
double ks_series_slope(const ks_series *s, double share);

#endif
