"""Fits of hybrid models to what is measured besides states: outputs, inputs, contact forces."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh

t = ks.t
y, v, z, w, u, lam = ks.dynamicsymbols("y v z w u lam")
m, k, c, a, on = sp.symbols("m k c a on")
G = 9.81

#: A foot of 0.3 kg under a body on a spring, which hops; z is the length of the spring
EQUATIONS = [
    y.diff(t) - v,
    z.diff(t) - w,
    sp.Rational(3, 10) * (v.diff(t) + G) - lam + k * (1 - z) - c * w,
    m * (v.diff(t) + w.diff(t) + G) - k * (1 - z) + c * w - u,
]
HOPPER = kh.Hybrid(
    ks.Model(
        "hopper",
        [y, z, v, w],
        [u, lam],
        [m, k, c],
        EQUATIONS,
        outputs={
            "spring": k * (1 - z) - c * w + u / 3,
            "acceleration": v.diff(t) + w.diff(t),
            "power": lam * w + t * m,
        },
        values={m: 1.0, k: 300.0, c: 0.5},
    ),
    contacts=[kh.Contact("foot", y, lam)],
)
TIME = np.linspace(0.0, 0.8, 83)
PUSH = 3.0 * np.sin(9.0 * TIME)
START = {y: 0.0, z: 0.85, v: 0.0, w: 0.0, "foot": True}
MEASURED = ("lam", "spring", "acceleration", "power", "u", "z")


def trial(names, run=None, noise=2.0):
    """Measurements of a run, or of nothing, with noise and gaps."""
    rng = np.random.default_rng(1)
    rows = {name: noise * rng.standard_normal(len(TIME)) for name in names}
    rows = {name: row + (0.0 if run is None else run[name]) for name, row in rows.items()}
    rows[names[0]][::7] = np.nan
    return ks.Experiment(TIME, {u: PUSH}, rows, dict.fromkeys(names, noise))


def differences(function, q, relative=1e-5):
    """Central differences of order four."""
    rows = []
    for j in range(len(q)):
        e = relative * max(abs(q[j]), 0.1) * np.eye(len(q))[j]
        near, far = (np.asarray(function(q + s * e) - function(q - s * e)) for s in (1, 2))
        rows.append((8.0 * near - far) / (12.0 * e[j]))
    return np.array(rows).T


@pytest.fixture(scope="module")
def hopper():
    unknown = {m: (0.5, 2.0), k: (100.0, 900.0), c: (0.0, 5.0)}
    start = {**START, z: (0.6, 1.0)}
    tight = {"rtol": 1e-11, "atol": 1e-13}
    return ks.Shooting(HOPPER, trial(MEASURED), unknown, initial=start, **tight)


def test_derivatives_of_all_that_is_measured(hopper):
    """Through lift-offs and landings: forces, outputs with x', forces, inputs and time."""
    q = hopper.pack({m: 1.1, k: 290.0, c: 0.6, z: 0.84})
    [run] = hopper.trajectories(q)
    assert len(run.happened("release")) >= 2 and len(run.happened("impact")) >= 1
    assert run["lam"].min() == 0.0 and run["lam"].max() > 20.0
    slopes, found = hopper.residual_jacobian(q), differences(hopper.residuals, q)
    np.testing.assert_allclose(slopes, found, rtol=1e-6, atol=1e-6 * np.abs(slopes).max())
    adjoint = hopper.gradient(q)
    np.testing.assert_allclose(adjoint, hopper.gradient(q, mode="forward"), rtol=1e-9)
    np.testing.assert_allclose(adjoint, 2.0 * hopper.residuals(q) @ slopes, rtol=1e-9)


def test_ground_force_is_enough(hopper):
    """Mass, stiffness and start from the force under the foot alone."""
    true = {m: 1.0, k: 300.0, z: 0.85}
    [run] = hopper.trajectories({**true, c: 0.5})
    unknown, known = {m: (0.5, 2.0), k: (100.0, 900.0)}, {c: 0.5}
    shooting = ks.Shooting(HOPPER, trial(["lam"], run, 0.3), unknown, known, {**START, z: None})
    fit = shooting.solve({m: 1.02, k: 304.0, z: 0.85}, "least-squares")
    assert fit.success and not fit.notes and fit.vaf()["lam"] > 95.0
    errors = np.array([*fit.standard_errors().values()])
    assert (np.abs(fit.values - list(true.values())) < 4.0 * errors).all(), fit


