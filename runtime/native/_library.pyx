# cython: language_level=3, boundscheck=False, wraparound=False
"""Libraries of kernels: opened ones of generated C, and those that a machine interprets."""

from libc.stddef cimport ptrdiff_t
from libc.stdlib cimport calloc, free
from libc.string cimport strcmp
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlerror, dlopen, dlsym

from kinesym.runtime.native._arrays cimport doubles, flags, ints
from kinesym.runtime.native._c cimport KINESYM_ABI, ks_arg, ks_kernel, ks_library, ks_loops, ks_map_fn

import os

import numpy as np


ctypedef const ks_library *(*library_function)() noexcept nogil


cdef extern from "machine/machine.h" nogil:
    ctypedef struct ks_instruction:
        unsigned int op

    ctypedef struct ks_program:
        ks_kernel kernel
        ptrdiff_t n_hoisted
        ptrdiff_t n_code
        ptrdiff_t n_shared
        ptrdiff_t n_constants
        ptrdiff_t n_registers
        ptrdiff_t done
        const ks_instruction *hoisted
        const ks_instruction *code
        const double *constants

    ctypedef struct ks_machine:
        int lanes
        int group
        int openmp
        void (*uniform)(const ks_kernel *, const ks_arg *, double *, void *) noexcept nogil
        void (*block)(const ks_kernel *, ptrdiff_t, const ks_arg *, const double *, double *,
                      ptrdiff_t, ptrdiff_t, void *) noexcept nogil
        ks_map_fn *map
        const ks_loops *loops

    const ks_machine *ks_machine_here(int)
    int ks_instruction_number(const char *)


ABI = KINESYM_ABI

forked = 0


def _after_fork():
    """The threads of OpenMP do not survive a fork: the child computes with one."""
    global forked
    forked = 1


os.register_at_fork(after_in_child=_after_fork)


cdef extern from *:
    """
    static void take_kernel(const ks_kernel **place, const ks_kernel *kernel) {
        __atomic_store_n(place, kernel, __ATOMIC_RELEASE);
    }
    """
    void take_kernel(const ks_kernel **, const ks_kernel *)


cdef class Library:
    """The kernels of a model, and the loops that call them: `Compiled` or `Interpreted`."""

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def lanes(self):
        """Points per vector."""
        return self.table.lanes

    @property
    def openmp(self):
        """Whether the library was built with OpenMP."""
        return bool(self.table.openmp)

    def kernel_names(self):
        """Names of the kernels, in order."""
        return [self.table.kernels[i].name.decode() for i in range(self.table.n_kernels)]

    cdef const ks_kernel **place(self, str name) except NULL:
        """Place that holds the kernel of this name at each call."""
        key = name.encode()
        cdef const char *wanted = key
        cdef ptrdiff_t i
        for i in range(self.table.n_kernels):
            if strcmp(self.table.kernels[i].name, wanted) == 0:
                return <const ks_kernel **>&self.table.kernels[i]
        raise KeyError(f"{self.path} has no kernel {name}")

    cdef const ks_kernel *find(self, str name) except NULL:
        return self.place(name)[0]

    cdef const ks_kernel *maybe(self, str name) except? NULL:
        return self.find(name) if name in self.kernel_names() else NULL


cdef class Compiled(Library):
    """An opened library of C. It stays open until the process ends: the threads of OpenMP, which it
    may have brought along, outlive its last call.

    Raises `OSError` if the file cannot be opened, `RuntimeError` if it was built for another ABI.
    """

    cdef void *_handle
    cdef public object source  # what it was built from, if `kinesym.runtime.library.build` did

    def __cinit__(self, path):
        self.path = str(path)
        self._handle = dlopen(os.fsencode(path), RTLD_NOW | RTLD_LOCAL)
        if self._handle == NULL:
            raise OSError(f"cannot open the model library {path}: {dlerror().decode()}")
        cdef library_function function = <library_function>dlsym(self._handle, b"kinesym_library")
        if function == NULL:
            raise OSError(f"{path} is not a kinesym model library")
        self.table = function()
        if self.table.abi != KINESYM_ABI:
            raise RuntimeError(
                f"{path} was built for ABI {self.table.abi}, this kinesym has {KINESYM_ABI}; "
                "remove it from the cache"
            )

    def __reduce__(self):
        from kinesym.runtime.library.sent import reduced  # which opens libraries by this module

        return reduced(self)


