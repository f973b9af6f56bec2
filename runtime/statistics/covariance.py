"""Covariance of identified parameters: from a KKT matrix, or from derivatives of residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, tril
from scipy.sparse.linalg import splu
from scipy.special import erfcx

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.statistics.active import Limits
from kinesym.runtime.statistics.factors import Entries
from kinesym.runtime.statistics.identifiability import exchanges, identifiability
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.undetermined import Spreads, clear_signs, spreads
from kinesym.runtime.summary import listed

#: Share of the distance between two bounds up to which a value counts as near one of them.
_NEAR = 1e-2
#: IPOPT widens bounds by this share of their size (at least of 1).
_WIDENED = 1e-8
#: How many times farther than the bound the minimum without it must be.
_BEYOND = 10.0
#: Least size of a variable, as a share of its size in the scaled matrix; smaller values are zero.
_SEEN = 1e-3
#: Variance over the square of a value from which a parameter is not clear, however rough both are.
_UNCLEAR = 100.0
#: Standard errors from a bound to the minimum without it from which the density at the bound is
#: exponential.
_FAR = 1e3
#: Relative error of a curvature up to which the matrix confirms it.
_CONFIRMED = 1e-3


def stiffness_of_bounds(
    x: Array, bounds: tuple[Array, Array], push: tuple[Array, Array], widened: float = 0.0
) -> Array:
    """Stiffness of bounds: their contribution to the curvature of J, (n,), push / distance, as in
    interior-point methods.

    push : how strongly J presses x (n,) against the lower and the upper bounds [J per unit of x]:
    multipliers, or the part of the gradient that points that way. Zero away from bounds, infinite
    if they are equal or met. Sizes of x do not enter, only distances and, if both bounds are
    finite, widths.
    """
    low, high = bounds
    total = np.zeros(len(x))
    for bound, distance, force in ((low, x - low, push[0]), (high, high - x, push[1])):
        reach = widened * np.maximum(1.0, np.abs(bound)) if widened else 0.0
        slack = np.maximum(distance + reach, 0.0)
        here = (force > 0.0) & (slack <= _NEAR * (high - low))
        with np.errstate(divide="ignore", over="ignore"):
            total[here] += force[here] / slack[here]
    total[low == high] = np.inf
    return total


def at_bounds(stiffness: Array, curvature: Array) -> NDArray[np.bool_]:
    """Active bounds of unknowns, (n,) booleans: without the bound the minimum would be far beyond.
    stiffness : of `stiffness_of_bounds`. curvature : of J without bounds, (n,)."""
    return np.asarray((stiffness > 0.0) & (stiffness > _BEYOND * curvature))


def slack_stiffness(
    force: Array, width: Array, curvature: Array, variance: float
) -> NDArray[np.float64]:
    """Stiffness S, (k,), with which unknowns at an active bound have the spread that the samples
    leave them on its inner side, instead of none: others vary with them as far as that.

    force : with which J presses them against the bound, (k,), positive. width : to the other bound.
    curvature : of J in each, all but the active ones free to follow, (k,). variance : of residuals
    in units of J. The likelihood exp(-J/(2 variance)) of the distance d from the bound is a
    truncated normal density, exp(-r d - p d^2/2) on d >= 0 (Johnson, Kotz, Balakrishnan 1994,
    Continuous Univariate Distributions 1, section 10.1). Its mean square, 2 variance/(curvature +
    S), is the variance without the bound where nothing presses, and 2/r^2 under a large force; it
    is at most that of a uniform density.
    """
    p, r = np.maximum(curvature, 0.0) / (2.0 * variance), force / (2.0 * variance)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        a = np.minimum(r / np.sqrt(p), _FAR)
        bare = 1.0 + a**2 - a * np.sqrt(2.0 / np.pi) / erfcx(a / np.sqrt(2.0))
        square = np.minimum(np.where(a < _FAR, bare / p, 2.0 / r**2), width**2 / 3.0)
        return np.asarray(np.maximum(2.0 * variance / square - curvature, 0.0))


def slackened(
    kkt: Kkt, held: NDArray[np.intp], bounds: tuple[Array, Array], force: Array, variance: float
) -> Kkt:
    """KKT matrix, that is regular, in which variables `held` at active bounds, which are fixed, get
    the spread of `slack_stiffness`; bounds, force : of all variables, (n,)."""
    columns, n, (low, high) = kkt.columns(held), len(kkt.stiffness), bounds
    follow = kkt.factorised().solve_all(-columns[:n], -columns[n:])
    curvature = columns[held, np.arange(len(held))] + (columns * follow).sum(axis=0)
    stiffness, force, width = kkt.stiffness.copy(), np.abs(force[held]), (high - low)[held]
    stiffness[held] = slack_stiffness(force, width, curvature, variance)
    return replace(kkt, stiffness=stiffness)


def downhill(gradient: Array) -> tuple[Array, Array]:
    """Forces of J against lower and upper bounds, from its gradient (n,); not negative."""
    return np.maximum(gradient, 0.0), np.maximum(-gradient, 0.0)


def kkt_at(
    nlp: NLP,
    z: Array,
    multipliers: tuple[Array, Array, Array],
    bounds: tuple[Array, Array],
    constraint_bounds: tuple[Array, Array],
    idle: Sequence[int] = (),
    fitted: bool = False,
    workspace: Workspace | None = None,
) -> Kkt:
    """KKT matrix at a solution, in which bounds and inequalities are as stiff as their multipliers
    say, as in an interior-point method; see `kinesym.runtime.statistics.active`.

    multipliers : of constraints, lower and upper bounds. idle : undetermined variables, which are
    fixed. fitted, workspace : see `Kkt`.
    """
    hessian = (*nlp.hessian_structure.arrays(), nlp.hessian(z, multipliers[0], 1.0))
    jacobian = (*nlp.jacobian_structure.arrays(), nlp.jacobian(z))
    stiffness, softness = diagonals(nlp, z, multipliers, bounds, constraint_bounds, idle)
    stages, known = nlp.layout.stages(), _known_sizes(nlp, z)
    return Kkt(
        hessian, jacobian, stiffness, softness, stages, known, fitted, workspace or Workspace()
    )


def diagonals(
    nlp: NLP,
    z: Array,
    multipliers: tuple[Array, Array, Array],
    bounds: tuple[Array, Array],
    constraint_bounds: tuple[Array, Array],
    idle: Sequence[int] = (),
) -> tuple[Array, Array]:
    """Stiffness of variables (n,) and softness of constraints (m,) of the matrix of `kkt_at`."""
    stiffness = stiffness_of_bounds(z, bounds, multipliers[1:], _WIDENED)
    stiffness[list(idle)] = np.inf
    of_rows = stiffness_of_bounds(
        nlp.constraints(z), constraint_bounds, downhill(-multipliers[0]), _WIDENED
    )
    with np.errstate(divide="ignore"):
        return stiffness, 1.0 / of_rows


def limits_at(
    nlp: NLP,
    z: Array,
    multipliers: tuple[Array, Array, Array],
    bounds: tuple[Array, Array],
    constraint_bounds: tuple[Array, Array],
) -> Limits:
    """Distances of a solution from its bounds and inequalities, and the forces against them."""
    every, pushed = np.append(z, nlp.constraints(z)), downhill(-multipliers[0])
    low, high = (np.append(*each) for each in zip(bounds, constraint_bounds, strict=True))
    down, up = (np.append(*each) for each in zip(multipliers[1:], pushed, strict=True))
    return Limits(np.maximum(every - low, 0.0), np.maximum(high - every, 0.0), down, up)


def _known_sizes(nlp: NLP, z: Array) -> Array:
    """Sizes of variables as in `sizes`, zero (unknown) for algebraic states, which may be
    undetermined."""
    size = sizes(nlp, z)
    for trial in range(len(nlp.layout.nodes)):
        for block, rows in nlp.layout.rows(size, trial):
            rows *= all(name in nlp.layout.at_nodes for name in block.members)
    return size


def sizes(nlp: NLP, z: Array) -> Array:
    """Sizes of variables: the largest value of each trajectory, values of parameters, 1 for
    logarithms."""
    size = np.abs(z)
    nlp.layout.parameter_values(size)[nlp.layout.owned.log] = 1.0
    for trial in range(len(nlp.layout.nodes)):
        for _, row in nlp.layout.rows(size, trial):
            row[:] = row.max(axis=1, keepdims=True)
    return size


def parameter_confidence(nlp: NLP, kkt: Kkt, z: Array, known: Spreads) -> Confidence:
    """Parameter covariance at a solution z, from the curvature there.

    For an objective J = -2 log(likelihood) + const, such as the least squares of measurements with
    their true standard deviations, the covariance is 2 R^-1, where R is the Hessian of J in the
    parameters after the trajectories have followed (the reduced Hessian). R^-1 is the parameter
    block of the inverse of the Karush-Kuhn-Tucker matrix. A parameter at a bound has variance zero;
    others vary with what the samples leave it on the inner side, see `slackened`. Undetermined
    parameters have NaN, and notes say which can be exchanged for which. On a logarithmic scale the
    curvature is that in log p, from which the covariance of p
    follows to first order. known : spreads of the parameters. Raises `ValueError` if the curvature
    is not positive.
    """
    layout = nlp.layout
    mine = layout.parameter_offset + np.arange(len(layout.parameters))
    values = np.where(layout.owned.log, 1.0, z[mine])
    found = confidence_of_spreads(known, kkt.stiffness[mine], layout.parameters, values)
    slopes = layout.parameter_slopes(z)
    covariance = found.covariance * np.outer(slopes, slopes)
    assert found.directions is not None
    return replace(found, covariance=covariance, directions=slopes[:, None] * found.directions)


def clear_confidence(nlp: NLP, kkt: Kkt, z: Array, variance: float) -> Confidence | None:
    """Parameter covariance if it is clear: standard errors are smaller than the values, and the
    matrix confirms them, so that no parameter needs a test of its own. None if a parameter is not
    clear. variance : of residuals in units of the objective. See `parameter_confidence`."""
    if kkt.singular:
        return None
    layout = nlp.layout
    mine = layout.parameter_offset + np.arange(len(layout.parameters))
    inverse, held = without_held(kkt.factorised().inverse(mine), kkt.stiffness[mine])
    slopes = layout.parameter_slopes(z)
    covariance = 2.0 * inverse * np.outer(slopes, slopes)
    spread, values = variance * np.diag(covariance), layout.natural(z)[mine]
    clear = held | ((spread > 0.0) & (spread < values**2))
    return Confidence(held, covariance) if clear.all() and _is_told(kkt, mine, inverse) else None


def is_unclear(nlp: NLP, kkt: Kkt, z: Array, variance: float) -> bool:
    """Whether the standard error of some parameter is so much larger than its value that each
    parameter needs a test, by factors without refinement; see `clear_confidence`."""
    layout = nlp.layout
    mine = layout.parameter_offset + np.arange(len(layout.parameters))
    if kkt.singular or not len(mine):
        return False
    spread = kkt.factorised().roughly(mine) * layout.parameter_slopes(z) ** 2
    large = 2.0 * variance * spread > _UNCLEAR * layout.natural(z)[mine] ** 2
    return bool(large[kkt.stiffness[mine] == 0.0].any())


def _is_told(kkt: Kkt, mine: NDArray[np.intp], inverse: Array) -> bool:
    """Whether the matrix confirms its inverse (r, r) for some variables: factors of a matrix that
    is singular up to rounding give numbers, too, but do not solve a random side of these."""
    spread, side = np.diag(inverse), np.zeros(kkt.order)
    free = mine[spread > 0.0]
    side[free] = np.random.default_rng(0).standard_normal(len(free)) / np.sqrt(spread[spread > 0.0])
    x = kkt.factorised().factors.solve(side[:, None])[:, 0]
    (made,), (doubt,) = kkt.forms(x[:, None])
    whole = float(side @ x)
    curved = clear_signs(np.array([made]), np.array([doubt]), np.zeros(1))[0] > 0.0
    return not len(free) or bool(curved and abs(made - whole) <= _CONFIRMED * whole)


def blur_of_gradient(
    nlp: NLP, kkt: Kkt, z: Array, multipliers: tuple[Array, Array, Array], gone: Array | float = 0.0
) -> Array:
    """Uncertainty of the curvature by the remaining gradient, (n,): the gradient without bounds
    that are absent from the matrix, over the sizes of variables: the largest values, or for those
    near zero a share of the size in the scaled matrix. gone : part of the gradient that a step
    from here takes away, with its sign turned."""
    of_rows, lower, upper = multipliers
    rows, columns = nlp.jacobian_structure.arrays()
    acting = np.where(np.isinf(kkt.softness), 0.0, of_rows)
    pulls = coo_array((nlp.jacobian(z), (columns, rows)), shape=(len(z), len(acting))) @ acting
    gradient = nlp.gradient(z) + pulls + gone
    gradient -= np.where(kkt.stiffness > 0.0, lower - upper, 0.0)
    return np.abs(gradient) / np.maximum(sizes(nlp, z), _SEEN * kkt.scaled.scale[: len(z)])


def confidence_of_spreads(
    found: Spreads, stiffness: Array, names: Sequence[str], values: Array
) -> Confidence:
    """Confidence of some variables from their spreads, with names and values; stiffness : of their
    bounds, (r,). Raises `ValueError` if a curvature is not positive, or lost in rounding."""
    inverse, signs = found.inverse.copy(), found.signs
    lost, down = np.isnan(signs), signs < 0.0
    if lost.any() or down.any():
        what, why = (lost, "lost in rounding") if lost.any() else (down, "not positive")
        along = listed(np.array(names)[what])
        end = "" if lost.any() else ": this is no minimum"
        raise ValueError(f"the curvature at the solution is {why} along {along}{end}")
    which = np.flatnonzero(signs == 0.0)
    mine = [names[int(k)] for k in which]
    notes, ways = exchanges(inverse[np.ix_(which, which)], mine, values[which])
    directions = np.zeros((len(names), ways.shape[1]))
    directions[which] = ways
    inverse[which] = inverse[:, which] = np.nan
    inverse, held = without_held(inverse, stiffness)
    return Confidence(held, 2.0 * inverse, np.inf if notes else np.nan, notes, directions)


def without_held(inverse: Array, stiffness: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Inverse (n, n) of a curvature, bounds included, with zeros for variables at an active bound;
    and which these are, (n,)."""
    inverse, spread = inverse.copy(), np.diag(inverse)
    held = np.isinf(stiffness)
    with np.errstate(divide="ignore", invalid="ignore"):
        held |= at_bounds(stiffness, 1.0 / spread - stiffness)
    inverse[held], inverse[:, held] = 0.0, 0.0
    return inverse, held


