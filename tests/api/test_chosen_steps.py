"""Shooting by methods that choose their steps: values, derivatives, bad starts, what is refused."""

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.integrate
import sympy as sp

import kinesym as ks
from kinesym.symbolic.schemes import EXPLICIT, SCHEMES

t = ks.t
METHODS = ["dormand-prince", "radau-5"]
x, y, u = ks.dynamicsymbols("x y u")
k, c, p = sp.symbols("k c p")


def steps_of(task, trial=0):
    """The ends of the steps of the last simulation, the start first."""
    made = task._trials._trials[trial]
    return np.append(task.trials[trial].grid[0], made.run.steps[0])


# -- stiff kinetics, against an engine of NumPy's and against tight tolerances ---------------------


class Kinetics:
    """A model of rates, its start, values of its parameters, a record, and tolerances."""

    def __init__(self, name, rates, values, start, time, measured, std, method, atol):
        self.rates, self.values, self.start, self.method = rates, values, start, method
        self.model = ks.Model(
            name, list(rates), [], list(values), [s.diff(t) - rate for s, rate in rates.items()]
        )
        run = ks.simulate(self.model, time, start, values, method="radau-5", rtol=1e-8, atol=atol)
        rows = {s: run[str(s.func)] + std[s] for s in measured}
        self.trial, self.atol = ks.Experiment(time, measurements=rows, std=std), atol

    def shooting(self, rtol, **more):
        given = {"method": self.method, "rtol": rtol, "atol": self.atol, **more}
        unknown = {name: (0.5 * v, 2.0 * v) for name, v in self.values.items()}
        return ks.Shooting(self.model, self.trial, unknown, initial=self.start, **given)

    def discrete_cost(self, steps, q):
        """J of the steps of the method, by NumPy, for complex q."""
        names = sp.symbols(f"s:{len(self.rates)}")
        places = dict(zip(self.rates, names, strict=True))
        expressions = sp.Matrix([*self.rates.values()]).subs(places)
        given = (names, list(self.values))
        rate = sp.lambdify(given, list(expressions))
        slope = sp.lambdify(given, expressions.jacobian(names))
        state, J = np.array([*self.start.values()], complex), 0.0
        for h, end in zip(np.diff(steps), steps[1:], strict=True):
            state = (radau if self.method == "radau-5" else explicit)(
                lambda s: np.array(rate(s, q), complex), lambda s: slope(s, q), state, h
            )
            for node in np.flatnonzero(self.trial.grid == end):
                for name, row in self.trial.measurements.items():
                    at = [str(s.func) for s in self.rates].index(name)
                    J += ((state[at] - row[node]) / self.trial.std[name][node]) ** 2
        first = [str(s.func) for s in self.rates]
        for name, row in self.trial.measurements.items():
            begin = [*self.start.values()][first.index(name)]
            J += ((begin - row[0]) / self.trial.std[name][0]) ** 2
        return J


def explicit(rate, slope, state, h):
    a, found = EXPLICIT["dormand-prince"].tableau["a"], []
    for row in a[:-1]:
        found.append(rate(state + h * sum(w * r for w, r in zip(row, found, strict=False))))
    return state + h * sum(w * r for w, r in zip(a[-1], found, strict=True))


def radau(rate, slope, state, h):
    """The end of a step: Newton's method, with derivatives at each stage."""
    a, n = np.array(SCHEMES["radau-5"].tableau["a"][:-1]), len(state)
    z = np.zeros((3, n), complex)
    for _ in range(12):
        defect = z - h * a @ np.array([rate(state + each) for each in z])
        slopes = [np.asarray(slope(state + each), complex) for each in z]
        matrix = np.block([[-h * a[i, j] * slopes[j] for j in range(3)] for i in range(3)])
        z = z - np.linalg.solve(matrix + np.eye(3 * n), defect.ravel()).reshape(3, n)
    return state + z[-1]


