"""Prints programs as C: translation units of pieces, one with the tables.

The text says what it computes: banners with shapes and operation counts, the names of the model,
a comment at every output. It does not depend on the machine: the number of lanes is a macro.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from kinesym.base.memory import without_collection
from kinesym.codegen.kernel import Kernel, Program, Source
from kinesym.codegen.operations import ATOM, PRODUCT
from kinesym.codegen.own import own_operations, without_own
from kinesym.codegen.schedule import (
    PIECE,
    Piece,
    Schedule,
    joined,
    schedule,
    sines_and_cosines,
    use_counts,
)

_LONGEST = 90  # characters of an expression that is written inside its only user
#: Argument number, position, kind and C name of every symbol of a kernel.
Inputs = dict[str, tuple[int, int, bool, str]]
#: Files of the pieces of a kernel at most: enough to be compiled in parallel. Each takes some 20 ms
#: more than its pieces do: of a model with 80 muscles 84 files took 7.6 CPU-s, 26 take 6.3.
_FILES = 8
_INLINE = 300  # operations of a right-hand side that is compiled into the loop of explicit steps


@without_collection()
def emit(program: Program) -> Source:
    """The C source and the manifest of `program`."""
    program = replace(program, kernels=tuple(without_own(k, True) for k in program.kernels))
    files: dict[str, str] = {}
    together: list[Kernel] = []
    for kernel in program.kernels:
        if kernel.operations > PIECE:
            files.update(_kernel_files(kernel))
        else:
            together.append(kernel)
    for number, group in enumerate(_groups(together)):
        texts = [text for kernel in group for text in _kernel_files(kernel).values()]
        files[f"kernels_{number}.c"] = "\n".join(texts)
    files["library.c"] = _library(program)
    files["map.c"] = '/* the map over points */\n#include "kinesym_map.h"\n'
    if _steps(program):
        files["stepping.c"] = _stepping(program)
    for name, tableau in _fixed(program).items():
        files[f"fixed_{identifier(name)}.c"] = _fixed_steps(program, name, tableau)
    if _has_tangent(program):
        files["sweep.c"] = _sweep(program)
    return Source(files, program.manifest)


def printed_from(program: Program) -> str:
    """A digest of all that decides what `emit` prints: kernels, of the description what is printed,
    and how. Values of parameters, for example, do not."""
    made = hashlib.sha256(_printer())
    about = program.name, _steps(program), _about_steps(program)
    for part in chain(about, *(kernel.content for kernel in program.kernels)):
        made.update(repr(part).encode())
    return made.hexdigest()[:32]


@cache
def _printer() -> bytes:
    """A digest of the code generator."""
    made = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        made.update(path.read_bytes())
    return made.digest()


# -- files ----------------------------------------------------------------------------------


def _groups(kernels: list[Kernel]) -> list[list[Kernel]]:
    """Small kernels share a file, as long as it stays short."""
    groups: list[list[Kernel]] = []
    size = 0
    for kernel in kernels:
        if not groups or size + kernel.operations > PIECE:
            groups.append([])
            size = 0
        groups[-1].append(kernel)
        size += kernel.operations
    return groups


def _kernel_files(kernel: Kernel) -> dict[str, str]:
    """Translation units of one kernel: one if its pieces are loops of their own."""
    plan, inputs = schedule(kernel), inputs_of(kernel)
    apart, inline = [], []
    for number, piece in enumerate(plan.varying):
        name = f"{kernel.name}_{number}"
        text = _piece_function(kernel, plan, inputs, piece, name, hoisted=False)
        if plan.apart:
            inline.append("static inline " + text)
        else:
            count = f"{number + 1} of {len(plan.varying)}"
            head = f"/* {kernel.name}, piece {count} */\n{_include(kernel)}"
            apart.append(f"{head}\n{_signature(name, hoisted=False)};\n\n{text}")
    share = max(1, math.ceil(len(apart) / _FILES))
    shares = [apart[k : k + share] for k in range(0, len(apart), share)]
    files = {f"{kernel.name}_{k}.c": "\n".join(texts) for k, texts in enumerate(shares)}
    body = _kernel_body(kernel, plan, inputs)
    files[f"{kernel.name}.c"] = "\n".join([_banner(kernel), *inline, body])
    return files


_INCLUDE = '#include "kinesym_simd.h"\n'


def _banner(kernel: Kernel) -> str:
    arguments = "".join(
        f" *   {a.name:<14} {a.count:>4} {'per point' if a.varying else 'uniform'}\n"
        for a in kernel.arguments
    )
    return (
        f"/* {kernel.name}: {kernel.purpose}\n *\n * arguments\n{arguments}"
        f" * outputs\n *   {len(kernel.outputs):>19} per point\n"
        f" * {kernel.operations} operations\n */\n{_include(kernel)}"
    )


def _include(kernel: Kernel) -> str:
    more = '#include "kinesym_table.h"\n' if any(a.tables for a in kernel.arguments) else ""
    return "".join((_INCLUDE, more, *(row.body for row in own_operations(kernel))))


def _signature(name: str, hoisted: bool) -> str:
    if hoisted:
        return f"void {name}(const ks_arg *restrict a, double *restrict u, V *restrict w)"
    return (
        f"void {name}(const ks_arg *restrict a, ptrdiff_t i, const double *restrict u,\n"
        "        double *restrict out, ptrdiff_t ld, V *restrict w)"
    )


def _kernel_body(kernel: Kernel, plan: Schedule, inputs: Inputs) -> str:
    """The functions of the kernel table: hoisted part, loop over blocks, and the entry itself."""
    parts = []
    for number, piece in enumerate(plan.uniform):
        name = f"{kernel.name}_uniform_{number}"
        parts.append("static " + _piece_function(kernel, plan, inputs, piece, name, hoisted=True))
    calls = "".join(f"    {kernel.name}_uniform_{n}(a, u, w);\n" for n in range(len(plan.uniform)))
    parts.append(
        f"static void {kernel.name}_uniform(const ks_kernel *k, const ks_arg *a, double *u,\n"
        f"        void *scratch) {{\n"
        f"    V *w = scratch;\n{calls}    (void)k, (void)a, (void)u, (void)w;\n}}\n"
    )
    if not plan.apart:
        parts.extend(
            _signature(f"{kernel.name}_{n}", hoisted=False) + ";\n"
            for n in range(len(plan.varying))
        )
    loop = "    for (ptrdiff_t b = 0; b < n_blocks; b++)"
    steps = [
        f"        {kernel.name}_{n}(a, b * KS_LANES, u, out + b * step, ld, w);\n"
        for n in range(len(plan.varying))
    ]
    whole = f"{loop} {{\n{''.join(steps)}    }}\n"
    loops = "".join(f"{loop}\n{step}" for step in steps) if plan.apart else whole
    parts.append(
        f"static void {kernel.name}_block(const ks_kernel *k, ptrdiff_t n_blocks,\n"
        "        const ks_arg *a, const double *u, double *out, ptrdiff_t ld, ptrdiff_t step,\n"
        f"        void *scratch) {{\n    V *w = scratch;\n    (void)k;\n{loops}}}\n"
    )
    parts.append(_entry(kernel, plan))
    return "\n".join(parts)


def _entry(kernel: Kernel, plan: Schedule) -> str:
    counts = ", ".join(str(a.count) for a in kernel.arguments) or "0"
    flags = ", ".join(str(int(a.varying)) for a in kernel.arguments) or "0"
    return (
        f"static const int {kernel.name}_count[] = {{{counts}}};\n"
        f"static const unsigned char {kernel.name}_varying[] = {{{flags}}};\n"
        f"extern const ks_kernel {kernel.name}_kernel;\n"
        f"const ks_kernel {kernel.name}_kernel = {{\n"
        f'    .name = "{kernel.name}",\n'
        f"    .n_args = {len(kernel.arguments)},\n"
        f"    .count = {kernel.name}_count,\n"
        f"    .varying = {kernel.name}_varying,\n"
        f"    .n_out = {len(kernel.outputs)},\n"
        f"    .n_uniform = {len(plan.slots)},\n"
        f"    .n_scratch = {plan.n_scratch},\n"
        f"    .uniform = {kernel.name}_uniform,\n"
        f"    .block = {kernel.name}_block,\n"
        f"}};\n"
    )


def _library(program: Program) -> str:
    names = [kernel.name for kernel in program.kernels]
    declarations = "".join(f"extern const ks_kernel {name}_kernel;\n" for name in names)
    table = "".join(f"    &{name}_kernel,\n" for name in names)
    loops = "&ks_all_loops" if _steps(program) else "NULL"
    return (
        f"/* {identifier(program.name)}: the table of kernels */\n"
        f"{_INCLUDE}\n"
        f"{declarations}\nstatic const ks_kernel *const kernels[] = {{\n{table}}};\n\n"
        "#ifdef _OPENMP\n#define KS_OPENMP 1\n#else\n#define KS_OPENMP 0\n#endif\n\n"
        "static const ks_library library = {KINESYM_ABI, KS_LANES, KS_OPENMP, "
        f"{len(names)}, kernels, ks_map, {loops}}};\n\n"
        '__attribute__((visibility("default"))) const ks_library *kinesym_library(void);\n'
        "const ks_library *kinesym_library(void) { return &library; }\n"
    )


def _about_steps(program: Program) -> dict[str, Any]:
    """Entries of a program's description that are printed; empty if no loops of time stepping
    are."""
    about: Any = program.description.get("stepping", {})
    return {key: about[key] for key in ("methods", "states", "pattern", "solution") if key in about}


def _steps(program: Program) -> bool:
    return "stepping" in program.description


def _stepping(program: Program) -> str:
    """The loops, in a file that hardly depends on the model: its object is found in the cache."""
    has = "#define KS_SWEEPS\n" if _has_tangent(program) else ""
    loops = {name: f"ks_fixed_{identifier(name)}" for name in _fixed(program)}
    if loops:
        declared = "".join(f"ks_march_fn {loop};\n" for loop in loops.values())
        table = "".join(f'    {{"{name}", {loop}}},\n' for name, loop in loops.items())
        has += f'#define KS_FIXED\n#include "kinesym.h"\n\n{declared}'
        has += f"static const ks_fixed ks_fixed_loops[] = {{\n{table}}};\n\n"
    return f'/* loops of time stepping */\n{has}#include "kinesym_loops.h"\n'


def _fixed(program: Program) -> dict[str, Any]:
    """The explicit methods with steps of fixed length, by name."""
    methods = _about_steps(program).get("methods", {})
    return {k: v for k, v in methods.items() if not v["error"] and not v["implicit"]}


def _fixed_steps(program: Program, name: str, tableau: Any) -> str:
    """Explicit steps; the method, and a small right-hand side, are compiled into the loop."""
    c, rows = tableau["c"], tableau["a"]
    stages = len(c) - 1
    nodes = ", ".join(map(number, c))
    table = "".join(f"    {{{', '.join(map(number, row))}}},\n" for row in rows)
    text = (
        f"/* explicit steps: {name} */\n#define KS_FIXED ks_fixed_{identifier(name)}\n"
        f"#define KS_STAGES {stages}\nstatic const double ks_c[] = {{{nodes}}};\n"
        f"static const double ks_a[][KS_STAGES] = {{\n{table}}};\n"
    )
    rhs = program.kernel("rhs")
    if rhs.operations <= _INLINE:
        n, m = len(rhs.arguments[0].symbols), len(rhs.arguments[1].symbols)
        text += _rhs_text(rhs)
        text += f"\n#define KS_RHS rhs_0\n#define KS_RHS_STATES {n}\n#define KS_RHS_INPUTS {m}\n"
    return f'{text}#include "kinesym_fixed.h"\n'


def _has_tangent(program: Program) -> bool:
    return any(kernel.name == "tangent" for kernel in program.kernels)


def _sweep(program: Program) -> str:
    """Derivatives of explicit steps; the products with transposed sparse matrices, which must be
    done one after the other, are written out."""
    about = _about_steps(program)
    n, places = len(about["states"]), list(zip(*about["pattern"], strict=True))
    states = [(k, i, j) for k, (i, j) in enumerate(places) if j < n]
    lines = []
    for k, (target, source) in reversed(list(enumerate(about["solution"]))):
        value = f"e[{n + len(places) + k} * KS_LANES]"
        if target == source:
            lines.append(f"kappa[{target}] *= {value};")
        else:
            lines.append(f"kappa[{source}] -= {value}*kappa[{target}];")
    for column in range(n):
        terms = [f"e[{n + k} * KS_LANES]*kappa[{i}]" for k, i, j in states if j == column]
        lines.append(f"eta[{column}] = {' + '.join(terms) or '0.0'};")
    body = "".join(f"    {line}\n" for line in lines)
    return (
        "/* derivatives of explicit steps */\n#include <stddef.h>\n"
        f'#define KS_STATES {n}\n#include "kinesym_sweep.h"\n\n'
        "static void ks_transposed(const ks_run *r, const double *restrict e,\n"
        "        double *restrict kappa, double *restrict eta) {\n    (void)r, (void)e;\n"
        + body
        + "}\n"
    )


def _rhs_text(rhs: Kernel) -> str:
    plan = schedule(rhs)
    piece, inputs = joined(plan.varying), inputs_of(rhs)
    function = _piece_function(rhs, plan, inputs, piece, "rhs_0", hoisted=False)
    return f"{_include(rhs)}\nstatic inline {function}"


# -- one piece ------------------------------------------------------------------------------


def _piece_function(
    kernel: Kernel, plan: Schedule, inputs: Inputs, piece: Piece, name: str, *, hoisted: bool
) -> str:
    lines = Printer(kernel, plan, inputs, piece, hoisted).lines()
    body = "\n".join(f"    {line}" for line in lines)
    unused = "(void)a, (void)u, (void)w;"
    if not hoisted:
        unused += " (void)i, (void)out, (void)ld;"
    return f"{_signature(name, hoisted)} {{\n    {unused}\n{body}\n}}\n"


class Printer:
    """Statements of one piece, as text of vectors; `codegen.c99` prints numbers."""

    #: Type of a value.
    TYPE = "V"

    def __init__(
        self, kernel: Kernel, plan: Schedule, inputs: Inputs, piece: Piece, hoisted: bool
    ) -> None:
        self.kernel, self.graph, self.piece, self.hoisted = kernel, kernel.graph, piece, hoisted
        self.slots: dict[int, int] = {} if hoisted else plan.slots
        self.inputs = inputs
        self.uses = use_counts(self.graph, piece)
        self.text: dict[int, tuple[str, int]] = {}  # expression and precedence, per node
        self.pairs = sines_and_cosines(self.graph, piece)
        self.statements: list[str] = []

    def lines(self) -> list[str]:
        """Statements of the piece, in order; an output is stored as soon as it is known."""
        stores: dict[int, list[int]] = {}
        for k, node in self.piece.stores:
            stores.setdefault(node, []).append(k)
        for node, slot in self.piece.reads.items():
            self._declare(node, f"v{node}", f"w[{slot}]")
        own = set(self.piece.nodes)
        for node in (node for node in stores if node not in own):
            self._store(node, stores[node])
        for node in self.piece.nodes:
            self._compute(node)
            self._store(node, stores.get(node, []))
        return self.statements

    def _declare(self, node: int, name: str, text: str) -> str:
        self.text[node] = (name, ATOM)
        self.statements.append(f"const {self.TYPE} {name} = {text};")
        return name

    def _compute(self, node: int) -> None:
        if node in self.pairs:
            self._compute_pair(*self.pairs[node])
        else:
            self._compute_one(node)
        slot = self.piece.writes.get(node)
        if slot is not None:
            self.statements.append(f"w[{slot}] = {self.text[node][0]};")

    def _compute_pair(self, sine: int, cosine: int) -> None:
        """Sine and cosine of the same angle, when the first of them is needed."""
        if sine in self.text:
            return
        angle = self._vector(self.graph.args[sine][0])
        s, c = f"v{sine}", f"v{cosine}"
        self._sine_and_cosine(angle, s, c)
        self.text[sine], self.text[cosine] = (s, ATOM), (c, ATOM)

    def _sine_and_cosine(self, angle: str, sine: str, cosine: str) -> None:
        self.statements.append(f"V {sine}, {cosine};")
        self.statements.append(f"ks_sincos({angle}, &{sine}, &{cosine});")

    def _compute_one(self, node: int) -> None:
        text, precedence = self._expression(node)
        alone = self.uses[node] == 1 and node not in self.piece.writes
        if alone and len(text) <= _LONGEST:
            self.text[node] = (text, precedence)  # written inside its only user
        else:
            self._declare(node, f"v{node}", text)

    def _store(self, node: int, numbers: list[int]) -> None:
        for k in numbers:
            value = self._vector(node)
            if self.hoisted:
                self.statements.append(f"u[{k}] = ks_first({value});")
            else:
                label = self.kernel.labels[k].replace("*/", "* /")
                self.statements.append(f"{self._stored(k, value)}; /* {label} */")

    def _stored(self, k: int, value: str) -> str:
        return f"ks_store(out + {k} * ld, {value})"

    def _operand(self, node: int, precedence: int) -> str:
        """Text of `node` for use inside an operator of the given precedence."""
        if node in self.slots:
            return f"u[{self.slots[node]}]"
        if node in self.graph.value:
            return self._number(self.graph.value[node])
        if node not in self.text:
            self._declare(node, *self._load(self.graph.name[node]))
        text, own = self.text[node]
        return text if own >= precedence else f"({text})"

    def _load(self, symbol: str) -> tuple[str, str]:
        argument, k, varying, name = self.inputs[symbol]
        if varying:
            return name, f"ks_load(a[{argument}].data + {k} * a[{argument}].ld + i)"
        return name, f"ks_splat(a[{argument}].data[{k}])"

    def _vector(self, node: int) -> str:
        text = self._operand(node, 0)
        return f"ks_splat({text})" if node in self.graph.value or node in self.slots else text

    def _expression(self, node: int) -> tuple[str, int]:
        op, args = self.graph.op[node], self.graph.args[node]
        row = self.graph.operations[op]
        if row.text:
            return row.text.format(*map(self._operand, args, row.inner)), row.outer
        if op in ("locate", "entry"):
            return self._from_table(op, args), ATOM
        if op == "pow" and self.graph.value.get(args[1]) in (1.5, 2.5):
            x = self._operand(args[0], ATOM)
            square = "*".join([x] * int(self.graph.value[args[1]]))
            return f"{square}*{self._call('sqrt', [x])}", PRODUCT
        return self._call(op, [self._vector(a) for a in args]), ATOM

    def _call(self, op: str, operands: Sequence[str]) -> str:
        return f"ks_{op}({', '.join(operands)})"

    def _number(self, value: float) -> str:
        return number(value)

    def _from_table(self, op: str, args: tuple[int, ...]) -> str:
        """A function of kinesym_table.h, of numbers that follow the symbols of an argument."""
        at, begin, count = self.kernel.in_tables(args)
        where = f"a[{at}].data + {begin}"
        return f"ks_{op}({where}, {count}, {self._vector(args[3])})"


def inputs_of(kernel: Kernel) -> Inputs:
    """C names are distinct."""
    found: Inputs = {}
    taken: set[str] = set()
    for number, argument in enumerate(kernel.arguments):
        for k, symbol in enumerate(argument.symbols):
            name = identifier(f"{argument.name}_{symbol.removeprefix(argument.name + '.')}")
            while name in taken:
                name += "_"
            taken.add(name)
            found[symbol] = (number, k, argument.varying, name)
    return found


def number(value: float) -> str:
    """Text of a constant."""
    if value != value:
        return "(double)NAN"
    if value in (float("inf"), float("-inf")):
        return "(double)INFINITY" if value > 0 else "(-(double)INFINITY)"
    text = repr(value)
    return f"({text})" if value < 0 else text


def identifier(text: str) -> str:
    """`text` as a C identifier."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return name if name and not name[0].isdigit() else f"_{name}"
