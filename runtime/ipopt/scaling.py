"""Scaling of a problem for IPOPT, and tolerances that then replace its measures in the user's
units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array

Bounds = tuple[Array, Array]
#: Multipliers of constraints, lower and upper bounds.
Multipliers = tuple[Array, Array, Array]

#: Tolerance of IPOPT, `tol`, for a problem that comes scaled [-].
TOLERANCE = 1e-8
#: Tolerance of the complementarity of bounds, in the unit of the objective; it decides how exact
#: variables at bounds are.
_AT_BOUNDS = 1e-10
#: Barrier parameter that follows the complementarity of the iterates (Nocedal, Waechter, Waltz
#: 2009, SIAM J. Optim. 19:1674): at most ten times that of the start, and balanced, so that it does
#: not vanish while constraints are violated, which leaves iterates at their bounds with tiny steps.
#: Restoration goes on until a tenth of the violation is left: sooner, the objective pulls iterates
#: back to where it began, as from a duration that is too short.
_ADAPTIVE: Mapping[str, Any] = {
    "mu_strategy": "adaptive",
    "mu_max_fact": 10.0,
    "quality_function_balancing_term": "cubic",
    "required_infeasibility_reduction": 0.1,
}


@dataclass(frozen=True)
class Scaling:
    """Scale factors for IPOPT: of an objective, of variables, (n,), and of constraints, (m,); its
    first barrier parameter, None for one that adapts to the iterates; and the first multiple of the
    identity that it adds to a Hessian without positive curvature. Results are those of the problem
    as it was given."""

    objective: float
    variables: Array
    constraints: Array
    barrier: float | None
    perturbation: float

    @cached_property
    def sizes(self) -> Array:
        """Sizes of the variables: the value of each that is 1 for IPOPT, (n,)."""
        return 1.0 / self.variables

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options of IPOPT; given ones take precedence, and a barrier that is given as monotone,
        or by its first parameter, is that of IPOPT by default."""
        at_bounds = 1e30 if "tol" in given else _AT_BOUNDS / self.objective
        barrier = {"mu_init": self.barrier}
        if self.barrier is None:
            adaptive = given.get("mu_strategy", "adaptive") == "adaptive" and "mu_init" not in given
            barrier = dict(_ADAPTIVE) if adaptive else {}
        return {
            "nlp_scaling_method": "none",
            "obj_scaling_factor": self.objective,
            **barrier,
            "tol": TOLERANCE,
            "first_hessian_perturbation": self.perturbation,
            "dual_inf_tol": 1e30,  # of the objective as it was given
            "compl_inf_tol": at_bounds,
            **given,
        }

    def bounds(self, of_variables: Bounds, of_constraints: Bounds) -> tuple[Bounds, Bounds]:
        """Scaled bounds (low, high) of variables and of constraints."""
        x, c = self.variables, self.constraints
        low, high = of_variables
        below, above = of_constraints
        return (low * x, high * x), (below * c, above * c)

    def start(self, z: Array, multipliers: Multipliers | None) -> tuple[Array, Multipliers | None]:
        """Scaled start; multipliers do not include the objective's factor, which is an option of
        IPOPT."""
        if multipliers is not None:
            y, low, high = multipliers
            multipliers = (y / self.constraints, low * self.sizes, high * self.sizes)
        return z * self.variables, multipliers

    def end(self, z: Array, multipliers: Multipliers, bounds: Bounds) -> tuple[Array, Multipliers]:
        """Unscale the result of IPOPT, and clip it to the bounds, which IPOPT widens a little."""
        y, below, above = multipliers
        of = (y * self.constraints, below * self.variables, above * self.variables)
        return np.clip(z * self.sizes, *bounds), of


def pushed(z: Array, bounds: Bounds, size: Array) -> Array:
    """Push a start off its bounds as IPOPT does: by 0.01 of their size, or that of z, or of their
    width (its options bound_push and bound_frac; Waechter, Biegler 2006, Mathematical Programming
    106:25, section 3.6)."""
    low, high = bounds
    with np.errstate(invalid="ignore"):
        width = np.where(np.isfinite(high - low), high - low, np.inf)
        above = low + 0.01 * np.minimum(np.maximum(size, np.abs(low)), width)
        below = high - 0.01 * np.minimum(np.maximum(size, np.abs(high)), width)
    moved = np.where(np.isfinite(low), np.maximum(z, above), z)
    return np.where(np.isfinite(high), np.minimum(moved, below), moved)
