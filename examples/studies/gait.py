"""Gait: from markers and force plates to joint torques, and from torques back to the walk.

A recorded walk of a man of 72.6 kg, 41 markers and two plates: the motion of 18 rigid segments with
57 degrees of freedom, and the torques of all joints: from the plates, low-passed like the motion,
and from what the motion needs, with plates that are corrected in double support. Then the walk
simulated again from its torques, with and without control (Pamies-Vila, Font-Llagunes 2013).
Torques are compared with those that OpenSim finds for the trial.
Data: see ../data/README.md.
"""

import warnings
from importlib import resources
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.gait import Axes, Carried, Like, Midpoint, Relations, Shifted

MASS, STATURE = 72.6, 1.8034  # kg, m
DEPTH = 0.025  # m, of the markers on the pelvis before and behind the bone
STEP = 1e-3  # s, of the simulation
FEET = ("right", "left")
#: Columns of the reference.
REFERENCE = {"hip": "hip_flexion", "knee": "knee_angle", "ankle": "ankle_angle"}
SEGMENTS_OF_ERRORS = ("thigh", "shank", "hindfoot", "forefoot")


def data(name):
    """A file of the gallery."""
    return resources.files("kinesym.examples") / "data" / name


# -- what the markers say ---------------------------------------------------------------------


def leg(side):
    """Positions and axes of a leg from clusters of three markers and a standing trial."""
    lateral, medial = (side, "Lat"), (side, "Med")
    if side == "L":
        lateral, medial = medial, lateral  # y is to the left
    knee, ankle = (
        [f"{s}.{joint}.{end}" for s, end in (lateral, medial)] for joint in ("Knee", "Ankle")
    )
    thigh, shank = (
        [f"{side}.{part}.{position}" for position in ("Upper", "Front", "Rear")]
        for part in ("Thigh", "Shank")
    )
    foot = [f"{side}.{name}" for name in ("Heel", "Midfoot.Sup", "Midfoot.Lat")]
    toes = [f"{side}.Toe.{name}" for name in ("Lat", "Med", "Tip")]
    ball = Midpoint([f"{side}.Toe.Lat", f"{side}.Toe.Med"])
    flat = Axes("z", z="up", x=(f"{side}.Heel", ball))
    positions = {
        f"{side}K": Midpoint([Carried(Midpoint(knee), cluster) for cluster in (thigh, shank)]),
        f"{side}A": Midpoint([Carried(Midpoint(ankle), cluster) for cluster in (shank, foot)]),
        f"{side}M": ball,
    }
    axes = {
        f"{side}thigh": Axes(
            "z", z=(f"{side}K", f"{side}H"), y=(Carried(knee[0], thigh), Carried(knee[1], thigh))
        ),
        f"{side}shank": Axes(
            "z", z=(f"{side}A", f"{side}K"), y=(Carried(ankle[0], shank), Carried(ankle[1], shank))
        ),
        f"{side}hindfoot": Carried(flat, foot),
        f"{side}forefoot": Carried(flat, toes),
    }
    return positions, axes


def arm(side, across):
    """Positions and axes of an arm; the elbow is 4 cm inside of its marker."""
    inwards = 1.0 if side == "R" else -1.0
    wrist = (f"{side}.Wrist.Lat", f"{side}.Wrist.Med")
    positions = {
        f"{side}S": Shifted(f"{side}.Acromium", (0.0, 0.0, -0.1), Like("torso"), across),
        f"{side}E": Shifted(f"{side}.Elbow", (0.0, 0.04 * inwards, 0.0), Like("torso")),
        f"{side}W": Midpoint(wrist),
    }
    axes = {
        f"{side}arm": Axes("z", z=(f"{side}E", f"{side}S"), y=across),
        f"{side}forearm": Axes(
            "z", z=(f"{side}W", f"{side}E"), y=wrist if side == "R" else wrist[::-1]
        ),
        f"{side}hand": Like(f"{side}forearm"),
    }
    return positions, axes


