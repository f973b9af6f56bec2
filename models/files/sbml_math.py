"""Functions and formulas of SBML, which are MathML, as expressions.

SBML Level 3 Version 2 Core, section 3.4 (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from xml.etree.ElementTree import Element

import sympy as sp

from kinesym.base.checks import shown
from kinesym.models.files.passive import number
from kinesym.symbolic.names import check_known, t

#: Avogadro's number of the specification [1/mol].
AVOGADRO = 6.02214179e23
#: Names that a model cannot use, as time is one of them.
TAKEN = ("t", "time", "duration")
#: Powers of numbers beyond this are no numbers that anybody means.
_LARGEST = 1e4
_LARGEST_FACTORIAL = 170

_SINES = {f.__name__: f for f in (sp.sin, sp.cos, sp.tan, sp.sinh, sp.cosh, sp.tanh)}
_INVERSES = {f"arc{f.__name__[1:]}": f for f in (sp.asin, sp.acos, sp.atan)} | {
    f"arc{f.__name__[1:]}": f for f in (sp.asinh, sp.acosh, sp.atanh)
}
#: Functions that are one over another one, and whose inverses are those of one over x.
_OVER = {
    f"{name}{h}": f"{other}{h}"
    for name, other in (("sec", "cos"), ("csc", "sin"), ("cot", "tan"))
    for h in ("", "h")
}


def _reciprocal(name: str) -> Callable[[sp.Expr], sp.Expr]:
    return lambda x: 1 / _SINES[_OVER[name]](x)


def _inverse_of_reciprocal(name: str) -> Callable[[sp.Expr], sp.Expr]:
    return lambda x: _INVERSES[f"arc{_OVER[name]}"](1 / x)


def _factorial(x: sp.Expr) -> sp.Expr:
    if x.is_number and abs(x) > _LARGEST_FACTORIAL:
        raise ValueError(f"the factorial of {x}")
    return sp.gamma(x + 1)


#: Functions of one number.
_OF_ONE: Mapping[str, Callable[[sp.Expr], sp.Expr]] = {
    **_SINES,
    **_INVERSES,
    **{name: _reciprocal(name) for name in _OVER},
    **{f"arc{name}": _inverse_of_reciprocal(name) for name in _OVER},
    "exp": sp.exp,
    "ln": sp.log,
    "abs": sp.Abs,
    "sign": sp.sign,
    "floor": sp.floor,
    "ceiling": sp.ceiling,
    "factorial": _factorial,
}
#: Functions of any number of numbers.
_OF_MANY: Mapping[str, Callable[..., Any]] = {
    "plus": sp.Add,
    "times": sp.Mul,
    "min": sp.Min,
    "max": sp.Max,
}
#: Functions of conditions.
_LOGICAL: Mapping[str, Callable[..., Any]] = {
    "and": sp.And,
    "or": sp.Or,
    "xor": sp.Xor,
    "not": sp.Not,
    "implies": sp.Implies,
}
_RELATIONS: Mapping[str, Callable[..., Any]] = {
    "lt": sp.Lt,
    "leq": sp.Le,
    "gt": sp.Gt,
    "geq": sp.Ge,
    "eq": sp.Eq,
    "neq": sp.Ne,
}
_CONSTANTS: Mapping[str, Any] = {
    "exponentiale": sp.E,
    "pi": sp.pi,
    "true": sp.true,
    "false": sp.false,
}
#: Meaning of a `csymbol` by the end of its `definitionURL`.
_SYMBOLS: Mapping[str, Any] = {"time": t, "avogadro": sp.Float(AVOGADRO)}
#: Elements of MathML that say how a function is meant.
_QUALIFIERS = ("degree", "logbase")


@dataclass(frozen=True, eq=False)
class Scope:
    """Meaning of names: expressions, functions as names of their arguments and a formula, and rates
    of those that have one."""

    symbols: Mapping[str, Any]
    functions: Mapping[str, tuple[Sequence[str], Element]] = field(default_factory=dict)
    rates: Mapping[str, sp.Expr] = field(default_factory=dict)


def own_name(name: str) -> str:
    """Name of an element in a model."""
    return f"{name}_" if name in TAKEN else name


def names_in(math: Element) -> set[str]:
    """Names in a formula."""
    return {(e.text or "").strip() for e in math.iter("ci")}


def has_time(math: Element) -> bool:
    """Whether a formula holds the time."""
    return any(_meant(e) == "time" for e in math.iter("csymbol"))


def rated_in(e: Element) -> set[str]:
    """Names of what `rateOf` is asked of in an element."""
    applied = (a for a in e.iter("apply") if len(a) == 2 and _meant(a[0]) == "rateOf")
    return {(a[1].text or "").strip() for a in applied}


def formula_of(math: Element, scope: Scope) -> Any:
    """The expression, or condition, of an element `math`. Raises `ValueError` for an unknown name,
    and for what is not read."""
    if len(math) != 1:
        raise ValueError(f"a formula is one expression, got {len(math)}")
    try:
        return _expression(math[0], scope)
    except RecursionError:
        raise ValueError("its parts are within one another, too deep to be read") from None


def _expression(e: Element, scope: Scope) -> Any:
    match e.tag:
        case "apply" if len(e):
            return _apply(e, scope)
        case "ci":
            name = (e.text or "").strip()
            check_known(name, scope.symbols, f"there is no {name}")
            return scope.symbols[name]
        case "cn":
            return _number(e)
        case "csymbol":
            name = _meant(e)
            if name not in _SYMBOLS:
                raise ValueError(f"the function {name}, which is not read")
            return _SYMBOLS[name]
        case "piecewise":
            parts = [_expression(part, scope) for piece in e for part in piece]
            return applied("piecewise", parts)
        case "semantics" if len(e):  # and what others make of it
            return _expression(e[0], scope)
    if e.tag not in _CONSTANTS:
        raise ValueError(f"{e.tag} in a formula, which is not read")
    return _CONSTANTS[e.tag]


def _apply(e: Element, scope: Scope) -> Any:
    """A function, the first child, of its arguments, the others."""
    function, rest = e[0], e[1:]
    if function.tag in ("apply", "piecewise") and not len(rest):  # as brackets
        return _expression(function, scope)
    if _meant(function) == "rateOf" and len(rest) == 1:
        return _rate(rest[0], scope)
    given = [_expression(part, scope) for part in rest if part.tag not in _QUALIFIERS]
    said = [_expression(q[0], scope) for q in rest if q.tag in _QUALIFIERS and len(q) == 1]
    if function.tag == "csymbol":
        name = _meant(function)
        if name not in _LOGICAL.keys() | _OF_MANY.keys() | {"quotient", "rem"}:
            raise ValueError(f"the function {name}, which is not read")
        return applied(name, given)
    if function.tag != "ci":
        return applied(function.tag, [*said, *given])
    name = (function.text or "").strip()
    check_known(name, scope.functions, f"there is no function {name}")
    arguments, body = scope.functions[name]
    if len(arguments) != len(given):
        raise ValueError(f"{name} is a function of {len(arguments)} arguments, got {len(given)}")
    return _expression(body, Scope(dict(zip(arguments, given, strict=True)), scope.functions))


def _rate(e: Element, scope: Scope) -> Any:
    name = (e.text or "").strip()
    if e.tag != "ci" or name not in scope.rates:
        raise ValueError(f"rateOf {name or e.tag}, which has no rate of its own; that is not read")
    return scope.rates[name]


def _meant(e: Element) -> str:
    return e.get("definitionURL", "").rpartition("/")[2]


def _number(e: Element) -> sp.Expr:
    parts = [e.text or "", *(part.tail or "" for part in e)]
    kind = e.get("type", "real")
    try:
        values = [] if any("_" in part for part in parts) else [float(part) for part in parts]
        match kind, values:
            case "integer", [value] if value == int(value):
                return sp.Integer(int(parts[0]))
            case "rational", [a, b] if a == int(a) and b == int(b):
                return sp.Rational(int(a), int(b))
            case "e-notation", [_, b] if b == int(b):
                return number(float(f"{parts[0].strip()}e{int(b)}"))
            case "real", [value]:
                return number(value)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"the number {shown(' '.join(parts).strip())} of type {kind}")


def as_number(e: Any) -> Any:
    """An expression; 1 for a condition that holds, else 0."""
    return e if isinstance(e, sp.Expr) else sp.Piecewise((1, e), (0, True))


def as_condition(e: Any) -> Any:
    """A condition; whether it is not zero for an expression."""
    return sp.Ne(e, 0) if isinstance(e, sp.Expr) else e


def applied(name: str, given: Sequence[Any]) -> Any:
    """A function of MathML of its arguments, where base and degree come first. Raises `ValueError`
    for other numbers of arguments, and for what is not read."""
    if name in _LOGICAL and (len(given) == 1) == (name == "not"):
        return _LOGICAL[name](*map(as_condition, given))
    if name == "piecewise" and given and not any(isinstance(e, sp.Expr) for e in given):
        return _cases(given)
    if name == "piecewise" and given:
        pairs = zip(given[::2], map(as_condition, given[1::2]), strict=False)
        last = [(as_number(given[-1]), True)] if len(given) % 2 else []
        return sp.Piecewise(*((as_number(e), condition) for e, condition in pairs), *last)
    of = [as_number(e) for e in given]
    if name in _RELATIONS and len(of) > 1:
        return sp.And(*(_RELATIONS[name](a, b) for a, b in pairwise(of)))
    if name in _OF_MANY:
        return _OF_MANY[name](*of)
    if name in _OF_ONE and len(of) == 1:
        return _OF_ONE[name](of[0])
    return _arithmetic(name, of)


def _cases(given: Sequence[Any]) -> Any:
    """Pieces that are conditions, as one; false where none holds."""
    found = given[-1] if len(given) % 2 else sp.false
    for value, condition in reversed([*zip(given[::2], given[1::2], strict=False)]):
        found = sp.Or(sp.And(condition, value), sp.And(sp.Not(condition), found))
    return found


def _arithmetic(name: str, of: Sequence[Any]) -> Any:
    """Functions of one or two numbers."""
    match name, of:
        case "minus", [a]:
            return -a
        case "minus", [a, b]:
            return a - b
        case "divide", [a, b]:
            return a / b
        case "power", [a, b]:
            if a.is_number and b.is_number and abs(b) > _LARGEST:
                raise ValueError(f"{a} to the power of {b}")
            return a**b
        case "root", [a]:
            return sp.sqrt(a)
        case "root", [degree, a]:
            return a ** (1 / degree)
        case "log", [a]:
            return sp.log(a) / sp.log(10)
        case "log", [base, a]:
            return sp.log(a) / sp.log(base)
        case "quotient", [a, b]:
            return sp.sign(a / b) * sp.floor(sp.Abs(a / b))
        case "rem", [a, b]:
            return a - b * sp.sign(a / b) * sp.floor(sp.Abs(a / b))
    raise ValueError(f"{name} of {len(of)} arguments, which is not read")
