"""What is said of models, trials and unknowns that do not fit together, in one sentence each."""

import warnings

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.multibody import Body, PrescribedBase, Revolute, Tree

t = ks.t
x, v, u, w = ks.dynamicsymbols("x v u w")
k, c = sp.symbols("k c")
TIME = np.linspace(0.0, 1.0, 11)
MODEL = ks.Model(
    "osc",
    [x, v],
    [u, w],
    [k, c],
    [x.diff(t) - v, v.diff(t) + k * x + c * v - u - w],
    values={k: 4.0, c: 0.1},
    positive=[c],
)
START = {x: 1.0, v: 0.0}


def trial(**changes):
    given = {"inputs": {u: 0.0, w: 0.0}, "measurements": {x: np.cos(TIME)}}
    return ks.Experiment(TIME, **{**given, **changes})


def collocation(trials=None, links=(), cycle=(), **more):
    given = trials or trial()
    if links or cycle:
        given = ks.Phases(given if isinstance(given, list) else [given], links, cycle)
    return ks.Collocation(MODEL, given, **{"unknown": {k: (0, 9)}, **more})


def shooting(trials=None, **more):
    given = {"unknown": {k: (0, 9)}, "initial": START, **more}
    return ks.Shooting(MODEL, trials or trial(), **given)


def hybrid(trials=None, **more):
    given = {"unknown": {k: (0, 9)}, "initial": START, **more}
    return ks.Shooting(kh.Hybrid(MODEL), trials or trial(), **given)


EVERY = [collocation, shooting, hybrid]


@pytest.mark.parametrize("make", [ks.Collocation, ks.Shooting])
@pytest.mark.parametrize(
    ("model", "trials", "words"),
    [
        (trial(), MODEL, "expected a kinesym.Model, got <experiment.*; the model comes first"),
        (None, trial(), "expected a kinesym.Model, got None$"),
        (MODEL, None, "trials must be an Experiment or a list of them, .* got NoneType"),
        (MODEL, 5, "trials must be an Experiment or a list of them, .* got int"),
        (MODEL, "trial", "trials must be an Experiment or a list of them, .* got str"),
        (MODEL, {"a": trial()}, "trials must be an Experiment or a list of them, .* got dict"),
        (MODEL, [trial(), None], "trials must be an Experiment or a list of them, .* got NoneType"),
        (MODEL, [], "at least one experiment, got none"),
        (MODEL, iter([]), "at least one experiment, got none"),
    ],
)
def test_models_and_trials(make, model, trials, words):
    both = "kinesym.Model or kinesym.hybrid.Hybrid"
    words = words if make is ks.Collocation else words.replace("kinesym.Model", both)
    with pytest.raises(ValueError, match=words):
        make(model, trials, {k: None})
    if make is ks.Shooting:
        with pytest.raises(ValueError, match=words):
            turned = kh.Hybrid(MODEL) if trials is MODEL else trials
            make(kh.Hybrid(MODEL) if model is MODEL else model, turned, {k: None})


def test_trials_from_a_generator():
    for make in EVERY:
        assert len(make(trial() for _ in range(2)).trials) == 2


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unknown": {k: (np.inf, np.inf)}}, r"bounds of k, \(inf, inf\), leave nothing finite"),
        ({"unknown": {k: (None, -np.inf)}}, r"bounds of k, \(-inf, -inf\), leave nothing finite"),
        ({"unknown": {k: (2, 1)}}, "bounds of k are crossed: 2 > 1"),
        (
            {"unknown": {k: (np.nan, 1)}},
            r"bounds of k must be \(low, high\) or None, got \(nan, 1\)",
        ),
        (
            {"unknown": {k: ("low", 1)}},
            r"bounds of k must be \(low, high\) or None, got \('low', 1\)",
        ),
        ({"unknown": {k: (1j, 2)}}, r"bounds of k must be \(low, high\) or None"),
        ({"unknown": {c: (-2, -1)}}, r"bounds of c are \(-2, -1\), but it must be positive"),
        ({"unknown": [k]}, "unknown must be a mapping"),
        (
            {"known": {c: [1, 2]}},
            r"value of parameter c must be one finite number, got \[1",
        ),
        (
            {"known": {c: np.array([1.0])}},
            "value of parameter c must be one finite number",
        ),
        ({"known": {c: "a"}}, "the value of parameter c must be real numbers, got text"),
        ({"known": {c: None}}, "the value of parameter c must be one finite number, got None"),
        ({"known": {c: 1j}}, "the value of parameter c must be real numbers, got complex"),
        (
            {"known": {c: np.inf}},
            "the value of parameter c must be one finite number, got",
        ),
    ],
)
def test_unknown_and_known(make, changes, words):
    with pytest.raises(ValueError, match=words):
        make(**changes)


