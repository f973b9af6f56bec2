"""Compiled derivatives of every scheme against an independent discretisation, see `discretised`."""

import numpy as np
import pytest
import sympy as sp
from discretised import Discretised, assert_derivatives
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym import models

SCHEMES = [
    *("radau-1", "radau-3", "radau-5"),
    *("gauss-2", "gauss-4", "gauss-6"),
    *("lobatto-2", "lobatto-4", "lobatto-6"),
]
SOME = ["radau-3", "gauss-4", "lobatto-4"]


def random_trial(N, known, measured, held=(), cubic=(), free=False, missing=True):
    """A trial of random numbers on an uneven grid; the last known input is linear between times of
    its own, if it is not held or cubic."""
    rng = np.random.default_rng(N)
    samples = {name: rng.normal(size=N) for name in measured}
    for row in samples.values():
        row[1::3] = np.nan if missing else 0.5
    when = (
        {"nodes": N, "duration": (0.5, 3.0)}
        if free
        else {"time": np.cumsum(rng.uniform(0.05, 0.5, N))}
    )
    grid = np.linspace(0.0, 1.0, N) if free else when["time"]
    own = np.union1d(grid[[0, -1]], rng.uniform(grid[0], grid[-1], 3))
    inputs = {}
    for k, name in enumerate(known, start=1):
        how = "held" if name in held else "cubic" if name in cubic else "linear"
        times = own if k == len(known) and how == "linear" else grid
        inputs[name] = ks.Signal(times, rng.normal(size=len(times)), how)
    return ks.Experiment(
        **when, inputs=inputs, measurements=samples, std=dict.fromkeys(measured, 0.8)
    )


