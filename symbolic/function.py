"""Functions that a user brings along: a value in C or in SymPy, with derivatives."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_identifier, listed, shown, suggest
from kinesym.symbolic.expression import Evaluated, parts, parts_of, real_expression
from kinesym.symbolic.table import NumericFunction, tabulated

#: Functions that C text may call: those of numbers of math.h.
_OF_C = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs fdim floor fma fmax fmin fmod hypot isfinite isinf isnan j0 j1 jn lgamma log log10 log1p "
    "log2 nearbyint pow remainder rint round sin sinh sqrt tan tanh tgamma trunc y0 y1 yn".split()
)
#: Constants of math.h, types, and words of statements.
_WORDS = frozenset(
    "INFINITY NAN M_E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_SQRT2 double int long const unsigned "
    "return if else for while do break continue sizeof size_t ptrdiff_t".split()
)
#: Words of C that are no names of arguments.
_RESERVED = (
    _WORDS
    | (_OF_C - set("j0 j1 jn y0 y1 yn".split()))
    | frozenset(
        "auto case char default enum extern float goto inline register restrict short signed "
        "static struct switch typedef union void volatile".split()
    )
)
#: Expressions that are refused in a function, as nothing looks for their jumps, numbers or past
#: there.
_REFUSED = {
    tabulated: "a table",
    sp.Piecewise: "a jump",
    sp.Heaviside: "a jump",
    sp.sign: "a jump",
    sp.floor: "a jump",
    sp.ceiling: "a jump",
    sp.frac: "a jump",
    sp.Mod: "a jump",
    sp.Derivative: "a derivative",
}
#: Values of the arguments at which derivatives are compared with differences of the value.
_TRIED = (0.3, 0.7, 1.3, 2.1)
#: Steps of these differences; where the two disagree, neither is believed.
_STEPS = (1e-5, 1e-4)
#: Relative error of a derivative that is taken for a mistake.
_WRONG = 1e-4


class Definition(sp.Atom):
    """Definition of a function of a user, the first operand of `applied`; equal content, equal.

    name : of it. arguments : symbols. body : C text, or nothing. formula : the same in SymPy, or
    None. derivatives : with respect to each argument; the function itself is an undefined function
    of its name there. python : the value of NumPy arrays where there is no formula; it counts for
    nothing where functions are compared.
    """

    __slots__ = ("__dict__", "arguments", "body", "derivatives", "formula", "name", "python")

    def __new__(
        cls,
        name: str,
        arguments: Sequence[sp.Symbol],
        body: str,
        formula: sp.Expr | None,
        derivatives: Sequence[sp.Expr],
        python: Callable[..., Any] | None,
    ) -> Definition:
        made: Definition = super().__new__(cls)
        made.name, made.arguments, made.body = name, tuple(arguments), body
        made.formula, made.derivatives, made.python = formula, tuple(derivatives), python
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (
            *(self.name, self.arguments, self.body, self.formula, self.derivatives),
            self.python,
        )

    def __getstate__(self) -> None:
        """Nothing beyond the arguments."""
        return

    def _hashable_content(self) -> tuple[Any, ...]:
        return self.name, self.digest.hex()

    def _sympystr(self, printer: Any) -> str:
        return self.name

    _latex = _sympyrepr = _sympystr

    @cached_property
    def digest(self) -> bytes:
        """Digest of all that decides its numbers."""
        told = (*self.arguments, self.formula, *self.derivatives)
        text = "\0".join((self.name, self.body, *map(_text, told)))
        return blake2b(text.encode(), digest_size=16).digest()

    @cached_property
    def slopes(self) -> tuple[sp.Expr, ...]:
        """The derivatives, where the function itself is this one."""
        return tuple(
            e.replace(
                lambda part: isinstance(part, AppliedUndef) and part.func.__name__ == self.name,
                lambda part: applied(self, *part.args),
            )
            for e in self.derivatives
        )

    @cached_property
    def _value(self) -> Callable[..., Any]:
        if self.formula is None:
            assert self.python is not None
            return self.python
        return NumericFunction(self.arguments, self.formula)

    @cached_property
    def numeric_slopes(self) -> Callable[..., Any]:
        """The derivatives as a function of numbers."""
        return NumericFunction(self.arguments, list(self.slopes))

    def __call__(self, *x: Any) -> Any:
        """The value at numbers or arrays; at complex ones continued from the real line to first
        order, for derivatives by the complex step."""
        real = [np.real(value) for value in x]
        found = self._value(*real)
        if any(map(np.iscomplexobj, x)):
            pairs = zip(self.numeric_slopes(*real), x, strict=True)
            return found + 1j * sum(slope * np.imag(value) for slope, value in pairs)
        return found


class applied(Evaluated):
    """A function of a user at its arguments: (definition, x, ...)."""

    def __new__(cls, definition: Definition, *x: sp.Expr) -> sp.Expr:
        if all(value.is_number for value in x):
            return sp.Float(float(definition(*map(float, x))))
        return super().__new__(cls, definition, *x)

    @property
    def definition(self) -> Definition:
        """Definition of the function."""
        found: Definition = self.args[0]
        return found

    @property
    def variables(self) -> tuple[sp.Expr, ...]:
        """Arguments that its value is taken at."""
        return self.args[1:]

    @property
    def evaluated(self) -> Definition:
        """Function of numbers or arrays in place of the variables."""
        return self.definition

    def _eval_derivative(self, symbol: sp.Basic) -> sp.Expr:
        values = dict(zip(self.definition.arguments, self.variables, strict=True))
        pairs = zip(self.definition.slopes, self.variables, strict=True)
        return sp.Add(*(e.xreplace(values) * x.diff(symbol) for e, x in pairs if x.has(symbol)))

    def _sympystr(self, printer: Any) -> str:
        return f"{self.definition.name}({', '.join(map(printer.doprint, self.variables))})"

    _latex = _sympyrepr = _sympystr


class OwnFunction:
    """A function that `function` has made: called with expressions or numbers, it is an
    expression."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition

    def __call__(self, *x: Any) -> sp.Expr:
        """The function at `x`, as many expressions or numbers as it has arguments."""
        own = self._definition
        if len(x) != len(own.arguments):
            raise ValueError(
                f"the function {own.name} takes {_counted(own.arguments)}, got {len(x)}"
            )
        given = [real_expression(value, f"an argument of the function {own.name}") for value in x]
        if own.formula is not None and not own.derivatives:
            return own.formula.xreplace(dict(zip(own.arguments, given, strict=True)))
        return applied(own, *given)

    def __repr__(self) -> str:
        names = ", ".join(symbol.name for symbol in self._definition.arguments)
        return f"<function {self._definition.name}({names})>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnFunction) and self._definition == other._definition

    def __hash__(self) -> int:
        return hash(self._definition)

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnFunction, (self._definition,)


