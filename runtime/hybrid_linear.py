"""A hybrid run, step by step and event by event, as linear maps of small changes.

Changes are taken at equal times. A map has columns for what it depends on, [x | p | v | s | b]: dx
(n) before it, parameters p (r), then value, slope and next begin of each given input (m each).
Inside a step inputs are v + s (t - begin); where one breaks, b is when. At an event that is
located the change of its time dt is a row of the same columns (the rule behind the saltation
matrix).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.event_log import KINDS
from kinesym.runtime.hybrid_simulation import HybridTask, Marched, mapped, points
from kinesym.runtime.native import Library
from kinesym.runtime.signals import Segments, segments

Array = NDArray[np.float64]
Integers = NDArray[np.intc]

#: Modes of a contact, see runtime/hybrid/contact.h.
OPEN, STICKS, FORWARDS, BACKWARDS = range(4)
PLAIN, CLOCK = -2, -1
#: How far from the ends of a step, as a share of it, inputs are read: where they break, something
#: like |u| may have a kink, and only one of its two slopes belongs to the step.
INSIDE = 1e-9
#: Steps that are linearised at a time.
AT_ONCE = 256

#: Stages of Dormand and Prince, and of the classical Runge-Kutta: row s leads to stage s, the last
#: row to the end (Hairer, Norsett, Wanner I, tables II.1.2 and II.5.2).
STAGES = {
    "dormand-prince": [
        [],
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ],
    "rk4": [[], [1 / 2], [0.0, 1 / 2], [0.0, 0.0, 1.0], [1 / 6, 1 / 3, 1 / 3, 1 / 6]],
}


@dataclass(frozen=True, eq=False)
class Place:
    """Many points at once: times (B,), states (n, B), modes (d, B), contact modes (B, count),
    segments of the inputs (B,)."""

    time: Array
    x: Array
    mode: Array
    contact: Integers
    segment: NDArray[Any]

    def moved(self, time: Array, x: Array) -> Place:
        """The same with other times and states."""
        return Place(time, x, self.mode, self.contact, self.segment)

    def part(self, here: Any) -> Place:
        """Some of the points."""
        return Place(
            self.time[here],
            self.x[:, here],
            self.mode[:, here],
            self.contact[here],
            self.segment[here],
        )


@dataclass(frozen=True, eq=False)
class Flow:
    """At many points: x' (n, B), its derivatives (B, n, L + 1) and those of the contact forces
    (B, R, L + 1), in the columns of maps, then of time alone, inputs moving with it."""

    rate: Array
    slope: Array
    force: Array
    inputs: Array

    def part(self, here: Any) -> Flow:
        """Some of the points."""
        return Flow(self.rate[:, here], self.slope[here], self.force[here], self.inputs[:, here])


@dataclass(frozen=True, eq=False)
class Instant:
    """What happens after a step: the map (n, L) of dx, the row dt (L,), and for each entry of the
    log, by its number, dx at the event, in all, before and after it: (n, L) each."""

    map: Array
    dt: Array
    entries: Mapping[int, tuple[Array, Array]]


class Linear:
    """The maps of one run.

    Raises `ValueError` for runs that have none: by the trapezoidal rule, releases by height, ended
    before the first step.
    """

    def __init__(
        self, task: HybridTask, marched: Marched, slopes: Library, structure: Mapping[str, Any]
    ) -> None:
        if task.method not in STAGES:
            raise ValueError(
                f"there are sensitivities for {' and '.join(STAGES)}, not for {task.method}"
            )
        if task.release != "force":
            raise ValueError("there are sensitivities for release='force' only")
        if not len(marched.tape.time):
            raise ValueError("the run ended before its first step: it has no derivatives")
        self.task, self.marched, self.tape = task, marched, marched.tape
        self.library, self.structure = slopes, structure
        self.n, self.m = len(task.start.x), len(task.inputs)
        self.d, self.r, self.R = len(task.start.modes), len(task.parameters), task.rows
        self.count = len(task.about["contacts"])
        self.L = self.n + self.r + 3 * self.m
        self.law = [c["law"] for c in task.about["contacts"]]
        self.tangent = [c["row"] for c in task.about["contacts"]]
        self.mu = [c["friction_coefficient"] for c in task.about["contacts"]]

    @cached_property
    def common(self) -> Segments:
        """Segments of the inputs."""
        return segments(self.task.inputs, float(self.task.start.time), float(self.task.time[-1]))

    @property
    def steps(self) -> int:
        """How many there are."""
        return len(self.tape.time)

    # -- columns --------------------------------------------------------------------------------

    def columns(self, group: str) -> slice:
        """Of a group "x", "p", "v", "s" or "b"."""
        starts = {
            "x": 0,
            "p": self.n,
            "v": self.n + self.r,
            "s": self.n + self.r + self.m,
            "b": self.n + self.r + 2 * self.m,
        }
        sizes = {"x": self.n, "p": self.r}
        return slice(starts[group], starts[group] + sizes.get(group, self.m))

    def own_begin(self, segment: NDArray[Any]) -> Array:
        """When the pieces of all inputs began (m, B) [s], by the segments."""
        pieces = self.common.piece[:, segment]
        rows = [
            signal.begin[k] for signal, k in zip(self.task.inputs.values(), pieces, strict=True)
        ]
        return np.array(rows).reshape(self.m, len(segment))

    # -- points ---------------------------------------------------------------------------------

    def inputs(self, at: Place) -> Array:
        """All inputs (m + d + R, B), contact forces included."""
        since = at.time - self.common.begin[at.segment]
        given = self.common.values(at.segment, since)
        u = np.concatenate([given, at.mode, np.zeros((self.R, len(at.time)))])
        return self._with_forces(at, u)

    def _with_forces(self, at: Place, u: Array) -> Array:
        """Inputs with the contact forces that follow from the others, in place."""
        if self.R and (at.contact != OPEN).any():
            u[-self.R :] = 0.0
            out = self._touch_numbers(at, u)
            for here, Q, rows in self._patterns(at.contact):
                S = out["W"][here][:, rows] @ Q
                f = -_solve(S, out["b"][:, here][rows].T[..., None])
                u[-self.R :, here] = (Q @ f)[..., 0].T
        return u

    def _touch_numbers(self, at: Place, u: Array) -> dict[str, Array]:
        """Rates (R, B), b (R, B) and W (B, R, R) of contacts."""
        about, R = self.task.about, self.R
        args = points(self.task, at.x, u, at.time)
        out = mapped(self.task.library, "contact", args, about["sizes"]["contact"])
        rates, rest = out[self.count : self.count + R], out[self.count + R :]
        return {"speeds": rates, "b": rest[:R], "W": rest[R : R + R * R].T.reshape(-1, R, R)}

    def _patterns(self, contact: Integers) -> Iterator[tuple[Any, Array, list[int]]]:
        """Points with the same contacts closed, the forces (R, U) of these per unknown, and the
        rows that they keep at rest."""
        if not self.R:
            return
        patterns, which = np.unique(contact, axis=0, return_inverse=True)
        for k, modes in enumerate(patterns):
            rows = [i for i, mode in enumerate(modes) if mode != OPEN]
            rows += [
                self.tangent[i]
                for i, mode in enumerate(modes)
                if mode == STICKS and self.law[i] != "slip"
            ]
            if not rows:
                continue
            Q = np.zeros((self.R, len(rows)))
            for column, row in enumerate(rows):
                Q[row, column] = 1.0
                if row < self.count and modes[row] >= FORWARDS:
                    sign = -1.0 if modes[row] == FORWARDS else 1.0
                    Q[self.tangent[row], column] = sign * self.mu[row]
            yield np.flatnonzero(which.ravel() == k), Q, rows

    def derivatives(self, kernel: str, at: Place, u: Array) -> Array:
        """(B, rows, n + inputs + r + 1) of a kernel of slopes."""
        told = self.structure[kernel]
        dense = np.zeros((len(at.time), *told["shape"]))
        if told["rows"]:
            args = points(self.task, at.x, u, at.time)
            entries = mapped(self.library, kernel, args, len(told["rows"]))
            dense[:, told["rows"], told["columns"]] = entries.T
        return dense

    def local(self, dense: Array, at: Place) -> Array:
        """Columns (x, u, p, t) of a derivative as columns of maps and of time alone."""
        n, m = self.n, self.m
        result = np.zeros((*dense.shape[:2], self.L + 1))
        given = dense[:, :, n : n + m]
        result[..., self.columns("x")] = dense[..., :n]
        result[..., self.columns("p")] = dense[..., dense.shape[2] - 1 - self.r : -1]
        result[..., self.columns("v")] = given
        since = at.time - self.own_begin(at.segment)
        result[..., self.columns("s")] = given * since.T[:, None, :]
        elapsed = at.time - self.common.begin[at.segment]
        moving = self.common.rates(at.segment, elapsed).T[:, None, :]
        result[..., -1] = dense[..., -1] + (given * moving).sum(axis=2)
        return result

    def flow(self, at: Place) -> Flow:
        """Rates, and their derivatives with the forces that follow."""
        u = self.inputs(at)
        rate = mapped(self.task.library, "smooth", points(self.task, at.x, u, at.time), self.n)
        dense = self.derivatives("smooth_slopes", at, u)
        slope = self.local(dense, at)
        force = np.zeros((len(at.time), self.R, self.L + 1))
        first = self.n + self.m + self.d
        by_force = dense[:, :, first : first + self.R]
        for here, Q, rows in self._patterns(at.contact):
            keep = [self.n + row for row in rows]
            S = by_force[here][:, keep] @ Q
            force[here] = -Q @ _solve(S, slope[here][:, keep])
        total = slope[:, : self.n] + by_force[:, : self.n] @ force
        return Flow(rate, total, force, u)

    # -- steps ----------------------------------------------------------------------------------

    def step_maps(self, at: Place, h: Array) -> tuple[Array, Array]:
        """Ends (n, B) of steps of lengths h (B,), and their maps (B, n, L)."""
        rows = STAGES[self.task.method]
        rates: list[Array] = []
        changes: list[Array] = []
        eye = np.zeros((len(h), self.n, self.L))
        eye[:, :, : self.n] = np.eye(self.n)
        x, X = at.x, eye
        for s, row in enumerate(rows):
            share = min(max(sum(row), INSIDE), 1.0 - INSIDE)
            if s > 0:
                weights = [(a, k) for k, a in enumerate(row) if a]
                x = at.x + h * sum(a * rates[k] for a, k in weights)
                X = eye + h[:, None, None] * sum(a * changes[k] for a, k in weights)
            if s < len(rows) - 1:
                flow = self.flow(at.moved(at.time + share * h, x))
                rates.append(flow.rate)
                change = flow.slope[..., : self.n] @ X
                change[..., self.n :] += flow.slope[..., self.n : -1]
                changes.append(change)
        return x, X

    def places(self, which: Any) -> Place:
        """Begins of steps of the tape."""
        tape = self.tape
        return Place(
            tape.time[which],
            tape.state[which].T,
            tape.mode[which].T,
            tape.contact[which],
            tape.segment[which],
        )

    def node_maps(self, nodes: NDArray[np.intp], steps: NDArray[np.intp]) -> Array:
        """Maps (B, n, L) from the begins of steps to nodes within them."""
        at = self.places(steps)
        return self.step_maps(at, self.task.time[nodes] - at.time)[1]

    # -- instants -------------------------------------------------------------------------------

    @cached_property
    def instants(self) -> dict[int, Instant]:
        """By the number of the step that they follow; -1 for the start."""
        eventful = np.flatnonzero(self.tape.cause != PLAIN)
        found: dict[int, Instant] = {}
        if (self.tape.log["step"] == 0).any():
            found[-1] = self._instant(-1)
        for first in range(0, len(eventful), AT_ONCE):
            which = eventful[first : first + AT_ONCE]
            at = self.places(which)
            ends = at.moved(
                at.time + self.tape.length[which], self.step_maps(at, self.tape.length[which])[0]
            )
            before = self.flow(ends)
            later = self.flow(self.places(np.minimum(which + 1, self.steps - 1))).rate
            for j, k in enumerate(which.tolist()):
                found[k] = self._instant(k, ends.part([j]), before.part([j]), later[:, j])
        return found

    def _instant(
        self,
        k: int,
        end: Place | None = None,
        before: Flow | None = None,
        later: Array | None = None,
    ) -> Instant:
        """What follows step k that ended there, with rates before and later."""
        dx = np.zeros((self.n, self.L))
        dx[:, : self.n] = np.eye(self.n)
        dt, after = np.zeros(self.L), self._after(k)
        entries = np.flatnonzero(self.tape.log["step"] == k + 1).tolist()
        if end is not None and before is not None:
            cause, rate = int(self.tape.cause[k]), before.rate[:, 0]
            if cause == CLOCK:
                dx, dt, rate = self._broken(dx, end, rate, self._switched(entries, after))
            else:
                dt = self._time_of(cause, end, before)
            dx = dx + np.outer(rate, dt)
        found: dict[int, tuple[Array, Array]] = {}
        broken = end is not None and int(self.tape.cause[k]) == CLOCK
        modes = self.places([max(k, 0)]).mode
        for entry in entries:
            changed = self._through(entry, dx, dt, after, modes, broken)
            found[entry], dx = (dx, changed), changed
            if len(entries) > 1:
                modes = self._modes_after(entry, modes, after)
        if after is not None and later is not None:
            dx = dx - np.outer(later, dt)
        return Instant(dx, dt, found)

    def _after(self, k: int) -> Place | None:
        """The begin of the step after step k; None after the last one."""
        return self.places([k + 1]) if k + 1 < self.steps else None

    def _switched(self, entries: list[int], after: Place | None) -> list[tuple[int, int, float]]:
        """Events that set modes: their numbers, the modes, and their values afterwards."""
        log, about, found = self.tape.log, self.task.about, []
        if after is None:
            return []
        for entry in entries:
            if KINDS[log["kind"][entry]] == "event":
                k = int(log["index"][entry])
                for target in about["targets"][slice(*about["first_target"][k : k + 2])]:
                    if target >= self.n:
                        found.append((k, target - self.n, float(after.mode[target - self.n, 0])))
        return found

    def _broken(
        self, dx: Array, end: Place, rate: Array, switched: list[tuple[int, int, float]]
    ) -> tuple[Array, Array, Array]:
        """Each input that breaks changes x by the difference of rates times when it breaks; so do
        the modes that switch because of it."""
        old = int(end.segment[0])
        pieces, dt = self.common.piece, np.zeros(self.L)
        breaking = np.flatnonzero(pieces[:, old + 1] != pieces[:, old])
        u = self.inputs(end)
        new = self.inputs(Place(end.time, end.x, end.mode, end.contact, np.array([old + 1])))
        for i in breaking.tolist():
            u[i] = new[i]
            for k, mode, value in switched:
                if (k, self.n + i) in self._guards_of_inputs:
                    u[self.m + mode] = value
            changed = self._rate_with(end, u)
            column = self.columns("b").start + i
            dx[:, column] += rate - changed
            rate = changed
        dt[self.columns("b").start + breaking[:1]] = 1.0  # what follows comes with the first
        return dx, dt, rate

    @cached_property
    def _guards_of_inputs(self) -> set[tuple[int, int]]:
        """Guards and columns of what they depend on."""
        told = self.structure["guard_slopes"]
        return set(zip(told["rows"], told["columns"], strict=True))

    def _rate_with(self, at: Place, u: Array) -> Array:
        """x' (n,) with given inputs u, the contact forces that follow included."""
        u = self._with_forces(at, u.copy())
        args = points(self.task, at.x, u, at.time)
        return mapped(self.task.library, "smooth", args, self.n)[:, 0]

    def _time_of(self, cause: int, end: Place, before: Flow) -> Array:
        """dt (L,) of what was located: -(d guard) / (its rate along the motion)."""
        events = len(self.task.about["events"])
        if cause < events:
            dense = self.derivatives("guard_slopes", end, before.inputs)
            first = self.n + self.m + self.d
            by_force = dense[0, cause, first : first + self.R]
            row = self.local(dense, end)[0, cause] + by_force @ before.force[0]
        else:
            row = self._contact_guard((cause - events) // 4, (cause - events) % 4, end, before)
        speed = row[: self.n] @ before.rate[:, 0] + row[-1]
        if speed == 0.0:
            raise ValueError(
                f"what happens at t = {end.time[0]:.9g} s touches zero without "
                "crossing it: its time has no derivative"
            )
        return -row[:-1] / speed

    def _contact_guard(self, i: int, what: int, end: Place, before: Flow) -> Array:
        """Of height, pressure, what is left of friction, sliding speed; (L + 1,)."""
        tangent = self.tangent[i]
        if what == 1:
            return before.force[0, i]
        if what == 2:
            sign = np.sign(before.inputs[-self.R + tangent, 0])
            return np.asarray(self.mu[i] * before.force[0, i] - sign * before.force[0, tangent])
        touch = self.local(self.derivatives("touch_slopes", end, before.inputs), end)
        return touch[0, i if what == 0 else self.count + tangent]

    def _at(self, entry: int, modes: Array, after: Place | None) -> Place:
        """The state before an entry of the log, with the inputs that follow the instant."""
        log = self.tape.log
        k = max(int(log["step"][entry]) - 1, 0)
        at = self.places([k]).moved(log["time"][[entry]], log["before"][[entry]].T)
        return replace(at, mode=modes, segment=at.segment if after is None else after.segment)

    def _modes_after(self, entry: int, modes: Array, after: Place | None) -> Array:
        """Modes as an entry of the log leaves them."""
        log, about = self.tape.log, self.task.about
        if KINDS[log["kind"][entry]] != "event":
            return modes
        first, last = about["first_target"][log["index"][entry] :][:2]
        if not any(target >= self.n for target in about["targets"][first:last]):
            return modes
        at, changed = self._at(entry, modes, after), modes.copy()
        args = points(self.task, at.x, self.inputs(at), at.time)
        values = mapped(self.task.library, "resets", args, about["sizes"]["resets"])[:, 0]
        for row in range(first, last):
            if about["targets"][row] >= self.n:
                changed[about["targets"][row] - self.n] = values[row]
        return changed

    def _through(
        self, entry: int, dx: Array, dt: Array, after: Place | None, modes: Array, broken: bool
    ) -> Array:
        """dx after an entry of the log, at the event, in all; with the modes before it."""
        log = self.tape.log
        kind, index = KINDS[log["kind"][entry]], int(log["index"][entry])
        if kind not in ("impact", "event"):
            return dx
        at = self._at(entry, modes, after)
        if kind == "impact":
            e = float(log["restitution"][entry])
            return self._impact(at, log["contact"][entry], e, dx, dt)
        first, last = self.task.about["first_target"][index : index + 2]
        targets = self.task.about["targets"][first:last]
        if not any(target < self.n for target in targets):
            return dx
        told = self.structure["reset_slopes"]
        rows = set(range(first, last))
        given = [
            row
            for row, column in zip(told["rows"], told["columns"], strict=True)
            if row in rows and self.n <= column < self.n + self.m
        ]
        if broken and given:
            name = self.task.about["events"][index]["name"]
            raise ValueError(
                f"event {name!r} follows the break of an input at t = "
                f"{at.time[0]:.9g} s and its reset depends on inputs: that has no "
                "derivative here; move the break"
            )
        slope = self.local(self.derivatives("reset_slopes", at, self.inputs(at)), at)[0]
        changed = dx.copy()
        for row, target in enumerate(targets, start=first):
            if target < self.n:
                changed[target] = self._carried(slope[row], dx, dt)
        return changed

    def _carried(self, row: Array, dx: Array, dt: Array) -> Array:
        """A derivative (..., L + 1) by x, p, v, s and t, with dx and dt inserted."""
        result = row[..., : self.n] @ dx + row[..., -1:] * dt
        result[..., self.n :] += row[..., self.n : -1]
        return np.asarray(result)

    def _impact(self, at: Place, modes: Integers, e: float, dx: Array, dt: Array) -> Array:
        """x+ = x + B impulse, where W impulse + (1 + e) speeds = 0 in the rows of closed ones."""
        patterns = list(self._patterns(modes[None]))
        if not patterns:
            return dx
        _, Q, rows = patterns[0]
        u = self.inputs(Place(at.time, at.x, at.mode, np.zeros_like(at.contact), at.segment))
        numbers = self._touch_numbers(at, u)
        bounce = np.ones(self.R)
        bounce[: self.count] += e
        S = numbers["W"][0][rows] @ Q
        side = (bounce[:, None] * numbers["speeds"])[rows]
        u[-self.R :] = -Q @ _solve(S[None], side[None])[0]
        dense = self.derivatives("touch_slopes", at, u)
        slope = self.local(dense, at)[0]
        speeds, push = slope[self.count :][: self.R], slope[self.count + self.R :][: self.R]
        jump = slope[self.count + 2 * self.R :]
        first = self.n + self.m + self.d
        by_impulse = dense[0, self.count + 2 * self.R :, first : first + self.R]
        moved = self._carried(push + bounce[:, None] * speeds, dx, dt)[rows]
        impulse = -Q @ _solve(S[None], moved[None])[0]
        return dx + self._carried(jump, dx, dt) + by_impulse @ impulse


def _solve(matrix: Array, side: Array) -> Array:
    """Stacks of equations; of least norm where contacts depend on each other."""
    return np.asarray(np.linalg.pinv(matrix, rcond=1e-11) @ side)
