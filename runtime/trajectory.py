"""Trajectories: what simulation returns, and what a solution holds for each trial."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.experiment import key_name

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

#: Lines of a stick figure, each from point to point; a point `knee` is at outputs `knee_x`, ...
Drawing: TypeAlias = Sequence[Sequence[str]]

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


def named_row(result: Any, key: object) -> Array:
    """A state, input or output of a result by symbol or name; `KeyError` lists what there is."""
    name = key_name(key)
    for kind in KINDS:
        group: Mapping[str, Array] = getattr(result, kind)
        if name in group:
            return group[name]
    known = [*result.states, *result.inputs, *result.outputs]
    raise KeyError(f"{name} is no trajectory here; there are {', '.join(known)}")


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """Trajectories over time (N,): by name states, inputs and outputs, each (N,).

    `run["theta"]` or `run[theta]` is one of them. In the solution of an identification there are
    also the measurements (NaN where missing) and their standard deviations. `message` says why a
    simulation ended early, or grew beyond any plausible size; it is empty otherwise.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", Named(self.parameters))

    def __getitem__(self, key: object) -> Array:
        return named_row(self, key)

    def __repr__(self) -> str:
        names = [*self.states, *self.inputs, *self.outputs]
        span = f"t = {self.time[0]:g} ... {self.time[-1]:g} s" if len(self.time) else "none reached"
        return f"<trajectory of {self.model}: {', '.join(names)}; {len(self.time)} nodes, {span}>"

    def vector(self, name: str) -> Array:
        """Components `name_x`, `name_y` and, if there is one, `name_z` as (3, N) or (2, N)."""
        rows = [self[f"{name}_x"], self[f"{name}_y"]]
        known = {**self.states, **self.inputs, **self.outputs}
        return np.array([*rows, known[f"{name}_z"]] if f"{name}_z" in known else rows)

    def between(self, begin: float, end: float) -> Trajectory:
        """The part with begin <= t <= end [s]; raises `ValueError` if no node is there."""
        here = (self.time >= begin) & (self.time <= end)
        if not here.any():
            raise ValueError(f"no node is between {begin:g} and {end:g} s; the trajectory covers "
                             f"{self.time[0]:g} ... {self.time[-1]:g} s")  # fmt: skip
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

    def plot(self, title: str | None = None, names: Sequence[Any] | None = None) -> Any:
        """A figure with one panel per trajectory, or those of these names; measurements as dots."""
        from kinesym.runtime.plot import plot_trial

        return plot_trial(self, self.model if title is None else title, names)

    def animate(
        self, path: str | Path, fps: float = 25.0, speed: float = 1.0, up: str = "z"
    ) -> Path:
        """A moving stick figure as a .gif or .html file; see `runtime.animate.animate`."""
        from kinesym.runtime.animate import animate

        return animate(self, Path(path), fps, speed, up)

    # -- files ------------------------------------------------------------------------------

    def to_xarray(self) -> xr.Dataset:
        """Everything over `time`, measured ones as `measured_...`; parameters as attributes."""
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
        return xr.Dataset(variables, {"time": self.time}, attributes)

    @classmethod
    def from_xarray(cls, data: xr.Dataset) -> Trajectory:
        """What `to_xarray` made."""
        groups: dict[str, dict[str, Array]] = {k: {} for k in (*KINDS, "measurements", "std")}
        prefix = {"measurements": "measured_", "std": "std_"}
        for name, variable in data.data_vars.items():
            kind = variable.attrs["kind"]
            groups[kind][str(name).removeprefix(prefix.get(kind, ""))] = variable.to_numpy()
        parameters = {
            str(k).removeprefix("parameter_"): float(v)
            for k, v in data.attrs.items()
            if str(k).startswith("parameter_")
        }
        return cls(data["time"].to_numpy(), **groups, parameters=parameters,
                   model=str(data.attrs["model"]),
                   message=str(data.attrs.get("message", "")),
                   drawing=drawing_of(data.attrs))  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file."""
        self.to_xarray().to_netcdf(path, engine="h5netcdf")

    def to_csv(self, path: str | Path) -> None:
        """Write time [s], states, inputs and outputs as columns with a line of names."""
        rows = {"time": self.time, **self.states, **self.inputs, **self.outputs}
        np.savetxt(path, np.column_stack(list(rows.values())), fmt="%.10g", delimiter=",",
                   header=",".join(rows), comments="")  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Read what `save` wrote; raises `ValueError` if the file is something else."""
        import xarray as xr  # here: slow to import

        with xr.open_dataset(path, engine="h5netcdf") as data:
            if "model" not in data.attrs or "ensemble" in data.attrs:
                raise ValueError(f"{path} was not written by Trajectory.save")
            return cls.from_xarray(data)
