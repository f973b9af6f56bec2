"""Functions from data: piecewise polynomials in one or two variables, whose numbers are known when
a model runs and not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from itertools import product
from math import perm
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.base.checks import check_choice, check_identifier, shown
from kinesym.symbolic.expression import Evaluated, parts, parts_of, real_expression
from kinesym.symbolic.interpolation import (
    KINDS,
    OUTSIDE,
    SUMS,
    coefficients,
    slopes,
    symbolic_slopes,
)

Array = NDArray[np.float64]


#: The name of a table that has none of its own.
_NAMELESS = "table"


def titled(name: str) -> str:
    """A table in a message."""
    return "the table" if name == _NAMELESS else f"the table {name}"


class Record(sp.Atom):
    """The numbers of a table, as an operand of `tabulated`; records with equal numbers and names
    are equal.

    name : in expressions. axes : points of each variable. coefficients : by cell and by power of
    the distance from the point before, (n + 1, powers), or (n + 1, m + 1, powers, powers) of two
    variables; cells are below the first point, between points, and above the last. outside : the
    rule there.
    """

    __slots__ = ("axes", "coefficients", "digest", "name", "outside")

    def __new__(cls, name: str, axes: Sequence[Array], coefficients: Array, outside: str) -> Record:
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
        """Degrees of the polynomials in each variable."""
        return tuple(count - 1 for count in self.coefficients.shape[len(self.axes) :])

    @property
    def blocks(self) -> tuple[Array, ...]:
        """Arrays for the lookup: each axis, then the coefficients."""
        return (*map(searched, self.axes), self.coefficients)

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
            weights.append(
                [perm(p, order) * distance ** max(p - order, 0) for p in range(degree + 1)]
            )
        total: Any = 0.0
        for powers in product(*(range(degree + 1) for degree in self.degrees)):
            term = self.coefficients[(*cells, *powers)]
            for row, p in zip(weights, powers, strict=True):
                term = term * row[p]
            total = total + term
        return total


class tabulated(Evaluated):
    """A table at its variables, or a derivative of it: (record, x, order) or (record, x, y, order
    of x, order of y)."""

    def __new__(cls, record: Record, *rest: Any) -> sp.Expr:
        variables, orders = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        if any(order > degree for order, degree in zip(orders, record.degrees, strict=True)):
            return sp.S.Zero
        if all(x.is_number for x in variables):
            return sp.Float(float(record([int(k) for k in orders], *map(float, variables))))
        return super().__new__(cls, record, *variables, *orders)

    @property
    def record(self) -> Record:
        """Record with the numbers of the table."""
        found: Record = self.args[0]
        return found

    @property
    def variables(self) -> tuple[sp.Expr, ...]:
        """Variables of the function."""
        return self.args[1 : 1 + len(self.args) // 2]

    @property
    def orders(self) -> tuple[int, ...]:
        """Orders of the derivative with respect to each variable."""
        return tuple(map(int, self.args[1 + len(self.args) // 2 :]))

    @property
    def evaluated(self) -> Callable[..., Any]:
        """Function of numbers or arrays in place of the variables."""
        return partial(self.record, self.orders)

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
    name: str = _NAMELESS,
) -> sp.Expr:
    """The function of x that takes `values` at `points`: `ks.table(length, lengths, forces)`.

    Parameters
    ----------
    x : an expression; of a function of two variables a pair (x, y).
    points : (n,), increasing [unit of x]; of two variables a pair of them, (n,) and (m,).
    values : (n,), or (n, m). Numbers, or expressions, such as parameters that are to be found.
    kind : "cubic": the cubic spline with two continuous derivatives, whose third is continuous at
        the points next to the ends (not-a-knot; de Boor 2001, A Practical Guide to Splines, chapter
        IV). "simm": that of SIMM and OpenSim, whose third derivatives at the ends are those of the
        cubics through four points there. "natural": that without curvature at the ends. "quintic":
        the natural spline of degree 5, with four continuous derivatives; its third and fourth are 0
        at the ends (Woltring 1986, Adv. Eng. Software 8, 104-113). "pchip": cubics that are
        monotone where the values are (Fritsch and Butland 1984, SIAM J. Sci. Stat. Comput. 5,
        300-304). "akima": cubics that swing little beside an outlier (Akima 1970, J. ACM 17,
        589-602). "linear": straight lines, whose slope jumps. "step": the value at the point
        before, which jumps. The last four are of class C1, C1, C0 and none, and a solver that takes
        second derivatives to be continuous is better off with the others. Of two variables, cubics
        have the slopes of this kind along both, and their mixed slope is the mean of both orders.
    outside : what holds below the first point and above the last one. "linear" (default): the
        tangent there, so that a solver which passes an end on its way finds its way back.
        "constant": the value at the end. "quadratic": the parabola there, with the curvature of the
        end. "continue": the outermost polynomial. "nan": nothing; a
        simulation ends there, and says so.
    name : in printed expressions.

    Numbers are known when the model runs and are not compiled in: tables of equal size share a
    library. First and second derivatives are exact. Values that are expressions stand in a sum of
    each with a function from numbers, so that derivatives with respect to them are exact, too; each
    adds to every evaluation, so use no more than some thirty.

    Raises `ValueError` for points that do not increase, numbers that are not finite, shapes that do
    not fit, fewer points than the kind needs, and what `check_identifier` refuses as a name.
    """
    check_identifier(name, "the name of a table")
    what = titled(name)
    check_choice(kind, KINDS, f"{what}: the kind")
    check_choice(outside, OUTSIDE, f"{what}: what is outside")
    pair = isinstance(x, (tuple, list))
    variables = [real_expression(one, f"{what}: x") for one in (x if pair else [x])]
    if len(variables) != 1 + pair:
        raise ValueError(f"{what}: x is an expression, or a pair of them, got {shown(x)}")
    given = points if pair else [points]
    if not isinstance(given, (tuple, list, np.ndarray)) or len(given) != len(variables):
        raise ValueError(f"{what}: a function of two variables has a pair of points, one of each")
    axes = [_axis(axis, kind, what) for axis in given]
    made = _Maker(variables, axes, kind, outside, name)
    cells = _cells(values, tuple(map(len, axes)), what)
    if all(not isinstance(v, sp.Basic) or v.is_number for v in cells.flat):
        return made.of_numbers(finite_numbers(values, f"{what}: the values"))
    return made.of_expressions(
        {k: real_expression(v, f"{what}: the value at index {k}") for k, v in np.ndenumerate(cells)}
    )


@dataclass(frozen=True, eq=False)
class _Maker:
    """Maker of a table: all that it has beside its values."""

    variables: Sequence[sp.Expr]
    axes: Sequence[Array]
    kind: str
    outside: str
    name: str

    def of(self, coefficients: Array, label: str = "") -> sp.Expr:
        """The function with these coefficients."""
        record = Record(self.name + label, self.axes, coefficients, self.outside)
        return tabulated(record, *self.variables, *[sp.Integer(0)] * len(self.axes))

    def of_numbers(self, values: Array, label: str = "") -> sp.Expr:
        """The function with these values; raises `ValueError` if a slope is no number."""
        try:
            with np.errstate(all="ignore"):
                cells = self._cells(values)
        except ValueError:  # of SciPy
            cells = np.full((3,) * len(self.axes), np.nan)
        if not np.isfinite(cells[(slice(1, -1),) * len(self.axes)]).all():
            raise ValueError(
                f"{titled(self.name)}: a slope between points is beyond double precision; write "
                "points and values in other units"
            )
        return self.of(cells, label)

    def _cells(self, values: Array) -> Array:
        first = slopes(self.kind, self.axes[0], values)
        if len(self.axes) == 1:
            return self._along(0, values, first)
        second, mixed = (slopes(self.kind, self.axes[1], rows.T).T for rows in (values, first))
        mixed = 0.5 * (mixed + slopes(self.kind, self.axes[0], second))
        rows, rises = (self._along(0, *pair) for pair in ((values, first), (second, mixed)))
        cells = self._along(1, np.moveaxis(rows, 2, 0), np.moveaxis(rises, 2, 0))
        return cells.transpose(2, 0, 3, 1)

    def _along(self, axis: int, values: Array, tangents: Array) -> Array:
        return coefficients(self.kind, self.axes[axis], values, tangents, self.outside)

    def of_expressions(self, values: Mapping[tuple[int, ...], sp.Expr]) -> sp.Expr:
        """The function with these values: each times the function that is 1 at its point and 0 at
        others, if slopes are sums of values; else with slopes that are expressions, too."""
        if self.kind in SUMS:
            return sp.Add(
                *(
                    e * self.of_numbers(self._unit(k), "_".join(map(str, k)))
                    for k, e in values.items()
                )
            )
        if len(self.axes) > 1:
            raise ValueError(
                f"{titled(self.name)}: values that are expressions of two variables need a kind "
                f"that is one of {', '.join(SUMS)}: slopes of {self.kind} are no sums of values"
            )
        tangents = symbolic_slopes(self.kind, self.axes[0], list(values.values()))
        none, terms = self._unit(), []
        for (k, value), tangent in zip(values.items(), tangents, strict=True):
            unit = self._unit(k)
            terms.append(value * self.of(self._along(0, unit, none), f"{k[0]}"))
            terms.append(tangent * self.of(self._along(0, none, unit), f"_slope{k[0]}"))
        return sp.Add(*terms)

    def _unit(self, place: tuple[int, ...] | None = None) -> Array:
        """1 at a place, 0 elsewhere."""
        unit = np.zeros(tuple(map(len, self.axes)))
        if place is not None:
            unit[place] = 1.0
        return unit


def smooth_instead(e: sp.Expr) -> sp.Expr:
    """The expression with sines instead of tables: at random points these have slopes everywhere,
    as tables have not."""
    if not parts_of(tabulated, e):
        return e

    def sine(part: tabulated) -> sp.Expr:
        phase = sum(k * x for k, x in enumerate(part.variables, start=1))
        factor = sp.prod([k**order for k, order in enumerate(part.orders, start=1)])
        return factor * sp.sin(phase + sp.pi / 2 * sum(part.orders))

    return e.replace(lambda part: isinstance(part, tabulated), sine)


def printable(expressions: Any) -> tuple[Any, dict[str, Any]]:
    """Expressions, one or nested lists of them, with functions of new names in place of tables and
    of functions of users, and what these names mean to `lambdify`."""
    names: dict[Callable[..., Any], str] = {}

    def named(part: Evaluated) -> sp.Expr:
        name = names.setdefault(part.evaluated, f"own_{len(names)}")
        return sp.Function(name)(*part.variables)

    def plain(e: Any) -> Any:
        if isinstance(e, list):
            return [plain(each) for each in e]
        return e.replace(lambda part: isinstance(part, Evaluated), named)

    every = plain(expressions)
    return every, {name: function for function, name in names.items()}


@dataclass(frozen=True)
class NumericFunction:
    """Expressions, one or nested lists of them, as a function of numbers or arrays in place of the
    symbols, with their tables and functions of users; it pickles, as a function of `lambdify` does
    not."""

    symbols: Sequence[sp.Symbol]
    expressions: Any

    def __call__(self, *values: Any) -> Any:
        return self._function(*values)

    def __reduce__(self) -> tuple[Any, ...]:
        return NumericFunction, (self.symbols, self.expressions)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        every, known = printable(self.expressions)
        modules = [known | {"Cbrt": np.cbrt}, "scipy", "numpy"]  # SymPy does not print it
        found: Callable[..., Any] = sp.lambdify(self.symbols, every, modules)
        return found


# -- numbers that are looked up ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tables:
    """The numbers of all tables of some expressions, each array once.

    begins : by the digest of an array, where it begins. values : all of them. functions : the
    tables at their variables.
    """

    begins: Mapping[bytes, int]
    values: Array
    functions: tuple[tabulated, ...] = ()

    def begin(self, block: Array) -> int:
        """Offset of an array in the values of all tables."""
        return self.begins[_digest(block)]

    def with_those_of(self, expressions: Iterable[sp.Basic]) -> Tables:
        """Tables with those of these expressions added, in their order."""
        begins, found, seen = dict(self.begins), [self.values], set[sp.Basic]()
        functions, size = list(self.functions), len(self.values)
        for e in expressions:
            for part in parts(e, seen):
                functions += [part] if isinstance(part, tabulated) else []
                for block in part.blocks if isinstance(part, Record) else ():
                    if begins.setdefault(_digest(block), size) == size:
                        found.append(block.ravel())
                        size += block.size
        return Tables(begins, _frozen(np.concatenate(found)), tuple(functions))


def tables_of(expressions: Iterable[sp.Basic]) -> Tables:
    """The numbers of the tables in expressions."""
    return Tables({}, np.zeros(0)).with_those_of(expressions)


def before_cells(points: Array) -> Array:
    """The point before each cell, the first twice: cells are below the first point, between
    points, and above the last, which itself belongs to the one before."""
    return np.concatenate([points[:1], points[:-1], [np.nextafter(points[-1], np.inf)]])


def searched(points: Array) -> Array:
    """Search data of an axis: `before_cells`; the scale of a line from 0 at the first point to
    their number n at the last; the most points that there are between two whole numbers on it; and
    by whole numbers 0 ... n - 1, where the search begins: how many points come before, but so many
    that the most are left."""
    begins, n = before_cells(points), len(points)
    scale = min(n / (points[-1] - points[0]), 1e300)  # whatever the unit
    places = np.minimum((begins[1:] - points[0]) * scale, n - 1.0).astype(np.intp)
    counts = np.bincount(places, minlength=n)
    before, most = np.cumsum(counts) - counts, counts.max()
    return np.concatenate([begins, [scale, most], np.minimum(before, n - most)])


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
        if np.asarray(given).dtype.kind not in "biufO":  # NumPy would read text, and count dates
            raise TypeError
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be numbers, got {shown(given)}") from error
    wrong = np.argwhere(~np.isfinite(found))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        at = place[0] if len(place) == 1 else place
        raise ValueError(
            f"{what}: {found[place]:g} at index {at} is no finite number; leave it out"
        )
    return found


def _axis(given: Any, kind: str, what: str) -> Array:
    """Increasing points."""
    points = finite_numbers(given, f"{what}: the points")
    if points.ndim != 1 or len(points) < KINDS[kind]:
        raise ValueError(
            f"{what}: kind={kind!r} needs {KINDS[kind]} points or more in a row, got "
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


def _cells(given: Any, shape: tuple[int, ...], what: str) -> NDArray[Any]:
    """The values as objects."""
    try:
        cells = np.array(given, dtype=object)
    except ValueError:  # rows of different lengths
        cells = np.zeros(0, dtype=object)
    if cells.shape != shape:
        raise ValueError(
            f"{what}: the values have the shape {cells.shape}, the points {shape}; give one value "
            "for each point"
        )
    return cells
