"""Segments that cannot move as they are said to: turning too fast, hanging upside down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kinesym.gait.angles import TURN, turns
from kinesym.gait.checks import Finding, Panel, judged
from kinesym.gait.relations import Landmarks, Relations, names_in
from kinesym.runtime.arrays import Array
from kinesym.symbolic.multibody.segments import Segment

#: Mean of the vertical component of the long axes of a body below which it is upside down [-].
UPRIGHT = 0.0


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
