"""Unknown histories in collocation: signals before the start as parameters of each trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from kinesym.internal.problems.equation_delays import span_of
from kinesym.internal.problems.parameters import Unknown
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.delay_rows import UnknownCourse
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import TRIAL, Experiment
from kinesym.runtime.signals.history import UnknownHistory
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of

#: Unknown values before the start, at most.
_MOST = 20


@dataclass(frozen=True, eq=False)
class FreeHistory:
    """Unknown histories as parameters. courses : by trial and signal. unknown : records of the
    parameters. guesses : their values."""

    courses: Sequence[Mapping[str, UnknownCourse]]
    unknown: Mapping[str, Unknown]
    guesses: Mapping[str, float]

    def extended(self, model: Model) -> Model:
        """The model with these parameters."""
        symbols = [sp.Symbol(name, real=True) for name in self.unknown]
        values = {p: self.guesses[p.name] for p in symbols}
        return model.extended(parameters=symbols, values=values) if symbols else model


def table_before(courses: Mapping[str, UnknownCourse], run: Trajectory) -> dict[str, Array]:
    """Table of the signals of a run before and at its start, see `Trajectory.before`."""
    rows = [
        (name, float(at), value)
        for name, course in courses.items()
        for at, value in zip(course.times, _values(course, name, run), strict=True)
    ]
    columns = zip(*rows, strict=True)
    pairs = zip(("signal", "time", "value"), columns, strict=False)
    return {name: np.array(column) for name, column in pairs}


def histories_of(
    trial: Experiment, courses: Mapping[str, UnknownCourse], run: Trajectory
) -> dict[str, Signal]:
    """The histories of a trial, those that were unknown with what a run of it has."""
    known = {n: h for n, h in trial.history.items() if isinstance(h, Signal)}
    for name, course in courses.items():
        known[name] = Signal(course.times, _values(course, name, run))
    return known


def _values(course: UnknownCourse, name: str, run: Trajectory) -> list[float]:
    return [*(run.parameters[p] for p in course.parameters), float(run[name][0])]


def free_history(
    model: Model,
    trials: Sequence[Experiment],
    unknown: Mapping[str, Unknown],
    known: Sequence[Mapping[str, float]],
) -> FreeHistory:
    """Unknown history of trials: signals before the start as parameters, as far back as delays go,
    with steps as those of the grids, but `_MOST` values at most, or as many as asked for.

    known : values of the known parameters, by trial. Raises `ValueError` for a history that is
    unknown in some trials only, and for that of an input that is given.
    """
    asked = list(dict.fromkeys(n for trial in trials for n in _open(trial)))
    late = [name for name in asked if any(name_of(d.signal) == name for d in model.delays)]
    courses: list[dict[str, UnknownCourse]] = [{} for _ in trials]
    made, guesses = dict[str, Unknown](), dict[str, float]()
    for name in late:
        history = _common(name, trials)
        spans = [
            span_of(d, unknown, values)
            for d in model.delays
            if name_of(d.signal) == name
            for values in known
        ]
        reach = max(high for _, high in spans)
        step = min(_step(trial) for trial in trials)
        count = history.values or int(np.clip(np.ceil(reach / step - 1e-9), 1, _MOST))
        back = reach * np.arange(count, 0, -1) / count
        names = tuple(f"{name}(-{seconds:.4g} s)" for seconds in back)
        for course, trial in zip(courses, trials, strict=True):
            start = 0.0 if trial.duration else float(trial.grid[0])
            course[name] = UnknownCourse(names, np.append(start - back, start))
        label = TRIAL if len(trials) > 1 else ""
        made |= dict.fromkeys(names, Unknown(*history.bounds, label=label))
        guesses |= dict.fromkeys(names, _guess(name, trials, history.bounds))
    return FreeHistory(courses, made, guesses)


def _open(trial: Experiment) -> list[str]:
    return [name for name, h in trial.history.items() if isinstance(h, UnknownHistory)]


def _common(name: str, trials: Sequence[Experiment]) -> UnknownHistory:
    """An unknown history, the same in all trials."""
    found = [trial.history.get(name) for trial in trials]
    for k, (trial, history) in enumerate(zip(trials, found, strict=True)):
        if not isinstance(history, UnknownHistory) or history != found[0]:
            raise ValueError(
                f"the history of {name} is unknown in some trials and not in trial {k}, or has "
                "other bounds there; give the same in all"
            )
        if name in trial.signals:
            raise ValueError(
                f"the history of {name} in trial {k} is unknown, but the input is given; give a "
                "signal that begins earlier"
            )
    assert isinstance(found[0], UnknownHistory)
    return found[0]


def _step(trial: Experiment) -> float:
    """The mean step of a trial [s]."""
    length = trial.duration[1] if trial.duration else trial.grid[-1] - trial.grid[0]
    return float(length) / (trial.n_nodes - 1)


def _guess(name: str, trials: Sequence[Experiment], bounds: tuple[float, float]) -> float:
    """The first sample, else zero, within bounds."""
    samples = [trial.measured[name] for trial in trials if name in trial.measured]
    values = [row[np.isfinite(row)][0] for row in samples if np.isfinite(row).any()]
    return float(np.clip(values[0] if values else 0.0, *bounds))
