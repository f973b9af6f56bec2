/* A direct solver for the symmetric indefinite systems of direct collocation.
 *
 * The unknowns of such a system belong to stages (nodes in time), which are coupled to their
 * neighbours, some of them to stages further on (delays), or to a border (parameters, durations)
 * which is coupled to everything:
 *
 *     A = | T  B |    T block tridiagonal, with some entries up to L blocks off its diagonal,
 *         | B' C |    B and C few columns
 *
 * It is factorised as L D L' by a multifrontal method whose tree is a chain: the front of a stage
 * holds the stage's own rows, the rows of the next stage and of those further on that it or an
 * earlier one touches, and the border. A signal that is delayed by L stages adds L rows to each
 * front. Pivots of order 1 and 2 are chosen by size within a front (threshold Bunch-Kaufman); a column without a good
 * pivot is delayed to the next front. Eliminating in a fixed order instead would multiply transition
 * matrices, which blows up in one direction for stable dynamics and in the other for unstable ones.
 *
 * Several chains, as of several trials, do not know each other: threads take them side by side. A
 * long chain is cut into parts for that, each a chain of its own: where two parts meet, the unknowns
 * that couple them are a separator, which is a border to both. The fronts of the separators, a chain
 * again, and of the border, the root, come last (nested dissection; George 1973, SIAM Journal on
 * Numerical Analysis 10). A part between two separators carries the one where it begins, with the
 * multipliers that would else have no partner, along all of its fronts; one at the end of a chain need
 * not if it is turned, eliminated from the end of the chain towards its only separator, in which
 * direction columns may have to wait.
 *
 * Files: stages.c finds the stages of a pattern, analyse.c lays out fronts, parts.c cuts chains,
 * stretch.c tries both directions on a piece, dense.h factorises one front, assemble.c fills one,
 * factor.c and solve.c walk along the chains, inverse.c back again for entries of the inverse, team.c
 * starts threads, ma57.c offers it all to IPOPT.
 */
#ifndef KKT_H
#define KKT_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum kkt_status {
    KKT_OK = 0,
    KKT_SINGULAR = 1,
    KKT_NO_MEMORY = 2,
    KKT_NOT_FINITE = 3,  /* the matrix contains NaN or Inf */
    KKT_UNSUPPORTED = 4, /* no narrow stages */
    KKT_INACCURATE = 5,  /* the backward error stays large */
    KKT_DELAYED = 6,     /* too many columns without a good pivot */
    KKT_INERTIA = 7      /* more negative eigenvalues than multipliers: broken off */
};

/* -- structure ---------------------------------------------------------------------------------- */

/* The stage of an unknown. Most entries are between stages whose numbers differ by one at most. */
enum { KKT_BORDER = -1, KKT_UNKNOWN = -2 };

/* Entries so far ahead are fetched early while fronts are filled: a few small fronts, some 0.3 us. */
#define KKT_AHEAD 256

/* One front: rows are [delayed | pivots | next | carried | border]. Delayed columns are known at run
 * time; next ones are the first pivots of the next front, carried ones pivots of fronts beyond. */
typedef struct {
    int n_pivots, n_next, n_carried;
    int n_border;          /* the first n_border of its chain's border */
    int chain;
    ptrdiff_t first_pivot; /* in `order` */
    ptrdiff_t first_carried; /* in `carried` */
} kkt_front;

/* Fronts that follow each other, each of which hands on what it leaves to the next. */
typedef struct {
    ptrdiff_t first;        /* front */
    ptrdiff_t parent;       /* the front that gets what the last one leaves */
    ptrdiff_t first_border; /* in `border` */
    int turned;             /* whether it is eliminated against the direction of the others */
} kkt_chain;

/* Options of the elimination. */
typedef struct {
    int reversed; /* from the first stage to the last, instead of backwards */
    int threads;  /* at most, where they save time */
    int one_way;  /* all parts of a chain in that direction, instead of the last one turned */
    int parts;    /* so many if there are as many fronts, whether or not they save time; 0: by time */
} kkt_way;

