/* Systems of n x n blocks (s x s), most of which are zero, with one pattern for many of them. Blocks
 * are eliminated in their order, with pivots within those of the diagonal only; a factorisation that
 * would lose digits by that says so.
 */
#ifndef KINESYM_BLOCKS_H
#define KINESYM_BLOCKS_H
#include "kinesym_dense.h"

/* By how much elimination may exceed the largest entry of a row: the digits that it may lose */
#define KS_BLOCKS_GROWTH 1e3
/* Largest size of a block */
#define KS_BLOCKS_LARGEST 3

/* slot : (n, n), numbers of the blocks in `values`, row by row, -1 where they are zero. below, right :
 * (n, n), rows of the blocks below a diagonal one, and columns of those right of it; n_below, n_right :
 * how many. first : (n + 1), where rows begin in `values`. largest : (n), entries of rows. */
typedef struct {
    ptrdiff_t n, s;
    ptrdiff_t *slot, *below, *right, *n_below, *n_right, *first;
    double *values, *largest;
} ks_block_matrix;

/* Fills slot, which has 1 for blocks with entries and 0 elsewhere, below and right; returns the number
 * of blocks, with those that elimination fills. */
KS_PART ptrdiff_t ks_blocks_pattern(const ks_block_matrix *b) {
    const ptrdiff_t n = b->n;
    ptrdiff_t count = 0;
    for (ptrdiff_t k = 0; k < n; k++) {
        b->n_below[k] = b->n_right[k] = 0;
        b->slot[k * n + k] = 1;
        for (ptrdiff_t j = k + 1; j < n; j++)
            if (b->slot[k * n + j]) b->right[k * n + b->n_right[k]++] = j;
        for (ptrdiff_t i = k + 1; i < n; i++) {
            if (!b->slot[i * n + k]) continue;
            b->below[k * n + b->n_below[k]++] = i;
            for (ptrdiff_t j = 0; j < b->n_right[k]; j++) b->slot[i * n + b->right[k * n + j]] = 1;
        }
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        b->first[i] = count;
        for (ptrdiff_t j = 0; j < n; j++) b->slot[i * n + j] = b->slot[i * n + j] ? count++ : -1;
    }
    return b->first[n] = count;
}

/* The larger one of a size and of n numbers by size */
static inline double ks_largest(double size, const double *a, ptrdiff_t n) {
    for (ptrdiff_t k = 0; k < n; k++) size = fabs(a[k]) > size ? fabs(a[k]) : size;
    return size;
}

/* a := a^-1 (s x s), with pivots by rows. Returns 0 if a is singular. */
static inline __attribute__((always_inline)) int ks_invert(double *a, const int s) {
    int row[KS_BLOCKS_LARGEST];
    KS_UNROLLED
    for (int k = 0; k < s; k++) {
        int best = k;
        KS_UNROLLED
        for (int i = k + 1; i < s; i++)
            if (fabs(a[i * s + k]) > fabs(a[best * s + k])) best = i;
        row[k] = best;
        if (best != k) ks_swap(a + k * s, a + best * s, s);
        if (!(fabs(a[k * s + k]) > 0.0)) return 0;
        const double inverse = 1.0 / a[k * s + k];
        a[k * s + k] = 1.0;
        KS_UNROLLED
        for (int j = 0; j < s; j++) a[k * s + j] *= inverse;
        KS_UNROLLED
        for (int i = 0; i < s; i++) {
            if (i == k) continue;
            const double factor = a[i * s + k];
            a[i * s + k] = 0.0;
            KS_UNROLLED
            for (int j = 0; j < s; j++) a[i * s + j] -= factor * a[k * s + j];
        }
    }
    for (int k = s - 1; k >= 0; k--) {
        if (row[k] == k) continue;
        KS_UNROLLED
        for (int i = 0; i < s; i++) {
            const double swap = a[i * s + k];
            a[i * s + k] = a[i * s + row[k]];
            a[i * s + row[k]] = swap;
        }
    }
    return 1;
}

