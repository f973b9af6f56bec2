"""Our nonlinear program stage by stage, as fatrop reads it, by CasADi."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinesym as ks
from peers.by_casadi import Points, casadi_callbacks, every_kernel
from peers.programs import NAN, STORY, VALUES, Peer, Solve, check_same

Array = NDArray[np.float64]
Index = NDArray[np.intp]

#: Tolerance, first barrier and largest number of iterations as of IPOPT.
FATROP = {"tol": STORY["tol"], "mu_init": 0.1, "max_iter": 3000, "print_level": 0}


@dataclass(frozen=True)
class Stages:
    """The variables of a problem in stages, a node each, through all trials.

    The state of a stage is what a node has, and the parameters; its controls are what the interval
    behind it has, and what the next node has. The next state is equal to the latter, so that any
    scheme of one step is a condition within a stage, and no condition ties one trial to the next.
    The last stage has no controls.
    """

    problem: ks.Collocation

    @cached_property
    def table(self) -> Index:
        """Entries of z that a stage has, a row for each; -1 where it has none: those of its node,
        of the whole, of the interval behind it, of the next node."""
        layout, every = self.problem.layout, np.arange(self.problem.n_variables)
        parts = []
        for trial, nodes in enumerate(layout.nodes):
            rows: tuple[list[Index], list[Index]] = [], []
            for _, place, row in layout.named_rows(every, trial):
                rows[place is not None].append(np.append(row, -1)[:nodes])
            inner = np.array(rows[1], int).reshape(-1, nodes)
            parts.append((np.array(rows[0]).T, inner.T))
        node, inner = (np.concatenate(part) for part in zip(*parts, strict=True))
        shared = np.tile(every[layout.parameter_offset :], (len(node), 1))
        after = np.vstack([node[1:], np.full((1, node.shape[1]), -1)])
        return np.hstack([node, shared, inner, after])

    @property
    def count(self) -> int:
        return len(self.table)

    @property
    def of_node(self) -> int:
        """How many entries a node has: the first of a row, and the last."""
        layout = self.problem.layout
        return sum(len(block.members) for block in layout.blocks if block.place is None)

    @property
    def states(self) -> int:
        """Number of states of a stage."""
        return self.of_node + self.problem.n_variables - self.problem.layout.parameter_offset

    @cached_property
    def source(self) -> Index:
        """The entry of z to which each of theirs is equal."""
        return self.table[self.table >= 0]

    @cached_property
    def position(self) -> Index:
        """Where theirs are that stand in the table."""
        return np.cumsum(self.table.ravel() >= 0).reshape(self.table.shape) - 1

    @cached_property
    def places(self) -> tuple[Index, Index]:
        """Of each entry of z its stage (-1: of all), and its column of the table."""
        stage, column = np.full((2, self.problem.n_variables), -1)
        own = self.table.shape[1] - self.of_node
        for k in range(own):
            have = self.table[:, k] >= 0
            column[self.table[have, k]] = k
            stage[self.table[have, k]] = np.flatnonzero(have)
        stage[self.problem.layout.parameter_offset :] = -1
        return stage, column

    def moved(self, points: Index, index: Index) -> Index:
        """Where entries of z are, as stages `points` see them."""
        stage, column = (v[index] for v in self.places)
        ahead = (stage == points + 1) & (column < self.of_node)
        copies = self.table.shape[1] - self.of_node + column
        return self.position[
            np.where(ahead | (stage < 0), points, stage), np.where(ahead, copies, column)
        ]

    @property
    def own(self) -> Index:
        """Where the entries of z are."""
        stage = self.places[0]
        return self.moved(np.where(stage < 0, 0, stage), np.arange(len(stage)))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Of theirs: copies have none."""
        sides = np.full((2, len(self.source)), [[-np.inf], [np.inf]])
        sides[:, self.own] = self.problem.variable_bounds
        return sides[0], sides[1]


