"""Time stepping against closed forms, SciPy, and the same schemes written once more in NumPy."""

import os
import re
import signal
import warnings

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

import kinesym as ks

t = ks.t
x, v, u, w = ks.dynamicsymbols("x v u w")
k, c, f, q, s, a, b, d, e = sp.symbols("k c f q s a b d e")
IMPLICIT = ["trapezoid", "midpoint", "backward-euler"]
FIXED = ["rk4", *IMPLICIT]
METHODS = [*FIXED, "dormand-prince"]

#: One model for all, so that four libraries are enough: a driven, damped pendulum with two inputs,
#: one in a product with a state. Other values make it linear (a, b, d, e), let x grow like x^2 (q),
#: or draw it to cos t (s).
MODEL = ks.Model(
    "many",
    [x, v],
    [u, w],
    [k, c, f, q, s, a, b, d, e],
    [
        x.diff(t) - a * x - b * v - q * x**2 + s * (x - sp.cos(t)),
        v.diff(t) - d * x - e * v + k * sp.sin(x) + c * v - u - x * w - f * sp.cos(3 * t),
    ],
    outputs={"force": v.diff(t) + k * sp.sin(x), "twice": 2 * x + u},
    values={k: 4.0, c: 0.3, f: 1.0, q: 0.0, s: 0.0, a: 0.0, b: 1.0, d: 0.0, e: 0.0},
)
START = {x: 0.7, v: -0.4}
NOTHING = {k: 0.0, c: 0.0, f: 0.0}
#: x' = x^2; x' = s (cos t - x); v stays zero in both
GROWING, DRAWN = {**NOTHING, q: 1.0}, {**NOTHING, s: 1.0}
#: No inputs: adaptive steps go past the nodes
FOLLOWER = ks.Model("follower", [x], [], [s], [x.diff(t) + s * (x - sp.cos(t))])


def simulate(time, initial=START, parameters=None, first=0.0, second=0.0, **more):
    return ks.simulate(MODEL, time, initial, parameters, {u: first, w: second}, **more)


def given(time, samples, kind):
    """Samples at the nodes, or with those halfway, as an input."""
    make = {"midpoints": ks.Signal.parabolas, "held": lambda t, y: ks.Signal(t, y, "held")}
    return make.get(kind, ks.Signal)(time, samples)


def alone(position):
    """An initial state from which v stays zero."""
    return {x: position, v: 0.0}


def driven(z, inputs, time):
    """The right-hand side at the default values, for real and complex numbers."""
    position, rate = z
    first, second = inputs
    force = first + position * second + np.cos(3.0 * time)
    return np.array([rate, -4.0 * np.sin(position) - 0.3 * rate + force])


# -- the schemes once more ------------------------------------------------------------------


def implicit_step(method, f, z0, at0, middle, at1, h):
    """One step of an implicit scheme by Newton's method, derivatives by complex steps; `at0`,
    `middle`, `at1` are (inputs, time)."""
    rest = {
        "trapezoid": lambda z: z - z0 - 0.5 * h * (f(z0, *at0) + f(z, *at1)),
        "midpoint": lambda z: z - z0 - h * f(0.5 * (z0 + z), *middle),
        "backward-euler": lambda z: z - z0 - h * f(z, *at1),
    }[method]
    z, n = z0.copy(), len(z0)
    for _ in range(20):
        slopes = np.array([rest(z + 1e-30j * np.eye(n)[i]).imag / 1e-30 for i in range(n)]).T
        z = z - np.linalg.solve(slopes, rest(z))
    return z


