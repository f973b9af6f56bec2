"""Where solutions start: values of each trial, results of other problems, what is out of bounds."""

import warnings

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh

t = ks.t
x, v = ks.dynamicsymbols("x v")
k, c = sp.symbols("k c")
SWING = ks.Model(
    "swing",
    [x, v],
    [],
    [k, c],
    [x.diff(t) - v, v.diff(t) + c * v + k * sp.sin(x)],
    values={k: 9.0, c: 0.1},
)
TIMES = np.linspace(0.0, 3.0, 61), np.linspace(0.0, 2.0, 51), np.linspace(0.0, 3.0, 61)
STARTS = [0.5, -0.4, 0.8]
RUNS = [
    ks.simulate(SWING, time, {x: start, v: 0.0}, {k: 10.0, c: 0.2})
    for time, start in zip(TIMES, STARTS, strict=True)
]
TRIALS = [ks.Experiment(run.time, measurements={x: run["x"]}, std={x: 0.01}) for run in RUNS]
UNKNOWN = {k: (1.0, 50.0), c: (0.0, 5.0)}


def shooting(trials=TRIALS, initial=None, **more):
    return ks.Shooting(SWING, trials, UNKNOWN, initial=initial or {x: None, v: 0.0}, **more)


@pytest.fixture(scope="module")
def three():
    return shooting()


@pytest.fixture(scope="module")
def task():
    return ks.Collocation(SWING, TRIALS, UNKNOWN, bounds={x: (-1.5, 1.5)}, scheme="midpoint")


# -- one start per trial ---------------------------------------------------------------------------


def test_starts_of_trials_as_guess(three):
    for given in (STARTS, np.array(STARTS), tuple(STARTS)):
        np.testing.assert_array_equal(three.pack({x: given, k: 8.0}), [8.0, 0.1, *STARTS])
    np.testing.assert_array_equal(three.pack({x: 0.3})[2:], [0.3] * 3)
    rows = [np.full(trial.n_nodes, s) for trial, s in zip(TRIALS, STARTS, strict=True)]
    np.testing.assert_array_equal(three.pack({x: rows})[2:], STARTS)
    with pytest.raises(ValueError, match=r"guess of x has shape \(2,\), .* one number per trial"):
        three.pack({x: STARTS[:2]})
    with pytest.raises(ValueError, match=r"guess of x has 2 rows, expected one per trial \(3\)"):
        three.pack({x: rows[:2]})


def test_starts_of_trials_in_collocation(task):
    found = task.unpack(task.pack({x: STARTS}))["x"]
    assert [row[0] for row in found] == STARTS == [row[-1] for row in found]


def test_fitted_starts_of_all_trials(three, tmp_path):
    """They can be asked for by symbol, saved, and given again."""
    fit = three.solve({x: [0.4, -0.3, 0.7]}, optimizer="least-squares")
    np.testing.assert_allclose(fit.initial[x], STARTS, atol=1e-6)
    fit.save(tmp_path / "fit.nc")
    assert ks.Fit.load(tmp_path / "fit.nc").initial == fit.initial == {"x": list(fit.values[2:])}
    again = three.pack({**fit.parameters, **fit.initial})
    np.testing.assert_array_equal(again, fit.values)
    known = shooting(initial={v: 0.0, **fit.initial})
    assert known.cost(fit.parameters) == pytest.approx(fit.objective, rel=1e-9)
    alone = shooting(TRIALS[0]).solve(optimizer="least-squares")
    assert alone.initial["x"] == pytest.approx(0.5, abs=1e-6)


def test_one_mapping_per_trial():
    """Values and bounds of each trial, in one mapping or in a list of mappings."""
    rows = [{x: start, v: 0.0} for start in STARTS]
    columns = shooting(initial={x: STARTS, v: 0.0})
    assert shooting(initial=rows).cost() == columns.cost()
    bounds = [(0.0, 1.0), (-1.0, 0.0), (0.0, 2.0)]
    for given in ([{x: b, v: 0.0} for b in bounds], {x: bounds, v: 0.0}):
        some = shooting(initial=given)
        low, high = some.bounds
        assert list(zip(low[2:], high[2:], strict=True)) == bounds
    free = shooting(initial=[{x: None, "v": 0.0}] * 3)
    assert free.names == shooting().names


BALL = kh.Hybrid(SWING)


