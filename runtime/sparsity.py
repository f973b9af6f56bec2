"""Index arrays of sparse matrices, made from arithmetic runs of entries.

A run is what one kernel output fills: entries (row + i row_step, column + i column_step) for the
points i of the call, with steps 0 or 1. Runs that overlap, such as the contributions of two
neighbouring intervals to the node between them, share their entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.native import SET, SUM

#: IPOPT counts in 32 bits.
Index = NDArray[np.int32]


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


@dataclass(frozen=True)
class Structure:
    """Rows and columns of all values of a matrix, as arithmetic: nothing is stored per entry.

    Each block is a group of runs of equal length whose values are packed: `lanes` points of the
    first run, of the second, and so on, then the next `lanes` points (see kinesym.h).
    """

    blocks: tuple[tuple[Run, ...], ...]
    lanes: int

    @cached_property
    def size(self) -> int:
        """Number of values."""
        return sum(len(block) * block[0].count for block in self.blocks)

    def fill(self, rows: Index, columns: Index) -> None:
        """Write rows and columns, each (size,)."""
        begin = 0
        for block in self.blocks:
            end = begin + len(block) * block[0].count
            _fill(rows[begin:end], [(r.row, r.row_step) for r in block], self.lanes)
            _fill(columns[begin:end], [(r.column, r.column_step) for r in block], self.lanes)
            begin = end

    def arrays(self) -> tuple[Index, Index]:
        """Rows and columns."""
        rows, columns = np.empty(self.size, np.int32), np.empty(self.size, np.int32)
        self.fill(rows, columns)
        return rows, columns


def _fill(out: Index, lines: Sequence[tuple[int, int]], lanes: int) -> None:
    """Numbers begin + i step of the packed points i of some lines, given as (begin, step)."""
    begin, step = np.array(lines, dtype=np.int32).T[:, :, None]
    n = len(out) // len(lines)
    whole = n // lanes * lanes
    for first, last, width in ((0, whole, lanes), (whole, n, n - whole)):
        if last > first:
            part = out[first * len(lines) : last * len(lines)].reshape(-1, len(lines), width)
            points = np.arange(first, last, dtype=np.int32).reshape(-1, 1, width)
            np.multiply(step, points, out=part)
            part += begin


@dataclass(frozen=True)
class Assembly:
    """Structure of a matrix and, per call, where and how its outputs are written."""

    structure: Structure
    places: list[tuple[list[int], list[int]]]
    zero: NDArray[np.intp]  # entries to be zeroed before the calls


@dataclass
class _Stretch:
    """Entries without gap on one line; `value` is where their values begin."""

    first: Run
    start: int
    stop: int
    value: int = -1  # not placed yet

    @property
    def run(self) -> Run:
        """All of them as one run."""
        first, count = self.first, self.stop - self.start
        return Run(first.row, first.column, first.row_step, first.column_step, count, SET)


def assemble(calls: Sequence[Sequence[Run]]) -> Assembly:
    """Place the runs of all calls; the calls are made in this order.

    The first run on an entry sets it, later ones add to it.
    """
    every = [run for runs in calls for run in runs]
    owner = _stretches(every)
    size, blocks = 0, []
    for run in every:  # in the order of the outputs: runs that share nothing stay in order
        stretch = owner[run]
        if stretch.value < 0:
            stretch.value = size
            size += stretch.stop - stretch.start
            blocks.append((stretch.run,))
    places, written = [], Written(size)
    for runs in calls:
        offsets = [owner[run].value + run.start - owner[run].start for run in runs]
        modes = [written.mode(run, begin) for run, begin in zip(runs, offsets, strict=True)]
        places.append((offsets, modes))
    return Assembly(Structure(tuple(blocks), 1), places, written.zero)


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
    def zero(self) -> NDArray[np.intp]:
        """Values that nobody sets and that must be zeroed before."""
        return np.flatnonzero(~self._set)


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
