"""Distances that pass through zero, where a square root of squares has no slope."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
px, py, L, tx, ty = ks.dynamicsymbols("px py L tx ty")
LATERAL = ks.Model(
    "lateral",
    [px, py, L],
    [tx, ty],
    [],
    [px.diff(t) - 1, py.diff(t), L - sp.sqrt(4 * (px - tx) ** 2 + (py - ty) ** 2) / 2],
)
TIME = np.linspace(0.0, 2.0, 21)


@pytest.mark.parametrize("method", ["radau-3", "backward-euler", "midpoint", "gauss-4"])
@pytest.mark.parametrize("target", [0.0, 0.7, 1.0])
def test_simulation(method, target):
    """Steps that begin, have a stage, or end where the distance is 0."""
    start = {px: 0.0, py: 0.0, L: target}
    run = ks.simulate(LATERAL, TIME, start, inputs={tx: target, ty: 0.0}, method=method)
    assert not run.message
    np.testing.assert_allclose(run["L"], np.abs(TIME - target), atol=1e-8)


def test_starts():
    """What is satisfied exactly is consistent, whatever its derivatives; what is not, is not."""
    inputs = {tx: 0.0, ty: 0.0}
    start = {px: 0.0, py: 0.0, L: 0.0}
    assert ks.consistent(LATERAL, TIME, start, inputs=inputs, keep=[px, py])["L"] == 0.0
    run = ks.simulate(LATERAL, TIME, start, inputs=inputs, method="radau-5")
    assert run["L"][-1] == pytest.approx(2.0, abs=1e-14)
    root = ks.Model("root", [px, L], [], [], [px.diff(t) - 1, L - sp.sqrt(px)])
    for model, given in ((LATERAL, inputs), (root, {})):
        exact = {name: start[s] for name, s in zip(model.state_names, model.states, strict=True)}
        kept = {"inputs": given, "keep": [*exact]}
        assert ks.consistent(model, TIME, exact, **kept)["L"] == 0.0
        with pytest.raises(ValueError, match=r"violate .* by 0\.1"):
            ks.consistent(model, TIME, {**exact, "L": 0.1}, **kept)


def test_solves_are_refused_in_words():
    x, u, w = ks.dynamicsymbols("x u w")
    model = ks.Model("m", [x], [u, w], [], [x.diff(t) - u - w])
    problem = ks.Collocation(
        model,
        ks.Experiment(TIME),
        objective=ks.Integral(sp.sqrt(u**2 + w**2)),
        unknown_inputs={u: (-5, 5), w: (-5, 5)},
        boundary=[ks.at_start(x), ks.at_end(x) - 1],
    )
    with pytest.raises(ValueError, match=r"no slope where it is 0: smooth it, as sqrt\(\.\.\. \+"):
        problem.solve()


@pytest.mark.parametrize("method", ["rk4", "dormand-prince"])
def test_drag_from_rest_has_derivatives(method):
    """sqrt(v^2 + w^2) v is smooth at rest; x' = v, v' = 1 - c v |v|: x = log(cosh(sqrt(c) t))/c."""
    x, v, y, w = ks.dynamicsymbols("x v y w")
    c = sp.Symbol("c")
    drag = c * sp.sqrt(v**2 + w**2)
    rates = [v, 1 - drag * v, w, -w * drag / 2]
    states = [x, v, y, w]
    model = ks.Model(
        "drag", states, [], [c], [q.diff(t) - e for q, e in zip(states, rates, strict=True)]
    )
    time, start = np.linspace(0.0, 2.0, 81), dict.fromkeys(states, 0.0)
    found = ks.sensitivities(model, time, start, {c: 0.7}, method=method)
    place, r = sp.log(sp.cosh(sp.sqrt(c) * 2)) / c, 0.7
    exact = float(place.diff(c).subs(c, r))
    assert found.forward([c]).states["x"][0, -1] == pytest.approx(exact, rel=1e-5)
    assert found.gradient("x").parameters["c"] == pytest.approx(exact, rel=1e-5)
    truth = np.log(np.cosh(np.sqrt(r) * time)) / r
    trial = ks.Experiment(time, measurements={"x": truth}, std={"x": 0.01})
    how = "radau-3" if method == "dormand-prince" else method
    fits = ks.Shooting(model, trial, {c: (0.1, 2.0)}, initial=start, method=how)
    for optimizer in ("bfgs", "least-squares"):
        fit = fits.solve({c: 0.5}, optimizer=optimizer)
        assert fit.success and fit.parameters["c"] == pytest.approx(r, rel=1e-4)
