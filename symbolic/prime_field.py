"""Arithmetic modulo a prime: ranks and null spaces that no rounding blurs, exact rationals back.

A matrix of rational functions, at a random point modulo a random prime, has its generic rank but
with a probability of at most (degree of a minor) / p that it has less (Schwartz 1980, Zippel
1979), and never more. Products of two residues fit into int64, as p < 2^31.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import sympy as sp
from numpy.typing import NDArray

Residues = NDArray[np.int64]


def random_prime(generator: np.random.Generator) -> int:
    """A random prime p between 2^30 and 2^31."""
    return int(sp.nextprime(int(generator.integers(2**30, 2**31 - 2**10))))


def inverse(value: int, p: int) -> int:
    """1 / value modulo p. Raises ZeroDivisionError for zero."""
    if not value % p:
        raise ZeroDivisionError(f"zero has no inverse modulo {p}")
    return pow(int(value), -1, p)


def residue(number: Fraction | int, p: int) -> int:
    """A rational number modulo p. Raises ZeroDivisionError where p divides the denominator."""
    number = Fraction(number)
    return number.numerator * inverse(number.denominator, p) % p


def rational(value: int, p: int) -> Fraction | None:
    """The rational of smallest terms that is value modulo p: numerator and denominator up to
    sqrt(p / 2), where it is the only one; None if there is none (Wang 1981)."""
    limit = math.isqrt(p // 2)
    before, now, factor_before, factor = p, value % p, 0, 1
    while now > limit:
        quotient = before // now
        before, now = now, before - quotient * now
        factor_before, factor = factor, factor_before - quotient * factor
    if not factor or abs(factor) > limit or math.gcd(now, abs(factor)) != 1:
        return None
    return Fraction(now, factor)


def echelon(matrix: Residues, p: int) -> tuple[Residues, tuple[int, ...]]:
    """Reduced row echelon form (rank, n) of a matrix (m, n) modulo p, and its pivot columns."""
    rows = np.array(matrix, dtype=np.int64) % p
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        rank = len(pivots)
        (below,) = np.nonzero(rows[rank:, column])
        if not len(below):
            continue
        rows[[rank, rank + below[0]]] = rows[[rank + below[0], rank]]
        rows[rank] = rows[rank] * inverse(int(rows[rank, column]), p) % p
        others = rows[:, column].copy()
        others[rank] = 0
        (changed,) = np.nonzero(others)
        rows[changed] = (rows[changed] - others[changed, None] * rows[rank] % p) % p
        pivots.append(column)
    return rows[: len(pivots)], tuple(pivots)


def rank(matrix: Residues, p: int) -> int:
    """Rank of a matrix (m, n) modulo p."""
    return len(echelon(matrix, p)[1])


def null_space(matrix: Residues, p: int) -> Residues:
    """Basis (n - rank, n) of {x: matrix x = 0} modulo p; each row is 1 at one column that is no
    pivot and 0 at the others of these."""
    reduced, pivots = echelon(matrix, p)
    free = np.setdiff1d(np.arange(matrix.shape[1]), pivots)
    basis = np.zeros((len(free), matrix.shape[1]), dtype=np.int64)
    basis[np.arange(len(free)), free] = 1
    basis[:, list(pivots)] = -reduced[:, free].T % p
    return basis


def product(a: Residues, b: Residues, p: int) -> Residues:
    """Product of matrices of residues (..., l, m) and (..., m, n) modulo p."""
    high, low = a >> 16, a & 0xFFFF  # sums of up to 2^15 products with these fit into int64
    return ((high @ b % p << 16) + low @ b) % p
