"""The misfit of simulated trials as a function of the unknowns, for their log-density."""

from __future__ import annotations

from functools import cache

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.density import Misfit, Sloped
from kinesym.runtime.shooting.residuals import measured
from kinesym.runtime.shooting.scaled import log_of
from kinesym.runtime.shooting.task import Task
from kinesym.runtime.shooting.trials import Simulated


def misfit(task: Task, best: Array) -> Misfit:
    """Misfit of the trials of a task, which another q overwrites; best : its minimum. Gradients are
    those of adjoint sweeps, and of residuals by tangents; many points go side by side, where that
    can be."""
    trials, many = task.trials, cache(task.many)

    def squares(q: Array, sloped: bool) -> tuple[Array, Array]:
        if len(q) > 1 and (together := many()) is not None:
            return together(q)[:2]
        rows = [_squares(trials, row, sloped) for row in q]
        return np.array([J for J, _ in rows]), np.array([slope for _, slope in rows])

    def sloped(q: Array) -> Sloped | None:
        if not np.isfinite(trials.cost(q)):
            return None
        found, priors, factor = measured(trials, q), trials.priors, trials.factor
        about = (task.prior_squares(q), priors.gradient(q) / factor)
        return Sloped(found.residuals, found.slopes, found.samples, *about)

    unknowns, priors, logarithmic = trials.unknowns, trials.priors, log_of(trials.unknowns)
    logarithmic[priors.places] &= priors.log & (priors.powers == 0.0)  # else densities of p
    return Misfit(
        names=unknowns.names,
        best=best,
        bounds=task.bounds,
        logarithmic=logarithmic,
        heights=priors.heights,
        squares=squares,
        sloped=sloped,
    )


def _squares(trials: Simulated, q: Array, sloped: bool) -> tuple[float, Array]:
    J = trials.cost(q)
    if sloped and np.isfinite(J):
        return J, trials.gradient(q)
    return J, np.full_like(q, np.nan)
