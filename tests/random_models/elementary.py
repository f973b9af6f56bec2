"""Elementary functions of a real argument in mpmath: (f, f', f''), NaN outside the real domain.

Written so that no digits cancel, whatever the argument: sech^2 for tanh', a series for sinc.
"""

import mpmath
from mpmath import inf, mpf, nan

OUTSIDE = (nan, nan, nan)


def _inverse(x):
    return mpf(1) / x if x else inf


def sin(x):
    s, c = mpmath.sin(x), mpmath.cos(x)
    return s, c, -s


def cos(x):
    s, c = mpmath.sin(x), mpmath.cos(x)
    return c, -s, -c


def _reciprocal(f, first, second):
    """1/f from f, f', f''."""
    if not f:
        return inf, inf, inf
    return 1 / f, -first / f**2, 2 * first**2 / f**3 - second / f**2


def sec(x):
    return _reciprocal(*cos(x))


def csc(x):
    return _reciprocal(*sin(x))


def tan(x):
    y, s = mpmath.tan(x), mpmath.sec(x) ** 2
    return y, s, 2 * y * s


def cot(x):
    s, c = mpmath.sin(x), mpmath.cos(x)
    if not s:
        return inf, inf, inf
    return c / s, -1 / s**2, 2 * c / s**3


def asin(x):
    if abs(x) > 1:
        return OUTSIDE
    r = (1 - x) * (1 + x)
    if not r:
        return mpmath.asin(x), inf, inf * x
    return mpmath.asin(x), r ** mpf(-0.5), x * r ** mpf(-1.5)


def acos(x):
    _, first, second = asin(x)
    return (mpmath.acos(x) if abs(x) <= 1 else nan), -first, -second


def atan(x):
    r = 1 / (1 + x * x)
    return mpmath.atan(x), r, -2 * x * r * r


def sinh(x):
    s, c = mpmath.sinh(x), mpmath.cosh(x)
    return s, c, s


def cosh(x):
    s, c = mpmath.sinh(x), mpmath.cosh(x)
    return c, s, c


def tanh(x):
    y, s = mpmath.tanh(x), mpmath.sech(x) ** 2
    return y, s, -2 * y * s


def coth(x):
    s, c = mpmath.sinh(x), mpmath.cosh(x)
    if not s:
        return inf, inf, inf
    return c / s, -1 / s**2, 2 * c / s**3


def sech(x):
    s, c = mpmath.sinh(x), mpmath.cosh(x)
    return 1 / c, -s / c**2, (s * s - 1) / c**3


def csch(x):
    s, c = mpmath.sinh(x), mpmath.cosh(x)
    if not s:
        return inf, inf, inf
    return 1 / s, -c / s**2, (c * c + 1) / s**3


def asinh(x):
    r = 1 + x * x
    return mpmath.asinh(x), r ** mpf(-0.5), -x * r ** mpf(-1.5)


def acosh(x):
    if x < 1:
        return OUTSIDE
    r = (x - 1) * (x + 1)
    if not r:
        return mpf(0), inf, -inf
    return mpmath.acosh(x), r ** mpf(-0.5), -x * r ** mpf(-1.5)


def atanh(x):
    if abs(x) > 1:
        return OUTSIDE
    r = (1 - x) * (1 + x)
    if not r:
        return inf * x, inf, inf * x
    return mpmath.atanh(x), 1 / r, 2 * x / r**2


def exp(x):
    y = mpmath.exp(x)
    return y, y, y


def log(x):
    if x < 0:
        return OUTSIDE
    if not x:
        return -inf, inf, -inf
    return mpmath.log(x), 1 / x, -1 / x**2


def erf(x):
    bell = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x)
    return mpmath.erf(x), bell, -2 * x * bell


def erfc(x):
    if x > 1e6:  # far below the range of double, too far for mpmath
        return mpf(0), mpf(0), mpf(0)
    _, first, second = erf(x)
    return mpmath.erfc(x), -first, -second


