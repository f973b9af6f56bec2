"""Sets of markers by name: what they mean, as relations."""

from __future__ import annotations

from math import cos, sin
from typing import Any, TypeAlias

from kinesym.base.checks import check_choice, check_kind, positive
from kinesym.gait.checks import warn
from kinesym.gait.markers import Markers
from kinesym.gait.relations import Axes, Chord, Like, Midpoint, Relations, Shifted
from kinesym.runtime.summary import listed

#: Points and axes of a part.
Part: TypeAlias = tuple[dict[str, Any], dict[str, Any]]

_WIDTH, _SHOULDERS = ("RASI", "LASI"), ("RSHO", "LSHO")
#: Markers of the conventional gait model on each leg, on trunk, head and each arm.
_LEG = ("THI", "KNE", "TIB", "ANK", "HEE", "TOE")
_TRUNK, _HEAD = ("C7", "T10", "CLAV", "STRN"), ("RFHD", "LFHD", "RBHD", "LBHD")
_ARM = ("ELB", "WRA", "WRB")
#: Axes of trunk and head, if they have markers.
_AHEAD = (Midpoint(("C7", "T10")), Midpoint(("CLAV", "STRN")))
_TORSO = {"torso": Axes("z", z=("J1", "NK"), x=_AHEAD)}
_SKULL = {"head": Axes("x", x=(Midpoint(_HEAD[2:]), Midpoint(_HEAD[:2])), y=_HEAD[:2])}
#: Direction of the sides along y.
_SIDES = {"R": -1.0, "L": 1.0}
#: Angles of the regression of the hip, seen from ahead and from the side [rad].
_THETA = 0.5
_BETA = 0.314


def marker_set(
    name: str,
    markers: Markers,
    stature: float,
    leg_length: float,
    knee_width: float,
    ankle_width: float,
    radius: float = 0.007,
) -> Relations:
    """Relations of the points and axes of `segments_of_body` to a set of markers, by its name.

    name : "plug-in-gait", the conventional gait model: hips by the regression of Davis et al. 1991
        (Hum Mov Sci 10:575), knees and ankles by `Chord` with thigh and shank markers. Markers are
        RASI, LASI, RPSI and LPSI or SACR, RTHI, RKNE, RTIB, RANK, RHEE, RTOE and those of the left;
        of the upper body C7, T10, CLAV, STRN; RFHD, RBHD, ...; RSHO, RELB, RWRA, RWRB, ...
    stature, leg_length, knee_width, ankle_width : of the person [m]. radius : of markers [m].

    Assumed: the shoulder is under its marker by a tenth of the distance of both, the elbow 4 cm
    inside of its; toes turn with the foot, the neck with the trunk, hands with forearms. Parts of
    the upper body that lack markers stay upright and turn with the pelvis, with a warning that
    names them. Raises `ValueError` that names all markers of pelvis and legs that are missing.
    """
    check_choice(name, ("plug-in-gait",), "name")
    check_kind(markers, Markers, "kinesym.gait")
    for size in (stature, leg_length, knee_width, ankle_width, radius):
        positive(size, "a size of the person")
    back = ("SACR",) if "SACR" in markers else ("RPSI", "LPSI")
    needed = [*_WIDTH, *back, *(side + each for side in _SIDES for each in _LEG)]
    lacking = [each for each in needed if each not in markers]
    if lacking:
        raise ValueError(
            f"the markers lack {', '.join(lacking)} of {name}; markers.renamed({{old: new}}) names "
            "what is called otherwise"
        )
    above = Shifted(Midpoint(("RH", "LH")), (0.0, 0.0, 0.149 * stature), Like("pelvis"))
    points = {"J1": above} | _hips(leg_length, radius)
    axes = {"pelvis": Axes("y", y=_WIDTH, x=(Midpoint(back), Midpoint(_WIDTH)))}
    parts = [_leg(side, 0.5 * knee_width + radius, 0.5 * ankle_width + radius) for side in _SIDES]
    arms = (((*_SHOULDERS, *(side + each for each in _ARM)), _arm(side)) for side in _SIDES)
    upper = ((_TRUNK, ({"NK": Midpoint(("C7", "CLAV"))}, _TORSO)), (_HEAD, ({}, _SKULL)), *arms)
    assumed = list[str]()
    for names, part in upper:
        known = all(each in markers for each in names)
        parts.append(part if known else ({}, dict.fromkeys(part[1], Axes("z", z="up", y=_WIDTH))))
        assumed += [] if known else part[1]
    for more, turning in parts:
        points, axes = points | more, axes | turning
    if assumed:
        warn(
            f"{listed(assumed)} have no markers of {name}: taken to stay upright and to turn with "
            "the pelvis"
        )
    return Relations(points, axes | {"neck": Like("torso")})


def _hips(leg: float, radius: float) -> dict[str, Any]:
    size, depth = 0.115 * leg - 0.0153, 0.1288 * leg - 0.04856 + radius
    ahead = size * cos(_THETA) * sin(_BETA) - depth * cos(_BETA)
    up = -size * cos(_THETA) * cos(_BETA) - depth * sin(_BETA)
    return {
        f"{side}H": Shifted(f"{side}ASI", (ahead, -left * size * sin(_THETA), up), Like("pelvis"))
        for side, left in _SIDES.items()
    }


def _leftwards(side: str, outer: str, inner: str) -> tuple[str, str]:
    return (outer, inner) if side == "R" else (inner, outer)


def _leg(side: str, knee: float, ankle: float) -> Part:
    """A leg; knee, ankle : distances of centres from markers [m]."""
    points = {
        f"{side}K": Chord(f"{side}KNE", f"{side}H", f"{side}THI", knee),
        f"{side}A": Chord(f"{side}ANK", f"{side}K", f"{side}TIB", ankle),
        f"{side}M": f"{side}TOE",
    }
    knees = _leftwards(side, f"{side}KNE", f"{side}K")
    ankles = _leftwards(side, f"{side}ANK", f"{side}A")
    axes = {
        f"{side}thigh": Axes("z", z=(f"{side}K", f"{side}H"), y=knees),
        f"{side}shank": Axes("z", z=(f"{side}A", f"{side}K"), y=ankles),
        f"{side}hindfoot": Axes("x", x=(f"{side}HEE", f"{side}TOE"), z=(f"{side}A", f"{side}K")),
        f"{side}forefoot": Like(f"{side}hindfoot"),
    }
    return points, axes


def _arm(side: str) -> Part:
    wrist = _leftwards(side, f"{side}WRA", f"{side}WRB")
    elbow = (0.0, -0.04 * _SIDES[side], 0.0)
    points = {
        f"{side}S": Shifted(f"{side}SHO", (0.0, 0.0, -0.1), Like("torso"), _SHOULDERS),
        f"{side}E": Shifted(f"{side}ELB", elbow, Like("torso")),
        f"{side}W": Midpoint(wrist),
    }
    upper = Axes("z", z=(f"{side}E", f"{side}S"), y=_SHOULDERS)
    lower = Axes("z", z=(f"{side}W", f"{side}E"), y=wrist)
    axes = {f"{side}arm": upper, f"{side}forearm": lower, f"{side}hand": Like(f"{side}forearm")}
    return points, axes
