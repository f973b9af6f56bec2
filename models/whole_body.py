"""The whole body in 18 segments with 57 degrees of freedom, from a table."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from math import isfinite, nan
from pathlib import Path
from typing import Any

from kinesym.base.checks import finite, listed, listed_of, mapping
from kinesym.models.anthropometry import person
from kinesym.symbolic.multibody.bodies import Body
from kinesym.symbolic.multibody.joints import Oriented, Prismatic
from kinesym.symbolic.multibody.segments import PlanarSegment, Position, Segment, owners
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.names import check_known

#: The joint at which pelvis and torso meet, whose place tells where the body is.
ROOT = "J1"
#: Share of the mass of a body by which the sum of its segments may differ without a warning.
MASS = 0.01

#: Joints by the segment beyond them.
JOINTS = {
    f"{side}_{joint}": f"{side[0].upper()}{segment}"
    for side in ("right", "left")
    for joint, segment in (
        ("hip", "thigh"),
        ("knee", "shank"),
        ("ankle", "hindfoot"),
        ("toes", "forefoot"),
        ("shoulder", "arm"),
        ("elbow", "forearm"),
    )
} | {"lumbar": "torso"}

#: Feet, each of two segments, the one at the ankle first.
FEET = {"right": ("Rhindfoot", "Rforefoot"), "left": ("Lhindfoot", "Lforefoot")}


# -- tables ---------------------------------------------------------------------------------------


def segments_of_body(mass: float = 85.0, stature: float = 1.82) -> tuple[Segment, ...]:
    """The 18 segments of a man of `mass` [kg] and `stature` [m].

    Fractions by de Leva (1996); what the model needs and no table gives is chosen: pelvis of lower
    and middle trunk, torso of upper trunk, head and neck apart, foot 78 % behind and 22 % before
    the toes. Raises `ValueError` for what is not positive.
    """
    mass, stature = person(mass, stature)
    data = files(__package__).joinpath("data")
    table, points = (
        csv.DictReader(data.joinpath(f"body18{end}.csv").read_text().splitlines())
        for end in ("", "_points")
    )
    return _segments(table, points, mass, stature)


def segments_from_tables(
    table: Iterable[Mapping[str, str]], points: Iterable[Mapping[str, str]]
) -> tuple[Segment, ...]:
    """Segments from the rows of two tables in kg, m, kg m^2, see `kinesym.gait.read_segments`."""
    rows = _from_the_root(_segments(table, points, 1.0, 1.0))
    if abs(sum(row.mass for row in rows) - 1.0) < 1e-3:
        raise ValueError("the masses sum up to 1: these are fractions, not kg")
    whole_body(rows)  # raises for segments without a parent
    return rows


def _from_the_root(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Segments ordered from the root: each after the one that it hangs on, otherwise as they
    are."""
    owned = {point for row in segments for point in row.points}
    known = {row.proximal for row in segments} - owned
    left, found = list(segments), []
    while left:
        row = next((row for row in left if row.proximal in known), left[0])
        left.remove(row)
        found.append(row)
        known |= set(row.points)
    return tuple(found)


def write_segments(segments: Sequence[Segment], table: str | Path, points: str | Path) -> None:
    """Write segments as `kinesym.gait.read_segments` reads them, to change them by hand."""
    names = "segment proximal mass com_x com_y com_z I_xx I_yy I_zz basis_point basis_vectors"
    rows = [
        [
            row.name,
            row.proximal,
            row.mass,
            *row.com,
            *row.inertia,
            row.basis_point,
            row.basis_vectors,
        ]
        for row in segments
    ]
    places = [[point, row.name, *place] for row in segments for point, place in row.points.items()]
    _write(table, [names.split(), *rows])
    _write(points, ["point segment x y z".split(), *places])


