"""Standard errors: against dense algebra and many noisy records, in any units, by all schemes, and
what nothing determines."""

import matplotlib.pyplot as plt
import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.linalg import null_space

import kinesym as ks
from kinesym.internal.fitting.curvature import kkt_of
from kinesym.symbolic.schemes import SCHEMES

t = ks.t
x, v, y, u, l1, l2 = ks.dynamicsymbols("x v y u l1 l2")
k, c, a, b = sp.symbols("k c a b")
NAMES = [s.name for n, s in SCHEMES.items() if n == s.name]
STAGED = [name for name in NAMES if not SCHEMES[name].explicit_start]
TIME = np.linspace(0.0, 3.0, 31)


def noise(size, seed=0):
    return np.random.default_rng(seed).standard_normal(size)


def parts(task, solution):
    """Hessian and Jacobian, dense, of the unknowns that are not fixed, and where parameters are."""
    free = task.variable_bounds[0] < task.variable_bounds[1]
    z = solution.free_vector
    H = task.lagrangian_hessian(z, solution.multipliers).toarray()[np.ix_(free, free)]
    A = task.constraint_jacobian(z).toarray()[:, free]
    names = [task.variable_name(j) for j in np.flatnonzero(free)]
    return H, A, [names.index(f"parameter {p}") for p in solution.parameters]


def by_null_space(task, solution):
    """2 (Z (Z' H Z)^-1 Z') at the parameters, Z a basis of what the constraints leave free; in the
    pseudoinverse what nothing determines is left out."""
    H, A, mine = parts(task, solution)
    size = np.linalg.norm(A, axis=0)
    unit = 1.0 / np.where(size > 0.0, size, 1.0)  # of each variable
    H, A = H * np.outer(unit, unit), A * unit
    Z = null_space(A / np.linalg.norm(A, axis=1, keepdims=True), rcond=1e-11)
    inverse = Z @ np.linalg.pinv(Z.T @ H @ Z, rcond=1e-11, hermitian=True) @ Z.T
    return 2.0 * (inverse * np.outer(unit, unit))[np.ix_(mine, mine)]


def in_many_digits(task, solution):
    """The same from the KKT matrix with 50 digits."""
    H, A, mine = parts(task, solution)
    n, m = A.shape[::-1]
    with mpmath.workdps(50):
        K = mpmath.matrix(np.block([[H, A.T], [A, np.zeros((m, m))]]).tolist())
        found = np.empty((len(mine), len(mine)))
        for column, j in enumerate(mine):
            unit = mpmath.zeros(n + m, 1)
            unit[j] = 1
            solved = mpmath.lu_solve(K, unit)
            found[:, column] = [float(2 * solved[i]) for i in mine]
    return found


# -- problems ----------------------------------------------------------------------------------


def oscillator(scheme):
    """5 Hz, sampled at 100 Hz."""
    model = ks.Model("o", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v])
    time = np.linspace(0.0, 0.6, 61)
    truth = np.exp(-time / 4) * np.cos(np.sqrt(1000 - 1 / 16) * time)

    def record(seed):
        return ks.Experiment(time, {}, {x: truth + 0.01 * noise(61, seed)}, {x: 0.01})

    task = ks.Collocation(model, record(0), {k: (1, 1e4), c: (-10, 10)}, scheme=scheme)
    return task, {k: 990, c: 1}, record


def index_1(scheme):
    """x' = -k y, y + c y^3 = x: y(0) = 1 with c = 0.5, k = 1."""
    equations = [x.diff(t) + k * y, y + c * y**3 - x]
    model = ks.Model("d", [x, y], [], [k, c], equations)
    truth = ks.simulate(model, TIME, {x: 1.5, y: 1.0}, {k: 1.0, c: 0.5}, method="radau-5")
    std = {x: 0.01, y: 0.02}

    def record(seed):
        rows = zip(std, noise((2, 31), seed), strict=True)
        return ks.Experiment(TIME, {}, {n: truth[n] + std[n] * row for n, row in rows}, std)

    task = ks.Collocation(model, record(0), {k: None, c: None}, scheme=scheme)
    return task, {k: 0.9, c: 0.4, y: 0.8}, record