@cache
def immune():
    """Five populations of cells and a pathogen after Crauste et al. 2017, Cell Systems 4, 306, with
    samples days apart."""
    N, E, L, M, P = ks.dynamicsymbols("N E L M P")
    names = "delta_NE delta_EL delta_LM mu_EE mu_LL mu_N mu_PL rho_E rho_P"
    numbers = [0.0119, 0.518, 0.0226, 3.91e-5, 8.12e-6, 0.74, 3.63e-5, 0.507, 0.11]
    ne, el, lm, ee, ll, n, pl, e, grow = symbols = sp.symbols(names)
    rates = {
        N: -n * N - ne * P * N,
        E: ne * P * N + e * P * E - ee * E**2 - el * E,
        L: el * E - ll * L**2 - lm * L,
        M: lm * L,
        P: grow * P**2 - pl * L * P - 1e-5 * P,
    }
    start = {N: 8090.0, E: 0.0, L: 0.0, M: 0.0, P: 1.0}
    time, std = np.array([0.0, 4, 6, 7, 8, 13, 15, 22, 28]), {N: 64.0, E: 2000.0, M: 5000.0}
    values = dict(zip(symbols, numbers, strict=True))
    return Kinetics("immune", rates, values, start, time, [N, E, M], std, "radau-5", 1e-6)


@cache
def robertson():
    """The reactions of Robertson 1966, to 4e5 s."""
    A, B, C = ks.dynamicsymbols("A B C")
    r1, r2, r3 = sp.symbols("r1 r2 r3")
    slow, back, fast = r1 * A, r2 * B * C, r3 * B**2
    rates = {A: back - slow, B: slow - back - fast, C: fast}
    time = np.append(0.0, np.geomspace(0.4, 4e5, 7))
    given = {r1: 0.04, r2: 1e4, r3: 3e7}, {A: 1.0, B: 0.0, C: 0.0}
    return Kinetics("robertson", rates, *given, time, [A, C], {A: 0.05, C: 0.05}, "radau-5", 1e-12)


@cache
def relaxing(mu, method, end):
    """The oscillator of van der Pol."""
    time = np.append(0.0, end * np.array([0.2, 0.45, 0.7, 1.0]))
    rates = {x: y, y: k * (1 - x**2) * y - x}
    return Kinetics("relaxing", rates, {k: mu}, {x: 2.0, y: 0.0}, time, [x], {x: 0.1}, method, 1e-9)


@pytest.mark.parametrize(
    "made",
    [immune, robertson, lambda: relaxing(3.0, "dormand-prince", 12.0)],
    ids=["immune", "robertson", "relaxing"],
)
def test_derivatives_are_those_of_the_steps_as_they_are(made):
    """By complex steps along a direction, through steps of NumPy's of the same lengths, however
    loose the tolerance is; forward and by the adjoint."""
    problem = made()
    task = problem.shooting(1e-4)
    q = task.pack({name: 1.02 * v for name, v in problem.values.items()})
    J, steps = task.cost(q), steps_of(task)
    assert len(steps) < 100 and np.isin(task.trials[0].grid, steps).all()
    way = q * np.random.default_rng(0).uniform(-1.0, 1.0, len(q))
    there = problem.discrete_cost(steps, q + 1e-30j * way)
    assert pytest.approx(there.real, rel=1e-12) == J
    gradient = task.gradient(q)
    size = np.abs(gradient * way).max()
    assert gradient @ way == pytest.approx(there.imag / 1e-30, abs=1e-11 * size)
    np.testing.assert_allclose(
        task.gradient(q, "forward") * q, gradient * q, rtol=1e-11, atol=1e-11 * size
    )
    r, slopes = task.residuals(q), task.residual_jacobian(q)
    np.testing.assert_allclose(2.0 * r @ slopes * q, gradient * q, rtol=1e-9, atol=1e-11 * size)


@pytest.mark.parametrize("made", [immune, robertson], ids=["immune", "robertson"])
def test_derivatives_are_those_of_the_motion_to_the_tolerance(made):
    """By differences of simulations with tight tolerances."""
    problem = made()
    tight, task = problem.shooting(1e-11), problem.shooting(1e-7)
    q = task.pack({name: 1.02 * v for name, v in problem.values.items()})
    assert task.cost(q) == pytest.approx(tight.cost(q), rel=1e-6)
    many = len(steps_of(tight))
    assert len(steps_of(task)) < 260 < many  # and more than are recorded at once
    way = 1e-4 * q * np.random.default_rng(0).uniform(-1.0, 1.0, len(q))
    slope = tight.cost(q + way) - tight.cost(q - way)
    slope = (8.0 * slope - (tight.cost(q + 2 * way) - tight.cost(q - 2 * way))) / 12.0
    assert task.gradient(q) @ way == pytest.approx(slope, rel=1e-5)
    J = tight.cost(q)  # with room for all steps now
    assert problem.shooting(1e-11).cost(q) == J


