"""Numbers that random states of trees are made of, residues or float64, and rotations that are
exact in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinesym.symbolic.prime_field import inverse, residue

Array = NDArray[Any]
#: Largest distance of a number of a rotation (of a quaternion whose largest component is 1) from a
#: simple fraction that stands for it, as digits of files and rounding do not hit it.
NEAR = 1e-10
#: Largest denominator of such a fraction.
SIMPLE = 1000


class Field(Protocol):
    """Numbers that states are made of, in arrays."""

    def reduce(self, x: Array) -> Array:
        """The same numbers, small enough to be multiplied."""

    def inverse(self, x: Array) -> Array:
        """1 / x"""

    def number(self, x: Fraction) -> Any:
        """A rational number."""

    def random(self, *shape: int) -> Array:
        """Random numbers."""


@dataclass(frozen=True)
class Residues:
    """Numbers modulo a prime."""

    p: int
    generator: np.random.Generator

    def reduce(self, x: Array) -> Array:
        """x modulo p."""
        return x % self.p

    def inverse(self, x: Array) -> Array:
        """1 / x"""
        return np.array([inverse(int(value), self.p) for value in x.ravel()]).reshape(x.shape)

    def number(self, x: Fraction) -> int:
        """A rational number modulo p."""
        return residue(x, self.p)

    def random(self, *shape: int) -> Array:
        """Random residues."""
        return self.generator.integers(1, self.p, shape)


@dataclass(frozen=True)
class Reals:
    """Numbers in float64."""

    generator: np.random.Generator

    def reduce(self, x: Array) -> Array:
        """x itself."""
        return x

    def inverse(self, x: Array) -> Array:
        """1 / x"""
        return 1.0 / x

    def number(self, x: Fraction) -> float:
        """A rational number."""
        return float(x)

    def random(self, *shape: int) -> Array:
        """Numbers between -2 and 2."""
        return self.generator.uniform(-2.0, 2.0, shape)


# -- rational numbers at floats --------------------------------------------------------------------


def fraction_of(number: Any) -> Fraction:
    """A number of an expression as a fraction: of floats, that of their shortest decimals."""
    if number.is_Rational:
        return Fraction(int(number.p), int(number.q))
    return Fraction(repr(float(number)))


def snapped(x: float) -> Fraction:
    """The simple fraction near a number, else the number itself."""
    simple = Fraction(x).limit_denominator(SIMPLE)
    return simple if abs(float(simple) - x) <= NEAR else Fraction(x)


def rational_rotation(rows: Any) -> tuple[list[list[Fraction]], bool]:
    """The rotation of rational numbers at a rotation matrix of floats (3, 3), exactly orthogonal,
    and whether it is one of simple fractions."""
    m = np.asarray(rows, dtype=float)
    skew = (m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1])
    squares = np.zeros((4, 4))  # 4 x the outer product of the quaternion (w, x, y, z) with itself
    squares[0, 0] = 1.0 + np.trace(m)
    squares[0, 1:] = squares[1:, 0] = skew
    squares[1:, 1:] = m + m.T + (1.0 - np.trace(m)) * np.eye(3)
    k = int(np.argmax(np.diag(squares)))
    w, x, y, z = parts = [snapped(float(e)) for e in squares[k] / squares[k, k]]
    size = w * w + x * x + y * y + z * z
    turn = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return [[e / size for e in row] for row in turn], all(e.denominator <= SIMPLE for e in parts)


def rational_direction(direction: Sequence[float]) -> tuple[list[Fraction], bool]:
    """The rational unit vector at a direction (3,), by stereographic projection from its smallest
    component, and whether it is one of simple fractions."""
    d = np.asarray(direction, dtype=float)
    d = d / np.linalg.norm(d)
    k = int(np.argmax(np.abs(d)))
    sign = 1 if d[k] > 0.0 else -1
    i, j = (n for n in range(3) if n != k)
    a, b = (snapped(float(d[n] / (1.0 + abs(d[k])))) for n in (i, j))
    size = 1 + a * a + b * b
    found = [Fraction(0)] * 3
    found[i], found[j], found[k] = 2 * a / size, 2 * b / size, sign * (2 - size) / size
    return found, a.denominator <= SIMPLE and b.denominator <= SIMPLE


def circle_point(angle: float) -> tuple[list[Fraction], bool]:
    """Cosine and sine of a constant angle as rational numbers, and whether they are simple."""
    turn, simple = rational_rotation(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    return [turn[0][0], turn[1][0]], simple
