"""Discretisation error of a scheme on each interval, estimated by a finer scheme there.

On one interval the finer scheme starts at the same node with the same inputs and parameters. One
step of Newton's method from the polynomials of the scheme leads to its end, which differs by the
local error; the adjoint of that step, which starts from the costate at the end, differs likewise
from the multipliers of the scheme (deferred correction; Stetter 1978, The defect correction
principle and discretization methods, Numerische Mathematik 29).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.point import Derivatives, Linearised, PointFunctions

#: Share of its size, or of what bounds leave, by which an input has to be off them to be free.
_OFF = 1e-4


@dataclass(frozen=True, eq=False)
class Finer:
    """A scheme with s stages and m knots, and Radau IIA with f stages and a higher order.

    nodes, weights, matrix : c, b, A of the scheme. at_knots : whether its stages are its knots.
    values, rates : (s, m), of the states at the knots in those at the stages and in h x' there.
    fine_nodes, fine_weights : (f,); fine_rates : (f, f + 1), of the states at 0 and at the fine
    nodes in h x' there. extend : (f, m), of the knots in the states at the fine nodes, or (f, s) of
    h x' at the stages if these are the knots. extend_inputs : (f, s), of the stages at the fine
    nodes. back, back_stages : of 0 and the fine nodes at the knots, (m, f + 1), and of the fine
    nodes at the stages, (s, f). beside : (f, q), basis of courses at the fine nodes that inputs of
    the scheme cannot follow; those at a node belong to two intervals.
    """

    nodes: Array
    weights: Array
    matrix: Array
    at_knots: bool
    values: Array
    rates: Array
    fine_nodes: Array
    fine_weights: Array
    fine_rates: Array
    extend: Array
    extend_inputs: Array
    back: Array
    back_stages: Array
    beside: Array


@dataclass(frozen=True, eq=False)
class Courses:
    """M intervals of a trial; arrays have the places first, then the intervals.

    begin : (M,), t at their left nodes, step : (M,) [s]; with an unknown duration T both are
    shares of it, else T = 1. knots : rated states at the knots, (m, M, .). staged : algebraic
    states at the stages, (s, M, .). inputs : unknown ones at the stages, (s, M, .).
    coarse, fine : signals at the stages and the fine nodes. late : inputs `delayed`, by number, at
    the fine nodes, (f, M, .); others are the polynomials through the stages. box : bounds of the
    inputs, (2, M, .), equal for those whose course is given. multipliers : of the equations at the
    stages, (s, M, n), or of the defects of the states at the knots but the first, (m - 1, M, n).
    """

    begin: Array
    step: Array
    T: float
    knots: Array
    staged: Array
    inputs: Array
    coarse: Array
    fine: Array
    late: Array
    delayed: list[int]
    box: Array
    multipliers: Array

    def part(self, here: slice) -> Courses:
        """Courses on some of the intervals."""
        first = {name: getattr(self, name)[here] for name in ("begin", "step")}
        names = ("knots", "staged", "inputs", "coarse", "fine", "late", "box", "multipliers")
        return replace(self, **first, **{name: getattr(self, name)[:, here] for name in names})


@dataclass(frozen=True, eq=False)
class Defects:
    """Defects: differences of the finer scheme from the scheme on M intervals.

    ends : states at the right node, (M, n). states : by the finer scheme, at its nodes, (f, M, n).
    rows : residuals of the scheme's constraints along the finer scheme, as `Courses.multipliers`.
    begins, inputs : differences of the gradient of the Lagrangian with respect to rated states at
    the left node, (M, .), and to inputs at the stages, (s, M, .). parameters, duration : the same,
    sums over the intervals. objective : its difference. gains : change of the objective, (M,),
    not positive, if inputs were free within an interval.
    """

    ends: Array
    states: Array
    rows: Array
    begins: Array
    inputs: Array
    parameters: Array
    duration: float
    objective: float
    gains: Array


def joined(parts: Sequence[Defects]) -> Defects:
    """Defects of intervals one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Defects(
        ends=np.concatenate([d.ends for d in parts]),
        states=np.concatenate([d.states for d in parts], axis=1),
        rows=np.concatenate([d.rows for d in parts], axis=1),
        begins=np.concatenate([d.begins for d in parts]),
        inputs=np.concatenate([d.inputs for d in parts], axis=1),
        parameters=np.sum([d.parameters for d in parts], axis=0),
        duration=sum(d.duration for d in parts),
        objective=sum(d.objective for d in parts),
        gains=np.concatenate([d.gains for d in parts]),
    )


