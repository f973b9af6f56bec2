"""The symbolic model: an implicit residual with named outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import (
    check_choice,
    check_text,
    count,
    listed,
    mapping,
    naming,
    positive,
    shown,
)
from kinesym.base.notebook import html_table, with_unit
from kinesym.symbolic.declared import Explicit, check_atoms, check_signal
from kinesym.symbolic.delayed import DelayedValue
from kinesym.symbolic.derivation import exchanged
from kinesym.symbolic.expression import (
    atoms_of,
    real_expressions,
    real_number,
)
from kinesym.symbolic.homotopy import HOMOTOPY
from kinesym.symbolic.index import Index, index_of
from kinesym.symbolic.names import by_name, check_known, name_of, names_of, suggest, t, written
from kinesym.symbolic.reduction import RATE, STABILISATIONS, reduced
from kinesym.symbolic.sources import Sourced
from kinesym.symbolic.table import NumericFunction, Tables, tables_of, tabulated
from kinesym.symbolic.text import document
from kinesym.symbolic.text.model import arguments_in, entries_of, writer_of

if TYPE_CHECKING:
    from kinesym.symbolic.identifiability.verdict import Identifiability

#: Fields that an explicit form depends on: a change of one makes it stale.
_SOLVED = frozenset(("states", "equations", "intermediates", "explicit"))


class Units(dict[str, str]):
    """Units by name, those of a model."""


@dataclass(frozen=True, repr=False, eq=False)
class Model(Sourced):
    """A dynamic system `0 = f(x', x, u, p, t)` with outputs `y = g(x', x, u, p, t)`.

    Parameters
    ----------
    name : identifier of the model.
    states : n functions of time x. A state whose derivative appears nowhere is algebraic.
    inputs : m functions of time u; after them those that are `delays`.
    parameters : r constants p.
    equations : n expressions, each = 0; first derivatives of states only.
    outputs : expressions by name.
    intermediates : ordered (symbol, expression) pairs that equations, outputs and later
        intermediates may use. Large models are written this way, never as one expression.
    values : default values of parameters, by symbol or name [units of the model].
    positive : parameters that must be positive, by symbol or name.
    limits : expressions that must not be negative, by the message where one is: there a
        simulation ends. Those of parameters alone are checked at once.
    delays : inputs that nobody gives, as they are a state or another input a while ago: each
        `delayed(...)` in an expression becomes one, with a name such as "theta(t - tau)".
    drawing : lines of a stick figure, each from point to point; a point `knee` is where outputs
        `knee_x`, `knee_y` and, in space, `knee_z` place it [m].
    explicit : x' solved for, if there is a better way than to eliminate x' from the equations; see
        `solved_by`. A model with other states, equations or intermediates has none.
    invariants : outputs that are zero along every motion that starts so, as a motion must:
        constraints of a model of higher index, see `reduced_index`, and their derivatives, by name
        with the order of the derivative.
    vanishing : names of states that are zero along every motion: multipliers of constraints that
        hold twice, see `reduced_index`.
    integrals : states that are integrals of what was an algebraic state, with the names of these,
        which are outputs: only their rates count, so they may start anywhere.
    labels : names of equations, by their number: those of loops, after which `reduced_index` names
        what is left of them.
    units : of states, inputs, parameters and outputs, by symbol or name, as text, {theta: "rad"}:
        plots, tables and reports show them, numbers are not converted. A model that is made of this
        one keeps those of the names that it has.

    Raises `ValueError` if the parts do not fit together, naming the symbol and the remedy.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._put_values()
        self._put_units()
        self._put_explicit()
        put, moving = partial(object.__setattr__, self), {*self.state_names}
        put("invariants", {y: order for y, order in self.invariants.items() if y in self.outputs})
        put("vanishing", tuple(x for x in self.vanishing if x in moving))
        kept = {x: y for x, y in self.integrals.items() if x in moving and y in self.outputs}
        put("integrals", kept)

    def _put_values(self) -> None:
        """Values and positive parameters by name, in the order of the parameters."""
        names = [name_of(p) for p in self.parameters]
        given = by_name(self.values, names, f"values of model {self.name}")
        if HOMOTOPY in self.parameters:
            given.setdefault(HOMOTOPY.name, 1.0)
        values = {
            name: real_number(given[name], f"model {self.name}: the value of {name}")
            for name in names
            if name in given
        }
        chosen = names_of(self.positive, f"model {self.name}: positive")
        by_name(dict.fromkeys(chosen), names, f"positive of model {self.name}")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "positive", tuple(name for name in names if name in chosen))
        check_values(self, values)

    def _put_units(self) -> None:
        """Units by name; those of a model of which this one was made, where it has the name."""
        names = [*self.state_names, *self.given_names, *self.parameter_names, *self.outputs]
        if isinstance(self.units, Units):
            given = {name: unit for name, unit in self.units.items() if name in names}
        else:
            given = by_name(self.units, names, f"units of model {self.name}")
        for name, unit in given.items():
            check_text(unit, f"model {self.name}: the unit of {name}")
        object.__setattr__(self, "units", Units(given))

    def check_units(self) -> list[str]:
        """Sentences on equations, intermediates and outputs whose units do not agree, in dimension
        or in size, as mm and m; what has no unit in `units` agrees with all, as do numbers with a
        decimal point. Radians are 1.

        Needs the package pint, `pip install kinesym[units]`. Raises `ImportError` without it and
        `ValueError` for a unit that it does not know.
        """
        from kinesym.symbolic.units import differences  # on request only

        return list(differences(self))

    @classmethod
    def read(cls, path: str | Path) -> Model:
        """The model of a file that `write` wrote, or that was written by hand.

        Its expressions are parsed, never evaluated. Raises `FileNotFoundError`, and `ValueError`
        that names the file, the entry and the column of what is wrong.
        """
        with document.reading(path, "model") as entries:
            return cls(**arguments_in(entries)[0])

    def write(self, path: str | Path) -> None:
        """Write a JSON file with everything that the model has, its expressions as text.

        Raises `ValueError` for what the text form does not have: functions of your own in C without
        an expression, expressions whose parts occur so often that they should be intermediates.
        """
        with naming(f"model {self.name}"):
            data = entries_of(self, *writer_of(self))
        document.write(path, "model", data)

    @cached_property
    def tables(self) -> Tables:
        """The numbers of the tables in its expressions."""
        form = self.explicit
        more = () if form is None else (*(e for _, e in form.intermediates), *form.rates)
        return tables_of((*self.expressions, *more))

    @cached_property
    def moving_limits(self) -> dict[str, sp.Expr]:
        """The limits that change along a trajectory."""
        parameters = set(self.parameters)
        return {
            sentence: e
            for sentence, e in self.limits.items()
            if e.atoms(AppliedUndef) or not e.free_symbols <= parameters
        }

    @cached_property
    def _limits_of_parameters(self) -> dict[str, tuple[list[str], Any]]:
        """The others: names of parameters and a function of them, by the sentence."""
        found = {}
        for sentence, expression in self.limits.items():
            if sentence not in self.moving_limits:
                symbols = sorted(expression.free_symbols, key=str)
                found[sentence] = (
                    [name_of(s) for s in symbols],
                    NumericFunction(symbols, expression),
                )
        return found

    def with_rates(self, *names: Any) -> Model:
        """The model with inputs as states, whose rates `name_rate` are inputs instead.

        So a torque that is to be found can start anywhere and change no faster than it should, by
        bounds or weights of its rate. Raises `ValueError` for a name that is no input.
        """
        chosen = names_of(names, f"model {self.name}: what gets rates")
        for name in chosen:
            check_known(name, self.input_names, f"model {self.name} has no input {name}")
        states = [u for u in self.inputs if name_of(u) in chosen]
        rates = [sp.Function(f"{name_of(u)}_rate")(t) for u in states]
        return self.extended(dict(zip(states, rates, strict=True)), rates)

    def extended(
        self,
        rates: Mapping[AppliedUndef, Any] | None = None,
        inputs: Sequence[AppliedUndef] = (),
        parameters: Sequence[sp.Symbol] = (),
        outputs: Mapping[str, Any] | None = None,
        values: Mapping[Any, float] | None = None,
    ) -> Model:
        """The model with more of these, after those it has.

        rates : {state: x'}, expressions of x, u, p, t; an input of the model may become a state.
        Raises `ValueError` as `Model`.
        """
        where = f"model {self.name}: further "
        rates = mapping({} if rates is None else rates, f"{where}rates", "{state: rate}")
        for x in rates:
            check_signal(x, f"{where}state")
        rates = real_expressions(rates, f"{where}rate of")
        more = mapping({} if outputs is None else outputs, f"{where}outputs", "{name: expression}")
        numbers = mapping({} if values is None else values, f"{where}values")
        larger = replace(
            self,
            states=(*self.states, *rates),
            inputs=(*(u for u in self.inputs if u not in rates), *listed(inputs, f"{where}inputs")),
            parameters=(*self.parameters, *listed(parameters, f"{where}parameters")),
            equations=(*self.equations, *(x.diff(t) - rate for x, rate in rates.items())),
            outputs={**self.outputs, **more},
            values={**self.values, **numbers},
        )
        if self.explicit is None:
            return larger
        known = self.explicit.intermediates
        return larger.solved_by(Explicit(known, (*self.explicit.rates, *rates.values())))

    def solved_by(self, explicit: Explicit) -> Model:
        """The model whose x' follow from this, not from an elimination, unless x' stands on the
        right.

        `extended`, `substitute` and `dataclasses.replace` keep it; the last two drop it where
        states, equations or intermediates are given anew. Raises `ValueError` for other symbols
        than those of the model.
        """
        solved = copy(self)
        for name in ("index", "tables"):  # those of the equations alone
            vars(solved).pop(name, None)
        object.__setattr__(solved, "explicit", explicit)
        solved._put_explicit()
        return solved

    def _put_explicit(self) -> None:
        """The explicit form, none if it is that of other equations."""
        form, here = self.explicit, (self.states, self.equations, self.intermediates)
        if form is None:
            return
        known = isinstance(form, Explicit)
        stale = known and form.solves not in ((), here)
        if not known or (not stale and len(form.rates) != len(self.states)):
            raise ValueError(
                f"model {self.name}: expected an Explicit form with {len(self.states)} rates, "
                f"got {shown(form)}"
            )
        atoms = []
        if not stale:
            form = self._undelayed(form)
            rows = (*form.intermediates, *zip(self.derivatives, form.rates, strict=True))
            atoms = [(symbol, atoms_of(e)) for symbol, e in rows]
            stale = any(isinstance(atom, sp.Derivative) for _, found in atoms for atom in found)
        object.__setattr__(self, "explicit", None if stale else replace(form, solves=here))
        if stale:
            return
        known_symbols = self.symbols | {symbol for symbol, _ in form.intermediates}
        where = f"model {self.name}: the explicit form of"
        for symbol, found in atoms:
            check_atoms(found, known_symbols, set(), f"{where} {symbol}")

    def _undelayed(self, form: Explicit) -> Explicit:
        """An explicit form with the inputs of the model in place of delays."""
        reduction = self.reduction(form.intermediates)
        found = tuple(reduction("the explicit form", e) for e in form.rates)
        return replace(form, rates=found, intermediates=reduction.program)

    @cached_property
    def index(self) -> Index:
        """Differentiation index of the system of differential-algebraic equations, with its
        algebraic states and hidden constraints."""
        return index_of(self)

    def reduced_index(
        self, stabilisation: str = "baumgarte", index: int | None = None, rate: float = RATE
    ) -> Model:
        """A model with the same solutions and a lower index: derivatives of constraints stand for
        them, or beside them. A model of that index or less is returned as it is.

        stabilisation : "baumgarte": the derivative of the constraint that determines algebraic
            states, plus what makes a drift decay: (d/dt + rate)^s of it is zero.
            "gear-gupta-leimkuhler": constraint and derivative both hold, with further multipliers
            `mu_EQUATION`, which are zero and `vanishing`; of index 2, for methods radau-*.
        index : of the result. 1 by default: for every implicit method. 0: algebraic states become
            rates of states `NAME_integral`, and outputs, so that explicit methods run it, too.
        rate : [1/s], default value of the parameter `baumgarte_rate`; well above the rates of the
            motion, and below one over the step.

        Constraints become outputs `constraint_EQUATION` and `constraint_EQUATION_rate`, which show
        the drift, and `invariants`: simulations start on them, collocation has them as conditions
        at the start. EQUATION is the number of one, or its name in `labels`: for a loop of a tree
        that of its force. Further derivatives of inputs that are needed become inputs `NAME_rate`.
        Start from values that `kinesym.consistent` finds. Raises `ValueError` where the equations
        do not determine the states.
        """
        where = f"model {self.name}: "
        check_choice(stabilisation, STABILISATIONS, f"{where}the stabilisation")
        least = STABILISATIONS.index(stabilisation) * 2  # what multipliers need
        wanted = max(least, 1) if index is None else count(index, f"{where}the index", least=least)
        rate = positive(rate, f"{where}the rate")
        found = reduced(self, self.index, stabilisation, wanted, rate)
        value = found.index.value
        if value is None or value > wanted:
            raise ValueError(
                f"{where}the index is {self.index.value}, and with the stabilisation "
                f"{stabilisation} still {value}, not {wanted}"
            )
        return found

    def identifiability(
        self,
        measured: Iterable[Any],
        known_inputs: Iterable[Any] | None = None,
        unknown_inputs: Iterable[Any] = (),
        starts: Any = None,
        unknown: Iterable[Any] | None = None,
    ) -> Identifiability:
        """Verdict on what perfect measurements can tell: which parameters and starting states, and
        which combinations of those that cannot be known singly. It is exact: ranks modulo primes
        of the power series of what is measured.

        measured : outputs, states or inputs by name, or expressions of the model's symbols.
        known_inputs, unknown_inputs : all are known but the unknown ones, which may do anything.
        starts : states whose value at the start is known: {x: 0.0, v: "known", w: k * x0}, a
            number, an expression of parameters, or "known" for any; "known" alone for all. By
            default no start is known.
        unknown : parameters, all by default; the others are known.

        Raises `ValueError` for expressions that have no power series, as `Abs`, tables and delays,
        by name, and for what the model does not have.
        """
        from kinesym.symbolic.identifiability.question import answered, asked_of  # on request only

        return answered(asked_of(self, measured, known_inputs, unknown_inputs, starts, unknown))

    def undelayed(self, expressions: Sequence[sp.Expr]) -> tuple[Model, list[sp.Expr]]:
        """Expressions with inputs in place of delays, and the model that has these inputs, too."""
        if not any(e.has(DelayedValue) for e in expressions):
            return self, list(expressions)
        reduction = self.reduction()
        found = [reduction("a condition or objective", e) for e in expressions]
        late = reduction.delays(found)
        inputs = (*self.given, *(delay.symbol for delay in late))
        return replace(self, inputs=inputs, delays=late, intermediates=reduction.program), found

    def substitute(self, replacement: Mapping[sp.Basic, Any], **changes: Any) -> Model:
        """A model with symbols exchanged, e.g. an input by a feedback law.

        `changes` replace fields of the model: `plant.substitute({T: -k*x}, inputs=[], ...)`.
        Raises `ValueError` for what the model does not contain, and as `Model`.
        """
        table = self._replacement(replacement)
        for name in changes:
            check_known(name, self.__dataclass_fields__, f"a model has no field {name}")
        late = {d.symbol: d.exchanged(table) for d in self.delays if d.atoms & table.keys()}
        table |= late
        if late:
            inputs = listed(changes.get("inputs", self.inputs), f"model {self.name}: inputs")
            changes["inputs"] = [u for u in inputs if u not in late]
        new: dict[str, Any] = {
            "delays": [delay for delay in self.delays if delay.symbol not in late],
            "equations": [e.xreplace(table) for e in self.equations],
            "outputs": {k: e.xreplace(table) for k, e in self.outputs.items()},
            "intermediates": exchanged(self.intermediates, table),
            "limits": {k: e.xreplace(table) for k, e in self.limits.items()},
        }
        kept = names_of(
            changes.get("parameters", self.parameters), f"model {self.name}: parameters"
        )
        new["positive"] = [name for name in self.positive if name in kept]
        found = replace(self, **{"explicit": None, **new, **changes})
        if self.explicit is None or not _SOLVED.isdisjoint(changes):
            return found
        rates = tuple(e.xreplace(table) for e in self.explicit.rates)
        return found.solved_by(Explicit(exchanged(self.explicit.intermediates, table), rates))

    def _replacement(self, given: Mapping[Any, Any]) -> dict[Any, sp.Expr]:
        """Replacements by symbol, all of which the model contains; raises `ValueError` for
        others."""
        what = f"model {self.name}: the replacement"
        known = self.symbols
        every = [*self.equations, *self.outputs.values(), *(e for _, e in self.intermediates)]
        for key in mapping(given, what, "{symbol: expression}"):
            if not isinstance(key, sp.Expr):
                raise ValueError(
                    f"{what} of {shown(key)}: what is replaced is a symbol or a function of time"
                )
            if key not in known and not any(e.has(key) for e in every):
                raise ValueError(
                    f"{what} of {key}: the model does not contain it; "
                    f"{suggest(str(key), map(str, known))}"
                )
        return real_expressions(given, f"{what} of")

    def __repr__(self) -> str:
        return f"<{self._sizes}>"

    def __str__(self) -> str:
        count = sum(sp.count_ops(e) for e in [*self.equations, *(e for _, e in self.intermediates)])
        rows = [
            f"{self._sizes}, {count} operations",
            *(f"  {label:<11} {words}" for label, words in self._parts()),
        ]
        if self.intermediates:
            rows.append(f"  {len(self.intermediates)} intermediates")
        if self.index.value != 0:
            rows.append(f"  {self.index}")
        rows.extend(f"  0 = {_shortened(e)}" for e in self.equations)
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        rows = [*self._parts(), *(("0 =", _shortened(e)) for e in self.equations)]
        return html_table(self._sizes, rows)

    @property
    def _sizes(self) -> str:
        return (
            f"model {self.name}: {len(self.states)} states, {len(self.given_names)} inputs, "
            f"{len(self.parameters)} parameters"
        )

    def _parts(self) -> list[tuple[str, str]]:
        """Names of states, inputs, delays, parameters and outputs, by the kind."""
        known = ", ".join(_with_value(p, self.values, self.units) for p in self.parameter_names)
        late = ", ".join(delay.name for delay in self.delays)
        return [
            ("states", self._listed(self.state_names)),
            ("inputs", self._listed(self.given_names) or "-"),
            *([("delays", late)] if late else []),
            ("parameters", known),
            ("outputs", self._listed(self.outputs) or "-"),
        ]

    def _listed(self, names: Iterable[str]) -> str:
        return ", ".join(with_unit(name, self.units) for name in names)


