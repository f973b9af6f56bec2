"""`ks.Study`: one task or a million of them, on any executor, kept in a folder as they come in."""

from __future__ import annotations

import inspect
import json
import math
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import date
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from filelock import FileLock, Timeout

from kinesym.base import checks
from kinesym.base.extras import required
from kinesym.base.files import replacing
from kinesym.base.notebook import Displayed
from kinesym.collocation import Collocation
from kinesym.internal.problems.content import counts_as, digest, title_of
from kinesym.runtime.functions import Functions
from kinesym.runtime.progress import task_bar
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.status import Task
from kinesym.runtime.studies.dispatch import Dispatch
from kinesym.runtime.studies.index import COLUMNS, Entry, Index, Known
from kinesym.runtime.studies.work import (
    JOURNAL,
    MARK,
    RESULTS,
    UNKEPT,
    Call,
    Order,
    Outcome,
    Pickle,
    me,
    noted,
    place,
)
from kinesym.runtime.summary import listed
from kinesym.shooting import Shooting
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model

cloudpickle = required("cloudpickle")
_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Results that are not tried again where nothing has changed.
_ENDED = (Task.DONE, Task.FAILED)


class _Added(NamedTuple):
    """A task: names and values of its label, its function, and digests of its arguments."""

    label: Mapping[str, Any]
    function: Callable[..., Any]
    arguments: Mapping[str, str]


#: Classes of objects that never change: calls in a worker share them, one digest is enough.
_CONSTANT = (Model, Hybrid, Experiment, Signal, Collocation, Shooting, Functions)


