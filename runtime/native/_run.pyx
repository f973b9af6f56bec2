# cython: language_level=3, boundscheck=False, wraparound=False
"""Time stepping: trajectories and ensembles of them, delayed inputs, and sweeps of derivatives."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport ptrdiff_t
from libc.stdlib cimport calloc, free

from kinesym.runtime.native._arrays cimport doubles, flags, indices, places
from kinesym.runtime.native._c cimport (
    KS_FAILED, KS_HELD, KS_LINEAR, KS_MORE, KS_NO_MEMORY, KS_PARABOLA, KS_STAGES_MOST, KS_STIFF,
    KS_UNKNOWN_MOST, ks_input, ks_kernel, ks_loops, ks_map_fn, ks_march_fn, ks_record, ks_run, ks_sweep, ks_sweep_fn, ks_tableau)
from kinesym.runtime.native._library cimport Library, forked

import numpy as np


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


#: Kinds of an input between nodes, the values of `enum ks_kind` in kinesym.h.
LINEAR = KS_LINEAR
HELD = KS_HELD
PARABOLA = KS_PARABOLA

#: Recorded steps that there is room for at first.
_FIRST_STEPS = 256

#: Arrays of `ks_tableau`.
_NUMBERS = ("c", "a", "error", "dense", "inverse", "to", "from", "eigen")


cdef int _past(ks_past *p, tuple arrays, ptrdiff_t rows, ptrdiff_t members) except -1:
    """The course of states in its arrays."""
    time, smooth, values, rates, terms = arrays
    p.rows, p.members, p.room = rows, members, time.shape[0]
    shape = (rows, members)
    p.smooth = flags(smooth.view(np.uint8), (p.room,), "smooth")
    p.time = doubles(time, (p.room,), "time", True)
    p.values = doubles(values, (p.room, *shape), "values", True)
    p.rates = doubles(rates, (2, p.room, *shape), "rates", True)
    p.terms = doubles(terms, (p.room, 6, *shape), "terms", True)
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
    recorded : most steps of an adaptive method that are recorded, see `steps`; 0: none are.

    Raises `ValueError` if a shape does not fit.
    """

    cdef Library _library
    cdef ks_run _run
    cdef ks_input *_courses
    cdef list _keep
    cdef ptrdiff_t _n_inputs, _n_parameters, _n_tables, _last_column
    cdef object _taken
    cdef ks_record _record
    cdef tuple _recorded
    cdef ptrdiff_t _budget, _most, _allowed

    def __cinit__(self, Library library, pattern, solution, time, list inputs, parameters, states,
                  values, reached, step, trouble, ptrdiff_t substeps, double rtol, double atol,
                  int threads, bint outputs_need_rates, ptrdiff_t budget=200_000, tableau=None,
                  stages=None, int index=0, tables=None, ptrdiff_t recorded=0):
        if library.table.loops == NULL:
            raise ValueError(f"{library.path} has no loops for time stepping")
        self._library = library
        self._keep = [time, inputs, parameters, states, values, reached, step, trouble]
        cdef ks_run *r = &self._run
        r.rhs, r.outputs = library.maybe("rhs"), library.maybe("outputs")
        r.residual, r.slopes = library.maybe("residual"), library.maybe("slopes")
        r.tangent = library.maybe("tangent")
        n, members, nodes = states.shape
        r.n, r.members, r.n_nodes, r.substeps = n, members, nodes, substeps
        r.rtol, r.atol, r.threads = rtol, atol, 1 if forked else threads
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
        r.time = doubles(time, (nodes,), "time")
        r.states = doubles(states, (n, members, nodes), "states", True)
        r.step = doubles(step, (members,), "step", True)
        r.trouble = doubles(trouble, (members,), "trouble", True)
        r.reached = places(reached, (members,), "reached", True)
        n_out = r.outputs.n_out if r.outputs != NULL else 0
        r.values = doubles(values, (n_out, members, nodes), "values", True)
        if parameters.shape not in ((1, self._n_parameters), (members, self._n_parameters)):
            raise ValueError(f"parameters have shape {parameters.shape}")
        r.parameters = doubles(parameters, parameters.shape, "parameters")
        r.parameter_stride = self._n_parameters if parameters.shape[0] > 1 else 0
        if (0 if tables is None else len(tables)) != self._n_tables:
            raise ValueError(f"{self._n_tables} numbers of tables are needed beside parameters")
        if tables is not None:
            r.tables = doubles(tables, tables.shape, "tables")
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
            self._courses[k].data = doubles(samples, samples.shape, f"input {k}")
            self._courses[k].stride = length if samples.shape[0] > 1 else 0
            self._courses[k].kind = kind
        vectors = 2 + (0 if tableau is None else tableau.get("implicit", 0))
        between = np.zeros((vectors * n + r.n_entries + 7, members))
        clock = np.zeros(members)
        self._taken = np.zeros(members, dtype=np.intp)
        self._keep += [between, clock]
        r.taken = places(self._taken, (members,), "taken")
        r.between = doubles(between, between.shape, "between")
        r.clock = doubles(clock, clock.shape, "clock")
        self._method(&r.method, {} if tableau is None else tableau)
        if stages is not None:
            self._keep.append(stages)
            if members > 1 or substeps > 1 or r.method.implicit == 0:
                raise ValueError("stages are kept of one member, without substeps")
            shape = (n, stages[0].shape[1], nodes - 1)
            if stages[0].shape[1] not in (r.method.stages, r.method.stages + 1):
                raise ValueError(f"the method has {r.method.stages} stages")
            r.stage_rates = doubles(stages[0], shape, "stage rates", True)
            r.stage_states = doubles(stages[1], shape, "stage states", True)
        self._budget, self._most, self._allowed = budget, recorded, recorded
        if recorded > 0:
            if members > 1 or r.method.error == NULL:
                raise ValueError("steps are recorded of one member, and where a method chooses them")
            r.record = &self._record
            self._reserve(min(_FIRST_STEPS, recorded))

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
        method.c = doubles(rows["c"], (stages + 1,), "c")
        method.a = doubles(rows["a"], (stages + 1, stages), "a")
        method.error = doubles(rows["error"], (weights if rows["error"].size else 0,), "error")
        method.dense = doubles(rows["dense"], (weights if rows["dense"].size else 0,), "dense")
        method.inverse = doubles(rows["inverse"], square, "inverse")
        method.to, method.from_ = doubles(rows["to"], square, "to"), doubles(rows["from"], square, "from")
        method.eigen = doubles(rows["eigen"], (unknown, 2)[: 2 if unknown else 1], "eigen")
        return 0

    cdef ptrdiff_t _places(self, pair, str name, const ptrdiff_t **first,
                           const ptrdiff_t **second) except -1:
        """Keep two index arrays of equal length, the first one of states, and point to them."""
        one, other = (np.ascontiguousarray(each, dtype=np.intp) for each in pair)
        first[0], second[0] = indices(one, name, self._run.n), indices(other, name, 2**31)
        if len(one) != len(other):
            raise ValueError("index arrays differ in length")
        self._keep += [one, other]
        return len(one)

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
        """Members that failed in the last march, before its end, (members,) bool."""
        return self._taken == KS_FAILED

    cdef int _reserve(self, ptrdiff_t room) except -1:
        """Room for so many recorded steps, with those that there are."""
        cdef ks_record *record = &self._record
        n, stages, kept = self._run.n, self._run.method.implicit, self._recorded
        made = (np.empty(room), np.empty((room, n)), *np.empty((2, room, stages, n)))
        if kept is not None:
            for new, old in zip(made, kept):
                new[:record.count] = old[:record.count]
        self._recorded = made
        record.time = doubles(made[0], made[0].shape, "times", True)
        record.begin = doubles(made[1], made[1].shape, "states", True)
        record.rates = doubles(made[2], made[2].shape, "stage rates", True)
        record.states = doubles(made[3], made[3].shape, "stage states", True)
        return 0

    cdef bint _have_room(self) except -1:
        """Whether there is room for what the next call records, which is made."""
        cdef ptrdiff_t room
        if self._run.record == NULL:
            return True
        room = self._recorded[0].shape[0]
        if self._allowed <= self._record.count < self._most and self._gets_on():
            self._allowed = min(2 * self._allowed, self._most)
        if self._record.count == room and room < self._allowed:
            room = min(2 * room, self._most)
            self._reserve(room)
        self._run.budget = min(self._budget, min(room, self._allowed) - self._record.count)
        return self._run.budget > 0

    cdef bint _gets_on(self):
        """Whether the last half of the recorded steps has covered a tenth of their time."""
        cdef const double *time = self._record.time
        cdef ptrdiff_t last = self._record.count - 1
        return time[last] - time[last // 2] >= 0.1 * (time[last] - time[0])

    @property
    def steps(self):
        """Recorded steps: their ends (K,), x at their begins (K, n), x' and x at the stages of
        implicit ones, (K, stages, n) each; copies."""
        return tuple(rows[:self._record.count].copy() for rows in self._recorded)

    @property
    def count(self):
        """Number K of recorded steps."""
        return self._record.count

    def forget(self, most=None):
        """Forget the recorded steps. most : number of the next ones after which, and after twice as
        many again and again, the run goes on only if the last half of them has covered a tenth of
        their time; None where it goes on while there is room."""
        self._record.count = 0
        self._allowed = self._most if most is None else min(self._most, max(1, most))

    def march(self, str method, ptrdiff_t begin, ptrdiff_t end, stop=None):
        """Fill the nodes begin < i <= end, by the method of that name.

        Every now and then Python's handlers of signals run. stop : an event that may end it early.
        Returns whether it has not. More steps than are recorded are too many, as of a stiff model.
        """
        cdef ks_march_fn *loop = self._loop(method)
        cdef ptrdiff_t k
        cdef int status = KS_MORE
        self._check_nodes(begin, end)
        for k in range(self._run.members):
            self._run.taken[k] = 0 if self._run.reached[k] == begin + 1 else KS_FAILED
        self._run.resumed = 0
        while status == KS_MORE:
            if stop is not None and stop.is_set():
                return False
            if not self._have_room():
                self._run.trouble[0] = KS_STIFF
                break
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
        cdef int status = 0
        cdef double *values
        kept = np.ascontiguousarray(kept, dtype=np.intp)
        self._check_nodes(begin, end)
        members, nodes = self._run.members, self._run.n_nodes
        d.run, d.loop, d.map = &self._run, self._loop(method), self._library.table.map
        d.n_late, d.places, d.at, d.shortest = len(late), len(shares), at, shortest
        d.shares = doubles(shares, (len(shares),), "shares")
        d.to_samples = doubles(to_samples, (3, len(shares)), "samples")
        d.kept = indices(kept, "kept", self._run.n)
        _past(&d.past, past, len(kept), members)
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
                d.late[k].samples = doubles(samples, (members, 3 * nodes - 2), "samples", True)
                d.late[k].ends = doubles(ends, (2, members, nodes - 1), "ends", True)
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
        cdef const ks_loops *loops = self._library.table.loops
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
        """Fill the outputs of the nodes begin <= i <= end; algebraic states follow jumps of inputs."""
        cdef int status = 0
        self._check_nodes(begin, end)
        if self._run.outputs != NULL or self._run.rhs == NULL:
            with nogil:
                status = self._library.table.loops.outputs(&self._run, begin, end)
        if status != 0:
            raise MemoryError

    cdef int _check_nodes(self, ptrdiff_t begin, ptrdiff_t end) except -1:
        if not 0 <= begin <= end < self._run.n_nodes:
            raise ValueError(f"nodes {begin} to {end} of {self._run.n_nodes}")
        return 0

    def adjoint(self, ptrdiff_t begin, ptrdiff_t end, carry, node, inputs, parameters, varied):
        """Adjoint sweep: lambda (n,) in `carry` from node `end` back to `begin`.

        Adds to the gradients. node : d J / d x, (n, N). inputs : d J / d u, (n_varied, N).
        parameters : d J / d p, (r,). varied : numbers of the inputs that are varied.
        """
        cdef ks_sweep s
        cdef ptrdiff_t last = end, first
        n, nodes = self._run.n, self._run.n_nodes
        s.carry, s.node = doubles(carry, (n,), "carry", True), doubles(node, (n, nodes), "node")
        s.n_varied, s.width = len(varied), len(parameters)
        varied = np.ascontiguousarray(varied, dtype=np.intp)
        s.varied = indices(varied, "varied", self._n_inputs)
        s.inputs = doubles(inputs, (len(varied), nodes), "inputs", True)
        s.parameters = doubles(parameters, (len(parameters),), "parameters", True)
        self._check_sweep(begin, end, n + s.n_varied + s.width)
        while True:  # in parts, so that signals are heard
            first = max(begin, last - self._nodes_at_once())
            self._sweep(self._library.table.loops.adjoint, first, last, &s)
            last = first
            if last <= begin:
                return

    def tangent(self, ptrdiff_t begin, ptrdiff_t end, carry, along, ptrdiff_t n_varied):
        """Tangent sweep: d x / d q from `begin` to `end`.

        carry : (n, width). along : (end - begin + 1, n, width).
        """
        cdef ks_sweep s
        cdef ptrdiff_t first = begin, last, n, width
        n, width = carry.shape
        s.width, s.n_varied = width, n_varied
        s.carry = doubles(carry, (self._run.n, width), "carry", True)
        s.along = doubles(along, (end - begin + 1, n, width), "along", True)
        self._check_sweep(begin, end, n + n_varied + width)
        while True:
            last = min(end, first + self._nodes_at_once())
            self._sweep(self._library.table.loops.tangent, first, last, &s)
            s.along += (last - first) * n * width
            first = last
            if first >= end:
                return

    cdef ptrdiff_t _nodes_at_once(self):
        """Number of steps between two looks at Ctrl-C, whole vectors of them; a step of a sweep is
        about as much work as ten of a march."""
        cdef ptrdiff_t lanes = self._library.table.lanes
        return max(self._run.budget // 10 // lanes, 1) * lanes

    cdef int _check_sweep(self, ptrdiff_t begin, ptrdiff_t end, ptrdiff_t columns) except -1:
        self._check_nodes(begin, end)
        without = self._run.tangent == NULL or self._library.table.loops.adjoint == NULL or \
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
