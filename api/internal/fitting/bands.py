"""Bands of the trajectories at a solution of collocation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.slopes import course_slopes, slopes_of_outputs
from kinesym.runtime.results.bands import Band, Bands, band_of
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.variances import variances


class HeldParameters(NamedTuple):
    """Parameters that the KKT matrix holds fixed, with their covariance: those at `places` of z,
    then those that are no part of z, such as the mean of a distribution; sides : derivative of the
    gradient by these (h, n)."""

    places: NDArray[np.intp]
    sides: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Smoothed trajectories `runs` at a solution z, known from past and future samples, with the
    KKT matrix there.

    variance : of the samples in units of the objective. freedom : its degrees of freedom. outputs :
    makes the library of `slopes_library`. estimated : parameters that the matrix holds, with their
    covariance.
    """

    nlp: NLP
    kkt: Kkt
    z: Array
    runs: Sequence[Trajectory]
    variance: float
    freedom: float
    outputs: Callable[[], Built | None]
    estimated: HeldParameters | None = None

    def bands(self, names: Collection[str] | None = None) -> Bands:
        """Standard deviation bands of all trials, for trajectories of these names; raises
        `ValueError` if the curvature is not positive."""
        wanted = [self._slopes(k, names) for k in range(len(self.runs))]
        every = [matrix for mine in wanted for matrix in mine.values()]
        found = iter(variances(self.kkt, every))
        trials = list[Band]()
        for run, mine in zip(self.runs, wanted, strict=True):
            known = [name for name in run.outputs if names is None or name in names]
            spread = {name: np.zeros(len(run.time)) for name in known}
            for name, slopes in mine.items():
                square = self.variance * next(found) + self._of_estimates(slopes)
                spread[name] = np.sqrt(square)
            trials.append(band_of(run, spread, self.freedom))
        return Bands(trials=trials, model=self.runs[0].model, units=self.runs[0].units)

    def _slopes(self, trial: int, names: Collection[str] | None) -> Mapping[str, Any]:
        """Derivatives of trajectories of a trial, by name."""
        run, found = self.runs[trial], course_slopes(self.nlp, trial)
        if names is None or not set(run.outputs).isdisjoint(names):
            library = self.outputs()
            if library is not None:
                found |= slopes_of_outputs(self.nlp, library, self.z, trial)
        return {name: rows for name, rows in found.items() if names is None or name in names}

    def _of_estimates(self, slopes: Any) -> Array | float:
        """Variance that the errors of held parameters add, to first order (Hamilton 1986, Journal
        of Econometrics 33, 387)."""
        if self.estimated is None or not len(self.estimated.covariance):
            return 0.0
        moved = slopes @ self._follow
        return np.asarray(np.einsum("ij,jk,ik->i", moved, self.estimated.covariance, moved))

    @cached_property
    def _follow(self) -> Array:
        """Derivative of z by the held parameters, (n, r)."""
        assert self.estimated is not None
        places, n = self.estimated.places, len(self.z)
        more = np.pad(self.estimated.sides, ((0, 0), (0, self.kkt.order - n)))
        sides = np.column_stack([self.kkt.columns(places), *more])
        sides[self.kkt.gone] = 0.0
        ways = -self.kkt.factorised().factors.solve(sides)[:n]
        ways[places, np.arange(len(places))] = 1.0
        return np.asarray(ways)
