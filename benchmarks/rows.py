"""Rows of a long run, kept as they come: what ends a run loses none, and the next one goes on."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from record import HERE, commit

FOLDER = HERE.parent / "build" / "benchmarks"


class Kept(NamedTuple):
    """A row of a run. task : the arguments of its function. value : what that returned, as JSON has
    it, or None. failure : what it raised. commit, date : of the measurement."""

    task: list[Any]
    value: Any
    failure: str
    commit: str
    date: str


def kept(
    given: argparse.Namespace,
    name: str,
    function: Callable[..., Any],
    tasks: Iterable[Sequence[Any]],
    mapped: Callable[..., Iterable[Any]] = map,
) -> Iterator[Kept]:
    """Rows function(*task) of all tasks in their order, each written to build/benchmarks/NAME.jsonl
    as it is there; a row that raises says so, and the others go on.

    given : the command line; with --resume, tasks that have a value in that file are not measured
    again, those that failed are. tasks : arguments, as JSON can have them; all that a row depends
    on. mapped : that of an executor, for rows side by side."""
    path, today = FOLDER / f"{name}{'.quick' * given.quick}.jsonl", time.strftime("%Y-%m-%d")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text(encoding="utf-8") if given.resume and path.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a last line may have been cut off
    path.write_text(whole, encoding="utf-8")
    rows = [Kept(**json.loads(line)) for line in whole.splitlines()]
    found = {json.dumps(row.task): row for row in rows if not row.failure}
    wanted = list(map(list, tasks))
    missing = [task for task in wanted if json.dumps(task) not in found]
    results = iter(mapped(partial(_attempted, function), missing))
    for task in wanted:
        key = json.dumps(task)
        if key not in found:
            value, failure = next(results)
            line = json.dumps(Kept(task, value, failure, commit(), today)._asdict())
            with path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            found[key] = Kept(**json.loads(line))
        yield found[key]


def _attempted(function: Callable[..., Any], task: Sequence[Any]) -> tuple[Any, str]:
    try:
        return function(*task), ""
    except Exception as error:
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        return None, words[:120].replace("|", "/")


def line_of(row: Kept, header: Sequence[str], cells: Callable[[Any], Sequence[str]]) -> list[str]:
    """Its line in a table; where it failed the first argument of its task, and why."""
    if row.failure:
        return [str(row.task[0]), row.failure, *["-"] * (len(header) - 2)]
    return list(cells(row.value))


def remarks(rows: Sequence[Kept]) -> list[str]:
    """Paragraphs for the record: rows that failed, and when the others were measured, if not all by
    one commit on one day."""
    failed = [f"{row.task[0]} ({row.failure})" for row in rows if row.failure]
    runs: dict[str, list[str]] = {}
    for row in rows:
        runs.setdefault(f"{row.date}, commit {row.commit}", []).append(str(row.task[0]))
    found = [f"Failed: {'; '.join(failed)}."] if failed else []
    if len(runs) > 1:
        parts = (f"{', '.join(dict.fromkeys(names))} ({when})" for when, names in runs.items())
        found.append(f"Rows are from {len(runs)} runs: {'; '.join(parts)}.")
    return found
