"""Our nonlinear program in the words of opty, by IPOPT."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

import kinesym as ks
from kinesym.symbolic.names import name_of
from peers.programs import (
    STORY,
    VALUES,
    Callback,
    Peer,
    Solve,
    check_same,
    flat_equations,
    ours_at,
    read_story,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]

#: Our schemes that opty has, and its names for them.
OPTY_SCHEMES = {"backward-euler": "backward euler", "midpoint": "midpoint"}


def opty_lacks(problem: ks.Collocation) -> str:
    """What of a problem opty cannot say; empty if it can."""
    layout, model, scheme = problem.layout, problem.model, problem.symbolic.scheme.alias
    known = scheme in OPTY_SCHEMES
    if model.delays:
        return "delays"
    steps = np.concatenate([np.diff(trial.grid) for trial in problem.trials])
    equations = flat_equations(model)
    plain = equations.xreplace(
        {f: sp.Dummy() for f in (*model.derivatives, *model.states, *model.inputs)}
    )
    used = {name_of(s) for s in (*model.inputs, *model.parameters) if equations.has(s)}
    labels, within = layout.labels, [row for _, _, row in named_rows(problem)]
    lacks = {
        "this scheme": not known,
        "path conditions": bool(problem.symbolic.path)
        or (known and len(labels["interval"]) > len(equations)),
        "conditions between trials": bool(labels["link"] or labels["cycle"]),
        "conditions with bounds": any(map(np.any, problem.constraint_bounds)),
        "steps of different lengths": bool(np.ptp(steps) > 1e-6 * steps[0]),
        "trials of different lengths": len({*layout.nodes}) > 1,
        "free durations of several trials": layout.free_duration and len(layout.nodes) > 1,
        "parameters on a logarithmic scale": bool(layout.owned.log_scale),
        "time in equations": ks.t in plain.free_symbols,
        "unknowns that are in no equation": not {*layout.owned.parameters, *layout.inputs} <= used,
        "known inputs that are no straight lines between nodes": not _straight(problem),
        "bounds that change over time": any(
            np.any(side[row] != side[row[0]]) for side in problem.variable_bounds for row in within
        ),
    }
    return ", ".join(words for words, true in lacks.items() if true)


def _straight(problem: ks.Collocation) -> bool:
    """Whether what the scheme sees of known inputs is what opty makes of their values at nodes."""
    midpoint = problem.symbolic.scheme.alias == "midpoint"
    known = [name_of(u) for u in problem.model.inputs if name_of(u) not in problem.layout.inputs]
    for trial, name in product(problem.trials, known):
        if name not in trial.inputs:
            return False
        u = trial.inputs[name]
        theirs = 0.5 * (u[:-1] + u[1:]) if midpoint else u[1:]
        ours = trial.signals[name].within(trial.grid, 0.5 if midpoint else 1.0)
        if not np.allclose(ours, theirs, rtol=1e-13, atol=1e-13 * float(np.max(np.abs(u)))):
            return False
    return True


def named_rows(problem: ks.Collocation) -> list[tuple[sp.Expr, float | None, Index]]:
    """Symbol of opty's, place in the intervals (None at nodes) and entries of our z of each
    trajectory."""
    every, found = np.arange(problem.n_variables), []
    for trial in range(len(problem.trials)):
        symbols = {name_of(s): new for s, new in renamed(problem, trial).items()}
        found += [(symbols[name], *rest) for name, *rest in problem.layout.named_rows(every, trial)]
    return found


def renamed(problem: ks.Collocation, trial: int) -> dict[sp.Basic, sp.Basic]:
    """Symbols of a trial: several trials are copies of the model, side by side, that share
    parameters."""
    model, owned = problem.model, problem.layout.owned
    end = f"_{trial}" if len(problem.trials) > 1 else ""
    names = [owned.names[k] for k in owned.places(trial)]
    owners = dict(zip(owned.parameters, names, strict=True))
    return {s: ks.dynamicsymbols(name_of(s) + end) for s in (*model.states, *model.inputs)} | {
        p: plain(owners.get(p.name, p.name + end)) for p in model.parameters
    }


def plain(name: str) -> sp.Symbol:
    """A symbol without what no name in C has: `b[s01]` is `b_s01_`."""
    return sp.Symbol(re.sub(r"\W", "_", name))


@dataclass(frozen=True)
class Variables:
    """Those of opty, as its collocator of our problem has them, and ours.

    It has inputs at the nodes, of which the midpoint rule takes means, and the length of a step
    where we have the duration.
    """

    problem: ks.Collocation
    theirs: Any

    @property
    def nodes(self) -> int:
        return self.problem.layout.nodes[0]

    @cached_property
    def rows(self) -> list[tuple[int, Array, Index]]:
        """Of each trajectory, where it begins in theirs, where we have values, counted in steps,
        and where these are in z."""
        every = [*self.theirs.state_symbols, *self.theirs.unknown_input_trajectories]
        begins, nodes = {x: self.nodes * k for k, x in enumerate(every)}, np.arange(self.nodes)
        return [
            (begins[symbol], nodes if place is None else nodes[:-1] + place, row)
            for symbol, place, row in named_rows(self.problem)
        ]

    @cached_property
    def lasts(self) -> list[int]:
        """Where they have our parameters and duration."""
        layout, symbols = self.problem.layout, list(self.theirs.unknown_parameters)
        begin = self.theirs.num_free - len(symbols) - layout.free_duration
        found = [begin + symbols.index(plain(name)) for name in layout.parameters]
        return found + [self.theirs.num_free - 1] * layout.free_duration

    @cached_property
    def matrix(self) -> csr_array:
        """Makes our z of theirs."""
        z, free, weights = [], [], []
        for begin, at, row in self.rows:
            before = np.floor(at).astype(int)
            for node, share in ((before, 1.0 - at + before), (before + 1, at - before)):
                z.append(row[share > 0.0])
                free.append(begin + node[share > 0.0])
                weights.append(share[share > 0.0])
        last = np.ones(len(self.lasts))
        last[len(self.problem.layout.parameters) :] = self.nodes - 1.0  # a duration, of a step
        z.append(np.arange(self.problem.layout.parameter_offset, self.problem.n_variables))
        places = np.concatenate(z), np.concatenate([*free, self.lasts]).astype(int)
        entries = np.concatenate([*weights, last]), places
        shape = self.problem.n_variables, self.theirs.num_free
        return coo_array(entries, shape=shape).tocsr()

    def of(self, z: Array) -> Array:
        """Theirs from ours: straight lines through values within intervals."""
        free, layout = np.zeros(self.theirs.num_free), self.problem.layout
        for begin, at, row in self.rows:
            free[begin : begin + self.nodes] = np.interp(np.arange(self.nodes), at, z[row])
        free[self.lasts] = z[layout.parameter_offset :]
        if layout.free_duration:
            free[-1] /= self.nodes - 1.0
        return free

    @cached_property
    def constraints(self) -> Index:
        """Where ours are, in their order: equations of all trials, then conditions at the ends."""
        layout = self.problem.layout
        found = []
        for family, trial in product(("interval", "ends"), range(len(self.problem.trials))):
            count = len(layout.labels[family]) * layout.points(trial, family)
            found.append(layout.constraint_offsets[trial, family] + np.arange(count))
        return np.concatenate(found)


def opty_of(problem: ks.Collocation, z: Array, options: Mapping[str, Any], folder: str) -> Peer:
    """As `casadi_of`. The objective and its gradient, which opty leaves to its user, are ours. It
    has no Hessian: IPOPT makes one of limited memory from gradients. Raises `ValueError` for what
    opty cannot say."""
    from opty import Problem

    words = opty_lacks(problem)
    if words:
        raise ValueError(f"opty lacks {words}")
    start = time.perf_counter()
    theirs = Problem(
        lambda free: problem.cost(ours @ free),
        lambda free: ours.T @ problem.cost_gradient(ours @ free),
        parallel=False,
        tmp_dir=folder,
        **opty_statement(problem),
    )
    build, story = time.perf_counter() - start, Path(folder) / "opty.txt"
    variables = Variables(problem, theirs.collocator)
    ours = variables.matrix
    for option, value in {**STORY, **options, "output_file": str(story)}.items():
        theirs.add_option(option, value)

    def solve(z: Array) -> Solve:
        clock, cpu = time.perf_counter(), time.process_time()
        free, info = theirs.solve(variables.of(z))
        wall, cpu = time.perf_counter() - clock, time.process_time() - cpu
        failure = "" if info["status"] in (0, 1) else info["status_msg"].decode()
        return Solve(wall, cpu, *read_story(story), float(info["obj_val"]), ours @ free, failure)

    peer = Peer(build, solve, partial(opty_callbacks, problem, theirs, variables))
    check_same(problem, peer, z, VALUES)
    return peer


def opty_callbacks(
    problem: ks.Collocation, theirs: Any, variables: Variables, z: Array, multipliers: Array
) -> dict[str, Callback]:
    """Those that are opty's own."""
    free, rows, matrix = variables.of(z), variables.constraints, variables.matrix
    ours, places = ours_at(problem, matrix @ free, multipliers), theirs.jacobianstructure()
    shape = theirs.num_constraints, free.size
    constraints, jacobian = partial(theirs.constraints, free), partial(theirs.jacobian, free)
    return {
        "constraints": Callback(constraints, constraints, lambda: ours["constraints"]()[rows]),
        "jacobian": Callback(
            jacobian,
            lambda: coo_array((jacobian(), places), shape=shape).tocsr(),
            lambda: ours["jacobian"]()[rows] @ matrix,
        ),
    }


