"""Pulses and steps of time that are smooth: where they are, and how wide, which steps that choose
their length pass unseen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t, written
from kinesym.symbolic.table import NumericFunction

Array = NDArray[np.float64]

#: Functions that change where their argument is zero, over one unit of it.
_STEPS = (sp.tanh, sp.erf, sp.erfc, sp.atan, sp.sech, sp.cosh)
#: Functions whose values repeat.
_PERIODIC = (sp.sin, sp.cos, sp.tan, sp.Mod)
#: Operations of an expression in a message.
_SHOWN = 40
#: Samples of a period in which the places of a train are looked for.
_SAMPLES = 4096


@dataclass(frozen=True)
class Pulse:
    """An expression of time and parameters that changes near one time. place : a straight line of
    time, by parameters, zero at its middle and 1 after one width. part : the expression."""

    place: sp.Expr
    part: sp.Expr


@dataclass(frozen=True)
class Train:
    """A pulse or step of time that repeats. course : an expression of time and parameters, with a
    peak, or for steps a zero, where it is; period : of it, by parameters; part : see `Pulse`."""

    course: sp.Expr
    peaks: bool
    period: sp.Expr
    part: sp.Expr

    def in_period(self, times: Array, course: Array) -> tuple[Array, Array]:
        """Times in a period, at whose samples (K,) the course is known, and widths of the pulses or
        steps there."""
        h, c = times[1] - times[0], course
        if self.peaks:
            slope, curve = (c[2:] - c[:-2]) / (2.0 * h), (c[2:] - 2.0 * c[1:-1] + c[:-2]) / h**2
            there = (c[1:-1] >= c[:-2]) & (c[1:-1] > c[2:])
            slope, curve = slope[there], curve[there]
            return times[1:-1][there] - slope / curve, 1.0 / np.sqrt(2.0 * np.abs(curve))
        there = np.sign(c[:-1]) * np.sign(c[1:]) < 0.0
        slope = np.diff(c)[there] / h
        return times[:-1][there] - c[:-1][there] / slope, 1.0 / np.abs(slope)


@dataclass(frozen=True, eq=False)
class Pulsed:
    """A model with one further input, `name`, that no equation has: where it jumps, steps end.
    `places` (pulses,), and of `trains` courses and periods in turn, at times and parameters."""

    model: Model
    pulses: tuple[Pulse, ...]
    trains: tuple[Train, ...]
    name: str
    places: NumericFunction
    courses: NumericFunction

    def at(self, times: Array, parameters: Mapping[str, Array]) -> Array:
        """Distance of times (N,) from the middle of each pulse, in widths, (pulses, times,
        members); parameters : numbers, or of members, by name."""
        values = [parameters[name_of(p)] for p in self.model.parameters]
        size = np.broadcast_shapes((len(times), 1), *(value.shape for value in values))
        with np.errstate(all="ignore"):
            rows = self.places(times[:, None], *values)
        found = np.empty((len(rows), *size))
        for own, row in zip(found, rows, strict=True):
            own[:] = row
        return found

    @property
    def said(self) -> str:
        """Expression of the first pulse as messages show it."""
        part = self.pulses[0].part if self.pulses else self.trains[0].part
        return written(part, _SHOWN)

    def places_of_trains(
        self, begin: float, parameters: Mapping[str, float]
    ) -> list[tuple[Array, Array, float]]:
        """Times of the pulses of each train in its first period, their widths, and the period;
        parameters : numbers."""
        values = [parameters[name_of(p)] for p in self.model.parameters]
        found = []
        for k, train in enumerate(self.trains):
            with np.errstate(all="ignore"):
                period = float(np.asarray(self.courses(begin, *values)[2 * k + 1]))
                times = begin + period * np.linspace(0.0, 1.0 + 2.0 / _SAMPLES, _SAMPLES + 3)
                row = np.broadcast_to(self.courses(times, *values)[2 * k], times.shape)
                at, width = train.in_period(times, row)
            known = np.isfinite(at) & np.isfinite(width) & (width > 0.0)
            found.append((at[known], width[known], period))
        return found


@lru_cache(maxsize=32)
def pulsed(model: Model) -> Pulsed | None:
    """The model with an input that may end steps at its pulses; None if it has none."""
    found, trains = pulses_of(model), trains_of(model)
    if not (found or trains):
        return None
    taken = {name_of(symbol) for symbol in model.symbols}
    name = next(n for n in (f"pulse_{k}" for k in count()) if n not in taken)
    late = {delay.symbol for delay in model.delays}
    inputs = (*(u for u in model.inputs if u not in late), sp.Function(name)(t))
    made = replace(model, explicit=None, inputs=inputs)
    made = made if model.explicit is None else made.solved_by(model.explicit)
    known = [t, *model.parameters]
    places = NumericFunction(known, [pulse.place for pulse in found])
    courses = NumericFunction(known, [e for train in trains for e in (train.course, train.period)])
    return Pulsed(made, found, trains, name, places, courses)


def pulses_of(model: Model) -> tuple[Pulse, ...]:
    """Pulses of the equations of a model, each once."""
    found = dict[sp.Expr, Pulse]()
    for part in _parts_of_time(model):
        for place in _places(part):
            found.setdefault(place, Pulse(place, part))
    return tuple(found.values())


def trains_of(model: Model) -> tuple[Train, ...]:
    """Pulses of the equations of a model that repeat, each once."""
    found = dict[sp.Expr, Train]()
    for part in _parts_of_time(model):
        if isinstance(part, sp.exp):
            course, peaks = part.args[0], True
        elif isinstance(part, sp.Pow) and part.exp.is_negative:
            course, peaks = -sp.log(sp.Abs(part.base)), True
        elif isinstance(part, _STEPS):
            course, peaks = part.args[0], False
        else:
            continue
        period = _period(course)
        if period is not None:
            found.setdefault(course, Train(course, peaks, period, part))
    return tuple(found.values())


def _parts_of_time(model: Model) -> list[sp.Expr]:
    """Parts of the equations that are of time and parameters alone."""
    of_time = dict[sp.Basic, bool | None]()
    for e in model.through(model.equations):
        _look(e, of_time)
    return sorted((e for e, whether in of_time.items() if whether), key=sp.default_sort_key)


def _period(course: sp.Expr) -> sp.Expr | None:
    """Period of an expression whose time is in periodic functions of one period alone."""
    repeats = [e for e in course.atoms(*_PERIODIC) if e.has(t)]
    whole = course.xreplace({e: sp.Dummy() for e in repeats})
    if not repeats or whole.has(t) or not all(_is_line(e.args[0]) for e in repeats):
        return None
    every = set()
    for e in repeats:
        if isinstance(e, sp.Mod) and e.args[1].has(t):
            return None
        span = e.args[1] if isinstance(e, sp.Mod) else sp.pi if isinstance(e, sp.tan) else 2 * sp.pi
        every.add(sp.Abs(span / e.args[0].diff(t)))
    return every.pop() if len(every) == 1 else None


def _look(e: sp.Basic, found: dict[sp.Basic, bool | None]) -> bool | None:
    """Whether an expression has time in it, None if states, inputs or others have; so are all its
    parts."""
    if e not in found:
        if isinstance(e, (AppliedUndef, sp.Derivative)):
            found[e] = None
        else:
            parts = [_look(arg, found) for arg in e.args]
            found[e] = None if None in parts else e == t or any(parts)
    return found[e]


def _places(e: sp.Expr) -> Iterator[sp.Expr]:
    """See `Pulse.place`; none of an expression of another kind."""
    if isinstance(e, _STEPS) and _is_line(e.args[0]):
        yield e.args[0]
    elif isinstance(e, sp.exp) and _is_parabola(e.args[0]):
        yield e.args[0].diff(t) / sp.sqrt(2 * sp.Abs(e.args[0].diff(t, 2)))
    elif isinstance(e, sp.Pow) and e.exp.is_negative:
        if _is_parabola(e.base):
            curve = e.base.diff(t, 2)
            least = e.base.subs(t, -e.base.diff(t).subs(t, 0) / curve)
            if least != 0:
                yield e.base.diff(t) / sp.sqrt(2 * sp.Abs(curve * least))
        elif isinstance(e.base, sp.Add):
            yield from _logistic(e.base)


def _logistic(e: sp.Add) -> Iterator[sp.Expr]:
    """Place where two terms of a sum of exponentials are equal in size."""
    terms = [_exponential(term) for term in e.args]
    if len(terms) == 2 and None not in terms:
        (one, first), (other, second) = (term for term in terms if term is not None)
        place = first - second + sp.log(sp.Abs(one / other))
        if _is_line(place):
            yield place


def _exponential(e: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """A factor and an exponent, if time is in the exponent alone."""
    factors, exponents = list[sp.Expr](), list[sp.Expr]()
    for factor in sp.Mul.make_args(e):
        (exponents if isinstance(factor, sp.exp) else factors).append(factor)
    factor = sp.Mul(*factors)
    if t in factor.free_symbols:
        return None
    return factor, sp.Add(*(each.args[0] for each in exponents))


def _is_line(e: sp.Expr) -> bool:
    slope = e.diff(t)
    return bool(slope != 0 and t not in slope.free_symbols)


def _is_parabola(e: sp.Expr) -> bool:
    curve = e.diff(t, 2)
    return bool(curve != 0 and t not in curve.free_symbols)
