# cython: language_level=3, boundscheck=False, wraparound=False
"""Many small systems of linear equations at once."""

from libc.stddef cimport ptrdiff_t

from kinesym.runtime.native._arrays cimport doubles, ints

import numpy as np


cdef extern from "systems/systems.h" nogil:
    enum: KS_SYSTEMS_OK
    enum: KS_SYSTEMS_SINGULAR

    ctypedef struct ks_systems:
        int n
        ptrdiff_t count
        ptrdiff_t n_entries
        const int *row
        const int *column
        const double *values

    int ks_solve_systems(const ks_systems *, double *, double *)


def solve_systems(int n, rows, columns, values, b=None, c=None):
    """x and y of A x = b and A' y = c, for many systems with one pattern.

    n : equations of each. rows, columns : (entries,), from 0; duplicates are summed. values :
    (entries, count). b, c : (n, count), or None, for which there is no solution. Raises
    `LinAlgError` if one of them is singular; what one with NaN or Inf gives is NaN.
    """
    cdef ks_systems a
    cdef int status
    cdef double *x = NULL
    cdef double *y = NULL
    i, j = (np.ascontiguousarray(each, dtype=np.intc) for each in (rows, columns))
    given = np.ascontiguousarray(values, dtype=np.float64)
    shape = (n, given.shape[1])
    if len(i) != len(j) or len(i) != given.shape[0]:
        raise ValueError("rows, columns and values must be equally many")
    if len(i) and (np.min(i) < 0 or np.max(i) >= n or np.min(j) < 0 or np.max(j) >= n):
        raise ValueError(f"entries lie outside a matrix of order {n}")
    found = [None if side is None else np.array(side, dtype=np.float64, order="C")
             for side in (b, c)]
    if any(side is not None and side.shape != shape for side in found):
        raise ValueError(f"sides must have the shape {shape}")
    if n == 0 or given.shape[1] == 0:
        return tuple(found)
    if found[0] is not None:
        x = doubles(found[0], shape, "b")
    if found[1] is not None:
        y = doubles(found[1], shape, "c")
    a.n, a.count, a.n_entries = n, given.shape[1], given.shape[0]
    a.row, a.column = ints(i, (a.n_entries,), "rows"), ints(j, (a.n_entries,), "columns")
    a.values = doubles(given, (a.n_entries, a.count), "values")
    with nogil:
        status = ks_solve_systems(&a, x, y)
    if status == KS_SYSTEMS_SINGULAR:
        raise np.linalg.LinAlgError("singular")
    if status != KS_SYSTEMS_OK:
        raise MemoryError
    return tuple(found)