def driven(scheme, course):
    """x' = -k x + u, where u was measured with noise, or is near 1 without a measurement."""
    model = ks.Model("f", [x], [u], [k], [x.diff(t) + k * x - u])
    push = 1.0 + np.sin(4.0 * TIME)
    signal = ks.Signal(TIME, push, "held" if course == "held" else "linear")
    truth = ks.simulate(model, TIME, {x: 0.5}, {k: 1.5}, inputs={u: signal}, substeps=4)
    std = {x: 0.01} if course == "staged" else {x: 0.01, u: 0.1}

    def record(seed):
        rows = zip(std, noise((2, 31), seed), strict=False)
        values = {x: truth["x"], u: push}
        return ks.Experiment(TIME, {}, {n: values[n] + std[n] * row for n, row in rows}, std)

    small = ks.LeastSquares() + 4.0 * ks.Integral((u - 1.0) ** 2)
    task = ks.Collocation(
        model,
        record(0),
        {k: None},
        scheme=scheme,
        unknown_inputs={u: {"held": ks.held(), "linear": ks.linear(), "staged": None}[course]},
        objective=small if course == "staged" else None,
    )
    return task, {k: 1.2}, record


CASES = [
    *((oscillator, (scheme,)) for scheme in NAMES),
    *((index_1, (scheme,)) for scheme in STAGED),
    *((driven, (scheme, course)) for scheme in STAGED for course in ("held", "staged")),
    *((driven, (scheme, "linear")) for scheme in NAMES if scheme not in STAGED),
]


@pytest.mark.parametrize(("made", "given"), CASES)
def test_dense_algebra(made, given):
    task, guess, _ = made(*given)
    solution = task.solve(guess)
    assert solution.success
    found = task.covariance(solution)
    np.testing.assert_allclose(found, by_null_space(task, solution), rtol=1e-6)


@pytest.mark.parametrize("scheme", ["gauss-2", "lobatto-2"])
def test_fifty_digits(scheme):
    model = ks.Model("f", [x], [], [k], [x.diff(t) + k * x])
    time = np.linspace(0.0, 1.0, 9)
    trial = ks.Experiment(time, measurements={x: np.exp(-time) + 0.01 * noise(9)}, std={x: 0.01})
    task = ks.Collocation(model, trial, {k: None}, scheme=scheme)
    solution = task.solve({k: 0.5})
    found = task.covariance(solution)
    np.testing.assert_allclose(found, in_many_digits(task, solution), rtol=1e-9)


@pytest.mark.study
@pytest.mark.parametrize(
    ("made", "given"),
    [
        (oscillator, ("radau-5",)),
        (index_1, ("gauss-4",)),
        (driven, ("radau-3", "linear")),
    ],
)
def test_many_noisy_records(made, given):
    """The scatter of the estimates from 120 records is what the standard errors say, to a fifth (of
    120 the scatter is known to 6 %), and their mean is the truth."""
    task, guess, record = made(*given)
    estimates, errors = [], []
    for seed in range(120):
        task = ks.Collocation.of(task.problem.on([record(seed)]))
        solution = task.solve(guess)
        assert solution.success
        estimates.append(list(solution.parameters.values()))
        errors.append(np.sqrt(np.diag(task.covariance(solution))))
    error = np.median(errors, axis=0)
    np.testing.assert_allclose(np.std(estimates, axis=0, ddof=1), error, rtol=0.2)
    truth = {oscillator: [1000.0, 0.5], index_1: [1.0, 0.5], driven: [1.5]}[made]
    np.testing.assert_allclose((np.mean(estimates, axis=0) - truth) / error, 0.0, atol=0.3)


# -- units ---------------------------------------------------------------------------------------


def in_units(scheme, sx, sv, sk, equations):
    """The oscillator with x in units of sx, v of sv, k and c of sk, equations multiplied."""
    rows = [
        equations * (sx * x.diff(t) - sv * v),
        (sv * v.diff(t) + sk * k * sx * x + sk * c * sv * v) / equations,
    ]
    model = ks.Model("o", [x, v], [], [k, c], rows)
    time = np.linspace(0.0, 0.6, 61)
    truth = np.exp(-time / 4) * np.cos(np.sqrt(1000 - 1 / 16) * time)
    measured = {x: (truth + 0.01 * noise(61)) / sx}
    trial = ks.Experiment(time, measurements=measured, std={x: 0.01 / sx})
    return ks.Collocation(model, trial, {k: None, c: None}, scheme=scheme)