def opty_statement(problem: ks.Collocation) -> dict[str, Any]:
    """All of a problem but its objective, as arguments of opty's."""
    model, layout, (low, high) = problem.model, problem.layout, problem.variable_bounds
    nodes, equations = layout.nodes[0], flat_equations(model)
    grid, free = problem.trials[0].grid, layout.free_duration
    step = sp.Symbol("step") if free else float(grid[1] - grid[0])
    ends = {ks.at_start: 0 * step, ks.at_end: (nodes - 1) * step}
    bounds = {symbol: (low[row[0]], high[row[0]]) for symbol, _, row in named_rows(problem)}
    for k, name in enumerate(layout.parameters, layout.parameter_offset):
        bounds[plain(name)] = low[k], high[k]
    if free:
        bounds[step] = low[-1] / (nodes - 1), high[-1] / (nodes - 1)
    stacked, states, numbers, courses, conditions = [], [], {}, {}, []
    for k, (trial, known) in enumerate(zip(problem.trials, problem.problem.known, strict=True)):
        new = renamed(problem, k)
        stacked += list(equations.xreplace(new))
        states += [new[x] for x in model.states]
        used = [p for p in model.parameters if equations.has(p) and p.name in known]
        numbers |= {new[p]: known[p.name] for p in used}
        inputs = {u: name_of(u) for u in model.inputs if name_of(u) not in layout.inputs}
        courses |= {new[u]: trial.inputs[name] for u, name in inputs.items()}
        values = {p: known[p.name] for p in model.parameters if p.name in known}
        for condition in problem.symbolic.boundary:
            points = condition.atoms(*ends)
            at = {point: new[point.args[0]].func(ends[type(point)]) for point in points}
            conditions.append(
                condition.xreplace(at).xreplace({**values, **new, sp.pi: sp.pi.evalf(17)})
            )
    return {
        "equations_of_motion": sp.Matrix(stacked),
        "state_symbols": states,
        "num_collocation_nodes": nodes,
        "node_time_interval": step,
        "known_parameter_map": numbers,
        "known_trajectory_map": courses,
        "instance_constraints": tuple(conditions) or None,
        "bounds": bounds,
        "time_symbol": ks.t,
        "integration_method": OPTY_SCHEMES[problem.symbolic.scheme.alias],
    }
