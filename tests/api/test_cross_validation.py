"""Cross-validation against the same by hand."""

import numpy as np
import pytest
import sympy as sp
from scipy.stats import multivariate_normal, norm

import kinesym as ks
from kinesym.internal.fitting.ladder import eased
from kinesym.internal.fitting.leaving_out import part_of

x = ks.dynamicsymbols("x")
a, b = sp.symbols("a b")
TIME = np.linspace(0.0, 1.0, 6)
SUBJECTS = ("s1", "s2", "s2", "s3", "s4")


def records():
    rng = np.random.default_rng(5)
    slopes = dict(zip(("s1", "s2", "s3", "s4"), 1.0 + 0.4 * rng.standard_normal(4), strict=True))
    return [0.3 + slopes[s] * TIME + 0.1 * rng.standard_normal(len(TIME)) for s in SUBJECTS]


ROWS = records()


def posed(unknown, kind=ks.Collocation, std=None, **options):
    """y = a + b t, with x = b t."""
    trials = [
        ks.Experiment(
            TIME, measurements={"y": y}, std={"y": std} if std else {}, labels={"subject": s}
        )
        for y, s in zip(ROWS, SUBJECTS, strict=True)
    ]
    line = ks.Model("line", [x], [], [b], [x.diff(ks.t) - b])
    fixed = {"initial": {x: 0.0}}
    if kind is ks.Collocation:
        fixed = {"boundary": [ks.at_start(x)], "scheme": "radau-1"}
    sensors = {"y": a + x} if a in unknown else {"y": x}
    return kind(line, trials, unknown, sensors=sensors, **fixed, **options)


def regressed(rows, powers=(0, 1)):
    """Coefficients, and the standard deviation by the degrees of freedom."""
    X = np.vstack([np.column_stack([TIME**k for k in powers])] * len(rows))
    q, squares = np.linalg.lstsq(X, np.concatenate(rows), rcond=None)[:2]
    return q, np.sqrt(squares[0] / (len(X) - len(powers)))


@pytest.mark.parametrize("kind", [ks.Collocation, ks.Shooting])
def test_trials_left_out_of_a_regression(kind, tmp_path):
    problem = posed({a: None, b: None}, kind)
    fit = problem.solve(optimizer="least-squares") if kind is ks.Shooting else problem.solve()
    found = ks.cross_validate(problem, fit)
    for k, (error, score) in enumerate(zip(found.errors, found.scores, strict=True)):
        (level, slope), std = regressed([row for j, row in enumerate(ROWS) if j != k])
        left = ROWS[k] - level - slope * TIME
        assert error.rms == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-6)
        assert score.log_density == pytest.approx(norm.logpdf(left, scale=std).sum(), abs=1e-5)
        assert (error.name, error.channel, error.samples) == (str(k), "y", 6)
    assert not found.refitted and not found.predicted and not found.notes
    whole = np.concatenate(ROWS) - np.tile(fit.parameters["a"] + fit.parameters["b"] * TIME, 5)
    assert "in the fit" in str(found) and "cross-validation" in repr(found)
    inside = np.sqrt(np.mean([error.fitted**2 for error in found.errors]))
    assert inside == pytest.approx(np.sqrt(np.mean(whole**2)), rel=1e-6)
    assert found.rms["y"] > inside
    found.plot()
    found.save(tmp_path / "found.nc")
    assert str(ks.CrossValidation.load(tmp_path / "found.nc")) == str(found)
    assert found.to_pandas().shape == (5, 3) and "rms" in found._repr_html_()


@pytest.mark.parametrize("kind", [ks.Collocation, ks.Shooting])
def test_subjects_with_values_of_their_own(kind):
    """A slope per subject is fitted to what was left out, or at the mean of its prior."""
    problem = posed({a: None, b: ks.per("subject")}, kind, std=0.1)
    found = ks.cross_validate(problem, problem.solve(), by="subject")
    assert found.refitted == ["b"] and [error.name for error in found.errors] == [
        "s1",
        *SUBJECTS[2:],
    ]
    assert "b of what was left out: fitted" in str(found)
    prior = posed({a: None, b: ks.per("subject", ks.normal(1.0, 0.4))}, kind, std=0.1)
    found = ks.cross_validate(prior, prior.solve(), by="subject")
    assert found.predicted == ["b"] and not found.refitted
    spread = 0.1**2 * np.eye(len(TIME)) + 0.4**2 * np.outer(TIME, TIME)
    inverse, one = np.linalg.inv(spread), np.ones(len(TIME))
    rows = [ROWS[0], ROWS[3], ROWS[4]]
    precision = {k: (one @ inverse @ one, one @ inverse @ (ROWS[k] - TIME)) for k in (0, 3, 4)}
    both = np.kron(np.eye(2), 0.1**2 * np.eye(6)) + 0.4**2 * np.outer(
        np.tile(TIME, 2), np.tile(TIME, 2)
    )
    way = np.linalg.solve(both, np.ones(12))
    precision[1] = way.sum(), way @ (np.concatenate(ROWS[1:3]) - np.tile(TIME, 2))
    kept = [precision[k] for k in (1, 3, 4)]
    level = sum(right for _, right in kept) / sum(weight for weight, _ in kept)
    left = rows[0] - level - TIME
    assert found.errors[0].rms == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-6)


