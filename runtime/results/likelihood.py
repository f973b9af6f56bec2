"""Likelihood of a record at the estimates of a fit, and the criteria AIC, AICc and BIC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinesym.base.notebook import Displayed

#: What the likelihood of a fit is of.
LARGEST, MARGINAL, POSTERIOR = "likelihood", "marginal likelihood", "posterior density"


@dataclass(frozen=True)
class Likelihood(Displayed):
    """Likelihood of the samples of a fit at its estimates.

    kind : "likelihood", which the estimates maximise; "marginal likelihood", with process noise or
    random effects integrated out; "posterior density", which the estimates maximise: the likelihood
    is that of the samples alone, marginal or not, and not its maximum.

    unknowns : how many numbers were estimated by it: parameters, unknown starts and inputs,
    standard deviations. integrated : how many unknowns without prior were integrated out instead,
    such as starts. edges : standard deviations that cannot be negative, a name a line; the model
    without one of them is at the edge of its range.
    """

    log_likelihood: float
    unknowns: float
    samples: float
    kind: str = LARGEST
    integrated: float = 0.0
    edges: str = ""

    @property
    def freedom(self) -> float:
        """Residual degrees of freedom: samples less unknowns."""
        return self.samples - self.unknowns

    @property
    def aic(self) -> float:
        """Akaike's information criterion, -2 log L + 2 k with k unknowns (Burnham, Anderson 2002,
        Model Selection and Multimodel Inference, section 2.2)."""
        return -2.0 * self.log_likelihood + 2.0 * self.unknowns

    @property
    def aicc(self) -> float:
        """Akaike's criterion for short records, AIC + 2 k (k + 1)/(n - k - 1) with k unknowns and n
        samples, which is exact for linear models with normal errors of unknown variance (Hurvich,
        Tsai 1989, Biometrika 76, 297); infinite for n <= k + 1."""
        k, left = self.unknowns, self.freedom - 1.0
        return self.aic + (2.0 * k * (k + 1.0) / left if left > 0.0 else np.inf)

    @property
    def bic(self) -> float:
        """The Bayesian information criterion, -2 log L + k log(n) with n samples (Schwarz 1978,
        Annals of Statistics 6, 461)."""
        return -2.0 * self.log_likelihood + self.unknowns * float(np.log(self.samples))

    def __str__(self) -> str:
        return (
            f"log L {self.log_likelihood:.8g} ({self.kind}), AIC {self.aic:.6g}, BIC "
            f"{self.bic:.6g} ({self.unknowns:g} unknowns, {self.samples:g} samples)"
        )
