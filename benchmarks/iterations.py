"""How many iterations do strategies of the barrier and of scaling take, and where do they end?

Problems of `published.py` and `examples/gallery/`: by the scheme of their source and by another
one, from the guess of the source, from random starts as in `starts.py`, and those of the gallery
from zeros and from straight lines too. A solve may take 500 iterations and 20 s. The first table is
of the problems among which the defaults were chosen, the second one of all others.

    python benchmarks/iterations.py [--problems NAME ...] [--starts 2]
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gallery
import numpy as np
import published
import starts
from numpy.typing import NDArray
from record import Table, table
from report import leave, machine, parsed

import kinesym as ks

Array = NDArray[np.float64]

#: Problems among which the defaults were chosen.
CHOSEN = (
    *("robot_arm", "goddard_rocket", "hang_glider", "catalyst_mixing", "bryson_denham"),
    *("brachistochrone", "alpha_pinene", "lynx_and_hare", "soleus", "standing_gains"),
    *("sliding_block", "bumpy_road", "pendulum_any_duration", "crane", "countersteer"),
)
_GRADIENT = {"nlp_scaling_method": "gradient-based"}
#: Options of IPOPT of each strategy.
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "monotone": {"mu_strategy": "monotone"},
    "adaptive": {"mu_strategy": "adaptive"},
    "gradient": _GRADIENT,
    "gradient, adaptive": {**_GRADIENT, "mu_strategy": "adaptive"},
}
#: Iterations and seconds of a solve; what one without a solution counts.
MOST, SECONDS = 500, 20.0
#: Relative difference of objectives that are the same.
NEAR = 1e-4
#: Another scheme for published problems, and nodes with it and from random starts.
OTHER, NODES = "hermite-simpson", 101
#: Problems of the gallery that are not one solve, or take minutes by their guess.
LEFT_OUT = ("hypersensitive", "refraction", "human_gait", "sit_to_stand", "one_legged_time_trial")


class Case(NamedTuple):
    """A problem, a name for its start, and the free vector to start from."""

    problem: ks.Collocation
    start: str
    z: Array


class Ended(NamedTuple):
    """Iterations of a solve and its objective, NaN without a solution."""

    iterations: int
    objective: float


def of_published(name: str, count: int) -> Iterator[Case]:
    """A published problem or identification: its guess by two schemes, and random starts."""
    if name in published.PROBLEMS:
        about = published.PROBLEMS[name]()
        for scheme in ({}, {"scheme": OTHER}):
            posed = about.posed if not scheme else published.PROBLEMS[name](NODES).posed
            problem = posed(threads=1, **scheme)
            guess = about.guess if not scheme else published.PROBLEMS[name](NODES).guess
            yield Case(problem, scheme.get("scheme", "source"), problem.pack(guess))
    about = starts.stated(name, NODES)
    problem = about.posed(threads=1)
    for k, z in enumerate(starts.points(problem, about, count)):
        yield Case(problem, f"random {k + 1}", z)


def of_gallery(name: str) -> Iterator[Case]:
    """A problem of the gallery from straight lines and from zeros."""
    problem = importlib.import_module(f"kinesym.examples.gallery.{name}").problem()
    yield Case(problem, "lines", problem.pack({}))
    yield Case(problem, "zeros", np.zeros(problem.n_variables))


def ended(case: Case, options: Mapping[str, Any]) -> Ended:
    """One plain solve."""
    try:
        found = case.problem.solve(
            case.z,
            max_iterations=MOST,
            seconds=SECONDS,
            options=options,
            ladder=False,
            progress=False,
        )
    except ValueError:  # a function is not finite there
        return Ended(MOST, np.nan)
    return Ended(found.iterations, found.objective if found.success else np.nan)


def cells(name: str, start: str, row: Sequence[Ended]) -> list[str]:
    """Iterations by strategy, in brackets at another optimum, `-` without a solution."""
    best = np.nanmin([e.objective for e in row]) if solved(row).any() else np.nan
    words = []
    for each in row:
        near = each.objective <= best + NEAR * max(abs(best), 1e-3)
        text = str(each.iterations) if near else f"({each.iterations})"
        words.append("-" if np.isnan(each.objective) else text)
    return [name, start, *words]


def solved(row: Sequence[Ended]) -> NDArray[np.bool_]:
    return np.isfinite([each.objective for each in row])


def summary(rows: Sequence[Sequence[Ended]]) -> list[list[str]]:
    """Sum, geometric mean, and share of solves with a solution; others count all iterations."""
    ok = np.array([solved(row) for row in rows])
    counts = np.array([[max(each.iterations, 1) for each in row] for row in rows], dtype=float)
    counts = np.where(ok, counts, MOST)
    lines = {
        "sum": [f"{v:.0f}" for v in counts.sum(axis=0)],
        "geometric mean": [f"{v:.1f}" for v in np.exp(np.log(counts).mean(axis=0))],
        "solved": [f"{v:.0%}" for v in ok.mean(axis=0)],
    }
    return [[words, "", *values] for words, values in lines.items()]


def measured(names: Sequence[str], count: int) -> tuple[Table, list[dict[str, Any]]]:
    """A table of these problems, and all numbers."""
    lines, rows, numbers = [], [], []
    for name in names:
        made = of_gallery(name) if name in gallery.PEERS else of_published(name, count)
        for case in made:
            row = [ended(case, options) for options in STRATEGIES.values()]
            lines.append(cells(name, case.start, row))
            print(*lines[-1], flush=True)
            rows.append(row)
            about = {"problem": name, "start": case.start}
            numbers += [
                {**about, "strategy": strategy, **each._asdict()}
                for strategy, each in zip(STRATEGIES, row, strict=True)
            ]
    return table(["problem", "start", *STRATEGIES], [*lines, *summary(rows)]), numbers


def main() -> None:
    every = [
        name for name in dict.fromkeys((*starts.PROBLEMS, *gallery.PEERS)) if name not in LEFT_OUT
    ]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=every, default=every)
    parser.add_argument("--starts", type=int, default=2)
    given = parsed(parser)
    warnings.simplefilter("ignore")
    words = machine()
    names = given.problems[: 2 if given.quick else None]
    parts: list[str | Table] = [f"{given.starts} random starts of each published problem."]
    numbers: list[dict[str, Any]] = []
    for chosen, title in ((True, "Chosen among these:"), (False, "All others:")):
        some = [name for name in names if (name in CHOSEN) == chosen]
        if some:
            found, rows = measured(some, given.starts)
            parts += [title, found]
            numbers += rows
    leave(given, "iterations", words, parts, numbers)


if __name__ == "__main__":
    main()
