"""The index of a differential-algebraic model: how often its equations must be differentiated.

The structure comes first, by the algorithm of Pantelides (1988, SIAM J. Sci. Stat. Comput. 9,
213-231). It is confirmed where the Jacobian of what is highest has full rank (Pryce 2001, BIT 41,
364-394, theorem 4.2), at random points; where it has not, or where fewer derivatives may do
(Reissig, Martinson and Barton 2000, SIAM J. Sci. Comput. 21, 1987-1990), the array of the equations
and their derivatives decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.symbolic.declared import atoms_of
from kinesym.symbolic.derivation import Derivation, Program, fresh_name, jacobian_at
from kinesym.symbolic.names import name_of, t

if TYPE_CHECKING:
    from kinesym.symbolic.model import Model

Matrix = NDArray[np.float64]

#: Of a model whose structure says nothing: so many derivatives are tried.
_MOST = 5

#: Singular values below, relative to the largest, are zero: of matrices of random numbers, scaled.
_ZERO = 1e-10

#: Random points are taken from these ranges in turn, until everything is a real number there.
_RANGES = ((0.5, 1.5), (-1.3, 1.3), (0.05, 0.45), (1.5, 4.0))

#: So many hidden constraints are shown.
_SHOWN = 4

_ORDINALS = ("", "first ", "second ", "third ", "fourth ", "fifth ")


@dataclass(frozen=True)
class Constraint:
    """The derivative of a given order of an equation, by its number and as it is written."""

    equation: int
    order: int
    expression: sp.Expr

    def __str__(self) -> str:
        if self.order == 0:
            return f"equation {self.equation}, {readable(self.expression)}"
        nth = _ORDINALS[self.order] if self.order < len(_ORDINALS) else f"{self.order}th "
        return f"the {nth}derivative of equation {self.equation}, {readable(self.expression)}"


@dataclass(frozen=True)
class Index:
    """What kind of a differential-algebraic system a model is.

    value : the differentiation index: 0 where the equations determine x', 1 where they determine x'
        and the algebraic states, more where the derivatives of some are needed to do so. None where
        no number of derivatives was found that does.
    algebraic : states whose derivative is not determined by their own past: they follow from the
        others at each time.
    constraints : hidden constraints: equations that must be differentiated, each with the order of
        the highest derivative, the longest first.
    dependent : states whose initial values follow from those of the others.
    freedom : number of initial values that can be chosen.
    reason : where value is None, why; where only combinations of equations count, which.

    It is that of almost all points: special values of parameters or states may have another.
    """

    value: int | None
    algebraic: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    dependent: tuple[str, ...] = ()
    freedom: int | None = None
    reason: str = ""

    def __str__(self) -> str:
        rows = [f"index {'not found' if self.value is None else self.value}"]
        rows += [f"{self.freedom} initial values are free"] if self.freedom is not None else []
        if self.dependent:
            s = "s" * (len(self.dependent) == 1)
            rows.append(f"{', '.join(self.dependent)} follow{s} from the others")
        if self.constraints:
            more = len(self.constraints) - _SHOWN
            words = [*map(str, self.constraints[:_SHOWN]), *[f"{more} more"] * (more > 0)]
            rows.append(f"hidden: {'; '.join(words)}")
        return "; ".join([*rows, self.reason] if self.reason else rows)


@dataclass(frozen=True)
class Structure:
    """Which states, and how often differentiated, each equation contains; see `structure_of`.

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
        """Of a regular structure, the least upper bound of the index."""
        return max(self.equations, default=0) + int(0 in self.states)

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


def index_of(model: Model) -> Index:
    """The index of a model; see `Index`."""
    if model.explicit is not None:
        return Index(0, freedom=len(model.states))
    orders = signature(model)
    undetermined = _without_match(model, orders)
    if undetermined:
        return Index(None, reason=undetermined)
    structure = structure_of(model)
    if structure.index == 0 and structure.regular:
        return Index(0, freedom=len(model.states))
    if not structure.regular:
        return _irregular(model, structure)
    from kinesym.symbolic.reduction import differentiated

    value = structure.index
    if value > 1 and not structure.sharp:
        value = _least(model, value - 1) or value
    form = differentiated(model)
    dependent = form.dependent
    algebraic = [x for x, d in zip(model.state_names, structure.states, strict=True) if d == 0]
    hidden = [
        Constraint(i, structure.equations[i], model.equations[i])
        for i in {c.equation: None for c in form.constraints}
        if structure.equations[i] and value > 1
    ]
    return Index(
        value,
        tuple(algebraic),
        tuple(sorted(hidden, key=lambda c: (-c.order, c.equation))),
        tuple(x for x in model.state_names if x in (*algebraic, *dependent)),
        sum(structure.states) - sum(structure.equations),
    )


# -- structure -----------------------------------------------------------------------------------


def signature(model: Model) -> list[dict[int, int]]:
    """By equation, the order of the highest derivative of each state in it, by number."""
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
def structure_of(model: Model) -> Structure:
    """The structure of a model whose equations can be matched with its states."""
    orders = signature(model)
    c, d = differentiations(orders)
    return Structure(orders, c, d, _highest_jacobian(model, orders, c, d))


