"""Gradients of shooting: the schemes and costs once more in NumPy with complex steps, published
numbers, tangents, the reduced gradient of collocation, Taylor's theorem."""

import gzip
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import splu

import kinesym as ks
from kinesym.internal.problems.residual_problem import residual_problem

DATA = Path(__file__).parents[1] / "data"
FIVE = ["KP", "KI", "KD", "A", "B"]
METHODS = ["rk4", "trapezoid", "midpoint", "backward-euler"]
ALL = [*METHODS, "radau-3", "radau-5", "gauss-4", "gauss-6", "lobatto-4", "lobatto-6"]
t = ks.t


def relative(found, expected):
    """Largest deviation, entry by entry."""
    return np.abs(np.asarray(found) / np.asarray(expected) - 1.0).max()


def largest(found, expected):
    """Largest deviation, relative to the largest entry."""
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


# -- the controlled inverted pendulum, specification sections 1.5 and 4 ----------------------


def record():
    with gzip.open(DATA / "cip_10Hz.csv.gz", "rt") as file:
        return np.genfromtxt(file, delimiter=",", skip_header=1).T


@pytest.fixture(scope="module", params=["rk4", "trapezoid"])
def sway(request):
    """J = integral of (u_COP - u_ref)^2 / 2, all five parameters unknown; as (method, shooting)."""
    time, noise, reference, _ = record()
    return request.param, sway_problem(time, noise, reference, request.param)


def sway_problem(time, noise, reference, method, **more):
    model, ref = ks.models.cip(), ks.dynamicsymbols("u_ref")
    held = ks.Signal(time, noise, "held")
    trial = ks.Experiment(time, inputs={"x": held, "u_ref": reference})
    return ks.Shooting(
        model,
        trial,
        unknown=dict.fromkeys(FIVE),
        initial=dict.fromkeys(model.state_names, 0.0),
        objective=ks.Integral((model.outputs["u_COP"] - ref) ** 2 / 2),
        method=method,
        **more,
    )


def sway_by_complex_steps(time, noise, reference, method):
    """J and its gradient at the start of the document, by a recursion that shares no code."""
    m, inertia, h, g = 60.0, 76.0, 1.13, 9.81
    p0 = np.array([1470.0, 14.32, 200.0, 1000.0, 80.0])
    p = p0[:, None] * (1.0 + 1e-30j * np.eye(5))  # one column per perturbed parameter
    KP, KI, KD, A, B = p
    matrix, one = np.zeros((5, 4, 4), dtype=complex), np.eye(4)
    matrix[:, 0, 1] = matrix[:, 2, 0] = 1.0
    matrix[:, 1] = np.array([m * g * h - KP, -KD, -KI, np.ones(5)]).T / inertia
    matrix[:, 3, 3] = -1.0 / B
    force = np.zeros((5, 4), dtype=complex)
    force[:, 3] = A / B
    s = np.zeros((5, 4), dtype=complex)
    weights = np.zeros(len(time))
    weights[:-1] += 0.5 * np.diff(time)
    weights[1:] += 0.5 * np.diff(time)
    J = np.zeros(5, dtype=complex)

    def f(s, x):
        return np.einsum("kij,kj->ki", matrix, s) + force * x

    for i, weight in enumerate(weights):
        rate = f(s, 0.0)[:, 1]
        e = h * s[:, 0] - inertia * rate / (m * g) - reference[i]
        J += 0.5 * weight * e**2
        if i == len(time) - 1:
            break
        dt, x = time[i + 1] - time[i], noise[i]
        if method == "rk4":
            k1 = f(s, x)
            k2 = f(s + 0.5 * dt * k1, x)
            k3 = f(s + 0.5 * dt * k2, x)
            k4 = f(s + dt * k3, x)
            s = s + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        else:
            right = s + 0.5 * dt * f(s, x) + 0.5 * dt * force * x
            s = np.linalg.solve(one - 0.5 * dt * matrix, right[..., None])[..., 0]
    return J[0].real, J.imag / 1e-30 / p0


#: Table of section 1.5, of an independent implementation. In d J/d KI of rk4 it prints ...95897...
#: for ...95937...; the complex steps of this file and the other nine numbers agree.
TABLE = {
    "rk4": (
        7.368085333594928e-4,
        [
            -4.348717658571823e-6,
            -1.0912839593777743e-4,
            -1.4878678577937907e-6,
            5.491899172510311e-6,
            -5.384267323049018e-5,
        ],
    ),
    "trapezoid": (
        7.381553396563268e-4,
        [
            -4.359286256541641e-6,
            -1.09140336538061e-4,
            -1.4989745436179656e-6,
            5.497053062217875e-6,
            -5.3904921187661264e-5,
        ],
    ),
}


