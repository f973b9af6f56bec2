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
        ptrdiff_t steps
        ptrdiff_t rejected
        ptrdiff_t calls

    int hybrid_march(hybrid_run *, double)


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
        r.t, r.rtol, r.atol, r.v_stop = (numbers[key] for key in ("t", "rtol", "atol", "v_stop"))
        r.by_height, r.per_second = numbers["by_height"], numbers["per_second"]
        r.segment, r.node, r.step = numbers["segment"], 0, 0.0
        r.logged = r.steps = r.rejected = r.calls = 0
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
        self.log(arrays["log_time"], arrays["log_kind"], arrays["log_index"],
                 arrays["log_before"], arrays["log_after"])

    def log(self, time, kind, index, before, after):
        """Memory for the log, beginning with what it holds."""
        cdef hybrid_run *r = &self.run
        self.arrays |= {"log_time": time, "log_kind": kind, "log_index": index,
                        "log_before": before, "log_after": after}
        r.log_size = len(time)
        r.log_time, r.log_kind, r.log_index = doubles(time), ints(kind), ints(index)
        r.log_before, r.log_after = doubles(before), doubles(after)

    def march(self, double end):
        """To `end` [s]; one of the values of the enumeration in hybrid.h."""
        cdef int status
        with nogil:
            status = hybrid_march(&self.run, end)
        return status

    @property
    def at(self):
        """Time [s], nodes that are filled, entries of the log, segment of the inputs."""
        return self.run.t, self.run.node, self.run.logged, self.run.segment

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
