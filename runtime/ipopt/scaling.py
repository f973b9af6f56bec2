"""By what IPOPT multiplies a problem, and what then replaces its measures in the user's units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array

Bounds = tuple[Array, Array]

#: IPOPT's `tol` for a problem that comes scaled: where 1e-8 would do without (a hundredth costs an
#: iteration), as factors of large objectives leave their variables that much less exact.
TOLERANCE = 1e-10
#: By how much bounds are widened, of their size or of that of what they bound: IPOPT's own number,
#: which it takes of 1 in the user's units.
_RELAXED = 1e-8
_RELAX = "bound_relax_factor"
#: Options; IPOPT's tolerances in units of the problem as it was given are without effect.
_OPTIONS = {
    "tol": TOLERANCE,
    "dual_inf_tol": 1e30,
    "compl_inf_tol": 1e30,
    "nlp_scaling_method": "user-scaling",
}


@dataclass(frozen=True)
class Scaling:
    """What IPOPT multiplies with: the objective, variables, (n,), and constraints, (m,); results
    and multipliers are those of the problem as it was given."""

    objective: float
    variables: Array
    constraints: Array

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of IPOPT; what is given comes first."""
        own = {} if _RELAX in given else {_RELAX: 0.0}
        return {**_OPTIONS, **own, **given}

    def relaxed(self, bounds: tuple[Bounds, Bounds], given: Mapping[str, Any]) -> Any:
        """Bounds of variables and constraints a little wider, unless options say by how much; what
        has one value only keeps that."""
        if _RELAX in given:
            return bounds
        factors = (self.variables, self.constraints)
        return tuple(_relaxed(*pair, f) for pair, f in zip(bounds, factors, strict=True))


def _relaxed(low: Array, high: Array, factors: Array) -> Bounds:
    room = _RELAXED * (low < high) / factors
    with np.errstate(invalid="ignore"):
        below, above = (np.maximum(room, room * factors * np.abs(each)) for each in (low, high))
        return np.where(np.isfinite(low), low - below, low), np.where(
            np.isfinite(high), high + above, high
        )


def pushed(z: Array, bounds: Bounds, size: Array) -> Array:
    """Where IPOPT begins: z moved off its bounds, by 0.01 of their size, or that of z, or of their
    width (its options bound_push and bound_frac; Waechter, Biegler 2006, Mathematical Programming
    106:25, section 3.6)."""
    low, high = bounds
    with np.errstate(invalid="ignore"):
        width = np.where(np.isfinite(high - low), high - low, np.inf)
        above = low + 0.01 * np.minimum(np.maximum(size, np.abs(low)), width)
        below = high - 0.01 * np.minimum(np.maximum(size, np.abs(high)), width)
    moved = np.where(np.isfinite(low), np.maximum(z, above), z)
    return np.where(np.isfinite(high), np.minimum(moved, below), moved)
