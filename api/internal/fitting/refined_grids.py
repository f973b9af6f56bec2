"""Refined grids: nodes placed by the discretisation error of a solution."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.scaling import TOLERANCE
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.nlp.bounds import nodes_at
from kinesym.runtime.results.grid_error import GridError
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.signals.experiment import Experiment

#: Factor by which an interval shrinks in one round, at most.
_SHRINK = 8.0
#: Factor by which an interval grows in one round, at most.
_GROW = 4.0
#: Ratio of neighbouring intervals, at most.
_NEXT = 2.0
#: Factor by which the number of intervals grows in one round, at most.
_MORE = 4.0
#: The share of the tolerance that a new grid aims at.
_SAFETY = 0.3
#: Error of an interval that is rounding, relative to the mean over intervals.
_ROUNDING = 1e-6
#: Share of the error that the barrier of IPOPT must leave to be named as its reason.
_BARRIER = 0.3
#: Order of a scheme from which on a higher one is not advised.
_HIGH = 5
#: Nodes, in those of the start, from which on a scheme of higher order is advised.
_MANY = 10


def refined_trials(
    trials: Sequence[Experiment],
    error: GridError,
    order: int,
    tolerance: float,
    instants: Sequence[float] = (),
) -> list[Experiment]:
    """The trials on grids on which the largest relative shift should be `tolerance`.

    Local errors are equidistributed: with m_i intervals in place of the interval i, whose local
    error is e_i, the total error sum e_i m_i^-order is reached with the fewest intervals if m_i is
    proportional to e_i^(1 / (order + 1)) (Betts 2010, Practical Methods for Optimal Control and
    Estimation, section 4.7). Nodes with a measurement
    stay, and those at `instants`.
    """
    local, largest = error.relative_defects, error.largest
    # a quadrature may be wrong where states are exact up to rounding, which tells no place
    local = np.maximum(local, max(1e-16, _ROUNDING * largest / len(local)))
    if not np.isfinite([*local, largest]).all():
        return [trial.refined(2) for trial in trials]
    aim = _SAFETY * tolerance * (local.sum() / largest if largest > 0.0 else 1.0)
    share = local ** (1.0 / (order + 1))
    parts = share * (share.sum() / aim) ** (1.0 / order)
    parts *= min(1.0, _MORE * len(parts) / parts.sum())
    parts = np.clip(parts, 1.0 / _GROW, _SHRINK)
    return [
        trial.on_grid(_graded(trial.grid, parts[error.trial == k], kept_nodes(trial, instants)))
        for k, trial in enumerate(trials)
    ]


def stepped_trials(trials: Sequence[Experiment], ends: Sequence[Array]) -> list[Experiment]:
    """The trials on grids with as many intervals in place of each as there are steps in it, which
    end at these times (S,), of each trial.

    Nodes at the ends of steps themselves were worse: these grow so fast after a start that schemes
    of lower order do not follow.
    """
    made = []
    for trial, own in zip(trials, ends, strict=True):
        steps = np.interp(trial.grid, own, np.arange(len(own)))
        grid = _graded(trial.grid, np.maximum(np.diff(steps), 1.0), np.ones(len(steps), bool))
        made.append(trial.on_grid(grid))
    return made


def no_longer_falls(solution: Solution, bounds: tuple[Array, Array], options: SolverOptions) -> str:
    """Reason why finer grids do not help a solution; bounds : of its free vector."""
    tolerance = options.options.get("tol", TOLERANCE)
    if _barrier(solution, bounds) > _BARRIER * solution.grid_error().largest:
        return (
            "on finer grids it no longer falls, IPOPT stops as far from the bounds: use a smaller "
            f"tolerance than {tolerance:g}"
        )
    return "on finer grids it no longer falls: ask for less, or use another scheme"


def _barrier(solution: Solution, bounds: tuple[Array, Array]) -> float:
    """Complementarity gap of a solution relative to the scale of its objective: sum of products of
    multipliers and distances to bounds (Nocedal, Wright 2006, Numerical Optimization, section
    19.3)."""
    z, push = solution.free_vector, solution.lower_multipliers - solution.upper_multipliers
    distance = np.where(push > 0.0, z - bounds[0], bounds[1] - z)
    gap = np.abs(push * np.where(np.isfinite(distance), distance, 0.0)).sum()
    scale = solution.grid_error().objective_scale
    return float(gap / scale) if scale else 0.0


def too_many_nodes(wanted: int, most: int, order: int) -> str:
    """Reason why refinement ends before a grid of so many nodes."""
    better = " or use a scheme of higher order" if order < _HIGH else ""
    return f"the next grid has {wanted} nodes, more than max_nodes={most}: allow more{better}"


def many_nodes(nodes: int, before: int, order: int) -> list[str]:
    """A sentence on a grid that has become large because a scheme is of low order."""
    if order >= _HIGH or nodes <= _MANY * before:
        return []
    return [f"{nodes} nodes were needed: scheme='radau-5' needs far fewer for such errors"]


def kept_nodes(trial: Experiment, instants: Sequence[float]) -> NDArray[np.bool_]:
    """Nodes (N,) that stay: ends, samples, where a held signal jumps or a bound bends, and at these
    times; all if intervals hold samples, as they cannot hold more."""
    keep = np.zeros(trial.n_nodes, dtype=bool)
    keep[[0, -1]] = True
    keep |= bool(trial.timed)
    for samples in trial.measurements.values():
        keep |= np.isfinite(samples)
    for name in trial.held:
        keep[1:] |= np.diff(trial.inputs[name]) != 0.0
    corners = (bound.corners for rows in trial.bounds.values() for bound in rows)
    return keep | nodes_at(trial.grid, np.concatenate([np.array(instants), *corners]))


def _graded(grid: Array, parts: Array, keep: NDArray[np.bool_]) -> Array:
    """A grid with as many intervals in place of each as `parts` (N - 1,) says, smoothly."""
    density = parts / np.diff(grid)
    for k in range(1, len(density)):  # no interval much longer than its neighbours
        density[k] = max(density[k], density[k - 1] / _NEXT)
    for k in range(len(density) - 2, -1, -1):
        density[k] = max(density[k], density[k + 1] / _NEXT)
    whole = np.append(0.0, np.cumsum(density * np.diff(grid)))
    fixed = np.flatnonzero(keep)
    pieces = []
    for first, last in pairwise(fixed):
        count = max(1, int(np.ceil(whole[last] - whole[first] - 1e-9)))
        wanted = np.linspace(whole[first], whole[last], count + 1)[:-1]
        piece = np.interp(wanted, whole, grid)
        piece[0] = grid[first]
        pieces.append(piece)
    return np.concatenate([*pieces, grid[-1:]])
