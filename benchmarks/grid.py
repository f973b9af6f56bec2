"""Is the error of the grid what it is said to be?

Published problems of optimal control and identification on coarse grids, by several schemes; truth
is where the same problem by Radau IIA of order 5 on a grid 16 times as fine ends from there.
Estimated and true shifts of the objective, or of the parameter that is farthest off, and how long
the certificate took.

    python benchmarks/grid.py [--problems NAME ...] [--write]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import published
import sympy as sp
from published import Published, explicit
from record import table
from report import leave, machine, parsed

import kinesym as ks

SCHEMES = ("midpoint", "radau-3", "hermite-simpson", "radau-5")
FINER = 16


@dataclass(frozen=True)
class Case:
    """A problem on a coarse grid: nodes, and what shifts if not the objective."""

    make: Callable[[int], Published]
    nodes: int
    fitted: bool = False

    @property
    def tolerance(self) -> float:
        """Of IPOPT; residuals of measurements leave no more digits."""
        return 1e-8 if self.fitted else 1e-10


@dataclass(frozen=True)
class Verdict:
    """What was said of a solution, and what is true: shifts relative to the value, seconds."""

    problem: str
    scheme: str
    nodes: int
    what: str
    estimated: float
    true: float
    solve: float
    certificate: float

    @property
    def ratio(self) -> float:
        """Estimated by true."""
        return self.estimated / self.true if self.true else np.nan


def oscillator(nodes: int) -> Published:
    """A damped oscillator of 5 Hz, its position sampled at 100 Hz."""
    x, v, k, c = *ks.dynamicsymbols("x v"), *sp.symbols("k c")
    time = np.linspace(0.0, 5.0, 501)
    clean = np.exp(-time / 4) * np.cos(np.sqrt(1000 - 1 / 16) * time)
    samples = clean + 1e-3 * np.random.default_rng(0).normal(size=time.size)
    model = explicit("oscillator", {x: v, v: -k * x - c * v}, parameters=[k, c])
    trial = ks.Experiment(time, measurements={x: samples}, std={x: 1e-3})
    parts = max(1, (nodes - 1) // 500)
    unknown = {k: (1, 1e4), c: (0, 10)}
    posed = partial(ks.Collocation, model, trial.refined(parts), unknown=unknown)
    return Published(posed, "simulated", guess={k: 900.0, c: 1.0})


def pendulum(nodes: int) -> Published:
    """A pendulum that swings widely, its angle sampled at 10 Hz."""
    q, v, k, c = *ks.dynamicsymbols("q v"), *sp.symbols("k c")
    model = explicit("pendulum", {q: v, v: -k * sp.sin(q) - c * v}, parameters=[k, c])
    time = np.linspace(0.0, 8.0, 81)
    fine = np.linspace(0.0, 8.0, 8001)
    run = ks.simulate(model, fine, {q: 2.0, v: 0.0}, {k: 10.0, c: 0.2})
    samples = run["q"][::100] + 1e-3 * np.random.default_rng(1).normal(size=time.size)
    trial = ks.Experiment(time, measurements={q: samples}, std={q: 1e-3})
    posed = partial(
        ks.Collocation,
        model,
        trial.refined(max(1, (nodes - 1) // 80)),
        unknown={k: (1, 50), c: (0, 5)},
    )
    return Published(posed, "simulated", guess={k: 9.0, c: 0.1})


def standing(nodes: int) -> Published:
    """Eight gains of a standing plant, its states sampled at 50 Hz for 20 s."""
    model = ks.models.standing()
    time = np.linspace(0.0, 20.0, 1001)
    fine = np.linspace(0.0, 20.0, 20001)
    push = ks.Signal(fine, 0.8 * np.sin(2 * fine) + 0.6 * np.sin(5.3 * fine), between="cubic")
    names = ["theta_a", "theta_h", "omega_a", "omega_h"]
    run = ks.simulate(model, fine, dict.fromkeys(names, 0.0), inputs={"a": push})
    rng = np.random.default_rng(2)
    measured = {x: run[x][::20] + 1e-3 * rng.normal(size=1001) for x in names}
    trial = ks.Experiment(
        time, inputs={"a": push}, measurements=measured, std=dict.fromkeys(names, 1e-3)
    )
    gains = [f"k_{i}{j}" for i in range(2) for j in range(4)]
    parts = max(1, (nodes - 1) // 1000)
    posed = partial(ks.Collocation, model, trial.refined(parts), unknown=dict.fromkeys(gains))
    return Published(posed, "simulated", guess={g: 0.9 * model.values[g] for g in gains})


CASES: Mapping[str, Case] = {
    "brachistochrone": Case(published.brachistochrone, 13),
    "brachistochrone_on_a_curve": Case(published.brachistochrone_on_a_curve, 25),
    "bryson_denham": Case(published.bryson_denham, 31),
    "hypersensitive_short": Case(published.hypersensitive_short, 51),
    "hypersensitive": Case(published.hypersensitive, 151),
    "robot_arm": Case(published.robot_arm, 51),
    "goddard_rocket": Case(published.goddard_rocket, 51),
    "hang_glider": Case(published.hang_glider, 51),
    "catalyst_mixing": Case(published.catalyst_mixing, 51),
    "hanging_chain": Case(published.hanging_chain, 21),
    "particle_steering": Case(published.particle_steering, 26),
    "lotka_volterra_fishing": Case(published.lotka_volterra_fishing, 61),
    "swing_up": Case(published.swing_up, 51),
    "two_links_on_a_cart": Case(published.two_links_on_a_cart, 61),
    "gas_oil": Case(published.gas_oil, 21, fitted=True),
    "alpha_pinene": Case(published.alpha_pinene, 9, fitted=True),
    "lynx_and_hare": Case(published.lynx_and_hare, 21, fitted=True),
    "oscillator": Case(oscillator, 501, fitted=True),
    "pendulum": Case(pendulum, 81, fitted=True),
    "standing": Case(standing, 1001, fitted=True),
}


def truth(case: Case, solution: ks.Solution) -> ks.Solution:
    """The solution next to another one, on the fine grid."""
    stated = case.make(FINER * (case.nodes - 1) + 1)
    return stated.posed(scheme="radau-5").solve(solution, tolerance=case.tolerance)


def verdict(name: str, case: Case, scheme: str) -> Verdict | None:
    """Of one solution; None if the scheme cannot treat the problem or it does not converge."""
    stated = case.make(case.nodes)
    try:
        solution = stated.posed(scheme=scheme).solve(stated.guess, tolerance=case.tolerance)
    except ValueError:
        return None
    if not (solution.success and (best := truth(case, solution)).success):
        return None
    error, seconds = solution.grid_error(), solution.timings
    what, shift = "objective", error.objective
    value, off = best.objective, best.objective - solution.objective
    if case.fitted:
        what = max(error.parameters, key=lambda p: abs(error.parameters[p] / best.parameters[p]))
        shift, value = error.parameters[what], best.parameters[what]
        off = value - solution.parameters[what]
    took = seconds["total"] - seconds["derive"] - seconds["compile"] - seconds["grid"]
    scale = abs(value) or 1.0
    nodes = len(solution.time)
    return Verdict(name, scheme, nodes, what, shift / scale, off / scale, took, seconds["grid"])


HEADER = ["problem", "scheme", "nodes", "shift of", "estimated", "true", "ratio", "solve [ms]"]


def cells(name: str, scheme: str, row: Verdict | None) -> list[str]:
    """One line of the table."""
    if row is None:
        return [name, scheme, *["-"] * (len(HEADER) - 1)]
    shifts = [f"{row.estimated:.1e}", f"{row.true:.1e}", f"{row.ratio:.2f}"]
    times = [f"{1e3 * row.solve:.0f}", f"{1e3 * row.certificate:.0f}"]
    return [name, scheme, str(row.nodes), row.what, *shifts, *times]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=CASES, default=list(CASES))
    given = parsed(parser)
    warnings.simplefilter("ignore")
    lines, rows = [], []
    for name in given.problems[: 2 if given.quick else None]:
        for scheme in SCHEMES:
            row = verdict(name, CASES[name], scheme)
            rows += [asdict(row)] if row else []
            lines.append(cells(name, scheme, row))
            print(*lines[-1], flush=True)
    close = [1 / 3 <= row["estimated"] / row["true"] <= 3 for row in rows if row["true"]]
    share = f"{sum(close)} of {len(close)} estimates are within a factor of 3 of the truth."
    leave(given, "grid", machine(), [share, table([*HEADER, "error [ms]"], lines)], rows)


if __name__ == "__main__":
    main()
