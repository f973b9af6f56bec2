/* The smooth motion of one mode: inputs, contact forces and rates. */
#include "work.h"

#include <math.h>
#include <string.h>

void ks_evaluate(const work *w, const bound *b, const double *x, double t) {
    const ks_arg arg[4] = {{x, 1}, {w->u, 1}, {w->r->parameters, 0}, {&t, 1}};
    b->k->block(b->k, 1, arg, b->uniform, b->out, 1, 0, b->scratch);
}

double ks_hybrid_input(const hybrid_run *r, ptrdiff_t i, ptrdiff_t segment, double t) {
    const ptrdiff_t degree = r->m * r->segments;
    const double *c = r->coefficients + i * r->segments + segment, s = t - r->begin[segment];
    return c[0] + s * (c[degree] + s * (c[2 * degree] + s * c[3 * degree]));
}

double ks_input_rate(const hybrid_run *r, ptrdiff_t i, double t) {
    const ptrdiff_t degree = r->m * r->segments;
    const double *c = r->coefficients + i * r->segments + r->segment, s = t - r->begin[r->segment];
    return c[degree] + s * (2.0 * c[2 * degree] + s * 3.0 * c[3 * degree]);
}

void ks_set_inputs(const work *w, double t) {
    for (ptrdiff_t i = 0; i < w->r->m; i++) w->u[i] = ks_hybrid_input(w->r, i, w->r->segment, t);
}

int ks_some_active(const hybrid_run *r) {
    for (int i = 0; i < r->points.count; i++)
        if (r->state[i] == KS_POINT_ACTIVE) return 1;
    return 0;
}

void ks_sliding(const work *w, double *slide) {
    for (int i = 0; i < w->r->points.count; i++)
        slide[i] = w->r->points.tangent[i] < 0 ? 0.0 : speeds(w)[w->r->points.tangent[i]];
}

void ks_set_forces(work *w, const double *x, double t) {
    hybrid_run *r = w->r;
    double *f = w->u + r->m + r->d;
    memset(f, 0, (size_t)r->points.rows * sizeof *f);
    if (!ks_some_active(r)) return;
    ks_evaluate(w, &w->contact, x, t);
    int mode[HYBRID_CONTACTS];
    for (int i = 0; i < r->points.count; i++)
        mode[i] = r->state[i] == KS_POINT_ACTIVE ? r->friction[i] : KS_CONTACT_OPEN;
    if (!r->by_height) {
        if (!ks_contact_forces(&r->points, coupling(w), free_motion(w), mode, KS_DOUBT, f))
            w->failed |= 1;
        return;
    }
    int near[HYBRID_CONTACTS]; /* what is still there may press or not; how it rubs, events decide */
    for (int i = 0; i < r->points.count; i++) near[i] = r->state[i] == KS_POINT_ACTIVE;
    if (!ks_contact_solve(&r->points, coupling(w), free_motion(w), near, NULL, mode, f))
        w->failed |= 1;
}

void ks_rate(work *w, const double *x, double t, double *out) {
    ks_set_inputs(w, t);
    ks_set_forces(w, x, t);
    ks_evaluate(w, &w->smooth, x, t);
    memcpy(out, w->smooth.out, (size_t)w->r->n * sizeof *out);
    w->r->calls++;
}
