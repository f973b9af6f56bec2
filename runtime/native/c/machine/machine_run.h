/* The machine for one instruction set: included once by each of machine_*.c, which say which one it is
 * by the name KS_MACHINE and pragmas, or KS_LANES.
 */
#include "machine.h"

#define KS_OF2(name, of) name##_##of
#define KS_OF1(name, of) KS_OF2(name, of)
#define KS_OF(name) KS_OF1(name, KS_MACHINE)
/* external names of the headers, one for each instruction set */
#define ks_map KS_OF(ks_map)
#define ks_all_loops KS_OF(ks_all_loops)
#define ks_adjoint KS_OF(ks_adjoint)
#define ks_tangent KS_OF(ks_tangent)
#define ks_any_fixed KS_OF(ks_any_fixed)

#include "include/kinesym_map.h"
#include "include/kinesym_table.h"

/* Loops of time stepping whose numbers are those of the run */
#define KS_FIXED ks_any_fixed
#define KS_STAGES r->method.stages
#define ks_c r->method.c
#define ks_a ((const double(*)[r->method.stages])r->method.a)
#include "include/kinesym_fixed.h"
#undef KS_FIXED
#define KS_STATES (r->n)
#include "include/kinesym_sweep.h"
#define KS_SWEEPS
#define KS_ANY_FIXED ks_any_fixed
#include "include/kinesym_loops.h"

static void ks_transposed(const ks_run *r, const double *restrict e, double *restrict kappa,
                          double *restrict eta) {
    const double *entry = e + r->n * KS_LANES, *value = entry + r->n_entries * KS_LANES;
    for (ptrdiff_t k = r->n_solution - 1; k >= 0; k--) {
        const ptrdiff_t target = r->targets[k], source = r->sources[k];
        if (target == source)
            kappa[target] *= value[k * KS_LANES];
        else
            kappa[source] -= value[k * KS_LANES] * kappa[target];
    }
    memset(eta, 0, (size_t)r->n * sizeof *eta);
    for (ptrdiff_t k = 0; k < r->n_entries; k++)
        if (r->columns[k] < r->n) eta[r->columns[k]] += entry[k * KS_LANES] * kappa[r->rows[k]];
}

/* Blocks that share one reading of an instruction: 128 points; of 64 the Hessian of ten links takes
 * 1.1 times as long, of 256 as long. One point alone takes what it needs. */
#define KS_GROUP (KS_LANES == 1 ? 1 : 128 / KS_LANES)

/* -- instructions ------------------------------------------------------------------------------- */

static inline V ks_three_halves(V x) { return x * ks_sqrt(x); }
static inline V ks_five_halves(V x) { return x * x * ks_sqrt(x); }

/* those that are no functions of kinesym_functions.h */
#define KS_OTHERS(X)                                                                               \
    X(load) X(take) X(spread) X(store) X(store_s) X(keep)                                          \
    X(add) X(add_s) X(sub) X(sub_s) X(s_sub) X(mul) X(mul_s) X(div) X(div_s) X(s_div)              \
    X(fma) X(fma_s) X(fms) X(fms_s) X(fnma) X(fnma_s) X(neg) X(inv)                                \
    X(sincos) X(select) X(locate) X(entry) X(three_halves) X(five_halves)

#define KS_NUMBER(name) KS_DO_##name,
#define KS_NUMBER_OF_ROW(lanes, name, function) KS_NUMBER(name)
enum {
    KS_OTHERS(KS_NUMBER) KS_OF_ONE(KS_NUMBER_OF_ROW) KS_OF_TWO(KS_NUMBER_OF_ROW) KS_INSTRUCTIONS
};

/* Result for each vector v of register `to`: of operands A, B and C, or the shared value s. */
#define A ks_load(at[code->a] + v * KS_LANES)
#define B ks_load(at[code->b] + v * KS_LANES)
#define C ks_load(at[code->c] + v * KS_LANES)
#define KS_EACH(value)                              \
    for (int v = 0; v < blocks; v++) to[v] = value; \
    at[code->to] = (const double *)to;              \
    break;
#define KS_CASE(name, value) \
    case KS_DO_##name: KS_EACH(value)
#define KS_CASE_OF_ONE(lanes, name, function) KS_CASE(name, ks_##name(A))
#define KS_CASE_OF_TWO(lanes, name, function) KS_CASE(name, ks_##name(A, B))

/* All instructions for so many blocks of points from i on. A value is where `at` says: in its register,
 * or where it was loaded from, which saves a copy. */
