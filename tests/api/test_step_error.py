"""The error of the steps of a simulation: against closed forms, and an independent integrator."""

import copy
import pickle
import warnings

import matplotlib
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import kinesym as ks
from kinesym.hybrid import Contact, Event, Hybrid
from kinesym.symbolic.schemes import ADAPTIVE, SCHEMES

matplotlib.use("Agg")

t = ks.t
x, v, y, u, push = ks.dynamicsymbols("x v y u push")
k, c = sp.symbols("k c")
FIXED = ["rk4", *(name for name in dict.fromkeys(s.name for s in SCHEMES.values()))]
FIXED = [name for name in FIXED if name not in ADAPTIVE]
CHOSEN = ["dormand-prince", "radau-5"]
#: Steps in 3 s of a damped oscillator, from rough to so fine that rounding is still far away.
ROUGH = {1: (200, 2000), 2: (20, 500), 3: (15, 200), 4: (12, 100), 6: (8, 20)}
DAMPED = ks.Model(
    "damped", [x, v], [u], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - u], values={c: 0.4}
)


def within(estimate, true, factor=3.0):
    """Of each state at its largest."""
    sizes = np.abs(estimate).max(axis=-1) / np.abs(true).max(axis=-1)
    return bool(((sizes > 1 / factor) & (sizes < factor)).all())


def damped(time, stiffness=9.0):
    """From x = 1 at rest, without input, c = 0.4."""
    w = np.sqrt(stiffness - 0.04)
    fade = np.exp(-0.2 * time)
    return np.array(
        [
            fade * (np.cos(w * time) + 0.2 / w * np.sin(w * time)),
            -fade * stiffness / w * np.sin(w * time),
        ]
    )


def exact(rates, start, time, **more):
    """By SciPy, nearly to rounding."""
    tight = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-15, **more}
    return solve_ivp(rates, (time[0], time[-1]), start, t_eval=time, **tight).y


def states(result, names):
    return np.array([result[name] for name in names])


