"""Bodies whose mass, centre and inertia are those of a body that can exist, whatever the numbers.

A body of mass m with the centre c and the second moments E[(r - c)(r - c)^T] = D D^T about it
exists if m > 0, and only such ones do; D is an upper triangular matrix. m, c and D are the Cholesky
factor of its pseudo-inertia (Wensing, Kim, Slotine 2018, IEEE Robotics and Automation Letters 3,
60-67; Rucker, Wensing 2022, ibid. 7, 2731-2738, where m and the diagonal of D are exponentials).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.symbolic.multibody.bodies import Body, inertia_matrix, mass_of, planar_axis
from kinesym.symbolic.multibody.vectors import AXES, vector

#: Least size of a body along an axis, as a share of its largest, of which estimation starts: those
#: of rods and plates are zero, from where nothing leads away.
THIN = 0.02

#: Bounds of a parameter, None for none.
Bounds = tuple[float, float] | None


def consistent_body(body: Body, values: Mapping[str, float]) -> tuple[Body, dict[str, float]]:
    """The body with symbols for mass, centre and D, and their values where all numbers have some;
    one that turns about one axis only has its radius of gyration in place of D.

    Raises `ValueError` for a body without mass or inertia.
    """
    name, mass, inertia = body.name, mass_of(body), sp.Matrix(inertia_matrix(body))
    if mass.is_zero or inertia.is_zero_matrix:
        what = "mass" if mass.is_zero else "inertia"
        raise ValueError(f"body {name} has no {what}, so nothing to be kept consistent")
    axis, m = planar_axis(inertia), sp.Symbol(f"{name}_m")
    com = vector(body.com)
    centre = [
        e if axis is not None and e.is_zero else sp.Symbol(f"{name}_c{letter}")
        for letter, e in zip(AXES, com, strict=True)
    ]
    D = factor(name, axis)
    second = D * D.T
    moment = (
        sp.diag(*second.diagonal()) if axis is not None else second.trace() * sp.eye(3) - second
    )
    made = replace(body, mass=m, com=centre, inertia=(m * moment).tolist())
    given = [mass, *com, *inertia]
    known = {s: values[s.name] for e in given for s in e.free_symbols if s.name in values}
    numbers = {s: e.subs(known) for s, e in zip([m, *centre], [mass, *com], strict=True)}
    matrix, weight = inertia.subs(known), mass.subs(known)
    if not matrix.free_symbols | weight.free_symbols:
        size = factor_of(float(weight), np.array(matrix, dtype=float), axis)
        numbers |= {D[i, j]: sp.Float(size[i, j]) for i in range(3) for j in range(i, 3)}
    found = {s.name: e for s, e in numbers.items() if s.is_Symbol and not e.free_symbols}
    return made, {n: float(e) for n, e in found.items()}


def factor(name: str, axis: int | None) -> sp.Matrix:
    """D of a body, of symbols such as `upper_Dxy` [m]; with one entry for one that turns about an
    axis only."""

    def entry(i: int, j: int) -> sp.Expr:
        there = i <= j if axis is None else i == j == axis
        return sp.Symbol(f"{name}_D{AXES[i]}{AXES[j]}") if there else sp.S.Zero

    return sp.Matrix(3, 3, entry)


def factor_of(mass: float, inertia: NDArray[np.float64], axis: int | None) -> NDArray[np.float64]:
    """D (3, 3) [m] of a mass [kg] and an inertia about its centre (3, 3) [kg m^2]; of one that no
    body has, and of thin bodies, that of one nearby."""
    if axis is not None:
        return np.sqrt(inertia / mass)
    second = (0.5 * np.trace(inertia) * np.eye(3) - inertia) / mass
    squares, axes = np.linalg.eigh(second)
    squares = np.maximum(squares, THIN**2 * squares.max())
    turned = ((axes * squares) @ axes.T)[::-1, ::-1]  # the other way round, the factor is lower
    found: NDArray[np.float64] = np.linalg.cholesky(turned)[::-1, ::-1]
    return found


def inertia_bounds(body: Body) -> dict[str, Bounds]:
    """Parameters that mass, centre and inertia of a body are of, with bounds for a fit: what is a
    mass or on the diagonal of D is positive."""
    mass = mass_of(body)
    given = [mass, *vector(body.com), *sp.Matrix(inertia_matrix(body))]
    names = sorted({s.name for e in given for s in e.free_symbols})
    positive = {f"{body.name}_D{axis}{axis}" for axis in AXES} | {s.name for s in mass.free_symbols}
    return {name: (0.0, np.inf) if name in positive else None for name in names}


def moments_of(body: Body) -> dict[str, sp.Expr]:
    """Entries of the inertia of a body about its centre, by name."""
    found = inertia_matrix(body)
    every = {f"{body.name}_I{AXES[i]}{AXES[j]}": found[i][j] for i in range(3) for j in range(i, 3)}
    return {name: e for name, e in every.items() if e != 0}
