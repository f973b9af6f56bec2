/* A callback of the nonlinear program as a list of kernel calls, so that it runs without Python.
 *
 * Used by the compiled parts of the runtime (_plan.pyx, _ipopt.pyx); generated libraries do not
 * see it.
 */
#ifndef KINESYM_PLAN_H
#define KINESYM_PLAN_H
#include <stdlib.h>
#include "kinesym.h"

/* One kernel bound to its data and to the places of its outputs. */
typedef struct {
    const ks_kernel *const *kernel; /* another one may come there between two calls */
    ks_map_fn *map;
    ptrdiff_t n;            /* points */
    const ks_arg *arg;      /* n_args of them; data is NULL where `base` says so */
    const int *base;        /* -1: bound; else the position of an array that is given at each call */
    const ptrdiff_t *start; /* where the argument begins in that array */
    const unsigned char *same;
    const ks_place *place;
} ks_step;

typedef struct {
    ptrdiff_t n_steps; /* which have the same `map` */
    const ks_step *const *steps;
    ptrdiff_t n_args; /* of all steps */
    ptrdiff_t n_zero;
    const ptrdiff_t *zero; /* outputs that no step sets, zeroed first */
    ptrdiff_t n_out;
    int threads;
    const int *alone; /* non-zero: with one thread, whatever the plan says */
} ks_plan;

/* Returns 0, or 1 if memory ran out. */
static inline int ks_run_plan(const ks_plan *p, const double *const *arrays, double *out) {
    for (ptrdiff_t i = 0; i < p->n_zero; i++) out[p->zero[i]] = 0.0;
    if (p->n_steps == 0) return 0;
    const size_t tasks = (size_t)p->n_steps * sizeof(ks_task);
    ks_task *task = malloc(tasks + (size_t)p->n_args * sizeof(ks_arg)); /* threads share plans */
    if (task == NULL) return 1;
    ks_arg *arg = (ks_arg *)(task + p->n_steps);
    for (ptrdiff_t i = 0; i < p->n_steps; i++) {
        const ks_step *s = p->steps[i];
        const ks_kernel *kernel = __atomic_load_n(s->kernel, __ATOMIC_ACQUIRE);
        task[i] = (ks_task){kernel, s->n, arg, s->same, s->place};
        for (int a = 0; a < kernel->n_args; a++, arg++) {
            *arg = s->arg[a];
            if (s->base[a] >= 0) arg->data = arrays[s->base[a]] + s->start[a];
        }
    }
    const int status = p->steps[0]->map(task, p->n_steps, out, *p->alone ? 1 : p->threads);
    free(task);
    return status;
}

#endif
