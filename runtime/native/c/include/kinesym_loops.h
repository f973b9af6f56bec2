/* The table of time-stepping loops, for libraries whose kernels can be stepped. */
#ifndef KINESYM_LOOPS_H
#define KINESYM_LOOPS_H
#include "kinesym_adaptive.h"
#include "kinesym_chain.h"
#include "kinesym_implicit.h"
#include "kinesym_outputs.h"
#include "kinesym_radau.h"

/* in a file of its own: kinesym_sweep.h; those of kinesym_fixed.h are listed by the generator */
int ks_adjoint(const ks_run *r, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s);
int ks_tangent(const ks_run *r, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *s);

const ks_loops ks_all_loops = {
#ifdef KS_FIXED
    .n_fixed = sizeof ks_fixed_loops / sizeof *ks_fixed_loops,
    .fixed = ks_fixed_loops,
#endif
#ifdef KS_ANY_FIXED
    .any_fixed = KS_ANY_FIXED,
#endif
    .adaptive = ks_adaptive,
    .radau = ks_radau_steps,
    .implicit = ks_implicit,
    .outputs = ks_outputs,
#ifdef KS_SWEEPS
    .adjoint = ks_adjoint,
    .tangent = ks_tangent,
#endif
    .chain_adjoint = ks_chain_adjoint,
    .chain_tangent = ks_chain_tangent,
};

#endif
