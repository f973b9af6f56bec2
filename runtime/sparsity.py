"""Index arrays of sparse matrices, made from arithmetic runs of entries.

A run is what one kernel output fills: entries (row + i row_step, column + i column_step) for the
points i of the call, with steps 0 or 1. Runs that overlap, such as the contributions of two
neighbouring intervals to the node between them, share their entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.native import SET, SUM

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Run:
    """Entries of one kernel output; `mode` says how they are written if they exist already."""

    row: int
    column: int
    row_step: int
    column_step: int
    count: int
    mode: int

    @property
    def line(self) -> tuple[int, ...]:
        """What all entries of the run have in common: a diagonal, a row, a column, an entry."""
        if self.row_step and self.column_step:
            return (0, self.row - self.column)
        if self.row_step:
            return (1, self.column)
        return (2, self.row) if self.column_step else (3, self.row, self.column)

    @property
    def start(self) -> int:
        """Position of the first entry on its line."""
        return self.row if self.row_step else self.column if self.column_step else 0

    @property
    def length(self) -> int:
        """Number of distinct entries: one if the points are summed."""
        return self.count if self.row_step or self.column_step else 1


def packed(runs: Sequence[Run], lanes: int) -> tuple[Index, Index]:
    """Row and column of the packed outputs of one call: blocks of `lanes` points, see kinesym.h."""
    fields = [(r.row, r.row_step, r.column, r.column_step) for r in runs]
    row, row_step, column, column_step = np.array(fields, dtype=np.int64).T[:, :, None]
    n = runs[0].count
    rows, columns = np.empty(n * len(runs), np.int64), np.empty(n * len(runs), np.int64)
    whole = n // lanes * lanes
    for part, points in (
        (slice(0, whole * len(runs)), np.arange(whole).reshape(-1, 1, lanes)),
        (slice(whole * len(runs), None), np.arange(whole, n).reshape(1, 1, -1)),
    ):
        rows[part] = (row + row_step * points).ravel()
        columns[part] = (column + column_step * points).ravel()
    return rows, columns


@dataclass(frozen=True)
class Assembly:
    """Structure of a matrix and, per call, where and how its outputs are written."""

    rows: Index
    columns: Index
    places: list[tuple[list[int], list[int]]]
    zero: Index  # entries to be zeroed before the calls


@dataclass
class _Stretch:
    """Entries without gap on one line; `value` is where their values begin."""

    first: Run
    start: int
    stop: int
    value: int = -1  # not placed yet


def assemble(calls: Sequence[Sequence[Run]]) -> Assembly:
    """Place the runs of all calls; the calls are made in this order.

    The first run on an entry sets it, later ones add to it.
    """
    every = [run for runs in calls for run in runs]
    owner = _stretches(every)
    size = 0
    rows, columns = [], []
    for run in every:  # in the order of the outputs: runs that share nothing stay in order
        stretch = owner[run]
        if stretch.value < 0:
            stretch.value = size
            size += stretch.stop - stretch.start
            steps = np.arange(stretch.stop - stretch.start)
            rows.append(stretch.first.row + stretch.first.row_step * steps)
            columns.append(stretch.first.column + stretch.first.column_step * steps)
    places, written = [], Written(size)
    for runs in calls:
        offsets = [owner[run].value + run.start - owner[run].start for run in runs]
        modes = [written.mode(run, begin) for run, begin in zip(runs, offsets, strict=True)]
        places.append((offsets, modes))
    return Assembly(_joined(rows), _joined(columns), places, written.zero)


class Written:
    """Which values have a writer already: the first one sets them, later ones add."""

    def __init__(self, size: int) -> None:
        self._touched = np.zeros(size, dtype=bool)
        self._set = np.zeros(size, dtype=bool)

    def mode(self, run: Run, begin: int) -> int:
        """The mode in which `run` writes its values, which lie from `begin` on."""
        part = slice(begin, begin + run.length)
        fresh = run.mode != SUM and not self._touched[part].any()
        self._touched[part] = True
        self._set[part] |= fresh
        return SET if fresh else run.mode

    @property
    def zero(self) -> Index:
        """Values that nobody sets and that must be zeroed before."""
        return np.flatnonzero(~self._set)


def _joined(parts: list[Index]) -> Index:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _stretches(runs: Sequence[Run]) -> dict[Run, _Stretch]:
    """The stretch that each run lies in: the unions of overlapping runs, line by line."""
    by_line: dict[tuple[int, ...], list[Run]] = {}
    for run in runs:
        by_line.setdefault(run.line, []).append(run)
    owner: dict[Run, _Stretch] = {}
    for members in by_line.values():
        last: _Stretch | None = None
        for run in sorted(members, key=lambda r: r.start):
            if last is None or run.start >= last.stop:
                last = _Stretch(run, run.start, run.start)
            last.stop = max(last.stop, run.start + run.length)
            owner[run] = last
    return owner
