"""Objective terms and conditions as data."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import sympy as sp

from kinesym.base.checks import shown
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.losses import TUNINGS, Loss

Number = int | float

#: Integrals are costs; what to do for anything else.
CONDITION = "A condition on an integral is one of ks.integral(...) in boundary"


@dataclass(frozen=True)
class Objective:
    """A sum of an integral over time, a terminal cost, and weighted measurement least squares.

    Made with `Integral`, `Terminal` and `LeastSquares`; these add and scale.
    """

    integrand: sp.Expr = sp.S.Zero
    terminal: sp.Expr = sp.S.Zero
    least_squares: float = 0.0
    loss: Loss | None = None

    def __add__(self, other: Objective | Number) -> Objective:
        if other == 0:  # so that sum() works
            return self
        if not isinstance(other, Objective):
            raise TypeError(
                f"cannot add {shown(other)} to an objective: it is a sum of Integral, Terminal and "
                f"LeastSquares. {CONDITION}"
            )
        mine = [each.loss for each in (self, other) if each.least_squares]
        if len(mine) == 2 and mine[0] != mine[1]:
            raise ValueError("measurements have one loss, but these LeastSquares have two")
        return Objective(
            self.integrand + other.integrand,
            self.terminal + other.terminal,
            self.least_squares + other.least_squares,
            mine[0] if mine else None,
        )

    __radd__ = __add__

    def __mul__(self, factor: Number) -> Objective:
        number = real_expression(factor, "a factor of an objective", "it must be a number")
        if not number.is_number:
            raise TypeError(
                f"an objective can be multiplied by numbers only, not by {shown(factor)}"
            )
        factor = float(number)
        return Objective(
            factor * self.integrand, factor * self.terminal, factor * self.least_squares, self.loss
        )

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> Objective:
        number = real_expression(divisor, "a divisor of an objective", "it must be a number")
        if number.is_zero:
            raise ValueError(f"a divisor of an objective must not be 0, got {divisor}")
        return self * (1 / number)

    def __neg__(self) -> Objective:
        return -1 * self

    def _sympy_(self) -> sp.Basic:
        raise sp.SympifyError(f"an objective is no SymPy expression. {CONDITION}")

    def __sub__(self, other: Objective) -> Objective:
        return self + (-other if isinstance(other, Objective) else other)


def Integral(integrand: sp.Expr | Number) -> Objective:
    """The integral of `integrand(x', x, u, p, t)` over the trial, by the quadrature of the scheme.

    It is evaluated at the nodes (trapezoidal rule for the midpoint scheme); with x', or with an
    input that is held between nodes (zero-order hold), at the collocation points. Signals that are
    not in the model, e.g. a measured trajectory, are given as inputs of the experiment.
    """
    return Objective(integrand=real_expression(integrand, "the integrand"))


class magnitude(sp.Function):
    """The absolute value of an expression, as a cost; see `l1`."""

    nargs = 1


class variation(sp.Function):
    """The absolute value of the rate of an input or a state, as a cost; see `total_variation`."""

    nargs = 1


def l1(expression: sp.Expr | Number) -> Objective:
    """The integral of the absolute value of an expression in x', x, u, p and t, as `Integral` takes
    them: `objective=ks.l1(F)`, which has a thrust rest where it can.

    The expression is the difference of two unknown inputs that are not negative,
    `F_positive` and `F_negative`, and their sum the cost: exact at all stages, with no corner.
    """
    return Objective(integrand=magnitude(real_expression(expression, "what ks.l1 is of")))


def total_variation(u: sp.Expr) -> Objective:
    """Total variation of an unknown input: the sum of absolute changes, such as `0.1 *
    ks.total_variation(F)`, for few changes. The input is `ks.held` or `ks.linear` between nodes, or
    `ks.continuous`, or a state.

    The change from node to node is the difference of two unknown inputs that are not negative,
    `F_rise` and `F_fall`, and their sum the cost: exact, with no corner.
    """
    return Objective(integrand=variation(real_expression(u, "what ks.total_variation is of")))


def Terminal(cost: sp.Expr | Number) -> Objective:
    """The cost `cost(x, u, p, t)` at the end of the trial, of `ks.Phases` at that of the last one;
    `Terminal(t)` is the final time.

    Values at the start are `at_start(...)` in it: `Terminal(at_start(v)**2)`,
    `Terminal(m - at_start(m))` (a Mayer term of both ends)."""
    return Objective(terminal=real_expression(cost, "the terminal cost"))


def LeastSquares(loss: str | None = None, tuning: float | None = None) -> Objective:
    """The sum of ((measured - modelled)/std)^2 over all measurements: the default objective.

    States, inputs and outputs are compared at the nodes. An output with x' exists between nodes
    only: there sample and weight 1/std^2 are averaged as the scheme averages the states.

    loss : "huber", "pseudo-huber" or "student" in place of the square, which grow less, so that
    outliers weigh less; see `kinesym.symbolic.losses.Loss`. tuning : from where on they do, in
    standard deviations (1.345, 1.287), or the degrees of freedom of Student's distribution (4),
    whose scale std is then. "laplace" is 2 |e|, of errors with the density of Laplace and the scale
    std. Raises `ValueError` for another loss and a tuning that is not positive.
    """
    if loss is None and tuning is not None:
        raise ValueError(f"a tuning belongs to a loss; give loss, one of {', '.join(TUNINGS)}")
    return Objective(least_squares=1.0, loss=None if loss is None else Loss.named(loss, tuning))


class _End(sp.Function):
    nargs = 1

    def __new__(cls, *args: Any, **options: Any) -> Any:
        if len(args) != 1:
            raise TypeError(f"{cls.__name__}(...) takes one expression, got {len(args)}")
        return super().__new__(cls, real_expression(args[0], f"{cls.__name__}(...)"), **options)


class at_start(_End):
    """Value of an expression in states, inputs and t at the first node of a trial."""


class at_end(_End):
    """Value of an expression in states, inputs and t at the last node of a trial."""


class integral(_End):
    """Integral of an expression in x', x, u, p and t over a trial, in boundary conditions:
    `boundary=[ks.integral(u**2) <= 5]`."""


def of_both_ends(cost: sp.Expr) -> sp.Expr:
    """A terminal cost with values at the start as a condition has it: `at_end` around all that is
    not within `at_start`."""
    marks = {end: sp.Dummy() for end in cost.atoms(at_start, at_end)}
    free = cost.xreplace(marks)
    outside = atoms_of(free) - {*marks.values()}
    wrapped = free.xreplace({atom: at_end(atom) for atom in outside})
    return wrapped.xreplace({mark: end for end, mark in marks.items()})


def periodic(x: Any, y: Any = None, sign: float = 1) -> sp.Expr:
    """The condition that a trial begins with `sign` times the value with which it ends, in boundary
    conditions: `ks.periodic(x)`; of half a symmetric stride, y of the other leg: `ks.periodic(x,
    y)`; where left and right have opposite signs, `ks.periodic(x, sign=-1)`. Raises `ValueError`
    for a sign other than 1 and -1."""
    if isinstance(sign, bool) or not isinstance(sign, Real) or abs(sign) != 1:
        raise ValueError(
            f"the sign of ks.periodic is 1 or -1, got {shown(sign)}; for another ratio write "
            "at_start(x) - ratio*at_end(x)"
        )
    return at_start(x) - sign * at_end(x if y is None else y)