@pytest.mark.parametrize(
    ("initial", "words"),
    [
        ([{x: 0.5, v: 0.0}] * 2, r"initial has 2 mappings, expected one or one per trial \(3\)"),
        ([{x: 0.5, v: 0.0}] * 2 + [{x: 0.5}], "initial value of state v is missing"),
        ([{x: 0.5, v: 0.0}] * 2 + [{x: 0.5, "w": 0.0}], "initial of trial 2: w is unknown"),
        (
            [{x: None, v: 0.0}] + [{x: 0.5, v: 0.0}] * 2,
            "x is known in trial 1 and unknown in trial 0",
        ),
        ({x: [0.5, None, None], v: 0.0}, "initial x is known in trial 0 and unknown in trial 1"),
        ({x: [0.5, 0.5], v: 0.0}, r"initial x has 2 values, expected one, or one per trial \(3\)"),
        ({x: [(1.0, 0.0)] * 3, v: 0.0}, "bounds of initial x are crossed"),
        ({x: "half", v: 0.0}, "the initial value of x must be real numbers, got text"),
        (
            {x: [0.5, np.nan, 0.5], v: 0.0},
            "the initial value of x must be one finite number, got nan",
        ),
        (5, "initial must be a mapping"),
    ],
)
@pytest.mark.parametrize("system", [SWING, BALL], ids=["smooth", "hybrid"])
def test_starts_that_do_not_fit(system, initial, words):
    with pytest.raises(ValueError, match=words):
        ks.Shooting(system, TRIALS, {k: None}, initial=initial)


def test_hybrid_takes_the_same():
    some = ks.Shooting(BALL, TRIALS, {k: None}, {c: 0.2}, [{x: (-1.0, 1.0), v: 0.0}] * 3)
    q = some.pack({k: 9.0, x: STARTS})
    np.testing.assert_array_equal(q, [9.0, *STARTS])
    fit = some.solve(q, "least-squares", max_iterations=2)
    assert len(fit.initial[x]) == 3
    np.testing.assert_allclose(some.pack(RUNS), [10.0, *STARTS], rtol=1e-12)
    other = ks.Shooting(BALL, TRIALS, {k: None, c: None}, initial={x: None, v: None})
    q = other.pack(fit)
    assert other.unpack(q)["k"] == fit.parameters[k] and other.unpack(q)["c"] == 0.2
    np.testing.assert_allclose(q[[2, 4, 6]], fit.initial[x], rtol=1e-9)


# -- results as guesses ----------------------------------------------------------------------------


def test_results_as_guess_of_collocation(task):
    """Trajectories on other grids, and the parameters that they were made with."""
    coarse = [
        ks.simulate(SWING, time[::2], {x: start, v: 0.0}, {k: 10.0, c: 0.2}, substeps=2)
        for time, start in zip(TIMES, STARTS, strict=True)
    ]
    found = task.unpack(task.pack(coarse))
    assert found["k"] == 10.0 and found["c"] == 0.2
    for row, run in zip(found["x"], RUNS, strict=True):
        np.testing.assert_allclose(row, run["x"], atol=0.01)
    one = ks.Collocation(SWING, TRIALS[0], UNKNOWN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert one.solve(RUNS[0]).iterations <= 6
    np.testing.assert_array_equal(one.unpack(one.pack(RUNS[0]))["v"], RUNS[0]["v"])
    with pytest.raises(ValueError, match="the guess has 1 trials, this problem 3"):
        task.pack(RUNS[0])


def test_fits_as_guess(task, three):
    """Of shooting for collocation, of segments for none, and of collocation for shooting."""
    parts = shooting(segments=6).solve({x: STARTS, k: 9.5}, optimizer="ipopt")
    assert parts.success
    q = three.pack(parts)
    np.testing.assert_allclose(q, [10.0, 0.2, *STARTS], rtol=1e-6)
    assert three.solve(parts, optimizer="least-squares").iterations <= 3
    solution = task.solve(parts)
    assert solution.success and solution.iterations <= 6
    np.testing.assert_allclose(three.pack(solution), q, rtol=1e-2)
    assert task.pack(parts.trials)[-2:] == pytest.approx(task.pack(parts)[-2:])
    np.testing.assert_array_equal(three.pack(parts.trials), q)
    many = shooting(segments=6)
    np.testing.assert_allclose(many.pack(three.solve(q, "least-squares")), parts.values, atol=1e-5)


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        (5, "a guess is a mapping of names to values, .* not 5"),
        ("near", "a guess is a mapping of names to values, .* not 'near'"),
        ({k: "a"}, "the guess of k must be real numbers, got text"),
        ({k: [1.0, 2.0]}, "the guess of k must be one finite number"),
        ({x: np.sin}, "the guess of x must be real numbers"),
        ({x: 1j}, "the guess of x must be real numbers, got complex"),
        ({x: np.nan}, "the guess of x is not finite"),
    ],
)
def test_guesses_that_are_none(task, three, guess, words):
    with pytest.raises(ValueError, match=words):
        task.pack(guess)
    if isinstance(guess, dict):
        with pytest.raises(ValueError, match=words):
            three.pack(guess)


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        (5, r"guess has shape \(1,\), but there are 5 unknowns \(k, c, x\(0\) of trial 0"),
        (np.nan, r"guess has shape \(1,\)"),
        ([1.0, 0.1, 0.1, np.nan, 0.0], "the guess of x.0. of trial 1 is nan, not a finite number"),
        (
            "near",
            "the guess, if it is no mapping of names to values, must be real numbers, got text",
        ),
        (["a"] * 5, "the guess, if it is no mapping .* must be real numbers, got text"),
    ],
)
def test_vectors_that_are_none(three, guess, words):
    with pytest.raises(ValueError, match=words):
        three.pack(guess)


