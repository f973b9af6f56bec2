"""Every row of the table of operations against mpmath: values and derivatives in all ways of
running, what is said without numbers, the row in C."""

import math
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
import sympy as sp

from kinesym.codegen.bytecode import encode
from kinesym.codegen.c import emit
from kinesym.codegen.derive import hessian, jacobian
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.operations import EVEN, FUNCTIONS, NONNEGATIVE, ODD, OPERATIONS
from kinesym.runtime.library.build import build
from kinesym.runtime.native import Call, Interpreted, Plan
from kinesym.runtime.sparse.places import rows

TOP = Path(__file__).parents[2]
INCLUDE = TOP / "runtime" / "native" / "c" / "include"

ANY = [-2.6, -1.3, -0.02, 0.03, 0.7, 2.9]
UNIT = [-0.97, -0.6, 0.01, 0.3, 0.8, 0.99]
POSITIVE = [0.004, 0.3, 1.46, 1.8, 4.2, 60.0]
ABOVE_ONE = [1.02, 1.3, 2.2, 3.0, 7.0, 40.0]
PLACES = [-7.7, -0.3, 0.05, 0.8, 1.6, 31.0]

#: Of one number: the function, and where.
OF_ONE = {
    **{name: (getattr(mpmath, name), ANY) for name in "sin cos tan atan sinh cosh tanh".split()},
    **{name: (getattr(mpmath, name), ANY) for name in "asinh exp expm1 erf erfc sign".split()},
    **{name: (getattr(mpmath, name), UNIT) for name in "asin acos atanh".split()},
    **{name: (getattr(mpmath, name), POSITIVE) for name in "log sqrt loggamma".split()},
    "acosh": (mpmath.acosh, ABOVE_ONE),
    "log1p": (mpmath.log1p, [-0.9, -1e-9, 1e-12, 0.2, 9.0, 1e5]),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), ANY),
    "abs": (abs, ANY),
    "floor": (mpmath.floor, ANY),
    "gamma": (mpmath.gamma, PLACES),
}
#: Of two, with the constant first operand of some.
OF_TWO = {
    "pow": (lambda x, y: x**y, POSITIVE, UNIT),
    "atan2": (mpmath.atan2, ANY, PLACES),
    "mod": (lambda x, y: x - y * mpmath.floor(x / y), ANY, PLACES),
    "min": (min, ANY, PLACES),
    "max": (max, ANY, PLACES),
    "lt": (lambda x, y: mpmath.mpf(x < y), ANY, PLACES),
    "le": (lambda x, y: mpmath.mpf(x <= y), ANY, PLACES),
    "eq": (lambda x, y: mpmath.mpf(x == y), ANY, PLACES),
    "hypot": (mpmath.hypot, ANY, PLACES),
}


def bessel_y(n, x):
    """Bessel function from that of order 0, Wronski's determinant and the recurrence: sooner than
    by mpmath."""
    if n < 0:
        return (-1) ** n * bessel_y(-n, x)
    j, y = (mpmath.besselj(k, x) for k in (0, 1)), mpmath.bessely(0, x)
    j0, j1 = j
    values = [y, (j1 * y - 2 / (mpmath.pi * x)) / j0]
    for k in range(1, n):
        values.append(2 * k / x * values[k] - values[k - 1])
    return values[n]


OF_ORDER = {
    "polygamma": (mpmath.polygamma, (0, 1, 2, 5), PLACES),
    "besselj": (mpmath.besselj, (0, 1, 2, -3), PLACES),
    "bessely": (bessel_y, (0, 1, 4, -1), [0.3, 1.4, 9.7]),
}


def cases():
    """(label, function of mpmath, node of it in a graph, places)"""
    g = Graph()
    x, y = g.symbols(["x.x", "x.y"])
    found = {}
    for name, (function, at) in OF_ONE.items():
        found[name] = (lambda a, b, f=function: f(a), g.function(name, x), (at, at))
    for name, (function, *at) in OF_TWO.items():
        found[name] = (function, g.binary(name, x, y), at)
    for name, (function, orders, at) in OF_ORDER.items():
        for n in orders:
            label, node = f"{name} {n}", g.binary(name, g.const(n), x)
            found[label] = (lambda a, b, f=function, n=n: f(n, a), node, (at, at))
    return g, (x, y), found


GRAPH, XY, CASES = cases()
ORDERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))


def kernel_of(node, number):
    """A kernel of the value, both first derivatives, and three second ones."""
    g = GRAPH
    first = jacobian(g, [node], XY)
    second = hessian(g, [node], [g.one], XY)[1]
    outputs = [node, *(first.get((0, j), g.zero) for j in range(2))]
    outputs += [second.get(key, g.zero) for key in ((0, 0), (0, 1), (1, 1))]
    argument = Argument("x", ("x.x", "x.y"))
    return Kernel(f"row_{number}", g, (argument,), tuple(outputs), tuple(map(str, ORDERS)))


