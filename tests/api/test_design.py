"""Designs of experiments against closed forms of the literature; bad input."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.designing import _free, _planner, _slopes
from kinesym.internal.fitting.designs import Designing
from kinesym.runtime.statistics.subset import best_set

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


def spring(trials: int = 1, unknown: Any = None, **more: Any) -> ks.Collocation:
    model = ks.Model("spring", [x, v], [F], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - F])
    time = np.linspace(0.0, 10.0, 101)
    about = time, {F: 0.5 * np.sin(time)}, {x: np.zeros(101)}, {x: 0.01}
    plans = [ks.Experiment(*about, labels={"subject": f"s{n}"}) for n in range(trials)]
    return ks.Collocation(model, plans, unknown or {k: (0, 100), c: (0, 10)}, **more)


GUESS = {k: 9.0, c: 0.5, x: 0.0, v: 0.0}


def test_a_course_is_found_within_its_limits() -> None:
    limits = ks.sines(band=(0.1, 1.5), rms=0.4, amplitude=1.0, waves=4)
    found = ks.design(spring(), GUESS, {F: limits}, tries=1, iterations=4)
    course = found.trials[0].inputs["F"]
    assert np.std(course) < 0.4 + 1e-9
    assert abs(course).max() < 1.0 + 1e-9
    assert found.gain > 3.0
    assert found.values[1] == pytest.approx(
        max(r.standard_error / r.value for r in found.after.parameters.table.values())
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


def test_samples_are_chosen_for_the_criterion_and_the_worst_guess() -> None:
    """Of one parameter other samples are the best than of all; what is told is of all guesses."""
    of_k, of_all = (ks.design(spring(), GUESS, samples=5, criterion=each) for each in (k, "worst"))
    assert of_k.criterion == "standard error of k"
    assert of_k.values[1] < 0.9 * of_all.after.parameters.table["k"].standard_error
    guesses = [GUESS, {**GUESS, k: 30.0}]
    found = ks.design(spring(), guesses, samples=5)
    again = ks.Collocation(spring().model, found.trials, {k: (0, 100), c: (0, 10)})
    taken = found.trials[0].measurements["x"]
    assert np.isfinite(found.trials[0].std["x"]).all()
    np.testing.assert_array_equal(again.trials[0].grid[~np.isnan(taken)], found.times["x"][0])
    told = [ks.forecast(again, guess).parameters.table.values() for guess in guesses]
    assert found.values[1] == pytest.approx(
        max(row.standard_error / row.value for table in told for row in table), rel=1e-4
    )


@pytest.mark.parametrize("kind", ["collocation", "shooting with a prior", "unknown input"])
def test_sensors_are_the_best_of_all_subsets(kind: str) -> None:
    """As of forecasts without the others; with an unknown input their information does not add."""
    rows, time = {"a": v.diff(t), "b": 2 * x - v, "d": k * x}, np.linspace(0.0, 5.0, 51)
    seen = {x: np.zeros(51), **dict.fromkeys(rows, np.zeros(51))}
    std = {x: 0.02, "a": 0.05, "b": 0.03, "d": 0.2}
    push, starts = {F: np.sin(time)}, {x: 0.2, v: 0.0}
    about: Any = (spring().model, ks.Experiment(time, push, seen, std))
    unknown: Any = {k: (0, 100), c: (0, 10)}
    guess: Any = {k: 9.0, c: 0.5, **starts}
    problem: ks.Collocation | ks.Shooting = ks.Collocation(*about, unknown, sensors=rows)
    if kind == "shooting with a prior":
        unknown, guess = {k: ks.normal(9.0, 0.2), c: (0, 10)}, {k: 9.0, c: 0.5}
        problem = ks.Shooting(*about, unknown, initial=starts, sensors=rows)
    if kind == "unknown input":
        about, guess = (about[0], ks.Experiment(time, {}, seen, std)), {k: 9.0, **push, **starts}
        more: Any = {"known": {c: 0.5}, "unknown_inputs": {F: None}}
        problem = ks.Collocation(*about, {k: (0, 100)}, sensors=rows, **more)
    found, names = ks.design(problem, guess, sensors=2), {"x", *rows}
    left = [each for n in (1, 2, 3) for each in combinations(sorted(names), n)]
    told = ks.forecast(problem, guess, without=left).variants.items()
    worst = {
        frozenset(names - {*varied.value}): max(
            np.nan_to_num(row.standard_error, nan=np.inf) / row.value for row in each.table.values()
        )
        for varied, each in told
    }
    best = min((kept for kept in worst if len(kept) == 2), key=worst.__getitem__)
    assert set(found.sensors) == best == set(found.trials[0].measured)
    assert found.values[1] == pytest.approx(worst[best], rel=1e-6)
    expected = {name: worst[best - {name}] for name in best}
    assert found.sensors == pytest.approx(expected, rel=1e-6)
    assert found.further == pytest.approx({n: worst[best | {n}] for n in names - best}, rel=1e-6)
    assert "without it" in str(found) and len(found.plot().axes) == 2


def test_sensors_then_courses_and_samples_of_them() -> None:
    model, time = spring().model, np.linspace(0.0, 5.0, 51)
    seen, std = {x: np.zeros(51), v: np.zeros(51)}, {x: 0.02, v: 0.03}
    plan = ks.Experiment(time, {F: 0.1 * np.sin(time)}, seen, std)
    problem = ks.Shooting(model, plan, {k: (0, 100), c: (0, 10)}, initial={x: 0.0, v: 0.0})
    limits = {F: ks.sines(band=(0.1, 1.0), rms=0.1, waves=1)}
    about: Any = {"sensors": 1, "samples": 9, "tries": 1, "iterations": 2}
    found = ks.design(problem, {k: 9.0, c: 0.5}, limits, **about)
    [kept] = found.sensors
    assert list(found.times) == list(found.trials[0].measured) == [kept]
    assert len(found.times[kept][0]) == 9
    again = ks.Shooting(model, found.trials, {k: (0, 100), c: (0, 10)}, initial={x: 0.0, v: 0.0})
    told = ks.forecast(again, {k: 9.0, c: 0.5}).parameters.table.values()
    assert found.values[1] == pytest.approx(max(r.standard_error / r.value for r in told), rel=1e-4)


def test_the_best_set_of_many_is_found_by_exchanges() -> None:
    """As the best of all 5,005 by enumeration."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((15, 3)) * rng.uniform(0.2, 2.0, (15, 1))

    def value(mask: Any) -> float:
        return -float(np.linalg.slogdet(rows[mask].T @ rows[mask] + 1e-9 * np.eye(3))[1])

    best = min(value(np.isin(np.arange(15), s)) for s in combinations(range(15), 6))
    assert value(best_set(value, 15, 6)) == pytest.approx(best)


