"""Bad input gets one sentence that names the offender and the remedy, before any long work."""

import os
import re
import signal
import sys
import tempfile

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.ipopt import library as ipopt_library
from kinesym.runtime.library.build import CompilerError, build

t = ks.t
x, v, u = ks.dynamicsymbols("x v u")
k, c = sp.symbols("k c")
TIME = np.linspace(0.0, 1.0, 11)


def oscillator(**changes):
    fields = {
        "name": "osc",
        "states": [x, v],
        "inputs": [u],
        "parameters": [k],
        "equations": [x.diff(t) - v, v.diff(t) + k * x - u],
    }
    return ks.Model(**{**fields, **changes})


def trial(**changes):
    fields = {"time": TIME, "inputs": {u: 0.0 * TIME}, "measurements": {x: np.cos(TIME)}}
    return ks.Experiment(**{**fields, **changes})


def problem(model=None, experiment=None, **changes):
    fields = {"unknown": {k: (0.1, 10.0)}, "scheme": "midpoint"}
    return ks.Collocation(model or oscillator(), experiment or trial(), **{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"equations": [x.diff(t) - v]},
            "state v\\(t\\) has no equation; 1 equations for 2 states|1 equations for 2 states",
        ),
        ({"equations": [x.diff(t) - k, x + u]}, "state v\\(t\\) has no equation"),
        ({"equations": [x.diff(t) - v, v.diff(t) + k * x - u + c]}, "c, which is not declared"),
        ({"equations": [x.diff(t, 2) - v, v.diff(t) + k * x - u]}, "derivative of order 2"),
        ({"equations": [x.diff(t) - v, v.diff(t) + k * x - u.diff(t)]}, "u\\(t\\) is not a state"),
        ({"states": [x, x]}, "name x is declared more than once"),
        ({"parameters": [k, x]}, "parameter x\\(t\\) is not a constant symbol"),
        ({"states": [x, k]}, "state k is not a function of time"),
        ({"values": {"kk": 1.0}}, "kk is unknown; did you mean k"),
        ({"outputs": {"y": x + sp.Symbol("z")}}, "output y contains z"),
        ({"equations": ["x", "v"]}, "text is not evaluated"),
        ({"equations": [x.diff(t) - v, v.diff(t) + k * x - u + sp.nan]}, "equation 1 contains NaN"),
        ({"states": x}, "states must be a list"),
        ({"values": [1.0]}, "must be a mapping"),
        ({"values": {k: "a"}}, "value of k must be a finite number, got .a."),
        ({"outputs": {"time": x}}, "the name time is reserved"),
        ({"outputs": {"a/b": x}}, "name 'a/b' cannot be .* in saved files, where '/' separates gr"),
        ({"outputs": {"": x}}, "the name of an output must be text that is not empty"),
        ({"outputs": {"a\0b": x}}, "contains the control character"),
        ({"parameters": [sp.Symbol("k", positive=True)]}, "another symbol than the declared one"),
        ({"intermediates": [(sp.Symbol("s"), c * x)]}, "intermediate s contains c"),
    ],
)
def test_model(changes, words):
    with pytest.raises(ValueError, match=words):
        oscillator(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time": [0.0]}, "at least 2 instants"),
        ({"time": [0.0, 1.0, 0.5]}, "step 1 goes from 1 to 0.5"),
        ({"time": [0.0, np.nan]}, "not finite at index 1"),
        ({"time": None}, "give either time"),
        ({"time": None, "duration": (1.0, 2.0)}, "needs nodes"),
        ({"time": None, "nodes": 5, "duration": (2.0, 1.0)}, "0 < low <= high"),
        ({"inputs": {u: np.zeros(10)}}, "input u has 10 values, expected 11"),
        ({"inputs": {u: np.full(11, np.nan)}}, "input u: 11 values .* index 0"),
        ({"measurements": {x: np.zeros(12)}}, "measurement x has 12 values, expected 11"),
        ({"measurements": {x: np.full(11, np.nan)}}, "has no sample at all"),
        ({"measurements": TIME}, "measurements must be a mapping"),
        ({"inputs": {u: np.sin}}, "input u is the function sin, expected 11 values"),
        ({"nodes": 12}, "time has 11 nodes, not 12"),
        ({"time": None, "nodes": 5, "duration": (0.5, np.inf)}, "both finite"),
        ({"std": {v: 1.0}}, "std of v, which is not measured"),
        ({"std": {x: 0.0}}, "std of x must be positive"),
        (
            {"inputs": {u: ks.Signal([0.0, 0.5], [1.0, 2.0])}},
            r"known for 0 \.\.\. 0\.5 s, but needed",
        ),
    ],
)
def test_experiment(changes, words):
    with pytest.raises(ValueError, match=words):
        trial(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unknown": {}}, "parameter k has no value"),
        ({"known": {"k": 1.0}}, "k is both known and unknown"),
        ({"unknown": {}, "known": {k: np.nan}}, "value of parameter k must be one finite number"),
        ({"unknown": {"kay": None}}, "kay is unknown"),
        ({"unknown": {k: (2.0, 1.0)}}, "bounds of k are crossed"),
        ({"unknown": {k: 3.0}}, "bounds of k must be"),
        ({"scheme": "rk4"}, "unknown scheme 'rk4'; choose one of radau-1, backward-euler, radau-3"),
        ({"bounds": {k: (0, 1)}}, "bounds: k is unknown"),
        ({"bounds": {x: (1, 0)}}, "bounds of x are crossed"),
        ({"objective": x**2}, "not made of Integral"),
        ({"objective": ks.Integral(c * x)}, "integrand contains c"),
        (
            {"objective": ks.Integral(k), "unknown": {}, "known": {k: 1.0}},
            "nothing that is unknown",
        ),
        ({"objective": ks.Terminal(x.diff(t))}, "terminal cost contains a derivative"),
        ({"boundary": [x - 1]}, "neither at_start"),
        ({"boundary": ks.at_start(x) - 1}, "boundary conditions must be a list"),
        ({"boundary": [sp.Ne(ks.at_start(x), 1)]}, "neither an equation nor an inequality"),
        ({"path": (x**2, 0, 4)}, "path condition 1, 0, must be an expression"),
        ({"path": [ks.at_end(x)]}, "belong in boundary conditions"),
        ({"objective": ks.Terminal(ks.integral(x))}, "belong in boundary conditions"),
        ({"objective": ks.Terminal(ks.at_start(x.diff(ks.t)))}, "contains a derivative of a state"),
        (
            {"unknown": [k]},
            r"unknown must be a mapping {parameter: \(low, high\) or None}, got \[k\]",
        ),
        ({"experiment": trial(), "known": [1]}, "known must be a mapping"),
        ({"boundary": [ks.at_start(x) - v]}, "outside at_start"),
        ({"path": [(x, 1)]}, "path condition 0 must be"),
        ({"path": [(x, 1, 0)]}, "bounds of path condition 0 are crossed"),
        ({"experiment": trial(inputs={})}, "input u has no data in trial 0"),
        ({"experiment": trial(inputs={u: 0, "w": 0})}, "data for input w, which is not used"),
        ({"unknown_inputs": {u: None}}, "input u, which is not used because it is unknown"),
        ({"experiment": trial(measurements={"z": TIME})}, "z is neither a state, an input nor"),
        ({"experiment": trial(measurements={})}, "the experiment has none"),
        ({"experiment": []}, "at least one experiment"),
    ],
)
def test_problem(changes, words):
    changes = dict(changes)
    experiment = changes.pop("experiment", None)
    with pytest.raises(ValueError, match=words):
        ks.Collocation(
            oscillator(),
            trial() if experiment is None else experiment,
            **{"unknown": {k: (0.1, 10.0)}, **changes},
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda: ks.Integral(x) - 1,
        lambda: sp.Eq(ks.Integral(x), 1),
        lambda: problem(boundary=[ks.Integral(x)]),
    ],
)
def test_integral_as_a_condition(make):
    with pytest.raises((TypeError, ValueError), match=r"is one of ks\.integral"):
        make()


