"""Models with tables: a cubic through points of a cubic polynomial is that polynomial, so that
every way to run, fit and switch a model has an exact twin without a table."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

import kinesym as ks
import kinesym.hybrid as kh

q, v, F = ks.dynamicsymbols("q v F")
k, c = sp.symbols("k c")
TIME = np.linspace(0.0, 2.0, 41)
START = {q: 1.0, v: 0.2}
ANGLES, SPEEDS = np.array([-1.5, -0.9, -0.2, 0.3, 1.0, 1.6]), np.array([-4.0, -1.0, 0.5, 1.5, 4.0])


def spring(x):
    """A cubic polynomial."""
    return 1.5 * x - 0.4 * x**2 + 0.8 * x**3


def brake(x, y):
    """One of two variables."""
    return (0.3 + 0.1 * x**2) * y - 0.02 * x * y**3


def twin(tables):
    """A spring and a brake, as tables or as polynomials; outputs with both."""
    if tables:
        force = ks.table(q, ANGLES, spring(ANGLES), outside="continue", name="spring")
        grid = brake(*np.meshgrid(ANGLES, SPEEDS, indexing="ij"))
        drag = ks.table((q, v), (ANGLES, SPEEDS), grid, outside="continue", name="brake")
    else:
        force, drag = spring(q), brake(q, v)
    return ks.Model(
        "twin",
        [q, v],
        [F],
        [k, c],
        [q.diff(ks.t) - v, v.diff(ks.t) + k * force + c * drag - F],
        outputs={"power": -c * drag * v, "pull": k * force},
        values={k: 4.0, c: 1.2},
    )


@pytest.fixture(scope="module")
def twins():
    return twin(True), twin(False)


def both(twins, run):
    """What a function makes of both models."""
    return [run(model) for model in twins]


def assert_same(one, other, rtol=1e-10):
    one, other = np.asarray(one), np.asarray(other)
    np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max(initial=1e-3))


@pytest.mark.parametrize("method", ["rk4", "dormand-prince", "radau-5"])
def test_simulations(twins, method):
    table, plain = both(
        twins, lambda m: ks.simulate(m, TIME, START, inputs={F: np.sin(TIME)}, method=method)
    )
    for name in ("q", "v", "power", "pull"):
        assert_same(table[name], plain[name])
    assert table.parameters == {"k": 4.0, "c": 1.2}


def test_ensembles(twins):
    """With parameters that differ between members, and with other states at the start only."""
    many = (
        {"parameters": {k: np.linspace(2.0, 6.0, 11)}},
        {"initial": {q: 1.0, v: 0.2 * np.arange(11.0)}},
    )
    for given in many:
        run = {"initial": START, **given, "inputs": {F: 0.0 * TIME}}
        table, plain = both(twins, lambda m, run=run: ks.simulate(m, TIME, **run))
        assert_same(table["q"], plain["q"])
        assert_same(table["power"], plain["power"])
        assert set(table.parameters) == {"k", "c"}


def test_delayed_models():
    """A late spring, alone and in an ensemble with parameters that differ."""
    found = []
    for tables in (True, False):
        late = ks.delayed(q, sp.Rational(1, 5))
        curve = (
            ks.table(late, ANGLES, spring(ANGLES), outside="continue") if tables else spring(late)
        )
        model = ks.Model("late", [q], [], [k], [q.diff(ks.t) + k * curve])
        many = ks.simulate(model, TIME, {q: 1.0}, {k: np.linspace(0.2, 1.0, 5)}, history={q: 1.0})
        one = ks.simulate(model, TIME, {q: 1.0}, {k: 0.2}, history={q: 1.0})
        found.append((many["q"], one["q"]))
    for table, plain in zip(*found, strict=True):
        assert_same(table, plain, 1e-7)


def test_functions_and_jacobians(twins):
    table, plain = both(twins, ks.compile)
    rng = np.random.default_rng(1)
    points = (rng.normal(size=(2, 7)), rng.normal(size=(2, 7)), rng.normal(size=(1, 7)), [4.0, 1.2])
    for one, other in ((table.residual, plain.residual), (table.outputs, plain.outputs)):
        assert_same(one(*points), other(*points))
    assert_same(table.rhs(*points[1:]), plain.rhs(*points[1:]))
    for of in ("residual", "outputs"):
        for wrt in ("states", "inputs", "parameters", "derivatives"):
            assert_same(
                table.jacobian(*points, of=of, wrt=wrt), plain.jacobian(*points, of=of, wrt=wrt)
            )


def motion(model):
    """A record of it."""
    return ks.simulate(model, TIME, START, inputs={F: np.sin(TIME)}, method="dormand-prince")


@pytest.fixture(scope="module")
def trial(twins):
    run = motion(twins[1])
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(TIME))
    return ks.Experiment(
        TIME, inputs={F: np.sin(TIME)}, measurements={q: run["q"] + noise}, std={q: 0.01}
    )


@pytest.mark.parametrize("scheme", ["radau-3", "hermite-simpson"])
def test_collocation(twins, trial, scheme):
    """Values, Jacobian and Hessian at a random point; the estimates with their intervals, the error
    of the grid, a simulation of the answer."""
    given = {"unknown": {k: (0.0, 20.0), c: (0.0, 9.0)}, "scheme": scheme}
    table, plain = both(twins, lambda m: ks.Collocation(m, trial, **given))
    z = np.random.default_rng(4).uniform(-2.0, 2.0, table.n_variables)
    weights = np.random.default_rng(5).normal(size=table.n_constraints)
    assert_same(table.constraints(z), plain.constraints(z))
    assert_same(table.constraint_jacobian(z).toarray(), plain.constraint_jacobian(z).toarray())
    one, other = (p.lagrangian_hessian(z, weights, 0.7).toarray() for p in (table, plain))
    assert_same(one, other)
    one, other = (p.solve({k: 3.0, c: 1.0}) for p in (table, plain))
    assert one.iterations == other.iterations
    for name in ("k", "c"):
        assert_same(one.parameters[name], other.parameters[name], 1e-8)
        errors = [s.parameters.standard_errors()[name] for s in (one, other)]
        assert_same(*errors, 1e-7)
    assert set(one.parameters) == {"k", "c"}
    if scheme == "radau-3":
        shifts = [s.grid_error().parameters["k"] for s in (one, other)]
        assert_same(*shifts, 1e-6)
        checks = [p.verify(s) for p, s in zip((table, plain), (one, other), strict=True)]
        assert str(checks[0]) == str(checks[1])


def test_shooting(twins, trial):
    """The adjoint is exact; fits agree."""
    for method in ("rk4", "radau-3"):
        given = {"unknown": {k: (0.0, 20.0)}, "initial": START, "method": method}
        table, plain = both(twins, lambda m, given=given: ks.Shooting(m, trial, **given))
        guess = {k: 3.3}
        assert_same(table.cost(guess), plain.cost(guess))
        for mode in ("adjoint", "forward", "continuous-adjoint"):
            assert_same(table.gradient(guess, mode=mode), plain.gradient(guess, mode=mode), 1e-9)


def test_objectives_and_conditions_bring_tables_of_their_own():
    """A cost and a path condition from points, that the model does not have, as by polynomials."""
    model = ks.Model("mass", [q, v], [F], [k], [q.diff(ks.t) - v, v.diff(ks.t) + k * q - F])
    points, found = np.linspace(-8.0, 8.0, 9), []
    for tables in (True, False):
        cost = ks.table(F, points, points**2, outside="continue") if tables else F**2
        fence = ks.table(q, points, points**3, outside="continue") if tables else q**3
        problem = ks.Collocation(
            model,
            ks.Experiment(np.linspace(0.0, 1.0, 31)),
            known={k: 2.0},
            objective=ks.Integral(cost),
            unknown_inputs={F: (-30.0, 30.0)},
            boundary=[ks.at_start(q), ks.at_start(v), ks.at_end(q) - 1.0, ks.at_end(v)],
            path=[(fence, -1.0, 1.0)],
        )
        found.append(problem.solve())
    assert found[0].success and found[0].iterations == found[1].iterations
    assert_same(found[0].objective, found[1].objective, 1e-9)
    assert_same(found[0]["F"], found[1]["F"], 1e-6)


def hill(tables):
    """A ball that slides and bounces on a curved ground."""
    x, y, vx, vy, N = ks.dynamicsymbols("x y vx vy N")
    points = np.linspace(-1.0, 3.0, 9)
    profile = (lambda p: 0.3 * p**2 - 0.1 * p**3) if not tables else None
    ground = ks.table(x, points, 0.3 * points**2 - 0.1 * points**3) if tables else profile(x)
    slope = ground.diff(x)
    steep = sp.sqrt(1 + slope**2)
    g = sp.Symbol("g")
    model = ks.Model(
        "hill",
        [x, y, vx, vy],
        [N],
        [g],
        [
            x.diff(ks.t) - vx,
            y.diff(ks.t) - vy,
            vx.diff(ks.t) + slope / steep * N,
            vy.diff(ks.t) - N / steep + g,
        ],
        outputs={"ground": ground},
        values={g: 9.81},
    )
    floor = kh.Contact("floor", (y - ground) / steep, N, restitution=0.6)
    far = kh.Event("far", ground - 0.15 if tables else profile(x) - 0.15, 1, resets={vx: 0.9 * vx})
    return kh.Hybrid(model, contacts=[floor], events=[far])


def test_hybrid_models():
    """Events, impacts, contacts, and derivatives across them."""
    time, start = np.linspace(0.0, 1.5, 76), {"x": 0.0, "y": 0.4, "vx": 0.8, "vy": 0.0}
    table, plain = hill(True), hill(False)
    runs = [ks.sensitivities(h, time, start) for h in (table, plain)]
    one, other = (r.run for r in runs)
    assert [e.name for e in one.events] == [e.name for e in other.events]
    assert_same([e.time for e in one.events], [e.time for e in other.events], 1e-9)
    for name in ("x", "y", "ground"):
        assert_same(one[name], other[name], 1e-8)
    slopes = [r.forward(wrt=["g", "vx"]) for r in runs]
    assert_same(slopes[0]["y"], slopes[1]["y"], 1e-7)
    back = [r.gradient("y") for r in runs]
    assert set(back[0].parameters) == {"g"}
    assert_same(back[0].parameters["g"], back[1].parameters["g"], 1e-7)


def test_a_thousand_points_of_a_smooth_curve():
    """A table that no polynomial is, against SciPy's solution with its spline."""
    points = np.linspace(-2.0, 2.0, 1000)
    model = ks.Model(
        "fine",
        [q, v],
        [],
        [],
        [q.diff(ks.t) - v, v.diff(ks.t) + ks.table(q, points, np.tanh(points))],
    )
    run = ks.simulate(model, TIME, START, method="dormand-prince")
    spline = CubicSpline(points, np.tanh(points))
    exact = solve_ivp(
        lambda _, x: [x[1], -spline(x[0])],
        (0.0, 2.0),
        [1.0, 0.2],
        "DOP853",
        TIME,
        rtol=1e-11,
        atol=1e-12,
    )
    assert_same(run["q"], exact.y[0], 1e-7)


