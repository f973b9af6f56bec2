"""Second solutions of models made to have them, or none, and of published ones."""

import numpy as np
import pytest
import sympy as sp
from known_answers import KNOWN, SEVERAL
from known_functions import LOCAL_ONLY, OF_PARAMETERS, OF_STATES, read
from scipy.integrate import solve_ivp

import kinesym as ks
from kinesym.symbolic.names import name_of

t = ks.t
x, v, F = ks.dynamicsymbols("x v F")
k, c, m, b = sp.symbols("k c m b")

#: What second solutions change in models that can be known up to finitely many values.
CHANGED = {
    "x' = v; v' = -p*sin(x) - c*v": "x v",
    "x' = v; v' = -p*sin(x) - c*tanh(v/w)": "c w",
    "x' = p*atan(q*x) + r": "p q",
    "x' = p*sin(q*t) + r*x": "p q",
    "x' = p*erf(q*x)": "p q",
    "x' = p*sqrt(x**2 + r**2) + q*x": "r",
}


def simulated(model, measured, values):
    """Measured expressions along a motion, inputs being sines."""
    inputs = {u: sp.sin(3 * t + j) + sp.cos(t) for j, u in enumerate(model.inputs)}
    rates = [(-e.subs({r: 0 for r in model.derivatives})).subs(inputs) for e in model.equations]
    symbols = [t, *model.parameters, *model.states]
    rate = sp.lambdify(symbols, rates, "scipy")
    shown = sp.lambdify(symbols, [e.subs(inputs) for e in measured], "scipy")
    at = [values[name_of(p)] for p in model.parameters]
    start = [values[name_of(s)] for s in model.states]
    times = np.linspace(0.0, 0.3, 9)
    run = solve_ivp(
        lambda s, y: rate(s, *at, *y), (0.0, 0.3), start, t_eval=times, rtol=1e-11, atol=1e-12
    )
    assert run.success
    return np.array([shown(s, *at, *y) for s, y in zip(run.t, run.y.T, strict=True)], dtype=float)


def check_simulated(model, measured, verdict):
    """Every second solution is one, by integration; expressions give its values."""
    for one in verdict.second_solutions:
        before = {name: pair[0] for name, pair in one.example.items()}
        after = {name: pair[1] for name, pair in one.example.items()}
        first, other = (simulated(model, measured, at) for at in (before, after))
        np.testing.assert_allclose(other, first, rtol=1e-7, atol=1e-7 * abs(first).max())
        table = {s: before[name_of(s)] for s in verdict.symbols}
        for name, e in one.changes.items():
            assert e is None or np.isclose(float(e.subs(table)), after[name], rtol=1e-4)


@pytest.mark.parametrize("row", SEVERAL, ids=lambda row: row[0])
def test_second_solutions(row):
    rates, outputs, inputs, changed = row
    model, measured, _ = read((rates, outputs, inputs, ""))
    verdict = model.identifiability(measured)
    assert verdict.identifiable
    assert set(verdict.ambiguous) == set(changed.split())
    check_simulated(model, measured, verdict)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[pytest.mark.study] * (k % 2 and row[0] not in CHANGED), id=row[0])
        for k, row in enumerate(KNOWN)
        if "?" not in row[2]
    ],
)
def test_none_where_there_is_none(row):
    rates, outputs, inputs = row
    model, measured, _ = read((rates, outputs, inputs, ""))
    verdict = model.identifiability(measured)
    assert set(verdict.ambiguous) <= set(CHANGED.get(rates, "").split())
    check_simulated(model, measured, verdict)


#: Models in which all that is known up to finitely many values only is found soon.
SHORT = {"cascade with input", "LLW", "squared output", "SEI"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.study] * (name not in SHORT))
        for name in (*OF_PARAMETERS, *OF_STATES)
    ],
)
def test_published_models(name):
    """Parameters with several values are those that the published functions leave open."""
    model, measured, _ = read({**OF_PARAMETERS, **OF_STATES}[name])
    verdict = model.identifiability(measured)
    several = {p for p in verdict.ambiguous if p in verdict.parameters}
    local = set(LOCAL_ONLY.get(name, "").split())
    assert several == local if name in SHORT else several <= local
    check_simulated(model, measured, verdict)


