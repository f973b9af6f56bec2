"""Warnings of conditions and measurements that seem to be in other units than the model's."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.internal.problems.symbolic_problem import _ANGLES
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import (
    at_end,
    at_start,
)


@lru_cache(maxsize=32)
def kinematic_pairs(model: Model) -> Mapping[str, str]:
    """{omega: theta} for every equation theta' - omega = 0."""
    pairs: dict[str, str] = {}
    states = {rate: x for x, rate in zip(model.states, model.derivatives, strict=True)}
    for equation in model.equations:
        for sign in (1, -1):
            terms = [sign * term for term in sp.Add.make_args(equation)]
            rates = [term for term in terms if term in states]
            others = [-term for term in terms if -term in model.states]
            if len(terms) == 2 and len(rates) == len(others) == 1:
                pairs[name_of(others[0])] = name_of(states[rates[0]])
    return pairs


def warn_of_rates_at_ends(model: Model, conditions: Sequence[sp.Expr]) -> None:
    """Warn of a condition that ties a state at one end to its own rate at the other, as
    `ks.periodic(theta, omega)` does where two conditions are meant."""
    pairs = kinematic_pairs(model)
    for condition in conditions:
        ends = condition.atoms(at_start, at_end)
        names = {type(end): name_of(end.args[0]) for end in ends if end.args[0] in model.states}
        if len(ends) == len(names) == len(sp.Add.make_args(condition)) == 2:
            first, last = names[at_start], names[at_end]
            if first == pairs.get(last) or last == pairs.get(first):
                warnings.warn(
                    f"the condition {condition} ties {first} at the start to {last} at the end, a "
                    f"state to its rate; if both are to be periodic: ks.periodic({first}), "
                    f"ks.periodic({last})",
                    stacklevel=3,
                )


def warn_of_degrees(model: Model, trials: Sequence[Experiment]) -> None:
    """Warn once if a measured angle swings over more than two turns to and fro, as degrees do.

    Angles are states in a sine, cosine or tangent, and those with a rate as a state and a name of
    angles. A rotation that goes on, or comes back once, may have any size.
    """
    for number, trial in enumerate(trials):
        for x in model.states:
            y = trial.measured.get(name_of(x))
            if y is not None and _swings_widely(y[~np.isnan(y)]) and is_angle(model, x):
                warnings.warn(
                    f"trial {number} measures {name_of(x)} from {np.nanmin(y):.4g} to "
                    f"{np.nanmax(y):.4g}, to and fro, which looks like degrees; angles are in "
                    "radians: np.deg2rad",
                    stacklevel=3,
                )
                return


def _swings_widely(y: NDArray[np.float64]) -> bool:
    """Whether samples go over more than two turns, and not farther than degrees do, and go back at
    least twice by half a turn: as degrees do, whatever part of a record they are of."""
    low, high = float(y.min()), float(y.max())
    if high - low < 4.0 * np.pi or max(-low, high) > 1000.0:
        return False
    backs, way, last = 0, 0, float(y[0])  # the farthest sample of the way that it goes
    for value in y.tolist():
        if way == 0 and abs(value - last) >= np.pi:
            way, last = (1 if value > last else -1), value
        elif way * (value - last) > 0.0:
            last = value
        elif way * (last - value) >= np.pi:
            backs, way, last = backs + 1, -way, value
    return backs >= 2


def is_angle(model: Model, x: AppliedUndef) -> bool:
    """Whether a state is in a sine, cosine or tangent, or has a rate as a state and a name of
    angles."""
    if name_of(x) in kinematic_pairs(model).values() and _ANGLES.search(name_of(x)):
        return True
    expressions = (*model.equations, *(e for _, e in model.intermediates))
    return any(f.has(x) for e in expressions for f in e.atoms(sp.sin, sp.cos, sp.tan))
