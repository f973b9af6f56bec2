#include "trust.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Share of the largest eigenvalue that counts as none. */
static const double SINGULAR = 1e-14;
/* Share of the trust radius that is left to unknowns between their bounds. */
static const double LEAST = 1e-3;
/* Newton's iterations for the length of a step, and its relative error. */
enum { LENGTHS = 8 };
static const double LENGTH = 1e-3;

/* Of one model: the m free unknowns `at`, eigenvalues and eigenvectors (m columns) in these, the
 * `largest` eigenvalue by its size, and numbers of no lasting meaning. */
typedef struct {
    int m, lwork, liwork;
    int *at, *iwork;
    double largest;
    double *values, *vectors, *work, *along, *length, *bent;
} axes;

static int allocate(axes *x, int n) {
    const size_t N = (size_t)n;
    x->lwork = 1 + 6 * n + 2 * n * n;
    x->liwork = 3 + 5 * n;
    x->values = malloc((N * N + 4 * N + (size_t)x->lwork) * sizeof(double));
    x->at = malloc((N + (size_t)x->liwork) * sizeof(int));
    if (!x->values || !x->at) return KS_TRUST_NO_MEMORY;
    x->along = x->values + n, x->length = x->along + n, x->bent = x->length + n;
    x->vectors = x->bent + n, x->work = x->vectors + N * N;
    x->iwork = x->at + n;
    return KS_TRUST_OK;
}

static void release(axes *x) {
    free(x->values);
    free(x->at);
}

/* Eigenvalues, in ascending order, and eigenvectors of the matrix in the free unknowns. */
static int find(axes *x, int n, const double *A, const unsigned char *open, ks_eigen *eigen) {
    char with_vectors = 'V', lower = 'L';
    int info = 0;
    double diagonal = 0.0;
    x->m = 0;
    for (int i = 0; i < n; i++) {
        diagonal = fmax(diagonal, fabs(A[(size_t)i * n + i]));
        if (open[i]) x->at[x->m++] = i;
    }
    x->largest = x->m < n ? diagonal : 0.0;
    if (x->m == 0) return KS_TRUST_OK;
    for (int j = 0; j < x->m; j++)
        for (int i = j; i < x->m; i++)
            x->vectors[(size_t)j * x->m + i] = A[(size_t)x->at[i] * n + x->at[j]];
    eigen(&with_vectors, &lower, &x->m, x->vectors, &x->m, x->values, x->work, &x->lwork, x->iwork,
          &x->liwork, &info);
    if (info) return KS_TRUST_NO_EIGENVALUES;
    for (int j = 0; j < x->m; j++) x->largest = fmax(x->largest, fabs(x->values[j]));
    return KS_TRUST_OK;
}

/* along = V'v, of a vector over all unknowns. */
static void turn(axes *x, const double *v) {
    for (int j = 0; j < x->m; j++) {
        double sum = 0.0;
        for (int i = 0; i < x->m; i++) sum += x->vectors[(size_t)j * x->m + i] * v[x->at[i]];
        x->along[j] = sum;
    }
}

/* v = -V u in the free unknowns. */
static void turn_back(const axes *x, const double *u, double *v) {
    for (int i = 0; i < x->m; i++) v[x->at[i]] = 0.0;
    for (int j = 0; j < x->m; j++)
        for (int i = 0; i < x->m; i++) v[x->at[i]] -= x->vectors[(size_t)j * x->m + i] * u[j];
}

/* v = A u. */
static void multiply(int n, const double *A, const double *u, double *v) {
    for (int i = 0; i < n; i++) {
        double sum = 0.0;
        for (int j = 0; j < n; j++) sum += A[(size_t)i * n + j] * u[j];
        v[i] = sum;
    }
}

/* Minus the step along each axis: eigenvalues are shifted so that a longer step has the length of the
 * radius, or if the curvature is negative (More, Sorensen 1983, SIAM Journal on Scientific and
 * Statistical Computing 4:553). */
static void measure(axes *x, double radius) {
    const double least = SINGULAR * x->largest + DBL_MIN;
    double shift = fmax(0.0, least - 1.001 * x->values[0]);
    for (int k = 0;; k++) {
        double square = 0.0, slope = 0.0;
        for (int j = 0; j < x->m; j++) {
            const double stiff = x->values[j] + shift, s = x->along[j] / stiff;
            x->length[j] = s;
            square += s * s;
            slope += s * s / stiff;
        }
        const double length = sqrt(square);
        if (k == LENGTHS || !(length > (1.0 + LENGTH) * radius)) return;
        shift += (length / radius - 1.0) * square / slope;
    }
}

