/* ks_solve_systems for one instruction set each. */
#ifndef SYSTEMS_TARGETS_H
#define SYSTEMS_TARGETS_H
#include "systems.h"
#include "targets.h"

int ks_solve_systems_plain(const ks_systems *a, double *b, double *c);
int ks_solve_systems_avx2(const ks_systems *a, double *b, double *c);
int ks_solve_systems_avx512(const ks_systems *a, double *b, double *c);

#endif
