"""Inputs of hybrid trials, whose pieces may be expressions of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import ParametricSignal, Signal
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of
from kinesym.symbolic.table import NumericFunction


def parametric(signal: Signal, what: str) -> ParametricSignal:
    """A signal whose pieces are expressions of parameters; raises `ValueError`, naming `what`, for
    entries that are none."""
    rows = signal.expressions
    entries = sp.ImmutableMatrix([[real_expression(entry, what) for entry in row] for row in rows])
    if entries.atoms(AppliedUndef):
        raise ValueError(f"{what}: pieces are expressions of parameters, not of functions of time")
    symbols = {name_of(symbol): symbol for symbol in sorted(entries.free_symbols, key=name_of)}
    given = list(symbols.values())
    return ParametricSignal(
        list(symbols),
        NumericFunction(given, entries),
        {name: NumericFunction(given, entries.diff(p)) for name, p in symbols.items()},
    )


def hybrid_signals(
    hybrid: Hybrid, trial: Experiment, number: int
) -> dict[str, Signal | ParametricSignal]:
    """Inputs of a trial by name; raises `ValueError` for one that is missing."""
    given = by_name(trial.signals, hybrid.given, f"inputs of trial {number}")
    found: dict[str, Signal | ParametricSignal] = {}
    for name in hybrid.given:
        if name not in given:
            raise ValueError(
                f"input {name} has no data in trial {number}; give inputs={{{name}: ...}} in the "
                "experiment"
            )
        signal, what = given[name], f"input {name} of trial {number}"
        found[name] = parametric(signal, what) if signal.expressions else signal
    return found


def new_names(
    model: Model, signals: Sequence[Mapping[str, Signal | ParametricSignal]]
) -> list[str]:
    """Parameters of signals that the model does not have."""
    pieces = [s for trial in signals for s in trial.values() if isinstance(s, ParametricSignal)]
    new = sorted({p for piece in pieces for p in piece.names} - set(model.parameter_names))
    for name in new:
        if name in (*model.state_names, *model.input_names):
            raise ValueError(
                f"an input depends on {name}, which is a state or an input of {model.name}; call "
                "the parameter something else"
            )
    return new
