"""`ks.gait`: from markers and force plates to joint torques and back to motion."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.codegen.c import emit
from kinesym.codegen.evaluate import model_functions
from kinesym.models.gait import inverse_dynamics
from kinesym.models.whole_body import Segment, segments_of_body, whole_body
from kinesym.runtime.build import build
from kinesym.runtime.functions import Functions
from kinesym.runtime.gait.course import Samples
from kinesym.runtime.gait.inverse import InverseDynamics, Skeleton
from kinesym.runtime.gait.rates import states
from kinesym.runtime.gait.wrench import Wrench
from kinesym.symbolic.model import Model

Array = NDArray[np.float64]

#: Joints of the whole body by the segment beyond them.
JOINTS = {
    f"{side}_{joint}": f"{side[0].upper()}{segment}"
    for side in ("right", "left")
    for joint, segment in (("hip", "thigh"), ("knee", "shank"), ("ankle", "hindfoot"),
                           ("toes", "forefoot"), ("shoulder", "arm"), ("elbow", "forearm"))
} | {"lumbar": "torso"}  # fmt: skip


@dataclass(frozen=True)
class Body:
    """A person in segments, with compiled inverse and forward dynamics.

    segments : the table, see `segments_of_body`. joints : names of joints, by the segment beyond
    them. One build serves all persons; it takes some seconds, and is taken from the cache later.
    """

    segments: Sequence[Segment] = field(default_factory=segments_of_body)
    joints: Mapping[str, str] = field(default_factory=lambda: dict(JOINTS))

    @cached_property
    def skeleton(self) -> Skeleton:
        """Who hangs on whom."""
        owner = {point: k for k, row in enumerate(self.segments) for point in row.points}
        names = tuple(row.name for row in self.segments)
        return Skeleton(
            names, tuple(owner.get(row.proximal, -1) for row in self.segments),
            sum(row.mass for row in self.segments),
            {joint: segment for joint, segment in self.joints.items() if segment in names},
        )  # fmt: skip

    @cached_property
    def _inverse(self) -> Functions:
        return _outputs(inverse_dynamics(whole_body(self.segments).parametrised()))

    def inverse(self, course: Samples) -> InverseDynamics:
        """What a motion needs: its generalised forces, in a compiled pass over all instants."""
        x, xdot = states(course)
        f, S, N = self._inverse, len(self.segments), len(course.time)
        y = f.outputs(xdot, x, (), [f.values[name] for name in f.parameters], course.time)
        per = y[6 : 6 + 9 * S].reshape(S, 9, N)
        attitude = y[6 + 9 * S :].reshape(S, 3, 3, N)
        return InverseDynamics(self.skeleton, course, Wrench(course.time, y[:3], y[3:6]),
                               per[:, :3], per[:, 3:6], per[:, 6:], attitude)  # fmt: skip


def _outputs(model: Model) -> Functions:
    """The outputs of a model alone: inverse dynamics needs no equations of motion."""
    program = model_functions(model)
    source = emit(replace(program, kernels=(program.kernel("outputs"),)))
    library, _ = build(source.files)
    return Functions(library, json.loads(source.manifest), _no_jacobians)


def _no_jacobians() -> tuple[Any, Mapping[str, Any]]:
    raise ValueError("inverse dynamics has no Jacobians; compile the model of the tree")
