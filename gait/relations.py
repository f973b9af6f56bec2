"""Joint centres and segment axes from markers, by relations that are declared, not programmed.

A position is the name of a marker, or of a point of the model that was declared before, or one of
`Midpoint`, `Shifted`, `Chord`, `Carried` of them, or a `FunctionalCentre`. Axes are declared by two
directions: `Axes` of their owner. Everything is evaluated over all instants at once; positions are
(3, N) in world axes, x forwards, y to the left, z up [m], axes are (3, 3, N), columns are the unit
vectors u, v, w.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from kinesym.base.checks import (
    Named,
    Renamed,
    check_kind,
    check_text,
    listed,
    mapping,
    naming,
    pair,
    positive,
    shown,
    suggest,
)
from kinesym.runtime.arrays import Array, real_array


@dataclass(frozen=True)
class Midpoint:
    """The mean of positions."""

    of: Sequence[Position]

    def __post_init__(self) -> None:
        if not isinstance(self.of, (list, tuple)) or not self.of:
            raise ValueError(f"Midpoint needs a list of positions, got {shown(self.of)}")
        for position in self.of:
            _check_position(position)


@dataclass(frozen=True)
class Shifted:
    """A position moved by a constant vector in given axes, in m or, with a scale, in multiples of
    the mean distance between two positions."""

    position: Position
    by: tuple[float, float, float]
    axes: Orientation
    scale: tuple[Position, Position] | None = None

    def __post_init__(self) -> None:
        _check_position(self.position)
        if real_array(self.by, "the vector of a shift").shape != (3,):
            raise ValueError(f"a shift is by three numbers, got {shown(self.by)}")
        _check_axes(self.axes)
        if self.scale is not None:
            _check_direction(self.scale)


@dataclass(frozen=True)
class Chord:
    """The centre of a joint in the conventional gait model (Kadaba et al. 1990, J Orthop Res
    8:383): `distance` [m] from a lateral marker, where the lines to it and to the proximal centre
    are at right angles, in the plane of a third marker and on the other side of it."""

    marker: Position
    proximal: Position
    plane: Position
    distance: float

    def __post_init__(self) -> None:
        for position in (self.marker, self.proximal, self.plane):
            _check_position(position)
        positive(self.distance, "the distance of a chord")


@dataclass(frozen=True)
class Axes:
    """Axes from two directions, each from one position to another; "up" is the vertical.

    Give two of x (forwards), y (to the left), z (up); `first` is kept, the other one made
    normal to it.
    """

    first: str
    x: Direction | None = None
    y: Direction | None = None
    z: Direction | None = None

    def __post_init__(self) -> None:
        given = [letter for letter in "xyz" if getattr(self, letter) is not None]
        if len(given) != 2 or self.first not in given:
            raise ValueError(f"axes need two directions, one of them first, got {self}")
        for letter in given:
            _check_direction(getattr(self, letter))


@dataclass(frozen=True)
class Carried:
    """A position or axes as they were in the calibration trial, moved with markers that are on the
    same segment: the rigid motion that fits these best (Kabsch 1976)."""

    what: Position | Orientation
    cluster: Sequence[str]

    def __post_init__(self) -> None:
        if len(set(map(str, listed(self.cluster, "the cluster of what is carried")))) < 3:
            raise ValueError(f"a cluster needs at least three markers, got {self.cluster}")


@dataclass(frozen=True)
class FunctionalCentre:
    """A centre of a joint as `functional_centre` finds it: a position that moves with markers.

    cluster : names of markers. shape : their positions, and position : that of the centre, in axes
    of their segment [m]. residual : rms distance of the two segments, or of spheres, there [m].
    """

    cluster: tuple[str, ...]
    shape: tuple[tuple[float, float, float], ...]
    position: tuple[float, float, float]
    residual: float = 0.0

    def __post_init__(self) -> None:
        if real_array(self.shape, "the shape of a cluster").shape != (len(self.cluster), 3):
            raise ValueError(f"each of {', '.join(self.cluster)} needs a place of three numbers")


@dataclass(frozen=True)
class Like:
    """The axes of a segment that was declared before."""

    segment: str

    def __post_init__(self) -> None:
        check_text(self.segment, "the segment of Like")


Position: TypeAlias = "str | Midpoint | Shifted | Chord | Carried | FunctionalCentre"
Direction: TypeAlias = "tuple[Position, Position] | str"
Orientation: TypeAlias = "Axes | Carried | Like"


@dataclass(frozen=True)
class Relations(Renamed, renamed={"places": "points"}):
    """Relations between a set of markers and the points and segments of a model.

    points : point -> position, in an order in which each uses only earlier ones and markers.
    axes : segment -> axes; they may use all positions, a `Shifted` position axes of segments.
    Points that are not named keep their position in the segment that owns them.
    """

    points: Mapping[str, Position] = field(default_factory=dict)
    axes: Mapping[str, Orientation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for check, kind, declared in (
            (_check_position, "point", mapping(self.points, "points")),
            (_check_axes, "segment", mapping(self.axes, "axes")),
        ):
            for name, what in declared.items():
                with naming(f"{kind} {name!r}"):
                    check(what)


def _check_position(what: Any) -> None:
    if not isinstance(what, str | Midpoint | Shifted | Chord | Carried | FunctionalCentre):
        raise ValueError(
            "a position is the name of a marker or point, Midpoint, Shifted, Chord, Carried or "
            f"FunctionalCentre, got {shown(what)}"
        )


def _check_axes(what: Any) -> None:
    if not isinstance(what, Axes | Carried | Like):
        raise ValueError(f"axes are Axes, Carried or Like, got {shown(what)}")


def _check_direction(what: Any) -> None:
    if what == "up":
        return
    for position in pair(what, 'a direction is a pair of positions or "up"'):
        _check_position(position)


@dataclass(frozen=True, eq=False)
class Trial:
    """Markers of a trial, (3, N) each, and those of its calibration, (3,) each."""

    markers: Mapping[str, Array]
    calibration: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mapping(self.markers, "the markers of a trial")
        mapping(self.calibration, "the calibration of a trial")


@dataclass(frozen=True, eq=False)
class Landmarks(Renamed, renamed={"places": "points"}):
    """Landmarks at N instants: points (3, N) [m] by name, axes (3, 3, N) by segment."""

    points: Mapping[str, Array]
    axes: Mapping[str, Array]


def _parts_of(relation: Any) -> list[Any]:
    """Parts of a relation, or of some by name."""
    if isinstance(relation, Mapping):
        return [*relation.values()]
    if dataclasses.is_dataclass(relation):
        return [getattr(relation, f.name) for f in dataclasses.fields(relation)]
    return [*relation] if isinstance(relation, (tuple, list)) else []


def names_in(relation: Any) -> set[str]:
    """Names of all markers, points and segments that a relation uses."""
    if isinstance(relation, str):
        return {relation}
    return {name for part in _parts_of(relation) for name in names_in(part)}


def names_seen(relation: Any) -> set[str]:
    """Names that a trial must show: those of a relation less what is carried from its
    calibration."""
    if isinstance(relation, Carried):
        return set(map(str, relation.cluster))
    if isinstance(relation, str):
        return {relation}
    return {name for part in _parts_of(relation) for name in names_seen(part)}


def clusters_in(relation: Any) -> list[Sequence[str]]:
    """Clusters of markers by which positions or axes are carried."""
    carries = isinstance(relation, Carried | FunctionalCentre)
    inside = [cluster for part in _parts_of(relation) for cluster in clusters_in(part)]
    return [relation.cluster, *inside] if carries else inside


def landmarks(relations: Relations, trial: Trial) -> Landmarks:
    """Evaluate all relations over a trial.

    Raises `ValueError` for a marker or segment that is missing in the trial or, where something is
    carried, in its calibration.
    """
    check_kind(relations, Relations, "kinesym.gait")
    check_kind(trial, Trial, "kinesym.gait")
    return _Evaluation(relations, trial).all()


def is_line(points: Array) -> bool:
    """Whether points (K, 3) are so few, or so near to one line, that they hold no axes."""
    sizes = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return len(points) < 3 or bool(sizes[1] <= 1e-3 * sizes[0])


def rigid_motion(before: Array, after: Array) -> tuple[Array, Array]:
    """The rotation (3, 3, N) and centre (3, N) that move points (K, 3) best onto (K, 3, N).

    Raises `ValueError` for collinear points, which determine no rotation.
    """
    if is_line(before):
        raise ValueError("its markers are collinear or coincide")
    arms = before - before.mean(axis=0)
    centre = after.mean(axis=0)
    crossed = np.einsum("ki,kjn->nij", arms, after - centre)
    U, _, Vt = np.linalg.svd(crossed)
    sign = np.linalg.det(Vt.transpose(0, 2, 1) @ U.transpose(0, 2, 1))
    flip = np.ones((len(sign), 3))
    flip[:, 2] = np.sign(sign)
    return np.einsum("nki,nk,njk->ijn", Vt, flip, U), centre


class _Evaluation:
    """Evaluates positions and axes of relations when they are first needed."""

    def __init__(self, relations: Relations, trial: Trial, name: str = "trial") -> None:
        self._relations, self._trial, self._name = relations, trial, name
        self._found: dict[tuple[str, str], Array] = {}
        self._open: list[tuple[str, str]] = []

    def all(self) -> Landmarks:
        for name in self._relations.points:
            if name in self._trial.markers:
                raise ValueError(f"{name!r} is a marker and a point of the relations; rename one")
        positions = {name: self.position(name) for name in self._relations.points}
        axes = {name: self.axes(Like(name)) for name in self._relations.axes}
        return Landmarks(Named("point", positions), Named("segment", axes))

    def position(self, what: Position) -> Array:
        if isinstance(what, str):
            return self._named(what)
        if isinstance(what, Midpoint):
            return np.mean([self.position(part) for part in what.of], axis=0)
        if isinstance(what, Shifted):
            length = 1.0
            if what.scale is not None:
                ends = [self.position(end) for end in what.scale]
                length = float(np.mean(np.linalg.norm(ends[1] - ends[0], axis=0)))
            shift = length * np.array(what.by)
            moved = np.einsum("ijn,j->in", self.axes(what.axes), shift)
            return self.position(what.position) + moved
        if isinstance(what, Chord):
            return self._chord(what)
        if isinstance(what, FunctionalCentre):
            shape, after = np.array(what.shape), np.array([self.position(n) for n in what.cluster])
            turn, centre = rigid_motion(shape, after)
            return centre + np.einsum("ijn,j->in", turn, what.position - shape.mean(axis=0))
        if self._name == "calibration":  # nothing has moved yet
            return self.position(what.what)  # type: ignore[arg-type]
        still, turn, centre, middle = self._carrier(what.cluster)
        arm = still.position(what.what)[:, 0] - middle  # type: ignore[arg-type]
        return centre + np.einsum("ijn,j->in", turn, arm)

    def _chord(self, what: Chord) -> Array:
        start, proximal, plane = map(self.position, (what.marker, what.proximal, what.plane))
        length = np.linalg.norm(proximal - start, axis=0)
        if not (length > what.distance).all():
            raise ValueError(f"{what}: its marker is nearer to the proximal centre than that")
        along = (proximal - start) / length
        aside = plane - start - along * np.sum(along * (plane - start), axis=0)
        aside = -aside / np.maximum(np.linalg.norm(aside, axis=0), 1e-9)
        cosine = what.distance / length
        return start + what.distance * (cosine * along + np.sqrt(1.0 - cosine**2) * aside)

    def axes(self, what: Orientation) -> Array:
        if isinstance(what, Like):
            return self._once("segment", what.segment, self._relations.axes, self.axes)
        if isinstance(what, Axes):
            return self._triad(what)
        if self._name == "calibration":
            return self.axes(what.what)  # type: ignore[arg-type]
        still, turn, _, _ = self._carrier(what.cluster)
        return np.einsum("ijn,jk->ikn", turn, still.axes(what.what)[..., 0])  # type: ignore[arg-type]

    def _named(self, name: str) -> Array:
        if name in self._trial.markers:
            return np.asarray(self._trial.markers[name], dtype=np.float64)
        return self._once("marker", name, self._relations.points, self.position)

    def _once(
        self, kind: str, name: str, declared: Mapping[str, Any], evaluate: Callable[[Any], Array]
    ) -> Array:
        """A named relation, evaluated once."""
        key = (kind, name)
        if key not in self._found:
            if name not in declared or key in self._open:
                raise ValueError(self._missing(kind, name, declared))
            self._open.append(key)
            self._found[key] = evaluate(declared[name])
            self._open.remove(key)
        return self._found[key]

    def _missing(self, kind: str, name: str, declared: Mapping[str, Any]) -> str:
        if (kind, name) in self._open:
            names = ", ".join(dict.fromkeys(each for _, each in self._open))
            return f"the relations of {names} need each other"
        known = [*self._trial.markers, *declared] if kind == "marker" else [*declared]
        where = f" (needed by {self._open[-1][1]})" if self._open else ""
        never = ", or was never seen in it" if self._name == "calibration" else ""
        return f"{kind} {name!r} is not in the {self._name}{never}{where}; {suggest(name, known)}"

    def _carrier(self, cluster: Sequence[str]) -> tuple[_Evaluation, Array, Array, Array]:
        """The calibration, the motion of a cluster since then, and its centre there."""
        known = self._trial.calibration
        if not known:
            raise ValueError(
                f"what the cluster {', '.join(cluster)} carries needs a calibration trial: "
                "calibration={marker: position}, such as read_places gives"
            )
        positions = {
            name: np.asarray(position).reshape(3, 1)
            for name, position in known.items()
            if np.isfinite(position).all()
        }
        still = _Evaluation(self._relations, Trial(positions), "calibration")
        before = np.array([still.position(name)[:, 0] for name in cluster])
        after = np.array([self.position(name) for name in cluster])
        with naming(f"the cluster {', '.join(cluster)} determines no rotation"):
            turn, centre = rigid_motion(before, after)
        return still, turn, centre, before.mean(axis=0)

    def _triad(self, axes: Axes) -> Array:
        given = [letter for letter in "xyz" if getattr(axes, letter) is not None]
        (second,) = set(given) - {axes.first}
        first, other = (self._direction(getattr(axes, each)) for each in (axes.first, second))
        length = np.linalg.norm(first, axis=0)
        if (length < 1e-6).any():
            raise ValueError(f"the direction {axes.first} of {axes} has no length")
        first = first / length
        other = other - first * np.sum(first * other, axis=0)
        size = np.linalg.norm(other, axis=0)
        if (size < 1e-6).any():
            raise ValueError(f"the directions of {axes} are parallel")
        unit = {axes.first: first, second: other / size}
        (third,) = set("xyz") - set(unit)
        k = "xyz".index(third)
        unit[third] = np.cross(unit["xyz"[k - 2]], unit["xyz"[k - 1]], axis=0)
        rows = np.broadcast_arrays(*(unit[letter] for letter in "xyz"))
        return np.stack(rows, axis=1)

    def _direction(self, direction: Direction) -> Array:
        if not isinstance(direction, str):
            return self.position(direction[1]) - self.position(direction[0])
        return np.array([[0.0], [0.0], [1.0]])  # up
