"""What decides a fit: influence of samples and groups against closed forms and new solves."""

import numpy as np
import pytest
import sympy as sp
from scipy import stats

import kinesym as ks
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.statistics.deletion import log_densities
from kinesym.runtime.statistics.pareto import generalised_pareto, smoothed

x, a, b = ks.dynamicsymbols("x"), *sp.symbols("a b")
TIME = np.linspace(0.0, 2.0, 12)
Y = 1.0 + 0.5 * TIME + 0.1 * np.random.default_rng(1).standard_normal(12)
#: Derivatives of y = a + b t by its parameters.
X = np.column_stack([np.ones(12), TIME])


def line(kind):
    """The regression y = a + b t, as a fit."""
    model = ks.Model("line", [x], [], [a, b], [x.diff(ks.t) - 1], outputs={"y": a + b * x})
    trial, unknown = ks.Experiment(TIME, measurements={"y": Y}), {a: None, b: None}
    if kind == "shooting":
        fit = ks.Shooting(model, trial, unknown=unknown, initial={x: 0.0})
        return fit.solve({a: 0.0, b: 0.0}, optimizer="least-squares")
    start = [ks.at_start(x)]
    return ks.Collocation(model, trial, unknown=unknown, boundary=start, scheme="trapezoid").solve()


@pytest.fixture(scope="module", params=["collocation", "shooting"])
def regression(request):
    return line(request.param)


def test_measures_of_a_regression(regression):
    """Leverage, Cook's distance, DFBETA and left-out predictions as in textbooks (Cook and Weisberg
    1982; Belsley, Kuh and Welsch 1980)."""
    told, inverse = regression.influence(), np.linalg.inv(X.T @ X)
    e, h = Y - X @ inverse @ X.T @ Y, np.diag(X @ inverse @ X.T)
    s2 = e @ e / 10
    assert np.allclose(told.time, TIME) and np.allclose(told.residual, e, atol=1e-8)
    assert np.allclose(told.leverage, h, atol=1e-8) and np.isclose(told.leverage.sum(), 2.0)
    assert np.allclose(told.cook, e**2 * h / (2 * s2 * (1 - h) ** 2), rtol=1e-6)
    assert np.allclose(told.change, -(X @ inverse) * (e / (1 - h))[:, None], atol=1e-8)
    other = (e @ e - e**2 / (1 - h)) / 9  # the variance that the others show
    density = stats.t.logpdf(e / (1 - h), 9, scale=np.sqrt(other / (1 - h)))
    assert np.allclose(told.log_density, density, atol=1e-6)
    assert np.isclose(told.log_score, density.sum(), atol=1e-5)
    most = told.most(3)
    assert [s.index for s in most] == list(np.argsort(-told.cook)[:3])
    assert np.isclose(most[0].in_errors["b"], most[0].change["b"] / np.sqrt(s2 * inverse[1, 1]))


def test_a_block_is_left_out_exactly(regression):
    """Estimates, standard errors and the one standard deviation of all, as of the rest alone."""
    kept = TIME > 0.7
    rest, inverse = X[kept], np.linalg.inv(X[kept].T @ X[kept])
    values = inverse @ rest.T @ Y[kept]
    s2 = np.sum((Y[kept] - rest @ values) ** 2) / (kept.sum() - 2)
    for solve in (False, True):
        left = regression.without(window=(0.0, 0.7), solve=solve)
        assert left.solved == solve and left.samples == (~kept).sum() and not left.doubtful
        assert np.allclose(list(left.parameters.values()), values, atol=1e-6)
        assert np.allclose(left.errors, np.sqrt(s2 * np.diag(inverse)), rtol=1e-5)
    own = regression.influence().most(1)[0]
    assert np.isclose(regression.without(samples=own).change["a"], own.change["a"], atol=1e-8)


def test_what_is_said_and_shown(regression, tmp_path):
    told = regression.influence()
    assert "no single one of 12 samples decides" in str(told) and "log score" in str(told)
    assert told.to_pandas().iloc[0]["cook"] == told.cook.max()
    assert told.plot().axes
    left = regression.without(window=(0.0, 0.3))
    assert str(left).startswith("without 0 to 0.3 s (2 samples), to first order: ")
    for each in (told, left):
        each.save(tmp_path / "it.nc")
        assert str(type(each).load(tmp_path / "it.nc")) == str(each)