/* More threads than save time: each part costs a front of its separator, on one thread. */
#define KKT_MOST_PARTS 256

typedef struct {
    int n;
    ptrdiff_t n_entries;
    ptrdiff_t n_fronts;  /* the last one is the root: the border of all */
    kkt_front *fronts;   /* n_fronts + 1: the last one only marks ends */
    int *order;          /* unknowns in the order of elimination, n */
    ptrdiff_t *carried;  /* places in `order` that fronts carry, each front's in ascending order */
    int n_chains;
    kkt_chain *chains;   /* n_chains + 1: the last one only marks ends */
    int n_parts;
    ptrdiff_t part[KKT_MOST_PARTS + 1]; /* its first front; those of separators and root are of none */
    int n_border;        /* unknowns of separators and root */
    int n_separators;    /* of these, the first ones */
    int *border;         /* per chain: numbers among them */
    int32_t *start;      /* of the entries below the diagonal of each column, in the order of
                            elimination, n + 1 */
    int32_t *source;     /* their numbers in the matrix, and KKT_AHEAD zeros */
    uint16_t *place;     /* their rows in the front of the column, without delayed rows */
    int max_rows;        /* of a front, without delayed rows */
    double operations;   /* of a factorisation without delays */
    double factor_bytes; /* forecast */
    uint64_t key[2];     /* of the pattern */
    atomic_int owners;   /* who will free it */
    int hinted;          /* whether the stages were given */
    kkt_way way;         /* as asked for */
} kkt_plan;

/* Operations to eliminate q pivots from a front of m rows. */
static inline double kkt_operations(double q, double m) {
    return q * m * m - q * (q - 1.0) * m + (q - 1.0) * q * (2.0 * q - 1.0) / 6.0;
}

/* Analyse the pattern of the entries (row[k], column[k]), counted from 1, either triangle,
 * duplicates are summed. `stage` (n, may be NULL) says the stage of each unknown, KKT_BORDER or
 * KKT_UNKNOWN. Unknowns that couple stages far apart are carried from front to front or go to the
 * border, whichever costs less; if fronts become too large, stages are found from the pattern.
 * Fronts of more than max_rows rows are not supported. Returns a status. */
int kkt_analyse(int n, ptrdiff_t n_entries, const int *row, const int *column, const int *stage,
                kkt_way way, int max_rows, kkt_plan **plan);
/* A plan does not change and can have several owners, each of which frees it once. */
kkt_plan *kkt_share_plan(kkt_plan *plan);
void kkt_free_plan(kkt_plan *plan);
void kkt_pattern_key(int n, ptrdiff_t n_entries, const int *row, const int *column,
                     const int *stage, uint64_t key[2]);

/* Finds stages from the pattern alone by breadth-first levels: fills stage (n). Returns a status. */
int kkt_find_stages(int n, ptrdiff_t n_entries, const int *row, const int *column, int *stage);

/* A matrix as IPOPT hands it over: entries counted from 1, either triangle, duplicates are summed. The
 * last n_multipliers unknowns, if that is not 0, are multipliers and are to have as many negative
 * eigenvalues: a factorisation that meets more ends there. */
typedef struct {
    int n;
    ptrdiff_t n_entries;
    const int *row, *column;
    const double *values;
    int n_multipliers;
} kkt_matrix;

/* -- numbers ------------------------------------------------------------------------------------ */

/* The eliminated columns of one front. */
typedef struct {
    int n_rows, n_pivots;
    double *d;   /* inverse of D: (2, n_pivots); see dense.h */
    double *l;   /* columns of L, see dense.h */
    int *rows;   /* unknowns of the rows, n_rows */
} kkt_block;

typedef struct kkt_chunk kkt_chunk;

/* Memory of the blocks of one part. */
typedef struct {
    kkt_chunk *first, *now;
    size_t least; /* bytes of a chunk */
} kkt_arena;

