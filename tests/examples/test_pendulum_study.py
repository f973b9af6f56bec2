"""Local minima of the pendulum on the shipped record: numbers of an independent implementation."""

from pathlib import Path

import numpy as np
import pytest

from kinesym.examples import pendulum_local_minima as study

RECORD = np.genfromtxt(
    Path(__file__).parents[1] / "data" / "vyas_data.csv.gz", delimiter=",", names=True
)
TIME, THETA = RECORD["t"], RECORD["y1_m"]
MEASURED = {"theta": THETA, "omega": RECORD["y2_m"]}

#: Least squares of the simulated angle, start known, RK4 at the step of the record.
BEST, LOWEST = 10.0001505656, 0.12254969598


@pytest.fixture(scope="module")
def problem():
    return study.shooting(TIME, THETA)


def test_the_example_makes_this_record():
    time, measured = study.record()
    np.testing.assert_allclose(time, TIME, atol=1e-9)
    for name, values in MEASURED.items():
        np.testing.assert_allclose(measured[name], values, atol=1e-8)


def test_local_minima(problem):
    """61 on a uniform grid; a grid that is fine near p = 0 finds one more there."""
    p, J = study.profile(TIME, THETA)
    minima = study.local_minima(p, J, problem.cost)
    assert len(minima) == 62 and (minima[:, 0] < 0.005).sum() == 1
    k = int(np.argmin(minima[:, 1]))
    np.testing.assert_allclose(
        minima[k - 1 : k + 2, 0], [9.02742484, 10.0001505661, 11.01445979], atol=1e-6
    )
    np.testing.assert_allclose(minima[k - 1 : k + 2, 1], [12.065, LOWEST, 12.214], rtol=5e-5)
    assert minima[k, 1] == pytest.approx(LOWEST, rel=1e-9)
    slopes = [problem.gradient([x])[0] for x in minima[:, 0]]
    assert np.abs(slopes).max() < 0.05  # next to steep walls: up to 40 between the minima


@pytest.mark.parametrize("guess", study.GUESSES)
def test_from_all_guesses(problem, guess):
    """Plain shooting is caught; the ladder alone finds the lowest of all minima."""
    assert problem.solve([guess]).objective > 13.0
    fit = problem.solve([guess], "least-squares", ladder=True)
    assert fit.success
    assert fit.parameters["p"] == pytest.approx(BEST, abs=1e-8)
    assert fit.objective == pytest.approx(LOWEST, rel=1e-9)
