# cython: language_level=3, boundscheck=False, wraparound=False
"""Opens generated model libraries and calls their kernels without the interpreter lock."""

from libc.stddef cimport ptrdiff_t
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport intptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, strcmp
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlerror, dlopen, dlsym

import os

import numpy as np


cdef extern from "kinesym.h" nogil:
    enum: KINESYM_ABI

    enum: KS_SAME

    ctypedef struct ks_arg:
        const double *data
        ptrdiff_t ld

    ctypedef struct ks_kernel:
        const char *name
        int n_args
        const int *count
        const unsigned char *varying
        int n_out
        int n_uniform
        int n_scratch
        int n_wide
        void (*uniform)(const ks_kernel *, const ks_arg *, double *, void *) noexcept nogil
        void (*block)(const ks_kernel *, ptrdiff_t, const ks_arg *, const double *, double *,
                      ptrdiff_t, ptrdiff_t, void *) noexcept nogil

    ctypedef struct ks_place:
        ptrdiff_t base

    ctypedef struct ks_task:
        pass

    ctypedef int ks_map_fn(const ks_task *, ptrdiff_t, double *, int) noexcept nogil
    enum: KS_SET
    enum: KS_ADD
    enum: KS_LATE
    enum: KS_SUM
    enum: KS_LINEAR
    enum: KS_HELD
    enum: KS_PARABOLA

    ctypedef struct ks_input:
        const double *data
        ptrdiff_t stride
        int kind

    enum: KS_STAGES_MOST
    enum: KS_UNKNOWN_MOST

    ctypedef struct ks_tableau:
        int stages
        int order
        int implicit
        const double *c
        const double *a
        const double *error
        const double *dense
        const double *inverse
        const double *to
        const double *from_ "from"
        const double *eigen

    ctypedef struct ks_run:
        const ks_kernel *rhs
        const ks_kernel *outputs
        int outputs_need_rates
        const ks_kernel *residual
        const ks_kernel *slopes
        const ks_kernel *tangent
        ptrdiff_t n_entries
        const ptrdiff_t *rows
        const ptrdiff_t *columns
        ptrdiff_t n_solution
        const ptrdiff_t *targets
        const ptrdiff_t *sources
        ptrdiff_t n
        ptrdiff_t n_nodes
        ptrdiff_t members
        ptrdiff_t substeps
        const double *time
        const ks_input *inputs
        const double *parameters
        ptrdiff_t parameter_stride
        const double *tables
        double *states
        double *values
        ptrdiff_t *reached
        double *step
        double *trouble
        double rtol
        double atol
        int index
        ks_tableau method
        double *stage_rates
        double *stage_states
        int threads
        ptrdiff_t budget
        int resumed
        ptrdiff_t *taken
        double *between
        double *clock

    enum: KS_FAILED
    enum: KS_NO_MEMORY
    enum: KS_MORE

    ctypedef struct ks_sweep:
        double *carry
        const double *node
        double *inputs
        double *parameters
        double *along
        const ptrdiff_t *varied
        ptrdiff_t n_varied
        ptrdiff_t width

    ctypedef struct ks_chain:
        ptrdiff_t n
        ptrdiff_t n_nodes
        ptrdiff_t stages
        ptrdiff_t n_entries
        const ptrdiff_t *rows
        const ptrdiff_t *columns
        const ptrdiff_t *held
        const double *values
        const double *time
        const double *a
        const double *b
        const double *c

    ctypedef int ks_march_fn(const ks_run *, ptrdiff_t, ptrdiff_t) noexcept nogil
    ctypedef int ks_sweep_fn(const ks_run *, ptrdiff_t, ptrdiff_t,
                                  const ks_sweep *) noexcept nogil
    ctypedef int ks_chain_fn(const ks_chain *, ptrdiff_t, ptrdiff_t,
                             const ks_sweep *) noexcept nogil

    ctypedef struct ks_fixed:
        const char *name
        ks_march_fn *march

    ctypedef struct ks_loops:
        int n_fixed
        const ks_fixed *fixed
        ks_march_fn *any_fixed
        ks_march_fn *adaptive
        ks_march_fn *radau
        ks_march_fn *implicit
        ks_march_fn *outputs
        ks_sweep_fn *adjoint
        ks_sweep_fn *tangent
        ks_chain_fn *chain_adjoint
        ks_chain_fn *chain_tangent

    ctypedef struct ks_library:
        int abi
        int lanes
        int openmp
        int n_kernels
        const ks_kernel **kernels
        ks_map_fn *map
        const ks_loops *loops


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


