"""Trials of a hybrid model for `ks.Shooting`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinesym.base.quiet import quietly
from kinesym.internal.problems.measured_terms import chosen_objective, sides_of, spreads_of
from kinesym.internal.problems.shooting_arguments import ShootingArguments
from kinesym.internal.problems.simulation_arguments import simulation_arguments
from kinesym.internal.running.jump_events import jump_sensitivities
from kinesym.runtime.hybrid.sensitivity import Sensitivities
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.shooting.hybrid_trials import HybridTrials, Runner
from kinesym.runtime.shooting.steady_start import SteadyStart
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.problem import measured_expressions


def hybrid_trials(hybrid: Hybrid, given: ShootingArguments) -> Simulated:
    """The trials of a hybrid model; raises `ValueError` for what does not fit."""
    factor, loss = _factor_of_squares(hybrid, given)
    return given.outer(_trials(hybrid, given.inner, factor, loss), factor)


def _trials(
    hybrid: Hybrid, given: ShootingArguments, factor: float, loss: RobustLoss | None
) -> HybridTrials:
    names = list(dict.fromkeys(name for trial in given.trials for name in trial.measurements))
    names += dict.fromkeys(n for trial in given.trials for n in trial.std_outputs.values())
    measured = measured_expressions(hybrid.model, names)
    if not measured:
        raise ValueError(
            "the objective is the least squares of the measurements, but the experiment has none; "
            "give measurements={...}"
        )
    for trial in given.trials:
        for name in trial.limits:
            raise ValueError(
                f"measurement {name} has censored samples, which shooting over events does not "
                "take; make such samples NaN"
            )
    observed = [name for name in measured if name not in hybrid.model.state_names]

    return HybridTrials(
        _runner(hybrid, given, observed),
        given.system,
        given.trials,
        given.starts,
        given.signals,
        given.unknowns,
        given.priors(factor),
        [rule for rule in given.following if not isinstance(rule, SteadyStart)],
        factor,
        loss,
    )


def _factor_of_squares(hybrid: Hybrid, given: ShootingArguments) -> tuple[float, RobustLoss | None]:
    """The factor of the least squares, the only term of the objective, and their loss."""
    objective = chosen_objective(given.objective)
    spreads_of(hybrid.model, given.trials, objective)  # raises for what a loss does not go with
    sides_of(given.trials, objective)
    if objective.integrand != 0 or objective.terminal != 0:
        raise ValueError(
            "the objective of a hybrid model is LeastSquares(); make what is to be small an output "
            "of the model, and measure it with the samples that it should have, such as zeros"
        )
    if not objective.least_squares > 0.0:
        raise ValueError(f"the measurements enter with the factor {objective.least_squares:g}")
    return objective.least_squares, RobustLoss.of(objective.loss)


def _runner(hybrid: Hybrid, given: ShootingArguments, observed: Sequence[str]) -> Runner:
    """A function that simulates a trial with its sensitivities, also of what is observed."""

    def run(
        number: int,
        start: Mapping[str, float],
        parameters: Mapping[str, float],
        inputs: Mapping[str, Signal],
    ) -> Sensitivities:
        with quietly():  # an early end is told by its message
            arguments = simulation_arguments(
                hybrid,
                given.trials[number].grid,
                start,
                parameters,
                inputs,
                given.steps,
                threads=1,
                progress=False,
            )
            return jump_sensitivities(hybrid, arguments, observed)

    return run
