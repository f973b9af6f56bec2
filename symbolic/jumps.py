"""Jumps of a model: expressions such as Piecewise, sign and floor, with what is held between two of
their jumps as inputs of their own, and the switching functions whose zeros are these jumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from kinesym.symbolic.delayed import as_it_is
from kinesym.symbolic.expression import atoms_of, parts_of
from kinesym.symbolic.model import Explicit, Model
from kinesym.symbolic.names import name_of, t, written
from kinesym.symbolic.table import NumericFunction, table, tabulated

Array = NDArray[np.float64]

#: Operations of an expression in a message.
_SHOWN = 40
#: Half of the distance between two signs.
_HALF = sp.Rational(1, 2)
#: Of a relation of s = left - right, by the sign m of s.
_RELATIONS: dict[type, Callable[[sp.Expr], sp.Basic]] = {
    sp.StrictGreaterThan: lambda m: m > _HALF,
    sp.GreaterThan: lambda m: m > -_HALF,
    sp.StrictLessThan: lambda m: m < -_HALF,
    sp.LessThan: lambda m: m < _HALF,
}
#: What jumps, and what bends.
_JUMPING = (sp.Piecewise, sp.Heaviside, sp.sign, sp.floor, sp.ceiling, sp.frac, sp.Mod)
_BENDING = (sp.Abs, sp.Max, sp.Min)


@dataclass(frozen=True)
class Switch:
    """What is constant between two jumps of an expression.

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
        """Where the guard changes it, in words."""
        text = written(self.plain, _SHOWN)
        if self.of_sign:
            return f"{text} = 0"
        return f"{text} is a point of the table" if self.points else f"{text} is a whole number"

    @property
    def said(self) -> str:
        """Where it jumps, in words."""
        return f"{self.where} jumps with {written(self.part, _SHOWN)}"

    @property
    def of_sign(self) -> bool:
        """Whether it is the sign of the guard."""
        return self.points == (0.0,)

    def value(self, s: Array) -> Array:
        """It where the guard is s."""
        if self.of_sign:
            return np.asarray(np.sign(s))
        if not self.points:
            return np.asarray(np.floor(s))
        return np.searchsorted(np.array(self.points), s, side="right").astype(np.float64)

    def changes_at(self, s: Array) -> bool:
        """Whether it changes where the guard is s, (1,)."""
        at = float(np.ravel(s)[0])
        return at in self.points if self.points else at == np.floor(at)

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
                value = np.asarray(function(*(known[s] for s in symbols)), dtype=float)
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
            return np.asarray(mine[2](*(known[s] for s in mine[1])), dtype=float)

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
            return [f(*(known[s] for s in symbols)) + nothing for symbols, f in functions]

    def jumps(
        self, switch: Switch, begin: Mapping[sp.Basic, Array], end: Mapping[sp.Basic, Array]
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Where on straight lines from points (N,) to others a switch changes, as shares, NaN where
        it does not; and whether some equation jumps there, by more than rounding of its terms, as
        they are without rates."""
        symbol = switch.symbol
        sides = [self.at(point, [symbol])[symbol] for point in (begin, end)]
        a, b = np.zeros_like(sides[0] + sides[1]), np.ones_like(sides[0] + sides[1])
        first = sides[0] + 0.0 * a
        changed = np.isfinite(first) & np.isfinite(sides[1] + b) & (first != sides[1])

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
                size = np.nanmax(np.abs([*terms, one - other]), axis=0)
                found |= np.abs(one - other) > _ROUNDING * size
        return np.where(changed, b, np.nan), found & changed


def _function(e: sp.Expr) -> tuple[list[sp.Basic], NumericFunction]:
    """What an expression is of, and it as a function of that."""
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


def _candidates(model: Model, bending: bool, outputs: Sequence[sp.Expr] = ()) -> set[sp.Basic]:
    """What may jump, or bend, in equations and outputs, and the intermediates that they use."""
    kinds = (*_JUMPING, *(_BENDING if bending else ()), tabulated)
    form = model.explicit
    more = () if form is None else (*(e for _, e in form.intermediates), *form.rates)
    found = parts_of(kinds, *model.through((*model.equations, *outputs)), *more)
    degree = 1 if bending else 0
    return {e for e in found if not isinstance(e, tabulated) or max(e.record.degrees) <= degree}


@lru_cache(maxsize=32)
def switched(
    model: Model,
    chosen: Callable[[frozenset[sp.Basic]], bool],
    bends: bool = False,
    outputs: tuple[str, ...] = (),
) -> Switched:
    """The model with switches for those jumps whose guards depend on what is `chosen`, by states,
    inputs, parameters and time; bends : for what bends, such as Abs, too. outputs : names of those
    that are looked at; outputs and limits of the model stay as they are."""
    shown = {name: as_it_is(model.outputs[name]) for name in outputs}
    if not _candidates(model, bends, [*shown.values()]):
        return Switched(model, ())
    made = _Switching(model, chosen, bends)
    inner = tuple((s, made.of(e, f"intermediate {name_of(s)}", s)) for s, e in model.intermediates)
    equations = tuple(made.of(e, f"equation {k}") for k, e in enumerate(model.equations))
    seen = tuple(made.of(e, f"output {name}", shown=True) for name, e in shown.items())
    form, explicit = model.explicit, None
    before = len(made.switches)
    if form is not None:
        inside = "what rates are made of"
        steps = tuple((s, made.of(e, inside, s)) for s, e in form.intermediates)
        rows = zip(model.state_names, form.rates, strict=True)
        rates = tuple(made.of(e, f"the rate of {name}") for name, e in rows)
        explicit = Explicit(steps, rates) if len(made.switches) == before else None
    del made.switches[before:]
    if not made.switches:
        return Switched(model, ())
    late = {delay.symbol for delay in model.delays}
    inputs = (*(u for u in model.inputs if u not in late), *(s.symbol for s in made.switches))
    changes: dict[str, Any] = {"equations": equations, "intermediates": inner, "inputs": inputs}
    found = replace(model, explicit=None, **changes)
    if explicit is not None:
        found = found.solved_by(explicit)
    return Switched(found, tuple(made.switches), seen)


class _Switching:
    """Exchanges jumps for switches, expression by expression."""

    def __init__(
        self, model: Model, chosen: Callable[[frozenset[sp.Basic]], bool], bends: bool
    ) -> None:
        self.switches: list[Switch] = []
        self._model, self._chosen, self._bends = model, chosen, bends
        self._known: dict[tuple[sp.Expr, tuple[float, ...]], AppliedUndef] = {}
        self._made: dict[sp.Basic, sp.Basic] = {}
        self._behind: dict[sp.Basic, frozenset[sp.Basic]] = {}
        self._where, self._part, self._place = "", sp.S.Zero, 0
        self._shown, self._plain = False, dict[sp.Basic, sp.Basic]()
        self._numbers = count()

    def of(
        self, e: sp.Expr, where: str, symbol: sp.Basic | None = None, shown: bool = False
    ) -> sp.Expr:
        """An expression with switches; symbol : it is the intermediate of this name. shown : it is
        an output."""
        self._where, self._part, self._shown = where, sp.S.Zero, shown
        found = self._exchanged(e)
        if symbol is not None:
            self._behind[symbol] = self._depends(e)
            self._place += 1
        return found

    def _depends(self, e: sp.Expr) -> frozenset[sp.Basic]:
        """States, inputs, parameters, time and rates behind an expression."""
        found = set[sp.Basic]()
        bare = e
        for atom in parts_of((AppliedUndef, sp.Derivative), e):
            found |= self._behind.get(atom, frozenset((atom,)))
        functions = {f: sp.Dummy() for f in parts_of(AppliedUndef, e)}
        bare = e.xreplace({d: sp.Dummy() for d in parts_of(sp.Derivative, e)}).xreplace(functions)
        for atom in parts_of(sp.Symbol, bare):
            if not isinstance(atom, sp.Dummy):
                found |= self._behind.get(atom, frozenset((atom,)))
        return frozenset(found)

    def _exchanged(self, e: Any) -> Any:
        if not e.args:
            return e
        if e not in self._made:
            outer = self._part
            if outer == 0 and isinstance(e, (*_JUMPING, *_BENDING, tabulated)):
                self._part = e
            args = [self._exchanged(arg) for arg in e.args]
            same = all(new is old for new, old in zip(args, e.args, strict=True))
            self._made[e] = self._switched(e if same else e.func(*args))
            self._part = outer
        return self._made[e]

    def _switched(self, e: Any) -> Any:
        """An expression whose parts have switches with one of its own, if it needs that."""
        if isinstance(e, Relational):
            return self._relation(e)
        if isinstance(e, sp.Heaviside):
            m = self._switch(e.args[0], (0.0,))
            middle = e.args[1] if len(e.args) > 1 else _HALF
            return e if m is None else sp.Piecewise((0, m < -_HALF), (middle, m < _HALF), (1, True))
        if isinstance(e, sp.sign):
            m = self._switch(e.args[0], (0.0,))
            return e if m is None else m
        if isinstance(e, sp.floor):
            k = self._switch(e.args[0], ())
            return e if k is None else k
        if isinstance(e, sp.ceiling):
            k = self._switch(-e.args[0], ())
            return e if k is None else -k
        if isinstance(e, sp.frac):
            k = self._switch(e.args[0], ())
            return e if k is None else e.args[0] - k
        if isinstance(e, sp.Mod):
            k = self._switch(e.args[0] / e.args[1], ())
            return e if k is None else e.args[0] - e.args[1] * k
        if isinstance(e, tabulated):
            return self._table(e)
        return self._bent(e) if self._bends else e

    def _relation(self, e: Any) -> Any:
        if type(e) not in _RELATIONS:  # of equality: true at single times
            return e
        s = e.lhs - e.rhs
        m = self._switch(s, (0.0,)) if isinstance(s, sp.Expr) else None
        return e if m is None else _RELATIONS[type(e)](m)

    def _bent(self, e: Any) -> Any:
        """Of what bends: a product with the sign, or the larger of two."""
        if isinstance(e, sp.Abs):
            m = self._switch(e.args[0], (0.0,))
            return e if m is None else m * e.args[0]
        if isinstance(e, (sp.Max, sp.Min)):
            found, *others = sorted(e.args, key=str)
            for other in others:
                m = self._switch(found - other, (0.0,))
                if m is None:
                    return e
                pair = (found, other) if isinstance(e, sp.Max) else (other, found)
                found = sp.Piecewise((pair[0], m > 0), (pair[1], True))
            return found
        return e

    def _table(self, e: tabulated) -> Any:
        """A table of steps, or of lines if it may bend: coefficients of the cell."""
        degree = max(e.record.degrees)
        if len(e.variables) > 1 or degree > int(self._bends) or any(e.orders):
            return e
        x, (points,), cells = e.variables[0], e.record.axes, e.record.coefficients
        if not np.isfinite(cells).all():  # there is nothing outside
            return e
        k = self._switch(x, tuple(map(float, points)))
        if k is None:
            return e
        places, begins = np.arange(len(cells) + 0.0), [points[0], *points]
        about: dict[str, Any] = {"kind": "step", "outside": "constant", "name": e.record.name}
        found, *slope = (table(k + _HALF, places, row, **about) for row in cells.T[: degree + 1])
        for each in slope:
            found += each * (x - table(k + _HALF, places, begins, **about))
        return found

    def _switch(self, guard: sp.Expr, points: tuple[float, ...]) -> sp.Expr | None:
        """The symbol of a switch, with its sign; None if there is to be none."""
        if not parts_of((sp.Symbol, AppliedUndef), guard):
            return None
        turned = points == (0.0,) and guard.could_extract_minus_sign()
        guard = -guard if turned else guard
        key = (guard, points)
        if key not in self._known:
            depends = self._depends(guard)
            if not self._chosen(depends):
                return None
            symbol = self._new()
            part = self._part if self._part != 0 else guard
            self._behind[symbol] = depends
            self._known[key] = symbol
            plain = guard.xreplace(self._plain)
            about = (self._where, part, depends, self._place, self._shown, plain)
            self.switches.append(Switch(symbol, guard, points, *about))
            if len(points) < 2:
                self._plain[symbol] = sp.sign(plain) if points else sp.floor(plain)
        symbol = self._known[key]
        return -symbol if turned else symbol

    def _new(self) -> AppliedUndef:
        """A symbol that the model does not have."""
        taken = {name_of(symbol) for symbol in self._model.symbols}
        names = (f"switch_{k}" for k in self._numbers)
        return sp.Function(next(name for name in names if name not in taken))(t)


@lru_cache(maxsize=32)
def jumping(found: Switched) -> tuple[Switch, ...]:
    """Those switches at which an equation jumps, as seen on random lines, or of which that cannot
    be seen; what is left bends."""
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
        shares, jumps = found.jumps(switch, {**point(), **numbers}, {**point(), **numbers})
        if jumps.any() or np.isnan(shares).all():
            kept.append(switch)
    return tuple(kept)
