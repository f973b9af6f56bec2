/* A callback of the nonlinear program as a list of kernel calls, so that it runs without Python.
 *
 * Used by the compiled parts of the runtime (_native.pyx, _ipopt.pyx); generated libraries do not
 * see it.
 */
#ifndef KINESYM_PLAN_H
#define KINESYM_PLAN_H
#include "kinesym.h"

/* One kernel bound to its data and to the places of its outputs. */
typedef struct {
    const ks_kernel *const *kernel; /* another one may come there between two calls */
    ks_map_fn *map;
    ptrdiff_t n; /* points */
    int threads;
    const ks_arg *arg;      /* n_args of them; data is NULL where `base` says so */
    const int *base;        /* -1: bound; else the position of an array that is given at each call */
    const ptrdiff_t *start; /* where the argument begins in that array */
    const ks_place *place;
} ks_step;

typedef struct {
    ptrdiff_t n_steps;
    const ks_step *const *steps;
    ptrdiff_t n_zero;
    const ptrdiff_t *zero; /* outputs that no step sets, zeroed first */
    ptrdiff_t n_out;
    const int *alone; /* non-zero: with one thread, whatever the steps say */
} ks_plan;

/* Returns 0, or 1 if memory ran out. */
static inline int ks_run_step(const ks_step *s, const double *const *arrays, double *out,
                              int threads) {
    const ks_kernel *kernel = __atomic_load_n(s->kernel, __ATOMIC_ACQUIRE);
    const int n_args = kernel->n_args;
    ks_arg arg[n_args > 0 ? n_args : 1]; /* on the stack: plans are shared by threads */
    if (kernel->n_out == 0 || s->n < 1) return 0;
    for (int a = 0; a < n_args; a++) {
        arg[a] = s->arg[a];
        if (s->base[a] >= 0) arg[a].data = arrays[s->base[a]] + s->start[a];
    }
    return s->map(kernel, s->n, arg, out, s->place, threads);
}

/* The same for all steps. */
static inline int ks_run_plan(const ks_plan *p, const double *const *arrays, double *out) {
    for (ptrdiff_t i = 0; i < p->n_zero; i++) out[p->zero[i]] = 0.0;
    for (ptrdiff_t i = 0; i < p->n_steps; i++) {
        int status = ks_run_step(p->steps[i], arrays, out, *p->alone ? 1 : p->steps[i]->threads);
        if (status != 0) return status;
    }
    return 0;
}

#endif
