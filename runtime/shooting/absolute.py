"""Minima of likelihoods with absolute values of residuals, as of Laplace's errors, found exactly.

J(y) = f(y) + sum w |e(y)|, f and e smooth, is lowered by steps d that minimise
g'd + d'Bd/2 + sum w |e + A d| within bounds and a trust region, A = e' and B >= 0 a curvature of f
(Fletcher 1982, Mathematical Programming Study 17:67, with his second-order correction, as kinks may
be curved; convergence: Yuan 1985, Mathematical Programming 31:269). Where as many residuals are
zero as there are unknowns, steps converge as Newton's. Elsewhere B lacks the bends of the
residuals, each times its multiplier, which secants of f + sum of multiplier times e approximate, by
Powell's symmetric formula as in `batched_squares`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from kinesym.runtime.arrays import Array
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.simulation.stepper import Diverged
from kinesym.runtime.status import Solve

Rows = NDArray[np.intp]

#: Share of J by which a step may still lower it at the end.
_REST = 1e-12
#: A share of J by which a step may lower it where steps are as small as rounding.
_NEARLY = 1e-7
#: Shortest step, as a share of the unknowns.
_SHORTEST = 1e-14
#: A step that lowers J by this share forgets secants.
_FALLS = 0.2
#: Steps towards a minimum of the model, at most.
_INNER = 60
#: Complementarity at which the model is solved, as a share of its size.
_CLOSED = 1e-14
#: Least shift of a matrix that is singular up to rounding, with a diagonal of ones.
_SHIFT = 1e-15
#: Share of the way to where something would be zero.
_INSIDE = 0.995


class Kinked(NamedTuple):
    """Objective J near a point: the gradient g (n,) of f and its curvature B (n, n), and terms
    w |e|: weights (k,), e (k,) and its derivatives A (k, n)."""

    J: float
    g: Array
    B: Array
    w: Array
    e: Array
    A: Array

    def fall(self, d: Array) -> float:
        """Decrease of the model by a step."""
        kinks = self.w @ (np.abs(self.e) - np.abs(self.e + self.A @ d))
        return float(kinks - self.g @ d - 0.5 * d @ self.B @ d)

    def scaled(self, slopes: Array) -> Kinked:
        """The same in variables y with d q/d y (n,)."""
        B = slopes[:, None] * self.B * slopes
        return self._replace(g=self.g * slopes, B=B, A=self.A * slopes)


def kinked_at(trials: Simulated, q: Array) -> Kinked:
    """Objective of trials, whose loss has a kink, near q. Raises `Diverged`."""
    rows, slopes = trials.residuals(q), trials.jacobian(q).toarray()
    e, mine, logs = _kinks(trials, rows)
    samples, root = trials.samples(), np.sqrt(trials.factor)
    share = np.sqrt(samples.share[mine])
    paired = logs >= 0
    A = slopes[mine] / (root * share)[:, None]
    A[paired] -= e[paired, None] * slopes[logs[paired]] / root
    smooth = np.ones(len(rows), dtype=bool)
    smooth[mine] = False
    rest = rows.copy()
    rest[logs[paired]] = root  # of 2 log std, of which the scores have the kinks, too
    S = slopes[smooth]
    w = 2.0 * trials.factor * share**2
    return Kinked(trials.cost(q), 2.0 * S.T @ rest[smooth], 2.0 * S.T @ S, w, e, A)


def tried_at(trials: Simulated, q: Array) -> tuple[float, Array]:
    """J and the residuals whose absolute values it has; infinite where a simulation fails."""
    J = trials.cost(q)
    return (J, _kinks(trials, trials.residuals(q))[0]) if np.isfinite(J) else (J, np.zeros(0))


def _kinks(trials: Simulated, rows: Array) -> tuple[Array, Rows, Rows]:
    """Residuals e of samples, numbers of their rows, and those of their scores of log std, -1 for
    samples without one."""
    samples, root = trials.samples(), np.sqrt(trials.factor)
    off, log = samples.pairs
    there = (samples.channel >= 0) & (samples.weight > 0.0)
    there[log] = False
    paired = np.full(len(there), -1, dtype=np.intp)
    paired[off] = log
    mine = np.flatnonzero(there)
    logs, e = paired[mine], rows[mine] / (root * np.sqrt(samples.share[mine]))
    scored = logs >= 0
    e[scored] = np.sign(e[scored]) * (1.0 - rows[logs[scored]] / root)
    return e, mine, logs


class Problem(NamedTuple):
    """Problem in scaled unknowns. at : the objective near a point, raises `Diverged`. try_at : J,
    and e where that is finite. bounds : of y. level : least size of J of which shares are taken.
    note : callback for iterates, with J and a slope."""

    at: Callable[[Array], Kinked]
    try_at: Callable[[Array], tuple[float, Array]]
    bounds: tuple[Array, Array]
    level: float
    note: Callable[[Array, float, float], None]


def minimised(problem: Problem, y: Array, limit: int) -> tuple[Array, Solve]:
    """Minimum from y, and how it was found."""
    low, high = problem.bounds
    y, radius, more = np.clip(y, low, high), 1.0, np.zeros((len(y), len(y)))
    here = problem.at(y)
    for _ in range(limit + 1):
        size, model = max(abs(here.J), problem.level), here._replace(B=_convex(here.B + more))
        box = (np.maximum(low - y, -radius), np.minimum(high - y, radius))
        d, multipliers = _step(model, box)
        fall = model.fall(d)
        problem.note(y, here.J, fall)
        short = radius <= _SHORTEST * (1.0 + np.abs(y).max(initial=0.0))
        if fall <= (_NEARLY if short else _REST * min(1.0, radius)) * size:
            return y, Solve.CONVERGED
        if short:
            return y, Solve.SMALL_STEP
        J, e = problem.try_at(np.clip(y + d, low, high))
        if np.isfinite(J) and 0.25 * fall > here.J - J:  # kinks may be curved
            again, others = _step(model._replace(e=e - here.A @ d), box)
            other, _ = problem.try_at(np.clip(y + again, low, high))
            if other < J:
                d, multipliers, J = again, others, other
        ratio, length = (here.J - J) / fall, float(np.abs(d).max())
        if ratio < 0.25:
            radius = 0.25 * min(length, radius)
        elif ratio > 0.75 and length > 0.95 * radius:
            radius *= 2.0
        if not ratio > 1e-4:
            continue
        new = np.clip(y + d, low, high)
        try:
            there = problem.at(new)
        except Diverged:  # a step can be singular where the run reaches its end
            radius = 0.25 * min(length, radius)
            continue
        miss = there.g + there.A.T @ multipliers - here.g - here.A.T @ multipliers
        more = _learnt(more, new - y, miss - there.B @ (new - y))
        if _FALLS * size < here.J - J:
            more = np.zeros_like(more)
        y, here = new, there
    return y, Solve.ITERATION_LIMIT


def resting_gradient(here: Kinked, bounds: tuple[Array, Array]) -> tuple[Array, float]:
    """Gradient of J with the multipliers of kinks that the model has within bounds of the step,
    zero at a minimum but where bounds hold it; and by how much the model falls."""
    d, multipliers = _step(here._replace(B=_convex(here.B)), bounds)
    return here.g + here.A.T @ multipliers, here.fall(d)


def _learnt(more: Array, s: Array, miss: Array) -> Array:
    """Curvature that makes up for what gradients miss after a step (Powell 1970)."""
    length = np.linalg.norm(s)
    if not length > 0.0:
        return more
    along, gap = s / length, (miss - more @ s) / length
    gain = np.outer(gap, along)
    return more + gain + gain.T - (along @ gap) * np.outer(along, along)


def _convex(matrix: Array) -> Array:
    """Matrix without negative curvature."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _step(model: Kinked, box: tuple[Array, Array]) -> tuple[Array, Array]:
    """Step d (n,) that minimises the model within a box, and the multipliers of e + A d (k,), of
    size w at most; unknowns whose bounds meet stay."""
    low, high = box
    free = high > low
    d, w = np.zeros(len(low)), model.w
    if not free.any():
        return d, w * np.sign(model.e)
    part = model._replace(g=model.g[free], B=model.B[np.ix_(free, free)], A=model.A[:, free])
    d[free], multipliers = _Interior(part, low[free], high[free]).solved()
    return np.clip(d, low, high), multipliers


