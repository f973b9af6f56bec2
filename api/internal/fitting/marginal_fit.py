"""Marginal likelihood of fits with process noise or random effects, and its maximum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from kinesym.internal.fitting.curvature import converged, interior, own_priors, prior_squares
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.marginal import Marginal
from kinesym.internal.fitting.marginal_laplace import (
    check_terms,
    heights,
    priors_of_inputs,
    volume,
)
from kinesym.internal.fitting.solution_grid import on_grid_of
from kinesym.internal.problems.random_effects import numbers_of
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.progress import Iteration
from kinesym.runtime.results.likelihood import POSTERIOR, Likelihood
from kinesym.runtime.results.solution import Solution


def log_likelihood(problem: Discretisation, solution: Solution) -> float:
    """log of the marginal likelihood of a solution; see `Collocation.log_likelihood`."""
    there, known = converged(problem, solution, "likelihood")
    check_terms(problem.symbolic)
    some, prior = there.population, priors_of_inputs(problem.symbolic)
    height = some.heights(some.entries(numbers_of(there.priors)))
    height += heights(there.nlp, there.trials, prior, [run.parameters for run in known.trials])
    seen = _seen(on_grid_of(problem, solution), known.free_vector)
    found = volume(there.layout, prior.keys(), some.random, interior(there, known), seen)
    samples = known.objective - prior_squares(there, known.free_vector)
    return found.value - 0.5 * (samples + height)


def marginal(
    problem: Discretisation,
    std: Mapping[str, float],
    limits: tuple[Array, Array],
    chosen: SolverOptions,
    report: Callable[[Iteration], None],
) -> Marginal:
    """The likelihood with process noise or random effects as a function of parameters; std : a
    guess. limits : of what is unknown of distributions."""
    check_terms(problem.symbolic)
    trials = [trial.with_std(std) for trial in problem.trials] if std else problem.trials
    return Marginal(
        symbolic=problem.symbolic,
        nlp=problem.nlp_of(problem.libraries.exact, trials) if std else problem.nlp,
        problem=problem.ipopt(problem.nlp),
        trials=problem.trials,
        groups=list(std),
        on=problem.nlp_with,
        population=problem.population,
        limits=limits,
        seen=lambda z: _seen(problem, z),
        intensities=problem.formulation.intensities,
        idle=[end.place for end in problem.ends.values() if not end.determined],
        chosen=chosen,
        report=report,
    )


def of_samples(problem: Discretisation, whole: Likelihood, z: Array) -> Likelihood:
    """Likelihood of the samples, from one times the density of priors at z."""
    if not own_priors(problem):
        return whole
    value = whole.log_likelihood + 0.5 * prior_squares(problem, z)
    return replace(whole, log_likelihood=value, kind=POSTERIOR)


def standard_errors(problem: Discretisation, z: Array, known: Solution | None) -> Array:
    """Standard errors of the parameters in z, (r,), NaN where not known."""
    found = dict[str, float]()
    for about in known.uncertainty if known is not None else ():
        found |= zip(about.names, about.deviations().tolist(), strict=True)
    names, layout = problem.layout.parameters, problem.layout
    return np.array([found.get(n, np.nan) for n in names]) / layout.parameter_slopes(z)


def _seen(problem: Discretisation, z: Array) -> Array:
    """The Hessian of the first samples, by which the start is measured; see `log_volume`."""
    return problem.first_samples.hessian(z, np.zeros(problem.n_constraints), 1.0)
