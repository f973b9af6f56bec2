/* The table of time-stepping loops, for libraries whose kernels can be stepped. */
#ifndef KINESYM_LOOPS_H
#define KINESYM_LOOPS_H
#include "kinesym_chain.h"
#include "kinesym_dopri.h"
#include "kinesym_implicit.h"
#include "kinesym_step.h"

/* in files of their own: kinesym_rk4.h and kinesym_sweep.h */
int ks_rk4(const ks_run *r, ptrdiff_t begin, ptrdiff_t end);
int ks_rk4_adjoint(const ks_run *r, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s);
int ks_rk4_tangent(const ks_run *r, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s);

const ks_loops ks_all_loops = {
#ifdef KS_EXPLICIT
    .rk4 = ks_rk4,
#endif
    .implicit = ks_implicit,
    .dormand_prince = ks_dormand_prince,
    .outputs = ks_outputs,
#ifdef KS_SWEEPS
    .rk4_adjoint = ks_rk4_adjoint,
    .rk4_tangent = ks_rk4_tangent,
#endif
    .chain_adjoint = ks_chain_adjoint,
    .chain_tangent = ks_chain_tangent,
};

#endif
