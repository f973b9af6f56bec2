"""Finer steps, to estimate the error of time stepping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinesym.internal.problems.method_index import highest_index
from kinesym.internal.problems.shooting_arguments import ShootingArguments
from kinesym.internal.problems.simulation_arguments import Input, SimulationArguments
from kinesym.internal.problems.step_options import Steps
from kinesym.runtime.arrays import Array, located
from kinesym.runtime.signals.experiment import MOST_NODES
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.schemes import EXPLICIT, SCHEMES

#: Factor by which tolerances are tightened; less where rtol would fall below `TIGHTEST`.
TIGHTER = 100.0
#: Least rtol of the finer run.
TIGHTEST = 1e-14
#: Least rtol of a run whose error can be estimated: below it rounding hides the error.
LEAST = 1e-13


@dataclass(frozen=True)
class FinerSteps:
    """steps : half as long, or with tighter tolerances. words : which of these. order : of the
    method, 0 if it chooses its steps. factor : of the difference, for the error of the steps
    (Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.4)."""

    steps: Steps
    words: str
    order: int
    factor: float


def finer_steps(steps: Steps) -> FinerSteps:
    """Finer steps: tolerances tightened, or fixed steps halved; raises `ValueError` for tolerances
    that cannot be tightened."""
    rtol, atol = steps.tolerances
    if not steps.adaptive:
        return halved_steps(steps)
    if rtol < LEAST:
        raise ValueError(
            "the error of a run is seen in one with tighter tolerances, which rounding does "
            f"not allow: rtol must be at least {LEAST:g} for that, it is {rtol:g}"
        )
    by = min(TIGHTER, rtol / TIGHTEST)
    made = replace(steps, tolerances=(rtol / by, atol / by))
    return FinerSteps(made, f"tolerances divided by {by:g}", 0, 1.0)


def halved_steps(steps: Steps) -> FinerSteps:
    """Steps of half the length, for methods with fixed steps."""
    order = (EXPLICIT.get(steps.method) or SCHEMES[steps.method]).order
    made = replace(steps, substeps=2 * steps.substeps)
    return FinerSteps(made, "steps halved", order, 1.0 / (1.0 - 0.5**order))


def finer_arguments(given: SimulationArguments, finer: FinerSteps) -> SimulationArguments:
    """Arguments of a simulation of a model on a finer grid: the nodes and jumps of inputs with one
    more node halfway, so that inputs that bend are followed more closely, too. Each node ends a
    step, so that no pulse that lasts longer than half an interval is stepped over."""
    grid, _ = given.grid
    time = np.insert(grid, np.arange(1, len(grid)), 0.5 * (grid[1:] + grid[:-1]))
    inputs = {name: _on_grid(value, given.time, time) for name, value in given.inputs.items()}
    steps = replace(finer.steps, substeps=given.steps.substeps)
    return replace(given, time=time, inputs=inputs, steps=steps, stops=True)


def finer_shooting(
    given: ShootingArguments, hybrid: bool
) -> tuple[ShootingArguments, FinerSteps, str]:
    """Arguments of shooting with finer steps, how these were made, and the name of a method of
    higher order, if there is one. Raises `ValueError` for steps that cannot be finer."""
    if hybrid or given.steps.adaptive:
        finer = finer_steps(given.steps)
        adaptive = next(name for name, scheme in EXPLICIT.items() if scheme.error)
        return replace(given, steps=finer.steps), finer, adaptive if finer.order else ""
    finer, unknowns = halved_steps(given.steps), given.unknowns
    if unknowns.inputs:
        raise ValueError("samples of unknown inputs are those at the ends of the steps")
    if finer.steps.substeps * max(trial.n_nodes for trial in given.trials) > MOST_NODES:
        raise ValueError(f"there are no grids of more than {MOST_NODES} nodes")
    fine = [trial.refined(finer.steps.substeps) for trial in given.trials]
    unknowns = replace(
        unknowns,
        segments=tuple(tuple(2 * k for k in begins) for begins in unknowns.segments),
        nodes=tuple(trial.n_nodes for trial in fine),
    )
    made = replace(given, fine=fine, unknowns=unknowns, steps=finer.steps)
    return made, finer, _higher(given.steps.method, finer.order)


def _higher(method: str, order: int) -> str:
    """The method of the highest order for any model that a method is for, if that is higher."""
    least = 0 if method in EXPLICIT else highest_index(method)
    able = [scheme for name, scheme in SCHEMES.items() if highest_index(name) >= least]
    best = max(able, key=lambda scheme: scheme.order)
    return best.name if best.order > order else ""


def _on_grid(value: Input, time: Array, finer: Array) -> Signal | Sequence[Signal] | Array:
    """Samples (M, N) of members on another grid, on straight lines; signals as they are."""
    if not isinstance(value, np.ndarray):
        return value
    node, share = located(time, finer)
    return np.asarray((1.0 - share) * value[:, node] + share * value[:, node + 1])
