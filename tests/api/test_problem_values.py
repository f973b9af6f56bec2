"""A problem is a value: parts of it, copies and changes of its arguments are what they say."""

import inspect
import pickle
from dataclasses import fields
from functools import cache

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.leaving_out import arguments_of, part_of
from kinesym.internal.problems.content import digest
from kinesym.internal.problems.question import Question

x, v = ks.dynamicsymbols("x v")
force, push = ks.dynamicsymbols("force push")
k, c, tau = sp.symbols("k c tau", positive=True)
TIME = np.linspace(0.0, 2.0, 11)
FORCE = np.sin(3.0 * TIME)


def spring(shift=0.0):
    return ks.Model(
        "spring",
        states=[x, v],
        inputs=[force],
        parameters=[k, c],
        equations=[x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v - force - shift],
        outputs={"load": k * x},
        values={k: 4.0, c: 0.3},
    )


def late():
    """x' = -k x(t - 0.3), with a history that is unknown."""
    return ks.Model("late", [x], [], [k], [x.diff(ks.t) + k * ks.delayed(x, 0.3)], values={k: 1.0})


def trials(count=3, begin=0.0, **more):
    """Records of different levels, labels and parameters; begin : of their clock [s]."""
    return [
        ks.Experiment(
            TIME + begin,
            inputs={force: FORCE},
            measurements={x: 0.1 * (j + 1) * np.cos(2.0 * TIME)},
            std={x: 0.05},
            labels={"subject": f"s{j % 2}"},
            parameters={c: 0.2 + 0.1 * j},
            **more,
        )
        for j in range(count)
    ]


#: By name, a problem of several trials with something that each of them has of its own.
CASES = {
    "shared": lambda: ks.Collocation(spring(), trials(), {k: (1.0, 9.0)}),
    "owners": lambda: ks.Collocation(spring(), trials(), {k: ks.per("subject", (1.0, 9.0))}),
    "each": lambda: ks.Collocation(spring(), trials(), {k: ks.per_trial(1.0, 9.0)}),
    "conditions": lambda: ks.Collocation(
        spring(), trials(), {k: None}, boundary=[ks.at_start(x) - c, (ks.at_end(v), -5.0, 5.0)]
    ),
    "path": lambda: ks.Collocation(spring(), trials(), {k: None}, path=[(x + c, -3.0, 3.0)]),
    "bounds": lambda: ks.Collocation(
        spring(), trials(bounds={x: (-2.0 + TIME, 4.0)}), {k: None}, bounds={v: (-9.0, 9.0)}
    ),
    "inputs": lambda: ks.Collocation(
        spring(),
        undriven(),
        {k: None},
        unknown_inputs={force: ks.held(-9.0, 9.0)},
    ),
    "jumps": lambda: ks.Collocation(spring(sp.Heaviside(ks.t - 0.73)), trials(), {k: None}),
    "sensors": lambda: ks.Collocation(
        spring(), spoken(), {k: None, tau: (0.0, 0.1)}, sensors={"y": ks.sensor(x, delay=tau)}
    ),
    "homotopy": lambda: ks.Collocation(spring(), trials(), {k: None}, homotopy="data"),
    "schemes": lambda: ks.Collocation(spring(), trials(), {k: None}, scheme="hermite-simpson"),
    "histories": lambda: ks.Collocation(late(), remembered(), {k: (0.1, 3.0)}),
}


def undriven():
    return [
        ks.Experiment(TIME, measurements={x: y}, std={x: 0.05}, parameters={c: 0.2 + 0.1 * j})
        for j, y in enumerate(np.cos(2.0 * TIME) * np.array([[0.1], [0.2], [0.3]]))
    ]


def spoken(begin=0.0):
    return [
        ks.Experiment(
            TIME + begin,
            inputs={force: FORCE},
            measurements={"y": 0.1 * (j + 1) * np.cos(2.0 * TIME)},
            std={"y": 0.05},
            parameters={c: 0.2 + 0.1 * j},
        )
        for j in range(3)
    ]


def remembered(begin=0.0):
    return [
        ks.Experiment(
            TIME + begin,
            measurements={x: (1.0 + 0.2 * j) * np.cos(TIME)},
            std={x: 0.05},
            history={x: ks.UnknownHistory(-2.0, 2.0)},
        )
        for j in range(3)
    ]


@cache
def asked(case):
    """A case, which is the same for all tests."""
    return CASES[case]()


def numbers(problem, z=None):
    """All that a solver reads of a problem, at a point."""
    task = ks.Collocation.of(problem)
    z = task.pack() + 0.01 * np.sin(np.arange(task.n_variables)) if z is None else z
    multipliers = np.cos(np.arange(task.n_constraints))
    return [
        z,
        *task.variable_bounds,
        *task.constraint_bounds,
        np.array([task.cost(z)]),
        task.cost_gradient(z),
        task.constraints(z),
        task.constraint_jacobian(z).toarray(),
        task.lagrangian_hessian(z, multipliers).toarray(),
        task.residuals(z),
    ]


