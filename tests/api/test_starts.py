"""The ladder, homotopies and many starts, on problems whose best answers are known."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import matplotlib as mpl
import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq

import kinesym as ks
from kinesym.examples import pendulum_local_minima as study
from kinesym.internal.fitting import attempts, ladder
from kinesym.internal.fitting.solving import fitted_as
from kinesym.internal.fitting.starts import starting_points
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.status import Solve

x, v, u = ks.dynamicsymbols("x v u")
ENDS = [ks.at_start(x), ks.at_start(v), ks.at_end(v)]


def moved(drag, end, **more):
    """A mass with quadratic drag is moved in 1 s."""
    model = ks.Model("mass", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u + drag * v**2])
    return ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 1.0, 33)),
        objective=ks.Integral(u**2),
        unknown_inputs={u: (-1e3, 1e3)},
        boundary=[*ENDS, ks.at_end(x) - end],
        **more,
    )


def climbing(solver):
    """A climb of 500 iterations."""
    return ladder.SolverClimb(500, None, solver=solver, chosen=SolverOptions({}))


@pytest.fixture(scope="module")
def dragged():
    return moved(ks.homotopy(2.0, 0.0), 1.0)


def test_a_plain_solve_is_the_actual_problem(dragged):
    assert dragged.model.values == {"homotopy": 1.0}
    assert dragged.solve().objective == pytest.approx(moved(2.0, 1.0).solve().objective, rel=1e-9)


def test_the_easy_end(dragged):
    """Without drag the least integral of u^2 over a move of 1 m in 1 s is 12 (cubic in time)."""
    easy = moved(ks.homotopy(2.0, 0.0), 1.0, known={"homotopy": 0.0}).solve()
    assert easy.objective == pytest.approx(12.0, rel=1e-6)
    assert easy["x"] == pytest.approx(3 * easy.time**2 - 2 * easy.time**3, abs=1e-6)


def test_homotopy_in_a_condition():
    """x(1) goes from 0.1 to 1; the objective is 12 x(1)^2."""
    found = moved(0.0, ks.homotopy(1.0, 0.1))
    assert found.solve().objective == pytest.approx(12.0, rel=1e-6)


def test_ladder_costs_nothing_where_plain_works(dragged):
    found = dragged.solve(ladder=True)
    assert found.success
    assert not found.ladder
    assert found.iterations == dragged.solve().iterations


def test_other_ways_where_the_first_takes_long(dragged, monkeypatch):
    """IPOPT's own scaling, then the first way again; the same solution, with the iterations of all;
    options of one's own leave that out."""
    plain = dragged.solve()
    monkeypatch.setattr(attempts, "_SOON_AIMED", 2)
    found = dragged.solve()
    assert found.success and found.objective == pytest.approx(plain.objective, rel=1e-6)
    assert "solved as IPOPT scales by itself, as the plain solve took long" in found.notes[-1]
    assert found.iterations > 2 + plain.iterations / 2
    ways = {way: {"max_iter": 1} for way in ("in one way", "in another")}
    monkeypatch.setattr(attempts.Attempts, "_ways", ways)
    found = dragged.solve()
    assert found.success and found.iterations == 4 + plain.iterations
    assert found.objective == plain.objective
    assert dragged.solve(max_iterations=1).status is Solve.ITERATION_LIMIT
    assert dragged.solve(options={"mu_strategy": "adaptive"}).iterations == plain.iterations


def test_a_linear_cost_does_not_send_the_start_away():
    """Dido's problem: the largest area under a curve of a length. The cost is linear, and the
    multiplier of the length hardly bends it at the start: with the 1e-4 that IPOPT adds to it, the
    first step is a hundred sizes long, and a thousand iterations do not come back."""
    y, u = ks.dynamicsymbols("y u")
    time = np.linspace(0, 1, 41)
    problem = ks.Collocation(
        ks.Model("dido", [y], [u], [], [y.diff(ks.t) - u]),
        ks.Experiment(time),
        objective=ks.Integral(-y),
        boundary=[ks.at_start(y), ks.at_end(y), ks.integral(sp.sqrt(1 + u**2)) - 1.2],
        unknown_inputs={u: None},
    )
    half = brentq(lambda a: np.sin(a) / a - 1.0 / 1.2, 0.1, 3.0)  # of the angle of the arc
    area = (0.6 / half) ** 2 * (half - np.sin(2.0 * half) / 2.0)
    for height, most in ((0.2, 30), (0.3, 30), (0.6, 30), (1.0, 30), (0.1, 300)):  # in another way
        found = problem.solve({y: height * np.sin(np.pi * time)})
        assert found.objective == pytest.approx(-area, rel=1e-5)
        assert found.iterations < most
    given = {"first_hessian_perturbation": 1e-4}
    lost = problem.solve({y: 0.3 * np.sin(np.pi * time)}, options=given, max_iterations=100)
    assert not lost.success