def hips(back):
    """Centres of the hips by the regression of Harrington et al. 2007 (depth and width of the
    pelvis of this man), behind the bone under the markers, and axes of the pelvis."""
    front = Midpoint(["R.ASIS", "L.ASIS"])
    axes = Axes("y", y=("R.ASIS", "L.ASIS"), x=(back, front))
    positions = {
        f"{side}H": Shifted(front, (-0.057 - DEPTH, 0.094 * left, -0.090), Like("pelvis"))
        for side, left in (("R", -1.0), ("L", 1.0))
    }
    return positions, axes


def relations():
    """Points and axes of all segments."""
    positions, pelvis = hips("V.Sacral")
    across = ("R.Acromium", "L.Acromium")
    temples = ("R.Temple", "L.Temple")
    positions["J1"] = Shifted(Midpoint(["RH", "LH"]), (-0.01, 0.0, 0.149 * STATURE), Like("pelvis"))
    positions["NK"] = Shifted(Midpoint(across), (0.0, 0.0, 0.01), Like("torso"))
    positions["HJ"] = Shifted(Midpoint(temples), (-0.06, 0.0, -0.02), Like("head"))
    axes = {
        "pelvis": pelvis,
        "torso": Axes("z", z=("J1", Midpoint(across)), y=across),
        "neck": Axes("z", z=("NK", "HJ"), y=across),
        "head": Carried(Axes("z", z="up", y=temples), (*temples, "Top.Head")),
    }
    for part in (leg("R"), leg("L"), arm("R", across), arm("L", across)):
        positions, axes = positions | part[0], axes | part[1]
    return Relations(positions, axes)


def subject():
    """The segments with masses and inertias of the model that the reference was computed with: the
    rest of the body shares what its legs leave."""
    rows = np.genfromtxt(
        data("gait_subject01_segments.csv").open(),
        delimiter=",",
        names=True,
        dtype=None,
        encoding=None,
    )
    table = {row["body"]: row for row in rows}
    segments = ks.gait.segments_of_body(MASS, STATURE)
    masses, coms, inertias = {}, {}, {}
    for side in ("R", "L"):
        for part, body in (("thigh", "femur"), ("shank", "tibia")):
            row = table[f"{body}_{side.lower()}"]  # its y is up, its z to the right
            name = f"{side}{part}"
            masses[name], coms[name] = row["mass_kg"], (0.0, 0.0, row["com_y_m"])
            inertias[name] = tuple(row[f"I{a}{a}_kgm2"] for a in "xzy")
        masses[f"{side}hindfoot"] = sum(
            table[f"{body}_{side.lower()}"]["mass_kg"] for body in ("talus", "calcn")
        )
        masses[f"{side}forefoot"] = table[f"toes_{side.lower()}"]["mass_kg"]
    others = [row for row in segments if row.name not in masses]
    scale = (MASS - sum(masses.values())) / sum(row.mass for row in others)
    masses |= {row.name: scale * row.mass for row in others}
    return ks.gait.segments_with(segments, masses, coms, inertias)


def walk():
    """The recorded walk as rigid segments, and the plates under its feet."""
    markers = ks.gait.read_csv(data("gait_subject01_markers.csv.gz"))
    standing = ks.gait.read_places(data("gait_subject01_static.csv"))
    plates = ks.gait.read_forces(data("gait_subject01_forces.csv.gz"))
    return ks.gait.reconstruct(subject(), relations(), markers, standing), plates


# -- torques ----------------------------------------------------------------------------------


def torques(body, kinematics, time, contacts, plates, under):
    """Joint loads with `under` the feet, and with force plates that are corrected; the sharing."""
    needed = body.inverse(kinematics.sample(time))
    shared = ks.gait.share(needed.total, contacts, plates)
    return {
        "plates": needed.joints({foot: under[foot].at(time) for foot in under}),
        "corrected plates": needed.joints(shared.wrenches),
    }, shared


