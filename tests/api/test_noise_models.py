"""Noise models: standard deviations that are expressions, censored and log-normal samples; against
SciPy, complex steps of closed forms, and known coverage."""

from functools import cache

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import sympy as sp
from scipy.special import log_ndtr

import kinesym as ks
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.statistics.bends import Bends

t = ks.t
y, v, F = ks.dynamicsymbols("y v F")
k, c, a, b, g, tau = sp.symbols("k c a b g tau")
TIME = np.linspace(0.0, 3.0, 41)

DECAY = ks.Model(name="decay", states=[y], inputs=[], parameters=[k], equations=[y.diff(t) + k * y])
OSCILLATOR = ks.Model(
    name="oscillator",
    states=[y, v],
    inputs=[F],
    parameters=[k, c],
    equations=[y.diff(t) - v, v.diff(t) + k * y + c * v - F],
    outputs={"twice": 2 * y, "acc": v.diff(t)},
)
RANGES = {k: (0.1, 10.0), c: (0.0, 2.0), a: (1e-3, 1.0), b: (1e-3, 1.0), g: (1e-3, 1.0)}


def decaying(seed=0):
    """Samples of a decay with the noise 0.03 + 0.1 y; one is missing."""
    truth = 2.0 * np.exp(-TIME)
    data = truth + (0.03 + 0.1 * truth) * np.random.default_rng(seed).standard_normal(len(TIME))
    data[7] = np.nan
    return data


@cache
def swinging(between):
    """Two records of an oscillator: at nodes, at times of their own, with limits, and of what is
    between nodes, if asked."""
    rng, trials = np.random.default_rng(1), []
    for subject in ("first", "second"):
        force = np.sin(1.5 * TIME)
        run = ks.simulate(OSCILLATOR, TIME, {y: 1.0, v: 0.0}, {k: 4.0, c: 0.4}, {F: force})
        measured = run["y"] + (0.03 + 0.1 * np.abs(run["y"])) * rng.standard_normal(len(TIME))
        measured[5] = np.nan
        times = np.sort(rng.uniform(0.05, 2.9, 25))
        twice = 2.0 * np.interp(times, TIME, run["y"]) + 0.1 * rng.standard_normal(25)
        rows = {
            y: ks.censored(measured, below=-0.6),
            "twice": ks.censored(ks.Signal(times, twice), above=1.5),
        }
        std = {y: a + b * sp.sqrt(y**2 + 0.01), "twice": g + 0.01 * sp.Symbol("twice") ** 2}
        if between:
            rows["acc"] = run["acc"] + 0.1 * rng.standard_normal(len(TIME))
            std["acc"] = 0.1
        trials.append(ks.Experiment(TIME, {F: force}, rows, std, labels={"subject": subject}))
    return trials


UNKNOWN = {
    k: ks.normal(4.0, 1.0),
    c: (0.0, 2.0),
    a: ks.per("subject", (1e-3, 1.0)),
    b: ks.log_scale(1e-3, 1.0),
    g: (1e-3, 1.0),
}
GUESS = {k: 3.5, c: 0.3, a: 0.05, b: 0.08, g: 0.1}


def log_likelihood(fit, of=scipy.stats.norm):
    """The sum of the densities of all samples, by scipy.stats."""
    total = 0.0
    for run in fit.trials:
        rows = [(n, own.modelled, own.measured, own.std) for n, own in run.timed.items()]
        rows += [(n, run[n], row, run.std[n]) for n, row in run.measurements.items()]
        for name, modelled, measured, std in rows:
            here = ~np.isnan(measured)
            density = of(modelled[here], np.broadcast_to(std, here.shape)[here])
            parts = {None: density.logpdf, -1: density.logcdf, 1: density.logsf}
            total += parts[run.limits.get(name)](measured[here]).sum()
    return total


