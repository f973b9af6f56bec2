"""Whether the units of a model agree: each equation adds only what has the same unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.extras import required
from kinesym.symbolic.declared import Declared
from kinesym.symbolic.names import name_of, t, written

#: Functions of things of one unit, which is theirs, and of things of one unit without one.
_SAME, _RATIO = (sp.Abs, sp.Max, sp.Min), (sp.atan2, sp.sign, sp.Heaviside)


class _Differ(Exception):
    """Units that do not agree, in words."""


def differences(model: Declared) -> Iterator[str]:
    """Sentences on equations and outputs whose units do not agree."""
    checked = _Checked(model.units)
    for symbol, expression in model.intermediates:
        try:
            checked.known[symbol] = checked.unit(expression)
        except _Differ as error:
            yield f"intermediate {name_of(symbol)} {error}"
    for number, expression in enumerate(model.equations):
        try:
            checked.unit(expression)
        except _Differ as error:
            yield f"equation {number} {error}"
    for name, expression in model.outputs.items():
        try:
            found, said = checked.unit(expression), model.units.get(name)
        except _Differ as error:
            yield f"output {name} {error}"
            continue
        if found is not None and said is not None and not _equal(found, checked.read(name, said)):
            yield f"output {name} is in {_words(found)}, not in {said}"


class _Checked:
    """Units of expressions: quantities of size 1 in the base units, None where one is not known.
    Whole numbers and fractions have none; a number with a point may stand for anything."""

    def __init__(self, units: Mapping[Any, str]) -> None:
        self._registry: Any = required("pint").UnitRegistry()
        self._units = {name: self.read(name, unit) for name, unit in units.items()}
        self._one, self._second = self._registry.Quantity(1.0), self.read("time", "s")
        self.known: dict[Any, Any] = {t: self._second}

    def read(self, name: str, unit: str) -> Any:
        """Raises `ValueError` for what pint does not know."""
        try:
            return self._registry.Quantity(1.0, unit).to_base_units()
        except Exception as error:  # pint raises its own, and those of tokenizing
            raise ValueError(f"the unit of {name}, {unit!r}, is none that pint knows") from error

    def unit(self, e: Any) -> Any:
        """Raises `_Differ` where something is added to what has another unit."""
        if e in self.known:
            return self.known[e]
        if isinstance(e, (sp.Symbol, AppliedUndef)):
            return self._units.get(name_of(e))
        if isinstance(e, sp.Derivative):
            below = self.unit(e.expr)
            return None if below is None else below / self._second**e.derivative_count
        if e.is_number:
            return None if e.has(sp.Float) else self._one
        if isinstance(e, sp.Pow):
            return self._power(*e.args)
        found = [self.unit(part) for part in e.args]
        if isinstance(e, sp.Mul):
            return None if None in found else sp.prod(found)
        if isinstance(e, (sp.Add, *_SAME, *_RATIO)):
            same = self._same(e, found)
            return self._one if isinstance(e, _RATIO) else same
        if isinstance(e, sp.Function) and not isinstance(e, sp.Piecewise):
            for part, unit in zip(e.args, found, strict=True):
                self._bare(part, unit, f"takes {type(e).__name__} of")
            return self._one
        return None

    def _same(self, e: sp.Expr, found: list[Any]) -> Any:
        """The unit of all terms; a zero has any."""
        pairs = [(a, u) for a, u in zip(e.args, found, strict=True) if u is not None and a != 0]
        for term, unit in pairs[1:]:
            if not _equal(unit, pairs[0][1]):
                one, other = (
                    f"{written(a, 60)} [{_words(u)}]" for a, u in (pairs[0], (term, unit))
                )
                raise _Differ(f"adds or compares {one} and {other}")
        return pairs[0][1] if pairs else None

    def _power(self, base: sp.Expr, exponent: sp.Expr) -> Any:
        below = self.unit(base)
        if exponent.is_Rational:
            return None if below is None else below ** float(exponent)
        self._bare(exponent, self.unit(exponent), "has in an exponent")
        return below if below is not None and _equal(below, self._one) else None

    def _bare(self, e: sp.Expr, unit: Any, what: str) -> None:
        if unit is not None and not _equal(unit, self._one):
            raise _Differ(f"{what} {written(e, 60)} [{_words(unit)}], which has a unit")


def _equal(one: Any, other: Any) -> bool:
    """Whether two units have one dimension and size; radians are 1."""
    if one.dimensionality != other.dimensionality:
        return False
    return bool(abs((one / other).to_base_units().magnitude - 1.0) < 1e-9)


def _words(unit: Any) -> str:
    """Short text of a unit, as "kilogram * meter / second ** 2"."""
    size, name = unit.magnitude, f"{unit.units:~}" or "1"
    return name if abs(size - 1.0) < 1e-9 else f"{size:.6g} {name}"