#: Functions with kinks or jumps, at which derivatives are one-sided.
_KINKS = (
    sp.Abs,
    sp.Max,
    sp.Min,
    sp.Heaviside,
    sp.sign,
    sp.Piecewise,
    sp.floor,
    sp.ceiling,
    sp.frac,
    sp.Mod,
    sp.DiracDelta,
)


def kinks_of(e: sp.Expr) -> list[sp.Expr]:
    """Parts of an expression that have kinks or jumps, in the order of their text."""
    tables = (part for part in e.atoms(tabulated) if min(part.record.degrees) == 1)
    return sorted({*e.atoms(*_KINKS), *tables}, key=str)


def check_values(model: Model, values: Mapping[str, Any]) -> None:
    """Raise `ValueError` for values (numbers, or one for each member of an ensemble) that are not
    positive though the model demands it, or that break a limit of parameters alone."""
    for name in model.positive:
        if name in values and not np.min(values[name]) > 0.0:
            raise ValueError(f"parameter {name} must be positive, got {np.min(values[name]):g}")
    for sentence, (names, function) in model._limits_of_parameters.items():
        if all(name in values for name in names):
            given = [np.asarray(values[name], dtype=float) for name in names]
            if np.min(function(*given)) < 0.0:
                found = ", ".join(f"{name} = {v}" for name, v in zip(names, given, strict=True))
                raise ValueError(f"model {model.name}: {sentence} ({found})")


def _with_value(name: str, values: Mapping[Any, float], units: Mapping[Any, str]) -> str:
    if name not in values:
        return with_unit(name, units)
    return f"{name} = {values[name]:g} {units.get(name, '')}".rstrip()


def _shortened(expression: sp.Expr) -> str:
    text = written(expression, 80)
    long = f"{text[:160]} ... {sp.count_ops(expression)} operations"
    return text if len(text) <= 160 else long
