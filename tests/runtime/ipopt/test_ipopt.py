"""Drivers and linear solvers inside IPOPT, on small problems of each kind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.internal.fitting.certificate import told
from kinesym.runtime.ipopt import library as ipopt_library
from kinesym.runtime.ipopt import linear_solver
from kinesym.runtime.ipopt.blas import Blas, blas_of
from kinesym.runtime.ipopt.linear_solver import available
from kinesym.runtime.native import KKT_LIBRARY, Factorisation, trial
from kinesym.runtime.native._kkt import close_session, forget, kept, open_session

t = ks.t
x, v, u = ks.dynamicsymbols("x v u")
k = sp.Symbol("k")

OWN, MUMPS = "time-structured", "mumps"
DRIVERS = ("direct", "cyipopt")
GRID = np.linspace(0.0, 1.0, 31)

cart = ks.Model("cart", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u])
pendulum = ks.Model(
    "swing", [x, v], [u], [k], [x.diff(t) - v, v.diff(t) + k * sp.sin(x) - u], values={k: 9.81}
)


# -- problems ---------------------------------------------------------------------------------


def from_rest(end):
    return [ks.at_start(x), ks.at_start(v), ks.at_end(x) - end, ks.at_end(v)]


def record(start, nodes):
    """A pendulum let go, with an error that no parameter explains."""
    time = np.linspace(0.0, nodes / 20.0, nodes)
    run = ks.simulate(pendulum, time, {x: start, v: 0.0}, {k: 9.81}, {u: 0.0 * time}, substeps=4)
    samples = run["x"] + 0.05 * np.sin(37.0 * time)
    return ks.Experiment(time, inputs={u: 0.0 * time}, measurements={x: samples})


def identification(unknown=(0.1, 100.0)):
    return ks.Collocation(pendulum, record(1.0, 61), unknown={k: unknown}, scheme="midpoint")


def several_trials():
    trials = [record(start, nodes) for start, nodes in ((1.0, 41), (-0.5, 61), (2.0, 21))]
    return ks.Collocation(pendulum, trials, unknown={k: (0.1, 100.0)})


def swing_up(limit=6.0, nodes=51, **more):
    return ks.Collocation(
        pendulum,
        ks.Experiment(np.linspace(0.0, 2.5, nodes)),
        objective=ks.Integral(u**2),
        unknown_inputs={u: (-limit, limit)},
        boundary=from_rest(sp.pi),
        **more,
    )


def path_conditions():
    """Bryson and Denham: out and back, stopped by a wall at 1/9; and another, never active."""
    ends = [ks.at_start(x), ks.at_start(v) - 1, ks.at_end(x), ks.at_end(v) + 1]
    return ks.Collocation(
        cart,
        ks.Experiment(GRID),
        objective=ks.Integral(u**2),
        boundary=ends,
        unknown_inputs={u: None},
        path=[(x, None, 1 / 9), (x + v, -5, 5)],
        scheme="midpoint",
    )


def free_duration():
    return ks.Collocation(
        pendulum,
        ks.Experiment(nodes=31, duration=(0.2, 10.0)),
        objective=ks.Terminal(t),
        unknown_inputs={u: (-12, 12)},
        boundary=from_rest(sp.pi),
        scheme="midpoint",
    )


def rest_to_rest(limit=20.0, more=(), nodes=31, **others):
    return ks.Collocation(
        cart,
        ks.Experiment(np.linspace(0.0, 1.0, nodes)),
        objective=ks.Integral(u**2),
        unknown_inputs={u: (-limit, limit)},
        boundary=[*from_rest(1), *more],
        scheme="midpoint",
        **others,
    )


CONVERGED = "converged"
#: Problem, guess, status. Those in LONG take so many iterations that rounding may part them.
PROBLEMS = {
    "identification": (identification, {k: 3.0}, CONVERGED),
    "several trials": (several_trials, {k: 3.0}, CONVERGED),
    "bounded": (rest_to_rest, None, CONVERGED),
    "path conditions": (path_conditions, None, CONVERGED),
    "free duration": (free_duration, None, CONVERGED),
    "swing-up": (swing_up, None, CONVERGED),
    "infeasible": (lambda: rest_to_rest(0.5), None, "infeasible"),
    "dependent": (
        lambda: rest_to_rest(more=[2 * ks.at_start(x), ks.at_end(x) + ks.at_start(v) - 1]),
        None,
        CONVERGED,
    ),
    "restoration": (
        lambda: swing_up(8.0, 41, path=[(x**2 + v**2 / 9, 0, 20)]),
        {x: 5.0 * np.cos(np.linspace(0.0, 80.0, 41)), u: -5.0},
        CONVERGED,
    ),
}
LONG = {"swing-up", "restoration", "infeasible", "free duration"}


@cache
def made(name):
    return PROBLEMS[name][0]()


def solve(name, **settings):
    return made(name).solve(PROBLEMS[name][1], **settings)


def numbers(solution):
    return np.array([[i.number, i.objective, i.infeasibility] for i in solution.history])


def restored(solution):
    """Number of iterations in the restoration phase, from IPOPT's log."""
    return len(re.findall(r"^ *\d+r ", solution.log, flags=re.MULTILINE))


