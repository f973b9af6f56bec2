"""Redundant conditions at ends: dependent along every motion, as where something is conserved.

A motion keeps the norm of a quaternion, or an energy, exactly, and a scheme to the error of its
grid: conditions that say the same in continuous time then contradict each other by that error, and
nothing meets them. The rank of the conditions is therefore found along motions on finer and finer
grids. With P the projection onto variations of such a motion that keep the equations, and C the
slopes of the conditions, eigenvalues of C P C' that fall with the grid belong to combinations that
nothing can change. The violation of these combinations also falls if the conditions agree, and
stays if they contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.sparse import diags_array

from kinesym.internal.fitting.dependent_conditions import condition_name, some
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.scaling import inverse, sizes
from kinesym.internal.problems.per_trial import Loosened
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.bounds import entries_of
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.progress import Iteration
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.statistics.kkt import Kkt

_Flags = NDArray[np.bool_]
_Index = NDArray[np.intp]

#: Points of conditions at ends; those at nodes are as many as there are nodes.
_ENDS = ("ends", "link", "cycle")
#: Most variables on the finest grid of problems whose conditions are examined.
_MOST_VARIABLES = 200_000
#: Most passes that separate combinations that hardly change from those that do not.
_PASSES = 4
#: Number of grids.
_GRIDS = 3
#: Least number of intervals of the coarsest grid.
_FEWEST = 20
#: Parts of each interval on the coarsest grid, for schemes of low order.
_FINER = {1: 8, 2: 2}
#: Eigenvalue below which a combination may be redundant.
_SMALL = 1e-3
#: Eigenvalues that may be zero by rounding, and that are.
_ROUNDING = (1e-17, 1e-25)
#: Absolute log of the ratio of eigenvalues of two grids up to which they agree, as rounding errors
#: do not.
_AGREEING = 0.4
#: Ratio up to which an eigenvalue vanishes when the grid is twice as fine. Errors fall by it,
#: squared; what takes impulses falls to a half.
_FALLS = 0.35
#: Eigenvalues of what a grid keeps as exactly as a motion.
_EXACT = 1e-21
#: Gauss-Newton iterations to a motion.
_ITERATIONS = 30
#: Longest step, in sizes of the variables.
_STEP = 1.0
#: Relative residual of equations and conditions at which the iteration ends.
_MET = 1e-9
#: Relative residual at which a motion is accepted.
_NEAR = 1e-7
#: Displacement of inputs, in their sizes.
_MOVED = 0.1
#: Difference of conditions that agree, in their sizes.
_AGREES = 1e-5
#: Difference of conditions that agree, as a share of the error of the grid.
_SHARE = 0.2
#: Least weight of a condition that takes part in a combination, of the largest one.
_PART = 0.02
#: Weight of a condition at a start when one is chosen to be left out: it is mostly a fact.
_FACT = 1e-3
#: Iteration at which conditions come into doubt.
_DOUBTFUL = 80
#: Infeasibility above which they do.
_UNMET = 1e-7
#: Change of the objective by conditions that strain the motion, in units of its size.
_STRAINED = 1e3
#: Slack of a condition that is left out, in its size: so that it still tells one motion from
#: another, and where the grid is too coarse for that.
ROOMS = (0.1, 1e3)


@dataclass(frozen=True)
class Bound:
    """Dependent conditions. left_out : numbers of the redundant ones, which follow from the others;
    none if some contradict each other. words : which condition follows from which, or contradicts
    which."""

    left_out: Sequence[int] = ()
    words: Sequence[str] = ()


class Doubt:
    """Looks, after some iterations that do not meet the conditions, whether these are bound
    together as seen from z, and ends the solve if some follow from others. rows : of conditions.
    bound : what was found; None if it was not looked for."""

    def __init__(self, problem: Discretisation, z: Array) -> None:
        self._problem, self._z, self.rows = problem, z, conditions_at_ends(problem)
        self.bound: Bound | None = None

    def __call__(self, iteration: Iteration) -> bool:
        """Whether to end the solve."""
        if iteration.number == _DOUBTFUL and iteration.infeasibility > _UNMET:
            self.bound = bound_together(self._problem, self._z)
            return self.stopped
        return False

    @property
    def stopped(self) -> bool:
        """Whether it has ended a solve."""
        return self.bound is not None and bool(self.bound.left_out)


@dataclass(frozen=True)
class _Look:
    """A motion on one grid. lam, V : eigenvalues and vectors of C P C'; off : what conditions are
    off by, in sizes `size`; left : the most that is left of equations, and of conditions that can
    be met. p, X : the step to the equations, and what conditions are changed by."""

    lam: Array
    V: Array
    off: Array
    size: Array
    slopes: Array
    left: tuple[float, float]
    p: Array
    X: Array


def bound_together(problem: Discretisation, z: Array, ended: bool = False) -> Bound:
    """Conditions at ends that are bound together along motions near z, whatever is free; nothing
    where no motion is found. ended : whether z is where a solve ended, not a guess."""
    rows = conditions_at_ends(problem)
    parts = _finer(problem)
    if len(rows) < 2 or 4 * parts * problem.n_variables > _MOST_VARIABLES:
        return Bound()
    try:
        size = sizes(problem, z)
        begin = z if ended else _like_any_other(problem, z, size)
        looks, null = _settled(problem, begin, size, parts)
    except (ValueError, MemoryError, np.linalg.LinAlgError):  # as of a singular matrix
        return Bound()
    if not null.any():
        return Bound()
    names = [condition_name(problem, int(i)) for i in rows]
    facts = np.array([_at_start(problem, int(i)) for i in rows])
    course = np.array([look.size * _within(look, null) for look in looks])
    rest = _limit(course / looks[-1].size)
    space = looks[-1].V[:, null]
    if np.linalg.norm(rest) > _AGREES:
        return Bound(words=[_contradiction(names, rest, looks[-1].size, facts)])
    return _following(rows, names, space, facts)


def is_strained(problem: Discretisation, rows: _Index, solution: Solution) -> bool:
    """Whether the objective depends on conditions at ends so much that these hardly leave anything
    free: by far more than itself if one is off by as much as it is about."""
    if problem.symbolic.objective.least_squares or problem.symbolic.aimless:
        return False
    z, size, nlp = solution.free_vector, abs(solution.objective), problem.nlp
    among = np.zeros(problem.n_constraints, dtype=bool)
    among[rows] = True
    entries, i, j = nlp.jacobian_structure.in_rows(among)
    terms = np.abs(nlp.jacobian(z)[entries] * z[j])
    slopes = np.bincount(i, terms, problem.n_constraints)[rows]
    return bool(
        size > 0.0 and (np.abs(solution.multipliers[rows]) * slopes > _STRAINED * size).any()
    )


def conditions_at_ends(problem: Discretisation) -> _Index:
    """Numbers of the conditions at ends that ask for a value."""
    layout, (low, high) = problem.layout, problem.constraint_bounds
    found = list[int]()
    for (trial, family), begin in layout.constraint_offsets.items():
        if family in _ENDS and layout.points(trial, family):
            end, limits = begin + len(layout.labels[family]), problem.per_trial.limits[family]
            found += range(end - len(limits[trial]), end)
    return np.array([i for i in found if low[i] == high[i]], dtype=np.intp)


def _finer(problem: Discretisation) -> int:
    """Number of parts into which each interval is cut, for the coarsest grid."""
    fewest = max(problem.layout.nodes) - 1
    return max(_FINER.get(problem.scheme.order, 1), -(-_FEWEST // fewest))


def _settled(
    problem: Discretisation, z: Array, size: Array, parts: int
) -> tuple[list[_Look], _Flags]:
    """Motions on three grids that meet all conditions but in combinations that nothing changes, and
    which these are; on one grid, if that keeps them exactly; none where that cannot be told."""
    nothing, count = np.zeros(0, dtype=bool), None
    for _ in range(_PASSES):
        looks = _looks(problem, z, size, parts, count)
        exact = looks[0].lam < _EXACT if looks else nothing
        if count is not None and exact.sum() >= count:
            return looks[:1], exact
        null = _null(looks)
        small = looks[-1].lam < _SMALL if looks else nothing
        if len(looks) < _GRIDS or not null.any():
            return [], nothing
        if null.sum() == count or (count is None and (null == small).all()):
            return looks, null
        count = int(null.sum())
        if not null[:count].all():  # what is hardly changed hides it
            return [], nothing
    return [], nothing


def _looks(
    problem: Discretisation, z: Array, size: Array, parts: int, count: int | None
) -> list[_Look]:
    """Motions near z on three grids, each twice as fine as the one before, that meet conditions but
    in so many combinations, None for all that hardly change; fewer where there is no motion, or
    nothing is bound together on the first ones."""
    found = list[_Look]()
    if parts > 1:  # most of the way to a motion is gone on the grid that costs least
        coarse, look = _motion(problem, z, size, count)
        z = coarse if max(look.left) <= _NEAR else z
    runs = problem.trajectories(z)
    for level in range(_GRIDS):
        k = 2**level * parts
        finer = problem.on([trial.refined(k) for trial in problem.trials]) if k > 1 else problem
        begin = z if finer is problem else FirstGuess(finer).pack(runs)
        size_there = _on_grid(size, problem.layout, finer.layout)
        z_there, look = _motion(finer, begin, size_there, count)
        if max(look.left) > _NEAR:
            break
        found.append(look)
        if not _null(found).any():
            break
        runs = finer.trajectories(z_there)
    return found


def _like_any_other(problem: Discretisation, z: Array, size: Array) -> Array:
    """Generic point: z with inputs that are moved a little. A system at rest may be stuck, as a car
    is that cannot move sideways before it drives."""
    inputs = entries_of(problem.layout, [problem.layout.inputs] * len(problem.trials))
    noise = _MOVED * size * np.random.default_rng(0).standard_normal(len(z))
    return np.clip(np.where(inputs, z + noise, z), *problem.variable_bounds)


def _on_grid(size: Array, layout: Layout, finer: Layout) -> Array:
    """Sizes of variables on a finer grid: those of trajectories are the same at all times."""
    found = np.empty(finer.n_variables)
    found[finer.parameter_offset :] = size[layout.parameter_offset :]
    for trial in range(len(layout.nodes)):
        pairs = zip(layout.rows(size, trial), finer.rows(found, trial), strict=True)
        for (_, rows), (_, finer_rows) in pairs:
            finer_rows[:] = rows[:, :1]
    return found


def _motion(
    problem: Discretisation, z: Array, size: Array, count: int | None
) -> tuple[Array, _Look]:
    """A motion near z that meets the conditions as far as something can change them, by the method
    of Gauss and Newton: each step is the shortest, in the mean square over time."""
    rows = conditions_at_ends(problem)
    for _ in range(_ITERATIONS):
        look = _look(problem, z, size, rows, count)
        if max(look.left) < _MET:
            break
        free = _changed(look.lam, count)
        asked = -(look.off + look.slopes @ look.p) @ look.V[:, free] / look.lam[free]
        step = look.p + look.X @ (look.V[:, free] @ asked)
        longest = float(np.abs(step).max())
        if not np.isfinite(longest):
            break
        z = z + min(1.0, _STEP / max(longest, 1e-300)) * size * step
    return z, look


def _changed(lam: Array, count: int | None) -> _Flags:
    """Mask of combinations of conditions that can be changed: all but the first `count`; if that is
    None, all but those that hardly can."""
    return lam > _SMALL if count is None else np.arange(len(lam)) >= count


def _look(problem: Discretisation, z: Array, size: Array, rows: _Index, count: int | None) -> _Look:
    (low, high), (below, above) = problem.variable_bounds, problem.constraint_bounds
    equations = below == above
    equations[rows] = False
    scaled = problem.constraint_jacobian(z) @ diags_array(size)
    largest = np.asarray(abs(scaled).max(axis=1).toarray()).ravel()
    unit = inverse(largest)
    off = unit * np.where(below == above, problem.constraints(z) - below, 0.0)
    jacobian = (diags_array(unit) @ scaled).tocsr()
    weights = np.where(low < high, _shares(problem), np.inf)
    factors = _factors(problem, jacobian, weights, equations)
    slopes = jacobian[rows].toarray()
    n, count = len(z), len(rows)
    sides = np.zeros((n + len(off), 1 + count), order="F")
    sides[:n, 1:], sides[n:, 0] = slopes.T, -np.where(equations, off, 0.0)
    sides[factors.gone] = 0.0
    found = factors.factors.solve(sides)[:n]
    p, X = found[:, 0], found[:, 1:]
    weights = np.where(np.isinf(weights), 0.0, weights)
    triangle = _triangle(np.sqrt(weights)[:, None] * X)
    _, roots, vectors = np.linalg.svd(triangle)  # with all digits of the small ones
    lam, V = roots[::-1] ** 2, vectors[::-1].T
    met = np.abs(V[:, _changed(lam, count)].T @ off[rows]).max(initial=0.0)
    left = float(np.abs(off[equations]).max(initial=0.0)), float(met)
    return _Look(lam, V, off[rows], 1.0 / unit[rows], slopes, left, p, X)


def _triangle(X: Array) -> Array:
    """R of X = Q R, by modified Gram-Schmidt: as exact as by reflections (Björck, Paige 1992, SIAM
    Journal on Matrix Analysis and Applications 13:176), and without BLAS, whose threads spin for
    longer than all of this takes."""
    rest, R = np.array(X, order="F"), np.zeros((X.shape[1], X.shape[1]))
    for k in range(len(R)):
        R[k, k:] = np.einsum("i,ij->j", rest[:, k], rest[:, k:])
        R[k, k:] /= max(np.sqrt(R[k, k]), 1e-300)
        if R[k, k] > 0.0:
            rest[:, k + 1 :] -= np.multiply.outer(rest[:, k] / R[k, k], R[k, k + 1 :])
    return R


def _factors(problem: Discretisation, jacobian: Any, weights: Array, equations: _Flags) -> Any:
    """Factors of the projection onto the null space of the equations."""
    entries, nothing = jacobian.tocoo(), np.zeros(0, dtype=np.int32)
    i, j = (each.astype(np.int32) for each in entries.coords)
    return Kkt(
        hessian=(nothing, nothing, np.zeros(0)),
        jacobian=(i, j, entries.data),
        stiffness=weights,
        softness=np.where(equations, 0.0, np.inf),
        stages=problem.layout.stages(),
    ).factorised()


def _shares(problem: Discretisation) -> Array:
    """Share of each variable in the time of its trial; 1 for parameters and durations."""
    layout = problem.layout
    found = np.ones(layout.n_variables)
    for trial, grid in enumerate(layout.grids):
        within = np.diff(grid) / (grid[-1] - grid[0])
        around = 0.5 * (np.append(within, 0.0) + np.append(0.0, within))
        for block, rows in layout.rows(found, trial):
            rows[:] = around if block.place is None else within
    return found


def _null(looks: Sequence[_Look]) -> _Flags:
    """Mask of eigenvalues on the finest grid that may be zero in the limit: they fall with the
    grid, or are rounding errors, on which no two grids agree."""
    if not looks:
        return np.zeros(0, dtype=bool)
    last = looks[-1].lam
    small = last < _SMALL
    if len(looks) < 2:
        return small
    ratio = last / np.maximum(looks[-2].lam, np.finfo(float).tiny)
    by_rounding = (last < _ROUNDING[0]) & (np.abs(np.log(np.maximum(ratio, 1e-300))) > _AGREEING)
    return small & ((ratio < _FALLS) | by_rounding | (last < _ROUNDING[1]))


def _within(look: _Look, null: _Flags) -> Array:
    """Violation of conditions within the combinations that nothing can change."""
    space = look.V[:, null]
    return np.asarray(space @ (space.T @ look.off))


def _limit(course: Array) -> Array:
    """Limit of values on three grids, (3, k), as these become finer (Aitken's extrapolation); zero
    where they fall to next to nothing. Values of one grid, (1, k), are returned as they are."""
    size = float(np.linalg.norm(course[-1]))
    if size <= _AGREES:
        return np.zeros_like(course[-1])
    if len(course) < _GRIDS:
        return np.asarray(course[-1])
    first, second, last = course @ (course[-1] / size)
    fell, falls = first - second, second - last
    if abs(falls) < _SHARE * abs(last):  # it stays
        return np.asarray(course[-1])
    bend = fell - falls
    limit = last - falls**2 / bend if abs(bend) > 1e-3 * abs(fell) else last
    if abs(limit) <= _SHARE * size:
        return np.zeros_like(course[-1])
    return np.asarray(limit / size * course[-1])


def _contradiction(names: Sequence[str], rest: Array, size: Array, facts: _Flags) -> str:
    weights = np.abs(rest)
    i = int(np.argmax(np.where(facts, _FACT, 1.0) * weights))
    off = float(rest @ rest / weights[i] * size[i])
    part = _PART * float(weights.max())
    taking = [n for n, w in zip(names, weights, strict=True) if w > part and n != names[i]]
    return (
        f"{names[i]} contradicts {some(taking) or 'the equations'}: along every motion they are "
        f"bound together, as by what is conserved, and it is off by {off:.4g} where the others "
        "hold; one of them must go, or needs another value"
    )


def _following(rows: _Index, names: Sequence[str], space: Array, facts: _Flags) -> Bound:
    """Conditions that follow from others. space : combinations that nothing changes, (m, k); those
    of the largest volume in it are left out."""
    weighed = space * np.where(facts, _FACT, 1.0)[:, None]
    _, _, order = qr(weighed.T, pivoting=True, mode="economic")
    chosen = np.sort(order[: space.shape[1]])
    left_out = [int(rows[i]) for i in chosen]
    if len(chosen) > 1:
        words = f"{some([names[i] for i in chosen])} follow from the others along every motion"
        return Bound(left_out, [words])
    i, part = chosen[0], np.abs(space[:, 0])
    others = [n for j, n in enumerate(names) if j != i and part[j] > _PART * part.max()]
    words = f"{names[i]} follows from {some(others) or 'the others'} along every motion"
    return Bound(left_out, [words])


def _at_start(problem: Discretisation, i: int) -> bool:
    """Whether a condition concerns a start alone."""
    layout = problem.layout
    trial, family, *_ = layout.locate_constraint(i)
    structure = problem.nlp.jacobian_structure.arrays()
    about = structure[1][structure[0] == i]
    stages = layout.stages()
    own = stages[about][stages[about] >= 0]
    return family == "ends" and bool((own == stages[layout.offsets[trial]]).all())


def apart(problem: Discretisation, bound: Bound, z: Array, room: float) -> Discretisation:
    """Problem with slack in redundant conditions, a share of their sizes at z; with the same
    library."""
    scaled = abs(problem.constraint_jacobian(z)) @ diags_array(sizes(problem, z))
    found = list[Loosened]()
    for i in bound.left_out:
        trial, family, label, _ = problem.layout.locate_constraint(i)
        found.append((trial, family, label, room * float(scaled[[i]].max())))
    return problem.loosen(found) if found else problem


def notes_on_apart(problem: Discretisation, z: Array) -> list[str]:
    """A sentence on the conditions that a problem leaves out, and how far z meets them."""
    if not problem.per_trial.loosened:
        return []
    offsets, low = problem.layout.constraint_offsets, problem.constraint_bounds[0]
    rows = [
        offsets[trial, family] + label for trial, family, label, _ in problem.per_trial.loosened
    ]
    room = np.array([room for *_, room in problem.per_trial.loosened])
    off = np.abs(problem.constraints(z)[rows] - low[rows] - room).max()
    names = some([condition_name(problem, i) for i in rows])
    follow, was, are = (("follow", "they were", "are"), ("follows", "it was", "is"))[len(rows) == 1]
    return [
        f"{names} {follow} from the other conditions along every motion, but on a grid only up to "
        f"its error: {was} left out, and {are} off by at most {off:.2g}"
    ]
