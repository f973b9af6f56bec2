"""Values of operations of the expression graph, of real NumPy arrays, and of complex ones, for
derivatives by the complex step: continued from the real line, to first order at least."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy


def _continued(value: Callable[..., Any], *slopes: Callable[..., Any]) -> Callable[..., Any]:
    """A function of real arrays, continued to first order in imaginary parts. slopes : partial
    derivatives from the real value and the real operands."""

    def function(*x: Any) -> Any:
        real = [np.real(each) for each in x]
        found = value(*real)
        if any(map(np.iscomplexobj, x)):
            terms = zip(slopes, x, strict=True)
            return found + 1j * sum(slope(found, *real) * np.imag(each) for slope, each in terms)
        return found

    return function


def _constant_order(value: Callable[..., Any], slope: Callable[..., Any]) -> Callable[..., Any]:
    """Function of a whole number and x, extended to complex x, see `_continued`."""
    whole = _continued(value, lambda y, n, x: 0.0 * x, slope)
    return lambda n, x: whole(np.real(n), x)


def _real_polygamma(n: Any, x: Any) -> Any:
    order = int(np.ravel(n)[0])
    return scipy.special.psi(x) if order == 0 else scipy.special.polygamma(order, x)


def locate(data: Any, begin: Any, count: Any, x: Any) -> Any:
    """Number of the increasing points of a table that are not larger than x."""
    first, x = int(begin) + 1, np.real(x)
    found = np.searchsorted(data[first : first + int(count)], x, side="right")
    return np.where(np.isnan(x), 0.0, found)


def entry(data: Any, begin: Any, step: Any, number: Any) -> Any:
    """A number of a table."""
    return data[np.asarray(begin + step * number, dtype=np.intp)]


def size(x: Any) -> Any:
    """Absolute value, analytic but at 0."""
    return np.where(np.real(x) < 0.0, -x, x)


def sign(x: Any) -> Any:
    """Sign of the real part."""
    return np.sign(np.real(x))


def sign_of_constant(x: float) -> float:
    """Sign of a Python float."""
    return math.copysign(1.0, x) if x else 0.0


def floor(x: Any) -> Any:
    """Largest whole number that is not larger than the real part."""
    return np.floor(np.real(x))


def gamma(x: Any) -> Any:
    """The gamma function; infinite at its poles, so that its reciprocal is 0 there."""
    pole = (np.real(x) <= 0.0) & (np.real(x) == np.floor(np.real(x)))
    return np.where(pole, np.inf, scipy.special.gamma(x))


def gamma_of_constant(x: float) -> float:
    """Gamma function of a Python float; infinite at its poles."""
    return math.inf if x <= 0.0 and x == math.floor(x) else math.gamma(x)


def erf(x: Any) -> Any:
    """The error function."""
    return scipy.special.erf(x)


def erfc(x: Any) -> Any:
    """The complement of the error function."""
    return scipy.special.erfc(x)


def log_gamma(x: Any) -> Any:
    """Logarithm of the gamma function, of arguments that are not negative; NaN for others."""
    return np.where(np.real(x) < 0.0, np.nan, scipy.special.loggamma(x))


def chosen(second: Callable[..., Any]) -> Callable[..., Any]:
    """The second of two where that holds, or where it is no number."""
    return lambda a, b: np.where(second(a, b) | (b != b), b, a)


arctan2 = _continued(
    np.arctan2,
    lambda v, y, x: x / (x**2 + y**2),
    lambda v, y, x: -y / (x**2 + y**2),
)
mod = _continued(np.mod, lambda v, x, y: 1.0, lambda v, x, y: -np.rint((x - v) / y))
hypot = _continued(np.hypot, lambda v, x, y: x / v, lambda v, x, y: y / v)
cbrt = _continued(np.cbrt, lambda v, x: 1.0 / (3.0 * v * v))
polygamma = _constant_order(_real_polygamma, lambda v, n, x: _real_polygamma(n + 1, x))
bessel_j = _constant_order(
    lambda n, x: scipy.special.jv(n, x),
    lambda v, n, x: scipy.special.jvp(int(np.ravel(n)[0]), x),
)
bessel_y = _constant_order(
    lambda n, x: scipy.special.yv(n, x),
    lambda v, n, x: scipy.special.yvp(int(np.ravel(n)[0]), x),
)
