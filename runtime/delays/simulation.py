"""Time stepping with delays, window by window: delayed inputs follow from the past motion.

Each delayed input is given to the loops by its values at the stages of every step. Beyond the
window these are known. If a delay looks back into the window, as short delays do, the window is
stepped again until nothing changes any more, which is then as exact as the steps (Bellen,
Zennaro, Numerical Methods for Delay Differential Equations, sections 4.2 and 6.2).
"""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.delays.past import Past, slack
from kinesym.runtime.delays.problem import Break, DelayProblem, images, inserted
from kinesym.runtime.delays.window import Stretch
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.progress import node_bar
from kinesym.runtime.simulation.stepper import (
    RawTrajectories,
    Stepper,
    bind,
    check_start,
    finished,
)

#: First width of an iterated window [steps].
_WIDTH = 16
#: Largest width of an iterated window [steps].
_WIDEST = 512
#: Iterations of a window below which the next one is wider.
_FEW = 7
#: Iterations of a window above which the next one is narrower.
_MANY = 14
#: Least width of a window without iteration, whose delayed inputs are all known [steps].
_ENOUGH = 4
#: Largest width of a window without iteration [steps].
_MOST_AT_ONCE = 16_384
#: Rounding of times, relative to the shortest delay, above which steps are not chosen.
_FINE = 3e-11
#: Parts into which an adaptive method cuts a step of the grid, at most.
_CUTS = 8
#: Cuts of the steps of a window in turn, at most.
_MOST_CUTS = 16


def simulate_delayed(
    stepper: Stepper, problem: DelayProblem, progress: bool | None = None
) -> RawTrajectories:
    """Simulate with delays through all nodes; Ctrl-C ends it with the part that has been computed.

    The result has more nodes than the problem. Raises `ValueError` if a limit is broken at the
    start, and for methods with too many stages.
    """
    return simulated_with_past(stepper, problem, progress)[0]


def simulated_with_past(
    stepper: Stepper, problem: DelayProblem, progress: bool | None = False
) -> tuple[RawTrajectories, Past]:
    """Simulate as `simulate_delayed`, and return the past of the states that delays look back at,
    too."""
    nodes = problem.ivp.time
    with interruptible() as stop, node_bar(len(nodes) - 1, progress) as advance:
        march, done = _March(stepper, problem, stop), 0
        while march.goes_on:
            march.window()
            now = int(np.searchsorted(nodes, march.time, side="right")) - 1
            advance(now - done)
            done = now
        return march.result(), march.past


def _check_rounding(stepper: Stepper, problem: DelayProblem) -> None:
    """Raise `ValueError` for times that are rounded too much for the defects of steps that a method
    chooses."""
    time = problem.ivp.time
    late = max(min(d.low for d in problem.delays), float(np.diff(time).min()))
    rounding = float(np.spacing(np.abs(time).max()))
    if rounding > _FINE * late:
        raise ValueError(
            f"{stepper.loop} chooses its steps by delays, for which times near {time[-1]:.4g} s, "
            f"rounded to {rounding:.1g} s, are too coarse: let the time begin at 0, or use "
            "method='rk4'"
        )


