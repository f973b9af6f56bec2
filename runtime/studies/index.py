"""The index of a study: a row per task in one SQLite file, written by the process that runs it.

Numbers of a row are a block of float64 whose names are kept once for all rows that have the same,
so that a table of a million rows is read in a second or two.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from kinesym.runtime.status import Task
from kinesym.runtime.studies.work import Outcome

#: The version of the file; another one is refused.
FORMAT = 1

_SCHEMA = """
create table if not exists about (name text primary key, value text) without rowid;
create table if not exists names (id integer primary key, names text unique);
create table if not exists tasks (
    number integer primary key, axes integer, label text, content text, status integer,
    kind text, names integer, numbers blob, words text, attempts integer, seconds real, worker text,
    unique (axes, label)
);
create index if not exists kinds on tasks (axes, names);
create table if not exists failures (number integer primary key, message text, traceback text);
"""

#: Columns of the table beside labels, numbers and words.
COLUMNS = ("status", "seconds", "attempts", "worker", "message")


class Entry(NamedTuple):
    """A task as it is registered: names and values of its label, digest of function and data."""

    axes: tuple[str, ...]
    label: tuple[Any, ...]
    content: str


@dataclass(frozen=True)
class Known:
    """Entry of a task in the index."""

    number: int
    content: str
    status: Task
    kind: str
    attempts: int


class Index:
    """The file at `path`, made if it is not there; raises `ValueError` for one of another version,
    or that is no index."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as base:
            try:
                base.executescript(_SCHEMA)
                found = base.execute("select value from about where name = 'format'").fetchone()
                if found is None:
                    base.execute("insert into about values ('format', ?)", (str(FORMAT),))
            except sqlite3.DatabaseError as error:
                raise ValueError(f"{path} is no index of a study: {error}") from error
        if found is not None and found[0] != str(FORMAT):
            raise ValueError(
                f"{path} has version {found[0]} of the index of studies, this kinesym has "
                f"{FORMAT}; name another folder"
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open a connection with one transaction: all of it is kept, or nothing."""
        try:
            with closing(sqlite3.connect(self._path, timeout=60.0)) as base, base:
                yield base
        except sqlite3.OperationalError as error:  # read-only, full, gone
            raise OSError(f"the index {self._path} cannot be used: {error}") from error

    def register(self, entries: Sequence[Entry]) -> list[Known]:
        """Rows of these tasks, new ones for those that have none; in their order."""
        with self._open() as base:
            ids = _ids(base, {entry.axes for entry in entries})
            rows = [(ids[e.axes], json.dumps(e.label), e.content) for e in entries]
            new = "insert or ignore into tasks (axes, label, content, status, attempts) "
            base.executemany(f"{new} values (?, ?, ?, 0, 0)", rows)
            columns = "axes, label, number, content, status, kind, attempts"
            there = {
                (axes, label): Known(number, content, Task.of(status), kind or "", attempts)
                for axes, label, number, content, status, kind, attempts in base.execute(
                    f"select {columns} from tasks"
                )
            }
        return [there[axes, label] for axes, label, _ in rows]

    def put(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Store outcomes of tasks; returns contents whose results have been replaced."""
        replaced = list[str]()
        with self._open() as base:
            for one in outcomes:
                row = base.execute("select content from tasks where number = ?", (one.number,))
                before = row.fetchone()
                if before is None:
                    continue
                replaced += [before[0]] if before[0] != one.content else []
                scalars = one.scalars or {}
                numbers = {k: v for k, v in scalars.items() if not isinstance(v, str)}
                words = {k: v for k, v in scalars.items() if isinstance(v, str)}
                names = tuple(numbers)
                values = (
                    one.content,
                    one.status.code,
                    one.kind,
                    _ids(base, {names})[names],
                    np.array(list(numbers.values()), dtype=np.float64).tobytes(),
                    json.dumps(words) if words else None,
                    one.seconds,
                    one.worker,
                    one.attempts,
                    one.number,
                )
                base.execute(
                    "update tasks set content = ?, status = ?, kind = ?, names = ?, numbers = ?, "
                    "words = ?, seconds = ?, worker = ?, attempts = ? where number = ?",
                    values,
                )
                base.execute("delete from failures where number = ?", (one.number,))
                if one.message:
                    failure = (one.number, one.message, one.traceback)
                    base.execute("insert into failures values (?, ?, ?)", failure)
        return replaced

    def counts(self) -> dict[Task, int]:
        """Number of tasks in each state."""
        with self._open() as base:
            found = base.execute("select status, count(*) from tasks group by status").fetchall()
        return {Task.of(status): count for status, count in found}

    def find(self, values: Mapping[str, Any], ordered: Sequence[Any]) -> list[tuple[Known, Any]]:
        """Tasks whose label has these values by name, and begins with these in order."""
        with self._open() as base:
            axes = {i: tuple(json.loads(n)) for i, n in base.execute("select id, names from names")}
            columns = "number, axes, label, content, status, kind, attempts"
            every, rows = f"select {columns} from tasks", list[Any]()
            for i, names in axes.items() if ordered and not values else ():
                if len(names) == len(ordered):
                    one = (i, json.dumps(list(ordered)))
                    rows += base.execute(f"{every} where axes = ? and label = ?", one).fetchall()
            rows = rows or base.execute(f"{every} order by number").fetchall()
        found = []
        for number, axis, text, content, status, kind, attempts in rows:
            label = json.loads(text)
            named = dict(zip(axes[axis], label, strict=True))
            if label[: len(ordered)] == list(ordered) and values.items() <= named.items():
                known = Known(number, content, Task.of(status), kind or "", attempts)
                found.append((known, named))
        return found

    def failure(self, number: int) -> tuple[str, str]:
        """Message and traceback of a task, empty if it has none."""
        with self._open() as base:
            text = "select message, traceback from failures where number = ?"
            found = base.execute(text, (number,)).fetchone()
        return found or ("", "")

    def table(self, now: Mapping[int, str], timing: bool) -> pd.DataFrame:
        """A row per task: label, status, numbers and words, sentence of a failure. now : the
        contents that tasks have now, by number: others are left out, and rows with another content
        are called stale; all tasks if it is empty. timing : seconds, attempts, worker, too."""
        with self._open() as base:
            text = {i: json.loads(n) for i, n in base.execute("select id, names from names")}
            wanted = (bool(now), timing)
            kinds = base.execute("select distinct axes, names from tasks").fetchall()
            found = [one for kind in kinds for one in _blocks(base, kind[0], kind[1], text, wanted)]
            failures = dict(base.execute("select number, message from failures").fetchall())
        if not found:
            return pd.DataFrame()
        whole = pd.concat(found).sort_index()
        if now:
            whole = whole.loc[whole.index.isin([*now])]
            other = whole["content"].to_numpy() != np.array([now[k] for k in whole.index])
            whole.loc[other & (whole["status"] != str(Task.PENDING)), "status"] = "stale"
        labels = dict.fromkeys(name for i, _ in kinds for name in text[i])
        rest = [name for name in whole.columns if name not in (*labels, *_KEPT)]
        words = [name for name in rest if not pd.api.types.is_numeric_dtype(whole[name])]
        whole[words] = whole[words].fillna("")
        more = ["seconds", "attempts", "worker"] if timing else []
        whole = whole[[*labels, "status", *rest, *more]]
        if failures:
            whole["message"] = [failures.get(k, "") for k in whole.index]
        return whole.rename_axis("task")


#: Columns of a block of rows beside labels, numbers and words.
_KEPT = ("status", "content", "seconds", "attempts", "worker")
#: Rows that are read at once.
_BLOCK = 100_000
#: SQLite puts the values of a column together, which takes less time and memory than a million
#: objects; + keeps it to the order of numbers. Labels are lists of words and numbers without their
#: brackets: one list of all.
_READ = """select count(*), max(number), group_concat(number),
    '[' || group_concat(substr(label, 2, length(label) - 2)) || ']',
    group_concat(status), group_concat(hex(ifnull(numbers, x'')), ''), count(words), {more}
from (select * from tasks where +axes = ? and names is ? and number > ? order by number limit ?)"""
_CONTENT = "group_concat(content)"
_TIMING = """group_concat(ifnull(seconds, 'nan')), group_concat(attempts),
    group_concat(ifnull(worker, ''))"""


def _blocks(
    base: sqlite3.Connection,
    axes: int,
    names: int | None,
    text: Mapping[int, list[str]],
    wanted: tuple[bool, bool],
) -> Iterator[pd.DataFrame]:
    """Rows whose labels and numbers have these names, block by block; wanted : whether with their
    contents, and with seconds, attempts and workers."""
    last, title = -1, np.array([str(kind) for kind in Task])
    taken = {name for every in text.values() for name in every}  # of labels and numbers
    more = (_CONTENT if wanted[0] else "null", _TIMING if wanted[1] else "null")
    read = _READ.format(more=", ".join(more))
    while True:
        row = base.execute(read, (axes, names, last, _BLOCK)).fetchone()
        count, last, numbers, labels, status, blob, words, content, *rest = row
        if not count:
            return
        flat, step = json.loads(labels), len(text[axes])
        columns: dict[str, Any] = {name: flat[k::step] for k, name in enumerate(text[axes])}
        beside = {*text[axes], *COLUMNS}
        columns["status"] = title[_integers(status)]
        if wanted[0]:
            columns["content"] = content.split(",")
        values = np.frombuffer(bytes.fromhex(blob)).reshape(count, -1).T
        own = text[names] if names is not None else []
        columns |= {_clear(n, beside): v for n, v in zip(own, values, strict=True)}
        if words:
            columns |= _words(base, axes, names, int(_integers(numbers)[0]), last, taken)
        if wanted[1]:
            columns["seconds"] = np.fromstring(rest[0], sep=",")
            columns["attempts"], columns["worker"] = _integers(rest[1]), rest[2].split(",")
        yield pd.DataFrame(columns, index=_integers(numbers))


def _integers(text: str) -> Any:
    return np.fromstring(text, dtype=np.int64, sep=",")


def _words(
    base: sqlite3.Connection, axes: int, names: int | None, first: int, last: int, taken: set[str]
) -> dict[str, list[str]]:
    """Columns of words, empty where a row has none."""
    where = "where +axes = ? and names is ? and number between ? and ? order by number"
    query = f"select ifnull(words, '{{}}') from tasks {where}"
    rows = [json.loads(text) for (text,) in base.execute(query, (axes, names, first, last))]
    found = dict.fromkeys(name for row in rows for name in row)
    return {_clear(n, {*taken, *COLUMNS}): [row.get(n, "") for row in rows] for n in found}


def _clear(name: str, taken: set[str]) -> str:
    """A name for a column that no other one has."""
    while name in taken:
        name += "_found"
    return name


def _ids(
    base: sqlite3.Connection, several: Iterable[tuple[str, ...]]
) -> dict[tuple[str, ...], int]:
    """Numbers of lists of names."""
    found = {}
    for names in several:
        text = json.dumps(names)
        base.execute("insert or ignore into names (names) values (?)", (text,))
        row = base.execute("select id from names where names = ?", (text,)).fetchone()
        found[names] = int(row[0])
    return found
