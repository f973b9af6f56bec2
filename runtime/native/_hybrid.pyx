# cython: language_level=3, boundscheck=False, wraparound=False
"""Hybrid dynamics: the loop of runtime/native/c/hybrid over compiled kernels."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport ptrdiff_t

from kinesym.runtime.native._arrays cimport doubles, ints, places
from kinesym.runtime.native._c cimport KS_STAGES_MOST, KS_UNKNOWN_MOST, ks_kernel, ks_tableau
from kinesym.runtime.native._library cimport Library

import numpy as np


cdef extern from "hybrid/contact.h" nogil:
    enum: HYBRID_CONTACTS
    enum: KS_LAW_SLIP
    enum: KS_LAW_STICK
    enum: KS_LAW_COULOMB

    ctypedef struct contact_set:
        int count
        int rows
        const int *law
        const int *tangent
        const double *mu

    int ks_contact_solve(const contact_set *, const double *, const double *, const int *,
                         const double *, int *, double *)


cdef extern from "hybrid/hybrid.h" nogil:
    enum: KS_LOG_CLOCK
    enum: KS_LOG_IMPACT
    enum: KS_LOG_CLOSE
    enum: KS_LOG_RELEASE
    enum: KS_LOG_SLIDE
    enum: KS_LOG_EVENT
    enum: HYBRID_DONE
    enum: HYBRID_STOPPED
    enum: HYBRID_LOG_FULL
    enum: HYBRID_STEP
    enum: HYBRID_STUCK
    enum: HYBRID_CHATTER
    enum: HYBRID_NO_MEMORY
    enum: HYBRID_PAUSED
    enum: HYBRID_NO_NUMBER
    enum: HYBRID_NEWTON
    enum: HYBRID_INTERRUPTED
    enum: HYBRID_SLIDES

    ctypedef struct hybrid_run:
        const ks_kernel *smooth
        const ks_kernel *guards
        const ks_kernel *turning
        const ks_kernel *resets
        const ks_kernel *contact
        ptrdiff_t n
        ptrdiff_t m
        ptrdiff_t d
        contact_set points
        const double *restitution
        int by_height
        ptrdiff_t events
        const int *direction
        const int *level
        const int *stop
        const double *scale
        const ptrdiff_t *first_target
        const ptrdiff_t *target
        ptrdiff_t segments
        const double *begin
        const double *coefficients
        const double *parameters
        double t
        double *x
        double *mode
        int *state
        int *friction
        int *armed
        ptrdiff_t segment
        ptrdiff_t nodes
        ptrdiff_t node
        const double *time
        double *states
        double *inputs
        ks_tableau method
        double fixed
        double rtol
        double atol
        double step
        double v_stop
        ptrdiff_t per_second
        ptrdiff_t log_size
        ptrdiff_t logged
        double *log_time
        double *log_before
        double *log_after
        int *log_kind
        int *log_index
        ptrdiff_t *log_step
        int *log_contact
        double *log_restitution
        ptrdiff_t tape_size
        ptrdiff_t taped
        double *tape_time
        double *tape_length
        double *tape_state
        double *tape_mode
        int *tape_contact
        int *tape_segment
        int *tape_cause
        double unseen
        double unseen_time
        int unseen_event
        int passed_event
        double passed_time
        ptrdiff_t steps
        ptrdiff_t rejected
        ptrdiff_t calls
        ptrdiff_t pause
        int (*interrupted)(void *) noexcept nogil
        void *whom

    int ks_hybrid_march(hybrid_run *, double)
    ptrdiff_t ks_hybrid_log_margin(const hybrid_run *)


cdef extern from "hybrid/sweep.h" nogil:
    enum: KS_PIECE
    enum: KS_SWEEP_NO_MEMORY

    ctypedef struct hybrid_slopes:
        const ks_kernel *kernel
        ptrdiff_t entries
        const int *row
        const int *column

    ctypedef struct hybrid_sweep:
        const hybrid_run *run
        hybrid_slopes smooth
        ptrdiff_t solution
        const int *target
        const int *source
        hybrid_slopes guards
        hybrid_slopes resets
        hybrid_slopes touch
        ptrdiff_t r
        const double *own
        double trouble
        int event

    int ks_hybrid_forward(hybrid_sweep *, ptrdiff_t, double *, const double *, const double *,
                          double *, double *, double *, double *)
    int ks_hybrid_adjoint(hybrid_sweep *, double *, const double *, const double *, const double *,
                          const double *, double *, double *)
    int ks_hybrid_observe(hybrid_sweep *, const hybrid_slopes *, ptrdiff_t, ptrdiff_t,
                          const double *, const double *, double *)


#: More contacts than this cannot be solved for.
MOST_CONTACTS = HYBRID_CONTACTS

#: Values that `HybridRun.march` returns; see hybrid.h.
DONE = HYBRID_DONE
STOPPED = HYBRID_STOPPED
FULL = HYBRID_LOG_FULL
STEP = HYBRID_STEP
STUCK = HYBRID_STUCK
CHATTER = HYBRID_CHATTER
NO_MEMORY = HYBRID_NO_MEMORY
PAUSED = HYBRID_PAUSED
NO_NUMBER = HYBRID_NO_NUMBER
NEWTON = HYBRID_NEWTON
INTERRUPTED = HYBRID_INTERRUPTED
SLIDES = HYBRID_SLIDES

#: Numbers in C by the names of entries of the log, and of laws of contacts.
LOG_KINDS = {"clock": KS_LOG_CLOCK, "impact": KS_LOG_IMPACT, "close": KS_LOG_CLOSE,
             "release": KS_LOG_RELEASE, "slide": KS_LOG_SLIDE, "event": KS_LOG_EVENT}
CONTACT_LAWS = {"slip": KS_LAW_SLIP, "stick": KS_LAW_STICK, "coulomb": KS_LAW_COULOMB}


cdef const ks_kernel *kernel(Library library, str name, ptrdiff_t outputs, tuple takes) except? NULL:
    """A kernel with so many outputs, NULL if there is nothing for it to compute."""
    if library.table.lanes != 1:
        raise ValueError(f"{library.path} was built for {library.lanes} lanes, not for one")
    cdef const ks_kernel *k = library.maybe(name)
    if outputs == 0:
        return NULL
    if k == NULL or k.n_out != outputs or tuple(k.count[j] for j in range(k.n_args)) != takes:
        raise ValueError(f"{library.path} has no kernel {name} with {outputs} outputs of "
                         f"{takes} values")
    return k


def _check_contacts(law, tangent, ptrdiff_t rows):
    """Raise `ValueError` for tables of contacts that do not fit each other or the solver."""
    count = len(law)
    if count > HYBRID_CONTACTS:
        raise ValueError(f"there are {count} contacts, at most {HYBRID_CONTACTS} can be solved for")
    if not count <= rows <= 2 * count:
        raise ValueError(f"{count} contacts have {count} to {2 * count} rows, got {rows}")
    inside = (tangent >= count) & (tangent < rows)
    if not (((law >= 0) & (law <= KS_LAW_COULOMB)).all() and (inside | (tangent == -1)).all()
            and inside[law == KS_LAW_COULOMB].all()):
        raise ValueError("a law or the row of a tangential direction of a contact cannot be")


cdef int _asked(void *whom) noexcept with gil:
    """Whether the run is to stop; lets Python handle signals."""
    cdef HybridRun run = <HybridRun>whom
    try:
        PyErr_CheckSignals()
        return run.stop is not None and run.stop.is_set()
    except BaseException as error:
        run.error = error
        return 1


cdef class HybridRun:
    """Hybrid simulation of one trajectory, bound to its arrays.

    library : with the kernels smooth, guards, turning, resets and contact, as far as there are any, built
        for one lane. sizes : numbers of states, given inputs, modes, contacts, rows of contacts,
        events. arrays : by the names of the fields of `hybrid_run`, see runtime/native/c/hybrid/hybrid.h.

    Parameters are followed by numbers["tables"] numbers of tables. Raises `ValueError` for what does
    not fit.
    """

    cdef hybrid_run run
    cdef object kept
    cdef object arrays
    cdef object stop
    cdef object error
    cdef ptrdiff_t tables

    def __init__(self, library, sizes, numbers, arrays):
        self.kept, self.arrays = library, dict(arrays)
        cdef hybrid_run *r = &self.run
        r.smooth, r.guards, r.turning, r.resets, r.contact = NULL, NULL, NULL, NULL, NULL
        r.n, r.m, r.d, r.points.count, r.points.rows, r.events = sizes
        if min(sizes) < 0 or r.n < 1:
            raise ValueError(f"there are no such sizes: {sizes}")
        n, m, d, count, R, events = sizes
        S, N, every = len(arrays["begin"]) - 1, len(arrays["time"]), m + d + R
        targets = len(arrays["target"])
        r.segments, r.nodes = S, N
        if S < 1:
            raise ValueError("inputs need at least one segment")
        r.t, r.rtol, r.atol, r.v_stop, r.fixed = (
            numbers[key] for key in ("t", "rtol", "atol", "v_stop", "fixed"))
        r.by_height, r.per_second, r.pause, r.method.order = (
            numbers[key] for key in ("by_height", "per_second", "pause", "order"))
        if r.method.order < 1 or r.per_second < 1 or r.pause < 1:
            raise ValueError("the order or a number of steps or events cannot be")
        self.tableau(arrays, numbers["implicit"])
        self.tables = numbers["tables"]
        if not 0 <= self.tables <= len(arrays["parameters"]):
            raise ValueError(f"{self.tables} numbers of tables do not follow the parameters")
        r.segment = r.node = r.logged = r.taped = 0
        r.steps = r.rejected = r.calls = 0
        r.step, r.passed_event = 0.0, -1
        r.interrupted, r.whom = _asked, <void *>self
        r.points.law = ints(arrays["law"], (count,), "law")
        r.points.tangent = ints(arrays["tangent"], (count,), "tangent")
        _check_contacts(arrays["law"], arrays["tangent"], R)
        r.points.mu = doubles(arrays["mu"], (count,), "mu")
        r.restitution = doubles(arrays["restitution"], (count,), "restitution")
        r.direction = ints(arrays["direction"], (events,), "direction")
        r.level = ints(arrays["level"], (events,), "level")
        r.stop = ints(arrays["stop"], (events,), "stop")
        r.scale = doubles(arrays["scale"], (events,), "scale")
        r.first_target = places(arrays["first_target"], (events + 1,), "first_target")
        r.target = places(arrays["target"], (targets,), "target")
        first, which = arrays["first_target"], arrays["target"]
        if first[0] != 0 or first[events] != targets or (np.diff(first) < 0).any() or \
                ((which < 0) | (which >= n + d)).any():
            raise ValueError("targets of events lie outside of states and modes")
        r.begin = doubles(arrays["begin"], (S + 1,), "begin")
        r.coefficients = doubles(arrays["coefficients"], (4, m, S), "coefficients")
        parameters = arrays["parameters"]
        r.parameters = doubles(parameters, (len(parameters),), "parameters")
        r.x, r.mode = doubles(arrays["x"], (n,), "x", True), doubles(arrays["mode"], (d,), "mode", True)
        r.state = ints(arrays["state"], (count,), "state", True)
        r.friction = ints(arrays["friction"], (count,), "friction", True)
        r.armed = ints(arrays["armed"], (events,), "armed", True)
        r.time = doubles(arrays["time"], (N,), "time")
        r.states = doubles(arrays["states"], (n, N), "states", True)
        r.inputs = doubles(arrays["inputs"], (every, N), "inputs", True)
        takes = (n, every, len(parameters), 1)
        r.smooth = kernel(library, "smooth", n, takes)
        r.guards = kernel(library, "guards", 2 * events, takes)
        r.turning = kernel(library, "turning", numbers["turning"], takes)
        r.resets = kernel(library, "resets", targets, takes)
        r.contact = kernel(library, "contact", count + R * (2 + R + 2 * n) if count else 0, takes)
        self.room(arrays)

    cdef int tableau(self, arrays, int implicit) except -1:
        """The numbers of the method, see runtime/native/c/hybrid/hybrid.h."""
        cdef ks_tableau *method = &self.run.method
        stages = arrays["a"].shape[1] if arrays["a"].ndim == 2 else -1
        if not 0 <= stages <= KS_STAGES_MOST:
            raise ValueError(f"a must be of shape (stages + 1, stages), at most {KS_STAGES_MOST}")
        method.stages = stages
        method.a = doubles(arrays["a"], (stages + 1, stages), "a")
        method.c = doubles(arrays["c"], (stages + 1,), "c")
        if implicit not in (0, stages) or implicit > KS_UNKNOWN_MOST:
            raise ValueError(f"{implicit} of {stages} stages cannot be solved for")
        method.implicit = implicit
        weights = {"error": stages} if implicit else {"error": stages + 1, "dense": stages + 1}
        shares = {
            name: (weights.get(name, 0) if arrays[name].size else 0,) for name in ("error", "dense")
        }
        method.error = doubles(arrays["error"], shares["error"], "error")
        method.dense = doubles(arrays["dense"], shares["dense"], "dense")
        if not implicit:
            return 0
        if method.error == NULL:
            raise ValueError("error of an implicit method must be given")
        square = (implicit, implicit)
        method.inverse = doubles(arrays["inverse"], square, "inverse")
        method.to = doubles(arrays["to"], square, "to")
        method.from_ = doubles(arrays["from"], square, "from")
        method.eigen = doubles(arrays["eigen"], (implicit, 2), "eigen")
        return 0

    def room(self, arrays):
        """Memory for the log and the tape, beginning with what they hold."""
        cdef hybrid_run *r = &self.run
        self.arrays |= arrays
        n, d, count, L, T = r.n, r.d, r.points.count, len(arrays["log_time"]), len(arrays["tape_time"])
        if L < r.logged or T < r.taped:
            raise ValueError("the log and the tape must hold what they held")
        r.log_size, r.tape_size = L, T
        r.log_time = doubles(arrays["log_time"], (L,), "log_time", True)
        r.log_kind = ints(arrays["log_kind"], (L,), "log_kind", True)
        r.log_index = ints(arrays["log_index"], (L,), "log_index", True)
        r.log_before = doubles(arrays["log_before"], (L, n), "log_before", True)
        r.log_after = doubles(arrays["log_after"], (L, n), "log_after", True)
        r.log_step = places(arrays["log_step"], (L,), "log_step", True)
        r.log_contact = ints(arrays["log_contact"], (L, count), "log_contact", True)
        r.log_restitution = doubles(arrays["log_restitution"], (L,), "log_restitution", True)
        r.tape_time = doubles(arrays["tape_time"], (T,), "tape_time", True)
        r.tape_length = doubles(arrays["tape_length"], (T,), "tape_length", True)
        r.tape_state = doubles(arrays["tape_state"], (T, n), "tape_state", True)
        r.tape_mode = doubles(arrays["tape_mode"], (T, d), "tape_mode", True)
        r.tape_contact = ints(arrays["tape_contact"], (T, count), "tape_contact", True)
        r.tape_segment = ints(arrays["tape_segment"], (T,), "tape_segment", True)
        r.tape_cause = ints(arrays["tape_cause"], (T,), "tape_cause", True)

    @property
    def margin(self):
        """Entries of the log that must be free at any time."""
        return ks_hybrid_log_margin(&self.run)

    def march(self, double end, stop=None):
        """March to `end` [s]; returns one of the values of the enumeration in hybrid.h.

        stop : an event that ends it early. What handlers of signals raise is raised.
        """
        cdef int status
        self.stop, self.error = stop, None
        with nogil:
            status = ks_hybrid_march(&self.run, end)
        if self.error is not None:
            raise self.error
        return status

    @property
    def at(self):
        """Time [s], nodes that are filled, entries of the log, steps on the tape."""
        return self.run.t, self.run.node, self.run.logged, self.run.taped

    @property
    def unseen(self):
        """Largest value by which a guard may have been beyond zero between two looks unseen; its time
        [s], and the number of the event."""
        return self.run.unseen, self.run.unseen_time, self.run.unseen_event

    @property
    def passed(self):
        """First event whose guard stood at zero from the start until another event took it beyond, which
        was no crossing; -1 if there is none. Its time."""
        return self.run.passed_event, self.run.passed_time

    @property
    def work(self):
        """Numbers of accepted steps, of rejected steps, and of evaluations of x'."""
        return self.run.steps, self.run.rejected, self.run.calls


