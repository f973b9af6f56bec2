"""Subsets of samples, or channels, that tell most: greedily, then by exchanges (Fedorov 1972)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.criteria import Criterion, determinant, judged

#: Information of nobody, as a share, with which the first samples can be compared.
_RIDGE = 1e-8
#: Improvement of the criterion below which an exchange is none.
_BETTER = 1e-9
#: Information in a direction, as a share of the largest, that is rounding; and the part of an
#: estimate, squared, in such directions.
_NONE = 1e-11
#: Subsets up to which all are tried.
_SUBSETS = 400
#: Value of a set: the criterion that it leaves, of a mask (k,).
Value = Callable[[NDArray[np.bool_]], float]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Samples to choose from. rows : their information is the sum of r r', (k, m). ways : what the
    estimates do in these coordinates, (r, m). values : of the estimates (r,). known : information
    that is there without samples, as of priors, (m, m)."""

    rows: Array
    ways: Array
    values: Array
    criterion: Criterion
    known: Array

    def value(self, mask: NDArray[np.bool_], ridge: float = 0.0) -> float:
        """The criterion of the samples in a mask (k,)."""
        information = self.known + self.rows[mask].T @ self.rows[mask]
        information[np.diag_indices_from(information)] += ridge * self._size
        told, axes = np.linalg.eigh(information)
        none = told <= _NONE * told.max(initial=0.0)
        along = self.ways @ axes
        covariance = (along[:, ~none] / told[~none]) @ along[:, ~none].T
        lost = (along[:, none] ** 2).sum(axis=1) > _NONE * (along**2).sum(axis=1)
        covariance[lost] = covariance[:, lost] = np.nan
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
    value = partial(_worst, cases)
    return min((_exchanged(value, channel, count, mask) for mask in starts), key=value)


def best_set(value: Value, total: int, count: int) -> NDArray[np.bool_]:
    """The mask (total,) of `count` of so many, of which the value is least: of all subsets where
    these are few; else what is missed least is left out one by one, and then exchanged."""
    if comb(total, count) <= _SUBSETS:
        numbers = np.arange(total)
        return min((np.isin(numbers, s) for s in combinations(range(total), count)), key=value)
    mask = np.ones(total, dtype=bool)
    while mask.sum() > count:
        kept = map(int, np.flatnonzero(mask))
        mask[min(kept, key=lambda k: value(changed(mask, k)))] = False
    return _exchanged(value, np.zeros(total, dtype=np.intp), {0: count}, mask)


def changed(mask: NDArray[np.bool_], place: int) -> NDArray[np.bool_]:
    """A mask with one more, or one less."""
    made = mask.copy()
    made[place] = not made[place]
    return made


def _greedy(
    cases: Sequence[Candidates], channel: NDArray[np.intp], count: Mapping[int, int]
) -> NDArray[np.bool_]:
    """Samples that are added one by one, each the best then."""
    mask = ~np.isin(channel, list(count))
    for own, number in count.items():
        for _ in range(min(number, int((channel == own).sum()))):
            others = np.flatnonzero((channel == own) & ~mask)
            mask[_best(partial(_worst, cases, ridge=_RIDGE), mask, others)] = True
    return mask


def _exchanged(
    value: Value,
    channel: NDArray[np.intp],
    count: Mapping[int, int],
    mask: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Samples of which none is better exchanged for another of its channel."""
    before = value(mask)
    while True:
        for out in np.flatnonzero(mask & np.isin(channel, list(count))):
            mask[out] = False
            others = np.flatnonzero((channel == channel[out]) & ~mask)
            mask[_best(value, mask, others)] = True
        after = value(mask)
        if not after < before - _BETTER:
            return mask
        before = after


def _worst(cases: Sequence[Candidates], mask: NDArray[np.bool_], ridge: float = 0.0) -> float:
    return max(case.value(mask, ridge) for case in cases)


def _best(value: Value, mask: NDArray[np.bool_], places: Iterable[int]) -> int:
    """The sample, of these, that is best to add."""
    return min(map(int, places), key=lambda place: value(changed(mask, place)))
