"""Hybrid dynamical systems: models with events, modes that these switch, and contacts.

Modes and contact forces are inputs of the model that nobody gives: events set the first, the
unilateral constraints of contacts (complementarity of gap and force) determine the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import (
    check_choice,
    check_kind,
    count,
    listed_of,
    mapping,
    naming,
    positive,
)
from kinesym.base.notebook import Displayed
from kinesym.symbolic.declared import check_atoms
from kinesym.symbolic.expression import atoms_of, real_number
from kinesym.symbolic.hybrid import text
from kinesym.symbolic.hybrid.contacts import MOST_CONTACTS, Contact, forces_of, with_friction
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.hybrid.muscle import FESMuscle, with_muscle
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, check_known, name_of, names_of, t
from kinesym.symbolic.table import Tables
from kinesym.symbolic.text import document
from kinesym.symbolic.text.document import Entries
from kinesym.symbolic.text.model import arguments_in, entries_of, writer_of

if TYPE_CHECKING:
    from kinesym.symbolic.identifiability.verdict import Identifiability

#: A bounce that leaves more slowly never rises beyond the heights that count as the ground, the
#: root of the machine epsilon, under the gravity of the earth [m/s].
LOW_BOUNCE = 5.4e-4
#: Conditions that end a contact: its force vanishes, or its height has grown by the hysteresis.
RELEASES = ("force", "height")


@dataclass(frozen=True, repr=False, eq=False)
class Hybrid(Displayed):
    """A model with modes, events, contacts and muscles.

    modes : inputs of the model that events set, with their values at the start. muscles : the model
        may use their forces as inputs; their states, equations, modes and events are added to it.

    release : a contact ends when its "force" does, or when its "height" has grown. v_stop : if all
        points would leave the ground more slowly than this after an impact, they stay [m/s];
        of contacts that bounce at least 5.4e-4, since slower bounces do not rise beyond the heights
        that count as the ground, 1.5e-8 m, under the gravity of the earth.
    per_second : events allowed, beyond which a run is chattering.

    Raises `ValueError` for a name that the model does not have, or that is used twice, and options
    that are none.
    """

    model: Model
    modes: Mapping[Any, float] = field(default_factory=dict)
    events: Sequence[Event] = ()
    contacts: Sequence[Contact] = ()
    muscles: Sequence[FESMuscle] = ()
    release: str = "force"
    v_stop: float = 1e-3
    per_second: int = 1000

    def __post_init__(self) -> None:
        check_kind(self.model, Model, "kinesym")
        put, of = partial(object.__setattr__, self), f"of {self.model.name}"
        self._add_muscles()
        put("events", listed_of(self.events, Event, f"events {of}"))
        put("contacts", listed_of(self.contacts, Contact, f"contacts {of}"))
        modes = by_name(self.modes, None, f"modes {of}")
        put("model", _with_symbols(self.model, modes, self.events))
        put(
            "modes",
            {mode: real_number(v, f"the value of mode {mode}") for mode, v in modes.items()},
        )
        if len(self.contacts) > MOST_CONTACTS:
            raise ValueError(f"a model may have {MOST_CONTACTS} contacts, got {len(self.contacts)}")
        check_choice(self.release, RELEASES, f"release {of}")
        bounces = any(contact.restitution > 0.0 for contact in self.contacts)
        if positive(self.v_stop, f"v_stop {of}") < LOW_BOUNCE and bounces:
            raise ValueError(
                f"v_stop {of} must be at least {LOW_BOUNCE:g} m/s where contacts bounce, got "
                f"{self.v_stop:g}: slower bounces cannot be told from rest; or set restitution 0"
            )
        count(self.per_second, f"per_second {of}")
        self._check_inputs()
        self._check_delays()
        self._check_events()
        self._check_heights()

    def __repr__(self) -> str:
        groups = ("modes", "events", "contacts", "muscles")
        counts = {group: len(getattr(self, group)) for group in groups}
        words = ", ".join(f"{count} {group}" for group, count in counts.items() if count)
        return f"<Hybrid of {repr(self.model)[1:-1]}; {words or 'no events'}>"

    @classmethod
    def read(cls, path: str | Path) -> Hybrid:
        """The system of a file that `write` wrote; raises as `Model.read`."""
        with document.reading(path, "hybrid") as entries:
            inner = Entries(entries.take("model", dict, "an object"), "model")
            arguments, scope = arguments_in(inner)
            inner.done()
            model = Model(**arguments)
            release, v_stop = entries.text("release", "force"), entries.number("v_stop", 1e-3)
            return cls(
                model,
                entries.mapping("modes", (int, float), "a number"),
                [text.event_in(row, scope) for row in entries.rows("events")],
                [text.contact_in(row, scope) for row in entries.rows("contacts")],
                [text.muscle_in(row, scope) for row in entries.rows("muscles")],
                release,
                v_stop,
                entries.take("per_second", int, "a whole number", 1000),
            )

    def write(self, path: str | Path) -> None:
        """Write a JSON file as `Model.write` does, with modes, events, contacts and muscles."""
        with naming(f"model {self.model.name}"):
            write, lookups = writer_of(self.model, self._expressions)
            data = {
                "model": entries_of(self.model, write, lookups),
                "modes": dict(self.modes),
                "events": [text.event_entry(event, write) for event in self.events],
                "contacts": [text.contact_entry(contact, write) for contact in self.contacts],
                "muscles": [text.muscle_entry(muscle, write) for muscle in self.muscles],
                "release": self.release,
                "v_stop": self.v_stop,
                "per_second": self.per_second,
            }
        document.write(path, "hybrid", data)

    def identifiability(
        self,
        measured: Iterable[Any],
        phases: Sequence[Mapping[Any, Any]] = ({},),
        unknown_inputs: Iterable[Any] = (),
        unknown: Iterable[Any] | None = None,
    ) -> Identifiability:
        """Verdict on what perfect measurements of some phases can tell, together; see
        `Model.identifiability`.

        phases : values of modes and whether contacts are closed, by name: [{"stance": 1}, {"heel":
            True}], else as at the start and open. One phase alone: [{...}]. Closed contacts do not
            slide unless their law is "slip". Every phase starts anywhere, in states x_1, x_2, ...
            where there are several: what events tell by themselves, where they happen and what
            they reset, does not count.
        unknown : parameters, by default those that the phases have; the others are known.
        """
        from kinesym.symbolic.hybrid.phases import asked_in_phases  # on request only
        from kinesym.symbolic.identifiability.question import answered

        return answered(asked_in_phases(self, measured, phases, unknown_inputs, unknown))

    def _add_muscles(self) -> None:
        """Their states, modes and events, if they have not been added before."""
        put, of = partial(object.__setattr__, self), f"of {self.model.name}"
        muscles = listed_of(self.muscles, FESMuscle, f"muscles {of}")
        names_of([muscle.name for muscle in muscles], f"muscles {of}")
        put("muscles", muscles)
        for muscle in muscles:
            if muscle.force in self.model.states:
                continue
            put("model", with_muscle(self.model, muscle))
            put("modes", {**mapping(self.modes, f"modes {of}"), **muscle.modes})
            put("events", (*listed_of(self.events, Event, f"events {of}"), *muscle.events))

    def _check_inputs(self) -> None:
        """Modes and forces are inputs, each one thing."""
        inputs = self.model.input_names
        taken = [("", mode) for mode in self.modes]
        for contact in self.contacts:
            pair = [("force", contact.force), ("friction", contact.friction)]
            taken += [
                (f"contact {contact.name!r}: {what} ", name_of(force))
                for what, force in pair[: 1 if contact.law == "slip" else 2]
            ]
        names = [name for _, name in taken]
        for where, name in taken:
            check_known(name, inputs, f"{where}{name} is no input of {self.model.name}")
            if names.count(name) > 1:
                raise ValueError(f"{name} is a mode or the force of two contacts")

    def _check_delays(self) -> None:
        """Delays are constants, of states and of inputs that are given."""
        known = {*self.model.parameters}
        for delay in self.model.delays:
            where = f"{self.model.name} has the delay {delay.name}"
            if not delay.tau.atoms(sp.Symbol, AppliedUndef) <= known:
                raise ValueError(
                    f"{where}, which changes along the motion; in a system with events delays are "
                    "numbers or parameters"
                )
            if name_of(delay.signal) in {*self.modes, *self.forces}:
                raise ValueError(
                    f"{where} of a mode or a contact force; delay states, or inputs that are given"
                )

    def _check_events(self) -> None:
        """Check names of events, the targets of resets and sets, and that guards can change."""
        names = [e.name for e in self.events] + [c.name for c in self.contacts]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two events or contacts are called {twice!r}")
        states = self.model.state_names
        for event in self.events:
            if not _depends_on(event.guard, self.model):
                raise ValueError(
                    f"event {event.name!r}: the guard, {event.guard}, is constant; it "
                    "crosses zero nowhere"
                )
            where = f"event {event.name!r}"
            for target in map(name_of, event.resets):
                check_known(target, states, f"{where} resets {target}, which is no state")
            for target in map(name_of, event.sets):
                check_known(target, self.modes, f"{where} sets {target}, which is no mode")

    def _check_heights(self) -> None:
        """Heights, places and speeds depend on states, modes and parameters alone."""
        known = {*self.model.states, *self.model.parameters}
        known |= {u for u in self.model.inputs if name_of(u) in self.modes}
        names = {symbol for symbol, _ in self.model.intermediates}
        for contact in self.contacts:
            for what in ("height", "place", "speed"):
                e = getattr(contact, what)
                if e is None:
                    continue
                where = f"contact {contact.name!r}: its {what}"
                check_atoms(e.atoms(sp.Symbol) - {t}, known | names, set(), where)
                if not _depends_on(e, self.model):
                    raise ValueError(f"{where}, {e}, is constant")
                others = sorted(map(str, _depends_on(e, self.model) - known))
                if others:
                    raise ValueError(
                        f"{where} depends on {others[0]}, which is no state and no "
                        "mode; make what moves the ground a state"
                    )

    @cached_property
    def tables(self) -> Tables:
        """The numbers of the tables in its expressions, those of the model first."""
        return self.model.tables.with_those_of(self._expressions)

    @property
    def _expressions(self) -> tuple[sp.Expr, ...]:
        """Expressions of events, contacts and muscles."""
        events = (
            e
            for event in self.events
            for e in (event.guard, event.when, *event.resets.values(), *event.sets.values())
        )
        rows = ((c.height, c.place, c.speed) for c in self.contacts)
        places = (e for row in rows for e in row if e is not None)
        muscles = (e for m in self.muscles for e in text.parts_of_muscle(m).values())
        return (*events, *places, *muscles)

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
        return tuple(name for name in self.model.given_names if name not in taken)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of these, and of delays."""
        return (*self.given, *(delay.name for delay in self.model.delays))


