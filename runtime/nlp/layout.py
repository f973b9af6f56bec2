"""Where everything lies in the free vector z and among the constraints.

With n states, m unknown inputs, r unknown parameters and N nodes per trial,

    z = [x_1(t_1..t_N) ... x_n(..), u_1(..) ... u_m(..)]  for each trial in turn,
        p_1 ... p_r,
        T of each trial                                   if durations are unknown.

Constraints: for each trial the equations on its N - 1 intervals (equation by equation), then path
conditions on its N nodes, then boundary conditions, then the links from its end to the start of the
next trial, and from the last one to the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import BORDER

#: Kinds of points, in the order of the constraints.
FAMILIES = ("interval", "node", "ends", "link", "cycle")


@dataclass(frozen=True)
class Layout:
    """Sizes, places and names; `grids` are the time grids of the trials (relative if free), `held`
    the inputs that are constant between nodes."""

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    held: frozenset[str]
    parameters: tuple[str, ...]
    labels: Mapping[str, Sequence[str]]
    grids: tuple[Array, ...]
    free_duration: bool

    @cached_property
    def nodes(self) -> list[int]:
        """N of each trial."""
        return [len(grid) for grid in self.grids]

    @property
    def width(self) -> int:
        """Trajectories per trial: n + m."""
        return len(self.states) + len(self.inputs)

    @cached_property
    def offsets(self) -> list[int]:
        """Where each trial begins in z, and where the parameters begin."""
        return [0, *np.cumsum([self.width * N for N in self.nodes]).tolist()]

    @property
    def parameter_offset(self) -> int:
        """Where the unknown parameters begin in z."""
        return self.offsets[-1]

    @property
    def duration_offset(self) -> int:
        """Where the unknown durations begin in z."""
        return self.parameter_offset + len(self.parameters)

    @property
    def n_variables(self) -> int:
        """Length of z."""
        return self.duration_offset + (len(self.nodes) if self.free_duration else 0)

    def points(self, trial: int, family: str) -> int:
        """Number of points of a family in a trial."""
        last = trial == len(self.nodes) - 1
        return {
            "interval": self.nodes[trial] - 1,
            "node": self.nodes[trial],
            "ends": 1,
            "link": int(not last),
            "cycle": int(last),
        }[family]

    def following(self, trial: int) -> int:
        """The trial after this one; after the last one the first."""
        return (trial + 1) % len(self.nodes)

    @property
    def linked(self) -> bool:
        """Whether the end of each trial is tied to the start of the next."""
        return bool(self.labels["link"])

    @cached_property
    def _counts(self) -> dict[tuple[int, str], int]:
        """Number of constraints of each trial and family, in their order."""
        return {
            (trial, family): len(self.labels[family]) * self.points(trial, family)
            for trial in range(len(self.nodes))
            for family in FAMILIES
        }

    @cached_property
    def constraint_offsets(self) -> dict[tuple[int, str], int]:
        """Where the constraints of each trial and family begin."""
        return dict(zip(self._counts, accumulate(self._counts.values(), initial=0), strict=False))

    @cached_property
    def n_constraints(self) -> int:
        """Number of constraints."""
        return sum(self._counts.values())

    def stages(self) -> NDArray[np.int32]:
        """The stage in time of each variable: its node, counted on through the trials, with a gap
        between those that are not linked; parameters and durations have none."""
        stages = np.full(self.n_variables, BORDER, dtype=np.int32)
        begin = 0
        for trial, N in enumerate(self.nodes):
            first, last = self.offsets[trial], self.offsets[trial + 1]
            stages[first:last].reshape(self.width, N)[:] = np.arange(begin, begin + N)
            begin += N + (not self.linked)
        return stages

    # -- views of z -------------------------------------------------------------------------

    def trajectories(self, z: Array, trial: int) -> Array:
        """States and unknown inputs of a trial, a view of shape (n + m, N)."""
        begin, N = self.offsets[trial], self.nodes[trial]
        return z[begin : begin + self.width * N].reshape(self.width, N)

    def parameter_values(self, z: Array) -> Array:
        """The unknown parameters, a view of shape (r,)."""
        return z[self.parameter_offset : self.duration_offset]

    def durations(self, z: Array) -> Array:
        """The unknown durations, a view; empty if they are known."""
        return z[self.duration_offset :]

    def time(self, z: Array, trial: int) -> Array:
        """The time grid of a trial [s]."""
        grid = self.grids[trial]
        return grid * self.durations(z)[trial] if self.free_duration else grid

    # -- names ------------------------------------------------------------------------------

    def variable_name(self, j: int) -> str:
        """What z[j] is; raises `IndexError` outside."""
        if not 0 <= j < self.n_variables:
            raise IndexError(f"variable {j} of {self.n_variables}")
        if j >= self.duration_offset:
            return f"duration of trial {j - self.duration_offset}"
        if j >= self.parameter_offset:
            return f"parameter {self.parameters[j - self.parameter_offset]}"
        trial = int(np.searchsorted(self.offsets, j, side="right")) - 1
        k, node = divmod(j - self.offsets[trial], self.nodes[trial])
        return f"{(*self.states, *self.inputs)[k]} at {self.where(trial, 'node', node)}"

    def constraint_name(self, i: int) -> str:
        """What constraint i is; raises `IndexError` outside."""
        trial, family, label, point = self.locate_constraint(i)
        return f"{self.labels[family][label]} at {self.where(trial, family, point)}"

    def locate_constraint(self, i: int) -> tuple[int, str, int, int]:
        """Trial, family, number of the equation and number of the point of constraint i."""
        if not 0 <= i < self.n_constraints:
            raise IndexError(f"constraint {i} of {self.n_constraints}")
        owners = (key for key, begin in self.constraint_offsets.items() if begin <= i)
        trial, family = [key for key in owners if self._counts[key]][-1]
        begin = self.constraint_offsets[trial, family]
        return trial, family, *divmod(i - begin, self.points(trial, family))

    def where(self, trial: int, family: str, point: int) -> str:
        """A place in words: node or interval, time, trial."""
        if family == "ends":
            return f"the ends of trial {trial}"
        if family in ("link", "cycle"):
            return f"the link of trials {trial} and {self.following(trial)}"
        unit = " of the duration" if self.free_duration else " s"
        at = f"t = {self.grids[trial][point]:.6g}{unit}"
        return f"{family} {point} ({at}) of trial {trial}"
