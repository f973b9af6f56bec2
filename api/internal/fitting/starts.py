"""Multistart: parameters from a Latin hypercube, trajectories with random detours."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from kinesym.base import checks
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.runtime.arrays import Array
from kinesym.runtime.progress import task_bar
from kinesym.runtime.results.multistart import Found
from kinesym.runtime.results.solution import Solution, resolved
from kinesym.runtime.status import Solve
from kinesym.symbolic.names import by_name

#: Ranges this many times wider than where they begin are drawn on a logarithmic scale.
_WIDE = 30.0
#: A parameter without a range is drawn within this factor of its guess, to both sides.
_FACTOR = 10.0
#: Ranges beyond bounds by this share of them are not.
_ROUNDING = 1e-9
#: The correlation time of detours, as a share of a trial's duration.
_CORRELATED = 0.25
#: Most starts.
_MOST = 10**6
#: Solves that are asked for before the first of them has ended.
_WAITING = 64


class Search(NamedTuple):
    """Options of a search from many starts, see `Collocation.multistart`; limit : iterations of
    each start."""

    starts: int
    seed: int
    keep: int
    detour: float
    limit: int
    executor: Any
    progress: bool | None


def checked_search(
    starts: Any,
    seed: Any,
    keep: Any,
    detour: Any,
    max_iterations: Any,
    executor: Any,
    progress: bool | None,
) -> Search:
    """Check the options of a search; raises `ValueError` for what does not fit."""
    found = Search(
        checks.count(starts, "starts", most=_MOST),
        checks.count(seed, "seed", least=0),
        checks.count(keep, "keep"),
        checks.finite(detour, "detour"),
        checks.count(max_iterations, "max_iterations"),
        executor,
        progress,
    )
    if executor is not None and not callable(getattr(executor, "submit", None)):
        words = f"executor must have a method submit, got {checks.shown(executor)}"
        raise ValueError(words)
    return found


def ranges_of(
    names: Sequence[str],
    values: Array,
    bounds: tuple[Array, Array],
    given: Mapping[Any, Any] | None,
) -> dict[str, tuple[float, float]]:
    """Ranges in which parameters are drawn: as given, between the bounds, or about the value at the
    guess. Raises `ValueError` naming one with neither, or a range that is none or leaves the
    bounds."""
    rows = checks.mapping({} if given is None else given, "ranges", "{parameter: (low, high)}")
    ranges = by_name(rows, names, "ranges")
    chosen = {name: _pair(name, pair) for name, pair in ranges.items()}
    found = {}
    for name, value, *sides in zip(names, values, *bounds, strict=True):
        low, high = chosen.get(name, sides)
        _check_within(name, (low, high), sides)
        if not np.isfinite([low, high]).all() and value != 0.0 and name not in chosen:
            about = sorted((value / _FACTOR, value * _FACTOR))
            low, high = np.clip(about, *sides)
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(
                f"parameter {name} is drawn between {low:g} and {high:g}, which is no range: give "
                f"bounds, or ranges={{{name!r}: (low, high)}}"
            )
        found[name] = (float(low), float(high))
    return found


def _pair(name: str, given: Any) -> tuple[float, float]:
    """(low, high) of a range; raises `ValueError` for anything else."""
    pair = given if isinstance(given, (tuple, list, np.ndarray)) else ()
    if len(pair) != 2:
        raise ValueError(f"ranges: that of {name} is (low, high), got {checks.shown(given)}")
    low, high = (checks.finite(side, f"ranges: a side of that of {name}") for side in pair)
    return low, high


def _check_within(name: str, pair: tuple[float, float], sides: Sequence[float]) -> None:
    """Raise `ValueError` for a range beyond the bounds, to which starts there would be moved."""
    slack = _ROUNDING * np.abs(sides)
    if pair[0] < sides[0] - slack[0] or pair[1] > sides[1] + slack[1]:
        raise ValueError(
            f"ranges: {name} would be drawn between {pair[0]:g} and {pair[1]:g}, beyond its bounds "
            f"{sides[0]:g} ... {sides[1]:g}; give a range within, or wider bounds"
        )


def rows_of(search: Search, values: Array, ranges: Mapping[str, tuple[float, float]]) -> Array:
    """Parameters of all starts (S, r), those of the guess first."""
    return np.vstack([values, drawn(ranges, search.starts - 1, search.seed)])


def natural_parameters(problem: Discretisation, z: Array) -> Array:
    """Values of the unknown parameters in a free vector or in one side of its bounds, (r,)."""
    layout = problem.layout
    return layout.owned.natural(layout.parameter_values(z))


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
    problem: Discretisation, guess: Any, rows: Array, names: list[str], detour: float, seed: int
) -> Iterator[Array]:
    """The free vector of each start; rows (S, r) : parameters. What nothing measures begins with a
    simulation by these, see `pack`, else at the guess plus noise of a correlation time, of `detour`
    times the size of it."""
    first, generator = FirstGuess(problem), np.random.default_rng([seed, 1])
    base = first.pack(guess)
    about, layout = problem.trajectories(base), problem.layout
    free = [name for name in (*layout.states, *layout.inputs) if name not in layout.delayed]
    free = [name for name in free if not any(name in trial.measured for trial in problem.trials)]
    given: dict[str, Any] = dict.fromkeys(free, 0.0)  # a result gives all of them
    if isinstance(guess, Mapping | None):
        given = {n: value for n, value in first.named(guess).items() if n in free}
    for row in rows:
        values: dict[str, Any] = dict(zip(names, map(float, row), strict=True))
        drawn, told = first.made_up({**values, **given})
        for name in (name for name in free if name not in told):
            values[name] = [
                run[name] + detour * size_of(run[name]) * correlated(run.time, generator)
                for run in about
            ]
        if layout.free_duration:
            values["duration"] = layout.durations(base)
        yield first.started(values, drawn)


def size_of(row: Array) -> float:
    """Size of a course: its range, else its largest absolute value, else 1."""
    return float(np.ptp(row) or np.abs(row).max() or 1.0)


def correlated(time: Array, generator: np.random.Generator) -> Array:
    """Noise of mean 0 and variance 1 at times (N,): an Ornstein-Uhlenbeck process."""
    found = generator.standard_normal(len(time))
    keep = np.exp(-np.diff(time) / (_CORRELATED * (time[-1] - time[0])))
    for k, a in enumerate(keep):
        found[k + 1] = a * found[k] + np.sqrt(1.0 - a * a) * found[k + 1]
    return found


def searched(
    points: Iterable[Array], search: Search, solve: Callable[[Array], Found]
) -> dict[int, Found]:
    """Solve from each point, until Ctrl-C; returns results by number of the point. The executor, or
    as many threads as there are cores, run the solves. Executors other than those of threads get
    `solve` pickled, which their workers open once."""
    found, waiting = list[Found](), deque[Future[Found]]()
    pool = search.executor or ThreadPoolExecutor(checks.threads())
    shared = isinstance(pool, ThreadPoolExecutor)
    task = solve if shared else partial(_landed, pickle.dumps(solve))
    try:
        with task_bar(search.starts, search.progress, "starts") as report:
            for point in points:
                waiting.append(pool.submit(task, point))
                while len(waiting) > _WAITING:
                    _take(waiting, found, report)
            while waiting:
                _take(waiting, found, report)
    except KeyboardInterrupt:
        done = takewhile(lambda future: future.done() and not future.cancelled(), waiting)
        found += [future.result() for future in done]
    finally:
        for future in waiting:
            future.cancel()
        if search.executor is None:
            pool.shutdown()
    return dict(enumerate(found))


def _take(
    waiting: deque[Future[Found]], found: list[Found], report: Callable[[int, int], object]
) -> None:
    """Wait for the first of those that are waiting; it stays there if Ctrl-C comes meanwhile."""
    found.append(waiting[0].result())
    waiting.popleft()
    report(1, sum(one.solution is None for one in found))


@lru_cache(maxsize=2)
def _opened(pickled: bytes) -> Callable[[Array], Found]:
    solve: Callable[[Array], Found] = pickle.loads(pickled)
    return solve


def _landed(pickled: bytes, point: Array) -> Found:
    """Run a pickled solve in another process."""
    return _opened(pickled)(point)


def collocated(
    problem: Discretisation, solver: Callable[[Any, Array, Any], Solution], z: Array
) -> Found:
    """Result of a solve from a free vector."""
    try:
        one = resolved(solver(problem, z, None))
    except ValueError:  # a function is not finite where it begins
        return Found(problem.parameters(z), str(Solve.NOT_FINITE))
    about = (problem.parameters(one.free_vector), str(one.status), one.iterations)
    whole = partial(replace, one) if one.success else None
    return Found(*about, one.objective, whole, one.merit)
