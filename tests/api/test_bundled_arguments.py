"""Arguments of problems travel in bundles: each of them, of every kind; published problems are the
same when they are read; what is code is refused by its place."""

import importlib
import inspect
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import sympy as sp

import kinesym as ks
from kinesym.bundles import _arguments
from kinesym.cli import example_names
from kinesym.codegen.c import emit
from kinesym.examples import gallery
from kinesym.examples.studies.bounces import ball
from kinesym.internal.fitting.bundled import KINDS, members_of, told_in
from kinesym.internal.problems.content import digest
from kinesym.symbolic.text import document

x, v, u, ref = ks.dynamicsymbols("x v u ref")
k, c, tau, a = sp.symbols("k c tau a")
m = sp.Symbol("m", positive=True)
TIME = np.linspace(0.0, 2.0, 5)
SPRING = ks.Model(
    *("spring", [x, v], [u], [k, c]),
    equations=[x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v - u],
    values={k: 9.0, c: 0.2},
)
LATE = ks.Signal([0.0, 0.7, 1.1, 2.0], [1.0, 0.5, np.nan, 0.1])
DRIVEN = ks.Experiment(
    TIME,
    {
        "u": ks.Signal([0.0, 0.7, 1.0, 2.0], [0.0, 1.0, 0.2, 0.1], "cubic"),
        "held": ks.Signal([0.0, 1.0], [1.0, 2.0], "held"),
        "level": 2.0,
        "jumps": ks.Signal.pieces([0.0, 1.0], [1.0, 2.0], [0.5, 0.0]),
        "unknown": ks.Signal.pieces([0.0, tau], [a, 2.0 * m]),
        "bent": ks.Signal.parabolas([0.0, 2.0], [0.0, 1.0, 0.0]),
        "terms": ks.Signal.polynomials([0.0, 1.0, 2.0], [[1.0, 2.0], [0.5, 0.0]]),
    },
    {"x": [0.0, np.nan, 0.2, 0.3, 0.1], "v": LATE, "y": np.ones(5), "z": np.ones(5)},
    {"x": 0.1, "v": "both", "y": [1.0, 2.0, 1.0, 2.0, 1.0], "z": "both"},
    parameters={"m": 2.0},
    labels={"subject": "s03", "day": 2},
    bounds={"x": (None, 1.0), "v": ([0, -1, -1, -1, 0], ks.Signal([0.0, 2.0], [1.0, 2.0]))},
    history={"x": ks.UnknownHistory(0.0, None, 3), "v": 1.0, "u": None},
)
SHARES = ks.Experiment(nodes=5, duration=(0.5, 2.0), measurements={"x": np.ones(5)})
NOISY = ks.Experiment(
    TIME,
    {},
    {"x": ks.censored([0.0, 1.0, 2.0, 0.4, 1.0], below=0.5), "v": LATE},
    {"x": a + c * x},
    parameters={m: a / 2, "k": 1.5},
    before=ks.steady({m: a}, {"u": 0.5}, {x: 0.1}),
)
PHASES = ks.Phases(
    [
        ks.Phase(("floor",), nodes=7, inputs={"u": np.arange(7.0)}),
        ks.Phase(hits=[], modes={"on": 1}),
    ],
    links=[ks.at_end(x) - ks.at_start(x)],
    cycle=[ks.periodic(x, v, -1)],
    start=[(ks.at_start(v), 0.0, None)],
    maps=[{"x": x - a}],
    joints=[[sp.Eq(ks.at_end(v), 0)]],
    drift=1e-3,
)
TABLE = ks.table(x, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0], "linear", name="law")
OWN = ks.function("soft", [k], sp.log(1 + sp.exp(k)), [1 / (1 + sp.exp(-k))])
BOTH = {
    "system": [SPRING, ball()],
    "trials": [DRIVEN, NOISY, SHARES, SHARES.with_std({"x": 0.3}), PHASES],
    "unknown": {
        "free": None,
        "within": (1, np.inf),
        "array": np.array([0.0, 1.0]),
        "prior": ks.normal(2.0, 0.5, low=0.0),
        "density": ks.prior("log-laplace", 0.0, 1.0, high=9.0),
        "log": ks.log_scale(1e-3, 10),
        "random": ks.per("subject", ks.lognormal((1, 3), None)),
        "each": ks.per_trial(-1, 1),
    },
    "known": {"k": np.float32(0.1), "c": 3, "!odd": 1.0},
    "unknown_inputs": {
        "a": ks.held(-1, 1, every=0.5, max_rate=2.0),
        "b": ks.linear(None, np.ones(5)),
        "c": ks.continuous(-1, 1, max_rate=3),
        "d": None,
    },
    "threads": 2,
    "sensors": {"imu": ks.sensor(9.81 * x, bias=a, gain=1 + m, delay=tau), "plain": x**2},
}
COLLOCATION = BOTH | {
    "scheme": "gauss-4",
    "objective": ks.Integral((x - ref) ** 2 + TABLE + OWN(v) * v.diff(ks.t))
    + 0.1 * ks.Terminal(ks.t + m * (x - ks.at_start(x)))
    + ks.l1(u)
    + ks.total_variation(u)
    + 2.0 * ks.LeastSquares("huber", 1.5),
    "bounds": {
        "x": (None, 1.0),
        "v": ([0, 1], DRIVEN.signals["bent"]),
        "s": (-1.0, pd.Series([1.0, 2.0])),
    },
    "boundary": [
        ks.at_start(x) - sp.Rational(1, 3),
        (ks.at_end(x) * ks.at_start(v), -1.0, None),
        sp.Eq(ks.at_end(v), 1),
        ks.integral(u**2) <= 5,
        ks.homotopy(x, 0) > 0,
    ],
    "path": (v <= 2, ks.at(0.3, x - 0.5), ks.at(tau, v), ks.during((0.1, 0.2), (x, 0, m))),
    "noise": {"u": ks.log_scale(0.1, 2), "w": 0.3, "y": None},
    "homotopy": "data",
}
SHOOTING = BOTH | {
    "initial": [{"x": a**2, "v": None, "contact": True}, {"x": (0, 1), "v": [0.1, 0.2]}],
    "objective": ks.LeastSquares("student"),
    "method": "radau-5",
    "segments": 3,
    "substeps": 4,
    "rtol": 1e-6,
    "atol": 1e-8,
}


