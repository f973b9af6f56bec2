/* The gamma function, its logarithm and its logarithmic derivatives, Bessel functions: of numbers. */
#ifndef KINESYM_SPECIAL_H
#define KINESYM_SPECIAL_H
#include <math.h>

#define KS_SPECIAL static __attribute__((unused))

/* Infinite at its poles, so that its reciprocal is 0 there */
KS_SPECIAL double ks_gamma_of(double x) {
    return x <= 0.0 && x == floor(x) ? (double)INFINITY : tgamma(x);
}

/* Of what is not negative */
KS_SPECIAL double ks_log_gamma_of(double x) { return x < 0.0 ? (double)NAN : lgamma(x); }

KS_SPECIAL double ks_bessel_j_of(double n, double x) { return jn((int)n, x); }
KS_SPECIAL double ks_bessel_y_of(double n, double x) { return yn((int)n, x); }

#define KS_HIGHEST 24 /* order of polygamma functions, more than `codegen/lower.py` lets through */

/* The digamma function within 0.1 of its positive root, by Taylor's series */
KS_SPECIAL double ks_digamma_near_root(double x) {
    const double series[] = {9.676722454476212e-01,  -4.427631689835921e-01, 2.58499760955651e-01,
                             -1.6394270544240652e-01, 1.0782405069126237e-01, -7.219956125645471e-02,
                             4.880428816414311e-02,  -3.316112647484736e-02, 2.2597648232218104e-02,
                             -1.542476590494896e-02, 1.0538791616612175e-02, -7.204534386356869e-03,
                             4.926781395729853e-03,  -3.369801655439328e-03, 2.305126326734928e-03};
    const double d = (x - 1.4616321449683622) - 9.549995429965697e-17;
    double sum = 0.0;
    for (int k = 14; k >= 0; k--) sum = series[k] + d * sum;
    return d * sum;
}

static const double ks_bernoulli[] = {1.0 / 6.0,     -1.0 / 30.0,     1.0 / 42.0, -1.0 / 30.0,
                                      5.0 / 66.0,    -691.0 / 2730.0, 7.0 / 6.0,  -3617.0 / 510.0,
                                      43867.0 / 798.0, -174611.0 / 330.0};
#define KS_BERNOULLI ((int)(sizeof ks_bernoulli / sizeof *ks_bernoulli))

/* The digamma function of positive x: the recurrence leads to where the asymptotic series is exact to
 * rounding (Abramowitz, Stegun, Handbook of Mathematical Functions, 6.3.5, 6.3.18). */
KS_SPECIAL double ks_digamma_positive(double x) {
    double z = x, sum = 0.0, power = 1.0;
    if (fabs(x - 1.4616321449683622) < 0.1) return ks_digamma_near_root(x);
    for (; z < 16.0; z += 1.0) sum += 1.0 / z;
    double tail = 0.5 / z;
    for (int k = 0; k < KS_BERNOULLI; k++)
        tail += ks_bernoulli[k] / (2.0 * k + 2.0) * (power *= 1.0 / (z * z));
    return log(z) - tail - sum;
}

/* The polygamma function of order n > 0 of positive x, likewise (6.4.6, 6.4.11) */
KS_SPECIAL double ks_polygamma_positive(int n, double x) {
    double z = x, sum = 0.0, factor = 1.0;
    for (int k = 1; k <= n; k++) factor *= k;
    for (; z < 16.0 + n; z += 1.0) sum += pow(z, -(n + 1.0));
    /* (2k + n - 1)!/((2k)! n!)/z^2k */
    double term = 1.0 / n, tail = term + 0.5 / z;
    for (int k = 1; k <= KS_BERNOULLI; k++) {
        term *= (2.0 * k + n - 2.0) * (2.0 * k + n - 1.0) / ((2.0 * k - 1.0) * (2.0 * k) * z * z);
        tail += ks_bernoulli[k - 1] * term;
    }
    sum += tail * pow(z, -(double)n);
    return n % 2 ? factor * sum : -factor * sum;
}

/* The derivative of order n of pi cot(pi x), a polynomial in it: c' = -pi^2 - c^2 */
KS_SPECIAL double ks_cotangent(int n, double x) {
    const double pi = 3.14159265358979323846, r = x - nearbyint(x);
    const double c = pi * cos(pi * r) / sin(pi * r);
    double now[KS_HIGHEST + 2] = {0.0, 1.0}, next[KS_HIGHEST + 2];
    for (int m = 1; m <= n; m++) {
        for (int k = 0; k <= m + 1; k++) {
            const double above = k <= m - 1 ? (k + 1.0) * now[k + 1] : 0.0;
            next[k] = -pi * pi * above - (k > 0 && k - 1 <= m ? (k - 1.0) * now[k - 1] : 0.0);
        }
        for (int k = 0; k <= m + 1; k++) now[k] = next[k];
    }
    double sum = 0.0;
    for (int k = n + 1; k >= 0; k--) sum = now[k] + c * sum;
    return sum;
}

/* The polygamma function of order n, of every x but its poles; below 0 by reflection (6.4.7) */
KS_SPECIAL double ks_polygamma_of(double order, double x) {
    const int n = (int)order, positive = x > 0.0;
    if (!positive && (!(x > -(double)INFINITY) || x == floor(x) || n > KS_HIGHEST))
        return (double)NAN;
    const double y = positive ? x : 1.0 - x;
    const double found = n ? ks_polygamma_positive(n, y) : ks_digamma_positive(y);
    return positive ? found : (n % 2 ? -found : found) - ks_cotangent(n, x);
}

#endif