cdef class Interpreted(Library):
    """Kernels that a machine runs instruction by instruction; nothing is compiled.

    name : of the program. kernels : of each (name, counts and flags of its arguments, numbers of
    outputs, of shared values, of registers, constants, names of operations, instructions that are
    done once, and for each group of points, (n, 6) int32). lanes : points per vector; None lets the
    processor decide. Raises `ValueError` for an unknown instruction, or lanes that it has not.

    source : what a compiled one would be built from, asked : whether that was begun, both for
    `kinesym.runtime.library.tiers`.
    """

    cdef ks_library _made
    cdef const ks_kernel **_pointers
    cdef ks_program *_programs
    cdef list _keep, _given
    cdef public object source
    cdef public bint asked

    def __cinit__(self, str name, list kernels, lanes=None):
        cdef const ks_machine *machine = ks_machine_here(0 if lanes is None else lanes)
        cdef ptrdiff_t k, count = len(kernels)
        if machine == NULL:
            raise ValueError(f"no machine of this processor has {lanes} points per vector")
        self.path, self._keep, self._given = f"the interpreted {name}", [], [name, kernels, lanes]
        self._pointers = <const ks_kernel **>calloc(max(count, 1), sizeof(ks_kernel *))
        self._programs = <ks_program *>calloc(max(count, 1), sizeof(ks_program))
        if self._pointers == NULL or self._programs == NULL:
            raise MemoryError
        for k in range(count):
            self._fill(self._programs + k, machine, kernels[k])
            self._pointers[k] = &self._programs[k].kernel
        self._made.abi, self._made.lanes = KINESYM_ABI, machine.lanes
        self._made.openmp, self._made.n_kernels = machine.openmp, count
        self._made.kernels, self._made.map = self._pointers, machine.map
        self._made.loops = machine.loops
        self.table = &self._made

    cdef _fill(self, ks_program *p, const ks_machine *machine, tuple given):
        (name, counts, varying, outputs, shared, registers, constants, operations, hoisted,
         code) = given
        cdef bytes title = name.encode()
        cdef ks_kernel *k = &p.kernel
        count, numbers = np.array(counts, dtype=np.intc), np.array(constants, dtype=np.float64)
        varies = np.array(varying, dtype=np.uint8)
        self._keep += [count, varies, numbers, title]
        k.name, k.n_args, k.n_out = title, len(counts), outputs
        k.count = ints(count, (len(counts),), "counts")
        k.varying = flags(varies, (len(counts),), "flags")
        k.n_uniform = shared + len(constants)
        k.n_scratch = registers * (machine.group + 1)  # and the places of their values
        p.n_registers = registers
        k.n_wide, k.uniform, k.block = machine.group, machine.uniform, machine.block
        p.n_shared, p.n_constants = shared, len(constants)
        p.constants = doubles(numbers, (len(constants),), "constants")
        p.hoisted, p.n_hoisted = self._listed(operations, hoisted), len(hoisted)
        p.code, p.n_code = self._listed(operations, code), len(code)

    cdef const ks_instruction *_listed(self, operations, rows) except? NULL:
        """Instructions with the numbers of this machine."""
        numbers = np.array([ks_instruction_number(each.encode()) for each in operations] or [0])
        if (numbers < 0).any():
            raise ValueError(f"no machine knows all of {operations}")
        table = np.array(rows, dtype=np.intc).reshape(-1, 6)
        table[:, 0] = numbers[table[:, 0]]
        self._keep.append(table)
        return <const ks_instruction *>ints(table, (len(rows), 6), "instructions")

    def __dealloc__(self):
        free(self._pointers)
        free(self._programs)

    @property
    def operations(self):
        """Instructions per point of all kernels."""
        cdef ptrdiff_t k, total = 0
        for k in range(self._made.n_kernels):
            total += self._programs[k].n_code
        return total

    @property
    def spent(self):
        """Seconds that a processor of today needs for what was interpreted so far."""
        cdef ptrdiff_t k, total = 0
        for k in range(self._made.n_kernels):
            total += self._programs[k].done
        return 5e-8 * total

    def take_over(self, Compiled other):
        """Call the kernels of a compiled library from now on, if its vectors are as long."""
        cdef ptrdiff_t k
        if other.table.lanes != self._made.lanes:
            return
        self._keep.append(other)
        for k in range(self._made.n_kernels):
            take_kernel(self._pointers + k, other.find(self._pointers[k].name.decode()))

    def __reduce__(self):
        from kinesym.runtime.library.tiers import landed

        return landed, (*self._given, self.source)
