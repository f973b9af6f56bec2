"""Marches in parts, between which signals are heard: no bit depends on them."""

import os
import signal
import threading
import warnings

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.internal.problems.step_options import METHODS
from kinesym.runtime.simulation import stepper

t = ks.t
x, v, u = ks.dynamicsymbols("x v u")
k, q = sp.symbols("k q")
swing = ks.Model(
    "swing",
    [x, v],
    [u],
    [k, q],
    [x.diff(t) - v - q * x**2, v.diff(t) + k * sp.sin(x) - u - sp.cos(3 * t)],
    values={k: 4.0, q: 0.0},
)
free = ks.Model("free", [x], [], [k], [x.diff(t) + k * (x - sp.cos(t))], values={k: 1.0})
TIME = np.linspace(0.0, 2.0, 31)


def in_parts(monkeypatch, steps):
    """Each call of a loop takes so many steps of each block."""
    monkeypatch.setattr(stepper, "_budget", lambda stepper, task, members: steps)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [1, 3, 7, 50])
@pytest.mark.parametrize("members", [None, 11])
def test_no_bit_depends_on_the_parts(monkeypatch, method, steps, members):
    """Parts end anywhere in an interval, and at nodes; one member escapes on the way."""
    many = np.arange(members) if members else 0
    start = {x: 0.5 + 0.1 * many, v: 0.1}
    values = {q: np.where(many == 5, 5.0, 0.0)} if members else {}
    substeps = 1 if method in ("dormand-prince", "radau-5") else 4

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ks.simulate(
                swing,
                TIME,
                start,
                values,
                {u: np.sin(TIME)},
                method=method,
                substeps=substeps,
                threads=1,
            )

    whole = run()
    in_parts(monkeypatch, steps)
    parts = run()
    for name in ("x", "v"):
        np.testing.assert_array_equal(parts[name], whole[name])
    if members:
        assert list(parts.failures) == list(whole.failures) and len(whole.failures) == 1


def test_adaptive_steps_past_nodes_in_parts(monkeypatch):
    """Without inputs steps end where they like: these are in the middle of intervals."""
    for method in ("dormand-prince", "radau-5"):
        whole = ks.simulate(free, TIME, {x: 2.0}, method=method)
        for steps in (1, 2, 5):
            with monkeypatch.context() as patch:
                in_parts(patch, steps)
                parts = ks.simulate(free, TIME, {x: 2.0}, method=method)
            np.testing.assert_array_equal(parts["x"], whole["x"])


def test_derivatives_in_parts(monkeypatch):
    """Sums over parts differ by rounding."""
    time = np.linspace(0.0, 2.0, 203)
    trial = ks.Experiment(time, inputs={u: np.sin(time)}, measurements={x: np.cos(time)})
    for method in ("rk4", "trapezoid"):
        found = []
        for steps in (10**6, 80):
            in_parts(monkeypatch, steps)
            task = ks.Shooting(
                swing, trial, {k: None}, {q: 0.1}, initial={x: None, v: 0.0}, method=method
            )
            at = np.array([3.0, 0.4])
            found.append((task.gradient(at), task.gradient(at, mode="forward")))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_stiff_models_end_in_words(monkeypatch):
    """6e8 steps would be needed; one interval gets 1e7."""
    stiff = {k: 1e9}
    with pytest.warns(UserWarning, match="stiff: more than 1e7 steps .* between t = 0 and 2 s"):
        run = ks.simulate(free, [0.0, 2.0], {x: 1.0}, stiff, method="dormand-prince")
    assert "use method='radau-5', or looser tolerances" in run.message
    assert "jump, as sign(x)" in run.message
    assert run.time.tolist() == [0.0]
    again = ks.simulate(free, [0.0, 2.0], {x: 1.0}, stiff, method="backward-euler")
    assert again["x"][-1] == pytest.approx(np.cos(2.0), abs=1e-6) and not again.message


def test_interrupt_between_members(monkeypatch):
    """Those that were on their way are interrupted, whichever node they had reached; those that
    had failed keep their reason, those that were done are whole."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    in_parts(monkeypatch, 20)
    calls = []
    true = stepper.Run

    class Pressed(true):
        def march(self, *arguments):
            calls.append(arguments)
            if len(calls) == 1:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            return super().march(*arguments)

    monkeypatch.setattr(stepper, "Run", Pressed)
    try:
        with pytest.warns(UserWarning, match="3 of 3 members"):
            runs = ks.simulate(
                swing,
                [0.0, 1.0, 2.0, 2.5],
                {x: [0.5, 3.0, 0.1], v: 0.0},
                {q: [0.0, 5.0, 0.0]},
                {u: 0.0},
                substeps=10**9,
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(f.message == "interrupted at t = 0 s" for f in runs.failures)
    assert np.isnan(runs["x"][:, 1:]).all() and np.isfinite(runs["x"][:, 0]).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"substeps": 2**40}, "substeps must be at most 10000000000, got 1099511627776"),
        ({"substeps": 1.5}, "substeps must be at least 1 and whole, got 1.5"),
        ({"rtol": 1e-300}, "rtol must be at least 1e-14, got 1e-300"),
        ({"rtol": 0.0}, "rtol must be positive, got 0.0"),
        ({"atol": 1e-300}, "atol must be at least 1e-50, got 1e-300"),
        ({"atol": np.nan}, "atol must be positive, got nan"),
        ({"threads": -1}, "threads must be at least 1 and whole, got -1"),
        ({"threads": 1.5}, "threads must be at least 1 and whole, got 1.5"),
        ({"threads": "two"}, "threads must be at least 1 and whole, got 'two'"),
    ],
)
def test_what_would_take_for_ever(changes, words):
    with pytest.raises(ValueError, match=words):
        ks.simulate(free, TIME, {x: 1.0}, **changes)


@pytest.mark.parametrize("nodes", [2 * 10**9, 2e9, 10**8 + 1, 10**30])
def test_grids_that_would_fill_the_memory(nodes):
    with pytest.raises(ValueError, match="nodes must be at most 100000000, got "):
        ks.Experiment(nodes=nodes, duration=(1.0, 2.0))


def test_shooting_on_grids_that_are_too_fine():
    trial = ks.Experiment(TIME, measurements={x: TIME})
    with pytest.raises(ValueError, match="substeps must be at most 3225806, got 1099511627776"):
        ks.Shooting(free, trial, {k: None}, initial={x: 1.0}, substeps=2**40)


def test_counts_of_numpy():
    run = ks.simulate(free, TIME, {x: 1.0}, substeps=np.int64(2), threads=np.int32(1))
    np.testing.assert_array_equal(run["x"], ks.simulate(free, TIME, {x: 1.0}, substeps=2)["x"])
