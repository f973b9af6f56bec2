"""Sparse matrices of dense blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, get_index_dtype

from kinesym.runtime.arrays import Array


class Block(NamedTuple):
    """Dense values (k, n, c) of a sparse matrix: entry [i, j, l] at (rows[i, j], columns[l]), or at
    columns[i, 0, l]."""

    values: Array
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]


def sparse(blocks: Sequence[Block], shape: tuple[int, int]) -> csr_array:
    """Sparse matrix of blocks that share no row."""
    if not blocks:
        return csr_array(shape)
    counts = np.zeros(shape[0] + 1, dtype=np.intp)
    for block in blocks:
        counts[block.rows + 1] = block.values.shape[2]
    begins = np.cumsum(counts)
    kind = get_index_dtype(maxval=max(begins[-1], *shape))
    data, columns = np.empty(begins[-1]), np.empty(begins[-1], dtype=kind)
    for block in blocks:
        at = begins[block.rows][:, :, None] + np.arange(block.values.shape[2])
        data[at], columns[at] = block.values, block.columns
    made = csr_array((data, columns, begins.astype(kind)), shape)
    made.sort_indices()
    return made
