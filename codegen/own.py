"""Functions of users on the expression graph: operations of its own, with C text, or by their
expressions where that cannot be compiled, or is not given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Kernel, Program
from kinesym.codegen.operations import OPERATIONS, Operation
from kinesym.symbolic.function import Definition

#: Makes nodes of expressions, given those of their symbols.
Lower = Callable[[Graph, Mapping[Any, int]], Callable[[Any], int]]


def own_node(g: Graph, definition: Definition, operands: Sequence[int], lower: Lower) -> int:
    """The node of a function of a user, whose operation the graph has from then on."""
    row = _row(definition, lower)
    g.operations = {**g.operations, row.name: row}
    return g.apply(row.name, operands)


def _row(definition: Definition, lower: Lower) -> Operation:
    """What there is to say of it. Its name tells what it is, for keys of caches."""
    name = f"{definition.name}_{definition.digest.hex()[:16]}"

    def lowered(g: Graph, expression: Any, operands: Sequence[int]) -> int:
        return lower(g, dict(zip(definition.arguments, operands, strict=True)))(expression)

    def partials(g: Graph, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(lowered(g, e, a) for e in definition.slopes)

    def formula(g: Graph, a: Sequence[int]) -> int:
        if definition.formula is None:
            raise ValueError(
                f"the function {definition.name} is C text, which needs a compiler; install one, "
                "or give its value as an expression, too: python=..."
            )
        return lowered(g, definition.formula, a)

    count = len(definition.arguments)
    return Operation(
        name,
        definition,
        partials,
        arity=count,
        shown=f"{definition.name}({', '.join(['{}'] * count)})",
        formula=formula,
        body=_body(name, definition),
        only_compiled=definition.formula is None,
    )


def _body(name: str, definition: Definition) -> str:
    """C of the function, for numbers and for vectors; nothing if it has no C text."""
    text = definition.body.strip()
    if not text:
        return ""
    inside = text if ";" in text else f"return {text};"
    names = [symbol.name for symbol in definition.arguments]
    given = ", ".join(f"const double {n}" for n in names)
    unused = " ".join(f"(void){n};" for n in names)
    places = range(len(names))
    vectors = ", ".join(f"V x{k}" for k in places)
    lanes = ", ".join(f"x[{k}][l]" for k in places)
    stores = " ".join(f"ks_store(x[{k}], x{k});" for k in places)
    return (
        f"#ifndef KS_HAS_{name}\n#define KS_HAS_{name}\n"
        f"KS_PART double ks_of_{name}({given}) {{\n    {unused}\n    {inside}\n}}\n"
        f"KS_PART V ks_{name}({vectors}) {{\n"
        f"    double x[{len(names)}][KS_LANES], r[KS_LANES];\n    {stores}\n"
        f"    for (int l = 0; l < KS_LANES; l++) r[l] = ks_of_{name}({lanes});\n"
        "    return ks_load(r);\n}\n#endif\n"
    )


def own_operations(kernel: Kernel) -> Iterator[Operation]:
    """Functions of users that a kernel needs, each once, by name."""
    g = kernel.graph
    if g.operations is OPERATIONS:
        return
    used = {g.op[node] for node in kernel.nodes} & (g.operations.keys() - OPERATIONS.keys())
    yield from (g.operations[name] for name in sorted(used))


def without_own(kernel: Kernel, with_bodies: bool) -> Kernel:
    """A kernel with expressions in place of functions of users, but of those that are C text if
    `with_bodies`. Raises `ValueError` for a function that has no expression."""
    taken = {row.name for row in own_operations(kernel) if not (with_bodies and row.body)}
    while taken:
        outputs = _expanded(kernel.graph, kernel.outputs, taken)
        kernel = replace(kernel, outputs=outputs)
        taken = {row.name for row in own_operations(kernel) if not (with_bodies and row.body)}
    return kernel


def _expanded(g: Graph, outputs: Sequence[int], taken: set[str]) -> tuple[int, ...]:
    """Nodes with the expressions of those functions in their place."""
    new: dict[int, int] = {}
    for node in g.ancestors(outputs):
        args = tuple(new[a] for a in g.args[node])
        if g.op[node] in taken:
            formula = g.operations[g.op[node]].formula
            assert formula is not None
            new[node] = formula(g, args)
        else:
            new[node] = node if args == g.args[node] else g.apply(g.op[node], args)
    return tuple(new[node] for node in outputs)


def only_compiled(program: Program) -> list[str]:
    """Names of functions of users in a program that are C text alone."""
    rows = (row for kernel in program.kernels for row in own_operations(kernel))
    return sorted({row.shown.partition("(")[0] for row in rows if row.only_compiled})
