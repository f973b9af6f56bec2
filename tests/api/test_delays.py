"""Sensors that show what was a while ago: known and unknown delays."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import least_squares

import kinesym as ks
from kinesym.codegen.interpret import interpret
from kinesym.internal.problems.shooting_program import shooting_program
from kinesym.runtime.nlp.sensor_delays import delays_at, fit
from kinesym.runtime.results.solution import Solution

x, v, F = ks.dynamicsymbols("x v F")
k, c, b, tau, T = sp.symbols("k c b tau T")
TIME = np.linspace(0.0, 1.5, 151)
TRUE = {"k": 40.0, "c": 0.3, "b": 0.1, "tau": 0.037}
STD = {"x": 0.01, "gyro": 0.05}
UNKNOWN = {k: (1.0, 99.0), c: (0.0, 5.0), b: (-1.0, 1.0), tau: (0.0, 0.1)}
LATE = {"gyro": ks.sensor(v, bias=b, delay=tau)}
GUESS = {k: 30.0, c: 0.1, tau: 0.01}


def oscillator():
    return ks.Model(
        "oscillator", [x, v], [], [k, c], [x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v]
    )


MODEL = oscillator()


def motion(time, stiffness, damping, x0, v0):
    """Displacement and speed of the oscillator, by its closed form."""
    a = 0.5 * damping
    w = np.sqrt(stiffness - a**2)
    fade, sine, cosine = np.exp(-a * time), np.sin(w * time), np.cos(w * time)
    return (
        fade * (x0 * cosine + (v0 + a * x0) / w * sine),
        fade * (v0 * cosine - (stiffness * x0 + a * v0) / w * sine),
    )


def record(seed, time=TIME, own=TIME, late=TRUE["tau"], noise=1.0):
    """A displacement at `time`, and a late speed with a bias at `own`."""
    rng = np.random.default_rng(seed)
    here = motion(time, TRUE["k"], TRUE["c"], 1.0, 0.2)[0]
    speed = motion(own - late, TRUE["k"], TRUE["c"], 1.0, 0.2)[1] + TRUE["b"]
    y = here + noise * STD["x"] * rng.standard_normal(len(time))
    return y, speed + noise * STD["gyro"] * rng.standard_normal(len(own))


def experiment(seed, own=None, **more):
    y, late = record(seed, own=TIME if own is None else own, **more)
    samples = {x: y, "gyro": late if own is None else ks.Signal(own, late)}
    return ks.Experiment(TIME, measurements=samples, std=STD)


def collocation(trials, **more):
    given = {"unknown": UNKNOWN, "sensors": LATE, "scheme": "radau-5", **more}
    return ks.Collocation(MODEL, trials, **given)


def by_closed_form(trial, first=0.1):
    """Estimates and standard errors of k, c, b, tau, x0, v0 by SciPy."""
    own = trial.timed.get("gyro")
    times, late = (own.times, own.values) if own else (TIME, trial.measurements["gyro"])
    here = times >= first - 1e-9

    def residuals(p):
        position = motion(TIME, p[0], p[1], *p[4:])[0]
        speed = motion(times[here] - p[3], p[0], p[1], *p[4:])[1] + p[2]
        rows = ((position - trial.measurements["x"]) / 0.01, (speed - late[here]) / 0.05)
        return np.concatenate(rows)

    start = [30.0, 0.1, 0.0, 0.03, 1.0, 0.0]
    found = least_squares(residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, x_scale="jac")
    return found.x, np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))


# -- derivatives ------------------------------------------------------------------------------


def driven():
    equations = [x.diff(ks.t) - v, v.diff(ks.t) + k * sp.sin(x) + c * v - F]
    return ks.Model("driven", [x, v], [F], [k, c], equations)


SENSORS = {
    "gyro": ks.sensor(v * x + ks.t, bias=b, delay=tau),
    "load": ks.sensor(F**2 + v.diff(ks.t), gain=k, delay=tau),
}


#: Scheme, whether the duration is unknown, and what the known input is between nodes.
CASES = [("radau-3", False, "linear"), ("gauss-4", True, "held"), ("lobatto-4", True, "linear")]


def moved(scheme, free, between):
    """A problem with unknown delays in several expressions, and some z; on a logarithmic scale if
    the duration is free."""
    grid, rng = np.array([0.0, 0.2, 0.35, 0.6, 0.8, 1.0]), np.random.default_rng(3)
    own = np.array([0.0, 0.13, 0.31, 0.44, 0.47, 0.6, 0.77, 0.93, 1.0])
    samples = {
        "gyro": rng.normal(size=6),
        "load": ks.Signal(own, np.where(own == 0.44, np.nan, own)),
    }
    push = ks.Signal(grid, rng.normal(size=6), between)
    when = {"duration": (1.0, 3.0)} if free else {}
    trial = ks.Experiment(grid, {F: push}, samples, {"gyro": 0.1, "load": 0.2}, **when)
    late = ks.log_scale(0.01, 0.3) if free else (-0.05, 0.3)
    unknown = {k: None, c: None, b: None, tau: late}
    problem = ks.Collocation(driven(), trial, unknown=unknown, sensors=SENSORS, scheme=scheme)
    z = rng.uniform(0.5, 1.5, problem.n_variables)
    at = problem.layout.parameter_offset + list(problem.layout.parameters).index("tau")
    z[at] = np.log(0.17) if free else 0.17
    return problem, z, push


def assert_exact(kernels, nlp, z):
    """The gradient of what belongs to intervals by complex step of the program at z, and its
    derivatives, if there are any, by that of the gradient."""
    n, none = nlp.layout.nodes[0] - 1, np.zeros(nlp.n_constraints)

    def given(what, z=z):
        return nlp.arguments(0, "interval", what, (z, none, np.ones(1)))

    rows = nlp.about.families["interval"]
    variables = [(name, j) for name, count, _, _ in rows.variables for j in range(count)]
    slopes = interpret(kernels["gradient"], given("gradient"), n)
    first = dict(zip(rows.gradient, slopes, strict=True))
    second = {}
    if "hessian" in kernels:
        entries = interpret(kernels["hessian"], given("hessian"), n)
        second = dict(zip(zip(*rows.hessian, strict=True), entries, strict=True))
    for j, (name, place) in enumerate(variables):
        shifted = {a: np.array(row, dtype=complex) for a, row in given("gradient").items()}
        if name not in shifted:
            assert j not in first
            continue
        shifted[name][place] += 1e-30j
        slope = interpret(kernels["cost"], shifted, n)[0].imag / 1e-30
        np.testing.assert_allclose(first.get(j, 0.0 * slope), slope, rtol=1e-10, atol=1e-9)
        bends = interpret(kernels["gradient"], shifted, n).imag / 1e-30
        for i, row in zip(rows.gradient, bends if second else (), strict=bool(second)):
            entry = second.get((min(i, j), max(i, j)), np.zeros(n))
            np.testing.assert_allclose(entry, row, rtol=1e-10, atol=1e-9)


def of_intervals(program):
    """Kernels of the intervals by what they compute."""
    names = {kernel.name: kernel for kernel in program.kernels}
    return {name[9:]: kernel for name, kernel in names.items() if name.startswith("interval_")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_derivatives(case):
    """Of all kinds of schemes, also by a delay on a logarithmic scale."""
    problem, z, _ = moved(*case)
    assert_exact(of_intervals(problem.program), problem.problem.placed_at(z).nlp, z)


@pytest.mark.parametrize("case", CASES[:2], ids=lambda case: case[0])
def test_residuals_are_of_what_was_before(case):
    """On the polynomials of the solution, wherever samples are placed at first."""
    problem, z, push = moved(*case)
    T = z[-1] if case[1] else 1.0
    grid, parameters = problem.layout.grids[0], problem.problem.parameters(z)
    assert parameters["tau"] == pytest.approx(0.17)
    courses = problem.layout.signals(z, 0, grid * T)
    about = problem.problem.placed_at(z).residual_nlp.samples
    expected = []
    for channel, own in problem.trials[0].timed.items():
        there = T * own.times[own.present] - parameters["tau"]
        assert there.min() >= -1e-12 and there.max() <= T + 1e-12
        X, V = courses["x"](there), courses["v"](there)
        force = np.array(push(there / T))
        if channel == "gyro":
            made = V * X + there + parameters["b"]
        else:
            rate = force - parameters["k"] * np.sin(X) - parameters["c"] * V
            made = parameters["k"] * (force**2 + rate)
        y = own.values[own.present]
        expected.append((made - y) / (0.1 if channel == "gyro" else 0.2))
    order = np.lexsort([about.time, about.channel])
    found = problem.residuals(z)[order]
    names = [about.channels[j] for j in np.unique(about.channel)]
    expected = dict(zip(problem.trials[0].timed, expected, strict=True))
    expected = np.concatenate([expected[name] for name in names])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert problem.cost(z) == pytest.approx(found @ found, rel=1e-12)


# -- estimates --------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [None, np.sort(np.random.default_rng(1).uniform(0.0, 1.5, 200))])
def test_as_least_squares_of_the_closed_form(own):
    """Also of samples at times of their own."""
    trial = experiment(0, own)
    problem = collocation(trial)
    found = problem.solve(guess=GUESS)
    expected, errors = by_closed_form(trial)
    assert found.success and found.iterations < 60
    values = [found.parameters[name] for name in ("k", "c", "b", "tau")]
    np.testing.assert_allclose(values, expected[:4], rtol=1e-6, atol=1e-8)
    spread = [found.parameters.table[name].standard_error for name in ("k", "c", "b", "tau")]
    np.testing.assert_allclose(spread, errors[:4], rtol=5e-3)  # these of linearised residuals
    lost = int(np.sum((TIME if own is None else own) < 0.1 - 1e-9))
    assert [note for note in found.notes if note.startswith(f"{lost} samples of gyro count as")]
    run = found.trials[0]
    times = TIME if own is None else own
    shown = times[times >= 0.1 - 1e-9] - found.parameters["tau"]
    np.testing.assert_allclose(run.timed["gyro"].time, shown, rtol=1e-12)
    speed = motion(shown, *expected[:2], *expected[4:])[1]
    np.testing.assert_allclose(run.timed["gyro"].modelled, speed + expected[2], atol=1e-5)
    assert problem.cost(found.free_vector) == pytest.approx(found.objective, rel=1e-12)


def test_coverage():
    """Of the interval of the delay, 37 ms, over 60 records at 100 Hz."""
    inside, errors = 0, []
    first = collocation(experiment(0)).solve(guess=GUESS)
    for seed in range(60):
        found = collocation(experiment(seed)).solve(guess=first)
        assert found.success
        row = found.parameters.table["tau"]
        inside += row.low <= TRUE["tau"] <= row.high
        errors.append((row.value - TRUE["tau"]) / row.standard_error)
    assert inside >= 52  # binomial, 60 of 0.95: 99.8 %
    assert abs(np.mean(errors)) < 0.45 and 0.7 < np.std(errors) < 1.3


def test_far_from_the_guess_and_with_unknown_noise(tmp_path):
    """Placed anew several times; what is asked of the solution is of where samples are then."""
    y, late = record(5)
    trial = ks.Experiment(TIME, measurements={x: y, "gyro": late})
    wide = {**UNKNOWN, tau: (-0.3, 0.3)}
    problem = collocation(trial, unknown=wide)
    found = problem.solve(guess={k: 30.0, c: 0.1, tau: -0.2})
    assert found.success
    near = problem.solve(guess={k: 40.0, c: 0.3, tau: 0.04})
    for name, value in found.parameters.items():
        assert value == pytest.approx(near.parameters[name], rel=1e-5, abs=1e-7)
        row, other = found.parameters.table[name], near.parameters.table[name]
        assert row.standard_error == pytest.approx(other.standard_error, rel=1e-3)
    assert 0.03 < found.estimated_std["gyro"] < 0.07
    assert abs(found.parameters["tau"] - 0.037) < 4 * found.parameters.table["tau"].standard_error
    delays = delays_at(problem.problem.about, problem.layout, found.free_vector)
    assert not fit(problem.trials, delays) and fit(problem.on_grid_of(found).trials, delays)
    error = np.sqrt(problem.covariance(found)[-1, -1])
    assert error == pytest.approx(found.parameters.table["tau"].standard_error, rel=1e-9)
    found.save(tmp_path / "fit.nc")
    again = Solution.load(tmp_path / "fit.nc")
    assert np.sqrt(problem.covariance(again)[-1, -1]) == pytest.approx(error, rel=1e-9)


def test_profile_and_bootstrap():
    """Both pass from interval to interval."""
    trial = experiment(7)
    found = collocation(trial).solve(guess=GUESS)
    row = found.parameters.table["tau"]
    profile = found.profile("tau")
    np.testing.assert_allclose(
        [profile.low, profile.high], [row.low, row.high], atol=0.03 * row.standard_error
    )
    expected = by_closed_form(trial)[0]
    assert row.value == pytest.approx(expected[3], rel=1e-6)
    resampled = found.bootstrap(records=4, seed=0)
    assert resampled.failed == 0


def test_one_per_trial_and_a_channel_that_one_lacks():
    """Delays by owner; the third trial has no gyroscope."""
    late = (0.02, 0.061)
    trials = [experiment(j, late=d) for j, d in enumerate(late)]
    trials.append(ks.Experiment(TIME, measurements={x: record(9)[0]}, std={x: 0.01}))
    unknown = {**UNKNOWN, tau: ks.per_trial(0.0, 0.1)}
    found = collocation(trials, unknown=unknown).solve(guess=GUESS)
    assert found.success and found.parameters["tau[2]"] == pytest.approx(0.01, abs=0.1)
    for j, d in enumerate(late):
        row = found.parameters.table[f"tau[{j}]"]
        assert 0.0 < row.standard_error < 2e-3
        assert abs(row.value - d) < 4 * row.standard_error


@pytest.mark.parametrize("way", ["number", "known", "per trial"])
def test_known_delays(way):
    """The times of what samples show are shifted; collocation and shooting agree."""
    trial = experiment(2)
    delay = 0.037 if way == "number" else tau
    given = {"sensors": {"gyro": ks.sensor(v, bias=b, delay=delay)}}
    given["unknown"] = {name: UNKNOWN[name] for name in (k, c, b)}
    if way == "known":
        given["known"] = {tau: 0.037}
    if way == "per trial":
        trial = ks.Experiment(TIME, {}, trial.measured, STD, parameters={tau: 0.037})
    found = collocation(trial, **given).solve(guess={k: 30.0, c: 0.1})
    start = {"initial": {x: None, v: None}}
    fitted = ks.Shooting(MODEL, trial, **given, **start).solve({k: 40.0, c: 0.3, b: 0.0, x: 1.0})
    assert found.success and fitted.success
    for name in "kcb":
        assert fitted.parameters[name] == pytest.approx(found.parameters[name], rel=1e-5)
        row = found.parameters.table[name]
        assert abs(row.value - TRUE[name]) < 4 * row.standard_error
    for result in (found, fitted):
        assert [note for note in result.notes if note.startswith("4 samples of gyro count as")]


def test_of_a_model_itself_and_unknown_duration():
    """An output with a delay; times are shares of the duration, delays are seconds."""
    model = ks.Model(
        "late", [x, v], [], [k, c, tau], MODEL.equations, outputs={"gyro": ks.sensor(v, delay=tau)}
    )
    shares = np.linspace(0.0, 1.0, 61)
    rows = motion(5.0 * shares, 4.0, 0.3, 1.0, 0.2)[0], 5.0 * shares - 0.2
    samples = {x: rows[0], "gyro": motion(rows[1], 4.0, 0.3, 1.0, 0.2)[1]}
    trial = ks.Experiment(
        nodes=61, duration=(4.0, 6.0), measurements=samples, std={x: 0.01, "gyro": 0.01}
    )
    given = {"unknown": {tau: (0.0, 0.5)}, "known": {k: 4.0, c: 0.3}, "scheme": "radau-5"}
    found = ks.Collocation(model, trial, **given).solve()
    assert found.parameters["tau"] == pytest.approx(0.2, rel=1e-5)
    assert found.trials[0].time[-1] == pytest.approx(5.0, rel=1e-6)
    with pytest.raises(ValueError, match="output twice contains a sensor with a delay; it must be"):
        model.extended(outputs={"twice": 2 * ks.sensor(v, delay=tau)})


def test_finer_grids():
    """The error of the grid, and grids that are better: samples stay."""
    trial = experiment(4)
    coarse = collocation(trial, scheme="radau-1")
    found = coarse.solve(guess=GUESS)
    fine = coarse.solve(found, tolerance_grid=2e-2)
    assert len(fine.trials[0].time) > 151 and len(fine.trials[0].timed["gyro"].time) == 141
    expected = by_closed_form(trial)[0]
    here, there = (abs(s.parameters["tau"] - expected[3]) for s in (found, fine))
    assert there < 0.5 * here


@pytest.mark.parametrize(
    ("sensors", "unknown", "words"),
    [
        (ks.sensor(v, delay=5.0), {}, "no sample of gyro in trial 0 shows the time of the exp"),
        (ks.sensor(v, delay=tau), {tau: (2.0, 3.0)}, "with its delay of 2 ... 3 s; give the del"),
        (ks.sensor(v, delay=tau), {tau: None}, "delay tau of sensor gyro is unknown and needs bo"),
        (ks.sensor(v, delay=tau), {tau: ks.log_scale(0.1)}, "is unknown and needs bounds"),
        (ks.sensor(v, delay=tau), {}, "parameter tau has no value; give known="),
        (2 * ks.sensor(v, delay=tau), {}, "sensor gyro contains a sensor with a delay of its own"),
    ],
)
def test_delays_that_do_not_fit(sensors, unknown, words):
    trial = experiment(0)
    for kind, more in ((ks.Collocation, {}), (ks.Shooting, {"initial": {x: 1.0, v: 0.0}})):
        with pytest.raises(ValueError, match=words):
            kind(
                MODEL,
                trial,
                unknown={k: (1, 99), **unknown},
                known={c: 0.3},
                sensors={"gyro": sensors},
                **more,
            )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"delay": 2 * tau},
            r"the delay of ks.sensor is 2\*tau; it must be a number of seconds or",
        ),
        ({"delay": x}, r"the delay of ks.sensor is x\(t\); it must be"),
        ({"delay": ks.t}, "the delay of ks.sensor is t; it must be"),
        ({"delay": "late"}, "delay of ks.sensor is text"),
        (
            {"bias": ks.sensor(x, delay=0.1)},
            "bias of ks.sensor is a sensor with a delay of its own",
        ),
    ],
)
def test_delays_that_are_none(arguments, words):
    with pytest.raises(ValueError, match=words):
        ks.sensor(v, **arguments)
    assert ks.sensor(v, delay=0) == v


def test_what_cannot_move():
    trial, start = experiment(0), {"initial": {x: 1.0, v: 0.0}}
    bouncing = ks.hybrid.Hybrid(
        MODEL, events=[ks.hybrid.Event("bounce", x + 2, direction=-1, resets={v: -v})]
    )
    with pytest.raises(ValueError, match="delay tau of sensor gyro is unknown, and states of a hy"):
        ks.Shooting(bouncing, trial, UNKNOWN, sensors=LATE, **start)
    pushed = ks.Experiment(TIME, measurements=dict(trial.measured), std=STD)
    with pytest.raises(ValueError, match="delay of sensor gyro is unknown, beside process noise"):
        ks.Collocation(driven(), pushed, UNKNOWN, sensors=LATE, noise={F: (0.01, 1.0)})
    drawn = {**UNKNOWN, b: ks.per_trial(ks.normal(None, None))}
    with pytest.raises(ValueError, match="delay of sensor gyro is unknown, beside a distribution"):
        collocation([trial, trial], unknown=drawn)
    with pytest.raises(ValueError, match="gyro is measured at times of its own, which become"):
        given = {"sensors": LATE, "known": {b: 0.0}, "unknown_inputs": {F: None}}
        ks.Shooting(driven(), pushed, {tau: (0, 0.1), k: None, c: None}, **given, **start)


# -- shooting ---------------------------------------------------------------------------------


def shooting(trials, **more):
    given = {"unknown": UNKNOWN, "sensors": LATE, "initial": {x: None, v: None}, **more}
    return ks.Shooting(MODEL, trials, **given)


START = {**GUESS, b: 0.0, x: 1.0, v: 0.1}


def test_shooting_finds_the_same():
    """By all optimisers, with the errors of the closed form; a profile, other records."""
    trial = experiment(0)
    task, (expected, errors) = shooting(trial), by_closed_form(trial)
    for optimizer in ("bfgs", "least-squares", "ipopt"):
        found = task.solve(START, optimizer)
        assert found.success
        np.testing.assert_allclose(list(found.parameters.values()), expected[:4], rtol=1e-5)
    row = found.parameters.table["tau"]
    names = ("k", "c", "b", "tau")
    spread = [found.parameters.table[name].standard_error for name in names]
    np.testing.assert_allclose(spread, errors[:4], rtol=1e-4)
    assert [note for note in found.notes if note.startswith("10 samples of gyro count as missing")]
    run = found.trials[0]
    np.testing.assert_allclose(run.timed["gyro"].time, TIME[10:] - row.value, atol=1e-12)
    parts = np.concatenate(list(run.residuals().values()))
    assert parts @ parts == pytest.approx(found.objective, rel=1e-9)
    profile = found.profile("tau")
    np.testing.assert_allclose([profile.low, profile.high], [row.low, row.high], rtol=1e-3)
    assert found.bootstrap(records=3, seed=0).failed == 0
    both = [found, collocation(trial).solve(guess=GUESS)]
    robust = [each.intervals(method="sandwich").table["tau"].standard_error for each in both]
    assert robust[0] == pytest.approx(robust[1], rel=5e-3)  # samples are of the same instants
    with pytest.raises(ValueError, match="no continuous adjoint of sensors with an unknown delay"):
        task.gradient(START, "continuous-adjoint")


@pytest.mark.parametrize(
    ("more", "objective"),
    [
        ({}, None),
        ({"segments": 3, "substeps": 2}, None),
        ({"method": "radau-3"}, ks.LeastSquares(loss="pseudo-huber")),
    ],
)
def test_gradients_of_shooting(more, objective):
    """Adjoint, tangents, residuals; and of what belongs to steps by complex step. The other channel
    has times of its own that are nodes."""
    own = np.sort(np.random.default_rng(1).uniform(0.0, 1.5, 200))
    rows = {
        x: ks.Signal(own[::4], record(2, own[::4])[0]),
        "gyro": ks.Signal(own, record(1, own=own)[1]),
    }
    trial = ks.Experiment(TIME, measurements=rows, std=STD)
    task = shooting(trial, objective=objective, **more)
    assert task.trials[0].n_nodes == 201 and list(task.trials[0].timed) == ["gyro"]
    q = task.pack(START)
    adjoint, scale = task.gradient(q), np.abs(task.gradient(q)).max()
    np.testing.assert_allclose(adjoint, task.gradient(q, "forward"), rtol=1e-9, atol=1e-12 * scale)
    r = task.residuals(q)
    assert r @ r == pytest.approx(task.cost(q), rel=1e-12)
    np.testing.assert_allclose(
        adjoint, 2.0 * r @ task.residual_jacobian(q), rtol=1e-9, atol=1e-12 * scale
    )
    steps = 1e-5 * np.eye(len(q))[:4]
    ways = [(task.cost(q + e) - task.cost(q - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(adjoint[:4], ways, rtol=1e-5, atol=1e-6 * scale)
    program = shooting_program(task.symbolic, more.get("method", "rk4"))
    rng, nlp = np.random.default_rng(0), task._trials.nlp
    assert_exact(of_intervals(program), nlp, rng.uniform(0.5, 1.5, nlp.n_variables))


def test_shooting_with_an_input_and_that_channel_alone():
    """The input is on straight lines; nothing else is measured."""
    push = ks.Signal(TIME, np.sin(5 * TIME))
    start, values = {x: 0.3, v: 0.0}, {k: 40.0, c: 0.3}
    dense = np.linspace(0.0, 1.5, 1501)
    run = ks.simulate(driven(), dense, start, values, {F: push}, method="dormand-prince")
    shown = run["v"] + 0.2 * run.inputs["F"]
    y = np.interp(TIME - 0.042, dense, shown)
    trial = ks.Experiment(TIME, {F: push}, {"load": y}, {"load": 0.01})
    given = {"known": values, "sensors": {"load": ks.sensor(v + F / 5, delay=tau)}}
    unknown = {tau: (0.0, 0.1)}
    fitted = ks.Shooting(driven(), trial, unknown, **given, initial=start).solve({tau: 0.01})
    assert fitted.parameters["tau"] == pytest.approx(0.042, abs=2e-6)
