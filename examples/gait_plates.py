"""Walk over four force plates: assignment of plates to feet, and the effect of a missing one.

Markers of the lower body only: trunk, head and arms are taken to stay upright above the pelvis, so
the wrench that the motion needs is rough. In double support it is shared between the feet by
corrected force plates with both plates, with that of one foot alone, and without any
(Pamies-Vila, Font-Llagunes 2013). Data: see data/README.md.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.examples.studies.gait import data
from kinesym.gait import Axes, Like, Midpoint, Relations, Shifted

STATURE = 1.76  # m, from the height of the pelvis; not recorded
G = 9.81  # m/s^2
MARGIN = 0.02  # s, before and after the cycle
FEET = ("right", "left")
LEG = ("hip", "knee", "ankle")
#: Upper segments without markers.
UPRIGHT = ("torso", "neck", "head", "Rarm", "Rforearm", "Rhand", "Larm", "Lforearm", "Lhand")


def leg(side):
    """Positions and axes of a leg; `inner` is the side of the other one."""
    lateral, medial = f"{side}.Knee", f"{side}.Knee.Medial"
    outer, inner = f"{side}.Ankle", f"{side}.Ankle.Medial"
    toes = (f"{side}.MT5", f"{side}.MT1")
    knee, ankle = (lateral, medial), (outer, inner)
    if side == "L":  # y is to the left
        knee, ankle, toes = knee[::-1], ankle[::-1], toes[::-1]
    positions = {
        f"{side}K": Midpoint(knee),
        f"{side}A": Midpoint(ankle),
        f"{side}M": Midpoint(toes),
    }
    axes = {
        f"{side}thigh": Axes("z", z=(f"{side}K", f"{side}H"), y=knee),
        f"{side}shank": Axes("z", z=(f"{side}A", f"{side}K"), y=ankle),
        f"{side}hindfoot": Axes("x", x=(f"{side}.Heel", f"{side}.MT2"), y=toes),
        f"{side}forefoot": Like(f"{side}hindfoot"),
    }
    return positions, axes


def relations():
    """Points and axes; what has no markers stays upright and turns with the pelvis."""
    front, back = Midpoint(["R.ASIS", "L.ASIS"]), Midpoint(["R.PSIS", "L.PSIS"])
    width = ("R.ASIS", "L.ASIS")
    positions = {
        f"{side}H": Shifted(front, (-0.27, 0.36 * left, -0.34), Like("pelvis"), width)
        for side, left in (("R", -1.0), ("L", 1.0))
    }
    positions["J1"] = Shifted(Midpoint(["RH", "LH"]), (0.0, 0.0, 0.149 * STATURE), Like("pelvis"))
    axes = {"pelvis": Axes("y", y=width, x=(back, front))}
    axes |= dict.fromkeys(UPRIGHT, Axes("z", z="up", y=width))
    for part in (leg("R"), leg("L")):
        positions, axes = positions | part[0], axes | part[1]
    return Relations(positions, axes)


def record():
    """Markers, with sides as they are on the body, and the plates by name."""
    markers = ks.gait.read_csv(data("gait_bmc_walk1_markers.csv.gz")).exchanged("R.", "L.")
    return markers, ks.gait.read_forces(data("gait_bmc_walk1_forces.csv.gz"))


def feet_of(markers):
    """Positions of heel and toes by foot."""
    return {
        foot: (markers[f"{foot[0].upper()}.Heel"], markers[f"{foot[0].upper()}.MT2"])
        for foot in FEET
    }


def sharings(total, contacts, plates):
    """The same total wrench shared with two plates, one, and none."""
    one = {"right": plates["right"]}
    return {
        "two plates": ks.gait.share(total, contacts, plates),
        "right plate only": ks.gait.share(total, contacts, one),
        "no plate": ks.gait.share(total, contacts, method=ks.gait.SmoothTransition()),
    }


def table(loads):
    """Differences of sagittal torques from those with two plates, as text."""
    first = loads["two plates"]
    head = f"{'torques against two plates, rms':34}"
    lines = [head + "".join(f"{j:>9}" for j in LEG) + "  [N m]"]
    for name, one in loads.items():
        if one is first:
            continue
        for foot in FEET:
            off = [one.flexion(f"{foot}_{j}") - first.flexion(f"{foot}_{j}") for j in LEG]
            rms = [np.sqrt(np.mean(row**2)) for row in off]
            lines.append(f"  {name:24}{foot:8}" + "".join(f"{value:9.1f}" for value in rms))
    return "\n".join(lines)


def picture(shared, cycle):
    """Vertical and forward force of each foot by all three ways, and what the plates show."""
    figure, axes = plt.subplots(
        2, 2, sharex=True, sharey="row", figsize=(11, 6.4), layout="constrained"
    )
    for column, foot in zip(axes.T, FEET, strict=True):
        for panel, row, label in zip(column, (2, 0), ("upwards", "forwards"), strict=True):
            for color, (name, one) in zip("C0 C1 C2".split(), shared.items(), strict=True):
                wrench = one[foot]
                panel.plot(cycle.percent(wrench.time), wrench.force[row], color, lw=1.3, label=name)
            plate = shared["two plates"].plates[foot]
            panel.plot(cycle.percent(plate.time), plate.force[row], "k:", lw=1.2, label="measured")
            for phase in cycle.double_supports:
                panel.axvspan(*cycle.percent([phase.begin, phase.end]), color="0.88", lw=0)
            panel.set_ylabel(f"force {label} [N]")
            panel.grid(alpha=0.3)
        column[0].set_title(foot, fontsize="medium")
        column[-1].set_xlabel("gait cycle [%]")
    axes[0, 0].set_xlim(0.0, float(cycle.percent(cycle.end)))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Assign, weigh, share, compare."""
    markers, plates = record()
    under, steps = ks.gait.assign_plates(plates, markers.time, feet_of(markers))
    for step in steps:
        print(
            f"{step.plate}: {step.foot:5} {step.begin:.3f} ... {step.end:.3f} s, "
            f"{1e3 * step.distance:.0f} mm beside the line from heel to toes"
        )
    contacts = [c for foot in FEET for c in ks.gait.contacts_from_wrench(foot, under[foot])]
    cycle = ks.gait.gait_cycle(contacts, "left")  # before it the left foot stands beside the plates
    fine = under["right"].time
    whole = (fine >= cycle.begin) & (fine <= cycle.stride)
    mass = float(sum(under[foot].force[2, whole] for foot in FEET).mean() / G)
    print(f"body mass from the plates over one cycle: {mass:.1f} kg")
    found = ks.gait.reconstruct(ks.gait.segments_of_body(mass, STATURE), relations(), markers)
    print(found.report())
    body = ks.gait.Body(found.segments)
    around = (markers.time >= cycle.begin - MARGIN) & (markers.time <= cycle.end + MARGIN)
    time = markers.time[around]
    needed = body.inverse(found.kinematics.sample(time))
    shared = sharings(needed.total, contacts, under)
    print(shared["two plates"].report())
    loads = {name: needed.joints(one.wrenches) for name, one in shared.items()}
    print(table(loads))
    path = out / "gait_plates.png"
    figure = picture(shared, cycle)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return [path]
