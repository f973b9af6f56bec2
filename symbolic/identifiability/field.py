"""Prime field with roots: numbers that stand for values of exponentials, roots, sines and cosines.

The residues with a square root are a group of odd order in which every rational power exists once,
as among positive numbers; the points of c^2 + s^2 = 1 are a group that angles add up in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count

import numpy as np
import sympy as sp

from kinesym.symbolic.prime_field import Residues, product, residue

#: Multiple of p + 1: there are points of the circle for multiples of pi / 120.
_ANGLES = 240
#: Primes below are no divisors of the order of the group of roots, so that such roots exist.
_ROOTS = math.prod(sp.primerange(3, 200))
#: The same for angles that are divided.
_PARTS = math.prod(sp.primerange(3, 50))

Point = tuple[int, int]


@dataclass(frozen=True)
class Field:
    """Integers modulo a prime p between 2^30 and 2^31, one of some 300,000."""

    p: int

    @classmethod
    def random(cls, generator: np.random.Generator) -> Field:
        """A field of a random prime."""
        while True:
            p = _ANGLES * int(generator.integers(2**30 // _ANGLES, 2**31 // _ANGLES)) - 1
            if math.gcd((p - 1) // 2, _ROOTS) == 1 and sp.isprime(p):
                return cls(p)

    def drawn(self, generator: np.random.Generator, *shape: int) -> Residues:
        """Random residues but zero."""
        return generator.integers(1, self.p, shape)

    def reduced(self, values: Residues) -> Residues:
        """Sums and products modulo p."""
        return values % self.p

    def number(self, value: Fraction) -> int:
        """A rational number modulo p."""
        return residue(value, self.p)

    def product(self, a: Residues, b: Residues) -> Residues:
        """Product of matrices modulo p."""
        return product(a, b, self.p)

    def inverses(self, values: Residues) -> Residues:
        """1 / value of each, zero for zero."""
        return self._each(values, lambda v: pow(v, -1, self.p) if v else 0)

    def positive(self, values: Residues) -> np.ndarray:
        """Whether each value is a square, and not zero."""
        half = (self.p - 1) // 2
        return self._each(values, lambda v: pow(v, half, self.p)) == 1

    def powers(self, values: Residues, exponent: Fraction) -> Residues:
        """Rational power of each value, which must be a square but for whole exponents."""
        if exponent.denominator == 1:
            e = int(exponent) % (self.p - 1)
        else:
            order = (self.p - 1) // 2
            e = exponent.numerator * pow(exponent.denominator, -1, order) % order
        return self._each(values, lambda v: pow(v, e, self.p))

    def _each(self, values: Residues, function) -> Residues:  # type: ignore[no-untyped-def]
        found: Iterable[int] = (function(v) for v in values.ravel().tolist())
        return np.fromiter(found, dtype=np.int64, count=values.size).reshape(values.shape)

    # -- the circle ----------------------------------------------------------------------------

    def turned(self, one: Point, other: Point) -> Point:
        """The point (c, s) of the sum of two angles."""
        (a, b), (c, d) = one, other
        return (a * c - b * d) % self.p, (a * d + b * c) % self.p

    def multiple(self, point: Point, factor: Fraction) -> Point:
        """The point of an angle times a rational factor."""
        order = self._parts
        times = factor.numerator * pow(factor.denominator, -1, order) % order
        return self._times(point, times)

    def _times(self, point: Point, times: int) -> Point:
        found = (1, 0)
        while times:
            if times & 1:
                found = self.turned(found, point)
            point, times = self.turned(point, point), times >> 1
        return found

    @cached_property
    def _parts(self) -> int:
        """Order of the group of points whose angles can be divided."""
        order = (self.p + 1) // (self.p + 1 & -(self.p + 1))
        while (common := math.gcd(order, _PARTS)) > 1:
            order //= common
        return order

    def on_circle(self, parameter: int) -> Point:
        """A point of a generic angle."""
        return self._times(self._rational(parameter), (self.p + 1) // self._parts)

    def part_of_pi(self, factor: Fraction) -> Point | None:
        """The point of a rational multiple of pi, None where there is none."""
        times = factor * _ANGLES / 2
        if times.denominator != 1:
            return None
        return self._times(self._root, int(times) % _ANGLES)

    @cached_property
    def _root(self) -> Point:
        """The point of the angle 2 pi / 240: of this order, the same each time."""
        for parameter in count(2):
            found = self._times(self._rational(parameter), (self.p + 1) // _ANGLES)
            if all(self._times(found, _ANGLES // q) != (1, 0) for q in (2, 3, 5)):
                break
        return found

    def _rational(self, parameter: int) -> Point:
        square = parameter * parameter % self.p
        below = pow(1 + square, -1, self.p)  # -1 is no square
        return (1 - square) * below % self.p, 2 * parameter * below % self.p