def swings(scheme="radau-3", loss=None):
    """Three swings of two pendula, one sample of the second swing spoiled."""
    model = ks.models.pendulum()
    time, rng, trials = np.linspace(0.0, 3.0, 61), np.random.default_rng(3), []
    for k in range(3):
        run = ks.simulate(model, time, {"theta": 0.5 + 0.2 * k, "omega": 0.0}, {"p": 10.0})
        y = {n: run[n] + s * rng.standard_normal(61) for n, s in (("theta", 0.01), ("omega", 0.1))}
        y["theta"][52] += 0.1 * (k == 1)
        labels = {"subject": f"s{k % 2}"}
        trials.append(
            ks.Experiment(time, measurements=y, std=dict(theta=0.01, omega=0.1), labels=labels)
        )
    objective = ks.LeastSquares(loss=loss) if loss else None
    unknown = {"p": (1.0, 50.0)}
    return ks.Collocation(model, trials, unknown=unknown, scheme=scheme, objective=objective)


@pytest.mark.parametrize("loss", [None, "student"])
def test_a_nonlinear_fit_is_as_if_solved_again(loss):
    fit = swings(loss=loss).solve({"p": 9.0})
    told = fit.influence()
    for sample in told.most(3):
        again = fit.without(samples=sample, solve=True)
        assert abs(again.in_errors["p"] - sample.in_errors["p"]) < 0.01
    worst = told.most(1)[0]
    if loss is None:  # the loss takes its influence from it
        assert (worst.channel, worst.trial, worst.index) == ("theta", 1, 52)
    groups = {group.what: group for group in told.groups}
    assert {*groups} == {
        *(f"trial {k}" for k in range(3)),
        "subject s0",
        "subject s1",
        "theta",
        "omega",
    }
    for what, given in (("trial 1", {"trials": 1}), ("omega", {"channels": "omega"})):
        assert groups[what].change["p"] == fit.without(**given).change["p"]
        again = fit.without(**given, solve=True)
        assert abs(again.in_errors["p"] - groups[what].in_errors["p"]) < 0.02


def test_a_large_part_is_left_out_by_gauss_newton():
    """With the multipliers of all samples the exact curvature is off: 0.5 standard errors here."""
    fit = swings().solve({"p": 9.0})
    for given in ({"channels": "theta"}, {"window": (0.0, 1.5)}):
        first, again = fit.without(**given), fit.without(**given, solve=True)
        assert abs(first.in_errors["p"]) > 2.0 and not first.doubtful
        assert abs(first.in_errors["p"] - again.in_errors["p"]) < 0.05


@pytest.mark.parametrize("kind", ["collocation", "shooting"])
def test_one_step_that_is_not_enough_is_told(kind):
    """Of a decay hidden in noise: it goes on, or beyond a bound, a second step."""
    model, time = ks.Model("decay", [x], [], [a], [x.diff(ks.t) + a * x]), np.linspace(0.0, 3.0, 31)
    y = np.exp(-time) + 0.3 * np.random.default_rng(3).standard_normal(31)
    trial = ks.Experiment(time, measurements={x: y}, std={x: 0.3})
    start = [ks.at_start(x) - 1]
    fit = (
        ks.Collocation(model, trial, unknown={a: (0.0, 9.0)}, boundary=start).solve({a: 1.0})
        if kind == "collocation"
        else ks.Shooting(model, trial, unknown={a: (0.0, 9.0)}, initial={x: 1.0}).solve(
            {a: 1.0}, optimizer="least-squares"
        )
    )
    few, many = (fit.without(window=(begin, begin + 1.5)) for begin in (2.9, 0.1))
    again = fit.without(window=(0.1, 1.6), solve=True)
    assert many.doubtful and abs(many.in_errors["a"] - again.in_errors["a"]) > 0.1
    assert f"a second step adds {many.more:.2g} standard errors: solve again" in str(many)
    assert not few.doubtful and not again.doubtful


