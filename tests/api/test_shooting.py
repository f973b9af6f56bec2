"""Identification by shooting: published optima, optimisers, uncertainty, segments, bad input."""

import gzip
import os
import re
import signal
import warnings
from contextlib import contextmanager
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
import kinesym.shooting as shooting_module
from kinesym.runtime.shooting.optimizers import OPTIMIZERS
from kinesym.runtime.status import Solve

matplotlib.use("Agg")

DATA = Path(__file__).parents[1] / "data"
t = ks.t


def read(name, **how):
    with gzip.open(DATA / name, "rt") as file:
        return np.genfromtxt(file, delimiter=",", **how)


# -- the controlled inverted pendulum, specification section 1.5 -----------------------------

GAINS, FILTER = ["KP", "KI", "KD"], ["A", "B"]
TOPPLE = 60.0 * 9.81 * 1.13  # m g h


def sway(unknown, method="rk4", column=2):
    """J = integral of (u_COP - u_ref)^2 / 2; column 3 is a reference made with other noise."""
    data, model, ref = read("cip_10Hz.csv.gz", skip_header=1).T, ks.models.cip(), U_REF
    noise = ks.Signal(data[0], data[1], "held")
    trial = ks.Experiment(data[0], inputs={"x": noise, "u_ref": data[column]})
    objective = ks.Integral((model.outputs["u_COP"] - ref) ** 2 / 2)
    unknown = unknown if isinstance(unknown, dict) else dict.fromkeys(unknown)
    return ks.Shooting(
        model,
        trial,
        unknown,
        initial=dict.fromkeys(model.state_names, 0.0),
        objective=objective,
        method=method,
    )


U_REF = ks.dynamicsymbols("u_ref")

#: Identified values, J* and condition number in unknowns divided by their guesses, as printed
TABLE = {
    ("rk4", "K"): ([1657.744, 22.20270, 375.0225], 2.662743e-5, 11.6),
    ("rk4", "A,B"): ([644.2149, 66.41145], 3.075406e-5, 8.0),
    ("rk4", "all"): ([1395.977, 19.28643, 257.2875, 1022.158, 112.0536], 8.289843e-6, 219.0),
    ("trapezoid", "all"): ([1402.789, 19.47865, 261.5029, 1032.987, 112.2036], 8.294480e-6, 218.0),
}
FREE = {"K": GAINS, "A,B": FILTER, "all": [*GAINS, *FILTER]}


@pytest.fixture(scope="module")
def sways():
    return {key: sway(FREE[key[1]], key[0]) for key in TABLE}


@pytest.mark.parametrize("optimizer", ["least-squares", "bfgs", "ipopt"])
@pytest.mark.parametrize("key", [*TABLE], ids=" ".join)
def test_published_optimum(sways, key, optimizer):
    values, objective, condition = TABLE[key]
    fit = sways[key].solve(optimizer=optimizer)
    np.testing.assert_allclose(fit.values, values, rtol=1.2e-6)  # the printed digits
    assert fit.objective == pytest.approx(objective, rel=2e-7)
    slopes = sways[key].residual_jacobian(fit)
    assert np.linalg.cond(slopes * sways[key].pack()) == pytest.approx(condition, rel=5e-3)
    assert fit.condition == pytest.approx(np.linalg.cond(slopes * fit.values), rel=1e-6)
    assert not fit.active and not fit.notes
    assert np.abs(fit.gradient * fit.values).max() < 3e-6 * fit.objective
    assert fit.success, fit.message


@pytest.mark.parametrize(
    ("free", "scaled", "raw"),
    [("K", 2.6628e-5, 2.9e-5), ("A,B", 3.0755e-5, 4.0e-5), ("all", 8.6e-6, 1.0e-5)],
)
def test_steepest_descent_needs_scales(sways, free, scaled, raw):
    """Lesson B: 500 iterations in parameters divided by their guesses, and in raw ones."""
    shooting = sways["rk4", free]
    fit = shooting.solve(optimizer="steepest-descent")
    assert fit.objective < scaled
    falls = np.diff([step.objective for step in fit.history])
    assert (falls < 0.0).all() and fit.iterations <= 500
    plain = shooting.solve(optimizer="steepest-descent", scale=False)
    assert plain.iterations == 500 and not plain.success
    assert raw < plain.objective < shooting.cost()


def test_unrelated_noise_runs_to_a_bound():
    """Lesson C: no finite minimiser; it ends at a bound and says at which. What is left is as
    certain as if the one at the bound were known."""
    bounds = {"KP": (TOPPLE, 3e3), "KI": (0.0, 500.0), "KD": (0.0, 1e3)}
    shooting = sway(bounds, column=3)
    for optimizer in ("least-squares", "bfgs", "ipopt"):
        fit = shooting.solve(optimizer=optimizer)
        assert fit.active == ["KD"] and fit.success
        assert "at a bound   KD" in str(fit)
        np.testing.assert_allclose(fit.values, [1277.59, 437.467, 1000.0], rtol=1e-5)
        assert fit.gradient[2] < 0.0
        assert np.abs(fit.gradient[:2] * fit.values[:2]).max() < 1e-5 * fit.objective


def test_errors_beside_a_bound():
    """As in collocation, an unknown far beyond a bound is nearly fixed there; what is left is
    known hardly worse than with it known."""
    bounds = {"KP": (TOPPLE, 3e3), "KI": (0.0, 500.0), "KD": (0.0, 1e3)}
    shooting = sway(bounds, column=3)
    fit = shooting.solve(optimizer="least-squares")
    slopes = shooting.residual_jacobian(fit.values)[:, :2]
    expected = np.linalg.inv(slopes.T @ slopes) * fit.objective / (601 - 2)
    errors = fit.standard_errors()
    more = np.array([errors["KP"], errors["KI"]]) / np.sqrt(np.diag(expected))
    assert ((more > 1.0) & (more < 1.05)).all()


