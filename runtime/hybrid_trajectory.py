"""What a hybrid simulation returns: a trajectory with a log of what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.files import save_result, saved_result
from kinesym.runtime.summary import html_table
from kinesym.runtime.trajectory import ByName, Trajectory

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
Integers = NDArray[np.intc]

#: Entries of the log by their number in runtime/hybrid/hybrid.h.
KINDS = ("clock", "impact", "close", "release", "slide", "event")

#: So many events are shown in a notebook.
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class Happening:
    """Something that happened: "clock" (an input breaks), "impact", "close" (a contact begins to
    press), "release", "slide" (it begins or ends to slide), or "event".

    name : of the contact or event; "" for a clock. states : their names. rows : their values before
    and after, (2, n).
    """

    time: float
    kind: str
    name: str
    states: Sequence[str]
    rows: Array

    @property
    def before(self) -> dict[str, float]:
        """States just before, by name."""
        return dict(zip(self.states, self.rows[0].tolist(), strict=True))

    @property
    def after(self) -> dict[str, float]:
        """States just after, by name."""
        return dict(zip(self.states, self.rows[1].tolist(), strict=True))

    def __str__(self) -> str:
        return f"{self.time:.9g} s: {self.kind} {self.name}".rstrip()

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class State:
    """Where a hybrid simulation is: what it takes to go on.

    x : (n,). modes : (d,). contacts : of each, 0 open, 1 active, 2 leaving. friction : of active
    ones, 1 sticks, 2 slides forwards, 3 backwards. armed : of each event.
    """

    time: float
    x: Array
    modes: Array
    contacts: Integers
    friction: Integers
    armed: Integers


@dataclass(frozen=True, eq=False)
class HybridTrajectory(ByName):
    """A trajectory of a hybrid model.

    run : states, inputs (with modes and contact forces) and outputs at the nodes, at an event those
    after it. log : what happened, in order, and where inputs break; `events` is without these.
    final : where it ended, to go on from. message : why it ended early, empty if it did not.
    contacts : their names, and which of them pressed at the start. work : steps taken, steps
    rejected, evaluations of x'. named : names of the events of the model, None if not known.
    """

    run: Trajectory
    log: tuple[Happening, ...]
    final: State
    message: str = ""
    contacts: tuple[str, ...] = ()
    pressed: tuple[str, ...] = ()
    work: tuple[int, int, int] = (0, 0, 0)
    named: tuple[str, ...] | None = None

    @cached_property
    def events(self) -> tuple[Happening, ...]:
        """What happened, in order, without breaks of inputs; those are `happened("clock")`."""
        return tuple(e for e in self.log if e.kind != "clock")

    @property
    def time(self) -> Array:
        """(N,) [s]."""
        return self.run.time

    def __getitem__(self, key: object) -> Array:
        return self.run[key]

    def keys(self) -> list[str]:
        """Names of states, inputs and outputs."""
        return self.run.keys()

    def __repr__(self) -> str:
        return f"<hybrid {repr(self.run)[1:-1]}; {len(self.events)} events>"

    def _repr_html_(self) -> str:
        """Tables of all trajectories and of the first events for a notebook."""
        rows = [(f"{e.time:.9g}", e.kind, e.name) for e in self.events[:_SHOWN]]
        told = html_table(f"events: {len(self.events)}", rows, ("time [s]", "kind", "of"))
        return self.run._repr_html_() + (told if rows else "")

    def happened(self, kind: str, name: str | None = None) -> list[Happening]:
        """Those of a kind, and of a contact or event.

        Raises `ValueError` for an unknown kind, contact or event.
        """
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
        if name is not None and self.named is not None:
            known = (*self.contacts, *self.named)
            if name not in known:
                raise ValueError(
                    f"there is no contact or event {name!r}; there are {', '.join(known) or 'none'}"
                )
        return [e for e in self.log if e.kind == kind and name in (None, e.name)]

    def pressing(self, contact: str) -> list[tuple[float, float]]:
        """From when to when a contact presses [s].

        Raises `ValueError` for an unknown contact.
        """
        if contact not in self.contacts:
            raise ValueError(
                f"there is no contact {contact!r}; there are {', '.join(self.contacts) or 'none'}"
            )
        first = float(self.time[0]) if len(self.time) else self.final.time
        begin = first if contact in self.pressed else None
        spans = []
        for event in self.events:
            if event.name != contact:
                continue
            if event.kind == "close" and begin is None:
                begin = event.time
            elif event.kind == "release" and begin is not None:
                spans.append((begin, event.time))
                begin = None
        return spans if begin is None else [*spans, (begin, self.final.time)]

    # -- pictures and files ---------------------------------------------------------------------

    def plot(self, names: Sequence[Any] | None = None) -> Any:
        """As `Trajectory.plot`, with a line at each impact, switch and event."""
        figure = self.run.plot(names=names)
        for panel in figure.axes:
            for event in self.events:
                if event.kind != "close":
                    panel.axvline(event.time, color="0.6", lw=0.6, zorder=0)
        return figure

    def plot_modes(self) -> Any:
        """A figure with a bar per contact while it presses, and a mark per impact and event."""
        from kinesym.runtime.plot import plot_modes

        return plot_modes(self)

    def to_xarray(self) -> xr.Dataset:
        """The trajectory, and the log over `event`."""
        data = self.run.to_xarray()
        rows = np.array([e.rows for e in self.log]).reshape(-1, 2, len(self.final.x))
        names = list(self.run.states)
        data = data.assign(
            event_time=("event", [e.time for e in self.log], {"kind": "events"}),
            event_kind=("event", [KINDS.index(e.kind) for e in self.log], {"kind": "events"}),
            event_states=(("event", "side", "state"), rows, {"kind": "events"}),
        )
        final = self.final
        told = {
            "names": [e.name for e in self.log],
            "states": names,
            "named": self.named,
            "contacts": self.contacts,
            "pressed": self.pressed,
            "work": self.work,
            "message": self.message,
            "time": final.time,
            **{
                key: getattr(final, key).tolist()
                for key in ("x", "modes", "contacts", "friction", "armed")
                if key != "contacts"
            },
            "contact_states": final.contacts.tolist(),
        }
        return data.assign_attrs(hybrid=json.dumps(told))

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file; an older one stays until this one is whole."""
        save_result(self.to_xarray(), path)

    @classmethod
    def load(cls, path: str | Path) -> HybridTrajectory:
        """Read what `save` wrote; raises `FileNotFoundError`, and `ValueError` if the file is
        damaged or something else."""
        with saved_result(path, "HybridTrajectory") as tree:
            data = tree.to_dataset()
            told = json.loads(data.attrs["hybrid"])
            mine = [name for name in data.data_vars if data[name].attrs.get("kind") == "events"]
            run = Trajectory.from_xarray(data.drop_vars(mine))
            times, kinds = data["event_time"].to_numpy(), data["event_kind"].to_numpy()
            rows = data["event_states"].to_numpy()
            return cls(
                run,
                tuple(
                    Happening(float(t), KINDS[int(k)], name, told["states"], row)
                    for t, k, name, row in zip(times, kinds, told["names"], rows, strict=True)
                ),
                _state(told),
                told["message"],
                tuple(told["contacts"]),
                tuple(told["pressed"]),
                tuple(told["work"]),
                None if told.get("named") is None else tuple(told["named"]),
            )


def _state(told: Mapping[str, Any]) -> State:
    """Where a run ended, from its file."""
    integers = {
        key: np.array(told[name], dtype=np.intc)
        for key, name in (
            ("contacts", "contact_states"),
            ("friction", "friction"),
            ("armed", "armed"),
        )
    }
    return State(told["time"], np.array(told["x"]), np.array(told["modes"]), **integers)
