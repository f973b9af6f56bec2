"""Kinks of Laplace's priors: a fit is smooth where parameters stay on one side of each.

A kink in the way of a parameter is a bound of either side. An estimate at a kink is exactly there,
and its multiplier is that of the bound.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.absolute import NO_TERMS, Terms
from kinesym.runtime.results.solution import Solution

#: Distance from a kink at which a parameter is there, in scales of the prior.
_NEAR = 1e-6


def terms_of_priors(problem: Discretisation) -> Terms:
    """Parameters less the locations of their priors, over the scales, whose absolute values the
    objective has twice."""
    layout, priors = problem.layout, problem.known_priors
    mine = priors.kinks
    if not len(mine):
        return NO_TERMS
    places, rows = layout.parameter_offset + priors.places[mine], np.arange(len(mine))
    factor = problem.estimation.factor or 1.0

    def values(z: Array) -> Array:
        return priors.off(layout.owned.natural(layout.parameter_values(z)))[mine]

    def slopes(z: Array) -> csr_array:
        by = priors.slopes_of_off(layout.owned.natural(layout.parameter_values(z)))[mine]
        by = by * layout.owned.slopes(layout.parameter_values(z))[priors.places[mine]]
        return csr_array((by, (rows, places)), shape=(len(mine), len(z)))

    return Terms(np.full(len(mine), 2.0 * factor), (rows, places), values, slopes)


def resting(
    problem: Discretisation, z: Array, bounds: tuple[Array, Array]
) -> tuple[Array, tuple[Array, Array]]:
    """z with parameters exactly at the kinks that they are near, and bounds that keep them."""
    near = np.abs(terms_of_priors(problem).values(z)) <= _NEAR
    priors, offset = problem.known_priors, problem.layout.parameter_offset
    mine = priors.places[priors.kinks[near]]
    places, (low, high) = offset + mine, (side.copy() for side in bounds)
    z = z.copy()
    z[places] = low[places] = high[places] = problem.kinks[mine]
    return z, (low, high)


def on_its_sides(problem: Discretisation, solution: Solution) -> tuple[Discretisation, Solution]:
    """The problem on the sides of the kinks where a solution is, and the solution of that, whose
    multipliers are those of bounds there, too; themselves without kinks."""
    kinks = problem.kinks
    if np.isnan(kinks).all():
        return problem, solution
    mine, z = problem.layout.parameter_values(solution.free_vector), solution.free_vector
    sides: Array = np.where(np.isnan(kinks), 0.0, np.where(mine >= kinks, 1.0, -1.0))
    there = problem.on_sides(sides)
    pull = _pull(there, z, solution)
    low, high = solution.lower_multipliers.copy(), solution.upper_multipliers.copy()
    at: NDArray[np.intp] = np.flatnonzero(mine == kinks)
    places = problem.layout.parameter_offset + at
    low[places], high[places] = np.maximum(pull[places], 0.0), 0.0
    return there, replace(solution, lower_multipliers=low, upper_multipliers=high)


def _pull(problem: Discretisation, z: Array, solution: Solution) -> Array:
    """Gradient of the Lagrangian without bounds (n,)."""
    by = csr_array(problem.constraint_jacobian(z))
    return np.asarray(problem.nlp.gradient(z) + by.T @ solution.multipliers)
