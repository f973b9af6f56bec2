"""Jumps written as expressions, of time, parameters and states: closed forms, and what is said
where they cannot be followed."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

import kinesym as ks
from kinesym.hybrid import Event, Hybrid
from kinesym.internal.problems.switch_times import signals
from kinesym.symbolic.jumps import Switched, of_time
from kinesym.symbolic.switching import switched

t = ks.t
x, v, on = ks.dynamicsymbols("x v on")
p, q = sp.symbols("p q")
P, END = 1.234, 3.0
TIME = np.linspace(0.0, END, 61)
METHODS = ("rk4", "dormand-prince", "radau-5", "radau-3", "gauss-4", "hermite-simpson")
RELAXING = ks.Model("relaxing", [x], [], [p], [x.diff(t) - sp.Piecewise((1, t < p), (-x, True))])


def driven(f, unknown=()):
    """x' = f - x."""
    return ks.Model("driven", [x], [], list(unknown), [x.diff(t) + x - f])


def answer(f, breaks, end):
    """x(end) from 0, by quadrature between the breaks."""
    edges = [0.0, *(b for b in sorted(breaks) if 0.0 < b < end), end]
    return sum(
        quad(lambda s: f(s) * np.exp(s - end), a, b, epsabs=1e-14, epsrel=1e-13)[0]
        for a, b in pairwise(edges)
    )