@pytest.mark.parametrize("scheme", ["gauss-2", "radau-5"])
@pytest.mark.parametrize(
    "units",
    [
        (1e-6, 1.0, 1.0, 1.0),
        (1e6, 1.0, 1.0, 1.0),
        (1.0, 1e6, 1.0, 1.0),
        (1.0, 1.0, 1e6, 1.0),
        (1.0, 1.0, 1e-6, 1.0),
        (1e6, 1e-6, 1e6, 1.0),
        (1e-6, 1e6, 1e-6, 1e3),
        (1.0, 1.0, 1.0, 1e-6),
    ],
)
def test_units_of_all_kinds(scheme, units):
    task, guess, _ = oscillator(scheme)
    solution = task.solve(guess, tolerance=1e-11)
    errors = np.sqrt(np.diag(task.covariance(solution)))
    sx, sv, sk, _ = units
    other = in_units(scheme, *units)
    values = {name: solution.parameters[name] / sk for name in ("k", "c")}
    same = other.solve({**values, "x": solution["x"] / sx, "v": solution["v"] / sv})
    assert same.success
    found = np.sqrt(np.diag(other.covariance(same)))
    np.testing.assert_allclose(sk * found, errors, rtol=1e-5)


# -- what nothing determines ---------------------------------------------------------------------


DECAY = np.exp(-TIME) + 0.01 * noise(31)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("scheme", ["gauss-2", "radau-3", "lobatto-4"])
def test_the_others_keep_their_errors(scheme, unit):
    """Of a b and c only the product is known: NaN for two, and the third as if one was given."""
    model = ks.Model("p", [x], [], [a, b, c], [x.diff(t) + unit * a * b * x - c])
    trial = ks.Experiment(TIME, measurements={x: DECAY}, std={x: 0.01})
    guess = {a: 0.8 / unit, b: 1.1, c: 0.01}
    task = ks.Collocation(model, trial, {a: None, b: (0.01, 10), c: None}, scheme=scheme)
    with pytest.warns(UserWarning, match="a and b|b and a"):
        found = task.covariance(task.solve(guess))
    assert np.isnan(found[:2]).all() and np.isnan(found[:, :2]).all()
    known = ks.Collocation(model, trial, {a: None, c: None}, known={b: 1.1}, scheme=scheme)
    solution = known.solve({a: guess[a], c: guess[c]})
    assert found[2, 2] == pytest.approx(known.covariance(solution)[1, 1], rel=1e-5)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_parameter_that_is_zero(unit):
    """Without noise an estimate of zero is some rounding, but it is known well."""
    model = ks.Model("z", [x], [], [k, c], [x.diff(t) + k * x + unit * c])
    trial = ks.Experiment(TIME, measurements={x: np.exp(-TIME)})
    errors = []
    for scheme in ("radau-5", "gauss-6"):
        task = ks.Collocation(model, trial, {k: None, c: None}, scheme=scheme)
        solution = task.solve({k: 0.7, c: 0.1 / unit})
        errors.append(np.sqrt(np.diag(task.covariance(solution))) * [1.0, unit])
        assert abs(unit * solution.parameters["c"]) < 1e-5 * errors[-1][1]
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-3)


def test_three_that_are_one():
    """Two of three factors are to be fixed."""
    model = ks.Model("p", [x], [], [a, b, c], [x.diff(t) + a * b * c * x])
    trial = ks.Experiment(TIME, measurements={x: DECAY}, std={x: 0.01})
    task = ks.Collocation(model, trial, {a: None, b: None, c: None}, scheme="radau-3")
    with pytest.raises(ValueError, match=r"not identifiable together.*not identifiable together"):
        task.covariance(task.solve({a: 0.8, b: 1.1, c: 1.3}))


def test_the_gain_of_an_unknown_input():
    """Nothing tells it from the size of the input, unless that was measured."""

    model = ks.Model("g", [x], [u], [a], [x.diff(t) + x - a * u])
    for measured in ({x: DECAY}, {x: DECAY, u: 0.1 * noise(31)}):
        trial = ks.Experiment(
            TIME, measurements=measured, std={n: 0.01 if n == x else 0.1 for n in measured}
        )
        objective = ks.LeastSquares()
        task = ks.Collocation(
            model,
            trial,
            {a: None},
            unknown_inputs={u: ks.held()},
            scheme="radau-3",
            objective=objective,
        )
        solution = task.solve({a: 1.5, u: 0.1})
        if u in measured:
            assert task.covariance(solution)[0, 0] > 0.0
        else:
            with pytest.raises(ValueError, match="a is not identifiable"):
                task.covariance(solution)