@pytest.mark.parametrize(
    "scheme", ["radau-3", "trapezoid", pytest.param("gauss-4", marks=pytest.mark.study)]
)
def test_likelihood_and_derivatives(scheme):
    """J is -2 log L, gradient and Hessian are its derivatives, scores make the gradient."""
    problem = ks.Collocation(OSCILLATOR, swinging(True), unknown=UNKNOWN, scheme=scheme)
    fit = problem.solve(GUESS)
    assert fit.success
    if scheme != "gauss-4":  # there what is between nodes has means of two samples
        assert fit.log_likelihood == pytest.approx(log_likelihood(fit), abs=1e-10)
    rng, n = np.random.default_rng(2), problem.n_variables
    z, d = fit.free_vector + 0.01 * rng.standard_normal(n), rng.standard_normal(n)
    gradient, zero = problem.cost_gradient(z), np.zeros(problem.n_constraints)
    r, slopes = problem.residuals(z), problem.residual_jacobian(z)
    assert 2.0 * slopes.T @ r == pytest.approx(gradient, rel=1e-9, abs=1e-9)
    hessian, h = problem.lagrangian_hessian(z, zero), 1e-5
    sides = z + h * d, z - h * d
    slope = np.subtract(*map(problem.cost, sides)) / (2.0 * h)
    assert gradient @ d == pytest.approx(slope, rel=1e-6)
    change = np.subtract(*map(problem.cost_gradient, sides)) / (2.0 * h)
    assert hessian @ d == pytest.approx(change, rel=1e-5, abs=1e-5 * np.abs(change).max())


def test_shooting_agrees():
    """Shooting: gradients of both sweeps, scores, likelihood, and the estimates of collocation."""
    trials, starts = swinging(False), {y: (0.0, 2.0), v: (-1.0, 1.0)}
    shooting = ks.Shooting(OSCILLATOR, trials, unknown=UNKNOWN, initial=starts)
    fit = shooting.solve({**GUESS, y: 1.0, v: 0.0})
    assert fit.success
    assert fit.log_likelihood == pytest.approx(log_likelihood(fit), abs=1e-10)
    q = fit.values + 0.01
    gradient, r, slopes = shooting.gradient(q), shooting.residuals(q), shooting.residual_jacobian(q)
    assert 2.0 * slopes.T @ r == pytest.approx(gradient, rel=1e-9, abs=1e-9)
    assert shooting.gradient(q, mode="forward") == pytest.approx(gradient, rel=1e-9)
    along, rows = np.linspace(-1.0, 1.0, len(q)), shooting._trials.rows(q).copy()
    sides = (shooting._trials.change(rows, q + h * along) for h in (1e-6, -1e-6))
    moved = np.subtract(*sides) / 2e-6
    assert slopes @ along == pytest.approx(moved, rel=1e-6, abs=1e-7 * np.abs(moved).max())
    for step, slope in zip(1e-6 * np.eye(len(q)), gradient, strict=True):
        change = (shooting.cost(q + step) - shooting.cost(q - step)) / 2e-6
        assert slope == pytest.approx(change, rel=1e-5, abs=1e-5)
    again = shooting.solve({**GUESS, y: 1.0, v: 0.0}, optimizer="ipopt")
    assert again.objective == pytest.approx(fit.objective, rel=1e-9)
    other = ks.Collocation(OSCILLATOR, trials, unknown=UNKNOWN, scheme="radau-5").solve(GUESS)
    assert other.objective == pytest.approx(fit.objective, abs=0.05)
    for name, row in fit.intervals().table.items():
        assert other.intervals().table[name].standard_error == pytest.approx(
            row.standard_error, rel=0.3
        )


