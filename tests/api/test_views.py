"""What a problem shows of a guess or a solution: what is violated, trajectories within bounds."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.internal.fitting.violations import violated

x, v, u = ks.dynamicsymbols("x v u")
TIME = np.linspace(0.0, 2.0, 21)


@pytest.fixture(scope="module")
def task():
    model = ks.Model("cart", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
    return ks.Collocation(
        model,
        ks.Experiment(TIME),
        objective=ks.Integral(u**2),
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)],
        path=[v <= 0.7],
        bounds={x: (-0.5, None)},
        unknown_inputs={u: (-3.0, 3.0)},
        scheme="midpoint",
    )


def test_what_a_guess_violates(task):
    """x = 2 t and v = 0: x' - v is 2, times the step; v ends where it should, and x at 4."""
    found = task.violations({x: 2.0 * TIME, v: 0.0, u: 0.0})
    worst = {course.condition: course for course in found.worst()}
    assert list(worst) == ["boundary condition 2 (at_end(x) - 1)", "equation 0 (x')"]
    assert (
        found.largest == worst["boundary condition 2 (at_end(x) - 1)"].largest == pytest.approx(3.0)
    )
    of_rate = worst["equation 0 (x')"]
    np.testing.assert_allclose(of_rate.values, of_rate.values[0])
    np.testing.assert_array_equal(of_rate.time, TIME[1:])
    assert "3.00e+00  boundary condition 2 (at_end(x) - 1), trial 0, t = 2 s" in str(found)


def test_conditions_and_bounds_are_told_apart(task):
    z = task.pack({x: 0.0, v: TIME, u: 1.0})
    z[0] = -0.75  # within pack it would be moved
    bounds = {c.condition: c for c in violations_at(task, z)}
    assert bounds["bounds of x"].values[0] == pytest.approx(0.25)
    path = next(c for name, c in bounds.items() if name.startswith("path condition 0"))
    np.testing.assert_allclose(path.values, np.maximum(0.0, TIME - 0.7), atol=1e-15)


def violations_at(task, z):
    """Of a free vector as it is."""
    limits = task.constraint_bounds, task.variable_bounds
    return list(violated(task.layout, z, task.constraints(z), *limits))


def test_a_solution_violates_nothing_that_one_sees(task):
    solution = task.solve()
    assert solution.success and task.violations(solution).largest < 1e-8
    assert str(type(task.violations(solution))([])) == "nothing is violated"


def test_pictures(task):
    """Panels by name, dashed bounds that do not widen them, dots of what is violated."""
    figure = task.plot({x: TIME / 2, v: 0.5, u: 0.0}, beside={x: 0.0}, names=[x, u])
    of_x, of_u = figure.axes
    assert [line.get_linestyle() for line in of_x.lines] == ["-", ":", "--", "--"]
    assert of_x.get_ylim()[0] > -0.2 and of_u.get_ylabel() == "u"
    found = task.violations({x: 2.0 * TIME})
    figure = found.plot()
    assert len(figure.axes[0].get_yticklabels()) == len(found.worst())
    assert (
        figure.axes[0]
        .get_yticklabels()[0]
        .get_text()
        .startswith("boundary condition 2 (at_end(x) - 1): 3.0")
    )
    assert type(found)([]).plot().axes[0].get_title() == "nothing is violated"


def test_what_is_not_there_is_said(task):
    with pytest.raises(ValueError, match="trial must be a number from 0 to 0, got 1"):
        task.plot(trial=1)
    with pytest.raises(ValueError, match="there is no trajectory 'w'"):
        task.plot(names=["w"])
    with pytest.raises(ValueError, match="trial must be a number from 0 to 0, got 2"):
        task.violations().plot(trial=2)
