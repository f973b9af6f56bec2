/* AVX-512 */
#include "targets.h"
#if HAS_TARGETS && !defined(__clang__) /* which does not define __AVX512F__ for it */
TARGET_BEGIN(AVX512)
#define KS_MACHINE avx512
#include "machine_run.h"
TARGET_END
#endif
