"""Homotopy: expressions that go from an easy one to the actual one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy as sp

from kinesym.symbolic.expression import parts_of, real_expression

#: The parameter of all homotopies, 0 at the easy end and 1 at the actual one.
HOMOTOPY = sp.Symbol("homotopy")


def homotopy(actual: Any, easy: Any) -> sp.Expr:
    """easy + homotopy * (actual - easy): what is meant, and what a solve may begin with.

    Stands in equations of a model, objectives and conditions, as in `m * ks.homotopy(9.81, 0)`. The
    parameter `homotopy` belongs to the model from then on; its value is 1, so that simulations and
    solves are those of `actual`, and `solve(ladder=True)` of `Collocation` and `Shooting` leads it
    from 0 to 1. Raises `ValueError` for what is no expression.
    """
    end = real_expression(actual, "actual of ks.homotopy")
    begin = real_expression(easy, "easy of ks.homotopy")
    return begin + HOMOTOPY * (end - begin)


def uses_homotopy(expressions: Iterable[Any]) -> bool:
    """Whether one of these has the parameter of homotopies."""
    return HOMOTOPY in parts_of(sp.Symbol, *(e for e in expressions if isinstance(e, sp.Basic)))
