"""Content of the FMU of a model: its variables, their start values, its events."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from kinesym.base.checks import check_choice, mapping
from kinesym.codegen.exported import Exported, exported_functions
from kinesym.internal.exporting.fmu_units import base_unit
from kinesym.symbolic.expression import real_number
from kinesym.symbolic.hybrid import Event, Hybrid
from kinesym.symbolic.model import Model, check_values
from kinesym.symbolic.names import by_name, name_of

#: By this share of its scale a guard that is a level switches late.
_LATE = 2.0**-26
#: Groups of variables, in the order of value references; `ks_group` of fmi-instance.h.
GROUPS = ("time", "states", "rates", "inputs", "parameters", "outputs", "modes", "indicators")
#: Methods of co-simulation, by the function of a step.
METHODS: Mapping[str, str] = MappingProxyType({"rk4": "step_rk4", "radau-5": "step_radau"})


@dataclass(frozen=True)
class Component:
    """The content of an FMU.

    model : its inputs are those of the FMU, then modes; its outputs those of the FMU, then guards,
    what arms them, and values after events. changes : what events change, as (whether it is a mode,
    its number), in their order. start : values by name of states, inputs, parameters and modes.
    method : of co-simulation, in `METHODS`.
    """

    model: Model
    modes: tuple[str, ...]
    n_outputs: int
    events: tuple[Event, ...]
    changes: tuple[tuple[bool, int], ...]
    start: Mapping[str, float]
    method: str

    @cached_property
    def functions(self) -> Mapping[str, Exported]:
        """Functions and Jacobians of the model, by name; `rhs` is among them."""
        return {f.kernel.name: f for f in exported_functions(self.model)}

    @property
    def explicit(self) -> bool:
        """Whether x' is known, as model exchange needs it."""
        return "rhs" in self.functions or not self.model.states

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Names of variables by group, all different."""
        model = self.model
        inputs = model.input_names[: len(model.inputs) - len(self.modes)]
        return dict(
            zip(
                GROUPS,
                (
                    ("time",),
                    model.state_names,
                    tuple(f"der({x})" for x in model.state_names if self.explicit),
                    inputs,
                    model.parameter_names,
                    tuple(model.outputs)[: self.n_outputs],
                    self.modes,
                    tuple(f"guard({event.name})" for event in self.events),
                ),
                strict=True,
            )
        )

    @cached_property
    def first(self) -> Mapping[str, int]:
        """The value reference of the first variable of each group."""
        counts = [len(names) for names in self.names.values()]
        return {group: sum(counts[:k]) for k, group in enumerate(GROUPS)}

    def unit(self, group: str, name: str) -> str:
        """The unit of a variable, empty if it has none."""
        units = self.model.units
        if group == "time":
            return "s"
        if group != "rates":
            return units.get(name, "")
        of = units.get(name[len("der(") : -1], "")
        if not of:
            return ""
        return f"{of}/s" if of.isalpha() else "1/s" if of in ("1", "-") else f"({of})/s"


def component(
    what: Model | Hybrid,
    initial: Mapping[Any, float] | None,
    parameters: Mapping[Any, float] | None,
    inputs: Mapping[Any, float] | None,
    method: str | None,
) -> Component:
    """The content of the FMU of `what`, with these values at the start; zero where states and
    inputs have none. method : that for models without explicit x' if None and needed.

    Raises `ValueError` for what FMI cannot say: contacts, names twice, events of a model without
    explicit x', parameters without a value.
    """
    hybrid = what if isinstance(what, Hybrid) else Hybrid(what)
    model = hybrid.model
    if hybrid.contacts:
        raise ValueError(
            f"model {model.name} has contacts, {', '.join(c.name for c in hybrid.contacts)}, whose "
            "forces and impacts FMI has no words for; write them as events with resets, or as "
            "forces of penetration"
        )
    start = _start(hybrid, initial, parameters, inputs)
    outputs, changes = _with_events(hybrid)
    whole = replace(
        model, inputs=(*_inputs(hybrid, True), *_inputs(hybrid, False)), outputs=outputs
    )
    modes = tuple(name for name in model.input_names if name in hybrid.modes)
    events = tuple(hybrid.events)
    found = Component(whole, modes, len(model.outputs), events, changes, start, "rk4")
    found = replace(found, method=method or ("rk4" if found.explicit else "radau-5"))
    check_choice(found.method, METHODS, "the method of co-simulation")
    if not found.explicit:
        _check_implicit(found)
    _check_names(found)
    return found


def _check_implicit(found: Component) -> None:
    """Raise `ValueError` for a model that co-simulation without explicit x' cannot step."""
    model = found.model
    where = f"model {model.name} has no explicit derivatives"
    remedy = "use model.reduced_index(index=0), or give masses to what algebraic equations hold"
    if found.events or found.method != "radau-5":
        raise ValueError(f"{where}, which events and rk4 need; {remedy}")
    if model.index.value not in (0, 1):
        raise ValueError(f"{where}, and its {model.index}; use model.reduced_index()")
    of_rates = found.functions.get("outputs_jacobian_derivatives")
    if of_rates is not None and of_rates.sparsity is not None:
        name = tuple(model.outputs)[min(of_rates.sparsity.row)]
        raise ValueError(f"{where}, by which its output {name} is given; leave it out, or {remedy}")