def test_words():
    model, measured, _ = read(("x' = -a*x; y' = -b*y", "x + y", "", ""))
    verdict = model.identifiability(measured)
    a, b, x0, y0 = verdict.symbols
    (one,) = verdict.second_solutions
    assert one.changes == {"a": b, "b": a, "x": y0, "y": x0}
    assert verdict.ambiguous == ("a", "b", "x", "y")
    said = "a and b, x and y may be exchanged"
    assert verdict.summary.startswith(f"all can be known, up to finitely many values; {said}; ")
    lines = str(verdict).splitlines()
    assert lines[1] == "  a  can be known up to an exchange with b" and lines[-2] == f"  {said}"
    assert lines[-1].startswith("  no other second solution was found in ")


def test_parts_that_are_alike_are_exchanged_as_a_whole():
    """Four oscillators measured by the sum of their angles: stiffness, damping, gain and start."""
    xs, vs = ks.dynamicsymbols("x:4"), ks.dynamicsymbols("v:4")
    own = [sp.symbols(f"{name}:4") for name in "kcm"]
    equations = [
        e
        for x, v, k, c, m in zip(xs, vs, *own, strict=True)
        for e in (x.diff(t) - v, m * v.diff(t) + c * v + k * x - F)
    ]
    states = [x for pair in zip(xs, vs, strict=True) for x in pair]
    model = ks.Model("row", states, [F], sum(own, ()), equations)
    verdict = model.identifiability([sum(xs)])
    assert len(verdict.second_solutions) >= 6
    assert set(verdict.ambiguous) == {*verdict.parameters, *verdict.starts}


def test_positive_parameters_exclude_second_solutions():
    spring = {"name": "spring", "states": [x, v], "inputs": []}
    equations = [x.diff(t) - v, v.diff(t) + k**2 * x]
    plain = ks.Model(**spring, parameters=[k], equations=equations).identifiability([x])
    assert plain.ambiguous == ("k",)
    assert "the sign of k may change" in plain.summary
    positive = sp.Symbol("k", positive=True)
    for model in (
        ks.Model(**spring, parameters=[k], equations=equations, positive=[k]),
        ks.Model(
            **spring, parameters=[positive], equations=[e.subs(k, positive) for e in equations]
        ),
    ):
        verdict = model.identifiability([x])
        assert verdict.ambiguous == () and verdict.second_solutions[0].excluded == ("k",)
        assert "the sign of k may change, but not as k is positive" in verdict.summary
        assert "no other second solution was found in" in verdict.summary


def test_where_none_are_sought():
    model = ks.Model("pushed", [x], [F], [k, c], [x.diff(t) + k * x + c - F])
    assert (
        "not sought: inputs are unknown"
        in model.identifiability([x, x.diff(t) + k * x], unknown_inputs=[F]).summary
    )


def test_constraints():
    """A pendulum in Cartesian coordinates, seen from the side that gravity does not tell."""
    verdict = ks.models.cartesian_pendulum().identifiability(["x"])
    assert verdict.ambiguous == ("g", "y", "v")
    assert {one.excluded for one in verdict.second_solutions} == {(), ("L",)}


def test_implicit_equations():
    """Two equal links that are measured by the sum of their angles alone: exchanged."""
    y, w = ks.dynamicsymbols("y w")
    equations = [
        x.diff(t) - v,
        y.diff(t) - w,
        m * v.diff(t) + b * w.diff(t) + k * x,
        b * v.diff(t) + m * w.diff(t) + c * y,
    ]
    model = ks.Model("links", [x, y, v, w], [], [m, b, k, c], equations)
    verdict = model.identifiability([x + y], unknown=[k, c])
    (one,) = verdict.second_solutions
    assert one.changes["k"] == c and one.changes["c"] == k