class _Interior:
    """Primal-dual interior-point method (Mehrotra 1992, SIAM Journal on Optimization 2:575) for the
    step: e + A d = p - m with p, m >= 0 and multipliers w - v, w + v >= 0; d - low, high - d >= 0
    with multipliers. Slacks and their multipliers are rows of pairs that are positive."""

    def __init__(self, model: Kinked, low: Array, high: Array) -> None:
        self.model, self.low, self.high = model, low, high
        k, n = model.A.shape
        self.d = 0.5 * (low + high)
        e = model.e + model.A @ self.d
        apart = 0.1 * (float(np.median(np.abs(model.e))) if k else 0.0) + 1e-8
        self.v = np.zeros(k)
        # slacks p, m, d - low, high - d, and their multipliers
        self.s = np.concatenate(
            [np.maximum(e, 0.0) + apart, np.maximum(-e, 0.0) + apart, self.d - low, high - self.d]
        )
        self.z = np.concatenate([model.w, model.w, np.full(2 * n, 1.0)])
        self.z[2 * k :] = max(float(np.abs(model.g).max()), float(model.w.sum()), 1e-300) / max(
            n, 1
        )
        self.parts = np.cumsum([k, k, n])

    def solved(self) -> tuple[Array, Array]:
        """Step and multipliers."""
        best = np.inf
        for _ in range(_INNER):
            gap = float(self.s @ self.z)
            size = float(self.model.w @ np.abs(self.model.e)) + abs(self.model.J) + 1e-300
            if gap <= _CLOSED * size or not gap < 1e3 * best:
                break
            best = min(best, gap)
            mu = gap / len(self.s)
            self._factorise()
            ds, dz, *_ = self._direction(-self.s * self.z)
            a, b = _reach(self.s, ds), _reach(self.z, dz)
            left = float((self.s + a * ds) @ (self.z + b * dz)) / len(self.s)
            target = mu * min(1.0, left / mu) ** 3
            ds, dz, dd, dv = self._direction(target - self.s * self.z - ds * dz)
            a, b = _INSIDE * _reach(self.s, ds), _INSIDE * _reach(self.z, dz)
            a, b = min(a, 1.0), min(b, 1.0)
            a = b = min(a, b)
            self.s += a * ds
            self.d += a * dd
            self.z += b * dz
            self.v += b * dv
        return self.d, self.v

    def _factorise(self) -> None:
        ratio = self.s / self.z
        p, m, below, above = np.split(ratio, self.parts)
        self.soft = 1.0 / (p + m)
        matrix = self.model.B + (self.model.A.T * self.soft) @ self.model.A
        matrix[np.diag_indices_from(matrix)] += 1.0 / below + 1.0 / above
        self.scale = 1.0 / np.sqrt(np.diag(matrix))
        unit, shift = self.scale[:, None] * matrix * self.scale, 0.0
        while True:
            try:
                self.factors = cho_factor(unit + shift * np.eye(len(unit)))
                return
            except np.linalg.LinAlgError:
                shift = max(_SHIFT, 10.0 * shift)

    def _direction(self, centre: Array) -> tuple[Array, Array, Array, Array]:
        """Newton's direction to products of slacks and multipliers that change by `centre`."""
        model, (p, m, below, above) = self.model, np.split(self.s, self.parts)
        zp, zm, zb, za = np.split(self.z, self.parts)
        cp, cm, cb, ca = np.split(centre, self.parts)
        # zp = w - v and zm = w + v, as they are now or not yet
        fp, fm = model.w - self.v - zp, model.w + self.v - zm
        off = model.e + model.A @ self.d - p + m
        fb, fa = self.d - self.low - below, self.high - self.d - above
        dual = model.g + model.B @ self.d + model.A.T @ self.v - zb + za
        # dp = (cp - p dzp)/zp with dzp = fp - dv; dm = (cm - m dzm)/zm with dzm = fm + dv
        known = off - (cp - p * fp) / zp + (cm - m * fm) / zm
        side = -dual - model.A.T @ (self.soft * known)
        side += (cb - zb * fb) / below - (ca - za * fa) / above
        dd = self.scale * cho_solve(self.factors, self.scale * side)
        dv = self.soft * (model.A @ dd + known)
        dzp, dzm = fp - dv, fm + dv
        dp, dm = (cp - p * dzp) / zp, (cm - m * dzm) / zm
        db, da = dd + fb, fa - dd
        dzb, dza = (cb - zb * db) / below, (ca - za * da) / above
        slacks, forces = np.concatenate([dp, dm, db, da]), np.concatenate([dzp, dzm, dzb, dza])
        return slacks, forces, dd, dv


def _reach(values: Array, change: Array) -> float:
    """Share of a change up to which positive values stay so, at most a little more than 1."""
    falls = change < 0.0
    return float(np.min(-values[falls] / change[falls], initial=1.0 / _INSIDE))
