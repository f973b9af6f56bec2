"""Quiet standing: five parameters by sensitivities of a simulation, and those not identifiable.

The study of Barauskas and Krusinskiene 2005, Mathematical Modelling and Analysis (MMA2005&CMAM2),
143-150: a controlled inverted pendulum, driven by filtered noise that is taken as known, is fitted
to a centre of pressure of 60 s at 10 Hz by steepest descent with gradients from an adjoint. Their
record is not published; the reference here is simulated in the same setting, so the truth is
known. Three experiments: gains KP, KI, KD of the corrective torque; gain A and time constant B of
the disturbance; all five. Figures 1 to 5 are those of the paper; figure 6 shows why steepest
descent needs scaled parameters, and that two sets of parameters give the same centre of pressure.

The stabilogram is a record of Santos and Duarte 2016, PeerJ 4:e2648 (CC BY 4.0).
"""

import gzip
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp
from matplotlib.patches import Arc, FancyBboxPatch

import kinesym as ks

STEP = 0.1  # s, of the samples and of the noise
SIGMA = 5e-4  # m, measurement noise
TRUE = {"KP": 1400.0, "KI": 20.0, "KD": 260.0, "A": 1100.0, "B": 120.0}
AT_REST = {"u": 0.0, "v": 0.0, "z": 0.0, "Td": 0.0}
INERTIA = 76.0  # kg m^2, of the model's body
TIPPING = 60.0 * 9.81 * 1.13  # its m g h [N m/rad]: with less stiffness it falls over
BOUNDS = {
    "KP": (1.001 * TIPPING, 2e4),
    "KI": (0.0, 500.0),
    "KD": (1.0, 1500.0),
    "A": (0.0, 1e4),
    "B": (1.0, 1e3),
}
EXPERIMENTS = (("KP", "KI", "KD"), ("A", "B"), ("KP", "KI", "KD", "A", "B"))
OPTIMISERS: dict[str, dict[str, Any]] = {
    "steepest descent, raw": {"optimizer": "steepest-descent", "scale": False},
    "steepest descent, scaled": {"optimizer": "steepest-descent"},
    "L-BFGS, scaled": {"optimizer": "bfgs"},
    "least squares": {"optimizer": "least-squares"},
}
BEST = "least squares"


# -- data and problem ------------------------------------------------------------------------------


def white(nodes, seed):
    """Unit-variance noise, one number per step: the disturbance torque is made from it."""
    return np.random.default_rng(seed).standard_normal(nodes)


def simulate(time, noise, values=None):
    """The pendulum from rest, noise held over each step; without values, from the paper's."""
    return ks.simulate(
        ks.models.cip(), time, AT_REST, values, {"x": ks.Signal(time, noise, "held")}
    )


def reference(time, noise, seed):
    """Centre of pressure [m] with the true parameters, plus measurement noise."""
    return simulate(time, noise, TRUE)["u_COP"] + SIGMA * white(len(time), seed)


def shooting(time, noise, pressure, free, known=None, method="rk4"):
    """J = 1/2 integral (u_COP - u_ref)^2 dt as a function of the parameters in `free`.

    Others are the model's, which are the starting point of the paper, or in `known`.
    """
    model, u_ref = ks.models.cip(), ks.dynamicsymbols("u_ref")
    trial = ks.Experiment(
        time,
        inputs={"x": ks.Signal(time, noise, "held"), u_ref: pressure},
        measurements={"u_COP": pressure},
    )
    return ks.Shooting(
        model,
        trial,
        unknown={name: BOUNDS[name] for name in free},
        known=known,
        initial=AT_REST,
        objective=ks.Integral((model.outputs["u_COP"] - u_ref) ** 2 / 2),
        method=method,
    )


def identify(time, noise, pressure):
    """{free parameters: {optimiser: fit}} of the three experiments."""
    fits = {}
    for free in EXPERIMENTS:
        problem = shooting(time, noise, pressure, free)
        fits[free] = {name: problem.solve(**how) for name, how in OPTIMISERS.items()}
    return fits


