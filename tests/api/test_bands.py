"""Standard deviations of trajectories over time: against a smoother, dense algebra, many noisy
records; what nothing determines, and what is no fit."""

from copy import copy

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy as sp
from scipy.linalg import expm, null_space

import kinesym as ks
from kinesym.symbolic.schemes import SCHEMES

t = ks.t
x, v, y, u, u1, u2 = ks.dynamicsymbols("x v y u u1 u2")
k, c, s, b = sp.symbols("k c s b")
NAMES = [scheme.name for name, scheme in SCHEMES.items() if name == scheme.name]


# -- against the smoother of Rauch, Tung and Striebel -------------------------------------------

A, B = np.array([[0.0, 1.0], [-9.0, -0.6]]), np.array([[0.0], [1.0]])
SIGMA, STD = 2.0, np.array([0.05, 0.2])  # of the process [m/s^2 sqrt(s)], of x and v


def grids():
    """Regular, and irregular with gaps."""
    rng = np.random.default_rng(1)
    return np.linspace(0.0, 2.0, 41), np.append(0.0, np.cumsum(rng.uniform(0.01, 0.09, 40)))


def record(time, seed=0):
    """The response to white noise that is held, measured: both states at first, then often one or
    none; and the measurements as a matrix."""
    rng = np.random.default_rng(seed)
    state, rows = np.array([0.5, 0.0]), []
    for step in [*np.diff(time), 0.0]:
        rows.append(state + STD * rng.standard_normal(2))
        F, G = transition(step)
        state = F @ state + G[:, 0] * SIGMA * rng.standard_normal() / np.sqrt(max(step, 1e-9))
    samples = np.array(rows).T
    gone = rng.random(samples.shape) < 0.4
    gone[:, 0] = False
    samples[gone] = np.nan
    measured = {x: samples[0], v: samples[1]}
    std = {x: STD[0], v: STD[1]}
    return ks.Experiment(time, measurements=measured, std=std), samples


def transition(step):
    """F and G of x_k+1 = F x_k + G w_k, w held."""
    whole = expm(step * np.block([[A, B], [np.zeros((1, 3))]]))
    return whole[:2, :2], whole[:2, 2:]


def smoothed(time, samples):
    """Means (2, N) and covariances (N, 2, 2) of the states given all samples, the first of which
    have both states and are all that is known of the start (Särkkä 2013, Bayesian Filtering and
    Smoothing, equations 4.20 to 4.22 and 8.6)."""
    N = len(time)
    steps = [transition(step) for step in np.diff(time)]
    mean, cov = samples[:, 0], np.diag(STD**2)
    means, covs, before = [mean], [cov], []
    for n in range(1, N):
        F, G = steps[n - 1]
        mean, cov = F @ mean, F @ cov @ F.T + G @ G.T * SIGMA**2 / (time[n] - time[n - 1])
        before.append((mean, cov))
        for i in np.flatnonzero(~np.isnan(samples[:, n])):
            gain = cov[:, i] / (cov[i, i] + STD[i] ** 2)
            mean, cov = mean + gain * (samples[i, n] - mean[i]), cov - np.outer(gain, cov[i])
        means.append(mean)
        covs.append(cov)
    for n in reversed(range(N - 1)):
        later, P = before[n]
        gain = covs[n] @ steps[n][0].T @ np.linalg.inv(P)
        means[n] = means[n] + gain @ (means[n + 1] - later)
        covs[n] = covs[n] + gain @ (covs[n + 1] - P) @ gain.T
    return np.array(means).T, np.array(covs)


def noisy_system():
    rates = A @ [x, v] + B[:, 0] * u
    equations = [x.diff(t) - rates[0], v.diff(t) - rates[1]]
    return ks.Model("noisy", [x, v], [u], [], equations, outputs={"sum": 2 * x + v})


