"""The motion of a base: from harmonics, from samples, or as it was recorded.

Inputs of a model are named after the base: `ship_x`, ... Bryant angles, `ship_wx`, ... angular
velocity, `ship_dwx`, ... its derivative; of its origin `ship_ax`, ... acceleration, `ship_vx`, ...
velocity, `ship_dvx`, ... derivatives of the components of the velocity, `ship_imux`, ... the output
of an accelerometer, acceleration minus gravity; all in its own axes. `ship_px`, ... is the place of
its origin in world axes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline, make_interp_spline

from kinesym.base.checks import check_choice, flag, listed, positive, shown
from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import AXES, Array, check_finite, check_span, real_array, time_grid
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.signals.low_pass import motion_low_pass
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.summary import samples

SEQUENCES = ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx")
#: Letters of the inputs, see above.
KINDS = ("", "w", "dw", "a", "dv", "imu", "v", "p")

#: Kinds of accelerations that a record can hold, and their letters.
ACCELERATIONS = {"kinematic": "a", "derivative": "dv", "imu": "imu"}
_VECTORS = (*"angles rates angular_accelerations accelerations velocities place".split(),)


@dataclass(frozen=True, repr=False, eq=False)
class Motion(Displayed):
    """The motion of a base with six degrees of freedom, twice differentiable.

    coordinates : takes times (n,) [s] to (3, 6, n): values, first and second derivatives of the
        Bryant angles about x, y, z [rad] and of the place of the origin in world axes [m].
    span : where it is known [s].
    sequence : order in which the angles turn about the axes of the base, such as "zyx" for yaw,
        pitch, roll; the same as that of the base in the model.

    Nothing here is singular; measured angles may jump where the second passes +-pi/2.
    """

    coordinates: Callable[[Array], Array]
    span: tuple[float, float] = (-np.inf, np.inf)
    sequence: str = "xyz"

    def __post_init__(self) -> None:
        check_choice(self.sequence, SEQUENCES, "sequence")
        if not callable(self.coordinates):
            raise ValueError(
                "the coordinates of a motion are a function of times (n,), got "
                f"{shown(self.coordinates)}; see Motion.samples"
            )
        span = np.array(self.span, dtype=object)
        if (
            span.shape != (2,)
            or not all(isinstance(t, Real) for t in span)
            or not span[0] < span[1]
        ):
            got = shown(self.span)
            raise ValueError(f"the span of a motion must be (begin, end) [s], got {got}")

    def __repr__(self) -> str:
        return f"<motion of a base, t = {self.span[0]:g} ... {self.span[1]:g} s>"

    # -- where it comes from --------------------------------------------------------------------

    @classmethod
    def harmonics(
        cls, omega: ArrayLike, amplitude: ArrayLike, phase: ArrayLike, sequence: str = "xyz"
    ) -> Motion:
        """Sums of sines, q_i(t) = sum_k amplitude[i, k] sin(omega[i, k] t + phase[i, k]).

        amplitude : (6, K), rows are angles about x, y, z [rad] and place x, y, z [m].
        omega, phase : [rad/s] and [rad], each (6, K) or broadcast to it, such as (K,).

        Derivatives are exact. Raises `ValueError` for other shapes and values that are not finite.
        """
        rows = {"omega": omega, "amplitude": amplitude, "phase": phase}
        given = [real_array(row, name) for name, row in rows.items()]
        shape = given[1].shape
        try:
            parts = np.array([np.broadcast_to(part, shape) for part in given])
        except ValueError:
            shape = ()
        if len(shape) != 2 or shape[0] != 6:
            shapes = ", ".join(str(part.shape) for part in given)
            raise ValueError(f"omega, amplitude, phase must be (6, K), got {shapes}")
        if not np.isfinite(parts).all():
            of, i, k = np.argwhere(~np.isfinite(parts))[0]
            raise ValueError(f"{list(rows)[of]} of row {i}, harmonic {k} is {parts[of, i, k]}")
        return cls(_sum_of_sines(*parts), sequence=sequence)

    @classmethod
    def samples(
        cls,
        time: ArrayLike,
        angles: ArrayLike,
        place: ArrayLike | None = None,
        cutoff: float | None = None,
        sequence: str = "xyz",
    ) -> Motion:
        """A quintic spline through samples at increasing times (N,) [s], N of at least 6.

        angles, place : (3, N), Bryant angles about x, y, z [rad] and place [m] (default: zero).
        cutoff : smooth uniform samples first by a Butterworth low-pass of order 2 forwards and
            backwards: no lag, amplitudes reduced to 1/sqrt(2) at `cutoff` [Hz], by 0.2 % at a
            quarter of it. From noise of deviation s the bare spline makes an acceleration of about
            5 s/step^2; the rounding of a file is noise too.

        The second derivative of a sine of 20 samples per period is within 2e-5 of its amplitude
        (first and last step: 5e-3); the error falls with the fourth power of the step. With a
        cutoff, accelerations are uncertain within half its period of the ends.

        Raises `ValueError` for other shapes, values that are not finite, time that does not
        increase, angles that wrap, an impossible cutoff; warns of angles that look like degrees.
        """
        check_choice(sequence, SEQUENCES, "sequence")
        grid = time_grid(time)
        if len(grid) < 6:
            raise ValueError(f"a quintic spline needs at least 6 samples, got {len(grid)}")
        rows = _rows("angles", angles, grid)
        _check_angles(rows, grid, stacklevel=3)
        rows = np.vstack([rows, 0.0 * rows if place is None else _rows("place", place, grid)])
        if cutoff is not None:
            rows = motion_low_pass(grid, rows, cutoff)
        spline = make_interp_spline(grid, rows, k=5, axis=1)
        orders = [spline, spline.derivative(1), spline.derivative(2)]
        return cls(
            partial(_of_splines, orders),
            (float(grid[0]), float(grid[-1])),
            sequence,
        )

    # -- other motions made of it ---------------------------------------------------------------

    def scaled(self, length: float) -> Motion:
        """Froude scaling: lengths times `length`, times times its root; accelerations stay."""
        length = positive(length, "the scale of lengths")
        pace = float(np.sqrt(length))
        factors = np.repeat([[1.0], [length]], 3, axis=0) / pace ** np.arange(3.0)[:, None, None]
        span = (self.span[0] * pace, self.span[1] * pace)
        return Motion(partial(_scaled, self, factors, pace), span, self.sequence)

    def at(self, point: ArrayLike) -> Motion:
        """The motion of another point of the base, its coordinates (3,) in base axes [m]."""
        arm = real_array(point, "a point of the base").reshape(-1, 1)
        if arm.shape != (3, 1) or not np.isfinite(arm).all():
            got = shown(point)
            raise ValueError(f"a point of the base has three finite coordinates, got {got}")

        return Motion(partial(_at, self, arm), self.span, self.sequence)

    def flipped(self) -> Motion:
        """Motion in axes whose y and z are reversed, in the world and in the base.

        From the axes of seakeeping (x bow, y starboard, z down) to x bow, y port, z up, and back:
        angles about y and z and places along y and z change sign, which is exact.
        """
        signs = np.array([[1.0], [-1.0], [-1.0]] * 2)
        return Motion(partial(_scaled, self, signs, 1.0), self.span, self.sequence)

    # -- what follows from it -------------------------------------------------------------------

    def kinematics(self, time: ArrayLike) -> dict[str, Array]:
        """Everything at times (n,) [s] by the letters of the inputs, each (3, n).

        "" Bryant angles [rad]; in base axes "w" angular velocity [rad/s], "dw" its derivative
        [rad/s^2], "a" acceleration [m/s^2] and "v" velocity [m/s] of the origin; "p" place of the
        origin in world axes [m]. Raises `ValueError` for times outside the span.
        """
        times = real_array(time, "times")
        if times.ndim != 1 or not len(times) or not np.isfinite(times).all():
            raise ValueError(f"times must be finite numbers (n,), got {shown(time)}")
        check_span(times, self.span, "the motion")
        q, shape = np.asarray(self.coordinates(np.clip(times, *self.span))), (3, 6, len(times))
        if q.shape != shape:
            raise ValueError(f"the coordinates of a motion must return {shape}, got {q.shape}")
        attitude, w, dw = _turning(self.sequence, q[:, :3])
        v, a = np.einsum("jin,kjn->kin", attitude, q[1:, 3:])
        return {"": q[0, :3], "w": w, "dw": dw, "a": a, "v": v, "p": q[0, 3:]}

    def inputs(
        self,
        base: Any,
        time: ArrayLike,
        names: Iterable[Any],
        gravity: ArrayLike = (0.0, 0.0, -9.81),
    ) -> dict[str, Signal]:
        """Inputs of a model: signals that are exact at the nodes and midpoints of `time` (N,) [s].

        base : the base of the tree, or its name (then nobody checks that both turn in the same
            sequence). names : e.g. `model.input_names`; those of the base are returned, others
            are left out.
        gravity : in world axes [m/s^2], for the output of an accelerometer.

        Raises `ValueError` for times outside the span, and if none of the names belongs to the
        base.
        """
        wanted = _wanted(base, names, self.sequence)
        fall = real_array(gravity, "gravity")
        if fall.shape != (3,) or not np.isfinite(fall).all():
            raise ValueError(f"gravity has three finite components, got {shown(gravity)}")
        grid = time_grid(time)
        values = self.kinematics(_with_midpoints(grid))
        kinds = {kind for kind, _ in wanted.values()}
        if "dv" in kinds:
            values["dv"] = values["a"] - np.cross(values["w"], values["v"], axis=0)
        if "imu" in kinds:
            attitude = _turning(self.sequence, np.array([values[""]] * 3))[0]
            values["imu"] = values["a"] - np.einsum("jin,j->in", attitude, fall)
        return {
            name: Signal.parabolas(grid, values[kind][axis])
            for name, (kind, axis) in wanted.items()
        }


@dataclass(frozen=True, repr=False, eq=False)
class Recording(Displayed):
    """The motion of a base as it was measured; nothing is derived.

    time : (N,) increasing instants [s]. All others are (3, N), vectors in base axes.
    angles : Bryant angles about x, y, z [rad], which turn in the order of `sequence`.
    rates : angular velocity [rad/s]; not the derivatives of the angles.
    angular_accelerations : its derivative [rad/s^2].
    accelerations : of the origin [m/s^2], as `acceleration` says, which it must: "kinematic",
        "derivative" (of the components of the velocity) or "imu" (the output of an accelerometer).
    velocities : of the origin [m/s]; needed with "derivative".
    place : of the origin in world axes [m]; zero by default, for it moves nothing but pictures.

    Raises `ValueError` for shapes, and for values that are not finite, missing or unknown. Warns if
    the angular velocity differs from that of the angles by more than 5 % of its root mean square.
    """

    time: ArrayLike
    angles: ArrayLike
    rates: ArrayLike
    angular_accelerations: ArrayLike
    accelerations: ArrayLike
    acceleration: str = ""
    velocities: ArrayLike | None = None
    sequence: str = "xyz"
    place: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_choice(self.sequence, SEQUENCES, "sequence")
        if not self.acceleration:
            raise ValueError(
                "say what the accelerations are: acceleration='kinematic', 'derivative' or 'imu'"
            )
        check_choice(self.acceleration, ACCELERATIONS, "acceleration")
        if self.acceleration == "derivative" and self.velocities is None:
            raise ValueError('accelerations of the kind "derivative" need velocities=...')
        grid = time_grid(self.time)
        object.__setattr__(self, "time", grid)
        if self.place is None:
            object.__setattr__(self, "place", np.zeros((3, len(grid))))
        for name in _VECTORS:
            if name != "velocities" or self.velocities is not None:
                object.__setattr__(self, name, _rows(name, getattr(self, name), grid))
        _check_angles(np.asarray(self.angles), grid, stacklevel=4)
        self._compare_rates(grid)

    def __repr__(self) -> str:
        return f"<recording of a base: {samples(np.asarray(self.time))}>"

    def inputs(
        self, base: Any, time: ArrayLike, names: Iterable[Any], interpolate: bool = False
    ) -> dict[str, Signal]:
        """Inputs of a model: signals that are exact at the nodes and midpoints of `time` (N,) [s].

        base, names : as in `Motion.inputs`. interpolate : by cubic splines if a sample is missing.

        Raises `ValueError` if the record is shorter than the run, or lacks a sample or quantity.
        """
        wanted = _wanted(base, names, self.sequence)
        have = {
            "": self.angles,
            "w": self.rates,
            "dw": self.angular_accelerations,
            "v": self.velocities,
            "p": self.place,
            ACCELERATIONS[self.acceleration]: self.accelerations,
        }
        for name, (kind, _) in wanted.items():
            if have.get(kind) is None:
                why = (
                    ": outputs of velocities, momentum, center_of_mass or energy need the "
                    "velocity of the base; give velocities=..., or leave these outputs out"
                    if kind == "v"
                    else f"; it was recorded as {self.acceleration!r}"
                )
                raise ValueError(f"the run needs {name}, which was not recorded{why}")
        nodes, grid = time_grid(time), np.asarray(self.time)
        times = _with_midpoints(nodes)
        nearest = _matching(times, grid, flag(interpolate, "interpolate"))
        rows = {name: np.asarray(have[kind])[axis] for name, (kind, axis) in wanted.items()}
        if nearest is None:
            rows = {name: CubicSpline(grid, row)(times) for name, row in rows.items()}
        else:
            rows = {name: row[nearest] for name, row in rows.items()}
        return {name: Signal.parabolas(nodes, row) for name, row in rows.items()}

    def _compare_rates(self, grid: Array) -> None:
        """Warn if the angular velocity is not the one that follows from the angles.

        Means over a twentieth of a period are compared, so that the noise of derivatives counts
        less: the ratio of angles and rates is a period divided by 2 pi.
        """
        given, angles = np.asarray(self.rates), np.asarray(self.angles)
        slopes = CubicSpline(grid, angles, axis=1)(grid, 1)
        w = _turning(self.sequence, np.array([angles, slopes, 0.0 * slopes]))[1]
        ratio = np.std(angles, axis=1).max() / max(np.std(given, axis=1).max(), 1e-12)
        part = max(1, int(min(0.3 * ratio / np.diff(grid).mean(), len(grid) / 20)))
        whole = len(grid) // part * part
        ours, theirs = np.array([given, w])[..., :whole].reshape(2, 3, -1, part).mean(axis=-1)
        size, *sizes = (np.sqrt((x**2).mean(axis=1).max()) for x in (ours - theirs, ours, theirs))
        if size <= max(0.05 * max(sizes), 1e-9):
            return
        axis, k = np.unravel_index(np.argmax(np.abs(ours - theirs)), ours.shape)
        warnings.warn(
            f"the angular velocity differs from that of the angles by {size / max(sizes):.2g} of "
            f"its root mean square, most about {AXES[axis]} at {grid[k * part]:.6g} s: "
            f"{ours[axis, k]:.4g}, not {theirs[axis, k]:.4g} rad/s; check units, axes, sequence",
            stacklevel=4,
        )


# -- coordinates, functions of times (n,) once the rest is given ----------------------------------


def _sum_of_sines(omega: Array, amplitude: Array, phase: Array) -> Callable[[Array], Array]:
    """Sum of sines from arrays (6, K); each frequency is evaluated once for all coordinates."""
    w, where = np.unique(omega, return_inverse=True)
    rows = np.repeat(np.arange(6), omega.shape[1])
    a, b = np.zeros((2, 6, len(w)))  # weights of sines and cosines
    np.add.at(a, (rows, where.ravel()), (amplitude * np.cos(phase)).ravel())
    np.add.at(b, (rows, where.ravel()), (amplitude * np.sin(phase)).ravel())
    weights = np.vstack(
        [
            np.hstack([a, b]),
            np.hstack([-b, a]) * np.tile(w, 2),
            -np.hstack([a, b]) * np.tile(w**2, 2),
        ]
    )
    return partial(_weighted_sines, w, weights)


def _weighted_sines(w: Array, weights: Array, time: Array) -> Array:
    result = np.empty((18, len(time)))
    for begin in range(0, len(time), 4096):  # pieces that stay in the cache
        angle = np.outer(w, time[begin : begin + 4096])
        result[:, begin : begin + 4096] = weights @ np.vstack([np.sin(angle), np.cos(angle)])
    return result.reshape(3, 6, len(time))


def _of_splines(orders: Sequence[Callable[[Array], Array]], time: Array) -> Array:
    return np.array([order(time) for order in orders])


def _scaled(motion: Motion, factors: Array, pace: float, time: Array) -> Array:
    return factors * motion.coordinates(time / pace)


def _at(motion: Motion, arm: Array, time: Array) -> Array:
    """Motion of another point, at `arm` (3, 1) from the origin in base axes."""
    result = np.array(motion.coordinates(time))
    attitude, w, dw = _turning(motion.sequence, result[:, :3])
    spin = np.cross(w, arm, axis=0)
    change = np.cross(dw, arm, axis=0) + np.cross(w, spin, axis=0)
    offset = [np.broadcast_to(arm, spin.shape), spin, change]
    result[:, 3:] += np.einsum("ijn,kjn->kin", attitude, offset)
    return result


# -- turns -----------------------------------------------------------------------------------------


def _turning(sequence: str, angles: Array) -> tuple[Array, Array, Array]:
    """Attitude (3, 3, n), and angular velocity and its derivative in base axes, each (3, n).

    angles : (3, 3, n), values and derivatives about x, y, z. The attitude takes components in base
    axes to world axes. After every turn w becomes R^T w + e q', and dw its derivative.
    """
    n = angles.shape[-1]
    attitude = np.broadcast_to(np.eye(3)[:, :, None], (3, 3, n))
    w, dw = np.zeros((2, 3, n))
    for axis in map(AXES.index, sequence):
        turn = _turn(axis, angles[0, axis])
        own = np.zeros((2, 3, n))
        own[:, axis] = angles[1:, axis]
        attitude = np.einsum("ijn,jkn->ikn", attitude, turn)
        w, dw = np.einsum("jin,kjn->kin", turn, [w, dw]) + own
        dw += np.cross(w, own[0], axis=0)
    return attitude, w, dw


def _turn(axis: int, angle: Array) -> Array:
    """The rotation about a coordinate axis, (3, 3, n)."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    turn = np.zeros((3, 3, len(angle)))
    turn[axis, axis] = 1.0
    turn[i, i] = turn[j, j] = np.cos(angle)
    turn[j, i] = np.sin(angle)
    turn[i, j] = -turn[j, i]
    return turn