def test_factors_of_an_objective():
    assert (sp.pi * ks.Integral(x) / 2).integrand == (np.pi / 2) * x
    with pytest.raises(TypeError, match="by numbers only, not by k"):
        ks.Integral(x) * k


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        (np.append(np.zeros(22), np.nan), "guess of parameter k is nan, not a finite number"),
        ([1, 2, 3], "a guess is a mapping"),
        ({k: np.nan}, "guess of k must be one finite number"),
        ({x: np.zeros(5)}, "guess of x has shape \\(5,\\), expected one number or 11"),
        ({"y": 1.0}, "guess: y is unknown"),
        (np.zeros(3), "free vector has 23 entries"),
    ],
)
def test_guess(guess, words):
    with pytest.raises(ValueError, match=words):
        problem().pack(guess)


def test_not_finite_names_expression_equation_node_and_time():
    """sqrt of a negative number at one node."""
    model = oscillator(equations=[x.diff(t) - v, v.diff(t) + k * sp.sqrt(x) - u])
    samples = np.ones(11)
    samples[7:] = -1.0
    task = problem(model, trial(measurements={x: samples}))
    with pytest.raises(ValueError) as error:
        task.solve()
    text = str(error.value)
    for part in ("equation 1", "interval 7", "t = 0.7 s", "trial 0", "sqrt(", "= -1"):
        assert part in text, text


