/* the instructions that every processor of its kind has; the names of all instructions */
#include "targets.h"
#define KS_MACHINE plain
#include "machine_run.h"

#define KS_NAME(name) #name,
#define KS_NAME_OF_ROW(lanes, name, function) KS_NAME(name)
static const char *const names[] = {KS_OTHERS(KS_NAME) KS_OF_ONE(KS_NAME_OF_ROW)
                                        KS_OF_TWO(KS_NAME_OF_ROW)};

int ks_instruction_number(const char *name) {
    for (int k = 0; k < KS_INSTRUCTIONS; k++)
        if (strcmp(names[k], name) == 0) return k;
    return -1;
}

const ks_machine *ks_machine_here(int lanes) {
    const ks_machine *every[4] = {&ks_machine_single, &ks_machine_plain};
    int n = 2;
#if HAS_TARGETS && !defined(__clang__)
    if (HAS_AVX2) every[n++] = &ks_machine_avx2;
    if (HAS_AVX512) every[n++] = &ks_machine_avx512;
#endif
    for (int k = n - 1; k >= 0; k--)
        if (lanes == 0 || every[k]->lanes == lanes) return every[k];
    return NULL;
}