@pytest.mark.parametrize("scheme", ["gauss-4", "radau-3", "lobatto-4"])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_condition_said_twice(scheme, unit):
    """The estimates are as certain as with it said once, and a note names it."""
    model = ks.Model("p", [x], [], [k], [x.diff(t) + k * x])
    trial = ks.Experiment(TIME, measurements={x: DECAY}, std={x: 0.01})
    once, twice = (
        ks.Collocation(model, trial, {k: None}, scheme=scheme, boundary=conditions)
        for start in [ks.at_start(x) - 1.0]
        for conditions in ([start], [start, unit * start])
    )
    sure, solution = once.solve({k: 0.8}), twice.solve({k: 0.8})
    np.testing.assert_allclose(twice.covariance(solution), once.covariance(sure), rtol=1e-7)
    (words,) = (n for n in solution.notes if "not independent" in n)
    assert words.startswith("boundary condition 0 (at_start(x) - 1.0), boundary condition 1")
    shifts = [s.grid_error().parameters["k"] for s in (sure, solution)]
    assert shifts[1] == pytest.approx(shifts[0], rel=1e-5)
    assert not sure.notes
    kkt, mine = kkt_of(twice.problem, solution), twice.layout.parameter_offset
    assert kkt.singular
    unit = np.zeros((kkt.order, 1))
    unit[mine] = kkt.scaled.scale[mine]
    found = [kkt.scaled.solve(unit, added)[0][mine, 0] for added in (1e-7, 1e-9, 1e-11)]
    np.testing.assert_allclose(found, found[0], rtol=1e-8)  # whatever is added to the diagonal


@pytest.mark.parametrize("scheme", STAGED)
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_forces_that_share_a_load(scheme, unit):
    """Two multipliers of one constraint, said twice: their sum is known, neither of them, and the
    parameters are as certain as with one."""
    trial = ks.Experiment(TIME, measurements={x: DECAY}, std={x: 0.01})
    rows = [x.diff(t) + k * x - unit * l1, unit * l1 + c * x**3]
    one = ks.Collocation(
        ks.Model("one", [x, l1], [], [k, c], rows), trial, {k: None, c: None}, scheme=scheme
    )
    load = unit * (l1 + l2)
    rows = [x.diff(t) + k * x - load, load + c * x**3, 3 * load + 3 * c * x**3]
    model = ks.Model("two", [x, l1, l2], [], [k, c], rows)
    two = ks.Collocation(model, trial, {k: None, c: None}, scheme=scheme)
    guess = {k: 0.8, c: 0.1}
    sure, solution = one.solve(guess), two.solve(guess)
    assert np.isnan(solution["l1"]).all() and np.isnan(solution["l2"]).all()
    assert np.isfinite(solution["x"]).all()
    assert any(note.startswith("l1, l2 (shown as NaN): not determined") for note in solution.notes)
    found = two.covariance(solution)
    np.testing.assert_allclose(found, by_null_space(two, solution), rtol=1e-5)
    np.testing.assert_allclose(found, one.covariance(sure), rtol=1e-2)  # IPOPT's "acceptable"
    assert np.isfinite(two.pack(solution.trials[0])).all()
    assert two.solve(solution).objective == pytest.approx(sure.objective, rel=2e-3)
    plt.close(solution.plot())


