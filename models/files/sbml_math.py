"""Formulas of SBML as expressions.

SBML Level 3 Version 2 Core, section 3.4 (https://sbml.org/specifications).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import isfinite
from typing import Any

import sympy as sp

from kinesym.base.extras import required
from kinesym.models.files.passive import number
from kinesym.symbolic.names import check_known, t

#: Avogadro's number of the specification [1/mol].
AVOGADRO = 6.02214179e23

#: Functions of one argument, by their names in libsbml.
_OF_ONE: dict[str, Callable[[sp.Expr], sp.Expr]] = {
    **{f"AST_FUNCTION_{f.__name__.upper()}": f for f in (sp.exp, sp.sin, sp.cos, sp.tan)},
    **{f"AST_FUNCTION_{f.__name__.upper()}": f for f in (sp.sinh, sp.cosh, sp.tanh)},
    **{f"AST_FUNCTION_{f.__name__.upper()}": f for f in (sp.sec, sp.csc, sp.cot)},
    **{f"AST_FUNCTION_{f.__name__.upper()}": f for f in (sp.sech, sp.csch, sp.coth)},
    **{f"AST_FUNCTION_ARC{f.__name__[1:].upper()}": f for f in (sp.asin, sp.acos, sp.atan)},
    **{f"AST_FUNCTION_ARC{f.__name__[1:].upper()}": f for f in (sp.asinh, sp.acosh, sp.atanh)},
    "AST_FUNCTION_LN": sp.log,
    "AST_FUNCTION_ABS": sp.Abs,
    "AST_FUNCTION_FLOOR": sp.floor,
    "AST_FUNCTION_CEILING": sp.ceiling,
    "AST_FUNCTION_FACTORIAL": lambda x: sp.gamma(x + 1),
}
_RELATIONS = {
    "AST_RELATIONAL_LT": sp.Lt,
    "AST_RELATIONAL_LEQ": sp.Le,
    "AST_RELATIONAL_GT": sp.Gt,
    "AST_RELATIONAL_GEQ": sp.Ge,
    "AST_RELATIONAL_EQ": sp.Eq,
    "AST_RELATIONAL_NEQ": sp.Ne,
}
_CONSTANTS = {
    "AST_CONSTANT_E": sp.E,
    "AST_CONSTANT_PI": sp.pi,
    "AST_CONSTANT_TRUE": sp.true,
    "AST_CONSTANT_FALSE": sp.false,
    "AST_NAME_TIME": t,
    "AST_NAME_AVOGADRO": sp.Float(AVOGADRO),
}
#: Functions of any number of arguments.
_OF_MANY: dict[str, Callable[..., Any]] = {
    "AST_PLUS": sp.Add,
    "AST_TIMES": sp.Mul,
    "AST_FUNCTION_MIN": sp.Min,
    "AST_FUNCTION_MAX": sp.Max,
    "AST_LOGICAL_AND": sp.And,
    "AST_LOGICAL_OR": sp.Or,
    "AST_LOGICAL_XOR": sp.Xor,
    "AST_LOGICAL_NOT": sp.Not,
    "AST_LOGICAL_IMPLIES": sp.Implies,
}
#: Functions that text has and MathML has not.
_OF_TEXT: dict[str, Callable[[sp.Expr], sp.Expr]] = {
    "log_2": lambda x: sp.log(x) / sp.log(2),
    "log_10": lambda x: sp.log(x) / sp.log(10),
    "sign": sp.sign,
}
#: Names that a model cannot use, as time is one of them.
TAKEN = ("t", "time", "duration")
_OF_BASE = re.compile(r"\blog(2|10)\s*\(")
#: Powers of numbers beyond this are no numbers that anybody means.
_LARGEST = 1e4
#: What has no expression here, in words.
_REFUSED = {
    "AST_FUNCTION_DELAY": "the function delay, which is not read",
    "AST_FUNCTION_RATE_OF": "the function rateOf, which is not read",
}


def expression_of(node: Any, symbols: Mapping[str, Any]) -> Any:
    """The expression, or condition, of a formula of libsbml.

    symbols : expressions by name. Raises `ValueError` for an unknown name and for what is not read.
    """
    kind = _kinds()[node.getType()]
    if kind in ("AST_NAME", "AST_FUNCTION"):
        name = node.getName()
        if kind == "AST_FUNCTION":
            if name in _OF_TEXT and _count(node) == 1:
                return _OF_TEXT[name](expression_of(node.getChild(0), symbols))
            raise ValueError(f"there is no function {name}")
        check_known(name, symbols, f"there is no {name}")
        return symbols[name]
    if kind in _REFUSED:
        raise ValueError(_REFUSED[kind])
    if node.isNumber():
        return _number(node, kind)
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    return _applied(kind, [expression_of(node.getChild(k), symbols) for k in range(_count(node))])


def own_name(name: str) -> str:
    """Name of an element in a model."""
    return f"{name}_" if name in TAKEN else name


def formula(said: str) -> sp.Expr:
    """The expression of a text, such as `k1 * A`, with a symbol for each name; "log" is the natural
    logarithm, `log(x, 2)` that to the base 2, "time" the time. Raises `ValueError` for what is no
    formula."""
    libsbml = required("libsbml")
    settings = libsbml.L3ParserSettings()
    settings.setParseLog(libsbml.L3P_PARSE_LOG_AS_LN)
    settings.setParseUnits(libsbml.L3P_NO_UNITS)  # else 3 ml is 3, and 1e400 is 1
    settings.setParseAvogadroCsymbol(libsbml.L3P_AVOGADRO_IS_NAME)
    settings.setComparisonCaseSensitivity(libsbml.L3P_COMPARE_BUILTINS_CASE_SENSITIVE)
    # log10(x) would be log(10, x), which here is the logarithm of 10 to the base x
    node = libsbml.parseL3FormulaWithSettings(_OF_BASE.sub(r"log_\1(", said), settings)
    if node is None:
        words = (libsbml.getLastParseL3Error() or "").strip().split("\n")[-1].strip()
        raise ValueError(f"{said!r} is no formula: {words or 'it is empty'}")
    _put_base_first(node)
    found = expression_of(node, {n: sp.Symbol(own_name(n)) for n in names_in(node)})
    if not isinstance(found, sp.Expr) or found.has(sp.nan, sp.zoo, sp.oo, sp.I):
        raise ValueError(f"{said!r} is no real number")
    return found


def _put_base_first(node: Any) -> None:
    """Logarithms as in MathML, where the base is the first argument."""
    if node.getName() == "log" and _count(node) == 2 and not node.isName():
        base = node.getChild(1).deepCopy()
        node.replaceChild(1, node.getChild(0).deepCopy(), True)
        node.replaceChild(0, base, True)
    for k in range(_count(node)):
        _put_base_first(node.getChild(k))


def names_in(node: Any) -> set[str]:
    """Names in a formula."""
    own = {node.getName()} if node.isName() else set()
    return own.union(*(names_in(node.getChild(k)) for k in range(_count(node))))


@cache
def _kinds() -> dict[int, str]:
    """Names of the kinds of nodes."""
    libsbml = required("libsbml")
    return {
        value: name
        for name, value in vars(libsbml).items()
        if name.startswith("AST_")
        and isinstance(value, int)
        and not name.startswith("AST_TYPECODE")
    }


def _count(node: Any) -> int:
    return int(node.getNumChildren())


def _number(node: Any, kind: str) -> sp.Expr:
    if kind == "AST_INTEGER":
        return sp.Integer(node.getInteger())
    if kind == "AST_RATIONAL":
        return sp.Rational(node.getNumerator(), node.getDenominator())
    value = node.getValue()
    if not isfinite(value):
        raise ValueError(f"the number {value}")
    return number(value)


def _applied(kind: str, of: Sequence[Any]) -> Any:
    """A function of its arguments."""
    match kind, of:
        case "AST_MINUS", [a]:
            return -a
        case "AST_MINUS", [a, b]:
            return a - b
        case "AST_DIVIDE", [a, b]:
            return a / b
        case "AST_POWER" | "AST_FUNCTION_POWER", [a, b]:
            if a.is_number and b.is_number and abs(b) > _LARGEST:
                raise ValueError(f"{a} to the power of {b}")
            return a**b
        case "AST_FUNCTION_ROOT", [a]:
            return sp.sqrt(a)
        case "AST_FUNCTION_ROOT", [degree, a]:
            return a ** (1 / degree)
        case "AST_FUNCTION_LOG", [a]:
            return sp.log(a) / sp.log(10)
        case "AST_FUNCTION_LOG", [base, a]:
            return sp.log(a) / sp.log(base)
        case "AST_FUNCTION_QUOTIENT", [a, b]:
            return sp.sign(a / b) * sp.floor(sp.Abs(a / b))
        case "AST_FUNCTION_REM", [a, b]:
            return a - b * sp.sign(a / b) * sp.floor(sp.Abs(a / b))
        case "AST_FUNCTION_PIECEWISE", [*_]:
            pairs = [
                (value, condition) for value, condition in zip(of[::2], of[1::2], strict=False)
            ]
            return sp.Piecewise(*pairs, *([(of[-1], True)] if len(of) % 2 else []))
        case _, [a] if kind in _OF_ONE:
            return _OF_ONE[kind](a)
    if kind in _RELATIONS and len(of) > 1:
        return sp.And(*(_RELATIONS[kind](a, b) for a, b in pairwise(of)))
    if kind in _OF_MANY:
        return _OF_MANY[kind](*of)
    word = kind.removeprefix("AST_").removeprefix("FUNCTION_").lower()
    raise ValueError(f"{word} of {len(of)} arguments, which is not read")
