"""Determinant and entries of the inverse from the factors of the KKT solver, against LAPACK."""

import numpy as np
import pytest
from test_kkt import FEATURES, clear_inertia, collocation_system, sizes, ways

from kinesym.runtime.native._kkt import BORDER, Factorisation, Workspace

#: Pivots with which entries of the inverse have about as many digits as solutions.
STRICT = (0.1, 0.01)


def factors(system, stages, reverse=False):
    rows, columns, values = system.entries()
    f = Factorisation(system.n, rows, columns, stages, reverse)
    assert f.factorise(values, *STRICT) == "ok"
    return f


def fresh_inverse(full):
    """By LAPACK, refined by one step of Newton's method."""
    inverse = np.linalg.inv(full)
    return inverse + inverse @ (np.eye(len(full)) - full @ inverse)


def examine(system, rng, variants):
    """Errors of the entries, relative to the largest, and of the logarithm of the determinant; and
    how many columns the factorisations have delayed."""
    rows, columns, _ = system.entries()
    inverse, (sign, log) = fresh_inverse(system.full), np.linalg.slogdet(system.full)
    swap, order = rng.random(len(rows)) < 0.5, rng.permutation(len(rows))
    i = np.where(swap, columns, rows)[order]
    j = np.where(swap, rows, columns)[order]
    errors, delayed = [], 0
    for stages, reverse in variants:
        f = factors(system, stages, reverse)
        error = np.abs(f.inverse_entries(i, j) - inverse[i, j]).max() / np.abs(inverse).max()
        errors.append((error, abs(f.log_determinant - log) / max(1.0, abs(log))))
        assert (-1) ** f.about["negative"] == sign
        delayed += f.about["delayed"]
    return errors, delayed


@pytest.mark.parametrize("feature", FEATURES)
def test_random_systems(feature):
    """Chains, borders, several trials, delayed pivots: all entries of the pattern, in any order."""
    rng = np.random.default_rng(sum(map(ord, feature)) + 1)
    errors, delayed = [], 0
    for _ in range(12):
        system = collocation_system(rng, **{**sizes(rng, 80), **FEATURES[feature](rng)})
        if clear_inertia(system.full) is not None:
            some, late = examine(system, rng, ways(system))
            errors, delayed = errors + some, delayed + late
    found = np.array(errors)
    assert np.median(found) < 1e-12 and np.quantile(found[:, 0], 0.9) < 1e-9
    assert found.max() < 1e-7
    assert delayed > 0 or feature not in ("rank one", "zero", "everything")


def test_some_entries():
    """Of parameters alone, of one node alone, of nothing; twice the same gives twice the same."""
    rng = np.random.default_rng(1)
    system = collocation_system(rng, N=12, nx=3, trials=3, kind="definite")
    f, inverse = factors(system, system.stages), fresh_inverse(system.full)
    border = np.flatnonzero(system.complete == BORDER)
    some = [*border, *np.flatnonzero(system.complete == 20)[:3], 0, 0, system.n - 1]
    for wanted in (border, some, some[-1:]):
        found = f.inverse_entries(wanted, wanted)
        np.testing.assert_allclose(found, inverse[wanted, wanted], rtol=1e-9, atol=1e-12)
    i, j = (k.ravel() for k in np.meshgrid(border, border))
    np.testing.assert_allclose(f.inverse_entries(i, j), f.inverse(border).ravel(), rtol=1e-9)
    assert f.inverse_entries([], []).shape == (0,)


