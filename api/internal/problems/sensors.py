"""Sensors: measured channels that are expressions of what a model has, and noise that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import lru_cache
from typing import Any, TypeVar

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_name, mapping, shown
from kinesym.internal.problems.phases import Phases
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.delayed import as_it_is, shown_late
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.problem import measured_expressions

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
        if not isinstance(name, str):
            raise ValueError(
                f"the name of a sensor must be a text such as 'imu', got {shown(name)}"
            )
        check_name(name, "the name of a sensor")
        _check_name(model, f"sensor {name}", name)
        check_symbols(model, f"sensor {name}", expression)
    return _with(system, made)


def with_noise(system: _System, trials: Any) -> _System:
    """A model or hybrid model whose outputs are its own and, as `NAME_std`, the standard deviations
    of measurements that are expressions, with their symbols as further parameters, and what has
    censored samples under the names of these; anything else as it is.

    Raises `ValueError` for expressions of what the model does not have, and for trials that
    differ."""
    steps = trials.sequence if isinstance(trials, Phases) else trials
    listed = steps if isinstance(steps, Iterable) else [steps]
    given = [trial for trial in listed if isinstance(trial, Experiment)]
    asked = {n: e for trial in given for n, e in trial.std_expressions.items()}
    limits = {n: of for trial in given for n, (of, _) in trial.limits.items()}
    if not (asked or limits) or not isinstance(system, Model | Hybrid):
        return system
    model = system.model if isinstance(system, Hybrid) else system
    own = {sp.Symbol(name): as_it_is(e) for name, e in model.outputs.items()}
    made = {}
    for name, of in limits.items():
        _check_name(model, f"{name}, censored samples of {of},", name)
        made[name] = model.outputs.get(of, measured_expressions(model, [of])[of])
    for name, e in asked.items():
        for number, trial in enumerate(given):
            if name in trial.measured and trial.std_expressions.get(name) != e:
                raise ValueError(
                    f"std of {name} is {e} in a trial, and not in trial {number}; give all trials "
                    "the same expression, and parameters that differ values in "
                    "Experiment(parameters=...), or ks.per"
                )
        written = real_expression(e, f"std of {name}").xreplace(own)
        output = next(each[name] for trial in given if name in (each := trial.std_outputs))
        _check_name(model, f"{output}, the std of {name},", output)
        check_symbols(model, f"std of {name}", written)
        made[output] = written
    return _with(system, made)


def with_parameters(system: _System, symbols: tuple[sp.Symbol, ...]) -> _System:
    """A model or hybrid model with further parameters."""
    return _with(system, {}, symbols) if symbols else system


def _with(system: Any, made: Mapping[str, sp.Expr], symbols: tuple[sp.Symbol, ...] = ()) -> Any:
    """The system with further outputs and parameters."""
    model = system.model if isinstance(system, Hybrid) else system
    larger = _extended(model, tuple(made.items()), symbols)
    if not isinstance(system, Hybrid):
        return larger
    hybrid = copy(system)
    object.__setattr__(hybrid, "model", larger)
    return hybrid


@lru_cache(maxsize=16)
def _extended(
    model: Model, outputs: tuple[tuple[str, sp.Expr], ...], more: tuple[sp.Symbol, ...]
) -> Model:
    """Model with outputs, and more parameters than theirs, cached per model, outputs and these, so
    that its derivatives are found again."""
    atoms = atoms_of(*(e for _, e in outputs)) - model.symbols - {t}
    symbols = sorted((a for a in atoms if isinstance(a, sp.Symbol)), key=name_of)
    return model.extended(parameters=[*symbols, *more], outputs=dict(outputs))


def _check_name(model: Model, what: str, name: str) -> None:
    kinds = {
        "a state": model.state_names,
        "an input": model.input_names,
        "a parameter": model.parameter_names,
        "an output": tuple(model.outputs),
    }
    for kind, names in kinds.items():
        if name in names:
            raise ValueError(
                f"{what} has the name of {kind} of model {model.name}; choose another, and "
                "use that in measurements"
            )


def check_symbols(model: Model, what: str, expression: sp.Expr) -> None:
    """Raise `ValueError` for an expression of functions of time that the model does not have, of
    symbols that only look like its own, or with a delay."""
    own = {name_of(s) for s in model.symbols if isinstance(s, sp.Symbol)}
    if as_it_is(expression).has(shown_late):
        raise ValueError(
            f"{what} contains a sensor with a delay of its own; a sensor shows all at one "
            "time: ks.sensor(expression, delay=...) around the whole"
        )
    for atom in sorted(atoms_of(expression) - {t}, key=str):
        if isinstance(atom, AppliedUndef) and atom not in model.symbols:
            raise ValueError(
                f"{what} contains {atom}, which is neither a state nor an input of model "
                f"{model.name}; what is unknown is a sympy.Symbol"
            )
        if isinstance(atom, sp.Symbol) and atom not in model.symbols and name_of(atom) in own:
            raise ValueError(
                f"{what} contains a symbol {atom} that is not that of model {model.name}, "
                "as it was made with other assumptions; use the same one"
            )