def _matching(times: Array, grid: Array, interpolate: bool) -> NDArray[np.intp] | None:
    """Indices of the samples of a record at these times; None to interpolate between them."""
    slack = 1e-6 * float(np.diff(grid).min())
    for k, sign, what in ((-1, 1.0, "ends"), (0, -1.0, "begins")):
        if sign * (times[k] - grid[k]) > slack:
            raise ValueError(
                f"the run needs {times[k]:.10g} s, the record {what} at {grid[k]:.10g} s"
            )
    after = np.clip(np.searchsorted(grid, times), 1, len(grid) - 1)
    nearest = after - (times - grid[after - 1] < grid[after] - times)
    missing = np.abs(grid[nearest] - times) > slack
    if not missing.any():
        return nearest
    if interpolate:
        return None
    (k,) = np.argwhere(missing)[0]
    what = f"the record has no sample at {times[k]:.10g} s"
    if not missing[::2].any():
        what = (
            f"samples at half steps are missing: the record has {np.median(np.diff(grid)):.6g} "
            f"s between samples, the run needs {times[k] - times[k - 1]:.6g} s"
        )
    raise ValueError(f"{what}; interpolate=True uses a cubic spline")


def _with_midpoints(grid: Array) -> Array:
    """Nodes (N,) and the midpoints between them, (2 N - 1,)."""
    times = np.empty(2 * len(grid) - 1)
    times[::2], times[1::2] = grid, 0.5 * (grid[:-1] + grid[1:])
    return times


