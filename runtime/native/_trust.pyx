# cython: language_level=3, boundscheck=False, wraparound=False
"""Steps to the minimum of quadratic models within a trust region and bounds."""

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.stddef cimport ptrdiff_t

from kinesym.runtime.native._arrays cimport doubles, flags

import numpy as np
from scipy.linalg import cython_lapack


cdef extern from "trust/trust.h" nogil:
    enum: KS_TRUST_OK
    enum: KS_TRUST_NO_EIGENVALUES

    ctypedef void ks_eigen(char *, char *, int *, double *, int *, double *, double *, int *,
                           int *, int *, int *)

    ctypedef struct ks_models:
        int n
        ptrdiff_t count
        const double *gradient
        const double *matrix
        ks_eigen *eigen

    int ks_trust_steps(const ks_models *, const double *, const double *, const double *,
                       double *, double *)
    int ks_steps_aside(const ks_models *, const unsigned char *, const double *,
                       const double *, double *)


cdef ks_eigen *_eigen = NULL


cdef ks_eigen *_lapack() except NULL:
    """DSYEVD of the LAPACK of SciPy, which it gives by name: to build against is not needed."""
    global _eigen
    cdef const char *kind
    if _eigen == NULL:
        capsule = cython_lapack.__pyx_capi__["dsyevd"]
        kind = PyCapsule_GetName(capsule)
        if not bytes(kind).startswith(b"void (char *, char *, int *,"):
            raise ImportError(f"the LAPACK of SciPy has integers of another size: {kind!r}")
        _eigen = <ks_eigen *>PyCapsule_GetPointer(capsule, kind)
    return _eigen


cdef _models(ks_models *found, gradient, matrix):
    """Fill in models; arrays must last as long."""
    count, n = gradient.shape
    found.n, found.count = n, count
    found.gradient = doubles(gradient, (count, n), "gradient")
    found.matrix = doubles(matrix, (count, n, n), "matrix")
    found.eigen = _lapack()


cdef _check(int status):
    if status == KS_TRUST_NO_EIGENVALUES:
        raise np.linalg.LinAlgError("eigenvalues did not converge")
    if status != KS_TRUST_OK:
        raise MemoryError


def trust_steps(gradient, low, high, matrix, radius):
    """Steps s to the minimum of g's + s'A s/2 within trust radius and bounds, and how much that
    falls, (M, n) and (M,).

    gradient, low, high : (M, n), of s. matrix : (M, n, n), symmetric. radius : (M,), may be
    infinite. Unknowns that would pass a bound are set to it, those first that would pass it by
    most, until none does. Raises `LinAlgError` where a matrix has no eigenvalues.
    """
    cdef ks_models a
    cdef int status
    g, low, high, A, radius = (np.ascontiguousarray(each, dtype=np.float64)
                               for each in (gradient, low, high, matrix, radius))
    _models(&a, g, A)
    step, fall = np.zeros(g.shape), np.zeros(len(g))
    cdef const double *lower = doubles(low, g.shape, "low")
    cdef const double *upper = doubles(high, g.shape, "high")
    cdef const double *within = doubles(radius, (len(g),), "radius")
    cdef double *found = doubles(step, g.shape, "step", True)
    cdef double *falls = doubles(fall, (len(g),), "fall", True)
    with nogil:
        status = ks_trust_steps(&a, lower, upper, within, found, falls)
    _check(status)
    return step, fall


def steps_aside(gradient, matrix, free, step, bend):
    """Steps (M, n) that undo slopes `bend` of models at the end of steps within trust regions, in
    the free unknowns; zero in others.

    gradient, step, bend : (M, n). matrix : (M, n, n), symmetric. free : (M, n), booleans. Raises
    `LinAlgError` where a matrix has no eigenvalues.
    """
    cdef ks_models a
    cdef int status
    g, A, step, bend = (np.ascontiguousarray(each, dtype=np.float64)
                        for each in (gradient, matrix, step, bend))
    free = np.ascontiguousarray(free, dtype=np.uint8)
    _models(&a, g, A)
    aside = np.zeros(g.shape)
    cdef const unsigned char *open = flags(free, g.shape, "free")
    cdef const double *along = doubles(step, g.shape, "step")
    cdef const double *slopes = doubles(bend, g.shape, "bend")
    cdef double *found = doubles(aside, g.shape, "aside", True)
    with nogil:
        status = ks_steps_aside(&a, open, along, slopes, found)
    _check(status)
    return aside
