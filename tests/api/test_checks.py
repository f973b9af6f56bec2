"""Numbers of calls, and what is said of those that are none."""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from kinesym.base import checks


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), 3.0, np.float32(3.0)])
def test_counts(value):
    found = checks.count(value, "substeps")
    assert found == 3 and type(found) is int


@pytest.mark.parametrize("value", [0, -1, 1.5, np.nan, np.inf, True, np.True_, "3", None, [3], 3j])
def test_no_counts(value):
    with pytest.raises(ValueError, match="substeps must be at least 1 and whole, got "):
        checks.count(value, "substeps")


def test_limits_of_counts():
    assert checks.count(0, "max_iterations", least=0) == 0
    with pytest.raises(ValueError, match="nodes must be at least 2 and whole, got 1"):
        checks.count(1, "nodes", least=2)
    with pytest.raises(ValueError, match="nodes must be at most 100, got 101"):
        checks.count(101, "nodes", most=100)


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), Fraction(1, 2), sp.Rational(1, 2)])
def test_positive_numbers(value):
    found = checks.positive(value, "tolerance")
    assert found == 0.5 and type(found) is float


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, True, "1", None, [1.0], 10**400, 1j])
def test_not_positive(value):
    with pytest.raises(ValueError, match="tolerance must be positive, got "):
        checks.positive(value, "tolerance")


def test_smaller_than_rounding():
    with pytest.raises(ValueError, match="rtol must be at least 1e-14, got 1e-300; rounding"):
        checks.positive(1e-300, "rtol", least=1e-14)


def test_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert checks.threads(None) == 5 and checks.threads(np.int32(2)) == 2
    for value in (0, -1, 1.5, "two"):
        with pytest.raises(ValueError, match="threads must be at least 1 and whole, got "):
            checks.threads(value)
    with pytest.raises(ValueError, match="threads must be at most 1024, got 1000000"):
        checks.threads(10**6)


@pytest.mark.parametrize(
    "value, text",
    [
        (np.float64(0.5), "0.5"),
        (np.str_("knee"), "'knee'"),
        (sp.Symbol("k") / 2, "k/2"),
        (sp.Matrix([1, 2]), "Matrix([ [1], [2]])"),
        (sp.sin, "the class sin"),
        (lambda: 0, "a function"),
        (10**30, "1.000e+30"),
        ([10**5000], "something of type list"),
        (object(), "an object of type object"),
        ("a" * 100, "'" + "a" * 76 + "..."),
    ],
)
def test_shown(value, text):
    assert checks.shown(value) == text


def test_options():
    assert checks.options(None) == {} and checks.options({"tol": 1}) == {"tol": 1}
    for value in (5, "tol", [("tol", 1)], {1: 2}):
        with pytest.raises(ValueError, match=r"options must be a mapping \{name: value\}, got "):
            checks.options(value)
