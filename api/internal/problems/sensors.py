"""Sensors: measured channels that are expressions of what a model has."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from typing import Any, TypeVar

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_name, mapping, shown
from kinesym.symbolic.delayed import as_it_is, shown_late
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t

_System = TypeVar("_System")


def sensor(of: Any, bias: Any = 0, gain: Any = 1, delay: Any = 0) -> sp.Expr:
    """Sensor of a quantity: gain * of + bias, as `sensors={"imu": ks.sensor(omega, bias=b)}`.

    of : an expression of states, inputs, parameters. bias, gain : numbers or expressions; symbols
    that the model does not have become parameters, known or unknown. delay : the sample at t shows
    all this at t - delay [s]: a number, or a symbol, whose bounds must be finite if it is unknown.
    Raises `ValueError` for what is no expression, a gain of 0, and another delay.
    """
    given = {"of": of, "bias": bias, "gain": gain, "delay": delay}
    made = {what: real_expression(e, f"{what} of ks.sensor") for what, e in given.items()}
    late = made["delay"]
    if not (late.is_number or isinstance(late, sp.Symbol)) or late == t:
        raise ValueError(
            f"the delay of ks.sensor is {shown(delay)}; it must be a number of seconds or a "
            "sympy.Symbol, whose value is a parameter"
        )
    for what, e in made.items():
        if e.has(shown_late):
            raise ValueError(
                f"{what} of ks.sensor is a sensor with a delay of its own, {shown(given[what])}; "
                "a sensor shows all at one time: give each quantity a sensor of its own"
            )
    if made["gain"].is_zero:
        raise ValueError(
            f"the gain of ks.sensor is 0: it would show nothing of {shown(of)}; leave it out"
        )
    whole = made["gain"] * made["of"] + made["bias"]
    return whole if late == 0 else shown_late(whole, late)


def with_sensors(system: _System, sensors: Mapping[Any, Any] | None) -> _System:
    """A model or hybrid model whose outputs are its own and those of sensors, by name, with their
    symbols as further parameters; anything else as it is.

    Raises `ValueError` for a name that the model has, and for expressions of what it does not have.
    """
    given = mapping({} if sensors is None else sensors, "sensors", "{name: expression}")
    if not given or not isinstance(system, Model | Hybrid):
        return system
    model = system.model if isinstance(system, Hybrid) else system
    made = {
        name: real_expression(e, f"sensor {shown(name)}", "see ks.sensor")
        for name, e in given.items()
    }
    for name, expression in made.items():
        _check(model, name, expression)
    larger = _extended(model, tuple(made.items()))
    if not isinstance(system, Hybrid):
        return larger  # type: ignore[return-value]
    hybrid = copy(system)
    object.__setattr__(hybrid, "model", larger)
    return hybrid


@lru_cache(maxsize=16)
def _extended(model: Model, sensors: tuple[tuple[str, sp.Expr], ...]) -> Model:
    """Model with sensors, cached per model and sensors, so that its derivatives are found again."""
    atoms = atoms_of(*(e for _, e in sensors)) - model.symbols - {t}
    symbols = sorted((a for a in atoms if isinstance(a, sp.Symbol)), key=name_of)
    return model.extended(parameters=symbols, outputs=dict(sensors))


def _check(model: Model, name: Any, expression: sp.Expr) -> None:
    if not isinstance(name, str):
        raise ValueError(f"the name of a sensor must be a text such as 'imu', got {shown(name)}")
    check_name(name, "the name of a sensor")
    kinds = {
        "a state": model.state_names,
        "an input": model.input_names,
        "a parameter": model.parameter_names,
        "an output": tuple(model.outputs),
    }
    for kind, names in kinds.items():
        if name in names:
            raise ValueError(
                f"sensor {name} has the name of {kind} of model {model.name}; choose another, and "
                "use that in measurements"
            )
    own = {name_of(s) for s in model.symbols if isinstance(s, sp.Symbol)}
    if as_it_is(expression).has(shown_late):
        raise ValueError(
            f"sensor {name} contains a sensor with a delay of its own; a sensor shows all at one "
            "time: ks.sensor(expression, delay=...) around the whole"
        )
    for atom in sorted(atoms_of(expression) - {t}, key=str):
        if isinstance(atom, AppliedUndef) and atom not in model.symbols:
            raise ValueError(
                f"sensor {name} contains {atom}, which is neither a state nor an input of model "
                f"{model.name}; what is unknown of a sensor is a sympy.Symbol"
            )
        if isinstance(atom, sp.Symbol) and atom not in model.symbols and name_of(atom) in own:
            raise ValueError(
                f"sensor {name} contains a symbol {atom} that is not that of model {model.name}, "
                "as it was made with other assumptions; use the same one"
            )
