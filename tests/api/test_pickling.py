"""Everything public pickles and copies, and does the same where it lands: another process, one
without a compiler, one of another processor."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.hybrid import Contact, Hybrid
from kinesym.multibody import Body, FixedBase, Revolute, Tree
from kinesym.runtime.library import sent
from kinesym.runtime.native import Compiled

t = ks.t
x, v, u, y, vy, N = ks.dynamicsymbols("x v u y vy N")
k, c, g, tau = sp.symbols("k c g tau")
TIME = np.linspace(0.0, 2.0, 41)
OSCILLATOR = ks.Model(
    "oscillator",
    [x, v],
    [u],
    [k, c],
    [x.diff(t) - v, v.diff(t) + c * v + k * x - u],
    outputs={"force": k * x},
    values={k: 4.0, c: 0.3},
)
START = {x: 1.0, v: 0.0}
PUSH = {u: np.sin(TIME)}
RECORD = np.exp(-0.2 * TIME) * np.cos(2.0 * TIME)


def trial(**more):
    return ks.Experiment(TIME, inputs=PUSH, measurements={x: RECORD}, std={x: 0.01}, **more)


def fit(**more):
    return ks.Collocation(OSCILLATOR, trial(), unknown={k: (0, 20), c: (0, 5)}, **more)


def late():
    reflex = [x.diff(t) - v, v.diff(t) + k * ks.delayed(x, tau) + 0.5 * v - u]
    model = ks.Model("reflex", [x, v], [u], [k, tau], reflex, values={k: 2.0, tau: 0.1})
    return ks.Collocation(model, trial(), unknown={k: (0, 9), tau: (0.05, 0.2)}, scheme="midpoint")


def swing_up():
    return ks.Collocation(
        OSCILLATOR,
        ks.Experiment(nodes=31, duration=(0.5, 4.0)),
        objective=ks.Integral(u**2),
        unknown_inputs={u: (-9, 9)},
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)],
        path=[(v, -3, 3)],
    )


def ball():
    fall = [y.diff(t) - vy, vy.diff(t) + g - N]
    model = ks.Model("ball", [y, vy], [N], [g], fall, values={g: 9.81})
    return Hybrid(model, contacts=[Contact("floor", y, N)])


def arm():
    link = Body("link", mass=1.0, com=(0.4, 0, 0), inertia=(0.1, 0.1, 0.1), joint=Revolute("y"))
    return Tree("arm", [link], base=FixedBase(), gravity=(0, 0, -9.81))


def numbers(thing):
    """What it computes."""
    if isinstance(thing, ks.Collocation):
        return thing.solve(max_iterations=60).free_vector
    if isinstance(thing, ks.Shooting):
        return thing.gradient(thing.pack())
    if isinstance(thing, Hybrid):
        return ks.simulate(thing, TIME, {y: 1.0, vy: 0.0})["y"]
    if isinstance(thing, Tree):
        thing = thing.model()
    if isinstance(thing, ks.Model):
        inputs, starts = (
            dict.fromkeys(names, 0.3) for names in (thing.input_names, thing.state_names)
        )
        return ks.simulate(thing, TIME, starts, inputs=inputs)[thing.state_names[0]]
    return thing.residual(np.ones(2), np.ones(2), np.ones(1), np.ones(2))


MADE = {
    "model": lambda: OSCILLATOR,
    "compiled": lambda: ks.compile(OSCILLATOR),
    "fit": fit,
    "fit by radau-5 with noise": lambda: fit(scheme="radau-5"),
    "an unknown delay": late,
    "an optimal motion": swing_up,
    "shooting": lambda: ks.Shooting(OSCILLATOR, trial(), {k: (0, 20), c: (0, 5)}, initial=START),
    "implicit shooting": lambda: ks.Shooting(
        OSCILLATOR, trial(), {k: (0, 20)}, initial=START, method="trapezoid"
    ),
    "events": ball,
    "bodies": arm,
}


@pytest.fixture(scope="module")
def things():
    return {name: make() for name, make in MADE.items()}


@pytest.fixture(scope="module")
def found(things):
    return {name: numbers(thing) for name, thing in things.items()}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_copies(things, found, name, copied):
    np.testing.assert_array_equal(numbers(copied(things[name])), found[name])


WORKER = """
import pickle, sys, numpy as np
sys.path.insert(0, {here!r})
from test_pickling import numbers
with open({sent!r}, "rb") as file:
    found = {{name: numbers(pickle.loads(data)) for name, data in pickle.load(file).items()}}
with open({back!r}, "wb") as file:
    pickle.dump(found, file)
