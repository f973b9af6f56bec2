"""Parameters by their owners: all trials, those of a subject, or one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def shared_values(known: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of the known values of each trial those that are the same in all."""
    return {name: v for name, v in known[0].items() if all(row[name] == v for row in known)}
