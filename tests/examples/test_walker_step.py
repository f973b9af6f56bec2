"""The step from phases against the event-driven simulation."""

import numpy as np

from kinesym.examples import walker_step as study


def test_gait_of_the_simulation():
    """Durations approach the simulated ones with order 3; what repeats, repeats."""
    expected = np.diff(study.simulated(study.GAIT).edges)
    errors = []
    for nodes in (11, 21):
        solution = study.gait(nodes, study.ROUGH["slow"])
        errors.append(np.abs(study.durations(solution) - expected).max())
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


def test_a_longer_step_needs_a_steeper_slope():
    first = study.gait(11, study.ROUGH["slow"])
    length = study.length_of(first) + 0.005
    steeper = study.step_problem(11, length).solve(guess=first)
    assert steeper.success and abs(study.length_of(steeper) - length) < 1e-9
    assert study.MACHINE["slope"] < steeper.parameters["slope"] < study.MACHINE["slope"] + 0.005
