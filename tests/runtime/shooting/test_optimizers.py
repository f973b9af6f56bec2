"""Where line searches end: at a minimum, by rounding, or where cost and gradient do not agree."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from kinesym.runtime.shooting.optimizers import minimise
from kinesym.runtime.shooting.scaled import Chosen, Minimisation
from kinesym.runtime.status import Solve

SLOPES = np.vander(np.linspace(0.0, 1.0, 40), 3)
NOISE = np.random.default_rng(0).standard_normal(40)


class Straight:
    """Residuals SLOPES q - NOISE, whose sum of squares is rounded to so many digits of itself; or
    another cost, with its gradient."""

    scored, kinked, measured, trials, steps = False, False, False, (), ()
    at_most = nullcontext

    def __init__(self, rounding=0.0, cost=None, gradient=None):
        owned = SimpleNamespace(names=(), log=np.zeros(0, dtype=bool))
        self.unknowns = SimpleNamespace(owned=owned, names=("a", "b", "c"), several=False, size=3)
        self.rounding, self._cost, self._gradient = rounding, cost, gradient

    def cost(self, q):
        if self._cost:
            return self._cost(q)
        J = float(self.residuals(q) @ self.residuals(q))
        return self.rounding * np.ceil(J / self.rounding) if self.rounding else J

    def gradient(self, q):
        return self._gradient(q) if self._gradient else 2.0 * SLOPES.T @ self.residuals(q)

    def residuals(self, q):
        return SLOPES @ q - NOISE

    rows = residuals

    def change(self, before, q):
        return self.residuals(q) - before

    def jacobian(self, q):
        return csr_array(SLOPES)


def end(trials, optimizer="bfgs", begin=(3.0, -2.0, 1.0), bounds=1e3, squares=True, limit=2000):
    q, one = np.array(begin), np.ones(3)
    limits, unit = (-bounds * one, bounds * one), trials.cost(q)
    how = Chosen(optimizer, True, False, 1e-14, limit, {})
    return minimise(Minimisation(trials, one, unit, limits, squares, lambda step: None, how), q)


BEST = np.linalg.lstsq(SLOPES, NOISE)[0]


@pytest.mark.parametrize("optimizer", ["bfgs", "steepest-descent"])
@pytest.mark.parametrize("rounding", [1e-13, 1e-11, 1e-9])
def test_rounding_at_the_minimum(optimizer, rounding):
    """Rounding ends the descent where slopes are far above those of exact costs."""
    found = end(Straight(rounding), optimizer)
    assert found.status.success
    covariance = np.linalg.inv(SLOPES.T @ SLOPES) * np.var(NOISE)
    assert np.all(np.abs(found.q - BEST) < 1e-2 * np.sqrt(np.diag(covariance)))


@pytest.mark.parametrize("optimizer", ["bfgs", "steepest-descent"])
def test_rounding_before_the_minimum(optimizer):
    """So coarse that the descent ends where estimates are still off."""
    found = end(Straight(4.0), optimizer)
    assert found.status is Solve.NO_MINIMUM and "this is not the minimum" in found.message


@pytest.mark.parametrize("squares", [False, True])
def test_wrong_gradient(squares):
    """A cost that rises where the gradient says that it falls."""
    right = Straight()
    trials = Straight(cost=right.cost, gradient=lambda q: -right.gradient(q))
    found = end(trials, squares=squares)
    assert found.status in (Solve.STUCK, Solve.NO_MINIMUM)
    assert "no step lowers the cost" in found.message


@pytest.mark.parametrize("optimizer", ["bfgs", "steepest-descent", "least-squares"])
def test_a_limit_is_told_by_its_status(optimizer):
    found = end(Straight(), optimizer, limit=1)
    assert found.status is Solve.ITERATION_LIMIT and not found.status.success


def test_a_bound_holds_what_is_pushed_against_it():
    """Derivatives say nothing against an end at a bound."""
    found = end(Straight(1e-9), bounds=1.0, begin=(0.5, 0.5, 0.5))
    assert found.status.success and np.abs(found.q).max() == 1.0


class Formula(Straight):
    """Residuals by a formula, in units of their standard deviations; notes costs where derivatives
    are asked for."""

    measured = weighted = True
    factor = 1.0

    def __init__(self, formula):
        super().__init__()
        self.formula, self.asked = formula, []

    def residuals(self, q):
        return self.formula(q)

    rows = residuals

    def jacobian(self, q):
        self.asked.append(self.cost(q))
        steps = 1e-30j * np.eye(3)
        return csr_array(np.array([self.formula(q + step).imag / 1e-30 for step in steps]).T)


def test_a_flat_end_names_what_is_loose():
    """The larger b the better, without end, by less than any measurement tells."""
    trials = Formula(lambda q: np.array([q[0] - 2.0, 1.0, q[2] - 1.0, 5e-3 / np.log(2.0 + q[1])]))
    found = end(trials, "least-squares", begin=(1.0, 1.0, 3.0), bounds=np.inf)
    assert found.status is Solve.FLAT and found.status.success
    assert "along b would lower the objective by" in found.message
    np.testing.assert_allclose(found.q[[0, 2]], [2.0, 1.0], rtol=1e-6)


def test_steps_that_are_not_taken_need_no_derivatives():
    """Rosenbrock's valley, where some steps fail."""
    trials = Formula(lambda q: np.array([10.0 * (q[1] - q[0] ** 2), 1.0 - q[0], q[2]]))
    found = end(trials, "least-squares", begin=(-1.2, 1.0, 1.0))
    np.testing.assert_allclose(found.q, [1.0, 1.0, 0.0], atol=1e-9)
    assert (np.diff(trials.asked[1:]) < 0.0).all()
