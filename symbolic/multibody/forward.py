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
from dataclasses import dataclass, field
from typing import TypeAlias

import sympy as sp

from kinesym.symbolic.multibody.bodies import inertia_matrix, mass_of
from kinesym.symbolic.multibody.links import Aim, Link
from kinesym.symbolic.multibody.mechanism import Mechanism, lock_of
from kinesym.symbolic.multibody.passes import Frame
from kinesym.symbolic.multibody.vectors import (
    IDENTITY,
    ZERO,
    Matrix,
    Steps,
    Vector,
    matrix,
    vector,
)
from kinesym.symbolic.names import name_of, t

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
        """Articulated inertia with symbols for its entries."""
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

    direction: Six
    row: Six
    rest: sp.Expr
    inverse: sp.Expr
    axis: int | None


@dataclass(frozen=True)
class SharedPivot:
    """A speed that moves several links that hang on one, once it is eliminated; see `shared`.

    row : the sum of A d over these links, in the axes of the one that they hang on and about its
    origin. rest, inverse : as of `Pivot`. directions : by the number of the link.
    """

    row: Six
    rest: sp.Expr
    inverse: sp.Expr
    directions: Mapping[int, Six]


def speed_rates(
    tree: Mechanism, steps: Steps, torques: Mapping[str, sp.Expr]
) -> dict[str, sp.Expr] | None:
    """u' by name; None if the mass matrix is singular whatever the numbers, if a speed moves
    joints of several parents, if a joint has two speeds that move others, too, or if rotors couple
    speeds."""
    together = moved_together(tree)
    if together is None or any(row != column for row, column in tree.rotors):
        return None
    torques = {**torques}
    for speed, force in tree.passive.items():
        own = force.xreplace({tree.speeds[speed].diff(t): sp.S.Zero})
        torques[speed] = torques.get(speed, sp.S.Zero) + own
    frames, links = tree.recursion.frames, tree.moving
    sums = [alone(tree, steps, k) for k in range(len(links))]
    drift = [velocity_terms(link, frames[k], frames[link.parent]) for k, link in enumerate(links)]
    pivots: list[dict[str, Pivot]] = [{} for _ in links]
    pivots_of_several, before = dict[str, SharedPivot](), dict[int, Articulated]()
    for k, link in reversed(list(enumerate(links))):
        left = sums[k].named("0")
        speeds = map(name_of, tree.links[k].u)
        for speed, (angular, linear) in zip(speeds, frames[k].joint.directions, strict=True):
            if speed in tree.locked or speed in together:
                continue
            torque, stage = torques.get(speed, sp.S.Zero), str(len(pivots[k]) + 1)
            direction, rotor = (*angular, *linear), rotor_of(tree, speed)
            found = eliminated(left, stage, direction, torque, freedom(tree, speed), rotor)
            if found is None:
                return None
            left, pivots[k][speed] = found
        if isinstance(link.primitive, Aim):  # its parent does not turn it
            A = {place: e for place, e in left.A.items() if min(place) >= 3}
            left = Articulated(steps, left.name, A, [*ZERO, *left.b[3:]])
        before[k] = left
        if link.parent >= 0:
            add_to_parent(sums[link.parent], left, frames[k], drift[k])
        for speed, members in together.items():
            if k == members[0]:
                several = {j: before[j] for j in members}
                pivot = shared(tree, speed, several, drift, torques.get(speed, sp.S.Zero))
                if pivot is None:
                    return None
                pivots_of_several[speed] = pivot
                if link.parent >= 0:
                    take_off(sums[link.parent], speed, pivot)
    return outwards_rates(tree, steps, drift, pivots, pivots_of_several)


def freedom(tree: Mechanism, speed: str) -> sp.Expr:
    """1, or 1 - lock of a speed that can be locked."""
    return 1 - lock_of(speed) if speed in tree.lockable else sp.S.One


def rotor_of(tree: Mechanism, speed: str) -> sp.Expr:
    """The inertia that a joint has along a speed by itself."""
    return tree.rotors.get((speed, speed), sp.S.Zero)


