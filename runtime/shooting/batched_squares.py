"""Batched nonlinear least squares within bounds: few unknowns, many starts at once.

Each start steps to the minimum of a quadratic model of J within a trust region and the bounds. The
model is that of Gauss and Newton, or adds the curvature of the residuals by secants of the
gradient, whichever has told better what the last step does to J, as in NL2SOL (Dennis, Gay, Welsch
1981, ACM Transactions on Mathematical Software 7:348). The same serves likelihoods, with Fisher's
information in place of the matrix of Gauss and Newton. Long steps bend with the valley that they
follow, where the second-order change of residuals is known. Starts are independent, except that
those that fall behind are stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import steps_aside, trust_steps
from kinesym.runtime.results.fit import Step
from kinesym.runtime.status import Solve

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

#: A share of J by which a step may lower it where rounding is larger.
_NEARLY = 1e-9
#: The shortest step, as a share of the unknowns.
_SHORTEST = 1e-10
#: Iterations in a row after which what measurements do not tell ends a start.
_PATIENCE = 20
#: Length of the first steps, in units of the unknowns or of their logarithms.
_FIRST = 1.0
#: Share of the trust radius from which a step is as long as that.
_FULL = 0.9
#: Share of a step over which the second-order change of residuals is seen.
_SHORT = 0.1
#: Largest step aside that makes up for it, as a share of the step.
_ASIDE = 0.75
#: What it changes in J, as a share of what the step does, below which steps count as straight.
_STRAIGHT = 0.1
#: Iterations between two looks at hopeless starts.
_LOOK = 10
#: Iterations before the first look.
_FAIR = 30
#: Cosine of a step and the change of its gradient above which J is a bowl along it.
_FLAT = 1e-8

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

    squares : of points (M, n) of the starts with these numbers (M,); where J does not fall, its
    derivatives are not looked at. bounds : (S, n) each. rounding : size of a J that is none.
    level : least size of a J of which shares are taken, of a likelihood, which may be of any sign.
    rest : share of J by which a step may still lower it at the end. noise : what measurements do
    not tell of J, and as a share of it. change : of points (M, n) of the starts with these numbers
    2 r'^T times the change of r from their iterates, where r' are its derivatives (M, n), NaN
    without a value; None where that is not known."""

    squares: Callable[[Rows, Array], Squares]
    bounds: tuple[Array, Array]
    rounding: float
    level: float = 0.0
    rest: float = 1e-11
    noise: tuple[float, float] = (0.0, 0.0)
    change: Callable[[Rows, Array], Array] | None = None

    def told(self, J: Array) -> Array:
        """Least decrease of J that measurements tell."""
        return np.maximum(self.noise[0], self.noise[1] * np.abs(J))

    def share(self, J: Array) -> Array:
        """Size of J, of which shares are taken."""
        return np.maximum(np.abs(J), self.level)


@dataclass
class Iterates:
    """Iterates of all starts: y (S, n), J, its gradient, its matrix of Gauss and Newton, what that
    lacks by secants and whether the model uses it, trust radius, full step of Gauss and Newton
    within the bounds, decrease of J that is left by the models, iterations in a row in which
    measurements do not tell it, J at the last look, J where the models began anew and its decrease
    that secants told there, what bending a step changes in J by the fourth power of its length,
    four times as much with each iteration since it was looked at, and the status, "" while it
    runs. trace : numbers, J and y of those that moved, by iteration."""

    y: Array
    cost: Array
    gradient: Array
    bend: Array
    lack: Array
    uses: Flags
    radius: Array
    full: Array
    left: Array
    idle: NDArray[np.intp]
    seen: Array
    begun: Array
    bent: Array
    curve: Array
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
    return Iterates(
        y=y,
        cost=first.cost,
        gradient=first.gradient,
        bend=first.bend,
        lack=np.zeros_like(first.bend),
        uses=np.zeros(len(y), dtype=bool),
        radius=np.full(len(y), _FIRST),
        full=np.zeros_like(y),
        left=np.full(len(y), np.inf),
        idle=np.zeros(len(y), dtype=np.intp),
        seen=first.cost.copy(),
        begun=np.full(len(y), np.inf),
        bent=np.full(len(y), np.inf),
        curve=np.full(len(y), np.inf),
        iterations=np.zeros(len(y), dtype=np.intp),
        status=["" if np.isfinite(J) else str(Solve.NOT_FINITE) for J in first.cost],
        trace=[(every, first.cost.copy(), y.copy())],
    )


