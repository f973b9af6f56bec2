"""Steps of simulations that end at jumps of time and about narrow pulses, as at the jumps of inputs
that are held."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from kinesym.base.quiet import warn
from kinesym.internal.problems.simulation_arguments import Input, SimulationArguments
from kinesym.internal.problems.switch_times import signals
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.ensemble import Ensemble
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.jumps import Unevaluated, of_time, of_time_alone
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.pulses import Pulsed, pulsed
from kinesym.symbolic.switching import switched

_Run = TypeVar("_Run", bound=Trajectory | Ensemble)

#: Most times at which members of an ensemble jump that become ends of the steps of all.
_MOST_APART = 2000
#: Most times about the pulses of a single run.
_MOST_TIMES = 20_000
#: Ends of steps about a pulse, in widths from its middle.
_ABOUT = np.array([-6.0, -2.0, 0.0, 2.0, 6.0])
#: Widths that a run must have to be split at a pulse: a wider pulse is not stepped over.
_WIDE = 10.0
#: Widths that a period must have to be split at its pulses.
_RARE = 30.0


def timed(
    system: Model | Hybrid, given: SimulationArguments, alone: bool = False
) -> tuple[Model | Hybrid, SimulationArguments]:
    """The system with inputs for what jumps or bends at times that are known, and for narrow
    pulses, and arguments with these; the same if there is nothing. alone : only for jumps that no
    parameter moves.

    Raises `ValueError` for too many jumps, naming the expression."""
    return _switching(*_at_pulses(system, given), alone)


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
        times = np.union1d(_about_pulses(found, given), _about_trains(found, given))
    except (NameError, TypeError, ArithmeticError):  # NumPy does not have it
        return system, given
    times = times[(times > begin) & (times < end)]
    if len(times) > (_MOST_APART if given.members else _MOST_TIMES):
        warn(
            f"{found.said} is a narrow pulse or step of time, one of "
            f"{len(times)} times at which steps would end, too many: steps that choose their "
            "length may pass it unseen; simulate less time or fewer members at a time",
            stacklevel=4,
        )
        return system, given
    if not len(times):
        return system, given
    ends = Signal(np.append(begin, times), np.arange(len(times) + 1.0), between="held")
    made = found.model if isinstance(system, Model) else _with_model(system, found.model)
    return made, replace(given, inputs={**given.inputs, found.name: ends})


def _about_pulses(found: Pulsed, given: SimulationArguments) -> Array:
    """Times about narrow pulses and steps, of all members."""
    if not found.pulses:
        return np.zeros(0)
    begin, end = float(given.time[0]), float(given.time[-1])
    first, last = found.at(np.array([begin, end]), given.parameters).swapaxes(0, 1)
    narrow = np.isfinite(first) & np.isfinite(last) & (np.abs(last - first) > _WIDE)
    shares = (_ABOUT[:, None] - first[narrow]) / (last - first)[narrow]
    return begin + np.unique(shares[(shares > 0.0) & (shares < 1.0)]) * (end - begin)


def _about_trains(found: Pulsed, given: SimulationArguments) -> Array:
    """Times about the narrow ones of pulses and steps that repeat, of all members."""
    begin, end, times = float(given.time[0]), float(given.time[-1]), [np.zeros(0)]
    count = (given.members or 1) if found.trains else 0
    for numbers in {tuple(_numbers(given, k).items()) for k in range(count)}:
        for at, width, period in found.places_of_trains(begin, dict(numbers)):
            narrow = _RARE * width < min(period, end - begin)
            if narrow.any():  # of more periods than a run may have ends, that many say so
                turns = period * np.arange(min(np.ceil((end - begin) / period), _MOST_TIMES))
                first = at[narrow] + _ABOUT[:, None] * width[narrow]
                times.append((first + turns[:, None, None]).ravel())
    return np.unique(np.concatenate(times))


def without_inputs(run: _Run, names: Collection[str]) -> _Run:
    """A trajectory or an ensemble that does not show some inputs: what jumps is nobody's."""
    inputs = {name: row for name, row in run.inputs.items() if name not in names}
    return replace(run, inputs=inputs) if len(inputs) < len(run.inputs) else run


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
