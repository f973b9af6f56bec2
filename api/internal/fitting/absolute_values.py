"""Absolute values in the objective of a fit: errors with the density of Laplace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, diags_array

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.kinks import resting, terms_of_priors
from kinesym.internal.fitting.libraries import Libraries
from kinesym.internal.problems.formulation import formulate
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import first_std
from kinesym.runtime.ipopt.absolute import NO_TERMS, Terms, solve_absolute
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved, Start
from kinesym.runtime.ipopt.solve import SolverOptions, continued, solve
from kinesym.runtime.progress import Iteration


def solved_as(
    problem: Discretisation,
    asked: IpoptProblem,
    start: Start,
    chosen: SolverOptions,
    report: Callable[[Iteration], None],
) -> Solved:
    """Solve a problem as IPOPT was asked, with the parts of the absolute values in its objective.
    Parameters that end at the kinks of their priors are exactly there."""
    terms = absolute_terms(problem)
    if not len(terms.weights):
        return solve(asked, start, chosen, report)
    found = solve_absolute(asked, terms, start, chosen, report)
    z, bounds = resting(problem, found.z, asked.bounds)
    if not found.status.success or np.array_equal(bounds[0], asked.bounds[0]):
        return found
    asked = replace(asked, bounds=bounds)
    there = solve_absolute(asked, terms, Start(z), chosen, report)
    return continued(found, there) if there.status.success else found


def squared(problem: Discretisation) -> Discretisation:
    """The same problem with squares in place of the loss, and first standard deviations: a fit of
    normal errors, where one with absolute values begins, since these have more minima."""
    asked = problem.formulation.question
    assert asked.objective is not None
    question = replace(asked, objective=replace(asked.objective, loss=None))
    made, _ = formulate(question)
    found = replace(problem, formulation=made, libraries=Libraries(made.symbolic), start=None)
    return found.with_std(first_std(problem.trials))


def absolute_terms(problem: Discretisation) -> Terms:
    """Absolute values in the objective: of residuals, and of parameters in their priors."""
    return terms_of_noise(problem).joined(terms_of_priors(problem))


def terms_of_noise(problem: Discretisation) -> Terms:
    """Residuals of the samples, whose absolute values the objective has twice if errors are those
    of Laplace, and their total derivatives; where a standard deviation is an expression they follow
    from both scores."""
    if not problem.estimation.kinked:
        return NO_TERMS
    nlp, factor = problem.residual_nlp, problem.estimation.factor
    samples = nlp.samples
    off, log = samples.pairs
    mine = np.isfinite(samples.time)
    mine[log] = False
    root, there = np.sqrt(samples.share), np.flatnonzero(mine)
    paired = np.full(len(mine), -1, dtype=np.intp)
    paired[off] = log
    which = paired[there] >= 0
    logs = np.where(which, paired[there], there)

    def values(z: Array) -> Array:
        """Residuals, from scores sign(e) and 1 - |e| of those that have them."""
        rows = nlp.residuals(z) / root
        e = rows[there]
        return np.where(which, np.sign(e) * (1.0 - rows[logs]), e)

    def slopes(z: Array) -> csr_array:
        """d e, of d mean/std and d log std."""
        rows = csr_array(nlp.residual_jacobian(z))
        found = rows[there]
        if which.any():
            pull = np.where(which, values(z), 0.0)
            found = found - diags_array(pull) @ rows[logs]
        return csr_array(diags_array(1.0 / root[there]) @ found)

    made = nlp.residual_pattern
    places = (made[there] + diags_array(which.astype(np.float64)) @ made[logs]).nonzero()
    return Terms(2.0 * factor * samples.share[there], places, values, slopes)
