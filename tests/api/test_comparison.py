"""Fits compared by likelihood: against statsmodels and closed forms."""

import numpy as np
import pytest
import sympy as sp
from scipy.stats import chi2, norm
from scipy.stats import t as student

import kinesym as ks
from kinesym.runtime.results.comparison import Compared

x = ks.dynamicsymbols("x")
a, b = sp.symbols("a b")
TIME = np.linspace(0.0, 1.0, 21)
NOISE = 0.2 * np.random.default_rng(7).standard_normal(21)
Y = 0.3 + 0.5 * TIME + NOISE

#: OLS(y, 1) and OLS(y, [1, t]) of statsmodels 0.15.0: log-likelihoods; AIC and BIC there do not
#: count the variance. compare_lr_test of the two: statistic and p.
LEVEL, SLOPE = 7.753147563353366, 10.576426001382004
RATIO, PROBABILITY = 5.646556876057275, 0.017489680263488006


def line():
    return ks.Model("line", [x], [], [b], [x.diff(ks.t) - b])


def trial(std=None, y=Y):
    return ks.Experiment(TIME, measurements={"y": y}, std={"y": std} if std else {})


def posed(unknown, std=None, kind=ks.Collocation, y=Y, **options):
    """y = a + b t, b = 0 if it is not unknown."""
    known = {} if b in unknown else {b: 0.0}
    more = {"initial": {x: 0.0}} if kind is ks.Shooting else {"boundary": [ks.at_start(x)]}
    sensors = {"y": a + x}
    return kind(line(), trial(std, y), unknown, known, sensors=sensors, **more, **options)


@pytest.fixture(scope="module")
def fits():
    return {
        "level": posed({a: None}).solve(),
        "slope": posed({a: None, b: None}).solve(),
    }


def test_criteria_are_those_of_linear_regression(fits):
    for name, unknowns, expected in (("level", 2, LEVEL), ("slope", 3, SLOPE)):
        fit = fits[name]
        assert fit.log_likelihood == pytest.approx(expected, abs=1e-6)
        assert fit.aic == pytest.approx(-2.0 * expected + 2.0 * unknowns, abs=1e-6)
        assert fit.bic == pytest.approx(-2.0 * expected + unknowns * np.log(21.0), abs=1e-6)
        corrected = 2.0 * unknowns * 21.0 / (20.0 - unknowns) - 2.0 * expected  # Hurvich, Tsai
        assert fit.aicc == pytest.approx(corrected, abs=1e-6)
        assert fit.likelihood[0].freedom == 21 - unknowns


def test_shooting_has_the_same(fits):
    for name, unknown in (("level", {a: None}), ("slope", {a: None, b: None})):
        for optimizer in ("least-squares", "bfgs"):
            fit = posed(unknown, kind=ks.Shooting).solve(optimizer=optimizer)
            assert fit.aic == pytest.approx(fits[name].aic, abs=1e-6)
            assert fit.aicc == pytest.approx(fits[name].aicc, abs=1e-6)
            assert fit.bic == pytest.approx(fits[name].bic, abs=1e-6)


def test_a_table(fits, tmp_path):
    found = ks.compare(fits)
    assert found.best == "slope" and "slope" in repr(found)
    ratio = found.test("level", "slope")
    assert ratio.statistic == pytest.approx(RATIO, abs=1e-6)
    assert ratio.probability == pytest.approx(PROBABILITY, rel=1e-5) and ratio.freedom == 1
    assert sum(found.weights().values()) == pytest.approx(1.0)
    assert found.differences()["level"] == pytest.approx(RATIO - 2.0, abs=1e-6)
    frame = found.to_pandas()
    assert list(frame.index) == ["slope", "level"]
    assert frame.loc["level", "aicc"] == pytest.approx(fits["level"].aicc)
    assert frame.loc["level", "aic"] == pytest.approx(fits["level"].aic)
    found.plot()
    found.save(tmp_path / "found.nc")
    assert str(ks.Comparison.load(tmp_path / "found.nc")) == str(found)
    assert "slope" in found._repr_html_() and "p = " in str(ratio)


def test_given_std_and_the_start():
    """With a std that is given nothing but parameters and starts is counted."""
    fit = posed({a: None}, std=0.2).solve()
    left = Y - Y.mean()
    expected = norm.logpdf(left, scale=0.2).sum()
    assert fit.log_likelihood == pytest.approx(expected, abs=1e-8)
    assert fit.likelihood[0].unknowns == 1
    model = ks.Model("line", [x], [], [b], [x.diff(ks.t) - b])
    one = ks.Experiment(TIME, measurements={x: Y})
    free = ks.Collocation(model, one, {b: None}).solve()
    assert free.log_likelihood == pytest.approx(SLOPE, abs=1e-6)
    assert free.likelihood[0].unknowns == 3
    shot = ks.Shooting(model, one, {b: None}, initial={x: None}, segments=2)
    shot = shot.solve(optimizer="ipopt")
    assert shot.log_likelihood == pytest.approx(SLOPE, abs=1e-6)
    assert shot.likelihood[0].unknowns == 3


