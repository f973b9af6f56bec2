"""Checks of segments against a table and the usual motion: another stature, too fast a rotation, a
body upside down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kinesym.gait.checks import Finding, Panel, judged
from kinesym.gait.kinematics import TURN, turns
from kinesym.gait.names import side_of
from kinesym.gait.relations import Landmarks, Relations, names_in
from kinesym.runtime.arrays import Array
from kinesym.symbolic.multibody.segments import Segment

#: Mean of the vertical component of the long axes of a body below which it is upside down [-].
UPRIGHT = 0.0
#: Largest deviation of all limbs together from lengths of a table by mass and stature [-].
LIMBS = 0.12
#: Largest deviation of one limb against all, from lengths of that table [-].
LIMB = 0.3


def check_segments(
    segments: Sequence[Segment], relations: Relations, found: Landmarks, time: Array
) -> tuple[list[Finding], list[Panel]]:
    """Whether segments turn as limbs do, and stand on their feet.

    found : axes (3, 3, N) as measured, not smoothed.
    """
    rows = {row.name: turns(found.axes[row.name]) for row in segments if row.name in found.axes}

    def say(one: Finding) -> str:
        name = one.names[0]
        used = sorted(names_in(relations.axes[name]) - {"up", "x", "y", "z", name})
        return (
            f"segment {name!r} turns by {one.size:.0f} deg from one sample to the next at "
            f"{one.worst:.3f} s, which no limb does: look at {', '.join(used)} there"
        )

    degrees = {name: np.degrees(row) for name, row in rows.items()}
    limit = float(np.degrees(TURN))
    findings = judged("turn of a segment", time, degrees, limit, "deg", say)
    panel = Panel("turn by sample [deg]", time, degrees, limit, ("turn of a segment",))
    return [*findings, *_upright(segments, found.axes, time)], [panel]


def check_lengths(
    table: Sequence[Segment], measured: Sequence[Segment], time: Array
) -> list[Finding]:
    """Whether arms, legs and feet between joints are as long as in the table, all of them together
    and one by one; those without measured ends are left out."""
    joints = {row.proximal for row in table}
    places = {point: place for row in table for point, place in row.points.items()}
    ratios, sums = dict[str, float](), np.zeros(2)
    for row in measured:
        for point, place in row.points.items() if side_of(row.name) else ():
            pair = np.array([np.linalg.norm(place), np.linalg.norm(places[point])])
            if point in joints and place != places[point] and pair.all():
                ratios[row.name], sums = float(pair[0] / pair[1]), sums + pair
    if not ratios:
        return []
    ends = float(time[0]), float(time[-1]), float(time[0])
    whole = float(sums[0] / sums[1])
    says = (
        f"the limbs are {whole:.2f} times as long as those of the segments: a stature that is so "
        "many times as large would fit, or is the unit of the markers wrong?"
    )
    size = abs(whole - 1.0)
    found = [Finding("stature", ("all",), *ends, size, LIMBS, "-", says * (size > LIMBS))]
    if not found[0].says:
        name = max(ratios, key=lambda each: abs(ratios[each] - whole))
        off = abs(ratios[name] / whole - 1.0)
        says = (
            f"segment {name!r} is {ratios[name]:.2f} times as long as in the table, the limbs "
            f"together {whole:.2f} times: is one of its ends declared by a wrong marker?"
        )
        found.append(Finding("length", (name,), *ends, off, LIMB, "-", says * (off > LIMB)))
    return found


def _upright(segments: Sequence[Segment], axes: Mapping[str, Array], time: Array) -> list[Finding]:
    """Whether the z axes of segments point upwards on average, weighted by mass."""
    known = [row for row in segments if row.name in axes]
    mass = sum(row.mass for row in known)
    if not mass:
        return []
    up = np.sum([row.mass / mass * axes[row.name][2, 2] for row in known], axis=0)
    mean, k = float(up.mean()), int(up.argmin())
    says = ""
    if mean < UPRIGHT:
        says = (
            "the body is upside down: its long axes point downwards on average; set up= of the "
            "reader, with a minus sign if that axis of the file points down"
        )
    angle = float(np.degrees(np.arccos(np.clip(mean, -1.0, 1.0))))
    begin, end = float(time[0]), float(time[-1])
    return [Finding("upright", ("all",), begin, end, float(time[k]), angle, 90.0, "deg", says)]
