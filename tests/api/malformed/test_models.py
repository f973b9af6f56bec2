"""Models and objectives that cannot be."""

import numpy as np
import pytest
import sympy as sp
from sympy.physics.mechanics import KanesMethod, Particle, Point, ReferenceFrame

import kinesym as ks

t = ks.t
x, v, u, w = ks.dynamicsymbols("x v u w")
k, c, s, r = sp.symbols("k c s r")
EQUATIONS = [x.diff(t) - v, v.diff(t) + k * x - u]


def model(**changes):
    fields = {
        "name": "osc",
        "states": [x, v],
        "inputs": [u],
        "parameters": [k],
        "equations": EQUATIONS,
    }
    return ks.Model(**{**fields, **changes})


def grown(rate):
    return ks.Model("grown", [x], [], [k], [x.diff(t) - rate * x])


def kane(formed=True, **more):
    """A mass on a spring."""
    N, O = ReferenceFrame("N"), Point("O")  # noqa: E741
    O.set_vel(N, v * N.x)
    method = KanesMethod(N, [x], [v], kd_eqs=[x.diff(t) - v], **more)
    if formed:
        method.kanes_equations([Particle("P", O, sp.Symbol("m"))], [(O, -k * x * N.x)])
    return method


NAMES = [
    (lambda: model(name=""), "name of a model", "''"),
    (lambda: model(name=None), "name of a model", "None"),
    (lambda: model(name=5), "name of a model", "5"),
    (lambda: model(name="a\0b"), "name of a model", "control character"),
    (lambda: model(name="a\nb"), "name of a model", "control character"),
    (lambda: model(name=" "), "name of a model"),
    (lambda: model(name=["osc"]), "name of a model", "['osc']"),
    (lambda: model(states=[sp.Function("")(t), v]), "state", "''"),
    (lambda: model(states=[sp.Function("1x")(t), v]), "state", "'1x'"),
    (lambda: model(states=[sp.Function("5")(t), v]), "state", "'5'"),
    (lambda: model(parameters=[sp.Symbol("k\0")]), "parameter", "control character"),
    (lambda: model(inputs=[sp.Function("2")(t)]), "input", "'2'"),
    (lambda: model(parameters=[sp.Symbol("")]), "parameter", "''"),
    (lambda: model(parameters=[sp.Symbol("1")]), "parameter", "'1'"),
    (lambda: model(parameters=[sp.Symbol("k\n")]), "parameter", "control character"),
    (lambda: model(outputs={"": x}), "output", "''"),
    (lambda: model(outputs={"3": x}), "output", "'3'"),
    (lambda: model(outputs={3: x}), "output", "3"),
    (lambda: model(outputs={None: x}), "output", "None"),
    (lambda: model(outputs={"y\0": x}), "output", "control character"),
    (lambda: model(outputs={("a", "b"): x}), "output", "('a', 'b')"),
    (lambda: model(outputs={x: x}), "x is declared more than once"),
    (lambda: model(outputs={"a/b": x}), "'a/b'", "column in saved files"),
    (lambda: model(outputs={"duration": x}), "duration is reserved"),
    (lambda: model(outputs={"measured_x": x}), "measured_x is reserved"),
    (lambda: model(outputs={"u": x}), "name u is declared more than once"),
    (lambda: model(outputs={"k": x}), "name k is declared more than once"),
    (lambda: model(intermediates=[(sp.Symbol(""), x)]), "intermediate", "''"),
    (lambda: model(intermediates=[(sp.Symbol("9"), x)]), "intermediate", "'9'"),
    (lambda: model(limits={"": x}), "limit", "''"),
    (lambda: model(limits={5: x}), "limit", "5"),
    (lambda: ks.dynamicsymbols(""), "names", "''"),
    (lambda: ks.dynamicsymbols("  "), "names"),
    (lambda: ks.dynamicsymbols(None), "names", "None"),
    (lambda: ks.dynamicsymbols(5), "names", "5"),
    (lambda: ks.dynamicsymbols([]), "names", "none"),
    (lambda: ks.dynamicsymbols([5]), "names", "5"),
    (lambda: ks.dynamicsymbols("1x"), "'1x'"),
    (lambda: ks.dynamicsymbols("x 2"), "'2'"),
    (lambda: ks.dynamicsymbols("x\0y"), "control character"),
    (lambda: ks.dynamicsymbols(x), "names", "x(t)"),
    (lambda: ks.dynamicsymbols("x,,y"), "names", "'x,,y'"),
]

