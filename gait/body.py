"""A person in segments, with compiled inverse and forward dynamics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import (
    check_choice,
    check_known,
    listed_of,
    mapping,
    naming,
    pair,
    shown,
)
from kinesym.base.notebook import Displayed
from kinesym.gait.forward import PD, Tracking
from kinesym.gait.inverse import InverseDynamics, Skeleton
from kinesym.gait.kinematics import Samples, Spline, states
from kinesym.gait.marker_inputs import functions_of
from kinesym.gait.tables import File, records
from kinesym.gait.tracking import track
from kinesym.gait.wrench import Wrench
from kinesym.internal.problems.step_options import METHODS
from kinesym.models.gait import forward_dynamics, inverse_dynamics
from kinesym.models.whole_body import (
    FEET,
    JOINTS,
    Segment,
    check_mass,
    segments_from_tables,
    segments_of_body,
    whole_body,
)
from kinesym.runtime.arrays import Array, time_grid
from kinesym.runtime.functions import Functions
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.tree import Tree


def read_segments(table: File, points: File) -> tuple[Segment, ...]:
    """Measured segments from two CSV files in kg, m, kg m^2; `write_segments` writes such as a
    start.

    Columns of the first: segment, proximal, mass, com_x, com_y, com_z, I_xx, I_yy, I_zz,
    basis_point, basis_vectors; of the second: point, segment, x, y, z. Rows may be in any order; of
    segments at the root, the first in the table is the one that joints there count from. Raises
    `FileNotFoundError`, and `ValueError` that names segment and column for cells that are missing
    or no numbers, for segments that make no tree, and for masses that look like fractions.
    """
    rows, positions = records(table), records(points)
    with naming(f"{table}, {points}"):
        return segments_from_tables(rows, positions)


@dataclass(frozen=True)
class Body(Displayed):
    """A person in segments, with compiled inverse and forward dynamics.

    segments : the table, see `segments_of_body`. mass : measured body mass [kg]; warns if the
    segments have another one together. joints : names of joints, by the segment beyond
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
        names = [row.name for row in self.segments]
        for joint, segment in mapping(self.joints, "joints").items():
            if JOINTS.get(joint) != segment:  # the usual ones may be missing
                check_known(segment, names, f"joint {joint!r}: there is no segment {segment!r}")
        for foot, ends in mapping(self.feet, "feet").items():
            parts = pair(ends, f"foot {foot!r} is of two segments")
            for segment in parts if FEET.get(foot) != parts else ():
                check_known(segment, names, f"foot {foot!r}: there is no segment {segment!r}")

    def __repr__(self) -> str:
        return f"<body of {len(self.segments)} segments, {self.skeleton.mass:g} kg>"

    @cached_property
    def skeleton(self) -> Skeleton:
        """The tree of segments, its joints and feet."""
        names = [row.name for row in self.segments]
        joints = {joint: name for joint, name in self.joints.items() if name in names}
        feet = {name: parts for name, parts in self.feet.items() if set(parts) <= set(names)}
        return Skeleton(self.segments, joints, feet)

    @cached_property
    def _structure(self) -> _Structure:
        return _Structure(whole_body(self.segments).parametrised())

    def inverse(self, kinematics: Samples) -> InverseDynamics:
        """Inverse dynamics of a motion at two or more instants, in one compiled pass.

        Raises `ValueError` for objects other than `Samples`, or with coordinates of other segments.
        """
        if not isinstance(kinematics, Samples):
            raise ValueError(
                "inverse dynamics needs the motion at instants, Spline.sample(times), got "
                f"{shown(kinematics)}"
            )
        g = 3 + 3 * len(self.segments)
        if len(kinematics.z) != g:
            raise ValueError(
                f"the motion has {len(kinematics.z)} coordinates, this body {g}; was it "
                "reconstructed with other segments?"
            )
        x, xdot = states(kinematics)
        f, S, N = _inverse(self._structure), len(self.segments), len(kinematics.time)
        values = self._structure.tree.values
        y = f.outputs(xdot, x, (), [values[name] for name in f.parameters], kinematics.time)
        per = y[6 : 6 + 9 * S].reshape(S, 9, N)
        parts = (per[:, :3], per[:, 3:6], per[:, 6:], y[6 + 9 * S :].reshape(S, 3, 3, N))
        total = Wrench(kinematics.time, y[:3], y[3:6])
        return InverseDynamics(self.skeleton, kinematics, total, *parts)

    @property
    def model(self) -> Model:
        """The model of forward dynamics with the numbers of this person; see
        `kinesym.models.gait.forward_dynamics` for its inputs."""
        return replace(_forward(self._structure), values=self._structure.tree.values)

    def forward(
        self,
        kinematics: Spline | Callable[[Array], Samples],
        time: ArrayLike,
        control: PD | None = None,
        method: str = "trapezoid",
    ) -> Tracking:
        """Forward dynamics: simulate the body under the forces that a motion needs, from its start.

        The force on the root and the torques between world and segments, in world axes, are those
        of inverse dynamics at the nodes and, for methods that ask there, between them.

        kinematics : the motion, or a function that gives it as `Samples` at any times. time :
        nodes, in equal steps (N,) [s]. control : PD actuators that track the motion; without them
        errors grow, as walking is unstable.
        method : as in `ks.simulate`.

        A run that ends early is returned up to there, with a message that names the instant and the
        segment with the largest error. Raises `ValueError` for times outside the motion or unequal
        steps, an unknown method, and for what `PD` refuses.
        """
        course = kinematics.sample if isinstance(kinematics, Spline) else kinematics
        if not callable(course):
            raise ValueError(
                "forward dynamics needs the motion between its nodes too: a Spline, or a function "
                f"that gives Samples at any times; got {shown(kinematics)}"
            )
        check_choice(method, METHODS, "method")
        if control is not None and not isinstance(control, PD):
            raise ValueError(f"control is None or PD(...), got {shown(control)}")
        grid = time_grid(time)
        if np.ptp(np.diff(grid)) > 1e-6 * (grid[1] - grid[0]):
            raise ValueError("the nodes of a simulated walk must be in equal steps")
        halves = np.empty(2 * len(grid) - 1)
        halves[::2], halves[1::2] = grid, (grid[1:] + grid[:-1]) / 2.0
        needed = self.inverse(course(halves))
        numbers = self._structure.tree.values
        reference = course(grid)
        return track(_forward(self._structure), numbers, needed, reference, control, method)


class _Structure:
    """A parametrised tree as a key: bodies that differ only in numbers share their models."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._key = repr([(b.name, b.parent, b.mass, b.com, b.inertia, b.at) for b in tree.bodies])

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Structure) and other._key == self._key


@lru_cache(maxsize=8)
def _inverse(structure: _Structure) -> Functions:
    return functions_of(inverse_dynamics(structure.tree))


@lru_cache(maxsize=8)
def _forward(structure: _Structure) -> Model:
    return forward_dynamics(structure.tree)
