"""Discretisation schemes: explicit Runge-Kutta methods and collocation schemes, as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import count, shown

#: Numbers of one row of a tableau, and its rows.
Row: TypeAlias = tuple[float, ...]
Rows: TypeAlias = tuple[Row, ...]

#: Stages of a collocation method at most: KS_UNKNOWN_MOST of kinesym.h.
MOST_STAGES = 8

#: Errors of order conditions that are those of rounding, in coefficients that were computed.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class ExplicitScheme:
    """An explicit Runge-Kutta method: x' is k_s at the stages s, at t_0 + c_s h and
    x_0 + h (A_s0 k_0 + A_s1 k_1 + ...), and x_1 = x_0 + h (b_0 k_0 + b_1 k_1 + ...).

    nodes : c, the first one 0. matrix : rows of A, s numbers in row s. weights : b.
    error : weights of all k, with x' at the end last, of the error by which steps are chosen; None:
        steps are fixed.
    dense : weights of all k, likewise, of D in the state at the share s of a step,
        `x_0 + s (d + (1 - s) (e + s (f + (1 - s) h D)))`, with d = x_1 - x_0 and e, f such that it
        has the rates of both ends; None: D = 0.
    """

    name: str
    nodes: Row
    matrix: Rows
    weights: Row
    error: Row | None = None
    dense: Row | None = None
    order: int
    reference: str

    def __post_init__(self) -> None:
        _check_sum(self.name, "stage", self.weights, 1.0)
        for c, row in zip(self.nodes, self.matrix, strict=True):
            _check_sum(self.name, "matrix", row, c)
        for name in ("error", "dense"):
            _check_sum(self.name, name, getattr(self, name) or (), 0.0)
        if [len(row) for row in self.matrix] != list(range(len(self.weights))):
            raise ValueError(f"scheme {self.name}: row s of the matrix must have s numbers")

    @property
    def title(self) -> str:
        """Name of the method in messages."""
        return self.name

    @property
    def tableau(self) -> dict[str, object]:
        """Butcher tableau as numbers for the loops: rows of `a` lead to the stages, the last one to
        the end."""
        stages = len(self.weights)
        rows = [[*row, *[0.0] * (stages - len(row))] for row in (*self.matrix, self.weights)]
        return {
            "order": self.order,
            "implicit": 0,
            "c": [*self.nodes, 1.0],
            "a": rows,
            "error": list(self.error or ()),
            "dense": list(self.dense or ()),
        }


@dataclass(frozen=True)
class CollocationScheme:
    """An implicit Runge-Kutta method that is a collocation method: on an interval of length h the
    states are polynomials whose rates satisfy the equations at the stages t_0 + c_i h.

    With k_i = x' at the stages, x_i = x_0 + h sum_j A_ij k_j there and x_1 = x_0 + h sum_j b_j k_j.

    alias : a well-known name. nodes : c, increasing. matrix : rows of A. weights : b.
    order : of convergence at the nodes of the grid, for smooth problems. reference : source.

    Raises `ValueError` for more stages than steps are made of, 8, what is not as many numbers as
    there are stages, and unless the order conditions hold: sum_j b_j c_j^(q-1) = 1/q for
    q <= order, and sum_j A_ij c_j^(q-1) = c_i^q / q for q <= s, which makes it a collocation method
    of that order, as Gauss, Radau IIA, Lobatto IIIA are, not Lobatto IIIC or SDIRK (Hairer,
    Norsett, Wanner, Solving Ordinary Differential Equations I, II.7.7, 7.9).
    """

    name: str
    alias: str
    nodes: Row
    matrix: Rows
    weights: Row
    order: int
    reference: str

    def __post_init__(self) -> None:
        what = f"scheme {self.name}"
        c = _numbers(self.nodes, f"{what}: the nodes", None)
        s = len(c)
        if s > MOST_STAGES:
            raise ValueError(f"{what} has {s} stages; steps are made of at most {MOST_STAGES}")
        if (np.diff(c) <= 0.0).any():
            raise ValueError(f"{what}: the nodes must increase, got {shown(self.nodes)}")
        b = _numbers(self.weights, f"{what}: the weights", (s,))
        A = _numbers(self.matrix, f"{what}: the matrix", (s, s))
        plain = {
            "nodes": tuple(c.tolist()),
            "weights": tuple(b.tolist()),
            "matrix": tuple(map(tuple, A.tolist())),
            "order": count(self.order, f"{what}: the order"),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        for q in range(1, self.order + 1):
            if abs(b @ c ** (q - 1) - 1.0 / q) > _ROUNDING:
                raise ValueError(f"scheme {self.name}: the weights miss order condition {q}")
        for q in range(1, self.stages + 1):
            if np.abs(A @ c ** (q - 1) - c**q / q).max() > _ROUNDING:
                raise ValueError(
                    f"scheme {self.name}: the matrix misses order condition {q}, so that "
                    "this is no collocation method"
                )

    @property
    def title(self) -> str:
        """Name of the scheme in messages, with its well-known name."""
        return f"{self.name} ({self.alias})" if self.alias else self.name

    @property
    def stages(self) -> int:
        """Number of stages s."""
        return len(self.nodes)

    @property
    def explicit_start(self) -> bool:
        """Whether the first stage is the node itself, so that x' there is given by the state
        (Lobatto IIIA)."""
        return self.nodes[0] == 0.0

    @property
    def ends_at_stage(self) -> bool:
        """Whether the last stage is the next node (Radau IIA, Lobatto IIIA)."""
        return self.nodes[-1] == 1.0

    @property
    def tableau(self) -> dict[str, object]:
        """Butcher tableau as numbers for the loops: rows of `a` lead to the stages, the last one to
        the end."""
        return {
            "order": self.order,
            "implicit": self.stages - self.explicit_start,
            "c": [*self.nodes, 1.0],
            "a": [list(row) for row in (*self.matrix, self.weights)],
            "error": [],
            "dense": [],
        }

    @cached_property
    def first_rates(self) -> Row:
        """Weights of the rates at the stages in that at the begin by which the error of a step is
        estimated: its residual, filtered by (gamma/h M + J)^-1, is the difference to a method of
        order s with the real eigenvalue 1/gamma of A (Hairer, Wanner, Solving Ordinary Differential
        Equations II, IV.8.19). Raises `ValueError` if there is no such eigenvalue."""
        A, c, s = np.array(self.matrix), np.array(self.nodes), self.stages
        if s % 2 == 0 or self.explicit_start:
            raise ValueError(f"scheme {self.name} has no error estimate: A has no real eigenvalue")
        values = np.linalg.eigvals(A)
        own = float(values[np.argmin(np.abs(values.imag))].real)
        powers = np.vander(c, s, increasing=True).T
        lower = np.linalg.solve(powers, 1.0 / np.arange(1, s + 1) - own * np.eye(s)[0])
        return tuple(((np.array(self.weights) - lower) / own).tolist())

    @cached_property
    def inner(self) -> Row:
        """Places within the interval at which states are unknown: with both nodes they determine
        the polynomials, for Lobatto IIIA together with the rates."""
        return self.nodes[self.explicit_start : -1]

    @cached_property
    def knots(self) -> Row:
        """Places of all states of an interval: both nodes and `inner`."""
        return (0.0, *self.inner, 1.0)

    def states(self, places: ArrayLike) -> NDArray[np.float64]:
        """Weights of the states at the knots in those at `places` (k,), as (k, knots)."""
        return lagrange(self.knots, places)

    def rates(self, places: ArrayLike) -> NDArray[np.float64]:
        """Weights of the states at the knots in h x' at `places` (k,), as (k, knots)."""
        return lagrange(self.knots, places, derivative=True)

    def inputs(self, places: ArrayLike) -> NDArray[np.float64]:
        """Weights of what is known at the stages (inputs, algebraic states) at `places` (k,), as
        (k, stages)."""
        return lagrange(self.nodes, places)


