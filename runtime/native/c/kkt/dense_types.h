/* Types of dense.c for its users: the front, and the routines of one instruction set. */
#ifndef KKT_DENSE_TYPES_H
#define KKT_DENSE_TYPES_H
#include "kkt.h"

#define LANES 8

typedef struct {
    double *values; /* (n_rows + 3) columns, ld apart; the last three are for stray writes */
    double *scaled; /* columns of L D, ld apart, `full` of them and 4 values more */
    double *d;      /* 2 full + 2 */
    double *noise;  /* of the columns, full: the size of what was subtracted from them */
    double *growth; /* of the pivots, full: the largest entry of their columns of L, scaled */
    int *seen;      /* of the columns, full: pivots that they account for */
    double *scale;  /* of the rows, ld: see set_scales in factor.c */
    int *rows;      /* unknowns, n_rows */
    int capacity;   /* rows for which there is room */
    int n_rows, ld, full;
    int n_pivots, pairs, negative; /* results */
} front;

typedef struct {
    int (*eliminate)(front *f, kkt_tolerance tolerance);
    void (*schur)(front *f);
    void (*forward)(const kkt_block *b, double *y);
    void (*backward)(const kkt_block *b, double *y);
    void (*inverse)(const kkt_block *b, double *z);
} kkt_dense;

/* The routines for this processor. */
const kkt_dense *kkt_dense_routines(void);

static inline int padded(int rows) { return (rows + LANES - 1) / LANES * LANES; }

/* Length of the stored part of the first n_pivots columns of L. */
static inline ptrdiff_t trapezoid(int rows, int n_pivots) {
    ptrdiff_t length = 0;
    for (int t = 0; t < n_pivots; t++) length += padded(rows) - (t + 1) / LANES * LANES;
    return length;
}

#endif
