"""Active sets, on quadratic programs that are written down."""

import numpy as np
import pytest

from kinesym.runtime.statistics.active import Limits, active
from kinesym.runtime.statistics.kkt import Kkt


def program(low, force, curvature):
    """min curvature x^2 - x y + y^2 with x + z = 0, near its minimum at 0; of x a bound so far
    below, with what an interior point leaves of its barrier."""
    rows, columns = np.array([0, 1, 1]), np.array([0, 0, 1])
    infinite = np.full(4, np.inf)
    return Kkt(
        hessian=(rows, columns, np.array([2.0 * curvature, -1.0, 2.0])),
        jacobian=(np.array([0, 0]), np.array([0, 2]), np.array([1.0, 1.0])),
        stiffness=np.array([force / low, 0.0, 0.0]),
        softness=np.zeros(1),
        sizes=np.ones(3),
    ), Limits(
        above=np.array([low, *infinite[1:]]),
        below=infinite,
        down=np.array([force, 0.0, 0.0, 0.0]),
        up=np.zeros(4),
    )


@pytest.mark.parametrize("curvature", [1e-2 + 0.25, 1.0, 1e6])
def test_a_bound_that_is_far_is_not_there_and_costs_no_scaling(curvature):
    kkt, limits = program(0.5, 1e-9, curvature)
    found = active(kkt, limits)
    assert not found.stiffness.any()
    assert "scaled" not in vars(kkt)


@pytest.mark.parametrize("force", [0.1, 10.0])
def test_a_bound_that_presses_holds(force):
    found = active(*program(1e-9, force, 1.0))
    assert list(np.isinf(found.stiffness)) == [True, False, False]


def test_a_far_bound_with_a_minimum_beyond_holds():
    """No solve ends there, but the minimum without it is outside."""
    found = active(*program(0.5, 3.0, 1.0))
    assert list(np.isinf(found.stiffness)) == [True, False, False]
