"""What a simulation says: of expressions that are not finite, of growth, of single steps, and of
arrays that are no numbers."""

import datetime as dt
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh

t = ks.t
x, v, a, b, F, lam = ks.dynamicsymbols("x v a b F lam")
p, k = sp.symbols("p k")
TIME = np.linspace(0.0, 3.0, 61)

#: v falls until x**p has no value
ROOT = ks.Model(
    "root", [x, v], [F], [p], [x.diff(t) - v, v.diff(t) + 1 + x**p - F], values={p: 0.5}
)
GROWING = ks.Model("growing", [x], [], [k], [x.diff(t) - k * x])
DRIVEN = ks.Model("driven", [x], [F], [], [x.diff(t) - F])


def said(function):
    with pytest.warns(UserWarning) as caught:
        run = function()
    assert len(caught) == 1 and caught[0].filename == __file__
    return run, str(caught[0].message)


# -- expressions that are not finite --------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "label", "what"),
    [
        ("rk4", "v'", "x.x"),
        ("dormand-prince", "v'", "x.x"),
        ("trapezoid", r"equation 1 \(v'\)", "x.x"),
        ("midpoint", r"equation 1 \(v'\)", "x.x"),
        ("backward-euler", r"equation 1 \(v'\)", "x.x"),
    ],
)
def test_the_expression_is_named(method, label, what):
    """With its equation or rate, the values it was given, and the time; not as an instability."""
    substeps = 1 if method == "dormand-prince" else 3
    run, words = said(
        lambda: ks.simulate(
            ROOT, TIME, {x: 0.5, v: 0.0}, inputs={F: 0.0}, method=method, substeps=substeps
        )
    )
    pattern = (
        rf"between t = 0.75 and 0.8 s: {label} is not finite at t = 0.7\d+ s: "
        rf"pow\({what}, .*p\) is nan where {what} = -\S+, .*p = 0.5; last state x = "
    )
    assert re.search(pattern, run.message) and "unstable" not in run.message, run.message
    assert words == f"the simulation of root: {run.message}"
    assert run.time[-1] == pytest.approx(0.75) and (run["x"] > 0.0).all()


@pytest.mark.parametrize("kind", ["linear", "held", "midpoints"])
def test_inputs_within_the_interval_count(kind):
    """The force that pushes x below zero acts within one long interval, cut into steps."""
    time = np.array([0.0, 1.0, 2.0])
    force = {
        "linear": [0.0, 0.0, -40.0],
        "held": ks.Signal(time, [0.0, -20.0, 0.0], "held"),
        "midpoints": ks.Signal.parabolas(time, [1.5, 1.5, 1.5, -20.0, -50.0]),
    }[kind]
    run, _ = said(
        lambda: ks.simulate(ROOT, time, {x: 2.0, v: 1.0}, inputs={F: force}, substeps=100)
    )
    when = float(re.search(r"is not finite at t = (\S+) s: pow", run.message)[1])
    assert 1.0 < when < 2.0 and len(run.time) == 2


@pytest.mark.parametrize("varied", [False, True])
def test_members_have_reasons_of_their_own(varied):
    values = {p: [0.5, 0.5, 0.3]} if varied else {}
    runs, words = said(
        lambda: ks.simulate(ROOT, TIME, {x: [0.5, 1e6, 0.2], v: 0.0}, values, inputs={F: 0.0})
    )
    assert words.startswith("2 of 3 members of root ended early, the first is member 0: ")
    assert [failure.member for failure in runs.failures] == [0, 2]
    for failure, power in zip(runs.failures, (0.5, 0.3 if varied else 0.5), strict=True):
        assert f"p.p = {power:g};" in failure.message and "is nan where x.x = -" in failure.message


def test_many_members_are_told_soon():
    """Of the first it is found out which expression it was."""
    runs, _ = said(
        lambda: ks.simulate(ROOT, TIME, {x: np.linspace(0.1, 0.9, 50), v: 0.0}, inputs={F: 0.0})
    )
    named = ["pow(" in failure.message for failure in runs.failures]
    assert len(named) == 50 and all(named[:8]) and not any(named[8:])


