"""Many starts of shooting: they end where solves from them end, side by side or one by one."""

import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from time import sleep

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
import kinesym.shooting as shooting_module
from kinesym.examples import pendulum_local_minima as study
from kinesym.internal.fitting import shooting_starts
from kinesym.internal.fitting import starts as starts_module
from kinesym.internal.fitting.shooting_starts import together
from kinesym.internal.problems import shooting_program
from kinesym.runtime.shooting import batched_trials
from kinesym.runtime.shooting.batched_squares import BEHIND
from kinesym.runtime.shooting.identification import Identification

a, b, c, k, d, m, tau, gain, lag = sp.symbols("a b c k d m tau gain lag")
x, y, v, act, force, u = ks.dynamicsymbols("x y v act force u")


def noisy(samples, std, seed=0):
    return samples + std * np.random.default_rng(seed).standard_normal(len(samples))


def pendulum():
    """Two seconds, so that a few swings tell p from others."""
    time = np.linspace(0.0, 2.0, 81)
    run = ks.simulate(ks.models.pendulum(), time, study.START, {"p": 10.0})
    trial = ks.Experiment(time, measurements={"theta": noisy(run["theta"], 0.02)})
    return ks.Shooting(ks.models.pendulum(), trial, {"p": (1.0, 20.0)}, initial=study.START)


def muscle():
    """Activation of a first order, a force that lags behind and saturates; scales from 0.05 to
    1,500; a stimulation that is held."""
    rates = [
        act.diff(ks.t) - (u - act) / tau,
        force.diff(ks.t) - (gain * act**2 / (act**2 + 0.25) - force) / lag,
    ]
    model = ks.Model("muscle", [act, force], [u], [tau, gain, lag], rates)
    time = np.linspace(0.0, 1.0, 101)
    pulses = ks.Signal(time, (np.sin(12.0 * time) > 0.0).astype(float), "held")
    true, start = {tau: 0.05, gain: 1500.0, lag: 0.12}, {act: 0.0, force: 0.0}
    run = ks.simulate(model, time, start, true, {u: pulses})
    trial = ks.Experiment(time, {u: pulses}, {"force": noisy(run["force"], 10.0)})
    bounds = {tau: (0.01, 0.5), gain: (100.0, 1e4), lag: (0.02, 0.5)}
    return ks.Shooting(model, trial, bounds, initial=start)


def decays(bounds, std=0.02, **more):
    """2 exp(-t) + exp(-5 t), of which every third sample is missing."""
    rates = [x.diff(ks.t) + a * x, y.diff(ks.t) + b * y]
    model = ks.Model("decays", [x, y], [], [a, b, c], rates, outputs={"s": c * x + y})
    time = np.linspace(0.0, 3.0, 61)
    samples = noisy(2.0 * np.exp(-time) + np.exp(-5.0 * time), std)
    samples[1::3] = np.nan
    trial = ks.Experiment(time, measurements={"s": samples})
    return ks.Shooting(model, trial, bounds, initial={x: 1.0, y: 1.0}, **more)


def bounded():
    """The best c and b are at bounds."""
    return decays({a: (0.05, 5.0), b: (2.0, 4.0), c: (0.1, 1.9)})


def springs():
    """Two trials of an oscillator that share the stiffness, with a damping each and an unknown
    start; one measures the rate alone, 400 times as large a number; damping on a logarithmic
    scale, a prior of the stiffness."""
    rates = [x.diff(ks.t) - v, v.diff(ks.t) + k * x + d * v]
    model = ks.Model("spring", [x, v], [], [k, d], rates, outputs={"rate": 400.0 * v})
    trials = []
    for number, damping in enumerate((0.4, 1.2)):
        time = np.linspace(0.0, 4.0, 61 + 20 * number)
        run = ks.simulate(model, time, {x: 0.5, v: 0.0}, {k: 30.0, d: damping})
        name, std = ("x", 0.01) if number else ("rate", 8.0)
        measured = {name: noisy(run[name], std, number)}
        trials.append(ks.Experiment(time, measurements=measured, std={name: std}))
    unknown = {k: ks.normal(31.0, 2.0, 20.0, 45.0), d: ks.per_trial(ks.log_scale(0.05, 5.0))}
    return ks.Shooting(model, trials, unknown, initial={x: (0.1, 1.0), v: 0.0}, substeps=2)


