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
from kinesym.runtime.stepping.hybrid_sensitivity import (
    HybridGradient,
    InputGradients,
    Sensitivities,
    summed,
)


@dataclass(frozen=True, eq=False)
class Observed:
    """Sensitivities of outputs, inputs and contact forces (`names`) beside those of states.

    At a node they depend on the state there, on parameters, and on the pieces of inputs.
    slopes : of `observed_program`, see `codegen.switching`.
    """

    names: Sequence[str]
    slopes: Built
    run: Sensitivities

    @cached_property
    def _slopes(self) -> Array:
        """Derivatives of outputs at the nodes, (N, k, L), columns as of `HybridSweep.observed`."""
        made, time = self.run, self.run.run.time
        pattern = self.slopes.manifest.of(SlopesManifest).patterns["observed_slopes"]
        states = np.array([made.run[x] for x in made.raw.ivp.about.states])
        return made.sweep.observed(time, states, self.slopes.library, pattern, len(self.names))

    @cached_property
    def _pieces(self) -> NDArray[np.intp]:
        """Number of the piece of each input at each node, (m, N)."""
        return self.run.common.piece[:, self.run.sweep.segments(self.run.run.time)]

    def _columns(self, group: str) -> slice:
        """Of parameters "p", values "v" and slopes "s" of inputs."""
        about, m = self.run.raw.ivp.about, len(self.run.raw.ivp.inputs)
        n, r = len(about.states), len(about.parameters)
        first = {"p": n, "v": n + r, "s": n + r + m}[group]
        return slice(first, first + (r if group == "p" else m))

    def forward(
        self, wrt: Sequence[str], variations: Mapping[str, Mapping[str, SignalGradient]]
    ) -> dict[str, Array]:
        """Derivatives (P, N) of states and of what is observed; see `Sensitivities.forward`."""
        ivp, about = self.run.raw.ivp, self.run.raw.ivp.about
        along = self.run.forward(wrt, variations)
        change = np.zeros((len(self.run.run.time), self._slopes.shape[2], len(along.wrt)))
        for row, x in enumerate(about.states):
            change[:, row] = along[x].T
        for column, name in enumerate(wrt):
            if name in about.parameters:
                place = len(about.states) + about.parameters.index(name)
                change[:, place, column] = 1.0
        for column, moved in enumerate(variations.values(), start=len(wrt)):
            for i, (u, signal) in enumerate(ivp.inputs.items()):
                if u in moved:
                    for group, values in zip("vs", moved[u].at_breaks(signal), strict=True):
                        place = self._columns(group).start + i
                        change[:, place, column] = values[self._pieces[i]]
        found = np.moveaxis(self._slopes @ change, 0, 2)
        return {**dict(along), **dict(zip(self.names, found, strict=True))}

    def gradient(self, weights: Mapping[str, Array]) -> HybridGradient:
        """Derivatives of a weighted sum (N,) of states and of what is observed."""
        ivp, about = self.run.raw.ivp, self.run.raw.ivp.about
        none = np.zeros(len(self.run.run.time))
        mine = np.array([weights.get(name, none) for name in self.names])
        rows = np.einsum("kn,nkl->ln", mine, self._slopes)
        of_states = {x: rows[i] + weights.get(x, none) for i, x in enumerate(about.states)}
        behind = self.run.gradient(of_states)
        direct = rows[self._columns("p")].sum(axis=1).tolist()
        parameters = {
            p: behind.parameters[p] + more for p, more in zip(about.parameters, direct, strict=True)
        }
        inputs = InputGradients()
        for i, (u, signal) in enumerate(ivp.inputs.items()):
            if u in behind.inputs:
                here = (rows[self._columns(group).start + i] for group in "vs")
                parts = (summed(self._pieces[i], row, len(signal.begin)) for row in here)
                seen = SignalGradient.of_breaks(signal, np.zeros(1), *parts)
                both = zip(behind.inputs[u].parts, seen.parts, strict=True)
                inputs[u] = SignalGradient(*(a + b for a, b in both))
        return HybridGradient(Named(parameters), behind.initial, inputs)
