"""Delays: values of earlier times in expressions, and outputs of sensors with latency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import listed, shown
from kinesym.symbolic.expression import parts_of, real_expression, real_number
from kinesym.symbolic.names import name_of, t


def delayed(expression: Any, tau: Any, range: Any = None) -> sp.Expr:
    """An expression as it was tau seconds ago.

    In equations, outputs, laws of control, objectives and path conditions of a model. expression :
    of states, inputs, intermediates, parameters and time, not of rates. tau : not negative, [s]: a
    number, a parameter, known or unknown, or an expression of what the model has, such as of a
    state; what is no number and no parameter has bounds, `range=(low, high)`.

    Before the start of a trial everything is as `Experiment(history=...)` says, else as at the
    start. Raises `ValueError` for a negative delay, and for a range that is none.
    """
    return DelayedValue(expression, tau, range=range)


class DelayedValue(sp.Function):
    """Delayed value, as `delayed` makes it; further arguments are the ends of the range."""

    nargs = (2, 4)

    def __new__(cls, expression: Any, tau: Any, *ends: Any, range: Any = None) -> sp.Expr:
        of = real_expression(expression, "what ks.delayed delays")
        late = real_expression(tau, "the delay of ks.delayed")
        low, high = _ends(ends if range is None else listed(range, "the range of ks.delayed"))
        if late.is_number:
            seconds = real_number(late, "the delay of ks.delayed")
            if seconds < 0.0:
                raise ValueError(
                    f"the delay of ks.delayed is {seconds:g} s, which is negative: a value of the "
                    "future; delays are not negative"
                )
            if low is not None and not low <= seconds <= high:
                raise ValueError(
                    f"the delay of ks.delayed, {seconds:g} s, is outside its range "
                    f"({float(low):g}, {float(high):g})"
                )
            if seconds == 0.0:
                return of
            low = high = None
        return super().__new__(cls, of, late, *(() if low is None else (low, high)))

    def _eval_derivative(self, s: Any) -> sp.Expr:
        raise ValueError(
            f"{self} cannot be differentiated: no equation says what a rate was some time ago; "
            "delay the derivative's own expression instead"
        )


DelayedValue.__name__ = "delayed"  # as it prints


class shown_late(sp.Function):
    """Reading of a sensor with latency: an expression, and its delay in seconds, a number or a
    parameter.

    An output of a model may be one, as a whole. Measurements of it are of the expression so long
    before; what results have of it at the nodes is the expression there.
    """

    nargs = 2


def as_it_is(e: sp.Expr) -> sp.Expr:
    """Expression of an output without the delay of its sensor."""
    return e.args[0] if isinstance(e, shown_late) else e


def delays_of_sensors(outputs: Mapping[str, sp.Expr]) -> dict[str, sp.Expr]:
    """Delays of the outputs that are shown late, by name."""
    return {name: e.args[1] for name, e in outputs.items() if isinstance(e, shown_late)}


@dataclass(frozen=True)
class Delay:
    """Input of a model that is a state or another input at an earlier time.

    symbol : the input, with a name such as "theta(t - tau)". signal : the state or input.
    tau : the delay [s], a number or an expression. range : its bounds, None where it is a number
    or a parameter without any.
    """

    symbol: AppliedUndef
    signal: AppliedUndef
    tau: sp.Expr
    range: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """Name of the input that stands for the delayed value."""
        return name_of(self.symbol)

    @property
    def course(self) -> AppliedUndef:
        """The input that is the delay, where that changes along the motion."""
        return sp.Function(f"delay in {self.name}")(t)

    @property
    def atoms(self) -> set[sp.Basic]:
        """Atoms that the delayed value depends on: the signal, and symbols of the delay."""
        return {self.signal, *self.tau.atoms(sp.Symbol, AppliedUndef)}

    def changes(self, parameters: Iterable[sp.Symbol]) -> bool:
        """Whether the delay depends on more than parameters, so that it changes along a motion."""
        return not self.tau.atoms(sp.Symbol, AppliedUndef) <= set(parameters)

    def exchanged(self, table: Mapping[sp.Basic, sp.Expr]) -> sp.Expr:
        """Delayed value with symbols of the signal and of the delay replaced."""
        return delayed(self.signal.xreplace(table), self.tau.xreplace(table), self.range)


class Reduction:
    """Delays in expressions of a model, reduced to delays of its states and inputs.

    where : the model, for messages. signals : states, and inputs that are no delays. program :
    intermediates; copies of those that are delayed are added to them. delays : known already,
    which are taken again.

    `self(label, e)` is an expression without `delayed`; it adds to `program` and `delays`.
    """

    def __init__(
        self,
        where: str,
        signals: Iterable[AppliedUndef],
        program: Sequence[tuple[sp.Basic, sp.Expr]] = (),
        delays: Sequence[Delay] = (),
    ) -> None:
        self._where, self._signals = where, set(signals)
        self._delays = {delay.symbol: delay for delay in delays}
        self._known = set(self._delays)
        self._program: dict[sp.Basic, sp.Expr] = {}
        for symbol, e in program:
            found = self(f"intermediate {name_of(symbol)}", e)
            self._program[symbol] = found

    @property
    def program(self) -> tuple[tuple[sp.Basic, sp.Expr], ...]:
        """Intermediates, in their order."""
        return tuple(self._program.items())

    def delays(self, expressions: Iterable[sp.Expr]) -> tuple[Delay, ...]:
        """Delays in use: those that were known, and those in reduced expressions and
        intermediates."""
        every = (*expressions, *self._program.values()) if self._delays else ()
        used = self._known | parts_of(AppliedUndef, *every)
        return tuple(delay for symbol, delay in self._delays.items() if symbol in used)

    def __call__(self, label: str, e: sp.Expr) -> sp.Expr:
        """An expression in which delayed signals are inputs of their own."""
        while calls := parts_of(DelayedValue, e):
            inner = [call for call in calls if not any(a.has(DelayedValue) for a in call.args)]
            inner.sort(key=str)
            e = e.xreplace({call: self._reduced(f"{self._where}{label}", call) for call in inner})
        return e

    def _reduced(self, what: str, call: sp.Expr) -> sp.Expr:
        """The expression of a call that holds no other one, at its time."""
        of, tau, *ends = call.args
        if tau.has(sp.Derivative):
            raise ValueError(f"{what}: the delay {tau} contains a rate; write it with the states")
        if any(symbol in self._delays for symbol in tau.atoms(AppliedUndef)):
            raise ValueError(
                f"{what}: the delay {tau} contains a delayed value itself; make it one of what "
                "holds at the present time"
            )
        if self._moves(tau) and not ends:
            raise ValueError(
                f"{what}: the delay {tau} changes along the motion and needs bounds: "
                f"ks.delayed({of}, {tau}, range=(low, high))"
            )
        return self._at(what, of, tau, (float(ends[0]), float(ends[1])) if ends else None)

    def _moves(self, tau: sp.Expr) -> bool:
        """Whether a delay is not the same at all times."""
        atoms = tau.atoms(sp.Symbol, AppliedUndef)
        return t in atoms or not atoms.isdisjoint(self._program)

    def _at(
        self, what: str, of: sp.Expr, tau: sp.Expr, ends: tuple[float, float] | None
    ) -> sp.Expr:
        """An expression at t - tau."""
        if of.has(sp.Derivative):
            raise ValueError(
                f"{what} has the delayed rate {min(map(str, of.atoms(sp.Derivative)))}: delays are "
                "of states and inputs; make the rate a state, or write what it is equal to"
            )
        table: dict[sp.Basic, sp.Expr] = {}
        for atom in sorted(of.atoms(sp.Symbol, AppliedUndef), key=str):
            if atom == t:
                table[atom] = t - tau
            elif atom in self._program:
                table[atom] = self._copy(what, atom, tau, ends)
            elif atom in self._delays:
                table[atom] = self._twice(what, self._delays[atom], tau, ends)
            elif isinstance(atom, AppliedUndef):
                known = atom in self._signals  # else it is not declared, which others say
                table[atom] = self._input(what, atom, tau, ends) if known else atom
        return of.xreplace(table)

    def _copy(
        self, what: str, symbol: sp.Basic, tau: sp.Expr, ends: tuple[float, float] | None
    ) -> sp.Expr:
        """An intermediate at t - tau, as another intermediate."""
        e = self._program[symbol]
        found = self._at(what, e, tau, ends)
        if found == e:
            return symbol
        copy = sp.Symbol(_named(symbol, tau))
        self._program[copy] = found
        return copy

    def _twice(
        self, what: str, first: Delay, tau: sp.Expr, ends: tuple[float, float] | None
    ) -> sp.Expr:
        """Delay of a delayed value: the sum of both delays. Raises `ValueError` unless the first is
        constant."""
        if self._moves(first.tau):
            raise ValueError(
                f"{what} delays {first.name}, whose delay {first.tau} changes along the motion; "
                "delays within delays are constants"
            )
        if ends is not None and first.range is not None:
            ends = ends[0] + first.range[0], ends[1] + first.range[1]
        elif ends is not None and first.tau.is_number:
            ends = ends[0] + float(first.tau), ends[1] + float(first.tau)
        else:
            ends = None
        return self._input(what, first.signal, first.tau + tau, ends)

    def _input(
        self, what: str, signal: AppliedUndef, tau: sp.Expr, ends: tuple[float, float] | None
    ) -> sp.Expr:
        """The input that is a signal at t - tau."""
        if tau == 0:
            return signal
        symbol = sp.Function(_named(signal, tau))(t)
        known = self._delays.get(symbol, Delay(symbol, signal, tau, ends))
        if ends is not None and known.range not in (None, ends):
            raise ValueError(
                f"{what}: {name_of(symbol)} has the range {ends} here and {known.range} "
                "elsewhere; give the same one"
            )
        if known.range is None and ends is not None:
            known = Delay(symbol, signal, tau, ends)
        self._delays[symbol] = known
        return symbol


def _named(symbol: sp.Basic, tau: sp.Expr) -> str:
    """The name of a symbol at t - tau, without "/", which files keep for themselves."""
    late = sp.sstr(tau, full_prec=False)
    for function in tau.atoms(AppliedUndef):
        late = late.replace(str(function), name_of(function))
    late = late.replace("/", "÷")
    return f"{name_of(symbol)}(t - {f'({late})' if tau.is_Add else late})"


def _ends(ends: Sequence[Any]) -> tuple[Any, Any]:
    """Bounds of a delay as SymPy's numbers, None without."""
    if not ends:
        return None, None
    numbers = [real_number(end, "an end of the range of ks.delayed") for end in ends]
    if len(numbers) != 2 or not 0.0 <= numbers[0] < numbers[1]:
        raise ValueError(
            f"the range of ks.delayed is (low, high) with 0 <= low < high [s], got {shown(ends)}"
        )
    return sp.Float(numbers[0]), sp.Float(numbers[1])
