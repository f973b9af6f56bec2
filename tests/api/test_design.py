"""Designs of experiments against closed forms of the literature; bad input."""

from __future__ import annotations

import re
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import sympy as sp

import kinesym as ks

mpl.use("Agg")
t = ks.t
x, v, y = ks.dynamicsymbols("x v y")
F = ks.dynamicsymbols("F")
a, b, k, c, V = sp.symbols("a b k c V", positive=True)


def reaction() -> ks.Shooting:
    """A -> B -> C from one of A; B is measured (Box, Lucas 1959, Biometrika 46, 77)."""
    model = ks.Model("reaction", [x, y], [], [a, b], [x.diff(t) + a * x, y.diff(t) - a * x + b * y])
    time = np.linspace(0.0, 12.0, 241)
    plan = ks.Experiment(time, measurements={y: np.zeros(241)}, std={y: 0.01})
    return ks.Shooting(model, plan, {a: (0, 5), b: (0, 5)}, initial={x: 1.0, y: 0.0})


def test_times_of_box_and_lucas() -> None:
    found = ks.design(reaction(), {a: 0.7, b: 0.2}, samples=2, criterion="D")
    # their two times for (0.7, 0.2), to the grid of 0.05 s
    np.testing.assert_allclose(found.times["y"][0], [1.23, 6.86], atol=0.03)
    assert "samples of y at" in str(found)
    # what is left is the forecast of these two samples alone: det (J' J / std^2)^-1
    z = found.times["y"][0]
    J = np.column_stack([_slope(z, 0), _slope(z, 1)])
    np.testing.assert_allclose(found.after.covariance, np.linalg.inv(J.T @ J) * 0.01**2, rtol=1e-4)


def _slope(time: Any, which: int) -> Any:
    """Derivative of the closed form of B by the complex step."""
    p = np.array([0.7, 0.2], dtype=complex)
    p[which] += 1e-30j
    p1, p2 = p
    return (p1 / (p1 - p2) * (np.exp(-p2 * time) - np.exp(-p1 * time))).imag / 1e-30


def test_times_of_one_compartment() -> None:
    """y = exp(-k t)/V: D-optimal at the start and 1/k later."""
    model = ks.Model("bolus", [x], [], [k, V], [x.diff(t) + k * x], outputs={"conc": x / V})
    time = np.linspace(0.0, 10.0, 101)
    plan = ks.Experiment(time, measurements={"conc": np.zeros(101)}, std={"conc": 0.01})
    problem = ks.Shooting(model, plan, {k: (0, 5), V: (0.1, 50)}, initial={x: 10.0})
    found = ks.design(problem, {k: 0.4, V: 5.0}, samples={"conc": 2}, criterion="D")
    np.testing.assert_allclose(found.times["conc"][0], [0.0, 2.5], atol=1e-9)


def spring() -> ks.Collocation:
    model = ks.Model("spring", [x, v], [F], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - F])
    time = np.linspace(0.0, 10.0, 101)
    plan = ks.Experiment(time, {F: 0.5 * np.sin(time)}, {x: np.zeros(101)}, {x: 0.01})
    return ks.Collocation(model, plan, {k: (0, 100), c: (0, 10)})


GUESS = {k: 9.0, c: 0.5, x: 0.0, v: 0.0}


def test_a_course_is_found_within_its_limits() -> None:
    limits = ks.sines(band=(0.1, 1.5), rms=0.4, amplitude=1.0, waves=4)
    found = ks.design(spring(), GUESS, {F: limits}, tries=1, iterations=4)
    course = found.trials[0].inputs["F"]
    assert np.std(course) < 0.4 + 1e-9
    assert abs(course).max() < 1.0 + 1e-9
    assert found.gain > 3.0
    assert found.values[1] == pytest.approx(
        max(r.standard_error / r.value for r in found.after.parameters.table.values()), rel=1e-9
    )
    # what was designed is what the problem forecasts with it
    again = ks.Collocation(spring().model, found.trials, {k: (0, 100), c: (0, 10)})
    told = ks.forecast(again, GUESS).parameters.table
    for name, row in found.after.parameters.table.items():
        assert told[name].standard_error == pytest.approx(row.standard_error, rel=1e-6)
    assert len(found.plot().axes) == 2


def test_fit_as_a_guess() -> None:
    """Its parameters and starts, those by name."""
    fit = ks.forecast(spring(), GUESS).fit
    one, other = (ks.design(spring(), guess, samples=9) for guess in (fit, GUESS))
    np.testing.assert_allclose(one.values, other.values, rtol=0.01)
    with pytest.raises(ValueError, match=r"a mapping of names to values, a fit .* got 3"):
        ks.design(spring(), 3, samples=9)
    with pytest.raises(ValueError, match="design takes a Collocation or a Shooting, got 3"):
        ks.design(3, GUESS)  # type: ignore[arg-type]


def test_starts_and_several_guesses() -> None:
    guesses = [GUESS, {**GUESS, k: 12.0}]
    found = ks.design(spring(), guesses, {x: (-0.2, 0.3)}, criterion=k / c, tries=1, iterations=3)
    assert found.starts["x"][0] == pytest.approx(0.3, abs=1e-6)  # the more it moves, the better
    assert found.criterion == "standard error of k/c"
    assert found.gain > 1.5


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, "nothing is free"),
        ({"over": ["f"]}, "a known input or a state of over"),
        ({"over": {F: (0, 1)}}, "the limits of input F are ks.sines"),
        ({"over": {x: None}}, "the start of x is free between (low, high)"),
        ({"over": {x: (1, 0)}}, "the bounds of the start of x are crossed"),
        ({"over": [F], "criterion": "best"}, "criterion"),
        ({"samples": {"z": 2}}, "a channel of samples"),
        ({"samples": 0}, "samples"),
        ({"over": [F], "tries": 0}, "tries"),
    ],
)
def test_bad_input(about: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        ks.design(spring(), GUESS, **about)


@pytest.mark.parametrize(
    "about", [{"band": (2, 1)}, {"band": 3}, {"rms": -1}, {"amplitude": 0}, {"waves": 0}]
)
def test_bad_limits(about: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(about))):
        ks.sines(**about)
