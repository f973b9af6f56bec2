/* The factorisation: from front to front along each chain, then the separators and the root. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "team.h"
#include "walk.h"

#define RELAXED 1e-6          /* quality of pivots where many columns are delayed */
#define FEW 2                 /* delays that are welcome, beside a quarter of the pivots */
#define SOME 8                /* delays that are borne, beside half of the pivots and carried rows */
#define MANY 500              /* delays that are too many, beside three times pivots and carried rows */
#define BORDER_GROWTH 1e-2    /* least scale of a border row, in what its entries alone would give */

/* One factorisation, by several threads. */
typedef struct {
    kkt_factors *factors;
    const kkt_matrix *matrix;
    kkt_tolerance tolerance;
    double *border; /* of each part, the largest entries of separators and border, and of one front */
    walk *walks; /* of the parts; the first one goes on with separators and root */
    double together; /* seconds of the calling thread with parts, its own or those of others */
} work;

static ptrdiff_t border_room(const kkt_plan *p) { return (ptrdiff_t)p->n_border + p->max_rows; }

/* Of this thread, on whatever processor; others do not count. */
static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* All parts, and the time of the calling thread in them: what it does besides, it does alone. */
static void in_team(work *job, void (*part)(void *, int)) {
    const double begin = seconds();
    kkt_team(job->factors->plan->n_parts, part, job);
    job->together += seconds() - begin;
}

/* -- scales ------------------------------------------------------------------------------------- */

static inline void raise(double *most, double size) { *most = size > *most ? size : *most; }

/* The largest entries of rows, from the columns of one front; `most` of its first pivot and `border` of
 * separators and border get them, `rows` is room for the front's own. Returns 0, or NaN after a value
 * that is not finite. */
static double look_through(const kkt_plan *p, const kkt_front *s, const double *values, double *most,
                           double *border, double *rows) {
    const int near = s->n_pivots + s->n_next, far = near + s->n_carried, all = far + s->n_border;
    const ptrdiff_t *carried = p->carried + s->first_carried;
    const int *numbers = p->border + p->chains[s->chain].first_border;
    const int32_t *start = p->start + s->first_pivot, *source = p->source + start[0];
    const uint16_t *place = p->place + start[0];
    double check = 0.0;
    for (int r = 0; r < all; r++) rows[r] = 0.0;
    for (int c = 0; c < s->n_pivots; c++) {
        double column = 0.0, its_check = 0.0;
        for (const int32_t *end = p->source + start[c + 1]; source < end; source++, place++) {
            const double value = values[*source];
            __builtin_prefetch(values + source[KKT_AHEAD]);
            raise(&column, fabs(value));
            raise(rows + *place, fabs(value));
            its_check += value * 0.0;
        }
        raise(rows + c, column);
        check += its_check;
    }
    for (int r = 0; r < near; r++) raise(most + r, rows[r]);
    for (int r = near; r < far; r++) raise(most + (carried[r - near] - s->first_pivot), rows[r]);
    for (int r = far; r < all; r++) raise(border + numbers[r - far], rows[r]);
    return check;
}

/* Those of a part, which are nobody else's, and what it knows of separators and border; the first one
 * has theirs, too. */
static void find_largest(void *of, int k) {
    const work *job = of;
    const kkt_plan *p = job->factors->plan;
    const double *values = job->matrix->values;
    const kkt_front *first = p->fronts + p->part[k], *end = p->fronts + p->part[k + 1];
    const kkt_front *last = p->fronts + p->part[p->n_parts], *all = p->fronts + p->n_fronts;
    double *most = job->factors->scale, *border = job->border + (ptrdiff_t)k * border_room(p);
    double *rows = border + p->n_border, check = 0.0;
    const double begin = seconds();
    memset(most + first->first_pivot, 0,
           (size_t)(end->first_pivot - first->first_pivot) * sizeof *most);
    for (const kkt_front *s = first; s < end; s++)
        check += look_through(p, s, values, most + s->first_pivot, border, rows);
    for (const kkt_front *s = last; k == 0 && s < all; s++)
        check += look_through(p, s, values, border + (s->first_pivot - last->first_pivot), border, rows);
    job->walks[k].status = check == 0.0 ? KKT_OK : KKT_NOT_FINITE;
    job->factors->seconds[k] = seconds() - begin;
}

/* Scales 1/sqrt(largest entry of the row), with which no entry is above 1, in the place of these. They
 * decide on pivots only, nothing is scaled: a weight of 1e6 on a measurement must not make all else
 * look like rounding. More rounds (Ruiz 2001) take their time and delay more columns. */
static void set_scales(double *scale, ptrdiff_t first, ptrdiff_t end) {
    for (ptrdiff_t k = first; k < end; k++) {
        const double most = scale[k];
        scale[k] = most > 0.0 ? 1.0 / sqrt(most) : 1.0;
    }
}

