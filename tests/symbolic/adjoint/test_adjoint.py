"""The continuous adjoint against complex steps, published equations and an independent engine."""

from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.continuous_adjoint import ContinuousAdjoint
from kinesym.symbolic.adjoint import FORMS, adjoint

t = ks.t
GAINS = ["KP", "KI", "KD", "A", "B"]

# -- the controlled inverted pendulum ----------------------------------------------------------

RECORD = np.genfromtxt(
    Path(__file__).parents[2] / "data" / "cip_10Hz.csv.gz", delimiter=",", skip_header=1
)

#: dJ/d(KP, KI, KD, A, B) of the continuous problem, noise held over 0.1 s, reference piecewise
#: linear; by an independent implementation, to nine digits.
CIP_TRUTH = np.array(
    [-4.34834613e-6, -1.09144453e-4, -1.48922687e-6, 5.48735639e-6, -5.37835834e-5]
)


def cip_case():
    """Model with u'' weighed by I, as it is printed, and half the square of u_COP - u_ref."""
    u, v, reference = ks.dynamicsymbols("u v u_ref")
    inertia, m, h, g = sp.symbols("I m h g")
    model = ks.models.cip()
    equations = [inertia * e if e.has(v.diff(t)) else e for e in model.equations]
    model = model.substitute({}, equations=equations)
    error = h * u - inertia * v.diff(t) / (m * g) - reference
    return model, ks.Integral(error**2 / 2)


@lru_cache
def cip_adjoint(form):
    return ContinuousAdjoint(*cip_case(), GAINS, form, held=["x"])


@lru_cache
def cip_run(refine):
    """A run with `refine` steps per sample, and the reference on its grid."""
    time = np.linspace(0.0, 60.0, 600 * refine + 1)
    noise = np.append(np.repeat(RECORD[:-1, 1], refine), 0.0)
    run = ks.simulate(
        cip_case()[0],
        time,
        dict.fromkeys(["u", "v", "z", "Td"], 0.0),
        inputs={"x": ks.Signal(time, noise, "held")},
    )
    return run, np.interp(time, RECORD[:, 0], RECORD[:, 2])


def cip_gradient(form, refine):
    run, reference = cip_run(refine)
    return cip_adjoint(form).gradient(run, {"u_ref": reference})


@pytest.mark.parametrize("form", FORMS)
def test_cip_converges_to_the_continuous_gradient(form):
    """Order two from 0.1 s to 0.0125 s, although the noise jumps."""
    steps = np.array([1, 2, 4, 8])
    gradients = [[cip_gradient(form, r).parameters[p] for p in GAINS] for r in steps]
    errors = np.abs(np.array(gradients) / CIP_TRUTH - 1.0)
    orders = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    np.testing.assert_allclose(orders, 2.0, atol=0.1)
    assert (errors[-1] < [2e-5, 4e-6, 2e-4, 1e-4, 1e-4]).all()


def test_cip_forms_agree():
    """Up to the error of the steps; they are different discretisations of the same functional."""
    first, second = (cip_gradient(form, 4) for form in FORMS)
    for name in GAINS:
        assert first.parameters[name] == pytest.approx(second.parameters[name], rel=1e-9)
    for name, value in first.initial.items():
        assert value == pytest.approx(second.initial[name], rel=1e-9)
    np.testing.assert_allclose(first.inputs["x"], second.inputs["x"], atol=1e-12)
    assert (second.conjugates["mu_u"] == 0.0).all()


def trapezoid_backwards(matrix, force, step):
    """y(t) of -y' = matrix y + force(t), zero at the end, by the implicit trapezoidal rule."""
    identity, y = np.eye(len(matrix)), np.zeros((len(matrix), force.shape[1]))
    left, right = identity - step / 2 * matrix, identity + step / 2 * matrix
    for k in range(force.shape[1] - 2, -1, -1):
        known = right @ y[:, k + 1] + step / 2 * (force[:, k] + force[:, k + 1])
        y[:, k] = np.linalg.solve(left, known)
    return y


