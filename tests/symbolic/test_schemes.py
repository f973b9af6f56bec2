"""Every scheme of collocation: orders of convergence, closed forms, and what is determined."""

from math import factorial

import numpy as np
import pytest
import sympy as sp
from scipy.sparse.linalg import spsolve

import kinesym as ks
from kinesym.symbolic.schemes import SCHEMES as NAMED

x, v, y, u = ks.dynamicsymbols("x v y u")
k = sp.Symbol("k")
t = ks.t
SCHEMES = sorted({scheme.name for scheme in NAMED.values()})
STAGED = [name for name in SCHEMES if "lobatto" not in name]
#: Intervals of the grids on which orders are observed.
GRIDS = (4, 8, 16, 32, 64, 128)


def collocated(model, grid, scheme, start):
    """The problem with given start, as many equations as unknowns, and its solution by Newton."""
    task = ks.Collocation(
        model,
        ks.Experiment(grid),
        scheme=scheme,
        objective=ks.Terminal(x**2),
        boundary=[ks.at_start(state) - value for state, value in start.items()],
    )
    z = np.zeros(task.n_variables)
    for _ in range(12):
        z -= spsolve(task.constraint_jacobian(z), task.constraints(z))
    return task, z


def order_of(errors):
    """The order that the finest two grids show whose errors are no rounding."""
    seen = [e for e in errors if e > 1e-12]
    assert len(seen) > 2
    return np.log2(seen[-2] / seen[-1])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_order_of_convergence(scheme):
    """A pendulum whose drive makes it x = sin(2 t)."""
    drive = -4 * sp.sin(2 * t) + sp.sin(sp.sin(2 * t))
    model = ks.Model("d", [x, v], [], [], [x.diff(t) - v, v.diff(t) + sp.sin(x) - drive])
    errors = []
    for intervals in GRIDS:
        time = np.linspace(0.0, 2.0, intervals + 1)
        task, z = collocated(model, time, scheme, {x: 0, v: 2})
        found = task.unpack(z)
        errors.append(
            max(
                abs(found["x"] - np.sin(2 * time)).max(),
                abs(found["v"] - 2 * np.cos(2 * time)).max(),
            )
        )
    assert order_of(errors) == pytest.approx(NAMED[scheme].order, abs=0.1)


def algebraic():
    """x = sin(2 t), and y = exp(-t) where 0 = y^3 + 2 y + x - r(t): a DAE of index 1."""
    r = sp.exp(-3 * t) + 2 * sp.exp(-t) + sp.sin(2 * t)
    drive = 2 * sp.cos(2 * t) + sp.sin(2 * t) * sp.exp(-t)
    equations = [x.diff(t) + x * y - drive, y**3 + 2 * y + x - r]
    return ks.Model("index 1", [x, y], [], [], equations)


@pytest.mark.parametrize("scheme", STAGED)
def test_order_with_an_algebraic_state(scheme):
    """Differential states as those of the reduced ODE, with the full order; algebraic ones follow
    from these at the stages, where they have order s + 1, or the full one where a stage is the next
    node (Hairer, Wanner, Solving Ordinary Differential Equations II, VI.1).

    Values of algebraic states at the other nodes are those of the polynomials through the stages:
    order s, and s + 1 with odd s where those of two intervals have opposite errors.
    """
    rule = NAMED[scheme]
    s, order, radau = rule.stages, rule.order, rule.ends_at_stage
    errors = []
    for intervals in GRIDS:
        time = np.linspace(0.0, 2.0, intervals + 1)
        task, z = collocated(algebraic(), time, scheme, {x: 0})
        found, N = task.unpack(z), intervals
        places = time[:-1] + np.array(rule.nodes)[:, None] * np.diff(time)
        at_stages = abs(z[-s * N :].reshape(s, N) - np.exp(-places)).max(axis=1)
        at_nodes = abs(found["y"] - np.exp(-time))
        errors.append(
            {
                "x": abs(found["x"] - np.sin(2 * time)).max(),
                "y, stages": at_stages[: s - radau].max(initial=0.0),
                "y, nodes": at_nodes[1:-1].max(),
                "y, start": at_nodes[0],
            }
        )
    within = min(order, s + 1)
    expected = {"x": order, "y, stages": within, "y, start": s}
    expected["y, nodes"] = order if radau else s + s % 2
    if s == radau:
        del expected["y, stages"]
    for what, theory in expected.items():
        found = order_of([e[what] for e in errors])
        assert found == pytest.approx(theory, abs=0.1), what


@pytest.mark.parametrize("scheme", SCHEMES)
def test_quadrature(scheme):
    """The integral of exp(t) over [0, 1] converges with the order of the scheme; powers of t below
    it are exact."""
    order, errors = NAMED[scheme].order, []
    model = ks.Model("q", [x], [], [], [x.diff(t) - x])

    def cost(integrand, intervals):
        task = ks.Collocation(
            model,
            ks.Experiment(np.linspace(0, 1, intervals + 1)),
            scheme=scheme,
            objective=ks.Integral(integrand + x**2),
        )
        return task.cost(np.zeros(task.n_variables))

    for intervals in (1, 2, 4, 8, 16, 32):
        errors.append(abs(cost(sp.exp(t), intervals) - (np.e - 1.0)))
    assert order_of(errors) == pytest.approx(order, abs=0.1)
    assert cost(t ** (order - 1), 3) == pytest.approx(1.0 / order, rel=1e-14)
    assert abs(cost(t**order, 3) - 1.0 / (order + 1)) > 1e-8


