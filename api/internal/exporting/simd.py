"""Files of C in vector lanes of a model: its functions at many points per call, as kinesym runs
them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kinesym.base.checks import check_choice
from kinesym.codegen.c import emit
from kinesym.codegen.c99 import file_name
from kinesym.codegen.evaluate import model_functions, model_jacobians
from kinesym.codegen.kernel import Kernel, Program
from kinesym.codegen.own import only_compiled
from kinesym.internal.exporting.text import head
from kinesym.runtime.library.build import INCLUDE
from kinesym.symbolic.model import Model

#: Numbers of lanes: those of AVX-512, AVX2, SSE2 and NEON, and one number at a time.
LANES = (8, 4, 2, 1)
#: Results, by kernel.
_RESULTS = {"residual": "r", "rhs": "dx", "outputs": "y"}


def lane_files(model: Model, lanes: int = 8) -> Mapping[str, bytes]:
    """The files, by name. lanes : 8, 4, 2 or 1 points side by side.

    Raises `ValueError` for a model with tables, delays, or functions that are C text alone.
    """
    check_choice(str(lanes), [str(k) for k in LANES], "lanes")
    program = _program(model)
    own = only_compiled(program)
    refused = {
        "tables, whose numbers its functions take with each call; use the target c99": len(
            model.tables.values
        ),
        "delays, whose past its functions do not keep; make an input of each": len(model.delays),
        f"functions that are C text alone, {', '.join(own)}; give python=..., too": len(own),
    }
    for what, count in refused.items():
        if count:
            raise ValueError(f"model {model.name} has {what}")
    source = emit(program).files
    prefix = file_name(model.name)
    wrapper = _wrapper(model, program, prefix)
    files = {**source, f"{prefix}_points.c": wrapper, f"{prefix}_points.h": _header(model, program)}
    headers = _headers(files.values())
    files |= {"main.c": _main(model, prefix), "Makefile": _makefile(files, lanes)}
    return {name: text.encode() for name, text in {**files, **headers}.items()}


def _program(model: Model) -> Program:
    """Functions and Jacobians in one program."""
    functions, jacobians = model_functions(model), model_jacobians(model)
    return replace(functions, kernels=(*functions.kernels, *jacobians.kernels))


def _headers(texts: Iterable[str]) -> dict[str, str]:
    """The headers of kinesym that texts include, and those that these include."""
    found: dict[str, str] = {}
    waiting = list(texts)
    while waiting:
        for name in re.findall(r'#include "(kinesym\w*\.h)"', waiting.pop()):
            if name not in found and (INCLUDE / name).is_file():
                found[name] = (INCLUDE / name).read_text()
                waiting.append(found[name])
    return found


def _prototype(kernel: Kernel, prefix: str) -> str:
    given = ", ".join(f"const double *{a.name}" for a in kernel.arguments)
    out = _RESULTS.get(kernel.name, "values")
    return f"int {prefix}_{kernel.name}_points(ptrdiff_t n, {given}, double *{out}, int threads)"


def _header(model: Model, program: Program) -> str:
    prefix = file_name(model.name)
    upper = prefix.upper()
    about = {
        "xdot, x": model.state_names,
        "u": model.input_names,
        "p": model.parameter_names,
        "y": tuple(model.outputs),
    }
    lists = "".join(
        f" *   {name:<8} {', '.join(names)}\n" for name, names in about.items() if names
    )
    parts = [
        head(f"Model {model.name}: its functions at n points per call"),
        f"#ifndef {upper}_POINTS_H\n#define {upper}_POINTS_H\n#include <stddef.h>\n",
        "/* Scalar k of point i is at k * n + i of an array; p has one value for all points, t\n"
        f" * one per point.\n{lists} * They return 0, or 1 if memory ran out. threads: 1 on. */\n",
    ]
    for kernel in program.kernels:
        parts.append(f"/* {kernel.purpose} */\n{_prototype(kernel, prefix)};")
        if kernel.name not in _RESULTS:
            labels = "".join(f" *   {k}  {label}\n" for k, label in enumerate(kernel.labels))
            parts.append(f"/* values\n{labels} */")
        parts.append("")
    return "\n".join([*parts, "#endif\n"])


_MAP = """\
static int mapped(const ks_kernel *kernel, ptrdiff_t n, const double *const *given, double *out,
                  int threads) {{
    static const unsigned char same[{arguments}];
    ks_arg arguments[{arguments}];
    ks_place places[{results}];
    for (int a = 0; a < kernel->n_args; a++) arguments[a] = (ks_arg){{given[a], n}};
    for (int j = 0; j < kernel->n_out; j++)
        places[j] = (ks_place){{.base = j * n, .members = 1, .count = n, .other = -1, .late = -1,
                               .mode = KS_SET}};
    const ks_task task = {{kernel, n, arguments, same, places}};
    return ks_map(&task, 1, out, threads);
}}
"""


def _wrapper(model: Model, program: Program, prefix: str) -> str:
    kernels = program.kernels
    sizes = {
        "arguments": max(len(k.arguments) for k in kernels),
        "results": max(len(k.outputs) for k in kernels),
    }
    parts = [
        head(f"Model {model.name}: its functions at n points per call"),
        f'#include "{prefix}_points.h"\n#include "kinesym.h"\n',
        _MAP.format(**sizes),
    ]
    for kernel in kernels:
        out = _RESULTS.get(kernel.name, "values")
        given = ", ".join(a.name for a in kernel.arguments)
        parts.append(
            f"extern const ks_kernel {kernel.name}_kernel;\n{_prototype(kernel, prefix)} {{\n"
            f"    const double *const given[] = {{{given}}};\n"
            f"    return mapped(&{kernel.name}_kernel, n, given, {out}, threads);\n}}\n"
        )
    return "\n".join(parts)


def _main(model: Model, prefix: str) -> str:
    n, m, r = len(model.states), len(model.inputs), len(model.parameters)
    values = ", ".join(repr(float(model.values.get(p, 1.0))) for p in model.parameter_names) or "0"
    return (
        f'#include <stdio.h>\n\n#include "{prefix}_points.h"\n\n'
        "/* The residual at 1000 points, where all states are 0.001 times the point's number */\n"
        "enum { N = 1000 };\n\nint main(void) {\n"
        f"    static double xdot[{n} * N], x[{n} * N], u[{max(m, 1)} * N], t[N], r[{n} * N];\n"
        f"    const double p[{max(r, 1)}] = {{{values}}};\n"
        f"    for (int k = 0; k < {n} * N; k++) x[k] = 0.001 * (k % N);\n"
        f"    const int failed = {prefix}_residual_points(N, xdot, x, u, p, t, r, 1);\n"
        f'    for (int k = 0; k < {n}; k++) printf("%.17g\\n", r[k * N + N - 1]);\n'
        "    return failed;\n}\n"
    )


def _makefile(files: Iterable[str], lanes: int) -> str:
    sources: Sequence[str] = sorted(f for f in files if f.endswith(".c"))
    objects = " ".join(f"{source[:-2]}.o" for source in sources)
    return (
        "# -march: the processor that runs it; -fopenmp: threads\n"
        f"CFLAGS = -std=gnu11 -O2 -march=native -fopenmp -Wno-psabi -DKS_LANES={lanes}\n\n"
        f"main: main.o {objects}\n\t$(CC) $(CFLAGS) -o $@ main.o {objects} $(LIBS) -lm\n\n"
        "# libmvec of glibc, for functions of vectors\nLIBS = -lmvec\n\n"
        ".PHONY: clean\nclean:\n\trm -f main *.o\n"
    )
