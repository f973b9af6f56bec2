"""Trials: time grid, known signals, measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

HOLDS = ("linear", "zero-order")


def key_name(key: object) -> str:
    """The name of a symbol (anything with a `name`) or of a string."""
    name = key if isinstance(key, str) else getattr(key, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"{key!r} is neither a name nor a symbol")
    return name


@dataclass(frozen=True, eq=False)
class Experiment:
    """One trial.

    Parameters
    ----------
    time : (N,) increasing instants [s], not necessarily uniform. Leave it out to make the duration
        unknown.
    inputs : known signals by symbol or name, each (N,); held ones also (N - 1,), one per interval.
    measurements : measured states, inputs or outputs, each (N,); NaN marks a missing sample.
    std : standard deviation of each measurement, a number or (N,); default 1.
    hold : "linear" (default) or "zero-order" per input: its course between samples.
    nodes, duration : number of nodes N and the bounds [s] (low, high) of an unknown duration.

    Raises `ValueError` naming the array, what was expected and what was given.
    """

    time: ArrayLike | None = None
    inputs: Mapping[Any, Any] = field(default_factory=dict)
    measurements: Mapping[Any, Any] = field(default_factory=dict)
    std: Mapping[Any, Any] = field(default_factory=dict)
    hold: Mapping[Any, str] = field(default_factory=dict)
    nodes: int | None = None
    duration: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "time", self._grid())
        holds = {key_name(k): v for k, v in _mapping("hold", self.hold).items()}
        for name, how in holds.items():
            if how not in HOLDS:
                raise ValueError(f"hold of {name}: {how!r} is unknown; choose {' or '.join(HOLDS)}")
        put(self, "hold", holds)
        put(self, "inputs", self._signals("input", self.inputs, missing=False))
        put(self, "measurements", self._signals("measurement", self.measurements, missing=True))
        put(self, "std", self._deviations())

    @property
    def grid(self) -> Array:
        """The time grid, (N,); relative to the duration (0 ... 1) if that is unknown."""
        return np.asarray(self.time)

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return len(self.grid)

    @property
    def free_duration(self) -> bool:
        """Whether the duration is unknown."""
        return self.duration is not None

    def refined(self, parts: int) -> Experiment:
        """The same trial with every interval of the grid cut into `parts` equal ones.

        Inputs follow their hold, measurements are missing at new nodes.
        """
        if parts == 1:
            return self
        N, fine = self.n_nodes, (self.n_nodes - 1) * parts + 1
        place, index = np.arange(fine) / parts, np.arange(fine) // parts
        missing = np.full(fine, np.nan)

        def sampled(values: Array) -> Array:
            row = missing.copy()
            row[::parts] = values
            return row

        inputs = {
            name: values[index] if self.hold.get(name) == "zero-order"
            else np.interp(place, np.arange(N), values)
            for name, values in self.inputs.items()
        }  # fmt: skip
        return Experiment(
            np.interp(place, np.arange(N), self.grid),
            inputs=inputs,
            measurements={name: sampled(values) for name, values in self.measurements.items()},
            std={name: values[index] for name, values in self.std.items()},
            hold=self.hold,
        )

    def _grid(self) -> Array:
        if (self.time is None) == (self.duration is None):
            raise ValueError("give either time=..., or nodes=... with duration=(low, high)")
        if self.time is not None and self.nodes not in (None, np.size(self.time)):
            raise ValueError(f"time has {np.size(self.time)} nodes, not {self.nodes}; omit nodes")
        if self.duration is not None:
            return self._relative_grid(self.duration)
        time = np.array(self.time, dtype=np.float64)
        if time.ndim != 1 or len(time) < 2:
            raise ValueError(f"time needs at least 2 instants in one dimension, got {time.shape}")
        if not np.isfinite(time).all():
            raise ValueError(f"time is not finite at index {_first(~np.isfinite(time))}")
        steps = np.diff(time)
        if (steps <= 0).any():
            k = _first(steps <= 0)
            raise ValueError(
                f"time must increase; step {k} goes from {time[k]:g} to {time[k + 1]:g}"
            )
        return time

    def _relative_grid(self, duration: tuple[float, float]) -> Array:
        if self.nodes is None or self.nodes < 2:
            raise ValueError(f"an unknown duration needs nodes=... of at least 2, got {self.nodes}")
        try:
            low, high = (float(bound) for bound in duration)
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if not 0.0 < low <= high < np.inf:
            raise ValueError(
                f"duration must be (low, high) with 0 < low <= high, both finite, got {duration}"
            )
        return np.linspace(0.0, 1.0, self.nodes)

    def _signals(
        self, what: str, given: Mapping[Any, ArrayLike], missing: bool
    ) -> dict[str, Array]:
        signals: dict[str, Array] = {}
        for key, values in _mapping(f"{what}s", given).items():
            name = key_name(key)
            if np.ma.isMaskedArray(values):
                values = np.ma.filled(values.astype(np.float64), np.nan)
            try:
                array = np.array(values, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{what} {name} must be numbers, got {values!r}") from error
            if array.ndim == 0 and what == "input":
                array = np.full(self.n_nodes, float(array))
            if self.hold.get(name) == "zero-order" and array.shape == (self.n_nodes - 1,):
                array = np.append(array, array[-1])
            if array.shape != (self.n_nodes,):
                raise ValueError(
                    f"{what} {name} has {_shape(array)} values, expected {self.n_nodes}, "
                    "one per node"
                )
            bad = np.isinf(array) if missing else ~np.isfinite(array)
            if bad.any():
                k = _first(bad)
                raise ValueError(
                    f"{what} {name} contains {int(bad.sum())} values that are not finite, the "
                    f"first at index {k} (t = {self.grid[k]:g})"
                )
            if missing and np.isnan(array).all():
                raise ValueError(f"measurement {name} has no sample at all; leave it out")
            if name in signals:
                raise ValueError(f"{what} {name} is given twice")
            signals[name] = array
        return signals

    def _deviations(self) -> dict[str, Array]:
        given = {key_name(k): value for k, value in _mapping("std", self.std).items()}
        for name in given:
            if name not in self.measurements:
                raise ValueError(f"std of {name}, which is not measured in this experiment")
        deviations = {}
        for name in self.measurements:
            value = np.asarray(given.get(name, 1.0), dtype=np.float64)
            if value.shape not in ((), (self.n_nodes,)):
                raise ValueError(
                    f"std of {name} has {_shape(value)} values, expected 1 or {self.n_nodes}"
                )
            if not (value > 0).all():
                raise ValueError(f"std of {name} must be positive, got {np.min(value):g}")
            deviations[name] = np.broadcast_to(value, (self.n_nodes,)).astype(np.float64)
        return deviations


def _mapping(what: str, given: Any) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} must be a mapping {{name: value}}, got {type(given).__name__}")
    return given


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(mask)[0])


def _shape(array: Array) -> str:
    return str(array.shape[0]) if array.ndim == 1 else f"{array.shape}"
