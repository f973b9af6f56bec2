"""`ks.compile`: a model's own functions."""

from __future__ import annotations

import json

from kinesym.codegen.c import emit
from kinesym.codegen.evaluate import model_functions
from kinesym.runtime.build import build
from kinesym.runtime.functions import Functions
from kinesym.symbolic.model import Model


def compile(model: Model) -> Functions:
    """Generate, build and open residual, right-hand side, outputs and Jacobians of `model`.

    An unchanged model is taken from the cache. Raises `kinesym.runtime.build.CompilerError` if
    there is no working C compiler.
    """
    program = model_functions(model)
    source = emit(program)
    library, _ = build(source.files)
    return Functions(library, json.loads(source.manifest))
