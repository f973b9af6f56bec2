"""What makes the dynamics of a model hybrid: events, modes that they change, contacts.

Modes and contact forces are inputs of the model that nobody gives: events set the first, the
unilateral constraints of contacts determine the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.expression import real_expression, real_expressions
from kinesym.symbolic.model import Explicit, Model
from kinesym.symbolic.names import name_of, suggest, t

if TYPE_CHECKING:
    from kinesym.symbolic.muscle import FESMuscle

#: What a contact does along the ground.
LAWS = ("slip", "stick", "coulomb")

#: Contacts of one model at most, as many as runtime/hybrid/contact.h has room for.
MOST_CONTACTS = 8


@dataclass(frozen=True)
class Event:
    """Something that happens when a guard crosses zero.

    guard : expression of states, inputs, modes, parameters and time. direction : -1 when it falls
    below zero, 1 when it rises above, 0 both. scale : a typical size of the guard, which says what
    is negligible. resets : states -> their values afterwards. sets : modes -> their values
    afterwards. when : armed only while this expression of modes is positive. level : it also
    happens if the guard is found beyond zero after something else happened; for switches without a
    reset that moves the guard. stop : the simulation ends; failure : it does, with a warning.

    Raises `ValueError` for what does not fit.
    """

    name: str
    guard: Any
    direction: int = -1
    scale: float = 1.0
    resets: Mapping[Any, Any] = field(default_factory=dict)
    sets: Mapping[Any, Any] = field(default_factory=dict)
    when: Any = 1
    level: bool = False
    stop: bool = False
    failure: bool = False

    def __post_init__(self) -> None:
        if self.direction not in (-1, 0, 1):
            raise ValueError(f"event {self.name!r}: direction is -1, 0 or 1, got {self.direction}")
        if not self.scale > 0.0:
            raise ValueError(f"event {self.name!r}: scale must be positive, got {self.scale}")
        put, where = object.__setattr__, f"event {self.name!r}: "
        put(self, "guard", real_expression(self.guard, f"{where}the guard",
                                           "write x - 5 for x > 5"))  # fmt: skip
        put(self, "when", real_expression(self.when, f"{where}when"))
        put(self, "resets", real_expressions(self.resets, f"{where}the reset of"))
        put(self, "sets", real_expressions(self.sets, f"{where}the value of"))
        if self.level and self.direction == 0:
            raise ValueError(f"event {self.name!r}: a level has a side; give direction -1 or 1")
        if self.level and not (self.sets or self.stop or self.failure):
            raise ValueError(f"event {self.name!r}: a level that sets no mode would happen again "
                             "and again; give sets={...} and when=")  # fmt: skip


@dataclass(frozen=True)
class Contact:
    """A point that cannot go below the ground.

    height : expression of coordinates, and modes, that is not negative [m]. force : input of the
    model, the force along the height [N]. law : "slip", no friction; "stick", the point does not
    move along the ground while it presses; "coulomb". For the last two: place : expression along
    the ground [m], friction : input, the force along it [N]; friction_coefficient : of "coulomb".
    restitution : of impacts, 0 to 1; with friction it can add energy, as Newton's law is known to.

    Raises `ValueError` for what does not fit.
    """

    name: str
    height: Any
    force: Any
    law: str = "slip"
    place: Any = None
    friction: Any = None
    friction_coefficient: float = 0.0
    restitution: float = 0.0

    def __post_init__(self) -> None:
        for what in ("height", "place"):
            given = getattr(self, what)
            if given is not None:
                found = real_expression(given, f"contact {self.name!r}: {what}")
                object.__setattr__(self, what, found)
        if self.law not in LAWS:
            raise ValueError(f"contact {self.name!r}: law is one of {', '.join(LAWS)}, "
                             f"got {self.law!r}")  # fmt: skip
        if not 0.0 <= self.restitution <= 1.0:
            raise ValueError(f"contact {self.name!r}: restitution must be within 0 ... 1, "
                             f"got {self.restitution}")  # fmt: skip
        if not self.friction_coefficient >= 0.0:
            raise ValueError(f"contact {self.name!r}: the friction coefficient must not be "
                             f"negative, got {self.friction_coefficient}")  # fmt: skip
        if self.law != "slip" and (self.place is None or self.friction is None):
            raise ValueError(f"contact {self.name!r}: law {self.law!r} needs place= and friction=")


def with_friction(contacts: Sequence[Contact]) -> tuple[Contact, ...]:
    """Those with a force along the ground."""
    return tuple(contact for contact in contacts if contact.law != "slip")


def forces_of(contacts: Sequence[Contact]) -> list[Any]:
    """Their forces: along the heights, then along the ground."""
    return [*(c.force for c in contacts), *(c.friction for c in with_friction(contacts))]


def rows_of(contacts: Sequence[Contact]) -> list[Any]:
    """Heights, then places of those with friction: what the forces act along."""
    return [*(c.height for c in contacts), *(c.place for c in with_friction(contacts))]


def flags_of(contact: Contact) -> list[str]:
    """Signals of a contact in a program of phases: whether it presses, is hit, does not slide."""
    kinds = ["closed", "hit"] if contact.law == "slip" else ["closed", "hit", "stuck"]
    return [f"{kind}_{contact.name}" for kind in kinds]


@dataclass(frozen=True)
class Hybrid:
    """A model with modes, events, contacts and muscles.

    modes : inputs of the model that events set, with their values at the start. muscles : the model
        may use their forces as inputs; their states, equations, modes and events are added to it.

    Raises `ValueError` for a name that the model does not have, or that is used twice.
    """

    model: Model
    modes: Mapping[Any, float] = field(default_factory=dict)
    events: Sequence[Event] = ()
    contacts: Sequence[Contact] = ()
    muscles: Sequence[FESMuscle] = ()

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "muscles", tuple(self.muscles))
        for muscle in self.muscles:
            if muscle.force in self.model.states:
                continue  # has been added before
            put(self, "model", with_muscle(self.model, muscle))
            put(self, "modes", {**self.modes, **muscle.modes})
            put(self, "events", (*self.events, *muscle.events))
        put(self, "events", tuple(self.events))
        put(self, "contacts", tuple(self.contacts))
        put(self, "model", _with_symbols(self.model, self.modes, self.events))
        put(self, "modes", {name_of(mode): float(v) for mode, v in dict(self.modes).items()})
        if len(self.contacts) > MOST_CONTACTS:
            raise ValueError(f"a model may have {MOST_CONTACTS} contacts, got "
                             f"{len(self.contacts)}")  # fmt: skip
        inputs, states = self.model.input_names, self.model.state_names
        known = set(inputs)
        taken: list[str] = [*self.modes, *self.forces]
        for name in taken:
            if name not in known:
                raise ValueError(f"{name} is no input of {self.model.name}; "
                                 f"{suggest(name, inputs)}")  # fmt: skip
        if len(set(taken)) < len(taken):
            twice = next(name for name in taken if taken.count(name) > 1)
            raise ValueError(f"{name_of(twice)} is a mode or the force of two contacts")
        names = [e.name for e in self.events] + [c.name for c in self.contacts]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two events or contacts are called {twice!r}")
        for event in self.events:
            for target in map(name_of, event.resets):
                if target not in states:
                    raise ValueError(f"event {event.name!r} resets {target}, which is no state; "
                                     f"{suggest(target, states)}")  # fmt: skip
            for target in map(name_of, event.sets):
                if target not in self.modes:
                    raise ValueError(f"event {event.name!r} sets {target}, which is no mode; "
                                     f"{suggest(target, list(self.modes))}")  # fmt: skip
        self._check_heights()

    def _check_heights(self) -> None:
        """Heights and places depend on states, modes and parameters alone."""
        known = {*self.model.states, *self.model.parameters}
        known |= {u for u in self.model.inputs if name_of(u) in self.modes}
        hidden = dict(self.model.intermediates)
        for contact in self.contacts:
            for what, e in (("height", contact.height), ("place", contact.place)):
                if e is None:
                    continue
                strange = sorted(map(str, _depends_on(e, hidden) - known))
                if strange:
                    raise ValueError(f"contact {contact.name!r}: its {what} depends on "
                                     f"{strange[0]}, which is no state and no mode; make what "
                                     "moves the ground a state")  # fmt: skip

    @property
    def tangential(self) -> tuple[Contact, ...]:
        """Contacts with a force along the ground."""
        return with_friction(self.contacts)

    @property
    def forces(self) -> tuple[str, ...]:
        """Names of contact forces: along the heights, then along the ground."""
        return tuple(map(name_of, forces_of(self.contacts)))

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the inputs that a simulation is given."""
        taken = {*self.modes, *self.forces}
        return tuple(name for name in self.model.input_names if name not in taken)


