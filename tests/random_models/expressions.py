"""Random expressions: the vocabulary is all that a model may contain; half of the functions get
arguments within their domain, half whatever comes."""

import math

import sympy as sp


def _tanh(e):
    """tanh(e); none of a long `e`, as SymPy expands it to learn whether the tanh is real."""
    sums = any(
        part.base.is_Add and part.exp.is_number and abs(part.exp) > 3 for part in e.atoms(sp.Pow)
    )
    if not e.is_real and (sums or sp.count_ops(e) > 20):
        raise NotImplementedError(f"tanh of {e}")
    return sp.tanh(e)


#: Functions of one argument as they are; what often keeps them in their domain.
RAW = [
    sp.sin,
    sp.cos,
    sp.tan,
    sp.asin,
    sp.acos,
    sp.atan,
    sp.sinh,
    sp.cosh,
    _tanh,
    sp.asinh,
    sp.acosh,
    sp.atanh,
    sp.exp,
    sp.log,
    sp.sqrt,
    sp.Abs,
    sp.sign,
    sp.floor,
    sp.ceiling,
    sp.erf,
    sp.erfc,
    sp.sec,
    sp.csc,
    sp.cot,
    sp.coth,
    sp.sech,
    sp.csch,
    sp.sinc,
    sp.frac,
    sp.Heaviside,
]
TAME = [
    lambda e: sp.asin(sp.sin(e)),
    lambda e: sp.acos(sp.cos(e) / 2),
    lambda e: sp.acosh(1 + e**2),
    lambda e: sp.atanh(_tanh(e) / 2),
    lambda e: sp.exp(-(e**2)),
    lambda e: sp.log(1 + e**2),
    lambda e: sp.sqrt(1 + e**2),
    lambda e: sp.sqrt(e**2),
    lambda e: sp.exp(sp.sin(e)),
    lambda e: 1 / (2 + sp.cos(e)),
    lambda e: sp.coth(2 + sp.sin(e)),
    lambda e: sp.log(sp.Abs(e)),
    lambda e: sp.sec(sp.sin(e)),
    lambda e: sp.csc(2 + sp.cos(e) / 2),
    lambda e: sp.sinh(e / 3),
    lambda e: sp.log(1 + sp.exp(e)),
    lambda e: _tanh(4 * e),
    lambda e: sp.erfc(2 * e),
    lambda e: sp.acos(1 - e**2 / 8),
    lambda e: 1 - sp.cos(e),
    lambda e: sp.Heaviside(e, 1),
    lambda e: sp.sqrt(sp.Abs(e)),
    lambda e: sp.log(1 + e),
    lambda e: sp.exp(e) - 1,
]
POWERS = [
    2,
    3,
    4,
    5,
    7,
    -1,
    -2,
    -3,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    2.0,
    0.3,
    -1.7,
    65,
    3.37,
    sp.Rational(1, 3),
    sp.Rational(2, 3),
    sp.Rational(-2, 3),
    sp.Rational(5, 2),
    sp.pi,
    sp.sqrt(2),
]
FACTORS = [2, -1, 3, sp.Rational(1, 3), 0.1, sp.pi, -2.5, 1e-8, 1e8, 1e-30, 1e150, 1e-150, 7]