/* All scales of separators and border; those of parts can then be set. */
static void find_scales(work *job) {
    const kkt_plan *p = job->factors->plan;
    double *most = job->factors->scale + (p->n - p->n_border);
    in_team(job, find_largest);
    memcpy(most, job->border, (size_t)p->n_border * sizeof *most);
    for (int k = 1; k < p->n_parts; k++)
        for (int b = 0; b < p->n_border; b++)
            raise(most + b, job->border[(ptrdiff_t)k * border_room(p) + b]);
    set_scales(job->factors->scale, p->n - p->n_border, p->n);
}

/* What the stages tell about a parameter adds up, to far more than the entries of its row: here that
 * counts as its size. Not without end, or one bad pivot would excuse the next. */
static void widen_border(const kkt_plan *p, const kkt_front *s, front *f) {
    const int *border = p->border + p->chains[s->chain].first_border;
    for (int k = 0, r = f->n_rows - s->n_border; k < s->n_border; k++, r++) {
        const double size = fabs(column_of(f, r)[r]), own = f->scale[r];
        if (border[k] >= p->n_separators && size * own * own > 1.0)
            f->scale[r] = fmax(1.0 / sqrt(size), BORDER_GROWTH * own);
    }
}

/* -- one front ---------------------------------------------------------------------------------- */

/* Copies the eliminated columns out of the front. */
static int keep(walk *w, const front *f, kkt_block *b) {
    const int q = f->n_pivots;
    const size_t length = (size_t)trapezoid(f->n_rows, q);
    double *to = kkt_take(w->arena, (length + 2 * (size_t)q) * sizeof(double) +
                                        (size_t)f->n_rows * sizeof(int));
    if (to == NULL) return KKT_NO_MEMORY;
    *b = (kkt_block){.n_rows = f->n_rows, .n_pivots = q, .l = to, .d = to + length};
    b->rows = (int *)(b->d + 2 * q);
    for (size_t k = 0; k < length; k += LANES) __builtin_prefetch(to + length + 2 * q + k, 1);
    w->dense->keep(f, to);
    memcpy(b->d, f->d, 2 * (size_t)q * sizeof(double));
    memcpy(b->rows, f->rows, (size_t)f->n_rows * sizeof(int));
    w->negative += f->negative;
    w->pairs += f->pairs;
    if (f->n_rows > w->max_rows) w->max_rows = f->n_rows;
    return KKT_OK;
}

/* Pivots of a front. Delays cost rows in the next one: where they become many, less is asked for. */
static int eliminate_front(walk *w, const kkt_front *s, kkt_tolerance tolerance) {
    const kkt_tolerance relaxed = {tolerance.accept, RELAXED, tolerance.faint};
    front *f = &w->here;
    if (w->dense->eliminate(f, tolerance)) return KKT_SINGULAR;
    if (delayed(f) > FEW + s->n_pivots / 4 && s->n_border > 0 && !w->wide) {
        w->wide = 1; /* from now on: one stage is like the next */
        widen_border(w->plan, s, f);
        if (w->dense->eliminate(f, tolerance)) return KKT_SINGULAR;
    }
    const int borne = SOME + (s->n_pivots + s->n_carried) / 2;
    if (delayed(f) > borne && w->dense->eliminate(f, relaxed)) return KKT_SINGULAR;
    return delayed(f) > MANY + 3 * (s->n_pivots + s->n_carried) ? KKT_DELAYED : KKT_OK;
}

/* Whether the variables of a chain, so far, already make more eigenvalues negative than all multipliers
 * that they meet may: those that are eliminated and those that the front still has. If the whole matrix
 * has the inertia of a minimum so has that of some variables with all their multipliers (its reduced
 * Hessian is a block of the whole one), and rows that are left out add none. */
static int too_many_negative(walk *w, const front *f, const kkt_matrix *a) {
    const int first = a->n - a->n_multipliers;
    int left = 0;
    w->surplus += f->negative;
    for (int r = 0; r < f->n_pivots; r++) w->surplus -= f->rows[r] >= first;
    for (int r = f->n_pivots; r < f->n_rows; r++) left += f->rows[r] >= first;
    return w->surplus > left;
}

/* One front of a chain. */
static int do_front(walk *w, const work *job, ptrdiff_t number) {
    const kkt_plan *p = w->plan;
    const kkt_front *s = p->fronts + number;
    const kkt_chain *chain = p->chains + s->chain;
    front *f = &w->here;
    if (number == chain->first) w->wide = 0, w->surplus = 0;
    int status = kkt_assemble(w, number);
    if (status != KKT_OK) return status;
    if (w->wide) widen_border(p, s, f);
    status = eliminate_front(w, s, job->tolerance);
    if (status != KKT_OK) return status;
    if (w->where == NULL && job->matrix->n_multipliers > 0 && too_many_negative(w, f, job->matrix))
        return KKT_INERTIA;
    w->dense->schur(f);
    w->delayed += delayed(f);
    w->turned += chain->turned ? delayed(f) : 0;
    w->operations += kkt_operations(f->n_pivots, f->n_rows);
    if (keep(w, f, job->factors->blocks + number) != KKT_OK) return KKT_NO_MEMORY;
    if (s[1].chain != s->chain) return kkt_leave(w, number);
    const front swap = w->before;
    w->before = w->here;
    w->here = swap;
    return KKT_OK;
}

