/* Exact derivatives of implicit Runge-Kutta steps: the equations of the stages,
 *
 *   0 = f(k_j, x_i + h sum_l a_jl k_l, u_j, p, t_j),    x_{i+1} = x_i + h sum_j b_j k_j,
 *
 * are differentiated at the stages that a march has recorded, forwards for tangents and backwards for
 * the adjoint. Unknown at a stage are x' of states that have one, and the values of algebraic states,
 * whose value at a node is that of the last stage.
 */
#ifndef KINESYM_CHAIN_H
#define KINESYM_CHAIN_H
#include "kinesym_blocks.h"
#include "kinesym_step.h"

/* Intervals whose entries are taken at once, as these lie side by side */
#define KS_CHAIN_AT_ONCE 8

/* Work. Unknowns of the stages of a state are neighbours; state k has the block place[k], and those
 * with few entries come first, so that elimination fills little. entries : of the intervals from `part`
 * on, KS_CHAIN_AT_ONCE of them, each (n_entries, stages). target : where in blocks.values an entry is
 * added, the first of a row. by_blocks : whether elimination of blocks has lost no digits yet, or the
 * whole matrix is factorised. side : right sides, of which a row has `width` numbers, for tangents a
 * multiple of four; carry : (n, width). */
typedef struct {
    ks_block_matrix blocks;
    double *matrix, *side, *carry, *entries;
    ptrdiff_t *pivot, *lead, *place, *target, size, width, part;
    int *algebraic, by_blocks;
} ks_chain_work;

/* Number of states before each state in the order of their entries in rows and columns; entries : room
 * for (n) */
static void ks_chain_order(const ks_chain *c, ptrdiff_t *entries, ptrdiff_t *place) {
    const ptrdiff_t n = c->n;
    for (ptrdiff_t k = 0; k < n; k++) entries[k] = place[k] = 0;
    for (ptrdiff_t e = 0; e < c->n_entries; e++)
        if (c->columns[e] >= n && c->columns[e] < 2 * n)
            entries[c->rows[e]]++, entries[c->columns[e] - n]++;
    for (ptrdiff_t k = 0; k < n; k++)
        for (ptrdiff_t l = 0; l < k; l++) place[entries[l] <= entries[k] ? k : l]++;
}

/* Number of the block of an entry by unknowns */
static ptrdiff_t ks_chain_block(const ks_chain *c, const ks_chain_work *w, ptrdiff_t e) {
    const ptrdiff_t state = c->columns[e] < c->n ? c->columns[e] : c->columns[e] - c->n;
    return w->place[c->rows[e]] * c->n + w->place[state];
}

/* The pattern of the blocks, without room for their values */
static void ks_chain_pattern(const ks_chain *c, ks_chain_work *w) {
    const ptrdiff_t n = c->n, stages = c->stages;
    ks_block_matrix *b = &w->blocks;
    for (ptrdiff_t k = 0; k < n; k++) w->algebraic[k] = 1;
    for (ptrdiff_t e = 0; e < c->n_entries; e++)
        if (c->columns[e] < n) w->algebraic[c->columns[e]] = 0;
    ks_chain_order(c, w->pivot, w->place);
    for (ptrdiff_t k = 0; k < n * n; k++) b->slot[k] = 0;
    for (ptrdiff_t e = 0; e < c->n_entries; e++)
        if (c->columns[e] < 2 * n) b->slot[ks_chain_block(c, w, e)] = 1;
    ks_blocks_pattern(b);
    for (ptrdiff_t e = 0; e < c->n_entries; e++)
        if (c->columns[e] < 2 * n)
            w->target[e] = b->slot[ks_chain_block(c, w, e)] * stages * stages;
}

static int ks_chain_take(const ks_chain *c, ptrdiff_t width, ks_pool *pool, ks_chain_work *w) {
    const ptrdiff_t n = c->n, size = c->stages * n;
    ks_block_matrix *b = &w->blocks;
    w->size = size, w->width = (width + 3) / 4 * 4, w->part = -1;
    w->by_blocks = c->stages <= KS_BLOCKS_LARGEST;
    b->n = n, b->s = c->stages;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && ks_allocate(pool)) return 1;
        w->matrix = ks_take_numbers(pool, size * size);
        b->values = ks_take_numbers(pool, size * size);
        w->side = ks_take_numbers(pool, size * w->width);
        w->carry = ks_take_numbers(pool, n * w->width);
        w->entries = ks_take_numbers(pool, KS_CHAIN_AT_ONCE * c->n_entries * c->stages);
        b->largest = ks_take_numbers(pool, n);
        w->pivot = (ptrdiff_t *)ks_take_numbers(pool, size);
        w->lead = (ptrdiff_t *)ks_take_numbers(pool, size);
        w->place = (ptrdiff_t *)ks_take_numbers(pool, n);
        w->target = (ptrdiff_t *)ks_take_numbers(pool, c->n_entries);
        w->algebraic = (int *)ks_take_numbers(pool, n);
        b->slot = (ptrdiff_t *)ks_take_numbers(pool, n * n);
        b->below = (ptrdiff_t *)ks_take_numbers(pool, n * n);
        b->right = (ptrdiff_t *)ks_take_numbers(pool, n * n);
        b->n_below = (ptrdiff_t *)ks_take_numbers(pool, n);
        b->n_right = (ptrdiff_t *)ks_take_numbers(pool, n);
        b->first = (ptrdiff_t *)ks_take_numbers(pool, n + 1);
    }
    ks_chain_pattern(c, w);
    return 0;
}