STATES = [
    (lambda: model(states=x), "states must be a list", "x(t)"),
    (lambda: model(states="x v"), "states must be a list", "'x v'"),
    (lambda: model(states=None), "states must be a list", "None"),
    (lambda: model(states={x, v}), "states must be a list", "{"),
    (lambda: model(states=2), "states must be a list", "2"),
    (lambda: model(states={x: 0, v: 0}), "states must be a list"),
    (lambda: model(states=["x", "v"]), "state", "'x'", "dynamicsymbols"),
    (lambda: model(states=[None, v]), "state", "None", "dynamicsymbols"),
    (lambda: model(states=[1, v]), "state 1", "dynamicsymbols"),
    (lambda: model(states=[x, [v]]), "state", "[v(t)]"),
    (lambda: model(states=[x, (v, u)]), "state", "(v(t), u(t))"),
    (lambda: model(states=[x, k]), "state k", "function of time"),
    (lambda: model(states=[x, x.diff(t)]), "state", "Derivative(x(t), t)"),
    (lambda: model(states=[x, v + 1]), "state v(t) + 1"),
    (lambda: model(states=[x, sp.Function("v")(k)]), "state v(k)"),
    (lambda: model(states=[x, sp.Function("v")]), "the class v", "function of time"),
    (lambda: model(states=[x, sp.Function("v")(2 * t)]), "state v(2*t)"),
    (lambda: model(states=[x, x]), "x is declared more than once"),
    (lambda: model(states=[x, v, w]), "2 equations for 3 states", "w(t) has no equation"),
    (lambda: model(states=[x]), "2 equations for 1 states"),
    (lambda: model(inputs=u), "inputs must be a list", "u(t)"),
    (lambda: model(inputs="u"), "inputs must be a list", "'u'"),
    (lambda: model(inputs=None), "inputs must be a list", "None"),
    (lambda: model(inputs=["u"]), "input", "'u'", "dynamicsymbols"),
    (lambda: model(inputs=[u, x]), "x is declared more than once"),
    (lambda: model(inputs=[u, k]), "input k is not a function of time"),
    (lambda: model(inputs=[u, u]), "u is declared more than once"),
    (lambda: model(inputs=[]), "u(t), which is not declared"),
    (lambda: model(parameters=k), "parameters must be a list", "k"),
    (lambda: model(parameters="k"), "parameters must be a list", "'k'"),
    (lambda: model(parameters={"k": 1.0}), "parameters must be a list"),
    (lambda: model(parameters=None), "parameters must be a list"),
    (lambda: model(parameters=["k"]), "parameter", "'k'", "sympy.Symbol"),
    (lambda: model(parameters=[1.0]), "parameter 1.0", "sympy.Symbol"),
    (lambda: model(parameters=[x]), "parameter x(t)", "sympy.Symbol"),
    (lambda: model(parameters=[k, t]), "parameter t", "sympy.Symbol"),
    (lambda: model(parameters=[k, k]), "k is declared more than once"),
    (lambda: model(parameters=[]), "contains k, which is not declared"),
    (lambda: model(parameters=[sp.Symbol("k", positive=True)]), "another symbol than the declared"),
    (lambda: model(parameters=[k, sp.Symbol("k", real=True)]), "k is declared more than once"),
    (lambda: model(parameters=[k, sp.Symbol("x")]), "x is declared more than once"),
    (lambda: model(parameters=[[k]]), "parameter [k]", "sympy.Symbol"),
    (lambda: model(parameters=[np.array([1.0])]), "parameter", "sympy.Symbol"),
]