def test_a_simulation_says_where_a_table_ends():
    model = ks.Model(
        "short",
        [q],
        [],
        [],
        [q.diff(ks.t) - ks.table(q, [0, 1, 2], [1.0, 1.0, 1.0], "linear", "nan")],
    )
    for method in ("rk4", "radau-5"):
        with pytest.warns(
            UserWarning, match="the table says nothing outside of its points, 0 to 2"
        ):
            run = ks.simulate(model, np.linspace(0.0, 3.0, 20), {q: 0.0}, method=method)
        assert run.time[-1] == pytest.approx(2.0, abs=0.16)


def test_a_curve_that_is_found(trial):
    """Values of a spline at points are parameters: found with the shape of the true curve."""
    symbols = sp.symbols("f:6")
    model = ks.Model(
        "unknown",
        [q, v],
        [F],
        symbols,
        [
            q.diff(ks.t) - v,
            v.diff(ks.t) + ks.table(q, ANGLES, symbols, outside="continue") + 1.2 * brake(q, v) - F,
        ],
    )
    problem = ks.Collocation(model, trial, dict.fromkeys(symbols, (-50.0, 50.0)), scheme="radau-5")
    found = problem.solve(dict.fromkeys(symbols, 0.0))
    assert found.success
    z = 0.3 + 0.1 * np.random.default_rng(2).normal(size=problem.n_variables)
    w = np.random.default_rng(3).normal(size=problem.n_constraints)
    hessian, h = problem.lagrangian_hessian(z, w, 1.0).toarray(), 1e-5

    def gradient(z):
        return problem.cost_gradient(z) + problem.constraint_jacobian(z).T @ w

    for j in (0, 17, problem.n_variables - 6, problem.n_variables - 1):
        step = h * np.eye(len(z))[j]
        slope = (gradient(z + step) - gradient(z - step)) / (2.0 * h)
        np.testing.assert_allclose(hessian[j], slope, atol=1e-5 * np.abs(slope).max())
    seen = (trial.measurements["q"].min() < ANGLES) & (trial.measurements["q"].max() > ANGLES)
    for place in np.flatnonzero(seen):
        name, true = f"f{place}", 4.0 * spring(ANGLES[place])
        error = found.parameters.standard_errors()[name]
        assert abs(found.parameters[name] - true) < 4.0 * error


