"""Moments of the joints of a leg in the sagittal plane, against results that others published.

Markers and a plate under a right leg, with the results of the GaitAnalysisToolKit. These are said
to be smoothed at 6 Hz with segments by Winter; they agree to their last digit with a tree whose
motion is smoothed at 4 Hz by the filter of that code, and whose segments all have the mass and
radius of gyration of the foot. The joints of thigh, shank and foot are where the markers are, so
that segments change their length as skin moves; the measured ground reaction acts on the foot.

Data: see ../data/README.md. Angles and moments of flexion and plantar flexion are positive. Points
of the plane are complex, x forwards + i up; a motion is its value, rate and acceleration, (3, N).
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.gait.force_files import read_forces
from kinesym.gait.kinematics import Spline
from kinesym.gait.marker_files import read_csv
from kinesym.gait.motion_files import read_table
from kinesym.gait.wrench import Wrench
from kinesym.multibody import Body, Load, Planar, Prismatic, Tree
from kinesym.runtime.signals.low_pass import low_pass

#: Joints by the segment beyond them, and the sense in which they flex: 1 where it turns forwards.
JOINTS = {"hip": ("thigh", 1.0), "knee": ("shank", -1.0), "ankle": ("foot", -1.0)}
SEGMENTS = [segment for segment, _ in JOINTS.values()]

#: Mass over that of the body, centre of mass from the proximal marker and radius of gyration over
#: length: Winter (2005), as the toolkit has them. The axis of the foot runs from heel to toe.
WINTER = {
    "thigh": (0.1, 0.433, 0.323),
    "shank": (0.0465, 0.433, 0.302),
    "foot": (0.0145, 0.5, 0.475),
}
#: What its published results were computed with: the foot's mass and gyration everywhere.
PUBLISHED = {
    name: (WINTER["foot"][0], com, WINTER["foot"][2]) for name, (_, com, _) in WINTER.items()
}
MASS_2D = 67.2  # kg


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
        bodies.append(
            Body(f"{name}_mass", 1.0, inertia=(1.0, 1.0, 1.0), joint=Prismatic("xz"), parent=name)
        )
        parent = name

    def ground(tree):
        fx, fz, my = ks.dynamicsymbols("ground_fx ground_fz ground_my")
        x, _, z = tree.place("foot")
        return [Load("foot", force=(fx, 0, fz), torque=(0, my - (z * fx - x * fz), 0))]

    return Tree("leg", bodies, gravity=(0, 0, -9.81), loads=ground).parametrised()


def inverse_dynamics():
    """The tree, and its compiled model with force and moment of each joint as outputs."""
    tree = leg()
    outputs: dict = {}
    for joint, (segment, sense) in JOINTS.items():
        force, moment = tree.wrench(segment)
        x, _, z = tree.attitude(segment) @ force
        outputs |= {
            f"{joint}_moment": -sense * moment[1],
            f"{joint}_force_x": x,
            f"{joint}_force_z": z,
        }
    return tree, ks.compile(tree.model(outputs=outputs))


def joint_loads(tree, functions, motion, masses, ground):
    """Forces [N] and moments [N m] of joints by name, (N,) each.

    motion : by coordinate (3, N). masses : (mass [kg], moment of inertia [kg m^2]) by segment.
    ground : its wrench on the foot.
    """
    paths = np.array([motion[name] for name in tree.coordinates])
    x, xdot = (np.vstack([paths[:, k], paths[:, k + 1]]) for k in (0, 1))
    values = dict(functions.values)
    for name, (mass, inertia) in masses.items():
        values |= {f"{name}_mass_m": mass} | {f"{name}_mass_I{axis}": inertia for axis in "xyz"}
    inputs = {
        "ground_fx": ground.force[0],
        "ground_fz": ground.force[2],
        "ground_my": ground.moment[1],
    }
    y = functions.outputs(
        xdot,
        x,
        [inputs[name] for name in functions.inputs],
        [values[name] for name in functions.parameters],
    )
    return dict(zip(functions.output_names, y, strict=True))


# -- motion in the plane --------------------------------------------------------------------------


def direction(path):
    """Angle of a vector (3, N) from x upwards, with its rates (3, N) [rad]."""
    r, rate, acceleration = path
    log = rate / r  # rate of its logarithm, which is ln(length) + i angle
    return np.array([np.unwrap(np.angle(r)), log.imag, (acceleration / r - log**2).imag])


def turned(path, angle):
    """A vector (3, N) times exp(i angle), with its rates."""
    (r, rate, acceleration), (a, w, wdot) = path, angle
    spin = 1j * wdot - w**2
    parts = np.array([r, rate + 1j * w * r, acceleration + 2j * w * rate + spin * r])
    return np.exp(1j * a) * parts


def coordinates(joints, axes, centres):
    """Motion of the tree by coordinate, (3, N) each.

    joints : places of hip, knee, ankle. axes : vectors along the segments, whose own axes x point
    there. centres : of mass. All (3, N), by joint and by segment.
    """
    motion: dict = {}
    before, angle = np.zeros((3, 1)), np.zeros((3, 1))
    for joint, (segment, _) in JOINTS.items():
        place, along = joints[joint], direction(axes[segment])
        slides = {
            segment: (place - before, angle),
            f"{segment}_mass": (centres[segment] - place, along),
        }
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
    paths = np.array([found.z, found.zd, found.zdd])
    return {name: paths[:, 2 * k] + 1j * paths[:, 2 * k + 1] for k, name in enumerate(points)}


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
    """Points (3, N) and wrench: measured samples, linear interpolation over gaps."""
    paths = {}
    for name, p in points.items():
        seen = np.isfinite(p)
        parts = [
            [np.interp(time, time[seen], row) for row in both_ways(time[seen], part, cutoff)]
            for part in (p[seen].real, p[seen].imag)
        ]
        paths[name] = np.array(parts[0]) + 1j * np.array(parts[1])
    force, moment = (
        np.array([both_ways(time, row, cutoff)[0] for row in rows])
        for rows in (wrench.force, wrench.moment)
    )
    return paths, Wrench(time, force, moment)


# -- the study ------------------------------------------------------------------------------------


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
    places = (markers if case.theirs else markers.filled(0.06)).positions
    points = {name: x + 1j * z for name, (x, _, z) in places.items()}
    if case.theirs:
        at, ground = smoothed_their_way(markers.time, points, plate, case.cutoff)
    else:
        at = splined(markers.time, points, case.cutoff)
        ground = plate.smoothed(case.cutoff)
    ends = {
        "trunk": ("shoulder", "trochanter"),
        "thigh": ("trochanter", "knee"),
        "shank": ("knee", "ankle"),
        "foot": ("heel", "mt5"),
    }
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
    path = {name: direction(axis) for name, axis in axes.items()}
    found: dict = {}
    before = path["trunk"]
    for joint, (segment, sense) in JOINTS.items():
        angle = sense * (path[segment] - before)
        found |= {f"{joint}_angle_rad": angle[0], f"{joint}_angvel_rad_per_s": angle[1]}
        before = path[segment]
    return found


def per_mass(loads):
    """Forces and moments over the mass of the body, named as in the results."""
    return {
        f"{name}_{'Nm' if name.endswith('moment') else 'N'}_per_kg": row / MASS_2D
        for name, row in loads.items()
    }


def table_2d(results):
    """Root mean square of the difference and correlation, column by column, as text."""
    _, reference = published()
    head = f"{'difference from published':29}" + "".join(f"{case.name:>20}" for case, _ in results)
    rows = [head, " " * 29 + f"{'rms':>11}{'corr':>9}" * len(results)]
    for name, truth in reference.items():
        cells = [
            f"{rms(found[name] - truth):11.1e}{correlation(found[name], truth):9.5f}"
            for _, found in results
        ]
        rows.append(f"{name:29}" + "".join(cells))
    return "\n".join(rows)


def rms(x):
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(x))))


def correlation(x, y):
    """Pearson's."""
    return float(np.corrcoef(x, y)[0, 1])


# -- pictures -------------------------------------------------------------------------------------

KINDS = {
    "angle_rad": "angle [rad]",
    "angvel_rad_per_s": "rate [rad/s]",
    "moment_Nm_per_kg": "moment [Nm/kg]",
    "force_x_N_per_kg": "force forwards [N/kg]",
    "force_z_N_per_kg": "force upwards [N/kg]",
}


def figure_2d(results):
    """Fifteen panels: published, ours with Winter's segments at two cutoffs, theirs again."""
    time, reference = published()
    fig, axes = plt.subplots(
        len(KINDS), 3, figsize=(11, 11), sharex=True, sharey="row", layout="constrained"
    )
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
    fig.suptitle(
        "A right leg with segments by Winter; what the GaitAnalysisToolKit published has "
        "the mass of the foot for each",
        x=0.02,
        ha="left",
    )
    return fig


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Compute again what is published, and compare."""
    tree, functions = inverse_dynamics()
    results = [(case, again(case, tree, functions)) for case in CASES]
    print(table_2d(results))
    path, figure = out / "gait_planar.png", figure_2d(results)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return [path]
