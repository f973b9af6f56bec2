"""Derivatives of hybrid runs, across events: forward in directions, or by the adjoint for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.event_log import Happening
from kinesym.runtime.experiment import key_name
from kinesym.runtime.hybrid_linear import AT_ONCE, Instant, Linear
from kinesym.runtime.signals import SignalGradient
from kinesym.runtime.trajectory import ByName, Named, Trajectory

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HybridGradient:
    """Derivatives of one quantity with respect to parameters and initial values of states, by name,
    and to the pieces of each given input."""

    parameters: Mapping[str, float]
    initial: Mapping[str, float]
    inputs: Mapping[str, SignalGradient]


@dataclass(frozen=True, eq=False)
class ForwardSensitivities(ByName):
    """Derivatives with respect to P things, which `wrt` names.

    states : by name, (P, N) at the nodes, at equal times. events : of each entry of the log, when
    it happens (P,) and the states there, in all, before and after it: (P, n).
    """

    wrt: Sequence[str]
    states: Mapping[str, Array]
    events: Sequence[tuple[Array, Array, Array]]
    run: Trajectory

    def __getitem__(self, state: object) -> Array:
        return self.states[key_name(state)]

    def keys(self) -> list[str]:
        """Names of the states."""
        return list(self.states)

    def at(self, happening: Happening, of: Any = "time", side: str = "after") -> Array:
        """Derivatives (P,) of when something happened, or of a state there, "before" or "after".

        Raises `ValueError` if it did not happen in this run.
        """
        time, before, after = self.events[_number(self.run, happening)]
        if key_name(of) == "time":
            return time
        rows = after if _is_after(side) else before
        return np.asarray(rows[:, _place(list(self.states), of)])


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """Derivatives of a run: those of its steps and events, so that they are those of the motion to
    the accuracy of the steps.

    run : the simulation.
    """

    run: Trajectory
    linear: Linear = field(repr=False)

    # -- forward --------------------------------------------------------------------------------

    def forward(
        self,
        wrt: Sequence[Any] = (),
        courses: Mapping[str, Mapping[str, SignalGradient]] | None = None,
    ) -> ForwardSensitivities:
        """Derivatives of all states with respect to few things.

        wrt : names of parameters, and of states for their initial values. courses : by a name of
        their own, ways to change inputs: derivatives of their begins, values and slopes.

        Raises `ValueError` for unknown names.
        """
        linear, extra = self.linear, dict(courses or {})
        names = [key_name(name) for name in wrt]
        P, about = len(names) + len(extra), linear.task.about
        S, dp = np.zeros((linear.n, P)), np.zeros((linear.r, P))
        for column, name in enumerate(names):
            rows, known = (
                (dp, about["parameters"]) if name in about["parameters"] else (S, about["states"])
            )
            if name not in known:
                there = ", ".join([*about["parameters"], *about["states"]])
                raise ValueError(f"wrt: {name} is no parameter and no state; there are {there}")
            rows[list(known).index(name), column] = 1.0
        changes = self._changes(extra, len(names), P)
        nodes = np.zeros((len(self.run.time), linear.n, P))
        events: dict[int, tuple[Array, Array, Array]] = {}

        def through(instant: Instant, change: Array) -> Array:
            for entry, (before, after) in instant.entries.items():
                events[entry] = (instant.dt @ change, (before @ change).T, (after @ change).T)
            return np.asarray(instant.map @ change)

        if -1 in linear.instants:
            S = through(linear.instants[-1], self._local(S, dp, changes, 0))
        for k, step, within in self._steps(range(0, linear.steps, AT_ONCE)):
            change = self._local(S, dp, changes, k)
            for node, rows in within:
                nodes[node] = rows @ change
            S = step @ change
            if k in linear.instants:
                S = through(linear.instants[k], self._local(S, dp, changes, k))
        nodes[self._at_end] = S
        states = {
            name: np.ascontiguousarray(nodes[:, row].T) for row, name in enumerate(about["states"])
        }
        return ForwardSensitivities(
            [*names, *extra], states, [events[k] for k in sorted(events)], self.run
        )

    def _changes(
        self, courses: Mapping[str, Mapping[str, SignalGradient]], first: int, P: int
    ) -> list[SignalGradient]:
        """Of each input, derivatives (pieces, P) of begins, values and slopes."""
        task, made = self.linear.task, []
        for name, course in task.inputs.items():
            shape = (len(np.asarray(course.begin)), P)
            rows = SignalGradient(*(np.zeros(shape) for _ in range(3)))
            for column, change in enumerate(courses.values(), start=first):
                by_name = {key_name(key): value for key, value in change.items()}
                strange = set(by_name) - set(task.inputs)
                if strange:
                    raise ValueError(f"courses: {min(strange)} is no input that is given")
                if name in by_name:
                    for mine, theirs in zip(rows.parts, by_name[name].parts, strict=True):
                        mine[:, column] = theirs
            made.append(rows)
        return made

    def _local(self, S: Array, dp: Array, changes: list[SignalGradient], k: int) -> Array:
        """Changes (L, P) of all that step k and what follows it depend on."""
        linear = self.linear
        now, soon = self._pieces(k)
        rows = np.zeros((linear.L, S.shape[1]))
        rows[: linear.n], rows[linear.columns("p")] = S, dp
        for i, (signal, change) in enumerate(
            zip(linear.task.inputs.values(), changes, strict=True)
        ):
            slope = float(signal.coefficients[1, now[i]])
            begin, value, bend = change.parts
            rows[linear.columns("v").start + i] = value[now[i]] - slope * begin[now[i]]
            rows[linear.columns("s").start + i] = bend[now[i]]
            rows[linear.columns("b").start + i] = begin[soon[i]]
        return rows

    def _pieces(self, k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Of each input the piece of step k, and the one after it."""
        common = self.linear.common
        segment = int(self.linear.tape.segment[k]) if self.linear.steps else 0
        return common.piece[:, segment], common.piece[
            :, min(segment + 1, common.piece.shape[1] - 1)
        ]

    def _steps(
        self, chunks: Iterable[int], backwards: bool = False
    ) -> Iterator[tuple[int, Array, list[tuple[int, Array]]]]:
        """Number and map of each step, and maps to the nodes within it."""
        linear = self.linear
        for first in chunks:
            which = np.arange(first, min(first + AT_ONCE, linear.steps))
            _, maps = linear.step_maps(linear.places(which), linear.tape.length[which])
            inside = np.flatnonzero(
                (self._step_of >= first) & (self._step_of <= which[-1]) & ~self._at_end
            )
            within: dict[int, list[tuple[int, Array]]] = {}
            if len(inside):
                rows = linear.node_maps(inside, self._step_of[inside])
                for node, row in zip(inside.tolist(), rows, strict=True):
                    within.setdefault(int(self._step_of[node]), []).append((node, row))
            for k in which[::-1] if backwards else which:
                yield int(k), maps[k - first], within.get(int(k), [])

    @cached_property
    def _step_of(self) -> NDArray[np.intp]:
        """The step in which each node is."""
        found = np.searchsorted(self.linear.tape.time, self.run.time, side="right") - 1
        return np.maximum(found, 0)

    @cached_property
    def _at_end(self) -> NDArray[np.bool_]:
        return self.run.time >= self.run.final.time

    # -- adjoint --------------------------------------------------------------------------------

    def gradient(self, of: Any, at: Happening | None = None, side: str = "after") -> HybridGradient:
        """Derivatives of one quantity with respect to everything, at the cost of a few simulations.

        of : a state, at the end or `at` something that happened ("before" or "after" it); "time",
        when it happened; or weights (N,) of states at the nodes by name, for their weighted sum.

        Raises `ValueError` for unknown names, and for what did not happen in this run.
        """
        _is_after(side)
        linear, names = self.linear, list(self.linear.task.about["states"])
        weights = np.zeros((len(self.run.time), linear.n))
        final, seeds = np.zeros(linear.n), {}
        if isinstance(of, Mapping):
            for name, row in of.items():
                if np.shape(row) != self.run.time.shape:
                    raise ValueError(
                        f"weights of {name} have shape {np.shape(row)}, expected "
                        f"{self.run.time.shape}"
                    )
                weights[:, _place(names, name)] = row
        elif at is None:
            final[_place(names, of)] = 1.0
        else:
            vector, time = np.zeros(linear.n), 0.0
            if key_name(of) == "time":
                time = 1.0
            else:
                vector[_place(names, of)] = 1.0
            seeds[_number(self.run, at)] = (vector, side, time)
        return self._backwards(final + weights[self._at_end].sum(axis=0), weights, seeds)

    def _backwards(
        self, costate: Array, weights: Array, seeds: Mapping[int, tuple[Array, str, float]]
    ) -> HybridGradient:
        linear, task = self.linear, self.linear.task
        gathered = _Gathered(self)

        def through(instant: Instant, row: Array) -> Array:
            result = row @ instant.map
            for entry, (before, after) in instant.entries.items():
                if entry in seeds:
                    vector, side, time = seeds[entry]
                    result += vector @ (before if side == "before" else after) + time * instant.dt
            return np.asarray(result)

        for k, step, within in self._steps(
            reversed(range(0, linear.steps, AT_ONCE)), backwards=True
        ):
            if k in linear.instants:
                costate = gathered.take(through(linear.instants[k], costate), k)
            row = costate @ step + sum(weights[node] @ rows for node, rows in within)
            costate = gathered.take(row, k)
        if -1 in linear.instants:
            costate = gathered.take(through(linear.instants[-1], costate), 0)
        return HybridGradient(
            Named(zip(task.about["parameters"], gathered.parameters.tolist(), strict=True)),
            Named(zip(task.about["states"], costate.tolist(), strict=True)),
            dict(zip(task.inputs, gathered.inputs, strict=True)),
        )


