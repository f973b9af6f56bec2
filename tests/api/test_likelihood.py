"""The likelihood of a record with process noise: against the Kalman filter, and what has none."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.linalg import expm

import kinesym as ks

t = ks.t
x, v, u, w = ks.dynamicsymbols("x v u w")
k, c, s = sp.symbols("k c s")
STD = {x: 0.05, v: 0.2}
VALUES = {k: 9.0, c: 0.6, s: 2.0}


def system():
    """A mass on a spring, pushed by white noise of the intensity s^2, and by a known force."""
    return ks.Model(
        "noisy", [x, v], [u, w], [k, c, s], [x.diff(t) - v, v.diff(t) + k * x + c * v - s * u - w]
    )


def transition(step, values=VALUES):
    """x_k+1 = F x_k + G (u_k + w_k), both held."""
    A = np.array([[0.0, 1.0, 0.0], [-values[k], -values[c], 1.0], [0.0, 0.0, 0.0]])
    whole = expm(step * A)
    return whole[:2, :2], whole[:2, 2]


def record(time, seed, known_start=False):
    """Samples of x and v, (2, N), with gaps but for the first, and the known force."""
    rng = np.random.default_rng(seed)
    state, rows, force = np.array([0.5, 0.0]), [], np.sin(3.0 * time)
    for n, step in enumerate([*np.diff(time), 1.0]):
        rows.append(state + np.array([*STD.values()]) * rng.standard_normal(2))
        F, G = transition(step)
        noise = VALUES[s] * rng.standard_normal() / np.sqrt(step)
        state = F @ state + G * (noise + force[n])
    samples = np.array(rows).T
    gone = rng.random(samples.shape) < 0.4
    gone[:, 0] = False
    samples[gone] = np.nan
    samples[0, 5:9] = samples[1, 5:9] = np.nan
    return samples, force


def kalman(time, samples, force, values, start=None, std=STD):
    """log of the likelihood of the samples, with a known start, or given the first of them, before
    which all starts are equally likely (Särkkä 2013, Bayesian Filtering and Smoothing, section 4.3
    and equation 12.5)."""
    std = np.array([*std.values()])
    mean = samples[:, 0] if start is None else np.array(start)
    cov = np.diag(std**2) if start is None else np.zeros((2, 2))
    total = 0.0
    for n in range(len(time)):
        if n > 0:
            step = time[n] - time[n - 1]
            F, G = transition(step, values)
            mean = F @ mean + G * force[n - 1]
            cov = F @ cov @ F.T + np.outer(G, G) * values[s] ** 2 / step
        elif start is None:
            continue
        for i in np.flatnonzero(~np.isnan(samples[:, n])):
            spread, left = cov[i, i] + std[i] ** 2, samples[i, n] - mean[i]
            total -= 0.5 * (np.log(2.0 * np.pi * spread) + left**2 / spread)
            gain = cov[:, i] / spread
            mean, cov = mean + gain * left, cov - np.outer(gain, cov[i])
    return total


def likelihood(time, samples, force, values, start=None, std=STD, unit=STD):
    """What kinesym gives: where the start may be anywhere its unit of volume is what moves the
    first 5 % of the samples of each channel (at least three per state in all) by one unit."""
    found = kalman(time, samples, force, values, start, std)
    if start is not None:
        return found
    there = ~np.isnan(samples)
    last = max(time[some][max(int(0.05 * some.sum()), 3) - 1] for some in there)
    F, rows = np.eye(2), []
    for n in np.flatnonzero(time <= last):
        F = transition(time[n] - time[n - 1], values)[0] @ F if n else F
        rows += [F[i] / unit[name] for i, name in enumerate(STD) if there[i, n]]
    return found + np.log(np.linalg.svd(np.array(rows), compute_uv=False)).sum()


def grids():
    rng = np.random.default_rng(1)
    regular = np.linspace(0.0, 2.0, 41)
    return [regular, np.append(0.0, np.cumsum(rng.uniform(0.01, 0.09, 40)))]


def posed(records, unknown, values=VALUES, **options):
    trials = [
        ks.Experiment(
            time, {w: ks.Signal(time, force, "held")}, dict(zip(STD, rows, strict=True)), STD
        )
        for time, rows, force in records
    ]
    return ks.Collocation(
        system(),
        trials,
        unknown,
        {name: value for name, value in values.items() if name not in unknown},
        unknown_inputs={u: ks.held()},
        objective=ks.LeastSquares() + ks.Integral(u**2),
        scheme="gauss-6",
        **options,
    )


@pytest.mark.parametrize("start", [None, (0.5, 0.0)], ids=["any start", "known start"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "found"])
def test_kalman_filter(known, start):
    """Regular and irregular sampling, gaps, two trials; of given parameters, and of those found."""
    records = [(time, *record(time, seed)) for seed, time in enumerate(grids())]
    fixed = [] if start is None else [ks.at_start(x) - start[0], ks.at_start(v) - start[1]]
    task = posed(records, {} if known else {k: (1, 50), c: (0.1, 5)}, boundary=fixed)
    solution = task.solve()
    values = VALUES | {
        symbol: solution.parameters.get(symbol.name, VALUES[symbol]) for symbol in VALUES
    }
    expected = sum(likelihood(*given, values, start) for given in records)
    assert task.log_likelihood(solution) == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_the_intensity_of_the_noise():
    """The likelihood has its maximum near the truth; the objective is smaller the more noise."""
    time = np.linspace(0.0, 20.0, 401)
    given = (time, *record(time, 3))
    found = []
    intensities = (1.0, 1.5, 2.0, 2.5, 3.0)
    for sigma in intensities:
        task = posed([given], {}, VALUES | {s: sigma})
        found.append(task.log_likelihood(task.solve()))
    assert 1.5 <= intensities[int(np.argmax(found))] <= 2.5
    expected = [likelihood(*given, VALUES | {s: v}) for v in intensities]
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_nonlinear_model_by_quadrature():
    """One value of noise, one sample: Laplace's method is as good as the noise is small."""
    model = ks.Model("bent", [x], [u], [], [x.diff(t) - sp.sin(x) - u])
    time, std, sigma = np.array([0.0, 0.1]), 0.3, 0.05
    trial = ks.Experiment(time, measurements={x: np.array([np.nan, 1.2])}, std={x: std})
    task = ks.Collocation(
        model,
        trial,
        unknown_inputs={u: ks.held()},
        objective=ks.LeastSquares() + ks.Integral(u**2 / sigma**2),
        boundary=[ks.at_start(x) - 1],
        scheme="gauss-6",
    )
    spread = sigma / np.sqrt(0.1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    start, exact = np.ones(len(nodes)), {"rtol": 1e-12, "atol": 1e-12}
    ends = solve_ivp(lambda _, x: np.sin(x) + spread * nodes, (0.0, 0.1), start, **exact).y[:, -1]
    density = np.exp(-0.5 * ((1.2 - ends) / std) ** 2) / (std * np.sqrt(2.0 * np.pi))
    expected = np.log(weights @ density / np.sqrt(2.0 * np.pi))
    assert task.log_likelihood(task.solve()) == pytest.approx(expected, abs=1e-6)


def test_what_has_no_likelihood():
    """Other objectives, noise that is not held, a bound that holds, no convergence."""
    time = grids()[0]
    rows, force = record(time, 0)
    trial = ks.Experiment(time, {w: force}, dict(zip(STD, rows, strict=True)), STD)
    known = {"known": VALUES}
    for aim, free, words in (
        (2 * ks.LeastSquares() + ks.Integral(u**2), ks.held(), "without a factor"),
        (ks.LeastSquares() + ks.Integral(u**2) + ks.Terminal(x**2), ks.held(), "no Terminal"),
        (ks.LeastSquares() + ks.Integral(u**2 + x**2), ks.held(), "this is none: x"),
        (ks.LeastSquares() + ks.Integral(u**2 * (1 + x**2)), ks.held(), "this is none: "),
        (ks.LeastSquares() - ks.Integral(u**2 * k), ks.held(-9, 9), "u has the weight -9"),
        (ks.LeastSquares() + ks.Integral(u**2), None, "u is process noise.* ks.held"),
        (ks.LeastSquares() + ks.Integral(u**2), ks.held(-0.1, 0.1), "a bound or an inequality"),
    ):
        task = ks.Collocation(system(), trial, unknown_inputs={u: free}, objective=aim, **known)
        solution = task.solve()
        assert solution.success
        with pytest.raises(ValueError, match=words):
            task.log_likelihood(solution)
    with pytest.raises(ValueError, match="no likelihood without convergence"):
        task.log_likelihood(task.solve(max_iterations=0))


def test_schemes_agree():
    """A model with an algebraic state, all starts equally likely: schemes of high order, whose
    unknowns within the intervals differ, have the same likelihood."""
    y = ks.dynamicsymbols("y")
    model = ks.Model("dae", [x, y], [], [k, c], [x.diff(t) + k * y, y + c * y**3 - x])
    time = np.linspace(0.0, 2.0, 21)
    noisy = np.exp(-time) + 0.01 * np.random.default_rng(5).standard_normal(21)
    trial = ks.Experiment(time, measurements={x: noisy}, std={x: 0.01})
    found = []
    for scheme in ("gauss-4", "gauss-6", "radau-5"):
        task = ks.Collocation(model, trial, {k: (0, 9)}, {c: 0.5}, scheme=scheme)
        solution = task.solve({x: np.exp(-time), y: np.exp(-time), k: 1.0})
        found.append(task.log_likelihood(solution))
    assert found == pytest.approx([found[1]] * 3, abs=1e-4)


# -- parameters of the largest likelihood ----------------------------------------------------------


def newton(loss, x, steps):
    """The step from x to the minimum of -2 log L, and the covariance, by central differences."""
    unit, here = np.diag(steps), loss(x)
    sides = [(loss(x + e), loss(x - e)) for e in unit]
    slope = np.array([a - b for a, b in sides]) / (2.0 * steps)
    curved = np.diag([(a - 2.0 * here + b) / h**2 for (a, b), h in zip(sides, steps, strict=True)])
    for i, j in zip(*np.triu_indices(len(x), 1), strict=True):
        p, q = unit[i], unit[j]
        bent = loss(x + p + q) - loss(x + p - q) - loss(x - p + q) + loss(x - p - q)
        curved[i, j] = curved[j, i] = bent / (4.0 * steps[i] * steps[j])
    return -np.linalg.solve(curved, slope), 2.0 * np.linalg.inv(curved)


def driven(records, unknown, std=STD, noise=None, **options):
    """The mass on a spring with noise of an unknown intensity."""
    model = ks.Model(
        "noisy", [x, v], [u, w], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - u - w]
    )
    trials = [
        ks.Experiment(
            time, {w: ks.Signal(time, force, "held")}, dict(zip(STD, rows, strict=True)), std
        )
        for time, rows, force in records
    ]
    given = {u: None} if noise is None else noise
    return ks.Collocation(model, trials, unknown, noise=given, scheme="gauss-6", **options)