def least_squares_covariance(
    jacobian: Array, objective: float, samples: int | None
) -> tuple[Array, int]:
    """Least-squares covariance (n, n) of the unknowns of J = sum r^2 from d r/d q (k, n): (J^T
    J)^-1; and the rank of the derivatives, the number of directions that the record determines.

    samples : None if the residuals are divided by their standard deviations; else their number, and
    their variance is estimated as J / (samples - rank). NaN for undetermined unknowns.
    """
    n = jacobian.shape[1]
    if n == 0:
        return np.zeros((0, 0)), 0
    size = np.linalg.norm(jacobian, axis=0)
    unit = np.where(size > 0.0, size, 1.0)
    rows = np.vstack([jacobian / unit, np.zeros((max(n - len(jacobian), 0), n))])
    _, s, v = np.linalg.svd(rows, full_matrices=False)
    rank = int((s > 1e-14 * s[0]).sum())
    inverse = (v[:rank].T / s[:rank] ** 2) @ v[:rank]
    silent = (np.abs(v[rank:]) > 1e-8).any(axis=0)  # part of a direction without effect
    inverse[silent] = inverse[:, silent] = np.nan
    return _variance(objective, samples, rank) * inverse / np.outer(unit, unit), rank


@dataclass(frozen=True)
class Confidence:
    """Covariance of unknowns (n,) and their identifiability.

    held : which are at an active bound. covariance : (n, n), zero for these and NaN if there is
    none. condition : condition number of the scaled problem. notes : sentences on unknowns that are
    not identifiable. directions : (n, m), undetermined by the record. idle : number of directions
    that are undetermined or fixed by equations.
    """

    held: NDArray[np.bool_]
    covariance: Array
    condition: float = np.nan
    notes: Sequence[str] = ()
    directions: Array | None = None
    idle: int = 0

    @property
    def taken(self) -> int:
        """Degrees of freedom of the residuals that the unknowns take."""
        return int((~self.held).sum()) - self.idle


