"""Inverse dynamics: ground reaction, joint forces and joint torques of a measured motion.

The motion alone gives the total wrench of the ground; once that is shared between the feet, force
and torque of every joint follow, with no residual at the pelvis (Pamies-Vila, Font-Llagunes 2013).
All vectors are in world axes, x forwards, y to the left, z up. N instants, S segments, g
coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinesym.base.checks import Named, Renamed, check_known, suggest
from kinesym.base.notebook import Displayed
from kinesym.gait.checks import warn, warn_of
from kinesym.gait.frames import DataFrame, by_time
from kinesym.gait.kinematics import Samples, angles_of, angular_velocity, pose, turning
from kinesym.gait.names import side_of
from kinesym.gait.natural.body import G, NaturalBody
from kinesym.gait.plates import Moved, check_under, line_of_foot
from kinesym.gait.wrench import Wrench
from kinesym.runtime.arrays import Array, rms
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.results.trajectory import Drawing, Trajectory
from kinesym.runtime.summary import samples
from kinesym.symbolic.multibody.segments import Segment, owners

#: Share of the weight of a residual force above which there is a warning: 3 % on a walk with all
#: markers, 11 % on one without those of trunk and arms.
LEFT_OVER = 0.15


@dataclass(frozen=True)
class Skeleton:
    """The tree of segments, its joints and feet.

    segments : each after its parent; the first one, the pelvis, is the proximal neighbour of others
    at the root. joints : name -> segment beyond it. feet : name -> segments at ankle and toes.
    """

    segments: Sequence[Segment]
    joints: Mapping[str, str]
    feet: Mapping[str, tuple[str, str]]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the segments."""
        return tuple(row.name for row in self.segments)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Number of the parent of each segment, -1 for the root."""
        carrier = owners(self.segments, self.segments[0].proximal)
        number = {name: k for k, name in enumerate(self.names)}
        return tuple(number.get(carrier[row.proximal], -1) for row in self.segments)

    @property
    def mass(self) -> float:
        """Mass of the body [kg]."""
        return sum(row.mass for row in self.segments)

    def number(self, name: str) -> int:
        """Index of a segment, by its own name or that of its proximal joint; raises
        `ValueError`."""
        segment = self.joints.get(name, name)
        if segment not in self.names:
            known = suggest(name, [*self.names, *self.joints, *self.feet])
            raise ValueError(f"there is no segment or joint {name!r}; {known}")
        return self.names.index(segment)

    def proximal_neighbour(self, segment: int) -> int:
        """The segment at the other side of the proximal joint; -1 for the first, which has none."""
        parent = self.parents[segment]
        return 0 if parent < 0 < segment else parent

    def bears(self, joint: str) -> bool:
        """Whether a joint is between the root and a foot, so that the ground loads it."""
        ends = [self.number(part) for parts in self.feet.values() for part in parts]
        return any(self.number(joint) in self.chain(end) for end in ends)

    def chain(self, segment: int) -> list[int]:
        """A segment and those that carry it, up to the one on the root."""
        found = [segment]
        while self.parents[found[-1]] >= 0:
            found.append(self.parents[found[-1]])
        return found


@dataclass(frozen=True, eq=False)
class InverseDynamics(Displayed, Renamed, renamed={"course": "kinematics"}):
    """Forces and torques that a motion needs.

    kinematics : the motion. total : the external wrench without gravity. force : (S, 3, N) [N],
    moment : (S, 3, N) about its joint [N m], the reaction wrench of the proximal joint on each
    segment if gravity is the only external force. position : of its joint, (S, 3, N) [m]. attitude
    : of the segment, (S, 3, 3, N).
    """

    skeleton: Skeleton
    kinematics: Samples
    total: Wrench
    force: Array
    moment: Array
    position: Array
    attitude: Array

    def __repr__(self) -> str:
        return f"<inverse dynamics of {len(self.force)} segments: {samples(self.time)}>"

    @property
    def time(self) -> Array:
        """Time (N,) [s]."""
        return self.kinematics.time

    def to_pandas(self) -> DataFrame:
        """The generalised `forces` by the coordinate that they are along, by time [s]."""
        names = coordinate_names(self.skeleton.segments)
        return by_time(self.time, dict(zip(names, self.forces, strict=True)))

    @cached_property
    def torque(self) -> Array:
        """Absolute torques, of the world on each segment, (S, 3, N) [N m]: with the total force on
        the root they drive the motion."""
        result = self.moment.copy()
        for k, parent in enumerate(self.skeleton.parents):
            if parent >= 0:
                result[parent] -= self.moment[k]
        return result

    @cached_property
    def forces(self) -> Array:
        """Generalised forces along the coordinates, (g, N) [N, N m]: the total force, then the
        torques along the angles of each segment (equation 16)."""
        axes = [pose(angles).H for angles in self.kinematics.z[3:].reshape(-1, 3, len(self.time))]
        along = np.einsum("snij,sin->sjn", np.array(axes), self.torque)
        return np.vstack([self.total.force, *along])

    def multipliers(self, variant: str = "explicit") -> dict[str, Array]:
        """The Lagrange multipliers of the constraints in natural coordinates by name, (N,) each;
        see `NaturalBody` for the variants and their meaning."""
        rows, motion = self.skeleton.segments, self.kinematics
        body = NaturalBody(rows, rows[0].proximal, variant=variant)
        values = body.multipliers(motion.z, motion.zd, motion.zdd)
        return Named("constraint", zip(body.constraint_names, values, strict=True))

    @cached_property
    def angular_velocity(self) -> Array:
        """Angular velocities, (S, 3, N) [rad/s]."""
        own = angular_velocity(turning(self.kinematics.z), turning(self.kinematics.zd))
        return np.einsum("sijn,jsn->sin", self.attitude, own)

    def under_foot(self, foot: str, wrench: Wrench) -> dict[str, Wrench]:
        """The ground reaction on a foot of two segments, applied to the one above the centre of
        pressure.

        The choice changes only the torque between the two segments. Raises `ValueError` for an
        unknown foot or a wrench at other times.
        """
        check_known(foot, self.skeleton.feet, f"there is no foot {foot!r}")
        self._check_times(foot, wrench)
        hind, fore = self.skeleton.feet[foot]
        k = self.skeleton.number(fore)
        forwards = self.attitude[self.skeleton.number(hind)][:, 0]
        ahead = np.nan_to_num(wrench.cop()) - self.position[k]
        on_toes = (np.einsum("in,in->n", ahead, forwards) > 0.0).astype(float)
        return {hind: wrench.scaled(1.0 - on_toes), fore: wrench.scaled(on_toes)}

    def _check_times(self, name: str, wrench: Wrench) -> None:
        if wrench.time.shape != self.time.shape or not np.allclose(wrench.time, self.time):
            raise ValueError(
                f"the wrench on {name} is at other times than the motion; use wrench.at(time)"
            )

    def joints(self, loads: Mapping[str, Wrench]) -> JointLoads:
        """Forces and torques of all joints under external wrenches, by segment or foot.

        Measured wrenches are used unchanged; the mismatch appears as a residual at the pelvis.

        Warns if wrenches under the feet leave much of the force that the motion needs, and of those
        that press under the other foot, as where plates are exchanged. Raises `ValueError` for an
        unknown name or wrenches at other times.
        """
        parts: dict[str, Wrench] = {}
        for name, wrench in loads.items():
            self._check_times(name, wrench)
            foot = name in self.skeleton.feet
            split = self.under_foot(name, wrench) if foot else {name: wrench}
            for segment, part in split.items():
                parts[segment] = parts[segment] + part if segment in parts else part
        force, torque = self.force.copy(), self.moment.copy()
        residual = self.total
        for name, wrench in parts.items():
            residual = residual - wrench
            for k in self.skeleton.chain(self.skeleton.number(name)):
                force[k] -= wrench.force
                torque[k] -= wrench.about(self.position[k])
        if self.skeleton.feet.keys() & loads.keys():
            self._check_residual(residual)
            self._check_feet({foot: loads[foot] for foot in loads if foot in self.skeleton.feet})
        root = [k for k, parent in enumerate(self.skeleton.parents) if parent < 0]
        force[0], torque[0] = force[root].sum(axis=0), torque[root].sum(axis=0)
        return JointLoads(self, force, torque, residual, Named("load on a segment", parts))

    def _check_residual(self, residual: Wrench) -> None:
        """Warn of a force that the plates lack."""
        size = np.linalg.norm(residual.force, axis=0)
        share = rms(size) / (self.skeleton.mass * G)
        if share > LEFT_OVER:
            warn(
                f"wrenches under the feet leave {100.0 * share:.0f} % of the weight of what the "
                f"motion needs (rms), most at {self.time[int(size.argmax())]:.3f} s: is a plate "
                "missing, late or of another mass? walk.check(plates) tells"
            )

    def _check_feet(self, wrenches: Mapping[str, Wrench]) -> None:
        """Warn of wrenches that press under another foot, as where plates are exchanged."""
        number = self.skeleton.number
        lines = {
            foot: line_of_foot(*(self.position[number(part)] for part in parts))
            for foot, parts in self.skeleton.feet.items()
        }
        moved = Moved(self.time, self.total.force, self.skeleton.mass, lines)
        upwards = {foot: w for foot, w in wrenches.items() if w.force[2].mean() > 0.0}
        warn_of(one for one in check_under(moved, upwards) if len(one.names) > 1)


@dataclass(frozen=True, eq=False)
class JointLoads(Displayed):
    """Reaction wrenches of the joints.

    force, torque : (S, 3, N) [N, N m], of the proximal neighbour on each segment, at its joint.
    Those of the first segment are the residual: the wrench that the motion needs beyond the
    external ones. residual : the same about the origin. loads : external wrenches by segment.
    """

    inverse: InverseDynamics
    force: Array
    torque: Array
    residual: Wrench
    loads: Mapping[str, Wrench]

    def __repr__(self) -> str:
        return f"<reaction wrenches of {len(self.force)} joints: {samples(self.time)}>"

    @property
    def time(self) -> Array:
        """Time (N,) [s]."""
        return self.inverse.time

    def flexion(self, joint: str) -> Array:
        """Sagittal torque of a joint, about the lateral axis of its proximal segment, (N,) [N m].

        Positive for hip flexion, knee extension and ankle dorsiflexion: a turn of the segment about
        the axis that points to the right.
        """
        before, k = self._pair(joint)
        lateral = self.inverse.attitude[before][:, 1]
        return -np.einsum("in,in->n", self.torque[k], lateral)

    def flexion_angle(self, joint: str) -> Array:
        """The angle in the same sense, (N,) [rad]: in the sagittal plane of the proximal segment,
        zero where both have the same axes."""
        return flexion_angle(*(self.inverse.attitude[k] for k in self._pair(joint)))

    def adduction(self, joint: str) -> Array:
        """Torque of a joint about its floating axis, (N,) [N m]: normal to the lateral axis of the
        proximal segment and the long one of the segment itself, as in the joint coordinate systems
        of the ISB (Wu et al. 2002, J. Biomech. 35:543; Grood, Suntay 1983).

        Positive for adduction of hip and knee and inversion of the foot, on both sides; of lumbar
        and others without a side, its sign as on the right. With `flexion` and `rotation` it is
        conjugate to the angles: their products with the rates of these add up to `power`.
        """
        before, k = self._pair(joint)
        lateral, long = self.inverse.attitude[before][:, 1], self.inverse.attitude[k][:, 2]
        floating = np.cross(lateral, long, axis=0)
        along = np.einsum("in,in->n", self.torque[k], floating)
        return self._side(joint) * along / np.linalg.norm(floating, axis=0)

    def rotation(self, joint: str) -> Array:
        """Torque of a joint about the long axis of the segment beyond it, (N,) [N m]: positive for
        internal rotation, on both sides; see `adduction`."""
        _, k = self._pair(joint)
        long = self.inverse.attitude[k][:, 2]
        return self._side(joint) * np.einsum("in,in->n", self.torque[k], long)

    def adduction_angle(self, joint: str) -> Array:
        """The angle of `adduction`, (N,) [rad]: about the floating axis, zero where both segments
        have the same axes."""
        return self._side(joint) * self._relative(joint)[0]

    def rotation_angle(self, joint: str) -> Array:
        """The angle of `rotation`, (N,) [rad], about the long axis of the segment beyond."""
        return self._side(joint) * self._relative(joint)[2]

    def _side(self, joint: str) -> float:
        """1, or -1 on the left (`Lthigh`), where adduction and rotation turn the other way."""
        name = self.inverse.skeleton.names[self._pair(joint)[1]]
        return -1.0 if side_of(name) == "left" else 1.0

    def _relative(self, joint: str) -> Array:
        """Angles of a segment in the axes of its proximal neighbour, (3, N), see `angles`."""
        before, beyond = (self.inverse.attitude[k] for k in self._pair(joint))
        return angles_of(np.einsum("jin,jkn->ikn", before, beyond))

    def power(self, joint: str) -> Array:
        """Power of the torque of a joint, (N,) [W]: positive where energy is generated."""
        (before, k), w = self._pair(joint), self.inverse.angular_velocity
        return np.einsum("in,in->n", self.torque[k], w[k] - w[before])

    def _pair(self, joint: str) -> tuple[int, int]:
        """The segments before and beyond a joint."""
        k = self.inverse.skeleton.number(joint)
        if k == 0:
            raise ValueError(f"{joint} has no neighbour; choose the joint of another segment")
        return self.inverse.skeleton.proximal_neighbour(k), k

    def plot(self, joints: Sequence[str] | None = None) -> Any:
        """Angle, torque over body mass and power of joints, by default of the legs."""
        known, leg = self.inverse.skeleton.joints, ("hip", "knee", "ankle")
        names = joints or [name for name in known if name.split("_")[-1] in leg]
        many, size = len(names), (2.6 * len(names), 6.4)
        figure, axes = subplots(3, many, sharex=True, sharey="row", squeeze=False, figsize=size)
        mass = self.inverse.skeleton.mass
        for column, name in zip(axes.T, names, strict=True):
            rows = {
                "angle [deg]": np.degrees(self.flexion_angle(name)),
                "torque [N m/kg]": self.flexion(name) / mass,
                "power [W/kg]": self.power(name) / mass,
            }
            for panel, (label, row) in zip(column, rows.items(), strict=True):
                panel.plot(self.time, row, lw=1.2)
                panel.axhline(0.0, color="k", lw=0.6)
                if name == names[0]:
                    panel.set_ylabel(label)
            positive = "extension" if name.endswith("knee") else "flexion"
            column[0].set_title(f"{name}: {positive}", fontsize="medium")
        figure.supxlabel("time [s]")
        return figure

    def trajectory(self) -> Trajectory:
        """Everything over time: to plot, to animate, to write as netCDF or CSV."""
        skeleton = self.inverse.skeleton
        points, drawing = stick_figure(skeleton.segments, self.inverse.kinematics.z)
        names, kinematics = coordinate_names(skeleton.segments), self.inverse.kinematics
        values = {name: row for name, row in self.columns().items() if name != "time_s"}
        for kind, rows in (
            ("rate", kinematics.zd),
            ("acceleration", kinematics.zdd),
            ("needed", self.inverse.forces),
        ):
            values |= {f"{name}_{kind}": row for name, row in zip(names, rows, strict=True)}
        states = dict(zip(names, kinematics.z, strict=True))
        outputs, model = values | points, "inverse dynamics"
        return Trajectory(self.time, states, {}, outputs, {}, model, drawing=drawing)

    def to_pandas(self) -> DataFrame:
        """Everything by name, by time [s]: see `columns`."""
        columns = dict(self.columns())
        return by_time(columns.pop("time_s"), columns)

    def columns(self) -> dict[str, Array]:
        """Everything by name, (N,) each: for tables and files."""
        found = {"time_s": self.time}
        skeleton = self.inverse.skeleton
        for name, parts, unit in (("torque", self.torque, "Nm"), ("force", self.force, "N")):
            for k, segment in enumerate(skeleton.names):
                for axis, row in zip("xyz", parts[k], strict=True):
                    found[f"{segment}_{name}_{axis}_{unit}"] = row
        for joint in skeleton.joints:
            found[f"{joint}_flexion_rad"] = self.flexion_angle(joint)
            found[f"{joint}_flexion_Nm"] = self.flexion(joint)
            found[f"{joint}_flexion_Nm_per_kg"] = self.flexion(joint) / skeleton.mass
            found[f"{joint}_adduction_Nm"] = self.adduction(joint)
            found[f"{joint}_rotation_Nm"] = self.rotation(joint)
            found[f"{joint}_power_W"] = self.power(joint)
            found[f"{joint}_power_W_per_kg"] = self.power(joint) / skeleton.mass
            found[f"{joint}_adduction_rad"] = self.adduction_angle(joint)
            found[f"{joint}_rotation_rad"] = self.rotation_angle(joint)
        for name, wrench in {"total": self.inverse.total, **self.loads}.items():
            for axis, f, m, c in zip("xyz", wrench.force, wrench.moment, wrench.cop(), strict=True):
                found[f"{name}_ground_force_{axis}_N"] = f
                found[f"{name}_ground_moment_{axis}_Nm"] = m
                found[f"{name}_ground_cop_{axis}_m"] = c
        return Named("column", found)


def flexion_angle(before: Array, beyond: Array) -> Array:
    """The angle (N,) [rad] between segments of these attitudes (3, 3, N), see
    `JointLoads.flexion_angle`."""
    relative = np.einsum("jin,jkn->ikn", before, beyond)
    return np.unwrap(np.arctan2(-relative[0, 2], relative[2, 2]))


def coordinate_names(segments: Sequence[Segment]) -> list[str]:
    """`J1_px`, ... of the root, then `pelvis_x`, ... of each segment: the rows of z."""
    names = [f"{segments[0].proximal}_p{axis}" for axis in "xyz"]
    return names + [f"{row.name}_{axis}" for row in segments for axis in "xyz"]


def stick_figure(segments: Sequence[Segment], z: Array) -> tuple[dict[str, Array], Drawing]:
    """Coordinates of all points by name, `RK_x`, ..., and lines between those of a segment."""
    body = NaturalBody(segments, segments[0].proximal)
    q = body.kinematics(z).q
    points = {
        f"{name}_{axis}": row
        for name in body.points
        for axis, row in zip("xyz", q[body.rows_of(name)], strict=True)
    }
    return points, tuple((row.proximal, point) for row in segments for point in row.points)