def test_estimates_of_the_largest_likelihood():
    """Two records with gaps: parameters, intensity and their covariance are those of the largest
    likelihood by a Kalman filter."""
    rng = np.random.default_rng(5)
    times = (np.linspace(0.0, 4.0, 81), np.append(0.0, np.cumsum(rng.uniform(0.01, 0.09, 80))))
    records = [(time, *record(time, seed)) for seed, time in enumerate(times)]

    def loss(q):
        values = dict(zip((k, c, s), q, strict=True))
        return -2.0 * sum(likelihood(*given, values) for given in records)

    task = driven(records, {k: (1, 50), c: (0.01, 5)})
    solution = task.solve(guess={k: 5.0, c: 1.5})
    assert solution.success
    found = np.array([*solution.parameters.values()])
    errors = np.sqrt(np.diag(task.covariance(solution)))
    off, covariance = newton(loss, found, 0.03 * errors)
    assert (np.abs(off) <= 1e-4 * errors).all()
    assert task.covariance(solution) == pytest.approx(covariance, rel=1e-3, abs=1e-5)
    assert solution.log_likelihood == pytest.approx(-0.5 * loss(found), abs=1e-7)
    assert task.log_likelihood(solution) == pytest.approx(solution.log_likelihood, abs=1e-7)
    white, sigma = solution["white_u"], solution.parameters["sigma_u"]
    assert solution["u"][:-1] == pytest.approx(sigma * white[:-1])
    assert "log L" in str(solution) and list(solution.parameters) == ["k", "c", "sigma_u"]


