"""Joint torques from markers that a video gave, without force plates.

`kinesym run video_to_torques --trc FILE --mass KG` takes the TRC file of Pose2Sim or OpenCap, with
markers of the augmenter (`r_knee_study`) or keypoints alone (`RKnee`): the model of OpenCap is
scaled to them and follows them, the motion tells the force of the ground, which both feet share,
and inverse dynamics the torques. When which foot is on the ground is found, and written to
`video_contacts.csv`: mended, or with a line for a chair, which the middle of the hips presses, it
is given back by `--contacts FILE`. Without a file of markers, one is made from a recorded walk,
with errors as of video, and the result is compared with the plates and torques of that walk.
Data: see ../data/README.md.
"""

import argparse
import warnings
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter1d

import kinesym as ks
from kinesym.examples.studies import gait
from kinesym.examples.studies.gait import data
from kinesym.gait import Carried, Relations, Trial, landmarks

FEET = {"right": "calcn_r", "left": "calcn_l"}
#: Coordinates that markers of the augmenter do not show, and more that keypoints do not: these have
#: no point on the pelvis but both hips, so that it is taken for one with the trunk.
LOCKED = ("mtp_angle_r", "mtp_angle_l", "pro_sup_r", "pro_sup_l")
UNSEEN = (
    "lumbar_extension",
    "lumbar_bending",
    "subtalar_angle_r",
    "subtalar_angle_l",
)
G = 9.80665  # m/s^2
EDGE = 8  # samples at the ends of a record, where accelerations are poor
SOLE = 0.02  # m, of markers on toes above the floor
#: Bodies that are longer or shorter together.
FACTORS = {
    "pelvis": ("pelvis",),
    "thigh": ("femur_r", "femur_l"),
    "shank": ("tibia_r", "tibia_l", "patella_r", "patella_l"),
    "foot": ("talus_r", "talus_l", "calcn_r", "calcn_l", "toes_r", "toes_l"),
    "torso": ("torso",),
    "upper_arm": ("humerus_r", "humerus_l"),
    "forearm": ("ulna_r", "ulna_l", "radius_r", "radius_l", "hand_r", "hand_l"),
}
#: Markers of the augmenter on the right: body and place on it [m].
AUGMENTED = {
    "r.ASIS_study": ("pelvis", (0.028, 0.010, 0.128)),
    "r.PSIS_study": ("pelvis", (-0.154, 0.025, 0.050)),
    "RHJC_study": ("pelvis", (-0.056, -0.078, 0.077)),
    "r_thigh1_study": ("femur_r", (0.090, -0.150, 0.070)),
    "r_thigh2_study": ("femur_r", (0.055, -0.250, 0.085)),
    "r_thigh3_study": ("femur_r", (-0.020, -0.140, 0.100)),
    "r_knee_study": ("femur_r", (0.008, -0.404, 0.055)),
    "r_mknee_study": ("femur_r", (0.011, -0.401, -0.055)),
    "r_sh1_study": ("tibia_r", (0.000, -0.115, 0.070)),
    "r_sh2_study": ("tibia_r", (0.026, -0.230, 0.080)),
    "r_sh3_study": ("tibia_r", (-0.050, -0.220, 0.080)),
    "r_ankle_study": ("tibia_r", (-0.020, -0.385, 0.053)),
    "r_mankle_study": ("tibia_r", (0.006, -0.380, -0.038)),
    "r_calc_study": ("calcn_r", (-0.032, 0.033, -0.011)),
    "r_toe_study": ("calcn_r", (0.187, 0.008, 0.005)),
    "r_5meta_study": ("calcn_r", (0.140, 0.005, 0.065)),
    "r_shoulder_study": ("torso", (0.000, 0.418, 0.142)),
    "C7_study": ("torso", (-0.080, 0.420, 0.003)),
    "r_lelbow_study": ("humerus_r", (0.015, -0.280, 0.040)),
    "r_melbow_study": ("humerus_r", (0.002, -0.286, -0.050)),
    "r_lwrist_study": ("radius_r", (0.001, -0.225, 0.050)),
    "r_mwrist_study": ("radius_r", (-0.022, -0.225, -0.022)),
}
#: Keypoints of HALPE_26 and BODY_25 on the right.
KEYPOINTS = {
    "Neck": ("torso", (-0.001, 0.447, 0.000)),
    "RShoulder": ("torso", (0.003, 0.372, 0.170)),
    "RElbow": ("humerus_r", (0.013, -0.286, -0.010)),
    "RWrist": ("radius_r", (-0.009, -0.236, 0.014)),
    "RHip": ("pelvis", (-0.056, -0.078, 0.077)),
    "RKnee": ("femur_r", (-0.005, -0.410, -0.002)),
    "RAnkle": ("tibia_r", (-0.010, -0.400, 0.000)),
    "RHeel": ("calcn_r", (0.000, 0.015, 0.000)),
    "RBigToe": ("toes_r", (0.065, 0.010, -0.015)),
    "RSmallToe": ("toes_r", (0.027, 0.010, 0.029)),
}
#: Centres of joints among them; how well their places on the model are known, and others [m].
JOINTS, JOINT, SKIN = (
    ("HJC_study", "Shoulder", "Elbow", "Wrist", "Hip", "Knee", "Ankle"),
    5e-3,
    0.02,
)
#: Cutoff of the low-pass: so many times the rate of steps, this at least [Hz]. Lower than for
#: markers on the skin, as errors of video drift.
HARMONICS, LEAST = 2.6, 4.0
#: Heel and toe of the right foot, augmented and not.
HEEL_AND_TOE = (("r_calc_study", "r_toe_study"), ("RHeel", "RBigToe"))
#: Both hips, augmented and not.
HIPS = (("RHJC_study", "LHJC_study"), ("RHip", "LHip"))
#: What is compared with OpenSim's torques: name here, name and sign there.
COMPARED = {"hip_flexion": 1.0, "knee_angle": -1.0, "ankle_angle": 1.0}


