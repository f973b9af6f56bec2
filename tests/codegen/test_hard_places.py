"""Values and derivatives where a careless formula loses them: near removable singularities, far out
on tails, with denominators whose reciprocal overflows. All against mpmath with 60 digits."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.codegen.derive import jacobian, pullback, with_kinks, with_smooth_kinks

x, y, p = sp.symbols("x y p", real=True)

SMOOTH = sp.log(sp.exp(-50 * x) + sp.exp(-50 * y)) / 50  # a smooth minimum, with a sign
TINY = sp.exp(-50 * x) * sp.sin(y) / (sp.exp(-50 * x) + sp.exp(-60 * x))

#: Those whose rounding errors are not relative to the result.
ABSOLUTE = {"softplus": 1e-15, "tiny over tiny": 1e-12, "tiny quotient": 1e-15}

#: Expression, places (x, y).
CASES = {
    "sinc": (sp.sinc(x), [(0.0, 0), (1e-200, 0), (1e-8, 0), (0.999, 0), (1.001, 0), (7.0, 0)]),
    "sinc of a product": (sp.sinc(x * y), [(1e-5, 2.0), (0.3, -2.5)]),
    "tanh": (sp.tanh(x), [(0.1, 0), (9.0, 0), (20.0, 0), (-25.0, 0)]),
    "erfc": (sp.erfc(x), [(6.0, 0), (-3.0, 0), (20.0, 0)]),
    "log of erfc": (sp.log(sp.erfc(x)), [(6.0, 0)]),
    "smooth minimum": (SMOOTH, [(7.2, 7.21), (14.2, 14.19), (14.2, 3.0), (1e3, 1e3 + 0.01)]),
    "softplus": (sp.log(1 + sp.exp(x)), [(-40.0, 0), (0.3, 0), (800.0, 0)]),
    "weighted exponentials": (sp.log(2 * sp.exp(x) + 3 * sp.exp(y) + 1), [(700.0, 710.0)]),
    "a large number and an exponential": (sp.log(7.2e13 + sp.exp(100 * x)), [(0.005, 0)]),
    "power of an exponential": (sp.Pow(sp.exp(y), -x, evaluate=False), [(0.6, -300.0)]),
    "tiny over tiny": (TINY, [(6.9, 0.4), (12.0, 0.4)]),
    "tiny quotient": (x * sp.exp(-y) / sp.exp(-y - x), [(0.3, 500.0)]),
    "power of a difference": ((x - y) / (x - y) ** 3, [(1.0, 1.0 - 1e-9)]),
    "sech": (sp.sech(x) * sp.csch(y), [(0.3, 0.7), (-20.0, 5.0), (0.0, -1.2), (300.0, -0.4)]),
    "far tanh": (sp.tanh(4 * x) + sp.coth(y), [(200.0, 0.4), (-1e4, -30.0)]),
    "near zero": (sp.asin(x) + sp.atanh(y), [(1e-12, 1e-9), (-0.4999, 0.5001)]),
    "large": (sp.asinh(x) + sp.acosh(y), [(1e100, 1e100), (-1e160, 3.0), (0.0, 1.5)]),
    "asin": (sp.asin(x), [(1 - 1e-12, 0), (-0.3, 0)]),
    "atanh": (sp.atanh(x), [(1 - 1e-13, 0)]),
    "acosh": (sp.acosh(x), [(1 + 1e-13, 0)]),
    "sigmoid": (1 / (1 + sp.exp(-x)), [(-300.0, 0), (40.0, 0), (0.2, 0)]),
}
PLACES = [(name, e, at) for name, (e, places) in CASES.items() for at in places]


def exact(e, at):
    """Value, gradient and second derivatives of the expression."""
    with mpmath.workdps(400):
        place = [mpmath.mpf(float(v)) for v in at]

        def value(*orders):
            derivative = e.diff(x, orders[0], y, orders[1]) if any(orders) else e
            if derivative.has(sp.sinc) or e.has(sp.sinc):
                function = sp.lambdify((x, y), e, ["mpmath", {"sinc": lambda a: mpmath.sinc(a)}])
                return mpmath.diff(function, tuple(place), orders, h=mpmath.mpf(10) ** -90)
            return sp.lambdify((x, y), derivative, "mpmath")(*place)

        return [float(value(i, j)) for i, j in ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))]


@pytest.mark.parametrize(("name", "e", "at"), PLACES)
def test_interpreted(name, e, at, lowered, values_of):
    graph, symbols, (node,) = lowered([x, y], [e])
    first = jacobian(graph, [node], symbols)
    gradient = [first.get((0, j), graph.zero) for j in range(2)]
    second = jacobian(graph, gradient, symbols)
    wanted = [second.get(key, graph.zero) for key in ((0, 0), (0, 1), (1, 1))]
    found = values_of(graph, symbols, [node, *gradient, *wanted], np.array([at], dtype=float).T)
    np.testing.assert_allclose(found[:, 0], exact(e, at), 2e-9, ABSOLUTE.get(name, 1e-305))


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    """The same by the Hessian of the cost of a collocation problem."""
    e, places = CASES[name]
    a, b = ks.dynamicsymbols("a b")
    model = ks.Model("m", [a, b], [], [], [a.diff(ks.t) - b, b.diff(ks.t) + a])
    cost = ks.Terminal(e.subs({x: a, y: b}))
    trial = ks.Experiment([0.0, 1.0], measurements={a: [0.0, 0.0]})
    problem = ks.Collocation(model, trial, objective=cost, scheme="midpoint")
    for at in places:
        z = np.array([0.0, at[0], 0.0, at[1]])
        H = problem.lagrangian_hessian(z, np.zeros(problem.n_constraints)).toarray()
        found = [problem.cost(z), *problem.cost_gradient(z)[[1, 3]], H[1, 1], H[1, 3], H[3, 3]]
        np.testing.assert_allclose(found, exact(e, at), 2e-9, ABSOLUTE.get(name, 1e-305))


@pytest.mark.parametrize("kind", [sp.Min, sp.Max])
def test_nan_stays_nan(kind, lowered, values_of):
    a = sp.Symbol("a")
    for e in (kind(0, sp.log(a)), kind(sp.log(a), a), kind(a, sp.log(a), 2)):
        graph, symbols, (node,) = lowered([a], [e])
        assert np.isnan(values_of(graph, symbols, [node], [[-1.0]])[0, 0])


def test_nan_stays_nan_compiled():
    a = ks.dynamicsymbols("a")
    outputs = {"low": sp.Min(0, sp.log(a)), "high": sp.Max(a, sp.log(a)), "fine": sp.Min(a, 2)}
    f = ks.compile(ks.Model("m", [a], [], [], [a.diff(ks.t) + a], outputs=outputs))
    found = f.outputs([0.0], [-1.0], [], [], 0.0)
    assert np.isnan(found[:2]).all() and found[2] == -1.0


GUARDED = sp.Piecewise((sp.log(1 + sp.exp(y / x)), x > 0), (3 * x + y**2, True))
ROOT = x ** sp.Rational(2, 3)
SHARED = sp.Piecewise((ROOT / 3, y < 0), (ROOT, y < 1), (3, True))


@pytest.mark.parametrize(
    ("e", "at", "first", "second"),
    [
        (GUARDED, (0.0, 1.0), (3, 2), (0, 0, 2)),
        (sp.sqrt(sp.Max(0, x, y, x * y - 3)) + x * y, (-1.0, -2.0), (-2, -1), (0, 1, 0)),
        (sp.Max(0, sp.Min(x, y), 2 * x) ** sp.Rational(1, 3), (-1.0, 2.0), (0, 0), (0, 0, 0)),
        (sp.Heaviside(y, 1) ** 3 * x**2, (-2.0, 3.0), (-4, 0), (2, 0, 0)),
        (SHARED, (-1e-4, 2.0), (0, 0), (0, 0, 0)),
        (SHARED.replace(sp.Pow, lambda a, _: sp.log(a)), (0.0, 2.0), (0, 0), (0, 0, 0)),
    ],
)
def test_what_is_not_chosen_does_not_count(e, at, first, second, lowered, values_of):
    """Not finite where it is not chosen, and used more than once there."""
    graph, symbols, (node,) = lowered([x, y], [e])
    forward = jacobian(graph, [node], symbols)
    gradient = pullback(graph, [node], [graph.one], symbols)
    H = jacobian(graph, gradient, symbols)
    nodes = [*(forward.get((0, j), graph.zero) for j in range(2)), *gradient]
    nodes += [H.get(key, graph.zero) for key in ((0, 0), (0, 1), (1, 1))]
    found = values_of(graph, symbols, nodes, np.array([at]).T)
    np.testing.assert_array_equal(found[:, 0], [*first, *first, *second])


WEIGHTS = sp.symbols("a b")
#: Not finite at y = -1, where no case with it is chosen: by x, and by two users with a weight each.
UNDEFINED = {
    "sqrt": sp.sqrt(y),
    "asin": sp.asin(y - 3),
    "log": 3 * p * sp.log(y) ** 2,
    "power": (p * y) ** sp.Rational(1, 3) / p,
    "quotient": p / (y + 1),
    "small quotient": sp.exp(-p) / (y + 1) ** 13,
    "of a case": sp.sqrt(sp.Piecewise((y, x > 7), (y**3, True))),
}


@pytest.mark.parametrize("undefined", UNDEFINED.values(), ids=UNDEFINED)
def test_what_no_user_chooses_does_not_count(undefined, lowered, values_of):
    """The sum of what the users weigh it with is zero, which is not multiplied."""
    users = [sp.Piecewise((undefined, x > 5), (p + y, True))]
    users += [sp.Piecewise((2 * undefined, x > 6), (p * y**2, True))]
    wrt = [x, y, p]
    graph, symbols, nodes = lowered([*wrt, *WEIGHTS], users)
    gradient = pullback(graph, nodes, symbols[3:], symbols[:3])
    H = jacobian(graph, gradient, symbols[:3])
    second = [H.get((i, j), graph.zero) for i in range(3) for j in range(3)]
    forward = jacobian(graph, [graph.add(*nodes)], symbols[:3])
    first = [forward.get((0, j), graph.zero) for j in range(3)]
    a, b = WEIGHTS
    for at in ([1.0, -1.0, 2.0, 0.7, -0.4], [5.5, 3.2, 2.0, 0.7, -0.4], [9.0, 3.2, 2.0, 0.7, -0.4]):
        place = dict(zip((*wrt, a, b), at, strict=True))
        chosen = [user.subs(x, at[0]) for user in users]
        total = a * chosen[0] + b * chosen[1]
        right = [total.diff(v) for v in wrt] + [total.diff(v, w) for v in wrt for w in wrt]
        right += [sum(chosen).diff(v) for v in wrt]
        found = values_of(graph, symbols, [*gradient, *second, *first], np.array([at]).T)[:, 0]
        exact = [float(sp.N(e.subs(place))) for e in right]
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("at_zero", [0, 1, sp.Rational(1, 3)])
def test_steps_times_what_does_not_change(at_zero, lowered, values_of):
    """A step has no value at NaN: that does not spread to where it has one."""
    (a, b), z = WEIGHTS, sp.Symbol("z")
    users = [y * p * sp.Heaviside(at, at_zero) for at in (x, z)]
    graph, symbols, nodes = lowered([y, p, x, z, a, b], users)
    gradient = pullback(graph, nodes, symbols[4:], symbols[:2])
    H = jacobian(graph, gradient, symbols[:2])
    places = [[2.0] * 3, [3.0] * 3, [-1, 0, 1], [1, 1, -1], [1] * 3, [5] * 3]
    found = values_of(graph, symbols, [*gradient, H[0, 1]], places)
    weights = np.array([5.0, 5.0 + float(at_zero), 1.0])
    np.testing.assert_allclose(found, [3 * weights, 2 * weights, weights])


def test_distances_of_zero(lowered, values_of):
    """Slopes of Newton's method only: those of results stay as they are."""
    a, b = sp.symbols("a b")
    far = sp.sqrt(3 * (a - b) ** 2 + a**4)
    cases = [far, a + sp.sqrt(far**2 + b**2), sp.sqrt(a), sp.sqrt(a * b), sp.sqrt(sp.Abs(a))]
    graph, symbols, nodes = lowered([a, b], cases)
    shown = with_kinks(graph, nodes)
    assert shown[2:] == nodes[2:]
    first = jacobian(graph, shown[:2], symbols)
    at = [[0.0, 0.5], [0.0, 0.25]]
    slopes = values_of(graph, symbols, [first[k] for k in sorted(first)], at)
    np.testing.assert_array_equal(slopes[:, 0], [0.0, 0.0, 1.0, 0.0])
    exact = [e.diff(s).subs({a: 0.5, b: 0.25}) for e in cases[:2] for s in (a, b)]
    np.testing.assert_allclose(slopes[:, 1], [float(e) for e in exact], rtol=1e-14)


