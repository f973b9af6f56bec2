"""The unknown parameters and who has a value of each: all trials, those with the same label, such
as the trials of a subject, or each trial for itself.

In the order in which they lie in z, with parameters k for all, a and b per subject, c per trial:

    k | a[s01] b[s01] | a[s02] b[s02] | ... | c[0] | c[1] | ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import suggest
from kinesym.runtime.arrays import Array, one_number
from kinesym.runtime.signals.experiment import TRIAL, Experiment

#: The array of parameters of all trials; those by a label are p_LABEL.
_SHARED = "p"


@dataclass(frozen=True)
class OwnerGroup:
    """Parameters that the same owners have: those with a name for `label`, or all ("").

    members : names of the parameters. owners : their names. of_trial : number of the owner of each
    trial. begin : where the first one's lie among all parameters.
    """

    label: str
    members: tuple[str, ...]
    owners: tuple[str, ...]
    of_trial: tuple[int, ...]
    begin: int

    @property
    def names(self) -> list[str]:
        """Names of the values, owner by owner."""
        return [f"{p}[{of}]" if self.label else p for of in self.owners for p in self.members]

    @property
    def end(self) -> int:
        """Offset of the next group."""
        return self.begin + len(self.owners) * len(self.members)

    def of(self, trial: int) -> int:
        """Offset of the parameters of a trial among all."""
        return self.begin + self.of_trial[trial] * len(self.members)


@dataclass(frozen=True)
class Owned:
    """Values of all unknown parameters, ordered by their owners. parameters : their names in the
    order of the model, without owners. log_scale : those whose logarithm is in z."""

    parameters: tuple[str, ...]
    groups: tuple[OwnerGroup, ...]
    log_scale: frozenset[str] = frozenset()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the values: `k`, `b[s01]`, `c[0]`."""
        return tuple(name for group in self.groups for name in group.names)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The parameter of each value."""
        return tuple(p for g in self.groups for _ in g.owners for p in g.members)

    @cached_property
    def log(self) -> NDArray[np.bool_]:
        """Values of which z holds the logarithm."""
        return np.array([p in self.log_scale for p in self.members], dtype=bool)

    def natural(self, entries: Array) -> Array:
        """Values from the entries of z, (r,)."""
        values = entries.copy()
        values[self.log] = np.exp(entries[self.log])
        return values

    def slopes(self, entries: Array) -> Array:
        """Derivatives of the values by the entries of z, (r,)."""
        return np.where(self.log, self.natural(entries), 1.0)

    def entries(self, values: ArrayLike) -> Array:
        """Entries of z from values, (r,)."""
        made = np.array(values, dtype=np.float64)
        with np.errstate(divide="ignore"):
            made[self.log] = np.log(made[self.log])
        return made

    def begin(self, array: str, trial: int) -> int:
        """Offset of an array of parameters of a trial among all values."""
        label = array.removeprefix(_SHARED).removeprefix("_")
        [group] = [group for group in self.groups if group.label == label]
        return group.of(trial)

    def places(self, trial: int) -> NDArray[np.intp]:
        """Indices of the parameters of a trial among all values, in the order of `parameters`."""
        return self._places[trial]

    def place(self, name: str, trial: int) -> int:
        """Index of a parameter of a trial among all values."""
        group, k = self._where[name]
        return group.of(trial) + k

    def by_name(self, trial: int) -> dict[str, int]:
        """Indices among all values: of parameters, those of a trial, and of values by their own
        names, `b[s01]`."""
        own = zip(self.parameters, self.places(trial).tolist(), strict=True)
        return {name: k for k, name in enumerate(self.names)} | dict(own)

    @cached_property
    def _where(self) -> dict[str, tuple[OwnerGroup, int]]:
        return {p: (group, k) for group in self.groups for k, p in enumerate(group.members)}

    @cached_property
    def _places(self) -> list[NDArray[np.intp]]:
        made = []
        for trial in range(len(self.groups[0].of_trial)):
            found = {p: g.of(trial) + k for g in self.groups for k, p in enumerate(g.members)}
            made.append(np.array([found[p] for p in self.parameters], dtype=np.intp))
        return made

    @cached_property
    def first_trials(self) -> list[int]:
        """First trial of each value."""
        firsts = ((g, g.of_trial.index(k)) for g in self.groups for k in range(len(g.owners)))
        return [trial for group, trial in firsts for _ in group.members]

    def guessed(self, given: Mapping[str, Any]) -> dict[str, float]:
        """Values by their names from a guess: of a parameter a number for all its owners, or a
        mapping from owners to numbers; or a number by the name of the value itself. Raises
        `ValueError` for an unknown owner, and for values that are no numbers."""
        found: dict[str, float] = {}
        for group in self.groups:
            for p in group.members:
                found |= _of_owners(group, p, given[p]) if p in given else {}
        own = {name for name in self.names if name in given} - set(self.parameters)
        return found | {name: one_number(given[name], f"the guess of {name}") for name in own}


def is_parameters(array: str) -> bool:
    """Whether an array of z has parameters."""
    return array == _SHARED or array.startswith(f"{_SHARED}_")


def check_positive(owned: Owned, values: Array) -> None:
    """Raise `ValueError` for a guess (r,) that has no logarithm where that is estimated."""
    for name, value in zip(np.array(owned.names)[owned.log], values[owned.log], strict=True):
        if value <= 0.0:
            raise ValueError(
                f"the guess of {name} is {value:g}, but on a log scale it must be positive; give "
                "guess={...}"
            )


def owned_parameters(
    parameters: Sequence[str],
    labels: Mapping[str, str],
    trials: Sequence[Experiment],
    log_scale: Iterable[str] = (),
) -> Owned:
    """The unknown parameters, with the labels of those that have a value per owner, and those of
    which z has the logarithm. Raises `ValueError` for a trial without such a label."""
    groups, begin = list[OwnerGroup](), 0
    for label in dict.fromkeys(["", *(labels[p] for p in parameters if p in labels)]):
        members = tuple(p for p in parameters if labels.get(p, "") == label)
        owners = [_owner(members, label, k, trials) for k in range(len(trials))]
        names = tuple(dict.fromkeys(owners))
        of_trial = tuple(names.index(owner) for owner in owners)
        groups.append(OwnerGroup(label, members, names, of_trial, begin))
        begin = groups[-1].end
    return Owned(tuple(parameters), tuple(groups), frozenset(log_scale))


def _owner(members: Sequence[str], label: str, trial: int, trials: Sequence[Experiment]) -> str:
    """The owner of parameters of a trial."""
    if label in ("", TRIAL):
        return str(trial) if label else ""
    if label not in trials[trial].labels:
        every = dict.fromkeys(name for other in trials for name in other.labels)
        known = f"has no label {label}" if label in every else f"has none; {suggest(label, every)}"
        raise ValueError(
            f"parameter {members[0]} has a value per {label}, but trial {trial} {known}; give "
            f"labels={{{label!r}: ...}} in all experiments"
        )
    return str(trials[trial].labels[label])


def _of_owners(group: OwnerGroup, p: str, value: Any) -> dict[str, float]:
    """Values of a parameter by their names, for all owners or some."""
    what = f"the guess of {p}"
    if isinstance(value, Mapping) and not group.label:
        raise ValueError(f"{what} has one value for all trials, not one per owner: give a number")
    if not isinstance(value, Mapping):
        first = f"{{{group.owners[0]!r}: ...}}"
        number = one_number(value, what, f"; one per {group.label}: {first}" if group.label else "")
        return dict.fromkeys(group.names[group.members.index(p) :: len(group.members)], number)
    found: dict[str, float] = {}
    for key, number in value.items():
        owner = str(key)
        if owner not in group.owners:
            raise ValueError(
                f"{what}: no trial has the {group.label} {owner}; {suggest(owner, group.owners)}"
            )
        found[f"{p}[{owner}]"] = one_number(number, f"the guess of {p}[{owner}]")
    return found


def shared_values(known: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Known values that are the same in all trials."""
    return {name: v for name, v in known[0].items() if all(row[name] == v for row in known)}
