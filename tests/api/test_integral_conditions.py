"""Conditions on integrals, against closed forms."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, u = ks.dynamicsymbols("x u")
model = ks.Model("isoperimetric", [x], [u], [], [x.diff(ks.t) - u])
TIME = np.linspace(0.0, 1.0, 21)
ENDS = [ks.at_start(x), ks.at_end(x)]


def solved(*conditions, trials=None, objective=None):
    """The least integral of u^2 from 0 to 0."""
    problem = ks.Collocation(
        model,
        ks.Experiment(TIME) if trials is None else trials,
        objective=objective or ks.Integral(u**2),
        boundary=[*ENDS, *conditions],
        unknown_inputs={u: None},
        scheme="radau-5",
    )
    return problem.solve()


def test_parabola_over_an_area():
    """With the integral A of x the best one is x = 6 A t (1 - t), whose cost is 12 A^2."""
    solution = solved(sp.Eq(ks.integral(x), 0.4))
    assert solution.success
    np.testing.assert_allclose(solution.objective, 12 * 0.4**2, rtol=1e-9)
    np.testing.assert_allclose(solution["x"], 6 * 0.4 * TIME * (1 - TIME), atol=1e-8)
    np.testing.assert_allclose(solution["integral_1"][-1], 0.4, rtol=1e-9)


def test_inequalities_and_several_at_once():
    """At most an area, at least a mean of t x, which for the parabola is half of the area."""
    idle = solved(ks.integral(x) <= 0.4)
    np.testing.assert_allclose(idle.objective, 0.0, atol=1e-8)
    both = solved((ks.integral(x), 0.0, 0.4), ks.integral(ks.t * x) >= 0.1)
    half = solved(ks.integral(ks.t * x) - 0.1)
    np.testing.assert_allclose(both.objective, half.objective, rtol=1e-6)
    assert both["integral_1"][-1] < 0.4


def test_each_trial_has_its_own():
    both = solved(ks.integral(x) - 0.3, trials=[ks.Experiment(TIME), ks.Experiment(2 * TIME)])
    np.testing.assert_allclose(both.objective, 12 * 0.3**2 * (1 + 1 / 8), rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: solved(objective=ks.Terminal(ks.integral(x))),
            "integral, which belong in boundary",
        ),
        (lambda: solved(ks.integral(ks.at_end(x))), "at_end"),
        (lambda: solved(ks.Integral(x)), r"is one of ks.integral\(...\) in boundary"),
        (lambda: solved(ks.integral("x")), "text is not evaluated"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_periodic_conditions():
    y = sp.Function("y")(ks.t)
    assert ks.periodic(x) == ks.at_start(x) - ks.at_end(x)
    assert ks.periodic(x, y, sign=-1) == ks.at_start(x) + ks.at_end(y)


def test_parameters_and_inputs_that_only_the_task_has():
    """A weight in the integrand, a limit in a path condition, an input that is only compared."""
    weight, most, level = *sp.symbols("weight most"), ks.dynamicsymbols("level")
    task = ks.Model("task", [x], [u, level], sp.Matrix([weight, most]), [x.diff(ks.t) - u])
    problem = ks.Collocation(
        task,
        ks.Experiment(TIME),
        objective=ks.Integral(weight * u**2 + level**2) + ks.Terminal(most**2),
        boundary=[*ENDS, sp.Eq(ks.integral(x), 0.4)],
        path=[x - most <= 0, level - x >= 0],
        unknown={most: None},
        unknown_inputs={u: None, level: None},
        known={weight: 2.0},
        scheme="radau-5",
    )
    solution = problem.solve()
    assert solution.success
    np.testing.assert_allclose(solution.parameters["most"], solution["x"].max(), rtol=1e-6)
    np.testing.assert_allclose(solution["level"][:-1], solution["x"][:-1], atol=1e-4)
