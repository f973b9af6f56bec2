"""The least that must give so that conditions can be met: a nonlinear program with slacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved, Start, evaluate
from kinesym.runtime.ipopt.solve import SolverOptions, solve
from kinesym.runtime.nlp.sparsity import Extended

Index = NDArray[np.intp]

#: Iterations of IPOPT; its tolerance, in sizes of conditions.
_MOST, _TOLERANCE = 500, 1e-7


@dataclass(frozen=True)
class Slack:
    """What is the least that some conditions must give. gives : of each, in its unit, positive
    where its value is too small. z : where that is so. found : how IPOPT ended."""

    gives: Array
    z: Array
    found: Solved


def least_slack(
    problem: IpoptProblem, z: Array, rows: Index, sizes: Array, deadline: float = math.inf
) -> Slack:
    """Minimise the sum of the absolute values of what conditions are off, in their sizes, with all
    others as they are (exact penalty: Nocedal, Wright, Numerical Optimization, section 17.2). Few
    conditions are off then, as an absolute value has a kink at zero.

    z : where to begin, (n,). rows : numbers of the conditions, (k,); sizes : of what counts as one
    in them, (k,). deadline : see `SolverOptions`.
    """
    elastic = _Elastic(problem, rows, 1.0 / sizes)
    low, high = problem.constraint_bounds
    values = np.empty(problem.sizes[1])
    evaluate(problem.callbacks.constraints, z, np.zeros(values.size), 1.0, values)
    short = np.maximum(low - values, 0.0)[rows] + 1e-2 * sizes
    over = np.maximum(values - high, 0.0)[rows] + 1e-2 * sizes
    settings = {"max_iter": _MOST, "tol": _TOLERANCE, "mu_strategy": "adaptive"}
    chosen = SolverOptions(settings, deadline=deadline)
    start = Start(np.concatenate([z, short, over]))
    found = solve(elastic.problem, start, chosen, lambda iteration: None)
    n, k = len(z), len(rows)
    gives = found.z[n : n + k] - found.z[n + k :]
    return Slack(gives, found.z[:n], found)


class _Elastic:
    """The program of z, p, q >= 0: minimise sum w (p + q) with c + p - q for the rows of c."""

    def __init__(self, base: IpoptProblem, rows: Index, weights: Array) -> None:
        self._base, self._rows, self._weights = base, rows, weights
        self._n, self._k = base.sizes[0], len(rows)
        jacobian, hessian = base.structures
        more = np.arange(self._k)
        columns = np.concatenate([self._n + more, self._n + self._k + more])
        self._structures = (
            Extended(jacobian, np.concatenate([rows, rows]), columns),
            Extended(hessian, np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)),
        )

    @property
    def problem(self) -> IpoptProblem:
        """For IPOPT."""
        low, high = self._base.bounds
        zeros, far = np.zeros(2 * self._k), np.full(2 * self._k, np.inf)
        stages = np.concatenate([self._base.stages, *2 * [self._last_stages()]])
        return replace(
            self._base,
            callbacks=self,
            structures=self._structures,
            bounds=(np.concatenate([low, zeros]), np.concatenate([high, far])),
            stages=stages.astype(np.int32),
        )

    def _last_stages(self) -> NDArray[np.int32]:
        """Of the variables in each condition that gives (k,)."""
        jacobian, stages = self._base.structures[0], self._base.stages
        rows, columns = np.empty((2, jacobian.size), dtype=np.intp)
        jacobian.fill(rows, columns)
        last = np.full(self._base.sizes[1], stages.min(initial=0), dtype=np.int32)
        np.maximum.at(last, rows, stages[columns])
        return last[self._rows]

    def cost(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Writes it."""
        slack = z[self._n :].reshape(2, self._k)
        out[0] = self._weights @ slack.sum(axis=0)

    def gradient(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Writes it."""
        out[: self._n] = 0.0
        out[self._n :] = np.tile(self._weights, 2)

    def constraints(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Writes them."""
        evaluate(self._base.callbacks.constraints, z[: self._n].copy(), multipliers, factor, out)
        slack = z[self._n :].reshape(2, self._k)
        out[self._rows] += slack[0] - slack[1]

    def jacobian(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Writes its values."""
        own = out[: len(out) - 2 * self._k]
        evaluate(self._base.callbacks.jacobian, z[: self._n].copy(), multipliers, factor, own)
        out[len(own) : len(own) + self._k], out[len(own) + self._k :] = 1.0, -1.0

    def hessian(self, z: Array, multipliers: Array, factor: float, out: Array) -> None:
        """Writes that of the constraints alone."""
        evaluate(self._base.callbacks.hessian, z[: self._n].copy(), multipliers, 0.0, out)
