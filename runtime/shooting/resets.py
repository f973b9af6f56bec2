"""Resets of states at known times within a trial, and sweeps of derivatives across them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import Chain
from kinesym.runtime.shooting.chosen_steps import ChosenSteps
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.simulation.stepper import Diverged


@dataclass(frozen=True)
class Reset:
    """Reset map of an event at a known time [s]: states after it as functions of states before it,
    of parameters, and of the time by the name "t"."""

    time: float
    rule: Following

    def after(self, states: Sequence[str], x: Array, known: Mapping[str, float]) -> Array:
        """States (n,) after it. Raises `Diverged` if one is not finite."""
        found = x.copy()
        for name, value in self.rule.values(self._at(states, x, known)).items():
            if not np.isfinite(value):
                raise Diverged(f"at t = {self.time:.9g} s state {name} is set to {value}")
            found[states.index(name)] = value
        return found

    def slopes(
        self, states: Sequence[str], x: Array, known: Mapping[str, float], names: Sequence[str]
    ) -> tuple[Array, Array]:
        """Derivatives (n, n) and (n, r) of the states after it by those before it, and by the
        parameters of these names."""
        by_states, by_parameters = np.eye(len(x)), np.zeros((len(x), len(names)))
        rows, at = [states.index(name) for name in self.rule.states], self._at(states, x, known)
        by_states[rows] = self.rule.slopes(at, states)
        by_parameters[rows] = self.rule.slopes(at, names)
        return by_states, by_parameters

    def _at(
        self, states: Sequence[str], x: Array, known: Mapping[str, float]
    ) -> dict[str, float | np.float64]:
        return {**known, **dict(zip(states, x, strict=True)), "t": self.time}


@dataclass(frozen=True)
class Crossed:
    """Resets at a node: the states (n,) after them, which the node shows, and their derivatives by
    the states (n, n) and by the parameters (n, r) before them."""

    node: int
    after: Array
    by_states: Array
    by_parameters: Array


def by_nodes(resets: Sequence[Reset], grid: Array) -> list[tuple[int, list[Reset]]]:
    """Resets in the order of time, by the nodes of a grid at which they are."""
    found = dict[int, list[Reset]]()
    for reset in sorted(resets, key=lambda reset: reset.time):
        found.setdefault(int(np.argmin(np.abs(grid - reset.time))), []).append(reset)
    return [*found.items()]


def crossed(
    node: int,
    resets: Sequence[Reset],
    states: Sequence[str],
    x: Array,
    known: Mapping[str, float],
    names: Sequence[str],
) -> Crossed:
    """The resets at a node, one after the other, from its states x (n,); names : of the parameters
    of derivatives. Raises `Diverged` as `Reset.after`."""
    by_states, by_parameters = np.eye(len(x)), np.zeros((len(x), len(names)))
    for reset in resets:
        by_x, by_p = reset.slopes(states, x, known, names)
        by_states, by_parameters = by_x @ by_states, by_x @ by_parameters + by_p
        x = reset.after(states, x, known)
    return Crossed(node, x, by_states, by_parameters)


@dataclass(frozen=True)
class Interrupted:
    """Sweep over the steps of a trial with resets; the functions of `sweep`."""

    sweep: Chain | ChosenSteps
    stops: Sequence[Crossed]

    def adjoint(
        self, begin: int, end: int, carry: Array, node: Array, inputs: Array, parameters: Array
    ) -> None:
        """See `ChosenSteps.adjoint`."""
        for stop in reversed(self.stops):
            if stop.node < end:
                self.sweep.adjoint(stop.node, end, carry, node, inputs, parameters)
            parameters += carry @ stop.by_parameters
            carry[:] = carry @ stop.by_states
            end = stop.node
        if begin < end:
            self.sweep.adjoint(begin, end, carry, node, inputs, parameters)

    def tangent(self, begin: int, end: int, carry: Array, along: Array, n_varied: int) -> None:
        """See `ChosenSteps.tangent`."""
        first = begin
        for stop in (*self.stops, None):
            last = end if stop is None else stop.node
            if first < last:
                part = along[first - begin : last - begin + 1]
                self.sweep.tangent(first, last, carry.copy(), part, n_varied)
                carry = part[-1]
            if stop is not None:
                carry = stop.by_states @ carry
                carry[:, : stop.by_parameters.shape[1]] += stop.by_parameters
                along[last - begin] = carry
            first = last
