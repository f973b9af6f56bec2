"""Results of collocation: solutions with trajectories, figures and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.progress import Iteration, counted
from kinesym.runtime.results.diagnostics import Diagnostics
from kinesym.runtime.results.grid_error import GridError
from kinesym.runtime.results.plot import convergence
from kinesym.runtime.results.saved import UNSAVED
from kinesym.runtime.results.trajectory import KINDS, Trajectory
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.results.why import Why
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed

if TYPE_CHECKING:
    import xarray as xr

#: Error of a grid, as a share, with which a solution is none.
_WRONG = 0.25
#: Error of a grid, as a share, with which one that is acceptable only is none.
_DOUBTED = 0.05

Variables: TypeAlias = Annotated[Array, "variable"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Solution(Trials):
    """Solution of `Collocation.solve`; see `Trials`. NaN marks undetermined values of trajectories;
    `notes` says why.

    multipliers : of the constraints, and of lower and upper bounds. linear_solver : which one was
    used, and why if it was not the time-structured one. factorisations : by that one, with those
    that were refused for their inertia. timings : seconds to derive, compile, evaluate, about as
    many of these in kernels that were interpreted, in the linear solver, in total. problem : sizes
    and names. reasons : finds why there is no solution, for `why`.
    """

    multipliers: Annotated[Array, "constraint"]
    lower_multipliers: Variables
    upper_multipliers: Variables
    history: Sequence[Iteration]
    linear_solver: str = ""
    factorisations: int = 0
    grid: Sequence[GridError] = ()
    problem: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""
    reasons: Callable[[], Why] | None = field(default=None, metadata=UNSAVED)

    def joined(self) -> Trajectory:
        """Trajectory of all trials, phases of one motion, one after the other: there are two nodes
        at the same time between phases, or a gap where the times that were given have one. Phases
        that do not begin later than the one before ends are moved to there."""
        trials, end = [], -np.inf
        for trial in self.trials:
            begin = max(float(trial.time[0]), end)
            trials.append(replace(trial, time=trial.time - trial.time[0] + begin))
            end = float(trials[-1].time[-1])
        groups: dict[str, Any] = {
            kind: {
                name: np.concatenate([getattr(trial, kind)[name] for trial in trials])
                for name in getattr(trials[0], kind)
            }
            for kind in KINDS
        }
        time = np.concatenate([trial.time for trial in trials])
        return replace(trials[0], time=time, measurements={}, std={}, samples={}, **groups)

    def why(self) -> Why:
        """Causes that keep the problem from a solution, the likeliest first: conditions that
        contradict each other with the least violation, active bounds, violated constraints. It
        solves for the least violation, see `kinesym.runtime.ipopt.elastic.least_slack`. Raises
        `ValueError` for a result that was loaded: `problem.why(solution)`."""
        if self.reasons is None:
            raise ValueError(
                "this result was loaded or copied and has no problem to ask; "
                "use problem.why(solution)"
            )
        return replace(self.reasons(), head=f"{self.model}: {self.message}")

    def plot_convergence(self) -> Any:
        """Figure of the objective, of the largest violation and of the optimality over the
        iterations."""
        return convergence(self.history, f"{self.model}: {self.status.value}")

    def grid_error(self) -> GridError:
        """Discretisation error of this solution: local errors, and to first order the shifts of all
        parameters, trajectories and the objective. Raises `ValueError` without convergence."""
        if not self.grid:
            raise ValueError(f"the error of the grid is known of solutions only: {self.message}")
        return self.grid[0]

    def diagnostics(self) -> Diagnostics:
        """Residual diagnostics as of `Trials`. With process noise whiteness is not tested:
        residuals of trajectories that follow the samples are never white."""
        found = super().diagnostics()
        if np.isnan(self.log_likelihood) or not self.problem.get("held"):
            return found
        checks = [replace(check, white=np.nan) for check in found.checks]
        return replace(found, checks=checks)

    @property
    def _last(self) -> Sequence[str]:
        return list(self.problem.get("histories", ()))

    def _shifts(self) -> Mapping[str, float]:
        return self.grid[0].parameters if self.grid else {}

    def _how(self) -> list[tuple[str, str]]:
        scheme = [("scheme", str(self.problem["scheme"]))] if "scheme" in self.problem else []
        return [*scheme, *super()._how()]

    def _rows(self) -> list[tuple[str, str]]:
        grid = [("grid", str(error)) for error in self.grid]
        why = [("why", "see solution.why()")] if self.reasons and not self.success else []
        durations = [float(T) for T in self.problem.get("durations", ())]
        whole = f", {sum(durations):.6g} s in all" if len(durations) > 1 else ""
        if durations:
            why.append(("duration", f"{listed(f'{T:.6g}' for T in durations)} s{whole}"))
        drift = self.problem.get("contact drift")
        held = f"closed ones stay in place at all nodes, within {drift or 0.0:.2g} m"
        contacts = [] if drift is None else [("contacts", held)]
        return [*why, *super()._rows(), *contacts, *grid, ("solver", self.linear_solver)]

    def to_xarray(self, trial: int = 0) -> xr.Dataset:
        """A trial, see `Trajectory.to_xarray`; how the solve ended as its attributes `success` (0
        or 1), `message` and `objective`."""
        told = {"success": int(self.success), "objective": float(self.objective)}
        return self.trials[trial].to_xarray().assign_attrs(told, message=self.message)


def resolved(found: Solution) -> Solution:
    """Solution marked as not converged if its grid is too coarse to show the motion, see
    `GridError.drowns`; with a lower limit for one that meets loose tolerances only."""
    if not (found.success and found.grid):
        return found
    words = found.grid[0].drowns(_DOUBTED if found.status is Solve.ACCEPTABLE else _WRONG)
    if not words:
        return found
    message = f"{Solve.UNRESOLVED.sentence}: {words}; give another guess, or more nodes"
    return replace(found, status=Solve.UNRESOLVED, message=message)


def after(before: Solution, later: Solution) -> Solution:
    """The later of two solutions, with iterations and seconds of both."""
    begin = before.iterations
    moved = [replace(s, number=s.number + begin) for s in later.history if s.number]
    names = [name for name in later.timings if name not in ("derive", "compile")]
    spent = {name: later.timings[name] + before.timings.get(name, 0.0) for name in names}
    spent["total"] -= later.timings["derive"] + later.timings["compile"]
    made = replace(
        later,
        history=[*before.history, *moved],
        factorisations=before.factorisations + later.factorisations,
        timings={**later.timings, **spent},
    )
    was, now = counted(later.iterations), counted(made.iterations)
    return replace(made, message=later.message.replace(was, now, 1))
