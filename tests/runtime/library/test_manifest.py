"""What the code generator says of a library comes back as data, or is refused in a sentence."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh
from kinesym import models
from kinesym.codegen.c import emit
from kinesym.codegen.evaluate import model_functions, model_jacobians
from kinesym.codegen.stepping import stepper
from kinesym.codegen.switching import hybrid_program, slopes_program
from kinesym.codegen.transcribe import transcribe
from kinesym.internal.problems.symbolic_problem import symbolic_problem
from kinesym.runtime.library import manifest as about
from kinesym.runtime.library.manifest import load_manifest
from kinesym.symbolic.schemes import SCHEMES


def program_of_collocation(scheme="trapezoid"):
    model = models.pendulum()
    time = np.linspace(0.0, 1.0, 5)
    trial = ks.Experiment(time, inputs={u: 0 * time for u in model.inputs})
    x = model.states[0]
    cost = ks.Integral(sp.sin(x))
    return transcribe(symbolic_problem(model, [trial], {}, {}, SCHEMES[scheme], cost))


def ball():
    y, v, force = ks.dynamicsymbols("y v force")
    model = ks.Model("ball", [y, v], [force], [], [y.diff(ks.t) - v, v.diff(ks.t) + 9.81 - force])
    return kh.Hybrid(
        model, contacts=[kh.Contact("floor", y, force)], events=[kh.Event("top", v, stop=True)]
    )


PROGRAMS = {
    about.CollocationManifest: program_of_collocation,
    about.FunctionsManifest: lambda: model_functions(models.pendulum()),
    about.JacobiansManifest: lambda: model_jacobians(models.pendulum()),
    about.SteppingManifest: lambda: stepper(models.pendulum(), SCHEMES["trapezoid"], True),
    about.HybridManifest: lambda: hybrid_program(ball()),
    about.SlopesManifest: lambda: slopes_program(ball()),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_every_kind_of_program(kind):
    program = PROGRAMS[kind]()
    found = load_manifest(emit(program).manifest)
    assert found.name == program.name and list(found.kernels) == [k.name for k in program.kernels]
    for kernel in program.kernels:
        assert found.kernels[kernel.name].outputs == kernel.labels
        assert found.kernels[kernel.name].operations == kernel.operations
    (given,) = json.loads(json.dumps(dict(program.description))).values()
    assert_holds(json.loads(json.dumps(asdict(found.of(kind)))), given)
    other = next(k for k in PROGRAMS if k is not kind)
    with pytest.raises(ValueError, match=f"has no {other.__name__}"):
        found.of(other)


def assert_holds(whole, part):
    """All of `part` is in `whole`, where families may have more derivatives, without entries, and
    arrays at nodes have no place."""
    if isinstance(part, dict):
        for name, value in part.items():
            assert_holds(whole[name], value)
    elif isinstance(part, list) and part and isinstance(part[0], dict):
        for theirs, mine in zip(whole, part, strict=True):
            assert_holds(theirs, mine)
    else:
        assert whole == part


def test_places_of_what_is_unknown():
    """Values at nodes have no place; others one in each interval."""
    found = load_manifest(emit(program_of_collocation("radau-5")).manifest)
    about_it = found.of(about.CollocationManifest)
    assert [(array.name, array.place) for array in about_it.arrays] == [
        ("x", None),
        ("xi1", SCHEMES["radau-5"].nodes[0]),
        ("xi2", SCHEMES["radau-5"].nodes[1]),
    ]
    arrays = [{"name": "x", "members": ["theta"], "place": "here"}]
    with pytest.raises(ValueError, match=r"arrays\[0\].place must be float, got 'here'"):
        load_manifest(change(["collocation", "arrays"], arrays))


def change(path, value=None):
    """The manifest of a collocation with another value in one place, or without it."""
    given = json.loads(emit(program_of_collocation()).manifest)
    *way, last = path
    place = given
    for step in way:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return json.dumps(given)


FAMILY = ("collocation", "families", "interval")
KERNEL = ("kernels", "node_cost")
PLACE = r"the manifest of 'pendulum_lobatto_2'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", r"the manifest of None must be Manifest, got \[\]"),
        (change(["abi"], 1), rf"{PLACE}: its interface is 1, this kinesym has "),
        (change(["name"], 5), "the manifest of 5.name must be str, got 5"),
        (change(["kernels"]), f"{PLACE} has no kernels"),
        (change(["kernels"], [1]), rf"{PLACE}.kernels must be .*, got \[1\]"),
        (change([*KERNEL, "counts"]), rf"{PLACE}.kernels.node_cost has no counts"),
        (change([*KERNEL, "operations"], "many"), r"node_cost.operations must be int"),
        (change([*KERNEL, "colour"], 1), r"node_cost has a colour, which is none of arguments"),
        (change(["weather"], {}), "has a weather, which is none of abi, name, kernels, coll"),
        (change(["collocation"], 5), "collocation must be CollocationManifest, got 5"),
        (change(["collocation", "free_duration"], 1), "free_duration must be bool, got 1"),
        (change(["collocation", "quadrature"], [1.0]), r"quadrature must be .*, got \[1.0\]"),
        (change([*FAMILY, "jacobian"], [[0], ["a"]]), r"interval.jacobian\[0\] must be int"),
        (change([*FAMILY, "variables"], [["x0"]]), r"interval.variables\[0\] must be .*\['x0'\]"),
    ],
)
def test_what_does_not_fit(text, words):
    with pytest.raises(ValueError, match=words):
        load_manifest(text)
