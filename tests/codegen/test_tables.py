"""Tables in generated code: values and derivatives of the C, in every lane, as of the interpreter
and as by mpmath; size of the code, and what models share."""

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym.codegen.c import emit
from kinesym.codegen.derive import hessian, jacobian
from kinesym.codegen.evaluate import model_functions
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import first_failure, interpret
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.codegen.stepping import stepper
from kinesym.runtime.library.build import build
from kinesym.runtime.native import Call, Plan
from kinesym.runtime.sparse.places import rows
from kinesym.symbolic.table import searched, tables_of

X, Y = sp.symbols("x y", real=True)
POINTS = np.array([-2.0, -1.1, -0.4, 0.5, 1.3, 2.0, 2.2])
VALUES = np.array([0.3, -1.0, 0.7, 2.0, 1.5, -0.4, 0.1])
OTHER = np.array([-1.0, 0.0, 0.7, 1.9, 3.0])
GRID = np.random.default_rng(3).normal(size=(7, 5))


def expressions() -> list[sp.Expr]:
    """Tables within functions, of one variable and two, and derivatives of them."""
    f = ks.table(X, POINTS, VALUES, name="f")
    p = ks.table(X * Y, POINTS, VALUES, kind="pchip", outside="constant", name="p")
    g = ks.table((X, Y), (POINTS, OTHER), GRID, name="g")
    b = ks.table((sp.sin(X), Y), (POINTS, OTHER), GRID, kind="linear", name="b")
    return [sp.exp(f) * Y, sp.cos(p) + f.diff(X), g * X + sp.sin(g), b * Y + g.diff(X, Y)]


def kernel_of(of: list[sp.Expr]) -> tuple[Kernel, np.ndarray]:
    """Values, first derivatives and a Hessian by x and y, and the numbers of the tables."""
    g, tables = Graph(), tables_of(of)
    z = g.symbols(["z.x", "z.y"])
    lower = Lowering(g, {X: z[0], Y: z[1]}, tables)
    nodes = [lower(e) for e in of]
    slopes = jacobian(g, nodes, z)
    second = hessian(g, nodes, [g.const(k + 1.0) for k in range(len(nodes))], z)[1]
    every = (*nodes, *slopes.values(), *second.values())
    arguments = (
        Argument("z", ("z.x", "z.y")),
        Argument("p", ("p.a", "p.b"), False, len(tables.values)),
    )
    return Kernel("tables", g, arguments, every, tuple(map(str, range(len(every))))), tables.values


def compiled(kernel: Kernel, lanes: int, arrays: dict[str, np.ndarray], n: int) -> np.ndarray:
    """The outputs of the kernel at n points."""
    strict = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
    library = build(emit(Program("tables", (kernel,))).files, lanes, strict)[0]
    arguments = [
        (np.ascontiguousarray(arrays[a.name]).ravel(), 0, n if a.varying else 1)
        for a in kernel.arguments
    ]
    out = np.full((len(kernel.outputs), n), np.nan)
    call = Call(library, kernel.name, n, arguments, (), rows(*out.shape), out.size)
    Plan([call], [], out.size)((), out.reshape(-1))
    return out


def points(n: int = 37) -> np.ndarray:
    rng = np.random.default_rng(7)
    found = rng.uniform([[-3.0], [-2.0]], [[3.0], [4.0]], (2, n))
    found[0, :7], found[1, :5] = POINTS, OTHER
    return found


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_all_lanes_have_the_values_of_the_interpreter(lanes: int) -> None:
    z = points()
    kernel, numbers = kernel_of(expressions())
    arrays = {"z": z, "p": np.append([1.0, 2.0], numbers)}
    expected = interpret(kernel, arrays, z.shape[1])
    found = compiled(kernel, lanes, arrays, z.shape[1])
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_not_a_number_stays_in_its_lane() -> None:
    kernel, numbers = kernel_of(expressions())
    z = points(9)
    for bad in (np.nan, np.inf, -np.inf):
        z[0, 4] = bad
        found = compiled(kernel, 8, {"z": z, "p": np.append([1.0, 2.0], numbers)}, 9)
        assert np.flatnonzero(~np.isfinite(found).all(axis=0)).tolist() == [4]