# -- the models of the library --------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "N", "scheme"),
    [
        *((models.pendulum(), 4, scheme) for scheme in SCHEMES),
        (models.cip(), 3, "gauss-4"),
        (models.standing(), 2, "radau-3"),
        *((models.n_link_pendulum_on_cart(1), 3, scheme) for scheme in SCHEMES),
        (models.n_link_pendulum_on_cart(2), 2, "lobatto-4"),
        (models.n_link_pendulum_on_cart(3), 2, "gauss-2"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_models(model, N, scheme):
    """Every model with all parameters unknown, least squares of states and outputs."""
    trial = random_trial(N, model.input_names, (*model.state_names, *model.outputs))
    unknown = dict.fromkeys(model.parameter_names)
    problem = ks.Collocation(model, trial, unknown=unknown, scheme=scheme)
    assert_derivatives(problem, Discretised(model, trial, scheme, unknown))


@pytest.mark.parametrize(
    ("way", "scheme"),
    [
        *(("free", scheme) for scheme in SCHEMES),
        *(("fixed", scheme) for scheme in SOME),
        *zip(["held, free", "measured", "linear, free"], SOME, strict=True),
    ],
)
def test_optimal_control(scheme, way):
    """An unknown input with integral, terminal cost and conditions: with values at stages, held, or
    linear between nodes, as it is where it is measured; the duration fixed or free."""
    held, linear, free = ("held" in way), ("linear" in way), ("free" in way)
    measured = ["q_1", "F"] if way == "measured" or linear else ["q_1"]
    model = models.n_link_pendulum_on_cart(1)
    q0, q1, u0, u1 = model.states
    (F,) = model.inputs
    m0 = model.parameters[0]
    last = u1 if held else F  # at the end of what is held there is a condition more
    integrand, terminal = F**2 * sp.exp(-ks.t) + m0 * sp.sin(q1), u0**2 * q1 * last + ks.t**3
    path = [u0 * F - q1**2, sp.cos(q1) * ks.t, u0 + F**2]
    trial = random_trial(3, (), measured, free=free)
    problem = ks.Collocation(
        model,
        trial,
        unknown={"m_0": None, "l_1": None},
        scheme=scheme,
        objective=ks.LeastSquares() + ks.Integral(integrand) + ks.Terminal(terminal),
        path=path,
        boundary=[
            ks.at_start(q0 * u1 + q1**3) - m0 * ks.at_end(sp.sin(q1) * last),
            ks.at_start(F * q0),
        ],
        unknown_inputs={"F": ks.held() if held else ks.linear() if linear else None},
    )
    boundary = [
        lambda start, end: start(q0 * u1 + q1**3) - start(m0) * end(sp.sin(q1) * last),
        lambda start, end: start(F * q0),
    ]
    reference = Discretised(
        model,
        trial,
        scheme,
        ["m_0", "l_1"],
        ["F"],
        integrand,
        terminal,
        path,
        boundary,
        ["F"] if held else [],
    )
    assert_derivatives(problem, reference)


@pytest.mark.parametrize(
    ("free", "scheme"),
    [*((True, scheme) for scheme in SCHEMES), (False, "lobatto-4")],
)
def test_costs_with_derivatives(scheme, free):
    """Integral, path condition and measured output with x'; known inputs that are linear, also
    between times of their own, and cubic."""
    plant = models.standing_plant()
    th_a, _, w_a, w_h = plant.states
    model = plant.substitute({}, outputs={"reaction": w_a.diff(ks.t) * th_a + plant.inputs[0]})
    integrand = (w_h.diff(ks.t) - plant.inputs[1]) ** 2 * plant.parameters[0] + ks.t * w_a
    path = [w_h.diff(ks.t) * th_a, plant.inputs[0] * w_a]
    measured = ["reaction", "omega_a"]
    trial = random_trial(3, ["a", "T_a", "T_h"], measured, (), ["T_a"], free, not free)
    problem = ks.Collocation(
        model,
        trial,
        unknown={"l_L": None, "I_T": None},
        scheme=scheme,
        objective=ks.LeastSquares() + ks.Integral(integrand),
        path=path,
    )
    reference = Discretised(model, trial, scheme, ["l_L", "I_T"], (), integrand, path=path)
    assert_derivatives(problem, reference)


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("scheme", [name for name in SCHEMES if "lobatto" not in name])
def test_algebraic_states(scheme, free):
    """Algebraic states and inputs, one of them held, in everything, also behind intermediates."""
    x, y, z, u, v, f = ks.dynamicsymbols("x y z u v f")
    k, w = sp.symbols("k w")
    model = ks.Model(
        "algebraic",
        [x, y, z],
        [u, v, f],
        [k],
        [x.diff(ks.t) + k * w + v, sp.sin(y) * z + x**2 - u * f, z**3 + z - y * x.diff(ks.t)],
        outputs={"sum": w + x, "speed": x.diff(ks.t) * v, "root": sp.sqrt(x)},
        intermediates=[(w, y**2 * sp.exp(-x) + u)],
    )
    integrand, terminal, path = w**2 * ks.t + v**2, y * x + u * ks.t, [w * x, x * v, z - u, x]
    boundary = [ks.at_start(y * x + v) - k * ks.at_end(z), ks.at_end(u) * ks.at_start(u + w)]
    trial = random_trial(3, ["f"], ["x", "y", "v", "sum", "speed", "root"], (), ["f"], free)
    problem = ks.Collocation(
        model,
        trial,
        unknown={k: None},
        scheme=scheme,
        objective=ks.LeastSquares() + ks.Integral(integrand) + ks.Terminal(terminal),
        path=path,
        boundary=boundary,
        unknown_inputs={u: None, v: ks.held()},
    )
    ends = [
        lambda start, end: start(y * x + v) - start(k) * end(z),
        lambda start, end: end(u) * start(u + w),
    ]
    reference = Discretised(
        model, trial, scheme, ["k"], ["u", "v"], integrand, terminal, path, ends, ["v"]
    )
    assert_derivatives(problem, reference)


# -- random models --------------------------------------------------------------------------

BOUNDED = [
    sp.sin,
    sp.cos,
    sp.tanh,
    sp.atan,
    sp.asinh,
    lambda e: sp.exp(sp.sin(e)),
    lambda e: sp.log(1 + e**2),
    lambda e: sp.sqrt(2 + e**2),
    lambda e: 1 / (2 + sp.cos(e)),
    lambda e: (2 + sp.sin(e)) ** sp.Rational(-5, 3),
    lambda e: e**2,
    lambda e: -2 * e,
    lambda e: sp.tan(sp.sin(e) / 2),
    lambda e: sp.acos(sp.cos(e) / 2),
    lambda e: sp.sinh(e / 3),
]
PAIRS = [
    lambda e, f: e + f,
    lambda e, f: e - f,
    lambda e, f: e * f,
    lambda e, f: e / (1 + f**2),
    lambda e, f: (1 + e**2) ** sp.sin(f),
    lambda e, f: sp.Piecewise((e, True), (f, False)),
]


def expressions(leaves):
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            st.builds(lambda f, e: f(e), st.sampled_from(BOUNDED), inner),
            st.builds(lambda f, d, e: f(d, e), st.sampled_from(PAIRS), inner, inner),
        ),
        max_leaves=4,
    )