static inline __attribute__((always_inline)) void ks_group(
    const ks_instruction *restrict code, ptrdiff_t n, const ks_arg *arg, ptrdiff_t i, double *u,
    double *out, ptrdiff_t ld, ptrdiff_t step, V *restrict registers, const double **restrict at,
    int blocks) {
    for (const ks_instruction *end = code + n; code < end; code++) {
        V *to = registers + (ptrdiff_t)code->to * KS_GROUP;
        switch (code->op) {
        case KS_DO_load: at[code->to] = arg[code->a].data + code->b * arg[code->a].ld + i; break;
        case KS_DO_take: {
            const V s = ks_splat(arg[code->a].data[code->b]);
            KS_EACH(s)
        }
        case KS_DO_spread: {
            const V s = ks_splat(u[code->a]);
            KS_EACH(s)
        }
        case KS_DO_store: {
            double *to_point = out + code->to * ld;
            for (int v = 0; v < blocks; v++) ks_store(to_point + v * step, A);
            break;
        }
        case KS_DO_store_s: {
            double *to_point = out + code->to * ld;
            for (int v = 0; v < blocks; v++) ks_store(to_point + v * step, ks_splat(u[code->a]));
            break;
        }
        case KS_DO_keep: u[code->to] = *at[code->a]; break;
        KS_CASE(add, A + B)
        KS_CASE(sub, A - B)
        KS_CASE(mul, A * B)
        KS_CASE(div, A / B)
        KS_CASE(fma, A * B + C)
        KS_CASE(fms, A * B - C)
        KS_CASE(fnma, C - A * B)
#define KS_SHARED_CASE(name, value)           \
    case KS_DO_##name: {                      \
        const V s = ks_splat(u[code->b]);     \
        KS_EACH(value)                        \
    }
        KS_SHARED_CASE(add_s, A + s)
        KS_SHARED_CASE(sub_s, A - s)
        KS_SHARED_CASE(s_sub, s - A)
        KS_SHARED_CASE(mul_s, A * s)
        KS_SHARED_CASE(div_s, A / s)
        KS_SHARED_CASE(s_div, s / A)
        KS_SHARED_CASE(fma_s, A * s + C)
        KS_SHARED_CASE(fms_s, A * s - C)
        KS_SHARED_CASE(fnma_s, C - A * s)
        KS_CASE(neg, -A)
        KS_CASE(inv, 1.0 / A)
        KS_CASE(select, ks_select(A, B, C))
        case KS_DO_sincos: {
            V *cosine = registers + (ptrdiff_t)code->d * KS_GROUP;
            for (int v = 0; v < blocks; v++) {
                V s, co;
                ks_sincos(A, &s, &co);
                to[v] = s, cosine[v] = co;
            }
            at[code->to] = (const double *)to, at[code->d] = (const double *)cosine;
            break;
        }
        KS_CASE(locate, ks_locate(arg[code->a].data + code->b, code->d, C))
        KS_CASE(entry, ks_entry(arg[code->a].data + code->b, code->d, C))
        KS_OF_ONE(KS_CASE_OF_ONE)
        KS_OF_TWO(KS_CASE_OF_TWO)
        KS_CASE(three_halves, ks_three_halves(A))
        KS_CASE(five_halves, ks_five_halves(A))
        default: break;
        }
    }
}

/* Places of values, kept behind the registers. */
static const double **ks_places(const ks_program *p, V *registers) {
    return (const double **)(registers + p->n_registers * KS_GROUP);
}

static void ks_machine_uniform(const ks_kernel *k, const ks_arg *arg, double *u, void *scratch) {
    const ks_program *p = (const ks_program *)k;
    if (p->n_constants > 0)
        memcpy(u + p->n_shared, p->constants, (size_t)p->n_constants * sizeof *u);
    const double **at = ks_places(p, scratch);
    ks_group(p->hoisted, p->n_hoisted, arg, 0, u, NULL, 0, 0, scratch, at, 1);
}

static void ks_machine_block(const ks_kernel *k, ptrdiff_t n_blocks, const ks_arg *arg,
                             const double *u, double *out, ptrdiff_t ld, ptrdiff_t step,
                             void *scratch) {
    const ks_program *p = (const ks_program *)k;
    double *shared = (double *)u; /* which these instructions only read */
    const double **at = ks_places(p, scratch);
    ptrdiff_t b = 0, groups = (n_blocks + KS_GROUP - 1) / KS_GROUP;
    __atomic_fetch_add(&((ks_program *)k)->done, groups * p->n_code, __ATOMIC_RELAXED);
    for (; b + KS_GROUP <= n_blocks; b += KS_GROUP)
        ks_group(p->code, p->n_code, arg, b * KS_LANES, shared, out + b * step, ld, step, scratch, at,
                 KS_GROUP);
    if (b < n_blocks)
        ks_group(p->code, p->n_code, arg, b * KS_LANES, shared, out + b * step, ld, step, scratch, at,
                 (int)(n_blocks - b));
}

#ifdef _OPENMP
#define KS_OPENMP 1
#else
#define KS_OPENMP 0
#endif

const ks_machine KS_OF(ks_machine) = {KS_LANES, KS_GROUP, KS_OPENMP, ks_machine_uniform,
                                      ks_machine_block, ks_map, &ks_all_loops};
