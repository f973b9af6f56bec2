"""Minimum of shooting near a known one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from kinesym.runtime.arrays import Array
from kinesym.runtime.shooting import absolute
from kinesym.runtime.shooting.batched_squares import Problem, minimised
from kinesym.runtime.shooting.scaled import Scale, log_of
from kinesym.runtime.shooting.sides import at_kinks, side_of
from kinesym.runtime.shooting.stationary import ROUNDED_RESIDUAL, least_share, made_by_unknowns
from kinesym.runtime.shooting.sums_of_squares import SumOfSquares
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.simulation.stepper import Diverged
from kinesym.runtime.statistics.profile import Spring
from kinesym.runtime.status import Solve

#: Iterations at most.
_MOST = 100
#: Sides of kinks of priors that are tried.
_SIDES = 20
#: A quantity as a function of all unknowns: its value and its derivatives (n,).
Follows = Callable[[Array], tuple[float, Array]]


class _Near(NamedTuple):
    """Arguments of `near_minimum`; bounds and sizes of the free unknowns only."""

    trials: Simulated
    guess: Array
    free: NDArray[np.intp]
    bounds: tuple[Array, Array]
    size: Array
    held: tuple[Follows, Spring] | None


def near_minimum(
    trials: Simulated,
    guess: Array,
    free: NDArray[np.intp],
    bounds: tuple[Array, Array],
    errors: Array,
    held: tuple[Follows, Spring] | None = None,
) -> tuple[Array, bool]:
    """Minimum near a guess in the `free` unknowns, with a spring on a quantity if one
    is given, and whether it was found. errors : standard errors of all unknowns, (n,).

    Raises `ValueError` for several segments, whose boundaries would have to follow.
    """
    if len(trials.priors.kinks):
        side, good = side_of(trials, bounds, guess, None, _pull(held, guess)), True
        for _ in range(_SIDES):
            q, good = near_minimum(side.trials, guess, free, side.bounds, errors, held)
            guess, last = at_kinks(trials, q), side
            side = side_of(trials, bounds, guess, last, _pull(held, guess))
            if side.same(last) or not good:
                return guess, good
        return guess, False
    if trials.unknowns.several:
        raise ValueError(
            "a neighbour of this minimum is solved for without inner boundaries; use segments=1 "
            "with guess=fit"
        )
    low, high = (bound[free] for bound in bounds)
    size = np.where((errors > 0.0) & np.isfinite(errors), errors, np.maximum(np.abs(guess), 1e-3))

    if not (len(free) and np.isfinite(trials.cost(guess))):
        return guess, bool(np.isfinite(trials.cost(guess)))
    near = _Near(trials, guess, free, (low, high), size[free], held)
    return _near_kinks(near) if trials.kinked else _near_squares(near)


def _near_squares(near: _Near) -> tuple[Array, bool]:
    """Minimum of a sum of squares or of a likelihood, as `near_minimum`."""
    trials, guess, free, bounds, size, held = near
    scale = Scale(size, log_of(trials.unknowns)[free])
    rows = trials if held is None else _Pulled(trials, *held)

    def at(y: Array) -> Array:
        return _placed(guess, free, 1.0, scale.at(y))

    def slopes(q: Array) -> Array:
        return np.asarray(rows.jacobian(q).toarray()[:, free] * scale.slopes(q[free]))

    start = np.clip(guess[free], *bounds)
    try:
        rounded = ROUNDED_RESIDUAL**2 * made_by_unknowns(trials.jacobian(guess), guess)
    except Diverged:
        return guess, False
    box = (scale.scaled(bounds[0])[None], scale.scaled(bounds[1])[None])
    sum_, level = SumOfSquares(rows, at, slopes), least_share(trials, guess)
    asked = Problem(sum_.squares, box, rounded, level, change=sum_.change)
    found = minimised(asked, scale.scaled(start)[None], _MOST, lambda ended, now: None)
    if not found.status[0]:
        raise KeyboardInterrupt
    return at(found.y[0]), Solve(found.status[0]).success


@dataclass(frozen=True)
class _Pulled:
    """Trials and a spring on a quantity, whose energy is one square more."""

    trials: Simulated
    quantity: Follows
    spring: Spring

    @property
    def steps(self) -> Sequence[int]:
        """Steps of each trial."""
        return self.trials.steps

    def at_most(self, steps: Sequence[int]) -> AbstractContextManager[None]:
        """Context in which trials take no more steps than these."""
        return self.trials.at_most(steps)

    def cost(self, q: Array) -> float:
        """J with the energy."""
        J = self.trials.cost(q)
        return J + self.spring.energy(self.quantity(q)[0]) if np.isfinite(J) else J

    def residuals(self, q: Array) -> Array:
        """Residuals or scores, that of the spring last."""
        return np.append(self.trials.residuals(q), self._stretch(q))

    def jacobian(self, q: Array) -> csr_array:
        """Their Jacobian."""
        by = np.sqrt(self.spring.stiffness) * self.quantity(q)[1]
        return csr_array(vstack([self.trials.jacobian(q), csr_array(by[None])]))

    def rows(self, q: Array) -> Array:
        """Residuals before scores are made of them."""
        return np.append(self.trials.rows(q), self._stretch(q))

    def change(self, before: Array, q: Array) -> Array:
        """Change of the residuals from where they had these rows."""
        return np.append(self.trials.change(before[:-1], q), self._stretch(q) - before[-1])

    def _stretch(self, q: Array) -> float:
        off = self.quantity(q)[0] - self.spring.goal
        return float(np.sqrt(self.spring.stiffness) * off)


def _near_kinks(near: _Near) -> tuple[Array, bool]:
    """Minimum of an objective with absolute values of residuals, as `near_minimum`."""
    trials, guess, free, bounds, size, held = near
    at = partial(_placed, guess, free, size)

    def kinked(y: Array) -> absolute.Kinked:
        q = at(y)
        here = absolute.kinked_at(trials, q)
        if held is not None:
            by = held[0](q)[1]
            B = here.B + 2.0 * held[1].stiffness * np.outer(by, by)
            here = here._replace(J=here.J + _energy(held, q), g=here.g + _pull(held, q), B=B)
        B = here.B[np.ix_(free, free)]
        return here._replace(g=here.g[free], B=B, A=here.A[:, free]).scaled(size)

    def tried(y: Array) -> tuple[float, Array]:
        q = at(y)
        J, e = absolute.tried_at(trials, q)
        return (J + _energy(held, q), e) if np.isfinite(J) else (J, e)

    level = float(len(trials.residuals(guess)))
    sides = (bounds[0] / size, bounds[1] / size)
    asked = absolute.Problem(kinked, tried, sides, level, lambda y, J, slope: None)
    y, status = absolute.minimised(asked, guess[free] / size, 200)
    return at(y), status.success


def _placed(guess: Array, free: NDArray[np.intp], size: Array | float, y: Array) -> Array:
    """Unknowns (n,) with free ones in units of `size`, the others of a guess."""
    q = guess.copy()
    q[free] = size * y
    return q


def _energy(held: tuple[Follows, Spring] | None, q: Array) -> float:
    """Energy of a spring."""
    return 0.0 if held is None else held[1].energy(held[0](q)[0])


def _pull(held: tuple[Follows, Spring] | None, q: Array) -> Array | float:
    """Slopes of the energy of a spring."""
    if held is None:
        return 0.0
    (off, by), spring = held[0](q), held[1]
    return 2.0 * spring.stiffness * (off - spring.goal) * by
