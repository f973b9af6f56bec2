"""Problems in PEtab as problems of shooting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, log
from typing import Any

import numpy as np
import sympy as sp

from kinesym.internal.running.jumps_moved_by_unknowns import moved_by
from kinesym.models.files.petab import Measurement, Period, Tables
from kinesym.models.files.sbml import FileModel
from kinesym.models.files.sbml_start import after_events
from kinesym.petab.periods import Periods, in_periods, later_periods
from kinesym.petab.priors import UNITS, unknown_of
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.steady import Steady, steady
from kinesym.shooting import Shooting
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid.events import line_in_time
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import LeastSquares, Objective

#: Length of a record whose only samples are at its start.
_SHORT = 1.0
#: Share by which a record is longer that ends where a period begins.
_MORE = 1e-6
#: Length of a record that begins in a measured steady state, which is sought over as long a time,
#: and longer ones.
_LONG = 1e4
#: Tolerances of the steps.
_STEPS: Mapping[str, Any] = {"rtol": 1e-8, "atol": 1e-12}


def shooting_of(tables: Tables, file: FileModel, **options: Any) -> Shooting:
    """The problem of finding the parameters that are to be estimated; options : of `Shooting`.

    Raises `ValueError` for what tables can say and a fit cannot yet."""
    return _Translation(tables, _with_a_state(file)).shooting(options)


def _with_a_state(file: FileModel) -> FileModel:
    """The same with a state that rests, if it has none: what is simulated has one."""
    if not isinstance(file.system, Model) or file.model.states:
        return file
    rest = sp.Function("at_rest")(t)
    made = replace(file.model, states=[rest], equations=[rest.diff(t)], explicit=None)
    return replace(file, system=made, starts={"at_rest": sp.Float(0.0)})


@dataclass(frozen=True)
class _Channel:
    """Channel of measurements with equal formulas of observable and noise. std : an expression;
    None where each sample has a number."""

    observable: str
    shown: sp.Expr
    std: sp.Expr | None
    copy: int


@dataclass(frozen=True)
class _Translation:
    """Tables and model in the terms of `Shooting`."""

    tables: Tables
    file: FileModel

    def shooting(self, options: Mapping[str, Any]) -> Shooting:
        """The problem."""
        self._check()
        estimated = {n: p for n, p in self.tables.parameters.items() if p.estimated}
        known = {n: p.nominal for n, p in self.tables.parameters.items() if not p.estimated}
        names = list(
            dict.fromkeys((row.experiment, row.time == inf) for row in self.tables.measurements)
        )
        return Shooting(
            self._told.system,
            [self._settled(name) if steady else self._trial(name) for name, steady in names],
            {name: unknown_of(p) for name, p in estimated.items()},
            {name: value for name, value in known.items() if isfinite(value)},
            [self._initial(name) for name, _ in names],
            sensors={name: each.shown for each, name in self._names.items()},
            objective=self._objective,
            **{**_STEPS, "method": self._method, **options},
        )

    @cached_property
    def _told(self) -> Periods:
        """The system, with events where later periods begin."""
        return in_periods(self.tables, self.file)

    @property
    def _method(self) -> str:
        """Method that steps over the events of the file, and over jumps of its equations: those at
        known times, or any."""
        system = self.file.system
        events = system.events if isinstance(system, Hybrid) else ()
        known = all(self._is_known(e.guard) for e in events)
        return "radau-5" if known and not self._jumps_move else "dormand-prince"

    @property
    def _jumps_move(self) -> bool:
        """Whether jumps of the equations are at times that unknowns move, and can be events: of a
        model that begins and ends in no steady state."""
        begins = (row[0].time for row in self.tables.experiments.values())
        if -inf in begins or any(row.time == inf for row in self.tables.measurements):
            return False
        moved = moved_by(self.file.system, self._unknown, (), starts=True)
        return bool(moved.direct or moved.motion)

    @cached_property
    def _unknown(self) -> set[str]:
        """Names of parameters that are unknown, or set to expressions of such."""
        changes = [p.changes for row in self.tables.experiments.values() for p in row]
        rows = (*changes, self.file.derived)
        estimated = {n for n, p in self.tables.parameters.items() if p.estimated}
        return estimated | {n for row in rows for n, e in row.items() if e.free_symbols}

    def _is_known(self, guard: sp.Expr) -> bool:
        """Whether the guard of an event is a straight line of time, of what is known."""
        e = self._written(guard)
        names = {*map(name_of, atoms_of(e) - {t})}
        moving = {*self._unknown, *self.file.model.state_names, *self._told.starts}
        return not moving & names and line_in_time(e) is not None

    @property
    def _objective(self) -> Objective:
        """The likelihood. Raises `ValueError` for noise of several distributions."""
        told, found = self.tables, dict[str, str]()
        for row in told.measurements:
            found.setdefault(told.observables[row.observable].distribution, row.observable)
        if len(found) > 1:
            (one, a), (other, b) = found.items()
            raise ValueError(
                f"{a} has {one} noise and {b} {other} noise, which is not fitted together yet"
            )
        return LeastSquares(loss="laplace" if "laplace" in found else None)

    def _check(self) -> None:
        """Raise `ValueError` for what is not fitted."""
        for name, (first, *_) in self.tables.experiments.items():
            if first.time == -inf and isinstance(self.file.system, Hybrid):
                raise ValueError(
                    f"experiment {name} begins in a steady state of a model with events, which "
                    "may happen before it; that is simulated, and not fitted yet: write the steady "
                    "state as formulas of the conditions"
                )
        for row in self.tables.measurements:
            if row.time == inf:
                self._check_settled(row)

    def _check_settled(self, row: Measurement) -> None:
        """Raise `ValueError` for a steady state that is not fitted."""
        model, reason = self.file.model, f"{row.place}: a steady state is measured"
        if len(self.tables.experiments[row.experiment]) > 1:
            raise ValueError(f"{reason} after several periods, which is not fitted yet")
        if isinstance(self.file.system, Hybrid):
            raise ValueError(f"{reason} of a model with events, which is not fitted yet")
        bare = dict.fromkeys((*model.derivatives, *model.states), sp.S.One)
        if any(t in e.xreplace(bare).free_symbols for e in model.through(model.equations)):
            raise ValueError(f"{reason} of a model that depends on time, which is not fitted yet")

    @cached_property
    def _rows(self) -> Sequence[tuple[_Channel, Measurement, float]]:
        """Channel of each measurement, and its noise where that is a number."""
        copies = Counter[Any]()
        found = list[tuple[_Channel, Measurement, float]]()
        for row in self.tables.measurements:
            shown, noise = self._formulas(row)
            std = noise if noise.free_symbols else None
            channel = _Channel(row.observable, shown, std, 0)
            place = channel, row.experiment, row.time
            channel = replace(channel, copy=copies[place])
            copies[place] += 1
            found.append((channel, row, float("nan") if std else float(noise)))
        return found

    def _formulas(self, row: Measurement) -> tuple[sp.Expr, sp.Expr]:
        """Observable of a measurement on its scale, and its noise, as expressions of what the model
        has."""
        told = self.tables.observables[row.observable]
        given = zip(told.placeholders, row.replaced, strict=True)
        more = zip(told.noise_placeholders, row.noise_replaced, strict=True)
        told_by = {sp.Symbol(name): e for name, e in (*given, *more)}
        shown = self._written(told.formula.xreplace(told_by))
        noise = told.noise.xreplace(told_by).xreplace({sp.Symbol(row.observable): shown})
        scaled = shown if told.scale == "lin" else sp.log(shown) / UNITS[told.scale]
        return scaled, self._written(noise)

    def _written(self, e: sp.Expr) -> sp.Expr:
        """An expression of states and parameters."""
        model = self.file.model
        signals = {**{name_of(x): x for x in model.states}, **self._told.now}
        return model.written_out(e).xreplace({sp.Symbol(name): x for name, x in signals.items()})

    @cached_property
    def _names(self) -> dict[_Channel, str]:
        """Names of the channels."""
        model, found = self.file.model, dict[_Channel, str]()
        taken = {
            *model.state_names,
            *model.parameter_names,
            *model.outputs,
            *self.tables.parameters,
            *self._told.starts,
        }
        for channel, *_ in self._rows:
            if channel in found:
                continue
            number, name = 1, channel.observable
            while name in taken:
                name, number = f"{channel.observable}__{number + 1}", number + 1
            taken.add(name)
            found[channel] = name
        return found

    def _periods(self, experiment: str) -> tuple[Period | None, Period]:
        """The steady state before an experiment, if there is one, and its first period."""
        first, *rest = self.tables.experiments[experiment]
        return (first, (*rest, Period(0.0, {}))[0]) if first.time == -inf else (None, first)

    def _sets(self, experiment: str) -> dict[str, Any]:
        """Parameters in the first period of an experiment; changes last until there are others."""
        before, period = self._periods(experiment)
        sets = self._changes(period)[0]
        sets = sets if before is None else {**self._changes(before)[0], **sets}
        return {**sets, **self._told.settings[experiment]}

    def _trial(self, experiment: str) -> Experiment:
        """The measurements of an experiment at finite times and what it sets."""
        before, period = self._periods(experiment)
        rows = [each for each in self._rows if each[1].experiment == experiment]
        rows = [each for each in rows if each[1].time < inf]
        times = np.unique([period.time, *(row.time for _, row, _ in rows)])
        later = [each.time for each in later_periods(self.tables, experiment)]
        if len(times) == 1 or times[-1] in later:  # after which there is more of the run
            more = _SHORT if len(times) == 1 else _MORE
            times = np.append(times, times[-1] + more * max(1.0, abs(times[-1])))
        about = self._measured(rows, times)
        start = self._steady(before, period)
        return Experiment(times, {}, *about, parameters=self._sets(experiment), before=start)

    def _settled(self, experiment: str) -> Experiment:
        """The measurements of an experiment in the steady state to which it leads."""
        rows = [each for each in self._rows if each[1].experiment == experiment]
        rows = [(c, replace(row, time=0.0), noise) for c, row, noise in rows if row.time == inf]
        times = np.array([0.0, _LONG])
        about = self._measured(rows, times)
        return Experiment(times, {}, *about, parameters=self._sets(experiment), before=steady())

    def _measured(
        self, rows: Sequence[tuple[_Channel, Measurement, float]], times: Array
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measurements at these times, by channel, and their standard deviations."""
        shape, measured, std = len(times), dict[str, Any](), dict[str, Any]()
        for channel, row, noise in rows:
            name, k = self._names[channel], int(np.searchsorted(times, row.time))
            scale = self.tables.observables[row.observable].scale
            value = row.value if scale == "lin" else log(row.value) / UNITS[scale]
            measured.setdefault(name, np.full(shape, np.nan))[k] = value
            if channel.std is None:
                std.setdefault(name, np.ones(shape))[k] = noise
            else:
                std[name] = channel.std
        return measured, std

    def _steady(self, before: Period | None, period: Period) -> Steady | None:
        if before is None:
            return None
        later, reset = self._changes(period)
        own = {name: sp.Symbol(name) for name in later}  # as they are without the experiment
        reset = {**self._told.starts, **reset}
        return steady({**own, **self._changes(before)[0]}, reset=reset)

    def _changes(self, period: Period) -> tuple[dict[str, sp.Expr], dict[str, sp.Expr]]:
        """Parameters of the model that a period sets or that the model derives; and states."""
        states = {*self.file.model.state_names}
        told = {*self.tables.parameters, *period.changes}
        sets = {n: e for n, e in self.file.derived.items() if n not in told}
        sets |= {n: e for n, e in period.changes.items() if n not in states}
        return sets, {n: e for n, e in period.changes.items() if n in states}

    def _initial(self, experiment: str) -> dict[str, Any]:
        before, period = self._periods(experiment)
        changes = self._changes(before or period)[1]
        begin = period.time if before is None else 0.0
        starts = self.file.starts_with(changes, begin)
        begun = after_events(self.file.system, self.file.at_start, starts, {}, begin)
        return {**begun, **self._told.starts}
