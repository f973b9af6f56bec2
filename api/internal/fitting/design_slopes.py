"""Derivatives of what a design makes small, by courses of inputs and starts: one adjoint each.

The inputs that are free are unknown ones of a problem beside the given one, whose covariance has
them fixed. How that changes with the motion and the inputs is told by second derivatives of the
constraints along solutions with the matrix of Karush, Kuhn and Tucker; how the motion changes with
inputs and starts, by one solution with the matrix by which it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from kinesym.internal.fitting.assumed_motion import motion_stiffness, sizes_that_move
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.planned import (
    CollocationPlan,
    shares_beyond,
)
from kinesym.internal.problems.formulation import formulate
from kinesym.runtime.arrays import Array
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.bounds import entries_of
from kinesym.runtime.results.bootstrap import Record, noiseless, remeasured
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.planned import undriven
from kinesym.runtime.statistics.criteria import Criterion
from kinesym.runtime.statistics.factors import Entries
from kinesym.runtime.statistics.kkt import Kkt

#: Step by which outputs are moved, in the sizes of the motion.
_STEP = 1e-4
#: Distance of the covariance of both problems, as a share, up to which they are the same.
_SAME = 1e-5


@dataclass(frozen=True, eq=False)
class DesignSlopes:
    """A problem whose free inputs are unknown. names : of these."""

    problem: Discretisation
    names: Collection[str]
    workspaces: tuple[Workspace, Workspace] = field(
        default_factory=lambda: (Workspace(), Workspace())
    )

    @staticmethod
    def of(given: Discretisation, names: Collection[str]) -> DesignSlopes | None:
        """Derivatives for a problem; None where its objective is more than squares of residuals, or
        its motion does not follow from starts and inputs alone."""
        asked, estimation = given.formulation.question, given.estimation
        free = any(trial.free_duration for trial in given.trials)
        linked = given.symbolic.links or given.symbolic.cycle or given.nlp.lags is not None
        moving = any(trial.std_expressions for trial in given.trials)
        if estimation.mixed or estimation.integrated or free or linked or moving:
            return None
        if not isinstance(asked.unknown_inputs, Mapping | None):
            return None
        inputs = {**(asked.unknown_inputs or {}), **dict.fromkeys(names)}
        trials = [undriven(trial, names) for trial in given.trials]
        try:
            question = replace(asked, trials=trials, unknown_inputs=inputs)
            made = Discretisation.of(*formulate(question), given.threads)
        except ValueError:
            return None
        return DesignSlopes(made, names)

    # -- one motion ---------------------------------------------------------------------------

    def at(self, plan: CollocationPlan) -> Array:
        """The free vector of a plan, with its inputs."""
        problem, z = self.problem, np.zeros(self.problem.n_variables)
        for k, trial in enumerate(plan.trials):
            rows = plan.problem.layout.named_rows(plan.z, k)
            own = {(name, place): row for name, place, row in rows}
            for name, place, row in problem.layout.named_rows(z, k):
                if name in self.names:
                    row[:] = _between(trial.inputs[name], place)
                else:
                    row[:] = own[name, place]
        problem.layout.parameter_values(z)[:] = plan.problem.layout.parameter_values(plan.z)
        return z

    def agrees(self, plan: CollocationPlan) -> bool:
        """Whether a plan has the same motion, covariance and limits here."""
        if not plan.held:
            return False
        try:
            z, expected = self.at(plan), plan.told()[0]
        except (ValueError, KeyError):
            return False
        size, (low, high) = np.abs(z).max(initial=1.0), self.problem.constraint_bounds
        off = np.where(low == high, self.problem.constraints(z) - low, 0.0)
        moved = np.abs(off).max(initial=0.0) > _SAME * size
        if moved or abs(self.excess(z)[0] - plan.excess) > _SAME * plan.excess:
            return False
        kkt = self._of_fit(z, plan)
        if kkt.singular or not np.isfinite(expected).all():
            return False
        found = self._solved(kkt, z)[1]
        return bool(np.allclose(found, expected, rtol=_SAME, atol=_SAME * np.abs(expected).max()))

    def of_criterion(self, z: Array, plan: CollocationPlan, criterion: Criterion) -> Array:
        """Derivatives (n,) of the criterion by the motion and the inputs, each for itself.

        From K S = E, the columns of the parameters, the covariance C = 2 E' S changes by
        dC = -2 S' dK S.
        """
        problem, n = self.problem, self.problem.n_variables
        kkt = self._of_fit(z, plan)
        if kkt.singular:
            return np.zeros(n)
        solved, covariance = self._solved(kkt, z)
        scale = problem.layout.parameter_slopes(z)
        slopes = criterion(covariance, plan.told()[1])[1] * np.outer(scale, scale)
        ways, pushes = solved[:n], solved[n:] @ slopes
        (i, j), found = problem.nlp.hessian_structure.arrays(), np.zeros(n)
        off, bends = i != j, self._bends(z, plan, ways @ slopes)
        for k in np.flatnonzero(np.abs(slopes).max(axis=0)):
            push = np.ascontiguousarray(pushes[:, k])
            values = problem.nlp.hessian(z, push, 0.0) + bends(int(k))
            found += np.bincount(i, values * ways[j, k], n)
            found += np.bincount(j[off], (values * ways[i, k])[off], n)
        return -4.0 * found

    def excess(self, z: Array) -> tuple[float, Array]:
        """Excess of a motion over its limits, as of a plan, and its derivatives (n,)."""
        problem, n = self.problem, self.problem.n_variables
        bounds, sides = problem.variable_bounds, problem.constraint_bounds
        low, high = (np.append(*pair) for pair in zip(bounds, sides, strict=True))
        values = np.append(z, problem.constraints(z))
        share = np.where(low < high, shares_beyond(values, (low, high)), 0.0)
        off = np.maximum(low - values, values - high)
        slopes = np.where(values > high, 2.0, -2.0) * share**2 / np.where(share > 0.0, off, 1.0)
        found, total = np.zeros(len(share)), 0.0
        for group in self._groups():
            total += float(np.mean(share[group] ** 2)) if len(group) else 0.0
            found[group] = slopes[group] / max(len(group), 1)
        return total, found[:n] + _jacobian(problem, z).T @ found[n:]

    def total(self, z: Array, partial: Array) -> Array:
        """Derivatives (n,) by inputs and starts, with which the motion follows, from those by each
        entry of z for itself."""
        problem, n, m = self.problem, self.problem.n_variables, self.problem.n_constraints
        stiffness = motion_stiffness(problem, z, held=True)
        stiffness[self._fixed] = np.inf
        i, j = problem.nlp.hessian_structure.arrays()
        kkt = self._kkt((i, j, np.zeros(len(i))), z, stiffness, self.workspaces[1])
        found = kkt.factorised().solve_all(partial[:, None].copy(), np.zeros((m, 1)))
        return np.asarray(partial - _jacobian(problem, z).T @ found[n:, 0])

    def by_course(self, total: Array, trial: int, name: str) -> Array:
        """Derivatives (N,) by the values of an input at the nodes."""
        found = np.zeros(self.problem.trials[trial].n_nodes)
        for own, place, row in self.problem.layout.named_rows(total, trial):
            if own == name and place is None:
                found += row
            elif own == name and place is not None:
                found[:-1] += (1.0 - place) * row
                found[1:] += place * row
        return found

    def by_start(self, total: Array, trial: int, name: str) -> float:
        """Derivative by the start of a state."""
        rows = self.problem.layout.named_rows(total, trial)
        return next(float(row[0]) for own, place, row in rows if own == name and place is None)

    # -- matrices -----------------------------------------------------------------------------

    @cached_property
    def _fixed(self) -> NDArray[np.bool_]:
        """Entries of the inputs that are free, which neither the fit nor the motion finds."""
        layout = self.problem.layout
        return entries_of(layout, [self.names] * len(layout.nodes))

    def _groups(self) -> Iterator[NDArray[np.intp]]:
        """Places of each bound and condition that may be passed, in z and the constraints."""
        problem, n = self.problem, self.problem.n_variables
        every = np.arange(n + problem.n_constraints)
        for k in range(len(problem.trials)):
            for name, place, row in problem.layout.named_rows(every[:n], k):
                if place is None or name not in problem.layout.at_nodes:
                    yield row
        for _, _, _, here in problem.layout.constraint_rows():
            yield every[n:][here]

    def _trials(self, plan: CollocationPlan) -> list[Experiment]:
        return [undriven(trial, self.names) for trial in plan.trials]

    def _of_fit(self, z: Array, plan: CollocationPlan) -> Kkt:
        """The matrix of the fit of a plan, with its inputs fixed, by Gauss and Newton."""
        problem, none = self.problem, np.zeros(self.problem.n_constraints)
        nlp = problem.nlp_with(problem.gauss_newton, self._trials(plan), {})
        hessian = (*nlp.hessian_structure.arrays(), nlp.hessian(z, none, 1.0))
        stiffness = np.where(np.equal(*problem.variable_bounds) | self._fixed, np.inf, 0.0)
        stiffness[[end.place for end in problem.ends.values() if not end.determined]] = np.inf
        return self._kkt(hessian, z, stiffness, self.workspaces[0])

    def _kkt(self, hessian: Entries, z: Array, stiffness: Array, workspace: Workspace) -> Kkt:
        problem = self.problem
        jacobian = (*problem.nlp.jacobian_structure.arrays(), problem.nlp.jacobian(z))
        softness = np.where(np.equal(*problem.constraint_bounds), 0.0, np.inf)
        about = (stiffness, softness, problem.layout.stages())
        return Kkt(hessian, jacobian, *about, workspace=workspace)

    def _solved(self, kkt: Kkt, z: Array) -> tuple[Array, Array]:
        """Columns (n + m, r) of the inverse for the parameters, and their covariance (r, r)."""
        layout, r = self.problem.layout, len(self.problem.layout.parameters)
        mine = layout.parameter_offset + np.arange(r)
        unit = np.zeros((len(kkt.stiffness), r))
        unit[mine, np.arange(r)] = 1.0
        found = kkt.factorised().solve_all(unit, np.zeros((len(kkt.softness), r)))
        scale = layout.parameter_slopes(z)
        return found, 2.0 * found[mine] * np.outer(scale, scale)

    def _bends(self, z: Array, plan: CollocationPlan, ways: Array) -> Callable[[int], Any]:
        """Values of the Hessian that residuals have by their second derivatives, if they were what
        each way (n, r) makes of them; zero of residuals that are linear.

        The Hessian of the squares is linear in the record, which is moved along each way.
        """
        problem, none = self.problem, np.zeros(self.problem.n_constraints)
        trials, record = self._trials(plan), noiseless(problem.trajectories(z))

        def hessian(rows: Record) -> Array:
            nlp = problem.nlp_with(problem.nlp, remeasured(trials, rows), {})
            return nlp.hessian(z, none, 1.0)

        still = hessian(record)
        if np.array_equal(still, hessian({key: row + 1.0 for key, row in record.items()})):
            return lambda k: 0.0
        sizes = sizes_that_move(problem, z)

        def bends(k: int) -> Array:
            share = np.abs(ways[:, k][sizes > 0.0] / sizes[sizes > 0.0]).max()
            step = _STEP / share
            up, down = (noiseless(problem.trajectories(z + s * ways[:, k])) for s in (step, -step))
            moved = {y: record[y] - (up[y] - down[y]) / (2.0 * _STEP) for y in record}
            return (hessian(moved) - still) * share

        return bends


def _between(row: Array, place: float | None) -> Array:
    """Values (N,) at the nodes, or (N - 1,) at a place between them."""
    return row if place is None else (1.0 - place) * row[:-1] + place * row[1:]


def _jacobian(problem: Discretisation, z: Array) -> coo_array:
    shape = (problem.n_constraints, problem.n_variables)
    return coo_array((problem.nlp.jacobian(z), problem.nlp.jacobian_structure.arrays()), shape)