def test_never_worse_than_the_guess():
    """KD may grow until RK4 is unstable at this step: whatever comes back is the best found."""
    shooting = sway({"KP": (TOPPLE, 3e3), "KI": (0.0, None), "KD": (0.0, None)}, column=3)
    start = shooting.cost()
    for optimizer in OPTIMIZERS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = shooting.solve(optimizer=optimizer)
        best = min(step.objective for step in fit.history)
        assert fit.objective <= best * (1.0 + 1e-9) < start, optimizer


# -- a small model for everything else ------------------------------------------------------

x, v, u = ks.dynamicsymbols("x v u")
k, c, q = sp.symbols("k c q")
#: A pendulum with damping; with q > 0 it can escape
SWING = ks.Model(
    "swing",
    [x, v],
    [u],
    [k, c, q],
    [x.diff(t) - v, v.diff(t) + k * sp.sin(x) + c * v - u - q * x**3],
    outputs={"load": k * sp.sin(x) + c * v},
    values={k: 3.0, c: 0.2, q: 0.0},
)
TIME = np.linspace(0.0, 6.0, 61)
PUSH = np.sin(2.0 * TIME)
TRUE = np.array([3.0, 0.2])


def swinging(position=0.5, rate=0.0, method="rk4"):
    return ks.simulate(SWING, TIME, {x: position, v: rate}, inputs={u: PUSH}, method=method)


def samples(noise, seed=0, **start):
    return swinging(**start)["x"] + noise * np.random.default_rng(seed).standard_normal(61)


def swing(data=None, unknown=(k, c), **more):
    """Damping and stiffness from one record of x, or from records of several trials."""
    data = samples(0.02) if data is None else data
    trials = [ks.Experiment(TIME, {u: PUSH}, {x: row}, {x: 0.02}) for row in np.atleast_2d(data)]
    unknown = unknown if isinstance(unknown, dict) else dict.fromkeys(unknown)
    return ks.Shooting(
        SWING,
        trials[0] if len(trials) == 1 else trials,
        unknown,
        **{"initial": {x: 0.5, v: 0.0}, **more},
    )


@pytest.fixture(scope="module")
def one():
    return swing()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_noisy_record(one, optimizer):
    """Each optimiser converges from a poor guess, and says so."""
    fit = one.solve({k: 2.0, c: 0.5}, optimizer=optimizer)
    best = one.solve({k: 3.0, c: 0.2}, optimizer="least-squares", tolerance=1e-13)
    np.testing.assert_allclose(fit.values, best.values, rtol=1e-4)
    errors = fit.standard_errors()
    assert (np.abs(fit.values - TRUE) < 4.0 * np.array([errors["k"], errors["c"]])).all()
    assert fit.vaf()["x"] > 99.0 and fit.optimizer == optimizer
    assert fit.objective == one.cost(fit) == pytest.approx(61.0, rel=0.4)
    np.testing.assert_array_equal(fit.gradient, one.gradient(fit))
    for step in fit.history:  # values and objective belong together
        assert one.cost(step.values) == pytest.approx(step.objective, rel=1e-9)
    assert one.cost(fit.history[0].values) == one.cost({k: 2.0, c: 0.5})
    assert fit.success, fit.message


def test_limit_of_iterations(one):
    for optimizer in OPTIMIZERS:
        fit = one.solve({k: 2.0, c: 0.5}, optimizer=optimizer, max_iterations=2)
        assert not fit.success and fit.iterations <= 2 and fit.objective <= one.cost([2.0, 0.5])


def test_objective_without_squares(one):
    """An objective that is no sum of squares: no residuals, and a gradient all the same."""
    objective = ks.Integral(k**2 / 100 + sp.cosh(x - sp.cos(t) / 2)) + ks.Terminal(sp.exp(x))
    trial = ks.Experiment(TIME, {u: PUSH})
    shooting = ks.Shooting(
        SWING, trial, {k: (0.5, 9.0), c: (0.0, 3.0)}, initial={x: 0.5, v: 0.0}, objective=objective
    )
    fits = [shooting.solve({k: 2.0, c: 0.5}, optimizer=o) for o in ("bfgs", "ipopt")]
    np.testing.assert_allclose(fits[0].values, fits[1].values, rtol=1e-5)
    assert np.isnan(fits[0].covariance).all() and np.isfinite(fits[0].condition)
    grid = [shooting.cost(fits[0].values + d) for d in 0.01 * np.array([[1, 0], [-1, 0], [0, 1]])]
    assert min(grid) > fits[0].objective
    with pytest.raises(ValueError, match=r"least-squares needs a sum of squares: .* is no square"):
        shooting.solve(optimizer="least-squares")


# -- uncertainty ----------------------------------------------------------------------------


