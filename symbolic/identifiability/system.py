"""A model as a program for power series: its steps, and where its parts are among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import sympy as sp

from kinesym.symbolic.declared import Declared
from kinesym.symbolic.derivation import exchanged
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.homotopy import HOMOTOPY
from kinesym.symbolic.identifiability.tape import Step, Tape
from kinesym.symbolic.names import name_of, t


@dataclass(frozen=True)
class Run:
    """One of several motions of a model, all of which are measured.

    starts : of states that have one, by name: expressions of parameters; None if it is known
    without a value. values : numbers of known parameters; others may have any. own : names of
    parameters that have a value of their own in it, by name.
    """

    starts: Mapping[str, sp.Expr | None] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class System:
    """Steps of the equations of a model of index 0, run by run, and places of its parts among them.

    parameters : by name, those without numbers. equations : zero, none where x' is explicit.
    explicit : x'. conditions : zero at the start. starts : by the number of a state, its start.
    what : it is said of it in messages.
    """

    what: str
    steps: Sequence[Step]
    parameters: Mapping[str, int]
    states: Sequence[int]
    rates: Sequence[int]
    inputs: Sequence[int]
    times: Sequence[int]
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

    @property
    def timed(self) -> bool:
        """Whether a step has the time itself."""
        times = set(self.times)
        return any(a in times for step in self.steps for a in step.args)

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
    model: Declared, measured: Sequence[sp.Expr], runs: Sequence[Run] = (Run(),), most: int = 0
) -> System:
    """The system of runs of a model of index 0. most : steps, at most, if not 0; raises `TooLong`
    beyond."""
    moving = (*model.states, *model.derivatives, *model.inputs, t)
    variables: dict[sp.Basic, bool] = dict.fromkeys(model.parameters, False)
    variables |= dict.fromkeys(moving, True)
    tape = Tape(variables, f"model {model.name}", most)
    one = tape.add(sp.S.One)
    parameters, found = dict[str, int](), [list[int]() for _ in range(8)]
    starts = dict[int, int]()
    for number, run in enumerate(runs):
        tape.places = {HOMOTOPY: one}
        for p in model.parameters:
            name = name_of(p)
            if p == HOMOTOPY:
                continue
            if name in run.values:
                tape.places[p] = tape.add(sp.Float(run.values[name]))
                continue
            name = run.own.get(name, name)
            if name in parameters:
                tape.places[p] = parameters[name]
            parameters[name] = tape.add(p)
        for j, x in enumerate(model.states):
            if (e := run.starts.get(name_of(x))) is not None:
                starts[number * len(model.states) + j] = tape.add(e)
        for places, more in zip(found, _places(tape, model, measured), strict=True):
            places += more
    states, rates, inputs, times, equations, explicit, conditions, outputs = found
    about = (tape.what, tape.steps, parameters, states, rates, inputs, times)
    return System(*about, equations, explicit, conditions, starts, outputs)


def _places(tape: Tape, model: Declared, measured: Sequence[sp.Expr]) -> list[list[int]]:
    """Places of one run: states, x', inputs, time, equations, x' where explicit, conditions, what
    is measured."""
    symbols = (model.states, model.derivatives, model.inputs, [t])
    variables = [[tape.add(x) for x in group] for group in symbols]
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
    others = [[tape.add(e) for e in every] for every in (equations, conditions, measured)]
    return [*variables, others[0], explicit, *others[1:]]


def _define(tape: Tape, model: Declared, expressions: Sequence[sp.Expr]) -> None:
    """The intermediates that some expressions need."""
    needed = atoms_of(*model.through(expressions))
    for symbol, e in model.intermediates:
        if symbol in needed:
            tape.places[symbol] = tape.add(e)
