"""Axes and units of a laboratory: told, or found from the data, and said.

World axes of kinesym: x forwards, y to the left, z up. Those of a file are named by `up`,
`forward` and `left`: one of x, y, z, -x, -y, -z each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from scipy.spatial.transform import Rotation

from kinesym.base.checks import check_choice, finite
from kinesym.gait.checks import warn
from kinesym.gait.names import is_foot, is_heel, is_toe, is_trunk, pairs_of_sides
from kinesym.runtime.arrays import Array

DIRECTIONS = ("x", "y", "z", "-x", "-y", "-z")
#: Lengths in metres.
UNITS = {"m": 1.0, "cm": 1e-2, "mm": 1e-3}
#: Beginnings of other spellings in files, which may be cut off: C3D files have "mete".
SPELLINGS = {"mil": "mm", "cen": "cm", "met": "m"}
#: Default forward axis, by the axis that is up.
AHEAD = {"x": "y", "y": "x", "z": "x"}
#: Coordinates of people in a laboratory lie between these [m].
PLAUSIBLE = (0.05, 50.0)
#: Narrower range of them, used if the unit has to be found [m].
SURE = (0.3, 20.0)
#: A direction belongs to an axis if their cosine is more: 26 degrees.
ALONG = 0.9
#: Heading off forward above which a note says so [rad]; the angle of `ALONG`.
ASKEW = float(np.arccos(ALONG))
#: Cosine between feet and way of a person who walks straight ahead: 45 degrees.
STRAIGHT = 0.7
#: Shortest displacement that counts as a walk [m].
WALKED = 0.5
#: Shortest distance between feet or shoulders that shows a direction [m].
APART = 0.05


@dataclass(frozen=True)
class Laboratory:
    """The axes and the unit of a file.

    up, forward, left : axes of the file. unit : of its lengths. note : findings, and their
    evidence. upward : evidence for `up`; empty if there is none.
    """

    up: str
    forward: str
    left: str
    unit: str = "m"
    note: str = ""
    upward: str = "as told"

    @property
    def sure(self) -> bool:
        """Whether there is evidence for the upward axis; else it is a guess."""
        return self.upward not in ("", EXTENT)

    @property
    def turn(self) -> Array:
        """The matrix (3, 3) from axes of the file to those of the world."""
        return rotation(self.up, self.forward, self.left)


@dataclass(frozen=True)
class Evidence:
    """Evidence for the axes of a file in its data: up and forward, each an axis or nothing, and
    why."""

    up: str = ""
    upward: str = ""
    forward: str = ""
    onward: str = ""


NOTHING = Evidence()
#: Up and forwards as a file says of itself; "" where it does not.
Own: TypeAlias = tuple[str, str]
NO_AXES: Own = ("", "")
#: Evidence that an axis is up: forces.
WEIGHT = "the weight"
#: Evidence that an axis is up: a record of one plane.
PLANE = "the plane of the record"
#: Evidence that an axis is up: a guess by the extent of the markers.
EXTENT = "the longest extent"
#: Axes as declared by files that are written here.
_OWN = re.compile(r"\bup=(-?[xyz])\s+forward=(-?[xyz])\b")


def said_axes(up: str, forward: str) -> str:
    """Text by which a file declares its axes, read again by `own_axes`."""
    return f"up={up} forward={forward}"


def own_axes(text: str) -> Own:
    """Axes declared in the header of a file."""
    found = _OWN.search(text)
    return (found[1], found[2]) if found else NO_AXES


def rotation(up: str, forward: str, left: str | None = None) -> Array:
    """The matrix (3, 3) from axes of a file to those of the world.

    left : by default the one that makes the axes right-handed; its opposite mirrors.

    Raises `ValueError` for other texts than axes, and for two that are the same.
    """
    for what, axis in (("up", up), ("forward", forward), ("left", left or "x")):
        check_choice(axis, DIRECTIONS, what)
    ahead, above = (_unit_vector(axis) for axis in (forward, up))
    if ahead @ above:
        raise ValueError(f"up={up!r} and forward={forward!r} are the same axis; choose two")
    aside = np.cross(above, ahead)
    if left is not None:
        if not aside @ _unit_vector(left):
            raise ValueError(f"left={left!r} is up or forward too; choose {name_of(aside)!r}")
        aside = _unit_vector(left)
    return np.array([ahead, aside, above])


def about_vertical(angle: float) -> Array:
    """The matrix (3, 3) that turns the world to the left [rad]."""
    return np.asarray(Rotation.from_euler("z", finite(angle, "the angle")).as_matrix())


def name_of(direction: Array) -> str:
    """The axis nearest to a vector (3,)."""
    k = int(np.argmax(np.abs(direction)))
    return ("-" if direction[k] < 0.0 else "") + "xyz"[k]


def chosen(
    path: object,
    told: tuple[str | None, str | None, str | None],
    evidence: Evidence,
    unit: str,
    default: str,
    like: Laboratory | None = None,
    own: Own = NO_AXES,
) -> Laboratory:
    """Axes as given (up, forward, left), or as the file declares, or else found in the data, or
    else the usual ones.

    default : the upward axis without evidence. like : the file whose axes these are too. own : up
    and forwards that the file says.

    Warns if the file or the data contradict the given axes, or the data those of `like` (who walks
    backwards brakes the other way), if up is a guess, and if forwards is found to be elsewhere than
    it usually is, since other files of the trial have to be read alike.
    """
    up, forward, left = told
    if own != NO_AXES:
        for what, given, said in zip(("up", "forward"), (up, forward), own, strict=True):
            if given and given != said:
                warn(f"{path}: {what}={given!r} was given, but the file says {said}")
        evidence, reason = NOTHING, "as the file says"
        if not (up or forward or left):
            above, ahead = own
            note = f"{above} is up, {ahead} forwards ({reason}); lengths in {unit}"
            return Laboratory(above, ahead, name_of(rotation(above, ahead)[1]), unit, note)
        up, forward = up or own[0], forward or own[1]
    elif like is not None:
        up, forward, left = up or like.up, forward or like.forward, left or like.left
    above = up or evidence.up or default
    check_choice(above, DIRECTIONS, "up")
    usual = AHEAD[above[-1]]
    seen = evidence.forward if evidence.forward[-1:] != above[-1] else ""
    ahead = forward or seen or usual
    aside = left or name_of(rotation(above, ahead)[1])
    rotation(above, ahead, aside)  # raises
    upward = "as told" if up else evidence.upward
    if upward in ("", EXTENT):
        warn(
            f"{path}: {above} is taken to be up, {_because(False, evidence.up, evidence.upward)}, "
            f"as neither names of markers nor forces tell: up={above!r} confirms it; "
            "find_files(folder).up asks the other files of the session"
        )
    if up and evidence.up and evidence.upward != EXTENT and up != evidence.up:
        warn(f"{path}: up={up!r} was given, but {evidence.up} is up by {evidence.upward}")
    elif forward and seen and forward != seen and (like is None or forward[-1] != seen[-1]):
        warn(f"{path}: forward={forward!r} was given, but {seen} is forwards by {evidence.onward}")
    elif not forward and seen not in ("", usual):
        warn(
            f"{path}: {seen} is forwards by {evidence.onward}: turned; read other files of the "
            f"trial with forward={seen!r} too"
        )
    reasons = [_because(bool(up), evidence.up, evidence.upward)]
    reasons.append(_because(bool(forward), seen, evidence.onward))
    note = f"{above} is up ({reasons[0]}), {ahead} forwards ({reasons[1]}); lengths in {unit}"
    return Laboratory(above, ahead, aside, unit, note, upward)


def _because(told: bool, found: str, why: str) -> str:
    return "as told" if told else f"by {why}" if found else "as usual"


def _unit_vector(axis: str) -> Array:
    return (-1.0 if axis[0] == "-" else 1.0) * np.eye(3)["xyz".index(axis[-1])]


# -- units --------------------------------------------------------------------------------------


def unit_of(path: object, said: str, unit: str | None, coordinates: Iterable[Array]) -> str:
    """Unit of lengths: as given by the user, or else by the file, or else guessed from the
    coordinates.

    said : by the file, "" if it says nothing.

    Warns where coordinates of people cannot be in the unit that the file says. Raises `ValueError`
    for units that are not known.
    """
    if unit is not None:
        check_choice(unit, UNITS, "unit")
        return unit
    said = said.strip(". \0")
    known = SPELLINGS.get(said[:3], said) or "m"
    if known not in UNITS:
        raise ValueError(f"{path} says that lengths are in {said!r}; set unit='m' or unit='mm'")
    largest = max((float(np.nanmax(np.abs(rows), initial=0.0)) for rows in coordinates), default=0)
    if PLAUSIBLE[0] <= largest * UNITS[known] <= PLAUSIBLE[1]:
        return known
    better = [name for name in ("m", "mm") if SURE[0] <= largest * UNITS[name] <= SURE[1]]
    if not better:
        return known
    if said:
        warn(
            f"{path} says that lengths are in {said}, but the largest is {largest:.4g}: taken as "
            f"{better[0]}; unit={known!r} insists"
        )
    return better[0]


# -- records of one plane -----------------------------------------------------------------------


def absent(up: str | None, forward: str | None, found: Iterable[Mapping[str, Array]]) -> str:
    """The axis to the side if no column of these vectors has it, or else nothing."""
    seen = {axis for axes in found for axis in axes}
    lacking = [axis for axis in "xyz" if axis not in seen]
    above = (up or ("z" if lacking == ["y"] else "y"))[-1]
    ahead = (forward or AHEAD.get(above, ""))[-1:]
    return lacking[0] if len(lacking) == 1 and lacking[0] not in (above, ahead) else ""


def of_plane(side: str) -> Evidence:
    """Evidence in a record that lacks the axis to the side, "" if it lacks none."""
    return Evidence("z" if side == "y" else "y", PLANE) if side else NOTHING


# -- what markers say ---------------------------------------------------------------------------


def seen_in_markers(
    positions: Mapping[str, Array], pressed: Evidence = NOTHING, told: str = ""
) -> Evidence:
    """Evidence for up and forward in the positions (3, N) of markers [m].

    Up: names of feet below those of trunk and head, or the longest extent. Forward: the way walked,
    or from heels to toes, or between sides. pressed : other evidence, such as forces of the same
    file, which counts more than extent. told : the known upward axis, for the search of forward.
    """
    up, upward = _up(positions, pressed)
    if not up:
        return NOTHING
    above = _unit_vector(told or up)
    forward, onward = _forward(positions, above)
    if not forward and upward == pressed.upward:
        forward, onward = pressed.forward, pressed.onward
    return Evidence(up, upward, forward, onward)


def _up(positions: Mapping[str, Array], pressed: Evidence) -> tuple[str, str]:
    foot, trunk = list(filter(is_foot, positions)), list(filter(is_trunk, positions))
    rise = _middle(positions, trunk) - _middle(positions, foot)
    if foot and trunk and np.linalg.norm(rise) > 0.3 and _along(rise):
        return name_of(rise), "the names of markers"
    if pressed.up:
        height = float(_middle(positions, list(positions)) @ _unit_vector(pressed.up))
        sign = "-" if height < 0.0 and pressed.upward == WEIGHT else ""
        return sign + pressed.up, pressed.upward
    if len(positions) < 8:
        return "", ""
    rows = np.array(list(positions.values()))
    seen = rows[:, :, np.isfinite(rows).all(axis=(0, 1))]
    if not seen.size:
        return "", ""
    extent = np.ptp(seen, axis=0).mean(axis=1)
    longest = int(np.argmax(extent))
    second = np.sort(extent)[-2]
    if not 0.5 < extent[longest] < 2.6 or extent[longest] < 1.4 * second:
        return "", ""
    return name_of(np.eye(3)[longest] * np.sign(seen[:, longest].mean())), EXTENT


def _forward(positions: Mapping[str, Array], above: Array) -> tuple[str, str]:
    ahead, why = facing(positions, above)
    if not why:
        ahead, why = np.cross(_across(positions), above), "left and right"
        ahead = ahead - (ahead @ above) * above
    if np.linalg.norm(ahead) < APART or not _along(ahead):
        return "", ""
    return name_of(ahead), why


def facing(positions: Mapping[str, Array], above: Array) -> tuple[Array, str]:
    """Direction in which a person looks (3,), and why: the way walked, or from heels to toes, also
    of one who walks backwards or sideways."""
    level = np.eye(3) - np.outer(above, above)
    toes, heels = list(filter(is_toe, positions)), list(filter(is_heel, positions))
    pointing = np.zeros(3)
    if toes and heels:
        pointing = level @ (_middle(positions, toes) - _middle(positions, heels))
    walked, feet = level @ _way(positions), np.linalg.norm(pointing)
    way = np.linalg.norm(walked)
    if way > WALKED and (feet < APART or pointing @ walked > STRAIGHT * feet * way):
        return walked, "the way walked"
    return (pointing, "heels and toes") if feet > APART else (pointing, "")


#: The vertical of the world.
UP = np.array([0.0, 0.0, 1.0])


def askew(positions: Mapping[str, Array]) -> float:
    """Heading: angle by which a person looks to the left of forward, in world axes (3, N) [rad];
    zero if neither feet nor the way show it."""
    ahead, why = facing(positions, UP)
    return float(np.arctan2(ahead[1], ahead[0])) if why else 0.0


def sides_agree(positions: Mapping[str, Array]) -> bool:
    """Whether markers called left are to the left of those called right, in world axes (3, N), of
    somebody whose feet or way show where forwards is."""
    ahead, why = facing(positions, UP)
    if not why:
        return True
    aside = np.cross(UP, ahead) / np.linalg.norm(ahead)
    return bool(_across(positions) @ aside > -APART)


def _across(positions: Mapping[str, Array]) -> Array:
    """Mean vector from markers called right to their partners called left (3,)."""
    pairs = pairs_of_sides(positions)
    if not pairs:
        return np.zeros(3)
    right, left = ([pair[k] for pair in pairs] for k in (0, 1))
    return _middle(positions, left) - _middle(positions, right)


def _middle(positions: Mapping[str, Array], names: Sequence[str]) -> Array:
    """The mean position (3,) of markers; zero if there is none."""
    rows = [positions[name][:, np.isfinite(positions[name][0])] for name in names]
    means = [row.mean(axis=1) for row in rows if row.size]
    return np.mean(means, axis=0) if means else np.zeros(3)


def _way(positions: Mapping[str, Array]) -> Array:
    """Displacement from the first tenth of the record to the last (3,), mean of the markers seen in
    both."""
    found = []
    for position in positions.values():
        tenth = max(position.shape[1] // 10, 1)
        parts = position[:, :tenth], position[:, -tenth:]
        first, last = (part[:, np.isfinite(part[0])] for part in parts)
        if first.size and last.size:
            found.append(last.mean(axis=1) - first.mean(axis=1))
    return np.mean(found, axis=0) if found else np.zeros(3)


def _along(direction: Array) -> bool:
    """Whether a vector points along an axis."""
    return bool(np.abs(direction).max() > ALONG * np.linalg.norm(direction))


# -- what forces say ----------------------------------------------------------------------------

#: Least change of the mean force from braking to pushing, as a share of the mean load [-].
PUSH = 0.1
#: Shortest and longest stance of walking and running [s].
STANCE = (0.12, 1.5)


def seen_in_forces(plates: Iterable[tuple[Array, Array]], threshold: float) -> Evidence:
    """Evidence for the axes in forces (3, N) at times (N,): weight is along the vertical, and whole
    stances first brake, then push. The sign of the vertical is not determined."""
    data = list(plates)
    sizes = [np.abs(np.nan_to_num(force)).sum(axis=1) for _, force in data]
    total = np.sum(sizes, axis=0) if sizes else np.zeros(3)
    if not total.any() or not total.max() > 2.0 * np.sort(total)[-2]:
        return NOTHING
    k = int(np.argmax(total))
    pushes = [p for time, force in data for p in _pushes(time, force, k, threshold)]
    forward = np.mean(pushes, axis=0) if pushes else np.zeros(3)
    if np.linalg.norm(forward) > PUSH and _along(forward):
        return Evidence("xyz"[k], WEIGHT, name_of(forward), "braking and pushing")
    return Evidence("xyz"[k], WEIGHT)


def _pushes(time: Array, force: Array, vertical: int, threshold: float) -> list[Array]:
    """Change from the first half of each whole stance to its second, (3,) relative to the load."""
    load = np.abs(force[vertical])
    ends = np.flatnonzero(np.diff((load > threshold).astype(int)))
    found = []
    for begin, end in pairwise(ends):
        if load[begin + 1] > threshold and STANCE[0] < time[end] - time[begin] < STANCE[1]:
            halves = np.array_split(np.nan_to_num(force[:, begin + 1 : end + 1]), 2, axis=1)
            change = (halves[1].mean(axis=1) - halves[0].mean(axis=1)) / load[
                begin : end + 1
            ].mean()
            change[vertical] = 0.0
            found.append(change)
    return found
