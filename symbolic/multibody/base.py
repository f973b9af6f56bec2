"""The base of a tree: fixed, or with a prescribed motion."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from kinesym.base.checks import check_choice, check_identifier
from kinesym.symbolic.multibody.joints import Spherical, check_joint
from kinesym.symbolic.multibody.passes import Frame, Pose, change_matrices
from kinesym.symbolic.multibody.relative import Placed, Relative, bryant_matrix
from kinesym.symbolic.multibody.vectors import AXES, IDENTITY, ZERO, Steps, Vector
from kinesym.symbolic.names import t

#: Kinds of given accelerations of a base, and the letters of the inputs that hold them.
ACCELERATIONS = {"kinematic": "a", "derivative": "dv", "imu": "imu"}


@dataclass(frozen=True)
class FixedBase:
    """The base is the world."""

    def pose(self, steps: Steps) -> Pose:
        """Pose of the fixed base: the world."""
        return Pose(IDENTITY, ZERO, Placed())

    def frame(self, steps: Steps, gravity: Vector, at: Pose) -> Frame:
        """Motion of the fixed base, gravity subtracted from its acceleration."""
        still = sp.S.Zero * IDENTITY
        rest = (at.attitude, at.place, Relative())
        return Frame(IDENTITY, ZERO, ZERO, still, still, -gravity, ZERO, *rest)


@dataclass(frozen=True)
class PrescribedBase:
    """A base whose motion is given by inputs, vectors in its own axes unless noted.

    Inputs are named after it: Bryant angles `ship_x`, ... [rad]; angular velocity `ship_wx`, ...
    [rad/s]; angular acceleration `ship_dwx`, ... [rad/s^2]; its `acceleration` [m/s^2]; where
    needed, the velocity of its origin `ship_vx`, ... [m/s] and its place in world axes `ship_px`,
    ... [m].
    acceleration : "kinematic": the acceleration of its origin, `ship_ax`, ...; "derivative": the
        derivatives of the components of its velocity, `ship_dvx`, ..., which differ by w x v;
        "imu": what an accelerometer shows, `ship_imux`, ..., the acceleration minus gravity.
    sequence : order in which the Bryant angles turn about axes of the base.
    """

    name: str = "base"
    sequence: str = "xyz"
    acceleration: str = "kinematic"

    def __post_init__(self) -> None:
        check_identifier(self.name, "the name of a base")
        check_joint(Spherical(self.sequence))
        check_choice(self.acceleration, ACCELERATIONS, "the acceleration of a base")

    def inputs(self, kind: str) -> Vector:
        """Three inputs by their letters: "", "w", "dw", "v", "p" or of `ACCELERATIONS`."""
        axes = self.sequence if not kind else AXES
        return Vector(sp.Function(f"{self.name}_{kind}{axis}")(t) for axis in axes)

    def pose(self, steps: Steps) -> Pose:
        """Pose of the base from inputs."""
        attitude = bryant_matrix(steps, f"A.{self.name}", self.sequence, self.inputs(""))
        return Pose(attitude, self.inputs("p"), Placed())

    def frame(self, steps: Steps, gravity: Vector, at: Pose) -> Frame:
        """Motion of the base from inputs, gravity subtracted from its acceleration."""
        w, dw, v = (self.inputs(kind) for kind in ("w", "dw", "v"))
        a = self.inputs(ACCELERATIONS[self.acceleration])
        if self.acceleration == "derivative":
            a += w.cross(v)
        if self.acceleration != "imu":
            a -= at.attitude.T @ gravity
        a = steps.vector(f"a.{self.name}", a)
        return Frame(
            IDENTITY,
            w,
            dw,
            *change_matrices(steps, self.name, w, dw),
            a,
            v,
            at.attitude,
            at.place,
            Relative(),
        )
