# cython: language_level=3, boundscheck=False, wraparound=False
"""Opens generated model libraries and calls their kernels without the interpreter lock."""

from libc.stddef cimport ptrdiff_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport strcmp
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlerror, dlopen, dlsym

import os

import numpy as np


cdef extern from "kinesym.h" nogil:
    enum: KINESYM_ABI

    ctypedef struct ks_arg:
        const double *data
        ptrdiff_t ld

    ctypedef struct ks_kernel:
        const char *name
        int n_args
        const int *count
        const unsigned char *varying
        int n_out

    ctypedef int (*map_pointer)(const ks_kernel *, ptrdiff_t, const ks_arg *, double *,
                                const ptrdiff_t *, const unsigned char *, int) noexcept nogil
    ctypedef ptrdiff_t (*rk4_pointer)(const ks_kernel *, ptrdiff_t, const double *, ptrdiff_t,
                                      const double *, const unsigned char *, const double *,
                                      double *) noexcept nogil

    ctypedef struct ks_library:
        int abi
        int lanes
        int openmp
        int n_kernels
        const ks_kernel *const *kernels
        map_pointer map
        rk4_pointer rk4


ctypedef const ks_library *(*library_function)() noexcept nogil

ABI = KINESYM_ABI

#: What becomes of an output; the values of `enum ks_mode` in kinesym.h.
SET, ADD, LATE, SUM = range(4)

cdef bint _forked = False


def _after_fork():
    """The threads of OpenMP do not survive a fork: the child computes with one."""
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork)


