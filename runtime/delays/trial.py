"""Fixed steps of a trial with delays, and their exact derivatives.

The steps are those of the nodes: no node is inserted at a break, which an unknown delay moves. The
past is, between nodes, the cubic Hermite polynomial with the values and rates of both ends, which
is smooth in the delay, and local, so that every operation of the steps is differentiated. The
linearised equations of all changes, of states, rates and delayed values, are in order of time, and
triangular unless delays look back into their own step or window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.sparse.linalg import SuperLU, splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.delays.past import Past, slack
from kinesym.runtime.delays.problem import Delayed, DelayProblem, Places
from kinesym.runtime.delays.simulation import simulated_with_past
from kinesym.runtime.signals.history import derivatives
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.simulation.interval import within
from kinesym.runtime.simulation.stages import extended
from kinesym.runtime.simulation.stepper import (
    IVP,
    Diverged,
    RawTrajectories,
    Stepper,
    bind,
    failure,
    mapped,
)

_Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Source:
    """Source of a delayed input in one trial.

    name : of the input; signal : of the state or input. number : of it. of_input, moving : see
    `Delayed`. ends : least and longest delay [s]. start : of the trial [s]. history : before the
    start, None for the value at the start. own : an input from there on.
    """

    name: str
    signal: str
    number: int
    of_input: bool
    moving: bool
    ends: tuple[float, float]
    start: float
    history: Signal | None
    own: Signal | None

    def delayed(self, tau: float, level: float) -> Delayed:
        """Delayed input for a delay at the start [s] and the value of a state there. Raises
        `Diverged` for a delay out of its range, or a history that is too short."""
        low, high = self.ends
        if not (0.0 <= low <= tau <= high):
            raise Diverged(
                f"the delay of {self.name} is {tau:.6g} s at the start, outside "
                f"({low:g}, {high:g}) s"
            )
        longest = high if self.moving and np.isfinite(high) else tau
        known = self.history or (self.own if self.goes_back else None)
        begin = self.start - longest
        if known is not None and known.span[0] > begin + slack(begin):
            raise Diverged(
                f"what {self.signal} was is known from {known.span[0]:g} s on, and {self.name} "
                f"looks back to {begin:g} s; give it from there on, or bounds of the delay"
            )

        def before(time: Array, sides: Array) -> Array:
            return self.known(time, sides, level)[0]

        ends = self.ends if self.moving else (tau, tau)
        return Delayed(self.name, self.number, self.of_input, self.moving, *ends, before)

    @property
    def goes_back(self) -> bool:
        """Whether an input is its own history."""
        own = self.own
        return own is not None and bool(own.span[0] < self.start - slack(self.start))

    def known(self, time: Array, sides: Array, level: float) -> tuple[Array, Array]:
        """Values and slopes of an input, or of the history of a state, at times, equal shapes."""
        at = time + sides * slack(time)
        value, slope = np.full(at.shape, level), np.zeros(at.shape)
        if self.own is not None:
            value, slope, _ = derivatives(self.own, time, sides)
            if not self.goes_back:
                first = self.own.sided(self.start, 1.0)
                value = np.where(at < self.start, first, value)
                slope = np.where(at < self.start, 0.0, slope)
        if self.history is not None:
            before = derivatives(self.history, time, sides)
            value = np.where(at < self.start, before[0], value)
            slope = np.where(at < self.start, before[1], slope)
        return value, slope


class DelayedTrial:
    """Fixed steps of one trial. ivp : with the inputs that are given, on the nodes, whose
    parameters may change from run to run. sources : of the delayed inputs. unknown : number of
    parameters with derivatives."""

    def __init__(self, stepper: Stepper, ivp: IVP, sources: Sequence[Source], unknown: int) -> None:
        self._stepper, self._ivp, self._sources = stepper, ivp, sources
        self._unknown = unknown
        self._changes: Changes | None = None

    @property
    def changes(self) -> Changes:
        """Linearised equations of the last run."""
        assert self._changes is not None
        return self._changes

    def march(self, start: Array) -> tuple[Array, Array]:
        """Step from states (n,): states (n, N) and delayed inputs (D, N) at the nodes, those just
        after breaks, except at the last node. Raises `Diverged` if the end is not reached."""
        self._changes = None
        ivp = replace(self._ivp, initial=np.array(start)[:, None])
        now = ivp.time[:1]
        inputs = [
            within(row.T, kind, np.zeros(1, np.intp), np.zeros((1, 1))) for row, kind in ivp.inputs
        ]
        given = np.array([*(u[:, 0] for u in inputs), *np.zeros((len(self._sources), 1))])
        points = [ivp.initial, given, ivp.parameters.T, now[None]]
        taus = mapped(self._stepper.library, "delays", points, len(self._sources))[:, 0]
        delays = [
            source.delayed(float(tau), 0.0 if source.of_input else float(start[source.number]))
            for source, tau in zip(self._sources, taus, strict=True)
        ]
        problem = DelayProblem(ivp, delays, [], kinked=True)
        raw, past = simulated_with_past(self._stepper, problem)
        if raw.interrupted.any():
            raise KeyboardInterrupt
        if raw.reached[0] != len(ivp.time):
            raise Diverged(f"the simulation of {self._stepper.about.model}: {failure(raw, 0)}")
        self._changes = Changes(self._stepper, self._sources, self._unknown, raw, past)
        return raw.states[:, 0], self._changes.late_at_nodes


class Changes:
    """Linearised equations of a run with delays, and their solutions.

    Unknowns are in order of time: states at the start; then for each step delayed inputs at its
    places (D, P), rates of kept states at its begin, states at its end, rates there. raw : the run.
    """

    def __init__(
        self,
        stepper: Stepper,
        sources: Sequence[Source],
        unknown: int,
        raw: RawTrajectories,
        past: Past,
    ) -> None:
        self._stepper, self._unknown = stepper, unknown
        self.raw, self.sources = raw, sources
        self._past, self._ivp, self._places = past, raw.ivp, Places.of(stepper)
        self._kept = past.states
        self._states = raw.states[:, 0]
        n, S = len(self._states), len(self._ivp.time) - 1
        D, P, R = len(sources), len(self._places.shares), len(self._kept)
        size = D * P + 2 * R + n
        base = n + size * np.arange(S)
        self._x = np.vstack([np.arange(n), (base[:, None] + D * P + R + np.arange(n))]).T
        self._d = (np.arange(D * P)[:, None] + base).reshape(D, P, S)
        begin = np.arange(R)[:, None] + base + D * P
        self._f = np.array([begin, begin + R + n])
        self._size = n + size * S
        self._given = len(self._ivp.inputs) - D

    # -- solutions ------------------------------------------------------------------------------

    def tangent(self, starts: Array) -> tuple[Array, Array]:
        """Tangents: changes of states (N, n, columns) and of delayed inputs (N, D, columns) at the
        nodes with the unknown parameters, and with initial states along `starts` (n, directions).
        """
        factors, sides = self._linear
        right = np.hstack([sides.toarray(), np.zeros((self._size, starts.shape[1]))])
        right[: len(starts), self._unknown :] = starts
        found = factors.solve(right)
        return found[self._x.T], found[self._late_columns.T]

    def adjoint(self, states: Array, late: Array) -> tuple[Array, Array]:
        """Adjoint: derivatives of a sum by the states at the start (n,) and the unknown parameters,
        from those by states (n, N) and delayed inputs (D, N) at the nodes."""
        factors, sides = self._linear
        right = np.zeros(self._size)
        right[self._x] = states
        np.add.at(right, self._late_columns, late)
        found = factors.solve(right, "T")
        return found[self._x[:, 0]], np.asarray(sides.T @ found)

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self._ivp.time)

    @property
    def late_at_nodes(self) -> Array:
        """Delayed inputs at the nodes (D, N): after breaks, except at the last node."""
        return np.hstack([self._late[:, 0], self._late[:, -1, -1:]])

    @cached_property
    def _late_columns(self) -> _Index:
        """Columns of the delayed inputs at the nodes."""
        return np.hstack([self._d[:, 0], self._d[:, -1, -1:]])

    @cached_property
    def _linear(self) -> tuple[SuperLU, csr_array]:
        """Factors of the equations, and the derivatives by unknown parameters."""
        one, own = np.ones(self._size), np.arange(self._size)
        entries = [(own, own, one), *self._of_steps, *self._of_rates, *self._of_delays]
        rows, columns, values = (
            np.concatenate([e.ravel() for e in group])
            for group in zip(*(np.broadcast_arrays(*e) for e in entries), strict=True)
        )
        inside = columns >= 0
        matrix = coo_array(
            (values[inside], (rows[inside], columns[inside])), (self._size, self._size)
        )
        sides = coo_array(
            (-values[~inside], (rows[~inside], -1 - columns[~inside])), (self._size, self._unknown)
        )
        factors = splu(csc_array(matrix), permc_spec="NATURAL", diag_pivot_thresh=0.0)
        return factors, sides.tocsr()

    # Entries are (rows, columns, values), arrays of equal shapes; column -1 - k is parameter k.

    @property
    def _parameters(self) -> _Index:
        return -1 - np.arange(self._unknown)

    # -- points ---------------------------------------------------------------------------------

    def _given_at(self, share: float) -> Array:
        """Values of all inputs (m, S) at a share of each step."""
        nodes = np.arange(len(self._ivp.time) - 1)
        rows = [
            within(row[0], kind, nodes, np.full(len(nodes), share))
            for row, kind in self._ivp.inputs
        ]
        return np.array(rows)

    def _ends(self, side: int) -> tuple[Array, Array, Array]:
        """States, inputs and times at the begin (0) or the end (1) of each step."""
        inputs, place = self._given_at(float(side)), -side
        inputs[self._given :] = self._late[:, place]
        nodes = slice(side, len(self._ivp.time) - 1 + side)
        return self._states[:, nodes], inputs, self._ivp.time[nodes]

    def _rates(self, states: Array, inputs: Array, time: Array) -> Array:
        points = [states, inputs, self._ivp.parameters.T, time[None]]
        return mapped(self._stepper.library, "rhs", points, len(states))

    def _slopes(self, states: Array, inputs: Array, time: Array) -> Array:
        """Derivatives (S, n, n + D + r) of the rates by states, delayed inputs and parameters."""
        about, n = self._stepper.about, len(states)
        rows, columns = about.partials
        rates = self._rates(states, inputs, time)
        points = [rates, states, inputs, self._ivp.parameters.T, time[None]]
        values = mapped(self._stepper.library, "partials", points, len(rows))
        matrix = np.zeros((len(time), n, 2 * n + len(self.sources) + self._unknown))
        matrix[:, list(rows), list(columns)] = values.T
        return -np.asarray(np.linalg.solve(matrix[:, :, :n], matrix[:, :, n:]), np.float64)

    # -- equations ------------------------------------------------------------------------------

    @property
    def _of_rates(self) -> list[tuple[Array, Array, Array]]:
        """Equations of rates at the ends of steps."""
        found = []
        n, D = len(self._states), len(self.sources)
        for side in (0, 1):
            F = self._slopes(*self._ends(side))[:, self._kept]
            rows = self._f[side].T[:, :, None]
            states = self._x[:, side : F.shape[0] + side].T[:, None]
            found.append((rows, states, -F[:, :, :n]))
            found.append((rows, self._d[:, -side].T[:, None], -F[:, :, n : n + D]))
            found.append((rows, self._parameters, -F[:, :, n + D :]))
        return found

    @property
    def _of_steps(self) -> list[tuple[Array, Array, Array]]:
        """Equations of states at the ends of steps."""
        n, DP = len(self._states), self._d[:, :, 0].size
        step, S = self._steps(), len(self._ivp.time) - 1
        rows = self._x[:, 1:].T[:, :, None]
        late = self._d.reshape(DP, S).T[:, None]
        begin = self._x[:, :-1].T[:, None]
        return [
            (rows, begin, -np.eye(n) - step[:, :, :n]),
            (rows, late, -step[:, :, n : n + DP]),
            (rows, self._parameters, -step[:, :, n + DP :]),
        ]

    def _steps(self) -> Array:
        """Derivatives (S, n, n + D P + r) of the increment of each step by the states at its begin,
        delayed inputs at its places, and parameters."""
        A, b, c = extended(self._stepper.tableau, False)
        h, n, D = np.diff(self._ivp.time), len(self._states), len(self.sources)
        shares = np.vander(c, 3) @ np.linalg.inv(np.vander([0.0, 0.5, 1.0], 3))
        weights = shares @ self._places.samples
        sides, inner = [], []
        for states, inputs, time, place in zip(*self._stages(A, c), weights, strict=True):
            F = self._slopes(states, inputs, time)
            late = (F[:, :, n : n + D, None] * place).reshape(len(h), n, -1)
            sides.append(np.concatenate([F[:, :, :n], late, F[:, :, n + D :]], axis=2))
            inner.append(h[:, None, None] * F[:, :, :n])
        if not self._stepper.explicit:
            s = len(c)
            matrix = np.einsum("jl,jiab->ijalb", A, np.array(inner))
            matrix = np.eye(s * n) - matrix.reshape(len(h), s * n, s * n)
            right = np.array(sides).transpose(1, 0, 2, 3).reshape(len(h), s * n, -1)
            rates = np.linalg.solve(matrix, right).reshape(len(h), s, n, -1)
            return np.asarray(h[:, None, None] * np.einsum("j,ijnq->inq", b, rates))
        slopes: list[Array] = []
        for j, side in enumerate(sides):
            before = sum(
                (A[j, k] * slope for k, slope in enumerate(slopes) if A[j, k]), np.zeros(1)
            )
            slopes.append(side + inner[j] @ before if before.ndim > 1 else side)
        total = sum((weight * slope for weight, slope in zip(b, slopes, strict=True)), np.zeros(1))
        return np.asarray(h[:, None, None] * total)

    def _stages(self, A: Array, c: Array) -> tuple[list[Array], list[Array], list[Array]]:
        """States, inputs and times at the stages of all steps."""
        begin, h = self._ivp.time[:-1], np.diff(self._ivp.time)
        inputs, times = [self._given_at(float(share)) for share in c], [begin + s * h for s in c]
        if not self._stepper.explicit:
            shape = (len(self._states), len(c), len(h))
            rates, states = np.zeros(shape), np.zeros(shape)
            run, raw = bind(self._stepper, self._ivp, stages=(rates, states))
            for i, x in enumerate(self._states[:, :-1].T):  # alone, a run without delays may grow
                raw.states[:, 0, i], raw.reached[:] = x, i + 1
                run.march(self._stepper.loop, i, i + 1)
            return list(np.moveaxis(states, 1, 0)), inputs, times
        found: list[Array] = []
        slopes: list[Array] = []
        for j, row in enumerate(A):
            x = self._states[:, :-1].copy()
            for weight, slope in zip(row, slopes, strict=False):
                x += weight * h * slope
            found.append(x)
            slopes.append(self._rates(x, inputs[j], times[j]))
        return found, inputs, times

    @property
    def _of_delays(self) -> list[tuple[Array, Array, Array]]:
        """Equations of delayed inputs at the places of steps."""
        found = []
        by_delay = self._of_times()
        for k, looked in enumerate(self._looked):
            found += [(self._d[k][None], columns, -w) for columns, w in looked.entries]
            for column, values in by_delay[k]:  # d = s(t - tau)
                found.append((self._d[k], column, looked.slope * values))
        return found

    def _of_times(self) -> list[list[tuple[Array, Array]]]:
        """Derivatives of each delay at the places of steps: columns and values (P, S)."""
        about, D = self._stepper.about, len(self.sources)
        n, (rows, columns) = len(self._states), about.delays
        found: list[list[tuple[Array, Array]]] = [[] for _ in range(D)]
        if not len(rows):
            return found
        P, S = self._times.shape
        points = [*self._at_places, self._ivp.parameters.T, self._times.reshape(1, -1)]
        values = mapped(self._stepper.library, "delay_slopes", points, len(rows)).reshape(-1, P, S)
        for k, j, value in zip(rows, columns, values, strict=True):
            if j >= n + D:
                found[k].append((np.array(-1 - (j - n - D)), value))
                continue
            for place, share in enumerate(self._places.shares):
                for at, weight in self._own_course(j, float(share)):
                    full = np.zeros((P, S))
                    full[place] = weight * value[place]
                    found[k].append((np.broadcast_to(at, (P, S)), full))
        return found

    def _own_course(self, state: int, share: float) -> list[tuple[Array, Array]]:
        """Columns (S,) and weights of a state at a share of its own step."""
        x, h, row = self._x[state], np.diff(self._ivp.time), self._kept.index(state)
        parts = (x[:-1], self._f[0, row], x[1:], self._f[1, row])
        return list(zip(parts, _hermite(np.full(len(h), share), h)[0], strict=True))

    # -- delayed values -------------------------------------------------------------------------

    @cached_property
    def _times(self) -> Array:
        """Times (P, S) of the places."""
        begin, h = self._ivp.time[:-1], np.diff(self._ivp.time)
        times = begin + self._places.shares[:, None] * h
        times[-1] = self._ivp.time[1:]
        return times

    @cached_property
    def _at_places(self) -> tuple[Array, Array]:
        """States, by the interpolated past where delays change along the motion, and inputs at the
        places of all steps, (rows, P S)."""
        inputs = np.array([self._given_at(float(share)) for share in self._places.shares])
        inputs[:, self._given :] = 0.0
        sides = np.repeat(self._places.sides, self._times.shape[1])
        if len(self._kept) == len(self._states):
            time = self._times.reshape(1, -1)
            states = np.array([self._past(k, time, sides)[0] for k in range(len(self._kept))])
        else:
            states = np.tile(self._states[:, :-1], len(self._times))
        return states, inputs.transpose(1, 0, 2).reshape(inputs.shape[1], -1)

    @cached_property
    def _looked(self) -> list[_Looked]:
        """Delayed values of each input at the places of all steps, with slopes and derivatives."""
        P, S = self._times.shape
        points = [*self._at_places, self._ivp.parameters.T, self._times.reshape(1, -1)]
        count = len(self.sources)
        taus = mapped(self._stepper.library, "delays", points, count).reshape(count, P, S)
        return [self._look(k, self._times - taus[k]) for k in range(count)]

    @cached_property
    def _late(self) -> Array:
        """Delayed inputs (D, P, S)."""
        return np.array([looked.value for looked in self._looked])

    def _look(self, number: int, back: Array) -> _Looked:
        source = self.sources[number]
        sides = np.broadcast_to(self._places.sides[:, None], back.shape)
        if source.of_input:
            return _Looked(*source.known(back, sides, 0.0), [])
        grid, row, first = self._ivp.time, self._kept.index(source.number), self._x[source.number]
        at = back + sides * slack(back)
        piece = np.searchsorted(grid, at, side="right") - 1
        early, piece = piece < 0, np.clip(piece, 0, len(grid) - 2)
        h = np.diff(grid)[piece]
        weights, slopes = _hermite((back - grid[piece]) / h, h)
        rates = self._past.rates[:, :, row, 0]
        x = self._states[source.number]
        values = (x[piece], rates[0][piece], x[piece + 1], rates[1][piece])
        value = sum(w * v for w, v in zip(weights, values, strict=True))
        slope = sum(w * v for w, v in zip(slopes, values, strict=True))
        before, change = source.known(back, sides, float(x[0]))
        columns = (first[piece], self._f[0, row][piece], first[piece + 1], self._f[1, row][piece])
        entries = [
            (column, np.where(early, 0.0, w)) for column, w in zip(columns, weights, strict=True)
        ]
        if source.history is None:
            entries.append((np.full(back.shape, first[0]), early.astype(np.float64)))
        return _Looked(np.where(early, before, value), np.where(early, change, slope), entries)


@dataclass(frozen=True, eq=False)
class _Looked:
    """Delayed input and its slope (P, S), and the entries of its derivatives: columns and
    weights."""

    value: Array
    slope: Array
    entries: list[tuple[Array, Array]]


def _hermite(s: Array, h: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Hermite weights of value and rate at the begin, then at the end, of a piece of length h, at
    the share s; and the weights of the rate there."""
    weights = (
        1.0 + s**2 * (2.0 * s - 3.0),
        h * s * (1.0 - s) ** 2,
        s**2 * (3.0 - 2.0 * s),
        h * s**2 * (s - 1.0),
    )
    slopes = (
        6.0 * s * (s - 1.0) / h,
        (1.0 - s) * (1.0 - 3.0 * s),
        6.0 * s * (1.0 - s) / h,
        s * (3.0 * s - 2.0),
    )
    return weights, slopes