def test_covariance_by_monte_carlo():
    """Fits of 60 noisy records scatter as every one of them says."""
    clean, values, inside = swinging()["x"], [], 0
    shooting = swing(clean)
    said = shooting.solve(optimizer="least-squares").covariance
    measured = shooting.trials[0].measurements["x"]
    for seed in range(60):
        noise = 0.02 * np.random.default_rng(seed).standard_normal(61)
        fit = swing(clean + noise).solve(optimizer="least-squares")
        values.append(fit.values)
        z = np.linalg.solve(fit.covariance, fit.values - TRUE) @ (fit.values - TRUE)
        inside += z < 5.991  # 95 % of chi-squared with two degrees of freedom
    assert np.isfinite(measured).all()
    found = np.cov(np.array(values).T)
    ratio = np.sqrt(np.diag(found) / np.diag(said))
    assert (ratio > 0.75).all() and (ratio < 1.3).all(), ratio  # 60 records: 9 % each
    assert (
        abs(np.corrcoef(np.array(values).T)[0, 1] - said[0, 1] / np.sqrt(said[0, 0] * said[1, 1]))
        < 0.3
    )
    assert 52 <= inside <= 60
    bias = (np.mean(values, axis=0) - TRUE) / np.sqrt(np.diag(said) / 60)
    assert np.abs(bias).max() < 3.5


def test_covariance_of_collocation():
    """Without noise the curvature of least squares is exact: that of collocation is the same."""
    data = swinging(method="trapezoid")["x"]
    shooting = swing(data, method="trapezoid")
    fit = shooting.solve({k: 2.5, c: 0.3}, optimizer="least-squares")
    problem = ks.Collocation(
        SWING,
        shooting.trials,
        {k: None, c: None},
        scheme="trapezoid",
        boundary=[ks.at_start(x) - 0.5, ks.at_start(v)],
    )
    solution = problem.solve({k: 2.5, c: 0.3}, tolerance=1e-12)
    np.testing.assert_allclose(fit.values, TRUE, rtol=1e-8)
    np.testing.assert_allclose(list(solution.parameters.values()), TRUE, rtol=1e-8)
    np.testing.assert_allclose(fit.covariance, problem.covariance(solution), rtol=1e-6)
    names = dict(zip("kc", np.sqrt(np.diag(fit.covariance)), strict=True))
    assert fit.standard_errors() == names


def test_variance_from_the_residuals():
    """An integral of squares has no standard deviation: it is estimated from J. Neither a terminal
    cost without weight nor finer steps are more information."""
    data, ref = samples(0.02), ks.dynamicsymbols("ref")
    trial = ks.Experiment(TIME, {u: PUSH, "ref": data})
    given = swing(data).solve(optimizer="least-squares")  # this one has its std
    known = np.sqrt(np.diag(given.covariance) * given.objective / 59)
    objective = ks.Integral((x - ref) ** 2) + ks.Terminal(1e-12 * v**2)
    for substeps, tolerance in ((1, 0.05), (4, 0.25)):  # between samples the noise is smaller
        shooting = ks.Shooting(
            SWING,
            trial,
            {k: None, c: None},
            initial={x: 0.5, v: 0.0},
            objective=objective,
            substeps=substeps,
        )
        fit = shooting.solve(optimizer="least-squares")
        np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), known, rtol=tolerance)


SIGNALS = ks.dynamicsymbols("s1 s2 s3")


def amplifier(first, second, third):
    """x' = -x + a/b s1 + c s2 + a s3: which of a, b, c matter depends on the signals."""
    a, b = sp.symbols("a b")
    model = ks.Model(
        "amplifier",
        [x],
        list(SIGNALS),
        [a, b, c],
        [x.diff(t) + x - a / b * SIGNALS[0] - c * SIGNALS[1] - a * SIGNALS[2]],
        values={a: 2.0, b: 0.5, c: 1.0},
    )
    waves = np.sin(TIME), np.cos(3.0 * TIME), np.sin(5.0 * TIME)
    inputs = {
        s: w * wave for s, w, wave in zip(SIGNALS, (first, second, third), waves, strict=True)
    }
    run = ks.simulate(model, TIME, {x: 0.0}, inputs=inputs)
    data = run["x"] + 0.01 * np.random.default_rng(3).standard_normal(61)
    trial = ks.Experiment(TIME, inputs, {x: data}, {x: 0.01})
    return ks.Shooting(model, trial, dict.fromkeys((a, b, c)), initial={x: 0.0})


@pytest.mark.parametrize("optimizer", ["least-squares", "bfgs", "ipopt"])
def test_pair_that_is_not_identifiable(optimizer):
    """Without s3 only a/b acts."""
    fit = amplifier(1.0, 1.0, 0.0).solve({"a": 1.0, "b": 1.0, "c": 0.5}, optimizer=optimizer)
    assert fit.parameters["a"] / fit.parameters["b"] == pytest.approx(4.0, rel=0.02)
    assert len(fit.notes) == 1 and fit.condition > 1e3
    assert fit.notes[0] == "a and b are not identifiable together, only as a/b; fix one of them"
    assert np.isnan(fit.standard_errors()["a"])
    assert fit.parameters.table["a"].remark == "known only as a/b"


