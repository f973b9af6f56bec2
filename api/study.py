"""`ks.Study`: one task or a million of them, on any executor, kept in a folder as they come in."""

from __future__ import annotations

import math
import uuid
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import cloudpickle
from filelock import FileLock, Timeout

from kinesym import checks
from kinesym.collocation import Collocation
from kinesym.internal.content import content, digest, joined, title_of
from kinesym.runtime.progress import task_bar
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.status import Task
from kinesym.runtime.studies.dispatch import Dispatch
from kinesym.runtime.studies.index import Entry, Index, Known
from kinesym.runtime.studies.work import JOURNAL, MARK, RESULTS, Call, Order, noted, place
from kinesym.shooting import Shooting

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Results that are not tried again where nothing has changed.
_ENDED = (Task.DONE, Task.FAILED)


class _Added(NamedTuple):
    """A task: its label, digests of function and arguments."""

    entry: Entry
    function: str
    arguments: Mapping[str, str]


class Study:
    """Tasks, calls of functions, whose results are kept in a folder.

    folder : made if it is not there. A study that was interrupted goes on where it was: the same
    lines run again do only what is missing or has changed.

    A task is known by its label, and done if its function and data are what they were: their
    content counts, of arrays, models, experiments and problems as of the source of a function and
    of what it uses of its own module. A function returns a result that can be saved (a `Solution`,
    a `Fit`, a `Trajectory`, ...), numbers and words by name, or a pair of both.

    Raises `ValueError` for a folder that holds something else, or a study of another version.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"a study needs a folder, but {self.folder} is a file")
        mark = self.folder / MARK
        if not mark.is_file() and self.folder.is_dir() and any(self.folder.iterdir()):
            raise ValueError(f"{self.folder} holds something else than a study; name a new folder")
        for part in (JOURNAL, RESULTS):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        if not mark.is_file():
            mark.write_text(uuid.uuid4().hex)
        self._mark = mark.read_text()
        self._index = Index(self.folder / "index.sqlite")
        self._added: dict[tuple[Any, ...], _Added] = {}
        self._pickles: dict[str, bytes] = {}
        self._digests: dict[int, tuple[Any, str]] = {}

    # -- tasks ------------------------------------------------------------------------------

    def add(self, key: Any, function: Callable[..., Any], **data: Any) -> None:
        """A task: `function(**data)`. key : its label, a word or number, or a mapping of such by
        name, which are columns of the table. Raises `ValueError` for a key that is there already,
        and for what cannot be sent to a worker."""
        named = dict(key) if isinstance(key, Mapping) else {"key": key}
        self._add(
            {str(name): _labelled(value, name) for name, value in named.items()}, function, data
        )

    def cross(self, **axes: Iterable[Any]) -> Callable[[_Function], _Function]:
        """A decorator: a task for each combination of values, `function(subject=..., start=...)`.

        axes : values by name of an argument, words and numbers that label them, or a mapping of
        labels to values. Raises as `add`.
        """
        if not axes:
            raise ValueError("cross needs values by name of an argument: cross(subject=[...])")
        columns = [_axis(name, values) for name, values in axes.items()]

        def added(function: _Function) -> _Function:
            for row in product(*(column.items() for column in columns)):
                labels = {name: label for name, (label, _) in zip(axes, row, strict=True)}
                values = {name: value for name, (_, value) in zip(axes, row, strict=True)}
                self._add(labels, function, values)
            return function

        return added

    def _add(
        self, label: Mapping[str, Any], function: Callable[..., Any], data: Mapping[str, Any]
    ) -> None:
        key = tuple(label.items())
        if key in self._added:
            raise ValueError(f"there is a task {_words(label)} already")
        if not callable(function):
            raise ValueError(f"a task is a function and its data, got {checks.shown(function)}")
        mine = self._sent(function, f"the function {title_of(function)}")
        arguments = {
            name: self._sent(value, f"{name} of the task {_words(label)}")
            for name, value in data.items()
        }
        content = digest([mine, arguments, key])
        entry = Entry(tuple(label), tuple(label.values()), content)
        self._added[key] = _Added(entry, mine, arguments)

    def _sent(self, value: Any, what: str) -> str:
        """The digest of something that workers need; what cannot change is looked at once."""
        kept = isinstance(value, Hashable) and id(value) in self._digests
        if kept:
            return self._digests[id(value)][1]
        try:
            found = digest(value)
            if found not in self._pickles:
                self._pickles[found] = cloudpickle.dumps(value)
        except Exception as error:
            raise ValueError(f"{what} cannot be sent to a worker: {error}") from error
        if isinstance(value, Hashable):  # what has no hash may change
            self._digests[id(value)] = value, found
        return found

    # -- running ----------------------------------------------------------------------------

    def run(
        self,
        executor: Any = None,
        *,
        workers: int | None = None,
        retries: int = 1,
        timeout: float | None = None,
        threads: int = 1,
        keep: bool = True,
        failed: bool = False,
        progress: bool | None = None,
    ) -> Any:
        """Run what is missing or has changed, and return the `table`.

        executor : of `concurrent.futures`, or a client of Dask; None for processes of this machine.
        workers : how many; one per core, of another executor what it has. retries : of a task that
        raised an error or whose worker died. timeout : of a task [s]; solves end after their
        iteration. threads : that a task may take. keep : whether results are kept, or only their
        numbers. failed : whether tasks that raised an error in an earlier run are tried again.
        progress : None shows a bar only on a terminal.

        Each result is kept when it is there: Ctrl-C returns the table as it is, and what is killed
        loses the tasks that ran. Raises `ValueError` if another process runs this study, or a
        worker has another version of kinesym; `RuntimeError` if an executor has broken.
        """
        retries = checks.count(retries, "retries", least=0)
        limit = math.inf if timeout is None else checks.positive(timeout, "timeout")
        pool = _executor(executor)
        if math.isfinite(limit) and isinstance(pool, ThreadPoolExecutor):
            raise ValueError("nothing can end a thread: leave timeout out, or use processes")
        count = None if workers is None else checks.count(workers, "workers")
        own = checks.cores() if pool is None and count is None else count
        order = Order(
            str(self.folder),
            self._mark,
            limit,
            checks.count(threads, "threads"),
            checks.flag(keep, "keep"),
            version("kinesym"),
        )
        with self._alone():
            self._absorb()
            calls = self._missing(checks.flag(failed, "failed"))
            made = Dispatch(self.folder, calls, self._pickles, order, pool, own, retries)
            self._put(made, progress)
        table = self.table()
        self._warn(table)
        return table

    def _warn(self, table: Any) -> None:
        """Of tasks that have failed."""
        if "message" not in table:
            return
        failed = table[table["message"] != ""]
        if len(failed):
            row = failed.iloc[0]
            labels = list(table.columns[: list(table.columns).index("status")])
            words = _words({name: row[name] for name in labels})
            warnings.warn(
                f"{len(failed)} of {len(table)} tasks have no result; {words}: {row['message']} "
                "(results(...) of a task shows where)",
                stacklevel=3,
            )

    def _put(self, made: Dispatch, progress: bool | None) -> None:
        """Keep what comes in, until all is there or Ctrl-C."""
        failures = 0
        outcomes = made.outcomes()
        try:
            with task_bar(len(made.calls), progress) as report:
                for some in outcomes:
                    for one in some:
                        if one.file:
                            path = place(self.folder, one.content)
                            path.parent.mkdir(exist_ok=True)
                            path.write_bytes(one.file)
                    self._index.put(some)
                    failures += sum(one.status is not Task.DONE for one in some)
                    report(len(some), failures)
        except KeyboardInterrupt:
            outcomes.close()
            self._absorb()

    def _alone(self) -> Any:
        """A lock on the folder; raises `ValueError` if another process holds it."""
        lock = FileLock(self.folder / "running.lock", timeout=0)
        try:
            return lock.acquire()
        except Timeout:
            raise ValueError(
                f"another process runs the study in {self.folder}; wait for it"
            ) from None

    def _absorb(self) -> None:
        """Rows for what workers have noted that nobody has taken."""
        for part in sorted((self.folder / JOURNAL).iterdir()):
            self._index.put(noted(part))
            part.unlink()

    def _missing(self, failed: bool) -> list[Call]:
        """Registers all tasks; those that have no result of what they are now."""
        added = list(self._added.values())
        known = self._index.register([one.entry for one in added])
        pairs = list(zip(known, added, strict=True))
        todo = [(task, one) for task, one in pairs if self._open(task, one.entry, failed)]
        self._index.restart([(task.number, one.entry.content) for task, one in todo])
        return [
            Call(task.number, one.entry.content, one.function, one.arguments) for task, one in todo
        ]

    def _open(self, task: Known, entry: Entry, failed: bool) -> bool:
        """Whether a task has to run; the result of what it was goes."""
        if task.content != entry.content:
            place(self.folder, task.content).unlink(missing_ok=True)
            return True
        if task.kind and not place(self.folder, task.content).is_file():
            return True
        return task.status not in _ENDED or (failed and task.status is Task.FAILED)

    # -- results ----------------------------------------------------------------------------

    def table(self, timing: bool = False) -> Any:
        """A `pandas.DataFrame` with a row per task: its label, `status` (pending, done, failed,
        timeout, lost; stale if its function or data have changed since), numbers of its result, the
        sentence of a failure. timing : seconds, attempts and worker, too."""
        known = self._index.register([one.entry for one in self._added.values()])
        now = {
            task.number: one.entry.content
            for task, one in zip(known, self._added.values(), strict=True)
        }
        return self._index.table(now, timing)

    def counts(self) -> dict[str, int]:
        """How many tasks are pending, done, failed, ..."""
        return {str(status): count for status, count in self._index.counts().items()}

    def results(self, *labels: Any, **named: Any) -> Any:
        """The result of a task, by its label in the order of its parts, or by name. Raises
        `KeyError` for no task or several, `ValueError` for one without a result: with the traceback
        if it has failed."""
        tasks = self._index.find(named, labels)
        words = ", ".join([*map(str, labels), *(f"{k}={v}" for k, v in named.items())])
        if len(tasks) != 1:
            some = f": {'; '.join(_words(label) for _, label in tasks[:4])}, ..." * bool(tasks)
            raise KeyError(f"{len(tasks) or 'no'} tasks are {words or 'in the study'}{some}")
        task = tasks[0][0]
        if task.status is not Task.DONE:
            message, trace = self._index.failure(task.number)
            raise ValueError(f"the task {words} is {task.status}: {message}\n{trace}".strip())
        if not task.kind:
            raise ValueError(f"the task {words} has numbers only, see table()")
        return _kinds()[task.kind].load(place(self.folder, task.content))

    def plot(self, name: str | None = None, by: str | None = None) -> Any:
        """A figure: with a name, that number of each task, by the values of another column of the
        table; without, the objectives of each of these in order (a waterfall). by : the first part
        of the label if None. Raises `ValueError` where nothing is done yet, or for other names."""
        from kinesym.runtime.results.study_plots import plot_by, waterfall  # brings matplotlib

        table = self.table()
        done = table[table["status"] == str(Task.DONE)] if len(table) else table
        if not len(done):
            raise ValueError(f"no task of the study in {self.folder} is done yet")
        columns = list(done.columns)
        by = columns[0] if by is None else by
        checks.check_choice(by, columns, "by")
        if name is None:
            return waterfall(done, by)
        checks.check_choice(name, columns[columns.index("status") + 1 :], "a number of the table")
        return plot_by(done, name, by)

    def __repr__(self) -> str:
        found = ", ".join(f"{count} {status}" for status, count in self.counts().items())
        return f"<study in {self.folder}: {found or 'no tasks yet'}>"


@content.register
def _(value: Collocation) -> bytes:
    about = [value.symbolic, value.trials, value._known, value._priors]
    return joined("collocation", [*about, value.variable_bounds, value.constraint_bounds])


@content.register
def _(value: Shooting) -> bytes:
    return joined("shooting", [value.system, value.arguments])


def _labelled(value: Any, name: Any) -> Any:
    """A label, as JSON has it; raises `ValueError` for anything but words and numbers."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, str | int | float | bool) or plain is None:
        return plain
    raise ValueError(
        f"labels of tasks are words and numbers, {name} is {checks.shown(value)}; give a mapping "
        f"of labels to values, {name}={{'quiet': ...}}"
    )


def _axis(name: str, values: Any) -> dict[Any, Any]:
    """Values by label."""
    if isinstance(values, Mapping):
        return {_labelled(label, name): value for label, value in values.items()}
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be several values, got {checks.shown(values)}")
    return {_labelled(value, name): value for value in values}


def _words(label: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in label.items())


def _executor(given: Any) -> Executor | None:
    """An executor, that of a client of Dask; raises `ValueError` for anything else."""
    if given is None:
        return None
    made = given.get_executor() if hasattr(given, "get_executor") else given
    if not callable(getattr(made, "submit", None)):
        raise ValueError(
            f"executor must be one of concurrent.futures or a client of Dask, got "
            f"{checks.shown(given)}"
        )
    found: Executor = made
    return found


def _kinds() -> dict[str, type[Saved]]:
    """Classes of results by name."""
    found, new = dict[str, type[Saved]](), [Saved]
    while new:
        kind = new.pop()
        found[kind.__name__] = kind
        new += kind.__subclasses__()
    return found
