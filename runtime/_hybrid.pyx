# cython: language_level=3, boundscheck=False, wraparound=False
"""Hybrid dynamics: the loop of runtime/hybrid over compiled kernels."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport intptr_t

import numpy as np


cdef extern from "include/kinesym.h" nogil:
    ctypedef struct ks_kernel:
        int n_out


cdef extern from "hybrid/contact.h" nogil:
    ctypedef struct contact_set:
        int count
        int rows
        const int *law
        const int *tangent
        const double *mu

    int contact_solve(const contact_set *, const double *, const double *, const int *,
                      const double *, int *, double *)


cdef extern from "hybrid/hybrid.h" nogil:
    ctypedef struct hybrid_run:
        const ks_kernel *smooth
        const ks_kernel *guards
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
        const double *value
        const double *slope
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
        int method
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
        ptrdiff_t steps
        ptrdiff_t rejected
        ptrdiff_t calls
        ptrdiff_t pause

    int hybrid_march(hybrid_run *, double)
    ptrdiff_t hybrid_log_margin(const hybrid_run *)


cdef double *doubles(array):
    """The numbers of a contiguous array of float64; NULL if it is empty."""
    if array.dtype != np.float64 or not array.flags.c_contiguous:
        raise ValueError("arrays of a hybrid run are contiguous and of float64")
    return <double *><intptr_t>array.ctypes.data if array.size else NULL


cdef int *ints(array):
    if array.dtype != np.intc or not array.flags.c_contiguous:
        raise ValueError("tables of a hybrid run are contiguous and of C integers")
    return <int *><intptr_t>array.ctypes.data if array.size else NULL


cdef ptrdiff_t *places(array):
    if array.dtype != np.intp or not array.flags.c_contiguous:
        raise ValueError("places of a hybrid run are contiguous and of intp")
    return <ptrdiff_t *><intptr_t>array.ctypes.data if array.size else NULL


cdef class HybridRun:
    """One trajectory, bound to its arrays.

    kernels : addresses of smooth, guards, resets and contact, 0 for those that there are not.
    arrays : by the names of the fields of `hybrid_run`, see runtime/hybrid/hybrid.h.
    """

    cdef hybrid_run run
    cdef object kept
    cdef object arrays

    def __init__(self, library, kernels, sizes, numbers, arrays):
        self.kept, self.arrays = library, dict(arrays)
        cdef hybrid_run *r = &self.run
        smooth, guards, resets, contact = kernels
        r.smooth = <const ks_kernel *><intptr_t>smooth
        r.guards = <const ks_kernel *><intptr_t>guards
        r.resets = <const ks_kernel *><intptr_t>resets
        r.contact = <const ks_kernel *><intptr_t>contact
        r.n, r.m, r.d, r.points.count, r.points.rows, r.events = sizes
        r.segments = len(arrays["begin"]) - 1
        r.nodes = len(arrays["time"])
        r.t, r.rtol, r.atol, r.v_stop, r.fixed = (
            numbers[key] for key in ("t", "rtol", "atol", "v_stop", "fixed"))
        r.method, r.by_height, r.per_second, r.pause = (
            numbers[key] for key in ("method", "by_height", "per_second", "pause"))
        r.segment = r.node = r.logged = r.taped = 0
        r.steps = r.rejected = r.calls = 0
        r.step = 0.0
        r.points.law, r.points.tangent = ints(arrays["law"]), ints(arrays["tangent"])
        r.points.mu, r.restitution = doubles(arrays["mu"]), doubles(arrays["restitution"])
        r.direction, r.level = ints(arrays["direction"]), ints(arrays["level"])
        r.stop, r.scale = ints(arrays["stop"]), doubles(arrays["scale"])
        r.first_target, r.target = places(arrays["first_target"]), places(arrays["target"])
        r.begin, r.value, r.slope = (doubles(arrays["begin"]), doubles(arrays["value"]),
                                     doubles(arrays["slope"]))
        r.parameters = doubles(arrays["parameters"])
        r.x, r.mode = doubles(arrays["x"]), doubles(arrays["mode"])
        r.state, r.friction, r.armed = (ints(arrays["state"]), ints(arrays["friction"]),
                                        ints(arrays["armed"]))
        r.time, r.states, r.inputs = (doubles(arrays["time"]), doubles(arrays["states"]),
                                      doubles(arrays["inputs"]))
        self.room(arrays)

    def room(self, arrays):
        """Memory for the log and the tape, beginning with what they hold."""
        cdef hybrid_run *r = &self.run
        self.arrays |= arrays
        r.log_size, r.tape_size = len(arrays["log_time"]), len(arrays["tape_time"])
        r.log_time, r.log_kind, r.log_index = (
            doubles(arrays["log_time"]), ints(arrays["log_kind"]), ints(arrays["log_index"]))
        r.log_before, r.log_after = doubles(arrays["log_before"]), doubles(arrays["log_after"])
        r.log_step, r.log_contact = places(arrays["log_step"]), ints(arrays["log_contact"])
        r.log_restitution = doubles(arrays["log_restitution"])
        r.tape_time, r.tape_length = doubles(arrays["tape_time"]), doubles(arrays["tape_length"])
        r.tape_state, r.tape_mode = doubles(arrays["tape_state"]), doubles(arrays["tape_mode"])
        r.tape_contact, r.tape_segment = ints(arrays["tape_contact"]), ints(arrays["tape_segment"])
        r.tape_cause = ints(arrays["tape_cause"])

    @property
    def margin(self):
        """Entries of the log that must be free at any time."""
        return hybrid_log_margin(&self.run)

    def march(self, double end):
        """To `end` [s]; one of the values of the enumeration in hybrid.h."""
        cdef int status
        with nogil:
            status = hybrid_march(&self.run, end)
        return status

    @property
    def at(self):
        """Time [s], nodes that are filled, entries of the log, steps on the tape."""
        return self.run.t, self.run.node, self.run.logged, self.run.taped

    @property
    def work(self):
        """Steps that were taken, steps that were not, evaluations of x'."""
        return self.run.steps, self.run.rejected, self.run.calls


def solve_contacts(law, tangent, mu, W, b, near, slide, mode):
    """Modes and forces of contacts, see runtime/hybrid/contact.h; None if there are none."""
    law, tangent, near = (np.ascontiguousarray(a, dtype=np.intc) for a in (law, tangent, near))
    mu, W, b, slide = (np.ascontiguousarray(a, dtype=np.float64) for a in (mu, W, b, slide))
    mode, f = np.array(mode, dtype=np.intc), np.zeros(len(b))
    cdef contact_set points
    points.count, points.rows = len(law), len(b)
    points.law, points.tangent, points.mu = ints(law), ints(tangent), doubles(mu)
    if not contact_solve(&points, doubles(W), doubles(b), ints(near), doubles(slide), ints(mode),
                         doubles(f)):
        return None
    return mode, f
