"""Beyond inverse dynamics: joint torques of measured walking by dynamically consistent tracking."""

import csv
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.gait import Body
from kinesym.models.planar_body import PlanarSegment, planar_body
from kinesym.models.whole_body import Segment, segments_of_body, segments_with
from kinesym.multibody import Load
from kinesym.runtime.gait.consistency import fit, landmark_targets, measured_segments, start_of
from kinesym.runtime.gait.course import Spline
from kinesym.runtime.gait.events import contacts_from_wrench
from kinesym.runtime.gait.natural import NaturalBody
from kinesym.runtime.gait.readers import read_csv, read_forces, read_places, read_table
from kinesym.runtime.gait.relations import (
    Axes,
    Carried,
    Like,
    Midpoint,
    Relations,
    Shifted,
    Trial,
    landmarks,
)
from kinesym.runtime.gait.sharing import share
from kinesym.runtime.gait.ssa import SSA

DATA = Path(__file__).parent / "data"
MASS, STATURE = 72.6, 1.8034  # of the subject [kg, m]
FEET = ("right", "left")
JOINTS = {"hip": "hip_flexion", "knee": "knee_angle", "ankle": "ankle_angle"}

# -- the subject and the trial --------------------------------------------------------------------


def leg(side):
    """Relations of one leg, "R" or "L": places and axes."""
    thigh, shank = ([f"{side}.{part}.{k}" for k in ("Upper", "Front", "Rear")]
                    for part in ("Thigh", "Shank"))  # fmt: skip
    foot = [f"{side}.Heel", f"{side}.Midfoot.Sup", f"{side}.Midfoot.Lat"]
    toes = [f"{side}.Toe.{k}" for k in ("Lat", "Med", "Tip")]
    knee, ankle = ((f"{side}.{joint}.Lat", f"{side}.{joint}.Med") for joint in ("Knee", "Ankle"))
    if side == "L":
        knee, ankle = knee[::-1], ankle[::-1]
    ball = Midpoint(toes[:2])
    level = Axes("z", z="up", x=(f"{side}.Heel", ball))
    outwards = [tuple(Carried(end, cluster) for end in ends)
                for ends, cluster in ((knee, thigh), (ankle, shank))]  # fmt: skip
    centre = {f"{side}K": Midpoint([Carried(Midpoint(knee), thigh), Carried(Midpoint(knee), shank)]),
              f"{side}A": Midpoint([Carried(Midpoint(ankle), shank), Carried(Midpoint(ankle), foot)]),
              f"{side}M": ball}  # fmt: skip
    return centre, {
        f"{side}thigh": Axes("z", z=(f"{side}K", f"{side}H"), y=outwards[0]),
        f"{side}shank": Axes("z", z=(f"{side}A", f"{side}K"), y=outwards[1]),
        f"{side}hindfoot": Carried(level, foot),
        f"{side}forefoot": Carried(level, toes),
    }


def relations():
    """Places of joints and axes of the 18 segments, from markers of walking and standing."""
    both, acromia = ["R.ASIS", "L.ASIS"], ("R.Acromium", "L.Acromium")
    shoulders, temples = Midpoint(acromia), ("R.Temple", "L.Temple")
    places, axes = {}, {"pelvis": Axes("y", y=tuple(both), x=("V.Sacral", Midpoint(both)))}
    for side, sign in (("R", -1), ("L", 1)):
        inwards = (-0.0873, 0.0937 * sign, -0.0895)
        places[f"{side}H"] = Shifted(Midpoint(both), inwards, Like("pelvis"))
    waist = (-0.0055 * STATURE, 0.0, 0.1493 * STATURE)
    places["J1"] = Shifted(Midpoint(["RH", "LH"]), waist, Like("pelvis"))
    axes["torso"] = Axes("z", z=("J1", shoulders), y=acromia)
    places["NK"] = Shifted(shoulders, (0.0, 0.0, 0.01), Like("torso"))
    axes["head"] = Carried(Axes("z", z="up", y=temples), (*temples, "Top.Head"))
    places["HJ"] = Shifted(Midpoint(temples), (-0.06, 0.0, -0.02), Like("head"))
    axes["neck"] = Axes("z", z=("NK", "HJ"), y=acromia)
    for side, sign in (("R", 1), ("L", -1)):
        wrist = (f"{side}.Wrist.Lat", f"{side}.Wrist.Med")[::sign]
        places[f"{side}S"] = Shifted(f"{side}.Acromium", (0, 0, -0.1), Like("torso"), acromia)
        places[f"{side}E"] = Shifted(f"{side}.Elbow", (0, 0.04 * sign, 0), Like("torso"))
        places[f"{side}W"] = Midpoint(wrist)
        axes[f"{side}arm"] = Axes("z", z=(f"{side}E", f"{side}S"), y=acromia)
        axes[f"{side}forearm"] = Axes("z", z=(f"{side}W", f"{side}E"), y=wrist)
        axes[f"{side}hand"] = Like(f"{side}forearm")
        found = leg(side)
        places |= found[0]
        axes |= found[1]
    return Relations(places, axes)