def rods(count):
    """A pendulum in Cartesian coordinates, its rod as `count` equal constraints of velocity; the
    forces of their multipliers add up. 9.81 m/s^2 is to be found."""
    px, py, vx, vy = ks.dynamicsymbols("px py vx vy")
    pull = ks.dynamicsymbols(f"pull0:{count}")
    states = [px, py, vx, vy, *pull]
    equations = [
        px.diff(t) - vx,
        py.diff(t) - vy,
        vx.diff(t) + px * sum(pull),
        vy.diff(t) + py * sum(pull) + k,
        *(weight * (px * vx + py * vy) for weight in range(1, count + 1)),
    ]
    model = ks.Model("rods", states, [], [k], equations)
    angle, omega = ks.dynamicsymbols("angle omega")
    swing = ks.Model(
        "angle",
        [angle, omega],
        [],
        [],
        [angle.diff(t) - omega, omega.diff(t) + 9.81 * sp.sin(angle)],
    )
    run = ks.simulate(swing, TIME, {angle: 0.8, omega: 0.0}, method="radau-5")
    place = {px: np.sin(run["angle"]), py: -np.cos(run["angle"])}
    measured = {n: row + 0.01 * noise(31, j) for j, (n, row) in enumerate(place.items())}
    trial = ks.Experiment(TIME, {}, measured, dict.fromkeys(measured, 0.01))
    return ks.Collocation(model, trial, {k: None}, scheme="radau-3"), pull


def test_a_rod_said_twice():
    """Gravity is as certain as with one; how the two share the force is not known."""
    (one, pull), (two, pulls) = rods(1), rods(2)
    guess = {k: 9.0}
    sure, solution = one.solve(guess), two.solve(guess)
    assert np.isfinite(sure[pull[0]]).all()
    for force in pulls:
        assert np.isnan(solution[force]).all()
    assert solution.parameters[k] == pytest.approx(sure.parameters[k], rel=1e-5)
    np.testing.assert_allclose(two.covariance(solution), one.covariance(sure), rtol=1e-3)
    np.testing.assert_allclose(one.covariance(sure), by_null_space(one, sure), rtol=1e-6)


def test_segments_keep_what_is_known():
    """Shooting in segments says the same."""
    model = ks.Model("p", [x], [], [a, b, c], [x.diff(t) + a * b * x - c])
    trial = ks.Experiment(TIME, measurements={x: DECAY}, std={x: 0.01})
    guess = {a: 0.8, b: 1.1, c: 0.01}
    fit, known = (
        ks.Shooting(
            model, trial, dict.fromkeys(names), initial={x: 1.0}, segments=4, known=values
        ).solve({n: guess[n] for n in names}, optimizer="ipopt")
        for names, values in (([a, b, c], {}), ([a, c], {b: 1.1}))
    )
    errors = fit.standard_errors()
    assert np.isnan([errors["a"], errors["b"]]).all()
    assert errors["c"] == pytest.approx(known.standard_errors()["c"], rel=1e-4)
    assert any("not identifiable together" in note for note in fit.notes)


@pytest.mark.parametrize("scheme", ["radau-3", "midpoint", "hermite-simpson"])
def test_what_is_not_determined_does_not_depend_on_units(scheme):
    """A disturbance that is held, measured at every 4th node, where the motion has a gap."""
    d, time, found = ks.dynamicsymbols("d"), np.linspace(0.0, 12.0, 81), []
    step = np.where(time < 4, 1.0, np.where(time < 8, -1.0, 0.5))
    plain = ks.Model("cart", [x, v], [d], [k], [x.diff(t) - v, v.diff(t) + k * x + 0.6 * v - d])
    held = {d: ks.Signal(time, step, "held")}
    motion = ks.simulate(plain, time, {x: 0.0, v: 0.0}, {k: 25.0}, inputs=held)["x"]
    motion = motion + 0.002 * np.random.default_rng(2).standard_normal(81)
    motion[20:26] = np.nan
    step[np.arange(81) % 4 > 0] = np.nan
    for unit in (1.0, 1e3, 1e-3, 1e6, 1e-6):
        problem = ks.Collocation(
            plain,
            ks.Experiment(
                time,
                measurements={x: unit * motion, d: unit * step},
                std={x: 0.002 * unit, d: 0.3 * unit},
            ),
            unknown={k: (1, 200)},
            unknown_inputs={d: ks.held()},
            scheme=scheme,
        )
        solution = problem.solve({k: 15.0})
        deviation = np.sqrt(problem.covariance(solution)[0, 0])
        found.append([solution.parameters["k"], deviation, solution.grid_error().parameters["k"]])
        assert np.flatnonzero(np.isnan(solution["d"])).tolist() == [19, 21, 22, 23, 25]
    np.testing.assert_allclose(found, np.tile(found[0], (5, 1)), rtol=1e-3)
