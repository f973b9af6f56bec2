/* AVX2 */
#include "targets.h"
#if HAS_TARGETS && !defined(__clang__) /* which does not define __AVX2__ for it */
TARGET_BEGIN(AVX2)
#define KS_MACHINE avx2
#include "machine_run.h"
TARGET_END
#endif
