"""Bounds by name, from what was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinesym.internal.problems.controls import pair_of
from kinesym.internal.problems.parameters import Unknown, check_prior
from kinesym.runtime.signals.corridor import bound_pair, changes
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name


def bounds_by_name(
    model: Model, unknown_inputs: Mapping[str, Any], bounds: Mapping[Any, Any]
) -> dict[str, Any]:
    """Bounds of states and unknown inputs as given. Raises `ValueError` for those given twice."""
    given = by_name(bounds, [*model.state_names, *unknown_inputs], "bounds")
    own = {name: pair_of(asked) for name, asked in unknown_inputs.items()}
    for name in given:
        if own.get(name) is not None:
            raise ValueError(f"bounds of {name} are given in bounds and in unknown_inputs")
    return {**own, **given}


def bounded(
    model: Model,
    trials: Sequence[Experiment],
    unknown_inputs: Mapping[str, Any],
    given: Mapping[str, Any],
) -> list[Experiment]:
    """The trials with those bounds that change over time, beside their own. Raises `ValueError`
    where these are not of states or unknown inputs."""
    moving = {name: bound for name, bound in given.items() if changes(bound)}
    for k, trial in enumerate(trials):
        by_name(trial.bounds, [*model.state_names, *unknown_inputs], f"bounds of trial {k}")
    return [trial.bounded(moving) if moving else trial for trial in trials]


def named_bounds(
    model: Model, unknown: Mapping[str, Unknown], given: Mapping[str, Any]
) -> dict[str, tuple[float, float]]:
    """(low, high) of parameters, and of inputs and states as `given`, by name; infinite where
    free."""
    pairs = {name: (p.low, p.high) for name, p in unknown.items()}
    pairs |= {name: bound_pair(name, bound) for name, bound in given.items()}
    for name in (name for name in model.positive if name in pairs):
        low, high = pairs[name]
        if high <= 0.0:
            raise ValueError(f"bounds of {name} are ({low:g}, {high:g}), but it must be positive")
        pairs[name] = (max(low, 0.0), high)
    for name, p in unknown.items():
        check_prior(name, p, pairs[name])
    return pairs