def silently(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


# -- jumps of time end steps -----------------------------------------------------------------------

PULSES = {
    "window": (sp.Piecewise((1, (t > 8) & (t < 8.5)), (0, True)), lambda s: 1.0, (8.0, 8.5)),
    "difference": (sp.Heaviside(t - 7.3) - sp.Heaviside(t - 7.31), lambda s: 1.0, (7.3, 7.31)),
    "triangle": (sp.Max(0, 1 - 20 * sp.Abs(t - 8)), lambda s: 1 - 20 * abs(s - 8), (7.95, 8, 8.05)),
    "sine": (sp.Heaviside(sp.sin(t / 2) - 0.9999), lambda s: 1.0, None),
    "steps": (ks.table(t, [0, 8.1, 8.2, 9], [0, 2, 0, 0], kind="step"), lambda s: 2.0, (8.1, 8.2)),
}


@pytest.mark.parametrize("name", PULSES)
def test_pulses_of_time_are_not_stepped_over(name):
    f, inside, edges = PULSES[name]
    half = np.arcsin(0.9999)
    edges = (2 * half, 2 * (np.pi - half)) if edges is None else edges
    exact = sum(quad(lambda s: inside(s) * np.exp(s - 10.0), a, b)[0] for a, b in pairwise(edges))
    for method in ("dormand-prince", "radau-5", "rk4"):
        run = ks.simulate(driven(f), np.linspace(0, 10, 301), {x: 0.0}, method=method)
        assert abs(run["x"][-1] / exact - 1) < 1e-6, method
        assert list(run.inputs) == []


@pytest.mark.parametrize(("power", "slope"), [(0, -1.0), (1, P - END)])
def test_brackets_of_time(power, slope):
    """Macaulay's bracket <t - p>^n as a rate: its integral is <END - p>^(n + 1)/(n + 1); the
    factorial of what is not whole is that of the gamma function."""
    rate = sp.SingularityFunction(t, p, power) * sp.factorial(q)
    model = ks.Model("loaded", [x], [], [p, q], [x.diff(t) - rate])
    run = ks.sensitivities(model, TIME, {x: 0.0}, {p: P, q: 0.5})
    half = np.sqrt(np.pi) / 2
    exact = half * (END - P) ** (power + 1) / (power + 1)
    assert run.run["x"][-1] == pytest.approx(exact, rel=1e-9)
    # what bends is no event, and the steps follow x, not its derivative
    exact = pytest.approx(half * slope, rel=1e-4 if power else 1e-9)
    assert run.forward([p])["x"][0, -1] == exact


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_its_order_over_jumps_between_nodes(method):
    """A saw tooth that switches a decay: f = Mod(t, p), by variation of constants."""
    exact = answer(lambda s: s % P, [P * k for k in range(1, 3)], END)
    errors = []
    for nodes in (16, 31):
        run = ks.simulate(
            driven(sp.Mod(t, p), [p]), np.linspace(0, END, nodes), {x: 0.0}, {p: P}, method=method
        )
        errors.append(abs(run["x"][-1] - exact))
        said = run.error()
        assert abs(said.states["x"][-1]) < 1e-4
    assert errors[1] < 2e-5
    assert errors[0] < 1e-9 or errors[1] < errors[0] / 5.0


def test_members_jump_at_times_of_their_own():
    ends = np.array([1.0, 2.5, 3.333])
    model = driven(sp.Heaviside(p - t), [p])
    runs = ks.simulate(model, np.linspace(0, 10, 201), {x: 0.0}, {p: ends})
    assert np.allclose(runs["x"][:, -1], (1 - np.exp(-ends)) * np.exp(ends - 10), rtol=1e-6)
    many = np.linspace(0.1, 9.0, 2100)
    with pytest.warns(UserWarning, match=r"Heaviside\(p - t\) at 2100 different times"):
        ks.simulate(model, np.linspace(0, 10, 21), {x: 0.0}, {p: many})


def test_more_jumps_than_steps_are_refused():
    with pytest.raises(ValueError, match=r"equation 0 jumps with Mod.*write its average"):
        ks.simulate(driven(sp.Mod(t / sp.Float(1e-9), 1) * 1e-9), TIME, {x: 0.0})


def test_a_hybrid_model_ends_steps_at_jumps_of_its_rates():
    model = ks.Model("m", [x], [on], [], [x.diff(t) - on - sp.Heaviside(t - 2.5) * 10])
    system = Hybrid(model, modes={on: 1}, events=[Event("up", x - 1, 1, sets={on: 0})])
    run = ks.simulate(system, TIME, {x: 0.0}, method="rk4")
    assert run["x"][-1] == pytest.approx(6.0, abs=1e-12)
    assert list(run.inputs) == ["on"]


# -- what an error of steps sees -------------------------------------------------------------------


def test_the_error_of_steps_says_which_jump_it_cannot_see():
    box = ks.Model("box", [v], [], [], [v.diff(t) + 2.94 * sp.sign(v)])
    error = ks.simulate(box, np.linspace(0, 10, 101), {v: 5.0}).error()
    assert np.isnan(error.states["v"][-1]) and error.states["v"][3] < 1e-12
    assert "equation 0 jumps with sign(v)" in str(error) and "Contact" in str(error)
    passing = ks.Model("p", [x], [], [], [x.diff(t) - sp.Piecewise((1, x < 1), (2, True))])
    error = ks.simulate(passing, TIME, {x: 0.03}, method="dormand-prince").error()
    assert "equation 0 jumps with Piecewise" in error.message and np.isfinite(error.largest)


def test_what_only_bends_has_an_error_as_ever():
    bent = ks.Model("b", [x, v], [], [], [x.diff(t) - v, v.diff(t) + 9 * x + sp.sign(v) * v**2])
    error = ks.simulate(bent, TIME, {x: 1.0, v: 0.0}).error()
    assert not error.message and error.largest < 1e-4


@pytest.mark.parametrize("method", ["dormand-prince", "radau-5"])
def test_smooth_pulses_that_are_stepped_over_are_seen_by_the_error(method):
    pulse = sp.exp(-(((t - 8) / sp.Float(0.05)) ** 2))
    run = ks.simulate(driven(pulse), np.linspace(0, 10, 501), {x: 0.0}, method=method)
    exact = answer(lambda s: np.exp(-(((s - 8) / 0.05) ** 2)), [7.6, 8.0, 8.4], 10.0)
    assert run["x"][-1] + run.error().states["x"][-1] == pytest.approx(exact, rel=1e-6)


# -- derivatives across jumps ----------------------------------------------------------------------

#: x' = f; d x(3)/d p in closed form, from x(0) = 0.1.
FALLING = sp.Piecewise((1, x < p), (0.3, True))
SLOPES = {
    "piecewise": (sp.Piecewise((1, t < p), (-x, True)), (1.1 + P) * np.exp(P - END)),
    "heaviside": (sp.Heaviside(p - t), 1.0),
    "sign": (sp.sign(t - p), -2.0),
    "floor": (sp.floor(t / p), -3.0),
    "falling floor": (sp.floor(p - t), 3.0),
    "ceiling": (sp.ceiling(t / p), -3.0),
    "saw tooth": (sp.Mod(t, p), 2 * P - 2 * (END - 2 * P)),  # p^2 + (3 - 2 p)^2/2
    "table": (ks.table(t / p, [0, 1, 2], [3.0, 4.0, 7.0], kind="step"), -7.0),
    "window": (sp.Piecewise((1, (t > p / 2) & (t < p)), (0, True)), 0.5),
    "duty": (sp.Piecewise((1, sp.Mod(t, 1) < p / 2), (0, True)), 1.5),
    "state": (FALLING, 0.7),
    "sine": (sp.Heaviside(sp.sin(sp.pi * t / p)), -1.0),  # positive up to p, and from 2 p on
}


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("method", ["dormand-prince", "rk4"])
def test_derivatives_have_the_term_of_a_jump(name, method):
    f, exact = SLOPES[name]
    model = ks.Model("m", [x], [], [p], [x.diff(t) - f])
    found = ks.sensitivities(model, TIME, {x: 0.1}, {p: P}, method=method)
    assert found.forward([p]).states["x"][0, -1] == pytest.approx(exact, abs=1e-7)
    assert found.gradient("x").parameters["p"] == pytest.approx(exact, abs=1e-7)
    assert list(found.run.inputs) == [] and len(found.run.events) > 0


def test_derivatives_by_the_start_have_it_too():
    """x' = 1 up to x = p, then 0.3: d x(3)/d x(0) = 0.3, second derivatives are none."""
    model = ks.Model("m", [x], [], [p], [x.diff(t) - FALLING])
    found = ks.sensitivities(model, TIME, {x: 0.1}, {p: P}).gradient("x")
    assert found.initial["x"] == pytest.approx(0.3, abs=1e-9)


@pytest.mark.parametrize(("length", "long"), [(1e-9, 1.0), (1e6, 1.0), (1.0, 1e-6), (1.0, 1e6)])
def test_jumps_of_all_sizes_are_found(length, long):
    """x' = a up to x = p, then a/2, over 3 units of time: d x/d p = 1/2."""
    rate = length / long * sp.Piecewise((1, x < p), (sp.Rational(1, 2), True))
    model = ks.Model("m", [x], [], [p], [x.diff(t) - rate])
    found = ks.sensitivities(model, long * TIME, {x: 0.0}, {p: length}, atol=1e-12 * length)
    assert found.run["x"][-1] / length == pytest.approx(2.0, abs=1e-9)
    assert found.gradient("x").parameters["p"] == pytest.approx(0.5, abs=1e-7)


def test_a_motion_that_slides_along_a_jump_says_so():
    box = ks.Model("box", [v], [], [q], [v.diff(t) + q * sp.sign(v)])
    with pytest.warns(UserWarning, match=r"jumps with sign\(v\), and from t = 1"):
        found = ks.sensitivities(box, TIME, {v: 1.0}, {q: 1.0})
    assert found.run.final.time == pytest.approx(1.0)


def test_delayed_sensitivities_name_a_jump_that_they_lack():
    late = ks.delayed(x, 0.5)
    model = ks.Model("m", [x], [], [p], [x.diff(t) + late - sp.Heaviside(p - t)])
    with pytest.warns(UserWarning, match=r"Heaviside\(p - t\).* the unknown p moves"):
        ks.sensitivities(model, TIME, {x: 0.0}, {p: P})


# -- fits ------------------------------------------------------------------------------------------


def relaxed(a=P):
    return np.where(a > TIME, TIME, a * np.exp(-(TIME - a)))


def record(clean=None, name="x"):
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(TIME))
    clean = relaxed() if clean is None else clean
    return ks.Experiment(TIME, measurements={name: clean + noise}, std={name: 0.01})


