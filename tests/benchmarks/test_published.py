"""Published problems reach their published optima; finer grids, the optima of the continuum."""

import counts
import numpy as np
import published
import pytest
from peers.stages import Stages, fatrop_of
from published import catenary, cycloid


@pytest.mark.parametrize("name", published.PROBLEMS)
def test_optimum(name):
    """With the default nodes, which are those of the source where it used the same scheme, and with
    no more iterations, factorisations and operations than in the record."""
    outcome = published.solve(name)
    assert outcome.solution.success, outcome.solution.message
    value, tolerance = outcome.published.value, outcome.published.tolerance
    if value is not None:
        assert outcome.solution.objective == pytest.approx(value, rel=tolerance)
    for parameter, (expected, within) in outcome.published.parameters.items():
        assert outcome.solution.parameters[parameter] == pytest.approx(expected, abs=within)
    assert outcome.met
    took = counts.counts(name, outcome.published.problem, outcome.solution)
    assert not list(counts.grown(took, counts.kept()[name]))


@pytest.mark.parametrize(
    ("name", "nodes", "exact", "order"),
    [
        ("brachistochrone", 51, cycloid(2.0, 2.0, 9.8), 2),
        ("bryson_denham", 61, 4.0, 2),
        ("brachistochrone_on_a_curve", 401, 1.7903211, 1),
    ],
)
def test_order_towards_the_limit(name, nodes, exact, order):
    """Half the step, 2^order times less error.

    The last problem forbids the upward end of the cycloid; its limit was found with Radau IIA of
    order 5 (CasADi).
    """
    coarse, fine = (
        published.solve(name, n).solution.objective - exact for n in (nodes, 2 * nodes - 1)
    )
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize(
    ("name", "limit", "tolerance"),
    [("hanging_chain", catenary(4.0, 1.0, 3.0), 1e-5), ("robot_arm", 9.140933, 5e-6)],
)
def test_fine_grid(name, limit, tolerance):
    """801 nodes are nearer to the limit than those of the source: closed form, or Radau IIA.

    Inputs that switch between nodes, and a free input at the last one, keep these from order 2.
    """
    outcome = published.solve(name, 801)
    assert outcome.solution.objective == pytest.approx(limit, rel=tolerance)
    assert abs(outcome.solution.objective - limit) < 0.2 * abs(outcome.published.value - limit)


def test_glider_on_a_fine_grid():
    """101 nodes promise 7 m more range than there is; limit by Radau IIA.

    MUMPS would permute zeros away from the diagonal first, and take 30 s.
    """
    case = published.PROBLEMS["hang_glider"](401)
    solution = case.problem.solve(case.guess, options={"mumps_permuting_scaling": 0})
    assert solution.objective == pytest.approx(-1247.9873, rel=2e-5)


def test_report(capsys):
    assert published.main(["particle_steering", "gas_oil"]) == 0
    printed = capsys.readouterr().out
    assert "0.554577" in printed and "p3" in printed and "MISSED" not in printed


def test_report_of_a_miss(capsys):
    """Eleven nodes are too few for the published digits."""
    assert published.main(["hanging_chain", "--nodes", "11"]) == 1
    assert "MISSED" in capsys.readouterr().out


def test_unknown_problem(capsys):
    with pytest.raises(SystemExit):
        published.main(["rolling_stone"])
    assert "there is no problem rolling_stone; there are" in capsys.readouterr().err


def test_origin_of_data():
    """Every file of measurements has its line in the README beside it."""
    readme = (published.DATA / "README.md").read_text()
    assert all(f"`{path.name}`" in readme for path in published.DATA.glob("*.csv"))


def test_stages_for_fatrop():
    """Each entry of z has one place of its own; copies are equal to what they are copies of."""
    problem = published.particle_steering(21).problem
    stages, z = Stages(problem), np.arange(problem.n_variables)
    assert np.all(stages.source[stages.own] == z)
    assert {*stages.source} == {*z} and stages.states == stages.of_node + 1  # the duration
    controls = stages.table.shape[1] - stages.states
    assert len(stages.source) == 21 * stages.states + 20 * controls


@pytest.mark.parametrize("name", ["particle_steering", "bryson_denham"])
def test_the_same_by_fatrop(name, tmp_path):
    """Inputs at nodes and a free duration; inputs of intervals."""
    if not pytest.importorskip("casadi").has_nlpsol("fatrop"):
        pytest.skip("this CasADi has no fatrop")
    made = published.PROBLEMS[name](21)
    z = made.problem.pack(made.guess)
    solve = fatrop_of(made.problem, z, {}, str(tmp_path)).solve
    found, ours = solve(z), made.problem.solve(made.guess, tolerance=1e-8, progress=False)
    assert not found.failure and found.objective == pytest.approx(ours.objective, rel=1e-6)