@pytest.mark.parametrize("method", ["rk4", "dormand-prince", "trapezoid"])
def test_mass_matrix_that_is_singular_at_one_place(method):
    """x a' = 1 has no a' where x = 0."""
    model = ks.Model("lever", [a, x], [], [], [x * a.diff(t) - 1, x.diff(t) - 1])
    run, _ = said(lambda: ks.simulate(model, TIME, {a: 0.0, x: 0.0}, method=method))
    assert "unstable" not in run.message and run.time.tolist() == [0.0]
    assert "is not finite at t = 0 s: the equations do not determine a' here" in run.message


def test_steps_that_are_too_long_are_still_named():
    """The root has no value because the steps overshoot: shorter ones help."""
    model = ks.Model("drain", [x], [], [k], [x.diff(t) + k * sp.sqrt(x)])
    run, _ = said(lambda: ks.simulate(model, np.linspace(0, 1, 11), {x: 1e-4}, {k: 2.0}))
    assert "sqrt(x.x) is nan" in run.message
    assert "; but the step of 0.1 s is too long for the mode" in run.message


def test_steps_that_let_a_decaying_mode_grow():
    """Before it reaches any implausible size; single runs and ensembles. Not of steps that are
    short enough, of implicit ones, and of a spring, whose amplitude decays slowly."""
    model = ks.Model("fast", [x], [], [k], [x.diff(t) + k * (x - sp.cos(t))])
    time = np.linspace(0, 2, 21)
    for values in (30.0, [1.0, 30.0]):
        with pytest.warns(UserWarning, match="fast: unstable steps: the step of 0.1 s is too long"):
            ks.simulate(model, time, {x: 0.0}, {k: values})
    spring = ks.Model("spring", [x, v], [], [k], [x.diff(t) - v, v.diff(t) + k * x])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ks.simulate(model, time, {x: 0.0}, {k: 27.0})
        ks.simulate(model, time, {x: 0.0}, {k: 30.0}, substeps=2)
        ks.simulate(model, time, {x: 0.0}, {k: 30.0}, method="radau-5")
        ks.simulate(spring, time, {x: 0.0, v: 1.0}, {k: 700.0})


# -- growth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["rk4", "dormand-prince", "midpoint"])
def test_growth_without_overflow(method):
    """All nodes are reached, and what came out is of no use: it is said, and nothing is cut off."""
    time = np.linspace(0.0, 60.0, 6001)
    run, words = said(lambda: ks.simulate(GROWING, time, {x: 1.0}, {k: 10.0}, method=method))
    pattern = (
        r"grew beyond any plausible size: x = 1\.\d+e\+30 at t = 6.9\d? s, \S+e\+260 at the "
        r"end; the model is unstable"
    )
    assert re.match(pattern, run.message), run.message
    assert words == f"the simulation of growing: {run.message}"
    assert len(run.time) == 6001 and np.isfinite(run["x"]).all()


def test_growth_to_the_end_of_the_numbers():
    run, _ = said(
        lambda: ks.simulate(
            GROWING, np.linspace(0.0, 80.0, 801), {x: 1.0}, {k: 10.0}, method="midpoint"
        )
    )
    assert run.message.startswith("diverged between t = ") and "Newton" not in run.message


def test_growth_of_members():
    time = np.linspace(0.0, 20.0, 2001)
    runs, words = said(
        lambda: ks.simulate(GROWING, time, {x: [1.0, 2.0, 1e-20]}, {k: [10.0, -1.0, 1.0]})
    )
    assert "1 of 3 members of growing ended early or grew beyond any plausible size" in words
    (failure,) = runs.failures
    assert failure.member == 0 and failure.time == pytest.approx(6.91)
    assert np.isfinite(runs["x"]).all() and runs.member(0).message == failure.message
    assert len(runs.member(0).time) == 2001