/* a := a b */
static inline __attribute__((always_inline)) void ks_block_times(double *restrict a,
                                                                 const double *restrict b,
                                                                 const int s) {
    KS_UNROLLED
    for (int r = 0; r < s; r++) {
        double sum[KS_BLOCKS_LARGEST] = {0.0};
        KS_UNROLLED
        for (int l = 0; l < s; l++)
            KS_UNROLLED
            for (int q = 0; q < s; q++) sum[q] += a[r * s + l] * b[l * s + q];
        KS_UNROLLED
        for (int q = 0; q < s; q++) a[r * s + q] = sum[q];
    }
}

/* a -= b c */
static inline __attribute__((always_inline)) void ks_block_minus(double *restrict a,
                                                                 const double *restrict b,
                                                                 const double *restrict c,
                                                                 const int s) {
    KS_UNROLLED
    for (int r = 0; r < s; r++)
        KS_UNROLLED
        for (int q = 0; q < s; q++) {
            double sum = a[r * s + q];
            KS_UNROLLED
            for (int l = 0; l < s; l++) sum -= b[r * s + l] * c[l * s + q];
            a[r * s + q] = sum;
        }
}

static inline __attribute__((always_inline)) int ks_blocks_factored(const ks_block_matrix *b,
                                                                    const int s) {
    const ptrdiff_t n = b->n, ss = s * s;
    for (ptrdiff_t i = 0; i < n; i++)
        b->largest[i] =
            ks_largest(0.0, b->values + b->first[i] * ss, (b->first[i + 1] - b->first[i]) * ss);
    for (ptrdiff_t k = 0; k < n; k++) {
        const ptrdiff_t *right = b->right + k * n, *below = b->below + k * n;
        double *diagonal = b->values + b->slot[k * n + k] * ss, beside = 0.0;
        if (!ks_invert(diagonal, s)) return 0;
        for (ptrdiff_t j = 0; j < b->n_right[k]; j++)
            beside = ks_largest(beside, b->values + b->slot[k * n + right[j]] * ss, ss);
        for (ptrdiff_t m = 0; m < b->n_below[k]; m++) {
            const ptrdiff_t i = below[m];
            double *left = b->values + b->slot[i * n + k] * ss;
            ks_block_times(left, diagonal, s);
            if (!(ks_largest(0.0, left, ss) * beside <= KS_BLOCKS_GROWTH * b->largest[i])) return 0;
            for (ptrdiff_t j = 0; j < b->n_right[k]; j++)
                ks_block_minus(b->values + b->slot[i * n + right[j]] * ss, left,
                               b->values + b->slot[k * n + right[j]] * ss, s);
        }
    }
    return 1;
}

/* Factorises `values` in place; those of the diagonal are inverted. Returns 0 if that would lose
 * digits, or not succeed. */
KS_PART int ks_blocks_factor(const ks_block_matrix *b) {
    return b->s == 1   ? ks_blocks_factored(b, 1)
           : b->s == 2 ? ks_blocks_factored(b, 2)
                       : ks_blocks_factored(b, 3);
}

/* a -= block b, a of s rows and b of t, which are as wide: a multiple of four */
static inline __attribute__((always_inline)) void ks_rows_minus(double *restrict a,
                                                                const double *restrict block,
                                                                const double *restrict b,
                                                                ptrdiff_t width, const int s,
                                                                const int t) {
    for (ptrdiff_t l = 0; l < width; l += 4) {
        ks_four x[KS_BLOCKS_LARGEST];
        KS_UNROLLED
        for (int q = 0; q < t; q++) x[q] = *(const ks_four *)(b + q * width + l);
        KS_UNROLLED
        for (int r = 0; r < s; r++) {
            ks_four y = *(ks_four *)(a + r * width + l);
            KS_UNROLLED
            for (int q = 0; q < t; q++) y -= block[r * t + q] * x[q];
            *(ks_four *)(a + r * width + l) = y;
        }
    }
}

