"""Radau IIA with step-size control on stiff systems and differential-algebraic ones of index 1,
against ends of the Test Set for IVP Solvers (Mazzia, Magherini 2008), SciPy and closed forms."""

import re

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import kinesym as ks

t = ks.t
x, v, y, u, *z = ks.dynamicsymbols("x v y u " + " ".join(f"z{k}" for k in range(8)))
k, m, c = sp.symbols("k m c")
RADAU = {"method": "radau-5"}


def system(name, states, rates, parameters=(), **more):
    equations = [s.diff(t) - rate for s, rate in zip(states, rates, strict=True)]
    return ks.Model(name, states, [], parameters, equations, **more)


def end(model, start, duration, **more):
    run = ks.simulate(
        model,
        np.array([0.0, duration]),
        dict(zip(model.state_names, start, strict=True)),
        **{**RADAU, **more},
    )
    assert not run.message
    return np.array([run[name][-1] for name in model.state_names])


def robertson(algebraic=False):
    a, b, d = z[:3]
    fast, slow = 3e7 * b**2, sp.Float(0.04) * a - 1e4 * b * d
    third = a + b + d - 1 if algebraic else d.diff(t) - fast
    equations = [a.diff(t) + slow, b.diff(t) - slow + fast, third]
    return ks.Model("robertson", [a, b, d], [], [], equations)


def van_der_pol():
    """In slow time, mu = 1000."""
    return system("vdpol", [x, v], [v, ((1 - x**2) * v - x) * 1e6])


def hires():
    a, b, d, e, f, g, h, i = z
    rates = [
        -1.71 * a + 0.43 * b + 8.32 * d + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * d + 0.43 * e + 0.035 * f,
        8.32 * b + 1.71 * d - 1.12 * e,
        -1.745 * f + 0.43 * g + 0.43 * h,
        -280 * g * i + 0.69 * e + 1.71 * f - 0.43 * g + 0.69 * h,
        280 * g * i - 1.81 * h,
        -280 * g * i + 1.81 * h,
    ]
    return system("hires", z, rates)


def orego():
    a, b, d = z[:3]
    rates = [
        77.27 * (b + a * (1 - 8.375e-6 * a - b)),
        (d - (1 + a) * b) / 77.27,
        sp.Float(0.161) * (a - d),
    ]
    return system("orego", [a, b, d], rates)


def akzo_nobel():
    a, b, d, e, f, g = z[:6]
    root = sp.sqrt(b)
    r1, r2, r3 = 18.7 * a**4 * root, 0.58 * d * e, 0.58 / 34.4 * a * f
    r4, r5, inflow = 0.09 * a * e**2, 0.42 * g**2 * root, 3.3 * (0.9 / 737 - b)
    rates = [
        -2 * r1 + r2 - r3 - r4,
        -0.5 * r1 - r4 - 0.5 * r5 + inflow,
        r1 - r2 + r3,
        -r2 + r3 - 2 * r4,
        r2 - r3 + r5,
    ]
    equations = [s.diff(t) - rate for s, rate in zip(z[:5], rates, strict=True)]
    return ks.Model("akzo", z[:6], [], [], [*equations, 115.83 * a * e - g])


#: Model, start, duration, published end.
PUBLISHED = {
    "robertson": (
        robertson,
        [1.0, 0.0, 0.0],
        1e11,
        [0.2083340149701255e-07, 0.8333360770334713e-13, 0.9999999791665050],
    ),
    "van der pol": (van_der_pol, [2.0, 0.0], 2.0, [0.1706167732170483e1, -0.8928097010247975]),
    "hires": (
        hires,
        [1.0, *[0.0] * 6, 0.0057],
        321.8122,
        [
            0.7371312573325668e-3,
            0.1442485726316185e-3,
            0.5888729740967575e-4,
            0.1175651343283149e-2,
            0.2386356198831331e-2,
            0.6238968252742796e-2,
            0.2849998395185769e-2,
            0.2850001604814231e-2,
        ],
    ),
    "orego": (
        orego,
        [1.0, 2.0, 3.0],
        360.0,
        [0.1000814870318523e1, 0.1228178521549917e4, 0.1320554942846706e3],
    ),
    "akzo nobel": (
        akzo_nobel,
        [0.444, 0.00123, 0.0, 0.007, 0.0, 115.83 * 0.444 * 0.007],
        180.0,
        [
            0.1150794920661702,
            0.1203831471567715e-2,
            0.1611562887407974,
            0.3656156421249283e-3,
            0.1708010885264404e-1,
            0.4873531310307455e-2,
        ],
    ),
}


