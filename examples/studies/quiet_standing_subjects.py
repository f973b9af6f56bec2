"""Quiet standing of eight people, 24 records: three estimates of gains, and their identifiability.

The controlled inverted pendulum of Barauskas and Krusinskiene 2005 is fitted to every record three
ways. One draw: the method of the paper, which takes a random sequence as the noise that disturbed
the person, here with ten sequences. Joint: the noise is an unknown trajectory with a prior, found
together with stiffness and damping by direct collocation. Marginal: the noise is integrated out,
and its strength A is found too (see `quiet_standing`). The same three fits of simulated records,
whose gains are known, say which to believe.

Records: Santos and Duarte 2016, PeerJ 4:e2648 (CC BY 4.0), reduced to 10 Hz; see ../data/README.md.
"""

import csv
import gzip
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.examples.quiet_standing import NOISE_STEP, SIGMA, body, first_guess, problem

GAIN = 1000.0  # N m: the assumed strength A of the noise in the joint estimate
TRUTH = {"KP": 1.5, "KD": 100.0, "A": 200.0}  # of simulated records; KP over m g h
AT_REST = {"u": 0.0, "v": 0.0, "z": 0.0, "Td": 0.0}


class Record(NamedTuple):
    """One trial: who and how, time [s], centre of pressure without its mean [m], and the body."""

    name: str
    subject: str
    eyes: str
    time: np.ndarray
    pressure: np.ndarray
    body: dict

    @property
    def tipping(self):
        """m g h [N m/rad], the stiffness below which nobody stands."""
        return self.body["m"] * self.body["g"] * self.body["h"]


def measured():
    """All records."""
    data = resources.files("kinesym.examples") / "data"
    with (data / "cop_ap_10hz.csv.gz").open("rb") as raw, gzip.open(raw, "rt") as file:
        table = np.genfromtxt(file, delimiter=",", names=True)
    with (data / "subjects.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [
        Record(
            row["trial"],
            row["subject"],
            row["vision"],
            table["time_s"],
            table[row["trial"]],
            body(float(row["mass_kg"]), float(row["height_m"])),
        )
        for row in rows
    ]


def simulated(seed, like):
    """A record with known gains of the body of another one: 60 s after 30 s of standing."""
    rng = np.random.default_rng(seed)
    time = NOISE_STEP * np.arange(300 + len(like.time))
    values = {**like.body, **TRUTH, "KP": TRUTH["KP"] * like.tipping}
    run = ks.simulate(
        ks.models.cip(),
        time,
        AT_REST,
        values,
        {"x": ks.Signal(time, rng.standard_normal(len(time)), "held")},
        substeps=4,
    )
    pressure = run["u_COP"][300:] + SIGMA * rng.standard_normal(len(like.time))
    return like._replace(
        name=f"simulated {seed}", subject="-", eyes="-", pressure=pressure - pressure.mean()
    )


# -- one draw of the noise, taken as known ---------------------------------------------------------


def one_draw(record, seed):
    """KP/mgh, KD, A of all five fitted by shooting, VAF [%], and whether a bound is active."""
    noise = np.random.default_rng(seed).standard_normal(len(record.time))
    trial = ks.Experiment(
        record.time,
        inputs={"x": ks.Signal(record.time, noise, "held")},
        measurements={"u_COP": record.pressure},
        std={"u_COP": SIGMA},
    )
    mgh = record.tipping
    bounds = {
        "KP": (1.001 * mgh, 10.0 * mgh),
        "KI": (0.0, 200.0),
        "KD": (0.0, 5000.0),
        "A": (0.0, 1e4),
        "B": (1.0, 1e3),
    }
    task = ks.Shooting(
        ks.models.cip(),
        trial,
        unknown=bounds,
        known=record.body,
        initial=AT_REST,
        method="trapezoid",
    )
    start = {"KP": 2.2 * mgh, "KI": 14.32, "KD": 200.0, "A": 1000.0, "B": 80.0}
    fit = task.solve(start, optimizer="least-squares", max_iterations=100)
    p = fit.parameters
    return {
        "KP": p["KP"] / mgh,
        "KD": p["KD"],
        "A": p["A"],
        "VAF": fit.vaf()["u_COP"],
        "bound": bool(fit.active),
    }


