/* State of a factorisation along some chains, shared by factor.c and its parts. */
#ifndef KKT_WALK_H
#define KKT_WALK_H
#include "dense_types.h"

/* -- memory.c */

/* Room for one block, in whole cache lines; NULL if there is none. */
void *kkt_take(kkt_arena *arena, size_t bytes);
/* Reset the arena: its memory may be taken again. */
void kkt_take_again(kkt_arena *arena);
double kkt_arena_bytes(const kkt_arena *arena);

/* -- assemble.c */

/* Remainder of the last front of a chain: rows are [delayed | border of the chain]. */
typedef struct {
    int n_rows, n_delayed;
    double *values; /* the lower triangle, columns n_rows apart */
    double *noise;  /* of the columns, see `front`; 0 of the border that is no separator */
    double *scale;  /* of the rows, of delayed ones */
    int *rows;      /* unknowns, likewise */
} kkt_rest;

/* One part, front by front; or the separators and the root. */
typedef struct {
    const kkt_plan *plan;
    const kkt_dense *dense;
    const double *values, *scale; /* of the matrix; of its rows in the order of elimination */
    kkt_rest *rests;    /* of all chains: each part leaves its own */
    int *where;         /* rows of separators and border in a front of separators, n_border; or NULL */
    front here, before; /* two buffers that take turns */
    run *runs;          /* of what one front leaves to the next */
    int wide;           /* whether borders are widened, see widen_border */
    kkt_arena *arena;
    ptrdiff_t surplus;  /* of a chain: negative eigenvalues without a multiplier so far */
    ptrdiff_t negative, delayed, turned, pairs; /* as in kkt_factors */
    double operations;
    int max_rows, status;
} walk;

static inline double *column_of(const front *f, int c) { return f->values + (ptrdiff_t)c * f->ld; }

/* Columns that a front hands on: those without a good pivot. */
static inline int delayed(const front *f) { return f->full - f->n_pivots; }

int kkt_begin_walk(walk *w);
void kkt_end_walk(walk *w);

/* Fills the next front of a walk from what fronts before it left, and from the matrix. Returns
 * a status. */
int kkt_assemble(walk *w, ptrdiff_t number);

/* Keeps what the last front of a chain leaves. Returns a status. */
int kkt_leave(walk *w, ptrdiff_t number);

#endif