def test_published_values(sway):
    method, shooting = sway
    J, gradient = TABLE[method]
    assert shooting.names == FIVE
    assert relative(shooting.cost(), J) < 1e-12
    assert relative(shooting.gradient(), gradient) < 1e-11


def test_600_steps_by_complex_steps(sway):
    method, shooting = sway
    time, noise, reference, _ = record()
    J, gradient = sway_by_complex_steps(time, noise, reference, method)
    assert relative(shooting.cost(), J) < 1e-12
    assert relative(shooting.gradient(), gradient) < 1e-12
    assert relative(shooting.gradient(mode="forward"), gradient) < 1e-12
    q = shooting.pack()
    slopes, residuals = shooting.residual_jacobian(q), shooting.residuals(q)
    assert relative(residuals @ residuals, J) < 1e-12
    assert relative(2.0 * slopes.T @ residuals, gradient) < 1e-12


@pytest.mark.study
def test_6000_steps_by_complex_steps(sway):
    """Noise held, reference interpolated; substeps are the same as a finer grid."""
    method, _ = sway
    time, noise, reference, _ = record()
    fine = np.linspace(0.0, 60.0, 6001)
    held, dense = np.append(np.repeat(noise[:-1], 10), noise[-1]), np.interp(fine, time, reference)
    J, gradient = sway_by_complex_steps(fine, held, dense, method)
    for shooting in (
        sway_problem(fine, held, dense, method),
        sway_problem(time, noise, reference, method, substeps=10),
    ):
        assert relative(shooting.cost(), J) < 1e-11
        assert relative(shooting.gradient(), gradient) < 1e-11
        assert relative(shooting.gradient(mode="forward"), gradient) < 1e-11


# -- adjoint, tangents, differences, and collocation on models of every kind ----------------


@cache
def cases():
    """Per model: itself, unknown parameters, unknown initial states, forcing and what is between
    its samples, the objective, measurements, values of the states."""
    cip, standing, chain = (
        ks.models.cip(),
        ks.models.standing(),
        ks.models.n_link_pendulum_on_cart(3),
    )
    ref = ks.dynamicsymbols("ref")
    u, v, _, torque = cip.states
    x, KP, I = cip.inputs[0], *(s for s in cip.parameters if s.name in ("KP", "I"))  # noqa: E741
    cop = {"u_COP": 1.13 * u - I * v.diff(t) / (60.0 * 9.81)}  # contains x'
    sway = ks.Integral(10 * (cip.outputs["u_COP"] - ref) ** 2 + v * x / 100 + x**2 * u**2)
    lean, bend = standing.states[:2]
    work = ks.Integral((standing.outputs["T_a"] / 100) ** 2 + (ref - sp.sin(bend)) ** 2 + lean**4)
    q, rate = chain.states[1], chain.states[4]
    swing = ks.Integral(rate.diff(t) ** 2 / 100 + q**4 * rate**2 / 10 + (q - ref) ** 2)
    return {
        "cip": (
            replace(cip, outputs=cop),
            ["KP", "KD", "B"],
            ["u", "Td"],
            ("x", "held"),
            sway + 3 * ks.Terminal(KP * u**2 / 100 + torque**2 / 50) + 0.5 * ks.LeastSquares(),
            ["u", "u_COP"],
            [0.03, -0.02, 0.01, 4.0],
        ),
        "standing": (
            standing,
            ["k_00", "k_11", "m_T", "l_L"],
            ["omega_h"],
            ("a", "linear"),
            work / 2 + ks.Terminal(sp.cosh(lean) ** 2 * bend**2) + 0.5 * ks.LeastSquares(),
            ["theta_a", "T_h"],
            [0.05, -0.1, 0.1, 0.2],
        ),
        "n_link_3": (
            replace(chain, outputs={"pull": rate.diff(t) + chain.states[5].diff(t) * q}),
            ["m_1", "l_2", "g"],
            ["q_1", "u_3"],
            ("F", "held"),
            swing + ks.Terminal(sp.cos(q) * rate) + 2 * ks.LeastSquares(),
            ["q_2", "pull"],
            [0.0, 3.0, 2.6, 2.2, 0.0, 0.3, 0.0, -0.5],
        ),
    }


WHICH = ["cip", "standing", "n_link_3"]


