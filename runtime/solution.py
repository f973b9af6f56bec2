"""Results of collocation: named values, pictures, files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.driver import Iteration
from kinesym.runtime.trajectory import Named, Trajectory

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of `Collocation.solve`.

    `solution["theta"]` is the trajectory of the first trial; `solution.trials[k]["theta"]` that of
    trial k. `parameters` are the identified ones; `known` those that were given. `multipliers`
    belong to the constraints of the problem. `linear_solver` says which one was used, and why if it
    was not the time-structured one. `timings` are seconds: derive, compile, evaluate,
    linear solver, total.
    """

    success: bool
    message: str
    status: int
    objective: float
    parameters: Mapping[str, float]
    known: Mapping[str, float]
    trials: Sequence[Trajectory]
    free_vector: Array
    multipliers: Array
    lower_multipliers: Array
    upper_multipliers: Array
    history: Sequence[Iteration]
    timings: Mapping[str, float]
    linear_solver: str = ""
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
            f"  solver      {self.linear_solver}",
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
        return self.trials[trial].plot(f"{self.problem.get('model', '')}: {self.message}")

    # -- files ------------------------------------------------------------------------------

    def to_xarray(self, trial: int = 0) -> xr.Dataset:
        """Trajectories of a trial over `time`, measured ones as `measured_...`; parameters as
        attributes."""
        return self.trials[trial].to_xarray()

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file, one group per trial."""
        import xarray as xr  # here: slow to import

        story = {
            "success": self.success, "message": self.message, "status": self.status,
            "objective": self.objective, "parameters": dict(self.parameters),
            "known": dict(self.known), "timings": dict(self.timings),
            "linear_solver": self.linear_solver, "problem": dict(self.problem), "log": self.log,
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
        import xarray as xr  # here: slow to import

        with xr.open_datatree(path, engine="h5netcdf") as tree:
            if "kinesym" not in tree.attrs:
                raise ValueError(f"{path} was not written by Solution.save")
            story = json.loads(tree.attrs["kinesym"])
            vectors: dict[str, Any] = {name: tree[name].to_numpy() for name in _VECTORS}
            count = len(tree.children)
            groups = [tree[f"trial_{k}"].to_dataset() for k in range(count)]
            trials = [Trajectory.from_xarray(group) for group in groups]
        history = tuple(Iteration(*row) for row in story.pop("history"))
        return cls(trials=trials, history=history, **vectors, **story)


_VECTORS = ("free_vector", "multipliers", "lower_multipliers", "upper_multipliers")
