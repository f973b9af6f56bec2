"""Compiled derivatives against the complex step of a dense, independent discretisation.

The reference writes the discretised equations of a few nodes in SymPy, straight from the definition
of the schemes, and evaluates them with `sympy.lambdify`: Jacobian and gradient are the complex step
of its constraints and cost, the Hessian is the complex step of SymPy's gradient of its Lagrangian.
"""

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym import models

STEP = 1e-30


# -- the reference --------------------------------------------------------------------------


class Discretised:
    """The nonlinear program of one trial as SymPy expressions of z.

    integrand, terminal : terms of the objective besides the least squares.
    path : expressions at the nodes; boundary : functions of the values at the first and last node.
    """

    def __init__(
        self,
        model,
        trial,
        scheme,
        unknown,
        free_inputs=(),
        integrand=sp.S.Zero,
        terminal=sp.S.Zero,
        path=(),
        boundary=(),
        held=(),
    ):
        self.held = {*trial.held, *held}
        self.model, self.trial, self.midpoint = model, trial, scheme == "midpoint"
        self.N, grid = trial.n_nodes, [sp.Float(value) for value in trial.grid]
        self.x = self._symbols("x", model.state_names)
        self.u = self._symbols("u", free_inputs)
        p = {name: sp.Symbol(f"p_{name}") for name in model.parameter_names if name in unknown}
        duration = [sp.Symbol("T")] if trial.free_duration else []
        self.t = [value * duration[0] for value in grid] if duration else grid
        values = {name: sp.Float(value) for name, value in model.values.items()}
        self.p = {q: p.get(str(q), values.get(str(q))) for q in model.parameters}
        rows = [*self.x.values(), *self.u.values()]
        self.z = [s for row in rows for s in row] + list(p.values()) + duration
        last = self.N - 1
        stages = [self._stage(i) for i in range(last)]
        nodes = [self._node(i) for i in range(self.N)]
        self.constraints = [at(e) for e in model.equations for at in stages]
        self.constraints += [at(e) for e in path for at in nodes]
        self.constraints += [e(nodes[0], nodes[last]) for e in boundary]
        self.cost = nodes[last](terminal) + self._integral(integrand, stages, nodes)
        self.cost += self._squares(stages, nodes)

    def _symbols(self, kind, names):
        return {name: [sp.Symbol(f"{kind}_{name}_{i}") for i in range(self.N)] for name in names}

    def _input(self, name, i):
        return self.u[name][i] if name in self.u else sp.Float(self.trial.inputs[name][i])

    def _evaluator(self, table):
        """A function that puts values into an expression of the model."""
        table = {**table, **self.p}
        for symbol, expression in self.model.intermediates:
            if not expression.atoms(sp.Symbol, sp.Derivative) & self._absent(table):
                table[symbol] = expression.xreplace(table)
        return lambda e: sp.S(e).xreplace(table)

    def _absent(self, table):
        """Derivatives and intermediates that have no value here."""
        names = {symbol for symbol, _ in self.model.intermediates}
        return ({*self.model.derivatives} | names) - set(table)

    def _node(self, i):
        table = {x: self.x[str(x.name)][i] for x in self.model.states}
        table.update({u: self._input(u.name, i) for u in self.model.inputs})
        return self._evaluator({**table, ks.t: self.t[i]})

    def _stage(self, i):
        """Midpoint: f((x1 - x0)/h, (x0 + x1)/2, ...); backward Euler: f((x1 - x0)/h, x1, ...)."""
        h = self.t[i + 1] - self.t[i]
        table = {ks.t: self.t[i] + h / 2 if self.midpoint else self.t[i + 1]}
        for x, rate in zip(self.model.states, self.model.derivatives, strict=True):
            left, right = self.x[x.name][i : i + 2]
            table[rate] = (right - left) / h
            table[x] = (left + right) / 2 if self.midpoint else right
        for u in self.model.inputs:
            left, right = (self._input(u.name, i + k) for k in (0, 1))
            held = u.name in self.held
            table[u] = left if held else (left + right) / 2 if self.midpoint else right
        return self._evaluator(table)

    def _integral(self, integrand, stages, nodes):
        """At the stages if x' or a held input is involved, else trapezoids or right rectangles."""
        steps = [b - a for a, b in zip(self.t, self.t[1:], strict=False)]
        held = [u for u in self.model.inputs if u.name in self.held]
        if sp.S(integrand).has(sp.Derivative, *held):
            return sum(h * at(integrand) for h, at in zip(steps, stages, strict=True))
        g = [at(integrand) for at in nodes]
        if not self.midpoint:
            return sum(h * value for h, value in zip(steps, g[1:], strict=True))
        pairs = zip(steps, g, g[1:], strict=False)
        return sum(h * (left + right) / 2 for h, left, right in pairs)

    def _squares(self, stages, nodes):
        total, every = sp.S.Zero, {x.name: x for x in (*self.model.states, *self.model.inputs)}
        for name, y in self.trial.measurements.items():
            e, at, weight = {**every, **self.model.outputs}[name], nodes, self.trial.std[name] ** -2
            if e.has(sp.Derivative):
                at, weight = stages, weight[1:]
                y = (y[:-1] + y[1:]) / 2 if self.midpoint else y[1:]
            total += sum(
                w * (here(e) - m) ** 2
                for w, here, m in zip(weight, at, y, strict=True)
                if not np.isnan(m)
            )
        return total

    def numbers(self, z, multipliers, factor):
        """Cost, its gradient, constraints, their Jacobian, Hessian of the Lagrangian at z."""
        weights = sp.symbols(f"weight_:{len(self.constraints)}")
        lagrangian = factor * self.cost + sum(
            w * c for w, c in zip(weights, self.constraints, strict=True)
        )
        slopes = [lagrangian.diff(v) for v in self.z]
        first = sp.lambdify([self.z], [self.cost, *self.constraints], "numpy", cse=True)
        second = sp.lambdify([self.z, weights], slopes, "numpy", cse=True)
        values = np.array(first(z), dtype=float)
        jacobian = complex_step(first, z)
        hessian = complex_step(lambda z: second(z, multipliers), z)
        return values[0], jacobian[0], values[1:], jacobian[1:], hessian


