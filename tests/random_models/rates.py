"""Random systems M(x, p) x' = b(x, p) to be solved for x', and their solution in 60 digits."""

import math
import random
from dataclasses import dataclass

import mpmath
import numpy as np
import sympy as sp
from jets import variable
from tree import Sides, Tree

import kinesym as ks

KINDS = ("dense", "zero pivots", "rotations", "permuted", "saddle", "sparse", "cancelling")
SCALES = ("", "", "rows scaled", "columns scaled", "both scaled")


@dataclass
class System:
    """M and b in SymPy, the model, and points of (x, p)."""

    kind: str
    mass: list
    side: list
    model: object
    points: list


class _Maker:
    """Entries as symbols: numbers stay outside of the model, so that zeros are met, not seen."""

    def __init__(self, rng, n):
        self.rng, self.n = rng, n
        self.x = [ks.dynamicsymbols(f"x{k}") for k in range(n)]
        self.q = self.x[0]
        self.parameters, self.values = [], []

    def parameter(self, value):
        """A new parameter with this value."""
        symbol = sp.Symbol(f"p{len(self.parameters)}")
        self.parameters.append(symbol)
        self.values.append(float(value))
        return symbol

    def entry(self, value):
        """Something with this value: a number, a parameter, a product or a difference of two."""
        kind = self.rng.random()
        if kind < 0.2 and value:
            return sp.Float(value)
        if kind < 0.3 and abs(value) < 1e10:
            return (
                self.parameter(value + 1) - self.parameter(1)
                if value in (0.0, 2.0)
                else (self.parameter(value / 2) * 2)
            )
        return self.parameter(value) * (sp.cos(self.x[-1]) if kind < 0.5 and not value else 1)


def _well(rng, n):
    return np.array([[rng.uniform(-1, 1) for _ in range(n)] for _ in range(n)]) + np.diag(
        [rng.choice([-3, 3, 2.5])] * n
    )


