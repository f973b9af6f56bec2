"""What a true error costs: the truth, the grids that are tried, problems in words of others."""

import accuracy
import grid
import numpy as np
import pytest
from peers import optimal_control
from published import CLOSED_FORMS


def attempts(order):
    """Tries whose error is 0.3 N^-order and whose solve takes N microseconds."""

    def attempt(intervals):
        answer = accuracy.Answer(intervals + 1, 1e-6 * intervals, 0.0, 9, 1.0)
        return accuracy.Try(intervals, 0.0, answer, 0.3 * intervals**-order)

    return attempt


def test_the_truth_is_the_closed_form():
    best = accuracy.truth("brachistochrone")
    assert best.objective == CLOSED_FORMS["brachistochrone"]()
    assert best.doubt < 1e-11
    made = best.posed("brachistochrone", 12)
    solution = accuracy.solved(made.posed(scheme="radau-5"), made.guess)
    answer = accuracy.answer_of(solution)
    assert best.error(False, answer) < 1e-8
    assert best.error_of_states(answer) < 1e-6


@pytest.mark.parametrize("order", [4, 6])
def test_the_fewest_nodes(order):
    attempt = attempts(order)
    tries = accuracy.climb(attempt, 3, limit=1.0)
    for tolerance in accuracy.TOLERANCES:
        found = accuracy.reached(tries, tolerance, attempt, unit=3)
        exact = (0.3 / tolerance) ** (1 / order)
        assert found.error <= tolerance
        assert found.intervals <= max(3, 1.05 * exact + 3)


def test_other_minima_do_not_count():
    attempt = attempts(4)

    def astray(intervals):
        found = attempt(intervals)
        return accuracy.replace(found, error=0.02) if intervals == 48 else found

    tries = accuracy.climb(astray, 3, limit=1.0)
    assert 48 not in [t.intervals for t in tries] and tries[-1].error <= 1e-8


def test_what_is_too_fine_to_be_tried():
    tries = accuracy.climb(attempts(2), 3, limit=1e-3)
    assert accuracy.reached(tries, 1e-8, attempts(2), unit=3) is None
    nodes, seconds = accuracy.supposed(tries, 1e-8, 2)
    assert nodes == pytest.approx(np.sqrt(0.3e8), rel=1e-3)
    assert seconds == pytest.approx(1e-6 * np.sqrt(0.3e8), rel=1e-3)
    assert accuracy.supposed(tries, 1e-8, 4) is None


@pytest.mark.parametrize("name", accuracy.SHARED)
def test_a_problem_for_other_packages(name):
    """Rates and integrand are those of the model, ends and bounds have numbers."""
    made = grid.CASES[name].make(13)
    about = optimal_control.stated(made)
    rng = np.random.default_rng(0)
    values = rng.uniform(0.5, 1.5, len(about.names))
    rates = about.function([*about.rates, about.integrand], "numpy")(*values)
    model = made.problem.model
    at = dict(zip((*model.states, *model.inputs), values, strict=True))
    slopes = dict(zip(model.derivatives, rates, strict=False))
    for equation in optimal_control.flat_equations(model):
        assert float(equation.xreplace(slopes).xreplace(at)) == pytest.approx(0.0, abs=1e-12)
    integrand = made.problem.symbolic.objective.integrand.xreplace(at)
    assert rates[-1] == pytest.approx(float(integrand))
    assert len(about.start) + len(about.end) == len(made.problem.symbolic.boundary)
    assert all(low < high for low, high in about.bounds.values())
    assert about.first(about.names[0]).shape == (13,)


@pytest.mark.parametrize("name", ["brachistochrone_on_a_curve", "hypersensitive", "gas_oil"])
def test_estimates_of_the_default_scheme(name):
    """Within a factor of 3 of the truth; also where an equation ties an input to the states."""
    found = grid.verdict(name, grid.CASES[name], "radau-3")
    assert found is not None and 1 / 3 < found.ratio < 3
