"""Minimum of shooting near a known one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.statistics.profile import Spring

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
    """Least-squares minimum near a guess in the `free` unknowns, with a spring on a quantity if one
    is given, and whether it was found. errors : standard errors of all unknowns, (n,).

    Raises `ValueError` for several segments, whose boundaries would have to follow.
    """
    if trials.unknowns.several:
        raise ValueError(
            "a neighbour of this minimum is solved for without inner boundaries; use segments=1 "
            "with guess=fit"
        )
    low, high = (bound[free] for bound in bounds)
    size = np.where((errors > 0.0) & np.isfinite(errors), errors, np.maximum(np.abs(guess), 1e-3))

    def at(y: Array) -> Array:
        q = guess.copy()
        q[free] = y
        return q

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
    found = scipy.optimize.least_squares(
        values, start, slopes, (low, high), x_scale=size[free], **options
    )
    return at(found.x), found.status > 0