def test_shooting_finds_a_switching_time():
    """Against the minimum of the closed form."""
    from scipy.optimize import minimize_scalar

    trial = record()
    best = minimize_scalar(
        lambda a: ((relaxed(a) - trial.measurements["x"]) ** 2).sum(),
        bounds=(1.2, 1.27),
        method="bounded",
        options={"xatol": 1e-10},
    )
    problem = ks.Shooting(RELAXING, trial, {p: (0.1, 2.9)}, initial={x: 0.0})
    fit = problem.solve({p: 1.6}, optimizer="least-squares")
    assert fit.success and fit.parameters["p"] == pytest.approx(best.x, abs=1e-7)
    slope = (1 + P) * np.exp(-(TIME - P)) * (TIME > P)
    assert fit.standard_errors()["p"] == pytest.approx(0.01 / np.sqrt(slope @ slope), rel=0.02)
    many = problem.multistart(3, guess={p: 1.6})
    assert many.best.parameters["p"] == pytest.approx(best.x, abs=1e-6)


#: Ways in which the jump is not in the derivatives.
LACKING = {
    "collocation": lambda m, e: ks.Collocation(m, e, {p: (0.1, 2.9)}).solve({p: 1.6}),
    "implicit": lambda m, e: ks.Shooting(
        m, e, {p: (0.1, 2.9)}, initial={x: 0.0}, method="radau-3"
    ).solve({p: 1.6}),
    "segments": lambda m, e: ks.Shooting(m, e, {p: (0.1, 2.9)}, initial={x: 0.0}, segments=2).solve(
        {p: 1.6}, optimizer="ipopt"
    ),
}


