"""Twenty seconds on a treadmill: events, and moments of the left leg against those reported.

Angles of the left leg, the position of its ankle and the ground reaction are measured, but not the
inclination of the trunk. It follows from the flat foot, given the slope between its markers.
The tree is that of `gait_planar`, and so are its conventions. Data: see ../data/README.md.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

from kinesym.examples.studies.gait_planar import (
    JOINTS,
    SEGMENTS,
    coordinates,
    correlation,
    data,
    inverse_dynamics,
    joint_loads,
    rms,
    splined,
)
from kinesym.gait.axes import rotation
from kinesym.gait.events import contacts_from_wrench
from kinesym.gait.motion_files import read_table
from kinesym.gait.wrench import Wrench
from kinesym.models.planar_body import planar_segments

MASS_MOORE, STATURE_MOORE = 79.4, 1.832  # kg, m
CUTOFF = 6.0  # Hz


@dataclass(frozen=True, eq=False)
class Treadmill:
    """The left leg of a walk, at uniform instants (N,) [s].

    late : by how much the stamp of a sample is later (N,) [s]. flexion : angles of joints (N,)
    [rad]. ankle, com : complex places [m]. wrenches : of the ground by foot, the right one without
    its centre of pressure. moments : as reported [N m]. events : (foot, "heel_strike" or
    "toe_off", instant as given).
    """

    time: np.ndarray
    late: np.ndarray
    flexion: dict
    ankle: np.ndarray
    com: np.ndarray
    wrenches: dict
    moments: dict
    events: list


def treadmill(nodes=None):
    """The record, or its first nodes."""
    table = read_table(data("gait_moore_walking.csv.gz"))
    stamped, columns = table.time[:nodes], {k: row[:nodes] for k, row in table.columns.items()}
    # Samples are as uniform as motion capture is; some were stamped late, and none too early.
    count = np.arange(len(stamped)) / 100.0
    time = count + np.median(stamped - count)
    lines = data("gait_moore_events.csv").read_text().splitlines()[1:]
    given = [(float(when), what) for when, what in (line.split(",") for line in lines)]
    events = [
        (*what.split("_", 1), float(np.interp(when, stamped, time)))
        for when, what in given
        if when < stamped[-1]
    ]
    turn, zero = rotation("y", "x"), np.zeros(len(time))
    force = {
        foot: turn @ [columns[f"{foot}_grf_{axis}_N"] for axis in "xyz"]
        for foot in ("left", "right")
    }
    cop = turn @ [columns["left_cop_x_m"], zero, columns["left_cop_z_m"]]
    flexing = {"hip": "hip_flexion", "knee": "knee_flexion", "ankle": "ankle_plantar_flexion"}
    return Treadmill(
        time,
        stamped - time,
        {joint: columns[f"left_{name}_angle_rad"] for joint, name in flexing.items()},
        columns["left_foot_x_m"] + 1j * columns["left_foot_y_m"],
        columns["com_x_m"] + 1j * columns["com_y_m"],
        {
            "left": Wrench.at_cop(time, force["left"], cop),
            "right": Wrench(time, force["right"], np.zeros((3, len(time)))),
        },
        {joint: columns[f"left_{name}_moment_Nm"] for joint, name in flexing.items()},
        events,
    )


def left_strikes(walk):
    """Instants at which the left foot strikes (n,) [s]."""
    contacts = contacts_from_wrench("left", walk.wrenches["left"])
    found = np.array([contact.begin for contact in contacts if contact.struck])
    if len(found) < 3:
        raise ValueError(
            f"{len(walk.time)} nodes of the treadmill hold {len(found)} heel strikes "
            "of the left foot, three are needed; use 400 nodes or more"
        )
    return found


def nearest(instants, when):
    """That of the instants which is nearest."""
    return min(instants, key=lambda instant: abs(instant - when))


def timed(walk):
    """Heel strikes and toe-offs, each a list of (given, found) [s] by foot."""
    found: dict = {}
    for foot, wrench in walk.wrenches.items():
        contacts = contacts_from_wrench(foot, wrench)
        ours = {
            "heel_strike": [c.begin for c in contacts if c.struck],
            "toe_off": [c.end for c in contacts if c.lifted],
        }
        for kind, instants in ours.items():
            given = [when for side, what, when in walk.events if (side, what) == (foot, kind)]
            found[foot, kind] = [(when, nearest(instants, when)) for when in given]
    return found


def segment_lengths():
    """Lengths of thigh and shank [m] by de Leva, and the left segments that have them."""
    rows = {row.name: row for row in planar_segments(MASS_MOORE, STATURE_MOORE)}
    left = {name: rows[f"L{name}"] for name in SEGMENTS}
    return -left["thigh"].points["LK"][1], -left["shank"].points["LA"][1], left


def flat(walk):
    """Whether the left foot is flat: loaded, and its ankle as low as it comes."""
    loaded, height = walk.wrenches["left"].force[2] > 200.0, walk.ankle.imag
    return loaded & (height < np.percentile(height[loaded], 10.0) + 0.004)


def lean(walk, strikes, slope):
    """The direction (N,) [rad] from shoulder to hip, which no column tells.

    Two harmonics of the stride. They are such that the foot has the angle `slope` when it is flat,
    within 0.01 rad, and that the hip stays near a place that moves with the centre of mass and
    swings fore and aft once per stride, within 0.02 m.
    """
    whole = np.r_[2 * strikes[0] - strikes[1], strikes, 2 * strikes[-1] - strikes[-2]]
    phase = 2 * np.pi * np.interp(walk.time, whole, np.arange(len(whole)))
    waves = np.array(
        [np.ones_like(phase), np.cos(phase), np.sin(phase), np.cos(2 * phase), np.sin(2 * phase)]
    )
    thigh, shank, _ = segment_lengths()
    here = flat(walk)

    def misses(unknown):
        along = chain(walk.flexion, unknown[:5] @ waves)
        hip = walk.com + unknown[5:8] @ waves[:3] + 1j * unknown[8]
        gap = hip + thigh * np.exp(1j * along["thigh"]) + shank * np.exp(1j * along["shank"])
        gap = (gap - walk.ankle) / 0.02
        return np.concatenate([gap.real, gap.imag, (along["foot"] - slope)[here] / 0.01])

    first = np.zeros(9)
    first[0] = -np.pi / 2
    return least_squares(misses, first).x[:5] @ waves


def chain(flexion, trunk):
    """Directions of segments [rad] from that of the trunk, joint by joint."""
    found, along = {}, trunk
    for joint, (segment, sense) in JOINTS.items():
        along = found[segment] = along + sense * flexion[joint]
    return found


def moments(walk, strikes, slope, tree, functions):
    """Moments of the left joints by the tree, (N,) [N m], for a slope of the flat foot."""
    thigh, shank, rows = segment_lengths()
    along = chain(walk.flexion, lean(walk, strikes, slope))
    vectors = {name: np.exp(1j * angle) for name, angle in along.items()}
    # Vectors are smoothed, not angles: these may wind up.
    at = splined(walk.time, {"ankle": walk.ankle} | vectors, CUTOFF)
    axes = {name: at[name] for name in SEGMENTS}
    knee = at["ankle"] - shank * axes["shank"]
    joints = {"hip": knee - thigh * axes["thigh"], "knee": knee, "ankle": at["ankle"]}
    down = {"thigh": 1.0, "shank": 1.0, "foot": 1j}  # axes of the foot lie when those hang
    centres = {}
    for joint, (name, _) in JOINTS.items():
        x, z = rows[name].com  # upright
        centres[name] = joints[joint] + (x + 1j * z) / (-1j * down[name]) * axes[name]
    masses = {name: (row.mass, row.inertia) for name, row in rows.items()}
    # 3.5 % too large upwards, as are the reported moments: those of the ankle agree.
    ground = walk.wrenches["left"].smoothed(CUTOFF)
    loads = joint_loads(tree, functions, coordinates(joints, axes, centres), masses, ground)
    return {joint: loads[f"{joint}_moment"] for joint in JOINTS}


def slope_of_flat_foot(walk, strikes, tree, functions):
    """The slope [rad] that makes the mean moment of the knee over the flat foot the reported one.

    Its markers need not be level. This is the only number taken from the reported moments, and the
    mean grows in proportion to it.
    """
    here = flat(walk)
    tried = (-0.05, 0.0)
    low, high = (
        (moments(walk, strikes, slope, tree, functions)["knee"] - walk.moments["knee"])[here].mean()
        for slope in tried
    )
    return tried[0] - low * (tried[1] - tried[0]) / (high - low)


PERCENT = np.linspace(0.0, 100.0, 101)


def strides(walk, row, spans):
    """A row (N,) over each of these strides, (strides, 101)."""
    return np.array(
        [np.interp(begin + (end - begin) * PERCENT / 100.0, walk.time, row) for begin, end in spans]
    )


def punctual(walk, spans):
    """Strides whose samples were all stamped in time.

    Where stamps are late, by up to 0.13 s, and then follow each other within 1 ms, the reported
    moments of the hip jump by up to 100 Nm: derivatives with respect to stamps, as it seems.
    """
    late = walk.time[walk.late > 5e-3]
    return [(begin, end) for begin, end in spans if not ((begin <= late) & (late <= end)).any()]


def table_events(pairs):
    """Found minus given instants, as text."""
    rows = [f"{'found - given':22}{'number':>8}{'mean ms':>10}{'sd ms':>8}{'worst ms':>10}"]
    for (foot, kind), both in pairs.items():
        late = 1e3 * np.array([found - given for given, found in both])
        worst = late[np.abs(late).argmax()]
        rows.append(
            f"{foot + ' ' + kind.replace('_', ' '):22}{len(late):8}{late.mean():10.1f}"
            f"{late.std():8.1f}{worst:10.1f}"
        )
    return "\n".join(rows)


def table_moments(walk, results):
    """Ours against the reported moments as text; results : (slope, moments, strides)."""
    rows = [
        f"{'left leg':10}{'slope of foot':>14}{'strides':>9}{'corr':>9}{'rms Nm':>9}"
        f"{'mean Nm':>9}{'peak ours':>11}{'reported':>10}"
    ]
    for slope, found, spans in results:
        for joint in reversed(JOINTS):
            ours, theirs = (
                strides(walk, row, spans) for row in (found[joint], walk.moments[joint])
            )
            gap, peaks = ours - theirs, [x.mean(axis=0) for x in (ours, theirs)]
            high, known = (p[np.abs(peaks[1]).argmax()] for p in peaks)
            rows.append(
                f"{joint:10}{np.degrees(slope):10.1f} deg{len(spans):9}"
                f"{correlation(ours.ravel(), theirs.ravel()):9.4f}{rms(gap):9.2f}"
                f"{gap.mean():9.2f}{high:11.1f}{known:10.1f}"
            )
    return "\n".join(rows)


# -- pictures -------------------------------------------------------------------------------------


def band(axis, rows, color, label):
    """Mean and standard deviation of strides."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    axis.plot(PERCENT, mean, color, lw=1.5, label=label)
    axis.fill_between(PERCENT, mean - deviation, mean + deviation, color=color, alpha=0.25, lw=0)


