"""Structural analysis: the states in each equation, and how often each equation must be
differentiated, by the algorithm of Pantelides (1988, SIAM J. Sci. Stat. Comput. 9, 213-231)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.symbolic.declared import Declared
from kinesym.symbolic.derivation import Program, jacobian_at
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.table import smooth_instead

Matrix = NDArray[np.float64]

#: Singular values below, relative to the largest, are zero: of matrices of random numbers, scaled.
_ZERO = 1e-10

#: Random points are taken from these ranges in turn, until everything is a real number there.
_RANGES = ((0.5, 1.5), (-1.3, 1.3), (0.05, 0.45), (1.5, 4.0))


@dataclass(frozen=True, eq=False)
class Structure:
    """Structure of the equations: states with orders of derivatives in each; see `structure_of`.

    orders : by equation, the order (0 or 1) of the highest derivative of each state, by number.
    equations : how often each equation must be differentiated; states : the order of the highest
    derivative of each state then. jacobian : of these equations by these derivatives, at a random
    point; None if there is no point with real numbers.
    """

    orders: Sequence[dict[int, int]]
    equations: tuple[int, ...]
    states: tuple[int, ...]
    jacobian: Matrix | None

    @property
    def regular(self) -> bool:
        """Whether the Jacobian has full rank: then the numbers of derivatives are enough."""
        n = len(self.states)
        return self.jacobian is None or rank(self.jacobian) == n

    @property
    def index(self) -> int:
        """Least upper bound of the index, of a regular structure."""
        return max(self.equations, default=0) + int(0 in self.states)

    @property
    def freedom(self) -> int:
        """Number of initial values that can be chosen, of a regular structure."""
        return sum(self.states) - sum(self.equations)

    @property
    def sharp(self) -> bool:
        """Whether that bound is the index: a disturbance of an equation that is differentiated most
        reaches, with all these derivatives, what is differentiated least."""
        if self.jacobian is None:
            return True
        inverse = np.abs(np.linalg.inv(self.jacobian))
        rows = np.array(self.states) == min(self.states)
        columns = np.array(self.equations) == max(self.equations)
        return bool((inverse[np.ix_(rows, columns)] > _ZERO * inverse.max()).any())


def signature(model: Declared) -> list[dict[int, int]]:
    """Signature: for each equation, the order of the highest derivative of each state in it, by
    number."""
    number: dict[sp.Basic, tuple[int, int]] = {x: (j, 0) for j, x in enumerate(model.states)}
    number |= {rate: (j, 1) for j, rate in enumerate(model.derivatives)}
    known: dict[sp.Basic, dict[int, int]] = {}

    def orders(e: sp.Expr) -> dict[int, int]:
        found: dict[int, int] = {}
        for atom in atoms_of(e):
            pairs = [number[atom]] if atom in number else known.get(atom, {}).items()
            for j, order in pairs:
                found[j] = max(order, found.get(j, 0))
        return dict(sorted(found.items()))

    for symbol, e in model.intermediates:
        known[symbol] = orders(e)
    return [orders(e) for e in model.equations]


@lru_cache(maxsize=64)
def structure_of(model: Declared) -> Structure:
    """The structure of a model whose equations can be matched with its states."""
    orders = signature(model)
    c, d = differentiations(orders)
    return Structure(orders, c, d, _highest_jacobian(model, orders, c, d))


def differentiations(
    orders: Sequence[dict[int, int]],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Number of differentiations of each equation, and the order of the highest derivative of each
    state then, so that equations and highest derivatives can be matched (Pantelides 1988).

    The equations must have a matching with the states at all.
    """
    n = len(orders)
    c = [0] * n
    d = [max((row[j] for row in orders if j in row), default=0) for j in range(n)]
    matching = _Matching(lambda i: [j for j, k in orders[i].items() if k + c[i] == d[j]])
    for i in range(n):
        while not matching.add(i):
            for row in matching.rows:
                c[row] += 1
            for j in matching.columns:
                d[j] += 1
    return tuple(c), tuple(d)


def unmatched(model: Declared, orders: Sequence[dict[int, int]]) -> str:
    """Reason why the equations cannot be matched with the states, empty if they can: equations that
    contain fewer states than there are of them (Dulmage and Mendelsohn 1958)."""
    matching = _Matching(lambda i: orders[i])
    for i in range(len(orders)):
        if not matching.add(i):
            names = [model.state_names[j] for j in sorted(matching.columns)]
            found = equation_numbers(sorted(matching.rows))
            return f"{found} contain only {', '.join(names) or 'inputs'}"
    return ""


