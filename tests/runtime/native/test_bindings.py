"""Compiled parts refuse arrays that do not fit, before C reads or writes beyond them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.internal.problems.simulation_arguments import simulation_arguments
from kinesym.internal.problems.step_options import Steps
from kinesym.internal.running.hybrid_run import _slopes, hybrid_ivp
from kinesym.runtime.hybrid import simulation as hybrid_simulation
from kinesym.runtime.library.manifest import SlopesManifest
from kinesym.runtime.native import DONE, Call, Chain, Factorisation, Plan, Run, solve_contacts
from kinesym.runtime.native._hybrid import MOST_CONTACTS, HybridRun, HybridSweep
from kinesym.runtime.simulation import stepper
from kinesym.runtime.sparse.places import rows
from kinesym.symbolic import hybrid as symbolic_hybrid

t = ks.t
x, v, u, lam, push = ks.dynamicsymbols("x v u lam push")
k = sp.Symbol("k")
swing = ks.Model(
    "swing",
    [x, v],
    [u],
    [k],
    [x.diff(t) - v, v.diff(t) + k * x - u],
    outputs={"force": k * x},
    values={k: 4.0},
)
TIME = np.linspace(0.0, 1.0, 5)


def changed(array):
    """An array that does not fit in one way each, with a name for it."""
    yield "shorter", np.ascontiguousarray(array[..., :-1]) if array.size else np.zeros(3)
    yield "longer", np.zeros((*array.shape[:-1], array.shape[-1] + 1), array.dtype)
    yield "another type", array.astype(np.float32)
    yield "of more dimensions", array[None]
    if array.size > 1:
        yield "not contiguous", np.repeat(array, 2, axis=-1)[..., ::2]


# -- contacts -------------------------------------------------------------------------------------


def contacts(n, **changes):
    """n frictionless contacts that press with 1 N each."""
    fields = {
        "law": [0] * n,
        "tangent": [-1] * n,
        "mu": np.zeros(n),
        "W": np.eye(n),
        "b": -np.ones(n),
        "near": [1] * n,
        "slide": np.zeros(n),
        "mode": [1] * n,
    }
    return {**fields, **changes}


def test_contacts_that_fit():
    _, force = solve_contacts(**contacts(8))
    np.testing.assert_allclose(force, 1.0)
    assert solve_contacts(**contacts(0))[1].size == 0
    assert MOST_CONTACTS == symbolic_hybrid.contacts.MOST_CONTACTS


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (contacts(9), "there are 9 contacts, at most 8"),
        (contacts(1000), "there are 1000 contacts, at most 8"),
        (
            contacts(2, W=np.eye(3)),
            r"W must be .* of shape \(2, 2\), got float64 of shape \(3, 3\)",
        ),
        (contacts(2, W=np.ones(4)), r"W must be .* of shape \(2, 2\)"),
        (contacts(2, b=np.zeros(3)), r"W must be .* of shape \(3, 3\)"),
        (contacts(2, b=np.zeros(5), W=np.eye(5)), "2 contacts have 2 to 4 rows, got 5"),
        (contacts(2, b=np.zeros(1), W=np.eye(1)), "2 contacts have 2 to 4 rows, got 1"),
        (contacts(2, tangent=[-1]), r"tangent must be .* of shape \(2,\)"),
        (contacts(2, mu=np.zeros(1)), r"mu must be .* of shape \(2,\)"),
        (contacts(2, near=[1]), r"near must be .* of shape \(2,\)"),
        (contacts(2, slide=[0.0]), r"slide must be .* of shape \(2,\)"),
        (contacts(2, mode=[1, 1, 1]), r"mode must be .* of shape \(2,\)"),
        (contacts(2, tangent=[-1, 7]), "a law or the row of a tangential direction"),
        (contacts(2, tangent=[-1, 0]), "a law or the row of a tangential direction"),
        (contacts(2, law=[0, 2]), "a law or the row of a tangential direction"),
        (contacts(2, law=[0, 9]), "a law or the row of a tangential direction"),
    ],
)
def test_contacts_that_do_not_fit(fields, words):
    with pytest.raises(ValueError, match=words):
        solve_contacts(**fields)


# -- hybrid runs ----------------------------------------------------------------------------------


@cache
def ball():
    """A ball with a floor, an event with a reset, and an input."""
    equations = [x.diff(t) - v, v.diff(t) + 9.81 * k - lam - u - push]
    model = ks.Model("ball", [x, v], [lam, push, u], [k], equations, values={k: 1.0})
    return kh.Hybrid(
        model,
        modes={push: 0.0},
        contacts=[kh.Contact("floor", x, lam)],
        events=[kh.Event("half", x - k / 2, -1, sets={push: 1.0})],
    )


@pytest.fixture(scope="module")
def bound():
    """What a run of the ball is bound to."""
    steps = Steps("dormand-prince", 1, (1e-9, 1e-11), True)
    start, inputs = {x: 1.0, v: 0.0}, {u: 0.0}
    arguments = simulation_arguments(ball(), TIME, start, None, inputs, steps, None, None)
    ivp = hybrid_ivp(ball(), arguments)
    numbers = {
        "t": 0.0,
        "rtol": 1e-9,
        "atol": 1e-11,
        "v_stop": 1e-3,
        "by_height": False,
        "per_second": 1000,
        "order": 5,
        "implicit": 0,
        "fixed": 0.1,
        "tables": 0,
        "pause": 100,
        "turning": 0,
    }
    return ivp, (2, 1, 1, 1, 1, 1), numbers


@pytest.fixture(params=["dormand-prince", "radau-5"])
def either(request, bound):
    """The same, also with a method whose stages are solved for."""
    ivp, sizes, numbers = bound
    if request.param == "radau-5":
        ivp, numbers = replace(ivp, method="radau-5"), {**numbers, "implicit": 3}
    return ivp, sizes, numbers


def hybrid_run(bound, sizes=None, arrays=None, **numbers):
    ivp, fitting, given = bound
    made = hybrid_simulation._arrays(ivp) | hybrid_simulation._tape(500, 2, 1, 1) | (arrays or {})
    return HybridRun(ivp.library, sizes or fitting, {**given, **numbers}, made)


def test_every_array_of_a_hybrid_run(either):
    assert hybrid_run(either).march(1.0) == DONE
    made = hybrid_simulation._arrays(either[0]) | hybrid_simulation._tape(500, 2, 1, 1)
    refused = 0
    for name, array in made.items():
        for _, wrong in changed(array):
            with pytest.raises(ValueError, match=r"must be|has no kernel|targets of|one segment"):
                hybrid_run(either, arrays={name: wrong})
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("implicit", [-1, 1, 4])
def test_stages_that_are_solved_for(bound, implicit):
    ivp = replace(bound[0], method="radau-5")
    with pytest.raises(ValueError, match=f"{implicit} of 3 stages cannot be solved for"):
        hybrid_run((ivp, *bound[1:]), implicit=implicit)


@pytest.mark.parametrize(
    "sizes",
    [
        (3, 1, 1, 1, 1, 1),
        (2, 2, 1, 1, 1, 1),
        (2, 1, 2, 1, 1, 1),
        (2, 1, 1, 2, 2, 1),
        (2, 1, 1, 1, 2, 1),
        (2, 1, 1, 1, 1, 2),
        (2, 1, 1, 1, 0, 1),
        (2, 1, 1, 0, 0, 1),
        (0, 1, 1, 1, 1, 1),
        (2, 1, 1, -1, 1, 1),
        (2, 1, 1, 9, 9, 1),
    ],
)
def test_sizes_of_a_hybrid_run(bound, sizes):
    with pytest.raises(ValueError, match=r"must be|has no kernel|no such sizes|contacts"):
        hybrid_run(bound, sizes)


def test_every_array_of_a_sweep(bound):
    """Derivatives of the ball that reads them: they agree in both directions, or are refused."""
    ivp = bound[0]
    run = hybrid_run(bound)
    run.march(1.0)
    built, own = _slopes(ball()), np.zeros((1, 1))
    about, library = built.manifest.of(SlopesManifest), built.library
    patterns, solution = about.patterns, about.solution
    sweep = HybridSweep(run, library, patterns, solution, own)
    E = run.at[2]
    ways = {"x": np.eye(2)[:, :1], "p": np.zeros((1, 1)), "pieces": np.zeros((1, 3, 1, 1))}
    seeds = {
        "x": np.array([1.0, 0.0]),
        "weights": np.zeros((len(TIME), 2)),
        "times": np.zeros(E),
        "before": np.zeros((E, 2)),
        "after": np.zeros((E, 2)),
    }
    status, states, *_ = sweep.forward(**{k: v.copy() for k, v in ways.items()})
    assert (status, states.shape) == (0, (2, 1, len(TIME)))
    np.testing.assert_allclose(sweep.adjoint(**seeds)[1][0], states[0, 0, -1], atol=1e-12)
    for call, given in ((sweep.forward, ways), (sweep.adjoint, seeds)):
        for name, array in given.items():
            for _, wrong in changed(array):
                with pytest.raises(ValueError, match="must be contiguous"):
                    call(**{**given, name: wrong})
    for name in patterns:
        for places in ([99], [-1]):
            wrong = {**patterns, name: [places, places]}
            with pytest.raises(ValueError, match="lie outside"):
                HybridSweep(run, library, wrong, solution, own)
    with pytest.raises(ValueError, match="steps of a solution lie outside"):
        HybridSweep(run, library, patterns, [[2], [0]], own)
    with pytest.raises(ValueError, match="has no kernel smooth_slopes"):
        HybridSweep(run, ivp.library, patterns, solution, own)
    with pytest.raises(ValueError, match="own must be"):
        HybridSweep(run, library, patterns, solution, np.zeros((2, 1)))
    with pytest.raises(ValueError, match="there is no tape"):
        HybridSweep(hybrid_run(bound), library, patterns, solution, own)


def test_what_is_read_only_is_not_written(bound):
    states = np.zeros((2, len(TIME)))
    states.flags.writeable = False
    with pytest.raises(ValueError, match="states must be writeable"):
        hybrid_run(bound, arrays={"states": states})


@pytest.mark.parametrize(
    ("arrays", "numbers", "words"),
    [
        ({"target": np.array([3], dtype=np.intp)}, {}, "targets of events lie outside"),
        ({"target": np.array([-1], dtype=np.intp)}, {}, "targets of events lie outside"),
        ({"first_target": np.array([1, 1], dtype=np.intp)}, {}, "targets of events lie outside"),
        ({"first_target": np.array([0, 7], dtype=np.intp)}, {}, "targets of events lie outside"),
        ({"law": np.array([5], dtype=np.intc)}, {}, "a law or the row"),
        ({"tangent": np.array([1], dtype=np.intc)}, {}, "a law or the row"),
        ({}, {"order": 0}, "the order or a number of steps"),
        ({}, {"pause": 0}, "the order or a number of steps"),
        ({}, {"per_second": 0}, "the order or a number of steps"),
        ({"a": np.zeros((18, 17)), "c": np.zeros(18)}, {}, "at most 16"),
    ],
)
def test_numbers_of_a_hybrid_run(bound, arrays, numbers, words):
    with pytest.raises(ValueError, match=words):
        hybrid_run(bound, arrays=arrays, **numbers)


def test_room_that_is_smaller_than_before(bound):
    run = hybrid_run(bound)
    run.march(1.0)
    made = hybrid_simulation._arrays(bound[0]) | hybrid_simulation._tape(1, 2, 1, 1)
    with pytest.raises(ValueError, match="must hold what they held"):
        run.room(made)


# -- time stepping --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs():
    """Arguments of `Run` for a simulation by each kind of method, and for shooting."""
    found = {}

    def kept(name):
        return lambda *arguments: found.update({name: arguments}) or Run(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rk4", "trapezoid"):
            patch.setattr(stepper, "Run", kept(name))
            ks.simulate(swing, TIME, {x: 1.0, v: 0.0}, inputs={u: 0.0}, method=name)
        patch.setattr(stepper, "Run", kept("shooting"))
        trial = ks.Experiment(TIME, {u: 0.0}, {x: TIME})
        ivp = ks.Shooting(swing, trial, {k: None}, initial={x: None, v: 0.0})
        ivp.gradient([4.0, 0.0])
    return found


#: Positions of arrays in the arguments of `Run`
ARRAYS = {
    "time": 3,
    "parameters": 5,
    "states": 6,
    "values": 7,
    "reached": 8,
    "step": 9,
    "trouble": 10,
}


def with_change(arguments, position, value):
    return (*arguments[:position], value, *arguments[position + 1 :])


@pytest.mark.parametrize("name", ["rk4", "trapezoid"])
def test_every_array_of_a_run(runs, name):
    for position in ARRAYS.values():
        for _, wrong in changed(runs[name][position]):
            with pytest.raises((ValueError, BufferError)):
                Run(*with_change(runs[name], position, wrong))
    for _, wrong in changed(runs[name][4][0][0]):
        with pytest.raises(ValueError):
            Run(*with_change(runs[name], 4, [(wrong, 0)]))


@pytest.mark.parametrize(
    ("name", "position", "value", "words"),
    [
        ("trapezoid", 1, ([0, 0, 1, 9], [0, 1, 0, 1]), "pattern must be in 0 ... 1"),
        ("trapezoid", 1, ([0, 0, 1, -1], [0, 1, 0, 1]), "pattern must be in 0 ... 1"),
        ("trapezoid", 1, ([0, 0, 1, 1], [0, 1, 0, 4]), "does not fit the kernel slopes"),
        ("trapezoid", 1, ([0, 0, 1, 1], [0, 1, 0, -1]), "pattern must be in"),
        ("trapezoid", 1, ([0], [0]), "does not fit the kernel slopes"),
        ("trapezoid", 1, ([0, 1], [0]), "index arrays differ in length"),
        ("shooting", 2, ([5], [0]), "solution must be in 0 ... 1"),
        ("shooting", 2, ([0], [5]), "columns beyond the 2 states"),
        ("rk4", 11, 0, "there must be members"),
        ("rk4", 14, 0, "there must be members"),
        ("rk4", 16, 0, "there must be members"),
        ("rk4", 4, [], "1 inputs are needed, got 0"),
    ],
)
def test_numbers_of_a_run(runs, name, position, value, words):
    with pytest.raises(ValueError, match=words):
        Run(*with_change(runs[name], position, value))


def test_nodes_of_a_run(runs):
    run = Run(*runs["rk4"])
    for begin, end in ((-1, 2), (3, 2), (0, 5)):
        with pytest.raises(ValueError, match="nodes"):
            run.march("rk4", begin, end)
        with pytest.raises(ValueError, match="nodes"):
            run.outputs(begin, end)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"carry": np.zeros(3)}, "carry must be contiguous float64 of shape"),
        ({"node": np.zeros((2, 4))}, "node must be contiguous float64 of shape"),
        ({"inputs": np.zeros((0, 4))}, "inputs must be contiguous float64 of shape"),
        ({"inputs": np.zeros((1, 5)), "varied": np.array([3])}, "varied must be in 0 ... 0"),
        ({"parameters": np.zeros(0)}, "the pattern has 3 columns, expected 2"),
        ({"end": 5}, "nodes 0 to 5 of 5"),
    ],
)
def test_arrays_of_an_adjoint(runs, changes, words):
    fields = {
        "begin": 0,
        "end": 4,
        "carry": np.zeros(2),
        "node": np.zeros((2, 5)),
        "inputs": np.zeros((0, 5)),
        "parameters": np.zeros(1),
        "varied": np.zeros(0, dtype=np.intp),
    }
    Run(*runs["shooting"]).adjoint(**fields)
    with pytest.raises(ValueError, match=words):
        Run(*runs["shooting"]).adjoint(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"time": np.zeros(1)},
        {"rows": [0, 5]},
        {"columns": [0, -1]},
        {"columns": [0]},
        {"rows": [], "columns": []},
        {"values": np.zeros((2, 1, 3))},
        {"a": np.zeros((1, 2))},
        {"c": np.zeros(2)},
        {"held": [2]},
    ],
)
def test_arrays_of_a_chain(runs, changes):
    fields = {
        "time": TIME,
        "a": np.ones((1, 1)),
        "b": np.ones(1),
        "c": np.ones(1),
        "rows": [0, 1],
        "columns": [0, 1],
        "values": np.ones((2, 1, len(TIME) - 1)),
        "held": [],
    }
    Chain(runs["trapezoid"][0], 2, *fields.values())
    with pytest.raises(ValueError):
        Chain(runs["trapezoid"][0], 2, *{**fields, **changes}.values())


def test_stages_of_a_run(runs):
    """They fit the method, and are kept of one member."""
    whole = (np.zeros((2, 2, 4)), np.zeros((2, 2, 4)))
    Run(*runs["trapezoid"][:-4], whole)
    for name, stages in (
        ("rk4", whole),
        ("trapezoid", (np.zeros((2, 4, 4)), np.zeros((2, 4, 4)))),
        ("trapezoid", (whole[0], np.zeros((2, 2, 3)))),
    ):
        with pytest.raises(ValueError):
            Run(*runs[name][:-4], stages)


def test_numbers_of_tables_where_there_are_none(runs):
    """Only kernels with tables take them."""
    with pytest.raises(ValueError, match="0 numbers of tables are needed beside parameters"):
        Run(*runs["rk4"][:-2], np.zeros(3))


def test_steps_are_recorded_where_they_are_chosen(runs):
    with pytest.raises(ValueError, match="where a method chooses them"):
        Run(*runs["rk4"][:-1], 5)


# -- kernels, and matrices ------------------------------------------------------------------------


def test_arguments_of_kernels():
    library = ks.compile(swing).library
    fields = {
        "library": library,
        "kernel": "rhs",
        "n": 4,
        "place": rows(2, 4),
        "n_out": 8,
        "arguments": [(0, 0, 4), (1, 0, 4), (2, 0, 1), (3, 0, 4)],
        "sizes": (8, 4, 1, 4),
    }
    plan = Plan([Call(**fields)], [], 8)
    given = [np.zeros(n) for n in fields["sizes"]]
    plan(tuple(given), np.zeros(8))
    for wrong in (
        given[:3],
        [*given[:3], np.zeros(5)],
        [*given[:3], np.zeros(4, np.float32)],
        [*given[:3], np.zeros(8)[::2]],
        [*given[:3], np.zeros((4, 1))],
    ):
        with pytest.raises(ValueError):
            plan(tuple(wrong), np.zeros(8))
    with pytest.raises(TypeError):
        plan((*given[:3], None), np.zeros(8))
    with pytest.raises(ValueError):
        plan(tuple(given), np.zeros(7))
    for threads in (0, -3):
        with pytest.raises(ValueError):
            Plan([Call(**fields)], [], 8, threads)
    for changes in (
        {"n": -1},
        {"sizes": (7, 4, 1, 4)},
        {"n_out": 7},
        {"arguments": [(-1, 0, 4), (1, 0, 4), (2, 0, 1), (3, 0, 4)]},
        {"arguments": [(9, 0, 4), (1, 0, 4), (2, 0, 1), (3, 0, 4)]},
        {"arguments": [(0, 5, 4), (1, 0, 4), (2, 0, 1), (3, 0, 4)]},
    ):
        with pytest.raises(ValueError):
            Call(**{**fields, **changes})


def test_matrices():
    one = Factorisation(3, [0, 1, 2], [0, 1, 2])
    for wrong in (np.zeros(2), np.zeros(4), np.zeros((3, 1))):
        with pytest.raises(ValueError):
            one.factorise(wrong)
    assert one.factorise(np.ones(3)) == "ok"
    for wrong in (np.zeros(2), np.zeros((2, 3)), np.zeros((3, 1, 1))):
        with pytest.raises(ValueError):
            one.solve(wrong)
    assert one.solve(np.zeros((3, 0))).shape == (3, 0)
    for places in (([0, 3], [0, 0]), ([-1], [0]), ([], []), ([0.5], [0]), ([[0]], [[0]])):
        with pytest.raises(ValueError):
            Factorisation(3, *places)
