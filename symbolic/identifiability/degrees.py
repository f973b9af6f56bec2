"""Degrees of the polynomials whose zeros are the points at which a verdict is false."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from kinesym.symbolic.identifiability.system import system_of
from kinesym.symbolic.identifiability.tape import Step


def bound(model: Any, measured: Sequence[sp.Expr]) -> Callable[[int, int], int]:
    """Degree of a minor of the sensitivities of the outputs, at most, as a function of the number
    of unknowns and the order of the series.

    With equations of degree d, x' = N / D has degrees n d by Cramer's rule, and the derivative k of
    an output of degree h the numerator (k + 1) h + 2 k n d.
    """
    system = system_of(model if model.explicit is None else _implicit(model), measured, {})
    degrees = _degrees(system.steps)
    d = max((sum(degrees[e]) for e in system.equations), default=0) * len(system.equations)
    h = max(sum(degrees[e]) for e in system.outputs)

    def of(unknowns: int, order: int) -> int:
        return unknowns * (2 * ((order + 1) * h + 2 * order * d) + 1)

    return of


def _implicit(model: Any) -> Any:
    return model.substitute({}, explicit=None)


def _degrees(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Degrees of numerator and denominator of steps in what is drawn at random; sin and cos are
    rational functions of a parameter of degree 2."""
    found: list[tuple[int, int]] = []
    for step in steps:
        args = [found[a] for a in step.args if a < len(found)]
        if step.kind == "number":
            found.append((0, 0))
        elif step.kind == "add":
            below = sum(d for _, d in args)
            found.append((max(n + below - d for n, d in args), below))
        elif step.kind == "multiply":
            found.append((sum(n for n, _ in args), sum(d for _, d in args)))
        elif step.kind == "invert":
            (n, d), *_ = args
            found.append((d, n))
        else:
            found.append((2, 2) if step.data in ("sin", "cos") else (1, 0))
    return found
