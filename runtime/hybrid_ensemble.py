"""Many runs of one hybrid model, each with its own sequence of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.ensemble import Ensemble, Failure
from kinesym.runtime.hybrid_trajectory import Happening, HybridTrajectory
from kinesym.runtime.trajectory import KINDS, ByName

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HybridEnsemble(ByName):
    """M runs over one time grid (N,): `runs["theta"]` is (M, N), NaN after the end of a member that
    ended early, `runs.member(k)` is one run."""

    members: Sequence[HybridTrajectory]
    time: Array

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[HybridTrajectory]:
        return iter(self.members)

    def __getitem__(self, key: object) -> Array:
        return self.table[key]

    def keys(self) -> list[str]:
        """Names of states, inputs and outputs."""
        return self.table.keys()

    def __repr__(self) -> str:
        return f"<hybrid {repr(self.table)[1:-1]}>"

    def _repr_html_(self) -> str:
        """A table of all trajectories for a notebook."""
        return self.table._repr_html_()

    def member(self, k: int) -> HybridTrajectory:
        """One run."""
        return self.members[k]

    def happened(self, kind: str, name: str | None = None) -> list[list[Happening]]:
        """Of each member what happened of a kind, and of a contact or event."""
        return [run.happened(kind, name) for run in self.members]

    @cached_property
    def table(self) -> Ensemble:
        """The trajectories without events, which can plot and save itself."""
        first = self.members[0].run
        groups: dict[str, Any] = {
            kind: {
                name: np.array([self._padded(run.run[name]) for run in self.members])
                for name in getattr(first, kind)
            }
            for kind in KINDS
        }
        failures = [
            Failure(k, run.final.time, run.message)
            for k, run in enumerate(self.members)
            if run.message
        ]
        parameters = {
            name: np.array([run.run.parameters[name] for run in self.members])
            for name in first.parameters
        }
        return Ensemble(
            self.time,
            **groups,
            parameters=parameters,
            model=first.model,
            failures=failures,
            drawing=first.drawing,
        )

    def _padded(self, row: Array) -> Array:
        return np.append(row, np.full(len(self.time) - len(row), np.nan))

    def plot(self, title: str = "") -> Any:
        """A figure with one panel per trajectory: members, median and band."""
        return self.table.plot(title)