cdef extern from "kinesym_plan.h" nogil:
    ctypedef struct ks_step:
        const ks_kernel **kernel
        ks_map_fn *map
        ptrdiff_t n
        const ks_arg *arg
        const int *base
        const ptrdiff_t *start
        const unsigned char *same
        const ks_place *place

    ctypedef struct ks_plan:
        ptrdiff_t n_steps
        const ks_step **steps
        ptrdiff_t n_args
        ptrdiff_t n_zero
        const ptrdiff_t *zero
        ptrdiff_t n_out
        int threads
        const int *alone

    int ks_run_plan(const ks_plan *, const double **, double *)


cdef extern from "delays/delays.h" nogil:
    enum: KS_UNKNOWN

    ctypedef struct ks_past:
        ptrdiff_t rows
        ptrdiff_t members
        ptrdiff_t room
        const unsigned char *smooth
        double *time
        double *values
        double *rates
        double *terms

    ctypedef struct ks_late:
        ptrdiff_t row
        ptrdiff_t first
        ptrdiff_t piece
        double tau
        double *samples
        double *ends

    ctypedef struct ks_delays:
        ks_run *run
        ks_march_fn *loop
        ks_map_fn *map
        ptrdiff_t n_late
        ptrdiff_t places
        ptrdiff_t at
        ks_late *late
        const double *shares
        const double *to_samples
        const ptrdiff_t *kept
        double shortest
        ks_past past

    void ks_past_pieces(const ks_past *, ptrdiff_t, ptrdiff_t)
    int ks_late_window(const ks_delays *, ptrdiff_t, ptrdiff_t *, double *)

ABI = KINESYM_ABI

#: What becomes of an output; the values of `enum ks_mode` in kinesym.h.
SET, ADD, LATE, SUM = KS_SET, KS_ADD, KS_LATE, KS_SUM

#: Where the values of an output lie: `ks_place` in kinesym.h.
PLACE = np.dtype([(name, np.intp) for name in (
    "base", "members", "slot", "count", "first", "other", "late", "mode")])

#: What an input is between nodes; the values of `enum ks_kind` in kinesym.h.
LINEAR, HELD, PARABOLA = KS_LINEAR, KS_HELD, KS_PARABOLA

cdef int _forked = 0