@pytest.mark.parametrize("way", LACKING)
def test_a_fit_without_the_term_is_no_success(way):
    fit = silently(lambda: LACKING[way](RELAXING, record()))
    assert not fit.success
    assert "Piecewise" in fit.message and "the unknown p moves" in fit.message
    assert "not identifiable" not in str(fit) and "does not depend" not in str(fit)
    with pytest.raises(ValueError, match=r"Piecewise|converge"):
        fit.intervals(method="profile")


def test_many_starts_of_collocation_without_the_term_find_none():
    found = silently(lambda: ks.Collocation(RELAXING, record(), {p: (0.1, 2.9)}).multistart(2))
    assert "none of which found a solution" in str(found)


def test_a_measured_output_that_jumps_with_an_unknown_is_no_success():
    model = ks.Model("m", [x], [], [p], [x.diff(t) - 1], outputs={"y": x * sp.Heaviside(t - p)})
    trial = record(TIME * (TIME > P), "y")
    with pytest.warns(UserWarning, match=r"output y jumps with Heaviside"):
        problem = ks.Shooting(model, trial, {p: (0.1, 2.9)}, initial={x: 0.0})
    fit = problem.solve({p: 1.5})
    assert not fit.success and "output y jumps" in fit.message


def test_shooting_finds_a_threshold_of_a_state():
    model = ks.Model("m", [x], [], [p, q], [x.diff(t) - sp.Piecewise((q, x < p), (0.3 * q, True))])
    clean = np.minimum(TIME, 1.0) + 0.3 * np.maximum(TIME - 1.0, 0.0)
    unknown = {p: (0.1, 3), q: (0.1, 3)}
    fit = ks.Shooting(model, record(clean), unknown, initial={x: 0.0}).solve({p: 1.4, q: 0.8})
    assert fit.success
    errors = fit.standard_errors()
    for name in ("p", "q"):
        assert abs(fit.parameters[name] - 1.0) < 4 * errors[name]
    other = silently(lambda: ks.Collocation(model, record(clean), unknown).solve({p: 1.1, q: 1.0}))
    assert not other.success and "passes between" in other.message


