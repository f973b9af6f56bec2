"""SymPy trees evaluated as jets, node by node, with both sides of every kink within reach.

At a kink, or within rounding of one, `Sides` says which way to go: to the left, to the right, or
to the middle of both derivatives. What is right lies between what these give.
"""

import random

import elementary
import mpmath
import sympy as sp
from jets import (
    HUGE,
    OPEN,
    POLE,
    TINY,
    TRUST,
    UNDEFINED,
    UNIT,
    add,
    binary,
    constant,
    div,
    is_round,
    mean,
    mul,
    scaled,
    size_of,
    unary,
    without,
    worst,
)
from mpmath import mpf
from sympy.core.function import AppliedUndef
from sympy.logic.boolalg import ITE, And, Not, Or

LEFT, MIDDLE, RIGHT = -1, 0, 1

_FUNCTIONS = {
    getattr(sp, name): getattr(elementary, name)
    for name in "sin cos sec csc tan cot asin acos atan sinh cosh tanh coth sech csch asinh "
    "acosh atanh exp log erf erfc sinc".split()
}
_EXACT_AT_ZERO = {
    sp.sin,
    sp.cos,
    sp.sec,
    sp.tan,
    sp.asin,
    sp.atan,
    sp.sinh,
    sp.cosh,
    sp.tanh,
    sp.sech,
    sp.asinh,
    sp.atanh,
    sp.exp,
    sp.erf,
    sp.erfc,
    sp.sinc,
}
_PERIODIC = {sp.sin, sp.cos, sp.tan, sp.sec, sp.csc, sp.cot, sp.sinc}


class Undecided(ValueError):
    """A condition compares what has no value."""


class Sides:
    """Which way at a kink: `LEFT`, `MIDDLE`, `RIGHT`, or None for each by chance (of a seed)."""

    def __init__(self, side=MIDDLE, seed=0):
        self.side, self.met = side, 0
        self._random = random.Random(seed)

    def __call__(self):
        self.met += 1
        return self._random.choice((LEFT, MIDDLE, RIGHT)) if self.side is None else self.side


