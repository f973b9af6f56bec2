"""What a collocation problem can express, on problems with known answers."""

import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, v, u = ks.dynamicsymbols("x v u")
k, c = sp.symbols("k c")
TIME = np.linspace(0.0, 6.0, 601)


@pytest.fixture(scope="module")
def oscillator():
    return ks.Model(
        "oscillator",
        [x, v],
        [u],
        [k, c],
        [x.diff(t) - v, v.diff(t) + c * v + k * x - u],
        outputs={"acceleration": v.diff(t), "power": u * v},
        values={k: 4.0, c: 0.3},
    )


def run(model, start=1.0, **parameters):
    return ks.simulate(
        model, TIME, {x: start, v: 0.0}, parameters, {u: np.sin(2.0 * TIME)}, substeps=4
    )


def trial(record, **measurements):
    return ks.Experiment(TIME, inputs={u: record["u"]}, measurements=measurements)


def test_trials_share_parameters(oscillator):
    """Two records from different starts; the trials have different lengths."""
    records = [run(oscillator, start) for start in (1.0, -0.5)]
    short = ks.Experiment(
        TIME[:300], inputs={u: records[1]["u"][:300]}, measurements={x: records[1]["x"][:300]}
    )
    task = ks.Collocation(
        oscillator,
        [trial(records[0], x=records[0]["x"]), short],
        unknown={k: (0, 10), c: (0, 10)},
        scheme="midpoint",  # all its unknowns are those of the nodes
    )
    solution = task.solve(guess={k: 1.0, c: 1.0})
    assert solution.parameters["k"] == pytest.approx(4.0, rel=1e-3)
    assert solution.parameters["c"] == pytest.approx(0.3, rel=1e-3)
    assert solution.trials[1]["x"].shape == (300,)
    np.testing.assert_array_equal(
        task.pack(task.unpack(solution.free_vector)), solution.free_vector
    )


def test_measured_output_with_derivative(oscillator):
    """Only the acceleration v' is measured: it lives between the nodes."""
    record = run(oscillator)
    task = ks.Collocation(
        oscillator,
        trial(record, acceleration=record["acceleration"]),
        unknown={k: (0, 10), c: (0, 10)},
    )
    solution = task.solve(guess={k: 3.0, c: 0.5, x: record["x"], v: record["v"]})
    assert solution.success
    assert solution.parameters["k"] == pytest.approx(4.0, rel=1e-2)
    assert solution["acceleration"].shape == TIME.shape
    assert solution.vaf()["acceleration"] > 99.9


def test_missing_samples(oscillator):
    """Nine of ten samples are missing."""
    record = run(oscillator)
    sparse = np.full(len(TIME), np.nan)
    sparse[::10] = record["x"][::10]
    solution = ks.Collocation(oscillator, trial(record, x=sparse), unknown={k: (0, 10)}).solve()
    assert solution.parameters["k"] == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("scheme", ["midpoint", "radau-3", "gauss-4", "hermite-simpson"])
def test_unknown_input_is_recovered(oscillator, scheme):
    """The force from a measured motion; outputs with it, too, are continued from the stages."""
    record = run(oscillator)
    experiment = ks.Experiment(
        TIME, measurements={x: record["x"], v: record["v"]}, std={x: 1e-3, v: 1e-3}
    )
    task = ks.Collocation(
        oscillator,
        experiment,
        unknown_inputs={u: (-5, 5)},
        scheme=scheme,
        objective=ks.LeastSquares() + 1e-3 * ks.Integral(u**2),
    )
    solution = task.solve()
    middle = slice(20, -20)
    np.testing.assert_allclose(solution["u"][middle], record["u"][middle], atol=0.01)
    power = solution["u"] * solution["v"]
    if scheme == "hermite-simpson":
        np.testing.assert_allclose(solution["power"], power, rtol=1e-12)
    elif scheme == "radau-3":  # the end of an interval is a stage, its begin is not
        np.testing.assert_allclose(solution["power"][1:], power[1:], rtol=1e-12)
    elif scheme == "gauss-4":
        np.testing.assert_allclose(solution["power"][middle], power[middle], atol=1e-4)
    else:  # straight lines between the middles of the intervals
        N, speeds = len(TIME), solution["v"]
        force = solution.free_vector[2 * N :]
        middles, half = (TIME[:-1] + TIME[1:]) / 2.0, (speeds[:-1] + speeds[1:]) / 2.0
        expected = np.interp(TIME, middles, force * half)
        np.testing.assert_allclose(solution["u"], np.interp(TIME, middles, force), rtol=1e-12)
        np.testing.assert_allclose(solution["power"], expected, rtol=1e-12, atol=1e-15)


