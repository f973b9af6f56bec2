"""Case deletion: the estimates without some samples, to first order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinesym.internal.fitting.curvature import Curvature
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.leaving_out import part_of
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Solved
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.samples import number_of_samples
from kinesym.runtime.results.bootstrap import Record, remeasured
from kinesym.runtime.results.inference import Left
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.statistics.undetermined import solver


@dataclass(frozen=True, eq=False)
class CaseDeletion:
    """A problem without some samples, at the solution of the whole problem. A trial of which
    nothing is left is no part of it.

    here : its curvature there, of Gauss and Newton: multipliers are those of samples that are
    missing, too, and the exact curvature with them leads farther astray, or is not positive.
    start : that solution, with its multipliers. pull : gradient (n,) by which the samples that are
    missing held it. held : that by which its bounds hold it. parameters : numbers of its parameters
    among all, of which there are `count`.
    """

    here: Curvature
    start: Solution
    pull: Array
    held: Array
    parameters: NDArray[np.intp]
    count: int

    def step(self) -> Array:
        """Gauss-Newton step (n,) to its minimum, exact where the model is linear."""
        sides = np.zeros((len(self.here.kkt.softness), 1))
        return solver(self.here.kkt).solve(self.pull[:, None], sides)[:, 0]

    def more(self, z: Array) -> Array:
        """Distance (n,) by which another Gauss-Newton step, or bounds, would move a place that
        should be near its minimum; infinite where there is none."""
        problem, solution = self.here.problem, self.here.solution
        with np.errstate(all="ignore"):
            off = problem.constraints(self.here.z) - problem.constraints(z)
            pull = self.held - problem.cost_gradient(z)
            if np.isfinite(off).all() and np.isfinite(pull).all():
                there = replace(solution, free_vector=z, objective=problem.nlp.cost(z))
                kkt = Curvature.at(problem, there, self.here.kkt.workspace).kkt
                with suppress(ValueError):  # singular
                    step = np.abs(solver(kkt).solve(pull[:, None], off[:, None])[:, 0])
                    return np.maximum(step, np.abs(z - np.clip(z, *problem.variable_bounds)))
        return np.full(len(z), np.inf)

    def at(self, found: Solved) -> Curvature:
        """Curvature at its minimum."""
        multipliers, lower, upper = found.multipliers
        solution = replace(
            self.here.solution,
            free_vector=found.z,
            objective=found.objective,
            multipliers=multipliers,
            lower_multipliers=lower,
            upper_multipliers=upper,
        )
        return Curvature.at(self.here.problem, solution)

    def estimates(self, here: Curvature, J: float, z: Array, more: Array) -> Left:
        """Estimates at z, where the objective is J, with their covariance by a curvature. more :
        how far another step would move z (n,)."""
        problem, layout = here.problem, here.problem.layout
        if here.estimation.pooled:
            samples, taken = number_of_samples(problem.about, problem.trials), here.directions
            noise = [] if taken is None else here.estimation.pooled_noise(J, samples, taken)
            here = replace(here, solution=replace(here.solution, noise=noise))
        found = here.confidence().covariance
        mine = np.array(layout.parameter_values(layout.natural(z)))
        mine[np.isnan(np.diag(found))] = np.nan
        values, further = np.full((2, self.count), np.nan)
        covariance = np.full((self.count, self.count), np.nan)
        values[self.parameters] = mine
        further[self.parameters] = layout.parameter_values(more) * layout.parameter_slopes(z)
        covariance[np.ix_(self.parameters, self.parameters)] = found
        return Left(values, covariance, further)


def lacking(whole: Curvature, record: Record) -> CaseDeletion:
    """The problem of other measurements, at the solution of the whole one. Raises `ValueError` if
    no sample is left, or no trial of linked ones."""
    problem, z = whole.problem, whole.z
    trials = remeasured(problem.trials, record)
    measured = (t.measured.values() for t in trials)
    kept = [k for k, own in enumerate(measured) if any(np.isfinite(y).any() for y in own)]
    if not kept:
        raise ValueError("nothing that is measured is left")
    left = problem.on(trials)
    if len(kept) < len(trials) and not (problem.symbolic.links or problem.symbolic.cycle):
        left = part_of(left, kept)
    else:
        kept = list(range(len(trials)))
    variables, rows = _places(problem.layout, left.layout, kept)
    s = whole.solution
    there = replace(
        s,
        free_vector=z[variables],
        multipliers=s.multipliers[rows],
        lower_multipliers=s.lower_multipliers[variables],
        upper_multipliers=s.upper_multipliers[variables],
        trials=[s.trials[k] for k in kept],
        objective=left.cost(z[variables]),
    )
    before = _slope(problem, z, s.multipliers)[variables]
    pull = before - _slope(left, there.free_vector, there.multipliers)
    begin, end = left.layout.parameter_offset, left.layout.duration_offset
    parameters = variables[begin:end] - problem.layout.parameter_offset
    count = len(problem.layout.parameters)
    bare = replace(there, multipliers=np.zeros_like(there.multipliers))
    here = Curvature.at(left, bare, whole.kkt.workspace)  # whose analysis serves if it fits
    gone = before - left.cost_gradient(there.free_vector)
    return CaseDeletion(replace(here, gone=gone), there, pull, before, parameters, count)


def _slope(problem: Discretisation, z: Array, multipliers: Array) -> Array:
    """Gradient (n,) of the Lagrangian without bounds."""
    return problem.cost_gradient(z) + problem.constraint_jacobian(z).T @ multipliers


def _places(
    old: Layout, new: Layout, kept: Sequence[int]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers of the variables, and of the constraints, of some trials among those of all."""
    variables = np.empty(new.n_variables, dtype=np.intp)
    rows = [np.zeros(0, dtype=np.intp)]
    begins = [old.constraint_offsets[k, "interval"] for k in range(len(old.nodes))]
    ends = [*begins[1:], old.delay_offset]
    for j, k in enumerate(kept):
        variables[slice(*new.offsets[j : j + 2])] = np.arange(*old.offsets[k : k + 2])
        own = new.parameter_offset + new.owned.places(j)
        variables[own] = old.parameter_offset + old.owned.places(k)
        if new.free_duration:
            variables[new.duration_offset + j] = old.duration_offset + k
        rows.append(np.arange(begins[k], ends[k]))
    delayed = np.searchsorted(old.delayed_entries, variables[new.delayed_entries])
    return variables, np.concatenate([*rows, old.delay_offset + delayed])