def complex_step(function, z):
    """Derivatives of a vector function, (n_out, n_z)."""
    columns = [
        np.imag(np.array(function(z + 1j * STEP * e), dtype=complex)) / STEP for e in np.eye(len(z))
    ]
    return np.array(columns).T


def assert_derivatives(problem, reference, seed=3, low=0.4, high=1.6):
    """Values, gradient, Jacobian and Hessian at a random point to 1e-10."""
    assert problem.n_variables == len(reference.z)
    assert problem.n_constraints == len(reference.constraints)
    rng = np.random.default_rng(seed)
    z = rng.uniform(low, high, problem.n_variables)
    multipliers = rng.normal(size=problem.n_constraints)
    found = (
        problem.cost(z),
        problem.cost_gradient(z),
        problem.constraints(z),
        problem.constraint_jacobian(z).toarray(),
        problem.lagrangian_hessian(z, multipliers, 0.7).toarray(),
    )
    names = ("cost", "gradient", "constraints", "jacobian", "hessian")
    expected = reference.numbers(z, multipliers, 0.7)
    for name, mine, theirs in zip(names, found, expected, strict=True):
        scale = np.max(np.abs(theirs), initial=1.0)
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-13 * scale, err_msg=name)


def random_trial(N, known, measured, held=(), free=False, missing=True):
    """A trial of random numbers on an uneven grid."""
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
    between = {name: "held" if name in held else "linear" for name in known}
    return ks.Experiment(
        **when,
        inputs={n: ks.Signal(grid, rng.normal(size=N), how) for n, how in between.items()},
        measurements=samples,
        std=dict.fromkeys(measured, 0.8),
    )


