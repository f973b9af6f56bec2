"""A function of CasADi becomes a model: its instructions, one by one, in SymPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import casadi
import numpy as np
import sympy as sp
from sympy.codegen import cfunctions
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean, BooleanAtom, BooleanFunction

from kinesym.base.checks import listed, shown
from kinesym.symbolic.names import t

#: Arguments that a function may have, by their names in CasADi.
ARGUMENTS: Mapping[str, str] = MappingProxyType(
    {"xdot": "x'", "x": "states", "z": "algebraic states", "u": "inputs", "p": "parameters"}
    | {"t": "time"}
)
#: Names of results that are x', and of those that are to be zero; all others are outputs.
_RATES, _EQUATIONS = ("dx", "ode", "xdot", "rhs"), ("residual", "alg")
#: Order of arguments without names.
_UNNAMED = ("x", "u", "p", "t")
#: What is true or false; symbols, which could be, are numbers.
_LOGIC = (Relational, BooleanFunction, BooleanAtom)
#: Operations of one expression; a longer one becomes an intermediate.
_LONGEST = 30


class Parts(NamedTuple):
    """States, inputs, parameters, equations, outputs and intermediates of a model."""

    states: list[sp.Expr]
    inputs: list[sp.Expr]
    parameters: list[sp.Symbol]
    equations: list[sp.Expr]
    outputs: dict[str, sp.Expr]
    intermediates: list[tuple[sp.Symbol, sp.Expr]]


def parts_of_function(
    function: Any,
    names: Mapping[str, Sequence[str] | None],
    arguments: Sequence[str] | None,
    results: Sequence[str] | None,
) -> Parts:
    """Parts of the model that a `casadi.Function` of SX is; see `Model.from_casadi`.

    names : of "states", "inputs", "parameters" and "outputs", None for those of the function.
    """
    _check(function)
    roles = _arguments(function, arguments)
    kinds = _results(function, results, roles)
    own = {role: [str(e) for e in function.sx_in(k).nonzeros()] for k, role in enumerate(roles)}
    n = len(own.get("x", ()))
    groups = {
        "states": own.get("x", []) + own.get("z", []),
        "inputs": own.get("u", []),
        "parameters": own.get("p", []),
        "outputs": _outputs(function, kinds),
    }
    named = {
        what: _named(names[what], found, f"{function.name()}: the {what}")
        for what, found in groups.items()
    }
    states, inputs = ([sp.Function(x)(t) for x in named[what]] for what in ("states", "inputs"))
    parameters = [sp.Symbol(name) for name in named["parameters"]]
    rates = [x.diff(t) for x in states]
    symbols = {"x": states[:n], "z": states[n:], "u": inputs, "p": parameters, "t": [t]}
    given = [symbols.get(role, rates[: len(own[role])]) for role in roles]
    for role, column in zip(roles, given, strict=True):
        if len(own[role]) != len(column):
            raise ValueError(
                f"{function.name()}: {role} ({ARGUMENTS[role]}) has {len(own[role])} entries, "
                f"expected {len(column)}"
            )
    columns, intermediates = _Reader(function, given, {*chain(*named.values())}).read()
    equations, outputs = list[sp.Expr](), list[sp.Expr]()
    for kind, column in zip(kinds, columns, strict=True):
        if kind in _RATES and len(column) != n:
            raise ValueError(
                f"{function.name()}: {kind} is x' and has {len(column)} entries for {n} states; "
                "say with results=[...] what the results are: 'dx', 'residual' or names of outputs"
            )
        if kind in _RATES:
            equations += [rate - e for rate, e in zip(rates, column, strict=False)]
        else:
            (equations if kind in _EQUATIONS else outputs).extend(column)
    return Parts(
        *(states, inputs, parameters, equations),
        *(dict(zip(named["outputs"], outputs, strict=True)), intermediates),
    )


def _outputs(function: Any, kinds: Sequence[str]) -> list[str]:
    """Names of the entries of results that are outputs: `y`, or `y_0`, `y_1`, ... of several."""
    found = list[str]()
    for k, kind in enumerate(kinds):
        if kind not in (*_RATES, *_EQUATIONS):
            count = function.numel_out(k)
            found += [kind] if count == 1 else [f"{kind}_{i}" for i in range(count)]
    return found


def _check(function: Any) -> None:
    """Raise `ValueError` for anything but a function of SX without free variables."""
    if not isinstance(function, casadi.Function):
        raise ValueError(f"expected a casadi.Function, got {shown(function)}")
    name = function.name()
    if not function.is_a("SXFunction"):
        raise ValueError(
            f"{name} is a {function.class_name()}; give {name}.expand(), which makes it one of SX"
        )
    if function.has_free():
        raise ValueError(
            f"{name} contains {', '.join(function.get_free())}, which is none of its arguments; "
            "add it to the parameters"
        )


def _arguments(function: Any, given: Sequence[str] | None) -> list[str]:
    """Role of each argument, a key of `ARGUMENTS`."""
    name, own = function.name(), function.name_in()
    unnamed = own == [f"i{k}" for k in range(len(own))]
    found = own if given is None else [*listed(given, f"{name}: arguments")]
    if given is None and unnamed:
        found = list(_UNNAMED[: len(own)])
    if len(found) != len(own) or len({*found}) != len(found) or not {*found} <= {*ARGUMENTS}:
        raise ValueError(
            f"{name} has the arguments {', '.join(own)}, taken as {shown(found)}; say what they "
            "are with arguments=[...], each one of "
            + ", ".join(f"{role!r} ({words})" for role, words in ARGUMENTS.items())
        )
    return found


def _results(function: Any, given: Sequence[str] | None, roles: Sequence[str]) -> list[str]:
    """Role of each result."""
    name, own = function.name(), function.name_out()
    found = own if given is None else [*listed(given, f"{name}: results")]
    if given is None and own == [f"o{k}" for k in range(len(own))]:
        found = ["residual" if "xdot" in roles else "dx", *own[1:]]
    if len(found) != len(own) or not {*found} & {*_RATES, *_EQUATIONS}:
        raise ValueError(
            f"{name} has the results {', '.join(own)}, taken as {shown(found)}; say what they are "
            "with results=[...]: 'dx' for x', 'residual' for what is to be zero, other names for "
            "outputs"
        )
    return found


def _named(given: Sequence[str] | None, own: list[str], what: str) -> list[str]:
    names = own if given is None else [str(name) for name in listed(given, what)]
    if len(names) != len(own):
        raise ValueError(f"{what} are {len(own)}, got {len(names)} names")
    return names


# -- instructions ---------------------------------------------------------------------------------


def _number(value: sp.Basic) -> sp.Expr:
    """An operand in arithmetic: 1 or 0 for a condition."""
    if value in (sp.true, sp.false):
        return sp.Integer(value is sp.true)
    return _choice(value, sp.S.One, sp.S.Zero) if isinstance(value, _LOGIC) else value


def _condition(value: sp.Basic) -> Boolean:
    """An operand of logic: whether it is not zero."""
    if value.is_Number:
        return sp.false if value == 0 else sp.true
    return value if isinstance(value, _LOGIC) else sp.Ne(value, 0, evaluate=False)


def _choice(condition: Boolean, value: sp.Expr, other: sp.Expr) -> sp.Expr:
    """`value` where the condition holds, else `other`; NaN is what no case of SymPy says."""
    if value is sp.nan:
        condition, value, other = sp.Not(condition), other, value
    rest = [] if other is sp.nan else [(other, True)]
    return sp.Piecewise((value, condition), *rest, evaluate=False)


def _masked(e: sp.Expr) -> tuple[Boolean | None, sp.Expr]:
    """The condition of what is a value or zero, and the value."""
    if isinstance(e, sp.Piecewise):
        (first, condition), *rest = e.args
        if rest and rest[0].expr == 0:
            return condition, first
        if first == 0:
            return sp.Not(condition), rest[0].expr if rest else sp.nan
    return None, e


def _sum(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """The sum; of a value where a condition holds and another where it does not, as CasADi writes
    if-else, one choice."""
    (here, value), (there, other) = _masked(a), _masked(b)
    if here is not None and there is not None and there == sp.Not(here):
        return _choice(here, value, other)
    return a + b


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of SymPy that does not look for simpler forms, which takes long."""
    return lambda *x: function(*x, evaluate=False)


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *x: function(*map(_number, x))


