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
#: Operations of an expression in a message.
_SHOWN = 40


@dataclass(frozen=True)
class Pulse:
    """An expression of time and parameters that changes near one time. place : a straight line of
    time, by parameters, zero at its middle and 1 after one width. part : the expression."""

    place: sp.Expr
    part: sp.Expr

    @property
    def said(self) -> str:
        """Expression of the pulse as messages show it."""
        return written(self.part, _SHOWN)


@dataclass(frozen=True, eq=False)
class Pulsed:
    """A model with one further input, `name`, that no equation has: where it jumps, steps end.
    `places` (pulses,), at times and parameters."""

    model: Model
    pulses: tuple[Pulse, ...]
    name: str
    places: NumericFunction

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


@lru_cache(maxsize=32)
def pulsed(model: Model) -> Pulsed | None:
    """The model with an input that may end steps at its pulses; None if it has none."""
    found = pulses_of(model)
    if not found:
        return None
    taken = {name_of(symbol) for symbol in model.symbols}
    name = next(n for n in (f"pulse_{k}" for k in count()) if n not in taken)
    late = {delay.symbol for delay in model.delays}
    inputs = (*(u for u in model.inputs if u not in late), sp.Function(name)(t))
    made = replace(model, explicit=None, inputs=inputs)
    made = made if model.explicit is None else made.solved_by(model.explicit)
    places = NumericFunction([t, *model.parameters], [pulse.place for pulse in found])
    return Pulsed(made, found, name, places)


def pulses_of(model: Model) -> tuple[Pulse, ...]:
    """Pulses of the equations of a model, each once."""
    of_time, found = dict[sp.Basic, bool | None](), dict[sp.Expr, Pulse]()
    for e in model.through(model.equations):
        _look(e, of_time)
    own = (e for e, whether in of_time.items() if whether)
    for part in sorted(own, key=sp.default_sort_key):
        for place in _places(part):
            found.setdefault(place, Pulse(place, part))
    return tuple(found.values())


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