cdef class Library:
    """An opened model library. It stays open until the process ends: the threads of OpenMP, which it
    may have brought along, outlive its last call.

    Raises `OSError` if the file cannot be opened, `RuntimeError` if it was built for another ABI.
    """

    cdef void *_handle
    cdef const ks_library *_table
    cdef readonly str path

    def __cinit__(self, path):
        self.path = str(path)
        self._handle = dlopen(os.fsencode(path), RTLD_NOW | RTLD_LOCAL)
        if self._handle == NULL:
            raise OSError(f"cannot open the model library {path}: {dlerror().decode()}")
        cdef library_function function = <library_function>dlsym(self._handle, b"kinesym_library")
        if function == NULL:
            raise OSError(f"{path} is not a kinesym model library")
        self._table = function()
        if self._table.abi != KINESYM_ABI:
            raise RuntimeError(
                f"{path} was built for ABI {self._table.abi}, this kinesym has {KINESYM_ABI}; "
                "remove it from the cache"
            )

    @property
    def lanes(self):
        """Points per vector."""
        return self._table.lanes

    @property
    def openmp(self):
        """Whether the library was built with OpenMP."""
        return bool(self._table.openmp)

    def kernel_names(self):
        """Names of the kernels, in order."""
        return [self._table.kernels[i].name.decode() for i in range(self._table.n_kernels)]

    cdef const ks_kernel *find(self, str name) except NULL:
        key = name.encode()
        cdef const char *wanted = key
        for i in range(self._table.n_kernels):
            if strcmp(self._table.kernels[i].name, wanted) == 0:
                return self._table.kernels[i]
        raise KeyError(f"{self.path} has no kernel {name}")

    def rk4(self, str kernel, const double[::1] time, ptrdiff_t substeps,
            const double[:, ::1] inputs, const unsigned char[::1] hold,
            const double[::1] parameters, double[:, ::1] states):
        """Fill `states` (n, nodes) from its first column; returns the number of finite nodes.

        The kernel has the arguments x (n), u (m), p (r), t; inputs is (m, nodes).
        Raises `ValueError` if a shape does not fit.
        """
        cdef const ks_kernel *k = self.find(kernel)
        cdef ptrdiff_t nodes = time.shape[0], reached
        if k.n_args != 4 or k.n_out != k.count[0] or states.shape[0] != k.count[0]:
            raise ValueError(f"{kernel} is not a right-hand side for {states.shape[0]} states")
        if inputs.shape[0] != k.count[1] or parameters.shape[0] != k.count[2]:
            raise ValueError("wrong number of inputs or parameters")
        if states.shape[1] != nodes or (k.count[1] > 0 and inputs.shape[1] != nodes):
            raise ValueError("states and inputs need one column per node")
        if hold.shape[0] != k.count[1] or substeps < 1 or nodes < 1:
            raise ValueError("hold needs one entry per input; substeps must be positive")
        cdef const double *u = &inputs[0, 0] if k.count[1] > 0 else NULL
        cdef const unsigned char *held = &hold[0] if k.count[1] > 0 else NULL
        cdef const double *p = &parameters[0] if k.count[2] > 0 else NULL
        cdef const double *grid = &time[0]
        cdef double *x = &states[0, 0]
        with nogil:
            reached = self._table.rk4(k, nodes, grid, substeps, u, held, p, x)
        if reached < 0:
            raise MemoryError
        return reached


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
    offset, mode : place and treatment of each output, see kinesym.h; without mode the outputs are
        packed from offset[0] on.
    n_out : length of the array that outputs go to.

    Raises `ValueError` if a place lies outside its array.
    """

    cdef Library _library
    cdef const ks_kernel *_kernel
    cdef ptrdiff_t _n, _n_out
    cdef int _n_args
    cdef ks_arg *_arg
    cdef int *_base
    cdef ptrdiff_t *_start
    cdef readonly tuple sizes
    cdef list _keep
    cdef const ptrdiff_t[::1] _offset
    cdef const unsigned char[::1] _mode

    def __cinit__(self, Library library, str kernel, ptrdiff_t n, list arguments, tuple sizes,
                  offset, mode, ptrdiff_t n_out):
        self._library, self._kernel, self._n, self._n_out = library, library.find(kernel), n, n_out
        self._n_args, self.sizes, self._keep = self._kernel.n_args, sizes, []
        if len(arguments) != self._n_args:
            raise ValueError(f"{kernel} takes {self._n_args} arguments, got {len(arguments)}")
        self._arg = <ks_arg *>calloc(max(self._n_args, 1), sizeof(ks_arg))
        self._base = <int *>calloc(max(self._n_args, 1), sizeof(int))
        self._start = <ptrdiff_t *>calloc(max(self._n_args, 1), sizeof(ptrdiff_t))
        if self._arg == NULL or self._base == NULL or self._start == NULL:
            raise MemoryError
        for j, (source, start, ld) in enumerate(arguments):
            self._bind(kernel, j, source, start, ld)
        self._offset = np.ascontiguousarray(offset, dtype=np.intp)
        self._mode = None
        if mode is None:
            if self._offset[0] < 0 or self._offset[0] + n * self._kernel.n_out > n_out:
                raise ValueError(f"the outputs of {kernel} lie outside their array")
            return
        self._mode = np.ascontiguousarray(mode, dtype=np.uint8)
        if self._offset.shape[0] != self._kernel.n_out or self._mode.shape[0] != self._kernel.n_out:
            raise ValueError(f"{kernel} has {self._kernel.n_out} outputs")
        for j in range(self._kernel.n_out):
            width = 1 if self._mode[j] == SUM else n
            if self._offset[j] < 0 or self._offset[j] + width > n_out:
                raise ValueError(f"output {j} of {kernel} lies outside its array")

    def _bind(self, str kernel, int j, source, ptrdiff_t start, ptrdiff_t ld):
        cdef const double[::1] data
        count = self._kernel.count[j]
        self._base[j], self._start[j], self._arg[j].ld = -1, start, ld
        if isinstance(source, int):
            self._base[j], size = source, self.sizes[source]
        else:
            data = source
            self._keep.append(data)
            size = data.shape[0]
            if size > 0:
                self._arg[j].data = &data[0] + start
        width = self._n if self._kernel.varying[j] else 1
        if count > 0 and (start < 0 or ld < 0 or start + (count - 1) * ld + width > size):
            raise ValueError(f"argument {j} of {kernel} lies outside its array")

    def __dealloc__(self):
        free(self._arg)
        free(self._base)
        free(self._start)

    def __call__(self, tuple arrays, double[::1] out, int threads=1):
        """Evaluate into `out`; `arrays` are those given at each call, in order."""
        cdef const double[::1] data
        cdef int status
        cdef ks_arg *argument
        cdef const ptrdiff_t *offset
        cdef const unsigned char *mode
        cdef double *target
        if out.shape[0] != self._n_out or len(arrays) != len(self.sizes):
            raise ValueError(f"expected an array of length {self._n_out}, got {out.shape[0]}")
        for array, size in zip(arrays, self.sizes):
            if len(array) != size:
                raise ValueError(f"expected an array of length {size}, got {len(array)}")
        if self._kernel.n_out == 0 or self._n < 1:
            return
        argument = <ks_arg *>malloc(max(self._n_args, 1) * sizeof(ks_arg))  # one per call: threads
        if argument == NULL:
            raise MemoryError
        try:
            for j in range(self._n_args):
                argument[j] = self._arg[j]
                if self._base[j] >= 0:
                    data = arrays[self._base[j]]
                    argument[j].data = &data[0] + self._start[j] if data.shape[0] > 0 else NULL
            offset, mode, target = &self._offset[0], NULL, &out[0]
            if self._mode is not None:
                mode = &self._mode[0]
            if _forked:
                threads = 1
            with nogil:
                status = self._library._table.map(
                    self._kernel, self._n, argument, target, offset, mode, threads)
        finally:
            free(argument)
        if status != 0:
            raise MemoryError
