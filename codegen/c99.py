"""Prints kernels as plain C99: functions of one point, for programs of others.

The third target of a `Schedule`, beside C in lanes and bytecode. The text needs libm alone; values
are `double` or `float`. A function longer than `PIECE` operations is cut into pieces that hand
values on through an array on the stack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from kinesym.codegen.c import Printer, identifier, inputs_of, number
from kinesym.codegen.kernel import Argument, Kernel
from kinesym.codegen.operations import ATOM, PRODUCT
from kinesym.codegen.own import OwnOperation, own_operations, without_own
from kinesym.codegen.schedule import PIECE, Piece, Schedule, joined, schedule, whole

#: Types of values by precision, and the suffix of constants and functions of libm.
PRECISIONS = MappingProxyType({"double": ("double", ""), "single": ("float", "f")})

#: Names of files of the standard library, and of ours beside those of a model.
_TAKEN = frozenset(
    "main mex simstruc assert complex ctype errno fenv float inttypes iso646 limits locale "
    "math setjmp signal stdarg stdbool stddef stdint stdio stdlib string tgmath time wchar "
    "wctype".split()
)

#: What functions of users may call, and C99 does not have.
_NOT_IN_C99 = frozenset("j0 j1 jn y0 y1 yn M_E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_SQRT2".split())

#: Smallest and largest size of a number by precision; the smallest double may be denormal.
RANGES = MappingProxyType({"double": (0.0, math.inf), "single": (1.1755e-38, 3.4028e38)})

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
    key of `PRECISIONS`. tables : name of the array with the numbers of tables; without one they
    follow those of the argument that has them."""

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
        """A constant. Raises `ValueError` for one that the type has not."""
        low, high = RANGES[self.precision]
        if value and abs(value) != math.inf and not low <= abs(value) <= high and value == value:
            raise ValueError(
                f"precision={self.precision!r} has no number {value:g}; use other units, or double"
            )
        text = number(value)
        if "(double)" in text:
            return text.replace("(double)", f"({self.type})")
        return text.replace(")", f"{self.suffix})") if ")" in text else text + self.suffix


def plain(kernel: Kernel) -> Kernel:
    """A kernel whose values all belong to its one point, with expressions in place of functions of
    users that have one. Raises `ValueError` for what plain C has no function for."""
    arguments = tuple(replace(a, varying=True) for a in kernel.arguments)
    kernel = replace(without_own(kernel, True), arguments=arguments)
    for own in own_operations(kernel):
        if missing := sorted(set(re.findall(r"\w+", own.definition.body)) & _NOT_IN_C99):
            raise ValueError(
                f"the function {own.definition.name} calls {missing[0]} in its C text, which C99 "
                "does not have; give its value as an expression"
            )
    known = {*_LIBM, *_HELPERS, *(own.name for own in own_operations(kernel))}
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
    kernels = list(kernels)
    used = {k.graph.op[node] for k in kernels for node in k.nodes}
    own = {own.name: _own(own, style) for k in kernels for own in own_operations(k)}
    known = "".join(
        style.filled(f"static inline @ ks_{op}({arguments}) {{\n    {body}\n}}\n\n")
        for op, (arguments, body) in _HELPERS.items()
        if op in used
    )
    return known + "".join(own[name] for name in sorted(own))


def _own(own: OwnOperation, style: Style) -> str:
    """A function of a user, whose text is of `double`."""
    text = own.definition.body.strip()
    inside = text if ";" in text else f"return {text};"
    names = [symbol.name for symbol in own.definition.arguments]
    given = ", ".join(f"const double {name}" for name in names)
    unused = ", ".join(f"(void){name}" for name in names)
    head = f"static inline double ks_of_{own.name}({given})"
    double = f"{head} {{\n    {unused};\n    {inside}\n}}\n\n"
    operands = [f"x{k}" for k in range(len(names))]
    taken = ", ".join(f"const {style.type} {x}" for x in operands)
    return double + (
        f"static inline {style.type} ks_{own.name}({taken}) {{\n"
        f"    return ({style.type})ks_of_{own.name}({', '.join(operands)});\n}}\n\n"
    )


def parameters(arguments: Sequence[Argument], style: Style, out: str) -> str:
    """The parameters of the function of a kernel: arrays, the time as a number, the results."""
    given = (
        f"const {style.type} {'' if _is_number(a) else '*restrict '}{pointer(a)}"
        for a in arguments
        if a.name != "tables"
    )
    return ", ".join([*given, f"{style.type} *restrict {out}"])


def pointer(argument: Argument) -> str:
    """C name of an argument, which must not be that of the results or of what pieces hand on."""
    return f"{argument.name}_" if argument.name in ("out", "w") else argument.name


def _is_number(argument: Argument) -> bool:
    """Whether the one value of an argument is handed over as a number."""
    return argument.name == "t"


def prototype(kernel: Kernel, style: Style, out: str) -> str:
    """Declaration of the function of a kernel, without the semicolon."""
    return f"int {style.prefix}_{kernel.name}({parameters(kernel.arguments, style, out)})"