@dataclass(frozen=True, eq=False)
class Freedom:
    """Additional freedom of each of m inputs on M intervals: q courses at the fine nodes.

    rows : change of the scheme's constraints, as `Courses.multipliers`, (m, q, ..). slopes : of the
    Lagrangian, (m, q, M). bends : its second derivatives, (m, q, q, M). across : mixed ones, by
    each course and the input at a stage, (m, q, s, M). missed : difference of those by inputs at
    the stages from their value by the weights of the scheme, (m, s, s, M). free : inputs that are
    off their bounds, and free to take the courses, (m, M).
    """

    rows: Array
    slopes: Array
    bends: Array
    across: Array
    missed: Array
    free: NDArray[np.bool_]


def interval_freedom(f: PointFunctions, at: Finer, p: Array, c: Courses) -> Freedom:
    """Additional freedom of inputs on M intervals; p : the unknown parameters, (r,)."""
    found = _compared(f, at, p, c)
    fine, h, W, m = found.fine, c.step * c.T, at.beside, c.inputs.shape[-1]
    of_inputs = fine.values.jacobian.part(f.u)
    moved = np.zeros((m, W.shape[1], *found.delta.shape))
    for j, q in np.ndindex(*moved.shape[:2]):
        change = np.zeros(fine.inputs.shape)
        change[..., j] = W[:, q, None]
        moved[j, q] = found.matrix.solve(-of_inputs.product(change))
    rows = [
        [_rows(f, at, found.coarse, delta, h, found.rated, found.other) for delta in mine]
        for mine in moved
    ]
    total = _pulled(fine, f, found.mu, at.fine_weights, c)
    bend = np.maximum(_bend(f, fine, found.mu, at, h), 0.0)
    E, there = (
        at.extend_inputs,
        np.tensordot(at.back_stages, bend / at.fine_weights[:, None, None], 1),
    )
    missed = np.einsum("fs,fr,fMm->msrM", E, E, bend)
    stages = np.arange(len(at.nodes))
    missed[:, stages, stages] -= np.moveaxis(at.weights[:, None, None] * there, 2, 0)
    low, high = fine.inputs - c.box[0], c.box[1] - fine.inputs
    size = _OFF * np.where(np.isfinite(low + high), low + high, np.abs(fine.inputs))
    free = (c.box[0] < c.box[1]) & ((low > size) & (high > size)).all(axis=0)
    free[:, f.tied] = False
    return Freedom(
        np.array(rows),
        np.einsum("fq,fMm->mqM", W, total.u),
        np.einsum("fq,fr,fMm->mqrM", W, W, bend),
        np.einsum("fq,fs,fMm->mqsM", W, E, bend),
        missed,
        free.T,
    )


class _Compared(NamedTuple):
    """The scheme and the finer one on M intervals: a step of Newton's method to the latter, by its
    matrix, and its multipliers; the gradient at the knots, and with respect to other values at the
    stages."""

    rated: list[int]
    other: list[int]
    coarse: _Points
    fine: _Points
    knots: Array
    sums: _Gradient
    matrix: _Matrix
    delta: Array
    mu: Array


def _compared(f: PointFunctions, at: Finer, p: Array, c: Courses) -> _Compared:
    rated = [f.about.states.index(x) for x in f.about.rated]
    other = [k for k in range(len(f.about.states)) if k not in rated]
    h = c.step * c.T
    coarse = _along_scheme(f, at, p, c, rated, other)
    fine = _along_extension(f, at, p, c, rated, other, coarse)
    knots, sums = _coarse_gradient(f, at, c, coarse, rated)
    side = -_cost_slopes(fine, f, at.fine_rates, at.fine_weights, h)[1:]
    side[..., rated] += np.tensordot(at.back[:, 1:].T, knots, 1)
    side[..., other] += np.tensordot(at.back_stages.T, sums.x[..., other], 1)
    matrix = _matrix(fine, f, at.fine_rates[:, 1:], h, side.shape)
    delta, mu = matrix.both(-fine.values.residual, side)
    return _Compared(rated, other, coarse, fine, knots, sums, matrix, delta, mu)


