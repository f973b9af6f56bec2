"""Courses of states, inputs and outputs: between the places where they are unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import diags_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.signal import Signal


def at_nodes(
    values: Array, stages: Sequence[float], to_ends: Sequence[Sequence[float]], grid: Array
) -> Array:
    """Values at the nodes (N,) of a grid from values at the stages of each interval, (s, N - 1).

    The end of an interval, if that is a stage; else the mean of the polynomials of both intervals,
    or with one stage straight lines between them. stages : places in an interval. to_ends : weights
    of the stages at both ends of an interval.
    """
    if len(stages) == 1 and stages[0] < 1.0:
        middle = (1.0 - stages[0]) * grid[:-1] + stages[0] * grid[1:]
        return np.interp(grid, middle, values[0])
    after, before = (np.asarray(weights) @ values for weights in to_ends)
    if stages[-1] == 1.0:
        return np.append(after[:1], before)
    return np.concatenate([after[:1], 0.5 * (before[:-1] + after[1:]), before[-1:]])


def weights_at_nodes(
    stages: Sequence[float], to_ends: Sequence[Sequence[float]], grid: Array
) -> list[Any]:
    """Weights of `at_nodes`, as sparse matrices (N, N - 1), one for the values at each stage.

    Each node has values of the two intervals beside it: one of them is even, the other odd.
    """
    N = len(grid)
    found = []
    for stage in range(len(stages)):
        columns = []
        for parity in (0, 1):
            values = np.zeros((len(stages), N - 1))
            values[stage, parity::2] = 1.0
            columns.append(at_nodes(values, stages, to_ends, grid))
        node = np.arange(N)
        before = np.where(node % 2 == 1, *columns)[1:]  # of the interval that ends at a node
        after = np.where(node % 2 == 0, *columns)[:-1]
        matrix = diags_array([before, after], offsets=[-1, 0], shape=(N, N - 1)).tocsr()
        matrix.eliminate_zeros()
        found.append(matrix)
    return found


def at_place(values: Array, place: float) -> Array:
    """Straight lines through samples at nodes (.., N), at a place of each interval, (.., N - 1)."""
    return np.asarray((1.0 - place) * values[..., :-1] + place * values[..., 1:])


def lines(samples: Array, time: Array) -> Signal:
    """Straight lines through samples (N,) on a grid, also one whose nodes come twice at jumps."""
    if (np.diff(time) > 0.0).all():
        return Signal(time, samples)
    return through(time, {0.0: samples[:-1], 1.0: samples[1:]})


def through(time: Array, values: Mapping[float, Array]) -> Signal:
    """Interpolate by one polynomial on each interval of a grid (N,) [s], through values (N - 1,) at
    places there; intervals of zero length are left out: the signal jumps there."""
    places, step = np.array(list(values)), np.diff(time)
    powers, there = np.arange(len(places)), step > 0.0
    terms = np.linalg.inv(places[:, None] ** powers) @ np.array(list(values.values()))[:, there]
    begins = np.append(time[:-1][there], time[-1])
    return Signal.polynomials(begins, terms / step[there] ** powers[:, None])
