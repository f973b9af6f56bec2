/* Solving with the factors, and how well that went. */
#include <math.h>
#include <stdlib.h>

#include "dense_types.h"

/* Gathers the rows of a block; the padding stays zero. */
static void gather(const kkt_block *b, const double *x, double *y) {
    for (int k = 0; k < b->n_rows; k++) y[k] = x[b->rows[k]];
    for (int k = b->n_rows; k < padded(b->n_rows); k++) y[k] = 0.0;
}

/* Whether a block has anything to do forwards; unit vectors of parameters touch only the last. */
static int touches(const kkt_block *b, const double *x) {
    for (int r = 0; r < b->n_pivots; r++)
        if (x[b->rows[r]] != 0.0) return 1;
    return 0;
}

/* x := A^-1 x at the pivots of the blocks from `first` on; x must be zero at those before. */
static int solve_from(const kkt_factors *factors, ptrdiff_t first, int n_rhs, double *x,
                      ptrdiff_t ld) {
    const kkt_dense *dense = kkt_dense_routines();
    const ptrdiff_t n = factors->plan->n_fronts;
    const size_t bytes = (size_t)padded(factors->max_rows + 1) * sizeof(double);
    double *y = aligned_alloc(64, bytes);
    if (y == NULL) return KKT_NO_MEMORY;
    /* all sides of a block together: the factors are read from memory once */
    double *end = x + n_rhs * ld;
    for (const kkt_block *b = factors->blocks + first; b < factors->blocks + n; b++)
        for (double *side = x; side < end; side += ld) {
            if (!touches(b, side)) continue;
            gather(b, side, y);
            dense->forward(b, y);
            for (int r = 0; r < b->n_rows; r++) side[b->rows[r]] = y[r];
        }
    for (const kkt_block *b = factors->blocks + n - 1; b >= factors->blocks + first; b--)
        for (double *side = x; side < end; side += ld) {
            gather(b, side, y);
            dense->backward(b, y);
            for (int r = 0; r < b->n_pivots; r++) side[b->rows[r]] = y[r];
        }
    free(y);
    return KKT_OK;
}

int kkt_solve(kkt_factors *factors, int n_rhs, double *x, ptrdiff_t ld) {
    return factors->ready ? solve_from(factors, 0, n_rhs, x, ld) : KKT_SINGULAR;
}

/* The first block that has one of these unknowns as a pivot. */
static ptrdiff_t first_block(const kkt_factors *factors, int count, const int *unknowns) {
    ptrdiff_t left = count, k = factors->plan->n_fronts;
    while (left > 0 && k-- > 0) {
        const kkt_block *b = factors->blocks + k;
        for (int r = 0; r < b->n_pivots; r++)
            for (int j = 0; j < count; j++) left -= b->rows[r] == unknowns[j];
    }
    return k;
}

int kkt_inverse(kkt_factors *factors, int count, const int *unknowns, double *inverse) {
    if (!factors->ready) return KKT_SINGULAR;
    const size_t n = (size_t)factors->plan->n;
    double *x = calloc(n * (size_t)count, sizeof(double));
    if (x == NULL) return KKT_NO_MEMORY;
    for (int j = 0; j < count; j++) x[(size_t)j * n + (size_t)unknowns[j]] = 1.0;
    const ptrdiff_t first = first_block(factors, count, unknowns);
    const int status = solve_from(factors, first, count, x, (ptrdiff_t)n);
    for (int j = 0; j < count; j++)
        for (int i = 0; i < count; i++)
            inverse[i * count + j] = x[(size_t)j * n + (size_t)unknowns[i]];
    free(x);
    return status;
}

static double largest(int n, const double *x) {
    double most = 0.0;
    for (int k = 0; k < n; k++) {
        const double size = fabs(x[k]);
        if (!(size <= most)) most = size; /* NaN stays */
    }
    return most;
}

double kkt_backward_error(const kkt_matrix *a, const double *x, const double *b, double *r) {
    const int n = a->n;
    double matrix = 0.0;
    for (int k = 0; k < n; k++) r[k] = b[k];
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        const int i = a->row[e] - 1, j = a->column[e] - 1;
        const double value = a->values[e], size = fabs(value);
        r[i] -= value * x[j];
        if (i != j) r[j] -= value * x[i];
        if (size > matrix) matrix = size;
    }
    const double scale = matrix * largest(n, x) + largest(n, b);
    return scale > 0.0 ? largest(n, r) / scale : largest(n, r);
}