@pytest.mark.parametrize("limit", [None, 0.3])
def test_estimates_against_scipy(limit):
    """Estimates and profiles of the likelihood written with the closed form of the motion."""
    data, low = decaying(), -np.inf if limit is None else limit
    hidden = data <= low
    shown, there = np.where(hidden, low, data), ~np.isnan(data)

    def cost(q):
        mean = q[1] * np.exp(-q[0] * TIME)
        std = q[2] + q[3] * mean
        if not (std > 0.0).all():
            return 1e10
        e = (shown - mean) / std
        seen = there & ~hidden
        return np.sum((e**2 + 2.0 * np.log(std))[seen]) - 2.0 * log_ndtr(e[hidden]).sum()

    settings = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000, "maxfev": 5000}
    best = scipy.optimize.minimize(
        cost, [1.0, 2.0, 0.05, 0.08], method="Nelder-Mead", options=settings
    )
    measured = shown if limit is None else ks.censored(shown, below=limit)
    trial = ks.Experiment(TIME, measurements={y: measured}, std={y: a + b * y})
    unknown = {k: RANGES[k], a: (1e-4, 1.0), b: (-0.05, 1.0)}
    fit = ks.Collocation(DECAY, trial, unknown=unknown, scheme="radau-5").solve(
        {k: 1.0, a: 0.05, b: 0.08}
    )
    assert [fit.parameters[n] for n in "kab"] == pytest.approx(best.x[[0, 2, 3]], rel=1e-5)
    assert fit.objective == pytest.approx(best.fun, abs=1e-7)
    assert fit["y_std"] == pytest.approx(fit.parameters["a"] + fit.parameters["b"] * fit["y"])
    shot = ks.Shooting(DECAY, trial, unknown=unknown, initial={y: (0.0, 4.0)}).solve(
        {k: 1.0, a: 0.05, b: 0.08, y: 2.0}
    )
    assert shot.values == pytest.approx(best.x[[0, 2, 3, 1]], rel=1e-5)
    one, other = (each.intervals(method="profile").table for each in (fit, shot))
    for name, row in one.items():
        assert row.low == pytest.approx(other[name].low, rel=1e-3, abs=1e-5)
        assert row.high == pytest.approx(other[name].high, rel=1e-3)
    if limit is None:  # of the observed and of the expected curvature
        one, other = (each.intervals(method="sandwich").table for each in (fit, shot))
        for name, row in one.items():
            assert row.standard_error == pytest.approx(other[name].standard_error, rel=0.3)


@pytest.mark.parametrize("way", ["collocation", "shooting"])
def test_profiles_of_a_line_with_an_unknown_std_are_intervals_of_students_t(way):
    """In closed form, of few samples: slope, start and std leave six degrees of freedom."""
    time = np.linspace(0.0, 2.0, 9)
    data = 1.0 + 0.5 * time + 0.1 * np.random.default_rng(1).standard_normal(9)
    model = ks.Model("line", [y], [], [k], [y.diff(ks.t) - k])
    trial, unknown = (
        ks.Experiment(time, measurements={y: data}, std={y: a}),
        {k: None, a: (0.01, 1)},
    )
    problem = (
        ks.Collocation(model, trial, unknown, scheme="trapezoid")
        if way == "collocation"
        else ks.Shooting(model, trial, unknown, initial={y: None})
    )
    fit = problem.solve({k: 0.4, a: 0.1, y: 1.0})
    rows = np.column_stack([time, np.ones(9)])
    best, [squares], *_ = np.linalg.lstsq(rows, data)
    error = np.sqrt(squares / 6 * np.linalg.inv(rows.T @ rows)[0, 0])
    half = scipy.stats.t.ppf(0.975, 6) * error
    found = fit.profile("k")
    assert (found.low, found.high) == pytest.approx((best[0] - half, best[0] + half), rel=1e-4)
    assert fit.standard_errors()["k"] == pytest.approx(error, rel=1e-5)