def moved_together(tree: Mechanism) -> dict[str, list[int]] | None:
    """Numbers of the links of every speed that is not locked and moves several; None if these do
    not hang on one link, or if one of them has two such speeds."""
    links = dict[str, list[int]]()
    for k, link in enumerate(tree.links):
        for speed in map(name_of, link.u):
            links.setdefault(speed, []).append(k)
    found = {s: ks for s, ks in links.items() if len(ks) > 1 and s not in tree.locked}
    members = [k for ks in found.values() for k in ks]
    apart = any(len({tree.links[k].parent for k in ks}) > 1 for ks in found.values())
    return None if apart or len(members) > len({*members}) else found


def shared(
    tree: Mechanism,
    speed: str,
    members: Mapping[int, Articulated],
    drift: Sequence[tuple[Vector, Vector]],
    torque: sp.Expr,
) -> SharedPivot | None:
    """The pivot of a speed that moves several links, such as tibia and patella of a knee, as that
    of the one body that they are together: u' = (torque - sum d (b + A alpha)) / sum d A d, with
    the alpha that each inherits from the link that all hang on. None if nothing has inertia
    there."""
    directions, row = dict[int, Six](), [ZERO, ZERO]
    strength, rest = rotor_of(tree, speed), torque
    for k, left in members.items():
        steps, frame = left.steps, tree.recursion.frames[k]
        speeds = [name_of(u) for u in tree.links[k].u]
        angular, linear = frame.joint.directions[speeds.index(speed)]
        d = directions[k] = (*angular, *linear)
        own = [sp.Add(*(left[i, j] * d[j] for j in SIX)) for i in SIX]
        own = [steps.scalar(f"Us.{left.name}.{i}", e) for i, e in enumerate(own)]
        inherited = (*drift[k][0], *drift[k][1])
        strength += sp.Add(*(x * e for x, e in zip(d, own, strict=True)))
        rest -= sp.Add(*(x * e for x, e in zip(d, left.b, strict=True)))
        rest -= sp.Add(*(x * e for x, e in zip(inherited, own, strict=True)))
        force = steps.vector(f"Fs.{left.name}", frame.rotation @ Vector(own[3:]))
        moment = frame.rotation @ Vector(own[:3]) + frame.joint.offset.cross(force)
        row = [row[0] + moment, row[1] + force]
    if strength == 0:
        return None
    total = tuple(steps.scalar(f"U.{speed}.{i}", e) for i, e in enumerate((*row[0], *row[1])))
    inverse = steps.scalar(f"D.{speed}", freedom(tree, speed) / strength)
    return SharedPivot(total, steps.scalar(f"r.{speed}", rest), inverse, directions)


def take_off(parent: Articulated, speed: str, pivot: SharedPivot) -> None:
    """Take what a speed of several links gives way to off A and b of the link that they hang on."""
    steps, row = parent.steps, pivot.row
    gain = [steps.scalar(f"G.{speed}.{i}", e * pivot.inverse) for i, e in enumerate(row)]
    for i in SIX:
        for j in range(i, 6):
            parent.A[i, j] = parent[i, j] - gain[i] * row[j]
        parent.b[i] = parent.b[i] + gain[i] * pivot.rest


def velocity_terms(link: Link, frame: Frame, inner: Frame) -> tuple[Vector, Vector]:
    """Velocity-dependent part of alpha: the terms besides those of the link before it and of u'."""
    turning, sliding = frame.joint.along(link.u)
    if isinstance(link.primitive, Aim):
        turning = ZERO
    moving = inner.spinning @ frame.joint.offset + 2 * inner.angular.cross(sliding)
    turned_on, moved_on = frame.joint.bias
    return frame.angular.cross(turning) + turned_on, frame.rotation.T @ (moving + moved_on)


def eliminated(
    left: Articulated,
    stage: str,
    direction: Six,
    torque: sp.Expr,
    free: sp.Expr,
    rotor: sp.Expr,
) -> tuple[Articulated, Pivot] | None:
    """Articulated inertia A and bias b after elimination of u' along a direction by its equation;
    None if nothing has inertia there. free : 1, or 1 - lock. rotor : inertia that only u' moves."""
    steps, name = left.steps, left.name
    along_axis = direction.count(1) == 1 and direction.count(0) == 5
    axis = direction.index(1) if along_axis and free == 1 and rotor == 0 else None
    row = tuple(sp.Add(*(left[i, j] * direction[j] for j in SIX)) for i in SIX)
    strength = sp.Add(rotor, *(d * e for d, e in zip(direction, row, strict=True)))
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
    return new.named(stage), Pivot(direction, row, rest, inverse, axis)


