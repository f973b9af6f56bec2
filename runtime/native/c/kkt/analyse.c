/* From a pattern and the stages of its unknowns to the fronts of the factorisation. */
#include <stdlib.h>
#include <string.h>

#include "kkt.h"

/* What is known while fronts are laid out; arrays over unknowns have length n. */
typedef struct {
    int n;
    ptrdiff_t n_entries;
    const int *row, *column; /* from 1 */
    const int *stage;        /* as given or found */
    int reversed;
    int max_rows;            /* of a front */
    int reach;               /* levels over which unknowns are coupled without going to the border */
    unsigned longer;         /* lengths of couplings beyond that: bits of `log2_up` */
    int *level;              /* number of the front, or KKT_BORDER, or KKT_UNKNOWN */
    int *first;              /* front that touches it first, if it is before its own */
    int *place;              /* among the pivots of its front */
    int *slot;               /* see `order_border` */
    int n_levels;
    int n_border;
    kkt_plan *plan;
} draft;

static void swap_int(int *a, int *b) {
    int c = *a;
    *a = *b;
    *b = c;
}

/* The least b with 2^b >= x. */
static int log2_up(int x) {
    int b = 0;
    while (b < 30 && 1 << b < x) b++;
    return b;
}

/* -- levels ------------------------------------------------------------------------------------- */

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
        if (placed[v] >= 0 && (excess[v] > 0 || (excess[v] == 0 && !a->reversed)))
            placed[v] = spans[v].low;
    free(excess);
    return KKT_OK;
}

/* One round of `place_unknown`; returns a status. */
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
static int place_unknown(draft *a) {
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

/* Numbers the levels that are used 0, 1, ... */
static int compress_levels(draft *a) {
    int top = -1;
    for (int v = 0; v < a->n; v++)
        if (a->level[v] > top) top = a->level[v];
    int *number = calloc((size_t)top + 2, sizeof *number);
    if (number == NULL) return KKT_NO_MEMORY;
    for (int v = 0; v < a->n; v++)
        if (a->level[v] >= 0) number[a->level[v]] = 1;
    a->n_levels = 0;
    for (int k = 0; k <= top; k++)
        if (number[k]) number[k] = ++a->n_levels;
    for (int v = 0; v < a->n; v++)
        if (a->level[v] >= 0) a->level[v] = number[a->level[v]] - 1;
    free(number);
    return KKT_OK;
}

static int top_stage(const draft *a) {
    int top = 0;
    for (int v = 0; v < a->n; v++)
        if (a->stage[v] > top) top = a->stage[v];
    return top;
}

static int settle_levels(draft *a) {
    const int top = top_stage(a);
    for (int v = 0; v < a->n; v++)
        a->level[v] = a->stage[v] < 0 || a->reversed ? a->stage[v] : top - a->stage[v];
    int status = place_unknown(a);
    if (status == KKT_OK) {
        cut_long_entries(a);
        status = compress_levels(a);
    }
    return status;
}

/* -- fronts ------------------------------------------------------------------------------------- */

/* Finds the first front that touches each unknown: from there on it is a row of all fronts before its
 * own. */
static void find_first(draft *a) {
    for (int v = 0; v < a->n; v++) a->first[v] = a->level[v];
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        int i = a->row[e] - 1, j = a->column[e] - 1;
        if (a->level[i] < a->level[j]) swap_int(&i, &j);
        const int level = a->level[j];
        if (level < 0 || a->level[i] == level) continue;
        if (level < a->first[i]) a->first[i] = level;
    }
}

/* Sizes of fronts, the order of elimination, and the place of each unknown in its front: what earlier
 * fronts touch comes first, so that the rows that are passed on stay together. */
static void order_pivots(draft *a, kkt_plan *p) {
    kkt_front *root = p->fronts + a->n_levels;
    for (int v = 0; v < a->n; v++) {
        kkt_front *f = a->level[v] < 0 ? root : p->fronts + a->level[v];
        f->n_pivots++;
        if (a->first[v] == a->level[v]) continue;
        f[-1].n_next++;
        p->fronts[a->first[v]].n_carried++; /* changes from front to front, until all are added */
        f[-1].n_carried--;
    }
    ptrdiff_t first = 0;
    for (ptrdiff_t f = 0; f < p->n_fronts; f++) {
        p->fronts[f].first_pivot = first;
        first += p->fronts[f].n_pivots;
        p->fronts[f].n_pivots = 0;
        if (f > 0) p->fronts[f].n_carried += p->fronts[f - 1].n_carried;
    }
    for (int pass = 1; pass >= 0; pass--)
        for (int v = 0; v < a->n; v++) {
            kkt_front *f = a->level[v] < 0 ? root : p->fronts + a->level[v];
            if ((a->first[v] < a->level[v]) != pass) continue;
            a->place[v] = f->n_pivots++;
            p->order[f->first_pivot + a->place[v]] = v;
        }
    a->n_border = root->n_pivots;
}

