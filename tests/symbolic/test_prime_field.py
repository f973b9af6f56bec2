"""Ranks, null spaces and rationals modulo a prime, against SymPy's exact ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesym.symbolic.prime_field import (
    inverse,
    null_space,
    random_prime,
    rank,
    rational,
    residue,
)

P = 2**31 - 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 6), st.integers(0, 10**6))
def test_rank_and_null_space_are_exact(m: int, n: int, r: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    left, right = generator.integers(-2, 3, (m, r)), generator.integers(-2, 3, (r, n))
    matrix = left @ right
    exact = sp.Matrix(matrix)
    basis = null_space(matrix, P)
    assert rank(matrix, P) == exact.rank()
    assert basis.shape == (n - exact.rank(), n)
    assert not np.any(matrix @ basis.T % P)
    for row in basis if max(m, n, r) <= 3 else ():  # minors of larger ones are no small numbers
        vector = sp.Matrix([sp.Rational(str(rational(int(value), P))) for value in row])
        assert exact * vector == sp.zeros(m, 1)


@given(st.integers(-30000, 30000), st.integers(1, 30000))
def test_rationals_come_back(numerator: int, denominator: int) -> None:
    number = Fraction(numerator, denominator)
    assert rational(residue(number, P), P) == number


def test_zero_and_large_terms_are_told() -> None:
    with pytest.raises(ZeroDivisionError, match="zero has no inverse"):
        inverse(2 * P, P)
    assert rational(residue(Fraction(10**6, 999999), P), P) != Fraction(10**6, 999999)


def test_primes_are_large_and_random() -> None:
    generator = np.random.default_rng(0)
    primes = [random_prime(generator) for _ in range(3)]
    assert len(set(primes)) == 3
    assert all(sp.isprime(p) and 2**30 < p < 2**31 for p in primes)
