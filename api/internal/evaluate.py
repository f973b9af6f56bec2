"""`ks.compile`: a model's own functions."""

from __future__ import annotations

from kinesym.checks import check_kind
from kinesym.codegen.evaluate import model_functions, model_jacobians
from kinesym.internal.pipeline import realise
from kinesym.runtime.functions import Functions
from kinesym.symbolic.model import Model


def compile(model: Model) -> Functions:
    """Generate, build and open residual, right-hand side and outputs of `model`.

    An unchanged model is taken from the cache. Jacobians are built when the first is asked for.
    Raises `kinesym.runtime.library.build.CompilerError` if
    there is no working C compiler, `ValueError` for what is no model or has no C.
    """
    check_kind(model, Model, "kinesym")
    return Functions(realise(model_functions(model)), lambda: realise(model_jacobians(model)))
