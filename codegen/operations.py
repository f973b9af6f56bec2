"""Operations of the expression graph, one row each: value, derivatives, sign and size, C text.

Whatever treats operations reads these rows: the graph, its derivatives, what is known without
numbers, both printers, the reference interpreter, the translation from SymPy. What C computes of a
function is one row of `runtime/native/c/include/kinesym_functions.h`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from sympy.codegen import cfunctions

from kinesym.codegen import partials, values
from kinesym.codegen.partials import Rule

#: Precedence of a C expression that is a sum.
SUM = 1
#: Precedence of a C expression that is a product.
PRODUCT = 2
#: Precedence of a C expression that needs no parentheses.
ATOM = 3

#: Sizes of values. SMALL: about as small as the smaller of the operands may be; ORDINARY: never
#: tiny; TINY: maybe tiny while operands are of ordinary size.
SMALL, ORDINARY, TINY = "small", "ordinary", "tiny"

#: Signs of values: never negative; not negative if no operand is, or if one is not; unknown.
NONNEGATIVE, KEPT, EITHER, ANY = "nonnegative", "kept", "either", "any"

#: Parities: f(-x) = -f(x), f(-x) = f(x), neither.
ODD, EVEN, NEITHER = "odd", "even", "neither"


@dataclass(frozen=True)
class Operation:
    """Row of the table: one operation of the graph.

    name : of the operation; C calls it ks_<name>. arity : how many operands it has. value : of
    NumPy arrays, real or complex, see `codegen.values`. constant : of Python floats, for constants,
    which are folded; None: as `value`. partials : first derivatives, see `codegen.partials`; of
    `div` and `select` `codegen.derive` has them. parity, size, sign : see above. total : finite
    wherever its operands are, but for overflow. commutative : whether operands may be exchanged.
    text : C with {} for operands; empty for a call. inner, outer : precedence that operands need,
    and its own. shown : text for people, likewise. of : the SymPy class that it stands for, if its
    arguments are the operands. orders : if the first of them is a constant whole number, those
    that are allowed.
    """

    name: str
    value: Callable[..., Any]
    partials: Rule | None
    constant: Callable[..., float] | None = None
    arity: int = 1
    parity: str = NEITHER
    size: str = TINY
    sign: str = ANY
    total: bool = False
    commutative: bool = False
    text: str = ""
    inner: tuple[int, ...] = ()
    outer: int = ATOM
    shown: str = ""
    of: type | None = None
    orders: range = range(0)

    def folded(self, *x: float) -> float:
        """The value of constants; NaN outside of the domain."""
        try:
            return float((self.constant or self.value)(*x))
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    def __reduce__(self) -> tuple[Any, ...]:
        return operation_named, (self.name,)


def operation_named(name: str) -> Operation:
    """The row of that name."""
    return OPERATIONS[name]


def _one(
    name: str,
    value: Callable[..., Any],
    rule: Rule,
    parity: str = NEITHER,
    size: str = TINY,
    sign: str = ANY,
    total: bool = False,
    constant: Callable[..., float] | None = None,
    of: type | None = None,
) -> Operation:
    """A function of one number; constants as in `math` and classes of SymPy are those of the same
    name, unless others are given."""
    return Operation(
        name,
        value,
        rule,
        constant or getattr(math, name, None),
        parity=parity,
        size=size,
        sign=sign,
        total=total,
        of=of or getattr(sp, name, None) or getattr(cfunctions, name),
    )


def _comparison(name: str, holds: Callable[[Any, Any], Any], sign: str, of: type) -> Operation:
    """1.0 or 0.0, by real parts."""
    return Operation(
        name,
        lambda a, b: np.where(holds(np.real(a), np.real(b)), 1.0, 0.0),
        partials.flat(2),
        lambda a, b: float(holds(a, b)),
        arity=2,
        size=ORDINARY,
        sign=NONNEGATIVE,
        total=True,
        commutative=name == "eq",
        shown=f"({{}}{sign}{{}})",
        of=of,
    )


# -- rows -----------------------------------------------------------------------------------------

#: Operations that C has operators for, and choices.
_ARITHMETIC = (
    Operation(
        "neg",
        lambda a: -a,
        lambda g, y, a: (g.const(-1.0),),
        size=SMALL,
        total=True,
        text="-{}",
        inner=(ATOM,),
        outer=PRODUCT,
        shown="-{}",
    ),
    Operation(
        "inv",
        lambda a: 1.0 / a,
        lambda g, y, a: (g.neg(g.mul(y, y)),),
        size=SMALL,
        sign=KEPT,
        text="1.0/{}",
        inner=(ATOM,),
        outer=PRODUCT,
        shown="1/{}",
    ),
    Operation(
        "add",
        lambda a, b: a + b,
        lambda g, y, a: (g.one, g.one),
        arity=2,
        size=SMALL,
        sign=KEPT,
        total=True,
        text="{} + {}",
        inner=(SUM, PRODUCT),
        outer=SUM,
        shown="({} + {})",
    ),
    Operation(
        "sub",
        lambda a, b: a - b,
        lambda g, y, a: (g.one, g.const(-1.0)),
        arity=2,
        size=SMALL,
        total=True,
        text="{} - {}",
        inner=(SUM, PRODUCT),
        outer=SUM,
        shown="({} - {})",
    ),
    Operation(
        "mul",
        lambda a, b: a * b,
        lambda g, y, a: (a[1], a[0]),
        arity=2,
        sign=KEPT,
        total=True,
        text="{}*{}",
        inner=(PRODUCT, ATOM),
        outer=PRODUCT,
        shown="({}*{})",
    ),
    Operation(
        "div",
        lambda a, b: a / b,
        None,
        arity=2,
        sign=KEPT,
        text="{}/{}",
        inner=(PRODUCT, ATOM),
        outer=PRODUCT,
        shown="({}/{})",
    ),
    Operation("select", lambda c, a, b: np.where(c != 0.0, a, b), None, arity=3, total=True),
    Operation("locate", values.locate, partials.flat(4), arity=4, size=ORDINARY, total=True),
    Operation("entry", values.entry, partials.flat(4), arity=4),
)

#: Orders of special functions up to which second derivatives keep their digits.
_HIGHEST = 20

#: Functions of two numbers.
_OF_TWO = (
    Operation("pow", lambda a, b: a**b, partials.pow, math.pow, arity=2),
    Operation(
        "atan2", values.arctan2, partials.atan2, math.atan2, arity=2, total=True, of=sp.atan2
    ),
    Operation("mod", values.mod, partials.mod, lambda a, b: a % b, arity=2, of=sp.Mod),
    Operation(
        "min",
        values.chosen(lambda a, b: np.real(b) < np.real(a)),
        partials.minmax(True),
        min,
        arity=2,
        size=SMALL,
        sign=KEPT,
        total=True,
        commutative=True,
    ),
    Operation(
        "max",
        values.chosen(lambda a, b: np.real(a) < np.real(b)),
        partials.minmax(False),
        max,
        arity=2,
        size=SMALL,
        sign=EITHER,
        total=True,
        commutative=True,
    ),
    _comparison("lt", operator.lt, " < ", sp.StrictLessThan),
    _comparison("le", operator.le, " <= ", sp.LessThan),
    _comparison("eq", operator.eq, " == ", sp.Equality),
    Operation(
        "hypot",
        values.hypot,
        lambda g, y, a: (g.div(a[0], y), g.div(a[1], y)),
        math.hypot,
        arity=2,
        size=SMALL,
        sign=NONNEGATIVE,
        total=True,
        commutative=True,
        of=cfunctions.hypot,
    ),
    Operation(
        "polygamma",
        values.polygamma,
        partials.next_polygamma,
        arity=2,
        orders=range(_HIGHEST + 1),
        of=sp.polygamma,
    ),
    Operation(
        "besselj",
        values.bessel_j,
        partials.bessel("besselj"),
        arity=2,
        total=True,
        orders=range(-_HIGHEST, _HIGHEST + 1),
        of=sp.besselj,
    ),
    Operation(
        "bessely",
        values.bessel_y,
        partials.bessel("bessely"),
        arity=2,
        orders=range(-_HIGHEST, _HIGHEST + 1),
        of=sp.bessely,
    ),
)

#: Functions of one number.
_OF_ONE = (
    _one("sin", np.sin, lambda g, y, a: (g.function("cos", a[0]),), ODD, SMALL, total=True),
    _one("cos", np.cos, lambda g, y, a: (g.neg(g.function("sin", a[0])),), EVEN, SMALL, total=True),
    _one("tan", np.tan, lambda g, y, a: (g.add(g.one, g.mul(y, y)),), ODD, SMALL),
    _one("asin", np.arcsin, partials.asin, ODD, SMALL),
    _one("acos", np.arccos, lambda g, y, a: (g.neg(*partials.asin(g, y, a)),), NEITHER, SMALL),
    _one("atan", np.arctan, partials.atan, ODD, SMALL, total=True),
    _one("sinh", np.sinh, lambda g, y, a: (g.function("cosh", a[0]),), ODD),
    _one("cosh", np.cosh, lambda g, y, a: (g.function("sinh", a[0]),), EVEN, ORDINARY, NONNEGATIVE),
    _one("tanh", np.tanh, partials.tanh, ODD, SMALL, total=True),
    _one("asinh", np.arcsinh, partials.asinh, ODD, SMALL, total=True),
    _one("acosh", np.arccosh, partials.acosh, NEITHER, SMALL),
    _one("atanh", np.arctanh, partials.atanh, ODD, SMALL),
    _one("exp", np.exp, lambda g, y, a: (y,), NEITHER, TINY, NONNEGATIVE),
    _one("expm1", np.expm1, lambda g, y, a: (g.function("exp", a[0]),), NEITHER, SMALL),
    _one("log", np.log, lambda g, y, a: (g.div(g.one, a[0]),), NEITHER, ORDINARY),
    _one("log1p", np.log1p, lambda g, y, a: (g.inv(g.add(g.one, a[0])),), NEITHER, SMALL),
    _one("sqrt", np.sqrt, partials.sqrt, NEITHER, SMALL, NONNEGATIVE, of=cfunctions.Sqrt),
    _one("cbrt", values.cbrt, partials.cbrt, ODD, SMALL, total=True, of=cfunctions.Cbrt),
    _one("abs", values.size, partials.size, EVEN, SMALL, NONNEGATIVE, True, abs, sp.Abs),
    _one("sign", values.sign, partials.flat(1), ODD, ORDINARY, ANY, True, values.sign_of_constant),
    _one("floor", values.floor, partials.flat(1), NEITHER, ORDINARY, total=True),
    _one("erf", values.erf, partials.erf, ODD, SMALL, total=True),
    _one("erfc", values.erfc, partials.erfc, NEITHER, TINY, NONNEGATIVE, total=True),
    _one("gamma", values.gamma, partials.gamma, constant=values.gamma_of_constant),
    _one("loggamma", values.log_gamma, lambda g, y, a: (partials.digamma(g, a[0]),)),
)

#: Table of all operations, by name.
OPERATIONS: Mapping[str, Operation] = {row.name: row for row in (*_ARITHMETIC, *_OF_TWO, *_OF_ONE)}

#: Operations of one operand, functions of a number.
FUNCTIONS = frozenset(row.name for row in _OF_ONE)
