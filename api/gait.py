"""`ks.gait`: from markers and force plates to joint torques and back to motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.codegen.evaluate import model_functions
from kinesym.models.gait import forward_dynamics, inverse_dynamics
from kinesym.models.planar_body import PlanarSegment, planar_body, planar_segments
from kinesym.models.whole_body import (
    Segment,
    check_mass,
    measured_segments,
    segments_of_body,
    segments_with,
    whole_body,
    write_segments,
)
from kinesym.pipeline import realise
from kinesym.runtime.arrays import time_grid
from kinesym.runtime.functions import Functions
from kinesym.runtime.gait.constrained import ConstrainedSystem
from kinesym.runtime.gait.control import PD
from kinesym.runtime.gait.course import Samples, Spline
from kinesym.runtime.gait.events import (
    Contact,
    Cycle,
    assign_plates,
    completed,
    contacts_from_markers,
    contacts_from_wrench,
    gait_cycle,
)
from kinesym.runtime.gait.figures import flexion_angles, joint_torques, tracking_errors
from kinesym.runtime.gait.forward import Tracking
from kinesym.runtime.gait.inverse import InverseDynamics, JointLoads, Skeleton
from kinesym.runtime.gait.markers import Markers
from kinesym.runtime.gait.natural import NaturalBody
from kinesym.runtime.gait.planar import PlanarBody
from kinesym.runtime.gait.rates import states
from kinesym.runtime.gait.readers import (
    read_c3d,
    read_csv,
    read_forces,
    read_mot,
    read_places,
    read_table,
    read_trc,
)
from kinesym.runtime.gait.reconstruct import Reconstruction, reconstruct
from kinesym.runtime.gait.relations import (
    Axes,
    Carried,
    Like,
    Midpoint,
    Relations,
    Shifted,
    Trial,
    landmarks,
)
from kinesym.runtime.gait.sharing import (
    CorrectedForcePlates,
    LeastCorrection,
    Sharing,
    SmoothTransition,
    share,
)
from kinesym.runtime.gait.ssa import SSA
from kinesym.runtime.gait.text import File, records
from kinesym.runtime.gait.wrench import Wrench
from kinesym.runtime.manifest import Built
from kinesym.simulation_task import METHODS
from kinesym.symbolic.given import listed_of, mapping, shown
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.tree import Tree
from kinesym.tracking import track

__all__ = [
    "PD",
    "SSA",
    "Axes",
    "Body",
    "Carried",
    "ConstrainedSystem",
    "Contact",
    "CorrectedForcePlates",
    "Cycle",
    "InverseDynamics",
    "JointLoads",
    "LeastCorrection",
    "Like",
    "Markers",
    "Midpoint",
    "NaturalBody",
    "PlanarBody",
    "PlanarSegment",
    "Reconstruction",
    "Relations",
    "Samples",
    "Segment",
    "Sharing",
    "Shifted",
    "SmoothTransition",
    "Spline",
    "Tracking",
    "Trial",
    "Wrench",
    "assign_plates",
    "check_mass",
    "completed",
    "contacts_from_markers",
    "contacts_from_wrench",
    "flexion_angles",
    "gait_cycle",
    "joint_torques",
    "landmarks",
    "planar_body",
    "planar_segments",
    "read_c3d",
    "read_csv",
    "read_forces",
    "read_mot",
    "read_places",
    "read_segments",
    "read_table",
    "read_trc",
    "reconstruct",
    "segments_of_body",
    "segments_with",
    "share",
    "tracking_errors",
    "whole_body",
    "write_segments",
]

Array = NDArray[np.float64]

#: Joints of the whole body by the segment beyond them.
JOINTS = {
    f"{side}_{joint}": f"{side[0].upper()}{segment}"
    for side in ("right", "left")
    for joint, segment in (
        ("hip", "thigh"),
        ("knee", "shank"),
        ("ankle", "hindfoot"),
        ("toes", "forefoot"),
        ("shoulder", "arm"),
        ("elbow", "forearm"),
    )
} | {"lumbar": "torso"}

#: Feet, each of two segments.
FEET = {"right": ("Rhindfoot", "Rforefoot"), "left": ("Lhindfoot", "Lforefoot")}


def read_segments(table: File, points: File) -> tuple[Segment, ...]:
    """Measured segments from two CSV files in kg, m, kg m^2; `write_segments` writes such as a
    start.

    Columns of the first: segment, proximal, mass, com_x, com_y, com_z, I_xx, I_yy, I_zz,
    basis_point, basis_vectors; of the second: point, segment, x, y, z. Raises `FileNotFoundError`,
    and `ValueError` that names segment and column for what is missing or no number, for segments
    that do not hang together, and for masses that look like shares of that of the body.
    """
    rows, places = records(table), records(points)
    try:
        return measured_segments(rows, places)
    except ValueError as error:
        raise ValueError(f"{table}, {points}: {error}") from error


@dataclass(frozen=True)
class Body:
    """A person in segments, with compiled inverse and forward dynamics.

    segments : the table, see `segments_of_body`. mass : of the person, if it was weighed [kg]; a
    table that sums up to another one is warned of. joints : names of joints, by the segment beyond
    them. feet : names of feet, with their segments at the ankle and at the toes.

    One build serves all persons whose tables have numbers in the same places (others are 0): some
    seconds, for the trapezoidal rule half a minute; later it is taken from the cache.
    """

    segments: Sequence[Segment] = field(default_factory=segments_of_body)
    mass: float | None = None
    joints: Mapping[str, str] = field(default_factory=lambda: dict(JOINTS))
    feet: Mapping[str, tuple[str, str]] = field(default_factory=lambda: dict(FEET))

    def __post_init__(self) -> None:
        if not listed_of(self.segments, Segment, "segments"):
            raise ValueError("a body needs at least one segment")
        if self.mass is not None:
            check_mass(self.segments, self.mass)
        names = {row.name for row in self.segments}
        parts = [
            ("joint", joint, [segment], JOINTS.get(joint) == segment)
            for joint, segment in mapping(self.joints, "joints").items()
        ]
        for foot, pair in mapping(self.feet, "feet").items():
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ValueError(f"foot {foot!r} is of two segments, got {shown(pair)}")
            parts.append(("foot", foot, list(pair), FEET.get(foot) == tuple(pair)))
        for kind, name, segments, usual in parts:
            for segment in segments:
                if not usual and segment not in names:
                    raise ValueError(
                        f"{kind} {name!r}: there is no segment {segment!r}; there are "
                        f"{', '.join(sorted(names))}"
                    )

    @cached_property
    def skeleton(self) -> Skeleton:
        """Who hangs on whom."""
        names = [row.name for row in self.segments]
        joints = {joint: name for joint, name in self.joints.items() if name in names}
        feet = {name: parts for name, parts in self.feet.items() if set(parts) <= set(names)}
        return Skeleton(self.segments, joints, feet)

    @cached_property
    def _structure(self) -> _Structure:
        return _Structure(whole_body(self.segments).parametrised())

    def inverse(self, course: Samples) -> InverseDynamics:
        """What a motion needs, in a compiled pass over all instants, two or more."""
        if not isinstance(course, Samples):
            raise ValueError(
                "inverse dynamics needs the motion at instants, course.sample(times), "
                f"got {shown(course)}"
            )
        g = 3 + 3 * len(self.segments)
        if len(course.z) != g:
            raise ValueError(
                f"the motion has {len(course.z)} coordinates, this body {g}; was it "
                "reconstructed with other segments?"
            )
        x, xdot = states(course)
        f, S, N = _inverse(self._structure), len(self.segments), len(course.time)
        values = self._structure.tree.values
        y = f.outputs(xdot, x, (), [values[name] for name in f.parameters], course.time)
        per = y[6 : 6 + 9 * S].reshape(S, 9, N)
        attitude = y[6 + 9 * S :].reshape(S, 3, 3, N)
        return InverseDynamics(
            self.skeleton,
            course,
            Wrench(course.time, y[:3], y[3:6]),
            per[:, :3],
            per[:, 3:6],
            per[:, 6:],
            attitude,
        )

    @property
    def model(self) -> Model:
        """The model of forward dynamics with the numbers of this person; see
        `kinesym.models.gait.forward_dynamics` for its inputs."""
        return replace(_forward(self._structure), values=self._structure.tree.values)

    def forward(
        self, course: Spline, time: ArrayLike, control: PD | None = None, method: str = "trapezoid"
    ) -> Tracking:
        """Simulate the body under the forces that a motion needs, from its begin.

        The force on the root and the torques between world and segments, in world axes, are those
        of inverse dynamics at the nodes and, for methods that ask there, between them.

        course : the motion. time : nodes, in equal steps (N,) [s]. control : PD actuators that
        hold the body to the motion; None lets it go, and errors grow: walking is unstable.
        method : as in `ks.simulate`.

        What ends early is returned up to there with a message that names the instant and the
        segment that is off most. Raises `ValueError` for times outside the motion or unequal
        steps, an unknown method, and what `PD` refuses.
        """
        if not isinstance(course, Spline):
            raise ValueError(
                "a simulated walk needs a course that can be asked between its nodes, "
                f"a Spline, got {shown(course)}"
            )
        if method not in METHODS:
            raise ValueError(f"unknown method {shown(method)}; choose one of {', '.join(METHODS)}")
        if control is not None and not isinstance(control, PD):
            raise ValueError(f"control is None or PD(...), got {shown(control)}")
        grid = time_grid(time)
        if np.ptp(np.diff(grid)) > 1e-6 * (grid[1] - grid[0]):
            raise ValueError("the nodes of a simulated walk must be in equal steps")
        halves = np.empty(2 * len(grid) - 1)
        halves[::2], halves[1::2] = grid, (grid[1:] + grid[:-1]) / 2.0
        needed = self.inverse(course.sample(halves))
        numbers = self._structure.tree.values
        reference = course.sample(grid)
        return track(_forward(self._structure), numbers, needed, reference, control, method)


class _Structure:
    """A parametrised tree as a key: persons who differ in numbers alone share their models."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._key = repr([(b.name, b.parent, b.mass, b.com, b.inertia, b.at) for b in tree.bodies])

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Structure) and other._key == self._key


@lru_cache(maxsize=8)
def _inverse(structure: _Structure) -> Functions:
    return _outputs(inverse_dynamics(structure.tree))


@lru_cache(maxsize=8)
def _forward(structure: _Structure) -> Model:
    return forward_dynamics(structure.tree)


def _outputs(model: Model) -> Functions:
    """The outputs of a model alone: inverse dynamics needs no equations of motion."""
    program = model_functions(model)
    only = replace(program, kernels=(program.kernel("outputs"),))
    return Functions(realise(only), _no_jacobians)


def _no_jacobians() -> Built:
    raise ValueError("inverse dynamics has no Jacobians; compile the model of the tree")
