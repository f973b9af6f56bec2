"""Functions in models of OpenSim: elements as tables."""

from __future__ import annotations

from math import comb
from xml.etree.ElementTree import Element

from kinesym.base.checks import naming
from kinesym.models.files.description import (
    Constant,
    Function,
    Linear,
    Multivariate,
    Points,
    Polynomial,
    Scaled,
    Sine,
)
from kinesym.models.files.xml import named, number, numbers, words

#: Splines by their name in the file and in `ks.table`. Up to version 2.3 a `NaturalCubicSpline` was
#: what is now a `SimmSpline`.
SPLINES = {
    "SimmSpline": "simm",
    "natCubicSpline": "simm",
    "NaturalCubicSpline": "simm",
    "PiecewiseLinearFunction": "linear",
    "PiecewiseConstantFunction": "step",
}
#: Natural splines by half of their order, and what they are beyond their ends.
NATURAL = {1: ("linear", "constant"), 2: ("natural", "linear"), 3: ("quintic", "quadratic")}
#: Tags beside the function of an axis, in files without an element around it.
NONE = ("function", "axis", "coordinates")


def function_element(holder: Element | None) -> Element | None:
    """The element of a function in another one, if there is one."""
    found = (e for e in ([] if holder is None else holder) if e.tag not in NONE)
    return next(found, None)


def function_in(holder: Element | None, where: str) -> Function:
    """The function in an element; raises `ValueError` if there is none that is known."""
    e = function_element(holder)
    if e is None:
        raise ValueError(f"{where} has no function")
    with naming(where):
        return function_of(e)


def function_of_axis(axis: Element, where: str) -> Function:
    """Function of an axis of a custom joint. Without one it is the coordinate itself or, of no
    coordinate, zero (`SpatialTransform::connectToJoint` of OpenSim)."""
    holder = axis.find("function")
    holder = axis if holder is None else holder
    if function_element(holder) is not None:
        return function_in(holder, where)
    coordinates = words(axis, "coordinates")
    if len(coordinates) > 1:
        raise ValueError(f"{where} has no function of its {len(coordinates)} coordinates")
    return Linear((1.0, 0.0)) if coordinates else Constant(0.0)


def function_of(e: Element) -> Function:
    """An element of a function."""
    if e.tag == "Constant":
        return Constant(number(e, "value", 0.0))
    if e.tag == "LinearFunction":
        return Linear(tuple(numbers(e, "coefficients")))
    if e.tag == "PolynomialFunction":
        return Polynomial(tuple(numbers(e, "coefficients")))
    if e.tag == "Sine":
        amplitude, omega, phase = (number(e, tag) for tag in ("amplitude", "omega", "phase"))
        return Sine(amplitude, omega, phase, number(e, "offset", 0.0))
    if e.tag == "MultiplierFunction":
        return scaled(function_in(e.find("function"), named(e)), number(e, "scale", 1.0))
    if e.tag == "MultivariatePolynomialFunction":
        return multivariate(e)
    if e.tag in SPLINES:
        return through_points(e, SPLINES[e.tag])
    if e.tag == "GCVSpline":
        return natural(e)
    raise ValueError(f"functions of the kind {e.tag} are not known")


def through_points(e: Element, kind: str, outside: str = "linear") -> Points:
    """A function through points."""
    x, y = numbers(e, "x"), numbers(e, "y")
    if len(x) != len(y):
        raise ValueError(f"{named(e)} has {len(x)} points and {len(y)} values")
    return Points(kind, tuple(x), tuple(y), outside)


def natural(e: Element) -> Points:
    """A natural spline. Raises `ValueError` for one that smooths, for degree 7, and for fewer
    points than OpenSim takes."""
    half, variance = number(e, "half_order"), number(e, "error_variance", 0.0)
    if variance != 0.0:
        raise ValueError(
            f"{named(e)} smooths its points, as its error_variance is {variance:g}; known are "
            "splines through points, those of error_variance 0"
        )
    if half not in NATURAL:
        raise ValueError(f"{named(e)}: its half_order is one of 1, 2, 3, got {half:g}")
    found = through_points(e, *NATURAL[int(half)])
    if len(found.x) < 2 * half:
        raise ValueError(f"{named(e)} has {len(found.x)} points, not {2 * half:g} or more")
    return found


def multivariate(e: Element) -> Multivariate:
    """A polynomial of several coordinates."""
    coefficients = numbers(e, "coefficients")
    dimension, order = (number(e, tag) for tag in ("dimension", "order"))
    whole = dimension == int(dimension) > 0 and order == int(order) >= 0
    count = comb(int(dimension + order), int(order)) if whole else 0
    if count != len(coefficients):
        raise ValueError(
            f"{named(e)} has {len(coefficients)} coefficients, which is not the number of terms of "
            f"{dimension:g} coordinates to order {order:g}"
        )
    return Multivariate(int(order), tuple(coefficients))


def scaled(function: Function, scale: float) -> Function:
    """A function times a number, constants at once."""
    if isinstance(function, Constant):
        return Constant(scale * function.value)
    return function if scale == 1.0 else Scaled(function, scale)
