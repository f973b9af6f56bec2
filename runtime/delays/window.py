"""Windows of time stepping with delays, stepped until delayed inputs and motion agree."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array, located
from kinesym.runtime.delays.past import Past, slack
from kinesym.runtime.delays.problem import Delayed, DelayProblem, Places
from kinesym.runtime.native import PARABOLA
from kinesym.runtime.simulation.interval import within
from kinesym.runtime.simulation.stepper import Stepper, bind, mapped

#: Iterations of a window at most.
_MOST_ROUNDS = 40
#: Change of delayed values, relative to the largest, at which the iteration has converged.
_SETTLED = 1e-13
#: Change of delayed values, relative to the largest, at which a stalled iteration has converged.
_STALLED = 1e-10
#: Shares of a step at which the rate of a piece is compared with that of the equations.
_TRIED = (0.25, 0.75)


class Stretch:
    """Loops bound to nodes (N,) of a grid, whose delayed inputs are filled in window by window.

    past : of the states up to the first node, to which windows are added; kept : the states in it.
    states : (n, M) at the first node. alive : (M,), members that go on. smooth : (N,), whether the
    motion is smooth at each node. steps : see `bind`.
    """

    def __init__(
        self,
        problem: DelayProblem,
        stepper: Stepper,
        past: Past,
        kept: Sequence[int],
        nodes: Array,
        states: Array,
        alive: NDArray[np.bool_],
        smooth: NDArray[np.bool_],
        steps: Array,
    ) -> None:
        self._problem, self._stepper, self._past, self._kept = problem, stepper, past, list(kept)
        self._places, self._smooth, self.nodes = Places.of(stepper), smooth, nodes
        self.rows = [_parabolas(problem, k, nodes) for k in range(len(problem.ivp.inputs))]
        count = 3 * len(nodes) - 2
        self.rows += [np.zeros((states.shape[1], count)) for _ in problem.delays]
        ivp = problem.ivp_on(nodes, states, self.rows)
        self._run, self.raw = bind(stepper, ivp, steps=steps)
        self.raw.reached[~alive] = 0
        self._explicit = "rhs" in stepper.library.kernel_names()
        self._moving = any(delay.moving for delay in problem.delays)
        self._ready: list[tuple[int, int, float, Array, Array]] | None = None

    def known(self, begin: int, stop: threading.Event) -> int:
        """Step from a node on while all delayed inputs are known, and keep these steps; returns the
        node that is reached."""
        if self._moving or not self._explicit or self._stepper.adaptive:
            return begin
        last = self._crossing(begin)
        if last == begin:
            return begin
        if self._ready is None:
            self._ready = self._prepared()
            self._past.room(self._smooth[:-1])
        low = min((d.low for d in self._problem.delays if not d.of_input), default=np.inf)
        time, at = float(self.nodes[begin]), self._past.node - begin
        late = [
            (row, first, self._past.piece(time - tau), tau, samples, ends)
            for row, first, tau, samples, ends in self._ready
        ]
        shares, samples = self._places.shares, self._places.samples
        about = (self._past.arrays, self._kept, at, late, shares, samples, low, stop)
        reached = self._run.march_late(self._stepper.loop, begin, last, *about)
        self._past.filled(reached - begin)
        return reached

    def _prepared(self) -> list[tuple[int, int, float, Array, Array]]:
        """Tables for `known`: for each delayed input its row of the past, the first step that looks
        at it, the delay, samples and values at the ends of steps, filled in if it looks back beyond
        the start."""
        delays, steps = self._problem.delays, len(self.nodes) - 1
        firsts = [
            steps if d.of_input else int(np.searchsorted(self.nodes, self._begin_of(d)))
            for d in delays
        ]
        count, members = min(max(firsts), steps), self.raw.ivp.members
        early = self._late(0, count)
        if count:
            self._fill(0, count, early)
        found = []
        for k, delay in enumerate(delays):
            ends = np.zeros((2, members, steps))
            ends[:, :, :count] = early[k][..., 0], early[k][..., -1]
            row = -1 if delay.of_input else self._kept.index(delay.source)
            samples = self.rows[len(self._problem.ivp.inputs) + k]
            found.append((row, firsts[k], delay.low, samples, ends))
        return found

    def _crossing(self, begin: int) -> int:
        """First step from a node on within which a delay begins to look beyond the first node; the
        last node if there is none."""
        ends = [self._begin_of(d) for d in self._problem.delays if not d.of_input]
        steps = np.searchsorted(self.nodes, ends) - 1
        inside = self.nodes[np.clip(steps + 1, 0, len(self.nodes) - 1)] > ends + 3.0 * slack(ends)
        found = steps[inside & (steps >= begin)]
        return int(min(found, default=len(self.nodes) - 1))

    def _begin_of(self, delay: Delayed) -> float:
        """Time at which a delay looks back to the first node [s]."""
        time = float(self.nodes[0]) + delay.low
        return time - float(slack(time))

    def settle(self, begin: int, end: int, stop: threading.Event) -> int:
        """Step from node to node until delayed inputs settle; returns the number of iterations, 0
        if they do not settle."""
        reached = self.raw.reached
        alive = reached == begin + 1
        late = self._late(begin, end)
        known = not self._moving and self._known(begin, end)
        before = np.inf
        for turn in range(1, _MOST_ROUNDS + 1):
            self._fill(begin, end, late)
            reached[alive] = begin + 1
            with np.errstate(all="ignore"):
                self._run.march(self._stepper.loop, begin, end, stop)
                self._put(begin, end, late)
                if known or stop.is_set():
                    return turn
                found = self._late(begin, end)
                size = np.nanmax(np.abs(found), axis=(1, 2, 3), initial=0.0, keepdims=True)
                change = np.nanmax(np.abs(found - late)[:, alive] / (size + 1e-300), initial=0.0)
            lost = ~np.isfinite(found[:, alive]).all()
            if not lost and (change <= _SETTLED or (change <= _STALLED and change > 0.5 * before)):
                return turn
            if lost and turn > 3:
                break
            late, before = found, change
        reached[alive] = begin + 1
        return 0

    def keep(self) -> None:
        """Keep the last steps."""
        self._past.keep()

    def _known(self, begin: int, end: int) -> bool:
        """Whether all delays of states look back beyond the window."""
        reach = [self.nodes[end] - d.low for d in self._problem.delays if not d.of_input]
        return max(reach, default=-np.inf) <= self.nodes[begin] + slack(self.nodes[begin])

    # -- delayed inputs --------------------------------------------------------------------------

    def _late(self, begin: int, end: int) -> Array:
        """Delayed inputs at the places of steps, (D, M, K, P)."""
        nodes, shares = self.nodes[begin : end + 1], self._places.shares
        time = nodes[:-1, None] + shares * np.diff(nodes)[:, None]
        time[:, -1] = nodes[1:]
        sides = np.tile(self._places.sides, end - begin)
        found = self.late_at(time.ravel(), sides)
        return found.reshape(*found.shape[:2], *time.shape)

    def late_at(self, time: Array, sides: Array) -> Array:
        """Delayed inputs at times (K,), (D, M, K). sides : see `Past`."""
        delays, members = self._problem.delays, self.raw.ivp.members
        found = np.empty((len(delays), members, len(time)))
        moving = self.delays_at(time, sides) if self._moving else None
        for k, delay in enumerate(delays):
            back = time[None] - (delay.low if moving is None or not delay.moving else moving[k])
            if delay.of_input:
                found[k] = delay.signal(back, sides)
            else:
                found[k] = self._past(self._kept.index(delay.source), back, sides)
        return found

    def delays_at(self, time: Array, sides: Array) -> Array:
        """Delays at times (K,), of a single trajectory, (D, 1, K)."""
        states = np.array([self._past(k, time[None], sides)[0] for k in range(len(self._kept))])
        given = [rows[0] for rows in self._given_at(time)]
        inputs = np.array([*given, *np.zeros((len(self._problem.delays), len(time)))])
        points = [states, inputs, self._problem.ivp.parameters[:1].T, time[None]]
        if self._stepper.about.varying:
            points[2] = np.repeat(points[2], len(time), axis=1)
        points += self._stepper.apart
        found = mapped(self._stepper.library, "delays", points, len(self._problem.delays))
        return found[:, None]

    def _given_at(self, time: Array) -> list[Array]:
        """Inputs that are not delayed, at times (K,), (1 or M, K) each; at a node those
        after it."""
        grid = self._problem.ivp.time
        node, share = located(grid, time)
        return [
            within(rows.T, kind, node, share[:, None]).T for rows, kind in self._problem.ivp.inputs
        ]

    def _fill(self, begin: int, end: int, late: Array) -> None:
        """Give delayed inputs to the loops."""
        first = len(self._problem.ivp.inputs)
        samples = np.einsum("sp,dmkp->dmks", self._places.samples, late)
        for row, values in zip(self.rows[first:], samples, strict=True):
            row[:, 3 * begin : 3 * end] = values.reshape(len(row), -1)
            row[:, 3 * end] = values[:, -1, 2]

    # -- past ------------------------------------------------------------------------------------

    def _put(self, begin: int, end: int, late: Array) -> None:
        """Put the states of the window into the past."""
        states = self.raw.states[:, :, begin : end + 1]
        rates = None
        if self._explicit:
            ends = (late[..., 0], late[..., -1])
            pair = [self._rates(begin, end, side, ends[side])[self._kept] for side in (0, 1)]
            rates = np.array(pair).transpose(0, 3, 1, 2)
        values = states[self._kept].transpose(2, 0, 1)
        self._past.put(self.nodes[begin : end + 1], values, rates, self._smooth[begin:end])

    def _rates(self, begin: int, end: int, side: int, late: Array) -> Array:
        """Rates x' (n, M, K) at the begin (side 0) or the end (1) of each step."""
        count, first = end - begin, len(self._problem.ivp.inputs)
        part = slice(3 * begin + 2 * side, 3 * end, 3)
        states = self.raw.states[:, :, begin + side : end + side]
        members = states.shape[1]
        shape = (members, count)
        inputs = [np.broadcast_to(row[:, part], shape) for row in self.rows[:first]] + list(late)
        return self.rates_at(states, np.array(inputs), self.nodes[begin + side : end + side])

    def rates_at(self, states: Array, inputs: Array, time: Array) -> Array:
        """Rates x' (n, M, K) for states (n, M, K), inputs (m, M, K), times (K,)."""
        n, members, count = states.shape
        parameters = self._problem.ivp.parameters
        known = parameters.T
        if self._stepper.about.varying:
            known = np.repeat(np.broadcast_to(known, (known.shape[0], members)), count, axis=1)
        points = [
            states.reshape(n, -1),
            inputs.reshape(len(inputs), members * count),
            known,
            np.tile(time, members)[None],
            *self._stepper.apart,
        ]
        return mapped(self._stepper.library, "rhs", points, n).reshape(n, members, count)

    # -- accuracy --------------------------------------------------------------------------------

    def errors(self) -> Array:
        """Error estimate of the interpolated past and of the parabolas of delayed inputs on each
        step, (K,), in units of the tolerances: pieces by their defect in the differential
        equations."""
        nodes, ivp = self.nodes, self.raw.ivp
        h, (rtol, atol) = np.diff(nodes), ivp.tolerances
        found = np.zeros(len(h))
        for share in _TRIED:
            time, sides = nodes[:-1] + share * h, np.zeros(len(h))
            late = self.late_at(time, sides)
            given = [
                within(row.T, PARABOLA, np.arange(len(h)), np.full((len(h), 1), share)).T
                for row in self.rows
            ]
            first = len(self._problem.ivp.inputs)
            off = np.abs(np.array(given[first:]) - late) / (atol + rtol * np.abs(late))
            pairs = [self._past.with_slope(k, time) for k in range(len(self._kept))]
            states, slopes = (np.array(group) for group in zip(*pairs, strict=True))
            inputs = [np.broadcast_to(row, late.shape[1:]) for row in given[:first]] + list(late)
            defect = h * np.abs(slopes - self.rates_at(states, np.array(inputs), time))
            parts = (off, defect / (atol + rtol * np.abs(states)))
            for part in parts:
                found = np.maximum(found, np.nanmax(part, axis=(0, 1), initial=0.0))
        return found

    def crossing(self, begin: int, end: int, breaks: Array) -> tuple[float, float] | None:
        """First time within a step at which a moving delay looks back to one of these breaks, and
        that break."""
        nodes = self.nodes[begin : end + 1]
        late = self.delays_at(nodes, np.zeros(len(nodes)))
        found = []
        for k, delay in enumerate(self._problem.delays):
            if not delay.moving:
                continue
            back = (nodes - late[k, 0])[:, None] - breaks
            sign = np.where(np.abs(back) <= 1e3 * slack(nodes)[:, None], 0.0, np.sign(back))
            for step, one in np.argwhere(sign[:-1] * sign[1:] < 0.0)[:4]:
                within_step = (nodes[step], nodes[step + 1])
                found.append((self._looks_back(k, breaks[one], within_step), float(breaks[one])))
        return min(found, default=None)

    def beyond(self, begin: int, end: int) -> tuple[int, str] | None:
        """First node from which on a moving delay is outside its range, and a message on it."""
        nodes = self.nodes[begin : end + 1]
        late = self.delays_at(nodes, np.zeros(len(nodes)))
        for row, delay in zip(late[:, 0], self._problem.delays, strict=True):
            margin = slack(delay.high if np.isfinite(delay.high) else 1.0)
            outside = (row < delay.low - margin) | (row > delay.high + margin)
            if delay.moving and outside.any():
                k = int(np.argmax(outside))
                return begin + k, (
                    f"the delay of {delay.name} is {row[k]:.6g} s, outside its range "
                    f"({delay.low:g}, {delay.high:g})"
                )
        return None

    def at_break(self, node: int, breaks: Array, near: float) -> str:
        """Message if a moving delay looks back, from a node, to one of these breaks or no further
        from it than `near` [s], and not into the step itself; empty if none does."""
        time = self.nodes[node : node + 1]
        back = time - self.delays_at(time, np.zeros(1))[:, 0, 0]
        for k, delay in enumerate(self._problem.delays):
            apart = np.abs(breaks - back[k])
            if not delay.moving or not len(apart) or not apart.min() <= near:
                continue
            at, late = breaks[np.argmin(apart)], time[0] - back[k]
            if late <= 2.0 * near:
                continue
            about = self._stepper.about
            name = (about.inputs if delay.of_input else about.states)[delay.source]
            what = "the history" if at < self._problem.ivp.time[0] else "the motion"
            return (
                f"{delay.name}, {late:.4g} s late, looks back to t = {at:g} s, where {what} of "
                f"{name} jumps, and there the delayed value "
                "would go back and forth across this jump: no motion by steps leads on from here "
                "(it slides along the jump); give a history without it, such as straight lines "
                "between its points"
            )
        return ""

    def _looks_back(self, number: int, time: float, ends: tuple[float, float]) -> float:
        """Time between two others (`ends`) at which a delay looks back to a given time [s]."""

        def off(now: float) -> float:
            delays = self.delays_at(np.array([now]), np.zeros(1))
            return float(now - delays[number, 0, 0] - time)

        return float(scipy.optimize.brentq(off, *ends, xtol=1e-13, rtol=1e-14))


def _parabolas(problem: DelayProblem, number: int, nodes: Array) -> Array:
    """Samples (1 or M, 3 N - 2) of an input on other nodes, among them all of its own."""
    rows, kind = problem.ivp.inputs[number]
    grid = problem.ivp.time
    if kind == PARABOLA and np.array_equal(grid, nodes):
        return rows
    begin = nodes[:-1]
    node = np.searchsorted(grid, begin + slack(begin), side="right") - 1
    length = grid[node + 1] - grid[node]
    found = np.empty((len(rows), 3 * len(nodes) - 2))
    for k, at in enumerate((begin, 0.5 * (begin + nodes[1:]), nodes[1:])):
        share = np.clip((at - grid[node]) / length, 0.0, 1.0)
        found[:, k:-1:3] = within(rows.T, kind, node, share[:, None]).T
    found[:, -1] = rows[:, -1] if nodes[-1] == grid[-1] else found[:, -2]
    return found
