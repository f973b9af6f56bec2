"""Coordinates over time with velocities and accelerations: splines with analytic derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline, make_interp_spline

from kinesym.base.checks import count, positive, shown
from kinesym.runtime.arrays import Array, real_array, time_grid

#: Samples at each end which the span leaves out: derivatives are poor there.
TRIM = 5


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