def linked():
    """Masses whose inertia couples rates, a spring from points, an accelerometer with samples at
    times of its own."""
    x2, v2 = ks.dynamicsymbols("x2 v2")
    points = np.linspace(-3.0, 3.0, 13)
    spring = ks.table(x - x2, points, 9.0 * points + points**3, outside="continue")
    rates = [
        x.diff(ks.t) - v,
        x2.diff(ks.t) - v2,
        v.diff(ks.t) + m * sp.cos(x2) * v2.diff(ks.t) + k * spring + d * v,
        m * sp.cos(x2) * v.diff(ks.t) + 2.0 * v2.diff(ks.t) - k * spring,
    ]
    outputs = {"accelerometer": v.diff(ks.t) + 0.1 * x}
    model = ks.Model("linked", [x, x2, v, v2], [], [k, d, m], rates, outputs=outputs)
    time, start = np.linspace(0.0, 2.0, 81), {x: 0.8, x2: 0.0, v: 0.0, v2: 0.0}
    run = ks.simulate(model, time, start, {k: 2.0, d: 0.3, m: 0.5})
    own = np.linspace(0.1, 1.9, 37)
    samples = noisy(np.interp(own, time, run["accelerometer"]), 0.1)
    measured = {"accelerometer": ks.Signal(own, samples), x: noisy(run["x"], 0.01)}
    trial = ks.Experiment(time, measurements=measured, std={"accelerometer": 0.1, x: 0.01})
    unknown = {k: (0.5, 8.0), d: (0.0, 1.0), m: (0.1, 0.9)}
    return ks.Shooting(model, trial, unknown, initial=start)


def scales():
    """Unknowns of 1e-6 and 1e6, without bounds, an outlier and a loss for it."""
    rates = [x.diff(ks.t) - 1e-6 * a + b * 1e6 * x]
    model = ks.Model("scales", [x], [], [a, b], rates)
    time = np.linspace(0.0, 4.0, 41)
    samples = noisy(2.0 * (1.0 - np.exp(-time)), 0.02)
    samples[30] = 9.0
    trial = ks.Experiment(time, measurements={"x": samples}, std={"x": 0.02})
    loss = ks.LeastSquares(loss="huber")
    return ks.Shooting(model, trial, {a: None, b: None}, initial={x: 0.0}, objective=loss)


CASES = {
    "pendulum": (pendulum, None, {"p": (6.0, 14.0)}),
    "muscle": (muscle, None, {"tau": (0.03, 0.07), "gain": (900.0, 3000.0), "lag": (0.1, 0.2)}),
    "bounded": (bounded, None, None),
    "springs": (springs, {"k": 30.0}, {"k": (24.0, 38.0)}),
    "linked": (linked, {k: 1.5, d: 0.2, m: 0.4}, {"k": (1.5, 2.6)}),
    "scales": (scales, {a: 1e6, b: 2e-6}, None),
}


def task_of(problem):
    return problem.problem.identification()


@pytest.mark.parametrize("name", CASES)
def test_starts_end_where_solves_end(name):
    make, guess, ranges = CASES[name]
    problem = make()
    found = problem.multistart(8, seed=3, guess=guess, ranges=ranges, keep=1)
    assert len(found) == 8 and set(found.status) == {"converged"}
    q = problem.pack(guess)
    for start, end, cost in zip(found.starts, found.ends, found.objective, strict=True):
        q[: len(start)] = start
        fit = problem.solve(q, optimizer="least-squares")
        assert cost == pytest.approx(fit.objective, rel=1e-7)
        np.testing.assert_allclose(end, fit.values[: len(end)], rtol=1e-5)
    best = found.best
    assert best.objective == pytest.approx(found.objective[0], rel=1e-12)
    np.testing.assert_array_equal(best.values[: len(best.parameters)], found.ends[0])
    assert best.iterations > 0 and best.success and best.history[-1].objective == found.objective[0]


