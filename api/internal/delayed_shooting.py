"""Trials of a model with delays for `ks.Shooting`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache, partial

import numpy as np

from kinesym.internal.bands import slopes_library
from kinesym.internal.discretised import Discretised
from kinesym.internal.model_run import model_results
from kinesym.internal.shooting_arguments import ShootingArguments
from kinesym.internal.simulation_arguments import simulation_arguments
from kinesym.internal.steps import Steps
from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.stepping.collocated_shooting import CollocatedTrials, Discretisation
from kinesym.runtime.stepping.simulated import Diverged


def delayed_trials(given: ShootingArguments) -> CollocatedTrials:
    """The trials of a model with delays; raises `ValueError` for what does not fit."""
    problem = Discretised(
        given.model,
        given.fine,
        {name: p.in_natural_scale for name, p in given.unknown.items()},
        _shared(given),
        given.steps.method,
        given.objective,
        threads=given.threads,
    )
    objective = problem.symbolic.objective
    squares = bool(objective.least_squares)
    alone = objective.integrand == 0 and objective.terminal == 0

    @cache
    def residuals() -> NLP:
        if not (squares and alone):
            raise ValueError(
                "the objective has more than LeastSquares of measurements, so that there are no "
                "residuals; use optimizer='bfgs'"
            )
        return problem._residuals

    made = CollocatedTrials(
        given.unknowns,
        given.system,
        given.trials,
        given.priors(objective.least_squares or 1.0),
        made=Discretisation(
            problem.nlp,
            residuals,
            partial(slopes_library, problem.symbolic),
            partial(_near, given, problem),
        ),
        fine=given.fine,
        initial=given.starts,
        substeps=given.steps.substeps,
        measured=squares,
        weighted=alone,
        factor=objective.least_squares or 1.0,
        loss=RobustLoss.of(objective.loss),
    )
    if not made.square:
        raise ValueError(
            f"model {given.model.name} has algebraic states and delays, which Shooting does not "
            "solve for together; use ks.Collocation"
        )
    return made


def _shared(given: ShootingArguments) -> dict[str, float]:
    """Known parameters that the trials do not say themselves."""
    first = given.known[0]
    return {p: first[p] for p in first if all(p not in trial.parameters for trial in given.trials)}


def _near(
    given: ShootingArguments,
    problem: Discretised,
    values: Sequence[Mapping[str, float]],
    starts: Sequence[Mapping[str, float]],
) -> Array:
    """The free vector of simulated trials."""
    every = zip(given.fine, values, starts, strict=True)
    runs = [_simulated(given, *one) for one in every]
    return problem.pack(runs)


def _simulated(
    given: ShootingArguments,
    trial: Experiment,
    values: Mapping[str, float],
    start: Mapping[str, float],
) -> Trajectory:
    """A trial on the grid of its steps; raises `Diverged`."""
    names = given.model.parameter_names
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", UserWarning)  # an early end is told by its message
        arguments = simulation_arguments(
            given.model,
            trial.grid,
            start,
            {name: values[name] for name in names},
            trial.signals,
            Steps(given.steps.method, 1, given.steps.tolerances),
            threads=1,
            progress=False,
            history=trial.history,
        )
        run = model_results(given.model, arguments)
    assert isinstance(run, Trajectory)
    if len(run.time) < trial.n_nodes:
        raise Diverged(f"the simulation of {given.model.name}: {run.message}")
    return run
