/* Dense systems of equations, one at a time. */
#ifndef KINESYM_DENSE_H
#define KINESYM_DENSE_H
#include "kinesym_step.h"

/* Factorises a (n x n, row by row) in place as L U with partial pivoting; row k was row pivot[k].
 * Returns 0 if a is singular. */
static int ks_lu(ptrdiff_t n, double *a, ptrdiff_t *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t best = k;
        for (ptrdiff_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
        pivot[k] = best;
        if (!(fabs(a[best * n + k]) > 0.0)) return 0;
        if (best != k)
            for (ptrdiff_t j = 0; j < n; j++) {
                const double swap = a[k * n + j];
                a[k * n + j] = a[best * n + j];
                a[best * n + j] = swap;
            }
        const double inverse = 1.0 / a[k * n + k];
        for (ptrdiff_t i = k + 1; i < n; i++) {
            double *restrict row = a + i * n, *restrict top = a + k * n;
            if (row[k] == 0.0) continue;
            const double factor = row[k] *= inverse;
            for (ptrdiff_t j = k + 1; j < n; j++) row[j] -= factor * top[j];
        }
    }
    return 1;
}

/* b := a^-1 b for `width` right sides, b (n x width, row by row) */
static void ks_lu_solve(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b,
                        ptrdiff_t width) {
    for (ptrdiff_t k = 0; k < n; k++)
        if (pivot[k] != k)
            for (ptrdiff_t j = 0; j < width; j++) {
                const double swap = b[k * width + j];
                b[k * width + j] = b[pivot[k] * width + j];
                b[pivot[k] * width + j] = swap;
            }
    for (ptrdiff_t i = 1; i < n; i++)
        for (ptrdiff_t k = 0; k < i; k++)
            if (a[i * n + k] != 0.0)
                for (ptrdiff_t j = 0; j < width; j++)
                    b[i * width + j] -= a[i * n + k] * b[k * width + j];
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        for (ptrdiff_t k = i + 1; k < n; k++)
            if (a[i * n + k] != 0.0)
                for (ptrdiff_t j = 0; j < width; j++)
                    b[i * width + j] -= a[i * n + k] * b[k * width + j];
        for (ptrdiff_t j = 0; j < width; j++) b[i * width + j] /= a[i * n + i];
    }
}

/* b := a^-T b */
static void ks_lu_solve_transposed(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b) {
    for (ptrdiff_t i = 0; i < n; i++) {
        b[i] /= a[i * n + i];
        for (ptrdiff_t j = i + 1; j < n; j++) b[j] -= a[i * n + j] * b[i];
    }
    for (ptrdiff_t i = n - 1; i > 0; i--)
        for (ptrdiff_t j = 0; j < i; j++) b[j] -= a[i * n + j] * b[i];
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        const double swap = b[k];
        b[k] = b[pivot[k]];
        b[pivot[k]] = swap;
    }
}

#endif
