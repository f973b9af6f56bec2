"""Lowered SymPy expressions have the values that SymPy gives them with 30 digits."""

import numpy as np
import pytest
import sympy as sp
from sympy.physics import biomechanics as bm

from kinesym.codegen.graph import Graph
from kinesym.codegen.lower import Lowering, UnsupportedExpression

x, y, z = XYZ = sp.symbols("x y z", real=True)

#: Dyadic numbers: the same in double precision and as short fractions.
UNIT = [sp.Rational(k, 64) for k in (-61, -37, -5, 3, 29, 63)]
POSITIVE = [sp.Rational(k, 64) for k in (1, 13, 64, 171, 1500)]
ABOVE_ONE = [1 + value for value in POSITIVE]
ANY = [*UNIT, *POSITIVE, *(-value for value in POSITIVE), sp.S.Zero]

FUNCTIONS = [
    (sp.sin, ANY),
    (sp.cos, ANY),
    (sp.tan, ANY),
    (sp.asin, UNIT),
    (sp.acos, UNIT),
    (sp.atan, ANY),
    (sp.sinh, UNIT),
    (sp.cosh, UNIT),
    (sp.tanh, ANY),
    (sp.asinh, ANY),
    (sp.acosh, ABOVE_ONE),
    (sp.atanh, UNIT),
    (sp.exp, ANY),
    (sp.log, POSITIVE),
    (sp.sqrt, POSITIVE),
    (sp.Abs, ANY),
    (sp.sign, ANY),
    (sp.floor, ANY),
    (sp.erf, ANY),
    (sp.Heaviside, ANY),
    (lambda e: sp.Heaviside(e, 1), ANY),
    (lambda e: sp.log(e, 2), POSITIVE),
    # curves of muscles, which are short for formulas
    (bm.FiberForceLengthActiveDeGroote2016.with_defaults, POSITIVE[1:]),
    (bm.FiberForceLengthPassiveDeGroote2016.with_defaults, POSITIVE[:4]),
    (bm.FiberForceVelocityDeGroote2016.with_defaults, UNIT),
    (bm.TendonForceLengthDeGroote2016.with_defaults, POSITIVE[:4]),
]

POWERS = [
    *(x**n for n in (2, 3, 5, 7, 12, 65)),
    *(x**-n for n in (1, 2, 3)),
    *(x ** (sp.Rational(n, 2)) for n in (1, 3, 7, -1, -3)),
    x ** sp.Rational(1, 3),
    x ** sp.Rational(-2, 3),
    x**2.37,
    x**sp.pi,
    2**x,
    sp.pi**x,
    x**x,
    x**y,
    x ** (y - 2),
    (x + 1) ** (-y),
    (1 + x**2) ** (y / 2),
    sp.sqrt(2) * x,
    sp.cbrt(x),
]

TWO = [
    sp.atan2(x, y),
    sp.Min(x, y),
    sp.Max(x, y),
    sp.Min(x, y, x * y, 1),
    sp.Max(x, 2 * y, x - y),
    sp.Mod(x, y).rewrite(sp.floor),
    x / y,
    (x - y) * (y - x),
    x - 2 * y - 3,
    -x * y,
    -(x + y),
    sp.pi * x + sp.E * y + sp.GoldenRatio + sp.EulerGamma,
    sp.Rational(1, 3) * x,
    x * 0.1,
    sp.Piecewise((x, x < y), (y**2, True)),
    sp.Piecewise((1, x < -1), (x**2, x <= 0), (sp.sin(x), x > y), (y, x >= 0), (7, True)),
    sp.Piecewise((x, sp.Eq(x, y)), (2, sp.And(x > 0, y > 0)), (3, True)),
    sp.Piecewise((x, sp.Or(x < -1, y < -1)), (y, True)),
    sp.Piecewise((1, sp.Not(sp.And(x < 0, y < 0))), (2, True)),
    sp.Piecewise((sp.sqrt(x), x > 0), (sp.log(-x + 1), True)),
]


def digits(expression, point):
    """The value with 30 digits, as the nearest double."""
    return float(expression.subs(dict(zip(XYZ, point, strict=False))).doit().evalf(30))


def assert_agrees(lowered, values_of, expression, points):
    symbols = XYZ[: len(points[0])]
    graph, inputs, outputs = lowered(symbols, [expression])
    x = np.array(points, dtype=float).T
    expected = [digits(expression, point) for point in points]
    found = values_of(graph, inputs, outputs, x)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("function, domain", FUNCTIONS)
def test_functions(lowered, values_of, function, domain):
    """Every function of one argument on its domain."""
    assert_agrees(lowered, values_of, function(x), [(value,) for value in domain])


