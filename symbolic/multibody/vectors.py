"""Vectors in components, and names for intermediate results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, overload

import sympy as sp

from kinesym.base.checks import shown
from kinesym.symbolic.expression import real_expression

AXES = "xyz"
_ZERO, _ONE = sp.S.Zero, sp.S.One

# Most components are 0 or 1, which SymPy takes as long for as for others.


def plus(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """a + b"""
    if a is _ZERO:
        return b
    return a if b is _ZERO else a + b


def times(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """a b"""
    if a is _ZERO or b is _ZERO:
        return _ZERO
    if a is _ONE:
        return b
    return a if b is _ONE else a * b


def minus(a: sp.Expr, b: sp.Expr, c: sp.Expr, d: sp.Expr) -> sp.Expr:
    """a b - c d"""
    less = times(c, d)
    return times(a, b) if less is _ZERO else plus(times(a, b), -less)


class Vector(tuple[Any, Any, Any]):
    """Three expressions: a + b, a - b, -a, factor * a, the scalar product a @ b, and `cross`."""

    __slots__ = ()

    def __add__(self, other: Vector) -> Vector:  # type: ignore[override]
        return Vector(map(plus, self, other))

    def __sub__(self, other: Vector) -> Vector:
        return self + -other

    def __neg__(self) -> Vector:
        return Vector(-e for e in self)

    def __rmul__(self, factor: sp.Expr) -> Vector:
        return Vector(times(factor, e) for e in self)

    def __matmul__(self, other: Vector) -> sp.Expr:
        x, y, z = map(times, self, other)
        return plus(plus(x, y), z)

    def cross(self, other: Vector) -> Vector:
        """The vector product."""
        (a, b, c), (x, y, z) = self, other
        return Vector((minus(b, z, c, y), minus(c, x, a, z), minus(a, y, b, x)))

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


def is_negated(expression: sp.Expr) -> bool:
    """Whether it is a symbol, or another atom, with the other sign."""
    args = expression.args
    negated = expression.is_Mul and len(args) == 2 and args[0] is sp.S.NegativeOne
    return bool(negated and args[1].is_Atom)


class Steps:
    """A straight-line program: named expressions in the order in which they are computed.

    Names hold a dot, as in `w.shank.x`, so that they are never those of a user's symbols.
    """

    def __init__(self) -> None:
        self.definitions: dict[sp.Symbol, sp.Expr] = {}

    def copy(self) -> Steps:
        """Copy of the definitions so far, which can be extended by itself."""
        made = Steps()
        made.definitions.update(self.definitions)
        return made

    def scalar(self, name: str, expression: sp.Expr) -> sp.Expr:
        """A symbol for `expression`, or the expression itself if that costs nothing."""
        if not expression.args or is_negated(expression):
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