def rk4_step(f, z, history, time, h):
    """One classical Runge-Kutta step; `history` gives the inputs at a fraction of the step."""
    k1 = f(z, history(0.0), time)
    k2 = f(z + 0.5 * h * k1, history(0.5), time + 0.5 * h)
    k3 = f(z + 0.5 * h * k2, history(0.5), time + 0.5 * h)
    k4 = f(z + h * k3, history(1.0), time + h)
    return z + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def rk4_states(method, f, time, start, history, substeps=1):
    """(N, n) states; `history(i, fraction)` gives the inputs within interval i."""
    z, rows = np.array(start, dtype=float), [np.array(start, dtype=float)]
    for i, length in enumerate(np.diff(time)):
        h = length / substeps
        for part in range(substeps):
            now = time[i] + part * h
            at = [(history(i, (part + r) / substeps), now + r * h) for r in (0.0, 0.5, 1.0)]
            if method == "rk4":
                z = rk4_step(f, z, lambda r, i=i, p=part: history(i, (p + r) / substeps), now, h)
            else:
                z = implicit_step(method, f, z, *at, h)
        rows.append(z)
    return np.array(rows)


def states(run):
    return np.array([run["x"], run["v"]]).T


@pytest.fixture(scope="module")
def exact():
    """The pendulum without inputs by DOP853, as a function of time."""
    found = solve_ivp(
        lambda time, z: driven(z, (0.0, 0.0), time),
        (0.0, 6.0),
        [0.7, -0.4],
        method="DOP853",
        rtol=1e-13,
        atol=1e-14,
        dense_output=True,
    )
    return found.sol


@pytest.mark.parametrize(("method", "order"), [*zip(FIXED, (4, 2, 2, 1), strict=True)])
def test_order(method, order, exact):
    """Errors over all nodes fall by 2^order, no less and no more, when the steps are halved."""
    time, errors = np.linspace(0.0, 6.0, 61), []
    for substeps in (4, 8, 16):
        run = simulate(time, method=method, substeps=substeps)
        errors.append(np.abs(states(run) - exact(time).T).max())
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), order, atol=0.15)


@pytest.mark.parametrize("method", FIXED)
@pytest.mark.parametrize("hold", ["linear", "held", "midpoints"])
@pytest.mark.parametrize("substeps", [1, 3])
def test_same_scheme_in_numpy(method, hold, substeps):
    """Inputs of every kind on a grid of unequal steps: equal to rounding."""
    rng = np.random.default_rng(4)
    time = np.concatenate([[0.3], 0.3 + np.cumsum(rng.uniform(0.01, 0.2, 23))])
    N = len(time)
    first, second = rng.normal(size=N), rng.normal(size=2 * N - 1 if hold == "midpoints" else N)

    def linear(samples, i, r):
        return samples[i] + r * (samples[i + 1] - samples[i]) if r > 0.0 else samples[i]

    def history(i, r):
        if hold == "midpoints":
            parabola = np.polynomial.Polynomial.fit([0.0, 0.5, 1.0], second[2 * i : 2 * i + 3], 2)
            return linear(first, i, r), parabola(r)
        return linear(first, i, r), second[i] if hold == "held" else linear(second, i, r)

    run = simulate(
        time,
        first=first,
        second=given(time, second, hold),
        method=method,
        substeps=substeps,
    )
    expected = rk4_states(method, driven, time, [0.7, -0.4], history, substeps)
    np.testing.assert_allclose(states(run), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(run["w"], second[::2] if hold == "midpoints" else second)


@pytest.mark.parametrize("method", FIXED)
@pytest.mark.parametrize("hold", ["linear", "held"])
def test_substeps_are_a_finer_grid(method, hold):
    time = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.9])
    fine = np.interp(np.arange(21) / 4, np.arange(6), time)
    samples = np.array([1.0, -2.0, 0.5, 3.0, 1.0, 0.0])
    refined = (
        np.append(np.repeat(samples[:-1], 4), samples[-1])
        if hold == "held"
        else np.interp(fine, time, samples)
    )
    coarse = simulate(time, first=given(time, samples, hold), substeps=4, method=method)
    whole = simulate(fine, first=given(fine, refined, hold), method=method)
    np.testing.assert_allclose(states(coarse), states(whole)[::4], rtol=1e-13)


