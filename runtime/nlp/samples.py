"""Samples behind the residuals of a nonlinear program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import CollocationManifest
from kinesym.runtime.nlp.courses import at_place
from kinesym.runtime.nlp.layout import FAMILIES, Layout
from kinesym.runtime.signals.experiment import Experiment

#: What the name of a channel begins with whose residuals are scores of the log of a standard
#: deviation.
LOG_STD = "log std of "


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence of the samples of a channel in a trial on the estimates.

    channel, trial : their numbers. time : (n,), increasing. residual : (n,), for a robust loss its
    slope. pull : d estimate / d residual, (n, r). basis : directions that the fit can follow, (n,
    m); the bases of all series below each other, times their transpose, are the hat matrix. None if
    there are too many directions.
    """

    channel: int
    trial: int
    time: Array
    residual: Array
    pull: Array
    basis: Array | None = None

    @property
    def followed(self) -> Array:
        """The basis, zero if it is not known."""
        if self.basis is None or not self.basis.shape[1]:
            return np.zeros((len(self.time), 1))
        return self.basis


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples behind the residuals (modelled - measured)/std, (n,) each. channel : index into
    `channels`. trial : index. time : [s] when it was taken (a share if durations are unknown; NaN
    for residuals without a time). weight : share/std^2. share : less than 1 if an interval has
    several samples. counts : number of samples that a residual represents, fewer for means of
    neighbours, none for scores of the log of a standard deviation that is an expression, which are
    a channel of their own.

    Order: by trial, then intervals, nodes, ends; there by channel; there in time, except for
    channels with times of their own. Residuals with zero weight, such as missing samples, are left
    out.
    """

    channels: tuple[str, ...]
    channel: NDArray[np.intp]
    trial: NDArray[np.intp]
    time: Array
    weight: Array
    share: Array
    counts: Array

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Numbers of the residuals of samples whose standard deviation is an expression, and of the
        scores of its log that belong to them, (m,) each: these have the order of those."""
        found = [np.zeros((2, 0), dtype=np.intp)]
        for log, name in enumerate(self.channels):
            of = name.removeprefix(LOG_STD)
            if of != name:
                both = (self.channels.index(of), log)
                rows = [np.flatnonzero(self.channel == number) for number in both]
                order = [own[np.argsort(self.trial[own], kind="stable")] for own in rows]
                found.append(np.array(order))
        off, logs = np.concatenate(found, axis=1)
        return off, logs

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Mask (n,) of the scores of samples whose standard deviation is an expression."""
        found = np.zeros(len(self.channel), dtype=bool)
        found[np.concatenate(self.pairs)] = True
        return found

    def taken(self, which: NDArray[np.bool_]) -> Samples:
        """Subset of the samples."""
        return Samples(
            self.channels,
            self.channel[which],
            self.trial[which],
            self.time[which],
            self.weight[which],
            self.share[which],
            self.counts[which],
        )

    def influences(self, residuals: Array, pulls: Array, basis: Array | None) -> list[Influence]:
        """Influence on the estimates, by trial and channel, from residuals (n,), the derivatives of
        the estimates, (n, r), and a basis of what the fit follows, (n, m); of means of neighbours,
        and of one sample in two rows, the residual of one sample. Priors, which have no time, are
        left out."""
        found, root = [], np.sqrt(self.share)
        timed = np.isfinite(self.time)
        for trial, channel in np.unique(np.array([self.trial, self.channel]).T[timed], axis=0):
            mine = timed & (self.trial == trial) & (self.channel == channel)
            times, place = np.unique(self.time[mine], return_inverse=True)
            n = len(place)
            add = csr_array((root[mine], (place, np.arange(n))), (len(times), n))
            total = add @ root[mine]
            follows = None
            if basis is not None:
                follows = (add @ basis[mine]) / np.sqrt(total)[:, None]
            one, pull = (add @ residuals[mine]) / total, add @ pulls[mine]
            found.append(Influence(int(channel), int(trial), times, one, pull, follows))
        return found

    def sums(self, values: Array) -> dict[str, float]:
        """Sums of values (n,) by channel."""
        here = self.channel >= 0
        found = np.bincount(self.channel[here], values[here], len(self.channels))
        return dict(zip(self.channels, found.tolist(), strict=True))

    def groups(self, of: dict[tuple[int, str], int]) -> NDArray[np.intp]:
        """Group of each sample, (n,), a number by trial and channel; -1 for samples of
        others."""
        found = np.full(len(self.channel), -1, dtype=np.intp)
        for (trial, channel), number in of.items():
            if channel in self.channels:
                mine = self.channel == self.channels.index(channel)
                found[mine & (self.trial == trial)] = number
        return found


def joined(first: Samples, second: Samples) -> Samples:
    """Join two sets of samples with different channels."""
    moved = second.channel + len(first.channels)
    rows = zip(_columns(first), (moved, *_columns(second)[1:]), strict=True)
    return Samples(first.channels + second.channels, *(np.concatenate(pair) for pair in rows))


def _columns(s: Samples) -> tuple[Any, ...]:
    return s.channel, s.trial, s.time, s.weight, s.share, s.counts


def stacked(channels: tuple[str, ...], rows: Sequence[tuple[int, int, Array, Array]]) -> Samples:
    """Stack samples of rows that each have a channel, a trial, times and weights, every sample on
    its own."""
    sizes = [len(time) for _, _, time, _ in rows]
    numbers = np.repeat(np.array([row[:2] for row in rows], dtype=np.intp), sizes, axis=0)
    time, weight = (np.concatenate(column) for column in list(zip(*rows, strict=True))[2:])
    one = np.ones(len(time))
    return Samples(channels, numbers[:, 0], numbers[:, 1], time, weight, one, one)


def number_of_samples(about: CollocationManifest, trials: Sequence[Experiment]) -> float:
    """The sum of `Samples.counts`, without the kernels of residuals."""
    total = 0.0
    for trial in trials:
        for name, row in trial.measured.items():
            there = np.isfinite(row).astype(np.float64)[None]
            if name not in about.interval_measurements:
                total += there.sum()
                continue
            for place, share in about.measured_places:
                kept = np.count_nonzero(at_place(there, place))
                total += share * ((1.0 - place) ** 2 + place**2) * kept
    return total


def all_samples(
    about: CollocationManifest, layout: Layout, weight: Array, taken: Sequence[Array]
) -> Samples:
    """Samples of all places that have residuals, also those of zero weight.

    taken : times at which samples at times of their own were taken, for each trial (slots of all,
    N - 1).
    """
    families = [about.families[f] for f in FAMILIES]
    channels = tuple(dict.fromkeys(name for family in families for name in family.squares))
    rows: list[tuple[Array, ...]] = []
    for trial, grid in enumerate(layout.grids):
        for name in FAMILIES:
            family, n = about.families[name], layout.points(trial, name)
            number = (
                np.cumsum(np.array(family.samples) > 0.0) - 1
            )  # others belong to the row before
            for k, label in enumerate(family.squares if n else ()):
                time = np.full(n, np.nan)
                if name == "node":
                    time = grid
                elif name == "interval":
                    time = _within(about, grid, number[k], taken[trial])
                numbers = (channels.index(label), trial, family.shares[k], family.samples[k])
                rows.append((*(np.full(n, number) for number in numbers), time))
    columns = list(zip(*rows, strict=True)) or [(np.zeros(0),)] * 5
    channel, of, share, counts, time = (np.concatenate(column) for column in columns)
    where = channel.astype(np.intp), of.astype(np.intp)
    return Samples(channels, *where, time, weight, share, counts)


def _within(about: CollocationManifest, grid: Array, k: int, taken: Array) -> Array:
    """Times of residual k of the intervals, (N - 1,)."""
    between = len(about.interval_measurements)
    slot = k - len(about.measured_places) * between
    if slot >= 0:
        return np.asarray(taken[slot])
    place = about.measured_places[k // between][0]
    return np.asarray((1.0 - place) * grid[:-1] + place * grid[1:])
