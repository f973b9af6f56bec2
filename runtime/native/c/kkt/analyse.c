/* From a pattern and the stages of its unknowns to the fronts of the factorisation. */
#include <stdlib.h>
#include <string.h>

#include "kkt.h"

/* What is known while fronts are laid out; arrays over unknowns have length n. */
typedef struct {
    int n;
    ptrdiff_t n_entries;
    const int *row, *column; /* from 1 */
    int *level;              /* number of the front, or KKT_BORDER, or KKT_UNKNOWN */
    int *place;              /* among the pivots of its front */
    int n_levels;
    int *chain;              /* of each front */
    int n_border;
    int max_rows;            /* of a front */
} draft;

static void swap_int(int *a, int *b) {
    int c = *a;
    *a = *b;
    *b = c;
}

/* -- levels ------------------------------------------------------------------------------------- */

/* The unknowns without a stage (multipliers, slacks) go to the first level that they touch; those
 * that touch more than two neighbouring ones go to the border. Three rounds: a slack touches only
 * its multiplier, which has a level after the first. */
static int place_unknown(draft *a) {
    int *low = malloc((size_t)a->n * sizeof *low), *high = malloc((size_t)a->n * sizeof *high);
    if (low == NULL || high == NULL) {
        free(low);
        free(high);
        return KKT_NO_MEMORY;
    }
    for (int round = 0; round < 3; round++) {
        int open = 0, closed = 0;
        for (int v = 0; v < a->n; v++) {
            low[v] = INT32_MAX;
            high[v] = -1;
            open += a->level[v] == KKT_UNKNOWN;
        }
        if (open == 0) break;
        for (ptrdiff_t e = 0; e < a->n_entries; e++) {
            int i = a->row[e] - 1, j = a->column[e] - 1;
            if (a->level[i] != KKT_UNKNOWN) swap_int(&i, &j);
            if (a->level[i] != KKT_UNKNOWN || a->level[j] < 0) continue;
            if (a->level[j] < low[i]) low[i] = a->level[j];
            if (a->level[j] > high[i]) high[i] = a->level[j];
        }
        for (int v = 0; v < a->n; v++)
            if (a->level[v] == KKT_UNKNOWN && high[v] >= 0) {
                a->level[v] = high[v] - low[v] <= 1 ? low[v] : KKT_BORDER;
                closed++;
            }
        if (closed == 0) break;
    }
    for (int v = 0; v < a->n; v++)
        if (a->level[v] == KKT_UNKNOWN) a->level[v] = KKT_BORDER;
    free(low);
    free(high);
    return KKT_OK;
}

/* Entries between stages that are no neighbours: the one that is eliminated later goes to the
 * border. */
static void cut_long_entries(draft *a) {
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        int i = a->row[e] - 1, j = a->column[e] - 1;
        if (a->level[i] < a->level[j]) swap_int(&i, &j);
        if (a->level[j] >= 0 && a->level[i] - a->level[j] > 1) a->level[i] = KKT_BORDER;
    }
}

/* Numbers the levels that are used 0, 1, ... and leaves a gap nowhere: `linked` says afterwards
 * whether a level follows the one before it directly. */
static int compress_levels(draft *a, unsigned char **linked) {
    int top = -1;
    for (int v = 0; v < a->n; v++)
        if (a->level[v] > top) top = a->level[v];
    int *number = calloc((size_t)top + 2, sizeof *number);
    *linked = calloc((size_t)top + 2, 1);
    if (number == NULL || *linked == NULL) {
        free(number);
        return KKT_NO_MEMORY;
    }
    for (int v = 0; v < a->n; v++)
        if (a->level[v] >= 0) number[a->level[v]] = 1;
    a->n_levels = 0;
    for (int k = 0; k <= top; k++)
        if (number[k]) {
            (*linked)[a->n_levels] = k > 0 && number[k - 1] != 0;
            number[k] = ++a->n_levels;
        }
    for (int v = 0; v < a->n; v++)
        if (a->level[v] >= 0) a->level[v] = number[a->level[v]] - 1;
    free(number);
    return KKT_OK;
}