class _Gathered:
    """Sums, over all steps, of derivatives by parameters and pieces of inputs."""

    def __init__(self, of: Sensitivities) -> None:
        self.of, self.linear = of, of.linear
        self.parameters = np.zeros(of.linear.r)
        self.inputs = [SignalGradient.zeros(signal) for signal in of.linear.task.inputs.values()]

    def take(self, row: Array, k: int) -> Array:
        """Adds a row (L,) of step k; its costate (n,) is left."""
        linear = self.linear
        now, soon = self.of._pieces(k)
        self.parameters += row[linear.columns("p")]
        parts = [row[linear.columns(group)] for group in ("v", "s", "b")]
        for i, signal in enumerate(linear.task.inputs.values()):
            value, slope, begin = (float(part[i]) for part in parts)
            mine = self.inputs[i]
            mine.value[now[i]] += value
            mine.slope[now[i]] += slope
            mine.begin[now[i]] -= float(signal.coefficients[1, now[i]]) * value
            mine.begin[soon[i]] += begin
        return row[: linear.n]


def _place(names: Sequence[str], key: Any) -> int:
    name = key_name(key)
    if name not in names:
        raise ValueError(f"{name} is no state; there are {', '.join(names)}")
    return list(names).index(name)


def _is_after(side: str) -> bool:
    if side not in ("before", "after"):
        raise ValueError(f"side is 'before' or 'after', got {side!r}")
    return side == "after"


def _number(run: Trajectory, happening: Happening) -> int:
    for number, event in enumerate(run.log):
        if event is happening:
            return number
    raise ValueError(f"'{happening}' is nothing that happened in this run")
