"""Dispatch of tasks: parts of a study go to an executor, and their outcomes come back."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kinesym.base.extras import required
from kinesym.runtime.status import Task
from kinesym.runtime.studies.work import (
    JOURNAL,
    THREADS,
    Call,
    Notes,
    Order,
    Outcome,
    Pickle,
    Unfit,
    noted,
    work,
)

loky = required("loky")

#: Duration that one part of a study should take [s]; it costs about a millisecond to send one.
_PART = 0.3
#: Tasks of one part, at most.
_MOST = 256
#: Parts per worker that are sent before the first has come back.
_AHEAD = 3
#: Parts that are sent ahead in all if the number of workers is not known.
_UNKNOWN = 256
#: Time between two looks of a worker at whether its study is still there [s].
_LOOK = 0.5


@dataclass
class Dispatch:
    """Dispatcher of one run of tasks. folder : of the study. calls : in their order. pickles : of
    functions and data, by digest. executor : of `concurrent.futures`; None for processes of this
    run, as many as `workers`, which is None if an executor was given whose number is unknown.
    retries : of tasks whose worker died or that raised an error."""

    folder: Path
    calls: Sequence[Call]
    pickles: Mapping[str, Pickle]
    order: Order
    executor: Executor | None
    workers: int | None
    retries: int
    _own: Any = None  # of loky, which has no types
    _seconds: float = 0.0
    _done: int = 0
    _attempts: dict[int, int] = field(default_factory=dict)
    _parts: list[Path] = field(default_factory=list)

    def outcomes(self) -> Generator[list[Outcome]]:
        """Outcomes of tasks as they complete, each task once. Ctrl-C ends it, as closing does."""
        waiting, suspects = deque(self.calls), deque[Call]()
        flying: dict[Future[list[Outcome]], tuple[list[Call], str]] = {}
        try:
            while waiting or suspects or flying:
                self._send(waiting, suspects, flying)
                ready = wait(flying, return_when=FIRST_COMPLETED).done
                if any(isinstance(future.exception(), BrokenExecutor) for future in ready):
                    ready = set(flying)  # all are lost together
                    self._close(kill=True)
                finished: list[Outcome] = []
                for future in ready:
                    calls, part = flying.pop(future)
                    finished += self._taken(future, calls, part, waiting, suspects)
                if finished:
                    yield finished
                self._tidy()  # what was yielded is kept by now
        finally:
            self._close(kill=bool(flying))
            for future in flying:
                future.cancel()

    def _send(
        self,
        waiting: deque[Call],
        suspects: deque[Call],
        flying: dict[Future[list[Outcome]], tuple[list[Call], str]],
    ) -> None:
        """Send what may be sent. Tasks that ran when workers died are sent one at a time, with
        nothing beside them: if it happens again, it was theirs."""
        if suspects:
            if not flying:
                self._submit([suspects.popleft()], flying)
            return
        most = _UNKNOWN if self.workers is None else _AHEAD * self.workers
        while waiting and len(flying) < most:
            self._submit([waiting.popleft() for _ in range(min(self._size, len(waiting)))], flying)

    @property
    def _size(self) -> int:
        """Number of tasks in the next part: few until their duration is known."""
        if not self._done:
            return 1
        return max(1, min(_MOST, int(_PART * self._done / max(self._seconds, 1e-6))))

    def _submit(
        self, calls: list[Call], flying: dict[Future[list[Outcome]], tuple[list[Call], str]]
    ) -> None:
        needed = {digest for call in calls for digest in (call.function, *call.arguments.values())}
        pickles = {digest: self.pickles[digest] for digest in needed}
        part = uuid.uuid4().hex
        future = self._workers().submit(work, calls, pickles, self.order, part)
        flying[future] = calls, part

    def _workers(self) -> Any:
        if self.executor is not None:
            return self.executor
        if self._own is None:
            environment = dict.fromkeys(THREADS, str(self.order.threads))
            options = {"env": environment, "initializer": _watch, "initargs": (os.getpid(),)}
            self._own = loky.ProcessPoolExecutor(self.workers, **options)
        return self._own

    def _close(self, kill: bool) -> None:
        if self._own is not None:
            self._own.shutdown(wait=True, kill_workers=kill)
            self._own = None

    def _taken(
        self,
        future: Future[list[Outcome]],
        calls: list[Call],
        part: str,
        waiting: deque[Call],
        suspects: deque[Call],
    ) -> list[Outcome]:
        """Outcomes of a part; tasks without one, or that failed and may be tried again, are
        queued."""
        journal = self.folder / JOURNAL / part
        try:
            found = future.result()
        except Unfit:
            raise
        except Exception as error:  # the worker has died; executors say so in many ways
            if self.executor is not None and isinstance(error, BrokenExecutor):
                raise RuntimeError(
                    f"the executor has broken: {error}; run the study again, with a new one: it "
                    "goes on where it is"
                ) from error
            why = "" if isinstance(error, BrokenExecutor) else f"; {type(error).__name__}: {error}"
            found = self._of_lost(calls, noted(journal), why, waiting, suspects)
        good, by_number = [], {call.number: call for call in calls}
        for outcome in found:
            tries = self._attempts.get(outcome.number, 0)
            if outcome.status is Task.FAILED and tries < self.retries:
                self._attempts[outcome.number] = tries + 1
                waiting.append(by_number[outcome.number])
            else:
                good.append(replace(outcome, attempts=tries + 1))
        self._done += len(found)
        self._seconds += sum(outcome.seconds for outcome in found)
        self._parts.append(journal)
        return good

    def _of_lost(
        self,
        calls: list[Call],
        notes: Notes,
        why: str,
        waiting: deque[Call],
        suspects: deque[Call],
    ) -> list[Outcome]:
        """Outcomes of a part whose worker has died; the task that it was at is tried again, unless
        its time was over, and those after it wait. why : the executor's message."""
        found = list(notes.outcomes)
        ended = {outcome.number for outcome in found}
        left = [call for call in calls if call.number not in ended]
        if not left:
            return found
        first, limit = left[0], self.order.timeout
        waiting.extendleft(reversed(left[1:]))
        tries = self._attempts.get(first.number, 0)
        late = notes.begun == first.number and time.time() - notes.at >= limit
        if not late and tries < self.retries:
            self._attempts[first.number] = tries + 1
            suspects.append(first)
            return found
        status = Task.TIMEOUT if late else Task.LOST
        words = status.said(times=tries + 1, seconds=limit) + why * (not late)
        return [*found, Outcome(first.number, first.content, status, words)]

    def _tidy(self) -> None:
        """Remove parts of the journal that are not needed any more."""
        while self._parts:
            self._parts.pop().unlink(missing_ok=True)


def _watch(parent: int) -> None:
    """Watch the parent process from a worker, and end with it, even if it was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
