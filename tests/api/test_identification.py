"""Optima against numbers of an independent implementation (tests/data/README.md)."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import kinesym as ks

DATA = Path(__file__).parents[1] / "data"
GAINS = [f"k_{i}{j}" for i in range(2) for j in range(4)]


def read(name):
    with gzip.open(DATA / name, "rt") as file:
        return np.genfromtxt(file, delimiter=",", names=True)


@pytest.fixture(scope="module")
def standing():
    data = read("standing_data.csv.gz")
    names = {"theta_a": "th_a_m", "theta_h": "th_h_m", "omega_a": "w_a_m", "omega_h": "w_h_m"}
    trial = ks.Experiment(
        data["t"],
        inputs={"a": data["a_m"]},
        measurements={k: data[v] for k, v in names.items()},
        std=dict.fromkeys(names, "all"),  # as in the study: equal weights of angles and rates
    )
    return ks.Collocation(
        ks.models.standing(), trial, unknown=dict.fromkeys(GAINS), scheme="midpoint"
    )


def test_standing_sizes(standing):
    assert (standing.n_variables, standing.n_constraints) == (24_008, 23_996)
    assert standing.constraint_jacobian(standing.pack()).nnz == 191_968


@pytest.mark.parametrize("start", ["zero", "true"])
def test_standing_optimum(standing, start):
    """K* and J* of one record of set A, from zero and from the true gains."""
    guess = dict.fromkeys(GAINS, 0.0) if start == "zero" else None
    solution = standing.solve(guess=guess)
    expected = [
        988.2445699,
        205.6352024,
        212.2712776,
        53.77941537,
        69.67270379,
        302.0839517,
        66.85893568,
        26.65949693,
    ]
    assert solution.success and solution.iterations <= 15
    np.testing.assert_allclose([solution.parameters[k] for k in GAINS], expected, rtol=1e-8)
    assert 0.01 * solution.objective == pytest.approx(0.6974488842775, rel=1e-9)


def pendulum_fit(scheme="midpoint", boundary=(), guess=1.0):
    data = read("vyas_data.csv.gz")
    trial = ks.Experiment(data["t"], measurements={"theta": data["y1_m"]})
    problem = ks.Collocation(
        ks.models.pendulum(), trial, unknown={"p": None}, scheme=scheme, boundary=list(boundary)
    )
    start = {"p": guess, "theta": data["y1_m"], "omega": data["y2_m"]}
    return problem.solve(guess=start), data["t"][1] - data["t"][0]


@pytest.mark.parametrize("guess", [1.0, 25.0, 50.0, 80.0, 100.0])
def test_pendulum_from_many_guesses(guess):
    solution, step = pendulum_fit(guess=guess)
    assert solution.parameters["p"] == pytest.approx(10.002767066774, abs=1e-8)
    assert step * solution.objective == pytest.approx(0.122522173068, rel=1e-8)
    assert solution["theta"][0] == pytest.approx(0.523850050, abs=1e-7)
    assert solution["omega"][0] == pytest.approx(0.006240385, abs=1e-7)


def test_pendulum_known_start():
    theta, omega = ks.models.pendulum().states
    fixed = [ks.at_start(theta) - np.pi / 6, ks.at_start(omega)]
    solution, step = pendulum_fit(boundary=fixed)
    assert solution.parameters["p"] == pytest.approx(10.001677677667, abs=1e-8)
    assert step * solution.objective == pytest.approx(0.122549715819, rel=1e-8)


def test_pendulum_backward_euler_damps():
    solution, step = pendulum_fit(scheme="backward-euler")
    assert solution.parameters["p"] == pytest.approx(9.852446782990, abs=1e-7)
    assert step * solution.objective == pytest.approx(2.470847864064, rel=1e-8)


def test_bad_start_is_visible_in_the_fit():
    """From p = 0 collocation too ends in a local minimum; the variance accounted for shows it."""
    solution, _ = pendulum_fit(guess=0.0)
    assert solution.success and solution.parameters["p"] < 6.0
    assert solution.vaf()["theta"] < 50.0
    assert "does not follow its samples" in str(solution)


def test_gas_oil_cracking():
    """COPS benchmark: sum of squares of 21 samples of two states, published 5.2366e-3."""
    import sympy as sp

    y1, y2 = ks.dynamicsymbols("y1 y2")
    p1, p2, p3 = sp.symbols("p1:4")
    model = ks.Model(
        "gasoil",
        [y1, y2],
        [],
        [p1, p2, p3],
        [y1.diff(ks.t) + (p1 + p3) * y1**2, y2.diff(ks.t) - p1 * y1**2 + p2 * y2],
    )
    samples = np.genfromtxt(DATA / "cops_gasoil.csv", delimiter=",", skip_header=1)
    time = np.linspace(0.0, 0.95, 1901)
    measured = np.full((2, len(time)), np.nan)
    measured[:, np.round(samples[:, 0] / 0.0005).astype(int)] = samples[:, 1:].T
    trial = ks.Experiment(
        time, measurements={"y1": measured[0], "y2": measured[1]}, std={"y1": "both", "y2": "both"}
    )
    problem = ks.Collocation(
        model,
        trial,
        unknown=dict.fromkeys(("p1", "p2", "p3"), (0.0, None)),
        boundary=[ks.at_start(y1) - 1, ks.at_start(y2)],
    )
    solution = problem.solve()
    assert solution.objective == pytest.approx(5.2366e-3, rel=1e-4)
    expected = [11.84674, 8.344521, 1.001436]
    np.testing.assert_allclose([*solution.parameters.values()], expected, rtol=1e-3)


def test_two_links_on_a_cart():
    """All masses, lengths and gravity of a hanging chain, from a poor guess and noisy states."""
    model = ks.models.n_link_pendulum_on_cart(2)
    true = {"m_0": 2.0, "m_1": 1.0, "m_2": 0.5, "l_1": 1.2, "l_2": 0.8, "g": 9.81}
    rng = np.random.default_rng(0)
    time = np.linspace(0.0, 20.0, 2001)
    waves = zip(rng.uniform(0.5, 8.0, 8), rng.uniform(0.0, 6.0, 8), strict=True)
    force = sum(3.0 * np.sin(w * time + phase) for w, phase in waves)
    start = {"q_0": 0.0, "q_1": np.pi, "q_2": np.pi, "u_0": 0.0, "u_1": 0.0, "u_2": 0.0}
    run = ks.simulate(model, time, start, true, {"F": force}, substeps=5)
    measured = {k: v + 0.01 * rng.standard_normal(len(time)) for k, v in run.states.items()}
    trial = ks.Experiment(time, inputs={"F": force}, measurements=measured)
    task = ks.Collocation(model, trial, unknown=dict.fromkeys(true, (0.05, 20.0)))
    solution = task.solve(guess={**dict.fromkeys(true, 1.0), "g": 5.0})
    assert solution.success and solution.iterations < 30
    for name, value in true.items():
        assert solution.parameters[name] == pytest.approx(value, rel=2e-3)
