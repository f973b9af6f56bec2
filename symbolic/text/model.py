"""A model as entries of a document, and the arguments of a model from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.declared import Declared, Explicit
from kinesym.symbolic.delayed import Delay, Reduction
from kinesym.symbolic.names import check_known, name_of, t
from kinesym.symbolic.text.document import Entries
from kinesym.symbolic.text.grammar import Scope
from kinesym.symbolic.text.lookups import (
    expression,
    function_entries,
    functions_in,
    lookups_of,
    table_entries,
)
from kinesym.symbolic.text.writer import Writer, quoted

# -- writing --------------------------------------------------------------------------------------


def writer_of(model: Declared, others: Iterable[sp.Basic] = ()) -> tuple[Writer, dict[Any, str]]:
    """Writer of the expressions of a model, and names of the tables and functions in these.

    others : further expressions that the document has.
    """
    form = model.explicit
    more = () if form is None else (*(e for _, e in form.intermediates), *form.rates)
    late = [delay.tau for delay in model.delays]
    lookups = lookups_of((*model.expressions, *more, *late, *others))
    plain = Writer(lookups)
    delays = {delay.symbol: _of_delay(delay, plain) for delay in model.delays}
    return Writer(lookups, delays), lookups


def entries_of(model: Declared, write: Writer, lookups: dict[Any, str]) -> dict[str, Any]:
    """A model as JSON has it; what is empty is left out. Raises `ValueError` for what the text form
    does not have, by name."""
    form = model.explicit
    every: dict[str, Any] = {
        "name": model.name,
        "states": [_declared(x, model.units) for x in model.states],
        "inputs": [_declared(u, model.units) for u in model.given],
        "parameters": [_parameter(p, model) for p in model.parameters],
        "tables": table_entries(lookups),
        "functions": function_entries(lookups, write),
        "delays": [write(delay.symbol) for delay in model.delays],
        "intermediates": _program(model.intermediates, write),
        "equations": [write(e) for e in model.equations],
        "outputs": [
            {"name": name, "value": write(e), **_unit(name, model.units)}
            for name, e in model.outputs.items()
        ],
        "limits": [{"message": text, "value": write(e)} for text, e in model.limits.items()],
        "drawing": [list(line) for line in model.drawing],
        "explicit": {}
        if form is None
        else {
            "intermediates": _program(form.intermediates, write),
            "rates": [write(e) for e in form.rates],
        },
        "invariants": dict(model.invariants),
        "vanishing": list(model.vanishing),
        "integrals": dict(model.integrals),
        "labels": {str(k): label for k, label in model.labels.items()},
    }
    needed = ("name", "states", "equations")
    return {key: value for key, value in every.items() if value or key in needed}


def _declared(symbol: Any, units: Mapping[Any, str]) -> dict[str, Any]:
    """A symbol or function of time with its unit and what SymPy assumes of it."""
    entry: dict[str, Any] = {"name": name_of(symbol), **_unit(name_of(symbol), units)}
    assumed = _assumed(symbol)
    return {**entry, "assumptions": assumed} if assumed else entry


def _unit(name: str, units: Mapping[Any, str]) -> dict[str, str]:
    return {"unit": units[name]} if name in units else {}


def _parameter(p: sp.Symbol, model: Declared) -> dict[str, Any]:
    entry = _declared(p, model.units)
    name = entry.pop("name")
    value = {"value": model.values[name]} if name in model.values else {}
    positive = {"positive": True} if name in model.positive else {}
    return {"name": name, **value, **positive, **entry}


def _program(rows: Sequence[tuple[sp.Basic, sp.Expr]], write: Writer) -> list[dict[str, Any]]:
    """Intermediates; those that are functions of time say so."""
    return [{**symbol_entry(symbol), "value": write(e)} for symbol, e in rows]


def symbol_entry(symbol: Any) -> dict[str, Any]:
    """A symbol, or a function of time, which says so."""
    of_time = {"of_time": True} if isinstance(symbol, AppliedUndef) else {}
    return {**_declared(symbol, {}), **of_time}


def symbol_in(row: Entries, name: str) -> Any:
    """The symbol of an entry of `symbol_entry`, whose name was taken already."""
    return _named(row, name, _function_of_time if row.flag("of_time") else _symbol)


def _of_delay(delay: Delay, write: Writer) -> str:
    ends = "".join(f", {end!r}" for end in delay.range or ())
    return f"delayed({quoted(name_of(delay.signal))}, {write(delay.tau)}{ends})"


def _assumed(symbol: Any) -> dict[str, bool]:
    """Assumptions that a symbol was made with, one word if that means the rest."""
    if isinstance(symbol, AppliedUndef):
        return {k: bool(v) for k, v in sorted(symbol.func._kwargs.items())}
    every = symbol.assumptions0
    others = {key: value for key, value in sorted(every.items()) if key != "commutative"}
    for key, value in others.items():
        if sp.Symbol("x", **{key: value}).assumptions0 == every:
            return {key: value}
    return others


# -- reading --------------------------------------------------------------------------------------


def arguments_in(entries: Entries) -> tuple[dict[str, Any], Scope]:
    """Arguments of a model by name, and what names mean in further expressions.

    Raises `ValueError` for what is wrong, naming the entry and, in an expression, the column.
    """
    name = entries.text("name")
    units: dict[str, str] = {}
    values: dict[str, float] = {}
    positive: list[str] = []
    states = [_signal(row, units) for row in entries.rows("states")]
    inputs = [_signal(row, units) for row in entries.rows("inputs")]
    parameters = []
    for row in entries.rows("parameters"):
        p = row.text("name")
        parameters.append(_named(row, p, _symbol))
        _put_unit(row, p, units)
        if row.flag("positive"):
            positive.append(p)
        if (value := row.take("value", (int, float), "a number", ())) != ():
            values[p] = float(value)
        row.done()
    symbols: dict[str, sp.Basic] = {name_of(s): s for s in (*states, *inputs, *parameters)}
    rates = {name_of(x): x.diff(t) for x in states}
    scope = Scope(symbols, rates, functions_in(entries))
    delays = _delays(entries, scope, (*states, *inputs))
    program, scope = _program_in(entries, scope)
    equations = [expression(text, at, scope) for text, at in entries.texts("equations")]
    outputs = {}
    for row in entries.rows("outputs"):
        output = row.text("name")
        if output in outputs:
            raise ValueError(f"{row.place}: the name {output} is declared more than once")
        outputs[output] = expression(row.text("value"), row.at("value"), scope)
        _put_unit(row, output, units)
        row.done()
    limits = {}
    for row in entries.rows("limits"):
        message = row.text("message")
        limits[message] = expression(row.text("value"), row.at("value"), scope)
        row.done()
    arguments = {
        **{"name": name, "states": states, "inputs": inputs, "parameters": parameters},
        **{"equations": equations, "outputs": outputs, "intermediates": program},
        **{"values": values, "positive": positive, "limits": limits, "units": units},
        **{"delays": delays, "explicit": _explicit(entries.inner("explicit"), scope)},
        "drawing": _drawing(entries),
        "invariants": entries.mapping("invariants", int, "a whole number"),
        "vanishing": tuple(text for text, _ in entries.texts("vanishing")),
        "integrals": entries.mapping("integrals", str, "text"),
        "labels": _labels(entries),
    }
    return arguments, scope


def _signal(row: Entries, units: dict[str, str]) -> Any:
    found = _named(row, row.text("name"), _function_of_time)
    _put_unit(row, name_of(found), units)
    row.done()
    return found


def _assumptions(row: Entries) -> dict[str, bool]:
    """Assumptions of SymPy on a symbol. Raises `ValueError` for an unknown word, for what is not
    true or false, and for what would make it a number."""
    assumed = row.take("assumptions", dict, "an object of true or false", {})
    known = {*sp.Symbol("x", zero=False).assumptions0, *sp.Symbol("x", zero=True).assumptions0}
    known |= {"irrational", "prime", "composite", "even", "odd", "noninteger"}
    for word, value in assumed.items():
        check_known(word, known, f"{row.place}: assumptions have no {word!r}")
        if not isinstance(value, bool):
            raise ValueError(f"{row.place}: the assumption {word} is true or false, got {value!r}")
    if assumed.get("zero") or assumed.get("commutative") is False:
        raise ValueError(f"{row.place}: a symbol is neither zero nor without commutation")
    return assumed


def _named(row: Entries, name: str, make: Any) -> Any:
    """The symbol of an entry, with a name."""
    assumed = _assumptions(row)
    try:
        found = make(name, assumed)
    except (TypeError, ValueError, RecursionError, AttributeError) as error:
        raise ValueError(f"{row.place}: SymPy refuses the assumptions: {error}") from error
    return found


def _symbol(name: str, assumed: Mapping[str, bool]) -> sp.Symbol:
    return sp.Symbol(name, **assumed)


def _function_of_time(name: str, assumed: Mapping[str, bool]) -> sp.Expr:
    return sp.Function(name, **assumed)(t)


def _put_unit(row: Entries, name: str, units: dict[str, str]) -> None:
    unit = row.take("unit", str, "text", ())
    if unit != ():
        units[name] = unit


def _program_in(entries: Entries, scope: Scope) -> tuple[list[tuple[Any, Any]], Scope]:
    """Intermediates, and what names mean after them."""
    rows = entries.rows("intermediates")
    names = [row.text("name") for row in rows]
    symbols, later, found = dict(scope.symbols), set(names), []
    for row, name in zip(rows, names, strict=True):
        inner = Scope(symbols, scope.rates, scope.functions, frozenset(later))
        value = expression(row.text("value"), row.at("value"), inner)
        later.discard(name)
        symbols[name] = symbol_in(row, name)
        found.append((symbols[name], value))
        row.done()
    return found, Scope(symbols, scope.rates, scope.functions)


def _explicit(entries: Entries | None, scope: Scope) -> Explicit | None:
    if entries is None:
        return None
    program, inner = _program_in(entries, scope)
    rates = tuple(expression(text, at, inner) for text, at in entries.texts("rates"))
    entries.done()
    return Explicit(tuple(program), rates)


def _delays(entries: Entries, scope: Scope, signals: Iterable[AppliedUndef]) -> tuple[Delay, ...]:
    """Delays in their order; expressions may have others, which come after these."""
    reduction = Reduction("", signals)
    every = [reduction(at, expression(text, at, scope)) for text, at in entries.texts("delays")]
    return reduction.delays(every)


def _drawing(entries: Entries) -> list[list[str]]:
    lines = entries.take("drawing", list, "a list of lines, each a list of points", [])
    return [line if isinstance(line, list) else [line] for line in lines]


def _labels(entries: Entries) -> dict[int, str]:
    found = entries.mapping("labels", str, "text")
    for key in found:
        if not key.isdecimal() or len(key) > 9:
            raise ValueError(f"labels.{key}: expected the number of an equation, got {key!r}")
    return {int(key): label for key, label in found.items()}


__all__ = [
    *("Function", "arguments_in", "entries_of", "symbol_entry", "symbol_in", "writer_of"),
]