def printed_conjugates(run, reference, integral=True):
    """lambda and eta of (2.6) for the pendulum with c~ = KD, k~ = KP - m g h, and nu.

    I l'' - KD l' + (KP - mgh) l + KI L = h e, I eta'' - KD eta' + (KP - mgh) eta + KI H = - I e
    /(m g), with L = int_t^T l, H = int_t^T eta (not printed, left out without `integral`), and
    nu - B nu' = Lambda = l + eta'' for the noise filter (not printed).
    """
    p = run.parameters
    inertia, m, h, g, KD, KI, B = (p[k] for k in ("I", "m", "h", "g", "KD", "KI", "B"))
    k, KI = p["KP"] - m * g * h, KI if integral else 0.0
    e = run["u_COP"] - reference
    # (l, l', L, eta, eta', H, nu); each row is minus the time derivative
    rows = np.zeros((7, 7))
    rows[0, 1] = rows[3, 4] = -1.0
    rows[2, 0] = rows[5, 3] = 1.0
    for r in (0, 3):
        rows[r + 1, r : r + 3] = k / inertia, -KD / inertia, KI / inertia
    force = np.zeros((7, len(e)))
    force[1], force[4] = -h * e / inertia, e / (m * g)
    rows[6, [0, 6]] = 1.0 / B, -1.0 / B
    rows[6] -= rows[4] / B  # eta'' = -(minus its rate)
    force[6] = -force[4] / B
    y = trapezoid_backwards(rows, force, run.time[1])
    return y[0], y[3], y[6], y[0] - (rows[4] @ y + force[4])


def test_cip_conjugates_solve_the_printed_equations():
    """With the integral term and the filter that the paper leaves out, to rounding."""
    run, reference = cip_run(2)
    found = cip_gradient("second-order", 2).conjugates
    lam, eta, nu, total = printed_conjugates(run, reference)
    ours = [
        found["lambda_u"],
        found["eta_u"],
        found["costate_Td"] / run.parameters["B"],
        found["Lambda_u"],
    ]
    for expected, actual in zip([lam, eta, nu, total], ours, strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("integral", "filter_", "factors"),
    [
        (False, True, [1.442, 1.265, 1.048, 1.360, 1.387]),
        (True, False, [1.0, 1.0, 1.0, 2.581, 2.016]),
        (False, False, [1.442, 1.265, 1.048, 4.250, 3.686]),
    ],
)
def test_cip_printed_equations_are_wrong_by_known_factors(integral, filter_, factors):
    """Without integral term, or with (2.8) as printed; factors by an independent engine."""
    run, reference = cip_run(8)
    _, _, nu, total = printed_conjugates(run, reference, integral)
    p, dt = run.parameters, run.time[1]
    conjugate = nu if filter_ else total
    right, left = run["Td"][1:], run["Td"][:-1]
    noise = run["x"][:-1]  # held
    rates = [(p["A"] * noise - torque) / p["B"] for torque in (left, right)]
    printed = [np.trapezoid(-total * run[name], dx=dt) for name in "uzv"]
    printed.append(0.5 * dt * (noise * (conjugate[1:] + conjugate[:-1])).sum())
    printed.append(-0.5 * dt * (rates[0] * conjugate[:-1] + rates[1] * conjugate[1:]).sum())
    np.testing.assert_allclose(np.array(printed) / CIP_TRUTH, factors, rtol=5e-3)


# -- oscillators: every term that the equations know -------------------------------------------

P = np.array([1.3, 0.5, 9.0, 0.8, 1.7])
P_NAMES = ["m", "c", "k", "b", "r"]
T = 3.0
SHAPES = [lambda s: np.cos(5 * s), lambda s: np.exp(-20 * (s - 1.2) ** 2)]


def force(s):
    return np.sin(2 * s) + 0.5 * s