# -- bounds ----------------------------------------------------------------------------------------


def test_given_values_are_moved_inside_with_a_word(task):
    """By name or as z: a warning names the first and counts the others."""
    words = r"guess of k?.*parameter k, 60, is outside its bounds \(1, 50\); it is moved inside"
    with pytest.warns(UserWarning, match=words) as said:
        z = task.pack({k: 60.0})
    assert len(said) == 1 and task.unpack(z)["k"] == 50.0
    words = r"x at node 0 .*trial 0.*, 2, is outside .* \(-1.5, 1.5\); it and 172 more such values"
    with pytest.warns(UserWarning, match=words):
        named = task.pack({x: 2.0})
    z = task.pack({x: 1.0})
    for number in range(3):
        task.layout.trajectories(z, number)[0] = 2.0
    before = z.copy()
    with pytest.warns(UserWarning, match=words) as said:
        moved = task.solve(z, max_iterations=0).free_vector
    assert said[0].filename == __file__
    np.testing.assert_array_equal(z, before)
    np.testing.assert_array_equal(task.pack(z * 0.5), z * 0.5)
    np.testing.assert_allclose(moved, named, atol=0.05)  # IPOPT starts a little further inside
    z[-2] = np.nan
    with pytest.raises(ValueError, match="the guess of parameter k is nan, not a finite number"):
        task.pack(z)


def test_small_values_are_seen_outside():
    """Bounds of 1e-7: 1e-6 is outside, though near in size; a hair of IPOPT's own is nothing."""
    some = ks.Collocation(SWING, TRIALS[0], {k: (1.0, 50.0), c: (1e-9, 1e-7)})
    with pytest.warns(UserWarning, match=r"parameter c, 1e-06, is outside its bounds"):
        some.pack({c: 1e-6})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z = some.pack({c: 1e-7, k: 1.0 - 1e-8})
        assert some.unpack(z)["k"] == 1.0
        some.pack(RUNS[0])  # results are moved silently


# -- solutions by other schemes and on other grids -------------------------------------------------

u, w = ks.dynamicsymbols("u w")


def driven(scheme, nodes, kind=None, **more):
    """Least effort from rest to rest, of a pendulum; w algebraic."""
    rates = [x.diff(t) - v, v.diff(t) + w - u, w - sp.sin(x)]
    states = [x, v, w]
    if scheme in ("hermite-simpson", "trapezoid"):  # need x' in explicit form
        rates, states = [x.diff(t) - v, v.diff(t) + sp.sin(x) - u], [x, v]
    return ks.Collocation(
        ks.Model("driven", states, [u], [], rates),
        more.pop("trials", ks.Experiment(np.linspace(0.0, 2.0, nodes))),
        scheme=scheme,
        objective=ks.Integral(u**2),
        unknown_inputs={u: kind},
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 2.0, ks.at_end(v)],
        **more,
    )


def misses(problem, guess):
    """By how much the constraints are missed at a guess, at most."""
    (low, high), found = problem.constraint_bounds, problem.constraints(problem.pack(guess))
    return np.maximum(low - found, found - high).max()