def add_to_parent(
    parent: Articulated, left: Articulated, frame: Frame, drift: tuple[Vector, Vector]
) -> None:
    """Add A and b of a link to those of its parent."""
    steps, name = left.steps, left.name
    J, H, M = left.block(0, 0), left.block(0, 1), left.block(1, 1)
    turning, moving = drift
    moment = Vector(left.b[:3]) + J @ turning + H @ moving
    force = Vector(left.b[3:]) + H.T @ turning + M @ moving
    R, p = frame.rotation, frame.joint.offset
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
    tree: Mechanism,
    steps: Steps,
    drift: Sequence[tuple[Vector, Vector]],
    pivots: Sequence[dict[str, Pivot]],
    of_several: Mapping[str, SharedPivot],
) -> dict[str, sp.Expr]:
    """u' from the accelerations of the base, link by link."""
    found: dict[str, sp.Expr] = {}
    frames = tree.recursion.frames
    alphas = {-1: (frames[-1].angular_rate, frames[-1].acceleration)}
    for k, (link, (turning, moving)) in enumerate(zip(tree.moving, drift, strict=True)):
        dw, a = alphas[link.parent]
        back = frames[k].rotation.T
        turned_by = ZERO if isinstance(link.primitive, Aim) else back @ dw
        inherited = [
            *(turned_by + turning),
            *(back @ (a + dw.cross(frames[k].joint.offset)) + moving),
        ]
        inherited = [steps.scalar(f"c.{link.name}.{i}", e) for i, e in enumerate(inherited)]
        alpha = list(inherited)
        for speed, shared_pivot in of_several.items():
            if k not in shared_pivot.directions:
                continue
            if speed not in found:
                taken = sp.Add(*(x * e for x, e in zip(shared_pivot.row, (*dw, *a), strict=True)))
                value = (shared_pivot.rest - taken) * shared_pivot.inverse
                found[speed] = steps.scalar(f"dU.{speed}", value)
            d = shared_pivot.directions[k]
            alpha = [e + x * found[speed] for e, x in zip(alpha, d, strict=True)]
        for speed, pivot in reversed(pivots[k].items()):
            others = sp.Add(*(pivot.row[j] * alpha[j] for j in SIX if j != pivot.axis))
            value = steps.scalar(f"dU.{speed}", (pivot.rest - others) * pivot.inverse)
            if pivot.axis is None:
                found[speed] = value
                alpha = [e + d * value for e, d in zip(alpha, pivot.direction, strict=True)]
            else:
                found[speed] = value - alpha[pivot.axis]  # other speeds may turn about it, too
                alpha[pivot.axis] = value
        alpha = [steps.scalar(f"alpha.{link.name}.{i}", e) for i, e in enumerate(alpha)]
        alphas[k] = Vector(alpha[:3]), Vector(alpha[3:])
    return found


def alone(tree: Mechanism, steps: Steps, number: int) -> Articulated:
    """A and b of a link without those beyond: of its body, if it has one, under loads."""
    link, frames = tree.links[number], tree.recursion.frames
    own, frame, body = Articulated(steps, link.name), frames[number], link.body
    if body is None:
        return own
    mass, com, inertia = mass_of(body), vector(body.com), inertia_matrix(body)
    H = mass * com.skew
    J = inertia + H @ com.skew.T
    force = steps.vector(f"f0.{body.name}", mass * (frame.spinning @ com))
    spin = steps.vector(f"h.{body.name}", inertia @ frame.angular)
    moment = frame.angular.cross(spin) + com.cross(force)
    own.add(J, H, mass * IDENTITY, moment, force)
    none = sp.S.Zero * IDENTITY
    for f, n in tree.load_wrenches(number, frames):
        own.add(none, none, none, -n, -f)
    return own
