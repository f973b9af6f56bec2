"""Wrenches of the ground on the feet: force plates, centres of pressure, sums and resampling.

World axes everywhere: x forwards, y to the left, z up. A wrench is the reaction of the ground on
the foot: its vertical force is positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import interp1d

from kinesym.base.checks import check_kind, finite, shown
from kinesym.base.notebook import Displayed
from kinesym.gait.axes import about_vertical
from kinesym.gait.frames import DataFrame, by_time
from kinesym.gait.support import center_of_pressure
from kinesym.runtime.arrays import AXES, Array, check_finite, check_span, real_array, time_grid
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.signals.low_pass import low_pass
from kinesym.runtime.summary import samples

#: Vertical force below which a plate counts as unloaded [N]; usual in gait analysis.
THRESHOLD = 20.0
#: Share of the weight below which a centre of pressure says little.
PRESSING = 0.2


@dataclass(frozen=True, repr=False, eq=False)
class Wrench(Displayed):
    """A force and moment on a foot over time: world axes, the moment about the origin of the world.

    time : (N,) increasing instants [s]. force : (3, N) [N]. moment : (3, N), about the origin
    [N m].

    About one fixed point wrenches may be added, scaled, smoothed and interpolated, which centres of
    pressure may not. Raises `ValueError` for shapes, and for values that are not finite.
    """

    time: Array
    force: Array
    moment: Array

    def __post_init__(self) -> None:
        grid = time_grid(self.time)
        object.__setattr__(self, "time", grid)
        for name in ("force", "moment"):
            object.__setattr__(self, name, vectors(name, getattr(self, name), grid))

    def __repr__(self) -> str:
        return f"<wrench: {samples(self.time)}>"

    # -- where it comes from --------------------------------------------------------------------

    @classmethod
    def at_cop(
        cls,
        time: ArrayLike,
        force: ArrayLike,
        cop: ArrayLike,
        free_moment: ArrayLike | None = None,
        threshold: float = THRESHOLD,
    ) -> Wrench:
        """Wrench of a force at a centre of pressure, as most files of force plates have it.

        time : (N,) [s]. force : (3, N), of the ground on the foot [N]. cop : (3, N) [m], NaN where
        unloaded. free_moment : (3, N), or (N,) about the vertical [N m]; default none.

        Small forces without a centre of pressure act at the one nearest in time, so that the moment
        does not jump. Raises `ValueError` for shapes, a plate that gives the load instead of the
        reaction, and a centre that is missing above `threshold` [N].
        """
        grid = time_grid(time)
        rows, position = vectors("force", force, grid), vectors("cop", cop, grid, missing=True)
        free = real_array(0.0 * rows if free_moment is None else free_moment, "free_moment")
        if free.ndim == 1:
            free = np.outer([0.0, 0.0, 1.0], free)
        position = _held(grid, rows, position, finite(threshold, "threshold"))
        free = vectors("free_moment", free, grid, missing=True)
        found = cls(grid, rows, np.cross(position, rows, axis=0) + free)
        check_reaction(found)
        return found

    @classmethod
    def zero(cls, time: ArrayLike) -> Wrench:
        """A wrench of zero at times (N,) [s]."""
        grid = time_grid(time)
        return cls(grid, np.zeros((3, len(grid))), np.zeros((3, len(grid))))

    # -- what follows from it -------------------------------------------------------------------

    @property
    def rows(self) -> Array:
        """Force, then moment, (6, N)."""
        return np.vstack([self.force, self.moment])

    def about(self, point: ArrayLike) -> Array:
        """The moment about a point (3,) or (3, N) in world axes [m], as (3, N) [N m]."""
        position = real_array(point, "a point")
        if position.shape not in ((3,), self.force.shape):
            raise ValueError(f"a point must be (3,) or {self.force.shape}, got {position.shape}")
        position = np.broadcast_to(position.reshape(3, -1), self.force.shape)
        return self.moment - np.cross(position, self.force, axis=0)

    def cop(self, height: ArrayLike = 0.0, threshold: float = THRESHOLD) -> Array:
        """Centre of pressure on the plane z = height, one for all or at each instant (N,),
        (3, N) [m].

        There the wrench has no horizontal moment. NaN where the vertical force is below
        `threshold` [N].
        """
        plane, threshold = real_array(height, "height"), finite(threshold, "threshold")
        if plane.shape not in ((), self.time.shape) or not np.isfinite(plane).all():
            raise ValueError(
                f"height must be a finite number, or {self.time.shape} of them, got {shown(height)}"
            )
        level = np.broadcast_to(plane, self.time.shape)
        x, y = center_of_pressure(
            self.force, self.about(np.array([0.0 * level, 0.0 * level, level]))
        )
        centre = np.array([x, y, level])
        return np.where(np.isnan(x) | (self.force[2] < threshold), np.nan, centre)

    def free_moment(self, height: float = 0.0, threshold: float = THRESHOLD) -> Array:
        """The moment about the vertical through the centre of pressure, (N,) [N m]; see `cop`."""
        return np.asarray(self.about(self.cop(height, threshold))[2])

    # -- other wrenches made of it --------------------------------------------------------------

    def at(self, time: ArrayLike) -> Wrench:
        """Resampled at times (n,) [s]: straight lines between samples, nothing overshoots.

        On a coarser grid each value is the mean over a step around it: impulses are kept, and a
        contact spreads by no more than half a step. Of amplitudes at a tenth of the new rate 0.98
        is left, at half of it 0.64; where more must go, use `smoothed` before.

        Raises `ValueError` for times outside those of the wrench.
        """
        grid = time_grid(time)
        check_span(grid, (self.time[0], self.time[-1]), "the wrench")
        rows, steps = self.rows, np.diff(grid)
        if np.mean(steps) <= np.mean(np.diff(self.time)) * (1.0 + 1e-6):
            found = between(grid, self.time, rows)
        else:
            middles = 0.5 * (grid[:-1] + grid[1:])
            before = np.concatenate([[grid[0] - 0.5 * steps[0]], middles])
            after = np.concatenate([middles, [grid[-1] + 0.5 * steps[-1]]])
            found = _means(self.time, rows, before, after)
        return Wrench(grid, found[:3], found[3:])

    def smoothed(self, cutoff: float, order: int = 2) -> Wrench:
        """Smooth by a Butterworth low-pass forwards and backwards: no lag.

        cutoff : amplitudes are reduced to 1/sqrt(2) at it by both passes together [Hz]. Contacts
        spread by up to a quarter of its period: find them before. order : of one pass.

        Raises `ValueError` for samples that are not uniform and an impossible cutoff.
        """
        found = low_pass(self.time, self.rows, cutoff, order)
        return Wrench(self.time, found[:3], found[3:])

    def __add__(self, other: Wrench) -> Wrench:
        """The sum on the same grid; resample with `at` where they differ."""
        check_kind(other, Wrench, "kinesym.gait")
        if not same_grid(self.time, other.time):
            raise ValueError(
                f"the wrenches have different times: {_span(self.time)} and {_span(other.time)}; "
                "first.at(second.time) resamples"
            )
        return Wrench(self.time, self.force + other.force, self.moment + other.moment)

    def __sub__(self, other: Wrench) -> Wrench:
        """The difference on the same grid; resample with `at` where they differ."""
        check_kind(other, Wrench, "kinesym.gait")
        return self + other.scaled(-1.0)

    def scaled(self, by: ArrayLike) -> Wrench:
        """Force and moment times a number, or times one of (N,) numbers at each instant."""
        factor = real_array(by, "what a wrench is scaled by")
        if factor.shape not in ((), self.time.shape):
            raise ValueError(
                f"a wrench is scaled by a number or by {self.time.shape} numbers, "
                f"got {factor.shape}"
            )
        return Wrench(self.time, self.force * factor, self.moment * factor)

    def turned(self, angle: float) -> Wrench:
        """Turned about the vertical through the origin, to the left [rad]."""
        return self.rotated(about_vertical(angle))

    def rotated(self, rotation: ArrayLike) -> Wrench:
        """Rotate into other axes: force and moment times a rotation matrix (3, 3), such as
        `ks.gait.rotation("y", "x")` from axes of OpenSim, whose y is up, into those here."""
        turn = real_array(rotation, "a rotation")
        if turn.shape != (3, 3) or not np.allclose(turn @ turn.T, np.eye(3), atol=1e-9):
            raise ValueError(f"a rotation is an orthonormal matrix (3, 3), got {turn.tolist()}")
        return Wrench(self.time, turn @ self.force, turn @ self.moment)

    def to_pandas(self) -> DataFrame:
        """Columns force_x, ... [N] and moment_x, ... about the origin [N m], by time [s]."""
        names = [f"{kind}_{axis}" for kind in ("force", "moment") for axis in AXES]
        return by_time(self.time, dict(zip(names, self.rows, strict=True)))

    def plot(self, height: float = 0.0) -> Any:
        """A figure over time: force on the left, centre of pressure and free moment on the right.

        height : of the floor [m].
        """
        figure, axes = subplots(3, 2, sharex=True, figsize=(14.0, 5.6))
        centre = self.cop(height)
        rows = [*self.force, *centre[:2], self.free_moment(height)]
        names = [f"force {axis} [N]" for axis in AXES]
        names += ["centre of pressure x [m]", "centre of pressure y [m]", "free moment [N m]"]
        for k, (panel, row, name) in enumerate(zip(axes.T.flat, rows, names, strict=True)):
            panel.plot(self.time, row, lw=1.2, color=f"C{k // 3}")
            panel.set_ylabel(name)
        figure.supxlabel("time [s]")
        return figure


def check_reaction(wrench: Wrench, what: str = "force plate", threshold: float = THRESHOLD) -> None:
    """Raise `ValueError` if the plate gives the load instead of the reaction.

    Looks at the mean vertical force of the samples where it exceeds `threshold` [N] either way.
    """
    vertical = wrench.force[2]
    loaded = np.abs(vertical) > threshold
    mean = float(vertical[loaded].mean()) if loaded.any() else 0.0
    if mean < 0.0:
        raise ValueError(
            f"{what} seems to give the load, not the reaction (mean Fz = {mean:.0f} "
            "N): change the signs of force and moment; z points up"
        )


def same_grid(one: Array, other: Array) -> bool:
    """Whether two grids are the same but for rounding."""
    if one.shape != other.shape:
        return False
    return bool(np.abs(one - other).max() <= 1e-6 * np.diff(one).min())


def between(times: Array, time: Array, rows: Array) -> Array:
    """Rows (k, N) at other times (n,), on straight lines between samples, (k, n)."""
    return np.array([np.interp(times, time, row) for row in rows])


def _held(time: Array, force: Array, cop: Array, threshold: float) -> Array:
    """Centres of pressure with gaps filled by the nearest in time; zero if there is none."""
    known = np.isfinite(cop).all(axis=0)
    # what was just below the threshold may have been rounded up to it in a file
    missing = ~known & (np.abs(force[2]) > threshold * 1.001)
    if missing.any():
        k = int(np.argmax(missing))
        raise ValueError(
            f"the centre of pressure is missing at {time[k]:.6g} s and "
            f"{int(missing.sum()) - 1} other instants, where the vertical force is "
            f"{force[2, k]:.4g} N; a larger threshold lets it be held"
        )
    if not known.any():
        return np.zeros_like(cop)
    nearest = interp1d(
        time[known], cop[:, known], "nearest", bounds_error=False, fill_value="extrapolate"
    )
    return np.asarray(nearest(time))


def _means(time: Array, rows: Array, begin: Array, end: Array) -> Array:
    """Means of straight lines through samples from each `begin` to each `end`."""
    sums = cumulative_trapezoid(rows, time, axis=1, initial=0.0)
    slopes = np.diff(rows, axis=1) / np.diff(time)

    def integral(upto: Array) -> Array:
        k = np.clip(np.searchsorted(time, upto, side="right") - 1, 0, len(time) - 2)
        into = upto - time[k]
        return np.asarray(sums[:, k] + into * (rows[:, k] + 0.5 * slopes[:, k] * into))

    begin, end = np.clip(begin, time[0], time[-1]), np.clip(end, time[0], time[-1])
    return (integral(end) - integral(begin)) / (end - begin)


def vectors(name: str, values: ArrayLike, time: Array, missing: bool = False) -> Array:
    """Vectors over time, (3, N).

    missing : whether some may be NaN. Raises `ValueError` for other shapes, and for values that are
    not finite.
    """
    rows = real_array(values, name)
    if rows.shape != (3, len(time)):
        raise ValueError(f"{name} must be (3, {len(time)}), rows x, y, z, got {rows.shape}")
    if not missing:
        check_finite(rows, name, time, lambda k: f"axis {AXES[k]}", "; fill gaps first")
    return rows


def _span(time: Array) -> str:
    return f"{len(time)} from {time[0]:.6g} to {time[-1]:.6g} s"
