"""Power series of the steps of a program, with tangents, order by order: modulo a prime here, of
real numbers in `real`.

The coefficient k of a step is an array (P, C): at P points a value and C - 1 tangents. Recursions
of products, quotients and functions as in Griewank and Walther 2008, Evaluating Derivatives,
section 13.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.tape import Step
from kinesym.symbolic.identifiability.values import (
    ANGLES,
    PI,
    Arguments,
    Draws,
    Relations,
    circle,
    constants,
    exponentials,
)
from kinesym.symbolic.prime_field import Residues, residue


class Arithmetic(Protocol):
    """Arithmetic of coefficients."""

    def reduced(self, values: Any) -> Any:
        """Sums and products as numbers of this arithmetic."""

    def number(self, value: Fraction) -> Any:
        """A rational number."""

    def inverses(self, values: Any) -> Any:
        """1 / value of each."""

    def product(self, a: Any, b: Any) -> Any:
        """Product of matrices."""


class Series:
    """Series of all steps, to some order; those of variables are put in by whoever knows them.

    arithmetic : of the coefficients. count : number of points.
    """

    #: Numbers in arrays.
    kind: ClassVar[type] = np.float64

    def __init__(
        self, steps: Sequence[Step], arithmetic: Arithmetic, count: int, columns: int, order: int
    ) -> None:
        self.arithmetic, self._steps = arithmetic, steps
        orders = [order + 1 if step.moving else 1 for step in steps]
        shape = count, columns
        self.values: list[Any] = [np.zeros((n, *shape), dtype=self.kind) for n in orders]

    def start(self, places: Iterable[int]) -> None:
        """Coefficients 0 of some steps, in their order."""
        for place in places:
            step = self._steps[place]
            if step.kind != "variable":
                self.values[place][0] = self._first(place, step)

    def go(self, places: Iterable[int], k: int) -> None:
        """Coefficients k >= 1 of some steps, in their order."""
        for place in places:
            step = self._steps[place]
            if step.moving and step.kind != "variable":
                self.values[place][k] = self._next(place, step, k)

    def at(self, place: int, k: int) -> Any:
        """The coefficient k of a step, (P, C)."""
        series = self.values[place]
        return series[k] if k < len(series) else np.zeros_like(series[0])

    # -- coefficient 0 ---------------------------------------------------------------------------

    def _first(self, place: int, step: Step) -> Any:
        reduced, args = self.arithmetic.reduced, [self.values[a][0] for a in step.args]
        if step.kind == "add":
            return reduced(sum(args))
        if step.kind == "multiply":
            return self._product(args[0], args[1])
        if step.kind == "invert":
            (a,) = args
            found = self._inverses(a[:, 0])
            square = reduced(found * found)
            slopes = reduced(-square[:, None] * a)
            slopes[:, 0] = found
            return slopes
        value, slope = self._constant(place, step)
        dual = np.zeros_like(self.values[place][0])
        if slope is not None:
            factor = reduced(slope * self.arithmetic.number(step.factor))
            dual = reduced(factor[:, None] * args[0])
        dual[:, 0] = value
        return dual

    def _inverses(self, values: Any) -> Any:
        return self.arithmetic.inverses(values)

    def _constant(self, place: int, step: Step) -> tuple[Any, Any | None]:
        """Value of a step that is no operation at order 0, and g of dy = factor g da."""
        raise NotImplementedError

    # -- coefficients from 1 ---------------------------------------------------------------------

    def _next(self, place: int, step: Step, k: int) -> Any:
        values, arithmetic = self.values, self.arithmetic
        if step.kind == "add":
            return arithmetic.reduced(sum(values[a][k] for a in step.args if self._steps[a].moving))
        if step.kind == "multiply":
            a, b = (values[arg] for arg in step.args)
            if len(a) == 1 or len(b) == 1:
                return self._product(a[min(k, len(a) - 1)], b[min(k, len(b) - 1)])
            return self._sum_of_products(a[: k + 1], b[k::-1])
        if step.kind == "invert":
            a, y = values[step.args[0]], values[place]
            found = self._sum_of_products(a[1 : k + 1], y[k - 1 :: -1])
            return self._product(arithmetic.reduced(-y[0]), found)
        a, g = (values[arg] for arg in step.args[:2])
        whole = np.arange(1, k + 1)[:, None, None]
        slopes = arithmetic.reduced(whole * a[1 : k + 1])
        if len(g) == 1:
            found = self._product(slopes[-1], g[0])
        else:
            found = self._sum_of_products(slopes, g[k - 1 :: -1])
        return arithmetic.reduced(found * arithmetic.number(step.factor / k))

    def _product(self, a: Any, b: Any) -> Any:
        """Product of values with tangents (..., C)."""
        found = a[..., :1] * b + b[..., :1] * a
        found[..., 0] = a[..., 0] * b[..., 0]
        return self.arithmetic.reduced(found)

    def _sum_of_products(self, a: Any, b: Any) -> Any:
        """Sum over the first axis of products of values with tangents."""
        return self.arithmetic.reduced(self._product(a, b).sum(axis=0))


class Expansion(Series):
    """Series modulo a prime.

    draws : at P points. relations : of arguments of functions; found here if None. what : what is
    said of the program in messages.
    """

    kind: ClassVar[type] = np.int64

    def __init__(
        self,
        steps: Sequence[Step],
        draws: Draws,
        relations: Relations | None,
        columns: int,
        order: int,
        what: str,
    ) -> None:
        self.field: Field = draws.field
        super().__init__(steps, draws.field, draws.count, columns, order)
        self.draws, self.what = draws, what
        self.valid = np.ones(draws.count, dtype=bool)
        self.relations = Relations() if relations is None else relations
        self._learns = relations is None
        self._exp, self._circle = (Arguments(self.field, constants(draws)) for _ in range(2))
        self._log = Arguments(self.field, {})
        self._of_logs: dict[int, Residues] = {}

    def _inverses(self, values: Residues) -> Residues:
        self.valid &= values != 0
        return self.field.inverses(values)

    def _constant(self, place: int, step: Step) -> tuple[Residues, Residues | None]:
        """Value of a step that is no operation at order 0, and g of dy = factor g da."""
        kind, numbers = step.data, self.draws.numbers
        if step.kind == "number":
            number = residue(step.data, self.field.p)
            return np.full(self.draws.count, number, dtype=np.int64), None
        if step.kind == "constant":
            return numbers[PI if str(kind) == "pi" else place], None
        a, g = (self.values[k][0][:, 0] for k in step.args[:2])
        if kind == "exp":
            relation = self._related(place, a, self._exp)
            if self._learns and place in relation:
                self._log.add(place, self.values[step.args[0]][0][:, 1])
            value, valid = exponentials(self.draws, relation, self._of_logs)
            self.valid &= valid
            return value, value
        if kind in ("sin", "cos"):
            first = place - (kind == "cos")
            relation = self._related(first, a, self._circle)
            c, s = circle(self.draws, relation, self._steps, self.what)
            return (s, c) if kind == "sin" else (c, s)
        if kind == "power":
            base = self.values[step.args[2]][0][:, 0]
            if step.factor.denominator != 1:
                self.valid &= self.field.positive(base)
            value = self.field.powers(base, step.factor)
            return value, value
        if kind == "log":
            return self._logarithm(place, step, a, g), g
        if self._learns and kind in ANGLES:
            self._circle.add(place, numbers[place])
        return numbers[place], g

    def _logarithm(self, place: int, step: Step, a: Residues, g: Residues) -> Residues:
        """Value of log a by those of factors of a: its derivative is a combination of theirs."""
        p = self.field.p
        slope = g * self.values[step.args[0]][0][:, -1] % p
        relation = self._related(place, slope, self._log)
        self._of_logs[place] = a
        if place in relation:
            value = self.draws.numbers[place]
            if self._learns:
                self._exp.add(place, value)
            return value
        factors, value = np.ones_like(a), np.zeros_like(a)
        for base, factor in relation.items():
            of_log = self._steps[base].data == "log"
            log = self.values[base if of_log else self._steps[base].args[0]][0][:, 0]
            power = self._of_logs[base] if of_log else self.values[base][0][:, 0]
            value = (value + residue(factor, p) * log) % p
            factors = factors * self.field.powers(power, factor) % p
        return np.where(factors == a, value, (value + self.draws.numbers[place]) % p)

    def _related(self, place: int, a: Residues, arguments: Arguments) -> dict[int, Fraction]:
        of = self.relations.of
        if self._learns and place not in of:
            of[place] = arguments.relation(place, a, self.valid)
        return of[place]
