"""Discretisation error of estimates: shifts by the steps of the simulations of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.shift import Shift, in_standard_errors, relative, worst_of

#: Size of shifts with the advised substeps, as a share of the size that matters.
_AIM = 0.1
#: Largest factor of substeps that is advised, if there is other advice.
_WORTHWHILE = 20


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class EstimateError(Saved):
    """Discretisation error of estimates: their shifts by the steps of the simulations.

    A shift is the difference that exact simulations would make to an estimate. method : of the
    simulations. steps : of the simulations with which the fit was compared. order : of the method,
    0 if it chooses its steps by tolerances. substeps : per interval of the grid. higher : a method
    of higher order for the same system, if there is one. shifts : by name of the unknown; zero
    for those at a bound. deviations : standard errors, if there are measurements. sizes : values of
    parameters, largest values of states. note : why shifts are not known (NaN), if they are not.
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
        """Shifts that the verdict considers: of unknowns with a standard error, or if none has one,
        of all."""
        for name, shift in self.shifts.items():
            if name in self.deviations:
                yield in_standard_errors(name, shift, self.deviations[name], self.sizes[name])
            elif not self.deviations:
                yield relative(name, shift, self.sizes[name], "of its value")

    @property
    def worst(self) -> Shift:
        """Shift that matters most; NaN in size if shifts are not known."""
        return worst_of([] if self.note else self._shifts())

    @property
    def matters(self) -> bool:
        """Whether a shift exceeds half a standard error, or without measurements 1e-3 of a value;
        also if shifts are not known."""
        return not self.worst.size <= 1.0

    def __str__(self) -> str:
        """Verdict in one line."""
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