def lagrange(knots: ArrayLike, places: ArrayLike, derivative: bool = False) -> NDArray[np.float64]:
    """Values, or derivatives, of the Lagrange polynomials through `knots` (m,) at `places` (k,), as
    (k, m)."""
    x, at = np.asarray(knots, float), np.atleast_1d(np.asarray(places, float))
    found = np.empty((len(at), len(x)))
    for j, own in enumerate(x):
        others = np.delete(x, j)
        factors = (at[:, None] - others) / (own - others)
        if not derivative:
            found[:, j] = factors.prod(axis=1)
            continue
        slopes = [np.delete(factors, m, axis=1).prod(axis=1) for m in range(len(others))]
        found[:, j] = sum(slope / (own - o) for slope, o in zip(slopes, others, strict=True))
    return found


def _check_sum(name: str, what: str, weights: tuple[float, ...], total: float) -> None:
    if abs(sum(weights) - total) > 1e-14:
        raise ValueError(f"scheme {name}: {what} weights must sum to {total:g}")


def _numbers(given: ArrayLike, what: str, shape: tuple[int, ...] | None) -> NDArray[np.float64]:
    """An array of finite numbers of this shape; a row of any length if that is None."""
    rows = "numbers in a row" if shape is None else " rows of ".join(map(str, shape)) + " numbers"
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    fits = found.ndim == 1 and found.size > 0 if shape is None else found.shape == shape
    if not fits or not np.isfinite(found).all():
        raise ValueError(f"{what} must be {rows}, got {shown(given)}")
    return found
