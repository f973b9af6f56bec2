"""`ks.compile`: a model's own functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kinesym.codegen.c import emit
from kinesym.codegen.evaluate import model_functions, model_jacobians
from kinesym.codegen.kernel import Program
from kinesym.runtime.build import build
from kinesym.runtime.functions import Functions
from kinesym.runtime.native import Library
from kinesym.symbolic.given import check_kind
from kinesym.symbolic.model import Model


def compile(model: Model) -> Functions:
    """Generate, build and open residual, right-hand side and outputs of `model`.

    An unchanged model is taken from the cache. Jacobians are built when the first is asked for.
    Raises `kinesym.runtime.build.CompilerError` if
    there is no working C compiler, `ValueError` for what is no model or has no C.
    """
    check_kind(model, Model, "kinesym")
    library, manifest = _built(model_functions(model))
    return Functions(library, manifest, lambda: _built(model_jacobians(model)))


def _built(program: Program) -> tuple[Library, Mapping[str, Any]]:
    source = emit(program)
    library, _ = build(source.files)
    return library, json.loads(source.manifest)
