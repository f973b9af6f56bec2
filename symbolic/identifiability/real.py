"""Power series of the steps of a program in real numbers, with tangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from kinesym.symbolic.identifiability.expanded import orders
from kinesym.symbolic.identifiability.points import put
from kinesym.symbolic.identifiability.series import Series
from kinesym.symbolic.identifiability.system import System
from kinesym.symbolic.identifiability.tape import Step

Reals = NDArray[np.float64]

#: Newton steps to x' at the start: one where the equations are linear in it.
_NEWTON = 8

_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "sin": np.sin, "cos": np.cos, "log": np.log, "atan": np.arctan,
    "asin": np.arcsin, "erf": erf,
}  # fmt: skip


class RealArithmetic:
    """Arithmetic in floating point."""

    def reduced(self, values: Reals) -> Reals:
        """Values as they are: nothing is reduced."""
        return values

    def number(self, value: Fraction) -> float:
        """The nearest floating-point number."""
        return float(value)

    def inverses(self, values: Reals) -> Reals:
        """1 / value."""
        return 1 / values

    def product(self, a: Reals, b: Reals) -> Reals:
        """Product of matrices."""
        return a @ b


class RealSeries(Series):
    """Series in floating point."""

    def _constant(self, place: int, step: Step) -> tuple[Reals, Reals | None]:
        count = self.values[place].shape[1]
        if step.kind in ("number", "constant"):
            return np.full(count, float(step.data)), None
        a, g = (self.values[k][0][:, 0] for k in step.args[:2])
        if step.data == "power":
            value = self.values[step.args[2]][0][:, 0] ** float(step.factor)
            return value, value
        value = _FUNCTIONS[step.data](a)
        slope = {"exp": value, "sin": np.cos(a), "cos": np.sin(a)}.get(step.data, g)
        return value, slope


def coefficients(
    system: System, values: Mapping[int, Reals], by: Sequence[int], inputs: Reals, order: int
) -> Reals:
    """Conditions, then coefficients 0, 1, ... of the outputs, each with derivatives, (P, rows,
    1 + len(by)); not finite where a point has none.

    values : of variables by step, (P,). inputs : coefficients, (order + 1, inputs).
    """
    count = len(next(iter(values.values())))
    values, inverses = _solved(system, values, count)
    series = RealSeries(system.steps, RealArithmetic(), count, 1 + len(by), order)
    for u, row in zip(system.inputs, inputs.T, strict=True):
        series.values[u][:, :, 0] = row[: order + 1, None]
    for place in system.times if order else ():
        series.values[place][1, :, 0] = 1
    put(system, series, values, {place: k for k, place in enumerate(by, 1)})
    rows = list[Reals]()
    for k in orders(system, series, inverses, order):
        rows += [series.at(e, 0) for e in system.conditions] if not k else []
        rows += [series.at(e, k) for e in system.outputs]
    return np.stack(rows, axis=1)


def _solved(
    system: System, values: Mapping[int, Reals], count: int
) -> tuple[Mapping[int, Reals], Reals]:
    """Values with x' that the equations hold for, and inverses of the Jacobian by x'."""
    n = len(system.equations)
    inverses, found = np.zeros((count, n, n)), dict(values)
    for _ in range(_NEWTON if n else 0):
        series = RealSeries(system.steps, RealArithmetic(), count, 1 + n, 0)
        put(system, series, found, {place: k for k, place in enumerate(system.rates, 1)})
        series.start(system.solving)
        left = np.stack([series.values[e][0] for e in system.equations], axis=1)
        jacobian = left[:, :, 1:]
        good = np.isfinite(left).all(axis=(1, 2))
        jacobian[~good] = np.eye(n)
        good &= abs(np.linalg.det(jacobian)) > 0
        jacobian[~good] = np.eye(n)
        inverses = np.linalg.inv(jacobian)
        inverses[~good] = np.nan
        change = (inverses @ left[:, :, :1])[:, :, 0]
        for j, place in enumerate(system.rates):
            found[place] = found[place] - change[:, j]
        size = max(1.0, *(abs(found[place][good]).max(initial=0) for place in system.rates))
        if abs(change[good]).max(initial=0) <= 1e-9 * size:
            break
    return found, inverses
