"""Results of collocation: named values, pictures, files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from kinesym.runtime.experiment import key_name
from kinesym.runtime.ipopt import Iteration

Array = NDArray[np.float64]


class Named(dict[str, float]):
    """Values by name, which can be asked for by symbol too."""

    def __getitem__(self, key: object) -> float:
        return super().__getitem__(key_name(key))


@dataclass(frozen=True, eq=False)
class TrialResult:
    """Trajectories of one trial: time (N,), and by name states, inputs, outputs, measurements."""

    time: Array
    states: Mapping[str, Array]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    measurements: Mapping[str, Array]
    std: Mapping[str, Array]

    def __getitem__(self, key: object) -> Array:
        name = key_name(key)
        for group in (self.states, self.inputs, self.outputs):
            if name in group:
                return group[name]
        known = [*self.states, *self.inputs, *self.outputs]
        raise KeyError(f"{name} is no trajectory of this result; there are {', '.join(known)}")

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


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of `Collocation.solve`.

    `solution["theta"]` is the trajectory of the first trial; `solution.trials[k]["theta"]` that of
    trial k. `parameters` are the identified ones; `known` those that were given. `multipliers`
    belong to the constraints of the problem. `timings` are seconds: derive, compile, evaluate,
    linear solver, total.
    """

    success: bool
    message: str
    status: int
    objective: float
    parameters: Mapping[str, float]
    known: Mapping[str, float]
    trials: Sequence[TrialResult]
    free_vector: Array
    multipliers: Array
    lower_multipliers: Array
    upper_multipliers: Array
    history: Sequence[Iteration]
    timings: Mapping[str, float]
    problem: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", Named(self.parameters))
        object.__setattr__(self, "known", Named(self.known))

    @property
    def iterations(self) -> int:
        """Number of iterations of the solver."""
        return self.history[-1].number if self.history else 0

    @property
    def time(self) -> Array:
        """Time grid of the first trial [s]."""
        return self.trials[0].time

    @property
    def duration(self) -> float:
        """Duration of the first trial [s]."""
        return float(self.time[-1] - self.time[0])

    def __getitem__(self, key: object) -> Array:
        return self.trials[0][key]

    def vaf(self) -> dict[str, float]:
        """Variance accounted for [%] of each measurement, of the first trial."""
        return self.trials[0].vaf()

    def __str__(self) -> str:
        parameters = ", ".join(f"{k} = {v:.6g}" for k, v in self.parameters.items())
        fits = [f"{k} {v:.2f} %" for trial in self.trials for k, v in trial.vaf().items()]
        rows = [
            f"{self.problem.get('model', 'problem')}: {self.message}, "
            f"objective {self.objective:.8g}",
            f"  parameters  {parameters or '-'}",
            f"  fit (VAF)   {', '.join(fits) or '-'}",
            *self._warnings(),
            "  seconds     " + ", ".join(f"{k} {v:.3g}" for k, v in self.timings.items()),
        ]
        return "\n".join(rows)

    __repr__ = __str__

    def _warnings(self) -> list[str]:
        """Measurements that the fit explains less than half of."""
        return [
            f"  note        {name} of trial {k} does not follow its samples (VAF {percent:.0f} %): "
            "much noise, or a local minimum"
            for k, trial in enumerate(self.trials)
            for name, percent in trial.vaf().items()
            if percent < 50.0 and self.problem.get("fitted")
        ]

    def plot(self, trial: int = 0) -> Any:
        """A figure of all trajectories of a trial over time, measurements as dots."""
        from kinesym.runtime.plot import plot_trial

        title = f"{self.problem.get('model', '')}: {self.message}"
        return plot_trial(self.trials[trial], title=title)

    # -- files ------------------------------------------------------------------------------

    def to_xarray(self, trial: int = 0) -> xr.Dataset:
        """Trajectories of a trial over `time`, measured ones as `measured_...`; scalars as
        attributes."""
        result = self.trials[trial]
        variables: dict[str, Any] = {}
        for kind in ("states", "inputs", "outputs"):
            for name, values in getattr(result, kind).items():
                variables[name] = ("time", values, {"kind": kind})
        for name, values in result.measurements.items():
            variables[f"measured_{name}"] = ("time", values, {"kind": "measurements"})
            variables[f"std_{name}"] = ("time", result.std[name], {"kind": "std"})
        attributes = {f"parameter_{k}": v for k, v in self.parameters.items()}
        return xr.Dataset(variables, {"time": result.time}, attributes)

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file, one group per trial."""
        story = {
            "success": self.success, "message": self.message, "status": self.status,
            "objective": self.objective, "parameters": dict(self.parameters),
            "known": dict(self.known), "timings": dict(self.timings),
            "problem": dict(self.problem), "log": self.log,
            "history": [[i.number, i.objective, i.infeasibility, i.optimality]
                        for i in self.history],
        }  # fmt: skip
        root = xr.Dataset(
            {
                "free_vector": ("variable", self.free_vector),
                "lower_multipliers": ("variable", self.lower_multipliers),
                "upper_multipliers": ("variable", self.upper_multipliers),
                "multipliers": ("constraint", self.multipliers),
            },
            attrs={"kinesym": json.dumps(story)},
        )
        groups = {f"trial_{k}": self.to_xarray(k) for k in range(len(self.trials))}
        xr.DataTree.from_dict({"/": root, **groups}).to_netcdf(path, engine="h5netcdf")

    @classmethod
    def load(cls, path: str | Path) -> Solution:
        """Read what `save` wrote; raises `ValueError` if the file is something else."""
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            if "kinesym" not in tree.attrs:
                raise ValueError(f"{path} was not written by Solution.save")
            story = json.loads(tree.attrs["kinesym"])
            vectors: dict[str, Any] = {name: tree[name].to_numpy() for name in _VECTORS}
            count = len(tree.children)
            trials = [_read_trial(tree[f"trial_{k}"].to_dataset()) for k in range(count)]
        history = tuple(Iteration(*row) for row in story.pop("history"))
        return cls(trials=trials, history=history, **vectors, **story)


_VECTORS = ("free_vector", "multipliers", "lower_multipliers", "upper_multipliers")


def _read_trial(data: xr.Dataset) -> TrialResult:
    groups: dict[str, dict[str, Array]] = {
        kind: {} for kind in ("states", "inputs", "outputs", "measurements", "std")
    }
    for name, variable in data.data_vars.items():
        kind = variable.attrs["kind"]
        plain = str(name).removeprefix("measured_" if kind == "measurements" else "std_")
        groups[kind][plain if kind in ("measurements", "std") else str(name)] = variable.to_numpy()
    return TrialResult(time=data["time"].to_numpy(), **groups)
