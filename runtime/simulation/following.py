"""Initial values as functions of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array


@dataclass(frozen=True)
class Following:
    """Initial values of some states as functions of parameters.

    states, parameters : names, k and r of them. function : from the r parameters, numbers or (M,),
    the k values and their k rows of r derivatives.
    """

    states: Sequence[str]
    parameters: Sequence[str]
    function: Callable[..., Any]

    def values(self, known: Mapping[str, Any]) -> dict[str, Array]:
        """Initial values by name, numbers or (M,), from parameters by name; NaN where the function
        has no real value."""
        with np.errstate(all="ignore"):
            found, _ = self.function(*self._arguments(known))
        return {x: _real(value) for x, value in zip(self.states, found, strict=True)}

    def slopes(self, known: Mapping[str, float], names: Sequence[str]) -> Array:
        """Their derivatives (k, n) by parameters of these names."""
        made = np.zeros((len(self.states), len(names)))
        with np.errstate(all="ignore"):
            _, rows = self.function(*self._arguments(known))
        for column, p in enumerate(self.parameters):
            if p in names:
                made[:, list(names).index(p)] = [float(_real(row[column])) for row in rows]
        return made

    def pulled(self, known: Mapping[str, float], names: Sequence[str], weights: Array) -> Array:
        """Weights (k,) times the derivatives, (n,)."""
        return np.asarray(weights @ self.slopes(known, names))

    def _arguments(self, known: Mapping[str, Any]) -> list[Array]:
        return [np.asarray(known[p], dtype=float) for p in self.parameters]


def _real(value: Any) -> Array:
    """Real value of a number or array; NaN if it is complex."""
    found = np.asarray(value)
    return np.asarray(np.where(np.imag(found) == 0.0, np.real(found), np.nan), dtype=float)
