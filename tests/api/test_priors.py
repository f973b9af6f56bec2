"""Priors that are not normal: closed forms of the highest posterior density, gradients by complex
step, estimates at kinks; the same by collocation and by shooting."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from scipy import stats
from scipy.optimize import brentq, linprog, minimize

import kinesym as ks
from kinesym.internal.problems.parameters import Unknown, without_bounds

x, (b, c) = ks.dynamicsymbols("x"), sp.symbols("b c")
LEVELS = ks.Model("levels", [x], [], [b, c], [x.diff(ks.t)], outputs={"one": b, "two": b + c})
TIME, STD = np.arange(5.0), 0.2
RNG = np.random.default_rng(3)
ONE, TWO = (mean + STD * RNG.standard_normal(5) for mean in (0.4, 0.6))
#: Weight of the mean of the samples of a channel.
W = 5 / STD**2


def levels(of_b, of_c, two=True, **more):
    measured = {"one": ONE} | ({"two": TWO} if two else {})
    trial = ks.Experiment(TIME, {}, measured, dict.fromkeys(measured, STD))
    unknown = {b: of_b} | ({c: of_c} if two else {})
    known = None if two else {c: 0.0}
    return ks.Shooting(LEVELS, trial, unknown, known, initial={x: 0.0}, **more)


def size(e):
    return e * np.sign(e.real)


#: -2 log of densities at b, for complex numbers, too.
CLOSED = {
    ("laplace", 0.05, 0.3): lambda p: 2 * size(p - 0.05) / 0.3,
    ("cauchy", 0.05, 0.3): lambda p: 2 * np.log(1 + ((p - 0.05) / 0.3) ** 2),
    ("gamma", 2.5, 0.07): lambda p: -3 * np.log(p) + 2 * p / 0.07,
    ("exponential", 0.07): lambda p: 2 * p / 0.07,
    ("chisquare", 3): lambda p: -np.log(p) + p,
    ("rayleigh", 0.2): lambda p: -2 * np.log(p) + (p / 0.2) ** 2,
    ("log-normal", -2.0, 0.5): lambda p: ((np.log(p) + 2) / 0.5) ** 2 + 2 * np.log(p),
    ("log-laplace", -1.0, 0.02): lambda p: 2 * size(np.log(p) + 1) / 0.02 + 2 * np.log(p),
    ("log-uniform", 0.01, 9.0): lambda p: 2 * np.log(p),
}


@pytest.mark.parametrize("told", CLOSED, ids=lambda told: told[0])
@pytest.mark.parametrize("log", [False, True], ids=["itself", "log"])
def test_minima_and_gradients_are_those_of_closed_forms(told, log):
    problem = levels(ks.prior(*told, low=0.01, log=log), None, two=False)

    def J(p):
        return ((p - ONE) ** 2).sum() / STD**2 + CLOSED[told](p)

    def slope(p):
        return J(p + 1e-30j).imag / 1e-30

    for p in (0.14, 0.4):
        assert problem.cost({b: p}) - problem.cost({b: 0.3}) == pytest.approx(J(p) - J(0.3))
        for mode in ("adjoint", "forward"):
            assert problem.gradient({b: p}, mode) == pytest.approx(slope(p), rel=1e-12)
    r, by = problem.residuals({b: 0.3}), problem.residual_jacobian({b: 0.3})
    assert 2 * by.T @ r == pytest.approx(slope(0.3), rel=1e-12)
    for optimizer in ("bfgs", "least-squares"):
        fit = problem.solve({b: 0.3}, optimizer)
        found = fit.parameters["b"]
        assert fit.success
        if "log-laplace" in told:  # its kink is at exp(-1)
            assert found == pytest.approx(np.exp(-1.0), rel=1e-14)
        else:
            assert found == pytest.approx(brentq(slope, 0.2, 1.0), rel=1e-5)


def test_a_factor_before_the_squares_changes_no_estimate():
    """Priors have it, too: residuals and their derivatives are those of the cost, fits those
    without it, with kinks, and from many starts side by side."""
    weighed = {"objective": 3.0 * ks.LeastSquares()}
    for told in (ks.normal(0.05, 0.1), ks.prior("gamma", 2.5, 0.07), ks.prior("laplace", 0, 0.2)):
        plain, problem = (levels(told, None, two=False, **more) for more in ({}, weighed))
        r, by = problem.residuals({b: 0.3}), problem.residual_jacobian({b: 0.3})
        assert problem.gradient({b: 0.3}) == pytest.approx(3.0 * plain.gradient({b: 0.3}))
        assert 2 * by.T @ r == pytest.approx(problem.gradient({b: 0.3}), rel=1e-12)
        fits = [each.solve({b: 0.3}, "least-squares") for each in (plain, problem)]
        fits.append(problem.multistart(2, guess={b: 0.3}, detour=0.0, seed=1).best)
        for fit in fits[1:]:
            assert fit.success
            assert fit.parameters["b"] == pytest.approx(fits[0].parameters["b"], rel=1e-6)
            error = fits[0].standard_errors()["b"]
            assert fit.standard_errors()["b"] == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize("segments", [1, 2])
def test_priors_that_bend_down_count(segments):
    """Standard errors are those of the curvature of the posterior, of a mean that a Cauchy prior
    draws from far."""
    optimizer = "least-squares" if segments == 1 else "ipopt"
    for numbers in ((0.0, 0.05), (-0.2, 0.1)):
        problem = levels(ks.prior("cauchy", *numbers), None, two=False, segments=segments)
        fit = problem.solve({b: 0.4}, optimizer)
        e = (fit.parameters["b"] - numbers[0]) / numbers[1]
        bend = W + 2.0 * (1.0 - e**2) / (1.0 + e**2) ** 2 / numbers[1] ** 2
        assert abs(e) > 1.0 and bend < W
        assert fit.standard_errors()["b"] == pytest.approx(bend**-0.5, rel=1e-6)
        if segments == 1:
            [left] = [fit.without(window=(3.5, 4.5), solve=True)]
            p = left.parameters["b"]
            e = (p - numbers[0]) / numbers[1]
            bend = 0.8 * W + 2.0 * (1.0 - e**2) / (1.0 + e**2) ** 2 / numbers[1] ** 2
            assert left.errors[0] == pytest.approx(bend**-0.5, rel=1e-6)


def collocated(of_b):
    """`levels` of one channel, by collocation."""
    trial = ks.Experiment(TIME, {}, {"one": ONE}, {"one": STD})
    return ks.Collocation(LEVELS, trial, {b: of_b}, {c: 0.0}, boundary=[ks.at_start(x)])


@pytest.mark.parametrize("told", CLOSED, ids=lambda told: told[0])
@pytest.mark.parametrize("log", [False, True], ids=["itself", "log"])
def test_collocation_has_the_same_minima_and_derivatives(told, log):
    problem = collocated(ks.prior(*told, low=0.01, log=log))

    def J(p):
        return ((p - ONE) ** 2).sum() / STD**2 + CLOSED[told](p)

    def slope(y):  # by log p where that is estimated
        return J(np.exp(y + 1e-30j) if log else y + 1e-30j).imag / 1e-30

    none = np.zeros(problem.n_constraints)
    for p in (0.14, 0.4):
        z, y = problem.pack({b: p}), np.log(p) if log else p
        e = problem.residuals(z)
        assert problem.cost(z) - problem.cost(problem.pack({b: 0.3})) == pytest.approx(
            J(p) - J(0.3), abs=1e-12
        )
        assert problem.cost_gradient(z)[-1] == pytest.approx(slope(y), rel=1e-12)
        assert (2.0 * problem.residual_jacobian(z).T @ e)[-1] == pytest.approx(slope(y), rel=1e-10)
        bend = (slope(y + 1e-5) - slope(y - 1e-5)) / 2e-5
        assert problem.lagrangian_hessian(z, none, 1.0)[-1, -1] == pytest.approx(bend, rel=1e-6)
    fit = problem.solve({b: 0.3})
    if "log-laplace" in told:
        assert fit.parameters["b"] == np.exp(-1.0)
        assert fit.parameters.table["b"].standard_error == 0.0
    else:
        best = brentq(slope, *(np.log([0.2, 1.0]) if log else (0.2, 1.0)))
        assert fit.parameters["b"] == pytest.approx(np.exp(best) if log else best, rel=1e-9)


@pytest.mark.parametrize("scale", [0.01, 0.5], ids=["at the kink", "beyond"])
def test_collocation_rests_at_kinks(scale):
    """Soft thresholds, their profiles, and what is known of them when asked again."""
    problem = collocated(ks.prior("laplace", 0.0, scale))
    fit = problem.solve({b: -0.7})
    expected = max(ONE.mean() - 1.0 / (W * scale), 0.0)
    assert fit.parameters["b"] == (pytest.approx(expected, rel=1e-9) if expected else 0.0)
    error = fit.parameters.table["b"].standard_error
    assert error == pytest.approx(W**-0.5 if expected else 0.0, rel=1e-8)
    assert problem.covariance(fit)[0, 0] == pytest.approx(error**2, rel=1e-12)
    assert problem.solve(fit).parameters["b"] == pytest.approx(fit.parameters["b"], rel=1e-9)


TRIALS = [
    ks.Experiment(
        np.linspace(0.0, 2.0, 9),
        {},
        {x: 1.3 * np.exp(-rate * np.linspace(0.0, 2.0, 9)) + 0.02 * RNG.standard_normal(9)},
        {x: 0.02},
        labels={"subject": name},
    )
    for rate, name in ((0.5, "s1"), (0.8, "s2"))
]
DECAY = ks.Model("decay", [x], [], [b, c], [x.diff(ks.t) + b * c * x])
TOLD = {
    b: ks.per("subject", ks.prior("gamma", 3.0, 0.2, log=True)),
    c: ks.prior("laplace", 1.0, 0.02),
}


def test_values_per_subject_as_by_shooting():
    """Priors of b of each subject, and of c, which stays at its kink; profiles, for which c leaves
    it; densities with all constants."""
    starts = [ks.at_start(x) - 1.3]
    problem = ks.Collocation(DECAY, TRIALS, TOLD, boundary=starts, scheme="radau-5")
    fit = problem.solve({b: 0.5, c: 1.1}, tolerance_grid=1e-9)
    steps = {"method": "radau-5", "rtol": 1e-12, "atol": 1e-13}
    shooting = ks.Shooting(DECAY, TRIALS, TOLD, initial={x: 1.3}, **steps)
    exact = shooting.solve({b: 0.5, c: 1.1}, "least-squares")
    assert fit.parameters["c"] == exact.parameters["c"] == 1.0
    for name in ("b[s1]", "b[s2]"):
        assert fit.parameters[name] == pytest.approx(exact.parameters[name], rel=1e-8)
    assert fit.log_likelihood == pytest.approx(exact.log_likelihood, abs=1e-6)
    at = np.array([0.97, 0.55, 0.75])  # c, b[s1], b[s2]
    assert fit.log_density().names == exact.log_density().names == ["c", "b[s1]", "b[s2]"]
    here, there = fit.log_density(), exact.log_density()
    assert here.value(at) == pytest.approx(there.value(at), abs=1e-6)
    assert here.gradient(at) == pytest.approx(there.gradient(at), rel=1e-6)
    limit = fit.profile("b[s1]").high

    def rise(rest):
        return shooting.cost({c: rest[0], b: {"s1": limit, "s2": rest[1]}}) - fit.objective

    least = minimize(rise, [0.99, 0.8], method="Nelder-Mead", options={"fatol": 1e-9})
    assert least.fun == pytest.approx(3.841459, abs=1e-4)


def test_densities_beside_a_distribution_to_be_found_are_refused():
    unknown = {c: ks.per("subject", ks.normal(None, None)), b: TOLD[b]}
    three = [*TRIALS, replace(TRIALS[0], labels={"subject": "s3"})]
    with pytest.raises(ValueError, match="b has values per subject with a prior that is not norm"):
        ks.Collocation(DECAY, three, unknown)


@pytest.mark.parametrize("optimizer", ["bfgs", "least-squares", "ipopt", "steepest-descent"])
@pytest.mark.parametrize("scale", [0.01, 0.5], ids=["at the kink", "beyond"])
def test_laplace_priors_are_soft_thresholds(optimizer, scale):
    """Of a mean y with weight w it is y - 1/(w scale), zero if that is negative; from the other
    side of the kink."""
    problem = levels(ks.prior("laplace", 0.0, scale), None, two=False)
    fit = problem.solve({b: -0.7}, optimizer)
    expected = max(ONE.mean() - 1.0 / (W * scale), 0.0)
    assert fit.success
    assert fit.parameters["b"] == (pytest.approx(expected, rel=1e-6) if expected else 0.0)
    error = fit.parameters.table["b"].standard_error
    assert error == pytest.approx(W**-0.5 if expected else 0.0, rel=1e-4)


def test_several_kinks_are_left_and_kept():
    """b and c against each other, where a coordinate alone lowers nothing for long; the optimum has
    subgradients that hold zero."""
    problem = levels(ks.prior("laplace", 0.0, 0.5), ks.prior("laplace", 0.3, 0.02))
    for guess in ({b: -1.0, c: 2.0}, {b: 0.0, c: 0.3}, {b: 1.0, c: -1.0}):
        fit = problem.solve(guess, "least-squares")
        found = fit.parameters
        assert fit.success and found["c"] == 0.3
        # with c held: 2 w b = w (y1 + y2 - 0.3) - 1/0.5
        best = (W * (ONE.mean() + TWO.mean() - 0.3) - 2.0) / (2 * W)
        assert found["b"] == pytest.approx(best, rel=1e-6)
        assert abs(2 * W * (found["b"] + 0.3 - TWO.mean())) < 2 / 0.02


def test_kinks_of_priors_and_of_noise():
    """A linear program: Laplace's errors, and priors of which two hold their unknowns."""
    slope, level, wave = sp.symbols("slope level wave")
    made = ks.Model("line", [x], [], [slope], [x.diff(ks.t) - slope])
    time, numbers = np.linspace(0.0, 5.0, 31), ((0.0, 0.01), (1.0, 0.1), (0.0, 0.02))
    data = 0.3 + 0.02 * time + 0.2 * np.random.default_rng(2).laplace(size=31)
    trial = ks.Experiment(time, {}, {"seen": data}, {"seen": 0.2})
    names = (slope, level, wave)
    unknown = {p: ks.prior("laplace", *n) for p, n in zip(names, numbers, strict=True)}
    fit = ks.Shooting(
        *(made, trial, unknown, {}, {x: 0.0}, ks.LeastSquares(loss="laplace")),
        sensors={"seen": x + level + wave * sp.sin(ks.t)},
    ).solve({slope: 1.0, level: 3.0, wave: -1.0}, "least-squares")
    means, scales = np.transpose(numbers)
    by = np.vstack([np.stack([time, time**0, np.sin(time)], axis=1) / 0.2, np.diag(1 / scales)])
    best = linprog(
        np.repeat([0.0, 1.0], [3, 68]),
        A_eq=np.hstack([by, -np.eye(34), np.eye(34)]),
        b_eq=np.append(data / 0.2, means / scales),
        bounds=[(None, None)] * 3 + [(0.0, None)] * 68,
    )
    assert fit.success and fit.parameters["slope"] == fit.parameters["wave"] == 0.0
    assert fit.parameters["level"] == pytest.approx(best.x[1], rel=1e-12)
    assert fit.objective == pytest.approx(2.0 * best.fun, rel=1e-12)


