"""Steps to the minimum of quadratic models within a trust region and bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from kinesym.runtime.native import steps_aside, trust_steps

FAR = np.inf


def models(seed, count=3, n=5, definite=True):
    """Gradients (count, n) and symmetric matrices, of eigenvalues in -3 ... -1 and 1 ... 3."""
    r = np.random.default_rng(seed)
    turned = np.linalg.qr(r.normal(size=(count, n, n)))[0]
    signs = 1.0 if definite else np.sign(r.normal(size=(count, n)))
    values = signs * r.uniform(1.0, 3.0, size=(count, n))
    return r.normal(size=(count, n)), np.einsum("kij,kj,klj->kil", turned, values, turned)


def fall_of(g, A, s):
    return -(np.sum(g * s, axis=1) + 0.5 * np.einsum("ki,kij,kj->k", s, A, s))


def box(g, side):
    return np.full(g.shape, -side), np.full(g.shape, side)


def test_without_limits_it_is_newtons_step():
    g, A = models(0)
    s, fall = trust_steps(g, *box(g, FAR), A, np.full(3, FAR))
    assert s == pytest.approx(np.linalg.solve(A, -g[:, :, None])[:, :, 0], rel=1e-12)
    assert fall == pytest.approx(fall_of(g, A, s), rel=1e-12)


@given(st.integers(0, 10**6), st.booleans())
def test_in_a_trust_region_it_is_the_best_of_all(seed, definite):
    """(A + shift) s = -g with A + shift positive definite, and the length of the radius."""
    g, A = models(seed, definite=definite)
    s, fall = trust_steps(g, *box(g, FAR), A, np.full(3, 0.2))
    left = -g - np.einsum("kij,kj->ki", A, s)
    shift = np.sum(left * s, axis=1) / np.sum(s * s, axis=1)
    assert left == pytest.approx(shift[:, None] * s, rel=1e-9, abs=1e-9)
    assert (np.linalg.eigvalsh(A)[:, 0] + shift > -1e-9).all() and (shift > -1e-9).all()
    length = np.linalg.norm(s, axis=1)
    assert (length <= 0.2 * (1.0 + 1e-3)).all()
    inner = length < 0.2 * (1.0 - 1e-3)
    assert np.abs(shift[inner]).max(initial=0.0) < 1e-9
    assert fall == pytest.approx(fall_of(g, A, s), rel=1e-9)


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.3, FAR]))
def test_bounds_are_kept_and_the_model_falls(seed, definite, radius):
    g, A = models(seed, definite=definite)
    r = np.random.default_rng(seed)
    low, high = -r.uniform(0.0, 0.4, size=g.shape), r.uniform(0.0, 0.4, size=g.shape)
    low[0, 0], high[1, 1] = 0.0, 0.0
    s, fall = trust_steps(g, low, high, A, np.full(3, radius))
    assert (low <= s).all() and (s <= high).all()
    assert (fall > 0.0).all()
    assert (fall_of(g, A, s) > 0.0).all()


def test_of_one_unknown_it_is_the_minimum_within_bounds():
    r = np.random.default_rng(1)
    for _ in range(50):
        g, A = r.normal(size=(1, 1)), r.uniform(0.1, 2.0, size=(1, 1, 1))
        low, high = -r.uniform(0.1, 2.0, size=(1, 1)), r.uniform(0.1, 2.0, size=(1, 1))
        s, _ = trust_steps(g, low, high, A, np.array([FAR]))
        found = minimize_scalar(
            lambda x, g=g, A=A: float(g[0, 0] * x + 0.5 * A[0, 0, 0] * x * x),
            bounds=(low[0, 0], high[0, 0]),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert s[0, 0] == pytest.approx(found.x, abs=1e-5)


def test_unknowns_pushed_against_a_bound_stay():
    g = np.array([[1.0, -1.0, 2.0]])
    low, high = np.array([[0.0, -1.0, -FAR]]), np.array([[1.0, 0.0, FAR]])
    s, fall = trust_steps(g, low, high, np.eye(3)[None], np.array([FAR]))
    assert s.tolist() == [[0.0, 0.0, -2.0]] and fall[0] == pytest.approx(2.0)
    nowhere = np.zeros((1, 3))
    s, fall = trust_steps(g, nowhere, nowhere, np.eye(3)[None], np.array([1.0]))
    assert not s.any() and fall[0] == 0.0


def test_each_model_is_by_itself():
    g, A = models(2, count=6, definite=False)
    low, high = box(g, 0.3)
    radius = np.linspace(0.1, 1.0, 6)
    s, fall = trust_steps(g, low, high, A, radius)
    for k in range(6):
        one = slice(k, k + 1)
        alone = trust_steps(g[one], low[one], high[one], A[one], radius[one])
        assert np.array_equal(alone[0][0], s[k]) and alone[1][0] == fall[k]


@pytest.mark.parametrize("definite", [True, False])
def test_aside_undoes_slopes_at_the_end_of_a_step(definite):
    """The model with the shift of its step is at a minimum there; slopes `bend` more move that."""
    g, A = models(3, definite=definite)
    s, _ = trust_steps(g, *box(g, FAR), A, np.full(3, 0.2))
    bend = np.random.default_rng(4).normal(size=g.shape)
    free = np.ones(g.shape, dtype=bool)
    free[:, 2] = False
    aside = steps_aside(g, A, free, s, bend)
    assert not aside[:, 2].any()
    left = -g - np.einsum("kij,kj->ki", A, s)
    size = np.sum(np.where(free, s, 0.0) ** 2, axis=1)
    shift = np.sum(np.where(free, left * s, 0.0), axis=1) / size
    for k in range(3):
        on = np.flatnonzero(free[k])
        stiff = A[k][np.ix_(on, on)] + max(shift[k], 0.0) * np.eye(len(on))
        assert aside[k, on] == pytest.approx(-np.linalg.solve(stiff, bend[k, on]), rel=1e-9)
    assert not steps_aside(g, A, np.zeros_like(free), s, bend).any()
    assert np.isnan(steps_aside(g, A, free, s, bend * np.nan)[:, 0]).all()


def test_nothing_and_wrong_shapes():
    none = np.zeros((0, 2))
    s, fall = trust_steps(none, none, none, np.zeros((0, 2, 2)), np.zeros(0))
    assert s.shape == (0, 2) and fall.shape == (0,)
    with pytest.raises(ValueError, match="matrix must be contiguous float64 of shape"):
        trust_steps(np.ones((1, 2)), none, none, np.eye(3)[None], np.ones(1))
    with pytest.raises(ValueError, match="radius must be contiguous"):
        trust_steps(np.ones((1, 2)), *box(np.ones((1, 2)), 1.0), np.eye(2)[None], np.ones(2))
