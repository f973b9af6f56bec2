"""Random states of a tree, in a prime field or in float64.

Sine and cosine of a coordinate are a point on the circle and independent of the coordinate;
functions that are no polynomials of both, as those of data, have random values of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.multibody.fields import (
    Array,
    Field,
    Residues,
    circle_point,
    fraction_of,
    rational_direction,
    rational_rotation,
)
from kinesym.symbolic.multibody.joints import unit
from kinesym.symbolic.multibody.links import Functional
from kinesym.symbolic.multibody.mechanism import Mechanism
from kinesym.symbolic.names import name_of
from kinesym.symbolic.table import NumericFunction

#: Cosine and sine.
Point = tuple[Array, Array]


@dataclass
class State:
    """Random states of a tree, n at once, in a field.

    symbols : values of parameters in the field. values : those of the parameters that rotations
    hold, as floats. simple : whether all rotations so far are of simple fractions.
    """

    tree: Mechanism
    numbers: Field
    n: int
    symbols: dict[str, Any]
    values: Mapping[str, float]
    simple: bool = True
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether numbers are residues."""
        return isinstance(self.numbers, Residues)

    def once(self, key: Any, count: int | None = None) -> Array:
        """Random numbers (n,) that belong to a key."""
        if key not in self.known:
            self.known[key] = self.numbers.random(self.n if count is None else count)
        found: Array = self.known[key]
        return found

    def symbol(self, name: str) -> Any:
        """The value of a parameter."""
        if name not in self.symbols:
            self.symbols[name] = self.numbers.random(1)[0]
        return self.symbols[name]

    def constant(self, e: sp.Expr, what: str) -> float:
        """An expression of parameters with values as a float."""
        unknown = sorted({name_of(s) for s in e.free_symbols} - self.values.keys())
        if unknown:
            raise ValueError(
                f"{self.tree.name}: {what} holds {unknown[0]}, which has no value; give values="
            )
        return float(e.subs({s: self.values[name_of(s)] for s in e.free_symbols}))

    def array(self, rows: Any) -> Array:
        """Rational numbers in an array with an axis for the states in front."""
        made = np.array(rows, dtype=object)
        flat = [self.numbers.number(x) for x in made.ravel()]
        return np.array(flat, dtype=np.int64 if self.exact else float).reshape(1, *made.shape)

    @property
    def zero(self) -> Array:
        """The vector zero (1, 3)."""
        return self.array([Fraction(0)] * 3)

    @property
    def identity(self) -> Array:
        """The matrix that changes nothing (1, 3, 3)."""
        return self.array([[Fraction(i == j) for j in range(3)] for i in range(3)])

    def times(self, a: Array, b: Array) -> Array:
        """a b, elements one by one."""
        return self.numbers.reduce(a * b)

    def apply(self, m: Array, v: Array) -> Array:
        """m v, of matrices (n, 3, 3) and columns (n, 3, ...)."""
        shape = (*m.shape, *(1,) * (v.ndim - 2))
        parts = self.times(m.reshape(shape), v[:, None])
        return self.numbers.reduce(parts.sum(axis=2))

    def back(self, m: Array, v: Array) -> Array:
        """The transposed m times v."""
        return self.apply(m.transpose(0, 2, 1), v)

    def cross(self, a: Array, b: Array) -> Array:
        """a x b, of vectors (n, 3) and columns (n, 3, ...)."""
        a = a.reshape(*a.shape, *(1,) * (b.ndim - 2))
        parts = (
            self.times(a[:, (k + 1) % 3], b[:, (k + 2) % 3])
            - self.times(a[:, (k + 2) % 3], b[:, (k + 1) % 3])
            for k in range(3)
        )
        return self.numbers.reduce(np.stack(list(parts), axis=1))

    # -- functions of coordinates -----------------------------------------------------------------

    def still(self, q: AppliedUndef) -> float | None:
        """The value of a coordinate that is locked, None of one that moves."""
        links = [link for link in self.tree.links if q in link.q]
        if all(name_of(u) in self.tree.locked for link in links for u in link.u):
            return float(self.values.get(name_of(q), 0.0))
        return None

    def coordinate(self, q: AppliedUndef) -> Array:
        """Values of a coordinate (n,)."""
        fixed = self.still(q)
        return self.once(q) if fixed is None else self.array([Fraction(repr(fixed))])[:, 0]

    def at(self, e: sp.Expr) -> Array:
        """An expression of coordinates and parameters, (n,) or (1,)."""
        if not self.exact:
            symbols = sorted(e.free_symbols | e.atoms(AppliedUndef), key=str)
            symbols = [s for s in symbols if str(s) != "t"]
            given = [
                self.coordinate(s) if isinstance(s, AppliedUndef) else self.symbol(name_of(s))
                for s in symbols
            ]
            return np.atleast_1d(np.asarray(NumericFunction(symbols, e)(*given), dtype=float))
        if e.is_Rational or e.is_Float:
            return self.array([fraction_of(e)])[:, 0]
        if isinstance(e, AppliedUndef):
            return self.coordinate(e)
        if e.is_Symbol:
            return np.array([self.symbol(name_of(e))])
        if e.is_Add:
            return self.numbers.reduce(np.add.reduce(np.broadcast_arrays(*map(self.at, e.args))))
        if e.is_Mul or (e.is_Pow and e.exp.is_Integer):
            base = e.args if e.is_Mul else [e.base] * abs(int(e.exp))
            found = np.ones(1, dtype=np.int64)
            for part in base:
                found = self.times(found, self.at(part))
            return self.numbers.inverse(found) if e.is_Pow and e.exp < 0 else found
        if isinstance(e, (sp.sin, sp.cos)):
            return self.circle(e.args[0])[int(isinstance(e, sp.sin))]
        return self.once(e, None if e.atoms(AppliedUndef) else 1)

    def circle(self, angle: sp.Expr) -> Point:
        """Cosine and sine of an angle, (n,) or (1,) each. Those of sums of multiples of coordinates
        are powers of one point per coordinate."""
        if not self.exact:
            value = self.at(angle)
            return np.cos(value), np.sin(value)
        coordinates = sorted(angle.atoms(AppliedUndef), key=str)
        slopes = [angle.diff(q) for q in coordinates]
        rest = sp.expand(angle.xreplace(dict.fromkeys(coordinates, sp.S.Zero)))
        if any(not s.is_number for s in slopes):
            return self.on_circle(angle)
        if {name_of(s) for s in rest.free_symbols} <= self.values.keys():
            found = self.fixed_circle(self.constant(rest, "an angle"))
        else:
            found = self.on_circle(rest, 1)
        for q, slope in zip(coordinates, slopes, strict=True):
            fixed, power = self.still(q), fraction_of(slope) * self.divisor(q)
            if fixed is not None:
                factor = self.fixed_circle(fixed * float(slope))
            elif power.denominator == 1:
                factor = self.power(self.on_circle(q), int(power))
            else:
                factor = self.on_circle(slope * q)
            found = self.turned(found, factor)
        return found

    def divisor(self, q: AppliedUndef) -> int:
        """The common denominator of the multiples of a coordinate that turn links."""
        angles = [
            angle
            for link in self.tree.links
            if isinstance(link.primitive, Functional)
            for _, angle in link.primitive.rotations
            if angle.has(q)
        ]
        slopes = [angle.diff(q) for angle in angles]
        return lcm(*(fraction_of(s).denominator for s in slopes if s.is_number))

    def on_circle(self, key: Any, count: int | None = None) -> Point:
        """A random point of the circle that belongs to a key."""
        half = self.once((key, "circle"), count)
        square = self.times(half, half)
        size = self.numbers.inverse(self.numbers.reduce(1 + square))
        return self.times(self.numbers.reduce(1 - square), size), self.times(2 * half, size)

    def fixed_circle(self, angle: float) -> Point:
        """Cosine and sine of a constant angle."""
        point, simple = circle_point(angle)
        self.simple &= simple
        cosine, sine = self.array(point).T
        return cosine, sine

    def turned(self, a: Point, b: Point) -> Point:
        """Cosine and sine of the sum of two angles."""
        return (
            self.numbers.reduce(self.times(a[0], b[0]) - self.times(a[1], b[1])),
            self.numbers.reduce(self.times(a[0], b[1]) + self.times(a[1], b[0])),
        )

    def power(self, a: Point, times: int) -> Point:
        """Cosine and sine of a multiple of an angle."""
        if times < 0:
            return self.power((a[0], self.numbers.reduce(-a[1])), -times)
        if times == 0:
            return self.fixed_circle(0.0)
        half = self.power(a, times // 2)
        whole = self.turned(half, half)
        return self.turned(whole, a) if times % 2 else whole

    # -- rotations --------------------------------------------------------------------------------

    def rotation(self, rows: Any) -> Array:
        """A constant rotation (1, 3, 3)."""
        floats = [[self.constant(e, "a rotation") for e in row] for row in rows]
        if not self.exact:
            return np.array([floats])
        found, simple = rational_rotation(floats)
        self.simple &= simple
        return self.array(found)

    def direction(self, axis: Any) -> Array:
        """A constant unit vector (1, 3)."""
        floats = [self.constant(e, "an axis") for e in axis]
        if not self.exact:
            return np.array([floats]) / np.linalg.norm(floats)
        found, simple = rational_direction(floats)
        self.simple &= simple
        return self.array(found)

    def about(self, axis: Array, point: Point) -> Array:
        """The rotation about a unit vector (1, 3) by an angle, (n, 3, 3)."""
        cosine, sine = (e[:, None, None] for e in point)
        x, y, z = axis[0]
        outer = self.numbers.reduce(np.multiply.outer(axis[0], axis[0]))[None]
        zero = 0 * x
        skew = np.array([[[zero, -z, y], [z, zero, -x], [-y, x, zero]]])
        eye = np.eye(3, dtype=axis.dtype)[None]
        rest = self.numbers.reduce(eye - outer)
        return self.numbers.reduce(
            outer + self.times(cosine, rest) + self.times(sine, self.numbers.reduce(skew))
        )

    def points(self, e: Sequence[sp.Expr]) -> Array:
        """A vector of expressions, (n, 3) or (1, 3)."""
        return np.stack(np.broadcast_arrays(*map(self.at, e)), axis=1)

    def bryant(self, sequence: str, q: Sequence[AppliedUndef]) -> Array:
        """Rotation by Bryant angles."""
        found = self.identity
        for axis, angle in zip(sequence, q, strict=True):
            found = self.apply(found, self.about(self.direction(unit(axis)), self.circle(angle)))
        return found