cdef class HybridSweep:
    """Derivatives along the tape of a run that has been marched, see runtime/native/c/hybrid/sweep.h.

    library : kernels smooth_slopes, guard_slopes, reset_slopes and touch_slopes, as far as there are
        any, built for one lane. patterns : by these names rows and columns of their entries.
        solution : targets and sources of the steps of the first one. own : (m, segments), when the piece of each input began [s].

    Raises `ValueError` for what does not fit.
    """

    cdef hybrid_sweep sweep
    cdef HybridRun run
    cdef object kept

    def __init__(self, HybridRun run, library, patterns, solution, own):
        cdef hybrid_sweep *s = &self.sweep
        cdef const hybrid_run *r = &run.run
        explicit = r.method.stages > 0 and r.method.implicit == 0
        if not explicit or r.by_height or r.taped < 1 or r.taped != r.steps:
            raise ValueError("there is no tape of explicit steps that end by force to sweep over")
        s.run, s.r = r, len(run.arrays["parameters"]) - run.tables
        s.own = doubles(own, (r.m, r.segments), "own")
        n, R, count = r.n, r.points.rows, r.points.count
        made = {
            "smooth_slopes": n + (R if count else 0),
            "guard_slopes": r.events,
            "reset_slopes": len(run.arrays["target"]),
            "touch_slopes": count + 2 * R + n if count else 0,
        }
        self.run, self.kept = run, [library, own]
        steps = [np.array(row, dtype=np.intc) for row in solution]
        if any(((row < 0) | (row >= n)).any() for row in steps):
            raise ValueError("the steps of a solution lie outside of its rows")
        s.solution = steps[0].size
        s.target = ints(steps[0], (s.solution,), "targets")
        s.source = ints(steps[1], (s.solution,), "sources")
        self.kept += steps
        s.smooth = self.slopes(library, "smooth_slopes", patterns, made)
        s.guards = self.slopes(library, "guard_slopes", patterns, made)
        s.resets = self.slopes(library, "reset_slopes", patterns, made)
        s.touch = self.slopes(library, "touch_slopes", patterns, made)

    cdef hybrid_slopes slopes(self, library, str name, patterns, rows) except *:
        """A kernel with the places of its entries, which are sorted by rows."""
        cdef hybrid_slopes found
        cdef const hybrid_run *r = &self.run.run
        row, column = (np.array(part, dtype=np.intc) for part in patterns.get(name, ((), ())))
        takes = (r.n, r.m + r.d + r.points.rows, self.sweep.r + self.run.tables, 1)
        last = sum(takes) - self.run.tables + np.where(row >= r.n, r.n, 0) * (name == "smooth_slopes")
        if ((row < 0) | (row >= rows[name]) | (column < 0) | (column >= last)).any() or \
                (np.diff(row) < 0).any():
            raise ValueError(f"the entries of {name} lie outside of its rows and columns")
        self.kept += [row, column]
        found.entries = row.size
        found.row, found.column = ints(row, (row.size,), "row"), ints(column, (row.size,), "column")
        smooth = name == "smooth_slopes"
        found.kernel = kernel(
            library, name, row.size + (r.n + self.sweep.solution if smooth else 0), takes)
        return found

    cdef int done(self, int status) except -1:
        """Status of a sweep; raises the error of Ctrl-C."""
        if self.run.error is not None:
            raise self.run.error
        if status == KS_SWEEP_NO_MEMORY:
            raise MemoryError("a sweep over a run")
        return status

    def forward(self, x, p, pieces):
        """Forward sweep (tangent) of P changes: of states at the start (n, P), of parameters (r,
        P), of pieces (segments, PIECE, m, P). Returns the status; changes of states (n, P, nodes),
        of times of the entries of the log (logged, P), of states before and after them (logged, n,
        P)."""
        cdef const hybrid_run *r = self.sweep.run
        cdef int status
        n, E, P = r.n, r.logged, x.shape[1] if x.ndim == 2 else -1
        doubles(x, (n, P), "x")
        x = x.copy()
        states, times = np.empty((n, P, r.node)), np.empty((E, P))
        before, after = np.empty((E, n, P)), np.empty((E, n, P))
        cdef double *a = doubles(x, (n, P), "x")
        cdef double *b = doubles(p, (self.sweep.r, P), "p")
        cdef double *c = doubles(pieces, (r.segments, KS_PIECE, r.m, P), "pieces")
        cdef double *d = doubles(states, (n, P, r.node), "states")
        cdef double *e = doubles(times, (E, P), "times")
        cdef double *f = doubles(before, (E, n, P), "before")
        cdef double *g = doubles(after, (E, n, P), "after")
        cdef ptrdiff_t count = P
        self.run.stop = self.run.error = None
        with nogil:
            status = ks_hybrid_forward(&self.sweep, count, a, b, c, d, e, f, g)
        return self.done(status), states, times, before, after

    def adjoint(self, x, weights, times, before, after):
        """Adjoint sweep: derivatives of a sum of states at the end (n), at the nodes (nodes, n), of
        times of the entries of the log (logged) and states before and after them (logged, n).
        Returns the status; derivatives by states at the start (n), parameters (r), pieces
        (segments, PIECE, m)."""
        cdef const hybrid_run *r = self.sweep.run
        cdef int status
        n, E = r.n, r.logged
        doubles(x, (n,), "x")
        x, p, pieces = x.copy(), np.zeros(self.sweep.r), np.zeros((r.segments, KS_PIECE, r.m))
        cdef double *a = doubles(x, (n,), "x")
        cdef double *b = doubles(weights, (r.node, n), "weights")
        cdef double *c = doubles(times, (E,), "times")
        cdef double *d = doubles(before, (E, n), "before")
        cdef double *e = doubles(after, (E, n), "after")
        cdef double *f = doubles(p, (self.sweep.r,), "p")
        cdef double *g = doubles(pieces, (r.segments, KS_PIECE, r.m), "pieces")
        self.run.stop = self.run.error = None
        with nogil:
            status = ks_hybrid_adjoint(&self.sweep, a, b, c, d, e, f, g)
        return self.done(status), x, p, pieces

    def observed(self, time, states, library=None, pattern=((), ()), ptrdiff_t rows=0):
        """Derivatives at nodes, (N, n, L) of x', or (N, rows, L) of the functions that the kernel
        `observed_slopes` of a library differentiates, including the contact forces. Columns are
        states, parameters, then values, slopes and next begins of the pieces of inputs there."""
        cdef const hybrid_run *r = self.sweep.run
        cdef hybrid_slopes table
        cdef hybrid_slopes *of = NULL
        cdef int status
        cdef ptrdiff_t N = len(time)
        out = np.empty((N, r.n if library is None else rows, r.n + self.sweep.r + KS_PIECE * r.m))
        if library is not None:
            made = {"observed_slopes": rows}
            table = self.slopes(library, "observed_slopes", {"observed_slopes": pattern}, made)
            of = &table
        cdef double *a = doubles(time, (N,), "time")
        cdef double *b = doubles(states, (r.n, N), "states")
        cdef double *c = doubles(out, out.shape, "out")
        with nogil:
            status = ks_hybrid_observe(&self.sweep, of, rows, N, a, b, c)
        self.done(status)
        return out

    def segments(self, time):
        """Segments of the inputs to which nodes at these times belong."""
        tape = self.run.arrays["tape_time"][:self.run.run.taped]
        step = np.maximum(np.searchsorted(tape, time, side="right") - 1, 0)
        return self.run.arrays["tape_segment"][step]

    @property
    def trouble(self):
        """Time [s] and event at which there is no derivative."""
        return self.sweep.trouble, self.sweep.event


def solve_contacts(law, tangent, mu, W, b, near, slide, mode):
    """Modes and forces of contacts, see runtime/native/c/hybrid/contact.h; None if there are none.

    Raises `ValueError` for more than `MOST_CONTACTS`, and for shapes that do not fit.
    """
    law, tangent, near = (np.ascontiguousarray(a, dtype=np.intc) for a in (law, tangent, near))
    mu, W, b, slide = (np.ascontiguousarray(a, dtype=np.float64) for a in (mu, W, b, slide))
    mode = np.array(mode, dtype=np.intc)
    count, rows = law.size, b.size
    f = np.zeros(rows)
    cdef contact_set points
    points.count, points.rows = count, rows
    points.law, points.tangent = ints(law, (count,), "law"), ints(tangent, (count,), "tangent")
    points.mu = doubles(mu, (count,), "mu")
    _check_contacts(law, tangent, rows)
    if not ks_contact_solve(
            &points, doubles(W, (rows, rows), "W"), doubles(b, (rows,), "b"),
            ints(near, (count,), "near"), doubles(slide, (count,), "slide"),
            ints(mode, (count,), "mode"), doubles(f, (rows,), "f")):
        return None
    return mode, f