/* Fronts that pass rows on to the next one belong to one chain. */
static void find_chains(const draft *a, kkt_plan *p) {
    int chain = -1;
    for (int f = 0; f < a->n_levels; f++) {
        if (f == 0 || p->fronts[f - 1].n_next + p->fronts[f - 1].n_carried == 0) chain++;
        p->fronts[f].chain = chain;
    }
    p->n_chains = chain + 1;
    p->fronts[a->n_levels].chain = chain + 1;
}

/* The border of each chain in the order in which its fronts meet it, so that the border of a front is
 * the beginning of its chain's. slot[chain * n_border + b] becomes the position of b. */
static int order_border(const draft *a, kkt_plan *p) {
    int *slot = a->slot;
    const ptrdiff_t nb = a->n_border, size = nb * p->n_chains;
    for (ptrdiff_t k = 0; k < size; k++) slot[k] = INT32_MAX;
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        int i = a->row[e] - 1, j = a->column[e] - 1;
        if (a->level[i] < 0) swap_int(&i, &j);
        if (a->level[i] < 0 || a->level[j] >= 0) continue;
        int *first = slot + p->fronts[a->level[i]].chain * nb + a->place[j];
        if (a->level[i] < *first) *first = a->level[i];
    }
    /* counting sort of the border by the front that meets it first */
    int *count = calloc((size_t)a->n_levels + 1, sizeof *count);
    if (count == NULL) return KKT_NO_MEMORY;
    for (ptrdiff_t k = 0; k < size; k++)
        if (slot[k] != INT32_MAX) count[slot[k]]++;
    ptrdiff_t begin = 0;
    for (int f = 0, in_chain = 0; f < a->n_levels; f++) {
        if (f == 0 || p->fronts[f].chain != p->fronts[f - 1].chain) {
            p->border_start[p->fronts[f].chain] = begin;
            in_chain = 0;
        }
        const int met = count[f];
        count[f] = in_chain;
        in_chain += met;
        begin += met;
        p->fronts[f].n_border = in_chain;
    }
    p->border_start[p->n_chains] = begin;
    p->border = malloc((size_t)(begin > 0 ? begin : 1) * sizeof *p->border);
    if (p->border == NULL) {
        free(count);
        return KKT_NO_MEMORY;
    }
    for (ptrdiff_t k = 0; k < size; k++)
        if (slot[k] != INT32_MAX) {
            slot[k] = count[slot[k]]++;
            p->border[p->border_start[k / nb] + slot[k]] = (int)(k % nb);
        }
    free(count);
    return KKT_OK;
}

/* The unknowns that each front carries on to fronts beyond the next one. */
static int list_carried(const draft *a, kkt_plan *p) {
    ptrdiff_t end = 0;
    for (ptrdiff_t f = 0; f < p->n_fronts; f++) {
        p->fronts[f].first_carried = end;
        end += p->fronts[f].n_carried;
        p->fronts[f].n_carried = 0;
    }
    p->carried = malloc((size_t)(end > 0 ? end : 1) * sizeof *p->carried);
    if (p->carried == NULL) return KKT_NO_MEMORY;
    for (ptrdiff_t k = 0; k < p->fronts[a->n_levels].first_pivot; k++) {
        const int v = p->order[k];
        for (kkt_front *f = p->fronts + a->first[v]; f + 1 < p->fronts + a->level[v]; f++)
            p->carried[f->first_carried + f->n_carried++] = v;
    }
    return KKT_OK;
}