def test_neighbouring_fronts():
    """Unknowns of three nodes in turn: of all that have one in common, nothing is missing."""
    rng = np.random.default_rng(3)
    for c in ({"N": 12, "trials": 2, "border": 3}, {"N": 9, "kind": "semidefinite"}):
        system = collocation_system(rng, nx=3, **c)
        f, inverse, node = (
            factors(system, system.stages),
            fresh_inverse(system.full),
            system.complete,
        )
        i, j = (k.ravel() for k in np.meshgrid(*2 * (np.flatnonzero(node >= 0),)))
        trial = node // (c["N"] + 1)
        near = (np.abs(node[i] - node[j]) <= 2) & (trial[i] == trial[j])
        found = f.inverse_entries(i[near], j[near])
        states = ~(np.diag(system.full)[[i[near], j[near]]] == 0.0).any(axis=0)
        assert not np.isnan(found[states]).any()
        known = ~np.isnan(found)
        error = np.abs(found - inverse[i[near], j[near]])[known]
        assert error.max() < 1e-9 * np.abs(inverse).max()


def test_unknowns_that_share_no_front():
    """Of nodes far apart the entry is not known this way: NaN, and the others are as they were."""
    rng = np.random.default_rng(2)
    system = collocation_system(rng, N=12, nx=3, kind="definite")
    f = factors(system, system.stages)
    last = np.flatnonzero(system.complete == 11)[0]
    found = f.inverse_entries([0, 0, last], [0, last, last])
    assert np.isnan(found[1])
    np.testing.assert_array_equal(found[[0, 2]], f.inverse_entries([0, last], [0, last]))


def test_a_pair_as_pivot():
    """[[0, 2], [2, 0]] has the determinant -4, and its inverse has nothing on its diagonal."""
    f = Factorisation(2, [0, 1, 1], [0, 0, 1], [0, 0])
    assert f.factorise([0.0, 2.0, 0.0]) == "ok" and f.about["pairs"] == 1
    np.testing.assert_array_equal(f.inverse_entries([0, 1, 0, 1], [0, 0, 1, 1]), [0, 0.5, 0.5, 0])
    assert f.log_determinant == pytest.approx(np.log(4.0), rel=1e-15)


def test_a_far_determinant():
    """Its logarithm is known where it is far beyond any number."""
    n = 5000
    every = np.arange(n)
    f = Factorisation(n, every, every, every)
    assert f.factorise(np.full(n, -1e-3)) == "ok"
    assert f.log_determinant == pytest.approx(-3.0 * n * np.log(10.0), rel=1e-12)
    assert f.about["negative"] == n
    np.testing.assert_allclose(f.inverse_entries(every, every), -1e3, rtol=1e-15)


def test_another_one_of_the_same_pattern():
    """It has no factors yet, those of the first one stay, and nothing is analysed again."""
    of, shared = (2, [0, 1, 1], [0, 0, 1], [0, 1]), Workspace()
    f = Factorisation(*of, workspace=shared)
    assert f.factorise([2.0, 1.0, 1.0]) == "ok"
    other = Factorisation(*of, workspace=shared)
    with pytest.raises(ValueError, match="factorise first"):
        other.solve([1.0, 0.0])
    assert other.factorise([4.0, 1.0, 1.0]) == "ok" and not other.about["analysed"]
    np.testing.assert_allclose([f.log_determinant, other.log_determinant], np.log([1.0, 3.0]))


def test_bad_input():
    """Without factors, outside of the matrix, unequal numbers: one sentence each."""
    f = Factorisation(2, [0, 1, 1], [0, 0, 1], [0, 1])
    for ask in (lambda: f.inverse_entries([0], [0]), lambda: f.log_determinant):
        with pytest.raises(ValueError, match="factorise first"):
            ask()
    assert f.factorise([1.0, 1.0, 1.0]) == "singular"
    with pytest.raises(ValueError, match="factorise first"):
        f.inverse_entries([0], [0])
    assert f.factorise([2.0, 1.0, 1.0]) == "ok"
    for rows, columns, words in (
        ([0], [2], "outside a matrix of order 2"),
        ([-1], [0], "outside a matrix of order 2"),
        ([0, 1], [0], "equally many"),
        ([0.5], [0], "integers"),
    ):
        with pytest.raises(ValueError, match=words):
            f.inverse_entries(rows, columns)
