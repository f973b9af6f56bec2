/* A machine that runs kernels without a compiler: their operations as a list of instructions, each
 * done for a group of points at once, so that reading the list costs little per point.
 *
 * Registers are vectors of up to KS_GROUP blocks of points; u holds the values that all points share,
 * then constants. The list comes from codegen/bytecode.py; what each instruction does is said in
 * machine_run.h, whose names of instructions are the only ones.
 */
#ifndef KINESYM_MACHINE_H
#define KINESYM_MACHINE_H
#include <stdint.h>
#include "kinesym.h"

/* Registers, places in u, arguments, outputs or numbers, as the instruction says. */
typedef struct {
    uint32_t op, to, a, b, c, d;
} ks_instruction;

/* A kernel, as the first member of what its functions find of it. */
typedef struct {
    ks_kernel kernel;
    ptrdiff_t n_hoisted, n_code, n_shared, n_constants, n_registers;
    const ks_instruction *hoisted, *code; /* once per call, and for each group of points */
    const double *constants;              /* in u from n_shared on */
    ptrdiff_t done;                       /* instructions for groups of points, so far */
} ks_program;

/* Capabilities of a processor: blocks of `lanes` points, KS_GROUP of them at once. */
typedef struct {
    int lanes, group, openmp;
    void (*uniform)(const ks_kernel *, const ks_arg *, double *, void *);
    void (*block)(const ks_kernel *, ptrdiff_t, const ks_arg *, const double *, double *, ptrdiff_t,
                  ptrdiff_t, void *);
    ks_map_fn *map;
    const ks_loops *loops;
} ks_machine;

extern const ks_machine ks_machine_single, ks_machine_plain, ks_machine_avx2, ks_machine_avx512;

/* The best machine for this processor, or that with so many lanes; NULL if it has none. */
const ks_machine *ks_machine_here(int lanes);

/* The number of the instruction of that name, or -1. */
int ks_instruction_number(const char *name);

#endif