def _wanted(base: Any, names: Iterable[Any], sequence: str) -> dict[str, tuple[str, int]]:
    """Names that are inputs of the base, with the kind and the axis of each."""
    own = getattr(base, "sequence", sequence)
    if own != sequence:
        raise ValueError(
            f"the angles of the base turn in the order {own}, those of the motion in "
            f"the order {sequence}"
        )
    base = getattr(base, "name", base)
    known = {f"{base}_{kind}{axis}": (kind, k) for kind in KINDS for k, axis in enumerate(AXES)}
    given = [key_name(name) for name in listed(names, "names")]
    wanted = {name: known[name] for name in given if name in known}
    if not wanted:
        raise ValueError(
            f"none of the inputs {', '.join(given) or '(there are none)'} belongs to "
            f"a base {base!r}, such as {base}_x or {base}_wx"
        )
    return wanted


def _rows(name: str, values: ArrayLike, time: Array) -> Array:
    """Samples as (3, N); raises `ValueError` naming the fault."""
    rows = real_array(values, name)
    if rows.shape != (3, len(time)):
        raise ValueError(f"{name} must be (3, {len(time)}), rows x, y, z, got {rows.shape}")
    check_finite(rows, name, time, lambda axis: f"axis {AXES[axis]}")
    return rows


def _check_angles(angles: Array, time: Array, stacklevel: int) -> None:
    """Warn of degrees; raise `ValueError` where an angle wraps from pi to -pi."""
    largest = float(np.abs(angles).max())
    if largest > 2.0 * np.pi:
        warnings.warn(
            f"the angles reach {largest:.4g} rad: they look like degrees; numpy.radians converts",
            stacklevel=stacklevel,
        )
    jumps = np.abs(np.diff(angles)) > np.pi
    if jumps.any():
        k, axis = np.argwhere(jumps.T)[0]
        raise ValueError(
            f"the angle about {AXES[axis]} jumps from {angles[axis, k]:.4g} to "
            f"{angles[axis, k + 1]:.4g} rad at {time[k]:.6g} s; numpy.unwrap joins "
            "angles that wrap"
        )
