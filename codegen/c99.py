"""Prints kernels as plain C99: functions of one point, for programs of others.

The third target of a `Schedule`, beside C in lanes and bytecode. The text needs libm alone; values
are `double` or `float`. A function longer than `PIECE` operations is cut into pieces that hand
values on through an array on the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from kinesym.codegen.c import Printer, identifier, inputs_of, number
from kinesym.codegen.kernel import Argument, Kernel
from kinesym.codegen.operations import ATOM, PRODUCT
from kinesym.codegen.own import without_own
from kinesym.codegen.schedule import Piece, Schedule, schedule

#: Types of values by precision, and the suffix of constants and functions of libm.
PRECISIONS = MappingProxyType({"double": ("double", ""), "single": ("float", "f")})

#: Functions of libm, by operation.
_LIBM = MappingProxyType(
    {"abs": "fabs"}
    | {
        name: name
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh"),
            *("acosh", "atanh", "exp", "expm1", "log", "log1p", "sqrt", "cbrt", "floor"),
            *("erf", "erfc", "pow", "atan2", "hypot"),
        )
    }
)

#: Functions that libm has not, by operation: arguments, and what they return. `@` is the type of
#: values, `$` the suffix of functions of libm, `#` that of constants. NaN stays NaN.
_HELPERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "select": ("const @ c, const @ a, const @ b", "return c != 0.0# ? a : b;"),
        "lt": ("const @ a, const @ b", "return a < b ? 1.0# : 0.0#;"),
        "le": ("const @ a, const @ b", "return a <= b ? 1.0# : 0.0#;"),
        "eq": ("const @ a, const @ b", "return a <= b && a >= b ? 1.0# : 0.0#;"),
        "min": ("const @ a, const @ b", "return isnan(a) || a <= b ? a : b;"),
        "max": ("const @ a, const @ b", "return isnan(a) || b <= a ? a : b;"),
        "sign": (
            "const @ x",
            "return x > 0.0# ? 1.0# : x < 0.0# ? -1.0# : isnan(x) ? x : 0.0#;",
        ),
        "mod": (
            "const @ x, const @ y",
            "const @ r = fmod$(x, y);\n"
            "    return (r < 0.0# && y > 0.0#) || (r > 0.0# && y < 0.0#) ? r + y : r;",
        ),
        "gamma": (
            "const @ x",
            "return x <= 0.0# && x >= floor$(x) ? (@)INFINITY : tgamma$(x);",
        ),
        "loggamma": ("const @ x", "return x < 0.0# ? (@)NAN : lgamma$(x);"),
        "locate": (
            "const @ *restrict p, const int n, const @ x",
            "@ s = (x - p[0]) * p[n + 1];\n"
            "    s = s > 0.0# ? s : 0.0#;\n"
            "    s = s < (@)(n - 1) ? s : (@)(n - 1);\n"
            "    int found = (int)p[n + 3 + (int)s];\n"
            "    for (int left = (int)p[n + 2]; left > 0; left /= 2) {\n"
            "        const int half = left - left / 2;\n"
            "        if (p[found + half] <= x) found += half;\n"
            "    }\n"
            "    return (@)found;",
        ),
        "entry": (
            "const @ *restrict p, const int stride, const @ number",
            "return p[(int)number * stride];",
        ),
    }
)


@dataclass(frozen=True)
class Style:
    """Names and type of plain C. prefix : of all names that are seen from outside. precision : a
    key of `PRECISIONS`. tables : name of the array with the numbers of tables."""

    prefix: str
    precision: str = "double"
    tables: str = ""

    @property
    def type(self) -> str:
        """C type of values."""
        return PRECISIONS[self.precision][0]

    @property
    def suffix(self) -> str:
        """Suffix of constants and of functions of libm."""
        return PRECISIONS[self.precision][1]

    def filled(self, text: str) -> str:
        """Text with the type and suffixes in place."""
        return text.replace("@", self.type).replace("$", self.suffix).replace("#", self.suffix)

    def number(self, value: float) -> str:
        """A constant."""
        text = number(value)
        if "(double)" in text:
            return text.replace("(double)", f"({self.type})")
        return text.replace(")", f"{self.suffix})") if ")" in text else text + self.suffix


def plain(kernel: Kernel) -> Kernel:
    """A kernel whose values all belong to its one point, with expressions in place of functions of
    users. Raises `ValueError` for what plain C has no function for."""
    kernel = without_own(kernel, False)
    arguments = tuple(replace(a, varying=True) for a in kernel.arguments)
    kernel = replace(kernel, arguments=arguments)
    known = {*_LIBM, *_HELPERS}
    for node in kernel.nodes:
        op = kernel.graph.op[node]
        row = kernel.graph.operations.get(op)
        if row is not None and not row.text and op not in known:
            raise ValueError(
                f"{kernel.name} needs the function {op}, which C99 does not have; write it with "
                "other functions, or as a ks.table"
            )
    return kernel


def helpers(kernels: Iterable[Kernel], style: Style) -> str:
    """The functions that these kernels need beside those of libm, as `static` functions."""
    used = {k.graph.op[node] for k in kernels for node in k.nodes}
    return "".join(
        style.filled(f"static inline @ ks_{op}({arguments}) {{\n    {body}\n}}\n\n")
        for op, (arguments, body) in _HELPERS.items()
        if op in used
    )


def parameters(arguments: Sequence[Argument], style: Style, out: str) -> str:
    """The parameters of the function of a kernel: arrays, the time as a number, the results."""
    given = (
        f"const {style.type} {a.name}"
        if _is_number(a)
        else f"const {style.type} *restrict {a.name}"
        for a in arguments
        if a.name != "tables"
    )
    return ", ".join([*given, f"{style.type} *restrict {out}"])


def _is_number(argument: Argument) -> bool:
    """Whether the one value of an argument is handed over as a number."""
    return argument.name == "t"


def prototype(kernel: Kernel, style: Style, out: str) -> str:
    """Declaration of its function, without the semicolon."""
    return f"int {style.prefix}_{kernel.name}({parameters(kernel.arguments, style, out)})"


def function(kernel: Kernel, style: Style, out: str) -> str:
    """The function of a `plain` kernel, after the `static` ones that are its pieces. It returns 0,
    or 1 if a result is not finite."""
    plan = schedule(kernel)
    inputs = inputs_of(kernel)
    given = "".join(f"{a.name}, " for a in kernel.arguments if a.name != "tables")
    own = parameters(kernel.arguments, style, "out")
    scratch = f", {style.type} *restrict w"
    pieces, calls = [], []
    for n, piece in enumerate(plan.varying):
        name = f"{style.prefix}_{kernel.name}_part_{n}"
        body = _body(kernel, plan, inputs, piece, style)
        unused = "".join(f"(void){a.name}, " for a in kernel.arguments if a.name != "tables")
        pieces.append(
            f"static void {name}({own}{scratch}) {{\n    {unused}(void)out, (void)w;\n{body}}}\n"
        )
        calls.append(f"    {name}({given}{out}, w);\n")
    count = len(kernel.outputs)
    return "\n".join(
        [
            *pieces,
            f"{prototype(kernel, style, out)} {{\n"
            f"    {style.type} w[{max(plan.n_scratch, 1)}];\n{''.join(calls)}"
            f"    for (int k = 0; k < {count}; k++)\n"
            f"        if (!isfinite({out}[k])) return 1;\n    return 0;\n}}\n",
        ]
    )


def _body(
    kernel: Kernel,
    plan: Schedule,
    inputs: dict[str, tuple[int, int, bool, str]],
    piece: Piece,
    style: Style,
) -> str:
    lines = _Plain(kernel, plan, inputs, piece, style).lines()
    return "".join(f"    {line}\n" for line in lines)


class _Plain(Printer):
    """Statements of one piece, of numbers."""

    def __init__(
        self,
        kernel: Kernel,
        plan: Schedule,
        inputs: dict[str, tuple[int, int, bool, str]],
        piece: Piece,
        style: Style,
    ) -> None:
        super().__init__(kernel, plan, inputs, piece, hoisted=False)
        self.style, self.TYPE = style, style.type
        self.pairs = {}

    def _stored(self, k: int, value: str) -> str:
        return f"out[{k}] = {value}"

    def _load(self, symbol: str) -> tuple[str, str]:
        number, k, _, name = self.inputs[symbol]
        argument = self.kernel.arguments[number]
        text = argument.name if _is_number(argument) else f"{argument.name}[{k}]"
        return f"{name}_" if name == text else name, text

    def _vector(self, node: int) -> str:
        return self._operand(node, 0)

    def _number(self, value: float) -> str:
        return self.style.number(value)

    def _call(self, op: str, operands: Sequence[str]) -> str:
        name = f"{_LIBM[op]}{self.style.suffix}" if op in _LIBM else f"ks_{op}"
        return f"{name}({', '.join(operands)})"

    def _expression(self, node: int) -> tuple[str, int]:
        if self.graph.op[node] == "inv":
            of = self._operand(self.graph.args[node][0], ATOM)
            return f"{self.style.number(1.0)}/{of}", PRODUCT
        return super()._expression(node)

    def _from_table(self, op: str, args: tuple[int, ...]) -> str:
        at, begin, count = self.kernel.in_tables(args)
        begin -= len(self.kernel.arguments[at].symbols)
        return f"ks_{op}({self.style.tables} + {begin}, {count}, {self._vector(args[3])})"


def file_name(text: str) -> str:
    """A name as that of a file and of C functions: letters, digits and underscores."""
    return re.sub("_+", "_", identifier(text)).strip("_") or "model"