def test_derivatives_by_high_precision() -> None:
    """First and second derivatives of all expressions, by mpmath from the numbers themselves."""
    kernel, numbers = kernel_of(expressions())
    z = points(12)[:, 7:]
    found = interpret(kernel, {"z": z, "p": np.append([1.0, 2.0], numbers)}, z.shape[1])
    of = expressions()
    for k in range(z.shape[1]):
        x, y = z[:, k].tolist()

        def value(e: sp.Expr, a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
            return _exact(e, {X: a, Y: b})

        with mpmath.workdps(60):
            firsts = [
                mpmath.diff(lambda a, b, e=e: value(e, a, b), (x, y), order)
                for e in of
                for order in ((1, 0), (0, 1))
            ]
            total = [
                sum(
                    (i + 1) * mpmath.diff(lambda a, b, e=e: value(e, a, b), (x, y), order)
                    for i, e in enumerate(of)
                )
                for order in ((2, 0), (1, 1), (0, 2))
            ]
        expected = np.array([float(v) for v in (*firsts, *total)])
        np.testing.assert_allclose(found[4:, k], expected, rtol=1e-10, atol=1e-10)


def _exact(e: sp.Expr, numbers: dict) -> mpmath.mpf:
    """An expression with tables in the precision of mpmath."""
    if e in numbers:
        return numbers[e]
    if isinstance(e, sp.Number):
        return mpmath.mpf(float(e))
    if not hasattr(e, "record"):
        operations = {sp.Add: mpmath.fsum, sp.Mul: mpmath.fprod}
        inner = [_exact(a, numbers) for a in e.args]
        if e.func in operations:
            return operations[e.func](inner)
        return getattr(mpmath, e.func.__name__)(*inner)
    total, record = mpmath.mpf(0), e.record
    cells, powers = [], []
    for axis, order, variable in zip(record.axes, e.orders, e.variables, strict=True):
        x = _exact(variable, numbers)
        cell = int(np.searchsorted(axis, float(x), side="right"))
        s = x - axis[max(cell - 1, 0)]
        cells.append(cell)
        powers.append([mpmath.ff(k, order) * s ** max(k - order, 0) for k in range(4)])
    coefficients = record.coefficients[tuple(cells)]
    for place, c in np.ndenumerate(coefficients):
        total += c * mpmath.fprod(row[k] for row, k in zip(powers, place, strict=True))
    return total


@pytest.mark.parametrize("kind", ["cubic", "simm", "pchip", "akima", "linear"])
@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_derivatives_by_the_complex_step(kind: str, seed: int) -> None:
    """First and second derivatives by the variable and by values that are parameters, of tables
    with random points."""
    rng, x_ = np.random.default_rng(seed), sp.Symbol("x")
    n = int(rng.integers(4, 8))
    axis, symbols = np.cumsum(rng.uniform(0.3, 2.0, n)) - 2.0, sp.symbols(f"v:{n}")
    known = ks.table(x_, axis, rng.normal(size=n), kind)
    e = known * sp.sin(ks.table(x_, axis, symbols, kind)) + known.diff(x_) ** 2
    g, tables = Graph(), tables_of([e])
    z = g.symbols(["z.x", *(f"z.{k}" for k in range(n))])
    node = Lowering(g, dict(zip((x_, *symbols), z, strict=True)), tables)(e)
    slopes, second = hessian(g, [node], [g.one], z)
    full = {**second, **{(j, i): entry for (i, j), entry in second.items()}}
    rows_ = [[full.get((i, j), g.zero) for j in range(n + 1)] for i in range(n + 1)]
    outputs = (node, *slopes, *(entry for row in rows_ for entry in row))
    group = Argument("z", tuple(g.name[k] for k in z))
    arguments = (group, Argument("p", (), False, len(tables.values)))
    kernel = Kernel("t", g, arguments, outputs, tuple(map(str, range(len(outputs)))))
    x = rng.uniform(axis[0] - 1.0, axis[-1] + 1.0)
    point = np.concatenate([[x], rng.normal(size=n)])[:, None]
    found = interpret(kernel, {"z": point, "p": tables.values}, 1)[:, 0]
    stepped = point + 1e-40j * np.eye(n + 1)
    by_step = interpret(kernel, {"z": stepped, "p": tables.values}, n + 1).imag / 1e-40
    size = np.abs(by_step).max() + 1.0
    np.testing.assert_allclose(found[1 : n + 2], by_step[0], rtol=0, atol=1e-12 * size)
    expected = by_step[1 : n + 2]
    np.testing.assert_allclose(
        found[n + 2 :].reshape(n + 1, n + 1), expected, rtol=0, atol=1e-12 * size
    )


def test_no_number_is_compiled_in() -> None:
    """Models that differ in the numbers of their tables alone share a library, and 1,000 points
    take no more code than 10."""
    a, b = (_model(np.linspace(0.0, 1.0, 10), values) for values in (np.arange(10.0), np.ones(10)))
    for make in (model_functions, lambda model: stepper(model, None, True)):
        assert emit(make(a)) == emit(make(b))
        assert not np.array_equal(make(a).tables, make(b).tables)
    large = _model(np.linspace(0.0, 1.0, 1000), np.ones(1000))
    sizes = [sum(map(len, emit(model_functions(m)).files.values())) for m in (a, large)]
    assert sizes[1] < sizes[0] + 100


def _model(points_: np.ndarray, values: np.ndarray) -> ks.Model:
    q = ks.dynamicsymbols("q")
    return ks.Model("shared", [q], [], [], [q.diff(ks.t) + ks.table(q, points_, values)])


def test_it_says_where_a_table_says_nothing() -> None:
    kernel, numbers = kernel_of([ks.table(X, POINTS, VALUES, outside="nan", name="curve") * Y])
    arrays = {"z": np.array([[3.0], [1.0]]), "p": np.append([0.0, 0.0], numbers)}
    words = "the table curve says nothing outside of its points, -2 to 2.2"
    assert first_failure(kernel, 0, arrays) == words


@pytest.mark.parametrize("lanes", [1, 8])
def test_points_are_found_however_they_lie(lanes: int) -> None:
    """At points, beside them, and anywhere, even or not, as by NumPy."""
    rng = np.random.default_rng(2)
    every = [
        np.array([0.0, 1.0]),
        np.linspace(-1.0, 2.0, 1001),
        np.geomspace(1e-9, 1e6, 300),
        -np.geomspace(1e6, 1e-9, 33),
        np.cumsum(rng.exponential(size=500) ** 4 + 1e-12),
        1e8 + np.arange(17) * 1e-7,
    ]
    tables = tables_of([ks.table(X, axis, np.zeros(len(axis)), kind="linear") for axis in every])
    g = Graph()
    found = [g.locate(tables.begin(searched(axis)), len(axis), g.symbol("x.x")) for axis in every]
    arguments = (Argument("x", ("x.x",)), Argument("p", (), False, len(tables.values)))
    kernel = Kernel("found", g, arguments, tuple(found), tuple(map(str, range(len(found)))))
    beside = [np.nextafter(axis, side * np.inf) for axis in every for side in (-1, 1)]
    between = [rng.uniform(axis[0] - 1.0, axis[-1] + 1.0, 300) for axis in every]
    x = np.concatenate([*every, *beside, *between, [np.nan, np.inf, -np.inf, 1e300, -1e300]])
    arrays = {"x": x[None], "p": tables.values}
    np.testing.assert_array_equal(
        compiled(kernel, lanes, arrays, len(x)), interpret(kernel, arrays, len(x))
    )
