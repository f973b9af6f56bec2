"""A model as a program for power series: its steps, and where its parts are among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from kinesym.symbolic.declared import Declared
from kinesym.symbolic.derivation import exchanged
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.homotopy import HOMOTOPY
from kinesym.symbolic.identifiability.tape import Step, Tape
from kinesym.symbolic.names import t


@dataclass(frozen=True, eq=False)
class System:
    """Steps of the equations of a model of index 0, and places of its parts among them.

    equations : zero, none where x' is explicit. explicit : x'. conditions : zero at the start.
    starts : by the number of a state, its start. what : it is said of it in messages.
    """

    what: str
    steps: Sequence[Step]
    parameters: Sequence[int]
    states: Sequence[int]
    rates: Sequence[int]
    inputs: Sequence[int]
    time: int
    equations: Sequence[int]
    explicit: Sequence[int]
    conditions: Sequence[int]
    starts: Mapping[int, int]
    outputs: Sequence[int]

    @cached_property
    def before(self) -> list[int]:
        """Steps that x' is not needed for."""
        return [k for k in range(len(self.steps)) if k not in self._of_rates]

    @cached_property
    def solving(self) -> list[int]:
        """Steps of the equations and conditions that need x'."""
        return sorted(self._of_rates & self._behind((*self.equations, *self.conditions)))

    @cached_property
    def after(self) -> list[int]:
        """Steps of outputs alone that need x'."""
        return sorted(self._of_rates - set(self.solving))

    @cached_property
    def inner(self) -> set[int]:
        """Steps that arguments of functions depend on."""
        return self._behind(step.args[0] for step in self.steps if step.kind == "chain")

    @cached_property
    def _of_rates(self) -> set[int]:
        found = set(self.rates)
        for k, step in enumerate(self.steps):
            if any(a in found for a in step.args):
                found.add(k)
        return found

    def _behind(self, places: Iterable[int]) -> set[int]:
        found, stack = set[int](), list(places)
        while stack:
            k = stack.pop()
            if k not in found:
                found.add(k)
                stack.extend(self.steps[k].args)
        return found


def system_of(
    model: Declared, measured: Sequence[sp.Expr], starts: Mapping[int, sp.Expr]
) -> System:
    """The system of a model of index 0. starts : expressions of parameters, by number of states."""
    moving = (*model.states, *model.derivatives, *model.inputs, t)
    variables: dict[sp.Basic, bool] = dict.fromkeys(model.parameters, False)
    variables |= dict.fromkeys(moving, True)
    what = f"model {model.name}"
    tape = Tape(variables, what)
    tape.places[HOMOTOPY] = tape.add(sp.S.One)
    found = {j: tape.add(e) for j, e in starts.items()}
    symbols = (model.parameters, model.states, model.derivatives, model.inputs)
    parameters, states, rates, inputs = ([tape.add(x) for x in group] for group in symbols)
    explicit: list[int] = []
    form = model.explicit
    if form is not None:
        own = {symbol: sp.Dummy(str(symbol)) for symbol, _ in form.intermediates}
        for symbol, e in exchanged(form.intermediates, own):
            tape.places[own.get(symbol, symbol)] = tape.add(e)
        explicit = [tape.add(e.xreplace(own)) for e in form.rates]
    equations = model.equations if form is None else ()
    conditions = [model.outputs[name] for name in model.invariants]
    _define(tape, model, (*equations, *conditions, *measured))
    return System(
        what,
        tape.steps,
        parameters,
        states,
        rates,
        inputs,
        tape.add(t),
        [tape.add(e) for e in equations],
        explicit,
        [tape.add(e) for e in conditions],
        found,
        [tape.add(e) for e in measured],
    )


def _define(tape: Tape, model: Declared, expressions: Sequence[sp.Expr]) -> None:
    """The intermediates that some expressions need."""
    needed = atoms_of(*model.through(expressions))
    for symbol, e in model.intermediates:
        if symbol in needed:
            tape.places[symbol] = tape.add(e)