def again(told, folder):
    """What is read of what was written, which is written as it was."""
    members = members_of(told)
    models = {}
    for name, system in members.models.items():
        system.write(folder / name)
        models[name] = type(system).read(folder / name)
    found = told_in(document.loaded(members.text.encode()), members.arrays, models)
    written = members_of(found)
    assert written.text == members.text and written.arrays.keys() == members.arrays.keys()
    return found


@pytest.mark.parametrize(
    ("problem", "examples"), [(ks.Collocation, COLLOCATION), (ks.Shooting, SHOOTING)]
)
def test_every_argument_travels(problem, examples, tmp_path):
    assert examples.keys() == inspect.signature(problem).parameters.keys()
    found = again(examples, tmp_path)
    examples = examples | {"known": {**examples["known"], "k": float(np.float32(0.1))}}
    for name, value in examples.items():
        if name == "bounds":
            np.testing.assert_array_equal(found["bounds"]["s"][1], value["s"][1])
            found["bounds"]["s"] = value["s"]
        assert digest(found[name]) == digest(value), name


def test_every_kind_has_an_example(tmp_path):
    """So that a kind that is written and not read, or an attribute of one, is noticed."""
    text = members_of({"a": COLLOCATION, "b": SHOOTING}).text
    assert all(f'"!{name}"' in text for name in (*KINDS, "pairs"))
    trials = document.loaded(text.encode())["a"]["trials"]["!list"]
    written = {name for trial in trials[:3] for name in trial["!experiment"]}
    assert {field.name for field in fields(ks.Experiment) if field.init} <= written


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"bounds": {x: (np.sin, None)}}, "bounds/x/0, which is the function sin"),
        ({"path": [lambda t: t]}, "path/0, which is a function"),
        ({"options": {"executor": object()}}, "options/executor, which is an object of type"),
        ({"known": {k: np.array(["a"])}}, "known/k, an array of <U1"),
        ({"path": [k - 1, sp.Symbol("k", real=True)]}, "two symbols of the name k, made with"),
        (
            {"path": [ks.function("mine", [k], "sin(k)", [sp.cos(k)], python=np.sin)(x)]},
            "the function mine has C text and no expression",
        ),
    ],
)
def test_code_is_refused_by_its_place(told, words):
    with pytest.raises(ValueError, match=words):
        members_of(told)


#: Published problems that show most; the others are studies. The muscles of SymPy, in the last one,
#: are written out.
SHORT = ("car_on_racecourse", "delay_chain", "crane", "particle_in_tube", "refraction")
PUBLISHED = [
    pytest.param(name, marks=[] if name in SHORT else [pytest.mark.study])
    for name in example_names(gallery)
]
WRITTEN_OUT = ("one_legged_time_trial",)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_problems_are_the_same_when_read(name, tmp_path):
    problem = importlib.import_module(f"kinesym.examples.gallery.{name}").problem(nodes=11)
    problem = problem[0] if isinstance(problem, tuple) else problem
    given = _arguments(problem.problem.formulation.question)
    found = ks.Collocation(**again({"arguments": given}, tmp_path)["arguments"])
    one, other = (each.problem for each in (problem, found))
    assert digest(one.per_trial) == digest(other.per_trial)
    for sides in ("variable_bounds", "constraint_bounds"):
        np.testing.assert_array_equal(getattr(one, sides), getattr(other, sides))
    same = digest(one.formulation.symbolic) == digest(other.formulation.symbolic)
    assert same or name in WRITTEN_OUT


def test_phases_of_a_system_with_events(tmp_path):
    """Landing and pressing, the contact forces unknown: the same C of the same problem."""
    height, speed, push, force = ks.dynamicsymbols("height speed push force")
    model = ks.Model(
        *("ball", [height, speed], [push, force], [k]),
        equations=[height.diff(ks.t) - speed, k * speed.diff(ks.t) + 9.81 - push - force],
        values={k: 1.0},
    )
    floor = ks.hybrid.Contact("floor", height, force)
    problem = ks.Collocation(
        ks.hybrid.Hybrid(model, contacts=[floor]),
        ks.Phases(
            [ks.Phase(nodes=5), ks.Phase(("floor",), nodes=5)], start=[ks.at_start(height) - 1]
        ),
        objective=ks.Integral(push**2),
        unknown_inputs={push: ks.held(-5, 5)},
    )
    given = _arguments(problem.problem.formulation.question)
    found = ks.Collocation(**again({"arguments": given}, tmp_path)["arguments"])
    assert emit(found.program).files == emit(problem.program).files
    np.testing.assert_array_equal(found.pack(), problem.pack())
