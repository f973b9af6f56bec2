"""Priors of parameters, as squares beside those of the measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.owned import Owned


@dataclass(frozen=True, eq=False)
class Priors:
    """Normal priors of parameters, or of their logarithms: J gets factor ((f(p) - mean)/sd)^2.

    places : of the parameters in q, (k,). means, deviations : (k,). log : whether f is the
    logarithm, else it is p.
    """

    places: NDArray[np.intp]
    means: Array
    deviations: Array
    log: NDArray[np.bool_]
    factor: float = 1.0

    def __bool__(self) -> bool:
        return len(self.places) > 0

    def residuals(self, q: Array) -> Array:
        """Residuals of the priors, (k,), for one q (n,) or for many, (M, n)."""
        values = q[..., self.places]
        values[..., self.log] = np.log(values[..., self.log])
        return np.asarray(np.sqrt(self.factor) * (values - self.means) / self.deviations)

    def slopes(self, q: Array) -> Array:
        """Derivatives of each residual by its parameter, (k,)."""
        slopes = np.sqrt(self.factor) / self.deviations
        return np.asarray(slopes / np.where(self.log, q[..., self.places], 1.0))

    def jacobian(self, q: Array) -> csr_array:
        """Jacobian of the residuals, (k, n)."""
        shape = (len(self.places), q.size)
        return csr_array((self.slopes(q), (np.arange(shape[0]), self.places)), shape=shape)

    def gradient(self, q: Array) -> Array:
        """Gradient of the sum of squares, (n,)."""
        found = np.zeros(q.size)
        found[self.places] = 2.0 * self.residuals(q) * self.slopes(q)
        return found


def priors_by_name(
    owned: Owned, priors: Mapping[str, tuple[float, float]], factor: float
) -> Priors:
    """Priors of all values of parameters with (mean, sd)."""
    places = np.array([k for k, p in enumerate(owned.members) if p in priors], dtype=np.intp)
    means, deviations = np.array([priors[owned.members[k]] for k in places]).reshape(-1, 2).T
    return Priors(places, means, deviations, owned.log[places], factor)