/* Entries of interval i, (n_entries, stages) */
static const double *ks_chain_entries(const ks_chain *c, ptrdiff_t i, ks_chain_work *w) {
    const ptrdiff_t count = c->n_entries * c->stages, own = i % KS_CHAIN_AT_ONCE;
    if (i - own != w->part) {
        const ptrdiff_t left = c->n_nodes - 1 - (i - own);
        const ptrdiff_t most = left < KS_CHAIN_AT_ONCE ? left : KS_CHAIN_AT_ONCE;
        w->part = i - own;
        for (ptrdiff_t e = 0; e < count; e++)
            for (ptrdiff_t l = 0; l < most; l++)
                w->entries[l * count + e] = c->values[e * (c->n_nodes - 1) + w->part + l];
    }
    return w->entries + own * count;
}

/* Adds an entry to the rows of the stages of its equation; row : where the first begins, so long */
static inline void ks_chain_add(const ks_chain *c, const ks_chain_work *w, ptrdiff_t e, double h,
                                const double *entries, double *row, ptrdiff_t length) {
    const ptrdiff_t n = c->n, stages = c->stages, column = c->columns[e];
    for (ptrdiff_t j = 0; j < stages; j++, row += length)
        if (column < n || w->algebraic[column - n])
            row[j] += entries[e * stages + j];
        else
            for (ptrdiff_t l = 0; l < stages; l++)
                row[l] += h * c->a[j * stages + l] * entries[e * stages + j];
}

/* Factorises the derivatives of the equations of interval i with respect to the unknowns */
static int ks_chain_factor(const ks_chain *c, ptrdiff_t i, ks_chain_work *w) {
    const ptrdiff_t n = c->n, stages = c->stages, numbers = w->blocks.first[n] * stages * stages;
    const double h = c->time[i + 1] - c->time[i], *entries = ks_chain_entries(c, i, w);
    if (w->by_blocks) {
        memset(w->blocks.values, 0, (size_t)numbers * sizeof(double));
        for (ptrdiff_t e = 0; e < c->n_entries; e++)
            if (c->columns[e] < 2 * n)
                ks_chain_add(c, w, e, h, entries, w->blocks.values + w->target[e], stages);
        w->by_blocks = ks_blocks_factor(&w->blocks);
        if (w->by_blocks) return 1;
    }
    memset(w->matrix, 0, (size_t)(w->size * w->size) * sizeof(double));
    for (ptrdiff_t e = 0; e < c->n_entries; e++) {
        if (c->columns[e] >= 2 * n) continue;
        const ptrdiff_t block = ks_chain_block(c, w, e), row = block / n * stages;
        ks_chain_add(c, w, e, h, entries, w->matrix + row * w->size + block % n * stages, w->size);
    }
    return ks_lu(w->size, w->matrix, w->pivot, w->lead);
}

/* Adds what the equations of interval i pass on, with weights nu in `side`, to the gradients */
static void ks_chain_gather(const ks_chain *c, ptrdiff_t i, ks_chain_work *w, const ks_sweep *s) {
    const ptrdiff_t n = c->n, stages = c->stages, parameters = 2 * n + s->n_varied;
    const double *entry = ks_chain_entries(c, i, w);
    for (ptrdiff_t e = 0; e < c->n_entries; e++, entry += stages) {
        const ptrdiff_t column = c->columns[e];
        const double *nu = w->side + w->place[c->rows[e]] * stages * w->width;
        if (column < n) continue;
        for (ptrdiff_t j = 0; j < stages; j++) {
            const double part = entry[j] * nu[j];
            if (column >= parameters) {
                s->parameters[column - parameters] -= part;
            } else if (column >= 2 * n) {
                double *row = s->inputs + (column - 2 * n) * c->n_nodes + i;
                const double share = c->held[column - 2 * n] ? 0.0 : c->c[j];
                row[0] -= (1.0 - share) * part;
                row[1] -= share * part;
            } else if (!w->algebraic[column - n]) {
                s->carry[column - n] -= part;
            }
        }
    }
}

