"""Derivatives on the graph against the complex step and against SymPy with 30 digits."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesym.codegen.derive import (
    compose_hessian,
    compose_jacobian,
    hessian,
    jacobian,
    pullback,
)
from kinesym.codegen.graph import Graph
from kinesym.codegen.operations import FUNCTIONS

ABC = a, b, c = sp.symbols("a b c", real=True)
TOLERANCE = 1e-10

# Expressions whose parts stay inside the domains of their functions and of moderate size.
BOUNDED = [
    sp.sin,
    sp.cos,
    sp.atan,
    sp.asinh,
    sp.tanh,
    sp.erf,
    sp.Abs,
    lambda e: sp.tan(sp.sin(e)),
    lambda e: sp.exp(sp.cos(e)),
    lambda e: sp.sinh(sp.sin(e)),
    lambda e: sp.cosh(sp.atan(e)),
    lambda e: sp.asin(sp.tanh(e) / 2),
    lambda e: sp.acos(sp.sin(e) / 2),
    lambda e: sp.atanh(sp.cos(e) / 2),
    lambda e: sp.acosh(2 + e**2),
    lambda e: sp.log(1 + e**2),
    lambda e: sp.sqrt(1 + e**2),
    lambda e: (1 + e**2) ** sp.Rational(-3, 2),
    lambda e: (2 + sp.sin(e)) ** sp.Rational(2, 3),
    lambda e: e**2,
    lambda e: sp.sin(e) ** 5,
    lambda e: 1 / (2 + sp.cos(e)),
    lambda e: -3 * e,
]
PAIRS = [
    lambda e, f: e + f,
    lambda e, f: e - f,
    lambda e, f: e * f,
    lambda e, f: e / (1 + f**2),
    lambda e, f: (1 + e**2) ** sp.sin(f),
    lambda e, f: sp.Max(e, f),
    lambda e, f: sp.Min(e, f),
    lambda e, f: sp.Piecewise((e, a < b), (f**2, True)),
    lambda e, f: sp.Piecewise((f, c > 0), (e, a * b > c), (e * f, True)),
]
LEAVES = st.sampled_from([*ABC, *ABC, sp.Rational(5, 4), sp.Integer(-2)])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda f, e: f(e), st.sampled_from(BOUNDED), inner),
        st.builds(lambda f, d, e: f(d, e), st.sampled_from(PAIRS), inner, inner),
    ),
    max_leaves=5,
)
#: Points with few binary digits: the same for both sides.
POINTS = st.lists(
    st.integers(-97, 97).map(lambda k: sp.Rational(2 * k + 1, 64)),
    min_size=3,
    max_size=3,
    unique_by=abs,
)
careful = settings(max_examples=60, deadline=None, derandomize=True)


def digits(expression, point):
    """The value of a SymPy expression with 30 digits, as a double."""
    return float(sp.S(expression).subs(dict(zip(ABC, point, strict=True))).evalf(30))


def assert_close(found, expected):
    """Relative to the largest entry, or to one."""
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE * scale)


def dense(entries, values, shape):
    matrix = np.zeros(shape)
    for (i, j), value in zip(entries, values, strict=True):
        matrix[i, j] = value
    return matrix


def column(point):
    return np.array([[float(value)] for value in point])


@careful
@given(st.lists(EXPRESSIONS, min_size=2, max_size=2), POINTS)
def test_jacobian_against_sympy(lowered, values_of, expressions, point):
    """First derivatives, forward and reverse, against SymPy's with 30 digits."""
    graph, x, f = lowered(ABC, expressions)
    entries = jacobian(graph, f, x)
    found = values_of(graph, x, list(entries.values()), column(point))[:, 0]
    expected = [[digits(e.diff(v), point) for v in ABC] for e in expressions]
    assert_close(dense(entries, found, (2, 3)), expected)
    gradient = pullback(graph, f, [graph.const(1.5), graph.const(-0.5)], x)
    found = values_of(graph, x, gradient, column(point))[:, 0]
    assert_close(found, np.array([1.5, -0.5]) @ np.array(expected))


@careful
@given(st.lists(EXPRESSIONS, min_size=2, max_size=2), POINTS)
def test_jacobian_against_complex_step(lowered, values_of, expressions, point):
    """First derivatives against the complex step of the values."""
    graph, x, f = lowered(ABC, expressions)
    entries = jacobian(graph, f, x)
    found = values_of(graph, x, list(entries.values()), column(point))[:, 0]
    points = column(point) + 1e-30j * np.eye(3)
    expected = np.imag(values_of(graph, x, f, points)) / 1e-30
    assert_close(dense(entries, found, (2, 3)), expected)


