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
    f->noise = aligned_alloc(64, ld * sizeof(double));
    f->seen = malloc(ld * sizeof(int));
    f->scale = aligned_alloc(64, ld * sizeof(double));
    f->rows = malloc(ld * sizeof(int));
    if (!f->values || !f->scaled || !f->d || !f->noise || !f->seen || !f->scale || !f->rows)
        return KKT_NO_MEMORY;
    memset(f->values, 0, ld * (ld + 3) * sizeof(double));
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

/* The rows of a front from its pivots on, and their scales. */
static void list_rows(const walk *w, const kkt_front *s, int *rows, double *scale) {
    const kkt_plan *p = w->plan;
    const int near = s->n_pivots + s->n_next, far = near + s->n_carried, all = far + s->n_border;
    const ptrdiff_t *carried = p->carried + s->first_carried, first = first_of_border(p);
    const int *border = p->border + p->chains[s->chain].first_border;
    memcpy(rows, p->order + s->first_pivot, (size_t)near * sizeof *rows);
    memcpy(scale, w->scale + s->first_pivot, (size_t)near * sizeof *scale);
    for (int r = near; r < all; r++) {
        const ptrdiff_t k = r < far ? carried[r - near] : first + border[r - far];
        rows[r] = p->order[k];
        scale[r] = w->scale[k];
    }
}

/* Sizes and rows of the next front; the pivots of the plan begin at row `at`. The last columns, which the
 * front before fills as far as they count, are not cleared. */
static int begin_front(walk *w, const kkt_front *s, int rows, int full, int filled, int at) {
    front *f = &w->here;
    if (reserve(w, rows) != KKT_OK) return KKT_NO_MEMORY;
    f->n_rows = rows;
    f->ld = padded(rows);
    f->full = full;
    f->n_pivots = f->pairs = f->negative = 0;
    w->dense->clear(f, rows - filled);
    for (int r = 0; r < f->ld; r++) f->noise[r] = 0.0;
    for (int c = 0; c < full; c++) f->seen[c] = 0;
    list_rows(w, s, f->rows + at, f->scale + at);
    for (int r = rows; r < f->ld; r++) f->scale[r] = 0.0;
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

/* Keeps the size of what was subtracted from the columns that are not fully summed in the front before,
 * without the border but for separators: in the first `n` runs, and the next. */
static void add_noise(walk *w, const kkt_front *s, int n) {
    const kkt_plan *p = w->plan;
    const front *b = &w->before;
    for (const run *mine = w->runs; mine < w->runs + n; mine++)
        for (int c = mine->begin; c < mine->end; c++)
            w->here.noise[c + mine->shift] = b->noise[b->n_pivots + c];
    if (p->n_separators == 0) return;
    const int *border = p->border + p->chains[s->chain].first_border;
    const run *last = w->runs + n;
    for (int c = last->begin; c < last->end; c++)
        if (border[c - last->begin] < p->n_separators)
            w->here.noise[c + last->shift] = b->noise[b->n_pivots + c];
}

/* Adds what the front before leaves. */
static void add_contribution(walk *w, const kkt_front *s, int late) {
    const front *b = &w->before;
    front *f = &w->here;
    const int q = b->n_pivots, n = find_runs(w, s, late);
    w->dense->extend(b, w->runs, n, f);
    memcpy(f->rows + late, b->rows + q, (size_t)delayed(b) * sizeof *f->rows);
    memcpy(f->scale + late, b->scale + q, (size_t)delayed(b) * sizeof *f->scale);
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
    const size_t size = (size_t)rows * (size_t)(rows + 2) * sizeof(double);
    r->values = malloc(size + (size_t)rows * sizeof *r->rows);
    if (r->values == NULL) return KKT_NO_MEMORY;
    r->noise = r->values + (ptrdiff_t)rows * rows;
    r->scale = r->noise + rows;
    r->rows = (int *)(r->scale + rows);
    memcpy(r->scale, f->scale + q, (size_t)r->n_delayed * sizeof *r->scale);
    memcpy(r->rows, f->rows + q, (size_t)r->n_delayed * sizeof *r->rows);
    for (int c = 0; c < rows; c++) {
        const int k = c - r->n_delayed;
        memcpy(r->values + (ptrdiff_t)c * rows + c, column_of(f, q + c) + q + c,
               (size_t)(rows - c) * sizeof(double));
        r->noise[c] = k < 0 || border[k] < p->n_separators ? f->noise[q + c] : 0.0;
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
    if (n > 0) memcpy(f->scale + late, r->scale, (size_t)n * sizeof *f->scale);
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
    const int32_t *start = p->start + s->first_pivot;
    const int32_t *source = p->source + start[0];
    const uint16_t *place = p->place + start[0];
    const ptrdiff_t ld = w->here.ld;
    double *column = column_of(&w->here, at) + at;
    for (int c = 0; c < s->n_pivots; c++, column += ld)
        for (const int32_t *end = p->source + start[c + 1]; source < end; source++, place++) {
            __builtin_prefetch(values + source[KKT_AHEAD]);
            column[*place] += values[*source];
        }
}

/* Fills the fully summed columns above the diagonal. */
static void mirror(front *f) {
    for (int c = 0; c < f->full; c++) {
        const double *from = column_of(f, c);
        double *to = column_of(f, c + 1) + c;
        for (int r = c + 1; r < f->full; r++, to += f->ld) *to = from[r];
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
    const int filled = follows && s[-1].n_border == s->n_border ? s->n_border : 0;
    if (begin_front(w, s, rows, full, filled, at) != KKT_OK) return KKT_NO_MEMORY;
    if (follows) add_contribution(w, s, late);
    if (w->where != NULL) add_rests(w, number, at, root ? s->n_pivots : 0);
    add_entries(w, s, at);
    mirror(&w->here);
    return KKT_OK;
}
