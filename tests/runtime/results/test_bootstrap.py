"""The bootstrap of residuals, for a linear model whose distribution is known."""

import numpy as np
import pytest
from scipy.signal import lfilter

from kinesym.runtime.results.bootstrap import Bootstrap, block_of, new_record
from kinesym.runtime.results.series import Series


def series(e, channel="y"):
    t = np.arange(len(e)) / len(e)
    model = 2.0 + 3.0 * t
    return Series(channel, 0, np.arange(len(e)), t, model + e, model, np.full(len(e), 0.5), len(e))


def refits(one, count, rng):
    """Estimates of records: least squares of a straight line."""
    X = np.column_stack([np.ones(len(one.time)), one.time])
    block = block_of([one])
    records = [new_record([one], block, 1.0, rng)[0, "y"] for _ in range(count)]
    return np.array([np.linalg.lstsq(X, y, rcond=None)[0] for y in records]), block


def test_white_residuals():
    rng = np.random.default_rng(0)
    e = 0.5 * rng.standard_normal(400)
    estimates, block = refits(series(e), 2000, rng)
    assert block <= 3
    X = np.column_stack([np.ones(400), np.arange(400) / 400])
    expected = np.std(e) * np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
    found = Bootstrap(names=["a", "b"], estimates=estimates, failed=0, block=block)
    assert list(found.standard_errors().values()) == pytest.approx(expected, rel=0.1)
    low, high = found.intervals(0.95)["a"]
    assert high - low == pytest.approx(2 * 1.96 * expected[0], rel=0.1)
    assert len(found.plot().axes) == 2


def test_correlated_residuals():
    """The error of the mean is that of far fewer independent samples: 1 + 2 rho/(1 - rho)."""
    rng = np.random.default_rng(1)
    e = lfilter([0.6], [1.0, -0.8], rng.standard_normal(4000))
    one = series(e)
    block = block_of([one])
    assert 20 < block < 100
    means = [np.mean(new_record([one], block, 1.0, rng)[0, "y"] - one.modelled) for _ in range(500)]
    assert np.std(means) == pytest.approx(np.std(e) / 4000**0.5 * 9.0**0.5, rel=0.25)


def test_channels_stay_together():
    rng = np.random.default_rng(2)
    e = rng.standard_normal(50)
    found = new_record([series(e, "a"), series(2.0 * e, "b")], 5, 1.0, rng)
    a, b = (found[0, name] - series(e).modelled for name in ("a", "b"))
    assert b == pytest.approx(2.0 * a)