def test_friction_that_sticks_is_fitted_without_trust():
    """The motion comes to rest on the jump, where events would chatter."""
    model = ks.Model("m", [x, v], [], [q], [x.diff(t) - v, v.diff(t) + q * sp.sign(v)])
    clean = np.where(TIME < 1.0, TIME - TIME**2 / 2, 0.5)
    start = {x: 0.0, v: 1.0}
    fit = silently(
        lambda: ks.Shooting(model, record(clean), {q: (0.3, 3)}, initial=start).solve({q: 0.9})
    )
    assert not fit.success and "sign(v)" in fit.message and "Contact" in fit.message


def test_fits_of_what_only_bends_stay_as_they_are():
    dead = sp.Piecewise((0, sp.Abs(x) < 0.1), (x - 0.1 * sp.sign(x), True))
    model = ks.Model(
        "m", [x, v], [], [q], [x.diff(t) - v, v.diff(t) + q * dead + 0.2 * sp.sign(v) * v**2]
    )
    run = ks.simulate(model, TIME, {x: 1.0, v: 0.0}, {q: 9.0}, substeps=4)
    start = {x: 1.0, v: 0.0}
    shooting = silently(
        lambda: ks.Shooting(model, record(run["x"]), {q: (1, 20)}, initial=start, substeps=4)
    )
    for fit in (
        shooting.solve({q: 8.0}),
        ks.Collocation(model, record(run["x"]), {q: (1, 20)}).solve({q: 8.0}),
    ):
        assert fit.success and fit.parameters["q"] == pytest.approx(9.0, abs=0.2)


# -- jumps at known times --------------------------------------------------------------------------

KNOWN = ks.Model("known", [x], [], [p, q], [x.diff(t) - sp.Piecewise((q, t < p), (-x, True))])


@pytest.mark.parametrize("more", [{}, {"method": "radau-3"}, {"segments": 3}])
def test_shooting_steps_to_a_jump_at_a_known_time(more):
    """Linear in q: the estimate is known in closed form."""
    trial, unit = record(), relaxed()
    exact = unit @ trial.measurements["x"] / (unit @ unit)
    optimizer = "ipopt" if "segments" in more else "bfgs"
    problem = ks.Shooting(KNOWN, trial, {q: (0.1, 3)}, {p: P}, initial={x: 0.0}, **more)
    fit = problem.solve({q: 0.8}, optimizer=optimizer)
    assert fit.success and fit.parameters["q"] == pytest.approx(exact, abs=2e-6)
    assert not fit.trials[0].inputs and not fit.grid_error().matters


@pytest.mark.parametrize(("scheme", "order"), [("radau-3", 3), ("radau-5", 5), ("gauss-4", 4)])
def test_collocation_keeps_its_order_over_a_jump_at_a_node(scheme, order):
    rate = sp.Piecewise((1 - x / 2, t <= p), (-x, True))
    model = ks.Model("m", [x], [], [p], [x.diff(t) - rate])
    errors = []
    for nodes in (16, 31):
        time = np.linspace(0, 3, nodes)
        problem = ks.Collocation(
            model,
            ks.Experiment(time),
            {},
            {p: 1.2},
            scheme,
            ks.Integral(0 * x),
            boundary=[ks.at_start(x)],
        )
        found = problem.solve()
        after = 2 * (1 - np.exp(-0.6)) * np.exp(-(time - 1.2))
        errors.append(
            np.abs(found["x"] - np.where(time < 1.2, 2 - 2 * np.exp(-time / 2), after)).max()
        )
        assert not found.trials[0].inputs and not found.notes
    assert np.log2(errors[0] / errors[1]) > order - 0.2
    assert 0.5 < found.grid_error().largest * np.ptp(found["x"]) / errors[1] < 2.0