def test_student_against_scipy():
    """Noise of Student's distribution whose scale follows the motion: likelihood, derivatives,
    estimates, intervals, influences, in collocation and shooting."""
    data, there = decaying(4), ~np.isnan(decaying(4))
    data[[3, 20]] += 1.0
    own = TIME[:-1:4] + 0.01
    shown = 2.0 * np.exp(-own) + 0.3 * np.cos(9.0 * own)
    late = ks.Signal(own, shown)
    trial = ks.Experiment(TIME, measurements={y: data, "z": late}, std={y: a + b * y, "z": 0.3})
    asked = {
        "unknown": {k: RANGES[k], a: (1e-4, 1.0), b: (-0.05, 1.0)},
        "objective": ks.LeastSquares(loss="student", tuning=5.0),
        "sensors": {"z": y},
    }
    problem = ks.Collocation(DECAY, trial, scheme="radau-5", **asked)
    fit = problem.solve({k: 1.0, a: 0.05, b: 0.08})

    def log_l(q):
        mean, at = (q[1] * np.exp(-q[0] * t) for t in (TIME, own))
        std = q[2] + q[3] * mean
        of = scipy.stats.t(5.0).logpdf
        of_y = of((data - mean) / std)[there] - np.log(std[there])
        return of_y.sum() + (of((shown - at) / 0.3) - np.log(0.3)).sum()

    settings = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000, "maxfev": 5000}
    best = scipy.optimize.minimize(
        lambda q: -log_l(q), [1.0, 2.0, 0.05, 0.08], method="Nelder-Mead", options=settings
    )
    shooting = ks.Shooting(DECAY, trial, initial={y: (0.0, 4.0)}, **asked)
    shot = shooting.solve({k: 1.0, a: 0.05, b: 0.08, y: 2.0})
    assert [fit.parameters[n] for n in "kab"] == pytest.approx(best.x[[0, 2, 3]], rel=1e-4)
    assert shot.values == pytest.approx(best.x[[0, 2, 3, 1]], rel=1e-4)
    for each in (fit, shot):
        by_scipy = log_likelihood(each, lambda mean, std: scipy.stats.t(5.0, mean, std))
        assert each.log_likelihood == pytest.approx(by_scipy, abs=1e-10)
    q = shooting.pack({k: 1.1, a: 0.06, b: 0.05, y: 1.9})
    r, slopes = shooting.residuals(q), shooting.residual_jacobian(q)
    assert 2.0 * slopes.T @ r == pytest.approx(shooting.gradient(q), rel=1e-9)
    z = fit.free_vector + 0.01 * np.random.default_rng(2).standard_normal(problem.n_variables)
    samples, loss = problem.problem.residual_nlp.samples, RobustLoss("student", 5.0)
    slope = Bends.of(samples, problem.residuals(z), loss).slope
    slopes, gradient = problem.residual_jacobian(z), problem.cost_gradient(z)
    assert 2.0 * slopes.T @ slope == pytest.approx(gradient, rel=1e-9, abs=1e-9)
    for method in ("t", "sandwich", "profile"):
        one, other = (each.intervals(method=method).table for each in (fit, shot))
        for name, row in one.items():
            mine = pytest.approx(other[name].standard_error, rel=0.35)
            assert row.standard_error == mine  # of the exact curvature, and without bends of means
            if method != "sandwich":
                assert row.low == pytest.approx(other[name].low, rel=0.2, abs=0.01)
                assert row.high == pytest.approx(other[name].high, rel=0.2)
    sample = fit.influence().most(20)[-1]
    again = fit.without(samples=sample, solve=True).in_errors
    assert [*sample.in_errors.values()] == pytest.approx([*again.values()], rel=0.3, abs=0.02)


def test_a_symbol_is_what_is_estimated_otherwise():
    """std={y: a} agrees with a std that is not given, estimates and intervals."""
    found = []
    for std, more in (({}, {}), ({y: a}, {a: RANGES[a]})):
        trial = ks.Experiment(TIME, measurements={y: decaying()}, std=std)
        problem = ks.Collocation(DECAY, trial, unknown={k: RANGES[k], **more}, scheme="radau-5")
        found.append(problem.solve({k: 1.0, **dict.fromkeys(more, 0.1)}))
    free, own = found
    assert own.log_likelihood == pytest.approx(free.log_likelihood, abs=1e-8)
    one, other = free.intervals().table["k"], own.intervals().table["k"]
    assert other.standard_error == pytest.approx(one.standard_error, rel=0.02)
    assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=0.01)
    left = free.noise[0].freedom / len(decaying()[~np.isnan(decaying())])
    assert own.parameters["a"] == pytest.approx(free.noise[0].std * np.sqrt(left), rel=1e-6)


def test_delayed_samples():
    """Samples whose unknown delay moves them: scores make the gradient, in shooting, too."""
    rng, times = np.random.default_rng(3), np.linspace(0.3, 2.9, 30)
    data = 2.0 * np.exp(-(times - 0.1)) * (1.0 + 0.05 * rng.standard_normal(30))
    trial = ks.Experiment(TIME, measurements={"s": ks.Signal(times, data)}, std={"s": a + b * y})
    shooting = ks.Shooting(
        DECAY,
        trial,
        unknown={k: RANGES[k], tau: (0.0, 0.25), a: RANGES[a], b: RANGES[b]},
        sensors={"s": ks.sensor(y, delay=tau)},
        initial={y: 2.0},
    )
    for delay in (0.05, 0.2):
        q = shooting.pack({k: 1.1, tau: delay, a: 0.05, b: 0.05})
        r, slopes = shooting.residuals(q), shooting.residual_jacobian(q)
        assert 2.0 * slopes.T @ r == pytest.approx(shooting.gradient(q), rel=1e-9)


