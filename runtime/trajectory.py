"""Results of simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from kinesym.runtime.experiment import key_name

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A simulated trajectory: time (N,), and by name states, inputs and outputs, each (N,)."""

    time: Array
    states: Mapping[str, Array]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    parameters: Mapping[str, float]
    model: str = ""

    @property
    def measurements(self) -> Mapping[str, Array]:
        """Nothing is measured in a simulation."""
        return {}

    def __getitem__(self, key: object) -> Array:
        name = key_name(key)
        for group in (self.states, self.inputs, self.outputs):
            if name in group:
                return group[name]
        known = [*self.states, *self.inputs, *self.outputs]
        raise KeyError(f"{name} is no trajectory of this run; there are {', '.join(known)}")

    def plot(self) -> Any:
        """A figure with one panel per trajectory."""
        from kinesym.runtime.plot import plot_trial

        return plot_trial(self, title=self.model)

    def to_xarray(self) -> xr.Dataset:
        """All trajectories over `time`; parameters as attributes."""
        variables: dict[str, Any] = {}
        for kind in ("states", "inputs", "outputs"):
            for name, values in getattr(self, kind).items():
                variables[name] = ("time", values, {"kind": kind})
        attributes = {"model": self.model}
        attributes.update({f"parameter_{k}": v for k, v in self.parameters.items()})  # type: ignore[misc]
        return xr.Dataset(variables, {"time": self.time}, attributes)

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file."""
        self.to_xarray().to_netcdf(path, engine="h5netcdf")

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Read what `save` wrote."""
        with xr.open_dataset(path, engine="h5netcdf") as data:
            if "model" not in data.attrs:
                raise ValueError(f"{path} was not written by Trajectory.save")
            groups: dict[str, dict[str, Array]] = {"states": {}, "inputs": {}, "outputs": {}}
            for name, variable in data.data_vars.items():
                groups[variable.attrs["kind"]][str(name)] = variable.to_numpy()
            parameters = {
                str(k).removeprefix("parameter_"): float(v)
                for k, v in data.attrs.items()
                if str(k).startswith("parameter_")
            }
            return cls(data["time"].to_numpy(), **groups, parameters=parameters,
                       model=str(data.attrs["model"]))  # fmt: skip
