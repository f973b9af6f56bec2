/* Dense systems of equations, one per lane: real ones, and complex ones with both parts side by side.
 * Every lane has row exchanges of its own.
 */
#ifndef KINESYM_LANES_H
#define KINESYM_LANES_H
#include "kinesym_simd.h"

/* Whether some lane is not zero */
static inline int ks_some(V v) {
    double lane[KS_LANES];
    int some = 0;
    ks_store(lane, v);
    for (int l = 0; l < KS_LANES; l++) some |= lane[l] != 0.0;
    return some;
}

/* Flags as lanes, for ks_select */
static inline V ks_flags(const int *flag) {
    double lane[KS_LANES];
    for (int l = 0; l < KS_LANES; l++) lane[l] = flag[l] ? 1.0 : 0.0;
    return ks_load(lane);
}

/* Brings the largest entry of column k, from row k on, to row k in each lane; an entry has `width`
 * parts. Row k was row pivot[k]. */
KS_PART void ks_lanes_pivot(ptrdiff_t n, ptrdiff_t k, ptrdiff_t width, V *a, int *pivot) {
    const ptrdiff_t row = n * width;
    V largest = ks_splat(-1.0), best = ks_splat((double)k);
    for (ptrdiff_t i = k; i < n; i++) {
        const V *e = a + i * row + k * width;
        const V size = width == 1 ? ks_abs(e[0]) : ks_abs(e[0]) + ks_abs(e[1]);
        const V more = ks_lt(largest, size);
        largest = ks_select(more, size, largest);
        best = ks_select(more, ks_splat((double)i), best);
    }
    double lane[KS_LANES];
    ks_store(lane, best);
    for (int l = 0; l < KS_LANES; l++) {
        const int chosen = pivot[k * KS_LANES + l] = (int)lane[l];
        if (chosen == k) continue;
        double *one = (double *)(a + k * row) + l, *other = (double *)(a + chosen * row) + l;
        for (ptrdiff_t j = 0; j < row * KS_LANES; j += KS_LANES) {
            const double swap = one[j];
            one[j] = other[j];
            other[j] = swap;
        }
    }
}

KS_PART void ks_lanes_exchange(ptrdiff_t n, const int *pivot, V *b) {
    for (ptrdiff_t k = 0; k < n; k++)
        for (int l = 0; l < KS_LANES; l++) {
            double *one = (double *)(b + k) + l, *other = (double *)(b + pivot[k * KS_LANES + l]) + l;
            const double swap = *one;
            *one = *other;
            *other = swap;
        }
}

/* Factorises a (n x n, row by row) in place as L U with partial pivoting, the diagonal of U inverted.
 * Solutions with a singular one are not finite. */
KS_PART void ks_lanes_factor(ptrdiff_t n, V *a, int *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) {
        ks_lanes_pivot(n, k, 1, a, pivot);
        V *restrict top = a + k * n;
        const V inverse = top[k] = 1.0 / top[k];
        for (ptrdiff_t i = k + 1; i < n; i++) {
            V *restrict row = a + i * n;
            if (!ks_some(row[k])) continue;
            const V factor = row[k] *= inverse;
            for (ptrdiff_t j = k + 1; j < n; j++) row[j] -= factor * top[j];
        }
    }
}

/* b := a^-1 b */
KS_PART void ks_lanes_solve(ptrdiff_t n, const V *a, const int *pivot, V *b) {
    ks_lanes_exchange(n, pivot, b);
    for (ptrdiff_t i = 1; i < n; i++) {
        V sum = b[i];
        for (ptrdiff_t k = 0; k < i; k++) sum -= a[i * n + k] * b[k];
        b[i] = sum;
    }
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        V sum = b[i];
        for (ptrdiff_t k = i + 1; k < n; k++) sum -= a[i * n + k] * b[k];
        b[i] = sum * a[i * n + i];
    }
}

/* The same for complex numbers a[2 j] + i a[2 j + 1]; pivots by the sum of both sizes */
KS_PART void ks_pairs_factor(ptrdiff_t n, V *a, int *pivot) {
    for (ptrdiff_t k = 0; k < n; k++) {
        ks_lanes_pivot(n, k, 2, a, pivot);
        V *restrict top = a + 2 * k * n;
        const V re = top[2 * k], im = top[2 * k + 1], size = 1.0 / (re * re + im * im);
        const V inverse = top[2 * k] = re * size, other = top[2 * k + 1] = -im * size;
        for (ptrdiff_t i = k + 1; i < n; i++) {
            V *restrict row = a + 2 * i * n;
            const V r = row[2 * k], s = row[2 * k + 1];
            if (!ks_some(ks_abs(r) + ks_abs(s))) continue;
            const V f = row[2 * k] = r * inverse - s * other;
            const V g = row[2 * k + 1] = r * other + s * inverse;
            for (ptrdiff_t j = k + 1; j < n; j++) {
                row[2 * j] -= f * top[2 * j] - g * top[2 * j + 1];
                row[2 * j + 1] -= f * top[2 * j + 1] + g * top[2 * j];
            }
        }
    }
}

/* b + i c := a^-1 (b + i c) */
KS_PART void ks_pairs_solve(ptrdiff_t n, const V *a, const int *pivot, V *b, V *c) {
    ks_lanes_exchange(n, pivot, b);
    ks_lanes_exchange(n, pivot, c);
    for (ptrdiff_t i = 1; i < n; i++) {
        V re = b[i], im = c[i];
        for (ptrdiff_t k = 0; k < i; k++) {
            const V r = a[2 * (i * n + k)], s = a[2 * (i * n + k) + 1];
            re -= r * b[k] - s * c[k];
            im -= r * c[k] + s * b[k];
        }
        b[i] = re, c[i] = im;
    }
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        V re = b[i], im = c[i];
        for (ptrdiff_t k = i + 1; k < n; k++) {
            const V r = a[2 * (i * n + k)], s = a[2 * (i * n + k) + 1];
            re -= r * b[k] - s * c[k];
            im -= r * c[k] + s * b[k];
        }
        const V r = a[2 * (i * n + i)], s = a[2 * (i * n + i) + 1];
        b[i] = re * r - im * s;
        c[i] = re * s + im * r;
    }
}

#endif