def assert_same(one, other):
    for a, b in zip(numbers(one), numbers(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", CASES)
def test_taken_apart_and_put_together_it_is_the_same(case):
    """Bit for bit: all of its trials, the same grids, through a file, with what it holds anyway."""
    problem = asked(case).problem
    every = range(len(problem.trials))
    assert_same(problem, part_of(problem, every))
    assert_same(problem, problem.on([e.on_grid(e.grid) for e in problem.trials]))
    assert_same(problem, pickle.loads(pickle.dumps(problem)))
    assert_same(problem, problem.with_known(problem.known).loosen([]))
    back = part_of(part_of(problem, [2, 0, 1]), [1, 2, 0])
    assert_same(problem, back)
    assert digest(problem) == digest(back)


@pytest.mark.parametrize("case", CASES)
def test_a_part_is_the_problem_of_its_trials(case):
    """As if the others had never been given: with the same free vector the same numbers."""
    whole = asked(case).problem
    question, part = whole.formulation.question, part_of(whole, [2])
    given = {f.name: getattr(question, f.name) for f in fields(Question)}
    alone = ks.Collocation(**{**given, "trials": [question.trials[2]]}).problem
    mine = numbers(part)  # what is guessed of histories is that of the first trial
    for a, b in zip(mine, numbers(alone, mine[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


def test_a_copy_shares_nothing_that_was_computed():
    problem = asked("shared").problem
    before = problem.variable_bounds
    held = problem.holding(np.array([5.0]))
    assert held.variable_bounds is not before
    low, high = (held.layout.parameter_values(side) for side in held.variable_bounds)
    assert low[0] == high[0] == 5.0
    assert problem.variable_bounds is before


def test_every_field_counts_or_is_named():
    """What a digest leaves out has no effect on numbers: libraries follow from the question."""
    every = [f for kind in (Question, Discretisation) for f in fields(kind)]
    left_out = {f.name for f in every if "uncounted" in f.metadata}
    assert left_out == {"threads", "libraries"}
    names = {*inspect.signature(ks.Collocation).parameters}
    assert names == {f.name for f in fields(Question)}


@pytest.mark.parametrize("case", ["shared", "histories", "sensors"])
def test_the_clock_of_trials_is_nobodys(case):
    """Records that begin ten seconds later: the same estimates, errors and foretelling."""

    def found(begin):
        made = {
            "shared": lambda: ks.Collocation(spring(), trials(begin=begin), {k: (1.0, 9.0)}),
            "histories": lambda: ks.Collocation(late(), remembered(begin), {k: (0.1, 3.0)}),
            "sensors": lambda: ks.Collocation(
                spring(),
                spoken(begin),
                {k: None, tau: (0.0, 0.1)},
                sensors={"y": ks.sensor(x, delay=tau)},
            ),
        }[case]()
        fit = made.solve(progress=False)
        assert fit.success, fit.message
        score = ks.cross_validate(made, fit)
        errors = [row.rms for row in score.errors]
        densities = [row.log_density for row in score.scores]
        return [
            *fit.parameters.values(),
            *np.sqrt(np.diag(made.covariance(fit))),
            *errors,
        ], densities

    (one, densities), (other, others) = found(0.0), found(10.0)
    np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(densities, others, atol=1e-5)


# -- shooting ----------------------------------------------------------------------------------


def shot(trials, **more):
    given = {"unknown": {k: (1.0, 9.0)}, "initial": {x: 0.1, v: 0.0}, **more}
    return ks.Shooting(spring(), trials, **given)


#: By name, what each trial has of its own.
SHOTS = {
    "shared": {},
    "owners": {"unknown": {k: ks.per("subject", (1.0, 9.0))}},
    "each": {"unknown": {k: ks.per_trial(1.0, 9.0)}},
    "starts": {"initial": {x: None, v: [0.0, 0.1, 0.2]}},
    "expressions": {"initial": {x: c**2, v: 0.0}},
    "segments": {"segments": 2, "unknown": {k: (1.0, 9.0)}},
}


def of_shooting(problem, q=None):
    """All that an optimiser reads of a problem by shooting, at a point."""
    q = problem.pack() if q is None else q
    slopes = problem.residual_jacobian(q)
    return [q, *problem.bounds, np.array([problem.cost(q)]), problem.gradient(q), slopes]


@pytest.mark.parametrize("case", SHOTS)
def test_shooting_taken_apart_and_put_together(case):
    whole = shot(trials(), **SHOTS[case])
    back = ks.Shooting.of(
        whole.problem.with_arguments(
            arguments_of(arguments_of(whole.problem.given, [2, 0, 1]), [1, 2, 0])
        )
    )
    again = pickle.loads(pickle.dumps(whole))
    for other in (
        ks.Shooting.of(whole.problem.with_arguments(arguments_of(whole.problem.given, range(3)))),
        back,
        again,
    ):
        for a, b in zip(of_shooting(whole), of_shooting(other), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", SHOTS)
def test_a_part_of_shooting_is_the_problem_of_its_trials(case):
    part = shot(trials(), **SHOTS[case])
    part = ks.Shooting.of(part.problem.with_arguments(arguments_of(part.problem.given, [2])))
    options = dict(SHOTS[case])
    if case == "starts":
        options["initial"] = {x: None, v: 0.2}
    alone = shot(trials()[2:], **options)
    for a, b in zip(of_shooting(part), of_shooting(alone), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