def left_of(name):
    """The name of a marker, or of a body, on the left."""
    if name.endswith("_r"):
        return f"{name[:-1]}l"
    return f"L{name[1:]}" if name[0] in "rR" else name


def both_sides(right):
    """Places on both sides; z is to the right."""
    left = {
        left_of(name): (left_of(body), (x, y, -z))
        for name, (body, (x, y, z)) in right.items()
        if left_of(name) != name
    }
    return {**right, **left}


# -- the way from a file to torques ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kinetics:
    """What is found: scaling, fit, smooth coordinates [rad, m], forces of the ground, and torques
    [N m] by coordinate."""

    scaling: ks.gait.Scaling
    fit: ks.gait.MarkerFit
    motion: ks.gait.Table
    forces: ks.gait.ContactForces
    torques: ks.gait.Table


def model(locked=LOCKED):
    """The model of OpenCap, arms included, 75 kg; some of its 33 coordinates are locked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # inertias of its toes
        return ks.osim.read(data("opensim_LaiUhlrich2022.osim.gz"), locked=locked)


def kinetics(markers, mass, contacts=None, cutoff=None):
    """From the markers of one person to torques; contacts, and the cutoff of the low-pass [Hz], by
    default as found."""
    helped = any(name.endswith("_study") for name in markers.names)
    tree = model(LOCKED if helped else LOCKED + UNSEEN)
    known = both_sides(AUGMENTED if helped else KEYPOINTS)
    right = HEEL_AND_TOE[0 if helped else 1]
    names = {"right": right, "left": tuple(map(left_of, right))}
    seats = {c.foot: HIPS[0 if helped else 1] for c in contacts or () if c.seat}
    markers = whole(markers, [name for pair in [*names.values(), *seats.values()] for name in pair])
    placed = {name: place for name, place in known.items() if name in markers.names}
    if cutoff is None:
        cutoff = max(LEAST, HARMONICS * ks.gait.step_rate(markers))
    low_pass = ks.gait.Butterworth(cutoff, order=4)
    sure = {name: JOINT if is_joint(name) else SKIN for name in placed}
    scaling = ks.gait.scale(tree, placed, [markers], FACTORS, place_std=sure, frames=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of muscles, which are no matter here
        person = scaling.applied(tree, mass)
    limits = {name: pair for name, pair in tree.ranges.items() if name.startswith("elbow")}
    fit = ks.gait.fit_markers(
        person, scaling.placed, markers, limits=limits, smooth=2.0 * low_pass.cutoff
    )
    rows = {name: low_pass(row, markers.rate) for name, row in fit.coordinates.items()}
    motion = replace(fit.table, columns=rows)
    feet, hips = places_of(markers, names), places_of(markers, seats)
    pressed = {name: 0.5 * (right + left) for name, (right, left) in hips.items()}
    return Kinetics(scaling, fit, motion, *loads(person, motion, feet, mass, contacts, pressed))


def is_joint(name):
    """Whether a marker is the centre of a joint."""
    return name[1:] in JOINTS


def whole(markers, names):
    """The record from the first to the last instant at which all of these are seen."""
    missing = [name for name in names if name not in markers.names]
    if missing:
        raise ValueError(
            f"there is no marker {missing[0]!r} among {', '.join(markers.names[:6])}, ...: heels "
            "and toes are needed, of an augmenter (r_calc_study, r_toe_study, ...) or keypoints "
            "(RHeel, RBigToe, ...); for markers on the skin fit a model, see ks.gait.fit_markers"
        )
    here = np.flatnonzero(np.all([np.isfinite(markers[name][0]) for name in names], axis=0))
    return markers.between(markers.time[here[0]], markers.time[here[-1]])


def places_of(markers, names):
    """Places of two markers by foot or seat, from their names."""
    if not names:
        return {}
    used = ks.gait.Markers(markers.time, {n: markers[n] for pair in names.values() for n in pair})
    whole = used.filled(longest=0.3)
    return {foot: tuple(whole[name] for name in pair) for foot, pair in names.items()}


def loads(person, motion, feet, mass, contacts=None, seats=None):
    """Forces of the ground and of seats under the pelvis, and torques, away from the ends of the
    record."""
    time, turn = motion.time[EDGE:-EDGE], ks.gait.rotation("y", "x")
    needed = ks.ground_reaction(person, motion, time, [*FEET.values()]).rotated(turn)
    floor = min(float(np.percentile(toe[2], 5.0)) for _, toe in feet.values()) - SOLE
    forces = ks.gait.contact_forces(
        needed, motion.time, feet, contacts=contacts, weight=mass * G, height=floor, seats=seats
    )
    under = {body: forces[foot].rotated(turn.T) for foot, body in FEET.items()}
    if forces.seats:
        under["pelvis"] = reduce(add, forces.seats.values()).rotated(turn.T)
    return forces, ks.inverse_dynamics(person, motion, under, time)


# -- a record of which the truth is known ---------------------------------------------------------

MASS = gait.MASS
#: Standard deviations along each axis [m]: constant, drifting within 0.15 s, of each frame.
ERRORS, DRIFT = (0.007, 0.006, 0.003), 0.15
THIGH = [f"R.Thigh.{where}" for where in ("Front", "Upper", "Rear")]
SHANK = [f"R.Shank.{where}" for where in ("Upper", "Front", "Rear")]
#: Where markers of the augmenter are among those of the recorded walk, on the right.
RECORDED = {
    "r.ASIS_study": "R.ASIS",
    "r_knee_study": Carried("R.Knee.Lat", THIGH),
    "r_mknee_study": Carried("R.Knee.Med", THIGH),
    "r_ankle_study": Carried("R.Ankle.Lat", SHANK),
    "r_mankle_study": Carried("R.Ankle.Med", SHANK),
    "r_calc_study": "R.Heel",
    "r_toe_study": "R.Toe.Med",
    "r_5meta_study": "R.Toe.Lat",
    "r_shoulder_study": "R.Acromium",
    "r_lelbow_study": "R.Elbow",
    "r_lwrist_study": "R.Wrist.Lat",
    "r_mwrist_study": "R.Wrist.Med",
}


def left_marker(place):
    """The same on the left."""
    if isinstance(place, str):
        return f"L{place[1:]}"
    return Carried(left_marker(place.what), [*map(left_marker, place.cluster)])


def recorded():
    """The measured markers, a standing trial, and centres of joints by the name of the point."""
    markers = ks.gait.read_csv(data("gait_subject01_markers.csv.gz"))
    standing = ks.gait.read_places(data("gait_subject01_static.csv"))
    trial = Trial(markers.positions, standing)
    return markers, trial, landmarks(gait.relations(), trial).points


def augmented():
    """Markers of the recorded walk under the names of the augmenter."""
    markers, trial, joints = recorded()
    places = RECORDED | {left_of(name): left_marker(at) for name, at in RECORDED.items()}
    found = dict(landmarks(Relations(places, {}), trial).points)
    aside = 0.2 * (found["L.ASIS_study"] - found["r.ASIS_study"])
    found |= {"RHJC_study": joints["RH"], "LHJC_study": joints["LH"]}
    found["r.PSIS_study"] = markers["V.Sacral"] - aside
    found["L.PSIS_study"] = markers["V.Sacral"] + aside
    return ks.gait.Markers(markers.time, found)


def keypoints():
    """Points of the recorded walk under the names of HALPE_26."""
    markers, _, joints = recorded()
    found = {}
    for side in "RL":
        for name, point in {"Hip": "H", "Knee": "K", "Ankle": "A", "Shoulder": "S"}.items():
            found[f"{side}{name}"] = joints[f"{side}{point}"]
        for name, marker in {"Heel": "Heel", "BigToe": "Toe.Med", "SmallToe": "Toe.Lat"}.items():
            found[f"{side}{name}"] = markers[f"{side}.{marker}"]
        found[f"{side}Elbow"] = markers[f"{side}.Elbow"]
        found[f"{side}Wrist"] = 0.5 * (markers[f"{side}.Wrist.Lat"] + markers[f"{side}.Wrist.Med"])
    return ks.gait.Markers(markers.time, found)


def spoiled(markers, seed=1):
    """With errors as of video, 17 mm (rms)."""
    rng, width = np.random.default_rng(seed), DRIFT * markers.rate
    constant, drifting, single = ERRORS
    found = {}
    for name, place in markers.positions.items():
        drift = gaussian_filter1d(rng.normal(size=place.shape), width, axis=1, mode="reflect")
        drift *= drifting * np.sqrt(2.0 * np.sqrt(np.pi) * width)
        bias = constant * rng.normal(size=(3, 1))
        found[name] = place + bias + drift + single * rng.normal(size=place.shape)
    return ks.gait.Markers(markers.time, found)


def judged(found):
    """Forces and torques against plates and OpenSim, as text."""
    plates = ks.gait.read_forces(data("gait_subject01_forces.csv.gz"))
    reference = ks.gait.read_table(data("gait_subject01_torques.csv"))
    time, weight = found.forces.time, MASS * G
    lines = [f"{'force minus plate, rms':26}{'x':>7}{'y':>7}{'z':>7}  [% of body weight]"]
    for foot in FEET:
        off = found.forces[foot].force - plates[foot].at(time).force
        lines.append(f"  {foot:24}" + "".join(f"{100 * rms(row) / weight:7.1f}" for row in off))
    lines.append(
        f"{'torque minus OpenSim, rms':26}{'rms':>7}{'r':>7}{'peak':>7}{'theirs':>7}  [N m]"
    )
    here = (time >= reference.time[0]) & (time <= reference.time[-1])
    for side in "rl":
        for name, sign in COMPARED.items():
            theirs = np.interp(
                time[here], reference.time, sign * reference[f"{name}_{side}_moment_Nm"]
            )
            ours = found.torques[f"{name}_{side}_moment"][here]
            peaks = [row[np.abs(theirs).argmax()] for row in (ours, theirs)]
            lines.append(
                f"  {name + '_' + side:24}{rms(ours - theirs):7.1f}"
                f"{np.corrcoef(ours, theirs)[0, 1]:7.3f}{peaks[0]:7.0f}{peaks[1]:7.0f}"
            )
    return "\n".join(lines)


def rms(row):
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(row))))


# -- results --------------------------------------------------------------------------------------


def table(found):
    """Largest forces and torques, as text."""
    lines = [str(found.forces), f"{'torque [N m]':18}{'least':>9}{'most':>9}"]
    for side in "rl":
        for name in (*COMPARED, "hip_adduction"):
            row = found.torques[f"{name}_{side}_moment"]
            lines.append(f"{name + '_' + side:18}{row.min():9.1f}{row.max():9.1f}")
    return "\n".join(lines)


def picture(found):
    """Angles and torques of hips, knees and ankles over time."""
    figure, axes = plt.subplots(2, 3, sharex=True, figsize=(12, 6), layout="constrained")
    time = found.torques.time
    for column, name in zip(axes.T, COMPARED, strict=True):
        for color, side in (("C1", "r"), ("C0", "l")):
            angle = np.degrees(found.motion[f"{name}_{side}"])
            column[0].plot(
                found.motion.time, angle, color, label="right" if side == "r" else "left"
            )
            column[1].plot(time, found.torques[f"{name}_{side}_moment"], color)
        column[0].set_title(name.replace("_", " "), fontsize="medium")
        for panel in column:
            panel.grid(alpha=0.3)
    axes[0, 0].set_ylabel("angle [deg]")
    axes[1, 0].set_ylabel("torque [N m]")
    axes[0, 0].legend(fontsize="small")
    figure.supxlabel("time [s]")
    return figure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `kinesym run video_to_torques`."""
    parser.add_argument("--trc", type=Path, help="markers of Pose2Sim or OpenCap")
    parser.add_argument("--mass", type=float, help="of the person [kg], with --trc")
    parser.add_argument(
        "--contacts",
        type=Path,
        help="a table of when which foot is down, how high, and of chairs: "
        "foot,begin,end [s],height [m],seat (yes or no)",
    )
    parser.add_argument("--cutoff", type=float, help="of the low-pass [Hz], such as 20 for jumps")


