"""Least squares of the coordinates of a tree at many instants at once, for markers on its bodies.

The unknowns are coordinates of every instant, and parameters that all of them share; see
`marker_steps` for how the sum is minimised.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.functions import Functions
from kinesym.runtime.losses import RobustLoss

@dataclass(frozen=True)
class Smoothness:
    """Differences of this order between instants that cost as much as `weight` times what markers
    tell on average, a matrix (n, n)."""

    order: int
    weight: float
    information: Array

    def bands(self, count: int) -> list[Array]:
        """The diagonals 0 ... order of the matrix of the squares of differences of `count`
        values."""
        if count <= self.order:
            return [np.zeros(count)] * (self.order + 1)
        D = np.diff(np.eye(self.order + 1), self.order, axis=0)[0]
        found = []
        for k in range(self.order + 1):
            band = np.zeros(count - k)
            for i in range(self.order + 1 - k):
                band[i : i + count - self.order] += D[i] * D[i + k]
            found.append(self.weight * band)
        return found


def weight_of_cutoff(cutoff: float, rate: float, order: int) -> float:
    """The weight of squared differences that takes sines of this frequency to 1/sqrt(2) [Hz]."""
    gain = (2.0 * np.sin(np.pi * cutoff / rate)) ** (2 * order)
    return float((np.sqrt(2.0) - 1.0) / gain)


@dataclass(frozen=True, eq=False)
class State:
    """Unknowns and what follows from them: coordinates q (n, N), parameters (m,); costs of each
    instant (N,) and of what is shared; weights of markers by the loss (T, N)."""

    q: Array
    shared: Array
    costs: Array
    extra: float
    gaps: Array
    trust: Array


@dataclass(frozen=True, eq=False)
class Normal:
    """Gauss-Newton matrix and gradient: of instants A (N, n, n), g (N, n), of what is shared
    S (m, m), s (m,), between them B (N, m, n)."""

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
    the coordinates (n,). places : of shared parameters among all (m,). prior, std : what is known
    of these before (m,). noise : standard deviation of a marker of weight 1 [m]. loss : None for
    squares. smoothness : None if instants do not know each other.
    """

    functions: Functions
    numbers: Array
    measured: Array
    weights: Array
    lower: Array
    upper: Array
    places: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    prior: Array = field(default_factory=lambda: np.zeros(0))
    std: Array = field(default_factory=lambda: np.ones(0))
    noise: float = 1.0
    loss: RobustLoss | None = None
    smoothness: Smoothness | None = None

    @property
    def separate(self) -> bool:
        """Whether instants do not know each other."""
        return self.smoothness is None and not len(self.places)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Markers that count (T, N)."""
        return self.weights > 0.0

    def at(self, here: Any) -> Squares:
        """Some instants of it, each for itself, with parameters as they are thought before."""
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
        )

    def all_numbers(self, shared: Array) -> Array:
        """Parameters with these shared ones."""
        numbers = self.numbers.copy()
        numbers[self.places] = shared
        return numbers

    def arguments(self, q: Array, shared: Array) -> tuple[Any, ...]:
        """What compiled functions are called with."""
        return np.zeros_like(q), q, (), self.all_numbers(shared), np.zeros(q.shape[1])

    def state(self, q: Array, shared: Array) -> State:
        """Costs at these unknowns."""
        gaps = self.functions.outputs(*self.arguments(q, shared)) - self.measured
        T, N = self.weights.shape
        gaps = np.where(self.weights > 0.0, gaps.reshape(T, 3, N).transpose(1, 0, 2), 0.0)
        squares = self.weights * np.sum(gaps**2, axis=0) / self.noise**2
        trust = np.ones_like(squares)
        if self.loss is not None:  # of the root mean square of three components
            e = np.sqrt(squares / 3.0)
            trust = trust_of(self.loss, e)
            squares = 3.0 * self.loss.root(e) ** 2
        costs = squares.sum(axis=0)
        extra = float(np.sum(((shared - self.prior) / self.std) ** 2))
        if self.smoothness is not None:
            extra += float(np.sum(q * self._roughness(q)))
        return State(q, shared, costs, extra, gaps, trust)

    def _roughness(self, q: Array) -> Array:
        """The matrix of the smoothness times q, (n, N)."""
        assert self.smoothness is not None
        N, total = q.shape[1], np.zeros_like(q)
        for k, band in enumerate(self.smoothness.bands(N)):
            total[:, : N - k] += band * q[:, k:]
            if k:
                total[:, k:] += band * q[:, : N - k]
        return np.asarray(self.smoothness.information @ total)

    def normal(self, state: State) -> Normal:
        """Matrix and gradient there."""
        T, N = self.weights.shape
        n, m = len(state.q), len(state.shared)
        arguments = self.arguments(state.q, state.shared)
        root = np.sqrt(self.weights * state.trust) / self.noise
        rows = np.repeat(root, 3, axis=0).T  # (N, 3 T)
        r = rows * state.gaps.transpose(2, 1, 0).reshape(N, 3 * T)
        J = self.functions.jacobian(*arguments, of="outputs", wrt="states")
        J = J.transpose(2, 1, 0) * rows[:, None]  # (N, n, 3 T)
        A, g = J @ J.transpose(0, 2, 1), (J @ r[..., None])[..., 0]
        B, S, s = np.zeros((N, m, n)), np.zeros((m, m)), np.zeros(m)
        if m:
            K = self.functions.jacobian(*arguments, of="outputs", wrt="parameters")
            K = K[:, self.places].transpose(2, 1, 0) * rows[:, None]
            B = K @ J.transpose(0, 2, 1)
            flat = K.transpose(1, 0, 2).reshape(m, -1)
            S = flat @ flat.T + np.diag(self.std**-2.0)
            s = flat @ r.reshape(-1) + (state.shared - self.prior) / self.std**2
        if self.smoothness is not None:
            g = g + self._roughness(state.q).T
        return Normal(A, g, B, S, s)


def trust_of(loss: RobustLoss, e: Array) -> Array:
    """psi(e)/e for e >= 0, and its limit at 0."""
    safe = np.maximum(e, 1e-12)
    return np.asarray(loss.slope(safe) / safe)
