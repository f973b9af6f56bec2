"""Why there is no solution: seeded mistakes, each named in the first three lines."""

import re

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, v, F, theta, omega, T = ks.dynamicsymbols("x v F theta omega T")
m, k, L = sp.symbols("m k L")
TIME = np.linspace(0.0, 1.0, 41)
CART = ks.Model("cart", [x, v], [F], [m], [x.diff(t) - v, m * v.diff(t) - F], values={m: 1.0})
SWING = ks.Model(
    "swing",
    [theta, omega],
    [T],
    [L],
    [theta.diff(t) - omega, omega.diff(t) + 9.81 / L * sp.sin(theta) - T],
    values={L: 1.0},
)
REST = [ks.at_start(x), ks.at_start(v)]


def moved(boundary, **more):
    """A cart of 1 kg that a force of at most 1 N moves within 1 s: at most 0.25 m from rest to
    rest."""
    given = {"objective": ks.Integral(F**2), "unknown_inputs": {F: (-1, 1)}, **more}
    return ks.Collocation(CART, ks.Experiment(TIME), boundary=[*REST, *boundary], **given)


def swung(boundary, **more):
    given = {"objective": ks.Integral(T**2), "unknown_inputs": {T: (-5, 5)}, **more}
    return ks.Collocation(SWING, ks.Experiment(TIME), boundary=boundary, **given)