def test_inputs_beyond_a_table_are_named():
    """An input or a time that is known before, where the table says nothing."""
    force = ks.table(F, [-1.0, 0.0, 1.0], [1.0, 0.0, 2.0], "pchip", "nan", "motor")
    clock = ks.table(ks.t, [0.0, 1.0], [1.0, 0.0], "linear", "nan", "clock")
    model = ks.Model("driven", [q], [F], [k], [q.diff(ks.t) + k * q - force])
    late = ks.Model("late", [q], [], [k], [q.diff(ks.t) + k * q - clock])
    words = "the table motor says nothing outside of its points, -1 to 1, and input F"
    with pytest.raises(ValueError, match=f"{words} runs from 0 to 2"):
        ks.simulate(model, TIME, {q: 0.0}, {k: 1.0}, {F: TIME})
    trial = ks.Experiment(TIME, inputs={F: -TIME}, measurements={q: 0.0 * TIME})
    for make in (ks.Collocation, ks.Shooting):
        given = {"initial": {q: 0.0}} if make is ks.Shooting else {}
        with pytest.raises(ValueError, match=f"{words} of trial 0 runs from -2 to 0; give points"):
            make(model, trial, {k: (0.0, 9.0)}, **given)
    with pytest.raises(ValueError, match="its points, 0 to 1, and time runs from 0 to 2"):
        ks.simulate(late, TIME, {q: 0.0}, {k: 1.0})
    ks.simulate(late, TIME[:20], {q: 0.0}, {k: 1.0})


def test_a_limit_of_parameters_may_have_a_table():
    """Checked where the value is given."""
    limit = 2.0 - ks.table(k, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0], "linear")
    model = ks.Model("strong", [q], [], [k], [q.diff(ks.t) + k * q], limits={"k is large": limit})
    ks.simulate(model, TIME, {q: 1.0}, {k: 1.2})
    with pytest.raises(ValueError, match="k is large"):
        ks.simulate(model, TIME, {q: 1.0}, {k: 1.5})


def test_algebraic_models_start_consistent():
    """A force that a table gives, of a state without a rate; ks.consistent finds it."""
    f = ks.dynamicsymbols("f")
    curve = ks.table(q, ANGLES, spring(ANGLES), outside="continue")
    model = ks.Model(
        "algebraic", [q, v, f], [], [], [q.diff(ks.t) - v, v.diff(ks.t) + f, f - curve]
    )
    assert model.index.value == 1
    start = ks.consistent(model, TIME, {q: 0.7, v: 0.0, f: 0.0})
    assert start["f"] == pytest.approx(spring(0.7), rel=1e-12)
    run = ks.simulate(model, TIME, start, method="radau-5")
    assert_same(run["f"], spring(run["q"]), 1e-6)
