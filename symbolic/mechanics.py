"""Equations of motion from `sympy.physics.mechanics`: Kane's method, Lagrange's method, systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.physics.mechanics import KanesMethod, LagrangesMethod, System

from kinesym.base.checks import shown
from kinesym.symbolic.differentiated import independent
from kinesym.symbolic.expression import parts_of
from kinesym.symbolic.names import name_of, t, written
from kinesym.symbolic.structure import Matrix, random_jacobian, rank

#: States and equations of a model.
Equations = tuple[list[sp.Expr], list[sp.Expr]]


def mechanical_equations(method: Any, frame: Any = None) -> Equations:
    """States and equations of a `KanesMethod`, a `LagrangesMethod` or a `System` whose equations
    have been formed; see `Model.from_kane`."""
    if isinstance(method, System):
        if method.eom_method is None:
            raise ValueError("call form_eoms() of the System first")
        return mechanical_equations(method.eom_method, method.frame)
    if isinstance(method, KanesMethod):
        return _kane(method, frame)
    if isinstance(method, LagrangesMethod):
        return _lagrange(method)
    raise ValueError(
        "expected a KanesMethod, a LagrangesMethod or a System of sympy.physics.mechanics, "
        f"got {shown(method)}"
    )


def forces_over_time(method: Any) -> set[AppliedUndef]:
    """Functions of time in the loads of a method, its coordinates and speeds among them."""
    method = method.eom_method if isinstance(method, System) else method
    vectors = [vector for _, vector in method.forcelist or ()]
    return parts_of(AppliedUndef, *(e for v in vectors for given, _ in v.args for e in given))


# -- Kane ----------------------------------------------------------------------------------------


def _kane(kane: KanesMethod, frame: Any) -> Equations:
    """Coordinates q and speeds u, and multipliers of constraints if there is a frame.

    The equations are the kinematic differential equations as they were given, not solved for q' (a
    symbolic solution divides by what may be zero at ordinary angles), Kane's equations
    Fr + Fr* = 0, with u' where it stands, and the constraints.
    """
    mass, forcing = _formed(kane)
    q, u = list(kane.q), list(kane.u)
    rates = kane.kindiffdict()
    given = copy(kane)
    given.explicit_kinematics = False
    kinematic = list(given.mass_matrix_kin * sp.Matrix(q).diff(t) - given.forcing_kin)
    dynamic = _motion(mass, forcing, u, rates)
    if _symmetric(dynamic, u):
        return [*q, *u], [*kinematic, *dynamic]
    holonomic, between_speeds = _constraints_of_kane(kane)
    constraints = _closing(holonomic, between_speeds, u, rates)
    _check_accelerations(dynamic[-len(between_speeds) :], between_speeds, u, rates)
    if frame is None:  # the last rows are derivatives of the constraints
        return [*q, *u], [*kinematic, *dynamic[: -len(constraints)], *constraints]
    free = KanesMethod(frame, q, u, kd_eqs=kinematic)
    free.kanes_equations(kane.bodies, kane.loads)
    forces = [sp.Function(f"lam{k + 1}")(t) for k in range(len(constraints))]
    along = sp.Matrix(between_speeds).jacobian(u).T * sp.Matrix(forces)
    dynamic = _motion(free.mass_matrix, free.forcing + along, u, rates)
    return [*q, *u, *forces], [*kinematic, *dynamic, *constraints]


def _formed(kane: KanesMethod) -> tuple[sp.Matrix, sp.Matrix]:
    """Mass matrix and forcing. Raises `ValueError` if they are not formed yet."""
    try:
        return kane.mass_matrix, kane.forcing
    except (ValueError, AttributeError) as error:
        raise ValueError("call kanes_equations(bodies, loads) of the KanesMethod first") from error


def _motion(
    mass: sp.Matrix, forcing: sp.Matrix, u: Sequence[sp.Expr], rates: Mapping[sp.Expr, sp.Expr]
) -> list[sp.Expr]:
    """M u' - forcing, without q'."""
    return list((mass * sp.Matrix(u).diff(t) - forcing).xreplace(rates))


def _symmetric(dynamic: Sequence[sp.Expr], u: Sequence[sp.Expr]) -> bool:
    """Whether the mass matrix is one of independent speeds: that of dependent ones has derivatives
    of constraints for its last rows."""
    mass = random_jacobian(dynamic, (), [x.diff(t) for x in u])
    return mass is None or bool(np.allclose(mass, mass.T, rtol=1e-9, atol=1e-9 * abs(mass).max()))


def _constraints_of_kane(kane: KanesMethod) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """Constraints of the coordinates, and those of the speeds, which contain the derivatives of the
    first.

    Raises `ValueError` if SymPy does not hand them out.
    """
    try:
        linear = kane.to_linearizer()
    except ValueError as error:
        raise ValueError(
            "SymPy does not hand out constraints of a KanesMethod whose masses or constraints "
            "contain a given motion; make that motion a coordinate with a constraint of its own"
        ) from error
    return list(linear.f_c), list(linear.f_v)


def _check_accelerations(
    given: Sequence[sp.Expr],
    between_speeds: Sequence[sp.Expr],
    u: Sequence[sp.Expr],
    rates: Mapping[sp.Expr, sp.Expr],
) -> None:
    """Raise `ValueError` for acceleration constraints that bind others than the derivatives of
    those of the speeds, which are what the model keeps."""
    derived = [e.diff(t).doit().xreplace(rates) for e in between_speeds]
    slopes = random_jacobian([*derived, *given], (), [x.diff(t) for x in u])
    if slopes is None:  # no real numbers: said elsewhere
        return
    count = len(derived)
    for i in range(count):
        if rank(slopes[[*range(count), count + i]]) > rank(slopes[:count]):
            raise ValueError(
                f"acceleration constraint {i}, {written(given[i], 60)}, is not a derivative of the "
                "velocity constraints; leave acceleration_constraints out"
            )


# -- Lagrange ------------------------------------------------------------------------------------


def _lagrange(lagrange: LagrangesMethod) -> Equations:
    """Coordinates q, their rates `q_rate`, and multipliers `lam1`, ... of M u' = F + J' lam, as of
    Kane's method: SymPy's have the other sign."""
    if lagrange.eom is None:
        raise ValueError("call form_lagranges_equations() of the LagrangesMethod first")
    q, forces = list(lagrange.q), list(lagrange.lam_vec)
    u = [sp.Function(f"{name_of(x)}_rate")(t) for x in q]
    speeds = {x.diff(t): v for x, v in zip(q, u, strict=True)}
    table = {x.diff(t, 2): v.diff(t) for x, v in zip(q, u, strict=True)} | speeds
    kinematic = [rate - v for rate, v in speeds.items()]
    dynamic = [e.doit().xreplace(table) for e in lagrange.eom]
    between_speeds = [e.doit().xreplace(table) for e in lagrange.coneqs]
    dynamic = _pushing(dynamic, between_speeds, forces, u)
    holonomic = _holonomic_of_lagrange(lagrange, len(between_speeds))
    constraints = _closing(holonomic, between_speeds, u, speeds)
    return [*q, *u, *forces], [*kinematic, *dynamic, *constraints]


def _pushing(
    dynamic: Sequence[sp.Expr],
    between_speeds: Sequence[sp.Expr],
    forces: Sequence[sp.Expr],
    u: Sequence[sp.Expr],
) -> list[sp.Expr]:
    """M u' - F - J' lam from equations that may have the multipliers with the other sign."""
    if not forces:
        return list(dynamic)
    slopes = random_jacobian([*dynamic, *between_speeds], (), [*forces, *u])
    k, n = len(forces), len(dynamic)
    pulls = slopes is None or np.sum(slopes[:n, :k] * slopes[n:, k:].T) > 0.0
    return [e.xreplace({f: -f for f in forces}) for e in dynamic] if pulls else list(dynamic)


def _holonomic_of_lagrange(lagrange: LagrangesMethod, constraints: int) -> list[sp.Expr]:
    """Constraints of the coordinates; SymPy hands them out to those who know their number."""
    q, rates = list(lagrange.q), list(lagrange.u)
    free = len(q) - constraints
    for independent_ in range(len(q), free - 1, -1):
        with suppress(ValueError):
            linear = lagrange.to_linearizer(
                q[:independent_], rates[:free], q[independent_:], rates[free:]
            )
            return list(linear.f_c)
    raise ValueError(
        "SymPy does not hand out constraints of a LagrangesMethod whose forces contain a given "
        "motion and its rate; make that motion a coordinate with a constraint of its own"
    )


# -- constraints ---------------------------------------------------------------------------------


def _closing(
    holonomic: Sequence[sp.Expr],
    between_speeds: Sequence[sp.Expr],
    u: Sequence[sp.Expr],
    rates: Mapping[sp.Expr, sp.Expr],
) -> list[sp.Expr]:
    """Constraints of the coordinates, and those between speeds that do not follow from them.

    Raises `ValueError` if some depend on one another, or the derivative of one of the coordinates
    is not among those of the speeds.
    """
    derived = [e.diff(t).doit().xreplace(rates) for e in holonomic]
    slopes = random_jacobian([*derived, *between_speeds], (), u)
    if slopes is None:
        raise ValueError("the constraints are no real numbers at any of many random points")
    h, own = len(holonomic), list(range(len(holonomic), len(slopes)))
    _check_independent(slopes[own], between_speeds, "velocity constraint")
    _check_independent(slopes[:h], holonomic, "configuration constraint")
    for i in range(h):
        if rank(slopes[[i, *own]]) > len(own):
            raise ValueError(
                f"the derivative of configuration constraint {i}, {written(holonomic[i], 60)}, "
                "does not follow from the velocity constraints; add it to them"
            )
    kept = independent(slopes)
    return [*holonomic, *(between_speeds[i - h] for i in kept if i >= h)]


def _check_independent(slopes: Matrix, expressions: Sequence[sp.Expr], what: str) -> None:
    """Raise `ValueError` for an expression whose derivatives are combinations of those before."""
    found = independent(slopes)
    for i in range(len(slopes)):
        if i not in found:
            raise ValueError(
                f"{what} {i}, {written(expressions[i], 60)}, follows from those before it, or "
                "contradicts them; leave it out"
            )
