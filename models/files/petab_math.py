"""Formulas in tables of PEtab, such as `k1 * A`.

    expression  = expression operator expression | sign expression | operand
    operand     = number | name | function "(" expression ("," expression)* ")"
                | "(" expression ")"

Operators by how tightly they bind: "^" from the right, signs and "!", "*" and "/", "+" and "-",
comparisons, "&&" and "||", which bind alike (https://petab.readthedocs.io, math expressions).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isinf
from typing import Any

import sympy as sp

from kinesym.models.files.passive import number
from kinesym.models.files.sbml_math import applied, as_number, own_name
from kinesym.symbolic.names import t

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||[<>=!]=|[-+*/^<>!(),]))"
)
#: How tightly binary operators bind, and what they are in MathML.
_OPERATORS = {
    **{"&&": (1, "and"), "||": (1, "or")},
    **{"==": (2, "eq"), "!=": (2, "neq"), "<": (2, "lt")},
    **{"<=": (2, "leq"), ">": (2, "gt"), ">=": (2, "geq")},
    **{"+": (3, "plus"), "-": (3, "minus"), "*": (4, "times"), "/": (4, "divide")},
    "^": (6, "power"),
}
#: How tightly signs bind.
_SIGNS = 5
#: Functions that MathML names otherwise: possible numbers of arguments, and the function.
_FUNCTIONS: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "log": ((1, 2), lambda x, base=sp.E: applied("log", [base, x])),
    "log2": ((1,), lambda x: applied("log", [sp.Integer(2), x])),
    "log10": ((1,), lambda x: applied("log", [sp.Integer(10), x])),
    "sqrt": ((1,), lambda x: applied("root", [x])),
    "pow": ((2,), lambda a, b: applied("power", [a, b])),
}
_WORDS = {"true": sp.true, "false": sp.false, "inf": sp.oo, "time": t}


def formula(said: str) -> sp.Expr:
    """The expression of a text, with a symbol for each name; "log" is the natural logarithm,
    `log(x, 2)` that to the base 2, "time" the time; a condition is 1 or 0 where a number is meant.
    Raises `ValueError` for what is no formula."""
    try:
        found = as_number(_Reader(said).whole())
    except RecursionError:
        raise ValueError("its parts are within one another, too deep to be read") from None
    except TypeError as error:  # SymPy's, on comparisons of complex numbers
        raise ValueError(f"{said!r} is no formula: {error}") from error
    if not isinstance(found, sp.Expr) or found.has(sp.nan, sp.zoo, sp.oo, -sp.oo, sp.I):
        raise ValueError(f"{said!r} is no real number")
    return found


@dataclass
class _Reader:
    """Reader of one text, from left to right; `at` is where the next token begins."""

    said: str
    at: int = 0

    def whole(self) -> Any:
        """The expression of the whole text."""
        found = self._expression(0)
        if self.said[self.at :].strip():
            raise self._fault("no operator")
        return found

    def _fault(self, what: str) -> ValueError:
        rest = self.said[self.at :].strip()
        where = f"before {rest[:20]!r}" if rest else "at its end"
        return ValueError(f"{self.said!r} is no formula: {what} {where}")

    def _token(self, *expected: str) -> str:
        """The next token if it is one of those, which then is read; else empty."""
        match = _TOKEN.match(self.said, self.at)
        if match is None or match["sign"] not in expected:
            return ""
        self.at = match.end()
        return match["sign"]

    def _expression(self, least: int) -> Any:
        """An expression of operators that bind at least so tightly."""
        left = self._signed()
        while True:
            begin, sign = self.at, self._token(*_OPERATORS)
            binds, name = _OPERATORS.get(sign, (-1, ""))
            if binds < least:
                self.at = begin
                return left
            right = self._expression(binds if sign == "^" else binds + 1)
            left = applied(name, [left, right])

    def _signed(self) -> Any:
        sign = self._token("-", "+", "!")
        if not sign:
            return self._operand()
        e = self._expression(_SIGNS)
        return as_number(e) if sign == "+" else applied("minus" if sign == "-" else "not", [e])

    def _operand(self) -> Any:
        if self._token("("):
            return self._list(1)[0]
        match = _TOKEN.match(self.said, self.at)
        if match is None or match["sign"]:
            raise self._fault("a number, a name or a function is missing")
        if match["number"]:
            value = float(match["number"])
            if isinf(value):
                raise self._fault("a number that is too large stands")
            self.at = match.end()
            return number(value)
        self.at = match.end()
        name = match["name"]
        if self._token("("):
            return self._called(name, self._list())
        return _WORDS.get(name, sp.Symbol(own_name(name)))

    def _list(self, most: int = 1000) -> list[Any]:
        """Expressions with commas between them, and the bracket that closes them."""
        found = [self._expression(0)]
        while len(found) < most and self._token(","):
            found.append(self._expression(0))
        if not self._token(")"):
            raise self._fault("a closing bracket is missing")
        return found

    def _called(self, name: str, given: list[Any]) -> Any:
        if name in _FUNCTIONS and len(given) in _FUNCTIONS[name][0]:
            return _FUNCTIONS[name][1](*map(as_number, given))
        return applied(name, given)
