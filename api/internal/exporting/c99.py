"""Files of plain C99 of a model: functions of one point, a header that explains them, a program
that calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kinesym.codegen.c99 import Style, file_name, function, helpers, prototype
from kinesym.codegen.exported import Exported, Sparsity, exported_functions
from kinesym.symbolic.model import Model

#: Names of results in prototypes, by function.
_RESULTS = {"rhs": "dx", "residual": "r", "outputs": "y"}
#: Letters of a line of numbers.
_WIDTH = 100

_HEAD = """\
/* {title}
 *
 * Written by kinesym; whoever uses kinesym owns this file, and may license it as they like.
 */
"""


def model_files(model: Model, precision: str = "double") -> Mapping[str, bytes]:
    """The files, by name. precision : "double" or "single".

    Raises `ValueError` for functions that C99 does not have and for a model with delays.
    """
    if model.delays:
        raise ValueError(
            f"model {model.name} has delays, {', '.join(d.name for d in model.delays)}, whose past "
            "plain C functions of one point do not keep"
        )
    prefix = file_name(model.name)
    style = Style(prefix, precision, f"{prefix}_tables")
    found = exported_functions(model)
    values = [f for f in found if f.sparsity is None]
    derivatives = [f for f in found if f.sparsity is not None]
    files = {
        f"{prefix}.h": _header(model, style, found),
        f"{prefix}.c": _functions(model, style, values),
        f"{prefix}_jacobians.c": _functions(model, style, derivatives),
        f"{prefix}_data.c": _data(model, style, derivatives),
        "main.c": _main(model, style),
        "Makefile": _makefile(prefix),
    }
    return {name: text.encode() for name, text in files.items()}


def result_of(function: Exported) -> str:
    """Name of the results of a function in C."""
    return "values" if function.sparsity is not None else _RESULTS[function.kernel.name]


def _header(model: Model, style: Style, found: Sequence[Exported]) -> str:
    prefix, upper = style.prefix, style.prefix.upper()
    groups = {
        "states": (model.state_names, "x"),
        "inputs": (model.input_names, "u"),
        "parameters": (model.parameter_names, "p"),
        "outputs": (tuple(model.outputs), "y"),
    }
    parts = [
        _HEAD.format(title=f"Model {model.name}: functions of one point"),
        f'#ifndef {upper}_H\n#define {upper}_H\n#ifdef __cplusplus\nextern "C" {{\n'
        "#define restrict\n#endif\n",
        *(_group_comment(model, name, names, symbol) for name, (names, symbol) in groups.items()),
        "".join(f"#define {upper}_N_{k.upper()} {len(n)}\n" for k, (n, _) in groups.items()),
        "".join(
            f"extern const char *const {prefix}_{kind}_names[];\n"
            for kind, (n, _) in groups.items()
            if n
        )
        + (f"extern const {style.type} {prefix}_parameter_values[];\n" * bool(model.parameters)),
        "/* All functions return 0, or 1 if a result is not finite. They use no memory but the\n"
        " * stack, keep nothing between calls, and arrays must not overlap. */\n",
    ]
    for f in found:
        parts.append(_declaration(f, style))
    parts.append("#ifdef __cplusplus\n}\n#undef restrict\n#endif\n#endif\n")
    return "\n".join(part for part in parts if part)


def _group_comment(model: Model, kind: str, names: Iterable[str], symbol: str) -> str:
    lines = [
        f" *   {symbol}[{k}]  {name}" + (f" [{model.units[name]}]" if name in model.units else "")
        for k, name in enumerate(names)
    ]
    return "\n".join([f"/* {kind}", *lines, " */"]) + "\n" if lines else ""


def _declaration(f: Exported, style: Style) -> str:
    text = f"/* {f.kernel.purpose}"
    if f.sparsity is None:
        return f"{text} */\n{prototype(f.kernel, style, result_of(f))};\n"
    name = f"{style.prefix}_{f.kernel.name}"
    rows, columns = f.sparsity.shape
    return (
        f"{text}: {rows} x {columns}, {len(f.sparsity.row)} entries; those of column j are\n"
        f" * {name}_begin[j] ... {name}_begin[j + 1] - 1, in the rows {name}_row[...] */\n"
        f"extern const int {name}_begin[{columns + 1}];\n"
        f"extern const int {name}_row[{max(len(f.sparsity.row), 1)}];\n"
        f"{prototype(f.kernel, style, 'values')};\n"
    )


def _functions(model: Model, style: Style, found: Sequence[Exported]) -> str:
    kernels = [f.kernel for f in found]
    tables = len(model.tables.values)
    declared = f"extern const {style.type} {style.tables}[];\n" * bool(tables)
    return "\n".join(
        [
            _HEAD.format(title=f"Model {model.name}"),
            f'#include <math.h>\n\n#include "{style.prefix}.h"\n{declared}',
            helpers(kernels, style),
            *(
                f"/* {k.purpose} */\n{function(k, style, result_of(f))}"
                for f, k in zip(found, kernels, strict=True)
            ),
        ]
    )


def _data(model: Model, style: Style, found: Sequence[Exported]) -> str:
    names = {
        "states": model.state_names,
        "inputs": model.input_names,
        "parameters": model.parameter_names,
        "outputs": tuple(model.outputs),
    }
    parts = [
        _HEAD.format(title=f"Model {model.name}: names, values, patterns"),
        f'#include <math.h>\n\n#include "{style.prefix}.h"\n',
    ]
    for kind, members in names.items():
        if members:
            texts = ", ".join(f'"{name}"' for name in members)
            parts.append(
                _wrapped(f"const char *const {style.prefix}_{kind}_names[] = {{{texts}}};")
            )
    if model.parameters:
        values = [style.number(model.values.get(p, np.nan)) for p in model.parameter_names]
        parts.append(
            _wrapped(
                f"const {style.type} {style.prefix}_parameter_values[] = {{{', '.join(values)}}};"
            )
        )
    if len(model.tables.values):
        numbers = ", ".join(style.number(float(v)) for v in model.tables.values)
        parts.append(f"extern const {style.type} {style.tables}[];")
        parts.append(_wrapped(f"const {style.type} {style.tables}[] = {{{numbers}}};"))
    for f in found:
        assert f.sparsity is not None
        parts += _pattern(f"{style.prefix}_{f.kernel.name}", f.sparsity)
    return "\n".join(parts) + "\n"


def _pattern(name: str, sparsity: Sparsity) -> list[str]:
    rows = sparsity.row or (0,)
    return [
        _wrapped(f"const int {name}_{what}[{len(of)}] = {{{', '.join(map(str, of))}}};")
        for what, of in (("begin", sparsity.begin), ("row", rows))
    ]


def _wrapped(text: str) -> str:
    """A long list of numbers on lines of some length."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def _main(model: Model, style: Style) -> str:
    prefix, upper, kind = style.prefix, style.prefix.upper(), style.type
    explicit = (
        "rhs" if any(f.kernel.name == "rhs" for f in exported_functions(model)) else "residual"
    )
    n, m = len(model.states), len(model.inputs)
    first = f"{prefix}_rhs(x, u, {prefix}_parameter_values, 0, out)"
    if explicit == "residual":
        first = f"{prefix}_residual(xdot, x, u, {prefix}_parameter_values, 0, out)"
    if not model.parameters:
        first = first.replace(f"{prefix}_parameter_values", "u")
    return (
        f'#include <stdio.h>\n\n#include "{prefix}.h"\n\n'
        f"/* The {explicit} where all states are 0.1 */\nint main(void) {{\n"
        f"    {kind} x[{n}], u[{max(m, 1)}] = {{0}}, out[{n}];\n"
        + (f"    {kind} xdot[{n}] = {{0}};\n" if explicit == "residual" else "")
        + f"    for (int k = 0; k < {upper}_N_STATES; k++) x[k] = ({kind})0.1;\n"
        f"    const int failed = {first};\n"
        f"    for (int k = 0; k < {upper}_N_STATES; k++)\n"
        f'        printf("%s %.17g\\n", {prefix}_states_names[k], (double)out[k]);\n'
        "    return failed;\n}\n"
    )


def _makefile(prefix: str) -> str:
    objects = f"{prefix}.o {prefix}_jacobians.o {prefix}_data.o"
    return (
        "CFLAGS = -std=c99 -O2 -Wall -Wextra -Wconversion -pedantic\n\n"
        f"main: main.o {objects}\n\t$(CC) $(CFLAGS) -o $@ main.o {objects} -lm\n\n"
        f"main.o {objects}: {prefix}.h\n\n.PHONY: clean\nclean:\n\trm -f main *.o\n"
    )
