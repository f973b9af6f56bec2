/* AVX-512 */
#include "targets.h"
#if HAS_TARGETS
TARGET_BEGIN(AVX512)
#define LANES 8
#define KS_SYSTEMS ks_solve_systems_avx512
#include "systems_lanes.h"
TARGET_END
#endif
