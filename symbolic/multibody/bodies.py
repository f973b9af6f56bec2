"""Bodies, loads and sensors: the rows of the table from which a tree is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy as sp

from kinesym.base.checks import check_identifier, shown
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.multibody.joints import (
    Custom,
    Joint,
    Revolute,
    Spherical,
    check_joint,
    turn,
    unit,
)
from kinesym.symbolic.multibody.segments import ROUNDING, check_inertia
from kinesym.symbolic.multibody.vectors import AXES, IDENTITY, Matrix, Vector, matrix, vector
from kinesym.symbolic.names import check_known, suggest, t

#: Share of the largest moment by which one of a file may be negative: digits are cut off there.
SLIGHTLY = 0.05


@dataclass(frozen=True)
class Body:
    """A rigid body and the joint to its parent. Numbers, symbols and expressions may be mixed.

    mass : [kg]. com : centre of mass from the joint, in the axes of the body [m].
    inertia : about the centre of mass, three principal moments in the axes of the body or a
        symmetric 3x3 matrix [kg m^2]; (0, 0, I) for one that turns about that axis only.
    joint : how it moves relative to its parent. at : the joint from the parent's joint, in the axes
        of the parent [m].
    parent : name of the body on the other side of the joint; None for the base.
    end : its far end in its axes, for pictures [m]; its centre of mass by default.
    reflected : whether its inertia has that of rotors behind gears in it, or is otherwise that of
        no rigid body, as in some files; then moments may be any, but for rounding not negative.

    Raises `ValueError` for a body that cannot exist.
    """

    name: str
    mass: Any
    com: Sequence[Any] = (0, 0, 0)
    inertia: Any = (0, 0, 0)
    joint: Joint = field(default_factory=Spherical)
    at: Sequence[Any] = (0, 0, 0)
    parent: str | None = None
    end: Sequence[Any] | None = None
    reflected: bool = False

    def __post_init__(self) -> None:
        check_identifier(self.name, "the name of a body")
        try:
            check_body(self)
        except ValueError as error:
            raise ValueError(f"body {self.name}: {error}") from error


@dataclass(frozen=True)
class Load:
    """A force [N] at a point [m] of a body and a torque [N m]; both in world or body axes."""

    body: str
    force: Sequence[Any] = (0, 0, 0)
    torque: Sequence[Any] = (0, 0, 0)
    at: Sequence[Any] = (0, 0, 0)
    axes: str = "world"


@dataclass(frozen=True)
class Imu:
    """An inertial measurement unit on a body: a gyroscope and an accelerometer with three axes.

    at : from the joint of the body, in its axes [m]. angles : Bryant angles that turn the axes of
    the body to those of the sensor, about axes that turn along, in the order of `sequence` [rad].
    name : in outputs `imu_NAME_gyro_x`, ...; that of the body by default. Numbers, symbols and
    expressions of parameters may be mixed: so places and angles can be identified.
    """

    body: str
    at: Sequence[Any] = (0, 0, 0)
    angles: Sequence[Any] = (0, 0, 0)
    sequence: str = "xyz"
    name: str = ""

    @property
    def label(self) -> str:
        """Label of the point: its name, or that of its body."""
        return self.name or self.body

    @property
    def attitude(self) -> Matrix:
        """The rotation from the axes of the sensor to those of the body."""
        result = IDENTITY
        for axis, angle in zip(self.sequence, vector(self.angles), strict=True):
            result @= turn(unit(axis), sp.sin(angle), sp.cos(angle))
        return result


def mass_of(body: Body) -> sp.Expr:
    """Mass of a body as an expression [kg]."""
    return real_expression(body.mass, f"mass of body {body.name}")


def inertia_matrix(body: Body) -> Matrix:
    """About the centre of mass, in the axes of the body; symmetric if it is but for rounding.

    Raises `ValueError` for another shape.
    """
    try:
        given = np.array(body.inertia, dtype=object)
    except ValueError:  # rows of unequal length
        given = np.empty(0)
    if given.shape == (3,):
        given = np.diag(given)
    if given.shape != (3, 3):
        raise ValueError(
            f"inertia is three principal moments or a 3x3 matrix, got {shown(body.inertia)}"
        )
    what = f"inertia of body {body.name}"
    found = sp.Matrix(3, 3, [real_expression(value, what) for value in given.ravel()])
    if not found.free_symbols and found.is_symmetric() is False:
        skew = found - found.T
        if max(map(abs, skew)) <= ROUNDING * max(map(abs, found)):
            found = (found + found.T) / 2
    return matrix(found.tolist())


# -- numbers become parameters ---------------------------------------------------------------


def parametrised(body: Body) -> tuple[Body, dict[str, float]]:
    """The body with a symbol for every number but 0, and their values.

    `shank_m`; `shank_cx`, ... of the centre of mass; `shank_Ix`, ... or, for a matrix, `shank_Ixx`,
    `shank_Ixy`, ...; `shank_rx`, ... of the joint; `shank_ex`, ... of the end; `shank_jx`, ... of
    the center of a custom joint, `shank_tx0`, `shank_tx1`, ... of the terms of its translation,
    but for whole numbers.
    """
    values: dict[str, float] = {}

    def symbol(suffix: str, value: Any) -> sp.Expr:
        given = real_expression(value, f"{body.name}_{suffix}")
        if not given.is_number or given.is_zero:
            return given
        values[f"{body.name}_{suffix}"] = float(given)
        return sp.Symbol(f"{body.name}_{suffix}")

    def symbols(letter: str, given: Sequence[Any]) -> Vector:
        return Vector(symbol(letter + axis, e) for axis, e in zip(AXES, given, strict=True))

    def summed(suffix: str, e: sp.Expr) -> sp.Expr:
        terms = enumerate(_terms(e))
        return sp.Add(
            *(x * symbol(f"{suffix}{k}", c) if c.is_Float else x * c for k, (x, c) in terms)
        )

    given = inertia_matrix(body)
    if sp.Matrix(given).is_diagonal():
        inertia: Any = symbols("I", [given[k][k] for k in range(3)])
    else:
        inertia = [
            [symbol("I" + "".join(sorted(AXES[i] + AXES[j])), given[i][j]) for j in range(3)]
            for i in range(3)
        ]
    end = None if body.end is None else symbols("e", body.end)
    joint = body.joint
    if isinstance(joint, Custom):
        rows = zip(AXES, vector(joint.translation), strict=True)
        shift = [summed(f"t{axis}", e) for axis, e in rows]
        joint = replace(joint, center=symbols("j", joint.center), translation=shift)
    new = replace(
        body,
        joint=joint,
        mass=symbol("m", body.mass),
        com=symbols("c", body.com),
        inertia=inertia,
        at=symbols("r", body.at),
        end=end,
    )
    return new, values


def _terms(e: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    """The terms of a sum without their numerical factors, and these; in an order that does not
    depend on the factors, as SymPy's does."""
    terms = (term.as_coeff_Mul() for term in sp.Add.make_args(e))
    return sorted(((rest, factor) for factor, rest in terms), key=sp.default_sort_key)


