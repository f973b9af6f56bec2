/* The determinant, and chosen entries of the inverse, from the factors.
 *
 * The entries of Z = A^-1 at the rows of a front follow from those at the rows that it leaves, which
 * all lie in the next front of its chain, or in the parent of the chain: from the root on, backwards
 * along each chain, in linear time; they are held of the root and separators, and of no more than two
 * other fronts of each part (Takahashi, Fagan, Chen
 * 1973, Formation of a sparse bus impedance matrix and its application to short circuit study; Erisman,
 * Tinney 1975, On computing certain elements of the inverse of a sparse matrix, Communications of the
 * ACM 18).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dense_types.h"
#include "team.h"

/* Of the product of all pivots, as a fraction times a power of two: a sum of as many logarithms takes
 * longer, and has their rounding. */
double kkt_log_determinant(const kkt_factors *factors) {
    if (!factors->ready) return NAN;
    double product = 1.0, twos = 0.0;
    for (ptrdiff_t k = 0; k < factors->plan->n_fronts; k++) {
        const kkt_block *b = factors->blocks + k;
        for (int t = 0; t < b->n_pivots; t++) {
            const double *d = b->d + 2 * t;
            int exponent;
            if (d[1] == 0.0) {
                product *= d[0];
            } else {
                product *= d[0] * d[2] - d[1] * d[1];
                t++;
            }
            product = frexp(product, &exponent);
            twos += exponent;
        }
    }
    return -log(fabs(product)) - twos * log(2.0);
}

/* -- what is asked for -------------------------------------------------------------------------- */

/* Entries by the front in which one of their unknowns is a pivot and the other a row. */
typedef struct {
    ptrdiff_t *start;      /* n_fronts + 1, in entry */
    ptrdiff_t *entry;      /* their numbers */
    unsigned char *wanted; /* n_fronts: whether a front, or one before it in its chain, has any */
} agenda;

static void drop(agenda *a) {
    free(a->start);
    free(a->entry);
    free(a->wanted);
}

/* The front that eliminates each unknown. */
static ptrdiff_t *owners(const kkt_factors *factors) {
    ptrdiff_t *owner = malloc((size_t)factors->plan->n * sizeof *owner);
    for (ptrdiff_t k = 0; owner != NULL && k < factors->plan->n_fronts; k++) {
        const kkt_block *b = factors->blocks + k;
        for (int t = 0; t < b->n_pivots; t++) owner[b->rows[t]] = k;
    }
    return owner;
}

static int plan_entries(const kkt_factors *factors, ptrdiff_t count, const int *row,
                        const int *column, agenda *a) {
    const kkt_plan *p = factors->plan;
    ptrdiff_t *owner = owners(factors);
    a->start = calloc((size_t)p->n_fronts + 2, sizeof *a->start);
    a->entry = malloc((size_t)(count > 0 ? count : 1) * sizeof *a->entry);
    a->wanted = malloc((size_t)p->n_fronts);
    const int made = owner && a->start && a->entry && a->wanted;
    if (made) {
        ptrdiff_t *start = a->start + 1; /* counts, then begins, then ends */
        for (ptrdiff_t e = 0; e < count; e++) {
            const ptrdiff_t i = owner[row[e]], j = owner[column[e]];
            start[(i < j ? i : j) + 1]++;
        }
        for (ptrdiff_t k = 0; k < p->n_fronts; k++) {
            const int follows = k > p->chains[p->fronts[k].chain].first;
            a->wanted[k] = start[k + 1] > 0 || (follows && a->wanted[k - 1]);
            start[k + 1] += start[k];
        }
        for (ptrdiff_t e = 0; e < count; e++) {
            const ptrdiff_t i = owner[row[e]], j = owner[column[e]];
            a->entry[start[i < j ? i : j]++] = e;
        }
    }
    free(owner);
    return made ? KKT_OK : KKT_NO_MEMORY;
}

/* -- the walk ----------------------------------------------------------------------------------- */

/* One part of the fronts. */
typedef struct {
    const kkt_factors *factors;
    const kkt_dense *dense;
    double *here, *before; /* Z of fronts, columns padded(n_rows) apart */
    int *place;            /* n: of unknowns, the row in the front that was last looked at */
    const kkt_block *next; /* the front that has what this one leaves, */
    const double *given;   /* its Z, */
    int *from;             /* and its rows of what this one leaves */
    double *side;          /* a column */
} walk;