def function(
    name: str,
    arguments: Any,
    value: Any,
    derivatives: Any = None,
    *,
    python: Any = None,
) -> OwnFunction:
    """A function of your own, of one or more numbers, for equations, outputs and objectives:
    `softplus = ks.function("softplus", [x], "log1p(exp(x))", [1/(1 + sp.exp(-x))], python=...)`,
    then `softplus(3*angle)`.

    Parameters
    ----------
    name : in printed expressions and generated C.
    arguments : SymPy symbols.
    value : an expression of the arguments, or C text: an expression such as "log1p(exp(x))", or
        statements that end in a `return`, of the arguments, which are of type double, and functions
        of math.h. C text is compiled as it stands into what this process runs: let it come from
        nobody whom you would not let write the rest of your program.
    derivatives : one expression for each argument, which may contain the arguments, other functions
        of this kind, and the function itself as `sp.Function(name)(*arguments)`. Second derivatives
        are those of these expressions. None: those of the value, which then is no C text.
    python : of C text, its value in Python: an expression of the arguments, by which kernels run
        where there is no compiler, too; or a function of NumPy arrays, one that pickles if the
        model shall. Kernels with C text and no expression need a compiler. That C text has the
        same value is not checked.

    A function whose value is an expression without further derivatives stands for that expression
    wherever it is called. Values and derivatives are smooth: jumps are not looked for in them.

    Raises `ValueError` for what is no name, for C text that uses what it does not have, for
    derivatives that are missing, of other symbols, jump, or are not those of the value.
    """
    _check_name(name, "the name of a function")
    what = f"the function {name}"
    symbols = _arguments(arguments, what)
    slopes = None if derivatives is None else _derivatives(derivatives, symbols, name, what)
    if not isinstance(value, str):
        if python is not None:
            raise ValueError(f"{what}: python is for C text; this value is Python's already")
        body, formula = "", _expression(value, symbols, "", f"{what}: its value")
    else:
        body, formula = value.strip(), _formula(python, symbols, what)
        _check_body(body, symbols, what)
        if slopes is None:
            raise ValueError(f"{what}: C text has no derivatives; give one for each argument")
        if python is None:
            raise ValueError(
                f"{what}: give the value of its C text in Python, too: python=..., an expression "
                "or a function of NumPy arrays"
            )
    if slopes is None:
        return OwnFunction(Definition(name, symbols, "", formula, (), None))
    if formula is not None:
        _check_smooth(formula, f"{what}: its value")
    made = Definition(name, symbols, body, formula, slopes, None if formula is not None else python)
    _check_values(made, what)
    return OwnFunction(made)