def twin(values):
    """Other parameters with the same centre of pressure.

    From noise to centre of pressure the model is A (m g h s - I s^3) / (m g (1 + B s) (I s^3 + KD
    s^2 + (KP - m g h) s + KI)). The slow pole of the last factor and -1/B can change places
    (where that stays within the bounds).
    """
    loop = np.array([INERTIA, values["KD"], values["KP"] - TIPPING, values["KI"]])
    poles = np.roots(loop)
    slow = max(np.min(np.abs(poles[poles.imag == 0.0])), 1e-9)
    KD, KP, KI = np.polymul(np.polydiv(loop, [1.0, slow])[0], [1.0, 1.0 / values["B"]])[1:]
    other = {
        "KP": KP + TIPPING,
        "KI": KI,
        "KD": KD,
        "A": values["A"] / (slow * values["B"]),
        "B": 1.0 / slow,
    }
    return {k: float(np.clip(v, *BOUNDS[k])) for k, v in other.items()}


# -- words -----------------------------------------------------------------------------------------


def table(fits):
    """All fits: parameters, J before and after, iterations; standard errors and condition."""
    start = ks.models.cip().values
    rows = [
        f"{'optimiser':<27}"
        + "".join(f"{k:>10}" for k in TRUE)
        + f"{'J before':>12}{'J after':>12}{'iterations':>12}"
    ]
    rows += [
        f"{label:<27}" + "".join(f"{values[k]:10.2f}" for k in TRUE)
        for label, values in (("true", TRUE), ("start", start))
    ]
    for free, found in fits.items():
        rows.append(f"{', '.join(free)} unknown")
        for name, fit in found.items():
            cells = "".join(f"{fit.parameters[k]:10.2f}" if k in free else f"{'':10}" for k in TRUE)
            rows.append(
                f"  {name:<25}{cells}{fit.history[0].objective:12.4e}{fit.objective:12.4e}"
                f"{fit.iterations:12d}"
            )
        errors = found[BEST].standard_errors()
        cells = "".join(f"{errors[k]:10.3g}" if k in free else f"{'':10}" for k in TRUE)
        rows.append(f"  {'standard error':<25}{cells}   condition {found[BEST].condition:.3g}")
    return "\n".join(rows)


def lesson_a(fits, cost):
    """What exchanges with what."""
    fit = fits[EXPERIMENTS[2]][BEST]
    A, B = (sp.Symbol(name) for name in "AB")
    alone, ratio = fit.interval(A), fit.interval(A / B)
    var = fit.covariance[-2:, -2:]
    correlation = var[0, 1] / np.sqrt(var[0, 0] * var[1, 1])
    other = twin(fit.parameters)
    listed = ", ".join(f"{k} {v:.5g}" for k, v in other.items())
    return f"""\
A. B is longer than the record, so that the disturbance is nearly A/B times the integral of
   the noise: A and B are correlated by {correlation:.4f}. Each is uncertain by \
{100 * alone.standard_error / alone.value:.0f} %, but
   A/B = {ratio.value:.3f} by {100 * ratio.standard_error / ratio.value:.1f} % only \
(true: {TRUE["A"] / TRUE["B"]:.3f}).
   Besides, the slow pole of the noise filter and that of the control loop can change places:
   {listed}
   are as good (J differs by {abs(cost(other) / fit.objective - 1.0):.0e}). No record tells them \
apart; an optimiser finds
   the one that it starts near, and where they meet, the problem is singular.
   Gains and disturbance also stand in for each other: fitted alone, either ends many
   standard errors from the truth. Standard errors do not know that a model is wrong."""


def lesson_b(fits):
    """Scaling of steepest descent."""
    rows = ["B. Excess of J over the minimum when steepest descent ends:"]
    for free, found in fits.items():
        low = found[BEST].objective
        raw, scaled = (
            100.0 * (found[f"steepest descent, {how}"].objective / low - 1.0)
            for how in ("raw", "scaled")
        )
        rows.append(f"   {', '.join(free):<18} raw parameters {raw:6.1f} %, scaled {scaled:6.2f} %")
    rows.append("""\
   In raw parameters those with the steepest slope per unit move and the others hardly do:
   the very small changes of the gains in the paper are such a stop, not a result. L-BFGS
   and least squares converge within a few iterations.""")
    return "\n".join(rows)


