"""Moments of the joints of a leg in the sagittal plane, against results that others published.

One tree serves two walks: thigh, shank and foot whose joints are where the markers are, so that
segments may stretch as skin lets them, with the measured wrench of the ground on the foot.

- Markers and a plate under a right leg, with the results of the GaitAnalysisToolKit. These are
  said to be smoothed at 6 Hz with segments by Winter; they agree to their last digit with a tree
  whose motion is smoothed at 4 Hz by the filter of that code, and whose segments all have the mass
  and gyration of the foot.
- Twenty seconds on a treadmill, of which angles of the left leg are known, the place of its ankle
  and the ground reaction, but nothing says how the trunk leans. A foot that is flat tells, but for
  the slope of the line between its markers.

Data: see data/README.md. Angles and moments of flexion and plantar flexion are positive. Points of
the plane are complex, x forwards + i up; a motion is its value, rate and acceleration, (3, N).
"""

from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import kinesym as ks
from kinesym.models.planar_body import planar_segments
from kinesym.multibody import Body, Load, Planar, Prismatic, Tree
from kinesym.runtime.gait.course import Spline
from kinesym.runtime.gait.events import contacts_from_wrench
from kinesym.runtime.gait.readers import read_csv, read_forces, read_table, rotation
from kinesym.runtime.gait.wrench import Wrench, low_pass
from kinesym.symbolic.multibody.vectors import times

#: Joints by the segment beyond them, and the sense in which they flex: 1 where it turns forwards.
JOINTS = {"hip": ("thigh", 1.0), "knee": ("shank", -1.0), "ankle": ("foot", -1.0)}
SEGMENTS = [segment for segment, _ in JOINTS.values()]

#: Mass over that of the body, centre of mass from the proximal marker and radius of gyration over
#: length: Winter (2005), as the toolkit has them. The axis of the foot runs from heel to toe.
WINTER = {"thigh": (0.1, 0.433, 0.323), "shank": (0.0465, 0.433, 0.302),
          "foot": (0.0145, 0.5, 0.475)}  # fmt: skip
#: What its published results were computed with: the foot's mass and gyration everywhere.
PUBLISHED = {name: (WINTER["foot"][0], com, WINTER["foot"][2])
             for name, (_, com, _) in WINTER.items()}  # fmt: skip
#: Body masses of the two subjects [kg], stature of the second one [m].
MASS_2D, MASS_MOORE, STATURE_MOORE = 67.2, 79.4, 1.832
CUTOFF = 6.0  # Hz


def data(name):
    """A file of examples/data."""
    return resources.files("kinesym.examples") / "data" / name


# -- the tree -------------------------------------------------------------------------------------


def leg():
    """Three segments that slide and turn against each other, with a wrench about the origin.

    Each carries its mass on a slide, as the centre is a share of a length that changes. Inputs are
    `ground_fx`, `ground_fz` [N], and `ground_my` about the origin of the world [N m].
    """
    bodies, parent = [], None
    for name in SEGMENTS:
        bodies.append(Body(name, 0, joint=Planar("xz"), parent=parent))
        bodies.append(Body(f"{name}_mass", 1.0, inertia=(1.0, 1.0, 1.0), joint=Prismatic("xz"),
                           parent=name))  # fmt: skip
        parent = name

    def ground(tree):
        fx, fz, my = ks.dynamicsymbols("ground_fx ground_fz ground_my")
        x, _, z = tree.place("foot")
        return [Load("foot", force=(fx, 0, fz), torque=(0, my - (z * fx - x * fz), 0))]

    return Tree("leg", bodies, gravity=(0, 0, -9.81), loads=ground).parametrised()


def inverse_dynamics():
    """The tree, and its compiled model with force and moment of each joint as outputs."""
    tree, outputs = leg(), {}
    for joint, (segment, sense) in JOINTS.items():
        force, moment = tree.wrench(segment)
        x, _, z = times(tree.attitude(segment), force)
        outputs |= {f"{joint}_moment": -sense * moment[1], f"{joint}_force_x": x,
                    f"{joint}_force_z": z}  # fmt: skip
    return tree, ks.compile(tree.model(outputs=outputs))


