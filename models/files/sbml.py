"""Models in the Systems Biology Markup Language, `.xml` or `.sbml`.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import sympy as sp

from kinesym.base.checks import naming
from kinesym.base.notebook import Displayed
from kinesym.models.files.passive import number
from kinesym.models.files.sbml_document import Document, document_of, math_of, value_of
from kinesym.models.files.sbml_events import events_of
from kinesym.models.files.sbml_math import own_name, rated_in
from kinesym.models.files.sbml_roles import Roles
from kinesym.models.files.sbml_start import after_events, unrolled
from kinesym.models.files.sbml_units import units_of
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t


@dataclass(frozen=True, eq=False, repr=False)
class FileModel(Displayed):
    """A model that was read from a file, with its start.

    system : the model, or a hybrid model if it has events. starts : value of each state at the
    start by name, a number or an expression of parameters. derived : the same of parameters that
    depend on others unless something else is said. at_start : of events that happen at the start,
    or as soon as time goes on, where their expression is not negative; starts do not have these
    yet, see `after_events`. formulas : of starts, which may depend on one another.
    """

    system: Model | Hybrid
    starts: Mapping[str, sp.Expr]
    derived: Mapping[str, sp.Expr] = field(default_factory=dict)
    at_start: Mapping[str, sp.Expr] = field(default_factory=dict)
    formulas: Mapping[sp.Basic, sp.Expr] = field(default_factory=dict)

    def starts_with(self, changes: Mapping[str, Any], time: float = 0.0) -> dict[str, sp.Expr]:
        """Starts at a time, where some are told: formulas of others follow these."""
        told = {name: real_expression(e, f"the start of {name}") for name, e in changes.items()}
        formulas = {x: told.get(name_of(x), e) for x, e in self.formulas.items()}
        formulas[t] = sp.Float(time)
        return {**self.starts, **_starts_by(self.model, formulas), **told}

    @property
    def model(self) -> Model:
        """The equations."""
        return self.system.model if isinstance(self.system, Hybrid) else self.system

    def __repr__(self) -> str:
        return f"<from a file: {repr(self.system)[1:-1]}>"


def read(path: str | Path) -> FileModel:
    """A model in SBML, and its start.

    States are the species that change, in concentrations or, where the file says so, amounts,
    and whatever has a rate rule or is set by events. What is constant are parameters, of
    compartments their sizes. Rates of reactions and what rules determine are intermediates, and
    outputs under their names. Units of the file are those of the model. Events that wait, for
    delays or for others, are remembered by states without a rate, such as `EVENT_waits`; where
    neither times nor priorities tell an order, it is that of the file.

    Raises `FileNotFoundError`, and `ValueError` that names the element for what is no model or is
    not read: Level 1, formulas with delays, fast reactions, packages of Level 3 that change
    equations.
    """
    with naming(path):
        file = model_of(document_of(path))
        starts = after_events(file.system, file.at_start, file.starts, {})
        return replace(file, starts=starts, at_start={})


def model_of(document: Document, free: Iterable[str] = (), later: Iterable[str] = ()) -> FileModel:
    """The model of a document; free : what is a parameter though an initial assignment determines
    it; later : what others change after the start, which initial assignments do not follow."""
    roles = Roles(document, frozenset(free), frozenset(later))
    rows = _intermediates(roles)
    queue = events_of(roles, dict(rows))
    formulas = {t: sp.S.Zero, **dict(rows), **_starts(roles), **queue.memory}
    derived = {
        own_name(name): roles.formula(roles.initially[name], f"the initial assignment of {name}")
        for name in roles.parameters.keys() & roles.initially.keys()
    }
    values = {symbol: roles.value(name) for name, symbol in roles.parameters.items()}
    model = Model(
        name=document.model.get("id") or "model",
        states=[*roles.states.values()],
        parameters=[*roles.parameters.values()],
        equations=[*_equations(roles, dict(rows))],
        outputs={own_name(name): symbol for name, symbol in roles.determined.items()},
        intermediates=rows,
        values={symbol: value for symbol, value in values.items() if value is not None},
        units=units_of(roles),
    )
    model = model.extended(rates=dict.fromkeys(queue.memory, sp.S.Zero))
    system = Hybrid(model, events=queue.events) if queue.events else model
    return FileModel(system, _starts_by(model, formulas), derived, queue.at_start, formulas)


def _intermediates(roles: Roles) -> list[tuple[sp.Symbol, sp.Expr]]:
    """Symbols that formulas determine, each after those that it uses."""
    rows = dict[sp.Symbol, sp.Expr]()
    for kind, formulas in (
        ("the assignment rule of", roles.assignments),
        ("the kinetic law of", roles.laws),
        ("the initial assignment of", roles.initially),
    ):
        for name, math in formulas.items():
            if name in roles.determined:
                rows[roles.determined[name]] = roles.formula(math, f"{kind} {name}")
    rows |= _rates(roles, rows)
    return _ordered(rows)


def _rates(roles: Roles, rows: Mapping[sp.Symbol, sp.Expr]) -> dict[sp.Symbol, sp.Expr]:
    """Rates that formulas hold, and what these need."""
    of = {roles.rates_of[name]: x for name, x in roles.states.items() if name in roles.rates_of}
    names = {x: name for name, x in roles.states.items()}
    asked = [roles.rates_of.get(name, sp.S.Zero) for name in rated_in(roles.document.model)]
    found, own = dict[sp.Symbol, sp.Expr](), {x.diff(t): rate for rate, x in of.items()}
    while asked:
        rate = asked.pop()
        if rate not in of or rate in found:
            continue
        e, mine = _equation(roles, rows, names[of[rate]]), of[rate].diff(t)
        rest = e.xreplace({mine: sp.S.Zero}).xreplace(own)
        found[rate] = -rest / e.diff(mine)
        asked += [a for a in atoms_of(rest) if a in of]
    return found


def _ordered(rows: Mapping[sp.Symbol, sp.Expr]) -> list[tuple[sp.Symbol, sp.Expr]]:
    """Rows, each after those that it uses. Raises `ValueError` where they go in a circle."""
    # here: from the standard library, for this alone
    from graphlib import CycleError, TopologicalSorter

    uses = {symbol: atoms_of(e) & rows.keys() for symbol, e in rows.items()}
    try:
        return [(symbol, rows[symbol]) for symbol in TopologicalSorter(uses).static_order()]
    except CycleError as error:
        names = ", ".join(sorted({str(symbol) for symbol in error.args[1]}))
        raise ValueError(f"{names} determine one another in a circle") from error


def _equations(roles: Roles, rows: Mapping[sp.Symbol, sp.Expr]) -> Iterable[sp.Expr]:
    """An equation for each state."""
    yield from (_equation(roles, rows, n) for n in roles.states if n not in roles.implicit)
    for math in roles.algebraic:
        yield roles.formula(math, "an algebraic rule")


def _equation(roles: Roles, rows: Mapping[sp.Symbol, sp.Expr], name: str) -> sp.Expr:
    """The equation of a state that has a rate."""
    x = roles.states[name]
    if name in roles.rates:
        return x.diff(t) - roles.formula(roles.rates[name], f"the rate rule of {name}")
    if name in roles.changes or name in roles.diluted:
        return _balance(roles, rows, name)
    return x.diff(t)


def _balance(roles: Roles, rows: Mapping[sp.Symbol, sp.Expr], name: str) -> sp.Expr:
    """The rate of a species by the reactions that change its amount, section 4.11.7."""
    x, species = roles.states[name], roles.elements[name]
    own = species.get("conversionFactor") or roles.document.model.get("conversionFactor")
    factor = roles.symbols[own] if own else sp.S.One
    changes = (
        sign * _stoichiometry(roles, reference) * roles.symbols[reaction]
        for sign, reference, reaction in roles.changes.get(name, ())
    )
    change = factor * sp.Add(*changes)
    if roles.is_amount(name):
        return x.diff(t) - change
    size = unrolled(roles.symbols[roles.home(name)], rows)
    if size in roles.parameters.values():
        return x.diff(t) - change / size
    return (size * x).diff(t) - change


def _stoichiometry(roles: Roles, reference: Element) -> sp.Expr:
    """Number of molecules of a species in a reaction."""
    name, value = reference.get("id"), value_of(reference, "stoichiometry")
    if name and (value is None or name not in roles.parameters):
        return roles.symbols[name]
    math = reference.find("stoichiometryMath")
    if math is not None:
        return roles.formula(math_of(math), f"the stoichiometry of {reference.get('species')}")
    if value is None and roles.document.level > 2:
        raise ValueError(f"a reaction has no stoichiometry of {reference.get('species')}")
    return number(1.0 if value is None else value)


def _starts(roles: Roles) -> dict[Any, sp.Expr]:
    """Formulas of states at the start."""
    given = dict[Any, sp.Expr]()
    for name, x in roles.states.items():
        value = roles.value(name)
        if name in roles.initially:
            given[x] = roles.formula(roles.initially[name], f"the initial assignment of {name}")
        elif value is not None:
            given[x] = number(value)
        elif name not in roles.implicit:
            raise ValueError(f"{name} has no value at the start")
    return given


def _starts_by(model: Model, formulas: Mapping[Any, sp.Expr]) -> dict[str, sp.Expr]:
    """Values of states at the start, as numbers or expressions of parameters."""
    found = dict[Any, sp.Expr]()
    for symbol, e in _ordered(formulas):
        found[symbol] = e.xreplace({a: found[a] for a in atoms_of(e) & found.keys()})
    return {name_of(x): found[x] for x in model.states if x in found}
