"""What do threads save of the factorisation of a large KKT matrix, and with how many does it end?

The matrices are those of identifications and of optimal control near their solutions. For each
number of parts the seconds that a processor needs for the longest part and for what one thread does
alone are measured, which together are the time on as many idle cores; and, where this machine has
them, the time that it took.

    python benchmarks/threads.py --cases standing_6000 --threads 2 4
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from optima import pendulum
from record import table
from report import leave, machine, number, parsed
from scipy.sparse import tril
from solves import collocation, make_case, make_numbers

import kinesym as ks
from kinesym.runtime.native import UNKNOWN, Factorisation

REPEATS, LEAST = 40, 5  # factorisations of each, in turns; of those that take long
SECONDS = 20.0  # of a case
START = 20e-6  # s to start a thread, twice in a factorisation, as measured on an idle machine


class Matrix(NamedTuple):
    """Order, places and values of the lower triangle, stages."""

    rows: Any
    columns: Any
    values: Any
    stages: Any


class Row(NamedTuple):
    """Seconds: of the longest part and what is done alone; by the clock; of one solution, by the
    clock; of the analysis. delayed : columns."""

    case: str
    threads: int
    parts: int
    processor: float
    alone: float
    wall: float
    solution: float
    analysis: float
    delayed: int


def matrix_of(problem: ks.Collocation, z: Any, bounded: bool) -> Matrix:
    """Of the Lagrangian with small multipliers, of either sign; with what an interior-point method
    adds for variables at bounds."""
    rng, n, m = np.random.default_rng(0), len(z), problem.n_constraints
    hessian = tril(problem.lagrangian_hessian(z, 0.1 * rng.standard_normal(m))).tocoo()
    jacobian = problem.constraint_jacobian(z).tocoo()
    every = np.arange(n + m)
    sigma = 10.0 ** rng.uniform(-8, 4, n) * (rng.random(n) < 0.33) if bounded else np.zeros(n)
    return Matrix(
        np.concatenate([hessian.row, every[:n], jacobian.row + n, every[n:]]),
        np.concatenate([hessian.col, every[:n], jacobian.col, every[n:]]),
        np.concatenate([hessian.data, sigma, jacobian.data, np.zeros(m)]),
        np.append(problem.layout.stages(), np.full(m, UNKNOWN)),
    )


def identification(name: str, nodes: int, trials: int = 1) -> Matrix:
    """At the solution; for 10 links, which take long, at the guess."""
    case = make_case(name, make_numbers(name, nodes))
    problem = collocation(case, 1)
    if trials > 1:
        same, unknown = [problem.trials[0]] * trials, dict.fromkeys(case.unknown, case.bounds)
        problem = ks.Collocation(case.model, same, unknown=unknown, scheme="midpoint", threads=1)
    guess: Any = dict(zip(case.unknown, case.guess, strict=True))
    if name == "standing":
        guess = problem.solve(guess, progress=False)
    return matrix_of(problem, problem.pack(guess), bounded=False)


def swing_up(nodes: int) -> Matrix:
    posed = pendulum(nodes, duration=10.0, objective=lambda T: ks.Integral(T**2))
    found = posed.problem.solve(posed.guess, progress=False)
    return matrix_of(posed.problem, posed.problem.pack(found), bounded=True)


CASES = {
    "standing_600": lambda: identification("standing", 600),
    "standing_6000": lambda: identification("standing", 6000),
    "standing_60000": lambda: identification("standing", 60000),
    "three_trials_2000": lambda: identification("standing", 2000, trials=3),
    "10_links_1000": lambda: identification("n_link_10", 1000),
    "10_links_3000": lambda: identification("n_link_10", 3000),
    "swing_up_2000": lambda: swing_up(2000),
}


@cache
def cores() -> int:
    return len(os.sched_getaffinity(0))


def rows_of(name: str, threads: Sequence[int]) -> list[Row]:
    """The least of some repetitions in turns: others may use the machine."""
    m, made = CASES[name](), {}
    b = np.random.default_rng(0).standard_normal(len(m.stages))
    for n in threads:
        begin = time.perf_counter()
        f = Factorisation(len(b), m.rows, m.columns, m.stages, threads=n)
        made[n] = (f, time.perf_counter() - begin, [])
    begin = time.perf_counter()
    for k in range(REPEATS):
        if k >= LEAST and time.perf_counter() - begin > SECONDS:
            break
        for f, _, found in made.values():
            start = time.perf_counter()
            assert f.factorise(m.values) == "ok"
            middle = time.perf_counter()
            x = f.solve(b)
            end = time.perf_counter()
            *parts, alone = f.seconds
            found.append((max(parts), alone, middle - start, end - middle))
            assert f.residual(m.values, x, b)[1] < 1e-9
    assert len({f.about["negative"] for f, _, _ in made.values()}) == 1
    return [
        Row(name, n, f.about["parts"], *np.min(found, axis=0), analysis, f.about["delayed"])
        for n, (f, analysis, found) in made.items()
    ]


HEADER = "matrix, threads, parts, longest part [ms], alone [ms], model [ms], speed-up".split(", ")
HEADER += ["by the clock [ms]", "a solution [ms]", "analysis [ms]", "delayed"]


def cells(row: Row, first: Row) -> list[str]:
    """A line of the table; the clock says nothing with more threads than cores."""
    own, start = row.processor + row.alone, 2 * START * (row.parts - 1)
    clock = [number(1e3 * t) if row.parts <= cores() else "-" for t in (row.wall, row.solution)]
    return [
        row.case.replace("_", " "),
        *(str(row.threads), str(row.parts)),
        *(number(1e3 * t) for t in (row.processor, row.alone, own + start)),
        f"{(first.processor + first.alone) / (own + start):.2f}",
        *clock,
        *(number(1e3 * row.analysis), str(row.delayed)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[*CASES])
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 4, 8, 16, 32, 64])
    given = parsed(parser)
    lines, every = [], []
    for name in [*CASES][:1] if given.quick else given.cases:
        rows = rows_of(name, sorted({1, *given.threads}))
        every += rows
        lines += [cells(row, rows[0]) for row in rows]
        for line in lines[-len(rows) :]:
            print(*line, sep="  ", flush=True)
    leave(given, "threads", machine(), [table(HEADER, lines)], [row._asdict() for row in every])


if __name__ == "__main__":
    main()