@careful
@given(st.lists(EXPRESSIONS, min_size=2, max_size=2), POINTS)
def test_hessian_against_sympy(lowered, values_of, expressions, point):
    """Second derivatives of a weighted sum against SymPy's with 30 digits; upper triangle only."""
    graph, x, f = lowered(ABC, expressions)
    gradient, entries = hessian(graph, f, [graph.const(1.5), graph.const(-0.5)], x)
    assert all(i <= j for i, j in entries)
    total = sp.Rational(3, 2) * expressions[0] - expressions[1] / 2
    slopes = [total.diff(v) for v in ABC]
    found = values_of(graph, x, gradient, column(point))[:, 0]
    assert_close(found, [digits(s, point) for s in slopes])
    expected = [
        [digits(slopes[i].diff(ABC[j]), point) if i <= j else 0.0 for j in range(3)]
        for i in range(3)
    ]
    found = values_of(graph, x, list(entries.values()), column(point))[:, 0]
    assert_close(dense(entries, found, (3, 3)), expected)


@careful
@given(EXPRESSIONS, POINTS)
def test_hessian_against_complex_step(lowered, values_of, expression, point):
    """Second derivatives against the complex step of the gradient."""
    graph, x, f = lowered(ABC, [expression])
    gradient, entries = hessian(graph, f, [graph.one], x)
    found = values_of(graph, x, list(entries.values()), column(point))[:, 0]
    points = column(point) + 1e-30j * np.eye(3)
    expected = np.triu(np.imag(values_of(graph, x, gradient, points)) / 1e-30)
    assert_close(dense(entries, found, (3, 3)), expected)


@careful
@given(EXPRESSIONS)
def test_no_entry_for_an_absent_symbol(lowered, expression):
    """Derivatives exist only with respect to symbols that SymPy sees in the expression."""
    graph, x, f = lowered(ABC, [expression])
    present = {j for j, v in enumerate(ABC) if expression.has(v)}
    assert {j for _, j in jacobian(graph, f, x)} <= present
    assert {k for ij in hessian(graph, f, [graph.one], x)[1] for k in ij} <= present


def test_atan2(lowered, values_of):
    """atan2 in the four quadrants: first and second derivatives against SymPy's."""
    graph, x, f = lowered([a, b], [sp.atan2(a, b)])
    entries = hessian(graph, f, [graph.one], x)[1]
    nodes = [*jacobian(graph, f, x).values(), *entries.values()]
    first = [sp.atan2(a, b).diff(v) for v in (a, b)]
    expected = [*first, first[0].diff(a), first[0].diff(b), first[1].diff(b)]
    for point in [(0.5, 0.75), (-0.5, 0.75), (0.5, -0.75), (-0.5, -0.75)]:
        values = [float(e.subs({a: point[0], b: point[1]})) for e in expected]
        assert_close(values_of(graph, x, nodes, column(point))[:, 0], values)


def test_interpreter_takes_complex_numbers(lowered, values_of):
    """Every function differentiates by the complex step in the interpreter, atan2 too."""
    graph, x, _ = lowered([a, b], [])
    outputs = [graph.function(name, x[0]) for name in sorted(FUNCTIONS - {"acosh"})]
    outputs += [graph.binary(name, *x) for name in ("pow", "atan2", "min", "max")]
    points = np.array([[0.375], [0.5]]) + 1e-30j * np.eye(2)
    derivatives = np.imag(values_of(graph, x, outputs, points)) / 1e-30
    entries = jacobian(graph, outputs, x)
    found = values_of(graph, x, list(entries.values()), [[0.375], [0.5]])[:, 0]
    assert_close(dense(entries, found, derivatives.shape), derivatives)


# -- exact sparsity -------------------------------------------------------------------------


def identically_zero(g, x, y, z):
    """Nodes whose derivative with respect to y is identically zero, by name."""
    w, v = g.add(x, y), g.mul(x, y)
    return {
        "(x + y) - y": g.sub(w, y),
        "y - (x + y)": g.sub(y, w),
        "x y - y x + z": g.add(g.sub(v, g.mul(y, x)), z),
        "(x - y) + (y - x)": g.add(g.sub(x, y), g.sub(y, x)),
        "0 sin(y) + x": g.add(g.mul(g.zero, g.function("sin", y)), x),
        "y^0": g.power(y, 0),
        "floor(y) x": g.mul(g.function("floor", y), x),
        "sign(y) x": g.mul(g.function("sign", y), x),
        "y < 0 ? x : z": g.select(g.binary("lt", y, g.zero), x, z),
        "(y <= 0) x": g.mul(g.binary("le", y, g.zero), x),
    }


def test_an_entry_that_is_zero_does_not_exist():
    """What cancels leaves no entry, neither in the Jacobian nor in the Hessian."""
    g = Graph()
    x, y, z = g.symbols("xyz")
    for name, node in identically_zero(g, x, y, z).items():
        assert jacobian(g, [node], [y]) == {}, name
        assert pullback(g, [node], [g.symbol("weight")], [y]) == [g.zero], name
        _, second = hessian(g, [g.mul(node, g.function("exp", x))], [g.one], [x, y, z])
        assert all(1 not in key for key in second), name


def test_linear_expressions_have_no_hessian(lowered):
    """Linear in a and b, bilinear in a and c: one second derivative."""
    g, x, f = lowered(ABC, [3 * a - 2 * b, a * c + b])
    assert hessian(g, f[:1], [g.one], x)[1] == {}
    assert hessian(g, f, [g.symbol("w0"), g.symbol("w1")], x)[1] == {(0, 2): g.symbol("w1")}


