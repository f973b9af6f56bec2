"""Trials: time grid, known signals, measurements."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import check_identifier, check_text, count, mapping, shown
from kinesym.base.notebook import html_table
from kinesym.runtime.arrays import (
    LONGEST,
    SHORTEST,
    Array,
    check_finite,
    one_number,
    real_array,
    seconds,
    time_grid,
)
from kinesym.runtime.native import HELD
from kinesym.runtime.signals.censored import Censored, Range, apart
from kinesym.runtime.signals.corridor import Corridor, corridors
from kinesym.runtime.signals.history import history_of
from kinesym.runtime.signals.named import by_name
from kinesym.runtime.signals.named import key_name as key_name
from kinesym.runtime.signals.signal import Signal, signal_of, size_words
from kinesym.runtime.signals.steady import Steady
from kinesym.runtime.signals.timed import TimedSamples, with_times
from kinesym.runtime.summary import listed

#: More are no grid of a problem that can be solved; beyond, the grid alone would fill the memory.
MOST_NODES = 10**8

#: The label that every trial has: its number.
TRIAL = "trial"

#: Ratio of a step to the usual one above which it looks like a gap [-].
_LEAP = 10.0
#: Share of the duration within which a jump is at a node [-].
_TOGETHER = 1e-9
#: Largest share of such steps for them to look like gaps [-].
_FEW = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """Experiment: the inputs and measurements of one trial.

    Parameters
    ----------
    time : (N,) increasing instants [s], not necessarily uniform; or time spans, or dates, which
        count from the first one. With an unknown duration its shares, 0 ... 1, or left out for
        equal ones.
    inputs : known ones by symbol or name, each a number, (N,) with straight lines between the
        nodes, or a `Signal` at times of its own; with an unknown duration, over 0 ... 1 of it.
    measurements : measured states, inputs or outputs, each (N,), or a `Signal` with K samples at
        times of its own, off the grid and at any rate; NaN marks a missing sample, and so does the
        mask of a masked array. `ks.censored(values, below=0.1)` are samples with a limit.
    std : standard deviation of each measurement, a number, or one per sample, (N,) or (K,); or an
        expression of states, inputs, parameters and t, such as std={y: a + b*y}, in which outputs
        are symbols of their names, and other symbols parameters, known or unknown. One that is not
        given is unknown and estimated; channels with the same text, std={a: "imu", b: "imu"},
        share one.
    nodes, duration : number of nodes N and the bounds [s] (low, high) of an unknown duration.
    parameters : values of the model's parameters in this trial, such as the mass of its subject, in
        place of those of the problem: numbers, or expressions of parameters, known or unknown,
        which the model need not have, {k: 2*k_0}. Symbols have the values that they have in this
        trial; that of the parameter itself its value outside of it, {k: k/2}. For `Collocation` all
        trials have the same expressions, {k: dose*k_0}, not of the parameter itself.
    labels : its subject, session or the like, such as {"subject": "s03"}, for `ks.per`.
    bounds : of states and unknown inputs in this trial, (low, high), which may change over time:
        each side a number, None, (N,) with straight lines between the nodes, a `Signal` or a
        function of times (n,); with an unknown duration, over 0 ... 1 of it. For `Collocation`,
        beside those for all trials.
    history : states and inputs with a delay before the start, each a number, or a `Signal` whose
        times go back as far as the delay does and on to the start, which is 0 s with an unknown
        duration; None or bounds (low, high) if it is unknown, for `Collocation`. Signals without a
        history keep their value at the start; an input that is a `Signal` from before the start is
        its own history.
    before : the steady state in which the record begins, `ks.steady(...)`, for `Shooting`; None
        begins where the problem says.

    `signals` are the inputs as signals, and `inputs` their values at the nodes, (N,) each; those
    whose pieces depend on parameters have none. `parameters` are the numbers among these,
    `parameter_expressions` the others. `held` names inputs that are constant between nodes
    (zero-order hold). `measurements` keeps measurements at the nodes, `timed` those at times of
    their own, `measured` has the values of both. `std` has the known ones, `unknown_std` for the
    other measurements the group that shares a standard deviation: the text given, else their own
    name; `std_expressions` those that are expressions; `limits` channels of censored samples, with
    the measurement and the side, -1 below and 1 above the limit, and `ranges` the limits of all
    samples of these measurements; `estimated_std` the groups of
    those that `with_std` was told. Warns of single long steps among short ones between
    measurements, which look like rows left out. Raises `ValueError` naming the array, what was
    expected and what was given.
    """

    time: ArrayLike | None = None
    inputs: Mapping[Any, Any] = field(default_factory=dict)
    measurements: Mapping[Any, Any] = field(default_factory=dict)
    std: Mapping[Any, Any] = field(default_factory=dict)
    nodes: int | None = None
    duration: tuple[float, float] | None = None
    parameters: Mapping[Any, Any] = field(default_factory=dict)
    labels: Mapping[str, str | int] = field(default_factory=dict)
    bounds: Mapping[Any, Any] = field(default_factory=dict)
    history: Mapping[Any, Any] = field(default_factory=dict)
    before: Steady | None = None
    parameter_expressions: Mapping[str, Any] = field(init=False)
    signals: Mapping[str, Signal] = field(init=False)
    held: frozenset[str] = field(init=False)
    timed: Mapping[str, TimedSamples] = field(init=False)
    unknown_std: Mapping[str, str] = field(init=False)
    std_expressions: Mapping[str, Any] = field(init=False)
    limits: Mapping[str, tuple[str, int]] = field(init=False)
    ranges: Mapping[str, Range] = field(init=False)
    estimated_std: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "time", self._grid())
        put(self, "signals", self._signals())
        known = {
            name: s.sampled(self.grid) for name, s in self.signals.items() if not s.expressions
        }
        put(self, "held", frozenset(name for name, (_, kind) in known.items() if kind == HELD))
        nodes = {name: s.at_nodes(self.grid) for name, s in self.signals.items() if name in known}
        put(self, "inputs", nodes)
        given = by_name("measurements", self.measurements)
        found, limits = apart(given)
        put(self, "limits", limits)
        hidden = {name: own for name, own in given.items() if isinstance(own, Censored)}
        what = "measurement {}".format
        put(self, "ranges", {n: own.range(self.grid, what(n)) for n, own in hidden.items()})
        own = {k: y for k, y in found.items() if isinstance(y, Signal | TimedSamples)}
        put(self, "measurements", self._measured({k: found[k] for k in found if k not in own}))
        put(self, "timed", {k: self._with_times(k, y) for k, y in own.items()})
        deviations = self._given_std()
        told = {name: deviations.get(name, name) for name in self.measured}
        put(self, "unknown_std", {n: group for n, group in told.items() if isinstance(group, str)})
        moving = {n: e for n, e in told.items() if getattr(e, "free_symbols", None)}
        put(self, "std_expressions", moving)
        put(self, "std", self._deviations(deviations))
        values = by_name("parameters", self.parameters)
        moving = {p: e for p, e in values.items() if getattr(e, "free_symbols", None)}
        put(self, "parameter_expressions", moving)
        numbers = {p: value for p, value in values.items() if p not in moving}
        put(self, "parameters", _numbers("parameters", numbers))
        if not isinstance(self.before, Steady | None):
            raise ValueError(f"before must be ks.steady(...) or None, got {shown(self.before)}")
        put(self, "labels", _labels(self.labels))
        put(self, "bounds", self._corridors(self.bounds))
        put(self, "history", history_of(by_name("history", self.history), float(self.grid[0])))
        self._warn_of_leaps()

    def __repr__(self) -> str:
        low, high = self.duration or (self.grid[0], self.grid[-1])
        span = f"{'duration' if self.duration else 't ='} {low:g} ... {high:g} s"
        return (
            f"<experiment: inputs {listed(self.signals) or '-'}; measured "
            f"{listed(self.measured) or '-'}; {self.n_nodes} nodes, {span}>"
        )

    def _repr_html_(self) -> str:
        """A table of inputs and measurements for a notebook."""
        rows = [
            (name, "input", "held" if name in self.held else "linear", "") for name in self.signals
        ]
        rows += [
            (
                name,
                "measured",
                f"{int(np.isfinite(y).sum())} samples",
                self._words_of_std(name),
            )
            for name, y in self.measured.items()
        ]
        return html_table(repr(self)[1:-1], rows, ("name", "kind", "between nodes", "std (median)"))

    def _words_of_std(self, name: str) -> str:
        if name in self.std:
            return f"{float(np.median(self.std[name])):.4g}"
        return str(self.std_expressions.get(name, "estimated"))

    @property
    def grid(self) -> Array:
        """The time grid, (N,); relative to the duration (0 ... 1) if that is unknown."""
        return np.asarray(self.time)

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return len(self.grid)

    @property
    def free_duration(self) -> bool:
        """Whether the duration is unknown."""
        return self.duration is not None

    @property
    def measured(self) -> dict[str, Array]:
        """Samples of each measurement, (N,) or (K,), NaN where missing."""
        return {**self.measurements, **{n: own.values for n, own in self.timed.items()}}

    def divisor(self, name: str) -> Array:
        """Divisors of the residuals of a measurement in the objective, (N,) or (K,): its standard
        deviation, 1 where that is unknown or an expression."""
        known = self.std.get(name)
        return np.ones(len(self.measured[name])) if known is None else known

    @property
    def set_parameters(self) -> dict[str, Any]:
        """Parameters that this trial sets, to numbers and expressions."""
        return {**self.parameters, **self.parameter_expressions}

    @property
    def named_std(self) -> dict[str, Any]:
        """Standard deviations as they were given, of those that are no numbers: groups and
        expressions."""
        return {**self.unknown_std, **self.std_expressions}

    @property
    def std_outputs(self) -> dict[str, str]:
        """Names of the outputs of the model that are standard deviations, by measurement; censored
        samples share that of the others."""
        pairs = ((name, self.limits.get(name, (name, 0))[0]) for name in self.std_expressions)
        return {name: f"{of}_std" for name, of in pairs}

    def timed_samples(self, name: str) -> TimedSamples | None:
        """Samples of a measurement with their times; None if it is not measured."""
        row = self.measurements.get(name)
        return self.timed.get(name) if row is None else TimedSamples(self.grid, row)

    def course_of(self, name: str) -> Array:
        """Straight lines through the samples of a measurement, at the nodes, (N,)."""
        own = self.timed_samples(name)
        assert own is not None
        return own.on(self.grid)

    def with_std(self, found: Mapping[str, float]) -> Experiment:
        """Copy with standard deviations of groups for measurements whose std is unknown."""
        made = copy(self)
        measured = self.measured
        own = {n: np.full(len(measured[n]), found[k]) for n, k in self.unknown_std.items()}
        std = {**self.std, **own}
        object.__setattr__(made, "std", {name: std[name] for name in measured if name in std})
        object.__setattr__(made, "estimated_std", {**self.estimated_std, **self.unknown_std})
        object.__setattr__(made, "unknown_std", {})
        return made

    def without_expressions(self) -> Experiment:
        """Copy that sets no parameter to an expression."""
        made = copy(self)
        object.__setattr__(made, "parameter_expressions", {})
        return made

    def with_limits(
        self, limits: Mapping[str, tuple[str, int]], ranges: Mapping[str, Range]
    ) -> Experiment:
        """Copy in which these channels are of censored samples, see `limits` and `ranges`."""
        made = copy(self)
        object.__setattr__(made, "limits", limits)
        object.__setattr__(made, "ranges", ranges)
        return made

    def without_estimated_std(self) -> Experiment:
        """Copy before `with_std`."""
        made = copy(self)
        std = {name: row for name, row in self.std.items() if name not in self.estimated_std}
        object.__setattr__(made, "std", std)
        object.__setattr__(made, "unknown_std", {**self.unknown_std, **self.estimated_std})
        object.__setattr__(made, "estimated_std", {})
        return made

    def begun(self, share: float, least: int) -> Experiment:
        """Copy truncated to where each channel has this share of its samples, and all together have
        at least `least` if available; later samples get an infinite standard deviation. Standard
        deviations must be known."""
        rows = {name: own for name in self.measured if (own := self.timed_samples(name))}
        found, last = [own.times[own.present] for own in rows.values()], -np.inf
        for times in found:
            count = max(int(share * len(times)), -(-least // len(found)))
            last = max(last, *times[:count][-1:])
        std = {n: np.where(own.times > last, np.inf, self.std[n]) for n, own in rows.items()}
        made = copy(self)
        object.__setattr__(made, "std", std)
        return made

    def on_grid(self, grid: ArrayLike) -> Experiment:
        """Copy on another grid (N,), which contains all nodes with a measurement.

        Inputs follow their signals; measurements are missing at other nodes, those at times of
        their own stay. With an unknown duration the grid goes from 0 to 1. Raises `ValueError` if a
        measurement would be lost.
        """
        fine = real_array(grid, "a grid")
        place = np.searchsorted(fine, self.grid)
        there = np.isin(self.grid, fine)
        measurements: dict[str, Any] = {}
        std: dict[str, Any] = self.named_std
        for name, row in self.measurements.items():
            lost = np.flatnonzero(np.isfinite(row) & ~there)
            if len(lost):
                raise ValueError(
                    f"measurement {name} at t = {self.grid[lost[0]]:g} s is at no node of the grid"
                )
            measurements[name] = np.full(len(fine), np.nan)
            measurements[name][place[there]] = row[there]
            if name in self.std:
                own = np.interp(fine, self.grid, self.std[name])
                std[name] = np.where(np.isnan(own), np.inf, own)  # beside samples that tell nothing
                std[name][place[there]] = self.std[name][there]
        measurements |= self.timed
        std |= {name: self.std[name] for name in self.timed if name in self.std}
        more: dict[str, Any] = {"duration": self.duration} if self.free_duration else {}
        told = {n: y for n, y in measurements.items() if n not in self._silent}
        own_std = {n: s for n, s in std.items() if n not in self._silent}
        made = Experiment(fine, self.signals, told, own_std, **self.beside, **more)
        return made._with_silent(self, measurements, std).with_limits(self.limits, self.ranges)

    @property
    def _silent(self) -> set[str]:
        """Channels of which all samples, or the standard deviations of some, have been taken away:
        none that could be given."""
        return {
            name
            for name, row in self.measured.items()
            if np.isnan(row).all() or not np.isfinite(self.std.get(name, 1.0)).all()
        }

    def _with_silent(
        self, whole: Experiment, measurements: Mapping[str, Any], std: Mapping[str, Any]
    ) -> Experiment:
        """Copy with the silent channels of a whole one, of these measurements and std, too."""
        if not whole._silent:
            return self
        made = copy(self)
        rows = {name: measurements[name] for name in whole.measurements}
        numbers = {name: std[name] for name in whole.std}
        for what, own in (
            ("measurements", rows),
            ("timed", whole.timed),
            ("std", numbers),
            ("unknown_std", whole.unknown_std),
            ("std_expressions", whole.std_expressions),
        ):
            object.__setattr__(made, what, own)
        return made

    @property
    def beside(self) -> dict[str, Any]:
        """Arguments that do not depend on the grid."""
        return {
            "parameters": self.set_parameters,
            "labels": self.labels,
            "bounds": self.bounds,
            "history": self.history,
            "before": self.before,
        }

    def with_nodes_at_samples(self, but: Collection[str] = ()) -> Experiment:
        """Copy with further nodes, so that all measurements lie at nodes, except those in `but`."""
        timed = {name: own for name, own in self.timed.items() if name not in but}
        if not timed:
            return self
        times = [own.shown for own in timed.values()]
        grid = with_times(self.grid, np.concatenate(times))
        found = self.on_grid(grid)
        left = {name: own for name, own in found.timed.items() if name not in timed}
        rows: dict[str, Any] = {**found.measurements, **left}
        std = {**found.named_std, **found.std}
        for (name, own), at in zip(timed.items(), times, strict=True):
            k = np.clip(np.searchsorted(grid, at), 1, len(grid) - 1)
            k -= at - grid[k - 1] < grid[k] - at
            rows[name] = np.full(len(grid), np.nan)
            rows[name][k] = own.values[own.present]
            if name in self.std:
                std[name] = np.full(len(grid), np.median(self.std[name]))
                std[name][k] = self.std[name][own.present]
        made = Experiment(grid, self.signals, rows, std, **self.beside)
        return made.with_limits(self.limits, self.ranges)

    def remeasured(self, samples: Mapping[str, Array]) -> Experiment:
        """Copy with other samples of the measurements, NaN where missing: (N,) or (K,), or as many
        as there are."""
        made, timed, rows = copy(self), dict(self.timed), dict(self.measurements)
        for name, row in samples.items():
            values = self.measured[name].copy()
            values[slice(None) if len(row) == len(values) else ~np.isnan(values)] = row
            if name in timed:
                timed[name] = replace(timed[name], values=values)
            else:
                rows[name] = values
        object.__setattr__(made, "measurements", rows)
        object.__setattr__(made, "timed", timed)
        return made

    def with_samples(self, samples: Mapping[str, TimedSamples]) -> Experiment:
        """Copy with samples at times of their own in place of measurements, as many."""
        made = copy(self)
        rows = {n: y for n, y in self.measurements.items() if n not in samples}
        object.__setattr__(made, "measurements", rows)
        object.__setattr__(made, "timed", {**self.timed, **samples})
        return made

    def with_more(self, values: Mapping[str, float], levels: Mapping[str, float]) -> Experiment:
        """Copy with values of further parameters, and levels of further inputs."""
        made = copy(self)
        object.__setattr__(made, "parameters", {**self.parameters, **values})
        for what, own in (("signals", made.signals), ("inputs", made.inputs)):
            more = {u: signal_of(float(level), self.grid, u) for u, level in levels.items()}
            rows = {u: signal.at_nodes(self.grid) for u, signal in more.items()}
            object.__setattr__(made, what, {**own, **(more if what == "signals" else rows)})
        return made

    def driven(self, signals: Mapping[str, Signal]) -> Experiment:
        """Copy driven by other signals, in place of inputs of these names or beside them."""
        made = copy(self)
        rows = {u: signal.at_nodes(self.grid) for u, signal in signals.items()}
        held = {u for u, signal in signals.items() if signal.sampled(self.grid)[1] == HELD}
        object.__setattr__(made, "held", frozenset((self.held - signals.keys()) | held))
        object.__setattr__(made, "signals", {**self.signals, **signals})
        object.__setattr__(made, "inputs", {**self.inputs, **rows})
        return made

    def bounded(self, more: Mapping[str, Any]) -> Experiment:
        """Copy with further bounds of states and unknown inputs, beside its own."""
        made, own = copy(self), dict(self.bounds)
        for name, rows in self._corridors(more).items():
            own[name] = (*own.get(name, ()), *rows)
        object.__setattr__(made, "bounds", own)
        return made

    def refined(self, parts: int) -> Experiment:
        """Refined copy: every interval of the grid is cut into `parts` equal ones.

        Inputs follow their signals, measurements are missing at new nodes.
        """
        if parts == 1:
            return self
        place = np.arange((self.n_nodes - 1) * parts + 1) / parts
        return self.on_grid(np.interp(place, np.arange(self.n_nodes), self.grid))

    def _grid(self) -> Array:
        if self.time is None and self.duration is None:
            raise ValueError("give either time=..., or nodes=... with duration=(low, high)")
        if self.duration is not None:
            return self._relative_grid(self.duration)
        assert self.time is not None
        time = time_grid(self.time)
        if self.nodes not in (None, time.size):
            raise ValueError(f"time has {time.size} nodes, not {self.nodes}; omit nodes")
        return time

    def _relative_grid(self, duration: Any) -> Array:
        shares = None if self.time is None else time_grid(self.time)
        if shares is not None and (shares[0] != 0.0 or shares[-1] != 1.0):
            raise ValueError(
                "with an unknown duration the time goes from 0 to 1, its shares, got "
                f"{shares[0]:g} ... {shares[-1]:g}"
            )
        if self.nodes is None and shares is None:
            raise ValueError("an unknown duration needs nodes=... of at least 2, got None")
        nodes = len(shares) if shares is not None else 0
        if self.nodes is not None:
            nodes = count(self.nodes, "nodes", least=2, most=MOST_NODES)
        if shares is not None and nodes != len(shares):
            raise ValueError(f"time has {len(shares)} nodes, not {nodes}; omit nodes")
        bounds = seconds(duration, "duration")
        low, high = bounds if bounds.shape == (2,) else (np.nan, np.nan)
        if not SHORTEST < low <= high < LONGEST:
            raise ValueError(
                f"duration must be (low, high) with 0 < low <= high, both finite, got {duration}"
            )
        object.__setattr__(self, "duration", (float(low), float(high)))
        return np.linspace(0.0, 1.0, nodes) if shares is None else shares

    def jumps(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Nodes (N,) at which one of these inputs jumps, the last one too."""
        times = [self.signals[name].jumps(self.grid[0], np.inf) for name in names]
        off = np.abs(self.grid[:, None] - np.concatenate([*times, [np.inf]])).min(axis=1)
        return np.asarray(off <= _TOGETHER * (self.grid[-1] - self.grid[0]))

    def _signals(self) -> dict[str, Signal]:
        given = by_name("inputs", self.inputs)
        return {name: signal_of(x, self.grid, f"input {name}") for name, x in given.items()}

    def _corridors(self, bounds: Any) -> dict[str, tuple[Corridor, ...]]:
        given = by_name("bounds", bounds)
        return {name: corridors(name, pair, self.grid) for name, pair in given.items()}

    def _with_times(self, name: str, given: Signal | TimedSamples) -> TimedSamples:
        what = f"measurement {name}"
        own = given if isinstance(given, TimedSamples) else TimedSamples.of(given, what)
        own.check_within(self.grid, what)
        return own

    def _measured(self, given: Mapping[str, Any]) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for name, values in given.items():
            array = real_array(values, f"measurement {name}", missing=True)
            if array.shape != (self.n_nodes,):
                raise ValueError(
                    f"measurement {name} has {size_words(array)}, expected {self.n_nodes}, "
                    "one per node; samples at other times are a ks.Signal(times, values)"
                )
            check_finite(np.where(np.isnan(array), 0.0, array), f"measurement {name}", self.grid)
            if np.isnan(array).all():
                raise ValueError(f"measurement {name} has no sample at all; leave it out")
            found[name] = array
        return found

    def _given_std(self) -> dict[str, Any]:
        """Standard deviations as given, by name of the measurement: the name of a group, or
        numbers."""
        given = by_name("std", self.std)
        for channel, (name, _) in self.limits.items():
            if not isinstance(given.get(name, ""), str):
                given[channel] = given[name]
                continue
            raise ValueError(
                f"measurement {name} has censored samples, and an unknown std, which limits do not "
                f"tell; give std={{{name!r}: ...}}, a number or an expression such as a "
                "sympy.Symbol, which is a parameter"
            )
        hidden = {name for name, _ in self.limits.values()} - self.measured.keys()
        given = {name: value for name, value in given.items() if name not in hidden}
        for name, value in given.items():
            if name not in self.measured:
                there = ", ".join(self.measured) or "nothing"
                raise ValueError(
                    f"std of {name}, which is not measured in this experiment; measured is {there}"
                )
            if isinstance(value, str) and not _is_name(value):
                text = f"the text {value!r}" if value.strip() else "an empty text"
                raise ValueError(
                    f"std of {name} is {text}; give numbers, or the name of a group of "
                    "measurements that share one which is to be estimated"
                )
        return given

    def _deviations(self, given: Mapping[str, Any]) -> dict[str, Array]:
        """Standard deviations, (N,) or (K,), of the measurements given with numbers."""
        deviations = {}
        for name, samples in self.measured.items():
            if name in self.unknown_std or name in self.std_expressions:
                continue
            if given[name] is None or isinstance(given[name], bool):
                raise ValueError(
                    f"std of {name} must be numbers, got {given[name]}; leave it out to have it "
                    "estimated"
                )
            value = real_array(given[name], f"std of {name}")
            if value.shape not in ((), samples.shape):
                raise ValueError(
                    f"std of {name} has {size_words(value)}, expected 1 or {len(samples)}"
                )
            lost = np.isnan(samples) & np.isnan(value)
            if lost.any() and not lost.all():  # as tables have both or none
                value = np.where(lost, np.nanmedian(value), value)
            with np.errstate(all="ignore"):
                weight = value**-2.0
            odd = ~((value > 0.0) & (weight > 0.0) & (weight < np.inf))
            if odd.any():
                k = int(np.argmax(odd))
                where = f" at index {k}" if value.ndim else ""
                raise ValueError(
                    f"std of {name} must be positive and finite, got {np.atleast_1d(value)[k]:g}"
                    f"{where}; to leave a sample out, make its measurement NaN"
                )
            deviations[name] = np.broadcast_to(value, samples.shape).astype(np.float64)
        return deviations

    def _warn_of_leaps(self) -> None:
        """Warn of rows left out of a record: a model that is stepped across the gap is wrong.

        Grids that are refined or stretched on purpose have no single long steps among equal ones.
        """
        steps = np.diff(self.grid)
        usual = float(np.median(steps))
        long = steps > _LEAP * usual
        beside = np.concatenate([[False], long, [False]])
        alone = long & ~beside[:-2] & ~beside[2:]
        even = np.mean(np.abs(steps - usual) < 0.5 * usual)
        if len(steps) < 30 or even < 0.75 or long.mean() > _FEW:
            return
        for name, row in self.measurements.items():
            here = np.flatnonzero(alone & ~np.isnan(row[:-1]) & ~np.isnan(row[1:]))
            if len(here):
                k = int(here[0])
                more = f" ({len(here)} such steps)" if len(here) > 1 else ""
                warnings.warn(
                    f"time leaps from {self.grid[k]:g} to {self.grid[k + 1]:g} s among steps of "
                    f"{usual:.4g} s{more}, and {name} is measured at both ends: one step is too "
                    "coarse there. If samples were left out (dropna), keep their rows, with NaN in "
                    "the measurements, or give an even time, and samples as ks.Signal(times, "
                    "values); or make two experiments",
                    stacklevel=4,
                )
                return


def _numbers(what: str, given: Any) -> dict[str, float]:
    """Finite numbers by name."""
    return {
        name: one_number(value, f"{what}: {name}") for name, value in by_name(what, given).items()
    }


def _is_name(text: str) -> bool:
    """Whether a text is neither empty nor a number."""
    try:
        float(text)
    except ValueError:
        return bool(text.strip())
    return False


def _labels(given: Any) -> dict[str, str]:
    """Labels with their texts; raises `ValueError` for values that are neither text nor whole
    numbers."""
    found: dict[str, str] = {}
    for label, value in mapping(given, "labels", "{label: name}").items():
        check_identifier(label, "a label of an experiment")
        if label == TRIAL:
            raise ValueError(
                "the label trial is the number of the experiment itself; call yours something else"
            )
        text = str(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
        check_text(text, f"the label {label}")
        found[label] = text
    return found
