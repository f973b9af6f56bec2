/* Stages from the pattern alone: breadth-first levels of the variables.
 *
 * Two variables are neighbours if they share an entry or a constraint. Levels of a breadth-first
 * search are coupled to their neighbours only, whatever the numbering; searching again from the last
 * level found makes them as narrow as they get for a chain.
 */
#include <stdlib.h>
#include <string.h>

#include "kkt.h"

#define DENSE_FACTOR 10 /* times the 90 % quantile of entries per column ... */
#define DENSE_LEAST 80  /* ... and at least so many: then an unknown belongs to the border */
#define PASSES 3

typedef struct {
    int n;
    int multipliers;   /* the first of them: unknowns whose only entries among themselves are diagonal */
    ptrdiff_t *start;  /* n + 1 */
    int *neighbour;
    int *stage;
    int *queue;        /* n */
    int *seen;         /* of multipliers and variables: the search that met them last */
} graph;

/* Multipliers are the last unknowns that have no entries among themselves but the diagonal. */
static int first_multiplier(ptrdiff_t n_entries, const int *row, const int *column) {
    int first = 0;
    for (ptrdiff_t e = 0; e < n_entries; e++) {
        const int low = row[e] < column[e] ? row[e] : column[e];
        if (row[e] != column[e] && low > first) first = low;
    }
    return first;
}

/* Adjacency of the entries off the diagonal. */
static int build(graph *g, ptrdiff_t n_entries, const int *row, const int *column) {
    g->start = calloc((size_t)g->n + 2, sizeof *g->start);
    g->queue = malloc((size_t)g->n * sizeof *g->queue);
    g->seen = calloc((size_t)g->n, sizeof *g->seen);
    if (!g->start || !g->queue || !g->seen) return KKT_NO_MEMORY;
    for (ptrdiff_t e = 0; e < n_entries; e++)
        if (row[e] != column[e]) {
            g->start[row[e] + 1]++;
            g->start[column[e] + 1]++;
        }
    for (int v = 0; v <= g->n; v++) g->start[v + 1] += g->start[v];
    g->neighbour = malloc((size_t)(g->start[g->n + 1] + 1) * sizeof *g->neighbour);
    if (g->neighbour == NULL) return KKT_NO_MEMORY;
    for (ptrdiff_t e = 0; e < n_entries; e++)
        if (row[e] != column[e]) {
            g->neighbour[g->start[row[e]]++] = column[e] - 1;
            g->neighbour[g->start[column[e]]++] = row[e] - 1;
        }
    return KKT_OK; /* the list of v begins where that of v - 1 ends: start[v] ... start[v + 1] */
}

static ptrdiff_t degree(const graph *g, int v) { return g->start[v + 1] - g->start[v]; }

static int by_size(const void *a, const void *b) {
    const ptrdiff_t x = *(const ptrdiff_t *)a, y = *(const ptrdiff_t *)b;
    return (x > y) - (x < y);
}

/* Unknowns with far more neighbours than usual belong to the border. */
static int mark_border(graph *g) {
    ptrdiff_t *sorted = malloc((size_t)g->n * sizeof *sorted);
    if (sorted == NULL) return KKT_NO_MEMORY;
    for (int v = 0; v < g->n; v++) sorted[v] = degree(g, v);
    qsort(sorted, (size_t)g->n, sizeof *sorted, by_size);
    ptrdiff_t limit = DENSE_FACTOR * sorted[(ptrdiff_t)(0.9 * (g->n - 1))];
    if (limit < DENSE_LEAST) limit = DENSE_LEAST;
    for (int v = 0; v < g->n; v++)
        g->stage[v] = degree(g, v) > limit ? KKT_BORDER : KKT_UNKNOWN;
    free(sorted);
    return KKT_OK;
}

/* A slack: its only neighbour is a multiplier, whose stage it gets later. */
static int is_slack(const graph *g, int v) {
    return degree(g, v) == 1 && g->neighbour[g->start[v]] >= g->multipliers;
}

/* Meets a variable that this search has not met. */
static void meet(graph *g, int v, int search, int *end) {
    if (v >= g->multipliers || g->stage[v] == KKT_BORDER || g->seen[v] == search) return;
    if (is_slack(g, v)) return;
    g->seen[v] = search;
    g->queue[(*end)++] = v;
}

/* Breadth-first search from queue[0 ... n_start - 1]: numbers levels from `level` on, returns the
 * number of variables met; `last` is where the last level begins in the queue, `top` its number. */
static int search_from(graph *g, int n_start, int search, int level, int *last, int *top) {
    int begin = 0, end = n_start;
    for (int k = 0; k < n_start; k++) g->seen[g->queue[k]] = search;
    for (;; level++) {
        const int stop = end;
        for (int k = begin; k < stop; k++) {
            const int v = g->queue[k];
            g->stage[v] = level;
            for (ptrdiff_t e = g->start[v]; e < g->start[v + 1]; e++) {
                const int w = g->neighbour[e];
                if (w < g->multipliers) {
                    meet(g, w, search, &end);
                } else if (g->stage[w] != KKT_BORDER && g->seen[w] != search) {
                    g->seen[w] = search;
                    for (ptrdiff_t d = g->start[w]; d < g->start[w + 1]; d++)
                        meet(g, g->neighbour[d], search, &end);
                }
            }
        }
        *last = begin;
        *top = level;
        if (end == stop) return end;
        begin = stop;
    }
}

/* Levels of the component of v, from `level` on; returns the last level. */
static int number_component(graph *g, int v, int level, int *search) {
    int n_start = 1, last, top = level;
    g->queue[0] = v;
    for (int pass = 0; pass < PASSES; pass++) {
        const int met = search_from(g, n_start, ++*search, level, &last, &top);
        if (pass + 1 == PASSES) break;
        n_start = met - last;
        memmove(g->queue, g->queue + last, (size_t)n_start * sizeof *g->queue);
    }
    return top;
}

int kkt_find_stages(int n, ptrdiff_t n_entries, const int *row, const int *column, int *stage) {
    graph g = {.n = n, .multipliers = first_multiplier(n_entries, row, column), .stage = stage};
    int status = build(&g, n_entries, row, column), level = 0, search = 0;
    if (status == KKT_OK) status = mark_border(&g);
    for (int v = 0; v < g.multipliers && status == KKT_OK; v++)
        if (stage[v] == KKT_UNKNOWN && !is_slack(&g, v))
            level = number_component(&g, v, level, &search) + 2; /* a gap between components */
    free(g.start);
    free(g.neighbour);
    free(g.queue);
    free(g.seen);
    return status;
}