def test_order_of_entries(lowered):
    """Entries come row by row, columns ascending."""
    g, x, f = lowered(ABC, [c + a, b * c * a, sp.sin(b)])
    assert list(jacobian(g, f, x)) == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 1)]
    assert list(hessian(g, f, g.symbols("uvw"), x)[1]) == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_equal_outputs_share_their_weights(lowered):
    """The same output twice counts twice."""
    g, x, f = lowered(ABC, [a * b, a * b])
    weights = g.symbols(["w0", "w1"])
    assert pullback(g, f, weights, x)[0] == g.mul(g.add(*weights), x[1])


# -- kinks and the edges of domains ---------------------------------------------------------


def slopes(lowered, values_of, expression, at):
    """First derivative, forward and reverse, and second derivative with respect to a."""
    graph, x, f = lowered([a], [expression])
    gradient, second = hessian(graph, f, [graph.one], x)
    nodes = [jacobian(graph, f, x)[0, 0], *gradient, second[0, 0]]
    return values_of(graph, x, nodes, [[at]])[:, 0].tolist()


@pytest.mark.parametrize("branch", [sp.sqrt(a), a ** sp.Rational(3, 2), sp.log(a), a**1.3])
def test_an_untaken_branch_has_no_derivative(lowered, values_of, branch):
    """Derivatives of a branch that is not taken, NaN there, do not leak: -6 and 2 of a**2."""
    expression = sp.Piecewise((branch, a > 0), (a**2, True))
    assert slopes(lowered, values_of, expression, -3.0) == [-6.0, -6.0, 2.0]
    expected = [float(branch.diff(a, k).subs(a, 4)) for k in (1, 1, 2)]
    assert_close(slopes(lowered, values_of, expression, 4.0), expected)


@pytest.mark.parametrize("exponent", [sp.Rational(3, 2), sp.Rational(5, 2), sp.Rational(7, 3), 3])
def test_powers_above_one_are_flat_at_zero(lowered, values_of, exponent):
    """d/da a**n at a = 0 is 0 for n > 1 (SymPy: n a**(n - 1))."""
    assert slopes(lowered, values_of, a**exponent, 0.0)[:2] == [0.0, 0.0]


@pytest.mark.parametrize("exponent", [sp.Rational(3, 2), sp.Rational(7, 3), 2, 3])
def test_contact_force_without_contact(lowered, values_of, exponent):
    """Max(0, a)**n, the elastic force of a contact, has zero derivatives without contact."""
    assert slopes(lowered, values_of, sp.Max(0, a) ** exponent, -1.0) == [0.0, 0.0, 0.0]


# -- chain rule -----------------------------------------------------------------------------

V = sp.symbols("v:3", real=True)


@careful
@given(
    st.lists(EXPRESSIONS, min_size=3, max_size=3),
    st.lists(EXPRESSIONS, min_size=2, max_size=2),
    POINTS,
)
def test_composition(lowered, values_of, inner, outer, point):
    """Jacobian and Hessian of f(v(z)) by the chain rule against direct ones of the composition."""
    inner = [sp.sin(e) for e in inner]
    g, nodes, made = lowered(
        [*ABC, *V], [*inner, *(e.xreplace(dict(zip(ABC, V, strict=True))) for e in outer)]
    )
    z, v, v_of_z, f = nodes[:3], nodes[3:], made[:3], made[3:]
    weights = [g.const(1.5), g.const(-0.5)]
    first = jacobian(g, v_of_z, z)
    gradient, second = hessian(g, f, weights, v)
    curvature = [hessian(g, [e], [g.one], z)[1] for e in v_of_z]
    chained = [
        compose_jacobian(g, jacobian(g, f, v), first),
        compose_hessian(g, gradient, second, first, curvature),
    ]
    direct = g.substitute(f, dict(zip(v, v_of_z, strict=True)))
    expected = [jacobian(g, direct, z), hessian(g, direct, weights, z)[1]]
    for entries, reference, shape in zip(chained, expected, [(2, 3), (3, 3)], strict=True):
        exchanged = g.substitute(list(entries.values()), dict(zip(v, v_of_z, strict=True)))
        found = values_of(g, z, exchanged, column(point))[:, 0]
        wanted = values_of(g, z, list(reference.values()), column(point))[:, 0]
        assert_close(dense(entries, found, shape), dense(reference, wanted, shape))


def test_composition_keeps_sparsity(lowered):
    """An entry of the chain rule that cancels does not exist: f = v0 - v1 of v = (a + b, b)."""
    g, nodes, made = lowered([*ABC, *V], [a + b, b, c, V[0] - V[1]])
    z, v, v_of_z, f = nodes[:3], nodes[3:], made[:3], made[3:]
    entries = compose_jacobian(g, jacobian(g, f, v), jacobian(g, v_of_z, z))
    assert entries == {(0, 0): g.one}
    empty = [{}, {}, {}]
    assert compose_hessian(g, [g.one, g.neg(g.one), g.zero], {}, {}, empty) == {}
