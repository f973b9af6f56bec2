"""Inputs over time: samples at times of their own, or exact pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import check_choice, positive, shown
from kinesym.base.notebook import Displayed
from kinesym.base.quiet import warn
from kinesym.runtime.arrays import Array, check_finite, check_span, increasing, located, real_array
from kinesym.runtime.native import HELD, LINEAR, PARABOLA

#: Rules of interpolation between samples.
BETWEEN = ("linear", "held", "cubic")
#: Breaks as close as this are one [s], relative to times beyond 1 s.
TOGETHER = 1e-12
#: Relative difference of the values on both sides of a break above which it is a jump [-].
_JUMP = 1e-12
#: Share of the range of a signal by which a parabola in each interval may miss it.
_COARSE = 0.01
#: Bends of signals in an interval of a grid up to which each gets a node.
_MOST_BENDS = 100
#: Why a cubic signal has no derivatives with respect to its pieces.
NO_BEGINS = "the pieces of a cubic signal follow from all of its samples; give ks.Signal.pieces"


class Signal(Displayed):
    """Signal: a quantity over time, with samples at times of its own, of any rate, and a rule
    between them.

    times : (B,), increasing [s]. values : (B,).
    between : "linear", straight lines; "held", each value until the next time, the last one for
        ever (the one before if it is NaN, as in solutions); "cubic", a spline with continuous
        second derivatives (ends not-a-knot, B >= 2).

    A signal that is linear or cubic is known from its first to its last time, a held one from its
    first. `signal(t)` are values at times (n,); at a jump those after it. `Signal.pieces` takes
    straight lines that may jump from one to the next. A linear signal that is measured may have
    missing samples, NaN or masked; an input may not.

    Raises `ValueError` for shapes, values that are not finite, and times that do not increase.
    """

    #: Pieces: begins (B,) [s], and coefficients (4, B) of 1, s, s^2, s^3 with s = t - begin.
    begin: Array
    coefficients: Array
    #: Rule between its begins, by its constructor: "linear", "held", "cubic", "pieces" or
    #: "parabolas".
    between: str
    #: Interval in which the signal is known (begin, end) [s].
    span: tuple[float, float]
    #: Rows of begins, values and slopes that hold expressions of parameters; () if all are numbers.
    expressions: Sequence[Sequence[Any]]
    #: Times [s] at which the value was NaN, a missing sample of a measurement.
    gaps: Array = np.empty(0)

    def __init__(self, times: ArrayLike, values: ArrayLike, between: str = "linear") -> None:
        check_choice(between, BETWEEN, "between of a signal")
        if between == "held":
            values = held_to_the_end(values)
        elif between == "linear":
            times, values, self.gaps = _without_gaps(times, values)
        at, row = increasing([times, values], ["times", "values"], "a signal")
        least = 1 if between == "held" else 2
        if len(at) < least:
            raise ValueError(f"a {between} signal needs {least} samples or more, got {len(at)}")
        coefficients = np.zeros((4, len(at)))
        coefficients[0] = row
        if between == "linear":
            coefficients[1, :-1] = np.diff(row) / np.diff(at)
        elif between == "cubic":
            coefficients[:, :-1] = scipy.interpolate.CubicSpline(at, row).c[::-1]
        self._put(at, coefficients, (at[0], np.inf if between == "held" else at[-1]), between)

    @classmethod
    def pieces(cls, begin: Sequence[Any] | Array, value: Any, slope: Any = None) -> Signal:
        """Straight lines value + slope (t - begin), each (B,), from each begin to the next.

        The first piece also serves before, the last one for ever. slope : 0 by default. Entries may
        be SymPy expressions of parameters, for a fit of where an input breaks, its levels or its
        slopes.

        Raises `ValueError` as `Signal`.
        """
        signal = cls.__new__(cls)
        rows = [begin, value, slope]
        if slope is None:
            rows[2] = [0.0] * len(value) if hasattr(value, "__len__") else 0.0
        if any(_symbolic(row) for row in rows):
            lengths = [len(row) if hasattr(row, "__len__") else 0 for row in rows]
            if min(lengths) < 1 or len(set(lengths)) > 1:
                raise ValueError(
                    "begins, values and slopes of a signal must be (B,), got lengths "
                    f"{', '.join(map(str, lengths))}"
                )
            signal.expressions = tuple(tuple(row) for row in rows)
            return signal
        at, level, rise = increasing(rows, ["begins", "values", "slopes"], "a signal")
        nothing = np.zeros(len(at))
        signal._put(at, np.array([level, rise, nothing, nothing]), (-np.inf, np.inf), "pieces")
        return signal

    @classmethod
    def _level(cls, begin: float, value: float) -> Signal:
        """Constant signal, as `pieces` of one level."""
        signal = cls.__new__(cls)
        coefficients = np.array([[value], [0.0], [0.0], [0.0]])
        signal._put(np.array([begin]), coefficients, (-np.inf, np.inf), "pieces")
        return signal

    @classmethod
    def parabolas(cls, time: ArrayLike, values: ArrayLike) -> Signal:
        """A parabola on each interval of `time` (N,) [s] through values at its ends and in the
        middle; values : (2 N - 1,), at the nodes and halfway.

        Raises `ValueError` as `Signal`.
        """
        at, row = real_array(time, "the times of a signal"), real_array(values, "its values")
        if at.ndim != 1 or len(at) < 2 or row.shape != (2 * len(at) - 1,):
            raise ValueError(
                f"a signal of parabolas needs (N,) times and (2 N - 1,) values, got {at.shape} and "
                f"{row.shape}"
            )
        at, _ = increasing([at, row[::2]], ["times", "values"], "a signal")
        increasing([np.arange(len(row)), row], ["times", "values"], "a signal")
        a, b, c, h = row[:-1:2], row[1::2], row[2::2], np.diff(at)
        coefficients = np.zeros((4, len(at)))
        coefficients[0] = row[::2]
        coefficients[1, :-1] = (4.0 * b - 3.0 * a - c) / h
        coefficients[2, :-1] = 2.0 * (a - 2.0 * b + c) / h**2
        signal = cls.__new__(cls)
        signal._put(at, coefficients, (at[0], at[-1]), "parabolas")
        return signal

    @classmethod
    def polynomials(cls, time: ArrayLike, coefficients: ArrayLike) -> Signal:
        """A polynomial on each interval of `time` (N,) [s], which may jump at nodes; coefficients :
        (k, N - 1) of 1, s, s^2, ... with s = t - begin of the interval, k <= 4.

        Raises `ValueError` as `Signal`.
        """
        at, rows = real_array(time, "the times of a signal"), real_array(coefficients, "its terms")
        if at.ndim != 1 or rows.ndim != 2 or not len(rows) <= 4 or rows.shape[1] != len(at) - 1:
            raise ValueError(
                f"a signal of polynomials needs (N,) times and (k, N - 1) terms with k <= 4, got "
                f"{at.shape} and {rows.shape}"
            )
        at, *_ = increasing([at, np.append(rows[0], 0.0)], ["times", "values"], "a signal")
        every = np.zeros((4, len(at)))
        every[: len(rows), :-1] = rows
        powers = (at[-1] - at[-2]) ** np.arange(len(rows))
        every[0, -1] = rows[:, -1] @ powers
        signal = cls.__new__(cls)
        signal._put(at, every, (at[0], at[-1]), "pieces")
        return signal

    @classmethod
    def of_parts(
        cls,
        begin: ArrayLike,
        coefficients: ArrayLike,
        span: Sequence[float],
        between: str,
        gaps: ArrayLike | None = None,
    ) -> Signal:
        """The signal that has these attributes, as one that was written had them. Raises
        `ValueError` as `Signal`."""
        kinds = (*BETWEEN, "pieces", "parabolas")
        check_choice(between, kinds, "between of a signal")
        names = ["begins", *(f"coefficients of s^{k}" for k in range(4))]
        at, *rows = increasing([begin, *np.asarray(coefficients)], names, "a signal")
        low, high = span
        signal = cls.__new__(cls)
        signal._put(at, np.array(rows), (low, high), between)
        if gaps is not None:
            signal.gaps = real_array(gaps, "the gaps of a signal")
        return signal

    def stretched(self, factor: float) -> Signal:
        """Signal stretched in time by `factor`. Raises `ValueError` if that is not positive."""
        factor = positive(factor, "the factor by which a signal is stretched")
        signal = type(self).__new__(type(self))
        powers = factor ** np.arange(4.0)[:, None]
        span = (self.span[0] * factor, self.span[1] * factor)
        signal._put(self.begin * factor, self.coefficients / powers, span, self.between)
        return signal

    def _put(
        self, begin: Array, coefficients: Array, span: tuple[float, float], between: str
    ) -> None:
        for array in (begin, coefficients):
            array.flags.writeable = False
        self.begin, self.coefficients = begin, coefficients
        self.span, self.expressions = (float(span[0]), float(span[1])), ()
        self.between = between

    def __repr__(self) -> str:
        if self.expressions:
            return f"<signal: {len(self.expressions[0])} pieces, which depend on parameters>"
        span = f"t = {self.begin[0]:g} ... {self.begin[-1]:g} s"
        return f"<signal: {self.between}, {len(self.begin)} breaks, {span}>"

    def __call__(self, time: ArrayLike) -> Array:
        """Values at times (n,) [s], at a jump those after it; raises `ValueError` for times at
        which it is not known."""
        at = real_array(time, "the times at which a signal is asked for")
        self.check_span(at, "the signal")
        return self.sided(at)

    @property
    def value(self) -> Array:
        """Value at the begin of each piece, (B,)."""
        return np.asarray(self.coefficients[0])

    @property
    def slope(self) -> Array:
        """Slope at the begin of each piece, (B,) [1/s]."""
        return np.asarray(self.coefficients[1])

    def check_span(self, time: Array, what: str) -> None:
        """Raise `ValueError`, naming `what`, unless it is known at all times and numbers only."""
        if self.expressions:
            entries = [entry for row in self.expressions for entry in row]
            first = next(entry for entry in entries if getattr(entry, "free_symbols", None))
            raise ValueError(
                f"{what} depends on parameters, {first}; only ks.Shooting of a system with events "
                "can find those, give numbers here"
            )
        check_span(time, self.span, what)

    def sided(self, time: Any, side: Any = 0.0) -> Array:
        """Values at times [s]. side : +1 for those just after breaks that are at these times but
        for rounding, -1 for those just before."""
        at = time + side * _slack(time, self.begin)
        k = np.maximum(np.searchsorted(self.begin, at, side="right") - 1, 0)
        a, b, c, d = self.coefficients[:, k]
        s = time - self.begin[k]
        return np.asarray(a + s * (b + s * (c + s * d)))

    def range(self, begin: float, end: float) -> tuple[float, float]:
        """Range: smallest and largest values between two times [s], exact for straight lines."""
        inside = self.begin[(self.begin > begin) & (self.begin < end)]
        ends = [np.append(begin, inside), np.append(inside, end)]
        values = np.concatenate([self.sided(ends[0], 1.0), self.sided(ends[1], -1.0)])
        return float(values.min()), float(values.max())

    def jumps(self, begin: float, end: float) -> Array:
        """Times between two [s] at which it jumps."""
        if self.between not in ("held", "pieces") or len(self.begin) < 2:
            return np.empty(0)
        at, slack = self.begin[1:], _slack(self.begin[1:], self.begin)
        powers = np.diff(self.begin) ** np.arange(4)[:, None]
        terms, after = self.coefficients[:, :-1] * powers, self.coefficients[0, 1:]
        apart = np.abs(terms.sum(axis=0) - after) > _JUMP * np.abs(terms).sum(axis=0)
        return np.asarray(at[apart & (at > begin + slack) & (at < end - slack)])

    @property
    def held(self) -> bool:
        """Whether it is given as constant from each of its times to the next; a line through equal
        values is none, so that how an integral is taken does not hang on them."""
        level = self.between in ("held", "pieces") and not self.coefficients[1].any()
        return level and len(self.begin) > 1

    def bends(self, begin: float, end: float) -> Array:
        """Times between two [s] at which one straight line goes on as another."""
        if self.between not in ("linear", "pieces") or self.coefficients[2:].any():
            return np.empty(0)
        at, slack, slope = self.begin[1:], _slack(self.begin[1:], self.begin), self.coefficients[1]
        size = np.abs(slope[1:]) + np.abs(slope[:-1])
        bent = np.abs(np.diff(slope)) > _JUMP * size
        return np.asarray(at[bent & (at > begin + slack) & (at < end - slack)])

    def warn_of_coarse(self, time: Array, what: str, stacklevel: int) -> None:
        """Warn if a parabola in each interval of a grid (N,) [s], which is what steps see of it, is
        off its samples by more than a small share of its range."""
        if self.between not in ("linear", "cubic") or np.array_equal(self.begin, time):
            return
        inside = self.begin[(self.begin > time[0]) & (self.begin < time[-1])]
        if not len(inside) or np.isin(inside, time).all():
            return
        node, share = located(time, inside)
        a, b, c = (self.parabolas_on(time)[3 * node + k] for k in range(3))
        seen = (1 - share) * (1 - 2 * share) * a + 4 * share * (1 - share) * b
        off = np.abs(seen + share * (2 * share - 1) * c - self.at_nodes(inside))
        low, high = self.range(float(time[0]), float(time[-1]))
        worst = int(np.argmax(off))
        if off[worst] > _COARSE * (high - low):
            warn(
                f"{what} changes between nodes by what steps do not see, at t = {inside[worst]:g} "
                f"s by {100.0 * off[worst] / (high - low):.2g} % of its range; give a finer grid, "
                "or filter it first",
                stacklevel=stacklevel + 1,
            )

    def within(self, time: Array, place: float) -> Array:
        """Values at a place, a share, of each interval of a grid (N,), (N - 1,)."""
        if self.between == "linear" and np.array_equal(self.begin, time):
            row = self.coefficients[0]
            return np.asarray((1.0 - place) * row[:-1] + place * row[1:])
        side = 1.0 if place == 0.0 else -1.0 if place == 1.0 else 0.0
        return self.sided((1.0 - place) * time[:-1] + place * time[1:], side)

    def at_nodes(self, time: Array) -> Array:
        """Values at the nodes (N,) of a grid, those after a jump there."""
        if np.array_equal(self.begin, time):
            return np.array(self.coefficients[0])
        return self.sided(time, 1.0)

    def sampled(self, time: Array) -> tuple[Array, int]:
        """Samples for a time-stepping loop on a grid (N,) that has a node at each jump, and their
        kind, `LINEAR`, `HELD` or `PARABOLA` (see `runtime.native`)."""
        if self.between == "linear" and np.array_equal(self.begin, time):
            return self.at_nodes(time), LINEAR  # the usual case, and long
        if len(self.begin) < 2 and not self.coefficients[1:].any():
            return np.full(len(time), self.coefficients[0, 0]), LINEAR
        own = self.jumps(time[0], time[-1]) if self.held else self.begin[1:]
        own = own[(own > time[0]) & (own < time[-1])]
        slack = _slack(own, time)
        node = np.searchsorted(time, own - slack)
        broken = bool((np.abs(time[node] - own) > slack).any())  # within an interval
        bent = bool(self.coefficients[2:].any())
        if self.held and not broken:
            return self.at_nodes(time), HELD
        if not (broken or bent or self.jumps(time[0], time[-1]).size):
            return self.at_nodes(time), LINEAR
        return self.parabolas_on(time), PARABOLA

    def parabolas_on(self, time: Array) -> Array:
        """Samples of the kind `PARABOLA` on a grid (N,), (3 N - 2,): at the begin of each interval,
        in its middle, at its end; then at the last node."""
        samples = np.empty(3 * len(time) - 2)
        samples[:-1:3] = self.sided(time[:-1], 1.0)
        samples[1::3] = self.sided(0.5 * (time[:-1] + time[1:]))
        samples[2::3] = self.sided(time[1:], -1.0)
        samples[-1] = self.sided(time[-1:], 1.0)[0]
        return samples


def with_jumps(time: Array, signals: Sequence[Signal]) -> tuple[Array, NDArray[np.intp]]:
    """A grid (N,) with one more node at each jump of signals, and where its own nodes are there."""
    return _with_nodes(time, [signal.jumps(time[0], time[-1]) for signal in signals])


def with_breaks(time: Array, signals: Sequence[Signal]) -> tuple[Array, NDArray[np.intp]]:
    """A grid (N,) with one more node at each jump of signals, and at each bend of those that do not
    bend very often, and where its own nodes are there."""
    others = [signal for signal in signals if not np.array_equal(signal.begin, time)]
    found = [signal.bends(time[0], time[-1]) for signal in others]
    within = np.searchsorted(time, np.unique(np.concatenate([np.empty(0), *found])))
    few = np.bincount(within).max(initial=0) <= _MOST_BENDS
    jumps = [signal.jumps(time[0], time[-1]) for signal in signals]
    return _with_nodes(time, [*jumps, *found] if few else jumps)


def _with_nodes(time: Array, found: Sequence[Array]) -> tuple[Array, NDArray[np.intp]]:
    """A grid with more nodes at times."""
    if not any(map(len, found)):
        return time, np.arange(len(time))
    jumps = np.unique(np.concatenate(found))
    slack = _slack(jumps, time)
    node = np.searchsorted(time, jumps - slack)
    jumps = jumps[np.abs(time[node] - jumps) > slack]
    jumps = jumps[np.append(True, np.diff(jumps) > _slack(jumps[1:], time))[: len(jumps)]]
    grid = np.union1d(time, jumps)
    return grid, np.searchsorted(grid, time)


def signal_of(given: Any, time: Array, what: str) -> Signal:
    """An input on a grid (N,) [s]: a number, samples (N,) with straight lines between, or a signal
    that is known there.

    Raises `ValueError`, naming `what`, for anything else.
    """
    if type(given) is float and isfinite(given):
        return Signal._level(float(time[0]), given)
    if not isinstance(given, Signal):
        if _symbolic([given]):
            return Signal.pieces([float(time[0])], [given])
        row = _finite_samples(given, time, what)
        return Signal(time, row) if row.ndim else Signal.pieces(time[:1], row[None])
    if len(given.gaps):
        raise ValueError(
            f"{what} is NaN at t = {given.gaps[0]:g} s: only measurements may have missing "
            "samples; leave them out, and straight lines are there"
        )
    if not given.expressions:  # these are known once the parameters are
        given.check_span(time, what)
    return given


def _finite_samples(given: Any, time: Array, what: str) -> Array:
    """A number or (N,) at the nodes; raises `ValueError`, naming `what`, for anything else."""
    expected = f"expected {len(time)} values, one per node, a number or a ks.Signal"
    if given is None or callable(given):
        raise ValueError(f"{what} is {shown(given)}, {expected}")
    row = real_array(given, what)
    if row.shape not in ((), time.shape):
        raise ValueError(f"{what} has {size_words(row)}, {expected}")
    check_finite(np.atleast_1d(row), what, time)
    return row


def size_words(array: Array) -> str:
    """The size of an array in a message."""
    return f"{len(array)} values" if array.ndim == 1 else f"shape {array.shape}"


def _symbolic(row: Any) -> bool:
    """Whether a sequence holds expressions of symbols."""
    return np.iterable(row) and any(getattr(entry, "free_symbols", None) for entry in row)


def _slack(time: Array, grid: Array) -> Array:
    """Tolerance within which times count as equal despite rounding, less than any step of a
    grid."""
    least = 1e-3 * float(np.diff(grid).min()) if len(grid) > 1 else np.inf
    return np.asarray(np.minimum(_rounding(time), least))


def _rounding(time: Array) -> Array:
    return np.asarray(TOGETHER * np.maximum(1.0, np.abs(time)))


@dataclass(frozen=True, eq=False)
class SignalGradient:
    """Derivatives with respect to begin, value and slope of each piece of a signal, (B,) each; or
    how these change with something. A piece moves with its begin, and keeps its curvature."""

    begin: Array
    value: Array
    slope: Array

    @classmethod
    def of_breaks(cls, signal: Signal, breaks: Array, value: Array, slope: Array) -> SignalGradient:
        """Gradient from derivatives with respect to break times, and to values and slopes at the
        times where pieces begin, of a signal that is not cubic."""
        _, b, c, _ = signal.coefficients
        return cls(breaks - b * value - 2.0 * c * slope, value, slope)

    def at_breaks(self, signal: Signal) -> tuple[Array, Array]:
        """Changes of values and slopes at the times where pieces begin before the change.

        Raises `ValueError` for begins of cubic pieces, which would change curvatures there.
        """
        _, b, c, d = signal.coefficients
        if (np.asarray(self.begin)[d != 0.0] != 0.0).any():
            raise ValueError(f"begins cannot change: {NO_BEGINS}")
        return self.value - b * self.begin, self.slope - 2.0 * c * self.begin

    def __add__(self, other: SignalGradient) -> SignalGradient:
        return SignalGradient(*(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Parts of the gradient: with respect to begins, values and slopes."""
        return self.begin, self.value, self.slope


