"""Minimum of shooting near a known one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.shooting import absolute
from kinesym.runtime.shooting.sides import at_kinks, side_of
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.statistics.profile import Spring

#: Change of J per standard error of an unknown at which rounding may end the way to a minimum.
_FLAT = 1e-4
#: Sides of kinks of priors that are tried.
_SIDES = 20
#: A quantity as a function of all unknowns: its value and its derivatives (n,).
Follows = Callable[[Array], tuple[float, Array]]


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

    at = partial(_placed, guess, free, 1.0)

    def values(y: Array) -> Array:
        r = trials.tried_residuals(at(y))
        if not np.isfinite(r).all():
            return np.full(count, 1e10)
        if held is None:
            return r
        quantity, spring = held
        off = quantity(at(y))[0] - spring.goal
        return np.append(r, np.sqrt(spring.stiffness) * off)

    def slopes(y: Array) -> Array:
        rows = np.asarray(trials.jacobian(at(y)).toarray()[:, free])
        if held is None:
            return rows
        quantity, spring = held
        return np.vstack([rows, np.sqrt(spring.stiffness) * quantity(at(y))[1][free]])

    if not (len(free) and np.isfinite(trials.cost(guess))):
        return guess, bool(np.isfinite(trials.cost(guess)))
    count = len(trials.residuals(guess)) + (held is not None)
    options = {"xtol": 1e-10, "ftol": 1e-12, "gtol": 1e-10, "max_nfev": 100}
    start = np.clip(guess[free], low, high)
    if trials.kinked:
        return _near_kinks(trials, guess, free, (low, high), size[free], held)
    if trials.scored:
        return _near_likelihood(trials, guess, free, (low, high), size[free], held)
    found = scipy.optimize.least_squares(
        values, start, slopes, (low, high), x_scale=size[free], **options
    )
    return at(found.x), found.status > 0


def _near_kinks(
    trials: Simulated,
    guess: Array,
    free: NDArray[np.intp],
    bounds: tuple[Array, Array],
    size: Array,
    held: tuple[Follows, Spring] | None,
) -> tuple[Array, bool]:
    """Minimum of an objective with absolute values of residuals, as `near_minimum`."""

    at = partial(_placed, guess, free, size)

    def near(y: Array) -> absolute.Kinked:
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
    asked = absolute.Problem(near, tried, sides, level, lambda y, J, slope: None)
    y, status = absolute.minimised(asked, guess[free] / size, 200)
    return at(y), status.success


def _placed(guess: Array, free: NDArray[np.intp], size: Array | float, y: Array) -> Array:
    """Unknowns (n,) with free ones in units of `size`, the others of a guess."""
    q = guess.copy()
    q[free] = size * y
    return q


def _energy(held: tuple[Follows, Spring] | None, q: Array) -> float:
    """Energy of a spring."""
    return 0.0 if held is None else held[1].stiffness * (held[0](q)[0] - held[1].goal) ** 2


def _pull(held: tuple[Follows, Spring] | None, q: Array) -> Array | float:
    """Slopes of the energy of a spring."""
    if held is None:
        return 0.0
    (off, by), spring = held[0](q), held[1]
    return 2.0 * spring.stiffness * (off - spring.goal) * by


def _near_likelihood(
    trials: Simulated,
    guess: Array,
    free: NDArray[np.intp],
    bounds: tuple[Array, Array],
    size: Array,
    held: tuple[Follows, Spring] | None,
) -> tuple[Array, bool]:
    """Minimum of an objective that is no sum of squares, as `near_minimum`, by L-BFGS-B of SciPy in
    units of `size`."""

    at = partial(_placed, guess, free, size)

    def value(y: Array) -> tuple[float, Array]:
        q = at(y)
        J = trials.cost(q)
        if not np.isfinite(J):  # far uphill, so that the line search shrinks
            return 1e10, np.zeros_like(y)
        slope = trials.gradient(q) + _pull(held, q)
        return J + _energy(held, q), slope[free] * size

    low, high = (bound / size for bound in bounds)
    found = scipy.optimize.minimize(
        value,
        np.clip(guess[free] / size, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"maxiter": 500, "ftol": 1e-15, "gtol": 1e-7, "maxcor": 30},
    )
    slope = np.clip(found.x - found.jac, low, high) - found.x
    return at(found.x), bool(found.success or np.abs(slope).max(initial=0.0) < _FLAT)
