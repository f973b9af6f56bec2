# cython: language_level=3, boundscheck=False, wraparound=False
"""IPOPT's C interface, found at run time; kernels write straight into IPOPT's own arrays.

The functions are looked up by name in a library that is given by its path or already loaded, so that
nothing is linked. `Bool` is a C99 bool: results are read through their lowest byte, and those of ours
are 0 or 1 in a whole int.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stddef cimport ptrdiff_t
from libc.stdio cimport fflush, stdout
from libc.string cimport memcpy
from posix.dlfcn cimport RTLD_LAZY, RTLD_LOCAL, dlerror, dlopen, dlsym
from posix.fcntl cimport F_SETFL, O_NONBLOCK, fcntl
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from posix.unistd cimport close, dup, dup2, pipe, read

from kinesym.runtime.native._c cimport ks_plan, ks_run_plan

import os

import numpy as np


ctypedef int eval_f(int, double *, int, double *, void *) noexcept nogil
ctypedef int eval_g(int, double *, int, int, double *, void *) noexcept nogil
ctypedef int eval_grad_f(int, double *, int, double *, void *) noexcept nogil
ctypedef int eval_jac_g(int, double *, int, int, int, int *, int *, double *, void *) noexcept nogil
ctypedef int eval_h(int, double *, int, double, int, double *, int, int, int *, int *, double *,
                    void *) noexcept nogil
ctypedef int intermediate(int, int, double, double, double, double, double, double, double, double,
                          int, void *) noexcept nogil

ctypedef void *create_fn(int, double *, double *, int, double *, double *, int, int, int, eval_f *,
                         eval_g *, eval_grad_f *, eval_jac_g *, eval_h *) noexcept nogil
ctypedef void free_fn(void *) noexcept nogil
ctypedef int add_str_fn(void *, const char *, const char *) noexcept nogil
ctypedef int add_num_fn(void *, const char *, double) noexcept nogil
ctypedef int add_int_fn(void *, const char *, int) noexcept nogil
ctypedef int set_intermediate_fn(void *, intermediate *) noexcept nogil
ctypedef int solve_fn(void *, double *, double *, double *, double *, double *, double *,
                      void *) noexcept nogil
ctypedef void version_fn(int *, int *, int *) noexcept nogil


#: Unless told otherwise IPOPT obeys a file ipopt.opt in the current folder, without a word.
NO_FILE = {"option_file_name": ""}


cdef class Ipopt:
    """The functions of an IPOPT library.

    path : the library, or one that is linked to it. Raises `OSError` if it cannot be opened, has no
    C interface of IPOPT or one before 3.14, whose linear solvers cannot come from a library.
    """

    cdef create_fn *_create
    cdef free_fn *_free
    cdef add_str_fn *_add_str
    cdef add_num_fn *_add_num
    cdef add_int_fn *_add_int
    cdef set_intermediate_fn *_set_intermediate
    cdef solve_fn *_solve
    cdef readonly str path
    cdef readonly tuple version  # (3, 14) before 3.14.17, which does not tell

    def __cinit__(self, path):
        cdef int major = 0, minor = 0, release = 0
        cdef version_fn *version
        self.path = str(path)
        cdef void *handle = dlopen(os.fsencode(self.path), RTLD_LAZY | RTLD_LOCAL)
        if handle == NULL:
            raise OSError(f"cannot open {path}: {dlerror().decode()}")
        self._create = <create_fn *>self._find(handle, b"CreateIpoptProblem")
        self._free = <free_fn *>self._find(handle, b"FreeIpoptProblem")
        self._add_str = <add_str_fn *>self._find(handle, b"AddIpoptStrOption")
        self._add_num = <add_num_fn *>self._find(handle, b"AddIpoptNumOption")
        self._add_int = <add_int_fn *>self._find(handle, b"AddIpoptIntOption")
        self._set_intermediate = <set_intermediate_fn *>self._find(handle,
                                                                   b"SetIntermediateCallback")
        self._solve = <solve_fn *>self._find(handle, b"IpoptSolve")
        version = <version_fn *>dlsym(handle, b"GetIpoptVersion")  # since 3.14.17
        if version != NULL:
            version(&major, &minor, &release)
            self.version = (major, minor, release)
        else:
            self.version = (3, 14)
        if dlsym(handle, b"GetIpoptCurrentIterate") == NULL:  # came with 3.14
            raise OSError(f"{self.path} is IPOPT before 3.14")

    cdef void *_find(self, void *handle, bytes name) except NULL:
        cdef void *found = dlsym(handle, name)
        if found == NULL:
            raise OSError(f"{self.path} has no function {name.decode()} of IPOPT")
        return found


# Redirection of what C writes to stdout, as long as the interpreter lock is held.
cdef struct Ear:
    int shown  # the true stdout; -1: nothing is redirected
    int end


cdef Ear _listen():
    cdef Ear ear
    cdef int ends[2]
    fflush(stdout)
    ear.shown, ear.end = dup(1), -1
    if ear.shown >= 0 and pipe(ends) == 0:
        fcntl(ends[1], F_SETFL, O_NONBLOCK)
        dup2(ends[1], 1)
        close(ends[1])
        ear.end = ends[0]
    return ear


cdef str _heard(Ear ear):
    cdef char text[16384]
    cdef ssize_t length = 0
    fflush(stdout)
    if ear.shown >= 0:
        dup2(ear.shown, 1)
        close(ear.shown)
    if ear.end >= 0:
        length = max(read(ear.end, text, sizeof(text)), 0)
        close(ear.end)
    return text[:length].decode(errors="replace")


def overheard(function, *arguments):
    """Call a compiled function; whether it raised no `TypeError` or `OverflowError`, and what it
    wrote to stdout, which is not shown."""
    cdef Ear ear = _listen()
    accepted = False
    try:
        function(*arguments)
        accepted = True
    except (TypeError, OverflowError):
        pass
    finally:
        words = _heard(ear)
    return accepted, words


cdef _set(Ipopt ipopt, void *problem, str name, value):
    """Set an option; raises `TypeError` if IPOPT does not accept it."""
    cdef int accepted
    key = name.encode()
    if isinstance(value, str):
        accepted = ipopt._add_str(problem, key, value.encode())
    elif isinstance(value, int):
        accepted = ipopt._add_int(problem, key, value)
    else:
        accepted = ipopt._add_num(problem, key, value)
    if not accepted & 0xff:
        raise TypeError(f"IPOPT does not accept the option {name} = {value!r}")


cdef bint _set_all(Ipopt ipopt, void *problem, options):
    """Set options; whether IPOPT accepts all of them."""
    cdef Ear ear = _listen()
    try:
        for name, value in options.items():
            _set(ipopt, problem, name, value)
    except TypeError:
        return False
    finally:
        _heard(ear)
    return True


# Scale factors of values: `n_blocks` blocks of `runs` numbers, each for `counts` values that are
# packed as in kinesym.h.
cdef struct Factors:
    const double *numbers  # NULL: nothing is multiplied
    ptrdiff_t n_blocks
    const ptrdiff_t *shapes  # of each block: runs, counts
    ptrdiff_t lanes


cdef void _multiply(const Factors *f, double *out) noexcept nogil:
    cdef const double *numbers = f.numbers
    cdef ptrdiff_t b, i, k, l, runs, count, width
    for b in range(f.n_blocks):
        runs, count = f.shapes[2 * b], f.shapes[2 * b + 1]
        i = 0
        while i < count:
            width = min(f.lanes, count - i)
            for k in range(runs):
                for l in range(width):
                    out[l] *= numbers[k]
                out += width
            i += width
        numbers += runs


# A callback: a plan, or if that is NULL a function of Python, by its name among the plans.
cdef struct Callback:
    const ks_plan *plan
    const char *name
    int size
    Factors factors


# Data that IPOPT hands back to the callbacks as `user_data`.
cdef struct Calls:
    Callback cost
    Callback gradient
    Callback constraints
    Callback jacobian
    Callback hessian
    const double *no_multipliers
    double *z  # room for them without factors, behind each other; NULL: there are none
    double *multipliers
    double seconds
    void *problem


cdef double _now() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec + 1e-9 * t.tv_nsec


cdef int _evaluate(Calls *calls, Callback *callback, const double *z, const double *multipliers,
                   double factor, double *out) noexcept nogil:
    cdef const double *arrays[3]
    cdef double start = _now()
    cdef int status
    cdef ptrdiff_t i
    if calls.z != NULL:
        for i in range(calls.gradient.size):
            calls.z[i] = z[i] * calls.gradient.factors.numbers[i]
        for i in range(calls.constraints.size):
            calls.multipliers[i] = multipliers[i] * calls.constraints.factors.numbers[i]
        z, multipliers = calls.z, calls.multipliers
    if callback.plan != NULL:
        arrays[0], arrays[1], arrays[2] = z, multipliers, &factor
        status = ks_run_plan(callback.plan, arrays, out)
    else:
        status = _call(calls.problem, callback, z, multipliers, factor, out)
    if callback.factors.numbers != NULL:
        _multiply(&callback.factors, out)
    calls.seconds += _now() - start
    return status == 0


cdef int _call(void *problem, Callback *callback, const double *z, const double *multipliers,
               double factor, double *out) noexcept with gil:
    """Evaluate a callback by a function of Python. After an error nothing is called any more."""
    cdef Problem p = <Problem>problem
    if p._error is not None:
        return 1
    try:
        p._evaluate(callback, z, multipliers, factor, out)
    except BaseException as error:
        p._error = error
        return 1
    return 0


cdef int _cost(int n, double *z, int fresh, double *out, void *data) noexcept nogil:
    cdef Calls *calls = <Calls *>data
    return _evaluate(calls, &calls.cost, z, calls.no_multipliers, 1.0, out)


cdef int _gradient(int n, double *z, int fresh, double *out, void *data) noexcept nogil:
    cdef Calls *calls = <Calls *>data
    return _evaluate(calls, &calls.gradient, z, calls.no_multipliers, 1.0, out)


cdef int _constraints(int n, double *z, int fresh, int m, double *out, void *data) noexcept nogil:
    cdef Calls *calls = <Calls *>data
    return _evaluate(calls, &calls.constraints, z, calls.no_multipliers, 1.0, out)


cdef int _jacobian(int n, double *z, int fresh, int m, int count, int *rows, int *columns,
                   double *out, void *data) noexcept nogil:
    cdef Calls *calls = <Calls *>data
    if out == NULL:
        return _structure(calls.problem, b"jacobian", count, rows, columns)
    return _evaluate(calls, &calls.jacobian, z, calls.no_multipliers, 1.0, out)


cdef int _hessian(int n, double *z, int fresh, double factor, int m, double *multipliers,
                  int fresh_multipliers, int count, int *rows, int *columns, double *out,
                  void *data) noexcept nogil:
    cdef Calls *calls = <Calls *>data
    if out == NULL:
        return _structure(calls.problem, b"hessian", count, rows, columns)
    return _evaluate(calls, &calls.hessian, z, multipliers, factor, out)


cdef int _structure(void *problem, const char *name, int count, int *rows,
                    int *columns) noexcept with gil:
    if count == 0:
        return 1
    try:
        (<Problem>problem)._fill(name.decode(), <int[:count]>rows, <int[:count]>columns)
    except BaseException as error:
        (<Problem>problem)._error = error
        return 0
    return 1


cdef int _intermediate(int mode, int number, double objective, double infeasibility,
                       double optimality, double mu, double step, double regularization,
                       double alpha_dual, double alpha_primal, int trials,
                       void *data) noexcept with gil:
    cdef Problem problem = <Problem>(<Calls *>data).problem
    if problem._error is not None:
        return 0
    try:
        return bool(problem._report(mode, number, objective, infeasibility, optimality, mu, step,
                                    regularization, alpha_dual, alpha_primal, trials))
    except BaseException as error:
        problem._error = error
        return 0


cdef class Problem:
    """A nonlinear program in IPOPT, with the methods of `cyipopt.Problem` that are used here.

    Parameters
    ----------
    ipopt : the library.
    plans : with the plans (`kinesym.runtime.native.Plan`) cost, gradient, constraints, jacobian and
        hessian, which read z, multipliers and the factor of the cost; or functions of Python
        f(z, multipliers, factor, out), which fill `out` and whose errors end the solve.
    structures : with methods `fill(rows, columns)` and sizes, of Jacobian and Hessian.
    bounds, constraint_bounds : (lower, upper), float64.
    report : called after each iteration with IPOPT's eleven numbers; False stops.
    factors : by name of callback, all but the cost, what their values are multiplied with, see
        `kinesym.runtime.sparse.structure.Factors`; the z that IPOPT has with that of the gradient, its
        multipliers with that of the constraints; or none.
    """

    cdef Ipopt _ipopt
    cdef free_fn *_free  # not through _ipopt, which the collector of cycles may clear first
    cdef void *_handle
    cdef Calls _calls
    cdef object _plans, _structures, _report, _error, _factors
    cdef list _shapes  # of factors
    cdef double[::1] _given
    cdef const double[::1] _no_multipliers
    cdef int _n, _m

    def __cinit__(self, Ipopt ipopt, plans, structures, bounds, constraint_bounds, report,
                  factors):
        cdef const double[::1] low, high, c_low, c_high
        low, high = bounds
        c_low, c_high = constraint_bounds
        jacobian, hessian = structures
        self._ipopt, self._plans, self._structures, self._report = ipopt, plans, structures, report
        self._free, self._factors, self._shapes = ipopt._free, factors, []
        self._n, self._m = low.shape[0], c_low.shape[0]
        if not 0 < self._n == high.shape[0] or c_high.shape[0] != self._m:
            raise ValueError("bounds must be pairs of arrays of equal length, and not empty")
        self._no_multipliers = np.zeros(max(self._m, 1))
        calls = &self._calls
        calls.problem, calls.seconds = <void *>self, 0.0
        calls.no_multipliers = &self._no_multipliers[0]
        calls.cost = self._callback(b"cost", 1)
        calls.gradient = self._callback(b"gradient", self._n)
        calls.constraints = self._callback(b"constraints", self._m)
        calls.jacobian = self._callback(b"jacobian", jacobian.size)
        calls.hessian = self._callback(b"hessian", hessian.size)
        calls.z = calls.multipliers = NULL
        if factors:
            self._given = np.empty(self._n + max(self._m, 1))
            calls.z, calls.multipliers = &self._given[0], &self._given[self._n]
        self._handle = ipopt._create(
            self._n, <double *>&low[0], <double *>&high[0], self._m,
            <double *>&c_low[0] if self._m else NULL, <double *>&c_high[0] if self._m else NULL,
            jacobian.size, hessian.size, 0, _cost, _constraints, _gradient, _jacobian, _hessian)
        if self._handle == NULL:
            raise ValueError("IPOPT does not accept the sizes of this problem")
        ipopt._set_intermediate(self._handle, _intermediate)
        _set_all(ipopt, self._handle, NO_FILE)

    cdef Callback _callback(self, const char *name, int size) except *:
        cdef Callback made
        made.plan, made.name, made.size = NULL, name, size
        made.factors.numbers = NULL
        if name.decode() in self._factors and size > 0:
            made.factors = self._taken(name.decode(), self._factors[name.decode()], size)
        given = getattr(self._plans, name.decode())
        if not hasattr(given, "capsule"):
            return made
        made.plan = <const ks_plan *>PyCapsule_GetPointer(given.capsule, b"kinesym.plan")
        if made.plan.n_out != size:
            raise ValueError(f"the plan of {name.decode()} fills {made.plan.n_out} values, "
                             f"expected {size}")
        if given.sizes not in ((), (self._n, self._m, 1)):
            raise ValueError(f"the plan of {name.decode()} reads arrays of lengths {given.sizes}, "
                             f"expected {(self._n, self._m, 1)}")
        return made

    cdef Factors _taken(self, str name, given, int size) except *:
        cdef Factors made
        cdef const double[::1] numbers = given.numbers
        cdef const ptrdiff_t[:, ::1] shapes = np.array(given.shapes, dtype=np.intp).reshape(-1, 2)
        runs, counts = np.asarray(shapes).T
        if runs.sum() != numbers.shape[0] or runs @ counts != size or given.lanes < 1:
            raise ValueError(f"factors of {runs @ counts} values of {name}, expected {size}")
        self._shapes.append(shapes)
        made.numbers, made.n_blocks, made.lanes = &numbers[0], shapes.shape[0], given.lanes
        made.shapes = &shapes[0, 0]
        return made

    cdef _evaluate(self, Callback *callback, const double *z, const double *multipliers,
                   double factor, double *out):
        if callback.size == 0:
            return
        given = np.empty(self._n + self._m)
        cdef double[::1] copy = given
        memcpy(&copy[0], z, self._n * sizeof(double))
        if self._m > 0:
            memcpy(&copy[self._n], multipliers, self._m * sizeof(double))
        function = getattr(self._plans, callback.name.decode())
        function(given[:self._n], given[self._n:], factor,
                 np.asarray(<double[:callback.size]>out))

    def __dealloc__(self):
        if self._handle != NULL:
            self._free(self._handle)

    def _fill(self, name, rows, columns):
        which = self._structures[0 if name == "jacobian" else 1]
        which.fill(np.asarray(rows), np.asarray(columns))

    @property
    def seconds(self):
        """Seconds spent in evaluations so far."""
        return self._calls.seconds

    def add_option(self, str name, value):
        """Set an option; raises `TypeError` if IPOPT does not accept it."""
        _set(self._ipopt, self._handle, name, value)

    def solve(self, z, lagrange=(), zl=(), zu=()):
        """Solve from z; multipliers of constraints and bounds count if IPOPT is told to start warm.

        Returns the last iterate and a dictionary: `mult_g`, `mult_x_L`, `mult_x_U`, `obj_val`,
        `status`. What `report` raised is raised.
        """
        cdef double[::1] x = np.array(z, dtype=np.float64)
        cdef double[::1] g = self._start(lagrange, self._m)
        cdef double[::1] low = self._start(zl, self._n), high = self._start(zu, self._n)
        cdef double cost = 0.0
        cdef int status
        if x.shape[0] != self._n:
            raise ValueError(f"{self._n} variables, got {x.shape[0]} values")
        self._error = None
        with nogil:
            status = self._ipopt._solve(self._handle, &x[0], NULL, &cost, &g[0], &low[0], &high[0],
                                        &self._calls)
        error, self._error = self._error, None
        if error is not None:
            raise error
        return np.asarray(x), {
            "mult_g": np.asarray(g)[:self._m], "mult_x_L": np.asarray(low),
            "mult_x_U": np.asarray(high), "obj_val": cost, "status": status,
        }

    cdef _start(self, values, int count):
        start = np.zeros(max(count, 1))
        if len(values):
            start[:count] = values
        return start


# -- a trial problem: min sum (x_k - 2^-k)^2 with x_k+1 = p x_k over three nodes; x = 1, 1/2, 1/4 ------

cdef int _trial_cost(int n, double *z, int fresh, double *out, void *data) noexcept nogil:
    out[0] = (z[0] - 1.0) ** 2 + (z[1] - 0.5) ** 2 + (z[2] - 0.25) ** 2
    return 1


cdef int _trial_gradient(int n, double *z, int fresh, double *out, void *data) noexcept nogil:
    out[0], out[1], out[2] = 2.0 * (z[0] - 1.0), 2.0 * (z[1] - 0.5), 2.0 * (z[2] - 0.25)
    out[3] = 0.0
    return 1


cdef int _trial_constraints(int n, double *z, int fresh, int m, double *out,
                            void *data) noexcept nogil:
    out[0], out[1] = z[1] - z[3] * z[0], z[2] - z[3] * z[1]
    return 1


cdef int _trial_jacobian(int n, double *z, int fresh, int m, int count, int *rows, int *columns,
                         double *out, void *data) noexcept nogil:
    cdef int k
    for k in range(2):
        if out == NULL:
            rows[3 * k] = rows[3 * k + 1] = rows[3 * k + 2] = k
            columns[3 * k], columns[3 * k + 1], columns[3 * k + 2] = k, k + 1, 3
        else:
            out[3 * k], out[3 * k + 1], out[3 * k + 2] = -z[3], 1.0, -z[k]
    return 1


cdef int _trial_hessian(int n, double *z, int fresh, double factor, int m, double *multipliers,
                        int fresh_multipliers, int count, int *rows, int *columns, double *out,
                        void *data) noexcept nogil:
    cdef int k
    for k in range(3):
        if out == NULL:
            rows[k] = columns[k] = k
        else:
            out[k] = 2.0 * factor
    for k in range(2):
        if out == NULL:
            rows[3 + k], columns[3 + k] = 3, k
        else:
            out[3 + k] = -multipliers[k]
    return 1


def trial(Ipopt ipopt, options):
    """Solve a problem of three nodes with the given options; whether the solution is right.

    False, too, if an option is not accepted.
    """
    cdef double x[4]
    cdef double low[4]
    cdef double high[4]
    cdef double zero[2]
    cdef int status
    for k in range(4):
        x[k], low[k], high[k] = 0.7, -10.0, 10.0
    zero[0] = zero[1] = 0.0
    cdef void *handle = ipopt._create(4, low, high, 2, zero, zero, 6, 5, 0, _trial_cost,
                                      _trial_constraints, _trial_gradient, _trial_jacobian,
                                      _trial_hessian)
    try:
        if not _set_all(ipopt, handle, {**NO_FILE, "print_level": 0, "sb": "yes", **options}):
            return False
        with nogil:
            status = ipopt._solve(handle, x, NULL, NULL, NULL, NULL, NULL, NULL)
    finally:
        ipopt._free(handle)
    return status == 0 and abs(x[1] - 0.5) < 1e-6 and abs(x[3] - 0.5) < 1e-6
