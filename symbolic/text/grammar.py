"""Grammar of expressions as text.

    expression  = condition | sum
    condition   = comparison | "not" condition | condition ("and" | "or") condition
    comparison  = sum ("<" | "<=" | ">" | ">=" | "==" | "!=") sum
    sum         = product (("+" | "-") product)*
    product     = signed (("*" | "/") signed)*
    signed      = ("-" | "+") signed | power
    power       = operand ["**" signed]
    operand     = number | name | name "'" | function "(" expression ("," expression)* ")"
                | "(" expression ")"
    function    = name | name "[" orders "]"

A name is letters, digits and underscores, or any text between backquotes, which then names what
the model declares, even if it is a word of the grammar; a backquote in it is doubled. `x'` is the
derivative of a state; `force[1](x)` that of a table; `if(c, a, d, b, e)` is a where c holds, else b
where d does, else e. Words: t, pi, true, false, and, or, not, and the names of `scalars`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import sympy as sp

from kinesym.base.checks import shown, suggest
from kinesym.symbolic.names import t
from kinesym.symbolic.text import construct
from kinesym.symbolic.text.construct import Value
from kinesym.symbolic.text.scalars import CONSTANTS, SCALARS

#: Words that are no names unless they stand between backquotes.
WORDS = frozenset(("t", "and", "or", "not", *CONSTANTS))
#: A name that needs no backquotes, unless it is a word.
PLAIN = re.compile(r"[^\W\d]\w*")

_TOKEN = re.compile(
    r"(?P<space>[ \t\n\r]+)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[^\W\d]\w*|`(?:[^`]|``)+`)"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/(),<>\[\]'])"
)

#: How tightly comparisons bind.
_COMPARED = 4
#: How tightly binary operators bind.
_BINDS = {
    **{"or": 1, "and": 2},
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _COMPARED),
    **{"+": 5, "-": 5, "*": 6, "/": 6, "**": 8},
}
#: How tightly what stands before an operand binds.
_BEFORE = {"not": 3, "-": 7, "+": 7}
#: Operators that people write, and how they are written here.
_INSTEAD = {"^": "**", "=": "==", "&": "and", "|": "or", "!": "not", "~": "not"}


class Text(ValueError):
    """Error in a text, with its column."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(f"column {column + 1}: {message}")


@dataclass(frozen=True)
class Scope:
    """Meaning of names.

    symbols : by name. rates : derivatives of states, by the name of the state. functions : further
    ones, each of the orders of a derivative and of arguments. later : names that are declared
    further below.
    """

    symbols: Mapping[str, sp.Basic]
    rates: Mapping[str, sp.Expr] = field(default_factory=dict)
    functions: Mapping[str, Callable[[Sequence[int], Sequence[sp.Expr]], sp.Expr]] = field(
        default_factory=dict
    )
    later: frozenset[str] = frozenset()


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


def parsed(text: str, scope: Scope) -> sp.Basic:
    """The expression, or condition, that a text means.

    Raises `ValueError` with the column for what is no expression, unknown names, and numbers
    beyond double precision.
    """
    return _Parser(text, scope).whole()


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            instead = _INSTEAD.get(text[at])
            remedy = f"write {instead}" if instead else "it is no part of an expression"
            if text[at] == "`":
                remedy = "the name that begins here has no second backquote"
            raise Text(at, f"{text[at]!r}: {remedy}")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_Token(kind, match[0], at))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


@dataclass
class _Operand:
    """Operands that are joined by equal operators, which are put together at once."""

    sign: str
    parts: list[Value]

    def value(self) -> Value:
        """The value of all of it."""
        if len(self.parts) == 1:
            return self.parts[0]
        if self.sign in ("and", "or"):
            return construct.joined(self.sign, self.parts)
        return (construct.total if self.sign == "+" else construct.product)(self.parts)


@dataclass
class _Pending:
    """An operator or bracket whose last operand is not read yet. binds : 0 for brackets. name,
    orders : of a function. begin : operands that were there before its first argument."""

    sign: str
    binds: int
    column: int
    before: bool = False
    name: str = ""
    orders: tuple[int, ...] = ()
    begin: int = 0


