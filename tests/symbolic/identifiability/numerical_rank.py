"""Rank of the sensitivities of power series of outputs in fixed-point numbers of 512 bits: a second
way to what `Model.identifiability` says, with real numbers instead of residues."""

from functools import reduce

import mpmath
import numpy as np
import sympy as sp

import kinesym as ks

BITS = 512
#: Pivots that count, and the size of what must be left of rows whose largest entry is one.
SEEN, LEFT = 1e-70, 1e-110


def fixed(x):
    """A number with fixed point."""
    return int(mpmath.ldexp(sp.N(x, 170)._to_mpmath(600), BITS))


def real(x):
    return mpmath.ldexp(mpmath.mpf(int(x)), -BITS)


class Series:
    """Power series in time of parts of expressions, each an array (orders, 1 + n) of coefficients
    and their derivatives by n unknowns."""

    def __init__(self, orders, n):
        self.shape, self.steps, self.places = (orders, 1 + n), [], {}

    def place(self, e):
        """Number of the step of an expression; symbols and numbers are their own."""
        if e not in self.places:
            args = list(e.args)
            if e.is_Add or e.is_Mul:
                kind = "add" if e.is_Add else "multiply"
                found = reduce(lambda a, b: self.step(kind, [a, b]), map(self.place, args))
            elif e.is_Pow and e.exp.is_Integer:
                base = [self.place(e.base)] * abs(int(e.exp))
                found = reduce(lambda a, b: self.step("multiply", [a, b]), base)
                found = self.step("invert", [found]) if e.exp < 0 else found
            elif isinstance(e, (sp.sin, sp.cos)):
                sine, cosine = (f(args[0]) for f in (sp.sin, sp.cos))
                of = self.place(args[0])
                self.places[sine] = self.step("sin", [of, len(self.steps) + 1])
                self.places[cosine] = self.step("cos", [of, len(self.steps) - 1])
                found = self.places[e]
            else:
                found = self.step("given", [])
                if e.is_number:
                    self.steps[found][2][0, 0] = fixed(e)
            self.places[e] = found
        return self.places[e]

    def step(self, kind, args):
        self.steps.append((kind, args, np.zeros(self.shape, dtype=object)))
        return len(self.steps) - 1

    def at(self, place, k=None):
        values = self.steps[place][2]
        return values if k is None else values[k]

    def go(self, k):
        """Coefficients k of all steps."""
        for kind, args, values in self.steps:
            if kind != "given":
                values[k] = getattr(self, kind)(*map(self.at, args), values, k)

    def add(self, a, b, own, k):
        return a[k] + b[k]

    def multiply(self, a, b, own, k):
        return convolved(a[: k + 1], b[: k + 1])

    def invert(self, a, own, k):
        own[k] = 0
        rest = -convolved(a[: k + 1], own[: k + 1])
        rest[0] += (k == 0) << BITS
        found = rest * 0
        found[0] = (rest[0] << BITS) // a[0, 0]
        own[k, 0] = found[0]
        found[1:] = (-convolved(a[: k + 1], own[: k + 1])[1:] << BITS) // a[0, 0]
        return found

    def sin(self, a, cosine, own, k):
        return self.turned(mpmath.sin, mpmath.cos, a, cosine, k)

    def cos(self, a, sine, own, k):
        return self.turned(mpmath.cos, lambda x: -mpmath.sin(x), a, -sine, k)

    def turned(self, f, slope, a, other, k):
        """A sine or cosine, by the other one."""
        if k:
            weights = np.arange(k + 1, dtype=object)[:, None]
            return convolved(weights * a[: k + 1], other[: k + 1]) // k
        with mpmath.workprec(600):
            value, slope = (int(mpmath.ldexp(g(real(a[0, 0])), BITS)) for g in (f, slope))
        found = slope * a[0] >> BITS
        found[0] = value
        return found


def convolved(a, b):
    """The last coefficient of a product."""
    found = a[:, 0] @ b[::-1]
    found[1:] += b[:, 0] @ a[::-1, 1:]
    return found >> BITS


