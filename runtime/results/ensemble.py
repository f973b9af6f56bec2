"""Ensembles: many trajectories of one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.event_log import EventLog, EventRecord
from kinesym.runtime.results.plot import panels
from kinesym.runtime.results.saved import UNSAVED
from kinesym.runtime.results.step_error import EnsembleError, Finer, error_of_ensemble
from kinesym.runtime.results.trajectory import KINDS, Drawing, OverTime, Series, Trajectory

Rows: TypeAlias = Annotated[Array, "member", "time"]


@dataclass(frozen=True)
class Failure:
    """Failure of a member, its time [s] and message: it ended early, and is NaN from there on, grew
    beyond any plausible size, or passed a singular configuration."""

    member: int
    time: float
    message: str


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Series):
    """Ensemble of M trajectories over one time grid (N,): by name states, inputs and outputs, (M,
    N) each.

    `runs["theta"]` is (M, N), `runs.member(k)` a `Trajectory`, `parameters` are (M,) by name;
    `"theta" in runs` asks for a name, while `for run in runs` and `len(runs)` are about members. A
    member that ended early is NaN from there on and listed in `failures`. Members of a system with
    events have an entry each in `event_logs`.
    """

    time: OverTime
    states: Mapping[str, Rows]
    inputs: Mapping[str, Rows]
    outputs: Mapping[str, Rows]
    parameters: Mapping[str, Annotated[Array, "member"]]
    model: str = ""
    failures: Sequence[Failure] = ()
    drawing: Drawing = ()
    event_logs: Sequence[EventLog] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    again: Callable[[], Finer] | None = field(default=None, metadata=UNSAVED)

    @property
    def members(self) -> int:
        """Number of members M."""
        groups = (self.states, self.inputs, self.outputs, self.parameters)
        return next((len(rows) for group in groups for rows in group.values()), 0)

    def __len__(self) -> int:
        return self.members

    def __iter__(self) -> Iterator[Trajectory]:
        return map(self.member, range(self.members))

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} ended early" if self.failures else ""
        span = f"t = {self.time[0]:g} ... {self.time[-1]:g} s"
        return (
            f"<ensemble of {self.model}: {self.members} members{failed}; "
            f"{len(self.time)} nodes, {span}>"
        )

    def member(self, k: int) -> Trajectory:
        """Trajectory of member k, up to the end of its valid part."""
        if not -self.members <= k < self.members:
            raise IndexError(f"member {k} of {self.members}")
        failed = {f.member: f for f in self.failures}.get(k % self.members)
        end, log = len(self.time), self.event_logs[k] if self.event_logs else None
        if self.states:
            end -= int(np.isnan(next(iter(self.states.values()))[k]).sum())
        elif failed is not None:  # outputs may be NaN anywhere
            end = int(np.searchsorted(self.time, failed.time))
        groups: dict[str, Any] = {
            kind: {name: values[k, :end] for name, values in getattr(self, kind).items()}
            for kind in KINDS
        }
        return Trajectory(
            time=self.time[:end],
            **groups,
            parameters={name: float(values[k]) for name, values in self.parameters.items()},
            model=self.model,
            message=failed.message if failed else "",
            drawing=self.drawing,
            units=self.units,
            event_log=log,
        )

    def happened(self, kind: str, name: str | None = None) -> list[list[EventRecord]]:
        """Events of a kind, and of a contact or event, for each member; see `Trajectory`."""
        return [run.happened(kind, name) for run in self]

    def error(self) -> EnsembleError:
        """Error estimate of the steps of all members; see `Trajectory.error`."""
        return error_of_ensemble(self, self._finer())

    def plot(self, title: str | None = None, shown: int = 30) -> Any:
        """Figure with one panel per trajectory: up to `shown` members, median and band of 90 %.
        Members that ended early are shown, but count only if all did."""
        whole = sorted(set(range(len(self))) - {failure.member for failure in self.failures})
        members = np.unique(np.linspace(0, len(self) - 1, min(shown, len(self))).astype(int))
        figure, axes = panels(self.keys(), repr(self)[1:-1] if title is None else title, self.units)
        for axis, (name, values) in zip(axes, self.items(), strict=True):
            colour = self._colour(name)
            kept = values[whole] if len(whole) else np.where(np.isfinite(values), values, np.nan)
            some = np.isfinite(kept).any(axis=0)
            low, middle, high = np.nanpercentile(kept[:, some], (5, 50, 95), axis=0)
            axis.fill_between(self.time[some], low, high, color=colour, alpha=0.2, lw=0)
            axis.plot(self.time, values[members].T, lw=0.5, color=colour, alpha=0.4)
            axis.plot(self.time[some], middle, lw=1.5, color=colour)
            if self.failures:  # diverging members would hide the others
                bottom, top = np.nanmin(kept), np.nanmax(kept)
                margin = 0.05 * (top - bottom) or 1.0
                axis.set_ylim(bottom - margin, top + margin)
        return figure
