"""Quiet standing of eight people by two laws of control: a study of 48 fits.

Each of 24 records is explained by an inverted pendulum that is held by stiffness and damping (PD),
or by these and the integral of its lean (PID), and disturbed by noise that is integrated out
(Barauskas and Krusinskiene 2005; see `quiet_standing`). Fits run in as many processes as there are
cores; what is done stays in a folder, so that the same command goes on where it was interrupted.
The table says which law each record prefers, and what people have in common: the mean stiffness,
how much people differ, and how much records of one person do.

Records: Santos and Duarte 2016, PeerJ 4:e2648 (CC BY 4.0), reduced to 10 Hz; see data/README.md.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.examples.quiet_standing import first_guess, problem
from kinesym.examples.studies.quiet_standing_subjects import measured

LAWS = {"PD": {}, "PID": {"KI": (0.0, 500.0)}}


def fit(record, law):
    """The most likely gains of a record, and their stiffness over m g h."""
    task = problem(record.time, record.pressure, record.body, more=LAWS[law])
    solution = task.solve(guess=first_guess(record.pressure, record.body))
    beside = {
        "subject": record.subject,
        "eyes": record.eyes,
        "stiffness": solution.parameters["KP"] / record.tipping,
        "stiffness_se": solution.parameters.table["KP"].standard_error / record.tipping,
        "AIC": solution.aic,
    }
    return solution, beside


def study(folder, records):
    """A task per record and law."""
    made = ks.Study(folder)
    made.cross(record={record.name: record for record in records}, law=list(LAWS))(fit)
    return made


def population(table):
    """Mean of the log stiffness over people, its spread between people and between records of one,
    by the method of moments of a one-way analysis of variance, as text."""
    rows = []
    for law, fits in table.groupby("law", sort=False):
        logs = np.log(fits["stiffness"] - 1.0).groupby(fits["subject"])
        means, counts = logs.mean(), logs.count()
        within = logs.var().mean()
        between = max(0.0, means.var() - within / counts.mean())
        middle, low, high = (
            1.0 + np.exp(means.mean() + k * np.sqrt(between)) for k in (0.0, -2.0, 2.0)
        )
        rows.append(
            f"  {law:4s} stiffness / mgh {middle:.2f}, of people {low:.2f} to {high:.2f}; "
            f"log of what exceeds 1: {np.sqrt(between):.2f} between people, "
            f"{np.sqrt(within):.2f} within"
        )
    return "\n".join(rows)


def preferred(table):
    """By how much the AIC of PID is below that of PD, of each record."""
    wide = table.pivot(index="record", columns="law", values="AIC")
    return wide["PD"] - wide["PID"]


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Run the study, or what is missing of it, print and draw what came of it."""
    records = measured()
    if nodes is not None:  # two people, a part of each record
        records = [
            r._replace(time=r.time[:nodes], pressure=r.pressure[:nodes] - r.pressure[:nodes].mean())
            for r in records
            if r.subject in {records[0].subject, records[-1].subject}
        ]
    made = study(out / "posture_study", records)
    table = made.run()
    print(made)
    fits = table[table["status"] == "done"]
    print(population(fits[fits["success"] == 1.0]))
    gain = preferred(fits)
    print(f"  {int((gain > 2).sum())} of {len(gain)} records prefer the integral by an AIC of 2")
    figure = made.plot("stiffness", by="subject")
    figure.axes[0].set_ylabel("stiffness / m g h")
    path = out / "posture_study.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return [path]
