"""Declarations of C for all compiled parts: kinesym.h, and plans of kernel calls."""

from libc.stddef cimport ptrdiff_t


cdef extern from "kinesym.h" nogil:
    enum: KINESYM_ABI

    enum: KS_SAME

    ctypedef struct ks_arg:
        const double *data
        ptrdiff_t ld

    ctypedef struct ks_kernel:
        const char *name
        int n_args
        const int *count
        const unsigned char *varying
        int n_out
        int n_uniform
        int n_scratch
        int n_wide
        void (*uniform)(const ks_kernel *, const ks_arg *, double *, void *) noexcept nogil
        void (*block)(const ks_kernel *, ptrdiff_t, const ks_arg *, const double *, double *,
                      ptrdiff_t, ptrdiff_t, void *) noexcept nogil

    ctypedef struct ks_place:
        ptrdiff_t base

    ctypedef struct ks_task:
        pass

    ctypedef int ks_map_fn(const ks_task *, ptrdiff_t, double *, int) noexcept nogil
    enum: KS_SET
    enum: KS_ADD
    enum: KS_LATE
    enum: KS_SUM
    enum: KS_LINEAR
    enum: KS_HELD
    enum: KS_PARABOLA

    ctypedef struct ks_input:
        const double *data
        ptrdiff_t stride
        int kind

    enum: KS_STAGES_MOST
    enum: KS_UNKNOWN_MOST

    ctypedef struct ks_tableau:
        int stages
        int order
        int implicit
        const double *c
        const double *a
        const double *error
        const double *dense
        const double *inverse
        const double *to
        const double *from_ "from"
        const double *eigen

    ctypedef struct ks_record:
        ptrdiff_t count
        double *time
        double *begin
        double *rates
        double *states

    ctypedef struct ks_run:
        const ks_kernel *rhs
        const ks_kernel *outputs
        int outputs_need_rates
        const ks_kernel *residual
        const ks_kernel *slopes
        const ks_kernel *tangent
        ptrdiff_t n_entries
        const ptrdiff_t *rows
        const ptrdiff_t *columns
        ptrdiff_t n_solution
        const ptrdiff_t *targets
        const ptrdiff_t *sources
        ptrdiff_t n
        ptrdiff_t n_nodes
        ptrdiff_t members
        ptrdiff_t substeps
        const double *time
        const ks_input *inputs
        const double *parameters
        ptrdiff_t parameter_stride
        const double *tables
        double *states
        double *values
        ptrdiff_t *reached
        double *step
        double *trouble
        double rtol
        double atol
        int index
        ks_tableau method
        double *stage_rates
        double *stage_states
        ks_record *record
        int threads
        ptrdiff_t budget
        int resumed
        ptrdiff_t *taken
        double *between
        double *clock

    enum: KS_FAILED
    enum: KS_STIFF
    enum: KS_NO_MEMORY
    enum: KS_MORE

    ctypedef struct ks_sweep:
        double *carry
        const double *node
        double *inputs
        double *parameters
        double *along
        const ptrdiff_t *varied
        ptrdiff_t n_varied
        ptrdiff_t width

    ctypedef struct ks_chain:
        ptrdiff_t n
        ptrdiff_t n_nodes
        ptrdiff_t stages
        ptrdiff_t n_entries
        const ptrdiff_t *rows
        const ptrdiff_t *columns
        const ptrdiff_t *held
        const double *values
        const double *time
        const double *a
        const double *b
        const double *c

    ctypedef int ks_march_fn(const ks_run *, ptrdiff_t, ptrdiff_t) noexcept nogil
    ctypedef int ks_sweep_fn(const ks_run *, ptrdiff_t, ptrdiff_t,
                                  const ks_sweep *) noexcept nogil
    ctypedef int ks_chain_fn(const ks_chain *, ptrdiff_t, ptrdiff_t,
                             const ks_sweep *) noexcept nogil

    ctypedef struct ks_fixed:
        const char *name
        ks_march_fn *march

    ctypedef struct ks_loops:
        int n_fixed
        const ks_fixed *fixed
        ks_march_fn *any_fixed
        ks_march_fn *adaptive
        ks_march_fn *radau
        ks_march_fn *implicit
        ks_march_fn *outputs
        ks_sweep_fn *adjoint
        ks_sweep_fn *tangent
        ks_chain_fn *chain_adjoint
        ks_chain_fn *chain_tangent

    ctypedef struct ks_library:
        int abi
        int lanes
        int openmp
        int n_kernels
        const ks_kernel **kernels
        ks_map_fn *map
        const ks_loops *loops


ctypedef const ks_library *(*library_function)() noexcept nogil


cdef extern from "kinesym_plan.h" nogil:
    ctypedef struct ks_step:
        const ks_kernel **kernel
        ks_map_fn *map
        ptrdiff_t n
        const ks_arg *arg
        const int *base
        const ptrdiff_t *start
        const unsigned char *same
        const ks_place *place

    ctypedef struct ks_plan:
        ptrdiff_t n_steps
        const ks_step **steps
        ptrdiff_t n_args
        ptrdiff_t n_zero
        const ptrdiff_t *zero
        ptrdiff_t n_out
        int threads
        const int *alone

    int ks_run_plan(const ks_plan *, const double **, double *)
