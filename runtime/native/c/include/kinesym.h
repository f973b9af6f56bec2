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

#define KINESYM_ABI 11

typedef struct {
    const double *data;
    ptrdiff_t ld; /* distance between scalars of one point; unused for uniform arguments */
} ks_arg;

/* What ks_map does with the value of an output at a point: */
enum ks_mode {
    KS_SET = 0,  /* sets it at its place */
    KS_ADD = 1,  /* adds it to what is there */
    KS_LATE = 2, /* leaves it to another output, see `late` below; the last one is added */
    KS_SUM = 3   /* adds the sum over all points to out[base] */
};

/* Where the values of an output lie: run number `slot` of `members` runs of `count` values each,
 * packed from out[base] on. That is: `lanes` values of the first run, of the second, and so on, then
 * the next `lanes` values; the last block may be shorter. One run alone (members 1) is contiguous.
 * Point i has value number first + i; one value before or after the run may lie at out[other]. */
typedef struct {
    ptrdiff_t base, members, slot, count, first, other;
    /* output whose value at point i - 1 is added to that of this output at point i: two points share
       the entry; -1: none */
    ptrdiff_t late;
    ptrdiff_t mode;
} ks_place;

typedef struct ks_kernel {
    const char *name;
    int n_args;
    const int *count;             /* scalars of each argument, n_args of them */
    const unsigned char *varying; /* 1 varying, 0 uniform, n_args of them */
    int n_out;
    int n_uniform; /* values computed once per call from the uniform arguments */
    int n_scratch; /* vectors of workspace per call of `block` */
    int n_wide;    /* blocks that are best given at once, if there are so many */
    /* fills u[0..n_uniform) */
    void (*uniform)(const struct ks_kernel *k, const ks_arg *arg, double *u, void *scratch);
    /* n_blocks blocks of `lanes` points: output j of lane l of block b goes to
       out[b * step + j * ld + l] */
    void (*block)(const struct ks_kernel *k, ptrdiff_t n_blocks, const ks_arg *arg,
                  const double *u, double *out, ptrdiff_t ld, ptrdiff_t step, void *scratch);
} ks_kernel;

#define KS_SAME 512

/* A kernel and the points that it is mapped over; `place` has n_out entries. same[a]: whether argument
 * a, though it is varying, has the same values at all points, of which there are KS_SAME only, to be
 * read from a near cache. */
typedef struct {
    const ks_kernel *kernel;
    ptrdiff_t n;
    const ks_arg *arg;
    const unsigned char *same;
    const ks_place *place;
} ks_task;

/* Does tasks, whose order counts where several write the same value. threads >= 1. The result does
 * not depend on the number of threads. Returns 0, or 1 if memory ran out. */
typedef int ks_map_fn(const ks_task *task, ptrdiff_t count, double *out, int threads);

/* -- time stepping, see kinesym_step.h -------------------------------------------------------- */

/* One input over time, for one trajectory or for each member of an ensemble */
enum ks_kind {
    KS_LINEAR = 0,  /* linear between the samples of the nodes */
    KS_HELD = 1,    /* held from each node to the next (zero-order hold) */
    KS_PARABOLA = 2 /* a parabola on each interval, by its samples at the begin, in the middle and at
                       the end; then the value at the last node: 3 n_nodes - 2 */
};

typedef struct {
    const double *data; /* sample i of member j at data[j * stride + i] */
    ptrdiff_t stride;   /* 0: all members share one */
    int kind;
} ks_input;

#define KS_STAGES_MOST 16

#define KS_UNKNOWN_MOST 8 /* stages that are solved for */

/* A Runge-Kutta method: row s of a, (stages + 1, stages), leads to stage s at the share c[s] of the
 * step, the last row to its end. Weights of all rates, that at the end last: `error` of what is
 * estimated, by which steps are chosen (NULL: they are fixed), `dense` of what the cubic through both
 * ends lacks (NULL: nothing). The numbers are those of symbolic/schemes.
 *
 * An implicit one solves for its last stages, `implicit` of them, with A their part of a: inverse =
 * A^-1 = to B from, where B has a block for each eigenvalue: real ones, and then pairs alpha +- i beta,
 * (alpha, -beta; beta, alpha). Row k of B begins or ends that of alpha = eigen[2 k], beta =
 * eigen[2 k + 1], which is 0 for a real one. `error`: of their rates, in units of the rate at the
 * begin. */
typedef struct {
    int stages, order, implicit;
    const double *c, *a, *error, *dense, *inverse, *to, *from, *eigen;
} ks_tableau;

/* The steps that an adaptive method takes of one member, `count` so far: number k ends at time[k] and has
 * x at its begin in begin (room, n); of an implicit method, x' and x at its stages are in rates and
 * states (room, stages, n). */
typedef struct {
    ptrdiff_t count;
    double *time, *begin, *rates, *states;
} ks_record;

