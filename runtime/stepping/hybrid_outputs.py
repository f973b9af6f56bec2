"""Derivatives of outputs, inputs and contact forces of hybrid runs, beside those of states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import Built, SlopesManifest
from kinesym.runtime.results.trajectory import Named
from kinesym.runtime.signals.signal import SignalGradient
from kinesym.runtime.stepping.hybrid_sensitivity import HybridGradient, Sensitivities


@dataclass(frozen=True, eq=False)
class Observed:
    """Derivatives of a run, as `Sensitivities` has them, that know `names` besides states: outputs,
    inputs, contact forces.

    At a node these depend on the state there, on parameters, and on the pieces of inputs; so do the
    forces of the contacts that press there. slopes : of `observed_program`, see
    `codegen.switching`.
    """

    names: Sequence[str]
    slopes: Built
    run: Sensitivities

    @cached_property
    def _slopes(self) -> Array:
        """Of each output at each node (N, k, L), in the columns of `HybridSweep.observed`."""
        made, time = self.run, self.run.run.time
        pattern = self.slopes.manifest.of(SlopesManifest).patterns["observed_slopes"]
        states = np.array([made.run[x] for x in made.task.about.states])
        return made.sweep.observed(time, states, self.slopes.library, pattern, len(self.names))

    @cached_property
    def _pieces(self) -> NDArray[np.intp]:
        """Of each input the piece at each node, (m, N)."""
        return self.run.common.piece[:, self.run.sweep.segments(self.run.run.time)]

    def _columns(self, group: str) -> slice:
        """Of parameters "p", values "v" and slopes "s" of inputs."""
        about, m = self.run.task.about, len(self.run.task.inputs)
        n, r = len(about.states), len(about.parameters)
        first = {"p": n, "v": n + r, "s": n + r + m}[group]
        return slice(first, first + (r if group == "p" else m))

    def forward(
        self, wrt: Sequence[str], courses: Mapping[str, Mapping[str, SignalGradient]]
    ) -> dict[str, Array]:
        """Derivatives (P, N) of states and of what is observed; see `Sensitivities.forward`."""
        task, about = self.run.task, self.run.task.about
        along = self.run.forward(wrt, courses)
        change = np.zeros((len(self.run.run.time), self._slopes.shape[2], len(along.wrt)))
        for row, x in enumerate(about.states):
            change[:, row] = along[x].T
        for column, name in enumerate(wrt):
            if name in about.parameters:
                place = len(about.states) + about.parameters.index(name)
                change[:, place, column] = 1.0
        for column, moved in enumerate(courses.values(), start=len(wrt)):
            for i, (u, signal) in enumerate(task.inputs.items()):
                if u in moved:
                    k, (begin, value, slope) = self._pieces[i], moved[u].parts
                    now = value[k] - signal.coefficients[1, k] * begin[k]
                    change[:, self._columns("v").start + i, column] = now
                    change[:, self._columns("s").start + i, column] = slope[k]
        found = np.moveaxis(self._slopes @ change, 0, 2)
        return {**dict(along), **dict(zip(self.names, found, strict=True))}

    def gradient(self, weights: Mapping[str, Array]) -> HybridGradient:
        """Derivatives of a weighted sum (N,) of states and of what is observed."""
        task, about = self.run.task, self.run.task.about
        none = np.zeros(len(self.run.run.time))
        mine = np.array([weights.get(name, none) for name in self.names])
        rows = np.einsum("kn,nkl->ln", mine, self._slopes)
        of_states = {x: rows[i] + weights.get(x, none) for i, x in enumerate(about.states)}
        behind = self.run.gradient(of_states)
        direct = rows[self._columns("p")].sum(axis=1).tolist()
        parameters = {
            p: behind.parameters[p] + more for p, more in zip(about.parameters, direct, strict=True)
        }
        inputs = dict(behind.inputs)
        for i, (u, signal) in enumerate(task.inputs.items()):
            value, slope = (rows[self._columns(group).start + i] for group in ("v", "s"))
            k, count = self._pieces[i], len(signal.begin)
            v, s = (np.bincount(k, row, count) for row in (value, slope))
            begin, before, bend = inputs[u].parts
            inputs[u] = SignalGradient(begin - signal.coefficients[1] * v, before + v, bend + s)
        return HybridGradient(Named(parameters), behind.initial, inputs)
