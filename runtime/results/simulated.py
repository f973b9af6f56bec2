"""Measurements of a problem beside what a model says of them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import chosen, plain, subplots
from kinesym.runtime.summary import aligned

if TYPE_CHECKING:
    import pandas as pd

#: Columns of the files of simulations, and of `to_pandas`.
COLUMNS = ("observableId", "experimentId", "time", "measurement", "simulation", "noise")


@dataclass(frozen=True, eq=False, repr=False)
class Simulated(Displayed):
    """Measurements (K,) beside what the model says of them.

    observable, experiment : names, of each measurement. time : inf for a steady state. noise :
    standard deviation, or scale of a Laplace distribution, of the residual. scale, distribution :
    of each, see `kinesym.models.files.petab.Observable`.
    """

    observable: Sequence[str]
    experiment: Sequence[str]
    time: Array
    measurement: Array
    simulation: Array
    noise: Array
    scale: Sequence[str]
    distribution: Sequence[str]

    @cached_property
    def residuals(self) -> Array:
        """Residuals (simulation - measurement) / noise, on the scale of the observable."""
        rise = self._scaled(self.simulation) - self._scaled(self.measurement)
        return np.asarray(rise / self.noise)

    def _scaled(self, values: Array) -> Array:
        scale = np.asarray(self.scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(values) / np.where(scale == "log10", np.log(10.0), 1.0)
        return np.where(scale == "lin", values, logs)

    @cached_property
    def log_densities(self) -> Array:
        """Log density of each measurement, (K,)."""
        scale, laplace = np.asarray(self.scale), np.asarray(self.distribution) == "laplace"
        unit = np.where(scale == "log10", np.log(10.0), 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(scale == "lin", 0.0, -np.log(self.measurement * unit))
        normal = -0.5 * self.residuals**2 - 0.5 * np.log(2.0 * np.pi * self.noise**2)
        peaked = -np.abs(self.residuals) - np.log(2.0 * self.noise)
        return np.asarray(slope + np.where(laplace, peaked, normal))

    @property
    def log_likelihood(self) -> float:
        """Log likelihood of all measurements."""
        return float(self.log_densities.sum())

    @property
    def chi2(self) -> float:
        """Sum of squares of residuals."""
        return float(self.residuals @ self.residuals)

    def to_pandas(self) -> pd.DataFrame:
        """Table with a row for each measurement."""
        import pandas as pd  # here: slow to import

        return pd.DataFrame(self._columns)

    def write(self, path: str | Path) -> None:
        """Write the table, with tabs between columns, as simulations of PEtab are written."""
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(self._columns)
            writer.writerows(zip(*self._columns.values(), strict=True))

    @property
    def _columns(self) -> dict[str, Any]:
        values = (self.observable, self.experiment, self.time, self.measurement, self.simulation)
        return dict(zip(COLUMNS, (*values, self.noise), strict=True))

    def plot(self, names: Sequence[str] | None = None) -> Any:
        """Figure with a panel for each observable: measurements as dots, what the model says as
        lines, a colour for each experiment. names : of observables; all of them by default."""
        every = chosen(names, list(dict.fromkeys(self.observable)))
        rows = -(-len(every) // 3)
        shape = (rows, min(3, len(every)))
        figure, axes = subplots(*shape, figsize=(4 * shape[1], 2.7 * rows), squeeze=False)
        for axis in axes.ravel()[len(every) :]:
            axis.set_visible(False)
        for name, axis in zip(every, axes.ravel(), strict=False):
            self._panel(axis, name)
        for axis in axes[-1]:
            axis.set_xlabel("time")
        return figure

    def _panel(self, axis: Any, name: str) -> None:
        which, of = np.asarray(self.observable) == name, np.asarray(self.experiment)
        for number, experiment in enumerate(dict.fromkeys(of[which])):
            here = np.flatnonzero(which & (of == experiment) & np.isfinite(self.time))
            here = here[np.argsort(self.time[here], kind="stable")]
            color = f"C{number % 10}"
            axis.plot(self.time[here], self.measurement[here], ".", color=color)
            axis.plot(self.time[here], self.simulation[here], "_-", color=color, lw=1)
        axis.set_title(plain(name), fontsize="medium")

    @property
    def _heading(self) -> str:
        return (
            f"{len(self.time)} measurements: log likelihood {self.log_likelihood:.8g}, "
            f"chi2 {self.chi2:.6g}"
        )

    def __str__(self) -> str:
        rows = [("observable", "measurements", "rms residual", "log likelihood")]
        of = np.asarray(self.observable)
        for name in dict.fromkeys(self.observable):
            r, log = self.residuals[of == name], self.log_densities[of == name]
            rms = float(np.sqrt(np.mean(r**2)))
            rows.append((name, str(len(r)), f"{rms:.3g}", f"{log.sum():.6g}"))
        return "\n".join([self._heading, *(f"  {line}" for line in aligned(rows, [0]))])

    def __repr__(self) -> str:
        return f"<{self._heading}>"
