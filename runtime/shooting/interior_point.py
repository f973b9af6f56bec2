"""IPOPT as an optimiser of shooting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, tril

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import IpoptProblem, Start, Watch, run
from kinesym.runtime.ipopt.linear_solver import check_solver
from kinesym.runtime.native import BORDER
from kinesym.runtime.progress import Iteration
from kinesym.runtime.shooting.scaled import Endpoint, Minimisation
from kinesym.runtime.status import Solve


class _Places:
    """Places of the entries of a sparse matrix, a pattern that stays."""

    def __init__(self, pattern: csr_array) -> None:
        self.rows, self.columns = pattern.tocoo().coords
        self.size = len(self.rows)

    def fill(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> None:
        """Write the places into the arrays of IPOPT."""
        rows[:], columns[:] = self.rows, self.columns

    def values(self, matrix: csr_array) -> Array:
        """Values of a matrix at these places."""
        return np.asarray(csr_array(matrix)[self.rows, self.columns]).ravel()


class _Callbacks:
    """Callbacks of the scaled problem for IPOPT; sparse matrices have the structure they have at q.

    Where the objective is a sum of squares, its Hessian is 2 J^T J.
    """

    def __init__(self, problem: Minimisation, q: Array) -> None:
        self.problem, self.trials, self._y = problem, problem.trials, problem.scaled(q)
        several, nothing = self.trials.unknowns.several, csr_array((len(q), len(q)))
        self.gap_places = _Places(self.trials.gap_jacobian(q) if several else nothing)
        pattern = csr_array(self.trials.jacobian(q)) if problem.squares else nothing
        pattern.data[:] = 1.0
        self.hessian_places = _Places(csr_array(tril(pattern.T @ pattern)))

    def cost(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        self._y = y
        out[0] = self.problem.cost(y) / self.problem.unit

    def gradient(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        out[:] = self.problem.gradient(y) / self.problem.unit

    def constraints(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        out[:] = self.trials.tried_gaps(self.problem.at(y))

    def jacobian(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        q = self.problem.at(y)
        slopes = self.trials.gap_jacobian(q) @ diags_array(self.problem.slopes(q))
        out[:] = self.gap_places.values(slopes)

    def hessian(self, y: Array, multipliers: Array, factor: float, out: Array) -> None:
        q = self.problem.at(y)
        slopes = self.trials.jacobian(q) @ diags_array(self.problem.slopes(q))
        matrix = (2.0 * factor / self.problem.unit) * (slopes.T @ slopes)
        out[:] = self.hessian_places.values(matrix)

    def note(self, step: Iteration) -> None:
        """Keep the iterate that IPOPT reports."""
        problem = self.problem
        J = step.objective * problem.unit
        problem.note(problem.at(self._y), J, step.optimality, step.infeasibility)


def ipopt(problem: Minimisation, q: Array) -> Endpoint:
    """IPOPT with the Gauss-Newton Hessian of a sum of squares, else a limited-memory one."""
    solver = str(problem.how.options.get("linear_solver", "mumps"))
    check_solver(solver, problem.how.options)
    callbacks, zero = _Callbacks(problem, q), np.zeros(len(problem.trials.gaps(q)))
    nlp = IpoptProblem(
        callbacks,
        (callbacks.gap_places, callbacks.hessian_places),
        problem.scaled_bounds,
        (zero, zero),
        np.full(q.size, BORDER, dtype=np.int32),
    )
    settings: dict[str, Any] = {
        "tol": problem.how.tolerance,
        "max_iter": problem.how.limit,
        "print_level": 0,
        "sb": "yes",
        "linear_solver": solver,
    }
    if not problem.squares:
        settings["hessian_approximation"] = "limited-memory"
    settings, watch = {**settings, **problem.how.options}, Watch(callbacks.note)
    found = run(nlp, Start(problem.scaled(q)), settings, settings, watch)
    if found.status is Solve.INTERRUPTED:
        raise KeyboardInterrupt
    return Endpoint(problem.at(found.z), found.status, found.status.sentence)
