/* Code for instruction sets of x86 beyond those that every processor of its kind has, by gcc and clang:
 * what lies between TARGET_BEGIN(AVX2) and TARGET_END is compiled for them, and may be called where
 * HAS_AVX2; with HAS_TARGETS=0 there are none. Vectors of code for a set should be as wide as its
 * registers: wider ones live on the stack.
 */
#ifndef TARGETS_H
#define TARGETS_H
#ifndef HAS_TARGETS
#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_TARGETS 1
#else
#define HAS_TARGETS 0
#endif
#endif

#if HAS_TARGETS

#define AVX2 "avx2,fma"
#define HAS_AVX2 (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#ifdef __clang__
#define AVX512 "avx512f,avx512dq,avx512vl,avx2,fma"
#else
#define AVX512 "avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512"
#endif
#define HAS_AVX512                                                                         \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&            \
     __builtin_cpu_supports("avx512vl"))

#define TARGETS_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define TARGET_BEGIN(set)                                                                  \
    TARGETS_PRAGMA(clang attribute push(__attribute__((target(set))), apply_to = function))
#define TARGET_END TARGETS_PRAGMA(clang attribute pop)
#else
#define TARGET_BEGIN(set) TARGETS_PRAGMA(GCC push_options) TARGETS_PRAGMA(GCC target(set))
#define TARGET_END TARGETS_PRAGMA(GCC pop_options)
#endif

#endif
#endif
