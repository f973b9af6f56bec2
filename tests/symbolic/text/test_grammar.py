"""The grammar of expressions: what is read means what it says, what is written is read as it was,
and hostile text ends in a sentence."""

import math
import random
import re

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.codegen import cfunctions

import kinesym as ks
from kinesym.codegen.lower import _CONVERTERS
from kinesym.codegen.operations import OPERATIONS
from kinesym.symbolic.expression import parts, real_expression
from kinesym.symbolic.text.grammar import Scope, parsed
from kinesym.symbolic.text.scalars import CONSTANTS, NAMES, SCALARS
from kinesym.symbolic.text.writer import Writer

x, y = ks.dynamicsymbols("x y")
a, b, odd, word = map(sp.Symbol, ("a", "b", "theta(t - τ)`", "pi"))
SCOPE = Scope(
    {"x": x, "y": y, "a": a, "b": b, odd.name: odd, "pi": word},
    {"x": x.diff(ks.t)},
    later=frozenset(["z"]),
)
write = Writer({})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("-x**2", -(x**2)),
        ("2**-x**2", 2 ** (-(x**2))),
        ("a**b**x", a ** (b**x)),
        ("a/b/x*y", a * y / (b * x)),
        ("a - b - x", a - b - x),
        ("a - (b - x)", a - b + x),
        ("-(x + y)", sp.Mul(-1, x + y, evaluate=False)),
        ("2/3*x", sp.Rational(2, 3) * x),
        ("1e-3*x + .5", sp.Float(1e-3) * x + 0.5),
        ("x' + pi*`pi` + t", x.diff(ks.t) + sp.pi * word + ks.t),
        ("`theta(t - τ)```**2", odd**2),
        ("sqrt(x) + log10(10)", sp.sqrt(x) + 1),
        ("hypot(x, a)", cfunctions.hypot(x, a)),
        ("if(x < 1 and not y == 2, a, x >= 2 or y != 1, b)", None),
        ("if(x < 0, -x, x)", sp.Piecewise((-x, x < 0), (x, True))),
        ("+x - -y", x + y),
        ("delayed(x, 0.1) + delayed(y, a*x, 0, 1)", None),
        ("mod(7, 4) + mod(x, 2)", 3 + sp.Mod(x, 2)),
    ],
)
def test_text_means(text, meant):
    found = parsed(text, SCOPE)
    assert meant is None or sp.expand(found - meant) == 0
    assert parsed(write(found), SCOPE) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "column 1: the expression is empty"),
        ("x +", "column 4: the text ends where"),
        ("2 x", "column 3: 'x' follows an operand; an operator such as * is expected"),
        ("x^2", "column 2: '^': write **"),
        ("x + xx", "column 5: xx is not declared; did you mean x?"),
        ("z", "z is defined further below; move it up"),
        ("sine(x)", "there is no function sine; did you mean sin?"),
        ("x(t)", "x is no function; it is written without (t)"),
        ("x''", "of second order; introduce a state"),
        ("a'", "a' is a derivative, but a is no state"),
        ("(x", "column 1: the bracket that opens here is not closed"),
        ("x)", "column 2: ')' closes or divides no bracket"),
        ("(x, y)", "a comma stands outside"),
        ("sin", "sin is a function; its argument is missing"),
        ("sin()", "column 5: ')' stands where"),
        ("atan2(x)", "atan2 takes 2 arguments, got 1"),
        ("sin[1](x)", "write the derivative of sin out"),
        ("x < y < a", "two comparisons in a row"),
        ("x + (x < 1)", "is a condition, where a number is expected"),
        ("if(x, y, a)", "is a number, where a condition"),
        ("1/0", "is no real number"),
        ("mod(1, 0)", "column 1: Modulo by zero"),
        ("if(x < 1, x > 0, y)", "y(t) is a number, where a condition"),
        ("sqrt(-1)", "is no real number"),
        ("exp(exp(exp(9)))", "is no real number"),
        ("9**9**9**9", "the exponent"),
        ("(10**300*x)**999999", "beyond double precision"),
        ("(1/3)**100000", "beyond double precision"),
        ("gamma(10**9)", "is no real number"),
        ("besselj(1e9, 1e9)", "besselj of order 1000000000.00000"),
        ("1e999", "beyond double precision"),
        ("1e-999", "beyond double precision"),
        ("7" * 5000, "a number of 5000 digits"),
        ("`x", "no second backquote"),
        ("x.y", "column 2: '.': it is no part of an expression"),
        ("__import__('os')", "there is no function __import__"),
        ("lambda: x", "column 7"),
        ("delayed(x, -1)", "which is negative"),
        ("(" * 9000, "the text ends"),
        ("sin(" * 2000 + "x" + ")" * 2000, "nested too deeply for SymPy"),
    ],
)
def test_wrong_text_is_told_with_its_column(text, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        parsed(text, SCOPE)


@pytest.mark.parametrize(
    "e",
    [
        sp.Mod(x + 3, 2, evaluate=False),
        sp.Mod(sp.Mod(x, a), a, evaluate=False),
        sp.Mod(0.3 * x + 1, 0.7, evaluate=False),
        sp.Piecewise((x, sp.ITE(a < b, x < 1, x > 2)), (y, True)),
        sp.Piecewise((x, x < 1)),
        sp.Piecewise((1, sp.And(sp.Not(sp.Eq(x, y)), sp.Or(x < a, y >= b))), (sp.Mod(x, y), True)),
    ],
)
def test_what_is_read_is_the_same_where_a_number_is_nan(e):
    """No case, comparison or remainder is rewritten: (a >= b or c) and (a < b or d) is not the
    choice of c or d by a < b where a is NaN."""
    assert parsed(write(e), SCOPE) == e


def test_depth_of_brackets_and_signs_has_no_limit():
    assert parsed("(" * 3000 + "-" * 2000 + "x" + ")" * 3000, SCOPE) == x
    total = parsed(" + ".join(f"{k}*x**{k}" for k in range(1, 501)), SCOPE)
    assert len(total.args) == 500 and parsed(write(total), SCOPE) == total


def test_functions_are_those_of_the_code_generator():
    """Every function that C computes has its name in the text, and every class that the code
    generator takes can be written."""
    for row in OPERATIONS.values():
        if row.of is not None and not issubclass(row.of, sp.core.relational.Relational):
            assert NAMES[row.of] == row.name and row.name in SCALARS
    arguments = {sp.Heaviside: (x, a), sp.polygamma: (2, x), sp.besselj: (1, x), sp.bessely: (1, x)}
    for made in {*NAMES} & {*_CONVERTERS}:
        count = SCALARS[NAMES[made]].least
        e = made(*arguments.get(made, (x, y)[: max(count, 1 + (made in (sp.Min, sp.Max)))]))
        assert made is cfunctions.Sqrt or parsed(write(e), SCOPE) == e
    joined = (sp.Add, sp.Mul, sp.Pow, sp.Piecewise, sp.And, sp.Or, sp.Not, sp.UnevaluatedExpr)
    others = {*_CONVERTERS} - {*NAMES, *joined, sp.ITE, sp.factorial}
    assert all(issubclass(made, sp.core.relational.Relational) for made in others)
    for constant in CONSTANTS.values():
        assert parsed(write(constant), SCOPE) == constant


NUMBERS = st.one_of(
    st.integers(-20, 20).map(sp.Integer),
    st.fractions(-3, 3, max_denominator=12).map(lambda q: sp.Rational(q.numerator, q.denominator)),
    st.floats(-1e3, 1e3, allow_subnormal=False).map(sp.Float),
    st.floats(0.1, 1e9).map(lambda value: sp.Float(value) * 1e-20),
)
LEAVES = st.one_of(NUMBERS, st.sampled_from((x, y, a, b, odd, word, ks.t, sp.pi, x.diff(ks.t))))
SMOOTH = (sp.sin, sp.cos, sp.exp, sp.tanh, sp.Abs, cfunctions.expm1, sp.sinc)
POWERS = (
    *map(sp.Integer, (-3, -2, -1, 2, 3)),
    sp.S.Half,
    -sp.S.Half,
    sp.Rational(2, 3),
    sp.Float(1.5),
)


def larger(e):
    pair = st.tuples(e, e)
    return st.one_of(
        *(pair.map(lambda two, f=f: f(*two)) for f in (sp.Add, sp.Mul, sp.Max)),
        st.tuples(st.sampled_from(SMOOTH), e).map(lambda two: two[0](two[1])),
        st.tuples(e, st.sampled_from(POWERS)).map(lambda two: (2 + two[0] ** 2) ** two[1]),
        st.tuples(e, e, e).map(
            lambda three: sp.Piecewise((three[0], three[2] < a), (three[1], True))
        ),
        st.tuples(NUMBERS, e).map(lambda two: sp.Mul(two[0], x + two[1], evaluate=False)),
    )


@settings(max_examples=50, deadline=None)
@given(st.recursive(LEAVES, larger, max_leaves=12))
def test_what_is_written_is_read_with_the_same_value(e):
    try:
        e = real_expression(e, "e")
    except ValueError:  # it has a part that is no number of double precision
        return
    found = parsed(write(e), SCOPE)
    again = parsed(write(found), SCOPE)
    assert again == found and write(again) == write(found)
    rebuilt = all(part.func(*part.args) == part for part in parts(e) if part.args)
    assert found == e or not rebuilt
    draw = random.Random(1)
    symbols = (x.diff(ks.t), x, y, a, b, odd, word, ks.t)
    for _ in range(3):
        point = [(s, sp.Float(draw.uniform(0.1, 2.0), 60)) for s in symbols]
        one, other = (complex(sp.N(part.subs(point), 40)) for part in (e, found))
        assert one == other or abs(one - other) <= 1e-15 * abs(one) or not math.isfinite(abs(one))
