"""Options of IPOPT: files of them, their types, what is refused and where it is said."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.ipopt import driver, linear_solver
from kinesym.runtime.ipopt import library as ipopt_library
from kinesym.runtime.ipopt import solve as ipopt
from kinesym.runtime.native import trial
from kinesym.runtime.shooting.optimizers import OPTIMIZERS
from kinesym.runtime.status import Solve

t = ks.t
x, v = ks.dynamicsymbols("x v")
k = sp.Symbol("k")
swing = ks.Model("swing", [x, v], [], [k], [x.diff(t) - v, v.diff(t) + k * sp.sin(x)])
TIME = np.linspace(0.0, 2.0, 41)
DRIVERS = ("direct", "cyipopt")

#: Loose enough that the guess passes for a solution
LOOSE = "tol 100\ndual_inf_tol 1e6\nconstr_viol_tol 1e3\ncompl_inf_tol 1e3\n"


@pytest.fixture(scope="module")
def trial_run():
    run = ks.simulate(swing, TIME, {x: 0.5, v: 0.0}, {k: 10.0})
    return ks.Experiment(TIME, measurements={x: run["x"]})


@pytest.fixture(scope="module")
def collocation(trial_run):
    return ks.Collocation(swing, trial_run, unknown={k: (0.1, 50.0)})


@pytest.fixture(scope="module")
def shooting(trial_run):
    return ks.Shooting(swing, trial_run, {k: (0.1, 50.0)}, initial={x: 0.5, v: 0.0})


# -- files ------------------------------------------------------------------------------------


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A folder with files of options under the names that IPOPT knows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ipopt.opt").write_text(LOOSE)
    (tmp_path / "PARAMS.DAT").write_text(LOOSE)
    return tmp_path


@pytest.mark.parametrize("which", DRIVERS)
@pytest.mark.parametrize("linear", ["time-structured", "mumps"])
def test_a_file_in_the_folder_is_not_obeyed(planted, collocation, which, linear):
    found = collocation.solve({k: 2.0}, driver=which, linear_solver=linear)
    assert found.success and found.parameters[k] == pytest.approx(10.0, rel=1e-2)


def test_a_file_in_the_folder_is_not_obeyed_by_shooting(planted, shooting):
    found = shooting.solve({k: 8.0}, optimizer="ipopt")
    assert found.success and found.parameters[k] == pytest.approx(10.0, rel=1e-6)


def test_a_file_in_the_folder_is_not_obeyed_by_trials(planted):
    (planted / "ipopt.opt").write_text("max_iter 1\n")
    assert trial(ipopt_library.load_ipopt(), linear_solver.options_of("mumps"))
    assert linear_solver.obstacle.__wrapped__() == ""


@pytest.mark.parametrize("which", DRIVERS)
def test_a_file_that_is_named_is_obeyed(planted, collocation, which):
    (planted / "mine.opt").write_text("max_iter 1\n")
    named = {"option_file_name": "mine.opt"}
    assert collocation.solve({k: 2.0}, driver=which, options=named).iterations == 1
    with pytest.raises(ValueError, match=r"no file 'none.opt', which option_file_name names"):
        collocation.solve({k: 2.0}, driver=which, options={"option_file_name": "none.opt"})
    (planted / "mine.opt").write_text("max_iter nonsense\n")
    with pytest.raises(ValueError, match=r"did not accept the value of an option, .* file"):
        collocation.solve({k: 2.0}, driver=which, options=named)


# -- types ------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", DRIVERS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("first_hessian_perturbation", 1),
        ("constr_mult_init_max", 0),
        ("constr_mult_init_max", np.int64(0)),
        ("tol", np.float32(1e-6)),
        ("nlp_upper_bound_inf", 10**19),
        ("max_iter", 100.0),
        ("max_iter", np.int64(100)),
        ("acceptable_tol", 1),
        ("print_info_string", True),
        ("mu_strategy", np.str_("adaptive")),
    ],
)
def test_numbers_of_either_type(capfd, collocation, which, name, value):
    assert collocation.solve({k: 2.0}, driver=which, options={name: value}).success
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("which", DRIVERS)
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("nonsense", 1, "it has no option of this name"),
        ("tol", -1.0, r"expected 0 < tol <= \+inf"),
        ("tol", float("nan"), "it is no number and no text"),
        ("tol", None, "it is no number and no text"),
        ("tol", "small", "expected 0 < tol"),
        ("max_iter", 2.5, "expected a whole number with 0 <= max_iter"),
        ("max_iter", 10**12, "expected a whole number with 0 <= max_iter"),
        ("max_iter", 10**400, "it is no number and no text"),
        ("mu_strategy", "magic", "choose one of monotone, adaptive"),
        ("mu_strategy", 3, "choose one of monotone, adaptive"),
        ("hsllib_", 3, "it has no option of this name"),
    ],
)
def test_refusals_say_why(capfd, collocation, which, name, value, reason):
    """IPOPT's own words go to stdout, where nobody asked for them: ours are in the error."""
    with pytest.raises(ValueError, match=rf"accept the option {name} = .*: {reason}"):
        collocation.solve({k: 2.0}, driver=which, options={name: value})
    assert capfd.readouterr().out == ""


