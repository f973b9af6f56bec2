"""A problem of one's own beside CasADi, fatrop and opty: what they get is what we have, what is not
is found, and the table of `kinesym bench`."""

import argparse
import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import own
import pytest
import sympy as sp
from peers import by_casadi, by_opty, stages
from peers.programs import CALLBACKS, check_same

import kinesym as ks
from kinesym.runtime.library.tiers import INTERPRETED, TIER_VARIABLE

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "index.md"


@pytest.fixture
def mine(tmp_path):
    """The example of the page, as a file."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    [text] = [block for block in blocks if "def problem(" in block]
    assert own.code_lines(text) <= 10
    path = tmp_path / "mine.py"
    path.write_text(text)
    return path


def fit(trials=2, **more):
    """A driven pendulum: a gain for each trial, damping for all; known and unknown torques."""
    theta, omega, T, u = ks.dynamicsymbols("theta omega T u")
    k, c, m = sp.symbols("k c m")
    rates = [theta.diff(ks.t) - omega, m * omega.diff(ks.t) + k * sp.sin(theta) + c * omega - T - u]
    model = ks.Model("driven", [theta, omega], [T, u], [k, c, m], rates)
    rng = np.random.default_rng(0)
    made = []
    for nodes in (6, *[more.pop("nodes", 8)] * (trials - 1)):
        time = 0.125 * np.arange(nodes)
        given = {T: rng.standard_normal(nodes)}, {theta: rng.standard_normal(nodes)}
        made.append(ks.Experiment(time, *given, std={theta: 0.1}, parameters={m: nodes / 4}))
    about = {
        "unknown": {k: ks.per_trial(1.0, 50.0), c: (0.0, 5.0)},
        "unknown_inputs": {u: (-2, 2)},
        "objective": ks.LeastSquares() + 0.1 * ks.Integral(u**2),
        "boundary": [ks.at_start(omega), ks.at_end(theta) * ks.at_end(omega)],
        "bounds": {omega: (-20, 20)},
        "scheme": "midpoint",
    }
    return ks.Collocation(model, made, **{**about, **more})


def fastest(**more):
    """To one metre and to rest in the least time."""
    x, v, u = ks.dynamicsymbols("x v u")
    model = ks.Model("cart", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u + 0.1 * v**2])
    boundary = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)]
    about = {"objective": ks.Terminal(ks.t), "unknown_inputs": {u: (-1, 1)}, "boundary": boundary}
    trial = ks.Experiment(nodes=9, duration=(0.5, 9.0))
    return ks.Collocation(model, trial, **{**about, "path": [(v, -3, 3)], **more})


PROBLEMS = {
    "two trials": fit,
    "stages": lambda: fit(scheme="radau-5"),
    "free duration": fastest,
    "free duration, nodes": lambda: fastest(scheme="trapezoid"),
}
WAYS = {
    "nlpsol": by_casadi.casadi_of,
    "expanded": lambda *a: by_casadi.casadi_of(*a, written=by_casadi.expanded),
    "by hand": lambda *a: by_casadi.casadi_of(*a, written=by_casadi.by_hand),
    "fatrop": stages.fatrop_of,
}


def guess_of(problem):
    z = problem.pack()
    return np.clip(z + 0.1 * np.random.default_rng(1).random(z.size), *problem.variable_bounds)


@pytest.mark.parametrize("name", PROBLEMS)
def test_callbacks_of_peers_are_ours(name, tmp_path, monkeypatch):
    monkeypatch.setenv(TIER_VARIABLE, INTERPRETED)
    problem = PROBLEMS[name]()
    for make in WAYS.values():
        peer = make(problem, guess_of(problem), {}, str(tmp_path))
        assert {*check_same(problem, peer, guess_of(problem))} == {*CALLBACKS}


def test_optima_of_peers_are_ours(tmp_path):
    problem = fastest()
    best = problem.solve(progress=False).objective
    for make in WAYS.values():
        found = make(problem, problem.pack(), {}, str(tmp_path)).solve(problem.pack())
        assert not found.failure and found.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.study
@pytest.mark.skipif(find_spec("opty") is None, reason="opty is not installed")
@pytest.mark.parametrize(
    "make", [lambda: fit(nodes=6), lambda: fastest(scheme="midpoint", path=[])]
)
def test_callbacks_of_opty_are_ours(make, tmp_path):
    problem = make()
    peer = by_opty.opty_of(problem, guess_of(problem), {}, str(tmp_path))
    assert {*check_same(problem, peer, guess_of(problem))} == {"constraints", "jacobian"}


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (lambda: fit(1, scheme="radau-3"), "this scheme"),
        (fit, "trials of different lengths"),
        (lambda: fastest(scheme="midpoint"), "path conditions, conditions with bounds"),
        (lambda: fit(1), ""),
    ],
)
def test_what_opty_lacks(problem, words):
    assert by_opty.opty_lacks(problem()) == words


def test_another_program_is_found(tmp_path, monkeypatch):
    """A function of the model, a factor of the Jacobian."""
    problem = fit(1)
    z = guess_of(problem)

    def scaled(*given):
        program, options = by_casadi.by_hand(*given)
        f = options["jac_g"]
        x, p = f.mx_in()
        g, jacobian = f(x, p)
        options["jac_g"] = type(f)("nlp_jac_g", [x, p], [g, (1 + 1e-7) * jacobian], *f_names(f))
        return program, options

    def f_names(f):
        return f.name_in(), f.name_out()

    peer = by_casadi.casadi_of(problem, z, {}, str(tmp_path), written=scaled)
    with pytest.raises(ValueError, match=r"another program: its jacobian differs .* by 1.0e-07"):
        check_same(problem, peer, z)
    known = by_casadi.casadi_operations()
    altered = {**known, "sin": known["cos"]}
    monkeypatch.setattr(by_casadi, "casadi_operations", lambda: altered)
    with pytest.raises(ValueError, match="another program: its constraints differs"):
        by_casadi.casadi_of(problem, z, {}, str(tmp_path))


@pytest.mark.study
def test_the_table(mine, tmp_path, capsys, monkeypatch):
    """All columns, the same optimum, numbers as JSON, a sentence for what is not there."""
    monkeypatch.setitem(own.NEEDED, "opty", ["no_such_package"])
    given = argparse.Namespace(
        file=mine, nodes=101, contenders=["casadi", "opty"], limit=60.0, json=tmp_path / "all.json"
    )
    monkeypatch.setenv("CFLAGS", "-O2")
    assert own.run(given) == 0
    said = capsys.readouterr().out
    assert said.startswith("pendulum, 101 nodes, 203 variables, 200 constraints, one thread")
    assert "casadi return what kinesym does, at the guess and beside it" in said
    assert f"| {' | '.join(['contender', *CALLBACKS])} |" in said
    assert f"| {' | '.join(own.HEADER)} |" in said
    assert "opty: no no_such_package here; " in said and "-m pip install opty" in said
    ours, casadi, opty = json.loads(given.json.read_text())["rows"]
    assert {*casadi["callbacks"]} == {*CALLBACKS} and opty["cpu"] is None
    assert casadi["iterations"] == ours["iterations"] and abs(casadi["difference"]) < 1e-9
    assert casadi["lines"] > 50 and casadi["memory"] > 50 and not casadi["failure"]


HEAD = "import kinesym as ks\n"
RECORD = "ks.Collocation(ks.models.pendulum(), ks.Experiment([0, 1, 2], {}, {'theta': [1, 2, 3]}))"


@pytest.mark.parametrize(
    ("text", "nodes", "words"),
    [
        (None, None, "there is no file"),
        ("", None, "has no function problem"),
        ("problem = 3", None, "has no function problem"),
        ("def problem(): return 3", None, r"returned builtins.int; .* return problem, guess"),
        ("def problem(): pass", None, "returned nothing"),
        (f"{HEAD}def problem(): return ks.models.pendulum(), {{}}", None, "no ks.Collocation"),
        ("def problem():\n    return 1 / 0", None, "line 2: ZeroDivisionError"),
        ("import no_such_module", None, "line 1: ModuleNotFoundError"),
        ("def problem(:", None, "SyntaxError"),
        ("def problem(): pass", 20, "an argument nodes"),
        ("def problem(nodes): pass", None, "needs nodes: give a default, or --nodes"),
        ("def problem(nodes=5): pass", 1, "--nodes must be at least 2, got 1"),
        (
            f"{HEAD}def problem(): return {RECORD}, {{'theta': [1, 2]}}",
            None,
            "the guess of .*theta",
        ),
        (f"{HEAD}def problem(): return {RECORD}, 'x'", None, "the guess of .*a mapping"),
    ],
)
def test_files_that_say_nothing(text, nodes, words, tmp_path):
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(own.Refused, match=words) as refused:
        own.given_by(path, nodes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("limit", "out", "words"),
    [
        (-3.0, None, "above 0, got -3"),
        (float("nan"), None, "got nan"),
        (9.0, "no/x.json", "--json"),
    ],
)
def test_options_are_checked_before_measuring(limit, out, words, tmp_path):
    place = None if out is None else tmp_path / out
    with pytest.raises(own.Refused, match=words):
        own.run(argparse.Namespace(limit=limit, json=place, file=None))


def test_lines_of_code():
    text = '"""Words.\n\nMore."""\n\n# why\nx = [\n    1,  # one\n]\n\n'
    text += 'def f():\n    """It."""\n    return x\n'
    assert own.code_lines(text) == 5