# -- checks ---------------------------------------------------------------------------------------


def check_bodies(bodies: Sequence[Body], base: str | None) -> None:
    """Raise `ValueError` for bodies that make no tree."""
    known: dict[str, None] = {}
    later = {body.name for body in bodies}
    for body in bodies:
        where = f"body {body.name}"
        if body.name in known or body.name == base:
            raise ValueError(f"{where} is defined twice; names of bodies and base must differ")
        if body.parent is not None and body.parent not in known:
            hint = "move it before" if body.parent in later else suggest(body.parent, known)
            raise ValueError(f"{where}: its parent {body.parent} is not defined before it; {hint}")
        known[body.name] = None


def check_body(body: Body) -> None:
    """Raise `ValueError` for a body that cannot exist."""
    if body.parent is not None:
        check_identifier(body.parent, "the name of its parent")
    check_joint(body.joint)
    if isinstance(body.joint, Revolute):
        check_numbers("the axis of its joint", body.joint.direction)
    places = {"com": body.com, "at": body.at, "end": body.com if body.end is None else body.end}
    for what, given in places.items():
        check_numbers(what, vector(given, what))
    mass = mass_of(body)
    check_numbers("mass", [mass])
    if mass.is_number and not mass >= 0:
        raise ValueError(f"mass must not be negative, got {mass}")
    inertia = sp.Matrix(inertia_matrix(body))
    check_numbers("inertia", inertia)
    if not inertia.is_symmetric():
        raise ValueError("inertia is not symmetric")
    if not inertia.free_symbols:
        check_moments(inertia, body.reflected)


def planar_axis(inertia: Any) -> int | None:
    """The one axis about which a body has inertia, if that is given of no other."""
    given = sp.Matrix(inertia)
    moments = [k for k in range(3) if not given[k, k].is_zero]
    return moments[0] if len(moments) == 1 and given.is_diagonal() else None