@pytest.mark.parametrize("expression", POWERS, ids=str)
def test_powers(lowered, values_of, expression):
    """Integer, half, negative, real and symbolic exponents."""
    points = [(a, b) for a in POSITIVE[1:4] for b in (-UNIT[0], UNIT[1], sp.Integer(2))]
    assert_agrees(lowered, values_of, expression, points)


@pytest.mark.parametrize("n", [-3, -2, 2, 3, 5])
def test_integer_powers_of_negative_numbers(lowered, values_of, n):
    """Integer powers need no positive base."""
    assert_agrees(lowered, values_of, x**n, [(a,) for a in UNIT])


@pytest.mark.parametrize("expression", TWO, ids=str)
def test_two_arguments(lowered, values_of, expression):
    """Arithmetic, atan2 in all quadrants, Min, Max, Piecewise with all relations."""
    some = [sp.Rational(k, 64) for k in (-150, -61, -5, 3, 29, 171)]
    assert_agrees(lowered, values_of, expression, [(a, b) for a in some for b in some])


@pytest.mark.parametrize(
    "expression",
    [
        sp.Piecewise((x, sp.Ne(x, y)), (2, True)),
        sp.Piecewise((x, sp.Piecewise((y, x < 0), (x * y, True)) < 1), (2, True)),  # makes an ITE
        sp.sinc(x).rewrite(sp.sin),  # makes an inequality
    ],
    ids=str,
)
def test_conditions_that_sympy_makes(lowered, values_of, expression):
    """Conditions into which SymPy itself turns relations: Ne, and ITE of nested Piecewise."""
    assert_agrees(lowered, values_of, expression, [(a, b) for a in ANY for b in UNIT])


def test_undefined_piecewise_is_nan(lowered, values_of):
    """Where no condition of a Piecewise holds, the value is NaN."""
    graph, inputs, outputs = lowered([x], [sp.Piecewise((1, x < 0), (2, x > 1))])
    found = values_of(graph, inputs, outputs, [[-1.0, 0.5, 2.0]])[0]
    np.testing.assert_array_equal(found, [1.0, np.nan, 2.0])


def test_an_untaken_branch_may_be_undefined(lowered, values_of):
    """sqrt of a negative number in the branch that is not taken does no harm."""
    graph, inputs, outputs = lowered([x], [sp.Piecewise((sp.sqrt(x), x > 0), (-1, True))])
    assert values_of(graph, inputs, outputs, [[-4.0, 4.0]])[0].tolist() == [-1.0, 2.0]


def test_numbers_and_truth_values(lowered):
    """Numbers, named constants and truth values are constants."""
    graph, _, nodes = lowered([], [sp.Integer(3), sp.Rational(1, 4), sp.pi, sp.true, sp.false])
    assert [graph.value[node] for node in nodes] == [3.0, 0.25, np.pi, 1.0, 0.0]


def test_intermediates():
    """`define` makes later expressions use the node of an earlier one."""
    graph = Graph()
    lower = Lowering(graph, {x: graph.symbol("x")})
    lower.define([(y, sp.sin(x)), (z, y**2 + y)])
    assert lower(z) == lower(sp.sin(x) ** 2 + sp.sin(x))
    assert lower(y) == graph.function("sin", graph.symbol("x"))


def test_deep_expressions(lowered, values_of):
    """Nesting far beyond Python's recursion limit."""
    expression = x
    for _ in range(5000):
        expression = sp.sin(expression, evaluate=False)
    graph, inputs, outputs = lowered([x], [expression])
    reference = np.array([0.5])
    for _ in range(5000):
        reference = np.sin(reference)
    np.testing.assert_allclose(values_of(graph, inputs, outputs, [[0.5]])[0], reference, 1e-13)


@pytest.mark.parametrize(
    "expression, words",
    [
        (sp.besseli(0, x) + 1, r"term besseli\(0, x\) \(besseli\)"),
        (x + y, r"symbol y \(Symbol\)"),
        (sp.Function("f")(x), r"symbol f\(x\) \(f\)"),
        (sp.I * x, r"term I \(ImaginaryUnit\)"),
        (sp.Derivative(sp.Function("f")(x), x), r"symbol Derivative\(f\(x\), x\) \(Derivative\)"),
    ],
)
def test_unsupported_objects(expression, words):
    """What has no counterpart is named, with its kind and the remedy."""
    graph = Graph()
    lower = Lowering(graph, {x: graph.symbol("x")})
    own = "write it with elementary functions, or as ks.table or ks.function"
    remedy = own if words.startswith("term") else "declare it"
    with pytest.raises(UnsupportedExpression, match=f"^{words} cannot be turned into C; {remedy}$"):
        lower(expression)