EXPRESSIONS = [
    (lambda: model(equations=None), "equations must be a list", "None"),
    (lambda: model(equations=5), "equations must be a list", "5"),
    (lambda: model(equations="x"), "equations must be a list", "'x'"),
    (lambda: model(equations=dict(enumerate(EQUATIONS))), "equations must be a list"),
    (lambda: model(equations=EQUATIONS[0]), "equations must be a list"),
    (lambda: model(equations=[sp.Matrix(EQUATIONS)]), "equation 0 is a matrix"),
    (lambda: model(equations=[EQUATIONS]), "equation 0 is no expression"),
    (lambda: model(equations=["x", "v"]), "equation 0 is text", "'x'"),
    (lambda: model(equations=[None, EQUATIONS[1]]), "equation 0 is no expression", "None"),
    (lambda: model(equations=[EQUATIONS[0], x < v]), "equation 1 is no expression"),
    (lambda: model(equations=[EQUATIONS[0], True]), "equation 1 is True"),
    (lambda: model(equations=[EQUATIONS[0], sp.Eq(v, v)]), "equation 1", "always holds"),
    (lambda: model(equations=[EQUATIONS[0], sp.Eq(sp.Integer(1), 2)]), "equation 1", "never"),
    (lambda: model(equations=[EQUATIONS[0], np.sin]), "equation 1 is no expression"),
    (lambda: model(equations=[EQUATIONS[0], lambda: x]), "equation 1 is no expression"),
    (lambda: model(equations=[EQUATIONS[0], np.zeros(2)]), "equation 1 is no expression", "array"),
    (lambda: model(equations=[*EQUATIONS, x]), "3 equations for 2 states"),
    (lambda: model(equations=[EQUATIONS[0]]), "1 equations for 2 states"),
    (lambda: model(equations=[]), "0 equations for 2 states"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) + sp.nan]), "equation 1 contains NaN"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) + sp.oo]), "equation 1 contains NaN"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) + float("nan")]), "equation 1 contains NaN"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) + 2j * x]), "equation 1", "imaginary"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x * 10**400]), "beyond double precision"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x ** (10**400)]), "the exponent", "e+400"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x ** (10**30)]), "the exponent"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x ** -(10**30)]), "the exponent"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x**-2.5e30]), "the exponent", "e+30"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x ** (1e30 / sp.pi)]), "the exponent"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x ** sp.Mod(sp.atanh(3), 1)]), "no real"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x / sp.Integer(10) ** 400]), "beyond"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - sp.Float("1e-400") * x]), "beyond double"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x * 10**5000]), "beyond double precision"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x * sp.exp(1000)]), "exp(1000)", "beyond"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x * sp.exp(sp.exp(1000))]), "beyond"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x * sp.pi ** (10**30)]), "the exponent"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x * sp.root(-2, 3)]), "no real number"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - x * sp.asin(2)]), "asin(2)", "no real"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - c * x]), "c, which is not declared"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t, 2) - x]), "derivative of order 2"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - u.diff(t)]), "u(t) is not a state"),
    (lambda: model(equations=[EQUATIONS[0], v.diff(t) - w]), "w(t), which is not declared"),
    (lambda: model(equations=[EQUATIONS[0], sp.Derivative(x, k)]), "respect to time"),
    (lambda: model(equations=[EQUATIONS[0], sp.Function("x")(t - 1) + v.diff(t)]), "x(t - 1)"),
    (lambda: model(equations=[EQUATIONS[0], sp.Function("f")(x) + v.diff(t)]), "f(x(t))"),
    (lambda: model(equations=[x, k * x - u]), "state v(t) has no equation"),
    (lambda: model(outputs=[x]), "outputs must be a mapping", "[x(t)]"),
    (lambda: model(outputs=x), "outputs must be a mapping", "x(t)"),
    (lambda: model(outputs="x"), "outputs must be a mapping", "'x'"),
    (lambda: model(outputs=None), "outputs must be a mapping", "None"),
    (lambda: model(outputs={"y": "x"}), "output y is text", "'x'"),
    (lambda: model(outputs={"y": [x]}), "output y is no expression"),
    (lambda: model(outputs={"y": None}), "output y is no expression"),
    (lambda: model(outputs={"y": x > 1}), "output y is no expression"),
    (lambda: model(outputs={"y": sp.Matrix([x])}), "output y is a matrix"),
    (lambda: model(outputs={"y": w}), "output y contains w(t)"),
    (lambda: model(outputs={"y": x.diff(t, 2)}), "output y", "order 2"),
    (lambda: model(outputs={"y": sp.I * x}), "output y", "imaginary"),
    (lambda: model(outputs={"y": 10**400}), "output y", "beyond double precision"),
    (lambda: model(limits=[x]), "limits must be a mapping", "[x(t)]"),
    (lambda: model(limits=x), "limits must be a mapping", "x(t)"),
    (lambda: model(limits=None), "limits must be a mapping"),
    (lambda: model(limits={"too far": x < 5}), "the limit 'too far'", "5 - x"),
    (lambda: model(limits={"too far": "x"}), "the limit 'too far' is text"),
    (lambda: model(limits={"too far": w}), "the limit 'too far' contains w(t)"),
    (lambda: model(limits={"k is too large": 1 - k}, values={k: 2.0}), "k is too large", "k = 2"),
    (lambda: model(drawing="hip knee"), "drawing must be a list", "'hip knee'"),
    (lambda: model(drawing=5), "drawing must be a list", "5"),
    (lambda: model(drawing=None), "drawing must be a list"),
    (lambda: model(drawing=("hip", "knee")), "line of the drawing must be a list", "'hip'"),
    (lambda: model(drawing=[("hip",)]), "two points or more"),
    (lambda: model(drawing=[5]), "line of the drawing", "5"),
    (lambda: model(drawing=[("hip", 5)]), "two points or more", "5"),
    (lambda: model(drawing=[("hip", "knee")]), "of the drawing needs the output"),
    (lambda: model().solved_by([v, u - k * x]), "expected an Explicit form with 2 rates"),
    (lambda: model().solved_by("x"), "expected an Explicit form", "'x'"),
    (lambda: model().extended([w]), "further rates must be a mapping", "w(t)"),
    (lambda: model().extended({"w": x}), "further state 'w' is not a function of time"),
    (lambda: model().extended({k: x}), "further state k is not a function of time"),
    (lambda: model().extended({w: "x"}), "further rate of w(t) is text"),
    (lambda: model().extended({w: r * x}), "r, which is not declared"),
    (lambda: model().extended({x: v}), "x is declared more than once"),
    (lambda: model().extended({w: x}, inputs=v), "further inputs must be a list", "v(t)"),
    (lambda: model().extended(parameters=5), "further parameters must be a list", "5"),
    (lambda: model().extended(outputs=[x]), "further outputs must be a mapping", "x(t)"),
    (lambda: model().extended(values=5), "further values must be a mapping", "5"),
]