def test_each_rung_leads_to_the_solution(dragged):
    """Each on its own, as the plain solve does not fail."""
    best, z = dragged.solve().objective, dragged.pack()
    for rung in (ladder._from_coarse, ladder._by_homotopy):
        climb = climbing(fitted_as)
        found = rung(dragged.problem, z, climb)
        assert found.objective == pytest.approx(best, rel=1e-7)
        assert climb.left < 500
        assert len(climb.lines) > 2


def test_a_guess_that_turns_too_often():
    """A pendulum whose guess goes around is swung up once the trajectories of the guess are left
    out, with its duration kept: as from no guess."""
    angle, rate, torque = ks.dynamicsymbols("angle rate torque")
    swing = [angle.diff(ks.t) - rate, rate.diff(ks.t) - torque + 9.81 * sp.sin(angle)]
    problem = ks.Collocation(
        ks.Model("pendulum", [angle, rate], [torque], [], swing),
        ks.Experiment(nodes=81, duration=(1.0, 2.0)),
        objective=ks.Integral(torque**2),
        unknown_inputs={torque: (-8, 8)},
        boundary=[ks.at_start(angle), ks.at_start(rate), ks.at_end(angle) - sp.pi, ks.at_end(rate)],
        scheme="midpoint",
    )
    around = {angle: np.linspace(0.0, 30.0, 81), rate: 15.0, "duration": 2.0}
    assert not problem.solve(around, ladder=False, max_iterations=500).success
    found = problem.solve(around, ladder=True, max_iterations=500)
    assert found.success and "from what is measured" in found.notes[-1]
    np.testing.assert_allclose(found.objective, problem.solve({"duration": 2.0}).objective, 1e-6)


def test_ctrl_c_on_a_rung_ends_the_climb(dragged):
    """The best so far is returned, here that of the plain solve, with the lines of the rungs."""

    def interrupted(*given):
        return replace(fitted_as(*given), status=Solve.INTERRUPTED)

    plain = dragged.solve(max_iterations=1)
    climb = climbing(interrupted)
    found = ladder.climbed(dragged.problem, dragged.pack(), plain, climb)
    np.testing.assert_array_equal(found.free_vector, plain.free_vector)
    assert climb.interrupted
    assert len(found.ladder) == 2
    assert "interrupted" in found.ladder[1]


def test_what_has_no_solution_says_so_on_every_rung():
    """x'' = u with |u| <= 1 moves 1/4 m in 1 s from rest to rest, at most."""
    model = ks.Model("mass", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
    problem = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 1.0, 33)),
        objective=ks.Integral(u**2),
        unknown_inputs={u: (-1.0, 1.0)},
        boundary=[*ENDS, ks.at_end(x) - ks.homotopy(1.0, 0.5)],
    )
    lost = problem.solve(ladder=True)
    assert not lost.success
    assert lost.ladder[0].startswith("as it is: infeasible")
    assert "cannot leave its start" in lost.ladder[-1]
    assert problem.solve(ladder=False).ladder == ()
    assert problem.solve(ladder=True, budget=1).ladder[-1] == "the budget of iterations is spent"
    late = problem.solve(ladder=True, seconds=1e-6)
    assert late.status == "time limit" and late.ladder[-1] == "the budget of seconds is spent"
    assert problem.solve(seconds=1e-6).status == "time limit"


