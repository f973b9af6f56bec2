/* Symbolic analysis: from a pattern and the stages of its unknowns to the fronts. */
#include <stdlib.h>
#include <string.h>

#include "draft.h"

/* -- fronts ------------------------------------------------------------------------------------- */

/* Whether unknowns of this level belong to the border of a front: to the root, or to separators, if
 * the front is not one of these. */
static int beyond(const draft *a, int level, int front) {
    return level < 0 || (level >= a->n_inner && front < a->n_inner);
}

/* Notes an entry of a part and a separator. */
static int note_joint(draft *a, ptrdiff_t e) {
    if (a->n_joints == a->room) {
        const size_t room = 2 * (size_t)a->room + 64;
        ptrdiff_t *more = realloc(a->joint, room * sizeof *more);
        if (more == NULL) return KKT_NO_MEMORY;
        a->joint = more;
        a->room = (ptrdiff_t)room;
    }
    a->joint[a->n_joints++] = e;
    return KKT_OK;
}

/* Finds the first front that touches each unknown: from there on it is a row of all fronts before its
 * own. What belongs to the border of a front does not count. */
static int find_first(draft *a) {
    for (int v = 0; v < a->n; v++) a->first[v] = a->level[v];
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        int i = a->row[e] - 1, j = a->column[e] - 1;
        if (a->level[i] < a->level[j]) swap_int(&i, &j);
        const int level = a->level[j];
        if (level < 0 || a->level[i] == level) continue;
        if (beyond(a, a->level[i], level)) {
            if (note_joint(a, e) != KKT_OK) return KKT_NO_MEMORY;
        } else if (level < a->first[i]) {
            a->first[i] = level;
        }
    }
    return KKT_OK;
}

/* Fronts that pass rows on to the next one belong to one chain. All have the root as parent so far. */
static int find_chains(const draft *a, kkt_plan *p) {
    int *passed = calloc((size_t)a->n_levels + 1, sizeof *passed), rows = 0, chain = -1;
    if (passed == NULL) return KKT_NO_MEMORY;
    for (int v = 0; v < a->n; v++) /* changes from front to front */
        if (a->level[v] >= 0) {
            passed[a->first[v]]++;
            passed[a->level[v]]--;
        }
    free(p->chains);
    p->chains = calloc((size_t)a->n_levels + 1, sizeof *p->chains);
    for (int f = 0; f < a->n_levels && p->chains != NULL; f++) {
        if (rows == 0) p->chains[++chain] = (kkt_chain){.first = f, .parent = a->n_levels};
        rows += passed[f];
        p->fronts[f].chain = chain;
    }
    p->n_chains = p->fronts[a->n_levels].chain = chain + 1;
    if (p->chains != NULL) p->chains[chain + 1].first = a->n_levels;
    free(passed);
    return p->chains != NULL ? KKT_OK : KKT_NO_MEMORY;
}

/* What the last front of a chain leaves goes to the first of the separators that the chain touches,
 * which then touches the others, too. */
static int join_separators(draft *a, kkt_plan *p) {
    for (int pass = 0; pass < 2; pass++)
        for (ptrdiff_t k = 0; k < a->n_joints; k++) {
            int i = a->row[a->joint[k]] - 1, j = a->column[a->joint[k]] - 1;
            if (a->level[i] < a->level[j]) swap_int(&i, &j);
            ptrdiff_t *parent = &p->chains[p->fronts[a->level[j]].chain].parent;
            if (pass == 0 && a->level[i] < *parent) *parent = a->level[i];
            if (pass == 1 && *parent < a->first[i]) a->first[i] = (int)*parent;
        }
    const kkt_chain *known = p->chains;
    p->chains = NULL;
    const int status = find_chains(a, p);
    for (int c = 0; status == KKT_OK && known[c].first < a->n_inner; c++)
        p->chains[c].parent = known[c].parent;
    free((void *)known);
    return status;
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
    p->n_separators = (int)(root->first_pivot - p->fronts[a->n_inner].first_pivot);
    p->n_border = a->n_border = p->n_separators + root->n_pivots;
}

/* The number of an unknown among those of separators and root. */
static ptrdiff_t border_number(const draft *a, int v) {
    const kkt_front *f = a->plan->fronts;
    const int level = a->level[v] < 0 ? a->n_levels : a->level[v];
    return f[level].first_pivot - f[a->n_inner].first_pivot + a->place[v];
}

static void meet(const draft *a, int chain, int v, ptrdiff_t front) {
    int *first = a->slot + (ptrdiff_t)chain * a->n_border + border_number(a, v);
    if (front < *first) *first = (int)front;
}