# -- smooth models --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", FIXED)
def test_fixed_steps(method):
    order = 4 if method == "rk4" else SCHEMES[method].order
    for count in np.geomspace(*ROUGH[order], 3).astype(int):
        for substeps in (1, 2):
            time = np.linspace(0.0, 3.0, count // substeps + 1)
            run = ks.simulate(
                DAMPED, time, {x: 1, v: 0}, {k: 9.0}, {u: 0.0}, method=method, substeps=substeps
            )
            error, true = run.error(), damped(time) - states(run, "xv")
            assert within(states(error.states, "xv"), true, 1.5)
            assert error.method == method and error.steps == "steps halved" and not error.message


@pytest.mark.parametrize("method", CHOSEN)
@pytest.mark.parametrize("nodes", [4, 301])
def test_tolerances(method, nodes):
    """Also where values at nodes are those of the dense output, between the ends of steps."""
    time = np.linspace(0.0, 3.0, nodes)
    for rtol in (1e-4, 1e-7, 1e-10):
        tolerances = {"method": method, "rtol": rtol, "atol": rtol / 100}
        run = ks.simulate(DAMPED, time, {x: 1, v: 0}, {k: 9.0}, {u: 0.0}, **tolerances)
        error = run.error()
        assert within(states(error.states, "xv"), damped(time) - states(run, "xv"))
        assert error.steps == "tolerances divided by 100"


@pytest.mark.parametrize("method", ["rk4", "radau-1", "gauss-4", *CHOSEN])
def test_growth(method):
    """x' = x - y with y = 0.5 x an algebraic state, where the method knows those: exp(t / 2)."""
    explicit = method in ("rk4", "dormand-prince")
    equations = [x.diff(t) - x / 2] if explicit else [x.diff(t) - x + y, y - x / 2]
    model = ks.Model("growth", [x] if explicit else [x, y], [], [], equations)
    time = np.linspace(0.0, 4.0, 81)
    loose = {"rtol": 1e-6} if method in CHOSEN else {}
    run = ks.simulate(model, time, dict.fromkeys(model.states, 1.0), method=method, **loose)
    estimate, true = run.error().states["x"], np.exp(time / 2) - run["x"]
    assert within(estimate, true, 1.5 if method not in CHOSEN else 3.0)
    np.testing.assert_allclose(run["x"] + estimate, np.exp(time / 2), rtol=2e-3)


@pytest.mark.parametrize("method", ["rk4", "gauss-6", "dormand-prince"])
def test_inputs(method):
    """One that bends counts with its parabolas, jumps between the nodes are hit, samples are joined
    by straight lines."""
    time = np.linspace(0.0, 5.0, 51)
    bent = ks.Signal(np.linspace(0.0, 5.0, 11), np.sin(np.arange(11)), between="cubic")
    jumping = ks.Signal([0.0, 1.234, 2.5], [0.0, 1.0, -1.0], between="held")
    fine = np.linspace(0.0, 5.0, 5001)
    for value in (bent, jumping, np.sin(3 * time)):
        given = {"initial": {x: 1.0, v: 0.0}, "parameters": {k: 9.0}}
        loose = {"rtol": 1e-6} if method in CHOSEN else {}
        run = ks.simulate(DAMPED, time, inputs={u: value}, method=method, **loose, **given)
        signal = value if isinstance(value, ks.Signal) else ks.Signal(time, value)
        best = ks.simulate(DAMPED, fine, inputs={u: signal}, method="gauss-6", **given)
        true = states(best, "xv")[:, ::100] - states(run, "xv")
        assert within(states(run.error().states, "xv"), true, 1.5)


def van_der_pol(stiffness):
    model = ks.Model(
        "vdp", [x, v], [], [], [x.diff(t) - v, v.diff(t) - stiffness * (1 - x**2) * v + x]
    )
    return model, lambda s, z: [z[1], stiffness * (1 - z[0] ** 2) * z[1] - z[0]]


@pytest.mark.parametrize("method", ["rk4", "gauss-4", "radau-3", *CHOSEN])
def test_van_der_pol(method):
    time = np.linspace(0.0, 10.0, 401)
    model, rates = van_der_pol(3.0)
    loose = {"rtol": 1e-7, "atol": 1e-9} if method in CHOSEN else {}
    run = ks.simulate(model, time, {x: 2.0, v: 0.0}, method=method, **loose)
    assert within(
        states(run.error().states, "xv"), exact(rates, [2.0, 0.0], time) - states(run, "xv")
    )


def test_stiff_van_der_pol():
    time = np.linspace(0.0, 2.0, 201)
    model, rates = van_der_pol(1000.0)
    given = {"method": "radau-5", "rtol": 1e-6, "atol": 1e-8}
    run = ks.simulate(model, time, {x: 2.0, v: -0.66}, **given)
    best = exact(rates, [2.0, -0.66], time, method="Radau", rtol=1e-12, atol=1e-13)
    assert within(run.error().states["x"], best[0] - run["x"])


@pytest.mark.parametrize("method", ["rk4", "lobatto-4", "dormand-prince"])
def test_double_pendulum(method):
    """Two equal links in their residual form, let go high."""
    a, b, p, q = ks.dynamicsymbols("a b p q")
    turn = [
        2 * p.diff(t) + sp.cos(a - b) * q.diff(t) + sp.sin(a - b) * q**2 + 20 * sp.sin(a),
        q.diff(t) + sp.cos(a - b) * p.diff(t) - sp.sin(a - b) * p**2 + 10 * sp.sin(b),
    ]
    model = ks.Model("double", [a, b, p, q], [], [], [a.diff(t) - p, b.diff(t) - q, *turn])

    def rates(s, z):
        cos, sin = np.cos(z[0] - z[1]), np.sin(z[0] - z[1])
        side = [-sin * z[3] ** 2 - 20 * np.sin(z[0]), sin * z[2] ** 2 - 10 * np.sin(z[1])]
        return [z[2], z[3], *np.linalg.solve([[2, cos], [cos, 1]], side)]

    time, start = np.linspace(0.0, 3.0, 301), [2.0, 2.5, 0.0, 0.0]
    begin = dict(zip(model.states, start, strict=True))
    loose = {"rtol": 1e-8, "atol": 1e-10} if method in CHOSEN else {}
    run = ks.simulate(model, time, begin, method=method, **loose)
    true = exact(rates, start, time) - states(run, "abpq")
    assert within(states(run.error().states, "abpq"), true)


def test_an_ensemble():
    time, values = np.linspace(0.0, 3.0, 61), np.array([1.0, 4.0, 9.0, 16.0, 25.0])
    for method in ("rk4", "gauss-2", "dormand-prince"):
        loose = {"rtol": 1e-6} if method in CHOSEN else {}
        runs = ks.simulate(
            DAMPED, time, {x: 1, v: 0}, {k: values}, {u: 0.0}, method=method, **loose
        )
        error = runs.error()
        true = np.array([damped(time, value) for value in values]) - np.moveaxis(
            states(runs, "xv"), 0, 1
        )
        assert within(np.moveaxis(states(error.states, "xv"), 0, 1), true)
        share, name, at, member = error.worst
        worst = np.abs(error.states[name][:, time == at]).max() / np.ptp(runs[name])
        assert share == error.largest == pytest.approx(worst) and member == 4
    assert "of member 4" in str(error)
    rows = np.sin(time) * np.arange(5.0)[:, None]  # inputs of members, with a jump of another one
    other = ks.Model("two", [x], [u, y], [], [x.diff(t) - u - y])
    jump = ks.Signal([0.0, 1.234], [0.0, 1.0], between="held")
    runs = ks.simulate(other, time, {x: 0.0}, None, {u: rows, y: jump}, method="rk4")
    assert runs.error().largest < 1e-14


# -- events ---------------------------------------------------------------------------------------

WALL = Hybrid(
    ks.Model("wall", [x, v], [push], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c - push]),
    contacts=[Contact("wall", x, push, restitution=0.8)],
)