@pytest.mark.parametrize("other", ["radau-5", "gauss-6", "hermite-simpson"])
def test_a_solution_as_guess_follows_its_polynomials(other):
    """Residuals of order 3 in the steps, where straight lines between nodes leave order 1."""
    left = []
    for nodes in (21, 41, 81):
        solution = driven("radau-5", nodes).solve()
        fine = driven(other, 3 * (nodes - 1) // 2 + 1)
        left.append((misses(fine, solution), misses(fine, solution.trials)))
    curved, straight = np.array(left).T
    assert (np.log2(curved[:-1] / curved[1:]) > 2.5).all()
    assert (curved < 0.05 * straight).all()
    assert fine.solve(solution).iterations <= min(fine.solve(solution.trials).iterations, 2)


SEVERAL = ["midpoint", "radau-3", "gauss-4", "radau-5", "gauss-6", "trapezoid", "hermite-simpson"]


@pytest.mark.parametrize("scheme", SEVERAL)
def test_a_solution_as_guess_for_all_schemes(scheme, tmp_path):
    """Nodes stay, what was found on a finer grid is there at once; from files too."""
    solution = driven(scheme, 41).solve()
    solution.save(tmp_path / "found.nc")
    loaded = ks.Solution.load(tmp_path / "found.nc")
    for other in SEVERAL:
        same = driven(other, 41)
        z = same.pack(solution)
        np.testing.assert_array_equal(same.pack(loaded), z)
        np.testing.assert_allclose(same.unpack(z)["x"], solution["x"], rtol=0, atol=1e-13)
        assert same.solve(solution).iterations <= 2


@pytest.mark.parametrize("kind", [ks.held(-9, 9), ks.linear(-9, 9)])
def test_held_and_linear_inputs_as_guess(kind):
    solution = driven("radau-3", 21, kind).solve()
    for nodes in (21, 41):
        fine = driven("gauss-4", nodes, kind)
        found = fine.unpack(fine.pack(solution))["u"]
        row = solution["u"]
        between = np.repeat(row, 2)[:-1]
        if type(kind) is type(ks.linear()):
            between[1::2] = 0.5 * (row[:-1] + row[1:])
        expected = row if nodes == 21 else between
        np.testing.assert_allclose(found[:-1], expected[:-1], atol=1e-14)


def test_phases_of_unknown_duration_as_guess():
    """Two phases, by another scheme and on other grids; and their joined motion for one trial."""

    def posed(scheme, nodes):
        links = [ks.at_start(y) - ks.at_end(y) for y in (x, v)]
        trials = [ks.Experiment(nodes=n, duration=(0.3, 4.0)) for n in nodes]
        model = ks.Model("mass", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u])
        return ks.Collocation(
            model,
            ks.Phases(
                trials,
                links=[*links, ks.at_end(x) - 0.3],
                start=[ks.at_start(x), ks.at_start(v)],
                end=[ks.at_end(x) - 1.0, ks.at_end(v)],
            ),
            scheme=scheme,
            objective=ks.Integral(1 + u**2),
            unknown_inputs={u: None},
        )

    solution = posed("radau-5", (8, 11)).solve({"duration": 1.0})
    other = posed("gauss-4", (15, 9))
    unknown = other.unpack(other.pack())["duration"]
    np.testing.assert_allclose(unknown, np.sqrt(0.3 * 4.0))  # geometric means of the bounds
    assert misses(other, solution) < 1e-3 < 1e-2 < misses(other, solution.trials)
    found = other.unpack(other.pack(solution))["duration"]
    np.testing.assert_allclose(found, [run.time[-1] for run in solution.trials])
    assert other.solve(solution).iterations <= other.solve(solution.trials).iterations + 1
    whole = solution.joined()
    model = other.model
    one = ks.Collocation(
        model,
        ks.Experiment(whole.time[[*range(8), *range(9, 19)]]),
        scheme="radau-3",
        objective=ks.Integral(u**2),
        unknown_inputs={u: None},
        boundary=[ks.at_start(x)],
    )
    np.testing.assert_allclose(one.unpack(one.pack(whole))["x"], np.delete(whole["x"], 8))


def test_a_guess_on_a_bound_where_a_function_has_no_value():
    """IPOPT begins inside of the bounds: x' = 1/x is solved from x = 0, its lower bound."""
    model = ks.Model("root", [x], [], [k], [x.diff(t) - k / x], values={k: 1.0})
    time = np.linspace(0.0, 1.0, 41)
    more = {"boundary": [ks.at_start(x) - 1.0], "objective": ks.Integral(0 * x)}
    solution = ks.Collocation(model, ks.Experiment(time), bounds={x: (0, 5)}, **more).solve(
        {x: 0.0}
    )
    np.testing.assert_allclose(solution["x"], np.sqrt(1.0 + 2.0 * time), atol=1e-3)
    with pytest.raises(ValueError, match=r"at the guess, .* change the guess or the bounds"):
        ks.Collocation(model, ks.Experiment(time), bounds={x: (-5, 5)}, **more).solve({x: 0.0})
