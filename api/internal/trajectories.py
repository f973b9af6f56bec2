"""Trajectories of a solution of collocation, and what of them nothing determines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.algebraic import algebraic_at_nodes
from kinesym.runtime.nlp.collocation import HeldEnd
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.point import PointFunctions
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.summary import listed
from kinesym.symbolic.problem import Problem


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
    if problem.staged and model.index.value == 1:
        found = {**courses, **outputs}
        made = algebraic_at_nodes(nlp, functions, trial, number, z, found)
        courses |= {x: made[x] for x in layout.states}
        outputs |= {name: made[name] for name in functions.about.outputs}
    return Trajectory(
        time=layout.time(z, number).copy(),
        states={name: courses[name] for name in layout.states},
        inputs={**trial.inputs, **{name: courses[name] for name in layout.inputs}},
        outputs=outputs,
        parameters=parameters,
        model=model.name,
        measurements=dict(trial.measurements),
        std=dict(trial.std),
        drawing=model.drawing,
    )


def without_idle(z: Array, ends: Iterable[HeldEnd]) -> Array:
    """z with NaN for held inputs at last nodes, where nothing determines them."""
    z = z.copy()
    z[[end.place for end in ends if not end.determined]] = np.nan
    return z


def notes_of_idle(ends: Mapping[tuple[int, str], HeldEnd]) -> list[str]:
    """A sentence on these."""
    names = dict.fromkeys(name for (_, name), end in ends.items() if not end.determined)
    if not names:
        return []
    one = len(names) == 1
    return [
        f"{listed(names)} {'is' if one else 'are'} NaN at the last node: "
        f"{'an input that is' if one else 'inputs that are'} held act{'s' * one} on nothing there"
    ]