def bounces(time, w=4.0):
    """A spring that pulls a mass into a wall at its rest, from x = 1: the impacts are at
    (n + 1/2) pi / w."""
    number = np.floor(w * time / np.pi + 0.5)
    phase, amplitude = w * time + np.pi / 2 - number * np.pi, 0.8**number
    return amplitude * np.array([np.sin(phase), w * np.cos(phase)])


@pytest.mark.parametrize("method", ["rk4", "trapezoid", "dormand-prince"])
@pytest.mark.parametrize("nodes", [7, 101])
def test_impacts_that_shift(method, nodes):
    time = np.linspace(0.0, 5.0, nodes)
    for substeps, rtol in ((1, 1e-5), (4, 1e-9)):
        parts, tolerances = {"substeps": substeps * 700 // nodes}, {"rtol": rtol, "atol": rtol}
        given = {"method": method, **(tolerances if method in CHOSEN else parts)}
        run = ks.simulate(WALL, time, {x: 1.0, v: 0.0}, {k: 16.0, c: 0.0}, **given)
        error, true = run.error(), bounces(time) - states(run, "xv")
        known = np.isfinite(error.states["x"])
        assert known.sum() > nodes - 3
        assert within(states(error.states, "xv")[:, known], true[:, known])
        late = [(n + 0.5) * np.pi / 4 - e.time for n, e in enumerate(run.events)]
        assert len(late) == 6 and within(error.events, np.array(late))
        assert f"events by {np.abs(error.events).max():.2g} s" in str(error)


@pytest.mark.parametrize("method", ["rk4", "trapezoid", "dormand-prince"])
def test_a_jump_is_no_error(method):
    """A ball whose parabolas all methods follow exactly, with nodes at impacts, which are before
    them in one run and after them in another; it comes to rest."""
    first = np.sqrt(2.0 / 9.81)
    time = np.append(np.linspace(0.0, first * (1 + 2 * 0.8), 105), np.linspace(2.0, 6.0, 9))
    run = ks.simulate(WALL, time, {x: 1.0, v: 0.0}, {k: 0.0, c: 9.81}, method=method)
    error = run.error()
    assert len(run.events) > 30 and run["x"][-1] == 0.0
    assert error.largest < 1e-12 and np.abs(error.events).max() < 1e-12
    assert np.isnan(error.states["x"]).sum() <= 3


def test_an_event_at_the_end():
    """The run is late for its last impact, so that only the finer one has it: a node that is not
    known, not another way to go."""
    time = np.linspace(0.0, 1.5 * np.pi / 4 + 5e-6, 26)
    run = ks.simulate(WALL, time, {x: 1.0, v: 0.0}, {k: 16.0, c: 0.0}, method="rk4")
    error = run.error()
    assert len(run.events) == len(error.events) == 1 and not error.message
    assert np.flatnonzero(np.isnan(error.states["x"])).tolist() == [25] and error.largest < 1e-4


def test_other_events():
    """Steps so long that the finer run goes another way: known up to there."""
    turn = Event("turn", v - sp.Rational(1, 1000), direction=-1)
    system = Hybrid(
        ks.Model("rare", [x, v], [], [], [x.diff(t) - v, v.diff(t) + 40 * x + 4 * v]), events=[turn]
    )
    time = np.linspace(0.0, 6.0, 31)
    run = ks.simulate(system, time, {x: 1.0, v: 0.0}, method="trapezoid")
    error = run.error()
    assert "goes through other events: event turn" in error.message and error.message in str(error)
    unknown = np.isnan(error.states["x"])
    assert unknown[-1] and not unknown[:5].any()
    assert np.isfinite(error.events[0]) and np.isnan(error.events[-1])


def test_an_ensemble_with_events():
    time, starts = np.linspace(0.0, 5.0, 101), np.array([0.5, 1.0, 2.0])
    runs = ks.simulate(WALL, time, {x: starts, v: 0.0}, {k: 16.0, c: 0.0}, method="rk4")
    error = runs.error()
    assert within(error.states["x"], starts[:, None] * bounces(time)[0] - runs["x"])
    assert error.events.shape == (3, 6)
    np.testing.assert_allclose(error.events, np.tile(error.events[0], (3, 1)), rtol=1e-3)


@pytest.mark.parametrize("system", ["smooth", "bouncing"])
def test_a_run_that_goes_on(system):
    """From where the first part ended, for which that is exact."""
    time = np.linspace(0.0, 4.0, 81)
    if system == "smooth":
        model, true, given = DAMPED, damped, {"parameters": {k: 9.0}, "inputs": {u: 0.0}}
    else:
        model, true, given = WALL, bounces, {"parameters": {k: 16.0, c: 0.0}}
    best = {"method": "dormand-prince", "rtol": 1e-12, "atol": 1e-13}
    first = ks.simulate(model, time[:41], {x: 1.0, v: 0.0}, **given, **best)
    run = ks.simulate(model, time[40:], first.final, **given, method="rk4")
    assert within(states(run.error().states, "xv"), true(time)[:, 40:] - states(run, "xv"), 1.5)


# -- what is said ---------------------------------------------------------------------------------


def test_a_constant_state_does_not_count():
    """Rounding of what hardly moves, or is next to nothing, is no error of 100 %."""
    still = ks.Model(
        "still", [x, v, y], [], [], [x.diff(t) - v, v.diff(t) + x, y.diff(t) - x * 1e-16]
    )
    error = ks.simulate(still, np.linspace(0, 3, 31), {x: 1.0, v: 0.0, y: 1.0}).error()
    assert error.worst.state in "xv" and np.abs(error.states["y"]).max() < 1e-14
    rest = ks.simulate(still, [0.0, 1.0], {x: 0.0, v: 0.0, y: 0.0}).error()
    assert rest.largest == 0.0 and str(rest) == "none that could be seen (steps halved)"
    rest.plot()


def test_a_run_that_ended_early():
    model = ks.Model("blast", [x], [], [], [x.diff(t) - x**2])
    with pytest.warns(UserWarning, match="blast"):
        run = ks.simulate(model, np.linspace(0.0, 2.0, 41), {x: 1.0}, method="dormand-prince")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = run.error()
    assert len(error.time) == len(run.time) and np.isfinite(error.states["x"][:-1]).all()


def test_tolerances_at_rounding():
    given = {"method": "dormand-prince", "atol": 1e-14}
    run = ks.simulate(DAMPED, [0.0, 1.0], {x: 1, v: 0}, {k: 9.0}, {u: 0.0}, rtol=1e-13, **given)
    assert run.error().steps == "tolerances divided by 10"
    run = ks.simulate(DAMPED, [0.0, 1.0], {x: 1, v: 0}, {k: 9.0}, {u: 0.0}, rtol=2e-14, **given)
    with pytest.raises(ValueError, match="rtol must be at least 1e-13 for that, it is 2e-14"):
        run.error()


def test_saved_and_drawn(tmp_path):
    time = np.linspace(0.0, 3.0, 61)
    run = ks.simulate(DAMPED, time, {x: 1, v: 0}, {k: 9.0}, {u: 0.0})
    runs = ks.simulate(DAMPED, time, {x: 1, v: 0}, {k: [4.0, 9.0]}, {u: 0.0})
    part = run.between(1.0, 2.0).error()
    np.testing.assert_allclose(part.states["x"], run.error().states["x"][20:41])
    for result in (run, runs):
        error = result.error()
        assert str(error) in repr(error) and error.method == "rk4"
        error.save(tmp_path / "error.nc")
        again = type(error).load(tmp_path / "error.nc")
        assert repr(again) == repr(error)
        np.testing.assert_array_equal(again.states["v"], error.states["v"])
        assert [a.get_yscale() for a in error.plot().axes] == ["log", "log"]
        assert len(error.plot([x]).axes) == 1
        result.save(tmp_path / "run.nc")
        loaded = type(result).load(tmp_path / "run.nc")
        for other in (loaded, pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            np.testing.assert_array_equal(other["x"], result["x"])
            with pytest.raises(ValueError, match="only what ks"):
                other.error()
    with pytest.raises(ValueError, match="split into members"):
        runs.member(0).error()


# -- algebraic states that leave their solution ---------------------------------------------------


def titrated(scale=1.0):
    """An acid of 0.1 mol/l to which a base flows (mol/l, times `scale`); its pH jumps where both
    are equal, at t = 2/3 s, and a step may lead to negative concentrations, which solve the
    equations, too."""
    acid, base, H, A, OH, flow = ks.dynamicsymbols("acid base H A OH flow")
    K, water = 1.8e-5 * scale, 1e-14 * scale**2
    balance = [A * H - K * (acid - A), OH * H - water, H + base - A - OH]
    model = ks.Model(
        "titration",
        [acid, base, H, A, OH],
        [flow],
        [],
        [acid.diff(t), base.diff(t) - flow, *balance],
    )
    start = {acid: 0.1 * scale, base: 0.0, H: 1e-3 * scale, A: 1e-3 * scale, OH: 1e-11 * scale}
    return model, start, {flow: 0.15 * scale}


def proton(time):
    """The positive root of the balance of charges [mol/l]."""
    found = []
    for s in time:
        b = 0.15 * s
        cubic = [1.0, 1.8e-5 + b, 1.8e-5 * (b - 0.1) - 1e-14, -1.8e-19]
        found.append(max(np.roots(cubic).real))
    return np.array(found)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("method", [name for name in FIXED if name != "rk4"])
def test_another_solution_is_seen(method, scale):
    """Where a run and a finer one go over to it at the same place, they agree."""
    model, start, flow = titrated(scale)
    time = np.linspace(0.0, 1.0, 101)
    run = ks.simulate(model, time, start, inputs=flow, method=method)
    error = run.error()
    right = np.abs(run["H"] / scale / proton(run.time) - 1.0) < 1e-6
    assert right[time < 0.66].all()
    if right.all():
        assert error.largest < 1e-6
        return
    first = run.time[~right][0]
    assert 0.66 < first < 0.69
    told = "another solution of the equations of H, A, OH" in error.message
    assert told or error.largest > 1.0
    if told:
        assert "not to be trusted from t = 0.66" in error.message
        assert all(np.isnan(row[time > first]).all() for row in error.states.values())
        assert all(np.isfinite(row[time < 0.66]).all() for row in error.states.values())


def test_another_solution_of_some_members():
    model, start, _ = titrated()
    flow = np.outer([0.05, 0.15, 0.1, 0.2], np.ones(101))
    runs = ks.simulate(
        model, np.linspace(0.0, 1.0, 101), start, inputs={"flow": flow}, method="radau-1"
    )
    error = runs.error()
    lost = np.isnan(error.states["H"]).any(axis=1)
    np.testing.assert_array_equal(lost, (runs["H"] < 0).any(axis=1))
    np.testing.assert_array_equal(lost, [False, True, False, False])
    assert error.message.startswith("member 1: not to be trusted from t = ")


def test_small_tolerances_stay_on_the_solution():
    model, start, flow = titrated()
    time = np.linspace(0.0, 1.0, 101)
    run = ks.simulate(model, time, start, inputs=flow, method="radau-5", atol=1e-17)
    assert np.abs(run["H"] / proton(time) - 1.0).max() < 1e-5
    assert not run.error().message