/* One task of time stepping. Letters: n states, m inputs, r parameters. */
typedef struct {
    const ks_kernel *rhs;     /* x' from x, u, p, t; NULL if the model is not explicit */
    const ks_kernel *outputs; /* y from x', x, u, p, t; NULL if there are none */
    int outputs_need_rates;   /* whether they contain x' */
    const ks_kernel *residual; /* of implicit methods: 0 = f(x', x, u, p, t) */
    const ks_kernel *slopes;   /* its derivatives; columns are x', then x: see rows, columns */
    const ks_kernel *tangent; /* x', then entries of S, then steps of M^-1: d x' = M^-1 S */
    ptrdiff_t n_entries;
    const ptrdiff_t *rows, *columns; /* place of each entry */
    ptrdiff_t n_solution;            /* x[target] -= value * x[source], or x[target] *= value */
    const ptrdiff_t *targets, *sources; /* if target and source are the same, in this order */
    ptrdiff_t n, n_nodes, members, substeps;
    const double *time; /* n_nodes */
    const ks_input *inputs;
    const double *parameters;
    ptrdiff_t parameter_stride; /* 0: all members share one set */
    const double *tables; /* the only uniform argument where parameters vary; NULL: none */
    double *states;             /* (n, members, n_nodes); the first column is given */
    double *values;             /* outputs, (n_out, members, n_nodes) */
    ptrdiff_t *reached;         /* per member: the nodes 0 ... reached - 1 are valid */
    double *step;               /* per member: length of the next step (adaptive methods) */
    double *trouble;            /* per member: norm of the residual where Newton's method failed;
                                   adaptive methods: KS_STIFF, if that is why they failed */
    double rtol, atol;          /* adaptive methods */
    int index;                  /* of the equations; from 2 on, algebraic states do not tell of errors */
    ks_tableau method;
    /* Of an implicit method with fixed steps and one member, unless NULL: x' and x at all stages are
       written to (n, stages, n_nodes - 1), with the ends of the intervals as one more stage if there
       are algebraic states and no stage is there. */
    double *stage_rates, *stage_states;
    /* Of an adaptive method and one member, unless NULL: steps end at each node, and those that are
       taken are recorded. There is room for `budget` more. */
    ks_record *record;
    int threads;
    /* A call takes at most `budget` >= 1 steps of each block of members, so that the caller can hear
       signals; the next one, `resumed`, goes on from here: */
    ptrdiff_t budget;
    int resumed;
    ptrdiff_t *taken; /* per member: steps within the interval so far, or KS_FAILED */
    double *between;  /* ((2 + implicit) n + n_entries + 7, members): x, x before or x', more */
    double *clock;    /* per member: t there (adaptive methods) */
} ks_run;

enum { KS_FAILED = -1, KS_STIFF = 1 };

/* What a loop returns, as bits */
enum { KS_NO_MEMORY = 1, KS_MORE = 2 };

/* Fills the nodes begin < i <= end; see above for what it returns. */
typedef int ks_march_fn(const ks_run *run, ptrdiff_t begin, ptrdiff_t end);

/* Derivatives along a trajectory. Columns of the entries of `tangent`, S, are n states, then n_varied
 * inputs (those that are differentiated with respect to, numbers in `varied`), then r parameters. */
typedef struct {
    double *carry;      /* adjoint: lambda (n), from node end back to begin;
                           tangent: d x / d q (n, width), from node begin to end */
    const double *node; /* adjoint: d J / d x of each node, (n, n_nodes), added on the way */
    double *inputs;     /* adjoint: d J / d u is added, (n_varied, n_nodes) */
    double *parameters; /* adjoint: d J / d p is added, (r) */
    double *along;      /* tangent: d x / d q of each node, (end - begin + 1, n, width); the first
                           is not touched */
    const ptrdiff_t *varied;
    ptrdiff_t n_varied;
    ptrdiff_t width; /* adjoint: r; tangent: columns of d x / d q, of which the first are the r
                        parameters and the others have no entries (initial states) */
} ks_sweep;

/* The linearised steps between the nodes begin and end of one trajectory; see kinesym_sweep.h. */
typedef int ks_sweep_fn(const ks_run *run, ptrdiff_t begin, ptrdiff_t end, const ks_sweep *sweep);

/* The derivatives of the equations at all stages of a trajectory, values (n_entries, stages,
 * n_nodes - 1). Columns are x' (n), x (n), n_varied inputs, parameters. a, b, c: of the method; held:
 * inputs that have the value of the node before. */
typedef struct {
    ptrdiff_t n, n_nodes, stages, n_entries;
    const ptrdiff_t *rows, *columns, *held;
    const double *values, *time, *a, *b, *c;
} ks_chain;

/* See kinesym_chain.h. Returns 0, 1 if memory ran out, 2 if a step is singular. */
typedef int ks_chain_fn(const ks_chain *chain, ptrdiff_t begin, ptrdiff_t end,
                        const ks_sweep *sweep);

/* Explicit steps of fixed length, whose numbers are compiled into the loop */
typedef struct {
    const char *name;
    ks_march_fn *march;
} ks_fixed;

typedef struct {
    int n_fixed;
    const ks_fixed *fixed;
    ks_march_fn *any_fixed; /* the same by the numbers of ks_run; NULL: there is none */
    ks_march_fn *adaptive, *radau, *implicit, *outputs;
    ks_sweep_fn *adjoint, *tangent; /* of explicit steps of fixed length */
    ks_chain_fn *chain_adjoint, *chain_tangent;
} ks_loops;

typedef struct {
    int abi;
    int lanes;
    int openmp; /* 1 if built with OpenMP */
    int n_kernels;
    const ks_kernel *const *kernels; /* of the machine they change: see native/c/machine */
    ks_map_fn *map;
    const ks_loops *loops; /* NULL if the library cannot step */
} ks_library;

typedef const ks_library *kinesym_library_fn(void);

/* what the files of a library share */
extern ks_map_fn ks_map;
extern const ks_loops ks_all_loops;

#endif