@pytest.mark.parametrize("optimizer", ["least-squares", "bfgs", "ipopt"])
def test_parameter_without_influence(optimizer):
    """Without s2, c is arbitrary: it stays, its error is not known, and those of the others are
    what they would be without it."""
    shooting = amplifier(1.0, 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = shooting.solve({"a": 1.0, "b": 1.0, "c": 0.7}, optimizer=optimizer)
    assert fit.notes == ["c is not identifiable from this record; fix it"]
    assert fit.parameters["c"] == pytest.approx(0.7)
    errors = fit.standard_errors()
    slopes = shooting.residual_jacobian(fit)[:, :2]
    expected = np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
    assert np.isnan(errors["c"])
    np.testing.assert_allclose([errors["a"], errors["b"]], expected, rtol=1e-6)


def test_everything_identifiable():
    fit = amplifier(1.0, 1.0, 1.0).solve({"a": 1.0, "b": 1.0, "c": 0.5}, optimizer="least-squares")
    assert not fit.notes and fit.condition < 100.0
    np.testing.assert_allclose(fit.values, [2.0, 0.5, 1.0], rtol=0.05)


# -- initial states, several trials, the vector q -------------------------------------------


def test_unknown_initial_states():
    """Positions and rates of two trials with the same parameters; one of them within bounds."""
    data = [samples(0.005, 1, position=0.5, rate=0.8), samples(0.005, 2, position=-1.0, rate=0.1)]
    shooting = swing(data, initial={x: None, v: (-2.0, 0.6)})
    assert shooting.names == [
        "k",
        "c",
        "x(0) of trial 0",
        "v(0) of trial 0",
        "x(0) of trial 1",
        "v(0) of trial 1",
    ]
    low, high = shooting.bounds
    assert (low[[3, 5]] == -2.0).all() and (high[[3, 5]] == 0.6).all() and np.isinf(high[2])
    q0 = shooting.pack({k: 2.0, c: 0.5, v: 0.0})
    np.testing.assert_array_equal(q0[[2, 4]], [data[0][0], data[1][0]])  # from the measurements
    fit = shooting.solve(q0, optimizer="least-squares")
    assert fit.success and fit.active == ["v(0) of trial 0"]  # its truth is 0.8
    assert fit.values[3] == pytest.approx(0.6, abs=1e-6)
    assert fit.values[5] == pytest.approx(0.1, abs=0.02)
    assert fit.initial == {"x": list(fit.values[[2, 4]]), "v": list(fit.values[[3, 5]])}
    for number, trial in enumerate(fit.trials):
        assert trial["x"][0] == fit.values[2 + 2 * number]
        np.testing.assert_array_equal(trial.measurements["x"], data[number])
        np.testing.assert_array_equal(trial["u"], PUSH)
    free = swing(data, initial={x: None, v: None}).solve({k: 2.0, c: 0.5}, "least-squares")
    truth = [*TRUE, 0.5, 0.8, -1.0, 0.1]
    np.testing.assert_allclose(free.values, truth, atol=0.03)
    errors = np.array(list(free.standard_errors().values()))
    assert (np.abs(free.values - truth) < 4.0 * errors).all()


def test_known_initial_states_of_each_trial():
    data = [samples(0.0, position=0.5), samples(0.0, position=-1.0)]
    shooting = swing(data, initial={x: [0.5, -1.0], v: 0.0})
    assert shooting.names == ["k", "c"]
    fit = shooting.solve({k: 2.0, c: 0.5}, optimizer="least-squares")
    np.testing.assert_allclose(fit.values, TRUE, rtol=1e-7)
    assert [run["x"][0] for run in fit.trials] == [0.5, -1.0]


def test_pack_and_unpack(one):
    assert one.names == ["k", "c"]
    np.testing.assert_array_equal(one.pack(), TRUE)  # the values of the model
    np.testing.assert_array_equal(one.pack({"c": 0.4}), [3.0, 0.4])
    np.testing.assert_array_equal(one.pack({k: 2.5, c: 0.1}), [2.5, 0.1])
    assert one.unpack([2.5, 0.1]) == {"k": 2.5, "c": 0.1}
    gradient = one.gradient([2.5, 0.1])
    assert one.unpack(gradient) == {"k": gradient[0], "c": gradient[1]}
    fit = one.solve(optimizer="least-squares", max_iterations=3)
    np.testing.assert_array_equal(one.pack(fit), fit.values)
    wide = swing(unknown={k: (4.0, 9.0), c: None})
    assert wide.pack()[0] == 4.0  # made up, so moved into the bounds
    many = swing(segments=3)
    assert many.names == ["k", "c", "x at node 20", "v at node 20", "x at node 40", "v at node 40"]
    data = many.trials[0].measurements["x"]
    start = many.pack({v: np.arange(61.0)})
    np.testing.assert_array_equal(start, [*TRUE, data[20], 20.0, data[40], 40.0])


def test_bfgs_begins_anew_where_a_bound_cuts_its_steps():
    """Of this record it ended above the minimum, where a step to the bound of q was next to
    nothing."""
    model = ks.Model("decay", [x], [], [k, q], [x.diff(ks.t) + k * x - q])
    time = np.linspace(0.0, 2.0, 81)
    noise = 0.02 * np.random.default_rng(1019).standard_normal(81)
    trial = ks.Experiment(time, measurements={x: np.exp(-1.5 * time) + noise}, std={x: 0.02})
    problem = ks.Shooting(model, trial, {k: (0.1, 5.0), q: (0.0, 2.0)}, initial={x: 1.0})
    found, best = (problem.solve({k: 1.0, q: 0.1}, way) for way in ("bfgs", "least-squares"))
    assert found.success and found.parameters["q"] == 0.0
    assert found.objective == pytest.approx(best.objective, rel=1e-9)


def test_numbers_are_packed_without_trajectories(one, monkeypatch):
    """As in the loops of other optimisers, where these would take longer than J."""
    data = [samples(0.0, position=0.5), samples(0.0, position=-1.0)]
    free = swing(data, initial={x: None, v: 0.0})
    drawn = free.pack({k: 2.5, c: 1, x: [0.3, 0.3]})
    monkeypatch.setattr(shooting_module, "first_guess", None)
    np.testing.assert_array_equal(free.pack({k: 2.5, "c": 1, x: 0.3}), drawn)
    np.testing.assert_array_equal(one.pack({"k": np.float64(2.5), c: 0.1}), [2.5, 0.1])
    wide = swing(unknown={k: (4.0, 9.0), c: None})
    with pytest.warns(UserWarning, match="the guess of k, 10, is outside its bounds"):
        np.testing.assert_array_equal(wide.pack({k: 10.0, c: 0.1}), [9.0, 0.1])


def test_trajectories_are_simulations(one):
    run = one.trajectories({k: 2.0, c: 0.5})[0]
    other = ks.simulate(SWING, TIME, {x: 0.5, v: 0.0}, {k: 2.0, c: 0.5}, {u: PUSH})
    for name in ("x", "v", "load"):
        np.testing.assert_allclose(run[name], other[name], rtol=1e-13, atol=1e-14)
    assert run.parameters == {"k": 2.0, "c": 0.5, "q": 0.0} and run.std["x"][0] == 0.02
    fine = swing(substeps=5).trajectories({k: 2.0, c: 0.5})[0]
    other = ks.simulate(SWING, TIME, {x: 0.5, v: 0.0}, {k: 2.0, c: 0.5}, {u: PUSH}, substeps=5)
    assert len(fine.time) == 61
    np.testing.assert_allclose(fine["x"], other["x"], rtol=1e-13)
    rest = (fine["x"] - fine.measurements["x"]) / 0.02
    assert swing(substeps=5).cost({k: 2.0, c: 0.5}) == pytest.approx(rest @ rest, rel=1e-12)


# -- multiple shooting ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def vyasarayani():
    """Specification section 3.6: J(p) of single shooting has 61 local minima."""
    return read("vyas_data.csv.gz", names=True)


def pendulum(data, segments):
    trial = ks.Experiment(data["t"], measurements={"theta": data["y1_m"]})
    return ks.Shooting(
        ks.models.pendulum(),
        trial,
        {"p": (0.0, 100.0)},
        segments=segments,
        initial={"theta": np.pi / 6, "omega": 0.0},
    )


def test_several_directions_without_influence():
    """Each is named: a and b where only a/b counts, and c where its signal is silent."""
    fit = amplifier(1.0, 0.0, 0.0).solve({"a": 1.0, "b": 1.0, "c": 0.7}, "least-squares")
    words = " ".join(fit.notes)
    assert len(fit.notes) == 2 and "c is not identifiable" in words
    assert "a and b are not identifiable together" in words or "b and a are not" in words


@pytest.mark.parametrize(
    ("p", "segments", "neighbour", "J"),
    [(9.0, 20, 9.02742484, 12.065), (11.0, 20, 11.01445979, 12.214), (25.0, 100, None, None)],
)
def test_segments_cross_local_minima(vyasarayani, p, segments, neighbour, J):
    """From p where single shooting ends in the next local minimum: with segments, p = 10."""
    data = vyasarayani
    step = data["t"][1]
    stuck = pendulum(data, 1).solve({"p": p}, optimizer="least-squares")
    if neighbour:
        assert stuck.parameters["p"] == pytest.approx(neighbour, abs=1e-6)
        assert step * stuck.objective == pytest.approx(J, abs=1e-3)
    assert abs(stuck.parameters["p"] - 10.0) > 0.5
    assert "theta of trial 0 does not follow its samples" in str(stuck)
    shooting = pendulum(data, segments)
    fit = shooting.solve({"p": p, "theta": data["y1_m"], "omega": data["y2_m"]}, "ipopt")
    assert fit.success and fit.iterations < 60 and not fit.notes
    assert fit.parameters["p"] == pytest.approx(10.0001505661, abs=2e-9)
    assert step * fit.objective == pytest.approx(0.12254969598, rel=1e-9)
    assert fit.vaf()["theta"] > 98.0
    whole = pendulum(data, 1).trajectories({"p": fit.parameters["p"]})[0]
    np.testing.assert_allclose(fit["theta"], whole["theta"], atol=1e-7)  # no gaps are left


@pytest.mark.parametrize("method", ["rk4", "trapezoid"])
def test_derivatives_of_the_gaps(method):
    """Ends of segments minus starts of the next, while these differ."""
    problem = swing(method=method, segments=3, initial={x: 0.5, v: None})._trials
    at = np.array([2.5, 0.3, 0.2, 0.9, -0.8, -0.4, 1.1])
    gaps = problem.gaps(at).copy()
    assert np.abs(gaps).min() > 0.01
    slopes = problem.gap_jacobian(at).toarray()
    for j in range(len(at)):
        e = 1e-4 * np.eye(len(at))[j]
        near, far = (problem.gaps(at + n * e) - problem.gaps(at - n * e) for n in (1, 2))
        np.testing.assert_allclose(slopes[:, j], (8 * near - far) / 12e-4, atol=1e-9)


# -- results and files ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def fit(one):
    return one.solve({k: 2.0, c: 0.5}, optimizer="least-squares")


def test_text(fit):
    text = str(fit)
    assert text.startswith("swing: ") and "iterations of least-squares" in text
    error = fit.standard_errors()["k"]
    assert f"k            {fit.parameters['k']:.6g} +- {error:.2g}" in text
    for part in ("fit (VAF)    x 9", "condition", "seconds", "derive", "compile", "total"):
        assert part in text
    assert "at a bound" not in text and "note" not in text
    assert repr(fit).startswith("<fit of swing: ") and "\n" not in repr(fit)
    assert fit.parameters[k] == fit.parameters["k"] and fit.known == {"q": 0.0}
    np.testing.assert_array_equal(fit.time, TIME)
    np.testing.assert_array_equal(fit[x], fit["x"])


def test_save_and_load(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    back = ks.Fit.load(tmp_path / "fit.nc")
    assert str(back) == str(fit)
    for name in (
        "success",
        "message",
        "objective",
        "condition",
        "optimizer",
        "model",
        "parameters",
        "known",
        "initial",
        "timings",
    ):
        assert getattr(back, name) == getattr(fit, name), name
    for name in ("names", "active", "notes"):
        assert list(getattr(back, name)) == list(getattr(fit, name))
    for name in ("values", "gradient", "covariance"):
        np.testing.assert_array_equal(getattr(back, name), getattr(fit, name))
    assert [step.objective for step in back.history] == [step.objective for step in fit.history]
    np.testing.assert_array_equal(back.history[-1].values, fit.history[-1].values)
    assert len(back.trials) == 1 and back.vaf() == fit.vaf()
    for name in ("x", "v", "u", "load"):
        np.testing.assert_array_equal(back[name], fit[name])
    fit.trials[0].save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"run.nc was not written by Fit.save"):
        ks.Fit.load(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"fit.nc was not written by Trajectory.save"):
        ks.Trajectory.load(tmp_path / "fit.nc")


def test_pictures(fit):
    figure = fit.plot()
    axes = [axis for axis in figure.axes if axis.axison]
    assert [axis.get_ylabel() for axis in axes] == ["x", "v", "u", "load"]
    drawn = [line.get_ydata() for line in axes[0].get_lines()]
    assert any(np.array_equal(row, fit["x"]) for row in drawn)
    assert any(np.array_equal(row, fit.trials[0].measurements["x"]) for row in drawn)
    assert figure.get_suptitle().startswith("swing: ")
    figure = fit.plot_history()
    top, bottom = figure.axes
    objectives = [step.objective for step in fit.history]
    np.testing.assert_array_equal(top.get_lines()[0].get_ydata(), objectives)
    assert top.get_yscale() == "log" and bottom.get_lines()[0].get_ydata()[-1] == 1.0
    assert [text.get_text() for text in bottom.get_legend().get_texts()] == ["k", "c"]
    matplotlib.pyplot.close("all")


# -- Ctrl-C ---------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_interrupt_returns_the_best_iterate(one, monkeypatch, sigint, optimizer, tmp_path):
    @contextmanager
    def pressing(show):
        def report(step):
            if step.number == 2:
                os.kill(os.getpid(), signal.SIGINT)

        yield report

    monkeypatch.setattr("kinesym.runtime.shooting.minimising.iteration_line", pressing)
    fit = one.solve({k: 2.0, c: 0.5}, optimizer=optimizer)
    assert fit.status is Solve.INTERRUPTED and fit.interrupted and not fit.success
    assert "interrupted" in fit.message and fit.iterations == 2
    assert fit.objective == pytest.approx(min(step.objective for step in fit.history), rel=1e-12)
    assert fit.objective == one.cost(fit) < one.cost([2.0, 0.5])
    assert np.isnan(fit.covariance).all()
    with pytest.raises(ValueError, match="there are no standard errors: interrupted"):
        fit.intervals()
    fit.save(tmp_path / "fit.nc")
    assert ks.Fit.load(tmp_path / "fit.nc").interrupted
    monkeypatch.undo()
    assert one.solve(fit, "least-squares").success
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt_before_the_first_iterate(one, monkeypatch, tmp_path):
    """The guess comes back; the result can be saved and drawn as any other."""

    def interrupted(self, z):
        raise KeyboardInterrupt

    monkeypatch.setattr("kinesym.runtime.shooting.smooth_trials.Residuals.rows", interrupted)
    fit = one.solve({k: 2.0, c: 0.5}, optimizer="least-squares")
    assert fit.interrupted and not fit.success and "interrupted" in fit.message
    np.testing.assert_array_equal(fit.values, [2.0, 0.5])
    fit.save(tmp_path / "fit.nc")
    assert ks.Fit.load(tmp_path / "fit.nc").objective == fit.objective
    fit.plot_history()
    matplotlib.pyplot.close("all")


def test_interrupt_leaves_nothing_half_done(monkeypatch):
    """Ctrl-C between two trials: the same q is computed anew afterwards."""
    from kinesym.runtime.shooting.smooth_trials import SmoothTrials

    data = [samples(0.02, 1), samples(0.02, 2, position=-1.0)]
    shooting = swing(data, initial={x: [0.5, -1.0], v: 0.0})
    expected = shooting.cost([2.5, 0.1])
    shooting.cost([2.0, 0.3])
    march = SmoothTrials._march

    def interrupted(self, number, starts):
        if number == 1:
            raise KeyboardInterrupt
        march(self, number, starts)

    with monkeypatch.context() as patch:
        patch.setattr(SmoothTrials, "_march", interrupted)
        with pytest.raises(KeyboardInterrupt):
            shooting.cost([2.5, 0.1])
    assert shooting.cost([2.5, 0.1]) == expected


# -- divergence and bad input ---------------------------------------------------------------


def test_divergence_at_the_guess():
    """Named with time and state by whatever needs the simulation; the cost is infinite."""
    shooting = swing(known={q: 5.0}, initial={x: 3.0, v: 0.0})
    words = r"the simulation of \w+: diverged between t = 0\.\d and 0\.\d s; .* last state x = "
    for call in (
        shooting.solve,
        shooting.gradient,
        shooting.trajectories,
        shooting.residuals,
        shooting.residual_jacobian,
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert shooting.cost() == np.inf


def test_failure_of_newton_is_told_anew():
    """The defect in the message is that of this failure, not of an earlier one; and the message is
    a sentence."""
    fields = {"known": {q: 20.0}, "method": "trapezoid", "initial": {x: None, v: 0.0}}

    def message(shooting, position):
        with pytest.raises(ValueError) as error:
            shooting.trajectories([3.0, 0.2, position])
        return str(error.value)

    one, other = swing(**fields), swing(**fields)
    first, second = message(one, 3.0), message(one, 1.0)
    assert first != second and message(other, 1.0) == second
    assert re.match(r"the simulation of \w+: Newton's method", first), first


def test_optimisers_step_back_from_divergence():
    """Beside a region that diverges: there the cost is infinite, and the way leads around it."""
    data = ks.simulate(SWING, TIME, {x: 0.5, v: 0.0}, {q: 1.0}, {u: PUSH})["x"]
    trial = ks.Experiment(TIME, {u: PUSH}, {x: data}, {x: 0.02})
    shooting = ks.Shooting(SWING, trial, {k: None, c: None}, {q: 1.0}, initial={x: 0.5, v: 0.0})
    assert shooting.cost({k: 1.0, c: 0.05}) == np.inf
    for optimizer in ("bfgs", "least-squares", "ipopt"):
        for start in ([1.0, 0.2], [2.0, 0.05], [5.0, 0.05]):
            fit = shooting.solve(start, optimizer=optimizer)
            assert fit.success and fit.objective < shooting.cost(start), (optimizer, start)
            if start[0] > 1.0:  # else there is a local minimum on the way
                np.testing.assert_allclose(fit.values, TRUE, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "euler"}, "method is one of rk4, dormand-prince, radau-1"),
        ({"initial": {x: 0.5}}, "initial value of state v is missing; .* None or .low, high."),
        ({"initial": {x: 0.5, v: [0.0, 1.0]}}, r"initial v has 2 values, .* per trial \(1\)"),
        ({"initial": {x: 0.5, v: np.nan}}, "initial value of v must be one finite number, got nan"),
        ({"initial": {x: 0.5, v: "fast"}}, "initial value of (state )?v"),
        ({"initial": {x: 0.5, v: (1.0, -1.0)}}, "bounds of initial v are crossed: 1 > -1"),
        ({"initial": {x: 0.5, v: 0.0, "w": 1.0}}, "initial: w is unknown"),
        ({"initial": [0.5, 0.0]}, "initial must be a mapping"),
        ({"unknown": {k: (2.0, 1.0)}}, "bounds of k are crossed"),
        ({"unknown": {"kk": None}}, "unknown: kk is unknown"),
        ({"unknown": {k: None, q: None}, "known": {q: 1.0}}, "q is both known and unknown"),
        ({"unknown": {}}, "unknown"),
        ({"segments": 61}, "61 segments need more than 61 nodes"),
        ({"segments": 0}, "segments must be at least 1 and whole, got 0"),
        ({"substeps": 1.5}, "substeps must be at least 1 and whole, got 1.5"),
        ({"objective": x**2}, "not made of Integral"),
        ({"objective": ks.Integral(sp.Symbol("w") * x)}, "integrand contains w"),
    ],
)
def test_bad_problem(changes, words):
    with pytest.raises(ValueError, match=words):
        swing(**changes)