@pytest.mark.parametrize("name", CASES)
def test_squares_side_by_side_are_those_of_one(name):
    """J, its gradient, and 2 r' r'^T, at three q at once."""
    make, guess, _ = CASES[name]
    problem = make()
    chosen = together(problem.problem.given, problem.symbolic, task_of(problem))
    q = problem.pack(guess) * np.array([[1.0], [1.03], [0.98]])
    q = np.clip(q, *problem.bounds)
    J, gradient, bend = chosen.squares(threading.Event())(q)
    for k, row in enumerate(q):
        slopes = problem.residual_jacobian(row)
        assert J[k] == pytest.approx(problem.cost(row), rel=1e-12)
        size = np.abs(2.0 * slopes.T @ slopes)
        np.testing.assert_allclose(bend[k], 2.0 * slopes.T @ slopes, atol=1e-11 * size.max())
        expected = problem.gradient(row)
        np.testing.assert_allclose(gradient[k], expected, atol=1e-10 * np.abs(expected).max())


def test_ends_are_minima_where_there_are_many():
    """Over 20 s the pendulum has dozens; a solve from each end stays there."""
    time = np.linspace(0.0, 20.0, 201)
    run = ks.simulate(ks.models.pendulum(), time, study.START, {"p": 10.0})
    problem = study.shooting(time, noisy(run["theta"], 0.05))
    found = problem.multistart(200, seed=1, guess={"p": 50.0}, keep=4)
    assert set(found.status) <= {"converged", BEHIND}
    assert len(found.clusters()) > 20
    assert found.best.parameters["p"] == pytest.approx(10.0, abs=0.1)
    assert len(found.solutions) == 4
    for rows in found.clusters()[:4]:
        fit = problem.solve({"p": found.ends[rows[0], 0]})
        assert fit.objective == pytest.approx(found.objective[rows[0]], rel=1e-8)


def test_the_same_seed_gives_the_same():
    """Whatever the threads are; groups of 8, so that there are several."""
    problem = bounded()
    first = problem.multistart(20, seed=2)
    assert (first.ends[:, 1:] <= [4.0, 1.9]).all()
    assert first.best.active == ["b", "c"]
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(5) as pool:
        patch.setattr(batched_trials, "_WORTHWHILE", 1.0)
        for executor in (None, pool):
            again = problem.multistart(20, seed=2, executor=executor)
            np.testing.assert_allclose(again.ends, first.ends, rtol=1e-9)
            np.testing.assert_array_equal(again.order, first.order)
    np.testing.assert_array_equal(problem.multistart(20, seed=2).ends, first.ends)
    assert not np.array_equal(problem.multistart(3, seed=3).starts[1:], first.starts[1:3])


def test_starts_of_what_nothing_measures():
    """An unknown rate at the start is drawn about that of the guess, within its bounds."""
    rates = [x.diff(ks.t) - v, v.diff(ks.t) + k * x]
    model = ks.Model("free", [x, v], [], [k], rates)
    time = np.linspace(0.0, 2.0, 41)
    samples = noisy(0.5 * np.cos(3.0 * time), 0.01)
    trial = ks.Experiment(time, measurements={"x": samples})
    problem = ks.Shooting(model, trial, {k: (4.0, 20.0)}, initial={x: None, v: (-1.0, 1.0)})
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shooting_module, "side_by_side", lambda *given: seen.append(given[2]) or {})
        problem.multistart(30, seed=4)
    x0, v0 = seen[0][:, 1], seen[0][:, 2]
    assert (x0 == samples[0]).all()
    assert np.ptp(v0) > 1.0 and (np.abs(v0) <= 1.0).all()
    assert problem.multistart(10, seed=4).best.initial["v"] == pytest.approx(0.0, abs=0.05)