static double *new_front(int rows) {
    const size_t size = (size_t)padded(rows + 1) * (size_t)(rows + 1) * sizeof(double);
    double *z = aligned_alloc(64, size);
    if (z != NULL) memset(z, 0, size);
    return z;
}

static int begin(walk *w) {
    const int rows = w->factors->max_rows;
    w->here = new_front(rows);
    w->before = new_front(rows);
    w->place = calloc((size_t)w->factors->plan->n, sizeof *w->place);
    w->from = malloc((size_t)(rows + 1) * sizeof *w->from);
    w->side = aligned_alloc(64, (size_t)padded(rows + 1) * sizeof *w->side);
    return w->here && w->before && w->place && w->from && w->side ? KKT_OK : KKT_NO_MEMORY;
}

static void end(walk *w) {
    free(w->here);
    free(w->before);
    free(w->place);
    free(w->from);
    free(w->side);
}

static void look_at(walk *w, const kkt_block *b) {
    for (int r = 0; r < b->n_rows; r++) w->place[b->rows[r]] = r;
}

/* Copies into `z` what a front leaves from the one that has it. */
static void hand_back(walk *w, const kkt_block *b, double *z) {
    const ptrdiff_t ld = padded(b->n_rows), their_ld = padded(w->next->n_rows);
    const int q = b->n_pivots, left = b->n_rows - q;
    look_at(w, w->next);
    for (int r = 0; r < left; r++) w->from[r] = w->place[b->rows[q + r]];
    for (int c = 0; c < left; c++) {
        const double *theirs = w->given + w->from[c] * their_ld;
        double *column = z + (q + c) * ld;
        for (int r = 0; r < left; r++) column[q + r] = theirs[w->from[r]];
        for (ptrdiff_t r = b->n_rows; r < ld; r++) column[r] = 0.0;
    }
}

/* What is asked for, and where it goes. */
typedef struct {
    const int *row, *column;
    double *values;
} request;

/* The row of a block in which an unknown is, or -1; the block must be the one last looked at. */
static int row_of(const walk *w, const kkt_block *b, int unknown) {
    const int r = w->place[unknown];
    return r < b->n_rows && b->rows[r] == unknown ? r : -1;
}

/* Entries of a front; returns how many have an unknown that is not there, whose values are NaN. */
static int deliver(walk *w, const kkt_block *b, const double *z, const agenda *a, ptrdiff_t k,
                   const request *to) {
    int missing = 0;
    if (a->start[k] < a->start[k + 1]) look_at(w, b);
    for (ptrdiff_t n = a->start[k]; n < a->start[k + 1]; n++) {
        const ptrdiff_t e = a->entry[n];
        const int i = row_of(w, b, to->row[e]), j = row_of(w, b, to->column[e]);
        const int both = i >= 0 && j >= 0;
        to->values[e] = both ? z[(ptrdiff_t)j * padded(b->n_rows) + i] : NAN;
        missing += !both;
    }
    return missing;
}

/* The pivot of a block that an unknown is, or -1. */
static int pivot_of(const kkt_block *b, int unknown) {
    for (int t = 0; t < b->n_pivots; t++)
        if (b->rows[t] == unknown) return t;
    return -1;
}

/* Entries of a pivot of a front and a row of the next one that is not in this: as by a backward solve
 * with that column of the inverse. */
static void deliver_across(walk *w, const kkt_block *b, const agenda *a, ptrdiff_t k,
                           const request *to) {
    const int q = b->n_pivots;
    int solved = -1;
    look_at(w, w->next);
    for (ptrdiff_t n = a->start[k]; n < a->start[k + 1]; n++) {
        const ptrdiff_t e = a->entry[n];
        if (!isnan(to->values[e])) continue;
        const int first = pivot_of(b, to->row[e]);
        const int j = first < 0 ? to->row[e] : to->column[e], c = row_of(w, w->next, j);
        if (c < 0) continue;
        if (j != solved) {
            const double *theirs = w->given + (ptrdiff_t)c * padded(w->next->n_rows);
            memset(w->side, 0, (size_t)padded(b->n_rows) * sizeof *w->side);
            for (int r = q; r < b->n_rows; r++) w->side[r] = theirs[w->from[r - q]];
            w->dense->backward(b, w->side);
            solved = j;
        }
        to->values[e] = w->side[first < 0 ? pivot_of(b, to->column[e]) : first];
    }
}

