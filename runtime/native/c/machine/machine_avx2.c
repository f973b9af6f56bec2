/* AVX2 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2,fma")
#define KS_MACHINE avx2
#include "machine_run.h"
#endif
