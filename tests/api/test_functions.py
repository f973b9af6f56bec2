"""Functions of users: as formulas that say the same, in every way of running, and in words."""

import pickle

import mpmath
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.codegen.bytecode import encode
from kinesym.codegen.c import emit, printed_from
from kinesym.codegen.derive import hessian, jacobian
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.internal.fitting.combination import _function as combined
from kinesym.internal.problems.content import digest
from kinesym.runtime.library.build import CompilerError, build
from kinesym.runtime.native import Call, Interpreted, Plan
from kinesym.runtime.sparse.places import rows

x, y = sp.symbols("x y")
sigmoid_ = sp.Function("sigmoid")
SOFTPLUS = ks.function(
    "softplus", [x], "log1p(exp(x))", [1 / (1 + sp.exp(-x))], python=sp.log(1 + sp.exp(x))
)
SIGMOID = ks.function(
    "sigmoid",
    [x],
    "1/(1 + exp(-x))",
    [sigmoid_(x) * (1 - sigmoid_(x))],
    python=1 / (1 + sp.exp(-x)),
)
POWER = ks.function(
    "series",
    [x, y],
    "double sum = 1.0, term = 1.0; for (int k = 1; k < 40; k++) { term *= x*y/k; sum += term; } "
    "return sum;",
    [y * sp.exp(x * y), x * sp.exp(x * y)],
    python=sp.exp(x * y),
)
root_ = sp.Function("root")
ROOT = ks.function("root", [x, y], sp.sqrt(x**2 + y**2), [v / root_(x, y) for v in (x, y)])
#: What they make, and the same as a formula.
SAME = {
    "softplus": (SOFTPLUS(3 * x - y), sp.log(1 + sp.exp(3 * x - y))),
    "within": (SOFTPLUS(x * SOFTPLUS(y)) ** 2, sp.log(1 + sp.exp(x * sp.log(1 + sp.exp(y)))) ** 2),
    "itself": (y * SIGMOID(x / y), y / (1 + sp.exp(-x / y))),
    "statements": (POWER(x, y - 1), sp.exp(x * (y - 1))),
    "no C": (ROOT(x, x * y), sp.sqrt(x**2 + (x * y) ** 2)),
    "in place": (ks.function("in_place", [x, y], x * sp.cos(y))(x + y, x), (x + y) * sp.cos(x)),
}
POINTS = np.array([[0.3, -0.8, 1.7, 0.05, 2.2], [1.1, 0.4, -0.6, 2.3, 0.9]])
ORDERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))


def kernel_of(number, e):
    g = Graph()
    nodes = g.symbols(["x.x", "x.y"])
    node = Lowering(g, dict(zip((x, y), nodes, strict=True)))(e)
    first, second = jacobian(g, [node], nodes), hessian(g, [node], [g.one], nodes)[1]
    outputs = [node, *(first.get((0, j), g.zero) for j in range(2))]
    outputs += [second.get(key, g.zero) for key in ((0, 0), (0, 1), (1, 1))]
    argument = Argument("x", ("x.x", "x.y"))
    return Kernel(f"case_{number}", g, (argument,), tuple(outputs), tuple(map(str, ORDERS)))


def program_of(cases):
    return Program("own", tuple(kernel_of(k, e) for k, e in enumerate(cases)))


PROGRAM = program_of([own for own, _ in SAME.values()])


def run(library, kernel):
    count, n = len(kernel.outputs), POINTS.shape[1]
    out = np.full((count, n), np.nan)
    call = Call(library, kernel.name, n, [(POINTS.ravel(), 0, n)], (), rows(count, n), out.size)
    Plan([call], [], out.size, 1)((), out.reshape(-1))
    return out


WAYS = {
    "compiled": lambda: build(emit(PROGRAM).files, 4, ("-Wall", "-Wextra", "-Werror"))[0],
    "one by one": lambda: build(emit(PROGRAM).files, 1)[0],
    "instructions": lambda: Interpreted("own", encode(PROGRAM), None),
    "reference": lambda: None,
}


@pytest.mark.parametrize("way", WAYS)
def test_values_and_derivatives(way):
    library = WAYS[way]()
    for kernel, (_, formula) in zip(PROGRAM.kernels, SAME.values(), strict=True):
        found = run(library, kernel) if library else interpret(kernel, {"x": POINTS}, 5)
        function = sp.lambdify((x, y), formula, "mpmath")
        with mpmath.workdps(40):
            h = mpmath.mpf(10) ** -12
            exact = [
                [float(mpmath.diff(function, tuple(map(mpmath.mpf, p)), n, h=h)) for p in POINTS.T]
                for n in ORDERS
            ]
        np.testing.assert_allclose(found, exact, 1e-12, 1e-13)