INTERMEDIATES = [
    (lambda: model(intermediates={s: x}), "intermediates must be a list"),
    (lambda: model(intermediates=None), "intermediates must be a list"),
    (lambda: model(intermediates="s"), "intermediates must be a list"),
    (lambda: model(intermediates=[s]), "(symbol, expression) pairs", "s"),
    (lambda: model(intermediates=[(s, x, v)]), "(symbol, expression) pairs"),
    (lambda: model(intermediates=[("s", x)]), "name of an intermediate is a symbol", "'s'"),
    (lambda: model(intermediates=[(s + 1, x)]), "name of an intermediate is a symbol", "s + 1"),
    (lambda: model(intermediates=[(t, x)]), "name of an intermediate is a symbol", "t"),
    (lambda: model(intermediates=[(5, x)]), "name of an intermediate is a symbol", "5"),
    (lambda: model(intermediates=[(s, "x")]), "intermediate s is text"),
    (lambda: model(intermediates=[(s, x > 1)]), "intermediate s is no expression"),
    (lambda: model(intermediates=[(s, w)]), "intermediate s contains w(t)"),
    (lambda: model(intermediates=[(s, r), (r, x)]), "intermediate s contains r", "defined later"),
    (lambda: model(intermediates=[(s, s + 1)]), "intermediate s", "itself"),
    (lambda: model(intermediates=[(s, x), (s, v)]), "s is declared more than once"),
    (lambda: model(intermediates=[(x, v)]), "x is declared more than once"),
    (lambda: model(intermediates=[(k, v)]), "k is declared more than once"),
    (lambda: model(intermediates=[(sp.Symbol("x"), v)]), "x is declared more than once"),
    (lambda: model(intermediates=[(sp.Symbol("u"), v)]), "u is declared more than once"),
    (lambda: model(intermediates=[(s, x)], outputs={"s": x}), "s is declared more than once"),
]

