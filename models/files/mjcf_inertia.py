"""Masses and inertia of MuJoCo's bodies, as their inertials, their geoms and the compiler say."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import naming
from kinesym.models.files.description import Frame
from kinesym.models.files.frames import STRAIGHT
from kinesym.models.files.mjcf_bodies import Node, Skeleton
from kinesym.models.files.mjcf_geoms import Solid, bounded, is_read, solid_of, together
from kinesym.models.files.xml import attribute, attributes, listed_numbers, named


def solids_of(skeleton: Skeleton) -> dict[str, Solid]:
    """Mass and inertia of all bodies by name, in their axes.

    Raises `ValueError` for geoms that are not read, but for those of bodies that stand still.
    """
    compiler, found = skeleton.settings.compiler, dict[str, Solid]()
    for node in skeleton.bodies:
        with naming(f"body {node.name}"):
            found[node.name] = bounded(of_body(node, skeleton), skeleton.settings)
    wanted = attribute(compiler, "settotalmass", -1.0)
    total = sum(one.mass for one in found.values())
    if wanted <= 0.0 or total <= 0.0:
        return found
    for e in still_unread(skeleton):
        check_read(e)
    return {name: one.times(wanted / total) for name, one in found.items()}


def of_body(node: Node, skeleton: Skeleton) -> Solid:
    """A body as its inertial or its geoms say."""
    geoms, given = sources(node, skeleton)
    if given is not None:
        return of_inertial(*given, skeleton)
    if node.name in skeleton.still:
        geoms = [(e, frame) for e, frame in geoms if is_read(e)]
    for e, _ in geoms:
        check_read(e)
    return together(solid_of(e, *arrays(skeleton.placed(e, frame))) for e, frame in geoms)


def sources(
    node: Node, skeleton: Skeleton
) -> tuple[list[tuple[Element, Frame]], tuple[Element, Frame] | None]:
    """The geoms that a body has its inertia of, or its inertial, each with the frame it is in."""
    first, last = skeleton.settings.groups
    every = node.having("geom")
    geoms = [pair for pair in every if first <= attribute(pair[0], "group", 0.0) <= last]
    mode = skeleton.settings.choice("inertiafromgeom", ("auto", "true", "false"))
    given, *more = *node.having("inertial"), None
    if len(more) > 1:
        raise ValueError("it has more than one inertial")
    if mode == "false" or (given is not None and not (mode == "true" and geoms)):
        return [], given
    return geoms, None


def still_unread(skeleton: Skeleton) -> Iterator[Element]:
    """Geoms that are not read, of bodies that stand still."""
    for node in skeleton.bodies:
        if node.name in skeleton.still:
            yield from (e for e, _ in sources(node, skeleton)[0] if not is_read(e))


def check_read(e: Element) -> None:
    """Raise `ValueError` for a geom whose mass is in another file."""
    if not is_read(e):
        kind = e.get("type", "sphere")
        raise ValueError(
            f"the mass of {named(e)}, a {kind}{' around a mesh' * (kind != 'mesh')}, is not read; "
            "give the body an inertial, as MuJoCo writes it where the compiler has "
            'saveinertial="true", or the geom mass="0"'
        )


def of_inertial(e: Element, frame: Frame, skeleton: Skeleton) -> Solid:
    """An inertial in the axes of its body."""
    mass, _ = attribute(e, "mass"), attributes(e, "pos")
    if mass < 0.0:
        raise ValueError(f"its mass, {mass:g}, is negative")
    at, turn = arrays(skeleton.placed(e, frame))
    if e.get("fullinertia"):
        xx, yy, zz, xy, xz, yz = listed_numbers(e, "fullinertia", 6)
        given = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    else:
        given = np.diag(attributes(e, "diaginertia", STRAIGHT))
    return Solid(mass, at, turn @ given @ turn.T)


def arrays(frame: Frame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Place and orientation."""
    return np.array(frame.at), np.array(frame.turn)
