"""Derivatives of runs with delays, by parameters and initial values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.delays.trial import Changes
from kinesym.runtime.results.derivatives import (
    ForwardSensitivities,
    HybridGradient,
    InputGradients,
)
from kinesym.runtime.results.event_log import EventRecord
from kinesym.runtime.results.trajectory import Trajectory, Values
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.signals.signal import SignalGradient
from kinesym.runtime.simulation.following import Following

_ONLY = "with delays there are derivatives by parameters and initial values, not by inputs"


class _NoInputs(InputGradients):
    def __missing__(self, name: str) -> SignalGradient:
        raise ValueError(f"input {name}: {_ONLY}")


@dataclass(frozen=True, eq=False)
class DelayedSensitivities:
    """Derivatives of the steps of a run with delays, exact to rounding; see `Sensitivities`.

    run : the simulation. nodes : its nodes among those of the steps. following : initial values
    that depend on parameters.
    """

    run: Trajectory
    nodes: Sequence[int] = field(repr=False)
    changes: Changes = field(repr=False)
    following: Following | None = field(default=None, repr=False)

    @property
    def _names(self) -> tuple[list[str], list[str]]:
        return list(self.run.states), list(self.run.parameters)

    @property
    def _starts(self) -> Array:
        """Derivatives (n, r) of initial values by parameters."""
        states, parameters = self._names
        found = np.zeros((len(states), len(parameters)))
        if self.following:
            mine = [states.index(x) for x in self.following.states]
            found[mine] = self.following.slopes(self.run.parameters, parameters)
        return found

    def forward(
        self, wrt: Sequence[Any] = (), variations: Mapping[str, Any] | None = None
    ) -> ForwardSensitivities:
        """Derivatives of all states and delayed inputs with respect to parameters, and to states
        for their initial values, (P, N) by name. Raises `ValueError` for unknown names, and for
        variations of inputs."""
        states, parameters = self._names
        if variations:
            raise ValueError(_ONLY)
        names = [key_name(name) for name in wrt]
        every = [*parameters, *states]
        for name in names:
            if name not in every:
                raise ValueError(
                    f"wrt: {name} is no parameter and no state; there are {', '.join(every)}"
                )
        columns = [every.index(name) for name in names]
        parts = self.changes.tangent(np.eye(len(states)))
        along = np.concatenate(parts, axis=1)[np.asarray(self.nodes)]
        along[:, :, : len(parameters)] += along[:, :, len(parameters) :] @ self._starts
        along = along[:, :, columns]
        rows = [*states, *(source.name for source in self.changes.sources)]
        return ForwardSensitivities(
            names, dict(zip(rows, along.transpose(1, 2, 0), strict=True)), [], self.run
        )

    def gradient(
        self, of: Any, at: EventRecord | None = None, side: str = "after"
    ) -> HybridGradient:
        """Derivatives of one quantity by all parameters and initial values. of : a state, at the
        end, or weights (N,) of states and delayed inputs at the nodes by name, for their weighted
        sum. Raises `ValueError` for unknown names, and for an event."""
        states, parameters = self._names
        if at is not None:
            raise ValueError(f"'{at}' is nothing that happened in this run, which has no events")
        late = [source.name for source in self.changes.sources]
        end = np.zeros(len(self.nodes))
        end[-1] = 1.0
        weights = of if isinstance(of, Mapping) else {of: end}
        rows = np.zeros((len(states) + len(late), self.changes.count))
        for key, row in weights.items():
            name = key_name(key)
            if name not in (*states, *late):
                raise ValueError(f"{name} is no state; there are {', '.join([*states, *late])}")
            if np.shape(row) != end.shape:
                raise ValueError(
                    f"weights of {name} have shape {np.shape(row)}, expected {end.shape}"
                )
            rows[[*states, *late].index(name), np.asarray(self.nodes)] = row
        initial, p = self.changes.adjoint(rows[: len(states)], rows[len(states) :])
        p = p + initial @ self._starts
        return HybridGradient(_named(parameters, p), _named(states, initial), _NoInputs())


def _named(names: Sequence[str], values: Array) -> Values:
    return Values(zip(names, values.tolist(), strict=True))