/* The front that has what one leaves: the next one, or the parent of its chain. */
static ptrdiff_t follower(const kkt_plan *p, ptrdiff_t k) {
    const kkt_front *s = p->fronts + k;
    return s[1].chain == s->chain ? k + 1 : p->chains[s->chain].parent;
}

/* Z of a front into `z`, from that of the one that has what it leaves. */
static void do_front(walk *w, const agenda *a, ptrdiff_t k, const request *to, const double *given,
                     double *z) {
    const kkt_block *b = w->factors->blocks + k;
    w->next = w->factors->blocks + follower(w->factors->plan, k);
    w->given = given;
    hand_back(w, b, z);
    w->dense->inverse(b, z);
    if (deliver(w, b, z, a, k, to)) deliver_across(w, b, a, k, to);
}

/* What all parts of a call share. */
typedef struct {
    const kkt_factors *factors;
    const agenda *agenda;
    const request *to;
    double **last; /* Z of separators and root, by their number from the first one */
    int *status;   /* of each part */
} work;

static void do_part(void *of, int part) {
    const work *job = of;
    const kkt_plan *p = job->factors->plan;
    walk w = {.factors = job->factors, .dense = kkt_dense_routines()};
    job->status[part] = begin(&w);
    for (ptrdiff_t k = p->part[part + 1]; k-- > p->part[part] && job->status[part] == KKT_OK;) {
        if (!job->agenda->wanted[k]) continue;
        const ptrdiff_t next = follower(p, k), inner = p->part[p->n_parts];
        do_front(&w, job->agenda, k, job->to, next < inner ? w.before : job->last[next - inner],
                 w.here);
        double *swap = w.before;
        w.before = w.here;
        w.here = swap;
    }
    end(&w);
}

/* Root and separators, which are kept. */
static int do_last(const work *job) {
    const kkt_plan *p = job->factors->plan;
    const ptrdiff_t inner = p->part[p->n_parts], root = p->n_fronts - 1;
    walk w = {.factors = job->factors, .dense = kkt_dense_routines()};
    int status = begin(&w);
    for (ptrdiff_t k = root; k >= inner && status == KKT_OK; k--) {
        double *z = job->last[k - inner] = new_front(job->factors->blocks[k].n_rows);
        if (z == NULL) {
            status = KKT_NO_MEMORY;
        } else if (k < root) {
            do_front(&w, job->agenda, k, job->to, job->last[follower(p, k) - inner], z);
        } else {
            w.dense->inverse(job->factors->blocks + k, z);
            deliver(&w, job->factors->blocks + k, z, job->agenda, k, job->to);
        }
    }
    end(&w);
    return status;
}

static int do_all(const work *job) {
    const kkt_plan *p = job->factors->plan;
    int status = do_last(job);
    if (status == KKT_OK) {
        kkt_team(p->n_parts, do_part, (void *)job);
        for (int k = 0; k < p->n_parts && status == KKT_OK; k++) status = job->status[k];
    }
    return status;
}

int kkt_inverse_entries(const kkt_factors *factors, ptrdiff_t count, const int *row,
                        const int *column, double *values) {
    if (!factors->ready) return KKT_SINGULAR;
    const kkt_plan *p = factors->plan;
    const ptrdiff_t n_last = p->n_fronts - p->part[p->n_parts];
    const request to = {row, column, values};
    agenda a = {0};
    work job = {.factors = factors, .agenda = &a, .to = &to};
    job.last = calloc((size_t)n_last, sizeof *job.last);
    job.status = calloc((size_t)p->n_parts, sizeof *job.status);
    int status = job.last && job.status ? KKT_OK : KKT_NO_MEMORY;
    if (status == KKT_OK) status = plan_entries(factors, count, row, column, &a);
    if (status == KKT_OK) status = do_all(&job);
    for (ptrdiff_t k = 0; job.last != NULL && k < n_last; k++) free(job.last[k]);
    free(job.last);
    free(job.status);
    drop(&a);
    return status;
}
