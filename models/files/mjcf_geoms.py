"""Inertia of MuJoCo's geoms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from kinesym.models.files.mjcf_plain import Settings
from kinesym.models.files.xml import attribute, listed_numbers, named

Array = NDArray[np.float64]

#: Numbers of `size` by the type of geom; "hfield" and "plane" have no mass.
SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}
FLAT = ("plane", "hfield")
#: Types that `fromto` can place.
LONG = ("capsule", "cylinder", "ellipsoid", "box")
#: Density of geoms that give neither mass nor density [kg/m^3].
WATER = 1000.0
#: Thickness of the shell whose inertia stands for that of an ellipsoid's surface, as in MuJoCo [m].
SHELL = 1e-6
#: Exponent of Thomsen's formula for the area, which is right within 1.1 %.
THOMSEN = 1.6075


@dataclass(frozen=True)
class Solid:
    """Mass [kg], its centre (3,) [m], and inertia about that (3, 3) [kg m^2]."""

    mass: float
    com: Array
    inertia: Array

    def times(self, factor: float) -> Solid:
        """Solid with `factor` times the mass."""
        return Solid(factor * self.mass, self.com, factor * self.inertia)


NOTHING = Solid(0.0, np.zeros(3), np.zeros((3, 3)))


def together(solids: Iterable[Solid]) -> Solid:
    """Several as one."""
    parts = [solid for solid in solids if solid.mass > 0.0]
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    mass = sum(part.mass for part in parts)
    com = np.sum([part.mass * part.com for part in parts], axis=0) / mass
    inertia = np.sum([part.inertia + carried(part.mass, part.com - com) for part in parts], axis=0)
    return Solid(mass, com, inertia)


def carried(mass: float, arm: Array) -> Array:
    """The inertia (3, 3) of a mass at the end of an arm."""
    return np.asarray(mass * (arm @ arm * np.eye(3) - np.outer(arm, arm)))


def bounded(solid: Solid, settings: Settings) -> Solid:
    """Solid with at least the mass and moments that the compiler allows, and with moments of a
    body."""
    compiler = settings.compiler
    least = attribute(compiler, "boundmass", 0.0), attribute(compiler, "boundinertia", 0.0)
    balance = settings.choice("balanceinertia", ("false", "true")) == "true"
    moments, axes = np.linalg.eigh(solid.inertia)
    found = np.maximum(moments, least[1]) if least[1] > 0.0 else moments
    if balance and found[0] + found[1] < found[2]:
        found = np.full(3, found.mean())
    same = np.array_equal(found, moments)
    inertia = solid.inertia if same else np.asarray(axes * found @ axes.T)
    return Solid(max(solid.mass, least[0]), solid.com, inertia)


def is_read(e: Element) -> bool:
    """Whether the mass of a geom is known from the model alone, not that of a mesh."""
    kind = e.get("type", "sphere")
    return weight(e) == 0.0 or kind in FLAT or (kind in SIZES and not e.get("mesh"))


def weight(e: Element) -> float:
    """The mass of a geom [kg] if it gives one, or its density [kg/m^3]."""
    given = "mass" if e.get("mass") else "density"
    found = attribute(e, given, WATER)
    if found < 0.0:
        raise ValueError(f"{named(e)}: its {given} is negative")
    return found


def solid_of(e: Element, at: Array, turn: Array) -> Solid:
    """A geom that is read, at a place (3,), turned by (3, 3), in the axes of its body.

    Raises `ValueError` for sizes that are none.
    """
    kind, per = e.get("type", "sphere"), weight(e)
    if per == 0.0 or kind in FLAT:
        return NOTHING
    sizes = sizes_of(e, kind)
    content, moments = of_shell(kind, *sizes) if is_shell(e) else of_solid(kind, *sizes)
    mass = per if e.get("mass") else per * content
    return Solid(mass, at, turn @ np.diag(mass * moments) @ turn.T)


def is_shell(e: Element) -> bool:
    """Whether the mass of a geom is on its surface."""
    return e.get("shellinertia") == "true"


def sizes_of(e: Element, kind: str) -> list[float]:
    """Radius; radius and half of the length; or three halves."""
    given, count = numbers_of(e, "size"), SIZES[kind]
    if e.get("fromto") and kind in LONG:
        begin, end = ends_of(e)
        given = given[:1] * (count - 1) + [float(np.linalg.norm(end - begin)) / 2.0]
    if len(given) < count or min(given[:count]) <= 0.0:
        many = "a positive number" if count == 1 else f"{count} positive numbers"
        raise ValueError(f"{named(e)}: the size of a {kind} is {many}")
    return given[:count]


def ends_of(e: Element) -> tuple[Array, Array]:
    """The two ends of a geom or site that is placed by these."""
    found = np.array(listed_numbers(e, "fromto", 6))
    return found[:3], found[3:]


def numbers_of(e: Element, name: str) -> list[float]:
    """The numbers of an attribute, however many."""
    return listed_numbers(e, name, len(e.get(name, "").split()), ())


def of_solid(kind: str, *sizes: float) -> tuple[float, Array]:
    """Volume [m^3] and principal moments per mass (3,) [m^2]."""
    if kind in ("box", "ellipsoid"):
        a, b, c = sizes
        share, unit = (3.0, 8.0) if kind == "box" else (5.0, 4.0 / 3.0 * np.pi)
        squares = np.array([b * b + c * c, a * a + c * c, a * a + b * b])
        return unit * a * b * c, squares / share
    r, h = (sizes * 2)[:2]
    round_, straight = 4.0 / 3.0 * np.pi * r**3, 2.0 * np.pi * r * r * h
    match kind:
        case "sphere":
            return round_, np.full(3, 0.4 * r * r)
        case "cylinder":
            return straight, along_z(r * r / 4.0 + h * h / 3.0, r * r / 2.0)
    ends = along_z(0.4 * r * r + h * h + 0.75 * h * r, 0.4 * r * r)
    return mixed((straight, of_solid("cylinder", r, h)[1]), (round_, ends))


def of_shell(kind: str, *sizes: float) -> tuple[float, Array]:
    """Area [m^2] and principal moments per mass (3,) [m^2]."""
    if kind == "box":
        a, b, c = np.square(sizes)
        x, y, z = 8.0 * np.prod(sizes) / np.array(sizes)  # areas of pairs of faces
        return mixed(
            (x, np.array([(b + c) / 3.0, a + c / 3.0, a + b / 3.0])),
            (y, np.array([b + c / 3.0, (a + c) / 3.0, b + a / 3.0])),
            (z, np.array([c + b / 3.0, c + a / 3.0, (a + b) / 3.0])),
        )
    if kind == "ellipsoid":
        a, b, c = np.power(sizes, THOMSEN)
        area = 4.0 * np.pi * ((a * b + a * c + b * c) / 3.0) ** (1.0 / THOMSEN)
        (small, inner), (large, outer) = (
            of_solid(kind, *(size + thickness for size in sizes)) for thickness in (0.0, SHELL)
        )
        return area, (large * outer - small * inner) / (large - small)
    r, h = (sizes * 2)[:2]
    round_, straight, caps = 4.0 * np.pi * r * r, 4.0 * np.pi * r * h, 2.0 * np.pi * r * r
    side = along_z(r * r / 2.0 + h * h / 3.0, r * r)
    match kind:
        case "sphere":
            return round_, np.full(3, r * r / 1.5)
        case "cylinder":
            return mixed((straight, side), (caps, along_z(r * r / 4.0 + h * h, r * r / 2.0)))
    return mixed((straight, side), (round_, along_z(r * r / 1.5 + h * h + h * r, r * r / 1.5)))


def along_z(across: float, along: float) -> Array:
    """Moments of inertia of a solid that is round about z."""
    return np.array([across, across, along])


def mixed(*parts: tuple[float, Array]) -> tuple[float, Array]:
    """The content of parts, and their moments per mass if all have one density."""
    content = sum(part for part, _ in parts)
    moments = np.sum([part * moments for part, moments in parts], axis=0)
    return content, moments / content