@pytest.mark.parametrize("kind", ["collocation", "shooting"])
def test_the_shortest_experiment_is_the_first_that_comes_to_the_goal(kind: str) -> None:
    """One step less does not; the rate of samples is kept, and the motion is the same."""
    time, long = np.linspace(0.0, 5.0, 51), np.linspace(0.0, 20.0, 201)
    push = ks.Signal(long, np.sin(long))
    about: Any = (spring().model, ks.Experiment(time, {F: push}, {x: np.zeros(51)}, {x: 0.01}))
    unknown, starts = {k: (0, 100), c: (0, 10)}, {x: 0.2, v: 0.0}
    guess: Any = {k: 9.0, c: 0.5}
    problem: Any = ks.Shooting(*about, unknown, initial=starts)
    if kind == "collocation":
        problem, guess = ks.Collocation(*about, unknown), {**guess, **starts}
    found = ks.design(problem, guess, {"duration": (2.0, 20.0)}, goal=0.05)
    assert len(found.trials[0].grid) == round(10 * found.seconds) + 1
    seconds = [found.seconds - 0.1, found.seconds]
    told = ks.forecast(problem, guess, seconds=seconds).variants.values()
    before, after = (
        max(row.standard_error / row.value for row in each.table.values()) for each in told
    )
    assert before > 0.05 >= after == pytest.approx(found.values[1], rel=1e-6)
    assert f"{found.seconds:g} s come to 0.05; 20 s come to" in str(found)
    assert len(found.plot().axes) == 2
    never = ks.design(problem, guess, {"duration": (2.0, 20.0)}, goal=1e-4)
    assert "no duration comes to 0.0001: 20 s come to" in str(never)
    met = ks.design(problem, guess, {"duration": (5.0, 20.0)}, goal=10.0)
    assert f"5 s, the shortest that may be, come to {met.values[1]:.3g}" in str(met)


