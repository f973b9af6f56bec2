/* A stretch of a long matrix, so short that both directions of elimination can be tried on it. */
#include "stretch.h"

#include <stdlib.h>

#define LENGTH 256 /* stages */
#define SHARE 16   /* of all stages it is one in so many at most */

/* State of an unknown. OPEN: it has no stage, and met none so far; MET: it met the stretch. */
enum { OUT, IN, OPEN, MET };

/* Entry e with the unknown that has no stage, if there is one, first. */
static void unknown_first(const kkt_matrix *a, const int *stage, ptrdiff_t e, int *i, int *j) {
    *i = a->row[e] - 1;
    *j = a->column[e] - 1;
    if (stage[*i] == KKT_UNKNOWN) return;
    *i = a->column[e] - 1;
    *j = a->row[e] - 1;
}

/* Unknowns without a stage belong to the stretch if they meet stages of it and no others, as
 * multipliers, or one of these alone, as slacks. */
static void mark(const kkt_matrix *a, const int *stage, int begin, int *fate) {
    for (int v = 0; v < a->n; v++) {
        const int inside = stage[v] >= begin && stage[v] < begin + LENGTH;
        fate[v] = stage[v] == KKT_UNKNOWN ? OPEN : inside || stage[v] == KKT_BORDER ? IN : OUT;
    }
    int i, j;
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        unknown_first(a, stage, e, &i, &j);
        if (stage[i] != KKT_UNKNOWN || stage[j] < 0) continue;
        if (fate[j] == OUT)
            fate[i] = OUT;
        else if (fate[i] == OPEN)
            fate[i] = MET;
    }
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        unknown_first(a, stage, e, &i, &j);
        if (stage[i] != KKT_UNKNOWN || stage[j] != KKT_UNKNOWN) continue;
        if (fate[i] == OPEN && fate[j] == MET) fate[i] = IN;
        if (fate[j] == OPEN && fate[i] == MET) fate[j] = IN;
    }
}

typedef struct {
    kkt_matrix matrix;
    int *row, *column, *stage;
    double *values;
} stretch;

static void drop(stretch *s) {
    free(s->row);
    free(s->column);
    free(s->stage);
    free(s->values);
}

/* The entries of a among unknowns that have a number, from 1; 0 is none. Returns a status. */
static int copy(const kkt_matrix *a, const int *stage, const int *number, int n, stretch *s) {
    ptrdiff_t count = 0;
    for (ptrdiff_t e = 0; e < a->n_entries; e++)
        count += number[a->row[e] - 1] && number[a->column[e] - 1];
    const size_t room = (size_t)count + 1;
    s->row = malloc(room * sizeof *s->row);
    s->column = malloc(room * sizeof *s->column);
    s->stage = malloc((size_t)(n + 1) * sizeof *s->stage);
    s->values = malloc(room * sizeof *s->values);
    if (!s->row || !s->column || !s->stage || !s->values) return KKT_NO_MEMORY;
    for (int v = 0; v < a->n; v++)
        if (number[v]) s->stage[number[v] - 1] = stage[v];
    count = 0;
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        const int i = number[a->row[e] - 1], j = number[a->column[e] - 1];
        if (!i || !j) continue;
        s->row[count] = i;
        s->column[count] = j;
        s->values[count++] = a->values[e];
    }
    s->matrix = (kkt_matrix){.n = n, .n_entries = count, .row = s->row, .column = s->column,
                             .values = s->values};
    return KKT_OK;
}

static int cut_out(const kkt_matrix *a, const int *stage, int begin, stretch *s) {
    int *number = malloc((size_t)a->n * sizeof *number), n = 0;
    if (number == NULL) return KKT_NO_MEMORY;
    mark(a, stage, begin, number);
    for (int v = 0; v < a->n; v++) number[v] = number[v] == IN || number[v] == MET ? ++n : 0;
    const int status = n > 0 ? copy(a, stage, number, n, s) : KKT_UNSUPPORTED;
    free(number);
    return status;
}

/* Operations of a factorisation and the share of columns that it delays. */
static int try_direction(const stretch *s, int reversed, int max_rows, kkt_tolerance tolerance,
                         double *operations, double *delayed) {
    const kkt_matrix *a = &s->matrix;
    kkt_plan *plan;
    kkt_factors *factors = NULL;
    int status = kkt_analyse(a->n, a->n_entries, a->row, a->column, s->stage,
                             (kkt_way){.reversed = reversed, .threads = 1}, max_rows, &plan);
    if (status != KKT_OK) return status;
    status = kkt_new_factors(plan, &factors);
    if (status == KKT_OK) status = kkt_factorise(factors, a, tolerance);
    if (status == KKT_OK) {
        *operations = factors->operations;
        *delayed = (double)factors->delayed / a->n;
    }
    kkt_free_factors(factors);
    kkt_free_plan(plan);
    return status;
}

int kkt_try_stretch(const kkt_matrix *a, const int *stage, int max_rows, kkt_tolerance tolerance,
                    double delayed) {
    int top = 0, better = -1;
    for (int v = 0; v < a->n; v++)
        if (stage[v] > top) top = stage[v];
    if (top / SHARE < LENGTH) return -1;
    stretch s = {.row = NULL};
    if (cut_out(a, stage, top / 2, &s) == KKT_OK) {
        double operations, share, other, ignored;
        const int status = try_direction(&s, 0, max_rows, tolerance, &operations, &share);
        if (status == KKT_OK && share <= delayed)
            better = 0;
        else if (try_direction(&s, 1, max_rows, tolerance, &other, &ignored) == KKT_OK)
            better = status != KKT_OK || other < operations;
        else if (status == KKT_OK)
            better = 0;
    }
    drop(&s);
    return better;
}