/* carry: lambda at the node `end`, and at `begin` afterwards */
static int ks_chain_adjoint(const ks_chain *c, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s) {
    const ptrdiff_t n = c->n, stages = c->stages;
    ks_pool pool = {NULL, 0};
    ks_chain_work w = {0};
    if (ks_chain_take(c, 1, &pool, &w)) return 1;
    int singular = 0;
    w.width = 1; /* no vectors */
    for (ptrdiff_t i = end - 1; i >= begin && !singular; i--) {
        const double h = c->time[i + 1] - c->time[i];
        singular = !ks_chain_factor(c, i, &w);
        for (ptrdiff_t k = 0; k < n; k++)
            for (ptrdiff_t j = 0; j < stages; j++)
                w.side[w.place[k] * stages + j] = !w.algebraic[k]  ? h * c->b[j] * s->carry[k]
                                                  : j + 1 < stages ? 0.0
                                                                   : s->carry[k];
        if (w.by_blocks)
            ks_blocks_solve_transposed(&w.blocks, w.side);
        else
            ks_lu_solve_transposed(w.size, w.matrix, w.pivot, w.side);
        for (ptrdiff_t k = 0; k < n; k++)
            s->carry[k] = (w.algebraic[k] ? 0.0 : s->carry[k]) + s->node[k * c->n_nodes + i];
        ks_chain_gather(c, i, &w, s);
    }
    free(pool.memory);
    return singular ? 2 : 0;
}

/* The right sides of interval i, which have no other stages: minus the derivatives of the equations
 * along `carry` and by the parameters, columns from `parameters` on */
static void ks_chain_sides(const ks_chain *c, ptrdiff_t i, ks_chain_work *w, ptrdiff_t parameters) {
    const ptrdiff_t n = c->n, stages = c->stages, width = w->width;
    const double *entry = ks_chain_entries(c, i, w);
    memset(w->side, 0, (size_t)(w->size * width) * sizeof(double));
    for (ptrdiff_t e = 0; e < c->n_entries; e++, entry += stages) {
        const ptrdiff_t column = c->columns[e];
        double *row = w->side + w->place[c->rows[e]] * stages * width;
        if (column >= parameters) {
            for (ptrdiff_t j = 0; j < stages; j++) row[j * width + column - parameters] -= entry[j];
        } else if (column >= n && column < 2 * n && !w->algebraic[column - n]) {
            const double *along = w->carry + (column - n) * width;
            if (stages == 3)
                ks_rows_minus(row, entry, along, width, 3, 1);
            else
                for (ptrdiff_t j = 0; j < stages; j++)
                    ks_rows_minus(row + j * width, entry + j, along, width, 1, 1);
        }
    }
}

/* The carry at the end of an interval of length h, from the unknowns of its stages in `side` */
static void ks_chain_carried(const ks_chain *c, double h, const ks_chain_work *w) {
    const ptrdiff_t stages = c->stages, width = w->width;
    for (ptrdiff_t k = 0; k < c->n; k++) {
        double *row = w->carry + k * width;
        const double *side = w->side + w->place[k] * stages * width;
        if (w->algebraic[k])
            memcpy(row, side + (stages - 1) * width, (size_t)width * sizeof(double));
        else
            for (ptrdiff_t j = 0; j < stages; j++)
                ks_minus(row, side + j * width, -h * c->b[j], width);
    }
}

/* carry: d x / d q (n, width) at the node `begin`, and at `end` afterwards */
static int ks_chain_tangent(const ks_chain *c, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s) {
    const ptrdiff_t n = c->n, width = s->width;
    const size_t bytes = (size_t)width * sizeof(double);
    ks_pool pool = {NULL, 0};
    ks_chain_work w = {0};
    if (ks_chain_take(c, width, &pool, &w)) return 1;
    int singular = 0;
    memset(w.carry, 0, (size_t)(n * w.width) * sizeof(double));
    for (ptrdiff_t k = 0; k < n; k++) memcpy(w.carry + k * w.width, s->carry + k * width, bytes);
    for (ptrdiff_t i = begin; i < end && !singular; i++) {
        singular = !ks_chain_factor(c, i, &w);
        ks_chain_sides(c, i, &w, 2 * n + s->n_varied);
        if (w.by_blocks)
            ks_blocks_solve(&w.blocks, w.side, w.width);
        else
            ks_lu_solve(w.size, w.matrix, w.pivot, w.side, w.width);
        ks_chain_carried(c, c->time[i + 1] - c->time[i], &w);
        double *along = s->along + (i + 1 - begin) * n * width;
        for (ptrdiff_t k = 0; k < n; k++) memcpy(along + k * width, w.carry + k * w.width, bytes);
    }
    for (ptrdiff_t k = 0; k < n; k++) memcpy(s->carry + k * width, w.carry + k * w.width, bytes);
    free(pool.memory);
    return singular ? 2 : 0;
}

#endif
