"""Expressions come in by one door: text is never evaluated, everything is real and finite."""

import numpy as np
import pytest
import sympy as sp
from sympy.physics import mechanics

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.multibody import Body, Load, Revolute, Tree
from kinesym.symbolic.expression import real_expression

x, v, u = ks.dynamicsymbols("x v u")
k = sp.Symbol("k")
RATES = [x.diff(ks.t) - v, v.diff(ks.t) + k * x]


def model(**changes):
    return ks.Model(
        **{
            "name": "m",
            "states": [x, v],
            "inputs": [],
            "parameters": [k],
            "equations": RATES,
            **changes,
        }
    )


def problem(**changes):
    time = np.linspace(0.0, 1.0, 5)
    trial = ks.Experiment(time, measurements={x: 0 * time})
    return ks.Collocation(model(), trial, unknown={k: None}, **changes)


def hybrid(**parts):
    return kh.Hybrid(model(), **parts)


def muscle(**changes):
    return kh.FESMuscle("q", **{"rate": v, "F0": 1e3, "k0": 1e4, "ks": 2e4, "Lc0": 0.1, **changes})


def tree(**changes):
    return Tree(
        "arm", [Body("a", **{"mass": 1.0, "com": (0, 0, 1), "joint": Revolute("y"), **changes})]
    )


#: Every place where an expression is taken.
DOORS = {
    "equation": lambda e: model(equations=[e, RATES[1]]),
    "output": lambda e: model(outputs={"o": e}),
    "intermediate": lambda e: model(intermediates=[(sp.Symbol("i"), e)]),
    "limit": lambda e: model(limits={"too far": e}),
    "replacement": lambda e: model(equations=[RATES[0], v.diff(ks.t) + k * sp.sin(x)]).substitute(
        {x: e}
    ),
    "output of KanesMethod": lambda e: ks.Model.from_kane(kane(), outputs={"o": e}),
    "integral": ks.Integral,
    "terminal": ks.Terminal,
    "factor": lambda e: ks.Integral(x) * e,
    "divisor": lambda e: ks.Integral(x) / e,
    "boundary": lambda e: problem(boundary=[e]),
    "path": lambda e: problem(path=[(e, 0, 1)]),
    "guard": lambda e: hybrid(events=[kh.Event("e", e)]),
    "when": lambda e: hybrid(events=[kh.Event("e", x, when=e)]),
    "reset": lambda e: hybrid(events=[kh.Event("e", x, resets={v: e})]),
    "height": lambda e: hybrid(contacts=[kh.Contact("c", e, u)]),
    "muscle": lambda e: muscle(F0=e),
    "muscle rate": lambda e: hybrid(muscles=[muscle(rate=e)]),
    "recruitment": lambda e: muscle(recruitment=e),
    "mass": lambda e: tree(mass=e),
    "centre": lambda e: tree(com=(0, 0, e)),
    "inertia": lambda e: tree(inertia=(1, 1, e)),
    "axis": lambda e: tree(joint=Revolute((0, 1, e))),
    "torque": lambda e: tree().model(torques={"a_wy": e}),
    "load": lambda e: Tree("arm", tree().bodies, loads=[Load("a", force=(e, 0, 0))]),
    "gravity": lambda e: Tree("arm", tree().bodies, gravity=(0, 0, e)),
}


def kane():
    q, s = mechanics.dynamicsymbols("q s")
    frame, point = mechanics.ReferenceFrame("N"), mechanics.Point("O")
    point.set_vel(frame, s * frame.x)
    made = mechanics.KanesMethod(frame, [q], [s], [q.diff() - s])
    made.kanes_equations(
        [mechanics.Particle("p", point, sp.Symbol("m"))], [(point, -sp.Symbol("c") * q * frame.x)]
    )
    return made


@pytest.mark.parametrize("door", DOORS)
def test_text_is_never_run(door, tmp_path):
    planted = tmp_path / "planted"
    with pytest.raises((ValueError, TypeError), match="text"):
        DOORS[door](f"__import__('pathlib').Path({str(planted)!r}).touch()")
    assert not planted.exists()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "value",
    [[x], sp.Matrix([x]), x < 5, object(), sp.nan, 10**400],
    ids=["list", "matrix", "relation", "object", "nan", "huge"],
)
def test_what_is_no_expression(door, value):
    if door in ("boundary", "path") and value == (x < 5):
        return  # a relation is a condition
    with pytest.raises((ValueError, TypeError)) as caught:
        DOORS[door](value)
    assert "sympify" not in str(caught.value).lower()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (sp.Integral(x, (ks.t, 0, ks.t)), "make it a state whose rate is the integrand"),
        (1 + sp.Sum(x, (sp.Symbol("i"), 0, 3)), "write its terms"),
        (sp.Limit(x, ks.t, 0), r"use \.doit\(\)"),
    ],
)
def test_what_is_not_evaluated(value, words):
    with pytest.raises(ValueError, match=f"e contains .*, which is not evaluated; {words}"):
        real_expression(value, "e")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (sp.asin(2), "asin\\(2\\), which is no real number"),
        (sp.Float("1e320"), "beyond double precision"),
        (sp.Rational(1, 10**400), "beyond double precision"),
        (sp.I * x, "imaginary unit"),
        (sp.MatrixSymbol("A", 2, 2), "is a matrix"),
    ],
)
def test_numbers_that_cannot_be(value, words):
    with pytest.raises(ValueError, match=words):
        real_expression(value, "output o")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (sp.Abs(sp.exp(x)), sp.exp(x)),
        (sp.Abs(x).diff(ks.t), sp.sign(x) * x.diff(ks.t)),
        (sp.re(x * v), x * v),
        (sp.im(x) + sp.conjugate(v), v),
        (sp.factorial(k), sp.gamma(k + 1)),
        (sp.SingularityFunction(x, k, 2), sp.Piecewise(((x - k) ** 2, x >= k), (0, True))),
        (sp.SingularityFunction(x, k, -1), sp.SingularityFunction(x, k, -1)),
        (np.float64(1.5), 1.5),
        (np.array(2), 2),
    ],
)
def test_everything_is_real(given, meant):
    """SymPy writes real and imaginary parts where symbols are not declared real."""
    assert sp.simplify(real_expression(given, "it") - meant) == 0


def test_the_angle_of_a_real_number():
    angle = real_expression(sp.arg(k), "it")
    assert [angle.subs(k, value) for value in (-2, 3)] == [sp.pi, 0]
