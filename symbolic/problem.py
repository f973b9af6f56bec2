"""A model with an objective, unknowns and conditions: what is to be transcribed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.declared import atoms_of, check_atoms
from kinesym.symbolic.hybrid.contacts import Contact, flags_of, forces_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import check_known, name_of, t
from kinesym.symbolic.objective import Objective, at_end, at_start
from kinesym.symbolic.schemes import NodeScheme, Scheme


@dataclass(frozen=True)
class Problem:
    """The symbolic side of a collocation problem; all numbers live elsewhere.

    unknown_parameters, unknown_inputs : what is solved for, besides the states.
    signals : trajectories that are known, by name: the other inputs of the model, and functions of
        time that appear only in the objective or in path conditions.
    measurements : measured states, inputs and outputs, by name.
    path : expressions that are bounded at every node; boundary : expressions of `at_start(...)` and
        `at_end(...)`.
    held : inputs and signals that are constant between nodes (zero-order hold); others are linear.
    free_duration : whether the duration of a trial is unknown.
    links : expressions of `at_end(...)` of each trial and `at_start(...)` of the next one; cycle :
        of the last trial and the first one.
    contacts : of a hybrid model whose phases the trials are: their forces are unknown inputs, and
        signals `closed_NAME`, `stuck_NAME` (with friction) and `hit_NAME`, 0 or 1: which are
        closed in a trial, which of them do not slide, and which are hit at its start. The states
        then continue from trial to trial, through impacts. Needs a scheme with x' at the nodes.

    Raises `ValueError` naming what does not fit.
    """

    model: Model
    scheme: Scheme
    objective: Objective
    unknown_parameters: Sequence[sp.Symbol]
    unknown_inputs: Sequence[AppliedUndef] = ()
    signals: Sequence[AppliedUndef] = ()
    measurements: Mapping[str, sp.Expr] = field(default_factory=dict)
    path: Sequence[sp.Expr] = ()
    boundary: Sequence[sp.Expr] = ()
    held: frozenset[str] = frozenset()
    free_duration: bool = False
    links: Sequence[sp.Expr] = ()
    cycle: Sequence[sp.Expr] = ()
    contacts: Sequence[Contact] = ()

    def __post_init__(self) -> None:
        known, moving = self.known_symbols, moving_symbols(self.model)
        rates = set(self.model.derivatives)
        terms = {"integrand": self.objective.integrand, "terminal cost": self.objective.terminal}
        for number, condition in enumerate(self.path):
            terms[f"path condition {number}"] = condition
        for what, expression in terms.items():
            if expression.atoms(at_start, at_end):
                raise ValueError(
                    f"{what} contains at_start or at_end, which belong in boundary conditions; "
                    "Terminal(...) is taken at the end anyway"
                )
            check_atoms(atoms_of(expression), known, rates, what)
        for what, conditions in (
            ("boundary condition", self.boundary),
            ("link", self.links),
            ("cycle condition", self.cycle),
        ):
            for number, condition in enumerate(conditions):
                _check_boundary(condition, known, rates, moving, f"{what} {number}")
        at_nodes = isinstance(self.scheme, NodeScheme)  # with x' at the nodes
        paths = [] if at_nodes else [what for what in terms if what.startswith("path")]
        for what in ("terminal cost", *paths):
            if terms[what].atoms(sp.Symbol, sp.Derivative) & moving:
                raise ValueError(
                    f"{what} contains a derivative of a state; at a node it is not defined, "
                    "write it with the states"
                )
        self._check_contacts()
        self._check_objective()

    def _check_contacts(self) -> None:
        at_nodes = isinstance(self.scheme, NodeScheme) and self.scheme.rates is not None
        if self.contacts and not at_nodes:
            raise ValueError(
                f"phases with contacts need the rates of states at the nodes; the "
                f"scheme {self.scheme.name} has none, use trapezoid"
            )
        free, signals = set(map(name_of, self.unknown_inputs)), set(map(name_of, self.signals))
        for force in map(name_of, forces_of(self.contacts)):
            if force not in free:
                raise ValueError(f"the contact force {force} must be an unknown input")
        for contact in self.contacts:
            for flag in flags_of(contact):
                if flag not in signals:
                    raise ValueError(f"contact {contact.name}: the signal {flag} is missing")

    @property
    def known_symbols(self) -> set[sp.Basic]:
        """Everything an objective or condition may contain."""
        return self.model.symbols | {*self.signals}

    @property
    def known_parameters(self) -> tuple[sp.Symbol, ...]:
        """Parameters of the model that are not unknown."""
        return tuple(p for p in self.model.parameters if p not in self.unknown_parameters)

    def _check_objective(self) -> None:
        objective = self.objective
        if objective.least_squares and not self.measurements:
            raise ValueError(
                "the objective is the least squares of the measurements, but the experiment has "
                "none; give measurements or an objective"
            )
        unknown = {*self.model.states, *self.unknown_inputs, *self.unknown_parameters}
        unknown |= {s for s, _ in self.model.intermediates} | set(self.model.derivatives)
        if self.free_duration:
            unknown |= {t}
        for what in (objective.integrand, objective.terminal):
            depends = bool(atoms_of(what) & unknown) or (self.free_duration and not what.is_zero)
            if not what.is_zero and not depends and not objective.least_squares:
                raise ValueError(f"the objective {what} depends on nothing that is unknown")


@lru_cache(maxsize=16)
def moving_symbols(model: Model) -> frozenset[sp.Basic]:
    """x' and the intermediates that depend on x'."""
    moving: set[sp.Basic] = set(model.derivatives)
    for symbol, expression in model.intermediates:
        if expression.atoms(sp.Symbol, sp.Derivative) & moving:
            moving.add(symbol)
    return frozenset(moving)


def _check_boundary(
    condition: sp.Expr,
    known: set[sp.Basic],
    rates: set[sp.Derivative],
    moving: frozenset[sp.Basic],
    where: str,
) -> None:
    ends = condition.atoms(at_start, at_end)
    if not ends:
        raise ValueError(f"{where}, {condition}, has neither at_start(...) nor at_end(...)")
    free = condition.xreplace({end: sp.S.Zero for end in ends})
    for atom in sorted(atoms_of(free), key=str):
        if isinstance(atom, (AppliedUndef, sp.Derivative)) or atom == t:
            raise ValueError(f"{where} contains {atom} outside at_start(...) and at_end(...)")
    for end in ends:
        if end.args[0].atoms(sp.Symbol, sp.Derivative) & moving:
            raise ValueError(f"{where} contains a derivative of a state; write it with the states")
        check_atoms(atoms_of(end.args[0]), known, rates, where)
    check_atoms(atoms_of(free), known, rates, where)


def measured_expressions(model: Model, names: Sequence[str]) -> dict[str, sp.Expr]:
    """The expression behind each measured name: a state, an input or an output."""
    known: dict[str, sp.Expr] = {name_of(x): x for x in (*model.states, *model.inputs)}
    known.update(model.outputs)
    for name in names:
        what = f"measurement {name} is neither a state, an input nor an output of"
        check_known(name, known, f"{what} model {model.name}")
    return {name: known[name] for name in names}