_size, _power = _as_it_is(sp.Abs), _as_it_is(sp.Pow)


def _of_relation(relation: type) -> Callable[..., Boolean]:
    """A comparison, which does not hold of NaN."""
    never = sp.true if relation is sp.Unequality else sp.false

    def made(a: sp.Basic, b: sp.Basic) -> Boolean:
        x, y = _number(a), _number(b)
        return never if sp.nan in (x, y) else relation(x, y, evaluate=False)

    return made


def _remainder(x: sp.Expr, y: sp.Expr) -> sp.Expr:
    """Remainder of C, with the sign of x."""
    size = _as_it_is(sp.Mod)(_size(x), _size(y))
    return _choice(sp.Lt(x, 0, evaluate=False), -size, size)


#: What the operations of CasADi are in SymPy, by their names there without OP_.
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "ASSIGN": lambda a: a,
    "LIFT": lambda a, b: a,
    "PRINTME": lambda a, b: a,
    "ADD": _sum,
    "SUB": lambda a, b: a - b,
    "MUL": lambda a, b: a * b,
    "DIV": lambda a, b: a / b if b.is_Number else a * _power(b, -1),
    "NEG": lambda a: -a,
    "INV": lambda a: _power(a, -1),
    "SQ": lambda a: _power(a, 2),
    "TWICE": lambda a: 2 * a,
    "POW": _power,
    "CONSTPOW": _power,
    "SQRT": _as_it_is(sp.sqrt),
    "FABS": _size,
    "CEIL": _as_it_is(sp.ceiling),
    "FMIN": _as_it_is(sp.Min),
    "FMAX": _as_it_is(sp.Max),
    "FMOD": _remainder,
    "COPYSIGN": lambda a, b: _choice(sp.Lt(b, 0, evaluate=False), -_size(a), _size(a)),
    **{
        name.upper(): _as_it_is(getattr(sp, name))
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh"),
            *("acosh", "atanh", "exp", "log", "floor", "sign", "erf", "atan2"),
        )
    },
    **{name.upper(): getattr(cfunctions, name) for name in ("log1p", "expm1", "hypot")},
}
_LOGICAL: Mapping[str, Callable[..., Any]] = {
    "LT": _of_relation(sp.StrictLessThan),
    "LE": _of_relation(sp.LessThan),
    "EQ": _of_relation(sp.Equality),
    "NE": _of_relation(sp.Unequality),
    "NOT": lambda a: sp.Not(_condition(a)),
    "AND": lambda a, b: sp.And(_condition(a), _condition(b), evaluate=False),
    "OR": lambda a, b: sp.Or(_condition(a), _condition(b), evaluate=False),
    "IF_ELSE_ZERO": lambda c, a: _choice(_condition(c), _number(a), sp.S.Zero),
}
OPERATIONS_IN_SYMPY: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {**{name: _of_numbers(value) for name, value in _ARITHMETIC.items()}, **_LOGICAL}
)


