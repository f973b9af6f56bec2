"""Derivatives of hybrid runs, across events: forward in directions, or by the adjoint for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import check_choice, listed, mapping
from kinesym.runtime.arrays import Array
from kinesym.runtime.hybrid.simulation import RawTrajectory
from kinesym.runtime.library.manifest import Built, SlopesManifest
from kinesym.runtime.native import HybridSweep
from kinesym.runtime.results.derivatives import (
    SIDES,
    ForwardSensitivities,
    HybridGradient,
    InputGradients,
    event_number,
    state_number,
)
from kinesym.runtime.results.event_log import EventRecord
from kinesym.runtime.results.trajectory import Trajectory, Values
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.signals.signal import Segments, SignalGradient, segments
from kinesym.runtime.simulation.following import Following

#: Status codes of a sweep, see runtime/native/c/hybrid/sweep.h: an event grazes its guard.
GRAZES = 3
#: A reset has no derivative.
RESET = 4


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """Sensitivities of a hybrid run: derivatives of its steps and events, accurate for the motion
    to the accuracy of the steps.

    run : the simulation. observed : outputs, inputs and contact forces that have derivatives too,
    as functions of the state at a node, parameters, and pieces of inputs, with their first
    derivatives; see `codegen.switching.observed_program`. following : initial values that depend on
    parameters; derivatives by these include them.
    """

    run: Trajectory
    raw: RawTrajectory = field(repr=False)
    common: Segments = field(repr=False)
    sweep: HybridSweep = field(repr=False)
    observed: tuple[Sequence[str], Built] | None = field(default=None, repr=False)
    following: Following | None = field(default=None, repr=False)

    @property
    def _names(self) -> list[str]:
        """Names of states and observed quantities."""
        return [*self.raw.ivp.about.states, *(self.observed[0] if self.observed else ())]

    @cached_property
    def _slopes(self) -> Array:
        """Derivatives (N, k, L) of the observed quantities, columns as of
        `HybridSweep.observed`."""
        assert self.observed is not None
        names, built = self.observed
        states = np.array([self.run[x] for x in self.raw.ivp.about.states])
        pattern = built.manifest.of(SlopesManifest).patterns["observed_slopes"]
        return self.sweep.observed(self.run.time, states, built.library, pattern, len(names))

    @cached_property
    def _segments(self) -> NDArray[np.intc]:
        """Segment of inputs of each node, (N,)."""
        return self.sweep.segments(self.run.time)

    # -- forward --------------------------------------------------------------------------------

    def forward(
        self,
        wrt: Sequence[Any] = (),
        variations: Mapping[str, Mapping[str, SignalGradient]] | None = None,
    ) -> ForwardSensitivities:
        """Forward sensitivities: derivatives of all states in a few directions.

        wrt : names of parameters, and of states for their initial values. variations : by a name of
        their own, ways to change inputs: derivatives of their begins, values and slopes.

        Raises `ValueError` for unknown names, and where an event has no derivative.
        """
        about = self.raw.ivp.about
        extra = {} if variations is None else dict(mapping(variations, "variations"))
        names = [key_name(name) for name in listed(wrt, "wrt")]
        P = len(names) + len(extra)
        states, parameters = about.states, about.parameters
        x, p = np.zeros((len(states), P)), np.zeros((len(parameters), P))
        for column, name in enumerate(names):
            rows, known = (p, parameters) if name in parameters else (x, states)
            if name not in known:
                there = ", ".join([*parameters, *states])
                raise ValueError(f"wrt: {name} is no parameter and no state; there are {there}")
            rows[list(known).index(name), column] = 1.0
            if rows is p and self.following:
                mine = [list(states).index(s) for s in self.following.states]
                x[mine, column] = self.following.slopes(self.run.parameters, [name])[:, 0]
        pieces = self._pieces(extra, len(names), P)
        status, nodes, times, before, after = self.sweep.forward(x, p, pieces)
        self._check(status)
        if self.observed:
            N = len(self.run.time)
            inputs = pieces[self._segments].reshape(N, -1, P)
            of_all = [np.moveaxis(nodes, 2, 0), np.broadcast_to(p, (N, *p.shape)), inputs]
            more = self._slopes @ np.concatenate(of_all, axis=1)
            nodes = np.concatenate([nodes, np.moveaxis(more, (0, 1, 2), (2, 0, 1))])
        return ForwardSensitivities(
            [*names, *extra],
            dict(zip(self._names, nodes, strict=True)),
            [(t, a.T, b.T) for t, a, b in zip(times, before, after, strict=True)],
            self.run,
        )

    def _pieces(
        self, variations: Mapping[str, Mapping[str, SignalGradient]], first: int, P: int
    ) -> Array:
        """Changes of value, slope and next begin of inputs, (segments, 3, m, P)."""
        inputs = self.raw.ivp.inputs
        made = np.zeros((len(self.common.begin) - 1, 3, len(inputs), P))
        for column, (way, given) in enumerate(variations.items(), start=first):
            change = mapping(given, f"variation {way}", "{input: SignalGradient}")
            by_name = {key_name(key): value for key, value in change.items()}
            strange = set(by_name) - set(inputs)
            if strange:
                raise ValueError(f"variations: {min(strange)} is no input that is given")
            for row, (name, signal) in enumerate(inputs.items()):
                if name in by_name:
                    now, soon = self._own(row)
                    value, slope = by_name[name].at_breaks(signal)
                    made[:, :2, row, column] = np.stack([value[now], slope[now]], axis=1)
                    made[:, 2, row, column] = by_name[name].begin[soon]
        return made

    def _own(self, row: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Pieces of an input in all segments, and the pieces after them."""
        now = self.common.piece[row]
        return now, np.append(now[1:], now[-1])

    def _check(self, status: int) -> None:
        """Raise `ValueError` for an event that has no derivative."""
        time, event = self.sweep.trouble
        if status == GRAZES:
            raise ValueError(
                f"what happens at t = {time:.9g} s touches zero without crossing it, rests there, "
                "or is a guard that jumps (x - 1 has a rate, sign(x - 1) none): its time has no "
                "derivative"
            )
        if status == RESET:
            name = self.raw.ivp.about.events[event].name
            raise ValueError(
                f"event {name!r} follows the break of an input at t = {time:.9g} s and its reset "
                "depends on inputs: that has no derivative here; move the break"
            )

    # -- adjoint --------------------------------------------------------------------------------

    def gradient(
        self, of: Any, at: EventRecord | None = None, side: str = "after"
    ) -> HybridGradient:
        """Adjoint sensitivities: derivatives of one quantity with respect to all unknowns.

        of : a state, at the end or `at` an event of the log ("before" or "after" it); "time", the
        time of that event; or weights (N,) of states (and observed quantities) at the nodes by
        name, for their weighted sum.

        Raises `ValueError` for unknown names, for events that are not in this run, and for events
        without a derivative.
        """
        check_choice(side, SIDES, "side")
        names, log, N = list(self.raw.ivp.about.states), self.run.log, len(self.run.time)
        n, E = len(names), len(log)
        weights, times, end = np.zeros((len(self._names), N)), np.zeros(E), np.zeros(n)
        events = {"before": np.zeros((E, n)), "after": np.zeros((E, n))}
        if isinstance(of, Mapping):
            for name, row in of.items():
                if np.shape(row) != (N,):
                    raise ValueError(
                        f"weights of {name} have shape {np.shape(row)}, expected {(N,)}"
                    )
                weights[state_number(self._names, name)] = row
        elif at is None:
            end[state_number(names, of)] = 1.0
        elif key_name(of) == "time":
            times[event_number(self.run, at)] = 1.0
        else:
            column = state_number(names, of)
            events[side][event_number(self.run, at), column] = 1.0
        direct = None
        if self.observed:
            direct = np.einsum("kn,nkl->ln", weights[n:], self._slopes)
            weights = weights[:n] + direct[:n]
        status, initial, p, pieces = self.sweep.adjoint(
            end, np.ascontiguousarray(weights.T), times, **events
        )
        self._check(status)
        if direct is not None:
            p = p + direct[n : n + len(p)].sum(axis=1)
        if self.following:
            mine = [names.index(s) for s in self.following.states]
            known = self.run.parameters
            p = p + initial[mine] @ self.following.slopes(known, self.raw.ivp.about.parameters)
        return HybridGradient(
            Values(zip(self.raw.ivp.about.parameters, p.tolist(), strict=True)),
            Values(zip(names, initial.tolist(), strict=True)),
            self._of_inputs(pieces, None if direct is None else direct[n + len(p) :]),
        )

    def _of_inputs(self, pieces: Array, direct: Array | None) -> InputGradients:
        """Gradients of inputs from derivatives by their pieces, (segments, 3, m), and by the
        observed quantities' derivatives by values and slopes of all inputs at the nodes, (2 m and
        more, N)."""
        found, m = InputGradients(), len(self.raw.ivp.inputs)
        for row, (name, signal) in enumerate(self.raw.ivp.inputs.items()):
            if not signal.coefficients[3].any():
                (now, soon), B = self._own(row), len(signal.begin)
                parts = zip((now, now, soon), pieces[:, :, row].T, strict=True)
                value, slope, breaks = (summed(k, part, B) for k, part in parts)
                found[name] = SignalGradient.of_breaks(signal, breaks, value, slope)
                if direct is not None:
                    here = (summed(now[self._segments], direct[k], B) for k in (row, m + row))
                    found[name] += SignalGradient.of_breaks(signal, np.zeros(1), *here)
        return found


def sensitivities_of(found: RawTrajectory, run: Trajectory, slopes: Built) -> Sensitivities:
    """Sensitivities of a run with a tape of its steps.

    Raises `ValueError` for runs that have none: releases by height, ended before the first step.
    """
    ivp = found.ivp
    if ivp.release != "force":
        raise ValueError("there are sensitivities for release='force' only")
    if not found.work[0]:
        raise ValueError("the run ended before its first step: it has no derivatives")
    common = segments(ivp.inputs, float(ivp.start.time), float(ivp.time[-1]))
    begins = np.zeros(common.piece.shape)
    for row, piece, signal in zip(begins, common.piece, ivp.inputs.values(), strict=True):
        row[:] = signal.begin[piece]
    about = slopes.manifest.of(SlopesManifest)
    sweep = HybridSweep(found.run, slopes.library, about.patterns, about.solution, begins)
    return Sensitivities(run, found, common, sweep)


def summed(places: NDArray[np.intp], row: Array, count: int) -> Array:
    """Sums (count,) of the entries of a row that have the same place."""
    return np.asarray(np.bincount(places, row, count), dtype=np.float64)
