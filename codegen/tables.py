"""A function from data on the graph: its cell is found, its coefficients are looked up there, and
the polynomial is ordinary arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import count, product
from math import perm

from kinesym.codegen.graph import Graph
from kinesym.symbolic.table import Tables, searched, tabulated, titled


def lowered_table(g: Graph, tables: Tables, e: tabulated, variables: Sequence[int]) -> int:
    """The node of a table, or of a derivative of it, at the nodes of its variables."""
    record, number, distances = e.record, g.zero, list[int]()
    for axis, x in zip(record.axes, variables, strict=True):
        begin = tables.begin(searched(axis))
        place = _rounded(g, x, axis) if record.outside == "nan" else x
        cell = g.locate(begin, len(axis), place)
        number = g.add(g.mul(g.const(len(axis) + 1), number), cell)
        distances.append(g.sub(x, g.entry(begin, 1, cell)))
    powers = list(product(*(range(1 + degree) for degree in record.degrees)))
    places = zip(count(tables.begin(record.coefficients)), powers)
    values = {p: g.entry(place, len(powers), number) for place, p in places}
    if record.outside == "nan":
        ends = ", ".join(f"{axis[0]:g} to {axis[-1]:g}" for axis in record.axes)
        for node in values.values():
            g.note[node] = f"{titled(record.name)} says nothing outside of its points, {ends}"
    for order, s in reversed(list(zip(e.orders, distances, strict=True))):
        rows: dict[tuple[int, ...], list[int]] = {}
        for p, value in values.items():
            rows.setdefault(p[:-1], []).append(value)
        values = {p: _polynomial(g, row, s, order) for p, row in rows.items()}
    return values[()]


#: Beyond an end by this share of the size of the points is rounding, as of a time in a period.
_SLACK = 1e-13


def _rounded(g: Graph, x: int, axis: Sequence[float]) -> int:
    """x, or an end of the points that it is beyond by rounding only: by this the cell is found, in
    which x stands as it is."""
    first, last = float(axis[0]), float(axis[-1])
    slack = _SLACK * max(abs(first), abs(last), last - first)
    for end, low, high in ((first, first - slack, first), (last, last, last + slack)):
        near = g.mul(g.binary("le", g.const(low), x), g.binary("le", x, g.const(high)))
        x = g.select(near, g.const(end), x)
    return x


def _polynomial(g: Graph, row: Sequence[int], s: int, order: int) -> int:
    """The derivative of a polynomial with these coefficients, by Horner's rule."""
    terms = [g.mul(g.const(perm(k, order)), c) for k, c in enumerate(row)][order:]
    return reduce(lambda rest, c: g.add(c, g.mul(s, rest)), reversed(terms))
