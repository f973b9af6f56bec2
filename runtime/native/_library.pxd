"""Declarations of libraries of kernels for other compiled parts."""

from kinesym.runtime.native._c cimport ks_kernel, ks_library

cdef int forked  # whether this process is a child, whose threads of OpenMP are gone


cdef class Library:
    cdef const ks_library *table
    cdef readonly str path

    cdef const ks_kernel **place(self, str name) except NULL
    cdef const ks_kernel *find(self, str name) except NULL
    cdef const ks_kernel *maybe(self, str name) except? NULL
