"""Starts of many solves: parameters from a Latin hypercube, trajectories with random detours."""

from __future__ import annotations

import pickle
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any

import numpy as np

from kinesym import checks
from kinesym.internal.fitted import Fitted
from kinesym.runtime.arrays import Array
from kinesym.runtime.progress import say
from kinesym.runtime.results.multistart import Found
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.status import Solve
from kinesym.symbolic.names import by_name

#: Ranges this many times wider than where they begin are drawn on a logarithmic scale.
_WIDE = 30.0
#: A parameter without a range is drawn within this factor of its guess, to both sides.
_FACTOR = 10.0
#: The correlation time of detours, as a share of a trial's duration.
_CORRELATED = 0.25
#: Solves that are asked for before the first of them has ended.
_WAITING = 64


def ranges_of(
    problem: Fitted, guess: Array, given: Mapping[Any, Any] | None
) -> dict[str, tuple[float, float]]:
    """Where each parameter is drawn: as given, between its bounds, or about its guess. Raises
    `ValueError` naming one with neither, or a range that is none."""
    names = problem.layout.parameters
    chosen = by_name({} if given is None else given, names, "ranges")
    found = {}
    for name, value, bounds in zip(
        names, problem._parameters(guess).values(), _natural_bounds(problem), strict=True
    ):
        low, high = chosen.get(name, bounds)
        if not np.isfinite([low, high]).all() and value != 0.0 and name not in chosen:
            about = sorted((value / _FACTOR, value * _FACTOR))
            low, high = np.clip(about, *bounds)
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(
                f"parameter {name} is drawn between {low:g} and {high:g}, which is no range: give "
                f"bounds, or ranges={{{name!r}: (low, high)}}"
            )
        found[name] = (float(low), float(high))
    return found


def _natural_bounds(problem: Fitted) -> list[tuple[float, float]]:
    layout = problem.layout
    low, high = (
        layout.owned.natural(layout.parameter_values(side)) for side in problem.variable_bounds
    )
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def drawn(ranges: Mapping[str, tuple[float, float]], count: int, seed: int) -> Array:
    """A Latin hypercube, (count, r); log-uniform where a range is positive and wide."""
    if not ranges or not count:
        return np.zeros((count, len(ranges)))
    generator = np.random.default_rng(seed)
    strata = generator.permuted(np.tile(np.arange(count), (len(ranges), 1)), axis=1).T
    unit = (strata + generator.random(strata.shape)) / count
    columns = []
    for share, (low, high) in zip(unit.T, ranges.values(), strict=True):
        wide = low > 0.0 and high > _WIDE * low
        value = low * (high / low) ** share if wide else low + (high - low) * share
        columns.append(value)
    return np.array(columns).T


def starting_points(
    problem: Fitted, guess: Any, rows: Array, names: list[str], detour: float, seed: int
) -> Iterator[Array]:
    """The free vector of each start; rows (S, r) : parameters. What nothing measures begins at the
    guess plus noise of a correlation time, of `detour` times the size of it."""
    base, generator = problem.pack(guess), np.random.default_rng([seed, 1])
    low, high = problem.variable_bounds
    about = problem._trajectories(base, np.zeros(len(base), dtype=bool))
    for row in rows:
        values: dict[str, Any] = dict(zip(names, map(float, row), strict=True))
        for name in (*problem.layout.states, *problem.layout.inputs):
            if name in problem.layout.delayed or any(name in t.measured for t in problem.trials):
                continue
            values[name] = [
                run[name] + detour * _size(run[name]) * correlated(run.time, generator)
                for run in about
            ]
        if problem.layout.free_duration:
            values["duration"] = problem.layout.durations(base)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is drawn may leave the bounds
            yield np.clip(problem.pack(values), low, high)


def _size(row: Array) -> float:
    return float(np.ptp(row) or np.abs(row).max() or 1.0)


def correlated(time: Array, generator: np.random.Generator) -> Array:
    """Noise of mean 0 and variance 1 at times (N,): an Ornstein-Uhlenbeck process."""
    found = generator.standard_normal(len(time))
    keep = np.exp(-np.diff(time) / (_CORRELATED * (time[-1] - time[0])))
    for k, a in enumerate(keep):
        found[k + 1] = a * found[k] + np.sqrt(1.0 - a * a) * found[k + 1]
    return found


def searched(
    problem: Fitted,
    points: Iterable[Array],
    count: int,
    solver: Callable[[Any, Array, Any], Solution],
    executor: Any,
    progress: bool | None,
) -> list[Found]:
    """What a solve from each point finds, in their order, until Ctrl-C; by an executor, or by as
    many threads as there are cores. Other executors than those of threads get the problem pickled,
    which their workers open once."""
    found, waiting = list[Found](), deque[Future[Found]]()
    pool = executor or ThreadPoolExecutor(checks.threads())
    shared = isinstance(pool, ThreadPoolExecutor)
    task = partial(_searched, problem) if shared else partial(_landed, pickle.dumps(problem))
    try:
        for point in points:
            waiting.append(pool.submit(task, point, solver))
            while len(waiting) > _WAITING:
                _taken(waiting, found, count, progress)
        while waiting:
            _taken(waiting, found, count, progress)
    except KeyboardInterrupt:
        done = takewhile(lambda future: future.done() and not future.cancelled(), waiting)
        found += [future.result() for future in done]
    finally:
        for future in waiting:
            future.cancel()
        if executor is None:
            pool.shutdown()
    return found


def _taken(
    waiting: deque[Future[Found]], found: list[Found], count: int, progress: bool | None
) -> None:
    """Wait for the first of those that are waiting; it stays there if Ctrl-C comes meanwhile."""
    found.append(waiting[0].result())
    waiting.popleft()
    say(progress, f"start {len(found)} of {count}: {found[-1].status}")


@lru_cache(maxsize=2)
def _opened(pickled: bytes) -> Fitted:
    found: Fitted = pickle.loads(pickled)
    return found


def _landed(pickled: bytes, point: Array, solver: Callable[[Any, Array, Any], Solution]) -> Found:
    """`_searched` in another process."""
    return _searched(_opened(pickled), point, solver)


def _searched(
    problem: Fitted, point: Array, solver: Callable[[Any, Array, Any], Solution]
) -> Found:
    try:
        one = solver(problem, point, None)
    except ValueError:  # a function is not finite where it begins
        return Found(problem._parameters(point), None, str(Solve.NOT_FINITE))
    kept = one if one.success else None
    return Found(problem._parameters(one.free_vector), kept, str(one.status))