def pade(above, below, z):
    """The Pade approximant of exp(z) with these degrees of numerator and denominator (Hairer,
    Wanner, Solving Ordinary Differential Equations II, equation IV.3.30)."""

    def polynomial(degree, other, z):
        total = degree + other
        return sum(
            factorial(degree) * factorial(total - j) * z**j
            / (factorial(degree - j) * factorial(total) * factorial(j))
            for j in range(degree + 1)
        )  # fmt: skip

    return polynomial(above, below, z) / polynomial(below, above, -z)


@pytest.mark.parametrize("rate", [3.0, 3e4], ids=["slow", "stiff"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_linear_decay_on_a_nonuniform_grid(scheme, rate):
    """x' = -k x: each interval multiplies by a Pade approximant of the exponential function, which
    vanishes for stiff decay with Radau, and is 1 in size with the others."""
    model = ks.Model("l", [x], [], [k], [x.diff(t) + k * x], values={k: rate})
    time = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.3, size=8))
    task, z = collocated(model, time, scheme, {x: 1})
    s = NAMED[scheme].stages
    degrees = {"radau": (s - 1, s), "gauss": (s, s), "lobatto": (s - 1, s - 1)}
    factors = pade(*degrees[scheme.split("-")[0]], -rate * np.diff(time))
    expected = np.concatenate([[1.0], np.cumprod(factors)])
    np.testing.assert_allclose(task.unpack(z)["x"], expected, rtol=1e-9)
    if rate > 1e3:
        assert np.all(abs(factors) < 0.02 if "radau" in scheme else abs(factors) > 0.9)


@pytest.mark.parametrize("scheme", STAGED)
def test_nothing_is_undetermined(scheme):
    """Inputs and algebraic states that alternate from node to node, or act at the first node only,
    change the residuals as much as others do."""
    model = ks.Model("m", [x, y], [u], [], [x.diff(t) + y - u, y - x**2 - u])
    task = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 2.0, 21)),
        scheme=scheme,
        objective=ks.Integral(x**2),
        unknown_inputs={u: None},
        boundary=[ks.at_start(x) - 1],
    )
    z = np.full(task.n_variables, 0.3)
    jacobian = task.constraint_jacobian(z).toarray()
    names = [task.variable_name(j) for j in range(task.n_variables)]
    for chosen in ("u", "y", "xy"):
        columns = jacobian[:, [name.split()[0] in chosen for name in names]]
        count = 20 * NAMED[scheme].stages
        assert columns.shape[1] == count * len(chosen) + (1 if "x" in chosen else 0)
        sizes = np.linalg.svd(columns, compute_uv=False)
        assert sizes[-1] > 0.02 and (chosen == "xy" or sizes[-1] > 0.9)


@pytest.mark.parametrize("scheme", STAGED)
def test_algebraic_states_do_not_ring(scheme):
    """y = x, of which x is measured with noise: y follows the model, at the first node too, and the
    covariance of the rate is that of the closed form x = x_0 exp(-k t)."""
    model = ks.Model("index 1", [x, y], [], [k], [x.diff(t) + k * y, y - x])
    time, noise = np.linspace(0.0, 3.0, 301), 0.01 * np.random.default_rng(0).standard_normal(301)
    trial = ks.Experiment(time, measurements={x: np.exp(-time) + noise}, std={x: 0.01})
    task = ks.Collocation(model, trial, {k: (0.1, 9)}, scheme=scheme)
    solution = task.solve({k: 0.5})
    assert solution.success
    found, rough = solution["y"], NAMED[scheme].order == 1
    np.testing.assert_allclose(found[:4], 1.001 * np.exp(-time[:4]), atol=0.015 if rough else 0.005)
    np.testing.assert_allclose(found[1:-1], solution["x"][1:-1], atol=1e-4)
    assert abs(np.diff(found[1:-1], 2)).max() < 3e-4
    decay = np.exp(-time)
    slopes = np.column_stack([decay, -time * decay]) / 0.01  # of x_0 and k
    expected = np.linalg.inv(slopes.T @ slopes)[1, 1]
    assert task.covariance(solution)[0, 0] == pytest.approx(expected, rel=0.1)


def test_algebraic_states_have_no_rate():
    """Where one is asked for, it is refused, not taken as zero."""
    equations, trial = [x.diff(t) + y, y - x], ks.Experiment(np.linspace(0.0, 1.0, 5))
    model = ks.Model("m", [x, y], [], [], equations)
    words = r"contains the rate of y, which no equation has: with radau-3 such an"
    for what, given in (
        ("integrand", {"objective": ks.Integral(y.diff(t) ** 2)}),
        ("path condition 0", {"path": [y.diff(t)], "objective": ks.Integral(x**2)}),
    ):
        with pytest.raises(ValueError, match=f"{what} {words}"):
            ks.Collocation(model, trial, **given)
    moving = ks.Model("m", [x, y], [], [], equations, outputs={"slope": y.diff(t)})
    with pytest.raises(ValueError, match=f"model m: output slope {words}"):
        ks.Collocation(moving, trial, objective=ks.Integral(x**2))


@pytest.mark.parametrize("scheme", ["trapezoid", "hermite-simpson", "lobatto-6"])
def test_lobatto_needs_explicit_rates(scheme):
    model = ks.Model("a", [x, v], [], [k], [x.diff(t) - v, v - k * x])
    words = r"needs explicit derivatives: state v has no .*; use radau-3 or backward-euler"
    with pytest.raises(ValueError, match=rf"{NAMED[scheme].name}.* {words}"):
        ks.Collocation(
            model,
            ks.Experiment(np.linspace(0, 1, 5)),
            unknown={k: None},
            scheme=scheme,
            objective=ks.Terminal(x**2),
        )
