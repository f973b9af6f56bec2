"""Beyond inverse dynamics: joint torques of measured walking by dynamically consistent tracking.

Inverse dynamics finds the forces that a measured and smoothed motion needs. They do not agree with
the force plates: with measured wrenches the mismatch appears as a residual at the trunk; with
corrected plates (Pamies-Vila, Font-Llagunes 2013) the motion is kept and the ground reaction is
changed. Here motion, joint torques and ground reaction are found together by direct collocation:
the equations of motion hold without residual, and markers and plates are tracked by weighted least
squares, each with its own standard deviation. Markers need no smoothing. Seven segments, first in
the sagittal plane, then in space.

The subject is that of `gait`; data: see ../data/README.md. Axes: x forwards, y to the left, z up.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.studies import gait
from kinesym.gait import PlanarSegment, Samples, Segment, planar_body, whole_body
from kinesym.gait.kinematics import states
from kinesym.gait.wrench import THRESHOLD
from kinesym.models.planar_body import HIP, joint_angles
from kinesym.models.whole_body import ROOT
from kinesym.multibody import Load

#: Feet by side, joints with the bodies beyond them.
FEET = {"R": "right", "L": "left"}
JOINTS = {"hip": "thigh", "knee": "shank", "ankle": "foot"}
UPPER = (
    "torso",
    "pelvis",
    "neck",
    "head",
    *(f"{side}{part}" for side in "RL" for part in ("arm", "forearm", "hand")),
)
LEGS = [f"{side}{part}" for side in "RL" for part in ("thigh", "shank", "hindfoot")]
TRIM = 6  # frames at each end where derivatives of the smoothed motion are poor

# -- what is measured, and what inverse dynamics makes of it --------------------------------------


@dataclass(frozen=True)
class Walk:
    """The trial: positions of raw markers and of joints found from these, smoothed motion, plates
    by foot, what the motion needs and two inverse dynamics of it at 60 Hz, by method."""

    found: ks.gait.Reconstruction
    positions: dict
    plates: dict
    needed: ks.gait.InverseDynamics
    loads: dict

    def number(self, segment):
        """Of a segment in the rows of inverse dynamics."""
        return self.needed.skeleton.number(segment)


def walk():
    """The recorded walk and its inverse dynamics."""
    found, plates = gait.walk()
    raw = found.markers
    standing = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    joints = ks.gait.landmarks(gait.relations(), ks.gait.Trial(raw.positions, standing))
    contacts = [c for foot in plates for c in ks.gait.contacts_from_wrench(foot, plates[foot])]
    body = ks.gait.Body(found.segments, gait.MASS)
    time = raw.time[TRIM:-TRIM]
    loads, _ = gait.torques(body, found.kinematics, time, contacts, plates, plates)
    loads = {method: loads[method] for method in ("plates", "corrected plates")}
    positions = {**raw.positions, **joints.points}
    return Walk(found, positions, plates, loads["plates"].inverse, loads)


# -- seven segments -------------------------------------------------------------------------------


def local(trial, segment, position):
    """Where a point (3, N) is in the axes of a segment from its joint, mean over the trial [m]."""
    k, A = trial.number(segment), trial.needed.attitude[trial.number(segment)]
    arm = position[:, TRIM:-TRIM] - trial.needed.position[k]
    return np.einsum("jin,jn->i", A, arm) / arm.shape[1]


def lump(trial, name, members, proximal, points):
    """Segments that move as one, as they lie on average in the axes of the first one."""
    rows = [row for member in members for row in trial.found.segments if row.name == member]
    weights = np.array([row.mass for row in rows])
    first = trial.number(members[0])
    A, origin = trial.needed.attitude[first], trial.needed.position[first]
    centres, moments = [], np.zeros(3)
    for row in rows:
        k = trial.number(row.name)
        turn = np.einsum("jin,jkn->ikn", A, trial.needed.attitude[k])
        at = np.einsum("jin,jn->in", A, trial.needed.position[k] - origin)
        centres.append((at + np.einsum("ikn,k->in", turn, row.com)).mean(axis=1))
        moments += np.einsum("ikn,k,ikn->i", turn, row.inertia, turn) / len(A.T)
    com = weights @ np.array(centres) / weights.sum()
    squares = (np.array(centres) - com) ** 2
    moments += weights @ (squares.sum(axis=1, keepdims=True) - squares)
    (x, y, z), (about_x, about_y, about_z) = com.tolist(), moments.tolist()
    return Segment(
        name, proximal, float(weights.sum()), (x, y, z), (about_x, about_y, about_z), points
    )


def seven(trial):
    """Head, arms and trunk in one, two thighs, shanks and feet, in space."""
    positions, rows = trial.positions, {row.name: row for row in trial.found.segments}
    hips = {f"{s}H": tuple(local(trial, "torso", positions[f"{s}H"])) for s in FEET}
    made = [lump(trial, "HAT", UPPER, ROOT, hips)]
    for s in FEET:
        foot = lump(trial, f"{s}foot", (f"{s}hindfoot", f"{s}forefoot"), f"{s}A", {})
        made += [rows[f"{s}thigh"], rows[f"{s}shank"], foot]
    return tuple(made)


def flat(segments):
    """The same in the sagittal plane, where both hips fall together, and the hip from the root."""
    hip = np.mean(list(segments[0].points.values()), axis=0)
    rows = []
    for row in segments:
        com = np.array(row.com) - (hip if row.name == "HAT" else 0.0)
        points = {n: tuple(np.array(p)[::2]) for n, p in row.points.items() if row.name != "HAT"}
        proximal = HIP if row.proximal in (ROOT, "RH", "LH") else row.proximal
        rows.append(
            PlanarSegment(row.name, proximal, row.mass, tuple(com[::2]), row.inertia[1], points)
        )
    return tuple(rows), hip


# -- models that are driven by what is to be found ------------------------------------------------


@dataclass(frozen=True)
class Tracker:
    """A model that is driven by torques of joints and forces of the ground, and what it tracks.

    axes, turns : of its forces and torques. positions : where points are measured, (3, N) each [m].
    motion : states of the smoothed motion at times (N,), by name, for a first guess.
    """

    model: ks.Model
    axes: str
    turns: str
    positions: dict
    motion: Callable

    @property
    def rates(self):
        """Rates of the torques of joints, inputs."""
        return [u for u in self.model.inputs if u.name.endswith("_rate")]


def signal(name):
    """A function of time by its name."""
    return sp.Function(name)(ks.t)


def ground(axes, turns):
    """The wrench under each foot: a force at the measured centre of pressure, which is known, and a
    moment about it, which moves the true one."""

    def loads(tree):
        made = []
        for s in FEET:
            force = [signal(f"{s}force_{a}") if a in axes else 0 for a in "xyz"]
            moment = [signal(f"{s}moment_{a}") if a in turns else 0 for a in "xyz"]
            centre = [signal(f"{s}cop_{a}") if a in axes else 0 for a in "xy"]
            arm = sp.Matrix([*centre, 0]) - sp.Matrix(tree.place(f"{s}foot"))
            about = sp.Matrix(moment) + arm.cross(sp.Matrix(force))
            made.append(Load(f"{s}foot", force, list(about)))
        return made

    return loads


def tracked(trial, rows):
    """Points of bodies, name -> (body, position in its axes (3,) [m]), from name -> (segment,
    position in the world (3, N) [m])."""
    bodies = {"torso": "HAT", "Rhindfoot": "Rfoot", "Lhindfoot": "Lfoot"}
    return {
        name: (bodies.get(segment, segment), local(trial, segment, position))
        for name, (segment, position) in rows.items()
    }


def outputs(tree, points, axes):
    """Where tracked points are, `RK_x`, ... [m]."""
    return {
        f"{name}_{a}": tree.place(body, at)["xyz".index(a)]
        for name, (body, at) in points.items()
        for a in axes
    }


def in_plane(trial, loads=None, more=None, changing=()):
    """Seven segments in the sagittal plane, 9 degrees of freedom, torques of 6 joints.

    loads : of the ground, those of plates by default. more : further outputs from the tree.
    changing : further inputs that have rates.
    """
    segments, hip = flat(seven(trial))
    loads = ground("xz", "y") if loads is None else loads
    tree = replace(planar_body(segments).parametrised(), loads=loads)
    at = trial.positions
    rows = {"shoulder": ("torso", 0.5 * (at["R.Acromium"] + at["L.Acromium"]))}
    for s in FEET:
        rows |= {
            f"{s}K": (f"{s}thigh", at[f"{s}K"]),
            f"{s}A": (f"{s}shank", at[f"{s}A"]),
            f"{s}heel": (f"{s}hindfoot", at[f"{s}.Heel"]),
            f"{s}M": (f"{s}hindfoot", at[f"{s}M"]),
        }
    points = tracked(trial, rows)
    points["shoulder"] = ("HAT", points["shoulder"][1] - hip)
    points["hip"] = (HIP, np.zeros(3))
    positions = {name: position for name, (_, position) in rows.items()}
    positions["hip"] = 0.5 * (at["RH"] + at["LH"])
    joints = {f"{s}{joint}": f"{s}{body}_wy" for s in FEET for joint, body in JOINTS.items()}
    torques = {speed: signal(f"{name}_y") for name, speed in joints.items()}
    torques["HAT_wy"] = -sum(signal(f"{s}hip_y") for s in FEET)
    further = {} if more is None else more(tree)
    model = tree.model(torques, {**outputs(tree, points, "xz"), **further})
    model = model.with_rates(*(f"{name}_y" for name in joints), *changing)

    def motion(time):
        return planar_motion(model, segments, hip, reduced(trial, time))

    return Tracker(model, "xz", "y", positions, motion)


def reduced(trial, time):
    """The smoothed motion of seven segments at times (N,): position of the root, then angles."""
    kinematics = trial.found.kinematics.sample(time)
    here = [trial.number(name) for name in ("torso", *LEGS)]
    rows = [0, 1, 2, *(3 + 3 * k + j for k in here for j in range(3))]
    return Samples(kinematics.time, kinematics.z[rows], kinematics.zd[rows], kinematics.zdd[rows])


def planar_motion(model, segments, hip, kinematics):
    """Coordinates and speeds of a motion in the plane, by name."""
    z, zd = kinematics.z, kinematics.zd
    lean = z[4]  # turns about the axis to the left are the second angles
    c, s = np.cos(lean), np.sin(lean)
    position = z[[0, 2]] + np.array([c * hip[0] + s * hip[2], c * hip[2] - s * hip[0]])
    speed = zd[[0, 2]] + zd[4] * np.array([c * hip[2] - s * hip[0], -c * hip[0] - s * hip[2]])
    turn = joint_angles(segments)
    rows = [*position, *(turn @ z[4::3]), *speed, *(turn @ zd[4::3])]
    return dict(zip(model.state_names, rows, strict=False))


def in_space(trial):
    """Seven segments in space, 24 degrees of freedom, torques of 6 ball joints."""
    tree = replace(whole_body(seven(trial)).parametrised(), loads=ground("xyz", "xyz"))
    at = trial.positions
    rows = {"RS": ("torso", at["R.Acromium"]), "LS": ("torso", at["L.Acromium"])}
    for s in FEET:
        thigh, shank, foot = f"{s}thigh", f"{s}shank", f"{s}hindfoot"
        rows |= {
            f"{s}H": ("torso", at[f"{s}H"]),
            f"{s}K": (thigh, at[f"{s}K"]),
            f"{s}A": (shank, at[f"{s}A"]),
            f"{s}M": (foot, at[f"{s}M"]),
            f"{s}heel": (foot, at[f"{s}.Heel"]),
            f"{s}side": (foot, at[f"{s}.Midfoot.Lat"]),
        }
        rows |= {
            f"{s}{part}{k}": (body, at[f"{s}.{part}.{k}"])
            for part, body in (("Thigh", thigh), ("Shank", shank))
            for k in ("Front", "Rear")
        }
    torques = joint_torques(tree)
    model = tree.model(torques, outputs(tree, tracked(trial, rows), "xyz"))
    model = model.with_rates(*(f"{s}{j}_{a}" for s in FEET for j in JOINTS for a in "xyz"))

    def motion(time):
        return dict(zip(model.state_names, states(reduced(trial, time))[0], strict=False))

    positions = {name: position for name, (_, position) in rows.items()}
    return Tracker(model, "xyz", "xyz", positions, motion)


def joint_torques(tree):
    """Torques between world and segments, in their axes, of torques in joints, which are inputs in
    the axes of the segment that carries the joint."""
    total = {body.name: sp.zeros(3, 1) for body in tree.bodies}
    for s in FEET:
        chain = ["HAT", *(f"{s}{body}" for body in JOINTS.values())]
        for joint, parent, body in zip(JOINTS, chain, chain[1:], strict=False):
            torque = sp.Matrix([signal(f"{s}{joint}_{a}") for a in "xyz"])
            before, beyond = (sp.Matrix(tree.attitude(name)) for name in (parent, body))
            total[parent] -= torque
            total[body] += beyond.T * (before * torque)
    return {
        f"{body}_w{a}": total[body][k]
        for body in total
        for k, a in enumerate("xyz")
        if body != ROOT
    }


# -- tracking -------------------------------------------------------------------------------------

#: Standard deviations of the measurements: positions, forces, centre of pressure, free moment ...
PLACE, FORCE, CENTRE, FREE = 8e-3, {"x": 5.0, "y": 5.0, "z": 10.0}, 5e-3, 2.0  # [m, N, m, N m]
#: ... and how fast torques change, as if their rates were measured as 0 once every PERIOD.
RATE, PERIOD = 3000.0, 1.0 / 120.0  # [N m/s, s]
#: Of a foot in the air: it bears nothing.
NOTHING = 1e-2
LOADED = 100.0  # vertical force beyond which plates are compared [N]
COMPARED = (0.6, 1.6)  # with OpenSim, whose record ends here [s]
SPAN = (0.55, 1.92)  # a cycle of the right leg, 0.618 to 1.853 s, and a bit more [s]


def grid(trial, nodes=None):
    """Two nodes per frame; the frames in SPAN, or as many as give these nodes at most."""
    time = trial.found.markers.time
    frames = np.flatnonzero((time >= SPAN[0]) & (time <= SPAN[1]))
    frames = frames[: None if nodes is None else (nodes + 1) // 2]
    N = 2 * len(frames) - 1
    return frames, np.interp(np.arange(N) / 2, np.arange(len(frames)), time[frames])


def experiment(trial, tracker, nodes=None):
    """Markers at every second node, plates as means over every interval between nodes.

    Forces are held over an interval, so that the impulse of a heel strike is what was measured.
    """
    frames, time = grid(trial, nodes)
    inputs, measured, std = {}, {}, {}
    for name, position in tracker.positions.items():
        for a in tracker.axes:
            row = np.full(len(time), np.nan)
            row[::2] = position["xyz".index(a), frames]
            measured[f"{name}_{a}"], std[f"{name}_{a}"] = row, PLACE
    for s, foot in FEET.items():
        mean = trial.plates[foot].at(0.5 * (time[1:] + time[:-1]))
        centre, loaded = mean.cop(), mean.force[2] > THRESHOLD
        centre = [np.interp(mean.time, mean.time[loaded], row[loaded]) for row in centre[:2]]
        tilt = NOTHING + CENTRE * np.maximum(mean.force[2], 0.0)
        for k, a in enumerate("xyz"):
            if a in tracker.axes and a != "z":
                inputs[f"{s}cop_{a}"] = ks.Signal(time[:-1], centre[k], "held")
            if a in tracker.axes:
                measured[f"{s}force_{a}"] = held(np.where(loaded, mean.force[k], 0.0))
                std[f"{s}force_{a}"] = held(np.where(loaded, FORCE[a], NOTHING))
            if a in tracker.turns:
                free = mean.free_moment() if a == "z" else 0.0
                measured[f"{s}moment_{a}"] = held(np.where(loaded, free, 0.0))
                std[f"{s}moment_{a}"] = held(np.where(loaded, FREE if a == "z" else tilt, NOTHING))
    return ks.Experiment(time, inputs, measured, std)


def first_guess(trial, tracker, time):
    """The smoothed motion, and the torques of inverse dynamics with plates as measured; forces of
    the ground come from their measurements."""
    loads = trial.loads["plates"]
    guess = tracker.motion(time)
    for s in FEET:
        chain = ["torso", f"{s}thigh", f"{s}shank", f"{s}hindfoot"]
        for joint, parent, body in zip(JOINTS, chain, chain[1:], strict=False):
            axes = trial.needed.attitude[trial.number(parent)]
            torque = np.einsum("jin,jn->in", axes, loads.torque[trial.number(body)])
            for a in tracker.turns:
                row = np.interp(time, trial.needed.time, torque["xyz".index(a)])
                guess |= {f"{s}{joint}_{a}": row, f"{s}{joint}_{a}_rate": np.gradient(row, time)}
    return guess


def held(row):
    """Values of intervals (N - 1,) as those of nodes (N,): the last one counts for nothing."""
    return np.append(row, row[-1])


def problem(trial, tracker, nodes=None, unknown=None):
    """Motion, torques of joints and wrenches of the ground nearest to all measurements."""
    measured = experiment(trial, tracker, nodes)
    change = ks.Integral(sum((rate / RATE) ** 2 for rate in tracker.rates)) / PERIOD
    free = {u: None for u in tracker.model.input_names if u not in measured.inputs}
    return ks.Collocation(
        tracker.model,
        measured,
        unknown=unknown,
        unknown_inputs={name: ks.held(*(bounds or ())) for name, bounds in free.items()},
        scheme="midpoint",  # a finer one lets light feet turn to and fro between two frames
        objective=ks.LeastSquares() + change,
    )


def track(trial, tracker, nodes=None, unknown=None):
    """Its solution."""
    task = problem(trial, tracker, nodes, unknown)
    return task.solve(guess=first_guess(trial, tracker, task.trials[0].time), max_iterations=200)


def summary(method, tracker, solution):
    """Size of a problem and where the time went, as text."""
    seconds = solution.timings
    return (
        f"{method}: {len(tracker.model.states)} states, {len(solution.time)} nodes, "
        f"{len(solution.free_vector)} unknowns, {solution.iterations} iterations, "
        f"{solution.message}; derive {seconds['derive']:.1f} s, compile "
        f"{seconds['compile']:.1f} s, total {seconds['total']:.1f} s"
        f"{''.join(f'; grid: {error}' for error in solution.grid)}"
    )


def weighed(trial, tracker, nodes=None):
    """The centre of mass of head, arms and trunk, found together with the motion, as text."""
    name, given = "HAT_cx", tracker.model.values["HAT_cx"]
    solution = track(trial, tracker, nodes, {name: (given - 0.2, given + 0.2)})
    return (
        "left free, the centre of mass of head, arms and trunk is found "
        f"{-1e3 * solution.parameters[name]:.1f} mm behind the line from hips to shoulders, "
        f"where the segments have it {-1e3 * given:.1f} mm behind"
    )


# -- what comes out -------------------------------------------------------------------------------


def rms(values):
    """Root mean square of all that is known."""
    return float(np.sqrt(np.nanmean(np.square(values))))


def missed(solution, tracker):
    """Modelled minus measured positions of each point at the frames, {point: (axes, n)} [m]."""
    given = solution.trials[0].measurements
    return {
        name: np.array(
            [(solution[f"{name}_{a}"] - given[f"{name}_{a}"])[::2] for a in tracker.axes]
        )
        for name in tracker.positions
    }


def flexions(trial, solutions):
    """Torques of flexion by method, {"plates": (time, {"Rhip": (N,)})} [s, N m]; signs as in
    `JointLoads.flexion`."""
    names = [(s, joint) for s in FEET for joint in JOINTS]
    found = {
        method: (loads.time, {s + j: loads.flexion(f"{FEET[s]}_{j}") for s, j in names})
        for method, loads in trial.loads.items()
    }
    for method, solution in solutions.items():
        found[method] = solution.time, {s + j: -solution[f"{s}{j}_y"] for s, j in names}
    return found


def opensim():
    """Time, torques of flexion by joint, and what OpenSim leaves over at the pelvis: force forwards
    and upwards [N], moment that pitches it [N m]."""
    table = ks.gait.read_table(gait.data("gait_subject01_torques.csv"))
    torques = {
        s + joint: table[f"{column}_{s.lower()}_moment_Nm"]
        for s in FEET
        for joint, column in gait.REFERENCE.items()
    }
    left = [
        table[name] for name in ("pelvis_tx_force_N", "pelvis_ty_force_N", "pelvis_tilt_moment_Nm")
    ]
    return table.time, torques, np.array(left)


def changes(trial, method):
    """Found minus measured wrenches of the ground by inverse dynamics while a foot is on it: force
    forwards and upwards (2, n) [N], and how far the centre of pressure moved forwards (n,) [m]."""
    forces, shifts = [], []
    loads = trial.loads[method]
    for foot, parts in loads.inverse.skeleton.feet.items():
        found = loads.loads[parts[0]] + loads.loads[parts[1]]
        given = trial.plates[foot].at(loads.time)
        here = (given.force[2] > LOADED) & (loads.time >= SPAN[0]) & (loads.time <= SPAN[1])
        forces.append((found.force - given.force)[::2, here])
        shifts.append((found.cop() - given.cop())[0, here])
    return np.hstack(forces), np.hstack(shifts)


def changes_tracked(solution):
    """The same of tracking, where the moment is about the measured centre of pressure."""
    forces, shifts, given = [], [], solution.trials[0].measurements
    for s in FEET:
        here = given[f"{s}force_z"] > LOADED
        forces.append(
            np.array([(solution[f"{s}force_{a}"] - given[f"{s}force_{a}"])[here] for a in "xz"])
        )
        shifts.append(-solution[f"{s}moment_y"][here] / solution[f"{s}force_z"][here])
    return np.hstack(forces), np.hstack(shifts)


def who_pays(trial, solutions, trackers):
    """What each method leaves over at the trunk and what it changes instead, rms, as text."""
    heads = ("force [N]", "moment [N m]", "force [N]", "centre [mm]", "positions [mm]")
    lines = [
        f"{'in the sagittal plane, rms':34}{'residual at the trunk':>26}"
        f"{'plates changed by':>26}{'markers off':>13}",
        " " * 34 + "".join(f"{head:>13}" for head in heads),
    ]

    def add(name, values):
        cells = ("-" if value is None else f"{value:.1f}" for value in values)
        lines.append(f"{name:34}" + "".join(f"{cell:>13}" for cell in cells))

    _, _, left = opensim()
    add("OpenSim", (rms(left[:2]), rms(left[2]), 0.0, 0.0, None))
    for method, loads in trial.loads.items():
        here = (loads.time >= SPAN[0]) & (loads.time <= SPAN[1])
        force, shift = changes(trial, method)
        add(
            f"inverse dynamics, {method}",
            (
                rms(loads.force[0][::2, here]),
                rms(loads.torque[0][1, here]),
                rms(force),
                1e3 * rms(shift),
                1e3 * rms(trial.found.fitted.rms),
            ),
        )
    for method, solution in solutions.items():
        force, shift = changes_tracked(solution)
        gaps = [np.linalg.norm(gap, axis=0) for gap in missed(solution, trackers[method]).values()]
        add(method, (0.0, 0.0, rms(force), 1e3 * rms(shift), 1e3 * rms(gaps)))
    return "\n".join(lines)


def against_opensim(found):
    """Correlation and root mean square difference of torques of flexion, as text."""
    time, given, _ = opensim()
    end = min(COMPARED[1], *(times[-1] for times, _ in found.values()))
    here = (time >= COMPARED[0]) & (time <= end)
    lines = [
        f"against OpenSim, {COMPARED[0]:.2f} ... {end:.2f} s",
        " " * 28 + "".join(f"{name:>20}" for name in found),
    ]
    for name, row in given.items():
        line = f"{FEET[name[0]]:6}{name[1:]:7}up to {np.abs(row[here]).max():4.0f} N m"
        for times, rows in found.values():
            ours = np.interp(time[here], times, rows[name])
            line += f"{np.corrcoef(ours, row[here])[0, 1]:9.3f}{rms(ours - row[here]):7.1f} N m"
        lines.append(line)
    return "\n".join(lines)


# -- pictures -------------------------------------------------------------------------------------

COLOURS = {
    "plates": "C0",
    "corrected plates": "C1",
    "tracking, plane": "C2",
    "tracking, space": "C3",
}


def torque_figure(found):
    """Torques of flexion of both legs by all methods."""
    fig, axes = plt.subplots(3, 2, figsize=(11, 8), sharex=True, sharey="row", layout="constrained")
    time, given, _ = opensim()
    names = {method: f"inverse dynamics, {method}" for method in ("plates", "corrected plates")}
    for axis, (s, joint) in zip(axes.T.flat, [(s, j) for s in FEET for j in JOINTS], strict=True):
        axis.plot(time, given[s + joint], color="0.7", lw=4, label="OpenSim")
        for method, (times, rows) in found.items():
            axis.plot(
                times,
                rows[s + joint],
                color=COLOURS[method],
                lw=1.3,
                label=names.get(method, method),
            )
        axis.axhline(0.0, color="0.5", lw=0.6)
        axis.grid(alpha=0.3)
        axis.set_title(f"{FEET[s]} {joint}", loc="left", fontsize=10)
    for axis, label in zip(axes[:, 0], ("flexion", "extension", "dorsiflexion"), strict=True):
        axis.set_ylabel(f"{label} [N m]")
    times, _ = found["tracking, plane"]
    axes[0, 0].set_xlim(times[0], times[-1])
    for axis in axes[-1]:
        axis.set_xlabel("time [s]")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return fig


def force_figure(trial, method, solution):
    """Forces of the ground: measured, corrected, and found by tracking; and the differences."""
    fig, axes = plt.subplots(3, 2, figsize=(11, 8), sharex=True, sharey="row", layout="constrained")
    run, loads = solution.trials[0], trial.loads["corrected plates"]
    middle = run.time[:-1] + 0.5 * np.diff(run.time)
    here = (loads.time >= run.time[0]) & (loads.time <= run.time[-1])
    for column, (s, foot) in zip(axes.T, FEET.items(), strict=True):
        parts = loads.inverse.skeleton.feet[foot]
        corrected = (loads.loads[parts[0]] + loads.loads[parts[1]]).force
        plate = trial.plates[foot].at(loads.time).force
        for axis, a, k in zip(column, "xz", (0, 2), strict=False):
            given = run.measurements[f"{s}force_{a}"][:-1]
            axis.plot(middle, given, ".", ms=4, color="0.6", label="plate, means of intervals")
            axis.plot(
                loads.time[here],
                corrected[k, here],
                color="C1",
                lw=1.3,
                label="inverse dynamics, corrected plates",
            )
            axis.plot(
                middle, run[f"{s}force_{a}"][:-1], color=COLOURS[method], lw=1.3, label=method
            )
        column[2].plot(loads.time[here], (corrected - plate)[2, here], color="C1", lw=1.3)
        column[2].plot(
            middle,
            (run[f"{s}force_z"] - run.measurements[f"{s}force_z"])[:-1],
            color=COLOURS[method],
            lw=1.3,
        )
        column[0].set_title(f"{foot} foot", loc="left", fontsize=10)
        column[2].set_xlabel("time [s]")
    for axis, label in zip(
        axes[:, 0], ("forwards", "upwards", "upwards, found - plate"), strict=True
    ):
        axis.set_ylabel(f"{label} [N]")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


#: Lines of the stick figure of the plane.
STICKS = [
    ("shoulder", "hip"),
    *(
        (a, b)
        for s in FEET
        for a, b in (
            ("hip", f"{s}K"),
            (f"{s}K", f"{s}A"),
            (f"{s}A", f"{s}heel"),
            (f"{s}heel", f"{s}M"),
            (f"{s}M", f"{s}A"),
        )
    ),
]
POINTS = {
    "hip": "hip",
    "K": "knee",
    "A": "ankle",
    "heel": "heel",
    "M": "ball of the foot",
    "shoulder": "shoulders",
}
APART, SCALE = 0.9, 1e-3  # between figures [m], of forces [m/N]


def stick_figure(solution, tracker):
    """The walk at some instants with markers and forces; distances to the markers over time."""
    fig, (top, below) = plt.subplots(
        2, 1, figsize=(12, 7), layout="constrained", height_ratios=(5, 4)
    )
    draw_walk(top, solution.trials[0], tracker)
    draw_distances(below, solution, tracker)
    return fig


def draw_walk(top, run, tracker):
    """Sticks, markers as crosses and ground reactions as arrows at seven instants."""
    frames = np.linspace(0, (len(run.time) - 1) // 2, 7).astype(int) * 2
    for number, k in enumerate(frames):
        x0 = APART * number - run["hip_x"][k]
        for a, b in STICKS:
            colour = "C3" if "R" in a[0] + b[0] else "C0" if "L" in a[0] + b[0] else "0.3"
            top.plot(
                [x0 + run[f"{a}_x"][k], x0 + run[f"{b}_x"][k]],
                [run[f"{a}_z"][k], run[f"{b}_z"][k]],
                color=colour,
                lw=2,
            )
        for name in tracker.positions:
            top.plot(
                x0 + run.measurements[f"{name}_x"][k],
                run.measurements[f"{name}_z"][k],
                "k+",
                ms=6,
                mew=1,
            )
        for s, colour in (("R", "C3"), ("L", "C0")):
            fx, fz = (run[f"{s}force_{a}"][k] for a in "xz")
            if fz > THRESHOLD:
                at = x0 + run[f"{s}cop_x"][k] - run[f"{s}moment_y"][k] / fz
                top.annotate(
                    "",
                    (at + SCALE * fx, SCALE * fz),
                    (at, 0.0),
                    arrowprops={"arrowstyle": "->", "color": colour, "alpha": 0.6},
                )
        top.text(APART * number, 1.62, f"{run.time[k]:.2f} s", ha="center")
    top.axhline(0.0, color="0.5", lw=0.8)
    top.set(
        aspect="equal",
        ylabel="height [m]",
        xticks=[],
        xlim=(-0.75, APART * (len(frames) - 1) + 0.75),
        ylim=(-0.05, 1.7),
    )
    top.set_title(
        "tracked in the plane: right leg red, left leg blue, crosses: markers, arrows: ground "
        "reaction (1 m is 1 kN)",
        loc="left",
        fontsize=10,
    )


def draw_distances(below, solution, tracker):
    """Distances from the points of the model to the markers over time."""
    run = solution.trials[0]
    for name, gap in missed(solution, tracker).items():
        style = {"R": "-", "L": "--"}.get(name[0], ":")
        colour = f"C{['hip', 'K', 'A', 'heel', 'M', 'shoulder'].index(name.lstrip('RL'))}"
        below.plot(
            run.time[::2],
            1e3 * np.linalg.norm(gap, axis=0),
            style,
            color=colour,
            lw=1.2,
            label=POINTS[name.lstrip("RL")] if name[0] != "L" else None,
        )
    below.set(
        xlabel="time [s]",
        ylabel="model to markers [mm]",
        ylim=(0, None),
        xlim=(run.time[0], run.time[-1]),
    )
    below.grid(alpha=0.3)
    below.legend(
        ncols=6,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        frameon=False,
        title="right solid, left dashed",
    )


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Track in the plane and, at full size, in space, which is built longer; compare, draw."""
    trial, solutions = walk(), {}
    trackers = {"tracking, plane": in_plane(trial)}
    if nodes is None:
        trackers["tracking, space"] = in_space(trial)
    for method, tracker in trackers.items():
        solutions[method] = track(trial, tracker, nodes)
        print(summary(method, tracker, solutions[method]))
    found = flexions(trial, solutions)
    print(f"\n{who_pays(trial, solutions, trackers)}\n\n{against_opensim(found)}")
    print(f"\n{weighed(trial, trackers['tracking, plane'], nodes)}")
    print(
        "\nInverse dynamics takes the motion as given: what plates and motion disagree about is\n"
        "residual at the trunk, or changes the plates. Tracking shares it out by what each\n"
        "measurement is worth, and a few millimetres of skin are cheaper than tens of newtons.\n"
        "The dips of the hips at heel strikes do not appear: it seems that plates show\n"
        "the impact and the smoothed motion does not."
    )
    figures = {
        "gait_tracking_torques": torque_figure(found),
        "gait_tracking_forces": force_figure(trial, *list(solutions.items())[-1]),
        "gait_tracking": stick_figure(solutions["tracking, plane"], trackers["tracking, plane"]),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(out / f"{name}.png")
        figure.savefig(paths[-1], dpi=120)
        plt.close(figure)
    return paths
