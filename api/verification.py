"""`problem.verify(solution)`: the inputs that collocation has found, simulated forwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.verification import Verification
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal
from kinesym.simulation import simulate
from kinesym.symbolic.model import Model


def verified(
    model: Model,
    trials: Sequence[Experiment],
    solution: Solution,
    found: Sequence[Mapping[str, Signal]],
    histories: Sequence[Mapping[str, Signal]],
    segments: int,
) -> Verification:
    """Simulate every trial by an adaptive method, in `segments` that start from the solution.

    found : the unknown inputs of each trial. histories : signals before its start.
    """
    model = replace(model, invariants={})  # segments begin where the solution is
    simulated: list[dict[str, Array]] = []
    messages = []
    every = zip(trials, solution.trials, found, histories, strict=True)
    for trial, run, inputs, history in every:
        known = {**_given(model, trial, run), **inputs}
        rows, message = _simulated(model, run, known, history, segments)
        simulated.append(rows)
        messages += [message] if message else []
    names = [x for x in model.state_names if x not in model.vanishing]
    runs = solution.trials
    solved = {x: np.concatenate([run[x] for run in runs]) for x in names}
    return Verification(
        time=np.concatenate([run.time for run in runs]),
        trial=np.repeat(np.arange(len(runs)), [len(run.time) for run in runs]),
        solution=solved,
        simulated={x: np.concatenate([rows[x] for rows in simulated]) for x in names},
        ranges={x: float(np.ptp(row)) for x, row in solved.items()},
        segments=segments,
        message=messages[0] if messages else "",
    )


def _given(model: Model, trial: Experiment, run: Trajectory) -> dict[str, Signal]:
    """The known inputs of the model over the time of the solution."""
    known = {name: s for name, s in trial.signals.items() if name in model.input_names}
    if not trial.free_duration:
        return known
    T = run.time[-1] - run.time[0]
    return {name: signal.stretched(T) for name, signal in known.items()}


def _simulated(
    model: Model,
    run: Trajectory,
    inputs: Mapping[str, Signal],
    history: Mapping[str, Signal],
    segments: int,
) -> tuple[dict[str, Array], str]:
    """States at the nodes, NaN after a simulation that ends early, and why it does."""
    method: dict[str, Any] = {"method": "dormand-prince" if model.index.value == 0 else "radau-5"}
    N = len(run.time)
    rows = {x: np.full(N, np.nan) for x in model.state_names}
    edges = np.unique(np.linspace(0, N - 1, segments + 1).round().astype(int))
    message = ""
    for first, last in pairwise(edges):
        start = {x: float(run[x][first]) for x in model.state_names}
        part = simulate(
            model,
            run.time[first : last + 1],
            start,
            {p: run.parameters[p] for p in model.parameter_names},
            inputs,
            progress=False,
            history=history,
            **method,
        )
        message = message or part.message
        for x in model.state_names:
            reached = len(part.time)
            rows[x][first : first + reached] = part[x]
    return rows, message