def test_a_relaxation_oscillation():
    """Of mu = 1000, whose jumps last a thousandth of the time between them; against SciPy."""
    problem = relaxing(1000.0, "radau-5", 1500.0)
    task = problem.shooting(1e-8)
    run = task.trajectories({k: 1000.0})[0]
    exact = scipy.integrate.solve_ivp(
        lambda s, z: [z[1], 1000.0 * (1 - z[0] ** 2) * z[1] - z[0]],
        (0.0, 1500.0),
        [2.0, 0.0],
        "Radau",
        run.time,
        rtol=1e-10,
        atol=1e-10,
    )
    np.testing.assert_allclose(run["x"], exact.y[0], rtol=1e-5)
    assert len(steps_of(task)) < 600
    low, high = (task.cost({k: value}) for value in (999.0, 1001.0))
    assert task.gradient({k: 1000.0})[0] == pytest.approx(0.5 * (high - low), rel=1e-3)


# -- closed forms ----------------------------------------------------------------------------------

LINEAR = ks.Model("linear", [x], [u], [k, c], [x.diff(t) + k * x - c - u])


def of_time(time, rate, level, start):
    """x of x' = level - rate x + t, and its derivatives by rate, level and start, (3, N)."""
    R, s = sp.symbols("R s", positive=True)
    C, X = sp.symbols("C X")
    particular = C / R + s / R - 1 / R**2
    found = particular + (X - particular.subs(s, 0)) * sp.exp(-R * s)
    rows = sp.lambdify((s, R, C, X), [found, *(found.diff(v) for v in (R, C, X))])
    value, *slopes = (row + 0.0 * time for row in rows(time, rate, level, start))
    return value, np.array(slopes)


@pytest.mark.parametrize("method", METHODS)
def test_gradient_of_a_closed_form(method):
    """Samples at the nodes and between them, all of which end steps."""
    grid, late = np.array([0.0, 1.0, 2.5, 6.0]), np.array([0.3, 0.31, 4.0])
    measured = {x: ks.Signal(late, [0.5, 0.4, 2.0]), "twice": np.array([2.0, 1.0, 2.0, 5.0])}
    trial = ks.Experiment(grid, {u: grid}, measurements=measured, std={x: 0.1, "twice": 0.2})
    task = ks.Shooting(
        LINEAR,
        trial,
        {k: (0.1, 5.0), c: None},
        initial={x: None},
        method=method,
        rtol=1e-10,
        atol=1e-12,
        sensors={"twice": 2 * x},
    )
    q = np.array([1.3, 0.4, 0.9])
    exact, (first, others) = np.zeros(3), ([0.5, 0.4, 2.0], [2.0, 1.0, 2.0, 5.0])
    J = 0.0
    for time, row, factor, std in ((late, first, 1.0, 0.1), (grid, others, 2.0, 0.2)):
        value, slopes = of_time(time, *q)
        e = (factor * value - row) / std
        J, exact = J + e @ e, exact + 2.0 * factor / std * slopes @ e
    assert task.cost(q) == pytest.approx(J, rel=1e-9)
    np.testing.assert_allclose(task.gradient(q), exact, rtol=1e-8)
    np.testing.assert_allclose(task.gradient(q, "forward"), exact, rtol=1e-8)
    assert np.isin([*grid, *late], steps_of(task)).all()
    fit = task.solve({k: 1.0, c: 0.0, x: 1.0}, optimizer="least-squares")
    assert fit.success and fit.grid_error().shifts["k"] == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("between", ["cubic", "linear"])