class _Parser:
    """Reader of one text, from left to right, by precedence: operands and pending operators lie on
    stacks, so that no depth is too deep."""

    def __init__(self, text: str, scope: Scope) -> None:
        self._scope = scope
        self._tokens = _tokens(text)
        self._at = 0
        self._operands: list[_Operand] = []
        self._pending: list[_Pending] = []

    def whole(self) -> sp.Basic:
        """The expression of the whole text."""
        if len(self._tokens) == 1:
            raise Text(0, "the expression is empty; write 0 if it is zero")
        expected = True
        while True:
            token = self._next()
            if expected:
                expected = self._operand(token)
            elif token.kind == "end":
                break
            else:
                expected = self._operator(token)
        self._reduce(0)
        if self._pending:
            raise Text(self._pending[-1].column, "the bracket that opens here is not closed")
        return self._guarded(0, self._operands[0].value).e

    def _next(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _follows(self, sign: str) -> bool:
        """Whether a sign comes next, which then is read."""
        token = self._tokens[self._at]
        found = token.kind == "sign" and token.text == sign
        self._at += found
        return found

    def _push(self, value: Value) -> None:
        self._operands.append(_Operand("", [value]))

    def _operand(self, token: _Token) -> bool:
        """Read where an operand is expected; whether one still is."""
        kind, text, column = token
        if kind == "number":
            self._push(self._guarded(column, lambda: construct.number(text)))
            return False
        if text in _BEFORE:
            self._pending.append(_Pending(text, _BEFORE[text], column, before=True))
        elif text == "(" and kind == "sign":
            self._pending.append(_Pending("(", 0, column))
        elif kind == "name":
            return self._named(token)
        else:
            what = f"{text!r} stands" if text else "the text ends"
            raise Text(column, f"{what} where a number, a name or a function is expected")
        return True

    def _named(self, token: _Token) -> bool:
        """Read a name; whether the arguments of a function are expected."""
        quoted = token.text.startswith("`")
        name = token.text[1:-1].replace("``", "`") if quoted else token.text
        orders = self._orders() if self._follows("[") else ()
        if self._follows("("):
            self._check_function(name, orders, token.column)
            begin = len(self._operands)
            self._pending.append(
                _Pending("(", 0, token.column, name=name, orders=orders, begin=begin)
            )
            return True
        if orders:
            raise Text(
                token.column, f"{name}[...] is the derivative of a table; write its argument"
            )
        if not quoted and name in WORDS:
            found: sp.Basic = t if name == "t" else CONSTANTS.get(name, sp.nan)
            if found is sp.nan:
                raise Text(token.column, f"{name!r} stands where an operand is expected")
            self._push(Value(found, isinstance(found, sp.Expr) and found is not t))
        else:
            self._push(Value(self._symbol(name, token.column)))
        return False

    def _symbol(self, name: str, column: int) -> sp.Basic:
        """Meaning of a name, with a "'" after it the derivative."""
        symbols, rates = self._scope.symbols, self._scope.rates
        if name not in symbols:
            if name in self._scope.later:
                raise Text(column, f"{name} is defined further below; move it up")
            if name in SCALARS or name in self._scope.functions:
                raise Text(column, f"{name} is a function; its argument is missing")
            raise Text(column, f"{name} is not declared; {suggest(name, symbols)}")
        if not self._follows("'"):
            return symbols[name]
        if name not in rates:
            raise Text(column, f"{name}' is a derivative, but {name} is no state")
        if self._follows("'"):
            raise Text(
                column, f"{name}'' is of second order; introduce a state for the derivative of it"
            )
        return rates[name]

    def _orders(self) -> tuple[int, ...]:
        """Orders of the derivative of a table, up to the bracket that closes them."""
        found: list[int] = []
        while True:
            token = self._next()
            if not token.text.isdecimal() or len(token.text) > 2:
                raise Text(token.column, "the order of the derivative of a table is expected")
            found.append(int(token.text))
            if self._follows("]"):
                return tuple(found)
            if not self._follows(","):
                raise Text(self._tokens[self._at].column, "a bracket ] is expected")

    def _check_function(self, name: str, orders: Sequence[int], column: int) -> None:
        own = self._scope.functions
        if name in own or (name in SCALARS and not orders):
            return
        if name in SCALARS:
            raise Text(column, f"{name}[...] is for tables; write the derivative of {name} out")
        if name in self._scope.symbols:
            raise Text(
                column, f"{name} is no function; it is written without (t), a product with *"
            )
        raise Text(column, f"there is no function {name}; {suggest(name, (*SCALARS, *own))}")

    def _operator(self, token: _Token) -> bool:
        """Read what follows an operand; whether another one is expected."""
        kind, text, column = token
        if text in _BINDS and kind != "number":
            binds = _BINDS[text]
            if binds == _COMPARED and self._within_comparison():
                raise Text(column, "two comparisons in a row; write a < b and b < c")
            self._reduce(binds + (text == "**"))  # powers are put together from the right
            self._pending.append(_Pending(text, binds, column))
            return True
        if kind == "sign" and text in "),":
            self._reduce(1)
            if not self._pending:
                raise Text(column, f"{text!r} closes or divides no bracket")
            bracket = self._pending[-1]
            if text == ",":
                if not bracket.name:
                    raise Text(column, "a comma stands outside of the arguments of a function")
                return True
            self._close(self._pending.pop())
            return False
        raise Text(column, f"{shown(text)} follows an operand; an operator such as * is expected")

    def _within_comparison(self) -> bool:
        """Whether what has been read last is the right side of a comparison."""
        tighter = next((p.binds for p in reversed(self._pending) if p.binds <= _COMPARED), 0)
        return tighter == _COMPARED

    def _close(self, bracket: _Pending) -> None:
        """Make one operand of what stands in a bracket."""
        column, name = bracket.column, bracket.name
        if not name:
            whole = self._operands.pop()
            self._push(self._guarded(column, whole.value))
            return
        rows = self._operands[bracket.begin :]
        del self._operands[bracket.begin :]
        given = [self._guarded(column, row.value) for row in rows]
        own = self._scope.functions.get(name)
        if own is None:
            least, most = SCALARS[name][1:]
            if not least <= len(given) <= most:
                wanted = f"{least}" if least == most else f"{least} or more"
                raise Text(column, f"{name} takes {wanted} arguments, got {len(given)}")
            self._push(self._guarded(column, lambda: construct.called(name, given)))
            return
        values = [construct.as_number(value) for value in given]
        self._push(self._guarded(column, lambda: Value(own(bracket.orders, values))))

    def _reduce(self, binds: int) -> None:
        """Apply pending operators that bind at least so tightly, up to a bracket."""
        while self._pending and self._pending[-1].binds >= max(binds, 1):
            self._apply(self._pending.pop())

    def _apply(self, operator: _Pending) -> None:
        sign, column = operator.sign, operator.column
        right = self._operands.pop()
        if operator.before:
            value = self._guarded(column, right.value)
            if sign == "not":
                value = self._guarded(column, lambda: construct.joined("not", [value]))
            elif sign == "-":
                value = self._guarded(column, lambda: construct.negative(value))
            return self._push(value)
        left, last = self._operands.pop(), self._guarded(column, right.value)
        if sign in ("-", "/"):
            change = construct.negative if sign == "-" else construct.inverse
            last = self._guarded(column, lambda: change(last))
        chain = {"-": "+", "/": "*"}.get(sign, sign)
        if chain in ("+", "*", "and", "or"):
            parts = left.parts if left.sign == chain else [self._guarded(column, left.value)]
            parts.append(last)
            self._operands.append(_Operand(chain, parts))
            return None
        first = self._guarded(column, left.value)
        if sign == "**":
            return self._push(self._guarded(column, lambda: construct.power(first, last)))
        return self._push(self._guarded(column, lambda: construct.compared(sign, first, last)))

    def _guarded(self, column: int, make: Callable[[], Value]) -> Value:
        """Value that `make` makes; its errors with the column."""
        try:
            return make()
        except Text:
            raise
        except (ValueError, TypeError, ZeroDivisionError) as error:
            raise Text(column, str(error)) from error
        except RecursionError as error:
            raise Text(
                column, "it is nested too deeply for SymPy; name parts of it as intermediates"
            ) from error