def lesson_c(time, noise, other):
    """A reference whose noise is not the one that the model is driven with."""
    rows = ["C. The same with a reference made from other noise, as every measured record is:"]
    for free in EXPERIMENTS:
        fit = shooting(time, noise, other, free).solve(optimizer="least-squares")
        found = ", ".join(f"{k} {v:.4g}" for k, v in fit.parameters.items())
        rows.append(
            f"   {found}; VAF {fit.vaf()['u_COP']:.0f} %; "
            f"at a bound: {', '.join(fit.active) or 'none'}"
        )
    rows.append("""\
   Bounds (KP above m g h, KD and B positive) keep the model standing, and parameters run
   into them: what is found belongs to the draw of the noise, not to the person.""")
    return "\n".join(rows)


# -- figures ---------------------------------------------------------------------------------------


def figure_stabilogram(time, pressure):
    """A measured centre of pressure on its base, and the simulated reference."""
    path = resources.files("kinesym.examples") / "data" / "BDS00001.csv.gz"
    with path.open("rb") as raw, gzip.open(raw, "rt") as file:
        record = np.genfromtxt(file, delimiter=",", names=True)
    ap, ml = (1e3 * (record[k] - record[k].mean()) for k in ("cop_ap_m", "cop_ml_m"))
    fig = plt.figure(figsize=(10, 4.4), layout="constrained")
    axes = fig.subplot_mosaic("ABB;ACC", width_ratios=(1.1, 1, 1))
    axes["A"].plot(ml, ap, "C0", lw=0.5)
    axes["A"].set(
        aspect="equal",
        xlabel="medio-lateral [mm]",
        ylabel="anterior-posterior [mm]",
        xticks=[-5, 0, 5],
        xlim=(-7, 7),
        title="measured, 60 s",
    )
    axes["B"].plot(record["time_s"], ap, "C0", lw=0.8)
    axes["B"].set(ylabel="measured [mm]", xticklabels=[])
    axes["B"].set_title("anterior-posterior: measured, and the simulated reference")
    axes["C"].plot(time, 1e3 * pressure, "k", lw=0.8)
    axes["C"].set(ylabel="simulated [mm]", xlabel="time [s]")
    for name in "BC":
        axes[name].set_xlim(0, 60)
    fig.suptitle("Stabilogram: the centre of pressure of a standing person")
    return fig


def draw_pendulum(axis):
    """The body as a pendulum about the ankle."""
    top, arrow = np.array([0.32, 0.86]), {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0}
    axis.plot([-0.45, 0.6], [-0.06, -0.06], "k", lw=1.2)
    axis.fill([-0.16, 0.36, 0.36, 0.0, -0.16], [-0.05, -0.05, -0.02, 0.1, 0.05], "0.75")
    axis.plot(*np.array([[0, 0], top * 1.35]).T, "0.35", lw=5, solid_capstyle="round")
    axis.plot([0, 0], [0, 1.25], "k--", lw=0.7)
    axis.plot(0, 0, "ko", ms=6)
    axis.plot(*top, "o", color="C0", ms=15)
    axis.annotate("", top - [0, 0.45], top, arrowprops={**arrow, "color": "C0"})
    axis.text(top[0] + 0.05, top[1] - 0.42, "$m g$", color="C0")
    axis.text(top[0] + 0.1, top[1] - 0.02, "$m, I$")
    axis.text(0.03, 0.55, "$h$")
    axis.add_patch(Arc((0, 0), 2.1, 2.1, theta1=70, theta2=90, color="k"))
    axis.text(0.14, 1.09, "$u$")
    axis.annotate(
        "",
        (-0.02, 0.33),
        (-0.33, 0.02),
        arrowprops={**arrow, "color": "C3", "connectionstyle": "arc3,rad=-0.4"},
    )
    axis.text(-0.42, 0.36, "$T_d - T_c$", color="C3", ha="center")
    axis.annotate("", (0.2, -0.06), (0.2, -0.42), arrowprops={**arrow, "color": "C2"})
    axis.plot([0, 0], [-0.08, -0.22], "0.5", lw=0.7)
    axis.annotate("", (0.2, -0.18), (0, -0.18), arrowprops={**arrow, "color": "0.5"})
    axis.text(0.25, -0.36, "$u_{COP}$", color="C2")
    axis.set(xlim=(-0.65, 0.75), ylim=(-0.45, 1.3), aspect="equal")
    axis.axis("off")


