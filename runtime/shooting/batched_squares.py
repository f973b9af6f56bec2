"""Batched nonlinear least squares within bounds: few unknowns, many starts at once.

Each start makes Gauss-Newton steps within a trust region. If residuals stay large, the Gauss-Newton
matrix lacks their curvature, which is approximated by secants of the gradient, as in NL2SOL
(Dennis, Gay, Welsch 1981, ACM Transactions on Mathematical Software 7:348), here by the symmetric
formula of Powell (1970), which divides by nothing small. Secants are used after a step that lowers
J by less than a fifth (Fletcher and Xu 1987, IMA Journal of Numerical Analysis 7:371). Bounds are
kept by projection. Starts are independent, except that those that fall behind are stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.fit import Step
from kinesym.runtime.status import Solve

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

#: Share of J by which a step may still lower it at the end.
_REST = 1e-11
#: Share of J of a model that says zero, by which a step may still lower J at the end.
_ROUNDING = 1e-20
#: A share of J by which a step may lower it where steps are as small as rounding.
_NEARLY = 1e-7
#: The shortest step, as a share of the unknowns.
_SHORTEST = 1e-14
#: A step that lowers J by this share keeps the matrix of Gauss and Newton.
_FALLS = 0.2
#: Iterations between two looks at hopeless starts.
_LOOK = 10
#: Iterations before the first look.
_FAIR = 30
#: Share of the largest eigenvalue that counts as none.
_SINGULAR = 1e-14
#: Share below which secants speak, where squares of straight residuals may be flat.
_FLAT = 1e-8
#: Newton's iterations for the length of a step.
_LENGTHS = 8

#: How a start ends that cannot win.
BEHIND = "stopped: behind the best"


class Squares(NamedTuple):
    """Sums of squares at M points: J (M,), infinite where it has no value; its gradient (M, n); the
    Gauss-Newton matrix (M, n, n), 2 r' r'^T."""

    cost: Array
    gradient: Array
    bend: Array


class Problem(NamedTuple):
    """Batched least-squares problem.

    squares : of points (M, n) of the starts with these numbers (M,). bounds : (S, n) each. size : J
    of a model whose values are zero. level : least size of a J of which shares are taken, of a
    likelihood, which may be of any sign."""

    squares: Callable[[Rows, Array], Squares]
    bounds: tuple[Array, Array]
    size: float
    level: float = 0.0

    def share(self, J: Array) -> Array:
        """Size of J, of which shares are taken."""
        return np.maximum(np.abs(J), self.level)


@dataclass
class Iterates:
    """Iterates of all starts: y (S, n), J, its gradient, its matrix with secants and without, trust
    radius and length of the last step, J at the last look, and the status, "" while it runs. trace
    : numbers, J and y of those that moved, by iteration."""

    y: Array
    cost: Array
    gradient: Array
    matrix: Array
    bend: Array
    radius: Array
    last: Array
    seen: Array
    iterations: NDArray[np.intp]
    status: list[str]
    trace: list[tuple[Rows, Array, Array]] = field(default_factory=list)

    @property
    def running(self) -> Rows:
        """Numbers of the running starts."""
        return np.array([k for k, s in enumerate(self.status) if not s], dtype=np.intp)

    def history(self, start: int) -> list[Step]:
        """Iterates of a start, the final one last."""
        return [
            Step(float(cost[k]), y[k])
            for rows, cost, y in self.trace
            for k in np.flatnonzero(rows == start)
        ]


def minimised(
    problem: Problem, y: Array, limit: int, ended: Callable[[Sequence[int], Iterates], None]
) -> Iterates:
    """Minimise from starts y (S, n), within bounds; returns the final iterates. After Ctrl-C
    running starts have no status. ended : callback with the starts that have just ended."""
    now = _begun(problem, y)
    try:
        ended([k for k, status in enumerate(now.status) if status], now)
        for k in range(1, limit + 1):
            rows = now.running
            if not len(rows):
                return now
            _iterated(problem, now, rows)
            if k % _LOOK == 0:
                _stop_behind(now, k, limit)
            ended([row for row in rows if now.status[row]], now)
        rows = now.running
        for row in rows:
            now.status[row] = str(Solve.ITERATION_LIMIT)
        ended([*rows], now)
    except KeyboardInterrupt:
        pass
    return now


def _begun(problem: Problem, y: Array) -> Iterates:
    """Iterates at the starts."""
    every = np.arange(len(y))
    y = np.clip(y, *problem.bounds)
    first = problem.squares(every, y)
    length = np.linalg.norm(y, axis=1)
    return Iterates(
        y=y,
        cost=first.cost,
        gradient=first.gradient,
        matrix=first.bend.copy(),
        bend=first.bend,
        radius=np.where(length > 0.0, length, 1.0),
        last=np.full(len(y), np.inf),
        seen=first.cost.copy(),
        iterations=np.zeros(len(y), dtype=np.intp),
        status=["" if np.isfinite(J) else str(Solve.NOT_FINITE) for J in first.cost],
        trace=[(every, first.cost.copy(), y.copy())],
    )


def _iterated(problem: Problem, now: Iterates, rows: Rows) -> None:
    """Iterate these starts once, unless they have converged."""
    low, high = (side[rows] for side in problem.bounds)
    y, J, g = now.y[rows], now.cost[rows], now.gradient[rows]
    free = ~(((y <= low) & (g > 0.0)) | ((y >= high) & (g < 0.0)))
    steps, left = _steps(problem, now, rows, np.where(free, g, 0.0), free)
    done = left <= _REST * problem.share(J) + _ROUNDING * problem.size
    for k in np.flatnonzero(done):
        now.status[rows[k]] = str(Solve.CONVERGED)
    on = ~done
    rows, [y, J, g, left, steps] = rows[on], [part[on] for part in (y, J, g, left, steps)]
    if not len(rows):
        return
    new = np.clip(y + steps, low[on], high[on])
    step, found = new - y, problem.squares(rows, new)
    bent = np.einsum("kij,kj->ki", now.matrix[rows], step)
    expected = -np.einsum("ki,ki->k", g + 0.5 * bent, step)
    better = (found.cost < J) & (expected > 0.0)
    _resize(now, rows, step, (J - found.cost) / np.where(expected > 0.0, expected, np.inf), better)
    now.iterations[rows] += 1
    _end_short(problem, now, rows[~better], left[~better])
    _moved(
        problem, now, rows[better], new[better], step[better], Squares(*(f[better] for f in found))
    )


def _steps(
    problem: Problem, now: Iterates, rows: Rows, g: Array, free: Flags
) -> tuple[Array, Array]:
    """Trust-region steps (M, n) of the free unknowns, and the predicted decrease of J by full
    steps, (M,), with secants or without, whichever is larger; for negative curvature by the step
    itself."""
    values, vectors = _axes(now.matrix[rows], free)
    along = np.einsum("kij,ki->kj", vectors, g)
    bowl = values[:, 0] > 0.0  # else J bends downwards
    radius = np.where(bowl, now.radius[rows], np.minimum(now.radius[rows], 4.0 * now.last[rows]))
    lengths = _lengths(along, values, radius)
    here = (along * lengths - 0.5 * values * lengths**2).sum(axis=1)
    left = np.where(bowl, _fall(along, values, _SINGULAR), here)
    near = np.flatnonzero(left <= _NEARLY * problem.share(now.cost[rows]))
    if len(near):
        plain, axes = _axes(now.bend[rows[near]], free[near])
        slopes = np.einsum("kij,ki->kj", axes, g[near])
        left[near] = np.maximum(left[near], _fall(slopes, plain, _FLAT))
    return -np.einsum("kij,kj->ki", vectors, lengths), left


def _fall(along: Array, values: Array, least: float) -> Array:
    """Decrease of J to the minimum of its quadratic model, from slopes along its axes; eigenvalues
    are at least this share of the largest."""
    floor = least * values[:, -1:] + np.finfo(float).tiny
    return np.asarray(0.5 * (along**2 / np.maximum(values, floor)).sum(axis=1))


def _axes(matrix: Array, free: Flags) -> tuple[Array, Array]:
    """Eigenvalues, in ascending order, and eigenvectors of the matrix in the free unknowns; others
    are fixed."""
    both = free[:, :, None] & free[:, None, :]
    largest = np.abs(np.einsum("kii->ki", matrix)).max(axis=1)
    fixed = ~free[:, :, None] * np.eye(free.shape[1]) * largest[:, None, None]
    values, vectors = np.linalg.eigh(np.where(both, matrix, 0.0) + fixed)
    return values, vectors


def _lengths(along: Array, values: Array, radius: Array) -> Array:
    """Minus the trust-region step along each axis: eigenvalues are shifted so that a longer step
    has the length of the radius, or if the curvature is negative (More, Sorensen 1983, SIAM Journal
    on Scientific and Statistical Computing 4:553)."""
    least = _SINGULAR * np.abs(values).max(axis=1) + np.finfo(float).tiny
    shift = np.maximum(0.0, least - 1.001 * values[:, 0])
    step = along / (values + shift[:, None])
    for _ in range(_LENGTHS):
        length = np.linalg.norm(step, axis=1)
        long = length > (1.0 + 1e-3) * radius
        if not long.any():
            break
        slope = (step**2 / (values + shift[:, None])).sum(axis=1)
        more = (length / radius - 1.0) * length**2 / np.where(long, slope, 1.0)
        shift = np.where(long, shift + more, shift)
        step = along / (values + shift[:, None])
    return step


def _resize(now: Iterates, rows: Rows, step: Array, ratio: Array, better: Flags) -> None:
    """Update the trust radius after a step that has lowered J by `ratio` times the prediction."""
    length, radius = np.linalg.norm(step, axis=1), now.radius[rows]
    poor, full = ~better | ~(ratio >= 0.25), (ratio > 0.75) & (length > 0.95 * radius)
    now.radius[rows] = np.where(poor, 0.25 * length, np.where(full, 2.0 * radius, radius))


def _end_short(problem: Problem, now: Iterates, rows: Rows, left: Array) -> None:
    """End starts of which no step lowers J any more, at a minimum because of rounding."""
    short = now.radius[rows] <= _SHORTEST * (1.0 + np.linalg.norm(now.y[rows], axis=1))
    for k, rest in zip(rows[short], left[short], strict=True):
        nearly = rest <= _NEARLY * problem.share(now.cost[k])
        now.status[k] = str(Solve.CONVERGED if nearly else Solve.SMALL_STEP)


def _moved(
    problem: Problem, now: Iterates, rows: Rows, y: Array, step: Array, found: Squares
) -> None:
    """Set the next iterates, with their matrices."""
    base = found.bend + now.matrix[rows] - now.bend[rows]
    miss = found.gradient - now.gradient[rows] - np.einsum("kij,kj->ki", base, step)
    length = np.linalg.norm(step, axis=1)
    along, miss = step / length[:, None], miss / length[:, None]
    gain = miss[:, :, None] * along[:, None, :]
    twice = np.einsum("kii->k", gain)[:, None, None] * along[:, :, None] * along[:, None, :]
    gain = gain + gain.swapaxes(1, 2) - twice
    J = now.cost[rows]
    steady = J - found.cost < _FALLS * problem.share(J)
    now.matrix[rows] = np.where(steady[:, None, None], base + gain, found.bend)
    now.bend[rows], now.gradient[rows], now.cost[rows] = found.bend, found.gradient, found.cost
    now.y[rows], now.last[rows] = y, length
    now.trace.append((rows, found.cost, y))


def _stop_behind(now: Iterates, iteration: int, limit: int) -> None:
    """Stop starts that would stay above the lowest J of all, even if theirs fell in all remaining
    iterations as fast as in the last ones."""
    rows, best = now.running, now.cost.min()
    J, fall = now.cost[rows], (now.seen[rows] - now.cost[rows]) / _LOOK
    now.seen = now.cost.copy()
    if iteration >= _FAIR:
        for k in rows[J - (limit - iteration) * fall > best]:
            now.status[k] = BEHIND