static int settle_levels(draft *a, const int *stage, int reversed, unsigned char **linked) {
    int top = 0;
    for (int v = 0; v < a->n; v++)
        if (stage[v] > top) top = stage[v];
    for (int v = 0; v < a->n; v++)
        a->level[v] = stage[v] < 0 || reversed ? stage[v] : top - stage[v];
    int status = place_unknown(a);
    if (status == KKT_OK) {
        cut_long_entries(a);
        status = compress_levels(a, linked);
    }
    return status;
}

/* -- fronts ------------------------------------------------------------------------------------- */

/* Marks what the front before touches: these pivots come first in their front, so that the rows that
 * are passed on stay together. */
static unsigned char *touched_before(const draft *a) {
    unsigned char *touched = calloc((size_t)a->n, 1);
    if (touched == NULL) return NULL;
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        const int i = a->row[e] - 1, j = a->column[e] - 1;
        if (a->level[i] < 0 || a->level[j] < 0) continue;
        if (a->level[i] > a->level[j]) touched[i] = 1;
        if (a->level[j] > a->level[i]) touched[j] = 1;
    }
    return touched;
}

/* Sizes of fronts, the order of elimination, and the place of each unknown in its front. */
static void order_pivots(draft *a, kkt_plan *p, const unsigned char *touched) {
    kkt_front *root = p->fronts + a->n_levels;
    for (int v = 0; v < a->n; v++) {
        kkt_front *f = a->level[v] < 0 ? root : p->fronts + a->level[v];
        f->n_pivots++;
        if (a->level[v] > 0 && touched[v]) f[-1].n_next++;
    }
    ptrdiff_t first = 0;
    for (ptrdiff_t f = 0; f < p->n_fronts; f++) {
        p->fronts[f].first_pivot = first;
        first += p->fronts[f].n_pivots;
        p->fronts[f].n_pivots = 0;
    }
    for (int pass = 1; pass >= 0; pass--)
        for (int v = 0; v < a->n; v++) {
            kkt_front *f = a->level[v] < 0 ? root : p->fronts + a->level[v];
            if (touched[v] != pass) continue;
            a->place[v] = f->n_pivots++;
            p->order[f->first_pivot + a->place[v]] = v;
        }
    a->n_border = root->n_pivots;
}

/* Fronts that pass rows on to the next one belong to one chain. */
static void find_chains(draft *a, kkt_plan *p, const unsigned char *linked) {
    int chain = -1;
    for (int f = 0; f < a->n_levels; f++) {
        if (f == 0 || !linked[f] || p->fronts[f - 1].n_next == 0) chain++;
        p->fronts[f].chain = chain;
    }
    p->n_chains = chain + 1;
    p->fronts[a->n_levels].chain = chain + 1;
}

/* The border of each chain in the order in which its fronts meet it, so that the border of a front is
 * the beginning of its chain's. slot[chain * n_border + b] becomes the position of b. */