typedef struct {
    const kkt_plan *plan;
    kkt_block *blocks;     /* n_fronts */
    int n_arenas;
    kkt_arena *arenas;     /* of the parts of the plan */
    double *scale;         /* of the rows in the order of elimination, n; see set_scales in factor.c */
    ptrdiff_t negative;    /* eigenvalues */
    ptrdiff_t delayed;     /* columns that were delayed, each time counted */
    ptrdiff_t turned;      /* of these, in chains that are turned */
    ptrdiff_t pairs;       /* pivots of order 2 */
    double operations;     /* of the longest part, and of what follows */
    int max_rows;          /* of a front */
    double *seconds;       /* of processors, for each part; and for what one thread does alone */
    ptrdiff_t bad_entry;   /* the first one that is not finite, or -1 */
    int ready;             /* whether the last factorisation succeeded */
    double bytes;          /* of the factors */
} kkt_factors;

int kkt_new_factors(const kkt_plan *plan, kkt_factors **factors);
void kkt_free_factors(kkt_factors *factors);

/* Tolerances of a pivot's quality: what its elimination adds to the scaled matrix, whose entries are at
 * most 1, is at most 1/quality. With KKT_QUALITY for both, backward errors are mostly below 1e-13
 * (1e-7 in degenerate cases, before refinement); ten or a hundred times more delays many columns and
 * searches long for the others: twice the time. */
#define KKT_QUALITY 1e-4
typedef struct {
    double accept; /* taken at once */
    double least;  /* the best one is taken if it is at least so good, else delayed */
    double faint;  /* one that is less, beside what was subtracted from its column, makes the matrix
                      singular; 0: only a column that is rounding does */
} kkt_tolerance;

/* The pattern must be that of the plan. As many threads are used as the plan has parts; what they find
 * depends on the plan only. */
int kkt_factorise(kkt_factors *factors, const kkt_matrix *a, kkt_tolerance tolerance);

/* x := A^-1 x for so many vectors side by side, (n, n_sides). Returns KKT_SINGULAR without a
 * factorisation. */
int kkt_solve(kkt_factors *factors, int n_sides, double *x);

/* The entries of A^-1 for so many different unknowns, (count, count). Parameters are eliminated last,
 * so that only the end of the factors is read for them. */
int kkt_inverse(kkt_factors *factors, int count, const int *unknowns, double *inverse);

/* log |det A|; its sign is that of (-1)^negative. NaN without a factorisation. */
double kkt_log_determinant(const kkt_factors *factors);

/* values[e] := the entry of A^-1 at row[e], column[e], counted from 0. Both unknowns must be rows of
 * one front, as those of each entry of A are, or of a front and the next; else NaN. For all of the
 * pattern it takes one or two times as long as a factorisation, and it tells the more digits the
 * better the pivots are: with qualities of 0.1 and 0.01 about as many as solutions have. */
int kkt_inverse_entries(const kkt_factors *factors, ptrdiff_t count, const int *row,
                        const int *column, double *values);

/* |b - A x| / (|A| |x| + |b|) in the maximum norm; r (n) gets b - A x. */
double kkt_backward_error(const kkt_matrix *a, const double *x, const double *b, double *r);

/* r := r - A x for so many vectors side by side, (n, count) each. */
void kkt_subtract(const kkt_matrix *a, int count, const double *x, double *r);

/* x' A x of so many vectors side by side, (n, count), added to value (count), and |x|' |A| |x|, the
 * sizes of their terms, to size. */
void kkt_forms(const kkt_matrix *a, int count, const double *x, double *value, double *size);

/* Moves scale (n) by sweeps over the entries until the largest one of each scaled row is near 1 (Ruiz
 * 2001, A scaling algorithm to equilibrate both rows and columns norms in matrices, RAL-TR-2001-034). */
int kkt_equilibrate(const kkt_matrix *a, int sweeps, double *scale);

#endif