def test_intermediates_give_the_same_problem(oscillator):
    """Stiffness force and acceleration named as intermediates."""
    s, a = sp.symbols("s a")
    other = ks.Model(
        "named",
        [x, v],
        [u],
        [k, c],
        [x.diff(t) - v, a - u],
        outputs={"acceleration": v.diff(t), "power": u * v},
        intermediates=[(s, k * x + c * v), (a, v.diff(t) + s)],
    )
    record = run(oscillator)
    tasks = [
        ks.Collocation(
            m,
            trial(record, x=record["x"], acceleration=record["acceleration"]),
            unknown={k: None, c: None},
        )
        for m in (oscillator, other)
    ]
    z = np.random.default_rng(0).normal(size=tasks[0].n_variables)
    lam = np.random.default_rng(1).normal(size=tasks[0].n_constraints)
    for method, more in (
        ("cost_gradient", ()),
        ("constraints", ()),
        ("constraint_jacobian", ()),
        ("lagrangian_hessian", (lam, 0.5)),
    ):
        one, two = (getattr(task, method)(z, *more) for task in tasks)
        assert abs(one - two).max() < 1e-12 * abs(one).max()


def test_solution_guides_a_finer_grid(oscillator):
    """A coarse solution as guess for twice the nodes, and for another scheme."""
    record = run(oscillator)
    coarse = ks.Experiment(
        TIME[::4], inputs={u: record["u"][::4]}, measurements={x: record["x"][::4]}
    )
    first = ks.Collocation(oscillator, coarse, unknown={k: (0, 10), c: (0, 10)}).solve()
    fine = ks.Collocation(
        oscillator, trial(record, x=record["x"]), unknown={k: (0, 10), c: (0, 10)}
    )
    z = fine.pack(first)
    assert np.abs(fine.unpack(z)["x"] - record["x"]).max() < 1e-2
    assert fine.unpack(z)["k"] == first.parameters["k"]
    assert fine.solve(guess=first).success


@pytest.mark.study
def test_covariance_is_that_of_repeated_draws(oscillator):
    """Standard errors against the spread over 40 draws of the noise."""
    record = run(oscillator)
    rng = np.random.default_rng(5)
    found = []
    for _ in range(40):
        noisy = record["x"] + 0.05 * rng.standard_normal(len(TIME))
        experiment = ks.Experiment(
            TIME, inputs={u: record["u"]}, measurements={x: noisy}, std={x: 0.05}
        )
        task = ks.Collocation(oscillator, experiment, unknown={k: (0, 10), c: (0, 10)})
        solution = task.solve()
        found.append([solution.parameters["k"], solution.parameters["c"]])
    expected = np.sqrt(np.diag(task.covariance(solution)))
    np.testing.assert_allclose(np.std(found, axis=0, ddof=1), expected, rtol=0.35)


def test_limited_memory_finds_the_same(oscillator):
    record = run(oscillator)
    task = ks.Collocation(oscillator, trial(record, x=record["x"]), unknown={k: (0, 10)})
    exact = task.solve().parameters["k"]
    assert task.solve(hessian="limited-memory").parameters["k"] == pytest.approx(exact, rel=1e-5)


def test_periodic_orbit(oscillator):
    """Start equals end: the forced response, without transient."""
    period = np.linspace(0.0, np.pi, 401)
    experiment = ks.Experiment(period, inputs={u: np.sin(2.0 * period)})
    same = [ks.at_start(s) - ks.at_end(s) for s in (x, v)]
    solution = ks.Collocation(
        oscillator, experiment, objective=ks.Terminal(x**2), boundary=same
    ).solve()
    response = 1.0 / complex(4.0 - 4.0, 0.3 * 2.0)  # 1 / (k - w^2 + i c w)
    expected = np.imag(response * np.exp(2j * period))
    np.testing.assert_allclose(solution["x"], expected, atol=1e-3)


def test_degenerate_sizes(oscillator):
    """Two nodes, one interval."""
    experiment = ks.Experiment([0.0, 0.1], inputs={u: [0.0, 0.0]}, measurements={x: [1.0, 0.98]})
    solution = ks.Collocation(oscillator, experiment).solve()
    assert solution.success and solution["x"].shape == (2,)


