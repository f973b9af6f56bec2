"""Closed loops: conditions between bodies of a tree, and the forces that keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any, Protocol, TypeVar

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_choice, check_identifier
from kinesym.symbolic.derivation import Program, jacobian_at, values_at
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.multibody.bodies import Load
from kinesym.symbolic.multibody.joints import normalised, unit
from kinesym.symbolic.multibody.links import Link
from kinesym.symbolic.multibody.passes import Frame, Recursion, kinematics
from kinesym.symbolic.multibody.vectors import AXES, IDENTITY, ZERO, Matrix, Steps, Vector
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.structure import Matrix as Numbers
from kinesym.symbolic.structure import rank

Tree = TypeVar("Tree", bound="OpenTree")

#: Newton's method that closes loops: number of starts at most.
_STARTS = 20
#: Newton's method: number of steps of a start at most.
_STEPS = 60
#: Newton's method: longest step [rad, m].
_FARTHEST = 0.5
#: Newton's method: gap that counts as closed [rad, m].
_CLOSED = 1e-9
#: Number of closed positions at which redundant conditions are looked for.
_PLACES = 3
#: Length of the independent part of a normalised row below which it counts as redundant there.
_DEPENDENT = 1e-7
#: Number of choices of conditions that are compared, at most.
_CHOICES = 500
#: Number of steps that a mechanism is moved for that.
_MOVES = 30
#: Length of each of these steps [rad, m].
_MOVE = 0.25
#: Kinds of closures, by the relative motion that they forbid.
KINDS = ("point", "hinge", "weld", "rolling")


class OpenTree(Protocol):
    """Protocol of a tree of bodies for conditions of loops, see `Mechanism`."""

    @property
    def name(self) -> str: ...
    @property
    def values(self) -> Mapping[str, float]: ...
    @property
    def locked(self) -> frozenset[str]: ...
    @property
    def links(self) -> tuple[Link, ...]: ...
    @property
    def coordinates(self) -> dict[str, AppliedUndef]: ...
    @property
    def speeds(self) -> dict[str, AppliedUndef]: ...
    @property
    def recursion(self) -> Recursion: ...
    def under(self: Tree, loads: Sequence[Load] = ()) -> Tree: ...
    def needed(self) -> dict[str, sp.Expr]: ...
    def frame(self, body: str | None) -> Frame: ...
    def attitude(self, body: str | None) -> Matrix: ...
    def place(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector: ...
    def velocity(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector: ...


@dataclass(frozen=True)
class Condition:
    """An expression that is zero, the multiplier that keeps it so, and what this does to bodies.

    expression : of coordinates, or of these and speeds. force : the multiplier, a function of time
    [N, N m]. loads : that it means, in world axes. holonomic : whether it is one of coordinates.
    along : what it means for speeds, by name, per unit of the force.
    """

    expression: sp.Expr
    force: AppliedUndef
    loads: tuple[Load, ...] = ()
    holonomic: bool = True
    along: Mapping[str, sp.Expr] = field(default_factory=dict)


@dataclass(frozen=True)
class Closure:
    """A connection of a body with another one, or with the base, that closes a loop.

    kind : "point", "hinge", "weld" or "rolling"; see `Tree.close`. at, to : the points that
    coincide, in the axes of either body [m]. axis, to_axis : of a hinge in those of either body, or
    of a wheel. attitude : of a weld, from axes of the body to those of the other. radius : of a
    wheel, from its centre `at` to the middle of its tyre [m]; crown : radius of the cross-section
    of the tyre [m]. name : its forces begin with it.

    Raises `ValueError` for what does not belong to its kind.
    """

    body: str
    other: str | None
    kind: str
    at: Vector
    to: Vector
    axis: Vector
    to_axis: Vector
    radius: sp.Expr
    crown: sp.Expr
    name: str
    attitude: Matrix = IDENTITY

    def __post_init__(self) -> None:
        check_choice(self.kind, KINDS, "the kind of a loop")
        check_identifier(self.name, "the name of a loop")
        where = f"loop at {self.body}"
        if self.body == self.other:
            raise ValueError(f"{where}: a body cannot be held by itself")
        if any(axis == ZERO for axis in (self.axis, self.to_axis)):
            raise ValueError(f"{where}: the axis is zero")
        wheel = self.kind == "rolling"
        if wheel and self.other is not None:
            raise ValueError(
                f"{where}: a wheel rolls on the plane z = 0 of the world, not on a body"
            )
        if wheel and not (self.radius.is_number is False or self.radius > 0):
            raise ValueError(f"{where}: a wheel has a radius > 0, got {self.radius}")
        if not wheel and (self.radius, self.crown) != (0, 0):
            raise ValueError(f"{where}: only a wheel, kind='rolling', has a radius")
        if self.kind != "weld" and self.attitude != IDENTITY:
            raise ValueError(f"{where}: only a weld has an attitude")

    def conditions(self, tree: OpenTree) -> list[Condition]:
        """Conditions of the closure, in terms of the intermediates of the tree."""
        if self.kind == "rolling":
            return _rolling(tree, self)
        turns = {"point": 0, "hinge": 2, "weld": 3}[self.kind]
        return [*_coincidence(tree, self), *_alignment(tree, self)[:turns]]


@dataclass(frozen=True)
class Coupling:
    """An expression of coordinates, or of these and linearly of speeds, that stays zero; `name` is
    that of its multiplier."""

    name: str
    expression: sp.Expr

    def conditions(self, tree: OpenTree) -> list[Condition]:
        """Conditions in terms of coordinates and speeds. Raises `ValueError` for speeds that are
        not linear, and where no coordinate and no speed is bound."""
        steps = tree.recursion.steps
        found = _spelled_out(steps, self.expression)
        speeds = tree.speeds
        holonomic = not found.has(*speeds.values())
        rate = found
        if holonomic:
            moving = {
                q: _spelled_out(steps, e)
                for link in tree.links  # a lock feels them, too
                for q, e in zip(link.q, kinematics(steps, link), strict=True)
            }
            rate = sp.Add(*(found.diff(q) * e for q, e in moving.items() if found.has(q)))
        along = {name: rate.diff(u) for name, u in speeds.items() if rate.has(u)}
        if not along:
            raise ValueError(f"constraint {self.name} has no coordinate and no speed that moves")
        if any(slope.has(*speeds.values()) for slope in along.values()):
            raise ValueError(f"constraint {self.name} is not linear in the speeds")
        force = sp.Function(self.name)(t)
        return [Condition(found, force, holonomic=holonomic, along=along)]


def _spelled_out(steps: Steps, expression: sp.Expr) -> sp.Expr:
    """An expression without intermediates."""
    while inner := expression.free_symbols & steps.definitions.keys():
        expression = expression.xreplace({s: steps.definitions[s] for s in inner})
    return expression


def _force(closure: Closure, suffix: str) -> AppliedUndef:
    return sp.Function(f"{closure.name}_{suffix}")(t)


def _coincidence(tree: OpenTree, closure: Closure) -> list[Condition]:
    """Two points are one; forces act on the body along axes of the world, `_fx`, `_fy`, `_fz`."""
    gap = tree.place(closure.body, closure.at) - tree.place(closure.other, closure.to)
    found = []
    for axis, distance in zip(AXES, gap, strict=True):
        force = _force(closure, f"f{axis}")
        push = force * unit(axis)
        loads = _pair(closure, force=push)
        found.append(Condition(distance, force, loads))
    return found


def _alignment(tree: OpenTree, closure: Closure) -> list[Condition]:
    """Axes of two bodies stay perpendicular; moments `_m1`, `_m2`, `_m3` act on the body about
    their common perpendicular."""
    outer_axes, inner_axes = _triad(closure.axis), _triad(closure.to_axis)
    ours = tree.attitude(closure.body)
    theirs = tree.attitude(closure.other) @ closure.attitude
    found = []
    for number, (a, b) in enumerate(((2, 0), (2, 1), (0, 1)), 1):
        moment = _force(closure, f"m{number}")
        outer, inner = ours @ outer_axes[a], theirs @ inner_axes[b]
        loads = _pair(closure, torque=moment * outer.cross(inner))
        found.append(Condition(outer @ inner, moment, loads))
    return found


def _rolling(tree: OpenTree, closure: Closure) -> list[Condition]:
    """A wheel touches the plane z = 0 of the world and does not slip, ahead and across.

    The contact is where the wheel is lowest: from its centre by the radius down in its plane, then
    by that of the cross-section of the tyre straight down. In axes of the world, those of two
    wheels on one axle would depend on each other in some headings but not in others.
    """
    up, down = unit("z"), -unit("z")
    axle = tree.attitude(closure.body) @ closure.axis
    sine = axle[2]
    cosine = sp.sqrt(1 - sine**2)
    ahead = (1 / cosine) * axle.cross(up)
    in_plane = down + sine * axle
    arm = (closure.radius / cosine) * in_plane + closure.crown * down
    centre = tree.place(closure.body, closure.at)
    spin = tree.attitude(closure.body) @ tree.frame(closure.body).angular
    slip = tree.velocity(closure.body, closure.at) + spin.cross(arm)
    at = closure.at + tree.attitude(closure.body).T @ arm
    found = []
    axes = (ahead, up.cross(ahead), up)
    gaps = (slip @ axes[0], slip @ axes[1], (centre + arm) @ up)
    for axis, direction, expression in zip(AXES, axes, gaps, strict=True):
        force = _force(closure, f"f{axis}")
        loads = (Load(closure.body, force * direction, at=at),)
        found.append(Condition(expression, force, loads, holonomic=axis == "z"))
    return found


def _pair(closure: Closure, force: Vector = ZERO, torque: Vector = ZERO) -> tuple[Load, ...]:
    """Action on the body, reaction on the other."""
    action = Load(closure.body, force, torque, closure.at)
    if closure.other is None:
        return (action,)
    return action, Load(closure.other, -force, -torque, closure.to)


def _triad(axis: Sequence[Any]) -> tuple[Vector, Vector, Vector]:
    """Three perpendicular axes, the third one this."""
    third = normalised(Vector(axis))
    helper = unit(AXES[min(range(3), key=lambda k: abs(third[k]))])
    first = normalised(third.cross(helper))
    return first, third.cross(first), third


# -- redundant conditions -------------------------------------------------------------------------


def independent_conditions(
    tree: OpenTree, conditions: Sequence[Condition]
) -> tuple[Condition, ...]:
    """Conditions from which the others follow where the loops are closed, in their order: those
    that are farthest from depending on one another at several places, along a motion too.

    There, what a force does to the speeds is a combination of what others do, if its condition
    follows from theirs. Raises `ValueError` if no place is found where the loops are closed.
    """
    if not conditions:
        return ()
    loads = [load for condition in conditions for load in condition.loads]
    loaded = tree.under(loads)
    pushed = pushes(conditions)
    effects = [
        e - pushed.get(name, 0) for name, e in loaded.needed().items() if name not in tree.locked
    ]
    program = loaded.recursion.steps.needed([*effects, *(c.expression for c in conditions)])
    forces = [condition.force for condition in conditions]
    rows = [condition.expression for condition in conditions if condition.holonomic]
    closing = loaded.recursion.steps.needed(rows)  # a small part of the program
    atoms = atoms_of(*(e for _, e in program), *(c.expression for c in conditions))
    own = sorted((atoms | set(forces)) - {symbol for symbol, _ in program}, key=str)
    names = [name_of(condition.force) for condition in conditions if condition.holonomic]
    places = _closed(loaded, dict(zip(names, rows, strict=True)), closing, own)
    matrices = [jacobian_at(effects, program, forces, place).T for place in places]
    found = _basis(matrices)
    if len(found) < len(conditions) and comb(len(conditions), len(found)) <= _CHOICES:
        regular = next((k for k, m in enumerate(matrices) if rank(m) == len(found)), 0)
        moved = _along_a_motion(rows, closing, [*tree.coordinates.values()], places[regular])
        matrices += [jacobian_at(effects, program, forces, place).T for place in moved]
        found = _most_regular([m for m in matrices if rank(m) == len(found)], found)
    return tuple(conditions[k] for k in sorted(found))


def pushes(conditions: Sequence[Condition]) -> dict[str, sp.Expr]:
    """Generalised forces of conditions that are no loads, by speed."""
    found: dict[str, sp.Expr] = {}
    for condition in conditions:
        for name, slope in condition.along.items():
            found[name] = found.get(name, sp.S.Zero) + slope * condition.force
    return found


def _basis(matrices: Sequence[Numbers]) -> list[int]:
    """Numbers of rows that span those of each of several matrices, the ones that are farthest from
    what is spanned by those before them, at the matrix where they are nearest; then those that are
    spanned at some matrices only, where a mechanism is singular."""
    sizes = np.max([np.linalg.norm(m, axis=1) for m in matrices], axis=0)
    least = max(_DEPENDENT * sizes.max(initial=0.0), 1e-300)  # below it there is rounding alone
    left = [m / np.maximum(sizes, least)[:, None] for m in matrices]
    found: list[int] = []
    for _ in range(len(sizes)):
        lengths = np.array([np.linalg.norm(m, axis=1) for m in left])
        lengths[:, found] = 0.0
        nearest = lengths.min(axis=0)
        if nearest.max() < _DEPENDENT:
            nearest = lengths.max(axis=0)
        if nearest.max() < _DEPENDENT:
            break
        best = int(np.argmax(nearest))
        found.append(best)
        along = [m[best] / max(np.linalg.norm(m[best]), 1e-300) for m in left]
        left = [m - np.outer(m @ d, d) for m, d in zip(left, along, strict=True)]
    return found


def _most_regular(matrices: Sequence[Numbers], found: list[int]) -> list[int]:
    """Choice of as many rows as `found`, the most regular one: its smallest singular value, at the
    matrix where it is smallest, is the largest. A choice that is good at one place may be dependent
    at another."""
    if not (matrices and found):
        return found
    sizes = np.max([np.linalg.norm(m, axis=1) for m in matrices], axis=0)
    rows = np.stack(matrices) / np.maximum(sizes, 1e-300)[:, None]
    choices = list(combinations(range(len(sizes)), len(found)))
    least = np.array(
        [np.linalg.svd(rows[:, chosen], compute_uv=False)[:, -1].min() for chosen in choices]
    )
    return [*choices[int(np.argmax(least >= 0.9 * least.max()))]]  # of alike ones the first


def _along_a_motion(
    rows: Sequence[sp.Expr],
    program: Program,
    coordinates: Sequence[sp.Basic],
    place: Mapping[sp.Basic, float],
) -> list[dict[sp.Basic, float]]:
    """Places that the closed mechanism comes through if it moves on, as straight as possible."""
    moving = [q for q in coordinates if q in place]
    found, point = list[dict[sp.Basic, float]](), dict(place)
    direction = np.random.default_rng(21).standard_normal(len(moving))
    for _ in range(_MOVES):
        slopes = jacobian_at(rows, program, moving, point)
        direction = direction - np.linalg.pinv(slopes, rcond=1e-8) @ (slopes @ direction)
        size = float(np.abs(direction).max(initial=0.0))
        if size < 1e-6:  # nothing moves
            break
        direction *= _MOVE / size
        point.update({q: point[q] + d for q, d in zip(moving, direction.tolist(), strict=True)})
        if not _converged(rows, program, moving, point):
            break
        found.append(dict(point))
    return found


def _closed(
    tree: OpenTree,
    conditions: Mapping[str, sp.Expr],
    program: Program,
    own: Sequence[sp.Basic],
) -> list[dict[sp.Basic, float]]:
    """Some places where the loops are closed, which is where the conditions, by name, are zero:
    values of all symbols in `own`. Parameters are those of the tree, others random; coordinates,
    and parameters without values, follow by Newton's method. Raises `ValueError` if there is none,
    with what is off at the nearest one."""
    rows, nearest = [*conditions.values()], np.full(len(conditions), np.inf)
    coordinates = {*tree.coordinates.values()}
    q = coordinates | {x for x in own if x.is_Symbol and x.name not in tree.values}
    unknown = [x for x in own if x in q]
    defaults = getattr(tree, "defaults", {})  # of a file
    random, places = np.random.default_rng(20), list[dict[sp.Basic, float]]()
    for start in range(_STARTS):
        numbers = random.uniform(0.5, 1.5, len(own))
        if start == 0:  # near the place in which the tree is drawn, not on any other branch
            drawn = np.array([defaults.get(str(getattr(x, "name", x)), 0.0) for x in own])
            numbers = np.where([x in coordinates for x in own], drawn + 0.2 * numbers, numbers)
        point = {x: tree.values.get(str(x), v) for x, v in zip(own, numbers.tolist(), strict=True)}
        if _converged(rows, program, unknown, point):
            places.append(point)
        elif np.abs(gap := values_at(rows, program, point)).max() < np.abs(nearest).max():
            nearest = gap
        if len(places) == _PLACES:
            return places
    if places:
        return places
    off = sorted(zip(map(abs, nearest.tolist()), conditions, strict=True), reverse=True)
    lacking = [f"{name} by {gap:.3g}" for gap, name in off if gap > _CLOSED]
    raise ValueError(
        f"{tree.name}: no place was found where its loops are closed; the nearest misses "
        f"{', '.join(lacking[:6])}: check lengths and points, and whether conditions contradict"
    )


def _converged(
    rows: Sequence[sp.Expr],
    program: Program,
    unknown: Sequence[sp.Basic],
    point: dict[sp.Basic, float],
) -> bool:
    """Whether Newton's method, with the shortest steps, ends; it changes the point."""
    for _ in range(_STEPS):
        gap = values_at(rows, program, point)
        closed = np.abs(gap).max(initial=0.0) < _CLOSED  # and one step more, for all digits
        slopes = jacobian_at(rows, program, unknown, point)
        if not np.isfinite(slopes).all():
            return False
        step = np.linalg.lstsq(slopes, -gap, rcond=1e-8)[0]
        step *= min(1.0, _FARTHEST / max(np.abs(step).max(initial=0.0), 1e-300))
        point.update({x: point[x] + d for x, d in zip(unknown, step.tolist(), strict=True)})
        if closed:
            return True
    return False
