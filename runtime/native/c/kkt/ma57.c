/* The solver under the names of HSL's MA57, which IPOPT loads from a library of the user's choice
 * (linear_solver=ma57, hsllib=...).
 *
 * MA57's interface is the one that hands over entries as they are, row, column, value, without
 * sorting them first. It has no call for the end of a solve: all state belongs to a session of the
 * thread, which whoever calls IPOPT opens and closes. Without one, IPOPT gets an error.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session.h"
#include "stretch.h"

#define EXPORT __attribute__((visibility("default")))

#define FATAL (-1)           /* in info[0]; 4 means singular */
#define SINGULAR 4
#define PIVOT_TOLERANCE 1e-8 /* IPOPT's start value; it asks for more where that did not suffice */
#define CHECKED_FIRST 3      /* factorisations whose accuracy is checked, and then every ... */
#define CHECKED_EVERY 10
#define REFINE_ABOVE 1e-10   /* backward error */
/* Pivots that make a matrix singular, so that IPOPT adds to the diagonal: with what is no more than
 * rounding its steps would go anywhere where nothing determines them. */
#define FAINT 1e-14
#define MUCH_DELAYED 0.15    /* of all columns: then another way is tried */
#define PATIENCE 8           /* factorisations with parts that are turned in vain */
#define KEEP_BYTES 2.5e8     /* largest analysis that is kept between sessions */

typedef struct {
    kkt_report report;
    kkt_limits limits;
    int *stage; /* n of them, or NULL */
    int n, n_multipliers; /* expected */
    kkt_matrix matrix; /* in IPOPT's arrays */
    kkt_factors *factors;
    double delayed; /* sum over factorisations */
    int compared;   /* whether the other direction was tried: to save time, ... */
    int rescued;    /* ... or as this one did not work */
    int judged;     /* whether parts that are turned were found worth it, or not */
    int threads;
} session;

static _Thread_local session *now;
static _Thread_local kkt_plan *kept; /* frees itself when its thread ends, see `keep` */

/* -- what is kept ------------------------------------------------------------------------------- */

static atomic_int n_kept;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int without_key;

static void forget_plan(void *plan) {
    kkt_free_plan(plan);
    n_kept--;
}

static void make_key(void) { without_key = pthread_key_create(&at_exit, forget_plan); }

/* Keeps a plan in the place of another one; it can be used either way. If it cannot be freed with
 * its thread the session frees it at its end. */
static void keep(kkt_plan *plan) {
    pthread_once(&once, make_key);
    if (plan == kept) return;
    if (kept != NULL) forget_plan(kept);
    kept = plan;
    if (plan != NULL) n_kept++;
    if (!without_key) pthread_setspecific(at_exit, plan);
}

int kkt_kept(void) { return n_kept; }

void kkt_forget(void) { keep(NULL); }

/* -- sessions ----------------------------------------------------------------------------------- */

int kkt_open(int n, int n_stage, const int *stage, int n_multipliers, int threads, kkt_limits limits) {
    kkt_report ignored;
    kkt_close(&ignored);
    now = calloc(1, sizeof *now);
    if (now == NULL) return KKT_NO_MEMORY;
    now->n = n;
    now->n_multipliers = n_multipliers;
    now->limits = limits;
    now->threads = threads;
    now->report.bad_row = now->report.bad_column = -1;
    if (n_stage > 0 && n_stage <= n) {
        now->stage = malloc((size_t)n * sizeof *now->stage);
        if (now->stage == NULL) return KKT_NO_MEMORY;
        memcpy(now->stage, stage, (size_t)n_stage * sizeof *stage);
        for (int v = n_stage; v < n; v++) now->stage[v] = KKT_UNKNOWN;
    }
    return KKT_OK;
}

static double plan_bytes(const kkt_plan *p) {
    const double carried = (double)p->fronts[p->n_fronts - 1].first_carried;
    return 8.0 * ((double)p->n_entries + carried) + 4.0 * p->n +
           (double)sizeof(kkt_front) * (double)p->n_fronts;
}

kkt_factors *kkt_take_factors(kkt_plan **plan) {
    kkt_factors *factors = now == NULL ? NULL : now->factors;
    if (factors == NULL) return NULL;
    now->factors = NULL;
    *plan = kkt_share_plan(kept); /* theirs, see `use_plan` */
    return factors;
}

void kkt_close(kkt_report *report) {
    memset(report, 0, sizeof *report);
    if (now == NULL) return;
    *report = now->report;
    if (report->factorisations > 0) report->delayed = now->delayed / report->factorisations;
    kkt_free_factors(now->factors);
    free(now->stage);
    free(now);
    now = NULL;
    if (kept != NULL && (without_key || plan_bytes(kept) > KEEP_BYTES)) kkt_forget();
}

static int failed(int status) {
    if (now->report.status == KKT_OK) now->report.status = status;
    return FATAL;
}

/* -- analysis ----------------------------------------------------------------------------------- */

