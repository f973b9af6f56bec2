"""Methods for differential-algebraic models: index and form that each needs."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from kinesym.symbolic.model import Model
from kinesym.symbolic.schemes import EXPLICIT, SCHEMES


def highest_index(method: str) -> int:
    """The index of differential-algebraic models up to which an implicit method, of time stepping
    or collocation, converges: 2 for Radau IIA (Hairer, Wanner, Solving Ordinary Differential
    Equations II, VII.4), 1 for others."""
    scheme = SCHEMES.get(method)
    return 2 if scheme and scheme.ends_at_stage and not scheme.explicit_start else 1


def check_index(model: Model, most: int, what: str) -> None:
    """Raise `ValueError` for a model of an index higher than `most`, naming the hidden constraint.

    what : "the method midpoint", "the scheme trapezoid", ...: what treats models up to there.
    """
    index = model.index
    if index.value is None:
        raise ValueError(
            f"model {model.name}: the equations do not determine the states: {index.reason}"
        )
    if index.value <= most:
        return
    words = index.reason
    if index.constraints:
        words = f"{index.constraints[0]}, is a hidden constraint"
    elif not words:
        one = len(index.dependent) == 1
        words = f"{', '.join(index.dependent)} follow{'s' * one} from the other states"
    needed = "model.reduced_index()" if most else "model.reduced_index(index=0)"
    radau = "; or take a radau method" if index.value == 2 else ""
    raise ValueError(
        f"model {model.name} has index {index.value}, {what} is for models of index {most}"
        f"{' or less' * bool(most)}: {words}; use {needed}{radau}"
    )


@lru_cache(maxsize=32)
def lowered(model: Model, most: int, index: int) -> Model:
    """The model if a method for models of indices up to `most` treats it, else one of this index
    with the same motion, see `Model.reduced_index`. Multipliers stay unknowns: the equations are as
    sparse as they were, and regular wherever the constraints are independent. At index 2 these and
    their derivatives hold at every node. As it is, too, if rates of inputs would have to be given.

    Raises `ValueError` if the index cannot be reduced."""
    value = model.index.value
    if value is None or value <= most:
        return model
    found = None
    if index == 2:
        with suppress(ValueError):  # there may be no multipliers of Gear, Gupta and Leimkuhler
            found = model.reduced_index("gear-gupta-leimkuhler")
    found = found or model.reduced_index(index=min(index, 1))
    return found if found.inputs == model.inputs else model


def lowered_for_method(system: Any, method: str) -> Any:
    """The system, or if it is a model that a method of time stepping does not treat, one of index 0
    or 1: constraints are then approached, as exactly as the method is. At index 1, algebraic states
    stay what they are, so that explicit methods say that they have no derivative.

    Constraints that are differentiated twice bind states at index 2 which are not algebraic: no
    estimate of errors lets these out, and adaptive steps would become ever shorter."""
    if not isinstance(system, Model) or (system.index.value == 1 and system.index.algebraic):
        return system
    most = 0 if method in EXPLICIT else highest_index(method)
    if any(row.order > 1 for row in system.index.constraints):
        most = min(most, 1)
    return lowered(system, most, min(most, 1))


def check_method(model: Model, method: str) -> bool:
    """`check_index` for a method of time stepping; returns whether that solves for x' beforehand,
    as explicit methods do. At index 1 these say themselves which state has none."""
    needs_rates = method in EXPLICIT
    if not needs_rates or model.index.value not in (None, 1):
        most = 0 if needs_rates else highest_index(method)
        check_index(model, most, f"the method {method}")
    return needs_rates
