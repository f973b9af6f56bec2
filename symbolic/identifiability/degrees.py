"""Degrees of the polynomials whose zeros are the points at which a verdict is false."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    system = system_of(model if model.explicit is None else _implicit(model), measured)
    degrees = _degrees(system.steps)
    d = max((degrees[e] for e in system.equations), default=0) * len(system.equations)
    h = max(degrees[e] for e in system.outputs)

    def of(unknowns: int, order: int) -> int:
        return unknowns * (2 * ((order + 1) * h + 2 * order * d) + 1)

    return of


def _implicit(model: Any) -> Any:
    return model.substitute({}, explicit=None)


@dataclass(frozen=True)
class _Degree:
    """Degree of a numerator, and its denominator: powers of numerators of steps, by the step."""

    above: int
    below: dict[int, int]


def _degrees(steps: Sequence[Step]) -> list[int]:
    """Degrees of numerator and denominator together, of steps, in what is drawn at random; sin and
    cos are rational functions of a parameter of degree 2, with the same denominator."""
    found: list[_Degree] = []
    of = dict[int, int]()  # of what denominators are made of

    def size(below: dict[int, int]) -> int:
        return sum(of[k] * power for k, power in below.items())

    for place, step in enumerate(steps):
        args = [found[a] for a in step.args if a < len(found)]
        if step.kind == "number":
            found.append(_Degree(0, {}))
        elif step.kind == "add":
            every = {k for a in args for k in a.below}
            below = {k: max(a.below.get(k, 0) for a in args) for k in every}
            found.append(_Degree(max(a.above + size(below) - size(a.below) for a in args), below))
        elif step.kind == "multiply":
            every = {k for a in args for k in a.below}
            below = {k: sum(a.below.get(k, 0) for a in args) for k in every}
            found.append(_Degree(sum(a.above for a in args), below))
        elif step.kind == "invert":
            of[step.args[0]] = args[0].above
            found.append(_Degree(size(args[0].below), {step.args[0]: 1}))
        elif step.data in ("sin", "cos"):
            first = place - (step.data == "cos")
            of[first] = 2
            found.append(_Degree(2, {first: 1}))
        else:
            found.append(_Degree(1, {}))
    return [degree.above + size(degree.below) for degree in found]