def model(f):
    q, v = ks.dynamicsymbols("q v")
    k = sp.Symbol("k")
    rates = [q.diff(ks.t) - v, v.diff(ks.t) + k * f(3 * q) + q]
    return ks.Model("own", [q, v], [], [k], rates, outputs={"shown": f(q)})


#: C text alone.
ONLY_C = ks.function(
    "only_c",
    [x],
    "log1p(exp(x))",
    1 / (1 + sp.exp(-x)),
    python=lambda z: np.logaddexp(0.0, z),
)


@pytest.mark.parametrize("own", [SOFTPLUS, ONLY_C], ids=repr)
def test_in_models(own):
    """Simulation, sensitivities, first and second derivatives of a collocation problem are those of
    the formula, of copies of the problem, too."""
    time = np.linspace(0.0, 2.0, 11)
    trial = ks.Experiment(time, measurements={"shown": 1.0 + 0.5 * np.cos(time)})
    found = []
    for f in (own, lambda z: sp.log(1 + sp.exp(z))):
        m = model(f)
        values = ({"q": 1.0, "v": 0.0}, {"k": 2.0})
        run = ks.sensitivities(m, time, *values, method="dormand-prince").forward(["k"])
        problem = ks.Collocation(m, trial, unknown={"k": None})
        z = np.sin(np.arange(1.0, problem.pack().size + 1.0))
        multipliers = np.linspace(0.5, 1.5, problem.n_constraints)
        matrices = problem.constraint_jacobian(z), problem.lagrangian_hessian(z, multipliers)
        found.append(
            [run["q"], run.run["shown"], problem.cost_gradient(z), *(a.data for a in matrices)]
        )
        if own is SOFTPLUS:
            again = pickle.loads(pickle.dumps(problem)).lagrangian_hessian(z, multipliers)
            np.testing.assert_array_equal(again.data, matrices[1].data)
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-9, 1e-11)


def test_pickles_and_counts():
    """Equal content is equal, in expressions, digests, and keys of caches; other content is not."""
    again = ks.function(
        "softplus", [x], "log1p(exp(x))", [1 / (1 + sp.exp(-x))], python=sp.log(1 + sp.exp(x))
    )
    other = ks.function(
        "softplus", [x], "log(1 + exp(x))", [1 / (1 + sp.exp(-x))], python=sp.log(1 + sp.exp(x))
    )
    assert pickle.loads(pickle.dumps(SOFTPLUS)) == SOFTPLUS == again != other
    e = SOFTPLUS(x * y)
    assert pickle.loads(pickle.dumps(e)) == e == again(x * y) != other(x * y)
    assert str(e) == "softplus(x*y)" and repr(SOFTPLUS) == "<function softplus(x)>"
    models = [model(f) for f in (SOFTPLUS, again, other)]
    assert digest(models[0]) == digest(models[1]) != digest(models[2])
    keys = [printed_from(program_of([f(x)])) for f in (SOFTPLUS, again, other)]
    assert keys[0] == keys[1] != keys[2]


def test_in_combinations_of_estimates():
    """Value, slope and curvature of what is asked of a fit."""
    for own, formula in (SAME["softplus"], (sp.gamma(x) * sp.besselj(1, y),) * 2):
        value, first, second = combined(own, (x, y))(np.array([0.4, 1.3]))
        at = {x: sp.Float("0.4", 30), y: sp.Float("1.3", 30)}
        exact = [formula, *(formula.diff(s) for s in (x, y))]
        exact += [formula.diff(one, other) for one in (x, y) for other in (x, y)]
        found = [value, *first, *second.ravel()]
        np.testing.assert_allclose(found, [float(e.subs(at)) for e in exact], 1e-12)


def test_of_numbers():
    assert SOFTPLUS(0) == pytest.approx(np.log(2.0), rel=1e-15)
    assert ks.function("half", [x], x / 2)(3) == sp.Rational(3, 2)


