"""Active set of a solution: the bounds and inequalities that hold with a multiplier.

An interior-point method ends a little off its bounds, and the stiffness that its barriers leave is
no information: a bound is either active, and fixes its variable, or it is absent. The search starts
from the bounds with large multipliers. Newton's method without barriers, with all active limits met
exactly, goes to the minimum; the first limit in its way becomes active, and a limit whose
multiplier has the wrong sign is released (active-set method; Nocedal, Wright 2006, Numerical
Optimization, section 16.5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, tril

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.factors import Entries
from kinesym.runtime.statistics.kkt import Kkt

#: Stiffness in the scaled matrix (no unit) from which a limit is active in the first set.
_FIRM = 1e-4
#: Violation of a limit that is tolerated, as a share of the size in the scaled matrix: rounding.
_PASSED = 1e-6
#: Distance up to which a value is near its limit, as a share of the size in the scaled matrix.
_NEAR = 1e-3
#: Share of a variable's information that its limit must supply to count as active: ten times the
#: information of all else.
_HELD = 10.0 / 11.0
#: Active sets that are tried at most; few changes are needed from a good first set.
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Limits:
    """Distances from limits and forces at them, for variables and then constraints, (n + m,) each.

    above, below : distance above the lower and below the upper limit, infinite without one.
    down, up : force of J against the lower and the upper limit (multipliers, not negative).
    """

    above: Array
    below: Array
    down: Array
    up: Array

    @property
    def force(self) -> Array:
        """Net force of the limits, positive upwards, (n + m,)."""
        return self.down - self.up


class _Set(NamedTuple):
    """Active set: which limits hold, and whether that is the lower one, (n + m,) each."""

    held: NDArray[np.bool_]
    low: NDArray[np.bool_]


def active(kkt: Kkt, limits: Limits) -> Kkt:
    """KKT matrix of the active set: infinite stiffness for variables at an active bound, none for
    all others; inequalities become equations or are left out.

    kkt : with the stiffness that bounds and inequalities have by their multipliers. The matrix is
    singular if only its bounds determine a variable.
    """
    presses = pressing(kkt)
    if not presses.any():
        return kkt
    bare = _with(kkt, np.zeros_like(presses))
    if _are_far(kkt, limits, presses) and _is_inside(bare, limits):
        return bare  # mostly, and no scaling is needed
    firm = presses & (_stiffness(kkt) * _sizes(kkt) ** 2 > _FIRM)
    now = _Set(firm, limits.force >= 0.0)
    tried, products = set[bytes](), _Products(kkt)
    for _ in range(_ROUNDS):
        found = replace(_with(kkt, now.held), like=bare)
        if found.singular or (key := np.concatenate(now).tobytes()) in tried:
            break
        tried.add(key)
        after = _changed(found, limits, now, _PASSED * _sizes(kkt), products)
        if after is None:
            return found
        now = after
    return _with(kkt, firm if kkt.singular else _by_share(kkt, limits, presses))


def pressing(kkt: Kkt) -> NDArray[np.bool_]:
    """Limits that have a multiplier, (n + m,) booleans."""
    return np.append(kkt.stiffness > 0.0, kkt.softness > 0.0) & ~kkt.gone


def _are_far(kkt: Kkt, limits: Limits, presses: NDArray[np.bool_]) -> bool:
    """Whether only bounds of variables have multipliers, and no variable is near its bound,
    relative to its size."""
    n = len(kkt.stiffness)
    if kkt.sizes is None or presses[n:].any():
        return False
    room, size = np.minimum(limits.above, limits.below)[:n], kkt.sizes
    return bool(((size > 0.0) & (room > _NEAR * size))[presses[:n]].all())


def _stiffness(kkt: Kkt) -> Array:
    """Stiffness of all limits, (n + m,); zero for fixed variables, left-out rows and equations."""
    of_rows = np.zeros(len(kkt.softness))
    np.divide(1.0, kkt.softness, out=of_rows, where=kkt.softness > 0.0)
    return np.append(np.where(np.isinf(kkt.stiffness), 0.0, kkt.stiffness), of_rows)


def _sizes(kkt: Kkt) -> Array:
    """Sizes of variables and of constraints in the scaled matrix, (n + m,)."""
    scale, n = kkt.scaled.scale, len(kkt.stiffness)
    return np.append(scale[:n], 1.0 / scale[n:])


def _with(kkt: Kkt, held: NDArray[np.bool_]) -> Kkt:
    """KKT matrix with the limits `held`, (n + m,), active and all others absent."""
    n = len(kkt.stiffness)
    return replace(
        kkt,
        stiffness=np.where(held[:n] | np.isinf(kkt.stiffness), np.inf, 0.0),
        softness=np.where(held[n:] | (kkt.softness == 0.0), 0.0, np.inf),
    )


def _is_inside(kkt: Kkt, limits: Limits) -> bool:
    """Whether the minimum without limits exists and violates none of them; kkt : without limits."""
    if kkt.singular or not kkt.factorised().positive:
        return False
    nothing = np.zeros(kkt.order, dtype=bool)
    passed = np.zeros(kkt.order)
    return _changed(kkt, limits, _Set(nothing, nothing), passed, _Products(kkt)) is None


@dataclass(frozen=True, eq=False)
class _Products:
    """Products with the Hessian and the Jacobian, which all active sets share."""

    kkt: Kkt

    @cached_property
    def hessian(self) -> csr_array:
        """The Hessian, (n, n)."""
        n = len(self.kkt.stiffness)
        half = _sparse(self.kkt.hessian, n, n)
        return csr_array(half + tril(half, -1).T)

    @cached_property
    def jacobian(self) -> csr_array:
        """The Jacobian of the constraints, (m, n)."""
        return _sparse(self.kkt.jacobian, len(self.kkt.softness), len(self.kkt.stiffness))


def _changed(
    kkt: Kkt, limits: Limits, now: _Set, passed: Array, products: _Products
) -> _Set | None:
    """Next active set, None if this one is right.

    kkt : with the set `now`. passed : violation of each limit that is tolerated, (n + m,)."""
    step, force = _to_minimum(kkt, limits, now, products)
    loose = now.held & np.where(now.low, force < 0.0, force > 0.0)
    if loose.any():
        return _Set(now.held & ~loose, now.low)
    free = ~now.held & np.append(np.isfinite(kkt.stiffness), kkt.softness > 0.0)
    room = np.where(step < 0.0, limits.above, limits.below)
    beyond = free & (np.abs(step) > room + passed)
    if not beyond.any():
        return None
    share = np.full(len(step), np.inf)
    share[beyond] = room[beyond] / np.abs(step[beyond])
    first = int(np.argmin(share))
    held, low = now.held.copy(), now.low.copy()
    held[first], low[first] = True, step[first] < 0.0
    return _Set(held, low)


def _to_minimum(kkt: Kkt, limits: Limits, now: _Set, products: _Products) -> tuple[Array, Array]:
    """Step of variables and constraints to the minimum of this active set, and the forces of the
    limits there, (n + m,) each."""
    n, m, held = len(kkt.stiffness), len(kkt.softness), now.held
    H, A = csr_array((n, n)), csr_array((m, n))  # needed for active limits and inequalities only
    if held.any():
        H = products.hessian
    if held.any() or kkt.softness.any():
        A = products.jacobian
    goal = np.where(held, np.where(now.low, -limits.above, limits.below), 0.0)
    step, gone = goal[:n], kkt.gone[n:]
    force = np.where(np.isinf(kkt.stiffness) & ~held[:n], 0.0, limits.force[:n])
    force = force + A.T @ np.where(gone, limits.force[n:], 0.0)
    side = np.append(-force - H @ step, goal[n:] - A @ step)
    side[kkt.gone] = 0.0
    found = kkt.factorised().factors.solve(side[:, None])[:, 0]
    step = step + np.where(kkt.gone[:n], 0.0, found[:n])
    change = np.where(gone, 0.0, found[n:])
    pushes = np.append(force + H @ step + A.T @ change, limits.force[n:] - change)
    return np.append(step, A @ step), pushes


def _by_share(kkt: Kkt, limits: Limits, presses: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Active set, (n + m,), by shares of information: limits that are near, and that supply nearly
    all information about their variable or constraint."""
    here = np.flatnonzero(presses)
    spread = np.abs(kkt.factorised().inverse_entries(here, here))
    n, held = len(kkt.stiffness), np.zeros(len(presses), dtype=bool)
    rows = here[here >= n]
    share = spread * np.append(kkt.stiffness[here[here < n]], kkt.softness[rows - n])
    share[here >= n] = 1.0 - share[here >= n]
    room = np.where(limits.down >= limits.up, limits.above, limits.below)[here]
    held[here] = (share > _HELD) & (room < _NEAR * _sizes(kkt)[here])
    return held


def _sparse(entries: Entries, rows: int, columns: int) -> csr_array:
    row, column, values = entries
    return csr_array((values, (row, column)), shape=(rows, columns))
