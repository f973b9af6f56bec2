/* dense.h for the instruction sets of x86, the best one chosen at run time; elsewhere as it is. */
#include "dense_types.h"

#include <math.h>
#include <string.h>

#define ROUNDING 1.8e-15 /* 8 units */

typedef double V __attribute__((vector_size(8 * LANES), may_alias));
typedef int64_t M __attribute__((vector_size(8 * LANES), may_alias));

/* The best pivot so far: `quality` is 1 / (largest entry of the columns of L that it would give). */
typedef struct {
    double quality;
    int first, second; /* second < 0: of order 1 */
} choice;

static inline void consider(choice *best, double quality, int first, int second) {
    if (quality > best->quality) *best = (choice){quality, first, second};
}

#define TARGET(name) name##_plain
#include "dense.h"
#undef TARGET
static const kkt_dense plain = {eliminate_plain, schur_plain, forward_plain, backward_plain};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define TARGET(name) name##_avx2
#include "dense.h"
#undef TARGET
#pragma GCC pop_options
static const kkt_dense avx2 = {eliminate_avx2, schur_avx2, forward_avx2, backward_avx2};

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512")
#define TARGET(name) name##_avx512
#include "dense.h"
#undef TARGET
#pragma GCC pop_options
static const kkt_dense avx512 = {eliminate_avx512, schur_avx512, forward_avx512, backward_avx512};

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