def test_a_course_with_a_duration_is_designed_for_the_longest() -> None:
    limits = ks.sines(band=(0.1, 1.0), rms=1.0, waves=1)
    over = {F: limits, "duration": (2.0, 10.0)}
    found = ks.design(spring(), GUESS, over, goal=0.1, tries=1, iterations=1)
    assert found.seconds < 10.0 and found.values[1] <= 0.1 < max(found.durations.values())
    again = ks.Collocation(spring().model, found.trials, {k: (0, 100), c: (0, 10)})
    told = ks.forecast(again, GUESS).parameters.table.values()
    assert found.values[1] == pytest.approx(max(r.standard_error / r.value for r in told), rel=1e-6)


def test_one_owner_is_a_criterion() -> None:
    problem = spring(2, {k: ks.per("subject"), c: (0, 10)})
    guess = {**GUESS, k: {"s0": 8.0, "s1": 20.0}}
    found = ks.design(problem, guess, samples=9, criterion="k[s1]", tries=1)
    told = found.after.parameters.table["k[s1]"].standard_error
    assert found.values[1] == pytest.approx(told, rel=1e-12)
    assert len(found.times["x"][1]) > len(found.times["x"][0])


def test_bounds_of_states_do_not_move_the_motion_but_are_told() -> None:
    """Constant ones, those over time, and conditions of the path."""
    high = np.linspace(0.05, 0.04, 101)
    free = ks.forecast(spring(), GUESS)
    for about in (
        {"bounds": {x: (-9.0, 0.04)}},
        {"bounds": {x: (-9.0, high)}},
        {"path": [x <= 0.04]},
    ):
        told = ks.forecast(spring(**about), GUESS)
        assert told.standard_errors() == pytest.approx(free.standard_errors(), rel=1e-6)
        assert "the assumed motion passes" in str(told) and "doubtful" not in str(told)
    low = {x: (-9.0, 0.2)}
    found = ks.design(spring(bounds=low), GUESS, {x: (-0.01, 0.5)}, tries=1, iterations=2)
    assert 0.1 < found.starts["x"][0] < 0.21
    limits = {F: ks.sines(band=(0.1, 1.0), rms=9.0, waves=1)}
    found = ks.design(spring(bounds=low), GUESS, limits, tries=1, iterations=1)
    assert "the assumed motion passes bounds of x by" in str(found)


def test_what_cannot_be_known_before_has_no_number() -> None:
    still = {**GUESS, x: 0.0}
    plan = spring().trials[0]
    rest = ks.Experiment(plan.grid, {F: np.zeros(101)}, {x: np.zeros(101)}, {x: 0.01})
    problem = ks.Collocation(spring().model, rest, {k: (0, 100), c: (0, 10)})
    limits = ks.sines(band=(0.1, 1.0), rms=1.0, waves=2)
    found = ks.design(problem, still, {F: limits}, tries=1, iterations=1)
    assert found.values[0] == np.inf and "worst not known before" in str(found)


