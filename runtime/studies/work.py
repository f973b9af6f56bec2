"""Worker of a study: call a function, keep its result and a line on it, before it goes on."""

from __future__ import annotations

import faulthandler
import json
import os
import platform
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kinesym.base.extras import required
from kinesym.runtime.results.estimates import Estimates
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.status import Task

cloudpickle = required("cloudpickle")

#: File that names the study of a folder.
MARK = "study"
#: Folder of the journals of workers.
JOURNAL = "journal"
#: Folder of the results.
RESULTS = "results"

#: The kind of a result of which only numbers were kept.
UNKEPT = "-"

#: A call that does not end by itself this long after its time is over takes its worker with it [s].
_GRACE = 10.0

#: Environment variables that say how many threads a library may take.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Scalar = float | str


class Unfit(ValueError):
    """Error of a worker that cannot do any task of a run."""


class _Overtime(KeyboardInterrupt):
    """The time of a call is over; as Ctrl-C, it ends solves after their iteration."""


@dataclass(frozen=True)
class Pickle:
    """Something that calls need. shared : whether calls of one worker may share it, as nothing
    changes it; others get their own."""

    data: bytes
    shared: bool


@dataclass(frozen=True)
class Call:
    """A task. number : in its study. content : digest of function and data, the name of its result.
    function, arguments : digests of their pickles."""

    number: int
    content: str
    function: str
    arguments: Mapping[str, str]


@dataclass(frozen=True)
class Order:
    """Order: settings common to all tasks of a run. folder, mark : where results go, if that folder
    has this mark, as seen from the worker. timeout : of each call [s]; inf for none. threads : of
    each, at most. keep : whether results are kept, not only numbers. version : of kinesym. driver :
    the process that runs the study."""

    folder: str
    mark: str
    timeout: float
    threads: int
    keep: bool
    version: str
    driver: str


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call. kind : module and class of a result that is kept. seconds : of the call.
    worker : machine and process. file : a result that the worker could not put into the folder."""

    number: int
    content: str
    status: Task
    message: str = ""
    traceback: str = ""
    kind: str = ""
    scalars: Mapping[str, Scalar] | None = None
    seconds: float = 0.0
    worker: str = ""
    attempts: int = 1
    file: bytes = b""


def work(
    calls: Sequence[Call], pickles: Mapping[str, Pickle], order: Order, part: str
) -> list[Outcome]:
    """Outcomes of calls, one after the other; those that the folder has are in its journal `part`
    from the moment on when they are complete. pickles : of functions and data, by digest. Raises
    `Unfit` where this worker can do none."""
    _check_fit(order)
    if order.driver != me():
        os.environ.update(dict.fromkeys(THREADS, str(order.threads)))
    here = _visible(order)
    with _journal(here, part) as journal:
        found = []
        for call in calls:
            _write(journal, {"begun": call.number, "at": time.time()})
            outcome = _outcome(call, pickles, order, here)
            found.append(outcome)
            _write(journal, {**asdict(replace(outcome, file=b"")), "file": ""})
    return found


def _check_fit(order: Order) -> None:
    if order.version != version("kinesym"):
        raise Unfit(
            f"the worker {me()} has kinesym {version('kinesym')}, the study runs with "
            f"{order.version}; install the same version there"
        )
    alone = threading.current_thread() is threading.main_thread()
    if np.isfinite(order.timeout) and not alone:
        raise Unfit(
            f"timeout is for workers that are processes with one thread, and {me()} is none: "
            "leave it out"
        )


def me() -> str:
    """Machine and process."""
    return f"{platform.node()}:{os.getpid()}"


def _visible(order: Order) -> Path | None:
    """Folder of the study, if this process can access it."""
    folder = Path(order.folder)
    with suppress(OSError):
        if (folder / MARK).read_text() == order.mark:
            return folder
    return None


# -- the journal --------------------------------------------------------------------------------


@contextmanager
def _journal(folder: Path | None, part: str) -> Iterator[BinaryIO]:
    """Journal file for outcomes; a null file if the folder is not accessible."""
    with open(os.devnull if folder is None else folder / JOURNAL / part, "ab") as file:
        yield file


def _write(journal: BinaryIO, line: Mapping[str, Any]) -> None:
    with suppress(OSError):  # a full disk: outcomes go back by themselves
        journal.write(json.dumps(line).encode() + b"\n")
        journal.flush()


@dataclass(frozen=True)
class Notes:
    """A part of the journal: outcomes, and which task began last, when [s since 1970]."""

    outcomes: Sequence[Outcome]
    begun: int
    at: float


def noted(path: Path) -> Notes:
    """A part of the journal; lines that are not whole are left out."""
    outcomes, begun, at = list[Outcome](), -1, np.inf
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        with suppress(ValueError, TypeError, KeyError):
            about = json.loads(line)
            if "begun" in about:
                begun, at = int(about["begun"]), float(about["at"])
            else:
                status = Task(about["status"])
                outcomes.append(Outcome(**{**about, "status": status, "file": b""}))
    return Notes(outcomes, begun, at)


# -- a call -------------------------------------------------------------------------------------


def _outcome(
    call: Call, pickles: Mapping[str, Pickle], order: Order, folder: Path | None
) -> Outcome:
    begin = time.perf_counter()
    made = Outcome(call.number, call.content, Task.DONE, worker=me())
    try:
        with _limited(order.timeout):
            function = _opened(pickles[call.function])
            data = {name: _opened(pickles[key]) for name, key in call.arguments.items()}
            result, scalars = parted(function(**data))
    except _Overtime:
        made = replace(made, status=Task.TIMEOUT, message=Task.TIMEOUT.said(seconds=order.timeout))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit, too
        made = replace(made, status=Task.FAILED, message=_said(error), traceback=_traced(error))
    else:
        made = _kept(replace(made, scalars=scalars), result, order.keep, folder)
    return replace(made, seconds=time.perf_counter() - begin)


def _said(error: BaseException) -> str:
    """An error in words, even one that has none."""
    with suppress(Exception):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__


def _traced(error: BaseException) -> str:
    with suppress(Exception):
        return "".join(traceback.format_exception(error))
    return ""


def _opened(pickle: Pickle) -> Any:
    """Unpickle a value; shared ones once in a process, so that their libraries are opened once."""
    return _shared(pickle.data) if pickle.shared else cloudpickle.loads(pickle.data)


@lru_cache(maxsize=32)
def _shared(data: bytes) -> Any:
    return cloudpickle.loads(data)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Limit the duration of a block: raises `_Overtime` after this many seconds; a block that does
    not end then is ended with its process."""
    if not np.isfinite(seconds):
        yield
        return

    def over(*_: object) -> None:
        raise _Overtime

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(seconds + _GRACE, exit=True, file=nowhere)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            faulthandler.cancel_dump_traceback_later()
            signal.signal(signal.SIGALRM, before)