@pytest.mark.parametrize("number", [0, 1], ids=["regular", "irregular"])
def test_smoother(number):
    """A linear system with process noise, gaps: the bands are the smoother's, of an output too."""
    time = grids()[number]
    trial, samples = record(time)
    task = ks.Collocation(
        noisy_system(),
        trial,
        unknown_inputs={u: ks.held()},
        objective=ks.LeastSquares() + ks.Integral(u**2 / SIGMA**2),
        scheme="gauss-6",
    )
    solution = task.solve()
    bands = solution.bands()
    means, covs = smoothed(time, samples)
    np.testing.assert_allclose([solution[x], solution[v]], means, atol=1e-8)
    for name, g in (("x", [1, 0]), ("v", [0, 1]), ("sum", [2, 1])):
        np.testing.assert_allclose(bands[name] ** 2, covs @ g @ g, rtol=1e-8)
    assert np.isnan(bands["u"][-1])  # held: it acts on nothing there
    known = SIGMA / np.sqrt(np.diff(time))
    assert (bands["u"][:-1] < known).all() and (bands["u"][:-1] > 0.2 * known).all()


# -- against dense algebra ----------------------------------------------------------------------


def oscillator(scheme, held):
    """With a force to be found, an unknown stiffness and damping; outputs at nodes and between."""
    model = ks.Model(
        "o",
        [x, v],
        [u],
        [k, c],
        [x.diff(t) - v, v.diff(t) + k * x + c * v**3 - u],
        outputs={"energy": k * x**2 / 2 + v**2 / 2, "force": v.diff(t) + k * u, "power": v * u},
    )
    rng = np.random.default_rng(2)
    trials = []
    for N in (15, 18):
        time = 0.1 * np.arange(N)
        rows = {x: np.cos(2 * time), v: -2 * np.sin(2 * time)}
        noisy = {name: row + 0.02 * rng.standard_normal(N) for name, row in rows.items()}
        trials.append(ks.Experiment(time, measurements=noisy, std=dict.fromkeys(rows, 0.02)))
    task = ks.Collocation(
        model,
        trials,
        {k: (0, 50), c: (-10, 10)},
        scheme=scheme,
        unknown_inputs={u: ks.held(-9, 9) if held else (-9, 9)},
        objective=ks.LeastSquares() + ks.Integral(50 * u**2),
        boundary=[ks.at_start(u)] if held else (),
    )
    return task, task.solve({k: 4, c: 0.1})


def covariance(task, solution):
    """2 N (N' H N)^-1 N' of all that is free, N a basis of what the constraints leave free."""
    free = task.variable_bounds[0] < task.variable_bounds[1]
    z = solution.free_vector
    H = task.lagrangian_hessian(z, solution.multipliers).toarray()[np.ix_(free, free)]
    N = null_space(task.constraint_jacobian(z).toarray()[:, free])
    whole = np.zeros((len(z), len(z)))
    whole[np.ix_(free, free)] = 2.0 * N @ np.linalg.solve(N.T @ H @ N, N.T)
    return whole


def slopes(task, z, trial):
    """Derivatives of all trajectories at nodes, by central differences."""
    found = {}
    for j in range(len(z)):
        unit = np.zeros(len(z))
        unit[j] = 1e-5 * max(1.0, abs(z[j]))
        ends = []
        for side in (z + unit, z - unit):
            about = task.nlp.about
            ends.append(task.layout.courses(side, trial, about.stages, about.to_ends))
            ends[-1] |= task.nlp.outputs(side, trial)
        for name, row in ends[0].items():
            change = (row - ends[1][name]) / (2.0 * unit[j])
            found.setdefault(name, np.zeros((len(row), len(z))))[:, j] = change
    return found


@pytest.mark.parametrize("held", [False, True], ids=["staged", "held"])
@pytest.mark.parametrize(
    "scheme",
    [n if n in ("radau-3", "gauss-4") else pytest.param(n, marks=pytest.mark.study) for n in NAMES],
)
def test_dense_algebra(scheme, held):
    """All schemes, inputs at stages or held, two trials; an input that is fixed at its start."""
    task, solution = oscillator(scheme, held)
    assert solution.success
    whole, bands = covariance(task, solution), solution.bands()
    for trial, band in enumerate(bands.trials):
        for name, S in slopes(task, solution.free_vector, trial).items():
            known = np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", S, whole, S), 0.0))
            shown = ~np.isnan(band[name])
            assert shown[:-1].all()
            np.testing.assert_allclose(band[name][shown], known[shown], rtol=1e-7, atol=1e-9)
            np.testing.assert_array_equal(band.mean[name], solution.trials[trial][name])
    if held:
        assert bands["u"][0] == 0.0