def interval_defects(f: PointFunctions, at: Finer, p: Array, c: Courses) -> Defects:
    """Defects of M intervals; p : the unknown parameters, (r,)."""
    rated, other, coarse, fine, knots, sums, _, delta, mu = _compared(f, at, p, c)
    h = c.step * c.T
    total = _pulled(fine, f, mu, at.fine_weights, c)
    begins = np.tensordot(at.fine_rates[:, 0], total.xdot[..., rated], 1) / h[:, None]
    return Defects(
        ends=delta[-1],
        states=delta + np.moveaxis(fine.given["x"].reshape(-1, *delta.shape[:2]), 0, -1),
        rows=_rows(f, at, coarse, delta, h, rated, other),
        begins=begins - np.tensordot(at.back[:, 0], knots, 1),
        inputs=np.tensordot(at.extend_inputs.T, total.u, 1) - sums.u,
        parameters=total.p - sums.p,
        duration=total.T - sums.T,
        objective=total.integral - sums.integral + float((mu * fine.values.residual).sum()),
        gains=_gains(f, fine, total.u, mu, at, h, c.box),
    )


@dataclass(frozen=True, eq=False)
class _Points:
    """The functions at places of all intervals, (places, M, ..); shares : of these places in the
    interval. rates, inputs : x' and u there, (places, M, .). given : all arguments, flat."""

    shares: Array
    rates: Array
    inputs: Array
    values: Linearised
    given: Mapping[str, Array]


def _evaluated(
    f: PointFunctions,
    p: Array,
    c: Courses,
    shares: Array,
    rates: Array,
    x: Array,
    u: Array,
    s: Array,
) -> _Points:
    time = c.T * (c.begin + shares[:, None] * c.step)
    arrays = {"xdot": rates, "x": x, "u": u, "s": s}
    given = {
        name: np.ascontiguousarray(a.reshape(time.size, a.shape[-1]).T)
        for name, a in arrays.items()
    }
    given |= {"p": p, "t": time.reshape(-1)}
    return _Points(shares, rates, u, f(given).at(len(shares), len(c.step)), given)


def _along_scheme(
    f: PointFunctions, at: Finer, p: Array, c: Courses, rated: list[int], other: list[int]
) -> _Points:
    """Functions at the stages; x' by the polynomials, or by the equations if the stages are
    knots."""
    shape = (len(at.nodes), len(c.step), len(f.about.states))
    x, rates = np.zeros(shape), np.zeros(shape)
    h = (c.step * c.T)[:, None]
    x[..., rated] = np.tensordot(at.values, c.knots, 1)
    x[..., other] = c.staged
    rates[..., rated] = np.tensordot(at.rates, c.knots, 1) / h
    found = _evaluated(f, p, c, at.nodes, rates, x, c.inputs, c.coarse)
    if at.at_knots:
        rates = rates - found.values.jacobian.part(f.xdot).solve(found.values.residual)[0]
        found = _evaluated(f, p, c, at.nodes, rates, x, c.inputs, c.coarse)
    return found


def _along_extension(
    f: PointFunctions,
    at: Finer,
    p: Array,
    c: Courses,
    rated: list[int],
    other: list[int],
    coarse: _Points,
) -> _Points:
    """Functions at the fine nodes, on the polynomials of the scheme."""
    shape = (len(at.fine_nodes), len(c.step), len(f.about.states))
    x, rates = np.zeros(shape), np.zeros(shape)
    h = (c.step * c.T)[:, None]
    if at.at_knots:
        x[..., rated] = c.knots[0] + h * np.tensordot(at.extend, coarse.rates, 1)
    else:
        x[..., rated] = np.tensordot(at.extend, c.knots, 1)
    x[..., other] = np.tensordot(at.extend_inputs, c.staged, 1)
    every = np.concatenate([c.knots[:1], x[..., rated]])
    rates[..., rated] = np.tensordot(at.fine_rates, every, 1) / h
    u = np.tensordot(at.extend_inputs, c.inputs, 1)
    u[..., c.delayed] = c.late
    return _evaluated(f, p, c, at.fine_nodes, rates, x, u, c.fine)


