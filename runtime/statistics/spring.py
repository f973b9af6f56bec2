"""Quadratic penalty (spring) on a quantity, added to the cost of a nonlinear program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import evaluate
from kinesym.runtime.sparse.structure import Extended, Structure
from kinesym.runtime.statistics.profile import Quantity, Spring


@dataclass(frozen=True, eq=False)
class Pulled:
    """Callbacks of a nonlinear program, see `IpoptProblem`, with the energy of a spring added to
    the cost.

    callbacks : of the program without the spring. The structure of the Hessian has more entries,
    see `pulled_hessian`.
    """

    callbacks: Any
    quantity: Quantity
    spring: Spring

    @property
    def constraints(self) -> Any:
        """Constraints of the program; the spring does not change them."""
        return self.callbacks.constraints

    @property
    def jacobian(self) -> Any:
        """Jacobian of the constraints; the spring does not change it."""
        return self.callbacks.jacobian

    def cost(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Cost of program and spring."""
        self._without("cost", z, multipliers, factor, out)
        off = self.quantity.at(z[self.quantity.places])[0] - self.spring.goal
        out[0] += self.spring.stiffness * off**2

    def gradient(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Gradient of program and spring."""
        self._without("gradient", z, multipliers, factor, out)
        value, slopes, _ = self.quantity.at(z[self.quantity.places])
        out[self.quantity.places] -= self.spring.pull(value) * slopes

    def hessian(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Hessian of program and spring; the entries of the spring come last."""
        places = self.quantity.places
        k = len(places) * (len(places) + 1) // 2
        own = out[: len(out) - k]
        self._without("hessian", z, multipliers, factor, own)
        value, slopes, bends = self.quantity.at(z[places])
        whole = 2.0 * self.spring.stiffness * np.outer(slopes, slopes)
        whole -= self.spring.pull(value) * bends
        out[len(out) - k :] = factor * whole[np.tril_indices(len(places))]

    def _without(self, name: str, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        evaluate(getattr(self.callbacks, name), z, multipliers, factor, out)


def pulled_hessian(plain: Structure | Extended, places: NDArray[np.intp]) -> Extended:
    """Structure of the Hessian with a spring on a quantity, whose entries are all pairs of its
    places."""
    i, j = np.tril_indices(len(places))
    columns, rows = np.sort([places[i], places[j]], axis=0)
    return Extended(plain, rows, columns)