def joint_loads(tree, functions, motion, masses, ground):
    """Forces [N] and moments [N m] of joints by name, (N,) each.

    motion : by coordinate (3, N). masses : (mass [kg], moment of inertia [kg m^2]) by segment.
    ground : its wrench on the foot.
    """
    courses = np.array([motion[name] for name in tree.coordinates])
    x, xdot = (np.vstack([courses[:, k], courses[:, k + 1]]) for k in (0, 1))
    values = dict(functions.values)
    for name, (mass, inertia) in masses.items():
        values |= {f"{name}_mass_m": mass} | {f"{name}_mass_I{axis}": inertia for axis in "xyz"}
    inputs = {"ground_fx": ground.force[0], "ground_fz": ground.force[2],
              "ground_my": ground.moment[1]}  # fmt: skip
    y = functions.outputs(xdot, x, [inputs[name] for name in functions.inputs],
                          [values[name] for name in functions.parameters])  # fmt: skip
    return dict(zip(functions.output_names, y, strict=True))


# -- motion in the plane --------------------------------------------------------------------------


def direction(course):
    """Angle of a vector (3, N) from x upwards, with its rates (3, N) [rad]."""
    r, rate, acceleration = course
    log = rate / r  # rate of its logarithm, which is ln(length) + i angle
    return np.array([np.unwrap(np.angle(r)), log.imag, (acceleration / r - log**2).imag])


def turned(course, angle):
    """A vector (3, N) times exp(i angle), with its rates."""
    (r, rate, acceleration), (a, w, wdot) = course, angle
    spin = 1j * wdot - w**2
    parts = np.array([r, rate + 1j * w * r, acceleration + 2j * w * rate + spin * r])
    return np.exp(1j * a) * parts


def coordinates(joints, axes, centres):
    """Motion of the tree by coordinate, (3, N) each.

    joints : places of hip, knee, ankle. axes : vectors along the segments, whose own axes x point
    there. centres : of mass. All (3, N), by joint and by segment.
    """
    motion, before, angle = {}, np.zeros((3, 1)), np.zeros((3, 1))
    for joint, (segment, _) in JOINTS.items():
        place, along = joints[joint], direction(axes[segment])
        slides = {segment: (place - before, angle),
                  f"{segment}_mass": (centres[segment] - place, along)}  # fmt: skip
        for name, (offset, turn) in slides.items():
            slide = turned(offset, -turn)
            motion |= {f"{name}_px": slide.real, f"{name}_pz": slide.imag}
        motion[f"{segment}_y"] = angle - along  # about y: from z to x
        before, angle = place, along
    return motion


def splined(time, points, cutoff):
    """Points by name (N,) after the library's low-pass, with rates: (3, N) each."""
    rows = np.array([part for p in points.values() for part in (p.real, p.imag)])
    found = Spline.through(time, low_pass(time, rows, cutoff), trim=0).sample(time)
    courses = np.array([found.z, found.zd, found.zdd])
    return {name: courses[:, 2 * k] + 1j * courses[:, 2 * k + 1] for k, name in enumerate(points)}


# -- the filter of the toolkit --------------------------------------------------------------------


def stepped(time, x, cutoff, start):
    """Butterworth's y'' + b y' + a y = a x by the implicit midpoint rule; y, y' and steps of y'.

    time : (N,), steps may differ [s]. start : y and y' at the first instant, as the first sample
    is not smoothed.
    """
    w = 2.0 * np.pi * cutoff
    A, B = np.array([[0.0, 1.0], [-(w**2), -np.sqrt(2.0) * w]]), np.array([0.0, w**2])
    states = [np.array(start)]
    for h, forcing in zip(np.diff(time), 0.5 * (x[1:] + x[:-1]), strict=True):
        right = states[-1] + 0.5 * h * A @ states[-1] + h * B * forcing
        states.append(np.linalg.solve(np.eye(2) - 0.5 * h * A, right))
    y, rate = np.array(states).T
    return y, rate, np.diff(rate) / np.diff(time)