def draw_blocks(axis):
    """Noise, filter, body, force plate, and the feedback of the sway angle."""

    def block(x, y, text, width, name, above=0.56):
        axis.add_patch(
            FancyBboxPatch(
                (x - width / 2, y - 0.42), width, 0.84, fc="0.95", boxstyle="round,pad=0.02"
            )
        )
        axis.text(x, y, text, ha="center", va="center", size=13)
        axis.text(x, y + above, name, ha="center", color="0.45")

    def arrow(*points, label="", at=(0, 0)):
        axis.plot(*np.array(points[:-1]).T, "k", lw=1)
        axis.annotate(
            "",
            points[-1],
            points[-2],
            arrowprops={"arrowstyle": "-|>", "color": "k", "shrinkA": 0, "shrinkB": 0},
        )
        axis.text(*at, label, ha="center", size=12)

    block(1.55, 2, r"$\dfrac{A}{1 + B s}$", 1.3, "disturbance")
    block(5.0, 2, r"$\dfrac{1}{I s^2 - m g h}$", 1.9, "body")
    block(8.5, 2, r"$h - \dfrac{I s^2}{m g}$", 1.7, "force plate")
    block(5.0, 0.5, r"$K_P + \dfrac{K_I}{s} + K_D s$", 2.5, "corrective torque", -0.75)
    axis.plot(3.2, 2, "o", mfc="w", mec="k", ms=17)
    axis.text(3.2, 1.98, "Σ", ha="center", va="center")
    axis.text(3.05, 1.55, "−", ha="center")
    arrow((0.0, 2), (0.86, 2), label="$x$", at=(0.35, 2.12))
    arrow((2.24, 2), (2.98, 2), label="$T_d$", at=(2.58, 2.12))
    arrow((3.42, 2), (4.01, 2))
    arrow((5.99, 2), (7.61, 2), label="$u$", at=(6.4, 2.12))
    arrow((9.39, 2), (10.2, 2), label="$u_{COP}$", at=(9.85, 2.15))
    axis.plot(6.9, 2, "k.", ms=7)
    arrow((6.9, 2), (6.9, 0.5), (6.29, 0.5))
    arrow((3.71, 0.5), (3.2, 0.5), (3.2, 1.78), label="$T_c$", at=(3.42, 0.62))
    axis.set(xlim=(-0.1, 10.3), ylim=(-0.45, 2.85), aspect="equal")
    axis.axis("off")


def figure_scheme():
    """The controlled inverted pendulum."""
    fig, axes = plt.subplots(1, 2, figsize=(11, 3.5), width_ratios=(1, 3.4), layout="constrained")
    draw_pendulum(axes[0])
    draw_blocks(axes[1])
    fig.suptitle("Controlled inverted pendulum")
    return fig


def draw_pressure(axis, time, pressure, model, color, label):
    """Reference and model."""
    axis.plot(time, 1e3 * pressure, color="0.65", lw=2.2, label="reference")
    axis.plot(time, 1e3 * model, color, lw=1, label=label)
    axis.set(xlim=(time[0], time[-1]), ylabel="u_COP [mm]")
    axis.legend(loc="lower left", ncols=2, fontsize="small")


