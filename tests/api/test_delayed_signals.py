"""Collocation of models with delays in their equations, conditions and objectives."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad, solve_bvp
from scipy.optimize import brentq, least_squares

import kinesym as ks

x, v, u, w = ks.dynamicsymbols("x v u w")
k, b, c, tau = sp.symbols("k b c tau")
t = ks.t

#: x' = c x(t - LATE) has the solution exp(RATE t) if that is its history.
RATE, LATE = -1.3, 0.7311
GROWTH = ks.Model(
    "growth",
    [x],
    [],
    [c],
    [x.diff(t) - c * ks.delayed(x, LATE)],
    values={c: RATE * np.exp(RATE * LATE)},
)
NOTHING = ks.Integral(0 * x)


def solved(model, trial, scheme="radau-3", **more):
    problem = ks.Collocation(model, trial, scheme=scheme, **more)
    solution = problem.solve()
    assert solution.success, solution.message
    return solution


# -- accuracy -------------------------------------------------------------------------------------


def before(f, late, count=801):
    """A signal that is a function before t = 0."""
    times = np.linspace(-late, 0.0, count)
    return ks.Signal(times, f(times), between="cubic")


def error(scheme, nodes):
    """Of exp(RATE t) on a grid that no delay leads back to; and as the grid says."""
    share = np.linspace(0.0, 1.0, nodes + 1)
    grid = 3.0 * (share + 0.05 * np.sin(2.0 * np.pi * share))
    trial = ks.Experiment(grid, history={x: before(lambda s: np.exp(RATE * s), LATE)})
    found = solved(GROWTH, trial, scheme, boundary=[ks.at_start(x) - 1], objective=NOTHING)
    said = found.grid_error().largest * np.ptp(found["x"])
    return np.abs(found["x"] - np.exp(RATE * grid)).max(), said


@pytest.mark.parametrize(
    ("scheme", "order", "nodes"),
    [
        ("backward-euler", 1, 64),
        ("midpoint", 2, 16),
        ("trapezoid", 2, 16),
        ("radau-3", 3, 16),
        ("hermite-simpson", 4, 16),
        ("radau-5", 4, 16),
    ],
)
def test_off_the_grid_the_scheme_keeps_its_order(scheme, order, nodes):
    coarse, _ = error(scheme, nodes)
    fine, said = error(scheme, 4 * nodes)
    assert np.log2(coarse / fine) / 2.0 > order - 0.15
    assert 0.5 < said / fine < 3.0  # the error of the grid knows of delays


def by_steps(time):
    """x' = -x(t - 1) from 1, up to t = 3."""
    powers = [(1.0, 0), (-1.0, 1), (0.5, 2), (-1.0 / 6.0, 3)]
    return sum(f * np.where(time > k - 1, (time - k + 1.0) ** k, f == 1.0) for f, k in powers)


@pytest.mark.parametrize("scheme", ["radau-5", "hermite-simpson"])
def test_the_method_of_steps(scheme):
    """x' = -x(t - 1) from 1 is a polynomial of degree k + 1 on [k, k + 1], which they have."""
    model = ks.Model("steps", [x], [], [], [x.diff(t) + ks.delayed(x, 1)])
    share = np.linspace(0.0, 1.0, 6)
    grid = np.unique(np.concatenate([share, 1.0 + share**1.2, 2.0 + share**0.8]))
    found = solved(
        model, ks.Experiment(grid), scheme, boundary=[ks.at_start(x) - 1], objective=NOTHING
    )
    assert found["x"] == pytest.approx(by_steps(grid), abs=1e-10)
    assert found["x(t - 1)"] == pytest.approx(by_steps(grid - 1.0), abs=1e-10)
    assert "x(t - 1)" not in found.trials[0].inputs


@pytest.mark.parametrize("scheme", ["midpoint", "radau-3", "radau-5"])
def test_breaks_between_nodes_are_said_not_to_be_seen(scheme):
    """Of the start of x' = -x(t - 1), and of a kink of the history; on nodes nothing is said."""
    model = ks.Model("steps", [x], [], [], [x.diff(t) + ks.delayed(x, 1)])
    kinked = ks.Signal([-1.0, -0.35, 0.0], [0.0, 1.0, 1.0])
    level = {x: 1.0}
    about = {"scheme": scheme, "boundary": [ks.at_start(x) - 1], "objective": NOTHING}

    def said(nodes, history):
        found = solved(model, ks.Experiment(np.linspace(0, 3, nodes), history=history), **about)
        return str(found.grid_error())

    assert "between two nodes" not in said(31, level)
    assert "a break of the start or history to t = 1 s, between two nodes" in said(32, level)
    assert "to t = 0.65 s, between two nodes" in said(31, {x: kinked})
    assert "between two nodes" not in said(61, {x: kinked})
    smooth = {x: before(lambda s: np.exp(RATE * s), LATE)}
    assert "between" not in str(
        solved(GROWTH, ks.Experiment(np.linspace(0, 3, 32), history=smooth), **about).grid_error()
    )