def _with_symbols(model: Model, modes: Mapping[str, Any], events: Sequence[Event]) -> Model:
    """The model with modes and parameters that appear in events alone: as inputs and parameters,
    and so that they appear somewhere, as outputs `name_of_events`.

    Raises `ValueError` for what is neither.
    """
    names = {*model.state_names, *model.input_names, *model.parameter_names}
    known, new = model.symbols, set[sp.Basic]()
    for event in events:
        every = (event.guard, event.when, *event.resets.values(), *event.sets.values())
        atoms = atoms_of(*every)
        new |= {atom for atom in atoms - known if _new_name(atom, modes) not in {None, *names}}
        check_atoms(
            atoms, known | new, set(model.derivatives), f"event {event.name!r} of {model.name}"
        )
    inputs = sorted((m for m in new if isinstance(m, AppliedUndef)), key=name_of)
    parameters = sorted((p for p in new if isinstance(p, sp.Symbol)), key=name_of)
    if not new:
        return model
    outputs = {f"{name_of(symbol)}_of_events": symbol for symbol in (*inputs, *parameters)}
    return model.extended(inputs=inputs, parameters=parameters, outputs=outputs)


def _new_name(atom: sp.Basic, modes: Mapping[str, Any]) -> str | None:
    """The name of a symbol that events may bring: a parameter or a mode."""
    if isinstance(atom, sp.Symbol):
        return name_of(atom)
    mode = isinstance(atom, AppliedUndef) and atom.args == (t,) and name_of(atom) in modes
    return name_of(atom) if mode else None


def _depends_on(e: sp.Expr, model: Model) -> set[Any]:
    """Time and functions of time in an expression, also those behind intermediates."""
    every = model.through([e])
    signals = set().union(*(part.atoms(AppliedUndef) for part in every))
    bare = {signal: sp.Dummy() for signal in signals}
    signals |= {t for part in every if t in part.xreplace(bare).atoms(sp.Symbol)}
    return signals - {symbol for symbol, _ in model.intermediates}


def read_system(path: str | Path) -> Model | Hybrid:
    """The model, or the system with events, of a file; raises as `Model.read`."""
    return Hybrid.read(path) if document.kind_of(path) == "hybrid" else Model.read(path)
