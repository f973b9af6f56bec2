"""Least squares of the coordinates of a tree at many instants at once, for markers on its bodies.

The unknowns are coordinates of every instant, and parameters that all of them share; see
`marker_steps` for how the sum is minimised.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.functions import Functions
from kinesym.runtime.losses import RobustLoss

#: Distance for differences of gradients [rad, m].
NUDGE = 1e-6


@dataclass(frozen=True)
class Smoothness:
    """Differences of this order between instants that cost as much as `weight` times what markers
    tell on average, a matrix (n, n)."""

    order: int
    weight: float
    information: Array

    @property
    def coefficients(self) -> Array:
        """Coefficients of the finite difference of neighbours, (order + 1,)."""
        return np.asarray(np.diff(np.eye(self.order + 1), self.order, axis=0)[0])

    def bands(self, count: int) -> list[Array]:
        """The diagonals 0 ... order of the matrix of squares of the differences of `count`
        values."""
        D, found = self.coefficients, []
        for k in range(self.order + 1):
            band = np.zeros(max(count - k, 0))
            for i in range(self.order + 1 - k) if count > self.order else ():
                band[i : i + count - self.order] += self.weight * D[i] * D[i + k]
            found.append(band)
        return found

    def cost(self, q: Array) -> tuple[float, Array]:
        """Smoothness cost of the courses q (n, N), and half its gradient (n, N)."""
        differences = np.diff(q, self.order, axis=1)
        pulled, gradient = self.weight * self.information @ differences, np.zeros_like(q)
        count = differences.shape[1]
        for i, coefficient in enumerate(self.coefficients):
            gradient[:, i : i + count] += coefficient * pulled
        return float(np.sum(differences * pulled)), gradient


def weight_of_cutoff(cutoff: float, rate: float, order: int) -> float:
    """The weight of squared differences that takes sines of this frequency to 1/sqrt(2) [Hz]."""
    gain = (2.0 * np.sin(np.pi * cutoff / rate)) ** (2 * order)
    return float((np.sqrt(2.0) - 1.0) / gain)


@dataclass(frozen=True, eq=False)
class State:
    """State of the iterations: coordinates q (n, N), shared parameters (m,); costs of each instant
    (N,) and of the shared parameters; weights of markers by the loss (T, N)."""

    q: Array
    shared: Array
    costs: Array
    extra: float
    gaps: Array
    trust: Array

    def at(self, here: Any) -> State:
        """State at some of the instants."""
        q, costs = self.q[:, here], self.costs[here]
        return State(q, self.shared, costs, self.extra, self.gaps[..., here], self.trust[:, here])

    def where(self, chosen: NDArray[np.bool_], new: State) -> State:
        """State with the chosen instants (N,) taken from another one; instants must be
        independent."""
        rows = ((getattr(new, key), getattr(self, key)) for key in ("q", "costs", "gaps", "trust"))
        q, costs, gaps, trust = (np.where(chosen, theirs, ours) for theirs, ours in rows)
        return State(q, self.shared, costs, self.extra, gaps, trust)


@dataclass(frozen=True, eq=False)
class Normal:
    """Gauss-Newton matrix and gradient: A (N, n, n), g (N, n) of instants, S (m, m), s (m,) of
    shared parameters, B (N, m, n) between them."""

    A: Array
    g: Array
    B: Array
    S: Array
    s: Array


@dataclass(frozen=True, eq=False)
class Squares:
    """The sum of squares.

    functions : places of markers. numbers : all parameters (p,). measured : (3 T, N), anything
    where missing. weights : of squared distances (T, N), 0 where missing. lower, upper : bounds of
    the coordinates (n,). places : of shared parameters among all (m,). prior, std : prior means and
    standard deviations of these (m,). noise : standard deviation of a marker of weight 1 [m].
    persistence : factor with which it counts, as errors stay. loss : None for squares. smoothness :
    None if instants do not know each other.
    """

    functions: Functions
    numbers: Array
    measured: Array
    weights: Array
    lower: Array
    upper: Array
    places: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    prior: Array = field(default_factory=lambda: np.zeros(0))
    std: Array = field(default_factory=lambda: np.zeros(0))
    noise: float = 1.0
    persistence: float = 1.0
    loss: RobustLoss | None = None
    smoothness: Smoothness | None = None
    targets: Array = field(default_factory=lambda: np.zeros((0, 0)))
    pulls: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def separate(self) -> bool:
        """Whether instants do not know each other."""
        return self.smoothness is None and not len(self.places)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Markers that count (T, N)."""
        return self.weights > 0.0

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Directions x, y, z in which unknowns move markers (3, T, 1); in others they are where
        they are, as across the plane of a planar tree, and do not count."""
        return shown_by(self.functions, tuple(map(int, self.places)))

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of coordinates measured of each marker that is present (T, N)."""
        return np.asarray(self.shown.sum(axis=0) * self.present)

    def at(self, here: Any) -> Squares:
        """Problem at some instants, each for itself, with parameters at their prior means."""
        nothing = np.zeros(0)
        return replace(
            self,
            numbers=self.all_numbers(self.prior),
            measured=self.measured[:, here],
            weights=self.weights[:, here],
            smoothness=None,
            places=np.zeros(0, dtype=np.intp),
            prior=nothing,
            std=nothing,
            targets=self.targets[:, here] if len(self.pulls) else self.targets,
        )

    def all_numbers(self, shared: Array) -> Array:
        """Parameters with these shared ones."""
        numbers = self.numbers.copy()
        numbers[self.places] = shared
        return numbers

    def arguments(self, q: Array, shared: Array) -> tuple[Array, Array, Any, Array, Array]:
        """Arguments of the compiled functions at coordinates q and shared parameters."""
        return np.zeros_like(q), q, (), self.all_numbers(shared), np.zeros(q.shape[1])

    def state(self, q: Array, shared: Array) -> State:
        """Costs at these unknowns."""
        gaps = self.functions.outputs(*self.arguments(q, shared)) - self.measured
        T, N = self.weights.shape
        gaps = gaps.reshape(T, 3, N).transpose(1, 0, 2)
        gaps = np.where(self.present & self.shown, gaps, 0.0)
        squares = self.weights * np.sum(gaps**2, axis=0) / self.noise**2
        trust = np.ones_like(squares)
        if self.loss is not None:  # of the root mean square of the components
            counts = self.counts
            e = np.sqrt(squares / np.maximum(counts, 1))
            safe = np.maximum(e, 1e-12)  # the limit at 0 of psi(e)/e
            trust = np.asarray(self.loss.slope(safe) / safe)
            squares = counts * self.loss.root(e) ** 2
        costs = squares.sum(axis=0) / self.persistence**2
        if len(self.pulls):
            costs = costs + self.strengths @ (q - self.targets) ** 2
        extra = float(np.sum(((shared - self.prior) / self.std) ** 2))
        if self.smoothness is not None:
            extra += self.smoothness.cost(q)[0]
        return State(q, shared, costs, extra, gaps, trust)

    def entries(self, state: State) -> tuple[Array, tuple[RowGroup, ...]]:
        """Derivatives of places (N, k) with respect to coordinates, and then to what is shared,
        and where they are."""
        arguments = self.arguments(state.q, state.shared)
        rows, columns, values = self.functions.entries(*arguments, "outputs", "states")
        if not len(self.places):
            return values.T, groups_of(tuple(rows), tuple(columns))
        more = self.functions.entries(*arguments, "outputs", "parameters")
        place = {int(p): len(state.q) + k for k, p in enumerate(self.places)}
        kept = [k for k, column in enumerate(more[1]) if column in place]
        rows = [*rows, *(more[0][k] for k in kept)]
        columns = [*columns, *(place[more[1][k]] for k in kept)]
        return np.concatenate([values, more[2][kept]]).T, groups_of(tuple(rows), tuple(columns))

    def normal(self, state: State) -> Normal:
        """Matrix and gradient there."""
        N, n, m = self.weights.shape[1], len(state.q), len(state.shared)
        rows, r = self.standardised(state)
        values, groups = self.entries(state)
        whole, slope = np.zeros((N, n + m, n + m)), np.zeros((N, n + m))
        for group in groups:
            J = np.zeros((N, len(group.columns), len(group.rows)))
            J[:, group.column, group.row] = values[:, group.entries]
            J *= rows[:, None, group.rows]
            whole[:, group.columns[:, None], group.columns] += J @ J.transpose(0, 2, 1)
            slope[:, group.columns] += (J @ r[:, group.rows, None])[..., 0]
        A, B, g = whole[:, :n, :n], whole[:, n:, :n], slope[:, :n]
        if len(self.pulls):
            A[:, np.arange(n), np.arange(n)] += self.strengths
            g += self.drawn(state.q)
        S = whole[:, n:, n:].sum(axis=0) + np.diag(self.std**-2.0)
        s = slope[:, n:].sum(axis=0) + (state.shared - self.prior) / self.std**2
        if self.smoothness is not None:
            g = g + self.smoothness.cost(state.q)[1].T
        return Normal(A, g, B, S, s)

    @property
    def strengths(self) -> Array:
        """Weights of squared distances of coordinates from their targets (n,)."""
        return self.pulls / self.noise**2

    def drawn(self, q: Array) -> Array:
        """Half the gradient of the cost of these distances (N, n)."""
        return np.asarray(self.strengths * (q - self.targets).T)

    def standardised(self, state: State) -> tuple[Array, Array]:
        """Factors of the rows of the Jacobian, and residuals (N, 3 T)."""
        T, N = self.weights.shape
        root = np.sqrt(self.weights * state.trust) / (self.noise * self.persistence)
        rows = np.repeat(root, 3, axis=0).T
        return rows, rows * state.gaps.transpose(2, 1, 0).reshape(N, 3 * T)

    def pull(self, q: Array, shared: Array) -> Array:
        """Half the gradient of the costs of instants with respect to the coordinates (N, n)."""
        state = self.state(q, shared)
        rows, r = self.standardised(state)
        places, columns, values = self.functions.entries(
            *self.arguments(q, shared), "outputs", "states"
        )
        each = (rows * r).T[np.array(places, dtype=np.intp)] * values
        order = np.argsort(columns, kind="stable")
        found, first = np.unique(np.array(columns, dtype=np.intp)[order], return_index=True)
        slope = np.zeros_like(q)
        slope[found] = np.add.reduceat(each[order], first)
        return slope.T + self.drawn(q) if len(self.pulls) else slope.T

    def curvature(self, state: State, A: Array) -> Array:
        """Second-order part of the Hessian (N, n, n) that the Gauss-Newton matrix A leaves out:
        second derivatives of positions times errors, by differences of the gradient."""
        here, found = self.pull(state.q, state.shared), np.empty_like(A)
        for j in range(len(state.q)):
            q = state.q.copy()
            q[j] += NUDGE
            found[:, j] = (self.pull(q, state.shared) - here) / NUDGE
        found -= A
        return 0.5 * (found + found.transpose(0, 2, 1))