def test_starts_that_fail():
    """x' = a x^2 has no end beyond a = 1; where J has no value, steps become shorter."""
    model = ks.Model("burst", [x], [], [a], [x.diff(ks.t) - a * x**2])
    time = np.linspace(0.0, 1.0, 201)
    trial = ks.Experiment(time, measurements={"x": noisy(1.0 / (1.0 - 0.6 * time), 0.01)})
    problem = ks.Shooting(model, trial, {a: (-5.0, 5.0)}, initial={x: 1.0})
    found = problem.multistart(20, seed=1, guess={a: 3.0})
    lost = np.array(found.status) == "not finite"
    assert 5 < lost.sum() < 12 and np.isnan(found.objective[lost]).all()
    assert (found.starts[lost] > 1.0).all()
    np.testing.assert_allclose(found.ends[~lost], 0.6, atol=0.01)
    few = problem.multistart(20, seed=1, guess={a: 0.5}, max_iterations=1)
    assert "iteration limit" in few.status
    check_ends_without_solution(problem, few)


def check_ends_without_solution(problem, found):
    """Starts without a solution have the objective there, are last, and count as no optimum."""
    lost = np.array([status not in ("converged", "flat") for status in found.status])
    assert lost.any() and not lost[: np.flatnonzero(lost)[0]].any() and lost[-1]
    for k in np.flatnonzero(lost):
        cost = problem.cost(found.ends[k])
        assert found.objective[k] == pytest.approx(cost, rel=1e-9) or not np.isfinite(cost)
        assert not any(k in group for group in found.clusters())
    assert np.isfinite(found.objective[lost]).any()
    assert f"{lost.sum()} starts" in str(found)


def swing(**more):
    time = np.linspace(0.0, 2.0, 31)
    model = ks.Model("swing", [x, v], [], [k], [x.diff(ks.t) - v, v.diff(ks.t) + k * sp.sin(x)])
    samples = {"x": noisy(np.cos(3.0 * time), 0.01)}
    given = {"initial": {x: 1.0, v: 0.0}, **more}
    return ks.Shooting(model, ks.Experiment(time, measurements=samples), {k: (4, 20)}, **given)


def driven():
    """Samples of an input are unknown."""
    time = np.linspace(0.0, 1.0, 11)
    model = ks.Model("driven", [x], [u], [k], [x.diff(ks.t) + k * x - u])
    trial = ks.Experiment(time, measurements={"x": noisy(np.exp(-time), 0.01)})
    inputs = {"unknown_inputs": {u: (-1.0, 1.0)}, "initial": {x: 1.0}}
    objective = ks.LeastSquares() + ks.Integral(u**2)
    return ks.Shooting(model, trial, {k: (0.2, 5.0)}, objective=objective, **inputs)


def bouncing():
    g, lam = sp.Symbol("g"), ks.dynamicsymbols("lam")
    model = ks.Model("ball", [x, v], [lam], [g], [x.diff(ks.t) - v, v.diff(ks.t) + g - lam])
    ball = ks.hybrid.Hybrid(model, contacts=[ks.hybrid.Contact("floor", x, lam, restitution=0.8)])
    time = np.linspace(0.0, 1.0, 41)
    run = ks.simulate(ball, time, {x: 1.0, v: 0.0}, {g: 9.81})
    trial = ks.Experiment(time, measurements={"x": noisy(run["x"], 0.005)})
    return ks.Shooting(ball, trial, {g: (8.0, 11.0)}, initial={x: 1.0, v: 0.0})


ALONE = {
    "segments": lambda: swing(segments=3),
    "implicit": lambda: swing(method="trapezoid"),
    "objective": lambda: swing(objective=ks.LeastSquares() + ks.Terminal((x - 0.9) ** 2)),
    "inputs": driven,
    "hybrid": bouncing,
}


