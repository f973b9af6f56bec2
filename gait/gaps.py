"""Gaps of markers, filled from the others of their segment or by a spline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.ndimage import find_objects, label
from scipy.spatial.transform import Rotation

from kinesym.gait.relations import rigid_motion
from kinesym.runtime.arrays import Array

#: Least cosine between directions of a line for which a turn without spin is sure.
OPPOSITE = -0.99


def runs(where: NDArray[np.bool_]) -> list[slice]:
    """Runs of samples (N,) in which something holds, such as that they are missing."""
    return [run for (run,) in find_objects(label(where)[0])]


def by_clusters(
    positions: Mapping[str, Array], clusters: Iterable[Sequence[str]]
) -> dict[str, Array]:
    """Positions (3, N) with gaps closed by the rest of a cluster: markers of one rigid body.

    At least two others are needed that were seen all through a gap and at the sample before or
    after it, where the missing one was seen, too. Three say how the body turns; two say it but for
    the spin about their line, which is taken to be none. From one to the other side of a gap both
    answers are blended, so that nothing jumps. Measured samples stay; other gaps stay.
    """
    found = {name: position.copy() for name, position in positions.items()}
    for cluster in clusters:
        names = [name for name in cluster if name in found]
        for name in names:
            others = np.array([positions[other] for other in names if other != name])
            for run in runs(np.isnan(positions[name][0])):
                if np.isnan(found[name][0, run]).all():
                    found[name][:, run] = _carried(positions[name], others, run)
    return found


def _carried(position: Array, others: Array, run: slice) -> Array:
    """Marker (3, N) during a gap, carried by others (K, 3, N) of its body; NaN if they do not
    determine it."""
    N, answers = position.shape[1], []
    for k in (run.start - 1, run.stop):
        if not 0 <= k < N:
            continue
        seen = np.isfinite(others[:, 0, run]).all(axis=1) & np.isfinite(others[:, 0, k])
        if seen.sum() < 2:
            continue
        shape, during = others[seen, :, k], others[seen, :, run]
        turn = _turn(shape, during)
        arm = position[:, k] - shape.mean(axis=0)
        answers.append(during.mean(axis=0) + np.einsum("ijn,j->in", turn, arm))
    if not answers:
        return np.full((3, run.stop - run.start), np.nan)
    later = np.linspace(0.0, 1.0, run.stop - run.start + 2)[1:-1]
    return (1.0 - later) * answers[0] + later * answers[-1]


def _turn(shape: Array, during: Array) -> Array:
    """The rotation (3, 3, N) of points (K, 3) to (K, 3, N); of points on a line the least one, and
    NaN where they point the other way."""
    if len(shape) > 2:
        with suppress(ValueError):  # of points on a line
            return rigid_motion(shape, during)[0]
    ends = np.linalg.norm(shape - shape[0], axis=1).argmax()
    before, after = shape[ends] - shape[0], during[ends] - during[0]
    before, after = before / np.linalg.norm(before), after / np.linalg.norm(after, axis=0)
    cosine = before @ after
    quaternions = np.column_stack([np.cross(before, after, axisb=0), 1.0 + cosine])
    turn = Rotation.from_quat(np.where(cosine[:, None] < OPPOSITE, 1.0, quaternions)).as_matrix()
    return np.where(cosine < OPPOSITE, np.nan, np.moveaxis(turn, 0, 2))


def by_splines(time: Array, position: Array, longest: int) -> Array:
    """Position (3, N) with gaps of up to a number of samples closed by a cubic spline through the
    measured ones; those at either end stay."""
    known = ~np.isnan(position[0])
    inner = [run for run in runs(~known) if run.start and run.stop < len(time)]
    short = [run for run in inner if run.stop - run.start <= longest]
    if not short:
        return position
    result, spline = position.copy(), CubicSpline(time[known], position[:, known], axis=1)
    for run in short:
        result[:, run] = spline(time[run])
    return result
