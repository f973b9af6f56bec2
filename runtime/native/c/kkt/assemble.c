/* Assembly of a front: from the front before it, from remainders of chains, from the matrix. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "walk.h"

/* -- memory ------------------------------------------------------------------------------------- */

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

int kkt_begin_walk(walk *w) {
    const kkt_plan *p = w->plan;
    const int capacity = p->max_rows + p->max_rows / 2 + LANES;
    w->runs = malloc((size_t)(p->max_rows + 2) * sizeof *w->runs);
    if (w->runs == NULL || allocate_front(&w->here, capacity) != KKT_OK) return KKT_NO_MEMORY;
    return allocate_front(&w->before, capacity);
}

void kkt_end_walk(walk *w) {
    free_front(&w->here);
    free_front(&w->before);
    free(w->runs);
    free(w->where);
}

/* -- sizes and rows ----------------------------------------------------------------------------- */

/* Columns that were delayed to the end of chains which end in a front. */
static int late_columns(const walk *w, ptrdiff_t number) {
    int late = 0;
    for (int c = 0; w->where != NULL && c < w->plan->n_chains; c++)
        if (w->plan->chains[c].parent == number) late += w->rests[c].n_delayed;
    return late;
}

/* The place of the first unknown of separators, or of the root, in `order`. */
static ptrdiff_t first_of_border(const kkt_plan *p) {
    return p->n - p->n_border;
}

/* The rows of a front from its pivots on. */
static void list_rows(const kkt_plan *p, const kkt_front *s, int *to) {
    memcpy(to, p->order + s->first_pivot, (size_t)s->n_pivots * sizeof *to);
    to += s->n_pivots;
    if (s->n_next > 0) memcpy(to, p->order + s[1].first_pivot, (size_t)s->n_next * sizeof *to);
    to += s->n_next;
    for (int k = 0; k < s->n_carried; k++) to[k] = p->order[p->carried[s->first_carried + k]];
    to += s->n_carried;
    const int *border = p->border + p->chains[s->chain].first_border;
    const int *unknowns = p->order + first_of_border(p);
    for (int k = 0; k < s->n_border; k++) to[k] = unknowns[border[k]];
}

/* Sizes and rows of the next front; the pivots of the plan begin at row `at`. */
static int begin_front(walk *w, const kkt_front *s, int rows, int full, int at) {
    front *f = &w->here;
    if (reserve(w, rows) != KKT_OK) return KKT_NO_MEMORY;
    f->n_rows = rows;
    f->ld = padded(rows);
    f->full = full;
    f->n_pivots = f->pairs = f->negative = 0;
    memset(f->values, 0, (size_t)f->ld * (size_t)(rows + 3) * sizeof(double));
    memset(f->noise, 0, (size_t)rows * sizeof(double));
    memset(f->seen, 0, (size_t)full * sizeof(int));
    list_rows(w->plan, s, f->rows + at);
    return KKT_OK;
}

/* -- from the front before ---------------------------------------------------------------------- */

/* Destinations of the rows that the front before leaves, [delayed | its next | its carried | its
 * border]: the first two are fully summed here and come first, after the `late` ones, the carried ones
 * are among the next and the carried ones here, in the same order. Returns the number of runs. */
