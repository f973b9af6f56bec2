"""The reference itself: jets against numerical differentiation, and what it calls right."""

import random

import elementary
import mpmath
import pytest
import sympy as sp
from expressions import Expressions
from jets import DIGITS, OPEN, POLE, UNDEFINED, variable
from mpmath import mpf
from reference import accepts
from tree import Sides, Tree

mpmath.mp.dps = DIGITS
X, Y = SYMBOLS = sp.symbols("x y")
ONE_ARGUMENT = (
    "sin cos sec csc tan cot asin acos atan sinh cosh tanh coth sech csch asinh acosh "
    "atanh exp log erf erfc sinc"
).split()


def jet_of(e, *point, sides=None):
    known = {s: variable(v, k) for k, (s, v) in enumerate(zip(SYMBOLS, point, strict=False))}
    return Tree(known, sides or Sides())(e)


def assert_close(a, b):
    assert abs(a - b) < mpf("1e-14") * (1 + abs(b))


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_functions(name):
    """Two derivatives of every function, where digits cancel too."""
    function = getattr(elementary, name)
    other = getattr(mpmath, name)
    for text in ("0.3", "-0.7", "0.001", "1.7", "-2.5", "9"):
        x = mpf(text)
        found = function(x)
        if mpmath.isnan(found[0]):
            continue
        assert abs(found[0] - other(x)) < mpf(10) ** -50 * (1 + abs(found[0]))
        for order in (1, 2):
            assert_close(mpmath.diff(lambda s: function(s)[0], x, order), found[order])


def test_far_out():
    """Values that differences of others would lose."""
    assert_close(elementary.tanh(mpf(200))[1] * mpmath.exp(400), mpf(4))
    assert_close(elementary.sinc(mpf("1e-30"))[1] * mpf("1e30"), mpf(-1) / 3)
    series = sum((-1) ** k * mpmath.fac2(2 * k - 1) / mpf(1800) ** k for k in range(6))
    scale = mpmath.exp(900) * 30 * mpmath.sqrt(mpmath.pi)
    assert_close(elementary.erfc(mpf(30))[0] * scale, series)


@pytest.mark.parametrize("seed", range(40))
def test_expressions(seed):
    """Gradients and Hessians of smooth expressions of two variables."""
    rng = random.Random(seed)
    e = Expressions(rng, SYMBOLS)(2)
    point = [rng.uniform(0.3, 1.5) for _ in SYMBOLS]
    jet = jet_of(e, *point)
    largest = max([jet.size, *(d[1] for d in jet.slope.values())])
    if jet.lack or jet.error > 1e-10 or largest > 1e10 or e.has(sp.Mod, sp.floor, sp.ceiling):
        return
    for key in [(0,), (1,), (0, 0), (0, 1), (1, 1)]:
        found = jet.slope.get(key[0]) if len(key) == 1 else jet.bend.get(key)
        orders = (key.count(0), key.count(1))
        true = mpmath.diff(lambda x, y: jet_of(e, x, y).value, tuple(map(mpf, point)), orders)
        assert_close(found[0] if found else mpf(0), true)


@pytest.mark.parametrize(
    "e, point, lack",
    [
        (sp.log(X), (-1,), UNDEFINED),
        (sp.log(X), (0,), POLE),
        (1 / X, (0,), POLE),
        (sp.exp(X), (800,), POLE),
        (sp.atan(1 / X), (0,), OPEN),
        (sp.Max(X, sp.log(Y)), (1, -1), UNDEFINED),
        (sp.Piecewise((sp.log(X), X > 0), (1, True)), (-1,), ""),
        (X**Y, (-2, 0.5), UNDEFINED),
        (X**Y, (-2, 3), ""),
        (sp.log(X) ** Y, (-1, 0), OPEN),
        (sp.sqrt(X), (0,), ""),
    ],
)
def test_lacks(e, point, lack):
    """Values that do not exist, and why."""
    assert jet_of(e, *point).lack == lack


def test_errors():
    """Double arithmetic loses what the formula loses, and nothing where it is exact."""
    assert 1e-17 < jet_of(sp.cosh(X) - sp.sinh(X), 20).error / 1e8 < 1e-13
    assert jet_of(2 * X + 1, 0.5).error == 0.0
    assert jet_of(sp.floor(X / 3), 6).value == 2
    assert jet_of(sp.sin(X), 1e22).error < 1e-15
    assert jet_of(sp.sin(X * sp.pi), 1e22).lack == OPEN


@pytest.mark.parametrize("side, slope", [(-1, -1), (0, 0), (1, 1)])
def test_sides(side, slope):
    """A kink has the derivatives of both sides, and what lies between."""
    jet = jet_of(sp.Abs(X), 0, sides=Sides(side))
    assert (jet.value, jet.slope[0][0]) == (0, slope)


def test_accepts():
    """What counts as right."""
    exact = (mpf(2), 2.0, 1e-16)
    assert accepts(2.0 + 1e-10, [exact]) and not accepts(2.0 + 1e-8, [exact])
    assert not accepts(float("nan"), [exact]) and accepts(float("nan"), [UNDEFINED])
    assert not accepts(0.0, [UNDEFINED]) and accepts(0.0, [OPEN]) and accepts(float("inf"), [POLE])
    assert accepts(0.3, [(mpf(-1), 1.0, 0.0), (mpf(1), 1.0, 0.0)])
    assert accepts(0.0, [(mpf("1e-200"), 0.0, 0.0)])