def test_inputs_that_change_within_intervals(method, between):
    """Known inputs with samples between the nodes: the cost is that of a simulation, its gradient
    that of differences."""
    times = np.linspace(0.0, 4.0, 15) ** 1.3 / 4.0**0.3
    signal = ks.Signal(times, np.sin(3.0 * times), between)
    time = np.arange(5.0)
    trial = ks.Experiment(time, {u: signal}, {x: np.cos(time)}, {x: 0.1})
    with warnings.catch_warnings(record=True):  # the cubic one changes between nodes
        warnings.simplefilter("always")
        problem = ks.Shooting(
            LINEAR, trial, {k: (0, 5), c: (-3, 3)}, initial={x: 1.0}, method=method
        )
        at, tight = {"k": 1.2, "c": 0.3}, {"method": method, "rtol": 1e-9, "atol": 1e-11}
        run = ks.simulate(LINEAR, time, {x: 1.0}, at, {u: signal}, **tight)
    expected = (((run["x"] - np.cos(time)) / 0.1) ** 2).sum()
    assert problem.cost(at) == pytest.approx(expected, rel=1e-6)
    q, step = problem.pack(at), 1e-5 * np.eye(2)
    slope = [(problem.cost(q + h) - problem.cost(q - h)) / 2e-5 for h in step]
    np.testing.assert_allclose(problem.gradient(q), slope, rtol=1e-5)
    np.testing.assert_allclose(problem.gradient(q, mode="forward"), slope, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("held", [False, True])
def test_unknown_inputs(method, held):
    """J is quadratic in samples of the input, so that differences are exact, and segments."""
    grid = np.array([0.0, 0.5, 1.5, 2.0, 4.0])
    trial = ks.Experiment(grid, measurements={x: np.cos(grid)}, std={x: 0.1})
    task = ks.Shooting(
        LINEAR,
        trial,
        known={k: 2.0, c: 0.5},
        unknown_inputs={u: ks.held() if held else None},
        initial={x: 1.0},
        segments=2,
        method=method,
        rtol=1e-10,
    )
    q = np.random.default_rng(0).normal(size=len(task.names))
    gradient = task.gradient(q)
    slopes = [(task.cost(q + e) - task.cost(q - e)) / 2.0 for e in np.eye(len(q))]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-7 * np.abs(slopes).max())
    if held:
        assert gradient[-1] == 0.0  # what is held from the end on


@pytest.mark.parametrize("method", METHODS)
def test_segments(method):
    """Gaps and their derivatives, and the fit of one segment."""
    grid = np.linspace(0.0, 6.0, 7)
    row, _ = of_time(grid, 1.3, 0.4, 0.9)
    noise = 0.01 * np.random.default_rng(1).normal(size=7)
    trial = ks.Experiment(grid, {u: grid}, measurements={x: row + noise}, std={x: 0.01})
    about = {"initial": {x: 0.9}, "method": method}
    one, three = (
        ks.Shooting(LINEAR, trial, {k: (0.1, 5.0), c: None}, **about, segments=s) for s in (1, 3)
    )
    q = three.pack({k: 1.0, c: 0.2})
    slopes = three._trials.gap_jacobian(q).toarray()
    for j, step in enumerate(1e-4 * np.eye(len(q))):
        ways = three._trials.gaps(q + step), three._trials.gaps(q - step)
        np.testing.assert_allclose((ways[0] - ways[1]) / 2e-4, slopes[:, j], atol=1e-6)
    fits = [task.solve({k: 1.0, c: 0.2}, optimizer="ipopt") for task in (one, three)]
    assert all(fit.success for fit in fits)
    for name in ("k", "c"):
        assert fits[1].parameters[name] == pytest.approx(fits[0].parameters[name], rel=1e-6)


def test_algebraic_states():
    """0 = y^3 + y - x beside x' = -k y: against x(t) by y, of dy (3 y^2 + 1) = -k y dt."""
    model = ks.Model("algebraic", [x, y], [], [k], [x.diff(t) + k * y, y**3 + y - x])
    grid = np.array([0.0, 0.7, 2.0])
    trial = ks.Experiment(grid, measurements={y: np.array([1.0, 0.8, 0.2])}, std={y: 0.1})
    task = ks.Shooting(
        model, trial, {k: (0.1, 5.0)}, initial={x: 2.0, y: 1.0}, method="radau-5", rtol=1e-10
    )

    def course(rate):
        def left(value, time):
            return 1.5 * value**2 + np.log(value) - 1.5 + rate * time

        return [scipy.optimize.brentq(left, 1e-3, 1.0, (s,), xtol=1e-15) for s in grid[1:]]

    there, slope = np.array(course(0.9)), []
    e = (there - [0.8, 0.2]) / 0.1
    slope = -there * grid[1:] / (3 * there**2 + 1)
    assert task.cost({k: 0.9}) == pytest.approx(e @ e, rel=1e-9)
    assert task.gradient({k: 0.9})[0] == pytest.approx(20.0 * e @ slope, rel=1e-8)
    assert task.gradient({k: 0.9}, "forward")[0] == pytest.approx(20.0 * e @ slope, rel=1e-8)


