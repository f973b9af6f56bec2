"""Segments of a body: rows of a table, each with its joint at a point of an earlier one.

Nothing here needs SymPy, so that what only computes can use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from kinesym.base.checks import check_text, finite, mapping, shown

Position: TypeAlias = tuple[float, float, float]
PlanarPosition: TypeAlias = tuple[float, float]

#: Relative amount by which a principal moment of inertia may exceed the sum of the others by
#: rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Segment:
    """A rigid body with its joint at a point of another one.

    proximal : the point that it turns about; the root or a point of an earlier segment. mass :
    [kg]. com : its centre of mass from there, in its axes, x forwards, y to the left, z up when
    standing upright [m]. inertia : principal moments about it [kg m^2]. points : positions of its
    points [m]. basis_point, basis_vectors : one of these and two of the unit vectors u, v, w along
    x, y, z, which span the segment in natural coordinates.

    Raises `ValueError` for numbers that no body has.
    """

    name: str
    proximal: str
    mass: float
    com: Position
    inertia: Position
    points: Mapping[str, Position]
    basis_point: str = ""
    basis_vectors: str = "uv"

    def __post_init__(self) -> None:
        where = _check_segment(self, "three")
        _check_numbers(f"{where}inertia", self.inertia, "three")
        try:
            check_inertia(self.inertia)
        except ValueError as error:
            raise ValueError(f"{where}{error}") from error


@dataclass(frozen=True)
class PlanarSegment:
    """A rigid body that moves in the plane of x (forwards) and z (up).

    proximal : the point that it turns about; the root or a point of an earlier segment. mass :
    [kg]. com : its centre of mass from there, in its axes, which are those of the world when
    standing upright [m]. inertia : about it, about y [kg m^2]. points : positions of its points
    [m]; the first one spans it in natural coordinates.

    Raises `ValueError` for numbers that no body has.
    """

    name: str
    proximal: str
    mass: float
    com: PlanarPosition
    inertia: float
    points: Mapping[str, PlanarPosition]

    def __post_init__(self) -> None:
        where = _check_segment(self, "two")
        if not finite(self.inertia, f"{where}inertia") >= 0.0:
            raise ValueError(f"{where}inertia must not be negative, got {self.inertia}")


def owners(segments: Sequence[Segment] | Sequence[PlanarSegment], root: str) -> dict[str, str]:
    """The segment that each point belongs to, the root first, then in the order of the table.

    Raises `ValueError` for a proximal point of no earlier segment, and for a point that
    belongs to two segments.
    """
    found = {root: root}
    for row in segments:
        if row.proximal not in found:
            raise ValueError(
                f"segment {row.name!r}: proximal point {row.proximal!r} is not "
                "defined by any earlier segment"
            )
        for point in row.points:
            if point in found:
                raise ValueError(f"segment {row.name!r}: point {point!r} belongs to two segments")
            found[point] = row.name
    return found


def check_inertia(moments: Iterable[float]) -> None:
    """Raise `ValueError` for principal moments of inertia (3,) [kg m^2] that no body has."""
    given = list(moments)
    low, middle, high = sorted(given)
    if low < -ROUNDING * high or low + middle < high * (1.0 - ROUNDING):
        raise ValueError(
            f"no body has principal moments of inertia {', '.join(f'{m:g}' for m in given)}; "
            "each is at most the sum of the others"
        )


def _check_segment(row: Segment | PlanarSegment, count: str) -> str:
    """Raise `ValueError` for what both kinds have and is wrong; else how messages begin."""
    check_text(row.name, "the name of a segment")
    where = f"segment {row.name!r}: "
    check_text(row.proximal, f"{where}proximal")
    points = mapping(row.points, f"{where}points")
    _check_numbers(f"{where}com", row.com, count)
    for name, position in points.items():
        _check_numbers(f"{where}point {name!r}", position, count)
    if not finite(row.mass, f"{where}mass") >= 0.0:
        raise ValueError(f"{where}mass must not be negative, got {row.mass}")
    return where


def _check_numbers(what: str, given: Any, count: str) -> None:
    try:
        right = len(given) == {"two": 2, "three": 3}[count] and all(map(isfinite, given))
    except (TypeError, OverflowError):
        right = False
    if not right:
        raise ValueError(f"{what} must be {count} finite numbers, got {shown(given)}")
