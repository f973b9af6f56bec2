"""What a sensor shows late."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp


class delayed(sp.Function):
    """An expression, and how many seconds before it is shown it was so: a number or a parameter.

    An output of a model may be one, as a whole. Measurements of it are of the expression so long
    before; what results have of it at the nodes is the expression there.
    """

    nargs = 2


def undelayed(e: sp.Expr) -> sp.Expr:
    """What an output is of, without its delay."""
    return e.args[0] if isinstance(e, delayed) else e


def delays_of(outputs: Mapping[str, sp.Expr]) -> dict[str, sp.Expr]:
    """Delays of the outputs that have one, by name."""
    return {name: e.args[1] for name, e in outputs.items() if isinstance(e, delayed)}
