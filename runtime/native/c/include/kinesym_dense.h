/* Dense systems of equations, one at a time. */
#ifndef KINESYM_DENSE_H
#define KINESYM_DENSE_H
#include <string.h>
#include "kinesym_simd.h"

/* Four numbers anywhere in memory, whatever the lanes of the library are */
typedef double ks_four __attribute__((vector_size(32), aligned(8), may_alias));

/* Before loops over few numbers, which the compiler knows how many are where it matters: at -O2 GCC
 * does not unroll them by itself, and others do not know this pragma */
#if defined(__GNUC__) && !defined(__clang__)
#define KS_UNROLLED _Pragma("GCC unroll 3")
#else
#define KS_UNROLLED
#endif

/* a -= factor b, of length n */
static inline void ks_minus(double *restrict a, const double *restrict b, double factor,
                            ptrdiff_t n) {
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) *(ks_four *)(a + k) -= factor * *(const ks_four *)(b + k);
    for (; k < n; k++) a[k] -= factor * b[k];
}

static inline void ks_swap(double *a, double *b, ptrdiff_t n) {
    for (ptrdiff_t k = 0; k < n; k++) {
        const double swap = a[k];
        a[k] = b[k];
        b[k] = swap;
    }
}

/* -- row by row -- */

/* Place of the first number of a row (n) that is not zero, from k on; n if there is none */
static inline ptrdiff_t ks_lead(const double *row, ptrdiff_t k, ptrdiff_t n) {
    while (k < n && row[k] == 0.0) k++;
    return k;
}

/* Factorises a (n x n) in place as L U with partial pivoting; row k was row pivot[k]. lead : room for
 * (n), the columns in which rows begin, as others are not looked at. Returns 0 if a is singular. */
KS_PART int ks_lu(ptrdiff_t n, double *a, ptrdiff_t *pivot, ptrdiff_t *lead) {
    for (ptrdiff_t i = 0; i < n; i++) lead[i] = ks_lead(a + i * n, 0, n);
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t best = n;
        for (ptrdiff_t i = k; i < n; i++)
            if (lead[i] == k && (best == n || fabs(a[i * n + k]) > fabs(a[best * n + k]))) best = i;
        if (best == n || !(fabs(a[best * n + k]) > 0.0)) return 0;
        pivot[k] = best;
        if (best != k) ks_swap(a + k * n, a + best * n, n);
        lead[best] = lead[k];
        const double inverse = 1.0 / a[k * n + k];
        for (ptrdiff_t i = k + 1; i < n; i++) {
            double *row = a + i * n;
            if (lead[i] != k) continue;
            const double factor = row[k] *= inverse;
            ks_minus(row + k + 1, a + k * n + k + 1, factor, n - k - 1);
            lead[i] = ks_lead(row, k + 1, n);
        }
    }
    return 1;
}

/* b := a^-1 b for `width` right sides, b (n x width, row by row) */
KS_PART void ks_lu_solve(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b,
                        ptrdiff_t width) {
    for (ptrdiff_t k = 0; k < n; k++)
        if (pivot[k] != k) ks_swap(b + k * width, b + pivot[k] * width, width);
    for (ptrdiff_t i = 1; i < n; i++)
        for (ptrdiff_t k = 0; k < i; k++)
            if (a[i * n + k] != 0.0) ks_minus(b + i * width, b + k * width, a[i * n + k], width);
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        for (ptrdiff_t k = i + 1; k < n; k++)
            if (a[i * n + k] != 0.0) ks_minus(b + i * width, b + k * width, a[i * n + k], width);
        for (ptrdiff_t j = 0; j < width; j++) b[i * width + j] /= a[i * n + i];
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

/* -- column by column: row i of column j is a[j n + i], the diagonal of U is inverted -- */

static inline void ks_swap_rows(ptrdiff_t n, double *a, ptrdiff_t row, ptrdiff_t other) {
    for (ptrdiff_t j = 0; j < n; j++) ks_swap(a + j * n + row, a + j * n + other, 1);
}

/* As ks_lu */
KS_PART int ks_columns_factor(ptrdiff_t n, double *a, ptrdiff_t *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) {
        double *column = a + k * n;
        ptrdiff_t best = k;
        for (ptrdiff_t i = k + 1; i < n; i++)
            if (fabs(column[i]) > fabs(column[best])) best = i;
        pivot[k] = best;
        if (!(fabs(column[best]) > 0.0)) return 0;
        if (best != k) ks_swap_rows(n, a, k, best);
        const double inverse = column[k] = 1.0 / column[k];
        for (ptrdiff_t i = k + 1; i < n; i++) column[i] *= inverse;
        for (ptrdiff_t j = k + 1; j < n; j++) {
            double *other = a + j * n;
            if (other[k] != 0.0) ks_minus(other + k + 1, column + k + 1, other[k], n - k - 1);
        }
    }
    return 1;
}