def trial(case, number):
    """A trial with a grid of unequal steps; every third sample of the first measurement is gone."""
    (forcing, between), measured = case[3], case[5]
    rng = np.random.default_rng(number)
    N = (37, 22)[number]
    time = np.concatenate([[0.0], np.cumsum(rng.uniform(0.01, 0.06, N - 1))])
    samples = {name: 0.3 * rng.normal(size=N) for name in measured}
    samples[measured[0]][1::3] = np.nan
    std = {measured[0]: rng.uniform(0.1, 0.4, N), measured[1]: 2.0}
    inputs = {forcing: ks.Signal(time, 2.0 * rng.normal(size=N), between)}
    inputs["ref"] = rng.normal(size=N)
    return ks.Experiment(time, inputs, samples, std)


def shooting_of(case, method, trials, **more):
    model, unknown, free, _, objective, _, start = case
    initial = dict(zip(model.state_names, start, strict=True)) | dict.fromkeys(free)
    return ks.Shooting(
        model,
        trials,
        dict.fromkeys(unknown),
        initial=initial,
        objective=objective,
        method=method,
        **more,
    )


def values_of(case, shooting):
    """q at the values of the model and near the given states."""
    model, _, free, *_, start = case
    by_state = dict(zip(model.state_names, start, strict=True))
    q = shooting.pack({name: by_state[name] for name in free})
    inner = [k for k, name in enumerate(shooting.names) if " at node " in name]
    q[inner] = [by_state[shooting.names[k].split(" at ")[0]] for k in inner]
    return q + 1e-3 * np.abs(q) * np.random.default_rng(0).normal(size=len(q))


def differences(function, q, size=3e-5):
    """Central differences of order four of a scalar function."""
    slopes = []
    for k in range(len(q)):
        e = np.zeros(len(q))
        e[k] = size * max(abs(q[k]), 0.1)
        near, far = (function(q + s * e) - function(q - s * e) for s in (1.0, 2.0))
        slopes.append((8.0 * near - far) / (12.0 * e[k]))
    return np.array(slopes)


@pytest.mark.study
@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("which", WHICH)
def test_adjoint_tangents_and_differences(which, method):
    """Integral, terminal cost and least squares together; two trials on grids of unequal steps with
    missing samples; unknown parameters and initial states; substeps; segments."""
    case = cases()[which]
    for more in ({}, {"substeps": 3}, {"segments": 3}):
        shooting = shooting_of(case, method, [trial(case, 0), trial(case, 1)], **more)
        q = values_of(case, shooting)
        adjoint = shooting.gradient(q)
        forward, acts = shooting.gradient(q, mode="forward"), adjoint != 0.0
        still = [name[:3] for name, acting in zip(shooting.names, acts, strict=True) if not acting]
        assert set(still) <= {"q_0", "u_0"} and (more or not still)  # the cart at inner boundaries
        assert (forward[~acts] == 0.0).all()
        assert relative(forward[acts], adjoint[acts]) < 1e-11, more
        assert largest(differences(shooting.cost, q) * np.abs(q), adjoint * np.abs(q)) < 1e-8, more


@pytest.mark.parametrize("which", ["cip", "standing", "n_link_3"])
def test_reduced_gradient_of_collocation(which):
    """Eliminating the states from the nonlinear program at the simulated point: the same number."""
    method = "trapezoid"
    case = cases()[which]
    model, unknown, _, _, objective, *_, start = case
    data = trial(case, 0)
    shooting = shooting_of((*case[:2], [], *case[3:]), method, data)
    problem = ks.Collocation(
        model, data, dict.fromkeys(unknown), objective=objective, scheme=method
    )
    q = shooting.pack()
    run = shooting.trajectories(q)[0]
    n, N = len(start), data.n_nodes
    z = np.concatenate([*(run[x] for x in model.state_names), q])
    assert np.abs(problem.constraints(z)).max() < 1e-12
    assert relative(problem.cost(z), shooting.cost(q)) < 1e-13
    jacobian, direct = problem.constraint_jacobian(z).tocsc(), problem.cost_gradient(z)
    moving = np.flatnonzero(np.arange(n * N) % N)  # all nodes but the first
    multipliers = splu(jacobian[:, moving]).solve(direct[moving], trans="T")
    reduced = direct[n * N :] - jacobian[:, n * N :].T @ multipliers
    assert relative(shooting.gradient(q), reduced) < 1e-10