static int do_root(walk *w, const work *job) {
    const kkt_tolerance any = {0.01, 0.0, job->tolerance.faint}; /* nothing is left to delay to */
    const ptrdiff_t number = w->plan->n_fronts - 1;
    const int status = kkt_assemble(w, number);
    if (status != KKT_OK) return status;
    if (w->dense->eliminate(&w->here, any)) return KKT_SINGULAR;
    return keep(w, &w->here, job->factors->blocks + number);
}

/* -- all fronts --------------------------------------------------------------------------------- */

static void do_part(void *of, int k) {
    const work *job = of;
    const kkt_plan *p = job->factors->plan;
    walk *w = job->walks + k;
    const double begin = seconds();
    set_scales(job->factors->scale, p->fronts[p->part[k]].first_pivot,
               p->fronts[p->part[k + 1]].first_pivot);
    w->status = kkt_begin_walk(w);
    for (ptrdiff_t f = p->part[k]; f < p->part[k + 1] && w->status == KKT_OK; f++)
        w->status = do_front(w, job, f);
    if (k > 0) kkt_end_walk(w);
    job->factors->seconds[k] += seconds() - begin;
}

/* Separators and root, in the buffers of the first part. */
static void do_rest(const work *job) {
    const kkt_plan *p = job->factors->plan;
    walk *w = job->walks;
    w->where = malloc(((size_t)p->n_border + 1) * sizeof *w->where);
    if (w->where == NULL) w->status = KKT_NO_MEMORY;
    for (ptrdiff_t f = p->part[p->n_parts]; f + 1 < p->n_fronts && w->status == KKT_OK; f++)
        w->status = do_front(w, job, f);
    if (w->status == KKT_OK) w->status = do_root(w, job);
}

/* What the parts found, together. */
static void sum_up(const work *job) {
    kkt_factors *f = job->factors;
    f->negative = f->delayed = f->turned = f->pairs = 0;
    f->operations = f->bytes = 0.0;
    f->max_rows = 0;
    for (int k = 0; k < f->plan->n_parts; k++) {
        const walk *w = job->walks + k;
        f->negative += w->negative;
        f->delayed += w->delayed;
        f->turned += w->turned;
        f->pairs += w->pairs;
        f->operations = fmax(f->operations, w->operations);
        f->max_rows = w->max_rows > f->max_rows ? w->max_rows : f->max_rows;
        f->bytes += kkt_arena_bytes(f->arenas + k);
    }
}

static ptrdiff_t first_bad(const kkt_plan *p, const double *values) {
    for (ptrdiff_t e = 0; e < p->n_entries; e++)
        if (!isfinite(values[e])) return e;
    return -1;
}

/* How the parts ended: as the first that failed, as if one thread had done all, but that values which
 * are not finite count more than what they, or others, did elsewhere. */
static int ended(const work *job) {
    int status = KKT_OK;
    for (int k = 0; k < job->factors->plan->n_parts; k++) {
        const int its = job->walks[k].status;
        if (status == KKT_OK || its == KKT_NOT_FINITE) status = its;
    }
    return status;
}

static int factorise(work *job, kkt_rest *rests) {
    kkt_factors *factors = job->factors;
    const kkt_plan *p = factors->plan;
    for (int k = 0; k < p->n_parts; k++) {
        kkt_take_again(factors->arenas + k);
        job->walks[k] = (walk){.plan = p, .dense = kkt_dense_routines(), .rests = rests,
                               .values = job->matrix->values, .scale = factors->scale,
                               .arena = factors->arenas + k};
    }
    find_scales(job);
    int status = ended(job);
    if (status == KKT_OK) in_team(job, do_part);
    if (status == KKT_OK) status = ended(job);
    if (status == KKT_OK) {
        do_rest(job);
        status = job->walks->status;
    }
    kkt_end_walk(job->walks);
    sum_up(job);
    for (int c = 0; c < p->n_chains; c++) free(rests[c].values);
    return status;
}

int kkt_factorise(kkt_factors *factors, const kkt_matrix *a, kkt_tolerance tolerance) {
    const kkt_plan *p = factors->plan;
    const double begin = seconds();
    work job = {.factors = factors, .matrix = a, .tolerance = tolerance};
    kkt_rest *rests = calloc((size_t)p->n_chains + 1, sizeof *rests);
    job.walks = malloc((size_t)p->n_parts * sizeof *job.walks);
    job.border = calloc((size_t)p->n_parts * (size_t)border_room(p) + 1, sizeof *job.border);
    int status = rests && job.walks && job.border ? KKT_OK : KKT_NO_MEMORY;
    if (status == KKT_OK) status = factorise(&job, rests);
    free(rests);
    free(job.walks);
    free(job.border);
    factors->seconds[p->n_parts] = seconds() - begin - job.together;
    factors->bad_entry = status == KKT_NOT_FINITE ? first_bad(p, a->values) : -1;
    factors->ready = status == KKT_OK;
    return status;
}
