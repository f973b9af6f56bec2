"""Coordinates over time with velocities and accelerations: splines with analytic derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import BSpline, make_interp_spline
from scipy.linalg import solveh_banded
from scipy.optimize import brentq
from scipy.sparse import csr_array, diags_array

from kinesym.checks import count, positive, shown
from kinesym.runtime.arrays import real_array, time_grid

Array = NDArray[np.float64]

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
        rows = {name: real_array(part, name) for name, part in vars(self).items()}
        for name, row in rows.items():
            object.__setattr__(self, name, row)
        shape = rows["z"].shape
        same = rows["zd"].shape == rows["zdd"].shape == shape
        if not same or len(shape) != 2 or rows["time"].shape != shape[1:]:
            raise ValueError(
                "coordinates, rates and accelerations are (g, n) at times (n,), got "
                f"{', '.join(str(row.shape) for row in rows.values())}"
            )


@dataclass(frozen=True, eq=False)
class Spline:
    """B-splines of several series on the same knots.

    time : (N,) samples they were made of [s]. knots : (n + degree + 1,). coefficients : (n, g).
    trim : samples at each end which are not used; `dataclasses.replace` changes it.

    Make one by `Spline.through` or `Spline.smoothed`.
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
        2e-6 (5) of its root mean square, the rate within 2e-5, 7e-7, 3e-8; the errors fall with the
        power degree - 1 and degree of the step. Noise of deviation s makes an acceleration of
        about 5 s/step^2: smooth first.

        Raises `ValueError` for shapes, gaps, too few samples, an impossible degree.
        """
        grid, rows = _checked(time, values, degree)
        spline = make_interp_spline(grid, rows.T, k=degree)
        return cls(grid, spline.t, spline.c, degree, trim)

    @classmethod
    def smoothed(
        cls,
        time: ArrayLike,
        values: ArrayLike,
        discrepancy: ArrayLike,
        degree: int = 5,
        trim: int = TRIM,
    ) -> Spline:
        """Smoothing splines with a given root mean square distance from the samples.

        discrepancy : what each of them may be off, a number or (g,) in units of the values, such
            as the deviation of the noise. Of all splines on these knots that miss the samples by
            this much, each has the smallest mean square of its derivative (degree + 1)/2, the
            third one for degree 5, whose acceleration therefore has the least change.

        Others as in `through`; degree is 3 or 5. Raises `ValueError` as there, and for a
        discrepancy that is not positive or more than a parabola (degree 3: a line) leaves.
        """
        grid, rows = _checked(time, values, degree)
        if degree % 2 == 0:
            raise ValueError(f"the degree of a smoothing spline is 3 or 5, got {degree}")
        allowed = real_array(discrepancy, "the discrepancy")
        if allowed.shape not in ((), (len(rows),)) or not (allowed > 0.0).all():
            raise ValueError(
                "the discrepancy must be positive, one number or one per series "
                f"({len(rows)},), got {discrepancy!r}"
            )
        knots = make_interp_spline(grid, rows[0], k=degree).t
        fit = _Smoother(grid, knots, degree)
        per_row = np.broadcast_to(allowed, len(rows))
        columns = [
            fit.missing(row, float(by), k)
            for k, (row, by) in enumerate(zip(rows, per_row, strict=True))
        ]
        return cls(grid, knots, np.array(columns).T, degree, trim)

    # -- what follows from it -------------------------------------------------------------------

    @property
    def span(self) -> tuple[float, float]:
        """Where the splines may be sampled [s]."""
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
        spline, inside = self._spline, np.clip(at, begin, end)
        z, zd, zdd = (np.ascontiguousarray(spline(inside, nu).T) for nu in range(3))
        return Samples(at, z, zd, zdd)

    @property
    def _spline(self) -> BSpline:
        return BSpline(self.knots, self.coefficients, self.degree)

    def grid(self, step: float) -> Array:
        """Times from the begin of the span in equal steps [s], for `sample`."""
        begin, end = self.span
        step = positive(step, "the step")
        if step > end - begin:
            raise ValueError(f"the step must be at most {end - begin:g} s, got {step}")
        return np.asarray(begin + step * np.arange(int((end - begin) / step * (1.0 + 1e-12)) + 1))


class _Smoother:
    """Penalised least squares (A'A + w P) c = A'y of B-splines; all matrices are banded."""

    def __init__(self, time: Array, knots: Array, degree: int) -> None:
        order = (degree + 1) // 2
        step = float(np.mean(np.diff(time)))
        self.design = BSpline.design_matrix(time, knots, degree)
        penalty = _penalty(knots, degree, order) * step ** (2 * order - 1)  # then w has no unit
        self.bands = [_upper_bands(M, degree) for M in (self.design.T @ self.design, penalty)]

    def coefficients(self, y: Array, weight: float) -> Array:
        fits, penalty = self.bands
        return np.asarray(solveh_banded(fits + weight * penalty, self.design.T @ y))

    def missing(self, y: Array, by: float, k: int) -> Array:
        """Coefficients of the spline that misses y by this root mean square."""
        middle, size = y.mean(), max(float(np.std(y)), np.finfo(np.float64).tiny)
        scaled = (y - middle) / size

        def excess(exponent: float) -> float:
            rest = self.design @ self.coefficients(scaled, 10.0**exponent) - scaled
            return float(np.sqrt(np.mean(rest**2))) - by / size

        lowest, highest = WEIGHTS
        if excess(highest) < 0.0:
            raise ValueError(
                f"series {k} may be missed by {by:.4g}, but the smoothest spline is "
                "within that; a smaller discrepancy is needed"
            )
        # Rounding leaves some 1e-15; what is asked for below the lowest weight is interpolation.
        best = lowest if excess(lowest) > 0.0 else brentq(excess, lowest, highest, xtol=1e-12)
        return middle + size * self.coefficients(scaled, 10.0**best)


#: Powers of ten between which weights of the penalty are sought.
WEIGHTS = (-10.0, 10.0)


def _penalty(knots: Array, degree: int, order: int) -> csr_array:
    """P with c'Pc the integral of the squared derivative of this order; Gauss points are exact."""
    slope, t = None, knots
    for p in range(degree, degree - order, -1):
        gaps = t[p + 1 : -1] - t[1 : -1 - p]
        n = len(gaps)
        difference = diags_array([-p / gaps, p / gaps], offsets=[0, 1], shape=(n, n + 1))
        slope = difference if slope is None else difference @ slope
        t = t[1:-1]
    ends = np.unique(knots)
    nodes, weights = np.polynomial.legendre.leggauss(degree - order + 1)
    half = 0.5 * np.diff(ends)[:, None]
    points = (half * nodes + 0.5 * (ends[1:] + ends[:-1])[:, None]).ravel()
    rows = BSpline.design_matrix(points, t, degree - order) @ slope
    return csr_array(rows.T @ diags_array((half * weights).ravel()) @ rows)


def _upper_bands(matrix: csr_array, width: int) -> Array:
    """A symmetric banded matrix as `scipy.linalg.solveh_banded` takes it, (width + 1, n)."""
    bands = np.zeros((width + 1, matrix.shape[0]))
    for k in range(width + 1):
        bands[width - k, k:] = matrix.diagonal(k)
    return bands


def _checked(time: ArrayLike, values: ArrayLike, degree: int) -> tuple[Array, Array]:
    if degree not in (3, 4, 5):
        raise ValueError(f"the degree of the splines must be 3, 4 or 5, got {shown(degree)}")
    grid = time_grid(time)
    rows = real_array(values, "values")
    if rows.ndim != 2 or rows.shape[1] != len(grid) or not len(rows):
        raise ValueError(f"values must be (g, {len(grid)}), one row per series, got {rows.shape}")
    if len(grid) <= degree:
        raise ValueError(
            f"splines of degree {degree} need more than {degree} samples, got {len(grid)}"
        )
    if not np.isfinite(rows).all():
        row, k = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        raise ValueError(f"series {row} is {rows[row, k]} at {grid[k]:.6g} s; fill gaps first")
    return grid, rows