def test_stdout_is_heard_again(capfd):
    """Also where the option was refused, and after an error that is none of an option's."""
    assert driver.overheard(float, "1.0") == (True, "")
    assert driver.overheard(float, None) == (False, "")
    with pytest.raises(ValueError, match="could not convert"):
        driver.overheard(float, "x")
    print("here", flush=True)
    assert capfd.readouterr().out == "here\n"


@pytest.mark.parametrize("where", ["wish", "option", "shooting"])
def test_linear_solvers_that_are_not_there(capfd, collocation, shooting, where):
    """PARDISO is an option of IPOPT, but its library is not here: nothing is solved."""
    with pytest.raises(ValueError, match=r"'pardiso' does not work here; choose one of .*mumps"):
        if where == "shooting":
            shooting.solve({k: 8.0}, optimizer="ipopt", options={"linear_solver": "pardiso"})
        elif where == "option":
            collocation.solve({k: 2.0}, options={"linear_solver": "pardiso"})
        else:
            collocation.solve({k: 2.0}, linear_solver="pardiso")
    assert capfd.readouterr().out == ""


# -- other numbers of a solve -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"max_iterations": 1.5}, "max_iterations must be at least 0 and whole, got 1.5"),
        ({"max_iterations": -1}, "max_iterations must be at least 0 and whole, got -1"),
        ({"max_iterations": "many"}, "max_iterations must be at least 0 and whole, got 'many'"),
        ({"tolerance": float("nan")}, "tolerance must be positive, got nan"),
        ({"tolerance": -1}, "tolerance must be positive, got -1"),
        ({"tolerance": "small"}, "tolerance must be positive, got 'small'"),
        ({"options": 5}, "options must be a mapping .* got 5"),
    ],
)
def test_numbers_of_collocation(collocation, wrong, words):
    with pytest.raises(ValueError, match=words):
        collocation.solve({k: 2.0}, **wrong)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"max_iterations": -1}, "max_iterations must be at least 0 and whole, got -1"),
        ({"tolerance": float("nan")}, "tolerance must be positive, got nan"),
        ({"tolerance": -1}, "tolerance must be positive, got -1"),
        ({"options": 5}, "options must be a mapping .* got 5"),
    ],
)
def test_numbers_of_shooting(shooting, optimizer, wrong, words):
    with pytest.raises(ValueError, match=words):
        shooting.solve({k: 8.0}, optimizer, **wrong)


def test_counts_of_numpy(collocation):
    assert collocation.solve({k: 2.0}, max_iterations=np.int64(2)).iterations == 2


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two", 10**6])
def test_threads_of_collocation(trial_run, threads):
    with pytest.raises(ValueError, match="threads must be at "):
        ks.Collocation(swing, trial_run, unknown={k: None}, threads=threads)


# -- words ------------------------------------------------------------------------------------