def test_the_likelihood_of_a_fit_with_priors_is_of_the_samples():
    """That of the Kalman filter at the estimates, which priors of two kinds draw away; the fit is
    ranked by the posterior density."""
    time = np.linspace(0.0, 4.0, 81)
    given = (time, *record(time, 3))
    task = driven([given], {k: ks.normal(1.0, 3.0), c: ks.lognormal(2.0, 1.1)}, noise={u: 2.0})
    solution = task.solve()
    found = solution.parameters
    values = {k: found["k"], c: found["c"], s: 2.0}
    expected = likelihood(*given, values)
    assert solution.log_likelihood == pytest.approx(expected, abs=1e-7)
    assert task.log_likelihood(solution) == pytest.approx(expected, abs=1e-7)
    squares = ((found["k"] - 1.0) / 3.0) ** 2 + (np.log(found["c"] / 2.0) / np.log(1.1)) ** 2
    assert squares > 1.0 and solution.likelihood[0].kind == "posterior density"
    assert solution.merit == pytest.approx(squares - 2.0 * expected, abs=1e-6)


def test_standard_deviations_in_the_same_likelihood():
    """Those of the samples are found together with the intensity, on a logarithmic scale."""
    time = np.linspace(0.0, 4.0, 81)
    given = (time, *record(time, 3))
    unit = dict(zip(STD, np.nanstd(given[1], axis=1), strict=True))

    def loss(q):
        values = dict(zip((k, c, s), np.exp(q[:3]), strict=True))
        std = dict(zip(STD, np.exp(q[3:]), strict=True))
        return -2.0 * likelihood(*given, values, None, std, unit)

    unknown = {k: ks.log_scale(1, 50), c: ks.log_scale(0.01, 5)}
    task = driven([given], unknown, {}, {u: (0.01, 100)})
    solution = task.solve()
    assert solution.success
    found = np.log([*solution.parameters.values(), *solution.estimated_std.values()])
    off, covariance = newton(loss, found, np.full(5, 3e-3))
    assert (np.abs(off) <= 1e-4 * np.sqrt(np.diag(covariance))).all()
    scale = np.array([*solution.parameters.values()])
    assert task.covariance(solution) / np.outer(scale, scale) == pytest.approx(
        covariance[:3, :3], rel=2e-3, abs=1e-5
    )
    assert solution.log_likelihood == pytest.approx(-0.5 * loss(found), abs=1e-7)


