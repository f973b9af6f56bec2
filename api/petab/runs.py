"""Experiments of periods: parameters and states that get other values at times, after a steady
state where that is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.models.files.petab import Measurement, Period, Tables
from kinesym.models.files.sbml import FileModel
from kinesym.models.files.sbml_start import after_events
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.simulated import Simulated
from kinesym.simulation import simulate
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.table import NumericFunction

#: Length of the first run into a steady state, in units of the time of the model.
_SHORTEST = 1e4
#: Length of the last one.
_LONGEST = 1e12
#: Change of a state over such a run that is none.
_STEADY = 1e-9
#: Events at the beginning of a period beyond which they are taken to go on for ever, per event.
_MOST = 10
#: Options of all runs.
_STEPS: Mapping[str, Any] = {"method": "radau-5", "rtol": 1e-10, "atol": 1e-16, "progress": False}


def simulated(tables: Tables, file: FileModel, given: Mapping[str, float]) -> Simulated:
    """Measurements beside what the model says; given : values of all parameters of the tables."""
    rows = tables.measurements
    found, noise = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    evaluate = _Evaluated()
    for name, periods in tables.experiments.items():
        own = np.array([k for k, row in enumerate(rows) if row.experiment == name], dtype=np.intp)
        if not len(own):
            continue
        times, places = np.unique([rows[k].time for k in own], return_inverse=True)
        course = _Course(file, given)
        try:
            values = course.through(periods, times)
        except ValueError as error:
            what = f"experiment {name}: " if name else ""
            raise ValueError(f"{what}{error}") from error
        groups = dict[Any, list[int]]()
        for number, k in enumerate(own):
            row = rows[k]
            groups.setdefault((row.observable, row.replaced, row.noise_replaced), []).append(number)
        for numbers in groups.values():
            at = {n: row[places[numbers]] for n, row in values.items()}
            which = own[numbers]
            found[which], noise[which] = _compared(tables, rows[which[0]], at, evaluate)
    told = [tables.observables[row.observable] for row in rows]
    return Simulated(
        [row.observable for row in rows],
        [row.experiment for row in rows],
        np.array([row.time for row in rows]),
        np.array([row.value for row in rows]),
        found,
        noise,
        [each.scale for each in told],
        [each.distribution for each in told],
    )


def _compared(
    tables: Tables, row: Measurement, at: Mapping[str, Array], evaluate: _Evaluated
) -> tuple[Array, Array]:
    """The observable and its noise of measurements like this one; at : values by name."""
    told = tables.observables[row.observable]
    try:
        given = zip(told.placeholders, row.replaced, strict=True)
        noise = zip(told.noise_placeholders, row.noise_replaced, strict=True)
        known = dict(at) | {name: evaluate(e, at) for name, e in (*given, *noise)}
        value = evaluate(told.formula, known) + np.zeros(len(at["time"]))
        spread = evaluate(told.noise, known | {row.observable: value}) + np.zeros(len(value))
        for bad, what in (
            (~np.isfinite(value), "its value"),
            ((value <= 0.0) & (told.scale != "lin"), f"on {told.scale} scale, its value"),
            (~((spread > 0.0) & np.isfinite(spread)), "its noise"),
        ):
            for k in np.flatnonzero(bad)[:1]:
                number = (spread if what == "its noise" else value)[k]
                raise ValueError(f"{what} is {number:g} at time {at['time'][k]:g}")
        return value, spread
    except ValueError as error:
        raise ValueError(f"observable {row.observable}, {row.place}: {error}") from error


class _Evaluated:
    """Numbers of expressions; functions are made once."""

    def __init__(self) -> None:
        self._functions = dict[sp.Expr, tuple[list[str], NumericFunction]]()

    def __call__(self, e: sp.Expr, known: Mapping[str, Any]) -> Any:
        if e not in self._functions:
            symbols = sorted(atoms_of(e), key=str)
            names = ["time" if s == t else name_of(s) for s in symbols]
            self._functions[e] = names, NumericFunction(symbols, e)
        names, function = self._functions[e]
        for name in names:
            if name not in known:
                raise ValueError(f"{name} in {e} has no value")
        return function(*(known[name] for name in names))


def _passes(direction: int, before: float, after: float) -> bool:
    """Whether a guard passes zero, or rises from it."""
    return before <= 0.0 <= after if direction > 0 else before >= 0.0 > after


@dataclass(eq=False)
class _Course:
    """One experiment: `known` are parameters of the model and of the tables now, `state` the
    states."""

    file: FileModel
    given: Mapping[str, float]

    def __post_init__(self) -> None:
        self.evaluate, self.names = _Evaluated(), self.file.model.state_names
        self.known = {**self.file.model.values, **self.given}
        self.state, self.now = dict[str, float](), 0.0

    def through(self, periods: Sequence[Period], times: Array) -> dict[str, Array]:
        """Values at times by name, (K,) each: states, outputs, parameters and "time"; inf is the
        steady state at the end. Raises `ValueError` where there is none, or a run ends early."""
        if periods[-1].time == -inf and np.isfinite(times).any():
            periods = [*periods, Period(0.0, {})]
        self._begin(periods[0])
        rows = list[dict[str, Array]]()
        for k, period in enumerate(periods):
            last = periods[k + 1].time if k + 1 < len(periods) else inf
            if k:
                self._change(period)
            self.now = 0.0 if period.time == -inf else period.time
            if period.time == -inf:
                self._steady()
            else:
                here = times[(times >= period.time) & (times < last) & np.isfinite(times)]
                rows.append(self._run(period.time, here, last))
        if len(times) and times[-1] == inf:
            rows.append(self._at(self._steady(), np.array([-1])))
        names = set.intersection(*(set(row) for row in rows))
        return {name: np.concatenate([row[name] for row in rows]) for name in names}

    def _begin(self, period: Period) -> None:
        """Values at the start: what the period says comes before what the model says."""
        self._derive(self.given)
        changes = {n: float(self.evaluate(e, self.known)) for n, e in period.changes.items()}
        self.known |= {name: v for name, v in changes.items() if name not in self.names}
        self._derive({*self.given, *changes})
        begin = 0.0 if period.time == -inf else period.time
        told = {x: changes[x] for x in self.names if x in changes}
        starts = self.file.starts_with(told, begin)
        self.state = {x: float(self.evaluate(e, self.known)) for x, e in starts.items()}
        begun = after_events(self.file.system, self.file.at_start, self.state, self.known, begin)
        self.state = {name: float(value) for name, value in begun.items()}

    def _derive(self, told: Collection[str]) -> None:
        """Parameters that the model derives from others, but those that something else tells."""
        derived = {n: e for n, e in self.file.derived.items() if n not in told}
        for _ in derived:  # they may depend on one another
            self.known |= {n: float(self.evaluate(e, self.known)) for n, e in derived.items()}

    def _change(self, period: Period) -> None:
        before = self._guards(period.time)
        now = {**self.known, **self.state, "time": period.time}
        changes = {n: float(self.evaluate(e, now)) for n, e in period.changes.items()}
        self.known |= {name: v for name, v in changes.items() if name not in self.names}
        self.state |= {name: v for name, v in changes.items() if name in self.names}
        self._happen(period.time, before)

    def _happen(self, time: float, sides: dict[str, float]) -> None:
        """Reset the states by events that the beginning of a period triggers, and those that follow
        from them, in their order; sides : guards before it."""
        for _ in range(_MOST * len(self._events) + 1):
            now, armed = self._guards(time), self._armed(time)
            ways = {e.name: e.direction for e in self._events}
            passed = [n for n in armed if _passes(ways[n], sides[n], now[n])]
            if not passed:
                return
            name, old = passed[0], sides[passed[0]]
            # the others are known on the sides on which they are, at zero beyond it
            sides |= {n: g or ways[n] * inf for n, g in now.items() if n not in passed}
            sides[name] = ways[name] * inf
            self._reset(name, time, old)
        raise ValueError(f"events follow from one another without an end at time {time:g}")

    def _reset(self, name: str, time: float, side: float) -> None:
        """Reset the states by an event; side : its guard before."""
        event = next(e for e in self._events if e.name == name)
        if side == 0.0 and event.guard.atoms(AppliedUndef):
            raise ValueError(
                f"event {name} is at its trigger as the period at {time:g} begins, which is not "
                "read"
            )
        now = {**self.known, **self.state, "time": time}
        rows = {name_of(x): self.file.model.written_out(e) for x, e in event.resets.items()}
        self.state |= {x: float(self.evaluate(e, now)) for x, e in rows.items()}

    def _guards(self, time: float) -> dict[str, float]:
        """Guards of the events, which happen where they rise through zero."""
        now = {**self.known, **self.state, "time": time}
        whole = self.file.model.written_out
        return {e.name: float(self.evaluate(whole(e.guard), now)) for e in self._events}

    def _armed(self, time: float) -> list[str]:
        """Names of the events that may happen now."""
        now = {**self.known, **self.state, "time": time}
        return [e.name for e in self._events if self.evaluate(e.when, now) > 0.0]

    @property
    def _events(self) -> Sequence[Event]:
        system = self.file.system
        return system.events if isinstance(system, Hybrid) else ()

    def _run(self, begin: float, here: Array, last: float) -> dict[str, Array]:
        """Values at times of a period; the state is then that at its end, or the last time."""
        grid = np.unique([begin, *here, *([last] if last < inf else [])])
        if len(grid) == 1:  # a run needs two nodes
            grid = np.array([begin, begin + 1e-6 * max(1.0, abs(begin))])
        made = self._simulated(grid)
        if last < inf or len(here):
            self._end(made)
        return self._at(made, np.searchsorted(grid, here))

    def _steady(self) -> Any:
        """A run into a steady state, which is then the state."""
        end = _SHORTEST
        while end <= _LONGEST:
            before, made = self.state, self._simulated(np.array([self.now, self.now + end]))
            self._end(made)
            steps = ((abs(self.state[x] - before[x]), abs(before[x])) for x in self.names)
            if all(step <= _STEADY * size + _STEPS["atol"] for step, size in steps):
                return made
            end *= 10.0
        raise ValueError(f"there is no steady state after {_LONGEST:g} units of time")

    def _simulated(self, grid: Array) -> Any:
        model = self.file.model
        numbers = {name: self.known[name] for name in model.parameter_names if name in self.known}
        made = simulate(self.file.system, grid, self.state, numbers, **_STEPS)
        if made.message:
            raise ValueError(made.message)
        return made

    def _end(self, made: Any) -> None:
        self.state = {x: float(made[x][-1]) for x in self.names}
        self.now = float(made.time[-1])

    def _at(self, made: Any, places: Any) -> dict[str, Array]:
        found = {n: np.asarray(made[n])[places] for n in (*self.names, *self.file.model.outputs)}
        constant = {n: np.full(len(places), v) for n, v in self.known.items() if n not in found}
        return {**constant, **found, "time": np.asarray(made.time)[places]}
