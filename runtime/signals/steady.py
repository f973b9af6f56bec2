"""Steady states in which experiments begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kinesym.runtime.arrays import one_number
from kinesym.runtime.signals.named import by_name


@dataclass(frozen=True)
class Steady:
    """Conditions before a record, by name: `parameters`, numbers or expressions; `inputs`, numbers;
    states that are `reset` at the start, numbers or expressions. See `ks.steady`."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, float] = field(default_factory=dict)
    reset: Mapping[str, Any] = field(default_factory=dict)


def steady(
    parameters: Mapping[Any, Any] | None = None,
    inputs: Mapping[Any, float] | None = None,
    reset: Mapping[Any, Any] | None = None,
) -> Steady:
    """The steady state in which an experiment begins: `ks.Experiment(..., before=ks.steady({dose:
    0}))`.

    parameters : values before the record where they differ from those of the experiment, numbers or
    expressions as in `Experiment(parameters=...)`; the symbol of a parameter itself means its value
    outside of the experiment, {k: k}. inputs : constant values before the record; default: those at
    its start. reset : states that begin the record with other values, numbers or expressions of
    parameters. All others go on from the steady state.

    The steady state is that to which `initial` leads; its expressions have the values before the
    record. It is the end of a simulation by radau-5 over spans that grow until no state changes by
    more than 1e-9 of itself, so that quantities that the model conserves stay as `initial` has
    them. Derivatives are those of its steps, which end in those of the implicit function theorem.
    Where there is none, the objective is infinite. For `Shooting` over a model without events and
    delays. Raises `ValueError` for what is no mapping.
    """
    given = {"parameters": parameters, "inputs": inputs, "reset": reset}
    rows = {
        what: by_name(f"{what} of ks.steady", {} if row is None else row)
        for what, row in given.items()
    }
    rows["inputs"] = {
        u: one_number(value, f"the input {u} of ks.steady") for u, value in rows["inputs"].items()
    }
    return Steady(**rows)