def _write(path: str | Path, rows: Iterable[Sequence[object]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _segments(
    table: Iterable[Mapping[str, str]],
    points: Iterable[Mapping[str, str]],
    mass: float,
    length: float,
) -> tuple[Segment, ...]:
    """Segments from the rows of two tables, with these units of mass and length."""
    rows = list(table)
    names = [_cell(row, "segment", "") for row in rows]
    points_of: dict[str, dict[str, Position]] = {name: {} for name in names}
    for row in points:
        name, point = (_cell(row, column, "") for column in ("segment", "point"))
        check_known(name, names, f"point {point!r}: there is no segment {name!r}")
        points_of[name][point] = _numbers(row, ("x", "y", "z"), f"point {point!r}", length)
    return tuple(
        Segment(
            name,
            _cell(row, "proximal", name),
            _number(row, "mass", f"segment {name!r}") * mass,
            _numbers(row, ("com_x", "com_y", "com_z"), f"segment {name!r}", length),
            _numbers(row, ("I_xx", "I_yy", "I_zz"), f"segment {name!r}", mass * length**2),
            points_of[name],
            _cell(row, "basis_point", name),
            _cell(row, "basis_vectors", name),
        )
        for name, row in zip(names, rows, strict=True)
    )


def _cell(row: Mapping[str, str], column: str, segment: str) -> str:
    value = row.get(column)
    if value is None:
        where = f"segment {segment!r}" if segment else "a table of segments"
        raise ValueError(f"{where}: column {column} is missing; there are {', '.join(row)}")
    return value.strip()


def _number(row: Mapping[str, str], column: str, where: str) -> float:
    text = row.get(column)
    value = nan
    if text is not None and "_" not in text:  # Python reads 1_000 as 1000
        with suppress(ValueError):
            value = float(text)
    if not isfinite(value):
        raise ValueError(f"{where}: {column} must be a number, got {text!r}")
    return value


def _numbers(row: Mapping[str, str], columns: Iterable[str], where: str, unit: float) -> Position:
    x, y, z = (_number(row, column, where) * unit for column in columns)
    return x, y, z


def segments_with(
    segments: Sequence[Segment],
    masses: Mapping[str, float] | None = None,
    coms: Mapping[str, Position] | None = None,
    inertias: Mapping[str, Position] | None = None,
    points: Mapping[str, Position] | None = None,
) -> tuple[Segment, ...]:
    """The segments with measured numbers in place of some.

    masses [kg], coms [m], inertias [kg m^2] : by the name of the segment. points : places [m] by
    the name of the point, such as {"RK": (0, 0, -0.43)} for the length of the right thigh. Nothing
    follows by itself: a longer thigh keeps its mass, and its centre of mass its distance from the
    hip. Raises `ValueError` for a name that does not exist and for numbers that no body has.
    """
    segments = listed_of(segments, Segment, "segments")
    masses, coms, inertias, moved = (
        {} if given is None else mapping(given, what)
        for given, what in (
            (masses, "masses"),
            (coms, "coms"),
            (inertias, "inertias"),
            (points, "points"),
        )
    )
    by_field: dict[str, Mapping[str, Any]] = {"mass": masses, "com": coms, "inertia": inertias}
    names = [row.name for row in segments]
    for name in (name for given in by_field.values() for name in given):
        check_known(name, names, f"there is no segment {name!r}")
    known = [point for row in segments for point in row.points]
    for point in moved:
        check_known(point, known, f"no segment has a point {point!r}")
    return tuple(
        replace(
            row,
            points={point: moved.get(point, place) for point, place in row.points.items()},
            **{field: given[row.name] for field, given in by_field.items() if row.name in given},
        )
        for row in segments
    )


def check_mass(segments: Sequence[Segment] | Sequence[PlanarSegment], body_mass: float) -> None:
    """Warn if the masses of the segments differ by more than 1 % from that of the body [kg]."""
    total = sum(row.mass for row in listed(segments, "segments"))
    if not finite(body_mass, "the mass of a body") > 0.0:
        raise ValueError(f"the mass of a body must be positive, got {body_mass} kg")
    if abs(total - body_mass) > MASS * body_mass:
        warnings.warn(
            f"the segments have {total:.4g} kg together, the body {body_mass:.4g} kg; "
            "weights and forces will differ by as much",
            stacklevel=2,
        )


# -- the tree -------------------------------------------------------------------------------------


def whole_body(segments: Sequence[Segment] | None = None) -> Tree:
    """A tree of segments that turn in the world, on a root that moves freely.

    Coordinates are the place of the root, `J1_px`, ... [m], and for each segment its angles in the
    world `pelvis_x`, ... [rad], turned about y, x, z in this order: flexion is unlimited, the
    singular posture is abduction by 90 degrees. Speeds are `J1_vx`, ... [m/s] and angular
    velocities in segment axes `pelvis_wx`, ... [rad/s]; forces the total one and torques between
    world and segments. With the 18 segments of the default: 57 degrees of freedom (Pamies-Vila,
    Font-Llagunes 2013).

    Raises `ValueError` for a proximal point that no earlier segment has, or that two have.
    """
    rows = segments_of_body() if segments is None else listed_of(segments, Segment, "segments")
    carrier = owners(rows, ROOT)
    at = {ROOT: (0.0, 0.0, 0.0)} | {p: place for row in rows for p, place in row.points.items()}
    bodies = [Body(ROOT, 0, joint=Prismatic("xyz"))]
    for row in rows:
        own = (row.mass, row.com, row.inertia, Oriented("yxz"))
        bodies.append(Body(row.name, *own, at[row.proximal], carrier[row.proximal]))
    return Tree("whole_body", bodies, gravity=(0, 0, -9.81))