@pytest.mark.parametrize("method", ["trapezoid", "backward-euler"])
def test_midpoint_samples_are_nodes_of_half_steps(method):
    time = np.linspace(0.0, 1.0, 9)
    samples = np.random.default_rng(5).normal(size=17)
    halves = simulate(time, first=ks.Signal.parabolas(time, samples), substeps=2, method=method)
    fine = simulate(np.linspace(0.0, 1.0, 17), first=samples, method=method)
    np.testing.assert_allclose(states(halves), states(fine)[::2], rtol=1e-13)


def test_order_with_inputs():
    """A cubic signal: order 4 only with samples at midpoints, 2 with linear, 1 with held ones."""

    def history(time):
        return 3.0 * time**3 - 4.0 * time**2 + 1.0

    truth = solve_ivp(
        lambda time, z: driven(z, (history(time), 0.0), time),
        (0.0, 1.5),
        [0.7, -0.4],
        method="DOP853",
        rtol=1e-13,
        atol=1e-14,
    ).y[:, -1]
    orders = {}
    for kind in ("midpoints", "linear", "held"):
        errors = []
        for N in (21, 41, 81):
            nodes = np.linspace(0.0, 1.5, N)
            samples = history(np.linspace(0.0, 1.5, 2 * N - 1) if kind == "midpoints" else nodes)
            run = simulate(nodes, first=given(nodes, samples, kind))
            errors.append(np.abs(states(run)[-1] - truth).max())
        orders[kind] = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders["midpoints"], 4.0, atol=0.3)

    fine = np.linspace(0.0, 1.5, 41)  # the same samples: parabolas are better than lines
    ways = [(fine[::2], ks.Signal.parabolas), (fine, ks.Signal)]
    found = [simulate(at, first=make(at, history(fine)), substeps=20) for at, make in ways]
    parabolas, lines = (np.abs(states(run)[-1] - truth).max() for run in found)
    assert parabolas < 0.01 * lines
    np.testing.assert_allclose(orders["linear"], 2.0, atol=0.3)
    np.testing.assert_allclose(orders["held"], 1.0, atol=0.15)


# -- closed forms ---------------------------------------------------------------------------

MATRIX = {**NOTHING, a: -0.3, b: 2.0, d: -3.0, e: -0.1}