def walks(count, seed, a=0.5, sigma=1.0, std=0.3):
    """Samples of x' = -a x + noise with errors."""
    rng, time = np.random.default_rng(seed), 0.1 * np.arange(301)
    F = np.exp(-a * 0.1)
    G = (1.0 - F) / a
    for _ in range(count):
        row = [sigma * rng.standard_normal() / np.sqrt(2.0 * a)]
        for _ in time[1:]:
            row.append(F * row[-1] + G * sigma * rng.standard_normal() / np.sqrt(0.1))
        yield time, np.array(row) + std * rng.standard_normal(len(time))


def walk(trials, noise, **options):
    model = ks.Model("walk", [x], [u], [k], [x.diff(t) + k * x - u])
    return ks.Collocation(model, trials, {k: ks.log_scale()}, noise=noise, **options)


def test_intervals_hold():
    """First-order noise of 30 s: the truth is in 95 % of the intervals (here in most of them)."""
    inside = {"k": 0, "sigma_u": 0}
    for time, row in walks(8, 0):
        solution = walk(ks.Experiment(time, measurements={x: row}), {u: None}).solve({k: 1.0})
        assert solution.success
        for name, truth in (("k", 0.5), ("sigma_u", 1.0)):
            low, high = solution.intervals().table[name].interval
            inside[name] += low <= truth <= high
    assert min(inside.values()) >= 6


