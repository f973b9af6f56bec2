"""Do published problems of optimal control and identification end at their published optima?

The problems are stated in `problems/`, by kind; each function there returns one that is ready to be
solved. `PROBLEMS` are those that other benchmarks measure, too, by the schemes of their sources;
`COLLECTION` are all, see `collection.py`.

    python benchmarks/published.py [NAME ...] [--nodes N]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from problems import flight, mechanics, processes, regulators, singular
from problems.classic import (
    brachistochrone,
    brachistochrone_on_a_curve,
    bryson_denham,
    catalyst_mixing,
    goddard_rocket,
    hang_glider,
    hanging_chain,
    hypersensitive,
    hypersensitive_short,
    lotka_volterra_fishing,
    particle_steering,
    robot_arm,
    swing_up,
    two_links_on_a_cart,
)
from problems.identification import alpha_pinene, channel, gas_oil, lynx_and_hare, marine, methanol
from problems.statement import DATA, Array, Published, ends, explicit
from report import save
from scipy.optimize import brentq

import kinesym as ks

__all__ = ["COLLECTION", "DATA", "PROBLEMS", "Array", "Published", "ends", "explicit"]

PROBLEMS: Mapping[str, Callable[..., Published]] = {
    f.__name__: f
    for f in (
        brachistochrone,
        brachistochrone_on_a_curve,
        bryson_denham,
        hypersensitive,
        hypersensitive_short,
        robot_arm,
        goddard_rocket,
        hang_glider,
        catalyst_mixing,
        hanging_chain,
        particle_steering,
        lotka_volterra_fishing,
        swing_up,
        two_links_on_a_cart,
        gas_oil,
        alpha_pinene,
        lynx_and_hare,
        methanol,
        marine,
        channel,
    )
}


def _stated_in(module: ModuleType) -> dict[str, Callable[..., Published]]:
    """The problems of a file, in its order."""
    own = {name: f for name, f in vars(module).items() if not name.startswith("_") and callable(f)}
    return {name: f for name, f in own.items() if f.__module__ == module.__name__}


#: All published problems, by name.
COLLECTION: Mapping[str, Callable[..., Published]] = {
    **PROBLEMS,
    **{
        name: f
        for module in (regulators, singular, mechanics, flight, processes)
        for name, f in _stated_in(module).items()
    },
}


# -- closed forms ----------------------------------------------------------------------------------


def cycloid(x: float, y: float, g: float) -> float:
    """Least time from rest to a point x further and y deeper: r (a - sin a), r (1 - cos a)."""
    a = brentq(lambda a: (a - np.sin(a)) / (1.0 - np.cos(a)) - x / y, 0.01, 6.0)
    return a * np.sqrt(y / (1.0 - np.cos(a)) / g)


def catenary(length: float, low: float, high: float) -> float:
    """Least potential energy of a chain over a base of 1 between two heights: c cosh((s-d)/c) + e.

    length^2 - (high - low)^2 = (2 c sinh(1/(2 c)))^2 gives c; the rest follows in closed form.
    """
    rise = high - low
    c = brentq(lambda c: 2.0 * c * np.sinh(0.5 / c) - np.sqrt(length**2 - rise**2), 0.05, 5.0)
    d = 0.5 - c * np.arctanh(rise / length)
    e = low - c * np.cosh(d / c)
    height = c / 2.0 + c**2 / 4.0 * (np.sinh(2.0 * (1.0 - d) / c) + np.sinh(2.0 * d / c))
    return height + e * length


#: Objectives of the continuum.
CLOSED_FORMS: Mapping[str, Callable[[], float]] = {
    "brachistochrone": partial(cycloid, 2.0, 2.0, 9.8),
    "hanging_chain": partial(catenary, 4.0, 1.0, 3.0),
    "bryson_denham": partial(float, 4),
}


# -- report ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A solved problem; difference and misfit are relative, the misfit that of the parameters."""

    name: str
    published: Published
    solution: ks.Solution
    seconds: float

    @property
    def difference(self) -> float:
        """(objective - published)/|published|, of a published 0 the objective; NaN without one."""
        return self.published.difference(self.solution.objective)

    @property
    def misfit(self) -> float:
        """Largest difference of a parameter, in its tolerance; NaN without published ones."""
        known, found = self.published.parameters, self.solution.parameters
        return max((abs(found[k] - p) / tol for k, (p, tol) in known.items()), default=np.nan)

    @property
    def met(self) -> bool:
        """Whether the solver converged to what is published."""
        wrong = abs(self.difference) > self.published.tolerance or self.misfit > 1.0
        return self.solution.success and not wrong