def test_seconds_of_all_grids():
    """A solve in time is the same; one that is late keeps the best grid that it has."""
    problem = moved(0.0, 1.0, scheme="midpoint")
    full, inside = (problem.solve(tolerance_grid=1e-4, seconds=s) for s in (None, 600.0))
    assert full.success and inside.objective == full.objective
    late = problem.solve(tolerance_grid=1e-12, seconds=0.5)
    assert late.success and 0.0 < late.grid_error().largest < problem.solve().grid_error().largest


def test_the_pendulum_from_all_guesses():
    """62 minima of the cost of a simulation; the ladder finds the one that is lowest."""
    time, measured = study.record(1000, 5)
    problem = study.shooting(time, measured["theta"])
    best = problem.solve({"p": study.TRUE}).parameters["p"]
    for guess in study.GUESSES:
        fit = problem.solve({"p": guess}, ladder=True)
        assert fit.parameters["p"] == pytest.approx(best, abs=1e-8)
        assert "found by the ladder" in fit.notes[-1]


def test_ladder_of_shooting_needs_measurements():
    time, measured = study.record(100)
    problem = study.shooting(time, measured["theta"], segments=2)
    with pytest.raises(ValueError, match="in one segment"):
        problem.solve({"p": 9.0}, optimizer="ipopt", ladder=True)


# -- many starts -----------------------------------------------------------------------------------

a, b, c = sp.symbols("a b c")


@pytest.fixture(scope="module")
def two_decays():
    """2 exp(-t) + exp(-5 t) with noise: exchanged rates are a second optimum."""
    y = ks.dynamicsymbols("y")
    rates = [x.diff(ks.t) + a * x, y.diff(ks.t) + b * y]
    model = ks.Model("decays", [x, y], [], [a, b, c], rates, outputs={"s": c * x + y})
    time = np.linspace(0.0, 3.0, 61)
    noise = 0.02 * np.random.default_rng(0).standard_normal(61)
    samples = 2.0 * np.exp(-time) + np.exp(-5.0 * time) + noise
    return ks.Collocation(
        model,
        ks.Experiment(time, measurements={"s": samples}),
        unknown={a: (0.05, 50.0), b: (0.05, 50.0), c: (0.1, 10.0)},
        boundary=[ks.at_start(x) - 1.0, ks.at_start(y) - 1.0],
    )


@pytest.fixture(scope="module")
def found(two_decays):
    return two_decays.multistart(12, seed=2, keep=3)


def test_optima_of_many_starts(found):
    assert len(found) == 12
    assert found.best.parameters["a"] == pytest.approx(1.0, abs=0.05)
    assert found.best.parameters["b"] == pytest.approx(5.0, abs=0.5)
    assert sum(len(rows) for rows in found.clusters()) == np.isfinite(found.objective).sum()
    assert (np.diff(found.objective[np.isfinite(found.objective)]) >= 0.0).all()
    assert len(found.solutions) == 3
    assert f"was found by {len(found.clusters()[0])} of 12" in repr(found)
    low, high = found.starts.min(axis=0), found.starts.max(axis=0)
    assert (low >= [0.05, 0.05, 0.1]).all()
    assert (high <= [50.0, 50.0, 10.0]).all()
    assert (found.starts[:, 0] < 1.6).sum() > 3  # half of a logarithmic scale


def test_the_same_seed_gives_the_same(two_decays, found):
    again = two_decays.multistart(12, seed=2, keep=3)
    np.testing.assert_array_equal(again.ends, found.ends)
    with ThreadPoolExecutor(5) as pool:
        threads = two_decays.multistart(12, seed=2, keep=3, executor=pool)
    np.testing.assert_array_equal(threads.ends, found.ends)
    assert not np.array_equal(two_decays.multistart(3, seed=3).starts[1:], found.starts[1:3])


def test_many_threads_at_once(two_decays):
    """Solves share the library, the layout and IPOPT; those of MUMPS too."""
    guesses = [{"a": a, "b": b} for a in (0.2, 1.0, 5.0) for b in (0.2, 1.0, 5.0)]

    def solved(guess, solver):
        return two_decays.solve(guess=guess, max_iterations=100, linear_solver=solver)

    for solver in ("auto", "mumps"):
        alone = [solved(guess, solver).free_vector for guess in guesses]
        with ThreadPoolExecutor(9) as pool:
            for _ in range(3):
                together = list(pool.map(partial(solved, solver=solver), guesses))
                for a, b in zip(alone, together, strict=True):
                    np.testing.assert_array_equal(a, b.free_vector)