def test_bad_experiments():
    def shooting(trials, **more):
        return ks.Shooting(SWING, trials, {k: None, c: None}, initial={x: 0.5, v: 0.0}, **more)

    free = ks.Experiment(nodes=61, duration=(1.0, 9.0), inputs={u: PUSH}, measurements={x: PUSH})
    with pytest.raises(ValueError, match=r"needs a known duration; use ks.Collocation"):
        shooting(free)
    with pytest.raises(ValueError, match="unknown inputs need substeps=1; refine the grid"):
        shooting(ks.Experiment(TIME, {}, {x: PUSH}), unknown_inputs={u: None}, substeps=2)
    with pytest.raises(ValueError, match="input u has no data in trial 0"):
        shooting(ks.Experiment(TIME, {}, {x: PUSH}))
    with pytest.raises(ValueError, match="the experiment has none"):
        shooting(ks.Experiment(TIME, {u: PUSH}))
    with pytest.raises(ValueError, match="at least one experiment"):
        shooting([])
    with pytest.raises(ValueError, match="trials must be an Experiment or a list of them"):
        shooting([TIME])
    with pytest.raises(ValueError, match=r"expected a kinesym.Model or .*Hybrid, got 'swing'"):
        ks.Shooting("swing", free)
    with pytest.raises(TypeError, match="unexpected keyword argument 'tol'"):
        shooting(ks.Experiment(TIME, {u: PUSH}, {x: PUSH}), tol=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.solve(optimizer="newton"), "optimizer is one of bf"),
        (lambda s: s.gradient(mode="magic"), "mode is one of adjoint"),
        (lambda s: s.solve([1.0, 2.0, 3.0]), r"guess has shape \(3,\), but there are 2 unk"),
        (lambda s: s.cost({k: np.nan}), "guess of k must be one finite number, got nan"),
        (lambda s: s.cost([np.nan, 0.0]), "guess of k is nan, not a finite number"),
        (lambda s: s.cost({"kk": 1.0}), "guess: kk is unknown"),
        *(
            (lambda s, o=o: s.solve(optimizer=o, options={"nonsense": 1}), "nonsense")
            for o in OPTIMIZERS
        ),
    ],
)
def test_bad_call(one, call, words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=words):
            call(one)


