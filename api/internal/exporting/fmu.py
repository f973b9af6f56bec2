"""An FMU of a model: description, library and sources in one file, for tools that read FMI."""

from __future__ import annotations

import hashlib
import io
import platform
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kinesym.base.checks import check_choice, positive
from kinesym.codegen.c import number
from kinesym.codegen.c99 import file_name
from kinesym.codegen.exported import Exported
from kinesym.internal.exporting.c99 import model_files
from kinesym.internal.exporting.fmu_component import GROUPS, METHODS, Component, component
from kinesym.internal.exporting.fmu_description import (
    build_description,
    description,
    source_names,
)
from kinesym.runtime.library.build import build_alone
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model

#: Versions of FMI.
VERSIONS = ("3.0", "2.0")

#: In place of the token of a model while that is not known; no name has this character.
_OPEN = "\x7f"
_TEXTS = Path(__file__).parent / "fmi"
#: Names that the file does not declare for importers stay inside the library.
_HIDDEN = ("-fvisibility=hidden",)
_BY = ("derivatives", "states", "inputs", "parameters")
#: Times of files in the archive, the earliest there can be: equal content gives equal bytes.
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def fmu_files(
    what: Model | Hybrid,
    version: str = "3.0",
    step: float = 1e-3,
    initial: Mapping[Any, float] | None = None,
    parameters: Mapping[Any, float] | None = None,
    inputs: Mapping[Any, float] | None = None,
    method: str | None = None,
) -> Mapping[str, bytes]:
    """The FMU, by its name. version : of FMI. step : longest step of co-simulation [s], method : of
    it. initial, parameters, inputs : values at the start.

    Raises `ValueError` for what FMI cannot say, `CompilerError` without a compiler.
    """
    check_choice(version, VERSIONS, "the version of FMI")
    step = positive(step, "the step of co-simulation")
    found = component(what, initial, parameters, inputs, method)
    identifier = file_name(found.model.name)
    sources = _sources(found, identifier, version, step)
    about = description(found, identifier, version, _OPEN, step)
    token = _token(sources, about)
    sources["fmi-model.h"] = sources["fmi-model.h"].replace(_OPEN, token)
    names = source_names(found, identifier, version)
    headers = {name: text for name, text in sources.items() if name.endswith(".h")}
    library = build_alone({name: sources[name] for name in names}, headers, _HIDDEN)
    files = {
        "modelDescription.xml": about.replace(_OPEN.encode(), token.encode()),
        f"binaries/{_platform(version)}/{identifier}{_suffix()}": library,
        **{f"sources/{name}": text.encode() for name, text in sources.items()},
    }
    if version == "3.0":
        files["sources/buildDescription.xml"] = build_description(found, identifier)
    return {f"{identifier}.fmu": _archive(files)}


def _sources(found: Component, identifier: str, version: str, step: float) -> dict[str, str]:
    """Texts of C, by name; the token of the model is open."""
    if late := ", ".join(delay.name for delay in found.model.delays):
        raise ValueError(
            f"model {found.model.name} has delays, {late}, whose past an FMU does not keep; make "
            "an input of each"
        )
    written = model_files(found.model)
    names = [f"{identifier}.h", "fmi-instance.h", f"fmi-{version[0]}-types.h"]
    names += source_names(found, identifier, version)
    files = {
        name: written[name].decode()
        if name in written
        else (_TEXTS / name).read_text(encoding="utf-8")
        for name in names
        if name != "fmi-model.c"
    }
    files["fmi-model.h"] = _sizes(found, step)
    files["fmi-model.c"] = _tables(found, identifier)
    return files


def _sizes(found: Component, step: float) -> str:
    jacobians = (f for f in found.functions.values() if f.sparsity is not None)
    sizes = {
        **{f"N_{g.upper()}": len(found.names[g]) for g in GROUPS[1:-1]},
        "N_EVENTS": len(found.events),
        "N_CHANGES": len(found.changes),
        "N_ENTRIES": sum(len(f.kernel.outputs) for f in jacobians),
    }
    lines = "".join(f"#define KS_{name} {size}\n" for name, size in sizes.items())
    return (
        f"/* Sizes of the model {found.model.name} */\n#ifndef KS_FMI_MODEL_H\n"
        f'#define KS_FMI_MODEL_H\n\n#define KS_TOKEN "{_OPEN}"\n'
        f"#define KS_STEP {number(step)} /* longest step of co-simulation [s] */\n{lines}\n#endif\n"
    )