def both_ways(time, x, cutoff):
    """As the toolkit smooths: backwards, then forwards; value, rate, acceleration (3, N).

    Its clock runs from minus the last to minus the first instant on the way back. Nothing is reset
    then, if time is positive: forwards it begins with a single long step to the first instant,
    which turns the rate around.
    """
    single = cutoff / 0.802  # two passes reduce more than one, Winter (2005)
    back, rate, _ = stepped(-time[::-1], x[::-1], single, (x[-1], 0.0))
    clock, again = np.append(-time[0], time), np.append(x[0], back[::-1])
    y, rate, acceleration = stepped(clock, again, single, (back[-1], rate[-1]))
    return np.array([y[1:], rate[1:], acceleration])


def smoothed_their_way(time, points, wrench, cutoff):
    """Points (3, N) and wrench: only samples that there are, then straight lines over gaps."""
    courses = {}
    for name, p in points.items():
        seen = np.isfinite(p)
        parts = [[np.interp(time, time[seen], row) for row in both_ways(time[seen], part, cutoff)]
                 for part in (p[seen].real, p[seen].imag)]  # fmt: skip
        courses[name] = np.array(parts[0]) + 1j * np.array(parts[1])
    force, moment = (np.array([both_ways(time, row, cutoff)[0] for row in rows])
                     for rows in (wrench.force, wrench.moment))  # fmt: skip
    return courses, Wrench(time, force, moment)


# -- first study ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """How the published results are computed again."""

    name: str
    cutoff: float
    theirs: bool = False
    segments: str = "Winter"


CASES = [
    Case("ours, 6 Hz", 6.0),
    Case("ours, 4 Hz", 4.0),
    Case("its filter, 4 Hz", 4.0, theirs=True),
    Case("its filter, masses", 4.0, theirs=True, segments="published"),
]


def published():
    """The columns of the results by name, with y of the file as z; time."""
    table = read_table(data("gait_2d_results.csv"))
    return table.time, {column.replace("_y_", "_z_"): row for column, row in table.columns.items()}


def again(case, tree, functions):
    """The same columns from markers and plate."""
    path = data("gait_2d_input.csv")
    markers, (plate,) = read_csv(path), read_forces(path).values()
    places = (markers if case.theirs else markers.filled(0.06)).places
    points = {name: x + 1j * z for name, (x, _, z) in places.items()}
    if case.theirs:
        at, ground = smoothed_their_way(markers.time, points, plate, case.cutoff)
    else:
        at = splined(markers.time, points, case.cutoff)
        ground = plate.smoothed(case.cutoff)
    ends = {"trunk": ("shoulder", "trochanter"), "thigh": ("trochanter", "knee"),
            "shank": ("knee", "ankle"), "foot": ("heel", "mt5")}  # fmt: skip
    axes = {name: at[far] - at[near] for name, (near, far) in ends.items()}
    shares = WINTER if case.segments == "Winter" else PUBLISHED
    masses, centres = {}, {}
    for name, (mass, com, gyration) in shares.items():
        length = np.abs(axes[name][0]).mean()
        masses[name] = (mass * MASS_2D, mass * MASS_2D * (gyration * length) ** 2)
        centres[name] = at[ends[name][0]] + com * axes[name]
    joints = {"hip": at["trochanter"], "knee": at["knee"], "ankle": at["ankle"]}
    loads = joint_loads(tree, functions, coordinates(joints, axes, centres), masses, ground)
    return angles(axes) | per_mass(loads)


def angles(axes):
    """Angles and rates of joints as the results have them."""
    course = {name: direction(axis) for name, axis in axes.items()}
    found, before = {}, course["trunk"]
    for joint, (segment, sense) in JOINTS.items():
        angle = sense * (course[segment] - before)
        found |= {f"{joint}_angle_rad": angle[0], f"{joint}_angvel_rad_per_s": angle[1]}
        before = course[segment]
    return found


def per_mass(loads):
    """Forces and moments over the mass of the body, named as in the results."""
    return {f"{name}_{'Nm' if name.endswith('moment') else 'N'}_per_kg": row / MASS_2D
            for name, row in loads.items()}  # fmt: skip


def table_2d(results):
    """Root mean square of the difference and correlation, column by column, as text."""
    _, reference = published()
    head = f"{'difference from published':29}" + "".join(f"{case.name:>20}" for case, _ in results)
    rows = [head, " " * 29 + f"{'rms':>11}{'corr':>9}" * len(results)]
    for name, truth in reference.items():
        cells = [f"{rms(found[name] - truth):11.1e}{correlation(found[name], truth):9.5f}"
                 for _, found in results]  # fmt: skip
        rows.append(f"{name:29}" + "".join(cells))
    return "\n".join(rows)


