"""The functions of a model that programs of others call, with the patterns of their derivatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kinesym.codegen.c99 import plain
from kinesym.codegen.derive import jacobian
from kinesym.codegen.evaluate import ModelSymbols, model_functions, model_symbols, rhs_kernel
from kinesym.codegen.kernel import Argument, Kernel
from kinesym.symbolic.model import Model

#: What derivatives are taken with respect to, by the name of the argument.
GROUPS = {"xdot": "derivatives", "x": "states", "u": "inputs", "p": "parameters"}


@dataclass(frozen=True)
class Sparsity:
    """Pattern of a matrix by columns: entries of column j are begin[j] ... begin[j + 1] - 1, in the
    rows `row`, from 0."""

    shape: tuple[int, int]
    begin: tuple[int, ...]
    row: tuple[int, ...]


@dataclass(frozen=True)
class Exported:
    """A function: its kernel; for a matrix whose entries it gives, their places."""

    kernel: Kernel
    sparsity: Sparsity | None = None


def exported_functions(model: Model) -> list[Exported]:
    """`rhs` if x' can be solved for, `residual`, `outputs`, and Jacobians `rhs_jacobian_states`,
    `residual_jacobian_inputs` and so on, whose entries are by columns.

    Raises `ValueError` for functions that C99 does not have.
    """
    kernels = {kernel.name: kernel for kernel in model_functions(model).kernels}
    order = [name for name in ("rhs", "residual", "outputs") if name in kernels]
    return [*(Exported(plain(kernels[name])) for name in order), *_jacobians(model, order)]


def _jacobians(model: Model, order: Sequence[str]) -> Iterator[Exported]:
    for of in order:
        s = model_symbols(model)
        rows, names = _rows(model, s, of)
        for group in (s.xdot, s.x, s.u, s.p):
            if group.symbols and not (of == "rhs" and group is s.xdot):
                yield _jacobian(s, of, rows, names, group)


def _rows(model: Model, s: ModelSymbols, of: str) -> tuple[list[int], list[str]]:
    """Nodes of a function and what they are."""
    if of == "rhs":
        kernel = rhs_kernel(model, s)
        return list(kernel.outputs), list(kernel.labels)
    given = dict(enumerate(model.equations)) if of == "residual" else model.outputs
    label = "equation {}" if of == "residual" else "{}"
    return [s.lower(e) for e in given.values()], [label.format(name) for name in given]


def _jacobian(
    s: ModelSymbols, of: str, rows: Sequence[int], names: Sequence[str], group: Argument
) -> Exported:
    entries = jacobian(s.graph, rows, s.nodes(group))
    places = sorted(entries, key=lambda place: (place[1], place[0]))
    wrt = GROUPS[group.name]
    arguments = s.arguments if of == "rhs" else (s.xdot, *s.arguments)
    labels = tuple(f"d {names[i]} / d {group.symbols[j]}" for i, j in places)
    outputs = tuple(entries[place] for place in places)
    purpose = f"derivatives of the {of} with respect to the {wrt}, by columns"
    kernel = Kernel(f"{of}_jacobian_{wrt}", s.graph, arguments, outputs, labels, purpose)
    count = [0] * (len(group.symbols) + 1)
    for _, j in places:
        count[j + 1] += 1
    begin = tuple(sum(count[: j + 1]) for j in range(len(count)))
    shape = (len(rows), len(group.symbols))
    return Exported(plain(kernel), Sparsity(shape, begin, tuple(i for i, _ in places)))