def test_a_parameter_leaves_its_bound_where_it_is_solved_again():
    """A slope that is negative with the late samples, and positive without."""
    model = ks.Model("line", [x], [], [a, b], [x.diff(ks.t) - 1], outputs={"y": a + b * x})
    y = np.where(TIME < 1.5, 1.0 + TIME, -9.0)
    trial = ks.Experiment(TIME, measurements={"y": y}, std={"y": 0.1})
    unknown = {a: None, b: (0.0, 9.0)}
    fit = ks.Collocation(model, trial, unknown, boundary=[ks.at_start(x)]).solve({a: 1.0, b: 1.0})
    assert fit.parameters.table["b"].remark == "at a bound"
    first, again = (fit.without(window=(1.5, 2.0), solve=solve) for solve in (False, True))
    assert abs(first.parameters["b"]) < 1e-6
    assert again.parameters["b"] == pytest.approx(1.0, rel=1e-6) and again.errors[1] > 0.0
    assert "b left its bound" in str(again) and "bound" not in str(first)


@pytest.mark.parametrize("timed", [False, True], ids=["at nodes", "between"])
def test_whole_channels_and_trials_are_left_out_whatever_the_steps(timed):
    """Of a shooting with several steps per interval, as of one with a step each."""
    rng, time = np.random.default_rng(0), np.linspace(0.0, 3.0, 31)
    model = ks.Model("decay", [x], [], [a], [x.diff(ks.t) + a * x])

    def trial():
        y = 2.0 * np.exp(-1.3 * time) + 0.08 * rng.standard_normal(31)
        z = y[:-1] + 0.3 + 0.5 * rng.standard_normal(30)
        own = ks.Signal(time[:-1] + 0.03, z) if timed else np.append(z, np.nan)
        return ks.Experiment(time, measurements={x: y, "z": own}, std={x: 0.08, "z": 0.5})

    trials, known = [trial(), trial()], {a: (0.0, 20.0), b: (-5.0, 5.0)}
    found = []
    for steps in (1, 3):
        about = {"initial": {x: None}, "sensors": {"z": x + b}, "substeps": steps}
        problem = ks.Shooting(model, trials, known, **about)
        fit = problem.solve({a: 1.0, b: 0.0}, optimizer="least-squares")
        left = [fit.without(channels="z"), fit.without(trials=1), fit.without(trials=1, solve=True)]
        planned = ks.forecast(problem, {a: 1.3, b: 0.3, x: 2.0}, without="z")
        errors = [np.append(each.values, each.errors) for each in left]
        found.append([*errors, [*planned.standard_errors().values()]])
    for one, three in zip(*found, strict=True):
        assert three == pytest.approx(one, rel=1e-3, nan_ok=True)


@pytest.mark.parametrize("told", ["bound", "prior"])
def test_a_bound_is_met_and_left_where_shooting_is_solved_again(told):
    """As the fit of the rest alone says: without y the offset of z ends at a bound, or at the kink
    of its prior; without z it was at one, and the rest tells it."""
    rng, time = np.random.default_rng(0), np.linspace(0.0, 3.0, 31)
    model = ks.Model("decay", [x], [], [a], [x.diff(ks.t) + a * x])
    rows = {"y": 2.0 * np.exp(-1.3 * time) + 0.08 * rng.standard_normal(31)}
    rows |= {"z": 2.0 * np.exp(-1.3 * time) + 0.3 + 0.5 * rng.standard_normal(31)}
    of_b = (-5.0, 5.0) if told == "bound" else ks.prior("laplace", 0.5, 0.01)

    def solved(*names):
        own = {name: rows[name] for name in names}
        std = {name: {"y": 0.08, "z": 0.5}[name] for name in names}
        sensors = {"y": x + 0.1 * b, "z": x + b}
        trial = ks.Experiment(time, measurements=own, std=std)
        about = {"initial": {x: None}, "sensors": {name: sensors[name] for name in names}}
        problem = ks.Shooting(model, trial, {a: (0.0, 20.0), b: of_b}, **about)
        return problem.solve({a: 1.0, b: 0.1}, optimizer="least-squares")

    whole = solved("y", "z")
    for left, rest in (("y", "z"), ("z", "y")):
        found = whole.without(channels=left, solve=True).parameters.table
        for name, row in solved(rest).parameters.table.items():
            assert found[name].remark == row.remark
            assert found[name].value == pytest.approx(row.value, rel=1e-4, abs=1e-6)
            assert found[name].standard_error == pytest.approx(row.standard_error, rel=1e-3)


