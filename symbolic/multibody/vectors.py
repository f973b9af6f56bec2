"""Vectors in components, and names for intermediate results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import sympy as sp

from kinesym.checks import shown
from kinesym.symbolic.expression import real_expression

Vector: TypeAlias = tuple[sp.Expr, sp.Expr, sp.Expr]
Matrix: TypeAlias = tuple[Vector, Vector, Vector]  # its rows

ZERO: Vector = (sp.S.Zero,) * 3
IDENTITY: Matrix = tuple(  # type: ignore[assignment]
    tuple(sp.Integer(i == j) for j in range(3)) for i in range(3)
)
AXES = "xyz"


class Steps:
    """A straight-line program: named expressions in the order in which they are computed.

    Names hold a dot, as in `w.shank.x`, so that they are never those of a user's symbols.
    """

    def __init__(self) -> None:
        self.definitions: dict[sp.Symbol, sp.Expr] = {}

    def scalar(self, name: str, expression: sp.Expr) -> sp.Expr:
        """A symbol for `expression`, or the expression itself if that costs nothing."""
        if expression.is_Atom or (-expression).is_Atom or not expression.args:
            return expression
        symbol = sp.Symbol(name)
        if symbol in self.definitions:
            raise ValueError(f"the intermediate {name} is defined twice")
        self.definitions[symbol] = expression
        return symbol

    def vector(self, name: str, v: Sequence[sp.Expr]) -> Vector:
        """Symbols `name.x`, `name.y`, `name.z`."""
        x, y, z = (self.scalar(f"{name}.{axis}", e) for axis, e in zip(AXES, v, strict=True))
        return x, y, z

    def matrix(self, name: str, m: Matrix) -> Matrix:
        """Symbols `name.x.x`, `name.x.y`, ... by row and column."""
        a, b, c = (self.vector(f"{name}.{axis}", row) for axis, row in zip(AXES, m, strict=True))
        return a, b, c

    def needed(self, expressions: Iterable[sp.Expr]) -> list[tuple[sp.Symbol, sp.Expr]]:
        """The definitions that `expressions` use, directly or not, in order."""
        used = set().union(*(e.free_symbols for e in expressions))
        kept = []
        for symbol, expression in reversed(self.definitions.items()):
            if symbol in used:
                used |= expression.free_symbols
                kept.append((symbol, expression))
        return kept[::-1]


def add(*vectors: Vector) -> Vector:
    """Their sum."""
    x, y, z = (sp.Add(*components) for components in zip(*vectors, strict=True))
    return x, y, z


def scale(factor: sp.Expr, v: Vector) -> Vector:
    """factor v"""
    return factor * v[0], factor * v[1], factor * v[2]


def dot(a: Vector, b: Vector) -> sp.Expr:
    """a . b"""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    """a x b"""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def skew(v: Vector) -> Matrix:
    """The matrix of v x r"""
    x, y, z = v
    zero = sp.S.Zero
    return (zero, -z, y), (z, zero, -x), (-y, x, zero)


def times(m: Matrix, v: Vector) -> Vector:
    """m v"""
    return dot(m[0], v), dot(m[1], v), dot(m[2], v)


def transposed(m: Matrix) -> Matrix:
    """m'"""
    a, b, c = zip(*m, strict=True)
    return a, b, c


def product(a: Matrix, b: Matrix) -> Matrix:
    """a b"""
    columns = [times(a, column) for column in transposed(b)]
    return transposed((columns[0], columns[1], columns[2]))


def vector(values: Any, what: str = "a vector") -> Vector:
    """Three numbers or expressions as a vector; raises `ValueError` that says of `what`."""
    try:
        given = [] if isinstance(values, (str, Mapping, Set)) else list(values)
    except TypeError:
        given = []
    if len(given) != 3:
        raise ValueError(f"{what} must have three components, got {shown(values)}")
    x, y, z = (real_expression(value, what) for value in given)
    return x, y, z
