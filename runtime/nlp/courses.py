"""Courses of states, inputs and outputs: between the places where they are unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.signal import Signal


def at_nodes(
    values: Array, stages: Sequence[float], to_ends: Sequence[Sequence[float]], grid: Array
) -> Array:
    """What is known at the stages of each interval, (s, N - 1), at the nodes (N,) of a grid.

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


def at_place(values: Array, place: float) -> Array:
    """Straight lines through samples at nodes (.., N), at a place of each interval, (.., N - 1)."""
    return np.asarray((1.0 - place) * values[..., :-1] + place * values[..., 1:])


def lines(samples: Array, time: Array) -> Signal:
    """Straight lines through samples (N,) on a grid, also one whose nodes come twice at jumps."""
    if (np.diff(time) > 0.0).all():
        return Signal(time, samples)
    return through(time, {0.0: samples[:-1], 1.0: samples[1:]})


def through(time: Array, values: Mapping[float, Array]) -> Signal:
    """On each interval of a grid (N,) [s] the polynomial through values (N - 1,) at places there;
    intervals of no length are left out: there it jumps."""
    places, step = np.array(list(values)), np.diff(time)
    powers, there = np.arange(len(places)), step > 0.0
    terms = np.linalg.inv(places[:, None] ** powers) @ np.array(list(values.values()))
    begins = np.append(time[:-1][there], time[-1])
    return Signal.polynomials(begins, (terms / step ** powers[:, None])[:, there])