def test_jumps_are_seen_in_place():
    """A function that is its expression has its jumps looked for, as if it were written out."""
    f = ks.function("push", [x], sp.Piecewise((1, x < 1), (0, True)))
    q = ks.dynamicsymbols("q")
    run = ks.simulate(
        ks.Model("jump", [q], [], [], [q.diff(ks.t) - f(ks.t)]),
        np.linspace(0.0, 1.5, 4),
        {q: 0.0},
        method="dormand-prince",
    )
    assert run["q"][-1] == pytest.approx(1.0, abs=1e-12)


def test_without_a_compiler(monkeypatch, tmp_path):
    """C text alone needs one, and says so; with an expression it runs."""
    monkeypatch.setenv("KINESYM_TIER", "interpreted")
    with pytest.raises(ValueError, match=r"only_c is C text, which needs a compiler; .*python="):
        ks.compile(model(ONLY_C))
    assert np.isfinite(ks.compile(model(SOFTPLUS)).rhs([0.1, 0.0], [], [2.0])).all()
    monkeypatch.delenv("KINESYM_TIER")
    monkeypatch.setenv("KINESYM_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerError, match=r"the C text of only_c cannot be compiled: .*install"):
        ks.compile(model(ONLY_C))


def test_C_that_is_wrong():
    """The compiler's words, with the name of the function."""
    wrong = ks.function("wrong", [x], "log(x, 2.0)", 1 / x, python=np.log)
    with pytest.raises(CompilerError, match="the C text of wrong cannot be compiled"):
        ks.compile(model(wrong))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ks.function("two words", [x], x), "the name of a function must be letters"),
        (lambda: ks.function("while", [x], x), "is a word of C or Python"),
        (lambda: ks.function("größe", [x], x), "letters that C does not know"),
        (lambda: ks.function("f", [], x), "f needs arguments"),
        (lambda: ks.function("f", [x, x], x), "f needs arguments, each once"),
        (lambda: ks.function("f", ["x"], x), "the arguments are SymPy symbols, got 'x'"),
        (lambda: ks.function("f", [sp.Symbol("double")], x), "the name of an argument, 'double'"),
        (lambda: ks.function("f", [x], ""), "the C text is empty"),
        (lambda: ks.function("f", [x], x * y), "f: its value contains y; its arguments are x"),
        (lambda: ks.function("f", [x], "exp(x", sp.exp(x)), "is not closed"),
        (lambda: ks.function("f", [x], "exp(x))", sp.exp(x)), "closes nothing"),
        (lambda: ks.function("f", [x], "exq(x)", sp.exp(x)), "contains exq, .*did you mean exp"),
        (lambda: ks.function("f", [x], "x; // y", 1), "without directives, text and comments"),
        (lambda: ks.function("f", [x], "double z = x;", 1), "statements of C end in a return"),
        (lambda: ks.function("f", [x], "exp(x)"), "C text has no derivatives"),
        (lambda: ks.function("f", [x], "exp(x)", [], python=sp.exp(x)), "got 0 of its derivatives"),
        (lambda: ks.function("f", [x], "exp(x)", sp.exp(x)), "in Python, too: python="),
        (lambda: ks.function("f", [x], x, python=np.exp), "python is for C text"),
        (
            lambda: ks.function("f", [x, y], x * y, [y]),
            "takes 2 arguments, got 1 of its derivatives",
        ),
        (lambda: ks.function("f", [x], x**2, [y]), "with respect to x contains y"),
        (lambda: ks.function("f", [x], x**2, ["2*x"]), "with respect to x is text"),
        (lambda: ks.function("f", [x], sp.Abs(x), [sp.sign(x)]), "contains a jump, sign"),
        (lambda: ks.function("f", [x], x**2, [3 * x]), "0.9 at x = 0.3, where differences .* 0.6"),
        (lambda: ks.function("f", [x], "exp(x)", sp.exp(x), python=sp.sin(x)), "mend one of them"),
        (lambda: ks.function("f", [x], x**2, [sp.Function("g")(x)]), "which is unknown"),
        (lambda: SOFTPLUS(x, y), "softplus takes 1 argument, got 2"),
        (lambda: SOFTPLUS("x"), "an argument of the function softplus is text"),
    ],
)
def test_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_differences_that_say_nothing():
    """A value that turns faster than differences see, or has none at usual places, is taken."""
    fast = ks.function("fast", [x], "sin(1e5*x)", [1e5 * sp.cos(1e5 * x)], python=sp.sin(1e5 * x))
    far = ks.function("far", [x], "log(x - 9)", 1 / (x - 9), python=sp.log(x - 9))
    assert str(fast(x) + far(x)) == "far(x) + fast(x)"