static int find_runs(walk *w, const kkt_front *s, int late) {
    const front *b = &w->before, *f = &w->here;
    const int inner = delayed(b) + s[-1].n_next, left = b->n_rows - b->n_pivots;
    const int border = left - s[-1].n_border, *rows = b->rows + b->n_pivots;
    run *runs = w->runs;
    int n = 0, to = f->full;
    runs[n++] = (run){0, inner, late};
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

/* The same of one that is not eliminated: all that was subtracted from it so far. */
static double noise_of(const front *f, int c) {
    return fmax(c < f->full ? 0.0 : subtracted(f, c), f->noise[c]);
}

/* Keeps the size of what was subtracted from the columns that are not fully summed in the front before,
 * without the border but for separators: in the first `n` runs, and the next. */
static void add_noise(walk *w, const kkt_front *s, int n) {
    const kkt_plan *p = w->plan;
    const front *b = &w->before;
    for (const run *mine = w->runs; mine < w->runs + n; mine++)
        for (int c = mine->begin; c < mine->end; c++)
            w->here.noise[c + mine->shift] = noise_of(b, b->n_pivots + c);
    if (p->n_separators == 0) return;
    const int *border = p->border + p->chains[s->chain].first_border;
    const run *last = w->runs + n;
    for (int c = last->begin; c < last->end; c++)
        if (border[c - last->begin] < p->n_separators)
            w->here.noise[c + last->shift] = noise_of(b, b->n_pivots + c);
}

/* Adds what the front before leaves. */
static void add_contribution(walk *w, const kkt_front *s, int late) {
    const front *b = &w->before;
    front *f = &w->here;
    const int q = b->n_pivots, n = find_runs(w, s, late);
    const run *last = w->runs + n;
    for (const run *mine = w->runs; mine < last; mine++)
        for (int c = mine->begin; c < mine->end; c++) {
            const double *from = column_of(b, q + c) + q;
            double *to = column_of(f, c + mine->shift);
            for (int r = c; r < mine->end; r++) to[r + mine->shift] = from[r];
            for (const run *their = mine + 1; their < last; their++)
                for (int r = their->begin; r < their->end; r++) to[r + their->shift] = from[r];
        }
    memcpy(f->rows + late, b->rows + q, (size_t)delayed(b) * sizeof *f->rows);
    add_noise(w, s, n - 1);
}

/* -- from other chains -------------------------------------------------------------------------- */

int kkt_leave(walk *w, ptrdiff_t number) {
    const kkt_plan *p = w->plan;
    const kkt_front *s = p->fronts + number;
    const front *f = &w->here;
    kkt_rest *r = w->rests + s->chain;
    const int q = f->n_pivots, rows = f->n_rows - q;
    const int *border = p->border + p->chains[s->chain].first_border;
    r->n_rows = rows;
    r->n_delayed = delayed(f);
    if (rows == 0) return KKT_OK;
    const size_t size = (size_t)rows * (size_t)(rows + 1) * sizeof(double);
    r->values = malloc(size + (size_t)rows * sizeof *r->rows);
    if (r->values == NULL) return KKT_NO_MEMORY;
    r->noise = r->values + (ptrdiff_t)rows * rows;
    r->rows = (int *)(r->noise + rows);
    memcpy(r->rows, f->rows + q, (size_t)r->n_delayed * sizeof *r->rows);
    for (int c = 0; c < rows; c++) {
        const int k = c - r->n_delayed;
        memcpy(r->values + (ptrdiff_t)c * rows + c, column_of(f, q + c) + q + c,
               (size_t)(rows - c) * sizeof(double));
        r->noise[c] = k < 0 || border[k] < p->n_separators ? noise_of(f, q + c) : 0.0;
    }
    return KKT_OK;
}

/* The rows of a front of separators, or the root, in which those are; its pivots begin at `at`. */
static void find_where(walk *w, const kkt_front *s, int at) {
    const kkt_plan *p = w->plan;
    const ptrdiff_t first = first_of_border(p);
    int row = at;
    for (int k = 0; k < s->n_pivots; k++) w->where[s->first_pivot - first + k] = row++;
    for (int k = 0; k < s->n_next; k++) w->where[s[1].first_pivot - first + k] = row++;
    for (int k = 0; k < s->n_carried; k++)
        w->where[p->carried[s->first_carried + k] - first] = row++;
    const int *border = p->border + p->chains[s->chain].first_border;
    for (int k = 0; k < s->n_border; k++) w->where[border[k]] = row++;
}

/* Adds what a chain leaves, its delayed columns from row `late` on; `noise`: whether that counts. */
static void add_rest(walk *w, int chain, int late, int noise) {
    front *f = &w->here;
    const kkt_rest *r = w->rests + chain;
    const int *border = w->plan->border + w->plan->chains[chain].first_border;
    const int n = r->n_delayed;
    if (n > 0) memcpy(f->rows + late, r->rows, (size_t)n * sizeof *f->rows);
    for (int c = 0; c < r->n_rows; c++) {
        const int to_column = c < n ? late + c : w->where[border[c - n]];
        for (int k = c; k < r->n_rows; k++) {
            const int to_row = k < n ? late + k : w->where[border[k - n]];
            const int low = to_row > to_column ? to_row : to_column;
            const int high = to_row > to_column ? to_column : to_row;
            column_of(f, high)[low] += r->values[(ptrdiff_t)c * r->n_rows + k];
        }
        if (noise) f->noise[to_column] = fmax(f->noise[to_column], r->noise[c]);
    }
}

static void add_rests(walk *w, ptrdiff_t number, int at, int late) {
    const kkt_plan *p = w->plan;
    find_where(w, p->fronts + number, at);
    for (int c = 0; c < p->n_chains; c++) {
        if (p->chains[c].parent != number) continue;
        add_rest(w, c, late, number + 1 < p->n_fronts);
        late += w->rests[c].n_delayed;
    }
}

/* -- from the matrix ---------------------------------------------------------------------------- */

/* Adds the matrix entries of a front, below the diagonal. */
static void add_entries(walk *w, const kkt_front *s, int at) {
    const kkt_plan *p = w->plan;
    const double *values = w->values;
    const front *f = &w->here;
    double *first = column_of(f, at) + at;
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

/* Rows are [late | delayed | pivots | next | carried | border]; in the root, where nothing else
 * follows, the late ones come last. */
int kkt_assemble(walk *w, ptrdiff_t number) {
    const kkt_plan *p = w->plan;
    const kkt_front *s = p->fronts + number;
    const int root = number + 1 == p->n_fronts, follows = !root && number > p->chains[s->chain].first;
    const int late = late_columns(w, number), waiting = follows ? delayed(&w->before) : 0;
    const int full = late + waiting + s->n_pivots, at = root ? 0 : late + waiting;
    const int rows = full + s->n_next + s->n_carried + s->n_border;
    if (begin_front(w, s, rows, full, at) != KKT_OK) return KKT_NO_MEMORY;
    if (follows) add_contribution(w, s, late);
    if (w->where != NULL) add_rests(w, number, at, root ? s->n_pivots : 0);
    add_entries(w, s, at);
    if (!(w->check == 0.0)) return KKT_NOT_FINITE;
    mirror(&w->here);
    return KKT_OK;
}
