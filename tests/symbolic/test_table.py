"""Tables against SciPy's interpolators, their derivatives, and what is said of bad input."""

import pickle
from functools import partial

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import (
    Akima1DInterpolator,
    CubicSpline,
    PchipInterpolator,
    RectBivariateSpline,
    RegularGridInterpolator,
    make_interp_spline,
)

import kinesym as ks
from kinesym.symbolic.table import tables_of

x, y = sp.symbols("x y", real=True)


def simm(p: np.ndarray, v: np.ndarray) -> CubicSpline:
    """The one of all cubic splines whose third derivatives at the ends are those of the cubics
    through four points."""

    def cubic(x: np.ndarray, y: np.ndarray) -> float:
        return 6.0 * sum(y[i] / np.prod(x[i] - np.delete(x, i)) for i in range(4))

    def spline(a: float, b: float) -> CubicSpline:
        return CubicSpline(p, v, bc_type=((2, a), (2, b)))

    def off(a: float, b: float) -> np.ndarray:
        third = spline(a, b)(p[[0, -1]], 3)
        return third - [cubic(p[:4], v[:4]), cubic(p[-4:], v[-4:])]

    start = off(0.0, 0.0)
    size = np.ptp(v) / np.diff(p).min() ** 2
    slopes = np.array([off(size, 0.0) - start, off(0.0, size) - start]).T / size
    return spline(*np.linalg.solve(slopes, -start))


SCIPY = {
    "cubic": CubicSpline,
    "simm": simm,
    "pchip": PchipInterpolator,
    "akima": Akima1DInterpolator,
    "natural": partial(CubicSpline, bc_type="natural"),
    "linear": lambda p, v: make_interp_spline(p, v, k=1),
}


def at(e: sp.Expr, *numbers: np.ndarray) -> np.ndarray:
    """The values of a table or its derivative at numbers."""
    return e.record(e.orders, *numbers)


def some_points(rng: np.random.Generator, n: int) -> np.ndarray:
    scale = 10.0 ** rng.uniform(-3.0, 3.0)
    return scale * (rng.uniform(-5.0, 5.0) + np.cumsum(rng.uniform(0.2, 2.0, n)))


@pytest.mark.parametrize("kind", SCIPY)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 40))
def test_values_and_derivatives_are_those_of_scipy(kind: str, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    points, values = some_points(rng, n), 10.0 ** rng.uniform(-3, 3) * rng.normal(size=n)
    e, other = ks.table(x, points, values, kind=kind), SCIPY[kind](points, values)
    at_random = rng.uniform(points[0], points[-1], 50)
    h = np.diff(points).min()
    for order in range(3 if kind != "linear" else 2):
        found = at(e.diff(x, order), at_random)
        size = np.abs(values).max() / h**order
        np.testing.assert_allclose(found, other(at_random, order), rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(at(e, points), values, rtol=0, atol=1e-14 * np.abs(values).max())


def test_quintic_splines_are_natural() -> None:
    """Four derivatives are continuous, the third and fourth 0 at the ends: that is the spline. It
    goes through a parabola exactly."""
    rng = np.random.default_rng(6)
    points, values = np.cumsum(rng.uniform(0.3, 1.5, 9)), rng.normal(size=9)
    e = ks.table(x, points, values, kind="quintic", outside="quadratic")
    slopes = [e.diff(x, order) for order in range(5)]
    for order, slope in enumerate(slopes):
        size, h = np.abs(at(slope, points)).max() + 1.0, 1e-9
        inner = points if order < 3 else points[1:-1]
        assert np.abs(at(slope, inner + h) - at(slope, inner - h)).max() < 1e-6 * size
    np.testing.assert_allclose(at(e, points), values, rtol=0, atol=1e-13)
    for order in (3, 4):
        np.testing.assert_allclose(at(slopes[order], points[[0, -1]]), 0.0, atol=1e-9)
    parabola = ks.table(x, points, 3.0 - points + 2.0 * points**2, "quintic", "quadratic")
    far = np.array([-3.0, 2.2, 20.0])
    np.testing.assert_allclose(at(parabola, far), 3.0 - far + 2.0 * far**2, rtol=1e-11)
    assert e.diff(x, 6) == 0


def test_quintic_splines_of_two_variables_and_of_expressions() -> None:
    rng = np.random.default_rng(7)
    a, b = np.cumsum(rng.uniform(0.5, 1.5, 6)), np.cumsum(rng.uniform(0.5, 1.5, 8))
    values = rng.normal(size=(6, 8))
    both = ks.table((x, y), (a, b), values, kind="quintic")
    p = np.linspace(b[0] - 1.0, b[-1] + 1.0, 30)
    for k, row in enumerate(values):
        along = ks.table(y, b, row, kind="quintic")
        np.testing.assert_allclose(at(both, np.full(30, a[k]), p), at(along, p), atol=1e-12)
    symbols = sp.symbols("v:8")
    known = dict(zip(symbols, values[0], strict=True))
    e = ks.table(y, b, symbols, kind="quintic").subs(known).subs(y, 2.5)
    found = float(at(ks.table(y, b, values[0], kind="quintic"), np.array(2.5)))
    assert float(e) == pytest.approx(found, rel=1e-12)


def test_steps_have_the_value_of_the_point_before() -> None:
    points, values = [0.0, 1.0, 3.0], [2.0, -1.0, 5.0]
    e = ks.table(x, points, values, kind="step")
    place = np.array([-1.0, 0.0, 0.5, 1.5, 2.9, 3.5])
    np.testing.assert_array_equal(at(e, place), [2.0, 2.0, 2.0, -1.0, -1.0, 5.0])
    assert e.diff(x) == 0
    model = ks.Model("m", [f := ks.dynamicsymbols("f")], [], [], [f.diff(ks.t) - e.subs(x, f)])
    assert ks.compile(model).rhs([[0.5, 2.0, 4.0]], [], [], [0.0] * 3).tolist() == [[2, -1, 5]]


@pytest.mark.parametrize("seed", range(3))
def test_two_variables_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = some_points(rng, 9), some_points(rng, 7)
    values = rng.normal(size=(9, 7))
    p, q = rng.uniform(a[0], a[-1], 40), rng.uniform(b[0], b[-1], 40)
    cubic = ks.table((x, y), (a, b), values)
    spline = RectBivariateSpline(a, b, values)
    for i, j in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0)):
        found, size = at(cubic.diff(x, i).diff(y, j), p, q), np.diff(a).min() ** -i
        tolerance = 1e-11 * size * np.diff(b).min() ** -j
        np.testing.assert_allclose(found, spline.ev(p, q, i, j), rtol=0, atol=tolerance)
    plain = ks.table((x, y), (a, b), values, kind="linear")
    grid = RegularGridInterpolator((a, b), values)
    np.testing.assert_allclose(at(plain, p, q), grid(np.stack([p, q], axis=1)), atol=1e-12)