def test_mixed_derivative_of_a_power_with_exponent_zero(lowered, values_of):
    graph, symbols, (node,) = lowered([x, p], [x**p])
    first = jacobian(graph, [node], symbols)
    second = jacobian(graph, [first[0, 0]], symbols)
    found = values_of(graph, symbols, [second[0, 0], second[0, 1]], [[0.5, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(found, [[0.0, 0.0], [2.0, -np.inf]])  # 1/x; 1 + log(0)


def test_power_by_its_exponent_at_zero(lowered, values_of):
    graph, symbols, (node,) = lowered([x, p], [x**p])
    first = jacobian(graph, [node], symbols)
    found = values_of(graph, symbols, [first[0, 1]], [[0.0, 2.0], [1.5, 1.5]])
    np.testing.assert_allclose(found[0], [0.0, 2**1.5 * np.log(2)], rtol=1e-14)


@pytest.mark.parametrize("divisor", [49, 3, sp.Symbol("y")])
def test_remainders_of_multiples(divisor, lowered, values_of):
    """x/y is a true quotient: 49 * (1/49) is less than 1."""
    graph, symbols, (node,) = lowered([x, sp.Symbol("y")], [sp.Mod(x, divisor)])
    number = 49.0 if isinstance(divisor, sp.Symbol) else float(divisor)
    multiples = np.arange(1, 8) * number
    found = values_of(graph, symbols, [node], [multiples, np.full(7, 49.0)])[0]
    np.testing.assert_allclose(found, np.fmod(multiples, number), atol=1e-15)


REMAINDERS = [(1.0, 0.1), (0.6, 0.2), (1e6, 0.1), (1e9, 0.1), (-4.0, 10.0), (4.0, -10.0)]


def remainders():
    """Pairs next to multiples, of all signs, the last quotients beyond 2^53."""
    rng = np.random.default_rng(5)
    y = rng.choice([-1, 1], 400) * rng.uniform(0.01, 3.0, 400)
    x = np.rint(rng.uniform(-1e3, 1e3, 400)) * y
    x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])
    pairs = np.array([*REMAINDERS, (1e18, 0.7), (-1e300, 3.0), (0.0, 2.0), (2.0, 1e-300)]).T
    return np.concatenate([pairs, np.array([x, np.tile(y, 3)])], axis=1)


def test_remainders_are_exact(lowered, values_of):
    """As of NumPy, to the last bit: from 0 to the divisor, and so are their slopes."""
    graph, symbols, (node,) = lowered([x, y], [sp.Mod(x, y)])
    slopes = jacobian(graph, [node], symbols)
    wanted = [node, slopes[0, 0], slopes[0, 1]]
    pairs = remainders()
    found, one, times = values_of(graph, symbols, wanted, pairs)
    np.testing.assert_array_equal(found, np.mod(*pairs))
    assert (found / pairs[1] >= 0.0).all() and (np.abs(found) <= np.abs(pairs[1])).all()
    assert (one == 1.0).all()
    some = np.abs(pairs[0] / pairs[1]) < 1e15
    whole = -np.rint((pairs[0] - found) / pairs[1])
    np.testing.assert_array_equal(times[some], whole[some])


def test_remainders_are_exact_compiled():
    z, (a, b) = ks.dynamicsymbols("z"), sp.symbols("a b")
    model = ks.Model("mod", [z], [], [a, b], [z.diff(ks.t)], outputs={"mod": sp.Mod(a, b + z)})
    f = ks.compile(model)
    pairs = remainders()
    found = [f.outputs([0.0], [0.0], [], pair)[0] for pair in pairs.T[:40]]
    np.testing.assert_array_equal(np.ravel(found), np.mod(*pairs[:, :40]))


def test_profile_over_a_cycle():
    """A table of the share of a period, which nothing is outside of."""
    z = ks.dynamicsymbols("z")
    points = np.linspace(0.0, 1.0, 11)
    for period in (0.1, 0.3, 0.7):
        share = sp.Mod(ks.t, period) / period
        wave = ks.table(share, points, points**2, outside="nan", kind="linear")
        model = ks.Model("cycle", [z], [], [], [z.diff(ks.t) - wave])
        run = ks.simulate(model, np.linspace(0.0, 30 * period, 301), {z: 0.0}, substeps=2)
        assert not run.message and len(run.time) == 301
        assert run["z"][-1] == pytest.approx(30 * period * 0.335, rel=5e-2)  # jumps within steps


def test_remainder_of_nothing(lowered, values_of):
    """Undefined, also where the divisor is a case that is 0."""
    y = sp.Symbol("y")
    remainders = [sp.Mod(x, y), sp.Mod(x, sp.Heaviside(y))]
    graph, symbols, nodes = lowered([x, y], remainders)
    found = values_of(graph, symbols, nodes, [[2.5, 2.5], [0.0, -1.0]])
    np.testing.assert_array_equal(np.isnan(found), [[True, False], [False, True]])


@pytest.mark.study
def test_many_cases(lowered, values_of):
    """They are no matter of recursion, and derivatives grow with their number, not its square."""
    cases = sp.Piecewise(*[(k * x**2, x < k) for k in range(1, 1500)], (0, True))
    graph, symbols, (node,) = lowered([x], [-cases])
    (first,) = jacobian(graph, [node], symbols).values()
    (second,) = jacobian(graph, [first], symbols).values()
    found = values_of(graph, symbols, [node, first, second], [[2.5, 1e4]])
    np.testing.assert_allclose(found, [[-3 * 6.25, 0], [-15, 0], [-6, 0]])
    assert len(graph) < 40 * 1500


def test_many_intermediates():
    """One of the other, they are no matter of recursion."""
    a = ks.dynamicsymbols("a")
    symbols = sp.symbols("c:1200")
    chain = [(symbols[0], a + 1)]
    chain += [(s, before + 1) for before, s in pairwise(symbols)]
    model = ks.Model("m", [a], [], [], [a.diff(ks.t) + symbols[-1]], intermediates=chain)
    trial = ks.Experiment([0.0, 1.0], measurements={a: [0.0, 0.0]})
    problem = ks.Collocation(model, trial, scheme="midpoint")
    assert problem.constraints(np.array([2.5, 2.7])) == pytest.approx([0.2 + 2.6 + 1200], rel=1e-14)


def test_distances_that_vanish_in_products(lowered, values_of):
    """Products with what vanishes there, too, have a slope of 0; other kinks stay as they are."""
    a, b, c = sp.symbols("a b c")
    far = sp.sqrt((a - c) ** 2 + 4 * b**2)
    graph, symbols, nodes = lowered([a, b, c], [3 * far * (a - c) * c, -far * b, a * far])
    assert with_smooth_kinks(graph, nodes) == nodes  # a * far has a kink
    assert with_smooth_kinks(graph, [graph.add(nodes[0], nodes[2])])[0] == graph.add(*nodes[::2])
    shown = with_smooth_kinks(graph, nodes[:2])
    first = jacobian(graph, shown, symbols)
    slopes = values_of(graph, symbols, list(first.values()), [[1.0], [0.0], [1.0]])
    np.testing.assert_array_equal(slopes, 0.0)