/* slot[chain * n_border + b] becomes the front of the chain that meets b first, or INT32_MAX. */
static void meet_border(const draft *a, const kkt_plan *p) {
    for (ptrdiff_t k = 0; k < (ptrdiff_t)a->n_border * p->n_chains; k++) a->slot[k] = INT32_MAX;
    for (ptrdiff_t e = 0; e < a->n_entries; e++) {
        int i = a->row[e] - 1, j = a->column[e] - 1; /* j is eliminated first */
        if (a->level[j] < 0 || (a->level[i] >= 0 && a->level[i] < a->level[j])) swap_int(&i, &j);
        if (a->level[j] < 0 || !beyond(a, a->level[i], a->level[j])) continue;
        const kkt_front *f = p->fronts + a->level[j];
        const ptrdiff_t parent = p->chains[f->chain].parent;
        meet(a, f->chain, i, a->level[j]);
        if (parent < a->n_levels && a->level[i] < 0) meet(a, p->fronts[parent].chain, i, parent);
    }
}

/* The border of each chain in the order in which its fronts meet it, so that the border of a front is
 * the beginning of its chain's. slot[chain * n_border + b] becomes the position of b. */
static int order_border(const draft *a, kkt_plan *p) {
    int *slot = a->slot;
    const ptrdiff_t nb = a->n_border, size = nb * p->n_chains;
    meet_border(a, p);
    /* counting sort of the border by the front that meets it first */
    int *count = calloc((size_t)a->n_levels + 1, sizeof *count);
    if (count == NULL) return KKT_NO_MEMORY;
    for (ptrdiff_t k = 0; k < size; k++)
        if (slot[k] != INT32_MAX) count[slot[k]]++;
    ptrdiff_t begin = 0;
    for (int f = 0, in_chain = 0; f < a->n_levels; f++) {
        kkt_chain *chain = p->chains + p->fronts[f].chain;
        if (f == chain->first) {
            chain->first_border = begin;
            in_chain = 0;
        }
        const int met = count[f];
        count[f] = in_chain;
        in_chain += met;
        begin += met;
        p->fronts[f].n_border = in_chain;
    }
    p->chains[p->n_chains].first_border = begin;
    p->border = malloc((size_t)(begin > 0 ? begin : 1) * sizeof *p->border);
    for (ptrdiff_t k = 0; k < size && p->border != NULL; k++)
        if (slot[k] != INT32_MAX) {
            slot[k] = count[slot[k]]++;
            p->border[p->chains[k / nb].first_border + slot[k]] = (int)(k % nb);
        }
    free(count);
    return p->border != NULL ? KKT_OK : KKT_NO_MEMORY;
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
            p->carried[f->first_carried + f->n_carried++] = k;
    }
    return KKT_OK;
}

