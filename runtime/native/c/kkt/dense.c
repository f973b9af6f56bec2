/* dense.h for the instruction sets of x86, the best one chosen at run time; elsewhere as it is. */
#include "dense_types.h"

#include <math.h>
#include <string.h>

#define ROUNDING 1.8e-15 /* 8 units */
#define FIRST_ROWS ((M){0, 1, 2, 3, 4, 5, 6, 7})

typedef double V __attribute__((vector_size(8 * LANES), may_alias));
typedef int64_t M __attribute__((vector_size(8 * LANES), may_alias));

/* The best pivot so far; `quality` as in kkt_tolerance: 1 / (most that its elimination adds to an
 * entry of the scaled matrix). */
typedef struct {
    double quality;
    int first, second; /* second < 0: of order 1 */
} choice;

static inline void consider(choice *best, double quality, int first, int second) {
    if (quality > best->quality) *best = (choice){quality, first, second};
}

/* Whether the diagonal entry of column j is less than what counts as one. */
static inline int is_faint(const front *f, int j, kkt_tolerance tolerance) {
    const double scale = f->scale[j];
    return fabs(f->values[(ptrdiff_t)j * f->ld + j]) * scale * scale < tolerance.faint;
}

/* -- in plain C --------------------------------------------------------------------------------- */

static inline double largest(const double *a) {
    double result = a[0];
    for (int l = 1; l < LANES; l++) result = a[l] > result ? a[l] : result;
    return result;
}

static inline double sum(const double *a) {
    return ((a[0] + a[4]) + (a[1] + a[5])) + ((a[2] + a[6]) + (a[3] + a[7]));
}

#define LARGER(a, b) ((V)(((M)(a) & ((a) > (b))) | ((M)(b) & ~((a) > (b)))))
#define LARGEST(a) largest((const double *)&(a))
#define SUM(a) sum((const double *)&(a))
#define TARGET(name) name##_plain
#include "dense.h"
#undef TARGET
static const kkt_dense plain = {eliminate_plain, schur_plain, forward_plain,
                                backward_plain, inverse_plain};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>

/* -- AVX2: vectors in two halves ---------------------------------------------------------------- */

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define TARGET(name) name##_avx2
#include "dense.h"
#undef TARGET
#pragma GCC pop_options
static const kkt_dense avx2 = {eliminate_avx2, schur_avx2, forward_avx2,
                               backward_avx2, inverse_avx2};

/* -- AVX-512 ------------------------------------------------------------------------------------ */

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512")
#undef LARGER
#undef LARGEST
#undef SUM
#define LARGER(a, b) ((V)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#define LARGEST(a) _mm512_reduce_max_pd((__m512d)(a))
#define SUM(a) _mm512_reduce_add_pd((__m512d)(a))
#define TARGET(name) name##_avx512
#include "dense.h"
#undef TARGET
#pragma GCC pop_options
static const kkt_dense avx512 = {eliminate_avx512, schur_avx512,
                                 forward_avx512, backward_avx512, inverse_avx512};

const kkt_dense *kkt_dense_routines(void) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2;
    return &plain;
}

#else

const kkt_dense *kkt_dense_routines(void) { return &plain; }

#endif