class _Matching:
    """A matching of rows with columns that grows by augmenting paths.

    columns_of : those a row can have. rows, columns : what the last search came to, if it failed.
    """

    def __init__(self, columns_of: Callable[[int], Iterable[int]]) -> None:
        self._columns_of = columns_of
        self._row: dict[int, int] = {}
        self._column: dict[int, int] = {}
        self.rows: list[int] = []
        self.columns: list[int] = []

    def add(self, row: int) -> bool:
        """Whether the row, too, can be matched."""
        came_from: dict[int, int] = {}
        queue = [row]
        for i in queue:  # breadth first; it grows
            for j in self._columns_of(i):
                if j in came_from:
                    continue
                came_from[j] = i
                if j not in self._row:
                    self._exchange(j, came_from)
                    return True
                queue.append(self._row[j])
        self.rows, self.columns = queue, list(came_from)
        return False

    def _exchange(self, j: int, came_from: dict[int, int]) -> None:
        column: int | None = j
        while column is not None:
            i = came_from[column]
            before = self._column.get(i)
            self._row[column], self._column[i] = i, column
            column = before


def equation_numbers(equations: Sequence[int]) -> str:
    """Some equations in a message."""
    return f"equation{'s' * (len(equations) > 1)} {', '.join(map(str, equations))}"


# -- numbers -------------------------------------------------------------------------------------


def rank(matrix: Matrix) -> int:
    """The rank of a matrix of random numbers, its rows and columns scaled."""
    if not matrix.size:
        return 0
    scaled = matrix / np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-300)
    scaled = scaled / np.maximum(np.abs(scaled).max(axis=0), 1e-300)
    sizes = np.linalg.svd(scaled, compute_uv=False)
    return int((sizes > _ZERO * sizes[0]).sum())


def random_jacobian(
    expressions: Sequence[sp.Expr], program: Program, variables: Sequence[sp.Basic]
) -> Matrix | None:
    """Derivatives of expressions by variables at a random point; None if there is none with real
    numbers. Equal input gives equal numbers."""
    return next(_random_jacobians(expressions, program, variables), None)


def _random_jacobians(
    expressions: Sequence[sp.Expr], program: Program, variables: Sequence[sp.Basic]
) -> Iterator[Matrix]:
    """Derivatives of expressions by variables at several random points, where they are finite."""
    expressions = [smooth_instead(e) for e in expressions]
    program = [(symbol, smooth_instead(e)) for symbol, e in program]
    atoms = atoms_of(*expressions, *(e for _, e in program)) | set(variables)
    own = sorted(atoms - {symbol for symbol, _ in program}, key=str)
    for low, high in _RANGES:
        numbers = np.random.default_rng(20).uniform(low, high, len(own))
        point = dict(zip(own, numbers.tolist(), strict=True))
        found = jacobian_at(expressions, program, variables, point)
        if np.isfinite(found).all():
            yield found


def _highest_jacobian(
    model: Declared, orders: Sequence[dict[int, int]], c: Sequence[int], d: Sequence[int]
) -> Matrix | None:
    """Jacobian of the differentiated equations by the highest derivatives, at a point where it has
    full rank if there is one. By Griewank's lemma, a derivative of an equation depends on its
    highest derivative as the equation does on its own. None if it is finite at no point."""
    n = len(orders)
    rates = sorted({j for i in range(n) for j, order in orders[i].items() if order == 1})
    places = sorted({j for i in range(n) for j, k in orders[i].items() if k == 0 and d[j] == c[i]})
    variables = [*(model.derivatives[j] for j in rates), *(model.states[j] for j in places)]
    column = {(j, 1): k for k, j in enumerate(rates)}
    column |= {(j, 0): k for k, j in enumerate(places, len(rates))}
    found = None
    for slopes in _random_jacobians(model.equations, model.intermediates, variables):
        found = np.zeros((n, n))
        for i, row in enumerate(orders):
            for j, order in row.items():
                if d[j] == c[i] + order:
                    found[i, j] = slopes[i, column[j, order]]
        if rank(found) == n:
            break
    return found
