"""Causes of a failed solve, the likeliest first."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import Array

#: Causes that are printed at most.
_SHOWN = 12
#: Width of printed lines [characters].
_WIDTH = 100


@dataclass(frozen=True, repr=False)
class Why(Displayed):
    """Causes that keep a problem from being solved, in sentences.

    head : how the solve ended. causes : the likeliest first. nearest : the free vector (n,) with
    the least violation, for another solve, `problem.solve(guess=why.nearest)`; empty if it was not
    computed.
    """

    head: str
    causes: Sequence[str] = ()
    nearest: Array = field(default_factory=lambda: np.zeros(0))

    def __bool__(self) -> bool:
        """Whether any cause was found."""
        return bool(self.causes)

    def __str__(self) -> str:
        lines = [self.head]
        for number, cause in enumerate(self.causes[:_SHOWN], 1):
            first = f"{number:2d}. "
            lines += textwrap.wrap(cause, _WIDTH, initial_indent=first, subsequent_indent="    ")
        more = len(self.causes) - _SHOWN
        lines += [f"    and {more} more, in .causes"] if more > 0 else []
        return "\n".join(lines if self.causes else [*lines, "    nothing was found"])

    __repr__ = __str__