def test_guess_outside_its_bounds():
    bounded = swing(unknown={k: (1.0, 9.0), c: None}, initial={x: 0.5, v: (-1.0, 1.0)})
    with pytest.warns(UserWarning, match=r"guess of k, 10, is outside its bounds \(1, 9\)") as said:
        fit = bounded.solve({k: 10.0}, max_iterations=0)
    assert fit.history[0].values[0] == 9.0 and said[0].filename == __file__
    with pytest.warns(UserWarning, match=r"v\(0\), 2, is outside its bounds \(-1, 1\); it is mov"):
        assert bounded.pack({v: 2.0})[2] == 1.0
    with pytest.warns(UserWarning, match=r"guess of k, 0, is outside .*; it and 1 more such value"):
        np.testing.assert_array_equal(bounded.pack([0.0, 0.2, 2.0]), [1.0, 0.2, 1.0])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_bounds_that_leave_nothing_free(optimizer):
    """Equal bounds hold a value; every optimiser copes, or says which one it does not like."""
    try:
        fit = swing(unknown={k: (3.0, 3.0), c: None}).solve({c: 0.5}, optimizer=optimizer)
    except ValueError as error:
        assert "bounds of k" in str(error)  # and not the words of SciPy
    else:
        assert fit.parameters["k"] == pytest.approx(3.0, abs=1e-7)
        assert fit.parameters["c"] == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("optimizer", [o for o, how in OPTIMIZERS.items() if not how.equations])