@dataclass(frozen=True)
class Estimate:
    """Unknowns at the end of a fit: values, names and bounds, the objective and its gradient.

    sizes : natural sizes, such as the range of a state; NaN for parameters.
    """

    values: Array
    names: Sequence[str]
    bounds: tuple[Array, Array]
    objective: float
    gradient: Array
    sizes: Array

    def held(self, curvature: Array) -> NDArray[np.bool_]:
        """Active bounds, (n,) booleans; curvature : of the objective in each unknown, (n,)."""
        push = downhill(self.gradient)
        return at_bounds(stiffness_of_bounds(self.values, self.bounds, push), curvature)

    def judged(
        self, free: NDArray[np.intp], curvature: Array, variance: float
    ) -> tuple[float, list[str], Array]:
        """Condition, notes and directions (n, m) from the curvature J^T J of the `free` unknowns.

        They are scaled by their natural sizes or else by their values, which are at least their
        standard errors if all others were known; variance : of residuals, for these, zero if it is
        not known.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(variance / np.diag(curvature))
        error[~np.isfinite(error)] = 0.0
        natural, values = self.sizes[free], np.abs(self.values[free])
        size = np.where(natural > 0.0, natural, np.maximum(values, error))
        size[size == 0.0] = 1.0
        names = [self.names[k] for k in free]
        small = (values < error) & ~(natural > 0.0)
        near_zero = [name for name, is_small in zip(names, small, strict=True) if is_small]
        scaled = curvature * np.outer(size, size)
        known = variance if variance > 0.0 else np.nan
        condition, notes, ways = identifiability(scaled, names, near_zero, known)
        directions = np.zeros((len(self.values), ways.shape[1]))
        directions[free] = size[:, None] * ways
        return condition, notes, directions


def confidence_of_squares(found: Estimate, slopes: Array, samples: int | None = None) -> Confidence:
    """Confidence from the derivatives of the residuals, (k, n); samples : see
    `least_squares_covariance`."""
    held = found.held(2.0 * (slopes**2).sum(axis=0))
    free = np.flatnonzero(~held)
    covariance = np.zeros((held.size, held.size))
    part, rank = least_squares_covariance(slopes[:, free], found.objective, samples)
    variance = _variance(found.objective, samples, rank)
    covariance[np.ix_(free, free)] = part + _with_held(found, slopes, held, variance)
    about = found.judged(free, slopes[:, free].T @ slopes[:, free], variance)
    return Confidence(held, covariance, *about, len(free) - rank)


def _with_held(
    found: Estimate, slopes: Array, held: NDArray[np.bool_], variance: float
) -> Array | float:
    """Covariance (r, r) of free unknowns with those at active bounds, see `slack_stiffness`."""
    (low, high), push = found.bounds, np.abs(found.gradient)
    loose = held & (low < high)
    if not (loose.any() and variance > 0.0):
        return 0.0
    follow = -np.linalg.lstsq(slopes[:, ~held], slopes[:, loose], rcond=None)[0]
    left = slopes[:, loose] + slopes[:, ~held] @ follow
    curvature = 2.0 * left.T @ left
    width = (high - low)[loose]
    stiffness = slack_stiffness(push[loose], width, np.diag(curvature), variance)
    spread = 2.0 * variance * _inverse(curvature + np.diag(stiffness))
    return np.asarray(follow @ spread @ follow.T)


def confidence_of_segments(
    found: Estimate, hessian: Any, gaps: Any, inner: slice, samples: int | None = None
) -> Confidence:
    """Confidence from the second derivatives of J (n, n) and the first ones of m equations, `gaps`
    (m, n), both sparse: the equations determine the m unknowns at `inner` from the others, to which
    the result refers."""
    n = len(found.values)
    first = np.setdiff1d(np.arange(n), np.arange(n)[inner])
    gaps = csc_array(gaps)
    forces = splu(csc_array(gaps[:, inner].T)).solve(-found.gradient[inner])
    push = downhill(found.gradient + gaps.T @ forces)
    stiff = stiffness_of_bounds(found.values, found.bounds, push)
    held, covariance = np.isinf(stiff), np.full((n, n), np.nan)
    kkt = Kkt(_entries(tril(hessian)), _entries(gaps), stiff, np.zeros(gaps.shape[0]))
    names = [found.names[k] for k in first]
    try:
        inverse = spreads(kkt, first, np.zeros(n))
        known = confidence_of_spreads(inverse, stiff[first], names, found.values[first])
    except ValueError as error:
        return Confidence(held, covariance, np.inf, [str(error)], None, gaps.shape[0])
    held[first] = known.held
    left = ~known.held
    variance = _variance(found.objective, samples, int(left.sum()))
    loose = first[known.held & (found.bounds[0] < found.bounds[1])[first]]
    if len(loose) and variance > 0.0 and not known.notes:
        fixed = replace(kkt, stiffness=np.where(held, np.inf, stiff))
        free = slackened(fixed, loose, found.bounds, push[0] - push[1], variance)
        spread = free.factorised().inverse(first) * np.outer(left, left)
        covariance[np.ix_(first, first)] = 2.0 * variance * spread
    else:
        covariance[np.ix_(first, first)] = variance * known.covariance
    if known.notes and known.directions is not None:
        ways = np.zeros((n, known.directions.shape[1]))
        ways[first] = known.directions
        idle = gaps.shape[0] + ways.shape[1]
        return Confidence(held, covariance, known.condition, known.notes, ways, idle)
    curvature = _inverse(known.covariance[np.ix_(left, left)])
    about = found.judged(first[left], curvature, variance)
    return Confidence(held, covariance, *about, gaps.shape[0])


def _entries(matrix: Any) -> Entries:
    """Rows, columns and values of a sparse matrix."""
    coo = coo_array(matrix)
    return coo.row, coo.col, coo.data


def _inverse(matrix: Array) -> Array:
    """Inverse of a symmetric positive matrix; modes that are lost in its rounding are set to the
    rounding."""
    modes, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    least = np.finfo(float).eps * modes.max(initial=0.0)
    return np.asarray(vectors / np.maximum(modes, least) @ vectors.T)


def _variance(objective: float, samples: int | None, unknowns: int) -> float:
    """Variance of residuals; 1 if they are divided by their standard deviations, NaN without
    degrees of freedom left."""
    if samples is None:
        return 1.0
    return objective / (samples - unknowns) if samples > unknowns else np.nan
