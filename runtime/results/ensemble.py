"""Ensembles: many trajectories of one model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.results.event_log import EventLog, EventRecord, logs_as_variables, logs_of
from kinesym.runtime.results.files import save_result, saved_result
from kinesym.runtime.results.trajectory import (
    KINDS,
    RANGE,
    ByName,
    Drawing,
    Trajectory,
    drawing_attribute,
    drawing_of,
    named_row,
    ranges,
)
from kinesym.runtime.summary import html_table

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Failure:
    """A member that did not reach the end, and is NaN from there on, or grew beyond any plausible
    size: since when [s], and why."""

    member: int
    time: float
    message: str


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(ByName):
    """M trajectories over one time grid (N,): by name states, inputs and outputs, each (M, N).

    `runs["theta"]` is (M, N), `runs.member(k)` a `Trajectory`, `parameters` are (M,) by name;
    `"theta" in runs` asks for a name, while `for run in runs` and `len(runs)` are about members. A
    member that ended early is NaN from there on and listed in `failures`. Members of a system with
    events have an entry each in `event_logs`.
    """

    time: Array
    states: Mapping[str, Array]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    parameters: Mapping[str, Array]
    model: str = ""
    failures: Sequence[Failure] = ()
    drawing: Drawing = ()
    event_logs: Sequence[EventLog] = ()

    @property
    def members(self) -> int:
        """Number of members M."""
        groups = (self.states, self.inputs, self.outputs, self.parameters)
        return next((len(rows) for group in groups for rows in group.values()), 0)

    def __len__(self) -> int:
        return self.members

    def __getitem__(self, key: object) -> Array:
        return named_row(self, key)

    def keys(self) -> list[str]:
        """Names of states, inputs and outputs."""
        return [*self.states, *self.inputs, *self.outputs]

    def __iter__(self) -> Iterator[Trajectory]:
        return map(self.member, range(self.members))

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} ended early" if self.failures else ""
        span = f"t = {self.time[0]:g} ... {self.time[-1]:g} s"
        return (
            f"<ensemble of {self.model}: {self.members} members{failed}; "
            f"{len(self.time)} nodes, {span}>"
        )

    def _repr_html_(self) -> str:
        """A table of all trajectories for a notebook."""
        return html_table(repr(self)[1:-1], ranges(self), RANGE)

    def member(self, k: int) -> Trajectory:
        """The trajectory of member k, up to where it is valid."""
        if not -self.members <= k < self.members:
            raise IndexError(f"member {k} of {self.members}")
        failed = {f.member: f for f in self.failures}.get(k % self.members)
        end, log = len(self.time), self.event_logs[k] if self.event_logs else None
        if self.states:
            end -= int(np.isnan(next(iter(self.states.values()))[k]).sum())
        elif failed is not None:  # outputs may be NaN anywhere
            end = int(np.searchsorted(self.time, failed.time))
        groups = {
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
            event_log=log,
        )

    def happened(self, kind: str, name: str | None = None) -> list[list[EventRecord]]:
        """Of each member what happened of a kind, and of a contact or event; see `Trajectory`."""
        return [run.happened(kind, name) for run in self]

    def plot(self, title: str | None = None) -> Any:
        """A figure with one panel per trajectory: some members, and the band of 90 % of them."""
        from kinesym.runtime.results.plot import plot_ensemble

        return plot_ensemble(self, title=repr(self)[1:-1] if title is None else title)

    # -- files ------------------------------------------------------------------------------

    def to_xarray(self) -> xr.Dataset:
        """Everything over `member` and `time`; parameters over `member`, events over `event`."""
        import xarray as xr  # here: slow to import

        variables: dict[str, Any] = {}
        for kind in KINDS:
            for name, values in getattr(self, kind).items():
                variables[name] = (("member", "time"), values, {"kind": kind})
        for name, values in self.parameters.items():
            variables[f"parameter_{name}"] = ("member", values, {"kind": "parameters"})
        events, told = logs_as_variables(self.event_logs, list(self.states))
        attributes: dict[str, Any] = {"model": self.model, "ensemble": 1}
        attributes |= drawing_attribute(self.drawing)
        if self.failures:
            attributes["failed_members"] = [f.member for f in self.failures]
            attributes["failed_times"] = [f.time for f in self.failures]
            attributes["failures"] = "\n".join(f.message for f in self.failures)
        return xr.Dataset(variables | events, {"time": self.time}, attributes | told)

    @classmethod
    def from_xarray(cls, data: xr.Dataset) -> Ensemble:
        """What `to_xarray` made."""
        groups: dict[str, dict[str, Array]] = {k: {} for k in (*KINDS, "parameters")}
        for name, variable in data.data_vars.items():
            kind = variable.attrs["kind"]
            if kind not in groups:
                continue
            key = str(name).removeprefix("parameter_") if kind == "parameters" else str(name)
            groups[kind][key] = variable.to_numpy()
        failures: tuple[Failure, ...] = ()
        if "failures" in data.attrs:
            members = np.atleast_1d(data.attrs["failed_members"])
            times = np.atleast_1d(data.attrs["failed_times"])
            words = str(data.attrs["failures"]).split("\n")
            failures = tuple(
                Failure(int(k), float(t), text)
                for k, t, text in zip(members, times, words, strict=True)
            )
        return cls(
            data["time"].to_numpy(),
            **groups,
            model=str(data.attrs["model"]),
            failures=failures,
            drawing=drawing_of(data.attrs),
            event_logs=logs_of(data),
        )

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file; an older one stays until this one is whole."""
        save_result(self.to_xarray(), path)

    @classmethod
    def load(cls, path: str | Path) -> Ensemble:
        """Read what `save` wrote; raises `FileNotFoundError`, and `ValueError` if the file is
        damaged or something else."""
        with saved_result(path, "Ensemble") as tree:
            return cls.from_xarray(tree.to_dataset())