@pytest.mark.parametrize("name", ALONE)
def test_others_are_solved_one_by_one(name):
    """In as many threads as there are cores; the best is that of a solve."""
    problem = ALONE[name]()
    assert together(problem.problem.given, problem.symbolic, task_of(problem)) is None
    found = problem.multistart(4, seed=2)
    optimizer = "ipopt" if name == "segments" else "bfgs"
    fit = problem.solve(optimizer=optimizer)
    assert set(found.status) == {"converged"}
    assert found.objective[0] <= fit.objective * (1.0 + 1e-7)
    assert found.best.success
    again = problem.multistart(4, seed=2, keep=1)
    np.testing.assert_array_equal(again.ends, found.ends)


@pytest.mark.parametrize("name", ["implicit", "objective", "inputs", "hybrid"])
def test_what_is_kept_is_the_fit_of_a_solve(name):
    """With its errors, which are computed of what is looked at alone; copies have all."""
    problem = ALONE[name]()
    with pytest.MonkeyPatch.context() as patch:
        made, plain = [], Identification.whole
        patch.setattr(Identification, "whole", lambda *given: made.append(1) or plain(*given))
        found = problem.multistart(3, seed=2, max_iterations=200)
        assert not made
        best = found.best
        assert found.best is best and len(made) == 1
        assert len(pickle.loads(pickle.dumps(found)).solutions) == len(made) == 3
    start = dict(zip(found.names, found.starts[0], strict=True))
    how = problem.solve(start, optimizer="bfgs" if name == "inputs" else "least-squares")
    np.testing.assert_allclose(best.values, how.values, rtol=1e-5, atol=1e-6)
    errors = how.standard_errors()
    assert best.standard_errors() == pytest.approx(errors, rel=1e-4, nan_ok=True)
    assert (best.notes, best.status, best.message) == (how.notes, how.status, how.message)
    assert best.iterations == found.iterations[0] and best.timings["total"] > 0.0


def test_fits_of_other_processes_are_made_here():
    """Workers send iterates, and no copy of the problem with each."""
    problem, sizes = ALONE["implicit"](), []

    class Sent(ThreadPoolExecutor):
        def submit(self, function, *given):
            def run():
                found = pickle.dumps(function(*given))
                sizes.append(len(found))
                return pickle.loads(found)

            return super().submit(run)

    plain = problem.multistart(3, seed=2)
    with Sent(1) as pool:
        found = problem.multistart(3, seed=2, executor=pool)
    assert max(sizes) < 20_000
    np.testing.assert_array_equal(found.best.values, plain.best.values)
    assert found.best.standard_errors() == plain.best.standard_errors()


