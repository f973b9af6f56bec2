"""Uncertainty of identified parameters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, tril
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import UNKNOWN, Factorisation
from kinesym.runtime.nlp.nlp import NLP

#: Rows, columns and values of a sparse matrix.
Entries: TypeAlias = tuple[NDArray[Any], NDArray[Any], Array]

#: Share of the distance between two bounds up to which a value counts as near one of them.
_NEAR = 1e-2
#: IPOPT widens bounds by this share of their size (at least of 1).
_WIDENED = 1e-8
#: How many times farther than the bound the minimum without it must be.
_BEYOND = 10.0
#: Share of the sides up to which the residual of a linear system needs no refinement.
_REFINED = 1e-8


def stiffness_of_bounds(
    x: Array, bounds: tuple[Array, Array], push: tuple[Array, Array], widened: float = 0.0
) -> Array:
    """What bounds add to the curvature of J, (n,): push / distance, as in interior-point methods.

    push : how strongly J presses x (n,) against the lower and the upper bounds [J per unit of x]:
    multipliers, or what of the gradient points that way. Zero away from bounds, infinite where they
    are equal or met. No size of x matters, only distances and, if both bounds are finite, widths.
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
    """Which unknowns (n,) a bound holds: without it the minimum would be far beyond. stiffness : of
    `stiffness_of_bounds`. curvature : of J without bounds, (n,)."""
    return np.asarray((stiffness > 0.0) & (stiffness > _BEYOND * curvature))


def downhill(gradient: Array) -> tuple[Array, Array]:
    """How strongly J presses against lower and upper bounds, from its gradient (n,)."""
    return np.maximum(gradient, 0.0), np.maximum(-gradient, 0.0)


@dataclass(frozen=True, eq=False)
class Kkt:
    """The Karush-Kuhn-Tucker matrix [[H + S, A'], [A, -D]] of n variables and m constraints.

    hessian : rows, columns and values of H, lower triangle. jacobian : likewise of A. stiffness,
    softness : the diagonals of S (n,) and D (m,); infinity fixes a variable, or leaves a constraint
    out. stages : of the variables, see `kkt.h`.
    """

    hessian: Entries
    jacobian: Entries
    stiffness: Array
    softness: Array
    stages: NDArray[np.int32] | None = None

    def factorised(self) -> KktFactors:
        """Its factors, by the time-structured solver or by SuperLU; raises `ValueError` if it is
        singular."""
        n, m = len(self.stiffness), len(self.softness)
        gone = np.isinf(np.concatenate([self.stiffness, self.softness]))
        diagonal = np.concatenate([self.stiffness, -self.softness])
        diagonal[gone] = 1.0
        (i, j, h), (row, column, a), every = self.hessian, self.jacobian, np.arange(n + m)
        rows = np.concatenate([i, row + n, every], dtype=np.int32, casting="same_kind")
        columns = np.concatenate([j, column, every], dtype=np.int32, casting="same_kind")
        values = np.concatenate([h, a, diagonal])
        if gone.any():
            off = slice(0, len(values) - n - m)
            values[off][gone[rows[off]] | gone[columns[off]]] = 0.0
        stages = None
        if self.stages is not None:
            stages = np.full(n + m, UNKNOWN, dtype=np.int32)
            stages[:n] = self.stages
        try:
            return KktFactors(n, gone, _factors((rows, columns, values), stages, n + m))
        except RuntimeError as error:
            raise ValueError("the curvature at the solution is singular") from error

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        """The entries of variables `wanted` in the inverse; raises `ValueError` if the matrix is
        singular."""
        try:
            return self.factorised().inverse(wanted)
        except ValueError as error:
            raise ValueError("singular curvature: the parameters are not identifiable") from error


@dataclass(frozen=True, eq=False)
class KktFactors:
    """Factors of a `Kkt` of n variables; gone : which variables and constraints are fixed or left
    out."""

    n: int
    gone: NDArray[np.bool_]
    factors: _InTime | _General

    def solve(self, variables: Array, constraints: Array) -> Array:
        """The first n entries of the solutions for sides (n, k) and (m, k), zero for what is
        fixed."""
        sides = np.vstack([variables, constraints])
        sides[self.gone] = 0.0
        return self.factors.solve(sides)[: self.n]

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        """The entries of variables `wanted` in the inverse, zero for what is fixed."""
        inverse = self.factors.inverse(wanted)
        inverse[self.gone[wanted]] = inverse[:, self.gone[wanted]] = 0.0
        return inverse


