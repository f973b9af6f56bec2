"""Invariant combinations of unknowns along directions, one direction less at a time."""

import numpy as np

from kinesym.runtime.statistics.exchange import _basis, _combinations


def test_combinations_are_the_reduced_echelon_form_of_what_is_orthogonal():
    directions = np.random.default_rng(5).standard_normal((9, 4))
    directions[3] = 0.0  # does not change along any
    found = list(_combinations(directions))
    assert [rows.shape for rows in found] == [(5, 9), (6, 9), (7, 9), (8, 9)]
    for count, rows in zip((4, 3, 2, 1), found, strict=True):
        ones = [int(np.flatnonzero(row)[0]) for row in rows]
        assert ones == sorted(ones)
        assert np.allclose(rows[:, ones], np.eye(len(rows)), atol=1e-12)
        assert np.allclose(
            rows @ _basis(directions[:, :count]), 0.0, atol=2e-3 * np.abs(rows).max()
        )