def sinc(x):
    """sin(x)/x; by its series where the quotient and its derivatives cancel."""
    if abs(x) > 1:
        s, c = mpmath.sin(x), mpmath.cos(x)
        return s / x, c / x - s / x**2, -s / x - 2 * c / x**2 + 2 * s / x**3
    sums, term = [mpf(0)] * 3, mpf(1)  # term: (-1)^k x^(2k - 2) / (2k + 1)!, times x^2 below
    power, k = mpf(1), 0
    while k < 40:
        sums[0] += term * power * (x * x if k else 1)
        if k:
            sums[1] += term * 2 * k * power * x
            sums[2] += term * 2 * k * (2 * k - 1) * power
            power *= x * x
        k += 1
        term /= -(2 * k) * (2 * k + 1)
    return tuple(sums)


def power_of(exponent):
    """x -> x^exponent for a constant real exponent."""
    n = int(exponent) if exponent == int(exponent) else None

    def power(x):
        if n is None and x < 0:
            return OUTSIDE
        return tuple(
            _factor(exponent, k) * _power(x, exponent - k, n is not None, n, k)
            if _factor(exponent, k)
            else mpf(0)
            for k in range(3)
        )

    return power


def _factor(exponent, k):
    return mpf(1) if k == 0 else exponent if k == 1 else exponent * (exponent - 1)


def _power(x, exponent, whole, n, k):
    if not x:
        return mpf(1) if not exponent else mpf(0) if exponent > 0 else inf
    return x ** (n - k) if whole else x**exponent


def power(x, p):
    """x^p of two variables: value, d/dx, d/dp, then d2/dx2, d2/dx dp, d2/dp2."""
    if x < 0:
        return _power_of_negative(x, p)
    if not x:
        return tuple(_at_zero(p, k, log) for k, log in ((0, 0), (1, 0), (0, 1))) + (
            _second_at_zero(p, 2),
            _cross_at_zero(p),
            _second_at_zero(p, 0),
        )
    y, logarithm = x**p, mpmath.log(x)
    return (
        y,
        p * y / x,
        y * logarithm,
        p * (p - 1) * y / x**2,
        (1 + p * logarithm) * y / x,
        y * logarithm**2,
    )


def _power_of_negative(x, p):
    """Real for whole exponents only; the derivatives by the exponent are complex."""
    if p != int(p):
        return (nan,) * 6
    n = int(p)
    return x**n, n * x ** (n - 1), nan, n * (n - 1) * x ** (n - 2), nan, nan


def _limit(q, log):
    """x^q log(x)^log for x to 0 from above."""
    if q > 0:
        return mpf(0)
    if q == 0 and log == 0:
        return mpf(1)
    return -inf if log % 2 else inf


def _at_zero(p, k, log):
    return p * _limit(p - 1, 0) if k and p else mpf(0) if k else _limit(p, log)


def _second_at_zero(p, k):
    if k == 0:
        return _limit(p, 2)
    return p * (p - 1) * _limit(p - 2, 0) if p * (p - 1) else mpf(0)


def _cross_at_zero(p):
    return mpf(0) if p > 1 else (inf if p <= 0 else -inf)


def atan2(y, x):
    """The angle of (x, y) and its derivatives, by y first."""
    r = x * x + y * y
    if not r:
        return (nan,) * 6
    return (
        mpmath.atan2(y, x),
        x / r,
        -y / r,
        -2 * x * y / r**2,
        (y * y - x * x) / r**2,
        2 * x * y / r**2,
    )


def angle_on_the_left(y, x):
    """The same for x < 0, without the cut: beyond pi for y < 0."""
    return (mpmath.pi + mpmath.atan(y / x), *atan2(y, x)[1:])


def mixed_angle(y, x):
    """What the mixed derivative of atan2 is a difference of."""
    return 1 / (x * x + y * y)


def mixed_power(x, p):
    """What the mixed derivative of x^p is a difference of."""
    return abs(x**p / x) * (1 + abs(p * mpmath.log(x))) if x > 0 else mpf(0)


#: What value and derivatives are differences of, where these can cancel.
SCALES = {
    "sinc": lambda x: (0, 1 / x, 1 / x) if abs(x) > 1 else (0, 0, 0),
    "sech": lambda x: (0, 0, mpmath.sech(x)),
}
