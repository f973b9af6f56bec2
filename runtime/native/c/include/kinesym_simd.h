/* Vectors of KS_LANES doubles, one point per lane, for generated kernels.
 *
 * Works with any number of lanes that is a power of two: the compiler splits what the processor
 * cannot hold in one register. Elementary functions come from glibc's libmvec where it has them
 * for this processor, else from libm, lane by lane.
 */
#ifndef KINESYM_SIMD_H
#define KINESYM_SIMD_H
#include <math.h>
#if defined(__clang__) && defined(__x86_64__)
#include <immintrin.h> /* not with gcc: half the time that a file takes */
#endif
#include "kinesym.h"
#include "kinesym_functions.h"
#include "kinesym_special.h"

/* Not every file that includes a header needs all of it. */
#define KS_PART static __attribute__((unused))

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

static inline size_t ks_round_up(ptrdiff_t value, ptrdiff_t unit) {
    return (size_t)((value + unit - 1) / unit * unit);
}

#if KS_LANES == 1

typedef double V;
typedef long long ks_mask;
static inline V ks_load(const double *p) { return *p; }
static inline void ks_store(double *p, V v) { *p = v; }
static inline V ks_splat(double s) { return s; }
static inline double ks_first(V v) { return v; }
static inline V ks_select(V c, V a, V b) { return c != 0.0 ? a : b; }
static inline V ks_lt(V a, V b) { return a < b; }
static inline V ks_le(V a, V b) { return a <= b; }
static inline V ks_eq(V a, V b) { return a == b; }
static inline V ks_shuffle(V a, V b, ks_mask pick) { return pick ? b : a; }
static inline ks_mask ks_pick(long long first) { return first; }
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
/* lanes of a and then of b, by their numbers */
static inline V ks_shuffle(V a, V b, ks_mask pick) {
#ifdef __clang__
    V r = {0};
    for (int l = 0; l < KS_LANES; l++) r[l] = pick[l] < KS_LANES ? a[pick[l]] : b[pick[l] - KS_LANES];
    return r;
#else
    return __builtin_shuffle(a, b, pick);
#endif
}
/* first, first + 1, ... */
static inline ks_mask ks_pick(long long first) {
    ks_mask pick = {0};
    for (int l = 0; l < KS_LANES; l++) pick[l] = first + l;
    return pick;
}
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

/* the vector of the points before: the last lane of the block before, then all but the last */
static inline V ks_shift(V before, V v) { return ks_shuffle(before, v, ks_pick(KS_LANES - 1)); }

/* Stores past the caches, at multiples of the size of a vector */
#if (KS_LANES == 8 && defined(__AVX512F__)) || (KS_LANES == 4 && defined(__AVX__))
#define KS_CAN_STREAM 1
static inline void ks_fence(void) { __builtin_ia32_sfence(); }
static inline void ks_stream(double *p, V v) {
#ifdef __clang__
    __builtin_nontemporal_store(v, (V *)p);
#elif KS_LANES == 8
    __builtin_ia32_movntpd512(p, v);
#else
    __builtin_ia32_movntpd256(p, v);
#endif
}
#else
#define KS_CAN_STREAM 0
static inline void ks_stream(double *p, V v) { ks_store(p, v); }
static inline void ks_fence(void) {}
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
#define KS_UNARY_VECTOR(name, f)        \
    extern V KS_VECTOR_NAME(f, v)(V x); \
    static inline V ks_##name(V x) { return KS_VECTOR_NAME(f, v)(x); }
#define KS_BINARY_VECTOR(name, f)             \
    extern V KS_VECTOR_NAME(f, vv)(V x, V y); \
    static inline V ks_##name(V x, V y) { return KS_VECTOR_NAME(f, vv)(x, y); }
#else
#define KS_UNARY_VECTOR KS_UNARY
#define KS_BINARY_VECTOR KS_BINARY
#endif

#ifdef KS_VECTOR_NAME
#if __GLIBC_PREREQ(2, 35)
#define KS_UNARY_NEWER KS_UNARY_VECTOR
#define KS_BINARY_NEWER KS_BINARY_VECTOR
#endif
#endif
#ifndef KS_UNARY_NEWER
#define KS_UNARY_NEWER KS_UNARY
#define KS_BINARY_NEWER KS_BINARY
#endif

/* x modulo y, exactly, with the sign of y */
static inline double ks_remainder(double x, double y) {
    const double r = fmod(x, y);
    return r != 0.0 && (r < 0.0) != (y < 0.0) ? r + y : r;
}

#define KS_UNARY_EACH KS_UNARY
#define KS_BINARY_EACH KS_BINARY
#define KS_UNARY_OWN(name, function)
#define KS_BINARY_OWN(name, function)
#define KS_ROW_OF_ONE(lanes, name, function) KS_UNARY_##lanes(name, function)
#define KS_ROW_OF_TWO(lanes, name, function) KS_BINARY_##lanes(name, function)
KS_OF_ONE(KS_ROW_OF_ONE)
KS_OF_TWO(KS_ROW_OF_TWO)