@st.composite
def random_models(draw, scheme):
    """1 to 3 states (the last perhaps algebraic), 0 to 2 inputs, 1 to 2 parameters, explicit time,
    two intermediates of which the first contains a derivative; for Lobatto schemes none is
    algebraic, and equations are linear in x'."""
    explicit = "lobatto" in scheme
    n, m, r = draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(1, 2))
    x = ks.dynamicsymbols("x:3")[:n]
    u, p, w = ks.dynamicsymbols("u:2")[:m], sp.symbols("p:2")[:r], sp.symbols("w:2")
    rates = [s.diff(ks.t) for s in x]
    if n > 1 and not explicit and draw(st.booleans()):
        rates.pop()
    static = [*x, *u, *p, ks.t]
    first = draw(expressions([*static, *([] if explicit else rates)]))
    second = draw(expressions([*static, *([] if explicit else w[:1])]))
    some = expressions([*static, *w[explicit:]])
    equations = [rate * (2 + sp.sin(draw(some))) - draw(some) for rate in rates]
    equations += [s + sp.cos(draw(some)) for s in x[len(rates) :]]
    equations[0] += sum(p) * (1 + sum(u)) + w[1] / 3
    equations[-1] += w[0] / 3
    return ks.Model(
        "random",
        x,
        u,
        p,
        equations,
        outputs={"y": x[0] * p[0], "z": x[-1] + w[0]},
        intermediates=[(w[0], first + rates[0]), (w[1], second)],
    )


@settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.data(), st.sampled_from(SCHEMES), st.booleans(), st.booleans(), st.integers(0, 99))
def test_random_models(data, scheme, held, free, seed):
    """Models of random elementary functions; the last input is unknown."""
    model = data.draw(random_models(scheme))
    names = list(model.input_names)
    unknown = dict.fromkeys(model.parameter_names)
    measured = ["x0", "y", "z", *(names[-1:] if free else [])]
    trial = random_trial(3, names[:-1], measured, names if held else (), (), free)
    integrand = sum(s**2 for s in model.states) * (1 + ks.t)
    path = [model.states[-1] ** 2 * model.parameters[0]]
    problem = ks.Collocation(
        model,
        trial,
        unknown=unknown,
        scheme=scheme,
        objective=ks.LeastSquares() + ks.Integral(integrand),
        path=path,
        unknown_inputs=dict.fromkeys(names[-1:]),
    )
    reference = Discretised(model, trial, scheme, unknown, names[-1:], integrand, path=path)
    assert_derivatives(problem, reference, seed)


# -- what has no weight counts for nothing --------------------------------------------------


def test_held_inputs_behind_intermediates_are_integrated_as_steps():
    x, u, w = *ks.dynamicsymbols("x u"), sp.Symbol("w")
    trial = ks.Experiment([0.0, 1.0], inputs={u: ks.Signal([0.0, 1.0], [3.0, 5.0], "held")})
    costs = []
    for square, program in ((u**2, []), (w, [(w, u**2)])):
        model = ks.Model("m", [x], [u], [], [x.diff(ks.t) + x - square], intermediates=program)
        problem = ks.Collocation(model, trial, objective=ks.Integral(x + square), scheme="midpoint")
        costs.append(problem.cost(np.zeros(2)))
    assert costs == [9.0, 9.0]


@pytest.mark.parametrize("way", ["missing sample", "first node of backward Euler"])
def test_what_has_no_weight_may_be_undefined(way):
    """The square root of a negative number where nothing was measured; of zero, whose slope is
    infinite, where the quadrature takes nothing."""
    x = ks.dynamicsymbols("x")
    model = ks.Model("m", [x], [], [], [x.diff(ks.t) + x], outputs={"root": sp.sqrt(x)})
    if way == "missing sample":
        trial = ks.Experiment([0.0, 1.0, 2.0], measurements={"root": [1.0, np.nan, 1.0]})
        problem = ks.Collocation(model, trial, scheme="midpoint")
        z, cost, slope = np.array([1.0, -2.0, 3.0]), (np.sqrt(3) - 1) ** 2, 1 - 1 / np.sqrt(3)
        expected = [0.0, 0.0, slope]
    else:
        trial = ks.Experiment([0.0, 1.0, 2.0], measurements={x: np.zeros(3)})
        problem = ks.Collocation(
            model, trial, scheme="backward-euler", objective=ks.Integral(sp.sqrt(x))
        )
        z, cost, expected = np.array([0.0, 1.0, 4.0]), 3.0, [0.0, 0.5, 0.25]
    assert problem.cost(z) == pytest.approx(cost, rel=1e-14)
    np.testing.assert_allclose(problem.cost_gradient(z), expected, rtol=1e-14)
    assert np.isfinite(problem.lagrangian_hessian(z, np.zeros(2)).toarray()).all()
