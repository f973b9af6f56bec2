"""Records in a folder of the user's: FOLDER/NAME/{markers.trc, forces.mot, subject.json}.

subject.json: `mass` [kg] and, if wanted, `words` on the record, `span` of instants [s] at which all
feet that touch the ground are on plates, `feet`, the names of the markers of heel and toe by foot,
and `markers`, the body of the model and the place on it [m], how well that is known [m] in third
place, of those that `MARKERS` does not have. forces.mot: of `right` and `left` foot.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

import kinesym as ks
from kinesym.examples.studies import video_to_torques
from kinesym.gait import Markers
from kinesym.gait.cutoffs import low_pass_of
from kinesym.gait.reconstruction import Smoother
from walks.judged import G, Motion, Mover, Record

#: Body and place on it, how well that is known [m].
Place = tuple[str, tuple[float, float, float], float]
#: What is known of places on bone, and of those on soft tissue.
BONE, FLESH = 0.02, 0.08
#: Markers of the right and of the middle: Hamner and Delp (2013), the laboratory of OpenCap (2023).
HAMNER: dict[str, Place] = {
    "RASI": ("pelvis", (0.020, 0.030, 0.128), BONE),
    "RPSI": ("pelvis", (-0.160, 0.040, 0.050), BONE),
    "RTH1": ("femur_r", (0.0, -0.09, 0.10), FLESH),
    "RTH2": ("femur_r", (0.07, -0.20, 0.06), FLESH),
    "RTH3": ("femur_r", (0.05, -0.33, 0.07), FLESH),
    "RTB1": ("tibia_r", (0.05, -0.16, 0.0), FLESH),
    "RTB2": ("tibia_r", (0.0, -0.20, 0.06), FLESH),
    "RTB3": ("tibia_r", (0.02, -0.29, -0.01), FLESH),
    "RCAL": ("calcn_r", (-0.02, 0.06, -0.005), BONE),
    "RTOE": ("calcn_r", (0.19, 0.03, -0.01), BONE),
    "RMT5": ("calcn_r", (0.14, 0.02, 0.06), BONE),
    "RACR": ("torso", (-0.01, 0.42, 0.17), BONE),
    "CLAV": ("torso", (0.05, 0.39, 0.0), BONE),
    "C7": ("torso", (-0.08, 0.43, 0.0), BONE),
    "RLEL": ("humerus_r", (0.010, -0.285, 0.045), BONE),
    "RMEL": ("humerus_r", (0.0, -0.285, -0.050), BONE),
    "RFAradius": ("radius_r", (0.0, -0.22, 0.05), BONE),
}
OPENCAP: dict[str, Place] = {
    "r.ASIS": ("pelvis", (0.028, 0.010, 0.128), BONE),
    "r.PSIS": ("pelvis", (-0.154, 0.025, 0.050), BONE),
    "r_thigh1": ("femur_r", (0.090, -0.150, 0.070), FLESH),
    "r_thigh2": ("femur_r", (0.055, -0.250, 0.085), FLESH),
    "r_thigh3": ("femur_r", (-0.020, -0.140, 0.100), FLESH),
    "r_thigh4": ("femur_r", (0.030, -0.200, 0.090), FLESH),
    "r_knee": ("femur_r", (0.008, -0.404, 0.055), BONE),
    "r_shank_antsup": ("tibia_r", (0.040, -0.150, 0.0), FLESH),
    "r_ankle": ("tibia_r", (-0.020, -0.385, 0.053), BONE),
    "r_calc": ("calcn_r", (-0.032, 0.033, -0.011), BONE),
    "r_toe": ("calcn_r", (0.187, 0.008, 0.005), BONE),
    "r_5meta": ("calcn_r", (0.140, 0.005, 0.065), BONE),
    "C7": ("torso", (-0.080, 0.430, 0.0), BONE),
    "R_Shoulder": ("torso", (0.0, 0.418, 0.160), BONE),
    "R_Sternum": ("torso", (0.070, 0.300, 0.0), BONE),
    "R_elbow_lat": ("humerus_r", (0.015, -0.280, 0.040), BONE),
    "R_elbow_med": ("humerus_r", (0.002, -0.286, -0.050), BONE),
    "R_wrist_radius": ("radius_r", (-0.022, -0.225, -0.022), BONE),
}
#: Those of heel and toe.
HEEL_AND_TOE = (("RCAL", "RTOE"), ("r_calc", "r_toe"))
FEET = {"right": "calcn_r", "left": "calcn_l"}


def both_sides(right: Mapping[str, Place]) -> dict[str, Place]:
    """Mirrored; z is to the right."""
    places = video_to_torques.both_sides({name: row[:2] for name, row in right.items()})
    known = dict(right) | {video_to_torques.left_of(name): row for name, row in right.items()}
    return {name: (body, at, known[name][2]) for name, (body, at) in places.items()}


#: All of them, on both sides.
MARKERS = both_sides(HAMNER) | both_sides(OPENCAP)


def names_in(folder: Path) -> list[str]:
    """Records of a folder."""
    found = sorted(path.parent.name for path in folder.glob("*/subject.json"))
    if not found:
        raise ValueError(
            f"{folder} has no record NAME/subject.json with markers.trc and forces.mot"
        )
    return found


def by_tree(markers: Markers, known: Mapping[str, Place], mass: float) -> Mover:
    """As a model of the whole body follows the markers: LaiUhlrich2022, scaled to them once."""
    placed = {name: place[:2] for name, place in known.items() if name in markers}
    sure = {name: known[name][2] for name in placed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of muscles that are left out, and markers farther off
        tree = video_to_torques.model()
        scaling = ks.gait.scale(
            tree, placed, [markers], video_to_torques.FACTORS, place_std=sure, frames=30
        )
        person = scaling.applied(tree, mass)

    def move(markers: Markers, smooth: Smoother | None, again: Smoother | None) -> Motion:
        smoothed = markers.smoothed(low_pass_of(markers) if smooth is None else smooth)
        motion = ks.gait.fit_markers(person, scaling.placed, smoothed).table
        if again is not None:
            rows = {name: np.asarray(again(row, markers.rate)) for name, row in motion.items()}
            motion = replace(motion, columns=rows)
        turn = ks.gait.rotation("y", "x")
        feet = [*FEET.values()]
        return Motion(smoothed, lambda t: ks.ground_reaction(person, motion, t, feet).rotated(turn))

    return move


def read_record(folder: Path) -> Record:
    """That of a folder. Its mass is such that the mean force upwards is that of the plates, as a
    scale would say: smoothing is judged, not what people say that they weigh."""
    facts = json.loads((folder / "subject.json").read_text(encoding="utf-8"))
    markers = ks.gait.read_trc(folder / "markers.trc")
    plates = ks.gait.read_forces(folder / "forces.mot", like=markers)
    own = {
        name: (body, tuple(at), std) for name, (body, at, std) in facts.get("markers", {}).items()
    }
    feet = facts.get("feet") or feet_of(markers, folder)
    t = [max(w.time[0] for w in plates.values()), min(w.time[-1] for w in plates.values())]
    span = facts.get("span", t)
    found = Record(
        f"{facts.get('words', folder.name)}, {markers.rate:.0f} Hz",
        markers,
        by_tree(markers, MARKERS | own, facts["mass"]),
        facts["mass"] * G,
        (max(span[0], t[0]), min(span[1], t[1])),
        feet,
        plates,
    )
    return weighed(found)


def feet_of(markers: Markers, folder: Path) -> dict[str, tuple[str, str]]:
    """Markers of heel and toe by foot."""
    for heel, toe in HEEL_AND_TOE:
        if heel in markers and toe in markers:
            left = video_to_torques.left_of
            return {"right": (heel, toe), "left": (left(heel), left(toe))}
    raise ValueError(
        f'{folder / "subject.json"} lacks "feet", which markers are heel and toe: neither '
        f"{' nor '.join(heel for heel, _ in HEEL_AND_TOE)} is in markers.trc"
    )


def weighed(found: Record) -> Record:
    """With the weight of the plates."""
    t = found.time()
    share = float(found.force(t)[2].mean() / found.motion().needed(t).force[2].mean())

    def move(markers: Markers, smooth: Smoother | None, again: Smoother | None) -> Motion:
        motion = found.move(markers, smooth, again)
        return Motion(motion.smoothed, lambda t: motion.needed(t).scaled(np.full(len(t), share)))

    return replace(found, move=move, weight=share * found.weight)
