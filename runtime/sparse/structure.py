"""Index arrays of sparse matrices, made from arithmetic runs of entries.

A run is the set of entries that one kernel output fills: (row + i row_step, column + i column_step)
for the points i of the call, with steps 0 or 1. Runs that overlap, such as the contributions of two
neighbouring intervals to the node between them, share their entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import ADD, LATE, SET, SUM
from kinesym.runtime.sparse.places import Places, places

#: IPOPT counts in 32 bits.
Index = NDArray[np.int32]
#: Numbers of some values, their rows and their columns.
Entries = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True)
class Run:
    """Run: entries of one kernel output at successive points; `mode` is how values are written to
    entries that exist already."""

    row: int
    column: int
    row_step: int
    column_step: int
    count: int
    mode: int

    @property
    def line(self) -> tuple[int, ...]:
        """Line on which all entries of the run lie: a diagonal, a column, a row, or one entry."""
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


@dataclass(frozen=True, eq=False)
class Factors:
    """Scale factors of the values of a matrix; nothing is stored per value.

    numbers : one for each run, block after block. shapes : how many runs a block has, and how many
    values each of its runs, packed as in `Structure`.
    """

    numbers: Array
    shapes: tuple[tuple[int, int], ...]
    lanes: int = 1

    @staticmethod
    def of(vector: Array) -> Factors:
        """Factors with one number for each value."""
        return Factors(vector, ((len(vector), 1),))

    def multiply(self, values: Array) -> None:
        """Multiply values, in place."""
        first = begin = 0
        for runs, count in self.shapes:
            numbers = self.numbers[first : first + runs, None]
            rest = count % self.lanes
            whole, end = begin + runs * (count - rest), begin + runs * count
            for part, width in ((values[begin:whole], self.lanes), (values[whole:end], rest)):
                if len(part):
                    blocks = part.reshape(-1, runs, width)
                    blocks *= numbers
            first, begin = first + runs, end


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
        return arrays(self)

    def in_rows(self, wanted: NDArray[np.bool_]) -> Entries:
        """Numbers, rows and columns of the values in some rows, in the order of the values."""

        def points(run: Run) -> NDArray[np.intp]:
            if run.row_step:
                return np.flatnonzero(wanted[run.row : run.row + run.count])
            return np.arange(run.count if wanted[run.row] else 0)

        return self._some(points)

    def on_diagonal(self) -> Entries:
        """Entries on the diagonal."""

        def points(run: Run) -> NDArray[np.intp]:
            off, step = run.row - run.column, run.column_step - run.row_step
            if step == 0:
                return np.arange(0 if off else run.count)
            return np.arange(off // step, off // step + (0 <= off // step < run.count))

        return self._some(points)

    def _some(self, points: Callable[[Run], NDArray[np.intp]]) -> Entries:
        """Entries at some points of each run."""
        none = np.zeros(0, dtype=np.intp)
        found, begin = [(none, none, none)], 0
        for block in self.blocks:
            count = block[0].count
            whole = count // self.lanes * self.lanes
            for slot, run in enumerate(block):
                i = points(run)
                if not len(i):
                    continue
                first = np.where(i < whole, i // self.lanes * self.lanes, whole)
                width = np.where(i < whole, self.lanes, count - whole)
                number = begin + first * len(block) + slot * width + i - first
                found.append((number, run.row + i * run.row_step, run.column + i * run.column_step))
            begin += len(block) * count
        numbers, rows, columns = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.argsort(numbers)
        return numbers[order], rows[order], columns[order]

    def products(self, of_rows: Array, of_columns: Array) -> Factors:
        """Products of a number of the row and one of the column, for each value. Each is the same
        at all rows and at all columns of a run."""
        made = [of_rows[r.row] * of_columns[r.column] for block in self.blocks for r in block]
        shapes = [(len(block), block[0].count) for block in self.blocks]
        return Factors(np.array(made, dtype=float), tuple(shapes), self.lanes)


@dataclass(frozen=True, eq=False)
class Extended:
    """Extended structure, with further entries of given rows and columns behind its own."""

    plain: Structure | Extended
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]

    @property
    def size(self) -> int:
        """Number of values."""
        return self.plain.size + len(self.rows)

    def fill(self, rows: Index, columns: Index) -> None:
        """Write rows and columns, each (size,)."""
        begin = self.plain.size
        self.plain.fill(rows[:begin], columns[:begin])
        rows[begin:], columns[begin:] = self.rows, self.columns

    def arrays(self) -> tuple[Index, Index]:
        """Rows and columns."""
        return arrays(self)

    def in_rows(self, wanted: NDArray[np.bool_]) -> Entries:
        """See `Structure.in_rows`."""
        return self._with_own(self.plain.in_rows(wanted), wanted[self.rows])

    def on_diagonal(self) -> Entries:
        """See `Structure.on_diagonal`."""
        return self._with_own(self.plain.on_diagonal(), self.rows == self.columns)

    def _with_own(self, plain: Entries, mine: NDArray[np.bool_]) -> Entries:
        own = np.flatnonzero(mine)
        more = self.plain.size + own, self.rows[own], self.columns[own]
        numbers, rows, columns = map(np.concatenate, zip(plain, more, strict=True))
        return numbers, rows, columns

    def products(self, of_rows: Array, of_columns: Array) -> Factors:
        """See `Structure.products`."""
        more = of_rows[self.rows] * of_columns[self.columns]
        plain = self.plain.products(of_rows, of_columns)
        shapes = (*plain.shapes, (len(more), 1))
        return replace(plain, numbers=np.concatenate([plain.numbers, more]), shapes=shapes)


def arrays(structure: Any) -> tuple[Index, Index]:
    """Rows and columns of a structure with `size` and `fill`."""
    rows, columns = (np.empty(structure.size, np.int32) for _ in range(2))
    structure.fill(rows, columns)
    return rows, columns


def _fill(out: Index, lines: Sequence[tuple[int, int]], lanes: int) -> None:
    """Numbers begin + i step of the packed points i of some lines, given as (begin, step)."""
    begin, step = np.array(lines, dtype=out.dtype).T[:, :, None]
    n = len(out) // len(lines)
    whole = n // lanes * lanes
    for first, last, width in ((0, whole, lanes), (whole, n, n - whole)):
        if last > first:
            part = out[first * len(lines) : last * len(lines)].reshape(-1, len(lines) * width)
            own = np.arange(width, dtype=out.dtype)
            firsts = np.arange(first, last, width, dtype=out.dtype)[:, None]
            np.multiply(firsts, np.repeat(step[:, 0], width), out=part)
            part += (begin + step * own).ravel()


@dataclass
class _Stretch:
    """Entries without gap on one line, and their place.

    Entries `begin`, `begin` + 1, ... are one of the packed runs of the call that comes first; one
    more before or after them lies at `other`.
    """

    first: Run
    start: int
    stop: int
    begin: int = 0
    place: tuple[int, int, int, int] | None = None  # base, members, slot, count
    other: int = -1

    def part(self, begin: int, count: int) -> Run:
        """`count` entries from number `begin` on, as a run."""
        run, skip = self.first, begin - self.start
        row, column = run.row + skip * run.row_step, run.column + skip * run.column_step
        return Run(row, column, run.row_step, run.column_step, count, SET)


def assemble(
    calls: Sequence[Sequence[Run]], lanes: int
) -> tuple[Structure, list[Places], NDArray[np.intp]]:
    """Structure of a matrix, the places of the outputs of each call, which are made in this order,
    and entries to be zeroed before. The first run on an entry sets it, later ones add to it. The
    values that a call sets lie packed, as one stream."""
    owner = _stretches([run for runs in calls for run in runs])
    blocks: list[tuple[Run, ...]] = []
    size = 0
    for runs in calls:
        for block in _place(runs, owner, size):
            blocks.append(block)
            size += len(block) * block[0].count
    stretches = list({id(s): s for s in owner.values()}.values())
    begins = np.cumsum([0] + [s.stop - s.start for s in stretches])  # numbered without packing
    value = {id(s): int(begin) for s, begin in zip(stretches, begins, strict=False)}
    written = Written(size)
    made = []
    for runs in calls:
        mine = [owner[run] for run in runs]
        modes, late = written.modes(
            runs, [value[id(s)] + run.start - s.start for run, s in zip(runs, mine, strict=True)]
        )
        fields = np.array([s.place for s in mine], dtype=np.intp).reshape(-1, 4).T
        made.append(
            places(
                len(runs),
                **dict(zip(("base", "members", "slot", "count"), fields, strict=True)),
                first=[run.start - s.begin for run, s in zip(runs, mine, strict=True)],
                other=[s.other for s in mine],
                late=late,
                mode=modes,
            )
        )
    return Structure(tuple(blocks), lanes), made, _packed(written.zero, stretches, lanes)


def _place(runs: Sequence[Run], owner: dict[Run, _Stretch], size: int) -> list[tuple[Run, ...]]:
    """Place the stretches that a call is the first to write, from `size` on; returns the blocks.
    Those that neighbouring points share come first: the others follow them without a gap."""
    shared = partners(runs)
    order = [*sorted(shared), *(k for k in range(len(runs)) if k not in shared)]
    fresh: dict[int, tuple[_Stretch, Run]] = {}
    for run in (runs[k] for k in order):
        fresh.setdefault(id(owner[run]), (owner[run], run))
    new = [(s, run) for s, run in fresh.values() if s.place is None]
    packed = [
        (s, run) for s, run in new if run.mode != SUM and s.stop - s.start - run.count in (0, 1)
    ]
    blocks = []
    for slot, (s, run) in enumerate(packed):
        s.begin, s.place = run.start, (size, len(packed), slot, run.count)
    if packed:
        blocks.append(tuple(s.part(run.start, run.count) for s, run in packed))
        size += len(packed) * packed[0][1].count
    more = [(s, run) for s, run in packed if s.stop - s.start > run.count]
    for k, (s, _) in enumerate(more):
        s.other = size + k
    if more:
        outside = [s.start if run.start > s.start else s.stop - 1 for s, run in more]
        blocks.append(tuple(s.part(j, 1) for (s, _), j in zip(more, outside, strict=True)))
        size += len(more)
    for s in (s for s, _ in new if s.place is None):
        count = s.stop - s.start
        s.begin, s.place = s.start, (size, 1, 0, count)
        blocks.append((s.part(s.start, count),))
        size += count
    return blocks


def _packed(
    numbers: NDArray[np.intp], stretches: Sequence[_Stretch], lanes: int
) -> NDArray[np.intp]:
    """Indices of packed values of entries that are numbered stretch after stretch."""
    fields = [(s.stop - s.start, s.start - s.begin, s.other, *(s.place or ())) for s in stretches]
    lengths, starts, other, base, members, slot, count = np.array(fields, np.intp).reshape(-1, 7).T
    ends = np.cumsum(lengths)
    k = np.searchsorted(ends, numbers, side="right")
    j = numbers - (ends - lengths)[k] + starts[k]
    whole = count[k] // lanes * lanes
    width = np.where(j < whole, lanes, count[k] - whole)
    block = np.where(j < whole, j // lanes * lanes, whole)
    index = base[k] + block * members[k] + slot[k] * width + j - block
    return np.where((j < 0) | (j >= count[k]), other[k], index)


def partners(runs: Sequence[Run]) -> dict[int, int]:
    """Pairs of runs that share their entries, but the first of the one and the last of the other:
    what the late one has at a point belongs to the entry of the other at the next point."""
    first = {(run.line, run.start): k for k, run in enumerate(runs) if run.mode == ADD}
    late = (
        (k, first.get((run.line, run.start - 1))) for k, run in enumerate(runs) if run.mode == LATE
    )
    return {partner: k for k, partner in late if partner is not None}


class Written:
    """Record of the values that have a writer already: the first one sets them, later ones add."""

    def __init__(self, size: int) -> None:
        self._touched = np.zeros(size, dtype=bool)
        self._set = np.zeros(size, dtype=bool)

    def modes(self, runs: Sequence[Run], begins: Sequence[int]) -> tuple[list[int], list[int]]:
        """Modes in which the runs of a call write their values, which lie from `begins` on, and for
        each run the one whose values are added on the way (or -1)."""
        late = partners(runs)
        left = set(late.values())
        modes = [
            self._mode(run, begin, LATE if k in left else ADD if run.mode == LATE else run.mode)
            for k, (run, begin) in enumerate(zip(runs, begins, strict=True))
        ]
        return modes, [late.get(k, -1) for k in range(len(runs))]

    def _mode(self, run: Run, begin: int, mode: int) -> int:
        part = slice(begin, begin + run.length)
        fresh = mode == ADD and not self._touched[part].any()
        self._touched[part] = True
        self._set[part] |= fresh
        return SET if fresh else mode

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