class Tree:
    """Jets of SymPy expressions, given those of the symbols; each subexpression once.

    definitions : expressions of intermediates by symbol.
    """

    def __init__(self, known, sides, definitions=()):
        self.known, self.sides, self.definitions = dict(known), sides, dict(definitions)

    def __call__(self, e):
        if e not in self.known:
            self.known[e] = self._evaluate(e)
        return self.known[e]

    def _evaluate(self, e):
        if e.is_Number or isinstance(e, sp.NumberSymbol):
            return _number(e)
        if e in self.definitions:
            return self(self.definitions[e])
        kind = type(e)
        if kind in _RULES:
            return _RULES[kind](self, e)
        if kind in _FUNCTIONS and len(e.args) == 1:
            a = self(e.args[0])
            if not a.lack and self._is_lost(kind, a):
                return without(OPEN)
            exact = [mpf(0)] if kind in _EXACT_AT_ZERO else [mpf(1)] if kind is sp.log else ()
            return unary(_FUNCTIONS[kind], a, exact, elementary.SCALES.get(kind.__name__))
        if isinstance(e, (sp.Symbol, AppliedUndef, sp.Derivative)):
            raise KeyError(f"no value for {e}")
        raise NotImplementedError(f"{e} ({kind.__name__})")

    def _is_lost(self, kind, a):
        """Whether the doubt of an argument spans periods or holds a pole."""
        if kind in (sp.coth, sp.csch, sp.log) and a.error and self.near(a):
            return True
        if kind not in _PERIODIC or not a.error:
            return False
        pole = {sp.tan: mpmath.cos, sp.sec: mpmath.cos, sp.csc: mpmath.sin, sp.cot: mpmath.sin}
        distance = abs(pole[kind](a.value)) if kind in pole else 1
        return TRUST * a.error > min(0.1, distance)

    # -- decisions --------------------------------------------------------------------------

    def near(self, jet):
        """Whether `jet` is zero within the doubt of double arithmetic."""
        return jet.size <= TRUST * jet.error

    def holds(self, condition):
        """The truth of a condition; in doubt, what the side says."""
        if condition in (sp.true, sp.false):
            return condition is sp.true
        if isinstance(condition, And):
            return all([self.holds(a) for a in condition.args])
        if isinstance(condition, Or):
            return any([self.holds(a) for a in condition.args])
        if isinstance(condition, Not):
            return not self.holds(condition.args[0])
        if isinstance(condition, ITE):
            first, then, other = condition.args
            return self.holds(then) if self.holds(first) else self.holds(other)
        if not isinstance(condition, sp.core.relational.Relational):
            raise NotImplementedError(f"{condition} ({type(condition).__name__})")
        left, right = (self(a) for a in condition.args)
        if left.lack or right.lack:
            raise Undecided(str(condition))
        gap = add([left, scaled(right, (mpf(-1), 1.0, 0.0))])
        if self.near(gap) and (left.error or right.error):
            side = self.sides()
            if side != MIDDLE:
                return side == RIGHT
        return _compare(condition, left.value, right.value)

    # -- rules ------------------------------------------------------------------------------

    def power(self, e):
        base, exponent = self(e.base), self(e.exp)
        if base.lack or exponent.lack:  # of complex numbers too, z^0 and 1^z are 1
            one = (not exponent.lack and self.near(exponent)) or (
                not base.lack and abs(base.value - 1) <= TRUST * base.error
            )
            lacks = {base.lack, exponent.lack}
            undefined = UNDEFINED in lacks and OPEN not in lacks and not one
            return without(UNDEFINED if undefined else OPEN)
        if (
            base.value < 0
            and exponent.error
            and self.near(add([exponent, constant(-mpmath.nint(exponent.value))]))
        ):
            return without(OPEN)
        if base.value < 0 and exponent.size >= 2.0**53:  # even or odd, and so is one less
            return without(OPEN)
        whole = not exponent.slope and exponent.value > 0 and exponent.value == int(exponent.value)
        if base.error and self.near(base) and not whole:
            return without(OPEN)
        if exponent.slope or (exponent.error and base.value > 0):
            return binary(elementary.power, base, exponent, elementary.mixed_power)
        p = exponent.value
        exact = [mpf(0), mpf(1)]
        if p in (mpf(0.5), mpf(-0.5)) and base.value > 0 and not base.error:
            root = mpmath.sqrt(base.value)
            exact += [base.value] if float(root) == root and p > 0 else []
        result = unary(elementary.power_of(p), base, exact)
        if p == int(p) and p > 0 and not result.lack and _short(base, result):
            result.number = (*result.number[:2], 0.0)
        return result

    def absolute(self, e):
        a = self(e.args[0])
        if a.lack:
            return a
        if self.near(a):
            side = self.sides()
            result = mul(a, constant(side))
            result.number = (abs(a.value), *a.number[1:])
            return result
        return a if a.value > 0 else scaled(a, (mpf(-1), 1.0, 0.0))

    def sign(self, e):
        a = self(e.args[0])
        if a.lack:
            return without(worst([a]))
        if a.error and self.near(a):
            return constant(self.sides())
        return constant(mpmath.sign(a.value))

    def floor(self, a):
        if a.lack:
            return without(worst([a]))
        nearest = mpmath.nint(a.value)
        if TRUST * a.error > 0.5:
            return without(OPEN)
        if a.error and abs(float(a.value - nearest)) <= TRUST * a.error:
            return constant(nearest - 1 if self.sides() == LEFT else nearest)
        return constant(mpmath.floor(a.value))

    def fraction(self, e):
        a = self(e.args[0])
        return add([a, mul(self.floor(a), constant(-1))])

    def mod(self, e):
        x, y = (self(a) for a in e.args)
        if x.lack or y.lack:
            return without(worst([x, y]))
        if self.near(y):
            return without(OPEN if y.error else UNDEFINED)
        with mpmath.workdps(700):
            q = x.value / y.value
            doubt = size_of(x.error / abs(y.value) + abs(q) * y.error / abs(y.value))
            if q != mpmath.nint(q):  # of 1.0 and 0.1, either answer is right
                doubt = max(doubt, 2 * UNIT * abs(q) / TRUST)
            if not TRUST * doubt < 0.5:
                return without(OPEN)
            turns = self.floor(constant(q, max(float(doubt), TINY) if doubt else 0.0))
            if turns.lack:
                return turns
            rest = x.value - turns.value * y.value
        result = add([x, mul(scaled(y, turns.number), constant(-1))])
        if not result.lack:
            lost = 0.0 if is_round(x.number, y.number) else UNIT * x.size
            result.number = (+rest, size_of(rest), result.error + lost)
        return result

    def extreme(self, e, sign):
        """Max for sign = 1, Min for -1."""
        jets = [self(a) for a in e.args]
        if any(jet.lack for jet in jets):
            return without(worst(jets))
        best = jets[0]
        for jet in jets[1:]:
            gap = add([jet, scaled(best, (mpf(-1), 1.0, 0.0))])
            if self.near(gap):
                side = self.sides()
                best = best if side == LEFT else jet if side == RIGHT else mean([best, jet])
            elif sign * gap.value > 0:
                best = jet
        return best

    def heaviside(self, e):
        a = self(e.args[0])
        if a.lack:
            return without(worst([a]))
        if a.error and self.near(a):
            side = self.sides()
            if side != MIDDLE:
                return constant(int(side == RIGHT))
        if a.value:
            return constant(int(a.value > 0))
        return self(e.args[1] if len(e.args) > 1 else sp.Rational(1, 2))

    def piecewise(self, e):
        try:
            for expression, condition in e.args:
                if self.holds(condition):
                    return self(expression)
        except Undecided:
            return without(OPEN)
        return without(UNDEFINED)

    def atan2(self, e):
        y, x = (self(a) for a in e.args)
        if y.lack or x.lack:
            return without(worst([y, x]))
        if max(y.size, x.size) <= TRUST * max(y.error, x.error):  # the origin, perhaps
            return without(OPEN)
        if self.near(y) and x.value < 0:  # the cut; zero has two signs in double
            result = binary(elementary.angle_on_the_left, y, x, elementary.mixed_angle)
            turn = constant(-2 * mpmath.pi) if self.sides() == LEFT else constant(0)
            return result if result.lack else add([result, turn])
        return binary(elementary.atan2, y, x, elementary.mixed_angle)


