"""Who gets which tasks: parts of a study go to an executor, and what came of them comes back."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loky import ProcessPoolExecutor

from kinesym.runtime.status import Task
from kinesym.runtime.studies.work import JOURNAL, Call, Order, Outcome, noted, work

#: A part of a study should take about so long [s], and has at most so many tasks: it costs about a
#: millisecond to send one.
_PART, _MOST = 0.3, 256
#: Parts per worker that are sent before the first has come back, and in all where the number of
#: workers is not known.
_AHEAD, _UNKNOWN = 3, 256


@dataclass
class Dispatch:
    """One run of tasks. folder : of the study. calls : in their order. pickles : of functions and
    data, by digest. executor : of `concurrent.futures`; None for processes of this run's own, so
    many as `workers`; of another one's workers None are known. retries : of tasks whose worker
    died or that raised an error."""

    folder: Path
    calls: Sequence[Call]
    pickles: Mapping[str, bytes]
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
        """What came of tasks, as it comes in; each task once. Ctrl-C ends it, as closing does."""
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
            for future in flying:
                future.cancel()
            self._close(kill=bool(flying))

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
        """How many tasks the next part has: few until it is known how long they take."""
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
            self._own = ProcessPoolExecutor(self.workers)
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
        """Outcomes of a part; what has none, or failed, and may be tried again, is queued."""
        journal = self.folder / JOURNAL / part
        try:
            found = future.result()
        except (BrokenExecutor, OSError) as error:
            found = noted(journal) if journal.is_file() else []
            left = calls[len(found) :]
            if self.executor is not None and isinstance(error, BrokenExecutor):
                raise RuntimeError(
                    f"the executor has broken: {error}; run the study again, with a new one: it "
                    "goes on where it is"
                ) from error
            if left:
                found += self._again(left[0], Task.LOST, suspects)
                waiting.extendleft(reversed(left[1:]))
        good = []
        for call, outcome in zip(calls, found, strict=False):
            tries = self._attempts.get(call.number, 0)
            if outcome.status is Task.FAILED and tries < self.retries:
                self._attempts[call.number] = tries + 1
                waiting.append(call)
            else:
                good.append(replace(outcome, attempts=tries + 1))
        self._done += len(found)
        self._seconds += sum(outcome.seconds for outcome in found)
        self._parts.append(journal)
        return good

    def _tidy(self) -> None:
        """Remove parts of the journal that are not needed any more."""
        while self._parts:
            self._parts.pop().unlink(missing_ok=True)

    def _again(self, call: Call, status: Task, suspects: deque[Call]) -> list[Outcome]:
        """Nothing if a task that ran when its worker died is tried again, else that it is lost."""
        tries = self._attempts.get(call.number, 0)
        if tries < self.retries:
            self._attempts[call.number] = tries + 1
            suspects.append(call)
            return []
        words = status.said(times=tries + 1)
        return [Outcome(call.number, call.content, status, words)]
