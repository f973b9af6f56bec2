"""Iterations do not depend on units; sizes of what nothing tells are those of its equations."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.internal.fitting.attempts import Attempts
from kinesym.internal.fitting.scaling import scaling, sizes
from kinesym.runtime.ipopt.solve import SolverOptions

x, v, th, om, F = ks.dynamicsymbols("x v theta omega F")
inertia, damping, stiffness = sp.symbols("I c k")

#: A metre, a second and a kilogram in other units.
UNITS = [(1, 1, 1), (1000, 1, 1), (1, 1000, 1), (1000, 1000, 1000), (1e-3, 1, 1e-3), (1, 1 / 60, 1)]


def swing_up(metre, second, kilogram):
    """A cart that swings up its pendulum in two seconds, without any guess."""
    cart, bob, length = kilogram, 0.3 * kilogram, 0.5 * metre
    g, newton = 9.81 * metre / second**2, kilogram * metre / second**2
    c, s = sp.cos(th), sp.sin(th)
    equations = [
        x.diff() - v,
        th.diff() - om,
        (cart + bob) * v.diff() + bob * length * (om.diff() * c - om**2 * s) - F,
        bob * length * c * v.diff() + bob * length**2 * om.diff() + bob * g * length * s,
    ]
    rest = [end(each) for end in (ks.at_start, ks.at_end) for each in (v, om, x)]
    problem = ks.Collocation(
        ks.Model("cart", [x, th, v, om], [F], [], equations),
        ks.Experiment(np.linspace(0, 2 * second, 61)),
        objective=ks.Integral(F**2),
        unknown_inputs={F: (-30 * newton, 30 * newton)},
        bounds={x: (-2 * metre, 2 * metre)},
        boundary=[*rest, ks.at_start(th), ks.at_end(th) - sp.pi],
    )
    return problem, newton**2 * second


def fit(metre, second, kilogram):
    """A leg that swings, known by its angle."""
    moment = kilogram * metre**2 / second**2
    leg = ks.Model(
        "leg",
        [th, om],
        [F],
        [inertia, damping, stiffness],
        [th.diff() - om, inertia * om.diff() + damping * om + stiffness * sp.sin(th) - F],
    )
    time = np.linspace(0, 4, 201)
    true = {inertia: 0.25, damping: 0.05, stiffness: 4.7}
    run = ks.simulate(leg, time, {th: 0.1, om: 0}, true, {F: np.sin(3 * time)})
    noise = 0.01 * np.random.default_rng(0).normal(size=len(time))
    return ks.Collocation(
        leg,
        ks.Experiment(
            time * second, {F: np.sin(3 * time) * moment}, {th: run["theta"] + noise}, {th: 0.01}
        ),
        {
            inertia: (0.01 * moment * second**2, 10 * moment * second**2),
            damping: (0, 5 * moment * second),
            stiffness: (0, 50 * moment),
        },
    ), 1.0


@pytest.mark.parametrize("made", [swing_up, fit])
def test_units_do_not_matter(made):
    found = []
    for units in UNITS:
        problem, unit = made(*units)
        solution = problem.solve(ladder=False)
        assert solution.success
        found.append([solution.objective / unit, solution.iterations])
    objectives, iterations = np.transpose(found)
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-8)
    assert np.ptp(iterations) <= 2 and max(iterations) < 20


@pytest.mark.parametrize("scheme", ["midpoint", "radau-5"])
def test_sizes_of_what_nothing_tells(scheme):
    """Of 1000 mm in 2 s: 500 mm/s, 250 mm/s^2, and with 3 kg the force of these; every trial."""
    model = ks.Model("mass", [x, v], [F], [], [x.diff() - v, 3 * v.diff() - F])
    trials = [ks.Experiment(np.linspace(0, 2, n)) for n in (21, 31)]
    problem = ks.Collocation(
        model, trials, unknown_inputs={F: None}, objective=ks.Integral(F**2), scheme=scheme
    )
    z = problem.pack({x: -1000.0})
    size = sizes(problem, z)
    names = [problem.variable_name(j).split()[0] for j in range(problem.n_variables)]
    told = {name: set(np.round(size[np.array(names) == name], 9)) for name in set(names)}
    assert told == {"x": {1000.0}, "v": {500.0}, "F": {750.0}}
    factors = scaling(problem, z)
    np.testing.assert_allclose(factors.variables, 1 / size)
    constant, ramp = np.ones(len(z)), np.ones(len(z))
    for trial in range(2):
        for block, row in problem.layout.rows(ramp, trial):
            n = row.shape[1] + (block.place is not None)
            row[:] = (np.arange(row.shape[1]) + (block.place or 0.0)) / (n - 1)
    terms = [
        abs(problem.constraint_jacobian(z) @ (course * np.where(np.array(names) == name, size, 0)))
        for course in (constant, ramp)
        for name in ("x", "v", "F")
    ]
    np.testing.assert_allclose(np.max(terms, axis=0) * factors.constraints, 1.0, rtol=0.02)


def test_a_scaling_of_ones_own():
    """Options of IPOPT come first."""
    problem, _ = fit(1, 1, 1)
    for method in ("none", "gradient-based"):
        own = problem.solve(options={"nlp_scaling_method": method})
        assert own.success and own.objective == pytest.approx(problem.solve().objective, rel=1e-8)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_guess_at_which_the_objective_is_huge(unit):
    """The log of what is nearly zero at the guess: by the factor of the objective there all that is
    left at the end would be nothing. The fit is that of a good guess."""
    time, rate = np.arange(0.0, 30.0), sp.Symbol("rate")
    model = ks.Model(
        "decay", [x], [], [rate], [x.diff(ks.t) + rate * x], outputs={"log": sp.log(x)}
    )
    seen = np.log(unit * 0.5) - 0.2 * time + 0.1 * np.random.default_rng(1).standard_normal(30)
    slope, _ = np.polyfit(time, seen, 1)
    problem = ks.Collocation(
        model,
        ks.Experiment(time, measurements={"log": seen}),
        {rate: (0.01, 5)},
        bounds={x: (1e-9 * unit, unit)},
        scheme="radau-5",
    )
    for first in ({x: 1e-9 * unit}, {x: 0.1 * unit}):
        found = problem.solve({rate: 0.5, **first})
        assert found.success and found.parameters["rate"] == pytest.approx(-slope, rel=1e-3)
        assert found.noise[0].freedom == 28 and not found.notes


@pytest.mark.parametrize("guess", [(0.0013342648720990266, 444.558504760672), (1e-3, 30.0)])
def test_a_parameter_that_was_guessed_far_too_small_has_a_slope(guess):
    """Of an epidemic by the log of the ill: what is 1 for the solver is 1e-3 of the guess, and the
    slope by a parameter that grows by 5000 counts as nothing there, as if at an optimum."""
    S, ill = ks.dynamicsymbols("S I")
    beta, gamma = sp.symbols("beta gamma")
    flow = [S.diff(ks.t) + beta * S * ill, ill.diff(ks.t) - beta * S * ill + gamma * ill]
    model = ks.Model("sir", [S, ill], [], [beta, gamma], flow, outputs={"log_I": sp.log(ill)})
    time, true = np.arange(60.0), {beta: 0.45, gamma: 0.16}
    run = ks.simulate(model, time, {S: 0.9998, ill: 2e-4}, true, method="dormand-prince")
    noise = 0.15 * np.random.default_rng(11).standard_normal(60)
    found = ks.Collocation(
        model,
        ks.Experiment(time, measurements={"log_I": run["log_I"] + noise}),
        {beta: (1e-6, 1e3), gamma: (1e-6, 1e3)},
        bounds={ill: (1e-12, 1.0), S: (0, 1)},
        boundary=[ks.at_start(S + ill) - 1],
    ).solve(dict(zip((beta, gamma), guess, strict=True)), progress=False)
    assert found.success and found.parameters["beta"] == pytest.approx(0.4463, abs=1e-3)


def test_a_barrier_that_fits_the_problem():
    """It adapts where there are bounds, is small where data are fitted, and never adapts to a first
    value or to multipliers that are given."""
    bounded, _ = swing_up(1.0, 1.0, 1.0)
    misfit, _ = fit(1.0, 1.0, 1.0)
    free = ks.Collocation(
        bounded.model,
        ks.Experiment(np.linspace(0, 2, 11)),
        objective=ks.Integral(F**2),
        unknown_inputs={F: None},
        boundary=[ks.at_start(x), ks.at_end(x) - 1],
    )
    for problem, expected in ((bounded, None), (misfit, 1e-3), (free, 0.1)):
        factors = scaling(problem.problem, problem.pack())
        assert factors.barrier == expected
        assert ("mu_strategy" in factors.options({})) == (expected is None)
        after = Attempts(
            problem.problem, problem.pack(), None, SolverOptions({}), None, None, 0
        )._ways
        strategies = [way.get("mu_strategy") for way in after.values()]
        assert ("monotone" if expected is None else "adaptive") in strategies  # the other one
        assert len(after) == (2 if problem is misfit else 3)
        given = factors.options({"mu_init": 0.5})
        assert given["mu_init"] == 0.5 and "mu_strategy" not in given


def rest_to_rest(rate, push, T=1.0):
    """1 m from rest to rest with the least effort, v = x'/rate and F = v'/push in any units."""
    model = ks.Model("cart", [x, v], [F], [], [x.diff() - rate * v, v.diff() - push * F])
    way = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)]
    given = {"unknown_inputs": {F: None}, "scheme": "radau-5", "boundary": way}
    trial = ks.Experiment(np.linspace(0, T, 21))
    return ks.Collocation(model, trial, objective=ks.Integral(F**2), **given)


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e9, 1e12])
def test_units_far_apart_without_a_guess(size):
    """12 in all units of the speed, and over all durations, 12/T^3."""
    solution = rest_to_rest(size, 1.0 / size).solve()
    assert solution.success and solution.objective == pytest.approx(12.0, rel=1e-9)
    solution = rest_to_rest(1.0, 1.0, size).solve()
    assert solution.success and solution.objective * size**3 == pytest.approx(12.0, rel=1e-9)


def test_an_equation_whose_terms_no_number_holds_is_not_met():
    """Beside 1e24 the rate of x is less than rounding: a guess of the speed is needed."""
    problem = rest_to_rest(1e24, 1e-24)
    solution = problem.solve()
    assert not solution.success and solution.status == "equations not met"
    assert "equation 0 (x')" in solution.message and "give a guess" in solution.message
    sized = problem.solve({x: np.linspace(0, 1, 21), v: 1e-24, F: 6.0})
    assert sized.success and sized.objective == pytest.approx(12.0, rel=1e-9)