def _with_symbols(model: Model, modes: Mapping[Any, float], events: Sequence[Event]) -> Model:
    """The model with modes and parameters that appear in events alone: as inputs and parameters,
    and so that they appear somewhere, as outputs `name_of_events`."""
    every = [e for event in events for e in
             (event.guard, event.when, *event.resets.values(), *event.sets.values())]  # fmt: skip
    signals = set().union(*(e.atoms(AppliedUndef) for e in every)) - set(model.inputs)
    inputs = sorted((m for m in signals if name_of(m) in set(map(name_of, modes))), key=name_of)
    known = {*model.parameters, *(symbol for symbol, _ in model.intermediates), t}
    parameters = sorted(set().union(*(e.free_symbols for e in every)) - known, key=name_of)
    if not inputs and not parameters:
        return model
    outputs = {f"{name_of(symbol)}_of_events": symbol for symbol in (*inputs, *parameters)}
    return replace(model, inputs=(*model.inputs, *inputs), outputs={**model.outputs, **outputs},
                   parameters=(*model.parameters, *parameters))  # fmt: skip


def _depends_on(e: sp.Expr, intermediates: Mapping[Any, Any]) -> set[Any]:
    """Time and functions of time in an expression, also those behind intermediates."""
    found: set[Any] = set()
    seen, rest = set(), [e]
    while rest:
        here = rest.pop()
        signals = here.atoms(AppliedUndef)
        plain = here.xreplace({signal: sp.Dummy() for signal in signals})
        for atom in signals | plain.atoms(sp.Symbol):
            if atom not in intermediates:
                found |= {atom} if atom == t or atom in signals else set()
            elif atom not in seen:
                seen.add(atom)
                rest.append(intermediates[atom])
    return found


