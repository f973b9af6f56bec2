"""The step from phases against the event-driven simulation."""

import numpy as np
import pytest

from kinesym.examples import walker_step as study


@pytest.fixture(scope="module")
def coarse():
    """The slow gait with eleven nodes a phase."""
    return study.gait(11, study.ROUGH["slow"])


@pytest.fixture(scope="module")
def reference():
    return study.simulated(study.GAIT)


@pytest.mark.study
def test_gait_of_the_simulation(coarse, reference):
    """Durations approach the simulated ones with order 3; what repeats, repeats."""
    expected = np.diff(reference.edges)
    solution = study.gait(21, study.ROUGH["slow"])
    errors = [np.abs(study.durations(each) - expected).max() for each in (coarse, solution)]
    assert errors[1] < 4e-5 and 6.0 < errors[0] / errors[1] < 12.0
    first, last = solution.trials[0], solution.trials[-1]
    np.testing.assert_allclose(first["Rleg_wy"][0], last["Lleg_wy"][-1], atol=1e-8)
    np.testing.assert_allclose(first["Lleg_wy"][0], study.GAIT["Lleg_wy"], rtol=0.01)
    assert (
        min(
            trial[f"{name}_normal"].min()
            for trial in solution.trials
            for name in (*study.RIGHT, *study.LEFT)
        )
        > -1e-6
    )
    before, after = solution.trials[0], solution.trials[1]  # an impact takes energy, moves nothing
    np.testing.assert_allclose(before["hip_pz"][-1], after["hip_pz"][0], atol=1e-9)
    assert after["kinetic_energy"][0] < before["kinetic_energy"][-1] - 0.1


def test_a_longer_step_needs_a_steeper_slope(coarse):
    length = study.length_of(coarse) + 0.005
    steeper = study.step_problem(11, length).solve(guess=coarse)
    assert steeper.success and abs(study.length_of(steeper) - length) < 1e-9
    assert study.MACHINE["slope"] < steeper.parameters["slope"] < study.MACHINE["slope"] + 0.005


def test_picture(coarse, reference, tmp_path):
    """Of a gait beside its simulation, and of a family of two."""
    here = [study.length_of(coarse), study.MACHINE["slope"], 0.9]
    gaits = {name: np.transpose([here, here]) for name in ("slow", "fast")}
    study.figure(coarse, reference, gaits).savefig(tmp_path / "step.png")
    assert (tmp_path / "step.png").stat().st_size > 10_000
