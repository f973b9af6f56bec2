"""Model and trials, checked one by one and against each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kinesym.base.checks import shown
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model


def check_system(system: Any, kinds: tuple[type, ...] = (Model, Hybrid), hint: str = "") -> None:
    """Raise `ValueError` for what is not of one of these kinds."""
    if not isinstance(system, kinds):
        names = {Model: "kinesym.Model", Hybrid: "kinesym.hybrid.Hybrid"}
        name = " or ".join(names[kind] for kind in kinds)
        raise ValueError(f"expected a {name}, got {shown(system)}{hint}")


def keep_trials(question: Any) -> None:
    """Keep trials that come from a generator, as they are looked at more than once."""
    if isinstance(question.trials, Iterator):
        object.__setattr__(question, "trials", list(question.trials))


def checked_trials(system: Any, trials: Any, *kinds: type) -> list[Experiment]:
    """The trials as a list; raises `ValueError` if they are something else, or the system is not of
    one of these kinds, a `Model` by default."""
    kinds = kinds or (Model,)
    turned = isinstance(trials, kinds)
    check_system(system, kinds, "; the model comes first, the trials after it" * turned)
    several = isinstance(trials, Iterable) and not isinstance(trials, str | Mapping)
    listed = list(trials) if several else [trials]
    if not listed or not all(isinstance(trial, Experiment) for trial in listed):
        wrong = next((type(x).__name__ for x in listed if not isinstance(x, Experiment)), "none")
        raise ValueError(
            f"trials must be an Experiment or a list of them, at least one experiment, got {wrong}"
        )
    return listed


def check_signals(trials: Sequence[Experiment]) -> None:
    """Raise `ValueError` for inputs that jump between nodes, which a scheme cannot show."""
    for number, trial in enumerate(trials):
        for name, signal in trial.signals.items():
            signal.check_span(trial.grid, f"input {name} of trial {number}")
            if name in trial.held:
                continue
            signal.warn_of_coarse(trial.grid, f"input {name} of trial {number}", stacklevel=5)
            jumps = signal.jumps(trial.grid[0], trial.grid[-1])
            if len(jumps):
                remedy = (
                    "add that time to the grid"
                    if signal.held
                    else "make it a held signal, with a node at each jump"
                )
                raise ValueError(
                    f"input {name} of trial {number} jumps at t = {jumps[0]:g} s, which a grid of "
                    f"samples cannot show; {remedy}"
                )
