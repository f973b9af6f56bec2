"""Motions that meet the equations and conditions of a problem near given trajectories."""

from __future__ import annotations

import numpy as np

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.arrays import Array
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.bounds import entries_of
from kinesym.runtime.statistics.covariance import sizes
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.undetermined import solver

#: Steps to a motion that meets the equations, at most; from a simulation one or two suffice.
_STEPS = 30
#: Length of a step, in the sizes of the motion, after which the next one is below rounding: steps
#: of Newton's method are squared.
_SMALL = 1e-4
#: Weight of what is held of a motion, over that of the rest.
_FIRM = 1e8
#: Share of the largest size of the motion up to which a trajectory is rounding.
_ROUNDING = 1e-12


def drawn_noise(problem: Discretisation, rng: np.random.Generator) -> Array:
    """Process noise of unit intensity, white and held between nodes, drawn at its places in the
    free vector, and NaN elsewhere (n,)."""
    layout, found = problem.layout, np.full(problem.n_variables, np.nan)
    for k, trial in enumerate(problem.trials):
        steps = np.diff(trial.grid)
        for name in problem.formulation.noises:
            begin = layout.offsets[k] + layout.at_nodes.index(name) * trial.n_nodes
            found[begin : begin + len(steps)] = rng.standard_normal(len(steps)) / np.sqrt(steps)
    return found


def motion_near(
    problem: Discretisation, z: Array, noise: Array | None = None, held: bool = False
) -> Array:
    """The free vector of a motion that meets the equations and conditions, with the parameters of
    z, by steps that are least in the sizes of the motion (Gauss-Newton with least norm).

    noise : process noise at its places (n,), NaN elsewhere, that drives it. held : whether it is
    that from the starts of z under its inputs, as far as conditions let it; else, as of an unstable
    plant whose motion is known, as near z at the nodes as it can be on the whole. Raises
    `ValueError` where there is none near z.
    """
    layout, (low, high) = problem.layout, problem.constraint_bounds
    size = _sizes_of_motion(problem, z)
    stiffness = motion_stiffness(problem, z, held)
    if noise is not None:
        driven = ~np.isnan(noise)
        z = np.where(driven, noise, z)
        stiffness[driven] = np.inf
    softness = np.where(low == high, 0.0, np.inf)
    i, j = problem.nlp.hessian_structure.arrays()
    hessian, rows = (i, j, np.zeros(len(i))), problem.nlp.jacobian_structure.arrays()
    free = np.isfinite(stiffness)
    workspace = Workspace()
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            off = np.where(low == high, problem.constraints(z) - low, 0.0)
            jacobian = (*rows, problem.nlp.jacobian(z))
            if not (np.isfinite(off).all() and np.isfinite(jacobian[2]).all()):
                break
            about = (stiffness, softness, layout.stages())
            kkt = Kkt(hessian, jacobian, *about, workspace=workspace)
            step = solver(kkt).solve(np.zeros((len(z), 1)), -off[:, None])[:, 0]
            z = z + step
            if (np.abs(step) / size)[free].max(initial=0.0) <= _SMALL:
                return z
    raise ValueError(
        "no motion that meets the equations and conditions is near the guess; give trajectories of "
        "the states in it, as of ks.simulate"
    )


def _sizes_of_motion(problem: Discretisation, z: Array) -> Array:
    """Sizes (n,) of the entries of a motion, none of them zero."""
    layout, size = problem.layout, sizes(problem.nlp, z)
    alone = {*layout.states} - {*layout.at_nodes}  # without a rate: they follow from the others,
    follows = entries_of(layout, [alone] * len(problem.trials))  # and may be nearly zero here
    size[follows] = size.max(initial=1.0)
    size[size <= _ROUNDING * size.max(initial=0.0)] = 1.0
    return size


def motion_stiffness(problem: Discretisation, z: Array, held: bool) -> Array:
    """Weights (n,) of squares of the steps to a motion, see `motion_near`: infinite for what does
    not move."""
    with np.errstate(divide="ignore"):
        return sizes_that_move(problem, z) ** -2.0 * _firm(problem, held)


def sizes_that_move(problem: Discretisation, z: Array) -> Array:
    """Sizes (n,) of the entries of a motion, zero for what does not move: the parameters and
    whatever is fixed."""
    size, (lower, upper) = _sizes_of_motion(problem, z), problem.variable_bounds
    size[problem.layout.parameter_offset :] = 0.0
    size[lower == upper] = 0.0
    size[[end.place for end in problem.ends.values() if not end.determined]] = 0.0
    return size


def _firm(problem: Discretisation, held: bool) -> Array:
    """Weights (n,) by which unknown inputs and starts, or else all nodes, stay where they are. A
    motion follows from starts, of phases that are linked from that of the first one; what a guess
    is between nodes is interpolated."""
    layout, found = problem.layout, np.ones(problem.n_variables)
    linked = bool(problem.symbolic.links)
    inputs = {*layout.inputs} - {*layout.delayed}
    for k in range(len(layout.nodes)):
        for name, place, row in layout.named_rows(found, k):
            if name in inputs or (place is None and name in layout.states and not held):
                row[:] = _FIRM
            elif place is None and name in layout.states and not (linked and k):
                row[0] = _FIRM
    return found
