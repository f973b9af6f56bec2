"""Derivatives of outputs, inputs and contact forces of hybrid runs, beside those of states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.hybrid_sensitivity import HybridGradient, Sensitivities
from kinesym.runtime.hybrid_simulation import mapped, points
from kinesym.runtime.native import Library
from kinesym.runtime.signals import SignalGradient
from kinesym.runtime.trajectory import Named

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Observed:
    """Derivatives of a run, as `Sensitivities` has them, that know `names` besides states: outputs,
    inputs, contact forces.

    At a node these depend on the state there, on parameters, and on the pieces of inputs; so do the
    forces of the contacts that press there. library, structure : of `observed_program`, see
    `codegen.switching`.
    """

    names: Sequence[str]
    library: Library
    structure: Mapping[str, Any]
    run: Sensitivities

    @cached_property
    def _slopes(self) -> Array:
        """Of each output at each node (N, k, L), in the columns of `Linear`."""
        linear, told = self.run.linear, self.structure
        time = self.run.run.time
        step = np.searchsorted(linear.tape.time, time, side="right") - 1
        states = np.array([self.run.run[x] for x in linear.task.about["states"]])
        at = linear.places(np.maximum(step, 0)).moved(time, states)
        flow = linear.flow(at)
        dense = np.zeros((len(time), *told["shape"]))
        if told["rows"]:
            args = points(linear.task, at.x, flow.inputs, at.time)
            entries = mapped(self.library, "observed_slopes", args, len(told["rows"]))
            dense[:, told["rows"], told["columns"]] = entries.T
        first = linear.n + linear.m + linear.d
        by_force = dense[:, :, first : first + linear.R]
        return np.asarray((linear.local(dense, at) + by_force @ flow.force)[..., :-1])

    @cached_property
    def _pieces(self) -> NDArray[np.intp]:
        """Of each input the piece at each node, (m, N)."""
        linear = self.run.linear
        step = np.searchsorted(linear.tape.time, self.run.run.time, side="right") - 1
        return linear.common.piece[:, linear.tape.segment[np.maximum(step, 0)]]

    def forward(
        self, wrt: Sequence[str], courses: Mapping[str, Mapping[str, SignalGradient]]
    ) -> dict[str, Array]:
        """Derivatives (P, N) of states and of what is observed; see `Sensitivities.forward`."""
        linear, about = self.run.linear, self.run.linear.task.about
        along = self.run.forward(wrt, courses)
        change = np.zeros((len(self.run.run.time), linear.L, len(along.wrt)))
        for row, x in enumerate(about["states"]):
            change[:, row] = along[x].T
        for column, name in enumerate(wrt):
            if name in about["parameters"]:
                place = linear.n + about["parameters"].index(name)
                change[:, place, column] = 1.0
        for column, moved in enumerate(courses.values(), start=len(wrt)):
            for i, (u, signal) in enumerate(linear.task.inputs.items()):
                if u in moved:
                    k, (begin, value, slope) = self._pieces[i], moved[u].parts
                    now = value[k] - signal.coefficients[1, k] * begin[k]
                    change[:, linear.columns("v").start + i, column] = now
                    change[:, linear.columns("s").start + i, column] = slope[k]
        found = np.moveaxis(self._slopes @ change, 0, 2)
        return {**dict(along), **dict(zip(self.names, found, strict=True))}

    def gradient(self, weights: Mapping[str, Array]) -> HybridGradient:
        """Derivatives of a weighted sum (N,) of states and of what is observed."""
        linear, about = self.run.linear, self.run.linear.task.about
        none = np.zeros(len(self.run.run.time))
        mine = np.array([weights.get(name, none) for name in self.names])
        rows = np.einsum("kn,nkl->ln", mine, self._slopes)
        of_states = {x: rows[i] + weights.get(x, none) for i, x in enumerate(about["states"])}
        behind = self.run.gradient(of_states)
        direct = rows[linear.columns("p")].sum(axis=1).tolist()
        parameters = {
            p: behind.parameters[p] + more
            for p, more in zip(about["parameters"], direct, strict=True)
        }
        inputs = dict(behind.inputs)
        for i, (u, signal) in enumerate(linear.task.inputs.items()):
            value, slope = (rows[linear.columns(group).start + i] for group in ("v", "s"))
            k, count = self._pieces[i], len(signal.begin)
            v, s = (np.bincount(k, row, count) for row in (value, slope))
            begin, before, bend = inputs[u].parts
            inputs[u] = SignalGradient(begin - signal.coefficients[1] * v, before + v, bend + s)
        return HybridGradient(Named(parameters), behind.initial, inputs)
