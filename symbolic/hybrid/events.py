"""Events: guards and reset maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_text, flag, mapping, positive, shown
from kinesym.symbolic.expression import real_expression, real_expressions
from kinesym.symbolic.names import names_of, t


@dataclass(frozen=True)
class Event:
    """A state event: where its guard, the event function, crosses zero, its reset map jumps.

    guard : expression of states, inputs, modes, parameters and time. direction : -1 when it falls
    below zero, 1 when it rises above, 0 both. A guard that is at zero where another event happens
    crosses if it moves to its other side from there; at the start it has crossed. scale : a typical
    size of the guard, of which 1.5e-8 is negligible: by so much a level switches late. resets : the
    reset map, states -> their values after it, expressions of those before. sets : the same for
    modes. when : armed only while this expression of modes, or of states that only events change,
    is positive. level : it also happens if the guard is found beyond zero after another event; for
    switches without a reset that moves the guard. stop : the simulation ends; failure : it does,
    with a warning.

    Events happen in the order of their times, at equal times in that of their declaration; a sample
    at the known time of one shows the states after it. At the last time of a run none happens.
    Derivatives cross it by the saltation matrix, of guard, reset map and the x' before and after.
    Raises `ValueError` for what does not fit.
    """

    name: str
    guard: Any
    direction: int = -1
    scale: float = 1.0
    resets: Mapping[Any, Any] = field(default_factory=dict)
    sets: Mapping[Any, Any] = field(default_factory=dict)
    when: Any = 1
    level: bool = False
    stop: bool = False
    failure: bool = False

    def __post_init__(self) -> None:
        check_text(self.name, "the name of an event")
        put, where = partial(object.__setattr__, self), f"event {self.name!r}: "
        if self.direction not in (-1, 0, 1):
            raise ValueError(f"{where}direction is -1, 0 or 1, got {shown(self.direction)}")
        positive(self.scale, f"{where}scale")
        for name in ("level", "stop", "failure"):
            flag(getattr(self, name), where + name)
        put("guard", real_expression(self.guard, f"{where}the guard", "write x - 5 for x > 5"))
        put("when", real_expression(self.when, f"{where}when"))
        if self.when.is_number and not self.when > 0:
            raise ValueError(f"{where}when is {self.when}, so that it never happens")
        for group, what in (("resets", "the reset of"), ("sets", "the value of")):
            given = mapping(getattr(self, group), where + group, "{name: expression}")
            names_of(list(given), where + group)
            put(group, real_expressions(given, where + what))
        if self.level and self.direction == 0:
            raise ValueError(f"event {self.name!r}: level needs one direction, -1 or 1")
        if self.level and not (self.sets or self.stop or self.failure):
            raise ValueError(
                f"event {self.name!r}: a level that sets no mode would happen again "
                "and again; give sets={...} and when="
            )


def line_in_time(guard: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """Level and slope of a guard level + slope * t, of parameters, so that its event is at a known
    time; None of another one. guard : without intermediates."""
    if guard.atoms(AppliedUndef) or not guard.is_polynomial(t) or sp.degree(guard, t) != 1:
        return None
    slope, level = sp.Poly(guard, t).all_coeffs()
    return level, slope
