"""Files of plain C99 of a model: functions of one point, a header that explains them, a program
that calls them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import check_choice
from kinesym.codegen.c99 import (
    PRECISIONS,
    Style,
    dense_function,
    dense_prototype,
    file_name,
    function,
    helpers,
    prototype,
    wrapped,
)
from kinesym.codegen.c99_delays import declared as declared_past
from kinesym.codegen.c99_delays import rk4 as delayed_rk4
from kinesym.codegen.c99_steps import (
    CONSTANT,
    STAGES,
    Inputs,
    Sizes,
    radau,
    rk4,
    stack_bytes,
    step_prototype,
)
from kinesym.codegen.exported import Exported, Sparsity, exported_functions, hybrid_functions
from kinesym.internal.exporting.c99_programs import cmake, main_program, makefile, mex, s_function
from kinesym.internal.exporting.text import head, in_comment
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of

#: Names of results in prototypes, by function; of matrices they are `values`.
_RESULTS = {"rhs": "dx", "residual": "r", "outputs": "y", "forcing": "f", "guards": "g"}
#: What arguments and results are, by their names in C.
_MEANINGS = {
    "xdot": "derivatives of states",
    "x": "states",
    "u": "inputs",
    "delayed": "values of states and inputs some time ago",
    "p": "parameters",
    "t": "time",
    "weights": "weights of the components of the function",
    "direction": "a direction of the arguments, one after the other",
}


def model_files(model: Model, precision: str = "double") -> Mapping[str, bytes]:
    """The files, by name. precision : "double" or "single".

    Raises `ValueError` for functions that C99 does not have and for a model with delays.
    """
    return _files(model, model.tables.values, [], precision)


def hybrid_files(hybrid: Hybrid, precision: str = "double") -> Mapping[str, bytes]:
    """The files, by name: those of its smooth part, guards of events and what they change.

    Raises `ValueError` as `model_files`, and for contacts.
    """
    if hybrid.contacts:
        names = ", ".join(contact.name for contact in hybrid.contacts)
        raise ValueError(
            f"{hybrid.model.name} has contacts, {names}, whose forces solve inequalities at each "
            "instant, and no plain C function does; export its model, where they are inputs"
        )
    return _files(hybrid.model, hybrid.tables.values, hybrid_functions(hybrid), precision)


def result_of(function: Exported) -> str:
    """Name of the results of a function in C."""
    if function.sparsity is not None:
        return "values"
    return _RESULTS.get(function.kernel.name, "results")


def _files(
    model: Model, tables: NDArray[np.float64], more: Sequence[Exported], precision: str
) -> Mapping[str, bytes]:
    check_choice(precision, PRECISIONS, "precision")
    if changing := [d.name for d in model.delays if d.changes(model.parameters)]:
        raise ValueError(
            f"model {model.name} has delays that change along the motion, {', '.join(changing)}: "
            "steps would have to look back by what they are about to find; make an input of each, "
            "which your program keeps"
        )
    if model.delays and more:
        raise ValueError(
            f"model {model.name} has events beside delays, which are not written as C; export its "
            "model without events"
        )
    style = style_of(model, precision)
    prefix, found = style.prefix, [*exported_functions(model), *more]
    code = model_code(model, found, tables, style)
    sources, names = [file for file in code if file.endswith(".c")], [f.kernel.name for f in found]
    files = {
        **code,
        "main.c": main_program(style, names, bool(model.delays)),
        "Makefile": makefile(sources),
        "CMakeLists.txt": cmake(prefix, sources),
    }
    if model.delays:  # gateways keep no past
        return {name: text.encode() for name, text in files.items()}
    if "residual" in names:
        files[f"{prefix}_mex.c"] = mex(style, names)
    if "rhs" in names and precision == "double":
        files[f"{prefix}_sfun.c"] = s_function(style, names)
    return {name: text.encode() for name, text in files.items()}


def style_of(model: Model, precision: str = "double") -> Style:
    """Names and type of the C of a model."""
    prefix = file_name(model.name)
    return Style(prefix, precision, f"{prefix}_tables")


def model_code(
    model: Model,
    found: Sequence[Exported],
    tables: NDArray[np.float64],
    style: Style,
    inputs: Inputs = CONSTANT,
) -> dict[str, str]:
    """The header and the code of these functions and of steps of time, by name of the file. inputs
    : how they go over a step.

    Raises `ValueError` for equations that no step solves.
    """
    prefix = style.prefix
    solved = any(f.kernel.name == "rhs" for f in found)
    if not solved and model.index.value not in (0, 1):
        raise ValueError(
            f"model {model.name} has equations of {model.index}, which steps of time do not meet; "
            "use model.reduced_index()"
        )
    steps, declared = _steps(model, style, found, inputs)
    hessians = [f for f in found if _kind(f) == "hessian"]
    code = {
        f"{prefix}.c": _functions(model, style, [f for f in found if _kind(f) == "values"]),
        f"{prefix}_jacobians.c": _functions(
            model, style, [f for f in found if _kind(f) == "matrix"]
        ),
        **({f"{prefix}_hessians.c": _functions(model, style, hessians)} if hessians else {}),
        **{f"{prefix}_{name}.c": _with_head(model, style, text) for name, text in steps.items()},
        f"{prefix}_data.c": _data(model, style, found, tables),
    }
    digest = hashlib.sha256("".join(code.values()).encode()).hexdigest()[:16]
    return {f"{prefix}.h": _header(model, style, found, declared, digest), **code}


def _kind(f: Exported) -> str:
    """The file that a function belongs to."""
    if f.sparsity is not None:
        return "matrix"
    return "hessian" if f.kernel.name.endswith("_hessian_product") else "values"


def _sizes(model: Model, found: Sequence[Exported]) -> Sizes:
    entries = {f.kernel.name: len(f.kernel.outputs) for f in found if f.sparsity is not None}
    return Sizes(len(model.states), len(model.inputs), len(model.parameters), entries)


def _steps(
    model: Model, style: Style, found: Sequence[Exported], inputs: Inputs
) -> tuple[dict[str, str], str]:
    """Text of steps, by method, and their declarations."""
    sizes, late = _sizes(model, found), len(model.delays)
    names = {f.kernel.name for f in found}
    ways = {"rk4": ("rhs", rk4), "radau": ("residual", radau)}
    if late:
        made = delayed_rk4(style, sizes.states, sizes.inputs - late, late)
        explicit = "rhs" in names
        return {"rk4": made} if explicit else {}, declared_past(style, explicit)
    steps = {way: make(style, sizes, inputs) for way, (of, make) in ways.items() if of in names}
    return steps, _declared_steps(style, sizes, list(steps), inputs)


# -- the header -----------------------------------------------------------------------------------


def _header(
    model: Model,
    style: Style,
    found: Sequence[Exported],
    steps: str,
    digest: str,
) -> str:
    prefix, upper = style.prefix, style.prefix.upper()
    groups = _groups(model, found)
    symbols = {"states": "x", "inputs": "u", "parameters": "p", "outputs": "y"}
    symbols |= {"events": "g", "delayed": "delayed"}
    parts = [
        head(f"Model {model.name}: functions of one point"),
        f'#ifndef {upper}_H\n#define {upper}_H\n#ifdef __cplusplus\nextern "C" {{\n'
        "#define restrict\n#endif\n",
        f'/* What wrote this, and a digest of the C */\n#define {upper}_WRITTEN_BY "kinesym '
        f'{version("kinesym")}"\n#define {upper}_DIGEST "{digest}"\n',
        *(_group_comment(model, kind, names, symbols[kind]) for kind, names in groups.items()),
        "".join(f"#define {upper}_N_{kind.upper()} {len(n)}\n" for kind, n in groups.items()),
        "".join(
            f"extern const char *const {prefix}_{kind}_names[{len(names)}];\n"
            for kind, names in groups.items()
            if names
        )
        + f"extern const {style.type} {prefix}_parameter_values[{max(len(model.parameters), 1)}];"
        " /* NaN where the model has none */\n",
        "/* All functions return 0, or 1 if a result is not finite. They use no memory but the\n"
        " * stack and keep nothing between calls, so that threads may call them at once. Arrays\n"
        f" * of {style.type} must not overlap, and need no alignment but that of {style.type}:\n"
        + "".join(f" *   {line}\n" for line in _arguments(found))
        + " * A pointer to an array of no numbers may be null. */\n",
        *(_declaration(f, style) for f in found),
        steps,
        "#ifdef __cplusplus\n}\n#undef restrict\n#endif\n#endif\n",
    ]
    return "\n".join(part for part in parts if part)


def _groups(model: Model, found: Sequence[Exported]) -> dict[str, tuple[str, ...]]:
    """Names of what there are several of."""
    events = next((f.kernel.labels for f in found if f.kernel.name == "guards"), ())
    late = tuple(delay.name for delay in model.delays)
    groups = {
        "states": model.state_names,
        "inputs": model.input_names[: len(model.inputs) - len(late)],
        **({"delayed": late} if late else {}),
        "parameters": model.parameter_names,
        "outputs": tuple(model.outputs),
    }
    return {**groups, "events": events[: len(events) // 2]} if events else groups


def _group_comment(model: Model, kind: str, names: Iterable[str], symbol: str) -> str:
    units = {name: f" [{unit}]" for name, unit in model.units.items()}
    late = {d.name: f"{float(d.tau):g}" if d.tau.is_number else str(d.tau) for d in model.delays}
    units |= {d.name: f": {name_of(d.signal)} of {late[d.name]} s before" for d in model.delays}
    lines = [f" *   {symbol}[{k}]  {name}{units.get(name, '')}" for k, name in enumerate(names)]
    return "\n".join([f"/* {kind}", *map(in_comment, lines), " */"]) + "\n" if lines else ""


def _arguments(found: Sequence[Exported]) -> list[str]:
    """Lines that say what arguments are, and how many numbers."""
    sizes = {a.name: len(a.symbols) for f in found for a in f.kernel.arguments}
    return [
        f"{name:<9} {meaning}" + (f" ({sizes[name]})" if name in ("xdot", "x", "u", "p") else "")
        for name, meaning in _MEANINGS.items()
        if name in sizes
    ]


def _declaration(f: Exported, style: Style) -> str:
    name, count = f"{style.prefix}_{f.kernel.name}", len(f.kernel.outputs)
    declared = wrapped(f"{prototype(f.kernel, style, result_of(f))};")
    purpose = in_comment(f.kernel.purpose)
    if f.sparsity is None:
        return f"{_comment(f'{purpose}: {result_of(f)} ({count})')}{declared}\n"
    rows, columns = f.sparsity.shape
    text = (
        f"{purpose}: {rows} x {columns}, {count} entries in `values`; those of column j are "
        f"{name}_begin[j] ... {name}_begin[j + 1] - 1, in the rows {name}_row[...]; or all, "
        f"matrix[i + {rows}*j]"
    )
    return (
        f"{_comment(text)}extern const int {name}_begin[{columns + 1}];\n"
        f"extern const int {name}_row[{count}];\n{declared}\n"
        f"{wrapped(f'{dense_prototype(f.kernel, style)};')}\n"
    )


def _declared_steps(style: Style, sizes: Sizes, steps: Sequence[str], inputs: Inputs) -> str:
    """Declarations of the functions of steps."""
    if not steps:
        return ""
    n, bytes_of = sizes.states, stack_bytes(style, sizes, inputs)
    about = {
        "rk4": "the classical Runge-Kutta method of order 4",
        "radau": "Radau IIA of order 5, for stiff models and algebraic equations of index 1; also "
        "returns 2 for a singular matrix, 3 if Newton's method does not converge",
    }
    how = (
        "with inputs u at each stage of the method, one stage after the other"
        if inputs.several
        else "with constant inputs"
    )
    parts = [
        _comment(
            f"Steps from t to t + h {how}: x_next (number of states), and derivatives of x_next by "
            f"x, u and p, sensitivities[i + {n}*j] for column j"
        )
    ]
    for method in steps:
        count = inputs.columns(sizes, STAGES[method])
        parts.append(_comment(f"{about[method]}; {count} columns"))
        for end in ("", "_sensitivities"):
            name = f"step_{method}{inputs.suffix}{end}"
            parts.append(f"/* {bytes_of[name]} bytes of the stack */\n")
            parts.append(f"{wrapped(f'{step_prototype(style, name)};')}\n")
    return "".join(parts)


def _comment(text: str) -> str:
    return "/* " + "\n * ".join(wrap(text, 95, break_on_hyphens=False)) + " */\n"


# -- code and data --------------------------------------------------------------------------------


def _with_head(model: Model, style: Style, text: str) -> str:
    first = head(f"Model {model.name}")
    return f'{first}\n#include <math.h>\n\n#include "{style.prefix}.h"\n\n{text}'


def _functions(model: Model, style: Style, found: Sequence[Exported]) -> str:
    kernels = [f.kernel for f in found]
    read = any(k.graph.op[node] in ("locate", "entry") for k in kernels for node in k.nodes)
    parts = [f"extern const {style.type} {style.tables}[];\n"] * read
    if given := helpers(kernels, style):
        parts.append(given.rstrip("\n") + "\n")
    for f in found:
        parts.append(
            f"{_comment(in_comment(f.kernel.purpose))}{function(f.kernel, style, result_of(f))}"
        )
        if f.sparsity is not None:
            parts.append(dense_function(f.kernel, style, f.sparsity.shape))
    return _with_head(model, style, "\n".join(parts))


def _data(
    model: Model, style: Style, found: Sequence[Exported], tables: NDArray[np.float64]
) -> str:
    prefix, kind = style.prefix, style.type
    names, parts = [], []
    for what, members in _groups(model, found).items():
        if members:
            declared = f"const char *const {prefix}_{what}_names[{len(members)}]"
            names.append(f"{declared} = {{\n{literals(members)}}};\n")
    values = [style.number(model.values.get(p, np.nan)) for p in model.parameter_names] or ["0"]
    parts.append(
        f"const {kind} {prefix}_parameter_values[{len(values)}] = {{{', '.join(values)}}};"
    )
    if len(tables):
        numbers = ", ".join(style.number(float(v)) for v in tables)
        parts.append(f"extern const {kind} {style.tables}[];")
        parts.append(f"const {kind} {style.tables}[] = {{{numbers}}};")
    if model.delays:
        order = [*model.states, *model.inputs]
        of = ", ".join(str(order.index(delay.signal)) for delay in model.delays)
        parts.append(f"const int {prefix}_delayed_of[{len(model.delays)}] = {{{of}}};")
    for f in found:
        if f.sparsity is not None:
            parts += _pattern(f"{prefix}_{f.kernel.name}", f.sparsity)
    return _with_head(model, style, "".join(names) + "\n".join(map(wrapped, parts)) + "\n")


def literals(names: Iterable[str]) -> str:
    """Lines of names as constants of C."""
    return "".join(f"    {_literal(name)},\n" for name in names)


def _literal(name: str) -> str:
    """A name as a constant of C."""
    text = name.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
    return f'"{text}"'


def _pattern(name: str, sparsity: Sparsity) -> list[str]:
    return [
        f"const int {name}_{what}[{len(of)}] = {{{', '.join(map(str, of))}}};"
        for what, of in (("begin", sparsity.begin), ("row", sparsity.row))
    ]
