/* Numbers from tables, which lie in an argument that all points share */
#ifndef KINESYM_TABLE_H
#define KINESYM_TABLE_H
#include "kinesym_simd.h"

/* How many of n increasing points are not larger than x: 0 ... n, 0 for NaN. At p are the first point
 * and all n, the scale of a line from 0 at the first to n at the last, the most points that there are
 * between two whole numbers on it, and by whole numbers how many points come before (see
 * symbolic/table.py). So the search begins near its end, and takes as many rounds for 10,000 points as
 * for 10 if these lie evenly. Each round halves what is left, whatever x: lanes need no branches. */
KS_PART V ks_locate(const double *p, ptrdiff_t n, V x) {
    const V zero = ks_splat(0.0), last = ks_splat((double)(n - 1));
    V s = (x - p[0]) * p[n + 1];
    s = ks_select(ks_lt(zero, s), s, zero);
    s = ks_select(ks_lt(s, last), s, last);
    double at[KS_LANES], near[KS_LANES];
    ptrdiff_t found[KS_LANES];
    ks_store(at, x);
    ks_store(near, s);
    for (int l = 0; l < KS_LANES; l++) found[l] = (ptrdiff_t)p[n + 3 + (ptrdiff_t)near[l]];
    for (ptrdiff_t left = (ptrdiff_t)p[n + 2]; left > 0; left /= 2) {
        const ptrdiff_t half = left - left / 2;
        for (int l = 0; l < KS_LANES; l++)
            found[l] += p[found[l] + half] <= at[l] ? half : 0;
    }
    for (int l = 0; l < KS_LANES; l++) at[l] = (double)found[l];
    return ks_load(at);
}

/* Entry stride * number */
KS_PART V ks_entry(const double *p, ptrdiff_t stride, V number) {
    double at[KS_LANES];
    ks_store(at, number);
    for (int l = 0; l < KS_LANES; l++) at[l] = p[(ptrdiff_t)at[l] * stride];
    return ks_load(at);
}

#endif