def test_intensities_by_owner():
    """Two people who are pushed by noise of their own; one known intensity for all is the same
    problem with a number."""
    trials = [
        ks.Experiment(time, measurements={x: row}, std={x: 0.3}, labels={"subject": who})
        for who, sigma in (("a", 1.0), ("b", 4.0))
        for time, row in walks(2, 3, sigma=sigma)
    ]
    solution = walk(trials, {u: ks.per("subject")}).solve({k: 1.0})
    assert solution.parameters["sigma_u[a]"] == pytest.approx(1.0, rel=0.3)
    assert solution.parameters["sigma_u[b]"] == pytest.approx(4.0, rel=0.3)
    known = walk(trials[:2], {u: 1.5}).solve({k: 1.0})
    assert known.known["sigma_u"] == 1.5 and list(known.parameters) == ["k"]
    assert walk(trials[:2], {u: None}).solve({k: 1.0}).log_likelihood > known.log_likelihood


def test_start_in_any_coordinates():
    """Neither the unit of a state that is not known at the start matters, nor that its effect can
    hardly be told from that of another one: by 1 % or by 0.1 %."""
    (a, b), y = sp.symbols("a b"), ks.dynamicsymbols("y")
    model = ks.Model(
        "two",
        [x, y],
        [u],
        [a, b, c],
        [x.diff(t) + a * x - u, y.diff(t) + b * y],
        outputs={"sum": x + c * y},
    )
    time, row = next(walks(1, 4))
    trial = ks.Experiment(time, measurements={"sum": row}, std={"sum": 0.3})

    def found(**values):
        return ks.Collocation(model, trial, known=values, noise={u: 1.0}).solve().log_likelihood

    here = found(a=0.5, b=1.0, c=1.0)
    assert found(a=0.5, b=1.0, c=100.0) == pytest.approx(here, abs=1e-6)
    near = found(a=0.5, b=0.505, c=1.0)
    assert found(a=0.5, b=0.5005, c=1.0) == pytest.approx(near, abs=0.02)
    with pytest.raises(ValueError, match="the samples do not tell the states at the start"):
        found(a=0.5, b=1.0, c=0.0)


def test_stationary_start():
    """A record cut from a long one: what went before is a run-in from rest with nothing measured,
    after which the likelihood is that with the stationary variance at the start."""
    time, row = next(walks(1, 4))
    before = np.arange(-200, 0) * 0.1
    trial = ks.Experiment(
        np.append(before, time), measurements={x: np.append(np.nan * before, row)}, std={x: 0.3}
    )
    model = ks.Model("walk", [x], [u], [k], [x.diff(t) + k * x - u])
    given = {"known": {k: 0.5}, "noise": {u: 1.0}, "scheme": "gauss-6"}
    task = ks.Collocation(model, trial, boundary=[ks.at_start(x)], **given)
    F = np.exp(-0.05)
    pushed = ((1.0 - F) / 0.5) ** 2 / 0.1
    stationary = pushed / (1.0 - F**2)
    cov = stationary * F ** np.abs(np.subtract.outer(range(301), range(301))) + 0.09 * np.eye(301)
    expected = -0.5 * (row @ np.linalg.solve(cov, row) + np.linalg.slogdet(2.0 * np.pi * cov)[1])
    assert task.solve().log_likelihood == pytest.approx(expected, abs=1e-6)


def test_noise_in_what_is_measured():
    """An accelerometer feels it at once: samples are correlated with the motion that follows. At
    the last node no noise has begun."""
    time, row = next(walks(1, 4))
    time, row = time[:40], row[:40].copy()
    model = ks.Model("walk", [x], [u], [k], [x.diff(t) + k * x - u], outputs={"a": u - k * x})
    given = {"boundary": [ks.at_start(x)], "known": {k: 0.5}, "noise": {u: 1.0}}
    with pytest.raises(ValueError, match="make the last sample NaN"):
        ks.Collocation(model, ks.Experiment(time, measurements={"a": row}, std={"a": 0.3}), **given)
    row[-1] = np.nan
    trial = ks.Experiment(time, measurements={"a": row}, std={"a": 0.3})
    F = np.exp(-0.05)
    after = np.tril(F ** np.subtract.outer(np.arange(39.0), np.arange(39.0) + 1.0), -1)
    of_noise = (np.eye(39) - (1.0 - F) * after) / np.sqrt(0.1)
    cov = of_noise @ of_noise.T + 0.09 * np.eye(39)
    y = row[:-1]
    expected = -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2.0 * np.pi * cov)[1])
    task = ks.Collocation(model, trial, scheme="gauss-6", **given)
    assert task.solve().log_likelihood == pytest.approx(expected, abs=1e-6)


