"""First derivatives of operations, as nodes of the expression graph."""

from __future__ import annotations

from collections.abc import Callable

from kinesym.codegen.algebra import Algebra

#: Partial derivatives of `y = op(a)` with respect to each operand, from y and a.
Rule = Callable[[Algebra, int, tuple[int, ...]], tuple[int, ...]]


def scaled(g: Algebra, c: float, x: int) -> int:
    """c x."""
    return g.mul(g.const(c), x)


def flat(count: int) -> Rule:
    """Zeros: what is constant between its jumps."""
    return lambda g, y, a: (g.zero,) * count


def pow(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """b a^(b - 1), and a^b log(a) where b is no constant."""
    base, exponent = a
    if exponent in g.value:
        n = g.value[exponent]
        return (g.mul(exponent, g.power(base, n - 1.0)), g.zero)
    lower = g.binary("pow", base, g.sub(exponent, g.one))
    growth = g.mul(y, g.function("log", base))
    flat = g.mul(g.binary("eq", exponent, g.zero), g.binary("eq", base, g.zero))  # 0 * 0^-1
    slope = g.select(flat, g.zero, g.mul(exponent, lower))
    return (slope, g.select(g.binary("eq", y, g.zero), g.zero, growth))


def atan2(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """x/(x^2 + y^2) and -y/(x^2 + y^2)."""
    r = g.add(g.mul(a[0], a[0]), g.mul(a[1], a[1]))
    return (g.div(a[1], r), g.neg(g.div(a[0], r)))


def mod(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1 and minus how many times the divisor was taken, a whole number but for rounding."""
    times = g.quotient(g.sub(a[0], y), a[1])
    return (g.one, g.neg(g.function("floor", g.add(times, g.const(0.5)))))


def minmax(first_if_less: bool) -> Rule:
    """1 for the operand that is chosen, 0 for the other."""

    def rule(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
        less = g.binary("lt", a[0], a[1])
        chosen = (g.one, g.zero) if first_if_less else (g.zero, g.one)
        return (g.select(less, *chosen), g.select(less, *reversed(chosen)))

    return rule


def erf(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """2/sqrt(pi) exp(-x^2)."""
    bell = g.function("exp", g.neg(g.mul(a[0], a[0])))
    return (scaled(g, 1.1283791670955126, bell),)  # 2 / sqrt(pi)


def _one_minus_square(g: Algebra, x: int) -> int:
    """1 - x^2 so that neither it loses digits near x = 1 and x = -1, nor its derivative near 0."""
    near = g.binary("lt", g.function("abs", x), g.const(0.5))
    return g.select(near, g.sub(g.one, g.mul(x, x)), g.mul(g.sub(g.one, x), g.add(g.one, x)))


def asin(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1/sqrt(1 - x^2)."""
    return (g.power(_one_minus_square(g, a[0]), -0.5),)


def atan(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1/(1 + x^2)."""
    return (g.div(g.one, g.add(g.one, g.mul(a[0], a[0]))),)


def atanh(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1/(1 - x^2)."""
    return (g.div(g.one, _one_minus_square(g, a[0])),)


def tanh(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1 - y^2, far out 4 e/(1 + e)^2 with e = exp(-2 |x|)."""
    size = g.function("abs", a[0])
    e = g.function("exp", scaled(g, -2.0, size))
    far = g.mul(scaled(g, 4.0, e), g.power(g.add(g.one, e), -2.0))
    return (g.select(g.binary("lt", size, g.one), g.sub(g.one, g.mul(y, y)), far),)


def asinh(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1/sqrt(1 + x^2), for large x with s = 1/|x| as s/sqrt(1 + s^2)."""
    size = g.function("abs", a[0])
    s = g.inv(size)
    near, far = (g.power(g.add(g.one, g.mul(x, x)), -0.5) for x in (a[0], s))
    return (g.select(g.binary("lt", size, g.one), near, g.mul(s, far)),)


def acosh(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1/sqrt((x - 1) (x + 1))."""
    below, above = (g.function("sqrt", f(a[0], g.one)) for f in (g.sub, g.add))
    return (g.div(g.one, g.mul(below, above)),)


def erfc(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """-2/sqrt(pi) exp(-x^2)."""
    return (g.neg(*erf(g, y, a)),)


def sqrt(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1/(2 y)."""
    return (scaled(g, 0.5, g.div(g.one, y)),)


def cbrt(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """1/(3 y^2)."""
    return (scaled(g, 1.0 / 3.0, g.div(g.one, g.mul(y, y))),)


def size(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """Sign of x."""
    return (g.function("sign", a[0]),)


def gamma(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """y times the logarithmic derivative."""
    return (g.mul(y, digamma(g, a[0])),)


def digamma(g: Algebra, x: int) -> int:
    """The logarithmic derivative of the gamma function."""
    return g.binary("polygamma", g.zero, x)


def next_polygamma(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
    """The polygamma function of the next order; the order is constant."""
    return (g.zero, g.binary("polygamma", g.add(a[0], g.one), a[1]))


def bessel(name: str) -> Rule:
    """Half the difference of the neighbours (Abramowitz, Stegun, 9.1.27)."""

    def rule(g: Algebra, y: int, a: tuple[int, ...]) -> tuple[int, ...]:
        below, above = (g.binary(name, f(a[0], g.one), a[1]) for f in (g.sub, g.add))
        slope = g.neg(above) if a[0] == g.zero else scaled(g, 0.5, g.sub(below, above))
        return (g.zero, slope)

    return rule
