"""Frames of a model of OpenSim, by the paths that its elements name them by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from kinesym.models.files.description import Frame
from kinesym.models.files.frames import components, place, rows
from kinesym.models.files.xml import named, text, triple

FRAMES = ("PhysicalOffsetFrame", "StationDefinedFrame")
POINTS = ("Station", "Marker")


def socket(e: Element, *names: str) -> str:
    """The path to what an element is connected to by the first of these sockets that it has: an
    element of its own, in files between versions 3 and 4 one of its `connectors`."""
    for name in names:
        for tag in ("socket_{}", "socket_{}_connectee_name", "connector_{}_connectee_name"):
            if found := text(e, tag.format(name)):
                return found
        for one in e.iterfind("connectors/*"):
            if one.get("name") == name:
                return text(one, "connectee_name")
    return ""


def body_name(name: str) -> str | None:
    """None for the ground."""
    return None if name == "ground" else name


def within(model: Element) -> Iterator[tuple[Element, str]]:
    """Elements of a model, each with the name of its owner; "" for those of the model itself."""
    waiting = [(model, "")]
    while waiting:
        e, owner = waiting.pop()
        for inner in e:
            yield inner, owner
            waiting.append((inner, inner.get("name") or owner))


@dataclass(frozen=True)
class Frames:
    """The frames of a model whose bodies have these names; each is looked up when it is needed."""

    model: Element
    bodies: frozenset[str]
    found: dict[str, Frame | None] = field(default_factory=dict)

    @cached_property
    def elements(self) -> dict[str, tuple[Element, str]]:
        """Frames and points by the owner and the name, with their owners."""
        return {
            _key(owner, e.get("name", "")): (e, owner)
            for e, owner in within(self.model)
            if e.tag in (*FRAMES, *POINTS)
        }

    def frame(self, path: str, owner: str = "") -> Frame:
        """Frame that a path such as `/bodyset/pelvis` or `pelvis_offset` leads to; names without a
        path are first those of the owner of what names them.

        Raises `ValueError` for a path to nothing.
        """
        parts = _parts(path)
        if not parts:
            raise ValueError(f"{owner or 'the model'}: a frame is missing")
        near = [_key(owner, parts[-1])] if len(parts) == 1 else []
        for key in (*near, "/".join(parts[-2:])):
            if key in self.elements and self.elements[key][0].tag in FRAMES:
                return self.made(key)
        name = body_name(parts[-1])
        if name is None or name in self.bodies:
            return Frame(name)
        if parts[-1] in self.elements and self.elements[parts[-1]][0].tag in FRAMES:
            return self.made(parts[-1])
        raise ValueError(f"{_key(owner, path)} is no body and no frame of a joint")

    def made(self, key: str) -> Frame:
        """A frame by its key; raises `ValueError` for one that is on itself."""
        if key not in self.found:
            self.found[key] = None
            e, owner = self.elements[key]
            made = self.by_stations(e, owner) if e.tag == FRAMES[1] else self.offset(e, owner)
            self.found[key] = made
        known = self.found[key]
        if known is None:
            raise ValueError(f"the frame {key} is on itself")
        return known

    def offset(self, e: Element, owner: str) -> Frame:
        """A frame at a distance from another one."""
        path = socket(e, "parent")
        base = self.frame(owner if path == ".." else path, owner)
        return place(base, triple(e, "translation"), triple(e, "orientation"))

    def by_stations(self, e: Element, owner: str) -> Frame:
        """A frame through points of one body: `ab_axis` from a to b, `ab_x_ac_axis` along the
        normal of the triangle."""
        sockets = ("point_a", "point_b", "point_c", "origin_point")
        (body, *others), (a, b, c, at) = zip(
            *(self.station(socket(e, name), owner, named(e)) for name in sockets), strict=True
        )
        if any(other != body for other in others):
            raise ValueError(f"{named(e)}: its points are on more than one body")
        first, second = (
            _axis(text(e, tag, default), named(e))
            for tag, default in (("ab_axis", "+x"), ("ab_x_ac_axis", "+y"))
        )
        ab, normal = b - a, np.cross(b - a, c - a)
        if not np.linalg.norm(normal) > 1e-9 * np.linalg.norm(ab) * np.linalg.norm(c - a):
            raise ValueError(f"{named(e)}: its points a, b and c make no triangle")
        if first @ second:
            raise ValueError(f"{named(e)}: ab_axis and ab_x_ac_axis are the same axis")
        here, there = _triad(ab, normal), _triad(first, second)
        return Frame(body, components(at), rows(here @ there.T))

    def station(self, path: str, owner: str, where: str) -> tuple[str | None, NDArray[np.float64]]:
        """The body of a point, and its place in the axes of that."""
        parts = _parts(path)
        near = [_key(owner, parts[-1])] if parts else []
        keys = (*near, "/".join(parts[-2:]), *parts[-1:])
        known = [k for k in keys if k in self.elements and self.elements[k][0].tag in POINTS]
        if not known:
            raise ValueError(f"{where}: {path or 'a socket'} is no station and no marker")
        e, its_owner = self.elements[known[0]]
        path = socket(e, "parent_frame") or text(e, "body")
        base = self.frame(its_owner if path in ("", "..") else path, its_owner)
        return base.body, np.array(place(base, triple(e, "location")).at)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", "..", ".")]


def _key(owner: str, name: str) -> str:
    return f"{owner}/{name}" if owner else name


def _axis(said: str, where: str) -> NDArray[np.float64]:
    """A direction such as "-y"."""
    letter = said.lower().lstrip("+-")
    if letter not in ("x", "y", "z"):
        raise ValueError(f"{where}: an axis is one of x, y, z with a sign, got {said!r}")
    return np.eye(3)["xyz".index(letter)] * (-1.0 if said.startswith("-") else 1.0)


def _triad(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns along two directions across each other, and along their product."""
    third = np.cross(first, second)
    columns = [v / np.linalg.norm(v) for v in (first, second, third)]
    return np.transpose(columns)
