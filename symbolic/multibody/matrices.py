"""A tree of spherical joints by sums over bodies: the matrices of Bourgeois and Langlois.

N. R. Bourgeois, R. G. Langlois: Derivation and validation of a spatial multi-link human postural
stability model, Transactions of the Canadian Society for Mechanical Engineering, no. 15-CSME-69,
2015; numbers in brackets are those of its equations. This is the mechanics of the recursion
once more, without a step in common. For four bodies it takes nine times the operations: a check.

Vectors are rows as in (6), r_G' = r_L' R^k0, so that R^k0 is the transpose of what `turn` gives.
World axes are the paper's inertial ones. Speeds come in blocks of three: 0 is the rotation of the
base (1 in the paper), 1 its translation (1s), and 2, 3, ... are joints in the order of the bodies.

Printed equations that cannot be used as they stand:

- (3): Q Vdot is not the derivative of Q V; here Q Vdot + Qdot V.
- (4): the skew matrix of I w, multiplied by I once more, has wrong units; here w x (I w).
- (8), (10): R^10 for the translation of the base stands in both; here in V only.
- (11): the transposes are exchanged with respect to (6); here R' I R.
- (13): A1, A2 are the upper, A3, A4 the lower blocks. Sums are over the bodies without the base,
  whose mass is not needed.
- (15), (16): on the right of the rows of the base stands not 0 but the d of the bodies. Rows of its
  rotation are kept too: they give the moment about its origin, for which the arm S_r1 is zero.
- (17): the unknowns are net moments on bodies 2, ... (not 3, ...); the moment of a joint is the sum
  of those on all bodies beyond it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp

from kinesym.base.checks import check_kind
from kinesym.symbolic.expression import real_expressions
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.assemble import settled
from kinesym.symbolic.multibody.base import ACCELERATIONS, FixedBase
from kinesym.symbolic.multibody.bodies import Body, inertia_matrix, mass_of
from kinesym.symbolic.multibody.joints import Spherical, bryant_rates, turn, unit
from kinesym.symbolic.multibody.outputs import Expressions, Outputs
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import AXES, IDENTITY, ZERO, Matrix, Steps, Vector, vector
from kinesym.symbolic.names import by_name, name_of, t

#: Block of speeds of the base: its rotation.
BASE = 0
#: Block of speeds of the base: its translation.
SHIFT = 1

Blocks = Mapping[int, Matrix]
Rows = defaultdict[int, list[Vector]]  # terms of a column by its blocks
Entries = defaultdict[tuple[int, int], list[sp.Expr]]  # terms of A, not below the diagonal


@dataclass(frozen=True)
class Matrices:
    """A y' + B y + C y = f (1), entries in terms of the symbols that `steps` define.

    bias : B y + C y. speeds, rates : y and y', zeros where locked; first angular velocity and
        velocity of the base in its axes. kinematics : rates of Bryant angles by name (20).
    links : links[k][j] = R^jk, the blocks of Q (10), for all bodies k beyond j.
    """

    steps: Steps
    A: sp.Matrix
    bias: sp.Matrix
    forces: sp.Matrix
    speeds: sp.Matrix
    rates: sp.Matrix
    kinematics: Mapping[str, sp.Expr]
    links: Mapping[int, Blocks]

    def missing(self) -> list[sp.Expr]:
        """A y' - d with d = f - B y - C y (12): what must act besides f, row by row."""
        return list(self.A * self.rates + self.bias - self.forces)


@dataclass(frozen=True)
class Spin:
    """The rotation of body k: R^k0 and its rate (9); w = W' y and change = Wdot' y in world axes;
    own and own_change: blocks k of Q' y, which is w in axes of the body, and of Qdot' y."""

    turn: Matrix
    rate: Matrix
    w: Vector
    change: Vector
    own: Vector
    own_change: Vector


@dataclass(frozen=True)
class Station:
    """A point of a body: partial = V_Q by blocks, and change = Vdot_Q' y."""

    partial: Blocks
    change: Vector


# -- the matrices ---------------------------------------------------------------------------------


