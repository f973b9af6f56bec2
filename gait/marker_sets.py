"""Sets of markers by name: what they mean, as relations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import cos, sin
from typing import Any, TypeAlias

from kinesym.base.checks import check_choice, check_kind, mapping, positive
from kinesym.gait.checks import warn
from kinesym.gait.markers import Markers
from kinesym.gait.relations import (
    Axes,
    Carried,
    Chord,
    Like,
    Midpoint,
    Position,
    Relations,
    Shifted,
    names_in,
)
from kinesym.runtime.summary import listed

#: Points and axes of a part.
Part: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
#: Positions of markers by name: in the trial, or carried from the standing trial.
At: TypeAlias = Mapping[str, Position]

#: Segments of which there are two.
_LIMBS = ("thigh", "shank", "hindfoot", "arm", "forearm")
#: Regressions of the hips.
_REGRESSIONS = ("davis", "harrington", "bell")
#: Direction of the sides along y.
_SIDES = {"R": -1.0, "L": 1.0}
#: Angles of the regression of Davis, seen from ahead and from the side [rad].
_THETA = 0.5
_BETA = 0.314


@dataclass(frozen=True)
class _Set:
    """A set of markers.

    owners : segment -> its markers. pelvis : right and left marker ahead, those behind. sizes : of
    the person that it needs. hips : its usual regression. leg, upper : its parts; a leg gets the
    cluster that carries its foot from the standing trial, if there is one.
    """

    owners: Mapping[str, Sequence[str]]
    pelvis: tuple[tuple[str, str], tuple[str, str]]
    sizes: tuple[str, ...]
    hips: str
    leg: Callable[[str, At, Mapping[str, float], Sequence[str]], Part]
    upper: Callable[[At], list[Part]]


def marker_set(
    name: str,
    markers: Markers,
    stature: float,
    leg_length: float | None = None,
    knee_width: float | None = None,
    ankle_width: float | None = None,
    radius: float = 0.007,
    hips: str | Mapping[str, Position] | None = None,
    standing: Collection[str] = (),
    clusters: Mapping[str, Sequence[str]] | None = None,
) -> Relations:
    """Relations of the points and axes of `segments_of_body` to a set of markers, by its name.

    name : "plug-in-gait", the conventional gait model: knees and ankles by `Chord` with thigh and
        shank markers. Markers are RASI, LASI, RPSI and LPSI or SACR, RTHI, RKNE, RTIB, RANK, RHEE,
        RTOE and those of the left; of the upper body C7, T10, CLAV, STRN; RFHD, RBHD, ...; RSHO,
        RELB, RWRA, RWRB, ... It needs `leg_length`, `knee_width` and `ankle_width`.
        "isb": axes and landmarks of the ISB (Wu et al. 2002, J Biomech 35:543; 2005, 38:981):
        RASIS, RPSIS (or SACR), femoral epicondyles RFLE (lateral) and RFME, malleoli RLM and RMM,
        heel RCAL, heads of metatarsals RMT1, RMT5, and those of the left; of the upper body C7, T8,
        IJ, PX; acromion RAC, epicondyles REL and REM, styloids RRS (radius) and RUS, ...
    stature, leg_length, knee_width, ankle_width : of the person [m]. radius : of markers [m].
    hips : regression "davis" (Davis et al. 1991, Hum Mov Sci 10:575, by the leg length; usual in
        Plug-in Gait), "harrington" (Harrington et al. 2007, J Biomech 40:595, by depth and width of
        the pelvis; usual in "isb") or "bell" (Bell et al. 1990, J Biomech 23:617, by its width); or
        positions of RH and LH, such as `functional_centre` gives.
    standing : names of markers, or positions by name, of the standing trial. What the markers lack
        is carried from there by `clusters`: segment, such as "Rthigh", -> three or more markers.
        With it feet of "isb" are in line with the shank there, its neutral posture; without it
        they point from the heel to the metatarsals.

    Assumed: the shoulder is under its marker by a tenth of the distance of both; in Plug-in Gait
    the elbow is 4 cm inside of its; toes turn with the foot, the neck (in "isb" the head, too) with
    the trunk, hands with forearms. Parts of the upper body that lack markers stay upright and turn
    with the pelvis, with a warning that names them. Raises `ValueError` that names all markers of
    pelvis and legs, or sizes, that are missing.
    """
    check_choice(name, tuple(_SETS), "name")
    check_kind(markers, Markers, "kinesym.gait")
    of = _SETS[name]
    hips = of.hips if hips is None else hips
    widths = {"leg_length": leg_length, "knee_width": knee_width, "ankle_width": ankle_width}
    sizes = _sizes(of, hips, {"stature": stature, "radius": radius, **widths})
    carriers = mapping({} if clusters is None else clusters, "clusters")
    at, lacking = _positions(of, markers, standing, carriers)
    front, back = of.pelvis
    back_too = back if "SACR" in lacking else ("SACR",)
    ends, behind = (at[front[0]], at[front[1]]), Midpoint([at[one] for one in back_too])
    above = Shifted(Midpoint(("RH", "LH")), (0.0, 0.0, 0.149 * stature), Like("pelvis"))
    points = {"J1": above} | _hips(hips, ends, behind, sizes)
    pelvis = {"pelvis": Axes("y", y=ends, x=(behind, Midpoint(ends)))}
    legs = []
    for side in _SIDES:
        foot = f"{side}hindfoot"
        carrier = carriers.get(foot, of.owners[foot]) if standing else ()
        legs.append(of.leg(side, at, sizes, carrier))
    needed = names_in([points, pelvis, *legs])
    absent = [each for each in lacking if each in needed]
    if absent:
        raise ValueError(
            f"the markers lack {', '.join(absent)} of {name}; markers.renamed({{old: new}}) names "
            "what is called otherwise, standing= and clusters= carry others"
        )
    parts, assumed = [({}, pelvis), *legs], list[str]()
    for part in of.upper(at):
        known = not lacking.keys() & names_in(part)
        parts.append(part if known else ({}, dict.fromkeys(part[1], Axes("z", z="up", y=ends))))
        assumed += [] if known else part[1]
    axes = dict[str, Any]()
    for more, turning in parts:
        points, axes = points | more, axes | turning
    if assumed:
        warn(
            f"{listed(assumed)} have no markers of {name}: taken to stay upright and to turn with "
            "the pelvis"
        )
    return Relations(points, axes | {"neck": Like("torso")})


def _sizes(of: _Set, hips: object, given: Mapping[str, float | None]) -> dict[str, float]:
    """Sizes of the person that are given; raises `ValueError` for those that are missing."""
    sizes = {what: size for what, size in given.items() if size is not None}
    for size in sizes.values():
        positive(size, "a size of the person")
    needed = dict.fromkeys([*of.sizes, *(["leg_length"] if hips == "davis" else [])])
    absent = [what for what in needed if what not in sizes]
    if absent:
        raise ValueError(f"these markers and hips need {', '.join(absent)} [m]")
    return sizes


def _positions(
    of: _Set, markers: Markers, standing: Collection[str], clusters: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Position], dict[str, None]]:
    """Positions of all markers of a set by name, and the names of those that are nowhere."""
    for segment in clusters:
        check_choice(segment, of.owners, "a segment of clusters")
    if isinstance(standing, str):
        raise ValueError(f"standing is names of markers, or places by name, got {standing!r}")
    at, lacking = dict[str, Position](), dict[str, None]()
    for segment, names in of.owners.items():
        for name in names:
            carried = name not in markers and name in standing and segment in clusters
            at[name] = Carried(name, clusters[segment]) if carried else name
            if not carried and name not in markers:
                lacking[name] = None
    return at, lacking


# -- hips -----------------------------------------------------------------------------------------


def _hips(
    hips: str | Mapping[str, Position],
    ends: tuple[Position, Position],
    behind: Position,
    sizes: Mapping[str, float],
) -> dict[str, Position]:
    """Centres of the hips by a regression, or as they are given. ends : spines of the pelvis ahead,
    right and left; bones are a radius behind these markers, and ahead of those behind."""
    if not isinstance(hips, str):
        given = mapping(hips, "hips")
        if set(given) != {"RH", "LH"}:
            raise ValueError(f"hips are positions of RH and LH, got {listed(given) or 'none'}")
        return dict(given)
    check_choice(hips, _REGRESSIONS, "hips")
    pelvis, middle, radius = Like("pelvis"), Midpoint(ends), sizes["radius"]
    found = dict[str, Position]()
    for (side, left), end in zip(_SIDES.items(), ends, strict=True):
        if hips == "davis":
            leg = sizes["leg_length"]
            size, depth = 0.115 * leg - 0.0153, 0.1288 * leg - 0.04856 + radius
            ahead = size * cos(_THETA) * sin(_BETA) - depth * cos(_BETA)
            up = -size * cos(_THETA) * cos(_BETA) - depth * sin(_BETA)
            hip = Shifted(end, (ahead, -left * size * sin(_THETA), up), pelvis)
        elif hips == "harrington":
            deep = Shifted(middle, (-0.24, 0.0, 0.0), pelvis, (behind, middle))
            wide = Shifted(deep, (0.0, 0.33 * left, -0.30), pelvis, ends)
            hip = Shifted(wide, (-0.0099 - 0.52 * radius, 0.0073 * left, -0.0109), pelvis)
        else:
            wide = Shifted(end, (-0.19, -0.14 * left, -0.30), pelvis, ends)
            hip = Shifted(wide, (-radius, 0.0, 0.0), pelvis)
        found[f"{side}H"] = hip
    return found


# -- legs -----------------------------------------------------------------------------------------


def _leftwards(side: str, outer: Position, inner: Position) -> tuple[Position, Position]:
    return (outer, inner) if side == "R" else (inner, outer)


def _chords(side: str, at: At, sizes: Mapping[str, float], _: Sequence[str]) -> Part:
    """A leg of Plug-in Gait."""
    radius = sizes["radius"]
    knee, ankle = 0.5 * sizes["knee_width"] + radius, 0.5 * sizes["ankle_width"] + radius
    thigh, lateral, tibia, malleolus, heel, toe = (
        at[f"{side}{name}"] for name in ("THI", "KNE", "TIB", "ANK", "HEE", "TOE")
    )
    H, K, A = (f"{side}{joint}" for joint in "HKA")
    points = {K: Chord(lateral, H, thigh, knee), A: Chord(malleolus, K, tibia, ankle)}
    axes = {
        f"{side}thigh": Axes("z", z=(K, H), y=_leftwards(side, lateral, K)),
        f"{side}shank": Axes("z", z=(A, K), y=_leftwards(side, malleolus, A)),
        f"{side}hindfoot": Axes("x", x=(heel, toe), z=(A, K)),
        f"{side}forefoot": Like(f"{side}hindfoot"),
    }
    return points | {f"{side}M": toe}, axes


def _epicondyles(side: str, at: At, _: Mapping[str, float], foot: Sequence[str]) -> Part:
    """A leg of the ISB: the thigh along hip and middle of the epicondyles, the shank along the
    malleoli, normal to the plane through them and the knee."""
    knee, ankle, ball = (
        _leftwards(side, at[f"{side}{outer}"], at[f"{side}{inner}"])
        for outer, inner in (("FLE", "FME"), ("LM", "MM"), ("MT5", "MT1"))
    )
    H, K, A, M = (f"{side}{joint}" for joint in "HKAM")
    shank = Like(f"{side}shank")
    axes = {
        f"{side}thigh": Axes("z", z=(K, H), y=knee),
        f"{side}shank": Axes("y", y=ankle, z=(A, K)),
        f"{side}hindfoot": Carried(shank, foot)
        if foot
        else Axes("x", x=(at[f"{side}CAL"], M), y=ball),
        f"{side}forefoot": Like(f"{side}hindfoot"),
    }
    return {K: Midpoint(knee), A: Midpoint(ankle), M: Midpoint(ball)}, axes


# -- upper body -----------------------------------------------------------------------------------


def _shoulder(side: str, at: At, marker: str) -> Position:
    """Under the marker on the acromion by a tenth of the distance of both."""
    both = (at[f"R{marker}"], at[f"L{marker}"])
    return Shifted(at[f"{side}{marker}"], (0.0, 0.0, -0.1), Like("torso"), both)


def _plug_in_upper(at: At) -> list[Part]:
    ahead = (Midpoint([at["C7"], at["T10"]]), Midpoint([at["CLAV"], at["STRN"]]))
    trunk = {"torso": Axes("z", z=("J1", "NK"), x=ahead)}
    behind, front = ((at[f"R{end}HD"], at[f"L{end}HD"]) for end in "BF")
    skull = {"head": Axes("x", x=(Midpoint(behind), Midpoint(front)), y=front)}
    parts: list[Part] = [({"NK": Midpoint([at["C7"], at["CLAV"]])}, trunk), ({}, skull)]
    across = (at["RSHO"], at["LSHO"])
    for side, left in _SIDES.items():
        wrist = _leftwards(side, at[f"{side}WRA"], at[f"{side}WRB"])
        elbow = Shifted(at[f"{side}ELB"], (0.0, -0.04 * left, 0.0), Like("torso"))
        joints = (_shoulder(side, at, "SHO"), elbow, Midpoint(wrist))
        parts.append(_arm(side, joints, across, wrist))
    return parts


def _isb_upper(at: At) -> list[Part]:
    up = (Midpoint([at["PX"], at["T8"]]), Midpoint([at["IJ"], at["C7"]]))
    trunk = {"torso": Axes("z", z=up, x=(at["C7"], at["IJ"])), "head": Like("torso")}
    parts: list[Part] = [({"NK": up[1]}, trunk)]
    for side in _SIDES:
        elbow = _leftwards(side, at[f"{side}EL"], at[f"{side}EM"])
        styloids = _leftwards(side, at[f"{side}RS"], at[f"{side}US"])
        joints = (_shoulder(side, at, "AC"), Midpoint(elbow), Midpoint(styloids))
        points, axes = _arm(side, joints, elbow, styloids)
        ulna = Axes("z", z=(at[f"{side}US"], f"{side}E"), y=styloids)
        parts.append((points, axes | {f"{side}forearm": ulna}))
    return parts


def _arm(side: str, joints: Sequence[Position], elbow: Any, wrist: Any) -> Part:
    """An arm by its shoulder, elbow and wrist, and directions to the left."""
    S, E, W = (f"{side}{joint}" for joint in "SEW")
    axes = {
        f"{side}arm": Axes("z", z=(E, S), y=elbow),
        f"{side}forearm": Axes("z", z=(W, E), y=wrist),
        f"{side}hand": Like(f"{side}forearm"),
    }
    return dict(zip((S, E, W), joints, strict=True)), axes


def _owners(text: str) -> dict[str, list[str]]:
    """Markers by segment, of "segment marker marker; ..." and of both sides of limbs."""
    rows = [part.split() for part in text.split(";")]
    return {
        side + segment: [side + name for name in names]
        for side in ("", *_SIDES)
        for segment, *names in rows
        if (segment in _LIMBS) == bool(side)
    }


_SETS = {
    "plug-in-gait": _Set(
        _owners(
            "pelvis RASI LASI RPSI LPSI SACR; torso C7 T10 CLAV STRN RSHO LSHO; "
            "head RFHD LFHD RBHD LBHD; thigh THI KNE; shank TIB ANK; hindfoot HEE TOE; "
            "arm ELB; forearm WRA WRB"
        ),
        (("RASI", "LASI"), ("RPSI", "LPSI")),
        ("leg_length", "knee_width", "ankle_width"),
        "davis",
        _chords,
        _plug_in_upper,
    ),
    "isb": _Set(
        _owners(
            "pelvis RASIS LASIS RPSIS LPSIS SACR; torso C7 T8 IJ PX RAC LAC; thigh FLE FME; "
            "shank LM MM; hindfoot CAL MT1 MT5; arm EL EM; forearm RS US"
        ),
        (("RASIS", "LASIS"), ("RPSIS", "LPSIS")),
        (),
        "harrington",
        _epicondyles,
        _isb_upper,
    ),
}
