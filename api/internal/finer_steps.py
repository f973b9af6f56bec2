"""Finer steps, by which the error of steps is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinesym.internal.simulation_arguments import Input, SimulationArguments
from kinesym.internal.steps import Steps
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.signal import Signal, with_jumps
from kinesym.symbolic.schemes import ADAPTIVE, EXPLICIT, SCHEMES

#: Tolerances are divided by so much; by less where rtol would become less than the tightest. From
#: one less than the least no error can be seen.
TIGHTER, TIGHTEST, LEAST = 100.0, 1e-14, 1e-13


@dataclass(frozen=True)
class FinerSteps:
    """steps : half as long, or with tighter tolerances. words : which of these. factor : of the
    difference, for the error of the steps (Hairer, Norsett, Wanner, Solving Ordinary Differential
    Equations I, section II.4)."""

    steps: Steps
    words: str
    factor: float


def finer_steps(steps: Steps) -> FinerSteps:
    """For some steps; raises `ValueError` for tolerances that cannot be tightened."""
    method, (rtol, atol) = steps.method, steps.tolerances
    if method in ADAPTIVE or (method in EXPLICIT and EXPLICIT[method].error):
        if rtol < LEAST:
            raise ValueError(
                "the error of a run is seen in one with tighter tolerances, which rounding does "
                f"not allow: rtol must be at least {LEAST:g} for that, it is {rtol:g}"
            )
        by = min(TIGHTER, rtol / TIGHTEST)
        made = replace(steps, tolerances=(rtol / by, atol / by))
        return FinerSteps(made, f"tolerances divided by {by:g}", 1.0)
    order = (EXPLICIT[method] if method in EXPLICIT else SCHEMES[method]).order
    made = replace(steps, substeps=2 * steps.substeps)
    return FinerSteps(made, "steps halved", 1.0 / (1.0 - 0.5**order))


def finer_arguments(given: SimulationArguments, finer: FinerSteps) -> SimulationArguments:
    """Of a model: the nodes and jumps of inputs with one more node halfway, so that inputs that
    bend are followed more closely, too."""
    each = [s for u in given.inputs.values() for s in ([u] if isinstance(u, Signal) else u)]
    grid, _ = with_jumps(given.time, [s for s in each if isinstance(s, Signal)])
    time = np.insert(grid, np.arange(1, len(grid)), 0.5 * (grid[1:] + grid[:-1]))
    inputs = {name: _on_grid(value, given.time, time) for name, value in given.inputs.items()}
    steps = replace(finer.steps, substeps=given.steps.substeps)
    return replace(given, time=time, inputs=inputs, steps=steps)


def _on_grid(value: Input, time: Array, finer: Array) -> Signal | Sequence[Signal] | Array:
    """Samples (M, N) of members on another grid, on straight lines; signals as they are."""
    if not isinstance(value, np.ndarray):
        return value
    node = np.clip(np.searchsorted(time, finer, side="right") - 1, 0, len(time) - 2)
    share = (finer - time[node]) / (time[node + 1] - time[node])
    return np.asarray((1.0 - share) * value[:, node] + share * value[:, node + 1])