# -- the linear systems of the finer scheme -----------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Matrix:
    """Derivatives of the equations at all fine nodes of M intervals by the states there, (f, M, n)
    each."""

    values: Derivatives
    shape: tuple[int, int, int]

    def both(self, b: Array, c: Array) -> tuple[Array, Array]:
        """x and y of A x = b and A' y = c."""
        x, y = self.values.solve(self._flat(b), self._flat(c))
        return self._full(x), self._full(y)

    def solve(self, b: Array) -> Array:
        """x of A x = b."""
        return self._full(self.values.solve(self._flat(b))[0])

    def _flat(self, a: Array) -> Array:
        count, M, n = self.shape
        return np.moveaxis(a, 0, 1).reshape(M, count * n)

    def _full(self, a: Array) -> Array:
        count, M, n = self.shape
        return np.moveaxis(a.reshape(M, count, n), 1, 0)


def _matrix(
    fine: _Points, f: PointFunctions, rates: Array, h: Array, shape: tuple[int, ...]
) -> _Matrix:
    jacobian, (count, M, n) = fine.values.jacobian, shape
    of_rates, of_states = jacobian.part(f.xdot), jacobian.part(f.x)
    stage = n * np.arange(count)
    moved = np.moveaxis(of_rates.values / h, 1, 0)[:, None] * rates[:, :, None, None]
    own = np.moveaxis(of_states.values, 1, 0)
    rows, columns = np.empty((2, count, count, len(of_rates.rows)), dtype=np.intp)
    rows[:] = stage[:, None, None] + of_rates.rows
    columns[:] = stage[:, None] + of_rates.columns
    matrix = Derivatives(
        (count * n, count * n),
        np.concatenate([rows.ravel(), np.add.outer(stage, of_states.rows).ravel()]),
        np.concatenate([columns.ravel(), np.add.outer(stage, of_states.columns).ravel()]),
        np.concatenate([moved.reshape(-1, M), own.reshape(-1, M)]),
    )
    return _Matrix(matrix, (count, M, n))


def _cost_slopes(fine: _Points, f: PointFunctions, rates: Array, weights: Array, h: Array) -> Array:
    """Derivatives of the integral with respect to the states at 0 and the fine nodes, (f + 1, M,
    n)."""
    slopes, weighted = fine.values.slopes, np.broadcast_to(weights[:, None], fine.rates.shape[:2])
    found = np.tensordot(rates.T, slopes.part(f.xdot).pulled(weighted[..., None]), 1)
    found[1:] += h[:, None] * slopes.part(f.x).pulled(weighted[..., None])
    return np.asarray(found)


# -- gradients of the Lagrangian -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Gradient:
    """Gradient of h b g + multipliers . equations at places, with respect to x', x and u there, and
    to parameters and duration, summed; and the integral."""

    xdot: Array
    x: Array
    u: Array
    p: Array
    T: float
    integral: float


def _pulled(
    points: _Points, f: PointFunctions, multipliers: Array, weights: Array, c: Courses
) -> _Gradient:
    v, h = points.values, c.step * c.T
    cost = weights[:, None] * h
    q = v.jacobian.pulled(multipliers)
    if len(v.slopes.rows):  # an integrand there is
        q += v.slopes.pulled(cost[..., None])
    integral = float((cost * v.integrand).sum())
    time = c.begin + points.shares[:, None] * c.step
    stretched = (q[..., f.xdot] * points.rates).sum() / c.T
    return _Gradient(
        q[..., f.xdot],
        q[..., f.x],
        q[..., f.u],
        q[..., f.p].sum(axis=(0, 1)),
        float((q[..., f.t][..., 0] * time).sum() - stretched + integral / c.T),
        integral,
    )


