"""Derivatives of expressions along given rates, through intermediates; their values at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from operator import mul
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef
from sympy.functions.elementary.piecewise import ExprCondPair

from kinesym.symbolic.expression import atoms_of, parts_of
from kinesym.symbolic.function import Definition, applied
from kinesym.symbolic.names import name_of
from kinesym.symbolic.table import Record, tabulated

#: Intermediates in order, each with what it stands for.
Program = Sequence[tuple[Any, sp.Expr]]

#: Complex step: its square is nothing beside 1, so that derivatives are exact to rounding.
_STEP = 1e-40


class Derivation:
    """The derivative of expressions for given rates of what they contain.

    program : intermediates; the rates of those that are met become intermediates too, after the
    others, so that nothing is expanded. rate : of every other symbol, function or derivative.
    name : of the rate of an intermediate, which nothing else has.
    """

    def __init__(
        self,
        program: Program,
        rate: Callable[[sp.Basic], sp.Expr],
        name: Callable[[sp.Basic], str],
    ) -> None:
        self.program = list(program)
        self._rate, self._name = rate, name
        self._meaning = dict(program)
        self._rates: dict[sp.Basic, sp.Expr] = {}

    def __call__(self, expression: sp.Expr) -> sp.Expr:
        """The derivative of an expression."""
        atoms = sorted(atoms_of(expression), key=str)
        real = {atom: sp.Dummy(str(atom), real=True) for atom in atoms}  # d |z| / d z is a sign
        back = {symbol: atom for atom, symbol in real.items()}
        plain = expression.xreplace(real)
        terms = []
        for atom in atoms:
            if plain.has(real[atom]) and (rate := self._rate_of(atom)) != 0:
                slope = plain.diff(real[atom])
                jumps = {d: sp.S.Zero for d in slope.atoms(sp.DiracDelta, sp.Derivative)}
                terms.append(slope.xreplace(jumps).xreplace(back) * rate)
        return sp.Add(*terms)

    def _rate_of(self, atom: sp.Basic) -> sp.Expr:
        if atom not in self._meaning:
            return self._rate(atom)
        if atom not in self._rates:
            found = self(self._meaning[atom])
            if not found.is_number:
                symbol = sp.Symbol(self._name(atom))
                self.program.append((symbol, found))
                self._meaning[symbol] = found
                found = symbol
            self._rates[atom] = found
        return self._rates[atom]


def all_atoms(program: Program, expression: sp.Expr) -> set[sp.Basic]:
    """The symbols and functions in an expression, and in the intermediates that it needs."""
    found = parts_of((AppliedUndef, sp.Symbol), expression)
    for symbol, value in reversed(program):
        if symbol in found:
            found |= parts_of((AppliedUndef, sp.Symbol), value)
    return found


def fresh_name(wanted: str, taken: Iterable[sp.Basic | str]) -> str:
    """`wanted`, with underscores where that is a name already."""
    names = {name if isinstance(name, str) else name_of(name) for name in taken}
    while wanted in names:
        wanted += "_"
    return wanted


def exchanged(program: Program, table: Mapping[Any, sp.Expr]) -> tuple[tuple[Any, sp.Expr], ...]:
    """A program with symbols exchanged in what its intermediates stand for."""
    return tuple((symbol, e.xreplace(table)) for symbol, e in program)


# -- numbers -------------------------------------------------------------------------------------


def jacobian_at(
    expressions: Sequence[sp.Expr],
    program: Program,
    variables: Sequence[sp.Basic],
    point: Mapping[sp.Basic, float],
) -> NDArray[np.float64]:
    """Derivatives of expressions (rows) by variables (columns) at a point, by the complex step.

    NaN where an expression is no real number there.
    """
    count = len(variables)
    known: dict[sp.Basic, Any] = {atom: complex(value) for atom, value in point.items()}
    for j, variable in enumerate(variables):
        steps = np.zeros(count + 1)
        steps[j] = _STEP
        known[variable] = known[variable] + 1j * steps
    with np.errstate(all="ignore"):
        for symbol, e in program:
            known[symbol] = evaluate(e, known)
        rows = [np.broadcast_to(evaluate(e, known), count + 1) for e in expressions]
    values = np.array(rows, dtype=complex).reshape(len(rows), count + 1)
    slopes = values[:, :count].imag / _STEP
    slopes[values[:, count].imag != 0.0] = np.nan
    return np.asarray(slopes)


def values_at(
    expressions: Sequence[sp.Expr], program: Program, point: Mapping[sp.Basic, float]
) -> NDArray[np.float64]:
    """Values of expressions at a point; NaN where one is no real number."""
    known: dict[sp.Basic, Any] = {atom: complex(value) for atom, value in point.items()}
    with np.errstate(all="ignore"):
        for symbol, e in program:
            known[symbol] = evaluate(e, known)
        values = np.array([evaluate(e, known) for e in expressions], dtype=complex)
    return np.where(values.imag == 0.0, values.real, np.nan)


def evaluate(expression: sp.Basic, known: dict[sp.Basic, Any]) -> Any:
    """The value of an expression, complex, each part of it once; `known` is extended."""
    stack = [expression]
    while stack:
        top = stack[-1]
        if top in known:
            stack.pop()
            continue
        operands = [part for pair in top.args for part in _parts(pair)]
        missing = [a for a in operands if a not in known]
        if missing:
            stack.extend(missing)
        else:
            known[stack.pop()] = _value(top, [known[a] for a in operands])
    return known[expression]


def _parts(argument: sp.Basic) -> tuple[sp.Basic, ...]:
    """A piece of a function as its expression and its condition."""
    return tuple(argument.args) if isinstance(argument, ExprCondPair) else (argument,)


def _value(e: sp.Basic, operands: Sequence[Any]) -> Any:
    if e in (sp.true, sp.false):
        return e is sp.true
    if isinstance(e, (Record, Definition)):
        return e
    if not e.args:
        return complex(e) if e.is_number else complex(np.nan)
    special = _SPECIAL.get(type(e))
    if special is not None:
        return special(*operands)
    try:
        return _numeric(e.func, len(operands))(*operands)
    except (NameError, TypeError, ValueError, RecursionError):  # without numbers: nothing is known
        return complex(np.nan)


@lru_cache(maxsize=256)
def _numeric(function: Any, count: int) -> Any:
    symbols = sp.symbols(f"a:{count}")
    return sp.lambdify(symbols, function(*symbols))


def _piecewise(*values: Any) -> Any:
    found: Any = complex(np.nan)
    for value, condition in zip(values[-2::-2], values[::-2], strict=True):
        found = np.where(condition, value, found)
    return found


def _atan2(y: Any, x: Any) -> Any:
    a, b = np.real(y), np.real(x)
    return np.arctan2(a, b) + 1j * (b * np.imag(y) - a * np.imag(x)) / (a * a + b * b)


def _extreme(sign: float) -> Callable[..., Any]:
    return lambda *z: reduce(lambda a, b: np.where(sign * np.real(b) > sign * np.real(a), b, a), z)


def _tabulated(record: Record, *rest: Any) -> Any:
    variables, orders = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    return record([int(np.real(order)) for order in orders], *variables)


#: Functions of complex numbers that are continued analytically from the real ones.
_SPECIAL: dict[type, Callable[..., Any]] = {
    sp.Add: lambda *z: sum(z[1:], z[0]),
    sp.Mul: lambda *z: reduce(mul, z),
    sp.Pow: lambda base, exponent: np.power(base, exponent),
    sp.exp: np.exp,
    sp.log: np.log,
    sp.sin: np.sin,
    sp.cos: np.cos,
    sp.tan: np.tan,
    sp.tanh: np.tanh,
    sp.Abs: lambda z: np.where(np.real(z) < 0.0, -z, z),
    sp.sign: lambda z: np.sign(np.real(z)) + 0j,
    sp.floor: lambda z: np.floor(np.real(z)) + 0j,
    sp.ceiling: lambda z: np.ceil(np.real(z)) + 0j,
    sp.Heaviside: lambda z, zero: np.heaviside(np.real(z), np.real(zero)) + 0j,
    sp.Mod: lambda z, by: z - by * np.floor(np.real(z / by)),
    sp.Max: _extreme(1.0),
    sp.Min: _extreme(-1.0),
    sp.atan2: _atan2,
    sp.Piecewise: _piecewise,
    sp.StrictLessThan: lambda a, b: np.real(a) < np.real(b),
    sp.LessThan: lambda a, b: np.real(a) <= np.real(b),
    sp.StrictGreaterThan: lambda a, b: np.real(a) > np.real(b),
    sp.GreaterThan: lambda a, b: np.real(a) >= np.real(b),
    sp.Eq: lambda a, b: np.real(a) == np.real(b),
    sp.Ne: lambda a, b: np.real(a) != np.real(b),
    sp.And: lambda *z: reduce(np.logical_and, z),
    sp.Or: lambda *z: reduce(np.logical_or, z),
    sp.Not: np.logical_not,
    tabulated: _tabulated,
    applied: lambda definition, *z: definition(*z),
}
