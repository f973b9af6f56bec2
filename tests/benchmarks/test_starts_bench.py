"""Random starts of published problems and identifications, and the same problems by peers."""

from types import SimpleNamespace

import numpy as np
import published
import pytest
import starts
from peers import by_opty


def test_shares_of_starts_and_of_groups():
    """Two of twenty: a group of ten has neither of them with probability 10/20 * 9/19."""
    objectives = np.array([1.0, 1.0 + 5e-6, *[2.0] * 17, np.nan])
    found = starts.share(starts.Ends(objectives, np.ones(20)), 1.0)
    assert found[:3] == (0.1, 0.95, 1.0)
    assert found.group == pytest.approx(1 - 10 / 20 * 9 / 19)


@pytest.mark.parametrize("name", ["pendulum_50s", "quiet_standing", "soleus"])
def test_identifications_from_a_random_start(name):
    """From the second start as from what is true; starts differ, and are where they are said."""
    about = starts.stated(name, 0)
    problem = about.posed(threads=1)
    begins = starts.points(problem, about, 3)
    for z in begins:
        for key, value in problem.problem.parameters(z).items():
            assert 0.0999 < value / about.parameters[key][0] < 10.001
    plain = starts.CONTENDERS["plain"](problem, begins[0], "")
    best = plain(problem.pack(about.guess))
    assert min(map(plain, begins[1:])) == pytest.approx(best, rel=starts.NEAR)


@pytest.mark.parametrize("name", ["swing_up", "brachistochrone", "lynx_and_hare", "gas_oil"])
def test_variables_of_opty(name):
    """Back and forth; inputs of the midpoint rule are means of neighbours."""
    problem = published.PROBLEMS[name](21).posed()
    model, layout, nodes = problem.model, problem.layout, len(problem.trials[0].grid)
    free = (len(model.states) + len(layout.inputs)) * nodes
    collocator = SimpleNamespace(
        state_symbols=model.states,
        unknown_input_trajectories=model.inputs,
        unknown_parameters=sorted(model.parameters, key=str, reverse=True),
        num_free=free + len(layout.parameters) + layout.free_duration,
    )
    variables = by_opty.Variables(problem, collocator)
    z = problem.pack(published.PROBLEMS[name](21).guess)
    again = variables.matrix @ variables.of(z)
    np.testing.assert_allclose(again, z, atol=1e-12)
    steps = "steps of different lengths" if name == "gas_oil" else ""
    assert by_opty.opty_lacks(problem) == steps


@pytest.mark.parametrize(("name", "lacks"), [("robot_arm", "scheme"), ("reaction_time", "delays")])
def test_what_opty_lacks(name, lacks):
    assert lacks in by_opty.opty_lacks(starts.stated(name, 21).posed())


def test_the_same_by_casadi(tmp_path):
    """Its functions are compared with ours when it is made; then the optimum, and a refusal."""
    pytest.importorskip("casadi")
    about = starts.stated("lynx_and_hare", 41)
    problem = about.posed()
    z = problem.pack(about.guess)
    best = problem.solve(z).objective
    assert starts.CONTENDERS["casadi"](problem, z, str(tmp_path))(z) == pytest.approx(
        best, rel=1e-6
    )
    delayed = starts.stated("reaction_time", 0).posed()
    with pytest.raises(ValueError, match="delays"):
        starts.CONTENDERS["casadi"](delayed, delayed.pack(), str(tmp_path))


@pytest.mark.study
def test_a_swing_up_whose_duration_leads_nowhere():
    """Neither the trajectories of this start nor coarse grids lead to a solution, nor does the
    duration of the guess, 5 s, but that of the first guess does."""
    about = starts.stated("swing_up", 501)
    problem = about.posed(threads=1)
    begin = starts.points(problem, about, 4)[3]
    solution = problem.solve(begin, ladder=True)
    assert solution.success
    assert any("trajectories and durations of the guess" in note for note in solution.notes)
