/* The factorisation: from front to front along each chain, then the root. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "dense_types.h"

#define RELAXED 1e-6          /* quality of pivots where many columns are delayed */
#define FEW 2                 /* delays that are welcome, beside a quarter of the pivots */
#define SOME 8                /* delays that are borne, beside half of the pivots and carried rows */
#define MANY 500              /* delays that are too many, beside three times pivots and carried rows */
#define BORDER_GROWTH 1e-2    /* least scale of a border row, in what its entries alone would give */
#define CHUNK ((size_t)8 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

/* Memory of the factors: pieces that never move and are used again by the next factorisation. */
struct kkt_chunk {
    kkt_chunk *next;
    size_t size, used; /* bytes of data */
    char *data;
};

/* A dense matrix of the rows that are left when all chains are eliminated: the border, then what was
 * delayed to the end of a chain. Only the lower triangle is filled. */
typedef struct {
    double *values;
    int *rows; /* unknowns */
    int n_rows, capacity;
} root_matrix;

/* Neighbouring rows of one front that are neighbours in the next one too. */
typedef struct {
    int begin, end; /* after the pivots of the front */
    int shift;      /* to their place in the next one */
} run;

typedef struct {
    const kkt_plan *plan;
    const kkt_dense *dense;
    front here, before; /* two buffers that take turns */
    run *runs;          /* of what one front leaves to the next */
    root_matrix root;
    int wide;     /* whether borders are widened, see widen_border */
    double check; /* 0, or NaN after a value that is not finite */
} walk;

/* -- memory ------------------------------------------------------------------------------------- */

static int new_chunk(kkt_factors *f, size_t bytes) {
    const double all = f->plan->factor_bytes;
    size_t size = all < (double)CHUNK ? (size_t)all + 65536 : CHUNK;
    if (size < bytes) size = bytes;
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    kkt_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk == NULL) return KKT_NO_MEMORY;
    chunk->data = aligned_alloc(HUGE_PAGE, size);
    if (chunk->data == NULL) {
        free(chunk);
        return KKT_NO_MEMORY;
    }
#ifdef MADV_HUGEPAGE
    madvise(chunk->data, size, MADV_HUGEPAGE);
#endif
    chunk->size = size;
    f->bytes += (double)size;
    kkt_chunk **end = &f->chunks;
    while (*end != NULL) end = &(*end)->next;
    *end = chunk;
    return KKT_OK;
}

/* Room for one block, in whole cache lines; `chunk` moves on when one is full. */
static void *take(kkt_factors *f, kkt_chunk **chunk, size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    while (*chunk == NULL || (*chunk)->used + bytes > (*chunk)->size) {
        if (*chunk != NULL && (*chunk)->next != NULL) {
            *chunk = (*chunk)->next;
            continue;
        }
        if (new_chunk(f, bytes) != KKT_OK) return NULL;
        *chunk = *chunk == NULL ? f->chunks : (*chunk)->next;
    }
    void *memory = (*chunk)->data + (*chunk)->used;
    (*chunk)->used += bytes;
    return memory;
}

static void free_front(front *f) {
    free(f->values);
    free(f->scaled);
    free(f->d);
    free(f->noise);
    free(f->growth);
    free(f->seen);
    free(f->scale);
    free(f->rows);
    memset(f, 0, sizeof *f);
}

static int allocate_front(front *f, int capacity) {
    const size_t ld = (size_t)padded(capacity);
    free_front(f);
    f->capacity = capacity;
    f->values = aligned_alloc(64, ld * (ld + 3) * sizeof(double));
    f->scaled = aligned_alloc(64, (ld * ld + LANES) * sizeof(double));
    f->d = malloc((2 * ld + 2) * sizeof(double));
    f->noise = malloc(ld * sizeof(double));
    f->growth = malloc(ld * sizeof(double));
    f->seen = malloc(ld * sizeof(int));
    f->scale = aligned_alloc(64, ld * sizeof(double));
    f->rows = malloc(ld * sizeof(int));
    if (!f->values || !f->scaled || !f->d || !f->noise || !f->growth || !f->seen || !f->scale || !f->rows)
        return KKT_NO_MEMORY;
    memset(f->scaled, 0, (ld * ld + LANES) * sizeof(double));
    return KKT_OK;
}

/* Makes room for `rows` in the buffer that is filled next. */
static int reserve(walk *w, int rows) {
    if (rows <= w->here.capacity) return KKT_OK;
    return allocate_front(&w->here, padded(rows + rows / 2));
}