# -- bad starts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("optimizer", ["bfgs", "least-squares"])
def test_a_motion_that_escapes_is_a_bad_point(method, optimizer):
    """x' = p x^2 from 1 is 1/(1 - p t): infinite at t = 1/p. A fit from -3 goes too far, and comes
    back."""
    model = ks.Model("escaping", [x], [], [p], [x.diff(t) - p * x**2])
    grid = np.array([0.0, 0.4, 0.8, 1.0])
    trial = ks.Experiment(grid, measurements={x: 1.0 / (1.0 - 0.9 * grid)}, std={x: 1e-3})
    task = ks.Shooting(model, trial, {p: (-10.0, 10.0)}, initial={x: 1.0}, method=method)
    assert task.cost({p: 1.5}) == np.inf and np.isfinite(task.cost({p: 0.99}))
    for what in (task.gradient, task.residuals, task.trajectories):
        with pytest.raises(ValueError, match=r"between t = 0\.4 and 0\.8 s"):
            what({p: 1.5})
    costs, simulated = [], task._trials._simulated
    task._trials._simulated = lambda q: costs.append(q[0]) or simulated(q)
    fit = task.solve({p: -3.0}, optimizer=optimizer)
    assert fit.success and fit.parameters["p"] == pytest.approx(0.9, rel=1e-6)
    assert max(costs) > 1.0  # it was there
    assert np.isinf(task.cost({p: 1.5}))
    found = task.multistart(6, ranges={p: (-3.0, 3.0)})
    assert found.best.parameters["p"] == pytest.approx(0.9, rel=1e-6)


def test_the_cost_depends_on_the_unknowns_alone():
    """Whatever was simulated before."""
    problem = robertson()
    task, q = problem.shooting(1e-6), np.array([0.04, 1e4, 3e7])
    before = task.cost(q), *task.gradient(q)
    assert task.cost(1.3 * q) != before[0]
    assert (task.cost(q), *task.gradient(q)) == before


# -- what else there is ----------------------------------------------------------------------------


def test_what_is_told_and_refused():
    grid = np.array([0.0, 1.0, 3.0])
    trial = ks.Experiment(grid, {u: 0.0}, measurements={x: [1.0, 0.5, 0.4]}, std={x: 0.1})
    about = {"unknown": {k: (0.1, 9.0)}, "known": {c: 0.3}, "initial": {x: 1.0}}
    task = ks.Shooting(LINEAR, trial, **about, method="radau-5", rtol=1e-6, atol=1e-8)
    assert "rtol 1e-06, atol 1e-08" in task.solve({k: 1.0}).setting["method"]
    with pytest.raises(ValueError, match="no continuous adjoint of steps that radau-5 chooses"):
        task.gradient({k: 1.0}, "continuous-adjoint")
    fixed = ks.Shooting(LINEAR, trial, **about, method="radau-5", substeps=2)
    assert "2 steps per interval" in fixed.solve({k: 1.0}).setting["method"]
    assert ks.forecast(task, {k: 1.0}).standard_errors()["k"] > 0.0
    for words, given in {
        "dormand-prince chooses its steps by rtol": {"method": "dormand-prince", "substeps": 2},
        "radau-5 takes fixed steps": {"method": "radau-5", "substeps": 2, "rtol": 1e-3},
    }.items():
        with pytest.raises(ValueError, match=words):
            ks.Shooting(LINEAR, trial, **{**about, **given})
    measured = ks.Experiment(grid, {u: 0.0}, measurements={"late": [1.0, 0.5, 0.4]})
    late = {"sensors": {"late": ks.sensor(x, delay=p)}, "method": "radau-5"}
    about["unknown"] = {k: (0.1, 9.0), p: (0.0, 0.4)}
    with pytest.raises(ValueError, match=r"delay of sensor late is unknown.*fixed steps"):
        ks.Shooting(LINEAR, measured, **{**about, **late})