def _values(rng, kind, n):
    """Numbers of M for a kind; rotations are made elsewhere."""
    M = _well(rng, n)
    if kind == "zero pivots":
        np.fill_diagonal(M, 0.0)
        M += np.roll(np.eye(n), 1, axis=0) * 3
    elif kind == "permuted":
        M = M[rng.sample(range(n), n)]
        M[np.abs(M) < 0.5] = 0.0
    elif kind == "saddle":
        k = max(1, n // 2)
        M = (M + M.T) / 2
        M[k:, k:] = 0.0
        M[:k, :k] *= rng.choice([1.0, 1e-3, 0.0 if 2 * k == n else 1.0])
    elif kind == "sparse":
        keep = [[i == j or rng.random() < 0.3 for j in range(n)] for i in range(n)]
        M = np.where(keep, M, 0.0)[rng.sample(range(n), n)]
    elif kind == "cancelling":
        M[:, 0] = M[:, -1] * (1 + rng.choice([1e-3, 1e-6, 0.5]) * np.arange(n))
        M[0, 0] = rng.choice([1e-10, 0.0, 1e-17])
    return M


def _scaled(rng, M, scale):
    """Rows and columns in units of very different size."""
    for axis, word in ((0, "rows"), (1, "columns")):
        if scale in (f"{word} scaled", "both scaled"):
            units = np.array([10.0 ** rng.randint(-20, 20) for _ in M])
            M = M * (units[:, None] if axis == 0 else units[None, :])
    return M


def _rotations(make, n):
    """Products of rotations in planes, written out."""
    M = sp.eye(n)
    for k in range(n - 1):
        c, s, R = sp.cos(make.q), sp.sin(make.q), sp.eye(n)
        R[k, k], R[k, k + 1], R[k + 1, k], R[k + 1, k + 1] = c, -s, s, c
        M = M * R if k < 2 else M
    lengths = [make.parameter(make.rng.uniform(0.5, 2)) for _ in range(n)]
    return [[M[i, j] * lengths[j] for j in range(n)] for i in range(n)]


def system_of(seed):
    """The system of a seed."""
    rng = random.Random(seed)
    kind, n = KINDS[seed % len(KINDS)], rng.randint(1, 6)
    make = _Maker(rng, n)
    if kind == "rotations":
        mass = _rotations(make, n)
    else:
        scale = rng.choice(SCALES)
        values = _scaled(rng, _values(rng, kind, n), scale)
        kind = f"{kind} {scale}".strip()
        mass = [
            [sp.S.Zero if "sparse" in kind and not v else make.entry(v) for v in row]
            for row in values.tolist()
        ]
    side = [
        make.x[rng.randrange(n)] * rng.choice([1, 2, -1]) + rng.choice([0, 1, sp.sin(make.q)])
        for _ in range(n)
    ]
    rates = [x.diff(ks.t) for x in make.x]
    equations = [
        sp.Add(*(a * r for a, r in zip(row, rates, strict=True))) - b
        for row, b in zip(mass, side, strict=True)
    ]
    model = ks.Model(f"rates_{seed}", make.x, (), make.parameters, equations)
    points = []
    for special in (None, math.pi / 2, 0.0, math.pi):
        x = [rng.uniform(-2, 2) for _ in range(n)]
        if special is not None:
            x[0] = special
        points.append((np.array(x), np.array(make.values)))
    return System(kind, mass, side, model, points)


@dataclass
class Solution:
    """x' in mpmath, and how far off each may be for a sound elimination in double.

    That is a small multiple of what a rounding of M and b moves it (Skeel), or of what is lost by
    elimination with the largest pivots, or the largest for their rows, if that is more.
    """

    rates: list
    room: list


def solve(system, x, p):
    """The true x' at a point; None if M is singular."""
    model = system.model
    known = {
        s: variable(float(v), k)
        for k, (s, v) in enumerate(zip((*model.states, *model.parameters), (*x, *p), strict=True))
    }
    tree = Tree(known, Sides())
    M = mpmath.matrix([[tree(e).value for e in row] for row in system.mass])
    b = mpmath.matrix([tree(e).value for e in system.side])
    try:
        inverse = M**-1
    except ZeroDivisionError:
        return None
    rates, n = inverse * b, len(system.side)
    load = [sum(abs(M[i, j] * rates[j]) for j in range(n)) + abs(b[i]) for i in range(n)]
    spread = [sum(abs(inverse[i, j]) * load[j] for j in range(n)) for i in range(n)]
    double = np.array(M.tolist(), dtype=float), np.array(b.T.tolist()[0], dtype=float)
    room = [
        mpmath.mpf(1e-9) * (s if r else max(spread)) for s, r in zip(spread, rates, strict=True)
    ]
    for scaled in (False, True):
        plain = eliminated(*double, scaled).tolist()
        lost = [
            1000 * abs(a - r) if np.isfinite(a) else mpmath.inf
            for a, r in zip(plain, rates, strict=True)
        ]
        room = [max(pair) for pair in zip(room, lost, strict=True)]
    return Solution(list(rates), room)


def eliminated(M, b, scaled):
    """M^-1 b by elimination in double with the largest pivots of each column."""
    A, n = np.column_stack([M, b]), len(b)
    size = np.abs(M).max(axis=1) if scaled else np.ones(n)
    with np.errstate(all="ignore"):
        for k in range(n):
            best = k + int(np.argmax(np.abs(A[k:, k]) / size[k:]))
            A[[k, best]], size[[k, best]] = A[[best, k]], size[[best, k]]
            A[k + 1 :] -= np.outer(A[k + 1 :, k] / A[k, k], A[k])
        x = np.zeros(n)
        for k in reversed(range(n)):
            x[k] = (A[k, n] - A[k, k + 1 : n] @ x[k + 1 :]) / A[k, k]
    return x
