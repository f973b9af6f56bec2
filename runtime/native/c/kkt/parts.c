/* Cutting chains into parts of about the same cost, one for each thread. */
#include <math.h>
#include <stdlib.h>

#include "draft.h"

/* What a front costs beside its operations, in operations: what is done for each of its entries, and
 * for each front. Threads have to be started; parts that are turned delay columns. */
#define PER_ENTRY 8.0
#define PER_FRONT 3000.0
#define PER_THREAD 2e5
#define PER_TURNED 1.15
#define WORTH 0.85 /* cost with threads, in that without */
#define HALVINGS 20 /* of the interval in which the least cost is sought */

static double cost_of(double pivots, double rows) {
    return kkt_operations(pivots, rows) + PER_ENTRY * rows * rows + PER_FRONT;
}

static int rows_of(const kkt_front *f) {
    return f->n_pivots + f->n_next + f->n_carried + f->n_border;
}

/* Unknowns that couple a front with those before. */
static int width_at(const kkt_front *f) { return f[-1].n_next + f[-1].n_carried; }

/* What cutting looks at. */
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
    cuts->begin[0] = cuts->turned[0] = 0;
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
            carried = follows && !turn ? width_at(front) : 0;
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
            sum += cost_of(width_at(f), 2.0 * width_at(f) + f->n_border);
    }
    return sum;
}

/* Operations of the longest part. */
static double longest(const kkt_plan *p, const kkt_cuts *cuts) {
    double most = 0.0;
    for (int k = 0; k < cuts->n; k++) {
        double sum = 0.0;
        int carried = 0;
        for (int f = cuts->begin[k]; f < cuts->begin[k + 1]; f++) {
            const kkt_front *front = p->fronts + f;
            const int follows = f > p->chains[front->chain].first;
            if (!follows) carried = 0;
            else if (f == cuts->begin[k]) carried = width_at(front);
            sum += kkt_operations(front->n_pivots, rows_of(front) + carried);
        }
        most = fmax(most, sum);
    }
    return most;
}

static int any_turned(const kkt_cuts *cuts) {
    int any = 0;
    for (int k = 0; k < cuts->n; k++) any |= cuts->turned[k] > 0;
    return any;
}

/* The cuts that cost least of up to so many parts, if that is less than `best`. */
static void choose(work *w, int most, double best, kkt_cuts *cuts) {
    for (w->most_parts = most; w->most_parts > 1; w->most_parts /= 2) {
        kkt_cuts some = {.one_way = 0.0};
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
    if (any_turned(cuts)) {
        kkt_cuts other;
        w.one_way = 1;
        w.most_parts = cuts->n;
        shortest(&w, &other);
        cuts->one_way = longest(whole, &other);
    }
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

/* An unknown is of a separator if an earlier part touches it. What has no stage of its own belongs,
 * among levels that are turned, to the first one that it touches in their new order. */
int kkt_cut_levels(draft *a, const draft *whole, const kkt_cuts *cuts) {
    int *part = parts_of_levels(cuts);
    if (part == NULL) return KKT_NO_MEMORY;
    for (int v = 0; v < a->n; v++) {
        const int level = whole->level[v], k = level < 0 ? 0 : part[level];
        const int joins = level >= 0 && whole->first[v] < cuts->begin[k];
        const int open = level >= 0 && level < cuts->turned[k] && a->stage[v] == KKT_UNKNOWN;
        a->level[v] = level < 0 || joins ? KKT_BORDER : open ? KKT_UNKNOWN : turned(cuts, k, level);
    }
    const int status = kkt_place_unknown(a);
    for (int v = 0; v < a->n; v++) {
        const int level = whole->level[v];
        if (level < 0 || a->level[v] != KKT_BORDER) continue;
        const int k = part[level], joins = whole->first[v] < cuts->begin[k];
        a->level[v] = joins ? cuts->begin[cuts->n] + k : turned(cuts, k, level);
    }
    free(part);
    return status;
}
