"""Polynomials of coordinates in place of the paths of muscles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from scipy.stats import qmc

from kinesym.symbolic.names import t
from kinesym.symbolic.table import NumericFunction

Array = NDArray[np.float64]
Coordinates = Mapping[str, Array]

#: Logarithm to base 2 of the number of poses of one coordinate.
_FEW = 8
#: Logarithm to base 2 of the number of poses at most.
_MANY = 9
#: Logarithm to base 2 of the number of poses of the check.
_CHECKED = 9
#: Highest degree by the number of coordinates: up to some 200 monomials.
_HIGHEST = {1: 12, 2: 12, 3: 8}
#: Highest degree of more coordinates.
_OTHERS = 6
#: Factor over the best error that is enough if that misses the tolerance.
_ENOUGH = 1.1
#: Share of the square of a monomial below which its part independent of others is rounding.
_LITTLE = 1e-13
#: A coordinate on which the length depends by less than this is left out [m, or 1].
_NONE = 1e-7


@dataclass(frozen=True)
class PathFit:
    """The length of a muscle as a polynomial, fitted to lengths and moment arms together.

    length : an expression of the coordinates [m]. slopes : its derivatives by coordinate. ranges :
    of the coordinates that it depends on, by name [rad, m]; it holds in these. terms : of the
    polynomial; degree : of the highest. length_rms, length_max : errors of the length [m] in poses
    that it was not fitted to; arm_rms, arm_max : of moment arms [m] by coordinate.
    """

    length: sp.Expr
    slopes: dict[str, sp.Expr]
    ranges: dict[str, tuple[float, float]]
    terms: int
    degree: int
    length_rms: float
    length_max: float
    arm_rms: dict[str, float]
    arm_max: dict[str, float]

    @property
    def worst(self) -> float:
        """The largest RMS error of length and moment arms [m]."""
        return max(self.length_rms, *self.arm_rms.values(), 0.0)

    def lengths(self, q: Coordinates) -> Array:
        """Lengths (N,) [m] for coordinates (N,) [rad, m] by name."""
        return self._values([self.length], q)[0]

    def moment_arms(self, q: Coordinates) -> dict[str, Array]:
        """Minus the derivatives of the length (N,) by the name of the coordinate [m, or 1]."""
        rows = self._values([-e for e in self.slopes.values()], q)
        return dict(zip(self.slopes, rows, strict=True))

    def _values(self, rows: list[sp.Expr], q: Coordinates) -> list[Array]:
        plain = {sp.Function(name)(t): sp.Symbol(name) for name in self.ranges}
        function = NumericFunction([*plain.values()], [e.xreplace(plain) for e in rows])
        given = [np.asarray(q[name], dtype=np.float64) for name in self.ranges]
        shape = np.broadcast_shapes((), *(x.shape for x in given))
        return [np.broadcast_to(np.asarray(row), shape) for row in function(*given)]

    def __str__(self) -> str:
        arms = ", ".join(
            f"{name} {1e3 * rms:.2g} (largest {1e3 * self.arm_max[name]:.2g})"
            for name, rms in self.arm_rms.items()
        )
        return (
            f"{self.terms} terms to degree {self.degree}; errors [mm]: length "
            f"{1e3 * self.length_rms:.2g} (largest {1e3 * self.length_max:.2g}); moment arms {arms}"
        )


def fitted(
    lengths: Callable[[Coordinates], Array],
    arms: Callable[[Coordinates], dict[str, Array]],
    ranges: Mapping[str, tuple[float, float]],
    tolerance: float,
    degree: int | None = None,
) -> PathFit:
    """The polynomial with the fewest terms whose errors (RMS) of length and of every moment arm are
    within the tolerance [m], or nearly the best one.

    Terms come one after the other, each the one that explains most of what is left (stepwise
    regression as A.J. van den Bogert et al. 2013, IEEE Trans Biomed Eng 60(2)); the degree is
    raised when those of the degree before do not suffice, up to `degree`; by default up to 12 for
    one or two coordinates, 8 for three and 6 for more. Poses are Sobol points.
    """
    if degree is not None and degree < 1:
        raise ValueError(f"the degree must be 1 or more, got {degree}")
    size = min(_FEW + max(len(ranges) - 1, 0), _MANY)
    points = _points(len(ranges), size)
    fit = _Samples.of(lengths, arms, ranges, points[:, : 2**size])
    used = [k for k, row in enumerate(fit.arms) if np.abs(row).max() > _NONE]
    check = _Samples.of(lengths, arms, ranges, points[:, 2**size :])
    highest = _HIGHEST.get(len(used), _OTHERS) if degree is None else degree
    powers: list[tuple[int, ...]] = [()]
    columns, reached = fit.columns(powers), list[float]()
    for order in range(1, highest + 1):
        more = [*combinations_with_replacement(used, order)]
        powers, columns = powers + more, np.concatenate([columns, fit.columns(more)], axis=2)
        reached.append(_error(fit.values - columns @ _solved(columns, fit.values)))
        if reached[-1] <= tolerance:
            break
    # The lowest degree that is about as good as the best
    enough = max(tolerance, _ENOUGH * min(reached))
    order = next(k for k, error in enumerate(reached, start=1) if error <= enough)
    powers = [p for p in powers if len(p) <= order]
    columns = columns[:, :, : len(powers)]
    chosen = _stepwise(columns, fit.values, enough)
    found = [powers[k] for k in chosen], _solved(columns[:, :, chosen], fit.values)
    return _described(*found, check, ranges)


@dataclass(frozen=True)
class _Samples:
    """Poses. x : coordinates in -1 ... 1 (n, N). half : half of their ranges (n,). lengths (N,);
    arms (n, N): minus the derivatives."""

    x: Array
    half: Array
    lengths: Array
    arms: Array

    @classmethod
    def of(
        cls,
        lengths: Callable[[Coordinates], Array],
        arms: Callable[[Coordinates], dict[str, Array]],
        ranges: Mapping[str, tuple[float, float]],
        x: Array,
    ) -> _Samples:
        """At these points of the ranges."""
        ends = np.array([*ranges.values()]).reshape(-1, 2)
        middle, half = ends.mean(axis=1), 0.5 * np.ptp(ends, axis=1)
        q = {name: m + h * row for name, m, h, row in zip(ranges, middle, half, x, strict=True)}
        found = arms(q)
        rows = np.array([found[name] for name in ranges]).reshape(x.shape)
        return cls(x, half, np.broadcast_to(lengths(q), x.shape[1:]), rows)

    def columns(self, powers: Sequence[tuple[int, ...]]) -> Array:
        """Lengths and moment arms of monomials, given by the coordinates that are their factors,
        (1 + n, N, terms)."""
        n = len(self.x)
        counts = np.array([[p.count(k) for k in range(n)] for p in powers], dtype=int)
        counts = counts.reshape(len(powers), n)
        exponents = np.arange(counts.max(initial=0) + 1)
        tables = [row[:, None] ** exponents for row in self.x]  # (N, exponents)
        found = np.ones((1 + n, self.x.shape[1], len(powers)))
        for k, table in enumerate(tables):
            lower = table[:, np.maximum(counts[:, k] - 1, 0)]
            found[1 + k] = (-counts[:, k] / self.half[k]) * lower
        for k, table in enumerate(tables):
            factor = table[:, counts[:, k]]
            for row in {*range(1 + n)} - {1 + k}:
                found[row] *= factor
        return found

    @property
    def values(self) -> Array:
        """Values that columns are fitted to (1 + n, N): lengths and moment arms."""
        return np.concatenate([self.lengths[None], self.arms])


def _points(dimensions: int, size: int) -> Array:
    """Sobol points in -1 ... 1, those to fit to and those of the check (n, N)."""
    if not dimensions:
        return np.zeros((0, 2**size + 1))
    sobol = qmc.Sobol(dimensions, scramble=False)
    parts = sobol.random_base2(size), sobol.random(2**_CHECKED)
    return np.asarray(2.0 * np.concatenate(parts).T - 1.0)


def _solved(columns: Array, values: Array) -> Array:
    """Coefficients by least squares; normal equations are exact enough, as x is in -1 ... 1."""
    A = columns.reshape(-1, columns.shape[2])
    return np.asarray(np.linalg.lstsq(A.T @ A, A.T @ values.ravel(), rcond=None)[0])


def _stepwise(columns: Array, values: Array, tolerance: float) -> list[int]:
    """Numbers of the columns that reach the tolerance, the best of each moment, after the first,
    which is the constant.

    Of what the chosen columns leave of the others, only squares and products with the residual are
    needed, and these follow from A'A, row by row of its Cholesky factor.
    """
    A, residual = columns.reshape(-1, columns.shape[2]), values.ravel()
    gram, product = A.T @ A, A.T @ residual
    chosen, basis = list[int](), np.zeros((len(residual), A.shape[1]))
    left, factor = gram.diagonal().copy(), np.zeros(gram.shape)
    while len(chosen) < A.shape[1]:
        gains = product**2 / np.maximum(left, _LITTLE * gram.diagonal())
        gains[chosen] = -1.0
        best, k = int(np.argmax(gains)) if chosen else 0, len(chosen)
        new = A[:, best]
        for _ in range(2):
            new = new - basis[:, :k] @ (basis[:, :k].T @ new)
        basis[:, k] = new / np.linalg.norm(new)
        chosen.append(best)
        along = float(basis[:, k] @ residual)
        residual = residual - along * basis[:, k]
        if _error(residual.reshape(values.shape)) <= tolerance:
            break
        size = np.sqrt(max(left[best], _LITTLE * gram[best, best]))
        factor[k] = (gram[best] - factor[:k, best] @ factor[:k]) / size
        left, product = left - factor[k] ** 2, product - along * factor[k]
    return chosen


def _error(errors: Array) -> float:
    """Error of a fit: the largest RMS of length and moment arms."""
    return float(np.sqrt(np.mean(errors**2, axis=1)).max())


def _described(
    powers: Sequence[tuple[int, ...]],
    coefficients: Array,
    check: _Samples,
    ranges: Mapping[str, tuple[float, float]],
) -> PathFit:
    """The polynomial as an expression, with its errors in poses of its own."""
    error = check.columns(powers) @ coefficients - check.values
    rms, largest = np.sqrt(np.mean(error**2, axis=1)), np.abs(error).max(axis=1)
    used = sorted({k for factors in powers for k in factors})
    names = [*ranges]
    terms = {
        tuple(np.bincount(np.array(p, dtype=int), minlength=len(names)).tolist()): float(c)
        for p, c in zip(powers, coefficients, strict=True)
    }
    x = [_scaled(name, *ends) for name, ends in ranges.items()]
    return PathFit(
        _nested(terms, x),
        {names[k]: _nested(_slope(terms, k, float(check.half[k])), x) for k in used},
        {names[k]: ranges[names[k]] for k in used},
        len(powers),
        max(map(len, powers)),
        float(rms[0]),
        float(largest[0]),
        {names[k]: float(rms[1 + k]) for k in used},
        {names[k]: float(largest[1 + k]) for k in used},
    )


#: Coefficients by the power of each coordinate.
_Terms = dict[tuple[int, ...], float]


def _scaled(name: str, low: float, high: float) -> sp.Expr:
    """A coordinate from -1 to 1 in its range."""
    q: sp.Expr = sp.Function(name)(t)
    return (q - sp.Float(0.5 * (low + high))) * sp.Float(2.0 / (high - low))


def _slope(terms: _Terms, k: int, half: float) -> _Terms:
    """The derivative with respect to a coordinate, half of whose range is `half`."""
    return {
        (*powers[:k], powers[k] - 1, *powers[k + 1 :]): c * powers[k] / half
        for powers, c in terms.items()
        if powers[k]
    }


def _nested(terms: _Terms, x: Sequence[sp.Expr]) -> sp.Expr:
    """Horner form of a polynomial: a polynomial of the last variable, whose coefficients are Horner
    forms in the variables before."""
    if not x:
        return sp.Float(sum(terms.values()))
    by_power: dict[int, _Terms] = {}
    for powers, c in terms.items():
        by_power.setdefault(powers[-1], {})[powers[:-1]] = c
    highest = max(by_power)
    result = _nested(by_power[highest], x[:-1])
    for power in range(highest - 1, -1, -1):  # nothing to simplify, which would take SymPy long
        result = sp.Mul(x[-1], result, evaluate=False)
        if power in by_power:
            result = sp.Add(_nested(by_power[power], x[:-1]), result, evaluate=False)
    return result
