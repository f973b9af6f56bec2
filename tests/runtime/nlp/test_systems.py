"""Many small systems at once against LAPACK."""

import numpy as np
import pytest

from kinesym.runtime.native import solve_systems


def systems(n, count, share=1.0):
    """Matrices (count, n, n) whose neighbours are much alike, and sides (n, count)."""
    rng = np.random.default_rng(n + count)
    matrices = rng.standard_normal((n, n)) + 0.01 * rng.standard_normal((count, n, n))
    matrices[:, rng.random((n, n)) > share] = 0.0
    matrices += 3.0 * np.eye(n)[rng.permutation(n)]  # regular, mostly with a zero diagonal
    return matrices, *rng.standard_normal((2, n, count))


def entries(matrices, rows, columns):
    return matrices[:, rows, columns].T


def everywhere(n):
    return np.indices((n, n)).reshape(2, -1)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 7), (3, 8), (5, 17), (12, 100)])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_solutions(n, count, share):
    matrices, b, c = systems(n, count, share)
    rows, columns = np.nonzero((matrices != 0.0).any(axis=0))
    x, y = solve_systems(n, rows, columns, entries(matrices, rows, columns), b, c)
    for matrix, *sides in zip(matrices, b.T, c.T, x.T, y.T, strict=True):
        np.testing.assert_allclose(sides[2], np.linalg.solve(matrix, sides[0]), rtol=1e-10)
        np.testing.assert_allclose(sides[3], np.linalg.solve(matrix.T, sides[1]), rtol=1e-10)


def test_systems_without_common_pivots():
    """Each system has large entries at other places than the next one."""
    rng, (rows, columns) = np.random.default_rng(0), everywhere(6)
    matrices = np.array([np.eye(6)[rng.permutation(6)] for _ in range(21)])
    matrices += 1e-6 * rng.standard_normal(matrices.shape)
    b = rng.standard_normal((6, 21))
    x, nothing = solve_systems(6, rows, columns, entries(matrices, rows, columns), b)
    np.testing.assert_allclose(x.T, np.linalg.solve(matrices, b.T[..., None])[..., 0], rtol=1e-12)
    assert nothing is None


def test_duplicates_are_summed():
    x, y = solve_systems(1, [0, 0], [0, 0], [[1.0, 2.0], [3.0, 0.0]], [[8.0, 8.0]], [[4.0, 2.0]])
    assert x.tolist() == [[2.0, 4.0]] and y.tolist() == [[1.0, 1.0]]


def test_one_singular_system():
    matrices, b, _ = systems(4, 11)
    matrices[7, :, 2] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        solve_systems(4, *everywhere(4), entries(matrices, *everywhere(4)), b)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_one_system_without_numbers(wrong):
    """Its solutions are no numbers, the others are not disturbed."""
    matrices, b, c = systems(4, 11)
    expected = solve_systems(4, *everywhere(4), entries(matrices, *everywhere(4)), b, c)
    matrices[7, 1, 2] = wrong
    found = solve_systems(4, *everywhere(4), entries(matrices, *everywhere(4)), b, c)
    others = np.arange(11) != 7
    for sides, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(sides[:, others], right[:, others], rtol=1e-12)
        assert np.isnan(sides[:, 7]).any()


def test_sides_are_not_changed():
    matrices, b, c = systems(3, 5)
    before = b.copy(), c.copy()
    solve_systems(3, *everywhere(3), entries(matrices, *everywhere(3)), b, c)
    np.testing.assert_array_equal((b, c), before)


@pytest.mark.parametrize(
    ("rows", "side", "words"),
    [([0], (2, 3), "equally many"), ([0, 2], (2, 3), "outside"), ([0, 1], (2, 2), "shape")],
)
def test_what_does_not_fit(rows, side, words):
    with pytest.raises(ValueError, match=words):
        solve_systems(2, rows, [0, 1], np.ones((2, 3)), np.ones(side))