@pytest.mark.parametrize("method", ["rk4", "dormand-prince"])
def test_matrix_exponential_with_held_input(method):
    """x_{i+1} = e^{A h} x_i + A^-1 (e^{A h} - 1) B u_i, on a grid of unequal steps."""
    rng = np.random.default_rng(6)
    time = np.concatenate([[0.0], np.cumsum(rng.uniform(0.05, 0.5, 60))])
    noise = rng.normal(size=61)
    A, B = np.array([[-0.3, 2.0], [-3.0, -0.1]]), np.array([0.0, 1.0])
    exact = [np.array([1.0, 0.5])]
    for h, sample in zip(np.diff(time), noise, strict=False):
        step = expm(A * h)
        exact.append(step @ exact[-1] + np.linalg.solve(A, (step - np.eye(2)) @ B) * sample)
    run = simulate(
        time,
        {x: 1.0, v: 0.5},
        MATRIX,
        given(time, noise, "held"),
        method=method,
        **({"substeps": 512} if method == "rk4" else {"rtol": 1e-12, "atol": 1e-13}),
    )
    np.testing.assert_allclose(states(run), exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", FIXED)
def test_oscillator_closed_form(method):
    """x'' = -9 x over 2000 steps: powers of the stability function at 3 i h."""
    z = 0.15j
    factor = {
        "rk4": 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24,
        "trapezoid": (1 + z / 2) / (1 - z / 2),
        "midpoint": (1 + z / 2) / (1 - z / 2),
        "backward-euler": 1 / (1 - z),
    }[method]
    run = simulate(np.arange(2001) * 0.05, alone(1.0), {**NOTHING, d: -9.0}, method=method)
    exact = factor ** np.arange(2001)
    np.testing.assert_allclose(run["x"], exact.real, atol=1e-11)
    np.testing.assert_allclose(run["v"], -3.0 * exact.imag, atol=3e-11)


# -- the adaptive method --------------------------------------------------------------------


def test_error_follows_tolerance(exact):
    """Over six decades the error is proportional to the tolerance, within a factor of ten, and
    never a hundred times as large."""
    time, tolerances = np.linspace(0.0, 6.0, 7), 10.0 ** -np.arange(4, 11)
    errors = []
    for tolerance in tolerances:
        run = simulate(time, method="dormand-prince", rtol=tolerance, atol=tolerance)
        errors.append(np.abs(states(run) - exact(time).T).max())
    ratio = np.array(errors) / tolerances
    assert ratio.max() < 30.0 and ratio.max() / ratio.min() < 10.0
    slope = np.polyfit(np.log(tolerances), np.log(errors), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.15)


def follow(time, start, value, **more):
    return ks.simulate(FOLLOWER, time, {x: start}, {s: value}, method="dormand-prince", **more)


@pytest.mark.parametrize("tolerance", [1e-5, 1e-8, 1e-11])
def test_dense_output_is_as_good_as_the_steps(tolerance):
    """Without inputs steps go past the nodes. Errors at the ends of runs (steps) and at many
    instants inside a run (dense output) are alike, and like those of SciPy's RK45, the same pair of
    methods."""
    limits = {"rtol": tolerance, "atol": tolerance}

    def solution(time):
        return 0.5 * (np.cos(time) + np.sin(time)) + 0.5 * np.exp(-time)

    ends = np.array([1.3, 2.9, 4.1, 5.7, 7.3, 9.1])
    steps = [follow([0.0, end], 1.0, 1.0, **limits)["x"][-1] for end in ends]
    time = np.unique(np.concatenate([np.linspace(0.0, 10.0, 997), ends]))
    dense = follow(time, 1.0, 1.0, **limits)["x"]
    at_steps = np.abs(steps - solution(ends)).max()
    between = np.abs(dense - solution(time)).max()
    assert between < 10.0 * at_steps and between < 10.0 * tolerance
    other = solve_ivp(
        lambda now, z: -(z - np.cos(now)), (0.0, 10.0), [1.0], method="RK45", t_eval=time, **limits
    ).y[0]
    assert between < 10.0 * np.abs(other - solution(time)).max()


def test_adaptive_does_not_depend_on_the_grid():
    """Without inputs the same steps are made whatever the nodes are."""
    fine = follow(np.linspace(0.0, 8.0, 801), 0.2, 3.0)
    few = follow([0.0, 1.0, 2.5, 8.0], 0.2, 3.0)
    np.testing.assert_allclose(few["x"], fine["x"][[0, 100, 250, 800]], rtol=1e-13)


@pytest.mark.parametrize("kind", ["linear", "held", "midpoints"])
def test_adaptive_with_noise(kind):
    """Jumps and kinks of an input at nodes: they cost no accuracy."""
    rng = np.random.default_rng(8)
    time, halves = np.linspace(0.0, 3.0, 31), kind == "midpoints"
    noise = rng.normal(size=61 if halves else 31)
    run = simulate(
        time,
        first=given(time, noise, kind),
        second=0.2,
        method="dormand-prince",
        rtol=1e-11,
        atol=1e-12,
    )
    z, exact = np.array([0.7, -0.4]), [np.array([0.7, -0.4])]
    for i in range(30):
        samples = noise[2 * i : 2 * i + 3] if halves else noise[i : i + 2]
        if kind == "held":
            samples = samples[:1]
        places = np.linspace(time[i], time[i + 1], len(samples))
        history = np.polynomial.Polynomial.fit(places, samples, len(samples) - 1)
        z = solve_ivp(
            lambda now, y, c=history: driven(y, (c(now), 0.2), now),
            time[i : i + 2],
            z,
            method="DOP853",
            rtol=1e-13,
            atol=1e-14,
        ).y[:, -1]
        exact.append(z)
    assert np.abs(states(run) - np.array(exact)).max() < 3e-10


# -- mechanics ------------------------------------------------------------------------------


def chain_energy(run, n, g=9.81):
    """Kinetic and potential energy of unit masses on unit links and a cart."""
    angles, rates = (np.array([run[f"{f}_{i}"] for i in range(n + 1)]) for f in "qu")
    vx, vy, height = rates[0].copy(), np.zeros(len(run.time)), np.zeros(len(run.time))
    energy = 0.5 * vx**2
    for i in range(1, n + 1):
        vx = vx - np.cos(angles[i]) * rates[i]
        vy = vy - np.sin(angles[i]) * rates[i]
        height = height + np.cos(angles[i])
        energy += 0.5 * (vx**2 + vy**2) + g * height
    return energy


@pytest.mark.parametrize("n", [3, 5])
def test_energy_of_a_free_chain(n):
    """RK4 loses energy with its order: by 2^4 to 2^5 less when the steps are halved."""
    model = ks.models.n_link_pendulum_on_cart(n)
    start = {f"q_{i}": 2.2 + 0.2 * i for i in range(n + 1)} | {f"u_{i}": 0.3 for i in range(n + 1)}
    drifts = []
    for substeps in (8, 16, 32):
        run = ks.simulate(
            model, np.linspace(0.0, 2.0, 101), start, inputs={"F": 0.0}, substeps=substeps
        )
        energy = chain_energy(run, n)
        assert np.ptp(run["q_1"]) > 0.5  # it does move
        drifts.append(np.abs(energy - energy[0]).max())
    orders = np.log2(np.divide(drifts[:-1], drifts[1:]))
    assert (orders > 3.7).all() and (orders < 5.3).all() and drifts[-1] < 1e-9


CONSISTENT = {
    "cip": (ks.models.cip, {"u": 0.02, "v": 0.0, "z": 0.01, "Td": 3.0}, "x"),
    "standing": (
        ks.models.standing,
        {"theta_a": 0.05, "theta_h": -0.1, "omega_a": 0.0, "omega_h": 0.2},
        "a",
    ),
    "n_link_3": (
        lambda: ks.models.n_link_pendulum_on_cart(3),
        {
            "q_0": 0.0,
            "q_1": 3.0,
            "q_2": 2.5,
            "q_3": 2.0,
            "u_0": 0.0,
            "u_1": 0.5,
            "u_2": 0.0,
            "u_3": -1.0,
        },
        "F",
    ),
}


@pytest.mark.parametrize(
    ("which", "method"),
    [("cip", "trapezoid"), ("standing", "midpoint"), ("n_link_3", "trapezoid")],
)
def test_simulation_satisfies_collocation(which, method):
    """One discretisation, two solvers: the defects of collocation vanish on a simulation. (The
    other pairs are in test_gradients.py.)"""
    make, start, forcing = CONSISTENT[which]
    model, time = make(), np.linspace(0.0, 3.0, 201) ** 1.1
    history = np.random.default_rng(1).normal(size=201) + 3.0 * np.sin(3.0 * time)
    inputs = {forcing: given(time, history, "held" if method == "midpoint" else "linear")}
    run = ks.simulate(model, time, start, inputs=inputs, method=method)
    name = model.state_names[0]
    trial = ks.Experiment(time, inputs, {name: run[name]})
    problem = ks.Collocation(model, trial, scheme=method)
    z = problem.pack(dict(run.states))
    assert np.abs(problem.constraints(z)).max() < 1e-12
    disturbed = z.copy()
    disturbed[300] += 1e-6
    assert np.abs(problem.constraints(disturbed)).max() > 1e-8


@pytest.mark.parametrize(("method", "order"), [("backward-euler", 1), ("midpoint", 2)])
def test_algebraic_state(method, order):
    """Index 1: x' = -y + sin t with 0 = y^3 + y - x."""
    y = ks.dynamicsymbols("y")
    model = ks.Model(
        "dae",
        [x, y],
        [],
        [],
        [x.diff(t) + y - sp.sin(t), y**3 + y - x],
        outputs={"rate": x.diff(t)},
    )

    def root(value):
        return brentq(lambda z: z**3 + z - value, -3.0, 3.0, xtol=1e-15)

    start = {x: 1.0, y: root(1.0)}
    time = np.linspace(0.0, 3.0, 61)
    truth = solve_ivp(
        lambda now, z: [-root(z[0]) + np.sin(now)],
        (0.0, 3.0),
        [1.0],
        rtol=1e-12,
        atol=1e-13,
        method="DOP853",
        t_eval=time,
    ).y[0]
    algebraic = np.array([root(value) for value in truth])
    errors = []
    for substeps in (2, 4, 8):
        run = ks.simulate(model, time, start, method=method, substeps=substeps)
        errors.append([np.abs(run["x"] - truth).max(), np.abs(run["y"] - algebraic).max()])
    errors = np.array(errors)
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), order, atol=0.2)
    assert errors.max() < (0.05 if order == 1 else 1e-3)
    if method == "backward-euler":  # the constraint holds at the nodes themselves
        assert np.abs(run["y"] ** 3 + run["y"] - run["x"]).max() < 1e-13
    # no explicit x' here: outputs solve the equations at the nodes
    rates = np.sin(time) - np.array([root(value) for value in run["x"]])
    np.testing.assert_allclose(run["rate"], rates, atol=1e-12)