def _after_fork():
    """The threads of OpenMP do not survive a fork: the child computes with one."""
    global _forked
    _forked = 1


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

    cdef const ks_library *_table
    cdef readonly str path

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def lanes(self):
        """Points per vector."""
        return self._table.lanes

    @property
    def openmp(self):
        """Whether the library was built with OpenMP."""
        return bool(self._table.openmp)

    def kernel_address(self, str name):
        """Where a kernel is in memory, 0 if there is none of that name."""
        cdef int k
        for k in range(self._table.n_kernels):
            if self._table.kernels[k].name.decode() == name:
                return <intptr_t>self._table.kernels[k]
        return 0

    def kernel_names(self):
        """Names of the kernels, in order."""
        return [self._table.kernels[i].name.decode() for i in range(self._table.n_kernels)]

    cdef const ks_kernel **place(self, str name) except NULL:
        """Where the kernel of that name is found at each call."""
        key = name.encode()
        cdef const char *wanted = key
        cdef ptrdiff_t i
        for i in range(self._table.n_kernels):
            if strcmp(self._table.kernels[i].name, wanted) == 0:
                return <const ks_kernel **>&self._table.kernels[i]
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
        self._table = function()
        if self._table.abi != KINESYM_ABI:
            raise RuntimeError(
                f"{path} was built for ABI {self._table.abi}, this kinesym has {KINESYM_ABI}; "
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
        self._table = &self._made

    cdef _fill(self, ks_program *p, const ks_machine *machine, tuple given):
        (name, counts, varying, outputs, shared, registers, constants, operations, hoisted,
         code) = given
        cdef const int[::1] count = np.array(counts, dtype=np.intc)
        cdef const unsigned char[::1] flags = np.array(varying, dtype=np.uint8)
        cdef const double[::1] numbers = np.array(constants, dtype=float)
        cdef bytes title = name.encode()
        cdef ks_kernel *k = &p.kernel
        self._keep += [count, flags, numbers, title]
        k.name, k.n_args, k.n_out = title, len(counts), outputs
        k.count = &count[0] if len(counts) else NULL
        k.varying = &flags[0] if len(counts) else NULL
        k.n_uniform = shared + len(constants)
        k.n_scratch = registers * (machine.group + 1)  # and the places of their values
        p.n_registers = registers
        k.n_wide, k.uniform, k.block = machine.group, machine.uniform, machine.block
        p.n_shared, p.n_constants = shared, len(constants)
        p.constants = &numbers[0] if len(constants) else NULL
        p.hoisted, p.n_hoisted = self._listed(operations, hoisted), len(hoisted)
        p.code, p.n_code = self._listed(operations, code), len(code)

    cdef const ks_instruction *_listed(self, operations, rows) except? NULL:
        """Instructions with the numbers of this machine."""
        numbers = np.array([ks_instruction_number(each.encode()) for each in operations] or [0])
        if (numbers < 0).any():
            raise ValueError(f"no machine knows all of {operations}")
        cdef unsigned int[:, ::1] made = np.array(rows, dtype=np.uintc).reshape(-1, 6)
        if made.shape[0] == 0:
            return NULL
        table = np.asarray(made)
        table[:, 0] = numbers[table[:, 0]]
        self._keep.append(made)
        return <const ks_instruction *>&made[0, 0]

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
        if other._table.lanes != self._made.lanes:
            return
        self._keep.append(other)
        for k in range(self._made.n_kernels):
            take_kernel(self._pointers + k, other.find(self._pointers[k].name.decode()))

    def __reduce__(self):
        from kinesym.runtime.library.tiers import landed

        return landed, (*self._given, self.source)


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
    cdef const ptrdiff_t[::1] _place

    def __cinit__(self, Library library, str kernel, ptrdiff_t n, list arguments, tuple sizes,
                  place, ptrdiff_t n_out, bint settled=False):
        cdef ks_step *s = &self._step
        cdef const ks_kernel *k = library.find(kernel)
        s.kernel, s.map, s.n = library.place(kernel), library._table.map, n
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
        self._place = np.ascontiguousarray(place).view(np.intp)
        if k.n_out > 0:
            s.place = <const ks_place *>&self._place[0]

    def _bind(self, str kernel, int j, source, ptrdiff_t start, ptrdiff_t ld, bint settled):
        cdef const double[::1] data
        count = self._step.kernel[0].count[j]
        self._base[j], self._start[j], self._arg[j].ld = -1, start, ld
        if isinstance(source, int):
            if not 0 <= source < len(self.sizes):
                raise ValueError(f"argument {j} of {kernel} is array {source} of {len(self.sizes)}")
            self._base[j], size = source, self.sizes[source]
        else:
            data = source
            self._keep.append(data)
            size = data.shape[0]
            if size > 0:
                self._arg[j].data = &data[0] + start
        width = self._step.n if self._step.kernel[0].varying[j] else 1
        if count > 0 and (start < 0 or ld < 0 or start + (count - 1) * ld + width > size):
            raise ValueError(f"argument {j} of {kernel} lies outside its array")
        if settled and self._base[j] < 0 and _is_same(&self._arg[j], count, width):
            found = [data[start + k * ld] for k in range(count)]
            # not KS_SAME apart: all of them would lie in one set of a cache
            data = np.repeat(found, KS_SAME + 8)
            self._keep.append(data)
            self._arg[j].data, self._arg[j].ld, self._same[j] = &data[0], KS_SAME + 8, 1

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
    cdef const ptrdiff_t[::1] _zero

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
        self._plan.n_zero, self._plan.n_out = self._zero.shape[0], n_out
        self._plan.alone, self._plan.threads = &_forked, threads
        if self._zero.shape[0] > 0:
            if min(self._zero) < 0 or max(self._zero) >= n_out:
                raise ValueError("an output to be zeroed lies outside its array")
            self._plan.zero = &self._zero[0]

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
        """Their number."""
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


cdef double *_data(array, tuple shape, str name, bint written=False) except? NULL:
    """The first element of a contiguous float64 array; NULL if it is empty."""
    cdef const double[::1] flat
    if array.shape != shape or not array.flags.c_contiguous:
        raise ValueError(f"{name} must be contiguous of shape {shape}, got {array.shape}")
    if written and not array.flags.writeable:
        raise ValueError(f"{name} must be writeable")
    flat = array.reshape(-1)
    return <double *>&flat[0] if flat.shape[0] > 0 else NULL


#: Arrays of `ks_tableau`.
_NUMBERS = ("c", "a", "error", "dense", "inverse", "to", "from", "eigen")


cdef const ptrdiff_t[::1] _indices(values, str name, ptrdiff_t end):
    """Whole numbers 0 <= k < end."""
    cdef const ptrdiff_t[::1] kept = np.ascontiguousarray(values, dtype=np.intp)
    cdef ptrdiff_t k
    for k in range(kept.shape[0]):
        if not 0 <= kept[k] < end:
            raise ValueError(f"{name} must be in 0 ... {end - 1}")
    return kept


cdef int _past(ks_past *p, tuple arrays, ptrdiff_t rows, ptrdiff_t members) except -1:
    """The course of states in its arrays."""
    time, smooth, values, rates, terms = arrays
    cdef const unsigned char[::1] flags = smooth.view(np.uint8)
    p.rows, p.members, p.room = rows, members, time.shape[0]
    shape = (rows, members)
    if flags.shape[0] != p.room:
        raise ValueError("the past needs a flag for each node")
    p.smooth = &flags[0]
    p.time = _data(time, (p.room,), "time", True)
    p.values = _data(values, (p.room, *shape), "values", True)
    p.rates = _data(rates, (2, p.room, *shape), "rates", True)
    p.terms = _data(terms, (p.room, 6, *shape), "terms", True)
    return 0


def pieces(tuple past, ptrdiff_t first, ptrdiff_t last):
    """Make the terms of the pieces first <= k < last; past : see `Run.march_late`."""
    cdef ks_past p
    _past(&p, past, past[2].shape[1], past[2].shape[2])
    if not 0 <= first <= last < p.room:
        raise ValueError(f"pieces {first} to {last} of {p.room}")
    with nogil:
        ks_past_pieces(&p, first, last)


cdef class Run:
    """Time stepping bound to its arrays: a trajectory, or an ensemble of them.

    Parameters
    ----------
    library : with the kernels that the method needs.
    pattern : rows and columns of the derivatives in the kernel `slopes` or `tangent`.
    solution : targets and sources of the steps of M^-1 in `tangent`.
    time : (N,).
    inputs : per input (samples, kind): (members or 1, N), or (members or 1, 3 N - 2) of `PARABOLA`.
    parameters : (members or 1, r).
    states : (n, members, N), the first column given. values : (n_outputs, members, N).
    reached : (members,), number of valid nodes so far. step, trouble : (members,), see kinesym.h.
    substeps, rtol, atol, threads, outputs_need_rates : see kinesym.h.
    budget : steps of a member between two looks at Ctrl-C. tableau : the numbers of the method, see
        `ks_tableau`.
    stages : None, or x' and x at the stages of implicit steps, (n, stages, N - 1) each, see
        `stage_rates` in kinesym.h.
    index : of the equations. tables : their numbers, where parameters differ between members; else
        these follow the parameters.

    Raises `ValueError` if a shape does not fit.
    """

    cdef Library _library
    cdef ks_run _run
    cdef ks_input *_courses
    cdef list _keep
    cdef ptrdiff_t _n_inputs, _n_parameters, _n_tables, _last_column
    cdef ptrdiff_t[::1] _taken

    def __cinit__(self, Library library, pattern, solution, time, list inputs, parameters, states,
                  values, reached, step, trouble, ptrdiff_t substeps, double rtol, double atol,
                  int threads, bint outputs_need_rates, ptrdiff_t budget=200_000, tableau=None,
                  stages=None, int index=0, tables=None):
        cdef ptrdiff_t[::1] counts
        if library._table.loops == NULL:
            raise ValueError(f"{library.path} has no loops for time stepping")
        self._library = library
        self._keep = [time, inputs, parameters, states, values, reached, step, trouble]
        cdef ks_run *r = &self._run
        r.rhs, r.outputs = library.maybe("rhs"), library.maybe("outputs")
        r.residual, r.slopes = library.maybe("residual"), library.maybe("slopes")
        r.tangent = library.maybe("tangent")
        n, members, nodes = states.shape
        r.n, r.members, r.n_nodes, r.substeps = n, members, nodes, substeps
        r.rtol, r.atol, r.threads = rtol, atol, 1 if _forked else threads
        r.outputs_need_rates, r.budget, r.index = outputs_need_rates, budget, index
        if members < 1 or nodes < 2 or substeps < 1 or threads < 1 or budget < 1:
            raise ValueError("there must be members, nodes, substeps, threads and a budget")
        self._check(r)
        r.n_entries = self._places(pattern, "pattern", &r.rows, &r.columns)
        r.n_solution = self._places(solution, "solution", &r.targets, &r.sources)
        self._last_column = np.max(pattern[1], initial=-1)
        if np.max(solution[1], initial=-1) >= n:
            raise ValueError(f"the pattern has columns beyond the {n} states")
        if r.tangent != NULL and r.tangent.n_out != n + r.n_entries + r.n_solution:
            raise ValueError("the pattern does not fit the kernel tangent")
        if r.slopes != NULL and (r.slopes.n_out != r.n_entries or self._last_column >= 2 * n):
            raise ValueError("the pattern does not fit the kernel slopes")
        r.time = _data(time, (nodes,), "time")
        r.states = _data(states, (n, members, nodes), "states", True)
        r.step = _data(step, (members,), "step", True)
        r.trouble = _data(trouble, (members,), "trouble", True)
        counts = reached
        if counts.shape[0] != members:
            raise ValueError("reached needs one entry per member")
        r.reached = &counts[0]
        n_out = r.outputs.n_out if r.outputs != NULL else 0
        r.values = _data(values, (n_out, members, nodes), "values", True)
        if parameters.shape not in ((1, self._n_parameters), (members, self._n_parameters)):
            raise ValueError(f"parameters have shape {parameters.shape}")
        r.parameters = _data(parameters, parameters.shape, "parameters")
        r.parameter_stride = self._n_parameters if parameters.shape[0] > 1 else 0
        if (0 if tables is None else len(tables)) != self._n_tables:
            raise ValueError(f"{self._n_tables} numbers of tables are needed beside parameters")
        if tables is not None:
            r.tables = _data(tables, tables.shape, "tables")
            self._keep.append(tables)
        if len(inputs) != self._n_inputs:
            raise ValueError(f"{self._n_inputs} inputs are needed, got {len(inputs)}")
        self._courses = <ks_input *>calloc(max(self._n_inputs, 1), sizeof(ks_input))
        if self._courses == NULL:
            raise MemoryError
        r.inputs = self._courses
        for k, (samples, kind) in enumerate(inputs):
            length = 3 * nodes - 2 if kind == KS_PARABOLA else nodes
            if samples.shape not in ((1, length), (members, length)):
                raise ValueError(f"input {k} has shape {samples.shape}")
            self._courses[k].data = _data(samples, samples.shape, f"input {k}")
            self._courses[k].stride = length if samples.shape[0] > 1 else 0
            self._courses[k].kind = kind
        vectors = 2 + (0 if tableau is None else tableau.get("implicit", 0))
        self._taken, between = np.zeros(members, dtype=np.intp), np.zeros((vectors * n + r.n_entries + 7, members))
        clock = np.zeros(members)
        self._keep += [between, clock]
        r.taken, r.between = &self._taken[0], _data(between, between.shape, "between")
        r.clock = _data(clock, clock.shape, "clock")
        self._method(&r.method, {} if tableau is None else tableau)
        if stages is not None:
            self._keep.append(stages)
            if members > 1 or substeps > 1 or r.method.implicit == 0:
                raise ValueError("stages are kept of one member, without substeps")
            shape = (n, stages[0].shape[1], nodes - 1)
            if stages[0].shape[1] not in (r.method.stages, r.method.stages + 1):
                raise ValueError(f"the method has {r.method.stages} stages")
            r.stage_rates = _data(stages[0], shape, "stage rates", True)
            r.stage_states = _data(stages[1], shape, "stage states", True)

    cdef int _method(self, ks_tableau *method, tableau) except -1:
        """The numbers of a method; without them there are outputs only."""
        rows = {key: np.array(tableau.get(key, ()), dtype=np.float64, order="C") for key in _NUMBERS}
        stages = max(rows["c"].size - 1, 0)
        method.stages, method.order = stages, tableau.get("order", 0)
        method.implicit = tableau.get("implicit", 0)
        if not tableau:
            return 0
        unknown = method.implicit
        if not 0 < stages <= KS_STAGES_MOST:
            raise ValueError(f"a method has 1 to {KS_STAGES_MOST} stages, got {stages}")
        if unknown > min(stages, KS_UNKNOWN_MOST):
            raise ValueError(f"a method solves for up to {KS_UNKNOWN_MOST} stages, got {unknown}")
        self._keep.append(rows)
        weights = stages if unknown else stages + 1
        square = (unknown,) * 2 if unknown else (0,)
        method.c = _data(rows["c"], (stages + 1,), "c")
        method.a = _data(rows["a"], (stages + 1, stages), "a")
        method.error = _data(rows["error"], (weights if rows["error"].size else 0,), "error")
        method.dense = _data(rows["dense"], (weights if rows["dense"].size else 0,), "dense")
        method.inverse = _data(rows["inverse"], square, "inverse")
        method.to, method.from_ = _data(rows["to"], square, "to"), _data(rows["from"], square, "from")
        method.eigen = _data(rows["eigen"], (unknown, 2)[: 2 if unknown else 1], "eigen")
        return 0

    cdef ptrdiff_t _places(self, pair, str name, const ptrdiff_t **first,
                           const ptrdiff_t **second) except -1:
        """Keep two index arrays of equal length, the first one of states, and point to them."""
        cdef const ptrdiff_t[::1] one = _indices(pair[0], name, self._run.n)
        cdef const ptrdiff_t[::1] other = _indices(pair[1], name, 2**31)
        if one.shape[0] != other.shape[0]:
            raise ValueError("index arrays differ in length")
        self._keep += [one, other]
        if one.shape[0] > 0:
            first[0], second[0] = &one[0], &other[0]
        return one.shape[0]

    cdef int _check(self, ks_run *r) except -1:
        """Numbers of inputs and parameters; whether all kernels fit them and the states."""
        cdef const ks_kernel *k = r.rhs
        cdef int inputs = 1, parameters = 2
        if r.rhs == NULL:
            k, inputs, parameters = r.residual, 2, 3
        if k == NULL or k.count[0] != r.n or k.n_out != r.n:
            raise ValueError(f"{self._library.path} cannot step {r.n} states")
        self._n_inputs, self._n_parameters = k.count[inputs], k.count[parameters]
        n, m, np_ = r.n, self._n_inputs, self._n_parameters
        for name, counts in (("rhs", (n, m, np_, 1)), ("outputs", (n, n, m, np_, 1)),
                             ("residual", (n, n, m, np_, 1)), ("slopes", (n, n, m, np_, 1)),
                             ("tangent", (n, m, np_, 1))):
            k = self._library.maybe(name)
            if k == NULL:
                continue
            found = tuple(k.count[j] for j in range(k.n_args))
            if found[:len(counts)] != counts or len(found) > len(counts) + 1:
                raise ValueError(f"the kernel {name} of {self._library.path} does not fit others")
            self._n_tables = found[len(counts)] if len(found) > len(counts) else 0
        return 0

    def __dealloc__(self):
        free(self._courses)

    @property
    def failed(self):
        """(members,), whether they came to an end in the last march before its end."""
        return np.asarray(self._taken) == KS_FAILED

    def march(self, str method, ptrdiff_t begin, ptrdiff_t end, stop=None):
        """Fill the nodes begin < i <= end, by the method of that name.

        Every now and then Python's handlers of signals run. stop : an event that may end it early.
        Returns whether it has not.
        """
        cdef ks_march_fn *loop = self._loop(method)
        cdef ptrdiff_t k
        cdef int status = KS_MORE
        self._check_nodes(begin, end)
        for k in range(self._run.members):
            self._taken[k] = 0 if self._run.reached[k] == begin + 1 else KS_FAILED
        self._run.resumed = 0
        while status == KS_MORE:
            if stop is not None and stop.is_set():
                return False
            with nogil:
                status = loop(&self._run, begin, end)
            if status & KS_NO_MEMORY:
                raise MemoryError
            self._run.resumed = 1
            PyErr_CheckSignals()
        return True

    def march_late(self, str method, ptrdiff_t begin, ptrdiff_t end, tuple past, kept, ptrdiff_t at,
                   list late, shares, to_samples, double shortest, stop):
        """Fill the nodes begin < i <= end as far as delayed inputs are known; returns the last one
        that is filled. They are the last inputs, all inputs have the kind `PARABOLA`.

        past : time, smooth, values, rates and terms, kept, at : see delays.h. late : row, first,
        piece, tau, samples and ends of each delayed input there. shares, to_samples : of the places
        in a step. shortest : delay of a state [s]. stop : an event that may end it early.
        """
        cdef ks_delays d
        cdef ptrdiff_t node = begin, reached, k, alive
        cdef const ptrdiff_t[::1] chosen = _indices(kept, "kept", self._run.n)
        cdef int status = 0
        cdef double *values
        self._check_nodes(begin, end)
        members, nodes = self._run.members, self._run.n_nodes
        d.run, d.loop, d.map = &self._run, self._loop(method), self._library._table.map
        d.n_late, d.places, d.at, d.shortest = len(late), len(shares), at, shortest
        d.shares = _data(shares, (len(shares),), "shares")
        d.to_samples = _data(to_samples, (3, len(shares)), "samples")
        d.kept = &chosen[0] if chosen.shape[0] else NULL
        _past(&d.past, past, chosen.shape[0], members)
        if self._run.rhs == NULL or d.past.room < at + nodes or len(late) > self._n_inputs:
            raise ValueError("the past has no room, or there are no rates")
        d.late = <ks_late *>calloc(max(len(late), 1), sizeof(ks_late))
        values = <double *>calloc(len(shares) * members, sizeof(double))
        try:
            if d.late == NULL or values == NULL:
                raise MemoryError
            for k, (row, first, piece, tau, samples, ends) in enumerate(late):
                d.late[k].row, d.late[k].first, d.late[k].piece = row, first, piece
                d.late[k].tau = tau
                d.late[k].samples = _data(samples, (members, 3 * nodes - 2), "samples", True)
                d.late[k].ends = _data(ends, (2, members, nodes - 1), "ends", True)
            while node < end and not stop.is_set():
                reached = end
                with nogil:
                    status = ks_late_window(&d, node, &reached, values)
                if status & KS_NO_MEMORY:
                    raise MemoryError
                PyErr_CheckSignals()
                if status == KS_UNKNOWN:
                    break
                node, alive = reached, 0
                for k in range(self._run.members):
                    alive += self._run.reached[k] == node + 1
                if alive == 0:
                    break
        finally:
            free(d.late)
            free(values)
        return node

    cdef ks_march_fn *_loop(self, str method) except NULL:
        """The loop of a method."""
        cdef const ks_loops *loops = self._library._table.loops
        cdef ks_march_fn *loop = NULL
        cdef ptrdiff_t k
        if self._run.method.implicit > 0 and self._run.slopes != NULL:
            loop = loops.radau if self._run.method.error != NULL else loops.implicit
        elif self._run.rhs != NULL and self._run.method.error != NULL:
            loop = loops.adaptive
        elif self._run.rhs != NULL and self._run.method.stages > 0:
            for k in range(loops.n_fixed):
                if loops.fixed[k].name == method.encode():
                    loop = loops.fixed[k].march
            loop = loops.any_fixed if loop == NULL else loop
        if loop == NULL:
            raise ValueError(f"{self._library.path} has no kernels for {method}")
        return loop

    def outputs(self, ptrdiff_t begin, ptrdiff_t end):
        """Fill the outputs of the nodes begin <= i <= end."""
        cdef int status = 0
        self._check_nodes(begin, end)
        if self._run.outputs != NULL:
            with nogil:
                status = self._library._table.loops.outputs(&self._run, begin, end)
        if status != 0:
            raise MemoryError

    cdef int _check_nodes(self, ptrdiff_t begin, ptrdiff_t end) except -1:
        if not 0 <= begin <= end < self._run.n_nodes:
            raise ValueError(f"nodes {begin} to {end} of {self._run.n_nodes}")
        return 0

    def adjoint(self, ptrdiff_t begin, ptrdiff_t end, carry, node, inputs, parameters, varied):
        """lambda (n,) in `carry` from node `end` back to `begin`; adds to the gradients.

        node : d J / d x, (n, N). inputs : d J / d u, (n_varied, N). parameters : d J / d p, (r,).
        varied : numbers of the inputs that are differentiated with respect to.
        """
        cdef ks_sweep s
        cdef const ptrdiff_t[::1] chosen = _indices(varied, "varied", self._n_inputs)
        cdef ptrdiff_t last = end, first
        n, nodes = self._run.n, self._run.n_nodes
        s.carry, s.node = _data(carry, (n,), "carry", True), _data(node, (n, nodes), "node")
        s.n_varied, s.width = len(varied), len(parameters)
        s.varied = &chosen[0] if len(varied) else NULL
        s.inputs = _data(inputs, (len(varied), nodes), "inputs", True)
        s.parameters = _data(parameters, (len(parameters),), "parameters", True)
        self._check_sweep(begin, end, n + s.n_varied + s.width)
        while True:  # in parts, so that signals are heard
            first = max(begin, last - self._nodes_at_once())
            self._sweep(self._library._table.loops.adjoint, first, last, &s)
            last = first
            if last <= begin:
                return

    def tangent(self, ptrdiff_t begin, ptrdiff_t end, carry, along, ptrdiff_t n_varied):
        """d x / d q from `begin` to `end`: carry (n, width), along (end - begin + 1, n, width)."""
        cdef ks_sweep s
        cdef ptrdiff_t first = begin, last, n, width
        n, width = carry.shape
        s.width, s.n_varied = width, n_varied
        s.carry = _data(carry, (self._run.n, width), "carry", True)
        s.along = _data(along, (end - begin + 1, n, width), "along", True)
        self._check_sweep(begin, end, n + n_varied + width)
        while True:
            last = min(end, first + self._nodes_at_once())
            self._sweep(self._library._table.loops.tangent, first, last, &s)
            s.along += (last - first) * n * width
            first = last
            if first >= end:
                return

    cdef ptrdiff_t _nodes_at_once(self):
        """Steps of a sweep are about as much work as ten of a march; whole vectors of them."""
        cdef ptrdiff_t lanes = self._library._table.lanes
        return max(self._run.budget // 10 // lanes, 1) * lanes

    cdef int _check_sweep(self, ptrdiff_t begin, ptrdiff_t end, ptrdiff_t columns) except -1:
        self._check_nodes(begin, end)
        without = self._run.tangent == NULL or self._library._table.loops.adjoint == NULL or \
            self._run.method.stages == 0 or self._run.method.implicit > 0
        if without or self._run.members != 1 or self._run.substeps != 1:
            raise ValueError("derivatives need the kernel tangent, one member and no substeps")
        if self._last_column >= columns:
            raise ValueError(f"the pattern has {self._last_column + 1} columns, expected {columns}")
        return 0

    cdef int _sweep(self, ks_sweep_fn *loop, ptrdiff_t begin, ptrdiff_t end,
                    const ks_sweep *s) except -1:
        cdef int status
        with nogil:
            status = loop(&self._run, begin, end, s)
        if status != 0:
            raise MemoryError
        return PyErr_CheckSignals()


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
        cdef const ptrdiff_t[::1] row = _indices(rows, "rows", n)
        cdef const ptrdiff_t[::1] column = _indices(columns, "columns", 2**31)
        cdef const ptrdiff_t[::1] flags = _indices(held, "held", 2)
        cdef ks_chain *chain = &self._chain
        if row.shape[0] != column.shape[0] or row.shape[0] == 0 or library._table.loops == NULL:
            raise ValueError("rows and columns differ in length or are empty")
        nodes, stages = time.shape[0], b.shape[0]
        if nodes < 2:
            raise ValueError(f"a chain needs at least 2 nodes, got {nodes}")
        self._library, self._keep = library, [row, column, flags, time, a, b, c, values]
        self._last_column = max(column)
        chain.n, chain.n_nodes, chain.stages, chain.n_entries = n, nodes, stages, row.shape[0]
        chain.rows, chain.columns = &row[0], &column[0]
        chain.held = &flags[0] if flags.shape[0] else NULL
        chain.time, chain.a = _data(time, (nodes,), "time"), _data(a, (stages, stages), "a")
        chain.b, chain.c = _data(b, (stages,), "b"), _data(c, (stages,), "c")
        chain.values = _data(values, (row.shape[0], stages, nodes - 1), "values")

    def adjoint(self, ptrdiff_t begin, ptrdiff_t end, carry, node, inputs, parameters):
        """See `Run.adjoint`. Raises `ValueError` if a step is singular."""
        cdef ks_sweep s
        cdef ptrdiff_t last = end, first
        n, nodes = self._chain.n, self._chain.n_nodes
        s.carry, s.node = _data(carry, (n,), "carry", True), _data(node, (n, nodes), "node")
        s.n_varied, s.inputs = len(inputs), _data(inputs, (len(inputs), nodes), "inputs", True)
        s.parameters = _data(parameters, (len(parameters),), "parameters", True)
        s.width = len(parameters)
        self._check(begin, end, 2 * n + s.n_varied + s.width)
        while True:  # in parts, so that signals are heard
            first = max(begin, last - self._nodes_at_once())
            self._sweep(self._library._table.loops.chain_adjoint, first, last, &s)
            last = first
            if last <= begin:
                return

    def tangent(self, ptrdiff_t begin, ptrdiff_t end, carry, along, ptrdiff_t n_varied):
        """See `Run.tangent`. Raises `ValueError` if a step is singular."""
        cdef ks_sweep s
        cdef ptrdiff_t first = begin, last, n, width
        n, width = carry.shape
        s.carry = _data(carry, (self._chain.n, width), "carry", True)
        s.along = _data(along, (end - begin + 1, n, width), "along", True)
        s.width, s.n_varied = width, n_varied
        self._check(begin, end, 2 * n + n_varied + width)
        while True:
            last = min(end, first + self._nodes_at_once())
            self._sweep(self._library._table.loops.chain_tangent, first, last, &s)
            s.along += (last - first) * n * width
            first = last
            if first >= end:
                return

    cdef ptrdiff_t _nodes_at_once(self):
        """Each step factorises a matrix."""
        cdef ptrdiff_t n = self._chain.n * self._chain.stages
        return max(100_000_000 // (self._chain.n_entries + n * n * n + 1000), 1)

    cdef int _check(self, ptrdiff_t begin, ptrdiff_t end, ptrdiff_t columns) except -1:
        if not 0 <= begin <= end < self._chain.n_nodes:
            raise ValueError(f"nodes {begin} to {end} of {self._chain.n_nodes}")
        if self._last_column >= columns:
            raise ValueError(f"the chain has {self._last_column + 1} columns, expected {columns}")
        return 0

    cdef int _sweep(self, ks_chain_fn *loop, ptrdiff_t begin, ptrdiff_t end,
                    const ks_sweep *s) except -1:
        cdef int status
        with nogil:
            status = loop(&self._chain, begin, end, s)
        if status == 1:
            raise MemoryError
        if status == 2:
            raise ValueError("a step cannot be solved for its end: its Jacobian is singular")
        return PyErr_CheckSignals()