def test_friction():
    """A block is pushed against friction: it slides, stops and sticks, and is pulled away."""
    x, s, n, f = ks.dynamicsymbols("x s n f")
    equations = [y.diff(t) - v, x.diff(t) - s, m * (v.diff(t) + G) - n, m * s.diff(t) - f - a * u]
    model = ks.Model("block", [y, x, v, s], [u, n, f], [m, a], equations)
    law = {"law": "coulomb", "place": x, "friction": f, "friction_coefficient": 0.4}
    hybrid = kh.Hybrid(model, contacts=[kh.Contact("block", y, n, **law)])
    time = np.linspace(0.0, 1.0, 41)
    rng = np.random.default_rng(2)
    rows = {name: rng.standard_normal(41) for name in "fnx"}
    trial = ks.Experiment(time, {u: 9.0 * np.maximum(0.0, time - 0.5)}, rows)
    start = {y: 0.0, x: 0.0, v: 0.0, s: None, "block": True}
    shooting = ks.Shooting(hybrid, trial, {m: None, a: None}, initial=start)
    q = shooting.pack({m: 0.5, a: 1.3, s: 1.2})
    [run] = shooting.trajectories(q)
    assert [e.kind for e in run.events].count("slide") >= 2
    slopes, found = shooting.residual_jacobian(q), differences(shooting.residuals, q)
    np.testing.assert_allclose(slopes, found, atol=1e-6 * np.abs(slopes).max())
    np.testing.assert_allclose(shooting.gradient(q), shooting.gradient(q, "forward"), rtol=1e-8)


def test_outputs_of_inputs_with_unknown_pieces():
    """When a push begins, how it rises and when it ends, from an output that has it in."""
    x = ks.dynamicsymbols("x")
    model = ks.Model("lag", [x], [u], [k], [x.diff(t) + k * x - u], outputs={"force": 2 * u - x})
    time = np.linspace(0.0, 2.0, 101)
    inputs = {u: ks.Signal.pieces([0, on, on + a], [0, 0, c * a], [0, c, k])}
    true = {k: 1.5, on: 0.513, a: 0.7, c: 2.0}
    made = ks.Shooting(
        kh.Hybrid(model),
        ks.Experiment(time, inputs, {"force": time}),
        dict.fromkeys(true),
        initial={x: 0.3},
    )
    q = made.pack(true)
    slopes, found = made.residual_jacobian(q), differences(made.residuals, q)
    np.testing.assert_allclose(slopes, found, atol=1e-7 * np.abs(slopes).max())
    np.testing.assert_allclose(made.gradient(q), made.gradient(q, mode="forward"), rtol=1e-9)
    [run] = made.trajectories(q)
    trial = ks.Experiment(time, inputs, {"force": run["force"]}, {"force": 0.01})
    again = ks.Shooting(kh.Hybrid(model), trial, dict.fromkeys(true), initial={x: 0.3})
    fit = again.solve({k: 1.4, on: 0.517, a: 0.72, c: 2.1}, "least-squares")
    np.testing.assert_allclose(fit.values, q, rtol=1e-6)


# -- what smooth and hybrid fits have in common ----------------------------------------------------


def test_steps_of_equal_length(hopper):
    """The classical method of order four between events, and twice as many steps."""
    found = []
    for substeps in (1, 2, 4):
        shooting = ks.Shooting(
            HOPPER, hopper.trials, {k: None}, initial=START, method="rk4", substeps=substeps
        )
        found.append(shooting.cost({k: 290.0}))
    assert abs(found[2] - found[1]) < 0.1 * abs(found[1] - found[0]) > 0.0
    q = shooting.pack({k: 290.0})
    np.testing.assert_allclose(shooting.gradient(q), differences(shooting.cost, q), rtol=1e-6)


def test_a_factor_of_the_objective(hopper):
    double = ks.Shooting(
        HOPPER, hopper.trials, {k: None}, initial=START, objective=2 * ks.LeastSquares()
    )
    single = ks.Shooting(HOPPER, hopper.trials, {k: None}, initial=START)
    q = [310.0]
    assert double.cost(q) == pytest.approx(2.0 * single.cost(q), rel=1e-12)
    np.testing.assert_allclose(double.gradient(q), 2.0 * single.gradient(q), rtol=1e-12)
    np.testing.assert_allclose(double.gradient(q, "forward"), double.gradient(q), rtol=1e-9)


def test_the_same_is_said_of_hybrid_fits():
    """Bounds that hold an unknown, poor fits, unstable models, kinks and guesses outside bounds."""
    x = ks.dynamicsymbols("x")
    model = ks.Model("grows", [x], [], [k, a], [x.diff(t) - k * x - a * sp.Abs(x)], values={a: 0.0})
    time = np.linspace(0.0, 10.0, 51)
    trial = ks.Experiment(time, measurements={x: np.sin(3.0 * time)})
    with pytest.warns(UserWarning, match=r"equation 0 of grows contains Abs.* make it an event"):
        shooting = ks.Shooting(kh.Hybrid(model), trial, {k: (-1.0, 9.0)}, initial={x: 1.0})
    words = r"unstable at the start of trial 0: eigenvalue 4 .* e\^40 in 10 s; .* shorter trials"
    with pytest.warns(UserWarning, match=words):
        shooting.solve({k: 4.0}, max_iterations=0)
    with pytest.warns(UserWarning, match="guess of k, -2, is outside its bounds"):
        fit = shooting.solve({k: -2.0}, "least-squares")
    assert fit.active == ["k"] and "at a bound   k" in str(fit)
    assert any("x of trial 0 does not follow its samples" in note for note in fit.notes)
