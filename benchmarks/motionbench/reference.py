"""Simulation of a statement: DOP853 from break to break, events, delays by the method of steps.

Breaks are samples of inputs, kinks, events, and multiples of delays; between them motions are
smooth, and errors are those of the tolerance (1e-11 for records).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import DOP853
from scipy.optimize import brentq

from .equations import OF_ARRAYS, OF_NUMBERS, lets, names_in, source, value

#: Guards count from so many seconds after a restart on.
AHEAD = 1e-7


class Course(NamedTuple):
    """An input: values at times, linear or held between."""

    times: np.ndarray
    values: np.ndarray
    between: str

    def at(self, t: Any) -> Any:
        if self.between == "linear":
            return np.interp(t, self.times, self.values)
        place = np.searchsorted(self.times, t, side="right") - 1
        return self.values[np.clip(place, 0, len(self.values) - 1)]


class Motion(NamedTuple):
    """What a simulation gives: pieces with begin, end, states as a function, and modes."""

    pieces: list[tuple[float, float, Callable[[Any], np.ndarray], dict[str, float]]]
    events: list[tuple[float, str]]

    def states(self, times: np.ndarray) -> np.ndarray:
        """(states, times); before the start the initial values."""
        begins = np.array([piece[0] for piece in self.pieces])
        place = np.clip(np.searchsorted(begins, times, side="right") - 1, 0, None)
        found = np.empty((len(self.pieces[0][2](begins[0])), len(times)))
        for k in np.unique(place):
            here = place == k
            found[:, here] = self.pieces[k][2](np.maximum(times[here], begins[0]))
        return found


def compiled(statement: Mapping[str, Any], texts: list[str]) -> Callable[..., list[float]]:
    """The expressions as one function of t, states, inputs, other names and `delayed`."""
    states, inputs = list(statement["states"]), list(statement["inputs"])
    used = set().union(*map(names_in, [*texts, *map(str, statement.get("let", {}).values())]))
    others = [
        n
        for n in [*statement["known"], *statement["unknown"], *statement.get("modes", {})]
        if n in used
    ]
    # Names of equations do not begin with "_".
    lines = ["def function(t, _x, _u, _p, delayed):"]
    lines += [
        f"    {', '.join(row)}, = {of}" for row, of in ((states, "_x"), (inputs, "_u")) if row
    ]
    lines += [f"    {name} = _p[{name!r}]" for name in others]
    lines += [f"    {k} = {source(text)}" for k, text in statement.get("let", {}).items()]
    lines.append(f"    return [{', '.join(map(source, texts))}]")
    scope = dict(OF_NUMBERS)
    exec("\n".join(lines), scope)
    return scope["function"]


class Simulator:
    """Simulates a statement again and again.

    courses : of the inputs. parameters : numbers by the names of the equations."""

    def __init__(self, statement: Mapping[str, Any], rtol: float = 1e-11, atol: float = 1e-12):
        self.statement, self.rtol, self.atol = statement, rtol, atol
        self.states, self.inputs = list(statement["states"]), list(statement["inputs"])
        self.rates = compiled(statement, [str(statement["rates"][s]) for s in self.states])
        self.events = statement.get("events", [])
        guards = [event["guard"] for event in self.events] + statement.get("kinks", [])
        self.guards = compiled(statement, guards) if guards else None
        self.delays = [str(text) for text in statement.get("delays", [])]
        self.resets = [
            compiled(statement, [str(e.get("reset", {}).get(s, s)) for s in self.states])
            for e in self.events
        ]
        whole = statement["clocks"].values()
        self.stop = max(each["stop"] for each in whole)

    def __call__(
        self,
        parameters: Mapping[str, float],
        initial: Mapping[str, float],
        courses: Mapping[str, Course],
    ) -> Motion:
        p = {**parameters, **self.statement.get("modes", {})}
        x, t = np.array([float(initial[name]) for name in self.states]), 0.0
        lags = [float(value(text, p, OF_NUMBERS)) for text in self.delays]
        breaks = self.breaks(courses, lags)
        motion, start = Motion([], []), x.copy()
        rows = [courses[name] for name in self.inputs]

        def delayed(name: str, then: float) -> float:
            if name in courses:
                return float(courses[name].at(max(then, 0.0)))
            k = self.states.index(name)
            if then <= 0.0:
                return float(start[k])
            piece = next(p for p in reversed(motion.pieces) if p[0] <= then)
            return float(piece[2](min(then, piece[1]))[k])

        while t < self.stop:
            begin, end = t, breaks[np.searchsorted(breaks, t + 1e-12, side="right")]
            function, guards = self.functions([line_at(row, t) for row in rows], p, delayed)
            t, x, p = self.piece(function, guards, t, end, x, p, motion)
            if not np.all(np.isfinite(x)) or t <= begin or len(motion.events) > 200:
                raise ArithmeticError(f"no motion after {begin:g} s")
        return motion

    def functions(self, lines: list, p: dict[str, float], delayed: Callable) -> tuple:
        """Rates and guards of t and states, until the next break. lines : of the inputs."""

        def function(s: float, y: np.ndarray) -> list[float]:
            u = [a + b * (s - c) for a, b, c in lines]
            return self.rates(s, y.tolist(), u, p, lambda name, lag: delayed(name, s - lag))

        def guards(s: float, y: np.ndarray) -> list[float]:
            u = [a + b * (s - c) for a, b, c in lines]
            return self.guards(s, y.tolist(), u, p, None)

        return function, guards

    def breaks(self, courses: Mapping[str, Course], lags: list[float]) -> np.ndarray:
        """Times at which the integrator starts anew."""
        times = [np.array([self.stop])]
        for name, course in courses.items():
            steady = np.all(course.values == course.values[0])
            times.append(course.times if not steady and name in self.inputs else times[0])
        if lags and min(lags) > 0.0:
            times.append(np.arange(1.0, self.stop / min(lags)) * min(lags) * (1.0 - 1e-9))
            times += [k * lag + np.zeros(1) for lag in lags for k in range(1, 6)]
        found = np.unique(np.concatenate(times).round(12))
        return found[(found > 0.0) & (found <= self.stop)]

    def piece(
        self,
        function: Any,
        guards: Any,
        t: float,
        end: float,
        x: np.ndarray,
        p: dict[str, float],
        motion: Motion,
    ) -> tuple[float, np.ndarray, dict]:
        """Integrate to the next break or event; time, states and modes there."""
        if end - t < 1e-12:
            return end, x, p
        limit = 0.5 * (end - t) if self.guards else np.inf
        solver = DOP853(
            function,
            t,
            x,
            end,
            first_step=min(end - t, 0.02),
            rtol=self.rtol,
            atol=self.atol,
            max_step=min(limit, 0.05) if self.guards else np.inf,
        )
        before = None
        if self.guards:
            before = np.array(guards(t, x + AHEAD * np.array(function(t, x))))
        while solver.status == "running":
            solver.step()
            if solver.status == "failed":
                raise ArithmeticError(f"the integrator stopped at {solver.t:g} s")
            path, last = solver.dense_output(), solver.t_old
            if self.guards is not None:
                after = np.array(guards(solver.t, solver.y))
                hits = []
                for k, (a, b) in enumerate(zip(before, after, strict=True)):
                    way = self.events[k].get("direction", 0) if k < len(self.events) else 0
                    if a * b < 0 and (way == 0 or way * b > 0):
                        low = max(last, t + AHEAD)

                        def g(s: float, k: int = k, path: Any = path) -> float:
                            return guards(s, path(s))[k]

                        if g(low) * b < 0:
                            hits.append((brentq(g, low, solver.t, xtol=1e-14), k))
                if hits:
                    when, k = min(hits)
                    motion.pieces.append((last, when, path, p))
                    return self.after(k, when, path(when), p, motion)
                before = after
            motion.pieces.append((last, solver.t, path, p))
        return end, solver.y, p

    def after(self, k: int, when: float, x: np.ndarray, p: dict, motion: Motion) -> tuple:
        """States and modes after event k, or a kink."""
        if k >= len(self.events):
            return when, x, p
        event = self.events[k]
        motion.events.append((when, event["name"]))
        u = [0.0] * len(self.inputs)
        return (
            when,
            np.array(self.resets[k](when, x.tolist(), u, p, None)),
            {**p, **event.get("set", {})},
        )


def line_at(course: Course, t: float) -> tuple[float, float, float]:
    """An input until its next sample: its value at t, its slope, and t."""
    k = np.searchsorted(course.times, t + 1e-12, side="right")
    if course.between == "held" or not 0 < k < len(course.times):
        return float(course.at(t)), 0.0, t
    slope = np.diff(course.values[k - 1 : k + 1]) / np.diff(course.times[k - 1 : k + 1])
    return float(course.at(t)), float(slope[0]), t


def samples(
    statement: Mapping[str, Any],
    motion: Motion,
    parameters: Mapping[str, float],
    courses: Mapping[str, Course],
) -> dict[str, np.ndarray]:
    """What sensors without noise show, at all times of their clocks."""
    found = {}
    for name, row in statement["measured"].items():
        times = instants(statement["clocks"][row["clock"]])
        times = times - value(row.get("delay", 0.0), parameters, OF_NUMBERS)
        here = {**parameters, "t": times, **{k: c.at(times) for k, c in courses.items()}}
        here |= dict(zip(statement["states"], motion.states(times), strict=True))
        needs = names_in(row["expression"]) & set(statement.get("let", {}))
        if needs:
            lets(statement, here, OF_ARRAYS)
        found[name] = value(row["expression"], here, OF_ARRAYS) * np.ones(len(times))
    return found


def instants(clock: Mapping[str, float]) -> np.ndarray:
    """Times of a clock [s]."""
    count = round((clock["stop"] - clock["start"]) / clock["step"]) + 1
    return np.round(clock["start"] + clock["step"] * np.arange(count), 10)
