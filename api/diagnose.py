"""From a value that is not finite to the expression, equation, node and time behind it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kinesym.codegen.interpret import first_failure, interpret
from kinesym.codegen.kernel import Program
from kinesym.runtime.nlp import NLP

Array = NDArray[np.float64]

_CALLBACKS = ("constraints", "cost", "gradient", "jacobian", "hessian")
_BLOCK = 4096  # points per evaluation of the interpreter


def explain(program: Program, nlp: NLP, z: Array) -> str | None:
    """Why a callback is not finite at `z`, in words; None if all are finite."""
    ones = np.ones(nlp.n_constraints)
    calls: dict[str, Callable[[], Array | float]] = {
        "constraints": lambda: nlp.constraints(z),
        "cost": lambda: nlp.cost(z),
        "gradient": lambda: nlp.gradient(z),
        "jacobian": lambda: nlp.jacobian(z),
        "hessian": lambda: nlp.hessian(z, ones, 1.0),
    }
    for what in _CALLBACKS:
        if not np.isfinite(np.sum(calls[what]())):
            found = _locate(program, nlp, what, (z, ones, np.ones(1)))
            return found or f"the {what} is not finite: its sum overflows"
    return None


def _locate(
    program: Program, nlp: NLP, what: str, arrays: tuple[Array, Array, Array]
) -> str | None:
    for trial in range(len(nlp.layout.nodes)):
        for kernel in program.kernels:
            if kernel.name.endswith(f"_{what}"):
                family = kernel.name.split("_")[0]
                values = nlp.arguments(trial, kernel.name, arrays)
                n = nlp.layout.points(trial, family)
                for begin in range(0, n, _BLOCK):
                    part = _points(values, begin, min(begin + _BLOCK, n))
                    out = interpret(kernel, part, min(_BLOCK, n - begin))
                    bad = np.argwhere(~np.isfinite(out.T))  # the first point, then its outputs
                    if len(bad):
                        point, k = int(bad[0][0]), int(bad[0][1])
                        one = _points(part, point, point + 1)
                        where = nlp.layout.where(trial, family, begin + point)
                        cause = first_failure(kernel, k, one)
                        return f"{kernel.labels[k]} is not finite at {where}: {cause}"
    return None


def _points(values: dict[str, Array], begin: int, end: int) -> dict[str, Array]:
    """The points begin <= i < end of all varying arguments."""
    return {k: v[:, begin:end] if v.ndim == 2 else v for k, v in values.items()}