/* One pass: the step in the open unknowns, others are where they are, and how much the model falls. */
static double pass(axes *x, int n, const double *g, const double *A, const unsigned char *open,
                   double radius, double *step) {
    double fixed = 0.0, fall = 0.0;
    for (int i = 0; i < n; i++) {
        if (open[i]) step[i] = 0.0;
        fixed += step[i] * step[i];
    }
    multiply(n, A, step, x->bent);
    for (int i = 0; i < n; i++) {
        fall -= step[i] * (g[i] + 0.5 * x->bent[i]);
        x->bent[i] += g[i];
    }
    if (x->m == 0) return fall;
    turn(x, x->bent);
    measure(x, sqrt(fmax(radius * radius - fixed, LEAST * LEAST * radius * radius)));
    turn_back(x, x->length, step);
    for (int j = 0; j < x->m; j++) fall += x->length[j] * (x->along[j] - 0.5 * x->values[j] * x->length[j]);
    return fall;
}

/* Share of its step up to the bound that an unknown would pass, 1 within. */
static double share_of(double step, double low, double high) {
    return step < low ? low / step : step > high ? high / step : 1.0;
}

static int step_of(axes *x, const ks_models *a, ptrdiff_t k, const double *low, const double *high,
                   double radius, unsigned char *open, double *step, double *fall) {
    const int n = a->n;
    const double *g = a->gradient + k * n, *A = a->matrix + k * n * n;
    for (int i = 0; i < n; i++) {
        open[i] = !((low[i] >= 0.0 && g[i] > 0.0) || (high[i] <= 0.0 && g[i] < 0.0));
        step[i] = 0.0;
    }
    for (int round = 0; round <= n; round++) {
        const int status = find(x, n, A, open, a->eigen);
        if (status) return status;
        *fall = pass(x, n, g, A, open, radius, step);
        double least = 1.0;
        for (int i = 0; i < x->m; i++) {
            const int at = x->at[i];
            least = fmin(least, share_of(step[at], low[at], high[at]));
        }
        for (int i = 0; i < x->m; i++) {
            const int at = x->at[i];
            const double share = share_of(step[at], low[at], high[at]);
            open[at] = share == 1.0 || share > 2.0 * least;
            if (share != 1.0) step[at] = step[at] < low[at] ? low[at] : high[at];
        }
        if (!(least < 1.0)) break;
    }
    return KS_TRUST_OK;
}

int ks_trust_steps(const ks_models *a, const double *low, const double *high, const double *radius,
                   double *step, double *fall) {
    axes x;
    unsigned char *open = malloc((size_t)a->n);
    int status = allocate(&x, a->n);
    if (!open) status = KS_TRUST_NO_MEMORY;
    for (ptrdiff_t k = 0; k < a->count && !status; k++)
        status = step_of(&x, a, k, low + k * a->n, high + k * a->n, radius[k], open, step + k * a->n,
                         fall + k);
    free(open);
    release(&x);
    return status;
}

/* The shift of eigenvalues at which the step is that of a trust region. */
static double shift_at(const axes *x, int n, const double *g, const double *A, const double *step) {
    double along = 0.0, size = 0.0;
    for (int i = 0; i < x->m; i++) {
        const int at = x->at[i];
        double left = g[at];
        for (int j = 0; j < n; j++) left += A[(size_t)at * n + j] * step[j];
        along -= left * step[at];
        size += step[at] * step[at];
    }
    return size > 0.0 ? fmax(along / size, 0.0) : 0.0;
}

int ks_steps_aside(const ks_models *a, const unsigned char *open, const double *step, const double *bend,
                   double *aside) {
    const int n = a->n;
    axes x;
    int status = allocate(&x, n);
    for (ptrdiff_t k = 0; k < a->count && !status; k++) {
        const double *A = a->matrix + k * n * n;
        status = find(&x, n, A, open + k * n, a->eigen);
        if (status || x.m == 0) continue;
        const double shift = shift_at(&x, n, a->gradient + k * n, A, step + k * n);
        const double least = SINGULAR * x.largest + DBL_MIN;
        turn(&x, bend + k * n);
        for (int j = 0; j < x.m; j++) x.length[j] = x.along[j] / fmax(x.values[j] + shift, least);
        turn_back(&x, x.length, aside + k * n);
    }
    release(&x);
    return status;
}
