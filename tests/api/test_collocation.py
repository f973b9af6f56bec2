"""What a collocation problem can express, on problems with known answers."""

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
        "oscillator", [x, v], [u], [k, c],
        [x.diff(t) - v, v.diff(t) + c * v + k * x - u],
        outputs={"acceleration": v.diff(t), "power": u * v},
        values={k: 4.0, c: 0.3},
    )  # fmt: skip


def run(model, start=1.0, **parameters):
    return ks.simulate(model, TIME, {x: start, v: 0.0}, parameters, {u: np.sin(2.0 * TIME)},
                       substeps=4)  # fmt: skip


def trial(record, **measurements):
    return ks.Experiment(TIME, inputs={u: record["u"]}, measurements=measurements)


def test_trials_share_parameters(oscillator):
    """Two records from different starts; the trials have different lengths."""
    records = [run(oscillator, start) for start in (1.0, -0.5)]
    short = ks.Experiment(TIME[:300], inputs={u: records[1]["u"][:300]},
                          measurements={x: records[1]["x"][:300]})  # fmt: skip
    task = ks.Collocation(oscillator, [trial(records[0], x=records[0]["x"]), short],
                          unknown={k: (0, 10), c: (0, 10)})  # fmt: skip
    solution = task.solve(guess={k: 1.0, c: 1.0})
    assert solution.parameters["k"] == pytest.approx(4.0, rel=1e-3)
    assert solution.parameters["c"] == pytest.approx(0.3, rel=1e-3)
    assert solution.trials[1]["x"].shape == (300,)
    np.testing.assert_array_equal(task.pack(task.unpack(solution.free_vector)),
                                  solution.free_vector)  # fmt: skip


def test_measured_output_with_derivative(oscillator):
    """Only the acceleration v' is measured: it lives between the nodes."""
    record = run(oscillator)
    task = ks.Collocation(oscillator, trial(record, acceleration=record["acceleration"]),
                          unknown={k: (0, 10), c: (0, 10)})  # fmt: skip
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


def test_unknown_input_is_recovered(oscillator):
    """The force from a measured motion, at nodes and between."""
    record = run(oscillator)
    experiment = ks.Experiment(TIME, measurements={x: record["x"], v: record["v"]},
                               std={x: 1e-3, v: 1e-3})  # fmt: skip
    task = ks.Collocation(oscillator, experiment, unknown_inputs={u: (-5, 5)},
                          objective=ks.LeastSquares() + 1e-3 * ks.Integral(u**2))  # fmt: skip
    solution = task.solve()
    middle = slice(20, -20)
    np.testing.assert_allclose(solution["u"][middle], record["u"][middle], atol=0.01)
    np.testing.assert_allclose(solution["power"], solution["u"] * solution["v"], rtol=1e-12)


def test_intermediates_give_the_same_problem(oscillator):
    """Stiffness force and acceleration named as intermediates."""
    s, a = sp.symbols("s a")
    other = ks.Model(
        "named", [x, v], [u], [k, c], [x.diff(t) - v, a - u],
        outputs={"acceleration": v.diff(t), "power": u * v},
        intermediates=[(s, k * x + c * v), (a, v.diff(t) + s)],
    )  # fmt: skip
    record = run(oscillator)
    tasks = [ks.Collocation(m, trial(record, x=record["x"], acceleration=record["acceleration"]),
                            unknown={k: None, c: None}) for m in (oscillator, other)]  # fmt: skip
    z = np.random.default_rng(0).normal(size=tasks[0].n_variables)
    lam = np.random.default_rng(1).normal(size=tasks[0].n_constraints)
    for method, more in (("cost_gradient", ()), ("constraints", ()), ("constraint_jacobian", ()),
                         ("lagrangian_hessian", (lam, 0.5))):  # fmt: skip
        one, two = (getattr(task, method)(z, *more) for task in tasks)
        assert abs(one - two).max() < 1e-12 * abs(one).max()


def test_solution_guides_a_finer_grid(oscillator):
    """A coarse solution as guess for twice the nodes, and for another scheme."""
    record = run(oscillator)
    coarse = ks.Experiment(TIME[::4], inputs={u: record["u"][::4]},
                           measurements={x: record["x"][::4]})  # fmt: skip
    first = ks.Collocation(oscillator, coarse, unknown={k: (0, 10), c: (0, 10)}).solve()
    fine = ks.Collocation(oscillator, trial(record, x=record["x"]),
                          unknown={k: (0, 10), c: (0, 10)})  # fmt: skip
    z = fine.pack(first)
    assert np.abs(fine.unpack(z)["x"] - record["x"]).max() < 1e-2
    assert fine.unpack(z)["k"] == first.parameters["k"]
    assert fine.solve(guess=first).success


def test_covariance_is_that_of_repeated_draws(oscillator):
    """Standard errors against the spread over 40 draws of the noise."""
    record = run(oscillator)
    rng = np.random.default_rng(5)
    found = []
    for _ in range(40):
        noisy = record["x"] + 0.05 * rng.standard_normal(len(TIME))
        experiment = ks.Experiment(TIME, inputs={u: record["u"]}, measurements={x: noisy},
                                   std={x: 0.05})  # fmt: skip
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
    solution = ks.Collocation(oscillator, experiment, objective=ks.Terminal(x**2),
                              boundary=same).solve()  # fmt: skip
    response = 1.0 / complex(4.0 - 4.0, 0.3 * 2.0)  # 1 / (k - w^2 + i c w)
    expected = np.imag(response * np.exp(2j * period))
    np.testing.assert_allclose(solution["x"], expected, atol=1e-3)


def test_degenerate_sizes(oscillator):
    """Two nodes, one interval."""
    experiment = ks.Experiment([0.0, 0.1], inputs={u: [0.0, 0.0]}, measurements={x: [1.0, 0.98]})
    solution = ks.Collocation(oscillator, experiment).solve()
    assert solution.success and solution["x"].shape == (2,)
