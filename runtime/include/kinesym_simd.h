/* Vectors of KS_LANES doubles, one point per lane, for generated kernels.
 *
 * Works with any number of lanes that is a power of two: the compiler splits what the processor
 * cannot hold in one register. Elementary functions come from glibc's libmvec where it has them
 * for this processor, else from libm, lane by lane.
 */
#ifndef KINESYM_SIMD_H
#define KINESYM_SIMD_H
#include <math.h>
#include "kinesym.h"

#ifndef KS_LANES
#if defined(__AVX512F__) && !defined(KS_NARROW) /* narrow: sooner done with one block */
#define KS_LANES 8
#elif defined(__AVX__)
#define KS_LANES 4
#elif defined(__SSE2__) || defined(__ARM_NEON)
#define KS_LANES 2
#else
#define KS_LANES 1
#endif
#endif

#if KS_LANES == 1

typedef double V;
static inline V ks_load(const double *p) { return *p; }
static inline void ks_store(double *p, V v) { *p = v; }
static inline V ks_splat(double s) { return s; }
static inline double ks_first(V v) { return v; }
static inline V ks_select(V c, V a, V b) { return c != 0.0 ? a : b; }
static inline V ks_lt(V a, V b) { return a < b; }
static inline V ks_le(V a, V b) { return a <= b; }
static inline V ks_eq(V a, V b) { return a == b; }
#define KS_UNARY(name, function) \
    static inline V ks_##name(V x) { return function(x); }
#define KS_BINARY(name, function) \
    static inline V ks_##name(V x, V y) { return function(x, y); }

#else

typedef double V __attribute__((vector_size(8 * KS_LANES)));
typedef long long ks_mask __attribute__((vector_size(8 * KS_LANES)));
/* the same in memory, aligned like a double only */
typedef double ks_unaligned __attribute__((vector_size(8 * KS_LANES), aligned(8), may_alias));
static inline V ks_load(const double *p) { return *(const ks_unaligned *)p; }
static inline void ks_store(double *p, V v) { *(ks_unaligned *)p = v; }
static inline V ks_splat(double s) { return s - (V){0}; }
static inline double ks_first(V v) { return v[0]; }
static inline V ks_choose(ks_mask m, V a, V b) {
    return (V)((m & (ks_mask)a) | (~m & (ks_mask)b));
}
static inline V ks_select(V c, V a, V b) { return ks_choose((ks_mask)(c != 0.0), a, b); }
static inline V ks_lt(V a, V b) { return ks_choose((ks_mask)(a < b), ks_splat(1.0), (V){0}); }
static inline V ks_le(V a, V b) { return ks_choose((ks_mask)(a <= b), ks_splat(1.0), (V){0}); }
static inline V ks_eq(V a, V b) { return ks_choose((ks_mask)(a == b), ks_splat(1.0), (V){0}); }
#define KS_UNARY(name, function)                                    \
    static inline V ks_##name(V x) {                                \
        V r = {0};                                                  \
        for (int l = 0; l < KS_LANES; l++) r[l] = function(x[l]);   \
        return r;                                                   \
    }
#define KS_BINARY(name, function)                                       \
    static inline V ks_##name(V x, V y) {                               \
        V r = {0};                                                      \
        for (int l = 0; l < KS_LANES; l++) r[l] = function(x[l], y[l]); \
        return r;                                                       \
    }

#endif

/* libmvec: the letter names the instruction set, the vectors must fit its registers */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(KS_NO_LIBMVEC)
#if KS_LANES == 8 && defined(__AVX512F__)
#define KS_VECTOR_NAME(f, suffix) _ZGVeN8##suffix##_##f
#elif KS_LANES == 4 && defined(__AVX2__)
#define KS_VECTOR_NAME(f, suffix) _ZGVdN4##suffix##_##f
#elif KS_LANES == 2
#define KS_VECTOR_NAME(f, suffix) _ZGVbN2##suffix##_##f
#endif
#endif

#ifdef KS_VECTOR_NAME
#define KS_UNARY_VECTOR(f)              \
    extern V KS_VECTOR_NAME(f, v)(V x); \
    static inline V ks_##f(V x) { return KS_VECTOR_NAME(f, v)(x); }
#define KS_BINARY_VECTOR(f)                   \
    extern V KS_VECTOR_NAME(f, vv)(V x, V y); \
    static inline V ks_##f(V x, V y) { return KS_VECTOR_NAME(f, vv)(x, y); }
#else
#define KS_UNARY_VECTOR(f) KS_UNARY(f, f)
#define KS_BINARY_VECTOR(f) KS_BINARY(f, f)
#endif

#ifdef KS_VECTOR_NAME
#if __GLIBC_PREREQ(2, 35)
#define KS_UNARY_NEWER KS_UNARY_VECTOR
#define KS_BINARY_NEWER KS_BINARY_VECTOR
#endif
#endif
#ifndef KS_UNARY_NEWER
#define KS_UNARY_NEWER(f) KS_UNARY(f, f)
#define KS_BINARY_NEWER(f) KS_BINARY(f, f)
#endif

KS_UNARY_VECTOR(sin)
KS_UNARY_VECTOR(cos)
KS_UNARY_VECTOR(exp)
KS_UNARY_VECTOR(log)
KS_BINARY_VECTOR(pow)
KS_UNARY_NEWER(tan)
KS_UNARY_NEWER(asin)
KS_UNARY_NEWER(acos)
KS_UNARY_NEWER(atan)
KS_UNARY_NEWER(sinh)
KS_UNARY_NEWER(cosh)
KS_UNARY_NEWER(tanh)
KS_UNARY_NEWER(asinh)
KS_UNARY_NEWER(acosh)
KS_UNARY_NEWER(atanh)
KS_UNARY_NEWER(erf)
KS_BINARY_NEWER(atan2)
KS_UNARY(abs, fabs)
KS_UNARY(floor, floor)

#if KS_LANES == 4 && defined(__AVX__) && !defined(__clang__)
static inline V ks_sqrt(V x) { return __builtin_ia32_sqrtpd256(x); }
#elif KS_LANES == 8 && defined(__AVX512F__) && !defined(__clang__)
static inline V ks_sqrt(V x) { return __builtin_ia32_sqrtpd512_mask(x, x, -1, 4); }
#else
KS_UNARY(sqrt, sqrt)
#endif

static inline V ks_min(V a, V b) { return ks_select(ks_lt(b, a), b, a); }
static inline V ks_max(V a, V b) { return ks_select(ks_lt(a, b), b, a); }
static inline V ks_sign(V x) { /* NaN stays NaN */
    return ks_select(ks_eq(x, x), ks_lt(ks_splat(0.0), x) - ks_lt(x, ks_splat(0.0)), x);
}

#endif
