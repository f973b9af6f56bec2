"""Verification of a solution by simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import chosen, chosen_trial, panels
from kinesym.runtime.results.saved import Saved

PerNode: TypeAlias = Annotated[Array, "node"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Verification(Saved):
    """Simulation with the inputs and parameters of a solution, from its own start.

    time : of the nodes [s]; trial : their trials. solution, simulated : states at the nodes, by
    name, of several trials one after the other; NaN after an early end of a simulation. ranges : of
    the states. segments : number of parts of each trial, each starting from the solution.
    message : why a simulation has ended early.
    """

    time: PerNode
    trial: Annotated[NDArray[np.intp], "node"]
    solution: Mapping[str, PerNode]
    simulated: Mapping[str, PerNode]
    ranges: Mapping[str, float]
    segments: int
    message: str = ""

    @property
    def differences(self) -> dict[str, Array]:
        """Simulated minus solved states, (nodes,) each."""
        return {x: row - self.solution[x] for x, row in self.simulated.items()}

    @property
    def largest(self) -> float:
        """Largest difference as a share of the range of its state."""
        return self._worst[0]

    @property
    def _worst(self) -> tuple[float, str, int]:
        worst = (0.0, "", 0)
        for name, row in self.differences.items():
            shares = np.abs(row) / (self.ranges[name] or 1.0)
            if np.isfinite(shares).any():
                k = int(np.nanargmax(shares))
                worst = max(worst, (float(shares[k]), name, k))
        return worst

    def __str__(self) -> str:
        share, name, k = self._worst
        words = "the simulation follows the solution exactly"
        if share:
            trial = f" of trial {self.trial[k]}" if self.trial.max(initial=0) else ""
            words = (
                f"the simulation leaves the solution by {share:.2g} of the range of {name}, "
                f"at t = {self.time[k]:.6g} s{trial}"
            )
        parts = f", in {self.segments} segments" if self.segments > 1 else ""
        return f"{words}{parts}" + (f"; {self.message}" if self.message else "")

    def __repr__(self) -> str:
        return f"<verification: {self}>"

    def plot(self, names: Sequence[Any] | None = None, trial: int = 0) -> Any:
        """Figure of a trial, one panel per state: solved, and simulated."""
        wanted = chosen(names, self.solution)
        figure, axes = panels(wanted, "Solution and simulation")
        here = self.trial == chosen_trial(trial, len(np.bincount(self.trial)))
        for axis, name in zip(axes, wanted, strict=True):
            [solved] = axis.plot(
                self.time[here], self.solution[name][here], color="C0", lw=2.5, alpha=0.5
            )
            [run] = axis.plot(self.time[here], self.simulated[name][here], color="C3", lw=1.0)
        figure.legend([solved, run], ["solution", "simulation"], loc="outside upper right", ncols=2)
        return figure