def _tables(found: Component, identifier: str) -> str:
    start, names = found.start, found.names
    events, first = [], 0
    for event in found.events:
        count = len(event.resets) + len(event.sets)
        flags = (event.direction, int(event.level), int(event.stop or event.failure))
        events.append(f"{{{', '.join(map(str, (*flags, first, count)))}}}")
        first += count
    controls = [start[name] for name in (*names["inputs"], *names["modes"])]
    parts = [
        f"/* Start values, functions and events of the model {found.model.name} */\n"
        f'#include "fmi-instance.h"\n#include "{identifier}.h"\n',
        _numbers("ks_start_states", [start[name] for name in names["states"]]),
        _numbers("ks_start_controls", controls),
        _numbers("ks_start_parameters", [start[name] for name in names["parameters"]]),
        _rows("ks_event", "ks_events", events),
        _rows("ks_change", "ks_changes", [f"{{{int(m)}, {k}}}" for m, k in found.changes]),
        _called("ks_rates", found.functions.get("rhs"), identifier, "int"),
        _called("ks_values", found.functions.get("outputs"), identifier, "int"),
        _jacobians(found, identifier),
        _step(found, identifier),
    ]
    return "\n".join(parts)


def _numbers(name: str, values: list[float]) -> str:
    return f"const double {name}[] = {{{', '.join(map(number, values or [0.0]))}}};\n"


def _rows(kind: str, name: str, rows: list[str]) -> str:
    return f"const {kind} {name}[] = {{{', '.join(rows or ['{0}'])}}};\n"


def _called(name: str, function: Exported | None, identifier: str, kind: str) -> str:
    """A function of the model, with the arguments that all have."""
    arguments = (
        "const double *dx, const double *x, const double *u, const double *p,\n"
        f"{' ' * (len(kind) + len(name) + 2)}double t, double *out"
    )
    call = "0"
    if function is not None:
        rates = "dx, " if function.kernel.arguments[0].name == "xdot" else ""
        call = f"{identifier}_{function.kernel.name}({rates}x, u, p, t, out)"
    unused = "(void)dx, (void)x, (void)u, (void)p, (void)t, (void)out;"
    return f"{kind} {name}({arguments}) {{\n    {unused}\n    return {call};\n}}\n"


def _jacobians(found: Component, identifier: str) -> str:
    functions, rows, first = [], [], 0
    for of in ("rhs", "outputs"):
        row = []
        for group in _BY:
            function = found.functions.get(f"{of}_jacobian_{group}")
            if function is None or function.sparsity is None or not function.kernel.outputs:
                row.append("{NULL, NULL, NULL, 0, 0}")
                continue
            name = f"{identifier}_{function.kernel.name}"
            functions.append(_called(f"{of}_{group}", function, identifier, "static int"))
            columns = function.sparsity.shape[1]
            row.append(f"{{{of}_{group}, {name}_begin, {name}_row, {columns}, {first}}}")
            first += len(function.kernel.outputs)
        rows.append("    {" + ",\n     ".join(row) + "},\n")
    table = "".join(rows)
    return "\n".join([*functions, f"const ks_jacobian ks_jacobians[2][4] = {{\n{table}}};\n"])


def _step(found: Component, identifier: str) -> str:
    """A step of co-simulation, which keeps what has no states."""
    call = f"{identifier}_{METHODS[found.method]}(x, u, p, t, h, x_next)"
    return (
        "int ks_step(const double *x, const double *u, const double *p, double t, double h,\n"
        "            double *x_next) {\n    (void)x, (void)u, (void)p, (void)t, (void)h, "
        f"(void)x_next;\n    return {call if found.model.states else '0'};\n}}\n"
    )


def _token(sources: Mapping[str, str], about: bytes) -> str:
    """The identity of a model: digits that follow from all that it is."""
    digest = hashlib.sha256(about)
    for name, text in sorted(sources.items()):
        digest.update(f"{name}\0{text}\0".encode())
    found = digest.hexdigest()
    parts = (found[:8], found[8:12], found[12:16], found[16:20], found[20:32])
    return "{" + "-".join(parts) + "}"


def _platform(version: str) -> str:
    """The folder of this machine's library."""
    system = "darwin" if sys.platform == "darwin" else "linux"
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if version == "2.0" and machine == "x86_64":
        return f"{system}64"
    return f"{machine}-{system}"


def _suffix() -> str:
    return ".dylib" if sys.platform == "darwin" else ".so"


def _archive(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            about = zipfile.ZipInfo(name, _EARLIEST)
            about.external_attr = 0o644 << 16
            about.create_system = 3
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, content)
    return made.getvalue()
