"""Reasons why a problem has no solution, or none was found: contradictions, what must give, what
holds it.

Each function looks for one kind of cause and says it in sentences that name conditions as they were
written; `why` puts the likeliest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.internal.fitting.active_bounds import bounds_that_hold, wider
from kinesym.internal.fitting.data_mistakes import mistaken
from kinesym.internal.fitting.dependent_conditions import condition_name, dependent, kinks
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.redundant import bound_together
from kinesym.internal.fitting.scaling import sizes
from kinesym.internal.fitting.structural_identifiability import ON_REQUEST, untold
from kinesym.internal.fitting.violations import violated
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.elastic import Slack, least_slack
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.progress import Iteration
from kinesym.runtime.results.violations import Violations
from kinesym.runtime.results.why import Why
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed

#: Relative violation from which on a condition cannot be met.
_GIVES = 1e-5
#: Relative residual that is rounding.
_ROUNDING = 1e-9
#: Relative distance at which a bound is reached.
_NEAR = 1e-6
#: Slopes of conditions, times sizes of variables, that are none, as those of a cosine at its top.
_FLAT = 1e-7
#: Share of samples beyond bounds that is told.
_OUTSIDE = 0.05
#: Distance of a start from the first sample that is told, as a share of the range of samples.
_APART = 0.2
#: Least violation that is named, as a share of the largest one, in sizes of conditions.
_LITTLE = 0.01
#: Multipliers of inequalities, in sizes of conditions, that hold something.
_PUSHES = 1e-5
#: Random courses from which feasible points are searched.
_SHAKEN = 3
#: Iterations after which no further search begins.
_SEARCHED = 1000
#: Violated conditions that are named.
_NAMED = 3
#: Iterations that are looked back at.
_BACK = 20
#: Variables that are as large have left what the model describes.
_FAR = 1e10


@dataclass(frozen=True)
class Point:
    """A problem at z: sizes of its variables, (n_variables,), values of its constraints, their
    slopes, and the size of what each is about, (n_constraints,)."""

    problem: Discretisation
    z: Array
    of_variables: Array
    values: Array
    jacobian: csr_array
    sizes: Array

    @staticmethod
    def of(problem: Discretisation, z: Array) -> Point:
        """Point at z."""
        values, jacobian = problem.constraints(z), problem.constraint_jacobian(z)
        size = sizes(problem, z)
        scaled = abs(jacobian) @ _diagonal(size)
        most = scaled.max(axis=1).toarray().ravel() if jacobian.nnz else np.ones(len(values))
        return Point(problem, z, size, values, jacobian, np.where(most > _FLAT, most, 1.0))

    @property
    def conditions(self) -> NDArray[np.intp]:
        """Numbers of the constraints that are conditions, not equations of the model."""
        chosen = np.zeros(len(self.values), dtype=bool)
        for _, family, label, rows in self.problem.layout.constraint_rows():
            chosen[rows] = label.kind == "condition" or family == "ends"
        return np.flatnonzero(chosen)

    def name(self, i: int) -> str:
        """Name of constraint i."""
        return self.problem.layout.constraint_name(int(i))


def why(
    problem: Discretisation,
    z: Array,
    head: str,
    history: Sequence[Iteration] = (),
    ended: bool = False,
    solved: bool = False,
    unexplained: Callable[[Any, Array], float] | None = None,
) -> Why:
    """Reasons why a problem has no solution, seen from z.

    history : iterations of the solve that was lost there, empty if there was none. ended : whether
    z is where a solve ended, solved : at a solution. unexplained : for `mistaken`, to look for
    mistakes in data.
    """
    point = Point.of(problem, z)
    if not (np.isfinite(point.values).all() and np.isfinite(point.jacobian.data).all()):
        return Why(head)
    size = point.of_variables
    causes = [*contradictions(point), *_without_influence(point), *_beside_data(problem)]
    if not causes and not solved:
        bound = bound_together(problem, z, ended)
        causes += [words + _LEFT_OUT * bool(bound.left_out) for words in bound.words]
    if not causes:
        begin = None if ended else point.jacobian
        causes += dependent(problem, z, begin, size, point.conditions)
    lacking = ""
    if unexplained is not None and any(trial.measured for trial in problem.trials):
        told, lacking = mistaken(problem, z, unexplained)
        causes += told
    causes += [*(_at_bounds(point) if ended else ()), *filter(None, [lacking])]
    near = np.zeros(0)
    if len(point.conditions) and not solved:
        found, near = _unmet(point, bool(history))
        causes += found
    causes += [] if solved else list(kinks(problem, z, point.jacobian, size))
    causes += list(_far(problem, z))
    causes += list(_most_violated(problem, z, point)) if history else []
    causes += [each.sentence for each in untold(problem, ON_REQUEST)]
    causes += list(_slow(history))
    return Why(head, causes, near)


def _unmet(point: Point, lost: bool) -> tuple[list[str], Array]:
    """Sentences on the least violation of the conditions, or that they can be met, and the point
    where; nothing if none is found."""
    rows = point.conditions
    slack, giving = _least(point)
    if not slack.found.status.success:
        return [], np.zeros(0)
    if not giving.any():
        return [_CAN + _LOST * lost], slack.z
    told = _must_give(point, rows[giving], slack.gives[giving])
    return [*told, *_holding(point, slack, rows[~giving])], slack.z


_LEFT_OUT = (
    ", but on a grid only up to its error: leave it out, as problem.solve does where it must"
)
_CAN = "all conditions can be met together, as they are by problem.solve(guess=why.nearest)"
_LOST = "; the solve began too far away, or lost its way"


def _dear(point: Point) -> Array:
    """Cost of violating each condition, (conditions,): larger at a start, which is mostly a fact,
    and decreasing, so that of conditions that could give alike it is a later one that gives."""
    layout, stages = point.problem.layout, point.problem.layout.stages()
    found = []
    for number, i in enumerate(point.conditions):
        first = stages[layout.offsets[layout.locate_constraint(int(i))[0]]]
        at_start = stages[point.jacobian[[i]].indices].max(initial=first) == first
        found.append(1.0 + 0.5 * at_start + 0.1 / (1.0 + number))
    return np.array(found)


def meeting_points(
    problem: Discretisation, lost: Array, guess: Array, deadline: float = math.inf
) -> Iterator[Array]:
    """Feasible points, where all conditions are met: near the end of a lost solve, near its guess,
    near the first guess of the package, and near random courses. The search ends by Ctrl-C, after
    some iterations, at the deadline (of `time.monotonic()`), or if two searches end with the same
    least violation."""
    made_up = FirstGuess(problem).pack()
    begins = [lost, guess, *([] if np.array_equal(guess, made_up) else [made_up])]
    leasts, left = list[float](), _SEARCHED
    for begin in [*begins, *(_shaken(problem, made_up, seed) for seed in range(_SHAKEN))]:
        point = Point.of(problem, begin)
        if not np.isfinite(point.values).all() or not len(point.conditions):
            continue
        slack, giving = _least(point, deadline)
        left -= len(slack.found.iterations)
        if slack.found.status in (Solve.INTERRUPTED, Solve.TIME_LIMIT):
            return
        if slack.found.status.success:
            least = float(np.abs(slack.gives / point.sizes[point.conditions]).sum())
            if not giving.any():
                yield slack.z
            elif any(abs(least - other) <= 1e-3 * other for other in leasts):
                return  # found from two sides: hardly to be met
            leasts.append(least)
        if left <= 0:
            return


def _shaken(problem: Discretisation, z: Array, seed: int) -> Array:
    """z with noise of the size of its trajectories, within bounds."""
    count = problem.layout.parameter_offset
    noise = np.random.default_rng(seed).standard_normal(count)
    moved = z.copy()
    moved[:count] += noise * np.maximum(sizes(problem, z)[:count], 1.0)
    return np.clip(moved, *problem.variable_bounds)


def _least(point: Point, deadline: float = math.inf) -> tuple[Slack, NDArray[np.bool_]]:
    """Least violation of the conditions, and the mask of those that are violated."""
    rows, problem = point.conditions, point.problem
    size = point.sizes[rows]
    slack = least_slack(problem.ipopt(problem.nlp), point.z, rows, size / _dear(point), deadline)
    return slack, np.abs(slack.gives) > _GIVES * size


def contradictions(point: Point) -> list[str]:
    """Conditions at the ends, and variables that bounds fix, that say the same or contradict each
    other, and single values outside their bounds; by their linear parts at this point."""
    low, high = point.problem.constraint_bounds
    equal = [int(i) for i in point.conditions if low[i] == high[i] and _at_ends(point, i)]
    found, slopes = list[str](), point.jacobian[equal]
    touched = np.unique(slopes.indices)
    scaled = slopes[:, touched].toarray() * point.of_variables[touched]
    basis, weights, sides, names = list[Array](), list[Array](), list[float](), list[str]()
    for i, rest, entries in zip(equal, scaled, np.diff(slopes.indptr), strict=True):
        name, off = condition_name(point.problem, i), float(point.values[i] - low[i])
        size = float(np.linalg.norm(rest))
        if not entries:
            found.append(f"{name} depends on nothing that is unknown: it is off by {off:.4g}")
        if size <= _FLAT:  # what it says cannot be told here
            continue
        found += _outside(point, i)
        mine = np.append(np.zeros(len(names)), 1.0)
        for e, w in zip(basis, weights, strict=True):
            part = float(rest @ e)
            rest, mine[: len(w)] = rest - part * e, mine[: len(w)] - part * w
        left = float(np.linalg.norm(rest))
        names, sides = [*names, name], [*sides, off]
        if left > _ROUNDING * size:
            basis, weights = [*basis, rest / left], [*weights, mine / left]
            continue
        others = [n for n, w in zip(names, mine[:-1], strict=False) if abs(w) > 1e-8]
        gap = float(mine @ np.array(sides))
        if abs(gap) <= 1e-7 * max(size, *(abs(s) for s in sides), 1e-300):
            found.append(f"{name} says the same as {listed(others)}: leave one of them out")
        else:
            found.append(
                f"{name} contradicts {listed(others)}: they differ by {abs(gap):.4g}; one of them "
                "must go"
            )
    return found


def _outside(point: Point, i: int) -> Iterator[str]:
    """A condition on a single variable that asks for a value outside of its bounds."""
    row = point.jacobian[[i]].tocoo()
    some = row.data != 0.0
    if some.sum() != 1:
        return
    (j,), (slope,), layout = row.col[some], row.data[some], point.problem.layout
    asked = point.z[j] - (point.values[i] - point.problem.constraint_bounds[0][i]) / slope
    low, high = (side[j] for side in point.problem.variable_bounds)
    room = _NEAR * max(1.0, abs(asked))
    if not low - room <= asked <= high + room:
        yield (
            f"{condition_name(point.problem, i)} asks for {asked:.6g}, outside the bounds "
            f"({low:g}, {high:g}) of {layout.variable_name(int(j))}"
        )


def _without_influence(point: Point) -> Iterator[str]:
    """Unknown parameters on which nothing depends, and unknown inputs that are in no equation."""
    problem, layout = point.problem, point.problem.layout
    columns = np.diff(point.jacobian.tocsc().indptr)
    gradient, slopes = problem.cost_gradient(point.z), abs(point.jacobian).sum(axis=0)
    for name in layout.inputs:
        if not _of_name(layout, columns, 0, name).any():
            yield (
                f"no equation and no condition has the unknown input {name}, at most the "
                "objective: what does it act on?"
            )
    for k, name in enumerate(layout.parameters):
        j = layout.parameter_offset + k
        if slopes[j] == 0.0 and gradient[j] == 0.0:
            yield f"nothing depends on the unknown parameter {name} here: leave it out of unknown"


def _beside_data(problem: Discretisation) -> Iterator[str]:
    """Measurements that lie outside of bounds, or begin elsewhere than conditions say."""
    layout = problem.layout
    for number, trial in enumerate(problem.trials):
        many = f" of trial {number}" if len(problem.trials) > 1 else ""
        for name, row in trial.measurements.items():
            seen = row[~np.isnan(row)]
            if name not in (*layout.states, *layout.inputs) or not len(seen):
                continue
            sides = problem.variable_bounds
            low, high = (_of_name(layout, side, number, name) for side in sides)
            out = float(np.mean((seen < low.min()) | (seen > high.max())))
            if out > _OUTSIDE:
                yield (
                    f"{100.0 * out:.0f} % of the samples of {name}{many} lie outside of its bounds "
                    f"({low.min():.4g}, {high.max():.4g})"
                )
            start = problem.per_trial.rows[number].fixed.get(name, {}).get(-np.inf)
            spread = max(3.0 * float(np.std(np.diff(seen))), _APART * float(np.ptp(seen)))
            if start is not None and not np.isnan(row[0]) and abs(row[0] - start) > spread:
                yield (
                    f"{name}{many} is to start at {start:.4g}, but its first sample is {row[0]:.4g}"
                )


def _of_name(layout: Layout, z: NDArray[Any], trial: int, name: str) -> NDArray[Any]:
    """Values of a state or input at all its places."""
    return np.concatenate([row for own, _, row in layout.named_rows(z, trial) if own == name])


def _must_give(point: Point, rows: NDArray[np.intp], gives: Array) -> Iterator[str]:
    """Sentences on the conditions that cannot be met: their least violation, each over all its
    points."""
    layout = point.problem.layout
    groups: dict[tuple[int, str, int], list[int]] = {}
    for number, i in enumerate(rows):
        trial, family, label, _ = layout.locate_constraint(int(i))
        groups.setdefault((trial, family, label), []).append(number)
    relative = np.abs(gives) / point.sizes[rows]
    order = sorted(groups.items(), key=lambda item: -float(relative[item[1]].max()))
    most = float(relative.max(initial=0.0))
    for (trial, family, label), numbers in order:
        if relative[numbers].max() < _LITTLE * most:
            break
        worst = numbers[int(np.argmax(np.abs(gives[numbers])))]
        when = "" if family != "node" and family != "interval" else _span(point, rows[numbers])
        many = f" of trial {trial}" if len(layout.nodes) > 1 else ""
        yield (
            f"{layout.labels[family][label]}{many} cannot be met with all others near here: it "
            f"is off by at least {abs(gives[worst]):.4g}{when}"
        )


def _span(point: Point, rows: Sequence[int] | NDArray[np.intp]) -> str:
    """Time span of some rows of one condition, in words."""
    layout = point.problem.layout
    places = [layout.locate_constraint(int(i)) for i in rows]
    time = layout.time(point.z, places[0][0])
    begins = [time[number] for *_, number in places]
    ends = [time[number + (family == "interval")] for _, family, _, number in places]
    return f", between t = {min(begins):.4g} and {max(ends):.4g} s"


def _holding(point: Point, slack: Slack, rows: NDArray[np.intp]) -> Iterator[str]:
    """Limits and bounds that keep conditions from being met. rows : conditions that are met."""
    yield from _limits_that_hold(point, slack, rows)
    yield from _bounds_that_hold(point, slack)


def _bounds_that_hold(point: Point, slack: Slack) -> Iterator[str]:
    """Bounds without which more could be met, and what they would have to be."""
    held = bounds_that_hold(point.problem, slack, point.of_variables)
    if held:
        would = wider(point.problem, slack, held, point.of_variables)
        yield from [] if would is None else [would]
    for bound in held:
        yield bound.words


def _limits_that_hold(point: Point, slack: Slack, rows: NDArray[np.intp]) -> Iterator[str]:
    """Limits of inequalities that are met, whose multipliers say that more could be met without
    them. rows : of the conditions that do not give."""
    layout, multipliers = point.problem.layout, slack.found.multipliers[0][: len(point.values)]
    low, high = point.problem.constraint_bounds
    force = multipliers * point.sizes
    groups: dict[tuple[str, float], list[int]] = {}
    for i in rows:
        if low[i] < high[i] and abs(force[i]) > _PUSHES:
            trial, family, label, _ = layout.locate_constraint(int(i))
            name = layout.labels[family][label].name
            name += f" of trial {trial}" if len(layout.nodes) > 1 else ""
            groups.setdefault((name, np.sign(force[i])), []).append(int(i))
    for (name, sign), numbers in groups.items():
        which, limit = ("upper", high) if sign > 0 else ("lower", low)
        when = "" if _at_ends(point, numbers[0]) else _span(point, numbers)
        yield f"the {which} limit {limit[numbers[0]]:.4g} of {name} holds it{when}"


def _at_bounds(point: Point) -> Iterator[str]:
    """Parameters that have gone to a bound."""
    layout, limits = point.problem.layout, point.problem.variable_bounds
    natural = [layout.owned.natural(layout.parameter_values(side)) for side in limits]
    value, size, *sides = (
        layout.parameter_values(y) for y in (point.z, point.of_variables, *limits)
    )
    for k, name in enumerate(layout.parameters):
        for which, side, shown in zip(("lower", "upper"), sides, natural, strict=True):
            both = np.isfinite([sides[0][k], sides[1][k]]).all()  # then sizes know their distance
            unit = size[k] if both else max(size[k], abs(side[k]), 1e-3)
            near = np.isfinite(side[k]) and abs(value[k] - side[k]) <= 10.0 * _NEAR * unit
            if near and sides[0][k] < sides[1][k]:
                yield f"the parameter {name} has gone to its {which} bound {shown[k]:g}"


def _far(problem: Discretisation, z: Array) -> Iterator[str]:
    """Sentence on a variable that has grown beyond any plausible size."""
    j = int(np.argmax(np.abs(z)))
    if abs(z[j]) > _FAR:
        yield (
            f"{problem.layout.variable_name(j)} has become {z[j]:.3g}: give it bounds, or a better "
            "guess"
        )


def _most_violated(problem: Discretisation, z: Array, point: Point) -> Iterator[str]:
    """Conditions and bounds violated most where the solve ended, relative to their sizes."""
    given = (point.values, problem.constraint_bounds, problem.variable_bounds)
    courses = list(violated(problem.layout, z, *given))
    for course in Violations(courses).worst(_NAMED):
        if course.largest > _NEAR:
            at = course.time[int(np.argmax(course.values))]
            when = f", most at t = {at:.4g} s" if len(course.values) > 1 else ""
            many = f" of trial {course.trial}" if len(problem.layout.nodes) > 1 else ""
            yield (
                f"where the solve ended {course.condition}{many} is violated by "
                f"{course.largest:.4g}{when}"
            )


def _slow(history: Sequence[Iteration]) -> Iterator[str]:
    """Sentence on slow convergence: conditions were met but the objective still fell."""
    last = list(history)[-_BACK:]
    if len(last) == _BACK and max(step.infeasibility for step in last) < 1e-4:
        change = abs(last[0].objective - last[-1].objective)
        if change > 1e-6 * abs(last[-1].objective):
            yield (
                f"conditions are met, and the objective still changes: from "
                f"{last[0].objective:.6g} to {last[-1].objective:.6g} in {_BACK} iterations; solve "
                "again from here, or loosen tolerance"
            )


def _at_ends(point: Point, i: int) -> bool:
    return point.problem.layout.locate_constraint(int(i))[1] in ("ends", "link", "cycle")


def _diagonal(values: Array) -> csr_array:
    n = len(values)
    return csr_array((values, (np.arange(n), np.arange(n))), shape=(n, n))