def matrices(tree: Tree, torques: Mapping[str, Any] | None = None) -> Matrices:
    """(1)-(11) with these moments of joints by the name of their speeds [N m].

    Where the acceleration of the base is given as a vector and not by derivatives of components,
    the speeds of its translation are 0 and their rates that vector: the forces are the same.
    Raises `ValueError` for joints that are not spherical and torques of unknown speeds.
    """
    given = tree.checked_torques(torques)
    check(tree, {})
    steps, A, bias, forces = Steps(), Entries(list), Rows(list), Rows(list)
    y, rates = generalised_speeds(tree)
    numbers = {body.name: k for k, body in enumerate(tree.bodies, 2)}
    inner = {numbers[b.name]: numbers[b.parent] if b.parent else BASE for b in tree.bodies}
    turns, kinematics = rotations(steps, tree, inner, y)
    spins = {BASE: spin_of(steps, BASE, turns[BASE], y[BASE], None)}
    start = spins[BASE].rate.T @ y[SHIFT]
    joints = {BASE: Station({SHIFT: turns[BASE]}, steps.vector("b.base", start))}
    links: dict[int, Blocks] = {BASE: {BASE: IDENTITY}}
    for k, body in enumerate(tree.bodies, 2):
        j = inner[k]
        spins[k] = spin_of(steps, k, turns[k], y[k], spins[j])
        joints[k] = reach(steps, f"joint.{k}", joints[j], spins[j], links[j], vector(body.at))
        links[k] = {i: steps.matrix(f"Q.{i}.{k}", turns[i] @ turns[k].T) for i in links[j]} | {
            k: IDENTITY
        }
        centre = reach(steps, f"com.{k}", joints[k], spins[k], links[k], vector(body.com))
        W = {i: turns[i] for i in links[k]}
        add_inertia(steps, A, bias, k, body, W, centre, spins[k])
        project(forces, W, centre.partial, *applied(steps, tree, k, body, turns[k]))
        forces[k].append(vector(given.get(name, 0) for name in speed_names(body)))
    return Matrices(
        steps,
        mass_matrix(steps, A, 3 * len(y)),
        stacked(steps, "bias", bias, len(y)),
        stacked(steps, "f", forces, len(y)),
        sp.Matrix([e for v in y for e in v]),
        sp.Matrix([e for v in rates for e in v]),
        kinematics,
        links,
    )


def generalised_speeds(tree: Tree) -> tuple[list[Vector], list[Vector]]:
    """y and y' by blocks, zeros for what is locked (section 4.4 of the paper)."""
    if isinstance(tree.base, FixedBase):
        y, rates = [ZERO, ZERO], [ZERO, ZERO]
    else:
        components = tree.base.acceleration == "derivative"
        y = [tree.base.inputs("w"), tree.base.inputs("v") if components else ZERO]
        acceleration = tree.base.inputs(ACCELERATIONS[tree.base.acceleration])
        rates = [tree.base.inputs("dw"), acceleration]
    u = {**tree.speeds, **dict.fromkeys(tree.locked, sp.S.Zero)}
    for body in tree.bodies:
        y.append(vector(u[name] for name in speed_names(body)))
        rates.append(vector(e.diff(t) for e in y[-1]))
    return y, rates


def speed_names(body: Body) -> list[str]:
    """Names of the speeds of its joint."""
    return [f"{body.name}_w{axis}" for axis in AXES]


def rotations(
    steps: Steps, tree: Tree, inner: Mapping[int, int], y: list[Vector]
) -> tuple[dict[int, Matrix], dict[str, sp.Expr]]:
    """R^k0 of all frames (6), and the rates of Bryant angles that move, T y (20).

    If nothing is given in world axes, they are taken to be those of the base.
    """
    turns: dict[int, Matrix] = {BASE: IDENTITY}
    kinematics: dict[str, sp.Expr] = {}
    in_world = any(gravity(tree)) or any(load.axes == "world" for load in tree.applied)
    if not isinstance(tree.base, FixedBase) and in_world:
        turns[BASE], _, _ = bryant(steps, "base", tree.base.sequence, tree.base.inputs(""))
    for k, body in enumerate(tree.bodies, 2):
        assert isinstance(body.joint, Spherical)  # see `check`
        sequence = body.joint.sequence
        q = [tree.coordinates[f"{body.name}_{axis}"] for axis in sequence]
        R, sines, cosines = bryant(steps, f"{k}.{inner[k]}", sequence, q)
        turns[k] = steps.matrix(f"R.{k}", R @ turns[inner[k]])
        if any(y[k]):
            rates = bryant_rates(sequence, sines, cosines, y[k])
            kinematics |= zip(map(name_of, q), rates, strict=True)
    return turns, kinematics