def _iterated(problem: Problem, now: Iterates, rows: Rows) -> None:
    """Iterate these starts once, unless they have converged."""
    y, J = now.y[rows], now.cost[rows]
    model = now.bend[rows] + now.uses[rows, None, None] * now.lack[rows]
    step, expected = _steps(problem, now, rows, model, now.radius[rows])
    now.left[rows] = np.inf
    near = expected <= np.maximum(problem.told(J), _NEARLY * problem.share(J))
    if near.any():
        which = rows[near]
        full, left = _steps(problem, now, which, now.bend[which], np.full(len(which), np.inf))
        left = np.where(left >= 0.0, left, np.inf)
        now.full[which], now.left[which] = full, np.maximum(left, expected[near])
    on = ~_ended(problem, now, rows)
    if not on.any():
        return
    rows, [y, J, step, expected, model] = (
        rows[on],
        [part[on] for part in (y, J, step, expected, model)],
    )
    new, length = _along_bend(problem, now, rows, step, model, expected)
    step, found = new - y, problem.squares(rows, new)
    fall = J - found.cost
    better = fall > 0.0
    _resize(now, rows, length, fall / np.where(expected > 0.0, expected, np.inf), better)
    _choose(now, rows, step, fall)
    now.iterations[rows] += 1
    _end_short(problem, now, rows[~better])
    _moved(now, rows[better], new[better], step[better], Squares(*(f[better] for f in found)))


def _ended(problem: Problem, now: Iterates, rows: Rows) -> Flags:
    """End the starts that no step would lower any more, or for long by nothing that measurements
    tell; which these are."""
    J, left = now.cost[rows], now.left[rows]
    now.idle[rows] = np.where(left <= problem.told(J), now.idle[rows] + 1, 0)
    share = problem.share(J)
    done = (left <= problem.rest * share) | (share <= problem.rounding)
    flat = now.idle[rows] >= _PATIENCE
    for k in np.flatnonzero(done | flat):
        now.status[rows[k]] = str(Solve.CONVERGED if done[k] else Solve.FLAT)
    return np.asarray(done | flat)


def _steps(
    problem: Problem, now: Iterates, rows: Rows, matrix: Array, radius: Array
) -> tuple[Array, Array]:
    """Steps (M, n) to the minimum of quadratic models with these matrices, within trust radius and
    bounds, and the decrease (M,) that the models predict."""
    low, high = (side[rows] - now.y[rows] for side in problem.bounds)
    return trust_steps(now.gradient[rows], low, high, matrix, radius)


def _along_bend(
    problem: Problem, now: Iterates, rows: Rows, step: Array, model: Array, expected: Array
) -> tuple[Array, Array]:
    """Points (M, n) that steps lead to, and the lengths (M,) of these. Those to the trust radius
    follow the valley: beside the step, they undo the second-order change of r along it, by a
    difference over a short one (Transtrum, Sethna 2012, arXiv:1201.5885). Where that is large, or
    where r has no value, points of the step. Where it has mattered little of late, beside the
    decrease of J that is `expected`, it is seldom looked at."""
    y, (low, high) = now.y[rows], [side[rows] for side in problem.bounds]
    new = np.clip(y + step, low, high)
    length = np.linalg.norm(step, axis=1)
    long = length >= _FULL * now.radius[rows]
    with np.errstate(invalid="ignore"):  # steps of no length
        long &= now.curve[rows] * length**4 >= _STRAIGHT * expected
    now.curve[rows] *= 4.0
    if problem.change is None or not long.any():
        return new, length
    on, step, model = np.flatnonzero(long), step[long], model[long]
    free = (new[on] > low[on]) & (new[on] < high[on])
    change = problem.change(rows[on], np.clip(y[on] + _SHORT * step, low[on], high[on]))
    bend = change - _SHORT * np.einsum("kij,kj->ki", now.bend[rows[on]], step)
    aside = steps_aside(now.gradient[rows[on]], model, free, step, bend / _SHORT**2)
    energy = 0.5 * np.abs(np.einsum("ki,kij,kj->k", aside, model, aside))
    now.curve[rows[on]] = np.where(np.isfinite(energy), energy / length[on] ** 4, np.inf)
    small = np.linalg.norm(aside, axis=1) <= _ASIDE * np.linalg.norm(step, axis=1)
    new[on] = np.where(small[:, None], np.clip(new[on] + aside, low[on], high[on]), new[on])
    return new, length