def main(
    out: Path,
    nodes: int | None = None,
    trc: Path | None = None,
    mass: float | None = None,
    contacts: Path | None = None,
    cutoff: float | None = None,
) -> list[Path]:
    """From a file, or from the walk with errors of video, to torques."""
    known = trc is None
    if trc is None:
        trc, mass = out / "video_made.trc", MASS
        spoiled(augmented()).to_trc(trc)
        print(f"no --trc is given: the recorded walk with errors of video is in {trc}")
    elif mass is None:
        raise ValueError("the mass of the person tells forces from motions; give --mass KG")
    down = None if contacts is None else ks.gait.read_contacts(contacts)
    markers = ks.gait.read_trc(trc)
    if nodes is not None:
        markers = markers.between(markers.time[0], markers.time[min(nodes, len(markers)) - 1])
    found = kinetics(markers, mass, down, cutoff)
    print(found.scaling, found.fit, table(found), sep="\n")
    plates = None
    if known:
        plates = ks.gait.read_forces(data("gait_subject01_forces.csv.gz"))
        print(judged(found))
    files = ("torques.sto", "contacts.csv", "forces.png", "torques.png")
    paths = [out / f"video_{name}" for name in files]
    found.torques.to_mot(paths[0])
    ks.gait.write_contacts(paths[1], found.forces.contacts)
    for path, figure in zip(paths[2:], (found.forces.plot(plates), picture(found)), strict=True):
        figure.savefig(path, dpi=120)
        plt.close(figure)
    return paths
