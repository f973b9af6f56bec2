/* Steps of the smooth motion: explicit Runge-Kutta methods and the trapezoid rule; radau.c has its own. */
#include "work.h"

#include <math.h>
#include <string.h>

static void explicit_step(work *w, double h) {
    const hybrid_run *r = w->r;
    for (int s = 1; s <= w->last; s++) {
        const double *a = r->method.a + s * w->last;
        for (ptrdiff_t i = 0; i < r->n; i++) {
            double sum = 0.0;
            for (int j = 0; j < s; j++) sum += a[j] * w->k[j][i];
            w->y[i] = r->x[i] + h * sum;
        }
        ks_rate(w, w->y, r->t + r->method.c[s] * h, w->k[s]);
    }
}

/* The rate at the end of a step, and Newton's matrix 1 - h/2 f' by differences: how good it is decides
 * about the number of rounds alone */
static void newton_matrix(work *w, double h) {
    const ptrdiff_t n = w->r->n;
    double *now = w->k[w->last], *moved = w->k[2];
    ks_rate(w, w->y, w->r->t + h, now);
    for (ptrdiff_t j = 0; j < n; j++) {
        const double kept = w->y[j], d = HYSTERESIS * fmax(1.0, fabs(kept));
        w->y[j] = kept + d;
        ks_rate(w, w->y, w->r->t + h, moved);
        w->y[j] = kept;
        for (ptrdiff_t i = 0; i < n; i++)
            w->matrix[i * n + j] = (i == j) - 0.5 * h * (moved[i] - now[i]) / d;
    }
}

/* Solves matrix x = side in place, destroying the matrix (n x n, row by row) */
static void eliminate(ptrdiff_t n, double *matrix, double *side) {
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t best = k;
        for (ptrdiff_t i = k + 1; i < n; i++)
            if (fabs(matrix[i * n + k]) > fabs(matrix[best * n + k])) best = i;
        for (ptrdiff_t j = k; j < n; j++) {
            const double swap = matrix[k * n + j];
            matrix[k * n + j] = matrix[best * n + j], matrix[best * n + j] = swap;
        }
        const double swap = side[k];
        side[k] = side[best], side[best] = swap;
        for (ptrdiff_t i = k + 1; i < n; i++) {
            const double factor = matrix[i * n + k] / matrix[k * n + k];
            for (ptrdiff_t j = k; j < n; j++) matrix[i * n + j] -= factor * matrix[k * n + j];
            side[i] -= factor * side[k];
        }
    }
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        for (ptrdiff_t j = k + 1; j < n; j++) side[k] -= matrix[k * n + j] * side[j];
        side[k] /= matrix[k * n + k];
    }
}

/* Changes as small relative to the largest state are rounding; below the second size they are that
 * too where they no longer become much smaller. */
#define CHANGE_SMALL 1e-13
#define CHANGE_STALLED 1e-8

/* y = x + h/2 (x'(x) + x'(y)) */
static void trapezoid_step(work *w, double h) {
    const hybrid_run *r = w->r;
    double *end = w->k[w->last], *change = w->k[3], before = INFINITY;
    for (ptrdiff_t i = 0; i < r->n; i++) w->y[i] = r->x[i] + h * w->k[0][i];
    for (int round = 0; round < 20; round++) {
        newton_matrix(w, h);
        double size = 0.0, left = 0.0;
        for (ptrdiff_t i = 0; i < r->n; i++) {
            change[i] = r->x[i] + 0.5 * h * (w->k[0][i] + end[i]) - w->y[i];
            size = fmax(size, fabs(w->y[i]));
        }
        eliminate(r->n, w->matrix, change);
        for (ptrdiff_t i = 0; i < r->n; i++) {
            w->y[i] += change[i];
            left = fmax(left, fabs(change[i]));
        }
        const int stalled = left > 0.5 * before && left <= CHANGE_STALLED * (1.0 + size);
        if (stalled || left <= CHANGE_SMALL * (1.0 + size)) break;
        before = left;
        if (!(left < INFINITY) || round == 19) w->failed |= 4;
    }
    ks_rate(w, w->y, r->t + h, end);
}

void ks_one_step(work *w, double h) {
    const size_t bytes = (size_t)w->r->n * sizeof(double);
    if (h == 0.0)
        memcpy(w->y, w->r->x, bytes), memcpy(w->k[w->last], w->k[0], bytes);
    else if (w->stiff != NULL)
        ks_stiff_again(w, h);
    else if (w->r->method.stages > 0)
        explicit_step(w, h);
    else
        trapezoid_step(w, h);
}

double ks_step_error(const work *w, double h) {
    const hybrid_run *r = w->r;
    const double *weight = r->method.error;
    double sum = 0.0;
    for (ptrdiff_t i = 0; i < r->n; i++) {
        double e = 0.0;
        for (int s = 0; s <= w->last && weight != NULL; s++) e += weight[s] * w->k[s][i];
        e *= h / (r->atol + r->rtol * fmax(fabs(r->x[i]), fabs(w->y[i])));
        sum += e * e + 0.0 * w->y[i]; /* what is no number stays none */
    }
    return sqrt(sum / (double)r->n);
}

void ks_dense(const work *w, double h, double s, double *out) {
    if (w->stiff != NULL) {
        ks_stiff_dense(w, s, out);
        return;
    }
    const double *weight = w->r->method.dense;
    for (ptrdiff_t i = 0; i < w->r->n; i++) {
        const double x = w->r->x[i], first = h * w->k[0][i], last = h * w->k[w->last][i];
        double more = 0.0;
        for (int j = 0; j <= w->last && weight != NULL; j++) more += weight[j] * w->k[j][i];
        const double a = w->y[i] - x, b = first - a, c = a - last - b;
        out[i] = x + s * (a + (1.0 - s) * (b + s * (c + (1.0 - s) * h * more)));
    }
}

/* A first step from the sizes of x and x' (Hairer, Norsett, Wanner I, section II.4, simplified) */
double ks_hybrid_first_step(const work *w) {
    const hybrid_run *r = w->r;
    double x = 0.0, slope = 0.0;
    for (ptrdiff_t i = 0; i < r->n; i++) {
        const double scale = r->atol + r->rtol * fabs(r->x[i]);
        x = fmax(x, fabs(r->x[i]) / scale), slope = fmax(slope, fabs(w->k[0][i]) / scale);
    }
    return x < 1e-5 || slope < 1e-5 ? 1e-6 : 0.01 * x / slope;
}