def test_values_that_are_arrays():
    """Named before anything is derived, whether the parameter is known or not."""
    odd = ks.Model("odd", [x], [], [k, c], [x.diff(t) + k * c * x], values={k: 1.0})
    object.__setattr__(odd, "values", {"k": np.array([1.0, 2.0]), "c": 1.0})
    for unknown in ({k: None}, {c: None}):
        with pytest.raises(ValueError, match="the value of parameter k must be one finite number"):
            ks.Collocation(odd, ks.Experiment(TIME, measurements={x: TIME}), unknown)


@pytest.mark.parametrize("make", [collocation, shooting])
@pytest.mark.parametrize("threads", [0, -1, 1.5, "two", True])
def test_threads(make, threads):
    with pytest.raises(ValueError, match="threads must be at least 1 and whole, got"):
        make(threads=threads)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tolerance": "small"}, "tolerance must be positive, got 'small'"),
        ({"tolerance": 0.0}, "tolerance must be positive, got 0"),
        ({"tolerance": np.nan}, "tolerance must be positive, got nan"),
        ({"max_iterations": "many"}, "max_iterations must be at least 0 and whole, got 'many'"),
        ({"max_iterations": 1.5}, "max_iterations must be at least 0 and whole, got 1.5"),
        ({"max_iterations": -1}, "max_iterations must be at least 0 and whole, got -1"),
        ({"options": 5}, "options must be a mapping"),
    ],
)
def test_numbers_of_a_solve(changes, words):
    for problem in made():
        with pytest.raises(ValueError, match=words):
            problem.solve(**changes)


def made(done=[]):  # noqa: B006
    """One problem of each kind, made once."""
    done.extend([] if done else [make() for make in EVERY])
    return done


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"segments": 1.5}, "segments must be at least 1 and whole, got 1.5"),
        ({"segments": "two"}, "segments must be at least 1 and whole, got 'two'"),
    ],
)
def test_steps(changes, words):
    with pytest.raises(ValueError, match=words):
        shooting(**changes)


def test_whole_numbers_of_any_kind_are_counts():
    assert len(shooting(segments=2.0, substeps=np.int64(2)).names) == 3


def test_numbers_of_a_hybrid_run():
    with pytest.raises(ValueError, match="rtol must be positive, got 'fine'"):
        hybrid(rtol="fine")
    on = sp.Symbol("on")
    with pytest.raises(ValueError, match="the value of parameter on must be real numbers, got te"):
        pieces = ks.Signal.pieces([0, on], [0, 1])
        hybrid(trial(inputs={w: 0.0, u: pieces}), known={on: "soon"})


# -- trials against each other, and against the model ---------------------------------------------


def test_inputs_that_are_held_differently():
    held = trial(inputs={u: ks.Signal(TIME, np.zeros(len(TIME)), "held"), w: 0.0})
    trials = [held, held, trial(inputs={u: 0.0, w: 0.0})]
    with pytest.raises(ValueError, match="u is held in trial 0 and linear in trial 2; give held"):
        collocation(trials)


def test_inputs_that_only_outputs_need():
    """The velocity of a deck moves nobody; the output that asks for it is named."""
    person = Tree(
        "person",
        [
            Body("body", 70.0, (0, 0, 1.0), (10, 10, 1), Revolute("y")),
        ],
        PrescribedBase("deck"),
        gravity=(0, 0, -9.81),
    )
    model = person.model(torques=person.torque_inputs(), outputs=["places", "energy"])
    measured = {model.state_names[0]: 0.0 * TIME}
    inputs = dict.fromkeys(model.input_names, 0.0)
    only = "; only outputs need it: kinetic_energy"
    for name, words in (("deck_vx", only), ("deck_ax", "unknown_inputs$")):
        given = {n: value for n, value in inputs.items() if n != name}
        experiment = ks.Experiment(TIME, given, measured)
        with pytest.raises(ValueError, match=f"input {name} has no data in trial 0.*{words}"):
            ks.Collocation(model, experiment)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"boundary": [x.subs(t, 0.5) - 0.3]},
            r"boundary condition 0 contains x\(0.5\), a value at another time",
        ),
        (
            {"boundary": [ks.at_start(x), (x.subs(t, 0), 0, 1)]},
            r"boundary condition 1 contains x\(0\)",
        ),
        (
            {"boundary": [x.diff(t).subs(t, 0.5)]},
            "boundary condition 0 contains .*, a value at another time",
        ),
        ({"path": [x.subs(t, 0.5) - x]}, r"path condition 0 contains x\(0.5\)"),
        ({"cycle": [x.subs(t, 1) - ks.at_start(x)]}, r"cycle condition 0 contains x\(1\)"),
        ({"objective": ks.Terminal(x.subs(t, 0.5) ** 2)}, r"terminal cost contains x\(0.5\)"),
        (
            {"objective": ks.Integral((x - x.subs(t, t - 0.1)) ** 2)},
            r"integrand contains x\(t - 0.1",
        ),
    ],
)
def test_times_inside_a_trial(changes, words):
    with pytest.raises(ValueError, match=words) as error:
        collocation(**changes)
    assert "at_start(...) and at_end(...)" in str(error.value)


