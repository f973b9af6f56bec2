/* Code for instruction sets of x86 beyond those that every processor of its kind has, by gcc and clang:
 * what lies between TARGET_BEGIN(AVX2) and TARGET_END is compiled for them, and may be called where
 * HAS_AVX2; with HAS_TARGETS=0 there are none. Vectors of code for a set should be as wide as its
 * registers: wider ones live on the stack.
 *
 * The environment variable KINESYM_INSTRUCTIONS, avx2 or sse2, leaves out wider sets: what another
 * processor would do can be tested and timed on this one.
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
#include <stdlib.h>
#include <string.h>

/* Whether sets as wide as this one, 2 for AVX2 and 3 for AVX-512, may be used. */
static inline int targets_allow(int width) {
    const char *most = getenv("KINESYM_INSTRUCTIONS");
    if (most == NULL) return 1;
    return width <= (strcmp(most, "sse2") == 0 ? 1 : strcmp(most, "avx2") == 0 ? 2 : 3);
}

#define AVX2 "avx2,fma"
#define HAS_AVX2                                                                           \
    (targets_allow(2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#ifdef __clang__
#define AVX512 "avx512f,avx512dq,avx512vl,avx2,fma"
#else
#define AVX512 "avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512"
#endif
#define HAS_AVX512                                                                         \
    (targets_allow(3) && __builtin_cpu_supports("avx512f") &&                              \
     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))

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