int kkt_new_factors(const kkt_plan *plan, kkt_factors **factors) {
    kkt_factors *f = calloc(1, sizeof *f);
    *factors = NULL;
    if (f == NULL) return KKT_NO_MEMORY;
    f->plan = plan;
    f->bad_entry = -1;
    f->blocks = calloc((size_t)plan->n_fronts, sizeof *f->blocks);
    f->scale = malloc((size_t)plan->n * sizeof *f->scale);
    if (!f->blocks || !f->scale) {
        kkt_free_factors(f);
        return KKT_NO_MEMORY;
    }
    *factors = f;
    return KKT_OK;
}

void kkt_free_factors(kkt_factors *f) {
    if (f == NULL) return;
    for (kkt_chunk *chunk = f->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk->data);
        free(chunk);
    }
    free(f->blocks);
    free(f->scale);
    free(f);
}

/* -- assembly ----------------------------------------------------------------------------------- */

static double *column_of(const front *f, int c) { return f->values + (ptrdiff_t)c * f->ld; }

/* Number of rows that the front before hands on to this one as fully summed: delayed ones. */
static int delayed(const front *f) { return f->full - f->n_pivots; }

/* Sizes and rows of the next front; `waiting` delayed columns come first. */
static int begin_front(walk *w, const kkt_front *s, int waiting) {
    const kkt_plan *p = w->plan;
    front *f = &w->here;
    const int rows = waiting + s->n_pivots + s->n_next + s->n_carried + s->n_border;
    if (reserve(w, rows) != KKT_OK) return KKT_NO_MEMORY;
    f->n_rows = rows;
    f->ld = padded(rows);
    f->full = waiting + s->n_pivots;
    f->n_pivots = f->pairs = f->negative = 0;
    memset(f->values, 0, (size_t)f->ld * (size_t)(rows + 3) * sizeof(double));
    memset(f->noise, 0, (size_t)rows * sizeof(double));
    memset(f->seen, 0, (size_t)f->full * sizeof(int));
    int *to = f->rows + waiting;
    memcpy(to, p->order + s->first_pivot, (size_t)s->n_pivots * sizeof *to);
    to += s->n_pivots;
    if (s->n_next > 0) memcpy(to, p->order + s[1].first_pivot, (size_t)s->n_next * sizeof *to);
    to += s->n_next;
    memcpy(to, p->carried + s->first_carried, (size_t)s->n_carried * sizeof *to);
    to += s->n_carried;
    const int *border = p->border + (s->n_border > 0 ? p->border_start[s->chain] : 0);
    const int *unknowns = p->order + p->fronts[p->n_fronts - 1].first_pivot;
    for (int k = 0; k < s->n_border; k++) to[k] = unknowns[border[k]];
    return KKT_OK;
}

/* Where the rows go that the front before leaves, [delayed | its next | its carried | its border]: the
 * first two are fully summed here and come first, the carried ones are among the next and the carried
 * ones here, in the same order. Returns the number of runs. */
static int find_runs(walk *w, const kkt_front *s) {
    const front *b = &w->before, *f = &w->here;
    const int inner = delayed(b) + s[-1].n_next, left = b->n_rows - b->n_pivots;
    const int border = left - s[-1].n_border, *rows = b->rows + b->n_pivots;
    run *runs = w->runs;
    int n = 0, to = f->full;
    runs[n++] = (run){0, inner, 0};
    for (int r = inner; r < border; r++, to++) {
        while (f->rows[to] != rows[r]) to++;
        if (n == 1 || runs[n - 1].shift != to - r) runs[n++] = (run){r, r, to - r};
        runs[n - 1].end = r + 1;
    }
    runs[n++] = (run){border, left, f->n_rows - s->n_border - border};
    return n;
}

/* The size of what the pivots of a front subtract from one of its columns. */
static double subtracted(const front *f, int c) {
    double most = 0.0;
    for (int t = 0; t < f->n_pivots; t++) {
        const double size = f->growth[t] * fabs(f->scaled[(ptrdiff_t)t * f->ld + c]);
        most = size > most ? size : most;
    }
    return most;
}

/* Keeps the size of what was subtracted from the columns that are not fully summed in the front before,
 * without the border: in the first `n` runs. */
static void add_noise(walk *w, int n) {
    const front *b = &w->before;
    for (const run *mine = w->runs; mine < w->runs + n; mine++)
        for (int c = mine->begin; c < mine->end; c++) {
            const int column = b->n_pivots + c;
            const double size = column < b->full ? 0.0 : subtracted(b, column);
            w->here.noise[c + mine->shift] = fmax(size, b->noise[column]);
        }
}

