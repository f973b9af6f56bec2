"""Delayed signals in a nonlinear program: inputs that are a state or another input a delay earlier.

Each value of d has a row, d - s(t - tau) = 0. The signal s is represented as in the scheme: the
polynomial through the places of the interval in which t - tau lies, before the start its history,
else its value there. Rows are linear in s but for the delay tau, which may be unknown: their
derivatives follow from those of the polynomials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.pieces import Index, kinks_of, pieces_of, terms_of, weights
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.history import derivatives
from kinesym.runtime.signals.signal import Signal

#: Share of a mean step by which t - tau may miss a node by rounding.
_ROUNDING = 1e-9

#: A delay [s] from values of its parameters: itself, its gradient and its Hessian.
Function = Callable[[Array], tuple[float, Array, Array]]


@dataclass(frozen=True, eq=False)
class UnknownCourse:
    """Unknown history of a signal before the start of a trial: straight lines through unknown
    parameters.

    parameters : their names. times : of them, and of the start, where the signal itself is the
    value, [s].
    """

    parameters: tuple[str, ...]
    times: Array

    def weights(self, time: Array) -> tuple[Array, Array]:
        """Weights (n, H + 1) of the parameters and the value at the start, at times up to that, and
        their derivatives."""
        H, rows = len(self.parameters), np.arange(len(time))
        k = np.clip(np.searchsorted(self.times, time, side="right") - 1, 0, H - 1)
        h = np.diff(self.times)[k]
        share = (time - self.times[k]) / h
        found, rises = np.zeros((2, len(time), H + 1))
        found[rows, k], found[rows, k + 1] = 1.0 - share, share
        rises[rows, k], rises[rows, k + 1] = -1.0 / h, 1.0 / h
        return found, rises


class LagOfTrial(NamedTuple):
    """Delay in one trial: its bounds [s], and the history of the signal, if it is unknown."""

    span: tuple[float, float]
    before: UnknownCourse | None


@dataclass(frozen=True, eq=False)
class Lag:
    """An input that is a signal a delay earlier.

    input, signal : names. parameters, delay : arguments of the delay, and its function. course :
    instead, the unknown input that is the delay. trials : its data in each of them.
    """

    input: str
    signal: str
    parameters: tuple[str, ...]
    delay: Function
    course: str
    trials: Sequence[LagOfTrial] = ()


@dataclass(frozen=True, eq=False)
class _Found:
    """Values of n rows of a lag. signal, slope, bend : the signal there and its first two
    derivatives by the place, (n,). position : (n, m), index among the weights of the structure.
    weights, rises : weights and their derivatives. slopes, bends : derivatives of the place by the
    columns of the delay, (K, n) and (K, K, n)."""

    signal: Array
    slope: Array
    bend: Array
    position: Index
    weights: Array
    rises: Array
    slopes: Array
    bends: Array


class TrialLag:
    """Lag in one trial, of number `number`: a row for each of its `entries` in z, (n,). columns :
    of the variables on which the delay depends, (K, n). size : of the weights in the Jacobian.

    known : values of the known parameters. kinks : see `pieces_of`.
    """

    def __init__(
        self,
        layout: Layout,
        lag: Lag,
        trial: Experiment,
        number: int,
        known: Mapping[str, float],
        kinks: NDArray[np.bool_] | None,
    ) -> None:
        self._layout, self.lag, self.number = layout, lag, number
        self._grid = layout.grids[number]
        self._near = _ROUNDING * (self._grid[-1] - self._grid[0]) / (len(self._grid) - 1)
        self.entries, self._at = _places(layout, number, lag.input)
        self._pieces = pieces_of(layout, number, lag.signal, kinks)
        self._given = trial.signals.get(lag.signal)
        self._history = _history(lag.signal, trial)
        self._put_parameters(known)
        self._put_windows(trial)
        self._put_before(trial)

    def _put_parameters(self, known: Mapping[str, float]) -> None:
        """Find the unknown parameters of the delay, and the columns on which it depends."""
        lag, layout = self.lag, self._layout
        places = dict(zip(layout.owned.parameters, layout.owned.places(self.number), strict=True))
        self._values = np.array([known.get(p, np.nan) for p in lag.parameters])
        self._free = np.array([k for k, p in enumerate(lag.parameters) if p in places], np.intp)
        self._own = np.array([places[lag.parameters[k]] for k in self._free], dtype=np.intp)
        n = len(self.entries)
        rows = [np.full(n, layout.parameter_offset + j) for j in self._own]
        if lag.course:
            rows = [_places(layout, self.number, lag.course)[0]]
        if layout.free_duration and (lag.trials[self.number].span[1] > 0.0):
            rows.append(np.full(n, layout.duration_offset + self.number))
        self.columns = np.array(rows, dtype=np.intp).reshape(len(rows), n)

    def _put_windows(self, trial: Experiment) -> None:
        """First and last interval that a row can need, and where its weights begin."""
        low, high = self.lag.trials[self.number].span
        short, long = trial.duration or (1.0, 1.0)
        first = self._interval(self._at - high / short)
        last = self._interval(self._at - low / long)
        if self._pieces is None:
            last = first - 1
        elif self._history is not None:  # rows that are always before the start need nothing
            last = np.where(self._at - low / long <= self._grid[0] + self._near, first - 1, last)
        self._first, self._last = first, np.maximum(last, first - 1)
        m = 0 if self._pieces is None else self._pieces.index.shape[1]
        ends = np.cumsum((self._last - self._first + 1) * m)
        self._begin, self.size = np.append(0, ends[:-1]), int(ends[-1])

    def _put_before(self, trial: Experiment) -> None:
        """Find the entries of an unknown history in z, the rows that may need it, and the begin of
        its weights, after the others."""
        layout, self._before = self._layout, self.lag.trials[self.number].before
        names = self._before.parameters if self._before else ()
        places = dict(zip(layout.owned.parameters, layout.owned.places(self.number), strict=True))
        own = [layout.parameter_offset + places[name] for name in names]
        self._of_before = np.array(own, dtype=np.intp)
        long = (trial.duration or (1.0, 1.0))[0]
        high = self.lag.trials[self.number].span[1] / long
        early = self._at - high <= self._grid[0] + self._near
        self._early = np.flatnonzero(early & bool(names))
        self._begin_before = self.size + np.arange(len(self._early)) * len(names)
        self.size += len(self._early) * len(names)

    @property
    def carried(self) -> int:
        """Largest number of unknowns and rows between a signal and its delayed input."""
        reach = self._interval(self._at) - self._first
        return 2 * int(reach.max(initial=0)) * -(-len(self.entries) // len(self._grid))

    def structure(self) -> tuple[Index, Index]:
        """Rows (by number) and columns of the weights."""
        if self._pieces is None or not self.size:
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        count = self._last - self._first + 1
        rows = np.repeat(np.arange(len(count)), count)
        interval = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        columns = self._pieces.index[interval + self._first[rows]]
        number, of_before = np.repeat(rows, columns.shape[1]), self._of_before
        return (
            np.concatenate([number, np.repeat(self._early, len(of_before))]),
            np.concatenate([columns.ravel(), np.tile(of_before, len(self._early))]),
        )

    def _interval(self, place: Array) -> Index:
        k = np.searchsorted(self._grid, place - self._near, side="left") - 1
        return np.clip(k, 0, len(self._grid) - 2)

    def _delay(self, z: Array) -> tuple[Array, Array, Array]:
        """The delay [s] (n,) or (1,), and its derivatives by the columns but for the duration."""
        lag, layout = self.lag, self._layout
        if lag.course:
            tau = z[self.columns[0]]
            return tau, np.ones((1, len(tau))), np.zeros((1, 1, len(tau)))
        entries = layout.parameter_values(z)
        values = self._values.copy()
        values[self._free] = layout.owned.natural(entries)[self._own]
        tau, gradient, hessian = lag.delay(values)
        slopes = layout.owned.slopes(entries)[self._own]
        gradient, hessian = gradient[self._free], hessian[np.ix_(self._free, self._free)]
        bends = np.where(layout.owned.log[self._own], gradient * slopes, 0.0)
        hessian = hessian * np.outer(slopes, slopes) + np.diag(bends)
        return np.array([tau]), (gradient * slopes)[:, None], hessian[..., None]

    def at(self, z: Array) -> _Found:
        """Evaluate all rows at z."""
        tau, g, gg = self._delay(z)
        n, K, T = len(self.entries), len(self.columns), self._duration(z)
        place = self._at - tau / T
        before = place <= self._grid[0] + self._near
        # by the columns: of tau / T on the grid, of t - tau [s] before it
        (on_grid, past), (bent, past_bent) = np.zeros((2, K, n)), np.zeros((2, K, K, n))
        j = len(g)
        on_grid[:j], bent[:j, :j], past[:j], past_bent[:j, :j] = -g / T, -gg / T, -g, -gg
        if j < K:
            on_grid[j], bent[j, j], past[j] = tau / T**2, -2.0 * tau / T**3, self._at
            bent[j, :j] = bent[:j, j] = g / T**2
        slopes, bends = np.where(before, past, on_grid), np.where(before, past_bent, bent)
        k = np.clip(self._interval(place), self._first, np.maximum(self._last, self._first))
        s, w0, w1 = self._signal(z, place, before, T, k)
        H = len(self._of_before)
        m = w0.shape[1] - H
        position = np.full(w0.shape, -1)
        position[:, :m] = (self._begin + (k - self._first) * m)[:, None] + np.arange(m)
        position[self._last < self._first] = -1
        position[self._early, m:] = self._begin_before[:, None] + np.arange(H)
        return _Found(s[0], s[1], s[2], position, w0, w1, slopes, bends)

    def along(self, z: Array, at: Array, course: Array | None = None) -> Array:
        """The delayed signal at other times of the grid than its rows, (n,); course : the delay
        there, if it changes along the motion."""
        T = self._duration(z)
        place = at - (self._delay(z)[0] if course is None else course) / T
        before = place <= self._grid[0] + self._near
        return self._signal(z, place, before, T, self._interval(place))[0][0]

    def missed(self, z: Array, places: Array, values: Array) -> Array:
        """Interpolation error of the rows, (n,), if on each interval the signal is the polynomial
        through values (f, M) at places (f,)."""
        missed = np.zeros(len(self.entries))
        if self._pieces is None:
            return missed
        T, terms, pieces = self._duration(z), terms_of(places[None]), self._pieces
        place = self._at - self._delay(z)[0] / T
        inside = np.flatnonzero(place > self._grid[0] + self._near)
        k = self._interval(place)[inside]
        share = (place[inside] - self._grid[k]) / np.diff(self._grid)[k]
        true = (weights(terms, share)[0] * values[:, k].T).sum(axis=1)
        of, at = pieces.intervals[k], pieces.shares[k]
        own = weights(terms, at.ravel())[0] * values[:, of.ravel()].T
        missed[inside] = true - (
            pieces.weights(k, share)[0] * own.sum(axis=1).reshape(at.shape)
        ).sum(axis=1)
        return missed

    def _duration(self, z: Array) -> float:
        layout = self._layout
        return float(layout.durations(z)[self.number]) if layout.free_duration else 1.0

    def _signal(
        self, z: Array, place: Array, before: NDArray[np.bool_], T: float, k: Index
    ) -> tuple[Array, Array, Array]:
        """The signal and its first two derivatives by the place, (3, n), and the weights of its
        values on intervals k in it and in the first derivative, (n, m)."""
        if self._pieces is None:
            assert self._given is not None
            s = derivatives(self._given, np.maximum(place, self._grid[0]))
            w0 = w1 = np.zeros((len(place), 0))
        else:
            h = np.diff(self._grid)[k]
            share = np.where(before, 0.0, (place - self._grid[k]) / h)
            w0, w1, w2 = self._pieces.weights(k, share)
            w1, w2 = w1 / h[:, None], w2 / h[:, None] ** 2
            w1[before] = w2[before] = 0.0
            if self._history is not None:
                w0[before] = 0.0
            values = z[self._pieces.index[k]]
            s = np.array([(w * values).sum(axis=1) for w in (w0, w1, w2)])
        if self._before is not None:
            free, rises = self._before.weights(T * place[before])
            more = np.zeros((2, len(place), len(self._of_before)))
            more[0, before], more[1, before] = free[:, :-1], rises[:, :-1]
            start, known = s[0, before], z[self._of_before]
            s[0, before] = free[:, :-1] @ known + free[:, -1] * start
            s[1, before], s[2, before] = rises[:, :-1] @ known + rises[:, -1] * start, 0.0
            w1[before], w0[before] = rises[:, -1:] * w0[before], free[:, -1:] * w0[before]
            w0, w1 = np.hstack([w0, more[0]]), np.hstack([w1, more[1]])
        elif self._history is not None:
            s[:, before] = derivatives(self._history, T * place[before])
        else:
            s[1:, before] = 0.0
        return s, w0, w1


class Lags:
    """Rows of all delayed inputs of a nonlinear program, in the order of `Layout.delayed_entries`.

    known : values of the known parameters, for each trial. lobatto : whether the scheme is Lobatto
    IIIA. curved : whether the Hessian includes the curvature of rows. `courses` : inputs that are
    delays; `names` : these, and those that are or have a delay.
    """

    def __init__(
        self,
        layout: Layout,
        lags: Sequence[Lag],
        trials: Sequence[Experiment],
        known: Sequence[Mapping[str, float]],
        lobatto: bool,
        curved: bool,
    ) -> None:
        self.courses = [lag.course for lag in lags if lag.course]
        names = {name for lag in lags for name in (lag.input, lag.course, lag.signal)}
        self.names = names.intersection(layout.inputs)
        number = {entry: row for row, entry in enumerate(layout.delayed_entries.tolist())}
        self._parts: list[tuple[TrialLag, Index]] = []
        for k, trial in enumerate(trials):
            spans = [lag.trials[k].span for lag in lags]
            kinks = kinks_of(layout.grids[k], spans) if lobatto else None
            for lag in lags:
                part = TrialLag(layout, lag, trial, k, known[k], kinks)
                rows = np.array([number[entry] for entry in part.entries.tolist()], dtype=np.intp)
                self._parts.append((part, rows))
        self._entries, self._n = layout.delayed_entries, layout.n_variables
        self._put_jacobian()
        self._put_hessian(curved)

    def _put_jacobian(self) -> None:
        """Jacobian structure: the delayed inputs themselves, then for each part weights and
        columns."""
        rows, columns = [np.arange(len(self._entries))], [self._entries]
        for part, mine in self._parts:
            number, places = part.structure()
            every = np.broadcast_to(mine, part.columns.shape)
            rows += [mine[number], every.ravel()]
            columns += [places, part.columns.ravel()]
        self.jacobian_structure = np.concatenate(rows), np.concatenate(columns)

    def _put_hessian(self, curved: bool) -> None:
        """Hessian structure in the lower triangle, and the entry to which each product is added."""
        self._curved, keys = curved, [np.zeros(0, np.intp)]
        for part, _ in self._parts if curved else ():
            number, places = part.structure()
            every = part.columns
            keys += [_key(every[:, number], places, self._n).ravel()]
            keys += [_key(every[:, None], every[None], self._n)[_lower(len(every))].ravel()]
        every_key = np.concatenate(keys)
        unique, self._entry = np.unique(every_key, return_inverse=True)
        self.hessian_structure = unique // self._n, unique % self._n

    @property
    def carried(self) -> int:
        """Largest number of unknowns and rows between signals and their delayed inputs."""
        return sum(part.carried for part, _ in self._parts if part.number == 0)

    def values(self, z: Array) -> Array:
        """Values of the delayed inputs at z from the other entries, (rows,)."""
        found = np.empty(len(self._entries))
        for part, rows in self._parts:
            found[rows] = part.at(z).signal
        return found

    def along(
        self, z: Array, trial: int, at: Array, courses: Mapping[str, Array]
    ) -> dict[str, Array]:
        """The delayed inputs of a trial at times of its grid, an array of any shape, by name.
        courses : the delays there that change along the motion, by theirs."""
        found = {}
        for part, _ in self._of(trial):
            course = courses[part.lag.course].ravel() if part.lag.course else None
            found[part.lag.input] = part.along(z, at.ravel(), course).reshape(at.shape)
        return found

    def missed(
        self, z: Array, trial: int, places: Array, values: Mapping[str, Array], out: Array
    ) -> None:
        """Write the interpolation error of the rows of a trial if signals are, on each interval,
        the polynomials through values (f, M) at places (f,)."""
        for part, rows in self._of(trial):
            if part.lag.signal in values:
                out[rows] = part.missed(z, places, values[part.lag.signal])

    def _of(self, trial: int) -> list[tuple[TrialLag, Index]]:
        return [(part, rows) for part, rows in self._parts if part.number == trial]

    def constraints(self, z: Array, out: Array) -> None:
        """Write the rows."""
        np.subtract(z[self._entries], self.values(z), out=out)

    def jacobian(self, z: Array, out: Array) -> None:
        """Write the values of the Jacobian."""
        begin = len(self._entries)
        out[:begin], out[begin:] = 1.0, 0.0
        for part, _ in self._parts:
            found = part.at(z)
            of_signal = out[begin : begin + part.size]
            used = found.position >= 0
            of_signal[found.position[used]] = -found.weights[used]
            begin += part.size
            slopes = -found.slope * found.slopes
            out[begin : begin + slopes.size] = slopes.ravel()
            begin += slopes.size

    def hessian(self, z: Array, multipliers: Array, out: Array) -> None:
        """Write the values of the Hessian of multipliers . rows."""
        products = np.zeros(len(self._entry))
        begin = 0
        for part, rows in self._parts if self._curved else ():
            K = len(part.columns)
            if not K:
                continue
            found = part.at(z)
            factor = -multipliers[rows]
            mixed = products[begin : begin + K * part.size].reshape(K, part.size)
            used = found.position >= 0
            for column, slope in zip(mixed, found.slopes, strict=True):
                column[found.position[used]] = (found.rises * (factor * slope)[:, None])[used]
            begin += mixed.size
            both = found.bend * found.slopes[:, None] * found.slopes[None]
            both = factor * (both + found.slope * found.bends)
            own = both[_lower(K)]
            products[begin : begin + own.size] = own.ravel()
            begin += own.size
        out[:] = np.bincount(self._entry, products, len(out))


@dataclass(frozen=True, eq=False)
class WithLags:
    """The callbacks of a nonlinear program with rows that have no kernels."""

    nlp: Any

    @property
    def cost(self) -> Any:
        """Cost callback, that of the kernels."""
        return self.nlp.plans.cost

    @property
    def gradient(self) -> Any:
        """Gradient callback, that of the kernels."""
        return self.nlp.plans.gradient

    def constraints(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Write the constraints."""
        self.nlp.constraints(z, out)

    def jacobian(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Write the values of the Jacobian."""
        self.nlp.jacobian(z, out)

    def hessian(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Write the values of the Hessian."""
        self.nlp.hessian(z, multipliers, factor, out)


def _lower(K: int) -> tuple[Index, Index]:
    return np.tril_indices(K)


def _key(a: Index, b: Index, n: int) -> Index:
    """Key of an entry in the lower triangle, one number."""
    return np.maximum(a, b) * n + np.minimum(a, b)


def _places(layout: Layout, trial: int, name: str) -> tuple[Index, Array]:
    """Entries of an input in z, and their times on the grid."""
    grid, entries, times = layout.grids[trial], list[Index](), list[Array]()
    for own, c, row in layout.named_rows(np.arange(layout.n_variables), trial):
        if own == name:
            entries.append(row)
            times.append(grid if c is None else (1.0 - c) * grid[:-1] + c * grid[1:])
    return np.concatenate(entries).astype(np.intp), np.concatenate(times)


def _history(name: str, trial: Experiment) -> Signal | None:
    """History of a signal before the start, None if none is given."""
    own, given = trial.signals.get(name), trial.history.get(name)
    if name in trial.history or own is None:
        return given if isinstance(given, Signal) else None
    return own if own.span[0] < trial.grid[0] and not trial.free_duration else None
