"""Terms that a model lacks: the right one is found, and none in a complete model; bad input."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import matplotlib
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.results.missing import Missing, Tried

matplotlib.use("Agg")
t = ks.t
x, v = ks.dynamicsymbols("x v")
u = ks.dynamicsymbols("u")
k, b, c = sp.symbols("k b c")


def oscillator(cubic: Any) -> ks.Model:
    equations = [x.diff(t) - v, v.diff(t) + k * x + b * v + cubic * x**3 - u]
    parameters = [k, b, *([c] if cubic == c else [])]
    return ks.Model("oscillator", [x, v], [u], parameters, equations, values={k: 4.0, b: 0.3})


@cache
def problem_of(stiffness: float, shooting: bool = False) -> Any:
    """Problem of a linear oscillator and a record of one with a cubic spring."""
    time = np.linspace(0.0, 8.0, 121)
    force = 2 * np.sin(1.3 * time) + 1.5 * np.sin(2.9 * time + 1)
    whole = {k: 4.0, b: 0.3, c: stiffness}
    run = ks.simulate(oscillator(c), time, {x: 0.5, v: 0.0}, whole, {u: force})
    noise = 0.01 * np.random.default_rng(1).standard_normal(len(time))
    trial = ks.Experiment(time, {u: force}, {x: run["x"] + noise}, {x: 0.01})
    about = (oscillator(0), trial, {k: (0.0, 50.0), b: (0.0, 10.0)})
    start = {x: 0.5, v: 0.0}
    return ks.Shooting(*about, initial=start) if shooting else ks.Collocation(*about)


@cache
def fit(stiffness: float, shooting: bool = False) -> Any:
    """Fit of that problem."""
    return problem_of(stiffness, shooting).solve({k: 4.0, b: 0.3})


def test_the_missing_term_is_found_and_fitted() -> None:
    found = fit(1.5).missing(["bias", "cubic", "drag"])
    assert found.tried[0].term == "x**3"
    assert found.found[0] == "cubic_x_in_v"
    assert found.fit.success
    row = found.fit.parameters.table["cubic_x_in_v"]
    assert abs(row.value + 1.5) < 4.0 * row.standard_error < 0.4
    assert "oscillator: cubic_x_in_v missing" in str(found)
    after = [force for force in found.forces if force.when == "after"]
    assert after[0].rms < 1e-3 * found.forces[0].rms
    assert "cubic_x_in_v" in found.larger.parameter_names
    assert len(found.to_pandas()) == len(found.tried)
    assert found.plot().axes[0].get_ylabel() == "added to v'"


def test_a_complete_model_lacks_nothing() -> None:
    found = fit(0.0).missing(["bias", "cubic"])
    assert found.found == []
    assert all(row.p > 0.05 for row in found.tried)
    assert "no term of the library is missing" in str(found)


def recorded(force: Any, substeps: int = 1) -> Any:
    """Fit of a linear oscillator to a record of one with this force."""
    time = np.linspace(0.0, 8.0, 121)
    push = 2 * np.sin(1.3 * time) + 1.5 * np.sin(2.9 * time + 1)
    equations = [x.diff(t) - v, v.diff(t) - force]
    plant = ks.Model("plant", [x, v], [u], [k, b], equations, values={k: 4.0, b: 0.3})
    run = ks.simulate(plant, time, {x: 0.5, v: 0.0}, {}, {u: push}, substeps=substeps)
    noise = 0.01 * np.random.default_rng(1).standard_normal(len(time))
    trial = ks.Experiment(time, {u: push}, {x: run["x"] + noise}, {x: 0.01})
    return ks.Collocation(oscillator(0), trial, {k: (0.0, 50.0), b: (0.0, 10.0)}).solve()


def beyond(z: Any, half: float) -> Any:
    return z - sp.Max(sp.Min(z, half), -half)


@pytest.mark.parametrize(
    ("force", "library", "name", "value"),
    [
        (-k * x - b * v + ks.delayed(u, 0.2), "delays", "delayed_u_in_v", 0.2),
        (-k * beyond(x, 0.2) - b * v + u, "dead zones", "dead_zone_k_in_v", 0.2),
        (-k * x - 20 * beyond(x, 0.4) - b * v + u, "stops", "stop_x_in_v", -20.0),
    ],
)
def test_what_is_exchanged_is_found(force: Any, library: str, name: str, value: float) -> None:
    found = recorded(force).missing(library, most=1)
    assert found.found == [name]
    row = found.fit.parameters.table[name]
    assert abs(row.value - value) < 4.0 * row.standard_error < 0.1 * abs(value)


def test_a_force_that_no_term_is_is_said() -> None:
    """A stop on one side."""
    found = recorded(-k * x - b * v + u - 20 * sp.Max(x - 0.4, 0)).missing("cubic")
    assert found.found == []
    assert "the record wants something that no term of the library is" in str(found)
    assert "wants something" not in str(fit(0.0).missing(["bias", "cubic"]))


@pytest.mark.filterwarnings("ignore")
def test_a_sign_is_a_step_whose_width_is_fitted() -> None:
    found = recorded(-k * x - b * v + u - 0.6 * sp.sign(v), 8).missing([sp.sign(v), v**3], most=1)
    assert found.found == ["term_in_v"]
    assert found.tried[0].term == "tanh(v/width)"
    assert found.fit.parameters["width_of_term_in_v"] < 0.05
    assert abs(found.fit.parameters["term_in_v"] + 0.6) < 0.03
    values = [
        f"{name} = {found.fit.parameters[name]:.4g} +- " for name in list(found.fit.parameters)[-2:]
    ]
    assert all(words in str(found) for words in ["fit without unknown forces", *values])


def test_what_cannot_be_late_is_said() -> None:
    time = np.linspace(0.0, 4.0, 41)
    push = ks.Signal([0.0, 1.0, 2.0, 4.0], [1.0, -1.0, 0.5, 0.0], between="held")
    model = ks.Model("tank", [x], [u], [k], [x.diff(t) + x - k * u], values={k: 2.0})
    run = ks.simulate(model, time, {x: 0.0}, {}, {u: push})
    trial = ks.Experiment(time, {u: push}, {x: run["x"]}, {x: 0.01})
    found = ks.Collocation(model, trial, {k: (0.0, 9.0)}).solve().missing("delays")
    assert found.tried == []
    assert found.notes[0].startswith("delayed(u) in x' was not tried: input u is held")


def test_a_search_is_on_the_grid_of_the_fit() -> None:
    about = problem_of(1.5)
    fine = about.refined(fit(1.5), 1e-3).solve()
    found = fine.missing("cubic", most=1)
    assert len(found.forces[0].time) == len(fine.trials[0].time) > 121
    assert found.found == ["cubic_x_in_v"]


def test_a_kind_may_stand_alone_and_time_keeps_its_name() -> None:
    assert fit(1.5).missing("cubic", most=1).found == ["cubic_x_in_v"]
    assert fit(0.0).missing([sp.sin(t)]).tried[0].term == "sin(t)"


def test_terms_may_be_expressions() -> None:
    found = fit(1.5).missing([x**3, v**2], most=1)
    assert found.tried[0].term == "x**3"
    assert found.found == ["term_in_v"]


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (["cubik"], "library has no terms 'cubik'; did you mean cubic"),
        ([x], "the term x(t) of library is in the model already"),
        ([sp.Symbol("q") * x], "has q, which the model lacks"),
        ([], "library is empty"),
        ([0], "a term of library is zero"),
        ([sp.floor(x)], "the term floor(x(t)) of library jumps where x is a whole number"),
        ([sp.sqrt(x)], "the term sqrt(x(t)) of library has no value in trial 0 at"),
    ],
)
def test_bad_libraries_are_refused(library: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        fit(1.5).missing(library)


def test_the_best_of_many_starts_can_be_asked() -> None:
    best = problem_of(1.5).multistart(2, seed=1).best
    assert best.missing([x**3], most=1).found == ["term_in_v"]


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(ValueError, match=r"missing needs a solution of ks\.Collocation"):
        fit(1.5, shooting=True).missing()
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        fit(1.5).missing(level=2.0)


def test_what_was_not_tried_is_said() -> None:
    about: Any = {
        "model": "m",
        "found": [],
        "forces": [],
        "level": 0.05,
        "larger": None,
        "fit": None,
    }
    assert str(Missing(tried=[], **about)) == "m: no term was tried"
    failed = Tried(0, "a", "v'", "sign(v)", 0.1, np.nan, -np.inf, 1.0)
    assert "sign(v) in v' failed: it is not known whether" in str(Missing(tried=[failed], **about))
