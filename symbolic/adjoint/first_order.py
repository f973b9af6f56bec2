"""The first-order form of the adjoint, for any model whose x' can be solved for.

With multipliers w of the equations and H = psi + w^T F, the costates c = dJ/dx(t) satisfy

    c + H_x' = 0 (which gives w),   c' = -H_x,   c(T) = phi_x.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from kinesym.symbolic.adjoint.system import Form, ForwardSystem, dot, rate_of


def first_order(system: ForwardSystem, wrt: Sequence[sp.Symbol]) -> Form:
    """c + H_x' = 0, c' = -H_x with H = psi + w^T F."""
    named = system.named
    costates = [sp.Symbol(named.unique(f"costate_{x.name}")) for x in system.states]
    psi_rates = named.gradient(system.psi, system.rates, frozen=system.rates)
    transposed: list[dict[int, sp.Expr]] = [{} for _ in costates]
    for i, row in enumerate(system.mass):
        for j, entry in row.items():
            transposed[j][i] = entry
    right = [-c - e for c, e in zip(costates, psi_rates, strict=True)]
    multipliers = [named.name(w) for w in named.solve(transposed, right)]
    hamiltonian = system.psi + dot(multipliers, system.equations)
    constant = {*system.rates, *named.symbols(multipliers)}
    gradient = named.gradient(hamiltonian, [*system.states, *wrt], constant)
    n = len(costates)
    return Form(
        states=costates,
        equations=[rate_of(c) + h for c, h in zip(costates, gradient[:n], strict=True)],
        costates=list(costates),
        terminal=costates,
        densities=dict(zip(wrt, gradient[n:], strict=True)),
        multipliers={},
    )
