"""An explicit method is data: what is written down here reaches every loop and its derivatives."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.symbolic.schemes import EXPLICIT, ExplicitScheme

t = ks.t
x, v, u = ks.dynamicsymbols("x v u")
k, c = sp.symbols("k c")
TRUE = {k: 4.0, c: 0.3}

#: Kutta's of order 3, where the last stage depends on both others (Hairer, Norsett, Wanner I,
#: II.1), and the pair of Bogacki and Shampine of order 3(2) (A 3(2) pair of Runge-Kutta formulas,
#: 1989).
KUTTA = ExplicitScheme(
    name="kutta",
    nodes=(0.0, 1 / 2, 1.0),
    matrix=((), (1 / 2,), (-1.0, 2.0)),
    weights=(1 / 6, 2 / 3, 1 / 6),
    order=3,
    reference="Hairer, Norsett, Wanner I, section II.1",
)
PAIR = ExplicitScheme(
    name="bogacki-shampine",
    nodes=(0.0, 1 / 2, 3 / 4),
    matrix=((), (1 / 2,), (0.0, 3 / 4)),
    weights=(2 / 9, 1 / 3, 4 / 9),
    error=(-5 / 72, 1 / 12, 1 / 9, -1 / 8),
    order=3,
    reference="Bogacki, Shampine 1989",
)


@pytest.fixture(autouse=True, scope="module")
def methods():
    with pytest.MonkeyPatch.context() as patch:
        for scheme in (KUTTA, PAIR):
            patch.setitem(EXPLICIT, scheme.name, scheme)
        yield


@pytest.fixture(scope="module")
def model():
    """Damped and driven; new, as compiled models are kept."""
    rates = [x.diff(t) - v, v.diff(t) + k * sp.sin(x) + c * v - u]
    return ks.Model("damped", [x, v], [u], [k, c], rates, values=TRUE)


def end(model, **more):
    time = np.linspace(0.0, 2.0, 41)
    return ks.simulate(model, time, {x: 0.7, v: -0.4}, inputs={u: np.sin(time)}, **more)["x"][-1]


def test_order_of_steps_that_are_fixed(model):
    reference = end(model, method="dormand-prince", rtol=1e-13, atol=1e-14)
    errors = [abs(end(model, method="kutta", substeps=n) - reference) for n in (4, 8, 16)]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 3.0, atol=0.2)


def test_steps_that_are_chosen(model):
    """Errors fall with the tolerance."""
    reference = end(model, method="dormand-prince", rtol=1e-13, atol=1e-14)
    for rtol in (1e-5, 1e-8):
        found = end(model, method="bogacki-shampine", rtol=rtol, atol=1e-2 * rtol)
        assert abs(found - reference) < 20.0 * rtol


def test_longest_step(model):
    """The region of stability of order 3 on the real axis ends at -2.5127."""
    stiff = {**TRUE, c: 100.0}
    with pytest.warns(UserWarning, match=r"use steps of at most 0\.025 s"):
        ks.simulate(model, np.linspace(0, 30, 301), {x: 0, v: 1}, stiff, {u: 0.0}, method="kutta")


def test_gradients_of_shooting(model):
    """The adjoint and the tangents of a method whose last stage depends on all others."""
    time = np.linspace(0.0, 2.0, 41)
    trial = ks.Experiment(time, {u: np.sin(time)}, {x: np.cos(2.0 * time)})
    task = ks.Shooting(
        model, trial, {k: (0.0, 9.0), c: None}, initial={x: None, v: -0.4}, method="kutta"
    )
    q = np.array([3.0, 0.2, 0.6])
    adjoint, forward = task.gradient(q), task.gradient(q, "forward")
    np.testing.assert_allclose(adjoint, forward, rtol=1e-10)
    for j, step in enumerate(1e-5 * np.eye(3)):
        slope = (task.cost(q + step) - task.cost(q - step)) / 2e-5
        assert adjoint[j] == pytest.approx(slope, rel=1e-7)


@pytest.mark.parametrize("options", [{"method": "kutta", "substeps": 400}, {"method": PAIR.name}])
def test_hybrid_runs_and_their_derivatives(options):
    """A ball on a floor, with drag: its end, and derivatives by height and drag."""
    force = sp.Function("force")(t)
    rates = [x.diff(t) - v, v.diff(t) + 9.81 + c * v - force]
    hybrid = kh.Hybrid(
        ks.Model("ball", [x, v], [force], [c], rates),
        contacts=[kh.Contact("floor", x, force, restitution=0.7)],
    )

    def run(height=1.0, drag=0.2, make=ks.simulate, **more):
        how = {"rtol": 1e-9, "atol": 1e-11, **options, **more}
        return make(hybrid, [0.0, 0.8], {x: height, v: 0.0}, {c: drag}, **how)

    tight = {"method": "dormand-prince", "substeps": 1, "rtol": 1e-12, "atol": 1e-13}
    assert run()["x"][-1] == pytest.approx(run(**tight)["x"][-1], abs=1e-7)
    made = run(make=ks.sensitivities)
    gradient = made.gradient("x")
    exact = run(make=ks.sensitivities, **tight).gradient("x")
    ours = [gradient.initial["x"], gradient.parameters["c"]]
    theirs = [exact.initial["x"], exact.parameters["c"]]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(ours, made.forward(["x", "c"])["x"][:, -1], rtol=1e-10)
