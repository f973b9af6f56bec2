/* Functions of one and of two numbers, one row each; `codegen/operations.py` says what else there is to
 * say of them. How lanes are done, the name after ks_, and the C function of numbers:
 *
 * VECTOR  by libmvec, where it is there for the processor
 * NEWER   by that of glibc 2.35 and later
 * EACH    one lane after the other
 * OWN     by operations on vectors, in kinesym_simd.h
 */
#ifndef KINESYM_FUNCTIONS_H
#define KINESYM_FUNCTIONS_H

#define KS_OF_ONE(X)               \
    X(VECTOR, sin, sin)            \
    X(VECTOR, cos, cos)            \
    X(NEWER, tan, tan)             \
    X(NEWER, asin, asin)           \
    X(NEWER, acos, acos)           \
    X(NEWER, atan, atan)           \
    X(NEWER, sinh, sinh)           \
    X(NEWER, cosh, cosh)           \
    X(NEWER, tanh, tanh)           \
    X(NEWER, asinh, asinh)         \
    X(NEWER, acosh, acosh)         \
    X(NEWER, atanh, atanh)         \
    X(VECTOR, exp, exp)            \
    X(NEWER, expm1, expm1)         \
    X(VECTOR, log, log)            \
    X(NEWER, log1p, log1p)         \
    X(OWN, sqrt, sqrt)             \
    X(NEWER, cbrt, cbrt)           \
    X(EACH, abs, fabs)             \
    X(OWN, sign, ks_sign)          \
    X(EACH, floor, floor)          \
    X(NEWER, erf, erf)             \
    X(NEWER, erfc, erfc)           \
    X(EACH, gamma, ks_gamma_of)    \
    X(EACH, loggamma, ks_log_gamma_of)

#define KS_OF_TWO(X)                    \
    X(VECTOR, pow, pow)                 \
    X(NEWER, atan2, atan2)              \
    X(EACH, mod, ks_remainder)          \
    X(OWN, min, ks_min)                 \
    X(OWN, max, ks_max)                 \
    X(OWN, lt, ks_lt)                   \
    X(OWN, le, ks_le)                   \
    X(OWN, eq, ks_eq)                   \
    X(NEWER, hypot, hypot)              \
    X(EACH, polygamma, ks_polygamma_of) \
    X(EACH, besselj, ks_bessel_j_of)    \
    X(EACH, bessely, ks_bessel_y_of)

#endif