def rms(x):
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(x))))


def correlation(x, y):
    """Pearson's."""
    return float(np.corrcoef(x, y)[0, 1])


# -- second study ---------------------------------------------------------------------------------


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
    events = [(*what.split("_", 1), float(np.interp(when, stamped, time)))
              for when, what in given if when < stamped[-1]]  # fmt: skip
    turn, zero = rotation("y", "x"), np.zeros(len(time))
    force = {foot: turn @ [columns[f"{foot}_grf_{axis}_N"] for axis in "xyz"]
             for foot in ("left", "right")}  # fmt: skip
    cop = turn @ [columns["left_cop_x_m"], zero, columns["left_cop_z_m"]]
    flexing = {"hip": "hip_flexion", "knee": "knee_flexion", "ankle": "ankle_plantar_flexion"}
    return Treadmill(
        time, stamped - time,
        {joint: columns[f"left_{name}_angle_rad"] for joint, name in flexing.items()},
        *(columns[f"{name}_x_m"] + 1j * columns[f"{name}_y_m"] for name in ("left_foot", "com")),
        {"left": Wrench.at_cop(time, force["left"], cop),
         "right": Wrench(time, force["right"], np.zeros((3, len(time))))},
        {joint: columns[f"left_{name}_moment_Nm"] for joint, name in flexing.items()}, events,
    )  # fmt: skip


def left_strikes(walk):
    """Instants at which the left foot strikes (n,) [s]."""
    contacts = contacts_from_wrench("left", walk.wrenches["left"])
    found = np.array([contact.begin for contact in contacts if contact.struck])
    if len(found) < 3:
        raise ValueError(f"{len(walk.time)} nodes of the treadmill hold {len(found)} heel strikes "
                         "of the left foot, three are needed; use 400 nodes or more")  # fmt: skip
    return found


def timed(walk):
    """Heel strikes and toe-offs, each a list of (given, found) [s] by foot."""
    found = {}
    for foot, wrench in walk.wrenches.items():
        contacts = contacts_from_wrench(foot, wrench)
        ours = {"heel_strike": [c.begin for c in contacts if c.struck],
                "toe_off": [c.end for c in contacts if c.lifted]}  # fmt: skip
        for kind, instants in ours.items():
            given = [when for side, what, when in walk.events if (side, what) == (foot, kind)]
            found[foot, kind] = [(when, min(instants, key=lambda x, when=when: abs(x - when)))
                                 for when in given]  # fmt: skip
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
    waves = np.array([np.ones_like(phase), np.cos(phase), np.sin(phase),
                      np.cos(2 * phase), np.sin(2 * phase)])  # fmt: skip
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
    low, high = ((moments(walk, strikes, slope, tree, functions)["knee"]
                  - walk.moments["knee"])[here].mean() for slope in tried)  # fmt: skip
    return tried[0] - low * (tried[1] - tried[0]) / (high - low)


PERCENT = np.linspace(0.0, 100.0, 101)


def strides(walk, row, spans):
    """A row (N,) over each of these strides, (strides, 101)."""
    return np.array([np.interp(begin + (end - begin) * PERCENT / 100.0, walk.time, row)
                     for begin, end in spans])  # fmt: skip


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
        rows.append(f"{foot + ' ' + kind.replace('_', ' '):22}{len(late):8}{late.mean():10.1f}"
                    f"{late.std():8.1f}{worst:10.1f}")  # fmt: skip
    return "\n".join(rows)


