"""Roles of the elements of a model in SBML: state, parameter, or determined by a formula.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.extras import required
from kinesym.models.files.sbml_math import expression_of, names_in, own_name
from kinesym.symbolic.names import t

#: What may have a value, as libsbml lists it.
_VALUED = ("Compartments", "Species", "Parameters")


@dataclass(frozen=True, eq=False)
class Roles:
    """Roles of the elements of a model of libsbml, by their names. free : what is a parameter,
    though an initial assignment determines it, as somebody will say otherwise."""

    sbml: Any
    free: frozenset[str] = frozenset()

    def each(self, what: str) -> Iterator[Any]:
        """The elements of a list, such as `Rules`."""
        one = what if what == "Species" else what[:-1]
        count, get = getattr(self.sbml, f"getNum{what}")(), getattr(self.sbml, f"get{one}")
        return (get(k) for k in range(count))

    @cached_property
    def elements(self) -> dict[str, Any]:
        """Compartments, species, parameters, and stoichiometries that have a name."""
        found = {e.getId(): e for what in _VALUED for e in self.each(what)}
        named = (r for reaction in self.each("Reactions") for _, r in references(reaction))
        return found | {r.getId(): r for r in named if r.isSetId()}

    @cached_property
    def assignments(self) -> dict[str, Any]:
        """Formulas of assignment rules, by what they determine."""
        return {r.getVariable(): r.getMath() for r in self.each("Rules") if r.isAssignment()}

    @cached_property
    def rates(self) -> dict[str, Any]:
        """Formulas of rate rules."""
        return {r.getVariable(): r.getMath() for r in self.each("Rules") if r.isRate()}

    @cached_property
    def algebraic(self) -> list[Any]:
        """Formulas of algebraic rules, which are zero."""
        return [r.getMath() for r in self.each("Rules") if r.isAlgebraic()]

    @cached_property
    def initially(self) -> dict[str, Any]:
        """Formulas of initial assignments, but of what an assignment rule determines; and of starts
        of species where the size of the compartment is no number of the file."""
        found = {e.getSymbol(): e.getMath() for e in self.each("InitialAssignments")}
        sizes = found.keys() | self.assignments.keys() | self.free
        found = {k: v for k, v in self._by_size.items() if self._home(k) in sizes} | found
        return {name: math for name, math in found.items() if name not in self.assignments}

    @cached_property
    def _by_size(self) -> dict[str, Any]:
        """Formulas of the starts of species that are said as amounts and mean concentrations, or
        the reverse."""
        libsbml, found = required("libsbml"), dict[str, Any]()
        for species in self.each("Species"):
            name = species.getId()
            if self.is_amount(name) and species.isSetInitialConcentration():
                found[name] = libsbml.parseL3Formula(
                    f"{species.getInitialConcentration()!r} * size"
                )
            if not self.is_amount(name) and species.isSetInitialAmount():
                found[name] = libsbml.parseL3Formula(f"{species.getInitialAmount()!r} / size")
        for name, math in found.items():
            math.getRightChild().setName(self._home(name))
        return found

    def _home(self, name: str) -> str:
        """The compartment of a species."""
        return str(self.elements[name].getCompartment())

    @cached_property
    def laws(self) -> dict[str, Any]:
        """Formulas of the rates of reactions."""
        laws = {r.getId(): r.getKineticLaw() for r in self.each("Reactions")}
        return {name: law.getMath() for name, law in laws.items() if law is not None}

    @cached_property
    def changes(self) -> dict[str, list[tuple[int, Any, str]]]:
        """Changes of the amount of a species: sign, reference and reaction."""
        found = dict[str, list[tuple[int, Any, str]]]()
        for reaction in self.each("Reactions"):
            for sign, reference in references(reaction):
                name = reference.getSpecies()
                if name not in self.elements:
                    raise ValueError(f"reaction {reaction.getId()}: there is no species {name}")
                if not self.elements[name].getBoundaryCondition() and reaction.getId() in self.laws:
                    found.setdefault(name, []).append((sign, reference, reaction.getId()))
        return found

    @cached_property
    def set_by_events(self) -> frozenset[str]:
        """Names to which events give another value."""
        every = (
            e.getEventAssignment(k)
            for e in self.each("Events")
            for k in range(e.getNumEventAssignments())
        )
        return frozenset(assignment.getVariable() for assignment in every)

    @cached_property
    def implicit(self) -> list[str]:
        """Unknowns of algebraic rules: in one, and nothing else changes them."""
        used = {name for math in self.algebraic for name in names_in(math)}
        others = (
            self.assignments.keys() | self.rates.keys() | self.changes.keys() | self.set_by_events
        )
        found = [n for n, e in self.elements.items() if n in used - others and not e.getConstant()]
        if len(found) != len(self.algebraic):
            raise ValueError(
                f"{len(self.algebraic)} algebraic rules for {len(found)} unknowns "
                f"({', '.join(found) or 'none'}), which is not read"
            )
        return found

    @cached_property
    def diluted(self) -> set[str]:
        """Species in concentrations whose amount is kept while their compartment changes."""
        changing = {*self.rates, *self.assignments, *self.implicit}
        every = (species.getId() for species in self.each("Species"))
        return {n for n in every if self._home(n) in changing and not self.is_amount(n)}

    @cached_property
    def states(self) -> dict[str, AppliedUndef]:
        """States, as functions of time."""
        moving = {*self.rates, *self.changes, *self.set_by_events, *self.implicit, *self.diluted}
        names = (name for name in self.elements if name in moving - self.assignments.keys())
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

    def formula(self, math: Any, what: str) -> Any:
        """The expression of a formula; `what` it is, in messages."""
        if math is None:
            raise ValueError(f"{what} has no formula")
        try:
            return expression_of(math, self.symbols)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from error

    def is_amount(self, name: str) -> bool:
        """Whether the name of a species stands for its amount, not its concentration, section
        4.6.5."""
        species = self.elements[name]
        home = self.elements[species.getCompartment()]
        return bool(species.getHasOnlySubstanceUnits()) or (
            home.isSetSpatialDimensions() and home.getSpatialDimensions() == 0
        )

    def value(self, name: str) -> float | None:
        """Number that an element has at the start, as formulas mean it."""
        e = self.elements[name]
        match e.getElementName():
            case "compartment":
                return float(e.getSize()) if e.isSetSize() else 1.0  # as other tools read it
            case "parameter":
                return float(e.getValue()) if e.isSetValue() else None
            case "species":
                return self._of_species(e, self.is_amount(name))
        return float(e.getStoichiometry()) / e.getDenominator() if e.isSetStoichiometry() else None

    def _of_species(self, species: Any, amount: bool) -> float | None:
        size = self.value(species.getCompartment())
        if species.isSetInitialConcentration():
            found = float(species.getInitialConcentration())
            return found * size if amount and size is not None else found
        if species.isSetInitialAmount():
            found = float(species.getInitialAmount())
            if size == 0.0 and not amount:
                raise ValueError(
                    f"compartment {species.getCompartment()} has the size 0, in which "
                    f"{species.getId()} has no concentration"
                )
            return found if amount or size is None else found / size
        return None


def references(reaction: Any) -> Iterator[tuple[int, Any]]:
    """Reactants and products of a reaction, with their signs."""
    yield from ((-1, reaction.getReactant(k)) for k in range(reaction.getNumReactants()))
    yield from ((1, reaction.getProduct(k)) for k in range(reaction.getNumProducts()))
