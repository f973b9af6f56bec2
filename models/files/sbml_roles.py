"""Roles of the elements of a model in SBML: state, parameter, or determined by a formula.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.etree.ElementTree import Element

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.models.files.sbml_document import (
    Document,
    flag,
    listed,
    math_of,
    of_math,
    references,
    value_of,
)
from kinesym.models.files.sbml_math import (
    Scope,
    as_number,
    formula_of,
    has_time,
    names_in,
    own_name,
)
from kinesym.symbolic.names import check_known, t


@dataclass(frozen=True, eq=False)
class Roles:
    """Roles of the elements of a document, by their names. free : what is a parameter, though an
    initial assignment determines it, as somebody will say otherwise. later : what somebody will
    change after the start."""

    document: Document
    free: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()

    @cached_property
    def elements(self) -> dict[str, Element]:
        """Compartments, species, parameters, and stoichiometries that have a name."""
        kinds = ("compartment", "species", "parameter")
        found = {n: e for n, e in self.document.by_id.items() if e.tag in kinds}
        named = (r for reaction in self.document.each("Reactions") for _, r in references(reaction))
        return found | {r.get("id", ""): r for r in named if r.get("id")}

    def _formulas(self, what: str, tag: str, key: str) -> dict[str, Element | None]:
        """Formulas of the elements of a list, by what they are of."""
        found = dict[str, Element | None]()
        for e in self.document.each(what):
            name = e.get(key, "")
            if e.tag != tag:
                continue
            check_known(name, self.elements, f"{tag} of {name}, which there is not")
            if name in found:
                raise ValueError(f"{tag} of {name} is there twice")
            found[name] = math_of(e)
        return found

    @cached_property
    def assignments(self) -> dict[str, Element | None]:
        """Formulas of assignment rules, by what they determine."""
        return self._formulas("Rules", "assignmentRule", "variable")

    @cached_property
    def rates(self) -> dict[str, Element | None]:
        """Formulas of rate rules."""
        found = self._formulas("Rules", "rateRule", "variable")
        for name in found.keys() & self.assignments.keys():
            raise ValueError(f"{name} has an assignment rule and a rate rule")
        return found

    @cached_property
    def algebraic(self) -> list[Element | None]:
        """Formulas of algebraic rules, which are zero."""
        return [math_of(e) for e in self.document.each("Rules") if e.tag == "algebraicRule"]

    @cached_property
    def initially(self) -> dict[str, Element | None]:
        """Formulas of initial assignments, but of what an assignment rule determines; and of starts
        of species where the size of the compartment is no number of the file."""
        found = self._formulas("InitialAssignments", "initialAssignment", "symbol")
        sizes = found.keys() | self.assignments.keys() | self.free
        found = {k: v for k, v in self._by_size.items() if self.home(k) in sizes} | found
        return {name: math for name, math in found.items() if name not in self.assignments}

    @cached_property
    def _by_size(self) -> dict[str, Element | None]:
        """Formulas of the starts of species that are said as amounts and mean concentrations, or
        the reverse."""
        found = dict[str, Element | None]()
        for species in self.document.each("Species"):
            name = species.get("id", "")
            way = ("Concentration", "times") if self.is_amount(name) else ("Amount", "divide")
            value = value_of(species, f"initial{way[0]}")
            if value is not None:
                found[name] = of_math(way[1], value, self.home(name))
        return found

    def home(self, name: str) -> str:
        """The compartment of a species."""
        home = self.elements[name].get("compartment", "")
        check_known(home, self.document.by_id, f"species {name}: there is no compartment {home}")
        return home

    @cached_property
    def laws(self) -> dict[str, Element | None]:
        """Formulas of the rates of reactions."""
        laws = {r.get("id", ""): r.find("kineticLaw") for r in self.document.each("Reactions")}
        return {name: math_of(law) for name, law in laws.items() if law is not None}

    @cached_property
    def changes(self) -> dict[str, list[tuple[int, Element, str]]]:
        """Changes of the amount of a species: sign, reference and reaction."""
        found = dict[str, list[tuple[int, Element, str]]]()
        for reaction in self.document.each("Reactions"):
            own = reaction.get("id", "")
            if flag(reaction, "fast"):
                raise ValueError(f"reaction {own} is fast, which is not read")
            for sign, reference in references(reaction):
                name = reference.get("species", "")
                check_known(name, self.elements, f"reaction {own}: there is no species {name}")
                if not flag(self.elements[name], "boundaryCondition") and own in self.laws:
                    found.setdefault(name, []).append((sign, reference, own))
        return found

    @cached_property
    def set_by_events(self) -> frozenset[str]:
        """Names to which events give another value."""
        found = set[str]()
        for event in self.document.each("Events"):
            for assignment in listed(event, "EventAssignments"):
                name = assignment.get("variable", "")
                check_known(name, self.elements, f"an event sets {name}, which there is not")
                found.add(name)
        return frozenset(found)

    @cached_property
    def implicit(self) -> list[str]:
        """Unknowns of algebraic rules: in one, and nothing else changes them."""
        used = {name for math in self.algebraic if math is not None for name in names_in(math)}
        others = (
            self.assignments.keys() | self.rates.keys() | self.changes.keys() | self.set_by_events
        )
        found = [n for n in self.elements if n in used - others and not self.is_constant(n)]
        if len(found) != len(self.algebraic):
            raise ValueError(
                f"{len(self.algebraic)} algebraic rules for {len(found)} unknowns "
                f"({', '.join(found) or 'none'}), which is not read"
            )
        return found

    @cached_property
    def diluted(self) -> set[str]:
        """Species in concentrations whose amount is kept while their compartment changes."""
        changing = {*self.rates, *self.assignments, *self.implicit, *self.set_by_events}
        every = (species.get("id", "") for species in self.document.each("Species"))
        return {n for n in every if self.home(n) in changing and not self.is_amount(n)}

    @cached_property
    def _moving(self) -> set[str]:
        """Names of states that change."""
        found = {*self.rates, *self.changes, *self.set_by_events, *self.implicit, *self.diluted}
        return found - self.assignments.keys()

    @cached_property
    def _kept(self) -> set[str]:
        """Constants that are at all times what initial assignments make at the start of states, and
        of what changes later."""
        bodies = {name: body for name, (_, body) in self.document.functions.items()}
        formulas = {**bodies, **self.assignments, **self.laws, **self.initially}
        own = {n: math for n, math in formulas.items() if n not in self._moving | self.free}
        found, old = {*self._moving, *self.later}, -1
        while len(found) > old:
            old = len(found)
            found |= {n for n, math in own.items() if math is not None and _has(math, found)}
        return found & own.keys() & self.initially.keys()

    @cached_property
    def states(self) -> dict[str, AppliedUndef]:
        """States, as functions of time."""
        moving = self._moving | self._kept
        names = (name for name in self.elements if name in moving)
        return {name: sp.Function(own_name(name))(t) for name in names}

    @cached_property
    def determined(self) -> dict[str, sp.Symbol]:
        """Symbols that a formula determines at any time: by rules, initial assignments of what is
        constant, and rates of reactions."""
        constant = (n for n in self.initially if n not in self.states and n not in self.free)
        return {n: sp.Symbol(own_name(n)) for n in (*constant, *self.assignments, *self.laws)}

    @cached_property
    def parameters(self) -> dict[str, sp.Symbol]:
        """Constants that no formula determines."""
        taken = {*self.states, *self.determined}
        return {n: sp.Symbol(own_name(n)) for n in self.elements if n not in taken}

    @cached_property
    def symbols(self) -> dict[str, sp.Expr]:
        """Expressions by name, as formulas mean them."""
        return {**self.parameters, **self.determined, **self.states}

    @cached_property
    def scope(self) -> Scope:
        """Meaning of names in formulas."""
        return Scope(self.symbols, self.document.functions, self.rates_of)

    @cached_property
    def rates_of(self) -> dict[str, sp.Expr]:
        """Symbols of the rates of what changes by a rate; zero for what is constant."""
        held = {*self.determined, *self.implicit}
        names = (name for name in self.elements if name not in held)
        return {n: sp.Symbol(self._rate(n)) if n in self.states else sp.S.Zero for n in names}

    def _rate(self, name: str) -> str:
        """Name of the rate of a state, which no element has."""
        found = f"rate_of_{name}"
        while found in self.document.by_id:
            found += "_"
        return found

    def formula(self, math: Element | None, what: str) -> Any:
        """The expression of a formula; `what` it is, in messages. A condition is 1 or 0."""
        return as_number(self.condition(math, what))

    def condition(self, math: Element | None, what: str) -> Any:
        """The condition, or expression, of a formula."""
        if math is None:
            raise ValueError(f"{what} has no formula")
        try:
            return formula_of(math, self.scope)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from error

    def is_amount(self, name: str) -> bool:
        """Whether the name of a species stands for its amount, not its concentration, section
        4.6.5."""
        home = self.elements[self.home(name)]
        return flag(self.elements[name], "hasOnlySubstanceUnits") or (
            value_of(home, "spatialDimensions") == 0.0
        )

    def is_constant(self, name: str) -> bool:
        """Whether an element says that it never changes."""
        e = self.elements[name]
        return flag(e, "constant", e.tag in ("compartment", "parameter"))

    def value(self, name: str) -> float | None:
        """Number that an element has at the start, as formulas mean it."""
        e = self.elements[name]
        match e.tag:
            case "compartment":
                size = value_of(e, "size")
                return 1.0 if size is None else size  # as other tools read it
            case "parameter":
                return value_of(e, "value")
            case "species":
                return self._of_species(e, self.is_amount(name))
        return value_of(e, "stoichiometry")

    def _of_species(self, species: Element, amount: bool) -> float | None:
        name = species.get("id", "")
        size = self.value(self.home(name))
        found = value_of(species, "initialConcentration")
        if found is not None:
            return found * size if amount and size is not None else found
        found = value_of(species, "initialAmount")
        if found is not None and size == 0.0 and not amount:
            raise ValueError(
                f"compartment {self.home(name)} has the size 0, in which {name} has no "
                "concentration"
            )
        return found if amount or size is None or found is None else found / size


def _has(math: Element, names: Set[str]) -> bool:
    """Whether a formula holds one of these names, or time."""
    return bool(names_in(math) & names) or has_time(math)