def table_moments(walk, results):
    """Ours against the reported moments as text; results : (slope, moments, strides)."""
    rows = [f"{'left leg':10}{'slope of foot':>14}{'strides':>9}{'corr':>9}{'rms Nm':>9}"
            f"{'mean Nm':>9}{'peak ours':>11}{'reported':>10}"]  # fmt: skip
    for slope, found, spans in results:
        for joint in reversed(JOINTS):
            ours, theirs = (strides(walk, row, spans)
                            for row in (found[joint], walk.moments[joint]))  # fmt: skip
            gap, peaks = ours - theirs, [x.mean(axis=0) for x in (ours, theirs)]
            high, known = (p[np.abs(peaks[1]).argmax()] for p in peaks)
            rows.append(f"{joint:10}{np.degrees(slope):10.1f} deg{len(spans):9}"
                        f"{correlation(ours.ravel(), theirs.ravel()):9.4f}{rms(gap):9.2f}"
                        f"{gap.mean():9.2f}{high:11.1f}{known:10.1f}")  # fmt: skip
    return "\n".join(rows)


# -- pictures -------------------------------------------------------------------------------------

KINDS = {"angle_rad": "angle [rad]", "angvel_rad_per_s": "rate [rad/s]",
         "moment_Nm_per_kg": "moment [Nm/kg]", "force_x_N_per_kg": "force forwards [N/kg]",
         "force_z_N_per_kg": "force upwards [N/kg]"}  # fmt: skip


def figure_2d(results):
    """Fifteen panels: published, ours with Winter's segments at two cutoffs, theirs again."""
    time, reference = published()
    fig, axes = plt.subplots(len(KINDS), 3, figsize=(11, 11), sharex=True, sharey="row",
                             layout="constrained")  # fmt: skip
    for row, (kind, label) in zip(axes, KINDS.items(), strict=True):
        row[0].set_ylabel(label)
        for axis, joint in zip(row, JOINTS, strict=True):
            axis.plot(time, reference[f"{joint}_{kind}"], "0.75", lw=4, label="published")
            for (case, found), style in zip(results, ("C1", "C0", None, "k:"), strict=True):
                if style:
                    axis.plot(time, found[f"{joint}_{kind}"], style, lw=1, label=case.name)
            axis.grid(alpha=0.3)
    for axis, joint in zip(axes[0], JOINTS, strict=True):
        axis.set_title(joint)
    axes[0, 2].legend(loc="upper right", fontsize="small")
    axes[0, 0].set_xlim(time[0], time[-1])
    fig.supxlabel("time [s]")
    fig.suptitle("A right leg with segments by Winter; what the GaitAnalysisToolKit published has "
                 "the mass of the foot for each", x=0.02, ha="left")  # fmt: skip
    return fig


def band(axis, rows, color, label):
    """Mean and standard deviation of strides."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    axis.plot(PERCENT, mean, color, lw=1.5, label=label)
    axis.fill_between(PERCENT, mean - deviation, mean + deviation, color=color, alpha=0.25, lw=0)


def figure_treadmill(walk, spans, found):
    """Moments over the stride, and how far ours are off."""
    fig, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey="row",
                             layout="constrained")  # fmt: skip
    offs = [c.end for c in contacts_from_wrench("left", walk.wrenches["left"])]
    share = [100.0 * (off - begin) / (end - begin)
             for begin, end in spans for off in offs if begin < off < end]  # fmt: skip
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
    fig.suptitle(f"Treadmill at 0.8 m/s, left leg: mean and deviation of {len(spans)} strides "
                 "that were stamped in time", x=0.02, ha="left")  # fmt: skip
    return fig


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Compute again what is published, for two walks, and compare; nodes : of the second one."""
    tree, functions = inverse_dynamics()
    results = [(case, again(case, tree, functions)) for case in CASES]
    print(table_2d(results))
    walk = treadmill(nodes)
    strikes = left_strikes(walk)
    print(f"\n{table_events(timed(walk))}\n")
    slopes = (0.0, slope_of_flat_foot(walk, strikes, tree, functions))
    level, sloping = (moments(walk, strikes, slope, tree, functions) for slope in slopes)
    spans = list(pairwise(strikes))
    intime = punctual(walk, spans)
    print(table_moments(walk, [(slopes[0], level, spans), (slopes[1], sloping, spans),
                               (slopes[1], sloping, intime)]))  # fmt: skip
    figures = {
        "gait_planar_reference.png": figure_2d(results),
        "gait_planar_treadmill.png": figure_treadmill(walk, intime, sloping),
    }
    for name, fig in figures.items():
        fig.savefig(out / name, dpi=120)
        plt.close(fig)
    return [out / name for name in figures]