def test_the_same_record_by_other_means():
    """Sensors with a gain and an offset, two noises for one, and schemes to within their order."""
    time, row = next(walks(1, 4))
    time, row = time[:41], row[:41]
    one = ks.Model("walk", [x], [u], [k], [x.diff(t) + k * x - u])
    two = ks.Model("walk", [x], [u, w], [k], [x.diff(t) + k * x - u - w])

    def found(model=one, measured=row, std=0.3, noise=None, scheme="gauss-6", **options):
        name = "s" if options else "x"
        trial = ks.Experiment(time, measurements={name: measured}, std={name: std})
        given = {"noise": noise or {u: 1.0}, "scheme": scheme, "known": {k: 0.5}}
        return ks.Collocation(model, trial, **given, **options).solve().log_likelihood

    here = found()
    gained = found(measured=2.0 * row + 0.5, std=0.6, sensors={"s": 2 * x + 0.5})
    assert gained == pytest.approx(here - len(row) * np.log(2.0), abs=1e-8)
    assert found(two, noise={u: 0.6, w: 0.8}) == pytest.approx(here, abs=1e-8)
    for scheme, off in (("radau-3", 1e-5), ("midpoint", 1e-3), ("hermite-simpson", 1e-7)):
        assert found(scheme=scheme) == pytest.approx(here, abs=off)


@pytest.mark.parametrize("name", ["push", "white_push"])
def test_the_name_of_an_input_is_no_noise(name):
    """An unknown input beside process noise, whatever it is called: as by another name."""
    time, row = next(walks(1, 4))
    time, row = time[:21], row[:21]

    def found(name):
        push = ks.dynamicsymbols(name)
        model = ks.Model("walk", [x], [u, push], [k], [x.diff(t) + k * x - u - push])
        trial = ks.Experiment(
            time, measurements={x: row, push: np.sin(time)}, std={x: 0.3, push: 0.1}
        )
        given = {"noise": {u: (0.1, 5.0)}, "unknown_inputs": {push: ks.held()}, "known": {k: 0.5}}
        fit = ks.Collocation(model, trial, scheme="radau-3", **given).solve()
        assert fit.success
        return [*fit.parameters.values(), fit.log_likelihood, fit.aic, fit.likelihood[0].integrated]

    np.testing.assert_allclose(found(name), found("torque"), rtol=1e-9)


def test_samples_at_times_of_their_own():
    """Between nodes a sample feels a part of the noise of its interval: by the covariance of all
    samples, the start anywhere, in units of what moves the first samples."""
    h, edges = 0.1, 0.1 * np.arange(41)
    times = np.sort(np.random.default_rng(0).uniform(0.0, edges[-1], 60))
    y = np.sin(times)
    model = ks.Model("walk", [x], [u], [k], [x.diff(t) + k * x - u])
    trial = ks.Experiment(edges, measurements={x: ks.Signal(times, y)}, std={x: 0.3})
    task = ks.Collocation(model, trial, known={k: 0.5}, noise={u: 1.0}, scheme="gauss-6")
    since = np.maximum(times[:, None] - edges, 0.0)  # of the step responses to each node
    steps = (1.0 - np.exp(-0.5 * since)) / 0.5
    pushes = (steps[:, :-1] - steps[:, 1:]) / np.sqrt(h)
    inverse = np.linalg.inv(pushes @ pushes.T + 0.09 * np.eye(60))
    start = np.exp(-0.5 * times)
    known = start @ inverse @ start
    left = y @ inverse @ y - (start @ inverse @ y) ** 2 / known
    spread = np.log(known) - np.linalg.slogdet(inverse)[1] + 59 * np.log(2.0 * np.pi)
    expected = -0.5 * (left + spread - np.log(start[:3] @ start[:3] / 0.09))
    assert task.solve().log_likelihood == pytest.approx(expected, abs=1e-6)