def test_an_unknown_delay_has_its_break_where_it_is_found():
    delay = sp.Symbol("delay")
    model = ks.Model("steps", [x], [], [delay], [x.diff(t) + ks.delayed(x, delay)])
    time = np.linspace(0, 3, 32)
    trial = ks.Experiment(time, measurements={x: by_steps(time)}, std={x: 1e-3}, history={x: 1.0})
    fit = solved(model, trial, "radau-5", unknown={delay: (0.5, 1.5)})
    at = fit.parameters["delay"]
    assert at == pytest.approx(1.0, abs=1e-3)
    assert f"to t = {at:.5g} s, between two nodes" in str(fit)


# -- derivatives ----------------------------------------------------------------------------------


def derivative(f, z, j):
    """The derivative of a function by z[j], by differences extrapolated twice."""

    def difference(h):
        step = np.zeros(len(z))
        step[j] = h
        return (f(z + step) - f(z - step)) / (2.0 * h)

    a, b, c = (difference(4e-4 / n) for n in (1.0, 2.0, 4.0))
    first, second = (4.0 * b - a) / 3.0, (4.0 * c - b) / 3.0
    return (16.0 * second - first) / 15.0


def inside(problem):
    """Some z within its bounds."""
    low, high = problem.variable_bounds
    z = np.random.default_rng(0).uniform(0.5, 1.5, problem.n_variables)
    bounded = np.isfinite(low) & np.isfinite(high)
    z[bounded] = 0.6 * low[bounded] + 0.4 * high[bounded]
    return z


GRID = np.sort(np.append([0.0, 2.0], np.random.default_rng(1).uniform(0.0, 2.0, 6)))
CUBE = before(lambda s: 0.3 * s**3, 2.0, 40)
KNOWN = ks.Signal(np.linspace(-1.5, 3.0, 9), 0.3 * np.linspace(-1.5, 3.0, 9) ** 2, between="cubic")
MANY = ks.Model(
    "many",
    [x, v],
    [u, w],
    [tau, k, b],
    [
        x.diff(t) - v,
        v.diff(t)
        + k * ks.delayed(x * v, tau)
        + x**2
        - ks.delayed(u, tau + 0.1 * b)
        - w * ks.delayed(w, 2 * tau),
    ],
    values={k: 1.3, b: 0.7},
)
MOVING = ks.Model(
    "moving",
    [x, v],
    [u],
    [tau, k, b],
    [
        x.diff(t) - v,
        v.diff(t) + k * ks.delayed(x, tau + b * x**2, range=(0.1, 0.9)) + ks.delayed(v, tau) - u,
    ],
    values={k: 1.3, b: 0.1},
)


def of_parameters(scheme, history=(), **more):
    history = {x: CUBE, u: 0.3, **dict(history)}
    trial = ks.Experiment(GRID, inputs={w: KNOWN}, history=history, measurements={x: np.sin(GRID)})
    given = {"unknown": {tau: ks.log_scale(0.2, 0.6), b: (0.1, 1.0)}, "unknown_inputs": {u: None}}
    return ks.Collocation(MANY, trial, scheme=scheme, **{**given, **more})


def of_states(history=None):
    trial = ks.Experiment(nodes=8, duration=(1.5, 2.5), history=history or {x: CUBE})
    return ks.Collocation(
        MOVING,
        trial,
        {tau: (0.2, 0.6)},
        unknown_inputs={u: None},
        objective=ks.Integral(u**2 + ks.delayed(u, tau) ** 2),
        path=[(ks.delayed(u, 0.3) * x, -5, 5)],
    )


def of_outputs(scheme):
    late = {"y": np.sin(GRID), "z": ks.Signal(GRID[1:] - 0.01, GRID[1:])}
    trial = ks.Experiment(GRID, inputs={u: KNOWN}, measurements=late)
    return ks.Collocation(HEARD, trial, HEARD_UNKNOWN, scheme=scheme)