class _InTime:
    """Factors of a symmetric matrix whose unknowns have stages, from the entries of its lower
    triangle; stages : see `kkt.h`. Raises `ValueError` if these are not narrow, `RuntimeError` if
    the matrix is singular."""

    def __init__(self, lower: Entries, stages: NDArray[np.int32]) -> None:
        rows, columns, self._values = lower
        self._n, self._factors = len(stages), Factorisation(len(stages), rows, columns, stages)
        if self._factors.factorise(self._values) != "ok":
            raise RuntimeError("singular")

    def solve(self, b: Array) -> Array:
        """x for sides b (n, k), refined once if the first side needs it; then others do, too."""
        x = self._factors.solve(b)
        left = self._left(x[:, 0], b[:, 0])
        if np.abs(left).max() <= _REFINED * np.abs(b[:, 0]).max():
            return x
        sides = zip(x.T, b.T, strict=True)
        return x + self._factors.solve(np.column_stack([self._left(*side) for side in sides]))

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        """Its entries for unknowns, (k, k); refined if the first one needs it."""
        unit = np.zeros((self._n, len(wanted)))
        unit[wanted, np.arange(len(wanted))] = 1.0
        if len(wanted):
            x = self._factors.solve(unit[:, 0])
            change = abs(x @ self._left(x, unit[:, 0]))  # what refinement would add to the first
            if not change <= _REFINED * abs(x[wanted[0]]):
                return self.solve(unit)[wanted]
        return self._factors.inverse(wanted)

    def _left(self, x: Array, b: Array) -> Array:
        return self._factors.residual(self._values, x, b)[0]


class _General:
    """The same by SuperLU."""

    def __init__(self, lower: Entries, n: int) -> None:
        rows, columns, values = lower
        half = coo_array((values, (rows, columns)), shape=(n, n)).tocsr()
        self._n, self._factors = n, splu((half + tril(half, -1).T).tocsc())

    def solve(self, b: Array) -> Array:
        return np.asarray(self._factors.solve(b))

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        unit = np.zeros((self._n, len(wanted)))
        unit[wanted, np.arange(len(wanted))] = 1.0
        return self.solve(unit)[wanted]


def _factors(lower: Entries, stages: NDArray[np.int32] | None, n: int) -> _InTime | _General:
    """Raises `RuntimeError` if the matrix is singular."""
    if stages is not None:
        with suppress(ValueError):  # no narrow stages
            return _InTime(lower, stages)
    return _General(lower, n)


def kkt_at(
    nlp: NLP,
    z: Array,
    multipliers: tuple[Array, Array, Array],
    bounds: tuple[Array, Array],
    constraint_bounds: tuple[Array, Array],
) -> Kkt:
    """The matrix at a solution, in which bounds and inequalities are as stiff as their multipliers
    say.

    multipliers : of constraints, lower and upper bounds.
    """
    hessian = (*nlp.hessian_structure.arrays(), nlp.hessian(z, multipliers[0], 1.0))
    jacobian = (*nlp.jacobian_structure.arrays(), nlp.jacobian(z))
    stiff = stiffness_of_bounds(z, bounds, multipliers[1:], _WIDENED)
    of_rows = stiffness_of_bounds(
        nlp.constraints(z), constraint_bounds, downhill(-multipliers[0]), _WIDENED
    )
    with np.errstate(divide="ignore"):
        return Kkt(hessian, jacobian, stiff, 1.0 / of_rows, nlp.layout.stages())