PROGRAM = Program("rows", tuple(kernel_of(CASES[c][1], k) for k, c in enumerate(CASES)))


def run(library, kernel, x):
    """All outputs of a kernel at the points x, (2, n)."""
    count, n = len(kernel.outputs), x.shape[1]
    out = np.full((count, n), np.nan)
    given = [(np.ascontiguousarray(x).ravel(), 0, n)]
    call = Call(library, kernel.name, n, given, (), rows(count, n), out.size)
    Plan([call], [], out.size, 1)((), out.reshape(-1))
    return out


WAYS = {
    "compiled": lambda: build(emit(PROGRAM).files)[0],
    "one by one": lambda: build(emit(PROGRAM).files, 1)[0],
    "instructions": lambda: Interpreted("rows", encode(PROGRAM), None),
    "reference": lambda: None,
}


@pytest.fixture(scope="module", params=WAYS)
def way(request):
    library = WAYS[request.param]()
    if library is None:
        return lambda kernel, x: interpret(kernel, {"x": x}, x.shape[1])
    return lambda kernel, x: run(library, kernel, x)


@pytest.fixture(scope="module")
def exact():
    """Values and derivatives by high precision, per case (6, places)."""
    found = {}
    with mpmath.workdps(40):
        for label, (function, _, places) in CASES.items():
            points = [tuple(map(mpmath.mpf, point)) for point in zip(*places, strict=True)]
            found[label] = [
                [float(mpmath.diff(function, p, n, h=mpmath.mpf(10) ** -12)) for p in points]
                for n in ORDERS
            ]
    return found


def test_all_rows_are_here():
    arithmetic = set("neg inv add sub mul div select locate entry".split())
    assert {*OF_ONE, *OF_TWO, *OF_ORDER} | arithmetic == set(OPERATIONS)
    assert set(OF_ONE) == FUNCTIONS


@pytest.mark.parametrize("label", CASES)
def test_values_and_derivatives(label, way, exact):
    _, _, places = CASES[label]
    found = way(PROGRAM.kernels[list(CASES).index(label)], np.array(places))
    for order, mine, theirs in zip(ORDERS, found, exact[label], strict=True):
        scale = max(map(abs, theirs)) if label.startswith("bessel") else 1.0
        np.testing.assert_allclose(mine, theirs, 1e-13, 2e-14 * scale, err_msg=str(order))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_what_is_said_without_numbers(name, exact):
    """Parity, sign, and the value of a constant."""
    function, places = OF_ONE[name]
    row = OPERATIONS[name]
    if places in (ANY, UNIT):
        below, above = (float(function(mpmath.mpf(x))) for x in (-0.3, 0.3))
        assert (row.parity == ODD) == math.isclose(below, -above, rel_tol=1e-14)
        assert (row.parity == EVEN) == (below == above)
    assert row.sign != NONNEGATIVE or min(exact[name][0]) >= 0.0
    for x, value in zip(places, exact[name][0], strict=True):
        assert row.folded(x) == pytest.approx(value, rel=1e-14, abs=1e-15)


def test_rows_of_C():
    """Each function has one, and each one is a function."""
    text = (INCLUDE / "kinesym_functions.h").read_text()
    named = re.findall(r"X\(\w+, (\w+), \w+\)", text)
    assert sorted(named) == sorted({*OF_ONE, *OF_TWO, *OF_ORDER})


def test_what_contributing_says():
    """Files named in the row on functions exist, and a new row is all that a function needs."""
    (line,) = (
        line
        for line in (TOP / "CONTRIBUTING.md").read_text().splitlines()
        if line.startswith("| a scalar function ")
    )
    files = re.findall(r"`([\w/]+\.(?:py|h))`", line)
    assert files[0] == "codegen/operations.py" and len(files) >= 2
    assert all((TOP / name).exists() for name in files)
    telling = [
        path.relative_to(TOP).as_posix()
        for folder in ("codegen", "runtime/native/c")
        for path in sorted((TOP / folder).rglob("*.[pch]*"))
        if path.suffix in (".py", ".c", ".h") and re.search(r"\bexpm1\b", path.read_text())
    ]
    told = ("c99.py", "operations.py")
    header = "runtime/native/c/include/kinesym_functions.h"
    assert telling == [*(f"codegen/{name}" for name in told), header]


@pytest.mark.parametrize(
    ("make", "name"),
    [(row.of, row.name) for row in OPERATIONS.values() if row.of and row.arity == 1],
)
def test_from_sympy(make, name, lowered):
    """The class of SymPy that a row names becomes it."""
    x = sp.Symbol("x", real=True)
    graph, _, (node,) = lowered([x], [make(x, evaluate=False)])
    assert graph.op[node] == name
