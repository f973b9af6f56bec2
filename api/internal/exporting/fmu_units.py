"""Units as FMI describes them: exponents of base units, a factor and an offset, read from text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: The base units of FMI, in the order of its schema.
BASES = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")


@dataclass(frozen=True)
class BaseUnit:
    """A unit: its size in base units is `factor`, its zero is at `offset`; exponents by base."""

    exponents: Mapping[str, int]
    factor: float = 1.0
    offset: float = 0.0

    def times(self, other: BaseUnit, power: int = 1) -> BaseUnit:
        """The product with a power of another unit; offsets are those of differences, 0."""
        every = {*self.exponents, *other.exponents}
        sums = {b: self.exponents.get(b, 0) + power * other.exponents.get(b, 0) for b in every}
        exponents = {b: sums[b] for b in BASES if sums.get(b)}
        return BaseUnit(exponents, self.factor * other.factor**power)


_ONE = BaseUnit({})
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "c": 1e-2, "d": 1e-1} | {
    "h": 1e2,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
}


def _unit(factor: float = 1.0, offset: float = 0.0, **exponents: int) -> BaseUnit:
    return BaseUnit(exponents, factor, offset)


#: Units that take prefixes, and those that do not, by all the names that are read.
_PREFIXED = {
    "m meter metre": _unit(m=1),
    "g gram": _unit(1e-3, kg=1),
    "s sec second": _unit(s=1),
    "A ampere": _unit(A=1),
    "K kelvin": _unit(K=1),
    "mol mole": _unit(mol=1),
    "cd candela": _unit(cd=1),
    "rad radian": _unit(rad=1),
    "N newton": _unit(kg=1, m=1, s=-2),
    "J joule": _unit(kg=1, m=2, s=-2),
    "W watt": _unit(kg=1, m=2, s=-3),
    "Pa pascal": _unit(kg=1, m=-1, s=-2),
    "bar": _unit(1e5, kg=1, m=-1, s=-2),
    "Hz hertz": _unit(s=-1),
    "C coulomb": _unit(s=1, A=1),
    "V volt": _unit(kg=1, m=2, s=-3, A=-1),
    "ohm Ω Ω": _unit(kg=1, m=2, s=-3, A=-2),
    "F farad": _unit(kg=-1, m=-2, s=4, A=2),
    "H henry": _unit(kg=1, m=2, s=-2, A=-2),
    "Wb weber": _unit(kg=1, m=2, s=-2, A=-1),
    "T tesla": _unit(kg=1, s=-2, A=-1),
    "l L liter litre": _unit(1e-3, m=3),
}
_BARE = {
    "kilogram": _unit(kg=1),
    "dimensionless": _ONE,
    "% percent": _unit(1e-2),
    "deg degree degrees °": _unit(math.pi / 180, rad=1),
    "rev revolution turn": _unit(2 * math.pi, rad=1),
    "rpm": _unit(math.pi / 30, s=-1, rad=1),
    "min minute": _unit(60.0, s=1),
    "h hour": _unit(3600.0, s=1),
    "t": _unit(1e3, kg=1),
    "degC °C celsius": _unit(1.0, 273.15, K=1),
}
_NAMED: Mapping[str, BaseUnit] = MappingProxyType(
    {
        prefix + name: BaseUnit(unit.exponents, factor * unit.factor)
        for names, unit in _PREFIXED.items()
        for name in names.split()
        for prefix, factor in {"": 1.0, **_PREFIXES}.items()
    }
    | {name: unit for names, unit in _BARE.items() for name in names.split()}
)

_TOKEN = re.compile(r"\s*(\*\*|[*/^()·]|[-+]?\d+(?:\.\d+)?|[^\W\d]+|[%°]\w*)", re.UNICODE)


def base_unit(text: str) -> BaseUnit | None:
    """The unit that a text such as "N*m/rad", "kg m^2" or "1/s" means; None if it is not read."""
    if text.strip() in ("-", "1"):
        return _ONE
    if text.strip() in _NAMED:
        return _NAMED[text.strip()]
    tokens, at = list[str](), 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        tokens.append(match[1])
        at = match.end()
    try:
        found = _product(tokens)
    except (KeyError, IndexError, ValueError):
        return None
    return None if tokens else found


def _product(tokens: list[str]) -> BaseUnit:
    """Factors from left to right, up to a closing bracket; takes their tokens away."""
    found = _power(tokens)
    while tokens and tokens[0] != ")":
        sign = -1 if tokens[0] == "/" else 1
        if tokens[0] in ("*", "·", "/"):
            tokens.pop(0)
        found = found.times(_power(tokens), sign)
    return found


def _power(tokens: list[str]) -> BaseUnit:
    token = tokens.pop(0)
    if token == "(":
        base = _product(tokens)
        if tokens.pop(0) != ")":
            raise ValueError
    elif token == "1":
        base = _ONE
    else:
        base = _NAMED[token]
    exponent = 1
    if tokens and tokens[0] in ("**", "^"):
        tokens.pop(0)
        exponent = int(tokens.pop(0))
    return _ONE.times(base, exponent)