def parameter_covariance(nlp: NLP, kkt: Kkt) -> Array:
    """Covariance of the unknown parameters, (r, r), from the curvature at a solution.

    For an objective J = -2 log(likelihood) + const, such as the least squares of measurements with
    their true standard deviations, the covariance is 2 R^-1, where R is the Hessian of J in the
    parameters after the trajectories have followed (the reduced Hessian). R^-1 is the parameter
    block of the inverse of the Karush-Kuhn-Tucker matrix. A parameter at a bound is fixed there,
    with variance zero. Raises `ValueError` if the matrix is singular: the parameters are not
    identifiable.
    """
    layout = nlp.layout
    mine = layout.parameter_offset + np.arange(len(layout.parameters))
    return 2.0 * without_held(kkt.inverse(mine), kkt.stiffness[mine])[0]


def without_held(inverse: Array, stiffness: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The inverse (n, n) of a curvature, bounds included, with zeros for what a bound holds, and
    which that is; raises `ValueError` if what is left is not positive."""
    inverse, spread = inverse.copy(), np.diag(inverse)
    held = np.isinf(stiffness)
    with np.errstate(divide="ignore", invalid="ignore"):
        held |= at_bounds(stiffness, 1.0 / spread - stiffness)
    if not (spread[~held] > 0.0).all():
        raise ValueError("the curvature is not positive: the parameters are not identifiable")
    inverse[held], inverse[:, held] = 0.0, 0.0
    return inverse, held


#: Scaled condition number from which parameters count as not identifiable together.
ILL_CONDITIONED = 1e3


def least_squares_covariance(jacobian: Array, objective: float, samples: int | None) -> Array:
    """Covariance (n, n) of the unknowns of J = sum r^2 from d r/d q (k, n): (J^T J)^-1.

    samples : None if the residuals are divided by their standard deviations; else their number, and
    their variance is estimated as J / (samples - n). Infinite for what the record says nothing of.
    """
    n = jacobian.shape[1]
    if n == 0:
        return np.zeros((0, 0))
    size = np.linalg.norm(jacobian, axis=0)
    unit = np.where(size > 0.0, size, 1.0)
    _, s, v = np.linalg.svd(jacobian / unit, full_matrices=False)
    known = s > 1e-14 * s[0]
    inverse = (v[known].T / s[known] ** 2) @ v[known]
    silent = (np.abs(v[~known]) > 1e-8).any(axis=0)  # part of a direction without effect
    inverse[silent, silent] = np.inf
    variance = _variance(objective, samples, n)
    with np.errstate(invalid="ignore"):
        return np.asarray(variance * inverse / np.outer(unit, unit))


@dataclass(frozen=True)
class Confidence:
    """How far a record tells unknowns (n,): which are held by a bound, the covariance (n, n), zero
    for these and NaN if there is none, the condition number, and sentences on what it does not."""

    held: NDArray[np.bool_]
    covariance: Array
    condition: float = np.nan
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Estimate:
    """Unknowns at the end of a fit: values, names and bounds, the objective and its gradient.

    sizes : of what has a natural one, such as the range of a state; NaN for parameters.
    """

    values: Array
    names: Sequence[str]
    bounds: tuple[Array, Array]
    objective: float
    gradient: Array
    sizes: Array

    def held(self, curvature: Array) -> NDArray[np.bool_]:
        """Which unknowns a bound holds; curvature : of the objective in each of them, (n,)."""
        push = downhill(self.gradient)
        return at_bounds(stiffness_of_bounds(self.values, self.bounds, push), curvature)

    def judged(
        self, free: NDArray[np.intp], curvature: Array, variance: float
    ) -> tuple[float, list[str]]:
        """Condition and notes from the curvature J^T J of the `free` unknowns.

        They are scaled by their natural sizes or else by their values, which are at least their
        standard errors if all others were known; variance : of residuals, for these.
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
        return identifiability(curvature * np.outer(size, size), names, near_zero)


def confidence_of_squares(found: Estimate, slopes: Array, samples: int | None = None) -> Confidence:
    """From the derivatives of the residuals, (k, n); samples : see `least_squares_covariance`."""
    held = found.held(2.0 * (slopes**2).sum(axis=0))
    free = np.flatnonzero(~held)
    covariance = np.zeros((held.size, held.size))
    part = least_squares_covariance(slopes[:, free], found.objective, samples)
    covariance[np.ix_(free, free)] = part
    variance = _variance(found.objective, samples, len(free))
    about = found.judged(free, slopes[:, free].T @ slopes[:, free], variance)
    return Confidence(held, covariance, *about)


def confidence_of_segments(
    found: Estimate, slopes: Any, gaps: Any, inner: slice, samples: int | None = None
) -> Confidence:
    """The same with m equations whose derivatives are `gaps` (m, n), sparse as `slopes`: they tell
    the m unknowns at `inner` from the others, to which all that is said belongs."""
    n = len(found.values)
    first = np.setdiff1d(np.arange(n), np.arange(n)[inner])
    hessian, gaps = 2.0 * (slopes.T @ slopes), csc_array(gaps)
    forces = splu(csc_array(gaps[:, inner].T)).solve(-found.gradient[inner])
    push = downhill(found.gradient + gaps.T @ forces)
    stiff = stiffness_of_bounds(found.values, found.bounds, push)
    held, covariance = np.isinf(stiff), np.full((n, n), np.nan)
    try:
        nothing = np.zeros(gaps.shape[0])
        parts = (_entries(tril(hessian)), _entries(gaps))
        inverse = Kkt(*parts, stiff, nothing).inverse(first)
        inverse, held[first] = without_held(inverse, stiff[first])
    except ValueError as error:
        return Confidence(held, covariance, np.inf, [str(error)])
    left = ~held[first]
    variance = _variance(found.objective, samples, int(left.sum()))
    covariance[np.ix_(first, first)] = 2.0 * variance * inverse
    curvature = _inverse(2.0 * inverse[np.ix_(left, left)])
    return Confidence(held, covariance, *found.judged(first[left], curvature, variance))


def _entries(matrix: Any) -> Entries:
    """Rows, columns and values of a sparse matrix."""
    coo = coo_array(matrix)
    return coo.row, coo.col, coo.data


def _inverse(matrix: Array) -> Array:
    """Of a symmetric positive matrix; modes that are lost in its rounding count as that."""
    modes, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    least = np.finfo(float).eps * modes.max(initial=0.0)
    return np.asarray(vectors / np.maximum(modes, least) @ vectors.T)


def _variance(objective: float, samples: int | None, unknowns: int) -> float:
    """Of residuals; 1 if they are divided by their standard deviations."""
    return 1.0 if samples is None else objective / max(samples - unknowns, 1)


def identifiability(
    curvature: Array, names: Sequence[str], near_zero: Sequence[str] = ()
) -> tuple[float, list[str]]:
    """The condition number of the scaled problem, and a sentence if it is large.

    curvature : J^T J of scaled residuals, or a scaled Hessian, (n, n). The condition number is that
    of the scaled Jacobian, the square root of that of the curvature. The sentence names the pair of
    unknowns that can be exchanged most easily, or the one that the record says nothing about.
    near_zero : unknowns that may be zero.
    """
    if not len(names):
        return 1.0, []
    modes, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    if not modes[-1] > 0.0:
        return np.inf, ["the objective does not depend on the unknowns"]
    if modes[0] <= 0.0 and modes[0] < -1e-8 * modes[-1]:
        return np.inf, ["the curvature is not positive: this is no minimum"]
    condition = float(np.sqrt(modes[-1] / modes[0])) if modes[0] > 0.0 else np.inf
    notes = []
    for mode, vector in zip(modes, vectors.T, strict=True):
        if mode * ILL_CONDITIONED**2 > modes[-1]:
            break
        of = float(np.sqrt(modes[-1] / mode)) if mode > 0.0 else np.inf
        notes.append(_exchangeable(vector, names, of, near_zero))
    return condition, notes


def _exchangeable(
    vector: Array, names: Sequence[str], condition: float, near_zero: Sequence[str]
) -> str:
    """A sentence on the unknowns that can change along a direction without effect."""
    order = np.argsort(-np.abs(vector))
    first = names[order[0]]
    if len(names) == 1 or abs(vector[order[1]]) < 0.1 * abs(vector[order[0]]):
        what = "cannot be told from zero by" if first in near_zero else "is not identifiable from"
        return f"{first} {what} this record (condition {condition:.1e}); fix it"
    return (
        f"{first} and {names[order[1]]} are not identifiable together from this record "
        f"(condition {condition:.1e}); fix one"
    )
