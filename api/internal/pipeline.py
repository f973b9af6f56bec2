"""From a program to what runs: the last stages of the pipeline, the same for everything.

Model, Hybrid, Experiment    what is given
-> Problem                   `symbolic_problem`: what it means, checked
-> Program                   `codegen`: kernels as graphs, and their description
-> Source                    `emit`: C, and a manifest in JSON
-> Built                     `build`, `load_manifest`: the opened library, the manifest as data
"""

from __future__ import annotations

import time

from kinesym.checks import check_kind
from kinesym.codegen.c import emit
from kinesym.codegen.evaluate import model_functions, model_jacobians
from kinesym.codegen.kernel import Program
from kinesym.runtime.functions import Functions
from kinesym.runtime.library.build import build
from kinesym.runtime.library.manifest import Built, load_manifest
from kinesym.symbolic.model import Model


def realise(
    program: Program,
    lanes: int | None = None,
    more_flags: tuple[str, ...] = (),
    narrow: bool = False,
) -> Built:
    """Write the C of a program, compile it, and open it; arguments and errors as of `build`.

    An unchanged program is taken from the cache.
    """
    start = time.perf_counter()
    source = emit(program)
    derive = time.perf_counter() - start
    library, seconds = build(source.files, lanes, more_flags, narrow)
    return Built(library, load_manifest(source.manifest), derive, seconds)


def compile(model: Model) -> Functions:
    """Generate, build and open residual, right-hand side and outputs of `model`.

    An unchanged model is taken from the cache. Jacobians are built when the first is asked for.
    Raises `kinesym.runtime.library.build.CompilerError` if there is no working C compiler,
    `ValueError` for what is no model or has no C.
    """
    check_kind(model, Model, "kinesym")
    return Functions(realise(model_functions(model)), lambda: realise(model_jacobians(model)))