/* Adds what the front before leaves. */
static void add_contribution(walk *w, const kkt_front *s) {
    const front *b = &w->before;
    front *f = &w->here;
    const int waiting = delayed(b), q = b->n_pivots, n = find_runs(w, s);
    const run *last = w->runs + n;
    for (const run *mine = w->runs; mine < last; mine++)
        for (int c = mine->begin; c < mine->end; c++) {
            const double *from = column_of(b, q + c) + q;
            double *to = column_of(f, c + mine->shift);
            for (int r = c; r < mine->end; r++) to[r + mine->shift] = from[r];
            for (const run *their = mine + 1; their < last; their++)
                for (int r = their->begin; r < their->end; r++) to[r + their->shift] = from[r];
        }
    memcpy(f->rows, b->rows + q, (size_t)waiting * sizeof *f->rows);
    add_noise(w, n - 1);
}

/* Adds the matrix entries of a front, below the diagonal. */
static void add_entries(walk *w, const kkt_front *s, int waiting, const double *values) {
    const kkt_plan *p = w->plan;
    const front *f = &w->here;
    double *first = column_of(f, waiting) + waiting;
    double check = 0.0;
    for (ptrdiff_t e = s->first_entry; e < s[1].first_entry; e++) {
        const double value = values[p->source[e]];
        __builtin_prefetch(values + p->source[e + KKT_AHEAD]);
        first[(ptrdiff_t)(p->place[e] >> 16) * f->ld + (p->place[e] & 0xffff)] += value;
        check += value * 0.0;
    }
    w->check += check;
}

/* Fills the fully summed columns above the diagonal. */
static void mirror(front *f) {
    for (int c = 0; c < f->full; c++) {
        const double *from = column_of(f, c);
        for (int r = c + 1; r < f->full; r++) column_of(f, r)[c] = from[r];
    }
}

/* -- the root ----------------------------------------------------------------------------------- */

static int grow_root(root_matrix *r, int rows) {
    if (rows <= r->capacity) return KKT_OK;
    const int capacity = rows + rows / 2 + 8;
    double *values = calloc((size_t)capacity * (size_t)capacity, sizeof *values);
    int *ids = malloc((size_t)capacity * sizeof *ids);
    if (values == NULL || ids == NULL) {
        free(values);
        free(ids);
        return KKT_NO_MEMORY;
    }
    for (int c = 0; c < r->n_rows; c++)
        memcpy(values + (ptrdiff_t)c * capacity, r->values + (ptrdiff_t)c * r->capacity,
               (size_t)r->n_rows * sizeof *values);
    if (r->n_rows > 0) memcpy(ids, r->rows, (size_t)r->n_rows * sizeof *ids);
    free(r->values);
    free(r->rows);
    r->values = values;
    r->rows = ids;
    r->capacity = capacity;
    return KKT_OK;
}

/* Adds what the last front of a chain leaves: [delayed | border]. */
static int add_to_root(walk *w, const kkt_front *s) {
    const front *f = &w->here;
    root_matrix *r = &w->root;
    const int q = f->n_pivots, waiting = delayed(f), rows = f->n_rows - q, begin = r->n_rows;
    const int *border = w->plan->border + w->plan->border_start[s->chain];
    if (grow_root(r, begin + waiting) != KKT_OK) return KKT_NO_MEMORY;
    if (waiting > 0) memcpy(r->rows + begin, f->rows + q, (size_t)waiting * sizeof *r->rows);
    r->n_rows += waiting;
    for (int c = 0; c < rows; c++) {
        const int to_column = c < waiting ? begin + c : border[c - waiting];
        for (int k = c; k < rows; k++) {
            const int to_row = k < waiting ? begin + k : border[k - waiting];
            const int low = to_row > to_column ? to_row : to_column;
            const int high = to_row > to_column ? to_column : to_row;
            r->values[(ptrdiff_t)high * r->capacity + low] += column_of(f, q + c)[q + k];
        }
    }
    return KKT_OK;
}

