"""Subsets of samples that tell most: greedily, then by exchanges (Fedorov 1972)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.criteria import UNKNOWN, Criterion, judged

#: Information of nobody, as a share, with which the first samples can be compared.
_RIDGE = 1e-8
#: Improvement of the criterion below which an exchange is none.
_BETTER = 1e-9


@dataclass(frozen=True, eq=False)
class Candidates:
    """Samples to choose from. rows : their information is the sum of r r', (k, m). ways : what the
    estimates do in these coordinates, (r, m). values : of the estimates (r,)."""

    rows: Array
    ways: Array
    values: Array
    criterion: Criterion

    def value(self, mask: NDArray[np.bool_], ridge: float = 0.0) -> float:
        """The criterion of the samples in a mask (k,)."""
        information = self.rows[mask].T @ self.rows[mask]
        information[np.diag_indices_from(information)] += ridge * self._size
        try:
            covariance = self.ways @ np.linalg.solve(information, self.ways.T)
        except np.linalg.LinAlgError:
            return UNKNOWN
        return judged(self.criterion, covariance, self.values)

    @property
    def _size(self) -> float:
        return max(float((self.rows**2).sum(axis=1).max(initial=0.0)), 1e-300)

    def chosen(self, channel: NDArray[np.intp], count: Mapping[int, int]) -> NDArray[np.bool_]:
        """The mask (k,) of so many samples of each channel, by the channel (k,) of each sample, and
        of all samples of the others."""
        mask = ~np.isin(channel, list(count))
        for own, number in count.items():
            for _ in range(min(number, int((channel == own).sum()))):
                mask[self._best(mask, np.flatnonzero((channel == own) & ~mask), _RIDGE)[0]] = True
        before = self.value(mask)
        while True:
            for out in np.flatnonzero(mask & np.isin(channel, list(count))):
                mask[out] = False
                others = np.flatnonzero((channel == channel[out]) & ~mask)
                mask[self._best(mask, others, 0.0)[0]] = True
            after = self.value(mask)
            if not after < before - _BETTER:
                return mask
            before = after

    def _best(
        self, mask: NDArray[np.bool_], places: Iterable[int], ridge: float
    ) -> tuple[int, float]:
        """The sample, of these, that is best to add, and the criterion then."""
        found = (-1, np.inf)
        for place in places:
            mask[place] = True
            now = self.value(mask, ridge)
            mask[place] = False
            if now < found[1]:
                found = (int(place), now)
        return found
