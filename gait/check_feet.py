"""Force plates against a motion: under the other foot, of another mass, centres beside the foot.

They are held against the motion: the force that it needs, and where the feet are. World axes x
forwards, y to the left, z up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kinesym.gait.check_plates import check_empty, check_lag
from kinesym.gait.checks import Check, Finding, Panel, judged
from kinesym.gait.events import contacts_from_wrench, distance_to_line, during
from kinesym.gait.kinematics import Spline
from kinesym.gait.names import segments_of_foot
from kinesym.gait.natural.body import G, NaturalBody
from kinesym.gait.wrench import PRESSING, Wrench, between
from kinesym.runtime.arrays import Array
from kinesym.symbolic.multibody.segments import Segment

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