class Oscillator:
    """One coordinate; damping and stiffness vary in time and with the motion."""

    n, extra = 1, 0

    @staticmethod
    def motion(lib, a, v, q, s, f, p, t):
        m, c, k, b, r = p
        damping = (c + 0.4 * lib.sin(3 * t) + 0.3 * q[0] ** 2) * v[0]
        return [m * a[0] + damping + (k + 2 * lib.cos(2 * t)) * q[0] + b * q[0] ** 3 - r * f]

    @staticmethod
    def growth(lib, v, q, s, f, p, t):
        return []

    @staticmethod
    def psi(lib, a, v, q, s, f, p, t):
        speed = p[3] * v[0] ** 2 * lib.cos(t) * q[0] + 0.1 * a[0] * v[0]
        return (q[0] - lib.sin(t)) ** 2 + speed + 0.05 * a[0] ** 2 + 0.02 * f**2 + p[4] * a[0] / 9

    @staticmethod
    def phi(lib, v, q, s, p, t):
        return p[2] * q[0] ** 2 + q[0] * v[0] * lib.cos(t) + 0.5 * v[0] ** 3


class TwoMasses(Oscillator):
    """Two coordinates; m, c, k are not symmetric, and the damping depends on the input."""

    n = 2

    @staticmethod
    def motion(lib, a, v, q, s, f, p, t):
        m, c, k, b, r = p
        first = m * a[0] + 0.3 * a[1] + (c + 0.4 * lib.sin(3 * t)) * v[0] - 0.5 * v[1]
        second = -0.2 * a[0] + 1.4 * a[1] + 0.7 * c * v[1] * (1 + q[0] ** 2) + 0.2 * v[0] * f
        return [
            first + (k + 2 * lib.cos(2 * t)) * q[0] - 1.5 * q[1] + b * q[0] ** 3 - r * f,
            second + 3 * q[1] + 0.8 * k * lib.sin(q[0] * q[1]) + 0.3 * f,
        ]

    @staticmethod
    def psi(lib, a, v, q, s, f, p, t):
        return Oscillator.psi(lib, a, v, q, s, f, p, t) + 0.1 * a[1] * v[0] + 0.1 * v[1] ** 2 * q[1]

    @staticmethod
    def phi(lib, v, q, s, p, t):
        return p[2] * q[0] ** 2 + q[0] * v[1] + 0.5 * v[0] ** 2 + q[1] * lib.sin(t)


class Coupled(Oscillator):
    """Two coordinates with a mass matrix of q and t, and two further states."""

    n, extra = 2, 2

    @staticmethod
    def motion(lib, a, v, q, s, f, p, t):
        m, c, k, b, r = p
        first = (m + 0.5 * lib.cos(q[1]) + 0.2 * lib.sin(t)) * a[0] + c * v[0] + k * q[0]
        second = (1.2 + 0.2 * q[0] ** 2) * a[1] + 0.7 * c * v[1] + b * lib.sin(q[1]) * s[1]
        both = 0.4 * lib.cos(q[0] - q[1])
        return [
            first + both * a[1] - 0.3 * lib.sin(q[0] - q[1]) * v[1] ** 2 - s[0] * (2 + t) / 2,
            second + both * a[0] + 3 * q[1] - r * f * (1 + 0.3 * q[0]),
        ]

    @staticmethod
    def growth(lib, v, q, s, f, p, t):
        return [
            (f - s[0]) / p[3] + 0.3 * q[0] * v[1],
            q[0] * lib.cos(t) - 0.2 * s[1] * s[0] + 0.3 * v[0],
        ]

    @staticmethod
    def psi(lib, a, v, q, s, f, p, t):
        return TwoMasses.psi(lib, a, v, q, s, f, p, t) + 0.1 * p[4] * a[0] * s[0] + 0.3 * s[1] ** 2

    @staticmethod
    def phi(lib, v, q, s, p, t):
        return TwoMasses.phi(lib, v, q, s, p, t) + q[1] * s[0] + s[1] ** 2


def model_of(case):
    """The model and its objective, from the same formulas as the truth."""
    q, v = (list(ks.dynamicsymbols(f"{name}:{case.n}")) for name in "qv")
    s = list(ks.dynamicsymbols(f"s:{case.extra}")) if case.extra else []
    p, f, a = sp.symbols(P_NAMES), ks.dynamicsymbols("f"), [x.diff(t) for x in v]
    kinematic = [x.diff(t) - y for x, y in zip(q, v, strict=True)]
    growth = [x.diff(t) - g for x, g in zip(s, case.growth(sp, v, q, s, f, p, t), strict=True)]
    equations = [*kinematic, *growth, *case.motion(sp, a, v, q, s, f, p, t)]
    model = ks.Model(
        case.__name__, [*q, *v, *s], [f], p, equations, values=dict(zip(p, P, strict=True))
    )
    cost = ks.Integral(case.psi(sp, a, v, q, s, f, p, t))
    return model, cost + ks.Terminal(case.phi(sp, v, q, s, p, t))