class RowGroup(NamedTuple):
    """Rows of the Jacobian with entries in the same columns: numbers of its entries, and their
    places among these rows and columns."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    entries: NDArray[np.intp]
    row: NDArray[np.intp]
    column: NDArray[np.intp]


@lru_cache(maxsize=8)
def groups_of(rows: tuple[int, ...], columns: tuple[int, ...]) -> tuple[RowGroup, ...]:
    """The rows of markers on the same body together: they depend on the same coordinates."""
    used: dict[int, set[int]] = {}
    for i, j in zip(rows, columns, strict=True):
        used.setdefault(i // 3, set()).add(j)
    together: dict[frozenset[int], list[int]] = {}
    for marker, mine in used.items():
        together.setdefault(frozenset(mine), []).append(marker)
    found, all_rows, all_columns = [], np.array(rows), np.array(columns)
    for columns_of, markers in together.items():
        some = np.array([3 * k + i for k in sorted(markers) for i in range(3)])
        those = np.array(sorted(columns_of))
        entries = np.flatnonzero(np.isin(all_rows, some))
        row = np.searchsorted(some, all_rows[entries])
        column = np.searchsorted(those, all_columns[entries])
        found.append(RowGroup(some, those, entries, row, column))
    return tuple(found)


@lru_cache(maxsize=8)
def shown_by(functions: Functions, places: tuple[int, ...]) -> NDArray[np.bool_]:
    """Rows of the Jacobian with entries, as directions of markers (3, T, 1)."""
    n, p = len(functions.states), len(functions.parameters)
    at = np.zeros((n, 1)), np.zeros((n, 1)), (), np.zeros(p), np.zeros(1)
    found = np.zeros(len(functions.output_names), dtype=bool)
    with np.errstate(all="ignore"):
        for wrt, columns in (("states", range(n)), ("parameters", places)):
            rows, of, _ = functions.entries(*at, "outputs", wrt)
            found[np.array(rows, dtype=np.intp)[np.isin(of, list(columns))]] = True
    return found.reshape(-1, 3).T[..., None]
