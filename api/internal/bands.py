"""Bands of the trajectories at a solution of collocation."""

from __future__ import annotations

import numpy as np

from kinesym.codegen.transcribe import output_slopes
from kinesym.internal.pipeline import realise
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.slopes import course_slopes, slopes_of_outputs
from kinesym.runtime.results.bands import Band, Bands
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.variances import variances
from kinesym.symbolic.problem import Problem


def slopes_library(problem: Problem) -> Built | None:
    """The library of the derivatives of outputs, None if they depend on nothing unknown."""
    if not problem.model.outputs:
        return None
    program = output_slopes(problem)
    return realise(program) if program.kernels else None


def found_bands(nlp: NLP, kkt: Kkt, solution: Solution, library: Built | None) -> Bands:
    """Of all trials; kkt : the matrix there. library : of `slopes_library`.

    Raises `ValueError` if the curvature is not positive.
    """
    z = solution.free_vector
    slopes = [course_slopes(nlp, k) for k in range(len(solution.trials))]
    for k, mine in enumerate(slopes):
        if library is not None:
            mine |= slopes_of_outputs(nlp, library, z, k)
    found = iter(variances(kkt, [matrix for mine in slopes for matrix in mine.values()]))
    trials = []
    for run, mine in zip(solution.trials, slopes, strict=True):
        fixed = {name: np.zeros(len(run.time)) for name in run.outputs}
        spread = fixed | {name: np.sqrt(next(found)) for name in mine}
        names = [name for name in run if name in spread]
        trials.append(
            Band(
                time=run.time,
                mean={name: run[name] for name in names},
                deviation={n: np.where(np.isnan(run[n]), np.nan, spread[n]) for n in names},
                measurements={n: run.measurements[n] for n in names if n in run.measurements},
                samples=run.samples,
            )
        )
    return Bands(trials=trials, model=solution.model)