@pytest.mark.study
def test_many_noisy_records():
    """A pendulum with unknown length and start: over 150 records the truth is within 95 % bands 95
    times of 100 at any one time."""
    time = np.linspace(0.0, 3.0, 31)
    model = ks.models.pendulum()
    truth = ks.simulate(model, time, {"theta": 2.0, "omega": 0.0}, {"p": 9.0})
    rng, inside = np.random.default_rng(3), []
    for _ in range(150):
        noisy = truth["theta"] + 0.05 * rng.standard_normal(31)
        trial = ks.Experiment(time, measurements={"theta": noisy}, std={"theta": 0.05})
        task = ks.Collocation(model, trial, {"p": (1, 30)}, scheme="gauss-6")
        solution = task.solve({"p": 9.0})
        assert solution.success
        band = solution.bands().trials[0]
        for name in ("theta", "omega"):
            low, high = band.limits(name)
            inside.append((low < truth[name]) & (truth[name] < high))
    assert 0.93 < np.mean(inside) < 0.97  # of 9,300, at about 150 * 3 independent times


# -- what is not known --------------------------------------------------------------------------

TIME = np.linspace(0.0, 1.0, 21)
NOISE = 0.01 * np.random.default_rng(4).standard_normal(21)


def fitted(model, **options):
    trial = ks.Experiment(TIME, measurements={x: np.exp(-TIME) + NOISE}, std={x: 0.01})
    task = ks.Collocation(model, trial, **options)
    solution = task.solve()
    assert solution.success
    return solution.bands()


def test_a_state_that_nothing_measures():
    """It is NaN, and the band of the other is what it is without it."""
    alone = ks.Model("alone", [x], [], [k], [x.diff(t) + k * x])
    both = ks.Model("both", [x, y], [], [k], [x.diff(t) + k * x, y.diff(t) + y])
    bands, known = (fitted(model, unknown={k: (0, 9)}) for model in (both, alone))
    assert np.isnan(bands["y"]).all()
    np.testing.assert_allclose(bands["x"], known["x"], rtol=1e-6)


@pytest.mark.parametrize("scheme", ["radau-3", "gauss-2"])
def test_forces_that_share_a_load(scheme):
    """Only their sum is known: each of them is NaN, as in the solution, and the band of the state
    is what it is with one force."""
    model = ks.Model("two", [x], [u1, u2], [], [x.diff(t) - u1 - u2])
    one = ks.Model("one", [x], [u], [], [x.diff(t) - u])
    free = {"scheme": scheme, "boundary": [ks.at_start(x) - 1]}
    smooth = {"objective": ks.LeastSquares() + ks.Integral((u1 + u2) ** 2)}
    bands = fitted(model, unknown_inputs={u1: None, u2: None}, **free, **smooth)
    smooth = {"objective": ks.LeastSquares() + ks.Integral(u**2)}
    known = fitted(one, unknown_inputs={u: None}, **free, **smooth)
    assert np.isnan(bands["u1"]).all() and np.isnan(bands["u2"]).all()
    np.testing.assert_allclose(bands["x"], known["x"], rtol=1e-6)
    assert bands["x"][0] == 0.0


def test_outputs_of_what_is_known():
    """They have no error; nor do trajectories that conditions fix."""
    outputs = {"twice": 2 * u + b, "rate": x.diff(t)}  # the second one at stages
    model = ks.Model("m", [x], [u], [k, b], [x.diff(t) + k * x], outputs=outputs)
    trial = ks.Experiment(TIME, {u: TIME}, {x: np.exp(-TIME) + NOISE}, {x: 0.01})
    start = [ks.at_start(x) - 1]
    task = ks.Collocation(model, trial, {k: (0, 9)}, {b: 1.0}, boundary=start)
    bands = task.solve().bands()
    assert (bands["twice"] == 0.0).all() and (bands["rate"] > 0.0).all()
    assert bands["x"][0] < 1e-12 and (bands["x"][1:] > 1e-4).all()


