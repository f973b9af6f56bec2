"""Force plates: which foot is on which, and whether they can be right: by themselves (offsets), in
time (early or late), and against a motion (under the other foot, of another mass, centres beside
the foot).

World axes x forwards, y to the left, z up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import maximum_filter1d, minimum_filter1d, uniform_filter1d

from kinesym.base.checks import Named, check_kind, finite, mapping
from kinesym.gait.checks import Check, Finding, Panel, judged, warn_of
from kinesym.gait.events import (
    Contact,
    Feet,
    contacts_from_wrench,
    distance_to_line,
    during,
    heels_and_toes,
)
from kinesym.gait.gaps import runs
from kinesym.gait.kinematics import Spline
from kinesym.gait.names import segments_of_foot
from kinesym.gait.natural.body import G, NaturalBody
from kinesym.gait.wrench import PRESSING, THRESHOLD, Wrench, between
from kinesym.runtime.arrays import Array, time_grid
from kinesym.symbolic.multibody.segments import Segment

#: Largest distance of a foot's centre of pressure from the line between heel and toe [m].
NEAR = 0.1
#: Share of a contact for which places of the feet must be known.
COVERED = 0.5
#: Largest force that a plate may show while nothing stands on it [N].
OFFSET = 10.0
#: Shortest time that a plate is empty to be judged [s].
EMPTY = 0.1
#: Variation of an empty plate during that time, at most, as a share of the largest force [-].
LOWEST = 0.03
#: Force of an empty plate, at most, as a share of the largest vertical force [-].
NEVER = 0.3
#: Largest lag of plates behind the motion that counts as none [s].
LAG = 0.02
#: Largest lag that is looked for [s].
FARTHEST = 0.25
#: Step of the search for the lag [s].
STEP = 0.0025
#: Shortest record of which the lag is estimated [s].
LONG_ENOUGH = 0.4
#: Number of samples, at most, from which the lag is estimated.
ENOUGH = 2000
#: Largest share of the misfit that remains without the lag, if the lag is real [-].
REMAINS = 0.8
#: Smallest decrease of the misfit without the lag, as a share of the weight [-].
GAIN = 0.015
#: Deviation of the mean vertical force over strides from the weight [-].
MASS = 0.05
#: Largest mean distance of a centre of pressure from the line of the foot [m].
BESIDE = 0.10
#: Largest distance of a centre of pressure from the line of the foot at any instant [m].
OUTSIDE = 0.12
#: Length of a foot behind the ankle, relative to the distance from ankle to ball [-].
BEHIND = 0.4
#: Length of a foot ahead of the ball, relative to the distance from ankle to ball [-].
AHEAD = 0.6


@dataclass(frozen=True)
class Step:
    """A foot stands on a plate from begin to end [s].

    distance : of the centre of pressure from the line between heel and toe, its mean weighted by
    the vertical force [m].
    """

    plate: str
    foot: str
    begin: float
    end: float
    distance: float


def assign_plates(
    plates: Mapping[str, Wrench],
    time: ArrayLike,
    feet: Feet,
    threshold: float = THRESHOLD,
    near: float = NEAR,
    height: float = 0.0,
) -> tuple[dict[str, Wrench], list[Step]]:
    """Assign plates to feet: the wrench on each foot, and the steps in order.

    plates : by name, all on one grid. time : (N,), of the markers [s], covering half of each
    contact at least.
    feet : by name, the positions of its heel and toe markers, each (3, N) [m]. near : a plate's
    centre of pressure belongs to the foot whose line from heel to toe is nearest, seen from above,
    if nearer than this [m]. height : of the plates [m].

    A foot may stand on several plates, at once too, and a plate may carry one foot after the
    other. Warns of plates that show a force while nothing stands on them. Raises `ValueError`
    naming plate and interval if two feet stand on it at once, or none.
    """
    if not mapping(plates, "plates") or not mapping(feet, "feet"):
        raise ValueError("give at least one plate and one foot")
    for plate in plates.values():
        check_kind(plate, Wrench, "kinesym.gait")
    near, grid = finite(near, "near"), time_grid(time)
    lines = heels_and_toes(feet, grid)
    warn_of([one for name, plate in plates.items() for one in check_empty(name, plate)])
    first = next(iter(plates.values()))
    sums = Named("foot", {foot: Wrench.zero(first.time) for foot in feet})
    steps = []
    for name, plate in plates.items():
        centre = plate.cop(height, threshold)
        stances = contacts_from_wrench(name, plate, threshold)
        for contact, keep in zip(stances, _stretches(plate, stances), strict=True):
            inside = during(contact, plate.time)
            _check_covered(name, contact, grid)
            seen = (plate.time >= grid[0]) & (plate.time <= grid[-1])
            pressed = inside & seen & np.isfinite(centre[0])
            here = plate.time[pressed]
            apart = {
                foot: distance_to_line(centre[:2, pressed], *(between(here, grid, x) for x in ends))
                for foot, ends in lines.items()
            }
            foot = _owner(contact, apart, plate.force[2, pressed], near)
            share = plate.force[2, pressed] / plate.force[2, pressed].sum()
            steps.append(Step(name, foot, contact.begin, contact.end, float(share @ apart[foot])))
            sums[foot] = sums[foot] + plate.scaled(keep.astype(np.float64))
    return sums, sorted(steps, key=lambda step: (step.begin, step.plate))


def _owner(contact: Contact, apart: Mapping[str, Array], load: Array, near: float) -> str:
    """The foot that stands on a plate during a contact; contact.foot is the name of the plate.

    A twentieth of the impulse may be elsewhere: centres of pressure are poor when little presses.
    """
    feet, distances = list(apart), np.array(list(apart.values()))
    nearest = np.where(distances.min(axis=0) < near, distances.argmin(axis=0), -1)
    part = {foot: float(load[nearest == k].sum() / load.sum()) for k, foot in enumerate(feet)}
    when = f"from {contact.begin:.6g} to {contact.end:.6g} s"
    standing = [foot for foot in feet if part[foot] > 0.05]
    if len(standing) > 1:
        raise ValueError(
            f"plate {contact.foot!r} carries {' and '.join(standing)} {when}: the "
            "feet on one plate cannot be told apart; leave it out there"
        )
    if not standing or part[standing[0]] < 0.5:
        means = {foot: float(load @ row / load.sum()) for foot, row in apart.items()}
        closest = min(means, key=lambda foot: means[foot])
        raise ValueError(
            f"plate {contact.foot!r} is loaded {when}, but no foot is within {near} m of its "
            f"centre of pressure; {closest!r} is {means[closest]:.3f} m away; check axes and origin"
        )
    return standing[0]


def _stretches(plate: Wrench, stances: Sequence[Contact]) -> list[NDArray[np.bool_]]:
    """Samples of each stance with its tails down to nothing, at most half way to the next one."""
    if not stances:
        return []
    time, pressing = plate.time, plate.force[2] > 0.0
    limits = [-np.inf, *(0.5 * (one.end + two.begin) for one, two in pairwise(stances)), np.inf]
    found = []
    for contact, (low, high) in zip(stances, pairwise(limits), strict=True):
        inside = np.flatnonzero(during(contact, time))
        idle = np.flatnonzero(~pressing)
        before, after = idle[idle < inside[0]], idle[idle > inside[-1]]
        start = time[before[-1] if len(before) else 0]
        stop = time[after[0] if len(after) else -1]
        found.append((time >= max(start, low)) & (time <= stop) & (time < high))
    return found


def _check_covered(plate: str, contact: Contact, time: Array) -> None:
    seen = min(contact.end, time[-1]) - max(contact.begin, time[0])
    if seen < COVERED * (contact.end - contact.begin):
        raise ValueError(
            f"plate {plate!r} is loaded from {contact.begin:.6g} to {contact.end:.6g} s, the "
            f"markers are known from {time[0]:.6g} to {time[-1]:.6g} s; cut the plates to that, "
            "plate.at(markers.time)"
        )


# -- by themselves and in time --------------------------------------------------------------------


def check_empty(name: str, plate: Wrench) -> list[Finding]:
    """Check the offset of a plate: the force it shows while nothing stands on it."""
    time, step = plate.time, float(np.median(np.diff(plate.time)))
    width = max(round(EMPTY / step), 3)
    vertical = uniform_filter1d(plate.force[2], max(width // 5, 1), mode="nearest")
    highest = float(np.quantile(vertical, 0.99))
    if highest < 5.0 * OFFSET:
        return []
    ends = maximum_filter1d(vertical, width), minimum_filter1d(vertical, width)
    flat = (ends[0] - ends[1] < max(LOWEST * highest, OFFSET)) & (ends[0] < NEVER * highest)
    if not flat.any():
        return []
    size = np.zeros_like(time)
    for run in runs(flat):
        size[run] = np.linalg.norm(np.median(plate.force[:, run], axis=1))
    return judged("force on an empty plate", time, {name: size}, OFFSET, "N", _offset)


def _offset(one: Finding) -> str:
    return (
        f"plate {one.names[0]!r} shows {one.size:.0f} N while nothing stands on it, at "
        f"{one.worst:.3f} s: an offset or a drift; subtract what it shows unloaded"
    )


def check_lag(
    time: Array, force: Array, plates: Mapping[str, Wrench], measured: NDArray[np.bool_]
) -> list[Finding]:
    """Delay of the plates behind the force (3, N) that a motion needs.

    The lag at which both differ least, by the median over the samples (N,) in which all feet on the
    ground stand on plates.
    """
    begin = max(time[0], *(p.time[0] + FARTHEST for p in plates.values()))
    end = min(time[-1], *(p.time[-1] - FARTHEST for p in plates.values()))
    here = np.flatnonzero(measured & (time >= begin) & (time <= end))
    if not len(here) or time[here[-1]] - time[here[0]] < LONG_ENOUGH:
        return []
    here = here[:: max(len(here) // ENOUGH, 1)]
    needed = force[:, here]
    half = round(FARTHEST / STEP)
    lags = STEP * np.arange(-half, half + 1)
    misfit = np.array([_misfit(time[here] + lag, needed, plates) for lag in lags])
    least, lag = float(misfit.min()), float(lags[misfit.argmin()])
    gain = float(misfit[half]) - least
    sure = gain > max((1.0 - REMAINS) * misfit[half], GAIN * float(needed[2].mean()))
    size = abs(lag) if sure else 0.0
    says = (
        f"plates are {1e3 * size:.0f} ms {'late' if lag > 0.0 else 'early'} against the motion: "
        f"moved by that they differ by {least:.0f} N from the force that it needs, not by "
        f"{misfit[half]:.0f} N; synchronise them, or shift their time"
    )
    ends = float(begin), float(end), float(begin)
    return [Finding("plates late", tuple(plates), *ends, size, LAG, "s", says * (size > LAG))]


def _misfit(time: Array, needed: Array, plates: Mapping[str, Wrench]) -> float:
    """Median difference of the plates at other times (n,) from a force (3, n) [N]."""
    shown = np.sum([between(time, p.time, p.force) for p in plates.values()], axis=0)
    return float(np.median(np.linalg.norm(shown - needed, axis=0)))


# -- against a motion -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moved:
    """The motion as far as plates are concerned: time (N,), the force that it needs (3, N) [N],
    mass [kg], ends of the line of each foot (2, 3, N) [m]."""

    time: Array
    force: Array
    mass: float
    feet: Mapping[str, Array]


def check_feet(
    segments: Sequence[Segment],
    kinematics: Spline,
    plates: Mapping[str, Wrench],
    shared: Mapping[str, Wrench],
) -> Check:
    """Plates, and wrenches shared between the feet, by foot, against a motion."""
    moved = _moved(segments, kinematics, [*plates, *shared])
    findings, panels = [], []
    if plates:
        for name, plate in plates.items():
            findings += check_empty(name, plate)
        findings += check_lag(
            moved.time, moved.force, plates, ~_unmeasured(moved, moved.time, plates)
        )
        findings += _check_mass(moved, plates)
        findings += check_under(moved, plates)
        rows = {"needed": moved.force[2], "plates": _vertical(plates, moved.time)}
        kinds = ("force on an empty plate",)
        panels.append(Panel("vertical force [N]", moved.time, rows, kinds=kinds))
        panels.append(_distances(moved, plates, "foot on its plate", BESIDE))
    if shared:
        findings += _check_outside(moved, shared)
        panels.append(_distances(moved, shared, "shared centre of pressure", OUTSIDE))
    return Check(tuple(findings), tuple(panels))


def _moved(segments: Sequence[Segment], kinematics: Spline, feet: Sequence[str]) -> Moved:
    body = NaturalBody(segments, segments[0].proximal)
    begin, end = kinematics.span
    time = kinematics.time[(kinematics.time >= begin) & (kinematics.time <= end)]
    motion = kinematics.sample(time)
    q = body.kinematics(motion.z).q
    lines = {}
    for foot in dict.fromkeys(feet):
        names = segments_of_foot(foot, [row.name for row in segments])
        if not names:
            raise ValueError(
                f"there is no foot {foot!r} among the segments; plates are given by foot, "
                "'right' and 'left', such as assign_plates gives them"
            )
        hind = next(row for row in segments if row.name == names[0])
        ends = (hind.proximal, next(iter(hind.points)))
        lines[foot] = line_of_foot(*(q[body.rows_of(point)] for point in ends))
    force = body.forces(motion.z, motion.zd, motion.zdd)[:3]
    return Moved(time, force, sum(row.mass for row in segments), lines)


def line_of_foot(ankle: Array, ball: Array) -> Array:
    """Ends of the line of a foot (2, 3, N) [m]."""
    return np.array([ankle - BEHIND * (ball - ankle), ball + AHEAD * (ball - ankle)])


def _vertical(plates: Mapping[str, Wrench], time: Array) -> Array:
    """The sum of vertical forces (n,) at instants (n,) [N]."""
    return np.sum([between(time, p.time, p.force[2:])[0] for p in plates.values()], axis=0)


def _unmeasured(moved: Moved, time: Array, plates: Mapping[str, Wrench]) -> NDArray[np.bool_]:
    """Samples (n,) at which a foot must stand beside the plates: they measure nothing, but the
    motion needs a large force."""
    needed = between(time, moved.time, moved.force[2:])[0]
    weight, borne = moved.mass * G, _vertical(plates, time)
    nothing = 0.1 * min(weight, borne.max(initial=0.0))  # the mass may be wrong
    return (borne < nothing) & (needed > 0.3 * weight)


def _check_mass(moved: Moved, plates: Mapping[str, Wrench]) -> list[Finding]:
    """The mean vertical force over whole strides, against the weight."""
    weight, found = moved.mass * G, []
    for foot, plate in plates.items():
        strikes = [c.begin for c in contacts_from_wrench(foot, plate) if c.struck]
        for begin, end in pairwise(strikes):
            if begin < moved.time[0] or end > moved.time[-1]:
                continue
            grid = np.linspace(begin, end, 400)
            if not _unmeasured(moved, grid, plates).any():
                total = _vertical(plates, grid)
                found.append((float(total.mean()) / weight - 1.0, begin, end))
    if not found:
        return []
    off = float(np.mean([part for part, _, _ in found]))
    begin, end = found[0][1], found[-1][2]
    says = (
        f"plates bear {(1.0 + off) * weight:.0f} N on average over whole strides, the body of "
        f"{moved.mass:.1f} kg weighs {weight:.0f} N: its mass should be "
        f"{(1.0 + off) * moved.mass:.1f} kg, or the plates are not calibrated"
    )
    ends, wrong = (begin, end, begin), abs(off) > MASS
    return [Finding("weight", tuple(plates), *ends, abs(off), MASS, "-", says * wrong)]


def check_under(moved: Moved, plates: Mapping[str, Wrench]) -> list[Finding]:
    """Whether every plate is under the foot that it is given to: the mean distance of its centre of
    pressure, weighted by the vertical force, over each contact. The foot that is there instead, if
    one is, is named second."""
    found = []
    for foot, plate in plates.items():
        for contact in contacts_from_wrench(foot, plate):
            here = during(contact, moved.time)
            if here.sum() < 5:
                continue
            grid = moved.time[here]
            load, centre = _pressed(plate, grid)
            apart = {
                name: distance_to_line(centre, *line[:, :, here])
                for name, line in moved.feet.items()
            }
            mean = {name: _weighted(row, load) for name, row in apart.items()}
            nearest = min(mean, key=lambda name: mean[name])
            there = nearest != foot and mean[nearest] < BESIDE
            other = f"; {nearest!r} is there" if there else ""
            worst = float(grid[int(np.nanargmax(np.nan_to_num(apart[foot])))])
            ends, names = (contact.begin, contact.end, worst), (foot, *[nearest] * there)
            says = (
                f"the plate of {foot!r} is pressed {mean[foot]:.2f} m beside that foot from "
                f"{contact.begin:.3f} to {contact.end:.3f} s{other}: are plates exchanged, or "
                "their axes or origin wrong? assign_plates finds the foot on each plate"
            ) * (mean[foot] >= BESIDE)
            one = Finding("foot on its plate", names, *ends, mean[foot], BESIDE, "m", says)
            found.append(one)
    found.sort(key=lambda one: -one.size)
    return [one for one in found if one.says] or found[:1]


def _check_outside(moved: Moved, shared: Mapping[str, Wrench]) -> list[Finding]:
    """Whether the centre of pressure of shared wrenches stays under the foot."""
    rows = _distances(moved, shared, "shared centre of pressure", OUTSIDE).rows

    def say(one: Finding) -> str:
        return (
            f"the shared centre of pressure of {one.names[0]!r} is {one.size:.2f} m beside the "
            f"line of the foot at {one.worst:.3f} s: moments of joints are wrong by "
            "that times the force; use the plates as measured"
        )

    return judged("shared centre of pressure", moved.time, rows, OUTSIDE, "m", say)


def _distances(moved: Moved, wrenches: Mapping[str, Wrench], kind: str, limit: float) -> Panel:
    """Distance of the centre of pressure of each foot from its line over time, NaN where little
    presses."""
    rows = {}
    for foot, wrench in wrenches.items():
        here = (moved.time >= wrench.time[0]) & (moved.time <= wrench.time[-1])
        grid = moved.time[here]
        load, centre = _pressed(wrench, grid)
        apart = distance_to_line(centre, *moved.feet[foot][:, :, here])
        rows[foot] = np.full_like(moved.time, np.nan)
        rows[foot][here] = np.where(load > PRESSING * moved.mass * G, apart, np.nan)
    return Panel(f"{kind} [m]", moved.time, rows, limit, (kind,))


def _pressed(wrench: Wrench, time: Array) -> tuple[Array, Array]:
    """The vertical force (n,) and the centre of pressure from above (2, n) at instants (n,)."""
    rows = between(time, wrench.time, wrench.rows)
    return rows[2], Wrench(time, rows[:3], rows[3:]).cop()[:2]


def _weighted(row: Array, load: Array) -> float:
    known = np.isfinite(row)
    return float(np.sum(row[known] * load[known]) / max(np.sum(load[known]), 1e-9))
