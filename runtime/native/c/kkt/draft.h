/* Draft of a plan while it is laid out, shared by analyse.c, levels.c and parts.c. */
#ifndef KKT_DRAFT_H
#define KKT_DRAFT_H
#include "kkt.h"

/* Data for the layout of fronts; arrays over unknowns have length n. */
typedef struct {
    int n;
    ptrdiff_t n_entries;
    const int *row, *column; /* from 1 */
    const int *stage;        /* as given or found */
    kkt_way way;
    int max_rows;            /* of a front */
    int reach;               /* levels over which unknowns are coupled without going to the border */
    unsigned longer;         /* lengths of couplings beyond that: bits of their logarithm */
    int *level;              /* number of the front, or KKT_BORDER, or KKT_UNKNOWN */
    int *first;              /* front that touches it first, if it is before its own */
    int *place;              /* among the pivots of its front */
    int *slot;               /* see `order_border` */
    ptrdiff_t *joint;        /* entries of a part and a separator, n_joints */
    ptrdiff_t n_joints, room;
    int n_levels;
    int n_inner;             /* levels of parts; the others are those of separators */
    int n_border;            /* unknowns of separators and of the border */
    kkt_plan *plan;
} draft;

static inline void swap_int(int *a, int *b) {
    int c = *a;
    *a = *b;
    *b = c;
}

/* -- levels.c */

/* Levels from stages. Returns a status. */
int kkt_settle_levels(draft *a);

/* The unknowns without a stage (multipliers, slacks) go to the first level that they touch; those that
 * touch levels further apart than `reach` go to the border. Returns a status. */
int kkt_place_unknown(draft *a);

/* Numbers the levels that are used 0, 1, ..., and `marks`, numbers of levels, likewise. Returns a
 * status. */
int kkt_compress_levels(draft *a, int n_marks, int *marks);

int kkt_top_stage(const draft *a);

/* -- parts.c */

/* Cuts of the levels of a plan of one part. */
typedef struct {
    int n;                         /* parts */
    int begin[KKT_MOST_PARTS + 1]; /* their first levels, and the end */
    int turned[KKT_MOST_PARTS];    /* the end of the levels, from the part's first, that are turned, or 0 */
    int within[KKT_MOST_PARTS];    /* whether they begin within a chain */
} kkt_cuts;

/* Cuts for up to way.parts threads; returns how many parts are the fastest. */
int kkt_choose_cuts(const kkt_plan *whole, kkt_way way, kkt_cuts *cuts);

/* Levels with cuts: those of separators come last. Returns a status. */
int kkt_cut_levels(draft *a, const draft *whole, const kkt_cuts *cuts);

#endif
