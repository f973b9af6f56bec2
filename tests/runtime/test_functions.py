"""Functions of models at many points, which go through memory in parts."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.runtime import functions


@pytest.mark.parametrize("count", [1, 7, 30, 31, 32])
def test_parts_of_many_points_make_up_the_whole(monkeypatch, count):
    """The last part overlaps the one before; other counts before and after change nothing."""
    x, v, force = ks.dynamicsymbols("x v force")
    k = ks.Model("pendulum", [x, v], [force], [], [x.diff(ks.t) - v, v.diff(ks.t) + x**3 - force])
    f = ks.compile(k)
    monkeypatch.setattr(functions, "_AT_ONCE", 60)  # numbers: ten points of x, v, force, t, x', v'
    points = np.random.default_rng(count).normal(size=(3, count))
    for some in (points, points[:, :1], points):
        found = f.rhs(some[:2], some[2:], [], np.zeros(some.shape[1]))
        np.testing.assert_allclose(found, [some[1], some[2] - some[0] ** 3], rtol=0, atol=1e-14)
    still = f.rhs(points[:2], [0.5], [], 0.0)  # one input for all
    np.testing.assert_allclose(still[1], 0.5 - points[0] ** 3, rtol=0, atol=1e-14)
