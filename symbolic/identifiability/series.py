"""Power series of the steps of a program modulo a prime, with tangents, order by order.

The coefficient k of a step is an array (P, C): at P points a value and C - 1 tangents. Recursions
of products, quotients and functions as in Griewank and Walther 2008, Evaluating Derivatives,
section 13.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.tape import Step
from kinesym.symbolic.identifiability.values import (
    PI,
    Arguments,
    Draws,
    Relations,
    circle,
    constants,
    exponentials,
)
from kinesym.symbolic.prime_field import Residues, residue


class Expansion:
    """Series of all steps, to some order; those of variables are put in by whoever knows them.

    draws : at P points. relations : of arguments of functions; found here if None. what : what is
    said of the program in messages.
    """

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
        self.draws, self.what, self._steps = draws, what, steps
        self.valid = np.ones(draws.count, dtype=bool)
        self.relations = Relations() if relations is None else relations
        self._learns = relations is None
        self._exp, self._circle = (Arguments(self.field, constants(draws)) for _ in range(2))
        self._log = Arguments(self.field, {})
        self._of_logs: dict[int, Residues] = {}
        orders = [order + 1 if step.moving else 1 for step in steps]
        shape = draws.count, columns
        self.values = [np.zeros((n, *shape), dtype=np.int64) for n in orders]

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

    def at(self, place: int, k: int) -> Residues:
        """The coefficient k of a step, (P, C)."""
        series = self.values[place]
        return series[k] if k < len(series) else np.zeros_like(series[0])

    # -- coefficient 0 ---------------------------------------------------------------------------

    def _first(self, place: int, step: Step) -> Residues:
        p, args = self.field.p, [self.values[a][0] for a in step.args]
        if step.kind == "add":
            return sum(args) % p
        if step.kind == "multiply":
            return _product(args[0], args[1], p)
        if step.kind == "invert":
            (a,) = args
            self.valid &= a[:, 0] != 0
            found = self.field.inverses(a[:, 0])
            square = found * found % p
            slopes = -square[:, None] * a % p
            slopes[:, 0] = found
            return slopes
        value, slope = self._constant(place, step)
        dual = np.zeros_like(self.values[place][0])
        if slope is not None:
            factor = slope * residue(step.factor, p) % p
            dual = factor[:, None] * args[0] % p
        dual[:, 0] = value
        return dual

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
        if self._learns and kind == "angle":
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

    # -- coefficients from 1 ---------------------------------------------------------------------

    def _next(self, place: int, step: Step, k: int) -> Residues:
        p, values = self.field.p, self.values
        if step.kind == "add":
            return sum(values[a][k] for a in step.args if self._steps[a].moving) % p
        if step.kind == "multiply":
            a, b = (values[arg] for arg in step.args)
            if len(a) == 1 or len(b) == 1:
                return _product(a[min(k, len(a) - 1)], b[min(k, len(b) - 1)], p)
            return _sum_of_products(a[: k + 1], b[k::-1], p)
        if step.kind == "invert":
            a, y = values[step.args[0]], values[place]
            found = _sum_of_products(a[1 : k + 1], y[k - 1 :: -1], p)
            return _product(-y[0] % p, found, p)
        a, g = (values[arg] for arg in step.args[:2])
        whole = np.arange(1, k + 1)[:, None, None]
        slopes = whole * a[1 : k + 1] % p
        if len(g) == 1:
            found = _product(slopes[-1], g[0], p)
        else:
            found = _sum_of_products(slopes, g[k - 1 :: -1], p)
        return found * residue(step.factor / k, p) % p


def _product(a: Residues, b: Residues, p: int) -> Residues:
    """Product of values with tangents (..., C)."""
    found = a[..., :1] * b + b[..., :1] * a
    found[..., 0] = a[..., 0] * b[..., 0]
    return found % p


def _sum_of_products(a: Residues, b: Residues, p: int) -> Residues:
    """Sum over the first axis of products of values with tangents."""
    return _product(a, b, p).sum(axis=0) % p
