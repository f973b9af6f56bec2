"""Quadratic forms S Z S' as sums over the needed entries of a symmetric matrix Z."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array


def terms_of_squares(slopes: Any) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Terms of the diagonal of S Z S', of symmetric Z (n, n), as sums of weights times entries of
    Z: rows of S, places in the upper triangle of Z, n times the row and the column, and weights,
    (k,) each."""
    matrix = csr_array(slopes)
    matrix.sum_duplicates()  # sorted afterwards
    counts, none = np.diff(matrix.indptr), np.zeros(0, dtype=np.intp)
    parts = [(none, none, np.zeros(0))]
    for count in np.unique(counts[counts > 0]):
        here = np.flatnonzero(counts == count)
        places = matrix.indptr[here][:, None] + np.arange(count)
        index, values = matrix.indices[places].astype(np.intp), matrix.data[places]
        i, j = np.triu_indices(count)
        keys = index[:, i] * matrix.shape[1] + index[:, j]
        weights = np.where(i == j, 1.0, 2.0) * values[:, i] * values[:, j]
        parts.append((np.repeat(here, len(i)), keys.ravel(), weights.ravel()))
    rows, keys, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, keys, weights
