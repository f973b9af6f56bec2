"""Prints kernels as statements of NumPy, for files that people read."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from kinesym.codegen.c import Printer, identifier, inputs_of
from kinesym.codegen.kernel import Kernel
from kinesym.codegen.operations import ATOM
from kinesym.codegen.own import without_own
from kinesym.codegen.schedule import Schedule, schedule, whole

#: Letters of an expression that is written inside its only user.
_LONGEST = 40

#: Functions by operation; those of `special` are SciPy's.
FUNCTIONS_OF_NUMPY: Mapping[str, str] = MappingProxyType(
    {
        "asin": "np.arcsin",
        "acos": "np.arccos",
        "atan": "np.arctan",
        "asinh": "np.arcsinh",
        "acosh": "np.arccosh",
        "atanh": "np.arctanh",
        "atan2": "np.arctan2",
        "min": "np.minimum",
        "max": "np.maximum",
        "besselj": "special.jv",
        "bessely": "special.yv",
        **{
            name: f"np.{name}"
            for name in (
                *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log1p"),
                *("sqrt", "cbrt", "abs", "sign", "floor", "mod", "hypot"),
            )
        },
        **{name: f"special.{name}" for name in ("erf", "erfc", "gamma", "loggamma", "polygamma")},
    }
)
#: Comparisons by operation.
_SIGNS = {"lt": "<", "le": "<=", "eq": "=="}


class Names:
    """Names of Python, each for one thing only, in the order in which they are asked for."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken, self._count = {*taken}, 0

    def __call__(self, wanted: str) -> str:
        """The name that is wanted, as an identifier that is not taken and is no keyword."""
        name = identifier(wanted)
        while name in self._taken or keyword.iskeyword(name):
            name += "_"
        self._taken.add(name)
        return name

    def next(self) -> str:
        """The next of v1, v2, ..."""
        self._count += 1
        return self(f"v{self._count}")

    def copy(self) -> Names:
        """Names with the same ones taken."""
        return Names(self._taken)


def statements(
    kernel: Kernel,
    labels: Sequence[str],
    symbols: Mapping[str, str],
    known: Mapping[int, str],
    names: Names,
) -> tuple[list[str], list[str]]:
    """Statements that compute a kernel, and the text of each of its outputs after them.

    labels : what each output is. symbols : names of arguments by symbol. known : names of nodes
    that have one. names : those of others. Raises `ValueError` for functions of users that are C
    text alone.
    """
    kernel = without_own(kernel, False)
    varying = tuple(replace(a, varying=True) for a in kernel.arguments)
    printer = _Printer(
        replace(kernel, arguments=varying, labels=tuple(labels)), symbols, known, names
    )
    return printer.lines(), [printer.rows[k] for k in range(len(kernel.outputs))]


class _Printer(Printer):
    """Statements of a kernel, of arrays. rows : the text of each output."""

    def __init__(
        self, kernel: Kernel, symbols: Mapping[str, str], known: Mapping[int, str], names: Names
    ) -> None:
        plan = schedule(kernel, kernel.operations + 1)
        bare = Schedule((), {}, (), 0)
        super().__init__(kernel, bare, inputs_of(kernel), whole(plan), hoisted=False)
        g = kernel.graph
        self.text = {n: (symbols[g.name[n]], ATOM) for n in kernel.nodes if n in g.name}
        self.pairs, self.known, self.names = {}, known, names
        self.rows: dict[int, str] = {}
        self._begin = 0  # of the statements of the next output

    def _declare(self, node: int, name: str, text: str) -> str:
        self.text[node] = (name, ATOM)
        self.statements.append(f"{name} = {text}")
        return name

    def _compute_one(self, node: int) -> None:
        text, precedence = self._expression(node)
        name = self.known.get(node)
        short = self.uses[node] == 1 and len(text) <= _LONGEST
        if self.graph.op[node] in _SIGNS or (name is None and short):
            self.text[node] = (text, precedence)
        else:
            self._declare(node, self.names.next() if name is None else name, text)

    def _store(self, node: int, numbers: list[int]) -> None:
        for k in numbers:
            value = self.graph.value.get(node)
            self.rows[k] = self._operand(node, 0) if value is None else _text(value)
        if numbers and len(self.statements) > self._begin:
            self.statements.insert(self._begin, f"# {self.kernel.labels[numbers[0]]}")
            self._begin = len(self.statements)

    def _vector(self, node: int) -> str:
        return self._operand(node, 0)

    def _number(self, value: float) -> str:
        return f"({_text(value)})" if value < 0 else _text(value)

    def _expression(self, node: int) -> tuple[str, int]:
        op, args = self.graph.op[node], self.graph.args[node]
        if op == "pow" or (op == "mul" and args[0] == args[1]):
            base = self._operand(args[0], ATOM)
            exponent = self._operand(args[1], ATOM) if op == "pow" else "2"
            return f"{base if base.isidentifier() else f'({base})'}**{exponent}", ATOM
        if op in _SIGNS:
            return f"np.where({self._condition(node)}, 1.0, 0.0)", ATOM
        if op == "select":
            cases = ", ".join(self._operand(a, 0) for a in args[1:])
            return f"np.where({self._condition(args[0])}, {cases})", ATOM
        return super()._expression(node)

    def _condition(self, node: int) -> str:
        op, args = self.graph.op[node], self.graph.args[node]
        if op in _SIGNS:
            return f" {_SIGNS[op]} ".join(self._operand(a, 0) for a in args)
        return f"{self._operand(node, 0)} != 0.0"

    def _call(self, op: str, operands: Sequence[str]) -> str:
        return f"{FUNCTIONS_OF_NUMPY[op]}({', '.join(operands)})"

    def _from_table(self, op: str, args: tuple[int, ...]) -> str:
        begin, step = (int(self.graph.value[a]) for a in args[1:3])
        return f"_{op}({begin}, {step}, {self._operand(args[3], 0)})"


def _text(value: float) -> str:
    return repr(value).replace("inf", "np.inf").replace("nan", "np.nan")