def test_profiles_pass_kinks():
    problem = levels(ks.prior("laplace", 0.25, 0.1), None, two=False)
    fit = problem.solve({b: 1.0}, "least-squares")
    found = fit.profile("b")

    def rise(p):
        rest = W * ((p - ONE.mean()) ** 2 - (fit.parameters["b"] - ONE.mean()) ** 2)
        return rest + 2 * (abs(p - 0.25) - abs(fit.parameters["b"] - 0.25)) / 0.1 - 3.841459

    assert found.low == pytest.approx(brentq(rise, -1.0, fit.parameters["b"]), rel=1e-4)
    assert found.high == pytest.approx(brentq(rise, fit.parameters["b"], 1.0), rel=1e-4)


def test_ladders_are_without_these_priors():
    given = {b: ks.prior("laplace", 0, 1, low=0.0), c: ks.normal(1, 2, low=0.0)}
    assert without_bounds(given, LEVELS) == {"b": Unknown(), "c": ks.normal(1, 2)}


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"gamma', ...\): it has no values within the bounds"):
        ks.prior("gamma", 1, 1, high=-1.0)


@pytest.mark.parametrize("log", [False, True], ids=["itself", "log"])
@pytest.mark.parametrize("way", ["shooting", "collocation"])
def test_log_densities_have_all_constants(log, way):
    prior = ks.prior("gamma", 3.0, 0.1, log=log)
    problem = levels(prior, None, two=False) if way == "shooting" else collocated(prior)
    fit = problem.solve({b: 0.3})
    density = fit.log_density()
    known = stats.norm.logpdf(ONE, 0.35, STD).sum() + stats.gamma.logpdf(0.35, 3.0, scale=0.1)
    assert density.value([0.35]) == pytest.approx(known, rel=1e-12)
    assert fit.log_likelihood == pytest.approx(
        stats.norm.logpdf(ONE, fit.parameters["b"], STD).sum(), rel=1e-12
    )
