"""Our nonlinear program stage by stage, as fatrop reads it, by CasADi."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from solves import NAN, STORY

import kinesym as ks
from kinesym.runtime.nlp.layout import FAMILIES
from peers.programs import Solve, casadi_mapped, check_same

Array = NDArray[np.float64]
Index = NDArray[np.intp]

#: Tolerance, first barrier and largest number of iterations as of IPOPT.
FATROP = {"tol": STORY["tol"], "mu_init": 0.1, "max_iter": 3000, "print_level": 0}


@dataclass(frozen=True)
class Stages:
    """The variables of a problem of one trial, in stages.

    The state of a stage is what a node has, and the parameters; its controls are what the interval
    behind it has, and what the next node has. The next state is equal to the latter, so that any
    scheme of one step is a condition within a stage. The last stage has no controls.
    """

    problem: ks.Collocation

    @cached_property
    def tables(self) -> tuple[Index, Index, Index]:
        """Places in z of what the nodes, the intervals (a row for each) and the whole have."""
        layout = self.problem.layout
        (nodes,), (begins,) = layout.nodes, layout.begins
        rows: tuple[list[Index], list[Index]] = [], []
        for block in layout.blocks:
            for k in range(len(block.members)):
                count = block.count(nodes)
                rows[block.place is not None].append(
                    begins[block.name] + k * count + np.arange(count)
                )
        inner = np.array(rows[1], int).reshape(-1, nodes - 1)
        return np.array(rows[0]).T, inner.T, np.arange(layout.offsets[-1], layout.n_variables)

    @property
    def nodes(self) -> int:
        return len(self.tables[0])

    @property
    def states(self) -> int:
        """Number of states of a stage."""
        return self.tables[0].shape[1] + len(self.tables[2])

    @property
    def controls(self) -> int:
        """Number of controls of a stage but the last."""
        return self.tables[0].shape[1] + self.tables[1].shape[1]

    @cached_property
    def source(self) -> Index:
        """The entry of z to which each of theirs is equal."""
        node, inner, whole = self.tables
        shared = np.tile(whole, (self.nodes - 1, 1))
        return np.append(np.hstack([node[:-1], shared, inner, node[1:]]), [*node[-1], *whole])

    @cached_property
    def places(self) -> tuple[Index, Index]:
        """Of each entry of z its stage (-1: of all), and its place there."""
        node, inner, whole = self.tables
        stage, place = np.full((2, self.problem.n_variables), -1)
        stage[node], place[node] = np.arange(len(node))[:, None], np.arange(node.shape[1])
        stage[inner] = np.arange(len(inner))[:, None]
        place[inner] = self.states + np.arange(inner.shape[1])
        place[whole] = node.shape[1] + np.arange(len(whole))
        return stage, place

    def moved(self, points: Index, index: Index) -> Index:
        """Where entries of z are, as stages `points` see them."""
        width, (stage, place) = self.states + self.controls, (v[index] for v in self.places)
        ahead = (stage == points + 1) & (place < self.tables[0].shape[1])
        copies = width * points + self.states + self.tables[1].shape[1] + place
        return np.where(ahead, copies, width * np.where(stage < 0, points, stage) + place)

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


def outputs(ca: Any, stages: Stages, kernel: Any, x: Any) -> tuple[Any, Index]:
    """Values of a kernel, and the stage of each. Raises `ValueError` for one that is of two."""
    problem, last = stages.problem, stages.nodes - 1

    def seen(points: Index) -> Any:
        moved = partial(stages.moved, points)
        return casadi_mapped(ca, problem, 0, kernel, x, moved)

    count = problem.layout.points(0, kernel.name.split("_", 1)[0])
    if count > 1:
        values, points = seen(np.arange(count)), np.arange(count)
        return ca.vec(values.T), np.tile(points, values.shape[0])
    z = ca.MX.sym("z", problem.n_variables)
    pattern = ca.jacobian_sparsity(casadi_mapped(ca, problem, 0, kernel, z), z)
    found: list[set[int]] = [set() for _ in range(pattern.size1())]
    for row, column in zip(*pattern.get_triplet(), strict=True):
        found[row] |= {int(stages.places[0][column])} - {-1}
    if any(len(points) > 1 for points in found):
        raise ValueError("a tie between start and end is not handed to fatrop")
    single = [min(points, default=last) for points in found]
    values = [seen(np.array(stage))[row] for row, stage in enumerate(single)]
    return ca.vertcat(*values), np.array(single, int)


def staged_program(ca: Any, stages: Stages) -> tuple[dict[str, Any], Index, list[int]]:
    """The program; where it has our constraints; the number of conditions of each stage beside the
    next state."""
    problem, last, n = stages.problem, stages.nodes - 1, stages.states
    if len(problem.trials) > 1 or problem.layout.delayed:
        raise ValueError("several trials and delays are not handed to fatrop")
    x, cost = ca.MX.sym("x", len(stages.source)), 0
    node, inner, _ = stages.tables
    begins = (n + stages.controls) * np.arange(last + 1)[:, None]
    copies = n + inner.shape[1] + np.arange(node.shape[1])
    now = begins[:-1] + np.append(copies, np.arange(node.shape[1], n))
    then = begins[1:] + np.arange(n)
    values = [x[then.ravel().tolist()] - x[now.ravel().tolist()]]
    points = [np.repeat(np.arange(last), n)]
    kernels = {kernel.name: kernel for kernel in problem.program.kernels}
    for family in FAMILIES:
        if f"{family}_cost" in kernels:
            cost += ca.sum1(outputs(ca, stages, kernels[f"{family}_cost"], x)[0])
        if f"{family}_constraints" in kernels:
            found, stage = outputs(ca, stages, kernels[f"{family}_constraints"], x)
            values.append(found)
            points.append(stage)
    order = np.argsort(np.concatenate(points), kind="stable")
    program = {"x": x, "f": cost, "g": ca.vertcat(*values)[order.tolist()]}
    ours = np.argsort(order)[last * n :]
    conditions = np.bincount(np.concatenate(points[1:]), minlength=last + 1)
    return program, ours, conditions.tolist()


def fatrop_of(
    problem: ks.Collocation, z: Array, options: Mapping[str, Any], folder: str
) -> tuple[float, Callable[[Array], Solve]]:
    """As `casadi_of`, by fatrop; the time of its linear algebra is not known. Raises `ValueError`
    for what is not within a stage."""
    import casadi as ca

    start, stages = time.perf_counter(), Stages(problem)
    program, ours, conditions = staged_program(ca, stages)
    size, last = program["g"].shape[0], stages.nodes - 1
    (low, high), (below, above) = stages.bounds, np.zeros((2, size))
    below[ours], above[ours] = problem.constraint_bounds
    solver = ca.nlpsol(
        "s",
        "fatrop",
        program,
        {
            "structure_detection": "manual",
            "N": last,
            "nx": [stages.states] * stages.nodes,
            "nu": [stages.controls] * last + [0],
            "ng": conditions,
            "equality": (below == above).tolist(),
            "expand": True,  # else up to twice the time
            "fatrop": {**FATROP, **options},
            "print_time": False,
            "show_eval_warnings": False,
        },
    )
    build = time.perf_counter() - start
    functions = ca.Function("functions", [program["x"]], [program["f"], program["g"]])
    for point in (z, z + 0.01 * np.random.default_rng(0).random(z.size)):
        cost, constraints = functions(point[stages.source])
        check_same(problem, point, float(cost), np.array(constraints).ravel()[ours])

    def solve(z: Array) -> Solve:
        clock = time.perf_counter()
        found = solver(x0=z[stages.source], lbx=low, ubx=high, lbg=below, ubg=above)
        wall, stats = time.perf_counter() - clock, solver.stats()
        failure = "" if stats["success"] else str(stats["return_status"])
        end = np.array(found["x"]).ravel()[stages.own]
        return Solve(wall, NAN, stats["iter_count"], float(found["f"]), end, failure)

    return build, solve
