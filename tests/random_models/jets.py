"""Values, gradients and Hessians in high precision, with what double arithmetic may lose.

A number is a triple (value, size, error): the value in mpmath, its magnitude as a float, and a
bound of the first order for the error that double arithmetic makes in it, following the formula as
written with every elementary function, and every derivative of one, right to rounding. What is off
by more than `TRUST` times that bound is wrong. An infinite error says that double arithmetic can
give anything, because something on the way leaves its range.

A jet is a number with first and second derivatives in sparse form. If it has no value it says why:

undefined : outside the real domain of a function.
pole : infinite, or beyond the range of double.
open : a pole inside of something else, or undefined in a way that limits might mend.
"""

from dataclasses import dataclass, field
from math import inf

import mpmath
from mpmath import mpf

UNIT = 2.0**-52
TINY = 1e-307
HUGE = 1e300
ROOT = 1e150  # of HUGE: the square of what is larger leaves the range of double
CUBE = 1e100  # a second derivative is a sum of products of three
TRUST = 1000.0
DIGITS = 60

UNDEFINED, POLE, OPEN = "undefined", "pole", "open"
ONE = (mpf(1), 1.0, 0.0)
ANYTHING = (mpf("nan"), inf, inf)


def size_of(value):
    """The magnitude as a float; beyond the range of double, where only ways lead, as it is."""
    size = abs(float(value))
    return size if TINY < size < HUGE or not value or not mpmath.isfinite(value) else abs(value)


def number(value, error=0.0):
    """A number from mpmath or Python, with the error given."""
    value = mpf(value)
    return value, size_of(value), error


def rounded(value, error=0.0):
    """A number with one rounding on top of `error`."""
    value = mpf(value)
    size = size_of(value)
    return value, size, error + UNIT * size


def times(a, b):
    """a * b, of any magnitude."""
    value, size = a[0] * b[0], a[1] * b[1]
    error = a[2] * b[1] + a[1] * b[2] + a[2] * b[2] + UNIT * size
    if TINY < size < HUGE or (not value and error < HUGE):
        return value, size, error
    if not mpmath.isfinite(value) or inf in (a[2], b[2]):
        return value, inf, inf
    size, left, right = abs(value), mpf(a[2]), mpf(b[2])
    return value, size, left * b[1] + a[1] * right + left * right + UNIT * size


def summed(terms):
    """The sum of some numbers, in any order, of any magnitude."""
    value, size, error = terms[0]
    for v, s, e in terms[1:]:
        value, size, error = value + v, size + s, error + e
    return value, size_of(value), error + (UNIT * size if len(terms) > 1 else 0.0)


def total(terms):
    """The sum of some numbers as far as double can hold it."""
    value, size, error = summed(terms)
    if not size < HUGE or not error < HUGE:
        return value, abs(float(value)), inf
    return value, float(size), float(error) + (TINY if error or 0 < size < TINY else 0.0)


def is_round(*numbers):
    """Whether all are exact, and so short that their sums and products are exact in double too."""
    return all(e == 0.0 and s < 2.0**24 and float(s * 2.0**12).is_integer() for _, s, e in numbers)


@dataclass
class Jet:
    """A number, its first derivatives by variable and its second ones by (i, j), i <= j."""

    number: tuple
    slope: dict = field(default_factory=dict)
    bend: dict = field(default_factory=dict)
    lack: str = ""
    strained: bool = False  # whether what second derivatives are made of leaves the range of double

    @property
    def value(self):
        return self.number[0]

    @property
    def size(self):
        return self.number[1]

    @property
    def error(self):
        return self.number[2]


def constant(value, error=0.0):
    """A jet without derivatives."""
    return settled(Jet(number(value, error)))


def variable(value, key):
    """The variable called `key`, exactly `value`."""
    return Jet(number(value), {key: ONE})


def without(lack):
    """A jet without a value."""
    return Jet(ANYTHING, lack=lack)