#: Mass [kg], centre of mass [m], inertia [kg m^2] of the legs of the OpenSim model of the subject.
LEGS = {
    "thigh": (8.98403823, (0, 0, -0.1950308), (0.17022071, 0.17950086, 0.04462096)),
    "shank": (3.5810009, (0, 0, -0.18455724), (0.04756937, 0.04823005, 0.00481357)),
    "hindfoot": (1.3039, (0.04, 0, -0.045), (0.0026, 0.0054, 0.0052)),
    "forefoot": (0.2092, (0.0355, 0, 0.006), (0.0001, 0.0003, 0.0002)),
}


def weighed(segments):
    """The segments with the legs of that model; the others share the rest of the mass."""
    legs = {f"{side}{part}": row for part, row in LEGS.items() for side in "RL"}
    others = [row for row in segments if row.name not in legs]
    rest = MASS - sum(row[0] for row in legs.values())
    masses = {row.name: row.mass * rest / sum(o.mass for o in others) for row in others}
    coms, inertias = ({name: row[k] for name, row in legs.items()} for k in (1, 2))
    return segments_with(segments, masses | {n: row[0] for n, row in legs.items()}, coms, inertias)


@dataclass(frozen=True)
class Walk:
    """The trial: raw markers, landmarks of these, plates by foot, measured segments, and inverse
    dynamics of the smoothed motion at 60 Hz."""

    markers: object
    found: object
    plates: dict
    segments: tuple
    inverse: object

    @cached_property
    def contacts(self):
        """Of both feet, from the plates."""
        return [c for foot in FEET for c in contacts_from_wrench(foot, self.plates[foot])]


def walk():
    """Everything that is measured, and what inverse dynamics makes of it."""
    markers = read_csv(DATA / "gait_subject01_markers.csv.gz")
    static = read_places(DATA / "gait_subject01_static.csv")
    plates = read_forces(DATA / "gait_subject01_forces.csv.gz")
    smooth = markers.smoothed(SSA(noise=1e-3))
    found = landmarks(relations(), Trial(smooth.places, static))
    segments = weighed(measured_segments(segments_of_body(MASS, STATURE), found))
    fitted = fit(NaturalBody(segments), landmark_targets(segments, found),
                 start_of(segments, found))  # fmt: skip
    z = SSA(noise=5e-4)(fitted.z, markers.rate)
    at = markers.time[6:-6]
    inverse = Body(segments).inverse(Spline.through(markers.time, z).sample(at))
    raw = landmarks(relations(), Trial(markers.places, static))
    return Walk(markers, raw, {foot: plates[foot] for foot in FEET}, segments, inverse)


def joint_torques(trial, wrenches):
    """Flexion torques of the joints by inverse dynamics, {"right_hip": (N,)} [N m]."""
    loads = {}
    for foot in FEET:
        side = foot[0].upper()
        loads |= trial.inverse.under_foot(f"{side}hindfoot", f"{side}forefoot", wrenches[foot])
    joints = trial.inverse.joints(loads)
    names = [f"{foot}_{joint}" for foot in FEET for joint in JOINTS]
    return {name: joints.flexion(name) for name in names}, joints

