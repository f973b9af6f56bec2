"""Log-densities of fits: closed forms of scipy.stats, gradients by complex step, samples by own
random walks."""

import numpy as np
import pytest
import sympy as sp
from scipy import stats
from scipy.special import gammaln

import kinesym as ks

x = ks.dynamicsymbols("x")
p, s = sp.symbols("p s")
#: x = x(0) + p^2 s t, which Runge-Kutta steps follow exactly.
LINE = ks.Model("line", [x], [], [p, s], [x.diff(ks.t) - p**2 * s], outputs={"triple": 3 * x})
TIME = np.linspace(0.0, 2.0, 21)
RNG = np.random.default_rng(5)
X = 0.5 + 1.44 * TIME + 0.1 * RNG.standard_normal(21)
TRIPLE = 1.5 + 4.32 * TIME + 0.4 * RNG.standard_normal(21)
TRIPLE[3] = np.nan
DF = 4.0


def normal(e, std):
    return -0.5 * (e / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)


def student(e, std):
    height = gammaln((DF + 1) / 2) - gammaln(DF / 2) - 0.5 * np.log(np.pi * DF)
    return height - (DF + 1) / 2 * np.log(1 + (e / std) ** 2 / DF) - np.log(std)


def of_samples(density, theta, std_x, std_triple):
    """Of samples at p, s, x(0); also for complex numbers."""
    course = theta[2] + theta[0] ** 2 * theta[1] * TIME
    rest = (3 * course - TRIPLE)[~np.isnan(TRIPLE)]
    return density(course - X, std_x).sum() + density(rest, std_triple).sum()


PRIORS = {p: ks.normal(1.0, 0.2), s: ks.lognormal(1.1, 1.5)}
FREE = {p: (0.1, 5.0), s: ks.log_scale(0.01, 20.0)}
BOTH = {x: 0.1, "triple": 0.4}


def of_priors(theta):
    median = np.log(theta[1] / 1.1) / np.log(1.5)
    return (
        normal(theta[0] - 1.0, 0.2)
        - 0.5 * median**2
        - np.log(theta[1] * np.log(1.5))
        - 0.5 * np.log(2 * np.pi)
    )


#: Standard deviations that are given, unknowns, loss, and the closed form.
CASES = {
    "known": (BOTH, PRIORS, None, lambda q: of_samples(normal, q, 0.1, 0.4) + of_priors(q)),
    "flat": (BOTH, FREE, None, lambda q: of_samples(normal, q, 0.1, 0.4) - np.log(q[1])),
    "student": (
        *(BOTH, PRIORS, "student"),
        lambda q: of_samples(student, q, 0.1, 0.4) + of_priors(q),
    ),
    "two unknown": (
        *({}, PRIORS, None),
        lambda q: of_samples(normal, q, q[3], q[4]) + of_priors(q) - np.log(q[3]) - np.log(q[4]),
    ),
    "one unknown, student": (
        *({x: 0.1}, FREE, "student"),
        lambda q: of_samples(student, q, 0.1, q[3]) - np.log(q[1]) - np.log(q[3]),
    ),
}


def fit_of(std, unknown, loss=None, measured=None, by=ks.Shooting):
    measured = measured or {x: X, "triple": TRIPLE}
    start = {"initial": {x: None}} if by is ks.Shooting else {}
    problem = by(
        LINE,
        ks.Experiment(TIME, measurements=measured, std=std),
        unknown,
        known=None if s in unknown else {s: 1.0},
        objective=ks.LeastSquares(loss, DF) if loss else ks.LeastSquares(),
        **start,
    )
    guess = {p: 1.0, **({s: 1.0} if s in unknown else {})}
    if by is ks.Collocation:
        return problem.solve(guess)
    return problem.solve(guess, optimizer="least-squares")


def by_complex_step(f, q):
    return np.array([np.imag(f(q + 1e-30j * e)) / 1e-30 for e in np.eye(q.size)])


@pytest.mark.parametrize("by", [ks.Shooting, ks.Collocation])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_closed_forms(case, by):
    std, unknown, loss, closed = CASES[case]
    density = fit_of(std, unknown, loss, by=by).log_density()
    theta = density.best * np.linspace(0.95, 1.05, density.size)
    value, gradient = density.value_and_gradient(theta)
    assert value == pytest.approx(closed(theta), abs=1e-9 * abs(value)) == density.value(theta)
    exact = by_complex_step(closed, theta)
    np.testing.assert_allclose(gradient, exact, rtol=1e-9, atol=1e-9 * abs(exact).max())
    many = density.value_and_gradient(np.array([theta, density.best, -density.best]))
    np.testing.assert_allclose(many[0], [value, closed(density.best), -np.inf], rtol=1e-12)
    np.testing.assert_allclose(many[1][0], gradient, rtol=1e-9)
    assert np.isnan(many[1][2]).all()
    free = density.unconstrained
    y = free.coordinates(theta)
    np.testing.assert_allclose(free.theta(y), theta, rtol=1e-13)
    step = 1e-5 * np.eye(y.size)
    slopes = np.array([(free.theta(y + e) - free.theta(y - e)) / 2e-5 for e in step])
    jacobian = np.log(np.abs(np.linalg.det(slopes)))
    assert free.value(y) == pytest.approx(value + jacobian, abs=1e-8)
    rise = np.array([(free.value(y + e) - free.value(y - e)) / 2e-5 for e in step])
    np.testing.assert_allclose(free.gradient(y), rise, rtol=1e-7, atol=1e-6)