static int begin_root(walk *w, const double *values) {
    const kkt_front *s = w->plan->fronts + w->plan->n_fronts - 1;
    const root_matrix *r = &w->root;
    front *f = &w->here;
    if (reserve(w, r->n_rows) != KKT_OK) return KKT_NO_MEMORY;
    f->n_rows = f->full = r->n_rows;
    f->ld = padded(r->n_rows);
    f->n_pivots = f->pairs = f->negative = 0;
    memset(f->values, 0, (size_t)f->ld * (size_t)(r->n_rows + 3) * sizeof(double));
    memset(f->noise, 0, (size_t)r->n_rows * sizeof(double));
    memset(f->seen, 0, (size_t)r->n_rows * sizeof(int));
    if (r->n_rows > 0) memcpy(f->rows, r->rows, (size_t)r->n_rows * sizeof *f->rows);
    for (int c = 0; c < r->n_rows; c++)
        for (int k = c; k < r->n_rows; k++)
            column_of(f, c)[k] = r->values[(ptrdiff_t)c * r->capacity + k];
    add_entries(w, s, 0, values);
    mirror(f);
    return KKT_OK;
}

/* -- scales ------------------------------------------------------------------------------------- */

/* Scales 1/sqrt(largest entry of the row), with which no entry is above 1. They decide on pivots only,
 * nothing is scaled: a weight of 1e6 on a measurement must not make all else look like rounding.
 * More rounds (Ruiz 2001) take their time and delay more columns. */
static void find_scales(kkt_factors *f, const kkt_matrix *a) {
    double *most = f->scale;
    memset(most, 0, (size_t)a->n * sizeof *most);
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        const int i = a->row[e] - 1, j = a->column[e] - 1;
        const double size = fabs(a->values[e]);
        most[i] = size > most[i] ? size : most[i];
        most[j] = size > most[j] ? size : most[j];
    }
    for (int v = 0; v < a->n; v++) f->scale[v] = most[v] > 0.0 ? 1.0 / sqrt(most[v]) : 1.0;
}

static void take_scales(front *f, const double *scale) {
    for (int r = 0; r < f->n_rows; r++) f->scale[r] = scale[f->rows[r]];
    for (int r = f->n_rows; r < f->ld; r++) f->scale[r] = 0.0;
}

/* What the stages tell about a parameter adds up, to far more than the entries of its row: here that
 * counts as its size. Not without end, or one bad pivot would excuse the next. */
static void widen_border(front *f, int n_border) {
    for (int r = f->n_rows - n_border; r < f->n_rows; r++) {
        const double size = fabs(column_of(f, r)[r]), own = f->scale[r];
        if (size * own * own > 1.0) f->scale[r] = fmax(1.0 / sqrt(size), BORDER_GROWTH * own);
    }
}

/* -- the walk ----------------------------------------------------------------------------------- */

/* Copies the eliminated columns out of the front. */
static int keep(kkt_factors *factors, kkt_chunk **chunk, const front *f, kkt_block *b) {
    const int q = f->n_pivots;
    const size_t length = (size_t)trapezoid(f->n_rows, q);
    double *to = take(factors, chunk, (length + 2 * (size_t)q) * sizeof(double) +
                                          (size_t)f->n_rows * sizeof(int));
    if (to == NULL) return KKT_NO_MEMORY;
    *b = (kkt_block){.n_rows = f->n_rows, .n_pivots = q, .l = to, .d = to + length};
    b->rows = (int *)(b->d + 2 * q);
    for (int t = 0; t < q; t++) {
        const int first = (t + 1) / LANES * LANES;
        memcpy(to, column_of(f, t) + first, (size_t)(f->ld - first) * sizeof *to);
        to += f->ld - first;
    }
    memcpy(b->d, f->d, 2 * (size_t)q * sizeof(double));
    memcpy(b->rows, f->rows, (size_t)f->n_rows * sizeof(int));
    factors->negative += f->negative;
    factors->pairs += f->pairs;
    if (f->n_rows > factors->max_rows) factors->max_rows = f->n_rows;
    return KKT_OK;
}

/* Pivots of a front. Delays cost rows in the next one: where they become many, less is asked for. */
static int eliminate_front(walk *w, const kkt_front *s, kkt_tolerance tolerance) {
    const kkt_tolerance relaxed = {tolerance.accept, RELAXED, tolerance.faint};
    front *f = &w->here;
    if (w->dense->eliminate(f, tolerance)) return KKT_SINGULAR;
    if (delayed(f) > FEW + s->n_pivots / 4 && s->n_border > 0 && !w->wide) {
        w->wide = 1; /* from now on: one stage is like the next */
        widen_border(f, s->n_border);
        if (w->dense->eliminate(f, tolerance)) return KKT_SINGULAR;
    }
    const int borne = SOME + (s->n_pivots + s->n_carried) / 2;
    if (delayed(f) > borne && w->dense->eliminate(f, relaxed)) return KKT_SINGULAR;
    return delayed(f) > MANY + 3 * (s->n_pivots + s->n_carried) ? KKT_DELAYED : KKT_OK;
}