@pytest.fixture(autouse=True)
def no_kept_analysis():
    forget()


# -- agreement --------------------------------------------------------------------------------


@pytest.mark.parametrize("linear", [OWN, MUMPS])
@pytest.mark.parametrize("name", PROBLEMS)
def test_drivers_give_the_same_iterates(name, linear):
    """Objective and infeasibility of every iteration; the callbacks are the same code."""
    pytest.importorskip("cyipopt")
    one, two = (solve(name, linear_solver=linear, driver=driver) for driver in DRIVERS)
    assert one.status == two.status == PROBLEMS[name][2]
    np.testing.assert_allclose(numbers(one), numbers(two), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(one.free_vector, two.free_vector, rtol=1e-9, atol=1e-10)
    assert one.message == two.message


@pytest.mark.parametrize("name", PROBLEMS)
def test_linear_solvers_agree(name):
    """The same number of iterations (unless there are many) and the same end."""
    own, mumps = (solve(name, linear_solver=linear) for linear in (OWN, MUMPS))
    assert own.linear_solver.startswith(OWN) and mumps.linear_solver == MUMPS
    assert own.status == mumps.status == PROBLEMS[name][2]
    assert own.objective == pytest.approx(mumps.objective, rel=1e-8)
    if name not in LONG:
        assert own.iterations == mumps.iterations


def test_restoration_happens():
    """What the problem is there for."""
    for linear in (OWN, MUMPS):
        assert restored(solve("restoration", linear_solver=linear)) > 10


def test_restoration_at_once():
    """IPOPT begins in the restoration phase, whose own systems have the same structure."""
    for linear in (OWN, MUMPS):
        solution = solve(
            "path conditions", linear_solver=linear, options={"start_with_resto": "yes"}
        )
        assert solution.success and restored(solution) > 0
        assert solution.objective == pytest.approx(solve("path conditions").objective, rel=1e-7)


@pytest.mark.parametrize("linear", [OWN, MUMPS])
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", ["identification", "path conditions", "bounded"])
def test_limited_memory(name, driver, linear):
    """The Hessian is a diagonal and vectors: systems with many right-hand sides."""
    exact = solve(name, linear_solver=linear)
    solution = solve(name, linear_solver=linear, hessian="limited-memory", driver=driver)
    assert solution.success and solution.linear_solver.startswith(linear)
    assert solution.objective == pytest.approx(exact.objective, rel=1e-6)


def test_fixed_variables():
    """A parameter between equal bounds is a constant; also where IPOPT keeps it as a variable."""
    free = identification((9.0, 9.0))
    known = ks.Collocation(pendulum, record(1.0, 61), known={k: 9.0}, scheme="midpoint").solve()
    for linear in (OWN, MUMPS):
        for treatment in ("make_parameter", "make_constraint", "relax_bounds"):
            solution = free.solve(
                linear_solver=linear, options={"fixed_variable_treatment": treatment}
            )
            assert solution.success and solution.linear_solver.startswith(linear)
            assert solution.parameters["k"] == pytest.approx(9.0, rel=1e-6)
            assert solution.objective == pytest.approx(known.objective, rel=1e-6)


@pytest.mark.parametrize("linear", [OWN, MUMPS])
@pytest.mark.parametrize("driver", DRIVERS)
def test_warm_start(linear, driver):
    """From a solution, with its multipliers, nearly nothing is left to do; also from a file."""
    for name in ("identification", "path conditions", "free duration"):
        cold = solve(name, linear_solver=linear, driver=driver)
        warm = made(name).solve(cold, linear_solver=linear, driver=driver)
        assert warm.success and warm.iterations <= 4 < cold.iterations
        assert warm.objective == pytest.approx(cold.objective, rel=1e-7)


def test_all_available_linear_solvers():
    """Each name that is offered solves."""
    names = available()
    assert OWN in names and MUMPS in names
    expected = solve("path conditions").objective
    for name in names:
        solution = solve("path conditions", linear_solver=name)
        assert solution.success and solution.linear_solver.startswith(name)
        assert solution.objective == pytest.approx(expected, rel=1e-8)


# -- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
def test_options(driver):
    """Strings, whole numbers, and whole numbers that are meant as real ones."""
    accepted = {"mu_strategy": "adaptive", "max_iter": 2, "tol": 1, "print_level": 0}
    assert solve("identification", options=accepted, driver=driver).iterations <= 2
    short = solve("swing-up", max_iterations=3, driver=driver)
    assert short.status == "iteration limit" and short.iterations == 3
    for name, value in {
        "nonsense": 1,
        "tol": "small",
        "max_iter": 2.5,
        "mu_strategy": "magic",
        "max_cpu_time": -1.0,
    }.items():
        with pytest.raises(ValueError, match=f"does not accept the option {name} = {value!r}"):
            solve("identification", options={name: value}, driver=driver)


@pytest.mark.parametrize(
    "options",
    [
        {"linear_system_scaling": "slack-based"},
        {"fast_step_computation": "yes"},
        {"perturb_always_cd": "yes"},
        {"mehrotra_algorithm": "yes"},
        {"neg_curv_test_tol": 1e-10, "neg_curv_test_reg": "no"},
        {"nlp_scaling_method": "none"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_of_linear_algebra(options):
    """Whatever IPOPT does around the linear solver, the two agree."""
    own, mumps = (solve("path conditions", linear_solver=s, options=options) for s in (OWN, MUMPS))
    assert own.success and own.linear_solver.startswith(OWN)
    assert own.iterations == mumps.iterations
    assert own.objective == pytest.approx(mumps.objective, rel=1e-8)


@pytest.mark.parametrize("scheme", ["trapezoid", "backward-euler"])
def test_ends_at_bounds_are_not_singular(scheme):
    """From rest to rest, where both ends of x and v are bounds of theirs: the stiff barrier there
    leaves the multipliers of the ends little, but nothing is refused."""
    problem = ks.Collocation(
        ks.Model("cart", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u]),
        ks.Experiment(nodes=51, duration=(0.1, 10.0)),
        objective=ks.Integral(1 + u**2),
        scheme=scheme,
        unknown_inputs={u: (-1, 1)},
        bounds={x: (0, 1), v: (0, None)},
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)],
    )
    guess, how = {"duration": 3.0, u: 0.1}, {"tolerance": 1e-10, "ladder": False}
    own, mumps = (problem.solve(guess, linear_solver=s, **how) for s in (OWN, MUMPS))
    assert own.status.value == "converged" and own.iterations == mumps.iterations
    assert (own.factorisations, mumps.factorisations) == (own.iterations + 1, 0)


def test_linear_solver_among_the_options():
    """IPOPT's own way to say it, as long as the two wishes agree."""
    assert solve("bounded", options={"linear_solver": "mumps"}).linear_solver == MUMPS
    assert solve("bounded", options={"linear_solver": OWN}).linear_solver.startswith(OWN)
    both = solve("bounded", linear_solver=MUMPS, options={"linear_solver": "mumps"})
    assert both.linear_solver == MUMPS
    with pytest.raises(ValueError, match="'mumps' and, among the options, 'ma57'"):
        solve("bounded", linear_solver=MUMPS, options={"linear_solver": "ma57"})


@pytest.mark.parametrize("name", ["ma27", "ma57", "ma97"])
def test_missing_hsl_library(name):
    """IPOPT would crash on some of them."""
    for words in ({"linear_solver": name}, {"options": {"linear_solver": name}}):
        more = {**words, "options": {**words.get("options", {}), "hsllib": "libnone.so"}}
        with pytest.raises(ValueError, match=f"{name} needs the library libnone.so"):
            solve("bounded", **more)


def test_unknown_linear_solver():
    with pytest.raises(ValueError, match="nonsense"):
        solve("bounded", linear_solver="nonsense")


def test_library_for_another_linear_solver():
    """It would replace the library of the time-structured solver; MUMPS does not look at it."""
    for linear in ("auto", OWN):
        with pytest.raises(ValueError, match="hsllib is for linear solvers of HSL: name one"):
            solve("bounded", linear_solver=linear, options={"hsllib": "libnone.so"})
    assert solve("bounded", linear_solver=MUMPS, options={"hsllib": "libnone.so"}).success


# -- what is told -----------------------------------------------------------------------------


def test_linear_solver_text(tmp_path):
    """Which one, how large its fronts were, and whether the pattern was known; kept in files."""
    solution = solve("path conditions")
    pattern = (
        rf"{OWN} \((\d+) stages (back|for)wards in time, fronts of at most (\d+) rows, "
        r"\d+ MB, (analysed|analysis kept)\)"
    )
    found = re.fullmatch(pattern, solution.linear_solver)
    assert found and int(found[1]) == len(GRID) and 5 <= int(found[3]) <= 20
    assert solution.linear_solver in str(solution)
    for one in (solution, solve("path conditions", linear_solver=MUMPS)):
        one.save(tmp_path / "solution.nc")
        assert ks.Solution.load(tmp_path / "solution.nc").linear_solver == one.linear_solver


def test_analysis_is_kept():
    """For the next solve of the same pattern on this thread, not for another one."""
    said = [
        solve(name).linear_solver.split(", ")[-1]
        for name in ("bounded", "bounded", "path conditions", "bounded", "bounded")
    ]
    assert said == ["analysed)", "analysis kept)", "analysed)", "analysed)", "analysis kept)"]


@pytest.mark.parametrize(
    ("name", "shared"),
    [("identification", True), ("swing-up", True), ("path conditions", False)],
)
def test_the_error_of_the_grid_takes_the_analysis_over(monkeypatch, name, shared):
    """Where IPOPT's systems have no slacks; the shifts are the same either way."""
    seen = []

    def factorisation(*places, **more):
        seen.append(Factorisation(*places, **more))
        return seen[-1]

    monkeypatch.setattr("kinesym.runtime.statistics.factors.Factorisation", factorisation)
    solution = solve(name, linear_solver=OWN)
    assert seen[0].about["analysed"] is not shared
    seen.clear()
    alone = told(problem := made(name).problem, solution, problem)
    assert [each.about["analysed"] for each in seen] == [True] + [False] * (len(seen) - 1)
    mine, other = solution.grid_error(), alone.grid_error()
    for row in mine.states:
        np.testing.assert_allclose(mine.states[row], other.states[row], rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("linear", [OWN, MUMPS])
def test_log(capfd, driver, linear):
    """IPOPT's log is printed on demand, and kept in the solution in any case."""
    quiet = solve("bounded", driver=driver, linear_solver=linear)
    assert capfd.readouterr().out == ""
    loud = solve("bounded", driver=driver, linear_solver=linear, log=True)
    printed = capfd.readouterr().out
    for text in (printed, loud.log, quiet.log):
        assert "EXIT: Optimal Solution Found" in text and "inf_pr" in text
    assert quiet.timings["linear solver"] >= 0.0


def test_text_without_factorisation():
    """IPOPT refuses too few degrees of freedom before it needs a linear solver."""
    solution = rest_to_rest(1e9, more=[ks.at_start(u)], nodes=2).solve()
    assert solution.status == "too few degrees of freedom"
    assert "-1 stages" not in solution.linear_solver


# -- threads of one solve ---------------------------------------------------------------------


def damped_tracking(threads, nodes=1500):
    """A pendulum in honey that is to follow a course, with bounds that it meets."""
    equations = [x.diff(t) - v, v.diff(t) + k * sp.sin(x) + 30 * v - u]
    return ks.Collocation(
        ks.Model("honey", [x, v], [u], [k], equations, values={k: 9.81}),
        ks.Experiment(0.05 * np.arange(nodes)),
        objective=ks.Integral((x - sp.sin(3 * t)) ** 2 + 0.01 * u**2),
        unknown_inputs={u: (-15, 15)},
        boundary=[ks.at_start(x), ks.at_start(v)],
        threads=threads,
    )


def long_records(threads):
    """Two, of which one is cut."""
    trials = [record(start, nodes) for start, nodes in ((1.0, 2001), (-0.5, 801))]
    return ks.Collocation(pendulum, trials, unknown={k: (0.1, 100.0)}, threads=threads)


@pytest.mark.parametrize("problem", [damped_tracking, long_records])
def test_threads_change_rounding_only(problem):
    """The same iterates with one, two and three threads, to rounding; the same bits again."""
    guess = {k: 9.0} if problem is long_records else None
    one, two, again, three = (problem(n).solve(guess, linear_solver=OWN) for n in (1, 2, 2, 3))
    assert "threads" not in one.linear_solver and "2 threads" in two.linear_solver
    np.testing.assert_array_equal(again.free_vector, two.free_vector)
    for other in (two, three):
        assert other.success and other.iterations == one.iterations
        assert other.objective == pytest.approx(one.objective, rel=1e-10)
        size = np.abs(one.free_vector).max()
        np.testing.assert_allclose(other.free_vector, one.free_vector, atol=1e-6 * size)


@pytest.fixture
def reports(monkeypatch):
    """Of the sessions of a test, with no analysis kept before."""
    reports = []

    @contextmanager
    def watched(*arguments):
        with linear_solver.session(*arguments) as report:
            yield report
        reports.append(report)

    monkeypatch.setattr("kinesym.runtime.ipopt.solve.session", watched)
    forget()
    return reports


@pytest.mark.parametrize(("nodes", "analyses"), [(1000, 2), (5000, 1)])
def test_a_stretch_tells_the_direction_of_long_problems(reports, nodes, analyses):
    """Of what grows, columns are delayed backwards in time. A short problem is analysed and
    factorised in both directions; of a long one a stretch is, with stages, slacks and a border."""
    grows = [x.diff(t) - v, v.diff(t) + k * sp.sin(x) - 30 * v]
    time = np.linspace(0.0, nodes / 20.0, nodes)
    problem = ks.Collocation(
        ks.Model("grows", [x, v], [], [k], grows),
        ks.Experiment(time, measurements={x: np.sin(0.1 * time)}),
        unknown={k: (0.1, 100.0)},
        path=[(x + 0.1 * v, -9.0, 9.0)],
        scheme="midpoint",
        threads=1,
    )
    problem.solve({k: 9.0}, linear_solver=OWN, max_iterations=3)
    (report,) = reports
    assert (report["analyses"], report["reversed"]) == (analyses, 1)
    assert report["delayed"] < 0.01 * nodes


def test_parts_that_are_turned_in_vain(reports):
    """Against the dynamics, half of the stages delay columns: after eight factorisations none is
    eliminated that way, and so it is in the next solve."""
    problem = damped_tracking(2, nodes=4000)
    for _ in range(2):
        assert problem.solve(linear_solver=OWN, guess={x: 2.0, v: 3.0, u: -9.0}).success
    first, second = reports
    assert first["factorisations"] > 8 and (first["analyses"], second["analyses"]) == (2, 0)
    assert first["n_parts"] == second["n_parts"] == 2
    assert second["delayed"] < 10 < 300 < first["delayed"]


# -- giving up --------------------------------------------------------------------------------


def limited(monkeypatch, **limits):
    """The time-structured solver gives up at these limits."""

    @contextmanager
    def session(order, stages, multipliers, threads):
        report = {}
        open_session(order, stages, multipliers, threads, **limits)
        try:
            yield report
        finally:
            report.update(close_session())

    monkeypatch.setattr("kinesym.runtime.ipopt.solve.session", session)


TOO_WIDE = "the pattern has no narrow stages in time"


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_too_wide_fronts(monkeypatch, name, driver):
    """Given up at the analysis: MUMPS does it all, with the same end."""
    expected = solve(name, linear_solver=MUMPS, driver=driver)
    limited(monkeypatch, max_rows=3)
    solution = solve(name, driver=driver)
    assert re.fullmatch(rf"mumps \({OWN} gave up.*: {TOO_WIDE}\)", solution.linear_solver)
    assert solution.status == expected.status
    if name not in LONG:  # these have several local minima
        assert solution.objective == pytest.approx(expected.objective, rel=1e-7)
    steps = np.diff([i.number for i in solution.history])
    assert np.all((steps == 1) | (steps == 0))  # IPOPT repeats a number where it restores
    assert np.all(steps == 1) or restored(solution)


@pytest.mark.parametrize("name", ["identification", "path conditions", "swing-up"])
def test_too_wide_fronts_leave_no_trace(monkeypatch, name):
    """Nothing was factorised: MUMPS starts where it would have started alone."""
    expected = solve(name, linear_solver=MUMPS)
    limited(monkeypatch, max_rows=3)
    solution = solve(name)
    assert solution.linear_solver == f"mumps ({OWN} gave up: {TOO_WIDE})"
    np.testing.assert_allclose(numbers(solution), numbers(expected), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("limit", [0.0, 1e-18, 1e-17, 3e-17, 1e-16])
@pytest.mark.parametrize("name", ["identification", "path conditions", "several trials"])
def test_inaccurate(monkeypatch, name, limit, driver):
    """Given up at once or on the way: MUMPS goes on to the same end; numbers are consecutive."""
    expected = solve(name, linear_solver=MUMPS)
    limited(monkeypatch, backward_error=limit)
    solution = solve(name, driver=driver)
    assert solution.success
    assert solution.objective == pytest.approx(expected.objective, rel=1e-7)
    assert [i.number for i in solution.history] == list(range(solution.iterations + 1))
    if limit == 0.0 or solution.linear_solver.startswith("mumps"):
        assert re.fullmatch(
            rf"mumps \({OWN} gave up( after \d+ iterations?)?: its solutions were not accurate\)",
            solution.linear_solver,
        )


def test_limit_of_iterations_after_giving_up(monkeypatch):
    """What MUMPS does counts on; the limit holds for both together."""
    for limit in (0.0, 1e-17):
        limited(monkeypatch, backward_error=limit)
        solution = solve("swing-up", max_iterations=6)
        assert solution.status == "iteration limit" and solution.iterations == 6
        assert [i.number for i in solution.history] == list(range(7))


def test_limit_holds_for_a_kept_analysis(monkeypatch):
    solve("bounded")
    limited(monkeypatch, max_rows=3)
    assert solve("bounded").linear_solver.startswith(MUMPS)


def root_of_zero():
    """x = 0 at the start is reached by the first step, but for rounding; there the power is 0 in
    double precision, and the root has no derivative."""
    return rest_to_rest(nodes=21, path=[(sp.sqrt(x**20), -100, 100)])


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("linear", [OWN, MUMPS])
def test_not_finite_derivative(driver, linear):
    """A derivative becomes infinite on the way: named, with node and time. The step reaches zero
    without rounding only if nothing is scaled."""
    given = {"driver": driver, "linear_solver": linear, "options": {"nlp_scaling_method": "none"}}
    solution = root_of_zero().solve({x: 1.0}, **given)
    assert solution.status == "not finite" and not solution.success
    for part in ("NaN or infinite", "path condition 0", "node 0", "t = 0 s"):
        assert part in solution.message


# -- interruptions ----------------------------------------------------------------------------


def reporting(monkeypatch, function):
    """`function` is called after each iteration."""

    @contextmanager
    def line(show):
        yield function

    monkeypatch.setattr("kinesym.internal.fitting.solving.iteration_line", line)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("linear", [OWN, MUMPS])
def test_interrupt(monkeypatch, sigint, driver, linear):
    """Ctrl-C during iteration 2: the iterate comes back; the next solve is not disturbed."""
    reporting(monkeypatch, lambda step: step.number == 2 and signal.raise_signal(signal.SIGINT))
    solution = solve("swing-up", driver=driver, linear_solver=linear)
    assert solution.status == "interrupted" and 2 <= solution.iterations <= 3
    assert "interrupted" in solution.message and np.isfinite(solution.free_vector).all()
    monkeypatch.undo()
    assert solve("bounded", driver=driver, linear_solver=linear).success


def test_interrupt_from_outside(monkeypatch, sigint):
    """The signal arrives while no Python code runs: from another thread, at the process."""
    started, sent = threading.Event(), threading.Event()

    def press():
        started.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        sent.set()

    def report(step):
        started.set()
        sent.wait(30)

    reporting(monkeypatch, report)
    worker = threading.Thread(target=press)
    worker.start()
    solution = solve("swing-up", driver="direct")
    worker.join()
    assert solution.status == "interrupted" and solution.iterations <= 2


#: A report that raises, in a process of its own because it may crash.
RAISING = """
import gc, signal
from contextlib import ExitStack, contextmanager
import numpy as np, kinesym as ks, kinesym.internal.fitting.solving as face

def report(step):
    if step.number == 1:
        {action}

@contextmanager
def line(show):
    yield report

face.iteration_line = line
time = np.linspace(0.0, 2.0, 41)
trial = ks.Experiment(time, measurements={{"theta": 0.5 * np.cos(3 * time)}})
task = ks.Collocation(ks.models.pendulum(), trial, unknown={{"p": None}})
for _ in range(3):
    try:
        task.solve(guess={{"p": 2.0}}, driver="{driver}")
    except BaseException as error:
        print(repr(error))
    gc.collect()
report = lambda step: None
print(task.solve(driver="{driver}").success)
"""


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("raise RuntimeError('out of paper')", "RuntimeError('out of paper')"),
        ("raise SystemExit(3)", "SystemExit(3)"),
        # whoever presses Ctrl-C twice wants out
        ("[signal.raise_signal(signal.SIGINT) for _ in range(2)]", "KeyboardInterrupt()"),
    ],
    ids=["error", "exit", "Ctrl-C twice"],
)
def test_exceptions_come_through(driver, action, error):
    """What a report raises ends the solve and reaches the caller; nothing stays behind."""
    code = RAISING.format(action=action, driver=driver)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.split() == f"{error} {error} {error} True".split()


# -- threads and libraries --------------------------------------------------------------------


def in_thread(function, results, key):
    def work():
        try:
            results[key] = function()
        except BaseException as error:
            results[key] = error

    worker = threading.Thread(target=work)
    worker.start()
    return worker


@pytest.mark.parametrize("driver", DRIVERS)
def test_another_thread(driver):
    """Solved as on the main one; what is kept there is not shared, signals are left alone."""
    expected = solve("path conditions", driver=driver)
    results = {}
    in_thread(lambda: solve("path conditions", driver=driver), results, 0).join()
    np.testing.assert_array_equal(numbers(results[0]), numbers(expected))
    assert results[0].linear_solver.endswith("analysed)")


def test_analyses_end_with_their_threads():
    """What a thread keeps for its next solve is freed when the thread ends, soon after Python has
    left it."""
    solve("bounded")
    before = kept()
    for _ in range(3):
        results = {}
        workers = [in_thread(lambda: solve("path conditions"), results, key) for key in range(4)]
        for worker in workers:
            worker.join(60)
        assert all(result.success for result in results.values()) and len(results) == 4
    for _ in range(500):
        if kept() == before:
            break
        time.sleep(0.01)
    assert kept() == before
    forget()
    assert kept() == before - 1


def test_two_threads_at_once():
    """Two problems, many times: neither mixes up the other's factors."""
    names = ("path conditions", "identification")
    expected = {name: numbers(solve(name)) for name in names}
    results = {}

    def many(name):
        return [numbers(solve(name)) for _ in range(20)]

    workers = [in_thread(lambda name=name: many(name), results, name) for name in names]
    for worker in workers:
        worker.join(60)
    for name in names:
        for history in results[name]:
            np.testing.assert_array_equal(history, expected[name])


def test_blas_has_one_thread_beside_our_solver(monkeypatch):
    """0: this IPOPT is linked to another BLAS."""
    blas, seen = blas_of(ipopt_library.load_ipopt().path), []
    before = blas.threads
    reporting(monkeypatch, lambda step: seen.append(blas.threads))
    solve("identification", linear_solver=OWN)
    assert seen and set(seen) <= {0, 1}
    assert blas.threads == before


def test_solves_at_once_restore_the_threads_of_blas(monkeypatch):
    blas, threads = Blas(ipopt_library.load_ipopt().path), [8]
    monkeypatch.setattr(blas, "_get", lambda: threads[-1])
    monkeypatch.setattr(blas, "_set", threads.append)
    with ExitStack() as later, ExitStack() as sooner:
        sooner.enter_context(blas.one_thread())
        later.enter_context(blas.one_thread())
        sooner.close()
        assert blas.threads == 1
    assert threads == [8, 1, 8]


def test_without_openblas_nothing_is_set():
    blas = Blas(KKT_LIBRARY)
    with blas.one_thread():
        assert blas.threads == 0


@pytest.fixture
def without_cyipopt(monkeypatch):
    monkeypatch.setitem(sys.modules, "cyipopt", None)
    ipopt_library.load_ipopt.cache_clear()
    linear_solver.obstacle.cache_clear()
    yield
    monkeypatch.undo()
    ipopt_library.load_ipopt.cache_clear()
    linear_solver.obstacle.cache_clear()


def test_without_cyipopt(without_cyipopt):
    """The library in the casadi wheel does as well."""
    with pytest.raises(ImportError, match="cyipopt cannot be imported"):
        solve("bounded", driver="cyipopt")
    assert "casadi" in ipopt_library.load_ipopt().path
    solution = solve("bounded")
    exact = 12.0 / (1.0 - 30.0**-2)  # the best of 30 constant accelerations
    assert solution.success and solution.objective == pytest.approx(exact, rel=1e-6)
    assert solution.linear_solver.startswith((OWN, MUMPS))


def test_obstacle_is_told(monkeypatch):
    """Where the time-structured solver does not work, MUMPS is chosen, with the reason."""
    monkeypatch.setattr(linear_solver, "obstacle", lambda: "it rains")
    assert solve("bounded").linear_solver == "mumps (it rains)"
    with pytest.raises(ValueError, match="does not work here: it rains"):
        solve("bounded", linear_solver=OWN)


OLD = """
#define NAME(name) void name(void) {}
NAME(CreateIpoptProblem) NAME(FreeIpoptProblem) NAME(AddIpoptStrOption) NAME(AddIpoptNumOption)
NAME(AddIpoptIntOption) NAME(SetIntermediateCallback) NAME(IpoptSolve)
"""


def test_old_ipopt(monkeypatch, tmp_path):
    """Before 3.14 no linear solver comes from a library: it is passed over, or refused."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "old.c").write_text(OLD)
    old, new = str(tmp_path / "libipopt.so"), ipopt_library.load_ipopt().path
    subprocess.run([compiler, "-shared", "-fPIC", "-o", old, tmp_path / "old.c"], check=True)
    for candidates in ([old, new], [old]):
        monkeypatch.setattr(ipopt_library, "_candidates", lambda given=candidates: iter(given))
        if new in candidates:
            assert ipopt_library.load_ipopt.__wrapped__().path == new
        else:
            with pytest.raises(ImportError, match=f"{old} is IPOPT before 3.14.*install casadi"):
                ipopt_library.load_ipopt.__wrapped__()
    monkeypatch.setitem(sys.modules, "cyipopt", SimpleNamespace(IPOPT_VERSION=(3, 12, 12)))
    with pytest.raises(ImportError, match=r"uses IPOPT 3\.12\.12, expected 3\.14 or newer"):
        ipopt_library.load_cyipopt()


def test_trial_of_what_is_not_there():
    library = ipopt_library.load_ipopt()
    assert not trial(library, {"linear_solver": "no such solver"})
    assert not trial(library, {"no such option": 1})