@pytest.mark.parametrize(
    "make",
    [
        lambda: of_parameters("hermite-simpson"),
        lambda: of_parameters(
            "midpoint", unknown_inputs={u: ks.held()}, unknown={k: None}, known={tau: 0.3}
        ),
        of_states,
        lambda: of_parameters("midpoint", {x: None, u: (-2.0, 3.0)}),
        lambda: of_states({x: None}),
        lambda: of_outputs("gauss-4"),
        lambda: of_outputs("radau-3"),
    ],
)
def test_derivatives_are_exact(make):
    problem = make()
    z, rng = inside(problem), np.random.default_rng(2)
    multipliers = rng.standard_normal(problem.n_constraints)
    jacobian = problem.constraint_jacobian(z).toarray()
    hessian = problem.lagrangian_hessian(z, multipliers, 0.7).toarray()

    def gradient(z):
        return 0.7 * problem.cost_gradient(z) + problem.constraint_jacobian(z).T @ multipliers

    for j in range(problem.n_variables):
        slopes, bends = derivative(problem.constraints, z, j), derivative(gradient, z, j)
        assert jacobian[:, j] == pytest.approx(slopes, abs=1e-9 * np.abs(jacobian).max())
        assert hessian[:, j] == pytest.approx(bends, abs=1e-9 * np.abs(hessian).max())


# -- unknown histories -----------------------------------------------------------------------------


def test_the_best_history_is_found():
    """x' = x(t - 1) for a second, from x = 0: x(1) is the integral of the history, at most 1, less
    the last of 20 straight lines, which leads from 1 to the start."""
    model = ks.Model("led", [x], [], [], [x.diff(t) - ks.delayed(x, 1)])
    found = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 1.0, 21), history={x: (-1, 1)}),
        objective=ks.Terminal(-x),
        boundary=[ks.at_start(x)],
    ).solve()
    assert found.success
    assert found["x"][-1] == pytest.approx(1.0 - 0.5 / 20, abs=1e-7)
    time, values = found.trials[0].history_of(x)
    assert time == pytest.approx(np.linspace(-1.0, 0.0, 21))
    assert values == pytest.approx([1.0] * 20 + [0.0], abs=1e-6)


def test_a_history_that_the_motion_shows(tmp_path):
    """Each trial has its own; x' = -x(t - 0.4), so that it is minus the rate."""
    model = ks.Model("shown", [x], [], [], [x.diff(t) + ks.delayed(x, 0.4)])
    grid = np.linspace(0.0, 2.0, 41)
    trials = []
    for slope in (1.0, -0.5):
        past = ks.Signal([-0.5, 0.0], [2.0 - 0.5 * slope, 2.0])
        run = ks.simulate(model, grid, {x: 2.0}, history={x: past})
        trials.append(ks.Experiment(grid, measurements={x: run[x]}, history={x: None}))
    problem = ks.Collocation(model, trials, scheme="radau-5")
    found = problem.solve()
    assert found.success
    for run, slope in zip(found.trials, (1.0, -0.5), strict=True):
        time, values = run.history_of(x)
        assert values == pytest.approx(2.0 + slope * time, abs=1e-4)
    assert problem.verify(found).largest < 1e-5
    found.save(tmp_path / "found.nc")
    again = ks.Solution.load(tmp_path / "found.nc").trials[1]
    assert (again.history_of(x)[1] == found.trials[1].history_of(x)[1]).all()
    with pytest.raises(ValueError, match="the history of x is unknown, and a simulation wants"):
        ks.simulate(model, grid, {x: 2.0}, history={x: None})
    few = ks.Experiment(grid, measurements={x: grid}, history={x: ks.UnknownHistory(-5, 5, 2)})
    assert ks.Collocation(model, few).layout.parameters == ("x(-0.4 s)", "x(-0.2 s)")
    with pytest.raises(ValueError, match="and not in trial 1"):
        ks.Collocation(model, [trials[0], ks.Experiment(grid, measurements={x: grid})])


# -- delays in what is measured -------------------------------------------------------------------

#: The first output has the delay of the second equation, the second one as the state is.
HEARD = ks.Model(
    "heard",
    [x, v],
    [u],
    [k, tau],
    [x.diff(t) + k * x - u, v.diff(t) + v - ks.delayed(x, tau)],
    outputs={
        "y": ks.delayed(x, tau),
        "z": 2.0 * ks.delayed(x, tau + 0.2 * x**2, range=(0.05, 0.9)),
    },
)
HEARD_UNKNOWN = {k: (0.1, 5.0), tau: (0.06, 0.6)}


