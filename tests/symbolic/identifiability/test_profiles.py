"""Verdicts against profiles of -2 log L of simulated records."""

import numpy as np
import pytest
from known_functions import read

import kinesym as ks

#: Rates, inputs, values and starts; x is measured.
MODELS = {
    "oscillator": (
        "x' = v; v' = (u - k*x - c*v)/m", "u", {"m": 1.5, "k": 8.0, "c": 0.6}, {"x": 0.5, "v": 0}),
    "growth": ("x' = r*x*(1 - x/K)", "", {"r": 1.2, "K": 2.0}, {"x": 0.2}),
    "pendulum": ("x' = v; v' = -p*sin(x) - c*v", "", {"p": 9.0, "c": 0.4}, {"x": 1.0, "v": 0}),
    "decay": ("x' = -a*b*x", "", {"a": 1.2, "b": 0.7}, {"x": 1.0}),
    "arm": (
        "x' = v; v' = (u - m*l*g*sin(x))/(J + m*l**2)", "u",
        {"m": 1.2, "l": 0.6, "g": 9.81, "J": 0.2}, {"x": 0.5, "v": 0}),
    "prey": (
        "x' = a*x - b*x*y; y' = -c*y + d*x*y", "", {"a": 1.1, "b": 0.8, "c": 1.0, "d": 0.7},
        {"x": 1.5, "y": 0.6}),
}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=name, marks=[pytest.mark.study] * (name != "decay"))
        for name, row in MODELS.items()
    ],
)
def test_profiles(row, monkeypatch):
    """What can be known has an interval; to hold what cannot elsewhere costs nothing."""
    monkeypatch.setenv("KINESYM_TIER", "interpreted")
    rates, inputs, values, start = row
    model, measured, _ = read((rates, "x", inputs, ""))
    verdict = model.identifiability(measured)
    time, noise = np.linspace(0.0, 6.0, 121), 0.02
    push = {u: np.sin(2.0 * time) + 0.7 * np.sin(5.3 * time) for u in model.input_names}
    x = ks.simulate(model, time, start, values, inputs=push)["x"]
    x = x + noise * np.random.default_rng(0).standard_normal(len(x))
    trial = ks.Experiment(time, push, {"x": x}, std={"x": noise})
    unknown = {name: (0.05 * value, 20.0 * value) for name, value in values.items()}

    def fitted(known, guess):
        left = {name: bounds for name, bounds in unknown.items() if name not in known}
        guess = {name: guess[name] for name in left}
        return ks.Collocation(model, trial, left, known, scheme="radau-5").solve(guess)

    fit = fitted({}, values)
    for name, row in fit.parameters.table.items():
        if verdict[name]:
            profile = fit.profile(name)
            assert 0.5 * row.value < profile.low < row.value < profile.high < 2.0 * row.value
            continue
        with pytest.raises(ValueError, match=f"parameter {name} has no profile"):
            fit.profile(name)
        guess = {other: one.value for other, one in fit.parameters.table.items()}
        for factor in (0.6, 1.6):
            held = fitted({name: factor * row.value}, guess)
            assert abs(held.objective - fit.objective) < 1e-8
    for combination in verdict.combinations:
        profile = fit.profile(
            combination.xreplace({x.func(0): ks.at_start(x) for x in model.states})
        )
        assert 0.5 < profile.low / profile.estimate < profile.high / profile.estimate < 2.0
