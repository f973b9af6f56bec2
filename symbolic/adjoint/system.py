"""The forward problem in plain symbols."""

from __future__ import annotations

from functools import cached_property

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import shown
from kinesym.symbolic.adjoint.named import NamedExpressions
from kinesym.symbolic.declared import check_atoms
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.model import Model, kinks_of
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import Objective, at_end, at_start


class ForwardSystem:
    """Equations and objective in plain symbols; x' are named expressions, the solution."""

    def __init__(self, model: Model, objective: Objective, hold: frozenset[str]) -> None:
        _check_objective(model, objective)
        self.model, self.hold = model, hold
        signals = objective.integrand.atoms(AppliedUndef) | objective.terminal.atoms(AppliedUndef)
        self.signals = sorted(signals - {*model.states, *model.inputs}, key=name_of)
        moving = [*model.states, *model.inputs, *self.signals]
        intermediates = [name_of(s) for s, _ in model.intermediates]
        self.named = NamedExpressions(
            [*map(name_of, moving), *model.parameter_names, *intermediates]
        )
        self.plain: dict[sp.Basic, sp.Symbol] = {x: sp.Symbol(name_of(x)) for x in moving}
        self.plain |= {dx: sp.Symbol(f"{name_of(dx.expr)}'") for dx in model.derivatives}
        self.states = [self.plain[x] for x in model.states]
        self.inputs = [self.plain[u] for u in model.inputs]
        self.rates = [self.plain[dx] for dx in model.derivatives]
        for symbol, expression in model.intermediates:
            self.named.definitions[symbol] = expression.xreplace(self.plain)
        self.equations = [e.xreplace(self.plain) for e in model.equations]
        self.psi = objective.integrand.xreplace(self.plain)
        self.phi = objective.terminal.xreplace(self.plain)
        if self.named.variables([self.phi]) & set(self.rates):
            raise ValueError(
                "the terminal cost contains a derivative of a state; write it with the states"
            )
        self.mass = self._mass()
        self._define_rates()

    def _mass(self) -> list[dict[int, sp.Expr]]:
        """Rows {column: entry} of F_x', checked not to depend on x'."""
        rows = []
        for number, equation in enumerate(self.equations):
            row = self.named.gradient(equation, self.rates)
            if self.named.variables(row) & set(self.rates):
                raise ValueError(
                    f"model {self.model.name}: x' enters equation {number} nonlinearly and cannot "
                    "be solved for; write the equation so that it is linear in x'"
                )
            rows.append({j: self.named.define(e) for j, e in enumerate(row) if e != 0})
        return rows

    def _define_rates(self) -> None:
        rest = self.named.replace(self.equations, dict.fromkeys(self.rates, sp.S.Zero))
        try:
            solution = self.named.solve(self.mass, [-e for e in rest])
        except ArithmeticError as error:
            name = self.model.state_names[error.args[0]]
            raise ValueError(
                f"model {self.model.name}: state {name} has no derivative that the equations "
                "determine; the adjoint of algebraic states is not supported, use "
                "model.reduced_index(index=0)"
            ) from None
        self.named.definitions |= dict(zip(self.rates, solution, strict=True))

    @cached_property
    def slopes(self) -> dict[sp.Symbol, sp.Symbol]:
        """{input or signal: its time derivative}."""
        moving = [*self.inputs, *(self.plain[s] for s in self.signals)]
        return {u: sp.Symbol(self.named.unique(f"{u.name}_slope")) for u in moving}

    @cached_property
    def flow(self) -> dict[sp.Symbol, sp.Expr]:
        """{symbol: its total time derivative} for everything that moves."""
        return {**dict(zip(self.states, self.rates, strict=True)), **self.slopes, t: sp.S.One}

    def duration(self) -> sp.Expr:
        """dJ/dT = psi + phi_t + phi_x x', with inputs and signals as functions of absolute time."""
        held = {u: sp.S.Zero for u in self.slopes if u.name in self.hold}
        return self.psi + self.named.along([self.phi], {**self.flow, **held})[0]


def _check_objective(model: Model, objective: Objective) -> None:
    """Raise `ValueError` unless the objective consists of integrals and terminal costs, of declared
    symbols, and nothing has a kink."""
    if not isinstance(objective, Objective):
        raise ValueError(f"the objective {shown(objective)} is not made of Integral or Terminal")
    if objective.least_squares:
        raise ValueError(
            "the continuous adjoint needs an objective of Integral and Terminal; "
            "write the least squares as an integral"
        )
    expressions = {f"equation {i}": e for i, e in enumerate(model.equations)}
    expressions |= {f"intermediate {name_of(s)}": e for s, e in model.intermediates}
    costs = {"the integrand": objective.integrand, "the terminal cost": objective.terminal}
    if any(e.atoms(at_start, at_end) for e in costs.values()):
        raise ValueError(
            "there is no continuous adjoint of at_start and at_end in the objective, only of "
            "Terminal(...) at the end; dJ/dx(0) says what the start does"
        )
    for where, expression in {**expressions, **costs}.items():
        kinks = kinks_of(expression)
        if kinks:
            name = kinks[0].func.__name__
            remedy = "take a smooth kind" if name == "tabulated" else f"smooth {name}"
            raise ValueError(
                f"{where} contains {kinks[0]}: sensitivity is not defined at kinks; "
                f"{remedy} or mark events"
            )
    for where, expression in costs.items():
        atoms = atoms_of(expression)
        signals = {a for a in atoms if isinstance(a, AppliedUndef) and a.args == (t,)}
        check_atoms(atoms, model.symbols | signals, set(model.derivatives), where)
    impulses = objective.terminal.atoms(AppliedUndef) & set(model.inputs)
    if impulses:
        name = name_of(min(impulses, key=name_of))
        raise ValueError(
            f"the terminal cost contains input {name}, so that dJ/d{name}(t) has an "
            "impulse at the end; write it with the states"
        )