def figure_treadmill(walk, spans, found):
    """Moments over the stride, and how far ours are off."""
    fig, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey="row", layout="constrained")
    offs = [c.end for c in contacts_from_wrench("left", walk.wrenches["left"])]
    share = [
        100.0 * (off - begin) / (end - begin)
        for begin, end in spans
        for off in offs
        if begin < off < end
    ]
    for (upper, lower), joint in zip(axes.T, reversed(JOINTS), strict=True):
        ours, theirs = (strides(walk, row, spans) for row in (found[joint], walk.moments[joint]))
        band(upper, theirs, "0.4", "reported")
        band(upper, ours, "C0", "tree")
        band(lower, ours - theirs, "C3", "tree - reported")
        upper.set_title(f"{joint}: {'plantar ' if joint == 'ankle' else ''}flexion")
        for axis in (upper, lower):
            axis.axhline(0.0, color="k", lw=0.6)
            axis.axvline(float(np.mean(share)), color="k", lw=0.8, ls=":")
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("moment [Nm]")
    axes[1, 0].set_ylabel("difference [Nm]")
    axes[0, 0].legend(loc="upper right", fontsize="small")
    axes[0, 0].set_xlim(0.0, 100.0)
    fig.supxlabel("stride of the left leg [%], dotted: toe-off")
    fig.suptitle(
        f"Treadmill at 0.8 m/s, left leg: mean and deviation of {len(spans)} strides "
        "that were stamped in time",
        x=0.02,
        ha="left",
    )
    return fig


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Find events and moments, and compare."""
    tree, functions = inverse_dynamics()
    walk = treadmill(nodes)
    strikes = left_strikes(walk)
    print(f"{table_events(timed(walk))}\n")
    slopes = (0.0, slope_of_flat_foot(walk, strikes, tree, functions))
    level, sloping = (moments(walk, strikes, slope, tree, functions) for slope in slopes)
    spans = list(pairwise(strikes))
    intime = punctual(walk, spans)
    print(
        table_moments(
            walk,
            [(slopes[0], level, spans), (slopes[1], sloping, spans), (slopes[1], sloping, intime)],
        )
    )
    path, figure = out / "gait_treadmill.png", figure_treadmill(walk, intime, sloping)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return [path]