def against_reference(loads):
    """Correlation and root mean square difference of sagittal torques, as text."""
    reference = np.genfromtxt(data("gait_subject01_torques.csv").open(), delimiter=",", names=True)
    time = next(iter(loads.values())).time
    here = (reference["time_s"] >= 0.5) & (reference["time_s"] <= 1.6)
    lines = [f"{'against OpenSim, 0.5 ... 1.6 s':32}" + "".join(f"{n:>26}" for n in loads)]
    for joint, column in REFERENCE.items():
        for side in FEET:
            given = reference[f"{column}_{side[0]}_moment_Nm"][here]
            line = f"  {side:5} {joint:6} (largest {np.abs(given).max():4.0f} N m) "
            for one in loads.values():
                ours = np.interp(reference["time_s"][here], time, one.flexion(f"{side}_{joint}"))
                rms = np.sqrt(np.mean((ours - given) ** 2))
                line += f"{np.corrcoef(ours, given)[0, 1]:14.3f} {rms:6.1f} N m"
            lines.append(line)
    return "\n".join(lines)


def formulations(needed):
    """How far the recursive formulation and the one in natural coordinates differ, as text."""
    body = ks.gait.NaturalBody(needed.skeleton.segments)
    kinematics = needed.kinematics
    off = np.abs(body.forces(kinematics.z, kinematics.zd, kinematics.zdd) - needed.forces).max()
    pulls = needed.multipliers()
    name = max(pulls, key=lambda key: np.abs(pulls[key]).max())
    return (
        f"natural coordinates: {body.n} = {body.g} free + {body.m} constraints; forces differ "
        f"by {off:.1e} N m; largest multiplier {np.abs(pulls[name]).max():.0f} N, {name}"
    )


def closure(loads):
    """The residual at the pelvis, as text."""
    rows = []
    for name, one in loads.items():
        force, moment = (np.sqrt(np.mean(part[0] ** 2, axis=1)) for part in (one.force, one.torque))
        rows.append(
            f"  {name:17} residual at the pelvis, rms: force "
            + " ".join(f"{f:8.2g}" for f in force)
            + " N, moment "
            + " ".join(f"{m:8.2g}" for m in moment)
            + " N m"
        )
    return "\n".join(rows)


# -- back to motion ---------------------------------------------------------------------------


def simulations(body, kinematics, cycle, nodes):
    """The walk again: with control, and let go by two methods."""
    count = min(nodes or np.inf, int((cycle.end - cycle.begin) / STEP) + 1)
    time = cycle.begin + STEP * np.arange(count)
    control = ks.gait.PD()
    return {
        "trapezoid, control": body.forward(kinematics, time, control),
        "trapezoid": body.forward(kinematics, time),
        "Runge-Kutta": body.forward(kinematics, time, method="rk4"),
        "Runge-Kutta, control": body.forward(kinematics, time, control, method="rk4"),
    }


def report(walks, cycle):
    """Errors, efforts and horizons, as text."""
    lines = [
        f"{'simulated, step 1 ms':22}{'root [m]':>11}{'angles [rad]':>14}{'effort [N]':>12}"
        f"{'[N m]':>10}   % of the cycle until 0.1, 1, 5 deg off"
    ]
    for name, one in walks.items():
        horizons = [one.horizon(np.radians(limit)) / cycle.duration for limit in (0.1, 1.0, 5.0)]
        text = " ".join(f"{100 * h:5.0f}" if np.isfinite(h) else "    -" for h in horizons)
        sizes = [
            np.abs(part).max()
            for part in (one.error[:3], one.error[3:], one.effort[:3], one.effort[3:])
        ]
        lines.append(
            f"  {name:20}{sizes[0]:11.2g}{sizes[1]:14.2g}{sizes[2]:12.2g}{sizes[3]:10.2g}   {text}"
        )
    lines.append("  published, control           8e-07         5e-06       0.005     0.004")
    return "\n".join(lines)


