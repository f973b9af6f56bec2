"""Inputs of hybrid trials, whose pieces may be expressions of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal, SignalGradient
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of


class Pieces:
    """An input whose pieces are expressions of parameters: their `names`.

    Raises `ValueError`, naming `what`, for entries that are none.
    """

    def __init__(self, what: str, signal: Signal) -> None:
        rows = signal.expressions
        entries = sp.Matrix([[real_expression(entry, what) for entry in row] for row in rows])
        if entries.atoms(AppliedUndef):
            raise ValueError(
                f"{what}: pieces are expressions of parameters, not of functions of time"
            )
        symbols = sorted(entries.free_symbols, key=name_of)
        self.names: Sequence[str] = [name_of(symbol) for symbol in symbols]
        self._pieces = sp.lambdify(symbols, entries, "numpy")
        self._slopes = {
            name: sp.lambdify(symbols, entries.diff(symbol), "numpy")
            for name, symbol in zip(self.names, symbols, strict=True)
        }

    def at(self, values: Mapping[str, float]) -> Signal:
        """The input for values of the parameters; raises `ValueError` for begins that do not
        increase."""
        return Signal.pieces(*self._rows(self._pieces, values))

    def by(self, name: str, values: Mapping[str, float]) -> SignalGradient:
        """How its pieces change with a parameter."""
        return SignalGradient(*self._rows(self._slopes[name], values))

    def _rows(self, function: Any, values: Mapping[str, float]) -> Array:
        given = (np.float64(values[name]) for name in self.names)
        with np.errstate(all="ignore"):  # a signal refuses what is not finite
            return np.array(function(*given), dtype=np.float64)


def hybrid_signals(hybrid: Hybrid, trial: Experiment, number: int) -> dict[str, Signal | Pieces]:
    """All inputs that a trial is given; raises `ValueError` for what is missing."""
    given = by_name(trial.signals, hybrid.given, f"inputs of trial {number}")
    found: dict[str, Signal | Pieces] = {}
    for name in hybrid.given:
        if name not in given:
            raise ValueError(
                f"input {name} has no data in trial {number}; give inputs={{{name}: ...}} in the "
                "experiment"
            )
        signal, what = given[name], f"input {name} of trial {number}"
        found[name] = Pieces(what, signal) if signal.expressions else signal
    return found


def new_names(model: Model, signals: Sequence[Mapping[str, Signal | Pieces]]) -> list[str]:
    """Parameters of signals that the model does not have."""
    pieces = [s for trial in signals for s in trial.values() if isinstance(s, Pieces)]
    new = sorted({p for piece in pieces for p in piece.names} - set(model.parameter_names))
    for name in new:
        if name in (*model.state_names, *model.input_names):
            raise ValueError(
                f"an input depends on {name}, which is a state or an input of {model.name}; call "
                "the parameter something else"
            )
    return new
