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
from scipy import special
from sympy.codegen import cfunctions

from kinesym.codegen import partials, values
from kinesym.codegen.partials import Rule

#: Precedence of C operators.
SUM, PRODUCT, ATOM = 1, 2, 3

#: Sizes of values. SMALL: about as small as the smaller of the operands may be; ORDINARY: never
#: tiny; TINY: maybe tiny while operands are of ordinary size.
SMALL, ORDINARY, TINY = "small", "ordinary", "tiny"

#: Signs of values: never negative; not negative if no operand is, or if one is not; unknown.
NONNEGATIVE, KEPT, EITHER, ANY = "nonnegative", "kept", "either", "any"

#: Parities: f(-x) = -f(x), f(-x) = f(x), neither.
ODD, EVEN, NEITHER = "odd", "even", "neither"


@dataclass(frozen=True)
class Operation:
    """What one operation is.

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

#: What C has operators for, and choices.
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
        "atan2",
        values.arctan2,
        partials.atan2,
        math.atan2,
        arity=2,
        total=True,
        of=sp.atan2,
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
    Operation(
        "sin",
        np.sin,
        lambda g, y, a: (g.function("cos", a[0]),),
        math.sin,
        parity=ODD,
        size=SMALL,
        total=True,
        of=sp.sin,
    ),
    Operation(
        "cos",
        np.cos,
        lambda g, y, a: (g.neg(g.function("sin", a[0])),),
        math.cos,
        parity=EVEN,
        size=SMALL,
        total=True,
        of=sp.cos,
    ),
    Operation(
        "tan",
        np.tan,
        lambda g, y, a: (g.add(g.one, g.mul(y, y)),),
        math.tan,
        parity=ODD,
        size=SMALL,
        of=sp.tan,
    ),
    Operation(
        "asin",
        np.arcsin,
        partials.asin,
        math.asin,
        parity=ODD,
        size=SMALL,
        of=sp.asin,
    ),
    Operation(
        "acos",
        np.arccos,
        lambda g, y, a: (g.neg(*partials.asin(g, y, a)),),
        math.acos,
        size=SMALL,
        of=sp.acos,
    ),
    Operation(
        "atan",
        np.arctan,
        partials.atan,
        math.atan,
        parity=ODD,
        size=SMALL,
        total=True,
        of=sp.atan,
    ),
    Operation(
        "sinh",
        np.sinh,
        lambda g, y, a: (g.function("cosh", a[0]),),
        math.sinh,
        parity=ODD,
        of=sp.sinh,
    ),
    Operation(
        "cosh",
        np.cosh,
        lambda g, y, a: (g.function("sinh", a[0]),),
        math.cosh,
        parity=EVEN,
        size=ORDINARY,
        sign=NONNEGATIVE,
        of=sp.cosh,
    ),
    Operation(
        "tanh",
        np.tanh,
        partials.tanh,
        math.tanh,
        parity=ODD,
        size=SMALL,
        total=True,
        of=sp.tanh,
    ),
    Operation(
        "asinh",
        np.arcsinh,
        partials.asinh,
        math.asinh,
        parity=ODD,
        size=SMALL,
        total=True,
        of=sp.asinh,
    ),
    Operation("acosh", np.arccosh, partials.acosh, math.acosh, size=SMALL, of=sp.acosh),
    Operation(
        "atanh",
        np.arctanh,
        partials.atanh,
        math.atanh,
        parity=ODD,
        size=SMALL,
        of=sp.atanh,
    ),
    Operation("exp", np.exp, lambda g, y, a: (y,), math.exp, sign=NONNEGATIVE, of=sp.exp),
    Operation(
        "expm1",
        np.expm1,
        lambda g, y, a: (g.function("exp", a[0]),),
        math.expm1,
        size=SMALL,
        of=cfunctions.expm1,
    ),
    Operation(
        "log",
        np.log,
        lambda g, y, a: (g.div(g.one, a[0]),),
        math.log,
        size=ORDINARY,
    ),
    Operation(
        "log1p",
        np.log1p,
        lambda g, y, a: (g.inv(g.add(g.one, a[0])),),
        math.log1p,
        size=SMALL,
        of=cfunctions.log1p,
    ),
    Operation(
        "sqrt",
        np.sqrt,
        lambda g, y, a: (partials.scaled(g, 0.5, g.div(g.one, y)),),
        math.sqrt,
        size=SMALL,
        sign=NONNEGATIVE,
        of=cfunctions.Sqrt,
    ),
    Operation(
        "cbrt",
        values.cbrt,
        lambda g, y, a: (partials.scaled(g, 1.0 / 3.0, g.div(g.one, g.mul(y, y))),),
        parity=ODD,
        size=SMALL,
        total=True,
        of=cfunctions.Cbrt,
    ),
    Operation(
        "abs",
        lambda a: np.where(np.real(a) < 0.0, -a, a),
        lambda g, y, a: (g.function("sign", a[0]),),
        abs,
        parity=EVEN,
        size=SMALL,
        sign=NONNEGATIVE,
        total=True,
        of=sp.Abs,
    ),
    Operation(
        "sign",
        lambda a: np.sign(np.real(a)),
        partials.flat(1),
        lambda a: math.copysign(1.0, a) if a else 0.0,
        parity=ODD,
        size=ORDINARY,
        total=True,
        of=sp.sign,
    ),
    Operation(
        "floor",
        lambda a: np.floor(np.real(a)),
        partials.flat(1),
        math.floor,
        size=ORDINARY,
        total=True,
        of=sp.floor,
    ),
    Operation(
        "erf", special.erf, partials.erf, math.erf, parity=ODD, size=SMALL, total=True, of=sp.erf
    ),
    Operation(
        "erfc",
        special.erfc,
        lambda g, y, a: (g.neg(*partials.erf(g, y, a)),),
        math.erfc,
        sign=NONNEGATIVE,
        total=True,
        of=sp.erfc,
    ),
    Operation(
        "gamma",
        values.gamma,
        lambda g, y, a: (g.mul(y, partials.digamma(g, a[0])),),
        values.gamma_of_constant,
        of=sp.gamma,
    ),
    Operation(
        "loggamma",
        values.log_gamma,
        lambda g, y, a: (partials.digamma(g, a[0]),),
        of=sp.loggamma,
    ),
)

#: All, by name.
OPERATIONS: Mapping[str, Operation] = {row.name: row for row in (*_ARITHMETIC, *_OF_TWO, *_OF_ONE)}

#: Those of one operand, functions of a number.
FUNCTIONS = frozenset(row.name for row in _OF_ONE)
