"""Jumps of expressions of time alone, as inputs that are held from one jump to the next, so that
steps end there exactly."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.base.quiet import warn
from kinesym.internal.problems.simulation_arguments import Input, SimulationArguments
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.ensemble import Ensemble
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal, with_jumps
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.jumps import (
    OfKnownTime,
    Switch,
    Switched,
    Unevaluated,
    jumping,
    of_time,
    of_time_alone,
)
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.pulses import pulsed
from kinesym.symbolic.switching import switched

#: Note on a trial of unknown duration, on whose grid a known time is anywhere.
_FREE = (
    "{}, between two nodes as the unknown duration has it: there the scheme is of first order, and "
    "the error of the grid is not known; make two phases of the trial, which meet at the jump"
)
_Run = TypeVar("_Run", bound=Trajectory | Ensemble)

#: Most jumps in one run: more are a mistake, or an average is meant.
MOST = 200_000
#: A share of the duration within which a jump is at a node.
_SAME = 1e-9
#: Most times at which members of an ensemble jump that become ends of the steps of all.
_MOST_APART = 2000
#: Points at which a switching function that is not linear is evaluated before roots are refined.
_LOOKS = 8192
#: Least number of these points between two jumps of earlier switches.
_LEAST = 16
#: Extremum of a guard beyond the middle of three values, at most, in their largest difference.
_BEYOND = 16.0
#: Secant steps to a root.
_SECANTS = 5
#: Ends of steps about a pulse, in widths from its middle.
_ABOUT = np.array([-6.0, -2.0, 0.0, 2.0, 6.0])
#: Widths that a run must have to be split at a pulse: a wider pulse is not stepped over.
_WIDE = 10.0


def timed(
    system: Model | Hybrid, given: SimulationArguments, alone: bool = False
) -> tuple[Model | Hybrid, SimulationArguments]:
    """The system with inputs for what jumps or bends at times that are known, and for narrow
    pulses, and arguments with these; the same if there is nothing. alone : only for jumps that no
    parameter moves.

    Raises `ValueError` for too many jumps, naming the expression."""
    return _at_pulses(*_switching(system, given, alone))


def _switching(
    system: Model | Hybrid, given: SimulationArguments, alone: bool
) -> tuple[Model | Hybrid, SimulationArguments]:
    """The system with inputs for what jumps or bends, and arguments with these, see `timed`."""
    model = system if isinstance(system, Model) else system.model
    found = switched(model, of_time_alone if alone else of_time, True)
    if not found.switches:
        return system, given
    made: dict[str, Input] = dict(given.inputs)
    span, names = (float(given.time[0]), float(given.time[-1])), found.names
    varies = any(
        given.parameters[name_of(p)].ndim for switch in found.switches for p in switch.depends - {t}
    )
    count = (given.members or 1) if varies else 1
    try:
        each = [signals(found, _numbers(given, k), span) for k in range(count)]
    except Unevaluated:  # steps pass it
        return system, given
    made |= {name: [row[name] for row in each] if varies else each[0][name] for name in names}
    if varies and len(_times(each)) > _MOST_APART:
        warn(
            f"{found.switches[0].said} at {len(_times(each))} different times of the members, too "
            "many to be ends of the steps of all: steps pass them; simulate fewer at a time",
            stacklevel=3,
        )
        return system, given
    changed = found.model if isinstance(system, Model) else _with_model(system, found.model)
    return changed, replace(given, inputs=made)


def _at_pulses(
    system: Model | Hybrid, given: SimulationArguments
) -> tuple[Model | Hybrid, SimulationArguments]:
    """The system with an input that no equation has, whose jumps end steps about narrow pulses."""
    found = pulsed(system if isinstance(system, Model) else system.model)
    if found is None:
        return system, given
    begin, end = float(given.time[0]), float(given.time[-1])
    try:
        first, last = found.at(np.array([begin, end]), given.parameters).swapaxes(0, 1)
    except (NameError, TypeError, ArithmeticError):  # NumPy does not have it
        return system, given
    narrow = np.isfinite(first) & np.isfinite(last) & (np.abs(last - first) > _WIDE)
    if not narrow.any():
        return system, given
    shares = (_ABOUT[:, None] - first[narrow]) / (last - first)[narrow]
    times = begin + np.unique(shares[(shares > 0.0) & (shares < 1.0)]) * (end - begin)
    if len(times) > _MOST_APART:
        warn(
            f"{found.pulses[0].said} is a narrow pulse or step of time, one of {len(times)} times "
            "at which steps would end, too many: steps that choose their length may pass it "
            "unseen; simulate less time or fewer members at a time",
            stacklevel=4,
        )
        return system, given
    if not len(times):
        return system, given
    ends = Signal(np.append(begin, times), np.arange(len(times) + 1.0), between="held")
    made = found.model if isinstance(system, Model) else _with_model(system, found.model)
    return made, replace(given, inputs={**given.inputs, found.name: ends})


def without_inputs(run: _Run, names: Collection[str]) -> _Run:
    """A trajectory or an ensemble that does not show some inputs: what jumps is nobody's."""
    inputs = {name: row for name, row in run.inputs.items() if name not in names}
    return replace(run, inputs=inputs) if len(inputs) < len(run.inputs) else run