# -- the noise as an unknown trajectory ------------------------------------------------------------


def joint_problem(time, pressure, values, gain):
    """Unknown: KP > m g h, KD > 0, and the noise x, constant between samples, with a prior."""
    model = ks.models.cip()
    x = model.inputs[0]
    tipping = values["m"] * values["g"] * values["h"]
    trial = ks.Experiment(time, measurements={"u_COP": pressure}, std={"u_COP": SIGMA})
    return ks.Collocation(
        model,
        trial,
        unknown={"KP": (1.001 * tipping, 10.0 * tipping), "KD": (0.0, 5000.0)},
        known={**values, "A": gain},
        unknown_inputs={x: ks.held()},
        objective=ks.LeastSquares() + ks.Integral(x**2 / NOISE_STEP),
    )


def with_fixed_gains(task, pressure, values, gain):
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


def joint(record, gain=GAIN):
    """KP/mgh and KD with standard errors, VAF [%], whether KD is zero for all that is known."""
    mgh = record.tipping
    task = joint_problem(record.time, record.pressure, record.body, gain)
    solution = task.solve(with_fixed_gains(task, record.pressure, record.body, gain))
    KP, KD = (solution.parameters.table[name] for name in ("KP", "KD"))
    return {
        "KP": KP.value / mgh,
        "KD": KD.value,
        "KP_se": KP.standard_error / mgh,
        "KD_se": KD.standard_error,
        "VAF": solution.vaf()["u_COP"],
        "bound": "KD" if KD.value < 0.1 * KD.standard_error or KD.remark else "",
    }


# -- the noise integrated out ----------------------------------------------------------------------


def marginal(record):
    """KP/mgh, KD, A of the largest marginal likelihood, with standard errors."""
    task = problem(record.time, record.pressure, record.body)
    table = task.solve(first_guess(record.pressure, record.body)).parameters.table
    unit = {"KP": record.tipping, "KD": 1.0, "A": 1.0}
    found = {name: table[name].value / unit[name] for name in unit}
    return found | {f"{name}_se": table[name].standard_error / unit[name] for name in unit}


# -- all records -----------------------------------------------------------------------------------


def study(records, seeds):
    """Per record what the three estimates find: {"draws": [...], "joint", "strengths", ...}."""
    return [
        {
            "draws": [one_draw(record, seed) for seed in seeds],
            "joint": joint(record),
            "strengths": [joint(record, gain)["KP"] for gain in (GAIN / 2, 2 * GAIN)],
            "marginal": marginal(record),
        }
        for record in records
    ]


def columns(record, found):
    """One line of the table by name: numbers and words."""
    row = {
        "record": record.name,
        "subject": record.subject,
        "eyes": record.eyes,
        "mgh_Nm_per_rad": record.tipping,
    }
    draws = found["draws"]
    for key in ("KP", "KD", "A", "VAF"):
        values = [draw[key] for draw in draws]
        row |= {
            f"draws_{key}_lowest": min(values),
            f"draws_{key}_median": np.median(values),
            f"draws_{key}_highest": max(values),
        }
    row["draws_at_bound"] = f"{sum(draw['bound'] for draw in draws)} of {len(draws)}"
    row |= {f"joint_{key}": value for key, value in found["joint"].items()}
    row |= {"joint_KP_half_A": found["strengths"][0], "joint_KP_double_A": found["strengths"][1]}
    row |= {f"marginal_{key}": value for key, value in found["marginal"].items()}
    return row