def _coarse_gradient(
    f: PointFunctions, at: Finer, c: Courses, coarse: _Points, rated: list[int]
) -> tuple[Array, _Gradient]:
    """Gradient of the Lagrangian with respect to the states at the knots, (m, M, .), and to other
    values at the stages."""
    h = (c.step * c.T)[:, None]
    if not at.at_knots:
        found = _pulled(coarse, f, c.multipliers, at.weights, c)
        xdot, x = found.xdot[..., rated], found.x[..., rated]
        knots = np.tensordot(at.rates.T, xdot, 1) / h + np.tensordot(at.values.T, x, 1)
        return knots, found
    v, lam = coarse.values, c.multipliers
    cost = v.slopes.part(f.xdot).pulled((at.weights[:, None] * h[:, 0])[..., None])
    side = np.tensordot(at.matrix[1:].T, lam, 1) - cost
    nu = v.jacobian.part(f.xdot).solve(None, side)[1]
    found = _pulled(coarse, f, nu, at.weights, c)
    knots = found.x.copy()
    knots[1:] += lam / h
    knots[0] -= lam.sum(axis=0) / h
    moved = (lam * (c.knots[1:] - c.knots[0]) / h).sum() / c.T
    stretched = (found.xdot * coarse.rates).sum() / c.T
    T = found.T + stretched - moved
    return knots, _Gradient(found.xdot, found.x, found.u, found.p, float(T), found.integral)


def _bend(f: PointFunctions, fine: _Points, mu: Array, at: Finer, h: Array) -> Array:
    """Second derivatives of the Lagrangian by each input at the fine nodes, (f, M, m)."""
    weight = (at.fine_weights[:, None] * h).reshape(-1)
    bend = f.curvature(fine.given, weight, mu.reshape(-1, mu.shape[-1]).T)
    return np.asarray(bend.T.reshape(fine.inputs.shape))


def _gains(
    f: PointFunctions, fine: _Points, slope: Array, mu: Array, at: Finer, h: Array, box: Array
) -> Array:
    """The least of slope d + curvature d^2 / 2 over the steps d of each input at each fine node
    that its bounds allow (the minimum principle), summed over the interval, (M,)."""
    if not slope.shape[-1]:
        return np.zeros(slope.shape[1])
    bend = _bend(f, fine, mu, at, h)
    low, high = box[0] - fine.inputs, box[1] - fine.inputs
    span = np.ptp(fine.inputs, axis=(0, 1))  # without bounds, no farther than inputs go anyway
    low = np.where(np.isfinite(low), np.minimum(low, 0.0), -span)
    high = np.where(np.isfinite(high), np.maximum(high, 0.0), span)
    free = box[0] < box[1]
    free[:, f.tied] = False  # the states that it is tied to cannot follow
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(bend > 0.0, -slope / bend, np.where(slope > 0.0, low, high))
    step = np.where(free & ~np.isnan(step), np.clip(step, low, high), 0.0)
    return np.asarray((step * (slope + 0.5 * np.maximum(bend, 0.0) * step)).sum(axis=(0, 2)))


# -- constraints of the scheme -------------------------------------------------------------------


def _rows(
    f: PointFunctions,
    at: Finer,
    coarse: _Points,
    delta: Array,
    h: Array,
    rated: list[int],
    other: list[int],
) -> Array:
    """Change of the scheme's constraints if the states change by `delta` (f, M, n) at the fine
    nodes, but not at the left node."""
    jacobian = coarse.values.jacobian
    knots = np.tensordot(at.back[:, 1:], delta[..., rated], 1)
    change = np.zeros(coarse.rates.shape)
    change[..., rated] = np.tensordot(at.values, knots, 1)
    change[..., other] = np.tensordot(at.back_stages, delta[..., other], 1)
    moved = jacobian.part(f.x).product(change)
    if at.at_knots:
        rates = -jacobian.part(f.xdot).solve(moved)[0]
        return knots[1:] / h[:, None] - np.tensordot(at.matrix[1:], rates, 1)
    rates = np.zeros(coarse.rates.shape)
    rates[..., rated] = np.tensordot(at.rates, knots, 1) / h[:, None]
    return moved + jacobian.part(f.xdot).product(rates)
