"""Files of plain C99 of a collocation problem: cost, constraints and exact derivatives over all
nodes, with patterns, bounds, scales and a start as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinesym.codegen.c99 import Style, file_name, plain
from kinesym.codegen.kernel import Kernel
from kinesym.internal.exporting.c99_calls import (
    Call,
    Numbers,
    calls_of,
    check_count,
    data_file,
    driver,
    kernels_file,
    kernels_header,
    tables,
)
from kinesym.internal.exporting.c99_driver import (
    STRUCTURE,
    header,
    main_program,
    makefile,
    solver,
)
from kinesym.internal.exporting.fixed import check_fixed
from kinesym.internal.exporting.text import head
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.scaling import scaling
from kinesym.runtime.arrays import Array

#: Callbacks, in the order in which they are written.
CALLBACKS = ("cost", "gradient", "constraints", "jacobian", "hessian")


def problem_files(problem: Discretisation, guess: Any = None) -> Mapping[str, bytes]:
    """The files, by name. guess : of `Collocation.pack`, for the start and the scales.

    Raises `ValueError` for problems with delayed inputs or unknown delays of sensors, for functions
    that C99 does not have, and for more numbers than text is good for.
    """
    nlp, name = problem.nlp, problem.model.name
    check_fixed(problem)
    style = Style(f"{file_name(name)}_problem", tables="")
    kernels = {k.name: plain(k) for k in problem.libraries.program.kernels}
    numbers = Numbers()
    calls = {what: [*calls_of(nlp, what, kernels, numbers)] for what in CALLBACKS}
    called = [
        *{call.kernel.name: call.kernel for found in calls.values() for call in found}.values()
    ]
    vectors = _vectors(problem, guess)
    check_count(name, numbers.count + sum(map(len, vectors.values())))
    about = _About(style, problem.n_variables, problem.n_constraints, calls)
    files = {
        f"{style.prefix}.h": _header(problem, about),
        f"{style.prefix}_kernels.h": kernels_header(name, style, called),
        f"{style.prefix}_kernels.c": kernels_file(name, style, called),
        f"{style.prefix}.c": _driver(name, about, called),
        f"{style.prefix}_data.c": data_file(name, style, {**vectors, "known": numbers.all}),
        "main.c": main_program(style),
        "solve.c": solver(style),
        "Makefile": makefile(style.prefix),
    }
    return {file: text.encode() for file, text in files.items()}


@dataclass(frozen=True)
class _About:
    """Sizes and calls of a problem. style : of C. n, m : numbers of variables and constraints."""

    style: Style
    n: int
    m: int
    calls: Mapping[str, Sequence[Call]]

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


def _driver(name: str, about: _About, kernels: Sequence[Kernel]) -> str:
    prefix = about.style.prefix
    parts = [
        head(f"Problem of {name}: its functions over all nodes"),
        f'#include <stddef.h>\n\n#include "{prefix}.h"\n#include "{prefix}_kernels.h"\n',
        f"extern const double {prefix}_known[];\n",
        driver(kernels),
        STRUCTURE,
    ]
    for what in CALLBACKS:
        parts += tables(what, about.calls[what], about.style)
        parts.append(_callback(what, about))
    return "\n".join(parts)


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