VALUES = [
    (lambda: model(values=[1.0]), "values of model osc must be a mapping"),
    (lambda: model(values=1.0), "values of model osc must be a mapping", "1.0"),
    (lambda: model(values="k"), "values of model osc must be a mapping", "'k'"),
    (lambda: model(values=None), "values of model osc must be a mapping", "None"),
    (lambda: model(values={k: "1"}), "value of k must be a finite number", "'1'"),
    (lambda: model(values={k: None}), "value of k must be a finite number", "None"),
    (lambda: model(values={k: [1.0]}), "value of k must be a finite number"),
    (lambda: model(values={k: np.array([1.0, 2.0])}), "value of k must be a finite number"),
    (lambda: model(values={k: np.array([1.0])}), "value of k must be a finite number", "array"),
    (lambda: model(values={k: c}), "value of k must be a finite number", "c"),
    (lambda: model(values={k: np.nan}), "value of k", "finite", "nan"),
    (lambda: model(values={k: np.inf}), "value of k", "finite", "inf"),
    (lambda: model(values={k: 1j}), "value of k must be a finite number", "1j"),
    (lambda: model(values={k: 10**400}), "value of k must be a finite number", "e+400"),
    (lambda: model(values={k: True}), "value of k must be a finite number", "True"),
    (lambda: model(values={"kk": 1.0}), "kk is unknown; did you mean k"),
    (lambda: model(values={c: 1.0}), "c is unknown"),
    (lambda: model(values={5: 1.0}), "values of model osc", "5", "neither a name nor a symbol"),
    (lambda: model(values={None: 1.0}), "None", "neither a name nor a symbol"),
    (lambda: model(values={k: 1.0, "k": 2.0}), "k is given twice"),
    (lambda: model(values={u: 1.0}), "u is unknown", "known are: k"),
    (lambda: model(positive="k"), "positive", "list", "'k'"),
    (lambda: model(positive=k), "positive", "list", "k"),
    (lambda: model(positive=5), "positive", "list", "5"),
    (lambda: model(positive=None), "positive", "list", "None"),
    (lambda: model(positive=["kk"]), "kk is unknown; did you mean k"),
    (lambda: model(positive=[5]), "5", "neither a name nor a symbol"),
    (lambda: model(positive=[[k]]), "[k]", "neither a name nor a symbol"),
    (lambda: model(positive=[x]), "x is unknown"),
    (lambda: model(positive=[k], values={k: -1.0}), "k must be positive", "-1"),
    (lambda: model(positive=[k], values={k: 0.0}), "k must be positive", "0"),
]

