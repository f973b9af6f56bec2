"""`ks.compile`: a model becomes functions of arrays."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kinesym.base.checks import check_kind
from kinesym.codegen.c99 import file_name
from kinesym.codegen.evaluate import model_functions, model_jacobians
from kinesym.internal.problems.pipeline import realise
from kinesym.runtime.edited import Edited
from kinesym.runtime.functions import Functions
from kinesym.runtime.library.manifest import Built
from kinesym.symbolic.model import Model


def compile(model: Model, source: str | Path | None = None) -> Functions:
    """Compile residual, right-hand side and outputs of `model` into functions of arrays.

    An unchanged model is taken from the cache. Jacobians are built when the first is asked for.

    source : a C file that `export` wrote and you have edited, which lies where its header is: its
    functions replace those of the model, `differences` of the result has the largest difference of
    each at random points, and `str` says it. Jacobians stay those of the model.

    Raises `kinesym.runtime.library.build.CompilerError` if there is no working C compiler or the
    file does not compile, `ValueError` for what is no model, has no C, or a file without its
    functions.
    """
    check_kind(model, Model, "kinesym")
    built, jacobians = realise(model_functions(model)), partial(_jacobians, model)
    if source is None:
        return Functions(built, jacobians)
    return Edited(built, jacobians, source, file_name(model.name))


def _jacobians(model: Model) -> Built:
    return realise(model_jacobians(model))
