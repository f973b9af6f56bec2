"""The light algebra of the expression graph: equal expressions are one node."""

import math

import pytest

from kinesym.codegen.graph import Graph

EVEN = "cos cosh abs".split()


@pytest.fixture
def g():
    return Graph()


@pytest.fixture
def xy(g):
    return g.symbols(["x", "y"])


def test_symbols_and_constants_are_one_node_each(g):
    """The same name or value gives the same node; -0.0 is 0.0."""
    assert g.symbol("x") == g.symbol("x") != g.symbol("y")
    assert g.const(2) == g.const(2.0) != g.const(3.0)
    assert g.const(-0.0) == g.zero and math.copysign(1.0, g.value[g.zero]) == 1.0
    assert g.const(math.nan) == g.const(math.nan)


def test_zero_and_one(g, xy):
    """Neutral and absorbing elements leave no operation behind."""
    x, _ = xy
    size = len(g)
    assert g.add(x, g.zero) == g.add(g.zero, x) == g.sub(x, g.zero) == x
    assert g.mul(x, g.one) == g.mul(g.one, x) == g.div(x, g.one) == x
    assert g.mul(x, g.zero) == g.mul(g.zero, x) == g.sub(x, x) == g.zero
    assert g.power(x, 0) == g.one and g.power(x, 1) == x
    assert len(g) == size


def test_minus_one_is_a_sign(g, xy):
    """Signs cancel and move outwards."""
    x, y = xy
    minus = g.const(-1.0)
    assert g.mul(minus, x) == g.neg(x) == g.sub(g.zero, x)
    assert g.neg(g.neg(x)) == x
    assert g.mul(g.neg(x), y) == g.neg(g.mul(x, y)) == g.mul(x, g.neg(y))
    assert g.mul(g.neg(x), g.neg(y)) == g.mul(x, y)
    assert g.add(x, g.neg(y)) == g.sub(x, y) and g.sub(x, g.neg(y)) == g.add(x, y)
    assert g.sub(g.neg(x), y) == g.neg(g.add(x, y))
    assert g.inv(g.neg(x)) == g.neg(g.inv(x)) and g.inv(g.inv(x)) == x


def test_commutative_operations_have_one_node(g, xy):
    """Operands of +, *, min, max and == are ordered; those of < are not."""
    x, y = xy
    assert g.add(x, y) == g.add(y, x) and g.mul(x, y) == g.mul(y, x)
    for name in ("min", "max", "eq"):
        assert g.binary(name, x, y) == g.binary(name, y, x)
    assert g.binary("lt", x, y) != g.binary("lt", y, x)
    assert g.binary("min", x, x) == g.binary("max", x, x) == x


def test_differences_share_a_node(g, xy):
    """a - b and b - a are one subtraction and a sign."""
    x, y = xy
    difference = g.sub(x, y)
    size = len(g)
    assert g.sub(y, x) == g.neg(difference)
    assert len(g) == size + 1
    assert g.add(difference, g.sub(y, x)) == g.zero
    assert g.function("cos", g.sub(y, x)) == g.function("cos", difference)


def test_constant_factors_gather_in_front(g, xy):
    """Constant factors are multiplied and come first, through signs."""
    x, y = xy
    two, three = g.const(2.0), g.const(3.0)
    assert g.mul(g.mul(two, x), three) == g.mul(g.const(6.0), x)
    assert g.mul(g.mul(x, two), y) == g.mul(two, g.mul(x, y))
    assert g.mul(x, g.mul(three, y)) == g.mul(three, g.mul(y, x))
    assert g.neg(g.mul(two, x)) == g.mul(g.const(-2.0), x)
    assert g.mul(two, g.neg(x)) == g.mul(g.const(-2.0), x)
    assert g.add(x, x) == g.mul(two, x)


def test_constants_outside_a_domain_are_nan(g):
    """A folded constant outside the domain is NaN, not an exception."""
    assert math.isnan(g.value[g.function("log", g.const(-1.0))])
    assert math.isnan(g.value[g.function("asin", g.const(2.0))])
    assert math.isnan(g.value[g.power(g.const(-2.0), 0.5)])


def test_operations_on_constants_are_constants(g):
    """The other operations fold too."""
    a, b = g.const(2.0), g.const(-3.0)
    folded = [
        (g.add(a, b), -1.0),
        (g.sub(a, b), 5.0),
        (g.mul(a, b), -6.0),
        (g.inv(a), 0.5),
        (g.div(b, a), -1.5),
        (g.power(b, 3), -27.0),
        (g.power(a, -2), 0.25),
        (g.binary("pow", a, b), 0.125),
        (g.binary("atan2", a, b), math.atan2(2.0, -3.0)),
        (g.binary("min", a, b), -3.0),
        (g.binary("max", a, b), 2.0),
        (g.binary("lt", b, a), 1.0),
        (g.binary("le", a, b), 0.0),
        (g.binary("eq", a, a), 1.0),
    ]
    for node, value in folded:
        assert g.value[node] == pytest.approx(value, rel=1e-15)


def test_select(g, xy):
    """A known condition or equal branches leave no select."""
    x, y = xy
    assert g.select(g.one, x, y) == x and g.select(g.zero, x, y) == y
    assert g.select(x, y, y) == y
    assert g.op[g.select(x, y, g.zero)] == "select"


@pytest.mark.parametrize("n", [2, 3, 5, 8, 13, 64])
def test_integer_powers_are_products(g, xy, n):
    """x**n takes at most 2 log2(n) multiplications and no pow."""
    node = g.power(xy[0], n)
    operations = [g.op[k] for k in g.ancestors([node]) if g.op[k] != "sym"]
    assert set(operations) <= {"mul", "const"}
    assert operations.count("mul") <= 2 * math.log2(n)


def test_half_powers_are_roots(g, xy):
    """x**(1/2) and x**(-1/2) use sqrt, x**0.3 uses pow."""
    x, _ = xy
    assert g.power(x, 0.5) == g.function("sqrt", x)
    assert g.power(x, -0.5) == g.inv(g.function("sqrt", x))
    assert g.op[g.power(x, 0.3)] == "pow"


def test_sum_is_a_balanced_tree(g):
    """The depth of a sum of 1024 terms is 10."""
    depth = {}
    for node in g.ancestors([g.sum(g.symbols(f"x{k}" for k in range(1024)))]):
        depth[node] = 1 + max((depth[a] for a in g.args[node]), default=-1)
    assert max(depth.values()) == 10
    assert g.sum([]) == g.zero


def test_ancestors_come_before_users(g, xy):
    """Operands precede their users, each once, and nothing else is listed."""
    x, y = xy
    other = g.symbol("z")
    nodes = g.ancestors([g.mul(g.add(x, y), g.function("sin", x)), g.add(x, y)])
    assert other not in nodes and len(set(nodes)) == len(nodes) == 5
    for position, node in enumerate(nodes):
        assert all(a in nodes[:position] for a in g.args[node])


def test_substitution_simplifies(g, xy):
    """Exchanged nodes go through the same algebra: (x + y)*x at y = -x is zero."""
    x, y = xy
    node = g.mul(g.add(x, y), x)
    assert g.substitute([node, y], {y: g.neg(x)}) == [g.zero, g.neg(x)]
