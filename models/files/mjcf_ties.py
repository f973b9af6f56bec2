"""Equalities of MuJoCo: joints that follow others, and bodies that are held together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

import numpy as np

from kinesym.models.files.description import Constant, Coupler, Frame, Linear, Loop, Polynomial
from kinesym.models.files.frames import STRAIGHT, components, rows
from kinesym.models.files.mjcf_bodies import SEVERAL, Skeleton, by_quaternion, on, unused
from kinesym.models.files.mjcf_geoms import numbers_of
from kinesym.models.files.xml import attributes, listed_numbers, named
from kinesym.symbolic.names import check_known

#: Equalities that are understood.
LOOPS = ("connect", "weld")
#: Coefficients of a joint that follows another one, if none are given.
DIAGONAL = (0.0, 1.0, 0.0, 0.0, 0.0)
TIES = ("joint", *LOOPS)


def couplers_of(equalities: Iterable[Element], skeleton: Skeleton) -> Iterator[Coupler]:
    """Joints that follow others, y - y0 = a0 + a1 (x - x0) + ... with the references x0 and y0; one
    that follows two is followed by the second, if it does so on a line."""
    taken = set[str]()
    for e in equalities:
        if e.tag != "joint":
            continue
        y, x = e.get("joint1", ""), e.get("joint2", "")
        for name in (y, x) if x else (y,):
            known = [n for n, joint in skeleton.joints.items() if joint.kind not in SEVERAL]
            check_known(name, known, f"{named(e)}: there is no hinge or slide {name!r}")
        y0, x0 = (skeleton.value(skeleton.joints[n], "ref") if n else 0.0 for n in (y, x))
        given = numbers_of(e, "polycoef")
        a = [*given, *DIAGONAL[len(given) :]]
        name = e.get("name") or y
        if y in taken and x and x not in taken and a[1] and not any(a[2:]):
            a, x, y, x0, y0 = [-a[0] / a[1], 1.0 / a[1], 0.0, 0.0, 0.0], y, x, y0, x0
        if y in taken:
            raise ValueError(f"{named(e)}: the joint {y} follows another one already")
        taken.add(y)
        if not x:
            yield Coupler(name, y, Constant(y0 + a[0]), ())
            continue
        shifted = np.poly1d(a[::-1])(np.poly1d([1.0, -x0])) + y0
        c = tuple(float(value) for value in shifted.coeffs)
        yield Coupler(name, y, Linear(c) if len(c) == 2 else Polynomial(c), (x,))


def loops_of(equalities: Iterable[Element], skeleton: Skeleton) -> Iterator[Loop]:
    """Bodies that are held together at a point or as a whole."""
    taken = set[str]()
    for e in equalities:
        if e.tag not in LOOPS:
            continue
        sites = [sited(e, e.get(key, ""), skeleton) for key in ("site1", "site2") if e.get(key)]
        if len(sites) == 2:
            first, second = sites
        else:
            body, other = e.get("body1") or None, e.get("body2") or None
            known = [node.name for node in skeleton.bodies]
            for name in filter(None, (body, other)):
                check_known(name, known, f"{named(e)}: there is no body {name}")
            held = pointed if e.tag == "connect" else welded
            first, second = held(e, body, other, skeleton)
        name = e.get("name") or f"{first.body or 'world'}_{second.body or 'world'}"
        yield Loop(unused(name, taken), "point" if e.tag == "connect" else "weld", first, second)


def sited(e: Element, name: str, skeleton: Skeleton) -> Frame:
    """The frame of a site."""
    for node in skeleton.nodes:
        for site, frame in node.having("site"):
            if site.get("name") == name:
                return skeleton.placed(site, frame)
    raise ValueError(f"{named(e)}: there is no site {name}")


def pointed(
    e: Element, body: str | None, other: str | None, skeleton: Skeleton
) -> tuple[Frame, Frame]:
    """The anchor of a connection on both bodies, which agree while joints are at their
    reference."""
    first = Frame(body, attributes(e, "anchor"))
    return first, seen_from(other, on(skeleton.references[body], first), skeleton)


def welded(
    e: Element, body: str | None, other: str | None, skeleton: Skeleton
) -> tuple[Frame, Frame]:
    """The frames of a weld: where the anchor, a point of the second body, is in the first one, with
    the axes of the second."""
    second = Frame(other, attributes(e, "anchor", STRAIGHT))
    given = listed_numbers(e, "relpose", 7, (0.0,) * 7)
    if not any(given[3:]):
        return seen_from(body, on(skeleton.references[other], second), skeleton), second
    turn = by_quaternion(e, given[3:])
    return Frame(body, components(np.array(given[:3])), rows(turn)), second


def seen_from(body: str | None, frame: Frame, skeleton: Skeleton) -> Frame:
    """A frame of the world in the axes of a body, while joints are at their reference."""
    here = skeleton.references[body]
    back = np.transpose(here.turn)
    at = back @ np.subtract(frame.at, here.at)
    return Frame(body, components(at), rows(back @ np.array(frame.turn)))
