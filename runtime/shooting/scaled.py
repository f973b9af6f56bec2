"""The objective of shooting in scaled unknowns, and the choices and the end of its minimisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.progress import Iteration
from kinesym.runtime.results.fit import Step
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.status import Solve


@dataclass(frozen=True)
class Scale:
    """Scaling of the unknowns, q = size * y, or exp(y) of those on a logarithmic scale; of one q
    (n,) or of many (M, n)."""

    size: Array
    log: NDArray[np.bool_]

    def at(self, y: Array) -> Array:
        """q from y."""
        return np.exp(y, out=self.size * y, where=np.broadcast_to(self.log, y.shape))

    def scaled(self, q: Array) -> Array:
        """y from q."""
        with np.errstate(divide="ignore"):
            return np.log(q, out=q / self.size, where=np.broadcast_to(self.log, q.shape))

    def slopes(self, q: Array) -> Array:
        """d q/d y."""
        return np.where(self.log, q, self.size)


def log_of(unknowns: Unknowns) -> NDArray[np.bool_]:
    """Entries of q on a logarithmic scale, (n,) booleans."""
    found = np.zeros(unknowns.size, dtype=bool)
    found[: len(unknowns.owned.names)] = unknowns.owned.log
    return found


class Chosen(NamedTuple):
    """Choices of a minimisation, see `ks.Shooting.solve`; limit : of iterations. options : further
    ones, of the optimiser."""

    optimizer: str
    scale: bool
    progress: bool | None
    tolerance: float
    limit: int
    options: Mapping[str, Any]


@dataclass
class Minimisation:
    """Objective of a minimisation, J(q) of trials within bounds, with q = scale * y, or for
    parameters on a logarithmic scale exp(y); and how.

    unit : a typical cost, so that tolerances are relative. squares : whether J is a sum of squares
    r(q)^2 with known d r/d q. report is called after each iteration. `history` is filled on the
    way.
    """

    trials: Simulated
    scale: Array
    unit: float
    bounds: tuple[Array, Array]
    squares: bool
    report: Callable[[Iteration], None]
    how: Chosen
    history: list[Step] = field(default_factory=list)

    @cached_property
    def _scale(self) -> Scale:
        return Scale(self.scale, log_of(self.trials.unknowns))

    def at(self, y: Array) -> Array:
        """q from y."""
        return self._scale.at(y)

    def scaled(self, q: Array) -> Array:
        """y from q."""
        return self._scale.scaled(q)

    def slopes(self, q: Array) -> Array:
        """d q/d y, (n,)."""
        return self._scale.slopes(q)

    def cost(self, y: Array) -> float:
        """J, infinite where a simulation fails."""
        return self.trials.cost(self.at(y))

    def gradient(self, y: Array) -> Array:
        """d J/d y."""
        q = self.at(y)
        return self.trials.gradient(q) * self.slopes(q)

    def note(self, q: Array, J: float, slope: float = np.nan, gap: float = 0.0) -> None:
        """Keep an iterate and show it."""
        self.history.append(Step(float(J), np.array(q)))
        self.report(Iteration(len(self.history) - 1, float(J), gap, slope))

    @property
    def scaled_bounds(self) -> tuple[Array, Array]:
        """Bounds of y."""
        low, high = self.bounds
        return self.scaled(low), self.scaled(high)


@dataclass(frozen=True)
class Endpoint:
    """The point where an optimiser ended, how, and its message."""

    q: Array
    status: Solve
    message: str
