"""Vectors in components, and names for intermediate results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, overload

import sympy as sp

from kinesym.checks import shown
from kinesym.symbolic.expression import real_expression

AXES = "xyz"


class Vector(tuple[Any, Any, Any]):
    """Three expressions: a + b, a - b, -a, factor * a, the scalar product a @ b, and `cross`."""

    __slots__ = ()

    def __add__(self, other: Vector) -> Vector:  # type: ignore[override]
        return Vector(map(sp.Add, self, other))

    def __sub__(self, other: Vector) -> Vector:
        return self + -other

    def __neg__(self) -> Vector:
        return Vector(-e for e in self)

    def __rmul__(self, factor: sp.Expr) -> Vector:
        return Vector(factor * e for e in self)

    def __matmul__(self, other: Vector) -> sp.Expr:
        return self[0] * other[0] + self[1] * other[1] + self[2] * other[2]

    def cross(self, other: Vector) -> Vector:
        """The vector product."""
        (a, b, c), (x, y, z) = self, other
        return Vector((b * z - c * y, c * x - a * z, a * y - b * x))

    @property
    def skew(self) -> Matrix:
        """The matrix of the vector product with this on the left."""
        x, y, z = self
        zero = sp.S.Zero
        return matrix([(zero, -z, y), (z, zero, -x), (-y, x, zero)])


class Matrix(tuple[Vector, Vector, Vector]):
    """Three rows: A + B, factor * A, A @ B, A @ v, and the transposed `A.T`."""

    __slots__ = ()

    def __add__(self, other: Matrix) -> Matrix:  # type: ignore[override]
        return Matrix(a + b for a, b in zip(self, other, strict=True))

    def __rmul__(self, factor: sp.Expr) -> Matrix:
        return Matrix(factor * row for row in self)

    @overload
    def __matmul__(self, other: Vector) -> Vector: ...
    @overload
    def __matmul__(self, other: Matrix) -> Matrix: ...
    def __matmul__(self, other: Vector | Matrix) -> Vector | Matrix:
        if isinstance(other, Vector):
            return Vector(row @ other for row in self)
        return Matrix(self @ column for column in other.T).T

    @property
    def T(self) -> Matrix:
        """The transposed matrix."""
        return matrix(zip(*self, strict=True))


def matrix(rows: Iterable[Iterable[Any]]) -> Matrix:
    """A matrix of these rows."""
    return Matrix(map(Vector, rows))


ZERO = Vector((sp.S.Zero,) * 3)
IDENTITY = matrix([sp.Integer(i == j) for j in range(3)] for i in range(3))


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
        return Vector(self.scalar(f"{name}.{axis}", e) for axis, e in zip(AXES, v, strict=True))

    def matrix(self, name: str, m: Matrix) -> Matrix:
        """Symbols `name.x.x`, `name.x.y`, ... by row and column."""
        return Matrix(self.vector(f"{name}.{axis}", row) for axis, row in zip(AXES, m, strict=True))

    def needed(self, expressions: Iterable[sp.Expr]) -> list[tuple[sp.Symbol, sp.Expr]]:
        """The definitions that `expressions` use, directly or not, in order."""
        used = set().union(*(e.free_symbols for e in expressions))
        kept = []
        for symbol, expression in reversed(self.definitions.items()):
            if symbol in used:
                used |= expression.free_symbols
                kept.append((symbol, expression))
        return kept[::-1]


def vector(values: Any, what: str = "a vector") -> Vector:
    """Three numbers or expressions as a vector; raises `ValueError` that says of `what`."""
    try:
        given = [] if isinstance(values, (str, Mapping, Set)) else list(values)
    except TypeError:
        given = []
    if len(given) != 3:
        raise ValueError(f"{what} must have three components, got {shown(values)}")
    return Vector(real_expression(value, what) for value in given)