static int use_plan(kkt_plan *plan) {
    kkt_free_factors(now->factors);
    now->factors = NULL;
    keep(plan);
    kkt_report *r = &now->report;
    r->hinted = plan->hinted;
    r->reversed = plan->way.reversed;
    r->n_parts = plan->n_parts;
    r->n_fronts = plan->n_fronts;
    return kkt_new_factors(plan, &now->factors);
}

/* Takes the plan that is kept, if it is one of this pattern, else none until there are values. */
static int look_at(int n, int n_entries, const int *row, const int *column) {
    const int *stage = n == now->n ? now->stage : NULL;
    uint64_t key[2];
    kkt_pattern_key(n, n_entries, row, column, stage, key);
    now->matrix = (kkt_matrix){.n = n, .n_entries = n_entries, .row = row, .column = column,
                               .n_multipliers = n == now->n ? now->n_multipliers : 0};
    const int same = kept != NULL && kept->key[0] == key[0] && kept->key[1] == key[1];
    if (same && kept->way.threads == now->threads)
        return kept->max_rows > now->limits.max_rows ? KKT_UNSUPPORTED : use_plan(kept);
    kkt_free_factors(now->factors);
    now->factors = NULL;
    return KKT_OK;
}

/* In which direction is tried on a stretch, where that costs little. */
static int analyse(kkt_tolerance tolerance) {
    const kkt_matrix *a = &now->matrix;
    const int *stage = a->n == now->n ? now->stage : NULL, most = now->limits.max_rows;
    const int tried = stage == NULL ? -1 : kkt_try_stretch(a, stage, most, tolerance, MUCH_DELAYED);
    const kkt_way way = {.threads = now->threads, .reversed = tried > 0, .one_way = tried > 0};
    kkt_plan *plan;
    now->compared = tried >= 0;
    now->report.analyses++;
    const int status = kkt_analyse(a->n, a->n_entries, a->row, a->column, stage, way, most, &plan);
    return status == KKT_OK ? use_plan(plan) : status;
}

/* Whether what another way took is less: operations in the other direction, which takes more of them
 * the more it delays; delays with no part turned, which operations do not show. */
static int takes_less(const kkt_factors *other, const kkt_factors *mine, int so_far) {
    if (so_far != KKT_OK) return 1;
    if (other->plan->way.one_way != mine->plan->way.one_way) return other->delayed < mine->delayed;
    return other->operations < mine->operations;
}

/* If a factorisation delays many columns, another way is tried once, and stays if it takes less; if it
 * delays too many, if the other does not. */
static int try_way(kkt_way way, kkt_tolerance tolerance, int so_far) {
    const kkt_plan *p = kept;
    const int *stage = p->n == now->n ? now->stage : NULL;
    kkt_matrix whole = now->matrix;
    whole.n_multipliers = 0; /* factorised to its end, to be compared */
    kkt_plan *other;
    kkt_factors *factors = NULL;
    now->report.analyses++;
    if (kkt_analyse(p->n, p->n_entries, now->matrix.row, now->matrix.column, stage, way,
                    now->limits.max_rows, &other))
        return so_far; /* it was only an attempt */
    int status = kkt_new_factors(other, &factors);
    if (status == KKT_OK) status = kkt_factorise(factors, &whole, tolerance);
    if (status == KKT_OK && takes_less(factors, now->factors, so_far)) {
        status = use_plan(other);
        kkt_free_factors(now->factors);
        now->factors = factors;
        return status;
    }
    kkt_free_factors(factors);
    kkt_free_plan(other);
    return so_far;
}

/* Whether parts that are turned delay so much that no part should be, after as many factorisations as
 * another analysis costs. */
static int turned_in_vain(const kkt_factors *f) {
    const kkt_plan *p = f->plan;
    if (now->judged || now->report.factorisations < PATIENCE) return 0;
    now->judged = 1;
    return (double)f->turned * p->n_parts > MUCH_DELAYED * p->n;
}

static int factorise(kkt_tolerance tolerance) {
    int status = now->factors == NULL ? analyse(tolerance) : KKT_OK;
    if (status != KKT_OK) return status;
    status = kkt_factorise(now->factors, &now->matrix, tolerance);
    const kkt_plan *p = kept;
    const kkt_factors *f = now->factors;
    kkt_way way = p->way;
    now->report.factorisations++;
    if (status == KKT_OK && turned_in_vain(f)) {
        way.one_way = 1;
        return try_way(way, tolerance, status);
    }
    const double much = MUCH_DELAYED * p->n;
    const int many = now->report.analyses > 0 && (double)(f->delayed - f->turned) > much;
    const int rescue = status == KKT_DELAYED && !now->rescued;
    const int compare = status == KKT_OK && many && !now->compared;
    if (!rescue && !compare) return status;
    now->compared = 1;
    now->rescued |= rescue;
    way.reversed = !way.reversed;
    way.one_way = p->n_parts > 1; /* a part that is turned would take the direction that delays */
    return try_way(way, tolerance, status);
}

static double clock_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* -- MA57 --------------------------------------------------------------------------------------- */