@pytest.mark.parametrize("kind", ["collocation", "shooting"])
def test_squares_of_the_objective_count(kind):
    """y = a t with 30 x**2 dt in the objective: standard errors and parts left out as of a ridge
    regression."""
    model = ks.Model("ramp", [x], [], [a], [x.diff(ks.t) - a])
    trial = ks.Experiment(TIME, measurements={x: Y}, std={x: 0.1})
    about, squares = (model, trial, {a: None}), ks.LeastSquares() + ks.Integral(30 * x**2)
    if kind == "collocation":
        start = [ks.at_start(x)]
        made = ks.Collocation(*about, objective=squares, boundary=start, scheme="gauss-4")
        fit = made.solve()
    else:
        made = ks.Shooting(*about, initial={x: 0.0}, objective=squares)
        fit = made.solve({a: 1.0}, optimizer="least-squares")
    ridge, kept = 30.0 * TIME[-1] ** 3 / 3.0, TIME > 0.7
    information = [100.0 * (TIME[each] ** 2).sum() + ridge for each in (TIME >= 0.0, kept)]
    values = [
        100.0 * TIME[each] @ Y[each] / known
        for each, known in zip((TIME >= 0.0, kept), information, strict=True)
    ]
    assert fit.parameters.table["a"].standard_error == pytest.approx(
        information[0] ** -0.5, rel=2e-3
    )
    for solve in (False, True):
        left = fit.without(window=(0.0, 0.7), solve=solve)
        assert left.change["a"] == pytest.approx(values[1] - values[0], rel=0.02)
        assert left.errors[0] == pytest.approx(information[1] ** -0.5, rel=2e-3)


def test_a_sample_shared_by_intervals():
    """What has values between nodes only is compared with means of its samples."""
    v, k = ks.dynamicsymbols("v"), sp.Symbol("k")
    outputs = {"force": v.diff(ks.t)}
    model = ks.Model("decay", [v], [], [k], [v.diff(ks.t) + k * v], outputs=outputs)
    force = -2.0 * np.exp(-2.0 * TIME) + 0.05 * np.random.default_rng(2).standard_normal(12)
    trial = ks.Experiment(TIME, measurements={"force": force}, std={"force": 0.05})
    fit = ks.Collocation(model, trial, unknown={k: (0.1, 9.0)}, scheme="gauss-4").solve({k: 1.5})
    told = fit.influence()
    for sample in told.most(2):
        again = fit.without(samples=sample, solve=True)
        assert abs(again.in_errors["k"] - sample.in_errors["k"]) < 0.05 * abs(sample.in_errors["k"])


def test_what_only_one_sample_tells():
    c = sp.Symbol("c")
    model = ks.Model("two", [x], [], [a, c], [x.diff(ks.t)], outputs={"y": a + x, "z": c + x})
    z = np.where(np.arange(12) == 5, 2.0, np.nan)
    trial = ks.Experiment(TIME, measurements={"y": Y, "z": z}, std={"y": 0.1, "z": 0.1})
    fit = ks.Shooting(model, trial, unknown={a: None, c: None}, initial={x: 0.0})
    fit = fit.solve({a: 0.0, c: 0.0}, optimizer="least-squares")
    told = fit.influence()
    assert told.most(1)[0].channel == "z" and np.isnan(told.most(1)[0].cook)
    assert "z at 0.909091 s alone decides a parameter" in str(told)
    assert "without z, c would not be determined" in str(told)
    assert fit.without(channels="z").lost == ["c"]
    assert fit.without(channels="z").change["a"] == pytest.approx(0.0, abs=1e-9)


def test_channel_without_which_one_parameter_is_lost():
    """Only that one is, to first order too: the others are those of a solve, in a linear model."""
    model = ks.Model("two", [x], [], [a, b], [x.diff(ks.t) - b], outputs={"y": a + x, "z": x})
    trial = ks.Experiment(TIME, measurements={"y": Y, "z": Y**2}, std={"y": 0.1, "z": 0.1})
    fit = ks.Collocation(model, trial, unknown={a: None, b: None}).solve()
    told, solved = fit.without(channels="z"), fit.without(channels="z", solve=True)
    assert told.lost == solved.lost == ["a"]
    assert told.parameters["b"] == pytest.approx(solved.parameters["b"], rel=1e-9)
    assert told.errors[1] == pytest.approx(solved.errors[1], rel=1e-9)


