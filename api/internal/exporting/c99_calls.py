"""Calls of functions of one point at all points of a nonlinear program, as tables of C, and the
functions they call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinesym.codegen.c99 import Style, function, helpers, wrapped
from kinesym.codegen.kernel import Kernel
from kinesym.internal.exporting.c99_driver import DRIVER
from kinesym.internal.exporting.text import head
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.sparse.structure import Run

#: Most numbers of a problem that are written as text.
_MOST = 5_000_000


@dataclass
class Numbers:
    """Arrays of known numbers, each once, one after the other."""

    arrays: list[Array] = field(default_factory=list)
    begins: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def begin(self, array: Array) -> int:
        """Place of the first number of an array."""
        if id(array) not in self.begins:
            self.begins[id(array)] = self.count
            self.arrays.append(array)
            self.count += array.size
        return self.begins[id(array)]

    @property
    def all(self) -> Array:
        """The numbers of all arrays."""
        return np.concatenate([np.ravel(a) for a in self.arrays] or [np.zeros(1)])


def check_count(name: str, count: int) -> None:
    """Raise `ValueError` for a problem of so many numbers that text is no good for them."""
    if count > _MOST:
        raise ValueError(
            f"the problem of {name} has {count:,} numbers, too many for text; use fewer nodes"
        )


@dataclass(frozen=True)
class Call:
    """A kernel at the points of one family of one trial. arguments : for each, source (z,
    multipliers, factor, known numbers), offset, distance between scalars, step between points.
    outputs : of each, the place of its value at the first point, and the step from point to point.
    runs : rows and columns, if it gives a matrix."""

    kernel: Kernel
    points: int
    arguments: list[tuple[int, int, int, int]]
    outputs: list[tuple[int, int]]
    runs: list[Run] = field(default_factory=list)


def calls_of(
    nlp: NLP, what: str, kernels: Mapping[str, Kernel], numbers: Numbers
) -> Iterator[Call]:
    """Calls of one callback. A matrix has its values run after run: one value for each point, or
    one for all."""
    begin = 0
    for trial, family in nlp.with_kernel(what):
        kernel, n = kernels[f"{family}_{what}"], nlp.layout.points(trial, family)
        varying = nlp.built.manifest.kernels[kernel.name].varying
        arguments = [
            _argument(nlp.argument(trial, family, a.name), moves, numbers)
            for a, moves in zip(kernel.arguments, varying, strict=True)
        ]
        runs: list[Run] = []
        if what == "cost":
            outputs = [(0, 0)]
        elif what == "constraints":
            first = nlp.layout.constraint_offsets[trial, family]
            outputs = [(first + k * n, 1) for k in range(len(kernel.outputs))]
        elif what == "gradient":
            entries = nlp.entries(trial, family)
            chosen = nlp.about.families[family].gradient
            outputs = [entries[j][:2] for j in chosen]
        else:
            runs = (nlp.jacobian_runs if what == "jacobian" else nlp.hessian_runs)(trial, family)
            outputs = []
            for run in runs:
                outputs.append((begin, int(run.length > 1)))
                begin += run.length
        if outputs:
            yield Call(kernel, n, arguments, outputs, runs)


def _argument(
    place: tuple[Any, int, int], moves: bool, numbers: Numbers
) -> tuple[int, int, int, int]:
    source, offset, ld = place
    if isinstance(source, int):
        return source, offset, ld, int(moves)
    return 3, numbers.begin(source) + offset, ld, int(moves)


# -- text -----------------------------------------------------------------------------------------


def kernels_file(name: str, style: Style, kernels: Sequence[Kernel]) -> str:
    """Functions of one point, and for each one that takes the arguments as an array."""
    parts = [
        head(f"Problem of {name}: functions of one point"),
        f'#include <math.h>\n\n#include "{style.prefix}_kernels.h"\n',
        helpers(kernels, style),
    ]
    for kernel in kernels:
        given = (
            f"a[{k}][0]" if a.name == "t" else f"a[{k}]" for k, a in enumerate(kernel.arguments)
        )
        parts.append(f"/* {kernel.purpose} */\n{function(kernel, style, 'results', 'static ')}")
        parts.append(
            f"{_adaptor(kernel, style)} {{\n"
            f"    return {style.prefix}_{kernel.name}({', '.join(given)}, results);\n}}\n"
        )
    return "\n".join(parts)


def _adaptor(kernel: Kernel, style: Style) -> str:
    return f"int {style.prefix}_call_{kernel.name}(const double *const *a, double *results)"


def kernels_header(name: str, style: Style, kernels: Sequence[Kernel]) -> str:
    """Declarations of the functions that take the arguments as an array."""
    upper = style.prefix.upper()
    return (
        head(f"Problem of {name}: functions of one point, whose arguments are an array")
        + f"#ifndef {upper}_KERNELS_H\n#define {upper}_KERNELS_H\n\n"
        + "".join(f"{_adaptor(kernel, style)};\n" for kernel in kernels)
        + "\n#endif\n"
    )


def driver(kernels: Sequence[Kernel]) -> str:
    """The loop over all points of calls of these kernels."""
    return DRIVER.format(
        room=max(sum(a.count for a in k.arguments) for k in kernels),
        results=max(len(k.outputs) for k in kernels),
        arguments=max(len(k.arguments) for k in kernels),
    )


def tables(what: str, calls: Sequence[Call], style: Style) -> Iterator[str]:
    """Calls of a callback with their arguments and places, as constants."""
    rows = []
    for c, call in enumerate(calls):
        name = f"{what}_{c}"
        arguments = ", ".join(
            f"{{{source}, {a.count}, {step}, {offset}, {distance if a.count > 1 else 1}}}"
            for a, (source, offset, distance, step) in zip(
                call.kernel.arguments, call.arguments, strict=True
            )
        )
        places = ", ".join(f"{{{begin}, {step}}}" for begin, step in call.outputs)
        yield wrapped(f"static const argument {name}_arguments[] = {{{arguments}}};")
        yield wrapped(f"static const place {name}_results[] = {{{places}}};")
        function = f"{style.prefix}_call_{call.kernel.name}"
        rows.append(
            f"    {{{function}, {call.points}, {len(call.arguments)}, {len(call.outputs)},\n"
            f"     {name}_arguments, {name}_results}},\n"
        )
        if call.runs:
            runs = ", ".join(
                f"{{{r.row}, {r.row_step}, {r.column}, {r.column_step}, {r.length}}}"
                for r in call.runs
            )
            yield wrapped(f"static const run {name}_runs[] = {{{runs}}};")
    listed = "".join(rows) or "    {0}\n"
    yield f"static const call {what}_calls[] = {{\n{listed}}};\n"


def data_file(name: str, style: Style, arrays: Mapping[str, Array]) -> str:
    """Arrays of numbers by name, those that the header does not declare too."""
    parts = [
        head(f"Problem of {name}: numbers"),
        f'#include <math.h>\n\n#include "{style.prefix}.h"\n\n'
        f"extern const double {style.prefix}_known[];\n",
    ]
    for kind, values in arrays.items():
        text = ", ".join(style.number(float(v)) for v in values) or "0.0"
        parts.append(wrapped(f"const double {style.prefix}_{kind}[] = {{{text}}};"))
    return "\n".join(parts) + "\n"
