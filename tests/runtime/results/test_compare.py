"""Comparing signals."""

import math

import numpy as np
import pytest

from kinesym.runtime.results.compare import nrmse


def test_nrmse_is_scaled_by_the_range_of_the_validated_signal():
    """Differences 1, -1, 2 of a signal with range 4: sqrt(2)/4."""
    assert nrmse([1.0, 3.0, 5.0], [0.0, 4.0, 3.0]) == pytest.approx(math.sqrt(2.0) / 4.0)
    assert nrmse([0.0, 4.0, 3.0], [1.0, 3.0, 5.0]) == pytest.approx(math.sqrt(2.0) / 4.0)
    assert nrmse([0.0, 1.0], [0.0, 2.0]) == pytest.approx(math.sqrt(0.5))
    assert nrmse([0.0, 2.0], [0.0, 1.0]) == pytest.approx(math.sqrt(0.5) / 2.0)


def test_nrmse_of_a_sine_with_an_error():
    """A sine with 1 % too much amplitude: 0.01/sqrt(2) of half its range of 2.02."""
    time = np.linspace(0.0, 2.0 * np.pi, 10001)
    found = nrmse(1.01 * np.sin(time), np.sin(time))
    assert found == pytest.approx(0.01 / math.sqrt(2.0) / 2.02, rel=1e-4)
    assert nrmse(np.sin(time), np.sin(time)) == 0.0


def test_missing_samples_do_not_count():
    nan = math.nan
    assert nrmse([1.0, 3.0, nan, 9.0], [2.0, 2.0, 7.0, nan]) == pytest.approx(0.5)


def test_a_constant_signal_has_no_range():
    with pytest.warns(UserWarning, match="the signal is constant, 2: its range") as caught:
        assert math.isnan(nrmse([2.0, 2.0], [1.0, 3.0]))
    assert caught[0].filename == __file__
    assert nrmse([1.0, 3.0], [2.0, 2.0]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "signal, reference, match",
    [
        ([1.0, 2.0], [1.0, 2.0, 3.0], r"one length are compared, got \(2,\) and \(3,\)"),
        ([[1.0, 2.0]], [[1.0, 2.0]], "one length"),
        ([1.0, math.inf], [1.0, 2.0], "the signal is infinite at index 1"),
        ([1.0, 2.0], [-math.inf, 2.0], "the reference is infinite at index 0"),
        ([1.0, math.nan], [math.nan, 2.0], "no sample in common"),
        ([], [], "no sample in common"),
    ],
)
def test_bad_signals(signal, reference, match):
    with pytest.raises(ValueError, match=match):
        nrmse(signal, reference)
