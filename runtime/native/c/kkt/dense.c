/* dense.h for the instruction sets of x86, the best one chosen at run time; elsewhere as it is. */
#include "dense_types.h"
#include "targets.h"

#include <math.h>
#include <string.h>

#define ROUNDING 1.8e-15 /* 8 units */
#define EARLY 1024       /* values of L so far ahead are fetched early by solutions */

/* The best pivot so far; `quality` as in kkt_tolerance: 1 / (most that its elimination adds to an
 * entry of the scaled matrix). */
typedef struct {
    double quality;
    int first, second; /* second < 0: of order 1 */
    double rest;       /* of one of order 1, the largest other entry of its column, scaled */
} choice;

static inline void consider(choice *best, double quality, int first, int second,
                            double rest) {
    if (quality > best->quality) *best = (choice){quality, first, second, rest};
}

/* Whether the diagonal entry of column j is little more than the rounding of what was subtracted. */
static inline int is_faint(const front *f, int j, kkt_tolerance tolerance) {
    const double size = fabs(f->values[(ptrdiff_t)j * f->ld + j]) * f->scale[j];
    return size < tolerance.faint * f->noise[j];
}

#define ROUTINES(set)                                                                      \
    {clear_##set, extend_##set, eliminate_##set, schur_##set, keep_##set, forward_##set,   \
     backward_##set, forward_sides_##set, backward_sides_##set, inverse_##set}

/* -- in plain C: two doubles, a register of SSE2 and of NEON ------------------------------------- */

#define WIDTH 2
#define FIRST_ROWS ((M){0, 1})
#define LARGER(a, b) ((V)(((M)(a) & ((a) > (b))) | ((M)(b) & ~((a) > (b)))))
#define LARGEST(a) ((a)[1] > (a)[0] ? (a)[1] : (a)[0])
#define SUM(a) ((a)[0] + (a)[1])
#define TARGET(name) name##_plain
#include "dense.h"
#undef TARGET
static const kkt_dense plain = ROUTINES(plain);

#if HAS_TARGETS
#include <immintrin.h>
#undef WIDTH
#undef FIRST_ROWS
#undef LARGER
#undef LARGEST
#undef SUM

/* -- AVX2 --------------------------------------------------------------------------------------- */

TARGET_BEGIN(AVX2)

static inline double largest_of_four(__m256d a) {
    const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
}

static inline double sum_of_four(__m256d a) {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#define WIDTH 4
#define FIRST_ROWS ((M){0, 1, 2, 3})
#define LARGER(a, b) ((V)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#define LARGEST(a) largest_of_four((__m256d)(a))
#define SUM(a) sum_of_four((__m256d)(a))
#define TARGET(name) name##_avx2
#include "dense.h"
#undef WIDTH
#undef FIRST_ROWS
#undef LARGER
#undef LARGEST
#undef SUM
#undef TARGET
TARGET_END
static const kkt_dense avx2 = ROUTINES(avx2);

/* -- AVX-512 ------------------------------------------------------------------------------------ */

TARGET_BEGIN(AVX512)
#define WIDTH 8
#define FIRST_ROWS ((M){0, 1, 2, 3, 4, 5, 6, 7})
#define LARGER(a, b) ((V)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#define LARGEST(a) _mm512_reduce_max_pd((__m512d)(a))
#define SUM(a) _mm512_reduce_add_pd((__m512d)(a))
#define TARGET(name) name##_avx512
#include "dense.h"
#undef TARGET
TARGET_END
static const kkt_dense avx512 = ROUTINES(avx512);

const kkt_dense *kkt_dense_routines(void) {
    if (HAS_AVX512) return &avx512;
    return HAS_AVX2 ? &avx2 : &plain;
}

#else

const kkt_dense *kkt_dense_routines(void) { return &plain; }

#endif
