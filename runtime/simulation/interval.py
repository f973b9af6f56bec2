"""Refinement of a simulation within one of its intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import HELD, PARABOLA
from kinesym.runtime.simulation.stepper import IVP, RawTrajectories


def refined(raw: RawTrajectories, member: int, node: int, parts: int) -> IVP:
    """Initial value problem of one interval and one member, from its state at `node`, on a grid of
    equal parts."""
    ivp = raw.ivp
    begin, end = ivp.time[node], ivp.time[node + 1]
    share = np.arange(parts + 1) / parts
    inputs = []
    for samples, kind in ivp.inputs:
        row = samples[member if len(samples) > 1 else 0]
        made = within(row, kind, node, share)
        if kind == PARABOLA:
            thirds = (np.arange(parts)[:, None] + [0.0, 0.5, 1.0]) / parts
            made = np.append(within(row, kind, node, thirds.ravel()), made[-1])
        inputs.append((np.ascontiguousarray(made)[None], kind))
    row = member if len(ivp.parameters) > 1 else 0
    return IVP(
        begin + share * (end - begin),
        raw.states[:, member, [node]],
        ivp.parameters[row : row + 1],
        inputs,
        1,
        ivp.tolerances,
    )


def within(samples: Array, kind: int, node: int | NDArray[np.intp], share: Array) -> Array:
    """Input values at shares of the intervals after some nodes; see `ks_input_at` in
    kinesym_step.h."""
    if kind == HELD:
        return np.asarray(samples[node] + np.zeros_like(share))
    if kind == PARABOLA:
        a, b, c = (samples[3 * node + k] for k in range(3))
        rest, twice = 1.0 - share, 2.0 * share
        return np.asarray(
            rest * (1.0 - twice) * a + 2.0 * twice * rest * b + share * (twice - 1.0) * c
        )
    return np.asarray(samples[node] + share * (samples[node + 1] - samples[node]))