class HeldSwitches(NamedTuple):
    """Model whose jumps at known times are inputs, `names`, which trials have; notes : jumps that
    stay expressions, in words. before : the grids (N,) of trials that have more nodes now."""

    model: Model
    trials: Sequence[Experiment]
    names: Sequence[str] = ()
    notes: Sequence[str] = ()
    before: Sequence[Array] = ()


def on_given_grids(guess: Mapping[str, Any], grids: Sequence[Array]) -> dict[str, Any]:
    """Values by name, with trajectories (N,) on these grids, of each trial, as signals."""
    if not grids:
        return dict(guess)
    return {name: _signals(value, grids) for name, value in guess.items()}


def _signals(value: Any, grids: Sequence[Array]) -> Any:
    """A trajectory, or one per trial, as signals; what is none as it is."""
    several = isinstance(value, (list, tuple)) and len(value) == len(grids)
    rows = value if several and any(map(np.ndim, value)) else [value] * len(grids)
    sizes = [len(time) for time in grids]
    fits = [np.shape(row) in ((), (N,)) for row, N in zip(rows, sizes, strict=True)]
    if not (rows and all(fits) and any(map(np.ndim, rows))):
        return value
    pairs = zip(grids, rows, strict=True)
    return [Signal(time, np.broadcast_to(row, time.shape)) for time, row in pairs]


def held_switches(
    model: Model,
    trials: Sequence[Experiment],
    unknown: Collection[str],
    known: Sequence[Mapping[str, float]],
    insert: bool,
) -> HeldSwitches:
    """Replace jumps at known times by inputs that are held between nodes, for fits.

    unknown : names of parameters. known : values of the others, by trial. insert : whether trials
    get a node at each jump, of given inputs too; else a jump between nodes stays an expression,
    with a note.
    """
    given, trials = trials, [_with_nodes(e, e.signals) for e in trials] if insert else trials
    before = [] if [*trials] == [*given] else [trial.grid for trial in given]
    found = switched(model, OfKnownTime(frozenset(unknown)), True)
    if not found.switches:
        return HeldSwitches(model, trials, before=before)
    if any(trial.free_duration for trial in trials):
        notes = [_FREE.format(s.said) for s in jumping(found)[:1]]
        return HeldSwitches(model, trials, notes=notes, before=before)
    numbers = [{**dict.fromkeys(unknown, np.nan), **row} for row in known]
    try:
        each = [
            signals(found, row, (float(trial.grid[0]), float(trial.grid[-1])))
            for row, trial in zip(numbers, trials, strict=True)
        ]
    except Unevaluated:
        return HeldSwitches(model, trials, before=before)
    made = [_with_nodes(e, own) for e, own in zip(trials, each, strict=True)]
    if not insert and any(new is not old for new, old in zip(made, trials, strict=True)):
        return HeldSwitches(model, trials, notes=_between(found, trials, each))
    each = [_held_as_others(own, each, trial.grid) for trial, own in zip(made, each, strict=True)]
    driven = [trial.driven(own) for trial, own in zip(made, each, strict=True)]
    before = [trial.grid for trial in given] if made != [*given] else []
    return HeldSwitches(found.model, driven, found.names, before=before)


def _with_nodes(trial: Experiment, own: Mapping[str, Signal]) -> Experiment:
    """A trial with a node at each jump of held signals."""
    held = [signal for signal in own.values() if not signal.expressions and signal.held]
    grid, _ = with_jumps(trial.grid, held)
    return trial if len(grid) == trial.n_nodes else trial.on_grid(grid)


