"""Derivatives of a run: sensitivities of its states and events, and gradients of one quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinesym.base.checks import check_choice
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.event_log import EventRecord
from kinesym.runtime.results.trajectory import ByName, Trajectory
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.signals.signal import NO_BEGINS, SignalGradient

#: Sides of an event, for values of states.
SIDES = ("before", "after")


class InputGradients(dict[str, SignalGradient]):
    """Gradients by inputs, by name; raises `ValueError` for an input that has no derivatives."""

    def __missing__(self, name: str) -> SignalGradient:
        raise ValueError(f"no derivatives with respect to input {name}: {NO_BEGINS}")


@dataclass(frozen=True, eq=False)
class HybridGradient:
    """Derivatives of one quantity with respect to parameters and initial values of states, by name,
    and to the pieces of each given input that is not cubic."""

    parameters: Mapping[str, float]
    initial: Mapping[str, float]
    inputs: InputGradients


@dataclass(frozen=True, eq=False)
class ForwardSensitivities(ByName):
    """Forward sensitivities: derivatives with respect to P parameters or initial values, named in
    `wrt`.

    states : by name, (P, N) at the nodes, at equal times, observed quantities included. events :
    for each entry of the log, of its time (P,) and of all states before and after it: (P, n).
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

    def at(self, record: EventRecord, of: Any = "time", side: str = "after") -> Array:
        """Derivatives (P,) of the time of an event, or of a state "before" or "after" it.

        Raises `ValueError` for an event that is not in this run.
        """
        time, before, after = self.events[event_number(self.run, record)]
        if key_name(of) == "time":
            return time
        check_choice(side, SIDES, "side")
        rows = after if side == "after" else before
        return np.asarray(rows[:, state_number(list(self.states), of)])


def state_number(names: Sequence[str], key: Any) -> int:
    """Number of a state. Raises `ValueError` for an unknown name."""
    name = key_name(key)
    if name not in names:
        raise ValueError(f"{name} is no state; there are {', '.join(names)}")
    return list(names).index(name)


def event_number(run: Trajectory, record: EventRecord) -> int:
    """Number of an entry in the log. Raises `ValueError` if it is not in this run."""
    for number, event in enumerate(run.log):
        if event is record:
            return number
    raise ValueError(f"'{record}' is nothing that happened in this run")