# -- what is given --------------------------------------------------------------------------------


def _check_name(name: Any, what: str) -> None:
    check_identifier(name, what)
    if not name.isascii() or keyword.iskeyword(name) or name in _RESERVED:
        raise ValueError(
            f"{what}, {name!r}, is a word of C or Python, or has letters that C does not know; "
            "take another one"
        )


def _arguments(given: Any, what: str) -> tuple[sp.Symbol, ...]:
    symbols = listed(given, f"{what}: the arguments")
    for symbol in symbols:
        if not isinstance(symbol, sp.Symbol):
            raise ValueError(f"{what}: the arguments are SymPy symbols, got {shown(symbol)}")
        _check_name(symbol.name, f"{what}: the name of an argument")
    if not symbols or len({symbol.name for symbol in symbols}) < len(symbols):
        raise ValueError(f"{what} needs arguments, each once, got {shown(given)}")
    return symbols


def _counted(arguments: Sequence[sp.Symbol]) -> str:
    return f"{len(arguments)} argument{'s' * (len(arguments) != 1)}"


def _check_body(body: str, symbols: Sequence[sp.Symbol], what: str) -> None:
    """Brackets that close, and names that C has or the text declares."""
    if not body:
        raise ValueError(
            f"{what}: the C text is empty; write an expression such as 'log1p(exp(x))'"
        )
    open_brackets: list[str] = []
    for letter in body:
        if letter in "([{":
            open_brackets.append({"(": ")", "[": "]", "{": "}"}[letter])
        elif letter in ")]}" and (not open_brackets or open_brackets.pop() != letter):
            raise ValueError(f"{what}: a bracket of the C text {shown(body)} closes nothing")
    if open_brackets:
        raise ValueError(f"{what}: a bracket of the C text {shown(body)} is not closed")
    if re.search(r"[#\\\"']|/\*|//", body):
        raise ValueError(
            f"{what}: C text is an expression or statements, without directives, text and "
            f"comments, got {shown(body)}"
        )
    if ";" in body and not re.search(r"\breturn\b", body):
        raise ValueError(f"{what}: statements of C end in a return of the value")
    own = {symbol.name for symbol in symbols}
    own |= set(re.findall(r"\b(?:double|int|long|size_t|ptrdiff_t)\s+(\w+)", body))
    own |= set(re.findall(r",\s*(\w+)\s*=", body))
    known = own | _OF_C | _WORDS
    text = re.sub(r"\b0[xX][\da-fA-F]+|(?:\b\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlLuU]*", " ", body)
    for word in re.findall(r"[A-Za-z_]\w*", text):
        if word not in known:
            raise ValueError(
                f"{what}: its C text contains {word}, which is no argument and not in math.h; "
                f"{suggest(word, known)}"
            )


