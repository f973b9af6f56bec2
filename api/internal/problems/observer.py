"""Observer for `homotopy="data"`: the model is tied to the measurements, and let go gradually.

Vyasarayani, Uchida, Carvalho, McPhee 2011, Multibody System Dynamics 26:411-424.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_choice
from kinesym.internal.problems.checked_trials import checked_trials
from kinesym.internal.problems.phases import Phases
from kinesym.internal.problems.plausible_units import kinematic_pairs
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.signals.timed import TimedSamples
from kinesym.runtime.summary import listed
from kinesym.symbolic.declared import Explicit
from kinesym.symbolic.derivation import exchanged
from kinesym.symbolic.homotopy import HOMOTOPY
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.problem import measured_expressions

#: Pole of the observer at the easy end, times the time between samples; the slower pole counts.
SHARE = 0.5
#: Pole of the observer at the easy end, times the time in which the measurement changes.
CHANGE = 1.5
#: Operations of a slope whose roots are looked for.
_SHORT = 20
#: Samples from which that is told, at most.
_MOST = 5000
#: Factor by which the pole falls from the easy end to the actual one, evenly, before zero.
FALL = 1000
#: Remaining share of the pole: 1 at the easy end, 0 at the actual one.
_LEFT = (FALL ** (1 - HOMOTOPY) - 1) / (FALL - 1)


class _Tie(NamedTuple):
    """A channel that shows one state: its name, the state, and measured minus modelled output, over
    the slope of the output, so that it is the output whose error has the pole."""

    name: str
    state: AppliedUndef
    off: sp.Expr

    @property
    def record(self) -> AppliedUndef:
        """The input that is what was measured."""
        return sp.Function(f"record_{self.name}")(t)

    @property
    def pole(self) -> AppliedUndef:
        """The input that is the pole at the easy end [1/s]."""
        return sp.Function(f"pole_{self.name}")(t)


@dataclass(frozen=True)
class Observer:
    """Observer of a record: a model whose rates are tied to inputs that are the measurements, by
    the homotopy parameter; at 1 it is the model itself."""

    model: Model
    ties: Sequence[_Tie]

    def driven(self, trials: Any) -> list[Experiment]:
        """Trials, or one, with these inputs."""
        given = checked_trials(self.model, trials)
        return [_driven(trial, self.ties) for trial in given]


def asked_observer(system: Any, trials: Any, homotopy: str | None, noisy: bool) -> Observer | None:
    """The observer if homotopy="data" asks for it; raises `ValueError` where there is none, and for
    another homotopy. noisy : whether there is process noise."""
    if homotopy is None:
        return None
    check_choice(homotopy, ("data",), "homotopy")
    if noisy:
        raise ValueError(
            'homotopy="data" is for models without process noise, which lets trajectories follow '
            "the record as it is; leave it out"
        )
    return observer(system, trials)


def observer(system: Any, trials: Any) -> Observer:
    """The observer of what trials measure; raises `ValueError` where there is none."""
    if not isinstance(system, Model) or isinstance(trials, Phases):
        raise ValueError(
            'homotopy="data" ties the rates of one model to the record; leave it out for phases '
            "and hybrid models"
        )
    given = checked_trials(system, trials)
    _check(system, given)
    return _observer(system, tuple(dict.fromkeys(n for trial in given for n in trial.measured)))


def _check(model: Model, trials: Sequence[Experiment]) -> None:
    """Raise `ValueError` for a problem that cannot be tied to its record."""
    if model.index.value is None or model.index.value > 1 or model.invariants:
        raise ValueError(
            f'homotopy="data" changes rates, which the constraints of model {model.name} bind; '
            "leave it out, or write ks.homotopy into an equation that may change"
        )
    for number, trial in enumerate(trials):
        if trial.free_duration:
            raise ValueError(
                f'homotopy="data" needs times of samples, but the duration of trial {number} is '
                "unknown; leave it out, or give the time of that trial"
            )


@lru_cache(maxsize=16)
def _observer(model: Model, measured: tuple[str, ...]) -> Observer:
    """Observer of a model, cached per model, so that its derivatives are found again."""
    ties = _ties(model, measured)
    pairs = {position: rate for rate, position in kinematic_pairs(model).items()}
    states = dict(zip(model.state_names, model.states, strict=True))
    rise: dict[AppliedUndef, sp.Expr] = dict.fromkeys(model.states, sp.S.Zero)
    for tie in ties:
        k, name = tie.pole * _LEFT, name_of(tie.state)
        rise[tie.state] += (2 if name in pairs else 1) * k * tie.off
        if name in pairs:
            rise[states[pairs[name]]] += k**2 * tie.off
    new = () if HOMOTOPY in model.parameters else (HOMOTOPY,)
    larger = model.extended(
        inputs=[u for tie in ties for u in (tie.record, tie.pole)], parameters=new
    )
    table = {x.diff(t): x.diff(t) - more for x, more in rise.items() if more != 0}
    form = model.explicit
    made = replace(
        larger,
        equations=[e.xreplace(table) for e in larger.equations],
        outputs={name: e.xreplace(table) for name, e in larger.outputs.items()},
        intermediates=exchanged(larger.intermediates, table),
        limits={name: e.xreplace(table) for name, e in larger.limits.items()},
        explicit=None,
    )
    if form is None:
        return Observer(made, ties)
    rates = [rate + rise[x] for x, rate in zip(model.states, form.rates, strict=True)]
    return Observer(made.solved_by(Explicit(form.intermediates, tuple(rates))), ties)


def _ties(model: Model, measured: Sequence[str]) -> tuple[_Tie, ...]:
    """Channels that show one state with a rate, one to one; raises `ValueError` if none does."""
    moving = {x for x in model.states if name_of(x) not in model.index.algebraic}
    found = []
    for name, shows in measured_expressions(model, measured).items():
        functions, others = shows.atoms(AppliedUndef), shows.free_symbols - {t}
        if len(functions) != 1 or not functions <= moving or shows.has(sp.Derivative):
            continue
        (x,) = functions
        slope = shows.diff(x)
        if others <= {*model.parameters} and _never_zero(slope, x):
            tie = _Tie(name, x, sp.S.Zero)
            found.append(tie._replace(off=(tie.record - shows) / slope))
    if not found:
        what = f"measured is {listed(measured)}" if measured else "nothing is measured"
        raise ValueError(
            f'homotopy="data" ties states of model {model.name} to measurements of them, but '
            f"{what}; measure a state, or an output that grows or falls with one"
        )
    return tuple(found)


def _never_zero(slope: sp.Expr, x: AppliedUndef) -> bool:
    """Whether a slope has no root in x; not known, as of long ones, is no."""
    if not slope.has(x):
        return True
    try:
        return slope.count_ops() <= _SHORT and not sp.solve(slope, x)
    except NotImplementedError:
        return False


def _driven(trial: Experiment, ties: Sequence[_Tie]) -> Experiment:
    """Trial with the inputs that tie it to its record."""
    signals = {}
    for tie in ties:
        own = trial.timed_samples(tie.name)
        pole = np.zeros(trial.n_nodes) if own is None else _poles(trial.grid, own)
        record = own.on(trial.grid) if pole.any() and own else pole
        signals[name_of(tie.record)] = Signal(trial.grid, record)
        signals[name_of(tie.pole)] = Signal(trial.grid, pole)
    return trial.driven(signals)


def _poles(grid: Array, own: TimedSamples) -> Array:
    """The pole at the nodes (N,) [1/s]: a share of one over the time between the samples around,
    or between nodes where these are farther apart; 0 before the first sample and after the last.

    It is as fast as noise lets it be, slow enough for the steps, and weak where samples are
    missing: over a gap of any length it acts as over the time between two samples.
    """
    times = own.shown
    if len(times) < 2:
        return np.zeros(len(grid))
    gaps, last = np.diff(times), len(times) - 2
    before = np.clip(np.searchsorted(times, grid, side="left") - 1, 0, last)
    after = np.clip(np.searchsorted(times, grid, side="right") - 1, 0, last)
    steps = np.diff(grid)
    beside = np.maximum(np.append(steps[0], steps), np.append(steps, steps[-1]))
    apart = np.maximum(np.maximum(gaps[before], gaps[after]), beside)
    inside = (grid >= times[0] - 1e-9 * gaps[0]) & (grid <= times[-1] + 1e-9 * gaps[-1])
    return np.where(inside, np.minimum(SHARE / apart, CHANGE / _change(own)), 0.0)


def _change(own: TimedSamples) -> float:
    """Time scale of a measurement [s]: the least lag at which the mean square of the difference is
    half of its value at long lags, without the part of noise (the nugget of a variogram, by which
    parabolas through two lags begin at zero)."""
    times, values = own.shown, own.values[own.present]
    even = np.linspace(times[0], times[-1], min(len(times), _MOST))
    y, last = np.interp(even, times, values), len(even) - 1

    def square(lag: int) -> float:
        return float(np.mean((y[lag:] - y[:-lag]) ** 2))

    noise = max(0.0, (4.0 * square(1) - square(2)) / 3.0) if last > 1 else 0.0
    half = 0.5 * noise + float(np.var(y))
    changed = (lag for lag in range(1, last) if square(lag) >= half)
    return float(even[next(changed, last)] - even[0])
