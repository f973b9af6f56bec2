/* Exact derivatives of implicit one-step methods: the defects d(x_i, x_{i+1}, u_i, u_{i+1}, p) = 0 of
 * all intervals form a chain, whose Jacobian collocation evaluates. Its block bidiagonal part is
 * solved here, forwards for tangents and backwards for the adjoint.
 */
#ifndef KINESYM_CHAIN_H
#define KINESYM_CHAIN_H
#include "kinesym_implicit.h"

/* Entry e of interval i in packed values */
static double ks_chain_entry(const ks_chain *c, ptrdiff_t i, ptrdiff_t e) {
    const ptrdiff_t first = i / KS_LANES * KS_LANES, rest = c->n_nodes - 1 - first;
    const ptrdiff_t width = rest < KS_LANES ? rest : KS_LANES;
    return c->values[first * c->n_entries + e * width + i - first];
}

static int ks_dense_take(ptrdiff_t n, ptrdiff_t width, ks_pool *pool, ks_dense *w) {
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && ks_allocate(pool)) return 1;
        w->matrix = (double *)ks_take(pool, n * n);
        w->side = (double *)ks_take(pool, n * width);
        w->pivot = (ptrdiff_t *)ks_take(pool, n);
    }
    return 0;
}

/* Factorises d defect / d x1 of interval i */
static int ks_chain_factor(const ks_chain *c, ptrdiff_t i, const ks_dense *w) {
    const ptrdiff_t n = c->n;
    memset(w->matrix, 0, (size_t)(n * n) * sizeof(double));
    for (ptrdiff_t e = 0; e < c->n_entries; e++)
        if (c->columns[e] >= n && c->columns[e] < 2 * n)
            w->matrix[c->rows[e] * n + c->columns[e] - n] = ks_chain_entry(c, i, e);
    return ks_lu(n, w->matrix, w->pivot);
}

/* carry: lambda at the node `end`, and at `begin` afterwards */
static int ks_chain_adjoint(const ks_chain *c, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s) {
    const ptrdiff_t n = c->n, first = 2 * n + s->n_varied, parameters = first + s->n_varied;
    ks_pool pool = {NULL, 0};
    ks_dense w = {0};
    if (ks_dense_take(n, 1, &pool, &w)) return 1;
    int singular = 0;
    for (ptrdiff_t i = end - 1; i >= begin && !singular; i--) {
        singular = !ks_chain_factor(c, i, &w);
        ks_lu_solve_transposed(n, w.matrix, w.pivot, s->carry);
        memcpy(w.side, s->carry, (size_t)n * sizeof(double));
        for (ptrdiff_t k = 0; k < n; k++) s->carry[k] = s->node[k * c->n_nodes + i];
        for (ptrdiff_t e = 0; e < c->n_entries; e++) {
            const ptrdiff_t j = c->columns[e];
            const double part = ks_chain_entry(c, i, e) * w.side[c->rows[e]];
            if (j < n)
                s->carry[j] -= part;
            else if (j >= parameters)
                s->parameters[j - parameters] -= part;
            else if (j >= first)
                s->inputs[(j - first) * c->n_nodes + i + 1] -= part;
            else if (j >= 2 * n)
                s->inputs[(j - 2 * n) * c->n_nodes + i] -= part;
        }
    }
    free(pool.memory);
    return singular ? 2 : 0;
}

/* carry: d x / d q (n, width) at the node `begin`, and at `end` afterwards */
static int ks_chain_tangent(const ks_chain *c, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s) {
    const ptrdiff_t n = c->n, width = s->width, parameters = 2 * n + 2 * s->n_varied;
    const size_t size = (size_t)(n * width) * sizeof(double);
    ks_pool pool = {NULL, 0};
    ks_dense w = {0};
    if (ks_dense_take(n, width, &pool, &w)) return 1;
    int singular = 0;
    for (ptrdiff_t i = begin; i < end && !singular; i++) {
        singular = !ks_chain_factor(c, i, &w);
        memset(w.side, 0, size);
        for (ptrdiff_t e = 0; e < c->n_entries; e++) {
            const ptrdiff_t j = c->columns[e];
            double *row = w.side + c->rows[e] * width;
            const double value = ks_chain_entry(c, i, e);
            if (j < n)
                for (ptrdiff_t k = 0; k < width; k++) row[k] -= value * s->carry[j * width + k];
            else if (j >= parameters)
                row[j - parameters] -= value;
        }
        ks_lu_solve(n, w.matrix, w.pivot, w.side, width);
        memcpy(s->carry, w.side, size);
        memcpy(s->along + (i + 1 - begin) * n * width, w.side, size);
    }
    free(pool.memory);
    return singular ? 2 : 0;
}

#endif