def _held_as_others(
    own: Mapping[str, Signal], each: Sequence[Mapping[str, Signal]], grid: Array
) -> dict[str, Signal]:
    """Signals of a trial, held also where they do not jump in it but in others."""
    ends, others = (
        grid[[0, -1]],
        {name for row in each for name, s in row.items() if len(s.begin) > 1},
    )
    return {
        name: Signal(ends, s.at_nodes(ends), between="held")
        if len(s.begin) == 1 and name in others
        else s
        for name, s in own.items()
    }


def _between(
    found: Switched, trials: Sequence[Experiment], each: Sequence[Mapping[str, Signal]]
) -> list[str]:
    """A sentence on the first jump between nodes; none if what is there only bends."""
    for switch in jumping(found):
        for number, (trial, own) in enumerate(zip(trials, each, strict=True)):
            jumps = own[name_of(switch.symbol)].jumps(trial.grid[0], trial.grid[-1])
            apart = np.abs(trial.grid[:, None] - jumps).min(axis=0)
            off = jumps[apart > _SAME * (trial.grid[-1] - trial.grid[0])]
            if len(off):
                return [
                    f"{switch.said} at t = {off[0]:.9g} s, between two nodes of trial {number}: "
                    "there the scheme is of first order, and the error of the grid is not known; "
                    "put a node there, as in time=np.union1d(time, [...])"
                ]
    return []


def _times(each: Sequence[Mapping[str, Signal]]) -> set[float]:
    """Times at which some signal has a new piece."""
    return {float(at) for row in each for signal in row.values() for at in signal.begin[1:]}


def _numbers(given: SimulationArguments, member: int) -> dict[str, float]:
    rows = given.parameters.items()
    return {name: float(row[member] if row.ndim else row) for name, row in rows}


@lru_cache(maxsize=32)
def _with_model(hybrid: Hybrid, model: Model) -> Hybrid:
    """Hybrid model with another model, cached per pair: compiled code is kept by identity."""
    return replace(hybrid, model=model)


def signals(
    found: Switched, parameters: Mapping[str, float], span: tuple[float, float]
) -> dict[str, Signal]:
    """Signals of the switches whose guards depend on time and parameters, by name: values that are
    held from one jump to the next."""
    numbers: dict[sp.Basic, Any] = {p: parameters[name_of(p)] for p in found.model.parameters}
    courses: dict[sp.Basic, tuple[Array, Array]] = {}
    for switch in found.switches:
        courses[switch.symbol] = _course(found, switch, numbers, span, courses)
    return {
        name_of(symbol): Signal(begins, values, between="held")
        if len(begins) > 1
        else Signal.pieces(begins, values)
        for symbol, (begins, values) in courses.items()
    }


