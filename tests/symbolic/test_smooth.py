"""Rounded corners: limits, bounds of their distance, and that numbers far out do not overflow."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x = sp.Symbol("x", real=True)
CORNERS = {
    ks.smooth_abs(x, 0.1): (np.abs, 0.1),
    ks.smooth_max(x, 2.0, 0.1): (lambda v: np.maximum(v, 2.0), 0.05),
    ks.smooth_min(x, 2.0, 0.1): (lambda v: np.minimum(v, 2.0), 0.05),
}


@pytest.mark.parametrize("smooth", CORNERS, ids=str)
def test_distance_from_the_corner(smooth):
    corner, most = CORNERS[smooth]
    at = np.linspace(-10.0, 10.0, 2001)
    off = np.abs(sp.lambdify(x, smooth)(at) - corner(at))
    np.testing.assert_allclose(off.max(), most, rtol=1e-12)
    assert off[0] < 0.01 * most + 1e-3


def test_step():
    step = sp.lambdify(x, ks.smooth_step(x, 0.1))
    assert step(0.0) == 0.5
    np.testing.assert_allclose(step(0.1), 1 / (1 + np.exp(-2.0)), rtol=1e-12)
    assert (step(-1e3), step(1e3)) == (0.0, 1.0)


def test_width_may_be_a_parameter_but_not_zero():
    assert ks.smooth_abs(x, sp.Symbol("w")).free_symbols == {x, sp.Symbol("w")}
    for function in (ks.smooth_abs, ks.smooth_step):
        with pytest.raises(ValueError, match=f"the width of {function.__name__} must be positive"):
            function(x, 0.0)
