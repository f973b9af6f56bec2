"""Equations of motion from SymPy's `KanesMethod`."""

from __future__ import annotations

from copy import copy
from typing import Any

import sympy as sp
from sympy.physics.mechanics import KanesMethod

from kinesym.checks import shown
from kinesym.symbolic.names import t


def kane_equations(kane: Any) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """States (q, u) and equations of a `KanesMethod` whose `kanes_equations` has been called.

    The equations are the kinematic differential equations as they were given, not solved for q' (a
    symbolic solution divides by what may be zero at ordinary angles), and Kane's equations
    0 = Fr + Fr*, with u' where it stands. Raises `ValueError` if they are not formed yet
    or if the system has motion constraints, which need multipliers.
    """
    if not isinstance(kane, KanesMethod):
        raise ValueError(f"expected a sympy KanesMethod, got {shown(kane)}")
    try:
        forces = kane.forcing
        mass = kane.mass_matrix
    except (ValueError, AttributeError) as error:
        raise ValueError("call kanes_equations(bodies, loads) of the KanesMethod first") from error
    constraints = [getattr(kane, name, None) for name in ("_f_h", "_f_nh")]  # no public name
    if len(kane.u) != mass.shape[0] or any(constraints):
        raise ValueError("a KanesMethod with constraints is not supported; use independent speeds")
    q, u = list(kane.q), list(kane.u)
    rates = kane.kindiffdict()
    given = copy(kane)
    given.explicit_kinematics = False
    kinematic = list(given.mass_matrix_kin * sp.Matrix(q).diff(t) - given.forcing_kin)
    accelerations = sp.Matrix(u).diff(t)
    dynamic = list((mass * accelerations - forces).applyfunc(lambda e: e.xreplace(rates)))
    return [*q, *u], [*kinematic, *dynamic]