def horizons(body, kinematics, cycle):
    """How far the walk goes without control, by method and step, as text."""
    lines = ["without control, % of the cycle until a sagittal angle is off by 0.1, 1, 5 deg"]
    for method, steps in (
        ("trapezoid", (0.01, 0.005, 0.002, 0.001)),
        ("rk4", (0.004, 0.002)),
        ("dormand-prince", (0.001,)),
    ):
        for step in steps:
            time = np.arange(cycle.begin, cycle.end, step)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it ends early, as it must
                free = body.forward(kinematics, time, method=method)
            reached = [
                100.0 * free.horizon(np.radians(limit)) / cycle.duration
                for limit in (0.1, 1.0, 5.0)
            ]
            text = "".join(f"{h:6.0f}" if np.isfinite(h) else "     -" for h in reached)
            lines.append(f"  {method:16} {1e3 * step:4.0f} ms {text}")
    return "\n".join(lines)


def peaks(walk, cycle):
    """The largest efforts of the controller and when, as text."""
    names = [f"{side}{part}" for part in SEGMENTS_OF_ERRORS for side in ("R", "L")]
    rows = walk.peaks(names)
    return "\n".join(
        ["largest efforts of the controller"]
        + [
            f"  {label:16}{1e3 * size:9.3f} mN{' m' if 'M' in label else '  '} at "
            f"{float(cycle.percent(when)):5.1f} %"
            for label, size, when in rows
        ]
    )


def joints_of_legs():
    """Segments before and beyond each joint."""
    return {
        f"{side}_{joint}": (before, beyond)
        for side in FEET
        for joint, before, beyond in (
            ("hip", "pelvis", f"{side[0].upper()}thigh"),
            ("knee", f"{side[0].upper()}thigh", f"{side[0].upper()}shank"),
            ("ankle", f"{side[0].upper()}shank", f"{side[0].upper()}hindfoot"),
        )
    }


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Markers to torques to motion."""
    found, plates = walk()
    print(found.report())
    contacts = [c for foot in FEET for c in ks.gait.contacts_from_wrench(foot, plates[foot])]
    cycle = ks.gait.gait_cycle(contacts)
    body = ks.gait.Body(found.segments, MASS)
    time = found.markers.time[6:-6]
    under = found.alike(plates)  # or the plates as they are
    loads, shared = torques(body, found.kinematics, time, contacts, plates, under)
    print(
        formulations(loads["plates"].inverse),
        shared.report(),
        closure(loads),
        against_reference(loads),
        sep="\n",
    )
    walks = simulations(body, found.kinematics, cycle, nodes)
    print(report(walks, cycle), peaks(walks["trapezoid, control"], cycle), sep="\n")
    if nodes is None:
        print(horizons(body, found.kinematics, cycle))
    free = {name: walks[name] for name in ("trapezoid", "Runge-Kutta")}
    seen = ("R.ASIS", "R.Heel", "L.Wrist.Lat")
    figures = {
        "gait_markers": found.smoothed.plot(seen, before=found.markers),
        "gait_residuals": found.residuals().plot(),
        "gait_reconstruction": found.plot(),
        "gait_sharing": shared.plot(),
        "gait_torques": ks.gait.joint_torques(loads, cycle),
        "gait_angles": ks.gait.flexion_angles(free, cycle, joints_of_legs()),
        "gait_errors": ks.gait.tracking_errors(
            walks["trapezoid, control"], cycle, SEGMENTS_OF_ERRORS
        ),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(out / f"{name}.png")
        figure.savefig(paths[-1], dpi=120)
        plt.close(figure)
    joints = loads["plates"].trajectory()
    joints.to_csv(out / "gait_joints.csv")
    joints.save(out / "gait_joints.nc")
    simulated = walks["trapezoid, control"].trajectory()
    return [
        *paths,
        out / "gait_joints.csv",
        out / "gait_joints.nc",
        simulated.animate(out / "gait.html"),
        simulated.animate(out / "gait.gif", fps=12.5, speed=0.5),
    ]
