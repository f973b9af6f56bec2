"""Coordinates over time with velocities and accelerations: splines with analytic derivatives, and
angles alpha, beta, gamma of the attitude A = Ry(beta) Rx(alpha) Rz(gamma) of a segment, which turns
vectors from its axes to those of the world; angular velocities, and states of the model.

The coordinates z of a body are the position of its root and these angles of each segment. States
of its compiled model are the position, the angles in the order in which they turn (beta, alpha,
gamma), then the velocity of the root and angular velocities in segment axes. N instants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline, make_interp_spline
from scipy.spatial.transform import Rotation

from kinesym.base.checks import count, positive, shown
from kinesym.runtime.arrays import Array, real_array, time_grid
from kinesym.symbolic.multibody.segments import Segment

#: Samples at each end which the span leaves out: derivatives are poor there.
TRIM = 5
#: Angles alpha beyond which a segment is too near to the singular posture [rad].
SINGULAR = np.radians(85.0)
#: More than this no segment turns from one sample to the next [rad].
TURN = np.radians(60.0)


@dataclass(frozen=True, eq=False)
class Samples:
    """Coordinates, rates and accelerations, each (g, n), at times (n,) [s].

    Raises `ValueError` for other shapes.
    """

    time: Array
    z: Array
    zd: Array
    zdd: Array

    def __post_init__(self) -> None:
        for name, part in list(vars(self).items()):
            object.__setattr__(self, name, real_array(part, name))
        shapes = [row.shape for row in vars(self).values()]
        if len(set(shapes[1:])) > 1 or self.z.ndim != 2 or shapes[0] != self.z.shape[1:]:
            raise ValueError(
                "coordinates, rates and accelerations are (g, n) at times (n,), got "
                f"{', '.join(map(str, shapes))}"
            )


@dataclass(frozen=True, eq=False)
class Spline:
    """B-splines of several series on the same knots.

    time : (N,) samples they were made of [s]. knots : (n + degree + 1,). coefficients : (n, g).
    trim : samples at each end which are not used; `dataclasses.replace` changes it.

    Make one by `Spline.through`.
    """

    time: Array
    knots: Array
    coefficients: Array
    degree: int = 5
    trim: int = TRIM

    def __post_init__(self) -> None:
        if count(self.trim, "trim", least=0) >= (len(self.time) - 1) / 2:
            raise ValueError(
                f"of {len(self.time)} samples {self.trim} cannot be left out at each "
                "end; a longer record or a smaller trim= is needed"
            )

    # -- where it comes from --------------------------------------------------------------------

    @classmethod
    def through(
        cls, time: ArrayLike, values: ArrayLike, degree: int = 5, trim: int = TRIM
    ) -> Spline:
        """Splines through every sample.

        time : (N,) increasing, N above the degree [s]. values : (g, N), without gaps. degree : 3
            or more. trim : samples at each end that the span leaves out.

        Of six harmonics of gait at 100 Hz the acceleration is within 1.1e-3 (degree 3), 4e-5 (4),
        2e-6 (5) of its root mean square. Noise of deviation s makes an acceleration of about
        5 s/step^2: smooth first.

        Raises `ValueError` for shapes, gaps, too few samples, an impossible degree.
        """
        if degree not in (3, 4, 5):
            raise ValueError(f"the degree of the splines must be 3, 4 or 5, got {shown(degree)}")
        grid = time_grid(time)
        rows = real_array(values, "values")
        N = len(grid)
        if rows.ndim != 2 or rows.shape[1] != N or not len(rows):
            raise ValueError(f"values must be (g, {N}), one row per series, got {rows.shape}")
        if degree >= N:
            raise ValueError(f"splines of degree {degree} need more than {degree} samples, got {N}")
        if not np.isfinite(rows).all():
            row, k = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
            raise ValueError(f"series {row} is {rows[row, k]} at {grid[k]:.6g} s; fill gaps first")
        spline = make_interp_spline(grid, rows.T, k=degree)
        return cls(grid, spline.t, spline.c, degree, trim)

    # -- what follows from it -------------------------------------------------------------------

    @property
    def span(self) -> tuple[float, float]:
        """Interval in which the splines may be sampled (begin, end) [s]."""
        return float(self.time[self.trim]), float(self.time[-1 - self.trim])

    def sample(self, times: ArrayLike) -> Samples:
        """Values with analytic derivatives at any times (n,) [s] within the span.

        Raises `ValueError` for times outside.
        """
        at = real_array(times, "times")
        if at.ndim != 1 or not len(at) or not np.isfinite(at).all():
            raise ValueError(f"times must be finite numbers (n,), got {shown(times)}")
        first, last, (begin, end) = float(at.min()), float(at.max()), self.span
        slack = 1e-9 * (1.0 + abs(first) + abs(last))  # rounding of grids
        if first < begin - slack or last > end + slack:
            raise ValueError(
                f"times {first:.10g} ... {last:.10g} s are asked for, the spline is "
                f"known for {begin:.10g} ... {end:.10g} s; {self.trim} samples at "
                "each end are left out (trim=)"
            )
        spline = BSpline(self.knots, self.coefficients, self.degree)
        inside = np.clip(at, begin, end)
        z, zd, zdd = (np.ascontiguousarray(spline(inside, nu).T) for nu in range(3))
        return Samples(at, z, zd, zdd)

    def grid(self, step: float) -> Array:
        """Times from the begin of the span in equal steps [s], for `sample`."""
        begin, end = self.span
        step = positive(step, "the step")
        if step > end - begin:
            raise ValueError(f"the step must be at most {end - begin:g} s, got {step}")
        return np.asarray(begin + step * np.arange(int((end - begin) / step * (1.0 + 1e-12)) + 1))


# -- one segment ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pose:
    """A segment over time: attitude A (N, 3, 3), H with w = H angles' (N, 3, 3), angular velocity
    w and acceleration dw in world axes (3, N)."""

    A: Array
    H: Array
    w: Array
    dw: Array


def pose(angles: Array, rates: Array | None = None, accelerations: Array | None = None) -> Pose:
    """Pose of the angles alpha, beta, gamma (3, N) and their rates, which are zero by default."""
    rates = np.zeros_like(angles) if rates is None else rates
    accelerations = np.zeros_like(angles) if accelerations is None else accelerations
    # Rotation.from_euler of SciPy takes five times as long.
    (sa, sb, sc), (ca, cb, cc), zero = np.sin(angles), np.cos(angles), np.zeros_like(angles[0])
    y, x = np.array([zero, zero + 1.0, zero]), np.array([cb, zero, -sb])
    z = np.array([ca * sb, -sa, ca * cb])
    across = np.cross(z, x, axis=0)
    A = np.array([x * cc + across * sc, across * cc - x * sc, z])  # columns
    H = np.array([x, y, z])
    before = rates[1] * y  # of what turns x and, with alpha, z
    change = np.array(
        [np.cross(before, x, axis=0), np.zeros_like(x), np.cross(before + rates[0] * x, z, axis=0)]
    )
    w = np.einsum("kin,kn->in", H, rates)
    dw = np.einsum("kin,kn->in", H, accelerations) + np.einsum("kin,kn->in", change, rates)
    return Pose(A.transpose(2, 1, 0), H.transpose(2, 1, 0), w, dw)


def carried(pose: Pose, position: ArrayLike) -> Array:
    """A vector that is fixed in a segment, with two derivatives, (3, 3, N)."""
    x = (pose.A @ np.asarray(position, dtype=np.float64)).T
    xd = np.cross(pose.w, x, axis=0)
    return np.array([x, xd, np.cross(pose.dw, x, axis=0) + np.cross(pose.w, xd, axis=0)])


def turned(pose: Pose, position: ArrayLike) -> Array:
    """Derivatives of a rotated position with respect to the angles, (N, 3, 3)."""
    x = pose.A @ np.asarray(position, dtype=np.float64)
    return np.cross(pose.H, x[:, :, None], axis=1)


def angles_of(A: Array) -> Array:
    """alpha, beta, gamma (3, N) of attitudes (3, 3, N), unwrapped.

    Between samples that are further apart than `TURN` nobody knows which way it turned: what is
    between two such breaks is unwrapped alone, and put within half a turn of the longest of them.
    """
    angles = Rotation.from_matrix(A.transpose(2, 0, 1)).as_euler("YXZ")[:, [1, 0, 2]].T
    runs = np.split(angles, np.flatnonzero(turns(A) > TURN), axis=1)
    runs = [np.unwrap(run, axis=1) for run in runs]
    middles = [np.median(run, axis=1, keepdims=True) for run in runs]
    longest = middles[int(np.argmax([run.shape[1] for run in runs]))]
    whole = [2.0 * np.pi * np.round((longest - middle) / (2.0 * np.pi)) for middle in middles]
    return np.hstack([run + turn for run, turn in zip(runs, whole, strict=True)])


def turns(A: Array) -> Array:
    """Angle by which attitudes (3, 3, N) turn from sample to sample, (N,) [rad]; 0 for the
    first."""
    trace = np.einsum("ijn,ijn->n", A[:, :, 1:], A[:, :, :-1])
    return np.append(0.0, np.arccos(np.clip(0.5 * (trace - 1.0), -1.0, 1.0)))


def check_angles(segments: Sequence[Segment], z: Array, time: Array) -> None:
    """Raise `ValueError` for a segment that comes near to its singular posture."""
    for k, row in enumerate(segments):
        alpha = np.abs(z[3 + 3 * k])
        if alpha.max() > SINGULAR:
            at = int(alpha.argmax())
            raise ValueError(
                f"segment {row.name!r}: alpha reaches {np.degrees(alpha[at]):.0f} deg at t = "
                f"{time[at]:.2f} s, where its angles are lost; choose axes that turn it otherwise"
            )


# -- angular velocities in segment axes -----------------------------------------------------------


def angular_velocity(angles: Array, rates: Array) -> Array:
    """Angular velocity in segment axes, (3, ...), of angles and their rates, (3, ...)."""
    (da, db, dc), (sa, ca, sc, cc) = rates, _sines(angles)
    return np.array([cc * da + sc * ca * db, cc * ca * db - sc * da, dc - sa * db])


def angular_acceleration(angles: Array, rates: Array, accelerations: Array) -> Array:
    """Angular acceleration in segment axes, (3, ...), of angles and their first two derivatives."""
    (da, db, dc), (sa, ca, sc, cc) = rates, _sines(angles)
    change = np.array(
        [
            -sc * dc * da + (cc * ca * dc - sc * sa * da) * db,
            -cc * dc * da - (sc * ca * dc + cc * sa * da) * db,
            -ca * da * db,
        ]
    )
    return angular_velocity(angles, accelerations) + change


def rates_of(angles: Array, w: Array) -> Array:
    """Rates of the angles from the angular velocity in segment axes, (3, ...)."""
    sa, ca, sc, cc = _sines(angles)
    db = (sc * w[0] + cc * w[1]) / ca
    return np.array([cc * w[0] - sc * w[1], db, w[2] + sa * db])


def _sines(angles: Array) -> tuple[Array, Array, Array, Array]:
    sines, cosines = np.sin(angles), np.cos(angles)
    return sines[0], cosines[0], sines[2], cosines[2]


# -- states of the model --------------------------------------------------------------------------


def states(kinematics: Samples) -> tuple[Array, Array]:
    """States (2 g, N) and their derivatives of the compiled model: z, then speeds."""
    parts = [turning(rows) for rows in (kinematics.z, kinematics.zd, kinematics.zdd)]
    w, dw = angular_velocity(*parts[:2]), angular_acceleration(*parts)
    return (
        np.vstack([in_turn(kinematics.z), kinematics.zd[:3], _stacked(w)]),
        np.vstack([in_turn(kinematics.zd), kinematics.zdd[:3], _stacked(dw)]),
    )


def coordinates(x: Array) -> tuple[Array, Array]:
    """z and its rates, (g, N) each, from states (2 g, N)."""
    g = len(x) // 2
    z, speeds = in_turn(x[:g]), x[g:]
    return z, np.vstack([speeds[:3], _stacked(rates_of(turning(z), turning(speeds)))])


def in_turn(rows: Array) -> Array:
    """Coordinates with alpha and beta exchanged: from the order of z to that of states and back."""
    result = rows.copy()
    result[3::3], result[4::3] = rows[4::3], rows[3::3]
    return result


def world_moments(z: Array, effort: Array) -> Array:
    """Efforts along coordinates (g,) as force on the root and moments on segments in world axes."""
    axes = pose(z[3:].reshape(-1, 3).T).H  # of angles', (S, 3, 3)
    along = effort[3:].reshape(-1, 3, 1)
    return np.concatenate([effort[:3], np.linalg.solve(axes.transpose(0, 2, 1), along).ravel()])


def turning(rows: Array) -> Array:
    """Rows after the root by axis and segment, (3, S, N)."""
    return rows[3:].reshape(-1, 3, rows.shape[1]).transpose(1, 0, 2)


def _stacked(parts: Array) -> Array:
    return parts.transpose(1, 0, 2).reshape(-1, parts.shape[2])
