"""Vector of the unknowns of shooting:

q = [parameters, unknown initial states of each trial, states at the inner segment boundaries of
     each trial (multiple shooting), samples of unknown inputs of each trial].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.owned import Owned

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Unknowns:
    """Names and places in q.

    owned : the parameters. initial : states whose initial value is unknown. segments : per trial
    the nodes at which a segment begins, the first one 0. nodes : N of each trial.
    """

    states: tuple[str, ...]
    owned: Owned
    initial: tuple[str, ...]
    inputs: tuple[str, ...]
    segments: tuple[tuple[int, ...], ...]
    nodes: tuple[int, ...]

    @cached_property
    def offsets(self) -> dict[tuple[str, int], int]:
        """Offset of each group in q: ("initial" | "segments" | "inputs", trial)."""
        begin, places = len(self.parameters), {}
        for group, sizes in (
            ("initial", [len(self.initial)] * len(self.nodes)),
            ("segments", [(len(s) - 1) * len(self.states) for s in self.segments]),
            ("inputs", [len(self.inputs) * N for N in self.nodes]),
        ):
            for trial, size in enumerate(sizes):
                places[group, trial] = begin
                begin += size
        places["end", 0] = begin
        return places

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknown parameters, with their owners."""
        return self.owned.names

    @property
    def size(self) -> int:
        """Length of q."""
        return self.offsets["end", 0]

    @property
    def several(self) -> bool:
        """Whether there are several segments."""
        return any(len(begins) > 1 for begins in self.segments)

    def starts(self, trial: int) -> slice:
        """Unknown initial states of a trial."""
        begin = self.offsets["initial", trial]
        return slice(begin, begin + len(self.initial))

    def boundaries(self, trial: int) -> slice:
        """States at the inner segment boundaries of a trial, (boundaries, n)."""
        begin = self.offsets["segments", trial]
        return slice(begin, begin + (len(self.segments[trial]) - 1) * len(self.states))

    @property
    def inner(self) -> slice:
        """States at the inner segment boundaries of all trials, which follow from the others."""
        return slice(self.offsets["segments", 0], self.offsets["inputs", 0])

    def samples(self, trial: int) -> slice:
        """Samples of the unknown inputs of a trial, (inputs, N)."""
        begin = self.offsets["inputs", trial]
        return slice(begin, begin + len(self.inputs) * self.nodes[trial])

    def initial_values(self, q: Array) -> dict[str, Any]:
        """Unknown initial states by name: a number, or a list with one per trial."""
        rows = np.array([q[self.starts(k)] for k in range(len(self.nodes))])
        return {
            x: row.tolist() if len(row) > 1 else float(row[0])
            for x, row in zip(self.initial, rows.T, strict=True)
        }

    @cached_property
    def _entries(self) -> list[tuple[str, str]]:
        """Origin and name of each entry of q."""
        many = len(self.nodes) > 1
        ofs = [f" of trial {k}" if many else "" for k in range(len(self.nodes))]
        entries = list(zip(self.owned.members, self.owned.names, strict=True))
        entries += [(x, f"{x}(0){of}") for of in ofs for x in self.initial]
        for of, begins in zip(ofs, self.segments, strict=True):
            entries += [(x, f"{x} at node {i}{of}") for i in begins[1:] for x in self.states]
        for of, N in zip(ofs, self.nodes, strict=True):
            entries += [(u, f"{u} at node {i}{of}") for u in self.inputs for i in range(N)]
        return entries

    @cached_property
    def names(self) -> list[str]:
        """Names of the entries of q."""
        return [name for _, name in self._entries]

    @cached_property
    def origins(self) -> list[str]:
        """Parameter, state or input to which each entry of q belongs."""
        return [owner for owner, _ in self._entries]

    def numbers(self, values: Mapping[str, Any]) -> Array | None:
        """q from values by name, where each entry has a finite number; else None."""
        pairs = zip(self.names, self.origins, strict=True)
        found = [values.get(name, values.get(origin)) for name, origin in pairs]
        plain = all(isinstance(v, float | int) and not isinstance(v, bool) for v in found)
        if self.several or not plain or not np.isfinite(found).all():
            return None
        return np.array(found, dtype=float)

    def gathered(self, layout: Layout, z: Array) -> Array:
        """q from all trajectories and the parameters."""
        q = np.zeros(self.size)
        q[: len(self.parameters)] = layout.parameter_values(z)
        rows, n = [self.states.index(x) for x in self.initial], len(self.states)
        for k, begins in enumerate(self.segments):
            trajectories = layout.trajectories(z, k)
            q[self.starts(k)] = trajectories[rows, 0]
            q[self.boundaries(k)] = trajectories[:n, begins[1:]].T.ravel()
            q[self.samples(k)] = trajectories[n:].ravel()
        return q

    def bounds(
        self, named: Mapping[str, Bounds], starts: Mapping[str, Sequence[Bounds]]
    ) -> tuple[Array, Array]:
        """Lower and upper bounds of q from those of parameters and inputs, and of initial states in
        each trial; states at inner boundaries are free."""
        sides = []
        for side, free in ((0, -np.inf), (1, np.inf)):
            q = np.full(self.size, free)
            q[: len(self.parameters)] = [named[p][side] for p in self.owned.members]
            for k, N in enumerate(self.nodes):
                q[self.starts(k)] = [starts[x][k][side] for x in self.initial]
                q[self.samples(k)] = np.repeat([named[u][side] for u in self.inputs], N)
            sides.append(q)
        return sides[0], sides[1]


def segment_starts(nodes: int, count: int) -> tuple[int, ...]:
    """The nodes at which segments begin."""
    if count >= nodes:
        raise ValueError(f"{count} segments need more than {nodes} nodes")
    return tuple(int(k) for k in np.linspace(0, nodes - 1, count + 1)[:-1])