def test_segments_need_ipopt(optimizer):
    with pytest.raises(ValueError, match="multiple shooting has equations: use optimizer='ipopt'"):
        swing(segments=3).solve(optimizer=optimizer)


def test_unstable_model_is_named():
    """A growing mode over a long trial: one warning with eigenvalue and remedy before the work."""
    upright = {x: np.pi, v: 0.0}
    time = np.linspace(0.0, 60.0, 601)
    trial = ks.Experiment(time, {u: 0.0 * time}, {x: np.full(601, np.pi)})
    shooting = ks.Shooting(SWING, trial, {k: None, c: None}, initial=upright)
    words = r"unstable at the start of trial 0: eigenvalue 1\.6\d.* more segments, or ks.Colloc"
    with pytest.warns(UserWarning, match=words):
        shooting.solve(max_iterations=1)
    stiff = swing(unknown={k: None, c: None})
    with pytest.warns(UserWarning, match="steps of 0.1 s are too long for the mode -4[0-9]"):
        stiff.solve({c: 45.0}, max_iterations=1)


# -- unknown samples of an input -------------------------------------------------------------------


@pytest.fixture(scope="module", params=[None, (-10.0, 10.0)], ids=["free", "bounded"])
def forcing(request):
    """The force behind a record, as smooth as its energy says: quadratic in 61 samples."""
    trial = ks.Experiment(TIME, measurements={x: samples(0.01)}, std={x: 0.01})
    linear = SWING.substitute(
        {sp.sin(x): x},
        name="linear",
        equations=[x.diff(t) - v, v.diff(t) + k * x + c * v - u + q * x],
    )
    objective = ks.LeastSquares() + 30.0 * ks.Integral(u**2)
    return ks.Shooting(
        linear,
        trial,
        initial={x: 0.5, v: 0.0},
        objective=objective,
        unknown_inputs={u: request.param},
    )