#: Where small errors grow on the way.
SENSITIVE = {"robertson": 3e-8, "orego": 1e-7}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_ends(name):
    make, start, duration, expected = PUBLISHED[name]
    found = end(make(), start, duration, rtol=1e-10, atol=1e-18 if name == "robertson" else 1e-14)
    np.testing.assert_allclose(found, expected, rtol=SENSITIVE.get(name, 3e-9))


@pytest.mark.parametrize("name", ["van der pol", "hires", "akzo nobel"])
def test_error_follows_the_tolerance(name):
    """A factor of ten in the tolerance is nearly one in the error."""
    make, start, duration, expected = PUBLISHED[name]
    tolerances = 10.0 ** -np.arange(4.0, 11.0)
    errors = [
        np.abs(end(make(), start, duration, rtol=tol, atol=1e-4 * tol) / expected - 1.0).max()
        for tol in tolerances
    ]
    slope = np.polyfit(np.log10(tolerances), np.log10(errors), 1)[0]
    assert 0.6 < slope < 1.1, errors
    assert (np.array(errors) < 300.0 * tolerances).all(), errors


@pytest.mark.parametrize("tolerances", [{}, {"rtol": 1e-10, "atol": 1e-12}])
def test_a_first_step_whose_newton_iteration_diverges(tolerances):
    """The next one is no less exact for it."""
    time = np.append(0.0, np.geomspace(0.4, 4e5, 7))
    start = dict(zip(z[:3], [1.0, 0.0, 0.0], strict=True))
    run = ks.simulate(robertson(), time, start, **RADAU, **tolerances)
    reference = [0.98517211386, 0.004938274521]  # at 0.4 s, at 4e5 s
    assert not run.message and run["z0"][[1, -1]] == pytest.approx(reference, rel=1e-9)


def test_robertson_with_a_conserved_sum():
    """The third rate replaced by the sum: a differential-algebraic system of index 1."""
    found = end(robertson(algebraic=True), [1.0, 0.0, 0.0], 1e6, rtol=1e-9, atol=1e-15)
    plain = end(robertson(), [1.0, 0.0, 0.0], 1e6, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found, plain, rtol=1e-7)
    assert abs(found.sum() - 1.0) < 1e-14


def test_nodes_by_dense_output():
    """Values between steps, and the same end, to the tolerance, whether there are nodes or not."""
    model, start = van_der_pol(), {x: 2.0, v: 0.0}
    time = np.linspace(0.0, 2.0, 301)
    run = ks.simulate(model, time, start, rtol=1e-8, atol=1e-10, **RADAU)
    few = end(model, [2.0, 0.0], 2.0, rtol=1e-8, atol=1e-10)
    assert run["x"][-1] == pytest.approx(few[0], rel=1e-8)

    def rates(_, s):
        return [s[1], ((1 - s[0] ** 2) * s[1] - s[0]) * 1e6]

    exact = solve_ivp(
        rates, (0.0, 2.0), [2.0, 0.0], method="Radau", rtol=1e-11, atol=1e-13, t_eval=time
    ).y
    assert np.abs(run["x"] - exact[0]).max() < 1e-5


@pytest.mark.parametrize("stiff", (1e4, 1e7, 1e10, np.inf))
def test_nodes_of_what_follows_at_once(stiff):
    """Nodes within long steps, of states that follow another closely, or algebraically: at stages
    they are exact, and between them the polynomial has to be.

    x = (K^2 cos 20 t + 20 K sin 20 t)/(K^2 + 400) after exp(-K t)."""
    follows = v - sp.cos(20 * x)
    if np.isfinite(stiff):
        follows = v.diff(t) + stiff * follows
    model = ks.Model("slave", [x, v], [], [], [x.diff(t) - 1, follows])
    time = np.linspace(0.0, 2.0, 101)
    starts = {x: np.zeros(3), v: np.ones(3)}  # a single run and lanes
    single = ks.simulate(model, time, {x: 0.0, v: 1.0}, **RADAU)["v"]
    lanes = ks.simulate(model, time, starts, **RADAU)["v"]
    lag = 20 / stiff
    exact = (np.cos(20 * time) + lag * np.sin(20 * time)) / (1 + lag**2)
    exact += lag**2 / (1 + lag**2) * np.exp(-time * min(stiff, 1e3))
    for found in (single, *lanes):
        np.testing.assert_allclose(found[1:], exact[1:], atol=2e-6)


