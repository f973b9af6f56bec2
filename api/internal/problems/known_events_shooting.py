"""Events at known times, between which a hybrid model is a model as others are: any of its methods
steps from one to the next, where states are reset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from kinesym.internal.problems.dependent_starts import functions_of
from kinesym.runtime.shooting.resets import Reset
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.simulation.following import Following
from kinesym.symbolic.hybrid import Hybrid, line_in_time
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.table import NumericFunction

#: A share of its time within which an event is at a node.
_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class KnownEvent:
    """Event whose guard is the straight line level + slope * t, of parameters. line : function of
    these parameters that gives both. rule : states after it."""

    name: str
    direction: int
    parameters: Sequence[str]
    line: NumericFunction
    rule: Following


@dataclass(frozen=True, eq=False)
class Between:
    """A model between events, with modes as states without a rate, which start with the values
    `modes`; and the events."""

    model: Model
    modes: Mapping[str, float]
    events: Sequence[KnownEvent]

    def initial(self, given: Any) -> Any:
        """Initial values with those of the modes."""
        if isinstance(given, list | tuple):
            return [self.initial(row) for row in given]
        return {**self.modes, **given} if isinstance(given, Mapping) else given or dict(self.modes)


@lru_cache(maxsize=32)
def between_events(hybrid: Hybrid, method: str) -> Between:
    """The model of a hybrid one between its events. Raises `ValueError` for contacts, and events
    that are at no known times, which the method does not step over."""
    about = f"{method} steps over events at known times alone, and {hybrid.model.name} has "
    if hybrid.contacts:
        raise ValueError(f"{about}contacts; use dormand-prince or rk4")
    rates = {u: sp.S.Zero for u in hybrid.model.inputs if name_of(u) in hybrid.modes}
    model = hybrid.model.extended(rates=rates) if rates else hybrid.model
    try:
        events = [_known(event, model) for event in hybrid.events]
    except ValueError as error:
        raise ValueError(f"{about}{error}; use dormand-prince or rk4") from error
    return Between(model, dict(hybrid.modes), events)


def _known(event: Event, model: Model) -> KnownEvent:
    """A known event. Raises `ValueError` that says what it has, of one that is none."""
    what = f"event {event.name!r}"
    if event.level or event.stop or event.failure or not event.when.is_number:
        raise ValueError(f"{what} with level, stop, failure or when")
    guard = model.written_out(event.guard)
    line = line_in_time(guard)
    if line is None:
        raise ValueError(f"{what}, where {event.guard} is zero")
    symbols = sorted(guard.free_symbols - {t}, key=name_of)
    rules = {**event.resets, **event.sets}
    rule = functions_of({name_of(x): model.written_out(e) for x, e in rules.items()})
    names, function = [name_of(s) for s in symbols], NumericFunction(symbols, [*line])
    return KnownEvent(event.name, event.direction, names, function, rule)


def resets_of(
    events: Sequence[KnownEvent],
    trial: Experiment,
    unknown: Collection[str],
    known: Mapping[str, float],
) -> list[Reset]:
    """Resets within a trial, between its ends, in the order of the events. Raises `ValueError` for
    an event whose time is unknown."""
    made, begin, end = list[Reset](), float(trial.grid[0]), float(trial.grid[-1])
    for event in events:
        for name in event.parameters:
            if name in unknown:
                raise ValueError(
                    f"the time of event {event.name!r} depends on {name}, which is unknown: it is "
                    "differentiated by dormand-prince and rk4 alone"
                )
        level, slope = event.line(*(known[name] for name in event.parameters))
        time = -float(level) / float(slope) if slope else np.inf
        if begin < time < end and event.direction * slope >= 0.0:
            made.append(Reset(time, event.rule))
    return made


def with_nodes(trial: Experiment, resets: Sequence[Reset]) -> Experiment:
    """The trial with a node at each reset."""
    grid = trial.grid
    more = list[float]()
    for time in (reset.time for reset in resets):
        every = np.append(grid, more)
        if np.abs(every - time).min() > _SAME * abs(time):
            more.append(time)
    return trial.on_grid(np.union1d(grid, more)) if more else trial


def check_between(segments: int, inputs: Mapping[str, Any], late: Mapping[str, Any]) -> None:
    """Raise `ValueError` for what runs between events do not take."""
    for there, what in (
        (segments > 1, "several segments"),
        (bool(inputs), "unknown inputs"),
        (bool(late), "unknown delays of sensors"),
    ):
        if there:
            raise ValueError(f"shooting over events at known times takes no {what}")