def figure_gains(time, pressure, before, fit):
    """Experiment 1: centre of pressure before and after the fit of the gains."""
    fig, axes = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, sharey=True, layout="constrained")
    draw_pressure(axes[0], time, pressure, before["u_COP"], "C3", "before")
    draw_pressure(axes[1], time, pressure, fit["u_COP"], "C0", "after")
    axes[1].set_xlabel("time [s]")
    gains = ", ".join(f"{k} = {fit.parameters[k]:.4g}" for k in EXPERIMENTS[0])
    fig.suptitle(f"Fit of the gains, disturbance as at the start: {gains}")
    return fig


def figure_disturbance(time, noise, before, fit):
    """Experiment 2: disturbance torque before and after the fit of A and B."""
    fig, axis = plt.subplots(figsize=(9, 3.8), layout="constrained")
    axis.plot(time, simulate(time, noise, TRUE)["Td"], "0.65", lw=2.2, label="true")
    axis.plot(
        time,
        before["Td"],
        "C3",
        lw=1,
        label="before: A = {A:.0f}, B = {B:.0f}".format(**before.parameters),
    )
    A, B = fit.parameters["A"], fit.parameters["B"]
    axis.plot(time, fit["Td"], "C0", lw=1, label=f"after: A = {A:.0f}, B = {B:.0f}")
    axis.set(xlabel="time [s]", ylabel="disturbance Td [N m]", xlim=(time[0], time[-1]))
    axis.legend()
    fig.suptitle("Fit of the disturbance, gains as at the start")
    return fig


def figure_all(time, noise, pressure, before, fits):
    """Experiment 3: before, after, the way down, and the disturbance."""
    fit = fits[BEST]
    fig, axes = plt.subplots(2, 2, figsize=(11, 6.5), layout="constrained")
    draw_pressure(axes[0, 0], time, pressure, before["u_COP"], "C3", "model")
    axes[0, 0].set_title("start", fontsize="medium")
    draw_pressure(axes[0, 1], time, pressure, fit["u_COP"], "C0", "model")
    axes[0, 1].set_title(
        "identified: " + ", ".join(f"{k} {v:.4g}" for k, v in fit.parameters.items()),
        fontsize="medium",
    )
    axes[0, 1].sharey(axes[0, 0])
    for (name, found), style in zip(fits.items(), ("C3", "C1", "C2", "C0"), strict=True):
        J = [step.objective for step in found.history]
        axes[1, 0].loglog(1 + np.arange(len(J)), J, style, label=name)
        axes[1, 0].plot(len(J), J[-1], "o", color=style, ms=4)
    axes[1, 0].set(xlabel="1 + iteration", ylabel="J [m² s]")
    axes[1, 0].legend(fontsize="small")
    axes[1, 1].plot(time, simulate(time, noise, TRUE)["Td"], "0.65", lw=2.2, label="true")
    axes[1, 1].plot(time, before["Td"], "C3", lw=1, label="start")
    axes[1, 1].plot(time, fit["Td"], "C0", lw=1, label="identified")
    axes[1, 1].set(ylabel="disturbance Td [N m]", xlim=(time[0], time[-1]))
    axes[1, 1].legend(fontsize="small")
    for axis in (axes[0, 0], axes[0, 1], axes[1, 1]):
        axis.set_xlabel("time [s]")
    return fig


def draw_valley(axis, time, noise, pressure, fits):
    """J over A and B by one ensemble, and the ways of the optimisers."""
    A, B = np.meshgrid(np.geomspace(400, 1600, 45), np.geomspace(40, 160, 45))
    runs = simulate(time, noise, {"A": A.ravel(), "B": B.ravel()})
    J = 0.5 * np.trapezoid((runs["u_COP"] - pressure) ** 2, time, axis=1).reshape(A.shape)
    lowest = fits[BEST].objective
    levels = lowest * np.geomspace(1.02, 100, 16)
    axis.contour(A, B, J, levels, colors="0.7", linewidths=0.8)
    for name, style in zip(OPTIMISERS, ("C3.-", "C1.-", "C2.-", "C0*"), strict=True):
        path = np.array([step.values for step in fits[name].history])
        if name == BEST:
            path = path[-1:]
        axis.plot(*path.T, style, lw=1, ms=3 if len(path) > 1 else 12, label=name)
    axis.set(
        xscale="log",
        yscale="log",
        xlim=(400, 1600),
        ylim=(40, 160),
        xlabel="A [N m]",
        ylabel="B [s]",
    )
    plain_ticks(axis.xaxis, (400, 600, 800, 1000, 1500))
    plain_ticks(axis.yaxis, (40, 60, 80, 100, 150))
    axis.set_title("J over A and B, gains as at the start", fontsize="medium")
    axis.legend(loc="upper left", fontsize="small")