def bryant(
    steps: Steps, name: str, sequence: str, angles: Iterable[sp.Expr]
) -> tuple[Matrix, Vector, Vector]:
    """The matrix R of turned axes as in (6), sines and cosines of the angles."""
    result, sines, cosines = IDENTITY, [], []
    for axis, q in zip(sequence, angles, strict=True):
        sines.append(steps.scalar(f"sin.{q.name}", sp.sin(q)))
        cosines.append(steps.scalar(f"cos.{q.name}", sp.cos(q)))
        result @= turn(unit(axis), sines[-1], cosines[-1])
    return steps.matrix(f"R.{name}", result.T), Vector(sines), Vector(cosines)


def spin_of(steps: Steps, k: int, R: Matrix, y: Vector, inner: Spin | None) -> Spin:
    """The rotation of body k with the speeds y of its joint, relative to `inner`.

    With R^jk = R^j0 (R^k0)' block k of Q' y is R^k0 (W' y), and that of Qdot' y is
    R^k0 (Wdot' y) + Rdot^k0 (W' y), of which the second term is w x w = 0.
    """
    w, change = (inner.w, inner.change) if inner else (ZERO, ZERO)
    w = steps.vector(f"w.{k}", w + R.T @ y)
    own = steps.vector(f"w.{k}.own", R @ w)
    rate = steps.matrix(f"dR.{k}", own.skew.T @ R)
    change = steps.vector(f"dw.{k}", change + rate.T @ y)
    own_change = steps.vector(f"dw.{k}.own", R @ change)
    return Spin(R, rate, w, change, own, own_change)


def reach(
    steps: Steps, name: str, start: Station, spin: Spin, column: Blocks, arm: Vector
) -> Station:
    """The point at `arm`, in axes of a body, from `start` on the same body.

    V (8) of the two differs in one block, S R^k0, so that V_Q = Q V does by this block times
    the column of Q, and y' (Q Vdot + Qdot V) by (Q' y)' S Rdot^k0 + (Qdot' y)' S R^k0.
    """
    V = steps.matrix(f"V.{name}", arm.skew @ spin.turn)
    partial = dict(start.partial)
    for i, R in column.items():
        here = start.partial.get(i, sp.S.Zero * IDENTITY)
        partial[i] = steps.matrix(f"V.{name}.{i}", here + R @ V)
    change = start.change + spin.rate.T @ (arm.skew.T @ spin.own) + V.T @ spin.own_change
    return Station(partial, steps.vector(f"b.{name}", change))


def add_inertia(
    steps: Steps, A: Entries, bias: Rows, k: int, body: Body, W: Blocks, centre: Station, spin: Spin
) -> None:
    """The terms of a body in A (2), B y (3) and C y (4), with I^k0 = (R^k0)' I^k R^k0 (11)."""
    mass, R, V = mass_of(body), spin.turn, centre.partial
    inertia = steps.matrix(f"I.{k}", R.T @ (inertia_matrix(body) @ R))
    WI = {i: steps.matrix(f"WI.{k}.{i}", block @ inertia) for i, block in W.items()}
    entries = [(3 * i + a, 3 * j + b) for i in V for j in V for a in range(3) for b in range(3)]
    for row, col in (pair for pair in entries if pair[0] <= pair[1]):
        (i, a), (j, b) = divmod(row, 3), divmod(col, 3)
        A[row, col].append(mass * (V[i][a] @ V[j][b]))
        if i in W and j in W:
            A[row, col].append(WI[i][a] @ W[j][b])
    force = steps.vector(f"F.{k}", mass * centre.change)
    momentum = steps.vector(f"H.{k}", inertia @ spin.w)
    moment = inertia @ spin.change + spin.w.cross(momentum)
    project(bias, W, V, force, steps.vector(f"M.{k}", moment))


def project(rows: Rows, W: Blocks, V: Blocks, force: Vector, moment: Vector) -> None:
    """V_Q force + W moment."""
    for i, block in V.items():
        rows[i].append(block @ force)
    for i, block in W.items():
        rows[i].append(block @ moment)


def gravity(tree: Tree) -> Vector:
    """Gravity in world axes; 0 where the measured acceleration of the base contains it."""
    measured = not isinstance(tree.base, FixedBase) and tree.base.acceleration == "imu"
    return ZERO if measured else vector(tree.gravity)


def applied(steps: Steps, tree: Tree, k: int, body: Body, R: Matrix) -> tuple[Vector, Vector]:
    """Force f^k and moment m^k about the centre of mass, in world axes: weight and loads (5)."""
    forces, moments = [mass_of(body) * gravity(tree)], [ZERO]
    for load in (load for load in tree.applied if load.body == body.name):
        axes = IDENTITY if load.axes == "world" else R.T
        force = axes @ vector(load.force)
        arm = vector(load.at) - vector(body.com)
        forces.append(force)
        moments += [axes @ vector(load.torque), (R.T @ arm).cross(force)]
    force = steps.vector(f"F.{k}.given", sum(forces, ZERO))
    return force, steps.vector(f"M.{k}.given", sum(moments, ZERO))


