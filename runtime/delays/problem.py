"""Problems of time stepping with delays: delayed inputs, and breaks of the motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.delays.past import Before, slack
from kinesym.runtime.native import PARABOLA
from kinesym.runtime.simulation.stepper import IVP, Stepper


@dataclass(frozen=True)
class Delayed:
    """Delayed input: the value of a state or of another input some time ago.

    name : of the input. source : number of the state, or of the input if `of_input`. moving :
    whether the delay changes along a motion. low, high : its bounds [s], equal if it is constant.
    signal : the history of the source before the start; of an input at all times.
    """

    name: str
    source: int
    of_input: bool
    moving: bool
    low: float
    high: float
    signal: Before


@dataclass(frozen=True)
class Break:
    """Break of a motion: the time [s] at which the derivative of some order of a state jumps."""

    time: float
    order: int


@dataclass(frozen=True)
class DelayProblem:
    """Initial value problems with delays, which are the same for all members.

    ivp : without delayed inputs, which come after the others. breaks : of the motion. kinked :
    whether inputs have kinks at nodes. The kernel `delays` of the library has the delays in their
    order.
    """

    ivp: IVP
    delays: Sequence[Delayed]
    breaks: Sequence[Break]
    kinked: bool

    def ivp_on(self, nodes: Array, states: Array, rows: Sequence[Array]) -> IVP:
        """Initial value problem on other nodes (N,), from states (n, M), with parabolas of all
        inputs; on one thread, since windows are short."""
        inputs = [(row, PARABOLA) for row in rows]
        made = replace(self.ivp, time=nodes, initial=states, inputs=inputs)
        return replace(made, substeps=1, threads=1)


def images(sources: Sequence[Break], delays: Sequence[float], end: float, most: int) -> list[Break]:
    """Breaks up to the time `end` [s] that others cause by constant delays, one order higher each
    up to the order `most`, together with these others."""
    found: dict[float, Break] = {}
    rest = list(sources)
    while rest:
        one = rest.pop()
        key = round(one.time, 11)
        if one.time > end or one.order > most:
            continue
        if key in found and found[key].order <= one.order:
            continue
        found[key] = one
        rest += [Break(one.time + tau, one.order + 1) for tau in delays if tau > 0.0]
    return sorted(found.values(), key=lambda one: one.time)


def inserted(grid: Array, times: Array) -> Array:
    """Grid (N,) with further nodes inserted, unless it has them already."""
    times = np.unique(times[(times > grid[0]) & (times < grid[-1])])
    times = times[np.append(True, np.diff(times) > slack(times[1:]))[: len(times)]]
    node = np.searchsorted(grid, times)
    near = np.minimum(np.abs(grid[node - 1] - times), np.abs(grid[node] - times))
    return np.union1d(grid, times[near > slack(times)])


@dataclass(frozen=True)
class Places:
    """Places of delayed values in a step: shares (P,), the first 0 and the last 1, and the weights
    (3, P) of values there in samples at its begin, middle and end, a parabola through the stages.
    """

    shares: Array
    samples: Array

    @classmethod
    def of(cls, stepper: Stepper) -> Places:
        """Places of the stages of a method; raises `ValueError` for more than a parabola can
        hold."""
        tableau = stepper.tableau
        own = {0.0, 0.5, 1.0}
        if tableau.implicit and not stepper.adaptive:
            stages = sorted(set(tableau.c[:-1]))
            own = set(stages)
            for more in (0.0, 1.0, 0.5):
                own |= {more} if len(own) < 3 else set()
        if len(own) > 3:
            raise ValueError(
                f"{stepper.loop} has more stages than a delayed value is known at; use gauss-6 or "
                "an adaptive method"
            )
        knots, shares = np.array(sorted(own)), np.array(sorted(own | {0.0, 1.0}))
        samples = np.zeros((3, len(shares)))
        ends = np.vander([0.0, 0.5, 1.0], 3) @ np.linalg.inv(np.vander(knots, 3))
        samples[:, np.searchsorted(shares, knots)] = ends
        return cls(shares, samples)

    @property
    def sides(self) -> Array:
        """Sides of the places, (P,): +1 if a value is the one after a break at the same time, -1
        before."""
        return np.where(self.shares == 0.0, 1.0, np.where(self.shares == 1.0, -1.0, 0.0))
