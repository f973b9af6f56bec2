"""The error that the steps of simulations leave in the estimates of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.shift import Shift, in_standard_errors, relative, worst_of

#: By the substeps that are advised, shifts become this share of what matters.
_AIM = 0.1
#: More substeps than this times those of the fit are no advice, if there is another one.
_WORTHWHILE = 20


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class EstimateError(Saved):
    """By how much the steps of the simulations shift the estimates of a fit.

    A shift is what has to be added to an estimate for that of exact simulations. method : of the
    simulations. steps : how those were made with which the fit was compared. order : of the method,
    0 if it chooses its steps by tolerances. substeps : per interval of the grid. higher : a method
    of higher order for the same system, if there is one. shifts : by name of the unknown; zero
    where a bound holds. deviations : standard errors, if there are measurements. sizes : values of
    parameters, of states the largest. note : why shifts are not known (NaN), if they are not.
    """

    method: str
    steps: str
    order: int
    substeps: int
    higher: str
    shifts: Mapping[str, float]
    deviations: Mapping[str, float]
    sizes: Mapping[str, float]
    note: str = ""

    def _shifts(self) -> Iterator[Shift]:
        """What the verdict looks at: what has a standard error, or if nothing has one, all."""
        for name, shift in self.shifts.items():
            if name in self.deviations:
                yield in_standard_errors(name, shift, self.deviations[name], self.sizes[name])
            elif not self.deviations:
                yield relative(name, shift, self.sizes[name], "of its value")

    @property
    def worst(self) -> Shift:
        """The shift that matters most; NaN in size if shifts are not known."""
        return worst_of([] if self.note else self._shifts())

    @property
    def matters(self) -> bool:
        """Whether a shift exceeds half a standard error, or where there is no measurement 1e-3 of
        a value; also if shifts are not known."""
        return not self.worst.size <= 1.0

    def __str__(self) -> str:
        """The verdict in one line."""
        if self.note:
            return f"its error is not known: {self.note}"
        if not self.matters:
            return f"shifts {self.worst.words} at most"
        return f"shifts {self.worst.words}; use {self._remedy()}"

    def _remedy(self) -> str:
        if not self.order:
            return "smaller tolerances rtol and atol"
        times = (self.worst.size / _AIM) ** (1.0 / self.order)
        parts = []
        if times <= _WORTHWHILE or not (self.higher or np.isinf(times)):
            parts.append(f"substeps={int(np.ceil(self.substeps * times))}")
        if self.higher:
            parts.append(f"method={self.higher!r}")
        return " or ".join(parts) or "more substeps"

    def __repr__(self) -> str:
        return f"<error of the steps, {self.method}: {self}>"
