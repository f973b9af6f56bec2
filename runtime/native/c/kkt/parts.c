/* Cutting chains into parts of about the same cost, one for each thread. */
#include <stdlib.h>

#include "draft.h"

/* The time that the elimination of a front takes, in about 1/20 ns, as measured with 8 to 44 pivots and
 * 9 to 132 rows: pivots are sought and eliminated column by column, what they leave goes several
 * times as fast, and each row has to be filled, passed on and kept. */
static double cost_of(double pivots, double rows) {
    const double left = rows - pivots;
    return pivots * pivots * rows + pivots * left * left / 6.0 + 400.0 * rows;
}

#define PER_THREAD 2.5e6 /* to start one for each step of a factorisation and of some solves */
#define PER_TURNED 1.15  /* parts that are turned delay columns */
#define WORTH 0.85       /* cost with threads, in that without */
#define HALVINGS 20      /* of the interval in which the least cost is sought */

static int rows_of(const kkt_front *f) {
    return f->n_pivots + f->n_next + f->n_carried + f->n_border;
}

/* Unknowns that couple a front with those before. */
static int width_at(const kkt_front *f) { return f[-1].n_next + f[-1].n_carried; }

/* Unknowns of a separator there, with multipliers, if the part after it is not turned. */
static int carried_at(const kkt_front *f) { return 2 * width_at(f); }

/* Data for cutting. */
typedef struct {
    const kkt_plan *whole;
    double *before; /* costs of all fronts before each, n_fronts */
    int most_parts, one_way;
} work;

static int sum_costs(work *w) {
    const kkt_plan *p = w->whole;
    w->before = malloc((size_t)p->n_fronts * sizeof *w->before);
    if (w->before == NULL) return KKT_NO_MEMORY;
    w->before[0] = 0.0;
    for (ptrdiff_t f = 0; f + 1 < p->n_fronts; f++)
        w->before[f + 1] = w->before[f] + cost_of(p->fronts[f].n_pivots, rows_of(p->fronts + f));
    return KKT_OK;
}

/* Cuts so that no part costs more than `most`; returns whether the parts suffice. A part that begins
 * within a chain carries its separator to the end of the chain or, unless it is turned, of the part. */
static int cut_by(const work *w, double most, kkt_cuts *cuts) {
    const kkt_plan *p = w->whole;
    const int end = (int)p->n_fronts - 1;
    double sum = 0.0, factor = 1.0;
    int carried = 0;
    cuts->n = 1;
    cuts->begin[0] = cuts->turned[0] = cuts->within[0] = 0;
    for (int f = 0; f < end; f++) {
        const kkt_front *front = p->fronts + f;
        const int follows = f > p->chains[front->chain].first;
        if (!follows) carried = 0, factor = 1.0;
        double cost = factor * cost_of(front->n_pivots, rows_of(front) + carried);
        if (sum + cost > most && f > cuts->begin[cuts->n - 1]) {
            const int ends = (int)p->chains[front->chain + 1].first, k = cuts->n++;
            if (k == w->most_parts) return 0;
            const double turned = PER_TURNED * (w->before[ends] - w->before[f]);
            const int turn = follows && !w->one_way && turned <= most;
            cuts->begin[k] = f;
            cuts->turned[k] = turn ? ends : 0;
            cuts->within[k] = follows;
            carried = follows && !turn ? carried_at(front) : 0;
            factor = turn ? PER_TURNED : 1.0;
            sum = 0.0;
            cost = factor * cost_of(front->n_pivots, rows_of(front) + carried);
        }
        sum += cost;
    }
    cuts->begin[cuts->n] = end;
    return sum <= most;
}

/* The least cost of the longest of so many parts; leaves their cuts. */
static double shortest(const work *w, kkt_cuts *cuts) {
    double high = w->before[w->whole->n_fronts - 1], low = high / w->most_parts;
    kkt_cuts some;
    for (int k = 0; k < HALVINGS; k++) {
        const double middle = 0.5 * (low + high);
        if (cut_by(w, middle, &some)) {
            high = middle;
            *cuts = some;
        } else {
            low = middle;
        }
    }
    if (high == w->before[w->whole->n_fronts - 1]) cut_by(w, high, cuts);
    return high;
}