END = ks.at_end
MISTAKES = {
    "too far": (
        lambda: moved([END(x) - 5, END(v)]),
        r"at_end\(x\) - 5\) cannot be met .* at least 4.75",
    ),
    "said twice": (
        lambda: moved([END(x) - 0.1, END(v), 3 * END(x) - 0.3]),
        r"3\*at_end\(x\) - 0.3\) says the same as .*at_end\(x\) - 0.1\)",
    ),
    "two values": (
        lambda: moved([END(x) - 0.1, END(v), END(x) - 0.2]),
        r"at_end\(x\) - 0.2\) contradicts .*at_end\(x\) - 0.1\): they differ by 0.1",
    ),
    "nothing is free": (
        lambda: ks.Collocation(
            CART,
            ks.Experiment(TIME, inputs={F: np.zeros(41)}),
            objective=ks.Integral(x**2),
            boundary=[*REST, END(x) - 0.1],
        ),
        r"at_end\(x\) - 0.1\) contradicts .*at_start\(x\)\).*every motion .* off by 0.1 ",
    ),
    "a sum of others": (
        lambda: moved([END(x) - 0.1, END(v), END(x) + END(v) - 0.5]),
        r"contradicts .*at_end\(x\) - 0.1\).*at_end\(v\)\): they differ by 0.4",
    ),
    "a bound off by 10": (
        lambda: moved([END(x) - 0.1, END(v)], bounds={x: (-0.01, 0.01)}),
        r"asks for 0.1, outside the bounds \(-0.01, 0.01\) of x at node 40",
    ),
    "wrong sign of a bound": (
        lambda: moved([END(x) + 0.1, END(v)], bounds={x: (0, 1)}),
        r"asks for -0.1, outside the bounds \(0, 1\) of x",
    ),
    "millimetres": (
        lambda: moved([END(x) - 100, END(v)]),
        r"at_end\(x\) - 100\) cannot be met .* at least 99.75",
    ),
    "a weak motor": (
        lambda: moved([END(x) - 0.2, END(v)], unknown_inputs={F: (-0.1, 0.1)}),
        r"could be met with F >= -0.[78]\d* instead of -0.1, F <= 0.[78]\d* instead of 0.1$",
    ),
    "pushes one way only": (
        lambda: moved([END(x) - 0.2, END(v)], unknown_inputs={F: (0, 1)}),
        r"met with F >= -0.666\d instead of 0$",
    ),
    "a limit of speed": (
        lambda: moved([END(x) - 0.2, END(v)], path=[(v, -0.1, 0.1)]),
        r"path condition 0 \(v\).* cannot be met|at_end\(x\) - 0.2\) cannot be met",
    ),
    "degrees": (
        lambda: swung([ks.at_start(theta), ks.at_start(omega), END(theta) - 180, END(omega)]),
        r"at_end\(theta\) - 180\) cannot be met",
    ),
    "a state fixed against its bound": (
        lambda: swung([ks.at_start(theta) - 2, END(theta)], bounds={theta: (-1, 1)}),
        r"at_start\(theta\) - 2\) asks for 2, outside the bounds \(-1, 1\) of theta",
    ),
    "a start fixed twice": (
        lambda: moved([ks.at_start(x) - 0.1, END(v)]),
        r"at_start\(x\) - 0.1\) contradicts .*at_start\(x\)\): they differ by 0.1",
    ),
    "an end out of reach": (
        lambda: moved([(END(x), 1, 2), END(v)]),
        r"at_end\(x\)\) cannot be met .* at least 0.75",
    ),
    "a path that leaves out the start": (
        lambda: moved([END(x) - 0.1, END(v)], path=[(x, 0.05, 1)]),
        r"path condition 0 \(x\) cannot be met .*at least 0.05|at_start\(x\)\) cannot be met",
    ),
    "too short a time": (
        lambda: ks.Collocation(
            CART,
            ks.Experiment(nodes=41, duration=(0.1, 0.5)),
            boundary=[*REST, END(x) - 1, END(v)],
            objective=ks.Integral(F**2),
            unknown_inputs={F: (-1, 1)},
        ),
        r"upper bound 0.5 s of the duration holds it|at_end\(x\) - 1\) cannot be met",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_in_three_lines(mistake):
    make, words = MISTAKES[mistake]
    problem = make()
    solution = problem.solve(max_iterations=200)
    assert mistake == "said twice" or not solution.success
    found = solution.why()
    assert found and str(found).startswith(problem.model.name)
    assert any(re.search(words, cause) for cause in found.causes[:3]), str(found)
    assert len(str(found).splitlines()) < 25
    assert problem.why()  # before a solve, too


# -- data that are not what the model takes them for ----------------------------------------------

inertia, c, g, mass, arm = sp.symbols("I c g m l")
TRUE = {inertia: 0.25, c: 0.05, g: 9.81, mass: 1.2, arm: 0.4}
RECORD = np.linspace(0.0, 4.0, 201)
TORQUE = 0.8 * np.sin(2.3 * RECORD) + 0.5 * np.sin(5.1 * RECORD + 1.0)


@pytest.fixture(scope="module")
def driven():
    """A pendulum with a torque, and a noisy record of its angle and rate."""
    gravity = mass * g * arm * sp.sin(theta)
    model = ks.Model(
        "driven",
        [theta, omega],
        [T],
        [*TRUE],
        [theta.diff(t) - omega, inertia * omega.diff(t) + c * omega + gravity - T],
        values=TRUE,
    )
    run = ks.simulate(model, RECORD, {theta: 0.1, omega: 0.0}, inputs={T: TORQUE})
    noise = np.random.default_rng(1).normal(size=(2, len(RECORD)))
    return model, run["theta"] + 0.003 * noise[0], run["omega"] + 0.01 * noise[1]


DATA = {
    "right": (lambda y, w: {}, None),
    "channels exchanged": (lambda y, w: {"y": w, "w": y}, "omega and theta exchanged"),
    "degrees of an angle": (lambda y, w: {"y": np.degrees(y)}, "theta taken as degrees"),
    "degrees of a rate": (lambda y, w: {"w": np.degrees(w)}, "omega taken as degrees"),
    "sign of an angle": (lambda y, w: {"y": -y}, "theta with the other sign"),
    "sign of a rate": (lambda y, w: {"w": -w}, "omega with the other sign"),
    "sign of a force": (lambda y, w: {"u": -TORQUE}, "the input T with the other sign"),
    "newton millimetres": (lambda y, w: {"u": 1e3 * TORQUE}, "the input T divided by 1000"),
    "time reversed": (lambda y, w: {"y": y[::-1], "w": w[::-1]}, "with time reversed"),
    "gravity upwards": (lambda y, w: {"known": {g: -9.81}}, "the known g with the other sign"),
    "a length in millimetres": (
        lambda y, w: {"known": {arm: 400.0}},
        "the known l divided by 1000",
    ),
    "wrong order of parameters": (
        lambda y, w: {"known": {c: 0.4, arm: 0.05}, "unknown": {inertia: (0.01, 10.0)}},
        "the known c and l exchanged",
    ),
    "a bound of a parameter off by ten": (
        lambda y, w: {"unknown": {inertia: (1.0, 10.0), c: (0.0, 5.0)}},
        "the parameter I has gone to its lower bound 1",
    ),
    "a missing force": (
        lambda y, w: {"known": {g: 0.0}},
        "the model lacks something",
    ),
}


#: Of a kind that another row shows for another channel.
ALIKE = {"degrees of a rate", "sign of an angle", "sign of a rate"}


@pytest.mark.parametrize(
    "mistake", [pytest.param(name, marks=[pytest.mark.study] * (name in ALIKE)) for name in DATA]
)
def test_mistakes_in_data_are_named_in_three_lines(driven, mistake):
    make, words = DATA[mistake]
    model, y, w = driven
    given = {
        "y": y,
        "w": w,
        "u": TORQUE,
        "known": {},
        "unknown": {inertia: (0.01, 10.0), c: (0.0, 5.0)},
    }
    given |= make(y, w)
    problem = ks.Collocation(
        model,
        ks.Experiment(
            RECORD, inputs={T: given["u"]}, measurements={theta: given["y"], omega: given["w"]}
        ),
        given["unknown"],
        known=given["known"],
    )
    found = problem.solve(max_iterations=200).why()
    if words is None:
        assert not found
    else:
        first = 1 if "degrees" in mistake else 3  # nobody measures angles in millimetres
        assert any(words in cause for cause in found.causes[:first]), str(found)
        assert "degrees" not in mistake or "millimetres" not in str(found)


def test_the_nearest_point_is_a_guess():
    """Of a problem that can be met, from a point at which its conditions are met."""
    problem = moved([END(x) - 0.1, END(v)])
    found = problem.why()
    assert found.causes[0].startswith("all conditions can be met together")
    z = problem.pack(found.nearest)
    assert problem.violations(z).largest < 1e-6
    assert problem.solve(guess=found.nearest).success


def test_parameters_without_influence():
    problem = ks.Collocation(
        ks.Model("two", [x], [], [m, k], [x.diff(t) + m * x + 0 * k]),
        ks.Experiment(TIME, measurements={x: np.exp(-TIME)}),
        {m: None, k: (0, 1)},
    )
    words = problem.why({m: 1.0, k: 0.5}).causes
    assert any("nothing depends on the unknown parameter k" in cause for cause in words)


def test_an_equation_said_again():
    problem = moved([END(x) - 0.1, END(v)], path=[(v - x.diff(t), 0, 0)])
    assert "Derivative(x, t)) is not independent of the equations" in problem.why().causes[0]


def test_kinks():
    """At zero, where a course without a guess is; not beside it, and not where slopes are zero."""
    drag = [x.diff(t) - v, v.diff(t) - F + sp.Abs(v) / 2]
    cart = ks.Model("drag", [x, v], [F], [], drag)
    conditions = [*REST, END(x) - 0.1, END(v)]
    more = {"boundary": conditions, "unknown_inputs": {F: (-9, 9)}}
    problem = ks.Collocation(
        cart, ks.Experiment(TIME), objective=ks.Integral(F**2 + sp.Abs(F - 1)), **more
    )
    kinks = [cause for cause in problem.why().causes if "kink" in cause]
    assert len(kinks) == 1 and kinks[0].startswith("equation 1 (v') has a kink at interval 0")
    kinks = [cause for cause in problem.why({v: 0.5, F: 1.0}).causes if "kink" in cause]
    assert len(kinks) == 1 and kinks[0].startswith("the objective has a kink")
    smooth = ks.Collocation(CART, ks.Experiment(TIME), objective=ks.Integral(F**2), **more)
    assert not [cause for cause in smooth.why().causes if "kink" in cause]


def test_with_a_delay():
    """Rows of what is delayed are no equations, and have no kinks of their own."""
    late = ks.delayed(x, 0.1)
    model = ks.Model("late", [x], [F], [], [x.diff(t) + sp.Abs(late) - F])
    problem = ks.Collocation(
        model,
        ks.Experiment(TIME),
        objective=ks.Integral(F**2),
        unknown_inputs={F: (-9, 9)},
        boundary=[ks.at_start(x) - 1, END(x) - 2],
    )
    found = problem.solve().why()
    assert not [cause for cause in found.causes if "kink" in cause or "independent" in cause]
    kinks = [cause for cause in problem.why({x: 0.0, F: 0.0}).causes if "kink" in cause]
    assert kinks and all(cause.startswith("equation 0 (x')") for cause in kinks)


def test_a_car_that_stands():
    """Its wheel turns it nowhere: only at that point conditions depend on each other."""
    y, heading, wheel = ks.dynamicsymbols("y heading wheel")
    equations = [
        x.diff(t) - v * sp.cos(heading),
        y.diff(t) - v * sp.sin(heading),
        heading.diff(t) - v * wheel,
        v.diff(t) - F,
    ]
    car = ks.Model("car", [x, y, heading, v], [F, wheel], [], equations)
    ends = [*(ks.at_start(each) for each in (x, y, heading, v)), END(x) - 1, END(y) - 1]
    problem = ks.Collocation(
        car,
        ks.Experiment(TIME),
        objective=ks.Integral(F**2 + wheel**2),
        unknown_inputs={F: (-20, 20), wheel: (-5, 5)},
        boundary=ends,
    )
    still = problem.why({each: 0.0 for each in (x, y, heading, v)}).causes[0]
    assert re.search(r"at this point what is free cannot change .*at_end\(y\) - 1", still)
    moving = problem.why({x: np.linspace(0, 1, 41), y: np.linspace(0, 1, 41), v: 1.0})
    assert not any("independent" in cause for cause in moving.causes)


def test_pictures_and_files(tmp_path):
    solution = moved([END(x) - 5, END(v)]).solve()
    figure = solution.plot_convergence()
    assert [axis.get_ylabel() for axis in figure.axes] == ["objective", ""]
    assert "see solution.why()" in str(solution)
    solution.save(tmp_path / "lost.nc")
    loaded = ks.Solution.load(tmp_path / "lost.nc")
    with pytest.raises(ValueError, match=r"use problem.why\(solution\)"):
        loaded.why()
    again = moved([END(x) - 5, END(v)]).why(loaded)
    assert "at least 4.75" in again.causes[0]


# -- what holds conditions ------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["backward-euler", "midpoint", "gauss-4", "radau-5"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_bounds_that_would_do(scheme, scale):
    """From rest to rest in a time T over a way s takes at least 4 s/T^2 of force per mass, whatever
    the unit of length; backward Euler's optimum is off by a step."""
    task = ks.Collocation(
        CART,
        ks.Experiment(np.linspace(0.0, 2.0, 201)),
        boundary=[*REST, END(x) - 5.0 * scale, END(v)],
        objective=ks.Integral(F**2),
        unknown_inputs={F: (-scale, scale)},
        scheme=scheme,
    )
    causes = task.why().causes
    (found,) = [
        re.findall(r"F [<>]= (\S+) instead of (\S+)\b", c) for c in causes if "could be" in c
    ]
    (low, was_low), (high, was_high) = found
    assert (float(was_low), float(was_high)) == (-scale, scale)
    assert [float(low), float(high)] == pytest.approx([-5 * scale, 5 * scale], rel=0.02)
    assert [c.split(" holds it")[0] for c in causes if " holds it" in c] == [
        f"the lower bound {-scale:g} of F",
        f"the upper bound {scale:g} of F",
    ]


def test_limits_of_path_conditions_that_hold():
    """0.2 m in 1 s cannot be gone at no more than 0.1 m/s."""
    causes = moved([END(x) - 0.2, END(v)], path=[(v, -0.1, 0.1)]).why().causes
    assert "cannot be met" in causes[0]
    assert causes[1].startswith(
        "the upper limit 0.1 of path condition 0 (v) holds it, between t = "
    )


def test_bounds_of_a_duration_and_of_parameters_that_would_do():
    """5 m by a cart of 10 kg within 1 s with 1 N: a longer time, or a lighter cart, would do."""
    heavy = ks.Collocation(
        CART,
        ks.Experiment(nodes=41, duration=(0.5, 1.0)),
        unknown={m: (10, 20)},
        boundary=[*REST, END(x) - 5, END(v)],
        objective=ks.Integral(F**2),
        unknown_inputs={F: (-1, 1)},
    )
    (words,) = [cause for cause in heavy.why().causes if "could be met with" in cause]
    assert "instead of" in words


# -- what a user saw who broke problems -----------------------------------------------------------


def decayed(**more):
    """A fit of m in x' = -m x to exp(-2 t)."""
    given = {"unknown": {m: None}, "values": np.exp(-2 * TIME), **more}
    values = given.pop("values")
    model = ks.Model("decay", [x], [], [m], [x.diff(t) + m * x])
    return ks.Collocation(model, ks.Experiment(TIME, measurements={x: values}), **given)


def test_nothing_is_said_of_bounds_that_are_not_there():
    for bounds in (None, (None, 10), (0, None)):
        assert not decayed(unknown={m: bounds}).solve().why()


def test_a_small_parameter_is_not_at_its_bound():
    model = ks.Model("slow", [x], [], [m], [x.diff(t) + m * x])
    time = np.linspace(0.0, 1e6, 41)
    trial = ks.Experiment(time, measurements={x: np.exp(-3e-6 * time)}, std={x: 1e-3})
    solution = ks.Collocation(model, trial, {m: (0, 1)}).solve({m: 1e-5})
    assert solution.parameters["m"] == pytest.approx(3e-6, rel=0.02)
    assert not solution.why()


def test_path_conditions_that_contradict_each_other():
    causes = moved([END(v)], path=[x >= 0.75, x <= 0.7]).why().causes
    assert any("path condition" in cause and "cannot be met" in cause for cause in causes)


def test_a_condition_at_its_top_says_nothing_there():
    """cos(theta) = -1 has no slope where theta = pi: nothing is made up of its rounding."""
    conditions = [
        END(theta) - np.pi,
        sp.cos(END(theta)) + 1,
        ks.at_start(theta),
        ks.at_start(omega),
    ]
    problem = swung(conditions, unknown_inputs={T: (-30, 30)})
    solution = problem.solve()
    assert solution.success
    for why in (problem.why(), solution.why()):
        words = " ".join(why.causes)
        assert "says the same as :" not in words and "cannot be met" not in words


def test_an_input_that_acts_on_nothing():
    idle = ks.Model("idle", [x, v], [F], [], [x.diff(t) - v, v.diff(t)])
    problem = ks.Collocation(
        idle,
        ks.Experiment(TIME),
        objective=ks.Integral(F**2),
        unknown_inputs={F: (-1, 1)},
        boundary=[*REST, END(x) - 1],
    )
    first = "no equation and no condition has the unknown input F"
    assert problem.why().causes[0].startswith(first)


def test_data_beyond_bounds_and_beside_the_start():
    beyond = decayed(bounds={x: (0.5, 2)}).why().causes[0]
    assert re.match(r"\d+ % of the samples of x lie outside of its bounds \(0.5, 2\)", beyond)
    beside = decayed(boundary=[ks.at_start(x) - 3]).why().causes[0]
    assert beside == "x is to start at 3, but its first sample is 1"
    assert not decayed(boundary=[ks.at_start(x) - 1], bounds={x: (0, 2)}).solve().why()


def test_noise_that_was_told_is_no_mistake():
    rough = np.exp(-2 * TIME) + np.random.default_rng(0).standard_normal(41)
    model = ks.Model("decay", [x], [], [m], [x.diff(t) + m * x])
    trial = ks.Experiment(TIME, measurements={x: rough}, std={x: 1.0})
    solution = ks.Collocation(model, trial, {m: (0.1, 20)}).solve()
    assert not any("does not follow" in note for note in solution.notes)
    assert not any("the model lacks" in cause for cause in solution.why().causes)


def test_units_of_all_channels(driven):
    model, y, w = driven
    record = {theta: np.degrees(y), omega: np.degrees(w)}
    problem = ks.Collocation(
        model,
        ks.Experiment(RECORD, inputs={T: TORQUE}, measurements=record),
        {inertia: (0.01, 10.0), c: (0.0, 5.0)},
    )
    causes = problem.solve(max_iterations=200).why().causes
    assert "theta, omega taken as degrees" in causes[0] or "omega, theta taken" in causes[0]
