"""Events at known times and switches of inputs in collocation: closed forms, and shooting."""

import pickle

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import least_squares

import kinesym as ks
from kinesym.hybrid import Event, Hybrid

t = ks.t
C, x, y, m, u = ks.dynamicsymbols("C x y m u")
ke, V, a, b, D, td = sp.symbols("ke V a b D td")
DOSES = [(0.7, 50.0), (6.3, 80.0), (12.0, 20.0)]
TIME = np.array([0.0, 1, 2, 4, 6, 8, 10, 12, 16, 20])


def concentration(time, k, volume):
    """One compartment, after doses: sums of exponentials, at a dose the value after it."""
    parts = ((time >= at, dose / volume * np.exp(-k * (time - at))) for at, dose in DOSES)
    return sum(np.where(after, part, 0.0) for after, part in parts)


def dosed():
    """Least squares of a record of a body that is given doses, by collocation."""
    flow = ks.Model("body", [C], [], [ke, V], [C.diff(t) + ke * C])
    events = [
        Event(f"dose {k}", t - at, 1, resets={C: C + q / V}) for k, (at, q) in enumerate(DOSES)
    ]
    noise = 0.05 * np.random.default_rng(1).standard_normal(len(TIME))
    trial = ks.Experiment(TIME, {}, {C: concentration(TIME, 0.3, 10.0) + noise}, {C: 0.05})
    about = {"boundary": [ks.at_start(C)], "scheme": "radau-5"}
    return ks.Collocation(Hybrid(flow, events=events), trial, {ke: (0.01, 5), V: (1, 99)}, **about)


def test_doses_as_by_the_closed_form():
    problem = dosed()
    found = problem.solve({ke: 0.5, V: 8.0}, tolerance_grid=1e-8)
    y = problem.trials[0].measurements["C"][np.isin(problem.trials[0].grid, TIME)]
    off = lambda p: (concentration(TIME, *p) - y) / 0.05  # noqa: E731
    exact = least_squares(off, [0.5, 8.0], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(list(found.parameters.values()), exact.x, rtol=1e-7)
    assert found.objective == pytest.approx(2.0 * exact.cost, rel=1e-6)
    run = found.trials[0]
    truth = concentration(run.time, *found.parameters.values())
    np.testing.assert_allclose(run["C"], truth, atol=1e-7)
    assert not run.inputs and {0.7, 6.3} <= {*run.time}  # nodes at the doses, nothing else
    assert pickle.loads(pickle.dumps(problem)).solve({ke: 0.5, V: 8.0}).success


def system(events):
    """Two states and a mode."""
    rates = [x.diff(t) + a * x, y.diff(t) - a * x * m + b * y]
    model = ks.Model("two", [x, y], [m], [a, b], rates, outputs={"sum": x + y})
    return Hybrid(model, modes={m: 1.0}, events=events)


EVENTS = [
    Event("dose", t - td, 1, resets={x: x + D}),
    Event("on", t - 3, 1, sets={m: 3.0}),
    Event("off", 5 - t, sets={m: 0.2}),
    Event("never", t - 4, -1, resets={x: x + 100}),
    Event("disarmed", t - 6, 1, resets={x: x + 100}, when=m - 1),
    Event("wash", t - 2, 1, resets={y: y + 1, x: x - D / 10 + t / 20}),
]


def test_events_and_modes_as_by_shooting():
    """Of two records with a dose at different times."""
    hybrid, time, trials = system(EVENTS), np.linspace(0.0, 8.0, 17), []
    for at in (1.3, 2.5):
        run = ks.simulate(hybrid, time, {x: 1.0, y: 0.5}, {a: 0.7, b: 0.4, D: 2.0, td: at})
        seen = {"sum": run["sum"] + 0.01 * np.sin(9 * time), y: run["y"]}
        std = dict.fromkeys(seen, 0.01)
        trials.append(ks.Experiment(time, {}, seen, std, parameters={td: at}))
    unknown, guess = {a: (0.01, 5), b: (0.01, 5), D: (0.1, 9)}, {a: 0.5, b: 0.6, D: 1.0}
    shot = ks.Shooting(hybrid, trials, unknown, initial={x: 1.0, y: 0.5}, rtol=1e-10)
    exact = shot.solve(guess, optimizer="least-squares")
    starts = [ks.at_start(x) - 1, ks.at_start(y) - 0.5]
    problem = ks.Collocation(hybrid, trials, unknown, boundary=starts, scheme="radau-5")
    found = problem.solve(guess, tolerance_grid=1e-7)
    assert found.success and found.iterations < 15
    for name, value in exact.parameters.items():
        assert found.parameters[name] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found.trials[1]["x"][-1], exact.trials[1]["x"][-1], rtol=1e-6)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event("hit", x - 1, resets={x: x + 1}), "'hit' .* depends on x, .* known times alone"),
        (
            Event("let", t - 2, 1, resets={x: u}),
            "'let' resets x to u.*: .* and the time, not u; use",
        ),
        (Event("late", t - b, 1, resets={x: x + 1}), "'late' depends on b, .* known before"),
        (Event("twice", t**2 - 4, 1, sets={m: 0}), "'twice' .* is no straight line of time"),
        (Event("end", t - 4, 1, stop=True), "'end' ends the motion"),
    ],
)
def test_other_events_are_refused_by_name(event, words):
    trial = ks.Experiment([0.0, 4.0, 8.0], {u: 0.0}, {y: [1, 2, 3]})
    hybrid = system([])
    driven = Hybrid(hybrid.model.extended(inputs=[u]), modes=hybrid.modes, events=[event])
    with pytest.raises(ValueError, match=words):
        ks.Collocation(driven, trial, {b: (0.1, 1)}, {a: 0.7})


