"""PD actuators with which a simulated body tracks its measured motion."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.runtime.arrays import real_array
from kinesym.runtime.checks import finite, flag, listed, positive
from kinesym.symbolic.multibody.segments import Segment

Array = NDArray[np.float64]


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
        if finite(self.Td, "the derivative time") < 0.0:
            raise ValueError(f"the derivative time must not be negative, got {self.Td}")
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
                f"a PD controller needs one stiffness, or {g}, one for each "
                f"coordinate; got {given.shape}"
            )
        root = segments[0].mass if self.root_mass is None else self.root_mass
        return float(given) * np.repeat([root, *(row.mass for row in segments)], 3)

    def check_step(self, step: float) -> None:
        """Warn if a sampled controller is likely to be unstable with this step [s]."""
        if self.sampled and self.Td < step / 2.0:
            warnings.warn(
                f"a controller that is sampled every {step:g} s lags by {step / 2.0:g} s, more "
                f"than its derivative time {self.Td:g} s can make up for: it feeds oscillations; "
                "use sampled=False or shorter steps",
                stacklevel=3,
            )