def test_growth_in_large_units():
    """A state that begins large may be large; one that moves by 1e25 is of a small unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not ks.simulate(GROWING, TIME, {x: 1e60}, {k: 1.0}).message
        assert not ks.simulate(DRIVEN, TIME, {x: 0.0}, inputs={F: 1e25}).message


def test_growth_of_hybrid_runs():
    model = ks.Model("apart", [x], [], [k], [x.diff(t) - k * x], values={k: 10.0})
    with pytest.warns(UserWarning, match="grew beyond any plausible size: x = .*e.30 at t = "):
        run = ks.simulate(kh.Hybrid(model), np.linspace(0.0, 30.0, 301), {x: 1.0})
    assert len(run.time) == 301 and "the model is unstable" in run.message


# -- a single step --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["rk4", "trapezoid", "midpoint", "backward-euler"])
def test_a_span_is_no_grid(method):
    """(0, 20) is one step of 20 s."""
    pendulum = ks.Model("pendulum", [x, v], [], [], [x.diff(t) - v, v.diff(t) + 9.81 * x + 0.1 * v])
    _, words = said(lambda: ks.simulate(pendulum, (0, 20), {x: 1.0, v: 0.0}, method=method))
    assert re.match(
        r"pendulum: one step of 20 s is too long: [xv] ends at \S+, with 16 steps at "
        r"\S+; time is the grid of nodes, for example np.linspace\(0, 20, 2001\)$",
        words,
    )


def test_a_span_of_members():
    _, words = said(lambda: ks.simulate(GROWING, (0, 5), {x: 1.0}, {k: [0.01, -2.0]}))
    assert "one step of 5 s is too long: x of member 1 ends at" in words


@pytest.mark.parametrize(
    "more",
    [
        {"substeps": 500},
        {"method": "dormand-prince"},
        {"time": np.linspace(0.0, 2.0, 501)},
        {"time": (0.0, 0.01)},  # one step that is short enough, as of a controller
    ],
)
def test_no_warning_without_need(more):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ks.simulate(GROWING, more.pop("time", (0.0, 2.0)), {x: 1.0}, {k: -2.0}, **more)


# -- arrays ---------------------------------------------------------------------------------------

NODES = np.linspace(0.0, 1.0, 11)
HIDDEN = np.ma.masked_array(np.where(NODES > 0.45, -9999.0, 1.0), NODES > 0.45)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"inputs": {F: HIDDEN}},
            r"input F has 6 missing \(masked\) of 11 values, the first at index",
        ),
        ({"inputs": {F: [HIDDEN, HIDDEN]}}, r"input F has 12 missing \(masked\) of 22 values"),
        (
            {
                "initial": {x: np.ma.masked_array([0.0, -9999.0], [0, 1])},
                "inputs": {F: np.ones((2, 11))},
            },
            r"the initial value of state x has 1 missing \(masked\) of 2 values",
        ),
        ({"time": np.ma.masked_array(NODES, NODES > 0.95)}, r"time has 1 missing \(masked\) of 11"),
        ({"inputs": {F: 1j * NODES}}, "input F must be real numbers, got complex numbers"),
        ({"initial": {x: 1j}}, "the initial value of state x must be real numbers, got complex"),
        ({"time": NODES + 0j}, "time must be real numbers, got complex"),
        ({"inputs": {F: "1.0"}}, "input F must be real numbers, got text"),
        ({"initial": {x: "1.0"}}, "the initial value of state x must be real numbers, got text"),
        (
            {"initial": {x: sp.Symbol("q")}},
            "the initial value of state x is q, but q is no parameter of the model",
        ),
    ],
)
def test_arrays_that_are_no_numbers(changes, words):
    fields = {"time": NODES, "initial": {x: 0.0}, "inputs": {F: 1.0}, **changes}
    with pytest.raises(ValueError, match=words):
        ks.simulate(DRIVEN, **fields)
    if np.ndim(fields["inputs"][F]) < 2:  # hybrid runs, one at a time
        with pytest.raises(ValueError, match=words if "initial" not in changes else "state x "):
            ks.simulate(kh.Hybrid(DRIVEN), **fields)


@pytest.mark.parametrize(
    "time",
    [
        np.arange(0, 1100, 100, dtype="timedelta64[ms]"),
        np.datetime64("2020-02-28T23:59:59.500") + np.arange(0, 1100, 100, dtype="timedelta64[ms]"),
        pd.date_range("2020-01-01", periods=11, freq="100ms"),
        [dt.timedelta(milliseconds=100 * i) for i in range(11)],
        [dt.datetime(2020, 1, 1) + dt.timedelta(milliseconds=100 * i) for i in range(11)],
    ],
    ids=["spans", "dates", "pandas", "timedelta", "datetime"],
)
def test_times_of_every_kind(time):
    """Spans in seconds, dates since the first: the run is the same."""
    run = ks.simulate(DRIVEN, time, {x: 0.0}, inputs={F: 2.0})
    np.testing.assert_allclose(run.time, NODES, atol=1e-15)
    assert run["x"][-1] == pytest.approx(2.0)
    assert ks.simulate(kh.Hybrid(DRIVEN), time, {x: 0.0}, inputs={F: 2.0})["x"][
        -1
    ] == pytest.approx(2.0)
