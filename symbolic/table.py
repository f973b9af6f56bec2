"""Functions from data: piecewise polynomials in one or two variables, whose numbers are known when a
model runs and not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import product
from math import perm
from typing import Any, cast

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.checks import check_choice, check_identifier, shown
from kinesym.symbolic.expression import parts, real_expression
from kinesym.symbolic.interpolation import (
    KINDS,
    OUTSIDE,
    coefficients,
    hermite,
    least_points,
    slopes,
    symbolic_slopes,
)

Array = NDArray[np.float64]


class Record(sp.Atom):  # type: ignore[misc]
    """The numbers of a table, as an operand of `tabulated`; records with equal numbers and names
    are equal.

    name : in expressions. axes : points of each variable. coefficients : by cell and by power of
    the distance from the point before, (n + 1, powers), or (n + 1, m + 1, powers, powers) of two
    variables; cells are below the first point, between points, and above the last. outside : the
    rule there.
    """

    __slots__ = ("axes", "coefficients", "digest", "name", "outside")

    def __new__(
        cls, name: str, axes: Sequence[Array], coefficients: Array, outside: str
    ) -> Record:
        made: Record = super().__new__(cls)
        made.name, made.outside = name, outside
        made.axes = tuple(_frozen(axis) for axis in axes)
        made.coefficients = _frozen(coefficients)
        made.digest = b"".join(map(_digest, (*made.axes, made.coefficients)))
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.name, self.axes, self.coefficients, self.outside

    def __getstate__(self) -> None:
        """Nothing beyond the arguments."""
        return

    def _hashable_content(self) -> tuple[Any, ...]:
        return self.name, self.digest.hex(), self.coefficients.shape

    def _sympystr(self, printer: Any) -> str:
        return self.name

    _latex = _sympyrepr = _sympystr

    @property
    def degrees(self) -> tuple[int, ...]:
        """Of the polynomials in each variable."""
        return tuple(count - 1 for count in self.coefficients.shape[len(self.axes) :])

    @property
    def blocks(self) -> tuple[Array, ...]:
        """What is looked up: of each axis the point before each cell, then the coefficients."""
        return (*map(before_cells, self.axes), self.coefficients)

    def __call__(self, orders: Sequence[int], *x: Any) -> Any:
        """The derivative of these orders at numbers or arrays x; complex ones are continued from
        the real line to first order, for derivatives by the complex step."""
        real = [np.real(value) for value in x]
        found = self._value(orders, real)
        if any(map(np.iscomplexobj, x)):
            for k, value in enumerate(x):
                higher = [order + (axis == k) for axis, order in enumerate(orders)]
                found = found + 1j * np.imag(value) * self._value(higher, real)
        return found

    def _value(self, orders: Sequence[int], x: Sequence[Any]) -> Any:
        cells, weights = [], []
        for axis, order, degree, value in zip(self.axes, orders, self.degrees, x, strict=True):
            begins = before_cells(axis)
            cell = np.searchsorted(begins[1:], value, side="right")
            cells.append(cell)
            distance = value - begins[cell]
            weights.append([perm(p, order) * distance ** max(p - order, 0) for p in range(degree + 1)])
        total: Any = 0.0
        for powers in product(*(range(degree + 1) for degree in self.degrees)):
            term = self.coefficients[(*cells, *powers)]
            for row, p in zip(weights, powers, strict=True):
                term = term * row[p]
            total = total + term
        return total


class tabulated(sp.Expr):  # type: ignore[misc]
    """A table at its variables, or a derivative of it: (record, x, order) or (record, x, y, order
    of x, order of y)."""

    is_commutative = True
    is_extended_real = True

    def __new__(cls, record: Record, *rest: Any) -> sp.Expr:
        variables, orders = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        if any(order > degree for order, degree in zip(orders, record.degrees, strict=True)):
            return sp.S.Zero
        if all(x.is_number for x in variables):
            return sp.Float(float(record([int(k) for k in orders], *map(float, variables))))
        return super().__new__(cls, record, *variables, *orders)

    @property
    def record(self) -> Record:
        """Its numbers."""
        found: Record = self.args[0]
        return found

    @property
    def variables(self) -> tuple[sp.Expr, ...]:
        """What it is a function of."""
        return self.args[1 : 1 + len(self.args) // 2]

    @property
    def orders(self) -> tuple[int, ...]:
        """Of the derivative with respect to each variable."""
        return tuple(map(int, self.args[1 + len(self.args) // 2 :]))

    def _eval_derivative(self, symbol: sp.Basic) -> sp.Expr:
        terms = []
        for k, x in enumerate(self.variables):
            slope = x.diff(symbol)
            if slope != 0:
                orders = [sp.Integer(o + (axis == k)) for axis, o in enumerate(self.orders)]
                terms.append(tabulated(self.record, *self.variables, *orders) * slope)
        return sp.Add(*terms)

    def _sympystr(self, printer: Any) -> str:
        ticks = "'" * self.orders[0] if len(self.orders) == 1 else ""
        if len(self.orders) > 1 and any(self.orders):
            ticks = f"_{''.join(v * k for v, k in zip('xy', self.orders, strict=True))}"
        return f"{self.record.name}{ticks}({', '.join(map(printer.doprint, self.variables))})"

    _latex = _sympyrepr = _sympystr


def table(
    x: Any,
    points: Any,
    values: Any,
    kind: str = "cubic",
    outside: str = "linear",
    name: str = "table",
) -> sp.Expr:
    """The function of x that takes `values` at `points`: `ks.table(length, lengths, forces)`.

    Parameters
    ----------
    x : an expression; of a function of two variables a pair (x, y).
    points : (n,), increasing [unit of x]; of two variables a pair of them, (n,) and (m,).
    values : (n,), or (n, m). Numbers, or expressions, such as parameters that are to be found.
    kind : "cubic": the cubic spline with two continuous derivatives, whose third is continuous at
        the points next to the ends (not-a-knot; de Boor 2001, A Practical Guide to Splines, chapter
        IV). "pchip": cubics that are monotone where the values are (Fritsch and Butland 1984, SIAM
        J. Sci. Stat. Comput. 5, 300-304). "akima": cubics that swing little beside an outlier
        (Akima 1970, J. ACM 17, 589-602). "linear": straight lines, whose slope jumps. The last
        three are of class C1, C1, C0, and a solver that takes second derivatives to be continuous
        is better off with the first. Of two variables, cubics have the slopes of this kind along
        both, and their mixed slope is the mean of both orders.
    outside : what holds below the first point and above the last one. "linear" (default): the
        tangent there, so that a solver which passes an end on its way finds its way back.
        "constant": the value at the end. "continue": the outermost polynomial. "nan": nothing; a
        simulation ends there, and says so.
    name : in printed expressions.

    Numbers are known when the model runs and are not compiled in: tables of equal size share a
    library. First and second derivatives are exact. Values that are expressions stand in a sum of
    each with a function from numbers, so that derivatives with respect to them are exact, too; its
    evaluation takes time in proportion to their number, so use some ten.

    Raises `ValueError` for points that do not increase, numbers that are not finite, shapes that do
    not fit, fewer points than the kind needs, and what `check_identifier` refuses as a name.
    """
    check_identifier(name, "the name of a table")
    what = f"table {name}"
    check_choice(kind, KINDS, f"{what}: the kind")
    check_choice(outside, OUTSIDE, f"{what}: what is outside")
    pair = isinstance(x, (tuple, list))
    variables = [real_expression(one, f"{what}: x") for one in (x if pair else [x])]
    if len(variables) > 2 or pair and len(variables) < 2:
        raise ValueError(f"{what}: x is an expression, or a pair of them, got {shown(x)}")
    given = points if pair else [points]
    if not isinstance(given, (tuple, list, np.ndarray)) or len(given) != len(variables):
        raise ValueError(f"{what}: a function of two variables has a pair of points, one of each")
    axes = [_axis(axis, kind, what) for axis in given]
    grid = _grid(values, tuple(map(len, axes)), what)

    def of(numbers: Array, label: str) -> sp.Expr:
        record = Record(label, axes, _table(axes, numbers, kind, outside), outside)
        return tabulated(record, *variables, *[sp.Integer(0)] * len(axes))

    if isinstance(grid, np.ndarray):
        return of(grid, name)
    if kind in ("cubic", "linear"):
        return _combined(grid, lambda unit, label: of(unit, f"{name}{label}"))
    if len(axes) > 1:
        raise ValueError(
            f"{what}: values that are expressions on two variables need kind='cubic' or 'linear', "
            f"slopes of {kind} are no sums of them"
        )
    tangents = symbolic_slopes(kind, axes[0], list(grid.values()))

    def local(values_: Array, slopes_: Array, label: str) -> sp.Expr:
        rows = hermite(axes[0], values_, slopes_, outside)
        return tabulated(Record(label, axes, rows, outside), *variables, sp.Integer(0))

    zero, terms = np.zeros(len(axes[0])), []
    for k, (value, tangent) in enumerate(zip(grid.values(), tangents, strict=True)):
        unit = _unit(zero.shape, (k,))
        terms.append(value * local(unit, zero, f"{name}{k}"))
        terms.append(tangent * local(zero, unit, f"{name}_slope{k}"))
    return sp.Add(*terms)


def smooth_instead(e: sp.Expr) -> sp.Expr:
    """The expression with sines instead of tables: at random points these have slopes everywhere,
    as tables have not."""
    found = e.atoms(tabulated)
    if not found:
        return e

    def sine(part: tabulated) -> sp.Expr:
        phase = sum(k * x for k, x in enumerate(part.variables, start=1))
        factor = sp.prod([k**order for k, order in enumerate(part.orders, start=1)])
        return factor * sp.sin(phase + sp.pi / 2 * sum(part.orders))

    return e.replace(lambda part: isinstance(part, tabulated), sine)


def function_of(symbols: Sequence[sp.Symbol], e: sp.Expr) -> Callable[..., Any]:
    """An expression as a function of numbers or arrays, with its tables."""
    inner = {part: sp.Function(f"table_{k}") for k, part in enumerate(e.atoms(tabulated))}
    known = {f.__name__: partial(part.record, part.orders) for part, f in inner.items()}
    plain = e.xreplace({part: f(*part.variables) for part, f in inner.items()})
    return cast("Callable[..., Any]", sp.lambdify(symbols, plain, [known, "scipy", "numpy"]))


# -- numbers that are looked up ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tables:
    """The numbers of all tables of some expressions, each array once.

    begins : by the digest of an array, where it begins. values : all of them.
    """

    begins: Mapping[bytes, int]
    values: Array

    def begin(self, block: Array) -> int:
        """Where an array begins."""
        return self.begins[_digest(block)]


    def with_those_of(self, expressions: Iterable[sp.Basic]) -> Tables:
        """These and those of the tables in expressions, in the order in which these contain them."""
        begins, found, seen = dict(self.begins), [self.values], set[sp.Basic]()
        size = len(self.values)
        for e in expressions:
            for part in parts(e, seen):
                for block in part.blocks if isinstance(part, Record) else ():
                    if begins.setdefault(_digest(block), size) == size:
                        found.append(block.ravel())
                        size += block.size
        return Tables(begins, _frozen(np.concatenate(found)))


def tables_of(expressions: Iterable[sp.Basic]) -> Tables:
    """The numbers of the tables in expressions."""
    return Tables({}, np.zeros(0)).with_those_of(expressions)


def before_cells(points: Array) -> Array:
    """The point before each cell, the first twice: cells are below the first point, between
    points, and above the last, which itself belongs to the one before."""
    return np.concatenate([points[:1], points[:-1], [np.nextafter(points[-1], np.inf)]])


def _frozen(values: Any) -> Array:
    found = np.array(values, dtype=np.float64)
    found.flags.writeable = False
    return found


def _digest(block: Array) -> bytes:
    return blake2b(np.ascontiguousarray(block).tobytes(), digest_size=16).digest()


# -- what is given -------------------------------------------------------------------------------


def finite_numbers(given: Any, what: str) -> Array:
    """An array of finite numbers."""
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be numbers, got {shown(given)}") from error
    wrong = np.argwhere(~np.isfinite(found))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        at = place[0] if len(place) == 1 else place
        raise ValueError(f"{what}: {found[place]:g} at index {at} is no finite number; leave it out")
    return found


def _axis(given: Any, kind: str, what: str) -> Array:
    """Increasing points."""
    points = finite_numbers(given, f"{what}: the points")
    if points.ndim != 1 or len(points) < least_points(kind):
        raise ValueError(
            f"{what}: kind={kind!r} needs {least_points(kind)} points or more in a row, got "
            f"{shown(given) if points.ndim != 1 else len(points)}"
        )
    wrong = np.flatnonzero(np.diff(points) <= 0.0)
    if len(wrong):
        k = int(wrong[0])
        raise ValueError(
            f"{what}: the points do not increase: {points[k]:g} at index {k} is followed by "
            f"{points[k + 1]:g}; sort them, and give one value for each"
        )
    return points


def _grid(given: Any, shape: tuple[int, ...], what: str) -> Array | dict[tuple[int, ...], sp.Expr]:
    """The values: numbers, or expressions by their places."""
    try:
        cells = np.array(given, dtype=object)
    except ValueError:
        cells = np.zeros(0, dtype=object)
    if cells.shape != shape:
        raise ValueError(
            f"{what}: the values have the shape {np.shape(cells)}, the points {shape}; give one "
            "value for each point"
        )
    if not any(isinstance(value, sp.Basic) and not value.is_number for value in cells.flat):
        return finite_numbers(given, f"{what}: the values")
    return {
        place: real_expression(cells[place], f"{what}: the value at index {place}")
        for place in np.ndindex(*shape)
    }


def _unit(shape: tuple[int, ...], place: tuple[int, ...]) -> Array:
    unit = np.zeros(shape)
    unit[place] = 1.0
    return unit


def _combined(
    grid: Mapping[tuple[int, ...], sp.Expr], of: Callable[[Array, str], sp.Expr]
) -> sp.Expr:
    """The sum of values times functions that are 1 at one point and 0 at others."""
    shape = tuple(1 + max(place[axis] for place in grid) for axis in range(len(next(iter(grid)))))
    return sp.Add(
        *(value * of(_unit(shape, place), "_".join(map(str, place))) for place, value in grid.items())
    )


def _table(axes: Sequence[Array], values: Array, kind: str, outside: str) -> Array:
    """Coefficients of a table in one or two variables."""
    first = slopes(kind, axes[0], values)
    if len(axes) == 1:
        return coefficients(kind, axes[0], values, first, outside)
    second, mixed = (slopes(kind, axes[1], rows.T).T for rows in (values, first))
    mixed = 0.5 * (mixed + slopes(kind, axes[0], second))
    along = [
        coefficients(kind, axes[0], *pair, outside) for pair in ((values, first), (second, mixed))
    ]
    turned = [np.moveaxis(rows, 2, 0) for rows in along]
    return coefficients(kind, axes[1], *turned, outside).transpose(2, 0, 3, 1)