static int order_border(draft *a, kkt_plan *p, int *slot) {
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

/* The front of an entry; its row and column there. */
static kkt_front *locate(const draft *a, const kkt_plan *p, const int *slot, ptrdiff_t e, int *row,
                         int *column) {
    int i = a->row[e] - 1, j = a->column[e] - 1; /* j is eliminated first */
    if (a->level[j] < 0 || (a->level[i] >= 0 && a->level[i] < a->level[j])) swap_int(&i, &j);
    kkt_front *f = a->level[j] < 0 ? p->fronts + a->n_levels : p->fronts + a->level[j];
    *column = a->place[j];
    *row = a->place[i];
    if (a->level[i] == a->level[j]) {
        if (*row < *column) swap_int(row, column);
    } else if (a->level[i] < 0) {
        *row = f->n_pivots + f->n_next + slot[(ptrdiff_t)f->chain * a->n_border + a->place[i]];
    } else {
        *row = f->n_pivots + a->place[i];
    }
    return f;
}

static void place_entries(const draft *a, kkt_plan *p, const int *slot) {
    int row, column;
    for (ptrdiff_t e = 0; e < a->n_entries; e++)
        locate(a, p, slot, e, &row, &column)->first_entry++;
    ptrdiff_t end = 0;
    for (ptrdiff_t f = 0; f < p->n_fronts; f++) {
        end += p->fronts[f].first_entry;
        p->fronts[f].first_entry = end;
    }
    p->fronts[p->n_fronts].first_entry = end;
    for (ptrdiff_t e = a->n_entries - 1; e >= 0; e--) {
        const ptrdiff_t to = --locate(a, p, slot, e, &row, &column)->first_entry;
        p->source[to] = (int32_t)e;
        p->place[to] = (uint32_t)column << 16 | (uint32_t)row;
    }
}

static int measure(kkt_plan *p, int max_rows) {
    for (ptrdiff_t k = 0; k < p->n_fronts; k++) {
        const kkt_front *f = p->fronts + k;
        const double m = (double)f->n_pivots + f->n_next + f->n_border, q = f->n_pivots;
        if (m > p->max_rows) p->max_rows = (int)m;
        p->operations += q * m * m - q * (q - 1.0) * m + (q - 1.0) * q * (2.0 * q - 1.0) / 6.0;
        p->factor_bytes += 8.0 * q * (m + 8.0) + 4.0 * m + sizeof(kkt_block);
    }
    return p->max_rows > max_rows ? KKT_UNSUPPORTED : KKT_OK;
}

static int lay_out(draft *a, kkt_plan *p, const unsigned char *linked) {
    p->n = a->n;
    p->n_entries = a->n_entries;
    p->n_fronts = a->n_levels + 1;
    p->fronts = calloc((size_t)p->n_fronts + 1, sizeof *p->fronts);
    p->order = malloc((size_t)a->n * sizeof *p->order);
    p->source = calloc((size_t)a->n_entries + KKT_AHEAD, sizeof *p->source);
    p->place = malloc((size_t)a->n_entries * sizeof *p->place);
    unsigned char *touched = touched_before(a);
    int *slot = NULL, status = KKT_NO_MEMORY;
    if (p->fronts && p->order && p->source && p->place && touched) {
        order_pivots(a, p, touched);
        find_chains(a, p, linked);
        const size_t slots = (size_t)a->n_border * (size_t)p->n_chains;
        slot = malloc((slots > 0 ? slots : 1) * sizeof *slot);
        p->border_start = calloc((size_t)p->n_chains + 1, sizeof *p->border_start);
        if (slot && p->border_start) status = order_border(a, p, slot);
    }
    if (status == KKT_OK) status = measure(p, a->max_rows);
    if (status == KKT_OK) place_entries(a, p, slot);
    free(touched);
    free(slot);
    return status;
}

/* -- face --------------------------------------------------------------------------------------- */

static int plan_with(draft a, const int *stage, int reversed, kkt_plan **plan) {
    unsigned char *linked = NULL;
    int status = KKT_NO_MEMORY;
    *plan = calloc(1, sizeof **plan);
    a.level = malloc((size_t)a.n * sizeof *a.level);
    a.place = malloc((size_t)a.n * sizeof *a.place);
    if (*plan && a.level && a.place) {
        (*plan)->owners = 1;
        (*plan)->reversed = reversed;
        status = settle_levels(&a, stage, reversed, &linked);
        if (status == KKT_OK) status = lay_out(&a, *plan, linked);
    }
    free(a.level);
    free(a.place);
    free(linked);
    if (status != KKT_OK) {
        kkt_free_plan(*plan);
        *plan = NULL;
    }
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
    const draft a = {.n = n, .n_entries = n_entries, .row = row, .column = column,
                     .max_rows = max_rows};
    *plan = NULL;
    if (n < 1) return KKT_UNSUPPORTED;
    int status = KKT_UNSUPPORTED;
    if (stage != NULL && plausible(n, stage)) status = plan_with(a, stage, reversed, plan);
    if (*plan != NULL) (*plan)->hinted = 1;
    if (status == KKT_UNSUPPORTED) {
        int *found = malloc((size_t)n * sizeof *found);
        if (found == NULL) return KKT_NO_MEMORY;
        status = kkt_find_stages(n, n_entries, row, column, found);
        if (status == KKT_OK) status = plan_with(a, found, reversed, plan);
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