def _check_smooth(e: sp.Expr, what: str) -> None:
    for part in parts(e):
        for kind, title in _REFUSED.items():
            if isinstance(part, kind):
                raise ValueError(
                    f"{what} contains {title}, {shown(part)}; functions are smooth: write it in "
                    "the equations of the model"
                )


def _expression(given: Any, symbols: Sequence[sp.Symbol], name: str, what: str) -> sp.Expr:
    """An expression of the arguments, and of the function itself if it has a name."""
    found = real_expression(given, what)
    for part in parts_of(AppliedUndef, found):
        if part.func.__name__ != name:
            raise ValueError(f"{what} contains {shown(part)}, which is unknown")
    others = parts_of(sp.Symbol, found) - set(symbols)
    if others:
        names = ", ".join(symbol.name for symbol in symbols)
        other = min(others, key=str)
        raise ValueError(f"{what} contains {other}; its arguments are {names}")
    return found


def _formula(given: Any, symbols: Sequence[sp.Symbol], what: str) -> sp.Expr | None:
    """The value of C text as an expression; None if it is a function of arrays."""
    if given is None or (callable(given) and not isinstance(given, sp.Basic)):
        return None
    return _expression(given, symbols, "", f"{what}: its value")


def _derivatives(
    given: Any, symbols: Sequence[sp.Symbol], name: str, what: str
) -> tuple[sp.Expr, ...]:
    """One for each argument; a single one need not be in a list."""
    several = isinstance(given, (list, tuple, np.ndarray, sp.MatrixBase))
    every = listed(given, f"{what}: the derivatives") if several else (given,)
    if len(every) != len(symbols):
        raise ValueError(
            f"{what} takes {_counted(symbols)}, got {len(every)} of its derivatives; give one for "
            "each argument"
        )
    found = []
    for e, symbol in zip(every, symbols, strict=True):
        title = f"{what}: the derivative with respect to {symbol.name}"
        found.append(_expression(e, symbols, name, title))
        _check_smooth(found[-1], title)
    return tuple(found)


def _check_values(made: Definition, what: str) -> None:
    """Check derivatives of a function of a user against differences of its values at a few
    places."""
    count = len(made.arguments)
    points = [np.array([*_TRIED[k:], *_TRIED[:k]]) * (1.0 + 0.1 * k) for k in range(count)]
    try:
        with np.errstate(all="ignore"):
            said = [np.broadcast_to(s, len(_TRIED)) for s in made.numeric_slopes(*points)]
            found = [[_difference(made, points, j, h) for h in _STEPS] for j in range(count)]
    except (TypeError, NameError, AttributeError) as error:
        raise ValueError(f"{what}: its value cannot be computed of arrays: {error}") from error
    for symbol, slope, (one, other) in zip(made.arguments, said, found, strict=True):
        off = np.abs(one - slope)
        sure = off > np.maximum(_WRONG * (1.0 + np.abs(one)), 3.0 * np.abs(one - other))
        for k in np.flatnonzero(sure)[:1]:
            pairs = zip(made.arguments, points, strict=True)
            at = ", ".join(f"{s.name} = {x[k]:g}" for s, x in pairs)
            raise ValueError(
                f"{what}: its derivative with respect to {symbol.name} is {slope[k]:.6g} at {at}, "
                f"where differences of its value give {one[k]:.6g}; mend one of them"
            )


def _difference(made: Definition, points: Sequence[Any], j: int, h: float) -> Any:
    """The derivative with respect to argument j, by central differences with a step h."""
    ends = [[*points[:j], points[j] + step, *points[j + 1 :]] for step in (h, -h)]
    above, below = (np.asarray(made(*end), dtype=float) for end in ends)
    return np.broadcast_to((above - below) / (2.0 * h), len(_TRIED))


def _text(told: Any) -> str:
    """An expression as text that tells all of it, functions of users by their digests."""
    if told is None:
        return ""
    own = sorted(part.digest.hex() for part in parts(told) if isinstance(part, Definition))
    return f"{sp.srepr(told)} {own}"
