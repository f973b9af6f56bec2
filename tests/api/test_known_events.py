"""Events at known times, between which shooting steps by implicit methods."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.hybrid import Event, Hybrid
from kinesym.runtime.hybrid import simulation

t = ks.t
x, y, u = (sp.Function(name)(t) for name in "xyu")
k, T, c, d, a = sp.symbols("k T c d a")
TIME = np.linspace(0.0, 4.0, 9)


def experiment(begin=1.0, seed=0):
    rows = np.random.default_rng(seed).uniform(0.0, 2.0, (2, 9))
    return ks.Experiment(
        TIME, {}, {x: rows[0], "z": rows[1]}, {x: 0.5, "z": 0.2}, parameters={T: begin}
    )


def system(*events, mode=True):
    rates = [u - k * x if mode else -k * x, x - y]
    model = ks.Model(
        "two",
        states=[x, y],
        inputs=[u] if mode else [],
        parameters=[k, T],
        equations=[s.diff(t) - r for s, r in zip((x, y), rates, strict=True)],
        outputs={"z": x * y + k},
    )
    return Hybrid(model, modes={u: 0.3} if mode else {}, events=events)


def shooting(system, trials, **options):
    unknown = {k: (0.1, 3.0), c: (0.0, 2.0), d: (-1.0, 1.0), a: (-1.0, 1.0)}
    names = system.model.parameter_names
    unknown = {p: bounds for p, bounds in unknown.items() if str(p) in names}
    return ks.Shooting(system, trials, unknown, initial={x: (0, 3), y: 0.4}, **options)


Q = {k: 0.7, c: 0.5, d: 0.3, a: 0.2, x: 1.1}
TIGHT = {"method": "radau-5", "rtol": 1e-12, "atol": 1e-13}


def test_gradient_of_a_closed_form():
    """A dose at a node and a mode that is set, to parameters that are unknown; complex steps."""
    rows = experiment().measurements["x"]
    trial = ks.Experiment(TIME, {}, {x: rows}, {x: 0.5}, parameters={T: 1.0})
    dose = Event("dose", t - T, 1, resets={x: c * x + d}, sets={u: a})
    made = shooting(system(dose), trial, **TIGHT)

    def cost(q):
        rate, level, factor, more, start = q

        def course(begin, level, span):
            return begin * np.exp(-rate * span) + level / rate * (1.0 - np.exp(-rate * span))

        after = factor * course(start, 0.3, 1.0) + more
        found = np.where(TIME < 1.0, course(start, 0.3, TIME), course(after, level, TIME - 1.0))
        return np.sum(((found - rows) / 0.5) ** 2)

    q = made.pack(Q)
    assert made.names == ["k", "a", "c", "d", "x(0)"]
    expected = [cost(q + 1e-30j * unit).imag / 1e-30 for unit in np.eye(5)]
    assert made.cost(q) == pytest.approx(cost(q).real, rel=1e-10)
    for mode in ("adjoint", "forward"):
        assert made.gradient(q, mode) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("options", [TIGHT, {"method": "radau-5", "substeps": 60}])
def test_the_same_as_from_event_to_event(options):
    """Two events at once, one between nodes, at a falling guard; one after the end of a trial."""
    hybrid = system(
        Event("first", t - T, 1, resets={x: x + d * y + c * t}),
        Event("second", t - T, 0, resets={x: 2 * x, y: y + k}),
        Event("third", 2.6 - t, -1, resets={y: x * y}),
        Event("never", t - 2, -1, resets={x: 0}),
        mode=False,
    )
    trials = [experiment(begin, n) for n, begin in enumerate((1.0, 1.3, 9.0))]
    made = shooting(hybrid, trials, **options)
    other = shooting(hybrid, trials, rtol=1e-11, atol=1e-12)
    q = other.pack({p: value for p, value in Q.items() if p != a})
    assert made.cost(q) == pytest.approx(other.cost(q), rel=1e-9)
    assert made.gradient(q) == pytest.approx(other.gradient(q), rel=1e-8)
    assert made.gradient(q, "forward") == pytest.approx(made.gradient(q), rel=1e-12)
    with pytest.raises(ValueError, match=r"no continuous adjoint of (events at known times|steps)"):
        made.gradient(q, "continuous-adjoint")


@pytest.mark.parametrize(
    "event, words",
    [
        (Event("low", x - 1, -1, resets={x: 2}), r"has event 'low', where x\(t\) - 1 is zero; use"),
        (Event("late", t**2 - 1, 1, resets={x: 2}), "event 'late', where .* is zero"),
        (Event("end", t - 1, 1, stop=True), "event 'end' with level, stop, failure or when"),
        (Event("dose", t - k, 1, resets={x: 2}), "time of event 'dose' depends on k, which is unk"),
    ],
)
def test_events_at_no_known_times(event, words):
    with pytest.raises(ValueError, match=words):
        shooting(system(event), experiment(), method="radau-5")


def test_what_events_at_known_times_do_not_take():
    hybrid = system(Event("dose", t - T, 1, resets={x: 2}))
    with pytest.raises(ValueError, match="events at known times takes no several segments"):
        shooting(hybrid, experiment(), method="radau-5", segments=2)


def test_modes_that_are_set_to_unknowns_have_no_derivatives():
    hybrid = system(Event("dose", t - T, 1, sets={u: a}))
    made = shooting(hybrid, experiment())
    with pytest.raises(ValueError, match=r"sets mode u to a, .*: modes have no derivatives"):
        made.gradient({k: 0.7, a: 0.2, x: 1.1})


def test_a_run_of_too_many_steps_is_refused(monkeypatch):
    monkeypatch.setattr(simulation, "_MOST_NUMBERS", 2000)
    stiff = ks.Model("stiff", states=[x], parameters=[k, T], equations=[x.diff(t) + 1e5 * (x - k)])
    hybrid = Hybrid(stiff, events=[Event("dose", t - T, 1, resets={x: 2})])
    trial = ks.Experiment(TIME, {}, {x: np.ones(9)}, {x: 1.0}, parameters={T: 1.0})
    made = ks.Shooting(hybrid, trial, {k: (0, 2)}, initial={x: 0.0})
    assert made.cost({k: 1.0}) == np.inf
    with pytest.raises(ValueError, match=r"more steps at t = .* the model is stiff"):
        made.gradient({k: 1.0})
    other = ks.Shooting(hybrid, trial, {k: (0, 2)}, initial={x: 0.0}, method="radau-5")
    assert other.solve({k: 0.5}).parameters["k"] == pytest.approx(1.0, abs=1e-6)
