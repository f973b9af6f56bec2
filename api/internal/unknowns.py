"""Unknown parameters as the user says them: bounds, and who has a value of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinesym.checks import check_identifier
from kinesym.runtime.nlp.collocation import bound_pair
from kinesym.runtime.signals.experiment import TRIAL
from kinesym.symbolic.names import by_name


@dataclass(frozen=True)
class Unknown:
    """An unknown parameter, whatever way it was given.

    low, high : bounds, infinite where there are none. label : trials with the same name for it
    share a value, see `per`; "" for all.
    """

    low: float = -np.inf
    high: float = np.inf
    label: str = ""


def per(label: str, unknown: Any = None) -> Unknown:
    """An unknown parameter with a value per subject, side, ...: `unknown={b: ks.per("subject", (0,
    10))}`.

    label : trials whose `Experiment(labels=...)` have the same name for it share a value; results
    call it `b[s03]`. unknown : as without `per`: bounds (low, high), None for free, or what
    `normal`, `lognormal` or `log_scale` return, which holds for each of the values.

    Raises `ValueError` for what is no label.
    """
    check_identifier(label, "the label of ks.per")
    made = checked_unknown(f"ks.per({label!r}, ...)", unknown)
    if made.label:
        raise ValueError(f"ks.per({label!r}, ...) has a label already, {made.label!r}; give one")
    return replace(made, label=label)


def per_trial(low: Any = None, high: Any = None) -> Unknown:
    """An unknown parameter with a value in each trial: `unknown={c: ks.per_trial(-1, 1)}`; results
    call them `c[0]`, `c[1]`, ...

    low, high : bounds, None for free; or one argument as of `per`.
    """
    single = high is None and (isinstance(low, (Unknown, tuple, list)))
    return per(TRIAL, low if single else (low, high))


def checked_unknown(name: str, given: Any) -> Unknown:
    """The record of a parameter that was given as such, by bounds or None."""
    return given if isinstance(given, Unknown) else Unknown(*bound_pair(name, given))


def checked_unknowns(given: Mapping[Any, Any] | None, known: Sequence[str]) -> dict[str, Unknown]:
    """Records of parameters by name, in the order of the `known` ones; raises `ValueError` for what
    is none of these."""
    found = by_name({} if given is None else given, known, "unknown")
    return {name: checked_unknown(name, found[name]) for name in known if name in found}


def labels_of(unknown: Mapping[str, Unknown]) -> dict[str, str]:
    """Labels of the parameters that have one."""
    return {name: given.label for name, given in unknown.items() if given.label}
