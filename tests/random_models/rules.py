"""Collocation methods from their definition, in high precision.

Stages are zeros of polynomials (Hairer, Wanner, Solving Ordinary Differential Equations II, IV.5);
all weights follow from what is exact for polynomials of the degree that the places allow.
"""

from dataclasses import dataclass
from functools import cache

import mpmath
import sympy as sp
from mpmath import mpf

DIGITS = 60
ALIASES = {
    "backward-euler": "radau-1",
    "midpoint": "gauss-2",
    "trapezoid": "lobatto-2",
    "hermite-simpson": "lobatto-4",
}


@dataclass(frozen=True)
class Rule:
    """stages : shares of an interval. knots : where the states of an interval are unknown, its two
    ends among them. matrix, weights : of the Runge-Kutta method. at_knots : whether stages are the
    knots (Lobatto IIIA); else x' is that of the polynomial through the knots."""

    stages: tuple
    knots: tuple
    matrix: tuple
    weights: tuple
    at_knots: bool

    @property
    def inner(self):
        """The knots within the interval."""
        return self.knots[1:-1]


@cache
def rule_named(name):
    """The rule of a scheme."""
    kind, order = ALIASES.get(name, name).split("-")
    x, s = (
        sp.Symbol("x"),
        {"radau": (int(order) + 1), "gauss": int(order)}.get(kind, int(order) + 2),
    )
    s //= 2
    least = {
        "radau": lambda: sp.diff(x ** (s - 1) * (x - 1) ** s, x, s - 1),
        "gauss": lambda: sp.diff(x**s * (x - 1) ** s, x, s),
        "lobatto": lambda: sp.diff(x ** (s - 1) * (x - 1) ** (s - 1), x, s - 2),
    }[kind]()
    with mpmath.workdps(DIGITS):
        stages = tuple(sorted(mpf(str(c)) for c in sp.Poly(least, x).nroots(n=DIGITS)))
        stages = tuple(mpmath.nint(c) if abs(c - mpmath.nint(c)) < 1e-30 else c for c in stages)
    at_knots = kind == "lobatto"
    knots = stages if at_knots else (mpf(0), *stages[:-1], mpf(1))
    matrix = tuple(integrals(stages, c) for c in stages)
    return Rule(stages, knots, matrix, integrals(stages, mpf(1)), at_knots)


def values(places, at):
    """Weights of values at `places` in that of their polynomial at a place."""
    return _exact_for_powers(places, [at**k for k in range(len(places))])


def slopes(places, at):
    """Weights of values at `places` in the slope of their polynomial at a place."""
    return _exact_for_powers(places, [k * at ** (k - 1) if k else 0 for k in range(len(places))])


def integrals(places, upper):
    """Weights of values at `places` in the integral of their polynomial from 0 to a place."""
    return _exact_for_powers(places, [upper ** (k + 1) / (k + 1) for k in range(len(places))])


def _exact_for_powers(places, results):
    """Weights that give what powers 0, 1, ... of the place result in."""
    with mpmath.workdps(DIGITS):
        powers = mpmath.matrix([[c**k for c in places] for k in range(len(places))])
        found = mpmath.lu_solve(powers, mpmath.matrix(results))
        return tuple(w if abs(w) > 1e-30 else mpf(0) for w in found)