@pytest.mark.parametrize("kind", ["pchip", "akima"])
def test_two_variables_on_the_lines_of_the_grid(kind: str) -> None:
    rng = np.random.default_rng(5)
    a, b = np.cumsum(rng.uniform(0.5, 1.5, 6)), np.cumsum(rng.uniform(0.5, 1.5, 8))
    values = rng.normal(size=(6, 8))
    e, p = ks.table((x, y), (a, b), values, kind=kind), np.linspace(b[0], b[-1], 30)
    for k, row in enumerate(values):
        along = at(e, np.full(30, a[k]), p)
        np.testing.assert_allclose(along, SCIPY[kind](b, row)(p), rtol=0, atol=1e-13)
    swapped = ks.table((y, x), (b, a), values.T, kind=kind)
    q = rng.uniform(a[0], a[-1], 30)
    np.testing.assert_allclose(at(e, q, p), at(swapped, p, q), rtol=0, atol=1e-13)


def test_outside_the_rule_holds() -> None:
    points, values = np.array([0.0, 1.0, 2.5, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 2.5, -1.0])
    outer, spline = np.array([-2.0, -0.5, 4.5, 7.0]), CubicSpline(points, values)
    ends = np.array([0.0, 0.0, 4.0, 4.0])
    tangent = spline(ends) + spline(ends, 1) * (outer - ends)
    for rule, expected in (
        ("linear", tangent),
        ("constant", spline(ends)),
        ("continue", spline(outer)),
        ("quadratic", tangent + spline(ends, 2) * (outer - ends) ** 2 / 2.0),
        ("nan", np.full(4, np.nan)),
    ):
        e = ks.table(x, points, values, outside=rule)
        np.testing.assert_allclose(at(e, outer), expected, rtol=1e-12)
        np.testing.assert_allclose(at(e, points), values, rtol=1e-14)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_derivatives_by_the_complex_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = some_points(rng, 6), some_points(rng, 5)
    e = ks.table((x, y), (a, b), rng.normal(size=(6, 5)))
    p, q = rng.uniform(a[0] - 1.0, a[-1] + 1.0, 20), rng.uniform(b[0], b[-1], 20)
    for slope, point in ((e.diff(x), (p + 1e-30j, q)), (e.diff(y), (p, q + 1e-30j))):
        step = at(e, *point).imag / 1e-30
        np.testing.assert_allclose(at(slope, p, q), step, rtol=1e-12, atol=1e-12 * abs(step).max())


