"""What perfect measurements could not tell is said before a fit, and only where it is so."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.internal.fitting.structural_identifiability import BEFORE_FITS, untold

t = ks.t
x, v, F = ks.dynamicsymbols("x v F")
m, k, b, a, c, p, q = sp.symbols("m k b a c p q")
TIME = np.linspace(0.0, 1.0, 21)
WAVE = np.sin(3.0 * TIME)
FORCED = ks.Experiment(TIME, inputs={F: WAVE}, measurements={x: WAVE})
FREE = ks.Experiment(TIME, measurements={x: WAVE})
BOTH = ks.Experiment(TIME, measurements={x: WAVE, F: WAVE})
SPRING = ks.Model(
    "spring",
    [x, v],
    [F],
    [m, k, b],
    [x.diff(t) - v, m * v.diff(t) + k * x - b * F],
    values={m: 2.0, k: 3.0, b: 1.0},
)
DECAY = ks.Model("decay", [x], [], [k, a], [x.diff(t) + k * x], {"y": a * x}, values={k: 1, a: 1})
SHOWN = ks.Experiment(TIME, measurements={"y": WAVE})
LOADED = ks.Model("loaded", [x], [F], [m, p, q], [x.diff(t) + (p + q * m) * x - F], values={m: 2.0})
RESTING = ks.Model("resting", [x], [], [p, q], [x.diff(t)], {"y": p * x + q})
NOISY = ks.Experiment(TIME, {}, {x: WAVE}, {x: p + x**2})
SEEN = ks.Experiment(TIME, measurements={x: WAVE, "y": WAVE})
MIXED = ks.Model("mixed", [x], [], [a, b, c], [x.diff(t) + ((1 - c) * a + c * b) * x])
LATE = ks.Model("late", [x], [F], [a], [x.diff(t) - F], {"y": a * x**8})
KINKED = ks.Model("kinked", [x], [F], [m, k], [m * x.diff(t) + k * sp.Abs(x) - k * F])

THREE = (
    "m, k and b cannot be known from x, at most m/k and m/b: fix one of them, or give it a prior"
)
ALL = {m: None, k: None, b: None}


def by(trial, **parameters):
    return ks.Experiment(
        TIME,
        inputs=trial.inputs,
        measurements=trial.measurements,
        parameters=parameters,
        labels={"subject": f"s{sum(parameters.values()):g}"},
    )


CASES = {
    "a scale": ((SPRING, FORCED, ALL), {}, THREE),
    "of two trials": ((SPRING, [FORCED, FORCED], ALL), {}, THREE),
    "of noise": ((DECAY, NOISY, {k: None, p: None}), {}, ""),
    "beside what is censored": (
        (RESTING, ks.Experiment(TIME, {}, {"y": ks.censored(WAVE, 0.0)}, {"y": 0.1}), {p: None}),
        {"known": {q: 0.0}},
        "p and x(0) cannot be known from y, at most p*x(0): fix one of them, or give it a prior",
    ),
    "a prior": ((SPRING, FORCED, {**ALL, m: ks.normal(2, 0.1)}), {}, ""),
    "no prior, but bounds": ((SPRING, FORCED, {**ALL, m: (1, 3)}), {}, THREE),
    "a fixed one": ((SPRING, FORCED, {k: None, b: None}), {}, ""),
    "fixed by bounds": ((SPRING, FORCED, {**ALL, m: (2, 2)}), {}, ""),
    "an unknown force": (
        (SPRING, FREE, {k: None, b: None}),
        {"unknown_inputs": {F: None}},
        "k cannot be known from x: fix it, or give it a prior; "
        "b cannot be known from x: fix it, or give it a prior",
    ),
    "measured": ((SPRING, BOTH, {k: None, b: None}), {"unknown_inputs": {F: None}}, ""),
    "held": ((SPRING, FREE, {k: None, b: None}), {"unknown_inputs": {F: ks.held()}}, ""),
    "paid for": (
        (SPRING, FREE, ALL),
        {"unknown_inputs": {F: None}, "objective": ks.LeastSquares() + ks.Integral(F**2)},
        THREE,
    ),
    "a prior of the motion": (
        (SPRING, FORCED, ALL),
        {"objective": ks.LeastSquares() + ks.Integral(k * x**2)},
        "",
    ),
    "process noise": (
        (SPRING, FREE, {b: None}),
        {"noise": {F: None}},
        "b and sigma_F cannot be known from x, at most b*sigma_F",
    ),
    "a condition": ((SPRING, FORCED, ALL), {"boundary": [ks.at_end(x) - k]}, ""),
    "a path": ((SPRING, FORCED, ALL), {"path": [(k * x, -1, 5)]}, ""),
    "an end time": (
        (
            SPRING,
            ks.Experiment(TIME, duration=(1, 2), measurements={x: WAVE}, inputs={F: WAVE}),
            ALL,
        ),
        {"known": {}},
        "",
    ),
    "a gain": (
        (
            SPRING,
            ks.Experiment(TIME, inputs={F: WAVE}, measurements={"s": WAVE}),
            {b: None, a: None, c: None},
        ),
        {"sensors": {"s": a * x + c}},
        "b, a, x(0) and v(0) cannot be known from s, at most a*b, b/x(0) and b/v(0)",
    ),
    "a start": (
        (DECAY, SHOWN, {k: None, a: None}),
        {},
        "a and x(0) cannot be known from y, at most a*x(0): fix one of them, or give it a prior",
    ),
    "that is known": ((DECAY, SHOWN, {k: None, a: None}), {"boundary": [ks.at_start(x) - 2]}, ""),
    "within limits": (
        (DECAY, SHOWN, {k: None, a: None}),
        {"boundary": [(ks.at_start(x), 0, 1)]},
        "",
    ),
    "that follows": (
        (DECAY, SHOWN, {k: None, a: None}),
        {"boundary": [a * ks.at_start(x) - 2]},
        "a cannot be known from y: fix it, or give it a prior",
    ),
    "a load": (
        (LOADED, FORCED, {p: None, q: None}),
        {},
        "p and q cannot be known from x, at most p + 2*q: fix one of them, or give it a prior",
    ),
    "two loads": ((LOADED, [by(FORCED, m=1), by(FORCED, m=2)], {p: None, q: None}), {}, ""),
    "two loads that are one": (
        (LOADED, [by(FORCED, m=1), by(FORCED, m=1)], {p: None, q: None}),
        {},
        "p and q cannot be known from x, at most p + q: fix one of them, or give it a prior",
    ),
    "one place": (
        (RESTING, SEEN, {p: None, q: None}),
        {},
        "p and q cannot be known from x, y, at most p*x(0) + q",
    ),
    "two places": ((RESTING, [SEEN, SEEN], {p: None, q: None}), {}, ""),
    "offsets of two places": (
        (RESTING, [SEEN, SEEN], {p: None, q: ks.per_trial()}),
        {},
        "p, q[0] and q[1] cannot be known",
    ),
    "subjects": (
        (LOADED, [by(FORCED, m=1), by(FORCED, m=2)], {p: ks.per("subject"), q: None}),
        {},
        "p[s1], p[s2] and q cannot be known from x, at most (2*p[s1] - p[s2])/2 and p[s1] + q",
    ),
    "a number that leaves one out": (
        (MIXED, FREE, {a: None, b: None}),
        {"known": {c: 0}},
        "b cannot be known from x: fix it, or give it a prior",
    ),
    "what is seen late from rest": (
        (LATE, ks.Experiment(TIME, inputs={F: WAVE}, measurements={"y": WAVE}), {a: None}),
        {"boundary": [ks.at_start(x)]},
        "",
    ),
    "a kink": ((KINKED, FORCED, {m: None, k: None}), {}, ""),
}


def said(task):
    return "; ".join(each.sentence for each in untold(task.problem, BEFORE_FITS))


@pytest.mark.parametrize(("given", "more", "words"), CASES.values(), ids=CASES)
def test_what_is_said(given, more, words):
    found = said(ks.Collocation(*given, **more))
    assert found.startswith(words) and bool(found) == bool(words)


@pytest.mark.parametrize(("start", "words"), [(1.0, ""), (None, "a and x(0) "), (0.0, "k cannot ")])
def test_by_simulation(start, words):
    task = ks.Shooting(DECAY, SHOWN, {k: None, a: None}, initial={x: start})
    found = said(task)
    assert found.startswith(words) and bool(found) == bool(words)


def test_once_before_the_fit_and_in_why():
    task = ks.Collocation(SPRING, FORCED, ALL, scheme="midpoint")
    with pytest.warns(UserWarning, match="at most m/k and m/b") as told:
        task.solve({m: 1.0, k: 1.0, b: 1.0}, max_iterations=1)
    assert len([one for one in told if "cannot be known" in str(one.message)]) == 1
    assert THREE in task.why().causes


def test_a_fit_names_combinations_that_are_neither_powers_nor_sums():
    arm = ks.Model("arm", [x], [F], [p, m, q], [(p + m * q**2) * x.diff(t) + m * q * x - F])
    data = ks.simulate(arm, TIME, {x: 1.0}, {p: 0.1, m: 1.0, q: 0.5}, {F: WAVE})
    trial = ks.Experiment(TIME, inputs={F: WAVE}, measurements={x: data[x]}, std={x: 1e-3})
    task = ks.Collocation(arm, trial, dict.fromkeys([p, m, q], (0.01, 9)), scheme="midpoint")
    with pytest.warns(UserWarning, match="p, m and q cannot be known from x, at most"):
        fit = task.solve({p: 0.2, m: 1.0, q: 0.4})
    assert "p, m and q are not identifiable together, only as m*q and m*q**2 + p" in str(fit)


def test_few_of_many_groups_are_named():
    alone = {p: ks.per_trial() for p in ALL}
    task = ks.Collocation(SPRING, [FORCED] * 5, alone, scheme="midpoint")
    with pytest.warns(UserWarning, match=r"b\[2\] cannot .*; 2 more such groups$"):
        task.solve({m: 1.0, k: 1.0, b: 1.0}, max_iterations=1)


def test_a_combination_without_an_expression_is_said_to_be_there():
    power = ks.Model("power", [x], [F], [p, q], [x.diff(t) + p**q * x - F])
    words = said(ks.Collocation(power, FORCED, {p: None, q: None}))
    assert words.startswith("p and q cannot be known from x, at most combinations that were not")


def test_what_takes_long_is_left_out():
    task = ks.Collocation(SPRING, FORCED, ALL)
    assert [untold(task.problem, most) for most in (1000, 20_000)] == [(), ()]