def forced(time, gain, start):
    """x' = -gain x + sin 2 t from a start at t = 0, and before."""
    after, scale = np.maximum(time, 0.0), gain**2 + 4.0
    swing = (gain * np.sin(2.0 * after) - 2.0 * np.cos(2.0 * after)) / scale
    return swing + (start + 2.0 / scale) * np.exp(-gain * after)


def heard(time, gain, late, start):
    """Both outputs."""
    moving = late + 0.2 * forced(time, gain, start) ** 2
    return np.array([forced(time - late, gain, start), 2.0 * forced(time - moving, gain, start)])


def hearing(scheme, samples, own=True):
    """Estimates of gain, delay and start from both outputs, the objective, and by SciPy from the
    closed form the same and standard errors."""
    time, rng = np.linspace(0.0, 6.0, 121), np.random.default_rng(0)
    y = heard(samples, 1.3, 0.32, 0.8) + 0.01 * rng.standard_normal((2, len(samples)))
    push = ks.Signal(time, np.sin(2.0 * time), between="cubic")
    given = [ks.Signal(samples, row) if own else row for row in y]
    trial = ks.Experiment(
        time,
        inputs={u: push},
        measurements=dict(zip("yz", given, strict=True)),
        std=dict.fromkeys("yz", 0.01),
    )
    start = [ks.at_start(v)]
    found = ks.Collocation(HEARD, trial, HEARD_UNKNOWN, scheme=scheme, boundary=start).solve()
    assert found.success
    values = np.array([found.parameters["k"], found.parameters["tau"], found["x"][0]])
    shown = np.array([found["y"], found["z"]])
    least = least_squares(
        lambda p: ((heard(samples, *p) - y) / 0.01).ravel(), values, xtol=1e-15, ftol=1e-15
    )
    errors = np.sqrt(np.diag(np.linalg.inv(least.jac.T @ least.jac)))
    assert np.abs(shown - heard(time, *values)).max() < 2e-3
    return values, found.objective, least.x, 2.0 * least.cost, errors


@pytest.mark.parametrize(
    ("scheme", "near"),
    [
        ("midpoint", 1.0),
        ("trapezoid", 1.0),
        ("hermite-simpson", 1e-3),
        ("lobatto-6", 1e-3),
        ("radau-3", 1e-2),
        ("radau-5", 1e-3),
        ("gauss-4", 1e-2),
        ("gauss-6", 1e-3),
    ],
)
def test_delays_that_are_measured_count_at_all_nodes(scheme, near):
    """By all schemes the same sum of squares and, in standard errors, the same estimates."""
    values, cost, expected, least, errors = hearing(scheme, np.linspace(0.0, 6.0, 121), False)
    assert np.abs(values - expected) / errors == pytest.approx(0.0, abs=near)
    assert cost == pytest.approx(least, abs=20.0 * near)


@pytest.mark.parametrize(
    ("scheme", "near"), [("midpoint", 1.0), ("radau-3", 0.1), ("gauss-4", 0.1), ("gauss-6", 0.1)]
)
def test_delays_that_are_measured_between_nodes(scheme, near):
    """A delay after the start they have a kink, which no polynomial has; where a stage is just
    there, iterations go to and fro, so that no delay here is that of a stage."""
    values, cost, expected, least, errors = hearing(scheme, np.linspace(0.0, 6.0, 131))
    assert np.abs(values - expected) / errors == pytest.approx(0.0, abs=near)
    assert cost == pytest.approx(least, abs=1.0)


# -- optimal control ------------------------------------------------------------------------------


def bilinear(path=()):
    """Goellmann, Kern, Maurer 2009, Optim. Control Appl. Methods 30, 341-365, section 4."""
    model = ks.Model("bilinear", [x], [u], [], [x.diff(t) - ks.delayed(x, 1) * ks.delayed(u, 2)])
    trial = ks.Experiment(np.linspace(0.0, 3.0, 91), history={x: 1.0, u: 0.0})
    return solved(
        model,
        trial,
        "radau-5",
        unknown_inputs={u: None},
        objective=ks.Integral(x**2 + u**2),
        boundary=[ks.at_start(x) - 1],
        path=path,
    )


