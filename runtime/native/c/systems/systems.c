/* The instructions that every processor of its kind has, and the choice of the best ones. */
#define LANES 2
#define KS_SYSTEMS ks_solve_systems_plain
#include "systems_lanes.h"

int ks_solve_systems(const ks_systems *s, double *b, double *c) {
#if HAS_TARGETS
    if (HAS_AVX512) return ks_solve_systems_avx512(s, b, c);
    if (HAS_AVX2) return ks_solve_systems_avx2(s, b, c);
#endif
    return ks_solve_systems_plain(s, b, c);
}
