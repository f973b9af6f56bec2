# cython: language_level=3, boundscheck=False, wraparound=False
"""Plans: calls of kernels bound to their data, that fill an array without the interpreter lock."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_New
from libc.stddef cimport ptrdiff_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, strcmp

from kinesym.runtime.native._arrays cimport doubles, indices, places
from kinesym.runtime.native._c cimport (
    KS_ADD, KS_LATE, KS_SAME, KS_SET, KS_SUM, ks_arg, ks_kernel, ks_place, ks_plan, ks_run_plan, ks_step)
from kinesym.runtime.native._library cimport Library, forked

import numpy as np


#: Modes of an output, the values of `enum ks_mode` in kinesym.h.
SET = KS_SET
ADD = KS_ADD
LATE = KS_LATE
SUM = KS_SUM

#: Places of the values of an output: `ks_place` in kinesym.h.
PLACE = np.dtype([(name, np.intp) for name in (
    "base", "members", "slot", "count", "first", "other", "late", "mode")])


cdef class Call:
    """A kernel bound to its data, the places of its outputs, and its number of points.

    Parameters
    ----------
    library, kernel : what is called.
    n : number of points.
    arguments : per argument (source, offset, ld): scalar k of point i is `source[offset + k*ld + i]`
        (uniform: `source[offset + k*ld]` with ld 1). `source` is a float64 array, or the position of
        an array that is given at each call.
    sizes : lengths of the arrays given at each call.
    place : of each output, dtype `PLACE`.
    n_out : length of the array that outputs go to. settled : whether the numbers in the arrays stay:
    then what is the same at all points is read once.

    Raises `ValueError` if a place lies outside its array.
    """

    cdef ks_step _step
    cdef ptrdiff_t _n_out
    cdef ks_arg *_arg
    cdef int *_base
    cdef ptrdiff_t *_start
    cdef unsigned char *_same
    cdef readonly tuple sizes
    cdef list _keep

    def __cinit__(self, Library library, str kernel, ptrdiff_t n, list arguments, tuple sizes,
                  place, ptrdiff_t n_out, bint settled=False):
        cdef ks_step *s = &self._step
        cdef const ks_kernel *k = library.find(kernel)
        s.kernel, s.map, s.n = library.place(kernel), library.table.map, n
        self._n_out, self.sizes, self._keep = n_out, sizes, [library]
        if n < 0:
            raise ValueError(f"{kernel} needs points, got {n}")
        if len(arguments) != k.n_args:
            raise ValueError(f"{kernel} takes {k.n_args} arguments, got {len(arguments)}")
        self._arg = <ks_arg *>calloc(max(k.n_args, 1), sizeof(ks_arg))
        self._base = <int *>calloc(max(k.n_args, 1), sizeof(int))
        self._start = <ptrdiff_t *>calloc(max(k.n_args, 1), sizeof(ptrdiff_t))
        self._same = <unsigned char *>calloc(max(k.n_args, 1), 1)
        if not (self._arg and self._base and self._start and self._same):
            raise MemoryError
        s.arg, s.base, s.start, s.same = self._arg, self._base, self._start, self._same
        for j, (source, start, ld) in enumerate(arguments):
            self._bind(kernel, j, source, start, ld, settled)
        _check_places(kernel, place, k.n_out, n, n_out)
        numbers = np.ascontiguousarray(place).view(np.intp)
        self._keep.append(numbers)
        s.place = <const ks_place *>places(numbers, numbers.shape, "place")

    def _bind(self, str kernel, int j, source, ptrdiff_t start, ptrdiff_t ld, bint settled):
        cdef const double *data = NULL
        count = self._step.kernel[0].count[j]
        self._base[j], self._start[j], self._arg[j].ld = -1, start, ld
        if isinstance(source, int):
            if not 0 <= source < len(self.sizes):
                raise ValueError(f"argument {j} of {kernel} is array {source} of {len(self.sizes)}")
            self._base[j], size = source, self.sizes[source]
        else:
            size = len(source)
            data = doubles(source, (size,), f"argument {j} of {kernel}")
            self._keep.append(source)
            if size > 0:
                self._arg[j].data = data + start
        width = self._step.n if self._step.kernel[0].varying[j] else 1
        if count > 0 and (start < 0 or ld < 0 or start + (count - 1) * ld + width > size):
            raise ValueError(f"argument {j} of {kernel} lies outside its array")
        if settled and self._base[j] < 0 and _is_same(&self._arg[j], count, width):
            # not KS_SAME apart: all of them would lie in one set of a cache
            found = np.repeat([data[start + k * ld] for k in range(count)], KS_SAME + 8)
            self._keep.append(found)
            self._arg[j].data = doubles(found, found.shape, "what is the same")
            self._arg[j].ld, self._same[j] = KS_SAME + 8, 1

    def __dealloc__(self):
        free(self._arg)
        free(self._base)
        free(self._start)
        free(self._same)


cdef bint _is_same(const ks_arg *a, ptrdiff_t count, ptrdiff_t n):
    """Whether all of many points have the same scalars, to the bit."""
    cdef ptrdiff_t k
    for k in range(count):
        if memcmp(a.data + k * a.ld, a.data + k * a.ld + 1, (n - 1) * sizeof(double)) != 0:
            return False
    return count > 0 and n > KS_SAME


def _check_places(kernel, place, count, n, n_out):
    """Raise `ValueError` unless the places of all values are inside an array of length n_out."""
    if place.shape != (count,):
        raise ValueError(f"{kernel} has {count} outputs")
    p = {name: place[name] for name in PLACE.names}
    end = p["first"] + n  # of the numbers
    inside = (p["slot"] >= 0) & (p["slot"] < p["members"]) & (p["first"] >= -1)
    inside &= (end <= p["count"] + 1) & (p["base"] + p["members"] * p["count"] <= n_out)
    inside &= (p["first"] >= 0) & (end <= p["count"]) | (p["other"] >= 0)
    inside |= p["mode"] == SUM
    inside &= (p["base"] >= 0) & (p["base"] < n_out) & (p["other"] < n_out)
    inside &= (p["late"] >= -1) & (p["late"] < count)
    if not inside.all():
        j = np.flatnonzero(~inside)[0]
        raise ValueError(f"output {j} of {kernel} lies outside its array")


cdef class Plan:
    """Kernel calls that fill one array, one after the other, as far as their order counts.

    Parameters
    ----------
    calls : of one library, bound to the same arrays and the same output. zero : outputs that no call
        sets. n_out : length of the output. threads : their number.
    """

    cdef ks_plan _plan
    cdef const ks_step **_steps
    cdef list _calls
    cdef tuple _sizes
    cdef unsigned int _reads  # bits: which of the arrays given at each call kernels read
    cdef object _zero

    def __cinit__(self, calls, zero, ptrdiff_t n_out, int threads=1):
        cdef Call call
        cdef int j
        if threads < 1:
            raise ValueError(f"a plan needs threads, got {threads}")
        self._calls, self._sizes = list(calls), ()
        self._zero = np.ascontiguousarray(zero, dtype=np.intp)
        self._steps = <const ks_step **>calloc(max(len(self._calls), 1), sizeof(ks_step *))
        if self._steps == NULL:
            raise MemoryError
        for i, call in enumerate(self._calls):
            if call._n_out != n_out or i > 0 and call.sizes != self._sizes:
                raise ValueError("the calls of a plan must share their arrays")
            if i > 0 and call._step.map != self._steps[0].map:
                raise ValueError("the calls of a plan must be of one library")
            self._sizes, self._steps[i] = call.sizes, &call._step
            self._plan.n_args += call._step.kernel[0].n_args
            for j in range(call._step.kernel[0].n_args):
                if call._step.base[j] >= 0:
                    self._reads |= 1 << call._step.base[j]
        self._plan.n_steps, self._plan.steps = len(self._calls), self._steps
        self._plan.n_zero, self._plan.n_out = len(self._zero), n_out
        self._plan.alone, self._plan.threads = &forked, threads
        self._plan.zero = indices(self._zero, "outputs to be zeroed", n_out)

    def __dealloc__(self):
        free(self._steps)

    @property
    def n_out(self):
        """Length of the output."""
        return self._plan.n_out

    @property
    def sizes(self):
        """Lengths of the arrays given at each call; empty if nothing is called."""
        return self._sizes

    @property
    def threads(self):
        """Number of threads."""
        return self._plan.threads

    @property
    def capsule(self):
        """The plan (`ks_plan *`) for other compiled parts; valid as long as this object."""
        return PyCapsule_New(&self._plan, b"kinesym.plan", NULL)

    def __call__(self, tuple arrays, out):
        """Evaluate into `out`; `arrays` are those given at each call, in order, float64 and
        contiguous; None for one that no kernel of the plan reads.

        Raises `ValueError` if a length does not fit.
        """
        cdef const double *pointers[8]
        cdef Py_buffer views[9]
        cdef Py_ssize_t k, count = len(arrays)
        cdef int status = 0, taken = 0
        if count > 8 or self._calls and count != len(self._sizes):
            raise ValueError(f"{len(self._sizes)} arrays are needed, got {count}")
        try:
            _take(out, &views[0], self._plan.n_out, PyBUF_WRITABLE)
            taken = 1
            for k in range(count if self._calls else 0):
                pointers[k] = NULL
                if arrays[k] is None and not self._reads >> k & 1:
                    continue
                _take(arrays[k], &views[taken], self._sizes[k], 0)
                pointers[k] = <const double *>views[taken].buf
                taken += 1
            if self._plan.n_out > 0:
                with nogil:
                    status = ks_run_plan(&self._plan, pointers, <double *>views[0].buf)
        finally:
            for k in range(taken):
                PyBuffer_Release(&views[k])
        if status != 0:
            raise MemoryError


cdef int _take(array, Py_buffer *view, Py_ssize_t size, int flags) except -1:
    """The memory of a contiguous float64 array of this length: a view of Cython takes as long as
    some hundred points."""
    PyObject_GetBuffer(array, view, PyBUF_ND | PyBUF_FORMAT | flags)
    if view.ndim == 1 and view.shape[0] == size and strcmp(view.format, b"d") == 0:
        return 0
    shape, kind = [view.shape[k] for k in range(view.ndim)], view.format.decode()
    PyBuffer_Release(view)
    if kind != "d":
        raise ValueError(f"expected an array of float64, got one of format {kind!r}")
    raise ValueError(f"expected an array of length {size}, got one of shape {shape}")