def differentiations(
    orders: Sequence[dict[int, int]],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How often each equation must be differentiated, and the order of the highest derivative of
    each state then, so that equations and highest derivatives can be matched (Pantelides 1988).

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


def _without_match(model: Model, orders: Sequence[dict[int, int]]) -> str:
    """Why the equations cannot be matched with the states, empty if they can: equations that
    contain fewer states than there are of them (Dulmage and Mendelsohn 1958)."""
    matching = _Matching(lambda i: orders[i])
    for i in range(len(orders)):
        if not matching.add(i):
            names = [model.state_names[j] for j in sorted(matching.columns)]
            return f"{_listed(sorted(matching.rows))} contain only {', '.join(names) or 'inputs'}"
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


def _listed(equations: Sequence[int]) -> str:
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
    atoms = atoms_of(*expressions, *(e for _, e in program)) | set(variables)
    own = sorted(atoms - {symbol for symbol, _ in program}, key=str)
    for low, high in _RANGES:
        numbers = np.random.default_rng(20).uniform(low, high, len(own))
        point = dict(zip(own, numbers.tolist(), strict=True))
        found = jacobian_at(expressions, program, variables, point)
        if np.isfinite(found).all():
            return found
    return None


def _highest_jacobian(
    model: Model, orders: Sequence[dict[int, int]], c: Sequence[int], d: Sequence[int]
) -> Matrix | None:
    """Of the differentiated equations by the highest derivatives. By Griewank's lemma, a derivative
    of an equation depends on its highest derivative as the equation does on its own."""
    n = len(orders)
    rates = sorted({j for i in range(n) for j, order in orders[i].items() if order == 1})
    places = sorted({j for i in range(n) for j, k in orders[i].items() if k == 0 and d[j] == c[i]})
    variables = [*(model.derivatives[j] for j in rates), *(model.states[j] for j in places)]
    slopes = random_jacobian(model.equations, model.intermediates, variables)
    if slopes is None:
        return None
    found = np.zeros((n, n))
    for order, columns, part in (
        (1, rates, slopes[:, : len(rates)]),
        (0, places, slopes[:, len(rates) :]),
    ):
        for i in range(n):
            for k, j in enumerate(columns):
                if orders[i].get(j) == order and d[j] == c[i] + order:
                    found[i, j] = part[i, k]
    return found


def time_derivation(model: Model, known: dict[sp.Basic, sp.Expr] | None = None) -> Derivation:
    """d/dt of expressions of a model, with derivatives of states and inputs of any order.

    known : what replaces the derivatives of some states.
    """
    moving = {*model.states, *model.inputs}
    rates = {} if known is None else known

    def rate(atom: sp.Basic) -> sp.Expr:
        if atom == t:
            return sp.S.One
        if atom in rates:
            return derivation(rates[atom])
        if atom in moving or isinstance(atom, sp.Derivative):
            further = sp.Derivative(atom, t)
            return rates.get(further, further)
        return sp.S.Zero

    taken = {*model.symbols, *model.outputs}

    def name(atom: sp.Basic) -> str:
        chosen = fresh_name(f"{name_of(atom)}_dot", taken)
        taken.add(chosen)
        return chosen

    derivation = Derivation(model.intermediates, rate, name)
    return derivation


def _least(model: Model, most: int) -> int | None:
    """The least number of derivatives, at most so many, that determine x'; None if none does.

    The equations and their derivatives determine x' if the Jacobian by x' has full column rank, and
    none of its range is that of the higher derivatives (Brenan, Campbell and Petzold 1996,
    Numerical Solution of Initial-Value Problems in DAEs, section 2.2).
    """
    n, d_dt = len(model.states), time_derivation(model)
    rows = list(model.equations)
    latest = rows
    for k in range(1, most + 1):
        latest = [d_dt(e) for e in latest]
        rows += latest
        variables = [sp.Derivative(x, (t, j)) for j in range(1, k + 2) for x in model.states]
        array = random_jacobian(rows, d_dt.program, variables)
        if array is not None and rank(array) == n + rank(array[:, n:]):
            return k
    return None


def _irregular(model: Model, structure: Structure) -> Index:
    """Of a model whose structure misleads: some entries cancel."""
    assert structure.jacobian is not None
    left = np.linalg.svd(structure.jacobian)[0][:, rank(structure.jacobian) :]
    found = [i for i in range(len(left)) if np.abs(left[i]).max() > 1e-8]
    why = f"{_listed(found)} determine something only in combination"
    value = _least(model, _MOST)
    if value is None:
        why = f"{_listed(found)} depend on one another, or contradict each other"
    algebraic = [x for x, d in zip(model.state_names, structure.states, strict=True) if d == 0]
    return Index(value, tuple(algebraic), reason=why)


def readable(expression: sp.Expr, limit: int = 90) -> str:
    """An expression in a message."""
    if sp.count_ops(expression) > limit // 2:
        return f"... {sp.count_ops(expression)} operations"
    return str(expression).replace("(t)", "")