def test_local_infeasibility_is_no_verdict():
    """Another strategy may solve what one calls infeasible."""
    words = "IPOPT stopped at a point of local infeasibility; another"
    assert Solve.INFEASIBLE.sentence.startswith(words)


@pytest.mark.parametrize("status", [Solve.RESTORATION_FAILED, Solve.STEP_FAILED])
def test_memory_that_ran_out_in_mumps(monkeypatch, collocation, status):
    """IPOPT only sees that no step could be computed; the reason is in its log."""
    said = "MUMPS returned INFO(1) =-13 - out of memory when trying to allocate 40504115 bytes.\n"
    true = ipopt.run

    def starved(*arguments):
        return replace(true(*arguments), status=status, log=said)

    monkeypatch.setattr(ipopt, "run", starved)
    found = collocation.solve({k: 2.0}, linear_solver="mumps")
    assert found.status is Solve.NO_MEMORY and "memory ran out; use fewer nodes" in found.message


# -- shooting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", [None, ks.Integral((x - sp.cos(3 * t)) ** 4)])
@pytest.mark.parametrize("segments", [1, 3])
def test_shooting_through_both_drivers(monkeypatch, trial_run, objective, segments):
    """Functions of Python are evaluated by either, with and without second derivatives, with and
    without constraints."""
    trial = trial_run if objective is None else ks.Experiment(TIME)
    problem = ks.Shooting(
        swing,
        trial,
        {k: (0.1, 50.0)},
        initial={x: 0.5, v: 0.0},
        objective=objective,
        segments=segments,
    )
    pytest.importorskip("cyipopt")
    direct = problem.solve({k: 7.0}, "ipopt", max_iterations=8)

    def missing():
        raise ipopt_library.IpoptMissing("gone")

    monkeypatch.setattr(driver, "load_ipopt", missing)
    found = problem.solve({k: 7.0}, "ipopt", max_iterations=8)
    assert [s.objective for s in found.history] == pytest.approx(
        [s.objective for s in direct.history], rel=1e-9
    )
    assert found.message == direct.message and len(found.history) > 2


def test_shooting_without_cyipopt(monkeypatch, shooting):
    """Through the C interface, as collocation: the library in the casadi wheel is enough."""
    monkeypatch.setitem(sys.modules, "cyipopt", None)
    ipopt_library.load_ipopt.cache_clear()
    try:
        found = shooting.solve({k: 8.0}, optimizer="ipopt")
    finally:
        monkeypatch.undo()
        ipopt_library.load_ipopt.cache_clear()
    assert found.success and found.parameters[k] == pytest.approx(10.0, rel=1e-6)


def test_errors_of_callbacks_end_the_solve(monkeypatch, shooting):
    """What a simulation raises within IPOPT reaches the caller as it is, and nothing else runs."""
    calls = []

    def broken(self, q):
        calls.append(q)
        raise RuntimeError("out of paper")

    monkeypatch.setattr("kinesym.runtime.shooting.smooth_trials.SmoothTrials.gradient", broken)
    with pytest.raises(RuntimeError, match="out of paper"):
        shooting.solve({k: 8.0}, optimizer="ipopt")
    assert len(calls) == 1


def test_tolerances_beyond_rounding():
    """What rounding allows is a solution, whatever smaller tolerance was asked for."""
    y, v, k = *ks.dynamicsymbols("y v"), sp.Symbol("k")
    model = ks.Model("swing", [y, v], [], [k], [y.diff(ks.t) - v, v.diff(ks.t) + k * sp.sin(y)])
    time = np.linspace(0.0, 5.0, 101)
    seen = np.cos(2.0 * time) + 0.01 * np.random.default_rng(0).standard_normal(101)
    task = ks.Collocation(model, ks.Experiment(time, measurements={y: seen}), {k: (0, 50)})
    plain = task.solve({k: 3.0})
    for tolerance in (1e-12, 1e-14, 1e-16):
        solution = task.solve({k: 3.0}, tolerance=tolerance)
        assert solution.success and "converged" in solution.message
        assert solution.parameters["k"] == pytest.approx(plain.parameters["k"], rel=1e-9)