@pytest.mark.parametrize("kind", SCIPY)
def test_values_that_are_expressions(kind: str) -> None:
    """Numbers in their places give the table of these numbers; so do derivatives by them."""
    rng = np.random.default_rng(8)
    points, symbols = np.cumsum(rng.uniform(0.5, 1.5, 7)), sp.symbols("v:7", real=True)
    values = rng.normal(size=7) + np.arange(7)
    e = ks.table(x, points, symbols, kind=kind)
    assert e.free_symbols == {x, *symbols}
    numbers = dict(zip(symbols, map(float, values), strict=True))
    for place in (points[0] - 0.3, points[2], 0.4 * points[3] + 0.6 * points[4], points[-1] + 0.1):
        plain = ks.table(x, points, values, kind=kind)
        exact = float(at(plain, np.array(place)))
        assert float(e.subs(x, place).subs(numbers)) == pytest.approx(exact, rel=1e-13)
        slope = float(e.diff(x).subs(x, place).subs(numbers))
        assert slope == pytest.approx(float(at(plain.diff(x), np.array(place))), rel=1e-12)
        above, below = (
            float(at(ks.table(x, points, values + h * np.eye(7)[3], kind=kind), np.array(place)))
            for h in (1e-6, -1e-6)
        )
        found = float(e.diff(symbols[3]).subs(x, place).subs(numbers))
        assert found == pytest.approx((above - below) / 2e-6, abs=1e-8)


def test_values_that_are_expressions_on_a_grid() -> None:
    rng = np.random.default_rng(1)
    a, b, values = np.arange(4.0), np.arange(5.0), rng.normal(size=(4, 5)).tolist()
    k = sp.Symbol("k")
    e = ks.table((x, y), (a, b), [[k if v == values[1][2] else v for v in row] for row in values])
    found = float(e.subs({x: 1.7, y: 2.2, k: values[1][2]}))
    plain = ks.table((x, y), (a, b), values)
    assert found == pytest.approx(float(at(plain, np.array(1.7), np.array(2.2))), rel=1e-13)


def test_it_is_an_expression_of_sympy() -> None:
    q = ks.dynamicsymbols("q")
    e = ks.table(q**2, [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 0.0, 2.0], name="curve")
    assert str(e) == "curve(q(t)**2)"
    assert e.diff(ks.t) == 2 * q * q.diff(ks.t) * e.func(*e.args[:-1], sp.Integer(1))
    assert str(e.diff(q, 2)).count("curve''") == 1
    assert e.diff(q).subs(q, 0.5) == 2 * 0.5 * ks.table(x, *ORIGINAL).diff(x).subs(x, 0.25)
    assert e.has(q) and not e.free_symbols - {ks.t}
    assert pickle.loads(pickle.dumps(e)) == e
    assert e.xreplace({q: x}) == ks.table(x**2, *ORIGINAL, name="curve")
    assert ks.table(x, *ORIGINAL).diff(x, 4) == 0
    assert float(ks.table(sp.Integer(3), *ORIGINAL)) == pytest.approx(2.0, rel=1e-15)
    assert ks.table(x, *ORIGINAL, name="other") != ks.table(x, *ORIGINAL)
    assert ks.table(x, *ORIGINAL, outside="constant") != ks.table(x, *ORIGINAL)


ORIGINAL = ([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 0.0, 2.0])


def test_equal_numbers_are_kept_once() -> None:
    e = ks.table(x, *ORIGINAL) + ks.table(y, *ORIGINAL, name="again").diff(y)
    both = tables_of([e, sp.sin(e)])
    assert len(both.values) == 11 + 5 * 4
    cardinal = tables_of([ks.table(x, ORIGINAL[0], sp.symbols("v:4"))])
    assert len(cardinal.values) == 11 + 4 * 5 * 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (([0, 1, 1, 2], [0, 1, 2, 3]), "do not increase: 1 at index 1 is followed by 1"),
        (([0, 1, np.nan, 2], [0, 1, 2, 3]), "the points: nan at index 2"),
        (([0, 1, 2, 3], [0, 1, np.inf, 3]), "the values: inf at index 2"),
        (([0, 1, 2], [0, 1, 2]), "needs 4 points or more in a row, got 3"),
        (([0, 1, 2, 3], [0, 1, 2]), "the values have the shape \\(3,\\), the points \\(4,\\)"),
        (([0, 1, 2, 3], "abcd"), "give one value for each point"),
        (("none", [0, 1, 2, 3]), "the points must be numbers"),
        (([0, 1e-310, 2e-310, 3e-310], [0, 1, 2, 3]), "beyond double precision; write points"),
    ],
)
def test_bad_numbers_are_named(given: tuple, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ks.table(x, *given)


@pytest.mark.parametrize(
    ("x_", "options", "words"),
    [
        ("x", {}, "text is not evaluated"),
        ((x, y), {}, "a pair of points, one of each"),
        ((x, y, x), {}, "x is an expression, or a pair of them"),
        (x, {"kind": "septic"}, "the kind"),
        (x, {"kind": "quintic"}, "needs 6 points or more in a row, got 4"),
        (x, {"outside": "zero"}, "what is outside"),
        (x, {"name": "a b"}, "the name of a table"),
    ],
)
def test_bad_arguments_are_named(x_: object, options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ks.table(x_, *ORIGINAL, **options)


def test_values_of_two_variables_that_are_no_sums() -> None:
    values = [[sp.Symbol("k"), 1.0, 2.0, 3.0]] * 4
    with pytest.raises(ValueError, match="need a kind that is one of cubic, simm"):
        ks.table((x, y), (range(4), range(4)), values, kind="pchip")