def write_csv(path, rows):
    """The table with all columns; KP is over m g h, the rest in SI units, VAF in percent."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        for row in rows:
            writer.writerow(f"{v:.6g}" if isinstance(v, float) else v for v in row.values())


def table(rows):
    """The main columns as text."""
    groups = (("", 34), ("one draw of the noise, range", 46), ("joint", 38), ("marginal", 36))
    names = (
        ("record", 13),
        ("who", 5),
        ("eyes", 8),
        ("m g h", 8),
        ("KP/mgh", 15),
        ("KD", 12),
        ("VAF %", 9),
        ("at bound", 10),
        ("KP/mgh", 14),
        ("KD", 12),
        ("at bound", 12),
        ("KP/mgh", 14),
        ("KD", 12),
        ("A", 10),
    )
    lines = ["".join(f"{name:<{width}}" for name, width in line) for line in (groups, names)]
    for r in rows:
        draws = [
            f"{abs(r[f'draws_{k}_lowest']):{form}} .. {r[f'draws_{k}_highest']:{form}}"
            for k, form in (("KP", ".2f"), ("KD", ".0f"), ("VAF", ".0f"))
        ]
        rest = [
            f"{r[k]:{form}} ± {r[k + '_se']:{form}}"
            for k, form in (
                ("joint_KP", ".2f"),
                ("joint_KD", ".0f"),
                ("marginal_KP", ".2f"),
                ("marginal_KD", ".0f"),
                ("marginal_A", ".0f"),
            )
        ]
        cells = [
            r["record"],
            r["subject"],
            r["eyes"],
            f"{r['mgh_Nm_per_rad']:.0f}",
            *draws,
            r["draws_at_bound"],
            *rest[:2],
            r["joint_bound"] or "-",
            *rest[2:],
        ]
        lines.append(
            "".join(f"{cell:<{width}}" for cell, (_, width) in zip(cells, names, strict=True))
        )
    return "\n".join(line.rstrip() for line in lines)


def conclusions(rows, seeds):
    """What each estimate can and cannot identify, in plain words."""
    people = [r for r in rows if r["eyes"] != "-"]
    factor = np.median([r["draws_KP_highest"] / r["draws_KP_lowest"] for r in people])
    hits = sum(int(r["draws_at_bound"].split()[0]) for r in people)
    moved = max(
        abs(r[k] / r["joint_KP"] - 1.0)
        for r in people
        for k in ("joint_KP_half_A", "joint_KP_double_A")
    )
    weak = [sum("KD" in r["joint_bound"] for r in some) for some in (people, rows)]
    errors = (
        abs(r[f"marginal_{k}"] - TRUTH[k]) / r[f"marginal_{k}_se"]
        for r in rows[len(people) :]
        for k in TRUTH
        if r[f"marginal_{k}_se"] > 0.0  # a short record leaves gains at bounds
    )
    off = max(errors, default=np.nan)

    def span(key, text=".2f"):
        return f"{min(r[key] for r in people):{text}} to {max(r[key] for r in people):{text}}"

    return f"""\
One draw of the noise, taken as known, identifies the draw and not the person. With another
draw KP changes by a factor of {factor:.0f} (median over the records), the fit explains
{np.median([r["draws_VAF_median"] for r in people]):.0f} % of a record (median), and {hits} of \
{len(people) * len(seeds)} fits end at a bound.

The joint estimate explains {span("joint_VAF")} % of a record, which says nothing for the
model: a free disturbance explains whatever there is. It identifies stiffness,
KP = {span("joint_KP")} m g h (moved by {100 * moved:.0f} % at most when the assumed A is halved or
doubled), but not damping: KD ends at or next to zero in {weak[0]} of {len(people)} records, and
in {weak[1] - weak[0]} of {len(rows) - len(people)} simulated ones, whose KD is {TRUTH["KD"]:.0f}. \
Weak damping needs less noise, so the most
probable noise has it. Nor does it identify A: the larger, the less the noise costs.

With the noise integrated out, stiffness, damping and the strength of the noise are identified:
KP = {span("marginal_KP")} m g h, KD = {span("marginal_KD", ".0f")} N m s/rad, \
A = {span("marginal_A", ".0f")} N m; for simulated
records within {off:.1f} standard errors of the truth.