def check_turns(body: Body | None, angular: Vector) -> None:
    """Raise `ValueError` for inertia about one axis of a body that turns about others, too."""
    axis = None if body is None or body.reflected else planar_axis(inertia_matrix(body))
    if body is not None and axis is not None:
        other = [AXES[k] for k in range(3) if k != axis and not angular[k].is_zero]
        if other:
            raise ValueError(
                f"body {body.name} has a moment of inertia about its axis {AXES[axis]} only, and "
                f"turns about {' and '.join(other)}, too; give all three moments"
            )


def check_moments(inertia: Any, reflected: bool = False) -> None:
    """Raise `ValueError` for numbers that are the inertia of no body."""
    moments = np.linalg.eigvalsh(np.array(inertia, dtype=float))
    positive = moments.min() >= -(SLIGHTLY if reflected else ROUNDING) * moments.max()
    if not positive or not (reflected or planar_axis(inertia) is not None):
        check_inertia(moments)


def check_numbers(what: str, expressions: Iterable[Any]) -> None:
    """Raise `ValueError` for numbers that are not finite and real, and for names of
    intermediates."""
    for expression in expressions:
        if not isinstance(expression, sp.Expr):
            raise ValueError(f"{what} must be a number or an expression, got {expression!r}")
        if expression.is_number and not (expression.is_real and expression.is_finite):
            raise ValueError(f"{what} must be finite and real, got {expression}")
        for symbol in expression.free_symbols:
            if "." in str(symbol):
                raise ValueError(f"{what} holds {symbol}; names with a dot are for intermediates")
            if symbol == t:
                raise ValueError(f"{what} holds t, which is time; give the symbol another name")


def check_values(bodies: Sequence[Body], values: dict[str, float]) -> None:
    """`check_inertia` for bodies all of whose moments have values."""
    for body in bodies:
        matrix = sp.Matrix(inertia_matrix(body))
        matrix = matrix.subs({s: values[s.name] for s in matrix.free_symbols if s.name in values})
        if not matrix.free_symbols:
            try:
                check_moments(matrix, body.reflected)
            except ValueError as error:
                raise ValueError(f"body {body.name}: {error}") from error


def inertia_limits(body: Body) -> dict[str, sp.Expr]:
    """Limits, not negative where valid, on symbolic principal moments of inertia of a body
    (triangle inequality)."""
    matrix = sp.Matrix(inertia_matrix(body))
    moments = [matrix[k, k] for k in range(3)]
    if not matrix.is_diagonal() or not matrix.free_symbols:
        return {}
    axis = planar_axis(matrix)
    if body.reflected or axis is not None:
        signed = moments if axis is None else [moments[axis]]
        slack = SLIGHTLY * sp.Add(*moments) if body.reflected else sp.S.Zero
        return {f"body {body.name}: {moment} is negative": moment + slack for moment in signed}
    found = {}
    for k, moment in enumerate(moments):
        a, b = moments[:k] + moments[k + 1 :]
        sentence = f"body {body.name}: no body has moments of inertia with {moment} > {a} + {b}"
        found[sentence] = (a + b) * (1.0 + ROUNDING) - moment
    return found


def check_loads(tree: str, bodies: Sequence[Body], loads: Sequence[Load]) -> None:
    """Raise `ValueError` for loads on nothing or in unknown axes."""
    names = [body.name for body in bodies]
    for load in loads:
        check_known(load.body, names, f"load on {load.body}, which is no body of {tree}")
        for what in ("force", "torque", "at"):
            given = vector(getattr(load, what), f"load on {load.body}: {what}")
            if any(e.is_number and not (e.is_real and e.is_finite) for e in given):
                raise ValueError(f"load on {load.body}: {what} must be finite, got {given}")
        if load.axes not in ("world", "body"):
            raise ValueError(f"the axes of a load are 'world' or 'body', got {shown(load.axes)}")


def check_imus(tree: str, bodies: Sequence[Body], imus: Sequence[Imu]) -> None:
    """Raise `ValueError` for sensors on nothing, of the same name, or that turn or lie nowhere."""
    names, found = [body.name for body in bodies], set[str]()
    for imu in imus:
        check_known(imu.body, names, f"imu on {imu.body}, which is no body of {tree}")
        check_identifier(imu.label, f"the name of the imu on {imu.body}")
        if imu.label in found:
            raise ValueError(f"two imus of {tree} have the name {imu.label}; give name='...'")
        found.add(imu.label)
        try:
            check_joint(Spherical(imu.sequence))
            for what in ("at", "angles"):
                check_numbers(what, vector(getattr(imu, what), what))
        except ValueError as error:
            raise ValueError(f"imu {imu.label}: {error}") from error