@dataclass(frozen=True, eq=False)
class ParametricSignal:
    """A signal whose pieces are functions of parameters: their names; rows of begins, values and
    slopes; and by name of a parameter how these rows change with it."""

    names: Sequence[str]
    pieces: Callable[..., Any]
    slopes: Mapping[str, Callable[..., Any]]

    def at(self, values: Mapping[str, float]) -> Signal:
        """Signal for values of the parameters; raises `ValueError` for begins that do not
        increase."""
        return Signal.pieces(*self._rows(self.pieces, values))

    def by(self, name: str, values: Mapping[str, float]) -> SignalGradient:
        """Derivative of its pieces with respect to a parameter."""
        return SignalGradient(*self._rows(self.slopes[name], values))

    def _rows(self, function: Callable[..., Any], values: Mapping[str, float]) -> Array:
        with np.errstate(all="ignore"):  # a signal refuses what is not finite
            given = (np.float64(values[name]) for name in self.names)
            return np.array(function(*given), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments that several signals have in common.

    begin : (S + 1,), with the end [s]. coefficients : (4, m, S), of 1, s, s^2, s^3 with s = t -
    begin. piece : (m, S), of each signal on its own.
    """

    begin: Array
    coefficients: Array
    piece: NDArray[np.intp]


def segments(inputs: Mapping[str, Signal], begin: float, end: float) -> Segments:
    """Common segments of all inputs between two times [s]."""
    breaks = [signal.begin for signal in inputs.values()]
    times = np.concatenate([[begin], *breaks]) if breaks else np.array([begin])
    times = np.unique(times[(times >= begin) & (times < end)])
    keep = np.append(True, np.diff(times) > _rounding(times[1:]))
    times = times[keep]
    shape = (len(inputs), len(times))
    coefficients, pieces = np.empty((4, *shape)), np.empty(shape, dtype=np.intp)
    for row, signal in enumerate(inputs.values()):
        own = signal.begin
        slack = 2.0 * _rounding(times)
        k = np.maximum(np.searchsorted(own, times + slack, side="right") - 1, 0)
        begun = np.append(True, np.diff(k) != 0)
        first = np.maximum.accumulate(np.where(begun, np.arange(len(times)), 0))
        one = np.abs(times[first] - own[k]) <= slack  # begins that are together are one
        s = times - np.where(one, times[first], own[k])
        a, b, c, d = signal.coefficients[:, k]
        pieces[row] = k
        coefficients[:, row] = [
            a + s * (b + s * (c + s * d)),
            b + s * (2.0 * c + s * 3.0 * d),
            c + 3.0 * s * d,
            d,
        ]
    return Segments(np.append(times, end), coefficients, pieces)


def _without_gaps(times: Any, values: Any) -> tuple[Any, Any, Array]:
    """Times and values (B,) without missing samples, and the times of these."""
    row, at = real_array(values, "the values of a signal", missing=True), np.asarray(times)
    if row.ndim != 1 or not np.isnan(row).any() or at.shape != row.shape:
        return times, row, np.empty(0)
    if np.isnan(row).all():
        raise ValueError("a signal has no sample at all; leave it out")
    at = real_array(times, "the times of a signal")
    increasing([at], ["times"], "a signal")
    gone = np.isnan(row)
    return at[~gone], row[~gone], at[gone]


def held_to_the_end(values: Any) -> Any:
    """Values (N,) of a held input: NaN at the last node becomes the value before."""
    row = np.asarray(values)
    if row.ndim == 1 and len(row) > 1 and row.dtype.kind == "f" and np.isnan(row[-1]):
        return np.append(row[:-1], row[-2])
    return values
