"""From markers to the motion of a body, step by step, with something to look at after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.runtime.gait.consistency import (
    Fitted,
    check_angles,
    fit,
    landmark_targets,
    measured_segments,
    start_of,
)
from kinesym.runtime.gait.course import Spline
from kinesym.runtime.gait.markers import Markers
from kinesym.runtime.gait.natural import NaturalBody
from kinesym.runtime.gait.relations import Relations, Trial, landmarks
from kinesym.runtime.gait.segment import Row
from kinesym.runtime.gait.ssa import SSA

Array = NDArray[np.float64]

#: What is smoothed away from markers, and again from coordinates: root mean square [m, rad].
NOISE = (1e-3, 5e-4)


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """A measured motion as rigid segments, and how it was found.

    segments : with points as they were measured. markers, smoothed : before and after the first
    SSA. fitted : coordinates of the rigid segments that come nearest, and what they miss.
    course : splines through these coordinates after the second SSA.
    """

    segments: tuple[Any, ...]
    markers: Markers
    smoothed: Markers
    fitted: Fitted
    course: Spline

    def report(self) -> str:
        """What each step changed, as text."""
        moved = [self.smoothed[name] - self.markers[name] for name in self.markers.names]
        sample = self.course.sample(self.markers.time[self.course.trim : -self.course.trim])
        off = sample.z - self.fitted.z[:, self.course.trim : -self.course.trim]
        worst = np.argsort(-np.sqrt(np.mean(self.fitted.distances**2, axis=1)))
        places = [k for k in worst if self.fitted.places[k]][:3]
        named = ", ".join(
            f"{self.fitted.targets[k]} {1e3 * np.sqrt(np.mean(self.fitted.distances[k] ** 2)):.1f}"
            for k in places
        )
        return "\n".join([
            f"smoothing of markers      {1e3 * _rms(moved):8.2f} mm",
            f"rigid segments            {1e3 * _rms(self.fitted.rms):8.2f} mm, up to "
            f"{1e3 * self.fitted.rms.max():.1f}; most at {named}",
            f"smoothing of coordinates  {1e3 * _rms(off[:3]):8.2f} mm, "
            f"{np.degrees(_rms(off[3:])):.3f} deg",
        ])  # fmt: skip

    def plot(self) -> Any:
        """What rigid segments miss at every instant, and by target."""
        import matplotlib.pyplot as plt

        figure, (over, by) = plt.subplots(1, 2, figsize=(12.0, 4.6), layout="constrained",
                                          width_ratios=(3, 2))  # fmt: skip
        over.plot(self.markers.time, 1e3 * self.fitted.rms, lw=1.2)
        over.set(xlabel="time [s]", ylabel="points to rigid segments, rms [mm]", ylim=(0, None))
        rows = np.flatnonzero(self.fitted.places)
        size = 1e3 * np.sqrt(np.mean(self.fitted.distances[rows] ** 2, axis=1))
        order = np.argsort(size)[-16:]
        by.barh([self.fitted.targets[rows[k]] for k in order], size[order], color="C0")
        by.set_xlabel("rms by point [mm]")
        for axis in (over, by):
            axis.grid(alpha=0.3)
        return figure


def reconstruct(
    segments: Sequence[Row], relations: Relations, markers: Markers,
    calibration: Mapping[str, ArrayLike] | None = None, smooth: SSA | None = None,
    again: SSA | None = None, root: str = "J1",
) -> Reconstruction:  # fmt: skip
    """The motion of a body from markers (Pamies-Vila, Font-Llagunes 2013, section on the
    laboratory): smoothed, points and axes by relations, rigid segments, smoothed, splines.

    segments : masses and inertias are theirs; the points are taken from the trial. calibration :
    places of markers in a static trial, (3,) each [m]. smooth : SSA of markers, by default without
    what is below 1 mm rms. again : of coordinates, by default without 0.5 mm or mrad.

    Raises `ValueError` for gaps, missing markers, postures that angles cannot describe, and
    instants that cannot be fitted.
    """
    first, second = smooth or SSA(noise=NOISE[0]), again or SSA(noise=NOISE[1])
    clean = markers.smoothed(first)
    still = {name: np.asarray(place, dtype=np.float64)
             for name, place in (calibration or {}).items()}  # fmt: skip
    found = landmarks(relations, Trial(clean.places, still))
    rows = measured_segments(segments, found, root)
    body = NaturalBody(rows, root)
    fitted = fit(body, landmark_targets(rows, found, root), start_of(rows, found, root))
    check_angles(rows, fitted.z, clean.time)
    course = Spline.through(clean.time, second(fitted.z, clean.rate))
    return Reconstruction(rows, markers, clean, fitted, course)


def _rms(values: ArrayLike) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