/* b := a^-1 b */
KS_PART void ks_columns_solve(ptrdiff_t n, const double *a, const ptrdiff_t *pivot, double *b) {
    for (ptrdiff_t k = 0; k < n; k++)
        if (pivot[k] != k) ks_swap(b + k, b + pivot[k], 1);
    for (ptrdiff_t k = 0; k < n; k++)
        if (b[k] != 0.0) ks_minus(b + k + 1, a + k * n + k + 1, b[k], n - k - 1);
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        b[k] *= a[k * n + k];
        ks_minus(b, a + k * n, b[k], k);
    }
}

/* a + i c -= (f + i g) (b + i d), of length n */
static inline void ks_minus_pair(double *restrict a, double *restrict c, const double *restrict b,
                                 const double *restrict d, double f, double g, ptrdiff_t n) {
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        const ks_four re = *(const ks_four *)(b + k), im = *(const ks_four *)(d + k);
        *(ks_four *)(a + k) += g * im - f * re;
        *(ks_four *)(c + k) -= f * im + g * re;
    }
    for (; k < n; k++) {
        a[k] += g * d[k] - f * b[k];
        c[k] -= f * d[k] + g * b[k];
    }
}

/* The same for complex numbers a + i c; pivots by the sum of both sizes */
KS_PART int ks_columns_factor_pair(ptrdiff_t n, double *a, double *c, ptrdiff_t *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) {
        double *column = a + k * n, *side = c + k * n, largest = 0.0;
        ptrdiff_t best = k;
        for (ptrdiff_t i = k; i < n; i++) {
            const double size = fabs(column[i]) + fabs(side[i]);
            if (size > largest) largest = size, best = i;
        }
        pivot[k] = best;
        if (!(largest > 0.0)) return 0;
        if (best != k) ks_swap_rows(n, a, k, best), ks_swap_rows(n, c, k, best);
        const double size = column[k] * column[k] + side[k] * side[k];
        const double re = column[k] /= size, im = side[k] /= -size;
        for (ptrdiff_t i = k + 1; i < n; i++) {
            const double f = column[i] * re - side[i] * im;
            side[i] = side[i] * re + column[i] * im;
            column[i] = f;
        }
        for (ptrdiff_t j = k + 1; j < n; j++) {
            double *x = a + j * n, *y = c + j * n;
            if (x[k] == 0.0 && y[k] == 0.0) continue;
            ks_minus_pair(x + k + 1, y + k + 1, column + k + 1, side + k + 1, x[k], y[k], n - k - 1);
        }
    }
    return 1;
}

/* b + i d := (a + i c)^-1 (b + i d) */
KS_PART void ks_columns_solve_pair(ptrdiff_t n, const double *a, const double *c,
                                   const ptrdiff_t *pivot, double *b, double *d) {
    for (ptrdiff_t k = 0; k < n; k++)
        if (pivot[k] != k) ks_swap(b + k, b + pivot[k], 1), ks_swap(d + k, d + pivot[k], 1);
    for (ptrdiff_t k = 0; k < n; k++) {
        const ptrdiff_t below = k * n + k + 1;
        ks_minus_pair(b + k + 1, d + k + 1, a + below, c + below, b[k], d[k], n - k - 1);
    }
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        const double re = a[k * n + k], im = c[k * n + k], f = b[k] * re - d[k] * im;
        d[k] = d[k] * re + b[k] * im, b[k] = f;
        ks_minus_pair(b, d, a + k * n, c + k * n, b[k], d[k], k);
    }
}

#endif