def double_well(x, push, h):
    """x after h, by four steps of the classical method of Runge and Kutta."""
    d = 0.25 * h
    for _ in range(4):
        slope, total = 0.0, 0.0
        for share, weight in ((0.0, 1.0), (0.5, 2.0), (0.5, 2.0), (1.0, 1.0)):
            at = x + share * d * slope
            slope = at - at**3 + push
            total = total + weight * slope
        x = x + d / 6.0 * total
    return x


def test_a_nonlinear_model_by_integration():
    """A ball that leaves the top between two wells: against integrals over all positions, backward
    in time, Laplace's method is off by 0.06 in log L, and by less the less noise there is."""
    h, std, off = 0.2, 0.2, []
    model = ks.Model("well", [x], [u], [], [x.diff(t) - x + x**3 - u])
    places = np.linspace(-2.5, 2.5, 401)
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    for sigma in (0.4, 0.1):
        rng, ball, y = np.random.default_rng(0), 0.1, []
        for _ in range(21):
            y.append(ball + std * rng.standard_normal())
            ball = double_well(ball, sigma * rng.standard_normal() / np.sqrt(h), h)
        heights = [np.exp(-0.5 * ((s - places) / std) ** 2) / (std * np.sqrt(2 * np.pi)) for s in y]
        after = np.array([double_well(places, sigma * q / np.sqrt(h), h) for q in nodes])
        rest = heights[-1]
        for height in heights[-2::-1]:
            rest = height * (weights @ CubicSpline(places, rest)(after)) / np.sqrt(2.0 * np.pi)
        trial = ks.Experiment(h * np.arange(21), measurements={x: np.array(y)}, std={x: std})
        start = [sp.Eq(ks.at_start(x), 0.1)]
        task = ks.Collocation(model, trial, noise={u: sigma}, boundary=start, scheme="gauss-6")
        off.append(task.solve().log_likelihood - np.log(CubicSpline(places, rest)(0.1)))
    assert abs(off[0]) < 0.07 and abs(off[1]) < 0.02


def test_an_intensity_at_its_bound():
    """It is held there, and said to be."""
    time, row = next(walks(1, 4))
    trial = ks.Experiment(time, measurements={x: row}, std={x: 0.3})
    solution = walk(trial, {u: (2.0, 5.0)}).solve({k: 1.0})
    row = solution.parameters.table["sigma_u"]
    assert row.value == pytest.approx(2.0) and row.remark == "at a bound"
    assert solution.parameters.table["k"].standard_error > 0.0


def test_samples_without_noise():
    """A standard deviation that goes to zero is said."""
    time = np.linspace(0.0, 30.0, 301)
    trial = ks.Experiment(time, measurements={x: np.sin(0.5 * time)})
    solution = walk(trial, {u: None}).solve({k: 1.0})
    [note] = [note for note in solution.notes if "process noise explains x" in note]
    assert note.endswith("give its std")


def test_what_is_no_process_noise():
    time, row = next(walks(1, 4))
    trial = ks.Experiment(time, measurements={x: row}, std={x: 0.3})
    for noise, options, words in (
        ({u: None}, {"objective": ks.LeastSquares() + ks.Integral(x**2)}, "leave objective out"),
        ({u: None}, {"objective": ks.LeastSquares("huber")}, "leave objective out"),
        ({u: 0.0}, {}, "intensity of the noise u must be positive"),
        ({u: (-2.0, -1.0)}, {}, "intensity of the noise u must be positive"),
        ({u: None}, {"unknown_inputs": {u: None}}, "u is process noise and in unknown_inputs"),
        ({"w": None}, {}, "w"),
    ):
        with pytest.raises(ValueError, match=words):
            walk(trial, noise, **options)
    task = walk(trial, {u: 1.0})
    with pytest.raises(ValueError, match="with process noise"):
        task.solve({k: 1.0}).intervals(method="profile")