class Study(Displayed):
    """Tasks, calls of functions, whose results are kept in a folder.

    folder : made if it is not there. A study that was interrupted goes on where it was: the same
    lines run again do only what is missing or has changed.

    A task is known by its label, and done if its function and data are what they were: content
    counts, of arrays, models, experiments and problems, and of the code of a function and of what
    it uses of your own. Data are taken as they are when a task is added, functions when it runs. A
    function returns a result that can be saved (a `Solution`, a `Fit`, a `Trajectory`, ...),
    numbers and words by name, or a pair of both.

    Raises `ValueError` for a folder that holds something else, or a study of another version.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"a study needs a folder, but {self.folder} is a file")
        mark = self.folder / MARK
        if not mark.is_file() and self.folder.is_dir() and any(self.folder.iterdir()):
            raise ValueError(f"{self.folder} holds something else than a study; name a new folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not mark.is_file():
            with replacing(mark) as made:
                made.write_text(uuid.uuid4().hex)
        for part in (JOURNAL, RESULTS):
            (self.folder / part).mkdir(exist_ok=True)
        self._mark = mark.read_text()
        self._index = Index(self.folder / "index.sqlite")
        self._added: dict[str, _Added] = {}
        self._pickles: dict[str, Pickle] = {}
        self._constants: dict[int, tuple[Any, str]] = {}

    # -- tasks ------------------------------------------------------------------------------

    def add(self, key: Any, function: Callable[..., Any], **data: Any) -> None:
        """A task: `function(**data)`. key : its label, a word or number, or a mapping of such by
        name, which are columns of the table. Raises `ValueError` for a key that is there already,
        for data that the function does not take, and for what cannot be sent to a worker."""
        named = dict(key) if isinstance(key, Mapping) else {"key": key}
        label = {str(name): _labelled(value, name) for name, value in named.items()}
        words = _words(label)
        digests = {k: self._sent(v, f"{k} of the task {words}") for k, v in data.items()}
        self._add(label, function, digests)

    def cross(self, **axes: Iterable[Any]) -> Callable[[_Function], _Function]:
        """A decorator: a task for each combination of values, `function(subject=..., start=...)`.

        axes : values by name of an argument, words and numbers that label them, or a mapping of
        labels to values. Raises as `add`.
        """
        if not axes:
            raise ValueError("cross needs values by name of an argument: cross(subject=[...])")
        columns = [
            [(label, self._sent(value, name)) for label, value in _axis(name, values).items()]
            for name, values in axes.items()
        ]

        def added(function: _Function) -> _Function:
            for row in product(*columns):
                labels = {name: label for name, (label, _) in zip(axes, row, strict=True)}
                digests = {name: found for name, (_, found) in zip(axes, row, strict=True)}
                self._add(labels, function, digests)
            return function

        return added

    def _add(
        self, label: Mapping[str, Any], function: Callable[..., Any], arguments: Mapping[str, str]
    ) -> None:
        key, words = json.dumps(list(label.items())), _words(label)
        if not label or any(name in COLUMNS for name in label):
            raise ValueError(
                f"names of a label are columns of the table, which has {listed(COLUMNS)} already; "
                f"got {words or 'none'}"
            )
        if key in self._added:
            raise ValueError(f"there is a task {words} already")
        if not callable(function):
            raise ValueError(f"a task is a function and its data, got {checks.shown(function)}")
        try:
            inspect.signature(function).bind(**arguments)
        except TypeError as error:
            raise ValueError(f"the task {words}: {title_of(function)}: {error}") from error
        self._added[key] = _Added(label, function, arguments)

    def _sent(self, value: Any, what: str, shared: bool = False) -> str:
        """The digest of something that workers need."""
        constant = isinstance(value, _CONSTANT)
        if constant and id(value) in self._constants:
            return self._constants[id(value)][1]
        try:
            found = digest(value)
            if found not in self._pickles or shared:
                data = cloudpickle.dumps(value)
                self._pickles[found] = Pickle(data, shared or constant)
        except Exception as error:
            raise ValueError(f"{what} cannot be sent to a worker: {error}") from error
        if constant:
            self._constants[id(value)] = value, found
        return found

    def _entries(self, pickled: bool) -> list[tuple[Entry, str]]:
        """Tasks with the current digests of their functions; pickled : whether the functions are to
        be sent."""
        functions = dict[int, str]()
        found = []
        for one in self._added.values():
            key = id(one.function)
            if key not in functions:
                what = f"the function {title_of(one.function)}"
                now = partial(self._sent, one.function, what, shared=True)
                functions[key] = now() if pickled else digest(one.function)
            axes, values = tuple(one.label), tuple(one.label.values())
            content = digest([functions[key], dict(one.arguments), [axes, values]])
            found.append((Entry(axes, values, content), functions[key]))
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
        progress : None shows a bar only on a terminal or in a notebook.

        Each result is kept when it is there: Ctrl-C returns the table as it is, and what is killed
        loses the tasks that ran. Raises `ValueError` if another process runs this study, or a
        worker has another version of kinesym; `RuntimeError` if an executor has broken.
        """
        retries = checks.count(retries, "retries", least=0)
        limit = math.inf if timeout is None else checks.positive(timeout, "timeout")
        pool = _executor(executor)
        if math.isfinite(limit) and isinstance(pool, ThreadPoolExecutor):
            raise ValueError("nothing can end a thread: leave timeout out, or use processes")
        most = checks.MOST_THREADS
        count = None if workers is None else checks.count(workers, "workers", most=most)
        own = checks.cores() if pool is None and count is None else count
        order = Order(
            str(self.folder),
            self._mark,
            limit,
            checks.count(threads, "threads", most=most),
            checks.flag(keep, "keep"),
            version("kinesym"),
            me(),
        )
        with self._alone():
            self._absorb()
            calls = self._missing(checks.flag(failed, "failed"), order.keep)
            made = Dispatch(self.folder, calls, self._pickles, order, pool, own, retries)
            self._put(made, progress)
        table = self.table()
        self._warn(table)
        return table

    def _warn(self, table: Any) -> None:
        """Warn of tasks that have failed."""
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
        failures, left = 0, len(made.calls)
        outcomes = made.outcomes()
        try:
            with task_bar(len(made.calls), progress) as report:
                for some in outcomes:
                    self._keep(some)
                    failures += sum(one.status is not Task.DONE for one in some)
                    left -= len(some)
                    report(len(some), failures)
        except KeyboardInterrupt:
            outcomes.close()
            self._absorb()
            warnings.warn(
                f"interrupted: {left} of {len(made.calls)} tasks are left; run it again to go on",
                stacklevel=3,
            )

    def _keep(self, outcomes: Sequence[Outcome]) -> None:
        """Results that have come along to their places, then their rows, then what they replace
        goes."""
        for one in outcomes:
            if one.file:
                path = place(self.folder, one.content)
                path.parent.mkdir(exist_ok=True)
                with replacing(path) as beside:
                    beside.write_bytes(one.file)
        for content in self._index.put(outcomes):
            place(self.folder, content).unlink(missing_ok=True)

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
        """Rows for what workers have noted that nobody has taken; torn files go."""
        for part in sorted((self.folder / JOURNAL).iterdir()):
            self._keep(noted(part).outcomes)
            part.unlink()
        for torn in (self.folder / RESULTS).glob("*/.kinesym-*"):
            torn.unlink(missing_ok=True)

    def _missing(self, failed: bool, keep: bool) -> list[Call]:
        """Registers all tasks; those that have no result of what they are now."""
        added, entries = list(self._added.values()), self._entries(pickled=True)
        known = self._index.register([entry for entry, _ in entries])
        return [
            Call(task.number, entry.content, function, one.arguments)
            for task, one, (entry, function) in zip(known, added, entries, strict=True)
            if self._open(task, entry, failed, keep)
        ]

    def _open(self, task: Known, entry: Entry, failed: bool, keep: bool) -> bool:
        """Whether a task has to run."""
        if task.content != entry.content or (keep and task.kind == UNKEPT):
            return True
        if task.kind not in ("", UNKEPT) and not place(self.folder, task.content).is_file():
            return True
        return task.status not in _ENDED or (failed and task.status is Task.FAILED)

    # -- results ----------------------------------------------------------------------------

    def table(self, timing: bool = False) -> Any:
        """A `pandas.DataFrame` with a row per task that was added, or of all in the folder if none
        was: its label, `status` (pending, done, failed, timeout, lost; stale if its function or
        data have changed since), numbers of its result, the sentence of a failure. timing :
        seconds, attempts and worker, too."""
        entries = [entry for entry, _ in self._entries(pickled=False)]
        known = self._index.register(entries)
        now = {task.number: entry.content for task, entry in zip(known, entries, strict=True)}
        return self._index.table(now, timing)

    def counts(self) -> dict[str, int]:
        """Number of tasks that are pending, done, failed, ..., by status."""
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
        if task.kind in ("", UNKEPT):
            raise ValueError(f"the task {words} has numbers only, see table()")
        return _kind(task.kind).load(place(self.folder, task.content))

    def plot(self, name: str | None = None, by: str | None = None) -> Any:
        """A figure: with a name, that number of each task, by the values of another column of the
        table; without, the objectives of each of these in order (a waterfall). by : the first part
        of the label if None. Raises `ValueError` where nothing is done yet, or for other names."""
        from kinesym.runtime.studies.plots import plot_by, waterfall  # brings matplotlib

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


counts_as(Collocation, lambda value: [value.problem])
counts_as(Shooting, lambda value: [value.problem])


def _labelled(value: Any, name: Any) -> Any:
    """A label, as JSON has it; raises `ValueError` for anything but words, numbers and dates."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, date):
        return plain.isoformat()
    if isinstance(plain, str | int | float | bool) and plain == plain:
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


def _kind(name: str) -> type[Saved]:
    """The class of a result, of which the index has module and name."""
    module, _, title = name.partition(":")
    if not module.startswith("kinesym."):
        raise ValueError(f"the index names {name}, which is no result of kinesym")
    found: type[Saved] = getattr(import_module(module), title)
    return found
