/* AVX-512 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#define KS_MACHINE avx512
#include "machine_run.h"
#endif
