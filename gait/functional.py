"""Centres of joints from motion: the point about which one segment turns on another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import least_squares

from kinesym.base.checks import check_kind, listed
from kinesym.gait.markers import Markers
from kinesym.gait.relations import FunctionalCentre, is_line, rigid_motion
from kinesym.runtime.arrays import Array, rms

#: Fewest samples in which all markers are seen.
FEWEST = 20
#: Smallest rms turn, about the worst axes, that shows a centre [rad].
TURN = np.radians(6.0)
#: The same of lines from the centre to markers, along the worst direction [-].
BOWED = 0.01


def functional_centre(
    markers: Markers, proximal: Sequence[str], distal: Sequence[str]
) -> FunctionalCentre:
    """Centre of a ball joint from a trial in which one segment turns on another, such as the hip:
    a position for `Relations`, or for `hips` of `marker_set`.

    proximal : three or more markers of the segment that carries the centre, such as the pelvis;
    it may move, too. distal : markers of the other one, such as the thigh. With three or more: the
    least squares of the distance between two points, one fixed in each segment (Ehrig et al. 2006,
    J Biomech 39:2798, SCoRE). With one or two, or markers on a line: spheres about a common centre,
    by Gamage and Lasenby (2002, J Biomech 35:87) to begin with, then of least distances, which are
    without the bias of the former.

    With noise of 1 mm, SCoRE is right to about 1 mm if the joint turns by 45 degrees (3 mm by most
    methods, Ehrig et al.); the skin adds more. Raises `ValueError` for a segment that hardly turns,
    or about one axis only, for fewer than 20 samples in which all markers are seen, and for
    proximal markers on a line.
    """
    check_kind(markers, Markers, "kinesym.gait")
    cluster, others = (
        tuple(map(str, listed(names, what)))
        for names, what in ((proximal, "proximal"), (distal, "distal"))
    )
    if not others:
        raise ValueError("a functional centre needs markers of the distal segment")
    rows = np.array([markers[name] for name in (*cluster, *others)])
    rows = rows[..., np.isfinite(rows).all(axis=(0, 1))]
    if rows.shape[2] < FEWEST:
        raise ValueError(
            f"all of {', '.join((*cluster, *others))} are seen in {rows.shape[2]} samples; a "
            f"functional centre needs {FEWEST}: markers.filled closes gaps"
        )
    if is_line(rows[: len(cluster), :, 0]):
        raise ValueError(f"{', '.join(cluster)} do not hold a segment: give three, not on a line")
    shape = _mean_shape(rows[: len(cluster)])
    turn, at = rigid_motion(shape, rows[: len(cluster)])
    local = np.einsum("ijn,kin->kjn", turn, rows[len(cluster) :] - at)
    found, turned = _spheres(local) if is_line(local[..., 0]) else _symmetric(local)
    if turned < 1.0:
        raise ValueError(
            f"{', '.join(others)} hardly turn about two axes against {', '.join(cluster)}: no "
            "centre can be found; record a trial that flexes, abducts and circles the joint"
        )
    centre, distances = found
    still = tuple((x, y, z) for x, y, z in shape.tolist())
    x, y, z = centre.tolist()
    return FunctionalCentre(cluster, still, (x, y, z), rms(distances))


def _mean_shape(rows: Array) -> Array:
    """Mean positions (K, 3) of markers (K, 3, N) in the axes of the first sample, about their
    middle."""
    turn, centre = rigid_motion(rows[..., 0], rows)
    return np.asarray(np.einsum("ijn,kin->kjn", turn, rows - centre).mean(axis=2))


def _symmetric(local: Array) -> tuple[tuple[Array, Array], float]:
    """Centre (3,), distances (N,) and the smallest turn over the smallest allowed, by the points
    of both segments that stay nearest, of markers (K, 3, N) in proximal axes."""
    turn, at = rigid_motion(_mean_shape(local), local)
    N = turn.shape[2]
    sides = np.hstack([np.tile(np.eye(3), (N, 1)), -np.moveaxis(turn, 2, 0).reshape(-1, 3)])
    ends = np.linalg.lstsq(sides, at.T.ravel(), rcond=None)[0]
    gap = (sides @ ends - at.T.ravel()).reshape(N, 3)
    largest = np.linalg.norm(turn.mean(axis=2), 2)  # 1 about a fixed axis
    turned = np.sqrt(2.0 * max(1.0 - float(largest), 0.0))
    centre = np.asarray(ends[:3], dtype=np.float64)
    return (centre, np.asarray(np.linalg.norm(gap, axis=1))), float(turned / TURN)


def _spheres(local: Array) -> tuple[tuple[Array, Array], float]:
    """The same by spheres about a common centre."""
    away = local - local.mean(axis=2, keepdims=True)
    square = np.sum(local**2, axis=1)
    matrix = 2.0 * np.einsum("kin,kjn->ij", away, away)
    start = np.linalg.lstsq(matrix, np.einsum("kin,kn->i", away, square), rcond=None)[0]

    def arms(centre: Array) -> tuple[Array, Array]:
        arm = local - centre[:, None]
        return arm, np.linalg.norm(arm, axis=1)

    def distances(centre: Array) -> Array:
        _, radius = arms(centre)
        return np.asarray((radius - radius.mean(axis=1, keepdims=True)).ravel())

    def slopes(centre: Array) -> Array:
        arm, radius = arms(centre)
        along = -arm / radius[:, None]
        along = along - along.mean(axis=2, keepdims=True)
        return np.moveaxis(along, 1, 2).reshape(-1, 3)

    centre = least_squares(distances, start, slopes, method="lm", xtol=1e-14, ftol=1e-14).x
    bowed = np.linalg.svd(slopes(centre), compute_uv=False)[2] / np.sqrt(square.size)
    return (centre, distances(centre)), float(bowed / BOWED)
