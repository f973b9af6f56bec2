"""Mistakes in data and known values: fits of what they may have been meant to be.

Each supposition changes numbers only, channels, known inputs or known values, so that all are
fitted with one library. One is told if the data follow the model with it, and not without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.problems.plausible_units import is_angle, kinematic_pairs
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.summary import listed
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of

#: Unexplained share of the variance from which on mistakes in the data are looked for.
_POOR = 0.05
#: Ratio of unexplained shares, with and without a supposition, below which it counts.
_BETTER = 0.2
#: Ratio of unexplained shares to the best one up to which a supposition is told.
_NEAR = 2.0
#: Largest number of suppositions that are told.
_TOLD = 3
#: Budget of fits, in variables of all of them together.
_VARIABLES = 1_000_000
#: Number of fits that are tried in any case.
_FEWEST = 8

#: Factors by which a channel or a value may be wrong, in words.
_FACTORS = {
    -1.0: "with the other sign",
    float(np.pi / 180.0): "taken as degrees, times pi/180",
    float(180.0 / np.pi): "taken as radians, times 180/pi",
    1e-3: "divided by 1000, as if in millimetres or milliseconds",
    1e3: "times 1000, as if in metres where the model has millimetres",
    1e-2: "divided by 100, as if in centimetres or percent",
    1e2: "times 100, as if a share where the model has percent",
}
#: Factors of angles, which are not tried for known values.
_ANGLES = (float(np.pi / 180.0), float(180.0 / np.pi))

#: Factors by which angles and their rates may be wrong.
_OF_ANGLES = (-1.0, *_ANGLES)

#: The trials and known values that a supposition makes of those of a problem.
Known = list[dict[str, float]]
Change = Callable[[Sequence[Experiment], Known], tuple[list[Experiment], Known]]


@dataclass(frozen=True)
class Supposition:
    """Supposed mistake in the data, in words, and the change of trials and known values that undoes
    it."""

    words: str
    change: Change


def mistaken(
    problem: Discretisation, z: Array, unexplained: Callable[[Discretisation, Array], float]
) -> tuple[list[str], str]:
    """Sentences on channels, known inputs and known values with which, had they another sign, unit,
    name or direction of time, the data would follow the model, of those that are nearly as good as
    the best the likeliest first; and one for when nothing of the kind was found.

    z : where a solve ended or begins. unexplained : the share of the variance of what is measured
    that a fit from a place leaves.
    """
    as_is = min(unexplained(problem, start) for start in (FirstGuess(problem).pack(), z))
    if as_is <= _POOR:
        return [], ""
    found, every = list[tuple[float, str]](), list(_suppositions(problem))
    most = max(_FEWEST, _VARIABLES // problem.n_variables)
    for supposed in every[:most]:
        other = _supposing(problem, supposed.change)
        rest = unexplained(other, FirstGuess(other).pack())
        if rest < min(_POOR, _BETTER * as_is):
            found.append((rest, supposed.words))
    if not found:
        tried = f"of the {most} likeliest that were tried " if most < len(every) else ""
        return [], (
            f"a fit leaves {_percent(as_is)} of the variance of the data, and with any other sign, "
            f"unit or name of a channel or known value {tried}not much less: the model lacks "
            "something, or the fit ends in a local minimum, see problem.multistart"
        )
    least = min(rest for rest, _ in found)
    near = [row for row in found if row[0] <= _NEAR * least + 1e-3]  # the likeliest first
    alike = f"; so would {len(near) - 1} other such changes" if len(near) > _TOLD else ""
    return [
        f"the data would follow the model with {words}: a fit would leave {_percent(rest)} of "
        f"their variance, not {_percent(as_is)}{alike}"
        for rest, words in near[:_TOLD]
    ], ""


def _percent(share: float) -> str:
    return f"{100.0 * min(share, 1.0):.3g} %"


def _supposing(problem: Discretisation, change: Change) -> Discretisation:
    trials, known = change(problem.trials, [{**row} for row in problem.known])
    return problem.with_known(known).on(trials)


def _suppositions(problem: Discretisation) -> Iterator[Supposition]:
    """Suppositions to try, the likeliest first."""
    trials = problem.trials
    channels = sorted({name for trial in trials for name in trial.measured})
    inputs = sorted({u for trial in trials for u, s in trial.signals.items() if not s.expressions})
    values = sorted({*problem.model.parameter_names} & {*problem.known[0]})
    for a, b in combinations(channels, 2):
        if all(len(trial.measured[a]) == len(trial.measured[b]) for trial in trials):
            yield Supposition(f"{a} and {b} exchanged", _measured({a: (b, 1.0), b: (a, 1.0)}))
    for a, b in combinations(inputs, 2):
        yield Supposition(f"the inputs {a} and {b} exchanged", _driven({a: (b, 1.0), b: (a, 1.0)}))
    some = [name for name in channels if _moves(trials, name)]
    turning = _turning(problem.model)
    for factor, words in _FACTORS.items():
        for name in some:
            if name in turning and factor not in _OF_ANGLES:
                continue
            yield Supposition(f"{name} {words}", _measured({name: (name, factor)}))
        for name in inputs:
            yield Supposition(f"the input {name} {words}", _driven({name: (name, factor)}))
        if len(some) > 1:
            every = {name: (name, factor) for name in some}
            if turning.issuperset(some) and factor not in _OF_ANGLES:
                continue
            yield Supposition(f"{listed(some)} {words}", _measured(every))
    for factor, words in _FACTORS.items():
        for name in values:
            if problem.known[0][name] != 0.0 and factor not in _ANGLES:
                yield Supposition(f"the known {name} {words}", _known({name: (name, factor)}))
    for a, b in combinations(values, 2):
        if problem.known[0][a] != problem.known[0][b]:
            yield Supposition(f"the known {a} and {b} exchanged", _known({a: (b, 1), b: (a, 1)}))
    if all(np.allclose(trial.grid + trial.grid[::-1], 2 * trial.grid.mean()) for trial in trials):
        yield Supposition("time reversed in what is measured", _reversed)


def _turning(model: Model) -> set[str]:
    """Names of states that are angles, and of their rates, which are in no millimetres."""
    angles = {name_of(x) for x in model.states if is_angle(model, x)}
    return angles | {rate for rate, x in kinematic_pairs(model).items() if x in angles}


def _moves(trials: Sequence[Experiment], name: str) -> bool:
    """Whether a channel has samples that differ."""
    return any(np.nanstd(trial.measured[name]) > 0.0 for trial in trials if name in trial.measured)


#: Name that takes the place of a name, and its factor.
Places = Mapping[str, tuple[str, float]]


def _measured(places: Places) -> Change:
    def change(trials: Sequence[Experiment], known: Known) -> tuple[list[Experiment], Known]:
        return [_with_channels(trial, places) for trial in trials], known

    return change


def _with_channels(trial: Experiment, places: Places) -> Experiment:
    rows = trial.measured
    here = {a: (b, f) for a, (b, f) in places.items() if a in rows and b in rows}
    made = trial.remeasured({a: f * rows[b] for a, (b, f) in here.items()})
    own = {a: abs(f) * trial.std[b] for a, (b, f) in here.items() if b in trial.std}
    object.__setattr__(made, "std", {**trial.std, **own})
    return made


def _driven(places: Places) -> Change:
    def change(trials: Sequence[Experiment], known: Known) -> tuple[list[Experiment], Known]:
        return [
            trial.driven({a: _times(trial.signals[b], f) for a, (b, f) in places.items()})
            for trial in trials
        ], known

    return change


def _times(signal: Signal, factor: float) -> Signal:
    made = copy(signal)
    object.__setattr__(made, "coefficients", factor * signal.coefficients)
    return made


def _known(places: Places) -> Change:
    def change(trials: Sequence[Experiment], known: Known) -> tuple[list[Experiment], Known]:
        return list(trials), [
            {**row, **{a: f * row[b] for a, (b, f) in places.items()}} for row in known
        ]

    return change


def _reversed(trials: Sequence[Experiment], known: Known) -> tuple[list[Experiment], Known]:
    return [
        trial.remeasured({name: row[::-1] for name, row in trial.measurements.items()})
        for trial in trials
    ], known
