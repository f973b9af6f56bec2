"""Equations of motion from SymPy's `KanesMethod`."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.physics.mechanics import KanesMethod

from kinesym.symbolic.given import shown
from kinesym.symbolic.names import t


def kane_equations(kane: Any) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """States (q, u) and equations of a `KanesMethod` whose `kanes_equations` has been called.

    The equations are the kinematic differential equations, each as 0 = q' - ..., and Kane's
    equations 0 = Fr + Fr*, with u' where it stands. Raises `ValueError` if they are not formed yet
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
    kinematic = [x.diff(t) - rates[x.diff(t)] for x in q]
    accelerations = sp.Matrix(u).diff(t)
    dynamic = list((mass * accelerations - forces).applyfunc(lambda e: e.xreplace(rates)))
    return [*q, *u], [*kinematic, *dynamic]
