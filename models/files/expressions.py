"""Coordinates and functions of a file as expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
import sympy as sp

from kinesym.models.files.description import (
    Constant,
    Coupler,
    Description,
    Function,
    Linear,
    Motion,
    Multivariate,
    OnArc,
    OnEllipsoid,
    Points,
    Polynomial,
    Scaled,
    Sine,
)
from kinesym.models.files.passive import number
from kinesym.symbolic.names import check_known, t
from kinesym.symbolic.table import table


def coordinate_values(description: Description, fixed: Mapping[str, float]) -> dict[str, sp.Expr]:
    """Expressions of coordinates: itself, a number if it is fixed, or a function of others if it is
    coupled."""
    couplers = {row.coordinate: row for row in description.couplers}
    found: dict[str, sp.Expr] = {}

    def value(name: str, waiting: tuple[Coupler, ...] = ()) -> sp.Expr:
        if name not in found:
            check_known(name, description.coordinates, f"{name} is no coordinate")
            if name in fixed:
                found[name] = number(fixed[name])
            elif name not in couplers:
                found[name] = sp.Function(identifier(name))(t)
            elif couplers[name] in waiting:
                raise ValueError(f"the couplers of {name} go in a circle")
            else:
                row = couplers[name]
                given = [value(other, (*waiting, row)) for other in row.of]
                found[name] = expression(row.function, given)
        return found[name]

    return {name: value(name) for name in description.coordinates}


def expression_of(motion: Motion, values: Mapping[str, sp.Expr]) -> sp.Expr:
    """The function of a motion at its coordinates."""
    for name in motion.coordinates:
        check_known(name, values, f"{name} is no coordinate")
    return expression(motion.function, [values[name] for name in motion.coordinates])


def expression(function: Function, variables: Sequence[sp.Expr]) -> sp.Expr:
    """A function of a file at expressions."""
    match function:
        case Constant(value=value):
            return number(value)
        case Linear(coefficients=(*slopes, last)) if len(slopes) == len(variables):
            terms = (number(a) * x for a, x in zip(slopes, variables, strict=True))
            return sp.Add(*terms, number(last))
        case Scaled(function=inner, scale=scale):
            return number(scale) * expression(inner, variables)
        case OnEllipsoid(axis=axis, radius=radius) if len(variables) == 2:
            a, b = variables
            across = sp.sin(b), -sp.sin(a) * sp.cos(b), sp.cos(a) * sp.cos(b)
            return number(radius) * across[axis]
        case OnArc(axis=axis, length=length, neutral=neutral) if len(variables) == 2:
            a, b = (q + number(angle) for q, angle in zip(variables, neutral, strict=True))
            return number(length) * on_arc(a, b)[axis]
        case Multivariate(order=order, coefficients=coefficients):
            every = product(range(order + 1), repeat=len(variables))
            ways = [way for way in every if sum(way) <= order]
            if len(ways) == len(coefficients):
                pairs = zip(coefficients, ways, strict=True)
                return sp.Add(*(number(c) * monomial(variables, way) for c, way in pairs))
    if len(variables) != 1:
        kind = type(function).__name__.lower()
        raise ValueError(f"a {kind} function does not fit {len(variables)} coordinates")
    (x,) = variables
    match function:
        case Polynomial(coefficients=coefficients):
            powers = range(len(coefficients) - 1, -1, -1)
            return sp.Add(*(number(c) * x**k for c, k in zip(coefficients, powers, strict=True)))
        case Sine(amplitude=a, omega=w, phase=p, offset=b):
            return number(a) * sp.sin(number(w) * x + number(p)) + number(b)
        case Points(kind=kind, x=points, y=y, outside=outside):
            straight = kind == "simm" and len(points) == 2
            return table(x, points, y, "linear" if straight else kind, outside)
    raise ValueError(f"no function of a file: {function}")


#: Cosines of the angle of an arc where it is tabulated: it is straight in the middle of what both
#: functions are analytic in, and splines are poor at their ends only.
_COSINES = np.linspace(-0.3, 1.3, 161)


def on_arc(a: sp.Expr, b: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """The end of an arc of a circle of length 1 from 0 along y, whose end is along y turned by a
    about x, then by b about z: a table over the cosine of its angle, smooth where it is straight,
    too, and within 1e-10 up to 90 degrees."""
    angle = np.emath.arccos(_COSINES)
    angle[_COSINES == 1.0] = 1e-8
    rise, swing = (np.real(f / angle).tolist() for f in (np.sin(angle), np.tan(0.5 * angle)))
    cosine, points = sp.cos(a) * sp.cos(b), _COSINES.tolist()
    up, aside = (table(cosine, points, y, "quintic", "quadratic") for y in (rise, swing))
    return -sp.sin(b) * aside, up, sp.cos(b) * sp.sin(a) * aside


def monomial(variables: Sequence[sp.Expr], powers: Sequence[int]) -> sp.Expr:
    """A product of powers."""
    return sp.Mul(*(x**power for x, power in zip(variables, powers, strict=True)))


def exact(values: Iterable[float]) -> list[sp.Expr]:
    """Numbers of SymPy for several values, see `number`."""
    return [number(value) for value in values]


def identifier(name: str) -> str:
    """A name with letters, digits and underscores only."""
    found = re.sub(r"\W", "_", name)
    return found if found.isidentifier() else f"_{found}"