def start(case):
    n, extra = np.arange(case.n), np.arange(case.extra)
    return np.concatenate([0.3 + 0.2 * n, 0.5 - 0.4 * n, 0.2 + 0.1 * extra])


def rates(case, x, f, p, t):
    """x' and psi, (n + 1, members), where the accelerations follow from a linear system."""
    n = case.n
    q, v, s = x[:n], x[n : 2 * n], x[2 * n :]
    motion = partial(case.motion, np, v=v, q=q, s=s, f=f, p=p, t=t)
    rest = np.array(motion(a=np.zeros((n, 1))))
    mass = [np.array(motion(a=np.eye(n)[:, [j]])) - rest for j in range(n)]
    a = -np.linalg.solve(np.array(mass).transpose(2, 1, 0), rest.T[..., None])[..., 0].T
    growth = np.reshape(case.growth(np, v, q, s, f, p, t), (case.extra, x.shape[1]))
    return np.concatenate([v, a, growth, [case.psi(np, a, v, q, s, f, p, t)]])


@lru_cache
def truth(case, held=0, steps=1200):
    """dJ/d(p, x(0), shapes of f, T) by complex steps through Runge-Kutta steps of T / 1200.

    Time is s T with s from 0 to 1, so that T has a complex step too. `held` > 0: the force is held
    over so many intervals, and T and the shapes of f are not varied.
    """
    x0, tiny = start(case), 1e-20j
    count = len(P) + len(x0) + len(SHAPES) + 1
    seed = tiny * np.eye(count)
    p, x, amplitude, end = np.split(seed, np.cumsum([len(P), len(x0), len(SHAPES)]))
    p, x, end = p + P[:, None], x + x0[:, None], end[0] + T
    y, h = np.concatenate([x, np.zeros((1, count))]), 1.0 / steps

    def slope(y, s, k):
        at = s * end
        f = force(at) + sum(a * shape(at) for a, shape in zip(amplitude, SHAPES, strict=True))
        if held:
            f = np.full(count, force(T * (k * held // steps) / held))
        return rates(case, y[:-1], f, p, at) * end

    for k in range(steps):
        k1 = slope(y, k * h, k)
        k2 = slope(y + h / 2 * k1, (k + 0.5) * h, k)
        k3 = slope(y + h / 2 * k2, (k + 0.5) * h, k)
        k4 = slope(y + h * k3, (k + 1) * h, k)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    n = case.n
    J = y[-1] + case.phi(np, y[n : 2 * n], y[:n], y[2 * n : -1], p, end)
    return J[0].real, J.imag / abs(tiny)


@lru_cache
def adjoint_of(case, form, held=False):
    return ContinuousAdjoint(*model_of(case), P_NAMES, form, ["f"] if held else [])


@lru_cache
def forward_model(case):
    return model_of(case)[0]


def estimates(case, form, nodes, held=0):
    """The same derivatives as in `truth`, and J, by the continuous adjoint."""
    time = np.linspace(0.0, T, nodes)
    f = force(time)
    if held:
        f = force(T * (np.arange(nodes) * held // (nodes - 1)) / held)
    model = forward_model(case)
    run = ks.simulate(
        model,
        time,
        dict(zip(model.state_names, start(case), strict=True)),
        inputs={"f": ks.Signal(time, f, "held" if held else "linear")},
    )
    found = adjoint_of(case, form, bool(held)).gradient(run)
    effects = [np.trapezoid(found.inputs["f"] * shape(time), time) for shape in SHAPES]
    every = [*found.parameters.values(), *found.initial.values(), *effects, found.duration]
    return found.cost, np.array(every)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", [Oscillator, TwoMasses, Coupled])
def test_all_derivatives_converge_with_order_two(case, form):
    """dJ/dp, dJ/dx(0), dJ/df(t) in two directions, dJ/dT, and J itself."""
    J, exact = truth(case)
    sizes = np.array([100, 200, 400])
    found = [estimates(case, form, n + 1) for n in sizes]
    errors = np.abs([[*every - exact, cost - J] for cost, every in found])
    scale = np.abs([*exact, J]).max()
    assert (errors[-1] < 2e-3 * scale).all()
    large = errors[0] > 1e-4 * scale  # where the leading term of the error is not nearly zero
    orders = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    np.testing.assert_allclose(orders[large], 2.0, atol=0.1)
    assert large.sum() > len(exact) / 2


@pytest.mark.parametrize("form", FORMS)
def test_held_force(form):
    """A force that jumps, and with it the acceleration in the cost: order two all the same."""
    case, few = Oscillator, len(P) + 2
    exact = truth(case, held=15)[1][:few]
    found = [estimates(case, form, n + 1, held=15)[1][:few] for n in (75, 150, 300)]
    errors = np.abs(np.array(found) - exact)
    orders = -np.polyfit(np.log([75, 150, 300]), np.log(errors), 1)[0]
    np.testing.assert_allclose(orders, 2.0, atol=0.1)


def test_both_forms_have_the_same_costates():
    """dJ/dx(t) of every state at every time, in the limit."""
    time = np.linspace(0.0, T, 1601)
    model = forward_model(Coupled)
    run = ks.simulate(
        model,
        time,
        dict(zip(model.state_names, start(Coupled), strict=True)),
        inputs={"f": force(time)},
    )
    first, second = (adjoint_of(Coupled, form).gradient(run).conjugates for form in FORMS)
    for name in model.state_names:
        expected = first[f"costate_{name}"]
        np.testing.assert_allclose(
            second[f"costate_{name}"], expected, atol=1e-4 * np.abs(expected).max()
        )


def test_end_values_of_the_conjugates():
    """mu_T = k~^-T phi_u and eta_T = -k~^-T phi_u', all else zero (2.7, with k~ in both)."""
    time = np.linspace(0.0, T, 101)
    model, objective = model_of(TwoMasses)
    run = ks.simulate(
        model,
        time,
        dict(zip(model.state_names, start(TwoMasses), strict=True)),
        inputs={"f": force(time)},
    )
    found = adjoint_of(TwoMasses, "second-order").gradient(run).conjugates
    q, v = model.states[:2], model.states[2:]
    values = {**{x: run[x][-1] for x in model.states}, model.inputs[0]: force(T), t: T}
    values |= dict(zip(model.parameters, P, strict=True))
    k = sp.Matrix(model.equations[2:]).jacobian(q).subs(values)
    phi_q, phi_v = (sp.Matrix([objective.terminal]).jacobian(x).subs(values).T for x in (q, v))
    for name, expected in (("mu", k.T.solve(phi_q)), ("eta", -k.T.solve(phi_v))):
        actual = [found[f"{name}_q{i}"][-1] for i in range(2)]
        np.testing.assert_allclose(actual, np.array(expected, dtype=float).ravel(), rtol=1e-10)
    for name in ("lambda", "lambda_dot", "mu_dot", "eta_dot"):
        assert found[f"{name}_q0"][-1] == found[f"{name}_q1"][-1] == 0.0


def test_shooting_on_a_fine_grid():
    """Exact gradients of the discretised objective approach those of the continuous one."""
    model, objective = model_of(Oscillator)
    time = np.linspace(0.0, T, 801)
    trial = ks.Experiment(time, inputs={"f": force(time)})
    start_values = dict(zip(model.state_names, start(Oscillator), strict=True))
    task = ks.Shooting(
        model,
        trial,
        unknown=dict.fromkeys(P_NAMES),
        objective=objective,
        initial={**start_values, "v0": None},
    )
    q = task.pack({**dict(zip(P_NAMES, P, strict=True)), "v0": start_values["v0"]})
    exact = task.gradient(q)
    np.testing.assert_allclose(
        task.gradient(q, mode="continuous-adjoint"), exact, atol=1e-4 * np.abs(exact).max()
    )


# -- intermediates, signals, refusals ----------------------------------------------------------

x, v, w, f, r = ks.dynamicsymbols("x v w f r")
k = sp.Symbol("k")


def test_intermediates_are_differentiated_through():
    """Some of them with x', some in the cost: as without them, to rounding."""
    c, a, e = sp.symbols("c a e")
    steps = [(c, sp.cos(x) * k), (a, v.diff(t) * (2 + c)), (e, a + sp.sin(x) * c - f * v)]
    named = ks.Model("named", [x, v], [f], [k], [x.diff(t) - v, e + 0.1 * a * c], {}, steps)
    replaced = {}
    for symbol, expression in steps:
        replaced[symbol] = expression.xreplace(replaced)
    plain = named.substitute(replaced, name="plain", intermediates=())
    cost = x**2 + a**2 * c
    time = np.linspace(0.0, 1.0, 51)
    run = ks.simulate(named, time, {x: 0.2, v: 0.3}, {k: 0.8}, {f: time})
    results = [
        ContinuousAdjoint(model, ks.Integral(integrand), [k], "second-order").gradient(run)
        for model, integrand in ((named, cost), (plain, cost.xreplace(replaced)))
    ]
    for group in ("parameters", "initial"):
        first, second = (getattr(r, group) for r in results)
        np.testing.assert_allclose([*first.values()], [*second.values()], rtol=1e-9)
    np.testing.assert_allclose(*(r.inputs["f"] for r in results), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_spring_in_closed_form(form):
    """x'' = g - 4 x from 0 with speed 1, J = (x(1) - s(1))^2 with the signal s = t^3."""
    s, g = ks.dynamicsymbols("s"), sp.Symbol("g")
    model = ks.Model("spring", [x, v], [], [g, k], [x.diff(t) - v, v.diff(t) + k * x - g])
    time = np.linspace(0.0, 1.0, 2001)
    run = ks.simulate(model, time, {x: 0.0, v: 1.0}, {g: 2.0, k: 4.0})
    found = ContinuousAdjoint(model, ks.Terminal((x - s) ** 2), ["g"], form).gradient(
        run, {s: time**3}
    )
    end = 0.5 * (1 - np.cos(2.0)) + np.sin(2.0) / 2  # x(1)
    rate = np.sin(2.0) + np.cos(2.0)
    error = 2 * (end - 1.0)
    assert found.cost == pytest.approx((end - 1.0) ** 2, rel=1e-6)
    assert found.parameters["g"] == pytest.approx(error * (1 - np.cos(2.0)) / 4, rel=1e-5)
    assert found.initial["x"] == pytest.approx(error * np.cos(2.0), rel=1e-5)
    assert found.initial["v"] == pytest.approx(error * np.sin(2.0) / 2, rel=1e-5)
    assert found.duration == pytest.approx(error * (rate - 3.0), rel=2e-3)  # s' by a difference


def second_order_model(dynamics, states=(x, v), more=(), inputs=(), parameters=(k,)):
    return ks.Model("m", states, inputs, parameters, [x.diff(t) - v, dynamics, *more])


SPRING = second_order_model(v.diff(t) + k * x)
TRACK = ks.Integral(x**2)


@pytest.mark.parametrize(
    ("model", "objective", "given", "message"),
    [
        (
            second_order_model(v.diff(t) + k * sp.Abs(x)),
            TRACK,
            {},
            r"equation 1 contains Abs\(x\(t\)\): sensitivity is not defined at kinks; smooth Abs",
        ),
        (SPRING, ks.Integral(sp.Max(x, v)), {}, "the integrand contains Max.*mark events"),
        (SPRING, ks.LeastSquares(), {}, "write the least squares as an integral"),
        (SPRING, ks.Terminal(v.diff(t)), {}, "write it with the states"),
        (
            second_order_model(v.diff(t) + k * x - f, inputs=[f]),
            ks.Terminal(f * x),
            {},
            "the terminal cost contains input f",
        ),
        (second_order_model(v.diff(t) ** 3 + k * x), TRACK, {}, "enters equation 1 nonlinearly"),
        (
            second_order_model(v.diff(t) + k * w, (x, v, w), [w - x]),
            TRACK,
            {},
            "state w has no derivative .*reduced_index",
        ),
        (SPRING, TRACK, {"unknown": ["q"]}, "q is no parameter of model m"),
        (SPRING, TRACK, {"form": "third-order"}, "choose one of first-order, second-order"),
        (
            ks.Model("m", [x], [], [k], [x.diff(t) + k * x]),
            TRACK,
            {"form": "second-order"},
            "not of second order; use form='first-order'",
        ),
        (
            second_order_model(v.diff(t) + k * x + w.diff(t), (x, v, w), [w.diff(t) - v]),
            TRACK,
            {"form": "second-order"},
            "rates of both v and w.*use form='first-order'",
        ),
        (
            second_order_model(v.diff(t) + k * x, (x, v, w), [w.diff(t) - v.diff(t)]),
            TRACK,
            {"form": "second-order"},
            "equation 2 contains rates of both.*use form='first-order'",
        ),
        (
            second_order_model(f * v.diff(t) + k * x, inputs=[f]),
            TRACK,
            {"form": "second-order"},
            "the mass matrix depends on f.*use form='first-order'",
        ),
        (
            second_order_model(v.diff(t) + k * x + f * v, inputs=[f]),
            TRACK,
            {"form": "second-order", "hold": ["f"]},
            "depends on f, which jumps.*'first-order'",
        ),
    ],
)
def test_refusals(model, objective, given, message):
    with pytest.raises(ValueError, match=message):
        adjoint(model, objective, **given)


def test_cost_of_a_state_that_drives_nothing():
    """w' = x v and psi = w v, so that the conjugate of w grows with -v alone: both forms agree."""
    model = second_order_model(v.diff(t) + k * x + v, (x, v, w), [w.diff(t) - x * v])
    run = ks.simulate(model, np.linspace(0, 2, 401), {x: 1, v: 0, w: 0}, {k: 9.0})
    first, second = (
        ContinuousAdjoint(model, ks.Integral(w * v), [k], form).gradient(run) for form in FORMS
    )
    assert first.parameters["k"] == pytest.approx(second.parameters["k"], rel=1e-3)
    for name, value in first.initial.items():
        assert value == pytest.approx(second.initial[name], rel=1e-3)


def test_singular_stiffness():
    """A free mass: mu and eta have no end values; the first-order form needs none."""
    model = second_order_model(v.diff(t) - k)
    run = ks.simulate(model, np.linspace(0, 1, 11), {x: 0, v: 0}, {k: 2.0})
    with pytest.raises(ValueError, match="needs an invertible k~; use form='first-order'"):
        ContinuousAdjoint(model, ks.Terminal(x), [k], "second-order").gradient(run)
    assert ContinuousAdjoint(model, ks.Terminal(x), [k]).gradient(run).parameters["k"] == (
        pytest.approx(0.5, rel=1e-12)
    )


def test_what_is_given_is_checked():
    model = second_order_model(v.diff(t) + k * x - f, inputs=[f])
    objective = ks.Integral((x - r) ** 2)
    run = ks.simulate(model, np.linspace(0, 1, 11), {x: 0, v: 0}, {k: 2.0}, {f: 1.0})
    about = ContinuousAdjoint(model, objective)
    with pytest.raises(ValueError, match=r"signal r .* has no data; give signals=\{'r': ...\}"):
        about.gradient(run)
    with pytest.raises(ValueError, match="signals: q is unknown"):
        about.gradient(run, {"q": 1.0})
    with pytest.raises(ValueError, match="r has 3 values, expected 11"):
        about.gradient(run, {r: np.zeros(3)})
    with pytest.raises(ValueError, match="the run, of model m, has no f"):
        about.gradient(ks.simulate(SPRING, [0, 1], {x: 0, v: 0}, {k: 2.0}), {r: 0.0})
    with pytest.raises(ValueError, match="held must be a list, got 'f'"):
        ContinuousAdjoint(model, objective, held="f")
    with pytest.raises(ValueError, match="held: q is no input and no signal"):
        ContinuousAdjoint(model, objective, held=["q"])