def _resize(now: Iterates, rows: Rows, length: Array, ratio: Array, better: Flags) -> None:
    """Update the trust radius after a step of a length that has lowered J by `ratio` times the
    prediction."""
    radius = now.radius[rows]
    poor, full = ~better | ~(ratio >= 0.25), (ratio > 0.75) & (length > _FULL * radius)
    now.radius[rows] = np.where(poor, 0.25 * length, np.where(full, 2.0 * radius, radius))


def _choose(now: Iterates, rows: Rows, step: Array, fall: Array) -> None:
    """Choose the model, with secants or without, that has told better by how much J falls."""
    gauss, more = (
        0.5 * np.einsum("ki,kij,kj->k", step, A[rows], step) for A in (now.bend, now.lack)
    )
    told = -np.einsum("ki,ki->k", now.gradient[rows], step) - gauss
    better = np.abs(told - more - fall) < np.abs(told - fall)
    now.uses[rows] = np.where(np.isfinite(fall) & (more != 0.0), better, now.uses[rows])


def _end_short(problem: Problem, now: Iterates, rows: Rows) -> None:
    """End starts of which no step lowers J any more, where the models say that none would, or the
    shortest does not either: once with models that begin anew, and secants may know the
    curvature."""
    if not len(rows):
        return
    J, left = now.cost[rows], now.left[rows]
    least = _NEARLY * problem.share(J)
    short = now.radius[rows] <= _SHORTEST * (1.0 + np.linalg.norm(now.y[rows], axis=1))
    ends = short | (left <= least)
    anew = ends & (now.begun[rows] - J > least)
    on = rows[anew]
    if len(on):
        matrix = now.bend[on] + now.lack[on]
        bent = _steps(problem, now, on, matrix, np.full(len(on), np.inf))[1]
        now.bent[on] = np.where(bent >= 0.0, bent, np.inf)
        now.lack[on], now.uses[on], now.radius[on], now.begun[on] = 0.0, False, _FIRST, J[anew]
    left = np.where(short, np.minimum(left, now.bent[rows]), left)
    for k in np.flatnonzero(ends & ~anew):
        now.status[rows[k]] = str(Solve.CONVERGED if left[k] <= least[k] else Solve.SMALL_STEP)


def _moved(now: Iterates, rows: Rows, y: Array, step: Array, found: Squares) -> None:
    """Set the next iterates; the secants of what their matrices lack first shrink to the size that
    the last step shows."""
    if not len(rows):
        return
    change = found.gradient - now.gradient[rows]
    lacks = change - np.einsum("kij,kj->ki", found.bend, step)
    seen = np.abs(np.einsum("ki,kij,kj->k", step, now.lack[rows], step))
    shown = np.abs((step * lacks).sum(axis=1))
    lack = (
        now.lack[rows] * np.minimum(1.0, shown / np.where(seen > 0.0, seen, np.inf))[:, None, None]
    )
    bowl = (change * step).sum(axis=1) > _FLAT * np.linalg.norm(change, axis=1) * np.linalg.norm(
        step, axis=1
    )
    along = np.where(bowl[:, None], change, step)
    along = along / (along * step).sum(axis=1)[:, None]
    miss = lacks - np.einsum("kij,kj->ki", lack, step)
    gain = miss[:, :, None] * along[:, None, :]
    twice = (miss * step).sum(axis=1)[:, None, None] * along[:, :, None] * along[:, None, :]
    now.lack[rows] = lack + gain + gain.swapaxes(1, 2) - twice
    now.bend[rows], now.gradient[rows], now.cost[rows] = found.bend, found.gradient, found.cost
    now.y[rows] = y
    now.trace.append((rows, found.cost, y))


def _stop_behind(now: Iterates, iteration: int, limit: int) -> None:
    """Stop starts that would stay above the lowest J of all, even if theirs fell in all remaining
    iterations as fast as in the last ones."""
    rows, best = now.running, now.cost.min()
    J, fall = now.cost[rows], (now.seen[rows] - now.cost[rows]) / _LOOK
    now.seen = now.cost.copy()
    if iteration >= _FAIR:
        for k in rows[J - (limit - iteration) * fall > best + _NEARLY * abs(best)]:
            now.status[k] = BEHIND
