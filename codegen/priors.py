"""Priors of parameters as terms of an objective, beside the squares of measurements.

A term that is no square has a score r with the derivative r': r r' is half the slope of the term by
the parameter, r'^2 half its bend where it is convex. Elsewhere r' is a small share of the slope,
which says next to nothing of how sure the parameter is.
"""

from __future__ import annotations

import sympy as sp

from kinesym.codegen.family import LEAST, Points, Score, Square
from kinesym.codegen.kernel import Argument
from kinesym.codegen.lower import Lowering
from kinesym.symbolic.problem import PriorTerm

#: Derivative of a score without bend, as a share of the slope.
_SHARE = 1e-3
#: Numbers of all priors: means and 1/deviation^2; and of those that are no squares: powers, rates,
#: 1 at the trial that has them, else 0, and the side, 1 or -1, of a kink that is not to be passed.
_OF_SQUARES, _OF_OTHERS = ("mean", "precision"), ("power", "rate", "there", "side")
_P, _F, _LOG = sp.symbols("p f log_p", real=True)
_MEAN, _WEIGHT, _POWER, _RATE, _SIDE = sp.symbols("mean precision power rate side", real=True)


def squares_of_priors(s: Points) -> tuple[list[Square], tuple[Argument, ...]]:
    """Terms of priors, and the arguments that their numbers are."""
    priors = s.problem.priors
    if not priors:
        return [], ()
    plain = all(term.squared for term in priors.values())
    kinds = _OF_SQUARES if plain else (*_OF_SQUARES, *_OF_OTHERS)
    groups = [s.group(kind, priors, False) for kind in kinds]
    rows = zip(priors.items(), *map(s.nodes, groups), strict=True)
    return [_square(s, name, term, *numbers) for (name, term), *numbers in rows], tuple(groups)


def _square(s: Points, name: str, term: PriorTerm, mean: int, precision: int, *more: int) -> Square:
    """The term of one prior."""
    g, factor = s.graph, s.problem.objective.least_squares or 1.0
    value, entry = s.parameter(name)
    log = value
    if term.of_log or term.power:
        log = entry if name in s.problem.log_scale else g.function("log", value)
    f, label = log if term.of_log else value, f"prior of {name}"
    if term.squared:
        return Square(precision, g.sub(f, mean), label, factor)
    power, rate, there, side = more
    table = {_P: value, _F: f, _LOG: log, _MEAN: mean, _WEIGHT: precision}
    lower = Lowering(g, {**table, _POWER: power, _RATE: rate, _SIDE: side})
    cost, pull, pace = map(lower, _terms(term))
    score = g.mul(pull, g.inv(g.add(pace, g.const(LEAST))))
    return Square(there, score, label, factor, score=Score(cost, value, pace))


def _terms(term: PriorTerm) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """The term, half its slope by p, and the derivative of its score."""
    off, root = _F - _MEAN, sp.sqrt(_WEIGHT)
    square, both = _WEIGHT * off**2, 1 - _SIDE**2
    rho, psi, bend = {
        "square": (square, _WEIGHT * off, _WEIGHT),
        "laplace": (
            2 * root * (_SIDE * off + both * sp.Abs(off)),
            root * (_SIDE + both * sp.sign(off)),
            sp.S.Zero,
        ),
        "cauchy": (
            2 * sp.log(1 + square),
            2 * _WEIGHT * off / (1 + square),
            2 * _WEIGHT * (1 - square) / (1 + square) ** 2,
        ),
    }[term.rho]
    slope = 1 / _P if term.of_log else sp.S.One
    pull, bend = psi * slope, bend * slope**2
    if term.rate:
        rho, pull = rho + 2 * _RATE * _P, pull + _RATE
    if term.power:
        rho, pull, bend = rho - 2 * _POWER * _LOG, pull - _POWER / _P, bend + _POWER / _P**2
    return rho, pull, sp.sqrt(sp.Max(bend, (_SHARE * pull) ** 2))
