"""Priors of parameters, as scores beside the residuals of measurements.

A prior adds -2 log of its density to J. Its score r has the derivative r' with r r' half the slope
of that, and r'^2 its bend where it is convex: of a normal one r is (x - mean)/sd, and r^2 all of
it. Elsewhere r' is a small share of the slope, which says next to nothing of how sure p is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import xlogy

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.statistics.densities import LAPLACE, Density

#: Derivative of a score without bend, as a share of the slope.
_SHARE = 1e-3


@dataclass(frozen=True, eq=False)
class Priors:
    """Priors of parameters: J gets factor (rho(e) - 2 power log p + 2 rate p) with e = (f(p) -
    mean)/deviation, see `Density`.

    places : of the parameters in q, (k,). kinds : of rho. means, deviations, powers, rates :
    (k,). log : whether f is the logarithm, else it is p. heights : log of the constants of the
    densities. sides : of Laplace's, 1 or -1 where e is known to be on that side of its kink, else
    0.
    """

    places: NDArray[np.intp]
    kinds: NDArray[np.intp]
    means: Array
    deviations: Array
    log: NDArray[np.bool_]
    powers: Array
    rates: Array
    heights: Array
    sides: Array
    factor: float = 1.0

    def __bool__(self) -> bool:
        return len(self.places) > 0

    @property
    def squares(self) -> bool:
        """Whether all are squares."""
        return not (self.kinds.any() or self.powers.any() or self.rates.any())

    @property
    def kinks(self) -> NDArray[np.intp]:
        """Numbers of those with a kink."""
        return np.flatnonzero((self.kinds == LAPLACE) & (self.sides == 0.0))

    @property
    def peaks(self) -> Array:
        """Values of parameters at e = 0, (k,)."""
        return np.where(self.log, np.exp(np.where(self.log, self.means, 0.0)), self.means)

    def on(self, sides: Array) -> Priors:
        """The same where all Laplace's are on one side of their kinks, (k,)."""
        return replace(self, sides=np.where(self.kinds == LAPLACE, sides, 0.0))

    def cost(self, q: Array) -> float:
        """Terms that J gets."""
        p, e = q[self.places], self.off(q)
        with np.errstate(all="ignore"):  # outside of where densities are
            size = np.where(self.sides != 0.0, self.sides * e, np.abs(e))
            rho = np.choose(self.kinds, [e**2, 2.0 * size, 2.0 * np.log1p(e**2)])
            each = rho + 2.0 * (self.rates * p - xlogy(self.powers, p))
        return self.factor * float(each.sum())

    def residuals(self, q: Array) -> Array:
        """Scores, (k,), for one q (n,) or for many, (M, n)."""
        pull, pace = self._pulls(q)
        own = np.divide(pull, pace, out=np.zeros_like(pull), where=pace > 0.0)
        return np.asarray(np.sqrt(self.factor) * own)

    def slopes(self, q: Array) -> Array:
        """Derivatives of each score by its parameter, (k,)."""
        return self._pulls(q)[1]

    def jacobian(self, q: Array) -> csr_array:
        """Jacobian of the scores, (k, n)."""
        shape = (len(self.places), q.size)
        return csr_array((self.slopes(q), (np.arange(shape[0]), self.places)), shape=shape)

    def gradient(self, q: Array) -> Array:
        """Gradient of the cost, (n,)."""
        found = np.zeros(q.size)
        found[self.places] = 2.0 * np.sqrt(self.factor) * self._pulls(q)[0]
        return found

    def concave(self, q: Array) -> Array:
        """Half the second derivatives (n,) of the cost where these are negative, which no square of
        a derivative of a score has; else zero."""
        found, (bend, _) = np.zeros(q.size), self._bends(q)
        np.add.at(found, self.places, self.factor * np.minimum(bend, 0.0))
        return found

    def jumps(self, q: Array) -> Array:
        """Jumps of the slopes of the cost to either side at kinks, (k,)."""
        return np.asarray(2.0 * self.factor * self.slopes_of_off(q))

    def entries_at_kinks(self, owned: Owned) -> Array:
        """Entries of parameters at their kinks, (r,); NaN where there is none."""
        found = np.full(len(owned.names), np.nan)
        found[self.places[self.kinks]] = self.peaks[self.kinks]
        return owned.entries(np.where(owned.log, np.maximum(found, 0.0), found))

    def off(self, q: Array) -> Array:
        """e of each prior, (k,), for one q (n,) or for many, (M, n)."""
        values = q[..., self.places]
        with np.errstate(all="ignore"):  # of zero
            values[..., self.log] = np.log(values[..., self.log])
        return np.asarray((values - self.means) / self.deviations)

    def slopes_of_off(self, q: Array) -> Array:
        """Derivatives of e by the parameters, (k,)."""
        return np.asarray(1.0 / self.deviations / np.where(self.log, q[..., self.places], 1.0))

    def _pulls(self, q: Array) -> tuple[Array, Array]:
        """Half of the slopes of the cost, and derivatives of the scores; both over the root of the
        factor."""
        e, by = self.off(q), self.slopes_of_off(q)
        side = np.where(self.sides != 0.0, self.sides, np.sign(e))
        psi = np.choose(np.broadcast_to(self.kinds, e.shape), [e, side, 2.0 * e / (1.0 + e**2)])
        bend, share = self._bends(q)
        pull = psi * by - share + self.rates
        pace = np.sqrt(np.maximum(bend, (_SHARE * pull) ** 2))
        return np.sqrt(self.factor) * pull, np.sqrt(self.factor) * pace

    def _bends(self, q: Array) -> tuple[Array, Array]:
        """Half of the second derivatives of the cost over the factor, and the slopes of what powers
        add to it."""
        p, e, by = q[..., self.places], self.off(q), self.slopes_of_off(q)
        wide, kinds = 1.0 + e**2, np.broadcast_to(self.kinds, e.shape)
        bend = np.choose(kinds, [np.ones_like(e), np.zeros_like(e), 2.0 * (2.0 - wide) / wide**2])
        moved = self.powers != 0.0
        share = np.divide(self.powers, p, out=np.zeros_like(p), where=moved)
        whole = np.divide(share, p, out=np.zeros_like(p), where=moved)
        return np.asarray(bend * by**2 + whole), share


def priors_by_name(members: Sequence[str], priors: Mapping[str, Density], factor: float) -> Priors:
    """Priors of all values of parameters with a density; members : the parameters that they are
    of."""
    places = np.array([k for k, p in enumerate(members) if p in priors], dtype=np.intp)
    every = [priors[members[k]] for k in places]

    def each(name: str, kind: Any = float) -> Any:
        return np.array([getattr(one, name) for one in every], dtype=kind)

    return Priors(
        places,
        each("rho", np.intp),
        each("location"),
        each("scale"),
        each("of_log", bool),
        each("power"),
        each("rate"),
        each("height"),
        np.zeros(len(every)),
        factor,
    )