class _March:
    """Simulation in progress. grid : the nodes, of which `node` is reached."""

    def __init__(self, stepper: Stepper, problem: DelayProblem, stop: threading.Event) -> None:
        self._stepper, self._problem, self._stop = stepper, problem, stop
        ivp, delays, about = problem.ivp, problem.delays, stepper.about
        if stepper.adaptive and "rhs" not in stepper.library.kernel_names():
            raise ValueError(
                f"model {about.model} has delays, and no explicit rates by which {stepper.loop} "
                "could choose its steps; use method='radau-3'"
            )
        if stepper.adaptive:
            _check_rounding(stepper, problem)
        times = np.array([one.time for one in problem.breaks])
        self._grid = inserted(with_substeps(ivp.time, ivp.substeps), times)
        self._node = 0
        self._moving = any(delay.moving for delay in delays)
        signals = {delay.source: delay.signal for delay in delays if not delay.of_input}
        every = self._moving or stepper.adaptive
        self._kept = list(range(len(about.states))) if every else sorted(signals)
        none = next(iter(signals.values()), lambda time, sides: time)
        before = [signals.get(row, none) for row in self._kept]
        self._past = Past(float(self._grid[0]), ivp.initial[self._kept], before, self._kept)
        self._breaks, self._states = list(problem.breaks), np.array(ivp.initial)
        self._alive, self._steps = np.ones(ivp.members, dtype=np.bool_), np.zeros(ivp.members)
        self._reached = np.ones(ivp.members, dtype=np.intp)
        self._trouble, self._broken = np.zeros(ivp.members), dict[int, str]()
        self._width, self._length, self._first = _WIDTH, np.inf, 0
        self._stretch: Stretch | None = None
        self._done: list[tuple[Stretch, int]] = []

    @property
    def goes_on(self) -> bool:
        """Whether steps are left."""
        more = self._node < len(self._grid) - 1
        return more and bool(self._alive.any()) and not self._stop.is_set()

    @property
    def past(self) -> Past:
        """Past of the states that delays look back at."""
        return self._past

    @property
    def time(self) -> float:
        """The time reached [s]."""
        return float(self._grid[self._node])

    def window(self) -> None:
        """Step through the next window."""
        if self._stepper.adaptive:
            self._chosen()
        else:
            self._fixed()

    # -- fixed steps -----------------------------------------------------------------------------

    def _fixed(self) -> None:
        if self._stretch is None:
            nodes = self._grid[self._node :]
            self._stretch, self._first = self._stretch_of(nodes), self._node
        begin = self._node - self._first
        end = self._stretch.known(begin, self._stop)
        if end > begin:
            self._advance(self._stretch, begin, end, 1)
            return
        end = begin + min(self._steps_ahead(), len(self._grid) - 1 - self._node)
        stretch = self._stretch
        while not (turns := stretch.settle(begin, end, self._stop)) and end > begin + 1:
            end = begin + max(1, (end - begin) // 2)
        self._width = self._next_width(turns, end - begin)
        crossed = self._crossed(stretch, begin, end) if turns else False
        if crossed:
            return
        stretch.keep()
        self._advance(stretch, begin, end, turns)

    def _advance(self, stretch: Stretch, begin: int, end: int, turns: int) -> None:
        """Record the steps of a stretch from node to node."""
        self._node += end - begin
        self._note(stretch, begin, end, turns)
        if self._node == len(self._grid) - 1 or not self._alive.any():
            self._done.append((stretch, end))

    def _steps_ahead(self) -> int:
        """Width of the next window [steps]: all steps with known delays, if these are not few."""
        if self._moving:
            return self._width
        low = min((d.low for d in self._problem.delays if not d.of_input), default=np.inf)
        limit = self.time + low
        known = int(np.searchsorted(self._grid, limit + slack(self.time))) - 1
        known -= self._node
        return min(known, _MOST_AT_ONCE) if known >= _ENOUGH else max(self._width, 1)

    def _next_width(self, turns: int, width: int) -> int:
        """Next width of an iterated window [steps], from the iterations of the last one."""
        if turns == 1 or width > self._width:
            return self._width
        if not turns or turns > _MANY:
            return max(1, width // 2)
        return min(2 * width, _WIDEST) if turns < _FEW and width == self._width else width

    # -- adaptive steps --------------------------------------------------------------------------

    def _chosen(self) -> None:
        low = min((d.low for d in self._problem.delays if not d.of_input), default=np.inf)
        last = int(np.searchsorted(self._grid, self.time + low, side="right")) - 1
        few = np.isfinite(self._length) and low < _ENOUGH * self._length
        if self._moving or few:
            last = max(last, self._node + self._width)
        last = min(max(last, self._node + 1), len(self._grid) - 1)
        nodes = _cut(self._grid[self._node : last + 1], np.full(last - self._node, self._length))
        for _ in range(_MOST_CUTS):
            nodes = nodes[: 1 + (_WIDEST if self._moving or low < self._length else _MOST_AT_ONCE)]
            steps = self._steps.copy()
            stretch = self._stretch_of(nodes, steps)
            turns = stretch.settle(0, len(nodes) - 1, self._stop)
            if not turns:
                nodes = _halved(nodes)
                continue
            if not (stretch.raw.reached == len(nodes)).any():
                break
            errors = stretch.errors()
            if not (errors > 1.0).any():
                break
            share = np.clip(0.8 * np.maximum(errors, 1e-9) ** -0.25, 1.0 / _CUTS, np.inf)
            nodes = _cut(nodes, np.where(errors > 1.0, share * np.diff(nodes), np.inf))
        else:
            stretch.raw.reached[self._alive], turns = 1, 0
        nodes = stretch.nodes
        end = len(nodes) - 1
        if turns and self._crossed(stretch, 0, end):
            return
        if turns and (stretch.raw.reached == len(nodes)).any():
            grown = min(3.0, 0.8 * max(float(errors[-1]), 1e-3) ** -0.25)
            self._length = grown * float(nodes[-1] - nodes[-2])
        stretch.keep()
        rest = self._grid[self._grid > nodes[-1]]
        self._grid = np.concatenate([self._grid[: self._node], nodes, rest])
        self._node += end
        self._steps = steps
        self._note(stretch, 0, end, turns)
        self._done.append((stretch, end))

    # -- both ------------------------------------------------------------------------------------

    def _stretch_of(self, nodes: Array, steps: Array | None = None) -> Stretch:
        """Loops for some nodes from the current state."""
        smooth = ~_among(nodes, np.array([b.time for b in self._breaks]))
        if self._problem.kinked:
            smooth &= ~_among(nodes, self._problem.ivp.time)
        smooth &= nodes > self._grid[0]
        return Stretch(
            self._problem,
            self._stepper,
            self._past,
            self._kept,
            nodes,
            self._states,
            self._alive,
            smooth,
            np.zeros(len(self._alive)) if steps is None else steps,
        )

    def _crossed(self, stretch: Stretch, begin: int, end: int) -> bool:
        """Whether a delay crossed a break within a step; then a node is inserted there."""
        if not self._moving or stretch.raw.reached[0] != end + 1:
            return False
        order = self._stepper.tableau.order
        known = np.array([b.time for b in self._breaks if b.order < order])
        found = stretch.crossing(begin, end, known) if len(known) else None
        if found is None:
            return False
        at, of = found
        one = Break(at, 1 + min(b.order for b in self._breaks if b.time == of))
        constant = [d.low for d in self._problem.delays if not d.moving]
        new = images([one], constant, float(self._grid[-1]), order)
        self._breaks += new
        if begin:
            self._done.append((stretch, begin))
        self._grid = inserted(self._grid, np.array([b.time for b in new]))
        self._stretch = None
        return True

    def _note(self, stretch: Stretch, begin: int, end: int, turns: int) -> None:
        """Record nodes, states and failures of the members after a window."""
        raw = stretch.raw
        if self._moving and turns and (found := stretch.beyond(begin, end)):
            raw.reached[0] = min(raw.reached[0], max(found[0], begin + 1))
            self._broken[0] = found[1]
        gained = np.where(self._alive, raw.reached - 1 - begin, 0)
        self._reached += gained
        self._trouble = np.where(self._alive, raw.trouble, self._trouble)
        alive = self._alive & (raw.reached == end + 1)
        if not turns:
            remedy = "loosen tolerances" if self._stepper.adaptive else "use shorter steps"
            words = (
                "a delay looks back into the step itself, or nearly so, and the motion does not "
                f"settle with this; {remedy}"
            )
            jumps = np.array([b.time for b in self._breaks if b.order == 0])
            near = 2.0 * float(np.diff(self._problem.ivp.time).max())
            words = (stretch.at_break(begin, jumps, near) if self._moving else "") or words
            self._broken |= dict.fromkeys(np.flatnonzero(self._alive).tolist(), words)
        self._alive = self._alive if self._stop.is_set() else alive
        self._states = raw.states[:, :, end]

    def result(self) -> RawTrajectories:
        """Trajectories on all nodes, from all stretches."""
        if self._stretch is not None and (not self._done or self._done[-1][0] is not self._stretch):
            self._done.append((self._stretch, self._node - self._first))
        members, total = len(self._alive), len(self._grid)
        states = np.full((self._states.shape[0], members, total), np.nan)
        rows: list[Array] = []
        at = 0
        for stretch, end in self._done:
            states[:, :, at : at + end + 1] = stretch.raw.states[:, :, : end + 1]
            if not rows:
                rows = [np.zeros((len(row), 3 * total - 2)) for row in stretch.rows]
            for row, own in zip(rows, stretch.rows, strict=True):
                row[:, 3 * at : 3 * (at + end) + 1] = own[:, : 3 * end + 1]
            at += end
        ivp = self._problem.ivp_on(self._grid, self._problem.ivp.initial, rows)
        run, raw = bind(self._stepper, ivp, states=states)
        check_start(raw, run)
        raw.reached[:], raw.trouble[:] = self._reached, self._trouble
        raw.interrupted[:] = self._alive & (self._reached < total)
        return finished(replace(raw, broken=self._broken), run)


def with_substeps(time: Array, count: int) -> Array:
    """Grid (N,) with each of its intervals cut into `count` parts."""
    place = np.arange((len(time) - 1) * count + 1) / count
    return time if count == 1 else np.interp(place, np.arange(len(time)), time)


def _among(nodes: Array, times: Array) -> NDArray[np.bool_]:
    """Nodes that are one of these times, booleans."""
    times = np.append(np.sort(times), np.inf)
    near = times[np.searchsorted(times, nodes - slack(nodes))]
    return np.asarray(near <= nodes + slack(nodes))


def _cut(nodes: Array, lengths: Array) -> Array:
    """Nodes (K + 1,) with further ones, so that no step is longer than permitted, (K,)."""
    parts = np.maximum(np.ceil(np.diff(nodes) / lengths - 1e-9), 1.0).astype(np.intp)
    place = np.repeat(np.arange(len(parts)), parts)
    share = (np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)) / parts[place]
    made = nodes[place] + share * np.diff(nodes)[place]
    return np.append(made, nodes[-1])


def _halved(nodes: Array) -> Array:
    """First half of a window; of a single step, its first half."""
    if len(nodes) > 2:
        return nodes[: 1 + (len(nodes) - 1) // 2]
    return np.array([nodes[0], 0.5 * (nodes[0] + nodes[1])])