def test_constants_are_those_of_scipy():
    fit = fit_of({x: 0.1}, {p: ks.normal(1.0, 0.2)}, measured={x: X})
    density, (q, start) = fit.log_density(), (1.15, 0.6)
    whole = stats.norm.logpdf(X, start + q**2 * TIME, 0.1).sum() + stats.norm.logpdf(q, 1.0, 0.2)
    assert density.value([q, start]) == pytest.approx(whole, rel=1e-12)
    assert density.names == ["p", "x(0)"] and "2 unknowns" in str(density)


a, u = ks.dynamicsymbols("a u")
g = sp.Symbol("g")
SWING = ks.Model("swing", [x, a], [u], [g], [x.diff(ks.t) - a, a.diff(ks.t) + g * sp.sin(x) - u])
RECORD = {
    "time": TIME,
    "inputs": {u: np.sin(3.0 * TIME)},
    "measurements": {x: np.cos(2.0 * TIME) + 0.1 * RNG.standard_normal(21)},
    "std": {x: 0.1},
}


def test_shooting_and_collocation_have_one_density():
    """By the same method, also far from the estimates; gradients against differences."""
    trials = [ks.Experiment(**RECORD), ks.Experiment(**RECORD)]
    shooting = ks.Shooting(
        SWING, trials, {g: (1.0, 9.0)}, initial={x: None, a: 0.0}, method="trapezoid"
    )
    guess = {g: 4.0, x: [np.cos(2.0 * TIME)] * 2}
    shot = shooting.solve(guess, optimizer="least-squares").log_density()
    solved = ks.Collocation(
        SWING, trials, {g: (1.0, 9.0)}, boundary=[ks.at_start(a)], scheme="trapezoid"
    ).solve(guess)
    found = solved.log_density()
    assert found.names == shot.names == ["g", "x(0) of trial 0", "x(0) of trial 1"]
    for theta in (found.best * [1.02, 0.99, 1.0], np.array([6.5, 2.0, 0.4])):
        (value, slopes), (other, others) = (d.value_and_gradient(theta) for d in (found, shot))
        assert value == pytest.approx(other, rel=1e-11)
        np.testing.assert_allclose(slopes, others, rtol=1e-9)
        steps = 1e-6 * np.eye(3)
        rise = [(found.value(theta + e) - found.value(theta - e)) / 2e-6 for e in steps]
        np.testing.assert_allclose(slopes, rise, rtol=1e-7, atol=1e-7 * abs(slopes).max())


def test_what_does_not_follow_from_parameters_and_starts_is_said():
    trial, unknown = ks.Experiment(**RECORD), {g: (1, 9)}
    tied = ks.Collocation(SWING, trial, unknown, boundary=[ks.at_end(x) - ks.at_start(x)])
    with pytest.raises(ValueError, match=r"no log-density: 81 equations .* use ks.Shooting"):
        tied.solve({g: 4.0}).log_density()
    bare = ks.Experiment(**{**RECORD, "inputs": {}})
    noisy = ks.Collocation(SWING, bare, unknown, noise={u: 0.3})
    with pytest.raises(ValueError, match=r"with process noise .* use ks.Shooting"):
        noisy.solve({g: 4.0}).log_density()


@pytest.fixture(scope="module")
def of_slope():
    """x = x(0) + p t with one standard deviation that is not known: the density is Student's t."""
    slope = ks.Model("slope", [x], [], [p], [x.diff(ks.t) - p])
    shooting = ks.Shooting(
        slope, ks.Experiment(TIME, measurements={x: X}), {p: None}, initial={x: None}
    )
    return shooting.solve(optimizer="least-squares")


def test_random_walks_find_the_t_distribution_of_intervals(of_slope):
    """As emcee: many walkers, stretch moves (Goodman, Weare 2010, Communications in Applied
    Mathematics and Computational Science 5, 65), values alone."""
    free, rng = of_slope.log_density().unconstrained, np.random.default_rng(1)
    errors = np.array([*(of_slope.standard_errors()[n] for n in ("p", "x(0)")), 0.16])
    start = free.coordinates(free.constrained.best)
    halves = [start + errors * rng.standard_normal((100, 3)) for _ in range(2)]
    kept = []
    for _ in range(400):
        for k in range(2):
            here, other = halves[k], halves[1 - k][rng.integers(100, size=100)]
            stretch = (rng.random(100) + 1.0) ** 2 / 2.0
            there = other + stretch[:, None] * (here - other)
            rise = free.value(there) - free.value(here) + 2.0 * np.log(stretch)
            halves[k] = np.where((np.log(rng.random(100)) < rise)[:, None], there, here)
        kept.append(np.concatenate(halves))
    theta = free.theta(np.concatenate(kept[60:]))
    known = len(TIME) - 2
    wide = np.sqrt(known / (known - 2.0))  # of Student's t with so many degrees of freedom
    np.testing.assert_allclose(theta[:, :2].std(axis=0), wide * errors[:2], rtol=0.05)
    low, high = np.quantile(theta[:, 0], [0.025, 0.975])
    interval = of_slope.parameters.table["p"]
    assert abs(low - interval.low) + abs(high - interval.high) < 0.1 * (high - low)


def test_what_is_no_density_is_said():
    with pytest.raises(ValueError, match="the loss huber is no density"):
        fit_of(BOTH, FREE, "huber").log_density()
    density = fit_of(BOTH, PRIORS).log_density()
    with pytest.raises(ValueError, match=r"theta has shape \(2,\); there are 3 unknowns \(p, s"):
        density.value([1.0, 2.0])
    shooting = ks.Shooting(
        LINE,
        ks.Experiment(TIME, measurements={x: X}),
        {p: None},
        known={s: 1.0},
        initial={x: None},
        objective=ks.LeastSquares() + ks.Terminal(x**2),
    )
    with pytest.raises(ValueError, match="other terms than LeastSquares"):
        shooting.solve({p: 1.0}).log_density()