#if KS_LANES == 4 && defined(__AVX__) && !defined(__clang__)
static inline V ks_sqrt(V x) { return __builtin_ia32_sqrtpd256(x); }
#elif KS_LANES == 8 && defined(__AVX512F__) && !defined(__clang__)
static inline V ks_sqrt(V x) { return __builtin_ia32_sqrtpd512_mask(x, x, -1, 4); }
#else
KS_UNARY(sqrt, sqrt)
#endif

/* -- sine and cosine of the same angle ------------------------------------------------------- */

#if KS_LANES == 1
static inline void ks_sincos(V x, V *s, V *c) { *s = sin(x), *c = cos(x); }
#else

#define KS_TURNS 1e5 /* angles beyond go to libm */

/* Whether an angle is beyond KS_TURNS; NaN is not */
static inline int ks_turns(V x) {
#if KS_LANES == 8 && defined(__AVX512F__) && defined(__clang__)
    const __m512d a = (__m512d)x, limit = _mm512_set1_pd(KS_TURNS);
    return (_mm512_cmp_pd_mask(a, limit, _CMP_GT_OQ) |
            _mm512_cmp_pd_mask(a, -limit, _CMP_LT_OQ)) != 0;
#elif KS_LANES == 8 && defined(__AVX512F__)
    const V limit = ks_splat(KS_TURNS); /* 30, 17: greater, less; 4: rounding does not matter */
    return (__builtin_ia32_cmppd512_mask(x, limit, 30, -1, 4) |
            __builtin_ia32_cmppd512_mask(x, -limit, 17, -1, 4)) != 0;
#elif KS_LANES == 4 && defined(__AVX__)
    return __builtin_ia32_movmskpd256((V)((x > KS_TURNS) | (x < -KS_TURNS))) != 0;
#elif KS_LANES == 2 && defined(__SSE2__)
    return __builtin_ia32_movmskpd((V)((x > KS_TURNS) | (x < -KS_TURNS))) != 0;
#else
    long long some = 0;
    for (int l = 0; l < KS_LANES; l++) some |= x[l] > KS_TURNS || x[l] < -KS_TURNS;
    return some != 0;
#endif
}

KS_PART __attribute__((noinline, cold)) void ks_sincos_far(V x, V *s, V *c) {
    V sine = {0}, cosine = {0};
    for (int l = 0; l < KS_LANES; l++) sine[l] = sin(x[l]), cosine[l] = cos(x[l]);
    *s = sine, *c = cosine;
}

/* Both at once and without a call, which would spill all vectors. Reduction to |r| <= pi/4 by
 * multiples of pi/2 in three parts, polynomials of degree 13 and 14 (coefficients of fdlibm, Sun
 * Microsystems 1993); errors below 2 units in the last place. */
static inline void ks_sincos(V x, V *s, V *c) {
    if (__builtin_expect(ks_turns(x), 0)) {
        ks_sincos_far(x, s, c);
        return;
    }
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: rounds to whole quarters */
    const V shifted = x * 0.63661977236758134308 + shift, k = shifted - shift;
    const ks_mask quarter = (ks_mask)shifted;
    V r = x - k * 1.57079632673412561417;
    r = r - k * 6.07710050630396597660e-11;
    r = r - k * 2.02226624879595063154e-21;
    const V z = r * r, z2 = z * z, z4 = z2 * z2;
    const V third = (-1.66666666666666324348e-01 + z * 8.33333333332248946124e-03) +
                    z2 * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06) +
                    z4 * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
    const V fourth = (4.16666666666666019037e-02 + z * -1.38888888888741095749e-03) +
                     z2 * (2.48015872894767294178e-05 + z * -2.75573143513906633035e-07) +
                     z4 * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11);
    const V sine = r + r * z * third;
    const V half = 0.5 * z, one = 1.0 - half;
    const V cosine = one + (((1.0 - one) - half) + z2 * fourth);
    const ks_mask odd = -(quarter & 1);
    *s = (V)((ks_mask)ks_choose(odd, cosine, sine) ^ ((quarter & 2) << 62));
    *c = (V)((ks_mask)ks_choose(odd, sine, cosine) ^ (((quarter + 1) & 2) << 62));
}

#endif

/* NaN stays NaN, whichever operand it is: a comparison with it is false, not(b >= a) is true */
static inline V ks_min(V a, V b) { return ks_select(ks_le(a, b), a, ks_select(ks_eq(a, a), b, a)); }
static inline V ks_max(V a, V b) { return ks_select(ks_le(b, a), a, ks_select(ks_eq(a, a), b, a)); }
static inline V ks_sign(V x) { /* NaN stays NaN */
    return ks_select(ks_eq(x, x), ks_lt(ks_splat(0.0), x) - ks_lt(x, ks_splat(0.0)), x);
}

#endif
