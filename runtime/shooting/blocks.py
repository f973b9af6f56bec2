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


class Places(NamedTuple):
    """Pattern of a sparse matrix of blocks that share no row, the same for all with these rows and
    columns. order : of all their values, as its rows have them."""

    order: NDArray[np.intp]
    columns: NDArray[np.integer]
    begins: NDArray[np.integer]
    shape: tuple[int, int]

    @staticmethod
    def of(blocks: Sequence[Block], shape: tuple[int, int]) -> Places:
        """Places of the values of these blocks."""
        counts = np.zeros(shape[0] + 1, dtype=np.intp)
        for block in blocks:
            counts[block.rows + 1] = block.values.shape[2]
        begins = np.cumsum(counts)
        order, columns = np.empty(begins[-1], dtype=np.intp), np.empty(begins[-1], dtype=np.intp)
        first = 0
        for block in blocks:
            at = begins[block.rows][:, :, None] + np.arange(block.values.shape[2])
            order[at] = first + np.arange(block.values.size).reshape(block.values.shape)
            columns[at], first = block.columns, first + block.values.size
        rows = np.repeat(np.arange(shape[0]), np.diff(begins))
        sorted_ = np.lexsort((columns, rows))
        kind = get_index_dtype(maxval=max(begins[-1], *shape))
        return Places(order[sorted_], columns[sorted_].astype(kind), begins.astype(kind), shape)

    def filled(self, blocks: Sequence[Block]) -> csr_array:
        """The matrix of such blocks."""
        values = np.concatenate([np.zeros(0), *(block.values.ravel() for block in blocks)])
        return csr_array((values[self.order], self.columns, self.begins), self.shape)
