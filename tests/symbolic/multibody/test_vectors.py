"""Operators of vectors and matrices against those of SymPy."""

import pickle

import sympy as sp

from kinesym.symbolic.multibody.vectors import Matrix, Steps, Vector, matrix, vector

a, b = vector(sp.symbols("a:3")), vector(sp.symbols("b:3"))
A, B = (matrix([sp.symbols(f"{name}{i}_:3") for i in range(3)]) for name in "AB")
k = sp.Symbol("k")


def columns(*given):
    return [sp.Matrix(one) for one in given]


def test_vectors():
    x, y = columns(a, b)
    pairs = [(a + b, x + y), (a - b, x - y), (-a, -x), (k * a, k * x), (a.cross(b), x.cross(y))]
    pairs += [(2 * a, 2 * x), (a.skew @ b, x.cross(y)), (A @ a, sp.Matrix(A) * x)]
    for found, expected in pairs:
        assert isinstance(found, Vector) and sp.expand(sp.Matrix(found) - expected).is_zero_matrix
    assert sp.expand(a @ b - x.dot(y)) == 0
    for c in (vector((0, 1, k)), vector((1, 0, -k)), vector((0, 0, 0)), vector((1, -1, 1.0))):
        z = sp.Matrix(c)
        assert a @ c == x.dot(z) and sp.Matrix(a.cross(c)) == x.cross(z)
        assert sp.Matrix(a + c) == x + z and sp.Matrix(k * c) == k * z
    assert pickle.loads(pickle.dumps(a)) == a


def test_what_gets_no_symbol():
    """Atoms, and these with the other sign."""
    steps = Steps()
    for e in (k, -k, sp.Integer(2), sp.Float(-0.5), sp.S.Zero):
        assert steps.scalar("none", e) == e
    for number, e in enumerate((2 * k, -2 * k, k + 1, -k - 1, k**2, sp.sin(k), a[0] * k)):
        assert steps.scalar(f"some.{number}", e) == sp.Symbol(f"some.{number}")


def test_matrices():
    X, Y = columns(A, B)
    for found, expected in ((A + B, X + Y), (A @ B, X * Y), (A.T, X.T), (k * A, k * X)):
        assert isinstance(found, Matrix) and isinstance(found[0], Vector)
        assert sp.expand(sp.Matrix(found) - expected).is_zero_matrix