def mass_matrix(steps: Steps, entries: Entries, n: int) -> sp.Matrix:
    """A from its terms."""
    A = sp.zeros(n, n)
    for (row, col), terms in entries.items():
        A[row, col] = A[col, row] = steps.scalar(f"A.{row}.{col}", sp.Add(*terms))
    return A


def stacked(steps: Steps, name: str, rows: Rows, count: int) -> sp.Matrix:
    """A column from the terms of its blocks."""
    blocks = [steps.vector(f"{name}.{i}", sum(rows[i], ZERO)) for i in range(count)]
    return sp.Matrix([e for block in blocks for e in block])


def check(tree: Tree, outputs: Expressions) -> None:
    """Raise `ValueError` for what these matrices do not cover."""
    for body in tree.bodies:
        if not isinstance(body.joint, Spherical):
            raise ValueError(
                f"body {body.name}: the matrices cover spherical joints only, got "
                f"{body.joint}; use Tree.model"
            )
    if tree.passive:
        raise ValueError(
            f"{min(tree.passive)} has a passive force, which the matrices do not cover; give it "
            "among the torques, or use Tree.model"
        )
    if tree.lockable:
        raise ValueError(
            f"{min(tree.lockable)} can be locked at run time, which the matrices do "
            "not cover; use Tree.lock or Tree.model"
        )
    for name, e in outputs.items():
        if any("." in name_of(s) for s in e.free_symbols):
            raise ValueError(
                f"output {name}: what methods of the tree return is for Tree.model; "
                "write it in coordinates, speeds, inputs and parameters"
            )


# -- the model ------------------------------------------------------------------------------------


def matrix_model(
    tree: Tree,
    torques: Mapping[str, Any] | None = None,
    outputs: Mapping[str, sp.Expr] | None = None,
    values: Mapping[Any, float] | None = None,
) -> Model:
    """The model of `Tree.model` from the rows of the joints, base and locked joints being known.

    Equations are (14) and (20). Outputs, after those given (in coordinates, speeds, inputs and
    parameters):
    - `base_moment_x`, ... [N m] and `base_force_x`, ... [N]: of the base on the tree, about the
      origin of the base and in its axes, from the rows of the base (16).
    - if anything is locked, `held_shank_wz`, ... [N m]: the moments of the joints that do it, from
      locked rows, in axes of the outer body; and `net_shank_wx`, ... [N m]: the unknowns as printed
      in (17), net moments that all locks together exert on each body, in its axes.
    """
    check_kind(tree, Tree, "kinesym.multibody")
    given = by_name({} if outputs is None else outputs, None, f"outputs of {tree.name}")
    found = real_expressions(given, "output")
    check(tree, found)
    m = matrices(tree, torques)
    rows = m.missing()
    missing = dict(zip(tree.speeds, rows[6:], strict=True))
    names = [f"base_{kind}_{axis}" for kind in ("moment", "force") for axis in AXES]
    found |= zip(names, rows[:6], strict=True)
    if tree.locked:
        held = {name: missing[name] for name in tree.speeds if name in tree.locked}
        found |= {f"held_{name}": e for name, e in held.items()}
        found |= {f"net_{name}": e for name, e in net_moments(tree, m, held).items()}
    equations = [tree.coordinates[q].diff(t) - rate for q, rate in m.kinematics.items()]
    equations += [e for name, e in missing.items() if name not in tree.locked]
    defaults = {**tree.values, **tree.numbers(values)}
    return settled(tree, m.steps, equations, Outputs(found), defaults)


def net_moments(tree: Tree, m: Matrices, held: Mapping[str, sp.Expr]) -> dict[str, sp.Expr]:
    """The m^k of (17), W^2 m^2 + W^3 m^3 + ... = the moments of locks, in the axes of the bodies.

    In row j these are R^jk m^k of all bodies k beyond: solved from the last body inwards.
    """
    found: dict[int, Vector] = {}
    for k in range(len(tree.bodies) + 1, 1, -1):
        beyond = (m.links[c][k] @ found[c] for c in found if k in m.links[c])
        own = vector(held.get(name, 0) for name in speed_names(tree.bodies[k - 2]))
        found[k] = m.steps.vector(f"net.{k}", own - sum(beyond, ZERO))
    return dict(zip(tree.speeds, (e for k in sorted(found) for e in found[k]), strict=True))
