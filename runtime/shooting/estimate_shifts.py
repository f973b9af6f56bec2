"""Discretisation error of estimates by simulation: shifts of the minimum with finer steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csc_array, diags_array
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.estimate_error import EstimateError
from kinesym.runtime.results.shift import LEAST, RELATIVE, STANDARD_ERRORS
from kinesym.runtime.shooting.trials import Simulated

#: Steps towards the minimum, at most.
_MOST = 8
#: Share of the whole way in each unknown that the last step may have.
_SMALL = 0.05
#: Share of what matters in an unknown that the last step may have.
_HARMLESS = 0.1


class FinerTrials(NamedTuple):
    """Trials with finer steps, and the Richardson factor from the shift that they cause to that of
    exact ones; further fields as of `EstimateError`."""

    trials: Simulated
    factor: float
    method: str
    steps: str
    order: int
    substeps: int
    higher: str


@dataclass(frozen=True, eq=False)
class Minimiser:
    """Minimum q (n,) of J with the names of the unknowns, the gradient and the curvature d2 J/d q2
    (n, n) there, unknowns that are not at a bound, values to which shifts are compared, sizes
    (these values, not zero), standard errors, NaN or zero if there are none, and bounds."""

    q: Array
    names: Sequence[str]
    gradient: Array
    curvature: Any
    free: NDArray[np.bool_]
    values: Array
    sizes: Array
    deviations: Array
    bounds: tuple[Array, Array]

    @property
    def told(self) -> NDArray[np.bool_]:
        """Unknowns with a standard error, booleans."""
        return np.isfinite(self.deviations) & (self.deviations > 0.0)

    @property
    def _harmless(self) -> Array:
        """Shifts that are too small to matter, (n,)."""
        known, least = STANDARD_ERRORS * self.deviations, LEAST * self.values
        matters = np.where(self.told, np.fmax(known, least), RELATIVE * self.values)
        return np.asarray(_HARMLESS * matters)

    def shift(self, finer: FinerTrials) -> Array:
        """Shift of the minimum (n,) by exact steps, estimated by the minimum with finer ones.

        A few steps of Newton's method, each with one gradient of the finer trials; the curvature is
        that of this minimum, updated by the gradients (BFGS; Nocedal, Wright, Numerical
        Optimization, section 6.1). Raises `ValueError` if they do not converge.
        """
        trials, H, q, last = finer.trials, self.curvature, self.q, np.inf
        several = trials.unknowns.several
        target = np.zeros_like(q) if several else self.gradient
        g = trials.gradient(q) - target
        for _ in range(_MOST):
            d = self._step(H, g, trials, q)
            length = float(d @ (H @ d))  # twice by how much J falls
            if not length < last:
                break
            before, q, last = q, np.clip(q + d, *self.bounds), length
            if (np.abs(d) <= np.maximum(self._harmless, _SMALL * np.abs(q - self.q))).all():
                return finer.factor * (q - self.q)
            old, g = g, trials.gradient(q) - target
            H = H if several else _learnt(H, q - before, (g - old) * self.free)
        raise ValueError("finer steps lead too far away from these estimates; use such steps")

    def _step(self, H: Any, g: Array, trials: Simulated, q: Array) -> Array:
        """Newton step to a zero gradient, by the curvature H, with segments that meet."""
        free = np.flatnonzero(self.free)
        scale = diags_array(self.sizes[free])
        matrix = scale @ csc_array(H)[free][:, free] @ scale
        side = -self.sizes[free] * g[free]
        if trials.unknowns.several:
            rows = csc_array(trials.gap_jacobian(q))[:, free] @ scale
            matrix = block_array([[matrix, rows.T], [rows, None]])
            side = np.append(side, -trials.gaps(q))
        d = np.zeros_like(q)
        try:
            d[free] = self.sizes[free] * splu(csc_array(matrix)).solve(side)[: len(free)]
        except RuntimeError as error:
            raise ValueError("the estimates are not identifiable") from error
        return d


def _learnt(H: Any, s: Array, y: Array) -> Any:
    """Updated curvature (BFGS) after a step s along which the gradient changed by y, if J is convex
    there."""
    Hs = H @ s
    if not (s @ y > 0.0 and s @ Hs > 0.0):
        return H
    return H + np.outer(y, y) / (s @ y) - np.outer(Hs, Hs) / (s @ Hs)


def estimate_error(here: Minimiser, finer: Callable[[], FinerTrials]) -> list[EstimateError]:
    """Discretisation error of a minimum; empty if there are no finer steps, after Ctrl-C, and
    without memory. finer : makes the trials; raises `ValueError` if there are none."""
    note, shifts = "", np.full(here.q.size, np.nan)
    try:
        made = finer()
    except (ValueError, KeyboardInterrupt, MemoryError):
        return []
    try:
        shifts = here.shift(made)
    except (KeyboardInterrupt, MemoryError):
        return []
    except ValueError as error:
        note = str(error)
    deviations = _named(here.names, here.deviations)
    return [
        EstimateError(
            method=made.method,
            steps=made.steps,
            order=made.order,
            substeps=made.substeps,
            higher=made.higher,
            shifts=_named(here.names, shifts),
            deviations={name: deviations[name] for name in np.array(here.names)[here.told]},
            sizes=_named(here.names, here.values),
            note=note,
        )
    ]


def _named(names: Sequence[str], values: Array) -> Mapping[str, float]:
    return dict(zip(names, map(float, values), strict=True))