def test_log_normal_samples():
    """The log as a sensor: the likelihood of log-normal samples, but for the log of these."""
    rng, name = np.random.default_rng(4), "log_y"
    data = 2.0 * np.exp(-TIME + 0.1 * rng.standard_normal(len(TIME)))
    trial = ks.Experiment(TIME, measurements={name: np.log(data)}, std={name: b})
    fit = ks.Collocation(
        DECAY, trial, unknown={k: RANGES[k], b: RANGES[b]}, sensors={name: sp.log(y)}
    ).solve({k: 1.0, b: 0.1, y: 2.0 * np.exp(-TIME)})
    density = scipy.stats.lognorm(fit.parameters["b"], scale=fit["y"])
    whole = density.logpdf(data).sum()
    assert fit.log_likelihood - np.log(data).sum() == pytest.approx(whole, abs=1e-10)


def test_phases_of_several_models():
    """A std that is an expression, of a motion through the phases of two models."""
    slide = ks.Model("slide", [y, v], [], [c], [y.diff(t) - v, v.diff(t) - 1])
    brake = ks.Model("brake", [y, v], [], [c], [y.diff(t) - v, v.diff(t) + c])
    time, rng = np.linspace(0.0, 1.0, 21), np.random.default_rng(5)
    first, then = 0.5 * time**2, 0.5 + time - 0.25 * time**2
    phases = [
        ks.Experiment(
            time, {}, {y: row + (0.01 + 0.02 * row) * rng.standard_normal(21)}, {y: a + b * y}
        )
        for row in (first, then)
    ]
    problem = ks.Collocation(
        [slide, brake], ks.Phases(phases), unknown={p: RANGES[p] for p in (c, a, b)}
    )
    fit = problem.solve({c: 0.4, a: 0.02, b: 0.03})
    assert fit.success
    assert fit.log_likelihood == pytest.approx(log_likelihood(fit), abs=1e-10)


def test_files_and_bundles(tmp_path):
    """What is saved, read or run again is the same."""
    trial = ks.Experiment(
        TIME, measurements={y: ks.censored(decaying(), below=0.2)}, std={y: a + b * y}
    )
    problem = ks.Collocation(DECAY, trial, unknown={k: RANGES[k], a: RANGES[a], b: RANGES[b]})
    fit = problem.solve({k: 1.0, a: 0.05, b: 0.08})
    fit.save(tmp_path / "fit.nc")
    again = ks.Solution.load(tmp_path / "fit.nc")
    assert again.log_likelihood == fit.log_likelihood
    assert again.trials[0].limits == {"y_below": -1}
    assert "a + b*y" in trial._repr_html_()
    fine = problem.refined(fit, tolerance=1e-8).solve(guess=fit)
    assert fine.log_likelihood == pytest.approx(fit.log_likelihood, abs=0.01)


def solved(std, more=None, **others):
    trial = ks.Experiment(TIME, measurements={y: decaying()}, std=std)
    unknown = {k: RANGES[k], a: (-1.0, 1.0), b: RANGES[b], **(more or {})}
    return ks.Collocation(DECAY, trial, unknown=unknown, **others).solve({k: 1, a: 0.1, b: 0.1})


