"""Grid error at a solution: local on each interval, and its effect on the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.collocation import signals_within
from kinesym.runtime.nlp.defects import (
    Courses,
    Defects,
    Finer,
    Freedom,
    interval_defects,
    interval_freedom,
    joined,
)
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.point import PointFunctions
from kinesym.runtime.signals.experiment import Experiment

#: Rows, columns and values of a sparse matrix.
Entries: TypeAlias = tuple[NDArray[Any], NDArray[Any], Array]

#: Numbers in the matrices of the intervals that are compared at once.
_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False)
class GridDefects:
    """Defects of the scheme on all trials, in the order of z and of the constraints.

    ends : for each trial, errors of states after each interval, (n, N - 1). gradient :
    (n_variables,), error of the gradient of the Lagrangian. rows : (n_constraints,), residuals of
    the constraints along the true trajectories. objective : its error. gains : change of the
    objective on the intervals of each trial, (N - 1,), not positive, if inputs were free there.
    """

    ends: Sequence[Array]
    gradient: Array = field(default_factory=lambda: np.zeros(0))
    rows: Array = field(default_factory=lambda: np.zeros(0))
    objective: float = np.nan
    gains: Sequence[Array] = ()


@dataclass(frozen=True, eq=False)
class Freed:
    """Additional freedom of inputs, as (w,) more variables: entries of the Hessian (row, column,
    value) and of the Jacobian of the constraints, with indices in z and then in these variables;
    their gradient and their stages."""

    hessian: Entries
    jacobian: Entries
    gradient: Array
    stages: NDArray[np.int32]


class TrialViews:
    """Views of a vector like z: the rows of a trial by name, at nodes and within intervals."""

    def __init__(self, nlp: NLP, z: NDArray[Any], trial: int) -> None:
        self._held, self._linear = nlp.layout.held, nlp.about.linear
        self._late = nlp.lags.names if nlp.lags else set[str]()
        self._places = nlp.about.stages
        self._nodes, self._within = dict[str, Array](), dict[str, list[Array]]()
        for name, place, row in nlp.layout.named_rows(z, trial):
            if place is None:
                self._nodes[name] = row
            else:
                self._within.setdefault(name, []).append(row)

    def knots(self, name: str) -> list[Array]:
        """A rated state, or an input that is free, at both nodes and the places between."""
        row = self._nodes[name]
        return [row[:-1], *self._within.get(name, ()), row[1:]]

    def at_stages(self, name: str) -> list[list[tuple[float, Array]]]:
        """Terms of an algebraic state or an input at the stages, as sums of weights times rows; a
        held input is the same at all."""
        if name not in self._nodes:
            return [[(1.0, row)] for row in self._within[name]]
        u = self._nodes[name]
        if name in self._held:
            return [[(1.0, u[:-1])]] * len(self._places)
        if name in self._linear:
            return [[(1.0 - c, u[:-1]), (c, u[1:])] for c in self._places]
        return [[(1.0, row)] for row in self.knots(name)]

    def is_free(self, name: str) -> bool:
        """Whether it has a value of its own at each stage, and nothing to do with a delay, by which
        it acts elsewhere."""
        return not any(name in group for group in (self._linear, self._held, self._late))

    def values(self, name: str) -> list[Array]:
        """Values at the stages: the terms of `at_stages`, summed."""
        return [np.sum([w * row for w, row in terms], axis=0) for terms in self.at_stages(name)]


class Ended(NamedTuple):
    """End of a solve: its free vector z, the multipliers of the constraints, the bounds of z.
    limited : inputs in path conditions, which alone cannot gain anything."""

    z: Array
    multipliers: Array
    bounds: tuple[Array, Array]
    limited: Collection[str] = ()


def grid_defects(
    nlp: NLP,
    f: PointFunctions,
    at: Finer,
    trials: Sequence[Experiment],
    ended: Ended,
) -> GridDefects:
    """Discretisation error at the end of a solve."""
    z = ended.z
    gradient, rows = np.zeros(nlp.n_variables), np.zeros(nlp.n_constraints)
    objective, ends, gains = 0.0, [], list[Array]()
    for k, trial in enumerate(trials):
        whole = _courses(nlp, f, at, trial, k, ended)
        d = _in_parts(f.of_trial(k), at, nlp.layout.parameters_of(z, k), whole)
        _add_gradient(nlp, f, gradient, k, d)
        _defect_rows(nlp, k, rows, at)[:] = d.rows
        if nlp.lags is not None:
            fine = dict(zip(f.about.states, np.moveaxis(d.states, -1, 0), strict=True))
            values = {
                x: np.concatenate([knots[None], fine[x]])
                for x, knots in zip(f.about.rated, whole.knots[0].T, strict=True)
            }
            mine = rows[nlp.layout.delay_offset :]
            nlp.lags.missed(z, k, np.append(0.0, at.fine_nodes), values, mine)
        objective += d.objective + float(d.gains.sum())
        ends.append(d.ends.T)
        gains.append(d.gains)
    nlp.layout.parameter_values(gradient)[:] *= nlp.layout.parameter_slopes(z)
    return GridDefects(ends, gradient, rows, objective, gains)


def freed_inputs(
    nlp: NLP,
    f: PointFunctions,
    at: Finer,
    trials: Sequence[Experiment],
    ended: Ended,
) -> Freed | None:
    """Freedom of inputs within intervals that the finer scheme has and the scheme has not; None if
    there is none, or if measurements compare inputs at the stages."""
    z = ended.z
    parts, begin = list[Freed](), nlp.n_variables
    free = [
        u for u in f.about.inputs if u not in ended.limited and TrialViews(nlp, z, 0).is_free(u)
    ]
    within = [*nlp.about.interval_measurements, *(channel.name for channel in nlp.about.timed)]
    compared = not set(within) <= set(f.about.rated)
    if compared or not (free and f.about.rated and at.beside.shape[1]):
        return None
    for k, trial in enumerate(trials):
        whole = _courses(nlp, f, at, trial, k, ended)
        p, functions = nlp.layout.parameters_of(z, k), f.of_trial(k)
        for part in _parts(f, at, len(whole.step)):
            found = interval_freedom(functions, at, p, whole.part(part))
            parts.append(_entries(nlp, f, at, k, part, found, begin))
            begin += len(parts[-1].gradient)
    return Freed(
        _stuck([one.hessian for one in parts]),
        _stuck([one.jacobian for one in parts]),
        np.concatenate([one.gradient for one in parts]),
        np.concatenate([one.stages for one in parts]),
    )


def _stuck(parts: Sequence[Entries]) -> Entries:
    """Entries one after the other."""
    none = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros(0)
    columns = zip(none, *parts, strict=True)
    rows, places, values = (np.concatenate([np.ravel(a) for a in each]) for each in columns)
    return rows, places, values


def _entries(
    nlp: NLP, f: PointFunctions, at: Finer, k: int, part: slice, found: Freedom, begin: int
) -> Freed:
    """Matrix entries of the freedom of inputs on some intervals of trial k; begin : index of the
    first of these variables."""
    free, q = found.free, at.beside.shape[1]
    number = np.full((q, *free.shape), -1, dtype=np.intp)
    number[:, free] = begin + np.arange(q * int(free.sum())).reshape(q, -1)
    views = TrialViews(nlp, np.arange(nlp.n_variables, dtype=np.intp), k)
    rows = _defect_rows(nlp, k, np.arange(nlp.n_constraints), at)[:, part]
    hessian, jacobian = list[Entries](), list[Entries]()
    for j, u in enumerate(f.about.inputs):
        here, own = free[j], number[:, j, free[j]]
        coarse = [terms[0][1][part][here] for terms in views.at_stages(u)] if here.any() else []
        hessian += _products(own, coarse, [a[j, ..., here] for a in _bends(found)], at.at_knots)
        for one, moved in zip(own, found.rows[j], strict=True):
            values = -moved[:, here]
            jacobian.append((rows[:, here], np.broadcast_to(one[:, None], values.shape), values))
    gradient = np.zeros(number[:, free].size)
    gradient[number[:, free] - begin] = np.moveaxis(found.slopes, 1, 0)[:, free]
    stages = np.zeros(gradient.size, dtype=np.int32)
    after = nlp.layout.stages()[views.knots(f.about.rated[0])[-1][part]]
    stages[number[:, free] - begin] = np.broadcast_to(after, free.shape)[free]
    return Freed(_stuck(hessian), _stuck(jacobian), gradient, stages)


def _bends(found: Freedom) -> tuple[Array, Array, Array]:
    return found.bends, found.across, found.missed


def _products(
    own: NDArray[np.intp], coarse: Sequence[NDArray[np.intp]], bends: Sequence[Array], knots: bool
) -> list[Entries]:
    """Second derivatives by courses (q, M) of one input and by it at the stages, in the lower
    triangle; bends : those of `Freedom`, (M, ..). knots : whether stages are of two intervals."""
    both, across, missed = (np.moveaxis(a, 0, -1) for a in bends)
    made = [(own[q], own[r], both[q, r]) for q in range(len(own)) for r in range(q + 1)]
    made += [(own[q], v, across[q, s]) for q in range(len(own)) for s, v in enumerate(coarse)]
    for s, one in enumerate(coarse if knots else ()):
        for r, other in enumerate(coarse[: s + 1]):
            made.append((np.maximum(one, other), np.minimum(one, other), missed[s, r]))
    return made


def _courses(
    nlp: NLP,
    f: PointFunctions,
    at: Finer,
    trial: Experiment,
    k: int,
    ended: Ended,
) -> Courses:
    """Courses of all intervals of trial k."""
    (z, multipliers, bounds, limited), about = ended, f.about
    views, layout = TrialViews(nlp, z, k), nlp.layout
    unrated = [x for x in about.states if x not in about.rated]
    M, s, m = trial.n_nodes - 1, len(at.nodes), at.values.shape[1]
    return Courses(
        trial.grid[:-1],
        np.diff(trial.grid),
        float(layout.durations(z)[k]) if layout.free_duration else 1.0,
        knots=_stacked((views.knots(x) for x in about.rated), m, M),
        staged=_stacked((views.values(x) for x in unrated), s, M),
        inputs=_stacked((views.values(u) for u in about.inputs), s, M),
        coarse=_signals(about.signals, trial, at.nodes),
        fine=_signals(about.signals, trial, at.fine_nodes),
        late=_late(nlp, views, at, z, k),
        delayed=[about.inputs.index(u) for u in layout.delayed],
        box=_box(about.inputs, [TrialViews(nlp, side, k) for side in bounds], M, limited),
        multipliers=_defect_rows(nlp, k, multipliers, at),
    )


def _late(nlp: NLP, views: TrialViews, at: Finer, z: Array, k: int) -> Array:
    """The delayed inputs of trial k at the fine nodes, (f, N - 1, .)."""
    grid, lags = nlp.layout.grids[k], nlp.lags
    if lags is None:
        return np.zeros((len(at.fine_nodes), len(grid) - 1, 0))
    times = grid[:-1] + at.fine_nodes[:, None] * np.diff(grid)
    moving = lags.courses
    courses = {name: at.extend_inputs @ np.array(views.values(name)) for name in moving}
    found = lags.along(z, k, times, courses)
    return np.stack([found[u] for u in nlp.layout.delayed], axis=-1)


def _in_parts(f: PointFunctions, at: Finer, p: Array, whole: Courses) -> Defects:
    """Defects of all intervals, evaluated in parts that fit into the caches."""
    parts = _parts(f, at, len(whole.step))
    return joined([interval_defects(f, at, p, whole.part(part)) for part in parts])


def _parts(f: PointFunctions, at: Finer, count: int) -> list[slice]:
    """Slices of all intervals, limited in size for memory."""
    most = max(1, _AT_ONCE // (len(at.fine_nodes) * len(f.about.states)) ** 2)
    return [slice(k, min(k + most, count)) for k in range(0, count, most)]


def _add_gradient(nlp: NLP, f: PointFunctions, gradient: Array, k: int, d: Defects) -> None:
    """Adds the differences of the gradient on the intervals of trial k."""
    views, layout = TrialViews(nlp, gradient, k), nlp.layout
    for x, row in zip(f.about.rated, d.begins.T, strict=True):
        views.knots(x)[0][:] += row
    for j, u in enumerate(f.about.inputs):
        for terms, values in zip(views.at_stages(u), d.inputs[..., j], strict=True):
            for weight, row in terms:
                row += weight * values
    layout.parameter_values(gradient)[layout.owned.places(k)] += d.parameters
    if layout.free_duration:
        layout.durations(gradient)[k] += d.duration


def _box(
    names: Sequence[str], bounds: Sequence[TrialViews], M: int, limited: Collection[str]
) -> Array:
    """Bounds of inputs in each interval, the narrowest there, (2, M, .); zeros for those that are
    held, linear or limited."""
    box, sides = np.zeros((2, M, len(names))), (np.max, np.min)
    for j, name in enumerate(names):
        for side, view, narrowest in zip(box, bounds, sides, strict=True):
            if view.is_free(name) and name not in limited:
                side[:, j] = narrowest([terms[0][1] for terms in view.at_stages(name)], axis=0)
    return box


def _stacked(rows: Iterable[Sequence[Array]], places: int, M: int) -> Array:
    """(places, M, rows) of rows at places."""
    made = [np.array(each) for each in rows]
    return np.stack(made, axis=-1) if made else np.zeros((places, M, 0))


def _defect_rows(nlp: NLP, trial: int, vector: NDArray[Any], at: Finer) -> NDArray[Any]:
    """View of the entries of a constraint vector for the equations at the stages, or the defects of
    the states, as (places, N - 1, n)."""
    layout = nlp.layout
    n, M = len(layout.states), layout.nodes[trial] - 1
    places = len(at.nodes) - at.at_knots
    begin = layout.constraint_offsets[trial, "interval"]
    block = vector[begin : begin + n * places * M].reshape(n, places, M)
    return np.moveaxis(block, 0, -1)


def _signals(names: Sequence[str], trial: Experiment, places: Array) -> Array:
    """Signals at places of each interval, (places, N - 1, signals)."""
    M = trial.n_nodes - 1
    rows = [signals_within(trial, names, place).reshape(len(names), M).T for place in places]
    return np.array(rows)
