"""Blocks of residuals for the bootstrap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.residuals import autocorrelation


def block_length(rows: Sequence[Array]) -> int:
    """Block length [samples] of the bootstrap, for rows of residuals (K,).

    sqrt(6) rho/(1 - rho^2) to the power 2/3, times the cube root of their number, for an
    autoregression of first order with rho (Carlstein 1986, Annals of Statistics 14, 1171); at most
    a quarter of the shortest row.
    """
    longest, shortest = 1.0, min(map(len, rows))
    for e in rows:
        if len(e) > 3:
            rho = float(np.clip(autocorrelation(e, 1)[0], -0.97, 0.97))
            strength = 6.0**0.5 * abs(rho) / (1.0 - rho**2)
            longest = max(longest, strength ** (2.0 / 3.0) * len(e) ** (1.0 / 3.0))
    return int(min(np.ceil(longest), max(shortest // 4, 1)))


def drawn(samples: int, block: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices of the residuals of a resampled record, (samples,): blocks with replacement, on a
    circle."""
    begins = rng.integers(0, samples, -(-samples // block))
    return np.asarray((begins[:, None] + np.arange(block)).ravel()[:samples] % samples)
