"""Trajectories: the result of a simulation, and of each trial of a solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import numpy as np

from kinesym.base.checks import suggest
from kinesym.base.notebook import html_table, with_unit
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.results.animate import animate
from kinesym.runtime.results.event_log import KINDS as EVENT_KINDS
from kinesym.runtime.results.event_log import EventLog, EventRecord, HybridState, check_known
from kinesym.runtime.results.files import write_columns
from kinesym.runtime.results.plot import chosen, panels, plain, subplots
from kinesym.runtime.results.saved import UNSAVED, R, Saved, read_dataset
from kinesym.runtime.results.step_error import Finer, StepError, error_of_run
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.summary import listed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

OverTime: TypeAlias = Annotated[Array, "time"]

#: Columns of a table with a row per sample.
SampleTable: TypeAlias = Mapping[str, Annotated[Array, "sample"]]

#: Columns of a table with a row per estimated value before the start.
PastTable: TypeAlias = Mapping[str, Annotated[Array, "past"]]

#: Lines of a stick figure, each from point to point; a point `knee` is at outputs `knee_x`, ...
Drawing: TypeAlias = Sequence[Sequence[str]]

#: Events that are shown in a notebook at most.
_SHOWN = 20

#: Groups of trajectories of a result.
KINDS = ("states", "inputs", "outputs")


class Timed(NamedTuple):
    """Samples of a measurement at times of its own, model values there, and standard deviations,
    NaN if not known: (K,) each."""

    time: Array
    measured: Array
    modelled: Array
    std: Array


def _finer_between(again: Callable[[], Finer], begin: float, end: float) -> Finer:
    """Repetition of a run, with the events of a part of it."""
    finer = again()
    log = finer.run.event_log
    mine = tuple(e for e in log.entries if begin <= e.time <= end)
    return finer._replace(run=replace(finer.run, event_log=replace(log, entries=mine)))


class Values(dict[str, float]):
    """Values by name or by symbol."""

    def __getitem__(self, key: object) -> float:
        return super().__getitem__(key_name(key))

    def __missing__(self, key: str) -> float:
        owned = [name for name in self if name.startswith(f"{key}[")]
        words = f"it has a value per owner, {listed(owned, 4)}" if owned else suggest(key, self)
        raise KeyError(f"there is no {key}; {words}")

    def __contains__(self, key: object) -> bool:
        return super().__contains__(getattr(key, "name", key))


class ByName:
    """Mapping of arrays by name or symbol: `"x" in run`, `for name in run`, `dict(run)`,
    `len(run)`."""

    def __getitem__(self, key: object) -> Array:
        raise NotImplementedError

    def keys(self) -> list[str]:
        """Names of all arrays."""
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


class Series(ByName, Saved):
    """Result with states, inputs and outputs by name; again : simulates it with finer steps."""

    states: Mapping[str, Array]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    units: Mapping[str, str]
    again: Callable[[], Finer] | None

    def __getitem__(self, key: object) -> Array:
        name = key_name(key)
        for kind in KINDS:
            group: Mapping[str, Array] = getattr(self, kind)
            if name in group:
                return group[name]
        raise KeyError(f"{name} is no trajectory here; there are {', '.join(self.keys())}")

    def keys(self) -> list[str]:
        """Names of states, inputs and outputs."""
        return [*self.states, *self.inputs, *self.outputs]

    @classmethod
    def from_xarray(cls: type[R], data: xr.Dataset) -> R:
        """Result from a dataset that `to_xarray` made; raises `ValueError` for any other
        dataset."""
        return read_dataset(cls, data)

    def _finer(self) -> Finer:
        """Repetition with finer steps; raises `ValueError` if it cannot be simulated again."""
        if self.again is None:
            raise ValueError(
                "this cannot be simulated again with finer steps: only what ks.simulate returns "
                "can, in the same program, before it is saved, copied or split into members; its "
                "error() can be saved beside it. The error of a solution is in grid_error()"
            )
        return self.again()

    def _colour(self, name: str) -> str:
        return "C0" if name in self.states else "C1" if name in self.inputs else "C2"

    def _repr_html_(self) -> str:
        """Table for a notebook: the range of each trajectory."""
        rows = []
        for kind in KINDS:
            for name, values in getattr(self, kind).items():
                known = values[~np.isnan(values)]
                low, high = (known.min(), known.max()) if len(known) else (np.nan, np.nan)
                rows.append(
                    (
                        with_unit(name, self.units),
                        kind.removesuffix("s"),
                        f"{low:.6g}",
                        f"{high:.6g}",
                    )
                )
        return html_table(repr(self)[1:-1], rows, ("name", "kind", "smallest", "largest"))


#: Standard deviation below which a measurement is constant, as a share of its size.
_CONSTANT = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Series):
    """Trajectories over time (N,): by name states, inputs and outputs, each (N,).

    `run["theta"]` or `run[theta]` is one of them, and `for name in run` iterates over all names.
    The solution of an identification also has the measurements (NaN where missing) and their
    standard deviations; those at times of their own are in `samples`, columns "channel", "time",
    "measured", "modelled" and "std" with a row per sample, and by channel in `timed`. `message`
    says why a simulation ended early, or grew beyond any plausible size; it is empty otherwise.
    `interrupted` tells whether Ctrl-C ended it. `limits` are channels of censored samples, whose
    samples are limits: -1 if what was measured is below, 1 if above.
    Estimated values before the start, if they were unknown, are in `before`, columns "signal",
    "time" and "value", and by signal in `history_of`. If an event happens at a node, the values
    there are those after it.

    `events` of a system with events and contacts are its events, in order, and the inputs hold
    modes and contact forces too; for a smooth system `events` is empty. `final` is the state at the
    end: `initial` of another simulation that continues as if this one had not ended.
    """

    time: OverTime
    states: Mapping[str, OverTime]
    inputs: Mapping[str, OverTime]
    outputs: Mapping[str, OverTime]
    parameters: Mapping[str, float]
    model: str = ""
    measurements: Mapping[str, OverTime] = field(default_factory=dict)
    std: Mapping[str, OverTime] = field(default_factory=dict)
    message: str = ""
    drawing: Drawing = ()
    event_log: EventLog | None = field(default=None, repr=False)
    again: Callable[[], Finer] | None = field(default=None, metadata=UNSAVED)
    samples: SampleTable = field(default_factory=dict)
    before: PastTable = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", Values(self.parameters))

    def __repr__(self) -> str:
        span = f"t = {self.time[0]:g} ... {self.time[-1]:g} s" if len(self.time) else "none reached"
        events = f"; {len(self.events)} events" if self.event_log else ""
        message = f"; {self.message}" if self.message else ""
        told = f"{listed(self)}; {len(self.time)} nodes, {span}{events}{message}"
        return f"<trajectory of {self.model}: {told}>"

    def _repr_html_(self) -> str:
        """Tables of all trajectories and of the first events for a notebook."""
        table = super()._repr_html_()
        rows = [(f"{e.time:.9g}", e.kind, e.name) for e in self.events[:_SHOWN]]
        if not rows:
            return table
        return table + html_table(f"events: {len(self.events)}", rows, ("time [s]", "kind", "of"))

    # -- events -----------------------------------------------------------------------------

    @property
    def log(self) -> tuple[EventRecord, ...]:
        """Event log: all entries in order, breaks of inputs included."""
        return self.event_log.entries if self.event_log else ()

    @property
    def events(self) -> tuple[EventRecord, ...]:
        """Events in order, without breaks of inputs."""
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
        """Final state of the run, `initial` of a continuation."""
        if self.event_log:
            return self.event_log.final
        return HybridState(
            float(self.time[-1]), np.array([row[-1] for row in self.states.values()])
        )

    @property
    def work(self) -> tuple[int, int, int]:
        """Steps taken, steps rejected, evaluations of x', if they were counted."""
        return self.event_log.work if self.event_log else (0, 0, 0)

    def happened(self, kind: str, name: str | None = None) -> list[EventRecord]:
        """Events of a kind ("impact", "close", "release", "slide", "event" or "clock"), and of a
        contact or event. Raises `ValueError` for an unknown kind, contact or event."""
        check_known(kind, EVENT_KINDS, "kind")
        if name is not None:
            events = self.event_log.named if self.event_log else ()
            check_known(name, (*self.contacts, *events), "contact or event")
        return [e for e in self.log if e.kind == kind and name in (None, e.name)]

    def pressing(self, contact: str) -> list[tuple[float, float]]:
        """Time spans (begin, end) in which a contact presses [s]; raises `ValueError` for an
        unknown contact."""
        check_known(contact, self.contacts, "contact")
        assert self.event_log is not None
        start = float(self.time[0]) if len(self.time) else self.final.time
        return self.event_log.pressing(contact, start)

    @cached_property
    def timed(self) -> dict[str, Timed]:
        """Measurements at times of their own, by name."""
        channels = self.samples.get("channel", np.empty(0))
        columns = [self.samples[name] for name in Timed._fields] if len(channels) else []
        return {
            str(name): Timed(*(column[channels == name] for column in columns))
            for name in dict.fromkeys(channels)
        }

    def vector(self, name: str) -> Array:
        """Components `name_x`, `name_y` and, if there is one, `name_z` as (3, N) or (2, N)."""
        rows = [self[f"{name}_x"], self[f"{name}_y"]]
        known = {**self.states, **self.inputs, **self.outputs}
        return np.array([*rows, known[f"{name}_z"]] if f"{name}_z" in known else rows)

    def between(self, begin: float, end: float) -> Trajectory:
        """Part with begin <= t <= end [s], with the events there and the state at its end; raises
        `ValueError` if no node is there."""
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
        columns = self.samples
        if columns:
            inside = (columns["time"] >= begin) & (columns["time"] <= end)
            columns = {name: column[inside] for name, column in columns.items()}
        log, again, time = self.event_log, self.again, self.time[here]
        if log is not None:
            x = np.array([row[here][-1] for row in self.states.values()], dtype=np.float64)
            modes = np.array([self.inputs[name][here][-1] for name in log.modes], dtype=np.float64)
            last = HybridState(float(time[-1]), x, modes)
            log = log.between(begin, end, float(self.time[0]), last)
            again = partial(_finer_between, again, begin, end) if again else None
        return replace(self, time=time, samples=columns, event_log=log, again=again, **groups)

    def error(self) -> StepError:
        """Discretisation error of a simulation, estimated by its repetition with finer steps: fixed
        steps are halved, which takes twice the time of the run, tolerances of adaptive ones divided
        by 100, which takes two to three times.

        Raises `ValueError` for a trajectory that `ks.simulate` did not return in this program, such
        as a loaded one, and for tolerances that cannot be tightened.
        """
        return error_of_run(self, self._finer())

    def history_of(self, name: Any) -> tuple[Array, Array]:
        """Times [s] and estimated values of a signal up to the start; empty for a known history."""
        key = key_name(name)
        mine = self.before["signal"] == key if self.before else np.zeros(0, dtype=bool)
        if not mine.any():
            return np.zeros(0), np.zeros(0)
        return self.before["time"][mine], self.before["value"][mine]

    def samples_of(self, name: str) -> tuple[Array, Array] | None:
        """Times and samples of a measurement, NaN where missing; None if it is not measured."""
        if name in self.timed:
            return self.timed[name].time, self.timed[name].measured
        return (self.time, self.measurements[name]) if name in self.measurements else None

    def vaf(self) -> dict[str, float]:
        """Variance accounted for [%] of each measurement: 100 (1 - var(residual)/var(measured));
        constant measurements are left out."""
        result = {}
        pairs = {name: (y, self[name]) for name, y in self.measurements.items()}
        pairs |= {name: (own.measured, own.modelled) for name, own in self.timed.items()}
        for name, (measured, modelled) in pairs.items():
            if name in self.limits:
                continue
            here = ~np.isnan(measured) & ~np.isnan(modelled)
            variance = np.var(measured[here]) if here.any() else 0.0
            if variance > (_CONSTANT * np.abs(measured[here]).max(initial=0.0)) ** 2:
                rest = np.var(measured[here] - modelled[here])
                result[name] = float(100.0 * (1.0 - rest / variance))
        return result

    def residuals(self) -> dict[str, Array]:
        """Standardised residuals, (modelled - measured)/std, of each measurement that is no limit
        and whose standard deviation is known, (N,), NaN where it is missing, or (K,) of K samples
        at times of their own."""
        found = {n: (self[n] - self.measurements[n]) / self.std[n] for n in self.std}
        apart = {n: (own.modelled - own.measured) / own.std for n, own in self.timed.items()}
        found |= {n: row for n, row in apart.items() if not np.isnan(row).all()}
        return {n: row for n, row in found.items() if n not in self.limits}

    def plot(self, names: Sequence[Any] | None = None, title: str | None = None) -> Any:
        """Figure with one panel per trajectory, or those of these names; measurements as dots, a
        line at each impact, release, slide and event; estimated history dashed. Raises `ValueError`
        for unknown names, and for too many."""
        rows = {name: self[name] for name in chosen(names, self.keys())}
        figure, axes = panels(list(rows), self.model if title is None else title, self.units)
        handles: list[Any] = []  # of a panel with both, so that colours are those beside each other
        for axis, (name, values) in zip(axes, rows.items(), strict=True):
            samples, dots = self.samples_of(name), list[Any]()
            if samples is not None:
                size = 2.0 if np.isfinite(samples[1]).sum() > 300 else 5.0
                dots = axis.plot(*samples, ".", ms=size, color="0.55", label="measured")
            line = axis.plot(self.time, values, lw=1.2, color=self._colour(name), label="model")
            handles = [*dots, *line] if dots else handles
            if self.before:
                axis.plot(*self.history_of(name), "--", lw=1.2, color=self._colour(name))
            for event in self.events:
                if event.kind != "close":
                    axis.axvline(event.time, color="0.6", lw=0.6, zorder=0)
        if handles:
            figure.legend(handles=handles, loc="outside upper right", ncols=2)
        return figure

    def plot_modes(self) -> Any:
        """Figure with a row per contact, bars while it presses and marks at impacts, and a row per
        event with a mark whenever it happens."""
        events = list(dict.fromkeys(e.name for e in self.events if e.kind == "event"))
        rows = [*self.contacts, *events]
        figure, axis = subplots(grid="x", figsize=(9.0, 1.2 + 0.4 * max(len(rows), 1)))
        for row, name in enumerate(rows):
            marks = (e for e in self.events if e.name == name and e.kind in ("impact", "event"))
            times = [e.time for e in marks]
            colour = "C0" if name in self.contacts else "C3"
            axis.plot(times, [row] * len(times), "|", ms=14.0, mew=1.5, color=colour)
            if name in self.contacts:
                spans = [(begin, end - begin) for begin, end in self.pressing(name)]
                axis.broken_barh(spans, (row - 0.25, 0.5), color="C0", alpha=0.5)
        axis.set_yticks(range(len(rows)), [plain(name.split(":")[0]) for name in rows])
        axis.set_ylim(len(rows) - 0.4, -0.6)
        if len(self.time):
            axis.set_xlim(float(self.time[0]), max(float(self.time[-1]), self.final.time))
        axis.set_xlabel("time [s]")
        axis.set_title(plain(f"{self.model}: contacts that press, impacts and events"))
        return figure

    def animate(
        self, path: str | Path, fps: float = 25.0, speed: float = 1.0, up: str = "z"
    ) -> Path:
        """Animated stick figure as a .gif or .html file; see `runtime.results.animate.animate`."""
        return animate(self, Path(path), fps, speed, up)

    def _columns(self) -> dict[str, Array]:
        rows = {"time": self.time, **self}
        for name, values in self.measurements.items():
            rows[f"measured_{name}"] = values
            rows |= {f"std_{name}": self.std[name]} if name in self.std else {}
        return rows

    def to_pandas(self) -> pd.DataFrame:
        """Table with the columns of `to_csv`, by time [s]."""
        import pandas as pd  # here: slow to import

        return pd.DataFrame(self._columns()).set_index("time")

    def to_csv(self, path: str | Path) -> None:
        """Write columns with a line of names, in all digits: time [s], states, inputs and outputs,
        then `measured_...` and `std_...` of measurements at nodes, NaN where missing."""
        write_columns(path, self._columns())
