"""Guesses from results: values by name from a `Solution`, a `Fit` or trajectories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.collocation import filled
from kinesym.runtime.nlp.courses import lines
from kinesym.runtime.nlp.layout import FAMILIES, Block, Layout
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal


def values_of_results(
    result: Any, layout: Layout, trials: Sequence[Experiment]
) -> dict[str, Any] | None:
    """Guess by name from a `Solution`, a `Fit`, a `Trajectory` or a list of these, one per trial,
    in relative time: from a solution by the polynomials of its scheme, from others by linear
    interpolation, also over NaN. None for other objects. Raises `ValueError` if there are not as
    many trials, or one has less than two instants."""
    runs = result.trials if isinstance(result, Trials) else result
    runs = [runs] if isinstance(runs, Trajectory) else runs
    if not isinstance(runs, Sequence) or not runs:
        return None
    if not all(isinstance(run, Trajectory) for run in runs):
        return None
    if len(runs) != len(trials):
        raise ValueError(f"the guess has {len(runs)} trials, this problem {len(trials)}")
    for number, run in enumerate(runs):
        if len(run.time) < 2:
            raise ValueError(f"the guess of trial {number} has less than two instants")
    values = runs[0].parameters
    if isinstance(result, Trials):
        values = {**result.known, **result.parameters}
    guess: dict[str, Any] = {}
    times = [_moved(run.time, trial.grid) for run, trial in zip(runs, trials, strict=True)]
    known = _polynomials(result, times) if isinstance(result, Solution) else [{} for _ in runs]
    for name in (*layout.states, *layout.inputs):
        if all(
            name in own or (name in {**run.states, **run.inputs} and not np.isnan(run[name]).all())
            for run, own in zip(runs, known, strict=True)
        ):
            guess[name] = [
                own[name] if name in own else lines(filled(run[name], time), time)
                for run, own, time in zip(runs, known, times, strict=True)
            ]
    guess.update(_parameters_of_results(layout.owned, values, runs))
    if layout.free_duration:
        guess["duration"] = [float(run.time[-1] - run.time[0]) for run in runs]
    return guess


def _parameters_of_results(
    owned: Owned, values: Mapping[str, float], runs: Sequence[Trajectory]
) -> dict[str, float]:
    """Values of the unknown parameters of a result, by name: `values` of all trials, or those of a
    trial."""
    found: dict[str, float] = {}
    for name, p, trial in zip(owned.names, owned.members, owned.first_trials, strict=True):
        own = runs[trial].parameters
        every = {**own, **values} if name == p else {**values, **own}
        found |= {name: every[p]} if p in every else {}
    return found


def _moved(time: Array, grid: Array) -> Array:
    """Times of a result, shifted and stretched to the span of a grid."""
    ends = time[[0, -1]], grid[[0, -1]]
    if np.array_equal(*ends):
        return time
    share = (time - time[0]) / (time[-1] - time[0])
    return np.asarray((1.0 - share) * grid[0] + share * grid[-1])


def _polynomials(solution: Solution, times: Sequence[Array]) -> list[dict[str, Signal]]:
    """Polynomials of the scheme for the unknowns of each trial of a solution, over these times of
    its nodes; without unknowns that have a single stage, for which linear interpolation is better.
    """
    arrays = solution.problem.get("arrays", ())
    blocks = tuple(Block(name, tuple(members), place) for name, members, place in arrays)
    held, labels = frozenset(solution.problem.get("held", ())), dict.fromkeys(FAMILIES, ())
    layout = Layout(blocks, (), (), held, Owned((), ()), labels, tuple(times), False)
    count = Counter(name for block in blocks for name in block.members)
    single = {name for b in blocks if b.place is not None for name in b.members if count[name] == 1}
    every = (layout.signals(solution.free_vector, k, time) for k, time in enumerate(times))
    return [{name: s for name, s in each.items() if name not in single} for each in every]