def test_subjects_drawn_from_a_distribution():
    """The score is the density with the slope integrated out, by what the others have taught."""
    problem = posed({a: None, b: ks.per("subject", ks.normal(None, None))})
    found = ks.cross_validate(problem, problem.solve(), by="subject")
    assert found.predicted == ["b"]
    others = [k for k, s in enumerate(SUBJECTS) if s != "s3"]
    trials = [problem.trials[k] for k in others]
    again = ks.Collocation(
        problem.model,
        trials,
        {a: None, b: ks.per("subject", ks.normal(None, None))},
        boundary=[ks.at_start(x)],
        scheme="radau-1",
    )
    p = again.solve()
    mean = p.parameters["a"] + p.parameters["mean(b)"] * TIME
    spread = p.estimated_std["y"] ** 2 * np.eye(6)
    spread += p.parameters["sd(b)"] ** 2 * np.outer(TIME, TIME)
    expected = multivariate_normal.logpdf(ROWS[3], mean, spread)
    [score] = [score for score in found.scores if score.name == "s3"]
    assert score.log_density == pytest.approx(expected, abs=1e-4)
    [error] = [error for error in found.errors if error.name == "s3"]
    assert error.rms == pytest.approx(np.sqrt(np.mean((ROWS[3] - mean) ** 2)), rel=1e-4)


def test_what_cannot_be_left_out():
    problem = posed({a: None, b: None}, std=0.1)
    fit = problem.solve()
    for given, words in (
        ((problem, fit, "side"), "trial 0 has no label 'side'"),
        ((problem, problem.solve(max_iterations=0)), "no cross-validation without convergence"),
        ((problem.model, fit), "takes a Collocation or a Shooting"),
        ((problem, posed({a: None, b: None}, ks.Shooting, std=0.1).solve()), "kinesym.Solution"),
    ):
        with pytest.raises(ValueError, match=words):
            ks.cross_validate(*given)


@pytest.mark.parametrize("kind", [ks.Collocation, ks.Shooting])
def test_a_fit_of_another_problem(kind):
    """With one slope for all, where the problem has one for each subject."""
    problem, other = posed({b: ks.per("subject")}, kind), posed({b: None}, kind)
    with pytest.raises(ValueError, match="of another problem"):
        ks.cross_validate(problem, other.solve())


def test_histories_of_trials_that_begin_at_other_times():
    """The model knows no time: trials that are moved in it foretell each other as before."""
    late = ks.Model("late", [x], [], [b], [x.diff(ks.t) + b * ks.delayed(x, 0.3)])
    time, found = np.linspace(0.0, 1.5, 31), []
    for apart in (0.0, 10.0):
        trials, rng = [], np.random.default_rng(0)
        for j, level in enumerate((0.2, 1.0, 2.0)):
            run = ks.simulate(late, time, {x: 1.0}, {b: 1.2}, history={x: level})
            y = {x: run["x"] + 0.01 * rng.standard_normal(31)}
            about = {"measurements": y, "std": {x: 0.01}, "history": {x: (-5.0, 5.0)}}
            trials.append(ks.Experiment(apart * j + time, **about))
        problem = ks.Collocation(late, trials, {b: (0.1, 5.0)})
        found.append(ks.cross_validate(problem, problem.solve()))
    here, there = ([error.rms for error in each.errors] for each in found)
    np.testing.assert_allclose(there, here, rtol=1e-6)
    assert found[1].log_density == pytest.approx(found[0].log_density, abs=1e-4)


def test_the_easy_end_of_a_part():
    """Tied to the record, a part is as a problem of its trial alone, whose level is known."""
    level, rate = sp.symbols("level rate")
    model = ks.Model("rises", [x], [], [level, rate], [x.diff(ks.t) - level + rate * x])
    trials = [
        ks.Experiment(TIME, measurements={x: y}, std={x: 0.1}, parameters={level: 1.0 + k})
        for k, y in enumerate(ROWS[:3])
    ]
    about = {"unknown": {rate: (0.1, 5.0)}, "boundary": [ks.at_start(x)], "homotopy": "data"}
    part = ks.Collocation.of(eased(part_of(ks.Collocation(model, trials, **about).problem, [2])))
    alone = ks.Collocation.of(eased(ks.Collocation(model, trials[2], **about).problem))
    z = alone.pack({rate: 0.7})
    np.testing.assert_array_equal(part.pack({rate: 0.7}), z)
    np.testing.assert_allclose(part.constraints(z), alone.constraints(z), atol=1e-14)
    assert part.cost(z) == pytest.approx(alone.cost(z), rel=1e-14)


def test_what_is_held_is_held_on_other_grids():
    """As on the coarse ones of the ladder."""
    problem = posed({a: None, b: None}, std=0.1).problem
    held = problem.holding(np.array([0.3, np.nan]))
    for found in (held, held.on(held.trials)):
        low, high = (found.layout.parameter_values(side) for side in found.variable_bounds)
        assert low[0] == high[0] == 0.3 and low[1] == -np.inf
