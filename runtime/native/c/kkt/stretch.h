#ifndef KKT_STRETCH_H
#define KKT_STRETCH_H
#include "kkt.h"

/* Whether a long matrix is better eliminated in the reversed direction, as a stretch from its middle
 * tells: if that delays more columns than this share of them without, and takes fewer operations with.
 * Returns 0 or 1, or -1 if it cannot be told: the matrix is not long, or there is no memory. */
int kkt_try_stretch(const kkt_matrix *a, const int *stage, int max_rows, kkt_tolerance tolerance,
                    double delayed);

#endif
