"""The objective, and what measurements need beside it: standard deviations that are expressions,
sides of censored samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from kinesym.base.checks import shown
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.model import Model
from kinesym.symbolic.objective import (
    LeastSquares,
    Objective,
    magnitude,
    variation,
)


def spreads_of(
    model: Model, trials: Sequence[Experiment], objective: Objective
) -> dict[str, sp.Expr]:
    """Standard deviations that are expressions, of which the model has outputs, by measurement;
    none if the objective has no measurements. Raises `ValueError` beside a loss that is no
    likelihood."""
    names = {name: output for trial in trials for name, output in trial.std_outputs.items()}
    if names and objective.loss is not None and not objective.loss.likelihood:
        raise ValueError(
            f"std of {next(iter(names))} is an expression, and the loss {objective.loss.name} is "
            "no density, so that nothing tells it; take loss='student', or give std as a number"
        )
    return {n: model.outputs[output] for n, output in names.items() if objective.least_squares}


def sides_of(trials: Sequence[Experiment], objective: Objective) -> dict[str, int]:
    """Sides of censored measurements; raises `ValueError` beside a loss."""
    found = {name: side for trial in trials for name, (_, side) in trial.limits.items()}
    if found and objective.loss is not None:
        raise ValueError(
            f"{next(iter(found))} are censored samples, for which the noise is normal, and the "
            f"objective has the loss {objective.loss.name}; leave one of them out"
        )
    return found


def chosen_objective(objective: Any) -> Objective:
    """The objective, `LeastSquares` for None; raises `ValueError` for anything else."""
    chosen = LeastSquares() if objective is None else objective
    if not isinstance(chosen, Objective):
        raise ValueError(
            f"the objective {shown(chosen)} is not made of Integral, Terminal or LeastSquares; "
            "wrap it in one of them"
        )
    if chosen.integrand.atoms(magnitude, variation):
        raise ValueError("ks.l1 and ks.total_variation need unknown inputs; use ks.Collocation")
    return chosen