def lack_of(value):
    """Why a number cannot be the value of a jet; empty if it can."""
    if mpmath.isnan(value[0]):
        return OPEN
    if mpmath.isinf(value[0]):
        return POLE
    if value[1] >= HUGE:
        return POLE if TRUST * value[2] < value[1] else OPEN
    return OPEN if value[2] == inf else ""


def settled(jet):
    """`jet`, or none where its value has left the range of double."""
    lack = jet.lack or lack_of(jet.number)
    return without(lack) if lack else jet


def worst(jets):
    """The lack of a function of `jets`; empty if all have values."""
    lacks = {jet.lack for jet in jets}
    if lacks == {""}:
        return ""
    return UNDEFINED if UNDEFINED in lacks else OPEN


def add(jets):
    """The sum of some jets."""
    lacks = [jet.lack for jet in jets if jet.lack]
    if lacks:
        return without(POLE if lacks == [POLE] else worst(jets))
    value = summed([jet.number for jet in jets])
    if lack_of(value):
        return without(lack_of(value))
    if is_round(*(jet.number for jet in jets)) or _nearly_exact(jets, value):
        value = (value[0], value[1], 0.0)
    slope, bend = {}, {}
    for jet in jets:
        for key, d in jet.slope.items():
            slope.setdefault(key, []).append(d)
        for key, d in jet.bend.items():
            bend.setdefault(key, []).append(d)
    return Jet(
        total([value]) if value[2] else value,
        {k: total(d) for k, d in slope.items()},
        {k: total(d) for k, d in bend.items()},
        strained=any(jet.strained for jet in jets),
    )


def _nearly_exact(jets, value):
    """Whether two exact numbers have an exact sum."""
    return len(jets) == 2 and jets[0].error == jets[1].error == 0.0 and float(value[0]) == value[0]


def mul(a, b):
    """The product of two jets."""
    if a.lack or b.lack:
        return without(_lack_of_product(a, b))
    value = times(a.number, b.number)
    if lack_of(value):
        return without(lack_of(value))
    if is_round(a.number, b.number) or (a.error == b.error == 0.0 and float(value[0]) == value[0]):
        value = (value[0], value[1], 0.0)
    return compose(value, [b.number, a.number], {(0, 1): ONE}, [a, b])


def div(a, b):
    """a / b, by 1/b, which quotients with the same denominator share."""
    if a.lack or b.lack:
        return without(worst([a, b]))
    if b.size <= TRUST * b.error:
        clear = b.error == 0.0 and a.size > TRUST * a.error
        return without(POLE if clear else OPEN)
    result = binary(_quotient, a, b)
    value = result.number
    exact = a.error == b.error == 0.0 and all(float(v) == v for v in (value[0], 1 / b.value))
    if exact and not result.lack:
        result.number = (value[0], value[1], 0.0)
    if b.slope and not 1 / ROOT < b.size < ROOT:  # the slope has the square of b below the line
        result.slope = {key: (*d[:2], inf) for key, d in result.slope.items()}
    return result


def _quotient(x, y):
    if not y:
        return (mpf("inf"),) * 6
    return x / y, 1 / y, -x / y**2, None, -1 / y**2, 2 * x / y**3


def _lack_of_product(a, b):
    lacks = {a.lack, b.lack} - {""}
    if any(not jet.lack and jet.size <= TRUST * jet.error for jet in (a, b)):
        return OPEN
    if lacks == {POLE} and all(jet.lack or jet.size >= 1 for jet in (a, b)):
        return POLE
    return worst([a, b])


def compose(value, first, second, jets):
    """f(jets) from its value, first derivatives and second ones by (k, l), k <= l.

    A derivative that is None vanishes everywhere.
    """
    if lack_of(value):
        return without(lack_of(value))
    keys = sorted(set().union(*(jet.slope for jet in jets)))
    pairs = [(f, jet) for f, jet in zip(first, jets, strict=True) if f is not None]
    slope = _combined((key, times(f, d)) for f, jet in pairs for key, d in jet.slope.items())
    terms = [(key, times(f, d)) for f, jet in pairs for key, d in jet.bend.items()]
    for (k, m), f in second.items():
        if f is None:
            continue
        left, right = jets[k].slope, jets[m].slope
        for at, i in enumerate(keys):
            for j in keys[at:]:
                both = [(left.get(i), right.get(j))]
                if k != m and i != j:
                    both.append((left.get(j), right.get(i)))
                elif k != m:
                    both *= 2
                terms += [((i, j), times(f, times(*p))) for p in both if None not in p]
    steep = max((d[1] for jet in jets for d in jet.slope.values()), default=0.0)
    bent = any(f and f[1] > HUGE and mpmath.isfinite(f[0]) for f in second.values())
    far = value[1] > CUBE or 0 < value[1] < 1 / CUBE or steep > CUBE or bent
    strained = far or any(jet.strained for jet in jets)
    return Jet(total([value]), slope, _combined(terms), strained=strained)