def test_interrupt_returns_the_iterate(monkeypatch, sigint):
    """Ctrl-C in the second iteration: the iterate comes back, marked unconverged."""
    from contextlib import contextmanager

    @contextmanager
    def pressing(show):
        def report(step):
            if step.number == 2:
                os.kill(os.getpid(), signal.SIGINT)

        yield report

    model = ks.models.standing()
    time = np.linspace(0.0, 5.0, 501)
    run = ks.simulate(
        model, time, dict.fromkeys(model.state_names, 0.0), inputs={"a": np.sin(time)}
    )
    experiment = ks.Experiment(time, inputs={"a": np.sin(time)}, measurements=dict(run.states))
    task = ks.Collocation(model, experiment, unknown={"k_00": None, "k_11": None})
    monkeypatch.setattr("kinesym.internal.fitting.solving.iteration_line", pressing)
    solution = task.solve(guess={"k_00": 0.0, "k_11": 0.0})
    assert not solution.success and "interrupted" in solution.message
    assert 1 <= solution.iterations <= 4
    assert np.isfinite(solution.free_vector).all()
    monkeypatch.undo()
    assert task.solve(guess=solution).success
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_limit_of_iterations():
    solution = problem().solve(max_iterations=0)
    assert not solution.success and "limit of iterations" in solution.message


def test_a_guess_is_proposed_where_none_was_given():
    """A state that is measured, or whose integral is guessed, has one."""
    model = ks.Model("cart", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u])
    task = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 1.0, 11)),
        unknown_inputs={u: None},
        objective=ks.Integral(u**4),
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)],
    )
    ended = "the limit of iterations was reached"
    words = task.solve(max_iterations=1).message
    said = "no guess was given of x, v, which began at zero or on lines between conditions: solve"
    assert ended in words and said in words
    for guess in ({x: np.linspace(0.0, 1.0, 11)}, {x: 0.5, v: 1.0}, task.pack()):
        words = task.solve(guess=guess, max_iterations=1).message
        assert ended in words and "guess" not in words


def test_unknown_option_and_solver():
    with pytest.raises(ValueError, match="does not accept the option nonsense"):
        problem().solve(options={"nonsense": 1})
    with pytest.raises(ValueError, match="hessian is one of"):
        problem().solve(hessian="magic")
    with pytest.raises(ValueError, match="needs the library"):
        problem().solve(options={"linear_solver": "ma97", "hsllib": "libnone.so"})


def test_too_few_degrees_of_freedom():
    """Everything prescribed: IPOPT's refusal becomes a sentence."""
    task = problem(boundary=[ks.at_start(x) - 1, ks.at_start(v), ks.at_end(x), ks.at_end(v)])
    solution = task.solve()
    assert not solution.success and "degrees of freedom" in solution.message


def test_missing_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerError, match="no-such-compiler named by CC was not found; install"):
        ks.compile(oscillator())


def test_compiler_failure_shows_its_words():
    with pytest.raises(CompilerError, match=re.compile("failed on broken.c.*error:", re.DOTALL)):
        build({"broken.c": "int f(void) { return oops; }\n"})


def test_missing_ipopt(monkeypatch):
    """No library at all: said before the long work, refused after it, the problem usable."""
    ipopt_library.load_ipopt.cache_clear()
    monkeypatch.setattr(ipopt_library, "_candidates", lambda: iter(["/nowhere/libipopt.so"]))
    monkeypatch.setitem(sys.modules, "cyipopt", None)
    with pytest.warns(
        UserWarning, match="be solved: IPOPT 3.14 or newer is missing .*; install casadi"
    ):
        task = problem()
    assert np.isfinite(task.cost(task.pack()))
    with pytest.raises(ImportError, match=r"cannot open /nowhere.*; install casadi"):
        task.solve()
    with pytest.raises(ImportError, match="cyipopt cannot be imported"):
        task.solve(driver="cyipopt")
    with pytest.raises(ImportError, match="cannot open /nowhere"):
        task.solve(driver="direct")