def outputs(stages: Stages, points: Points, x: Any) -> tuple[Any, Index]:
    """Values of a kernel at all points, and the stage of each. Raises `ValueError` for one that is
    of several."""
    import casadi as ca

    def seen(at: Index) -> Any:
        return replace(points, index=stages.moved(at, points.index)).over(points.function, x)

    stage = stages.places[0][points.index]
    if points.index.shape[1] > 1:  # nodes, or intervals with the node before them
        at = np.min(np.where(stage < 0, stages.count, stage), axis=0)
        return ca.vec(seen(at).T), np.tile(at, len(points.outputs))
    given = points.function.sx_in()
    pattern = ca.jacobian(points.function(*given), given[0]).sparsity()
    found: list[set[int]] = [set() for _ in points.outputs]
    for row, k in zip(*pattern.get_triplet(), strict=True):
        found[row] |= {int(stage[k, 0])} - {-1}
    if any(max(of, default=0) > min(of, default=0) + 1 for of in found):
        raise ValueError("a tie between start and end is not handed to fatrop")
    single = [min(of, default=stages.count - 1) for of in found]
    values = [seen(np.array([at]))[row] for row, at in enumerate(single)]
    return ca.vertcat(*values), np.array(single, int)


def staged_program(stages: Stages) -> tuple[dict[str, Any], Index, list[int]]:
    """The program; where it has our constraints; the number of conditions of each stage beside the
    next state."""
    import casadi as ca

    last, n, m = stages.count - 1, stages.states, stages.of_node
    x, cost = ca.MX.sym("x", len(stages.source)), 0
    now = np.hstack([stages.position[:-1, -m:], stages.position[:-1, m:n]])
    then = stages.position[1:, :n]
    values = [x[then.ravel().tolist()] - x[now.ravel().tolist()]]
    at = [np.repeat(np.arange(last), n)]
    for what, points in every_kernel(stages.problem):
        found, stage = outputs(stages, points, x)
        if what == "cost":
            cost += ca.sum1(found)
        else:
            values.append(found)
            at.append(stage)
    order = np.argsort(np.concatenate(at), kind="stable")
    program = {"x": x, "f": cost, "g": ca.vertcat(*values)[order.tolist()]}
    ours = np.argsort(order)[last * n :]
    return program, ours, np.bincount(np.concatenate(at[1:]), minlength=last + 1).tolist()


def fatrop_of(problem: ks.Collocation, z: Array, options: Mapping[str, Any], folder: str) -> Peer:
    """As `casadi_of`, by fatrop; the time of its linear algebra is not known. Raises `ValueError`
    for what is not within a stage."""
    import casadi as ca

    if problem.layout.delayed:
        raise ValueError("delays are not handed to fatrop")
    start, stages = time.perf_counter(), Stages(problem)
    program, ours, conditions = staged_program(stages)
    (low, high), (below, above) = stages.bounds, np.zeros((2, program["g"].shape[0]))
    below[ours], above[ours] = problem.constraint_bounds
    about = {
        "structure_detection": "manual",
        "N": stages.count - 1,
        "nx": [stages.states] * stages.count,
        "nu": (np.sum(stages.table >= 0, axis=1) - stages.states).tolist(),
        "ng": conditions,
        "equality": (below == above).tolist(),
        "expand": True,  # else up to twice the time
        "fatrop": {**FATROP, **options},
        "print_time": False,
        "show_eval_warnings": False,
    }
    solver = ca.nlpsol("s", "fatrop", program, about)
    build = time.perf_counter() - start

    def solve(z: Array) -> Solve:
        clock, cpu = time.perf_counter(), time.process_time()
        found = solver(x0=z[stages.source], lbx=low, ubx=high, lbg=below, ubg=above)
        wall, cpu = time.perf_counter() - clock, time.process_time() - cpu
        stats, end = solver.stats(), np.array(found["x"]).ravel()[stages.own]
        failure = "" if stats["success"] else str(stats["return_status"])
        return Solve(wall, cpu, NAN, stats["iter_count"], float(found["f"]), end, failure)

    peer = Peer(build, solve, partial(casadi_callbacks, problem, solver, stages.source, ours))
    check_same(problem, peer, z, VALUES)
    return peer