def lowest(shooting):
    """Of a quadratic objective: by its Hessian, column by column."""
    n = len(shooting.names)
    g = shooting.gradient(np.zeros(n))
    hessian = np.array([shooting.gradient(row) - g for row in np.eye(n)])
    return shooting.cost(np.linalg.solve(hessian, -g))


@pytest.mark.parametrize("optimizer", ["bfgs", "ipopt", "steepest-descent"])
def test_samples_guessed_at_zero(forcing, optimizer):
    """Success is said of the optimum only, and bfgs gets there."""
    best = lowest(forcing)
    fit = forcing.solve(optimizer=optimizer)
    assert fit.objective < best * (1.0 + 1e-6) or not fit.success, fit
    if optimizer == "bfgs":
        assert fit.success and fit.objective < best * (1.0 + 1e-8), fit


def test_least_squares_says_who_can(forcing, one):
    with pytest.raises(ValueError, match="for samples of unknown inputs; use one of bfgs, ipopt"):
        forcing.solve(optimizer="least-squares")
    trial = ks.Experiment(TIME, {u: PUSH})
    other = ks.Shooting(
        SWING, trial, {k: None}, initial={x: 0.5, v: 0.0}, objective=ks.Integral(sp.cosh(x))
    )
    with pytest.raises(ValueError, match=r"sum of squares: .* is no square .*; use one of bfgs"):
        other.solve(optimizer="least-squares")


@pytest.mark.parametrize("optimizer", ["ipopt", "bfgs", "least-squares"])
def test_a_fit_of_exact_data_is_a_success(optimizer):
    """Its end is worse than an earlier iterate by rounding of the objective at the start only."""
    x, v = ks.dynamicsymbols("x v")
    k = sp.Symbol("k")
    model = ks.Model("m", [x, v], [], [k], [x.diff(ks.t) - v, v.diff(ks.t) + k * x + v / 10])
    time, start = np.linspace(0.0, 3.0, 61), {x: 1.0, v: 0.0}
    run = ks.simulate(model, time, start, {k: 9.0}, method="dormand-prince", rtol=1e-10)
    trial = ks.Experiment(time, measurements={"x": run["x"]}, std={"x": 0.005})
    fit = ks.Shooting(model, trial, {k: (1, 20)}, initial=start).solve({k: 8.0}, optimizer)
    assert fit.success and fit.parameters["k"] == pytest.approx(9.0, abs=1e-3)