def _inputs(hybrid: Hybrid, given: bool) -> Iterator[Any]:
    """Inputs that are given, or modes, in the order of the model."""
    return (u for u in hybrid.model.given if (name_of(u) in hybrid.modes) != given)


def _with_events(hybrid: Hybrid) -> tuple[dict[str, Any], tuple[tuple[bool, int], ...]]:
    """Outputs of the model, then guards, what arms them, and values after events; what these
    change."""
    states = {name: k for k, name in enumerate(hybrid.model.state_names)}
    modes = {name_of(u): k for k, u in enumerate(_inputs(hybrid, False))}
    more: list[Any] = []
    for event in hybrid.events:
        late = event.direction * _LATE * event.scale if event.level else 0
        more.append(event.guard - late)
    more += [event.when for event in hybrid.events]
    changes = []
    for event in hybrid.events:
        for target, value in event.resets.items():
            changes.append((False, states[name_of(target)]))
            more.append(value)
        for target, value in event.sets.items():
            changes.append((True, modes[name_of(target)]))
            more.append(value)
    named = {f"event value {k}": e for k, e in enumerate(more)}
    return {**hybrid.model.outputs, **named}, tuple(changes)


def _start(
    hybrid: Hybrid,
    initial: Mapping[Any, float] | None,
    parameters: Mapping[Any, float] | None,
    inputs: Mapping[Any, float] | None,
) -> dict[str, float]:
    model, start = hybrid.model, dict[str, float]()
    for what, given, names, default in (
        ("initial", initial, model.state_names, dict.fromkeys(model.state_names, 0.0)),
        ("inputs", inputs, hybrid.given, dict.fromkeys(hybrid.given, 0.0)),
        ("parameters", parameters, model.parameter_names, model.values),
    ):
        where = f"{what} of the FMU of {model.name}"
        chosen = by_name(mapping({} if given is None else given, where), names, where)
        start |= default
        start |= {name: real_number(value, f"{where}: {name}") for name, value in chosen.items()}
    start |= hybrid.modes
    for name in model.parameter_names:
        if not math.isfinite(start.get(name, math.nan)):
            raise ValueError(
                f"parameter {name} of model {model.name} has no value, with which an FMU would "
                f"start; give parameters={{{name!r}: ...}}"
            )
    check_values(model, {name: start[name] for name in model.parameter_names})
    return start


def _check_names(found: Component) -> None:
    """Raise `ValueError` for names that XML cannot hold or that are there twice."""
    every: Sequence[str] = [name for names in found.names.values() for name in names]
    twice = [name for name, count in Counter(every).items() if count > 1]
    if twice:
        raise ValueError(
            f"model {found.model.name}: two variables of the FMU would be called {twice[0]!r}; "
            "rename one in the model"
        )
    for name in (found.model.name, *every, *found.model.units.values()):
        if "\ufffe" in name or "\uffff" in name:
            raise ValueError(
                f"the name {name!r} has a character that XML does not allow; rename it"
            )


def described_units(found: Component) -> list[tuple[str, Any]]:
    """Units of variables, in their order, with what they are in base units, None if that is not
    known."""
    every = {found.unit(group, n): 0 for group, names in found.names.items() for n in names}
    return [(unit, base_unit(unit)) for unit in every if unit]
