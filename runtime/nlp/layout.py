"""Layout of the free vector z and of the constraints.

With N nodes per trial, n states and m unknown inputs that have values at the nodes, q states and
inputs at places within the intervals, r unknown parameters,

    z = [x_1(t_1..t_N) ... x_n(..), u_1(..) ... u_m(..),
         y_1(..) ... y_q(.. N - 1 intervals)]           for each trial in turn,
        p_1 ... p_r,                                    see `kinesym.runtime.nlp.owned`,
        T of each trial                                 if durations are unknown.

Constraints: for each trial those of its N - 1 intervals (one kind after the other), then of its N
nodes, then boundary conditions, then the links from its end to the start of the next trial, and
from the last one to the first; after those of all trials, one for each value of a delayed input,
in their order in z, see `kinesym.runtime.nlp.lags`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import LabelManifest
from kinesym.runtime.native import BORDER
from kinesym.runtime.nlp.courses import at_nodes, through
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.signals.signal import Signal

#: Kinds of points, in the order of the constraints.
FAMILIES = ("interval", "node", "ends", "link", "cycle")


@dataclass(frozen=True)
class Block:
    """Trajectories of a trial that have values at the same places.

    place : of each value in its interval, a share of it; None for values at the nodes.
    """

    name: str
    members: tuple[str, ...]
    place: float | None

    def count(self, nodes: int) -> int:
        """Number of values of each member on a grid of N nodes."""
        return nodes if self.place is None else nodes - 1


@dataclass(frozen=True)
class Layout:
    """Sizes, places and names.

    blocks : of the trajectories of a trial in z; those at the nodes, "x" and "u", come first.
    states, inputs : names of all, in the order of the model. owned : the parameters. labels : of
    the constraints at each point of a family. grids : of the trials (relative if durations are
    unknown). held : inputs that are constant between nodes. delayed : inputs that are delayed
    signals.
    """

    blocks: tuple[Block, ...]
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    held: frozenset[str]
    owned: Owned
    labels: Mapping[str, Sequence[LabelManifest]]
    grids: tuple[Array, ...]
    free_duration: bool
    delayed: tuple[str, ...] = ()

    @cached_property
    def nodes(self) -> list[int]:
        """N of each trial."""
        return [len(grid) for grid in self.grids]

    @cached_property
    def at_nodes(self) -> tuple[str, ...]:
        """Names of trajectories with values at the nodes, states and then inputs."""
        return tuple(name for b in self.blocks if b.place is None for name in b.members)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknown parameters, with their owners."""
        return self.owned.names

    @property
    def width(self) -> int:
        """Number of unknowns per node, with those of the interval before it."""
        return sum(len(block.members) for block in self.blocks)

    @property
    def arrays(self) -> list[list[Any]]:
        """Name, members and place of each block, as files keep them."""
        return [[block.name, list(block.members), block.place] for block in self.blocks]

    @cached_property
    def begins(self) -> list[dict[str, int]]:
        """Offsets of the blocks of each trial in z."""
        found, begin = [], 0
        for N in self.nodes:
            mine = {}
            for block in self.blocks:
                mine[block.name] = begin
                begin += len(block.members) * block.count(N)
            found.append({**mine, "": begin})
        return found

    @cached_property
    def offsets(self) -> list[int]:
        """Offsets of the trials in z, and of the parameters after them."""
        return [0, *(begins[""] for begins in self.begins)]

    @property
    def parameter_offset(self) -> int:
        """Offset of the unknown parameters in z."""
        return self.offsets[-1]

    @property
    def duration_offset(self) -> int:
        """Offset of the unknown durations in z."""
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
        """Offsets of the constraints of each trial and family."""
        return dict(zip(self._counts, accumulate(self._counts.values(), initial=0), strict=False))

    def constraint_rows(self) -> Iterator[tuple[int, str, LabelManifest, slice]]:
        """Trial, family, label and rows of each constraint at all its points."""
        for (trial, family), begin in self.constraint_offsets.items():
            n = self.points(trial, family)
            for k, label in enumerate(self.labels[family]):
                yield trial, family, label, slice(begin + k * n, begin + (k + 1) * n)

    @cached_property
    def n_constraints(self) -> int:
        """Number of constraints."""
        return self.delay_offset + len(self.delayed_entries)

    @cached_property
    def delay_offset(self) -> int:
        """Offset of the constraints of delayed inputs."""
        return sum(self._counts.values())

    @cached_property
    def delayed_entries(self) -> NDArray[np.intp]:
        """Entries of delayed inputs in z."""
        every, found = np.arange(self.n_variables), [np.zeros(0, dtype=np.intp)]
        for trial in range(len(self.nodes) if self.delayed else 0):
            mine = self.named_rows(every, trial)
            found += [row for name, _, row in mine if name in self.delayed]
        return np.concatenate(found)

    def stages(self) -> NDArray[np.int32]:
        """The stage in time of each variable: its node, or the node after its interval, counted on
        through the trials, with a gap between those that are not linked; parameters and durations
        have none. Within a stage the linear solver eliminates unknowns of one interval only."""
        stages = np.full(self.n_variables, BORDER, dtype=np.int32)
        begin = 0
        for trial, N in enumerate(self.nodes):
            for block, rows in self.rows(stages, trial):
                rows[:] = np.arange(begin + (block.place is not None), begin + N)
            begin += N + (not self.linked)
        return stages

    # -- views of z -------------------------------------------------------------------------

    def rows(self, z: NDArray[Any], trial: int) -> list[tuple[Block, NDArray[Any]]]:
        """The blocks of a trial, each with a view of its values, (members, N) or (.., N - 1)."""
        N, found = self.nodes[trial], []
        for block in self.blocks:
            begin, shape = self.begins[trial][block.name], (len(block.members), block.count(N))
            found.append((block, z[begin : begin + shape[0] * shape[1]].reshape(shape)))
        return found

    def named_rows(
        self, z: NDArray[Any], trial: int
    ) -> Iterator[tuple[str, float | None, NDArray[Any]]]:
        """Name, place in the intervals (None at the nodes) and view of each row of a trial."""
        for block, rows in self.rows(z, trial):
            for name, row in zip(block.members, rows, strict=True):
                yield name, block.place, row

    def trajectories(self, z: Array, trial: int) -> Array:
        """States and unknown inputs at the nodes of a trial, a view of shape (n + m, N)."""
        begin, N, n = self.offsets[trial], self.nodes[trial], len(self.at_nodes)
        return z[begin : begin + n * N].reshape(n, N)

    def courses(
        self, z: Array, trial: int, stages: Sequence[float], to_ends: Sequence[Sequence[float]]
    ) -> dict[str, Array]:
        """States and unknown inputs at the nodes of a trial, (N,) each, in their order; see
        `kinesym.runtime.nlp.courses.at_nodes` for those that are known at stages only."""
        found = dict(zip(self.at_nodes, self.trajectories(z, trial), strict=True))
        for name, values in self.staged(z, trial).items():
            found[name] = at_nodes(values, stages, to_ends, self.grids[trial])
        return {name: found[name] for name in (*self.states, *self.inputs)}

    def staged(self, z: NDArray[Any], trial: int) -> dict[str, NDArray[Any]]:
        """Trajectories with values at the stages of intervals only, (stages, N - 1), by name."""
        found: dict[str, list[NDArray[Any]]] = {}
        for name, _, row in self.named_rows(z, trial):
            if name not in self.at_nodes:
                found.setdefault(name, []).append(row)
        return {name: np.array(rows) for name, rows in found.items()}

    def signals(self, z: Array, trial: int, time: Array) -> dict[str, Signal]:
        """States and unknown inputs of a trial over time (N,), as the scheme represents them: on
        each interval the polynomial through all places where they are unknown (of states by Lobatto
        IIIA one degree less), or held."""
        found: dict[str, dict[float, Array]] = {}
        for name, place, row in self.named_rows(z, trial):
            values = found.setdefault(name, {})
            if place is not None:
                values[place] = row
            else:
                values[0.0] = row[:-1]
                values |= {} if name in self.held else {1.0: row[1:]}
        return {name: through(time, values) for name, values in found.items()}

    def put(self, z: Array, trial: int, courses: Mapping[str, Signal]) -> None:
        """Writes courses over the grid of a trial into z. Where an input jumps at a node, it has
        the mean of both sides, one that is held the value after it."""
        grid = self.grids[trial]
        for name, place, row in self.named_rows(z, trial):
            course = courses[name]
            row[:] = course.at_nodes(grid) if place is None else course.within(grid, place)
            if place is None and name in self.inputs and name not in self.held:
                row[1:] += 0.5 * (course.within(grid, 1.0) - row[1:])

    def parameter_values(self, z: Array) -> Array:
        """Values of the unknown parameters in z, a view of shape (r,): logarithms for those on a
        logarithmic scale."""
        return z[self.parameter_offset : self.duration_offset]

    def parameters_of(self, z: Array, trial: int) -> Array:
        """Values of a trial, in the order of the model, without those of other owners."""
        return self.owned.natural(self.parameter_values(z))[self.owned.places(trial)]

    def natural(self, z: Array) -> Array:
        """z with the values of the parameters instead of their logarithms."""
        values = np.array(z)
        self.parameter_values(values)[:] = self.owned.natural(self.parameter_values(z))
        return values

    def parameter_slopes(self, z: Array) -> Array:
        """Derivatives of the values of the parameters by their entries in z, (r,)."""
        return self.owned.slopes(self.parameter_values(z))

    def durations(self, z: Array) -> Array:
        """The unknown durations, a view; empty if they are known."""
        return z[self.duration_offset :]

    def time(self, z: Array, trial: int) -> Array:
        """The time grid of a trial [s]."""
        grid = self.grids[trial]
        return grid * self.durations(z)[trial] if self.free_duration else grid

    # -- names ------------------------------------------------------------------------------

    def variable_name(self, j: int) -> str:
        """Name of variable z[j]; raises `IndexError` outside."""
        if not 0 <= j < self.n_variables:
            raise IndexError(f"variable {j} of {self.n_variables}")
        if j >= self.duration_offset:
            return f"duration of trial {j - self.duration_offset}"
        if j >= self.parameter_offset:
            return f"parameter {self.parameters[j - self.parameter_offset]}"
        trial = int(np.searchsorted(self.offsets, j, side="right")) - 1
        begins, N = self.begins[trial], self.nodes[trial]
        block = [b for b in self.blocks if begins[b.name] <= j][-1]
        k, point = divmod(j - begins[block.name], block.count(N))
        family = "node" if block.place is None else "interval"
        return f"{block.members[k]} at {self.where(trial, family, point, block.place)}"

    def constraint_name(self, i: int) -> str:
        """Name of constraint i; raises `IndexError` outside."""
        if self.delay_offset <= i < self.n_constraints:
            return (
                f"value of {self.variable_name(int(self.delayed_entries[i - self.delay_offset]))}"
            )
        trial, family, label, point = self.locate_constraint(i)
        return f"{self.labels[family][label]} at {self.where(trial, family, point)}"

    def locate_constraint(self, i: int) -> tuple[int, str, int, int]:
        """Trial, family, number of the equation and number of the point of constraint i."""
        if not 0 <= i < self.delay_offset:
            raise IndexError(f"constraint {i} of {self.delay_offset}")
        owners = (key for key, begin in self.constraint_offsets.items() if begin <= i)
        trial, family = [key for key in owners if self._counts[key]][-1]
        begin = self.constraint_offsets[trial, family]
        return trial, family, *divmod(i - begin, self.points(trial, family))

    def where(self, trial: int, family: str, point: int, place: float | None = None) -> str:
        """A place in words: node or interval, time (of a place within), trial."""
        if family == "ends":
            return f"the ends of trial {trial}"
        if family in ("link", "cycle"):
            return f"the link of trials {trial} and {self.following(trial)}"
        unit = " of the duration" if self.free_duration else " s"
        grid = self.grids[trial]
        time = grid[point] if not place else (1.0 - place) * grid[point] + place * grid[point + 1]
        at = f"t = {time:.6g}{unit}"
        return f"{family} {point} ({at}) of trial {trial}"
