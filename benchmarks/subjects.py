"""What do more subjects cost, each with parameters of its own?

A controlled pendulum on a shaking platform: stiffness per subject, damping of all, three trials per
subject of 6,000 nodes. Each size runs in a process of its own: problem, solution and covariance, in
seconds of the processor spent by the program itself, and its peak memory.

    python benchmarks/subjects.py [--subjects N ...] [--nodes N] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import sympy as sp
from record import table
from report import in_process, leave, machine, parsed

import kinesym as ks

SUBJECTS, NODES, TRIALS = (5, 10, 20, 40), 6000, 3
NOISE = 0.005  # [rad]


@dataclass(frozen=True)
class Cost:
    """Seconds of the processor, peak memory [GB], iterations; and by how many standard errors
    estimates are off (root mean square)."""

    subjects: int
    make: float
    solve: float
    covariance: float
    memory: float
    iterations: int
    off: float

    @property
    def seconds(self) -> float:
        """All together."""
        return self.make + self.solve + self.covariance


def measured(subjects: int, nodes: int) -> Cost:
    """The cost of so many subjects; memory is the peak of this process."""
    theta, omega, a = ks.dynamicsymbols("theta omega a")
    stiffness, damping = sp.symbols("stiffness damping")
    torque = stiffness * theta + damping * omega
    model = ks.Model(
        "controlled_pendulum",
        [theta, omega],
        [a],
        [stiffness, damping],
        [theta.diff(ks.t) - omega, omega.diff(ks.t) - 9.81 * sp.sin(theta) + torque - a],
    )
    rng, time, trials = np.random.default_rng(0), 0.01 * np.arange(nodes), []
    true = {"damping": 4.0}
    for who in range(subjects):
        values = {stiffness: 20.0 + 10.0 * rng.uniform(), damping: 4.0}
        true[f"stiffness[s{who}]"] = values[stiffness]
        for _ in range(TRIALS):
            push = 0.5 * np.sin(np.outer(time, np.arange(1.0, 14.0, 1.7)) + rng.uniform(0, 6, 8))
            shaken = {a: push.sum(axis=1)}
            run = ks.simulate(model, time, {theta: 0.0, omega: 0.0}, values, shaken)
            angle = run["theta"] + NOISE * rng.standard_normal(nodes)
            labels = {"subject": f"s{who}"}
            trials.append(
                ks.Experiment(time, shaken, {theta: angle}, {theta: NOISE}, labels=labels)
            )
    spent = [os.times().user]
    unknown = {stiffness: ks.per("subject", (5, 100)), damping: (0, 20)}
    problem = ks.Collocation(model, trials, unknown)
    spent.append(os.times().user)
    found = problem.solve({stiffness: 15.0, damping: 2.0})
    spent.append(os.times().user)
    errors = np.sqrt(np.diag(problem.covariance(found)))
    spent.append(os.times().user)
    shares = [(v - true[p]) / e for (p, v), e in zip(found.parameters.items(), errors, strict=True)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    off = float(np.sqrt(np.mean(np.square(shares))))
    return Cost(subjects, *np.diff(spent).tolist(), memory, found.iterations, off)


HEADER = ["subjects", "make [s]", "solve [s]", "covariance [s]", "all [s]", "memory [GB]"]


def cells(cost: Cost) -> list[str]:
    """One line of the table."""
    times = (cost.make, cost.solve, cost.covariance, cost.seconds, cost.memory)
    numbers = [f"{value:.2f}" for value in times]
    return [str(cost.subjects), *numbers, str(cost.iterations), f"{cost.off:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--subjects", nargs="+", type=int, default=list(SUBJECTS))
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--one", action="store_true", help="measure in this process, print JSON")
    given = parsed(parser)
    if given.one:
        print(json.dumps(asdict(measured(given.subjects[0], given.nodes))))
        return
    sizes, nodes = (given.subjects[:2], 200) if given.quick else (given.subjects, given.nodes)
    costs = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = [__file__, "--one", "--subjects", str(size), "--nodes", str(nodes)]
            made, failure = in_process(command, 3600.0, Path(folder))
        if failure:
            raise SystemExit(f"{size} subjects: {failure}")
        costs.append(Cost(**made))
        print(*cells(costs[-1]), flush=True)
    first, last = costs[0], costs[-1]
    growth = np.log(last.seconds / first.seconds) / np.log(last.subjects / first.subjects)
    parts = [
        f"With {nodes} nodes per trial the time grows as the number of subjects to the power "
        f"{growth:.2f}.",
        table([*HEADER, "iterations", "off [std. errors]"], map(cells, costs)),
    ]
    leave(given, "subjects", machine(), parts, [asdict(cost) for cost in costs])


if __name__ == "__main__":
    main()
