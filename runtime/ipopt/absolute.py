"""Nonlinear programs with absolute values in their cost, solved exactly: with both parts of each.

A term w |e(z)| is w (p + n) with e(z) = p - n and p, n >= 0, of which one is zero at a minimum. The
parts are variables of the time of their term, so that the matrix stays banded, and the interior
point smooths kinks as much as its barrier, which vanishes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved, Start, evaluate
from kinesym.runtime.ipopt.solve import SolverOptions, solve
from kinesym.runtime.progress import Iteration
from kinesym.runtime.sparse.structure import Extended

#: Share of the median of |e| at the start, at least of w |e| = 1, by which both parts begin apart
#: from zero.
_APART = 0.1


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms w |e| of a cost: weights (k,), and e (k,) and its derivatives (k, n) as functions of z,
    the latter at places (rows, columns) alone."""

    weights: Array
    places: tuple[NDArray[np.intp], NDArray[np.intp]]
    values: Callable[[Array], Array]
    slopes: Callable[[Array], csr_array]

    def joined(self, other: Terms) -> Terms:
        """Terms of both, the others last."""
        if not len(other.weights) or not len(self.weights):
            return self if len(self.weights) else other
        (rows, columns), (more, at) = self.places, other.places
        return Terms(
            np.append(self.weights, other.weights),
            (np.append(rows, more + len(self.weights)), np.append(columns, at)),
            lambda z: np.append(self.values(z), other.values(z)),
            lambda z: csr_array(vstack([self.slopes(z), other.slopes(z)])),
        )


_NOWHERE = np.zeros(0, dtype=np.intp)
#: No terms.
NO_TERMS = Terms(
    np.zeros(0),
    (_NOWHERE, _NOWHERE),
    lambda z: np.zeros(0),
    lambda z: csr_array((0, len(z))),
)


def solve_absolute(
    problem: IpoptProblem,
    terms: Terms,
    start: Start,
    chosen: SolverOptions,
    report: Callable[[Iteration], None],
) -> Solved:
    """Solve as `solve` a problem whose cost has these terms, with the second derivatives that they
    have away from zero. Multipliers of a start are not used."""
    made = _Absolute(problem, terms)
    e, (n, m) = terms.values(start.z), problem.sizes
    apart = _APART * np.maximum(float(np.median(np.abs(e))), 1.0 / terms.weights)
    parts = np.concatenate([np.maximum(e, 0.0) + apart, np.maximum(-e, 0.0) + apart])
    found = solve(made.problem, Start(np.concatenate([start.z, parts])), chosen, report)
    rows, low, high = found.multipliers
    z, J = found.z[:n], np.empty(1)
    evaluate(problem.callbacks.cost, z.copy(), rows[:m].copy(), 1.0, J)  # parts end off zero
    own = (rows[:m], low[:n], high[:n])
    return replace(found, z=z, objective=float(J[0]), multipliers=own, workspace=None)


class _Absolute:
    """Callbacks of the program of z, p and n."""

    def __init__(self, base: IpoptProblem, terms: Terms) -> None:
        self._base, self._terms = base, terms
        self._n, self._m = base.sizes
        self._k = len(terms.weights)
        self._rows, self._columns = terms.places

    @cached_property
    def problem(self) -> IpoptProblem:
        """The program for IPOPT."""
        base, k = self._base, self._k
        jacobian, hessian = base.structures
        i, none = np.arange(k), np.zeros(0, dtype=np.intp)
        rows = self._m + np.concatenate([self._rows, i, i])
        columns = np.concatenate([self._columns, self._n + np.arange(2 * k)])
        (low, high), (below, above) = base.bounds, base.constraint_bounds
        zero, scaling = np.zeros(2 * k), base.scaling
        stages = np.full(k, base.stages.min(initial=0), dtype=np.int32)
        np.maximum.at(stages, self._rows, base.stages[self._columns])
        if scaling is not None:
            scaling = replace(
                scaling,
                variables=np.concatenate([scaling.variables, zero + 1.0]),
                constraints=np.concatenate([scaling.constraints, zero[:k] + 1.0]),
            )
        return replace(
            base,
            callbacks=self,
            structures=(Extended(jacobian, rows, columns), Extended(hessian, none, none)),
            bounds=(np.concatenate([low, zero]), np.concatenate([high, zero + np.inf])),
            constraint_bounds=(
                np.concatenate([below, zero[:k]]),
                np.concatenate([above, zero[:k]]),
            ),
            stages=np.concatenate([base.stages, stages, stages]),
            scaling=scaling,
        )

    def cost(self, x: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Cost: that of z without the terms, and the parts."""
        z, parts = x[: self._n].copy(), x[self._n :]
        self._of_base("cost", z, multipliers, factor, out)
        weights = self._terms.weights
        out[0] += np.tile(weights, 2) @ parts - weights @ np.abs(self._terms.values(z))

    def gradient(self, x: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Gradient of the cost."""
        z, own, weights = x[: self._n].copy(), np.empty(self._n), self._terms.weights
        self._of_base("gradient", z, multipliers, factor, own)
        pull = weights * np.sign(self._terms.values(z))
        out[: self._n] = own - self._terms.slopes(z).T @ pull
        out[self._n :] = np.tile(weights, 2)

    def constraints(self, x: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Constraints of z, and e(z) - p + n."""
        z, k, own = x[: self._n].copy(), self._k, np.empty(self._m)
        self._of_base("constraints", z, multipliers, factor, own)
        p, n = x[self._n : self._n + k], x[self._n + k :]
        out[: self._m], out[self._m :] = own, self._terms.values(z) - p + n

    def jacobian(self, x: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Values of the Jacobian."""
        z, own = x[: self._n].copy(), np.empty(self._base.structures[0].size)
        self._of_base("jacobian", z, multipliers, factor, own)
        slopes = np.asarray(self._terms.slopes(z)[self._rows, self._columns]).ravel()
        out[:] = np.concatenate([own, slopes, np.full(self._k, -1.0), np.ones(self._k)])

    def hessian(self, x: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Hessian of the Lagrangian of z, with terms on the side of zero where they are."""
        own = np.empty(len(out))
        self._of_base("hessian", x[: self._n].copy(), multipliers, factor, own)
        out[:] = own

    def _of_base(self, name: str, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        callback = getattr(self._base.callbacks, name)
        evaluate(callback, z, multipliers[: self._m].copy(), factor, out)
