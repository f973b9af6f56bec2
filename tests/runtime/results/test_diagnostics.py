"""What residuals say, on series whose properties are known."""

import numpy as np
import pytest
from scipy.signal import lfilter

from kinesym.runtime.results.diagnostics import diagnostics, explained
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.statistics.residuals import autocorrelation, cross_correlation, ljung_box


def trial(e, std=1.0, u=None, unit=1.0):
    """A trial whose model is a sine and whose residuals are e."""
    t = np.arange(len(e)) * 0.01
    model = 5.0 * np.sin(t)
    return Trajectory(
        t,
        {"x": unit * model},
        {} if u is None else {"u": u},
        {},
        {},
        measurements={"x": unit * (model + e)},
        std={"x": np.full(len(e), unit * std)},
    )


def check(*runs):
    return diagnostics(runs)


@pytest.mark.parametrize("std", [1e-3, 0.1, 30.0])
@pytest.mark.parametrize("samples", [8, 400])
@pytest.mark.parametrize("pole", [0.0, 0.9])
def test_whether_all_is_explained_needs_no_other_tests(std, samples, pole):
    noise = np.random.default_rng(samples).standard_normal((2, samples))
    runs = [trial(std * lfilter([1.0], [1.0, -pole], e)) for e in noise]
    assert explained(runs) == all(c.explained for c in check(*runs).checks)
    assert explained([trial(np.zeros(samples))])


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_white_residuals(unit):
    found = check(trial(np.random.default_rng(0).standard_normal(500), unit=unit))
    assert str(found) == "the residuals are as they should be"
    [c] = found.checks
    assert c.rms == pytest.approx(unit, rel=0.1) and not c.autocorrelated


def test_how_often_white_residuals_are_suspected():
    """The probabilities are uniform: a tenth is below 0.1."""
    rng = np.random.default_rng(3)
    checks = [check(trial(rng.standard_normal(200))).checks[0] for _ in range(400)]
    assert np.mean([c.white < 0.1 for c in checks]) == pytest.approx(0.1, abs=0.04)


def test_correlated_residuals():
    e = lfilter([0.6], [1.0, -0.8], np.random.default_rng(1).standard_normal(600))
    found = check(trial(e))
    assert found.checks[0].lag == 1
    assert found.checks[0].correlation == pytest.approx(0.8, abs=0.08)
    assert "residuals of x are not white: lag 1, rho 0." in str(found)


def test_an_input_that_is_left_out():
    rng = np.random.default_rng(4)
    u = lfilter([1.0], [1.0, -0.9], rng.standard_normal(500))
    e = rng.standard_normal(500)
    e[3:] += 0.5 * u[:-3]
    found = check(trial(e / np.std(e), u=u))
    assert found.checks[0].input_lag == 3
    assert "follow the input u: lag 3" in str(found)


def test_how_often_coloured_inputs_are_blamed():
    rng, blamed = np.random.default_rng(5), 0
    for _ in range(200):
        u, e = (lfilter([1.0], [1.0, -0.9], rng.standard_normal(400)) for _ in range(2))
        blamed += cross_correlation(e, u, 40)[2] < 0.01
    assert blamed <= 8


def test_outliers():
    e = np.random.default_rng(6).standard_normal(400)
    e[[50, 200]] = 15.0, -12.0
    found = check(trial(e), trial(np.random.default_rng(7).standard_normal(400)))
    assert list(found.checks[0].outliers) == [50, 200]
    assert "2 outliers in x at t = 0.5 s, 2 s" in str(found)
    assert not found.checks[1].outliers


def test_missing_samples_and_short_records():
    run = trial(np.random.default_rng(8).standard_normal(12))
    run.measurements["x"][3] = np.nan
    [c] = check(run).checks
    assert c.samples == 11 and np.isnan(c.white) and not c.outliers


def test_a_model_without_error():
    [c] = check(trial(np.zeros(100))).checks
    assert c.rms == 0.0 and np.isnan(c.white)


def test_known_numbers():
    """By hand: e = (1, 2, 0, -3), mean 0; rho_1 = (2 + 0 + 0)/14."""
    e = np.array([1.0, 2.0, 0.0, -3.0])
    assert autocorrelation(e, 1) == pytest.approx([2.0 / 14.0])
    from scipy.stats import chi2

    rho = autocorrelation(e, 1)
    assert ljung_box(rho, len(e)) == pytest.approx(chi2.sf(4 * 6 * (2 / 14) ** 2 / 3, 1))


def test_table_and_picture():
    e = np.random.default_rng(9).standard_normal(100)
    found = check(trial(e), trial(e))
    assert list(found.to_pandas()["trial"]) == [0, 1]
    assert len(found.rows()[0]) == len(found.HEAD)
    assert len(found.plot(1).axes) == 3
    with pytest.raises(ValueError, match="nothing is measured in trial 2"):
        found.plot(2)