# -- equations that are not x' = f ------------------------------------------------------------


def test_mass_matrix_that_moves():
    """x' enters with factors of x, and once nonlinearly: 2 x x' + cos(x') is as good as x'."""
    model = ks.Model(
        "mass",
        [x, v],
        [],
        [k, m],
        [x.diff(t) - v, (m + x**2) * v.diff(t) + 0.1 * sp.sin(v.diff(t)) + k * x + 20 * v],
        values={k: 100.0, m: 1.0},
    )
    time = np.linspace(0.0, 2.0, 41)
    run = ks.simulate(model, time, {x: 0.5, v: 0.0}, rtol=1e-10, atol=1e-12, **RADAU)

    def rate(s):
        def rest(a):
            return (1 + s[0] ** 2) * a + 0.1 * np.sin(a) + 100 * s[0] + 20 * s[1]

        a = -(100 * s[0] + 20 * s[1])
        for _ in range(50):
            a -= rest(a) / (1 + s[0] ** 2 + 0.1 * np.cos(a))
        return a

    exact = solve_ivp(
        lambda _, s: [s[1], rate(s)],
        (0.0, 2.0),
        [0.5, 0.0],
        method="DOP853",
        rtol=1e-12,
        atol=1e-14,
        t_eval=time,
    ).y
    np.testing.assert_allclose([run["x"], run["v"]], exact, atol=2e-8)


#: x' = u - y with 0 = y - 3 x + u / 2: x' = 3/2 u - 3 x.
LINEAR = ks.Model("linear", [x, y], [u], [c], [x.diff(t) + y - u, y - c * x + u / 2], values={c: 3})


@pytest.mark.parametrize("start", [0.3, 17.0])
def test_algebraic_states_jump_with_the_inputs(start):
    """Each step begins with algebraic states that satisfy their equations, given ones too."""
    jump = ks.Signal.pieces([0.0, 0.37], [1.0, -2.0])
    time = np.linspace(0.0, 1.0, 51)
    run = ks.simulate(LINEAR, time, {x: 0.4, y: start}, inputs={u: jump}, **RADAU)
    assert not run.message
    first = 0.5 + (0.4 - 0.5) * np.exp(-3.0 * time)
    corner = 0.5 - 0.1 * np.exp(-3.0 * 0.37)
    second = -1.0 + (corner + 1.0) * np.exp(-3.0 * (time - 0.37))
    exact = np.where(time < 0.37, first, second)
    np.testing.assert_allclose(run["x"], exact, atol=1e-9)
    np.testing.assert_allclose(run["y"], 3 * exact - np.where(time < 0.37, 0.5, -1.0), atol=5e-9)


@pytest.mark.parametrize("form", ["gear-gupta-leimkuhler", "baumgarte"])
def test_index_two(form):
    """A pendulum in Cartesian coordinates that keeps its length and the rate of that, and the model
    of index 1: at all tolerances steps are of the length that those of the states ask for."""
    model = ks.models.cartesian_pendulum().reduced_index(form)
    start = {name: 1.0 if name == "x" else 0.0 for name in model.state_names}
    time = np.linspace(0.0, 5.0, 3)
    angle, rate = solve_ivp(
        lambda _, z: [z[1], -9.81 * np.cos(z[0])],
        (0.0, 5.0),
        [0.0, 0.0],
        method="DOP853",
        rtol=1e-13,
        atol=1e-14,
        t_eval=time,
    ).y
    exact = {"x": np.cos(angle), "y": np.sin(angle), "tension": rate**2 - 9.81 * np.sin(angle)}
    for rtol in (1e-4, 1e-6, 1e-8, 1e-10):
        run = ks.simulate(model, time, start, rtol=rtol, atol=0.01 * rtol, **RADAU)
        assert not run.message
        for name, values in exact.items():
            error = np.abs(run[name] - values).max()
            most = 20.0 * rtol**0.6 if name == "tension" else 50.0 * rtol
            assert error < most, (rtol, name, error)


