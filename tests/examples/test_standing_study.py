"""The standing study over five noise seeds: what biases the gains and what does not."""

import numpy as np
import pytest

from kinesym.examples.standing import GAINS, STATES, STD, add_noise, identify, simulate
from kinesym.examples.standing_noise import study


@pytest.fixture(scope="module")
def results():
    return study(range(3))


def test_true_acceleration_is_unbiased(results):
    """Means lie within the spread from seed to seed, but for the midpoint bias of k_10."""
    errors = results[0]["true"]
    mean, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1)
    others = [k for k in range(8) if GAINS[k] != "k_10"]
    assert (np.abs(mean) <= spread)[others].all(), (mean, spread)


def test_noisy_acceleration_biases_and_estimating_it_helps(results):
    """Errors in variables: noise taken as exact input costs more than it must."""
    errors, free = results
    bias = {k: np.linalg.norm(e.mean(axis=0) - free[k]) for k, e in errors.items()}
    size = {k: np.sqrt(np.mean((e - free[k]) ** 2)) for k, e in errors.items()}
    assert bias["estimated"] < 0.3 * bias["noisy"]
    assert size["true"] < size["estimated"] < 0.75 * size["noisy"]


def test_residuals_show_the_errors_in_variables():
    """With the noisy input the states miss their samples by more than the measurement noise."""
    time, clean = simulate()
    noisy = add_noise(clean, seed=0)
    for name in STATES[:2]:
        exact = np.std(identify(time, noisy)[name] - noisy[name])
        joint = np.std(identify(time, noisy, acceleration="unknown")[name] - noisy[name])
        assert exact > 1.5 * STD[name]
        assert joint == pytest.approx(STD[name], rel=0.05)


def test_more_nodes_are_more_accurate():
    """Noise-free data: the error of the midpoint rule falls with the square of the step."""
    time, clean = simulate()
    worst = []
    for every in (4, 2, 1):
        fit = identify(time[::every], {k: v[::every] for k, v in clean.items()})
        true = np.array([950.0, 175.0, 185.0, 50.0, 45.0, 290.0, 60.0, 26.0])
        worst.append(np.abs([fit.parameters[k] for k in GAINS] / true - 1.0).max())
    assert worst[0] > 3.0 * worst[1] > 9.0 * worst[2]
    assert worst[2] < 0.05