def solve(name: str, nodes: int | None = None) -> Outcome:
    """Build and solve one problem with its own number of nodes, or with `nodes`.

    IPOPT's default tolerance, 1e-8, leaves about 1e-9 per bound in the objective, which thousands
    of bounded nodes make visible in the published digits.
    """
    start = time.perf_counter()
    published = COLLECTION[name]() if nodes is None else COLLECTION[name](nodes)
    solution = published.problem.solve(published.guess, tolerance=1e-9)
    return Outcome(name, published, solution, time.perf_counter() - start)


def header() -> str:
    """Titles of the columns."""
    return (
        f"{'problem':<27}{'nodes':>6}{'iterations':>11}{'objective':>15}{'published':>15}"
        f"{'difference':>12}{'seconds':>9}  source"
    )


def row(outcome: Outcome) -> str:
    """One line of the report; a problem that misses what is published gets a mark."""
    solution, published = outcome.solution, outcome.published
    value = "-" if published.value is None else f"{published.value:.9g}"
    difference = "-" if published.value is None else f"{outcome.difference:.1e}"
    mark = "" if outcome.met else f"  MISSED ({solution.message})"
    return (
        f"{outcome.name:<27}{len(solution.time):>6}{solution.iterations:>11}"
        f"{solution.objective:>15.9g}{value:>15}{difference:>12}{outcome.seconds:>9.2f}"
        f"  {published.source}{mark}"
    )


def parameter_rows(outcome: Outcome) -> list[str]:
    """Identified and published parameters, one per line."""
    return [
        f"    {name:<23}{outcome.solution.parameters[name]:>32.7g}{value:>15.7g}"
        f"{(outcome.solution.parameters[name] - value) / value:>12.1e}"
        for name, (value, _) in outcome.published.parameters.items()
    ]


def numbers(outcome: Outcome) -> dict[str, Any]:
    """A line of the raw numbers."""
    solution, published = outcome.solution, outcome.published
    return {
        "problem": outcome.name,
        "nodes": len(solution.time),
        "iterations": solution.iterations,
        "objective": solution.objective,
        "published": published.value,
        "difference": outcome.difference,
        "tolerance": published.tolerance,
        "seconds": outcome.seconds,
        "met": outcome.met,
        "source": published.source,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Solve the named problems (default: all), print a table; 1 if one misses what is published."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(COLLECTION))
    parser.add_argument("--nodes", type=int, help="instead of the number that belongs to a problem")
    parser.add_argument("--quick", action="store_true", help="only two of them")
    parser.add_argument("--report", metavar="FOLDER", help="leave text and numbers there")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in COLLECTION]
    if unknown:
        parser.error(f"there is no problem {unknown[0]}; there are {', '.join(COLLECTION)}")
    lines, outcomes = [header()], []
    print(lines[0])
    for name in options.names or list(PROBLEMS)[: 2 if options.quick else None]:
        outcomes.append(solve(name, options.nodes))
        new = [row(outcomes[-1]), *parameter_rows(outcomes[-1])]
        print("\n".join(new), flush=True)
        lines += new
    if options.report:
        text = "\n".join(["```", *lines, "```"])
        save(options.report, "published", text, [numbers(outcome) for outcome in outcomes])
    return 0 if all(outcome.met for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
