"""Ways to share the ground reaction between the feet in double support."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kinesym.base.checks import check_choice, finite, mapping, positive
from kinesym.gait.wrench import Wrench
from kinesym.runtime.arrays import Array

RAMPS = ("linear", "smoothstep", "half")


@dataclass(frozen=True, eq=False)
class DoubleSupport:
    """Input of a method of sharing: one double support.

    Rows of wrenches are force and moment about the origin, (6, n) over the samples within.

    phase : (n,), 0 when the leading foot strikes, 1 when the trailing one leaves. feet : (trailing,
    leading). total : the sum. at_strike : (6,), the total at phase 0. plates : measured under the
    feet, (trailing, leading), None where there is no plate. mismatch : of each plate from the total
    where its foot bears all, the trailing one at phase 0, the leading one at phase 1, (6,); zero
    where there is no plate, or the record does not have that end. interval : [s]. ends : the share
    of the leading foot at phase 0 and 1: 0 when it strikes, then 1 if the trailing one leaves or 0
    if it leaves itself; None for an end that the record does not have, and if both feet come or
    leave at once.
    """

    phase: Array
    feet: tuple[str, str]
    total: Array
    at_strike: Array
    plates: tuple[Array | None, Array | None]
    mismatch: tuple[Array, Array]
    interval: tuple[float, float]
    ends: tuple[float | None, float | None]

    def passing(self, method: str) -> None:
        """Raise `ValueError` if the leading foot comes and goes while the trailing one stays: for
        methods by which the load passes over to it."""
        if self.ends[1] == 0.0:
            stays, comes = self.feet
            raise ValueError(
                f"{comes!r} stands from {self.interval[0]:.6g} to {self.interval[1]:.6g} s while "
                f"{stays!r} stays on the ground: no load passes over, as {method} needs; "
                "contact_forces does without plates, LeastCorrection with one"
            )

    def unmeasured(self, method: str) -> ValueError:
        """Error of a method that needs a plate under one of the feet."""
        trailing, leading = self.feet
        return ValueError(
            f"neither {trailing!r} nor {leading!r} stands on a plate in the double support from "
            f"{self.interval[0]:.6g} to {self.interval[1]:.6g} s, which {method} needs; "
            "SmoothTransition does without"
        )


class Method(Protocol):
    """A way to share."""

    def leading(self, double: DoubleSupport) -> Array:
        """The wrench on the leading foot, (6, n); the trailing one bears the rest."""


@dataclass(frozen=True)
class CorrectedForcePlates:
    """Force plates, corrected to be consistent with the motion (Pamies-Vila, Font-Llagunes 2013).

    The mismatch d = W - W_t - W_l between the motion and both plates is added to the leading foot
    with weight kappa and to the trailing one with 1 - kappa. kappa goes from 0 at heel strike of
    the leading foot to 1 at toe-off of the trailing one: in a straight line, or with slope zero at
    both ends ("smoothstep"). Both wrenches are then continuous with single support, where one foot
    bears all of W, and there is no residual. "half" is kappa = 1/2 throughout, as the literature
    also has it: then they jump.

    With one plate alone, d is the mismatch of that plate where its foot alone bears all; that foot
    gets it by its ramp, the other foot the remainder. Where the record is cut so that this end is
    not in it, the plate is used unchanged; the ramp runs over what the record has. Of a foot that
    comes and goes while the other stays the plate is used unchanged, too: the other gets the rest.

    Raises `ValueError` for an unknown ramp, and when used where neither foot stands on a plate.
    """

    ramp: str = "linear"

    def __post_init__(self) -> None:
        check_choice(self.ramp, RAMPS, "ramp")

    def leading(self, double: DoubleSupport) -> Array:
        """See `Method`."""
        kappa = self._kappa(double.phase) * (double.ends[1] != 0.0)
        trailing, leading = double.plates
        before, after = double.mismatch
        if trailing is not None and leading is not None:
            return leading + kappa * (double.total - trailing - leading)
        if leading is not None:
            return leading + kappa * after[:, None]
        if trailing is not None:
            double.passing("CorrectedForcePlates with a plate under that foot alone")
            return np.asarray(double.total - trailing - (1.0 - kappa) * before[:, None])
        raise double.unmeasured("CorrectedForcePlates")

    def _kappa(self, phase: Array) -> Array:
        if self.ramp == "half":
            return np.full_like(phase, 0.5)
        return phase if self.ramp == "linear" else phase**2 * (3.0 - 2.0 * phase)


@dataclass(frozen=True)
class SmoothTransition:
    """Smooth transition assumption, without force plates (Ren, Jones, Howard 2008).

    The wrench on the trailing foot is that at the heel strike of the leading one, times a function
    of time: with T half the double support and s = t/T from 0 to 2, for the force along x

        k1 exp(-(s - 2/3)^2) - k2 s,    k1 = exp(4/9), k2 = k1 exp(-16/9)/2,

    which first grows, as in push-off, and for everything else exp(-s^3), scaled and shifted here so
    that it ends at zero, not at 3.4e-4. Moments fade about the centre of pressure at the strike,
    which is our choice: the result does not depend on the origin then. Plates are not used.

    height : of the floor [m]. Raises `ValueError` if the record begins within the double support.
    """

    height: float = 0.0

    def __post_init__(self) -> None:
        finite(self.height, "height")

    def leading(self, double: DoubleSupport) -> Array:
        """See `Method`."""
        double.passing("SmoothTransition")
        if double.ends[0] is None:
            trailing, leading = double.feet
            raise ValueError(
                f"the record begins within the double support of {trailing!r} and {leading!r} "
                f"until {double.interval[1]:.6g} s; a smooth transition needs its heel strike: cut "
                "the record"
            )
        force, moment = double.at_strike[:3], double.at_strike[3:]
        at_strike = Wrench(np.arange(2.0), *(np.array([v, v]).T for v in (force, moment)))
        position = at_strike.cop(self.height, threshold=0.0)[:, 0]
        if not np.isfinite(position).all():
            raise ValueError(
                f"nothing presses on the ground at {double.interval[0]:.6g} s, where "
                f"{double.feet[1]!r} strikes: Fz = {force[2]:.4g} N"
            )
        along, other = self._fading(double.phase)
        faded = force[:, None] * np.array([along, other, other])
        turned = (moment - np.cross(position, force))[:, None] * other
        return double.total - np.vstack([faded, turned + np.cross(position, faded.T).T])

    @staticmethod
    def _fading(phase: Array) -> tuple[Array, Array]:
        """The function for the force along x, and that for all others."""
        s = 2.0 * phase
        k1 = np.exp(4.0 / 9.0)
        k2 = 0.5 * k1 * np.exp(-16.0 / 9.0)
        end = np.exp(-8.0)
        along = k1 * np.exp(-((s - 2.0 / 3.0) ** 2)) - k2 * s
        return along, (np.exp(-(s**3)) - end) / (1.0 - end)


@dataclass(frozen=True)
class LeastCorrection:
    """The smallest correction of the plates that is consistent with the motion, instant by instant.

    The sum over both feet of weight times the squared correction is least, so that a foot gets the
    weight of the other one as its share of the mismatch. Wrenches jump by that at heel strikes
    and toe-offs. Where only one foot has a plate, its wrench is
    used unchanged.

    weights : how far the plate of each foot is trusted, by foot; 1 for those left out. Raises
    `ValueError` if one is not positive, and when used where neither foot stands on a plate.
    """

    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for foot, weight in mapping(self.weights, "weights").items():
            positive(weight, f"the weight of {foot!r}")

    def leading(self, double: DoubleSupport) -> Array:
        """See `Method`."""
        trailing, leading = double.plates
        if trailing is not None and leading is not None:
            mine, other = (self.weights.get(foot, 1.0) for foot in reversed(double.feet))
            return leading + other / (mine + other) * (double.total - trailing - leading)
        if leading is not None:
            return leading
        if trailing is not None:
            return np.asarray(double.total - trailing)
        raise double.unmeasured("LeastCorrection")


#: Methods for plates that a warning may name, by how they are written.
OTHERS: Mapping[str, Method] = {
    "LeastCorrection()": LeastCorrection(),
    'CorrectedForcePlates(ramp="smoothstep")': CorrectedForcePlates("smoothstep"),
}