# -- what both models share -----------------------------------------------------------------------

HAT = ("torso", "pelvis", "neck", "head", "Rarm", "Rforearm", "Rhand", "Larm", "Lforearm", "Lhand")


def local(trial, segment, place):
    """Where a point (3, N) is in the axes of a segment from its joint, mean over the trial [m]."""
    inverse = trial.inverse
    k = inverse.skeleton.number(segment)
    here = np.isin(trial.markers.time, inverse.time)
    arm = place[:, here] - inverse.place[k]
    return tuple(np.einsum("jin,jn->i", inverse.attitude[k], arm) / arm.shape[1])


def lump(trial, name, members, proximal, points):
    """Segments that move as one, as they lie on average in the axes of the first one."""
    inverse = trial.inverse
    rows = {row.name: row for row in trial.segments}
    first, mass = members[0], sum(rows[m].mass for m in members)
    A = inverse.attitude[inverse.skeleton.number(first)]
    centres, inertias = [], []
    for member in members:
        k = inverse.skeleton.number(member)
        turn = np.einsum("jin,jkn->ikn", A, inverse.attitude[k])
        at = np.einsum("jin,jn->in", A, inverse.place[k] - inverse.place[inverse.skeleton.number(first)])
        centres.append((at + np.einsum("ikn,k->in", turn, rows[member].com)).mean(axis=1))
        inertias.append(np.einsum("ikn,k,ikn->i", turn, rows[member].inertia, turn) / A.shape[2])
    weights = np.array([rows[m].mass for m in members])
    com = weights @ np.array(centres) / mass
    off = np.array(centres) - com
    moments = np.sum(inertias, axis=0) + weights @ (np.sum(off**2, axis=1)[:, None] - off**2)
    return Segment(name, proximal, mass, tuple(com), tuple(moments), points)


def tracked(trial):
    """The points that are tracked: name -> (segment, place in its axes, measured (3, N)) [m]."""
    m, found = trial.markers, trial.found.places
    rows = {"shoulder": ("torso", 0.5 * (m["R.Acromium"] + m["L.Acromium"]))}
    for side in "RL":
        rows |= {f"{side}K": (f"{side}thigh", found[f"{side}K"]),
                 f"{side}A": (f"{side}shank", found[f"{side}A"]),
                 f"{side}heel": (f"{side}hindfoot", m[f"{side}.Heel"]),
                 f"{side}M": (f"{side}hindfoot", found[f"{side}M"])}  # fmt: skip
    return {name: (segment, local(trial, segment, place), place)
            for name, (segment, place) in rows.items()}  # fmt: skip


def seven(trial):
    """Head, arms and trunk in one, two thighs, shanks and feet, in space."""
    hips = {f"{s}H": local(trial, "torso", trial.found.places[f"{s}H"]) for s in "RL"}
    rows = {row.name: row for row in trial.segments}
    made = [lump(trial, "HAT", HAT, "J1", hips)]
    for s in "RL":
        made += [replace(rows[f"{s}thigh"]), replace(rows[f"{s}shank"]),
                 lump(trial, f"{s}foot", (f"{s}hindfoot", f"{s}forefoot"), f"{s}A", {})]
    return tuple(made)


def planar_rows(segments):
    """Seven segments in space as those of the sagittal plane; the hips fall together."""
    hip = np.mean([segments[0].points[f"{s}H"] for s in "RL"], axis=0)
    flat = lambda place: (float(place[0]), float(place[2]))  # noqa: E731
    rows = []
    for row in segments:
        com = np.array(row.com) - (hip if row.name == "HAT" else 0.0)
        proximal = {"J1": "hip", "RH": "hip", "LH": "hip"}.get(row.proximal, row.proximal)
        points = {} if row.name == "HAT" else {n: flat(p) for n, p in row.points.items()}
        rows.append(PlanarSegment(row.name, proximal, row.mass, flat(com), row.inertia[1], points))
    return tuple(rows), hip