def with_muscle(model: Model, muscle: FESMuscle) -> Model:
    """The model with a muscle: its force, an input if it was used, becomes a state; the relative
    rate of its contractile element, `quad_rate` [1/s], an output.

    Raises `ValueError` if the model has other states or inputs of the muscle already.
    """
    taken = {*model.states, *model.inputs} - {muscle.force, muscle.clock}
    for symbol in (*muscle.states, *muscle.inputs):
        if symbol in taken:
            raise ValueError(f"muscle {muscle.name!r}: {model.name} has {name_of(symbol)} already")
    new: dict[str, Any] = {
        "states": (*model.states, *muscle.states),
        "inputs": tuple(dict.fromkeys([*(u for u in model.inputs if u != muscle.force),
                                       *muscle.inputs])),
        "equations": (*model.equations, *muscle.equations),
    }  # fmt: skip
    known = {*model.parameters, *(symbol for symbol, _ in model.intermediates), t}
    more = set().union(*(e.free_symbols for e in new["equations"][len(model.equations) :])) - known
    new["parameters"] = (*model.parameters, *sorted(more, key=name_of))
    new["outputs"] = {**model.outputs, f"{muscle.name}_rate": muscle.contractile_rate}
    if model.explicit is not None:
        rates = (*model.explicit.rates, *muscle.rates)
        solved = (new["states"], new["equations"], model.intermediates)
        new["explicit"] = Explicit(model.explicit.intermediates, rates, solved)
    return replace(model, **new)