MADE = [
    (lambda: ks.Model.from_kane(None), "KanesMethod", "None"),
    (lambda: ks.Model.from_kane("kane"), "KanesMethod"),
    (lambda: ks.Model.from_kane(model()), "KanesMethod", "got <model osc"),
    (lambda: ks.Model.from_kane(kane(formed=False)), "call kanes_equations"),
    (lambda: ks.Model.from_kane(kane(), parameters=[k]), "m, which is not declared"),
    (lambda: ks.Model.from_kane(kane(), parameters="k"), "parameters must be a list"),
    (lambda: ks.Model.from_kane(kane(), inputs=u), "inputs must be a list"),
    (lambda: ks.Model.from_kane(kane(), outputs=[x]), "outputs must be a mapping"),
    (lambda: ks.Model.from_kane(kane(), outputs={"y": "x"}), "text"),
    (lambda: ks.Model.from_kane(kane(), values={"kk": 1.0}), "kk is unknown"),
    (lambda: ks.Model.from_kane(kane(), values=3.0), "values of model kane must be a mapping"),
    (lambda: ks.Model.from_kane(kane(), name=""), "name of a model"),
    (lambda: ks.Model.from_system(None), "System of sympy", "None"),
    (lambda: ks.Model.from_system(kane()), "System of sympy", "KanesMethod"),
    (lambda: model().with_rates("x"), "has no input x"),
    (lambda: model().with_rates("uu"), "has no input uu; did you mean u"),
    (lambda: model().with_rates(5), "5", "neither a name nor a symbol"),
    (lambda: model().with_rates(["u"]), "['u']", "neither a name nor a symbol"),
    (lambda: model().with_rates(None), "None", "neither a name nor a symbol"),
    (lambda: model().with_rates("u", u), "u is given twice"),
    (lambda: model().substitute([(x, v)]), "replacement must be a mapping"),
    (lambda: model().substitute(None), "replacement must be a mapping", "None"),
    (lambda: model().substitute("x"), "replacement must be a mapping", "'x'"),
    (lambda: model().substitute({u: "x"}, inputs=[]), "replacement of u(t) is text"),
    (lambda: model().substitute({u: None}, inputs=[]), "replacement of u(t) is no expression"),
    (lambda: model().substitute({"u": x}, inputs=[]), "'u'", "symbol"),
    (lambda: model().substitute({5: x}), "5", "symbol"),
    (lambda: grown(k ** (10**30)).substitute({k: 2}, parameters=[]), "the exponent", "e+30"),
    (lambda: grown(k**3).substitute({k: 10**200}, parameters=[]), "beyond double precision"),
    (lambda: model().substitute({w: x}), "w(t)", "osc"),
    (lambda: model().substitute({c: 1.0}), "c", "osc"),
    (lambda: model().substitute({u: sp.nan}, inputs=[]), "replacement of u(t) contains NaN"),
    (lambda: model().substitute({u: w}, inputs=[]), "w(t), which is not declared"),
    (lambda: model().substitute({u: 0}, inputs=[], colour="red"), "colour", "no field"),
    (lambda: model().substitute({u: 0}, inputs=None), "inputs must be a list"),
    (lambda: model().substitute({u: 0}, inputs=[], parameters=None), "parameters must be a list"),
    (lambda: ks.models.n_link_pendulum_on_cart(0), "number of links", "0"),
    (lambda: ks.models.n_link_pendulum_on_cart(-3), "number of links", "-3"),
    (lambda: ks.models.n_link_pendulum_on_cart(1.5), "number of links", "1.5"),
    (lambda: ks.models.n_link_pendulum_on_cart("2"), "number of links", "'2'"),
    (lambda: ks.models.n_link_pendulum_on_cart(None), "number of links", "None"),
    (lambda: ks.models.n_link_pendulum_on_cart(True), "number of links", "True"),
    (lambda: ks.models.person_on_ship(mass=-80.0), "mass", "-80"),
    (lambda: ks.models.person_on_ship(mass="80"), "mass", "'80'"),
    (lambda: ks.models.person_on_ship(mass=None), "mass", "None"),
    (lambda: ks.models.person_on_ship(mass=np.nan), "mass", "nan"),
    (lambda: ks.models.person_on_ship(stature=0.0), "stature", "0.0"),
    (lambda: ks.models.person_on_ship(stature=180), "stature is in metres", "180"),
    (lambda: ks.models.person_on_ship(sex="x"), "sex is 'F' or 'M'", "'x'"),
    (lambda: ks.models.person_on_ship(sex=None), "sex is 'F' or 'M'", "None"),
    (lambda: ks.models.sim3d(mass=[80.0]), "mass", "[80.0]"),
    (lambda: ks.models.psm3d(stature=np.inf), "stature", "inf"),
    (lambda: ks.models.grm3d(stature=-1.0), "stature", "-1.0"),
    (lambda: ks.models.cartip(mass=0.0), "mass", "0.0"),
]