def function(kernel: Kernel, style: Style, out: str, linkage: str = "") -> str:
    """The function of a `plain` kernel, after the `static` ones that are its pieces. It returns 0,
    or 1 if a result is not finite. linkage : "static " for one that is not seen from outside."""
    pieces, n_scratch = _pieces(kernel)
    inputs, count = inputs_of(kernel), len(kernel.outputs)
    names = [pointer(a) for a in kernel.arguments if a.name != "tables"]
    texts = [_Plain(kernel, inputs, piece, style, out).lines() for piece in pieces]
    parts, inside = [], [line for lines in texts for line in lines]
    unused = _not_used((*names, out), inside)
    if len(pieces) > 1:
        given, own = ", ".join([*names, out]), parameters(kernel.arguments, style, out)
        inside, unused = [f"{style.type} w[{n_scratch}];"] if n_scratch else [], ""
        for n, lines in enumerate(texts):
            name = f"{style.prefix}_{kernel.name}_part_{n}"
            scratch = (", w", f", {style.type} *restrict w") if n_scratch else ("", "")
            mine = _not_used((*names, out, *["w"] * bool(n_scratch)), lines)
            body = "".join(f"    {line}\n" for line in lines)
            head = wrapped(f"static void {name}({own}{scratch[1]}) {{")
            parts.append(f"{head}\n{mine}{body}}}\n")
            inside.append(f"{name}({given}{scratch[0]});")
    finite = f"for (int i = 0; i < {count}; i++) if (!isfinite({out}[i])) return 1;"
    body = "".join(f"    {line}\n" for line in (*inside, *[finite] * bool(count), "return 0;"))
    head = wrapped(f"{linkage}{prototype(kernel, style, out)} {{")
    return "\n".join([*parts, f"{head}\n{unused}{body}}}\n"])


def dense_function(kernel: Kernel, style: Style, shape: tuple[int, int]) -> str:
    """The function that puts the entries of a matrix, of a `plain` kernel, into one with zeros,
    column by column."""
    name, (rows, columns) = f"{style.prefix}_{kernel.name}", shape
    names = [pointer(a) for a in kernel.arguments if a.name != "tables"]
    head = wrapped(f"{dense_prototype(kernel, style)} {{")
    return (
        f"{head}\n    {style.type} values[{len(kernel.outputs)}];\n"
        f"    const int status = {name}({', '.join([*names, 'values'])});\n"
        f"    for (int k = 0; k < {rows * columns}; k++) matrix[k] = 0;\n"
        f"    for (int j = 0; j < {columns}; j++)\n"
        f"        for (int k = {name}_begin[j]; k < {name}_begin[j + 1]; k++)\n"
        f"            matrix[{name}_row[k] + {rows}*j] = values[k];\n"
        "    return status;\n}\n"
    )


def dense_prototype(kernel: Kernel, style: Style) -> str:
    """Declaration of that function, without the semicolon."""
    given = parameters(kernel.arguments, style, "matrix")
    return f"int {style.prefix}_{kernel.name}_dense({given})"


def wrapped(text: str, width: int = 100) -> str:
    """A long statement on lines of some length, which end with commas."""
    lines = [""]
    for word in re.split(r"(?<=,) ", text):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def _not_used(names: Sequence[str], lines: Sequence[str]) -> str:
    """A statement for the parameters that no line reads, which compilers warn of."""
    code = re.sub(r"/\*.*?\*/", "", "\n".join(lines))
    found = {*re.findall(r"[A-Za-z_]\w*", code)}
    unused = [f"(void){name}" for name in names if name not in found]
    return f"    {', '.join(unused)};\n" if unused else ""


def _pieces(kernel: Kernel) -> tuple[list[Piece], int]:
    """The pieces of a function, one if it is short, and the values that travel between them."""
    plan = schedule(kernel)
    every = (*plan.uniform, *plan.varying)
    if plan.slots or sum(len(piece.nodes) for piece in every) <= PIECE:
        return [whole(plan)], 0
    if any(piece.reads for piece in every):
        return list(every), plan.n_scratch
    groups: list[list[Piece]] = []
    size = PIECE
    for piece in every:
        if size + len(piece.nodes) > PIECE:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += len(piece.nodes) + len(piece.stores)
    return [joined(group) for group in groups], 0


class _Plain(Printer):
    """Statements of one piece, of numbers."""

    def __init__(
        self,
        kernel: Kernel,
        inputs: dict[str, tuple[int, int, bool, str]],
        piece: Piece,
        style: Style,
        out: str,
    ) -> None:
        super().__init__(kernel, Schedule((), {}, (), 0), inputs, piece, hoisted=False)
        self.style, self.TYPE, self.out = style, style.type, out
        self.pairs = {}

    def _stored(self, k: int, value: str) -> str:
        return f"{self.out}[{k}] = {value}"

    def _load(self, symbol: str) -> tuple[str, str]:
        number, k, _, name = self.inputs[symbol]
        argument = self.kernel.arguments[number]
        text = pointer(argument) if _is_number(argument) else f"{pointer(argument)}[{k}]"
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
        argument, where = self.kernel.arguments[at], self.style.tables
        if where:
            begin -= len(argument.symbols)
        return f"ks_{op}({where or pointer(argument)} + {begin}, {count}, {self._vector(args[3])})"


def file_name(text: str) -> str:
    """A name as that of a file and of C functions: letters, digits and underscores, no name of the
    standard library."""
    name = re.sub("_+", "_", identifier(text)).strip("_") or "model"
    name = name if not name[0].isdigit() else f"model_{name}"
    return f"{name}_model" if name in _TAKEN else name
