"""Forward dynamics of a measured walk: PD actuators, the simulated motion, its tracking error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import check_known, flag, listed, not_negative, positive
from kinesym.base.notebook import Displayed
from kinesym.gait.checks import warn
from kinesym.gait.inverse import coordinate_names, stick_figure
from kinesym.gait.kinematics import Samples, pose
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.summary import samples
from kinesym.symbolic.multibody.segments import Segment


@dataclass(frozen=True)
class PD:
    """Effort Kp (e + Td e') along each coordinate, e = reference - simulated.

    stiffness : Kp over the mass of the segment [N/(m kg) and N m/(rad kg)], or Kp itself for every
        coordinate (g,). Td : derivative time [s]. Defaults by Pamies-Vila, Font-Llagunes 2013,
        equations 18 to 20.
    root_mass : mass that scales Kp of the root, by default that of the first segment, the pelvis
        [kg].
    sampled : effort computed at the start of each step, e' by the difference of the last two
        errors, and held over it, as a digital controller would. Otherwise it follows the motion
        within the step. Held, it lags by half a step, which must be less than Td, and it overshoots
        where Kp Td step is more than twice a moment of inertia.

    Raises `ValueError` for gains that are negative or not finite.
    """

    stiffness: ArrayLike = 400.0
    Td: float = 2.5e-5
    root_mass: float | None = None
    sampled: bool = False

    def __post_init__(self) -> None:
        gains = real_array(self.stiffness, "the stiffness of a PD controller")
        if not (np.isfinite(gains).all() and (gains >= 0.0).all()):
            raise ValueError("gains of a PD controller must not be negative")
        not_negative(self.Td, "the derivative time")
        if self.root_mass is not None:
            positive(self.root_mass, "root_mass of a PD controller")
        flag(self.sampled, "sampled")

    def gains(self, segments: Sequence[Segment]) -> Array:
        """Kp of every coordinate, (g,); raises `ValueError` for a wrong number of them."""
        segments = listed(segments, "segments")
        given, g = np.asarray(self.stiffness, dtype=np.float64), 3 + 3 * len(segments)
        if given.shape == (g,):
            return given
        if given.shape != ():
            raise ValueError(
                f"a PD controller needs one stiffness, or {g}, one for each coordinate; got "
                f"{given.shape}"
            )
        root = segments[0].mass if self.root_mass is None else self.root_mass
        return float(given) * np.repeat([root, *(row.mass for row in segments)], 3)

    def check_step(self, step: float) -> None:
        """Warn if a sampled controller is likely to be unstable with this step [s]."""
        if self.sampled and self.Td < step / 2.0:
            warn(
                f"a controller sampled every {step:g} s lags by {step / 2.0:g} s, more than its "
                f"derivative time {self.Td:g} s: it feeds oscillations; use sampled=False or "
                "shorter steps",
            )


@dataclass(frozen=True, repr=False, eq=False)
class Tracking(Displayed):
    """A simulated walk and its reference.

    segments : of the body. reference : the measured motion, at the nodes that were reached.
    z, zd : simulated coordinates and rates, (g, N). gains : Kp (g,), all 0 without control.
    effort : of the controller, (g, N) [N, N m], generalised forces along the coordinates.
    message : why it ended early; empty if it did not. method, step : of integration [s].
    """

    segments: Sequence[Segment]
    reference: Samples
    z: Array
    zd: Array
    gains: Array
    effort: Array
    method: str
    step: float
    message: str = ""

    def __repr__(self) -> str:
        ended = f"; {self.message}" if self.message else ""
        off = f"coordinates off by {float(np.abs(self.error).max()):.3g} at most"
        return f"<walk of {len(self.segments)} segments: {samples(self.time)}, {off}{ended}>"

    @property
    def time(self) -> Array:
        """Time (N,) [s]."""
        return self.reference.time

    @property
    def error(self) -> Array:
        """Reference minus simulated, (g, N) [m, rad]."""
        return self.reference.z - self.z

    def angle(self, segment: str) -> slice:
        """Rows of alpha, beta, gamma of a segment."""
        names = [row.name for row in self.segments]
        check_known(segment, names, f"there is no segment {segment!r}")
        first = 3 + 3 * names.index(segment)
        return slice(first, first + 3)

    def attitude(self, segment: str, z: Array) -> Array:
        """The axes of a segment in coordinates z (g, N), (3, 3, N)."""
        return pose(z[self.angle(segment)]).A.transpose(1, 2, 0)

    def trajectory(self) -> Trajectory:
        """Everything over time: to plot, to animate, to write as netCDF or CSV."""
        names = coordinate_names(self.segments)
        points, drawing = stick_figure(self.segments, self.z)
        outputs = {
            f"{name}_{kind}": row
            for kind, rows in (("reference", self.reference.z), ("effort", self.effort))
            for name, row in zip(names, rows, strict=True)
        }
        outputs |= points
        states, model = dict(zip(names, self.z, strict=True)), f"forward dynamics, {self.method}"
        return Trajectory(
            self.time, states, {}, outputs, {}, model, message=self.message, drawing=drawing
        )

    def horizon(self, limit: float) -> float:
        """Time at which the error of a sagittal angle (beta) first exceeds `limit` [rad], in s from
        the start; infinite if none does and the end was reached."""
        off = (np.abs(self.error[4::3]) > limit).any(axis=0)
        if off.any():
            return float(self.time[int(off.argmax())] - self.time[0])
        return np.inf if not self.message else float(self.time[-1] - self.time[0])

    def worst(self) -> tuple[str, float]:
        """The segment with the largest error of an angle at the end, and that error [rad]."""
        last = np.abs(self.error[3:, -1]).reshape(-1, 3).max(axis=1)
        k = int(np.nan_to_num(last, nan=-1.0).argmax())
        return self.segments[k].name, float(last[k])

    def peaks(self, names: Sequence[str]) -> list[tuple[str, float, float]]:
        """Largest effort along x, y, z at the root and about y of segments, with its instant [s]
        (Pamies-Vila, Font-Llagunes 2013, table 1)."""
        rows = [("F_" + axis, k) for k, axis in enumerate("xyz")]
        rows += [(f"M_y {name}", self.angle(name).start + 1) for name in names]
        found = []
        for label, k in rows:
            size = np.abs(self.effort[k])
            found.append((label, float(size.max()), float(self.time[int(size.argmax())])))
        return found
