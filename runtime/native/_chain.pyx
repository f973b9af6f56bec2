# cython: language_level=3, boundscheck=False, wraparound=False
"""Chains: sweeps of derivatives along implicit steps whose stages are solved already."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport ptrdiff_t

from kinesym.runtime.native._arrays cimport doubles, indices
from kinesym.runtime.native._c cimport ks_chain, ks_chain_fn, ks_sweep
from kinesym.runtime.native._library cimport Library

import numpy as np


cdef class Chain:
    """The derivatives of the equations at all stages of implicit steps.

    time : (N,). a, b, c : (s, s), (s,), (s,), of the method; if algebraic states have no stage at the
        end, with the end as one more stage. rows, columns : places of the entries; columns are x' (n),
        x (n), n_varied inputs, parameters. values : (entries, s, N - 1). held : (n_varied,), whether
        an input has the value of the node before. Raises `ValueError` if a shape does not fit.
    """

    cdef Library _library
    cdef ks_chain _chain
    cdef ptrdiff_t _last_column
    cdef list _keep

    def __cinit__(self, Library library, ptrdiff_t n, time, a, b, c, rows, columns, values, held):
        cdef ks_chain *chain = &self._chain
        row, column, flags = (np.ascontiguousarray(each, np.intp) for each in (rows, columns, held))
        chain.rows, chain.columns = indices(row, "rows", n), indices(column, "columns", 2**31)
        chain.held = indices(flags, "held", 2)
        if len(row) != len(column) or len(row) == 0 or library.table.loops == NULL:
            raise ValueError("rows and columns differ in length or are empty")
        nodes, stages = time.shape[0], b.shape[0]
        if nodes < 2:
            raise ValueError(f"a chain needs at least 2 nodes, got {nodes}")
        self._library, self._keep = library, [row, column, flags, time, a, b, c, values]
        self._last_column = column.max()
        chain.n, chain.n_nodes, chain.stages, chain.n_entries = n, nodes, stages, len(row)
        chain.time, chain.a = doubles(time, (nodes,), "time"), doubles(a, (stages, stages), "a")
        chain.b, chain.c = doubles(b, (stages,), "b"), doubles(c, (stages,), "c")
        chain.values = doubles(values, (len(row), stages, nodes - 1), "values")

    def adjoint(self, ptrdiff_t begin, ptrdiff_t end, carry, node, inputs, parameters):
        """See `Run.adjoint`. Raises `ValueError` if a step is singular."""
        cdef ks_sweep s
        cdef ptrdiff_t last = end, first
        n, nodes = self._chain.n, self._chain.n_nodes
        s.carry, s.node = doubles(carry, (n,), "carry", True), doubles(node, (n, nodes), "node")
        s.n_varied, s.inputs = len(inputs), doubles(inputs, (len(inputs), nodes), "inputs", True)
        s.parameters = doubles(parameters, (len(parameters),), "parameters", True)
        s.width = len(parameters)
        self._check(begin, end, 2 * n + s.n_varied + s.width)
        while True:  # in parts, so that signals are heard
            first = max(begin, last - self._nodes_at_once())
            self._sweep(&self._chain, self._library.table.loops.chain_adjoint, first, last, &s)
            last = first
            if last <= begin:
                return

    def tangent(self, ptrdiff_t begin, ptrdiff_t end, carry, along, ptrdiff_t n_varied):
        """See `Run.tangent`. Columns that stay zero, as of parameters that no equation has, are left
        out. Raises `ValueError` if a step is singular."""
        cdef ptrdiff_t own
        n, width = carry.shape
        own = 2 * n + n_varied
        self._check(begin, end, own + width)
        columns = self._keep[1]
        of_parameters = columns >= own
        moved = carry.any(axis=0)
        moved[columns[of_parameters] - own] = True
        kept = np.flatnonzero(moved)
        if len(kept) == width:
            self._forward(begin, end, columns, carry, along, n_varied)
            return
        along[1:] = 0.0
        if len(kept) == 0:
            return
        places = columns.copy()
        places[of_parameters] = own + np.searchsorted(kept, columns[of_parameters] - own)
        few = np.ascontiguousarray(carry[:, kept])
        made = np.empty((end - begin + 1, n, len(kept)))
        self._forward(begin, end, places, few, made, n_varied)
        carry[:, kept] = few
        along[1:, :, kept] = made[1:]

    cdef int _forward(self, ptrdiff_t begin, ptrdiff_t end, columns, carry, along,
                      ptrdiff_t n_varied) except -1:
        """Tangents with the columns of the entries as they are given."""
        cdef ks_sweep s
        cdef ks_chain chain = self._chain
        cdef ptrdiff_t first = begin, last, n, width
        n, width = carry.shape
        chain.columns = indices(columns, "columns", 2**31)
        s.carry = doubles(carry, (chain.n, width), "carry", True)
        s.along = doubles(along, (end - begin + 1, n, width), "along", True)
        s.width, s.n_varied = width, n_varied
        while True:
            last = min(end, first + self._nodes_at_once())
            self._sweep(&chain, self._library.table.loops.chain_tangent, first, last, &s)
            s.along += (last - first) * n * width
            first = last
            if first >= end:
                return 0

    cdef ptrdiff_t _nodes_at_once(self):
        """Number of steps between two looks at Ctrl-C; each step factorises a matrix."""
        cdef ptrdiff_t n = self._chain.n * self._chain.stages
        return max(100_000_000 // (self._chain.n_entries + n * n * n + 1000), 1)

    cdef int _check(self, ptrdiff_t begin, ptrdiff_t end, ptrdiff_t columns) except -1:
        if not 0 <= begin <= end < self._chain.n_nodes:
            raise ValueError(f"nodes {begin} to {end} of {self._chain.n_nodes}")
        if self._last_column >= columns:
            raise ValueError(f"the chain has {self._last_column + 1} columns, expected {columns}")
        return 0

    cdef int _sweep(self, const ks_chain *chain, ks_chain_fn *loop, ptrdiff_t begin,
                    ptrdiff_t end, const ks_sweep *s) except -1:
        cdef int status
        with nogil:
            status = loop(chain, begin, end, s)
        if status == 1:
            raise MemoryError
        if status == 2:
            raise ValueError("a step cannot be solved for its end: its Jacobian is singular")
        return PyErr_CheckSignals()
