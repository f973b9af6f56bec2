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

from kinesym.models.files.petab import Measurement, Period, Tables
from kinesym.models.files.sbml import FileModel
from kinesym.petab_priors import UNITS, unknown_of
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.steady import Steady, steady
from kinesym.shooting import Shooting
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import LeastSquares, Objective

#: Length of a record whose only samples are at its start.
_SHORT = 1.0
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
        names = list(dict.fromkeys(row.experiment for row in self.tables.measurements))
        estimated = {n: p for n, p in self.tables.parameters.items() if p.estimated}
        known = {n: p.nominal for n, p in self.tables.parameters.items() if not p.estimated}
        trials = [self._trial(name) for name in names]
        return Shooting(
            self.file.system,
            trials,
            {name: unknown_of(p) for name, p in estimated.items()},
            {name: value for name, value in known.items() if isfinite(value)},
            [self._initial(name) for name in names],
            sensors={name: each.shown for each, name in self._names.items()},
            objective=self._objective,
            **{**_STEPS, "method": self._method, **options},
        )

    @property
    def _method(self) -> str:
        return "dormand-prince" if isinstance(self.file.system, Hybrid) else "radau-5"

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
        for name, periods in self.tables.experiments.items():
            if len([p for p in periods if p.time > -inf]) != 1:
                raise ValueError(f"experiment {name} has several periods, which is not fitted yet")
        for row in self.tables.measurements:
            if row.time == inf:
                raise ValueError(
                    f"{row.place}: a steady state is measured, which is not fitted yet"
                )

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
        for symbol, row in reversed(model.intermediates):
            e = e.xreplace({symbol: row})
        return e.xreplace({sp.Symbol(name_of(x)): x for x in model.states})

    @cached_property
    def _names(self) -> dict[_Channel, str]:
        """Names of the channels."""
        model, found = self.file.model, dict[_Channel, str]()
        taken = {
            *model.state_names,
            *model.parameter_names,
            *model.outputs,
            *self.tables.parameters,
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
        """The steady state before an experiment, if there is one, and the experiment."""
        first, *rest = self.tables.experiments[experiment]
        return (first, rest[0]) if first.time == -inf else (None, first)

    def _trial(self, experiment: str) -> Experiment:
        """The measurements of an experiment and what it sets."""
        before, period = self._periods(experiment)
        rows = [each for each in self._rows if each[1].experiment == experiment]
        times = np.unique([period.time, *(row.time for _, row, _ in rows)])
        if len(times) == 1:
            times = np.array([times[0], times[0] + _SHORT * max(1.0, abs(times[0]))])
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
        sets = self._changes(period)[0]
        if before is not None:  # changes last until there are others
            sets = {**self._changes(before)[0], **sets}
        return Experiment(
            times, {}, measured, std, parameters=sets, before=self._steady(before, period)
        )

    def _steady(self, before: Period | None, period: Period) -> Steady | None:
        if before is None:
            return None
        later, reset = self._changes(period)
        own = {name: sp.Symbol(name) for name in later}  # as they are without the experiment
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
        return {**self.file.starts, **changes}