@pytest.mark.parametrize("scheme", ["midpoint", "backward-euler"])
def test_integral_of_a_held_input(scheme):
    """Least energy from rest to rest with 20 constant pieces: the exact optimum is 12.0301."""
    model = ks.Model("z", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u])
    ends = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)]
    grid = np.linspace(0.0, 1.0, 21)
    h = np.diff(grid)
    step = np.array([[1.0, h[0]], [0.0, 1.0]])  # x, v over one interval; what u adds is exact
    push = {"midpoint": [h[0] ** 2 / 2, h[0]], "backward-euler": [h[0] ** 2, h[0]]}[scheme]
    reach = np.column_stack([np.linalg.matrix_power(step, 19 - k) @ push for k in range(20)])
    best = np.linalg.pinv(reach) @ [1.0, 0.0]
    task = ks.Collocation(
        model,
        ks.Experiment(grid),
        scheme=scheme,
        objective=ks.Integral(u**2),
        unknown_inputs={u: ks.held()},
        boundary=ends,
    )
    solution = task.solve()
    assert solution.objective == pytest.approx(h[0] * best @ best, rel=1e-9)
    np.testing.assert_allclose(solution["u"], [*best, np.nan], rtol=1e-6)  # nothing after the end
    if scheme == "midpoint":
        assert solution.objective == pytest.approx(12.0301, abs=1e-4)


def test_relations_are_conditions(oscillator):
    """sp.Eq and inequalities mean what they say."""
    record = run(oscillator)
    task = ks.Collocation(
        oscillator,
        trial(record, x=record["x"]),
        unknown={k: (0, 10)},
        boundary=[sp.Eq(ks.at_start(x), 0.9), ks.at_start(v) >= 0.05],
        path=[x <= 0.95],
    )
    solution = task.solve()
    assert solution["x"][0] == pytest.approx(0.9, abs=1e-6)
    assert solution["v"][0] > 0.05 - 1e-6 and solution["x"].max() < 0.95 + 1e-6


def test_other_numbers_are_not_derived_again(oscillator):
    """Data, bounds, values and the grid are numbers; a condition, or the order of what is measured,
    makes another program."""
    record = run(oscillator)

    def task(names, many=None, **changes):
        data = {n: record[n][:many] for n in names}
        given = {"unknown": {k: (0, 10)}, "path": [(x, -2, 2)], **changes}
        return ks.Collocation(
            oscillator,
            ks.Experiment(TIME[:many], inputs={u: record["u"][:many]}, measurements=data),
            **given,
        )

    first = task("xv")
    again = task("xv", 50, unknown={k: (1, 5)}, path=[(x, -3, 3)], known={c: 0.5})
    assert again.program is first.program and again.timings["compile"] == 0.0
    assert again.solve(guess={k: 2.0}).known["c"] == 0.5
    for other in (task("vx"), task("xv", path=[(x + 1, -2, 2)])):
        assert other.program is not first.program


def test_equations_may_be_written_with_eq():
    model = ks.Model("e", [x], [], [k], [sp.Eq(x.diff(t), -k * x)])
    run = ks.simulate(model, [0.0, 0.1], {x: 1.0}, {k: 2.0}, substeps=4)
    assert run["x"][-1] == pytest.approx(np.exp(-0.2), rel=1e-7)


def test_inactive_inequalities_leave_the_covariance(oscillator):
    record = run(oscillator)
    wide = {"boundary": [(ks.at_start(x), -10, 10)], "path": [(v, -50, 50)]}
    results = []
    for more in ({}, wide):
        task = ks.Collocation(
            oscillator,
            trial(record, x=record["x"] + 0.01 * np.sin(50 * TIME)),
            unknown={k: (0, 10), c: (0, 10)},
            **more,
        )
        results.append(task.covariance(task.solve()))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4)


def test_covariance_refuses_what_is_not_identifiable():
    a, b = sp.symbols("a b")
    model = ks.Model("p", [x], [], [a, b], [x.diff(t) + a * b * x])
    task = ks.Collocation(
        model,
        ks.Experiment(TIME, measurements={x: np.exp(-TIME)}),
        unknown={a: (0.1, 5), b: (0.1, 5)},
    )
    with pytest.raises(ValueError, match="not identifiable"):
        task.covariance(task.solve(guess={a: 0.7, b: 1.1}))


def test_sparse_measurements_between_nodes(oscillator):
    """Every second sample of an acceleration: none is lost."""
    record = run(oscillator)
    half = record["acceleration"].copy()
    half[1::2] = np.nan
    task = ks.Collocation(oscillator, trial(record, acceleration=half), unknown={k: (0, 10)})
    solution = task.solve(guess={k: 3.0, x: record["x"], v: record["v"]})
    assert solution.parameters[k] == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("way", ["links", "cycle"])
