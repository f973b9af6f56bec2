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
#include "kinesym_dense.h"
#include "kinesym_step.h"

/* Entry e of stage j of interval i */
static double ks_chain_entry(const ks_chain *c, ptrdiff_t i, ptrdiff_t j, ptrdiff_t e) {
    return c->values[(e * c->stages + j) * (c->n_nodes - 1) + i];
}

/* Work: a matrix with as many rows as there are unknowns, right sides. That of state k at stage j is
 * place[k] + j: states with few entries come first, so that elimination fills little. */
typedef struct {
    double *matrix, *side;
    ptrdiff_t *pivot, *lead, *place, size;
    int *algebraic;
} ks_chain_work;

/* Number of states before each state, times stages, in the order of their entries in rows and
 * columns; entries : room for (n) */
static void ks_chain_order(const ks_chain *c, ptrdiff_t *entries, ptrdiff_t *place) {
    const ptrdiff_t n = c->n;
    for (ptrdiff_t k = 0; k < n; k++) entries[k] = place[k] = 0;
    for (ptrdiff_t e = 0; e < c->n_entries; e++)
        if (c->columns[e] >= n && c->columns[e] < 2 * n)
            entries[c->rows[e]]++, entries[c->columns[e] - n]++;
    for (ptrdiff_t k = 0; k < n; k++)
        for (ptrdiff_t l = 0; l < k; l++)
            place[entries[l] <= entries[k] ? k : l] += c->stages;
}

static int ks_chain_take(const ks_chain *c, ptrdiff_t width, ks_pool *pool, ks_chain_work *w) {
    w->size = c->stages * c->n;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && ks_allocate(pool)) return 1;
        w->matrix = (double *)ks_take(pool, w->size * w->size);
        w->side = (double *)ks_take(pool, w->size * width);
        w->pivot = (ptrdiff_t *)ks_take(pool, w->size);
        w->lead = (ptrdiff_t *)ks_take(pool, w->size);
        w->place = (ptrdiff_t *)ks_take(pool, c->n);
        w->algebraic = (int *)ks_take(pool, c->n);
    }
    for (ptrdiff_t k = 0; k < c->n; k++) w->algebraic[k] = 1;
    for (ptrdiff_t e = 0; e < c->n_entries; e++)
        if (c->columns[e] < c->n) w->algebraic[c->columns[e]] = 0;
    ks_chain_order(c, w->pivot, w->place);
    return 0;
}

/* Factorises the derivatives of the equations of interval i with respect to the unknowns */
static int ks_chain_factor(const ks_chain *c, ptrdiff_t i, const ks_chain_work *w) {
    const ptrdiff_t n = c->n, stages = c->stages;
    const double h = c->time[i + 1] - c->time[i];
    memset(w->matrix, 0, (size_t)(w->size * w->size) * sizeof(double));
    for (ptrdiff_t j = 0; j < stages; j++)
        for (ptrdiff_t e = 0; e < c->n_entries; e++) {
            const ptrdiff_t column = c->columns[e], state = column < n ? column : column - n;
            double *row = w->matrix + (w->place[c->rows[e]] + j) * w->size;
            const double value = ks_chain_entry(c, i, j, e);
            if (column >= 2 * n) continue;
            if (column < n || w->algebraic[state])
                row[w->place[state] + j] += value;
            else
                for (ptrdiff_t l = 0; l < stages; l++)
                    row[w->place[state] + l] += h * c->a[j * stages + l] * value;
        }
    return ks_lu(w->size, w->matrix, w->pivot, w->lead);
}

/* Adds what the equations of stage j pass on, with weights nu (n), to the gradients */
static void ks_chain_gather(const ks_chain *c, ptrdiff_t i, ptrdiff_t j, const ks_chain_work *w,
                            const ks_sweep *s) {
    const ptrdiff_t n = c->n, parameters = 2 * n + s->n_varied;
    for (ptrdiff_t e = 0; e < c->n_entries; e++) {
        const ptrdiff_t column = c->columns[e];
        const double part = ks_chain_entry(c, i, j, e) * w->side[w->place[c->rows[e]] + j];
        if (column < n) continue;
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

/* carry: lambda at the node `end`, and at `begin` afterwards */
static int ks_chain_adjoint(const ks_chain *c, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s) {
    const ptrdiff_t n = c->n, stages = c->stages;
    ks_pool pool = {NULL, 0};
    ks_chain_work w = {0};
    if (ks_chain_take(c, 1, &pool, &w)) return 1;
    int singular = 0;
    for (ptrdiff_t i = end - 1; i >= begin && !singular; i--) {
        const double h = c->time[i + 1] - c->time[i];
        singular = !ks_chain_factor(c, i, &w);
        for (ptrdiff_t j = 0; j < stages; j++)
            for (ptrdiff_t k = 0; k < n; k++)
                w.side[w.place[k] + j] = !w.algebraic[k]  ? h * c->b[j] * s->carry[k]
                                         : j + 1 < stages ? 0.0
                                                          : s->carry[k];
        ks_lu_solve_transposed(w.size, w.matrix, w.pivot, w.side);
        for (ptrdiff_t k = 0; k < n; k++)
            s->carry[k] = (w.algebraic[k] ? 0.0 : s->carry[k]) + s->node[k * c->n_nodes + i];
        for (ptrdiff_t j = 0; j < stages; j++) ks_chain_gather(c, i, j, &w, s);
    }
    free(pool.memory);
    return singular ? 2 : 0;
}

/* carry: d x / d q (n, width) at the node `begin`, and at `end` afterwards */
static int ks_chain_tangent(const ks_chain *c, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s) {
    const ptrdiff_t n = c->n, stages = c->stages, width = s->width;
    const ptrdiff_t parameters = 2 * n + s->n_varied;
    ks_pool pool = {NULL, 0};
    ks_chain_work w = {0};
    if (ks_chain_take(c, width, &pool, &w)) return 1;
    int singular = 0;
    for (ptrdiff_t i = begin; i < end && !singular; i++) {
        const double h = c->time[i + 1] - c->time[i];
        singular = !ks_chain_factor(c, i, &w);
        memset(w.side, 0, (size_t)(w.size * width) * sizeof(double));
        for (ptrdiff_t j = 0; j < stages; j++)
            for (ptrdiff_t e = 0; e < c->n_entries; e++) {
                const ptrdiff_t column = c->columns[e];
                double *row = w.side + (w.place[c->rows[e]] + j) * width;
                const double value = ks_chain_entry(c, i, j, e);
                if (column >= parameters)
                    row[column - parameters] -= value;
                else if (column >= n && column < 2 * n && !w.algebraic[column - n])
                    for (ptrdiff_t k = 0; k < width; k++)
                        row[k] -= value * s->carry[(column - n) * width + k];
            }
        ks_lu_solve(w.size, w.matrix, w.pivot, w.side, width);
        for (ptrdiff_t k = 0; k < n; k++) {
            double *row = s->carry + k * width;
            if (w.algebraic[k]) memset(row, 0, (size_t)width * sizeof(double));
            for (ptrdiff_t j = 0; j < stages; j++) {
                const double last = j + 1 < stages ? 0.0 : 1.0;
                const double weight = w.algebraic[k] ? last : h * c->b[j];
                const double *side = w.side + (w.place[k] + j) * width;
                for (ptrdiff_t l = 0; l < width; l++) row[l] += weight * side[l];
            }
        }
        memcpy(s->along + (i + 1 - begin) * n * width, s->carry,
               (size_t)(n * width) * sizeof(double));
    }
    free(pool.memory);
    return singular ? 2 : 0;
}

#endif
