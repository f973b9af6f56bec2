/* Dense systems of equations, one at a time. */
#ifndef KINESYM_DENSE_H
#define KINESYM_DENSE_H
#include <string.h>
#include "kinesym_simd.h"

/* Four numbers anywhere in memory, whatever the lanes of the library are */
typedef double ks_four __attribute__((vector_size(32), aligned(8), may_alias));

/* a -= factor b, of length n */
static inline void ks_minus(double *restrict a, const double *restrict b, double factor,
                            ptrdiff_t n) {
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) *(ks_four *)(a + k) -= factor * *(const ks_four *)(b + k);
    for (; k < n; k++) a[k] -= factor * b[k];
}

static inline double ks_dot(const double *a, const double *b, ptrdiff_t n) {
    ks_four one = {0}, two = {0};
    ptrdiff_t k = 0;
    if (n < 4) {
        double few = n > 0 ? a[0] * b[0] : 0.0;
        if (n > 1) few += a[1] * b[1];
        return n > 2 ? few + a[2] * b[2] : few;
    }
    for (; k + 8 <= n; k += 8) {
        one += *(const ks_four *)(a + k) * *(const ks_four *)(b + k);
        two += *(const ks_four *)(a + k + 4) * *(const ks_four *)(b + k + 4);
    }
    for (; k + 4 <= n; k += 4) one += *(const ks_four *)(a + k) * *(const ks_four *)(b + k);
    one += two;
    double sum = (one[0] + one[1]) + (one[2] + one[3]);
    for (; k < n; k++) sum += a[k] * b[k];
    return sum;
}

static inline void ks_swap(double *a, double *b, ptrdiff_t n) {
    for (ptrdiff_t k = 0; k < n; k++) {
        const double swap = a[k];
        a[k] = b[k];
        b[k] = swap;
    }
}

/* Factorises a (n x n, row by row) in place as L U with partial pivoting; row k was row pivot[k].
 * Returns 0 if a is singular. */
KS_PART int ks_lu(ptrdiff_t n, double *a, ptrdiff_t *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t best = k;
        for (ptrdiff_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
        pivot[k] = best;
        if (!(fabs(a[best * n + k]) > 0.0)) return 0;
        if (best != k) ks_swap(a + k * n, a + best * n, n);
        const double inverse = 1.0 / a[k * n + k];
        for (ptrdiff_t i = k + 1; i < n; i++) {
            double *row = a + i * n;
            if (row[k] == 0.0) continue;
            const double factor = row[k] *= inverse;
            ks_minus(row + k + 1, a + k * n + k + 1, factor, n - k - 1);
        }
    }
    return 1;
}

/* b := a^-1 b for `width` right sides, b (n x width, row by row) */
KS_PART void ks_lu_solve(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b,
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

/* Inverts the diagonal of U, for the next */
KS_PART void ks_lu_invert(ptrdiff_t n, double *a) {
    for (ptrdiff_t i = 0; i < n; i++) a[i * n + i] = 1.0 / a[i * n + i];
}

/* b := a^-1 b for one right side: each row is a scalar product; the diagonal of U is inverted */
KS_PART void ks_lu_solve_one(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b) {
    for (ptrdiff_t k = 0; k < n; k++)
        if (pivot[k] != k) ks_swap(b + k, b + pivot[k], 1);
    for (ptrdiff_t i = 1; i < n; i++) b[i] -= ks_dot(a + i * n, b, i);
    for (ptrdiff_t i = n - 1; i >= 0; i--)
        b[i] = (b[i] - ks_dot(a + i * n + i + 1, b + i + 1, n - 1 - i)) * a[i * n + i];
}

/* The same for complex numbers a + i c, both n x n, with the diagonal of U inverted; pivots by the sum
 * of both sizes */
KS_PART int ks_lu_pair(ptrdiff_t n, double *a, double *c, ptrdiff_t *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t best = k;
        double largest = 0.0;
        for (ptrdiff_t i = k; i < n; i++) {
            const double size = fabs(a[i * n + k]) + fabs(c[i * n + k]);
            if (size > largest) largest = size, best = i;
        }
        pivot[k] = best;
        if (!(largest > 0.0)) return 0;
        if (best != k) ks_swap(a + k * n, a + best * n, n), ks_swap(c + k * n, c + best * n, n);
        const double size = a[k * n + k] * a[k * n + k] + c[k * n + k] * c[k * n + k];
        const double re = a[k * n + k] /= size, im = c[k * n + k] /= -size;
        const double *top = a + k * n + k + 1, *other = c + k * n + k + 1;
        for (ptrdiff_t i = k + 1; i < n; i++) {
            double *row = a + i * n + k, *side = c + i * n + k;
            if (row[0] == 0.0 && side[0] == 0.0) continue;
            const double f = row[0] * re - side[0] * im, g = side[0] * re + row[0] * im;
            row[0] = f, side[0] = g;
            ks_minus(row + 1, top, f, n - k - 1), ks_minus(row + 1, other, -g, n - k - 1);
            ks_minus(side + 1, other, f, n - k - 1), ks_minus(side + 1, top, g, n - k - 1);
        }
    }
    return 1;
}

/* b + i d := (a + i c)^-1 (b + i d) */
KS_PART void ks_lu_solve_pair(ptrdiff_t n, const double *a, const double *c,
                              const ptrdiff_t *pivot, double *b, double *d) {
    for (ptrdiff_t k = 0; k < n; k++)
        if (pivot[k] != k) ks_swap(b + k, b + pivot[k], 1), ks_swap(d + k, d + pivot[k], 1);
    for (ptrdiff_t i = 1; i < n; i++) {
        const double re = ks_dot(a + i * n, b, i) - ks_dot(c + i * n, d, i);
        const double im = ks_dot(a + i * n, d, i) + ks_dot(c + i * n, b, i);
        b[i] -= re, d[i] -= im;
    }
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        const ptrdiff_t j = i * n + i + 1, rest = n - 1 - i;
        const double p = b[i] - ks_dot(a + j, b + i + 1, rest) + ks_dot(c + j, d + i + 1, rest);
        const double q = d[i] - ks_dot(a + j, d + i + 1, rest) - ks_dot(c + j, b + i + 1, rest);
        b[i] = p * a[j - 1] - q * c[j - 1], d[i] = q * a[j - 1] + p * c[j - 1];
    }
}

/* b := a^-T b */
KS_PART void ks_lu_solve_transposed(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b) {
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