def test_links_of_one_trial():
    tied = [ks.at_end(x) - ks.at_start(x)]
    with pytest.raises(ValueError, match=r"there is only one; .* boundary=.*, or cycle="):
        collocation(links=tied)
    assert collocation([trial(), trial()], links=tied).n_constraints > 0


# -- degrees ---------------------------------------------------------------------------------------

theta, omega, place, rate = ks.dynamicsymbols("theta omega place rate")
LONG = np.linspace(0.0, 20.0, 401)


def pendulum(angle=theta, force=sp.sin):
    return ks.Model(
        "p", [angle, omega], [], [k], [angle.diff(t) - omega, omega.diff(t) + k * force(angle)]
    )


def said(model, y, make=ks.Collocation, **more):
    first = model.state_names[0]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        make(model, [ks.Experiment(LONG, measurements={first: y})] * 2, {k: (1, 9)}, **more)
    return [str(warning.message) for warning in told if "degrees" in str(warning.message)]


SWING = 30.0 * np.sin(2.0 * LONG)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (pendulum(), SWING),  # by its name, and in a sine
        (pendulum(place), SWING + 10.0),  # in a sine
        (pendulum(force=lambda q: q), np.where(LONG > 5, SWING, np.nan)),  # by its name
        (pendulum(), np.where(LONG < 4, SWING, np.nan)),  # of a record as long as one and a half
        (pendulum(), 6.0 * np.sin(3.0 * LONG) + 10.0 * np.exp(-LONG)),  # after a transient
    ],
)
def test_what_looks_like_degrees(model, y):
    words = said(model, y)
    assert len(words) == 1 and words[0].startswith("trial 0 measures "), words
    assert "angles are in radians: np.deg2rad" in words[0]


def test_degrees_by_shooting():
    start = {"initial": {theta: 0.0, omega: 0.0}}
    assert len(said(pendulum(), SWING, ks.Shooting, **start)) == 1
    make = lambda model, *args, **more: ks.Shooting(kh.Hybrid(model), *args, **more)  # noqa: E731
    assert len(said(pendulum(), SWING, make, **start)) == 1


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (pendulum(), 0.5 * np.sin(2.0 * LONG)),
        (pendulum(), 6.0 * np.sin(2.0 * LONG)),  # to and fro over less than a turn
        (pendulum(), 2.5 * LONG + 0.1 * np.sin(30.0 * LONG)),  # turns round and round
        (pendulum(), 2.5 * np.abs(LONG - 10.0)),  # turns back once
        (pendulum(), 40.0 + 0.3 * np.sin(LONG)),  # after some turns
        (pendulum(place, lambda q: q), SWING),  # no angle: a place in metres
        (pendulum(), 5000.0 * np.sin(LONG)),  # nor degrees
    ],
)
def test_what_does_not_look_like_degrees(model, y):
    assert said(model, y) == []


# -- values of the controlled inverted pendulum ----------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"KP": 600.0},
            r"unstable, with the eigenvalue 0\.\d+.* KP must exceed m g h = 665.1 N m/rad",
        ),
        ({"KD": 1.0}, "unstable, with the eigenvalue .* must exceed I KI"),
        ({"KI": -5.0}, "the loop is unstable"),
        ({"I": 60.0}, "I = 60 kg m.2 is less than m h.2 = 76.61: no body"),
    ],
)
def test_doubtful_values_of_standing(values, words):
    with pytest.warns(UserWarning, match=words) as told:
        model = ks.models.cip(**values)
    assert len(told) == 1 and told[0].filename == __file__
    assert model.values == {**ks.models.cip().values, **values}


def test_published_values_of_standing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ks.models.cip()
        ks.models.cip(m=76.0, I=66.0, h=0.87, KP=970.0, KI=17.0, KD=344.0)  # Maurer, Peterka 2005
        ks.models.cip(KI=0.0)
    with pytest.raises(ValueError, match="KQ is unknown"):
        ks.models.cip(KQ=1.0)