def test_motions_that_escape_cost_few_steps():
    """Of x' = k x^2, which ends at t = 1/k: trial points beyond are left soon, but not for good."""
    model = ks.Model("escape", [x], [], [k], [x.diff(ks.t) - k * x**2])
    time = np.linspace(0.0, 1.0, 11)
    trial = ks.Experiment(time, measurements={"x": 1.0 / (1.0 - 0.9 * time)}, std={"x": 0.1})
    problem = ks.Shooting(model, trial, {k: (0.01, 50.0)}, initial={x: 1.0}, method="radau-5")
    trials = problem._trials
    assert np.isfinite(trials.cost(np.array([0.9])))
    [plain] = trials.steps
    assert trials.cost(np.array([40.0])) == np.inf
    [escaped] = trials.steps
    assert escaped > 10 * plain
    with trials.at_most([plain]):
        assert trials.cost(np.array([0.9])) < np.inf
        assert trials.cost(np.array([40.0])) == np.inf
        assert 4 * trials.steps[0] < escaped
    assert trials.cost(np.array([40.0])) == np.inf
    assert trials.steps == [escaped]
    with trials.at_most([plain // 4]):  # steps that get on are taken
        assert trials.cost(np.array([0.9])) < np.inf
    assert trials.steps == [plain]
    fit = problem.solve({k: 0.02}, optimizer="least-squares")
    assert fit.success and fit.parameters["k"] == pytest.approx(0.9, rel=1e-7)


def test_ends_at_the_limit_one_by_one():
    problem = ALONE["implicit"]()
    check_ends_without_solution(problem, problem.multistart(6, seed=2, max_iterations=2))


def test_residuals_are_derived_once(monkeypatch):
    """For all starts: it takes longer than a fit does."""
    derived, plain = [], shooting_program.residual_problem
    counted = lambda problem: derived.append(problem) or plain(problem)  # noqa: E731
    monkeypatch.setattr(shooting_program, "residual_problem", counted)
    shooting_program._residuals.cache_clear()
    swing(method="trapezoid").multistart(4, seed=2)
    assert len(derived) == 1


@pytest.mark.parametrize("name", ["implicit", "hybrid"])
def test_a_thread_has_one_task_for_all_its_starts(name):
    """Made once; each start ends where it does by itself, in other threads and processes, too."""
    problem, made = ALONE[name](), []

    def make():
        made.append(problem._alone())
        return made[-1]

    own = shooting_starts._OfThread(make)
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        tasks = [pool.submit(own).result() for pool in (first, second, first, second)]
    assert len(made) == 2
    assert tasks[0] is tasks[2]
    assert tasks[1] is tasks[3]
    with ThreadPoolExecutor(1) as alone:
        together, apart = (problem.multistart(4, seed=2, executor=e) for e in (alone, None))
    np.testing.assert_array_equal(together.ends, apart.ends)
    copy = pickle.loads(pickle.dumps(shooting_starts._OfThread(problem._alone)))
    assert copy().trials.unknowns.names == problem.names


def test_threads_share_no_trajectories():
    """Nor those with finer steps, which a simulation overwrites."""
    problem = ALONE["implicit"]()
    one, other = (problem._alone() for _ in range(2))
    assert one.trials is not other.trials
    assert one.task.finer().trials is not other.task.finer().trials


@pytest.mark.parametrize(("make", "count"), [(bounded, 200), (ALONE["implicit"], 12)])
def test_ctrl_c_keeps_the_starts_that_have_ended(make, count, monkeypatch, sigint):
    """It comes when the second start has ended."""
    problem, ended = make(), []

    def report(count, failures):
        before = len(ended)
        ended.extend([failures] * count)
        if before < 2 <= len(ended):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            sleep(0.05)  # the main thread hears it

    for module in (shooting_starts, starts_module):
        monkeypatch.setattr(module, "task_bar", lambda *_: nullcontext(report))
    few = problem.multistart(count, seed=2, max_iterations=50)
    assert 2 <= len(few) < count and few.planned == count
    assert f"of {count} starts" in repr(few)
    monkeypatch.undo()
    full = problem.multistart(count, seed=2, max_iterations=50)
    ends = full.ends[np.argsort(full.order)]
    np.testing.assert_array_equal(few.ends, ends[few.order.astype(int)])


def two_channels(kind, **more):
    """A swing whose two channels have unknown standard deviations of their own."""
    time = np.linspace(0.0, 8.0, 81)
    rng = np.random.default_rng(0)
    samples = {
        x: np.cos(3.0 * time) + 0.05 * rng.standard_normal(81),
        v: -3.0 * np.sin(3.0 * time) + 0.2 * rng.standard_normal(81),
    }
    model = ks.Model("swing", [x, v], [], [k], [x.diff(ks.t) - v, v.diff(ks.t) + k**2 * x])
    trial = ks.Experiment(time, measurements=samples, std=more.pop("std", {}))
    start = {"initial": {x: 1.0, v: 0.0}}
    if kind is ks.Collocation:
        start = {"boundary": [ks.at_start(x) - 1, ks.at_start(v)]}
    return kind(model, trial, **{"unknown": {k: (0.5, 8.0)}, **start, **more})


RANKED = {
    "shooting": lambda: two_channels(ks.Shooting),
    "collocation": lambda: two_channels(ks.Collocation),
    "prior": lambda: two_channels(ks.Shooting, unknown={k: ks.normal(3.5, 2.0, 0.5, 8.0)}),
    "huber": lambda: two_channels(ks.Shooting, objective=ks.LeastSquares("huber")),
}


@pytest.mark.parametrize("name", RANKED)
def test_starts_are_ranked_by_likelihood_where_std_is_estimated(name, tmp_path):
    """Objectives at all minima are about the degrees of freedom, 161, and rank nothing."""
    about = {"guess": {k: 3.2}, "ranges": {k: (0.5, 0.6)}}
    found = RANKED[name]().multistart(6, seed=1, keep=4, **about)
    assert found.best.parameters["k"] == pytest.approx(3.0, abs=0.02)
    ends = found.ends[np.isfinite(found.merit), 0]
    assert (np.abs(ends - 3.0) > 0.3).any()  # others are there
    assert (np.abs(ends[: len(found.clusters()[0])] - 3.0) < 0.02).all()
    assert (np.diff(found.merit[np.isfinite(found.merit)]) >= 0.0).all()
    assert f"the best, -2 log L {found.merit[0]:.6g}" in repr(found)
    if name == "shooting":
        best = found.best
        assert found.merit[0] == pytest.approx(-2.0 * best.log_likelihood, rel=1e-12)
        found.save(tmp_path / "starts.nc")
        again = ks.MultiStart.load(tmp_path / "starts.nc")
        np.testing.assert_array_equal(again.merit, found.merit)
        assert str(again) == str(found) and again.best.merit == found.best.merit


@pytest.mark.parametrize("std", [{}, {"std": {x: 0.05, v: 0.2}}])
def test_a_fit_is_no_worse_than_its_guess(std):
    """That of another frequency is, beside the right one."""
    problem = two_channels(ks.Shooting, **std)
    fit, task = problem.solve({k: 0.6}), task_of(problem)
    assert fit.success and abs(fit.parameters["k"] - 3.0) > 0.5
    assert task._no_worse(problem.pack({k: 0.6}), fit) is fit
    worse = task._no_worse(problem.pack({k: 3.0}), fit)
    assert not worse.success and "less well than the guess does" in worse.message


def test_fits_are_saved(tmp_path):
    found = bounded().multistart(6, seed=1, keep=2)
    found.save(tmp_path / "starts.nc")
    again = ks.MultiStart.load(tmp_path / "starts.nc")
    assert str(again) == str(found) and again.status == found.status
    assert isinstance(again.best, ks.Fit)
    np.testing.assert_array_equal(again.best["s"], found.best["s"])
    assert found.best.standard_errors() == again.best.standard_errors()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"starts": 0}, "starts"),
        ({"ranges": {"a": (2.0, 1.0)}}, "parameter a is drawn between 2 and 1"),
        ({"ranges": {"z": (1.0, 2.0)}}, "ranges: z is unknown"),
        ({"guess": {"a": np.nan}}, "a"),
        ({"guess": [1.0]}, "the guess has shape"),
        ({"keep": 0}, "keep"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"executor": 4}, "executor must have a method submit, got 4"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(ValueError, match=words):
        bounded().multistart(**arguments)