def test_collocation_has_a_node_at_a_jump_at_a_known_time():
    """Linear in q: the estimate is known in closed form; trajectories of a guess are on the grid
    that was given."""
    trial, unit = record(), relaxed()
    exact = unit @ trial.measurements["x"] / (unit @ unit)
    problem = ks.Collocation(
        KNOWN, trial, {q: (0.1, 3)}, {p: P}, "radau-5", boundary=[ks.at_start(x)]
    )
    for guess in ({q: 0.8}, {q: 0.8, x: 0.9 * unit}):
        fit = problem.solve(guess)
        assert fit.success and fit.parameters["q"] == pytest.approx(exact, abs=1e-6)
        assert not fit.notes and not fit.trials[0].inputs
        assert np.abs(fit.time - P).min() < 1e-12
    assert problem.verify(fit).largest < 1e-6


def test_collocation_names_a_jump_between_nodes():
    """With bounds of states, which may be arrays, there are no further nodes."""
    problem = ks.Collocation(KNOWN, record(), {q: (0.1, 3)}, {p: P}, bounds={x: (-1, 9)})
    fit = problem.solve({q: 0.8})
    assert fit.success and "the jump between two nodes is not counted" in str(fit.grid_error())
    [note] = fit.notes
    assert "Piecewise" in note and "t = 1.234 s, between two nodes" in note


def test_an_unknown_duration_beside_a_jump_is_named():
    model = ks.Model("m", [x], [], [], [x.diff(t) - 1 - sp.Heaviside(t - 1)])
    trial = ks.Experiment(nodes=41, duration=(0.5, 3))
    ends = [ks.at_start(x), ks.at_end(x) - 2]
    found = ks.Collocation(model, trial, objective=ks.Terminal(0 * x), boundary=ends).solve()
    assert found.success and found.duration == pytest.approx(1.5, abs=0.01)
    [note] = found.notes
    assert "Heaviside" in note and "the unknown duration" in note and "phases" in note


@pytest.mark.parametrize("at", [-1.0, 0.0, END, 5.0])
def test_a_jump_outside_of_the_record_is_none(at):
    model = driven(sp.Heaviside(p - t), [p])
    run = ks.simulate(model, TIME, {x: 0.0}, {p: at}, method="dormand-prince")
    level = 1.0 if at > 0.0 else 0.0
    assert run["x"] == pytest.approx(level * (1 - np.exp(-TIME)), abs=1e-8)
    assert run.error().largest < 1e-6
    both = model.extended({v: q}, parameters=[q])
    problem = ks.Collocation(
        both, record(2 * TIME, "v"), {q: (0, 5)}, {p: at}, boundary=[ks.at_start(x)]
    )
    fit = problem.solve({q: 1.0})
    assert fit.success and fit.parameters["q"] == pytest.approx(2.0, abs=0.01) and not fit.notes


@pytest.mark.parametrize("shown", [sp.floor(100 * x) / 100, sp.sign(x - sp.Rational(1, 2)), 2 * x])
def test_samples_that_are_constant_between_jumps_fit_nothing(shown):
    model = ks.Model("m", [x], [], [q], [x.diff(t) + q * x], outputs={"y": shown})
    run = ks.simulate(model, TIME, {x: 1.0}, {q: 0.7})
    trial = ks.Experiment(TIME, measurements={"y": run["y"]}, std={"y": 0.01})
    ends = [ks.at_start(x) - 1]
    for problem in (
        ks.Shooting(model, trial, {q: (0.1, 3)}, initial={x: 1.0}),
        ks.Collocation(model, trial, {q: (0.1, 3)}, boundary=ends),
    ):
        fit = problem.solve({q: 0.8})
        if shown == 2 * x:
            assert fit.success and fit.parameters["q"] == pytest.approx(0.7, abs=1e-3)
        else:
            assert not fit.success and "y, is constant between jumps" in fit.message


