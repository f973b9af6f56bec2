/* Numbers from tables: entry k of a table is p[k * step] for all lanes (lane 0), or p[k * step + l] for
 * lane l (lane 1), as in an argument that varies.
 */
#ifndef KINESYM_TABLE_H
#define KINESYM_TABLE_H
#include "kinesym_simd.h"

/* How many of n increasing entries are not larger than x: 0 ... n, 0 for NaN. Each round halves what
 * is left, whatever x, so that lanes need no branches. */
KS_PART V ks_locate(const double *p, ptrdiff_t step, ptrdiff_t lane, ptrdiff_t n, V x) {
    double at[KS_LANES];
    ptrdiff_t found[KS_LANES];
    ks_store(at, x);
    for (int l = 0; l < KS_LANES; l++) found[l] = 0;
    for (ptrdiff_t left = n; left > 0; left /= 2) {
        const ptrdiff_t half = left - left / 2;
        for (int l = 0; l < KS_LANES; l++)
            found[l] += p[(found[l] + half - 1) * step + l * lane] <= at[l] ? half : 0;
    }
    for (int l = 0; l < KS_LANES; l++) at[l] = (double)found[l];
    return ks_load(at);
}

/* Entry `stride * number` in each lane */
KS_PART V ks_entry(const double *p, ptrdiff_t step, ptrdiff_t lane, ptrdiff_t stride, V number) {
    double at[KS_LANES];
    ks_store(at, number);
    for (int l = 0; l < KS_LANES; l++) at[l] = p[(ptrdiff_t)at[l] * stride * step + l * lane];
    return ks_load(at);
}

#endif