#: Operations with conditions: choices within these SymPy would multiply out.
_COMPARING = (*_LOGICAL, "FMOD", "COPYSIGN")
#: Constants that are neither finite nor NaN.
_INFINITE = (sp.oo, -sp.oo, sp.zoo)


class _Reader:
    """Expressions of the results of a function, and intermediates for what is used more than once
    or would be long."""

    def __init__(self, function: Any, given: Sequence[Sequence[sp.Expr]], taken: set[str]) -> None:
        self.function, self.given, self.taken = function, given, taken
        self.intermediates: list[tuple[sp.Symbol, sp.Expr]] = []
        numbers = {getattr(casadi, name): name[3:] for name in dir(casadi) if name[:3] == "OP_"}
        count = function.n_instructions()
        self.ops = [numbers[function.instruction_id(k)] for k in range(count)]
        self.uses: Counter[int] = Counter()  # of the result of each instruction
        self.compared: set[int] = set()  # those that stand in conditions
        self._count()

    def _count(self) -> None:
        """Count uses; places in the work vector are used again."""
        made: dict[int, int] = {}
        for k, op in enumerate(self.ops):
            if op != "INPUT":
                used = [made[place] for place in self.function.instruction_input(k)]
                self.uses.update(used)
                self.compared.update(used if op in _COMPARING else ())
            if op != "OUTPUT":
                made.update(dict.fromkeys(self.function.instruction_output(k), k))

    def read(self) -> tuple[list[list[sp.Expr]], list[tuple[sp.Symbol, sp.Expr]]]:
        """The entries of each result, those that are not there are zero, and the intermediates."""
        f = self.function
        columns = [[sp.S.Zero] * f.numel_out(k) for k in range(f.n_out())]
        places = [f.sparsity_out(k).find() for k in range(f.n_out())]
        work: dict[int, tuple[sp.Basic, int]] = {}
        for k, op in enumerate(self.ops):
            source, target = f.instruction_input(k), f.instruction_output(k)
            if op == "OUTPUT":
                columns[target[0]][places[target[0]][target[1]]] = _number(work[source[0]][0])
            elif op == "INPUT":
                work[target[0]] = self.given[source[0]][source[1]], 0
            elif op == "CONST":
                work[target[0]] = _constant(f.instruction_constant(k)), 0
            else:
                operands = [work[place] for place in source]
                size = 1 + sum(size for _, size in operands)
                value = self._applied(k, op, [value for value, _ in operands])
                work[target[0]] = self._kept(k, value, size)
        return columns, self.intermediates

    def _applied(self, k: int, op: str, operands: Sequence[sp.Basic]) -> sp.Basic:
        if op not in OPERATIONS_IN_SYMPY:
            remedy = "write it with other functions"
            if op == "CALL":
                remedy = "make the function that is called without never_inline"
            raise ValueError(
                f"{self.function.name()}: instruction {k} is {op}, which a model cannot have; "
                f"{remedy}"
            )
        numbers = [_number(x) for x in operands]
        if all(x.is_Number for x in numbers):
            function = casadi.SX.unary if len(numbers) == 1 else casadi.SX.binary
            value = _constant(
                float(function(self.function.instruction_id(k), *map(float, numbers)))
            )
        else:
            value = OPERATIONS_IN_SYMPY[op](*operands)
        if value in _INFINITE:
            raise ValueError(
                f"{self.function.name()}: instruction {k}, {op}, is infinite whatever the "
                "arguments are; a model cannot have it"
            )
        return value

    def _kept(self, k: int, value: sp.Basic, size: int) -> tuple[sp.Basic, int]:
        """A value, or an intermediate in its place, and the operations of it."""
        logic = isinstance(value, _LOGIC)
        shared = self.uses[k] > 1 or (k in self.compared and value.has(sp.Piecewise))
        if not value.args or not (size > _LONGEST or (shared and not logic)):
            return value, size
        name = f"v{len(self.intermediates) + 1}"
        while name in self.taken:
            name += "_"
        symbol = sp.Symbol(name)
        self.intermediates.append((symbol, _number(value)))
        return symbol, 0


def _constant(value: float) -> sp.Expr:
    """A number, a whole one as such."""
    whole = np.isfinite(value) and value == int(value) and abs(value) < 2.0**53
    return sp.Integer(int(value)) if whole else sp.Float(value)
