"""Rates of the speeds by articulated bodies: operations grow with the number of bodies.

Inwards, each link with all its descendants is a body whose inertia is what the free joints beyond
leave of it; outwards, rates follow. R. Featherstone (1983), The calculation of robot dynamics using
articulated-body inertias, Int J Robotics Research 2(1):13.

Everything about a link is in its axes and about its origin. Components 0, 1, 2 of six are of
rotation, 3, 4, 5 of translation; alpha is the angular acceleration and the acceleration of the
origin, gravity subtracted, and A alpha + b the moment and the force that the link needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import sympy as sp

from kinesym.symbolic.multibody.links import Aim, Ball, Hinge, Link, Slide
from kinesym.symbolic.multibody.passes import Frame, Wrench, along, offset
from kinesym.symbolic.multibody.vectors import AXES, IDENTITY, ZERO, Matrix, Steps, Vector, matrix

SIX = range(6)
Six: TypeAlias = tuple[sp.Expr, ...]


@dataclass
class Articulated:
    """A, its entries (i, j) with i <= j, and b of a link; named `steps` keep them small."""

    steps: Steps
    name: str
    A: dict[tuple[int, int], sp.Expr] = field(default_factory=dict)
    b: list[sp.Expr] = field(default_factory=lambda: [sp.S.Zero] * 6)

    def __getitem__(self, place: tuple[int, int]) -> sp.Expr:
        return self.A.get((min(place), max(place)), sp.S.Zero)

    def block(self, rows: int, columns: int) -> Matrix:
        """A 3x3 block of A; 0: rotation, 1: translation."""
        return matrix([self[3 * rows + i, 3 * columns + j] for j in range(3)] for i in range(3))

    def add(self, J: Matrix, H: Matrix, M: Matrix, moment: Vector, force: Vector) -> None:
        """Add [[J, H], [H', M]] and (moment, force)."""
        for i in range(3):
            for j in range(3):
                if i <= j:
                    self.A[i, j] = self[i, j] + J[i][j]
                    self.A[3 + i, 3 + j] = self[3 + i, 3 + j] + M[i][j]
                self.A[i, 3 + j] = self[i, 3 + j] + H[i][j]
        self.b = [x + y for x, y in zip(self.b, (*moment, *force), strict=True)]

    def named(self, stage: str) -> Articulated:
        """The same with symbols for its entries."""
        A = {
            (i, j): self.steps.scalar(f"A{stage}.{self.name}.{i}{j}", e)
            for (i, j), e in self.A.items()
        }
        b = [self.steps.scalar(f"b{stage}.{self.name}.{i}", e) for i, e in enumerate(self.b)]
        return Articulated(self.steps, self.name, A, b)


@dataclass(frozen=True)
class Pivot:
    """A free direction of a joint, once it is eliminated.

    row : A d. rest : torque - d b. inverse : 1/(d A d), times 1 - lock where it can be locked.
    axis : its number among the six if alpha itself was eliminated, else None.
    """

    speed: str
    direction: Six
    row: Six
    rest: sp.Expr
    inverse: sp.Expr
    axis: int | None


@dataclass(frozen=True)
class Moving:
    """A link as it moves (speeds 0 where locked), names of its speeds, frames of it and before."""

    link: Link
    speeds: Sequence[str]
    frame: Frame
    inner: Frame


def speed_rates(
    steps: Steps,
    joints: Sequence[Moving],
    bodies: Mapping[int, Articulated],
    torques: Mapping[str, sp.Expr],
    locks: Mapping[str, sp.Expr],
) -> dict[str, sp.Expr] | None:
    """u' by name; None if the mass matrix is singular whatever the numbers.

    bodies : A and b of the links with a body, loads included. locks : 1 for speeds that are
    locked, the symbol for those that can be.
    """
    sums = [bodies.get(k) or Articulated(steps, j.link.name) for k, j in enumerate(joints)]
    pivots: list[list[Pivot]] = [[] for _ in joints]
    drift = [velocity_terms(joint) for joint in joints]
    for k in reversed(range(len(joints))):
        left, joint = sums[k].named("0"), joints[k]
        for speed, direction in free_directions(joint, locks):
            free = 1 - locks.get(speed, sp.S.Zero)
            stage = str(len(pivots[k]) + 1)
            found = eliminated(left, stage, direction, torques.get(speed, sp.S.Zero), free)
            if found is None:
                return None
            left, pivot = found
            pivots[k].append(replace(pivot, speed=speed))
        if isinstance(joint.link.primitive, Aim):  # its parent does not turn it
            A = {place: e for place, e in left.A.items() if min(place) >= 3}
            left = Articulated(steps, left.name, A, [*ZERO, *left.b[3:]])
        if joint.link.parent >= 0:
            add_to_parent(sums[joint.link.parent], left, joint, drift[k])
    return outwards_rates(steps, joints, drift, pivots)


def velocity_terms(joint: Moving) -> tuple[Vector, Vector]:
    """What alpha is besides that of the link before it and u', from velocities."""
    link, relative, coriolis = joint.link, ZERO, ZERO
    if isinstance(link.primitive, Slide):
        coriolis = 2 * joint.inner.angular.cross(link.primitive.vector(link.u))
    elif isinstance(link.primitive, (Hinge, Ball)):
        relative = along(link.primitive, link.u)
    turning = joint.frame.angular.cross(relative)
    moving = joint.inner.spinning @ offset(link) + coriolis
    return turning, joint.frame.rotation.T @ moving


def free_directions(joint: Moving, locks: Mapping[str, sp.Expr]) -> list[tuple[str, Six]]:
    """Speeds that are not locked for good, and their directions among the six."""
    found: list[tuple[str, Six]] = []
    for k, name in enumerate(joint.speeds):
        if isinstance(joint.link.primitive, Hinge):
            direction: Six = (*joint.link.primitive.direction, *ZERO)
        else:
            at = k
            if isinstance(joint.link.primitive, Slide):
                at = 3 + AXES.index(joint.link.primitive.axes[k])
            direction = tuple(sp.Integer(i == at) for i in SIX)
        if locks.get(name) != 1:
            found.append((name, direction))
    return found


def eliminated(
    left: Articulated, stage: str, direction: Six, torque: sp.Expr, free: sp.Expr
) -> tuple[Articulated, Pivot] | None:
    """What is left of A and b when u' along a direction follows from its equation; None if nothing
    has inertia there. free : 1, or 1 - lock."""
    steps, name = left.steps, left.name
    along_axis = direction.count(1) == 1 and direction.count(0) == 5
    axis = direction.index(1) if along_axis and free == 1 else None
    row = tuple(sp.Add(*(left[i, j] * direction[j] for j in SIX)) for i in SIX)
    strength = sp.Add(*(d * e for d, e in zip(direction, row, strict=True)))
    if strength == 0:
        return None
    row = tuple(steps.scalar(f"U{stage}.{name}.{i}", e) for i, e in enumerate(row))
    inverse = steps.scalar(f"D{stage}.{name}", free / strength)
    rest = torque - sp.Add(*(d * e for d, e in zip(direction, left.b, strict=True)))
    rest = steps.scalar(f"r{stage}.{name}", rest)
    gain = [steps.scalar(f"G{stage}.{name}.{i}", e * inverse) for i, e in enumerate(row)]
    kept = [i for i in SIX if i != axis]
    A = {(i, j): left[i, j] - gain[i] * row[j] for i in kept for j in kept if i <= j}
    b = [left.b[i] + gain[i] * rest if i != axis else torque for i in SIX]
    new = Articulated(steps, name, {k: e for k, e in A.items() if e != 0}, b)
    return new.named(stage), Pivot("", direction, row, rest, inverse, axis)


def add_to_parent(
    parent: Articulated, left: Articulated, joint: Moving, drift: tuple[Vector, Vector]
) -> None:
    """Add A and b of a link to those of its parent."""
    steps, name = left.steps, left.name
    J, H, M = left.block(0, 0), left.block(0, 1), left.block(1, 1)
    turning, moving = drift
    moment = Vector(left.b[:3]) + J @ turning + H @ moving
    force = Vector(left.b[3:]) + H.T @ turning + M @ moving
    R, p = joint.frame.rotation, offset(joint.link)
    force = steps.vector(f"g.{name}", R @ force)
    moment = R @ moment + p.cross(force)
    J, M = (turned(steps, f"{x}.{name}", R, K, True) for x, K in (("J", J), ("M", M)))
    H = turned(steps, f"H.{name}", R, H, False)
    PM = steps.matrix(f"PM.{name}", p.skew @ M)
    HP, PMP = H @ p.skew.T, PM @ p.skew.T
    parent.add(J + HP + HP.T + PMP, H + PM, M, moment, force)


def turned(steps: Steps, name: str, R: Matrix, K: Matrix, symmetric: bool) -> Matrix:
    """R K R'"""
    if R == IDENTITY:
        return K
    whole = steps.matrix(f"R{name}", R @ K) @ R.T
    if not symmetric:
        return steps.matrix(name, whole)
    upper = {
        (i, j): steps.scalar(f"{name}.{i}{j}", whole[i][j]) for i in range(3) for j in range(i, 3)
    }
    return matrix([upper[min(i, j), max(i, j)] for j in range(3)] for i in range(3))


def outwards_rates(
    steps: Steps,
    joints: Sequence[Moving],
    drift: Sequence[tuple[Vector, Vector]],
    pivots: Sequence[Sequence[Pivot]],
) -> dict[str, sp.Expr]:
    """u' from the accelerations of the base, link by link."""
    found: dict[str, sp.Expr] = {}
    alphas: list[tuple[Vector, Vector]] = []
    for joint, (turning, moving), own in zip(joints, drift, pivots, strict=True):
        link, base = joint.link, joint.inner
        known = link.parent >= 0
        dw, a = alphas[link.parent] if known else (base.angular_rate, base.acceleration)
        back = joint.frame.rotation.T
        turned_by = ZERO if isinstance(link.primitive, Aim) else back @ dw
        inherited = [*(turned_by + turning), *(back @ (a + dw.cross(offset(link))) + moving)]
        inherited = [steps.scalar(f"c.{link.name}.{i}", e) for i, e in enumerate(inherited)]
        alpha = list(inherited)
        for pivot in reversed(own):
            others = sp.Add(*(pivot.row[j] * alpha[j] for j in SIX if j != pivot.axis))
            value = steps.scalar(f"dU.{pivot.speed}", (pivot.rest - others) * pivot.inverse)
            if pivot.axis is None:
                found[pivot.speed] = value
                alpha = [e + d * value for e, d in zip(alpha, pivot.direction, strict=True)]
            else:
                found[pivot.speed] = value - inherited[pivot.axis]
                alpha[pivot.axis] = value
        alpha = [steps.scalar(f"alpha.{link.name}.{i}", e) for i, e in enumerate(alpha)]
        alphas.append((Vector(alpha[:3]), Vector(alpha[3:])))
    return found


def rigid(
    steps: Steps,
    name: str,
    mass: sp.Expr,
    com: Vector,
    inertia: Matrix,
    frame: Frame,
    applied: Sequence[Wrench],
) -> Articulated:
    """A and b of a body alone, under loads."""
    own = Articulated(steps, name)
    H = mass * com.skew
    J = inertia + H @ com.skew.T
    force = steps.vector(f"f0.{name}", mass * (frame.spinning @ com))
    spin = steps.vector(f"h.{name}", inertia @ frame.angular)
    moment = frame.angular.cross(spin) + com.cross(force)
    own.add(J, H, mass * IDENTITY, moment, force)
    none = sp.S.Zero * IDENTITY
    for f, n in applied:
        own.add(none, none, none, -n, -f)
    return own
