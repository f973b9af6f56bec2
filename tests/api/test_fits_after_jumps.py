"""Fits to samples of algebraic states and x' where inputs jump, which are those after the jump."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, y, u = ks.dynamicsymbols("x y u")
k = sp.Symbol("k")
TIME = np.linspace(0.0, 3.0, 31)
STEPS = ks.Signal([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 0.0, 2.0], between="held")
OUTPUTS = {"rate": x.diff(t), "left": y + k * x - u}
MODEL = ks.Model("dae", [x, y], [u], [k], [x.diff(t) - y, y + k * x - u], outputs=OUTPUTS)
#: The same without an algebraic state.
PLAIN = ks.Model("ode", [x], [u], [k], [x.diff(t) + k * x - u], outputs={"rate": x.diff(t)})


def exact(value):
    """y = x' at the nodes: u - k x, with x in closed form from jump to jump."""
    level, place = STEPS(TIME), np.zeros(TIME.size)
    for i, h in enumerate(np.diff(TIME)):
        place[i + 1] = level[i] / value + (place[i] - level[i] / value) * np.exp(-value * h)
    return level - value * place


def collocated(model, trial, scheme):
    start = [ks.at_start(x)]
    return ks.Collocation(model, trial, {k: (0, 5)}, scheme=scheme, boundary=start).solve({k: 1.0})


def shot(model, trial, method):
    start = {x: 0.0} if model is PLAIN else {x: 0.0, y: 1.0}
    return ks.Shooting(model, trial, {k: (0, 5)}, initial=start, method=method).solve({k: 1.0})


@pytest.mark.parametrize("name", ["y", "rate"])
@pytest.mark.parametrize(
    ("fit", "method"),
    [(f, m) for f in (collocated, shot) for m in ("radau-5", "gauss-6")] + [(shot, "lobatto-6")],
)
def test_samples_at_jumps_are_those_after(fit, method, name):
    """k as it is, and in the result the equation holds at each node, the last one too."""
    trial = ks.Experiment(TIME, {u: STEPS}, {name: exact(1.7)}, {name: 0.01})
    found = fit(MODEL, trial, method)
    assert found.parameters["k"] == pytest.approx(1.7, abs=1e-6)
    np.testing.assert_allclose(found["y"], exact(1.7), atol=1e-5)
    np.testing.assert_allclose(found["rate"], exact(1.7), atol=1e-5)
    assert np.abs(found["left"]).max() < 1e-9


@pytest.mark.parametrize(("fit", "method"), [(collocated, "radau-5"), (shot, "radau-5")])
def test_rates_of_an_explicit_model(fit, method):
    trial = ks.Experiment(TIME, {u: STEPS}, {"rate": exact(1.7)}, {"rate": 0.01})
    found = fit(PLAIN, trial, method)
    assert found.parameters["k"] == pytest.approx(1.7, abs=1e-6)
    np.testing.assert_allclose(found["rate"], exact(1.7), atol=1e-5)


def test_gradient_by_complex_step():
    """Of the squares with samples at jumps and elsewhere: d J / d k against the closed form."""
    trial = ks.Experiment(TIME, {u: STEPS}, {y: np.zeros(31)}, {y: 1.0})
    problem = ks.Shooting(
        MODEL, trial, {k: (0, 5)}, initial={x: 0.0, y: 1.0}, method="radau-5", rtol=1e-12
    )
    found = [problem.gradient({k: 1.3}, mode) for mode in ("adjoint", "forward")]
    h = 1e-30
    level, place = STEPS(TIME), np.zeros(TIME.size, dtype=complex)
    value = 1.3 + 1j * h
    for i, step in enumerate(np.diff(TIME)):
        place[i + 1] = level[i] / value + (place[i] - level[i] / value) * np.exp(-value * step)
    expected = np.sum((level - value * place) ** 2).imag / h
    assert np.ravel(found) == pytest.approx([expected, expected], rel=1e-9)


def test_what_has_no_closed_form_is_refused():
    """y^3 + y = u - k x: samples at jumps are to be left out."""
    equations = [x.diff(t) - y, y**3 + y + k * x - u]
    model = ks.Model("cubic", [x, y], [u], [k], equations)
    run = ks.simulate(model, TIME, {x: 0.0, y: 0.0}, {k: 1.3}, {u: STEPS}, "radau-5", rtol=1e-10)
    samples = run["y"].copy()
    with pytest.raises(ValueError, match=r"do not tell y at jumps .* leave the samples there out"):
        collocated(model, ks.Experiment(TIME, {u: STEPS}, {y: samples}, {y: 0.01}), "radau-5")
    samples[[10, 20, 30]] = np.nan
    found = collocated(model, ks.Experiment(TIME, {u: STEPS}, {y: samples}, {y: 0.01}), "radau-5")
    assert found.parameters["k"] == pytest.approx(1.3, abs=1e-6)
    np.testing.assert_allclose(found["y"], run["y"], atol=1e-5)


def test_held_inputs_are_found_from_what_follows_them():
    """Unknown, by samples of y at the nodes where they jump, which tell the last value, too."""
    trial = ks.Experiment(TIME, {}, {y: exact(1.7)}, {y: 0.01})
    for fit, more in (
        (ks.Collocation, {"scheme": "radau-5", "boundary": [ks.at_start(x)]}),
        (ks.Shooting, {"method": "radau-5", "initial": {x: 0.0, y: 1.0}}),
    ):
        unknown = {u: ks.held(-5.0, 5.0)}
        found = fit(MODEL, trial, known={k: 1.7}, unknown_inputs=unknown, **more).solve()
        np.testing.assert_allclose(found["u"], STEPS(TIME), atol=1e-5)


def test_what_does_not_jump_is_no_reason_to_refuse():
    """y^3 + y = x, without a closed form, is continuous where an input of x' jumps."""
    model = ks.Model("calm", [x, y], [u], [k], [x.diff(t) + k * y - u, y**3 + y - x])
    run = ks.simulate(model, TIME, {x: 0.0, y: 0.0}, {k: 1.3}, {u: STEPS}, "radau-5", rtol=1e-10)
    trial = ks.Experiment(TIME, {u: STEPS}, {y: run["y"]}, {y: 0.01})
    assert collocated(model, trial, "radau-5").parameters["k"] == pytest.approx(1.3, abs=1e-6)
