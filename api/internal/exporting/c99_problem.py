"""Files of plain C99 of a collocation problem: cost, constraints and exact derivatives over all
nodes, with patterns, bounds, scales and a start as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinesym.codegen.c99 import Style, file_name, function, helpers, plain, wrapped
from kinesym.codegen.kernel import Kernel
from kinesym.internal.exporting.c99_driver import DRIVER, header, main_program, makefile, solver
from kinesym.internal.exporting.fixed import check_fixed
from kinesym.internal.exporting.text import head
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.sizes import scaling
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.sparse.structure import Run

#: Callbacks, in the order in which they are written.
CALLBACKS = ("cost", "gradient", "constraints", "jacobian", "hessian")
#: Most numbers of a problem that are written as text.
_MOST = 5_000_000


def problem_files(problem: Discretisation, guess: Any = None) -> Mapping[str, bytes]:
    """The files, by name. guess : of `Collocation.pack`, for the start and the scales.

    Raises `ValueError` for problems with delayed inputs or unknown delays of sensors, for functions
    that C99 does not have, and for more numbers than text is good for.
    """
    nlp, name = problem.nlp, problem.model.name
    check_fixed(problem)
    style = Style(f"{file_name(name)}_problem", tables="")
    kernels = {k.name: plain(k) for k in problem.libraries.program.kernels}
    numbers = _Numbers()
    calls = {what: [*_calls(nlp, what, kernels, numbers)] for what in CALLBACKS}
    called = [
        *{call.kernel.name: call.kernel for found in calls.values() for call in found}.values()
    ]
    vectors = _vectors(problem, guess)
    if (count := numbers.count + sum(map(len, vectors.values()))) > _MOST:
        raise ValueError(
            f"the problem of {name} has {count:,} numbers, too many for text; use fewer nodes"
        )
    about = _About(style, problem.n_variables, problem.n_constraints, calls)
    files = {
        f"{style.prefix}.h": _header(problem, about),
        f"{style.prefix}_kernels.h": _kernels_header(name, style, called),
        f"{style.prefix}_kernels.c": _kernels(name, style, called),
        f"{style.prefix}.c": _driver(name, about, called),
        f"{style.prefix}_data.c": _data(name, style, numbers, vectors),
        "main.c": main_program(style),
        "solve.c": solver(style),
        "Makefile": makefile(style.prefix),
    }
    return {file: text.encode() for file, text in files.items()}


# -- calls of kernels ---------------------------------------------------------------------------


@dataclass
class _Numbers:
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


@dataclass(frozen=True)
class _Call:
    """A kernel at the points of one family of one trial. arguments : for each, source (z,
    multipliers, factor, known numbers), offset, distance between scalars, step between points.
    outputs : of each, the place of its value at the first point, and the step from point to point.
    runs : rows and columns, if it gives a matrix."""

    kernel: Kernel
    points: int
    arguments: list[tuple[int, int, int, int]]
    outputs: list[tuple[int, int]]
    runs: list[Run] = field(default_factory=list)


def _calls(
    nlp: NLP, what: str, kernels: Mapping[str, Kernel], numbers: _Numbers
) -> Iterator[_Call]:
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
            yield _Call(kernel, n, arguments, outputs, runs)


def _argument(
    place: tuple[Any, int, int], moves: bool, numbers: _Numbers
) -> tuple[int, int, int, int]:
    source, offset, ld = place
    if isinstance(source, int):
        return source, offset, ld, int(moves)
    return 3, numbers.begin(source) + offset, ld, int(moves)


@dataclass(frozen=True)
class _About:
    """Sizes and calls of a problem. style : of C. n, m : numbers of variables and constraints."""

    style: Style
    n: int
    m: int
    calls: Mapping[str, Sequence[_Call]]

    def entries(self, what: str) -> int:
        """Number of values of a matrix."""
        return sum(run.length for call in self.calls[what] for run in call.runs)


# -- text -----------------------------------------------------------------------------------------


def _header(problem: Discretisation, about: _About) -> str:
    layout, prefix = problem.layout, about.style.prefix
    arrays = "".join(
        f"extern const double {prefix}_{name}[]; /* {what} */\n" for name, what in _VECTORS.items()
    )
    labels = "".join(
        f" *   {offset:>8}  trial {trial}: {family}, {layout.points(trial, family)} points: "
        f"{', '.join(map(str, layout.labels[family]))}\n"
        for (trial, family), offset in layout.constraint_offsets.items()
        if layout.labels[family]
    )
    filled = {
        "N_Z": about.n,
        "N_C": about.m,
        "N_J": about.entries("jacobian"),
        "N_H": about.entries("hessian"),
        "VARIABLES": _variables(problem),
        "CONDITIONS": labels,
        "ARRAYS": arrays,
    }
    title = f"Problem of {problem.model.name}: minimise cost(z), bounds on z and constraints(z)"
    return head(title) + header(about.style, filled)


def _variables(problem: Discretisation) -> str:
    """Lines on the places in z: the first entry of each course, then single numbers."""
    layout, lines = problem.layout, []
    for trial, begins in enumerate(layout.begins):
        for block in layout.blocks:
            count = block.count(layout.nodes[trial])
            lines += [
                f" *   {begins[block.name] + k * count:>8}  trial {trial}: {name}, {count} values"
                for k, name in enumerate(block.members)
            ]
    for j in range(layout.parameter_offset, problem.n_variables):
        lines.append(f" *   {j:>8}  {layout.variable_name(j)}")
    return "\n".join(lines) + "\n"


def _kernels(name: str, style: Style, kernels: Sequence[Kernel]) -> str:
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


def _kernels_header(name: str, style: Style, kernels: Sequence[Kernel]) -> str:
    upper = style.prefix.upper()
    return (
        head(f"Problem of {name}: functions of one point, whose arguments are an array")
        + f"#ifndef {upper}_KERNELS_H\n#define {upper}_KERNELS_H\n\n"
        + "".join(f"{_adaptor(kernel, style)};\n" for kernel in kernels)
        + "\n#endif\n"
    )


def _driver(name: str, about: _About, kernels: Sequence[Kernel]) -> str:
    prefix = about.style.prefix
    sizes = {
        "room": max(sum(a.count for a in k.arguments) for k in kernels),
        "results": max(len(k.outputs) for k in kernels),
        "arguments": max(len(k.arguments) for k in kernels),
    }
    parts = [
        head(f"Problem of {name}: its functions over all nodes"),
        f'#include <stddef.h>\n\n#include "{prefix}.h"\n#include "{prefix}_kernels.h"\n',
        f"extern const double {prefix}_known[];\n",
        DRIVER.format(**sizes),
    ]
    for what in CALLBACKS:
        parts += _tables(what, about)
        parts.append(_callback(what, about))
    return "\n".join(parts)


def _tables(what: str, about: _About) -> Iterator[str]:
    """Calls of a callback with their arguments and places, as constants."""
    calls = []
    for c, call in enumerate(about.calls[what]):
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
        function = f"{about.style.prefix}_call_{call.kernel.name}"
        calls.append(
            f"    {{{function}, {call.points}, {len(call.arguments)}, {len(call.outputs)},\n"
            f"     {name}_arguments, {name}_results}},\n"
        )
        if call.runs:
            runs = ", ".join(
                f"{{{r.row}, {r.row_step}, {r.column}, {r.column_step}, {r.length}}}"
                for r in call.runs
            )
            yield wrapped(f"static const run {name}_runs[] = {{{runs}}};")
    listed = "".join(calls) or "    {0}\n"
    yield f"static const call {what}_calls[] = {{\n{listed}}};\n"


def _callback(what: str, about: _About) -> str:
    prefix, count = about.style.prefix, len(about.calls[what])
    more = "double factor, const double *multipliers, " if what == "hessian" else ""
    given = "{z, multipliers, &factor, " if what == "hessian" else "{z, NULL, NULL, "
    sizes = {"cost": 1, "gradient": about.n, "constraints": about.m}
    size = sizes.get(what, about.entries(what))
    out = what if what in sizes else "values"
    text = (
        f"int {prefix}_{what}(const double *z, {more}double *{out}) {{\n"
        f"    const double *const sources[] = {given}{prefix}_known}};\n"
        f"    return evaluate({what}_calls, {count}, sources, {out}, {size});\n}}\n"
    )
    if what not in sizes:
        fills = ""
        begin = 0
        for c, call in enumerate(about.calls[what]):
            given = f"{len(call.runs)}, row + {begin}, column + {begin}"
            fills += f"    structure({what}_{c}_runs, {given});\n"
            begin += sum(run.length for run in call.runs)
        text += f"\nvoid {prefix}_{what}_structure(int *row, int *column) {{\n{fills}}}\n"
    return text


#: Vectors that are data, and what they are.
_VECTORS = {
    "lower": "lower bounds of z",
    "upper": "upper bounds of z",
    "constraints_lower": "lower bounds of the constraints",
    "constraints_upper": "upper bounds of the constraints",
    "start": "first guess of z",
    "scale": "factors by which z is scaled well",
    "constraints_scale": "factors of the constraints",
    "cost_scale": "factor of the cost",
}


def _vectors(problem: Discretisation, guess: Any) -> dict[str, Array]:
    """Bounds, start and scales."""
    start = FirstGuess(problem).pack(guess)
    scales = scaling(problem, start)
    pairs = (*problem.variable_bounds, *problem.constraint_bounds)
    more = (start, scales.variables, scales.constraints, np.array([scales.objective]))
    return dict(zip(_VECTORS, (*pairs, *more), strict=True))


def _data(name: str, style: Style, numbers: _Numbers, vectors: Mapping[str, Array]) -> str:
    known = np.concatenate([np.ravel(a) for a in numbers.arrays] or [np.zeros(1)])
    parts = [
        head(f"Problem of {name}: numbers"),
        f'#include <math.h>\n\n#include "{style.prefix}.h"\n\n'
        f"extern const double {style.prefix}_known[];\n",
    ]
    for kind, values in {**vectors, "known": known}.items():
        text = ", ".join(style.number(float(v)) for v in values) or "0.0"
        parts.append(wrapped(f"const double {style.prefix}_{kind}[] = {{{text}}};"))
    return "\n".join(parts) + "\n"
