"""What a solution says at nodes where the scheme has no stage, and where nothing acts any more."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.symbolic.schemes import SCHEMES, CollocationScheme

t = ks.t
x, v, y, F = ks.dynamicsymbols("x v y F")
k = sp.Symbol("k")
STAGED = [
    name
    for name, scheme in SCHEMES.items()
    if isinstance(scheme, CollocationScheme) and not scheme.explicit_start
]
#: y + y^3 = x, x' = -y: t = log(1 / y) + 3 / 2 (1 - y^2) from y(0) = 1, x(0) = 2 on.
ROOT = ks.Model("root", [x, y], [], [], [x.diff(t) + y, y + y**3 - x], outputs={"twice": 2 * y})
CART = ks.Model("cart", [x, v], [F], [], [x.diff(t) - v, v.diff(t) - F], outputs={"power": F * v})
REST = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1.0]
TIME = np.linspace(0.0, 1.0, 11)


def decay(scheme, nodes):
    task = ks.Collocation(
        ROOT,
        ks.Experiment(np.linspace(0.0, 2.0, nodes)),
        scheme=scheme,
        objective=ks.Integral(x**2),
        boundary=[ks.at_start(x) - 2.0],
    )
    return task, task.solve({x: 2.0, y: 1.0}, tolerance=1e-11)


def exact(time):
    """y by bisection of the closed form."""
    low, high = np.zeros(len(time)), np.ones(len(time))
    for _ in range(60):
        middle = 0.5 * (low + high)
        late = -np.log(middle) + 1.5 * (1.0 - middle**2) > time
        low, high = np.where(late, middle, low), np.where(late, high, middle)
    return middle


@pytest.mark.parametrize("scheme", STAGED)
def test_algebraic_states_agree_with_the_equations(scheme):
    """At all nodes, and so do outputs; the values are as accurate as the states with a rate, of the
    order of the scheme, where continuation has that of the stages."""
    errors = []
    for nodes in (11, 21):
        task, solution = decay(scheme, nodes)
        found = solution["y"]
        np.testing.assert_allclose(found + found**3, solution["x"], atol=1e-8)
        np.testing.assert_allclose(solution["twice"], 2.0 * found, atol=1e-12)
        assert found[0] == pytest.approx(1.0, abs=1e-9)
        errors.append(np.abs(found - exact(solution.time)).max())
        assert task.verify(solution).largest < 3.0 * errors[-1] + 5e-7
    if errors[1] > 1e-9:
        assert np.log2(errors[0] / errors[1]) > SCHEMES[scheme].order - 0.5


def test_algebraic_states_without_an_answer_are_continued():
    """The equation y^2 = x - 1 has no root at the first node of a rough record."""
    model = ks.Model("none", [x, y], [], [], [x.diff(t) + 1, y**2 - x])
    task = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 1.0, 5)),
        scheme="radau-3",
        objective=ks.Integral((x - 2) ** 2),
    )
    z = task.pack({x: -1.0, y: 0.5})
    [run] = task.problem.trajectories(z)
    assert run["y"] == pytest.approx(np.full(5, 0.5))


@pytest.mark.parametrize("scheme", ["radau-3", "radau-5"])
def test_at_index_2_the_first_node_is_continued(scheme):
    """The force in a rod, given as a constraint of velocity: continued from the stages to the first
    node it is as accurate as at the others."""
    px, py, vx, vy, pull = ks.dynamicsymbols("px py vx vy pull")
    rows = [px.diff(t) - vx, py.diff(t) - vy, vx.diff(t) + px * pull]
    rows += [vy.diff(t) + py * pull + 9.81, px * vx + py * vy]
    model = ks.Model("rod", [px, py, vx, vy, pull], [], [], rows)
    angle, rate = ks.dynamicsymbols("angle rate")
    swing = [angle.diff(t) - rate, rate.diff(t) + 9.81 * sp.sin(angle)]
    run = ks.simulate(ks.Model("a", [angle, rate], [], [], swing), TIME, {angle: 0.8, rate: 0.0})
    task = ks.Collocation(
        model,
        ks.Experiment(TIME),
        scheme=scheme,
        objective=ks.Integral(px**2),
        boundary=[
            ks.at_start(px) - np.sin(0.8),
            ks.at_start(py) + np.cos(0.8),
            ks.at_start(vx),
            ks.at_start(vy),
        ],
    )
    solution = task.solve({px: 0.5, py: -0.8, pull: 10.0})
    off = np.abs(solution["pull"] - run["rate"] ** 2 - 9.81 * np.cos(run["angle"]))
    assert solution.success and off[0] < off[1:].max() < 0.2


@pytest.mark.parametrize("scheme", ["midpoint", "radau-3", "lobatto-4"])
def test_a_held_input_has_no_value_at_the_end(scheme, tmp_path):
    """NaN with a note, as are outputs with it; all that takes a solution copes with it."""
    task = ks.Collocation(
        CART,
        ks.Experiment(TIME),
        scheme=scheme,
        objective=ks.Integral(F**2),
        boundary=REST,
        unknown_inputs={F: ks.held()},
    )
    solution = task.solve()
    assert np.isnan(solution["F"][-1]) and np.isfinite(solution["F"][:-1]).all()
    assert np.isnan(solution["power"][-1]) and np.isfinite(solution["power"][:-1]).all()
    assert any("F is NaN at the last node" in note for note in solution.notes)
    assert task.verify(solution).largest < 1e-6
    assert np.isfinite(solution.grid_error().objective)
    hold = ks.Signal(solution.time, solution["F"], "held")
    run = ks.simulate(CART, TIME, {x: 0.0, v: 0.0}, inputs={F: hold})
    np.testing.assert_allclose(run["x"], solution["x"], atol=1e-6)
    for guess in (solution, solution.trials[0], {F: solution["F"], x: solution["x"]}):
        z = task.pack(guess)
        assert np.isfinite(z).all()
        assert task.solve(guess).objective == pytest.approx(solution.objective, rel=1e-6)
    other = ks.Collocation(
        CART,
        ks.Experiment(np.linspace(0.0, 1.0, 7)),
        objective=ks.Integral(F**2),
        boundary=REST,
        unknown_inputs={F: None},
    )
    row = other.unpack(other.pack(solution))["F"]
    assert np.isfinite(row).all() and row[-1] == pytest.approx(solution["F"][-2], abs=0.2)
    fine = task.refined(solution, 1e-9).solve()
    assert np.isnan(fine["F"][-1]) and fine.success
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plt.close(solution.plot())
        assert "F is NaN" in str(solution)
    solution.save(tmp_path / "cart.nc")
    again = ks.Solution.load(tmp_path / "cart.nc")
    np.testing.assert_array_equal(again["F"], solution["F"])
    assert task.solve(again).iterations <= solution.iterations


def test_a_held_input_under_a_condition_is_feasible():
    """The condition holds at the last node, too, where F may be anything that meets it."""
    task = ks.Collocation(
        CART,
        ks.Experiment(TIME),
        scheme="radau-3",
        objective=ks.Integral(F**2),
        boundary=REST,
        unknown_inputs={F: ks.held()},
        path=[(F, 0.5, 10.0)],
    )
    solution = task.solve()
    assert (
        solution.success and solution["F"][:-1].min() > 0.5 - 1e-6 and np.isnan(solution["F"][-1])
    )
    assert not solution.grid_error().note


def test_a_held_input_that_is_measured_at_the_end():
    """Its last sample, or that of an output with it, moves nothing but itself."""
    force = 3.0 + np.cos(4.0 * TIME)
    run = ks.simulate(CART, TIME, {x: 0.0, v: 0.0}, inputs={F: ks.Signal(TIME, force, "held")})
    found = []
    for last in (force[-1], 50.0, np.nan):
        measured = np.append(force[:-1], last)
        trial = ks.Experiment(TIME, measurements={x: run["x"], F: measured}, std={x: 0.01, F: 0.1})
        task = ks.Collocation(CART, trial, scheme="radau-3", unknown_inputs={F: ks.held()})
        solution = task.solve()
        assert solution.objective < 1e-8
        np.testing.assert_allclose(solution["F"], measured, atol=1e-5)
        found.append(solution["F"][:-1])
    np.testing.assert_allclose(found, np.tile(found[0], (3, 1)), atol=1e-6)


def test_a_held_input_that_goes_on_in_the_next_phase():
    """A link of its value at the end is one of the last value that it has."""
    phases = ks.Phases(
        [ks.Experiment(TIME), ks.Experiment(TIME)],
        links=[ks.at_start(n) - ks.at_end(n) for n in (x, v, F)],
        start=[ks.at_start(x), ks.at_start(v)],
        end=[ks.at_end(x) - 1.0, ks.at_end(v)],
    )
    task = ks.Collocation(
        CART,
        phases,
        scheme="radau-3",
        objective=ks.Integral(F**2),
        unknown_inputs={F: ks.held()},
    )
    first, last = task.solve().trials
    assert first["F"][-2:] == pytest.approx(last["F"][0], rel=1e-9)