def test_delays_in_state_and_control():
    """On [0, 2] x is 1, then x' = u(t - 2): the regulator of x' = u over one second."""
    found = bilinear()
    assert found.objective == pytest.approx(2.0 + np.tanh(1.0), abs=1e-9)
    u_of_t = found["u"][:30]
    s = found.time[:30]
    assert u_of_t == pytest.approx(-np.sinh(1.0 - s) / np.cosh(1.0), abs=1e-4)


def test_with_a_mixed_constraint():
    """u + x >= 0.3 holds u at -0.7 until s, where the regulator takes over."""
    s = brentq(lambda s: np.tanh(1.0 - s) * (1.0 - 0.7 * s) - 0.7, 0.0, 1.0)
    first = 0.49 * s + quad(lambda r: (1.0 - 0.7 * r) ** 2, 0.0, s)[0]
    exact = 2.0 + first + np.tanh(1.0 - s) * (1.0 - 0.7 * s) ** 2
    assert bilinear([(u + x, 0.3, None)]).objective == pytest.approx(exact, abs=1e-6)


def test_a_linear_quadratic_problem():
    """Palanisamy and others, as in Luus 2000, Iterative Dynamic Programming, section 8.3.2:
    against the boundary value problem of both seconds side by side, by SciPy."""

    def rates(s, y):
        x1, x2, p1, p2 = y
        return [
            s * x1 + 1.0 - 0.5 * p1,
            (s + 1.0) * x2 + x1 - 0.5 * p2,
            -2.0 * x1 - s * p1 - p2,
            -2.0 * x2 - (s + 1.0) * p2,
        ]

    def ends(a, z):
        return [a[0] - 1.0, a[1] - z[0], z[2] - a[3], z[3]]

    s = np.linspace(0.0, 1.0, 101)
    y = solve_bvp(rates, ends, s, np.ones((4, 101)), tol=1e-10, max_nodes=100_000)
    assert y.success
    weights = np.array([1.0, 1.0, 0.25, 0.25])
    exact = quad(lambda r: float(weights @ y.sol(r) ** 2), 0.0, 1.0)[0]
    model = ks.Model("luus", [x], [u], [], [x.diff(t) - t * x - ks.delayed(x, 1) - u])
    found = solved(
        model,
        ks.Experiment(np.linspace(0.0, 2.0, 61)),
        "radau-5",
        unknown_inputs={u: None},
        objective=ks.Integral(x**2 + u**2),
        boundary=[ks.at_start(x) - 1],
    )
    assert found.objective == pytest.approx(exact, rel=1e-8)
    assert found.objective == pytest.approx(4.7961, abs=1e-3)  # by PROPT, with 50 points


def test_two_tanks_with_a_pipe():
    """Of two stirred tanks the second gets what the first had 0.4 s before (Luus 2000, Iterative
    Dynamic Programming, section 8.3.3): the optimum of the same without delays, in five pieces of
    0.4 s that follow one another (method of steps)."""
    x1, x2, x3, x4, u1, u2 = ks.dynamicsymbols("x1:5 u1:3")
    first = (x1 + 0.5) * sp.exp(25 * x2 / (x2 + 2))
    second = (x3 + 0.25) * sp.exp(25 * x4 / (x4 + 2))
    equations = [
        x1.diff(t) - (0.5 - x1 - first),
        x2.diff(t) - (first - (x2 + 0.25) * (2 + u1)),
        x3.diff(t) - (ks.delayed(x1, tau) - x3 - second + 0.25),
        x4.diff(t) - (ks.delayed(x2, tau) - 2 * x4 - u2 * (x4 + 0.25) + second - 0.25),
    ]
    start = {x1: 0.15, x2: -0.03, x3: 0.1, x4: 0.0}
    found = solved(
        ks.Model("tanks", [x1, x2, x3, x4], [u1, u2], [tau], equations),
        ks.Experiment(np.linspace(0.0, 2.0, 41), history={x1: 0.15, x2: -0.03}),
        "radau-5",
        known={tau: 0.4},
        unknown_inputs={u1: (-0.5, 0.5), u2: (-0.5, 0.5)},
        objective=ks.Integral(x1**2 + x2**2 + x3**2 + x4**2 + 0.1 * (u1**2 + u2**2)),
        boundary=[ks.at_start(name) - value for name, value in start.items()],
    )
    assert found.objective == pytest.approx(0.024612879978, rel=1e-7)


# -- what is refused ------------------------------------------------------------------------------

