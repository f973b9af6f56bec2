"""Bounds of states, and moving ones of inputs with straight lines, that a motion passes between
the nodes of a grid, where nothing holds it."""

from __future__ import annotations

import numpy as np

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.arrays import Array

#: Places in an interval at which bounds are looked at.
_PLACES = tuple(k / 6 for k in range(1, 6))
#: Share of the range of a state by which its bound may be passed.
_SAID = 1e-3


def passed_between_nodes(problem: Discretisation, z: Array) -> str:
    """A sentence on the bound of a state or linear input that the motion z passes farthest between
    two nodes, as a share of its range; empty if that is little."""
    at_nodes = {*problem.layout.states, *problem.symbolic.linear}
    layout, (low, high) = problem.layout, problem.variable_bounds
    most, words = _SAID, ""
    for k, time in enumerate(layout.grids):
        signals = layout.signals(z, k, time)
        limits = zip(layout.named_rows(low, k), layout.named_rows(high, k), strict=True)
        for (name, place, below), (_, _, above) in limits:
            if place is not None or name not in at_nodes:
                continue
            floor = np.minimum(below[:-1], below[1:])  # bounds at both ends hold between them
            lid = np.maximum(above[:-1], above[1:])
            if not (np.isfinite(floor) | np.isfinite(lid)).any():
                continue
            moving, apart = problem.trials[k].bounds.get(name, ()), list[Array]()
            for share in _PLACES:
                row = signals[name].within(time, share)
                sides = [
                    (floor, lid),
                    *(bound.within(problem.trials[k].grid, share) for bound in moving),
                ]
                apart += [np.maximum(row - above, below - row) for below, above in sides]
            over = np.max(apart, axis=0)
            own = signals[name].at_nodes(time)
            i, size = int(np.argmax(over)), max(np.ptp(own), abs(own).max())
            if over[i] > most * size > 0.0:
                most = float(over[i] / size)
                words = (
                    f"{name} passes its bound by {over[i]:.2g} between the nodes at "
                    f"t = {time[i]:.4g} and {time[i + 1]:.4g} s, where bounds do not hold it"
                )
    return words
