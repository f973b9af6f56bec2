"""Every scheme: consistent weights, its order of convergence, closed forms."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.symbolic.schemes import IMPLICIT as SCHEMES
from kinesym.symbolic.schemes.scheme import NodeScheme, StageScheme

x, v = ks.dynamicsymbols("x v")
k = sp.Symbol("k")
t = ks.t


def end_value(scheme, nodes, time=None):
    """x(2) of a driven pendulum, states by collocation with known start (nothing to optimise)."""
    model = ks.Model("d", [x, v], [], [], [x.diff(t) - v, v.diff(t) + sp.sin(x) - sp.cos(3 * t)])
    grid = np.linspace(0.0, 2.0, nodes) if time is None else time
    task = ks.Collocation(
        model,
        ks.Experiment(grid),
        scheme=scheme,
        objective=ks.Terminal(x**2),
        boundary=[ks.at_start(x) - 1, ks.at_start(v)],
    )
    solution = task.solve()
    assert solution.success
    return solution["x"][-1]


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_order_of_convergence(scheme):
    reference = end_value("midpoint", 6001)
    errors = [abs(end_value(scheme.name, n) - reference) for n in (41, 81, 161)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders, scheme.order, atol=0.15)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_quadrature(scheme):
    """The integral of t^2 over [0, 1] converges to 1/3 with the order of the scheme."""
    model = ks.Model("q", [x], [], [k], [x.diff(t) - k])
    errors = []
    for n in (11, 21):
        task = ks.Collocation(
            model,
            ks.Experiment(np.linspace(0, 1, n)),
            unknown={k: None},
            scheme=scheme.name,
            objective=ks.Integral(t**2 + x**2),
        )
        errors.append(abs(task.cost(np.zeros(task.n_variables)) - 1.0 / 3.0))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(scheme.order, abs=0.2)


@pytest.mark.parametrize(
    ("scheme", "factor"),
    [
        ("midpoint", lambda z: (1 - z / 2) / (1 + z / 2)),
        ("trapezoid", lambda z: (1 - z / 2) / (1 + z / 2)),
        ("backward-euler", lambda z: 1 / (1 + z)),
    ],
)
def test_linear_decay_on_a_nonuniform_grid(scheme, factor):
    """x' = -k x: the amplification of each interval is known in closed form."""
    model = ks.Model("l", [x], [], [k], [x.diff(t) + k * x], values={k: 3.0})
    time = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.3, size=30))
    task = ks.Collocation(
        model,
        ks.Experiment(time),
        scheme=scheme,
        objective=ks.Terminal(x**2),
        boundary=[ks.at_start(x) - 1],
    )
    expected = np.concatenate([[1.0], np.cumprod(factor(3.0 * np.diff(time)))])
    np.testing.assert_allclose(task.solve()["x"], expected, rtol=1e-12)


@pytest.mark.parametrize("field", ["derivative", "state", "quadrature"])
def test_inconsistent_weights_are_refused(field):
    good = {"derivative": (-1.0, 1.0), "state": (0.5, 0.5), "quadrature": (0.5, 0.5)}
    with pytest.raises(ValueError, match=f"{field} weights must sum"):
        StageScheme("bad", time=0.5, order=2, reference="", **{**good, field: (0.3, 0.3)})


def test_inconsistent_rates_are_refused():
    with pytest.raises(ValueError, match="rates weights must sum"):
        NodeScheme("bad", quadrature=(0.5, 0.5), order=2, reference="", rates=(0.5, 0.4))


def test_trapezoid_needs_explicit_rates():
    model = ks.Model("a", [x, v], [], [k], [x.diff(t) - v, v - k * x])
    with pytest.raises(ValueError, match="trapezoid needs explicit derivatives: state v has no"):
        ks.Collocation(
            model,
            ks.Experiment(np.linspace(0, 1, 5)),
            unknown={k: None},
            scheme="trapezoid",
            objective=ks.Terminal(x**2),
        )
