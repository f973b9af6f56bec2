"""Estimation without simulation and nonlinear program: what is unknown, the loop that finds it."""

import numpy as np
import pytest
from scipy.optimize import minimize

import kinesym as ks
from kinesym.runtime.estimation.estimation import Estimation, Residuals
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import stacked
from kinesym.runtime.results.estimates import Noise

TIME = np.linspace(0.0, 1.0, 60)
RNG = np.random.default_rng(3)
Y = {"a": 2.0 + 0.1 * RNG.standard_normal(60), "b": 2.0 + 0.7 * RNG.standard_normal(60)}


def estimation(channels, std=None, **more):
    trial = ks.Experiment(TIME, measurements={n: Y[n] for n in channels}, std=std or {})
    return Estimation([trial], **{"factor": 1.0, **more})


@pytest.mark.parametrize(
    ("given", "more", "expected"),
    [
        (("a", {"a": 0.1}), {}, (False, False, False)),
        (("a", None), {}, (True, False, False)),
        (("ab", None), {}, (False, True, False)),
        (("ab", {"a": 0.1}), {}, (False, True, False)),
        (("a", None), {"priors": True}, (False, True, False)),
        (("a", None), {"loss": RobustLoss("huber", 1.345)}, (False, True, False)),
        (("a", None), {"mixed": True}, (False, False, True)),
        (("ab", None), {"mixed": True, "integrated": True}, (False, True, False)),
        (("ab", None), {"factor": 0.0}, (False, False, False)),
    ],
)
def test_what_is_unknown_and_what_tells_it(given, more, expected):
    found = estimation(*given, **more)
    assert (found.pooled, found.reweighs, found.untold) == expected
    noise = [Noise(group, 0.5, 60.0, 59.0) for group in found.unknown]
    factor = found.factor
    variance = 0.25 * factor if found.pooled else factor if noise else 1.0
    assert found.variance(noise) == pytest.approx(np.nan if found.untold else variance, nan_ok=True)


def test_reweighted_mean_of_two_channels():
    """The largest likelihood, but for the degree of freedom that the mean takes of each channel."""
    about = estimation("ab")

    def fit(std, before):
        weight = {n: std[n] ** -2.0 for n in Y}
        mean = sum(weight[n] * Y[n].sum() for n in Y) / sum(60 * w for w in weight.values())
        e = np.concatenate([(mean - Y[n]) / std[n] for n in Y])
        share = np.repeat([w / sum(60 * v for v in weight.values()) for w in weight.values()], 60)
        rows = [(k, 0, TIME, np.ones(60)) for k in range(2)]
        return mean, about.noise(Residuals(e, stacked(("a", "b"), rows), share), std)

    mean, noise, notes = about.reweighted(fit)
    assert not notes and [each.group for each in noise] == ["a", "b"]
    assert sum(each.freedom for each in noise) == pytest.approx(119.0)
    freedom = {each.group: each.freedom for each in noise}

    def loss(m):
        return sum(freedom[n] * np.log(((Y[n] - m[0]) ** 2).sum() / freedom[n]) for n in Y)

    best = minimize(loss, [2.0], tol=1e-12).x[0]
    errors = {each.group: each.std for each in noise}
    sure = sum(60 / errors[n] ** 2 for n in Y) ** -0.5
    assert abs(mean - best) < 0.02 * sure
    for n in Y:
        rms = np.sqrt(((Y[n] - mean) ** 2).sum() / freedom[n])
        assert errors[n] == pytest.approx(rms, rel=1e-5)


def test_a_fit_that_fails_is_the_one_before():
    about = estimation("ab")
    answers = iter([("first", [Noise("a", 0.2, 60, 59), Noise("b", 0.9, 60, 59)]), ("second", [])])
    found, noise, notes = about.reweighted(lambda std, before: next(answers))
    assert found == "first" and noise[0].std == 0.2 and "did not converge" in notes[0]
    assert about.reweighted(lambda std, before: ("stopped", None)) == ("stopped", [], [])
