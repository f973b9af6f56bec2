"""The paths of muscles: lengths and moment arms in many poses at once, and polynomials for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from kinesym.base.quiet import warn
from kinesym.models.files.description import Description, Frame, MuscleRow, PathPoint, Wrap
from kinesym.models.files.expressions import identifier
from kinesym.models.files.fits import PathFit, fitted
from kinesym.models.files.plausible import doubts
from kinesym.models.files.poses import Place, Poses, on
from kinesym.models.files.wrapping import Touch, around
from kinesym.symbolic.multibody.muscles import Muscle
from kinesym.symbolic.names import check_known, name_of

Array = NDArray[np.float64]
#: Error of lengths and moment arms that a polynomial may have [m].
TOLERANCE = 1e-3
#: End of a range of a coordinate from which on it counts as none [rad, m].
_FAR = 20.0
#: Step of differences for moment arms [rad, m].
_STEP = 1e-5
#: Difference of the slopes at both sides that counts as a jump [m].
_JUMP = 0.03
#: Number of times that surfaces are gone through, at most.
_ROUNDS = 10
#: Change of length that ends it [m].
_SETTLED = 1e-10
#: Distance beyond its range at which a conditional point is kept [rad, m].
_SLACK = 1e-5


@dataclass(frozen=True, kw_only=True)
class FittedMuscle(Muscle):
    """A muscle of a file, whose length is a polynomial. fit : how good that is."""

    fit: PathFit

    def slope(self, q: sp.Expr) -> sp.Expr:
        """The derivative of the length with respect to a coordinate."""
        return self.fit.slopes.get(name_of(q), sp.S.Zero)

    def __str__(self) -> str:
        return f"{self.name}: {self.fit}"


@dataclass(frozen=True)
class MusclePath:
    """Path of a muscle from point to point, around wrap surfaces.

    row : the muscle as the file has it. poses : of the bodies. ranges : of coordinates [rad, m].
    """

    row: MuscleRow
    poses: Poses
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def frames(self) -> list[Frame]:
        """Frames of points, then of surfaces."""
        points = [point.frame for point in self.row.points]
        return points + [wrap.frame for wrap in self.row.wraps]

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates that the length may depend on."""
        joints = self.poses.spanned(frame.body for frame in self.frames)
        names = [
            name
            for joint in joints
            for motion in (*joint.rotations, *joint.translations)
            for name in motion.coordinates
        ]
        for point in self.row.points:
            names += [name for move in point.moves for name in move.coordinates]
            names += [point.when[0]] if point.when else []
        return tuple(self.poses.coordinates(names))

    def poses_of(self, q: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """The coordinates of the path as rows (N,)."""
        rows = {}
        for name in self.coordinates:
            check_known(name, q, f"the path of {self.row.name} needs the coordinate {name}")
            rows[name] = np.atleast_1d(np.asarray(q[name], dtype=np.float64))
        said = doubts({name: rows[name] for name in rows if name in self.poses.angles}, self.ranges)
        if said:
            warn(f"{self.row.name}: {said}", stacklevel=3)
        if len({row.shape for row in rows.values()}) > 1 or any(r.ndim > 1 for r in rows.values()):
            raise ValueError(
                f"coordinates of the path of {self.row.name} must be rows of one length"
            )
        return rows

    def lengths(self, q: Mapping[str, ArrayLike]) -> Array:
        """Lengths (N,) [m] for these coordinates (N,) [rad, m], all that the path has.

        Warns of angles that look like degrees, or have the other sign than their range. Raises
        `ValueError` for coordinates that are missing or no rows of numbers.
        """
        return self._lengths(self.poses_of(q))

    def _lengths(self, q: Mapping[str, Array]) -> Array:
        """Lengths (N,) [m] for rows (N,) of all coordinates of the path."""
        count = len(next(iter(q.values()))) if q else 1
        places = self.poses.places([frame.body for frame in self.frames], q)
        points = [self.point(p, places, q, count) for p in self.row.points]
        present = np.stack([self.present(p, q, count) for p in self.row.points], axis=1)
        surfaces = [(wrap, *on(places[wrap.frame.body], wrap.frame)) for wrap in self.row.wraps]
        result = np.empty(count)
        left = np.arange(count)
        while left.size:  # to sort rows takes long
            some = present[left[0]]
            same = np.all(present[left] == some, axis=1)
            rows, left = left[same], left[~same]
            nodes = [_Node(points[k][rows], k) for k in np.flatnonzero(some).tolist()]
            result[rows] = taut(nodes, [(w, (R[rows], o[rows])) for w, R, o in surfaces])
        return result

    def moment_arms(self, q: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """Minus the derivatives of the length (N,) by the name of the coordinate [m, or 1]; of one
        side where the length jumps."""
        rows = self.poses_of(q)
        here, found = self._lengths(rows), {}
        # Both sides by all coordinates at once: calls take longer than numbers
        moved = [(name, step) for name in rows for step in (-_STEP, _STEP)]
        every = {
            name: np.concatenate([row + step * (name == other) for other, step in moved])
            for name, row in rows.items()
        }
        sides = self._lengths(every).reshape(len(rows), 2, len(here)) if rows else ()
        for name, (low, high) in zip(rows, sides, strict=True):
            before, after = (low - here) / _STEP, (here - high) / _STEP
            least = np.where(np.abs(before) < np.abs(after), before, after)
            jumps = np.abs(before - after) > _JUMP
            found[name] = np.where(jumps, least, 0.5 * (before + after))
        return found

    def fit(
        self,
        tolerance: float = TOLERANCE,
        degree: int | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        **changes: Any,
    ) -> FittedMuscle:
        """The muscle with a polynomial of the coordinates as its length; see `fit_muscles`."""
        known = {**self.ranges, **({} if ranges is None else ranges)}
        chosen = {}
        for name in self.coordinates:
            low, high = known.get(name, (-np.inf, np.inf))
            if not -_FAR <= low < high <= _FAR:
                raise ValueError(
                    f"muscle {self.row.name}: the range of {name} is {low:g} ... {high:g}; "
                    f"give ranges={{{name!r}: (low, high)}}"
                )
            chosen[name] = (float(low), float(high))
        found = fitted(self.lengths, self.moment_arms, chosen, tolerance, degree)
        arguments = {**self.row.numbers, "length": found.length, **changes}
        return FittedMuscle(identifier(self.row.name), fit=found, **arguments)

    def point(
        self, p: PathPoint, places: Mapping[str | None, Place], q: Mapping[str, Array], count: int
    ) -> Array:
        """Place of a point (N, 3)."""
        rotation, origin = on(places[p.frame.body], p.frame)
        at = np.tile(np.array(p.at), (count, 1))
        for move in p.moves:
            value = self.poses.evaluated(self.poses.value(move.function, move.coordinates), q)
            at = at + np.broadcast_to(value, count)[:, None] * np.array(move.direction)
        return origin + np.einsum("nij,nj->ni", rotation, at)

    def present(self, p: PathPoint, q: Mapping[str, Array], count: int) -> NDArray[np.bool_]:
        """Mask of the poses in which the path has a point (N,)."""
        if p.when is None:
            return np.ones(count, dtype=bool)
        name, low, high = p.when
        value = np.broadcast_to(self.poses.evaluated(self.poses.values[name], q), count)
        return (value >= low - _SLACK) & (value <= high + _SLACK)


@dataclass(frozen=True)
class _Node:
    """A point of a string (n, 3). number : its number in the file, or that of the surface that it
    is on. arc : None, or the length on the surface from the point before (n,)."""

    at: Array
    number: int
    surface: int | None = None
    arc: Array | None = None

    def of(self, rows: NDArray[np.bool_]) -> _Node:
        """Some of them."""
        arc = None if self.arc is None else self.arc[rows]
        return replace(self, at=self.at[rows], arc=arc)


def taut(nodes: Sequence[_Node], surfaces: Sequence[tuple[Wrap, Place]]) -> Array:
    """Lengths of strings through points and around surfaces, one after the other and again until
    none changes."""
    length = _length(nodes)
    groups: list[_Group] = [(np.arange(len(length)), list(nodes), list(surfaces))]
    for _ in range(_ROUNDS if len(surfaces) > 1 else len(surfaces)):
        for k in range(len(surfaces)):
            groups = [part for group in groups for part in _wrapped(k, *group)]
        moving = []
        for group in groups:
            rows, before = group[0], length[group[0]]
            length[rows] = _length(group[1])
            some = np.abs(length[rows] - before) >= _SETTLED
            moving += [_some(group, some)] if some.any() else []
        groups = moving
    return length


def _length(nodes: Sequence[_Node]) -> Array:
    """Length of the whole string."""
    total = np.zeros(len(nodes[0].at))
    for a, b in pairwise(nodes):
        total = total + (np.linalg.norm(b.at - a.at, axis=1) if b.arc is None else b.arc)
    return total


_Group = tuple[NDArray[np.intp], list[_Node], list[tuple[Wrap, Place]]]


def _some(group: _Group, chosen: NDArray[np.bool_]) -> _Group:
    """Some strings of a group."""
    rows, nodes, surfaces = group
    left = [(wrap, (R[chosen], o[chosen])) for wrap, (R, o) in surfaces]
    return rows[chosen], [node.of(chosen) for node in nodes], left


def _wrapped(
    k: int, rows: NDArray[np.intp], nodes: list[_Node], surfaces: list[tuple[Wrap, Place]]
) -> Iterator[_Group]:
    """The strings after surface k has had its say, in groups of those that touch it between the
    same points."""
    nodes = [node for node in nodes if node.surface != k]
    wrap, (rotation, origin) = surfaces[k]
    local = [np.einsum("nji,nj->ni", rotation, node.at - origin) for node in nodes]
    chosen, least = np.full(len(rows), -1), np.full(len(rows), np.inf)
    touches: dict[int, Touch] = {}
    for j in _segments(nodes, wrap):
        found = touches[j] = around(wrap, local[j], local[j + 1])
        longer = found.arc + sum(
            np.linalg.norm(a - b, axis=1)
            for a, b in ((found.first, local[j]), (local[j + 1], found.last))
        )
        longer = longer - np.linalg.norm(local[j + 1] - local[j], axis=1)
        # The first segment that goes through a surface is the one that touches it
        longer = np.where(found.needed, -1.0, longer)
        better = found.touches & (longer < least)
        chosen, least = np.where(better, j, chosen), np.where(better, longer, least)
    for j in np.unique(chosen):
        some = chosen == j
        numbers, part, left = _some((rows, nodes, surfaces), some)
        if j >= 0:
            ends = [
                origin[some] + np.einsum("nij,nj->ni", rotation[some], at[some])
                for at in (touches[j].first, touches[j].last)
            ]
            arc = touches[j].arc[some]
            part[j + 1 : j + 1] = [_Node(ends[0], k, k), _Node(ends[1], k, k, arc)]
        yield numbers, part, left


def _segments(nodes: Sequence[_Node], wrap: Wrap) -> Iterator[int]:
    """Numbers of the straight segments that may touch a surface, by that of their first node."""
    low, high = wrap.span or (0, 10**6)
    inside = [j for j, n in enumerate(nodes) if n.surface is None and low <= n.number <= high]
    for j in range(inside[0], inside[-1]) if inside else ():
        if nodes[j + 1].arc is None:
            yield j


# -- all muscles of a tree ------------------------------------------------------------------------


def paths_of(
    description: Description,
    fixed: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
) -> dict[str, MusclePath]:
    """Paths of the muscles of a file by name. fixed : values of coordinates that stay. ranges : of
    coordinates [rad, m]; both by identifier."""
    rows = description.coordinates
    stay = {name: fixed[key] for name in rows if (key := identifier(name)) in fixed}
    poses = Poses(description, stay)
    return {row.name: MusclePath(row, poses, ranges) for row in description.muscles}
