"""Public reports of other projects about functions and their derivatives, written for kinesym.

The first words of each docstring name the report."""

import numpy as np
import pytest
import sympy as sp
from scipy.special import digamma, gamma

import kinesym as ks

z = ks.dynamicsymbols("z")
a, b = sp.symbols("a b")


def evaluated(expression, values):
    """Value, gradient of an output of parameters a and b."""
    model = ks.Model("value", [z], [], [a, b], [z.diff(ks.t)], outputs={"value": expression})
    compiled = ks.compile(model)
    value = float(np.ravel(compiled.outputs([0.0], [0.0], [], values))[0])
    slopes = compiled.jacobian([0.0], [0.0], [], values, of="outputs", wrt="parameters")
    return value, np.ravel(slopes)


@pytest.mark.parametrize(
    ("numerator", "denominator"),
    [(1.0, 0.1), (0.6, 0.2), (1e6, 0.1), (1e9, 0.1), (-4.0, 10.0), (4.0, -10.0), (0.7, 0.1)],
)
def test_modulo_stays_in_its_range(numerator, denominator):
    """numba/numba#8574: modulo next to multiples leaves [0, y)."""
    value, _ = evaluated(sp.Mod(a, b), [numerator, denominator])
    assert value == pytest.approx(np.mod(numerator, denominator), abs=1e-12)


def test_gamma_function():
    """sympy/sympy#17394: code for the gamma function; its derivative is that with digamma."""
    value, slopes = evaluated(sp.gamma(a + 1), [3.5, 0.0])
    assert value == pytest.approx(gamma(4.5), rel=1e-13)
    assert slopes[0] == pytest.approx(gamma(4.5) * digamma(4.5), rel=1e-12)


def test_case_not_chosen_by_max():
    """symforce-org/symforce#445: the derivative of sqrt(Max(0, a^2 - b^2)) is NaN where it is 0."""
    value, slopes = evaluated(sp.sqrt(sp.Max(0, a**2 - b**2)), [1.0, 2.0])
    assert value == 0 and not slopes.any()
    value, slopes = evaluated(sp.sqrt(sp.Max(0, a**2 - b**2)), [5.0, 3.0])
    np.testing.assert_allclose([value, *slopes], [4.0, 1.25, -0.75])


def test_case_that_is_not_defined():
    """HIPS/autograd#802: the gradient of a choice is NaN where the case not chosen is."""
    value, slopes = evaluated(sp.Piecewise((a, a >= 0), (sp.sqrt(-a), True)), [1.0, 0.0])
    assert (value, *slopes) == (1.0, 1.0, 0.0)


def test_second_derivative_of_a_case():
    """casadi/casadi#1878: NaN spreads from the case not chosen into second derivatives."""
    rate = sp.Piecewise((sp.sqrt(z), z > 0), (0, True))
    model = ks.Model("root", [z], [], [a], [z.diff(ks.t) + a * rate])
    trial = ks.Experiment(np.linspace(0, 1, 5), measurements={z: np.full(5, -3.0)})
    problem = ks.Collocation(model, trial, unknown={a: (0, 9)})
    point = problem.pack({a: 2.0, z: -3.0})
    hessian = problem.lagrangian_hessian(point, np.ones(problem.n_constraints), cost_factor=0.0)
    assert np.isfinite(problem.constraint_jacobian(point).toarray()).all()
    assert not hessian.toarray().any()


def test_absolute_value_at_zero():
    """HIPS/autograd#100: the derivative of the absolute value at zero is NaN."""
    value, slopes = evaluated(sp.Abs(a) * b, [0.0, 2.0])
    assert value == 0 and np.isfinite(slopes).all()


@pytest.mark.parametrize(("first", "second"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1.0, 2.0)])
def test_cases_of_an_integral(first, second):
    """sympy/sympy#19441: the integral of sin(a s) + cos(b s) divides by zero in other cases."""
    s = sp.Symbol("s", real=True)
    real = sp.symbols("a b", real=True)
    cases = (sp.sin(real[0] * s) + sp.cos(real[1] * s)).integrate((s, 0, 2 * sp.pi))
    expression = cases.subs(dict(zip(real, (a, b), strict=True)))
    points = np.linspace(0, 2 * np.pi, 20001)
    exact = np.trapezoid(np.sin(first * points) + np.cos(second * points), points)
    value, _ = evaluated(expression, [first, second])
    assert value == pytest.approx(exact, abs=1e-6)
