"""From how many random starts are published problems solved, plainly and by the ladder?

Starts are those of `multistart` with `detour=1`: parameters log-uniform within a factor of ten of
what is published, others between their bounds or so about the guess; trajectories that are not
measured are those of the guess, a course between the conditions at the ends where there is none,
plus correlated noise as large as themselves. A start counts if it ends at the best optimum that any
of them found, to 1e-5. Every solve may take 500 iterations.

    python benchmarks/starts.py [--problems NAME ...] [--starts 100] [--nodes 101]
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from published import PROBLEMS, Published
from report import machine, parsed, save, table, write

import kinesym as ks
from kinesym.internal.starts import drawn, natural_parameters, ranges_of, starting_points

#: Relative difference from the best objective, and iterations of each solve.
NEAR, MOST = 1e-5, 500


class Row(NamedTuple):
    """A problem: shares of starts that end at the best optimum, and at any; mean seconds each."""

    name: str
    starts: int
    plain: float
    plain_any: float
    plain_seconds: float
    ladder: float
    ladder_any: float
    ladder_seconds: float


def points(problem: ks.Collocation, published: Published, count: int) -> list[NDArray[np.float64]]:
    """Random starts, free vectors."""
    guess, names = published.guess, list(problem.layout.parameters)
    about = {name: (0.1 * p, 10.0 * p) for name, (p, _) in published.parameters.items()}
    z = problem.pack(guess)
    values, low, high = (
        natural_parameters(problem, each) for each in (z, *problem.variable_bounds)
    )
    rows = drawn(ranges_of(names, values, (low, high), about), count, 1)
    return list(starting_points(problem, guess, rows, names, 1.0, 1))


def solved(problem: ks.Collocation, z: NDArray[np.float64], ladder: bool) -> tuple[float, float]:
    """Objective, NaN without a solution, and seconds."""
    begin = time.thread_time()
    try:
        found = problem.solve(z, max_iterations=MOST, ladder=ladder)
    except ValueError:  # a function is not finite there
        return np.nan, time.thread_time() - begin
    return found.objective if found.success else np.nan, time.thread_time() - begin


def row(name: str, starts: int, nodes: int) -> Row:
    """One problem."""
    published = PROBLEMS[name](nodes)
    problem = published.posed()
    begins = points(problem, published, starts)
    known = problem.solve(published.guess).objective
    with ThreadPoolExecutor(ks.checks.threads()) as pool:
        runs = [
            np.array(list(pool.map(partial(solved, problem, ladder=ladder), begins)))
            for ladder in (False, True)
        ]
    best = np.nanmin([known, *(run[:, 0][~np.isnan(run[:, 0])].min(initial=known) for run in runs)])
    shares = []
    for run in runs:
        near = run[:, 0] <= best + NEAR * max(abs(best), 1e-3)
        shares += [near.mean(), np.isfinite(run[:, 0]).mean(), run[:, 1].mean()]
    return Row(name, starts, *map(float, shares))


HEADER = ["problem", "plain: best", "any", "s", "ladder: best", "any", "s"]


def cells(row: Row) -> list[str]:
    """One line of the table."""
    kinds = (".0%", ".0%", ".2f") * 2
    return [row.name, *(format(value, kind) for value, kind in zip(row[2:], kinds, strict=True))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=101)
    given = parsed(parser)
    warnings.simplefilter("ignore")
    rows = []
    for name in given.problems[: 2 if given.quick else None]:
        rows.append(row(name, 4 if given.quick else given.starts, given.nodes))
        print(*cells(rows[-1]), flush=True)
    whole = Row("mean", 0, *np.mean([r[2:] for r in rows], axis=0))
    print(*cells(whole))
    starts = f"{rows[0].starts} starts of each problem, {given.nodes} nodes."
    text = f"Machine: {machine()}. {starts}\n\n{table(HEADER, map(cells, (*rows, whole)))}"
    if given.report:
        save(given.report, "starts", text, [r._asdict() for r in rows])
    if given.write:
        write(text, "starts")


if __name__ == "__main__":
    main()
