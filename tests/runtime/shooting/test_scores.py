"""Scores of samples: how they change along the unknowns, against their slopes."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.shooting.scores import Scores

ROOT, OFF, LOG, LIMITS = 0.7, np.arange(4), np.arange(4, 8), np.array([8])
MIX = np.random.default_rng(0).standard_normal((10, 3))


def rows_at(q):
    """Four residuals with the logarithms of their std, a censored sample, a plain residual."""
    told = np.tanh(MIX @ q)
    std = np.exp(0.3 * told[4:8])
    return ROOT * np.concatenate([told[:4] / std, np.sqrt(2.0) * np.log(std), told[8:]])


def slopes_at(q):
    """Derivatives of the rows by complex steps."""
    return np.array([rows_at(q + step).imag / 1e-30 for step in 1e-30j * np.eye(3)]).T


@pytest.mark.parametrize("loss", [None, RobustLoss("huber", 1.5)])
def test_changes_are_slopes_to_first_order(loss):
    q, d = np.array([0.3, -0.5, 0.2]), np.array([0.4, 1.0, -0.7])
    scores = Scores(OFF, LOG, LIMITS, np.ones(10, dtype=bool), ROOT, loss)
    before = rows_at(q)
    expected = scores.slopes(before, csr_array(slopes_at(q))) @ d
    found = scores.change(before, rows_at(q + 1e-30j * d)).imag / 1e-30
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    assert not scores.change(before, before).any()


def test_changes_have_the_deviations_from_before():
    q, far = np.array([0.3, -0.5, 0.2]), np.array([-0.6, 0.1, 0.9])
    scores = Scores(OFF, LOG, LIMITS[:0], np.ones(10, dtype=bool), ROOT)
    std = np.exp(0.3 * np.tanh(MIX[LOG] @ q))
    moved = ROOT * (np.tanh(MIX[OFF] @ far) - np.tanh(MIX[OFF] @ q)) / std
    np.testing.assert_allclose(scores.change(rows_at(q), rows_at(far))[OFF], moved, rtol=1e-12)
