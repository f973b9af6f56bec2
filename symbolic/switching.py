"""Switches: the jumps and kinks of a model, written by inputs that are held between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from kinesym.symbolic.declared import Explicit
from kinesym.symbolic.delayed import as_it_is
from kinesym.symbolic.expression import parts_of
from kinesym.symbolic.jumps import Switch, Switched
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.table import table, tabulated

#: Half of the distance between two signs.
_HALF = sp.Rational(1, 2)
#: Values of relations of s = left - right, by the sign m of s.
_RELATIONS: dict[type, Callable[[sp.Expr], sp.Basic]] = {
    sp.StrictGreaterThan: lambda m: m > _HALF,
    sp.GreaterThan: lambda m: m > -_HALF,
    sp.StrictLessThan: lambda m: m < -_HALF,
    sp.LessThan: lambda m: m < _HALF,
}
#: Functions with jumps, and functions with kinks.
_JUMPING = (sp.Piecewise, sp.Heaviside, sp.sign, sp.floor, sp.ceiling, sp.frac, sp.Mod)
_BENDING = (sp.Abs, sp.Max, sp.Min)


def candidates(expressions: Iterable[sp.Expr], bending: bool) -> set[sp.Basic]:
    """Parts of expressions that may jump, or have kinks."""
    found = parts_of((*_JUMPING, *(_BENDING if bending else ()), tabulated), *expressions)
    degree = 1 if bending else 0
    return {e for e in found if not isinstance(e, tabulated) or max(e.record.degrees) <= degree}


def _candidates(model: Model, bending: bool, outputs: Sequence[sp.Expr] = ()) -> set[sp.Basic]:
    """The same in equations and outputs of a model, and the intermediates that they use."""
    form = model.explicit
    more = () if form is None else (*(e for _, e in form.intermediates), *form.rates)
    return candidates((*model.through((*model.equations, *outputs)), *more), bending)


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
        """Expression with its kinks by switches: |x| as a product with the sign, max and min by
        cases."""
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
