"""Trajectories of a solution of collocation, with NaN for entries that nothing determines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.algebraic import algebraic_at_nodes
from kinesym.runtime.nlp.bounds import HeldEnd
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.point import PointFunctions
from kinesym.runtime.nlp.timed import compared
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.summary import listed
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem, algebraic_states


def found_trajectory(
    problem: Problem,
    nlp: NLP,
    functions: PointFunctions,
    trial: Experiment,
    number: int,
    z: Array,
    parameters: Mapping[str, float],
) -> Trajectory:
    """A trial of a solution z, in which NaN marks what is not determined; parameters : all of the
    model. Algebraic states at nodes agree with the equations (index 1)."""
    layout, model = nlp.layout, problem.model
    courses = layout.courses(z, number, nlp.about.stages, nlp.about.to_ends)
    courses = {name: row.copy() for name, row in courses.items()}
    outputs = nlp.outputs(z, number)
    if problem.solved or (problem.staged and model.index.value == 1):
        found = {**courses, **outputs}
        made = algebraic_at_nodes(nlp, functions, trial, number, z, found)
        courses |= {x: made[x] for x in layout.states}
        outputs |= {name: made[name] for name in functions.about.outputs}
    own = {name: outputs[std] for name, std in trial.std_outputs.items()}
    late = [] if nlp.lags is None else [*layout.delayed, *nlp.lags.courses]
    outputs |= {name: courses[name] for name in late}
    given = [name for name in layout.inputs if name not in late]
    return Trajectory(
        time=layout.time(z, number).copy(),
        states={name: courses[name] for name in layout.states},
        inputs={**trial.inputs, **{name: courses[name] for name in given}},
        outputs=outputs,
        parameters=parameters,
        model=model.name,
        measurements={n: y for n, y in trial.measurements.items() if n not in problem.slots},
        std={name: s for name, s in {**trial.std, **own}.items() if name not in problem.slots},
        drawing=model.drawing,
        units=model.units,
        limits={channel: side for channel, (_, side) in trial.limits.items()},
        samples=compared(nlp, trial, number, z),
    )


@dataclass(frozen=True, eq=False)
class Open:
    """Mask of the entries of z that nothing determines, which are not to be shown, and sentences on
    them."""

    hidden: NDArray[np.bool_]
    notes: Sequence[str] = ()


def idle(
    layout: Layout, ends: Mapping[tuple[int, str], HeldEnd], own: Collection[str] = ()
) -> Open:
    """Marks held inputs at the last node, which no interval uses, at any iterate; own : names of
    inputs that the user did not ask for, of which no sentence is made."""
    hidden = np.zeros(layout.n_variables, dtype=bool)
    hidden[[end.place for end in ends.values() if not end.determined]] = True
    names = list(dict.fromkeys(name for (_, name), end in ends.items() if not end.determined))
    names = [name for name in names if name not in own]
    if not names:
        return Open(hidden)
    acts = "is NaN at the last node: an input that is held acts"
    act = "are NaN at the last node: inputs that are held act"
    return Open(hidden, [f"{listed(names)} {act if len(names) > 1 else acts} on nothing there"])


def undetermined(problem: Problem, layout: Layout, kkt: Kkt) -> Open:
    """Marks entries of a solution that lie in the null space of its singular KKT matrix.

    Algebraic states are hidden, in a fit inputs, too. Not hidden are states with a rate, which only
    together are a motion, and inputs of an optimal one, which are as good as any others.
    """
    null = kkt.scaled.null()
    mine, hidden = null[: layout.n_variables], np.zeros(layout.n_variables, dtype=bool)
    kept = {name_of(x) for x in problem.model.states} - set(
        map(name_of, algebraic_states(problem.model))
    )
    kept |= set() if problem.objective.least_squares else set(layout.inputs)
    moving: dict[str, bool] = {}
    for trial in range(len(layout.nodes)):
        pairs = zip(layout.rows(mine, trial), layout.rows(hidden, trial), strict=True)
        for (block, rows), (_, shown) in pairs:
            for name, row, hide in zip(block.members, rows, shown, strict=True):
                if row.any():
                    moving[name] = name not in kept
                    hide[:] = row & moving[name]
    parameters = mine[layout.parameter_offset : layout.duration_offset]
    moving |= {p: False for p, moves in zip(layout.parameters, parameters, strict=True) if moves}
    notes = [
        f"{listed(names)}{' (shown as NaN)' * nan}: not determined by equations, conditions and "
        "objective"
        for nan in (True, False)
        if (names := [name for name, hide in moving.items() if hide == nan])
    ]
    labels = _labels(layout, null[layout.n_variables :])
    if labels:
        notes.append(f"{listed(labels)}: not independent, their multipliers are not determined")
    return Open(hidden, notes)


def _labels(layout: Layout, rows: NDArray[np.bool_]) -> list[str]:
    """Names of constraints marked in `rows` (m,), without repeats."""
    every = layout.constraint_rows()
    return list(dict.fromkeys(label.name for _, _, label, here in every if rows[here].any()))
