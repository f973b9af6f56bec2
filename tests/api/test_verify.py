"""Solutions of collocation, simulated forwards."""

import warnings

import matplotlib
import numpy as np
import pytest
import sympy as sp

import kinesym as ks

matplotlib.use("Agg")

t = ks.t
x, v, y, u = ks.dynamicsymbols("x v y u")


def swing(scheme, nodes, **trial):
    model = ks.Model("swing", [x, v], [u], [], [x.diff(t) - v, v.diff(t) + sp.sin(x) - u])
    given = trial or {"time": np.linspace(0.0, 3.0, nodes)}
    return ks.Collocation(
        model,
        ks.Experiment(**given),
        scheme=scheme,
        objective=ks.Integral(u**2 + 1),
        unknown_inputs={u: None},
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - sp.pi, ks.at_end(v)],
    )


@pytest.mark.parametrize(
    ("scheme", "nodes", "least", "most"),
    [
        ("midpoint", 21, 1e-3, 2e-2),
        ("trapezoid", 21, 1e-3, 1e-1),
        ("radau-3", 21, 1e-6, 1e-3),
        ("hermite-simpson", 21, 1e-7, 1e-3),
        ("radau-5", 21, 0.0, 1e-6),
        ("gauss-6", 21, 0.0, 1e-7),
    ],
)
def test_simulation_leaves_it_by_the_error_of_the_grid(scheme, nodes, least, most):
    problem = swing(scheme, nodes)
    solution = problem.solve()
    check = problem.verify(solution)
    assert least <= check.largest <= most
    finer = problem.verify(solution, segments=5)
    assert finer.largest <= 1.01 * check.largest
    assert finer.segments == 5
    assert "of the range of" in str(check)


def test_free_duration_and_given_inputs():
    w = ks.dynamicsymbols("w")
    model = ks.Model("driven", [x, v], [u, w], [], [x.diff(t) - v, v.diff(t) + sp.sin(x) - u - w])
    shares = np.linspace(0.0, 1.0, 31)
    problem = ks.Collocation(
        model,
        ks.Experiment(nodes=31, duration=(1.0, 9.0), inputs={w: np.sin(3 * shares)}),
        scheme="radau-5",
        objective=ks.Integral(u**2 + 1),
        unknown_inputs={u: (-1, 1)},
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 2, ks.at_end(v)],
    )
    solution = problem.solve({"duration": 3.0}, tolerance_grid=1e-5)
    assert solution.success
    assert problem.verify(solution).largest < 1e-4


def test_algebraic_states():
    model = ks.Model("dae", [x, y], [], [], [x.diff(t) + y, y - sp.sin(x) * 2])
    problem = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0, 2, 21)),
        scheme="radau-5",
        objective=ks.Terminal(x**2),
        boundary=[ks.at_start(x) - 1],
    )
    apart = problem.verify(problem.solve()).differences
    assert np.abs(apart["x"]).max() < 1e-6
    assert np.abs(apart["y"][1:]).max() < 1e-6  # at the first node it is continued


def test_unstable_systems_go_in_segments():
    """An inverted pendulum for ten time constants: what is exact at the nodes still parts."""
    model = ks.Model("stick", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - 9 * sp.sin(x) - u])
    problem = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 8.0, 161)),
        scheme="radau-3",
        objective=ks.Integral(u**2 + x**2),
        unknown_inputs={u: None},
        boundary=[ks.at_start(x) - 0.2, ks.at_start(v), ks.at_end(x), ks.at_end(v)],
    )
    solution = problem.solve()
    whole, parts = problem.verify(solution), problem.verify(solution, segments=16)
    assert whole.largest > 100.0 * parts.largest
    assert parts.largest < 1e-3


def test_saved_and_drawn(tmp_path):
    problem = swing("midpoint", 31)
    check = problem.verify(problem.solve())
    check.save(tmp_path / "check.nc")
    assert str(type(check).load(tmp_path / "check.nc")) == str(check)
    assert len(check.plot().axes) == 2
    with pytest.raises(ValueError, match="another problem"):
        swing("radau-3", 31).verify(problem.solve())


def test_segments_of_a_reduced_model():
    """They begin where the solution is, which has drifted from the constraints by its error; and a
    record that goes on beyond a segment is not too fine for it."""
    reduced = ks.models.cartesian_pendulum().reduced_index()
    time = np.linspace(0.0, 2.0, 101)
    angle = 0.5 * np.cos(3.1 * time)
    trial = ks.Experiment(time, measurements={"x": np.sin(angle)}, std={"x": 0.01})
    problem = ks.Collocation(reduced, trial, unknown={"g": (5, 15)})
    solution = problem.solve(guess={"g": 9.0, "y": -0.9})
    assert solution.success
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = problem.verify(solution, segments=10)
    assert not found.message and found.largest < 1e-2