/* Which of the unknowns that a front carries v is. */
static int carried_place(const draft *a, const kkt_front *f, int v) {
    const int *list = a->plan->carried + f->first_carried;
    int low = 0, high = f->n_carried - 1;
    while (low < high) {
        const int middle = (low + high) / 2, w = list[middle];
        if (a->level[w] < a->level[v] || (a->level[w] == a->level[v] && a->place[w] < a->place[v]))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The front of an entry; its row and column there. */
static kkt_front *locate(const draft *a, ptrdiff_t e, int *row, int *column) {
    kkt_front *fronts = a->plan->fronts;
    int i = a->row[e] - 1, j = a->column[e] - 1; /* j is eliminated first */
    if (a->level[j] < 0 || (a->level[i] >= 0 && a->level[i] < a->level[j])) swap_int(&i, &j);
    kkt_front *f = a->level[j] < 0 ? fronts + a->n_levels : fronts + a->level[j];
    *column = a->place[j];
    *row = a->place[i];
    if (a->level[i] == a->level[j]) {
        if (*row < *column) swap_int(row, column);
    } else if (a->level[i] < 0) {
        *row = f->n_pivots + f->n_next + f->n_carried +
               a->slot[(ptrdiff_t)f->chain * a->n_border + a->place[i]];
    } else if (a->level[i] == a->level[j] + 1) {
        *row = f->n_pivots + a->place[i];
    } else {
        *row = f->n_pivots + f->n_next + carried_place(a, f, i);
    }
    return f;
}

static int place_entries(const draft *a) {
    kkt_plan *p = a->plan;
    int row, column;
    p->source = calloc((size_t)a->n_entries + KKT_AHEAD, sizeof *p->source);
    p->place = malloc((size_t)a->n_entries * sizeof *p->place);
    if (p->source == NULL || p->place == NULL) return KKT_NO_MEMORY;
    for (ptrdiff_t e = 0; e < a->n_entries; e++) locate(a, e, &row, &column)->first_entry++;
    ptrdiff_t end = 0;
    for (ptrdiff_t f = 0; f < p->n_fronts; f++) {
        end += p->fronts[f].first_entry;
        p->fronts[f].first_entry = end;
    }
    p->fronts[p->n_fronts].first_entry = end;
    for (ptrdiff_t e = a->n_entries - 1; e >= 0; e--) {
        const ptrdiff_t to = --locate(a, e, &row, &column)->first_entry;
        p->source[to] = (int32_t)e;
        p->place[to] = (uint32_t)column << 16 | (uint32_t)row;
    }
    return KKT_OK;
}

static int measure(kkt_plan *p, int max_rows) {
    for (ptrdiff_t k = 0; k < p->n_fronts; k++) {
        const kkt_front *f = p->fronts + k;
        const double m = (double)f->n_pivots + f->n_next + f->n_carried + f->n_border;
        const double q = f->n_pivots;
        if (m > p->max_rows) p->max_rows = (int)m;
        p->operations += kkt_operations(q, m);
        p->factor_bytes += 8.0 * q * (m + 8.0) + 4.0 * m + sizeof(kkt_block);
    }
    return p->max_rows > max_rows ? KKT_UNSUPPORTED : KKT_OK;
}

static int lay_out(draft *a) {
    kkt_plan *p = a->plan;
    p->n = a->n;
    p->n_entries = a->n_entries;
    p->n_fronts = a->n_levels + 1;
    p->fronts = calloc((size_t)p->n_fronts + 1, sizeof *p->fronts);
    p->order = malloc((size_t)a->n * sizeof *p->order);
    a->first = malloc((size_t)a->n * sizeof *a->first);
    if (!p->fronts || !p->order || !a->first) return KKT_NO_MEMORY;
    find_first(a);
    order_pivots(a, p);
    find_chains(a, p);
    const size_t slots = (size_t)a->n_border * (size_t)p->n_chains;
    a->slot = malloc((slots > 0 ? slots : 1) * sizeof *a->slot);
    p->border_start = calloc((size_t)p->n_chains + 1, sizeof *p->border_start);
    if (!a->slot || !p->border_start) return KKT_NO_MEMORY;
    const int status = order_border(a, p);
    return status == KKT_OK ? measure(p, a->max_rows) : status;
}

/* -- face --------------------------------------------------------------------------------------- */

#define WORTH 0.9 /* operations of a plan that carries further, in those of one that does not */

static void drop(draft *a) {
    free(a->level);
    free(a->first);
    free(a->place);
    free(a->slot);
    kkt_free_plan(a->plan);
}

/* A plan without entries, whose fronts carry unknowns as far as the draft's reach. */
static int sketch(draft *a) {
    a->plan = calloc(1, sizeof *a->plan);
    a->level = malloc((size_t)a->n * sizeof *a->level);
    a->place = malloc((size_t)a->n * sizeof *a->place);
    if (!a->plan || !a->level || !a->place) return KKT_NO_MEMORY;
    a->plan->owners = 1;
    a->plan->reversed = a->reversed;
    const int status = settle_levels(a);
    return status == KKT_OK ? lay_out(a) : status;
}

/* The plan with the fewest operations. What couples stages further apart than half of all costs about
 * as much in the border. */
static int plan_with(const draft given, kkt_plan **plan) {
    draft best = given;
    best.reach = 1;
    int status = sketch(&best);
    const int top = top_stage(&given);
    const unsigned longer = best.longer;
    for (int b = 1; b < 30 && 1 << b < top && status != KKT_NO_MEMORY; b++) {
        if (!(longer >> b & 1)) continue;
        draft other = given;
        other.reach = 1 << b;
        const int its_status = sketch(&other);
        if (its_status == KKT_OK &&
            (status != KKT_OK || other.plan->operations < WORTH * best.plan->operations)) {
            const draft swap = best;
            best = other;
            other = swap;
            status = KKT_OK;
        }
        drop(&other);
    }
    if (status == KKT_OK) status = list_carried(&best, best.plan);
    if (status == KKT_OK) status = place_entries(&best);
    if (status == KKT_OK) {
        *plan = best.plan;
        best.plan = NULL;
    }
    drop(&best);
    return status;
}

/* Whether the numbers of stages are small enough for arrays over them: a gap after each is allowed. */
static int plausible(int n, const int *stage) {
    for (int v = 0; v < n; v++)
        if (stage[v] / 2 > n) return 0;
    return 1;
}

int kkt_analyse(int n, ptrdiff_t n_entries, const int *row, const int *column, const int *stage,
                int reversed, int max_rows, kkt_plan **plan) {
    draft a = {.n = n, .n_entries = n_entries, .row = row, .column = column, .stage = stage,
               .reversed = reversed, .max_rows = max_rows};
    *plan = NULL;
    if (n < 1) return KKT_UNSUPPORTED;
    int status = KKT_UNSUPPORTED;
    if (stage != NULL && plausible(n, stage)) status = plan_with(a, plan);
    if (*plan != NULL) (*plan)->hinted = 1;
    if (status == KKT_UNSUPPORTED) {
        int *found = malloc((size_t)n * sizeof *found);
        if (found == NULL) return KKT_NO_MEMORY;
        a.stage = found;
        status = kkt_find_stages(n, n_entries, row, column, found);
        if (status == KKT_OK) status = plan_with(a, plan);
        free(found);
    }
    if (status == KKT_OK) kkt_pattern_key(n, n_entries, row, column, stage, (*plan)->key);
    return status;
}

kkt_plan *kkt_share_plan(kkt_plan *p) {
    p->owners++;
    return p;
}

void kkt_free_plan(kkt_plan *p) {
    if (p == NULL || --p->owners > 0) return;
    free(p->fronts);
    free(p->order);
    free(p->carried);
    free(p->border_start);
    free(p->border);
    free(p->source);
    free(p->place);
    free(p);
}

static uint64_t mixed(uint64_t h, uint64_t x, uint64_t factor) {
    h = (h ^ x) * factor;
    return h ^ h >> 29;
}

void kkt_pattern_key(int n, ptrdiff_t n_entries, const int *row, const int *column,
                     const int *stage, uint64_t key[2]) {
    key[0] = (uint64_t)n;
    key[1] = (uint64_t)n_entries;
    for (ptrdiff_t e = 0; e < n_entries; e++) {
        const uint64_t entry = (uint64_t)(uint32_t)row[e] << 32 | (uint32_t)column[e];
        key[0] = mixed(key[0], entry, 0x9e3779b97f4a7c15u);
        key[1] = mixed(key[1], entry, 0xd6e8feb86659fd93u);
    }
    for (int v = 0; stage != NULL && v < n; v++)
        key[v & 1] = mixed(key[v & 1], (uint64_t)(uint32_t)stage[v], 0x9e3779b97f4a7c15u);
}