def test_density_with_the_loss_of_student():
    """Against the density itself, and the mean of it over the prediction."""
    loss, e = RobustLoss("student", 4.0), np.array([0.3, 2.5])
    assert np.allclose(log_densities(e, np.zeros(2), 1.0, np.inf, loss), stats.t.logpdf(e, 4))
    nodes = np.linspace(-8.0, 8.0, 4001)
    mean = [np.trapezoid(stats.t.pdf(r + 0.3 * nodes, 4) * stats.norm.pdf(nodes), nodes) for r in e]
    assert np.allclose(
        log_densities(e, np.full(2, 0.09), 1.0, np.inf, loss), np.log(mean), atol=1e-6
    )
    assert np.isnan(log_densities(e, np.zeros(2), 1.0, np.inf, RobustLoss("huber", 1.3))).all()


def test_left_out_predictions_from_draws():
    """Draws of the posterior of the regression (Jeffreys' prior of the variance) against its closed
    form, where the smoothed weights can be relied on."""
    regression = line("shooting")
    density, rng = regression.log_density(), np.random.default_rng(0)
    inverse, e = np.linalg.inv(X.T @ X), Y - X @ density.best[:2]
    std = np.sqrt(e @ e / rng.chisquare(10, 600))
    moves = rng.standard_normal((600, 2)) @ np.linalg.cholesky(inverse).T
    draws = np.column_stack([density.best[:2] + std[:, None] * moves, std])
    found, told = density.leave_one_out(draws), regression.influence()
    sure = found.k < 0.4
    assert sure.sum() > 6 and np.allclose(
        found.log_density[sure], told.log_density[sure], atol=0.05
    )
    assert found.score == pytest.approx(found.log_density.sum()) and "log score" in str(found)
    coordinates = density.unconstrained.coordinates(draws[:20])
    few = density.unconstrained.leave_one_out(coordinates)
    assert np.isinf(few.k).all() and "guesses for 12" in str(few)
    with pytest.raises(ValueError, match="draws must be of this density"):
        density.leave_one_out([*density.best[:2], -1.0])


@pytest.mark.parametrize("index", [-0.2, 0.5])
def test_tails_of_weights(index):
    x = np.sort(stats.genpareto.rvs(index, scale=2.0, size=4000, random_state=1))
    assert np.allclose(generalised_pareto(x), (index, 2.0), atol=0.06)
    weights, k = smoothed(np.log(1.0 + stats.genpareto.rvs(0.3, size=4000, random_state=2)))
    assert np.isclose(np.exp(weights).sum(), 1.0) and abs(k - 0.3) < 0.15


def test_bad_input(regression, tmp_path):
    for given, words in (
        ({}, "say what is left out"),
        ({"trials": 3}, "trial must be a number from 0 to 0, got 3"),
        ({"channels": "z"}, "there is no channel 'z'"),
        ({"subjects": "s1"}, "there is no subject 's1'"),
        ({"window": (3.0, 4.0)}, "there is no sample in 3 to 4 s"),
        ({"window": 3.0}, "window must be two times"),
        ({"window": (2.0, 1.0)}, "the first one first"),
        ({"samples": 3}, "samples must be such as"),
        ({"trials": 0}, "nothing that is measured is left"),
    ):
        with pytest.raises(ValueError, match=words):
            regression.without(**given)
    with pytest.raises(ValueError, match='of must be "samples" or "groups"'):
        regression.influence().to_pandas("trials")
    regression.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="has no problem to solve again"):
        type(regression).load(tmp_path / "fit.nc").influence()


def test_no_influence_without_a_fit():
    problem = swings()
    with pytest.raises(ValueError, match="there are no standard errors"):
        problem.solve({"p": 9.0}, options={"max_iter": 1}).influence()
    held = swings()
    held = ks.Collocation(held.model, held.trials, unknown={"p": (12.0, 50.0)})
    with pytest.raises(ValueError, match="none is free and identifiable"):
        held.solve({"p": 13.0}).influence()
    u = ks.dynamicsymbols("u")
    model = ks.Model("cart", [x], [u], [], [x.diff(ks.t) - u])
    ends = [ks.at_start(x), ks.at_end(x) - 1]
    moved = ks.Collocation(
        model,
        ks.Experiment(TIME),
        unknown_inputs={u: None},
        boundary=ends,
        objective=ks.Integral(u**2),
    ).solve()
    with pytest.raises(ValueError, match="this is no fit of measurements"):
        moved.influence()
