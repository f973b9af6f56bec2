"""Quiet standing on a force plate: stiffness, damping and disturbance from a real record.

The controlled inverted pendulum of Barauskas and Krusinskiene 2005 explains a measured centre of
pressure of 60 s. What drives the disturbance torque is not known: white process noise, of unit
variance per 0.1 s. Stiffness KP, damping KD and the strength A of the disturbance are those with
which the record is most likely, all noises counted in (marginal likelihood).

Record: Santos and Duarte 2016, PeerJ 4:e2648 (CC BY 4.0); see data/README.md.
"""

import csv
import gzip
from importlib import resources
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import decimate

import kinesym as ks

GRAVITY = 9.81
NOISE_STEP = 0.1  # s: x has unit variance per such step
#: m: what the model need not explain of the centre of pressure. Left open it would go to zero: the
#: disturbance can explain all of it.
SIGMA = 5e-4


def load(trial="BDS00001"):
    """Time [s], anterior-posterior centre of pressure without its mean [m], mass, stature."""
    data = resources.files("kinesym.examples") / "data"
    with (data / "subjects.csv").open() as file:
        subject = next(row for row in csv.DictReader(file) if row["trial"] == trial)
    with (data / f"{trial}.csv.gz").open("rb") as raw, gzip.open(raw, "rt") as file:
        record = np.genfromtxt(file, delimiter=",", names=True)
    pressure = record["cop_ap_m"] - record["cop_ap_m"].mean()
    return record["time_s"], pressure, float(subject["mass_kg"]), float(subject["height_m"])


def body(mass, stature):
    """Mass, height of the centre of mass above the ankles, moment of inertia about the ankles."""
    h = 0.52 * stature
    return {"m": mass, "h": h, "I": 1.2 * mass * h**2, "g": GRAVITY}


def problem(time, pressure, values, sigma=SIGMA, more=None):
    """Unknown: KP > m g h, KD > 0, the strength A of the disturbance, and the noise x; more : other
    gains."""
    model = ks.models.cip()
    tipping = values["m"] * values["g"] * values["h"]
    trial = ks.Experiment(time, measurements={"u_COP": pressure}, std={"u_COP": sigma})
    return ks.Collocation(
        model,
        trial,
        unknown={
            "KP": (1.001 * tipping, 10.0 * tipping),
            "KD": (0.0, 5000.0),
            "A": ks.log_scale(1.0, 1e5),
            **(more or {}),
        },
        known=values,
        noise={"x": np.sqrt(NOISE_STEP)},
        scheme="midpoint",
    )


def first_guess(pressure, values):
    """Stiffness half above the tipping limit, and a body that follows the centre of pressure."""
    tipping = values["m"] * values["g"] * values["h"]
    return {"KP": 1.5 * tipping, "KD": 100.0, "A": 300.0, "u": pressure / values["h"]}


def figure(solution):
    """Measured and modelled centre of pressure, and the disturbance torque."""
    fig, axes = plt.subplots(3, 1, figsize=(9, 7), sharex=True, layout="constrained")
    measured = solution.trials[0].measurements["u_COP"]
    axes[0].plot(solution.time, 1e3 * measured, color="0.7", lw=2.5, label="measured")
    axes[0].plot(solution.time, 1e3 * solution["u_COP"], "C0", lw=0.8, label="model")
    axes[0].set_ylabel("u_COP [mm]")
    axes[0].legend(loc="upper right", ncols=2)
    axes[1].plot(solution.time, np.degrees(solution["u"]), "C0", lw=1)
    axes[1].set_ylabel("sway angle u [deg]")
    axes[2].plot(solution.time, solution["Td"], "C1", lw=1)
    axes[2].set_ylabel("disturbance Td [N m]")
    axes[2].set_xlabel("time [s]")
    fig.suptitle(f"Quiet standing: {solution.vaf()['u_COP']:.2f} % of the variance accounted for")
    return fig


def sensitivity(time, pressure, values, solution):
    """How the estimates move when the assumed residual is halved and doubled, as text."""
    rows = ["  sigma [mm]  KP [N m/rad]  KD [N m s/rad]  A [N m]"]
    for sigma in (SIGMA / 2, 2 * SIGMA):
        other = problem(time, pressure, values, sigma).solve(guess=solution)
        p = other.parameters
        rows.append(
            f"  {1e3 * sigma:10.2f}  {p['KP']:12.1f}  {p['KD']:14.2f}  {p['A']:7.1f}"
            + ("" if other.success else f"  ({other.message})")
        )
    return "\n".join(rows)


def decimated(signal, factor):
    """Every `factor`-th sample after a low-pass filter, ends continued by reflection."""
    pad = 10 * factor
    return decimate(np.pad(signal, pad, mode="reflect", reflect_type="odd"), factor, ftype="fir")[
        10:-10
    ]


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Fit the record, print estimates with standard errors and their sensitivity, save a figure."""
    time, pressure, mass, stature = load()
    factor = 1 if nodes is None else max(1, len(time) // nodes)
    if factor > 1:
        time, pressure = time[::factor], decimated(pressure, factor)
    values = body(mass, stature)
    task = problem(time, pressure, values)
    solution = task.solve(guess=first_guess(pressure, values))
    print(solution)
    tipping = values["m"] * values["g"] * values["h"]
    print(f"\n  m g h = {tipping:.1f} N m/rad, {solution.parameters}")
    print("\nwith another assumption on what the model need not explain:")
    print(sensitivity(time, pressure, values, solution))
    print(
        "\nThe noise is integrated out, not estimated together with the gains: the most probable"
        "\nnoise goes with no damping at all, whoever stands. See quiet_standing_subjects."
    )
    path = out / "quiet_standing.png"
    fig = figure(solution)
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
