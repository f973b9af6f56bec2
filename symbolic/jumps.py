"""Jumps of a model: expressions such as Piecewise, sign and floor, with what is held between two of
their jumps as inputs of their own, and the switching functions whose zeros are these jumps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t, written
from kinesym.symbolic.table import NumericFunction, table

Array = NDArray[np.float64]

#: Operations of an expression in a message.
_SHOWN = 40
#: Half of the distance between two signs.
_HALF = sp.Rational(1, 2)


@dataclass(frozen=True)
class Switch:
    """Switch: a value that is constant between two jumps of an expression.

    symbol : stands for it, a function of time. guard : the switching function s. points : the
    values of s at which it changes: it is the sign of s, -1, 0 or 1, if that is (0,); the largest
    whole number up to s, if there are none; else how many points are not above s. where, part : the
    equation or intermediate, and what jumps in it, as it was written. depends : states, inputs,
    parameters and time behind the guard. place : how many intermediates come before it. shown : it
    is in outputs only. plain : the guard as it was written.
    """

    symbol: AppliedUndef
    guard: sp.Expr
    points: tuple[float, ...]
    where: str
    part: sp.Expr
    depends: frozenset[sp.Basic]
    place: int
    shown: bool
    plain: sp.Expr

    @property
    def zero(self) -> str:
        """Description of the place where the guard changes the switch, such as "x = 0"."""
        text = written(self.plain, _SHOWN)
        if self.of_sign:
            return f"{text} = 0"
        return f"{text} is a point of the table" if self.points else f"{text} is a whole number"

    @property
    def said(self) -> str:
        """Description of where the expression jumps."""
        return f"{self.where} jumps with {written(self.part, _SHOWN)}"

    @property
    def of_sign(self) -> bool:
        """Whether it is the sign of the guard."""
        return self.points == (0.0,)

    def value(self, s: Array) -> Array:
        """Value of the switch where the guard is s."""
        if self.of_sign:
            return np.asarray(np.sign(s))
        if not self.points:
            return np.asarray(np.floor(s))
        return np.searchsorted(np.array(self.points), s, side="right").astype(np.float64)

    def changes_at(self, s: Array) -> bool:
        """Whether it changes where the guard is s, (1,)."""
        at = float(np.ravel(s)[0])
        return at in self.points if self.points else at == np.floor(at)

    def size(self, s: float) -> float:
        """A typical size of the distance of the guard from where it changes, as it is s away from
        zero."""
        if self.of_sign:
            return s if 0.0 < s < np.inf else 1.0
        return float(np.diff(self.points).min()) if self.points else 1.0

    def thresholds(self, low: float, high: float) -> Array:
        """Values of the guard within (low, high) at which it changes."""
        if not self.points:
            return np.arange(np.floor(low) + 1.0, np.ceil(high))
        every = np.array(self.points)
        return np.asarray(every[(every > low) & (every < high)])

    def edges(self) -> tuple[sp.Expr, sp.Expr]:
        """The values of the guard at which it changes next, above and below, by the symbol."""
        if not self.points:
            return self.symbol + 1, self.symbol
        far = 1e300  # there is no edge beyond
        steps = np.arange(len(self.points) + 1.0)
        about: dict[str, Any] = {"kind": "step", "outside": "constant"}
        above = table(self.symbol + _HALF, steps, [*self.points, far], **about)
        return above, table(self.symbol + _HALF, steps, [-far, *self.points], **about)


@dataclass(frozen=True, eq=False)
class Switched:
    """A model whose jumps are `switches`, further inputs, in an order in which guards contain
    earlier ones only. outputs : those that have switches, too."""

    model: Model
    switches: tuple[Switch, ...]
    outputs: tuple[sp.Expr, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the further inputs."""
        return tuple(name_of(switch.symbol) for switch in self.switches)

    @cached_property
    def _rows(self) -> tuple[tuple[sp.Basic, Sequence[sp.Basic], NumericFunction, Any], ...]:
        """Switches and intermediates in an order in which they can be evaluated: symbol, what it
        depends on, function, switch or None."""
        rows: list[tuple[float, sp.Basic, sp.Expr, Switch | None]] = [
            (switch.place, switch.symbol, switch.guard, switch) for switch in self.switches
        ]
        for k, (symbol, e) in enumerate(self.model.intermediates):
            rows.append((k + 0.5, symbol, e, None))
        found = []
        for _, symbol, e, switch in sorted(rows, key=lambda row: row[0]):
            symbols = sorted(atoms_of(e), key=str)
            found.append((symbol, symbols, NumericFunction(symbols, e), switch))
        return tuple(found)

    @cached_property
    def _equations(self) -> tuple[tuple[list[sp.Basic], NumericFunction], ...]:
        return tuple(map(_function, self.model.equations))

    @cached_property
    def _jumping(self) -> tuple[tuple[list[sp.Basic], NumericFunction], ...]:
        """Equations and outputs that have switches."""
        own = {switch.symbol for switch in self.switches}
        for symbol, e in self.model.intermediates:
            if not own.isdisjoint(atoms_of(e)):
                own.add(symbol)
        every = (*self.model.equations, *self.outputs)
        return tuple(_function(e) for e in every if not own.isdisjoint(atoms_of(e)))

    def at(
        self,
        point: Mapping[sp.Basic, Array],
        wanted: Sequence[sp.Basic],
        held: Mapping[sp.Basic, Array] | None = None,
    ) -> dict[sp.Basic, Array]:
        """Values (N,) of the point, of switches, but those that are `held`, and of intermediates,
        as many as `wanted` ones need."""
        known, needed = {**point, **(held or {})}, {*wanted}
        rows = []
        for row in reversed(self._rows):
            if row[0] in needed and row[0] not in known:
                needed.update(row[1])
                rows.append(row)
        with np.errstate(all="ignore"):
            for symbol, symbols, function, switch in reversed(rows):
                value = np.asarray(_called(function, symbols, known), dtype=float)
                known[symbol] = value if switch is None else switch.value(value)
        return known

    def guard(
        self,
        switch: Switch,
        point: Mapping[sp.Basic, Array],
        held: Mapping[sp.Basic, Array] | None = None,
    ) -> Array:
        """The switching function (N,) at points, see `at`."""
        mine = next(row for row in self._rows if row[0] == switch.symbol)
        known = self.at(point, mine[1], held)
        with np.errstate(all="ignore"):
            return np.asarray(_called(mine[2], mine[1], known), dtype=float)

    def rates(self, point: Mapping[sp.Basic, Array]) -> list[Array]:
        """x' (N,) that solve the equations at points, which are linear in it; of algebraic states
        and what is not determined that of the points."""
        states = self.model.derivatives
        n, N = len(states), len(point[t])
        if not n:
            return []
        zero = {rate: np.zeros(N) for rate in states}
        base = np.array(self._values(self._equations, {**point, **zero}, {}))
        matrix = np.empty((N, n, n))
        for k, rate in enumerate(states):
            one = {**point, **zero, rate: np.ones(N)}
            matrix[:, :, k] = (np.array(self._values(self._equations, one, {})) - base).T
        found = np.array([point[rate] for rate in states])
        finite = np.isfinite(matrix).all(axis=(1, 2)) & np.isfinite(base).all(axis=0)
        usual = np.flatnonzero(finite)
        usual = usual[np.linalg.matrix_rank(matrix[usual]) == n]
        found[:, usual] = np.linalg.solve(matrix[usual], -base.T[usual][..., None])[..., 0].T
        return list(found)

    def _values(
        self,
        functions: Sequence[tuple[list[sp.Basic], NumericFunction]],
        point: Mapping[sp.Basic, Array],
        held: Mapping[sp.Basic, Array],
    ) -> list[Array]:
        """Some of the equations and outputs at points (N,), see `at`."""
        wanted = sorted({s for symbols, _ in functions for s in symbols}, key=str)
        known, nothing = self.at(point, wanted, held), np.zeros(len(point[t]))
        with np.errstate(all="ignore"):
            return [_called(f, symbols, known) + nothing for symbols, f in functions]

    def jumps(
        self, switch: Switch, begin: Mapping[sp.Basic, Array], end: Mapping[sp.Basic, Array]
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Places of changes of a switch on straight lines from points (N,) to others, as shares of
        the lines, NaN where it does not change, as from points at which its guard is zero; and
        whether some equation jumps there, by more than rounding of its terms, as they are without
        rates."""
        symbol = switch.symbol
        sides = [self.at(point, [symbol])[symbol] for point in (begin, end)]
        a, b = np.zeros_like(sides[0] + sides[1]), np.ones_like(sides[0] + sides[1])
        first = sides[0] + 0.0 * a
        changed = np.isfinite(first) & np.isfinite(sides[1] + b) & (first != sides[1])
        changed &= (first != 0.0) | (not switch.of_sign)

        def between(share: Array) -> dict[sp.Basic, Array]:
            return {key: begin[key] + share * (end[key] - begin[key]) for key in begin}

        for _ in range(60):
            middle = 0.5 * (a + b)
            same = self.at(between(middle), [symbol])[symbol] == first
            a, b = np.where(same, middle, a), np.where(same, b, middle)
        here = between(b)
        after = self.at(here, [symbol])[symbol] + 0.0 * a
        before, later = (
            self._values(self._jumping, here, {symbol: side}) for side in (first, after)
        )
        still = dict.fromkeys(self.model.derivatives, np.zeros(len(a)))
        sizes = [self._values(self._jumping, {**way, **still}, {}) for way in (begin, end, here)]
        found = np.zeros(len(a), dtype=bool)
        for one, other, *terms in zip(before, later, *sizes, strict=True):
            with np.errstate(all="ignore"):
                size = np.fmax.reduce(np.abs([*terms, one - other]))
                found |= np.abs(one - other) > _ROUNDING * size
        return np.where(changed, b, np.nan), found & changed


class Unevaluated(ValueError):
    """An expression has no value in NumPy, though it may have one in C."""


def _called(
    function: NumericFunction, symbols: Sequence[sp.Basic], known: Mapping[Any, Any]
) -> Any:
    """Value of a function at known arguments; raises `Unevaluated`."""
    try:
        return function(*(known[symbol] for symbol in symbols))
    except (NameError, TypeError, AttributeError, ArithmeticError, KeyError) as error:
        raise Unevaluated(f"{written(function.expressions, _SHOWN)}: {error}") from error


def _function(e: sp.Expr) -> tuple[list[sp.Basic], NumericFunction]:
    """Atoms of an expression, sorted, and the expression as a numeric function of them."""
    symbols = sorted(atoms_of(e), key=str)
    return symbols, NumericFunction(symbols, e)


#: Random lines on which a jump is looked for.
_LINES = 64
#: A difference of two sides of a jump that is a share as small as this of the terms is none.
_ROUNDING = 1e-7


def of_time_alone(depends: frozenset[sp.Basic]) -> bool:
    """Whether a guard depends on time and nothing else."""
    return depends == {t}


def of_time(depends: frozenset[sp.Basic]) -> bool:
    """Whether a guard depends on time, and on nothing else but parameters."""
    return t in depends and all(isinstance(atom, sp.Symbol) for atom in depends)


@dataclass(frozen=True)
class OfKnownTime:
    """Whether a guard depends on time, and on nothing else but parameters that are not `unknown`,
    by name."""

    unknown: frozenset[str] = frozenset()

    def __call__(self, depends: frozenset[sp.Basic]) -> bool:
        return of_time(depends) and not any(name_of(atom) in self.unknown for atom in depends)


@dataclass(frozen=True)
class OfMotion:
    """Whether a guard changes along a motion in another way than by known times alone; but : inputs
    that are constant between events. timed : also if it depends on time and parameters only."""

    but: frozenset[sp.Basic] = frozenset()
    timed: bool = False

    def __call__(self, depends: frozenset[sp.Basic]) -> bool:
        left = depends - self.but
        moving = any(not isinstance(atom, sp.Symbol) for atom in left)
        return moving or (self.timed and of_time(left) and not of_time_alone(left))


@lru_cache(maxsize=32)
def jumping(found: Switched) -> tuple[Switch, ...]:
    """Switches at which an equation jumps on random lines, and those for which that cannot be
    evaluated; at the others equations have a kink."""
    model, random, lines = found.model, np.random.default_rng(0), _LINES
    own = {switch.symbol for switch in found.switches}

    def point() -> dict[sp.Basic, Array]:
        wide = 10.0 ** random.uniform(-2.0, 3.0, lines)
        values: dict[sp.Basic, Array] = {t: random.uniform(0.0, 10.0, lines)}
        for symbol in (*model.states, *model.derivatives, *model.inputs):
            if symbol not in own:
                values[symbol] = wide * random.standard_normal(lines)
        return values

    numbers = dict[sp.Basic, Array]()
    for p in model.parameters:
        around = np.exp(0.5 * random.standard_normal(lines))
        numbers[p] = model.values.get(name_of(p), 1.0) * around
    kept = []
    for switch in found.switches:
        ends = [{**point(), **numbers} for _ in range(2)]
        try:
            shares, jumps = found.jumps(switch, ends[0], ends[1])
        except Unevaluated:
            kept.append(switch)
            continue
        if jumps.any() or np.isnan(shares).all():
            kept.append(switch)
    return tuple(kept)