def test_a_parameter_without_a_range():
    with pytest.raises(ValueError, match="parameter a is drawn between -inf and inf"):
        scales().multistart(guess={a: 0.0, b: 1e-6})


def test_starts_of_a_positive_parameter_without_a_guess_are_those_of_collocation():
    """Of a lognormal prior, and of a logarithmic scale without bounds: 1, and ranges about it."""
    x, k, t = ks.dynamicsymbols("x"), sp.Symbol("k"), np.linspace(0.0, 3.0, 31)
    decay = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x])
    trial = ks.Experiment(t, measurements={x: 2.0 * np.exp(-1.3 * t)}, std={x: 0.1})
    for unknown in (ks.lognormal(1.2, 1.5), ks.log_scale()):
        shot = ks.Shooting(decay, trial, {k: unknown}, initial={x: 2.0})
        other = ks.Collocation(decay, trial, {k: unknown}, boundary=[ks.at_start(x) - 2.0])
        found, same = (each.multistart(3, seed=1) for each in (shot, other))
        first, second = (np.sort(each.starts[:, 0]) for each in (found, same))
        assert first == pytest.approx(second, rel=1e-9) and 1.0 in first
        best = same.best.parameters["k"]
        assert found.best.parameters["k"] == pytest.approx(best, rel=1e-2)
