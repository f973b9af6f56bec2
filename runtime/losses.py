"""Losses of residuals in numbers, see `kinesym.symbolic.losses.Loss`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from kinesym.runtime.arrays import Array

#: The loss of errors with the density of Laplace.
LAPLACE = "laplace"
#: q up to which log(1 + q)/q is its limit, to rounding.
_TINY = 1e-16


@dataclass(frozen=True)
class RobustLoss:
    """The loss rho of residuals e, by name and tuning c."""

    name: str
    tuning: float

    @staticmethod
    def of(loss: Any) -> RobustLoss | None:
        """Loss of an objective with `name` and `tuning`, None for squares."""
        return None if loss is None else RobustLoss(loss.name, loss.tuning)

    @property
    def likelihood(self) -> bool:
        """Whether rho is -2 log of a probability density, up to a constant."""
        return self.name in ("student", LAPLACE)

    @property
    def kinked(self) -> bool:
        """Whether rho has a kink at zero."""
        return self.name == LAPLACE

    @property
    def log_height(self) -> float:
        """log of the density of errors at zero, of a loss that is a likelihood."""
        if self.kinked:
            return float(-np.log(2.0))
        c = self.tuning
        gammas = gammaln(0.5 * (c + 1.0)) - gammaln(0.5 * c)
        return float(gammas - 0.5 * np.log(np.pi * c))

    def root(self, e: Array) -> Array:
        """r with r^2 = rho(e), and the sign of e."""
        c = self.tuning
        if self.kinked:
            return np.asarray(np.sign(e) * np.sqrt(2.0 * np.abs(e)))
        if self.name == "huber":
            beyond = np.sqrt(np.maximum(2.0 * c * np.abs(e) - c**2, 0.0))
            return np.where(np.abs(e) <= c, e, np.sign(e) * beyond)
        if self.name == "pseudo-huber":
            return np.asarray(e * np.sqrt(2.0 / (1.0 + np.sqrt(1.0 + (e / c) ** 2))))
        q = np.maximum(e**2 / c, _TINY)
        return np.asarray(e * np.sqrt((c + 1.0) / c * np.log1p(q) / q))

    def unrooted(self, r: Array) -> Array:
        """e with `root(e)` = r."""
        c, rho = self.tuning, r**2
        if self.name == "huber":
            return np.where(np.abs(r) <= c, r, np.sign(r) * (rho + c**2) / (2.0 * c))
        if self.name == "pseudo-huber":
            return np.asarray(r * np.sqrt(1.0 + rho / (4.0 * c**2)))
        return np.asarray(np.sign(r) * np.sqrt(c * np.expm1(rho / (c + 1.0))))

    def slope(self, e: Array) -> Array:
        """psi = rho'/2."""
        c = self.tuning
        if self.kinked:
            return np.sign(e)
        if self.name == "huber":
            return np.clip(e, -c, c)
        if self.name == "pseudo-huber":
            return np.asarray(e / np.sqrt(1.0 + (e / c) ** 2))
        return np.asarray((c + 1.0) * e / (c + e**2))

    def bend(self, e: Array) -> Array:
        """psi', of a kink what is expected."""
        c = self.tuning
        if self.kinked:
            return np.ones_like(e)
        if self.name == "huber":
            return np.where(np.abs(e) <= c, 1.0, 0.0)
        if self.name == "pseudo-huber":
            return np.asarray((1.0 + (e / c) ** 2) ** -1.5)
        return np.asarray((c + 1.0) * (c - e**2) / (c + e**2) ** 2)

    def root_slope(self, e: Array) -> Array:
        """d root/d e = psi/root, 1 at a residual of zero up to the factor of rho there."""
        r = self.root(e)
        safe = np.where(r == 0.0, 1.0, r)
        limit = np.sqrt(self.bend(np.zeros(1)))[0]
        return np.where(r == 0.0, limit, self.slope(e) / safe)


def roots_of_information(loss: RobustLoss | None) -> tuple[float, float]:
    """Roots of the expected information of a sample on its mean, in standard deviations, and on the
    log of these: of normal errors, or of Student's (Lange, Little, Taylor 1989, as in `Loss`)."""
    if loss is None:
        return 1.0, float(np.sqrt(2.0))
    if loss.kinked:
        return 1.0, 1.0
    c = loss.tuning
    return float(np.sqrt((c + 1.0) / (c + 3.0))), float(np.sqrt(2.0 * c / (c + 3.0)))
