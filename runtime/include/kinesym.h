/* The binary interface between generated model libraries and the kinesym runtime.
 *
 * A library exports one function, `kinesym_library`, which returns its table of kernels. A kernel
 * is a function mapped over points (collocation intervals, nodes, samples). Argument number a holds
 * count[a] scalars: a varying one at data[k * ld + i] for scalar k of point i, a uniform one at
 * data[k]. All functions are free of global state and may be called from several threads.
 */
#ifndef KINESYM_H
#define KINESYM_H
#include <stddef.h>

#define KINESYM_ABI 1

typedef struct {
    const double *data;
    ptrdiff_t ld; /* distance between scalars of one point; unused for uniform arguments */
} ks_arg;

/* What ks_map does with output k of point i: */
enum ks_mode {
    KS_SET = 0,  /* out[offset[k] + i]  = value */
    KS_ADD = 1,  /* out[offset[k] + i] += value */
    KS_LATE = 2, /* the same, where another output of this call writes out[offset[k] + i] too, at
                    its point i + 1: added only when that has been written */
    KS_SUM = 3   /* out[offset[k]] += sum of the values over all points */
};

typedef struct ks_kernel {
    const char *name;
    int n_args;
    const int *count;             /* scalars of each argument, n_args of them */
    const unsigned char *varying; /* 1 varying, 0 uniform, n_args of them */
    int n_out;
    int n_uniform; /* values computed once per call from the uniform arguments */
    int n_scratch; /* vectors of workspace per call of `block` */
    /* fills u[0..n_uniform) */
    void (*uniform)(const ks_arg *arg, double *u, void *scratch);
    /* n_blocks blocks of `lanes` points: output k of lane l of block b goes to
       out[b * step + k * ld + l] */
    void (*block)(ptrdiff_t n_blocks, const ks_arg *arg, const double *u, double *out,
                  ptrdiff_t ld, ptrdiff_t step, void *scratch);
} ks_kernel;

/* Maps kernel `k` over n >= 1 points; offset and mode have n_out entries each. threads >= 1. The
 * result does not depend on the number of threads. Returns 0, or 1 if memory ran out.
 *
 * With mode NULL the outputs are packed from out + offset[0] on, in the order in which they are
 * made: blocks of `lanes` points, each output after output; the last block may be shorter. One
 * sequential stream is what memory likes best. */
typedef int ks_map_fn(const ks_kernel *k, ptrdiff_t n, const ks_arg *arg, double *out,
                      const ptrdiff_t *offset, const unsigned char *mode, int threads);

/* Fixed-step Runge-Kutta of order 4; see kinesym_rk4.h. */
typedef ptrdiff_t ks_rk4_fn(const ks_kernel *rhs, ptrdiff_t n_nodes, const double *time,
                            ptrdiff_t substeps, const double *inputs, const unsigned char *hold,
                            const double *parameters, double *states);

typedef struct {
    int abi;
    int lanes;
    int openmp; /* 1 if built with OpenMP */
    int n_kernels;
    const ks_kernel *const *kernels;
    ks_map_fn *map;
    ks_rk4_fn *rk4;
} ks_library;

typedef const ks_library *kinesym_library_fn(void);

#endif