@pytest.mark.parametrize("shown", [q * sp.floor(10 * x), q * x])
def test_samples_that_jump_where_the_motion_takes_them_are_named(shown):
    """Of a gain times steps the gain has derivatives, the times of the steps have none."""
    model = ks.Model("m", [x], [], [q], [x.diff(t) + q * x], outputs={"y": shown})
    run = ks.simulate(model, TIME, {x: 1.0}, {q: 0.7})
    trial = ks.Experiment(TIME, measurements={"y": run["y"]}, std={"y": 0.01})
    problem = ks.Collocation(model, trial, {q: (0.1, 3)}, boundary=[ks.at_start(x) - 1])
    shooting = ks.Shooting(model, trial, {q: (0.1, 3)}, initial={x: 1.0})
    for fit in (problem.solve({q: 0.8}), shooting.solve({q: 0.8})):
        told = any("y jumps" in note and "may fit better" in note for note in fit.notes)
        assert fit.success and told == (shown != q * x)


@pytest.mark.parametrize("guard, count", [(sp.sin(p * t), 9), (sp.sin(p * t) - 1 + 1e-9, 10)])
def test_jumps_of_members_are_found_with_few_looks(guard, count, monkeypatch):
    """Zeros of a sine, also in pairs some 1e-5 s apart, which are looked for by extrema."""
    looks, members = [], 4
    plain = Switched.guard
    monkeypatch.setattr(Switched, "guard", lambda *given: looks.append(1) or plain(*given))
    model = ks.Model("switched", [x], [], [p], [x.diff(t) - sp.Heaviside(guard)])
    found = switched(model, of_time)
    [name] = found.names
    angles = np.arange(1, 10) * np.pi
    if count == 10:
        half = np.arccos(1 - 1e-9)
        angles = np.sort([(2 * k + 0.5) * np.pi + s for k in range(5) for s in (-half, half)])
    for rate in np.linspace(3.0, 3.3, members):
        times = signals(found, {"p": rate}, (0.1, angles[-1] / rate + 0.1))[name].begin[1:]
        exact = angles / rate
        np.testing.assert_allclose(times, exact[exact > 0.1], atol=1e-9 if count == 10 else 1e-14)
        assert len(times) == count
    if count == 9:
        assert len(looks) < 40 * members


def test_a_jump_in_one_of_two_experiments():
    """Switched on at a known time, which is after the end of the other record."""
    x, (k, on) = sp.Function("x")(ks.t), sp.symbols("k on")
    pulse = sp.Piecewise((1, ks.t > on), (0, True))
    model = ks.Model("pulse", [x], [], [k, on], [x.diff(ks.t) - k * pulse])
    time = np.linspace(0.0, 2.0, 5)
    trials = [
        ks.Experiment(time, {}, {x: 2.0 * np.clip(time - at, 0.0, None)}, parameters={on: at})
        for at in (0.5, 9.0)
    ]
    fit = ks.Shooting(model, trials, {k: (0, 9)}, initial={x: 0.0}, method="radau-5").solve(
        {k: 1.0}, optimizer="least-squares"
    )
    assert fit.parameters["k"] == pytest.approx(2.0, rel=1e-9)


def test_a_jump_of_the_integrand_of_the_objective():
    """Between nodes a note says so; with a node there the optimum is that of the closed form."""
    jump = sp.Piecewise((1, ks.t < 0.35), (3, True))
    model = ks.Model("spend", [x], [on], [], [x.diff(ks.t) - on])
    for time, noted in ((np.linspace(0, 1, 11), 1), (np.linspace(0, 1, 21), 0)):
        problem = ks.Collocation(
            model,
            ks.Experiment(time),
            unknown_inputs={on: ks.held()},
            objective=ks.Integral(on**2 * jump),
            boundary=[ks.at_start(x), ks.at_end(x) - 1],
        )
        solution = problem.solve()
        notes = [n for n in solution.notes if "the integrand of the objective jumps" in n]
        assert len(notes) == noted, solution.notes
    assert solution.objective == pytest.approx(1 / (0.35 + 0.65 / 3), rel=1e-9)