LAG = ks.Model("lag", [x], [u], [tau, k], [x.diff(t) + k * ks.delayed(x, tau) - u], values={k: 1.0})
LAG_OF_INPUT = ks.Model("lagging", [x], [u], [tau], [x.diff(t) + x - ks.delayed(u, tau)])
TIME = np.linspace(0.0, 1.0, 11)


def lagging(model=LAG, unknown=None, known=None, history=None, **more):
    given = {"inputs": {u: 0.0}, "measurements": {x: np.cos(TIME)}, **more.pop("trial", {})}
    trial = ks.Experiment(TIME, history=history or {}, **given)
    return ks.Collocation(model, trial, unknown or {}, known or {}, **more)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lagging(known={tau: -0.1}), "is -0.1 s; a delay is not negative"),
        (lambda: lagging(unknown={tau: (-0.1, 0.2)}), r"has the bounds \(-0.1, 0.2\)"),
        (
            lambda: lagging(unknown={tau: None}),
            r"needs finite bounds: unknown=\{tau: \(0.05, 0.2\)",
        ),
        (lambda: lagging(known={tau: 2.0}), "is 2 s or more, and trial 0 lasts 1 s"),
        (lambda: lagging(known={tau: 0.1}, history={u: 0.0}), "history of u, which has no delay"),
        (
            lambda: lagging(known={tau: 0.3}, history={x: ks.Signal([-0.2, 0.0], [1.0, 1.0])}),
            "begins at t = -0.2 s, and x.t - tau. reaches back to -0.3 s",
        ),
        (lambda: lagging(known={tau: 0.3}, history={x: np.cos}), "ks.Signal.times, values"),
        (
            lambda: lagging(known={tau: 0.3}, history={x: ks.Signal([-0.2, -0.1], [1.0, 1.0])}),
            "goes on to the start of the trial",
        ),
        (
            lambda: lagging(unknown={tau: (0.1, 0.2)}, path=[ks.delayed(x, tau, range=(0.3, 1.0))]),
            "have nothing in common",
        ),
        (
            lambda: lagging(known={tau: 0.1}, boundary=[ks.at_end(ks.delayed(x, tau))]),
            "a condition at the ends of a trial contains a delay",
        ),
        (
            lambda: lagging(known={tau: 0.1}, objective=ks.Terminal(ks.delayed(x, tau) ** 2)),
            "the terminal cost contains a delay",
        ),
        (
            lambda: lagging(
                LAG_OF_INPUT, {tau: (0.1, 0.2)}, unknown_inputs={u: ks.held()}, trial={"inputs": {}}
            ),
            "input u is held between nodes",
        ),
        (
            lambda: lagging(known={tau: 0.1}, unknown_inputs={"x(t - tau)": None}),
            "unknown_inputs: x.t - tau. is unknown",
        ),
        (
            lambda: lagging(known={tau: 0.1}, trial={"measurements": {"x(t - tau)": TIME}}),
            "make it an output with a name of its own",
        ),
        (
            lambda: ks.Collocation(
                LAG,
                ks.Phases(
                    [ks.Experiment(TIME, inputs={u: 0.0}) for _ in range(2)],
                    links=[ks.at_end(x) - ks.at_start(x)],
                ),
                known={tau: 0.1},
            ),
            "phases have none",
        ),
        (
            lambda: ks.Collocation(
                ks.Model("p", [x], [], [tau, k], [x.diff(t) + ks.delayed(x, tau * k**2)]),
                ks.Experiment(TIME, measurements={x: TIME}),
                {k: (0.1, 1.0)},
                {tau: 0.1},
            ),
            "is not linear in what is unknown",
        ),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_guess_outside_the_bounds_is_moved_inside():
    problem = lagging(unknown={tau: (0.1, 0.2)})
    with pytest.warns(UserWarning, match="the guess of parameter tau, 0.5, is outside"):
        z = problem.pack({tau: 0.5})
    assert problem.unpack(z)["tau"] == 0.2
    with pytest.raises(ValueError, match=r"guess: x\(t - tau\) is unknown"):
        problem.pack({"x(t - tau)": 1.0})


def test_constraints_have_names():
    problem = lagging(known={tau: 0.1})
    last = problem.constraint_name(problem.n_constraints - 1)
    assert last == "value of x(t - tau) at interval 9 (t = 1 s) of trial 0"


# -- delays that change, gains that are to be found ------------------------------------------------