# -- results ------------------------------------------------------------------------------------


def _kept(outcome: Outcome, result: Saved | None, keep: bool, folder: Path | None) -> Outcome:
    """The outcome, with the result in the folder, or along with it if that is not seen."""
    if result is None:
        return outcome
    if not keep:
        return replace(outcome, kind=UNKEPT)
    outcome = replace(outcome, kind=f"{type(result).__module__}:{type(result).__qualname__}")
    try:
        with _undisturbed():
            if folder is not None:
                path = place(folder, outcome.content)
                path.parent.mkdir(exist_ok=True)
                result.save(path)
                return outcome
            with tempfile.TemporaryDirectory() as own:
                result.save(Path(own) / "result.nc")
                return replace(outcome, file=(Path(own) / "result.nc").read_bytes())
    except OSError as error:
        words = f"the result could not be written: {error}"
        return replace(outcome, status=Task.LOST, message=words, scalars=None, kind="")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Synchronous scheduler of Dask: in its workers xarray would wait for locks of the cluster to
    write a file of its own."""
    dask = sys.modules.get("dask")
    with dask.config.set(scheduler="synchronous") if dask else nullcontext():
        yield


def place(folder: Path, content: str) -> Path:
    """Path of the result of a call."""
    return folder / RESULTS / content[:2] / f"{content}.nc"


def parted(value: Any) -> tuple[Saved | None, dict[str, Scalar]]:
    """Split the value of a function into a result that can be saved, and numbers or text by name.
    The function returns either of them, both as a pair, a number, or None. Raises `TypeError` for
    anything else."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Saved):
        return value[0], {**scalars_of(value[0]), **parted(value[1])[1]}
    if isinstance(value, Saved):
        return value, scalars_of(value)
    if value is None:
        return None, {}
    given = value if isinstance(value, Mapping) else {"value": value}
    return None, {_name(name): _scalar(name, each) for name, each in given.items()}


def _name(name: Any) -> str:
    return str(getattr(name, "name", name))


def _scalar(name: Any, value: Any) -> Scalar:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.ndarray) and value.size == 1:
        return float(value.item())
    if isinstance(value, Real):
        return float(value)
    raise TypeError(
        f"a task returns a result of kinesym, numbers and words by name, or a pair of both; got "
        f"{type(value).__name__} for {name!r}"
    )


def scalars_of(result: Saved) -> dict[str, Scalar]:
    """Scalars of a solution or fit for a table: how it ended, its objective, by what it is ranked
    if that is another number, estimates and their standard errors; nothing of other results."""
    found: dict[str, Scalar] = {}
    for name in ("success", "iterations", "objective"):
        if hasattr(result, name):
            found[name] = float(getattr(result, name))
    if getattr(result, "merit", None) not in (None, found.get("objective")):
        found["merit"] = float(result.merit)  # type: ignore[attr-defined]
    if hasattr(result, "status"):
        found["ended"] = str(result.status)
    estimates = getattr(result, "parameters", None)
    for name, row in estimates.table.items() if isinstance(estimates, Estimates) else ():
        found[name] = float(row.value)
        if np.isfinite(row.standard_error):
            found[f"{name}_se"] = float(row.standard_error)
    return found
