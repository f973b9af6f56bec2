"""Systems M qdd + Phi_q' lambda = Q with constraints Phi(q, t) = 0 and a constant M.

Dependent velocities are written with independent ones, qd = S b + R zd, and the equations of motion
projected on these (Pamies-Vila, Font-Llagunes 2013, equations 4 to 17). Closed loops are included,
and constraints that depend on time. Dense linear algebra: for tens of coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lu, qr

from kinesym.base.checks import count, shown
from kinesym.runtime.arrays import Array, real_array, time_grid

Indices = NDArray[np.intp]

#: Least pivot of Phi_q^d over the largest element of Phi_q below which other coordinates are taken
#: as dependent ones, and below which constraints count as redundant.
PIVOT = 1e-8
#: Least pivot ratio between steps of `simulate`, where a change costs nothing: a choice that is
#: merely regular is not enough there, as the next step may lead through its singular posture.
COMFORTABLE = 0.1
#: Relative step at which Newton's method for dependent coordinates ends [-].
STEP = 1e-13
#: Iterations of Newton's method, at most.
ITERATIONS = 30


@dataclass(frozen=True)
class Partition:
    """Partition of the coordinates into dependent (m,) and independent (n - m,) indices."""

    dependent: Indices
    independent: Indices


@dataclass(frozen=True)
class Reduction:
    """S (n, m) and R (n, g) of qd = S b + R zd and qdd = S c + R zdd."""

    S: Array
    R: Array


@dataclass(frozen=True)
class ConstrainedMotion:
    """Coordinates, their rates (n, N) and the multipliers (m, N) over time (N,)."""

    time: Array
    q: Array
    qd: Array
    qdd: Array
    multipliers: Array


def partition(jacobian: ArrayLike) -> Partition:
    """The best conditioned choice for Phi_q (m, n): by QR with column pivoting.

    Raises `ValueError` where the constraints are not independent.
    """
    given = np.asarray(jacobian, dtype=np.float64)
    m, n = given.shape
    if m == 0:
        return Partition(np.arange(0), np.arange(n))
    upper, order = qr(given, mode="r", pivoting=True)
    sizes = np.abs(np.diag(upper))
    rank = int((sizes > PIVOT * np.abs(given).max()).sum())
    if rank < m:
        raise ValueError(
            f"{m} constraints have rank {rank} here: drop redundant ones, or start "
            "from another configuration"
        )
    return Partition(np.sort(order[:m]), np.sort(order[m:]))


def pivot_ratio(jacobian: ArrayLike, current: Partition) -> float:
    """Least pivot of Phi_q^d over the largest element of Phi_q: 0 where the choice is singular."""
    given = np.asarray(jacobian, dtype=np.float64)
    if not len(given):
        return 1.0
    _, _, upper = lu(given[:, current.dependent])
    largest = max(np.abs(given).max(), np.finfo(np.float64).tiny)
    return float(np.abs(np.diag(upper)).min() / largest)


def refreshed(jacobian: ArrayLike, current: Partition, limit: float = PIVOT) -> Partition:
    """Partition at this Jacobian: the current one, or a new one if its pivot ratio is below the
    limit."""
    return current if pivot_ratio(jacobian, current) >= limit else partition(jacobian)


def reduction(jacobian: ArrayLike, chosen: Partition) -> Reduction:
    """S and R (equations 9 and 10) of Phi_q (m, n).

    Raises `numpy.linalg.LinAlgError` if the dependent coordinates do not follow from the others.
    """
    given = np.asarray(jacobian, dtype=np.float64)
    m, n = given.shape
    S, R = np.zeros((n, m)), np.zeros((n, n - m))
    S[chosen.dependent] = np.linalg.inv(given[:, chosen.dependent])
    R[chosen.dependent] = -S[chosen.dependent] @ given[:, chosen.independent]
    R[chosen.independent] = np.eye(n - m)
    return Reduction(S, R)


@dataclass(frozen=True)
class ConstrainedSystem:
    """n coordinates with m constraints.

    mass_matrix : constant (n, n); coordinates without mass are allowed.
    forces : Q(q, qd, t) (n,). constraints : Phi(q, t) (m,). jacobian : Phi_q(q, t) (m, n).
    velocity_terms : b(q, t) = -Phi_t (m,), of Phi_q qd = b (equation 5).
    acceleration_terms : c(q, qd, t) = -(Phi_t)' - (Phi_q)' qd (m,), of Phi_q qdd = c (equation 11).

    Independent coordinates z and their rates are told by a `Partition`; `partition` chooses one.
    """

    mass_matrix: Array
    forces: Callable[[Array, Array, float], Array]
    constraints: Callable[[Array, float], Array]
    jacobian: Callable[[Array, float], Array]
    velocity_terms: Callable[[Array, float], Array]
    acceleration_terms: Callable[[Array, Array, float], Array]

    def __post_init__(self) -> None:
        M = real_array(self.mass_matrix, "the mass matrix")
        if M.ndim != 2 or M.shape[0] != M.shape[1]:
            raise ValueError(f"the mass matrix must be (n, n), got {M.shape}")
        for name in ("forces", "constraints", "jacobian", "velocity_terms", "acceleration_terms"):
            if not callable(getattr(self, name)):
                raise ValueError(f"{name} is a function, got {shown(getattr(self, name))}")

    def assembled(self, q: ArrayLike, t: float, chosen: Partition) -> Array:
        """q with dependent coordinates that satisfy the constraints; the others stay, (n,).

        Newton's method. Raises `ValueError` if it does not converge from there.
        """
        result = np.array(q, dtype=np.float64)
        for _ in range(ITERATIONS):
            block = self.jacobian(result, t)[:, chosen.dependent]
            try:
                step = np.linalg.solve(block, self.constraints(result, t))
            except np.linalg.LinAlgError:
                break
            result[chosen.dependent] -= step
            if np.abs(step).max(initial=0.0) <= STEP * (1.0 + np.abs(result).max()):
                return result
        left = np.abs(self.constraints(result, t)).max(initial=0.0)
        raise ValueError(
            f"no configuration near the given one satisfies the constraints at t = {t} (|Phi| = "
            f"{left:.2g}); give a better one or take other independent coordinates"
        )

    def velocities(self, q: Array, zd: ArrayLike, t: float, chosen: Partition) -> Array:
        """qd = S b + R zd (equation 8), (n,)."""
        by = reduction(self.jacobian(q, t), chosen)
        return by.S @ self.velocity_terms(q, t) + by.R @ np.asarray(zd, dtype=np.float64)

    def accelerations(self, q: Array, qd: Array, t: float, chosen: Partition) -> Array:
        """qdd = S c + R zdd with zdd of R' M R zdd = R' (Q - M S c) (equations 13 and 16), (n,)."""
        by = reduction(self.jacobian(q, t), chosen)
        bias = by.S @ self.acceleration_terms(q, qd, t)
        rest = by.R.T @ (self.forces(q, qd, t) - self.mass_matrix @ bias)
        zdd = np.linalg.solve(by.R.T @ self.mass_matrix @ by.R, rest)
        return np.asarray(bias + by.R @ zdd)

    def inverse_dynamics(
        self, q: Array, qd: Array, qdd: Array, t: float, chosen: Partition
    ) -> Array:
        """Generalised forces on z beside Q that a motion needs, R' (M qdd - Q), (g,)."""
        R = reduction(self.jacobian(q, t), chosen).R
        return np.asarray(R.T @ (self.mass_matrix @ qdd - self.forces(q, qd, t)))

    def multipliers(self, q: Array, qd: Array, qdd: Array, t: float, chosen: Partition) -> Array:
        """lambda of M qdd + Phi_q' lambda = Q (equation 4), (m,): S' (Q - M qdd)."""
        S = reduction(self.jacobian(q, t), chosen).S
        return np.asarray(S.T @ (self.forces(q, qd, t) - self.mass_matrix @ qdd))

    def simulate(
        self, time: ArrayLike, q: ArrayLike, qd: ArrayLike, substeps: int = 1
    ) -> ConstrainedMotion:
        """The motion on a grid (N,) [s] from q and qd (n,): of order 4.

        Of q and qd, dependent ones are corrected to satisfy the constraints. Dependent coordinates
        are chosen anew between steps where others are better conditioned. Raises `ValueError` where
        the constraints are not independent, or cannot be satisfied after a step that is too long.
        """
        grid, substeps = time_grid(time), count(substeps, "substeps")
        position, rate = (self._coordinates(name, each) for name, each in (("q", q), ("qd", qd)))
        chosen = partition(self.jacobian(position, float(grid[0])))
        position = self.assembled(position, float(grid[0]), chosen)
        rate = self.velocities(position, rate[chosen.independent], float(grid[0]), chosen)
        found = []
        for k, t in enumerate(map(float, grid)):
            acceleration = self.accelerations(position, rate, t, chosen)
            multipliers = self.multipliers(position, rate, acceleration, t, chosen)
            found.append((position, rate, acceleration, multipliers))
            if k + 1 < len(grid):
                h = (float(grid[k + 1]) - t) / substeps
                for j in range(substeps):
                    chosen = refreshed(self.jacobian(position, t + j * h), chosen, COMFORTABLE)
                    position, rate = self._step(t + j * h, h, position, rate, chosen)
        return ConstrainedMotion(grid, *(np.array(part).T for part in zip(*found, strict=True)))

    def _coordinates(self, name: str, given: ArrayLike) -> Array:
        row, expected = real_array(given, name), (len(self.mass_matrix),)
        if row.shape != expected:
            raise ValueError(f"{name} has shape {row.shape}, expected {expected}")
        if not np.isfinite(row).all():
            raise ValueError(f"{name} must be finite, got {shown(given)}")
        return row

    def _step(
        self, t: float, h: float, q: Array, qd: Array, chosen: Partition
    ) -> tuple[Array, Array]:
        """A classical step of Runge and Kutta, after which dependent coordinates are corrected.

        All coordinates are stepped: as functions of independent ones alone they bend sharply near
        the singular postures of the choice, and the error grows with it.
        """
        slopes = [(qd, self.accelerations(q, qd, t, chosen))]
        for share in (0.5, 0.5, 1.0):
            dq, dqd = slopes[-1]
            position, rate = q + share * h * dq, qd + share * h * dqd
            slopes.append((rate, self.accelerations(position, rate, t + share * h, chosen)))
        (a, da), (b, db), (c, dc), (d, dd) = slopes
        position = self.assembled(q + h / 6.0 * (a + 2.0 * b + 2.0 * c + d), t + h, chosen)
        rate = qd + h / 6.0 * (da + 2.0 * db + 2.0 * dc + dd)
        return position, self.velocities(position, rate[chosen.independent], t + h, chosen)