/* a := block a */
static inline __attribute__((always_inline)) void ks_rows_times(double *a, const double *block,
                                                                ptrdiff_t width, const int s) {
    for (ptrdiff_t l = 0; l < width; l += 4) {
        ks_four x[KS_BLOCKS_LARGEST];
        KS_UNROLLED
        for (int q = 0; q < s; q++) x[q] = *(const ks_four *)(a + q * width + l);
        KS_UNROLLED
        for (int r = 0; r < s; r++) {
            ks_four y = block[r * s] * x[0];
            KS_UNROLLED
            for (int q = 1; q < s; q++) y += block[r * s + q] * x[q];
            *(ks_four *)(a + r * width + l) = y;
        }
    }
}

static inline __attribute__((always_inline)) void ks_blocks_solved(const ks_block_matrix *b,
                                                                   double *side, ptrdiff_t width,
                                                                   const int s) {
    const ptrdiff_t n = b->n, ss = s * s, tall = s * width;
    for (ptrdiff_t k = 0; k < n; k++)
        for (ptrdiff_t m = 0; m < b->n_below[k]; m++) {
            const ptrdiff_t i = b->below[k * n + m];
            ks_rows_minus(side + i * tall, b->values + b->slot[i * n + k] * ss, side + k * tall, width,
                          s, s);
        }
    for (ptrdiff_t k = n - 1; k >= 0; k--) {
        for (ptrdiff_t m = 0; m < b->n_right[k]; m++) {
            const ptrdiff_t j = b->right[k * n + m];
            ks_rows_minus(side + k * tall, b->values + b->slot[k * n + j] * ss, side + j * tall, width,
                          s, s);
        }
        ks_rows_times(side + k * tall, b->values + b->slot[k * n + k] * ss, width, s);
    }
}

/* side := a^-1 side (n s x width, row by row), the width a multiple of four */
KS_PART void ks_blocks_solve(const ks_block_matrix *b, double *side, ptrdiff_t width) {
    if (b->s == 1)
        ks_blocks_solved(b, side, width, 1);
    else if (b->s == 2)
        ks_blocks_solved(b, side, width, 2);
    else
        ks_blocks_solved(b, side, width, 3);
}

/* a -= block^T b, or a := block^T a with b NULL */
static inline void ks_turned(double *a, const double *block, const double *b, ptrdiff_t s) {
    double sum[KS_BLOCKS_LARGEST] = {0.0};
    const double *from = b == NULL ? a : b;
    for (ptrdiff_t q = 0; q < s; q++)
        for (ptrdiff_t r = 0; r < s; r++) sum[q] += block[r * s + q] * from[r];
    for (ptrdiff_t q = 0; q < s; q++) a[q] = b == NULL ? sum[q] : a[q] - sum[q];
}

/* side := a^-T side, (n s) */
KS_PART void ks_blocks_solve_transposed(const ks_block_matrix *b, double *side) {
    const ptrdiff_t n = b->n, s = b->s, ss = s * s;
    for (ptrdiff_t k = 0; k < n; k++) {
        ks_turned(side + k * s, b->values + b->slot[k * n + k] * ss, NULL, s);
        for (ptrdiff_t m = 0; m < b->n_right[k]; m++) {
            const ptrdiff_t j = b->right[k * n + m];
            ks_turned(side + j * s, b->values + b->slot[k * n + j] * ss, side + k * s, s);
        }
    }
    for (ptrdiff_t k = n - 1; k >= 0; k--)
        for (ptrdiff_t m = 0; m < b->n_below[k]; m++) {
            const ptrdiff_t i = b->below[k * n + m];
            ks_turned(side + k * s, b->values + b->slot[i * n + k] * ss, side + i * s, s);
        }
}

#endif
