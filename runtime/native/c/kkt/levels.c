/* The levels of unknowns: those with a stage have one by it, others go where they touch. */
#include <stdlib.h>
#include <string.h>

#include "draft.h"

/* The least b with 2^b >= x. */
static int log2_up(int x) {
    int b = 0;
    while (b < 30 && 1 << b < x) b++;
    return b;
}

/* The levels that an unknown touches. */
typedef struct {
    int low, high;
} span;

/* Orders an entry's unknowns i, j so that i has no level; returns whether j has one. */
static int open_entry(const draft *a, ptrdiff_t e, int *i, int *j) {
    *i = a->row[e] - 1, *j = a->column[e] - 1;
    if (a->level[*i] != KKT_UNKNOWN) swap_int(i, j);
    return a->level[*i] == KKT_UNKNOWN && a->level[*j] >= 0;
}

/* Rows that couple far stages, as the equations of a system with delays do, belong to that end of
 * their span where they touch more unknowns, for these are to be eliminated with them: `excess` says
 * how many more at the low end. As many: where the time is later. */
static int place_far(const draft *a, const span *spans, int *placed) {
    int *excess = calloc((size_t)a->n, sizeof *excess), i, j;
    if (excess == NULL) return KKT_NO_MEMORY;
    for (ptrdiff_t e = 0; e < a->n_entries; e++)
        if (open_entry(a, e, &i, &j)) {
            const int k = a->level[j], high = spans[i].high;
            excess[i] += (k <= spans[i].low + 1) - (k >= high - 1);
            if (placed[i] > k && k >= high - 1) placed[i] = k; /* the first one at the high end */
        }
    for (int v = 0; v < a->n; v++)
        if (placed[v] >= 0 && (excess[v] > 0 || (excess[v] == 0 && !a->way.reversed)))
            placed[v] = spans[v].low;
    free(excess);
    return KKT_OK;
}

/* One round of `kkt_place_unknown`; returns a status. */
static int place_touching(draft *a, span *spans, int *placed, int *closed) {
    int far = 0, i, j;
    for (int v = 0; v < a->n; v++) spans[v] = (span){INT32_MAX, -1};
    for (ptrdiff_t e = 0; e < a->n_entries; e++)
        if (open_entry(a, e, &i, &j)) {
            if (a->level[j] < spans[i].low) spans[i].low = a->level[j];
            if (a->level[j] > spans[i].high) spans[i].high = a->level[j];
        }
    for (int v = 0; v < a->n; v++) {
        const int length = spans[v].high - spans[v].low;
        placed[v] = KKT_UNKNOWN;
        if (a->level[v] != KKT_UNKNOWN || spans[v].high < 0) continue;
        (*closed)++;
        if (length > a->reach) a->longer |= 1u << log2_up(length);
        far += length > 1 && length <= a->reach;
        placed[v] = length <= 1 ? spans[v].low : length <= a->reach ? INT32_MAX : KKT_BORDER;
    }
    return far > 0 ? place_far(a, spans, placed) : KKT_OK;
}

/* The unknowns without a stage (multipliers, slacks) go to the first level that they touch; those
 * that touch levels further apart than `reach` go to the border. Three rounds: a slack touches only
 * its multiplier, which has a level after the first. */
int kkt_place_unknown(draft *a) {
    span *spans = malloc((size_t)a->n * sizeof *spans);
    int *placed = malloc((size_t)a->n * sizeof *placed);
    int status = spans && placed ? KKT_OK : KKT_NO_MEMORY;
    for (int round = 0, closed = 1; round < 3 && closed > 0 && status == KKT_OK; round++) {
        int open = 0;
        closed = 0;
        for (int v = 0; v < a->n; v++) open += a->level[v] == KKT_UNKNOWN;
        if (open == 0) break;
        status = place_touching(a, spans, placed, &closed);
        for (int v = 0; v < a->n; v++)
            if (a->level[v] == KKT_UNKNOWN) a->level[v] = placed[v];
    }
    for (int v = 0; v < a->n; v++)
        if (a->level[v] == KKT_UNKNOWN) a->level[v] = KKT_BORDER;
    free(spans);
    free(placed);
    return status;
}

/* Entries between stages that are further apart than `reach`: the one that is eliminated later goes
 * to the border. */
static void cut_long_entries(draft *a) {
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        int i = a->row[e] - 1, j = a->column[e] - 1;
        if (a->level[i] < a->level[j]) swap_int(&i, &j);
        if (a->level[j] < 0 || a->level[i] - a->level[j] <= a->reach) continue;
        a->longer |= 1u << log2_up(a->level[i] - a->level[j]);
        a->level[i] = KKT_BORDER;
    }
}

/* Numbers the levels that are used 0, 1, ..., and the first levels of parts likewise. */
int kkt_compress_levels(draft *a, int n_marks, int *marks) {
    int top = -1;
    for (int v = 0; v < a->n; v++)
        if (a->level[v] > top) top = a->level[v];
    int *below = calloc((size_t)top + 2, sizeof *below); /* used levels below each */
    if (below == NULL) return KKT_NO_MEMORY;
    for (int v = 0; v < a->n; v++)
        if (a->level[v] >= 0) below[a->level[v] + 1] = 1;
    for (int k = 0; k <= top; k++) below[k + 1] += below[k];
    a->n_levels = a->n_inner = below[top + 1];
    for (int v = 0; v < a->n; v++)
        if (a->level[v] >= 0) a->level[v] = below[a->level[v]];
    for (int k = 0; k < n_marks; k++) marks[k] = below[marks[k] <= top ? marks[k] : top + 1];
    free(below);
    return KKT_OK;
}

int kkt_top_stage(const draft *a) {
    int top = 0;
    for (int v = 0; v < a->n; v++)
        if (a->stage[v] > top) top = a->stage[v];
    return top;
}

int kkt_settle_levels(draft *a) {
    const int top = kkt_top_stage(a);
    for (int v = 0; v < a->n; v++)
        a->level[v] = a->stage[v] < 0 || a->way.reversed ? a->stage[v] : top - a->stage[v];
    int status = kkt_place_unknown(a);
    if (status == KKT_OK) {
        cut_long_entries(a);
        status = kkt_compress_levels(a, 0, NULL);
    }
    return status;
}