def _short(base, result):
    return not base.error and float(result.value) == result.value and base.size < 2.0**12


def _number(e):
    if e in (sp.oo, -sp.oo, sp.zoo):
        return without(POLE)
    if e is sp.nan:
        return without(UNDEFINED)
    value = mpf(e.p) / e.q if e.is_Rational else mpmath.mpmathify(sp.N(e, 70))
    if abs(value) >= HUGE:
        return without(OPEN)
    if value and abs(value) <= TINY:  # zero in double, perhaps
        return constant(value, TINY)
    return constant(value, 0.0 if float(value) == value else 1.2e-16 * abs(float(value)))


def _compare(condition, a, b):
    if isinstance(condition, sp.StrictLessThan):
        return a < b
    if isinstance(condition, sp.LessThan):
        return a <= b
    if isinstance(condition, sp.StrictGreaterThan):
        return a > b
    if isinstance(condition, sp.GreaterThan):
        return a >= b
    return a == b if isinstance(condition, sp.Equality) else a != b


def _product(tree, e):
    """Factors above and below the line; one division."""
    above, below = [], []
    for factor in e.args:
        down = isinstance(factor, sp.Pow) and factor.exp.is_Rational and factor.exp < 0
        (below if down else above).append(tree(1 / factor if down else factor))
    if any(jet.lack for jet in (*above, *below)):
        below = [unary(elementary.power_of(mpf(-1)), jet) for jet in below]
        above, below = [*above, *below], []
    result = _folded(above)
    return div(result, _folded(below)) if below else result


def _folded(factors):
    """The product, if no order of them leaves the range of double."""
    most = least = mpf(1)
    for jet in factors:
        most, least = most * max(jet.size, 1), least * min(jet.size or 1, 1)
    if not TINY < least <= most < HUGE and not any(jet.lack for jet in factors):
        return without(OPEN)
    result = constant(1)
    for factor in factors:
        result = mul(result, factor)
    return result


def _real_part(tree, e):
    return tree(e.args[0])


_RULES = {
    sp.Add: lambda tree, e: add([tree(a) for a in e.args]),
    sp.Mul: _product,
    sp.Pow: Tree.power,
    sp.Abs: Tree.absolute,
    sp.sign: Tree.sign,
    sp.floor: lambda tree, e: tree.floor(tree(e.args[0])),
    sp.ceiling: lambda tree, e: mul(tree.floor(mul(tree(e.args[0]), constant(-1))), constant(-1)),
    sp.frac: Tree.fraction,
    sp.Mod: Tree.mod,
    sp.Max: lambda tree, e: tree.extreme(e, 1),
    sp.Min: lambda tree, e: tree.extreme(e, -1),
    sp.Heaviside: Tree.heaviside,
    sp.Piecewise: Tree.piecewise,
    sp.atan2: Tree.atan2,
    sp.re: _real_part,
    sp.conjugate: _real_part,
    sp.im: lambda tree, e: constant(0),
    sp.UnevaluatedExpr: _real_part,
    sp.exp: lambda tree, e: unary(elementary.exp, tree(e.args[0]), [mpf(0)]),
}