@pytest.mark.parametrize("scheme", ["radau-3", "gauss-4"])
def test_an_output_that_is_zero(scheme):
    """By the equations, from terms that are not: nothing is left of their variances."""
    rates = x.diff(t) - v, v.diff(t) + k * x
    outputs = {"zero": rates[1], "force": k * x}
    model = ks.Model("m", [x, v], [], [k], rates, outputs=outputs)
    trial = ks.Experiment(TIME, measurements={x: np.cos(3 * TIME) + NOISE}, std={x: 0.01})
    task = ks.Collocation(model, trial, {k: (1, 20)}, scheme=scheme)
    bands = task.solve({k: 9.0}).bands()
    assert (bands["zero"] == 0.0).all() and (bands["force"] > 1e-3).all()


def test_no_fit():
    """Without measurements, without convergence, of another thing: a sentence each."""
    model = ks.Model("m", [x], [u], [], [x.diff(t) - u])
    ends = {"boundary": [ks.at_start(x), ks.at_end(x) - 1]}
    free = {"unknown_inputs": {u: None}, "objective": ks.Integral(u**2)}
    task = ks.Collocation(model, ks.Experiment(TIME), **free, **ends)
    with pytest.raises(ValueError, match="the objective has no LeastSquares"):
        task.solve().bands()
    trial = ks.Experiment(TIME, measurements={x: np.exp(-TIME) + NOISE}, std={x: 0.01})
    task = ks.Collocation(ks.Model("m", [x], [], [k], [x.diff(t) + k * x]), trial, {k: (0, 9)})
    with pytest.raises(ValueError, match="no bands without convergence"):
        task.solve(max_iterations=0).bands()
    with pytest.raises(ValueError, match="was loaded or copied"):
        copy(task.solve()).bands()


def test_no_minimum():
    """A stationary point that is none: its curvature is not positive."""
    model = ks.Model("m", [x], [], [k], [x.diff(t) + k * x])
    trial = ks.Experiment(TIME, measurements={x: np.exp(-TIME) + NOISE}, std={x: 0.01})
    aim = ks.LeastSquares() - ks.Terminal(1e7 * (k - 1) ** 2)
    task = ks.Collocation(model, trial, {k: (None, None)}, objective=aim)
    lax = {"dual_inf_tol": 1e99, "compl_inf_tol": 1e99, "constr_viol_tol": 1e99, "tol": 1e99}
    solution = task.solve({k: 1.0}, options=lax)
    with pytest.raises(ValueError, match="not positive: this is no minimum"):
        solution.bands()


def test_picture(tmp_path):
    """One panel per trajectory, with its band; bad levels and names are told."""
    model = ks.Model("alone", [x], [], [k], [x.diff(t) + k * x], outputs={"twice": 2 * x})
    bands = fitted(model, unknown={k: (0, 9)})
    figure = bands.plot(level=0.9)
    assert [axis.get_ylabel() for axis in figure.axes] == ["x", "twice"]
    assert all(axis.collections for axis in figure.axes)
    plt.close(figure)
    low, high = bands.trials[0].limits(x, 0.9)
    np.testing.assert_allclose(high - low, 2 * 1.6448536269514722 * bands[x], rtol=1e-12)
    for bad in (0.0, 1.0, 95, np.nan):
        with pytest.raises(ValueError, match="level"):
            bands.plot(level=bad)
    with pytest.raises(ValueError, match="there is no trajectory 'z'"):
        bands["z"]
    with pytest.raises(ValueError, match="trial must be"):
        bands.plot(trial=1)
    bands.save(tmp_path / "bands.nc")
    again = type(bands).load(tmp_path / "bands.nc")
    np.testing.assert_array_equal(again["x"], bands["x"])
