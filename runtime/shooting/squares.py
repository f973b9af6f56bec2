"""Residuals of an objective that is a sum of squares, as functions of all trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, get_index_dtype, vstack

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.samples import LOG_STD, Samples, joined, stacked
from kinesym.runtime.shooting.scores import Scores
from kinesym.runtime.signals.experiment import Experiment


class _Pattern(NamedTuple):
    """Pattern of a Jacobian, sparse by rows. values : numbers of the values, of another Jacobian,
    that are added at these `places` of its own; pairs : of rows, that each is of. columns, begins :
    of its own."""

    values: NDArray[np.intp]
    pairs: NDArray[np.intp]
    places: NDArray[np.intp]
    columns: NDArray[np.integer]
    begins: NDArray[np.integer]


class Residuals:
    """Residuals r(z) of an objective that is a sum of squares: path conditions of a problem of
    their own, `nlp`, the first ones of measured `channels`, then those of `spreads`, channels whose
    standard deviation is an expression; limits : channels of censored samples, see `Scores`. trials
    : with measurements, on the grids of the steps. late : residuals of samples between nodes, if
    there are any, factor and loss their part in the objective."""

    def __init__(
        self,
        nlp: NLP,
        trials: Sequence[Experiment],
        channels: Sequence[str],
        late: NLP | None,
        factor: float,
        loss: RobustLoss | None,
        spreads: Sequence[str] = (),
        limits: Sequence[str] = (),
    ) -> None:
        self.nlp, self._trials, self.channels = nlp, trials, tuple(channels)
        self._spreads, self._limits = tuple(spreads), tuple(limits)
        self._late, self._root, self._loss = late, np.sqrt(factor), loss
        layout = nlp.layout
        rows = [
            np.arange(
                layout.constraint_offsets[k, "node"],
                layout.constraint_offsets[k, "node"] + len(layout.labels["node"]) * trial.n_nodes,
            )
            for k, trial in enumerate(trials)
        ]
        self._rows = np.concatenate(rows)

    @cached_property
    def samples(self) -> Samples:
        """Samples of the residuals; the channel of others is -1, the weight of missing
        samples 0."""
        channels = (*self.channels, *(f"{LOG_STD}{name}" for name in self._spreads))
        others = len(self.nlp.layout.labels["node"]) - len(channels)
        rows = []
        for k, trial in enumerate(self._trials):
            nothing = np.zeros(trial.n_nodes)
            for number, name in enumerate((*self.channels, *self._spreads)):
                weight = nothing
                if name in trial.measurements:
                    there = ~np.isnan(trial.measurements[name])
                    std = 1.0 if name in self._limits else trial.divisor(name)
                    weight = np.where(there, std**-2.0, 0.0)
                rows.append((number, k, trial.grid, weight))
            rows += [(-1, k, trial.grid, nothing)] * others
        found = stacked(channels, rows)
        logs = found.channel >= len(self.channels)
        found = replace(found, counts=np.where(logs, 0.0, found.counts))
        return found if self._late is None else joined(found, self._late.samples)

    @cached_property
    def scores(self) -> Scores | None:
        """Scores that are made of the rows, None where these are residuals."""
        if not (self._spreads or self._limits):
            return None
        own, first = self.samples, len(self.channels)
        places = [np.flatnonzero(own.channel == k) for k in range(first + len(self._spreads))]
        none, there = np.zeros(0, dtype=np.intp), own.weight > 0.0
        off = [places[self.channels.index(name)] for name in self._spreads]
        limits = [places[self.channels.index(name)] for name in self._limits]
        rows, logs, last = (np.concatenate([none, *e]) for e in (off, places[first:], limits))
        return Scores(rows, logs, last, there, self._root, self._loss)

    def rows(self, z: Array) -> Array:
        """Residuals r of all trials, or what `scores` makes scores of."""
        found = self.nlp.constraints(z)[self._rows]
        if self._late is None:
            return found
        e = self._late.residuals(z)
        rooted = self._loss.root(e) if self._loss and not self._loss.kinked else e
        return np.concatenate([found, self._root * np.where(self._late.samples.scored, e, rooted)])

    @cached_property
    def _pattern(self) -> _Pattern:
        """Pattern of the Jacobian, made of that of `nlp`."""
        rows, columns = self.nlp.jacobian_structure.arrays()
        n, width = len(self._rows), self.nlp.n_variables
        places = np.full(self.nlp.n_constraints, -1)
        places[self._rows] = every = np.arange(n)
        own = places[rows]
        order = np.argsort(own, kind="stable")[np.count_nonzero(own < 0) :]
        first = np.searchsorted(own[order], np.arange(n + 1))
        into, of = (every, every) if self.scores is None else self.scores.pairs(n)
        counts = np.diff(first)[of]  # of values by pair
        pair = np.repeat(np.arange(len(of)), counts)
        nth = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
        value = order[first[of][pair] + nth]
        places, target = np.unique(into[pair] * width + columns[value], return_inverse=True)
        rows, columns = np.divmod(places, width)
        kind = get_index_dtype(maxval=max(width, len(places)))
        begins = np.searchsorted(rows, np.arange(n + 1))
        return _Pattern(value, pair, target, columns.astype(kind), begins.astype(kind))

    def jacobian(self, z: Array) -> csr_array:
        """Jacobian d r/d z."""
        own = self._pattern
        values = self.nlp.jacobian(z)[own.values]
        if self.scores is not None:
            values = values * self.scores.shares(self.nlp.constraints(z)[self._rows])[own.pairs]
        sums = np.bincount(own.places, values, len(own.columns))
        shape = (len(self._rows), self.nlp.n_variables)
        found = csr_array((sums, own.columns, own.begins), shape=shape)
        if self._late is None:
            return found
        slopes = self._root * self._late.residual_jacobian(z)
        if self._loss and not self._loss.kinked:
            pace = self._loss.root_slope(self._late.residuals(z))
            slopes = diags_array(np.where(self._late.samples.scored, 1.0, pace)) @ slopes
        return csr_array(vstack([found, slopes]))