def test_students_loss_is_a_likelihood():
    """With 4 degrees of freedom; huber's is none."""
    fit = posed({a: None}, std=0.2, objective=ks.LeastSquares("student")).solve()
    expected = student.logpdf((Y - fit.parameters["a"]) / 0.2, 4).sum() - 21 * np.log(0.2)
    assert fit.log_likelihood == pytest.approx(expected, abs=1e-8)
    free = posed({a: None}, objective=ks.LeastSquares("student")).solve()
    scales = np.geomspace(0.02, 0.5, 4001)
    rows = student.logpdf((Y - free.parameters["a"])[:, None] / scales, 4) - np.log(scales)
    assert free.log_likelihood == pytest.approx(rows.sum(axis=0).max(), abs=1e-5)
    huber = posed({a: None}, std=0.2, objective=ks.LeastSquares("huber")).solve()
    assert np.isnan(huber.aic)
    with pytest.raises(ValueError, match="huber has no likelihood"):
        ks.compare({"student": fit, "huber": huber})


def test_a_map_is_named(fits):
    prior = posed({a: None, b: ks.normal(0.0, 0.1)}).solve()
    assert "posterior" in str(prior)
    found = ks.compare({"prior": prior, **fits})
    assert any("prior has priors" in note for note in found.notes)
    with pytest.raises(ValueError, match="prior has priors"):
        found.test("level", "prior")
    left = Y - prior.parameters["a"] - prior.parameters["b"] * TIME
    expected = norm.logpdf(left, scale=np.sqrt(np.mean(left**2))).sum()
    assert prior.log_likelihood == pytest.approx(expected, abs=1e-8)


def test_what_is_not_compared(fits):
    other = posed({a: None}, y=Y + 0.1).solve()
    gap = np.where(TIME == 0.5, np.nan, Y)
    fewer = posed({a: None}, y=gap).solve()
    level = fits["level"]
    for given, words in (
        ({"level": level}, "two fits at least"),
        ({"level": level, "other": other}, "samples of y of trial 0 differ"),
        ({"level": level, "fewer": fewer}, "y of trial 0 has 21 and 20 samples"),
        ({"level": level, "stopped": posed({a: None}).solve(max_iterations=0)}, "stopped has no"),
        ({"level": level, "x": 3}, "names and results of solve"),
        ([level], "must be a mapping"),
    ):
        with pytest.raises(ValueError, match=words):
            ks.compare(given)
    found = ks.compare(fits)
    with pytest.raises(ValueError, match="the larger model needs more"):
        found.test("slope", "level")
    with pytest.raises(ValueError, match="the larger fit is one of"):
        found.test("slope", "none")


def test_a_spread_at_its_edge():
    """Subjects that are alike or not: half the probability is at one degree of freedom less."""
    rng = np.random.default_rng(3)
    rows = 0.3 + (1.0 + 0.3 * rng.standard_normal((5, 1))) * TIME[::4]
    rows += 0.2 * rng.standard_normal(rows.shape)
    trials = [
        ks.Experiment(TIME[::4], measurements={"y": y}, labels={"subject": k})
        for k, y in enumerate(rows)
    ]

    def fitted(unknown, **options):
        given = {"sensors": {"y": a + x}, "boundary": [ks.at_start(x)], "scheme": "radau-1"}
        return ks.Collocation(line(), trials, {a: None, b: unknown}, **{**given, **options}).solve()

    drawn = fitted(ks.per("subject", ks.normal(None, None)))
    found = ks.compare({"alike": fitted(None), "drawn": drawn})
    test = found.test("alike", "drawn")
    assert test.freedom == 1 and test.statistic > 0.0
    assert test.probability == pytest.approx(0.5 * chi2.sf(test.statistic, 1))
    assert "sd(b) is zero in alike" in str(test)
    assert any("drawn is a marginal likelihood" in note for note in found.notes)
    free = fitted(ks.per("subject", ks.normal(None, None)), boundary=())
    with pytest.raises(ValueError, match="free has integrated out 5 unknown starts"):
        ks.compare({"drawn": drawn, "free": free})


def test_several_edges():
    """Two standard deviations more: p is less than chi-square says; what explains less is named."""
    given = ((-10.0, 2, ""), (-7.0, 4, "sd(a)\nsd(b, c)"), (-11.0, 3, "sd(a)"), (-9.0, 5, "sd(a)"))
    rows = [
        Compared(value, k, 50.0, edges=edges, name=f"fit {k}", kind="marginal likelihood")
        for value, k, edges in given
    ]
    found = ks.Comparison(fits=rows)
    both = found.test("fit 2", "fit 4")
    assert both.probability == pytest.approx(chi2.sf(6.0, 2))
    assert "sd(a) and sd(b, c) are zero in fit 2" in str(both) and "p is less" in str(both)
    worse = found.test("fit 2", "fit 3")
    assert worse.probability == 1.0 and "explains less" in str(worse)
    more = found.test("fit 2", "fit 5").probability
    assert more == pytest.approx(0.5 * (chi2.sf(2.0, 2) + chi2.sf(2.0, 3)))