/* Index of v among the unknowns that a front carries. */
static int carried_place(const draft *a, const kkt_front *f, int v) {
    const ptrdiff_t *list = a->plan->carried + f->first_carried;
    const ptrdiff_t wanted = a->plan->fronts[a->level[v]].first_pivot + a->place[v];
    int low = 0, high = f->n_carried - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (list[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The column of an entry in the order of elimination; its row in the front of the column. */
static ptrdiff_t locate(const draft *a, ptrdiff_t e, int *row) {
    kkt_front *fronts = a->plan->fronts;
    int i = a->row[e] - 1, j = a->column[e] - 1; /* j is eliminated first */
    if (a->level[j] < 0 || (a->level[i] >= 0 && a->level[i] < a->level[j])) swap_int(&i, &j);
    kkt_front *f = a->level[j] < 0 ? fronts + a->n_levels : fronts + a->level[j];
    int column = a->place[j];
    *row = a->place[i];
    if (a->level[i] == a->level[j]) {
        if (*row < column) swap_int(row, &column);
    } else if (beyond(a, a->level[i], a->level[j])) {
        *row = f->n_pivots + f->n_next + f->n_carried +
               a->slot[(ptrdiff_t)f->chain * a->n_border + border_number(a, i)];
    } else if (a->level[i] == a->level[j] + 1) {
        *row = f->n_pivots + a->place[i];
    } else {
        *row = f->n_pivots + f->n_next + carried_place(a, f, i);
    }
    return f->first_pivot + column;
}

/* Counting sort by columns. */
static int place_entries(const draft *a) {
    kkt_plan *p = a->plan;
    int row;
    p->start = calloc((size_t)a->n + 1, sizeof *p->start);
    p->source = calloc((size_t)a->n_entries + KKT_AHEAD, sizeof *p->source);
    p->place = malloc((size_t)a->n_entries * sizeof *p->place);
    if (p->start == NULL || p->source == NULL || p->place == NULL) return KKT_NO_MEMORY;
    for (ptrdiff_t e = 0; e < a->n_entries; e++) p->start[locate(a, e, &row)]++;
    for (int k = 0; k < a->n; k++) p->start[k + 1] += p->start[k];
    for (ptrdiff_t e = a->n_entries - 1; e >= 0; e--) {
        const int32_t to = --p->start[locate(a, e, &row)];
        p->source[to] = (int32_t)e;
        p->place[to] = (uint16_t)row;
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
    int status = find_first(a);
    if (status == KKT_OK) status = find_chains(a, p);
    if (status == KKT_OK && a->n_inner < a->n_levels) status = join_separators(a, p);
    if (status != KKT_OK) return status;
    order_pivots(a, p);
    const size_t slots = (size_t)a->n_border * (size_t)p->n_chains;
    a->slot = malloc((slots > 0 ? slots : 1) * sizeof *a->slot);
    status = a->slot != NULL ? order_border(a, p) : KKT_NO_MEMORY;
    return status == KKT_OK ? measure(p, a->max_rows) : status;
}

/* -- face --------------------------------------------------------------------------------------- */

#define WORTH 0.9 /* operations of a plan that carries further, in those of one that does not */

static void drop(draft *a) {
    free(a->level);
    free(a->first);
    free(a->place);
    free(a->slot);
    free(a->joint);
    kkt_free_plan(a->plan);
}

/* An empty plan. */
static int begin(draft *a) {
    a->plan = calloc(1, sizeof *a->plan);
    a->level = malloc((size_t)a->n * sizeof *a->level);
    a->place = malloc((size_t)a->n * sizeof *a->place);
    if (!a->plan || !a->level || !a->place) return KKT_NO_MEMORY;
    a->plan->owners = 1;
    a->plan->way = a->way;
    a->plan->n_parts = 1;
    return KKT_OK;
}

/* A plan without entries, whose fronts carry unknowns as far as the draft's reach. */
static int sketch(draft *a) {
    int status = begin(a);
    if (status == KKT_OK) status = kkt_settle_levels(a);
    if (status == KKT_OK) a->plan->part[1] = a->n_levels;
    return status == KKT_OK ? lay_out(a) : status;
}

/* Replaces a plan by one whose chains are cut into parts, if that is worth it. */
static int cut(draft *whole, const draft given) {
    kkt_cuts cuts;
    if (kkt_choose_cuts(whole->plan, given.way, &cuts) == 1) return KKT_OK;
    draft a = given;
    a.reach = whole->reach;
    int status = begin(&a);
    if (status == KKT_OK) status = kkt_cut_levels(&a, whole, &cuts);
    if (status == KKT_OK) status = kkt_compress_levels(&a, cuts.n + 1, cuts.begin);
    if (status == KKT_OK) {
        a.n_inner = cuts.begin[cuts.n];
        a.plan->n_parts = cuts.n;
        for (int k = 0; k <= cuts.n; k++) a.plan->part[k] = cuts.begin[k];
        status = lay_out(&a);
    }
    if (status == KKT_OK) {
        for (int k = 0; k < cuts.n; k++)
            if (cuts.turned[k]) a.plan->chains[a.plan->fronts[cuts.begin[k]].chain].turned = 1;
        const draft swap = *whole;
        *whole = a;
        a = swap;
    }
    drop(&a);
    return status == KKT_UNSUPPORTED ? KKT_OK : status;
}

/* The plan with the fewest operations. What couples stages further apart than half of all costs about
 * as much in the border. */
static int plan_with(const draft given, kkt_plan **plan) {
    draft best = given;
    best.reach = 1;
    int status = sketch(&best);
    const int top = kkt_top_stage(&given);
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
    if (status == KKT_OK) status = cut(&best, given);
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
                kkt_way way, int max_rows, kkt_plan **plan) {
    draft a = {.n = n, .n_entries = n_entries, .row = row, .column = column, .stage = stage,
               .way = way, .max_rows = max_rows};
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
    free(p->chains);
    free(p->border);
    free(p->start);
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
    uint64_t lane[8] = {(uint64_t)n, (uint64_t)n_entries, stage != NULL}; /* a product takes long */
    for (ptrdiff_t e = 0; e < n_entries; e++) {
        const uint64_t entry = (uint64_t)(uint32_t)row[e] << 32 | (uint32_t)column[e];
        lane[e & 7] = mixed(lane[e & 7], entry, 0x9e3779b97f4a7c15u);
    }
    for (int v = 0; stage != NULL && v < n; v++)
        lane[v & 7] = mixed(lane[v & 7], (uint64_t)(uint32_t)stage[v], 0x9e3779b97f4a7c15u);
    key[0] = key[1] = 0;
    for (int k = 0; k < 8; k++) {
        key[0] = mixed(key[0], lane[k], 0x9e3779b97f4a7c15u);
        key[1] = mixed(key[1], lane[k], 0xd6e8feb86659fd93u);
    }
}
