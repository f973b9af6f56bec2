"""All that is asked of a motion, as one model, its trials, conditions and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kinesym.internal.controls import controls
from kinesym.internal.equation_delays import with_delays
from kinesym.internal.integrals import with_integrals
from kinesym.internal.moments import Moment, with_moments
from kinesym.internal.phases import Posed, posed
from kinesym.internal.problem import lowered
from kinesym.internal.smooth_phases import SmoothPhases
from kinesym.symbolic.model import Model
from kinesym.symbolic.objective import Objective


class Asked(NamedTuple):
    """A model with trials and conditions, the objective, and bounds.

    moments : conditions at times that are parameters. every : of inputs that are constant over
    several intervals, for how long. followed : names of inputs that may be on any grid, as they
    follow from others, or are constant for so long. lacking : see `SmoothPhases`.
    """

    given: Posed
    objective: Objective | None
    bounds: Mapping[Any, Any]
    moments: Sequence[Moment]
    every: Mapping[str, float]
    followed: frozenset[str]
    lacking: Sequence[frozenset[str]]


def asked(
    sequence: SmoothPhases,
    most: int,
    unknown_inputs: Mapping[Any, Any] | None,
    bounds: Mapping[Any, Any] | None,
    path: Sequence[Any],
    boundary: Sequence[Any],
) -> Asked:
    """The arguments of `Collocation` in which inputs, costs of absolute values, conditions at times
    that are parameters, integrals, phases and delays stand in model and conditions, with a model of
    an index of at most `most`. Raises `ValueError` for what does not fit."""
    one = controls(sequence.system, unknown_inputs, bounds, sequence.objective, path)
    system = one.system
    system = lowered(system, most, most) if isinstance(system, Model) else system
    two = with_moments(system, one.unknown_inputs, one.path, boundary)
    system, ends = with_integrals(two.system, two.boundary)
    steps = [*one.steps, *two.steps]
    conditions = (two.path, ends, steps, two.moments, sequence.links)
    given = sequence.joined(posed(system, sequence.trials, two.unknown_inputs, *conditions))
    objective = given.objective if one.objective is None else one.objective
    given, objective = with_delays(given, objective)
    every = {step.name: step.limits.every for step in steps if step.limits.every is not None}
    followed = frozenset([*every, *one.parts, *two.sums])
    return Asked(given, objective, one.bounds, two.moments, every, followed, sequence.lacking)
