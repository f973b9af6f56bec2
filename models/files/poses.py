"""Poses of bodies of a file, many at once, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.models.files.description import Description, Frame, Function, JointRow
from kinesym.models.files.expressions import coordinate_values, expression
from kinesym.models.files.frames import rotations
from kinesym.symbolic.names import check_known, name_of
from kinesym.symbolic.table import NumericFunction

Array = NDArray[np.float64]
#: Rotations (N, 3, 3) to the axes of another body, and origins (N, 3) in those [m].
Place = tuple[Array, Array]


@dataclass(frozen=True)
class Poses:
    """Bodies of a file relative to one another. fixed : coordinates that stay [rad, m]."""

    description: Description
    fixed: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def values(self) -> dict[str, sp.Expr]:
        """Expressions of all coordinates by the names in the file, in terms of those that are
        free."""
        return coordinate_values(self.description, self.fixed)

    @cached_property
    def joints(self) -> dict[str | None, JointRow]:
        """Joints by the body that each moves."""
        return {joint.child.body: joint for joint in self.description.joints}

    @cached_property
    def angles(self) -> set[str]:
        """Names of the free coordinates that turn bodies."""
        motions = [m for joint in self.description.joints for m in joint.rotations]
        return {*self.coordinates(name for m in motions for name in m.coordinates)}

    @cached_property
    def _functions(self) -> dict[JointRow, tuple[list[str], NumericFunction]]:
        return {}

    def chain(self, body: str | None) -> list[JointRow]:
        """The joints from the ground to a body."""
        found = []
        while body is not None:
            found.append(self.joints[body])
            body = found[-1].parent.body
        return found[::-1]

    def spanned(self, bodies: Iterable[str | None]) -> list[JointRow]:
        """The joints between these bodies, outwards."""
        chains = [self.chain(body) for body in dict.fromkeys(bodies)]
        shared = 0
        while all(len(c) > shared for c in chains) and len({c[shared].name for c in chains}) == 1:
            shared += 1
        return list({joint.name: joint for c in chains for joint in c[shared:]}.values())

    def coordinates(self, names: Iterable[str]) -> list[str]:
        """The free coordinates that determine these, in the order of the file."""
        wanted = set[str]()
        for name in names:
            check_known(name, self.values, f"{name} is no coordinate of {self.description.name}")
            wanted |= {name_of(q) for q in self.values[name].atoms(AppliedUndef)}
        every = {name_of(q) for e in self.values.values() for q in e.atoms(AppliedUndef)}
        order = [name_of(e) for e in self.values.values() if isinstance(e, AppliedUndef)]
        return [name for name in dict.fromkeys([*order, *sorted(every)]) if name in wanted]

    def places(
        self, bodies: Iterable[str | None], q: Mapping[str, Array]
    ) -> dict[str | None, Place]:
        """The places of bodies from the innermost one that carries all, for coordinates (N,)."""
        joints = self.spanned(bodies)
        count = len(next(iter(q.values()))) if q else 1
        still = np.broadcast_to(np.eye(3), (count, 3, 3)), np.zeros((count, 3))
        found: dict[str | None, Place] = {}
        for joint in joints:
            before = found.setdefault(joint.parent.body, still)
            found[joint.child.body] = self.moved(joint, before, q, count)
        return {body: found.get(body, still) for body in bodies}

    def moved(self, joint: JointRow, before: Place, q: Mapping[str, Array], count: int) -> Place:
        """The place of the body that a joint moves, from that of its parent."""
        motions = (*joint.translations, *joint.rotations)
        if joint not in self._functions:
            rows = [self.value(m.function, m.coordinates) for m in motions]
            self._functions[joint] = self.function(rows)
        names, function = self._functions[joint]
        values = [np.broadcast_to(v, count) for v in function(*(q[name] for name in names))]
        split = len(joint.translations)
        shift, turn = np.zeros((count, 3)), np.broadcast_to(np.eye(3), (count, 3, 3))
        for motion, value in zip(joint.translations, values, strict=False):
            shift = shift + value[:, None] * np.array(motion.direction)
        for motion, value in zip(joint.rotations, values[split:], strict=True):
            turn = turn @ rotations(np.array(motion.direction), value)
        rotation, origin = on(before, joint.parent)
        origin = origin + np.einsum("nij,nj->ni", rotation, shift)
        rotation = rotation @ turn @ np.array(joint.child.turn).T
        return rotation, origin - rotation @ np.array(joint.child.at)

    def value(self, function: Function, coordinates: Sequence[str]) -> sp.Expr:
        """A function of coordinates of the file as an expression of the free ones."""
        return expression(function, [self.values[name] for name in coordinates])

    def function(self, rows: Sequence[sp.Expr]) -> tuple[list[str], NumericFunction]:
        """Expressions of free coordinates as a function of numbers, and the names of these."""
        used = sorted({q for e in rows for q in e.atoms(AppliedUndef)}, key=name_of)
        plain = {q: sp.Symbol(name_of(q)) for q in used}
        return list(map(name_of, used)), NumericFunction(
            list(plain.values()), [e.xreplace(plain) for e in rows]
        )

    def evaluated(self, e: sp.Expr, q: Mapping[str, Array]) -> Array:
        """An expression of free coordinates at numbers."""
        names, function = self.function([e])
        return np.asarray(function(*(q[name] for name in names))[0], dtype=np.float64)


def on(place: Place, frame: Frame) -> Place:
    """The place of a frame on a body from that of the body."""
    rotation, origin = place
    return rotation @ np.array(frame.turn), origin + rotation @ np.array(frame.at)