def test_a_delay_of_the_state():
    """Feldstein, Neves 1984, SIAM J. Numer. Anal. 21, 844-863: y' = y(y - sqrt 2 + 1)/(2 sqrt t)
    from y = 1 at t = 1 is sqrt(t), and from t = 2 on t/4 + 1/2 + (1 - 1/sqrt 2) sqrt(t)."""
    late = ks.delayed(x, t - (x - sp.sqrt(2) + 1), range=(0.2, 2.6))
    model = ks.Model("feldstein", [x], [], [], [x.diff(t) - late / (2 * sp.sqrt(t))])
    errors = []
    for nodes in (25, 49):
        s = np.linspace(1.0, 4.0, nodes)
        trial = ks.Experiment(s, history={x: 1.0})
        start = [ks.at_start(x) - 1]
        found = solved(model, trial, "hermite-simpson", boundary=start, objective=NOTHING)
        later = s / 4.0 + 0.5 + (1.0 - np.sqrt(0.5)) * np.sqrt(s)
        errors.append(np.abs(found["x"] - np.where(s <= 2.0, np.sqrt(s), later)).max())
    assert np.log2(errors[0] / errors[1]) > 3.9
    assert not found.trials[0].inputs  # the delay is an output, too


def response(time, gain, late):
    """Of x' = -gain x(t - late) + sines, when the start is forgotten: inputs and states."""
    rates, phases = np.array([0.7, 1.9, 3.1]), np.array([0.3, 1.1, 2.0])
    push = np.exp(1j * (np.outer(time, rates) + phases))
    moved = push / (1j * rates + gain * np.exp(-1j * rates * late))
    return push.imag.sum(axis=1), moved.imag.sum(axis=1)


#: A gain, and delays of two subjects.
TRUE = np.array([1.5, 0.2, 0.33])


@pytest.fixture(scope="module")
def records():
    """Of two subjects with delays of their own."""
    time, rng = np.linspace(0.0, 12.0, 241), np.random.default_rng(4)
    early = np.linspace(-1.0, 12.0, 1041)
    made = []
    for name, late in zip("ab", TRUE[1:], strict=True):
        push, course = response(early, TRUE[0], late)
        made.append(
            ks.Experiment(
                time,
                inputs={u: ks.Signal(early[::4], push[::4], between="cubic")},
                measurements={x: np.interp(time, early, course) + 0.01 * rng.standard_normal(241)},
                std={x: 0.01},
                labels={"subject": name},
                history={x: ks.Signal(early, course, between="cubic")},
            )
        )
    return made


LOOP = ks.Model("loop", [x], [u], [k, tau], [x.diff(t) + k * ks.delayed(x, tau) - u])


@pytest.fixture(scope="module")
def fitted(records):
    unknown = {k: (0.0, 5.0), tau: ks.per("subject", ks.log_scale(0.05, 0.8))}
    problem = ks.Collocation(LOOP, records, unknown)
    return problem, problem.solve(guess={k: 1.0, tau: 0.1})


def test_delays_per_subject(fitted):
    found = fitted[1]
    assert found.success
    assert "time-structured" in found.linear_solver
    for name, true in zip(("k", "tau[a]", "tau[b]"), TRUE, strict=True):
        row = found.parameters.table[name]
        assert abs(row.value - true) < 3.0 * row.standard_error < 0.02


def from_one(time, gain, late):
    """x' = -gain x(t - late) from x = 1 at t = 0, with nothing before."""
    powers = np.arange(60)
    passed = np.maximum(time[:, None] - powers * late, 0.0)
    terms = np.cumsum(np.log(np.maximum(powers, 1.0)))
    sizes = passed**powers * gain**powers / np.exp(terms)
    return (np.where(time[:, None] >= powers * late, sizes, 0.0) * (-1.0) ** powers).sum(axis=1)


def test_standard_errors_are_those_of_the_linearised_response(fitted, records):
    """By the derivatives of the closed form, with the starts, which are estimated, too."""
    table, h = fitted[1].parameters.table, 1e-5

    def moved(values):
        pairs = zip(records, values[1:], strict=True)
        return np.concatenate([response(r.grid, values[0], late)[1] for r, late in pairs])

    slopes = [(moved(TRUE + h * e) - moved(TRUE - h * e)) / (2.0 * h) for e in np.eye(3)]
    starts = [from_one(r.grid, TRUE[0], late) for r, late in zip(records, TRUE[1:], strict=True)]
    rows = [*slopes, np.append(starts[0], 0.0 * starts[1]), np.append(0.0 * starts[0], starts[1])]
    expected = 0.01 * np.sqrt(np.diag(np.linalg.inv(np.array(rows) @ np.array(rows).T)))
    errors = [table[name].standard_error for name in ("k", "tau[a]", "tau[b]")]
    assert errors == pytest.approx(expected[:3], rel=0.03)


