"""The whole body in 18 segments with 57 degrees of freedom, from a table."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from kinesym.symbolic.multibody.bodies import Body
from kinesym.symbolic.multibody.joints import Oriented, Prismatic
from kinesym.symbolic.multibody.tree import Tree

#: The joint at which pelvis and torso meet, whose place tells where the body is.
ROOT = "J1"


@dataclass(frozen=True)
class Segment:
    """A row of the table: a rigid body that hangs on a point of another one.

    proximal : the point that it turns about; `ROOT` or a point of an earlier segment. mass : [kg].
    com : its centre of mass from there, in its axes, x forwards, y to the left, z up when standing
    upright [m]. inertia : principal moments about it [kg m^2]. points : places of the points that
    it carries [m]. basis_point, basis_vectors : one of these and two of the unit vectors u, v, w
    along x, y, z, which span the segment in natural coordinates.
    """

    name: str
    proximal: str
    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float]
    points: Mapping[str, tuple[float, float, float]]
    basis_point: str = ""
    basis_vectors: str = "uv"


def segments_of_body(mass: float = 85.0, stature: float = 1.82) -> tuple[Segment, ...]:
    """The 18 segments of a man of `mass` [kg] and `stature` [m].

    Fractions by de Leva (1996); what the model needs and no table gives is chosen: pelvis of lower
    and middle trunk, torso of upper trunk, head and neck apart, foot 78 % behind and 22 % before
    the toes. Raises `ValueError` for what is not positive.
    """
    if not (mass > 0.0 and stature > 0.0):
        raise ValueError(f"mass and stature must be positive, got {mass} kg and {stature} m")
    points: dict[str, dict[str, tuple[float, float, float]]] = {}
    for row in _rows("body18_points.csv"):
        place = tuple(float(row[axis]) * stature for axis in "xyz")
        points.setdefault(row["segment"], {})[row["point"]] = place  # type: ignore[assignment]
    made = []
    for row in _rows("body18.csv"):
        x, y, z = (float(row[f"com_{axis}"]) * stature for axis in "xyz")
        a, b, c = (float(row[f"I_{axis}{axis}"]) * mass * stature**2 for axis in "xyz")
        made.append(Segment(row["segment"], row["proximal"], float(row["mass"]) * mass, (x, y, z),
                            (a, b, c), points[row["segment"]], row["basis_point"],
                            row["basis_vectors"]))  # fmt: skip
    return tuple(made)


def _rows(name: str) -> list[dict[str, str]]:
    text = files(__package__).joinpath("data", name).read_text()
    return list(csv.DictReader(text.splitlines()))


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
    rows = segments_of_body() if segments is None else segments
    owner: dict[str, tuple[str, tuple[float, float, float]]] = {ROOT: (ROOT, (0.0, 0.0, 0.0))}
    bodies = [Body(ROOT, 0, joint=Prismatic("xyz"))]
    for row in rows:
        if row.proximal not in owner:
            raise ValueError(f"segment {row.name!r}: proximal point {row.proximal!r} is not "
                             "defined by any earlier segment")  # fmt: skip
        parent, at = owner[row.proximal]
        bodies.append(Body(row.name, row.mass, row.com, row.inertia, Oriented("yxz"), at, parent))
        for point, place in row.points.items():
            if point in owner:
                raise ValueError(f"segment {row.name!r}: point {point!r} belongs to two segments")
            owner[point] = (row.name, place)
    return Tree("whole_body", bodies, gravity=(0, 0, -9.81))
