"""What a figure is asked for and cannot show is said in a sentence."""

import numpy as np
import pytest

import kinesym as ks


@pytest.fixture(scope="module")
def fitted():
    time = np.linspace(0.0, 2.0, 41)
    trial = ks.Experiment(time, measurements={"theta": 0.5 * np.cos(3.2 * time)})
    problem = ks.Collocation(ks.models.pendulum(), trial, unknown={"p": (1, 30)})
    return problem, problem.solve(guess={"p": 9.0})


@pytest.mark.parametrize(
    "picture",
    [
        lambda problem, solution: solution.grid_error(),
        lambda problem, solution: problem.verify(solution),
        lambda problem, solution: ks.simulate(
            problem.model, np.linspace(0.0, 1.0, 51), {"theta": 0.5, "omega": 0.0}, {"p": 10.0}
        ).error(),
    ],
)
def test_names(fitted, picture):
    made = picture(*fitted)
    assert len(made.plot("theta").axes) == len(made.plot(["theta"]).axes) == 1
    with pytest.raises(ValueError, match="no trajectory 'angle'; there are theta, omega"):
        made.plot(["angle"])


def test_trials(fitted):
    problem, solution = fitted
    for made in (solution, solution.grid_error(), problem.verify(solution)):
        with pytest.raises(ValueError, match="trial must be a number from 0 to 0, got 3"):
            made.plot(trial=3)
    with pytest.raises(ValueError, match=r"trial must be a number .*, got \['theta'\]"):
        solution.plot(["theta"])
