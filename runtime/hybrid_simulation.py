"""Simulation of hybrid models: trajectories with a log of what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.native import Call, HybridRun, Library, Plan
from kinesym.runtime.piecewise import Piecewise, segments
from kinesym.runtime.places import rows
from kinesym.runtime.trajectory import Trajectory

Array = NDArray[np.float64]

#: Entries of the log by their number in runtime/hybrid/hybrid.h.
KINDS = ("clock", "impact", "close", "release", "slide", "event")
DONE, STOPPED, LOG_FULL, STEP, STUCK, CHATTER, NO_MEMORY = range(7)
LAWS = ("slip", "stick", "coulomb")
STATES = ("open", "active", "leaving")
#: First size of the log.
LOG = 256


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


@dataclass(frozen=True, eq=False)
class State:
    """Where a hybrid simulation is: what it takes to go on."""

    time: float
    x: Array
    modes: Array
    contacts: NDArray[np.intc]
    friction: NDArray[np.intc]
    armed: NDArray[np.intc]


@dataclass(frozen=True, eq=False)
class HybridTrajectory:
    """A trajectory of a hybrid model.

    run : states, inputs (with modes and contact forces) and outputs at the nodes, at an event those
    after it. events : what happened, in order. final : where it ended, to go on from.
    message : why it ended early, empty if it did not.
    """

    run: Trajectory
    events: tuple[Happening, ...]
    final: State
    message: str = ""

    @property
    def time(self) -> Array:
        """(N,) [s]."""
        return self.run.time

    def __getitem__(self, key: object) -> Array:
        return self.run[key]

    def plot(self, names: Sequence[Any] | None = None) -> Any:
        """As `Trajectory.plot`, with a line at each impact, switch and event."""
        figure = self.run.plot(names=names)
        for panel in figure.axes:
            for event in self.events:
                if event.kind != "clock":
                    panel.axvline(event.time, color="0.6", lw=0.6, zorder=0)
        return figure

    def happened(self, kind: str, name: str | None = None) -> list[Happening]:
        """Those of a kind, and of a contact or event."""
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
        return [e for e in self.events if e.kind == kind and name in (None, e.name)]


@dataclass(frozen=True, eq=False)
class HybridTask:
    """What to simulate. about : what the code generator says of the model, see `codegen.hybrid`."""

    library: Library
    about: Mapping[str, Any]
    time: Array
    start: State
    parameters: Array
    inputs: Mapping[str, Piecewise]
    rtol: float
    atol: float
    v_stop: float
    release: str
    per_second: int


def simulate(task: HybridTask) -> tuple[Array, Array, list[Happening], State, int]:
    """States (n, N), inputs (m + d + R, N) at the nodes reached, the log, the end, the status."""
    about, start, time = task.about, task.start, task.time
    contacts, events = about["contacts"], about["events"]
    n, m, d = len(start.x), len(task.inputs), len(start.modes)
    R = len(contacts) + sum(c["row"] >= 0 for c in contacts)
    begin, value, slope = segments(task.inputs, float(start.time), float(time[-1]))
    arrays: dict[str, NDArray[Any]] = {
        "begin": begin, "value": value, "slope": slope, "parameters": task.parameters,
        "law": np.array([LAWS.index(c["law"]) for c in contacts], dtype=np.intc),
        "tangent": np.array([c["row"] for c in contacts], dtype=np.intc),
        "mu": np.array([c["friction_coefficient"] for c in contacts], dtype=np.float64),
        "restitution": np.array([c["restitution"] for c in contacts], dtype=np.float64),
        **{key: np.array([e[key] for e in events], dtype=np.intc)
           for key in ("direction", "level", "stop")},
        "scale": np.array([e["scale"] for e in events], dtype=np.float64),
        "first_target": np.array(about["first_target"], dtype=np.intp),
        "target": np.array(about["targets"], dtype=np.intp),
        "x": start.x.copy(), "mode": start.modes.copy(), "state": start.contacts.copy(),
        "friction": start.friction.copy(), "armed": start.armed.copy(), "time": time,
        "states": np.full((n, len(time)), np.nan),
        "inputs": np.full((m + d + R, len(time)), np.nan),
        **_log(LOG, n),
    }  # fmt: skip
    kernels = [task.library.kernel_address(name)
               for name in ("smooth", "guards", "resets", "contact")]  # fmt: skip
    numbers = {"t": start.time, "rtol": task.rtol, "atol": task.atol, "v_stop": task.v_stop,
               "by_height": task.release == "height", "per_second": task.per_second,
               "segment": 0}  # fmt: skip
    sizes = (n, m, d, len(contacts), R, len(events))
    run = HybridRun(task.library, kernels, sizes, numbers, arrays)
    while (status := run.march(float(time[-1]))) == LOG_FULL:
        larger = _log(4 * len(arrays["log_time"]), n)
        for key, new in larger.items():
            new[: len(arrays[key])] = arrays[key]
        arrays |= larger
        run.log(*(larger[f"log_{part}"] for part in ("time", "kind", "index", "before", "after")))
    now, filled, logged, _ = run.at
    final = State(now, arrays["x"], arrays["mode"], arrays["state"], arrays["friction"],
                  arrays["armed"])  # fmt: skip
    happened = _happenings(about, {k: row[:logged] for k, row in arrays.items() if "log_" in k})
    return arrays["states"][:, :filled], arrays["inputs"][:, :filled], happened, final, status


def outputs(task: HybridTask, states: Array, inputs: Array) -> Array:
    """Outputs (n_out, N) at the nodes, from states and all inputs there."""
    N, count = states.shape[1], len(task.about["outputs"])
    if not count or not N:
        return np.empty((count, N))
    groups = [(states, N), (inputs, N), (task.parameters, 1), (task.time[:N], N)]
    arguments = [(np.ascontiguousarray(a).ravel(), 0, ld) for a, ld in groups]
    rates = _mapped(task.library, "smooth", arguments, len(states), N)
    return _mapped(task.library, "outputs", [(rates.ravel(), 0, N), *arguments], count, N)


def _mapped(
    library: Library, kernel: str, arguments: list[tuple[Array, int, int]], n_out: int, N: int
) -> Array:
    out = np.empty(n_out * N)
    call = Call(library, kernel, N, arguments, (), rows(n_out, N), out.size)
    Plan([call], [], out.size)((), out)
    return out.reshape(n_out, N)


def _log(size: int, n: int) -> dict[str, NDArray[Any]]:
    return {"log_time": np.zeros(size), "log_kind": np.zeros(size, dtype=np.intc),
            "log_index": np.zeros(size, dtype=np.intc), "log_before": np.zeros((size, n)),
            "log_after": np.zeros((size, n))}  # fmt: skip


def _happenings(about: Mapping[str, Any], log: Mapping[str, NDArray[Any]]) -> list[Happening]:
    pairs = np.stack([log["log_before"], log["log_after"]], axis=1)
    named = {"event": [e["name"] for e in about["events"]], "clock": None}
    contacts = [c["name"] for c in about["contacts"]]
    found = []
    for time, kind, index, row in zip(log["log_time"].tolist(), log["log_kind"].tolist(),
                                      log["log_index"].tolist(), pairs, strict=True):  # fmt: skip
        names = named.get(KINDS[kind], contacts)
        found.append(Happening(time, KINDS[kind], names[index] if names else "", about["states"],
                               row))  # fmt: skip
    return found
