"""Conditions on the arguments of `ks.Shooting`, with a sentence for each that is not met."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base import checks
from kinesym.internal.problems.controls import is_limited
from kinesym.internal.problems.delay_sources import check_late
from kinesym.internal.problems.parameters import Unknown, is_random
from kinesym.internal.problems.step_options import Steps
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.history import known_history
from kinesym.runtime.summary import listed as words_of
from kinesym.symbolic.derivation import all_atoms
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model, kinks_of
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import algebraic_states


def check_loss(objective: Any, segments: int, unknown_inputs: Any) -> None:
    """Raise `ValueError` for a loss with kinks where steps do not go over these."""
    loss = objective.loss if isinstance(objective, Objective) else None
    if loss is not None and loss.kinked and (segments != 1 or unknown_inputs):
        raise ValueError(
            "absolute values, loss='laplace', have a kink at each sample, over which ks.Shooting "
            "steps in one segment and without unknown inputs; use ks.Collocation"
        )


def check_steps(steps: Steps, late: Mapping[str, sp.Symbol]) -> None:
    """Raise `ValueError` for steps that samples with unknown delays would be moved between."""
    if late and steps.adaptive:
        raise ValueError(
            f"the delay of sensor {next(iter(late))} is unknown, and its samples move between "
            f"steps, which {steps.method} makes as long as its tolerances allow; use fixed steps, "
            "of rk4, or of an implicit method with substeps"
        )


def check_threads(threads: int | None, hybrid: bool) -> None:
    """Raise `ValueError` for what is no number of threads; None stays: each process decides."""
    checks.threads(threads)
    if hybrid and threads is not None:
        raise ValueError("threads are for trials of a model; those of a hybrid model take turns")


def check_beside_delays(
    system: Model | Hybrid,
    model: Model,
    trials: Sequence[Experiment],
    segments: int,
    unknown_inputs: Any,
) -> None:
    """Raise `ValueError` for what shooting does not support beside delays."""
    where = f"model {model.name} has delays ({model.delays[0].name})"
    algebraic = ", ".join(map(name_of, algebraic_states(model)))
    for what, there in (
        ("over events of a hybrid model", isinstance(system, Hybrid)),
        ("with several segments, as a delay would reach back into the one before", segments > 1),
        ("beside unknown inputs", bool(unknown_inputs)),
        (f"beside algebraic states, {algebraic}, which have no rate", bool(algebraic)),
    ):
        if there:
            raise ValueError(f"{where}; Shooting has none {what}: use ks.Collocation")
    check_late(model, trials)
    for trial in trials:
        known_history(trial.history, "shooting")


def check_distributions(unknown: Mapping[str, Unknown]) -> None:
    """Raise `ValueError` for a parameter whose distribution is unknown."""
    for name, given in unknown.items():
        if is_random(given):
            raise ValueError(
                f"the distribution of {name} is unknown, which Shooting does not estimate: give "
                "numbers for its mean and sd, or use ks.Collocation"
            )


def at_nodes(
    trial: Experiment, free: Mapping[str, Any], late: Mapping[str, sp.Symbol], hybrid: bool
) -> Experiment:
    """The trial with a node at each sample, at which the simulation then is, but those that are
    `late` by an unknown delay."""
    if late and hybrid:
        sensor, delay = next(iter(late.items()))
        raise ValueError(
            f"the delay {delay} of sensor {sensor} is unknown, and states of a hybrid model jump "
            "at events, which its samples would pass; give a value, or use the model without events"
        )
    if trial.timed and free:
        raise ValueError(
            f"{words_of(trial.timed)} is measured at times of its own, which become nodes in "
            f"shooting, and input {words_of(free)} is unknown at each node; use ks.Collocation, or "
            "measure at the nodes"
        )
    return trial.with_nodes_at_samples(but=late)


def warn_of_kinks(system: Model | Hybrid, model: Model, switches: Collection[str]) -> None:
    """Warn if an equation of the model has a kink, naming it; in a hybrid model, where inputs break
    and muscles know it, if a state may pass it. Those at known times, of `switches`, are ends of
    steps."""
    expressions = {f"equation {i}": e for i, e in enumerate(model.equations)}
    expressions |= {f"intermediate {name_of(s)}": e for s, e in model.intermediates}
    moving = {*model.states, *(s for s, _ in model.intermediates)}
    for where, expression in expressions.items():
        kinks = [kink for kink in kinks_of(expression) if not _is_held(kink, switches)]
        if isinstance(system, Hybrid):
            kinks = [kink for kink in kinks if kink.atoms(AppliedUndef, sp.Symbol) & moving]
        if kinks:
            remedy = "make it an event" if isinstance(system, Hybrid) else "smooth it"
            warnings.warn(
                f"{where} of {model.name} contains {kinks[0]}: where a trajectory passes its kink, "
                f"gradients are one-sided; {remedy} if the optimiser stalls",
                stacklevel=3,
            )
            return


def _is_held(kink: sp.Expr, switches: Collection[str]) -> bool:
    """Whether all cases of a kink are told apart by inputs that are held."""
    conditions = [case.cond for case in kink.args] if isinstance(kink, sp.Piecewise) else [kink]
    return all(
        {name_of(u) for u in c.atoms(AppliedUndef)} <= {*switches} and c.atoms(sp.Symbol) <= {t}
        for c in conditions
    )


def check_invariants(model: Model, unknown: Sequence[str]) -> None:
    """Raise `ValueError` where unknown starts or parameters would leave what is zero along every
    motion of the model: shooting has no conditions."""
    own = {*model.states, *model.parameters}
    bound = {
        name: {name_of(x) for x in all_atoms(model.intermediates, model.outputs[name]) & own}
        for name in model.invariants
    }
    free = [name for name in unknown if any(name in names for names in bound.values())]
    if free:
        which = next(name for name, names in bound.items() if free[0] in names)
        every = set().union(*bound.values())
        may = [name for name in model.state_names if name not in every]
        words = f"the start of {', '.join(may)} may be unknown; " if may else ""
        raise ValueError(
            f"{' and '.join(free[:5])} cannot be unknown: a motion of {model.name} must start with "
            f"{which} = {model.outputs[which]} = 0, and shooting has no conditions at the start; "
            f"{words}give numbers that agree (ks.consistent finds them), or use ks.Collocation, "
            "which has these conditions"
        )


def check_unknowns(
    hybrid: bool,
    trials: Sequence[Experiment],
    steps: Steps,
    segments: int,
    inputs: Mapping[str, Any],
) -> None:
    """Raise `ValueError` for unknowns or steps that shooting does not support."""
    if steps.substeps > 1 and inputs:
        raise ValueError("unknown inputs need substeps=1; refine the grid of the experiment")
    if hybrid and inputs:
        raise ValueError(
            "samples of inputs of a hybrid model cannot be unknown; give pieces of the input as "
            "expressions of parameters, and make these unknown"
        )
    if hybrid and segments > 1:
        raise ValueError(
            "segments would begin without knowing which contacts press there; shoot over shorter "
            "trials, or use ks.Collocation with ks.Phases"
        )
    for name, given in inputs.items():
        if is_limited(given):
            raise ValueError(
                f"shooting bounds no rates, but input {name} has every, max_rate or is continuous; "
                "use ks.Collocation"
            )
    if any(trial.free_duration for trial in trials):
        raise ValueError("shooting needs a known duration; use ks.Collocation for a free one")
    for number, trial in enumerate(trials):
        for name in trial.bounds:
            raise ValueError(
                f"trial {number} has bounds of {name}, but what is simulated goes where it goes; "
                "use ks.Collocation, or bounds of parameters and of the start"
            )