@pytest.mark.study
def test_other_ways_to_the_same(fitted, tmp_path):
    problem, found = fitted
    pytest.importorskip("cyipopt")
    values = found.parameters
    for more in ({"hessian": "gauss-newton"}, {"linear_solver": "mumps"}, {"driver": "cyipopt"}):
        other = problem.solve(guess={k: 1.0, tau: 0.1}, **more)
        assert other.success
        assert other.parameters == pytest.approx(dict(values), rel=1e-6)
    assert problem.solve(guess=found).iterations <= 2
    found.save(tmp_path / "fit.nc")
    loaded = ks.Solution.load(tmp_path / "fit.nc")
    assert loaded.trials[1]["x(t - tau)"] == pytest.approx(
        found.trials[1]["x(t - tau)"], nan_ok=True
    )
    finer = problem.refined(found, 1e-5)
    assert finer.solve().parameters == pytest.approx(dict(values), rel=1e-3)


def test_a_profile_of_a_delay(fitted):
    found = fitted[1]
    profile, row = found.profile("tau[a]"), found.parameters.table["tau[a]"]
    assert profile.low == pytest.approx(row.low, abs=0.1 * row.standard_error)
    assert profile.high == pytest.approx(row.high, abs=0.1 * row.standard_error)


def test_a_simulation_follows_a_solution(fitted, records):
    problem, found = fitted
    assert problem.verify(found).largest < 1e-4
    with pytest.raises(ValueError, match="is simulated as a whole"):
        problem.verify(found, segments=2)


def test_process_noise_beside_a_delay():
    """A delay of next to nothing is none, for the marginal likelihood, too."""
    time, rng = np.linspace(0.0, 1.0, 21), np.random.default_rng(0)
    y = 0.1 * np.cumsum(rng.standard_normal(21)) + 0.05 * rng.standard_normal(21)
    y[-1] = np.nan
    trial = ks.Experiment(time, measurements={x: y}, std={x: 0.05})
    found = []
    for late in (x, ks.delayed(x, 1e-9)):
        problem = ks.Collocation(
            ks.Model("drift", [x], [w], [k], [x.diff(t) + k * late - w]),
            trial,
            known={k: 1.0},
            scheme="midpoint",
            objective=ks.LeastSquares() + ks.Integral(w**2 / 0.4**2),
            unknown_inputs={w: ks.held()},
        )
        found.append(problem.log_likelihood(problem.solve()))
    assert found[1] == pytest.approx(found[0], abs=1e-6)


def test_an_unknown_delay_that_needs_elimination_forwards_in_time():
    """Standing with a late reflex by Hermite-Simpson: backwards too few pivots are good."""
    kp, kd = sp.symbols("kp kd")
    feedback = kp * ks.delayed(x, tau) + kd * ks.delayed(v, tau)
    model = ks.Model(
        "balance",
        [x, v],
        [u],
        [kp, kd, tau],
        [x.diff(t) - v, v.diff(t) - 9.81 * sp.sin(x) + feedback - u],
        values={kp: 13.0, kd: 4.0, tau: 0.1},
    )
    chance, grid, rest = np.random.default_rng(0), np.arange(1000) * 0.01, {x: 0.0, v: 0.0}
    push = 0.06 * np.convolve(chance.standard_normal(1000), np.ones(20), "same")
    run = ks.simulate(model, grid, rest, inputs={u: ks.Signal(grid, push)}, history=rest)
    seen = run["x"] + 0.001 * chance.standard_normal(1000)
    trial = ks.Experiment(grid, measurements={x: seen}, std={x: 0.001}, inputs={u: push})
    unknown = {kp: (5.0, 30.0), kd: (1.0, 10.0), tau: (0.05, 0.2)}
    problem = ks.Collocation(model, trial, unknown=unknown, scheme="hermite-simpson")
    solution = problem.solve(guess={kp: 10.0, kd: 3.0, tau: 0.15})
    assert solution.linear_solver.startswith("time-structured (1000 stages forwards")
    assert solution.parameters["tau"] == pytest.approx(0.1, abs=0.005)
    low, high = solution.intervals().intervals()["tau"]
    assert low < 0.1 < high