/* Cost of what one thread does alone: the fronts of the separators, and starting the others. */
static double alone(const work *w, const kkt_cuts *cuts) {
    const kkt_front *fronts = w->whole->fronts;
    double sum = PER_THREAD * (cuts->n - 1);
    for (int k = 1; k < cuts->n; k++) {
        const kkt_front *f = fronts + cuts->begin[k];
        if (f->chain == f[-1].chain)
            sum += cost_of(carried_at(f), 2.0 * carried_at(f) + f->n_border);
    }
    return sum;
}

static int any_turned(const kkt_cuts *cuts) {
    int any = 0;
    for (int k = 0; k < cuts->n; k++) any |= cuts->turned[k] > 0;
    return any;
}

/* The cuts that cost least of up to so many parts, if that is less than `best`. */
static void choose(work *w, int most, double best, kkt_cuts *cuts) {
    for (w->most_parts = most; w->most_parts > 1; w->most_parts /= 2) {
        kkt_cuts some;
        const double cost = shortest(w, &some) + alone(w, &some);
        if (cost >= best) continue;
        best = cost;
        *cuts = some;
    }
}

int kkt_choose_cuts(const kkt_plan *whole, kkt_way way, kkt_cuts *cuts) {
    work w = {.whole = whole, .one_way = way.one_way};
    const int asked = way.parts > 0 ? way.parts : way.threads;
    const int most = asked < KKT_MOST_PARTS ? asked : KKT_MOST_PARTS;
    *cuts = (kkt_cuts){.n = 1};
    if (most < 2 || whole->n_fronts < 2 || sum_costs(&w) != KKT_OK) return 1;
    const double all = w.before[whole->n_fronts - 1];
    w.most_parts = most;
    if (way.parts > 0)
        shortest(&w, cuts);
    else
        choose(&w, most, WORTH * all, cuts);
    free(w.before);
    return cuts->n;
}

/* -- levels ------------------------------------------------------------------------------------- */

/* The part of each level. */
static int *parts_of_levels(const kkt_cuts *cuts) {
    int *part = malloc((size_t)(cuts->begin[cuts->n] + 1) * sizeof *part);
    for (int k = 0; k < cuts->n && part != NULL; k++)
        for (int l = cuts->begin[k]; l < cuts->begin[k + 1]; l++) part[l] = k;
    return part;
}

/* The place of a level when those of its part that are to be turned are. */
static int turned(const kkt_cuts *cuts, int part, int level) {
    const int end = cuts->turned[part];
    return level < end ? cuts->begin[part] + end - 1 - level : level;
}

/* Whether an unknown of a level of part k belongs to the separator before it: if an earlier part touches
 * it; or if it is a multiplier of the part's first level, unless that is turned. The unknowns of that
 * level, with which it would be eliminated, are the separator's: there would be one multiplier too
 * many for each, delayed from front to front. */
static int joins(const draft *a, const draft *whole, const kkt_cuts *cuts, int k, int v) {
    const int level = whole->level[v], begin = cuts->begin[k];
    const int follows = k > 0 && cuts->within[k] && !cuts->turned[k];
    return whole->first[v] < begin || (follows && level == begin && a->stage[v] == KKT_UNKNOWN);
}

/* What has no stage of its own belongs, among levels that are turned, to the first one that it touches
 * in their new order. */
int kkt_cut_levels(draft *a, const draft *whole, const kkt_cuts *cuts) {
    int *part = parts_of_levels(cuts);
    if (part == NULL) return KKT_NO_MEMORY;
    for (int v = 0; v < a->n; v++) {
        const int level = whole->level[v], k = level < 0 ? 0 : part[level];
        const int apart = level < 0 || joins(a, whole, cuts, k, v);
        const int open = level < cuts->turned[k] && a->stage[v] == KKT_UNKNOWN;
        a->level[v] = apart ? KKT_BORDER : open ? KKT_UNKNOWN : turned(cuts, k, level);
    }
    const int status = any_turned(cuts) ? kkt_place_unknown(a) : KKT_OK;
    for (int v = 0; v < a->n; v++) {
        const int level = whole->level[v];
        if (level < 0 || a->level[v] != KKT_BORDER) continue;
        const int k = part[level], last = cuts->begin[cuts->n];
        a->level[v] = joins(a, whole, cuts, k, v) ? last + k : turned(cuts, k, level);
    }
    free(part);
    return status;
}
