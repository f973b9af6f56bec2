/* Chebyshev series of low degree: values, slopes, and roots between the roots of derivatives. */
#include "series.h"

#include <math.h>
#include <string.h>

#define ROOT_OF_THREE 1.7320508075688772
#define ROUNDING 3.6e-15 /* 16 times the machine epsilon */
#define HALVINGS 100 /* at most; false position takes few */

/* (1 - cos(i pi / 6)) / 2, and one that is not like them */
const double ks_look[KS_LOOKS + 1] = {
    0.0, 0.5 - 0.25 * ROOT_OF_THREE, 0.25, 0.5, 0.75, 0.5 + 0.25 * ROOT_OF_THREE, 1.0, 0.6237};

/* cos(k pi / 6) */
static const double cosine[2 * KS_DEGREE] = {
    1.0,  0.5 * ROOT_OF_THREE,  0.5,  0.0, -0.5, -0.5 * ROOT_OF_THREE,
    -1.0, -0.5 * ROOT_OF_THREE, -0.5, 0.0, 0.5,  0.5 * ROOT_OF_THREE};

ks_series ks_series_of(const double *values, ptrdiff_t stride) {
    ks_series s = {.noise = 0.0};
    for (int k = 0; k <= KS_DEGREE; k++) {
        double sum = 0.0;
        for (int i = 0; i <= KS_DEGREE; i++) {
            const double half = i == 0 || i == KS_DEGREE ? 0.5 : 1.0;
            sum += half * values[i * stride] * cosine[k * i % (2 * KS_DEGREE)];
        }
        const double weight = k == 0 || k == KS_DEGREE ? 1.0 : 2.0;
        s.c[k] = (k % 2 ? -weight : weight) * sum / KS_DEGREE;
        s.noise += ROUNDING * fabs(s.c[k]);
    }
    s.rest = fabs(s.c[KS_DEGREE]) + fabs(s.c[KS_DEGREE - 1]);
    return s;
}

int ks_series_clear(const ks_series *s) {
    double reach = 4.0 * s->rest;
    for (int k = 1; k <= KS_DEGREE; k++) reach += fabs(s->c[k]);
    return fabs(s->c[0]) > reach;
}

/* Clenshaw's sum at z, -1 ... 1 */
static double value_at(const double *c, int degree, double z) {
    double a = 0.0, b = 0.0;
    for (int k = degree; k > 0; k--) {
        const double next = c[k] + 2.0 * z * a - b;
        b = a, a = next;
    }
    return c[0] + z * a - b;
}

static void derivative(const double *c, int degree, double *out) {
    double above = 0.0, two_above = 0.0;
    for (int k = degree; k > 0; k--) {
        const double now = two_above + 2.0 * k * c[k];
        out[k - 1] = now, two_above = above, above = now;
    }
    out[0] *= 0.5;
}

/* The root between a and b, where the values u and v have two signs: false position, of which the
 * end that stays counts half (Illinois) */
static double root_between(const double *c, int degree, double a, double u, double b, double v) {
    for (int k = 0, stayed = 0; k < HALVINGS && b - a > 1e-16; k++) {
        double z = k % 8 == 7 ? 0.5 * (a + b) : b - v * (b - a) / (v - u);
        if (!(z > a && z < b)) z = 0.5 * (a + b);
        if (!(z > a && z < b)) break;
        const double w = value_at(c, degree, z);
        if (w == 0.0) return z;
        if ((w < 0.0) == (u < 0.0)) {
            a = z, u = w;
            if (stayed == 1) v *= 0.5;
            stayed = 1;
        } else {
            b = z, v = w;
            if (stayed == -1) u *= 0.5;
            stayed = -1;
        }
    }
    return fabs(u) < fabs(v) ? a : b;
}

/* Roots inside -1 ... 1, in order, between those of the derivative; returns how many */
static int roots(const double *c, int degree, double *out) {
    double slope[KS_LOOKS], turn[KS_LOOKS], a = -1.0, u = value_at(c, degree, a);
    int count = 0, turns = 0;
    if (degree == 0) return 0;
    derivative(c, degree, slope);
    turns = roots(slope, degree - 1, turn);
    turn[turns++] = 1.0;
    for (int i = 0; i < turns; i++) {
        const double b = turn[i], v = value_at(c, degree, b);
        if (v == 0.0 && i + 1 < turns)
            out[count++] = b;
        else if ((u < 0.0 && v > 0.0) || (u > 0.0 && v < 0.0))
            out[count++] = root_between(c, degree, a, u, b, v);
        a = b, u = v;
    }
    return count;
}

void ks_series_check(ks_series *s, double share, double value) {
    const double off = fabs(value_at(s->c, KS_DEGREE, 2.0 * share - 1.0) - value);
    if (off > s->noise) s->rest = fmax(s->rest, 2.0 * off);
}

void ks_course_of(const ks_series *s, double first, double last, ks_course *out) {
    double slope[KS_LOOKS], turn[KS_LOOKS];
    out->of = *s;
    derivative(out->of.c, KS_DEGREE, slope);
    const int turns = roots(slope, KS_DEGREE - 1, turn);
    out->count = 1, out->at[0] = 0.0, out->value[0] = first;
    for (int i = 0; i < turns; i++) {
        out->at[out->count] = 0.5 * (1.0 + turn[i]);
        out->value[out->count++] = value_at(out->of.c, KS_DEGREE, turn[i]);
    }
    out->at[out->count] = 1.0, out->value[out->count++] = last;
}

double ks_course_root(const ks_course *c, int i, double value) {
    double moved[KS_LOOKS];
    memcpy(moved, c->of.c, sizeof moved);
    moved[0] -= value;
    const double a = 2.0 * c->at[i] - 1.0, b = 2.0 * c->at[i + 1] - 1.0;
    const double z =
        root_between(moved, KS_DEGREE, a, c->value[i] - value, b, c->value[i + 1] - value);
    return 0.5 * (1.0 + z);
}

double ks_series_slope(const ks_series *s, double share) {
    double slope[KS_LOOKS];
    derivative(s->c, KS_DEGREE, slope);
    return 2.0 * value_at(slope, KS_DEGREE - 1, 2.0 * share - 1.0);
}
