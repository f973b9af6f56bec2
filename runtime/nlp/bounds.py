"""Bounds of the variables and constraints of a nonlinear program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.signals.corridor import check_order
from kinesym.runtime.signals.experiment import Experiment

#: The times at which what always holds does.
ALWAYS = (-np.inf, np.inf)
#: Share of the duration by which times may differ by rounding.
_ROUNDING = 1e-9


class Limits(NamedTuple):
    """Bounds of a condition. span : of the times at which it holds. place : of its points within
    intervals, as a share; nodes with 0."""

    low: float
    high: float
    span: tuple[float, float] = ALWAYS
    place: float = 0.0

    def holds(self, grid: Array) -> NDArray[np.bool_]:
        """Points of a grid at which the bound holds, (N,) or, within intervals, (N - 1,)."""
        c, near = self.place, _ROUNDING * (grid[-1] - grid[0])
        times = (1.0 - c) * grid[:-1] + c * grid[1:] if c else grid
        return np.asarray((times >= self.span[0] - near) & (times <= self.span[1] + near))

    def sides(self, grid: Array, n: int) -> tuple[Array, Array]:
        """Bounds at the n points, infinite where it does not hold."""
        held: Any = np.ones(n, bool) if self.span == ALWAYS else self.holds(grid)[:n]
        return np.where(held, self.low, -np.inf), np.where(held, self.high, np.inf)


class RateLimits(NamedTuple):
    """Bounds of the rate (u_(k + 1) - u_k)/h_k of an input with values at nodes.

    rate : the most [1/s]. every : time for which it is constant, from the first node on; it then
    has the rate of one value to the next. held : whether it is constant in each interval, so that
    its last node is in none. split : whether the rate less other inputs is zero. last : whether the
    last node has the value before it.
    """

    rate: float = np.inf
    every: float | None = None
    held: bool = False
    split: bool = False
    last: bool = False

    def sides(self, grid: Array, n: int) -> tuple[Array, Array]:
        """Bounds in the n intervals."""
        most = np.full(n, 0.0 if self.split else self.rate)
        if self.every is not None:
            begins = np.flatnonzero(nodes_at(grid, pieces(grid, self.every)))
            most[:] = 0.0
            k = begins[1:] - 1
            most[k] = self.rate * np.diff(grid[begins]) / (grid[k + 1] - grid[k])
        if self.held or self.last:
            most[-1] = 0.0 if self.last else np.inf
        return -most, most


def pieces(grid: Array, every: float | None) -> Array:
    """Times at which an input may change that is constant for so long, from the first node on."""
    if every is None:
        return grid
    if every >= grid[-1] - grid[0]:
        return grid[:1]
    count = int(np.ceil((grid[-1] - grid[0]) / every * (1.0 - _ROUNDING)))
    return np.asarray(grid[0] + every * np.arange(count))


def nodes_at(grid: Array, times: Array) -> NDArray[np.bool_]:
    """Nodes of a grid (N,) that are at times (n,), but for rounding."""
    near, found = _ROUNDING * (grid[-1] - grid[0]), np.zeros(len(grid), dtype=bool)
    k = np.clip(np.searchsorted(grid, times - near), 0, len(grid) - 1)
    found[k[np.abs(grid[k] - times) <= near]] = True
    return found


class HeldEnd(NamedTuple):
    """The last node of an input that is held between nodes: its place in z, whether a measurement
    or condition is about it there, and whether the objective or an equation determines it."""

    place: int
    used: bool
    determined: bool


def held_ends(nlp: NLP, sides: tuple[Array, Array]) -> dict[tuple[int, str], HeldEnd]:
    """Last nodes of unknown inputs that are held, by trial and name: entry of z, whether anything
    depends on it, and whether it is determined.

    Dependence is detected by nonzero derivatives at a random point. sides : bounds of the
    constraints, (m,) each; those without do not count.
    """
    layout, n = nlp.layout, nlp.n_variables
    names = [name for name in layout.at_nodes if name in layout.held]
    if not names:
        return {}
    rng, (low, high) = np.random.default_rng(0), sides
    equal, counts = low == high, np.isfinite(low) | np.isfinite(high)
    z, multipliers = rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, nlp.n_constraints) * counts
    rows, columns = nlp.hessian_structure.arrays()
    diagonal = rows == columns
    curved, used, idle = np.zeros(n, bool), np.zeros(n, bool), np.zeros(nlp.n_constraints)
    curved[rows[diagonal]] = nlp.hessian(z, idle, 1.0)[diagonal] != 0.0
    of, moved = nlp.jacobian_structure.arrays()
    there = (nlp.jacobian(z) != 0.0) & counts[of]
    of, moved = of[there], moved[there]
    used[moved] = curved[moved[equal[of]]] = True
    there = nlp.hessian(z, multipliers, 1.0) != 0.0
    used[rows[there]] = used[columns[there]] = True
    found = {}
    for trial, (begin, N) in enumerate(zip(layout.offsets, layout.nodes, strict=False)):
        for name in names:
            j = begin + (layout.at_nodes.index(name) + 1) * N - 1
            found[trial, name] = HeldEnd(j, bool(used[j]), bool(curved[j]))
    return found


def variable_bounds(
    layout: Layout,
    trials: Sequence[Experiment],
    bounds: Mapping[str, tuple[float, float]],
    ends: Iterable[HeldEnd] = (),
    every: Mapping[str, float] | None = None,
    absent: NDArray[np.bool_] | None = None,
) -> tuple[Array, Array]:
    """Lower and upper bounds of z from bounds by name, and those of the trials, which may change
    over time. At the last node inputs that are held are fixed, unless they are used there. every :
    of inputs that are constant over several intervals, for how long; the first node of each time
    has the narrowest bounds there, the others none. absent : entries (n,) of phases that lack them,
    where inputs are fixed. Raises `ValueError` where bounds are crossed.
    """
    free = (-np.inf, np.inf)
    sides = []
    for side in (0, 1):
        array = np.empty(layout.n_variables)
        for number in range(len(trials)):
            for name, _, row in layout.named_rows(array, number):
                row[:] = bounds.get(name, free)[side]
        mine = [bounds.get(p, free)[side] for p in layout.owned.members]
        layout.parameter_values(array)[:] = layout.owned.entries(mine)
        if layout.free_duration:
            layout.durations(array)[:] = [t.duration[side] for t in trials if t.duration]
        sides.append(array)
    low, high = sides
    for number, trial in enumerate(trials):
        if trial.bounds or every:
            both = layout.rows(low, number), layout.rows(high, number)
            _narrow(layout, trial, *both)
            _at_first(every or {}, trial.grid, *both)
    check_order(low, high, layout.variable_name)
    fixed = [end.place for end in ends if not end.used]
    for j in (*fixed, *_absent_inputs(layout, absent)):
        low[j] = high[j] = middle(low[j], high[j])
    return low, high


def entries_of(layout: Layout, names: Sequence[Iterable[str]]) -> NDArray[np.bool_]:
    """Entries of z, (n,), that belong to trajectories of these names, by trial."""
    found = np.zeros(layout.n_variables, dtype=bool)
    for number, mine in enumerate(names):
        for name, _, row in layout.named_rows(found, number):
            row[:] = name in mine
    return found


def _absent_inputs(layout: Layout, absent: NDArray[np.bool_] | None) -> Sequence[int]:
    if absent is None or not absent.any():
        return []
    inputs = entries_of(layout, [layout.inputs] * len(layout.nodes))
    return np.flatnonzero(absent & inputs).tolist()


def _narrow(layout: Layout, trial: Experiment, low: Sequence[Any], high: Sequence[Any]) -> None:
    """Moves bounds of a trial, in rows of each block, to those that it has of its own."""
    for (block, below), (_, above) in zip(low, high, strict=True):
        for k, name in enumerate(block.members):
            for mine in trial.bounds.get(name, ()):
                at_nodes = mine.at_nodes(trial.grid, name in layout.held)
                sides = at_nodes if block.place is None else mine.within(trial.grid, block.place)
                below[k] = np.maximum(below[k], sides[0])
                above[k] = np.minimum(above[k], sides[1])


def _at_first(
    every: Mapping[str, float], grid: Array, low: Sequence[Any], high: Sequence[Any]
) -> None:
    """Moves bounds of inputs that are constant over several intervals to the first nodes."""
    for (block, below), (_, above) in zip(low, high, strict=True):
        for k, name in enumerate(block.members):
            if name in every:
                begins = np.flatnonzero(nodes_at(grid, pieces(grid, every[name])))
                for row, narrowest, free in (
                    (below[k, :-1], np.maximum, -np.inf),
                    (above[k, :-1], np.minimum, np.inf),
                ):
                    found = narrowest.reduceat(row, begins)
                    row[:] = free
                    row[begins] = found


def constraint_bounds(
    layout: Layout, limits: Mapping[str, Sequence[Sequence[Limits | RateLimits]]]
) -> tuple[Array, Array]:
    """Lower and upper bounds of the constraints, by family and trial: those of its last conditions,
    infinite when they do not hold; zero for those before, such as the equations of motion."""
    low, high = np.zeros((2, layout.n_constraints))
    for (trial, family), begin in layout.constraint_offsets.items():
        n = layout.points(trial, family)
        mine = limits[family][trial] if family in limits else ()
        first = len(layout.labels[family]) - len(mine)
        for k, limit in enumerate(mine, start=first):
            here = slice(begin + k * n, begin + (k + 1) * n)
            low[here], high[here] = limit.sides(layout.grids[trial], n)
    return low, high


def middle(low: float, high: float) -> float:
    """Middle between bounds, or the value next to zero."""
    if np.isfinite(low) and np.isfinite(high):
        return 0.5 * (low + high)
    return float(np.clip(0.0, low, high))
