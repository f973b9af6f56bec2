/* Types of dense.c for its users: the front, and the routines of one instruction set. */
#ifndef KKT_DENSE_TYPES_H
#define KKT_DENSE_TYPES_H
#include "kkt.h"

#define LANES 8

typedef struct {
    double *values; /* (n_rows + 3) columns, ld apart; the last three are for stray writes */
    double *scaled; /* columns of L D, ld apart, `full` of them and 4 values more */
    double *d;      /* 2 full + 2 */
    double *noise;  /* of the columns, ld: the size of what was subtracted from them */
    int *seen;      /* of the columns, full: pivots that they account for */
    double *scale;  /* of the rows, ld: see set_scales in factor.c */
    int *rows;      /* unknowns, n_rows */
    int capacity;   /* rows for which there is room */
    int n_rows, ld, full;
    int n_pivots, pairs, negative; /* results */
} front;

/* Neighbouring rows of one front that are neighbours in the next one too. */
typedef struct {
    int begin, end; /* after the pivots of the front */
    int shift;      /* to their place in the next one */
} run;

typedef struct {
    void (*clear)(front *f, int n);
    void (*extend)(const front *before, const run *runs, int n_runs, front *f);
    int (*eliminate)(front *f, kkt_tolerance tolerance);
    void (*schur)(front *f);
    void (*keep)(const front *f, double *l);
    void (*forward)(const kkt_block *b, double *y);
    void (*backward)(const kkt_block *b, double *y);
    void (*forward_sides)(const kkt_block *b, int width, double *const *rows);
    void (*backward_sides)(const kkt_block *b, int width, double *const *rows);
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
