"""Functions of users on the expression graph: operations of its own, with C text, or by their
expressions where that cannot be compiled, or is not given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kinesym.codegen.algebra import Algebra
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Kernel, Program
from kinesym.codegen.operations import OPERATIONS, Operation
from kinesym.symbolic.function import Definition

#: Makes nodes of expressions, given those of their symbols.
Lower = Callable[[Graph, Mapping[Any, int]], Callable[[Any], int]]


@dataclass(frozen=True)
class OwnOperation(Operation):
    """A function of a user as an operation. lower : makes nodes of the expressions that say what it
    is short for, and its derivatives. body : its C; nothing if it has none."""

    lower: Lower | None = None
    body: str = ""

    @property
    def definition(self) -> Definition:
        """Definition by the user."""
        assert isinstance(self.value, Definition)
        return self.value

    def formula(self, g: Graph, operands: Sequence[int]) -> int:
        """The node of the expression that it is short for. Raises `ValueError` if it has none."""
        if self.definition.formula is None:
            raise ValueError(
                f"the function {self.definition.name} is C text, which needs a compiler; install "
                "one, or give its value as an expression, too: python=..."
            )
        return self.lowered(g, self.definition.formula, operands)

    def lowered(self, g: Graph, expression: Any, operands: Sequence[int]) -> int:
        """The node of an expression of the arguments."""
        assert self.lower is not None
        places = dict(zip(self.definition.arguments, operands, strict=True))
        return self.lower(g, places)(expression)

    def __reduce__(self) -> tuple[Any, ...]:
        return own_operation, (self.definition, self.lower)


def own_operation(definition: Definition, lower: Lower) -> OwnOperation:
    """The operation of a function of a user."""

    def partials(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
        assert isinstance(g, Graph)
        return tuple(made.lowered(g, e, a) for e in definition.slopes)

    name = _name(definition)
    count = len(definition.arguments)
    shown = f"{definition.name}({', '.join(['{}'] * count)})"
    body = _body(name, definition)
    made = OwnOperation(
        name, definition, partials, arity=count, shown=shown, lower=lower, body=body
    )
    return made


def own_node(g: Graph, definition: Definition, operands: Sequence[int], lower: Lower) -> int:
    """The node of a function of a user, whose operation the graph has from then on."""
    name = _name(definition)
    if name not in g.operations:
        g.operations = {**g.operations, name: own_operation(definition, lower)}
    return g.apply(name, operands)


def _name(definition: Definition) -> str:
    """The name of the operation, which tells what it is, for keys of caches."""
    return f"{definition.name}_{definition.digest.hex()[:16]}"


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


def own_operations(kernel: Kernel) -> Iterator[OwnOperation]:
    """Functions of users that a kernel needs, each once, by name."""
    g = kernel.graph
    if len(g.operations) == len(OPERATIONS):
        return
    for name in sorted({g.op[node] for node in kernel.nodes} & g.operations.keys()):
        row = g.operations[name]
        if isinstance(row, OwnOperation):
            yield row


def without_own(kernel: Kernel, with_bodies: bool) -> Kernel:
    """A kernel with expressions in place of functions of users, but of those that are C text if
    `with_bodies`. Raises `ValueError` for a function that has no expression."""
    while taken := {
        row.name: row for row in own_operations(kernel) if not (with_bodies and row.body)
    }:
        kernel = replace(kernel, outputs=_expanded(kernel.graph, kernel.outputs, taken))
    return kernel


def _expanded(
    g: Graph, outputs: Sequence[int], taken: Mapping[str, OwnOperation]
) -> tuple[int, ...]:
    """Nodes with the expressions of those functions in their place."""
    new: dict[int, int] = {}
    for node in g.ancestors(outputs):
        op, args = g.op[node], tuple(new[a] for a in g.args[node])
        if op in taken:
            new[node] = taken[op].formula(g, args)
        else:
            new[node] = node if args == g.args[node] else g.apply(op, args)
    return tuple(new[node] for node in outputs)


def only_compiled(program: Program) -> list[str]:
    """Names of functions of users in a program that are C text alone."""
    rows = (row.definition for kernel in program.kernels for row in own_operations(kernel))
    return sorted({own.name for own in rows if own.formula is None})