"""

#: These are made of their symbols again, which needs a compiler.
DERIVED = ("model", "events", "bodies")


def elsewhere(things, folder, environment):
    """What things compute in a new process with a cache of its own, empty at the start."""
    sent_, back = folder / "sent", folder / "back"
    sent_.write_bytes(pickle.dumps({name: pickle.dumps(thing) for name, thing in things.items()}))
    here = os.path.dirname(__file__)
    script = WORKER.format(here=here, sent=str(sent_), back=str(back))
    cache = {"KINESYM_CACHE": str(folder / "cache")}
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **cache, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return pickle.loads(back.read_bytes())


def test_a_process_without_a_compiler(things, found, tmp_path):
    """The libraries come along."""
    sendable = {name: thing for name, thing in things.items() if name not in DERIVED}
    there = elsewhere(sendable, tmp_path, {"CC": "/nowhere/cc"})
    for name in sendable:
        np.testing.assert_array_equal(there[name], found[name])


def test_a_process_with_a_compiler(things, found, tmp_path):
    few = {name: things[name] for name in ("fit", *DERIVED)}
    there = elsewhere(few, tmp_path, {})
    for name in few:
        np.testing.assert_allclose(there[name], found[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("where", ["another processor", "another C library"])
def test_what_cannot_run_here_is_built(things, found, where, monkeypatch, tmp_path):
    """A library for another processor, or C library, is not opened."""
    data = pickle.dumps(things["fit"])
    monkeypatch.setenv("KINESYM_CACHE", str(tmp_path / "cache"))
    system, able = sent._here()
    if where == "another processor":
        monkeypatch.setattr(sent, "_here", lambda: (system, [able[0]]))
    else:
        monkeypatch.setattr(sent, "_here", lambda: ((*system, "1"), able))
    monkeypatch.setattr(sent, "_stored", None)
    there = pickle.loads(data)
    np.testing.assert_allclose(numbers(there), found["fit"], rtol=1e-12)
    assert there.nlp.library.path.startswith(str(tmp_path))


def test_damage_on_the_way_is_mended(things, found, monkeypatch, tmp_path):
    """A file that was cut short cannot be opened: the library is built."""
    monkeypatch.setenv("KINESYM_CACHE", str(tmp_path / "cache"))
    packed = sent._packed
    monkeypatch.setattr(sent, "_packed", lambda path: sent.zlib.compress(b"no library"))
    data = pickle.dumps(things["fit"])
    monkeypatch.setattr(sent, "_packed", packed)
    np.testing.assert_allclose(numbers(pickle.loads(data)), found["fit"], rtol=1e-12)


def test_a_library_of_a_file_is_refused(things):
    opened = Compiled(things["fit"].nlp.library.path)
    with pytest.raises(TypeError, match="was opened as a file and cannot be pickled"):
        pickle.dumps(opened)


def test_results_go_with_their_problem(things):
    """A solution of one process warms the problem of another."""
    problem, solution = pickle.loads(pickle.dumps((things["fit"], things["fit"].solve())))
    assert problem.solve(solution).iterations == things["fit"].solve(solution).iterations
    sent_, here = pickle.loads(pickle.dumps(things["shooting"])), things["shooting"]
    fits = [shooting.solve(solution, "least-squares") for shooting in (sent_, here)]
    assert fits[0].parameters["k"] == fits[1].parameters["k"]


@pytest.mark.parametrize(
    "motion",
    [
        ks.Motion.harmonics([0.6], [[0.1], [0], [0.02], [0], [0], [0.5]], [0.3]),
        ks.Motion.samples(TIME, 0.1 * np.sin([TIME, TIME, TIME])),
    ],
)
def test_motions(motion):
    whole = motion.flipped().scaled(0.5).at((1.0, 2.0, 0.5))
    there = pickle.loads(pickle.dumps(whole)).kinematics(0.5 * TIME)
    for name, rows in whole.kinematics(0.5 * TIME).items():
        np.testing.assert_array_equal(there[name], rows)


def test_inputs_with_unknown_breaks():
    """Functions of parameters go along as expressions."""
    level, rise = sp.symbols("level rise")
    pieces = ks.Signal.pieces([0.0, rise], [0.0, level])
    given = ks.Experiment(TIME, inputs={u: pieces}, measurements={x: RECORD})
    free = {level: (0, 2), rise: (0.2, 1.8), k: (1, 9)}
    shooting = ks.Shooting(Hybrid(OSCILLATOR), given, free, initial=START)
    guess = {level: 1.0, rise: 0.73, k: 4.0}
    there = pickle.loads(pickle.dumps(shooting))
    assert there.cost(guess) == shooting.cost(guess)


def test_mechanisms_with_forces_of_functions():
    tree = ks.models.squeezer()
    assert pickle.loads(pickle.dumps(tree)).model().equations == tree.model().equations


@pytest.mark.parametrize("name", ["fit", "shooting"])
def test_each_process_has_its_own_number_of_threads(things, name, monkeypatch):
    """A worker that may take one thread takes one, however many there were."""
    data = pickle.dumps(things[name])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    landed = pickle.loads(data)
    nlp = landed.nlp if name == "fit" else landed._trials.nlp
    assert nlp.threads == 1