def test_algebraic_states_near_zero():
    """Multipliers that are zero, with a tolerance far below what is left of a constraint."""
    model = ks.models.cartesian_pendulum().reduced_index("gear-gupta-leimkuhler")
    start = {name: 1.0 if name == "x" else 0.0 for name in model.state_names}
    run = ks.simulate(model, [0.0, 5.0], start, rtol=1e-6, atol=1e-14, **RADAU)
    assert not run.message
    assert abs(np.hypot(run["x"], run["y"])[-1] - 1.0) < 1e-7
    assert abs(run["mu_4"][-1]) < 1e-4


def test_inputs_with_kinks():
    """No step crosses a node where an input has a corner."""
    time, samples = np.linspace(0.0, 2.0, 21), np.random.default_rng(3).normal(size=21)
    model = ks.Model("lag", [x], [u], [], [x.diff(t) + 1e4 * (x - u)])
    run = ks.simulate(model, time, {x: 0.0}, inputs={u: samples}, **RADAU)
    slopes = np.diff(samples) / np.diff(time)  # x follows u - u'/1e4
    np.testing.assert_allclose(run["x"][1:], samples[1:] - slopes / 1e4, atol=1e-10)


# -- ensembles ----------------------------------------------------------------------------------


def test_lanes_are_single_runs():
    """Members with other parameters and starts, each with steps of its own. Lanes and single runs
    round otherwise, which now and then decides whether Newton's method takes one more iteration:
    such a member agrees to the tolerance of its steps."""
    model = system("family", [x, v], [v, k * ((1 - x**2) * v - x)], [k])
    time, rng = np.linspace(0.0, 3.0, 31), np.random.default_rng(1)
    values, starts = 10.0 ** rng.uniform(0.0, 6.0, 41), rng.uniform(-2.5, 2.5, 41)
    options = {"rtol": 1e-8, "atol": 1e-10, **RADAU}
    every = ks.simulate(model, time, {x: starts, v: 0.0}, {k: values}, threads=2, **options)
    assert not every.failures
    off = []
    for j in range(len(values)):
        one = ks.simulate(model, time, {x: starts[j], v: 0.0}, {k: values[j]}, **options)
        off.append(np.abs(every.states["x"][j] - one["x"]).max())
    assert max(off) < 1e-6
    assert np.mean(np.array(off) < 1e-10) > 0.85


# -- what goes wrong ------------------------------------------------------------------------------


def test_singularity():
    """x' = x^2 is infinite at t = 1."""
    model = system("growing", [x], [x**2])
    with pytest.warns(UserWarning, match="growing: ") as caught:
        run = ks.simulate(model, np.linspace(0.0, 2.0, 201), {x: 1.0}, **RADAU)
    assert 0.98 < run.time[-1] < 1.01, run.time[-1]
    assert re.search(r"between t = \S+ and \S+ s|beyond any plausible size", str(caught[0].message))


def test_undefined_expression():
    """The square root of x at x = 0, and the equation in which it stands."""
    model = ks.Model("drain", [x, y], [], [], [x.diff(t) + 1, y.diff(t) - sp.sqrt(x)])
    with pytest.warns(UserWarning, match=r"equation 1 \(y'\)|sqrt") as caught:
        run = ks.simulate(model, np.linspace(0.0, 2.0, 21), {x: 1.03, y: 0.0}, **RADAU)
    assert run.time[-1] == 1.0
    assert "not finite" in str(caught[0].message)


def test_impasse():
    """0 = y^2 - x has no solution beyond x = 0, where its derivative by y vanishes."""
    model = ks.Model("impasse", [x, y], [], [], [x.diff(t) + 1, y**2 - x])
    with pytest.warns(UserWarning, match=r"impasse: .* between t = \S+ and \S+ s: a singularity"):
        run = ks.simulate(model, np.linspace(0.0, 2.0, 41), {x: 1.0, y: 1.0}, **RADAU)
    assert 0.8 < run.time[-1] < 1.0
    np.testing.assert_allclose(run["x"], 1.0 - run.time, atol=1e-9)
