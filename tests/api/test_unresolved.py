"""What a grid is too coarse for has not converged, whatever is asked for, by every scheme."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, v, u = ks.dynamicsymbols("x v u")
k = sp.Symbol("k")


def regulated(nodes, scheme, stiff=5.0):
    """A relaxation oscillator brought to rest; J = 18.577 on fine grids."""
    rate = v.diff(ks.t) - stiff * (1 - x**2) * v + x - u
    model = ks.Model("regulated", [x, v], [u], [], [x.diff(ks.t) - v, rate])
    return ks.Collocation(
        model,
        ks.Experiment(nodes=nodes, duration=(20.0, 20.0)),
        objective=ks.Integral(x**2 + v**2 + u**2),
        boundary=[ks.at_start(x) - 2, ks.at_start(v)],
        unknown_inputs={u: (-3, 3)},
        scheme=scheme,
    ).solve(progress=False)


def layers(nodes, scheme, duration=1000.0):
    """Rao and Mease's hypersensitive problem: layers at both ends, J = 6.72 at any duration."""
    model = ks.Model("layers", [x], [u], [], [x.diff(ks.t) + x**3 - u])
    return ks.Collocation(
        model,
        ks.Experiment(nodes=nodes, duration=(duration, duration)),
        objective=ks.Integral((x**2 + u**2) / 2),
        boundary=[ks.at_start(x) - 1, ks.at_end(x) - 1.5],
        unknown_inputs={u: None},
        scheme=scheme,
    ).solve(progress=False)


def chattering(nodes, scheme):
    """Fuller's problem: infinitely many switches; J = 0.7640."""
    model = ks.Model("fuller", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
    ends = [ks.at_start(x) - 1, ks.at_start(v), ks.at_end(x), ks.at_end(v)]
    return ks.Collocation(
        model,
        ks.Experiment(nodes=nodes, duration=(3.0, 3.0)),
        objective=ks.Integral(x**2),
        boundary=ends,
        unknown_inputs={u: (-1, 1)},
        scheme=scheme,
    ).solve(progress=False)


def fitted(nodes, scheme, true=5.0):
    """The stiffness of a relaxation oscillator from samples of x."""
    rate = v.diff(ks.t) - k * (1 - x**2) * v + x
    model = ks.Model("fitted", [x, v], [], [k], [x.diff(ks.t) - v, rate])
    time = np.linspace(0.0, 20.0, nodes)
    run = ks.simulate(model, time, {x: 2.0, v: 0.0}, {k: true}, method="dormand-prince")
    measured = run["x"] + 0.01 * np.random.default_rng(0).standard_normal(nodes)
    trial = ks.Experiment(time, measurements={"x": measured}, std={"x": 0.01})
    return ks.Collocation(model, trial, {k: (0.1, 20)}, scheme=scheme).solve({k: 3.0})


@pytest.mark.parametrize(
    "solve, nodes, scheme",
    [
        (regulated, 12, "midpoint"),
        (layers, 40, "trapezoid"),
        (layers, 40, "radau-3"),
        (fitted, 12, "midpoint"),
        (fitted, 12, "radau-5"),
    ],
)
def test_too_coarse_is_not_resolved(solve, nodes, scheme):
    found = solve(nodes, scheme)
    assert found.status == "not resolved" and not found.success
    assert "too coarse to show the motion" in found.message


@pytest.mark.parametrize(
    "solve, nodes, scheme",
    [
        (regulated, 101, "radau-5"),
        (regulated, 101, "midpoint"),
        (chattering, 25, "midpoint"),
        (chattering, 25, "trapezoid"),
        (chattering, 25, "backward-euler"),
        (fitted, 201, "radau-5"),
    ],
)
def test_what_is_resolved_stays_converged(solve, nodes, scheme):
    assert solve(nodes, scheme).status == "converged"


def test_states_that_do_not_move_are_no_reason():
    """y stays at zero, but for rounding."""
    y = ks.dynamicsymbols("y")
    rates = [x.diff(ks.t) - v, v.diff(ks.t) + x - u, y.diff(ks.t) + 40 * y * v]
    model = ks.Model("still", [x, v, y], [u], [], rates)
    found = ks.Collocation(
        model,
        ks.Experiment(nodes=30, duration=(2.0, 2.0)),
        objective=ks.Integral(u**2),
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_start(y), ks.at_end(x) - 1],
        unknown_inputs={u: None},
        scheme="midpoint",
    ).solve(progress=False)
    assert found.status == "converged"
