"""Trajectories: what simulation returns, and what a solution holds for each trial."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import real_array
from kinesym.runtime.results.event_log import (
    EventLog,
    EventRecord,
    HybridState,
    logs_as_variables,
    logs_of,
)
from kinesym.runtime.results.files import replacing, save_result, saved_result
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.summary import html_table, listed

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

#: Lines of a stick figure, each from point to point; a point `knee` is at outputs `knee_x`, ...
Drawing: TypeAlias = Sequence[Sequence[str]]

#: So many events are shown in a notebook.
_SHOWN = 20

#: Groups of trajectories of a result
KINDS = ("states", "inputs", "outputs")


def drawing_attribute(drawing: Drawing) -> dict[str, str]:
    """The lines of a stick figure as an attribute of a file, if there are any."""
    return {"drawing": json.dumps([list(line) for line in drawing])} if drawing else {}


def drawing_of(attributes: Mapping[Any, Any]) -> Drawing:
    """What `drawing_attribute` made."""
    return tuple(map(tuple, json.loads(attributes.get("drawing", "[]"))))


class Named(dict[str, float]):
    """Values by name, which can be asked for by symbol too."""

    def __getitem__(self, key: object) -> float:
        return super().__getitem__(key_name(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(getattr(key, "name", key))


def named_row(result: Any, key: object) -> Array:
    """A state, input or output of a result by symbol or name; `KeyError` lists what there is."""
    name = key_name(key)
    for kind in KINDS:
        group: Mapping[str, Array] = getattr(result, kind)
        if name in group:
            return group[name]
    known = [*result.states, *result.inputs, *result.outputs]
    raise KeyError(f"{name} is no trajectory here; there are {', '.join(known)}")


#: Columns of the table that `ranges` makes.
RANGE = ("name", "kind", "smallest", "largest")


def ranges(result: Any) -> list[tuple[str, ...]]:
    """Of each trajectory of a result its range, as text."""
    table: list[tuple[str, ...]] = []
    for kind in KINDS:
        for name, values in getattr(result, kind).items():
            known = values[~np.isnan(values)]
            low, high = (known.min(), known.max()) if len(known) else (np.nan, np.nan)
            table.append((name, kind.removesuffix("s"), f"{low:.6g}", f"{high:.6g}"))
    return table


class ByName:
    """Arrays by name or symbol: `"x" in run`, `for name in run`, `dict(run)`, `len(run)`."""

    def __getitem__(self, key: object) -> Array:
        raise NotImplementedError

    def keys(self) -> list[str]:
        """Names of all that `[...]` gives."""
        raise NotImplementedError

    def items(self) -> list[tuple[str, Array]]:
        """Names with arrays."""
        return [(name, self[name]) for name in self.keys()]

    def __contains__(self, key: object) -> bool:
        return (isinstance(key, str) or hasattr(key, "name")) and key_name(key) in self.keys()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(ByName):
    """Trajectories over time (N,): by name states, inputs and outputs, each (N,).

    `run["theta"]` or `run[theta]` is one of them, and `for name in run` goes through all. In the
    solution of an identification there are also the measurements (NaN where missing) and their
    standard deviations. `message` says why a simulation ended early, or grew beyond any plausible
    size; it is empty otherwise. Where an event happens at a node, the values there are those after
    it.

    Of a system with events and contacts, `events` is what happened, in order, and the inputs hold
    modes and contact forces too; of a smooth one `events` is empty. `final` is where the run ended:
    `initial` of another simulation that goes on as if this one had not ended.
    """

    time: Array
    states: Mapping[str, Array]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    parameters: Mapping[str, float]
    model: str = ""
    measurements: Mapping[str, Array] = field(default_factory=dict)
    std: Mapping[str, Array] = field(default_factory=dict)
    message: str = ""
    drawing: Drawing = ()
    event_log: EventLog | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", Named(self.parameters))

    def __getitem__(self, key: object) -> Array:
        return named_row(self, key)

    def keys(self) -> list[str]:
        """Names of states, inputs and outputs."""
        return [*self.states, *self.inputs, *self.outputs]

    def __repr__(self) -> str:
        span = f"t = {self.time[0]:g} ... {self.time[-1]:g} s" if len(self.time) else "none reached"
        events = f"; {len(self.events)} events" if self.event_log else ""
        told = f"{listed(self)}; {len(self.time)} nodes, {span}{events}"
        return f"<trajectory of {self.model}: {told}>"

    def _repr_html_(self) -> str:
        """Tables of all trajectories and of the first events for a notebook."""
        message = f"; {self.message}" if self.message else ""
        table = html_table(f"{repr(self)[1:-1]}{message}", ranges(self), RANGE)
        rows = [(f"{e.time:.9g}", e.kind, e.name) for e in self.events[:_SHOWN]]
        if not rows:
            return table
        return table + html_table(f"events: {len(self.events)}", rows, ("time [s]", "kind", "of"))

    # -- events -----------------------------------------------------------------------------

    @property
    def log(self) -> tuple[EventRecord, ...]:
        """What happened, in order, with the breaks of inputs."""
        return self.event_log.entries if self.event_log else ()

    @property
    def events(self) -> tuple[EventRecord, ...]:
        """What happened, in order, without the breaks of inputs."""
        return self.event_log.events if self.event_log else ()

    @property
    def contacts(self) -> tuple[str, ...]:
        """Names of the contacts of the system."""
        return self.event_log.contacts if self.event_log else ()

    @property
    def pressed(self) -> tuple[str, ...]:
        """Names of the contacts that pressed at the start."""
        return self.event_log.pressed if self.event_log else ()

    @property
    def final(self) -> HybridState:
        """Where the run ended, to go on from."""
        if self.event_log:
            return self.event_log.final
        return HybridState(
            float(self.time[-1]), np.array([row[-1] for row in self.states.values()])
        )

    @property
    def work(self) -> tuple[int, int, int]:
        """Steps taken, steps rejected, evaluations of x', where they were counted."""
        return self.event_log.work if self.event_log else (0, 0, 0)

    def happened(self, kind: str, name: str | None = None) -> list[EventRecord]:
        """What happened of a kind ("impact", "close", "release", "slide", "event" or "clock"), and
        of a contact or event. Raises `ValueError` for an unknown kind, contact or event."""
        return self._events_or_none.happened(kind, name)

    def pressing(self, contact: str) -> list[tuple[float, float]]:
        """From when to when a contact presses [s]; raises `ValueError` for an unknown contact."""
        log = self._events_or_none
        return log.pressing(contact, float(self.time[0]) if len(self.time) else log.final.time)

    @property
    def _events_or_none(self) -> EventLog:
        return self.event_log or EventLog((), self.final)

    def vector(self, name: str) -> Array:
        """Components `name_x`, `name_y` and, if there is one, `name_z` as (3, N) or (2, N)."""
        rows = [self[f"{name}_x"], self[f"{name}_y"]]
        known = {**self.states, **self.inputs, **self.outputs}
        return np.array([*rows, known[f"{name}_z"]] if f"{name}_z" in known else rows)

    def between(self, begin: float, end: float) -> Trajectory:
        """The part with begin <= t <= end [s]; raises `ValueError` if no node is there."""
        begin, end = float(real_array(begin, "begin")), float(real_array(end, "end"))
        here = (self.time >= begin) & (self.time <= end)
        if not here.any():
            raise ValueError(
                f"no node is between {begin:g} and {end:g} s; the trajectory covers "
                f"{self.time[0]:g} ... {self.time[-1]:g} s"
            )
        groups: dict[str, Any] = {
            kind: {name: row[here] for name, row in getattr(self, kind).items()}
            for kind in (*KINDS, "measurements", "std")
        }
        return replace(self, time=self.time[here], **groups)

    def vaf(self) -> dict[str, float]:
        """Variance accounted for [%] of each measurement: 100 (1 - var(residual)/var(measured))."""
        result = {}
        for name, measured in self.measurements.items():
            here = ~np.isnan(measured)
            variance = np.var(measured[here])
            if variance > 0:
                rest = np.var(measured[here] - self[name][here])
                result[name] = float(100.0 * (1.0 - rest / variance))
        return result

    def plot(self, names: Sequence[Any] | None = None, title: str | None = None) -> Any:
        """A figure with one panel per trajectory, or those of these names; measurements as dots, a
        line at each impact, release, slide and event."""
        from kinesym.runtime.results.plot import plot_trial

        return plot_trial(self, self.model if title is None else title, names)

    def plot_modes(self) -> Any:
        """A figure with a bar per contact while it presses, and a mark per impact and event."""
        from kinesym.runtime.results.plot import plot_modes

        return plot_modes(self)

    def animate(
        self, path: str | Path, fps: float = 25.0, speed: float = 1.0, up: str = "z"
    ) -> Path:
        """A moving stick figure as a .gif or .html file; see `runtime.results.animate.animate`."""
        from kinesym.runtime.results.animate import animate

        return animate(self, Path(path), fps, speed, up)

    # -- files ------------------------------------------------------------------------------

    def to_xarray(self) -> xr.Dataset:
        """Everything over `time`, measured ones as `measured_...`, events over `event`; parameters
        as attributes."""
        import xarray as xr  # here: slow to import

        variables: dict[str, Any] = {}
        for kind in KINDS:
            for name, values in getattr(self, kind).items():
                variables[name] = ("time", values, {"kind": kind})
        for name, values in self.measurements.items():
            variables[f"measured_{name}"] = ("time", values, {"kind": "measurements"})
            variables[f"std_{name}"] = ("time", self.std[name], {"kind": "std"})
        attributes: dict[str, Any] = {"model": self.model, "message": self.message}
        attributes |= drawing_attribute(self.drawing)
        attributes.update({f"parameter_{k}": v for k, v in self.parameters.items()})
        events, told = logs_as_variables(
            [self.event_log] if self.event_log else [], list(self.states)
        )
        variables, attributes = variables | events, attributes | told
        return xr.Dataset(variables, {"time": self.time}, attributes)

    @classmethod
    def from_xarray(cls, data: xr.Dataset) -> Trajectory:
        """What `to_xarray` made."""
        groups: dict[str, dict[str, Array]] = {k: {} for k in (*KINDS, "measurements", "std")}
        prefix = {"measurements": "measured_", "std": "std_"}
        for name, variable in data.data_vars.items():
            kind = variable.attrs["kind"]
            if kind in groups:
                groups[kind][str(name).removeprefix(prefix.get(kind, ""))] = variable.to_numpy()
        parameters = {
            str(k).removeprefix("parameter_"): float(v)
            for k, v in data.attrs.items()
            if str(k).startswith("parameter_")
        }
        return cls(
            data["time"].to_numpy(),
            **groups,
            parameters=parameters,
            model=str(data.attrs["model"]),
            message=str(data.attrs.get("message", "")),
            drawing=drawing_of(data.attrs),
            event_log=next(iter(logs_of(data)), None),
        )

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file; an older one stays until this one is whole."""
        save_result(self.to_xarray(), path)

    def to_csv(self, path: str | Path) -> None:
        """Write columns with a line of names, in all digits: time [s], states, inputs and outputs,
        then `measured_...` and `std_...` of what was measured, NaN where it is missing."""
        rows = {"time": self.time, **self}
        for name, values in self.measurements.items():
            rows |= {f"measured_{name}": values, f"std_{name}": self.std[name]}
        names = io.StringIO()
        csv.writer(names, lineterminator="").writerow(rows)  # a name may hold a comma
        with replacing(path) as beside:
            np.savetxt(
                beside,
                np.column_stack(list(rows.values())),
                fmt="%.17g",
                delimiter=",",
                header=names.getvalue(),
                comments="",
                encoding="utf-8",
            )

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Read what `save` wrote; raises `FileNotFoundError`, and `ValueError` if the file is
        damaged or something else."""
        with saved_result(path, "Trajectory") as tree:
            return cls.from_xarray(tree.to_dataset())


class Trials(ByName):
    """A result with trajectories of several trials: of the first one by name, and pictures."""

    trials: Sequence[Trajectory]

    def __getitem__(self, key: object) -> Array:
        return self.trials[0][key]

    def keys(self) -> list[str]:
        """Names of states, inputs and outputs."""
        return self.trials[0].keys()

    @property
    def time(self) -> Array:
        """Time grid of the first trial [s]."""
        return self.trials[0].time

    def vaf(self) -> dict[str, float]:
        """Variance accounted for [%] of each measurement, of the first trial."""
        return self.trials[0].vaf()

    @property
    def _title(self) -> str:
        raise NotImplementedError

    def plot(self, trial: int = 0, names: Sequence[Any] | None = None) -> Any:
        """A figure of a trial over time, of all trajectories or those of these names; measurements
        as dots."""
        return self.trials[trial].plot(names, self._title)

    def animate(
        self,
        path: str | Path,
        fps: float = 25.0,
        speed: float = 1.0,
        up: str = "z",
        trial: int = 0,
    ) -> Path:
        """A moving stick figure of a trial as a .gif or .html file; see `Trajectory.animate`."""
        return self.trials[trial].animate(path, fps, speed, up)