def test_unknown_driver():
    with pytest.raises(ValueError, match="unknown driver 'fast'; choose one of auto, direct, cyip"):
        problem().solve(driver="fast")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"initial": {x: 1.0}}, "initial value of state v is missing"),
        ({"initial": {}}, "the initial values of states x, v are missing; add them to initial"),
        ({"inputs": {}}, "the input u is missing"),
        ({"parameters": {}}, "parameter k is missing; add it to parameters"),
        ({"parameters": {k: [[1.0, 2.0]]}}, "parameter k must be one number or .members,."),
        ({"parameters": {k: [1, 2]}, "initial": {x: [1, 2, 3], v: 0}}, "members is not clear"),
        ({"parameters": {k: [1.0, np.nan]}}, "parameter k of member 1 is nan"),
        ({"inputs": {u: np.sin}}, "input u is the function sin, expected 11 values"),
        ({"inputs": {u: np.zeros(7)}}, "input u has 7 values, expected 11 values"),
        ({"inputs": {u: np.full(11, np.inf)}}, "11 values are not finite, the first at index 0"),
        ({"inputs": {u: np.zeros(21)}}, "input u has 21 values, expected 11 values"),
        ({"inputs": {u: np.zeros((2, 7))}}, r"input u has shape \(2, 7\), expected 11 values"),
        ({"method": "dormand-prince", "rtol": 0.0}, "rtol must be positive, got 0.0"),
        ({"parameters": {k: np.inf}}, "parameter k is inf"),
        ({"method": "euler"}, "method is one of rk4"),
        ({"substeps": 0}, "substeps must be at least 1"),
        ({"initial": {x: np.nan, v: 0.0}}, "initial value of state x is nan"),
        ({"initial": {x: 1, v: 0, "z": 3}}, "initial: z is unknown"),
    ],
)
def test_simulate(changes, words):
    fields = {"initial": {x: 1.0, v: 0.0}, "inputs": {u: 0.0}, "parameters": {k: 1.0}}
    with pytest.raises(ValueError, match=words):
        ks.simulate(oscillator(), TIME, **{**fields, **changes})


def test_divergence_names_the_time():
    """What was computed is returned, with a warning."""
    model = ks.Model("blow", [x], [], [], [x.diff(t) - x**2])
    with pytest.warns(UserWarning, match=r"blow: diverged between t = 1.\d and 1.\d s"):
        run = ks.simulate(model, np.linspace(0.0, 20.0, 201), {x: 1.0})
    assert "the model is unstable" in run.message and np.isfinite(run["x"]).all()
    assert 10 < len(run.time) < 20 and run["x"][5] == pytest.approx(2.0, rel=1e-4)


def test_no_right_hand_side():
    """A nonlinear x' and an algebraic state cannot be stepped explicitly."""
    nonlinear = ks.Model("n", [x], [], [], [x.diff(t) ** 3 + x.diff(t) + x])
    with pytest.raises(ValueError, match="x' enters equation 0 nonlinearly"):
        ks.simulate(nonlinear, TIME, {x: 1.0})
    algebraic = ks.Model("a", [x, v], [], [], [x.diff(t) - v, v - x])
    with pytest.raises(ValueError, match="state v has no derivative"):
        ks.simulate(algebraic, TIME, {x: 1.0, v: 1.0})
    singular = ks.Model("s", [x, v], [], [], [x.diff(t) + v.diff(t), x.diff(t) + v.diff(t) + x])
    with pytest.raises(ValueError, match="the initial values violate constraint_0, x = 0 by 1"):
        ks.simulate(singular, TIME, {x: 1.0, v: 1.0})


def test_unsupported_function():
    model = ks.Model("g", [x], [], [], [x.diff(t) - sp.besseli(0, x)])
    with pytest.raises(ValueError, match="besseli"):
        ks.compile(model)


def test_unwritable_cache(monkeypatch, capsys, tmp_path):
    from kinesym.cli import main

    monkeypatch.setenv("KINESYM_CACHE", "/proc/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.warns(UserWarning, match=f"cannot be used .* go to {tmp_path}.*; mend that, or"):
        ks.compile(oscillator())
    with pytest.warns(UserWarning, match="cannot be used"):
        assert main(["doctor"]) == 1
    assert "cannot be written" in capsys.readouterr().out


def test_number_of_parameters():
    f = ks.compile(oscillator())
    with pytest.raises(ValueError, match=r"p has shape \(1, 2\), expected 1 values"):
        f.rhs(np.zeros((2, 2)), np.zeros((1, 2)), np.ones((1, 2)))