RESETS = [
    Event("scale", t - td, 1, resets={x: x * D, y: y + x + t / 9}),
    Event("on", t - 3, 1, sets={m: 3.0}),
    Event("set", t - 5, 1, resets={x: D}),
    Event("swap", t - 6, 1, resets={x: y, y: x}),
    Event("again", t - 6, 1, resets={x: x**2 + b * m}),
    Event("dose", t - 2, 1, resets={y: y + 1}),
    Event("never", t - 4, -1, resets={x: sp.log(-x)}),
]


def reset_twice(scheme, events=RESETS):
    """Two records with resets of any kind, one of them at different times; and by shooting."""
    hybrid, time, trials = system(events), np.linspace(0.0, 8.0, 17), []
    for at in (1.3, 2.5):
        run = ks.simulate(hybrid, time, {x: 1.0, y: 0.5}, {a: 0.7, b: 0.4, D: 2.0, td: at})
        seen = {"sum": run["sum"] + 0.01 * np.sin(9 * time), y: run["y"]}
        std = dict.fromkeys(seen, 0.01)
        trials.append(ks.Experiment(time, {}, seen, std, parameters={td: at}))
    given = (hybrid, trials, {a: (0.01, 5), b: (0.01, 5), D: (0.1, 9)})
    starts = [ks.at_start(x) - 1, ks.at_start(y) - 0.5]
    steps = {"method": "radau-5", "rtol": 1e-12, "atol": 1e-13}
    return (
        ks.Collocation(*given, boundary=starts, scheme=scheme),
        ks.Shooting(*given, initial={x: 1.0, y: 0.5}, **steps),
    )


def test_resets_of_any_kind_as_by_shooting():
    """Scaled, set, swapped, and two events at once, one after the other."""
    guess = {a: 0.5, b: 0.6, D: 1.0}
    problem, shooting = reset_twice("radau-5")
    found, exact = problem.solve(guess, tolerance_grid=1e-8), shooting.solve(guess, "least-squares")
    assert found.success and found.iterations < 15
    for name, value in exact.parameters.items():
        assert found.parameters[name] == pytest.approx(value, rel=1e-7)
        error = found.parameters.table[name].standard_error
        assert error == pytest.approx(exact.parameters.table[name].standard_error, rel=0.02)
    run, truth = found.trials[1], exact.trials[1]
    assert [*run.inputs] == ["m"]  # nothing is shown of the jumps
    np.testing.assert_allclose(run["x"][-1], truth["x"][-1], rtol=1e-7)
    after = np.searchsorted(run.time, 6.0)  # the sample there is of the states after both
    assert run["sum"][after] == pytest.approx(run["x"][after] + run["y"][after], rel=1e-12)
    assert problem.verify(found).largest < 1e-7


@pytest.mark.parametrize("scheme", ["midpoint", "hermite-simpson", "radau-3"])
def test_derivatives_of_resets(scheme):
    """Conditions of polynomials, of which central differences of any step are exact to the second
    order; the Hessian from differences of gradients."""
    problem, _ = reset_twice(scheme, RESETS[:4])
    rng = np.random.default_rng(0)
    z = problem.pack({a: 0.7, b: 0.4, D: 2.0}) + 0.1 * rng.standard_normal(problem.n_variables)
    along, weights = rng.standard_normal(len(z)), rng.standard_normal(problem.n_constraints)

    def across(function, h):
        return (function(z + h * along) - function(z - h * along)) / (2 * h)

    exact = (4 * across(problem.constraints, 0.01) - across(problem.constraints, 0.02)) / 3
    np.testing.assert_allclose(problem.constraint_jacobian(z) @ along, exact, rtol=0, atol=1e-10)
    hessian = problem.lagrangian_hessian(z, weights, 0.0) @ along
    slopes = across(lambda z: problem.constraint_jacobian(z).T @ weights, 0.01)
    np.testing.assert_allclose(hessian, slopes, rtol=0, atol=1e-9)