OBJECTIVES = [
    (lambda: ks.Integral(None), "the integrand is no expression", "None"),
    (lambda: ks.Integral([x]), "the integrand is no expression", "[x(t)]"),
    (lambda: ks.Integral("x**2"), "the integrand is text", "'x**2'"),
    (lambda: ks.Integral(x > 1), "the integrand is no expression"),
    (lambda: ks.Integral(sp.Matrix([x])), "the integrand is a matrix"),
    (lambda: ks.Integral(sp.I * x), "the integrand contains"),
    (lambda: ks.Integral(np.zeros(3)), "the integrand"),
    (lambda: ks.Integral({"x": x}), "the integrand is no expression"),
    (lambda: ks.Integral(np.sin), "the integrand is no expression"),
    (lambda: ks.Integral(ks.Integral(x)), "the integrand", "objective"),
    (lambda: ks.Integral(10**400 * x), "beyond double precision"),
    (lambda: ks.Terminal(None), "the terminal cost is no expression", "None"),
    (lambda: ks.Terminal("t"), "the terminal cost is text", "'t'"),
    (lambda: ks.Terminal([t]), "the terminal cost is no expression"),
    (lambda: ks.Terminal(x < 1), "the terminal cost is no expression"),
    (lambda: ks.Terminal(ks.LeastSquares()), "the terminal cost", "objective"),
    (lambda: ks.Integral(x) + 1, "cannot add 1 to an objective"),
    (lambda: ks.Integral(x) + None, "cannot add None to an objective"),
    (lambda: ks.Integral(x) + "x", "cannot add 'x' to an objective"),
    (lambda: ks.Integral(x) - 3, "cannot add 3 to an objective"),
    (lambda: ks.Integral(x) + x, "cannot add x(t) to an objective"),
    (lambda: 1 + ks.Terminal(t), "cannot add 1 to an objective"),
    (lambda: ks.Integral(x) * k, "by numbers only", "k"),
    (lambda: ks.Integral(x) * "2", "a factor of an objective", "'2'"),
    (lambda: ks.Integral(x) * None, "a factor of an objective", "None"),
    (lambda: ks.Integral(x) * ks.Integral(v), "a factor of an objective"),
    (lambda: ks.Integral(x) * np.nan, "a factor of an objective", "NaN"),
    (lambda: ks.Integral(x) * np.ones(2), "a factor of an objective"),
    (lambda: ks.Integral(x) / 0, "a divisor of an objective", "0"),
    (lambda: ks.Integral(x) / k, "by numbers only"),
    (lambda: ks.Integral(x) / "2", "a divisor of an objective", "'2'"),
    (lambda: ks.Integral(x) - "x", "cannot add", "objective"),
    (lambda: ks.at_start("x"), "at_start", "'x'"),
    (lambda: ks.at_start(None), "at_start", "None"),
    (lambda: ks.at_end([x]), "at_end", "[x(t)]"),
    (lambda: ks.at_end(x, v), "at_end", "one expression"),
    (lambda: ks.at_start(), "at_start", "one expression"),
    (lambda: ks.at_end(x > 1), "at_end"),
    (lambda: ks.at_end(ks.Integral(x)), "at_end", "objective"),
    (lambda: ks.nrmse(None, [1.0, 2.0]), "two signals", "()"),
    (lambda: ks.nrmse([1.0, 2.0], [1.0]), "(2,)", "(1,)"),
    (lambda: ks.nrmse("ab", "cd"), "signal", "'ab'"),
    (lambda: ks.nrmse([1.0, np.inf], [1.0, 2.0]), "signal is infinite at index 1"),
    (lambda: ks.nrmse([np.nan], [1.0]), "no sample in common"),
    (lambda: ks.nrmse([1j, 2.0], [1.0, 2.0]), "signal", "complex"),
]

REFUSED = [*NAMES, *STATES, *EXPRESSIONS, *INTERMEDIATES, *VALUES, *MADE, *OBJECTIVES]

WARNED = [
    (lambda: ks.nrmse([1.0, 1.0], [1.0, 2.0]), "the signal is constant"),
]


@pytest.mark.parametrize("row", REFUSED)
def test_refused(refused, row):
    refused(*row)


@pytest.mark.parametrize("row", WARNED)
def test_warned(warned, row):
    warned(*row)


@pytest.mark.parametrize(
    "name", [r"\omega", r"\dot{x}", r"\theta", r"\g<0>", r"\1", "$x_1$", "x{0}%s"]
)
def test_names_are_text(name):
    """As they are in every sentence: they are no templates."""
    q, other = sp.Function(name)(t), sp.Function(f"{name}b")(t)
    made = ks.Model("m", [q, other], [], [k], [q.diff(t) + k * q, other.diff(t) - q * other])
    assert f"0 = {name}*k + Derivative({name}, t)" in str(made).replace(f"k*{name}", f"{name}*k")
    trial = ks.Experiment([0.0, 0.5, 1.0], measurements={q: [1.0, 0.9, 0.8]})
    conditions = {"path": [(q * other, -1, 1)], "boundary": [ks.at_end(q * other) - 0.1]}
    problem = ks.Collocation(made, trial, unknown={k: (0, 1)}, **conditions)
    labels = [row.name for family in problem.layout.labels.values() for row in family]
    assert any(f"{name}b" in label and label.startswith("boundary") for label in labels)
