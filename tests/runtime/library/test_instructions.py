"""KINESYM_INSTRUCTIONS leaves out wider sets of instructions than the one it names."""

import platform

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.library.build import abilities, find_compiler
from kinesym.runtime.native import Factorisation

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="sets of x86")


@pytest.mark.parametrize("most", ["avx2", "sse2"])
def test_wider_instructions_are_left_out(most, monkeypatch):
    """By the compiler, and by the KKT solver, whose factors differ by rounding."""
    every = find_compiler()
    n = 60
    rows = np.arange(n)
    places = np.append(rows, rows[1:]), np.append(rows, rows[:-1])
    values, b = np.append(np.full(n, 4.0), np.linspace(-1.0, 2.0, n - 1)), np.sin(rows)

    def solution():
        factors = Factorisation(n, *places, rows // 4)
        assert factors.factorise(values) == "ok"
        return factors.solve(b)

    wide = solution()
    monkeypatch.setenv("KINESYM_INSTRUCTIONS", most)
    narrow = find_compiler()
    assert narrow.identity != every.identity or "avx512f" not in abilities()
    assert not any(word.startswith("avx512") for word in abilities())
    assert ("avx2" in abilities()) <= (most == "avx2")
    np.testing.assert_allclose(solution(), wide, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("most", ["avx2", "sse2"])
def test_kernels_of_narrower_instructions(most, monkeypatch):
    monkeypatch.setenv("KINESYM_TIER", "compiled")
    x, p = ks.dynamicsymbols("x"), sp.symbols("p")
    model = ks.Model("narrow_decay", [x], [], [p], [x.diff(ks.t) + p * x])
    time = np.linspace(0.0, 1.0, 30)
    wide = ks.simulate(model, time, {x: 1.0}, {p: 2.0})["x"]
    monkeypatch.setenv("KINESYM_INSTRUCTIONS", most)
    narrow = ks.simulate(model, time, {x: 1.0}, {p: 2.0})["x"]
    np.testing.assert_allclose(narrow, wide, rtol=1e-12)


def test_an_unknown_set(monkeypatch):
    monkeypatch.setenv("KINESYM_INSTRUCTIONS", "avx3")
    with pytest.raises(ValueError, match="KINESYM_INSTRUCTIONS"):
        find_compiler()