EXPORT void ma57id(double *cntl, int *icntl) {
    memset(cntl, 0, 5 * sizeof *cntl);
    memset(icntl, 0, 20 * sizeof *icntl);
    cntl[0] = PIVOT_TOLERANCE;
}

EXPORT void ma57ad(int *n, int *ne, const int *irn, const int *jcn, int *lkeep, int *keep,
                   int *iwork, int *icntl, int *info, double *rinfo) {
    (void)lkeep, (void)keep, (void)iwork, (void)icntl, (void)rinfo;
    memset(info, 0, 40 * sizeof *info);
    info[8] = info[9] = 1; /* IPOPT's work arrays: not used */
    if (now == NULL) {
        info[0] = FATAL;
        return;
    }
    const int status = look_at(*n, *ne, irn, jcn);
    if (status != KKT_OK) info[0] = failed(status);
}

EXPORT void ma57bd(int *n, int *ne, double *a, double *fact, int *lfact, int *ifact, int *lifact,
                   int *lkeep, int *keep, int *iwork, int *icntl, double *cntl, int *info,
                   double *rinfo) {
    (void)n, (void)ne, (void)fact, (void)lfact, (void)ifact, (void)lifact, (void)lkeep;
    (void)keep, (void)iwork, (void)icntl, (void)rinfo;
    info[0] = 0;
    if (now == NULL || now->report.status != KKT_OK) {
        info[0] = FATAL;
        return;
    }
    now->matrix.values = a;
    const int strict = cntl[0] > PIVOT_TOLERANCE;
    const kkt_tolerance tolerance = {strict ? 0.1 : KKT_QUALITY, strict ? 0.01 : KKT_QUALITY, FAINT};
    const double begin = clock_now();
    const int status = factorise(tolerance);
    const kkt_factors *f = now->factors;
    kkt_report *r = &now->report;
    r->seconds += clock_now() - begin;
    if (f == NULL) {
        info[0] = failed(status);
        return;
    }
    now->delayed += (double)f->delayed;
    if (f->max_rows > r->max_rows) r->max_rows = f->max_rows;
    if (f->bytes > r->bytes) r->bytes = f->bytes;
    info[23] = status == KKT_INERTIA ? now->n_multipliers + 1 : (int)f->negative;
    info[24] = *n;
    if (status == KKT_SINGULAR) {
        info[0] = SINGULAR;
        info[24] = *n - 1;
    } else if (status != KKT_OK && status != KKT_INERTIA) {
        info[0] = failed(status);
    }
    if (status == KKT_NOT_FINITE) {
        r->bad_row = now->matrix.row[f->bad_entry] - 1;
        r->bad_column = now->matrix.column[f->bad_entry] - 1;
    }
}

/* x := A^-1 b with one step of refinement if that was not accurate. */
static int checked_solve(double *x) {
    const int n = now->matrix.n;
    double *b = malloc(2 * (size_t)n * sizeof *b), *r = b + n;
    if (b == NULL) return KKT_NO_MEMORY;
    memcpy(b, x, (size_t)n * sizeof *b);
    int status = kkt_solve(now->factors, 1, x);
    for (int step = 0; step < 2 && status == KKT_OK; step++) {
        const double error = kkt_backward_error(&now->matrix, x, b, r);
        if (error <= fmin(REFINE_ABOVE, now->limits.backward_error)) {
            now->report.backward_error = fmax(now->report.backward_error, error);
            break;
        }
        if (step == 1) {
            now->report.backward_error = error;
            if (!(error <= now->limits.backward_error)) status = KKT_INACCURATE;
            break;
        }
        status = kkt_solve(now->factors, 1, r);
        for (int k = 0; k < n; k++) x[k] += r[k];
    }
    free(b);
    return status;
}

EXPORT void ma57cd(int *job, int *n, double *fact, int *lfact, int *ifact, int *lifact, int *nrhs,
                   double *rhs, int *lrhs, double *work, int *lwork, int *iwork, int *icntl,
                   int *info) {
    (void)job, (void)fact, (void)lfact, (void)ifact, (void)lifact, (void)work, (void)lwork;
    (void)iwork, (void)icntl, (void)n;
    info[0] = 0;
    if (now == NULL || now->factors == NULL) {
        info[0] = FATAL;
        return;
    }
    const int count = now->report.factorisations;
    const int check = count <= CHECKED_FIRST || count % CHECKED_EVERY == 0;
    const double begin = clock_now();
    now->report.solves++;
    int status = check ? checked_solve(rhs) : kkt_solve(now->factors, 1, rhs);
    for (int k = 1; k < *nrhs && status == KKT_OK; k++)
        status = kkt_solve(now->factors, 1, rhs + (ptrdiff_t)k * *lrhs);
    now->report.seconds += clock_now() - begin;
    if (status != KKT_OK) info[0] = failed(status); /* IPOPT stops at the next factorisation */
}

EXPORT void ma57ed(void) {} /* would enlarge work arrays: never asked for */
