"""Subsets of samples that tell most: greedily, then by exchanges (Fedorov 1972)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.criteria import UNKNOWN, Criterion, determinant, judged

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


def chosen(
    cases: Sequence[Candidates], channel: NDArray[np.intp], count: Mapping[int, int]
) -> NDArray[np.bool_]:
    """The mask (k,) of so many samples of each channel, by the channel (k,) of each sample, and of
    all samples of the others. cases : the same samples at several guesses, the worst of which
    counts.

    The best after exchanges from two starts: one greedy by the criterion, one by the determinant,
    which does not end where a criterion of few parameters leaves the others almost unknown.
    """
    by_determinant = [replace(case, criterion=determinant) for case in cases]
    starts = [_greedy(each, channel, count) for each in (cases, by_determinant)]
    masks = [_exchanged(cases, channel, count, mask) for mask in starts]
    return min(masks, key=lambda mask: _worst(cases, mask))


def _greedy(
    cases: Sequence[Candidates], channel: NDArray[np.intp], count: Mapping[int, int]
) -> NDArray[np.bool_]:
    """Samples that are added one by one, each the best then."""
    mask = ~np.isin(channel, list(count))
    for own, number in count.items():
        for _ in range(min(number, int((channel == own).sum()))):
            mask[_best(cases, mask, np.flatnonzero((channel == own) & ~mask), _RIDGE)] = True
    return mask


def _exchanged(
    cases: Sequence[Candidates],
    channel: NDArray[np.intp],
    count: Mapping[int, int],
    mask: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Samples of which none is better exchanged for another of its channel."""
    before = _worst(cases, mask)
    while True:
        for out in np.flatnonzero(mask & np.isin(channel, list(count))):
            mask[out] = False
            others = np.flatnonzero((channel == channel[out]) & ~mask)
            mask[_best(cases, mask, others, 0.0)] = True
        after = _worst(cases, mask)
        if not after < before - _BETTER:
            return mask
        before = after


def _worst(cases: Sequence[Candidates], mask: NDArray[np.bool_], ridge: float = 0.0) -> float:
    return max(case.value(mask, ridge) for case in cases)


def _best(
    cases: Sequence[Candidates], mask: NDArray[np.bool_], places: Iterable[int], ridge: float
) -> int:
    """The sample, of these, that is best to add."""
    found, least = -1, np.inf
    for place in places:
        mask[place] = True
        now = _worst(cases, mask, ridge)
        mask[place] = False
        if now < least:
            found, least = int(place), now
    return found
