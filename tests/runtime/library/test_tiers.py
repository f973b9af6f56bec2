"""Interpreted until a compiled library takes over, or for good."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.library import build, tiers
from kinesym.runtime.library.build import CompilerError
from kinesym.runtime.native import Compiled, Interpreted

x, v, u = ks.dynamicsymbols("x v u")
k, c = sp.symbols("k c")


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """An empty cache, and nothing forced."""
    monkeypatch.setenv("KINESYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KINESYM_TIER", raising=False)


def spring(number):
    """A model that no other test has."""
    return ks.Model(
        f"spring_{number}",
        [x, v],
        [],
        [k, c],
        [x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v + sp.Rational(number, 1000) * x**3],
        values={k: 4, c: 0.1},
    )


def fit(model, nodes=400):
    time = np.linspace(0.0, 10.0, nodes)
    noise = 0.01 * np.random.default_rng(0).standard_normal(nodes)
    trial = ks.Experiment(time, measurements={x: np.cos(2.0 * time) * np.exp(-0.05 * time) + noise})
    return ks.Collocation(model, trial, unknown={k: (0, 50), c: (0, 5)})


def values(nlp, z):
    """All callbacks at a point."""
    y = np.ones(nlp.n_constraints)
    return [nlp.cost(z), nlp.gradient(z), nlp.constraints(z), nlp.jacobian(z), nlp.hessian(z, y, 1)]


def broken(tmp_path, monkeypatch):
    """A compiler that fails."""
    path = tmp_path / "broken"
    path.write_text("#!/bin/sh\necho this compiler is broken >&2\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))


def test_both_ways_are_the_same(monkeypatch):
    """Estimates, errors and iterations; the second time the compiled one is found."""
    monkeypatch.setenv("KINESYM_TIER", "interpreted")
    first = fit(spring(1))
    assert isinstance(first.nlp.library, Interpreted)
    one = first.solve({k: 3, c: 0.2})
    monkeypatch.setenv("KINESYM_TIER", "compiled")
    second = fit(spring(1).extended())
    assert isinstance(second.nlp.library, Compiled)
    other = second.solve({k: 3, c: 0.2})
    assert one.success and one.iterations == other.iterations
    for name, value in one.parameters.items():
        assert value == pytest.approx(other.parameters[name], rel=1e-10)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)
    monkeypatch.delenv("KINESYM_TIER")
    assert isinstance(fit(spring(1).extended()).nlp.library, Compiled), "it is kept"


def test_a_compiled_one_takes_over(monkeypatch):
    """In the middle of a problem's life: the same values, by other kernels."""
    problem = fit(spring(2))
    library = problem.nlp.library
    assert isinstance(library, Interpreted) and library.spent == 0.0
    z = problem.pack({k: 3, c: 0.2})
    before = values(problem.nlp, z)
    spent = library.spent
    assert spent > 0.0
    monkeypatch.setattr(tiers, "_START", -1.0)
    monkeypatch.setattr(tiers, "_background", lambda: pool)
    with ThreadPoolExecutor(1) as pool:
        solution = problem.solve({k: 3, c: 0.2}, progress=False)
    assert solution.success and library.asked
    spent = library.spent
    after = values(problem.nlp, z)
    assert library.spent == spent, "nothing is interpreted any more"
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    assert isinstance(fit(spring(2).extended()).nlp.library, Compiled), "it is kept"


def test_without_a_compiler(tmp_path, monkeypatch):
    """Everything works, and what it costs is said once."""
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = fit(spring(3)).solve({k: 3, c: 0.2}, progress=False)
    assert solution.success
    with pytest.warns(UserWarning, match="kernels are interpreted, time stepping takes several"):
        run = ks.simulate(spring(4), np.linspace(0, 1, 11), {x: 1, v: 0})
    monkeypatch.setenv("KINESYM_TIER", "compiled")
    monkeypatch.delenv("CC")
    same = ks.simulate(spring(4).extended(), np.linspace(0, 1, 11), {x: 1, v: 0})
    np.testing.assert_allclose(run["x"], same["x"], rtol=1e-12)


def test_a_broken_compiler(tmp_path, monkeypatch):
    broken(tmp_path, monkeypatch)
    monkeypatch.setattr(tiers, "_START", -1.0)
    problem = fit(spring(5))
    with pytest.warns(UserWarning, match="(?s)kernels stay interpreted: .*this compiler is broken"):
        assert problem.solve({k: 3, c: 0.2}, progress=False).success
        tiers._background().submit(int).result()
    monkeypatch.setenv("KINESYM_TIER", "compiled")
    with pytest.raises(CompilerError, match="this compiler is broken"):
        fit(spring(6))


def test_a_compiler_that_hangs(tmp_path, monkeypatch):
    """It is given up, and the work goes on."""
    path = tmp_path / "sleepy"
    path.write_text("#!/bin/sh\nexec sleep 1000\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    monkeypatch.setattr(build, "_ANSWER_SECONDS", 0.05)
    with pytest.warns(UserWarning, match=r"sleepy --version did not end within 0.05 s; mend that"):
        run = ks.simulate(spring(10), np.linspace(0, 1, 11), {x: 1, v: 0})
    assert abs(run["x"][-1] - np.cos(2.0)) < 0.1


def test_an_unknown_tier(monkeypatch):
    monkeypatch.setenv("KINESYM_TIER", "fast")
    with pytest.raises(ValueError, match="KINESYM_TIER is one of compiled, interpreted, got"):
        fit(spring(7))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies(copied):
    problem = fit(spring(8))
    other = copied(problem)
    assert isinstance(other.nlp.library, Interpreted)
    z = problem.pack({k: 3, c: 0.2})
    assert np.array_equal(problem.constraints(z), other.constraints(z))


@pytest.mark.parametrize("method", ["rk4", "dormand-prince", "trapezoid", "radau-5"])
def test_steps(method, monkeypatch):
    """Loops of all kinds, and gradients by them, with interpreted kernels."""
    found = []
    for tier in ("interpreted", "compiled"):
        monkeypatch.setenv("KINESYM_TIER", tier)
        model, time = spring(9), np.linspace(0, 5, 51)
        run = ks.simulate(model, time, {x: 1, v: 0}, method=method)
        trial = ks.Experiment(time, measurements={x: np.cos(2 * time)})
        options = (
            {"initial": {x: 1, v: 0}, "method": method} if method != "dormand-prince" else None
        )
        if options is not None:
            shooting = ks.Shooting(model, trial, {k: (0, 50), c: (0, 5)}, **options)
            found.append([run["x"], shooting.solve({k: 4, c: 0.1}).parameters["k"]])
        else:
            found.append([run["x"]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)
