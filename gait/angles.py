"""Angles alpha, beta, gamma of A = Ry(beta) Rx(alpha) Rz(gamma), and what turns in segment axes.

The coordinates z of a body are the place of its root and these angles of each segment. States of
its compiled model are the place, the angles in the order in which they turn (beta, alpha, gamma),
then the velocity of the root and angular velocities in segment axes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinesym.gait.kinematics import Samples
from kinesym.gait.natural.segment import pose

Array = NDArray[np.float64]


def spin(angles: Array, rates: Array) -> Array:
    """Angular velocity in segment axes, (3, ...), from angles and their rates, (3, ...)."""
    (da, db, dc), (sa, ca, sc, cc) = rates, _sines(angles)
    return np.array([cc * da + sc * ca * db, cc * ca * db - sc * da, dc - sa * db])


def spin_rate(angles: Array, rates: Array, accelerations: Array) -> Array:
    """Its derivative, (3, ...)."""
    (da, db, dc), (sa, ca, sc, cc) = rates, _sines(angles)
    change = np.array(
        [
            -sc * dc * da + (cc * ca * dc - sc * sa * da) * db,
            -cc * dc * da - (sc * ca * dc + cc * sa * da) * db,
            -ca * da * db,
        ]
    )
    return spin(angles, accelerations) + change


def rates_of(angles: Array, w: Array) -> Array:
    """Rates of the angles from the angular velocity in segment axes, (3, ...)."""
    sa, ca, sc, cc = _sines(angles)
    db = (sc * w[0] + cc * w[1]) / ca
    return np.array([cc * w[0] - sc * w[1], db, w[2] + sa * db])


def states(course: Samples) -> tuple[Array, Array]:
    """States (2 g, N) and their derivatives of the compiled model: z, then speeds."""
    angles, rates, accelerations = (_turning(part) for part in (course.z, course.zd, course.zdd))
    w, dw = spin(angles, rates), spin_rate(angles, rates, accelerations)
    return (
        np.vstack([in_turn(course.z), course.zd[:3], _stacked(w)]),
        np.vstack([in_turn(course.zd), course.zdd[:3], _stacked(dw)]),
    )


def coordinates(x: Array) -> tuple[Array, Array]:
    """z and its rates, (g, N) each, from states (2 g, N)."""
    g = len(x) // 2
    z, speeds = in_turn(x[:g]), x[g:]
    return z, np.vstack([speeds[:3], _stacked(rates_of(_turning(z), _turning(speeds)))])


def in_turn(rows: Array) -> Array:
    """Coordinates with alpha and beta exchanged: from the order of z to that of states and back."""
    result = rows.copy()
    result[3::3], result[4::3] = rows[4::3], rows[3::3]
    return result


def world_moments(z: Array, effort: Array) -> Array:
    """Efforts along coordinates (g,) as force on the root and moments on segments in world axes."""
    angles = z[3:].reshape(-1, 3).T
    axes = pose(angles, 0.0 * angles, 0.0 * angles).H  # of angles', (S, 3, 3)
    along = effort[3:].reshape(-1, 3, 1)
    return np.concatenate([effort[:3], np.linalg.solve(axes.transpose(0, 2, 1), along).ravel()])


def _sines(angles: Array) -> tuple[Array, Array, Array, Array]:
    sines, cosines = np.sin(angles), np.cos(angles)
    return sines[0], cosines[0], sines[2], cosines[2]


def _turning(rows: Array) -> Array:
    """Rows after the root by axis and segment, (3, S, N)."""
    return rows[3:].reshape(-1, 3, rows.shape[1]).transpose(1, 0, 2)


def _stacked(parts: Array) -> Array:
    return parts.transpose(1, 0, 2).reshape(-1, parts.shape[2])
