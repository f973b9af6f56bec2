"""Special functions as SymPy writes them: values, derivatives against mpmath, refusals in words."""

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.special import gamma, psi
from sympy.codegen import cfunctions

import kinesym as ks
from kinesym.codegen.derive import jacobian
from kinesym.codegen.lower import UnsupportedExpression

x, y = sp.symbols("x y", real=True)
PLACES = [(0.01, 0.6), (1.0, 4.2), (2.0, 0.6), (9.99, 4.2), (10.01, 0.6), (25.3, 4.2)]
BELOW = [(-0.5, 1.0), (-7.7, 1.0), (0.49, 1.0), (0.51, 1.0)]
ORDERS = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
FUNCTIONS = {
    "gamma": (sp.gamma(x), [*PLACES, *BELOW, (170.0, 1.0)]),
    "loggamma": (sp.loggamma(x), PLACES),
    "digamma": (sp.polygamma(0, x), [*PLACES, *BELOW]),
    "trigamma": (sp.polygamma(1, x), [*PLACES, *BELOW]),
    "beta": (sp.beta(x, y), PLACES),
    "binomial": (sp.binomial(x, y), [(5.5, 2.2), (30.2, 20.0)]),
    "falling": (sp.ff(x, y), [(5.5, 2.2)]),
    "factorial": (sp.factorial(x), PLACES[:4]),
    "bessel": (sp.besselj(2, x * y) + sp.bessely(0, x) * y, PLACES[1:]),
    "opposite": (sp.besselj(-3, x) - sp.bessely(-1, y), PLACES[1:]),
    "small": (cfunctions.expm1(x * y) / cfunctions.log1p(y), [(1e-9, 0.6), (-0.4, 4.2)]),
    "lengths": (cfunctions.hypot(x, 2 * y) + cfunctions.Cbrt(x), PLACES),
    "density": (y**x * sp.exp(-y) / sp.gamma(x + 1), PLACES),
    "ratio": (sp.gamma(x) / sp.gamma(x + y), PLACES[:4]),
}


@pytest.mark.parametrize(("e", "places"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_values_and_derivatives(e, places, lowered, values_of):
    graph, symbols, (node,) = lowered([x, y], [e])
    first = jacobian(graph, [node], symbols)
    gradient = [first.get((0, j), graph.zero) for j in range(2)]
    second = jacobian(graph, gradient, symbols)
    wanted = [second.get(key, graph.zero) for key in ((0, 0), (0, 1), (1, 1))]
    found = values_of(graph, symbols, [node, *gradient, *wanted], np.array(places).T)
    function = sp.lambdify((x, y), e, [{"Cbrt": mpmath.cbrt}, "mpmath"])
    with mpmath.workdps(40):
        h = mpmath.mpf(10) ** -12
        for row, at in zip(found.T, places, strict=True):
            place = tuple(mpmath.mpf(value) for value in at)
            exact = [function(*place)]
            exact += [mpmath.diff(function, place, order, h=h) for order in ORDERS]
            np.testing.assert_allclose(row, [float(v) for v in exact], 1e-12, 2e-13)


@pytest.mark.parametrize(
    ("e", "values"),
    [
        (sp.binomial(x, 3), [1.0, 0.3125]),
        (sp.ff(x, 3) + sp.rf(x, 2), [6.0 + 12.0, 1.875 + 8.75]),
        (sp.KroneckerDelta(x, 3), [1.0, 0.0]),
        (cfunctions.log2(x) + cfunctions.log10(x), [np.log2(a) + np.log10(a) for a in (3.0, 2.5)]),
        (cfunctions.exp2(x) + cfunctions.fma(x, y, 1), [15.0, 2.0**2.5 + 6.0]),
        (sp.SingularityFunction(x, y, 2), [1.0, 0.25]),
        (sp.SingularityFunction(x, y, 0), [1.0, 1.0]),
        (sp.Piecewise((1, sp.Xor(x > 2.7, y > 1)), (0, True)), [0.0, 1.0]),
        (sp.Piecewise((1, sp.Implies(x < 2.7, y < 1)), (0, True)), [1.0, 0.0]),
        (sp.Piecewise((1, sp.Equivalent(x > 2.7, y > 1)), (0, True)), [1.0, 0.0]),
        (x * 0 + sp.EulerGamma + sp.Catalan + sp.GoldenRatio, [3.11121524782865] * 2),
        (
            sp.zeta(3) + sp.besselj(0, 1) + sp.gamma(sp.Rational(1, 3)) + 0 * x,
            [4.64619312442531] * 2,
        ),
        (1 / sp.gamma(x - 4), [0.0, 1.0 / gamma(-1.5)]),
    ],
)
def test_others(e, values, lowered, values_of):
    graph, symbols, (node,) = lowered([x, y], [e])
    found = values_of(graph, symbols, [node], [[3.0, 2.5], [2.0, 2.0]])[0]
    np.testing.assert_allclose(found, values, 1e-13, 1e-15)


REFUSED = (
    *(
        sp.besseli(0, x),
        sp.besselj(y, x),
        sp.bessely(2.5, x),
        sp.LambertW(x),
        sp.expint(1, x),
        sp.elliptic_k(x),
        sp.erfinv(x),
    ),
    *(sp.hyper((1, 2), (3,), x), sp.lowergamma(x, y), sp.DiracDelta(x), sp.polygamma(y, x)),
    *(sp.SingularityFunction(x, y, -1), sp.zeta(x), sp.harmonic(x)),
)


@pytest.mark.parametrize("e", REFUSED, ids=str)
def test_refused(e, lowered):
    """By their own name, not that of a part such as a tuple."""
    with pytest.raises(UnsupportedExpression) as caught:
        lowered([x, y], [2 + e * x])
    said = str(caught.value)
    assert said.startswith(f"term {e} ({type(e).__name__}) cannot be turned into C; ")
    assert said.endswith("write it with elementary functions, or as ks.table or ks.function")


def test_transit_compartments():
    """A drug through n compartments before it is absorbed (Savic et al. 2007, J. Pharmacokin.
    Pharmacodyn. 34, 711-726), and how that depends on n, which need not be whole."""
    A = ks.dynamicsymbols("A")
    n, k = sp.symbols("n k")
    rate = k * (k * ks.t) ** n * sp.exp(-k * ks.t) / sp.gamma(n + 1) - 0.3 * A
    model = ks.Model("transit", [A], [], [n, k], [A.diff(ks.t) - rate])
    time = np.linspace(1e-3, 10.0, 5)

    def exact(s, z):
        given = 2.0 * (2.0 * s) ** 3.5 * np.exp(-2.0 * s) / gamma(4.5)
        return [given - 0.3 * z[0], given * (np.log(2.0 * s) - psi(4.5)) - 0.3 * z[1]]

    right = solve_ivp(exact, (time[0], 10.0), [0.0, 0.0], rtol=1e-11, atol=1e-13).y[:, -1]
    how = {"rtol": 1e-10, "atol": 1e-12}
    found = ks.sensitivities(model, time, {A: 0.0}, {n: 3.5, k: 2.0}, **how).forward([n])
    assert found.run["A"][-1] == pytest.approx(right[0], abs=1e-9)
    assert found["A"][0, -1] == pytest.approx(right[1], abs=1e-8)