def test_links_know_the_time(way, free):
    """`t` is the time of the trial that ends, and of the trial that starts."""
    x = ks.dynamicsymbols("x")
    model = ks.Model("m", [x], [], [], [x.diff(ks.t) - x])
    if free:
        trials = [ks.Experiment(nodes=3, duration=(0.5, 5.0)) for _ in range(2)]
    else:
        trials = [ks.Experiment([1.0, 1.5, 2.0]), ks.Experiment([4.0, 4.5, 5.0])]
    condition = ks.at_end(ks.t * x) - ks.at_start((1 + ks.t) * x)
    phases = ks.Phases(trials, **{way: [condition]})
    problem = ks.Collocation(model, phases, objective=ks.Integral(x**2), scheme="midpoint")
    z = np.array([3.0, 4.0, 5.0, 7.0, 8.0, 9.0, 1.2, 1.7][: problem.n_variables])
    ended, begun, duration = (5.0, 7.0, 1.2) if way == "links" else (9.0, 3.0, 1.7)
    end, start = (duration, 0.0) if free else ((2.0, 4.0) if way == "links" else (5.0, 1.0))
    row = [
        i
        for i in range(problem.n_constraints)
        if "link" in problem.constraint_name(i) or "cycle" in problem.constraint_name(i)
    ][-1]
    assert problem.constraints(z)[row] == pytest.approx(end * ended - (1 + start) * begun)
    found = problem.constraint_jacobian(z).toarray()[row]
    expected = np.zeros(problem.n_variables)
    expected[[2, 3] if way == "links" else [5, 0]] = end, -(1 + start)
    if free:
        expected[6 if way == "links" else 7] = ended
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    second = problem.lagrangian_hessian(z, (np.arange(problem.n_constraints) == row) * 1.0, 0.0)
    assert (
        second.toarray()[6 if way == "links" else 7, 2 if way == "links" else 5] == 1.0
        if free
        else not second.toarray().any()
    )


@pytest.mark.parametrize(
    "metre, second", [(1.0, 1.0), (1e3, 1.0), (1.0, 1e3), (1e-3, 1.0), (1e3, 1e3)]
)
def test_units_do_not_change_what_is_found(metre, second):
    """A pendulum is swung up by its cart; with seconds as milliseconds the objective is 1e-9 times
    as large, and its gradient below every tolerance."""
    x, v, angle, rate, push = ks.dynamicsymbols("x v angle rate push")
    m0, m1, length, g = 1.0, 0.3, 0.5 * metre, 9.81 * metre / second**2
    newton, sine, cosine = metre / second**2, sp.sin(angle), sp.cos(angle)
    cart = (m0 + m1) * v.diff(ks.t) + m1 * length * (rate.diff(ks.t) * cosine - rate**2 * sine)
    swing = v.diff(ks.t) * cosine + length * rate.diff(ks.t) + g * sine
    model = ks.Model(
        "cart",
        [x, angle, v, rate],
        [push],
        [],
        [x.diff(ks.t) - v, angle.diff(ks.t) - rate, cart - push, m1 * length * swing],
    )
    rest = [end(state) for end in (ks.at_start, ks.at_end) for state in (x, v, rate)]
    problem = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 2.0 * second, 61)),
        objective=ks.Integral(push**2),
        unknown_inputs={push: (-30.0 * newton, 30.0 * newton)},
        bounds={x: (-2.0 * metre, 2.0 * metre)},
        boundary=[*rest, ks.at_start(angle), ks.at_end(angle) - sp.pi],
    )
    solution = problem.solve()
    assert solution.success
    assert solution.objective / (newton**2 * second) == pytest.approx(66.78554354, rel=1e-7)


def test_what_takes_long_to_import_is_left_out(tmp_path):
    """Half a second each, of a first solve that is printed and saved, and of a list."""
    code = """
import sys, kinesym as ks
x = ks.dynamicsymbols("x")
model = ks.Model("decay", [x], [], [], [x.diff() + x])
task = ks.Collocation(model, ks.Experiment([0, 1, 2], measurements={x: [1, 0.4, 0.1]}))
solution = task.solve()
assert str(solution) and solution.success and ks.Shooting and ks.simulate
solution.save(sys.argv[1])
print(*sys.modules)"""
    run = [sys.executable, "-c", code, str(tmp_path / "decay.nc")]
    loaded = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert "sympy" in loaded
    late = {"scipy.stats", "scipy.signal", "scipy.optimize", "scipy.interpolate", "cyipopt"}
    late |= {"sympy.physics", "matplotlib", "xarray", "pandas"}
    assert not late & {*loaded}
    code = "import sys, kinesym.cli as cli; cli.main(['list']); print(*sys.modules)"
    run = [sys.executable, "-c", code]  # examples bring what they need
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    loaded = said.splitlines()[-1].split()
    assert not {*late, "sympy"} & {*loaded}
