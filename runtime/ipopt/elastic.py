"""The least that must give so that conditions can be met: nonlinear programs with slacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Bounds, IpoptProblem, Solved, Start, evaluate
from kinesym.runtime.ipopt.solve import SolverOptions, solve
from kinesym.runtime.native import BORDER
from kinesym.runtime.sparse.structure import Extended

Index = NDArray[np.intp]

#: Iterations of IPOPT, at most.
_MOST = 500
#: Tolerance of IPOPT, in sizes of conditions [-].
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Slack:
    """Smallest violation of some constraints.

    gives : by which each must be relaxed, in its unit, positive if its value is too small. z :
    point at which the sum is smallest. found : end of the solve by IPOPT.
    """

    gives: Array
    z: Array
    found: Solved


@dataclass(frozen=True)
class Side:
    """The lower or the upper bound of some variables that is moved by one amount for all of them.
    places : their numbers, (k,). which : -1 for the lower, 1 for the upper. size : unit in which
    its change is measured."""

    places: Index
    which: int
    size: float


def least_slack(
    problem: IpoptProblem, z: Array, rows: Index, sizes: Array, deadline: float = math.inf
) -> Slack:
    """Minimise the sum of the absolute violations of some conditions, in their sizes, with all
    others as they are (exact penalty: Nocedal, Wright, Numerical Optimization, section 17.2). Few
    conditions are violated then, as an absolute value has a kink at zero.

    z : where to begin, (n,). rows : numbers of the conditions, (k,); sizes : units in which their
    violations are measured, (k,). deadline : see `SolverOptions`.
    """
    (n, m), k = problem.sizes, len(rows)
    low, high = problem.constraint_bounds
    values = np.empty(m)
    evaluate(problem.callbacks.constraints, z, np.zeros(m), 1.0, values)
    short = np.maximum(low - values, 0.0)[rows] + 1e-2 * sizes
    over = np.maximum(values - high, 0.0)[rows] + 1e-2 * sizes
    entries = (np.repeat([1.0, -1.0], k), (np.tile(rows, 2), n + np.arange(2 * k)))
    terms = coo_array(entries, shape=(m, n + 2 * k))
    elastic = _Elastic(problem, terms, np.tile(1.0 / sizes, 2))
    found = elastic.solved(np.concatenate([z, short, over]), deadline)
    return Slack(found.z[n : n + k] - found.z[n + k :], found.z[:n], found)


def least_widening(problem: IpoptProblem, z: Array, sides: Sequence[Side]) -> tuple[Array, Solved]:
    """Smallest widening of bounds, each by one amount, so that all constraints can be met,
    (sides,), and the end of the solve by IPOPT: the least sum, in sizes. z : start, (n,)."""
    (n, m), k = problem.sizes, len(sides)
    bounds = [side.copy() for side in problem.bounds]
    variables = np.concatenate([side.places for side in sides])
    owners = np.repeat(np.arange(k), [len(side.places) for side in sides])
    signs = np.array([-float(side.which) for side in sides])[owners]
    limits = np.where(signs > 0.0, bounds[0][variables], bounds[1][variables])
    for side in sides:
        bounds[side.which > 0][side.places] = side.which * np.inf
    rows = m + np.arange(len(variables))
    entries = np.concatenate([signs, np.ones(len(rows))])
    places = (np.tile(rows, 2), np.concatenate([variables, n + owners]))
    terms = coo_array((entries, places), shape=(m + len(rows), n + k))
    weights = np.array([1.0 / side.size for side in sides])
    wider = replace(problem, bounds=(bounds[0], bounds[1]))
    more = (signs * limits, np.full(len(rows), np.inf))
    found = _Elastic(wider, terms, weights, more).solved(
        np.concatenate([z, [side.size for side in sides]]), math.inf
    )
    return found.z[n:], found


class _Elastic:
    """The program of z and slacks s >= 0: minimise w s with linear terms A (z, s) added to the
    constraints c(z), behind which are `more` that have nothing but these terms."""

    def __init__(
        self, base: IpoptProblem, terms: coo_array, weights: Array, more: Bounds | None = None
    ) -> None:
        self._base, self._terms, self._weights = base, terms, weights
        self._matrix, self._more = terms.tocsr(), more
        self._n, self._m = base.sizes
        jacobian, hessian = base.structures
        none = np.zeros(0, dtype=np.intp)
        self._structures = (
            Extended(jacobian, terms.row, terms.col),
            Extended(hessian, none, none),
        )

    def solved(self, start: Array, deadline: float) -> Solved:
        """Solve the elastic problem from z and s."""
        settings = {"max_iter": _MOST, "tol": _TOLERANCE, "mu_strategy": "adaptive"}
        chosen = SolverOptions(settings, deadline=deadline)
        return solve(self._problem, Start(start), chosen, lambda iteration: None)

    @property
    def _problem(self) -> IpoptProblem:
        """Elastic problem for IPOPT, with slacks as further variables."""
        slack = np.zeros(len(self._weights))
        low, high = self._base.bounds
        below, above = self._base.constraint_bounds
        if self._more is not None:
            below, above = map(np.concatenate, zip((below, above), self._more, strict=True))
        return replace(
            self._base,
            callbacks=self,
            structures=self._structures,
            bounds=(np.concatenate([low, slack]), np.concatenate([high, slack + np.inf])),
            constraint_bounds=(below, above),
            stages=np.concatenate([self._base.stages, self._last_stages()]).astype(np.int32),
        )

    def _last_stages(self) -> NDArray[np.int32]:
        """Stage of each slack (slacks,): the last one of the variables in its constraint; slacks in
        several constraints belong to no stage."""
        jacobian, stages = self._structures[0], self._base.stages
        rows, columns = jacobian.arrays()
        own = columns < self._n
        last = np.full(self._matrix.shape[0], stages.min(initial=0), dtype=np.int32)
        np.maximum.at(last, rows[own], stages[columns[own]])
        slack = self._matrix[:, self._n :].tocsc()
        alone = np.diff(slack.indptr) == 1
        found = np.full(len(self._weights), BORDER, dtype=np.int32)
        found[alone] = last[slack.indices[slack.indptr[:-1][alone]]]
        return found

    def cost(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Write the cost."""
        out[0] = self._weights @ z[self._n :]

    def gradient(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Write the gradient."""
        out[: self._n] = 0.0
        out[self._n :] = self._weights

    def constraints(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Write the constraints."""
        base = self._base.callbacks.constraints
        evaluate(base, z[: self._n].copy(), multipliers[: self._m], factor, out[: self._m])
        out[self._m :] = 0.0
        out += self._matrix @ z

    def jacobian(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Write the values of the Jacobian."""
        own, base = out[: len(out) - self._terms.nnz], self._base.callbacks.jacobian
        evaluate(base, z[: self._n].copy(), multipliers[: self._m], factor, own)
        out[len(own) :] = self._terms.data

    def hessian(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Write the Hessian of the Lagrangian without the objective."""
        base = self._base.callbacks.hessian
        evaluate(base, z[: self._n].copy(), multipliers[: self._m].copy(), 0.0, out)