@pytest.mark.parametrize("band", [(0.01, 0.02), (0.05, 0.15), (0.3, 0.35), (0.1, 4.0)])
def test_a_band_holds(band: tuple[float, float]) -> None:
    """Also one without a whole period in the record."""
    time = np.linspace(0.0, 10.0, 101)
    frequencies = ks.sines(band=band, rms=1.0).like(time, np.zeros(101)).frequencies(time)
    assert band[0] <= frequencies.min() < frequencies.max() <= band[1]


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, "nothing is free"),
        ({"samples": 2}, "no design that was tried tells what is wanted"),
        ({"over": {F: ks.sines(band=(1, 9))}}, "nodes show frequencies up to 5 Hz"),
        ({"over": ["f"]}, "a known input or a state of over"),
        ({"over": {F: (0, 1)}}, "the limits of input F are ks.sines"),
        ({"over": {x: None}}, "the start of x is free between (low, high)"),
        ({"over": {x: (1, 0)}}, "the bounds of the start of x are crossed"),
        ({"over": [F], "criterion": "best"}, "criterion"),
        ({"samples": {"z": 2}}, "a channel of samples"),
        ({"samples": 0}, "samples"),
        ({"over": [F], "tries": 0}, "tries"),
        ({"over": {"duration": (2, 5)}}, "a longer experiment never tells less"),
        ({"over": [F], "goal": 0.1}, "goal is of the shortest experiment"),
        ({"over": {"duration": 5}, "goal": 0.1}, "the duration is free between (low, high)"),
        ({"over": {"duration": (2, 5)}, "goal": 0.1, "samples": 3}, "leave samples out"),
        ({"sensors": 1}, "sensors=1 leaves nothing to choose: measured are x"),
    ],
)
def test_bad_input(about: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        ks.design(spring(), GUESS, **about)


def test_a_start_that_a_condition_tells_is_refused() -> None:
    with pytest.raises(ValueError, match="does not begin where over lets x begin"):
        ks.design(spring(boundary=[ks.at_start(x) - 0.1]), GUESS, {x: (-0.5, 0.5)})


def test_an_input_that_acts_later_keeps_its_past() -> None:
    model = ks.Model("late", [x], [F], [k], [x.diff(t) + k * x - ks.delayed(F, 0.3)])
    time = np.linspace(0.0, 5.0, 51)
    push = ks.Signal(np.append(-0.5, time), np.append(2.0, np.sin(time)))
    plan = ks.Experiment(time, {F: push}, {x: np.zeros(51)}, {x: 0.01})
    problem = ks.Collocation(model, plan, {k: (0, 10)})
    limits = {F: ks.sines(rms=1.0, waves=1)}
    found = ks.design(problem, {k: 1.0, x: 0.0}, limits, tries=1, iterations=1)
    np.testing.assert_allclose(found.trials[0].signals["F"]([-0.5]), 2.0)


def pendulum(*channels: str) -> ks.Collocation:
    """Outputs with second derivatives."""
    x_, v_ = spring().model.states
    rates = [x_.diff(t) - v_, v_.diff(t) + k * sp.sin(x_) + c * v_ - F]
    model = ks.Model("p", [x_, v_], [F], [k, c], rates, outputs={"a": v.diff(t), "s": x * v})
    time, none = np.linspace(0.0, 5.0, 51), np.zeros(51)
    seen = {name: none for name in channels}
    plan = ks.Experiment(time, {F: np.sin(time)}, seen, dict.fromkeys(channels, 0.05))
    return ks.Collocation(model, plan, {k: (0, 100), c: (0, 10)})


RMS = ks.sines(band=(0.1, 1.5), rms=0.4, waves=2)


@pytest.mark.parametrize(
    ("problem", "over", "wanted"),
    [
        (spring(), {F: replace(RMS, amplitude=0.5), x: (-0.2, 0.3)}, "worst"),
        (spring(bounds={x: (-9.0, 0.01)}), {F: replace(RMS, rms=None, rate=1.0)}, "A"),
        (spring(path=[x * v <= 1e-3]), {F: RMS}, "E"),
        (spring(2, {k: ks.log_scale(0.1, 99), c: ks.normal(0.5, 0.1)}), {F: RMS}, "D"),
        (pendulum("a", "s"), {F: RMS, x: (-0.2, 0.9)}, k / c),
        (spring(scheme="trapezoid"), {x: (-0.2, 0.3)}, "worst"),
    ],
)
def test_derivatives_of_criteria(problem: ks.Collocation, over: Any, wanted: Any) -> None:
    """Through the factors, against differences of forecasts."""
    free = _free(problem, over)
    guess = {"k": 9.0, "c": 0.5, "x": 0.0, "v": 0.1}
    search = Designing(
        _planner(problem, ()), problem.trials, [guess], free, wanted, _slopes(problem, free)
    )
    here = free.normal(free.drawn(np.random.default_rng(2)))
    assert search._is_exact(here)
    value, slopes = search.looked(here)
    way = np.random.default_rng(3).standard_normal(len(here))
    up, down = (search.value(here + step * way) for step in (1e-5, -1e-5))
    assert slopes @ way == pytest.approx((up - down) / 2e-5, rel=1e-5)
    assert value == search.value(here)


def test_what_has_no_exact_derivatives_is_designed_by_differences() -> None:
    """An input that a sensor shows at the start, where the scheme does not know it."""
    time, none = np.linspace(0.0, 5.0, 51), np.zeros(51)
    plan = ks.Experiment(time, {F: np.sin(time)}, {"p": none}, {"p": 0.05})
    unknown = {k: (0, 100), c: (0, 10)}
    problem = ks.Collocation(spring().model, plan, unknown, sensors={"p": k * x + 2 * F})
    free = _free(problem, {F: replace(RMS, waves=1)})
    guess = {"k": 9.0, "c": 0.5, "x": 0.0, "v": 0.1}
    search = Designing(
        _planner(problem, ()), problem.trials, [guess], free, "worst", _slopes(problem, free)
    )
    assert not search._is_exact(np.ones(2))
    assert search.improved(np.ones(2), 1)[1] < search.value(np.ones(2))


def test_no_frequencies_without_a_duration() -> None:
    plan = ks.Experiment(
        nodes=21,
        duration=(1.0, 9.0),
        inputs={F: np.sin(np.linspace(0, 6, 21))},
        measurements={x: np.zeros(21)},
        std={x: 0.01},
    )
    end = [ks.at_end(x)]
    problem = ks.Collocation(spring().model, plan, {k: (0, 100), c: (0, 10)}, boundary=end)
    guess = {**GUESS, x: 0.5, "duration": 3.5}
    for about, words in (({"over": [F]}, "has no frequencies"), ({"samples": 5}, "durations are")):
        with pytest.raises(ValueError, match=words):
            ks.design(problem, guess, **about)


def test_samples_that_a_scheme_compares_together_are_refused() -> None:
    model = spring().model
    force = ks.Model("f", model.states, model.inputs, model.parameters, model.equations,
                     outputs={"a": v.diff(t)})  # fmt: skip
    time = np.linspace(0.0, 5.0, 21)
    plan = ks.Experiment(time, {F: np.sin(time)}, {"a": np.zeros(21)}, {"a": 0.1})
    problem = ks.Collocation(force, plan, {k: (0, 100), c: (0, 10)}, scheme="gauss-4")
    with pytest.raises(ValueError, match="samples of a are compared with the model between nodes"):
        ks.design(problem, GUESS, samples=5)


@pytest.mark.parametrize(
    "about", [{"band": (2, 1)}, {"band": 3}, {"rms": -1}, {"amplitude": 0}, {"waves": 0}]
)
def test_bad_limits(about: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(about))):
        ks.sines(**about)