# -- the models of the library --------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["midpoint", "backward-euler"])
@pytest.mark.parametrize(
    "model, N",
    [
        (models.pendulum(), 5),
        (models.cip(), 4),
        (models.standing(), 3),
        *((models.n_link_pendulum_on_cart(n), 3) for n in (1, 2, 3)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_models(model, N, scheme):
    """Every model with all parameters unknown, least squares of states and outputs."""
    trial = random_trial(N, model.input_names, (*model.state_names, *model.outputs))
    unknown = dict.fromkeys(model.parameter_names)
    problem = ks.Collocation(model, trial, unknown=unknown, scheme=scheme)
    assert_derivatives(problem, Discretised(model, trial, scheme, unknown))


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("held", [False, True], ids=["linear", "held"])
@pytest.mark.parametrize("scheme", ["midpoint", "backward-euler"])
def test_optimal_control(scheme, held, free):
    """An unknown input, held or not, with integral, terminal cost, conditions, free duration."""
    model = models.n_link_pendulum_on_cart(1)
    q0, q1, u0, u1 = model.states
    (F,) = model.inputs
    m0 = model.parameters[0]
    integrand, terminal = F**2 * sp.exp(-ks.t) + m0 * sp.sin(q1), u0**2 * q1 + ks.t**3
    path = [u0 * F - q1**2, sp.cos(q1) * ks.t]
    trial = random_trial(3, (), ["q_1"], free=free)
    problem = ks.Collocation(
        model,
        trial,
        unknown={"m_0": None, "l_1": None},
        scheme=scheme,
        objective=ks.LeastSquares() + ks.Integral(integrand) + ks.Terminal(terminal),
        path=path,
        boundary=[ks.at_start(q0 * u1 + q1**3) - m0 * ks.at_end(sp.sin(q1) * F)],
        unknown_inputs={"F": ks.held() if held else None},
    )
    boundary = [lambda start, end: start(q0 * u1 + q1**3) - start(m0) * end(sp.sin(q1) * F)]
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


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("scheme", ["midpoint", "backward-euler"])
def test_costs_with_derivatives(scheme, free):
    """Integral and measured output with x' live on the intervals; held and linear known inputs."""
    plant = models.standing_plant()
    th_a, _, w_a, w_h = plant.states
    model = plant.substitute({}, outputs={"reaction": w_a.diff(ks.t) * th_a + plant.inputs[0]})
    integrand = (w_h.diff(ks.t) - plant.inputs[1]) ** 2 * plant.parameters[0] + ks.t * w_a
    trial = random_trial(3, ["a", "T_a", "T_h"], ["reaction", "omega_a"], ("a",), free, False)
    problem = ks.Collocation(
        model,
        trial,
        unknown={"l_L": None, "I_T": None},
        scheme=scheme,
        objective=ks.LeastSquares() + ks.Integral(integrand),
    )
    reference = Discretised(model, trial, scheme, ["l_L", "I_T"], (), integrand)
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
def random_models(draw):
    """1 to 3 states (the last perhaps algebraic), 0 to 2 inputs, 1 to 2 parameters, explicit time,
    two intermediates of which the first contains a derivative."""
    n, m, r = draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(1, 2))
    x = ks.dynamicsymbols("x:3")[:n]
    u, p, w = ks.dynamicsymbols("u:2")[:m], sp.symbols("p:2")[:r], sp.symbols("w:2")
    rates = [s.diff(ks.t) for s in x]
    if n > 1 and draw(st.booleans()):
        rates.pop()
    static = [*x, *u, *p, ks.t]
    first = draw(expressions([*static, *rates]))
    second = draw(expressions([*static, w[0]]))
    some = expressions([*static, *w])
    equations = [rate * (2 + sp.sin(draw(some))) - draw(some) for rate in rates]
    equations += [s + sp.cos(draw(some)) for s in x[len(rates) :]]
    equations[0] += sum(p) * (1 + sum(u)) + w[1] / 3
    return ks.Model(
        "random",
        x,
        u,
        p,
        equations,
        outputs={"y": x[0] * p[0]},
        intermediates=[(w[0], first + rates[0]), (w[1], second)],
    )


@settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    random_models(),
    st.sampled_from(["midpoint", "backward-euler"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_random_models(model, scheme, held, free, seed):
    """Models of random elementary functions; the last input is unknown."""
    names = list(model.input_names)
    unknown = dict.fromkeys(model.parameter_names)
    trial = random_trial(3, names[:-1], ["x0", "y"], names if held else (), free)
    integrand = sum(s**2 for s in model.states) * (1 + ks.t)
    problem = ks.Collocation(
        model,
        trial,
        unknown=unknown,
        scheme=scheme,
        objective=ks.LeastSquares() + ks.Integral(integrand),
        unknown_inputs=dict.fromkeys(names[-1:]),
    )
    reference = Discretised(model, trial, scheme, unknown, names[-1:], integrand)
    assert_derivatives(problem, reference, seed)


# -- what has no weight counts for nothing --------------------------------------------------


def test_held_inputs_behind_intermediates_are_integrated_as_steps():
    x, u, w = *ks.dynamicsymbols("x u"), sp.Symbol("w")
    trial = ks.Experiment([0.0, 1.0], inputs={u: ks.Signal([0.0, 1.0], [3.0, 5.0], "held")})
    costs = []
    for square, program in ((u**2, []), (w, [(w, u**2)])):
        model = ks.Model("m", [x], [u], [], [x.diff(ks.t) + x - square], intermediates=program)
        problem = ks.Collocation(model, trial, objective=ks.Integral(x + square))
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
        problem = ks.Collocation(model, trial)
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
