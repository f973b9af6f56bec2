"""`show`: the C of a function of a model or of a problem, to be read."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from kinesym.base.checks import shown
from kinesym.codegen.c99 import Style, file_name, function, helpers, plain
from kinesym.codegen.counts import counts
from kinesym.codegen.evaluate import model_functions
from kinesym.codegen.exported import exported_functions
from kinesym.codegen.kernel import Kernel, Program
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import check_known


class Code(str):
    """Text of a program, as it is on a terminal and in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def show(what: Any, name: str | None = None) -> Code:
    """The C of a function, with the number of operations behind each of its results; nothing is
    compiled. `print(problem.program)` counts those of all functions of a problem.

    Parameters
    ----------
    what : a `Model`, or the `program` of a problem.
    name : of the function, as `export` writes it for a model: "rhs", "residual", "outputs",
        "residual_jacobian_states", ... By default the first of them. Of a program that of a kernel,
        such as "interval_constraints".

    It is the function of one point that `export` writes, in double precision. What `simulate` and
    `solve` compile does the same for several points at a time, and what depends on parameters alone
    once for all. Raises `ValueError` for an unknown name, and for functions that C99 does not have.
    """
    if isinstance(what, Model):
        kernels = _by_name(model_functions(what).kernels)
        name = next(k for k in ("rhs", "residual") if k in kernels) if name is None else name
        if name not in kernels:
            kernels = _by_name(found.kernel for found in exported_functions(what))
    elif isinstance(what, Program):
        kernels = _by_name(what.kernels)
        name = next(iter(kernels)) if name is None else name
    else:
        raise ValueError(
            "expected a kinesym.Model or the program of a problem, problem.program, got "
            f"{shown(what)}"
        )
    check_known(name, kernels, f"{what.name} has no function {name!r}")
    return _printed(what.name, kernels[name])


def _by_name(kernels: Any) -> Mapping[str, Kernel]:
    return {kernel.name: kernel for kernel in kernels}


def _printed(title: str, kernel: Kernel) -> Code:
    prefix = file_name(title)
    style = Style(prefix, tables=f"{prefix}_tables")
    text = plain(kernel)
    lines = (line.replace("*/", "* /") for line in _counted(kernel))
    head = "".join(f" * {line}".rstrip() + "\n" for line in lines)
    parts = [helpers([text], style), function(text, style, "out")]
    return Code("\n".join([f"/* {prefix}_{kernel.name}: {kernel.purpose}\n{head} */", *parts]))


def _counted(kernel: Kernel) -> list[str]:
    """Lines on the operations by kind, and for each result those that no earlier one needs."""
    kinds = ", ".join(
        f"{count} {kind if count > 1 else kind.removesuffix('s')}"
        for kind, count in counts(kernel.graph, kernel.nodes).items()
        if count
    )
    order = kernel.order
    once = sum(len(run.nodes) for run in order.uniform)
    rows = [(once, "of parameters alone")] if once else []
    rows += [(len(run.nodes), kernel.labels[run.store[0]]) for run in order.varying]
    lines = [f"{count:>8}  {label}" for count, label in rows]
    return [f"{kernel.operations} operations: {kinds}" if kinds else "no operations", "", *lines]