def sensitivities(model, measured, unknown_inputs, orders, seed, point):
    """Derivatives of the coefficients of outputs by parameters, starts and coefficients of unknown
    inputs, at random values of all that are not in `point`, and how many columns are of parameters
    and starts."""
    draw = np.random.default_rng(seed)
    free = [u for u in model.inputs if str(u.func) in unknown_inputs]
    constants = [*model.parameters, *model.states]
    n = len(constants) + orders * len(free)
    series = Series(orders, n)
    for symbol, e in model.intermediates:
        series.places[symbol] = series.place(e)
    residual, shown = ([series.place(e) for e in es] for es in (model.equations, measured))
    parameters, states, rates, inputs = (
        [series.at(series.place(x)) for x in group]
        for group in (model.parameters, model.states, model.derivatives, model.inputs)
    )
    series.at(series.place(ks.t))[1:2, 0] = 1 << BITS
    for k, (x, values) in enumerate(zip(constants, (*parameters, *states), strict=True), 1):
        value = point.get(x, sp.Float(draw.uniform(0.5, 1.5)))
        values[0, 0], values[0, k] = fixed(value), 1 << BITS
    for u, values in zip(model.inputs, inputs, strict=True):
        values[:, 0] = [fixed(sp.Float(draw.uniform(0.5, 1.5))) for _ in range(orders)]
        if u in free:
            first = 1 + len(constants) + orders * free.index(u)
            values[:, first : first + orders] = np.eye(orders, dtype=int).astype(object) << BITS
    inverse = inverted(series, residual, rates)
    for k in range(orders):
        series.go(k)
        for columns in (slice(0, 1), slice(1, None)):  # tangents when the values are known
            left = np.array([series.at(row, k)[columns] for row in residual])
            for values, change in zip(rates, inverse @ left >> BITS, strict=True):
                values[k, columns] -= change
            series.go(k)
        for values, rate in zip(states, rates, strict=True):
            if k + 1 < orders:
                values[k + 1] = rate[k] // (k + 1)
    return np.concatenate([series.at(place)[:, 1:] for place in shown]), len(constants)


def inverted(series, residual, rates):
    """Inverse of what rates are multiplied by in equations, which are linear in them."""

    def left():
        series.go(0)
        return np.array([series.at(row, 0)[0] for row in residual])

    n, zero = len(rates), left()
    with mpmath.workprec(600):
        found = mpmath.matrix(n, n)
        for j, rate in enumerate(rates):
            rate[0, 0] = 1 << BITS
            for i, x in enumerate(left() - zero):
                found[i, j] = real(x)
            rate[0, 0] = 0
        return np.array([int(mpmath.ldexp(x, BITS)) for x in found**-1], dtype=object).reshape(n, n)


def eliminated(rows):
    """Rank by Gaussian elimination with full pivoting; rows that are left are as good as zero."""
    rows, last = rows.copy(), None
    largest = np.abs(rows).max(axis=1)
    rows = (rows[largest > 0] << BITS) // largest[largest > 0, None]
    for rank in range(min(rows.shape) + 1):
        place = np.unravel_index(np.abs(rows).argmax(), rows.shape) if rows.size else None
        size = abs(real(rows[place])) if rows.size else 0
        if size < SEEN:
            assert size < LEFT, f"pivot of {float(size):.0e} after {last:.0e}"
            return rank
        last, row = float(size), rows[place[0]].copy()
        rows = rows - rows[:, [place[1]]] * row // row[place[1]]
        rows[place[0]] = 0
    return rank


def numerical_rank(model, measured, orders, unknown_inputs=(), known=(), seed=0, point=None):
    """In how many directions of parameters and starts, but for the `known`, outputs change,
    whatever unknown inputs do."""
    rows, n = sensitivities(model, measured, unknown_inputs, orders, seed, point or {})
    names = [*model.parameter_names, *model.state_names]
    left = [k for k, name in enumerate(names) if name in known]
    inputs = eliminated(rows[:, n:]) if unknown_inputs else 0
    return eliminated(np.delete(rows, left, axis=1)) - inputs