def test_outputs_at_nodes():
    """x' in an output is the right-hand side at the node, inputs at their samples."""
    rng = np.random.default_rng(2)
    time, first, second = np.linspace(0, 1, 14), rng.normal(size=14), rng.normal(size=27)
    for method in METHODS:
        run = simulate(time, first=first, second=given(time, second, "midpoints"), method=method)
        rates = driven(states(run).T, (first, second[::2]), time)
        expected = rates[1] + 4.0 * np.sin(run["x"])
        np.testing.assert_allclose(run["force"], expected, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(run["twice"], 2.0 * run["x"] + first, rtol=1e-15)


# -- what goes wrong ------------------------------------------------------------------------


def test_stiff():
    """A mode of -1000 1/s with steps of 0.01 s: RK4 diverges and says which mode and what to do;
    what it says works. The others have no trouble."""
    time, stiff = np.linspace(0.0, 2.0, 201), {**DRAWN, s: 1000.0}
    with pytest.warns(UserWarning, match=r"many: diverged between t = ") as caught:
        run = simulate(time, alone(2.0), stiff)
    text = str(caught[0].message)
    assert run.message in text and "mode -1000" in text and "radau-5" in text
    assert 1 < len(run.time) < 201 and np.isfinite(run["x"]).all()
    assert f"between t = {run.time[-1]:g} and" in run.message

    late = time > 0.5
    for remedy in (
        {"substeps": int(re.search(r"substeps=(\d+)", text)[1])},
        {"method": "trapezoid", "substeps": 5},
        {"method": "backward-euler"},
        {"method": "dormand-prince"},
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = simulate(time, alone(2.0), stiff, **remedy)
        exact = (np.cos(time) * 1e6 + 1e3 * np.sin(time)) / (1e6 + 1.0)  # x' = -1000 (x - cos t)
        assert np.abs(run["x"] - exact)[late].max() < 1e-3, remedy


def test_step_that_the_message_allows():
    """The longest step in the message is rounded down, never up: such steps do not diverge."""
    stiff = {**DRAWN, s: 1000.0}
    with pytest.warns(UserWarning) as caught:
        simulate(np.linspace(0.0, 2.0, 201), alone(2.0), stiff)
    step = float(re.search(r"at most (\S+) s", str(caught[0].message))[1])
    assert step > 0.0025
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = simulate(np.arange(0.0, 40.0, step), alone(2.0), stiff)
    assert np.abs(run["x"][-1] - np.cos(run.time[-1])) < 0.01


def test_stiff_oscillation():
    """A mode at 123 degrees, where the region of stability of RK4 is narrowest (|h z| < 2.62): the
    number of substeps that the message names is enough."""
    z = 100.0 * np.exp(1j * np.radians(123.0))
    matrix = {**NOTHING, a: z.real, b: z.imag, d: -z.imag, e: z.real}
    time = np.arange(20001) * 0.055  # |h z| = 5.5
    with pytest.warns(UserWarning, match="many: diverged"):
        run = simulate(time, alone(1.0), matrix)
    substeps = int(re.search(r"substeps=(\d+)", run.message)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = simulate(time, alone(1.0), matrix, substeps=substeps)
    assert np.abs(states(run)).max() <= 1.5


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("rk4", "diverged between t = .* the model is unstable, or the step"),
        ("dormand-prince", "steps became shorter than rounding allows between t = .* singularity"),
        *(
            (m, "Newton's method failed between t = .* with a defect of .* .raise substeps")
            for m in IMPLICIT
        ),
    ],
)
def test_blow_up(method, words):
    """x' = x^2 reaches infinity at t = 1."""
    with pytest.warns(Warning) as caught:
        run = simulate(np.linspace(0.0, 2.0, 101), alone(1.0), GROWING, method=method)
    assert [item.category for item in caught] == [UserWarning]  # and none of NumPy's
    assert re.search(words, str(caught[0].message))
    assert re.search(words, run.message) and "last state x = " in run.message
    assert 40 <= len(run.time) <= 56 and len(run.time) == len(run["x"]) == len(run["force"])
    assert np.isfinite(run["x"]).all() and run.time[-1] == pytest.approx(1.0, abs=0.15)
    start, end = map(float, re.search(r"t = (\S+) and (\S+) s", run.message).groups())
    assert start == pytest.approx(run.time[-1], abs=1e-5)
    assert end - start == pytest.approx(0.02, abs=1e-5)
    np.testing.assert_allclose(
        run["x"][:25],
        1.0 / (1.0 - run.time[:25]),
        rtol=0.05 if method == "backward-euler" else 2e-3,
    )


def test_warning_points_to_the_call():
    with pytest.warns(UserWarning) as caught:
        ks.simulate(MODEL, [0.0, 1.0], {x: 3.0, v: 0.0}, GROWING, {u: 0, w: 0}, method="trapezoid")
    assert caught[0].filename == __file__


def test_no_step_at_all():
    """Newton's method fails in the first step: one node comes back, and it is the initial state."""
    with pytest.warns(UserWarning, match="between t = 0 and 1 s"):
        run = simulate([0.0, 1.0, 2.0], alone(3.0), GROWING, method="backward-euler")
    assert run.time.tolist() == [0.0] and run["x"].tolist() == [3.0]
    assert run["force"].tolist() == [0.0] and run["twice"].tolist() == [6.0]
    with pytest.warns(Warning) as caught:
        run = ks.simulate(FOLLOWER, [0.0, 1.0, 2.0], {x: 1e305}, {s: -1e10})
    assert [item.category for item in caught] == [UserWarning]  # and none of NumPy's
    assert run.time.tolist() == [0.0] and "last state x = 1e+305" in run.message


def press_at_second_report(monkeypatch):
    from contextlib import contextmanager

    @contextmanager
    def bar(total, show):
        count = iter(range(10**9))

        def report(nodes):
            if next(count) == 1:
                os.kill(os.getpid(), signal.SIGINT)

        yield report

    monkeypatch.setattr("kinesym.runtime.simulation.stepper.node_bar", bar)


@pytest.mark.parametrize("method", ["rk4", "trapezoid"])
def test_interrupt_returns_what_was_computed(monkeypatch, sigint, method):
    time = np.linspace(0.0, 1.0, 101)
    whole = simulate(time, alone(0.2), DRAWN, method=method, substeps=5000)
    press_at_second_report(monkeypatch)
    with pytest.warns(UserWarning, match=r"simulation of many: interrupted at t = 0.8 s"):
        run = simulate(time, alone(0.2), DRAWN, method=method, substeps=5000)
    assert run.message == "interrupted at t = 0.8 s" and len(run.time) == 81
    for name in ("x", "v", "force", "u"):
        np.testing.assert_array_equal(run[name], whole[name][:81])
    monkeypatch.undo()
    assert simulate(time, alone(0.2), DRAWN, method=method).message == ""


# -- files and the terminal -----------------------------------------------------------------


def test_save_and_load(tmp_path):
    with pytest.warns(UserWarning, match="Newton"):
        broken = simulate(np.linspace(0.0, 2.0, 101), alone(1.0), GROWING, method="trapezoid")
    whole = simulate(np.linspace(0, 1, 11), first=1.0, second=2.0)
    for number, run in enumerate((broken, whole)):
        run.save(tmp_path / f"{number}.nc")
        back = ks.Trajectory.load(tmp_path / f"{number}.nc")
        assert back.message == run.message and back.model == run.model
        assert back.parameters == run.parameters
        for kind in ("states", "inputs", "outputs"):
            one, other = getattr(run, kind), getattr(back, kind)
            assert list(one) == list(other)
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
        np.testing.assert_array_equal(run.time, back.time)
    assert broken.message and not whole.message and list(whole.outputs) == ["force", "twice"]


def test_silent_without_a_terminal(capfd):
    """No bar, no print: neither by default nor with progress=False."""
    for progress in (None, False):
        simulate(np.linspace(0, 1, 101), alone(0.2), DRAWN, substeps=20_000, progress=progress)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", METHODS)
def test_longer_runs_in_parts_are_one_run(method):
    """A run of more steps than are made at once equals the run in two halves."""
    time = np.linspace(0.0, 30.0, 9001)
    more = {} if method == "dormand-prince" else {"substeps": 50}
    whole = simulate(time, first=0.3, method=method, **more)
    first = simulate(time[:4501], first=0.3, method=method, **more)
    middle = {x: first["x"][-1], v: first["v"][-1]}
    second = simulate(time[4500:], middle, first=0.3, method=method, **more)
    np.testing.assert_allclose(states(whole)[4500:], states(second), rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(states(whole)[:4501], states(first))


def test_large_models_keep_their_factors_and_solve_to_rounding():
    """Twenty-two states: the derivatives of an earlier step serve; the defects vanish all the
    same, also across an input that jumps."""
    model = ks.models.n_link_pendulum_on_cart(10)
    time = np.linspace(0.0, 2.0, 401)
    rng = np.random.default_rng(1)
    start = {name: 0.2 * rng.standard_normal() for name in model.state_names}
    force = np.where(time < 1.0, 5.0, -400.0)
    values = {name: 1.0 for name in model.parameter_names} | {"g": 9.81}
    run = ks.simulate(model, time, start, values, {"F": force}, method="trapezoid")
    x = np.array([run[name] for name in model.state_names])
    f = ks.compile(model)
    rates = f.rhs(x, force[None], [values[name] for name in model.parameter_names])
    defect = np.diff(x) - np.diff(time) * (rates[:, 1:] + rates[:, :-1]) / 2.0
    np.testing.assert_allclose(defect, 0.0, atol=1e-12 * (1.0 + np.abs(x).max()))
