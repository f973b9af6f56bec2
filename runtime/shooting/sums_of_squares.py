"""Sums of squares of trials for the optimiser of `batched_squares`, from one start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.shooting.batched_squares import Squares
from kinesym.runtime.simulation.stepper import Diverged

#: Steps of a trial, over those at the iterate, after which a point is not looked at if they get on
#: slowly: those of motions that escape in finite time are many and short.
_PATIENCE = 5
#: Steps that it may take in any case.
_LEAST = 1000


class Rows(Protocol):
    """Part of trials, see `Simulated`: J(q), residuals or scores, their Jacobian, rows before
    scores are made of them, and the change of residuals from where they had these rows; steps."""

    @property
    def steps(self) -> Sequence[int]: ...
    def at_most(self, steps: Sequence[int]) -> AbstractContextManager[None]: ...
    def cost(self, q: Array) -> float: ...
    def residuals(self, q: Array) -> Array: ...
    def jacobian(self, q: Array) -> Any: ...
    def rows(self, q: Array) -> Array: ...
    def change(self, before: Array, q: Array) -> Array: ...


class SumOfSquares:
    """J and its derivatives in scaled unknowns y, of likelihoods with scores instead of residuals;
    derivatives are looked at where J falls.

    at(y) : q. slopes(q) : d r/d y from the Jacobian d r/d q. note(q, J, slope) : is told of each
    iterate.
    """

    def __init__(
        self,
        trials: Rows,
        at: Callable[[Array], Array],
        slopes: Callable[[Array], Array],
        note: Callable[[Array, float, float], None] = lambda q, J, slope: None,
    ) -> None:
        self._trials, self._at, self._slopes, self._note = trials, at, slopes, note
        self._lowest = np.inf
        self._most: Sequence[int] = ()  # steps of each trial
        self._here: tuple[Array, Array]  # rows and slopes at the iterate

    def squares(self, starts: NDArray[np.intp], points: Array) -> Squares:
        """See `batched_squares.Problem`, of one point (1, n)."""
        q, n = self._at(points[0]), points.shape[1]
        with self._trials.at_most(self._most):
            J = self._trials.cost(q)
        none = Squares(np.array([J]), np.zeros((1, n)), np.zeros((1, n, n)))
        if not self._lowest > J:
            return none
        try:
            r, S = self._trials.residuals(q), self._slopes(q)
        except Diverged:  # a step can be singular where the run reaches its end
            return none._replace(cost=np.array([np.inf]))
        g, bend = 2.0 * (S.T @ r), 2.0 * (S.T @ S)
        if not (np.isfinite(g).all() and np.isfinite(bend).all()):
            return none._replace(cost=np.array([np.inf]))
        self._note(q, J, float(np.linalg.norm(g)))
        self._lowest, self._here = J, (self._trials.rows(q), S)
        self._most = [max(_LEAST, _PATIENCE * count) for count in self._trials.steps]
        return Squares(np.array([J]), g[None], bend[None])

    def change(self, starts: NDArray[np.intp], points: Array) -> Array:
        """See `batched_squares.Problem`, of one point (1, n)."""
        rows, slopes = self._here
        try:
            # far away from the iterate it may be no number
            with np.errstate(all="ignore"), self._trials.at_most(self._most):
                return 2.0 * (self._trials.change(rows, self._at(points[0])) @ slopes)[None]
        except Diverged:
            return np.full_like(points, np.nan)
