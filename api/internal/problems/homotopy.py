"""Homotopies in objectives and conditions: their parameter belongs to the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, TypeVar

import sympy as sp

from kinesym.symbolic.homotopy import HOMOTOPY, uses_homotopy
from kinesym.symbolic.model import Model

_System = TypeVar("_System")


def with_homotopy(system: _System, *conditions: Any) -> _System:
    """A model with the parameter of homotopies if objective or conditions have one; else as is."""
    if not isinstance(system, Model) or HOMOTOPY in system.parameters:
        return system
    if not uses_homotopy(expressions_in(conditions)):
        return system
    return _extended(system)  # type: ignore[return-value]


@lru_cache(maxsize=16)
def _extended(model: Model) -> Model:
    """Model with the homotopy parameter, cached per model, so that its derivatives are found
    again."""
    return model.extended(parameters=[HOMOTOPY], values={HOMOTOPY: 1.0})


def expressions_in(given: Any) -> Iterator[sp.Basic]:
    """Expressions in conditions, however nested."""
    if isinstance(given, sp.Basic):
        yield given
    elif isinstance(given, (tuple, list)):
        for each in given:
            yield from expressions_in(each)
    elif is_dataclass(given):
        yield from expressions_in([*vars(given).values()])
