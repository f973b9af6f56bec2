"""Leave-one-out predictions of samples from draws of a posterior density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.statistics.pareto import smoothed

#: Index k above which a prediction is a guess.
_HEAVY = 0.7


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LeaveOneOut(Saved):
    """Leave-one-out predictions: log-densities (n,) of samples as all others predict them, the
    index k (n,) of the tail of their importance weights, above 0.7 of which they are guesses, and
    channel, trial and time [s] of each."""

    channels: Sequence[str]
    channel: Annotated[NDArray[np.intp], "sample"]
    trial: Annotated[NDArray[np.intp], "sample"]
    time: Annotated[Array, "sample"]
    log_density: Annotated[Array, "sample"]
    k: Annotated[Array, "sample"]

    @staticmethod
    def of(samples: Samples, densities: Array) -> LeaveOneOut:
        """Predictions from the log-densities (M, n) of samples at M draws."""
        found, indices = np.empty((2, densities.shape[1]))
        for j, column in enumerate(densities.T):
            weights, indices[j] = smoothed(-column)
            found[j] = logsumexp(weights + column)
        return LeaveOneOut(
            channels=list(samples.channels),
            channel=samples.channel,
            trial=samples.trial,
            time=samples.time,
            log_density=found,
            k=indices,
        )

    @property
    def score(self) -> float:
        """Sum of all log-densities: the larger, the better the model predicts."""
        return float(self.log_density.sum())

    def __str__(self) -> str:
        heavy = int((self.k > _HEAVY).sum())
        doubt = f"; guesses for {heavy} with k > {_HEAVY:g}" * bool(heavy)
        return (
            f"leave-one-out log score {self.score:.6g} of {len(self.k)} samples, largest k "
            f"{self.k.max():.2g}{doubt}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"
