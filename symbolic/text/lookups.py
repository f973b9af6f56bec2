"""Tables, and functions of users, in the text form: from expressions to entries and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import sympy as sp

from kinesym.base.checks import check_choice, naming, shown
from kinesym.symbolic.expression import parts
from kinesym.symbolic.function import Definition, applied, function
from kinesym.symbolic.interpolation import KINDS, OUTSIDE
from kinesym.symbolic.table import Record, finite_numbers, table, tabulated
from kinesym.symbolic.text.document import Entries
from kinesym.symbolic.text.grammar import Scope, parsed
from kinesym.symbolic.text.scalars import SCALARS
from kinesym.symbolic.text.writer import Writer

#: What stands for the function of a table or of a user: the orders of a derivative and arguments
#: to an expression.
Function = Callable[[Sequence[int], Sequence[sp.Expr]], sp.Expr]


def lookups_of(expressions: Iterable[sp.Basic], others: Iterable[str] = ()) -> dict[sp.Basic, str]:
    """Names of the tables and functions of users in expressions, by record and definition, in the
    order in which they can be read: one each, and none that the grammar or `others` have."""
    found: dict[sp.Basic, str] = {}
    taken = {*SCALARS, *others}
    seen: set[sp.Basic] = set()
    for e in expressions:
        for part in parts(e, seen):
            if isinstance(part, tabulated):
                _name(part.record, found, taken)
            elif isinstance(part, applied):
                _name_definition(part.definition, found, taken)
    return found


def _name_definition(own: Definition, found: dict[sp.Basic, str], taken: set[str]) -> None:
    """Name a function, those in its derivatives first."""
    for e in (own.formula, *own.derivatives):
        for part in parts(e) if e is not None else ():
            if isinstance(part, applied):
                _name_definition(part.definition, found, taken)
    if own not in found and own.name in taken:
        raise ValueError(
            f"the function {own.name} has the name of another one; give it one of its own"
        )
    _name(own, found, taken)


def _name(part: Record | Definition, found: dict[sp.Basic, str], taken: set[str]) -> None:
    if part in found:
        return
    name, count = part.name, 1
    while name in taken:
        count += 1
        name = f"{part.name}_{count}"
    taken.add(name)
    found[part] = name


# -- tables ---------------------------------------------------------------------------------------


def table_entries(lookups: dict[sp.Basic, str]) -> list[dict[str, Any]]:
    """Entries of the tables."""
    rows = ((part, name) for part, name in lookups.items() if isinstance(part, Record))
    return [_of_record(record, name) for record, name in rows]


def _of_record(record: Record, name: str) -> dict[str, Any]:
    """A table by its values, if those and a kind make exactly this one; else by the coefficients
    of its polynomials."""
    axes = [axis.tolist() for axis in record.axes]
    two = len(axes) == 2
    entry: dict[str, Any] = {"name": name}
    if record.name != name:
        entry["shown"] = record.name
    entry["points"] = axes if two else axes[0]
    values = record.coefficients[(slice(1, None),) * len(axes) + (0,) * len(axes)]
    for kind in KINDS:
        try:
            made = _record(record.name, axes, values, kind, record.outside)
        except ValueError:
            continue
        if made == record:
            return {**entry, "values": values.tolist(), "kind": kind, "outside": record.outside}
    cells = record.coefficients.astype(object)
    cells[np.isnan(record.coefficients)] = None  # outside, where there is nothing
    return {**entry, "coefficients": cells.tolist(), "outside": record.outside}


def _record(
    name: str, axes: Sequence[Sequence[float]], values: Any, kind: str, outside: str
) -> Record:
    """The table through values."""
    x = sp.Symbol("x")
    if len(axes) == 1:
        made = table(x, axes[0], values, kind, outside, name)
    else:
        made = table((x, sp.Symbol("y")), axes, values, kind, outside, name)
    found: Record = made.record
    return found


def table_function(row: Entries) -> tuple[str, Function]:
    """A table, and its name, from an entry."""
    name = row.text("name")
    shown_as = row.text("shown", name)
    with naming(row.place):
        points = row.take("points", list, "a list of increasing numbers, or two of them")
        axes = points if points and isinstance(points[0], list) else [points]
        outside = row.text("outside", "linear")
        given = row.take("coefficients", list, "nested lists of numbers", [])
        if given:
            record = _by_coefficients(shown_as, axes, given, outside)
        else:
            values = row.take("values", list, "a number for each point")
            kind = row.text("kind", "cubic")
            if len(axes) > 2:
                raise ValueError(f"points of one or two variables, got {len(axes)}")
            record = _record(shown_as, axes, values, kind, outside)
        row.done()

    def at(orders: Sequence[int], x: Sequence[sp.Expr]) -> sp.Expr:
        if len(x) != len(axes) or len(orders) not in (0, len(axes)):
            raise ValueError(f"the table {name} has {len(axes)} variables, got {len(x)}")
        return tabulated(record, *x, *map(sp.Integer, orders or [0] * len(axes)))

    return name, at


def _by_coefficients(name: str, axes: Any, given: Any, outside: str) -> Record:
    """A table by the coefficients of its polynomials."""
    check_choice(outside, OUTSIDE, "outside")
    points = [finite_numbers(axis, "the points") for axis in axes]
    if any(axis.ndim != 1 for axis in points):
        raise ValueError(f"points are a list of numbers, or two of them, got {shown(axes)}")
    try:
        cells = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"coefficients are nested lists of numbers, got {shown(given)}") from error
    expected = tuple(len(axis) + 1 for axis in points)
    fits = cells.ndim == 2 * len(axes) and cells.shape[: len(axes)] == expected
    if len(axes) > 2 or not fits or any(np.any(np.diff(axis) <= 0) for axis in points):
        raise ValueError(
            f"coefficients are of {' x '.join(map(str, expected))} cells, below, between and above "
            f"points that increase, got the shape {cells.shape}"
        )
    return Record(name, points, cells, outside)


# -- functions of users ---------------------------------------------------------------------------


def function_entries(lookups: dict[sp.Basic, str], write: Writer) -> list[dict[str, Any]]:
    """Entries of the functions of users; raises `ValueError` for one that has C text only."""
    return [_of_definition(own, write) for own in lookups if isinstance(own, Definition)]


def _of_definition(own: Definition, write: Writer) -> dict[str, Any]:
    if own.formula is None:
        raise ValueError(
            f"the function {own.name} has C text and no expression, and files carry no code; give "
            "its value in Python as an expression: ks.function(..., python=expression)"
        )
    return {
        "name": own.name,
        "arguments": [symbol.name for symbol in own.arguments],
        "value": write(own.formula),
        "derivatives": [write(e) for e in own.derivatives],
    }


def own_function(row: Entries, others: dict[str, Function]) -> tuple[str, Function]:
    """A function of a user, and its name, from an entry; others : those before it."""
    name = row.text("name")
    symbols = {argument: sp.Symbol(argument) for argument, _ in row.texts("arguments")}
    itself: dict[str, Function] = {name: lambda orders, x: sp.Function(name)(*x)}
    value = expression(row.text("value"), row.at("value"), Scope(symbols, {}, others))
    scope = Scope(symbols, {}, {**others, **itself})
    slopes = [expression(text, place, scope) for text, place in row.texts("derivatives")]
    row.done()
    with naming(row.place):
        made = function(name, [*symbols.values()], value, slopes or None)
    return name, lambda orders, x: made(*x)


def expression(text: str, place: str, scope: Scope) -> sp.Basic:
    """The expression of a text; errors name the place."""
    with naming(place):
        return parsed(text, scope)


def functions_in(entries: Entries) -> dict[str, Function]:
    """Tables and functions of users of a document, by name."""
    found: dict[str, Function] = {}
    for row in entries.rows("tables"):
        _put(found, row.place, *table_function(row))
    for row in entries.rows("functions"):
        _put(found, row.place, *own_function(row, found))
    return found


def _put(found: dict[str, Function], place: str, name: str, made: Function) -> None:
    """Add a function; raises `ValueError` for a name that is taken."""
    if name in found or name in SCALARS:
        raise ValueError(f"{place}: the name {name} is that of another function")
    found[name] = made
