"""Walking tracked without force plates: the ground pushes only where points of the feet touch it.

As in `gait_tracking`, motion, joint torques and ground reaction are found together by direct
collocation, so that the equations of motion hold without a residual and raw markers are followed;
but no plate is used. Heel, ball and tip of each foot may be pushed, only up, only while heels and
toes say that the foot is on the ground, and the less the higher the point is; friction pulls at the
foot as far as its coefficient allows. Forces and torques change no faster than they need. Two
records of several steps, in the sagittal plane; plates judge, next to `ks.gait.contact_forces`,
which keeps the smoothed motion. Any start leads to the same solution.

Data: see data/README.md. Axes are x forwards, y to the left, z up.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples import gait_plates
from kinesym.examples.studies import gait, gait_tracking
from kinesym.examples.studies.gait_tracking import FEET, PERIOD, PLACE, TRIM, Walk, local, signal
from kinesym.multibody import Load

G = 9.81  # m/s^2
#: Standard deviations, once every PERIOD, of rates of torques and forces [N m/s, N/s] ...
TORQUE, FORCE = 1e4, 7e3
#: ... and of a force over the weight times the height of its point above the ground [m].
TOUCH = 0.01
FRICTION = 0.8
SPREAD = 2e-3  # m, over which a point begins to be above the ground
LOW = 8.0  # % of the time a point is so low: the sole is on the ground
MARGIN = 0.1  # s, tracked before and after what is judged
NOTHING = 1e-6  # N, that a foot in the air bears at most
POINTS = ("heel", "ball", "tip")
SHOULDERS = 0.45  # m, above the lower end of the torso, where nothing shows them


@dataclass(frozen=True)
class Record:
    """A walk, the marker on the tip of a foot, the weight [N], instants that are judged [s], nodes
    per frame."""

    trial: Walk
    tip: str
    weight: float
    span: tuple
    dense: int

    def kept(self, margin=0.0):
        """Ground forces by `ks.gait.contact_forces`, from the smoothed motion."""
        place, total = self.trial.found.smoothed, self.trial.needed.total
        feet = {foot: (place[f"{s}.Heel"], place[f"{s}.{self.tip}"]) for s, foot in FEET.items()}
        here = (total.time >= self.span[0] - margin) & (total.time <= self.span[1] + margin)
        return ks.gait.contact_forces(
            total.at(total.time[here]), place.time, feet, weight=self.weight
        )


def treadmill():
    """The walk of `gait`: whole body, 60 Hz."""
    return Record(gait_tracking.walk(), "Toe.Tip", gait.MASS * G, (0.2, 2.3), 2)


def overground():
    """That of `gait_plates`: pelvis and legs, 150 Hz; the trunk stays upright."""
    markers, plates = gait_plates.record()
    under, _ = ks.gait.assign_plates(plates, markers.time, gait_plates.feet_of(markers))
    contacts = [c for foot in under for c in ks.gait.contacts_from_wrench(foot, under[foot])]
    cycle = ks.gait.gait_cycle(contacts, "left")
    fine = under["right"].time
    whole = (fine >= cycle.begin) & (fine <= cycle.stride)
    weight = float(sum(wrench.force[2, whole] for wrench in under.values()).mean())
    segments = ks.gait.segments_of_body(weight / G, gait_plates.STATURE)
    found = ks.gait.reconstruct(segments, gait_plates.relations(), markers)
    needed = ks.gait.Body(found.segments, weight / G).inverse(
        found.kinematics.sample(found.markers.time[TRIM:-TRIM])
    )
    raw = found.markers.positions
    joints = ks.gait.landmarks(gait_plates.relations(), ks.gait.Trial(raw, {}))
    torso = needed.position[needed.skeleton.number("torso")]
    shoulder = np.full((3, len(found.markers)), np.nan)
    shoulder[:, TRIM:-TRIM] = torso + [[0.0], [0.0], [SHOULDERS]]
    positions = {**raw, **joints.points, "R.Acromium": shoulder, "L.Acromium": shoulder}
    trial = Walk(found, positions, under, needed, {})
    return Record(trial, "MT2", weight, (cycle.begin - 0.02, cycle.end + 0.02), 1)


# -- a model that the ground pushes at points -----------------------------------------------------


def soles(record):
    """Places of points in the axes of their feet, and their heights on the ground [m]: name ->
    ((x, z), height)."""
    at, found = record.trial.positions, {}
    for s in FEET:
        for point, name in zip(POINTS, (f"{s}.Heel", f"{s}M", f"{s}.{record.tip}"), strict=True):
            x, _, z = local(record.trial, f"{s}hindfoot", at[name])
            height = float(np.nanpercentile(at[name][2], LOW))
            found[f"{s}{point}"] = (float(x), float(z)), height
    return found


def pushes(points):
    """Loads: a force upwards at each point, friction at the ball of the foot."""

    def loads(tree):
        made = []
        for name, ((x, z), _) in points.items():
            foot = f"{name[0]}foot"
            pulled = signal(f"{name[0]}pull") if name.endswith("ball") else 0
            place = tree.place(foot, (x, 0, z))
            force = sp.Matrix([pulled, 0, signal(f"{name}_push")])
            arm = sp.Matrix([place[0], 0, 0]) - sp.Matrix(tree.place(foot))  # on the ground
            made.append(Load(foot, list(force), list(arm.cross(force))))
        return made

    return loads


def model_of(record):
    """What is tracked, with forces of points as states."""
    points = soles(record)

    def more(tree):
        found = {}
        for name, ((x, z), height) in points.items():
            above = tree.place(f"{name[0]}foot", (x, 0, z))[2] - height
            push = signal(f"{name}_push") / record.weight
            found[f"{name}_lifted"] = push * ks.smooth_max(above, 0, SPREAD)
        for s in FEET:
            found[f"{s}up"] = sp.Add(*(signal(f"{s}{point}_push") for point in POINTS))
        return found

    changing = [*(f"{name}_push" for name in points), *(f"{s}pull" for s in FEET)]
    return gait_tracking.in_plane(record.trial, pushes(points), more, changing)


# -- tracking -------------------------------------------------------------------------------------


def grid(record, nodes=None):
    """Frames between which there are `dense` intervals each, and all nodes [s]."""
    time = record.trial.needed.time
    here = (time >= record.span[0] - MARGIN) & (time <= record.span[1] + MARGIN)
    time = time[here]
    frames = time[: None if nodes is None else max(2, nodes // record.dense)]
    share = np.arange(record.dense * (len(frames) - 1) + 1) / record.dense
    return frames, np.interp(share, np.arange(len(frames)), frames)


def experiment(record, tracker, nodes=None):
    """Raw markers, and nothing of plates; what must not be counts as measured to be zero."""
    frames, time = grid(record, nodes)
    every = record.trial.found.markers.time
    here = np.searchsorted(every, frames - 1e-6)
    measured, std = {}, {}
    for name, position in tracker.positions.items():
        for a in "xz":
            row = np.full(len(time), np.nan)
            row[:: record.dense] = position["xyz".index(a), here]
            measured[f"{name}_{a}"], std[f"{name}_{a}"] = row, PLACE
    for name in soles(record):
        measured[f"{name}_lifted"], std[f"{name}_lifted"] = np.zeros(len(time)), TOUCH
    return ks.Experiment(time, {}, measured, std)


def on_the_ground(record, time):
    """Bounds of the forces: nothing but in contact."""
    bounds: dict = {}
    contacts = record.kept(MARGIN).contacts
    for s, foot in FEET.items():
        most = np.full(len(time), NOTHING)
        for contact in contacts:
            if contact.foot == foot:
                begin = contact.begin if contact.struck else -np.inf
                end = contact.end if contact.lifted else np.inf
                most[(time >= begin) & (time <= end)] = 4.0 * record.weight
        bounds |= {f"{s}{point}_push": (0.0, most) for point in POINTS}
    return bounds


def problem(record, tracker, nodes=None):
    """Motion, torques and forces nearest to the markers."""
    trial = experiment(record, tracker, nodes)
    changes = [
        (rate / (FORCE if rate.name.endswith(("push_rate", "pull_rate")) else TORQUE)) ** 2
        for rate in tracker.rates
    ]
    sticking = []
    for s in FEET:
        most = FRICTION * sp.Add(*(signal(f"{s}{point}_push") for point in POINTS)) + 1.0
        sticking += [(most - signal(f"{s}pull"), 0.0, None), (most + signal(f"{s}pull"), 0.0, None)]
    return ks.Collocation(
        tracker.model,
        trial,
        unknown_inputs={rate.name: ks.held() for rate in tracker.rates},
        bounds=on_the_ground(record, trial.time),
        path=sticking,
        scheme="midpoint",
        objective=ks.LeastSquares() + ks.Integral(sum(changes)) / PERIOD,
    )


def track(record, nodes=None):
    """Its solution, from the smoothed motion without any force."""
    tracker = model_of(record)
    task = problem(record, tracker, nodes)
    return task.solve(guess=tracker.motion(task.trials[0].time), max_iterations=300)


# -- what comes out -------------------------------------------------------------------------------


def off(record, time, forces):
    """Forwards and upwards: root mean square of forces by foot, (2, N) each, minus plates [% of
    the weight]."""
    here = (time >= record.span[0]) & (time <= record.span[1])
    found = {}
    for foot, rows in forces.items():
        plate = record.trial.plates[foot].at(time[here]).force[[0, 2]]
        found[foot] = 100.0 * np.sqrt(np.mean((rows[:, here] - plate) ** 2, axis=1)) / record.weight
    return found


def tracked_forces(solution):
    """By foot, (2, N) [N]."""
    return {foot: np.array([solution[f"{s}pull"], solution[f"{s}up"]]) for s, foot in FEET.items()}


def kept_forces(record):
    """Instants, and the same of `ks.gait.contact_forces`."""
    found = record.kept()
    return found.time, {foot: found[foot].force[[0, 2]] for foot in FEET.values()}


def table(name, record, solution):
    """Forces against plates, as text."""
    rows = {
        "tracked": off(record, solution.time, tracked_forces(solution)),
        "motion kept": off(record, *kept_forces(record)),
    }
    lines = [
        f"{name}: {len(solution.time)} nodes, {solution.iterations} iterations, "
        f"{solution.timings['total']:.1f} s; forces minus plates, rms [% of the weight]",
        f"  {'':14}{'left x':>9}{'left z':>9}{'right x':>9}{'right z':>9}",
    ]
    for way, found in rows.items():
        numbers = [*found["left"], *found["right"]]
        lines.append(f"  {way:14}" + "".join(f"{number:9.1f}" for number in numbers))
    return "\n".join(lines)


def picture(results):
    """Forces of both feet over time: tracked, with the motion kept, of plates."""
    figure, axes = plt.subplots(
        2, len(results), figsize=(6.5 * len(results), 6.4), squeeze=False, sharex="col",
        sharey="row", layout="constrained",
    )  # fmt: skip
    for column, (name, (record, solution)) in zip(axes.T, results.items(), strict=True):
        tracked, (time, kept) = tracked_forces(solution), kept_forces(record)
        for color, foot in (("C3", "right"), ("C0", "left")):
            plate = record.trial.plates[foot]
            here = (plate.time >= record.span[0]) & (plate.time <= record.span[1])
            for k, panel in enumerate(column):
                panel.plot(solution.time, tracked[foot][k], color, lw=1.4, label=f"{foot}, tracked")
                panel.plot(time, kept[foot][k], color, ls="--", lw=1.0, label="kept")
                panel.plot(plate.time[here], plate.force[2 * k, here], "k:", lw=1.2, label="plate")
                panel.set_ylabel(f"force {'upwards' if k else 'forwards'} [N]")
                panel.grid(alpha=0.3)
        column[0].set_title(name, fontsize="medium")
        column[0].set_xlim(*record.span)
        column[-1].set_xlabel("time [s]")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Track both records, compare with plates, draw."""
    results = {}
    for name, made in {"treadmill": treadmill, "overground": overground}.items():
        record = made()
        solution = track(record, nodes)
        results[name] = record, solution
        print(table(name, record, solution))
    path = out / "gait_without_plates.png"
    figure = picture(results)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return [path]