def _combined(terms):
    found = {}
    for key, term in terms:
        found.setdefault(key, []).append(term)
    return {key: total(parts) for key, parts in found.items()}


def unary(function, a, exact=(), scales=None):
    """f(a), where function(x) gives the value and two derivatives, NaN outside its domain.

    The error of each follows from the doubt of a, and a rounding. exact : arguments at which double
    arithmetic has the value without rounding. scales(x) : of what these three are differences.
    """
    if a.lack:
        return without(worst([a]))
    centre = function(a.value)
    near = [function(a.value + side * TRUST * a.error) for side in (-1, 1)] if a.error else []
    if mpmath.isnan(centre[0]):
        return without(OPEN if any(not mpmath.isnan(n[0]) for n in near) else UNDEFINED)
    square = TRUST * mpf(a.error) ** 2
    slopes = [[(centre[1], a.error), (centre[2], square)], [(centre[2], a.error)], []]
    lost = scales(a.value) if scales else (0, 0, 0)
    value, first, second = (
        _with_spread(c, [n[k] for n in near], [*slopes[k], (lost[k], UNIT)])
        for k, c in enumerate(centre)
    )
    if a.error == 0.0 and a.value in exact:
        value = number(centre[0])
    return compose(value, [first], {(0, 0): second}, [a])


def binary(function, a, b, scale=None):
    """f(a, b), where function(x, y) gives the value, two first and three second derivatives.

    scale(x, y) : of what the mixed derivative is a difference.
    """
    if a.lack or b.lack:
        return without(worst([a, b]))
    centre = function(a.value, b.value)
    if mpmath.isnan(centre[0]):
        return without(UNDEFINED)
    near = []
    for side in (-1, 1):
        if a.error:
            near.append(function(a.value + side * TRUST * a.error, b.value))
        if b.error:
            near.append(function(a.value, b.value + side * TRUST * b.error))
    slopes = [
        [(centre[1], a.error), (centre[2], b.error)],
        [(centre[3], a.error), (centre[4], b.error)],
        [(centre[4], a.error), (centre[5], b.error)],
        [],
        [(scale(a.value, b.value), UNIT)] if scale else [],
        [],
    ]
    value, fa, fb, faa, fab, fbb = (
        _with_spread(c, [n[k] for n in near], slopes[k]) for k, c in enumerate(centre)
    )
    return compose(value, [fa, fb], {(0, 0): faa, (0, 1): fab, (1, 1): fbb}, [a, b])


def _with_spread(centre, near, slopes):
    """`centre` rounded, with what it changes nearby as an error; None stays None.

    slopes : (derivative, doubt) of the arguments.
    """
    if centre is None:
        return None
    if mpmath.isnan(centre):
        return ANYTHING
    if mpmath.isinf(centre):
        return centre, inf, inf
    change = sum((abs(other - centre) for other in near), mpf(0)) / TRUST
    change += sum((abs(d * doubt) for d, doubt in slopes if d is not None and doubt), mpf(0))
    if not mpmath.isfinite(change):
        return centre, size_of(centre), inf
    return rounded(centre, size_of(change))


def scaled(jet, factor):
    """A jet times a constant number."""
    return mul(jet, Jet(factor))


def mean(jets):
    """The middle of some jets: at a kink, a derivative between those of the two sides."""
    return mul(add(jets), constant(mpf(1) / len(jets)))