None of them identifies KI and B, for which 60 s are short: joint and marginal keep the values
of the paper, and A stands for A/B. Nor what the model does not have: delay, muscles, a second
joint. Assumed are the residual (sigma = {1e3 * SIGMA:g} mm) and the body (h = 0.52 stature,
I = 1.2 m h^2)."""


def figure(rows, found):
    """All estimates, one line per record."""
    fig, axes = plt.subplots(
        1, 4, figsize=(12, 1.7 + 0.27 * len(rows)), sharey=True, layout="constrained"
    )
    place = np.arange(len(rows))
    known = np.array([k for k, r in enumerate(rows) if r["eyes"] == "-"])
    for axis, key in zip(axes, ("KP", "KD", "A", "VAF"), strict=True):
        values = np.array([[draw[key] for draw in one["draws"]] for one in found])
        axis.plot(
            np.maximum(values, 0.1 if key == "A" else 0.0),
            place,
            "o",
            color="0.6",
            ms=4,
            alpha=0.5,
            mec="none",
        )
        for shift, who, color in ((0.18, "joint", "C0"), (-0.18, "marginal", "C1")):
            if f"{who}_{key}_se" in rows[0]:
                errors = [r[f"{who}_{key}_se"] for r in rows]
                axis.errorbar(
                    [r[f"{who}_{key}"] for r in rows],
                    place + shift,
                    xerr=errors,
                    fmt="o",
                    color=color,
                    ms=4,
                    lw=1.2,
                )
        if key in TRUTH:
            axis.vlines([TRUTH[key]] * len(known), known - 0.45, known + 0.45, "k", lw=2)
    axes[2].axvline(GAIN, color="C0", lw=1)
    axes[3].plot([r["joint_VAF"] for r in rows], place + 0.18, "C0o", ms=4)
    dress(axes, rows)
    marks = (("0.6", "o", ""), ("C0", "o", "-"), ("C1", "o", "-"), ("k", "", "-"))
    words = (
        "one draw of the noise each",
        "noise estimated jointly (A assumed)",
        "noise integrated out",
        "truth",
    )
    fig.legend(
        [plt.Line2D([], [], color=c, marker=m, ls=line, ms=5) for c, m, line in marks],
        words,
        loc="outside lower center",
        ncols=4,
    )
    fig.suptitle("Quiet standing: three estimates from the same records, with standard errors")
    return fig


def dress(axes, rows):
    """Scales, labels, and lines between people."""
    axes[0].set(xscale="log", xlabel="KP / m g h", xlim=(0.75, 13), ylim=(len(rows) - 0.4, -0.6))
    axes[0].set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    axes[0].set_xticks([], minor=True)
    axes[1].set_xscale("symlog", linthresh=20, linscale=0.6)
    axes[1].set(xlabel="KD [N m s/rad]", xlim=(-5, 9000))
    axes[1].set_xticks([0, 20, 100, 1000, 5000], ["0", "20", "100", "1000", "5000"])
    axes[2].set(xscale="log", xlabel="A [N m]")
    axes[2].set_xticks([0.1, 1, 10, 100, 1e3, 1e4], ["< 0.1", "1", "10", "100", "1000", ""])
    axes[3].set(xlabel="variance accounted for [%]", xlim=(-5, 105))
    axes[0].set_yticks(
        range(len(rows)),
        [f"subject {r['subject']}, {r['eyes']}" if r["eyes"] != "-" else r["record"] for r in rows],
    )
    for axis in axes:
        axis.grid(axis="x", color="0.92")
        for k in range(1, len(rows)):
            if rows[k]["subject"] != rows[k - 1]["subject"]:
                axis.axhline(k - 0.5, color="0.8", lw=0.8)


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """All records and three simulated ones; with `nodes`, the first samples of three records."""
    records, seeds = measured(), range(10)
    records += [simulated(seed, records[0]) for seed in (1, 2, 3)]
    if nodes is not None:
        records, seeds = [records[0], records[8], records[-1]], range(2)
        records = [r._replace(time=r.time[:nodes], pressure=r.pressure[:nodes]) for r in records]
    found = study(records, seeds)
    rows = [columns(*pair) for pair in zip(records, found, strict=True)]
    print("KP over m g h; m g h and KP in N m/rad, KD in N m s/rad, A in N m; mean removed\n")
    print(table(rows), conclusions(rows, seeds), sep="\n\n")
    paths = [out / "quiet_standing_subjects.csv", out / "quiet_standing_subjects.png"]
    write_csv(paths[0], rows)
    fig = figure(rows, found)
    fig.savefig(paths[1], dpi=120)
    plt.close(fig)
    return paths