def test_ctrl_c_keeps_the_starts_that_have_ended(two_decays):
    """The third start raises it."""
    count = iter(range(100))

    class Interrupting(ThreadPoolExecutor):
        def submit(self, function, /, *args):
            if next(count) == 3:
                raise KeyboardInterrupt
            future = super().submit(function, *args)
            wait([future])
            return future

    with Interrupting(1) as pool:
        few = two_decays.multistart(12, seed=2, executor=pool)
    assert len(few) == 3 and few.planned == 12
    assert "3 of 12 starts" in repr(few)


def test_many_starts_are_saved(found, tmp_path):
    found.save(tmp_path / "starts.nc")
    again = ks.MultiStart.load(tmp_path / "starts.nc")
    np.testing.assert_array_equal(again.ends, found.ends)
    assert str(again) == str(found)
    assert again.status == found.status
    np.testing.assert_array_equal(again.best["x"], found.best["x"])


def test_pictures_of_many_starts(found):
    mpl.use("Agg")
    points = sum(len(line.get_xdata()) for line in found.plot_waterfall().axes[0].lines)
    assert points == np.isfinite(found.objective).sum()
    assert len(found.plot_parameters().axes[0].lines) == len(found.clusters())
    assert found.distances().shape == (12,)


def test_detours_of_trajectories(dragged):
    """Without parameters only trajectories differ; a convex problem has one optimum."""
    assert len(dragged.multistart(5, seed=4).clusters()) == 1
    points = list(starting_points(dragged.problem, None, np.zeros((2, 0)), [], 0.5, 4))
    assert not np.allclose(*points)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"starts": 0}, "starts"),
        ({"ranges": {"a": (2.0, 1.0)}}, "parameter a is drawn between 2 and 1"),
        ({"ranges": {"z": (1.0, 2.0)}}, "ranges: z is unknown"),
        ({"guess": {"a": np.nan}}, "a"),
        ({"guess": {"x": np.zeros(7)}}, "x has shape"),
        ({"keep": 0}, "keep"),
        ({"executor": 4}, "executor must have a method submit, got 4"),
    ],
)
def test_bad_input(two_decays, arguments, words):
    with pytest.raises(ValueError, match=words):
        two_decays.multistart(**arguments)


def test_bad_budgets(dragged):
    with pytest.raises(ValueError, match="budget"):
        dragged.solve(ladder=True, budget=0)
    for seconds in (0.0, -1.0, np.nan, "1 s"):
        with pytest.raises(ValueError, match="seconds"):
            dragged.solve(seconds=seconds)
    with pytest.raises(ValueError, match="actual of"):
        ks.homotopy("much", 0)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_processes_solve_as_threads_do(two_decays, context):
    here = two_decays.multistart(8, seed=2)
    with ProcessPoolExecutor(2, mp_context=get_context(context)) as pool:
        there = two_decays.multistart(8, seed=2, executor=pool)
    assert str(there) == str(here)
    np.testing.assert_array_equal(there.best.free_vector, here.best.free_vector)


def test_what_many_starts_find_can_be_asked():
    """Profiles and bands of the best one, as those of a single solve."""
    k, time = sp.Symbol("k"), np.linspace(0.0, 2.0, 21)
    model = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x])
    noise = 0.01 * np.random.default_rng(0).standard_normal(21)
    trial = ks.Experiment(time, measurements={x: np.exp(-time) + noise})
    problem = ks.Collocation(model, trial, {k: (0.0, 5.0)})
    alone, best = problem.solve({k: 2.0}), problem.multistart(2, guess={k: 2.0}).best
    assert best.profile("k").high == pytest.approx(alone.profile("k").high, rel=1e-4)
    assert best.bands()["x"] == pytest.approx(alone.bands()["x"], rel=1e-3)
    apart = ks.Shooting(model, trial, {k: (0.0, 5.0)}, initial={x: None}, segments=2)
    best = apart.multistart(2, guess={k: 2.0}).best
    assert best.bands()["x"] == pytest.approx(alone.bands()["x"], rel=1e-2)
