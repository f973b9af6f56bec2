"""Quiet standing on a force plate: stiffness, damping and disturbance from a real record.

The controlled inverted pendulum of Barauskas and Krusinskiene 2005 explains a
measured centre of pressure of 60 s. The noise x that drives the disturbance torque is not known, so
it is an unknown trajectory with a prior: white, of unit variance per 0.1 s. Together this is a
maximum a posteriori estimate,

    min  sum ((u_COP - y)/sigma)^2 + integral x^2 dt / (0.1 s).

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
SIGMA = 5e-4  # m: what the model need not explain of the centre of pressure


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


def problem(time, pressure, values, sigma=SIGMA, gain=1000.0):
    """Unknown: KP > m g h, KD > 0, and the noise x, constant between samples."""
    model = ks.models.cip()
    x = model.inputs[0]
    tipping = values["m"] * values["g"] * values["h"]
    trial = ks.Experiment(time, measurements={"u_COP": pressure}, std={"u_COP": sigma})
    return ks.Collocation(
        model,
        trial,
        unknown={"KP": (1.001 * tipping, 10.0 * tipping), "KD": (0.0, 5000.0)},
        known={**values, "A": gain},
        unknown_inputs={x: ks.held()},
        objective=ks.LeastSquares() + ks.Integral(x**2 / NOISE_STEP),
    )


def first_guess(task, time, pressure, values, gain=1000.0):
    """The trajectories for fixed gains, stiffness half above the tipping limit.

    That problem is convex; from the record alone the full one may end in poorer local minima.
    """
    gains = {"KP": 1.5 * values["m"] * values["g"] * values["h"], "KD": 100.0}
    fixed = ks.Collocation(
        task.model,
        task.trials,
        known={**values, **gains, "A": gain},
        unknown_inputs={"x": None},
        objective=task.symbolic.objective,
    )
    return fixed.solve({"u": pressure / values["h"]})


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
    """How the estimates move when the two assumed strengths are halved and doubled, as text."""
    rows = ["  A [N m]  sigma [mm]  KP [N m/rad]  KD [N m s/rad]"]
    for gain, sigma in ((500, SIGMA), (2000, SIGMA), (1000, SIGMA / 2), (1000, 2 * SIGMA)):
        other = problem(time, pressure, values, sigma, gain).solve(guess=solution)
        p = other.parameters
        rows.append(
            f"  {gain:7.0f}  {1e3 * sigma:10.2f}  {p['KP']:12.1f}  {p['KD']:14.3f}"
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
    solution = task.solve(guess=first_guess(task, time, pressure, values))
    print(solution)
    errors = np.sqrt(np.diag(task.covariance(solution)))
    tipping = values["m"] * values["g"] * values["h"]
    print(f"\n  m g h = {tipping:.1f} N m/rad")
    for (name, value), error in zip(solution.parameters.items(), errors, strict=True):
        print(f"  {name} = {value:.2f} +- {error:.2f} (standard error from the curvature)")
    print("\nother assumptions on the strength A of the noise and on sigma:")
    print(sensitivity(time, pressure, values, solution))
    print(
        "\nOnly A/sigma matters. With the disturbance free, stiffness is identified through the"
        "\nprior alone, and damping is not: weak damping needs less noise, whoever stands. See"
        "\nquiet_standing_subjects for more records, and for the marginal likelihood."
    )
    path = out / "quiet_standing.png"
    fig = figure(solution)
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
