"""Block bootstrap of residuals: the estimates of records as they might have been measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.statistics.diagnostics import autocorrelation
from kinesym.runtime.statistics.residuals import Series


@dataclass(frozen=True, eq=False, kw_only=True)
class Bootstrap(Saved):
    """Estimates of resampled records.

    names : of the parameters. estimates : (samples, n), of records whose fit converged. failed :
    number of the others. block : length of the blocks [samples].
    """

    names: Sequence[str]
    estimates: Annotated[Array, "sample", "parameter"]
    failed: int
    block: int

    def intervals(self, level: float) -> dict[str, tuple[float, float]]:
        """The quantiles of the estimates by name, (low, high) (Efron and Tibshirani 1993, An
        Introduction to the Bootstrap, section 13.3)."""
        shares = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
        ends = np.quantile(self.estimates, shares, axis=0)
        pairs = zip(*ends.tolist(), strict=True)
        return dict(zip(self.names, pairs, strict=True))

    def standard_errors(self) -> dict[str, float]:
        """The standard deviation of the estimates, by name."""
        return dict(zip(self.names, np.std(self.estimates, axis=0, ddof=1).tolist(), strict=True))


def block_length(series: Sequence[Series]) -> int:
    """How many samples in turn stay together: over so many residuals are correlated, and the cube
    root of their number if they are not (Carlstein 1986, Annals of Statistics 14, 1171, for an
    autoregression of first order)."""
    longest, shortest = 1.0, min(len(s.time) for s in series)
    for s in series:
        if len(s.time) > 3:
            rho = float(np.clip(autocorrelation(s.standardised, 1)[0], -0.97, 0.97))
            strength = 6.0**0.5 * abs(rho) / (1.0 - rho**2)
            longest = max(longest, strength ** (2.0 / 3.0) * len(s.time) ** (1.0 / 3.0))
    return int(min(np.ceil(longest), max(shortest // 4, 1)))


def resampled(
    series: Sequence[Series], block: int, inflate: float, rng: np.random.Generator
) -> Iterator[tuple[Series, Array]]:
    """Measurements as they might have been: the model and residuals of blocks drawn with
    replacement, those of all channels of a trial at the same places, as they may be correlated.

    inflate : by which residuals are too small, as unknowns follow them.
    """
    places: dict[tuple[int, int], NDArray[np.intp]] = {}
    for s in series:
        count = len(s.time)
        if (s.trial, count) not in places:
            begins = rng.integers(0, count, -(-count // block))
            drawn = (begins[:, None] + np.arange(block)).ravel()[:count] % count
            places[s.trial, count] = drawn
        e = s.standardised - s.standardised.mean()
        yield s, s.modelled + s.std * inflate * e[places[s.trial, count]]


def bootstrap(
    names: Sequence[str],
    refit: Callable[[Mapping[int, Mapping[str, Array]]], Array | None],
    records: Sequence[Mapping[int, Mapping[str, Array]]],
    block: int,
    each: Callable[..., Iterator[Array | None]] = map,
) -> Bootstrap:
    """Estimates of records. refit : of the measurements by trial and channel, None where it does
    not converge. each : `map`, or that of an executor."""
    found = list(each(refit, records))
    kept = [values for values in found if values is not None]
    estimates = np.array(kept).reshape(len(kept), len(names))
    return Bootstrap(names=names, estimates=estimates, failed=len(found) - len(kept), block=block)
