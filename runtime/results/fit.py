"""Results of shooting: estimates, their uncertainty, the history, pictures, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np

from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.results.estimate_error import EstimateError
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.trajectory import Trajectory, Values
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.summary import listed

#: Mean square of residuals over given standard deviations up to which they are noise.
_NOISE = 2.0

Unknowns: TypeAlias = Annotated[Array, "unknown"]


def vector_of_guess(guess: Any, names: Sequence[str]) -> Array:
    """Guess of all unknowns as an array (n,); raises `ValueError` for other shapes or types."""
    q = np.atleast_1d(real_array(guess, "the guess, if it is no mapping of names to values,"))
    if q.shape != (len(names),):
        raise ValueError(
            f"the guess has shape {q.shape}, but there are {len(names)} unknowns ({listed(names)})"
        )
    return q


def typical_sizes(q: Array, bounds: tuple[Array, Array]) -> Array:
    """Typical size of each unknown, (n,): the guess, else the width of the bounds, else 1."""
    low, high = bounds
    width = np.where(np.isfinite(high - low), high - low, 1.0)
    return np.where(q != 0.0, np.abs(q), np.where(width > 0.0, width, 1.0))


def as_noisy(found: Trajectory, given: Experiment, name: str) -> bool:
    """Whether residuals of a measurement are about as large as its given standard deviation: then
    they are noise."""
    rows = found.residuals().get(name)
    told = name in given.std and name not in given.estimated_std
    return told and rows is not None and float(np.nanmean(rows**2)) < _NOISE


def poor_fits(found: Sequence[Trajectory], given: Sequence[Experiment]) -> list[str]:
    """Sentences on measurements of which a trajectory explains less than half, and whose residuals
    exceed their noise."""
    return [
        f"{name} of trial {k} does not follow its samples (VAF {percent:.0f} %): "
        "much noise, or a local minimum"
        for k, (trial, experiment) in enumerate(zip(found, given, strict=True))
        for name, percent in trial.vaf().items()
        if percent < 50.0 and not as_noisy(trial, experiment, name)
    ]


@dataclass(frozen=True)
class Step:
    """Iterate of a fit: the objective and the unknowns."""

    objective: float
    values: Array


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Fit(Trials):
    """Fit of `Shooting.solve`; see `Trials`.

    `fit.parameters["p"]` is an estimate, `fit.initial["theta"]` that of an initial state, a list
    with one per trial if there are several. names : of all unknowns (n,). history : the objective
    and their values. gradient : of the objective at the end, (n,). condition : number of the
    problem in unknowns divided by their values, states by their largest.
    """

    initial: Mapping[str, Any]
    names: Sequence[str]
    gradient: Unknowns
    history: Sequence[Step]
    condition: float
    optimizer: str = ""
    grid: Sequence[EstimateError] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "initial", Values(self.initial))

    @property
    def values(self) -> Array:
        """Values of all unknowns, (n,), as `names` has them."""
        return self.free_vector

    def _shifts(self) -> Mapping[str, float]:
        return self.grid[0].shifts if self.grid else {}

    def grid_error(self) -> EstimateError:
        """Shifts of the estimates by the steps of the simulations (discretisation error): the
        Newton step to the minimum with finer steps, by the curvature at this one (see
        `EstimateError`).

        Raises `ValueError` without convergence, and if the curvature is not known, as for many
        unknowns of an objective that is no sum of squares, and for samples of inputs.
        """
        if not self.grid:
            raise ValueError(
                "the shift of the estimates is known of fits that have converged and have a "
                f"curvature: {self.message}, {len(self.names)} unknowns by {self.optimizer}"
            )
        return self.grid[0]

    @property
    def _heading(self) -> str:
        return f"{super()._heading}, {self.iterations} iterations of {self.optimizer}"

    def _estimates(self) -> list[tuple[str, str]]:
        """Rows of the estimates, initial states and samples of inputs included."""
        errors = self.standard_errors()
        others = list(zip(self.names, self.values, strict=True))[len(self.parameters) :]
        return [
            *super()._estimates(),
            *((name, f"{v:.6g}" + _or_less(errors[name])) for name, v in others),
        ]

    def _how(self) -> list[tuple[str, str]]:
        method = self.setting.get("method", "")
        return [("method", method), *super()._how()] if method else super()._how()

    def _rows(self) -> list[tuple[str, str]]:
        active = [("at a bound", ", ".join(self.active))] if self.active else []
        grid = [("grid", str(error)) for error in self.grid if error.matters]
        condition = ("condition", f"{self.condition:.3g} (scaled)")
        return [condition, *active, *super()._rows(), *grid]

    def plot_history(self) -> Any:
        """Figure of the objective and of the unknowns, relative to the end, over iterations."""
        figure, axes = subplots(2, 1, sharex=True, figsize=(7, 5))
        top, bottom = axes
        top.semilogy([step.objective for step in self.history], "k.-", lw=1)
        top.set_ylabel("objective J")
        values = np.array([step.values for step in self.history])
        scale = np.where(self.values != 0.0, self.values, 1.0)
        for k, name in enumerate(self.names[:12]):
            bottom.plot(values[:, k] / scale[k], ".-", lw=1, label=plain(name))
        bottom.legend(loc="best", ncols=3, fontsize="small")
        bottom.set_ylabel("value / last value")
        bottom.set_xlabel("iteration")
        figure.suptitle(plain(f"{self.model}: {self.optimizer}"), x=0.02, ha="left")
        return figure


def _or_less(error: float) -> str:
    """Standard error as text, empty if not known."""
    return "" if np.isnan(error) else f" +- {error:.2g}"
