"""Results of shooting: estimates, their uncertainty, the history, pictures, files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import real_array
from kinesym.runtime.results.files import save_result, saved_result
from kinesym.runtime.results.trajectory import Named, Trajectory, Trials
from kinesym.runtime.stepping.minimise import Step
from kinesym.runtime.summary import html_table, listed

Array = NDArray[np.float64]


def vector_of_guess(guess: Any, names: Sequence[str]) -> Array:
    """All unknowns as an array (n,); raises `ValueError` for anything else."""
    q = np.atleast_1d(real_array(guess, "the guess, if it is no mapping of names to values,"))
    if q.shape != (len(names),):
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise ValueError(
            f"the guess has shape {q.shape}, but there are {len(names)} unknowns ({shown})"
        )
    return q


def typical_sizes(q: Array, bounds: tuple[Array, Array]) -> Array:
    """Of each unknown: the guess, else the width of the bounds, else 1."""
    low, high = bounds
    width = np.where(np.isfinite(high - low), high - low, 1.0)
    return np.where(q != 0.0, np.abs(q), np.where(width > 0.0, width, 1.0))


def poor_fits(trials: Sequence[Any]) -> list[str]:
    """Sentences on measurements that a trajectory does not explain half of."""
    return [
        f"{name} of trial {k} does not follow its samples (VAF {percent:.0f} %): "
        "much noise, or a local minimum"
        for k, trial in enumerate(trials)
        for name, percent in trial.vaf().items()
        if percent < 50.0
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Trials):
    """The result of `Shooting.solve`.

    `fit.parameters["p"]` is an estimate, `fit.initial["theta"]` that of an initial state, a list
    with one per trial if there are several; `fit["theta"]` is the trajectory of the first trial,
    `fit.trials[k]` trial k. names, values : all unknowns, and
    `history` their values by iteration, with the objective. gradient : of the objective at the end.
    condition : of the problem in unknowns divided by their values, states by their largest.
    covariance : (n, n), zero for what a bound holds, NaN if there is none, as for states between
    segments. active : unknowns held by a bound. notes : sentences on what the record does not
    identify.
    """

    success: bool
    message: str
    objective: float
    parameters: Mapping[str, float]
    known: Mapping[str, float]
    initial: Mapping[str, Any]
    trials: Sequence[Trajectory]
    names: Sequence[str]
    values: Array
    gradient: Array
    history: Sequence[Step]
    condition: float
    covariance: Array
    active: Sequence[str] = ()
    notes: Sequence[str] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    optimizer: str = ""
    model: str = ""

    def __post_init__(self) -> None:
        for name in ("parameters", "known", "initial"):
            object.__setattr__(self, name, Named(getattr(self, name)))

    @property
    def iterations(self) -> int:
        """Number of iterations of the optimiser."""
        return max(0, len(self.history) - 1)

    def standard_errors(self) -> dict[str, float]:
        """Standard error of each unknown by name, NaN if there is none."""
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(np.diag(self.covariance))
        return dict(zip(self.names, map(float, errors), strict=True))

    @property
    def _title(self) -> str:
        return f"{self.model}: {self.message}"

    @property
    def _heading(self) -> str:
        return (
            f"{self._title}, objective {self.objective:.8g}, {self.iterations} iterations of "
            f"{self.optimizer}"
        )

    def __repr__(self) -> str:
        shown = listed((" = ".join(row) for row in self._unknowns()), 6)
        return f"<fit of {self._heading}; {shown or 'no unknowns'}>"

    def __str__(self) -> str:
        return "\n".join([self._heading, *(f"  {a:<12} {b}".rstrip() for a, b in self._rows())])

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        return html_table(self._heading, self._rows())

    def _unknowns(self) -> list[tuple[str, str]]:
        """Names with value and standard error."""
        errors = self.standard_errors()
        return [
            (name, f"{value:.6g}" + ("" if np.isnan(errors[name]) else f" +- {errors[name]:.2g}"))
            for name, value in zip(self.names, self.values, strict=True)
        ]

    def _rows(self) -> list[tuple[str, str]]:
        unknowns = self._unknowns()
        rows = unknowns[:12]
        if len(unknowns) > 12:
            rows.append((f"... and {len(unknowns) - 12} more unknowns", ""))
        fits = [f"{k} {v:.2f} %" for trial in self.trials for k, v in trial.vaf().items()]
        rows += [("fit (VAF)", ", ".join(fits))] if fits else []
        rows.append(("condition", f"{self.condition:.3g} (scaled)"))
        rows += [("at a bound", ", ".join(self.active))] if self.active else []
        rows += [("note", note) for note in self.notes]
        rows.append(("seconds", ", ".join(f"{k} {v:.3g}" for k, v in self.timings.items())))
        return rows

    def plot_history(self) -> Any:
        """A figure of the objective and of the unknowns, relative to the end, over iterations."""
        from kinesym.runtime.results.plot import plot_history

        return plot_history(self)

    # -- files ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything to a netCDF file, one group per trial; an older one stays until this one
        is whole."""
        import xarray as xr  # here: slow to import

        story = {
            name: getattr(self, name)
            for name in ("success", "message", "objective", "condition", "optimizer", "model")
        }
        story |= {
            name: dict(getattr(self, name))
            for name in ("parameters", "known", "initial", "timings")
        }
        story |= {name: list(getattr(self, name)) for name in ("names", "active", "notes")}
        root = xr.Dataset(
            {
                "values": ("unknown", self.values),
                "gradient": ("unknown", self.gradient),
                "covariance": (("unknown", "other"), self.covariance),
                "history_objective": ("step", np.array([s.objective for s in self.history])),
                "history_values": (("step", "unknown"), np.array([s.values for s in self.history])),
            },
            attrs={"kinesym_fit": json.dumps(story)},
        )
        groups = {f"trial_{k}": trial.to_xarray() for k, trial in enumerate(self.trials)}
        save_result(xr.DataTree.from_dict({"/": root, **groups}), path)

    @classmethod
    def load(cls, path: str | Path) -> Fit:
        """Read what `save` wrote; raises `FileNotFoundError`, and `ValueError` if the file is
        damaged or something else."""
        with saved_result(path, "Fit") as tree:
            story = json.loads(tree.attrs["kinesym_fit"])
            arrays: dict[str, Any] = {
                name: tree[name].to_numpy() for name in ("values", "gradient", "covariance")
            }
            steps = zip(
                tree["history_objective"].to_numpy(), tree["history_values"].to_numpy(), strict=True
            )
            history = [Step(float(J), q) for J, q in steps]
            count = len(tree.children)
            trials = [Trajectory.from_xarray(tree[f"trial_{k}"].to_dataset()) for k in range(count)]
            return cls(trials=trials, history=history, **arrays, **story)