def plain_ticks(axis, ticks):
    """These numbers on a logarithmic axis."""
    axis.set_ticks(ticks, [str(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def draw_exchange(axis, time, noise, pressure, fit):
    """What A costs if the other four are fitted again, from the last fit on either side."""
    points, other = [], twin(fit.parameters)
    for start, ratios in (
        (fit.parameters, np.geomspace(1.0, 4.0, 9)),
        (fit.parameters, np.geomspace(1.0, 0.5, 7)),
        (other, np.geomspace(1.0, 2.0, 7)),
        (other, np.geomspace(1.0, 0.4, 7)),
    ):
        guess = {k: start[k] for k in ("KP", "KI", "KD", "B")}
        for ratio in ratios:
            problem = shooting(time, noise, pressure, guess, {"A": ratio * start["A"]})
            found = problem.solve(guess, optimizer="least-squares")
            guess = dict(found.parameters)
            points.append((ratio * start["A"], found.objective, guess["B"]))
    A, J, B = np.array(sorted(points)).T
    axis.semilogx(A, J / fit.objective, "C0.-")
    axis.set(xlabel="A [N m], fixed", ylim=(0.97, 1.2))
    axis.set_ylabel("J / lowest J", color="C0")
    second = axis.twinx()
    second.semilogx(A, B, "C1.-")
    second.set_ylabel("B [s]", color="C1")
    for values, word in ((TRUE, "true A"), (twin(TRUE), "its twin")):
        axis.axvline(values["A"], color="0.6", ls="--", lw=1)
        axis.text(values["A"] * 1.03, 0.975, word, color="0.4")
    plain_ticks(axis.xaxis, (200, 500, 1000, 2000, 4000))
    axis.set_title("A fixed, the other four fitted", fontsize="medium")


def figure_valley(time, noise, pressure, fits):
    """A and B: the way down the valley, and two bottoms."""
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    draw_valley(axes[0], time, noise, pressure, fits[EXPERIMENTS[1]])
    draw_exchange(axes[1], time, noise, pressure, fits[EXPERIMENTS[2]][BEST])
    return fig


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Three experiments with four optimisers; table, three lessons, six figures."""
    time = STEP * np.arange(nodes or 601)
    noise = white(len(time), seed=1)
    pressure = reference(time, noise, seed=2)
    fits, before = identify(time, noise, pressure), simulate(time, noise)
    print(f"{len(time)} samples at {1 / STEP:g} Hz; J [m^2 s], parameters in SI units\n")
    print(table(fits) + "\n")
    cost = shooting(time, noise, pressure, EXPERIMENTS[2]).cost
    print(lesson_a(fits, cost), lesson_b(fits), sep="\n")
    print(lesson_c(time, noise, reference(time, white(len(time), seed=101), seed=2)))
    figures = {
        "1_stabilogram": figure_stabilogram(time, pressure),
        "2_scheme": figure_scheme(),
        "3_gains": figure_gains(time, pressure, before, fits[EXPERIMENTS[0]][BEST]),
        "4_disturbance": figure_disturbance(time, noise, before, fits[EXPERIMENTS[1]][BEST]),
        "5_all": figure_all(time, noise, pressure, before, fits[EXPERIMENTS[2]]),
        "6_valley": figure_valley(time, noise, pressure, fits),
    }
    paths = []
    for name, fig in figures.items():
        paths.append(out / f"quiet_standing_sensitivities_{name}.png")
        fig.savefig(paths[-1], dpi=120)
        plt.close(fig)
    return paths
