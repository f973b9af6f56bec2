"""Losses in place of squares: estimates as by SciPy, exact derivatives, covariances, noise."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq, least_squares
from scipy.stats import t as student

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.runtime.losses import RobustLoss
from kinesym.symbolic.losses import TUNINGS, Loss

x = ks.dynamicsymbols("x")
y, v, lam = ks.dynamicsymbols("y v lam")
k, g = sp.symbols("k g")
DECAY = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x])
TIME = np.linspace(0.0, 2.0, 61)
STD = 0.05
LOSSES = list(TUNINGS.items())
#: SciPy's names, and by how much its cost must be multiplied: (name, share).
SCIPY = {"huber": ("huber", 1.0), "pseudo-huber": ("soft_l1", 1.0), "student": ("cauchy", 1.25)}


def record(seed=0, outliers=5):
    rng = np.random.default_rng(seed)
    y = 2.0 * np.exp(-1.3 * TIME) + STD * rng.standard_normal(len(TIME))
    y[rng.choice(len(TIME), outliers, replace=False)] += 1.0
    return y


Y = record()


def e_of(q, std=STD):
    return (q[1] * np.exp(-q[0] * TIME) - Y) / std


def slopes_of(q, std=STD):
    decay = np.exp(-q[0] * TIME)
    return np.column_stack([-TIME * q[1] * decay, decay]) / std


def by_scipy(name, std=STD):
    """q and the cost; Student's loss with c degrees of freedom is SciPy's "cauchy" with the scale
    sqrt(c), times (c + 1)/c."""
    of, share = SCIPY[name]
    scale = np.sqrt(TUNINGS[name]) if name == "student" else TUNINGS[name]
    tight = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}
    found = least_squares(
        lambda q: e_of(q, std),
        [1.3, 2.0],
        lambda q: slopes_of(q, std),
        loss=of,
        f_scale=scale,
        **tight,
    )
    return found.x, 2.0 * share * found.cost


def trial(std=STD):
    return ks.Experiment(TIME, measurements={x: Y}, std={x: std} if std else {})


def collocation(name, std=STD, factor=1.0, **options):
    objective = factor * ks.LeastSquares(loss=name)
    return ks.Collocation(
        DECAY, trial(std), {k: None}, scheme="gauss-6", objective=objective, **options
    )


def shooting(name, std=STD, segments=1):
    objective, start = ks.LeastSquares(loss=name), {x: None}
    options = {"method": "gauss-6", "segments": segments, "objective": objective}
    return ks.Shooting(DECAY, trial(std), {k: None}, initial=start, **options)


# -- the functions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "tuning"), LOSSES)
def test_functions_of_a_residual(name, tuning):
    """Symbols against numbers, high precision, and each other."""
    e = sp.Symbol("e", real=True)
    symbolic, numbers = Loss.named(name), RobustLoss(name, tuning)
    points = np.array([-50.0, -1.4, -1.2, -0.3, -0.1, -1e-9, 0.0, 1e-5, 0.2, 1.3, 1.5, 7.0, 1e4])
    cost, root = symbolic.cost(e), symbolic.root(e)
    exact = np.array([float(cost.subs(e, sp.Float(p, 40)).evalf(30)) for p in points])
    np.testing.assert_allclose(numbers.root(points) ** 2, exact, rtol=1e-12, atol=1e-30)
    values = [float(root.subs(e, sp.Float(p, 40)).evalf(30)) for p in points]
    np.testing.assert_allclose(values, numbers.root(points), rtol=1e-12)
    np.testing.assert_allclose(numbers.unrooted(numbers.root(points)), points, rtol=1e-10)
    psi = np.array([float((cost.diff(e) / 2).subs(e, sp.Float(p, 40))) for p in points])
    np.testing.assert_allclose(numbers.slope(points), psi, rtol=1e-12)
    rest = points[np.abs(np.abs(points) - tuning) > 1e-3]
    bend = np.array([float((cost.diff(e, 2) / 2).subs(e, sp.Float(p, 40)).doit()) for p in rest])
    np.testing.assert_allclose(numbers.bend(rest), bend, rtol=1e-10, atol=1e-14)
    h = 1e-6 * np.maximum(np.abs(rest), 1e-3)
    slope = (numbers.root(rest + h) - numbers.root(rest - h)) / (2.0 * h)
    np.testing.assert_allclose(numbers.root_slope(rest), slope, rtol=1e-6)


# -- estimates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("hessian", ["exact", "gauss-newton", "limited-memory"])
@pytest.mark.parametrize("name", TUNINGS)
def test_collocation_as_by_scipy(name, hessian):
    q, cost = by_scipy(name)
    solution = collocation(name).solve({k: 1.2}, hessian=hessian)
    assert solution.success and solution.objective == pytest.approx(cost, rel=1e-8)
    assert solution.parameters[k] == pytest.approx(q[0], rel=1e-6)
    plain = ks.Collocation(DECAY, trial(), {k: None}, scheme="gauss-6").solve({k: 1.2})
    assert abs(solution.parameters[k] - 1.3) < 0.3 * abs(plain.parameters[k] - 1.3)


@pytest.mark.parametrize(
    ("optimizer", "segments"),
    [("least-squares", 1), ("bfgs", 1), ("ipopt", 1), ("ipopt", 3), ("steepest-descent", 1)],
)
@pytest.mark.parametrize("name", TUNINGS)
def test_shooting_as_by_scipy(name, optimizer, segments):
    q, cost = by_scipy(name)
    fit = shooting(name, segments=segments).solve({k: 1.2, x: 1.9}, optimizer=optimizer)
    slow = optimizer == "steepest-descent"
    np.testing.assert_allclose(fit.values[:2], q, rtol=5e-3 if slow else 1e-6)
    assert fit.objective == pytest.approx(cost, rel=1e-3 if slow else 1e-8)


@pytest.mark.parametrize("name", TUNINGS)
def test_derivatives(name):
    """Gradient and both Hessians against differences and residuals."""
    problem = collocation(name)
    rng = np.random.default_rng(3)
    z = problem.pack({k: 1.2, x: 2.0 * np.exp(-1.2 * TIME)}) + 0.01 * rng.standard_normal(
        problem.n_variables
    )
    d = rng.standard_normal(len(z))
    h = 1e-6
    ends = [z + h * d, z - h * d]
    slope = (problem.cost(ends[0]) - problem.cost(ends[1])) / (2 * h)
    assert problem.cost_gradient(z) @ d == pytest.approx(slope, rel=1e-6)
    nothing = np.zeros(problem.n_constraints)
    bend = (problem.cost_gradient(ends[0]) - problem.cost_gradient(ends[1])) / (2 * h)
    np.testing.assert_allclose(
        problem.lagrangian_hessian(z, nothing) @ d, bend, rtol=1e-5, atol=1e-4 * np.abs(bend).max()
    )
    loss, e = RobustLoss(name, TUNINGS[name]), problem.residuals(z)
    assert problem.cost(z) == pytest.approx(float((loss.root(e) ** 2).sum()), rel=1e-12)
    slopes = problem.residual_jacobian(z)
    np.testing.assert_allclose(
        problem.cost_gradient(z), 2 * slopes.T @ loss.slope(e), rtol=1e-10, atol=1e-10
    )
    nlp = problem.problem.gauss_newton
    rows, columns = nlp.hessian_structure.arrays()
    inner = slopes.T @ (2 * loss.root_slope(e)[:, None] ** 2 * slopes.toarray())
    np.testing.assert_allclose(
        nlp.hessian(z, nothing, 1.0), inner[rows, columns], rtol=1e-10, atol=1e-9
    )
    simulated = shooting(name)
    q = simulated.pack({k: 1.1, x: 1.8})
    adjoint = simulated.gradient(q)
    np.testing.assert_allclose(adjoint, simulated.gradient(q, "forward"), rtol=1e-10)
    r, J = simulated.residuals(q), simulated.residual_jacobian(q)
    np.testing.assert_allclose(adjoint, 2 * J.T @ r, rtol=1e-10)
    if name != "huber":  # whose cost has an Abs
        continuous = simulated.gradient(q, "continuous-adjoint")
        np.testing.assert_allclose(adjoint, continuous, atol=0.01 * np.abs(adjoint).max())


def test_a_hybrid_model():
    """A ball that bounces, whose height has outliers."""
    equations = [y.diff(ks.t) - v, v.diff(ks.t) + g - lam]
    ball = kh.Hybrid(
        ks.Model("ball", [y, v], [lam], [g], equations, values={g: 9.81}),
        contacts=[kh.Contact("floor", y, lam, restitution=0.8)],
    )
    time = np.linspace(0.0, 1.2, 121)
    height = ks.simulate(ball, time, {y: 1.0, v: 0.0}, {g: 9.6})["y"].copy()
    height += 0.002 * np.random.default_rng(0).standard_normal(121)
    height[::20] += 0.3
    seen = ks.Experiment(time, measurements={y: height})
    for name in TUNINGS:
        objective = ks.LeastSquares(loss=name)
        task = ks.Shooting(ball, seen, {g: (9, 11)}, initial={y: None, v: 0.0}, objective=objective)
        q = task.pack({g: 9.7, y: 1.01})
        r, J = task.residuals(q), task.residual_jacobian(q)
        np.testing.assert_allclose(task.gradient(q), 2 * J.T @ r, rtol=1e-8)
        fit = task.solve({g: 9.7, y: 1.0}, optimizer="least-squares")
        assert abs(fit.parameters[g] - 9.6) < 4 * fit.standard_errors()["g"] < 0.05
        assert fit.estimated_std["y"] == pytest.approx(0.002, rel=0.4)


# -- covariance and noise --------------------------------------------------------------------------


def expected_covariance(name, q, std):
    loss, e, X = RobustLoss(name, TUNINGS[name]), e_of(q, std), slopes_of(q, std)
    A = X.T @ (loss.bend(e)[:, None] * X)
    if loss.likelihood:
        return np.linalg.inv(A)
    B = X.T @ (loss.slope(e)[:, None] ** 2 * X)
    return np.linalg.inv(A) @ B @ np.linalg.inv(A) * len(e) / (len(e) - 2)


@pytest.mark.parametrize("factor", [1.0, 7.0])
@pytest.mark.parametrize("name", TUNINGS)
def test_covariance(name, factor):
    q, _ = by_scipy(name)
    expected = expected_covariance(name, q, STD)
    fit = shooting(name).solve({k: 1.2}, optimizer="least-squares")
    np.testing.assert_allclose(fit.covariance, expected, rtol=1e-5)
    parts = shooting(name, segments=3).solve({k: 1.2}, optimizer="ipopt")
    np.testing.assert_allclose(parts.covariance[:2, :2], expected, rtol=1e-5)
    if name == "student" and factor != 1.0:
        return  # J is twice the negative log-likelihood no more
    problem = collocation(name, factor=factor)
    solution = problem.solve({k: 1.2})
    found = problem.covariance(solution)[0, 0]
    assert found == pytest.approx(expected[0, 0], rel=0.15)  # with second derivatives of x
    assert solution.grid_error().deviations["k"] == pytest.approx(np.sqrt(found), rel=1e-10)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("name", TUNINGS)
def test_unknown_noise(name, unit):
    """The standard deviation solves its equation, by both, in any unit; outliers hardly matter."""
    seen = ks.Experiment(TIME, measurements={x: unit * Y})
    objective = ks.LeastSquares(loss=name)
    task = ks.Shooting(
        DECAY, seen, {k: None}, initial={x: None}, method="gauss-6", objective=objective
    )
    fit = task.solve({k: 1.2, x: 2.0 * unit}, optimizer="least-squares")
    problem = ks.Collocation(DECAY, seen, {k: None}, scheme="gauss-6", objective=objective)
    solution = problem.solve({k: 1.2})
    std, loss = fit.estimated_std["x"], RobustLoss(name, TUNINGS[name])
    assert solution.estimated_std["x"] == pytest.approx(std, rel=1e-4)
    assert solution.parameters[k] == pytest.approx(fit.parameters[k], rel=1e-5)
    q = fit.values * [1.0, 1.0 / unit]
    e = e_of(q, std / unit)
    basis, _ = np.linalg.qr(slopes_of(q))
    if name == "student":
        assert loss.slope(e) @ e == pytest.approx(61 - 2, rel=1e-4)
    else:
        left = np.sqrt(1.0 - (basis**2).sum(axis=1))
        assert np.median(np.abs(e) / left) == pytest.approx(0.6744897501960817, rel=1e-4)
    assert std / unit == pytest.approx(STD, rel=0.3)
    np.testing.assert_allclose(
        np.diag(fit.covariance) / [1, unit**2],
        np.diag(expected_covariance(name, q, std / unit)),
        rtol=1e-3,
    )


def test_student_is_maximum_likelihood():
    """With the scale that makes Student's density of the residuals largest, up to the degrees of
    freedom."""
    fit = shooting("student", std=None).solve({k: 1.2, x: 1.9}, optimizer="least-squares")
    std = fit.estimated_std["x"]
    r = e_of(fit.values, 1.0)

    def slope(s):  # of the log-likelihood in log s
        w = 5.0 / (4.0 + (r / s) ** 2)
        return float(w @ (r / s) ** 2) - len(r)

    best = brentq(slope, 0.2 * std, 5 * std)
    score = student.logpdf(r / best, 4).sum() - len(r) * np.log(best)
    for other in (0.99 * best, 1.01 * best):
        assert student.logpdf(r / other, 4).sum() - len(r) * np.log(other) < score
    assert best < std < best * (1.0 + 3.0 / 61)


@pytest.mark.study
@pytest.mark.parametrize("name", ["huber", "student"])
def test_standard_errors_are_the_scatter(name):
    """Over 80 records with outliers on both sides."""
    values, errors = [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        noise = STD * rng.standard_normal(61)
        noise[rng.random(61) < 0.1] *= 8.0
        seen = ks.Experiment(TIME, measurements={x: 2.0 * np.exp(-1.3 * TIME) + noise})
        task = ks.Shooting(
            DECAY, seen, {k: None}, initial={x: None}, objective=ks.LeastSquares(loss=name)
        )
        fit = task.solve({k: 1.3, x: 2.0}, optimizer="least-squares")
        values.append(fit.parameters[k])
        errors.append(fit.standard_errors()["k"])
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=0.25)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: ks.LeastSquares("tukey"),
            "loss is one of huber, .*, got 'tukey'",
        ),
        (lambda: ks.LeastSquares("huber", 0.0), "tuning must be"),
        (lambda: ks.LeastSquares("student", -2), "tuning must be"),
        (lambda: ks.LeastSquares(tuning=2.0), "a tuning belongs to a loss"),
        (lambda: ks.LeastSquares() + ks.LeastSquares("huber"), "have one loss"),
    ],
)
def test_refused_in_a_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_losses_of_scipy_are_refused():
    """They would never reach the covariance."""
    task = ks.Shooting(DECAY, trial(), {k: None}, initial={x: None})
    with pytest.raises(ValueError, match=r"no option loss.*ks.LeastSquares\(loss='huber'\)"):
        task.solve({k: 1.2}, optimizer="least-squares", options={"loss": "huber"})


def test_sums_keep_the_loss():
    objective = ks.LeastSquares("huber", 2.0) / 2 + ks.Integral(0 * x)
    assert objective.loss == Loss("huber", 2.0) and objective.least_squares == 0.5
    assert (ks.Terminal(x) + objective).loss == Loss("huber", 2.0)
