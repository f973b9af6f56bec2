"""The task of a fit by simulation: trials, bounds, and the same trials otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.estimation import Estimation
from kinesym.runtime.estimation.noise import follow
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.batched_squares import Squares
from kinesym.runtime.shooting.estimate_shifts import FinerTrials
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.signals.experiment import Experiment


@dataclass(frozen=True)
class Task:
    """Identification task: trials with standard deviations, bounds of their unknowns, and what
    makes the same trials otherwise.

    given : the trials as they were given. finer : makes the trials with finer steps; raises
    `ValueError` where it cannot. remeasured : the trials with other samples. combine : an
    expression at a trajectory, with `arguments`, `values` and `partly` as `Combination` of
    `kinesym.internal.fitting` has them. many : makes J at many q at once, None where that is not
    possible. gaps : sentences on samples that are left out.
    """

    trials: Simulated
    bounds: tuple[Array, Array]
    given: Sequence[Experiment]
    finer: Callable[[], FinerTrials]
    remeasured: Callable[[Record], Simulated]
    combine: Callable[[Any, Trajectory, Mapping[str, float]], Any]
    many: Callable[[], Callable[[Array], Squares] | None]
    gaps: Sequence[str] = ()
    timings: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def estimation(self) -> Estimation:
        """Estimation from the samples as they were given, whatever standard deviations `trials`
        have."""
        made = self.trials
        factor = made.factor if made.measured else 0.0
        about = (factor, made.loss, bool(made.priors), not made.weighted)
        free = made.unknowns.size - len(range(made.unknowns.size)[made.unknowns.inner])
        moving = made.weighted and follow(self.given, made.unknowns.owned.parameters)
        return Estimation(self.given, *about, taken=float(free) if moving else 0.0)

    def gradient(self, q: Array, J: float) -> Array:
        """d J/d q, NaN where there is none."""
        return self.trials.gradient(q) if np.isfinite(J) else np.full_like(q, np.nan)

    def prior_squares(self, q: Array) -> float:
        """Terms of priors in J, -2 log of their density but for a constant."""
        priors = self.trials.priors
        return priors.cost(q) / self.trials.factor if priors else 0.0