class Expressions:
    """Random expressions in some leaves."""

    def __init__(self, rng, leaves):
        self.rng, self.leaves = rng, list(leaves)

    def __call__(self, depth=3):
        """A real expression; SymPy may refuse some, then another one is made."""
        for _ in range(20):
            try:
                e = sp.Add(self._make(depth))
                bad = e.has(sp.nan, sp.oo, -sp.oo, sp.zoo, sp.I) or not isinstance(e, sp.Expr)
            except (
                TypeError,
                ValueError,
                ArithmeticError,
                RecursionError,
                NotImplementedError,
                AttributeError,
            ):
                continue
            if not bad and (depth < 2 or e.free_symbols):
                return e
        return self.rng.choice(self.leaves)

    def _make(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.12:
            return self._leaf()
        kind = rng.random()
        if kind < 0.15:
            return rng.choice(RAW)(self._make(depth - 1))
        if kind < 0.42:
            return rng.choice(TAME)(self._make(depth - 1))
        if kind < 0.52:
            return self._make(depth - 1) ** rng.choice(POWERS)
        if kind < 0.60:
            return self._special(depth - 1)
        return self._two(self._make(depth - 1), self._make(depth - 1))

    def _leaf(self):
        rng = self.rng
        if rng.random() < 0.08:
            return sp.Add(rng.choice([1, 2, -3, 0.25, sp.Rational(2, 7), sp.pi, sp.E]))
        leaf = rng.choice(self.leaves)
        return leaf if rng.random() < 0.7 else leaf * rng.choice(FACTORS[:7])

    def _two(self, a, b):
        rng = self.rng
        return rng.choice(
            [
                lambda: a + b,
                lambda: a - b,
                lambda: a * b,
                lambda: a * b,
                lambda: a / b,
                lambda: a / (1 + b**2),
                lambda: a / (b**2 + 1e-12),
                lambda: a / (rng.choice(FACTORS) * b),
                lambda: a**b,
                lambda: sp.Abs(a) ** b,
                lambda: (1 + a**2) ** b,
                lambda: sp.exp(a) ** b,
                lambda: sp.atan2(a, b),
                lambda: sp.Min(a, b),
                lambda: sp.Max(a, b),
                lambda: self._remainder(a, b),
                lambda: self._remainder(a, 1),
                lambda: self._piecewise(a, b),
                lambda: self._piecewise(a, b),
                lambda: sp.Max(a, b, 0),
                lambda: a + rng.choice(FACTORS) * b,
            ]
        )()

    def _small(self, e):
        """`e`, or a leaf in its place: SymPy solves conditions, and divides polynomials for Mod."""
        return e if sp.count_ops(e) < 6 else self._leaf()

    def _remainder(self, a, b):
        return sp.Mod(self._small(a), self._small(b))

    def _condition(self, a, b):
        rng = self.rng
        relation = rng.choice([sp.Lt, sp.Le, sp.Gt, sp.Ge, sp.Lt, sp.Eq, sp.Ne])(a, b)
        kind = rng.random()
        if kind < 0.6:
            return relation
        other = rng.choice([sp.Lt, sp.Ge])(self._leaf(), rng.choice([0, 1, 0.5]))
        if kind < 0.75:
            return sp.And(relation, other)
        return sp.Or(relation, other) if kind < 0.9 else sp.Not(sp.And(relation, other))

    def _piecewise(self, a, b):
        b = self._small(b)
        pieces = [(a, self._condition(b, self._leaf())), (b, self._condition(self._leaf(), 0))]
        pieces = [*pieces[: self.rng.randint(1, 2)], (self._leaf(), True)]
        return sp.Piecewise(*pieces, evaluate=self.rng.random() < 0.3 and not a.is_real)

    def _special(self, depth):
        """Forms that users write: smooth maxima, log-sum-exp, long sums, extreme products."""
        rng, a, b = self.rng, self._make(depth), self._make(depth)
        scale = rng.choice([1, 10, 100])
        return rng.choice(
            [
                lambda: sp.log(sp.exp(scale * a) + sp.exp(scale * b)) / scale,
                lambda: (a + b + sp.sqrt((a - b) ** 2 + rng.choice([1e-2, 1e-8, 1e-16]))) / 2,
                lambda: sp.log(1 + sp.exp(scale * a)) / scale,
                lambda: sp.Add(*(sp.sin(k * a) / k for k in range(1, 5))),
                lambda: sp.Add(*(sp.cos(k * self._leaf() + a) for k in range(1, 8))),
                self._long_sum,
                lambda: (1e-120 * a) * (1e110 * b) / (1e-7 + self._leaf() ** 2),
                lambda: a / (a + b * rng.choice([1e-200, 1e-10, 1e10, 1e160])),
                lambda: sp.exp(scale * a) / (sp.exp(scale * a) + sp.exp(scale * b)),
                lambda: 1 / (1 + sp.exp(-scale * a)),
                lambda: sp.sqrt(a**2 + b**2),
                lambda: a / sp.sqrt(a**2 + b**2 + rng.choice([0, 1e-6])),
                lambda: sp.sin(sp.sqrt(a**2 + b**2)) / sp.sqrt(a**2 + b**2),
            ]
        )()

    def _long_sum(self):
        """Hundreds of terms."""
        a, b = self.rng.choice(self.leaves), self.rng.choice(self.leaves)
        count = self.rng.choice([20, 50, 200])
        return sp.Add(
            *(
                a * b**k / math.factorial(k) if k < 9 else sp.Float(1 / k) * sp.sin(k * a)
                for k in range(count)
            )
        )