@pytest.mark.parametrize("method", ["rk4", "trapezoid"])
def test_residuals_are_the_objective(method):
    """Squares of an integral, a terminal cost and measurements with missing samples sum to J, and
    their slopes give its gradient; substeps too."""
    case = cases()["standing"]
    for more in ({}, {"substeps": 3}):
        shooting = shooting_of(case, method, [trial(case, 0), trial(case, 1)], **more)
        q = values_of(case, shooting)
        residuals, slopes = shooting.residuals(q), shooting.residual_jacobian(q)
        assert relative(residuals @ residuals, shooting.cost(q)) < 1e-13
        assert relative(2.0 * slopes.T @ residuals, shooting.gradient(q)) < 1e-11


def test_integrals_that_jump_have_no_residuals():
    """A held input makes the integral of itself, and of x', jump at the nodes."""
    case = cases()["cip"]
    shooting = shooting_of(case, "rk4", trial(case, 0))
    u, v = case[0].states[:2]
    for jumps in (u * case[0].inputs[0], v.diff(t)):
        problem = replace(shooting.symbolic, objective=ks.Integral(jumps**2))
        with pytest.raises(ValueError, match=r"the integral .* held"):
            residual_problem(problem)
        residual_problem(replace(problem, held=frozenset()))


# -- samples of inputs ----------------------------------------------------------------------


def driven_by_complex_steps(method, time, held, linear, q):
    """J and d J / d (k, v0, held samples, linear samples) for the model of the test below."""
    N = len(time)
    count = 2 + 2 * N
    base = np.concatenate([q[:2], held, linear])
    step = 1e-30
    values = base[:, None] + 1j * step * np.eye(count)  # (entries, perturbations)
    k, v0, U, W = values[0], values[1], values[2 : 2 + N], values[2 + N :]

    def f(z, u, w, now):
        return np.array([z[1], -k * np.sin(z[0]) - 0.3 * z[1] + u + z[0] * w + np.cos(3.0 * now)])

    def slopes(z, u, w, now):
        zero = np.zeros(count)
        return np.array([[zero, zero + 1.0], [w - k * np.cos(z[0]), zero - 0.3]])

    def cost(z, u, w, now):
        return z[0] ** 2 + u**2 * z[1] / 5 + w**2 / 10 + u * w * np.sin(now)

    def implicit(z0, rest, derivative):
        z = z0.copy()
        for _ in range(12):
            a = derivative(z).transpose(2, 0, 1)
            z = z - np.linalg.solve(a, rest(z).T[..., None])[..., 0].T
        return z

    eye = np.eye(2)[:, :, None]
    z, J = np.array([np.full(count, 0.4 + 0j), v0]), np.zeros(count, dtype=complex)
    for i, h in enumerate(np.diff(time)):
        a, b = time[i], time[i + 1]
        u, w0, w1, wm = U[i], W[i], W[i + 1], 0.5 * (W[i] + W[i + 1])
        if method == "rk4":
            k1 = f(z, u, w0, a)
            k2 = f(z + 0.5 * h * k1, u, wm, a + 0.5 * h)
            k3 = f(z + 0.5 * h * k2, u, wm, a + 0.5 * h)
            k4 = f(z + h * k3, u, w1, b)
            new = z + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        elif method == "trapezoid":
            new = implicit(
                z,
                lambda y: y - z - 0.5 * h * (f(z, u, w0, a) + f(y, u, w1, b)),  # noqa: B023
                lambda y: eye - 0.5 * h * slopes(y, u, w1, b),  # noqa: B023
            )
        elif method == "midpoint":
            new = implicit(
                z,
                lambda y: y - z - h * f(0.5 * (z + y), u, wm, 0.5 * (a + b)),  # noqa: B023
                lambda y: eye - 0.5 * h * slopes(0.5 * (z + y), u, wm, 0.0),  # noqa: B023
            )
        else:
            new = implicit(
                z,
                lambda y: y - z - h * f(y, u, w1, b),  # noqa: B023
                lambda y: eye - h * slopes(y, u, w1, b),  # noqa: B023
            )
        J += 0.5 * h * (cost(z, u, w0, a) + cost(new, u, w1, b))  # held: the left value at both
        z = new
    J += z[0] * z[1] + W[-1] * z[0]
    return J[0].real, J.imag / step