/* One front of a chain. */
static int do_front(walk *w, kkt_factors *factors, kkt_chunk **chunk, ptrdiff_t number,
                    const double *values, kkt_tolerance tolerance) {
    const kkt_front *s = w->plan->fronts + number;
    const int follows = number > 0 && s[-1].chain == s->chain;
    const int waiting = follows ? delayed(&w->before) : 0;
    int status = begin_front(w, s, waiting);
    if (status != KKT_OK) return status;
    if (follows) add_contribution(w, s);
    add_entries(w, s, waiting, values);
    if (!(w->check == 0.0)) return KKT_NOT_FINITE;
    front *f = &w->here;
    mirror(f);
    take_scales(f, factors->scale);
    if (w->wide) widen_border(f, s->n_border);
    status = eliminate_front(w, s, tolerance);
    if (status != KKT_OK) return status;
    w->dense->schur(f);
    factors->delayed += delayed(f);
    factors->operations += kkt_operations(f->n_pivots, f->n_rows);
    if (keep(factors, chunk, f, factors->blocks + number) != KKT_OK) return KKT_NO_MEMORY;
    if (s[1].chain != s->chain) return add_to_root(w, s);
    const front swap = w->before;
    w->before = w->here;
    w->here = swap;
    return KKT_OK;
}

static int do_root(walk *w, kkt_factors *factors, kkt_chunk **chunk, const double *values,
                   double faint) {
    const kkt_tolerance any = {0.01, 0.0, faint}; /* nothing is left to delay to */
    if (begin_root(w, values) != KKT_OK) return KKT_NO_MEMORY;
    if (!(w->check == 0.0)) return KKT_NOT_FINITE;
    take_scales(&w->here, factors->scale);
    if (w->dense->eliminate(&w->here, any)) return KKT_SINGULAR;
    return keep(factors, chunk, &w->here, factors->blocks + w->plan->n_fronts - 1);
}

static ptrdiff_t first_bad(const kkt_plan *p, const double *values) {
    for (ptrdiff_t e = 0; e < p->n_entries; e++)
        if (!isfinite(values[e])) return e;
    return -1;
}

static int start(walk *w, const kkt_plan *p) {
    const kkt_front *root = p->fronts + p->n_fronts - 1;
    const int capacity = p->max_rows + p->max_rows / 2 + LANES;
    if (allocate_front(&w->here, capacity) != KKT_OK) return KKT_NO_MEMORY;
    if (allocate_front(&w->before, capacity) != KKT_OK) return KKT_NO_MEMORY;
    w->runs = malloc((size_t)(p->max_rows + 2) * sizeof *w->runs);
    if (w->runs == NULL || grow_root(&w->root, root->n_pivots) != KKT_OK) return KKT_NO_MEMORY;
    w->root.n_rows = root->n_pivots;
    if (root->n_pivots > 0)
        memcpy(w->root.rows, p->order + root->first_pivot,
               (size_t)root->n_pivots * sizeof *w->root.rows);
    return KKT_OK;
}

int kkt_factorise(kkt_factors *factors, const kkt_matrix *a, kkt_tolerance tolerance) {
    const double *values = a->values;
    const kkt_plan *p = factors->plan;
    walk w = {.plan = p, .dense = kkt_dense_routines()};
    factors->negative = factors->delayed = factors->pairs = 0;
    factors->max_rows = factors->ready = 0;
    factors->operations = 0.0;
    factors->bad_entry = -1;
    for (kkt_chunk *c = factors->chunks; c != NULL; c = c->next) c->used = 0;
    kkt_chunk *chunk = factors->chunks;
    find_scales(factors, a);
    int status = start(&w, p);
    for (ptrdiff_t k = 0; k + 1 < p->n_fronts && status == KKT_OK; k++)
        status = do_front(&w, factors, &chunk, k, values, tolerance);
    if (status == KKT_OK) status = do_root(&w, factors, &chunk, values, tolerance.faint);
    if (status == KKT_NOT_FINITE) factors->bad_entry = first_bad(p, values);
    factors->ready = status == KKT_OK;
    free_front(&w.here);
    free_front(&w.before);
    free(w.runs);
    free(w.root.values);
    free(w.root.rows);
    return status;
}