def _course(
    found: Switched,
    switch: Switch,
    numbers: Mapping[sp.Basic, Any],
    span: tuple[float, float],
    earlier: Mapping[sp.Basic, tuple[Array, Array]],
) -> tuple[Array, Array]:
    """Times at which a switch has a new value, from the start on, and these values."""
    inner = [begins[1:] for begins, _ in earlier.values()]
    edges = np.unique(np.concatenate([span, *inner]))

    def guard(time: Array) -> Array:
        """At times, each with what is held in its piece."""
        piece = np.clip(np.searchsorted(edges, time.mean(axis=-1), side="right") - 1, 0, None)
        middle = 0.5 * (edges[piece] + edges[np.minimum(piece + 1, len(edges) - 1)])
        held = {
            symbol: values[np.searchsorted(begins, middle, side="right") - 1][:, None]
            for symbol, (begins, values) in earlier.items()
        }
        return found.guard(switch, {**numbers, t: time}, held) + 0.0 * time

    parts = 1 if _straight(found, switch) else max(_LEAST, _LOOKS // (len(edges) - 1))
    time = edges[:-1, None] + np.linspace(0.0, 1.0, parts + 1) * np.diff(edges)[:, None]
    time[:, -1] = edges[1:]
    s = guard(time)
    if parts > 1:
        time, s = _with_extrema(switch, time, s, guard)
    roots = _roots(switch, time, s, guard)
    cuts = np.unique(np.concatenate([edges, roots]))
    middle = 0.5 * (cuts[:-1] + cuts[1:])
    values = switch.value(guard(middle[:, None])[:, 0])
    new = np.append(True, values[1:] != values[:-1])
    return cuts[:-1][new], values[new]


@lru_cache(maxsize=256)
def _straight(found: Switched, switch: Switch) -> bool:
    """Whether a guard is a straight line of time, what is held aside."""
    if switch.guard.atoms(sp.Symbol) & {symbol for symbol, _ in found.model.intermediates}:
        return False
    bare = switch.guard.xreplace({s.symbol: sp.Dummy() for s in found.switches})
    return bool(bare.is_polynomial(t) and sp.degree(bare, t) <= 1)


def _with_extrema(switch: Switch, time: Array, s: Array, guard: Any) -> tuple[Array, Array]:
    """Times (pieces, looks) with the places of the extrema that are seen between them, where the
    switch may change, and the guard there."""
    left, middle, right = s[:, :-2], s[:, 1:-1], s[:, 2:]
    piece, k = np.nonzero((middle - left) * (right - middle) <= 0.0)
    left, middle, right = left[piece, k], middle[piece, k], right[piece, k]
    up = np.where(middle >= left, 1.0, -1.0)
    far = middle + up * _BEYOND * np.maximum(np.abs(middle - left), np.abs(right - middle))
    changes = switch.value(far) != switch.value(middle)
    piece, k, up = piece[changes], k[changes], up[changes]
    if not len(piece):
        return time, s
    a, b = time[piece, k], time[piece, k + 2]
    share = 0.5 * (np.sqrt(5.0) - 1.0)
    for _ in range(60):  # by the golden section
        c, d = b - share * (b - a), a + share * (b - a)
        low, high = up * guard(c[:, None])[:, 0], up * guard(d[:, None])[:, 0]
        a, b = np.where(low > high, a, c), np.where(low > high, d, b)
    more = np.repeat(time[:, -1:], int(np.bincount(piece).max()), axis=1)
    place = np.arange(len(piece)) - np.searchsorted(piece, piece)
    more[piece, place] = 0.5 * (a + b)
    every = np.sort(np.concatenate([time, more], axis=1), axis=1)
    return every, guard(every)


def _roots(switch: Switch, time: Array, s: Array, guard: Any) -> Array:
    """Times at which the guard, s at these, passes a point where the switch changes."""
    value = switch.value(s)
    changed = np.isfinite(s[:, :-1]) & np.isfinite(s[:, 1:]) & (value[:, :-1] != value[:, 1:])
    piece, k = np.nonzero(changed)
    first, last = s[piece, k], s[piece, k + 1]
    count = np.abs(value[piece, k + 1] - value[piece, k]).sum()
    if count > MOST:
        raise ValueError(
            f"{switch.said} some {count:.2g} times between t = {time[0, 0]:g} and "
            f"{time[-1, -1]:g} s, of which each would be the end of a step: simulate less time, or "
            "write its average instead"
        )
    low, high = np.minimum(first, last), np.maximum(first, last)
    found = [switch.thresholds(*pair) for pair in zip(low, high, strict=True)]
    which = np.repeat(np.arange(len(found)), [len(row) for row in found])
    level = np.concatenate([np.zeros(0), *found])
    a, b = time[piece, k][which], time[piece, k + 1][which]
    rises = (last > first)[which]

    def beyond(at: Array) -> NDArray[np.bool_]:
        """Whether the guard has passed the level."""
        return np.asarray((guard(at[:, None])[:, 0] >= level) == rises)

    near = _by_secants(a, b, first[which] - level, last[which] - level, level, guard)
    little = 1e-14 * np.maximum(np.abs(a), np.abs(b))
    low, high = np.maximum(a, near - little), np.minimum(b, near + little)
    straight = beyond(high) & ~beyond(low)  # nothing else is left to find
    a, b = np.where(straight, low, a), np.where(straight, high, b)
    while (np.nextafter(a, b) < b).any():
        middle = 0.5 * (a + b)
        passed = beyond(middle)
        a, b = np.where(passed, a, middle), np.where(passed, middle, b)
    ends = time[:, [0, -1]].ravel()
    touched = time[:, 1:-1][(value[:, 1:-1] != value[:, :-2])]
    return np.concatenate([b, ends, touched])


def _by_secants(a: Array, b: Array, begin: Array, end: Array, level: Array, guard: Any) -> Array:
    """Times within (a, b), where the guard less the level is `begin` and `end`, near its roots."""
    before, at, value, now = a, b, begin, end
    for _ in range(_SECANTS):
        with np.errstate(all="ignore"):
            found = at - now * (at - before) / (now - value)
        found = np.clip(np.where(np.isfinite(found), found, at), a, b)
        if (np.abs(found - at) <= np.spacing(np.abs(at))).all():
            break
        before, at, value = at, found, now
        now = guard(at[:, None])[:, 0] - level
    return at
