/* AVX2 */
#include "targets.h"
#if HAS_TARGETS
TARGET_BEGIN(AVX2)
#define LANES 4
#define KS_SYSTEMS ks_solve_systems_avx2
#include "systems_lanes.h"
TARGET_END
#endif