def test_a_washed_out_dose_by_the_closed_form():
    """A share V of what is there is left at 6.3 h."""
    flow = ks.Model("body", [C], [], [ke, V], [C.diff(t) + ke * C])
    wash = Event("wash", t - 6.3, 1, resets={C: V * C})

    def course(time, k, share):
        return 5.0 * np.exp(-k * time) * np.where(time >= 6.3, share, 1.0)

    seen = course(TIME, 0.3, 0.4) + 0.05 * np.random.default_rng(1).standard_normal(len(TIME))
    trial = ks.Experiment(TIME, {}, {C: seen}, {C: 0.05})
    about = {"boundary": [ks.at_start(C) - 5.0], "scheme": "radau-5"}
    problem = ks.Collocation(
        Hybrid(flow, events=[wash]), trial, {ke: (0.01, 5), V: (0.0, 9)}, **about
    )
    found = problem.solve({ke: 0.5, V: 1.0}, tolerance_grid=1e-9)
    off = lambda p: (course(TIME, *p) - seen) / 0.05  # noqa: E731
    exact = least_squares(off, [0.5, 1.0], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(list(found.parameters.values()), exact.x, rtol=1e-7)
    errors = np.sqrt(np.diag(np.linalg.inv(exact.jac.T @ exact.jac)))
    np.testing.assert_allclose(
        np.sqrt(np.diag(problem.covariance(found))), errors, rtol=1e-3
    )  # of the exact curvature


def test_a_mode_that_is_set_at_the_same_time_is_refused():
    events = [Event("on", t - 3, 1, sets={m: 3.0}), Event("to", t - 3, 1, resets={x: m * x})]
    trial = ks.Experiment([0.0, 4.0, 8.0], measurements={y: [1, 2, 3]})
    with pytest.raises(ValueError, match="'to' resets states by the mode m, which another event"):
        ks.Collocation(system(events), trial, {b: (0.1, 1)}, {a: 0.7})


def test_bounds_of_a_state_that_jumps_are_a_path_condition():
    trial = ks.Experiment([0.0, 4.0, 8.0], measurements={y: [1, 2, 3]})
    known = {b: 0.4, D: 2.0, td: 3.0}
    with pytest.raises(ValueError, match=r"x jumps at events and has bounds; .*path=\[\(x, low"):
        ks.Collocation(system(EVENTS[:1]), trial, {a: (0.1, 1)}, known, bounds={x: (0, 5)})


def test_an_input_that_switches_between_nodes_has_nodes_there():
    """x' = a (u - x) with a step at 0.37 s, and a signal that repeats its values."""
    model = ks.Model("lag", [x], [u], [a], [x.diff(t) - a * (u - x)])
    time, at = np.linspace(0.0, 2.0, 11), 0.37
    step = ks.Signal([0.0, 0.1, at, 0.5], [0.0, 0.0, 1.0, 1.0], between="held")
    seen = np.where(time < at, 0.0, 1.0 - np.exp(-2.0 * (time - at)))
    trial = ks.Experiment(time, {u: step}, {x: seen}, {x: 0.01})
    problem = ks.Collocation(
        model, trial, {a: (0.1, 9)}, boundary=[ks.at_start(x)], scheme="radau-5"
    )
    assert problem.trials[0].n_nodes == 12
    found = problem.solve({a: 1.0, x: np.linspace(0.0, 1.0, 11)}, tolerance_grid=1e-8)
    assert found.parameters["a"] == pytest.approx(2.0, rel=1e-7)


def test_guards_and_resets_by_intermediates():
    """A dose and its time that the model has as intermediates."""
    at, dose = sp.symbols("at dose")
    rows = [(at, td + 1), (dose, D / V)]
    model = ks.Model("body", [C], [], [ke, V, D, td], [C.diff(t) + ke * C], intermediates=rows)
    body = Hybrid(model, events=[Event("dose", t - at, 1, resets={C: C + dose})])
    time = np.linspace(0.0, 6.0, 25)
    seen = np.where(time >= 3.0, 4.0 * np.exp(-0.5 * (time - 3.0)), 0.0)
    trial = ks.Experiment(time, {}, {C: seen}, {C: 0.1})
    about = ({ke: (0.01, 5), D: (1, 99)}, {V: 10.0, td: 2.0})
    guess = {ke: 0.3, D: 30.0}
    problem = ks.Collocation(body, trial, *about, boundary=[ks.at_start(C)], scheme="radau-5")
    shooting = ks.Shooting(body, trial, *about, initial={C: 0.0}, method="radau-5")
    for fit in (problem.solve(guess), shooting.solve(guess, "least-squares")):
        np.testing.assert_allclose([*fit.parameters.values()], [0.5, 40.0], rtol=1e-5)
