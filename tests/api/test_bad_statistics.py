"""What cannot be known of an estimate is said, in one sentence, by collocation, shooting and hybrid
shooting alike; what can be is a number that does not depend on units."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.hybrid import Event, Hybrid

X, V = ks.dynamicsymbols("x v")
K, B, M = sp.symbols("k b m")
TIME = np.linspace(0.0, 4.0, 81)
FREE = {K: (0, 100), B: (0, 5)}
GUESS = {K: 18.0, B: 0.3}
OSCILLATOR = ks.Model(
    "oscillator",
    [X, V],
    [],
    [K, B, M],
    [X.diff(ks.t) - V, M * V.diff(ks.t) + B * V + K * X],
    values={M: 1.0},
)
CLEAN = np.exp(-0.2 * TIME) * np.cos(np.sqrt(19.96) * TIME)
CLEAN += 0.2 / np.sqrt(19.96) * np.exp(-0.2 * TIME) * np.sin(np.sqrt(19.96) * TIME)
NOISY = CLEAN + 0.02 * np.random.default_rng(0).standard_normal(81)


def trial(y=NOISY, **more):
    return ks.Experiment(TIME, measurements={X: y}, **more)


def few(*places):
    return trial(np.where(np.isin(np.arange(81), places), NOISY, np.nan))


def collocated(trials, unknown=FREE, guess=GUESS, known=None, **more):
    problem = ks.Collocation(OSCILLATOR, trials, unknown=unknown, known=known)
    return problem.solve(guess, **more)


def shot(trials, unknown=FREE, guess=GUESS, known=None, **more):
    free = [None] * len(trials) if isinstance(trials, list) else None
    problem = ks.Shooting(
        OSCILLATOR,
        trials,
        unknown=unknown,
        known=known,
        initial={X: free, V: free},
        method="rk4",
        substeps=4,
    )
    return problem.solve(guess, "least-squares", **more)


def shot_hybrid(trials, unknown=FREE, guess=GUESS, known=None, **more):
    system = Hybrid(OSCILLATOR, events=[Event("top", V)])
    problem = ks.Shooting(system, trials, unknown=unknown, known=known, initial={X: 1.0, V: 0.0})
    return problem.solve(guess, "least-squares", **more)


WAYS = pytest.mark.parametrize("solve", [collocated, shot, shot_hybrid])
METHODS = ("t", "sandwich", "profile", "bootstrap")

OWNED = {K: (0, 100), B: ks.per("subject", (0, 5))}
ANNA, BEN = (trial(labels={"subject": who}) for who in ("anna", "ben"))

#: Trials, more arguments, and what is said when the problem is made or its guess is read.
ENTRIES = [
    ([ANNA, trial()], {"unknown": OWNED}, "trial 1 has no label subject"),
    ([ANNA, BEN], {"unknown": OWNED, "guess": {B: {"cleo": 1.0}}}, "no trial has the subject cleo"),
    ([ANNA, BEN], {"unknown": OWNED, "guess": {B: [1.0, 2.0]}}, "one per subject: {'anna': ...}"),
    (trial(parameters={K: 20.0}), {}, "k has a value in each trial and is unknown"),
    (trial(), {"known": {K: 20.0}}, "k is both known and unknown"),
    (
        [trial(labels={"subject": "anna"}, parameters={B: 0.4}), BEN],
        {"unknown": OWNED},
        "and is unknown; it is either, in all trials",
    ),
    (
        [trial(parameters={B: 1.0}), BEN],
        {"unknown": {K: (0, 100)}},
        "b has a value in trial 0 and none in trial 1",
    ),
    (trial(), {"unknown": {**FREE, "k": (0, 1)}}, "k is given twice"),
    ([ANNA, BEN], {"known": {M: {"anna": 1.0}}}, "goes into Experiment(parameters=...)"),
    ([ANNA, BEN], {"unknown": {**FREE, B: {"anna": (0, 5)}}}, 'ks.per("subject", (low, high))'),
    (ks.Experiment(TIME), {}, "the experiment has none; give measurements"),
]


@WAYS
@pytest.mark.parametrize("trials, more, words", ENTRIES)
def test_what_cannot_be_a_problem(solve, trials, more, words):
    with pytest.raises(ValueError) as error:
        solve(trials, **more)
    assert words in str(error.value)


#: Samples, and what is said of a fit that converges on them.
POOR = [
    (few(1, 41), "leave no degrees of freedom"),
    (few(40), "its only sample leaves no degrees of freedom"),
    (trial(np.zeros(81)), "the samples of x do not change: they tell no std"),
]


@WAYS
@pytest.mark.parametrize("record, words", POOR)
def test_records_that_tell_no_noise(solve, record, words):
    found = solve(record)
    assert words in "; ".join(found.notes)
    if "freedom" in words:
        assert np.isnan(list(found.parameters.standard_errors().values())).all()
        for ask in (found.intervals, found.diagnostics, found.bootstrap):
            with pytest.raises(ValueError, match=words):
                ask()


@WAYS
def test_data_made_by_the_model_itself(solve):
    found = solve(trial())
    again = solve(trial(found["x"]))
    assert any("samples of x are met but for rounding" in note for note in again.notes)


def test_two_channels_made_by_the_model_itself():
    found = shot(trial())
    both = shot(ks.Experiment(TIME, measurements={X: found["x"], V: found["v"]}))
    assert sum("are met but for rounding" in note for note in both.notes) == 2


#: What is asked of a fit, and the sentence.
ASKED = [
    (lambda fit: fit.intervals(95), "level must be between 0 and 1, got 95"),
    (lambda fit: fit.interval(K, np.nan), "level must be between 0 and 1, got nan"),
    (lambda fit: fit.profile(K, 1.0), "level must be between 0 and 1, got 1.0"),
    (lambda fit: fit.bootstrap(3).intervals(95), "level must be between 0 and 1, got 95"),
    (lambda fit: fit.intervals(method="T"), "method is one of t, sandwich, profile, bootstrap"),
    (lambda fit: fit.intervals(method="bootstrap", records=1), "records must be at least 2"),
    (lambda fit: fit.bootstrap(3, executor=4), "executor must have a method map, got 4"),
    (lambda fit: fit.report("a.html", profiles=["k"]), "profiles must be a list of Profile(...)"),
]


@WAYS
def test_what_is_asked_of_a_fit(solve, tmp_path):
    fit = solve(trial())
    for ask, words in ASKED:
        with pytest.raises(ValueError) as error:
            ask(fit)
        assert words in str(error.value)
    fit.save(tmp_path / "fit.nc")
    loaded = type(fit).load(tmp_path / "fit.nc")
    assert loaded.intervals().intervals() == fit.intervals().intervals()
    for method in METHODS[1:]:
        with pytest.raises(ValueError, match="was loaded or copied"):
            loaded.intervals(method=method)


@WAYS
def test_nothing_is_known_without_convergence(solve, tmp_path):
    fit = solve(trial(), max_iterations=1)
    assert not fit.success and np.isnan(fit.to_pandas()["standard_error"]).all()
    asked = [lambda m=method: fit.intervals(method=m) for method in METHODS]
    for ask in (*asked, fit.diagnostics, lambda: fit.interval(K)):
        with pytest.raises(ValueError, match="there are no standard errors: "):
            ask()
    with pytest.raises(ValueError, match="no bands without convergence"):
        fit.bands()
    text = fit.report(tmp_path / "a.html").read_text(encoding="utf-8")
    assert "It has not converged" in text
    assert "interval" not in text.replace("per interval", "")


@WAYS
def test_what_only_a_combination_tells(solve):
    """Of k, b and m only k/m and b/m act."""
    fit = solve(trial(), {**FREE, M: (0.1, 5)}, {**GUESS, M: 1.0})
    assert "are not identifiable together" in str(fit)
    assert fit.noise[0].freedom == {collocated: 77.0, shot: 77.0, shot_hybrid: 79.0}[solve]
    for method in METHODS:
        found = fit.intervals(method=method, records=3)
        for row in found.table.values():
            assert np.isnan([row.standard_error, row.low, row.high]).all()
            assert row.remark == "known only as k/m and b/m"
    with pytest.raises(ValueError, match="k has no profile: it is known only as"):
        fit.profile(K)
    assert fit.interval(K * M).remark == "not identifiable"
    known, ratio = solve(trial()).parameters.table["k"], fit.interval(K / M)
    assert [ratio.value, ratio.standard_error] == pytest.approx(
        [known.value, known.standard_error], rel=1e-4
    )


def test_what_an_integral_does_not_tell():
    """The same of an objective that is no likelihood, where nothing has a std."""
    seen = ks.dynamicsymbols("seen")
    problem = ks.Shooting(
        OSCILLATOR,
        ks.Experiment(TIME, inputs={seen: NOISY}, measurements={X: NOISY}),
        unknown={**FREE, M: (0.1, 5)},
        initial={X: 1.0, V: 0.0},
        objective=ks.Integral((X - seen) ** 2),
    )
    fit = problem.solve({**GUESS, M: 1.0}, "least-squares")
    assert fit.parameters["k"] / fit.parameters["m"] == pytest.approx(20.0, rel=0.02)
    assert any("are not identifiable together" in note for note in fit.notes)


@WAYS
def test_at_a_bound(solve):
    fit = solve(trial(), {K: (0, 19), B: (0, 5)})
    for method in METHODS:
        found = fit.intervals(method=method, records=3).table
        assert found["k"].remark == "at a bound" and found["b"].standard_error > 0.0
    found = fit.parameters.table
    assert fit.interval(2 * K).remark == "known or at a bound"
    assert fit.interval(K * B).standard_error == pytest.approx(19.0 * found["b"].standard_error)
    with pytest.raises(ValueError, match="k has no profile: it is at a bound"):
        fit.profile(K)


@WAYS
def test_what_is_known_beforehand_is_no_better_known_by_the_sandwich(solve):
    """Samples that tell nothing beside the priors leave their standard deviations."""
    weak = trial(std={X: 0.5})
    fit = solve(weak, {K: ks.normal(20, 0.01), B: ks.lognormal(0.4, 1.01)})
    for method in METHODS[:3]:
        errors = fit.intervals(method=method).standard_errors()
        assert errors["k"] == pytest.approx(0.01, rel=0.01)
        assert errors["b"] == pytest.approx(fit.parameters["b"] * np.log(1.01), rel=0.01)
    with pytest.raises(ValueError, match="but not what priors say"):
        fit.bootstrap(3)


@pytest.mark.parametrize("solve", [collocated, shot])
def test_units(solve):
    """In micrometres or kilometres intervals of the parameters are the same."""
    expected = solve(trial())
    for unit in (1e-6, 1e6):
        found = solve(trial(unit * NOISY))
        for method in METHODS[:3]:
            ends = found.intervals(method=method).intervals(), expected.intervals(method=method)
            for name in "kb":
                assert ends[0][name] == pytest.approx(ends[1].table[name].interval, rel=1e-5)