@pytest.mark.parametrize("method", METHODS)
def test_samples_of_inputs(method):
    """Two unknown inputs, one held and one linear, both in the integral, one in the terminal cost;
    with a parameter and an initial state."""
    x, v, u, w = ks.dynamicsymbols("x v u w")
    k = sp.Symbol("k")
    model = ks.Model(
        "driven",
        [x, v],
        [u, w],
        [k],
        [
            x.diff(t) - v,
            v.diff(t) + k * sp.sin(x) + sp.Rational(3, 10) * v - u - x * w - sp.cos(3 * t),
        ],
    )
    rng = np.random.default_rng(5)
    time = np.concatenate([[0.2], 0.2 + np.cumsum(rng.uniform(0.02, 0.2, 18))])
    N = len(time)
    shooting = ks.Shooting(
        model,
        ks.Experiment(time),
        {k: None},
        initial={x: 0.4, v: (-1.0, 1.0)},
        unknown_inputs={u: ks.held(), w: (-9.0, 9.0)},
        method=method,
        objective=ks.Integral(x**2 + u**2 * v / 5 + w**2 / 10 + u * w * sp.sin(t))
        + ks.Terminal(x * v + w * x),
    )
    held, linear = rng.normal(size=N), rng.normal(size=N)
    q = np.concatenate([[4.0, -0.3], held, linear])
    assert shooting.names == ["k", "v(0)", *(f"{i} at node {n}" for i in "uw" for n in range(N))]
    J, gradient = driven_by_complex_steps(method, time, held, linear, q)
    found = shooting.gradient(q)
    assert relative(shooting.cost(q), J) < 1e-13
    assert largest(found, gradient) < 1e-12
    assert gradient[1 + N] == found[1 + N] == 0.0  # the last sample of a held input acts on nothing
    packed = shooting.pack({k: 4.0, v: -0.3, u: held, w: linear})
    np.testing.assert_array_equal(packed, q)
    with pytest.raises(ValueError, match="differentiated by mode='adjoint' only"):
        shooting.gradient(q, mode="forward")


# -- any model ------------------------------------------------------------------------------


@st.composite
def random_models(draw):
    """Damped states coupled by polynomials and sines with parameters."""
    n, r = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    states = ks.dynamicsymbols([f"x{i}" for i in range(n)]) if n > 1 else [ks.dynamicsymbols("x0")]
    parameters = sp.symbols(f"p0:{r}")
    number = st.integers(-3, 3).map(lambda k: sp.Rational(k, 4))

    def term(p):
        x, y = draw(st.sampled_from(states)), draw(st.sampled_from(states))
        kind = draw(st.sampled_from(["p x", "sin(p x)", "p x y", "sin(p t) x", "p^2"]))
        return {
            "p x": p * x,
            "sin(p x)": sp.sin(p * x),
            "p x y": p * x * y / 4,
            "sin(p t) x": sp.sin(p * t) * x,
            "p^2": p**2 / 2,
        }[kind]

    rates = [-x + draw(number) for x in states]
    for p in parameters:  # each acts somewhere
        rates[draw(st.integers(0, n - 1))] += term(p)
    equations = [x.diff(t) - rate for x, rate in zip(states, rates, strict=True)]
    start = [float(draw(number)) for _ in states]
    method = draw(st.sampled_from(ALL))
    return ks.Model("any", states, [], list(parameters), equations), start, method


@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(random_models(), st.integers(0, 2**31))
def test_taylor(found, seed):
    """|J(q + e d) - J - e g.d| falls by 100 per decade of e, over four decades."""
    model, start, method = found
    rng = np.random.default_rng(seed)
    samples = {x: rng.normal(size=21) for x in model.state_names}
    objective = (
        ks.LeastSquares()
        + ks.Integral(sp.cos(model.states[0]) * model.parameters[0])
        + ks.Terminal(model.states[-1] ** 3)
    )
    shooting = ks.Shooting(
        model,
        ks.Experiment(np.linspace(0.0, 1.5, 21), {}, samples),
        method=method,
        unknown=dict.fromkeys(model.parameters),
        objective=objective,
        initial=dict(zip(model.states, start, strict=True)) | {model.states[0]: None},
    )
    q = np.append(rng.uniform(0.3, 1.2, len(model.parameters)), 0.5)
    direction = rng.normal(size=len(q))
    J, slope = shooting.cost(q), shooting.gradient(q) @ direction
    sizes = 10.0 ** -np.arange(1, 6)
    rests = [abs(shooting.cost(q + e * direction) - J - e * slope) for e in sizes]
    rounding = 1e-14 * (abs(J) + 1.0)
    for big, small in pairwise(rests[1:]):
        if big > 1e3 * rounding:
            assert small < 0.05 * big + 10.0 * rounding, rests
    assert rests[-1] < 1e-3 * rests[0] + 10.0 * rounding, rests
    assert np.abs(shooting.gradient(q, mode="forward") / shooting.gradient(q) - 1.0).max() < 1e-9