@pytest.mark.parametrize(
    "ask, words",
    [
        (lambda: solved({y: a + b * v}), "std of y contains v.t., which is neither a state nor"),
        (lambda: solved({y: a - 1 + b * y}), r"std of y, .*, is -0.69.* at t = 0 s at the guess"),
        (
            lambda: solved({y: a + b * y}, objective=ks.LeastSquares("huber")),
            "std of y is an expression, and the loss huber is no density",
        ),
        (
            lambda: ks.Collocation(
                DECAY,
                [ks.Experiment(TIME, {}, {y: decaying()}, {y: s}) for s in (a, 0.1)],
                unknown={k: None, a: None},
            ),
            "std of y is a in a trial, and not in trial 1",
        ),
        (lambda: ks.censored(TIME), "ks.censored needs a limit"),
        (lambda: ks.censored(TIME, below=2.0, above=1.0), "2.0, is not lower than the one above"),
        (
            lambda: ks.Experiment(TIME, {}, {y: ks.censored(TIME, below=1.0)}),
            "measurement y has censored samples, and an unknown std",
        ),
        (
            lambda: ks.Experiment(TIME, {}, {y: ks.censored(TIME, below=np.zeros(3))}, {y: 1}),
            "the limit below of measurement y has 3 values, expected 1 or 41",
        ),
        (
            lambda: ks.Experiment(TIME, {}, {y: ks.censored(TIME, below=1), "y_below": TIME}, {}),
            "censored samples, which are the channel y_below, but that is measured, too",
        ),
    ],
)
def test_refusals(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()


def test_limits_are_no_means():
    force, rows = np.sin(TIME), {"acc": ks.censored(np.cos(TIME), above=0.5)}
    trial = ks.Experiment(TIME, {F: force}, rows, {"acc": 0.1})
    asked = {"unknown": {k: RANGES[k]}, "known": {c: 0.4}}
    with pytest.raises(ValueError, match=r"acc_above are censored samples of what .* within"):
        ks.Collocation(OSCILLATOR, trial, scheme="gauss-4", **asked).solve({k: 4.0})


def test_limits_have_no_residuals():
    trial = ks.Experiment(TIME, {}, {y: ks.censored(decaying(), below=0.3)}, {y: 0.1})
    fit = ks.Collocation(DECAY, trial, unknown={k: RANGES[k]}).solve({k: 1.0})
    for ask in (
        lambda: fit.intervals(method="sandwich"),
        lambda: fit.bootstrap(5),
    ):
        with pytest.raises(ValueError, match="y_below has limits in place of samples"):
            ask()


# -- without samples, and before there are any ---------------------------------------------------


def noisy(engine, data, limits, numbers=False, **more):
    """A decay with noise that follows it, or does not, with samples within limits, or without."""
    measured = ks.censored(data, *limits) if limits else data
    trial = ks.Experiment(FINE, measurements={y: measured}, std={y: 0.15 if numbers else a + b * y})
    noise = {} if numbers else {p: ks.log_scale(1e-3, 2.0) for p in (a, b)}
    unknown = {k: (0.1, 5.0), **noise}
    if engine is ks.Shooting:
        return engine(DECAY, trial, unknown=unknown, initial={y: (0.0, 4.0)}, **more)
    return engine(DECAY, trial, unknown=unknown, scheme="radau-5", **more)


FINE = np.linspace(0.0, 5.0, 121)
LIMITS = [None, (0.2, None), (0.2, 1.8)]


@pytest.mark.parametrize("engine", [ks.Collocation, ks.Shooting])
@pytest.mark.parametrize("limits", LIMITS[:2])
def test_influence_against_new_solves(engine, limits):
    data = 2.0 * np.exp(-FINE)
    data += (0.05 + 0.1 * data) * np.random.default_rng(11).standard_normal(len(FINE))
    fit = noisy(engine, data, limits).solve({k: 1.0, a: 0.05, b: 0.1, y: 2.0})
    found = fit.influence()
    assert len(found.change) == len(FINE)
    assert np.isnan(found.log_score) and "no log-density of samples" in str(found)
    assert found.leverage.sum() == pytest.approx(4.0, abs=0.2)
    hidden = [s for s in found.most(len(FINE)) if s.channel == "y_below"]
    for sample in [*found.most(2), found.most(15)[-1], *hidden[:1]]:
        again = fit.without(samples=sample, solve=True).in_errors
        for name, change in sample.in_errors.items():
            assert change == pytest.approx(again[name], rel=0.35, abs=0.03)


def information(limits, numbers):
    """Expected information on k, the start, and the log of a and b: integrals over the samples of
    the products of scores of their density, and of the probabilities of those that are hidden."""
    z, w = np.polynomial.legendre.leggauss(80)
    mean, total = 2.0 * np.exp(-FINE), np.zeros((4, 4))
    std = np.full(len(FINE), 0.15) if numbers else 0.05 + 0.1 * mean
    ends = [np.nan if end is None else end for end in (*(limits or (None, None)),)]
    for time, m, s in zip(FINE, mean, std, strict=True):
        by_mean, by_std = np.array([-time * m, m / 2.0, 0.0, 0.0]), np.zeros(4)
        if not numbers:
            by_std = 0.1 * by_mean + [0.0, 0.0, 0.05, 0.1 * m]
        low, high = np.nan_to_num((ends[0] - m) / s, nan=-9.0), (ends[-1] - m) / s
        low, high = np.clip([low, np.nan_to_num(high, nan=9.0)], -9.0, 9.0)
        e = 0.5 * (low + high) + 0.5 * (high - low) * z
        share = 0.5 * (high - low) * w * scipy.stats.norm.pdf(e)
        scores = (np.outer(e, by_mean) + np.outer(e**2 - 1.0, by_std)) / s
        total += (share[:, None] * scores).T @ scores
        for at, tail in ((low, scipy.stats.norm.cdf(low)), (high, scipy.stats.norm.sf(high))):
            if tail > 1e-18:
                one = scipy.stats.norm.pdf(at) / s * (by_mean + at * by_std)
                total += np.outer(one, one) / tail
    return total[:2, :2] if numbers else total


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("limits", LIMITS)
def test_forecasts_against_the_information(limits, numbers):
    """Of records of zeros, which may all be hidden."""
    guess = {k: 1.0, y: 2.0} | ({} if numbers else {a: 0.05, b: 0.1})
    errors = np.sqrt(np.diag(np.linalg.inv(information(limits, numbers))))
    if not numbers:
        errors *= np.array([1.0, 1.0, 0.05, 0.1]) * np.sqrt(121.0 / 117.0)
    for engine in (ks.Collocation, ks.Shooting):
        problem = noisy(engine, np.zeros(121), limits, numbers)
        found = ks.forecast(problem, guess).standard_errors()
        expected = dict(zip("k" if numbers else "kyab", errors, strict=False))
        for name in found.keys() & expected.keys():
            assert found[name] == pytest.approx(expected[name], rel=2e-3)


def test_designs_and_refused_forecasts():
    problem = noisy(ks.Collocation, np.zeros(121), (0.2, None))
    guess = {k: 1.0, a: 0.05, b: 0.1, y: 2.0}
    made = ks.design(problem, guess, {y: (1.0, 3.0)}, criterion="k", tries=1, iterations=2)
    assert made.after.standard_errors()["k"] < 0.8 * made.before.standard_errors()["k"]
    table = ks.forecast(problem, guess, rate=[12.0], trials=[2]).to_pandas()
    assert table["b"].iloc[1] == pytest.approx(table["b"].iloc[0] * np.sqrt(2.0), rel=0.03)
    assert table["b"].iloc[2] == pytest.approx(table["b"].iloc[0] / np.sqrt(2.0), rel=0.03)
    for ask, words in (
        ({"std": 0.1}, r"std of y is .*, and a number besides; vary the parameters"),
        ({"correlation": 0.3}, "correlated noise of y is taken as of samples that have a std"),
    ):
        with pytest.raises(ValueError, match=words):
            ks.forecast(problem, guess, **ask)
    with pytest.raises(ValueError, match="samples are chosen one by one where std are numbers"):
        ks.design(problem, guess, samples=20)


@pytest.mark.study
@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("limits", LIMITS)
def test_scatter_is_as_forecast(limits, numbers):
    """Standard deviations of 300 estimates have standard errors of 4 %."""
    guess = {k: 1.0} | ({} if numbers else {a: 0.05, b: 0.1})
    expected = ks.forecast(noisy(ks.Collocation, np.zeros(121), limits, numbers), guess | {y: 2.0})
    rng, mean, found = np.random.default_rng(12), 2.0 * np.exp(-FINE), []
    for _ in range(300):
        std = 0.15 if numbers else 0.05 + 0.1 * mean
        data = mean + std * rng.standard_normal(len(FINE))
        fit = noisy(ks.Collocation, data, limits, numbers).solve(guess, progress=False)
        found.append([*dict(fit.parameters).values()])
    errors = [*expected.standard_errors().values()]
    assert np.std(found, axis=0, ddof=1) == pytest.approx(errors, rel=0.13)


# -- coverage ----------------------------------------------------------------------------------

s = ks.dynamicsymbols("s")
r, K = sp.symbols("r K")
GROWTH = ks.Model(
    name="growth",
    states=[s],
    inputs=[],
    parameters=[r, K],
    equations=[s.diff(t) - r * s * (1 - s / K)],
)
NOISE = {a: 0.05, b: 0.1}
CASES = {
    "decay": (DECAY, y, {k: 1.0, **NOISE}, {k: (0.1, 5.0)}, lambda n: 2.0 * np.exp(-n)),
    "limit": (DECAY, y, {k: 1.0, **NOISE}, {k: (0.1, 5.0)}, lambda n: 2.0 * np.exp(-n)),
    "student": (DECAY, y, {k: 1.0, **NOISE}, {k: (0.1, 5.0)}, lambda n: 2.0 * np.exp(-n)),
    "laplace": (DECAY, y, {k: 1.0, **NOISE}, {k: (0.1, 5.0)}, lambda n: 2.0 * np.exp(-n)),
    "growth": (
        GROWTH,
        s,
        {r: 1.2, K: 3.0, **NOISE},
        {r: (0.2, 5.0), K: (1.0, 9.0)},
        lambda n: 3.0 / (1.0 + 9.0 * np.exp(-1.2 * n)),
    ),
}


ERRORS = {
    "student": lambda rng: rng.standard_t(4.0, 121),
    "laplace": lambda rng: rng.laplace(size=121),
}


def coverage(case, records, method):
    """Share of intervals that have the truth, by parameter."""
    model, x, truth, ranges, course = CASES[case]
    time = np.linspace(0.0, 5.0, 121)
    rng, mean, hits = np.random.default_rng(7), course(np.linspace(0.0, 5.0, 121)), []
    noise = {p: ks.log_scale(1e-3, 2.0) for p in NOISE}
    loss = case if case in ERRORS else None
    for _ in range(records):
        drawn = ERRORS[case](rng) if loss else rng.standard_normal(len(time))
        data = mean + (NOISE[a] + NOISE[b] * mean) * drawn
        shown = ks.censored(data, below=0.2) if case == "limit" else data
        trial = ks.Experiment(time, measurements={x: shown}, std={x: a + b * x})
        problem = ks.Collocation(
            model,
            trial,
            unknown={**ranges, **noise},
            scheme="radau-5",
            objective=ks.LeastSquares(loss=loss),
        )
        guess = {**truth, x: mean} if loss else truth
        table = problem.solve(guess, progress=False).intervals(method=method).table
        hits.append(
            [table[p.name].low <= value <= table[p.name].high for p, value in truth.items()]
        )
    return np.mean(hits, axis=0)


@pytest.mark.parametrize("case", ["growth", "limit"])
def test_coverage_of_a_few(case):
    assert 0.85 < coverage(case, 15, "t").mean() <= 1.0


@pytest.mark.study
@pytest.mark.parametrize(
    "case, method",
    [(c, m) for c in CASES for m in ("t", "profile") if (c, m) != ("laplace", "profile")],
)
def test_coverage(case, method):
    """95 % intervals of 200 records: 93 to 97 % on average, each parameter within three standard
    errors of a share."""
    found = coverage(case, 200, method)
    assert 0.93 <= found.mean() <= 0.97 + 1e-9
    assert (np.abs(found - 0.95) < 3.0 * np.sqrt(0.95 * 0.05 / 200)).all()


def test_scoring_where_the_noise_follows_from_unknowns():
    """Maximum likelihood of a mean and of a deviation: those of the sample."""
    x, (m, s) = sp.Function("x")(ks.t), sp.symbols("m s")
    model = ks.Model("rest", [x], [], [m], [x.diff(ks.t)])
    y = 3.0 + 0.4 * np.random.default_rng(1).normal(size=50)
    trial = ks.Experiment(np.arange(50.0), {}, {x: y}, {x: s})
    problem = ks.Shooting(model, trial, {m: None, s: ks.log_scale(1e-3, 1e3)}, initial={x: m})
    fit = problem.solve({m: 1.0, s: 50.0}, optimizer="least-squares")
    assert fit.success and fit.iterations < 20
    assert fit.parameters["m"] == pytest.approx(y.mean(), rel=1e-8)
    assert fit.parameters["s"] == pytest.approx(y.std(), rel=1e-6)
