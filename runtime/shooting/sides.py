"""Sides of the kinks of priors: an objective is smooth where unknowns stay on one side of each.

A Laplace prior has a kink at its location, which is a bound of either side. So a minimum is found
on one side, and goes on on another one where that lowers the objective: each side is left for a
lower cost, and an estimate at a kink is exactly there, as at a bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.shooting.assigned import Assigned, AssignedTrials, Assignment
from kinesym.runtime.shooting.trials import Simulated

#: Distance to a kink, as a share of its value or, where that is zero, of the scale of the prior,
#: from which optimisers of inner points see it.
_NEAR = 1e-4


class Side(NamedTuple):
    """Trials on one side of each kink of their priors, and bounds of that. sides : of each prior,
    1, -1 or 0."""

    trials: Simulated
    bounds: tuple[Array, Array]
    sides: Array

    def same(self, other: Side) -> bool:
        """Whether the other is the same side."""
        return np.array_equal(self.sides, other.sides)


def side_of(
    trials: Simulated,
    bounds: tuple[Array, Array],
    q: Array,
    last: Side | None = None,
    more: Array | float = 0.0,
) -> Side:
    """Side of trials at q; of an unknown at its kink the one where the objective falls, else the
    `last` one. more : slopes of what is added to the objective. Trials without kinks have one side,
    and are themselves."""
    priors, (low, high) = trials.priors, bounds
    if not len(priors.kinks):
        return Side(trials, bounds, priors.sides)
    places, peaks = priors.places, priors.peaks
    sides = np.sign(q[places] - peaks)
    at = priors.kinks[sides[priors.kinks] == 0.0]
    if len(at):
        pull = (trials.gradient(q) + more)[places[at]]
        own = np.where(pull > 0.0, -1.0, 1.0)
        moves = np.abs(pull) > priors.jumps(q)[at]
        sides[at] = own if last is None else np.where(moves, own, last.sides[at])
    sides = np.where(peaks <= low[places], 1.0, np.where(peaks >= high[places], -1.0, sides))
    sides[np.setdiff1d(np.arange(len(sides)), priors.kinks)] = 0.0
    below, above = low.copy(), high.copy()
    for k in priors.kinks:
        side = below if sides[k] > 0.0 else above
        side[places[k]] = np.clip(peaks[k], low[places[k]], high[places[k]])
    owned = trials.unknowns.owned
    none: list[dict[str, Assignment]] = [{} for _ in trials.trials]
    same = Assigned.of(owned, owned, none)
    made = AssignedTrials(trials, trials.unknowns, priors.on(sides), same, none)
    return Side(made, (below, above), sides)


def at_kinks(trials: Simulated, q: Array) -> Array:
    """q with unknowns exactly at their kinks that are near them, if the objective is no higher
    there."""
    priors, found = trials.priors, q.copy()
    for k in priors.kinks:
        place, peak = priors.places[k], priors.peaks[k]
        if 0.0 < abs(q[place] - peak) <= _NEAR * (abs(peak) or priors.deviations[k]):
            found[place] = peak
    return found if (found != q).any() and trials.cost(found) <= trials.cost(q) else q
